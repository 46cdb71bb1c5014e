/* algorithms/shared/spread.c - see spread.h.
 *
 * A term is a largest subtree all of whose leaves are one rank's: what a rank sends of them. Both ends find
 * the terms by the same rule, so they agree on the messages. With one buffer a rank, a term is a leaf.
 *
 * Source: the direct algorithm for reduce-scatter, as in R. Thakur, R. Rabenseifner and W. Gropp,
 * Optimization of collective communication operations in MPICH, Int. J. High Perform. Comput. Appl. 19
 * (2005), reduce-scatter of operations that do not commute, without its steps; trees and terms are our own.
 */
#include "algorithms/shared/spread.h"
#include "gcoll/plan/steps.h"

/* Terms of several leaves that one rank has: at most two for each power of two up to GCOLL_MAX_BUFFERS. */
#define MOST_TERMS 24

/* Something to combine: what lies at `at`, or, if `from` is another rank, a message that it sends. */
typedef struct operand {
    uint32_t from;
    gcoll_ref at;
} operand;

typedef struct spread {
    const gcoll_problem *problem;
    gcoll_builder *b;
    uint32_t leaves;
    uint64_t begin, count; /* the block that this rank reduces */
    gcoll_ref result;
    uint32_t first[MOST_TERMS]; /* own terms of several leaves: the first leaf of each, */
    gcoll_ref at[MOST_TERMS];   /* and where the whole vector lies */
    uint32_t terms;
} spread;

static bool is_left(const gcoll_problem *problem) {
    return problem->order == GCOLL_ORDER_LEFT;
}

/* The leaves of the term that begins with the leaf `first`. */
static uint32_t term_leaves(const gcoll_problem *problem, uint32_t first) {
    const uint32_t buffers = problem->buffers, all = problem->size * buffers;
    const uint32_t end = first - first % buffers + buffers; /* of the leaves of its rank */
    uint32_t width = 1;
    if (is_left(problem))
        return first == 0 ? buffers : 1;
    /* A subtree of twice the width, or what there is of it, must begin here and be the rank's, too. */
    while (first % (2 * width) == 0 && (end == all ? first + width < end : first + 2 * width <= end))
        width *= 2;
    return first + width < end ? width : end - first;
}

/* ---- Blocks --------------------------------------------------------------------------------------- */

uint32_t gcoll_spread_owners(const gcoll_problem *problem) {
    const int64_t owners = problem->option[0];
    if (problem->collective == GCOLL_REDUCE_SCATTER || owners < 1 || owners > problem->size)
        return problem->size;
    return (uint32_t)owners;
}

/* The owners follow one another from the root on, round the end of the ranks. Others have an empty block. */
static uint64_t begin_of(const gcoll_problem *problem, uint32_t r, uint32_t more) {
    const uint32_t owners = gcoll_spread_owners(problem);
    const uint32_t place = (r + problem->size - problem->root) % problem->size + more;
    if (problem->collective == GCOLL_REDUCE_SCATTER)
        return gcoll_block_begin(problem, r + more);
    return gcoll_chunk_begin(problem->count, owners, place < owners ? place : owners);
}

uint64_t gcoll_spread_begin(const gcoll_problem *problem, uint32_t r) {
    return begin_of(problem, r, 0);
}

uint64_t gcoll_spread_count(const gcoll_problem *problem, uint32_t r) {
    return begin_of(problem, r, 1) - begin_of(problem, r, 0);
}

double gcoll_spread_largest(const gcoll_problem *problem) {
    return (double)(problem->collective == GCOLL_REDUCE_SCATTER
                        ? gcoll_largest_block(problem)
                        : gcoll_largest_chunk(problem->count, gcoll_spread_owners(problem)));
}

/* ---- Own leaves ----------------------------------------------------------------------------------- */

static gcoll_ref own_term(const spread *s, uint32_t first) {
    for (uint32_t i = 0; i < s->terms; i++)
        if (s->first[i] == first)
            return s->at[i];
    return gcoll_in(first % s->problem->buffers, 0);
}

static void combine_own(spread *s) {
    const gcoll_problem *p = s->problem;
    const uint32_t first = p->rank * p->buffers;
    for (uint32_t at = 0, leaves; at < p->buffers; at += leaves) {
        leaves = term_leaves(p, first + at);
        if (leaves == 1)
            continue;
        s->first[s->terms] = first + at;
        s->at[s->terms++] =
            gcoll_sum_buffers(s->b, p->order, gcoll_plan_scratch(s->b, p->count), at, leaves, p->count);
    }
}

