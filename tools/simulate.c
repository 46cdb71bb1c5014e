/* tools/simulate.c - algorithms in virtual time. */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/commands.h"
#include "tools/json.h"
#include "tools/output.h"
#include "tools/plan_file.h"
#include "tools/progress.h"
#include "tools/simulate.h"
#include "tools/timeline.h"
#include "tools/words.h"

#define US          1e6 /* microseconds in a second */
#define SHOWN_PATH  24u /* pieces of the critical path that the table shows */
#define SHOWN_RANKS 32u

gcoll_simulation *tool_run_job(const tool_options *o, const tool_job *job, bool timeline) {
    gcoll_simulate_options options;
    gcoll_simulation *simulation = NULL;
    double *arrival;
    if (!tool_arrivals(o, job->size, &arrival))
        return NULL;
    gcoll_simulate_options_init(&options);
    double overhead_us = o->overhead_us < 0 ? o->alpha_us : o->overhead_us;
    options.network =
        (gcoll_simulate_link){o->alpha_us / US, o->beta_ns * 1e-9, (o->alpha_us - overhead_us) / US};
    options.host = options.network;
    if (o->host_alpha_us >= 0)
        options.host = (gcoll_simulate_link){o->host_alpha_us / US, options.host.beta, 0};
    if (o->host_beta_ns >= 0)
        options.host.beta = o->host_beta_ns * 1e-9;
    options.gamma = o->gamma_ns * 1e-9;
    options.device = (gcoll_simulate_device){o->device_alpha_us / US, o->device_in_ns * 1e-9,
                                             o->device_out_ns * 1e-9, o->device_within_ns * 1e-9};
    options.type_bytes = (uint32_t)gcoll_type_size(o->type);
    options.ports = o->ports;
    options.eager_bytes = o->eager_bytes;
    options.ranks_per_node = o->ranks_per_node;
    options.links = o->network.links;
    options.node = o->network.host;
    options.node_ports = o->node_ports;
    options.memory_ports = o->memory_ports;
    options.arrival = arrival;
    options.timeline = timeline;
    if (gcoll_simulate((const gcoll_plan *const *)job->plans, job->size, &options, &simulation) != GCOLL_OK)
        cli_complain("%s", gcoll_last_error());
    free(arrival);
    return simulation;
}

/* ---- Printing -------------------------------------------------------------------------------------------
 */

typedef struct result {
    const tool_options *options;
    const gcoll_problem *problem;
    const gcoll_simulation *simulation;
    const char *algorithm;
    uint64_t bytes;
    double formula_s; /* < 0: there is none, as of plans from a file */
} result;

