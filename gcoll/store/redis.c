/*
 * gcoll/store/redis.c - a store in a Redis server.
 *
 * A key of the store is two Redis keys. "key" holds the value as a plain string, so Redis can add to a
 * counter (INCRBY, exact to 64 bits). "key!" is the mark: a list of one element that exists while the key
 * does. It is needed because Redis can wait for lists but not for strings. Our keys never have a '!'.
 *
 * A waiter moves the mark's element from the list to the same list by BRPOPLPUSH, which blocks while the list
 * is empty. Old and new servers have this command. It leaves the element for the next waiter, and costs a few
 * bytes however long the value is. A short script changes both Redis keys in one step.
 *
 * The mark's element is "1". If the key has a lifetime, it is "ttl" and the milliseconds. A set or an add
 * gives the key its lifetime again, so a kept key never becomes permanent by mistake. Both Redis keys expire
 * together.
 *
 * A lost connection is made again, with back-off, until the request's time is over. set, get, wait, keep and
 * remove may safely be sent twice. An add or a set_new may not: if its answer is lost, its outcome is
 * unknown, and the error says so.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/base.h"
#include "gcoll/store/redis_link.h"

#define FIRST_DELAY_NS 10000000  /* about the time in which a server restarts */
#define MAX_DELAY_NS   200000000 /* thousands of ranks must not overload a server that is back */
/* A wait is sent in slices of this length, so that a long wait notices a server whose host has died. */
#define SLICE_MS 5000
#define WORDS    6
#define MS_MAX   (INT64_C(366) * 86400 * 1000) /* enough for any job; sums stay in range */

/* Parts of the scripts. KEYS are the key and its mark. READ_MARK runs before WRITE_MARK, and ignores a key of
 * another program in the place of the mark. WRITE_MARK wakes the waiters. */
#define READ_MARK                                                                                            \
    "local mark=redis.pcall('LINDEX',KEYS[2],0) "                                                            \
    "local ttl=type(mark)=='string' and string.match(mark,'^ttl(%d+)$') "
#define WRITE_MARK                                                                                           \
    "redis.call('DEL',KEYS[2]) redis.call('RPUSH',KEYS[2],ttl and mark or '1') "                             \
    "if ttl then redis.call('PEXPIRE',KEYS[1],ttl) redis.call('PEXPIRE',KEYS[2],ttl) end "
#define SET_SCRIPT READ_MARK "redis.call('SET',KEYS[1],ARGV[1]) " WRITE_MARK "return 1"
/* Does not read the mark: an expired key leaves no lifetime to take over. */
#define SET_NEW_SCRIPT                                                                                       \
    "if redis.call('EXISTS',KEYS[1])==1 then return 0 end "                                                  \
    "local ttl,mark=false,false redis.call('SET',KEYS[1],ARGV[1]) " WRITE_MARK "return 1"
/* Returns the sum as text, because numbers in a script have only 53 bits. INCRBY runs before all other
 * writes: if it fails, nothing has changed. */
#define ADD_SCRIPT                                                                                           \
    READ_MARK "redis.call('INCRBY',KEYS[1],ARGV[1]) " WRITE_MARK "return redis.call('GET',KEYS[1])"
#define KEEP_SCRIPT                                                                                          \
    "if redis.call('EXISTS',KEYS[1])==0 then return 0 end "                                                  \
    "local ttl=ARGV[1] local mark='ttl'..ttl " WRITE_MARK "return 1"

typedef struct redis_store {
    gcoll_redis_address address;
    gcoll_redis_link link;
    int64_t timeout_ms; /* limit of a request, as given when the store was opened */
    int64_t limit_ms;   /* used instead of timeout_ms; -1: not set */
    bool whole_seconds; /* the server is older than Redis 6, and blocks for whole seconds only */
} redis_store;

/* A Redis command. Messages name verb and key. */
typedef struct command {
    const char *verb, *key;
    char mark[GCOLL_STORE_KEY_MAX + 2]; /* "key!" */
    bool repeatable;
    int count;
    const char *words[WORDS];
    size_t lengths[WORDS];
    char number[GCOLL_STORE_COUNTER_TEXT]; /* room for a word that is a number */
} command;

static void word(command *c, const char *text) {
    c->words[c->count] = text;
    c->lengths[c->count++] = strlen(text);
}

static void command_init(command *c, const char *verb, const char *key) {
    c->verb = verb;
    c->key = key;
    c->repeatable = true;
    c->count = 0;
    snprintf(c->mark, sizeof c->mark, "%s!", key);
}

