/* tools/explain.c - what auto picks, and why. */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/commands.h"
#include "tools/json.h"
#include "tools/output.h"
#include "tools/words.h"

typedef struct field {
    gcoll_candidate *at;
    size_t count, room;
    bool failed;
} field;

static void collect(void *arg, const gcoll_candidate *candidate) {
    field *f = arg;
    if (f->count == f->room) {
        size_t room = f->room ? 2 * f->room : 32;
        gcoll_candidate *more = realloc(f->at, room * sizeof *more);
        if (!more) {
            f->failed = true;
            return;
        }
        f->at = more;
        f->room = room;
    }
    f->at[f->count++] = *candidate;
}

/* Orders candidates as selection does: the cheapest first, of equals the first of the table; then those that
 * do not apply. */
static bool before(const gcoll_candidate *x, const gcoll_candidate *y) {
    if ((x->status == GCOLL_OK) != (y->status == GCOLL_OK))
        return x->status == GCOLL_OK;
    return x->status == GCOLL_OK && x->seconds < y->seconds;
}

static void sort(field *f) {
    for (size_t i = 1; i < f->count; i++)
        for (size_t k = i; k > 0 && before(&f->at[k], &f->at[k - 1]); k--) {
            gcoll_candidate swap = f->at[k];
            f->at[k] = f->at[k - 1];
            f->at[k - 1] = swap;
        }
}

/* The number of the candidate that auto takes; all of them: none serves. */
static size_t chosen_of(const field *f) {
    size_t chosen = 0;
    while (chosen < f->count && f->at[chosen].is_for_trials)
        chosen++;
    return chosen;
}

static void print_table(const tool_options *o, FILE *file, const tool_shape *shape, const field *f,
                        uint64_t bytes) {
    char text[TOOL_TEXT], needs[TOOL_TEXT];
    gcoll_levels levels;
    tool_shape_text(shape, gcoll_type_name(o->type), text);
    tool_claims_text(o->claims | tool_same_claims(o, shape->problem.collective, false), needs);
    fprintf(file, "# %s", o->collective);
    if (shape->problem.collective != GCOLL_BARRIER)
        fprintf(file, ", %" PRIu64 " bytes", bytes);
    fprintf(file, ": %s; asked for: %s", text, needs);
    if (o->memory_limit_bytes > 0)
        fprintf(file, ", scratch of up to %" PRIu64 " bytes", o->memory_limit_bytes);
    fprintf(file,
            "\n# time = alpha turns + beta sent + gamma reduced; alpha %g us, beta %g ns, gamma %g ns\n",
            o->alpha_us, o->beta_ns, o->gamma_ns);
    if (tool_levels(o, shape->problem.size, &levels))
        fprintf(file, "# within a host alpha %g us, beta %g ns; its %u ranks send to others by one link\n",
                1e6 * levels.alpha, 1e9 * levels.beta, levels.most);
    fprintf(file, "#%13s %9s %7s %13s %13s %13s  %s\n", "us", "to best", "turns", "bytes sent",
            "bytes reduced", "scratch bytes", "algorithm");
    const double element = (double)gcoll_type_size(o->type);
    const size_t taken = chosen_of(f);
    for (size_t i = 0; i < f->count; i++) {
        const gcoll_candidate *c = &f->at[i];
        gcoll_choice_format(&c->choice, text, sizeof text);
        if (c->status == GCOLL_OK)
            fprintf(file, "%14.2f %9.3f %7.0f %13.0f %13.0f %13.0f  %s%s\n", 1e6 * c->seconds,
                    f->at[0].seconds > 0 ? c->seconds / f->at[0].seconds : 1, c->cost.steps,
                    element * c->cost.sent, element * c->cost.reduced, element * c->cost.scratch, text,
                    i == taken         ? "   <- auto"
                    : c->is_for_trials ? "   (not chosen by cost)"
                                       : "");
        else
            fprintf(file, "%14s %9s %7s %13s %13s %13s  %s: %s\n", "-", "-", "-", "-", "-", "-", text,
                    c->reason);
    }
}

