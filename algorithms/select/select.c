/* algorithms/select/select.c - finds the cheapest algorithm in the alpha-beta-gamma model, or the one of a
 * tuning file.
 *
 * Costs come from formulas, without a plan, so choosing takes microseconds at any size. Every rank chooses by
 * itself, so only input that is the same on all ranks may be used. */
#include <math.h>
#include <stdio.h>

#include "algorithms/select/tuning_file.h"

/* A rank that has more messages than this at once is charged as if they came one by one: it needs a
 * connection for each. */
#define MOST_AT_ONCE 15
/* With this many ranks on a processor, waiting for all of them takes as long as a message; with more, most of
 * them sleep. Measured: a hop costs a quarter to a half of a message more with 2, and one with 4. */
#define FULL_WAIT 4

/* The part of the work of processors that does not overlap with links between hosts. Measured, with 8 ranks
 * on 4 hosts of one machine at 1 Gbit/s: a fifth to a third. */
#define ALONE 0.25

/* Times that differ by less are nearly equal: measured costs are rounded to a fifth. */
#define CLOSE 0.02
/* The longest vector, in bytes, of which the number of messages counts more than a small difference. With 64
 * KiB, 8 ranks on 2 cores, `linear` takes 1.4 times as long as another algorithm of nearly the same estimate.
 */
#define SMALL_BYTES 4096

typedef struct search {
    size_t type_bytes;
    const gcoll_needs *needs;
    const gcoll_cost_parameters *parameters;
    gcoll_problem problem; /* with the options that are being tried */
    gcoll_candidate last;  /* the latest that was judged */
    gcoll_candidate best;  /* best options of the present algorithm; status not GCOLL_OK: none so far, for the
                              latest reason */
    bool short_of_memory;  /* memory ran out while judging an algorithm */
} search;

/* ---- The model -------------------------------------------------------------------------------------- */

static double or_else(double value, double otherwise) {
    return value > 0 ? value : otherwise;
}

gcoll_load gcoll_load_of(const gcoll_algorithm *algorithm, const gcoll_problem *problem,
                         const gcoll_cost *cost) {
    const double ranks = problem->size;
    gcoll_load load = {0};
    if (algorithm->load)
        algorithm->load(problem, &load);
    if (isnan(load.hops))
        return load;
    load.hops = or_else(load.hops, cost->steps);
    load.messages = or_else(load.messages, ranks * cost->steps);
    load.sent = or_else(load.sent, ranks * cost->sent);
    load.reduced = or_else(load.reduced, ranks * cost->reduced);
    return load;
}

/* The time if ranks share processors. It has three parts: all work, spread over all processors; the critical
 * path, which more processors do not shorten (R. P. Brent, The parallel evaluation of general arithmetic
 * expressions, J. ACM 21 (1974)); and in each step the wait until the other ranks of the processor have run.
 */
static double shared_seconds(const search *s, const gcoll_cost *cost, const gcoll_load *load) {
    const gcoll_sharing *sharing = s->needs->sharing;
    const double bytes = (double)s->type_bytes, reduction = bytes * s->parameters->gamma;
    const double processors = s->problem.size / sharing->crowd;
    const bool many = cost->steps > MOST_AT_ONCE * load->hops;
    const double hops = many ? cost->steps : load->hops;
    /* If a rank has several messages at once, only its own end of them counts. */
    const double ends = cost->steps > hops ? (1 + hops / cost->steps) / 2 : 1;
    const double way = ends * (sharing->message * cost->steps + bytes * sharing->byte * cost->sent) +
                       reduction * cost->reduced;
    const double work =
        sharing->message * load->messages + bytes * sharing->byte * load->sent + reduction * load->reduced;
    const double wait = sharing->message * fmin(sharing->crowd / FULL_WAIT, 1);
    return work / processors + way * (1 - 1 / processors) + wait * hops;
}

/* The critical path where all messages cost the same. */
static double flat_way(const search *s, const gcoll_cost *cost) {
    const gcoll_cost_parameters *p = s->parameters;
    const double bytes = (double)s->type_bytes;
    return p->alpha * cost->steps + bytes * (p->beta * cost->sent + p->gamma * cost->reduced);
}

/* The critical path where messages within a host cost less than those between hosts. In the one-port model,
 * which holds if nothing is known about processors, a message occupies the host's link for alpha, too. Else
 * alpha is the processors' time, and the link is occupied by bytes only. */
