/* gcoll/record/record.c - the flight recorder's memory: names, operations, and what is waited for. */
#include "gcoll/record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SWITCH      "GCOLL_RECORD"
#define ROUNDS_MOST 0xfffffU
#define STEPS_BYTES (sizeof(uint64_t[GCOLL_RECORD_STEPS][GCOLL_RECORD_STEP_WORDS]))
#define WAIT_SINCE  3 /* the word with its time */

static gcoll_status is_wanted(bool *wanted, bool *steps) {
    const char *given = getenv(SWITCH);
    *steps = given && strcmp(given, "steps") == 0;
    *wanted = !given || given[0] == '\0' || strcmp(given, "on") == 0 || *steps;
    if (*wanted || strcmp(given, "off") == 0)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INVALID, SWITCH ": is '%.40s'; allowed are on, off and steps", given);
}

gcoll_status gcoll_record_create(gcoll_context *context) {
    struct timespec now;
    bool wanted, steps;
    gcoll_status status = is_wanted(&wanted, &steps);
    if (status != GCOLL_OK || !wanted)
        return status;
    context->record = gcoll_allocate_zeroed(context, sizeof *context->record);
    if (!context->record)
        return GCOLL_ERR_NO_MEMORY;
    context->record->peers = gcoll_allocate_zeroed(context, context->size * sizeof *context->record->peers);
    if (steps)
        context->record->steps = gcoll_allocate_zeroed(context, STEPS_BYTES);
    if (!context->record->peers || (steps && !context->record->steps)) {
        gcoll_record_free(context);
        return GCOLL_ERR_NO_MEMORY;
    }
    static atomic_uint recorders;
    context->record->number = atomic_fetch_add(&recorders, 1) + 1;
    pthread_mutex_init(&context->record->files, NULL);
    pthread_mutex_init(&context->record->lock, NULL); /* cannot fail without attributes */
    gcoll_ticks_prepare();
    context->record->began = gcoll_tick_mark_now();
    clock_gettime(CLOCK_REALTIME, &now);
    context->record->began_unix_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    status = gcoll_record_take_signal();
    return status == GCOLL_OK ? gcoll_record_take_watch(context) : status;
}

