/*
 * gcoll/core/rendezvous.c - how the ranks of one run of a job find one another in a store, and nobody else's
 * leftovers.
 *
 * Keys below "gcoll/<job>/":
 *   join.<rank>              a nonce: "I am here", written by each rank but 0
 *   welcome.<rank>.<nonce>   the generation, a space and the size of the job, written by rank 0 in answer
 *   <generation>/addr.<rank> the rank's address, its host's id and its processors' id, with spaces between;
 *                            or what broke the rank, once it has left for that
 *   <generation>/hosts.<n>   how many ranks share processors, by rank 0 before it says go
 *                            (rendezvous_hosts.c)
 *   <generation>/go          "go", by rank 0 when all addresses are there; or "!", a status, a space and why
 *                            there will be no go, by any rank
 *   <generation>/agreed      what rank 0 decided afterwards (tuning.c), or why there will be no go. Most
 *                            ranks wait for this one only, so that they wake up once
 *   <generation>/left        counts the ranks that left; the last one removes what is common
 *
 * A crashed run may leave a join behind, which rank 0 answers in vain: the new process of that rank
 * overwrites it with another nonce, which rank 0 looks for until all are here. Nothing else is found by a
 * name that an earlier run could have used, because the generation is random.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gcoll/core/core_internal.h"
#include "gcoll/core/rendezvous.h"

#define NONCE_TEXT       33
#define FIRST_PAUSE_MS   1 /* rank 0 looks for joins and addresses at intervals that grow while none come */
#define LONGEST_PAUSE_MS 50
#define MISSING_LISTED   8   /* missing ranks named in an error */
#define GO_GRACE_MS      500 /* other ranks wait this much longer than rank 0, which says who is missing */
#define ASK_AGAIN_MS     1000
#define VERDICT_MAX      512
#define WELCOME_TEXT     48 /* a generation, a space, a size */

void gcoll_rendezvous_key(const gcoll_context *context, char key[GCOLL_STORE_KEY_MAX + 1], const char *format,
                          ...) {
    int at = snprintf(key, GCOLL_STORE_KEY_MAX + 1, "gcoll/%s/", context->job);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key + at, GCOLL_STORE_KEY_MAX + 1 - (size_t)at, format, arguments);
    va_end(arguments);
}

static bool is_hex(const char *text, size_t length) {
    return strlen(text) == length && strspn(text, "0123456789abcdef") == length;
}

/* A value that must be `length` hex digits. */
static gcoll_status get_hex(gcoll_context *context, const char *key, char *text, size_t length) {
    char value[64];
    size_t bytes = 0;
    gcoll_status status = gcoll_store_get(context->store, key, value, sizeof value - 1, &bytes);
    if (status != GCOLL_OK)
        return status;
    value[bytes] = '\0';
    if (!is_hex(value, length))
        return gcoll_error(GCOLL_ERR_PROTOCOL, "store key '%s' holds no %zu hex digits; another program's?",
                           key, length);
    memcpy(text, value, length + 1);
    return GCOLL_OK;
}

gcoll_status gcoll_generation_make(char generation[33]) {
    uint8_t random[16];
    gcoll_status status = gcoll_random_bytes(random, sizeof random);
    for (size_t i = 0; status == GCOLL_OK && i < sizeof random; i++)
        snprintf(generation + 2 * i, 3, "%02x", random[i]);
    return status;
}

void gcoll_generation_bytes(const char generation[33], uint8_t bytes[16]) {
    for (size_t i = 0; i < 16; i++) {
        unsigned byte = 0;
        sscanf(generation + 2 * i, "%2x", &byte);
        bytes[i] = (uint8_t)byte;
    }
}

static int64_t remaining(int64_t deadline_ms) {
    int64_t left = deadline_ms - gcoll_now_ms();
    return left > 0 ? left : 0;
}

/* ---- Rank 0 ------------------------------------------------------------------------------- */

/* What rank 0 knows of the ranks while they come. */
struct gathering {
    char (*nonces)[NONCE_TEXT]; /* the latest answered one of each rank */
    uint64_t *processors;       /* of the ranks below `there` */
    uint32_t there;             /* the first rank whose address is not there yet */
    bool came;                  /* somebody has since the last look */
};

static void gathering_free(struct gathering *g) {
    free(g->nonces);
    free(g->processors);
}

static gcoll_status gathering_create(struct gathering *g, uint32_t size) {
    *g = (struct gathering){.nonces = calloc(size, sizeof *g->nonces),
                            .processors = calloc(size, sizeof *g->processors),
                            .came = true};
    if (g->nonces && g->processors)
        return GCOLL_OK;
    gathering_free(g);
    return gcoll_error(GCOLL_ERR_NO_MEMORY, "size: no memory for %u ranks", size);
}

