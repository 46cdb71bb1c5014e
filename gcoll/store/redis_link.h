/* gcoll/store/redis_link.h - one connection to a Redis server; every step has a deadline. */
#ifndef GCOLL_STORE_REDIS_LINK_H
#define GCOLL_STORE_REDIS_LINK_H

#include <hiredis.h>

#include "gcoll/store/store_internal.h"

/* Longest text of a server that a message quotes. */
#define GCOLL_REDIS_QUOTE 256

/* What a failed call means for its caller. */
typedef struct gcoll_redis_fault {
    bool transient; /* the server was away, or is still loading: a later try may work */
    bool unknown;   /* the request was sent, or a part of it, and no answer came */
} gcoll_redis_fault;

typedef struct gcoll_redis_link {
    const gcoll_redis_address *address; /* borrowed */
    int fd;                             /* -1: not connected */
    redisReader *reader;                /* NULL: not connected */
} gcoll_redis_link;

/* Sends a command and gives its answer, connecting first (with login and choice of database) if there is no
 * connection or the server closed it. The answer may be of type REDIS_REPLY_ERROR; the caller frees it.
 * After a failure the connection is closed. Messages name the server, not the request. */
gcoll_status gcoll_redis_call(gcoll_redis_link *link, int argc, const char **argv, const size_t *lengths,
                              int64_t deadline_ns, gcoll_redis_fault *fault, redisReply **reply);

/* The text of an error answer, cut and free of bytes that would upset a terminal or a log. */
const char *gcoll_redis_quote(const redisReply *reply, char text[GCOLL_REDIS_QUOTE]);

void gcoll_redis_close(gcoll_redis_link *link);

#endif
