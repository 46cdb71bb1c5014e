/* tools/shape.c - from the flags to a problem, and to an algorithm for it. */
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "gcoll/plan/steps.h"
#include "tools/memory.h"
#include "tools/shape.h"
#include "tools/words.h"

#define US 1e-6
#define NS 1e-9
#define MS 1e-3

#define MOST_NS INT64_C(1000000000000000000) /* 30 years: nobody is as late as that */

gcoll_cost_parameters tool_cost_parameters(const tool_options *o) {
    return (gcoll_cost_parameters){o->alpha_us * US, o->beta_ns * NS, o->gamma_ns * NS};
}

const gcoll_levels *tool_levels(const tool_options *o, uint32_t size, gcoll_levels *levels) {
    const uint32_t shared = o->network.path ? o->network.most : o->ranks_per_node;
    const uint32_t most = shared < size ? shared : size;
    if (most <= 1 || most == size || (o->host_alpha_us < 0 && o->host_beta_ns < 0))
        return NULL;
    *levels = (gcoll_levels){.alpha = (o->host_alpha_us < 0 ? o->alpha_us : o->host_alpha_us) * US,
                             .beta = (o->host_beta_ns < 0 ? o->beta_ns : o->host_beta_ns) * NS,
                             .most = most,
                             .links = o->by_formula       ? 1
                                      : o->node_ports > 0 ? o->node_ports
                                                          : most};
    return levels;
}

uint64_t tool_elements(const tool_options *o, uint64_t bytes) {
    return bytes / gcoll_type_size(o->type);
}

/* ---- When ranks enter ------------------------------------------------------------------------------------
 */

bool tool_arrivals(const tool_options *o, uint32_t size, double **arrival) {
    *arrival = NULL;
    if (o->arrival.kind == CLI_ARRIVAL_NONE)
        return true;
    if (!cli_arrival_fits("--arrival", &o->arrival, size))
        return false;
    double *made = calloc(size, sizeof *made);
    if (!made) {
        cli_complain("out of memory for %u ranks", size);
        return false;
    }
    for (uint32_t r = 0; r < size; r++)
        made[r] = MS * cli_arrival_ms(&o->arrival, size, r, o->operation);
    *arrival = made;
    return true;
}

static void say_lateness(const tool_options *o, tool_shape *shape) {
    const cli_arrival *a = &o->arrival;
    const uint32_t late = a->late_given ? a->late : shape->problem.size / 2;
    char *text = shape->lateness;
    const char *told = o->surprise ? ", which planners are not told" : "";
    if (a->kind == CLI_ARRIVAL_ONE_LATE)
        snprintf(text, sizeof shape->lateness, "rank %u late by %g ms%s", late, a->ms, told);
    else if (a->kind == CLI_ARRIVAL_RAND_LATE)
        snprintf(text, sizeof shape->lateness, "arriving at random within %g ms%s", a->ms, told);
    else if (a->kind == CLI_ARRIVAL_LINEAR)
        snprintf(text, sizeof shape->lateness, "arriving in turn within %g ms%s", a->ms, told);
    else if (a->kind == CLI_ARRIVAL_TRACE)
        snprintf(text, sizeof shape->lateness, "arriving as in a trace%s", told);
}

/* Tells the planners the arrivals that the simulator will use, unless they are to be a surprise; with the
 * prediction error that was asked for. */
static bool add_arrivals(const tool_options *o, tool_shape *shape) {
    gcoll_problem *p = &shape->problem;
    double *arrival;
    if (!tool_arrivals(o, p->size, &arrival))
        return false;
    say_lateness(o, shape);
    if ((!arrival && o->error_ms == 0) || o->surprise) {
        free(arrival);
        return true;
    }
    shape->arrival_ns = calloc(p->size, sizeof *shape->arrival_ns);
    if (!shape->arrival_ns) {
        cli_complain("out of memory for %u ranks", p->size);
        free(arrival);
        return false;
    }
    const cli_arrival error = {.kind = CLI_ARRIVAL_RAND_LATE, .seed = ~o->arrival.seed, .ms = o->error_ms};
    for (uint32_t r = 0; r < p->size; r++) {
        double told = arrival ? arrival[r] : 0;
        if (o->error_ms > 0)
            told += MS * cli_arrival_ms(&error, p->size, r, o->operation);
        shape->arrival_ns[r] = (int64_t)(told / NS);
    }
    double part = (double)p->count * (double)gcoll_type_size(o->type) / p->size;
    p->arrival_ns = shape->arrival_ns;
    double segment_ns = 1e3 * o->alpha_us + (o->beta_ns + o->gamma_ns) * part;
    p->segment_ns = segment_ns < MOST_NS ? (int64_t)segment_ns : MOST_NS;
    free(arrival);
    return true;
}

