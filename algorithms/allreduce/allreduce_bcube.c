/* algorithms/allreduce/allreduce_bcube.c - allreduce by halving and doubling in groups of up to `base` ranks.
 *
 * With base = 2 it is recursive halving and doubling. Ranks are numbered in mixed radix. In step i of the
 * reduce-scatter, ranks that differ only in digit i form a group. The group cuts its block of the vector into
 * one part for each rank. Each rank receives its own part from all others of the group at once, and sends
 * them theirs. The allgather takes the steps backwards.
 *
 * Radices are the largest divisors of P up to `base`, one after the other: all are `base` if P is a power
 * of it. If P has a prime factor beyond `base`, only the largest d base^k <= P ranks, d < base, take part.
 * The others are surplus (shared/surplus.h).
 *
 * Source: Gloo, docs/algorithms.md, allreduce_bcube; it counts 2 sum of n/base^i elements, i < log_base P,
 * the vector that a step begins with, of which (base-1)/base are sent.
 *
 * Steps: 2 log_base P with base-1 messages each, 2 more with surplus ranks. With Q ranks taking part:
 * elements sent 2(Q-1)/Q n, 2n more with surplus ranks; reduced (Q-1)/Q n, n more with surplus ranks.
 *
 * Restrictions: none. Scratch: (g-1)/g n elements, g the first radix, for what comes in at once. */
#include "algorithms/allreduce/allreduce_bcube.h"

#include "algorithms/shared/load.h"
#include "algorithms/shared/surplus.h"

/* ---- Shape --------------------------------------------------------------------------------------- */

#define MAX_STEPS 20 /* log2 of GCOLL_MAX_RANKS */

/* The number of ranks that take part, and the sizes of their groups in each step. */
typedef struct cube {
    uint32_t places, steps, radix[MAX_STEPS]; /* radices never grow */
} cube;

#define MAX_BASE 256

const gcoll_option gcoll_bcube_options[] = {
    {"base", "the most ranks in a group: each has base-1 peers a step", 2, 2, MAX_BASE, NULL, false},
    {NULL, NULL, 0, 0, 0, NULL, false}};

static uint32_t largest_divisor(uint32_t number, uint32_t limit) {
    uint32_t divisor = number < limit ? number : limit;
    while (number % divisor != 0)
        divisor--;
    return divisor;
}

static cube cube_of(const gcoll_problem *problem) {
    const uint32_t base = (uint32_t)problem->option[0];
    cube c = {.places = 1};
    while (c.places < problem->size) {
        uint32_t radix = largest_divisor(problem->size / c.places, base);
        if (radix == 1)
            break;
        c.radix[c.steps++] = radix;
        c.places *= radix;
    }
    if (c.places == problem->size)
        return c;
    c = (cube){.places = 1};
    while (c.places <= problem->size / 2) {
        uint32_t fit = problem->size / c.places, radix = fit < base ? fit : base;
        c.radix[c.steps++] = radix;
        c.places *= radix;
    }
    return c;
}

static uint64_t inbox_count(const cube *c, uint64_t n) {
    return c->steps == 0 ? 0 : (c->radix[0] - 1) * (n / c->radix[0] + (n % c->radix[0] != 0));
}

/* ---- Plan ---------------------------------------------------------------------------------------- */

/* The part of the vector that a place works on before a step, in pieces of 1/places, and the place's group.
 */
typedef struct group {
    uint32_t radix, digit, stride; /* the place of digit d is place + (d - digit) * stride */
    uint32_t begin, part;          /* part d: pieces [begin + d * part, begin + (d+1) * part) */
} group;

static group group_at(const cube *c, uint32_t place, uint32_t step) {
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
    const cube *c;
    gcoll_surplus surplus;
    uint64_t n;
} walk;

static uint32_t peer_at(const walk *w, const group *g, uint32_t digit) {
    return gcoll_surplus_rank(&w->surplus, w->surplus.place - g->digit * g->stride + digit * g->stride);
}

static uint64_t part_begin(const walk *w, const group *g, uint32_t digit) {
    return gcoll_chunk_begin(w->n, w->c->places, g->begin + digit * g->part);
}

