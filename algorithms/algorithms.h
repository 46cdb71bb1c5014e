/* algorithms/algorithms.h - the table of algorithms, and the choice among them. */
#ifndef GCOLL_ALGORITHMS_H
#define GCOLL_ALGORITHMS_H

#include <math.h>

#include "gcoll/plan/steps.h"

/* All rows of the table, and NULL. */
extern const gcoll_algorithm *const gcoll_algorithms[];

/* Algorithms that users add to those of the table. All zero is none. */
typedef struct gcoll_registry {
    const gcoll_algorithm **added;
    uint32_t count;
} gcoll_registry;

/* Adds the row, which is not copied. GCOLL_ERR_INVALID names the field at fault, also for a name that the
 * collective has already. */
gcoll_status gcoll_registry_add(gcoll_registry *registry, const gcoll_algorithm *algorithm);
void gcoll_registry_clear(gcoll_registry *registry);

/* The index-th algorithm for a collective, those of the table first; NULL past the end. registry may be NULL.
 */
const gcoll_algorithm *gcoll_registry_at(const gcoll_registry *registry, gcoll_collective collective,
                                         uint32_t index);
/* By name; NULL if there is none. */
const gcoll_algorithm *gcoll_registry_find(const gcoll_registry *registry, gcoll_collective collective,
                                           const char *name);

/* GCOLL_CLAIM_*; all of them for a row without a function for it. */
uint32_t gcoll_algorithm_claims(const gcoll_algorithm *algorithm, const gcoll_problem *problem);

/* Whether the cost could not be computed for want of memory. */
static inline bool gcoll_cost_is_unknown(const gcoll_cost *cost) {
    return isnan(cost->steps) && isnan(cost->sent) && isnan(cost->reduced) && isnan(cost->scratch);
}

/* The value of the option `segment`, in bytes, where it is not given. */
static inline uint64_t gcoll_algorithm_segment(const gcoll_algorithm *algorithm) {
    return algorithm->staging ? algorithm->staging->segment_bytes : 0;
}

/* A choice of algorithm and options, as parsed from "name[:key=value]...". Besides its own, every
 * algorithm has the option `segment` in bytes (with suffixes Ki, Mi, Gi), 0 for none; without it, its row's.
 */
typedef struct gcoll_choice {
    const gcoll_algorithm *algorithm; /* NULL: auto */
    uint64_t segment_bytes;
    int64_t option[GCOLL_MAX_OPTIONS];
} gcoll_choice;

/* Errors name the part at fault and list what is allowed. "auto" and NULL give algorithm NULL. */
gcoll_status gcoll_choice_parse(const gcoll_registry *registry, const char *text, gcoll_collective collective,
                                gcoll_choice *choice);

/* The choice as text, with the options that differ from their fallbacks. Truncates. */
void gcoll_choice_format(const gcoll_choice *choice, char *text, size_t bytes);

/* The cost of messages and bytes where ranks share processors. With a processor for each rank, an operation
 * takes the time of the busiest rank:
 *
 *   way     alpha turns - latency (turns - steps) + beta sent + gamma reduced
 *
 * Where they share, it takes that or, if it is more, with P ranks and p = P / crowd processors
 *
 *   work    (message messages + byte sent + gamma reduced, of all ranks) / p
 *           + (message turns + byte sent + gamma reduced, of the busiest one) (1 - 1/p) + wait steps
 *
 * Here turns are gcoll_cost.steps, and steps are gcoll_load.hops. Of messages of the busiest rank that do not
 * wait for one another only one end counts. A wait is the time of a step until other ranks on the processor
 * have run: message crowd / 4, but no more than a message.
 *
 * Seconds. All zero is the plain alpha-beta-gamma model. */
typedef struct gcoll_sharing {
    double latency; /* the part of alpha that a message does not take if it waits for no other; up to alpha */
    double message; /* processor time of a message, at both ends together */
    double byte;    /* the same */
    double crowd;   /* ranks a processor, on the host of rank 0; up to 1: each has one of its own */
} gcoll_sharing;

/* The second level of cost, in jobs that have several hosts and several ranks on one of them: messages within
 * a host. alpha and beta of the cost parameters are then those between hosts. With `node` in the problem,
 * `way` is
 *
 *   way     alpha turns + beta senders sent            of messages between hosts
 *           + alpha turns + beta sent                  of messages within a host, by the numbers here
 *           - latency (turns - steps)                  of each level; within hosts a part of it, as alpha is
 *           + gamma reduced
 *
 * All ranks of a host send by its links, usually one. So what a rank sends to other hosts takes as often as
 * long as ranks of its host do that at once (`senders`: gcoll_load.crossing of the ranks of the largest host)
 * for each link. But no more can go by the links than all ranks send together. Without gcoll_sharing, a
 * message occupies a link for all of its alpha: then turns count `senders` times, too, if the row knows
 * hosts. If ranks share processors, too, the time is the larger one of way and work, and a quarter of the
 * smaller one, as links and processors do not quite overlap. */
typedef struct gcoll_levels {
    double alpha, beta; /* of a message and of a byte within a host, in seconds */
    uint32_t most;      /* ranks of the largest host */
    double links;       /* of a host to others, which its ranks share; 0: one */
} gcoll_levels;

/* Requirements of an algorithm, and where it will run. */
typedef struct gcoll_needs {
    uint32_t claims;              /* GCOLL_CLAIM_* */
    uint64_t scratch_limit;       /* most elements of scratch on any rank; 0: any number */
    const gcoll_sharing *sharing; /* NULL: ranks share nothing */
    const gcoll_levels *levels;   /* NULL: one level, whatever `node` of the problem is */
} gcoll_needs;

/* The result of judging one algorithm, with the best of its options. */
typedef struct gcoll_candidate {
    gcoll_choice choice;
    gcoll_cost cost;
    gcoll_load load;
    double seconds;
    gcoll_status status; /* not GCOLL_OK: it cannot be used, and why */
    char reason[128];
    bool is_for_trials; /* cost never chooses it; learning may try it */
} gcoll_candidate;

/* The cheapest algorithm for the problem that meets the needs, among those that leave staging to the problem.
 * Cost chooses a row with `takes_order` only where a tree is wanted. Elsewhere other rows mostly need fewer
 * messages or less scratch, and the row is `is_for_trials`.
 * Options that are chosen by cost (r = -1 of group_butterfly) get their values. The result depends only on
 * input that is the same on every rank. type_bytes is the size of an element. `considered`, if not NULL, is
 * called for each algorithm, in the order of the table. */
typedef void (*gcoll_considered_fn)(void *arg, const gcoll_candidate *candidate);
gcoll_status gcoll_choose(const gcoll_registry *registry, const gcoll_problem *problem, size_t type_bytes,
                          const gcoll_needs *needs, const gcoll_cost_parameters *parameters,
                          gcoll_choice *choice, gcoll_considered_fn considered, void *arg);

/* The time of the problem with the options that it has, by the formulas. */
double gcoll_algorithm_seconds(const gcoll_algorithm *algorithm, const gcoll_problem *problem,
                               size_t type_bytes, const gcoll_needs *needs,
                               const gcoll_cost_parameters *parameters);

/* Gives the options of a choice (algorithm not NULL) that are left to cost their values, among those that
 * meet the needs. If none does, the choice stays as it is. GCOLL_ERR_NO_MEMORY: could not be found out, as in
 * the other functions. */
gcoll_status gcoll_choice_resolve(const gcoll_problem *problem, size_t type_bytes, const gcoll_needs *needs,
                                  const gcoll_cost_parameters *parameters, gcoll_choice *choice);

#endif