static void script_init(command *c, const char *verb, const char *key, const char *script) {
    command_init(c, verb, key);
    word(c, "EVAL");
    word(c, script);
    word(c, "2");
    word(c, key);
    word(c, c->mark);
}

static bool starts_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* Adds verb and key to the last error, which names the server and the cause. */
static gcoll_status explain(const command *c, gcoll_status status, bool unknown) {
    return gcoll_error(status, "%s (%s \"%s\"%s)", gcoll_last_error(), c->verb, c->key,
                       unknown ? "; its outcome is unknown" : "");
}

/* Reports an answer of a type that the command does not have. */
static gcoll_status strange(const redis_store *self, const command *c, const redisReply *reply) {
    return gcoll_error(GCOLL_ERR_PROTOCOL,
                       "redis store %.300s: the answer is not that of a Redis server: type %d (%s \"%s\")",
                       self->address.name, reply->type, c->verb, c->key);
}

/* Sends the command once. An error answer becomes a status. */
static gcoll_status attempt(redis_store *self, command *c, int64_t deadline_ns, gcoll_redis_fault *fault,
                            redisReply **reply) {
    redisReply *answer = NULL;
    gcoll_status status =
        gcoll_redis_call(&self->link, c->count, c->words, c->lengths, deadline_ns, fault, &answer);
    if (status != GCOLL_OK)
        return status;
    if (answer->type != REDIS_REPLY_ERROR) {
        *reply = answer;
        return GCOLL_OK;
    }
    char text[GCOLL_REDIS_QUOTE];
    gcoll_redis_quote(answer, text);
    freeReplyObject(answer);
    fault->transient = starts_with(text, "LOADING ");
    bool counter = strstr(text, "value is not an integer") || strstr(text, "would overflow");
    if (starts_with(text, "ERR timeout is not an integer") && !self->whole_seconds) {
        self->whole_seconds = true;
        fault->transient = true;
    }
    status = counter ? GCOLL_ERR_INVALID : GCOLL_ERR_IO;
    gcoll_error(status, "redis store %.300s: the server answered: %s", self->address.name, text);
    return status;
}

static int64_t request_ms(const redis_store *self) {
    return self->limit_ms >= 0 ? self->limit_ms : self->timeout_ms;
}

/* Sends the command, and repeats it after transient failures until the request's time is over. */
static gcoll_status request(redis_store *self, command *c, redisReply **reply) {
    int64_t deadline = gcoll_store_deadline(request_ms(self)), delay = FIRST_DELAY_NS;
    for (;;) {
        gcoll_redis_fault fault;
        gcoll_status status = attempt(self, c, deadline, &fault, reply);
        if (status == GCOLL_OK)
            return GCOLL_OK;
        bool again = fault.transient && (c->repeatable || !fault.unknown);
        if (!again || !gcoll_store_pause(deadline, &delay, MAX_DELAY_NS))
            return explain(c, status, fault.unknown && !c->repeatable);
    }
}

/* Sends a command that is answered by a number. */
static gcoll_status ask_number(redis_store *self, command *c, long long *number) {
    redisReply *reply;
    gcoll_status status = request(self, c, &reply);
    if (status != GCOLL_OK)
        return status;
    if (reply->type != REDIS_REPLY_INTEGER)
        status = strange(self, c, reply);
    *number = reply->integer;
    freeReplyObject(reply);
    return status;
}

static gcoll_status redis_set(void *handle, const char *key, const void *value, size_t bytes) {
    redis_store *self = handle;
    command c;
    script_init(&c, "set", key, SET_SCRIPT);
    c.words[c.count] = value;
    c.lengths[c.count++] = bytes;
    long long number = 0;
    return ask_number(self, &c, &number);
}

static gcoll_status redis_set_new(void *handle, const char *key, const void *value, size_t bytes) {
    redis_store *self = handle;
    command c;
    script_init(&c, "set_new", key, SET_NEW_SCRIPT);
    c.words[c.count] = value;
    c.lengths[c.count++] = bytes;
    c.repeatable = false; /* a second one would find the value of the first */
    long long set = 0;
    gcoll_status status = ask_number(self, &c, &set);
    if (status == GCOLL_OK && set == 0)
        return gcoll_error(GCOLL_ERR_STATE, "redis store %.300s, set_new \"%s\": the key exists already",
                           self->address.name, key);
    return status;
}

