/* algorithms/gather_scatter/gather_scatter_linear.c - gather and scatter: each block goes straight between
 * the root and its rank.
 *
 * Each block is sent once, and only the root handles blocks of other ranks. For few ranks, for long blocks,
 * and where the blocks differ much in size.
 *
 * Source: J. Pjesivac-Grbovic, T. Angskun, G. Bosilca, G. Fagg, E. Gabriel and J. Dongarra, Performance
 * analysis of MPI collective operations, Cluster Comput. 10 (2007), linear.
 *
 * Steps: 1, of P-1 messages one after the other at the root's port: P-1 turns.
 *
 * Elements sent (scatter) or received (gather): n less the root's block. Reduced: none.
 *
 * Restrictions: none. */
#include "algorithms/planners.h"

static void gather_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, rank = problem->rank, root = problem->root;
    if (rank != root) {
        gcoll_plan_send(b, root, gcoll_in(0, 0), gcoll_block_count(problem, rank));
        return;
    }
    for (uint32_t i = 1; i < size; i++) {
        uint32_t from = (root + i) % size;
        gcoll_plan_recv(b, from, gcoll_out(0, gcoll_block_begin(problem, from)),
                        gcoll_block_count(problem, from));
    }
    gcoll_plan_copy(b, gcoll_out(0, gcoll_block_begin(problem, root)), gcoll_in(0, 0),
                    gcoll_block_count(problem, root));
}

static void scatter_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, rank = problem->rank, root = problem->root;
    if (rank != root) {
        gcoll_plan_recv(b, root, gcoll_out(0, 0), gcoll_block_count(problem, rank));
        return;
    }
    for (uint32_t i = 1; i < size; i++) {
        uint32_t to = (root + i) % size;
        gcoll_plan_send(b, to, gcoll_in(0, gcoll_block_begin(problem, to)), gcoll_block_count(problem, to));
    }
    gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, gcoll_block_begin(problem, root)),
                    gcoll_block_count(problem, root));
}

static void linear_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    uint64_t own = gcoll_block_count(problem, problem->root);
    *cost = (gcoll_cost){problem->size - 1, (double)(problem->count - own), 0, 0};
}

static void linear_load(const gcoll_problem *problem, gcoll_load *load) {
    const uint64_t own = gcoll_block_count(problem, problem->root);
    *load = (gcoll_load){.hops = 1, .messages = problem->size - 1.0, .sent = (double)(problem->count - own)};
}

const gcoll_algorithm gcoll_gather_linear_algorithm = {
    .name = "linear",
    .collective = GCOLL_GATHER,
    .summary = "every rank sends its block to the root; P-1 steps, no scratch",
    .source = "Pjesivac-Grbovic et al. 2007, linear",
    .plan = gather_plan,
    .cost = linear_cost,
    .load = linear_load,
};

const gcoll_algorithm gcoll_scatter_linear_algorithm = {
    .name = "linear",
    .collective = GCOLL_SCATTER,
    .summary = "the root sends every rank its block; P-1 steps, no scratch",
    .source = "Pjesivac-Grbovic et al. 2007, linear",
    .plan = scatter_plan,
    .cost = linear_cost,
    .load = linear_load,
};
