/* tools/trace/read.c - makes sense of a dump, and of parts of one. They come from anywhere: all is checked
 * before it is used. */
#include "tools/trace/read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "gcoll/plan.h"

#define OPERATIONS_MOST 4096                         /* the recorder keeps 1,024 */
#define STEPS_MOST      65536                        /* it keeps 16,384 */
#define UNIX_MOST       INT64_C(2500000000000000000) /* the year 2049; what clock.c adds up has 64 bits */

bool trace_read_operation(field_reader *r, struct json_object *from, const trace_rank *rank,
                          trace_operation *to) {
    int64_t done, failed;
    if (!json_object_is_type(from, json_type_object))
        return field_wrong(r, "an operation is no object");
    if (!field_number(r, from, "number", false, &to->number) ||
        !field_number(r, from, "count", false, &to->count) ||
        !field_number(r, from, "element_bytes", true, &to->element_bytes) ||
        !field_number(r, from, "sent_bytes", true, &to->sent_bytes) ||
        !field_text(r, from, "collective", false, to->collective, sizeof to->collective) ||
        !field_text(r, from, "type", true, to->type, sizeof to->type) ||
        !field_text(r, from, "op", true, to->op, sizeof to->op) ||
        !field_text(r, from, "algorithm", true, to->algorithm, sizeof to->algorithm) ||
        !field_small(r, from, "root", true, TRACE_NONE, &to->root) ||
        !field_small(r, from, "step", true, TRACE_NONE, &to->step) ||
        !field_small(r, from, "rounds", true, 0, &to->steps) ||
        !field_small(r, from, "peer", true, TRACE_NONE, &to->peer) ||
        !field_whole(r, from, "predicted_ns", TRACE_TIME_MOST, true, -1, &to->predicted) ||
        !field_whole(r, from, "entered_ns", TRACE_TIME_MOST, false, 0, &to->entered) ||
        !field_whole(r, from, "begun_ns", TRACE_TIME_MOST, false, 0, &to->begun) ||
        !field_whole(r, from, "done_ns", TRACE_TIME_MOST, true, -1, &done) ||
        !field_whole(r, from, "failed_ns", TRACE_TIME_MOST, true, -1, &failed))
        return false;
    to->has_own_counts = json_object_object_get_ex(from, "own_counts", NULL);
    to->state = done >= 0 ? TRACE_DONE : failed >= 0 ? TRACE_FAILED : TRACE_RUNS;
    to->ended = done >= 0 ? done : failed >= 0 ? failed : rank->dumped;
    if (to->ended < to->begun) /* its record is newer than the dump's own time */
        to->ended = to->begun;
    return true;
}

static bool read_operations(field_reader *r, struct json_object *all, trace_rank *to) {
    struct json_object *list;
    if (!field_object(r, all, "operations", json_type_array, &list))
        return false;
    const size_t count = list ? json_object_array_length(list) : 0;
    if (!list || count > OPERATIONS_MOST)
        return field_wrong(r, list ? "has more than %d operations" : "'operations' is missing (%d)",
                           OPERATIONS_MOST);
    to->operations = calloc(count + 1, sizeof *to->operations);
    if (!to->operations)
        return field_wrong(r, "out of memory");
    for (size_t i = 0; i < count; i++) {
        if (!trace_read_operation(r, json_object_array_get_idx(list, i), to, &to->operations[i]))
            return false;
        if (i > 0 && to->operations[i].number <= to->operations[i - 1].number)
            return field_wrong(r, "operation %" PRIu64 " comes after %" PRIu64, to->operations[i].number,
                               to->operations[i - 1].number);
    }
    to->count = count;
    return true;
}

/* "[operation, kind, step, peer, message, bytes, begun_ns, done_ns]" */
static bool read_step(field_reader *r, struct json_object *from, const trace_rank *rank, trace_step *to) {
    enum { OPERATION, KIND, STEP, PEER, MESSAGE, BYTES, BEGUN, DONE, FIELDS };
    int64_t values[FIELDS] = {0};
    if (!json_object_is_type(from, json_type_array) || json_object_array_length(from) < FIELDS)
        return field_wrong(r, "a step is no array of %d", FIELDS);
    for (size_t i = 0; i < FIELDS; i++) {
        struct json_object *value = json_object_array_get_idx(from, i);
        if (!json_object_is_type(value, i == KIND ? json_type_string : json_type_int))
            return field_wrong(r, "a step has no %s in its place %zu", i == KIND ? "text" : "whole number",
                               i + 1);
        values[i] = i == KIND ? 0 : json_object_get_int64(value);
    }
    snprintf(to->name, sizeof to->name, "%s", json_object_get_string(json_object_array_get_idx(from, KIND)));
    gcoll_text_clean(to->name);
    to->kind = strcmp(to->name, "send") == 0          ? TRACE_SEND
               : strncmp(to->name, "receive", 7) == 0 ? TRACE_RECEIVE
                                                      : TRACE_LOCAL;
    const bool is_message = to->kind != TRACE_LOCAL;
    if (values[OPERATION] < 0 || values[STEP] < 1 || values[STEP] > UINT32_MAX - 1 || values[MESSAGE] < 0 ||
        values[MESSAGE] > UINT32_MAX - 1 || values[BYTES] < 0 || values[BEGUN] < 0 ||
        values[BEGUN] > TRACE_TIME_MOST || values[DONE] < -1 || values[DONE] > TRACE_TIME_MOST ||
        (is_message && (values[PEER] < 0 || values[PEER] >= rank->size || values[PEER] == rank->rank)))
        return field_wrong(r, "a step of operation %" PRId64 " makes no sense", values[OPERATION]);
    to->operation = (uint64_t)values[OPERATION];
    to->round = (uint32_t)values[STEP];
    to->peer = is_message ? (uint32_t)values[PEER] : TRACE_NONE;
    to->message = (uint32_t)values[MESSAGE];
    to->bytes = (uint64_t)values[BYTES];
    to->begun = values[BEGUN];
    to->done = values[DONE] < 0 ? TRACE_NEVER : values[DONE] < to->begun ? to->begun : values[DONE];
    return true;
}

