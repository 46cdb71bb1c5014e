/* algorithms/broadcast/broadcast_arrival_tree.c - broadcast down a tree that grows as ranks arrive.
 *
 * Ranks receive the vector in the order of their expected arrival. The next rank receives it from one that
 * has it and is free by then; of several, from the one that was busy last. So a rank that waits for late
 * ranks is late itself, and early ranks are soon done. If none is free, the first to be free sends.
 *
 * Source: the idea is that of arrival_b, P. Patarasuk and X. Yuan, Efficient MPI_Bcast across different
 * process arrival patterns, IPDPS 2008, where ranks report their arrival; here it is foretold, and the tree
 * our own.
 *
 * Steps: L = ceil(log2 P) if all arrive together: a binomial tree. At most P-1, a chain, where each comes
 * later than the vector takes from rank to rank.
 *
 * Elements sent: L n by the root of a binomial tree, less by each rank of others. Reduced: none.
 *
 * Restrictions: none. */
#include <stdlib.h>

#include "algorithms/shared/by_arrival.h"
#include "algorithms/shared/load.h"

/* The ranks that have the vector. Those in `idle` were free before the latest arrival, the one that was busy
 * last on top; the others are still sending or receiving. */
typedef struct senders {
    uint32_t *idle;
    uint32_t idle_count;
    gcoll_ready_heap busy;
} senders;

/* The sender for a rank that arrives at `when`, and the time from which it can send. */
static gcoll_ready find_sender(senders *s, uint64_t when) {
    while (s->busy.count > 0 && s->busy.at[0].when <= when)
        s->idle[s->idle_count++] = gcoll_ready_take(&s->busy).rank;
    if (s->idle_count > 0)
        return (gcoll_ready){when, s->idle[--s->idle_count]};
    return gcoll_ready_take(&s->busy);
}

/* Makes the P-1 edges, in the order in which their senders send, in the memory given. */
static void grow(const gcoll_problem *problem, const gcoll_ready *order, senders *s, uint32_t *free_from,
                 gcoll_tree_edge *edges) {
    const uint64_t vector = gcoll_vector_time(problem);
    uint32_t count = 0;
    for (uint32_t i = 0; i < problem->size; i++)
        if (order[i].rank == problem->root)
            gcoll_ready_put(&s->busy, order[i]);
    for (uint32_t i = 0; i < problem->size; i++) {
        if (order[i].rank == problem->root)
            continue;
        const gcoll_ready sender = find_sender(s, order[i].when);
        const uint64_t done = gcoll_later(sender.when, vector);
        edges[count++] = gcoll_tree_join(free_from, sender.rank, order[i].rank);
        gcoll_ready_put(&s->busy, (gcoll_ready){done, sender.rank});
        gcoll_ready_put(&s->busy, (gcoll_ready){done, order[i].rank});
    }
}

/* The edges of the tree; free() them. NULL: out of memory. */
static gcoll_tree_edge *make_tree(const gcoll_problem *problem) {
    const uint32_t size = problem->size;
    gcoll_ready *order = gcoll_by_arrival(problem);
    gcoll_tree_edge *edges = calloc(size, sizeof *edges);
    uint32_t *free_from = calloc(size, sizeof *free_from);
    senders s = {.idle = calloc(size, sizeof *s.idle), .busy.at = calloc(size, sizeof *s.busy.at)};
    bool good = order && edges && free_from && s.idle && s.busy.at;
    if (good)
        grow(problem, order, &s, free_from, edges);
    else
        free(edges);
    free(s.busy.at);
    free(s.idle);
    free(free_from);
    free(order);
    return good ? edges : NULL;
}

static void tree_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const bool root = problem->rank == problem->root;
    const gcoll_ref data = root ? gcoll_in(0, 0) : gcoll_out(0, 0);
    gcoll_tree_edge *edges = make_tree(problem);
    if (!edges) {
        gcoll_plan_refuse(b, GCOLL_ERR_NO_MEMORY, "arrival_tree: out of memory for %u ranks", problem->size);
        return;
    }
    for (uint32_t i = 0; i + 1 < problem->size; i++) {
        const gcoll_tree_edge e = edges[i];
        if (e.above != problem->rank && e.below != problem->rank)
            continue;
        gcoll_plan_round_at_least(b, e.round);
        if (e.above == problem->rank)
            gcoll_plan_send(b, e.below, data, problem->count);
        else
            gcoll_plan_recv(b, e.above, data, problem->count);
    }
    if (root) /* last: other ranks wait for the messages, but none for this copy */
        gcoll_plan_copy(b, gcoll_out(0, 0), data, problem->count);
    free(edges);
}

static uint32_t rounds_of(const gcoll_problem *problem) {
    uint32_t rounds = problem->size - 1; /* the upper bound, if memory ran out */
    gcoll_tree_edge *edges = gcoll_arrive_together(problem) ? NULL : make_tree(problem);
    if (gcoll_arrive_together(problem))
        rounds = gcoll_log2_ceil(problem->size);
    else if (edges)
        rounds = gcoll_tree_rounds(edges, problem->size - 1);
    free(edges);
    return rounds;
}

/* The cost: the rounds of the tree. Waiting for late ranks is not work. */
static void tree_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double rounds = rounds_of(problem);
    *cost = (gcoll_cost){rounds, rounds * (double)problem->count, 0, 0};
}

static void tree_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = gcoll_load_tree(problem, 1, 0);
}

const gcoll_algorithm gcoll_broadcast_arrival_tree_algorithm = {
    .name = "arrival_tree",
    .collective = GCOLL_BROADCAST,
    .summary = "tree from the root that grows as ranks arrive, the latest last",
    .source = "after Patarasuk and Yuan 2008, arrival_b",
    .plan = tree_plan,
    .cost = tree_cost,
    .load = tree_load,
    .uses_arrival = true,
    .takes_codec = true,
};
