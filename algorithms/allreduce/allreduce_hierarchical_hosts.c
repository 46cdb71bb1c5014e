/* algorithms/allreduce/allreduce_hierarchical_hosts.c - sorts the ranks by host, whatever numbers the hosts
 * have. */
#include "algorithms/allreduce/allreduce_hierarchical_hosts.h"

#include <stdlib.h>

#include "gcoll/base/hash.h"

#define FREE UINT32_MAX

/* A hash table from the hosts' numbers to their indices; never more than half full. */
typedef struct numbers {
    uint32_t *slots; /* an index into `first`, or FREE */
    uint32_t *first; /* by host: its lowest rank */
    uint32_t mask;
} numbers;

static uint32_t index_of(numbers *n, const uint32_t *node, uint32_t rank, uint32_t *hosts) {
    uint32_t slot = (uint32_t)gcoll_hash_mix(node[rank]) & n->mask;
    while (n->slots[slot] != FREE && node[n->first[n->slots[slot]]] != node[rank])
        slot = (slot + 1) & n->mask;
    if (n->slots[slot] == FREE) {
        n->first[*hosts] = rank;
        n->slots[slot] = (*hosts)++;
    }
    return n->slots[slot];
}

/* Sets index[r] to the host of rank r; returns the number of hosts, 0 if memory ran out. */
static uint32_t number_hosts(const gcoll_problem *p, uint32_t *index) {
    uint32_t size = UINT32_C(2) << gcoll_log2_ceil(p->size), hosts = 0;
    numbers n = {malloc(size * sizeof(uint32_t)), malloc(p->size * sizeof(uint32_t)), size - 1};
    if (n.slots && n.first) {
        for (uint32_t i = 0; i < size; i++)
            n.slots[i] = FREE;
        for (uint32_t rank = 0; rank < p->size; rank++)
            index[rank] = index_of(&n, p->node, rank, &hosts);
    }
    free(n.first);
    free(n.slots);
    return hosts;
}

/* Sorts the ranks by host; `begin` has room for one entry more than it needs. */
static void list_ranks(gcoll_hierarchy *h, const uint32_t *index, uint32_t size) {
    uint32_t *next = h->begin + 1; /* where host i's next rank goes; in the end where host i + 1 begins */
    for (uint32_t i = 0; i <= h->count + 1; i++)
        h->begin[i] = 0;
    for (uint32_t rank = 0; rank < size; rank++)
        h->begin[index[rank] + 2]++;
    for (uint32_t i = 0; i < h->count; i++)
        next[i + 1] += next[i];
    for (uint32_t rank = 0; rank < size; rank++)
        h->ranks[next[index[rank]]++] = rank;
}

static void measure(gcoll_hierarchy *h, const uint32_t *index, const gcoll_problem *p) {
    h->fewest = p->size;
    for (uint32_t i = 0; i < h->count; i++) {
        uint32_t size = gcoll_host_size(h, i);
        h->fewest = size < h->fewest ? size : h->fewest;
        h->most = size > h->most ? size : h->most;
    }
    h->in_rows = true;
    for (uint32_t i = 0; i < p->size; i++)
        h->in_rows = h->in_rows && h->ranks[i] == i;
    h->host = index[p->rank];
    while (h->ranks[h->begin[h->host] + h->place] != p->rank)
        h->place++;
}

/* Leaders are spread evenly over the places of a host, so that consecutive places have few of the shares. */
static uint32_t place_of(const gcoll_hierarchy *h, uint32_t host, uint32_t leader) {
    return (uint32_t)gcoll_chunk_begin(gcoll_host_size(h, host), h->leaders, leader);
}

/* A share for each leader, and nothing for the others. */
static void share_out(gcoll_hierarchy *h, int64_t leaders) {
    uint32_t next = 0; /* leader of this host */
    h->leaders = h->count == 1 || leaders < 1 || leaders > h->fewest ? h->fewest : (uint32_t)leaders;
    for (uint32_t place = 0; place <= h->most; place++) {
        h->shares[place] = h->problem->count;
        if (next == h->leaders)
            continue;
        h->shares[place] = gcoll_chunk_begin(h->problem->count, h->leaders, next);
        if (place != place_of(h, h->host, next))
            continue;
        h->is_leader = h->is_leader || place == h->place;
        for (uint32_t host = 0; host < h->count && place == h->place; host++)
            h->peers[host] = h->ranks[h->begin[host] + place_of(h, host, next)];
        next++;
    }
}

static gcoll_status make(gcoll_hierarchy *h, int64_t leaders, uint32_t *index) {
    const gcoll_problem *p = h->problem;
    if (index && p->node)
        h->count = number_hosts(p, index);
    if (!index || h->count == 0)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "hierarchical: out of memory for %u ranks", p->size);
    h->begin = malloc((h->count + (size_t)2) * sizeof(uint32_t));
    h->ranks = malloc(p->size * sizeof(uint32_t));
    h->peers = malloc(h->count * sizeof(uint32_t));
    h->shares = malloc((p->size + (size_t)1) * sizeof(uint64_t));
    if (!h->begin || !h->ranks || !h->peers || !h->shares)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "hierarchical: out of memory for %u ranks", p->size);
    list_ranks(h, index, p->size);
    measure(h, index, p);
    share_out(h, leaders);
    return GCOLL_OK;
}

gcoll_status gcoll_hierarchy_make(const gcoll_problem *problem, int64_t leaders, gcoll_hierarchy *hierarchy) {
    gcoll_hierarchy h = {.problem = problem, .count = 1};
    uint32_t *index = calloc(problem->size, sizeof(uint32_t)); /* all on host 0 */
    gcoll_status status = make(&h, leaders, index);
    free(index);
    if (status == GCOLL_OK)
        *hierarchy = h;
    else
        gcoll_hierarchy_destroy(&h);
    return status;
}

void gcoll_hierarchy_destroy(gcoll_hierarchy *h) {
    free(h->shares);
    free(h->peers);
    free(h->ranks);
    free(h->begin);
}
