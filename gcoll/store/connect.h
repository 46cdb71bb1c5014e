/* gcoll/store/connect.h - connects to a server by its host name; every step has a deadline. */
#ifndef GCOLL_STORE_CONNECT_H
#define GCOLL_STORE_CONNECT_H

#include <netdb.h>

#include "gcoll/base/fork.h"
#include "gcoll/store/store_internal.h"

/* Address of a store's server. The strings are borrowed. */
typedef struct gcoll_store_place {
    const char *kind; /* kind of the store, for messages: "redis", "tcp" */
    const char *host; /* name, IPv4 or IPv6 address without brackets */
    const char *name; /* "host:port", for messages */
    uint16_t port;
} gcoll_store_place;

/* Waits until fd is ready for the poll events `events`, or has failed. Returns GCOLL_ERR_TIMEOUT at the
 * deadline, and sets no error text. */
gcoll_status gcoll_store_poll(int fd, short events, int64_t deadline_ns);

/* Resolves the host name. The caller frees *list by freeaddrinfo. On failure, *transient says whether a later
 * try may succeed. */
gcoll_status gcoll_store_resolve(const gcoll_store_place *place, int64_t deadline_ns, bool *transient,
                                 struct addrinfo **list);

/* Connects a socket to the first address of the list that answers. If `descriptor` is not NULL, the socket is
 * entered in it (gcoll/base/fork.h). *transient is as above. */
gcoll_status gcoll_store_connect(const gcoll_store_place *place, const struct addrinfo *list,
                                 int64_t deadline_ns, bool *transient, gcoll_descriptor *descriptor, int *fd);

/* Prepares a connection that may be idle for long. Small requests are sent at once. TCP keepalive notices
 * that the other host is gone, even if nothing is sent. */
void gcoll_store_set_long_lived(int fd);

#endif
