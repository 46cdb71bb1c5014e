/* tools/arrival.c - algorithms when ranks arrive at different times, by the measure of Proficz: the mean over
 * the ranks of the time from their own arrival. */
#include "tools/arrival.h"
#include "tools/commands.h"
#include "tools/json.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/simulate.h"
#include "tools/verify.h"
#include "tools/words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MS          1e3
#define US          1e6
#define SHOWN_RANKS 64u

#define FOUND "best_ring_found"

typedef struct finding {
    char name[256];
    tool_lateness mean; /* over the operations */
    bool applies;
} finding;

typedef struct report {
    const tool_options *options;
    tool_targets targets;
    finding *rows; /* of the targets, and one for what was found */
    size_t count;
    tool_ring ring; /* found for the last operation */
    bool all;       /* it is the best of all */
    uint32_t size;
    uint64_t bytes;
} report;

tool_lateness tool_lateness_of(const gcoll_simulation *s, const double *arrival) {
    double sum = 0, last = 0;
    for (uint32_t r = 0; r < s->size && arrival; r++) {
        sum += arrival[r];
        last = arrival[r] > last ? arrival[r] : last;
    }
    return (tool_lateness){s->mean_elapsed, s->time - sum / s->size, s->time - last};
}

static void add(tool_lateness *sum, tool_lateness one, uint64_t operations) {
    sum->elapsed += one.elapsed / (double)operations;
    sum->from_mean += one.from_mean / (double)operations;
    sum->from_last += one.from_last / (double)operations;
}

/* ---- Measuring ----------------------------------------------------------------------------------------- */

static bool run_job(const tool_options *o, const tool_shape *shape, tool_lateness *found) {
    tool_job job;
    double *arrival = NULL;
    if (!tool_job_of(shape, &job))
        return false;
    gcoll_simulation *s = tool_run_job(o, &job, false);
    bool good = s && tool_arrivals(o, job.size, &arrival);
    if (good)
        *found = tool_lateness_of(s, arrival);
    free(arrival);
    gcoll_simulation_destroy(s);
    tool_job_free(&job);
    return good;
}

static bool measure(const report *r, const tool_options *o, const tool_target *target, finding *row) {
    tool_shape shape;
    tool_lateness found;
    if (!tool_target_shape(o, target, r->size, tool_elements(o, r->bytes), &shape, &row->applies))
        return false;
    gcoll_choice_format(&shape.choice, row->name, sizeof row->name);
    bool good = !row->applies || run_job(o, &shape, &found);
    if (good && row->applies)
        add(&row->mean, found, o->operations);
    tool_shape_free(&shape);
    return good;
}

static bool search(report *r, const tool_options *o, finding *row) {
    tool_shape shape;
    tool_lateness found;
    if (!tool_problem_of(o, r->size, tool_elements(o, r->bytes), &shape))
        return false;
    tool_ring_free(&r->ring);
    bool good = tool_search(o, &shape, &r->ring, &r->all, &found);
    if (good)
        add(&row->mean, found, o->operations);
    row->applies = true;
    memcpy(row->name, FOUND, sizeof FOUND);
    tool_shape_free(&shape);
    return good;
}

static bool fill(report *r) {
    tool_options o = *r->options;
    const double tries = (double)tool_search_tries(&o, r->size);
    bool good = true;
    cli_progress_begin("arrival", (double)o.operations * ((double)r->targets.count + tries));
    for (o.operation = 0; good && o.operation < o.operations; o.operation++) {
        for (size_t t = 0; good && t < r->targets.count; t++) {
            good = measure(r, &o, &r->targets.at[t], &r->rows[t]);
            cli_progress_add(1);
        }
        good = good && (o.tries == 0 || search(r, &o, &r->rows[r->targets.count]));
    }
    cli_progress_end();
    return good;
}

/* ---- Printing ------------------------------------------------------------------------------------------ */

static int by_elapsed(const void *left, const void *right) {
    const finding *a = left, *b = right;
    if (a->applies != b->applies)
        return a->applies ? -1 : 1;
    return (a->mean.elapsed > b->mean.elapsed) - (a->mean.elapsed < b->mean.elapsed);
}

