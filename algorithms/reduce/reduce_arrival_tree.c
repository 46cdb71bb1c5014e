/* algorithms/reduce/reduce_arrival_tree.c - reduce up a tree that early ranks begin and late ranks end.
 *
 * Of all ranks that hold a partial sum, the two that are ready first join: the earlier one sends to the
 * later one and is done. The root always receives. So early ranks reduce among themselves, and a rank that
 * is late enough sends its vector straight to the root, last of all.
 *
 * Source: the greedy joining of P. Marendić, J. Lemeire, T. Haber, D. Vučinić and P. Schelkens, An
 * investigation into the performance of reduction algorithms under load imbalance, Euro-Par 2012, with known
 * arrivals; who receives is our own.
 *
 * Steps: L = ceil(log2 P) if all arrive together: then it is the tree of `binomial`, in rank order. At most
 * P-1, where each comes later than a vector takes.
 *
 * Elements sent, and reduced: n a step, on the longest way, which ends at the root.
 *
 * Restrictions: none. Scratch: n on ranks other than the root that receive. */
#include <stdlib.h>

#include "algorithms/shared/by_arrival.h"
#include "algorithms/shared/load.h"

/* ---- All together: neighbouring ranges join, so that each sum is of consecutive ranks -------------------
 */

/* The rank that holds the sum of the 2^level ranks from `base` on, a multiple of 2^level. */
static uint32_t holder(const gcoll_problem *problem, uint32_t base, uint32_t level) {
    return problem->root >> level == base >> level ? problem->root : base;
}

static void pair_neighbours(const gcoll_problem *problem, gcoll_tree_edge *edges) {
    uint32_t count = 0;
    for (uint32_t level = 0; level < gcoll_log2_ceil(problem->size); level++)
        for (uint64_t base = 0; base + (UINT64_C(1) << level) < problem->size; base += UINT64_C(2) << level) {
            uint32_t low = holder(problem, (uint32_t)base, level),
                     high = holder(problem, (uint32_t)(base + (UINT64_C(1) << level)), level);
            bool up = holder(problem, (uint32_t)base, level + 1) == low;
            edges[count++] = (gcoll_tree_edge){up ? low : high, up ? high : low, level};
        }
}

/* ---- Else ---------------------------------------------------------------------------------------------- */

static void join_the_first(const gcoll_problem *problem, gcoll_ready_heap *heap, uint32_t *free_from,
                           gcoll_tree_edge *edges) {
    const uint64_t vector = gcoll_vector_time(problem);
    for (uint32_t count = 0; heap->count > 1; count++) {
        const gcoll_ready first = gcoll_ready_take(heap), second = gcoll_ready_take(heap);
        const bool to_first = first.rank == problem->root;
        const uint32_t above = to_first ? first.rank : second.rank;
        edges[count] = gcoll_tree_join(free_from, above, to_first ? second.rank : first.rank);
        gcoll_ready_put(heap, (gcoll_ready){gcoll_later(second.when, vector), above});
    }
}

/* The P-1 edges, from the leaves on; free() them. NULL: out of memory. */
static gcoll_tree_edge *make_tree(const gcoll_problem *problem) {
    const uint32_t size = problem->size;
    gcoll_ready_heap heap = {gcoll_by_arrival(problem), size}; /* a sorted list is a heap */
    gcoll_tree_edge *edges = calloc(size, sizeof *edges);
    uint32_t *free_from = calloc(size, sizeof *free_from);
    bool good = heap.at && edges && free_from;
    if (good && gcoll_arrive_together(problem))
        pair_neighbours(problem, edges);
    else if (good)
        join_the_first(problem, &heap, free_from, edges);
    else
        free(edges);
    free(free_from);
    free(heap.at);
    return good ? edges : NULL;
}

static void tree_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t rank = problem->rank;
    const uint64_t n = problem->count;
    gcoll_ref sum = gcoll_in(0, 0), room = gcoll_out(0, 0);
    gcoll_tree_edge *edges = make_tree(problem);
    if (!edges) {
        gcoll_plan_refuse(b, GCOLL_ERR_NO_MEMORY, "arrival_tree: out of memory for %u ranks", problem->size);
        return;
    }
    for (uint32_t i = 0; i + 1 < problem->size; i++) {
        const gcoll_tree_edge e = edges[i];
        if (e.above != rank && e.below != rank)
            continue;
        gcoll_plan_round_at_least(b, e.round);
        if (e.below == rank) {
            gcoll_plan_send(b, e.above, sum, n);
            continue; /* it has no more edges */
        }
        if (sum.space == GCOLL_IN && rank != problem->root)
            room = gcoll_plan_scratch(b, n);
        if (e.below < rank)
            gcoll_plan_recv_reduce_left(b, e.below, room, sum, n);
        else
            gcoll_plan_recv_reduce(b, e.below, room, sum, n);
        sum = room;
    }
    if (problem->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), sum, n);
    free(edges);
}

/* Joining ranks as they arrive keeps no order, unless there are only two ranks. */
static uint32_t tree_claims(const gcoll_problem *problem) {
    return gcoll_arrive_together(problem) || problem->size == 2
               ? gcoll_pairs_claims(problem)
               : GCOLL_CLAIM_RANK_IDENTICAL | gcoll_trivial_claims(problem);
}

/* The cost: the rounds of the tree. Waiting for late ranks is not work. */
static void tree_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const bool together = gcoll_arrive_together(problem);
    double n = (double)problem->count, rounds = problem->size - 1.0; /* the upper bound, if memory ran out */
    gcoll_tree_edge *edges = together ? NULL : make_tree(problem);
    uint32_t pairs = problem->size / 2;
    bool scratch = !together || pairs > (problem->root / 2 < pairs ? 1u : 0u);
    if (together)
        rounds = gcoll_log2_ceil(problem->size);
    else if (edges)
        rounds = gcoll_tree_rounds(edges, problem->size - 1);
    *cost = (gcoll_cost){rounds, rounds * n, rounds * n, scratch ? n : 0};
    free(edges);
}

static void tree_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = gcoll_load_tree(problem, 1, 0);
}

const gcoll_algorithm gcoll_reduce_arrival_tree_algorithm = {
    .name = "arrival_tree",
    .collective = GCOLL_REDUCE,
    .summary = "tree to the root that early ranks begin; the latest joins last",
    .source = "after Marendic et al. 2012",
    .plan = tree_plan,
    .claims = tree_claims,
    .cost = tree_cost,
    .load = tree_load,
    .uses_arrival = true,
};
