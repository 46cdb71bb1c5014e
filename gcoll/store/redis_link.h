/* gcoll/store/redis_link.h - one connection to a Redis server; every step has a deadline. */
#ifndef GCOLL_STORE_REDIS_LINK_H
#define GCOLL_STORE_REDIS_LINK_H

#include <hiredis.h>

#include "gcoll/base/tls.h"
#include "gcoll/store/store_internal.h"

/* Room for a server's text that a message quotes, with the NUL. */
#define GCOLL_REDIS_QUOTE 256

/* What the caller must know about a failure. */
typedef struct gcoll_redis_fault {
    bool transient; /* a later try may succeed: the server was away, or is loading its data */
    bool unknown;   /* at least a part of the request was sent, and no answer came */
} gcoll_redis_fault;

typedef struct gcoll_redis_link {
    const gcoll_redis_address *address; /* borrowed */
    gcoll_tls_setup *setup;             /* NULL: not encrypted */
    int fd;                             /* -1: not connected */
    gcoll_tls *tls;                     /* NULL: not encrypted, or not connected */
    redisReader *reader;                /* NULL: not connected */
} gcoll_redis_link;

/* Sends a command and gives its answer. If there is no connection, or the server closed it, connects first,
 * with login and choice of the database. The answer may be of type REDIS_REPLY_ERROR. The caller frees it.
 * After a failure the connection is closed. Messages name the server, not the request. */
gcoll_status gcoll_redis_call(gcoll_redis_link *link, int argc, const char **argv, const size_t *lengths,
                              int64_t deadline_ns, gcoll_redis_fault *fault, redisReply **reply);

/* Copies the text of an error answer, shortened, and with '?' for bytes that are not printable. */
const char *gcoll_redis_quote(const redisReply *reply, char text[GCOLL_REDIS_QUOTE]);

void gcoll_redis_close(gcoll_redis_link *link);

/* Reads the files of an encrypted server's address. Not for others. */
gcoll_status gcoll_redis_set_up(gcoll_redis_link *link);
/* Closes it for ever. */
void gcoll_redis_end(gcoll_redis_link *link);

#endif