void gcoll_record_free(gcoll_context *context) {
    if (!context->record)
        return;
    gcoll_record_unwatch(context);
    gcoll_release(context, (void *)context->record->steps, STEPS_BYTES);
    for (uint32_t rank = 0; context->record->peers && rank < context->size; rank++)
        gcoll_release(context, gcoll_record_peer_of(context->record, rank), sizeof(gcoll_record_peer));
    gcoll_release(context, (void *)context->record->peers, context->size * sizeof *context->record->peers);
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

/* The flows of a plan: one a peer. */
static gcoll_status list_flows(gcoll_context *context, const gcoll_record_call *call,
                               gcoll_record_shape *shape) {
    const gcoll_plan *plan = call->plan;
    uint32_t *place = calloc(context->size, sizeof *place); /* of each peer's flow, plus 1 */
    if (!place)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the flows to %u ranks", context->size);
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (gcoll_step_is_message(&plan->steps[i]) && place[plan->steps[i].peer] == 0)
            place[plan->steps[i].peer] = ++shape->flow_count;
    shape->flows = gcoll_allocate_zeroed(context, shape->flow_count * sizeof *shape->flows);
    for (uint32_t i = 0; i < plan->step_count && shape->flows; i++) {
        const gcoll_step *step = &plan->steps[i];
        if (!gcoll_step_is_message(step))
            continue;
        gcoll_record_flow *flow = &shape->flows[place[step->peer] - 1];
        const uint64_t bytes = step->count * call->element_bytes;
        const bool sends = step->kind == GCOLL_STEP_SEND;
        flow->peer = step->peer;
        flow->sent_messages += sends;
        flow->received_messages += !sends;
        *(sends ? &flow->sent_bytes : &flow->received_bytes) += bytes;
    }
    free(place);
    return shape->flows ? GCOLL_OK : GCOLL_ERR_NO_MEMORY;
}

gcoll_status gcoll_record_describe(gcoll_context *context, const gcoll_record_call *call,
                                   gcoll_record_shape *shape) {
    gcoll_record *record = context->record;
    if (!record)
        return GCOLL_OK;
    gcoll_status status = list_flows(context, call, shape);
    if (status != GCOLL_OK)
        return status;
    const double ps = call->seconds * 1e12;
    const uint32_t rounds = call->plan->rounds;
    uint64_t sent = 0;
    for (uint32_t i = 0; i < shape->flow_count; i++)
        sent += shape->flows[i].sent_bytes;
    const uint64_t words[] = {
        call->count,
        sent,
        call->collective | call->type << 8 | call->op << 16 | (uint64_t)call->form << 24 |
            (uint64_t)name_number(record, call->algorithm) << 32,
        call->root | (uint64_t)call->element_bytes << 32,
        ps >= 0 && ps < 1e18 ? (uint64_t)ps : UINT64_MAX,
        rounds < ROUNDS_MOST ? rounds : ROUNDS_MOST,
    };
    _Static_assert(sizeof words == sizeof shape->words, "the words of a shape");
    memcpy(shape->words, words, sizeof words);
    shape->bytes = call->count * call->element_bytes;
    shape->counts = &record->collectives[call->collective];
    pthread_mutex_lock(&record->lock);
    shape->next = record->shapes;
    shape->link = &record->shapes;
    if (shape->next)
        shape->next->link = &shape->next;
    record->shapes = shape;
    pthread_mutex_unlock(&record->lock);
    return GCOLL_OK;
}

gcoll_record_peer *gcoll_record_meet(gcoll_context *context, uint32_t rank) {
    gcoll_record *record = context->record;
    gcoll_record_peer *peer = gcoll_record_peer_of(record, rank);
    if (peer)
        return peer;
    peer = gcoll_allocate_zeroed(context, sizeof *peer);
    if (!peer)
        return &record->crowd; /* a job without so much memory will hear of that from elsewhere */
    atomic_store_explicit(&record->peers[rank], peer, memory_order_release);
    return peer;
}

/* Keeps what the shape has counted. */
static void keep_counts(gcoll_context *context, const gcoll_record_shape *shape) {
    const uint64_t done = gcoll_count_get(&shape->done);
    gcoll_count_add(&shape->counts->done, done);
    gcoll_count_add(&shape->counts->bytes, done * shape->bytes);
    gcoll_count_add(&shape->counts->sent_bytes, done * shape->words[GCOLL_RECORD_SENT - GCOLL_RECORD_COUNT]);
    gcoll_count_add(&shape->counts->ticks, gcoll_count_get(&shape->ticks));
    for (uint32_t i = 0; i < shape->flow_count; i++) {
        const gcoll_record_flow *flow = &shape->flows[i];
        gcoll_record_peer *peer = gcoll_record_meet(context, flow->peer);
        gcoll_count_add(&peer->sent_messages, done * flow->sent_messages);
        gcoll_count_add(&peer->sent_bytes, done * flow->sent_bytes);
        gcoll_count_add(&peer->received_messages, done * flow->received_messages);
        gcoll_count_add(&peer->received_bytes, done * flow->received_bytes);
    }
}

void gcoll_record_forget(gcoll_context *context, gcoll_record_shape *shape) {
    if (shape->link &&
        !gcoll_is_forked(context)) { /* in a child, the lock may be held by nobody who is there */
        pthread_mutex_lock(&context->record->lock);
        keep_counts(context, shape);
        *shape->link = shape->next;
        if (shape->next)
            shape->next->link = shape->link;
        pthread_mutex_unlock(&context->record->lock);
    }
    gcoll_release(context, shape->flows, shape->flow_count * sizeof *shape->flows);
    memset(shape, 0, sizeof *shape);
}

void gcoll_record_fail(gcoll_context *context, uint64_t number, const gcoll_record_shape *shape,
                       uint32_t round, uint32_t peer) {
    if (!context->record)
        return;
    gcoll_count_add(&shape->counts->failed, 1);
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
    atomic_store_explicit(&slot[GCOLL_RECORD_DONE], gcoll_ticks(), memory_order_relaxed);
}

/* Of numbers that are read together with the wait: by `version`. */
static void add_in_step(gcoll_count *count, uint64_t more) {
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + more,
                          memory_order_release);
}

/* Counts the wait that is over, if there was one: the words are those of `wait`. While `version` is odd. */
static void count_wait(gcoll_context *context, uint64_t now) {
    gcoll_record *record = context->record;
    uint64_t words[sizeof record->wait / sizeof record->wait[0]];
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        words[i] = atomic_load_explicit(&record->wait[i], memory_order_relaxed);
    if (words[0] == 0)
        return;
    const uint64_t ticks = now - words[WAIT_SINCE];
    add_in_step(&record->waits, 1);
    add_in_step(&record->waited_ticks, ticks);
    for (uint32_t i = 0; i < words[2] && i < GCOLL_RECORD_PEERS; i++) {
        gcoll_record_peer *peer =
            gcoll_record_meet(context, (uint32_t)(words[4 + i / 2] >> (i % 2 == 0 ? 0 : 32)));
        add_in_step(&peer->waits, 1);
        add_in_step(&peer->waited_ticks, ticks);
    }
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
    const uint64_t version = atomic_load_explicit(&record->version, memory_order_relaxed);
    bool is_known = version > 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        is_known = is_known && (i == WAIT_SINCE ||
                                atomic_load_explicit(&record->wait[i], memory_order_relaxed) == words[i]);
    if (is_known) /* a wait is looked at often, and `since` is when it began */
        return;
    atomic_store_explicit(&record->version, version + 1, memory_order_relaxed); /* odd: being written */
    count_wait(context, words[WAIT_SINCE]);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        atomic_store_explicit(&record->wait[i], words[i], memory_order_release);
    atomic_store_explicit(&record->version, version + 2, memory_order_release);
}