/* The rank was started anew, or what was answered before was a leftover: it is not there yet. */
static gcoll_status forget(gcoll_context *context, struct gathering *g, uint32_t rank) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    gcoll_rendezvous_key(context, key, "welcome.%u.%s", rank, g->nonces[rank]);
    gcoll_status status = gcoll_store_remove(context->store, key);
    gcoll_rendezvous_key(context, key, "%s/addr.%u", context->generation, rank);
    if (status == GCOLL_OK)
        status = gcoll_store_remove(context->store, key);
    g->there = rank < g->there ? rank : g->there;
    return status;
}

/* Answers the joins of the ranks from `first` that are there and were not answered yet. Adds their number to
 * *answered. */
static gcoll_status answer_joins(gcoll_context *context, uint32_t first, struct gathering *g,
                                 uint32_t *answered) {
    char key[GCOLL_STORE_KEY_MAX + 1], nonce[NONCE_TEXT];
    for (uint32_t rank = first; rank < context->size; rank++) {
        gcoll_rendezvous_key(context, key, "join.%u", rank);
        gcoll_status status = get_hex(context, key, nonce, NONCE_TEXT - 1);
        if (status == GCOLL_ERR_NOT_FOUND || (status == GCOLL_OK && strcmp(nonce, g->nonces[rank]) == 0))
            continue;
        if (status == GCOLL_OK && g->nonces[rank][0])
            status = forget(context, g, rank);
        if (status != GCOLL_OK)
            return status;
        memcpy(g->nonces[rank], nonce, NONCE_TEXT);
        gcoll_rendezvous_key(context, key, "welcome.%u.%s", rank, nonce);
        char welcome[WELCOME_TEXT];
        int bytes = snprintf(welcome, sizeof welcome, "%s %u", context->generation, context->size);
        status = gcoll_store_set(context->store, key, welcome, (size_t)bytes);
        if (status != GCOLL_OK)
            return status;
        (*answered)++;
    }
    return GCOLL_OK;
}

/* Raises g->there to the first rank whose address is not there yet. */
static gcoll_status count_addresses(gcoll_context *context, struct gathering *g) {
    char key[GCOLL_STORE_KEY_MAX + 1], record[GCOLL_RECORD_MAX];
    size_t bytes = 0;
    while (g->there < context->size) {
        gcoll_rendezvous_key(context, key, "%s/addr.%u", context->generation, g->there);
        gcoll_status status = gcoll_store_get(context->store, key, record, sizeof record - 1, &bytes);
        if (status != GCOLL_OK)
            return status == GCOLL_ERR_NOT_FOUND ? GCOLL_OK : status;
        record[bytes] = '\0';
        g->processors[g->there++] = gcoll_rendezvous_processors(record);
    }
    return GCOLL_OK;
}

static gcoll_status name_missing(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], list[128] = "", address[GCOLL_RECORD_MAX];
    uint32_t missing = 0;
    for (uint32_t rank = 0; rank < context->size; rank++) {
        size_t bytes, used = strlen(list);
        gcoll_rendezvous_key(context, key, "%s/addr.%u", context->generation, rank);
        gcoll_status status = gcoll_store_get(context->store, key, address, sizeof address, &bytes);
        if (status == GCOLL_OK)
            continue;
        if (status != GCOLL_ERR_NOT_FOUND) /* the store fails: it knows better, and asking on takes long */
            return status;
        if (missing++ < MISSING_LISTED)
            snprintf(list + used, sizeof list - used, "%s%u", used ? ", " : "", rank);
    }
    if (missing == 0)
        return gcoll_error(GCOLL_ERR_TIMEOUT,
                           "job '%s': rank 0 did not go on within %" PRId64 " ms, though all %u ranks joined",
                           context->job, context->timeout_ms, context->size);
    return gcoll_error(GCOLL_ERR_TIMEOUT, "job '%s': %u of %u ranks did not join within %" PRId64 " ms: %s%s",
                       context->job, missing, context->size, context->timeout_ms, list,
                       missing > MISSING_LISTED ? ", ..." : "");
}

/* A rank that could not join may say so before others have asked: they shall hear it too, if they come soon.
 */
static void answer_the_late(gcoll_context *context, struct gathering *g) {
    int64_t end_ms = gcoll_now_ms() + GO_GRACE_MS;
    uint32_t rank = 1, answered = 0;
    while (rank < context->size && gcoll_now_ms() < end_ms &&
           answer_joins(context, 1, g, &answered) == GCOLL_OK) {
        while (rank < context->size && g->nonces[rank][0])
            rank++;
        if (rank < context->size)
            usleep(FIRST_PAUSE_MS * 1000);
    }
}

