/* algorithms/group_butterfly.c - the butterfly for any number of ranks, with fewer steps for more bytes.
 *
 * Chunk (j-k) mod P of rank j sits "at placement k". Step i folds the N placements in use onto ceil(N/2): the
 * upper ones go h = floor(N/2) ranks down, each to the placement h lower, until `results` placements are
 * complete; the steps are then taken back to spread them. With results = 1 (r = 0) no byte is sent in vain;
 * with results = P (r = L) nothing is left to spread.
 *
 * Source: D. Kolmakov and X. Zhang, A generalization of the allreduce operation, arXiv:2004.09362, sections 7
 * to 9, with the cyclic group.
 *
 * Steps: 2L - r, L = ceil(log2 P).
 *
 * Chunks (of n/P elements) sent: 2(P-1) for r = 0, PL for r = L, never more than 2(P-1) + (2^r - 1)(L-1).
 * Chunks reduced: P-1 for r = 0, never more than P-1 + (2^r - 1)(2L-2) for L > 1.
 *
 * Restrictions: none. Scratch for r > 0: n elements, 2n if P is no power of two. */
#include "algorithms/group_butterfly.h"

typedef gcoll_group_pattern pattern;

/* The elements at `number` consecutive placements: chunks counting down modulo P, so two ranges at most. */
typedef struct ranges {
    uint64_t begin[2], count[2];
} ranges;

static ranges at_placements(const pattern *p, uint32_t first, uint32_t number) {
    uint32_t low = (uint32_t)((2 * (uint64_t)p->size + p->rank + 1 - first - number) % p->size);
    uint32_t upper = gcoll_group_min(number, p->size - low);
    if (number == p->size)
        return (ranges){{0, 0}, {p->n, 0}};
    uint64_t begin = gcoll_chunk_begin(p->n, p->size, low);
    return (ranges){{begin, 0},
                    {gcoll_chunk_begin(p->n, p->size, low + upper) - begin,
                     gcoll_chunk_begin(p->n, p->size, number - upper)}};
}

static void send(const pattern *p, uint32_t peer, gcoll_ref from, uint32_t first, uint32_t number) {
    ranges at = at_placements(p, first, number);
    for (int i = 0; i < 2; i++)
        gcoll_plan_send(p->b, peer, gcoll_ref_add(from, at.begin[i]), at.count[i]);
}

static void receive(const pattern *p, uint32_t peer, gcoll_ref to, uint32_t first, uint32_t number) {
    ranges at = at_placements(p, first, number);
    for (int i = 0; i < 2; i++)
        gcoll_plan_recv(p->b, peer, gcoll_ref_add(to, at.begin[i]), at.count[i]);
}

static void receive_reduce(const pattern *p, uint32_t peer, gcoll_ref to, gcoll_ref a, uint32_t first,
                           uint32_t number) {
    ranges at = at_placements(p, first, number);
    for (int i = 0; i < 2; i++)
        gcoll_plan_recv_reduce(p->b, peer, gcoll_ref_add(to, at.begin[i]), gcoll_ref_add(a, at.begin[i]),
                               at.count[i]);
}

static void reduce(const pattern *p, gcoll_ref to, gcoll_ref a, gcoll_ref x, uint32_t first,
                   uint32_t number) {
    ranges at = at_placements(p, first, number);
    for (int i = 0; i < 2; i++)
        gcoll_plan_reduce(p->b, gcoll_ref_add(to, at.begin[i]), gcoll_ref_add(a, at.begin[i]),
                          gcoll_ref_add(x, at.begin[i]), at.count[i]);
}

/* One result: what is kept and what is sent never share a placement, so everything adds up in OUT. */
static void fold_to_one(const pattern *p, uint32_t i) {
    uint32_t half = p->placements[i] / 2, odd = p->placements[i] % 2;
    uint32_t down = (p->rank + p->size - half) % p->size, up = (p->rank + half) % p->size;
    gcoll_ref partial = i == 0 ? gcoll_in(0, 0) : gcoll_out(0, 0);
    if (i == 0 && odd) { /* placement 0 sits this step out; in the next its chunk is one of several in OUT */
        ranges own = at_placements(p, 0, 1);
        gcoll_plan_copy(p->b, gcoll_out(0, own.begin[0]), gcoll_in(0, own.begin[0]), own.count[0]);
    }
    send(p, down, partial, half + odd, half);
    receive_reduce(p, up, gcoll_out(0, 0), partial, odd, half);
}

/* Several results: the first `results` placements hold a sum to be finished there and one to be sent on. They
 * part at the first odd N, where the former sits out; the latter then moves to `apart`. What comes in
 * overlaps what goes out, so it waits in `inbox`: reduced straight into place, both sides would wait for the
 * other's send to end. */
typedef struct sums {
    gcoll_ref passing, kept, apart, inbox;
    bool parted;
} sums;

static void fold_to_several(const pattern *p, uint32_t i, sums *s) {
    uint32_t half = p->placements[i] / 2, odd = p->placements[i] % 2;
    uint32_t down = (p->rank + p->size - half) % p->size, up = (p->rank + half) % p->size;
    uint32_t number = gcoll_group_sent(p, i);
    send(p, down, s->passing, half + odd, number);
    if (odd && !s->parted) {
        receive_reduce(p, up, s->apart, s->passing, 1, number);
        s->passing = s->apart;
        s->parted = true;
        return;
    }
    receive(p, up, s->inbox, odd, number);
    if (!odd) {
        reduce(p, gcoll_out(0, 0), s->kept, s->inbox, 0, s->parted ? p->results : number);
        s->kept = gcoll_out(0, 0);
    }
    if (s->parted)
        reduce(p, s->apart, s->apart, s->inbox, 1, gcoll_group_passing(p, i));
    else
        s->passing = s->kept;
}

/* Step i backwards: the lower placements, complete, go to the upper ones. */
static void spread(const pattern *p, uint32_t i) {
    uint32_t half = p->placements[i] / 2, odd = p->placements[i] % 2;
    send(p, (p->rank + half) % p->size, gcoll_out(0, 0), odd, half);
    receive(p, (p->rank + p->size - half) % p->size, gcoll_out(0, 0), half + odd, half);
}

static void plan_butterfly(const gcoll_problem *problem, gcoll_builder *b) {
    pattern p = gcoll_group_pattern_make(problem, b);
    if (p.size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), p.n);
    sums s = {.passing = gcoll_in(0, 0), .kept = gcoll_in(0, 0)};
    if (p.results > 1)
        s.inbox = gcoll_plan_scratch(b, p.n);
    if (p.results > 1 && (p.size & (p.size - 1)) != 0)
        s.apart = gcoll_plan_scratch(b, p.n);
    for (uint32_t i = 0; i < p.steps; i++) {
        if (p.results == 1)
            fold_to_one(&p, i);
        else
            fold_to_several(&p, i, &s);
        gcoll_plan_round(b);
    }
    for (uint32_t i = p.steps - p.r; i-- > 0;) {
        spread(&p, i);
        gcoll_plan_round(b);
    }
}
const gcoll_algorithm gcoll_allreduce_group_butterfly_algorithm = {
    .name = "group_butterfly",
    .collective = GCOLL_ALLREDUCE,
    .summary = "butterfly for any P; 2L-r steps, L = ceil(log2 P), from fewest bytes to fewest steps",
    .source = "Kolmakov and Zhang 2020, arXiv:2004.09362, sections 7 to 9",
    .options = gcoll_group_butterfly_options,
    .plan = plan_butterfly,
    .claims = gcoll_group_butterfly_claims,
    .cost = gcoll_group_butterfly_cost,
};