void gcoll_record_wait_over(gcoll_context *context) {
    const gcoll_record_wait none = {0};
    if (context->record && atomic_load_explicit(&context->record->wait[0], memory_order_relaxed) != 0)
        gcoll_record_wait_for(context, &none);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static _Atomic uint64_t *step_slot(gcoll_record *record, uint64_t id) {
    return record->steps[id & (GCOLL_RECORD_STEPS - 1)];
}

uint64_t gcoll_record_step_begin(gcoll_record *record, uint64_t number, const gcoll_step *step,
                                 uint64_t bytes) {
    const uint64_t id = atomic_load_explicit(&record->step_count, memory_order_relaxed) + 1;
    _Atomic uint64_t *slot = step_slot(record, id);
    const uint64_t words[] = {0,
                              number,
                              step->kind | (uint64_t)(step->round & 0xffffff) << 8 |
                                  (uint64_t)(gcoll_step_is_message(step) ? step->peer : UINT32_MAX) << 32,
                              step->message,
                              bytes,
                              gcoll_ticks(),
                              0};
    _Static_assert(sizeof words == GCOLL_RECORD_STEP_WORDS * sizeof words[0], "the words of a step");
    for (int i = 0; i < GCOLL_RECORD_STEP_WORDS; i++)
        atomic_store_explicit(&slot[i], words[i], i == 0 ? memory_order_relaxed : memory_order_release);
    atomic_store_explicit(&slot[GCOLL_RECORD_STEP_ID], id, memory_order_release);
    atomic_store_explicit(&record->step_count, id, memory_order_release);
    return id;
}

void gcoll_record_step_end(gcoll_record *record, uint64_t id) {
    _Atomic uint64_t *slot = step_slot(record, id);
    if (atomic_load_explicit(&slot[GCOLL_RECORD_STEP_ID], memory_order_relaxed) == id)
        atomic_store_explicit(&slot[GCOLL_RECORD_STEP_DONE], gcoll_ticks(), memory_order_relaxed);
}

void gcoll_record_model(gcoll_context *context, double alpha_s, double beta_s, double host_alpha_s,
                        double host_beta_s) {
    if (!context->record)
        return;
    gcoll_count_set(&context->record->alpha_ps, (uint64_t)(alpha_s * 1e12));
    gcoll_count_set(&context->record->beta_fs, (uint64_t)(beta_s * 1e15));
    gcoll_count_set(&context->record->host_alpha_ps, (uint64_t)(host_alpha_s * 1e12));
    gcoll_count_set(&context->record->host_beta_fs, (uint64_t)(host_beta_s * 1e15));
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Copies a record whose first word says which one it is, if that one is there. */
static bool read_slot(_Atomic uint64_t *slot, uint64_t first, int count, uint64_t *words) {
    if (atomic_load_explicit(&slot[0], memory_order_acquire) != first)
        return false;
    for (int i = 0; i < count; i++)
        words[i] = atomic_load_explicit(&slot[i], memory_order_acquire);
    return atomic_load_explicit(&slot[0], memory_order_relaxed) == first;
}

bool gcoll_record_read(gcoll_record *record, uint64_t number, uint64_t words[GCOLL_RECORD_WORDS]) {
    return read_slot(gcoll_record_slot(record, number), number, GCOLL_RECORD_WORDS, words);
}

bool gcoll_record_read_step(gcoll_record *record, uint64_t id, uint64_t words[GCOLL_RECORD_STEP_WORDS]) {
    return read_slot(step_slot(record, id), id, GCOLL_RECORD_STEP_WORDS, words);
}

/* Numbers of operations never decrease in time, and the newest one is not known to a thread outside: it is
 * the largest number in the ring. */
uint64_t gcoll_record_newest(gcoll_record *record) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < GCOLL_RECORD_OPERATIONS; i++) {
        const uint64_t number =
            atomic_load_explicit(&record->operations[i][GCOLL_RECORD_NUMBER], memory_order_relaxed);
        most = number > most ? number : most;
    }
    return most;
}

void gcoll_record_group(const gcoll_context *context, char text[GCOLL_RECORD_GROUP]) {
    static const uint8_t none[16];
    const uint8_t *group = context->settings.endpoint.group;
    if (memcmp(group, none, sizeof none) == 0) {
        snprintf(text, GCOLL_RECORD_GROUP, "process%ld-%u", context->guard.process, context->record->number);
        return;
    }
    for (size_t i = 0; i < sizeof none; i++)
        snprintf(text + 2 * i, 3, "%02x", group[i]);
}

void gcoll_record_short_group(const gcoll_context *context, char text[GCOLL_RECORD_GROUP]) {
    gcoll_record_group(context, text);
    if (text[0] != 'p')
        text[8] = '\0';
}

uint64_t gcoll_record_read_version(gcoll_record *record) {
    return atomic_load_explicit(&record->version, memory_order_acquire);
}

bool gcoll_record_read_wait(gcoll_record *record, gcoll_record_wait *wait) {
    uint64_t words[sizeof record->wait / sizeof record->wait[0]];
    for (int tries = 0; tries < GCOLL_RECORD_TRIES; tries++) {
        const uint64_t version = gcoll_record_read_version(record);
        if (version == 0)
            return false;
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            words[i] = atomic_load_explicit(&record->wait[i], memory_order_acquire);
        if ((version & 1) != 0 || gcoll_record_read_version(record) != version)
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