/* One look at who has come. Says go once all have. Whose address is there needs no answer any more, unless it
 * was started again: so when nobody comes, all are looked at. */
static gcoll_status look(gcoll_context *context, const char *go, struct gathering *g) {
    uint32_t answered = 0, before = g->there;
    uint32_t first = g->came && before > 1 ? before : 1; /* rank 0 asks nobody */
    gcoll_status status = answer_joins(context, first, g, &answered);
    if (status == GCOLL_OK)
        status = count_addresses(context, g);
    if (status == GCOLL_OK && g->there == context->size) {
        status = gcoll_rendezvous_publish_shared(context, g->processors);
        if (status == GCOLL_OK)
            status = gcoll_store_set(context->store, go, "go", 2);
    }
    g->came = answered > 0 || g->there > before;
    return status;
}

/* Answers joins, again where an answer went to a leftover, until all are there or one says why it cannot. */
static gcoll_status gather(gcoll_context *context, int64_t deadline_ms) {
    char go[GCOLL_STORE_KEY_MAX + 1];
    gcoll_rendezvous_key(context, go, "%s/go", context->generation);
    struct gathering g;
    gcoll_status status = gathering_create(&g, context->size);
    if (status != GCOLL_OK)
        return status;
    int64_t pause_ms = FIRST_PAUSE_MS;
    for (;;) {
        status = look(context, go, &g);
        if (status != GCOLL_OK || g.there == context->size)
            break;
        int64_t left = remaining(deadline_ms);
        pause_ms = g.came                            ? FIRST_PAUSE_MS
                   : pause_ms < LONGEST_PAUSE_MS / 2 ? pause_ms * 2
                                                     : LONGEST_PAUSE_MS;
        status = gcoll_store_wait(context->store, go, left < pause_ms ? left : pause_ms);
        if (status != GCOLL_ERR_TIMEOUT)
            break;
        if (left == 0) {
            status = name_missing(context);
            gcoll_rendezvous_refuse(context, status);
            break;
        }
    }
    if (status == GCOLL_OK && g.there < context->size)
        answer_the_late(context, &g); /* they shall hear why, too */
    gathering_free(&g);
    return status;
}

/* ---- The others --------------------------------------------------------------------------- */

/* The generation, also where the sizes differ: what is wrong is then told under it. */
static gcoll_status read_welcome(gcoll_context *context, const char *key) {
    char value[WELCOME_TEXT];
    size_t bytes = 0;
    uint32_t size = 0;
    gcoll_status status = gcoll_store_get(context->store, key, value, sizeof value - 1, &bytes);
    if (status != GCOLL_OK)
        return status;
    value[bytes] = '\0';
    char *space = strchr(value, ' '), *end = NULL;
    if (space) {
        *space = '\0';
        size = (uint32_t)strtoul(space + 1, &end, 10);
    }
    if (!space || end == space + 1 || *end != '\0' || !is_hex(value, sizeof context->generation - 1))
        return gcoll_error(GCOLL_ERR_PROTOCOL,
                           "store key '%s' holds no generation and size; another program's?", key);
    memcpy(context->generation, value, sizeof context->generation);
    if (size != context->size)
        return gcoll_error(GCOLL_ERR_MISMATCH, "options.size: is %u on rank %u, but %u on rank 0",
                           context->size, context->rank, size);
    return GCOLL_OK;
}

static gcoll_status ask_generation(gcoll_context *context, int64_t deadline_ms) {
    char nonce[NONCE_TEXT], join[GCOLL_STORE_KEY_MAX + 1], welcome[GCOLL_STORE_KEY_MAX + 1];
    gcoll_status status = gcoll_generation_make(nonce);
    if (status != GCOLL_OK)
        return status;
    gcoll_rendezvous_key(context, join, "join.%u", context->rank);
    gcoll_rendezvous_key(context, welcome, "welcome.%u.%s", context->rank, nonce);
    int64_t left;
    do { /* a dying process of an earlier run may take our question for its own, and remove it */
        status = gcoll_store_set(context->store, join, nonce, strlen(nonce));
        if (status != GCOLL_OK)
            return status;
        left = remaining(deadline_ms);
        status = gcoll_store_wait(context->store, welcome, left < ASK_AGAIN_MS ? left : ASK_AGAIN_MS);
    } while (status == GCOLL_ERR_TIMEOUT && left > 0);
    if (status == GCOLL_ERR_TIMEOUT)
        status =
            gcoll_error(GCOLL_ERR_TIMEOUT,
                        "job '%s': rank 0 did not answer rank %u within %" PRId64 " ms (it answers ranks "
                        "below its own size)",
                        context->job, context->rank, context->timeout_ms);
    if (status == GCOLL_OK)
        status = read_welcome(context, welcome);
    char text[VERDICT_MAX];
    snprintf(text, sizeof text, "%s", gcoll_last_error());
    gcoll_store_remove(context->store, welcome);
    /* Answered or not, the question has served. An answer that a crash cuts short is asked for anew. */
    gcoll_store_remove(context->store, join);
    return status == GCOLL_OK ? status : gcoll_error(status, "%s", text);
}

