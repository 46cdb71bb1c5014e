/* benchmark/report.c - results as a table, as JSON (one object a line) or as CSV. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "benchmark/arrival.h"
#include "benchmark/page_file.h"
#include "benchmark/report.h"
#include "benchmark/shape.h"
#include "tools/progress.h"

/* What a line holds, in the order of its columns. A text of NULL does not apply. */
typedef struct cell {
    const char *key;
    bool is_text; /* else a number */
    char text[160];
} cell;

#define CELLS_MAX 46

/* Columns of devices in a table, and their units. */
#define DEVICE_HEAD  "   copy reduce    net   both copies ev reduce ev    pinned"
#define DEVICE_UNITS "      %      %      %      %        us        us       MiB"
/* The same of paced calls. */
#define ARRIVAL_HEAD  "   elapsed from mean from last imbalance"
#define ARRIVAL_UNITS "        us        us        us   message"
/* The same with the monitor: timed calls that were heeded, of all. */
#define HEEDED_HEAD   "     heeded"
#define BYTES_PER_MIB 1048576.0

typedef struct cells {
    cell cell[CELLS_MAX];
    size_t count;
} cells;

double bench_algbw(const bench_result *result) {
    if (result->bytes == 0 || !(result->time.p50_us > 0))
        return 0;
    return (double)result->bytes / (result->time.p50_us * 1e-6) / 1e9;
}

double bench_busbw(const bench_result *result, uint32_t ranks) {
    return bench_algbw(result) * bench_bus_factor(result->collective, ranks);
}

static cell *add(cells *row, const char *key, bool is_text) {
    cell *c = &row->cell[row->count++];
    c->key = key;
    c->is_text = is_text;
    c->text[0] = '\0';
    return c;
}

/* An empty text stands for "does not apply". */
static void add_text(cells *row, const char *key, const char *text) {
    cell *c = add(row, key, true);
    (void)snprintf(c->text, sizeof c->text, "%s", text);
}

static void add_count(cells *row, const char *key, bool applies, uint64_t value) {
    cell *c = add(row, key, false);
    if (applies)
        (void)snprintf(c->text, sizeof c->text, "%" PRIu64, value);
}

static void add_real(cells *row, const char *key, bool applies, double value, int digits) {
    cell *c = add(row, key, false);
    if (applies)
        (void)snprintf(c->text, sizeof c->text, "%.*f", digits, value);
}

/* A column of its own only where it was asked for. */
static void add_rounding(cells *row, const bench_report *report, const bench_result *result) {
    if (!report->options->rounding)
        return;
    cell *c = add(row, "rounding", false);
    if (result->has_rounding)
        (void)snprintf(c->text, sizeof c->text, "%.3e", result->rounding);
}

/* As with rounding; a negative figure does not apply. */
static void add_devices(cells *row, const bench_report *report, const bench_result *result) {
    const bench_options *o = report->options;
    const bench_device_figures *d = &result->devices;
    if (!report->has_devices)
        return;
    add_text(row, "device", o->on_device ? o->device : "host");
    add_text(row, "local_reduction", d->any ? gcoll_memory_local_name(o->local_reduction) : "");
    add_real(row, "copy_share", d->any, d->copy, 4);
    add_real(row, "reduce_share", d->any, d->reduce, 4);
    add_real(row, "network_share", d->any, d->network, 4);
    add_real(row, "overlap", d->any && d->overlap >= 0, d->overlap, 4);
    add_real(row, "copy_event_us", d->any, d->copy_event_us, 2);
    add_real(row, "reduce_event_us", d->any, d->reduce_event_us, 2);
    add_real(row, "copy_GBps", d->any && d->copy_GBps >= 0, d->copy_GBps, 6);
    add_count(row, "pinned_bytes", d->any, d->pinned_bytes);
}

static bool has_imbalance(const bench_arrival_figures *f) {
    return f->any && f->message_us > 0;
}

static void add_arrivals(cells *row, const bench_report *report, const bench_result *result) {
    const bench_options *o = report->options;
    const bench_arrival_figures *f = &result->arrivals;
    if (!o->paced)
        return;
    add_text(row, "arrival", o->arrival.text ? o->arrival.text : "none");
    add_real(row, "compute_ms", true, o->compute_ms, 3);
    add_text(row, "monitor", bench_monitor_name(o->monitor));
    add_count(row, "heeded", f->watched, f->heeded);
    add_real(row, "elapsed_us", f->any, f->elapsed_us, 2);
    add_real(row, "from_mean_us", f->any, f->from_mean_us, 2);
    add_real(row, "from_last_us", f->any, f->from_last_us, 2);
    add_real(row, "imbalance_us", f->any, f->imbalance_us, 2);
    add_real(row, "message_us", has_imbalance(f), f->message_us, 2);
    add_real(row, "imbalance", has_imbalance(f), f->imbalance_us / f->message_us, 3);
}