static double way_by_hosts(const search *s, const gcoll_cost *cost, const gcoll_load *load) {
    const gcoll_cost_parameters *p = s->parameters;
    const gcoll_levels *within = s->needs->levels;
    const double bytes = (double)s->type_bytes, most = within->most;
    const double at_once = load->crossing > 0 ? load->crossing * most : most;
    const double senders = fmax(at_once / or_else(within->links, 1), 1); /* one after the other on a link */
    const double sent = cost->sent - load->within_sent;
    const double by_link = fmin(senders * sent, fmax(load->sent, sent));
    const bool knows_hosts =
        load->crossing > 0 || load->within_steps > 0; /* trees do not: few of them send */
    double turns = cost->steps - load->within_steps;
    if (!s->needs->sharing && knows_hosts)
        turns = fmin(senders * turns, fmax(load->messages, turns));
    return p->alpha * turns + within->alpha * load->within_steps +
           bytes * (p->beta * by_link + within->beta * load->within_sent + p->gamma * cost->reduced);
}

/* What messages save that follow one another without waiting. */
static double saved(const search *s, const gcoll_cost *cost, const gcoll_load *load, bool by_hosts) {
    const double turns = cost->steps - load->hops;
    if (!by_hosts)
        return s->needs->sharing->latency * turns;
    const double within = load->within_steps - load->within_hops;
    const double part = s->parameters->alpha > 0 ? s->needs->levels->alpha / s->parameters->alpha : 1;
    return s->needs->sharing->latency * (turns - within + part * within);
}

static double seconds_of(const search *s, const gcoll_cost *cost, const gcoll_load *load) {
    const gcoll_sharing *sharing = s->needs->sharing;
    const bool by_hosts = s->needs->levels && s->problem.node;
    double way = flat_way(s, cost);
    if (!(way < HUGE_VAL)) /* an algorithm with infinite cost is never chosen */
        return HUGE_VAL;
    if (by_hosts)
        way = way_by_hosts(s, cost, load);
    if (!sharing)
        return way;
    way -= saved(s, cost, load, by_hosts);
    if (sharing->crowd <= 1)
        return way;
    const double work = shared_seconds(s, cost, load);
    return fmax(way, work) + (by_hosts ? ALONE * fmin(way, work) : 0);
}

/* ---- Judging ---------------------------------------------------------------------------------------- */

static gcoll_status refuse(gcoll_candidate *candidate, gcoll_status status, const char *reason) {
    candidate->status = status;
    snprintf(candidate->reason, sizeof candidate->reason, "%s", reason);
    return status;
}

/* Without memory to judge one algorithm, none is chosen: ranks that have the memory could choose another one.
 */
static gcoll_status run_short(search *s, gcoll_candidate *candidate) {
    s->short_of_memory = true;
    return refuse(candidate, GCOLL_ERR_NO_MEMORY, "no memory to find out");
}

/* What a codec changes: messages have fewer bytes, and what is sent is encoded or decoded on the way, which
 * takes about as long as reducing it. */
static void apply_codec(const gcoll_codec *codec, gcoll_cost *cost, gcoll_load *load) {
    const double ratio = gcoll_codec_ratio(codec);
    if (!gcoll_codec_is_set(codec))
        return;
    cost->reduced += cost->sent;
    load->reduced += load->sent;
    cost->sent *= ratio;
    load->sent *= ratio;
    load->within_sent *= ratio;
}

/* Whether the algorithm may be taken with the options being tried; fills in the cost. */
static gcoll_status judge(search *s, const gcoll_algorithm *algorithm, gcoll_candidate *candidate) {
    if (algorithm->uses_tour && !s->problem.tour)
        return refuse(candidate, GCOLL_ERR_UNSUPPORTED, "no tour is given");
    if (algorithm->applies) {
        gcoll_status status = algorithm->applies(&s->problem);
        if (status == GCOLL_ERR_NO_MEMORY)
            return run_short(s, candidate);
        if (status != GCOLL_OK)
            return refuse(candidate, status, gcoll_last_error());
    }
    if (gcoll_codec_applies(algorithm, &s->problem) != GCOLL_OK)
        return refuse(candidate, GCOLL_ERR_UNSUPPORTED, "takes no codec");
    algorithm->cost(&s->problem, &candidate->cost); /* even if refused: it tells where options end */
    if (gcoll_cost_is_unknown(&candidate->cost))
        return run_short(s, candidate);
    candidate->load = gcoll_load_of(algorithm, &s->problem, &candidate->cost);
    if (isnan(candidate->load.hops) && !isnan(candidate->cost.steps))
        return run_short(s, candidate);
    apply_codec(&s->problem.codec, &candidate->cost, &candidate->load);
    candidate->seconds = seconds_of(s, &candidate->cost, &candidate->load);
    const uint32_t claims = gcoll_algorithm_claims(algorithm, &s->problem);
    if (claims & GCOLL_CLAIM_UNKNOWN)
        return run_short(s, candidate);
    uint32_t lacking = s->needs->claims & ~claims;
    if (lacking & GCOLL_CLAIM_PAIRS)
        return refuse(candidate, GCOLL_ERR_UNSUPPORTED, "does not build the tree of pairs");
    if (lacking & GCOLL_CLAIM_LEFT)
        return refuse(candidate, GCOLL_ERR_UNSUPPORTED, "does not reduce one after the other, from the left");
    if (lacking & GCOLL_CLAIM_ORDERED)
        return refuse(candidate, GCOLL_ERR_UNSUPPORTED, "does not keep rank order");
    if (lacking & GCOLL_CLAIM_RANK_IDENTICAL)
        return refuse(candidate, GCOLL_ERR_UNSUPPORTED, "results may differ between ranks in the last bits");
    if (lacking & GCOLL_CLAIM_RUN_IDENTICAL)
        return refuse(candidate, GCOLL_ERR_UNSUPPORTED,
                      "results may differ from run to run in the last bits");
    if (s->needs->scratch_limit > 0 && candidate->cost.scratch > (double)s->needs->scratch_limit)
        return refuse(candidate, GCOLL_ERR_UNSUPPORTED, "needs more scratch than the memory limit");
    return GCOLL_OK;
}

