/* gcoll/record/metrics.c - the counters as text in Prometheus' format.
 * Source: "Exposition formats", https://prometheus.io/docs/instrumenting/exposition_formats/ */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/record/record.h"
#include "gcoll/stats.h"

/* A context, and what it has counted. */
typedef struct source {
    const gcoll_context *context;
    gcoll_record_totals *totals;
} source;

typedef struct metrics {
    source *sources;
    uint32_t count;
} metrics;

/* What a family of samples is about, and how its numbers are found. */
typedef struct family {
    const char *name, *type, *help;
    void (*write)(FILE *file, const struct family *of, const source *from);
    size_t at;     /* of the number in its struct, */
    bool is_ticks; /* which is a time */
} family;

static void begin(FILE *file, const family *of, const source *from) {
    char group[GCOLL_RECORD_GROUP];
    gcoll_record_short_group(from->context, group);
    fprintf(file, "%s{job=\"%s\",group=\"%s\",rank=\"%" PRIu32 "\"", of->name, from->context->settings.job,
            group, from->context->rank);
}

/* Without a floating-point number, in which some languages have a comma. */
static void end_seconds(FILE *file, uint64_t ns) {
    fprintf(file, "} %" PRIu64 ".%09" PRIu64 "\n", ns / 1000000000, ns % 1000000000);
}

static void end(FILE *file, const family *of, const source *from, uint64_t value) {
    if (of->is_ticks)
        end_seconds(file, gcoll_record_duration_ns(from->context->record, value));
    else
        fprintf(file, "} %" PRIu64 "\n", value);
}

static uint64_t number_at(const void *base, size_t at) {
    uint64_t value;
    memcpy(&value, (const char *)base + at, sizeof value);
    return value;
}

static void of_collectives(FILE *file, const family *of, const source *from) {
    for (int i = 0; i < GCOLL_COLLECTIVE_COUNT; i++) {
        const struct gcoll_record_collective_total *total = &from->totals->collectives[i];
        if (total->done + total->failed == 0)
            continue;
        begin(file, of, from);
        fprintf(file, ",collective=\"%s\"", gcoll_collective_name((gcoll_collective)i));
        end(file, of, from, number_at(total, of->at));
    }
}

static void of_peers(FILE *file, const family *of, const source *from) {
    for (uint32_t rank = 0; rank < from->context->size; rank++) {
        const struct gcoll_record_peer_total *total = &from->totals->peers[rank];
        if (!total->lane && total->sent_messages + total->received_messages + total->waits == 0)
            continue;
        begin(file, of, from);
        fprintf(file, ",peer=\"%" PRIu32 "\"", rank);
        end(file, of, from, number_at(total, of->at));
    }
}

static void lanes_of_peers(FILE *file, const family *of, const source *from) {
    for (uint32_t rank = 0; rank < from->context->size; rank++) {
        if (!from->totals->peers[rank].lane)
            continue;
        begin(file, of, from);
        fprintf(file, ",peer=\"%" PRIu32 "\",lane=\"%s\"", rank, from->totals->peers[rank].lane);
        end(file, of, from, 1);
    }
}

static void size_of_context(FILE *file, const family *of, const source *from) {
    begin(file, of, from);
    end(file, of, from, from->context->size);
}

static void health_of_context(FILE *file, const family *of, const source *from) {
    begin(file, of, from);
    end(file, of, from, atomic_load(&from->context->record->is_broken));
}

static void sleeps_of_context(FILE *file, const family *of, const source *from) {
    begin(file, of, from);
    end(file, of, from, gcoll_count_get(&from->context->record->sleeps));
}

static void asleep_of_context(FILE *file, const family *of, const source *from) {
    begin(file, of, from);
    end_seconds(file, gcoll_count_get(&from->context->record->asleep_ns));
}

static void age_of_context(FILE *file, const family *of, const source *from) {
    const gcoll_record *record = from->context->record;
    begin(file, of, from);
    end_seconds(file, gcoll_record_duration_ns(record, gcoll_ticks() - gcoll_count_get(&record->refreshed)));
}

static void registrations_of_context(FILE *file, const family *of, const source *from) {
    begin(file, of, from);
    end(file, of, from, gcoll_count_get(&from->context->record->registrations));
}

