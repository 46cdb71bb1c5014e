/* algorithms/halving.c - folding, recursive halving and doubling.
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
 * MPICH, Int. J. High Perform. Comput. Appl. 19 (2005), the section on allreduce. */
#include "algorithms/halving.h"

gcoll_party gcoll_fold(const gcoll_problem *problem, uint32_t places) {
    uint32_t rank = problem->rank, pairs = problem->size - places;
    bool paired = rank < 2 * pairs;
    return (gcoll_party){.size = places,
                         .place = paired ? rank / 2 : rank - pairs,
                         .pairs = pairs,
                         .shift = pairs,
                         .out = paired && rank % 2 == 0};
}

gcoll_ref gcoll_fold_begin(const gcoll_problem *problem, const gcoll_party *party, gcoll_builder *b) {
    gcoll_ref vector = gcoll_in(0, 0);
    if (party->pairs == 0)
        return vector;
    if (party->out) {
        gcoll_plan_send(b, problem->rank + 1, vector, problem->count);
    } else if (party->place < party->pairs) {
        gcoll_plan_recv_reduce_left(b, problem->rank - 1, gcoll_out(0, 0), vector, problem->count);
        vector = gcoll_out(0, 0);
    }
    gcoll_plan_round(b);
    return vector;
}

void gcoll_fold_end(const gcoll_problem *problem, const gcoll_party *party, gcoll_builder *b,
                    uint32_t rounds) {
    gcoll_plan_round_at_least(b, rounds + 1);
    if (party->out)
        gcoll_plan_recv(b, problem->rank + 1, gcoll_out(0, 0), problem->count);
    else if (party->place < party->pairs)
        gcoll_plan_send(b, problem->rank - 1, gcoll_out(0, 0), problem->count);
}

uint32_t gcoll_fold_claims(const gcoll_problem *problem) {
    uint32_t size = problem->size, lowest = size & (0 - size);
    uint32_t claims = GCOLL_CLAIM_RANK_IDENTICAL | GCOLL_CLAIM_ORDERED | gcoll_trivial_claims(problem);
    /* The lower half of the places stands for a full power of two of ranks, as pairing neighbours would have
     * it, if all of them are pairs, or none; the upper half is then folded likewise. So P is 2^a - 2^b. */
    if (gcoll_is_power_of_two(size + lowest))
        claims |= GCOLL_CLAIM_P_INDEPENDENT;
    return claims;
}

uint32_t gcoll_halved_piece(uint32_t size, uint32_t place, uint32_t steps) {
    uint32_t piece = 0;
    for (uint32_t i = 0; i < steps; i++)
        piece += (place >> i & 1) * (size >> (i + 1));
    return piece;
}

/* What stays and what goes in step i. */
typedef struct halves {
    uint32_t peer;
    bool upper; /* this place is the upper one of the two, and keeps the upper half */
    uint64_t keep, keep_count, give, give_count;
} halves;

static halves halves_at(const gcoll_party *party, uint64_t n, uint32_t i) {
    const uint32_t half = party->size >> (i + 1), begin = gcoll_halved_piece(party->size, party->place, i);
    const uint64_t low = gcoll_chunk_begin(n, party->size, begin),
                   middle = gcoll_chunk_begin(n, party->size, begin + half),
                   high = gcoll_chunk_begin(n, party->size, begin + 2 * half);
    uint32_t peer = gcoll_party_rank(party, party->place ^ (UINT32_C(1) << i));
    if (party->place >> i & 1)
        return (halves){peer, true, middle, high - middle, low, middle - low};
    return (halves){peer, false, low, middle - low, middle, high - middle};
}

void gcoll_halve(gcoll_builder *b, const gcoll_party *party, gcoll_ref from, uint64_t n) {
    for (uint32_t i = 0; i < gcoll_log2_ceil(party->size); i++) {
        halves h = halves_at(party, n, i);
        gcoll_plan_send(b, h.peer, gcoll_ref_add(from, h.give), h.give_count);
        if (h.upper)
            gcoll_plan_recv_reduce_left(b, h.peer, gcoll_out(0, h.keep), gcoll_ref_add(from, h.keep),
                                        h.keep_count);
        else
            gcoll_plan_recv_reduce(b, h.peer, gcoll_out(0, h.keep), gcoll_ref_add(from, h.keep),
                                   h.keep_count);
        gcoll_plan_round(b);
        from = gcoll_out(0, 0);
    }
}

void gcoll_double(gcoll_builder *b, const gcoll_party *party, uint64_t n) {
    for (uint32_t i = gcoll_log2_ceil(party->size); i-- > 0;) {
        halves h = halves_at(party, n, i);
        gcoll_plan_send(b, h.peer, gcoll_out(0, h.keep), h.keep_count);
        gcoll_plan_recv(b, h.peer, gcoll_out(0, h.give), h.give_count);
        gcoll_plan_round(b);
    }
}