static void print_json(const tool_options *o, FILE *file, const tool_shape *shape, const field *f,
                       uint64_t bytes) {
    const double element = (double)gcoll_type_size(o->type);
    for (size_t i = 0; i < f->count; i++) {
        const gcoll_candidate *c = &f->at[i];
        struct json_object *object = json_object_new_object();
        bool serves = c->status == GCOLL_OK;
        char text[TOOL_TEXT];
        gcoll_choice_format(&c->choice, text, sizeof text);
        json_object_object_add(object, "collective", json_object_new_string(o->collective));
        json_object_object_add(object, "ranks", json_object_new_uint64(shape->problem.size));
        json_object_object_add(object, "bytes", json_object_new_uint64(bytes));
        json_object_object_add(object, "algorithm", json_object_new_string(text));
        json_object_object_add(object, "chosen", json_object_new_boolean(i == chosen_of(f) && serves));
        json_object_object_add(object, "reason", serves ? NULL : json_object_new_string(c->reason));
        json_object_object_add(object, "time_us", serves ? tool_json_number(1e6 * c->seconds) : NULL);
        json_object_object_add(object, "turns", serves ? tool_json_number(c->cost.steps) : NULL);
        json_object_object_add(object, "sent_bytes",
                               serves ? tool_json_number(element * c->cost.sent) : NULL);
        json_object_object_add(object, "reduced_bytes",
                               serves ? tool_json_number(element * c->cost.reduced) : NULL);
        json_object_object_add(object, "scratch_bytes",
                               serves ? tool_json_number(element * c->cost.scratch) : NULL);
        fprintf(file, "%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
        json_object_put(object);
    }
}

static int explain(const tool_options *o, FILE *file, uint32_t size, uint64_t bytes) {
    const gcoll_cost_parameters parameters = tool_cost_parameters(o);
    const size_t element = gcoll_type_size(o->type);
    gcoll_levels levels;
    gcoll_needs needs = {.claims = o->claims,
                         .scratch_limit = o->memory_limit_bytes / element,
                         .levels = tool_levels(o, size, &levels)};
    field f = {0};
    tool_shape shape;
    if (o->memory_limit_bytes > 0 && needs.scratch_limit == 0) {
        cli_complain("--memory-limit: is %" PRIu64 "; allowed is at least an element of %s, %zu bytes",
                     o->memory_limit_bytes, gcoll_type_name(o->type), element);
        return CLI_USAGE;
    }
    if (!tool_problem_of(o, size, tool_elements(o, bytes), &shape))
        return CLI_USAGE;
    needs.claims |= tool_same_claims(o, shape.problem.collective, false);
    if (!needs.levels) /* as in a context, which then does not ask who shares a host */
        shape.problem.node = NULL;
    levels.links = 1; /* as a context assumes */
    gcoll_status status =
        gcoll_choose(&o->registry, &shape.problem, element, &needs, &parameters, &shape.choice, collect, &f);
    sort(&f);
    if (f.failed)
        cli_complain("out of memory");
    else if (o->format == TOOL_JSON)
        print_json(o, file, &shape, &f, bytes);
    else
        print_table(o, file, &shape, &f, bytes);
    if (status != GCOLL_OK)
        cli_complain("%s", gcoll_last_error());
    free(f.at);
    tool_shape_free(&shape);
    return status == GCOLL_OK && !f.failed ? TOOL_OK : TOOL_FAILED;
}

int tool_explain(const tool_options *options) {
    FILE *file = tool_open_output(options);
    int status = file ? TOOL_OK : TOOL_FAILED;
    for (size_t i = 0; file && i < options->ranks.count; i++)
        for (size_t k = 0; k < options->bytes.count && status != CLI_USAGE; k++) {
            int one = explain(options, file, (uint32_t)options->ranks.values[i], options->bytes.values[k]);
            status = one != TOOL_OK ? one : status;
        }
    if (file && !tool_close_output(options, file))
        status = TOOL_FAILED;
    return status;
}
