/* gcoll/record/record.c - the flight recorder's memory: names, operations, and what is waited for. */
#include "gcoll/record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SWITCH      "GCOLL_RECORD"
#define ROUNDS_MOST 0xfffffU
#define WAIT_SINCE  3   /* the word with its time */
#define TRIES       100 /* of reading what is being written */

static gcoll_status is_wanted(bool *wanted) {
    const char *given = getenv(SWITCH);
    *wanted = !given || given[0] == '\0' || strcmp(given, "on") == 0;
    if (*wanted || strcmp(given, "off") == 0)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INVALID, SWITCH ": is '%.40s'; allowed are on and off", given);
}

gcoll_status gcoll_record_create(gcoll_context *context) {
    struct timespec now;
    bool wanted;
    gcoll_status status = is_wanted(&wanted);
    if (status != GCOLL_OK || !wanted)
        return status;
    context->record = gcoll_allocate_zeroed(context, sizeof *context->record);
    if (!context->record)
        return GCOLL_ERR_NO_MEMORY;
    gcoll_ticks_prepare();
    context->record->began = gcoll_tick_mark_now();
    clock_gettime(CLOCK_REALTIME, &now);
    context->record->began_unix_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    return gcoll_record_take_signal();
}

void gcoll_record_free(gcoll_context *context) {
    gcoll_record_unwatch(context);
    gcoll_release(context, context->record, sizeof *context->record);
    context->record = NULL;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* The number of a name, which is added if it is new. */
static uint32_t name_number(gcoll_record *record, const char *name) {
    const uint32_t count = atomic_load_explicit(&record->name_count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++)
        if (strncmp(record->names[i], name, sizeof record->names[i] - 1) == 0)
            return i;
    if (count == GCOLL_RECORD_NAMES)
        return GCOLL_RECORD_NAMES;
    snprintf(record->names[count], sizeof record->names[count], "%s", name);
    atomic_store_explicit(&record->name_count, count + 1, memory_order_release);
    return count;
}

void gcoll_record_describe(gcoll_context *context, const gcoll_record_plan *plan, gcoll_record_shape *shape) {
    if (!context->record)
        return;
    const double ps = plan->seconds * 1e12;
    const uint64_t words[] = {
        plan->count,
        plan->sent,
        plan->collective | plan->type << 8 | plan->op << 16 | (uint64_t)plan->form << 24 |
            (uint64_t)name_number(context->record, plan->algorithm) << 32,
        plan->root | (uint64_t)plan->element_bytes << 32,
        ps >= 0 && ps < 1e18 ? (uint64_t)ps : UINT64_MAX,
        plan->rounds < ROUNDS_MOST ? plan->rounds : ROUNDS_MOST,
    };
    _Static_assert(sizeof words == sizeof shape->words, "the words of a shape");
    memcpy(shape->words, words, sizeof words);
}

void gcoll_record_fail(gcoll_context *context, uint64_t number, uint32_t round, uint32_t peer) {
    if (!context->record)
        return;
    _Atomic uint64_t *slot = gcoll_record_slot(context->record, number);
    if (atomic_load_explicit(&slot[GCOLL_RECORD_NUMBER], memory_order_relaxed) != number)
        return;
    uint64_t rounds = atomic_load_explicit(&slot[GCOLL_RECORD_ROUNDS], memory_order_relaxed) & ROUNDS_MOST;
    if (peer != GCOLL_NO_RANK)
        rounds |= (uint64_t)((round + 1) & 0xfffff) << 20 | (uint64_t)((peer + 1) & 0xffffff) << 40;
    atomic_store_explicit(&slot[GCOLL_RECORD_ROUNDS], rounds, memory_order_relaxed);
    const uint64_t what = atomic_load_explicit(&slot[GCOLL_RECORD_WHAT], memory_order_relaxed);
    atomic_store_explicit(&slot[GCOLL_RECORD_WHAT], what | (uint64_t)GCOLL_RECORD_FAILED << 48,
                          memory_order_relaxed);
    gcoll_record_end(context, number);
}

void gcoll_record_wait_for(gcoll_context *context, const gcoll_record_wait *wait) {
    gcoll_record *record = context->record;
    const uint64_t words[] = {wait->number,
                              wait->round | (uint64_t)wait->rounds << 32,
                              wait->peers,
                              gcoll_ticks(),
                              wait->peer[0] | (uint64_t)wait->peer[1] << 32,
                              wait->peer[2] | (uint64_t)wait->peer[3] << 32};
    _Static_assert(sizeof words == sizeof record->wait, "the words of a wait");
    const uint64_t version = atomic_load_explicit(&record->waits, memory_order_relaxed);
    bool is_known = version > 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        is_known = is_known && (i == WAIT_SINCE ||
                                atomic_load_explicit(&record->wait[i], memory_order_relaxed) == words[i]);
    if (is_known) /* a wait is looked at often, and `since` is when it began */
        return;
    atomic_store_explicit(&record->waits, version + 1, memory_order_relaxed); /* odd: being written */
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        atomic_store_explicit(&record->wait[i], words[i], memory_order_release);
    atomic_store_explicit(&record->waits, version + 2, memory_order_release);
}

void gcoll_record_wait_over(gcoll_context *context) {
    const gcoll_record_wait none = {0};
    if (context->record && atomic_load_explicit(&context->record->wait[0], memory_order_relaxed) != 0)
        gcoll_record_wait_for(context, &none);
}

/* ---- Reading --------------------------------------------------------------------------------- */

bool gcoll_record_read(gcoll_record *record, uint64_t number, uint64_t words[GCOLL_RECORD_WORDS]) {
    _Atomic uint64_t *slot = gcoll_record_slot(record, number);
    if (atomic_load_explicit(&slot[GCOLL_RECORD_NUMBER], memory_order_acquire) != number)
        return false;
    for (int i = 0; i < GCOLL_RECORD_WORDS; i++)
        words[i] = atomic_load_explicit(&slot[i], memory_order_acquire);
    return atomic_load_explicit(&slot[GCOLL_RECORD_NUMBER], memory_order_relaxed) == number;
}

bool gcoll_record_read_wait(gcoll_record *record, gcoll_record_wait *wait) {
    uint64_t words[sizeof record->wait / sizeof record->wait[0]];
    for (int tries = 0; tries < TRIES; tries++) {
        const uint64_t version = atomic_load_explicit(&record->waits, memory_order_acquire);
        if (version == 0)
            return false;
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            words[i] = atomic_load_explicit(&record->wait[i], memory_order_acquire);
        if ((version & 1) != 0 || atomic_load_explicit(&record->waits, memory_order_relaxed) != version)
            continue;
        *wait = (gcoll_record_wait){.number = words[0],
                                    .round = (uint32_t)words[1],
                                    .rounds = (uint32_t)(words[1] >> 32),
                                    .peers = (uint32_t)words[2],
                                    .since = words[3]};
        for (int i = 0; i < GCOLL_RECORD_PEERS; i++)
            wait->peer[i] = (uint32_t)(words[4 + i / 2] >> (i % 2 == 0 ? 0 : 32));
        return true;
    }
    return false;
}
