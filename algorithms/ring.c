/* algorithms/ring.c - segments travel round a ring: `ring`, `sorted_linear_tree` and `pre_reduced_ring`.
 *
 * The vector is cut into P segments. Segment j starts at position start[j] of the ring, is reduced into at
 * each of P-1 hops, is then complete, and travels P-1 hops more, overwriting. With start[j] = j every rank is
 * busy all the time (ring); with start[j] = 0 the segments follow one another down a chain (SLT); between
 * them stands the ring whose early ranks begin with what the late ones need not be there for (PRR). In SLT
 * and PRR ranks stand in the order in which they are expected to arrive.
 *
 * Source: P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, J.
 * Parallel Distrib. Comput. 69 (2009), section 3 (ring); J. Proficz, Improving all-reduce collective
 * operations for imbalanced process arrival patterns, J. Supercomput. 74 (2018), sections 4.1 (SLT) and 4.2
 * (PRR).
 *
 * Steps: ring and PRR 2(P-1); SLT 3(P-1). Elements sent by the busiest rank: ring 2(P-1)/P n; SLT, and
 * PRR at most, 2n. Reduced: ring (P-1)/P n; SLT, and PRR at most, n.
 *
 * Restrictions: none. When all arrive together PRR is the ring. */
#include <stdlib.h>

#include "algorithms/ring.h"

typedef struct walk {
    gcoll_builder *b;
    uint64_t n;
    uint32_t size, previous, following;
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
void gcoll_ring_walk(const gcoll_problem *problem, gcoll_builder *b, const gcoll_ring_seat *seats) {
    const uint32_t size = problem->size;
    uint32_t position = 0;
    while (seats[position].rank != problem->rank)
        position++;
    walk w = {b, problem->count, size, seats[(position + size - 1) % size].rank,
              seats[(position + 1) % size].rank};
    const uint32_t first = position + seats[position].lead;
    /* When the first segment gets here: each hop of it that began before this position costs a round. */
    const uint32_t delay = seats[0].lead - seats[position].lead;
    for (uint32_t round = 1; round < delay; round++)
        gcoll_plan_round(b);
    for (uint32_t visit = 0; visit < 2 * size; visit++) {
        uint32_t segment = (first + 2 * size - visit) % size;
        uint32_t hops = (position + size - seats[segment].start) % size + (visit < size ? 0 : size);
        bool due = hops <= 2 * size - 2; /* else it has ended its way before */
        if (due)
            take(&w, segment, hops);
        if (visit + delay > 0)
            gcoll_plan_round(b);
        if (due)
            pass_on(&w, segment, hops);
    }
}

static void plan_ring(const gcoll_problem *problem, gcoll_builder *b, gcoll_ring_order order) {
    if (problem->size == 1) {
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
        return;
    }
    gcoll_ring_seat *seats = gcoll_ring_seats(problem, order);
    if (seats == NULL)
        gcoll_plan_refuse(b, GCOLL_ERR_NO_MEMORY, "ring: out of memory for %u positions", problem->size);
    else
        gcoll_ring_walk(problem, b, seats);
    free(seats);
}

static void ring_plan(const gcoll_problem *problem, gcoll_builder *builder) {
    plan_ring(problem, builder, GCOLL_RING_BY_RANK);
}

static void slt_plan(const gcoll_problem *problem, gcoll_builder *builder) {
    plan_ring(problem, builder, GCOLL_RING_CHAIN);
}

static void prr_plan(const gcoll_problem *problem, gcoll_builder *builder) {
    plan_ring(problem, builder, GCOLL_RING_PRE_REDUCED);
}

/* Sums begin at several positions, so they are in no order that the ranks have. */
static uint32_t ring_claims(const gcoll_problem *problem) {
    return GCOLL_CLAIM_RANK_IDENTICAL | gcoll_trivial_claims(problem);
}

static uint32_t slt_claims(const gcoll_problem *problem) {
    for (uint32_t r = 1; problem->arrival_ns != NULL && r < problem->size; r++)
        if (problem->arrival_ns[r] < problem->arrival_ns[r - 1])
            return GCOLL_CLAIM_RANK_IDENTICAL | gcoll_trivial_claims(problem);
    return GCOLL_CLAIM_ALL; /* ranks arrive in their order: a left fold */
}

/* With ahead=1 it may become a chain, and this in rank order; by the formula of the paper it never is one. */
static uint32_t prr_claims(const gcoll_problem *problem) {
    if (problem->option[0] == 0 || problem->size == 1)
        return ring_claims(problem);
    gcoll_ring_seat *seats = gcoll_ring_seats(problem, GCOLL_RING_PRE_REDUCED);
    bool fold = seats != NULL && seats[0].lead == problem->size - 1;
    for (uint32_t i = 0; fold && i < problem->size; i++)
        fold = seats[i].rank == i;
    free(seats);
    return fold ? GCOLL_CLAIM_ALL : ring_claims(problem);
}

/* PRR too, as if all arrived together: waiting for the late is no rank's work. */
static void ring_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double hops = problem->size - 1, chunk = (double)problem->count / problem->size;
    *cost = (gcoll_cost){2 * hops, 2 * hops * chunk, hops * chunk, 0};
}

/* The last segment to leave has P-1 before it and 2(P-1) hops to go; what overlaps is neglected. */
static void slt_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double hops = problem->size - 1, chunk = (double)problem->count / problem->size;
    *cost = (gcoll_cost){3 * hops, 3 * hops * chunk, 2 * hops * chunk, 0};
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
    .summary = "P segments follow one another down a chain in order of arrival; 3(P-1) steps",
    .source = "Proficz 2018, section 4.1",
    .plan = slt_plan,
    .claims = slt_claims,
    .cost = slt_cost,
    .uses_arrival = true,
};

static const gcoll_option prr_options[] = {
    {"ahead", "segments by which early ranks lead beyond what the paper grants, if somebody is late", 0, 0, 1,
     NULL, false},
    {NULL, NULL, 0, 0, 0, NULL, false}};

const gcoll_algorithm gcoll_allreduce_pre_reduced_ring_algorithm = {
    .name = "pre_reduced_ring",
    .collective = GCOLL_ALLREDUCE,
    .summary = "ring in order of arrival, whose early ranks begin without the late ones",
    .source = "Proficz 2018, section 4.2",
    .options = prr_options,
    .plan = prr_plan,
    .claims = prr_claims,
    .cost = ring_cost,
    .uses_arrival = true,
};
