/* algorithms/allreduce/allreduce_ring.c - allreduce: segments travel round a ring; `ring`, `tour_ring`,
 * `sorted_linear_tree` and `pre_reduced_ring`.
 *
 * The vector is cut into P segments. Segment j starts at position start[j] of the ring, is added to at each
 * of P-1 hops, and then travels P-1 hops more as the result. The algorithms differ in start[j] and in the
 * order of ranks. ring: start[j] = j, so every rank is busy all the time. tour_ring: the same along the
 * problem's tour, which was searched on a measured network. sorted_linear_tree (SLT):
 * start[j] = 0, so the segments follow one another down a chain. pre_reduced_ring (PRR): between both; the
 * early ranks begin with segments that do not need the late ranks yet. SLT and PRR sort the ranks by their
 * expected arrival.
 *
 * Source: P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, J.
 * Parallel Distrib. Comput. 69 (2009), section 3 (ring); J. Proficz, Improving all-reduce collective
 * operations for imbalanced process arrival patterns, J. Supercomput. 74 (2018), sections 4.1 (SLT) and 4.2
 * (PRR).
 *
 * Steps: ring, tour_ring and PRR 2(P-1); SLT 3(P-1). Elements sent by the busiest rank: rings 2(P-1)/P n;
 * SLT, and PRR at most, 2n. Reduced: rings (P-1)/P n; SLT, and PRR at most, n.
 *
 * Restrictions: none. When all arrive together PRR is the ring. */
#include <stdlib.h>

#include "algorithms/allreduce/allreduce_ring.h"
#include "algorithms/shared/hosts.h"

/* ---- Seats --------------------------------------------------------------------------------------- */

static int by_arrival(const void *left, const void *right) {
    const gcoll_ring_seat *a = left, *b = right;
    if (a->arrival_ns != b->arrival_ns)
        return a->arrival_ns < b->arrival_ns ? -1 : 1;
    return a->rank < b->rank ? -1 : 1;
}

/* Lists the ranks, along the tour or sorted by arrival if the order is such and if these are known; leads are
 * not set. NULL: out of memory. */
static gcoll_ring_seat *make_seats(const gcoll_problem *problem, gcoll_ring_order order) {
    const bool sorted = order == GCOLL_RING_CHAIN || order == GCOLL_RING_PRE_REDUCED;
    const uint32_t *tour = order == GCOLL_RING_TOUR ? problem->tour : NULL;
    gcoll_ring_seat *seats = calloc(problem->size, sizeof *seats);
    for (uint32_t i = 0; seats && i < problem->size; i++) {
        seats[i].rank = gcoll_tour_at(tour, i);
        seats[i].arrival_ns = sorted && problem->arrival_ns ? problem->arrival_ns[i] : 0;
    }
    if (seats && sorted && problem->arrival_ns)
        qsort(seats, problem->size, sizeof *seats, by_arrival);
    return seats;
}

/* In a chain all segments start at the first position. */
static void lead_all(gcoll_ring_seat *seats, uint32_t size) {
    for (uint32_t i = 0; i < size; i++)
        seats[i].lead = size - 1 - i;
}

/* Each position leads by as many segments as there is time for before the last rank arrives; and, if that
 * rank is late at all, by `ahead` more. The last rank then starts no segment of its own, which would travel
 * round twice after its arrival. */
static void lead_by_arrival(gcoll_ring_seat *seats, uint32_t size, int64_t segment_ns, uint64_t ahead) {
    const uint64_t tau =
        segment_ns > 0 ? (uint64_t)segment_ns : 1; /* at least 1, as times are divided by it */
    if (((uint64_t)seats[size - 1].arrival_ns - (uint64_t)seats[0].arrival_ns) / tau == 0)
        ahead = 0;
    for (uint32_t i = size - 1; i-- > 0;) {
        uint64_t wait_ns = (uint64_t)seats[size - 1].arrival_ns - (uint64_t)seats[i + 1].arrival_ns;
        seats[i].lead = seats[i + 1].lead + (wait_ns / tau >= seats[i + 1].lead + 1 - ahead ? 1 : 0);
    }
}

void gcoll_ring_find_starts(gcoll_ring_seat *seats, uint32_t size) {
    for (uint32_t segment = 0, i = 0; segment < size; segment++) {
        while (i + seats[i].lead < segment)
            i++;
        seats[segment].start = i;
    }
}

gcoll_ring_seat *gcoll_ring_seats(const gcoll_problem *problem, gcoll_ring_order order) {
    gcoll_ring_seat *seats = make_seats(problem, order);
    if (!seats)
        return NULL;
    if (order == GCOLL_RING_CHAIN)
        lead_all(seats, problem->size);
    if (order == GCOLL_RING_PRE_REDUCED)
        lead_by_arrival(seats, problem->size, problem->segment_ns, (uint64_t)problem->option[0]);
    gcoll_ring_find_starts(seats, problem->size);
    return seats;
}

/* ---- Walk ---------------------------------------------------------------------------------------- */

typedef struct walk {
    const gcoll_problem *problem;
    gcoll_builder *b;
    uint32_t size, previous, following;
} walk;

