/*
 * gcoll/record/dump.c - writes what the recorder has as JSON (docs/trace.md).
 *
 * A dump may be written by any thread while another one is inside the context: it reads the recorder and what
 * never changes, and of the rest only what the caller, if it is inside, may read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gcoll/base/text.h"
#include "gcoll/operations.h"
#include "gcoll/record/record.h"
#include "gcoll/trace.h"

#define FOLDER    "GCOLL_DUMP_DIR"
#define PATH_ROOM 4096
#define LANE_TEXT 768

/* Writes a JSON string. Bytes that are no ASCII become '?': a peer's text may be no UTF-8, which JSON must
 * be. */
static void write_string(FILE *file, const char *text) {
    fputc('"', file);
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else
            fputc(c >= 0x20 && c < 0x7f ? c : '?', file);
    }
    fputc('"', file);
}

static void write_text(FILE *file, const char *name, const char *text) {
    fprintf(file, "  \"%s\": ", name);
    write_string(file, text);
    fputs(",\n", file);
}

/* Nanoseconds since the recorder was made, by its clock. */
typedef struct clock_line {
    const gcoll_tick_mark *from;
    gcoll_tick_mark to;
} clock_line;

static int64_t time_of(const clock_line *line, uint64_t ticks) {
    const int64_t ns = gcoll_tick_ns(line->from, &line->to, ticks) - line->from->ns;
    return ns > 0 ? ns : 0;
}

static const char *algorithm_name(gcoll_record *record, uint32_t number) {
    return number < atomic_load_explicit(&record->name_count, memory_order_acquire) ? record->names[number]
                                                                                    : "other";
}

static void write_operation(FILE *file, gcoll_record *record, const clock_line *line,
                            const uint64_t words[GCOLL_RECORD_WORDS]) {
    const uint64_t what = words[GCOLL_RECORD_WHAT], rounds = words[GCOLL_RECORD_ROUNDS];
    const gcoll_collective collective = (gcoll_collective)(what & 255);
    const uint32_t form = (uint32_t)(what >> 24 & 255), ended = (uint32_t)(what >> 48);
    fprintf(file,
            "{\"number\": %" PRIu64 ", \"collective\": \"%s\", \"count\": %" PRIu64 ", \"type\": \"%s\"",
            words[GCOLL_RECORD_NUMBER], gcoll_collective_name(collective), words[GCOLL_RECORD_COUNT],
            gcoll_type_name((gcoll_type)(what >> 8 & 255)));
    if (gcoll_collective_reduces(collective))
        fprintf(file, ", \"op\": \"%s\"", gcoll_op_name((gcoll_op)(what >> 16 & 255)));
    if (gcoll_collective_has_root(collective))
        fprintf(file, ", \"root\": %" PRIu32, (uint32_t)words[GCOLL_RECORD_ROOT]);
    fprintf(file, ", \"element_bytes\": %" PRIu64 ", \"algorithm\": ", words[GCOLL_RECORD_ROOT] >> 32);
    write_string(file, algorithm_name(record, (uint32_t)(what >> 32 & 0xffff)));
    fprintf(file, ", \"rounds\": %" PRIu64 ", \"sent_bytes\": %" PRIu64, rounds & 0xfffff,
            words[GCOLL_RECORD_SENT]);
    if (words[GCOLL_RECORD_PREDICTED] != UINT64_MAX)
        fprintf(file, ", \"predicted_ns\": %" PRIu64, words[GCOLL_RECORD_PREDICTED] / 1000);
    if (form & GCOLL_RECORD_IN_PLACE)
        fputs(", \"in_place\": true", file);
    if (form & GCOLL_RECORD_LISTS)
        fputs(", \"lists\": true", file);
    if (form & GCOLL_RECORD_OWN_COUNTS)
        fputs(", \"own_counts\": true", file);
    if (form & GCOLL_RECORD_DEVICE)
        fputs(", \"device_memory\": true", file);
    fprintf(file, ", \"entered_ns\": %" PRId64 ", \"begun_ns\": %" PRId64,
            time_of(line, words[GCOLL_RECORD_ENTERED]), time_of(line, words[GCOLL_RECORD_BEGUN]));
    if (words[GCOLL_RECORD_DONE] != 0)
        fprintf(file, ", \"%s\": %" PRId64, ended == GCOLL_RECORD_FAILED ? "failed_ns" : "done_ns",
                time_of(line, words[GCOLL_RECORD_DONE]));
    if (ended == GCOLL_RECORD_FAILED && rounds >> 40 != 0)
        fprintf(file, ", \"step\": %" PRIu64 ", \"peer\": %" PRIu64, rounds >> 20 & 0xfffff,
                (rounds >> 40) - 1);
    fputc('}', file);
}

