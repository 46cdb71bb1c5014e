/* algorithms/planners.h - the functions that the registry's rows name, one group a file. */
#ifndef GCOLL_PLANNERS_H
#define GCOLL_PLANNERS_H

#include "algorithms/algorithms.h"

/* Rounds until 1 has doubled to `size` or more: ceil(log2(size)). */
static inline uint32_t gcoll_log2_ceil(uint32_t size) {
    uint32_t log = 0;
    while (log < 32 && (UINT64_C(1) << log) < size)
        log++;
    return log;
}

/* ring.c */
void gcoll_ring_plan(const gcoll_problem *problem, gcoll_builder *builder);
uint32_t gcoll_ring_claims(const gcoll_problem *problem);
void gcoll_ring_cost(const gcoll_problem *problem, gcoll_cost *cost);
void gcoll_slt_plan(const gcoll_problem *problem, gcoll_builder *builder);
uint32_t gcoll_slt_claims(const gcoll_problem *problem);
void gcoll_slt_cost(const gcoll_problem *problem, gcoll_cost *cost);

/* group_butterfly.c, group_butterfly_cost.c */
extern const gcoll_option gcoll_group_butterfly_options[];
void gcoll_group_butterfly_plan(const gcoll_problem *problem, gcoll_builder *builder);
uint32_t gcoll_group_butterfly_claims(const gcoll_problem *problem);
void gcoll_group_butterfly_cost(const gcoll_problem *problem, gcoll_cost *cost);

/* binomial.c */
void gcoll_binomial_plan(const gcoll_problem *problem, gcoll_builder *builder);
uint32_t gcoll_binomial_claims(const gcoll_problem *problem);
void gcoll_binomial_cost(const gcoll_problem *problem, gcoll_cost *cost);

/* dissemination.c */
void gcoll_dissemination_plan(const gcoll_problem *problem, gcoll_builder *builder);
uint32_t gcoll_dissemination_claims(const gcoll_problem *problem);
void gcoll_dissemination_cost(const gcoll_problem *problem, gcoll_cost *cost);

#endif
