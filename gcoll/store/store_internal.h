/* gcoll/store/store_internal.h - functions that the kinds of stores share. */
#ifndef GCOLL_STORE_INTERNAL_H
#define GCOLL_STORE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gcoll/store.h"

/* Room for a decimal int64_t with its sign and NUL. */
#define GCOLL_STORE_COUNTER_TEXT 24

/* Where a Redis server is and how to log in, from a URL. The strings are owned. */
typedef struct gcoll_redis_address {
    char *host;     /* name, IPv4 or IPv6 address without brackets */
    char *user;     /* NULL: log in by the password alone */
    char *password; /* NULL: do not log in. Must never reach a message. */
    char *name;     /* "host:port", for messages */
    uint16_t port;
    uint32_t db;
} gcoll_redis_address;

/* Wipes the password and releases the strings. */
void gcoll_redis_address_release(gcoll_redis_address *address);

/* Parses what follows "redis://". The message of a failure quotes nothing of the text: a password may stand
 * anywhere in a URL that is malformed. */
gcoll_status gcoll_redis_address_parse(const char *text, gcoll_redis_address *address);

/* Makes the folder if it is missing. `shared`: whoever can write it is trusted. timeout_ms bounds the wait
 * for another rank's add. */
gcoll_status gcoll_store_file_create(const char *folder, bool shared, int64_t timeout_ms,
                                     gcoll_store **store);

/* Connects. Takes over what address holds, also on failure. */
gcoll_status gcoll_store_redis_create(gcoll_redis_address *address, int64_t timeout_ms, gcoll_store **store);

/* Whether the process that opens a tcp store serves: if the host is its own and nobody else does; never;
 * always. */
typedef enum gcoll_store_serve { GCOLL_SERVE_AUTO, GCOLL_SERVE_NO, GCOLL_SERVE_YES } gcoll_store_serve;

/* Serves or connects, with patience until the server is there. Takes over host and name ("host:port"), also
 * on failure. */
gcoll_status gcoll_store_tcp_create(char *host, char *name, uint16_t port, gcoll_store_serve serve,
                                    int64_t timeout_ms, gcoll_store **store);

/* Serves at all addresses of this host, at a port that is free. The identity tells the server from others. */
gcoll_status gcoll_store_tcp_serve(int64_t timeout_ms, uint16_t *port, uint64_t *identity,
                                   gcoll_store **store);

/* Connects to the server of that identity, which one of `count` (1 or more) hosts runs at that port. Hosts
 * are numeric addresses. timeout_ms is that of later requests. */
gcoll_status gcoll_store_tcp_find(char *const *hosts, size_t count, uint16_t port, uint64_t identity,
                                  int64_t timeout_ms, int64_t deadline_ns, gcoll_store **store);

/* Asks this process's launcher, by the variables PMI_FD, PMI_RANK and PMI_SIZE, where rank 0 serves. */
gcoll_status gcoll_store_pmi_create(int64_t timeout_ms, gcoll_store **store);

/* GCOLL_OK, or GCOLL_ERR_INVALID saying what is wrong with `key`. `what` names the call and argument. */
gcoll_status gcoll_store_key_check(const char *what, const char *key);

/* value + delta where the value is `bytes` of decimal text as this library or Redis writes it (no blanks,
 * plus sign or leading zeros). GCOLL_ERR_INVALID for other text or a sum beyond 64 bits; `where` names
 * store and key in the message. */
gcoll_status gcoll_store_counter_add(const char *where, const void *value, size_t bytes, int64_t delta,
                                     int64_t *sum);

/* Monotonic time at which timeout_ms from now is over. Saturates. */
int64_t gcoll_store_deadline(int64_t timeout_ms);

/* What is left until then: in ns, not negative; in ms, rounded up. */
int64_t gcoll_store_left_ns(int64_t deadline_ns);
int64_t gcoll_store_left_ms(int64_t deadline_ns);

/* Sleeps *delay_ns but not past the deadline, and doubles *delay_ns up to max_ns. false, and no sleep, if
 * the deadline has passed. */
bool gcoll_store_pause(int64_t deadline_ns, int64_t *delay_ns, int64_t max_ns);

#endif