static void write_operations(FILE *file, gcoll_record *record, const clock_line *line) {
    const uint64_t last = gcoll_record_newest(record);
    uint64_t words[GCOLL_RECORD_WORDS];
    const char *before = "";
    fprintf(file, "  \"begun\": %" PRIu64 ",\n  \"operations\": [", last);
    for (uint64_t number = last < GCOLL_RECORD_OPERATIONS ? 1 : last - GCOLL_RECORD_OPERATIONS + 1;
         number <= last; number++) {
        if (!gcoll_record_read(record, number, words)) /* overwritten meanwhile, or begun by no record */
            continue;
        fprintf(file, "%s\n    ", before);
        write_operation(file, record, line, words);
        before = ",";
    }
    fputs("\n  ]\n", file);
}

/* An array each, as there are many. */
static void write_steps(FILE *file, gcoll_record *record, const clock_line *line) {
    uint64_t words[GCOLL_RECORD_STEP_WORDS];
    const char *before = "";
    if (!record->steps)
        return;
    const uint64_t last = atomic_load_explicit(&record->step_count, memory_order_acquire);
    fputs("  \"step_fields\": [\"operation\", \"kind\", \"step\", \"peer\", \"message\", \"bytes\", "
          "\"begun_ns\", \"done_ns\"],\n  \"steps\": [",
          file);
    for (uint64_t id = last < GCOLL_RECORD_STEPS ? 1 : last - GCOLL_RECORD_STEPS + 1; id <= last; id++) {
        if (!gcoll_record_read_step(record, id, words)) /* overwritten meanwhile */
            continue;
        const uint64_t what = words[GCOLL_RECORD_STEP_WHAT], done = words[GCOLL_RECORD_STEP_DONE];
        const int64_t peer = what >> 32 == UINT32_MAX ? -1 : (int64_t)(what >> 32);
        fprintf(file,
                "%s\n    [%" PRIu64 ", \"%s\", %" PRIu64 ", %" PRId64 ", %" PRIu64 ", %" PRIu64 ", %" PRId64
                ", %" PRId64 "]",
                before, words[GCOLL_RECORD_STEP_OPERATION], gcoll_step_kind_name((uint32_t)(what & 255)),
                (what >> 8 & 0xffffff) + 1, peer, words[GCOLL_RECORD_STEP_MESSAGE],
                words[GCOLL_RECORD_STEP_BYTES], time_of(line, words[GCOLL_RECORD_STEP_BEGUN]),
                done != 0 ? time_of(line, done) : -1);
        before = ",";
    }
    fputs("\n  ],\n", file);
}

/* What a message costs by the model: within a host it may be less. */
static void write_model(FILE *file, gcoll_record *record) {
    const uint64_t alpha = gcoll_count_get(&record->alpha_ps);
    if (alpha == 0)
        return;
    fprintf(file,
            "  \"model\": {\"alpha_ps\": %" PRIu64 ", \"beta_fs\": %" PRIu64 ", \"host_alpha_ps\": %" PRIu64
            ", \"host_beta_fs\": %" PRIu64 "},\n",
            alpha, gcoll_count_get(&record->beta_fs), gcoll_count_get(&record->host_alpha_ps),
            gcoll_count_get(&record->host_beta_fs));
}

static void write_wait(FILE *file, gcoll_record *record, const clock_line *line) {
    gcoll_record_wait wait;
    uint64_t words[GCOLL_RECORD_WORDS];
    if (!gcoll_record_read_wait(record, &wait) || wait.number == 0 ||
        !gcoll_record_read(record, wait.number, words) ||
        (words[GCOLL_RECORD_DONE] != 0 && words[GCOLL_RECORD_WHAT] >> 48 != GCOLL_RECORD_FAILED))
        return;
    fprintf(file,
            "  \"waiting\": {\"number\": %" PRIu64 ", \"step\": %" PRIu32 ", \"steps\": %" PRIu32
            ", \"since_ns\": %" PRId64 ", \"peers\": [",
            wait.number, wait.round + 1, wait.rounds, time_of(line, wait.since));
    for (uint32_t i = 0; i < wait.peers && i < GCOLL_RECORD_PEERS; i++)
        fprintf(file, "%s%" PRIu32, i > 0 ? ", " : "", wait.peer[i]);
    fprintf(file, "]%s},\n", wait.peers > GCOLL_RECORD_PEERS ? ", \"more_peers\": true" : "");
}

