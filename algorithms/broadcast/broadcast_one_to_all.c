/* algorithms/broadcast/broadcast_one_to_all.c - broadcast: the root sends the vector to each other rank, all
 * at once.
 *
 * One step; the root's port sends P-1 messages. For few ranks, or where others may be slow to forward.
 *
 * Source: Gloo, docs/algorithms.md, broadcast_one_to_all.
 *
 * Steps: 1 for everybody but the root, whose port sends P-1 messages one after the other.
 *
 * Elements sent: (P-1) n by the root. Reduced: none.
 *
 * Restrictions: none. */
#include "algorithms/planners.h"
#include "algorithms/shared/load.h"

static void one_to_all_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, root = problem->root;
    if (problem->rank != root) {
        gcoll_plan_recv(b, root, gcoll_out(0, 0), problem->count);
        return;
    }
    for (uint32_t i = 1; i < size; i++)
        gcoll_plan_send(b, (root + i) % size, gcoll_in(0, 0), problem->count);
    gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
}

static void one_to_all_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double others = problem->size - 1;
    *cost = (gcoll_cost){others, others * (double)problem->count, 0, 0};
}

static void one_to_all_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = gcoll_load_tree(problem, 1, 1);
}

const gcoll_algorithm gcoll_broadcast_one_to_all_algorithm = {
    .name = "one_to_all",
    .collective = GCOLL_BROADCAST,
    .summary = "the root sends all to every rank; one step, P-1 messages at the root's port",
    .source = "Gloo, docs/algorithms.md, broadcast_one_to_all",
    .plan = one_to_all_plan,
    .cost = one_to_all_cost,
    .load = one_to_all_load,
    .takes_codec = true,
};