static void print_ring(const report *r, FILE *file) {
    fprintf(file, "# best of %s%s:\n#   order", r->all ? "all rings" : "the rings that were tried",
            r->options->operations == 1 ? "" : ", for the last operation");
    for (uint32_t i = 0; i < r->size && i < SHOWN_RANKS; i++)
        fprintf(file, " %u", r->ring.order[i]);
    fprintf(file, "%s\n#   lead ", r->size > SHOWN_RANKS ? " ..." : "");
    for (uint32_t i = 0; i < r->size && i < SHOWN_RANKS; i++)
        fprintf(file, " %u", r->ring.lead[i]);
    fputs(r->size > SHOWN_RANKS ? " ...\n" : "\n", file);
}

static void print_table(const report *r, FILE *file) {
    const tool_options *o = r->options;
    const double best = r->rows[0].mean.elapsed;
    fprintf(file, "# %s of %" PRIu64 " bytes, %u rank%s, mean of %" PRIu64 " operation%s\n", o->collective,
            r->bytes, r->size, tool_plural(r->size), o->operations, o->operations == 1 ? "" : "s");
    fprintf(file, "#  elapsed ms  from mean ms  from last ms  to best  algorithm\n");
    for (size_t i = 0; i < r->count; i++) {
        const finding *w = &r->rows[i];
        if (w->applies)
            fprintf(file, "%13.4f %13.4f %13.4f %8.3f  %s\n", MS * w->mean.elapsed, MS * w->mean.from_mean,
                    MS * w->mean.from_last, best > 0 ? w->mean.elapsed / best : 1, w->name);
        else
            fprintf(file, "%13s %13s %13s %8s  %s: does not apply\n", "-", "-", "-", "-", w->name);
    }
    if (o->tries > 0)
        print_ring(r, file);
}

static void print_json(const report *r, FILE *file) {
    const double best = r->rows[0].mean.elapsed;
    for (size_t i = 0; i < r->count; i++) {
        const finding *w = &r->rows[i];
        struct json_object *object = json_object_new_object();
        const double to_best = best > 0 ? w->mean.elapsed / best : 1;
        json_object_object_add(object, "collective", json_object_new_string(r->options->collective));
        json_object_object_add(object, "algorithm", json_object_new_string(w->name));
        json_object_object_add(object, "ranks", json_object_new_uint64(r->size));
        json_object_object_add(object, "bytes", json_object_new_uint64(r->bytes));
        json_object_object_add(object, "operations", json_object_new_uint64(r->options->operations));
        json_object_object_add(object, "elapsed_us",
                               w->applies ? tool_json_number(US * w->mean.elapsed) : NULL);
        json_object_object_add(object, "from_mean_us",
                               w->applies ? tool_json_number(US * w->mean.from_mean) : NULL);
        json_object_object_add(object, "from_last_us",
                               w->applies ? tool_json_number(US * w->mean.from_last) : NULL);
        json_object_object_add(object, "to_best", w->applies ? json_object_new_double(to_best) : NULL);
        fprintf(file, "%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
        json_object_put(object);
    }
}

static bool show(report *r) {
    FILE *file = tool_open_output(r->options);
    if (!file)
        return false;
    qsort(r->rows, r->count, sizeof *r->rows, by_elapsed);
    if (r->options->format == TOOL_JSON)
        print_json(r, file);
    else
        print_table(r, file);
    return tool_close_output(r->options, file);
}

int tool_arrival(const tool_options *o) {
    report r = {.options = o};
    if (o->ranks.count != 1 || o->bytes.count != 1) {
        cli_complain("arrival takes one number of --ranks and one of --bytes");
        return CLI_USAGE;
    }
    r.size = (uint32_t)o->ranks.values[0];
    r.bytes = o->bytes.values[0];
    if (o->tries > 0 && (strcmp(o->collective, "allreduce") != 0 || r.size < 2)) {
        cli_complain("--tries: what is searched is the ring of an allreduce of at least 2 ranks");
        return CLI_USAGE;
    }
    if (!cli_arrival_fits("--arrival", &o->arrival, r.size) || !tool_find_targets(o, &r.targets))
        return CLI_USAGE;
    r.count = r.targets.count + (o->tries > 0 ? 1 : 0);
    r.rows = calloc(r.targets.count + 1, sizeof *r.rows);
    if (!r.rows)
        cli_complain("out of memory");
    bool good = r.rows && fill(&r) && show(&r);
    tool_ring_free(&r.ring);
    free(r.rows);
    free(r.targets.at);
    return good ? TOOL_OK : TOOL_FAILED;
}