static void print_json(FILE *file, const result *r) {
    struct json_object *object = json_object_new_object(), *finish = json_object_new_array();
    const gcoll_simulation *s = r->simulation;
    json_object_object_add(object, "collective",
                           json_object_new_string(gcoll_collective_name(r->problem->collective)));
    json_object_object_add(object, "algorithm", json_object_new_string(r->algorithm));
    json_object_object_add(object, "ranks", json_object_new_uint64(s->size));
    json_object_object_add(object, "bytes", json_object_new_uint64(r->bytes));
    json_object_object_add(object, "count", json_object_new_uint64(r->problem->count));
    json_object_object_add(object, "type", json_object_new_string(gcoll_type_name(r->options->type)));
    json_object_object_add(object, "time_us", tool_json_number(US * s->time));
    json_object_object_add(object, "formula_us",
                           r->formula_s < 0 ? NULL : tool_json_number(US * r->formula_s));
    json_object_object_add(object, "mean_elapsed_us", tool_json_number(US * s->mean_elapsed));
    for (uint32_t i = 0; i < s->size; i++)
        json_object_array_add(finish, tool_json_number(US * s->finish[i]));
    json_object_object_add(object, "finish_us", finish);
    fprintf(file, "%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    json_object_put(object);
}

static void print_path(FILE *file, const gcoll_simulation *s) {
    fprintf(file, "# the critical path, from the end back:\n#%13s %12s %6s %6s  %s\n", "begin us", "end us",
            "rank", "step", "what");
    for (uint64_t i = 0; i < s->path_count && i < SHOWN_PATH; i++) {
        const gcoll_simulate_piece *p = &s->path[i];
        char step[16] = "-", peer[32] = "";
        if (p->step != GCOLL_SIMULATE_NOBODY)
            snprintf(step, sizeof step, "%u", p->step);
        if (p->peer != GCOLL_SIMULATE_NOBODY)
            snprintf(peer, sizeof peer, " %s rank %u", p->kind == GCOLL_SIMULATE_SEND ? "to" : "from",
                     p->peer);
        fprintf(file, "%14.3f %12.3f %6u %6s  %s%s, begun by %s\n", US * p->begin, US * p->end, p->rank, step,
                gcoll_simulate_kind_name(p->kind), peer, gcoll_simulate_reason_name(p->reason));
    }
    if (s->path_count > SHOWN_PATH)
        fprintf(file, "# and %" PRIu64 " more\n", s->path_count - SHOWN_PATH);
    fprintf(file, "# ranks finish at, in us:");
    for (uint32_t r = 0; r < s->size && r < SHOWN_RANKS; r++)
        fprintf(file, " %.3f", US * s->finish[r]);
    fputs(s->size > SHOWN_RANKS ? " ...\n" : "\n", file);
}

static void print_table(FILE *file, const result *r, bool first, bool only) {
    const gcoll_simulation *s = r->simulation;
    const bool moves = r->problem->collective != GCOLL_BARRIER;
    char formula[32] = "-";
    const tool_options *o = r->options;
    const char *path = o->network.path;
    if (first)
        fprintf(file,
                "# %s%s%s%s%s: %salpha %g us, %sbeta %g ns, gamma %g ns\n#%6s %12s %14s %14s %14s  %s\n",
                gcoll_collective_name(r->problem->collective), moves ? " of " : "",
                moves ? gcoll_type_name(o->type) : "", path ? " on " : "", path ? path : "",
                path ? "mean " : "", o->alpha_us, path ? "mean " : "", o->beta_ns, o->gamma_ns, "ranks",
                "bytes", "time us", "formula us", "mean own us", "algorithm");
    if (r->formula_s >= 0)
        snprintf(formula, sizeof formula, "%.3f", US * r->formula_s);
    fprintf(file, "%7u %12" PRIu64 " %14.3f %14s %14.3f  %s\n", s->size, r->bytes, US * s->time, formula,
            US * s->mean_elapsed, r->algorithm);
    if (only)
        print_path(file, s);
}

static double formula_of(const tool_options *o, const tool_shape *shape) {
    const gcoll_cost_parameters parameters = tool_cost_parameters(o);
    gcoll_levels levels;
    const gcoll_needs needs = {.levels = tool_levels(o, shape->problem.size, &levels)};
    return gcoll_algorithm_seconds(shape->choice.algorithm, &shape->problem, gcoll_type_size(o->type), &needs,
                                   &parameters);
}

/* Reports that a planner refused a problem that its `applies` accepted; the algorithm is left out. */
static void say_refused(const tool_shape *shape, uint32_t rank) {
    char text[TOOL_TEXT];
    tool_shape_text(shape, NULL, text);
    cli_complain("%s of %s: does not apply: rank %u: %s (refused by its planner; `applies` is the place)",
                 shape->choice.algorithm->name, text, rank, gcoll_last_error());
}

bool tool_time_job(const tool_options *o, const tool_shape *shape, tool_time *time) {
    tool_job job;
    uint32_t rank;
    *time = (tool_time){-1, -1};
    if (o->by_formula) {
        time->seconds = formula_of(o, shape);
        return true;
    }
    gcoll_status status = tool_job_create(shape, &job, &rank);
    if (status == GCOLL_ERR_UNSUPPORTED) {
        say_refused(shape, rank);
        return true;
    }
    if (status != GCOLL_OK) {
        tool_job_complain(shape, rank);
        return false;
    }
    gcoll_simulation *simulation = tool_run_job(o, &job, false);
    if (simulation)
        *time = (tool_time){simulation->time, simulation->mean_elapsed};
    gcoll_simulation_destroy(simulation);
    tool_job_free(&job);
    return simulation;
}

/* Runs the plans in virtual time and prints what came of it; r lacks the simulation. */
static bool run_and_print(const tool_job *job, result *r, FILE *file, bool first, bool only) {
    const tool_options *o = r->options;
    gcoll_simulation *simulation = tool_run_job(o, job, o->timeline);
    if (!simulation)
        return false;
    r->simulation = simulation;
    cli_progress_hide();
    if (o->format == TOOL_JSON)
        print_json(file, r);
    else
        print_table(file, r, first, only);
    const bool good = !o->timeline || tool_write_timeline(o->timeline, job, simulation);
    gcoll_simulation_destroy(simulation);
    return good;
}

static int simulate(const tool_options *o, FILE *file, uint32_t size, uint64_t bytes, bool first) {
    tool_shape shape;
    tool_job job = {0};
    int status = TOOL_FAILED;
    char text[256];
    const bool only = o->ranks.count * o->bytes.count == 1;
    if (!tool_shape_of(o, o->algorithm, size, tool_elements(o, bytes), &shape))
        return CLI_USAGE;
    gcoll_choice_format(&shape.choice, text, sizeof text);
    if (tool_job_of(&shape, &job)) {
        result r = {o, &shape.problem, NULL, text, bytes, formula_of(o, &shape)};
        if (run_and_print(&job, &r, file, first, only))
            status = TOOL_OK;
    }
    tool_job_free(&job);
    tool_shape_free(&shape);
    return status;
}

/* ---- Plans from a file -----------------------------------------------------------------------------------
 */

/* The simulator takes plans that are right, and those of a file may not be. */
static int simulate_plans(const tool_options *o, FILE *to, const tool_plan_file *file, bool first,
                          bool only) {
    const gcoll_problem *p = &file->plans[0]->problem;
    const tool_job job = {file->size, file->plans};
    if (o->network.path && file->size > o->network.ranks) {
        cli_complain("--plan: %s has %u ranks; allowed with %s are 1 to %u", o->plan, file->size,
                     o->network.path, o->network.ranks);
        return CLI_USAGE;
    }
    if (tool_plan_file_verify(file, &(gcoll_verify_report){0}) != GCOLL_OK) {
        cli_complain("--plan: %s: %s", o->plan, gcoll_last_error());
        return TOOL_FAILED;
    }
    result r = {o, p, NULL, file->name, p->count * gcoll_type_size(o->type), -1};
    return run_and_print(&job, &r, to, first, only) ? TOOL_OK : TOOL_FAILED;
}

static int simulate_file(const tool_options *o, FILE *to) {
    const size_t cases = o->bytes.count ? o->bytes.count : 1;
    int status = TOOL_OK;
    for (size_t i = 0; i < cases && status == TOOL_OK; i++) {
        tool_plan_file file;
        const uint64_t elements = o->bytes.count ? tool_elements(o, o->bytes.values[i]) : 0;
        if (!tool_plan_file_read("--plan", o->plan, o->bytes.count ? &elements : NULL, &file))
            return CLI_USAGE;
        status = simulate_plans(o, to, &file, i == 0, cases == 1);
        tool_plan_file_free(&file);
    }
    return status;
}

int tool_simulate(const tool_options *options) {
    const size_t cases = options->plan ? options->bytes.count : options->ranks.count * options->bytes.count;
    if (options->timeline && cases > 1) {
        cli_complain("--timeline: is of one case; allowed is one number of --ranks and one of --bytes");
        return CLI_USAGE;
    }
    FILE *file = tool_open_output(options);
    int status = file ? TOOL_OK : TOOL_FAILED;
    if (file && options->plan)
        status = simulate_file(options, file);
    tool_grid_begin("simulate", options, options->bytes.count);
    for (size_t i = 0; file && i < options->ranks.count; i++)
        for (size_t k = 0; k < options->bytes.count && status != CLI_USAGE; k++) {
            int one = simulate(options, file, (uint32_t)options->ranks.values[i], options->bytes.values[k],
                               i + k == 0);
            status = one != TOOL_OK ? one : status;
            cli_progress_add(tool_work_of(options->ranks.values[i]));
        }
    cli_progress_end();
    if (file && !tool_close_output(options, file))
        status = TOOL_FAILED;
    return status;
}