static gcoll_status redis_get(void *handle, const char *key, void *value, size_t capacity, size_t *bytes) {
    redis_store *self = handle;
    command c;
    command_init(&c, "get", key);
    word(&c, "GET");
    word(&c, key);
    redisReply *reply;
    gcoll_status status = request(self, &c, &reply);
    if (status != GCOLL_OK)
        return status;
    size_t found = reply->type == REDIS_REPLY_STRING ? (size_t)reply->len : 0;
    if (reply->type == REDIS_REPLY_NIL)
        status = gcoll_error(GCOLL_ERR_NOT_FOUND, "redis store %.300s, get \"%s\": no such key",
                             self->address.name, key);
    else if (reply->type != REDIS_REPLY_STRING)
        status = strange(self, &c, reply);
    else if (found > capacity)
        status = gcoll_error(GCOLL_ERR_INVALID,
                             "redis store %.300s, get \"%s\": the value has %zu bytes; there is room for %zu",
                             self->address.name, key, found, capacity);
    if (status == GCOLL_OK) {
        memcpy(value, reply->str, found);
        *bytes = found;
    }
    freeReplyObject(reply);
    return status;
}

static gcoll_status redis_add(void *handle, const char *key, int64_t delta, int64_t *value) {
    redis_store *self = handle;
    command c;
    script_init(&c, "add", key, ADD_SCRIPT);
    snprintf(c.number, sizeof c.number, "%" PRId64, delta);
    word(&c, c.number);
    c.repeatable = false;
    redisReply *reply;
    gcoll_status status = request(self, &c, &reply);
    if (status != GCOLL_OK)
        return status;
    if (reply->type != REDIS_REPLY_STRING) {
        status = strange(self, &c, reply);
    } else {
        char where[GCOLL_STORE_KEY_MAX + 32];
        snprintf(where, sizeof where, "redis store, add \"%s\"", key);
        status = gcoll_store_counter_add(where, reply->str, (size_t)reply->len, 0, value);
    }
    freeReplyObject(reply);
    return status;
}

static gcoll_status redis_remove(void *handle, const char *key) {
    redis_store *self = handle;
    command c;
    command_init(&c, "remove", key);
    word(&c, "DEL");
    word(&c, key);
    word(&c, c.mark);
    long long number = 0;
    return ask_number(self, &c, &number);
}

static gcoll_status redis_keep(void *handle, const char *key, int64_t ttl_ms) {
    redis_store *self = handle;
    command c;
    script_init(&c, "keep", key, KEEP_SCRIPT);
    snprintf(c.number, sizeof c.number, "%" PRId64, ttl_ms < MS_MAX ? ttl_ms : MS_MAX);
    word(&c, c.number);
    long long kept = 0;
    gcoll_status status = ask_number(self, &c, &kept);
    if (status == GCOLL_OK && kept == 0)
        return gcoll_error(GCOLL_ERR_NOT_FOUND, "redis store %.300s, keep \"%s\": no such key",
                           self->address.name, key);
    return status;
}

static gcoll_status redis_set_timeout(void *handle, int64_t timeout_ms) {
    redis_store *self = handle;
    self->limit_ms = timeout_ms < MS_MAX ? timeout_ms : MS_MAX;
    return GCOLL_OK;
}

/* ---- Wait --------------------------------------------------------------------------------------- */

/* Asks the server once whether the key exists. The server blocks for up to left_ms and SLICE_MS, or answers
 * at once if left_ms is 0. *found is written on success. */
static gcoll_status ask(redis_store *self, command *c, int64_t left_ms, int64_t deadline_ns,
                        gcoll_redis_fault *fault, bool *found) {
    int64_t slice = left_ms < SLICE_MS ? left_ms : SLICE_MS;
    int64_t answer_by = gcoll_store_deadline(slice + request_ms(self));
    c->count = 0;
    if (slice == 0) {
        word(c, "EXISTS");
        word(c, c->mark);
    } else {
        word(c, "BRPOPLPUSH");
        word(c, c->mark);
        word(c, c->mark);
        c->words[c->count] = c->number;
        if (self->whole_seconds) {
            snprintf(c->number, sizeof c->number, "%" PRId64, (slice + 999) / 1000);
            /* The server may block longer, by a part of a second. Do not wait for that. */
            answer_by = gcoll_store_deadline(slice);
        } else {
            snprintf(c->number, sizeof c->number, "%" PRId64 ".%03d", slice / 1000, (int)(slice % 1000));
        }
        c->lengths[c->count++] = strlen(c->number);
    }
    redisReply *reply;
    gcoll_status status = attempt(self, c, answer_by < deadline_ns ? answer_by : deadline_ns, fault, &reply);
    if (status != GCOLL_OK)
        return status;
    if (reply->type == REDIS_REPLY_INTEGER)
        *found = reply->integer != 0;
    else if (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_NIL)
        *found = reply->type == REDIS_REPLY_STRING;
    else
        status = strange(self, c, reply);
    freeReplyObject(reply);
    return status;
}