#define COLLECTIVE(field) of_collectives, offsetof(struct gcoll_record_collective_total, field)
#define PEER(field)       of_peers, offsetof(struct gcoll_record_peer_total, field)
static const family families[] = {
    {"gcoll_ranks", "gauge", "Ranks of the context.", size_of_context, 0, false},
    {"gcoll_broken", "gauge", "1 if the context is broken.", health_of_context, 0, false},
    {"gcoll_operations_total", "counter", "Collective operations that are done.", COLLECTIVE(done), false},
    {"gcoll_operation_failures_total", "counter", "Collective operations that ended by an error.",
     COLLECTIVE(failed), false},
    {"gcoll_operation_bytes_total", "counter", "Elements of the operations that are done, in bytes.",
     COLLECTIVE(bytes), false},
    {"gcoll_operation_seconds_total", "counter",
     "Time from the begin to the end of the operations that are done.", COLLECTIVE(ticks), true},
    {"gcoll_sent_messages_total", "counter", "Messages sent to a peer.", PEER(sent_messages), false},
    {"gcoll_sent_bytes_total", "counter", "Bytes of them.", PEER(sent_bytes), false},
    {"gcoll_received_messages_total", "counter", "Messages received from a peer.", PEER(received_messages),
     false},
    {"gcoll_received_bytes_total", "counter", "Bytes of them.", PEER(received_bytes), false},
    {"gcoll_waits_total", "counter", "Waits for a peer that were not over at once.", PEER(waits), false},
    {"gcoll_wait_seconds_total", "counter", "Time of them.", PEER(waited_ticks), true},
    {"gcoll_retransmitted_segments_total", "counter", "Segments that TCP has sent to a peer again.",
     PEER(retransmitted), false},
    {"gcoll_peer_lane", "gauge", "1: by this lane messages go to the peer.", lanes_of_peers, 0, false},
    {"gcoll_sleeps_total", "counter", "Waits that gave up their processor.", sleeps_of_context, 0, false},
    {"gcoll_asleep_seconds_total", "counter", "Time of them.", asleep_of_context, 0, false},
    {"gcoll_transport_age_seconds", "gauge",
     "How long ago lanes, segments, sleeps and registrations were read.", age_of_context, 0, false},
    {"gcoll_registrations_total", "counter", "Memory registered with an RDMA device.",
     registrations_of_context, 0, false},
};

/* The samples of a family must stand together, whatever context they are of. */
static void write_all(FILE *file, const void *arg) {
    const metrics *wanted = arg;
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        fprintf(file, "# HELP %s %s\n# TYPE %s %s\n", families[f].name, families[f].help, families[f].name,
                families[f].type);
        for (uint32_t i = 0; i < wanted->count; i++)
            families[f].write(file, &families[f], &wanted->sources[i]);
    }
}

static gcoll_status check(gcoll_context *const *contexts, uint32_t count) {
    if (!contexts || count == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "contexts: %s", contexts ? "count is 0" : "is NULL");
    for (uint32_t i = 0; i < count; i++) {
        if (!contexts[i])
            return gcoll_error(GCOLL_ERR_INVALID, "contexts[%u]: is NULL", i);
        if (gcoll_is_forked(contexts[i]))
            return gcoll_refuse_call(contexts[i]);
        if (!contexts[i]->record)
            return gcoll_error(GCOLL_ERR_STATE,
                               "contexts[%u]: the recorder, which counts, is off (GCOLL_RECORD)", i);
    }
    return GCOLL_OK;
}

static void drop(metrics *wanted) {
    for (uint32_t i = 0; i < wanted->count; i++)
        free(wanted->sources[i].totals);
    free(wanted->sources);
}

static gcoll_status collect(gcoll_context *const *contexts, uint32_t count, metrics *wanted) {
    gcoll_status status = check(contexts, count);
    if (status != GCOLL_OK)
        return status;
    *wanted = (metrics){calloc(count, sizeof *wanted->sources), 0};
    if (!wanted->sources)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the metrics of %u contexts", count);
    for (; wanted->count < count; wanted->count++) {
        source *from = &wanted->sources[wanted->count];
        gcoll_record_ask(contexts[wanted->count]);
        from->context = contexts[wanted->count];
        from->totals = gcoll_record_add_up(from->context);
        if (!from->totals) {
            drop(wanted);
            return GCOLL_ERR_NO_MEMORY;
        }
    }
    return GCOLL_OK;
}

gcoll_status gcoll_metrics(gcoll_context *const *contexts, uint32_t count, char *text, size_t bytes,
                           size_t *needed) {
    metrics wanted;
    char *whole = NULL;
    size_t length = 0;
    if (!text && bytes > 0)
        return gcoll_error(GCOLL_ERR_INVALID, "text: is NULL, and bytes is %zu", bytes);
    if (bytes > 0)
        text[0] = '\0';
    gcoll_status status = collect(contexts, count, &wanted);
    if (status != GCOLL_OK)
        return status;
    FILE *file = open_memstream(&whole, &length);
    if (file)
        write_all(file, &wanted);
    drop(&wanted);
    if (!file || fclose(file) != 0) {
        free(whole);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the text of %u contexts", count);
    }
    if (needed)
        *needed = length + 1;
    if (bytes > length)
        memcpy(text, whole, length + 1);
    else if (bytes > 0 || !needed)
        status = gcoll_error(GCOLL_ERR_INVALID, "bytes: is %zu; the text needs %zu", bytes, length + 1);
    free(whole);
    return status;
}

gcoll_status gcoll_metrics_write(gcoll_context *const *contexts, uint32_t count, const char *path) {
    metrics wanted;
    if (!path || path[0] == '\0')
        return gcoll_error(GCOLL_ERR_INVALID, "path: is NULL or empty");
    gcoll_status status = collect(contexts, count, &wanted);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_record_write_file(path, 0644, write_all, &wanted); /* a collector is another user */
    drop(&wanted);
    return status;
}
