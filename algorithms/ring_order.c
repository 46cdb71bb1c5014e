/* algorithms/ring_order.c - who sits where on the ring, and which segment starts where: all in which the
 * ring, the sorted linear tree and the pre-reduced ring differ.
 *
 * Source: J. Proficz, Improving all-reduce collective operations for imbalanced process arrival patterns, J.
 * Supercomput. 74 (2018), figures 5 and 7. */
#include <stdlib.h>

#include "algorithms/ring.h"

static int by_arrival(const void *left, const void *right) {
    const gcoll_ring_seat *a = left, *b = right;
    if (a->arrival_ns != b->arrival_ns)
        return a->arrival_ns < b->arrival_ns ? -1 : 1;
    return a->rank < b->rank ? -1 : 1;
}

/* Ranks in the order of their arrival, if that is asked for and known; no leads yet. NULL: out of memory. */
static gcoll_ring_seat *make_seats(const gcoll_problem *problem, bool sorted) {
    gcoll_ring_seat *seats = calloc(problem->size, sizeof *seats);
    for (uint32_t i = 0; seats != NULL && i < problem->size; i++) {
        seats[i].rank = i;
        seats[i].arrival_ns = sorted && problem->arrival_ns != NULL ? problem->arrival_ns[i] : 0;
    }
    if (seats != NULL && sorted && problem->arrival_ns != NULL)
        qsort(seats, problem->size, sizeof *seats, by_arrival);
    return seats;
}

/* In the chain the first position sends all. */
static void lead_all(gcoll_ring_seat *seats, uint32_t size) {
    for (uint32_t i = 0; i < size; i++)
        seats[i].lead = size - 1 - i;
}

/* As many segments ahead as there is time for before the last rank comes; and, where it is late at all,
 * `ahead` more: the last rank then starts no segment of its own, which would take it twice round from its
 * arrival. */
static void lead_by_arrival(gcoll_ring_seat *seats, uint32_t size, int64_t segment_ns, uint64_t ahead) {
    const uint64_t tau = segment_ns > 0 ? (uint64_t)segment_ns : 1; /* else the ring would not be one */
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
    gcoll_ring_seat *seats = make_seats(problem, order != GCOLL_RING_BY_RANK);
    if (seats == NULL)
        return NULL;
    if (order == GCOLL_RING_CHAIN)
        lead_all(seats, problem->size);
    if (order == GCOLL_RING_PRE_REDUCED)
        lead_by_arrival(seats, problem->size, problem->segment_ns, (uint64_t)problem->option[0]);
    gcoll_ring_find_starts(seats, problem->size);
    return seats;
}
