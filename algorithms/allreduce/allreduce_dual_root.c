/* algorithms/allreduce/allreduce_dual_root.c - allreduce: blocks travel up and down two trees at once.
 *
 * Each half of the ranks is a binary tree, numbered in post-order, and the vector is cut in blocks. Block k
 * moves up to the roots, which swap their sums, while an earlier block, now final, moves down the same
 * links. At depth d a rank exchanges with each child, partial block k for final block k - (d+1), and then
 * with its parent, partial block k for final block k - d. Blocks that do not exist are left out at both
 * ends.
 *
 * Source: J. L. Traeff, A doubly-pipelined, dual-root reduction-to-all algorithm and implementation, 2021,
 * arXiv:2109.12626.
 *
 * Steps: f + 3(b-1) with b blocks, where f, about 4 log2 P, is what one block takes to the roots and back;
 * with trees of two ranks two steps a block, of one rank one. Elements on the way: n/b a step, hence towards
 * 3 n. Reduced: towards 3 n, by the roots.
 *
 * Restrictions: none. Ranks are added up in their order. Scratch: one block, at the roots.
 *
 * Each exchange is a round, and rounds do not overlap: these are the paper's steps, each of which keeps both
 * directions of a link busy. Other windows, simulated with 200 blocks on 30 ranks with one port each, in
 * units of the time to send the vector once: 3.05 without overlap, 3.54 with a window of 1, 3.07 with 3 (a
 * block), 3.65 with 16, and 5.8 without a window, where both directions compete for the ports. A window of 3
 * hides reductions and latency: it saves up to a quarter of the time if they are a large part of it, but
 * costs up to a quarter if blocks are few. */
#include "algorithms/shared/load.h"
#include "algorithms/shared/tree.h"

static const gcoll_option options[] = {GCOLL_TREE_PARTS_OPTION("blocks"), {.name = NULL}};

typedef struct walk {
    const gcoll_problem *problem;
    gcoll_builder *b;
    uint32_t blocks, depth;
} walk;

/* Receives partial block k, the sum of ranks before this one, and sends the final block that is due. */
static void exchange_with_child(const walk *w, uint32_t child, int64_t k, gcoll_space own) {
    gcoll_tree_part up = gcoll_tree_part_make(w->problem, w->blocks, k);
    gcoll_tree_part down = gcoll_tree_part_make(w->problem, w->blocks, k - w->depth - 1);
    gcoll_plan_recv_reduce_left(w->b, child, gcoll_out(0, up.begin), gcoll_ref_make(own, 0, up.begin),
                                up.count);
    gcoll_plan_send(w->b, child, gcoll_out(0, down.begin), down.count);
    gcoll_plan_round(w->b);
}

static void exchange_with_parent(const walk *w, uint32_t parent, int64_t k, gcoll_space own) {
    gcoll_tree_part up = gcoll_tree_part_make(w->problem, w->blocks, k);
    gcoll_tree_part down = gcoll_tree_part_make(w->problem, w->blocks, k - w->depth);
    gcoll_plan_send(w->b, parent, gcoll_ref_make(own, 0, up.begin), up.count);
    gcoll_plan_recv(w->b, parent, gcoll_out(0, down.begin), down.count);
    gcoll_plan_round(w->b);
}

/* The roots swap their sums of block k. The received one waits in `inbox` until the own one is sent. */
static void swap_with_root(const walk *w, uint32_t other, bool first, int64_t k, gcoll_space own,
                           gcoll_ref inbox) {
    gcoll_tree_part up = gcoll_tree_part_make(w->problem, w->blocks, k);
    gcoll_ref mine = gcoll_ref_make(own, 0, up.begin);
    gcoll_plan_send(w->b, other, mine, up.count);
    gcoll_plan_recv(w->b, other, inbox, up.count);
    gcoll_plan_reduce(w->b, gcoll_out(0, up.begin), first ? mine : inbox, first ? inbox : mine, up.count);
    gcoll_plan_round(w->b);
}

static void dual_root_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, rank = problem->rank, middle = (size + 1) / 2;
    const uint64_t n = problem->count;
    if (size == 1) {
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), n);
        return;
    }
    const bool first = rank < middle;
    gcoll_tree_place at = gcoll_tree_find(first ? 0 : middle, first ? middle : size, rank);
    walk w = {problem, b, gcoll_tree_parts(n, problem->option[0]), at.depth};
    const gcoll_space own = at.left == GCOLL_TREE_NOBODY ? GCOLL_IN : GCOLL_OUT;
    gcoll_ref inbox = {0};
    if (at.depth == 0)
        inbox = gcoll_plan_scratch(b, gcoll_tree_largest_part(n, w.blocks));
    gcoll_plan_window(b, 0);
    for (int64_t k = 0; k <= (int64_t)w.blocks + w.depth; k++) {
        if (at.right != GCOLL_TREE_NOBODY) /* the right subtree's ranks come directly before this one */
            exchange_with_child(&w, at.right, k, GCOLL_IN);
        if (at.left != GCOLL_TREE_NOBODY)
            exchange_with_child(&w, at.left, k, at.right == GCOLL_TREE_NOBODY ? GCOLL_IN : GCOLL_OUT);
        if (at.depth > 0)
            exchange_with_parent(&w, at.parent, k, own);
        else
            swap_with_root(&w, first ? size - 1 : middle - 1, first, k, own, inbox);
    }
}

static uint32_t dual_root_claims(const gcoll_problem *problem) {
    uint32_t size = problem->size, claims = GCOLL_CLAIM_RANK_IDENTICAL | GCOLL_CLAIM_ORDERED;
    if (size <= 4 || size == 8) /* then each tree pairs neighbours */
        claims |= gcoll_claimed_trees(problem, GCOLL_CLAIM_PAIRS);
    return claims | gcoll_trivial_claims(problem);
}

/* The cost of the larger tree, which is the slower one. */
static void dual_root_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const uint32_t larger = (problem->size + 1) / 2, a_block = larger < 3 ? larger : 3;
    const uint32_t blocks = gcoll_tree_parts(problem->count, problem->option[0]);
    double block = (double)problem->count / blocks, more = a_block * (blocks - 1.0);
    double up = gcoll_tree_steps(larger + 1), down = gcoll_tree_steps(larger);
    *cost = (gcoll_cost){up + down + more, (up + down + more) * block, (up + more) * block,
                         (double)gcoll_tree_largest_part(problem->count, blocks)};
    if (problem->size == 1)
        *cost = (gcoll_cost){0, 0, 0, 0};
}

/* Both trees and the link between their roots have P-1 edges together, and each root adds up once more. */
static void dual_root_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = gcoll_load_tree(problem, gcoll_tree_parts(problem->count, problem->option[0]), 0);
    load->reduced += problem->size > 1 ? (double)problem->count : 0;
}

const gcoll_algorithm gcoll_allreduce_dual_root_algorithm = {
    .name = "dual_root",
    .collective = GCOLL_ALLREDUCE,
    .summary = "blocks go up and down two trees at once; three steps a block, keeps rank order",
    .source = "Traeff 2021, arXiv:2109.12626",
    .options = options,
    .plan = dual_root_plan,
    .claims = dual_root_claims,
    .cost = dual_root_cost,
    .load = dual_root_load,
};