/* Receives segment `s`, which has made `hops` hops when it arrives here. */
static void take(const walk *w, uint32_t s, uint32_t hops) {
    uint64_t begin = gcoll_part_begin(w->problem, w->size, s),
             count = gcoll_part_count(w->problem, w->size, s);
    if (hops >= w->size)
        gcoll_plan_recv(w->b, w->previous, gcoll_out(0, begin), count);
    else if (hops > 0) /* the received sum is of the ranks before this one */
        gcoll_plan_recv_reduce_left(w->b, w->previous, gcoll_out(0, begin), gcoll_in(0, begin), count);
}

/* Sends segment `s` on, unless it has visited all ranks. */
static void pass_on(const walk *w, uint32_t s, uint32_t hops) {
    uint64_t begin = gcoll_part_begin(w->problem, w->size, s),
             count = gcoll_part_count(w->problem, w->size, s);
    if (hops < 2 * w->size - 2)
        gcoll_plan_send(w->b, w->following, hops == 0 ? gcoll_in(0, begin) : gcoll_out(0, begin), count);
}

/* Each position handles the segments in decreasing order modulo P, twice, beginning with the last one that
 * starts here or before; so both ends of a link have the same order of messages. A segment is sent in one
 * round and received by the same round, so that a round has one message a link. */
void gcoll_ring_walk(const gcoll_problem *problem, gcoll_builder *b, const gcoll_ring_seat *seats) {
    const uint32_t size = problem->size;
    uint32_t position = 0;
    while (seats[position].rank != problem->rank)
        position++;
    walk w = {problem, b, size, seats[(position + size - 1) % size].rank, seats[(position + 1) % size].rank};
    const uint32_t first = position + seats[position].lead;
    /* The round in which the first segment arrives here: each of its hops before this position takes one. */
    const uint32_t delay = seats[0].lead - seats[position].lead;
    for (uint32_t round = 1; round < delay; round++)
        gcoll_plan_round(b);
    for (uint32_t visit = 0; visit < 2 * size; visit++) {
        uint32_t segment = (first + 2 * size - visit) % size;
        uint32_t hops = (position + size - seats[segment].start) % size + (visit < size ? 0 : size);
        bool due = hops <= 2 * size - 2; /* a segment with more hops has ended before this rank */
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
    if (!seats)
        gcoll_plan_refuse(b, GCOLL_ERR_NO_MEMORY, "ring: out of memory for %u positions", problem->size);
    else
        gcoll_ring_walk(problem, b, seats);
    free(seats);
}

static void ring_plan(const gcoll_problem *problem, gcoll_builder *builder) {
    plan_ring(problem, builder, GCOLL_RING_BY_RANK);
}

static void tour_plan(const gcoll_problem *problem, gcoll_builder *builder) {
    plan_ring(problem, builder, GCOLL_RING_TOUR);
}

static void slt_plan(const gcoll_problem *problem, gcoll_builder *builder) {
    plan_ring(problem, builder, GCOLL_RING_CHAIN);
}

static void prr_plan(const gcoll_problem *problem, gcoll_builder *builder) {
    plan_ring(problem, builder, GCOLL_RING_PRE_REDUCED);
}

/* Sums begin at several positions, so they do not keep rank order. */
static uint32_t ring_claims(const gcoll_problem *problem) {
    return GCOLL_CLAIM_RANK_IDENTICAL | gcoll_trivial_claims(problem);
}

static uint32_t slt_claims(const gcoll_problem *problem) {
    for (uint32_t r = 1; problem->arrival_ns && r < problem->size; r++)
        if (problem->arrival_ns[r] < problem->arrival_ns[r - 1])
            return GCOLL_CLAIM_RANK_IDENTICAL | gcoll_trivial_claims(problem);
    return gcoll_left_claims(problem); /* ranks arrive in their order */
}

/* With ahead=1 the ring may become a chain in rank order; by the paper's formula it never does. */
static uint32_t prr_claims(const gcoll_problem *problem) {
    if (problem->option[0] == 0 || problem->size == 1)
        return ring_claims(problem);
    gcoll_ring_seat *seats = gcoll_ring_seats(problem, GCOLL_RING_PRE_REDUCED);
    bool fold = seats && seats[0].lead == problem->size - 1;
    for (uint32_t i = 0; fold && i < problem->size; i++)
        fold = seats[i].rank == i;
    free(seats);
    return fold ? gcoll_left_claims(problem) : ring_claims(problem);
}

/* For PRR as well, as if all ranks arrived together: waiting for late ranks is no work. */
static void ring_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double hops = problem->size - 1, chunk = (double)problem->count / problem->size;
    *cost = (gcoll_cost){2 * hops, 2 * hops * chunk, hops * chunk, 0};
}

/* The last segment to leave waits for P-1 others and has 2(P-1) hops to make. Neglected: the overlap of both.
 */
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
    .load = gcoll_ring_load,
    .takes_codec = true,
};

const gcoll_algorithm gcoll_allreduce_tour_ring_algorithm = {
    .name = "tour_ring",
    .collective = GCOLL_ALLREDUCE,
    .summary = "ring along a tour of the ranks that was searched on a measured network",
    .source = "Patarasuk and Yuan 2009, section 3; the tour: docs/network.md",
    .plan = tour_plan,
    .claims = ring_claims,
    .cost = ring_cost,
    .load = gcoll_tour_load,
    .uses_tour = true,
    .takes_codec = true,
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
    .takes_codec = true,
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
    .load = gcoll_ring_load,
    .uses_arrival = true,
    .takes_codec = true,
};
