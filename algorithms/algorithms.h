/* algorithms/algorithms.h - the table of algorithms, and choosing from it. A new algorithm is one file and
 * one row of the table (algorithms/table.h). */
#ifndef GCOLL_ALGORITHMS_H
#define GCOLL_ALGORITHMS_H

#include "gcoll/plan/plan.h"

/* All rows of the table, ended by NULL. */
extern const gcoll_algorithm *const gcoll_algorithms[];

/* Algorithms of the user's, besides those of the table. All zero is none. */
typedef struct gcoll_registry {
    const gcoll_algorithm **added;
    uint32_t count;
} gcoll_registry;

/* Checks the row: GCOLL_ERR_INVALID names the field, also for a name that the collective has already. The row
 * is not copied. */
gcoll_status gcoll_registry_add(gcoll_registry *registry, const gcoll_algorithm *algorithm);
void gcoll_registry_clear(gcoll_registry *registry);

/* The index-th algorithm for a collective, those of the table first; NULL past the end. registry may be NULL.
 */
const gcoll_algorithm *gcoll_registry_at(const gcoll_registry *registry, gcoll_collective collective,
                                         uint32_t index);
/* By name; NULL if there is none. */
const gcoll_algorithm *gcoll_registry_find(const gcoll_registry *registry, gcoll_collective collective,
                                           const char *name);

/* GCOLL_CLAIM_*, also of rows that leave it to the default. */
uint32_t gcoll_algorithm_claims(const gcoll_algorithm *algorithm, const gcoll_problem *problem);

/* Bytes: the option `segment` where it is not given. */
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

/* What messages and bytes cost where ranks share processors. With one for each rank, an operation takes the
 * way of the busiest rank:
 *
 *   way     alpha steps - latency (steps - hops) + beta sent + gamma reduced
 *
 * Where they share, it takes that or, if it is more, with P ranks and p = P / crowd processors
 *
 *   work    (message messages + byte sent + gamma reduced, of all ranks) / p
 *           + (message steps + byte sent + gamma reduced, of the busiest one) (1 - 1/p) + turn hops
 *
 * where of the busiest rank's messages that do not wait for one another only one end counts, and a turn is
 * what a hop waits for others on the same processor: message crowd / 4, but no more than a message.
 *
 * Seconds. All zero is the plain alpha-beta-gamma model. */
typedef struct gcoll_sharing {
    double latency; /* what of alpha a message is spared that waits for no other; up to alpha */
    double message; /* of processors, at both ends together */
    double byte;    /* the same */
    double crowd;   /* ranks a processor, where rank 0 is; up to 1: each has one of its own */
} gcoll_sharing;

/* What the caller asks of an algorithm, and where it will run. */
typedef struct gcoll_needs {
    uint32_t claims;              /* GCOLL_CLAIM_* */
    uint64_t scratch_limit;       /* most elements of scratch on any rank; 0: any number */
    const gcoll_sharing *sharing; /* NULL: ranks share nothing */
} gcoll_needs;

/* What selection found of one algorithm, with the best of its options. */
typedef struct gcoll_candidate {
    gcoll_choice choice;
    gcoll_cost cost;
    gcoll_load load;
    double seconds;
    gcoll_status status; /* not GCOLL_OK: it does not serve, and why */
    char reason[128];
} gcoll_candidate;

/* The cheapest algorithm for the problem that serves the needs, of those that leave staging to the problem;
 * options that are "chosen by cost"
 * (group_butterfly's r = -1) come out resolved. Depends only on what is the same on every rank. type_bytes is
 * the element's size. `considered`, if not NULL, is called once an algorithm, in table order. */
typedef void (*gcoll_considered_fn)(void *arg, const gcoll_candidate *candidate);
gcoll_status gcoll_choose(const gcoll_registry *registry, const gcoll_problem *problem, size_t type_bytes,
                          const gcoll_needs *needs, const gcoll_cost_parameters *parameters,
                          gcoll_choice *choice, gcoll_considered_fn considered, void *arg);

/* Replaces options that are to be chosen by cost in a given choice (algorithm not NULL), among the values
 * that serve the needs; none does: the choice stays as it is. */
void gcoll_choice_resolve(const gcoll_problem *problem, size_t type_bytes, const gcoll_needs *needs,
                          const gcoll_cost_parameters *parameters, gcoll_choice *choice);

#endif
