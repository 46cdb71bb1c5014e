/* algorithms/ring.c - segments travel round a ring of ranks: `ring` and `sorted_linear_tree`.
 *
 * The vector is cut into P segments. Segment j starts at position start[j] of the ring, is reduced into at
 * each of P-1 hops, is then complete, and travels P-1 hops more, overwriting. With start[j] = j every rank is
 * busy all the time (ring); with start[j] = 0 the segments follow one another down a chain, in rank order
 * (SLT).
 *
 * Source: P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, J.
 * Parallel Distrib. Comput. 69 (2009), section 3 (ring); J. Proficz, Improving all-reduce collective
 * operations for imbalanced process arrival patterns, J. Supercomput. 74 (2018), section 4.1 (SLT).
 *
 * Steps: ring 2(P-1); SLT 3(P-1).
 *
 * Elements sent by the busiest rank: ring 2(P-1)/P n; SLT 2n for P > 2. Reduced: ring (P-1)/P n; SLT n.
 *
 * Restrictions: none. */
#include "algorithms/planners.h"

typedef uint32_t (*start_fn)(uint32_t segment); /* never falls, start(j) <= j */

static uint32_t start_at_own(uint32_t segment) {
    return segment;
}

static uint32_t start_at_zero(uint32_t segment) {
    (void)segment;
    return 0;
}

typedef struct walk {
    gcoll_builder *b;
    uint64_t n;
    uint32_t size, position, previous, following;
} walk;

/* Segment `s` has made `hops` hops when it reaches this position: it comes in. */
static void take(const walk *w, uint32_t s, uint32_t hops) {
    uint64_t begin = gcoll_chunk_begin(w->n, w->size, s), count = gcoll_chunk_count(w->n, w->size, s);
    if (hops >= w->size)
        gcoll_plan_recv(w->b, w->previous, gcoll_out(0, begin), count);
    else if (hops > 0) /* what comes in is of the ranks before this one */
        gcoll_plan_recv_reduce_left(w->b, w->previous, gcoll_out(0, begin), gcoll_in(0, begin), count);
}

/* And it goes on, unless it has been everywhere. */
static void pass_on(const walk *w, uint32_t s, uint32_t hops) {
    uint64_t begin = gcoll_chunk_begin(w->n, w->size, s), count = gcoll_chunk_count(w->n, w->size, s);
    if (hops < 2 * w->size - 2)
        gcoll_plan_send(w->b, w->following, hops == 0 ? gcoll_in(0, begin) : gcoll_out(0, begin), count);
}

/* Each position handles the segments counting down modulo P, twice, from the last one that starts here or
 * before; on each link this is one order of messages for both ends. A segment is sent in one round and comes
 * in by the same round, so that a round holds one message a link. */
static void plan_walk(const gcoll_problem *problem, gcoll_builder *b, start_fn start) {
    const uint32_t size = problem->size, position = problem->rank;
    if (size == 1) {
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
        return;
    }
    walk w = {b, problem->count, size, position, (position + size - 1) % size, (position + 1) % size};
    uint32_t first = size - 1, first_of_all = size - 1;
    while (start(first) > position)
        first--;
    while (start(first_of_all) > 0)
        first_of_all--;
    /* When the first segment gets here: each hop of it that began before this position costs a round. */
    uint32_t delay = position - (first - first_of_all);
    for (uint32_t round = 1; round < delay; round++)
        gcoll_plan_round(b);
    for (uint32_t visit = 0; visit < 2 * size; visit++) {
        uint32_t segment = (first + 2 * size - visit) % size;
        uint32_t hops = (position + size - start(segment)) % size + (visit < size ? 0 : size);
        bool due = hops <= 2 * size - 2; /* else it has ended its way before */
        if (due)
            take(&w, segment, hops);
        if (visit + delay > 0)
            gcoll_plan_round(b);
        if (due)
            pass_on(&w, segment, hops);
    }
}

static void ring_plan(const gcoll_problem *problem, gcoll_builder *builder) {
    plan_walk(problem, builder, start_at_own);
}

static void slt_plan(const gcoll_problem *problem, gcoll_builder *builder) {
    plan_walk(problem, builder, start_at_zero);
}

static uint32_t ring_claims(const gcoll_problem *problem) {
    /* Each sum begins at its segment's own position, so it is in no order that the ranks have. */
    return GCOLL_CLAIM_RANK_IDENTICAL | gcoll_trivial_claims(problem);
}

static uint32_t slt_claims(const gcoll_problem *problem) {
    (void)problem; /* a left fold */
    return GCOLL_CLAIM_ALL;
}

static void ring_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double hops = problem->size - 1, chunk = (double)problem->count / problem->size;
    *cost = (gcoll_cost){2 * hops, 2 * hops * chunk, hops * chunk, 0};
}

static void slt_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double n = (double)problem->count, busiest = problem->size > 2 ? 2 : 1;
    *cost =
        problem->size == 1 ? (gcoll_cost){0, 0, 0, 0} : (gcoll_cost){3.0 * (problem->size - 1), busiest * n, n, 0};
}

const gcoll_algorithm gcoll_allreduce_ring_algorithm = {
    .name = "ring",
    .collective = GCOLL_ALLREDUCE,
    .summary = "P segments travel round a ring; fewest bytes, 2(P-1) steps",
    .source = "Patarasuk and Yuan 2009, section 3",
    .plan = ring_plan,
    .claims = ring_claims,
    .cost = ring_cost,
};

const gcoll_algorithm gcoll_allreduce_sorted_linear_tree_algorithm = {
    .name = "sorted_linear_tree",
    .collective = GCOLL_ALLREDUCE,
    .summary = "P segments follow one another down a chain in rank order; 3(P-1) steps",
    .source = "Proficz 2018, section 4.1",
    .plan = slt_plan,
    .claims = slt_claims,
    .cost = slt_cost,
};