static bool add_nodes(const tool_options *o, tool_shape *shape) {
    const uint32_t size = shape->problem.size;
    if (o->ranks_per_node == 0 && !o->network.path)
        return true;
    shape->node = calloc(size, sizeof *shape->node);
    if (!shape->node) {
        cli_complain("out of memory for %u ranks", size);
        return false;
    }
    for (uint32_t r = 0; r < size; r++)
        shape->node[r] = o->network.path ? o->network.host[r] : r / o->ranks_per_node;
    shape->problem.node = shape->node;
    return true;
}

static bool add_tour(const tool_options *o, tool_shape *shape) {
    gcoll_problem *p = &shape->problem;
    if (o->tour.count == 0)
        return true;
    if (o->tour.count != p->size) {
        cli_complain("--tour: has %zu ranks; allowed with %u rank%s is each of them once", o->tour.count,
                     p->size, tool_plural(p->size));
        return false;
    }
    shape->tour = calloc(p->size, sizeof *shape->tour);
    if (!shape->tour) {
        cli_complain("out of memory for %u ranks", p->size);
        return false;
    }
    for (uint32_t i = 0; i < p->size; i++)
        shape->tour[i] = (uint32_t)o->tour.values[i];
    p->tour = shape->tour;
    if (gcoll_tour_check(p) == GCOLL_OK)
        return true;
    cli_complain("--%s", gcoll_last_error());
    return false;
}

/* ---- Problems --------------------------------------------------------------------------------------------
 */

static bool codec_fits(const tool_options *o, gcoll_collective c) {
    const gcoll_problem smallest = {.collective = c, .size = 1, .buffers = 1, .codec = o->codec};
    if (!gcoll_codec_is_set(&o->codec) || gcoll_problem_check(&smallest) == GCOLL_OK)
        return true;
    cli_complain("--%s", gcoll_last_error());
    return false;
}

bool tool_flags_fit(const tool_options *o, gcoll_collective c) {
    const char *name = gcoll_collective_name(c);
    if (o->root_given && !gcoll_collective_has_root(c))
        cli_complain("--root: is %u, but %s has no root", o->root, name);
    else if (o->inputs > 1 && !gcoll_collective_takes_buffers(c))
        cli_complain("--inputs: is %u; allowed for %s is 1", o->inputs, name);
    else if (o->exchanges > 0 && c != GCOLL_PAIRWISE_EXCHANGE)
        cli_complain("--exchanges: is %u, but %s has no number of exchanges", o->exchanges, name);
    else if (gcoll_codec_is_set(&o->codec) && o->type != GCOLL_FLOAT32)
        cli_complain("--codec: is %s for --type %s; allowed is float32", gcoll_codec_name(o->codec.kind),
                     gcoll_type_name(o->type));
    else if (o->average && !gcoll_collective_reduces(c))
        cli_complain("--op: %s reduces nothing, so there is nothing to divide", name);
    else
        return codec_fits(o, c);
    return false;
}

bool tool_problem_of(const tool_options *o, uint32_t size, uint64_t count, tool_shape *shape) {
    *shape = (tool_shape){.problem = {.size = size,
                                      .root = o->root,
                                      .exchanges = o->exchanges,
                                      .count = count,
                                      .codec = o->codec,
                                      .buffers = o->inputs,
                                      .in_place = o->in_place,
                                      .average = o->average,
                                      .order = (gcoll_order)o->order}};
    gcoll_problem *p = &shape->problem;
    if (gcoll_collective_parse(o->collective, &p->collective) != GCOLL_OK) {
        cli_complain("--collective: %s", gcoll_last_error());
        return false;
    }
    if (p->collective == GCOLL_BARRIER)
        p->count = 0;
    if (!tool_flags_fit(o, p->collective))
        return false;
    if (p->root >= size) {
        cli_complain("--root: is %u; allowed with %u rank%s is 0 to %u", p->root, size, tool_plural(size),
                     size - 1);
        return false;
    }
    if (p->in_place && !gcoll_collective_takes_in_place(p->collective)) {
        cli_complain("--in-place: %s has none", o->collective);
        return false;
    }
    if (add_nodes(o, shape) && add_arrivals(o, shape) && add_tour(o, shape))
        return true;
    tool_shape_free(shape);
    return false;
}

void tool_shape_free(tool_shape *shape) {
    free(shape->node);
    free(shape->arrival_ns);
    free(shape->tour);
    free(shape->memory);
    shape->node = NULL;
    shape->arrival_ns = NULL;
    shape->tour = NULL;
    shape->memory = NULL;
}

/* The algorithm is known by now. */
static bool add_memory(const tool_options *o, tool_shape *shape) {
    gcoll_problem *p = &shape->problem;
    if (!tool_memory_fits(o, shape->choice.algorithm))
        return false;
    shape->memory = calloc(p->buffers, sizeof *shape->memory);
    if (!shape->memory) {
        cli_complain("out of memory for %u buffers", p->buffers);
        return false;
    }
    tool_place_buffers(o, shape->choice.algorithm, p, shape->memory);
    return true;
}

