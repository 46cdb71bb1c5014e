/* algorithms/allreduce/allreduce_tree_pipelined.c - allreduce: a pipelined reduce up a binary tree, then a
 * broadcast down it.
 *
 * The ranks are one binary tree, numbered in post-order, and the vector is cut in blocks. Going up, a rank
 * receives each block from its right child, then from its left one, and sends it on while it receives the
 * next one. Going down, it sends each block to its children in turn. A fence keeps a rank from going down
 * before it has gone up. The root has everything only then, so links are used in one direction at a time:
 * the baseline for `dual_root`.
 *
 * Source: J. L. Traeff, A doubly-pipelined, dual-root reduction-to-all algorithm and implementation, 2021,
 * arXiv:2109.12626, the baseline: reduce, then broadcast, pipelined.
 *
 * Steps: f + 4(b-1) with b blocks, where f, about 4 log2 P, is what one block takes to the root and back; 2b
 * for two ranks. Elements on the way: n/b a step, hence towards 4 n. Reduced: towards 2 n.
 *
 * Restrictions: none. Ranks are added up in their order.
 *
 * Rounds do not overlap: a rank's two children take turns, which keeps both links busy. */
#include "algorithms/shared/load.h"
#include "algorithms/shared/tree.h"

static const gcoll_option options[] = {GCOLL_TREE_PARTS_OPTION("blocks"), {.name = NULL}};

typedef struct walk {
    const gcoll_problem *problem;
    gcoll_builder *b;
    gcoll_tree_place at;
    uint32_t blocks;
} walk;

/* Receives block k from a child, whose ranks come before those summed in `so_far`. */
static void take(const walk *w, uint32_t child, int64_t k, gcoll_space so_far) {
    gcoll_tree_part part = gcoll_tree_part_make(w->problem, w->blocks, k);
    if (child != GCOLL_TREE_NOBODY)
        gcoll_plan_recv_reduce_left(w->b, child, gcoll_out(0, part.begin),
                                    gcoll_ref_make(so_far, 0, part.begin), part.count);
}

static void send(const walk *w, uint32_t to, int64_t k, gcoll_space from) {
    gcoll_tree_part part = gcoll_tree_part_make(w->problem, w->blocks, k);
    if (to != GCOLL_TREE_NOBODY)
        gcoll_plan_send(w->b, to, gcoll_ref_make(from, 0, part.begin), part.count);
}

static void go_up(const walk *w) {
    const bool leaf = w->at.left == GCOLL_TREE_NOBODY, two = w->at.right != GCOLL_TREE_NOBODY;
    for (int64_t k = 0; k <= w->blocks; k++) {
        send(w, w->at.parent, k - 1, leaf ? GCOLL_IN : GCOLL_OUT);
        take(w, two ? w->at.right : w->at.left, k, GCOLL_IN);
        gcoll_plan_round(w->b);
        if (two) {
            take(w, w->at.left, k, GCOLL_OUT);
            gcoll_plan_round(w->b);
        }
    }
}

static void go_down(const walk *w) {
    const bool two = w->at.right != GCOLL_TREE_NOBODY;
    for (int64_t k = 0; k <= w->blocks; k++) {
        gcoll_tree_part part = gcoll_tree_part_make(w->problem, w->blocks, k);
        send(w, two ? w->at.right : w->at.left, k - 1, GCOLL_OUT);
        if (w->at.parent != GCOLL_TREE_NOBODY)
            gcoll_plan_recv(w->b, w->at.parent, gcoll_out(0, part.begin), part.count);
        gcoll_plan_round(w->b);
        if (two) {
            send(w, w->at.left, k, GCOLL_OUT);
            gcoll_plan_round(w->b);
        }
    }
}

static void tree_pipelined_plan(const gcoll_problem *problem, gcoll_builder *b) {
    walk w = {problem, b, gcoll_tree_find(0, problem->size, problem->rank),
              gcoll_tree_parts(problem->count, problem->option[0])};
    if (problem->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
    gcoll_plan_window(b, 0);
    go_up(&w);
    gcoll_plan_fence(b);
    go_down(&w);
}

static uint32_t tree_pipelined_claims(const gcoll_problem *problem) {
    uint32_t claims = GCOLL_CLAIM_RANK_IDENTICAL | GCOLL_CLAIM_ORDERED;
    if (problem->size == 4) /* pairs neighbours */
        claims |= GCOLL_CLAIM_PAIRS;
    return claims | gcoll_trivial_claims(problem);
}

static void tree_pipelined_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const uint32_t others = problem->size - 1, a_block = others < 2 ? others : 2;
    const double blocks = gcoll_tree_parts(problem->count, problem->option[0]);
    double way = gcoll_tree_steps(problem->size + 1) - 1 + a_block * (blocks - 1);
    double block = (double)problem->count / blocks;
    *cost = (gcoll_cost){2 * way, 2 * way * block, way * block, 0};
}

static void tree_pipelined_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = gcoll_load_tree(problem, gcoll_tree_parts(problem->count, problem->option[0]), 0);
}

const gcoll_algorithm gcoll_allreduce_tree_pipelined_algorithm = {
    .name = "tree_pipelined",
    .collective = GCOLL_ALLREDUCE,
    .summary = "blocks go up a binary tree, then all down again; four steps a block, keeps rank order",
    .source = "Traeff 2021, arXiv:2109.12626, baseline",
    .options = options,
    .plan = tree_pipelined_plan,
    .claims = tree_pipelined_claims,
    .cost = tree_pipelined_cost,
    .load = tree_pipelined_load,
    .takes_codec = true,
};