/* How a factor reads everywhere. */
#define FACTOR "%.9g"

static void add_factor(cells *row, const char *key, bool applies, double factor) {
    if (!(factor != 0))
        return;
    cell *c = add(row, key, false);
    if (applies)
        (void)snprintf(c->text, sizeof c->text, FACTOR, factor);
}

/* As with rounding. */
static void add_changes(cells *row, const bench_options *o, gcoll_collective collective) {
    if (o->with_barrier)
        add_text(row, "with", collective == GCOLL_BARRIER ? "" : "barrier");
    if (o->checksum)
        add_text(row, "checksum", "crc32c");
    if (o->codec)
        add_text(row, "codec", bench_takes_codec(collective) ? o->codec : "");
    add_factor(row, "prescale", gcoll_collective_reduces(collective), o->prescale);
    add_factor(row, "postscale", gcoll_collective_reduces(collective), o->postscale);
}

static bool has_monitor(const bench_options *o) {
    return o->monitor != BENCH_MONITOR_OFF;
}

static void fill_cells(const bench_report *report, const bench_result *result, cells *row) {
    const bench_options *options = report->options;
    bool data = result->collective != GCOLL_BARRIER;
    bool reduces = gcoll_collective_reduces(result->collective);
    row->count = 0;
    add_text(row, "collective", gcoll_collective_name(result->collective));
    add_text(row, "algorithm", result->algorithm);
    add_text(row, "transport", options->transport);
    add_count(row, "ranks", true, options->size);
    add_count(row, "inputs", data, options->inputs);
    add_count(row, "bytes", data, result->bytes);
    add_count(row, "count", data, result->count);
    add_text(row, "type", data ? gcoll_type_name(options->type) : "");
    add_text(row, "op", reduces ? gcoll_op_name(options->op) : "");
    add_count(row, "iterations", true, result->iterations);
    add_real(row, "min_us", true, result->time.min_us, 2);
    add_real(row, "p50_us", true, result->time.p50_us, 2);
    add_real(row, "p95_us", true, result->time.p95_us, 2);
    add_real(row, "p99_us", true, result->time.p99_us, 2);
    add_real(row, "max_us", true, result->time.max_us, 2);
    add_real(row, "mean_us", true, result->time.mean_us, 2);
    add_real(row, "algbw_GBps", data, bench_algbw(result), 6);
    add_real(row, "busbw_GBps", data, bench_busbw(result, options->size), 6);
    add_count(row, "wrong", result->checked, result->wrong);
    add_rounding(row, report, result);
    add_devices(row, report, result);
    add_arrivals(row, report, result);
    add_changes(row, options, result->collective);
}

static struct json_object *json_of(const cell *c) {
    if (c->text[0] == '\0')
        return NULL; /* json-c's null */
    if (c->is_text)
        return json_object_new_string(c->text);
    if (c->text[strspn(c->text, "0123456789")] != '\0')
        return json_object_new_double_s(strtod(c->text, NULL), c->text);
    return json_object_new_uint64(strtoull(c->text, NULL, 10));
}

/* The row as an object; NULL: out of memory, which has been said. */
static struct json_object *object_of(const cells *row) {
    struct json_object *object = json_object_new_object();
    bool good = object;
    for (size_t i = 0; good && i < row->count; i++)
        good = json_object_object_add(object, row->cell[i].key, json_of(&row->cell[i])) == 0;
    if (good)
        return object;
    cli_complain("out of memory for the results");
    json_object_put(object);
    return NULL;
}