static void send_all(const spread *s) {
    const gcoll_problem *p = s->problem;
    const uint32_t first = p->rank * p->buffers;
    for (uint32_t distance = 1; distance < p->size; distance++) {
        const uint32_t to = gcoll_rank_above(p, distance);
        for (uint32_t at = 0; at < p->buffers; at += term_leaves(p, first + at))
            gcoll_plan_send(s->b, to, gcoll_ref_add(own_term(s, first + at), gcoll_spread_begin(p, to)),
                            gcoll_spread_count(p, to));
    }
}

/* ---- All leaves of a block ------------------------------------------------------------------------ */

static bool is_foreign(const spread *s, operand x) {
    return x.from != s->problem->rank;
}

/* Receives what is still a message. */
static void fetch(spread *s, operand *x) {
    if (!is_foreign(s, *x))
        return;
    x->at = gcoll_plan_scratch(s->b, s->count);
    gcoll_plan_recv(s->b, x->from, x->at, s->count);
    x->from = s->problem->rank;
}

/* Where a result may lie: in the place of an operand in scratch, which nobody reads again. */
static gcoll_ref room_for(spread *s, operand left, operand right, bool is_last) {
    if (is_last)
        return s->result;
    if (!is_foreign(s, left) && left.at.space == GCOLL_SCRATCH)
        return left.at;
    if (!is_foreign(s, right) && right.at.space == GCOLL_SCRATCH)
        return right.at;
    return gcoll_plan_scratch(s->b, s->count);
}

/* How long a rank's message to this one waits for the port: ranks send to those above them in turn. */
static uint32_t turn_of(const spread *s, operand x) {
    return (s->problem->rank + s->problem->size - x.from) % s->problem->size;
}

/* Of two messages, the later one is reduced into the earlier one while it comes. */
static operand combine(spread *s, operand left, operand right, bool is_last) {
    if (is_foreign(s, left) && is_foreign(s, right))
        fetch(s, turn_of(s, left) < turn_of(s, right) ? &left : &right);
    const gcoll_ref room = room_for(s, left, right, is_last);
    if (is_foreign(s, right))
        gcoll_plan_recv_reduce(s->b, right.from, room, left.at, s->count);
    else if (is_foreign(s, left))
        gcoll_plan_recv_reduce_left(s->b, left.from, room, right.at, s->count);
    else
        gcoll_plan_reduce(s->b, room, left.at, right.at, s->count);
    return (operand){s->problem->rank, room};
}

static operand term_at(const spread *s, uint32_t first) {
    const uint32_t owner = first / s->problem->buffers;
    operand term = {owner, gcoll_in(0, 0)};
    if (owner == s->problem->rank)
        term.at = gcoll_ref_add(own_term(s, first), s->begin);
    return term;
}

/* Whether the leaves of [first, first + width) that exist are one rank's. */
static bool is_term(const spread *s, uint32_t first, uint32_t width) {
    const uint32_t last = s->leaves - first > width ? first + width - 1 : s->leaves - 1;
    return first / s->problem->buffers == last / s->problem->buffers;
}

/* The leaves of [first, first + width), width a power of two. Messages of one rank are received in the order
 * of their leaves, as they are sent. */
static operand combine_pairs(spread *s, uint32_t first, uint32_t width, bool is_last) {
    const uint32_t half = width / 2;
    if (is_term(s, first, width))
        return term_at(s, first);
    if (s->leaves - first <= half)
        return combine_pairs(s, first, half, is_last);
    /* A message is reduced into its neighbour's only. Into a larger subtree, it would wait for all of that.
     */
    const bool are_neighbours = is_term(s, first, half) && is_term(s, first + half, half);
    operand left = combine_pairs(s, first, half, false);
    if (!are_neighbours)
        fetch(s, &left);
    operand right = combine_pairs(s, first + half, half, false);
    if (!are_neighbours)
        fetch(s, &right);
    return combine(s, left, right, is_last);
}