static uint64_t part_count(const walk *w, const group *g, uint32_t digit) {
    return part_begin(w, g, digit + 1) - part_begin(w, g, digit);
}

/* The place in scratch for the part of another member of the group: in the order of digits. */
static gcoll_ref inbox_of(const group *g, uint32_t digit, uint64_t count) {
    return gcoll_scratch((digit < g->digit ? digit : digit - 1) * count);
}

/* Members send in an order in which no two of them send to the same one at once. Sums are added up in the
 * order of digits, hence of ranks; only the last sum may overwrite the own part. */
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
    const cube c = cube_of(problem);
    const walk w = {b, &c, gcoll_surplus_of(problem, c.places), problem->count};
    if (problem->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), w.n);
    gcoll_plan_window(b,
                      0); /* strict rounds: a rank that runs ahead delays its next group, by up to a third */
    gcoll_ref vector = gcoll_surplus_join(problem, &w.surplus, b);
    if (!w.surplus.is_surplus)
        gcoll_plan_scratch(b, inbox_count(&c, w.n));
    for (uint32_t step = 0; step < c.steps && !w.surplus.is_surplus; step++) {
        group g = group_at(&c, w.surplus.place, step);
        scatter(&w, &g, step == 0 ? vector : gcoll_out(0, 0));
    }
    for (uint32_t step = c.steps; step-- > 0 && !w.surplus.is_surplus;) {
        group g = group_at(&c, w.surplus.place, step);
        gather(&w, &g);
    }
    gcoll_surplus_return(problem, &w.surplus, b, 2 * c.steps);
}

/* ---- Claims and cost ----------------------------------------------------------------------------- */

/* Groups of two add up like any halving with surplus ranks. With larger groups, a single step is a left
 * fold; several steps are neither a left fold nor pairs of neighbours. */
static uint32_t bcube_claims(const gcoll_problem *problem) {
    const cube c = cube_of(problem);
    const uint32_t surplus_ranks = problem->size - c.places;
    uint32_t claims = gcoll_surplus_claims(problem);
    if (c.steps == 0 || c.radix[0] == 2)
        return claims;
    claims &= ~(GCOLL_CLAIM_PAIRS | GCOLL_CLAIM_LEFT);
    if (c.steps == 1 && surplus_ranks <= 1)
        claims |= gcoll_claimed_trees(problem, GCOLL_CLAIM_LEFT);
    else if (c.places == 3 && surplus_ranks == 2) /* ((0+1)+(2+3))+4 */
        claims |= GCOLL_CLAIM_PAIRS;
    return claims;
}

static void bcube_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const cube c = cube_of(problem);
    const double n = (double)problem->count, joins = c.places == problem->size ? 0 : 1,
                 parts = n - n / c.places;
    /* One port sends the messages of a step one after the other. Neglected: with groups of five and more, or
     * with surplus ranks, their order may leave ports idle. */
    double messages = joins;
    for (uint32_t i = 0; i < c.steps; i++)
        messages += c.radix[i] - 1;
    *cost = (gcoll_cost){2 * messages, 2 * (parts + joins * n), parts + joins * n,
                         (double)inbox_count(&c, problem->count)};
}

static void bcube_load(const gcoll_problem *problem, gcoll_load *load) {
    const cube c = cube_of(problem);
    const double n = (double)problem->count, parts = n - n / c.places;
    double messages = 0;
    for (uint32_t i = 0; i < c.steps; i++)
        messages += c.radix[i] - 1;
    *load = gcoll_load_with_surplus(
        problem, c.places,
        (gcoll_load){.hops = 2.0 * c.steps, .messages = 2 * messages, .sent = 2 * parts, .reduced = parts});
}

const gcoll_algorithm gcoll_allreduce_bcube_algorithm = {
    .name = "bcube",
    .collective = GCOLL_ALLREDUCE,
    .summary = "halving and doubling in groups of `base`; 2 log_base P steps of base-1 messages at once",
    .source = "Gloo, docs/algorithms.md, allreduce_bcube",
    .options = gcoll_bcube_options,
    .plan = bcube_plan,
    .claims = bcube_claims,
    .cost = bcube_cost,
    .load = bcube_load,
};
