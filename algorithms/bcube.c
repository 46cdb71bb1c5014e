/* algorithms/bcube.c - halving and doubling with up to `base` ranks in a group instead of two.
 *
 * The places are numbered in mixed radix. In step i of the reduce-scatter, those that differ in digit i only
 * form a group: each keeps one part of the vector it has left, takes that part from all the others of the
 * group at once, and gives them theirs. The allgather takes the same steps backwards.
 *
 * Radices are the largest divisors up to `base`, one after the other: all `base` for a power of it. If P has
 * a prime factor beyond `base`, only the largest d base^k <= P ranks, d < base, take part, and the others,
 * never more than these, are folded in pairs.
 *
 * Source: Gloo, docs/algorithms.md, allreduce_bcube; it counts 2 sum of n/base^i elements, i < log_base P,
 * the vector that a step begins with, of which (base-1)/base are sent.
 *
 * Steps: 2 log_base P with base-1 messages each, 2 more when folded. With Q ranks taking part: elements sent
 * 2(Q-1)/Q n, 2n more when folded; reduced (Q-1)/Q n, n more when folded.
 *
 * Restrictions: none. Scratch: (g-1)/g n elements, g the first radix, for what comes in at once. */
#include "algorithms/bcube.h"

/* What a place has left before a step, in pieces of 1/places of the vector, and who is in its group. */
typedef struct group {
    uint32_t radix, digit, stride; /* the place of digit d is place + (d - digit) * stride */
    uint32_t begin, part;          /* part d: pieces [begin + d * part, begin + (d+1) * part) */
} group;

static group group_at(const gcoll_cube *c, uint32_t place, uint32_t step) {
    group g = {.stride = 1, .part = c->places};
    for (uint32_t i = 0; i <= step; i++) {
        g.begin += g.digit * g.part;
        g.stride *= i == 0 ? 1 : c->radix[i - 1];
        g.radix = c->radix[i];
        g.digit = place / g.stride % g.radix;
        g.part /= g.radix;
    }
    return g;
}

typedef struct walk {
    gcoll_builder *b;
    const gcoll_cube *c;
    gcoll_fold fold;
    uint64_t n;
} walk;

static uint32_t peer_at(const walk *w, const group *g, uint32_t digit) {
    return gcoll_fold_rank(&w->fold, w->fold.place - g->digit * g->stride + digit * g->stride);
}

static uint64_t part_begin(const walk *w, const group *g, uint32_t digit) {
    return gcoll_chunk_begin(w->n, w->c->places, g->begin + digit * g->part);
}

static uint64_t part_count(const walk *w, const group *g, uint32_t digit) {
    return part_begin(w, g, digit + 1) - part_begin(w, g, digit);
}

/* What comes from the others of the group, in the order of digits. */
static gcoll_ref inbox_of(const group *g, uint32_t digit, uint64_t count) {
    return gcoll_scratch((digit < g->digit ? digit : digit - 1) * count);
}

/* Messages leave in an order that sends no two of a group to the same place at once. Sums are added up in the
 * order of digits, hence of ranks; only the last may go where the own part lies. */
static void scatter(const walk *w, const group *g, gcoll_ref from) {
    const uint64_t own = part_begin(w, g, g->digit), count = part_count(w, g, g->digit);
    for (uint32_t k = 1; k < g->radix; k++) {
        uint32_t to = (g->digit + k) % g->radix, source = (g->digit + g->radix - k) % g->radix;
        gcoll_plan_send(w->b, peer_at(w, g, to), gcoll_ref_add(from, part_begin(w, g, to)),
                        part_count(w, g, to));
        gcoll_plan_recv(w->b, peer_at(w, g, source), inbox_of(g, source, count), count);
    }
    gcoll_ref sum = g->digit == 0 ? gcoll_ref_add(from, own) : gcoll_scratch(0);
    for (uint32_t d = 1; d < g->radix; d++) {
        gcoll_ref next = d == g->digit ? gcoll_ref_add(from, own) : inbox_of(g, d, count);
        gcoll_ref to = d < g->digit ? gcoll_scratch(0) : gcoll_out(0, own);
        gcoll_plan_reduce(w->b, to, sum, next, count);
        sum = to;
    }
    gcoll_plan_round(w->b);
}

static void gather(const walk *w, const group *g) {
    for (uint32_t k = 1; k < g->radix; k++) {
        uint32_t to = (g->digit + k) % g->radix, source = (g->digit + g->radix - k) % g->radix;
        gcoll_plan_send(w->b, peer_at(w, g, to), gcoll_out(0, part_begin(w, g, g->digit)),
                        part_count(w, g, g->digit));
        gcoll_plan_recv(w->b, peer_at(w, g, source), gcoll_out(0, part_begin(w, g, source)),
                        part_count(w, g, source));
    }
    gcoll_plan_round(w->b);
}

static void bcube_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const gcoll_cube c = gcoll_cube_of(problem);
    const walk w = {b, &c, gcoll_fold_make(problem, c.places), problem->count};
    if (problem->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), w.n);
    gcoll_plan_window(
        b, 0); /* step by step: who runs ahead keeps its next group waiting, up to a third longer */
    gcoll_ref vector = gcoll_fold_begin(problem, &w.fold, b);
    if (!w.fold.out)
        gcoll_plan_scratch(b, gcoll_cube_inbox(&c, w.n));
    for (uint32_t step = 0; step < c.steps && !w.fold.out; step++) {
        group g = group_at(&c, w.fold.place, step);
        scatter(&w, &g, step == 0 ? vector : gcoll_out(0, 0));
    }
    for (uint32_t step = c.steps; step-- > 0 && !w.fold.out;) {
        group g = group_at(&c, w.fold.place, step);
        gather(&w, &g);
    }
    gcoll_fold_end(problem, &w.fold, b, 2 * c.steps);
}

const gcoll_algorithm gcoll_allreduce_bcube_algorithm = {
    .name = "bcube",
    .collective = GCOLL_ALLREDUCE,
    .summary = "halving and doubling in groups of `base`; 2 log_base P steps of base-1 messages at once",
    .source = "Gloo, docs/algorithms.md, allreduce_bcube",
    .options = gcoll_bcube_options,
    .plan = bcube_plan,
    .claims = gcoll_bcube_claims,
    .cost = gcoll_bcube_cost,
    .load = gcoll_bcube_load,
};
