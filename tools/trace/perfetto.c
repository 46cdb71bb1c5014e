/* tools/trace/perfetto.c - the job as JSON for Perfetto (https://ui.perfetto.dev) and chrome://tracing, by
 * "Trace Event Format" (Google, 2016): a process a rank, an event of type X an operation, and a step, in
 * microseconds. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "tools/json.h"
#include "tools/trace/trace.h"

#define ROWS 64 /* of a rank, for operations that overlap */

static void add_text(struct json_object *to, const char *name, const char *text) {
    json_object_object_add(to, name, json_object_new_string(text));
}

static struct json_object *event_of(const char *name, const char *phase, uint32_t rank, uint32_t row) {
    struct json_object *event = json_object_new_object();
    add_text(event, "name", name);
    add_text(event, "ph", phase);
    json_object_object_add(event, "pid", json_object_new_int64(rank));
    json_object_object_add(event, "tid", json_object_new_int64(row));
    return event;
}

/* Names a rank, or says where it stands. */
static struct json_object *about_rank(const char *what, const char *key, struct json_object *value,
                                      uint32_t rank) {
    struct json_object *event = event_of(what, "M", rank, 0), *arguments = json_object_new_object();
    json_object_object_add(arguments, key, value);
    json_object_object_add(event, "args", arguments);
    return event;
}

static struct json_object *operation_event(const trace_operation *o, uint32_t rank, uint32_t row) {
    static const char *const states[] = {"in flight", "done", "failed"};
    struct json_object *event = event_of(o->collective, "X", rank, row),
                       *arguments = json_object_new_object();
    add_text(event, "cat", "collective");
    json_object_object_add(event, "ts", tool_json_number((double)o->entered / 1e3));
    json_object_object_add(event, "dur", tool_json_number((double)(o->ended - o->entered) / 1e3));
    json_object_object_add(arguments, "number", json_object_new_int64((int64_t)o->number));
    json_object_object_add(arguments, "count", json_object_new_int64((int64_t)o->count));
    add_text(arguments, "type", o->type);
    if (o->op[0])
        add_text(arguments, "op", o->op);
    add_text(arguments, "algorithm", o->algorithm);
    add_text(arguments, "state", states[o->state]);
    json_object_object_add(arguments, "sent_bytes", json_object_new_int64((int64_t)o->sent_bytes));
    if (o->predicted >= 0)
        json_object_object_add(arguments, "predicted_us", tool_json_number((double)o->predicted / 1e3));
    if (o->peer != TRACE_NONE)
        json_object_object_add(arguments, "peer", json_object_new_int64(o->peer));
    json_object_object_add(event, "args", arguments);
    return event;
}

static struct json_object *step_event(const trace_step *step, uint32_t rank, uint32_t row, int64_t end) {
    char name[TRACE_NAME + 32];
    if (step->kind == TRACE_LOCAL)
        snprintf(name, sizeof name, "%s", step->name);
    else
        snprintf(name, sizeof name, "%s %s %" PRIu32, step->name, step->kind == TRACE_SEND ? "to" : "from",
                 step->peer);
    struct json_object *event = event_of(name, "X", rank, row), *arguments = json_object_new_object();
    add_text(event, "cat", "step");
    json_object_object_add(event, "ts", tool_json_number((double)step->begun / 1e3));
    json_object_object_add(event, "dur", tool_json_number((double)(end - step->begun) / 1e3));
    json_object_object_add(arguments, "operation", json_object_new_int64((int64_t)step->operation));
    json_object_object_add(arguments, "step", json_object_new_int64(step->round));
    json_object_object_add(arguments, "bytes", json_object_new_int64((int64_t)step->bytes));
    json_object_object_add(event, "args", arguments);
    return event;
}

/* A row, which is a thread to Perfetto, in which the operation overlaps no other: events of one must nest. */
static uint32_t find_row(int64_t ends[ROWS], int64_t begin, int64_t end) {
    uint32_t row = 0;
    while (row + 1 < ROWS && ends[row] > begin)
        row++;
    ends[row] = end;
    return row;
}

static void forget_rows(int64_t ends[ROWS]) {
    for (uint32_t row = 0; row < ROWS; row++)
        ends[row] = INT64_MIN;
}

static void write_event(FILE *file, struct json_object *event, const char **before) {
    fprintf(file, "%s\n%s", *before, json_object_to_json_string_ext(event, JSON_C_TO_STRING_PLAIN));
    *before = ",";
    json_object_put(event);
}

bool trace_write_perfetto(const trace_job *job, FILE *file) {
    char name[TRACE_TEXT];
    const char *before = "";
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", file);
    for (uint32_t i = 0; i < job->count; i++) {
        const trace_rank *rank = &job->ranks[i];
        snprintf(name, sizeof name, "rank %" PRIu32 " (%.200s)", rank->rank, rank->host);
        write_event(file, about_rank("process_name", "name", json_object_new_string(name), rank->rank),
                    &before);
        write_event(
            file,
            about_rank("process_sort_index", "sort_index", json_object_new_int64(rank->rank), rank->rank),
            &before);
        int64_t ends[ROWS];
        forget_rows(ends);
        for (size_t k = 0; k < rank->count; k++) {
            const trace_operation *o = &rank->operations[k];
            write_event(file, operation_event(o, rank->rank, find_row(ends, o->entered, o->ended)), &before);
        }
        forget_rows(ends);
        for (size_t k = 0; k < rank->step_count; k++) { /* below the operations */
            const trace_step *step = &rank->steps[k];
            const int64_t end = step->done != TRACE_NEVER    ? step->done
                                : rank->dumped > step->begun ? rank->dumped
                                                             : step->begun;
            const uint32_t row = ROWS + find_row(ends, step->begun, end);
            write_event(file, step_event(step, rank->rank, row, end), &before);
        }
    }
    fputs("\n]}\n", file);
    return true;
}
