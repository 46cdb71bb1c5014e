/* gcoll/store/connect.h - connections to a server by its host's name, with a deadline on every part. */
#ifndef GCOLL_STORE_CONNECT_H
#define GCOLL_STORE_CONNECT_H

#include <netdb.h>

#include "gcoll/base/fork.h"
#include "gcoll/store/store_internal.h"

/* A server that a store talks to. The strings are borrowed. */
typedef struct gcoll_store_place {
    const char *kind; /* of store, for messages: "redis", "tcp" */
    const char *host; /* name, IPv4 or IPv6 address without brackets */
    const char *name; /* "host:port", for messages */
    uint16_t port;
} gcoll_store_place;

/* GCOLL_OK when fd is ready for `events` of poll; GCOLL_ERR_TIMEOUT at the deadline, with no text set. */
gcoll_status gcoll_store_poll(int fd, short events, int64_t deadline_ns);

/* The addresses of the host, for freeaddrinfo. *transient is written on failure: a later try may work. */
gcoll_status gcoll_store_resolve(const gcoll_store_place *place, int64_t deadline_ns, bool *transient,
                                 struct addrinfo **list);

/* A socket connected to the first address that answers. `descriptor`: the socket is entered there
 * (gcoll/base/fork.h), if it is not NULL. *transient as above. */
gcoll_status gcoll_store_connect(const gcoll_store_place *place, const struct addrinfo *list,
                                 int64_t deadline_ns, bool *transient, gcoll_descriptor *descriptor, int *fd);

/* For a connection that may rest for long: sends small requests at once, and notices that the other side's
 * host is gone, also while nothing is sent. */
void gcoll_store_set_long_lived(int fd);

#endif