/* All messages but the last are received at once, not when it is their turn. */
static operand combine_left(spread *s) {
    const gcoll_problem *p = s->problem;
    const bool is_last_rank = p->rank == p->size - 1;
    const uint32_t last_message = is_last_rank ? s->leaves - p->buffers - 1 : s->leaves - 1;
    operand sum = {p->rank, gcoll_in(0, 0)};
    for (uint32_t leaf = 0, leaves; leaf < s->leaves; leaf += leaves) {
        operand next = term_at(s, leaf);
        leaves = term_leaves(p, leaf);
        if (leaf + leaves - 1 != last_message)
            fetch(s, &next);
        sum = leaf == 0 ? next : combine(s, sum, next, leaf + leaves == s->leaves);
    }
    return sum;
}

void gcoll_spread_plan(const gcoll_problem *problem, gcoll_builder *b, gcoll_ref result) {
    spread s = {.problem = problem,
                .b = b,
                .leaves = problem->size * problem->buffers,
                .begin = gcoll_spread_begin(problem, problem->rank),
                .count = gcoll_spread_count(problem, problem->rank),
                .result = result};
    uint32_t width = 1;
    while (width < s.leaves)
        width *= 2;
    combine_own(&s);
    send_all(&s);
    const operand sum = is_left(problem) ? combine_left(&s) : combine_pairs(&s, 0, width, true);
    if (problem->size == 1)
        gcoll_plan_copy(b, result, sum.at, s.count);
}

void gcoll_spread_copies(const gcoll_problem *problem, gcoll_builder *b) {
    for (uint32_t k = 1; k < problem->buffers; k++)
        gcoll_plan_copy(b, gcoll_out(k, 0), gcoll_out(0, 0), gcoll_problem_out_count(problem));
}

/* ---- Claims and cost ------------------------------------------------------------------------------ */

uint32_t gcoll_spread_claims(const gcoll_problem *problem) {
    return is_left(problem) ? gcoll_left_claims(problem) : gcoll_pairs_claims(problem);
}

/* The most terms of a rank. The buffers are one if a pass reduces them. */
static double most_terms(const gcoll_problem *problem) {
    if (problem->buffers == 1 || !gcoll_problem_has_tree(problem))
        return 1;
    if (is_left(problem))
        return problem->buffers;
    return gcoll_is_power_of_two(problem->buffers) ? 1 : 2.0 * gcoll_log2_floor(problem->buffers);
}

/* Blocks of scratch of an owner. By pairs, one for each two neighbours, as the second message is reduced into
 * the first, and one for another rank without a neighbour; two ranks reduce into the result. In a reduce, the
 * result takes one, too, if the owner is not the root. */
static double slots_of(const gcoll_problem *problem, uint32_t owner) {
    const uint32_t size = problem->size, last = size - 1;
    const uint32_t result = problem->collective == GCOLL_REDUCE && owner != problem->root;
    if (problem->buffers > 1 && gcoll_problem_has_tree(problem))
        return size * most_terms(problem);
    if (size <= 2)
        return result;
    return result + (is_left(problem) ? size - 2 : size / 2 + (size % 2 != 0 && owner != last));
}

/* One of the first three owners has the most. */
static double most_slots(const gcoll_problem *problem) {
    const uint32_t owners = gcoll_spread_owners(problem);
    double most = 0;
    for (uint32_t i = 0; i < owners && i < 3; i++) {
        const double slots = slots_of(problem, (problem->root + i) % problem->size);
        most = slots > most ? slots : most;
    }
    return most;
}

gcoll_cost gcoll_spread_cost(const gcoll_problem *problem) {
    const double others = problem->size - 1.0, block = gcoll_spread_largest(problem);
    const double terms = most_terms(problem);
    const bool combines_own = problem->buffers > 1 && gcoll_problem_has_tree(problem);
    return (gcoll_cost){.steps = terms * others,
                        .sent = terms * others * block,
                        .reduced = (terms * problem->size - 1) * block,
                        .scratch = most_slots(problem) * block +
                                   (combines_own ? problem->buffers * (double)problem->count : 0)};
}

gcoll_load gcoll_spread_load(const gcoll_problem *problem) {
    const double others = problem->size - 1.0, n = (double)problem->count, terms = most_terms(problem);
    return (gcoll_load){.hops = problem->size > 1 ? 1 : 0,
                        .messages = terms * others * gcoll_spread_owners(problem),
                        .sent = terms * others * n,
                        .reduced = (terms * problem->size - 1) * n};
}
