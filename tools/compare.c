/* tools/compare.c - the times of several algorithms over a range of sizes or of numbers of ranks. */
#include "tools/compare.h"
#include "tools/commands.h"
#include "tools/json.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define US 1e6

static tool_time *time_at(const tool_comparison *c, size_t point, size_t target) {
    return &c->times[point * c->targets.count + target];
}

static char *name_at(const tool_comparison *c, size_t point, size_t target) {
    return c->names[point * c->targets.count + target];
}

static bool fill_points(tool_comparison *c) {
    const cli_list *ranks = &c->options->ranks, *bytes = &c->options->bytes;
    c->points = calloc(ranks->count * bytes->count, sizeof *c->points);
    c->times = calloc(ranks->count * bytes->count * c->targets.count, sizeof *c->times);
    c->names = calloc(ranks->count * bytes->count * c->targets.count, sizeof *c->names);
    if (!c->points || !c->times || !c->names) {
        cli_complain("out of memory");
        return false;
    }
    for (size_t i = 0; i < ranks->count; i++)
        for (size_t k = 0; k < bytes->count; k++)
            c->points[c->point_count++] = (tool_point){(uint32_t)ranks->values[i], bytes->values[k]};
    return true;
}

/* Measures one algorithm at one point. If it does not apply, it is left out there; any other error ends the
 * comparison. */
static bool measure(const tool_comparison *c, size_t point, size_t target) {
    const tool_options *o = c->options;
    const tool_point at = c->points[point];
    tool_shape shape;
    bool applies;
    char *name = name_at(c, point, target);
    tool_time *time = time_at(c, point, target);
    if (!tool_target_shape(o, &c->targets.at[target], at.ranks, tool_elements(o, at.bytes), &shape, &applies))
        return false;
    gcoll_choice_format(&shape.choice, name, sizeof *c->names);
    bool good = true;
    *time = (tool_time){-1, -1};
    if (applies)
        good = tool_time_job(o, &shape, time);
    tool_shape_free(&shape);
    return good;
}

/* Targets by their time at a point, the fastest first; those that do not apply last. */
static void sort(const tool_comparison *c, size_t point, size_t *order) {
    for (size_t t = 0; t < c->targets.count; t++) {
        size_t k = t;
        double mine = time_at(c, point, t)->seconds;
        while (k > 0 && mine >= 0 &&
               (time_at(c, point, order[k - 1])->seconds < 0 ||
                time_at(c, point, order[k - 1])->seconds > mine)) {
            order[k] = order[k - 1];
            k--;
        }
        order[k] = t;
    }
}

static void print_head(const tool_comparison *c, FILE *file, tool_point at) {
    const tool_options *o = c->options;
    fprintf(file, "# %s", o->collective);
    if (strcmp(o->collective, "barrier") != 0)
        fprintf(file, " of %" PRIu64 " bytes", at.bytes);
    fprintf(file, ", %u rank%s%s%s, by %s\n#%13s %9s", at.ranks, tool_plural(at.ranks),
            o->network.path ? " on " : "", o->network.path ? o->network.path : "",
            o->by_formula ? "formula" : "simulation", "us", "to best");
    if (o->arrival.kind != CLI_ARRIVAL_NONE)
        fprintf(file, " %14s", "mean own us");
    fputs("  algorithm\n", file);
}

static void print_table(const tool_comparison *c, FILE *file, size_t point, const size_t *order) {
    const bool late =
        c->options->arrival.kind != CLI_ARRIVAL_NONE; /* else a rank's own time tells nothing new */
    const double best = time_at(c, point, order[0])->seconds;
    print_head(c, file, c->points[point]);
    for (size_t i = 0; i < c->targets.count; i++) {
        const tool_time mine = *time_at(c, point, order[i]);
        const char *name = name_at(c, point, order[i]);
        if (mine.seconds < 0) {
            fprintf(file, "%14s %9s%*s  %s: does not apply\n", "-", "-", late ? 15 : 0, late ? "-" : "",
                    name);
            continue;
        }
        fprintf(file, "%14.3f %9.3f", US * mine.seconds, best > 0 ? mine.seconds / best : 1);
        if (late)
            fprintf(file, " %14.3f", US * mine.own);
        fprintf(file, "  %s\n", name);
    }
}

static void print_json(const tool_comparison *c, FILE *file, size_t point, const size_t *order) {
    const tool_options *o = c->options;
    for (size_t i = 0; i < c->targets.count; i++) {
        struct json_object *object = json_object_new_object();
        const tool_time mine = *time_at(c, point, order[i]);
        json_object_object_add(object, "collective", json_object_new_string(o->collective));
        json_object_object_add(object, "algorithm", json_object_new_string(name_at(c, point, order[i])));
        json_object_object_add(object, "ranks", json_object_new_uint64(c->points[point].ranks));
        json_object_object_add(object, "bytes", json_object_new_uint64(c->points[point].bytes));
        json_object_object_add(object, "by",
                               json_object_new_string(o->by_formula ? "formula" : "simulation"));
        json_object_object_add(object, "time_us",
                               mine.seconds >= 0 ? tool_json_number(US * mine.seconds) : NULL);
        json_object_object_add(object, "mean_elapsed_us",
                               mine.own >= 0 ? tool_json_number(US * mine.own) : NULL);
        fprintf(file, "%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
        json_object_put(object);
    }
}

static bool compare(const tool_comparison *c, FILE *file) {
    size_t *order = calloc(c->targets.count, sizeof *order);
    bool good = order;
    tool_grid_begin("compare", c->options, c->options->bytes.count * c->targets.count);
    for (size_t p = 0; p < c->point_count && good; p++) {
        for (size_t t = 0; t < c->targets.count && good; t++) {
            good = measure(c, p, t);
            cli_progress_add(tool_work_of(c->points[p].ranks));
        }
        if (!good)
            break;
        cli_progress_hide();
        sort(c, p, order);
        if (c->options->format == TOOL_JSON)
            print_json(c, file, p, order);
        else
            print_table(c, file, p, order);
    }
    cli_progress_end();
    free(order);
    return good;
}

int tool_compare(const tool_options *options) {
    tool_comparison c = {.options = options};
    if (options->plot && options->ranks.count > 1 && options->bytes.count > 1) {
        cli_complain("--plot: draws over --bytes or over --ranks; allowed is a list for one of them");
        return CLI_USAGE;
    }
    if (!tool_find_targets(options, &c.targets))
        return CLI_USAGE;
    if (options->plot && !tool_plot_may_be_written(options->plot)) {
        free(c.targets.at);
        return TOOL_FAILED;
    }
    int status = TOOL_FAILED;
    FILE *file = fill_points(&c) ? tool_open_output(options) : NULL;
    if (file) {
        bool good = compare(&c, file);
        good = tool_close_output(options, file) && good;
        if (good && (!options->plot || tool_plot(&c)))
            status = TOOL_OK;
    }
    free(c.names);
    free(c.times);
    free(c.points);
    free(c.targets.at);
    return status;
}