static bool read_steps(field_reader *r, struct json_object *all, trace_rank *to) {
    struct json_object *list, *model;
    if (!field_object(r, all, "steps", json_type_array, &list) ||
        !field_object(r, all, "model", json_type_object, &model))
        return false;
    if (model && (!field_number(r, model, "alpha_ps", false, &to->alpha_ps) ||
                  !field_number(r, model, "beta_fs", false, &to->beta_fs) ||
                  !field_number(r, model, "host_alpha_ps", true, &to->host_alpha_ps) ||
                  !field_number(r, model, "host_beta_fs", true, &to->host_beta_fs)))
        return false;
    const size_t count = list ? json_object_array_length(list) : 0;
    if (count > STEPS_MOST)
        return field_wrong(r, "has more than %d steps", STEPS_MOST);
    to->steps = calloc(count + 1, sizeof *to->steps);
    if (!to->steps)
        return field_wrong(r, "out of memory");
    for (to->step_count = 0; to->step_count < count; to->step_count++)
        if (!read_step(r, json_object_array_get_idx(list, to->step_count), to, &to->steps[to->step_count]))
            return false;
    return true;
}

bool trace_read_wait(field_reader *r, struct json_object *all, trace_rank *to) {
    struct json_object *wait, *peers;
    if (!field_object(r, all, "waiting", json_type_object, &wait))
        return false;
    if (!wait)
        return true;
    if (!field_number(r, wait, "number", false, &to->waits_number) ||
        !field_small(r, wait, "step", true, 0, &to->waits_step) ||
        !field_small(r, wait, "steps", true, 0, &to->waits_steps) ||
        !field_whole(r, wait, "since_ns", TRACE_TIME_MOST, true, 0, &to->waits_since) ||
        !field_object(r, wait, "peers", json_type_array, &peers))
        return false;
    const size_t named = peers ? json_object_array_length(peers) : 0;
    for (size_t i = 0; i < TRACE_PEERS; i++) {
        struct json_object *peer = i < named ? json_object_array_get_idx(peers, i) : NULL;
        const int64_t rank = json_object_is_type(peer, json_type_int) ? json_object_get_int64(peer) : -1;
        to->waits_peer[i] = rank >= 0 && rank < to->size ? (uint32_t)rank : TRACE_NONE;
    }
    to->waits_for_more = json_object_object_get_ex(wait, "more_peers", NULL);
    to->waits = true;
    return true;
}

bool trace_read_head(field_reader *r, struct json_object *all, trace_rank *to) {
    if (!field_text(r, all, "job", false, to->job, sizeof to->job) ||
        !field_text(r, all, "group", false, to->group, sizeof to->group) ||
        !field_text(r, all, "host", true, to->host, sizeof to->host) ||
        !field_text(r, all, "transport", true, to->transport, sizeof to->transport) ||
        !field_small(r, all, "rank", false, 0, &to->rank) ||
        !field_small(r, all, "size", false, 0, &to->size))
        return false;
    return (to->size <= GCOLL_MAX_RANKS && to->rank < to->size) ||
           field_wrong(r, "rank %u of %u makes no sense", to->rank, to->size);
}

static bool read_cause(field_reader *r, struct json_object *all, trace_rank *to) {
    struct json_object *broken;
    to->culprit = TRACE_NONE;
    if (!field_object(r, all, "broken", json_type_object, &broken))
        return false;
    to->is_broken = broken;
    return !broken || (field_text(r, broken, "text", true, to->cause, sizeof to->cause) &&
                       field_small(r, broken, "culprit", true, TRACE_NONE, &to->culprit));
}

bool trace_read_dump(field_reader *r, struct json_object *all, trace_rank *to) {
    struct json_object *clock;
    int64_t version;
    if (!json_object_is_type(all, json_type_object) || !json_object_object_get_ex(all, "gcoll_dump", NULL))
        return field_wrong(r, "is no dump of gcoll");
    if (!field_whole(r, all, "gcoll_dump", INT64_MAX, false, 0, &version))
        return false;
    if (version != 1)
        return field_wrong(r, "is a dump of version %" PRId64 "; this gcoll_trace reads version 1", version);
    if (!trace_read_head(r, all, to) || !field_object(r, all, "clock", json_type_object, &clock))
        return false;
    if (!clock)
        return field_wrong(r, "'clock' is missing");
    return field_whole(r, clock, "began_unix_ns", UNIX_MOST, false, 0, &to->began_unix) &&
           field_whole(r, clock, "dumped_ns", TRACE_TIME_MOST, false, 0, &to->dumped) &&
           field_number(r, all, "begun", true, &to->begun) && read_cause(r, all, to) &&
           trace_read_wait(r, all, to) && read_operations(r, all, to) && read_steps(r, all, to);
}