static void consider(search *s, const gcoll_choice *choice) {
    gcoll_candidate candidate = {.choice = *choice};
    gcoll_status status = judge(s, choice->algorithm, &candidate);
    for (uint32_t i = 0; i < GCOLL_MAX_OPTIONS; i++)
        candidate.choice.option[i] = s->problem.option[i];
    bool first = !s->best.choice.algorithm;
    bool better = status == GCOLL_OK && (s->best.status != GCOLL_OK || candidate.seconds < s->best.seconds);
    if (first || better)
        s->best = candidate;
    s->last = candidate;
}

/* Whether two values of an option make the same plan, as far as their figures tell. All figures are 0 if the
 * algorithm does not apply. */
static bool is_same(const gcoll_candidate *x, const gcoll_candidate *y) {
    const gcoll_load *p = &x->load, *q = &y->load;
    return x->cost.steps > 0 && x->cost.steps == y->cost.steps && x->cost.sent == y->cost.sent &&
           x->cost.reduced == y->cost.reduced && x->cost.scratch == y->cost.scratch && p->hops == q->hops &&
           p->messages == q->messages && p->sent == q->sent && p->reduced == q->reduced &&
           p->within_steps == q->within_steps && p->within_sent == q->within_sent &&
           p->crossing == q->crossing;
}

/* Tries the choice with every value of each option, from the index-th on, that it leaves to cost. */
static void try_options(search *s, const gcoll_choice *choice, uint32_t index) {
    const gcoll_option *options = choice->algorithm->options;
    if (!options || !options[index].name) {
        consider(s, choice);
        return;
    }
    const gcoll_option *o = &options[index];
    s->problem.option[index] = choice->option[index];
    if (o->words || o->min != GCOLL_BY_COST || choice->option[index] != GCOLL_BY_COST) {
        try_options(s, choice, index + 1);
        return;
    }
    for (int64_t value = o->doubling ? 1 : 0; value <= o->max;) {
        const gcoll_candidate before = s->last;
        s->problem.option[index] = value;
        try_options(s, choice, index + 1);
        if (value > 1 && is_same(&s->last, &before)) /* more than the problem can use */
            break;
        if (__builtin_add_overflow(value, o->doubling ? value : 1, &value))
            break;
    }
}

static search make_search(const gcoll_problem *problem, size_t type_bytes, const gcoll_needs *needs,
                          const gcoll_cost_parameters *parameters) {
    search s = {.type_bytes = type_bytes, .needs = needs, .parameters = parameters, .problem = *problem};
    for (uint32_t i = 0; i < GCOLL_MAX_OPTIONS; i++)
        s.problem.option[i] = 0;
    return s;
}

static gcoll_status no_memory(const gcoll_algorithm *algorithm, const gcoll_problem *problem) {
    return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory to judge %s for %u ranks", algorithm->name,
                       problem->size);
}

/* Whether a candidate is better than the best one before it. Of equally good ones the first is taken, so that
 * all ranks take the same. On shared processors, the model cannot tell some algorithms apart for small
 * vectors, where ranks wait for their turn rather than for messages. So of nearly equal ones that is taken
 * which has fewer messages in all, or else fewer steps after one another. */
static bool is_better(const search *s, const gcoll_candidate *one, const gcoll_candidate *best) {
    const gcoll_sharing *sharing = s->needs->sharing;
    const bool is_small = (double)s->problem.count * (double)s->type_bytes <= SMALL_BYTES;
    if (!is_small || !sharing || sharing->crowd <= 1 || one->seconds < best->seconds * (1 - CLOSE) ||
        best->seconds < one->seconds * (1 - CLOSE))
        return one->seconds < best->seconds;
    if (one->load.messages < best->load.messages || one->load.messages > best->load.messages)
        return one->load.messages < best->load.messages;
    if (one->load.hops < best->load.hops || one->load.hops > best->load.hops)
        return one->load.hops < best->load.hops;
    return one->seconds < best->seconds;
}

