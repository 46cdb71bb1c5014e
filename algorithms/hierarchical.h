/* algorithms/hierarchical.h - who shares a host, and the algorithms within and across hosts. */
#ifndef GCOLL_HIERARCHICAL_H
#define GCOLL_HIERARCHICAL_H

#include "algorithms/planners.h"

/* Hosts are numbered in the order of their lowest ranks, and the ranks of a host have places in rank order.
 */
typedef struct gcoll_hierarchy {
    const gcoll_problem *problem;
    uint32_t count;        /* hosts */
    uint32_t fewest, most; /* ranks of a host */
    uint32_t host, place;  /* this rank's */
    bool in_rows;          /* the ranks of every host are consecutive */
    uint32_t *begin;       /* ranks[begin[h] .. begin[h+1]) are on host h; count + 1 entries */
    uint32_t *ranks;
    uint32_t *peers;  /* the ranks at this place of all hosts; only if place < fewest */
    uint64_t *shares; /* where the share of each place begins, and the end; most + 1 entries */
} gcoll_hierarchy;

/* By problem->node; one host if that is NULL. O(P). GCOLL_ERR_NO_MEMORY: there is nothing to destroy. */
gcoll_status gcoll_hierarchy_make(const gcoll_problem *problem, gcoll_hierarchy *hierarchy);
void gcoll_hierarchy_destroy(gcoll_hierarchy *hierarchy);

static inline uint32_t gcoll_host_size(const gcoll_hierarchy *h, uint32_t host) {
    return h->begin[host + 1] - h->begin[host];
}

/* A row of the table and what it is to do; as long-lived as the hierarchy. */
typedef struct gcoll_hierarchy_part {
    const gcoll_algorithm *algorithm;
    gcoll_problem problem;
} gcoll_hierarchy_part;

/* A reduce_scatter or allgather among the ranks of a host that has `size`. */
gcoll_hierarchy_part gcoll_hierarchy_within(const gcoll_hierarchy *h, gcoll_collective collective,
                                            uint32_t size);
/* An allreduce of `count` elements among the ranks at one place of all hosts. */
gcoll_hierarchy_part gcoll_hierarchy_across(const gcoll_hierarchy *h, uint64_t count);
uint32_t gcoll_hierarchy_steps(const gcoll_hierarchy_part *s);

extern const gcoll_option gcoll_hierarchical_options[];
uint32_t gcoll_hierarchical_claims(const gcoll_problem *problem);
void gcoll_hierarchical_cost(const gcoll_problem *problem, gcoll_cost *cost);

#endif
