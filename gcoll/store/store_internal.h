/* gcoll/store/store_internal.h - what all kinds of stores share: their constructors, keys, counters and
 * deadlines. */
#ifndef GCOLL_STORE_INTERNAL_H
#define GCOLL_STORE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gcoll/store.h"

/* Room for a decimal int64_t with its sign and NUL. */
#define GCOLL_STORE_COUNTER_TEXT 24

/* Address, login and database of a Redis server, from a URL. The strings are owned. */
typedef struct gcoll_redis_address {
    char *host;     /* name, IPv4 or IPv6 address without brackets */
    char *user;     /* NULL: log in by the password alone */
    char *password; /* NULL: do not log in. Must never reach a message. */
    char *name;     /* "host:port", for messages */
    uint16_t port;
    uint32_t db;
    bool is_encrypted;                   /* by TLS */
    char *authority, *certificate, *key; /* files; NULL: the variables GCOLL_REDIS_CA and so on, or none */
} gcoll_redis_address;

/* Wipes the password and releases the strings. */
void gcoll_redis_address_release(gcoll_redis_address *address);

/* Parses the text after "redis://", or "rediss://" if it is encrypted. Error texts quote no part of it: in a
 * malformed URL any part may be the password. */
gcoll_status gcoll_redis_address_parse(const char *text, bool is_encrypted, gcoll_redis_address *address);

/* Opens a file store, and creates its folder if it is missing. `shared`: every user who can write the folder
 * is trusted. timeout_ms limits the wait for another rank's add. */
gcoll_status gcoll_store_file_create(const char *folder, bool shared, int64_t timeout_ms,
                                     gcoll_store **store);

/* Opens a Redis store: connects to the server. Takes over the strings of `address`, also on failure. */
gcoll_status gcoll_store_redis_create(gcoll_redis_address *address, int64_t timeout_ms, gcoll_store **store);

/* Whether the process that opens a tcp store serves. AUTO: if the host is its own and nobody else serves
 * yet. */
typedef enum gcoll_store_serve { GCOLL_SERVE_AUTO, GCOLL_SERVE_NO, GCOLL_SERVE_YES } gcoll_store_serve;

/* Opens a tcp store: serves it, or connects and tries again until the server is there. Takes over host and
 * name ("host:port"), also on failure. */
gcoll_status gcoll_store_tcp_create(char *host, char *name, uint16_t port, gcoll_store_serve serve,
                                    int64_t timeout_ms, gcoll_store **store);

/* Makes a store a view of another one, which has all operations that its base has. */
void gcoll_store_set_base(gcoll_store *store, const gcoll_store *base);

/* Serves at all addresses of this host, at a port that is free. The identity tells the server from others. */
gcoll_status gcoll_store_tcp_serve(int64_t timeout_ms, uint16_t *port, uint64_t *identity,
                                   gcoll_store **store);

/* Connects to the server of that identity, which one of `count` (1 or more) hosts runs at that port. Hosts
 * are numeric addresses. timeout_ms is that of later requests. */
gcoll_status gcoll_store_tcp_find(char *const *hosts, size_t count, uint16_t port, uint64_t identity,
                                  int64_t timeout_ms, int64_t deadline_ns, gcoll_store **store);

/* Asks this process's launcher, by the variables PMI_FD, PMI_RANK and PMI_SIZE, where rank 0 serves. */
gcoll_status gcoll_store_pmi_create(int64_t timeout_ms, gcoll_store **store);

/* Checks a key. Returns GCOLL_ERR_INVALID with the reason if it is not allowed. `what` names call and
 * argument. */
gcoll_status gcoll_store_key_check(const char *what, const char *key);

/* Adds delta to a counter. The value is `bytes` of decimal text as this library or Redis writes it (no
 * blanks, plus sign or leading zeros). Returns GCOLL_ERR_INVALID for other text or a sum beyond 64 bits.
 * `where` names store and key in the message. */
gcoll_status gcoll_store_counter_add(const char *where, const void *value, size_t bytes, int64_t delta,
                                     int64_t *sum);

/* Returns the monotonic time, in ns, that is timeout_ms from now, or INT64_MAX if that is too large. */
int64_t gcoll_store_deadline(int64_t timeout_ms);

/* Return the time that is left until a deadline: never negative, and in ms rounded up. */
int64_t gcoll_store_left_ns(int64_t deadline_ns);
int64_t gcoll_store_left_ms(int64_t deadline_ns);

/* Sleeps for *delay_ns but not past the deadline, and doubles *delay_ns up to max_ns. Returns false without
 * sleeping if the deadline has passed. */
bool gcoll_store_pause(int64_t deadline_ns, int64_t *delay_ns, int64_t max_ns);

#endif