gcoll_status gcoll_choose(const gcoll_registry *registry, const gcoll_problem *problem, size_t type_bytes,
                          const gcoll_needs *needs, const gcoll_cost_parameters *parameters,
                          gcoll_choice *choice, gcoll_considered_fn considered, void *arg) {
    gcoll_candidate best = {.status = GCOLL_ERR_UNSUPPORTED};
    const gcoll_algorithm *a;
    for (uint32_t k = 0; (a = gcoll_registry_at(registry, problem->collective, k)); k++) {
        if (a->staging) /* the same algorithm as another row, staged */
            continue;
        if (a->uses_tour && !problem->tour)
            continue;
        search s = make_search(problem, type_bytes, needs, parameters);
        gcoll_choice tried = {.algorithm = a};
        for (uint32_t i = 0; a->options && a->options[i].name; i++)
            tried.option[i] = a->options[i].fallback;
        try_options(&s, &tried, 0);
        if (s.short_of_memory)
            return no_memory(a, problem);
        s.best.is_for_trials = a->takes_order && !gcoll_problem_has_tree(problem);
        if (considered)
            considered(arg, &s.best);
        if (s.best.status == GCOLL_OK && !s.best.is_for_trials &&
            (best.status != GCOLL_OK || is_better(&s, &s.best, &best)))
            best = s.best;
    }
    if (best.status != GCOLL_OK)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "no algorithm for %s of %u ranks is%s%s%s%s%s%s%s",
                           gcoll_collective_name(problem->collective), problem->size,
                           needs->claims & GCOLL_CLAIM_RANK_IDENTICAL ? " rank-identical" : "",
                           needs->claims & GCOLL_CLAIM_RUN_IDENTICAL ? " run-identical" : "",
                           needs->claims & GCOLL_CLAIM_ORDERED ? " ordered" : "",
                           needs->claims & GCOLL_CLAIM_PAIRS ? " by pairs" : "",
                           needs->claims & GCOLL_CLAIM_LEFT ? " from the left" : "",
                           needs->scratch_limit ? " within the memory limit" : "",
                           gcoll_codec_is_set(&problem->codec) ? " for a codec" : "");
    *choice = best.choice;
    return GCOLL_OK;
}

double gcoll_algorithm_seconds(const gcoll_algorithm *algorithm, const gcoll_problem *problem,
                               size_t type_bytes, const gcoll_needs *needs,
                               const gcoll_cost_parameters *parameters) {
    const search s = {
        .type_bytes = type_bytes, .needs = needs, .parameters = parameters, .problem = *problem};
    gcoll_cost cost;
    algorithm->cost(problem, &cost);
    gcoll_load load = gcoll_load_of(algorithm, problem, &cost);
    apply_codec(&problem->codec, &cost, &load);
    return seconds_of(&s, &cost, &load);
}

gcoll_status gcoll_choice_resolve(const gcoll_problem *problem, size_t type_bytes, const gcoll_needs *needs,
                                  const gcoll_cost_parameters *parameters, gcoll_choice *choice) {
    search s = make_search(problem, type_bytes, needs, parameters);
    try_options(&s, choice, 0);
    if (s.short_of_memory)
        return no_memory(choice->algorithm, problem);
    if (s.best.status ==
        GCOLL_OK) /* else no option serves, which the caller finds when it compares the claims */
        *choice = s.best.choice;
    return GCOLL_OK;
}

gcoll_status gcoll_tuning_take(const gcoll_tuning_rule *rule, const gcoll_registry *registry,
                               const gcoll_problem *problem, size_t type_bytes, const gcoll_needs *needs,
                               const gcoll_cost_parameters *parameters, gcoll_choice *choice) {
    for (uint32_t i = 0; i < rule->count; i++) {
        gcoll_choice tried;
        if (gcoll_choice_parse(registry, rule->choice[i], problem->collective, &tried) != GCOLL_OK)
            continue; /* not registered on this rank */
        search s = make_search(problem, type_bytes, needs, parameters);
        try_options(&s, &tried, 0);
        if (s.short_of_memory)
            return no_memory(tried.algorithm, problem);
        if (s.best.status == GCOLL_OK) {
            *choice = s.best.choice;
            return GCOLL_OK;
        }
    }
    return gcoll_error(GCOLL_ERR_NOT_FOUND, "line %u of the tuning file names no algorithm that serves",
                       rule->line);
}
