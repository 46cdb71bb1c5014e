/* algorithms/algorithms.h - the table of algorithms. A new algorithm is one file and one row of it. */
#ifndef GCOLL_ALGORITHMS_H
#define GCOLL_ALGORITHMS_H

#include "gcoll/plan/plan.h"

/* An option of an algorithm, as in "group_butterfly:r=2:group=cyclic". */
typedef struct gcoll_option {
    const char *name;
    const char *help;
    int64_t fallback;         /* the value when it is not given */
    int64_t min, max;         /* allowed, inclusive; ignored with words */
    const char *const *words; /* NULL, or allowed words, NULL-terminated: the value is the index */
} gcoll_option;

/* What an algorithm claims for a problem; the verifier checks it both ways. */
#define GCOLL_CLAIM_RANK_IDENTICAL 1u /* every rank ends with the same bits */
#define GCOLL_CLAIM_ORDERED        2u /* keeps rank order: good for operations that do not commute */

/* The cost of a plan in the alpha-beta-gamma model: rounds, elements sent, elements reduced, all of the
 * busiest rank. */
typedef struct gcoll_cost {
    double steps, sent, reduced;
} gcoll_cost;

typedef struct gcoll_algorithm {
    const char *name;
    gcoll_collective collective;
    const char *summary;         /* one line */
    const char *source;          /* where it is published */
    const gcoll_option *options; /* at most GCOLL_MAX_OPTIONS, ended by name NULL; or NULL */
    void (*plan)(const gcoll_problem *problem, gcoll_builder *builder);
    uint32_t (*claims)(const gcoll_problem *problem);             /* GCOLL_CLAIM_* */
    void (*cost)(const gcoll_problem *problem, gcoll_cost *cost); /* by formula, no plan built */
    /* NULL, or what is asked of a problem beyond its table: GCOLL_ERR_UNSUPPORTED names the reason. */
    gcoll_status (*applies)(const gcoll_problem *problem);
} gcoll_algorithm;

/* All rows, ended by a row of name NULL. */
extern const gcoll_algorithm gcoll_algorithms[];

/* A choice of algorithm and options, as parsed from "name[:key=value]...". Besides its own, every
 * algorithm has the option `segment` in bytes (with suffixes Ki, Mi, Gi), 0 for none. */
typedef struct gcoll_choice {
    const gcoll_algorithm *algorithm; /* NULL: auto */
    uint64_t segment_bytes;
    int64_t option[GCOLL_MAX_OPTIONS];
} gcoll_choice;

/* Errors name the part at fault and list what is allowed. "auto" and NULL give algorithm NULL. */
gcoll_status gcoll_choice_parse(const char *text, gcoll_collective collective, gcoll_choice *choice);

/* The choice as text, with the options that differ from their fallbacks. Truncates. */
void gcoll_choice_format(const gcoll_choice *choice, char *text, size_t bytes);

/* Builds the plan: planner, then passes for split, buffers and average as the problem asks. */
gcoll_status gcoll_plan_create(const gcoll_algorithm *algorithm, const gcoll_problem *problem,
                               gcoll_plan **plan);

/* Seconds. alpha per step, beta per byte sent, gamma per byte reduced. */
typedef struct gcoll_cost_parameters {
    double alpha, beta, gamma;
} gcoll_cost_parameters;

/* The cheapest algorithm for the problem that makes at least the claims in `needs`; options that are
 * "chosen by cost" (group_butterfly's r = -1) come out resolved. Depends only on what is the
 * same on every rank. type_bytes is the element's size. */
gcoll_status gcoll_choose(const gcoll_problem *problem, size_t type_bytes, uint32_t needs,
                          const gcoll_cost_parameters *parameters, gcoll_choice *choice);

/* Replaces options that are to be chosen by cost in a given choice (algorithm not NULL), among the values
 * that make the claims in `needs`; none does: the choice stays as it is. */
void gcoll_choice_resolve(const gcoll_problem *problem, size_t type_bytes, uint32_t needs,
                          const gcoll_cost_parameters *parameters, gcoll_choice *choice);

#endif