/* How messages go to a rank. Only the thread inside may ask the transport, and hears why they go by no better
 * lane. */
static void name_lane(const gcoll_context *context, uint32_t rank, bool is_inside, char text[LANE_TEXT]) {
    const gcoll_record_peer *peer = gcoll_record_peer_of(context->record, rank);
    const char *known = peer ? atomic_load_explicit(&peer->lane, memory_order_relaxed) : NULL;
    snprintf(text, LANE_TEXT, "%s", is_inside ? context->transport->name : known ? known : "not connected");
    if (is_inside && context->transport->explain)
        context->transport->explain(context->endpoint, rank, text, LANE_TEXT);
}

static void write_lanes(FILE *file, const gcoll_context *context, bool is_inside) {
    char text[LANE_TEXT];
    const char *before = "";
    if (context->size == 1 || (is_inside && !context->endpoint))
        return;
    fputs("  \"lanes\": [", file);
    for (uint32_t rank = 0; rank < context->size; rank++) {
        if (rank == context->rank)
            continue;
        name_lane(context, rank, is_inside, text);
        if (strcmp(text, "not connected") == 0)
            continue;
        fprintf(file, "%s\n    {\"rank\": %" PRIu32 ", \"lane\": ", before, rank);
        write_string(file, text);
        fputc('}', file);
        before = ",";
    }
    fputs("\n  ],\n", file);
}

static void write_cause(FILE *file, const gcoll_context *context) {
    const gcoll_note *cause = &context->health.cause;
    fprintf(file,
            "  \"broken\": {\"status\": \"%s\", \"text\": ", gcoll_status_text((gcoll_status)cause->status));
    write_string(file, cause->text);
    if (cause->culprit != GCOLL_NO_RANK)
        fprintf(file, ", \"culprit\": %" PRIu32, cause->culprit);
    fputs("},\n", file);
}

/* Who it is. */
static void write_head(FILE *file, const gcoll_context *context) {
    char host[256] = "";
    char group[GCOLL_RECORD_GROUP];
    gethostname(host, sizeof host - 1);
    gcoll_text_clean(host);
    gcoll_record_group(context, group);
    write_text(file, "version", gcoll_version());
    write_text(file, "job", context->settings.job);
    write_text(file, "group", group);
    fprintf(file, "  \"rank\": %" PRIu32 ",\n  \"size\": %" PRIu32 ",\n  \"process\": %ld,\n", context->rank,
            context->size, context->guard.process);
    write_text(file, "host", host);
    write_text(file, "transport", context->transport->name);
}

static void write_all(FILE *file, const gcoll_context *context, bool is_inside) {
    gcoll_record *record = context->record;
    const clock_line line = {&record->began, gcoll_tick_mark_now()};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    fputs("{\n  \"gcoll_dump\": 1,\n", file);
    write_head(file, context);
    fprintf(file,
            "  \"clock\": {\"began_unix_ns\": %" PRId64 ", \"dumped_unix_ns\": %" PRId64
            ", \"dumped_ns\": %" PRId64 "},\n",
            record->began_unix_ns, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec,
            line.to.ns - line.from->ns);
    if (is_inside && context->health.broken)
        write_cause(file, context);
    write_lanes(file, context, is_inside);
    write_wait(file, record, &line);
    write_model(file, record);
    write_steps(file, record, &line);
    write_operations(file, record, &line);
    fputs("}\n", file);
}