static gcoll_status redis_wait(void *handle, const char *key, int64_t timeout_ms) {
    redis_store *self = handle;
    int64_t wanted_by = gcoll_store_deadline(timeout_ms), delay = FIRST_DELAY_NS;
    command c;
    command_init(&c, "wait", key);
    /* A restart of the server, and its answer, get the time of a request in addition. */
    int64_t deadline;
    if (__builtin_add_overflow(wanted_by, gcoll_store_deadline(request_ms(self)) - gcoll_now_ns(), &deadline))
        deadline = INT64_MAX;
    for (;;) {
        gcoll_redis_fault fault;
        bool found = false;
        int64_t left = gcoll_store_left_ms(wanted_by);
        gcoll_status status = ask(self, &c, left, deadline, &fault, &found);
        if (status == GCOLL_OK && found)
            return GCOLL_OK;
        if (status == GCOLL_OK && left == 0)
            return gcoll_error(GCOLL_ERR_TIMEOUT,
                               "redis store %.300s, wait \"%s\": not set within %" PRId64 " ms",
                               self->address.name, key, timeout_ms);
        if (status == GCOLL_OK)
            delay = FIRST_DELAY_NS;
        else if (!fault.transient || !gcoll_store_pause(deadline, &delay, MAX_DELAY_NS))
            return explain(&c, status, false);
    }
}

/* ---- Opening ------------------------------------------------------------------------------------ */

static void redis_destroy(void *handle) {
    redis_store *self = handle;
    gcoll_redis_end(&self->link);
    gcoll_redis_address_release(&self->address);
    free(self);
}

static const gcoll_store_ops redis_ops = {
    .struct_size = sizeof(gcoll_store_ops),
    .name = "redis",
    .set = redis_set,
    .get = redis_get,
    .wait = redis_wait,
    .add = redis_add,
    .remove = redis_remove,
    .destroy = redis_destroy,
    .set_new = redis_set_new,
    .set_timeout = redis_set_timeout,
    .keep = redis_keep,
};

gcoll_status gcoll_store_redis_create(gcoll_redis_address *address, int64_t timeout_ms, gcoll_store **store) {
    redis_store *self = calloc(1, sizeof *self);
    if (!self) {
        gcoll_redis_address_release(address);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "gcoll_store_open: no memory");
    }
    self->address = *address;
    self->timeout_ms = timeout_ms < MS_MAX ? timeout_ms : MS_MAX;
    self->limit_ms = -1;
    self->link.address = &self->address;
    self->link.fd = -1;
    int64_t deadline = gcoll_store_deadline(self->timeout_ms), delay = FIRST_DELAY_NS;
    redisReply *reply = NULL;
    gcoll_status status = self->address.is_encrypted ? gcoll_redis_set_up(&self->link) : GCOLL_OK;
    if (status != GCOLL_OK) {
        gcoll_error(status, "gcoll_store_open: %s", gcoll_last_error());
        goto destroy;
    }
    command ping;
    command_init(&ping, "open", "");
    word(&ping, "PING");
    /* Tries again while the server loads its data: then it answers, and the connection stays. A server that
     * is not there is more likely a mistake, and fails at once. */
    gcoll_redis_fault fault;
    do {
        status = attempt(self, &ping, deadline, &fault, &reply);
    } while (status != GCOLL_OK && fault.transient && self->link.fd >= 0 &&
             gcoll_store_pause(deadline, &delay, MAX_DELAY_NS));
    if (status != GCOLL_OK) {
        gcoll_error(status, "gcoll_store_open: %s", gcoll_last_error());
        goto destroy;
    }
    if (reply->type != REDIS_REPLY_STATUS)
        status = strange(self, &ping, reply);
    freeReplyObject(reply);
    if (status == GCOLL_OK)
        status = gcoll_store_create(&redis_ops, self, store);
    if (status == GCOLL_OK)
        return GCOLL_OK;
destroy:
    redis_destroy(self);
    return status;
}
