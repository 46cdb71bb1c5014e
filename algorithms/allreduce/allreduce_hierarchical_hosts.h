/* algorithms/allreduce/allreduce_hierarchical_hosts.h - which ranks share a host, as lists. */
#ifndef GCOLL_ALLREDUCE_HIERARCHICAL_HOSTS_H
#define GCOLL_ALLREDUCE_HIERARCHICAL_HOSTS_H

#include "algorithms/planners.h"

/* Hosts are numbered in the order of their lowest ranks; the places of a host are its ranks in order. */
typedef struct gcoll_hierarchy {
    const gcoll_problem *problem;
    uint32_t count;        /* hosts */
    uint32_t fewest, most; /* ranks of a host */
    uint32_t leaders;      /* of each host, at most `fewest`; all ranks if there is one host */
    uint32_t host, place;  /* this rank's */
    bool is_leader;        /* whether this rank is one */
    bool in_rows;          /* the ranks of every host are consecutive */
    uint32_t *begin;       /* ranks[begin[h] .. begin[h+1]) are on host h; count + 1 entries */
    uint32_t *ranks;
    uint32_t *peers;  /* the leaders of this rank's share, one a host; only if it is a leader */
    uint64_t *shares; /* where the share of each place of this host begins, and the end; most + 1 entries.
                       * Only leaders' shares have elements */
} gcoll_hierarchy;

/* Uses problem->node; one host if that is NULL. leaders: less than 1, or more than the smallest host has
 * ranks: as many as that. O(P). GCOLL_ERR_NO_MEMORY: there is nothing to destroy. */
gcoll_status gcoll_hierarchy_make(const gcoll_problem *problem, int64_t leaders, gcoll_hierarchy *hierarchy);
void gcoll_hierarchy_destroy(gcoll_hierarchy *hierarchy);

static inline uint32_t gcoll_host_size(const gcoll_hierarchy *h, uint32_t host) {
    return h->begin[host + 1] - h->begin[host];
}

#endif