uint32_t tool_same_claims(const tool_options *o, gcoll_collective collective, bool is_named) {
    const int by_default = is_named ? GCOLL_SAME_NOWHERE : GCOLL_SAME_ON_RANKS;
    const int same = o->same >= 0 ? o->same : by_default;
    const uint32_t tree = gcoll_order_claim((gcoll_order)o->order);
    if (!gcoll_type_is_floating(o->type) || !gcoll_collective_reduces(collective))
        return 0;
    if (tree != 0 || same == GCOLL_SAME_NOWHERE)
        return tree;
    return (collective == GCOLL_ALLREDUCE ? GCOLL_CLAIM_RANK_IDENTICAL : 0) |
           (same == GCOLL_SAME_IN_RUNS ? GCOLL_CLAIM_RUN_IDENTICAL : 0);
}

/* The words of --order that the algorithm obeys: "any", "any, left". */
static void allowed_orders(const gcoll_algorithm *a, gcoll_problem problem, char text[TOOL_TEXT]) {
    gcoll_text list = {text, TOOL_TEXT, 0};
    gcoll_text_add(&list, "%s", gcoll_order_name(GCOLL_ORDER_ANY));
    for (int order = GCOLL_ORDER_PAIRS; order <= GCOLL_ORDER_LEFT; order++) {
        problem.order = (gcoll_order)order;
        if (gcoll_algorithm_claims(a, &problem) & gcoll_order_claim(problem.order))
            gcoll_text_add(&list, ", %s", gcoll_order_name(problem.order));
    }
}

gcoll_status tool_shape_keeps_bits(const tool_options *o, const tool_shape *shape) {
    const gcoll_algorithm *a = shape->choice.algorithm;
    gcoll_problem problem = shape->problem;
    const uint32_t claims = tool_same_claims(o, problem.collective, true);
    char allowed[TOOL_TEXT];
    memcpy(problem.option, shape->choice.option, sizeof problem.option);
    if (claims == 0 || (claims & ~gcoll_algorithm_claims(a, &problem)) == 0)
        return GCOLL_OK;
    if (!(claims & (GCOLL_CLAIM_PAIRS | GCOLL_CLAIM_LEFT)))
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "same: sums of %s by %u ranks may differ in the last bits; allowed is nowhere",
                           a->name, problem.size);
    allowed_orders(a, problem, allowed);
    return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                       "order: %s does not build that tree for %u ranks; allowed %s %s", a->name,
                       problem.size, strchr(allowed, ',') ? "are" : "is", allowed);
}

bool tool_shape_find(const tool_options *o, const char *algorithm, uint32_t size, uint64_t count,
                     tool_shape *shape) {
    const gcoll_cost_parameters parameters = tool_cost_parameters(o);
    const bool is_named = algorithm && strcmp(algorithm, "auto") != 0;
    gcoll_levels levels;
    const size_t type_bytes = gcoll_type_size(o->type);
    if (!tool_problem_of(o, size, count, shape))
        return false;
    gcoll_problem *p = &shape->problem;
    const gcoll_needs needs = {.claims = tool_same_claims(o, p->collective, is_named),
                               .levels = tool_levels(o, size, &levels)};
    gcoll_status status = gcoll_choice_parse(&o->registry, algorithm, p->collective, &shape->choice);
    if (status == GCOLL_OK && !shape->choice.algorithm) {
        if (!needs.levels) /* as in a context, which then does not ask who shares a host */
            p->node = NULL;
        status = gcoll_choose(&o->registry, p, type_bytes, &needs, &parameters, &shape->choice, NULL, NULL);
    } else if (status == GCOLL_OK) {
        status = gcoll_choice_resolve(p, type_bytes, &needs, &parameters, &shape->choice);
    }
    if (status != GCOLL_OK)
        cli_complain("--algorithm: %s", gcoll_last_error());
    if (status != GCOLL_OK || !add_memory(o, shape)) {
        tool_shape_free(shape);
        return false;
    }
    memcpy(p->option, shape->choice.option, sizeof p->option);
    p->segment = shape->choice.segment_bytes / type_bytes;
    if (shape->choice.segment_bytes > 0 && p->segment == 0)
        p->segment = 1; /* less than an element: an element, as in the library */
    return true;
}

bool tool_shape_of(const tool_options *o, const char *algorithm, uint32_t size, uint64_t count,
                   tool_shape *shape) {
    if (!tool_shape_find(o, algorithm, size, count, shape))
        return false;
    if (tool_shape_keeps_bits(o, shape) == GCOLL_OK)
        return true;
    cli_complain("--%s", gcoll_last_error());
    tool_shape_free(shape);
    return false;
}