static bool print_json(FILE *file, const cells *row) {
    struct json_object *object = object_of(row);
    if (object)
        (void)fprintf(file, "%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    json_object_put(object);
    return object;
}

/* Keeps the row for the page, where sizes that were asked for together are one line. */
static bool keep(bench_report *report, const cells *row, const char *asked) {
    struct json_object *object = report->kept ? object_of(row) : NULL;
    return !report->kept ||
           (object && json_object_object_add(object, "line", json_object_new_string(asked)) == 0 &&
            json_object_array_add(report->kept, object) == 0);
}

static void print_csv(FILE *file, const cells *row, bool header) {
    for (size_t i = 0; i < row->count; i++) {
        const char *text = header ? row->cell[i].key : row->cell[i].text;
        /* A list of devices holds commas. No text of ours holds a quotation mark. */
        const char *quote = strchr(text, ',') ? "\"" : "";
        (void)fprintf(file, "%s%s%s%s", i > 0 ? "," : "", quote, text, quote);
    }
    (void)fputc('\n', file);
}

static void print_changes(FILE *file, const bench_options *o, gcoll_collective collective) {
    const bool reduces = gcoll_collective_reduces(collective);
    if (o->codec && bench_takes_codec(collective))
        (void)fprintf(file, ", codec %s", o->codec);
    if (reduces && o->prescale != 0)
        (void)fprintf(file, ", prescale " FACTOR, o->prescale);
    if (reduces && o->postscale != 0)
        (void)fprintf(file, ", postscale " FACTOR, o->postscale);
}

static void print_table_head(const bench_report *report, const bench_result *result) {
    const bench_options *options = report->options;
    FILE *file = report->file;
    (void)fprintf(file, "#\n# %s: %u rank%s, %s", gcoll_collective_name(result->collective), options->size,
                  options->size == 1 ? "" : "s", options->transport);
    if (options->checksum)
        (void)fprintf(file, ", checksum");
    if (result->collective != GCOLL_BARRIER)
        (void)fprintf(file, ", %s", gcoll_type_name(options->type));
    if (gcoll_collective_reduces(result->collective))
        (void)fprintf(file, ", %s", gcoll_op_name(options->op));
    if (result->collective != GCOLL_BROADCAST && gcoll_collective_takes_in_place(result->collective))
        (void)fprintf(file, ", %s", options->in_place ? "in place" : "out of place");
    if (gcoll_collective_has_root(result->collective))
        (void)fprintf(file, ", root %u", options->root);
    if (bench_has_exchanges(result->collective) && options->exchanges > 0)
        (void)fprintf(file, ", %u exchange%s", options->exchanges, options->exchanges == 1 ? "" : "s");
    if (result->collective != GCOLL_BARRIER && options->inputs > 1)
        (void)fprintf(file, ", %u inputs a rank", options->inputs);
    if (options->shared && result->collective != GCOLL_BARRIER)
        (void)fprintf(file, ", shared memory");
    if (report->has_devices && result->collective != GCOLL_BARRIER)
        (void)fprintf(file, ", %s", options->on_device ? options->device : "host");
    if (options->on_device && gcoll_collective_takes_buffers(result->collective) && options->inputs > 1)
        (void)fprintf(file, ", local reduction %s", gcoll_memory_local_name(options->local_reduction));
    if (options->with_barrier && result->collective != GCOLL_BARRIER)
        (void)fprintf(file, ", with the barrier before it");
    if (options->paced) {
        (void)fprintf(file, ", arrival %s, compute %g ms, monitor %s",
                      options->arrival.text ? options->arrival.text : "none", options->compute_ms,
                      bench_monitor_name(options->monitor));
    }
    if (gcoll_collective_reduces(result->collective) && bench_same(options) != GCOLL_SAME_ON_RANKS)
        (void)fprintf(file, ", same %s", bench_same(options) == GCOLL_SAME_IN_RUNS ? "in runs" : "nowhere");
    if (gcoll_collective_reduces(result->collective) && options->order > GCOLL_ORDER_ANY)
        (void)fprintf(file, ", order %s", bench_order_name(options->order));
    print_changes(file, options, result->collective);
    (void)fprintf(file, "\n#%11s %11s %7s %9s %9s %9s %9s %9s %7s %7s %6s%s%s%s%s  %s\n", "bytes", "count",
                  "iters", "min", "p50", "p95", "p99", "max", "algbw", "busbw", "wrong",
                  options->rounding ? "  rounding" : "", report->has_devices ? DEVICE_HEAD : "",
                  options->paced ? ARRIVAL_HEAD : "", has_monitor(options) ? HEEDED_HEAD : "", "algorithm");
    (void)fprintf(file, "#%11s %11s %7s %9s %9s %9s %9s %9s %7s %7s", "", "", "", "us", "us", "us", "us",
                  "us", "GB/s", "GB/s");
    if (report->has_devices || options->paced) {
        (void)fprintf(file, " %6s%s%s%s", "", options->rounding ? "          " : "",
                      report->has_devices ? DEVICE_UNITS : "", options->paced ? ARRIVAL_UNITS : "");
    }
    (void)fputc('\n', file);
}

static void print_percent(FILE *file, bool applies, double value) {
    if (applies && value >= 0)
        (void)fprintf(file, " %6.1f", 100 * value);
    else
        (void)fprintf(file, " %6s", "-");
}

static void print_devices(FILE *file, const bench_device_figures *d) {
    print_percent(file, d->any, d->copy);
    print_percent(file, d->any, d->reduce);
    print_percent(file, d->any, d->network);
    print_percent(file, d->any, d->overlap);
    if (d->any) {
        (void)fprintf(file, " %9.1f %9.1f %9.2f", d->copy_event_us, d->reduce_event_us,
                      (double)d->pinned_bytes / BYTES_PER_MIB);
    } else {
        (void)fprintf(file, " %9s %9s %9s", "-", "-", "-");
    }
}

static void print_arrivals(FILE *file, const bench_arrival_figures *f) {
    (void)fprintf(file, " %9.1f %9.1f %9.1f", f->elapsed_us, f->from_mean_us, f->from_last_us);
    if (has_imbalance(f))
        (void)fprintf(file, " %9.2f", f->imbalance_us / f->message_us);
    else
        (void)fprintf(file, " %9s", "-");
}

static void print_heeded(FILE *file, const bench_result *result) {
    char text[48] = "-"; /* the monitor does not watch it */
    if (result->arrivals.watched)
        (void)snprintf(text, sizeof text, "%" PRIu64 "/%u", result->arrivals.heeded, result->iterations);
    (void)fprintf(file, " %10s", text);
}

static void print_table(const bench_report *report, const bench_result *result) {
    FILE *file = report->file;
    const bench_statistics *t = &result->time;
    bool data = result->collective != GCOLL_BARRIER;
    if (data)
        (void)fprintf(file, "%12" PRIu64 " %11" PRIu64, result->bytes, result->count);
    else
        (void)fprintf(file, "%12s %11s", "-", "-");
    (void)fprintf(file, " %7u %9.1f %9.1f %9.1f %9.1f %9.1f", result->iterations, t->min_us, t->p50_us,
                  t->p95_us, t->p99_us, t->max_us);
    if (data)
        (void)fprintf(file, " %7.3f %7.3f", bench_algbw(result), bench_busbw(result, report->options->size));
    else
        (void)fprintf(file, " %7s %7s", "-", "-");
    if (result->checked)
        (void)fprintf(file, " %6" PRIu64, result->wrong);
    else
        (void)fprintf(file, " %6s", "N/A");
    if (result->has_rounding)
        (void)fprintf(file, " %9.2e", result->rounding);
    else if (report->options->rounding)
        (void)fprintf(file, " %9s", "-");
    if (report->has_devices)
        print_devices(file, &result->devices);
    if (report->options->paced)
        print_arrivals(file, &result->arrivals);
    if (has_monitor(report->options))
        print_heeded(file, result);
    (void)fprintf(file, "  %s\n", result->algorithm);
}

static bool written(bench_report *report) {
    if (fflush(report->file) == 0 && !ferror(report->file))
        return true;
    cli_complain("the results could not be written to %s",
                 report->options->output ? report->options->output : "standard output");
    return false;
}

void bench_report_begin(bench_report *report, const bench_options *options, bool has_devices, FILE *file) {
    memset(report, 0, sizeof *report);
    report->file = file;
    report->options = options;
    report->has_devices = has_devices;
    if (file && options->report)
        report->kept = json_object_new_array();
    if (file && options->format == BENCH_TABLE) {
        (void)fprintf(file, "# gcoll_bench %s\n", gcoll_version());
        (void)fflush(file); /* says that all ranks have joined */
    }
}

bool bench_report_add(bench_report *report, const bench_result *result) {
    report->wrong += result->wrong;
    if (!report->file)
        return true;
    cli_progress_hide();
    bool good = true;
    cells row;
    fill_cells(report, result, &row);
    if (report->options->format == BENCH_TABLE) {
        if (report->lines == 0 || report->collective != result->collective) {
            report->collective = result->collective;
            print_table_head(report, result);
        }
        print_table(report, result);
    } else if (report->options->format == BENCH_JSON) {
        good = print_json(report->file, &row);
    } else {
        if (report->lines == 0)
            print_csv(report->file, &row, true);
        print_csv(report->file, &row, false);
    }
    report->lines++;
    return written(report) && keep(report, &row, result->asked) && good;
}

static bool print_end(bench_report *report) {
    cli_progress_hide();
    if (!report->file || report->options->format != BENCH_TABLE)
        return true;
    if (report->options->no_check)
        (void)fprintf(report->file, "#\n# results were not checked (--no-check)\n");
    else if (report->wrong == 0)
        (void)fprintf(report->file, "#\n# every element of every result was right\n");
    else
        (void)fprintf(report->file, "#\n# %" PRIu64 " WRONG elements\n", report->wrong);
    return written(report);
}

bool bench_report_end(bench_report *report) {
    const bool good = print_end(report);
    if (!report->file || !report->options->report)
        return good;
    if (!report->kept)
        cli_complain("--report: out of memory");
    return report->kept && bench_page_write_run(report->options, report->kept) && good;
}

void bench_report_free(bench_report *report) {
    json_object_put(report->kept);
}