void gcoll_record_write_view(FILE *file, gcoll_context *context) {
    gcoll_record *record = context->record;
    const clock_line line = {&record->began, gcoll_tick_mark_now()};
    uint64_t words[GCOLL_RECORD_WORDS], busy = 0, done = 0, failed = 0, sent = 0, received = 0, again = 0;
    fputs("{\n", file);
    write_head(file, context);
    fprintf(file, "  \"now_ns\": %" PRId64 ",\n", line.to.ns - line.from->ns);
    const uint32_t culprit = atomic_load(&record->culprit);
    if (atomic_load(&record->is_broken))
        fputs("  \"broken\": true,\n", file);
    if (atomic_load(&record->is_broken) && culprit != GCOLL_NO_RANK)
        fprintf(file, "  \"culprit\": %" PRIu32 ",\n", culprit);
    write_wait(file, record, &line);
    if (gcoll_record_read(record, gcoll_record_newest(record), words)) {
        fputs("  \"operation\": ", file);
        write_operation(file, record, &line, words);
        fputs(",\n", file);
    }
    gcoll_record_ask(context);
    gcoll_record_totals *totals = gcoll_record_add_up(context);
    for (int i = 0; totals && i < GCOLL_COLLECTIVE_COUNT; i++) {
        done += totals->collectives[i].done;
        failed += totals->collectives[i].failed;
        busy += totals->collectives[i].ticks;
    }
    for (uint32_t rank = 0; totals && rank < context->size; rank++) {
        sent += totals->peers[rank].sent_bytes;
        received += totals->peers[rank].received_bytes;
        again += totals->peers[rank].retransmitted;
    }
    free(totals);
    fprintf(file,
            "  \"begun\": %" PRIu64 ", \"done\": %" PRIu64 ", \"failed\": %" PRIu64 ", \"busy_ns\": %" PRIu64
            ",\n  \"sent_bytes\": %" PRIu64 ", \"received_bytes\": %" PRIu64 ", \"retransmitted\": %" PRIu64
            ", \"asleep_ns\": %" PRIu64 "\n}",
            gcoll_record_newest(record), done, failed, gcoll_record_duration_ns(record, busy), sent, received,
            again, gcoll_count_get(&record->asleep_ns));
}

/* What is written, and by whom. */
typedef struct dump {
    const gcoll_context *context;
    bool is_inside;
} dump;

static void write_dump(FILE *file, const void *arg) {
    const dump *wanted = arg;
    write_all(file, wanted->context, wanted->is_inside);
}

static gcoll_status write_file(const gcoll_context *context, const char *path, bool is_inside) {
    const dump wanted = {context, is_inside};
    return gcoll_record_write_file(path, 0600, write_dump, &wanted); /* texts may be nobody else's business */
}

gcoll_status gcoll_record_dump_to(const gcoll_context *context, const char *folder, bool is_inside) {
    char path[PATH_ROOM], group[GCOLL_RECORD_GROUP];
    gcoll_record_short_group(context, group);
    const int length = snprintf(path, sizeof path, "%s/%s-%s-rank%" PRIu32 ".json", folder,
                                context->settings.job, group, context->rank);
    if ((size_t)length >= sizeof path)
        return gcoll_error(GCOLL_ERR_INVALID, FOLDER ": is longer than %d bytes", PATH_ROOM - 128);
    pthread_mutex_lock(&context->record->files);
    gcoll_status status = GCOLL_OK;
    if (!context->record->has_cause)
        status = write_file(context, path, is_inside);
    if (status == GCOLL_OK && is_inside)
        context->record->has_cause = true;
    pthread_mutex_unlock(&context->record->files);
    return status;
}

void gcoll_record_dump_broken(gcoll_context *context) {
    const char *folder = getenv(FOLDER);
    if (!context->record)
        return;
    atomic_store(&context->record->culprit, context->health.cause.culprit);
    gcoll_count_set(&context->record->broke, gcoll_ticks());
    atomic_store(&context->record->is_broken, true);
    if (!folder || folder[0] == '\0')
        return;
    if (gcoll_record_dump_to(context, folder, true) != GCOLL_OK)
        gcoll_log(context, GCOLL_LOG_WARNING, FOLDER ": %s", gcoll_last_error());
}

gcoll_status gcoll_context_dump(gcoll_context *context, const char *path) {
    if (!context || !path || path[0] == '\0')
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL or empty", context ? "path" : "context");
    if (gcoll_is_forked(context))
        return gcoll_refuse_call(context);
    if (!context->record)
        return gcoll_error(GCOLL_ERR_STATE, "the recorder is off (GCOLL_RECORD)");
    return write_file(context, path, false); /* a claim would refuse the calls of other threads */
}