/* ---- Both --------------------------------------------------------------------------------- */

gcoll_status gcoll_rendezvous_begin(gcoll_context *context, int64_t deadline_ms) {
    return context->rank == 0 ? gcoll_generation_make(context->generation)
                              : ask_generation(context, deadline_ms);
}

void gcoll_rendezvous_record(const char *address, char record[GCOLL_RECORD_MAX]) {
    snprintf(record, GCOLL_RECORD_MAX, "%s %016" PRIx64 " %016" PRIx64, address, gcoll_host_identity(),
             gcoll_processors_identity());
}

uint32_t gcoll_host_cores(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (uint32_t)count : 1;
}

static gcoll_status announce(gcoll_context *context, const char *address) {
    char key[GCOLL_STORE_KEY_MAX + 1], record[GCOLL_RECORD_MAX];
    gcoll_rendezvous_key(context, key, "%s/addr.%u", context->generation, context->rank);
    gcoll_rendezvous_record(address, record);
    context->joined = true; /* also if what follows fails half-way */
    return gcoll_store_set(context->store, key, record, strlen(record));
}

void gcoll_rendezvous_refuse(gcoll_context *context, gcoll_status status) {
    char key[GCOLL_STORE_KEY_MAX + 1], cause[VERDICT_MAX], verdict[VERDICT_MAX];
    snprintf(cause, sizeof cause, "%s", gcoll_last_error());
    if (status == GCOLL_ERR_PEER)
        snprintf(verdict, sizeof verdict, "!%d job '%s': rank %u could not join: %.400s", (int)status,
                 context->job, context->rank, cause);
    else
        snprintf(verdict, sizeof verdict, "!%d %.500s", (int)status, cause);
    gcoll_rendezvous_key(context, key, "%s/agreed", context->generation);
    gcoll_store_set(context->store, key, verdict, strlen(verdict));
    gcoll_rendezvous_key(context, key, "%s/go", context->generation);
    gcoll_store_set(context->store, key, verdict, strlen(verdict));
    struct gathering g;
    if (context->rank == 0 && !context->joined && gathering_create(&g, context->size) == GCOLL_OK) {
        answer_the_late(context, &g); /* nobody has been answered yet */
        gathering_free(&g);
    }
    gcoll_error(status, "%s", cause); /* the store may have left a text of its own */
}

/* The text comes from the store: another program may have written it. */
gcoll_status gcoll_rendezvous_verdict(const char *text) {
    char *end = NULL;
    long status = text[0] == '!' ? strtol(text + 1, &end, 10) : 0;
    if (status <= GCOLL_OK || status > GCOLL_ERR_INTERNAL || *end != ' ')
        return gcoll_error(GCOLL_ERR_PROTOCOL, "the store's word for all ranks is none; another program's?");
    return gcoll_error((gcoll_status)status, "%s", end + 1);
}

/* Waits for what rank 0 says; ranks that are told of a failure give the text that it was found with. */
static gcoll_status await_go(gcoll_context *context, int64_t deadline_ms) {
    char key[GCOLL_STORE_KEY_MAX + 1], text[VERDICT_MAX + 1];
    const bool asked = context->rank == 0 || gcoll_fit_asks(context);
    size_t bytes = 0;
    gcoll_rendezvous_key(context, key, "%s/%s", context->generation, asked ? "go" : "agreed");
    gcoll_status status = gcoll_store_wait(context->store, key, remaining(deadline_ms) + GO_GRACE_MS);
    if (status == GCOLL_ERR_TIMEOUT)
        return name_missing(context);
    if (status != GCOLL_OK || !asked)
        return status; /* what was agreed is read by tuning.c */
    status = gcoll_store_get(context->store, key, text, sizeof text - 1, &bytes);
    if (status != GCOLL_OK)
        return status;
    text[bytes] = '\0';
    return strcmp(text, "go") == 0 ? GCOLL_OK : gcoll_rendezvous_verdict(text);
}

gcoll_status gcoll_rendezvous_finish(gcoll_context *context, const char *address, int64_t deadline_ms,
                                     uint32_t *local_ranks) {
    gcoll_status status = announce(context, address);
    if (status == GCOLL_OK && context->rank == 0)
        status = gather(context, deadline_ms);
    if (status == GCOLL_OK)
        status = await_go(context, deadline_ms);
    return status == GCOLL_OK ? gcoll_rendezvous_count_shared(context, local_ranks) : status;
}
