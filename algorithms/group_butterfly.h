/* algorithms/group_butterfly.h - the factors that the group butterfly walks, for its planner and its cost. */
#ifndef GCOLL_GROUP_BUTTERFLY_H
#define GCOLL_GROUP_BUTTERFLY_H

#include "algorithms/planners.h"

#define GCOLL_GROUP_MAX_STEPS 20 /* log2 of GCOLL_MAX_RANKS; hence also the most factors */

/* Elements of the vector: chunks that count up and may go round the end, so two runs at most. */
typedef struct gcoll_group_runs {
    uint64_t begin[2], count[2];
} gcoll_group_runs;

/* Where element e of a vector is, or of a part of it that is kept in scratch: ref + (e - origin), and what
 * lies before the origin comes last. */
typedef struct gcoll_group_place {
    gcoll_ref ref;
    uint64_t origin, cycle;
} gcoll_group_place;

/* A cyclic group Z_size among the ranks that differ in one digit, and the butterfly over its members. */
typedef struct gcoll_group_factor {
    uint32_t size;
    uint32_t member, before; /* this rank is first + member * stride; before is first */
    uint32_t stride;
    uint32_t steps, r;
    uint32_t results;       /* finished placements that the reduction ends with */
    uint32_t first, part;   /* the chunks that its members share: part p is first + p * part and on */
    uint32_t chunks;        /* all of them */
    gcoll_group_runs whole; /* the same as elements */
} gcoll_group_factor;

typedef struct gcoll_group_walk {
    uint64_t n;
    uint32_t size;
    uint32_t factors, steps, r;
    gcoll_group_factor factor[GCOLL_GROUP_MAX_STEPS];
} gcoll_group_walk;

extern const gcoll_option gcoll_group_butterfly_options[];
gcoll_status gcoll_group_butterfly_applies(const gcoll_problem *problem);
uint32_t gcoll_group_butterfly_claims(const gcoll_problem *problem);
void gcoll_group_butterfly_cost(const gcoll_problem *problem, gcoll_cost *cost);

/* The paper's choice of r for a vector of so many bytes and the cyclic group: the nearest integer to its
 * formula (37), the minimum of its bound (36) for the time, from 0 to ceil(log2 P). gcoll_choice_resolve,
 * which compares the exact costs, does as well or better. */
uint32_t gcoll_group_butterfly_formula_r(uint32_t size, double bytes,
                                         const gcoll_cost_parameters *parameters);

gcoll_group_walk gcoll_group_walk_make(const gcoll_problem *problem);

/* Scratch for factors with several results, which take it one after the other. */
typedef struct gcoll_group_room {
    gcoll_group_place inbox, apart;
} gcoll_group_room;
gcoll_group_room gcoll_group_reserve(const gcoll_group_walk *w, gcoll_builder *b);

/* Reduces what the factor's members share, from `data` (element 0 of it; only read, unless it is OUT) to the
 * first `results` placements in OUT. */
void gcoll_group_fold(const gcoll_group_walk *w, const gcoll_group_factor *f, const gcoll_group_room *room,
                      gcoll_builder *b, gcoll_ref data);
/* Spreads these to all placements. */
void gcoll_group_spread(const gcoll_group_walk *w, const gcoll_group_factor *f, gcoll_builder *b);

/* The elements at `number` placements from `first` on; all of the factor's if that is all placements. */
gcoll_group_runs gcoll_group_at(const gcoll_group_walk *w, const gcoll_group_factor *f, uint32_t first,
                                uint32_t number);

static inline uint32_t gcoll_group_min(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* Placements in use before step i: N_0 = P, N_{i+1} = ceil(N_i/2). */
static inline uint32_t gcoll_group_placements(const gcoll_group_factor *f, uint32_t i) {
    return ((f->size - 1) >> i) + 1;
}

/* Placements sent in step i, from ceil(N/2) on. */
static inline uint32_t gcoll_group_sent(const gcoll_group_factor *f, uint32_t i) {
    return gcoll_group_min(f->size, gcoll_group_placements(f, i) / 2 + f->results - 1);
}

/* Placements 1, 2, ... whose partial sums go on after step i. */
static inline uint32_t gcoll_group_passing(const gcoll_group_factor *f, uint32_t i) {
    return i + 1 == f->steps ? 0
                             : gcoll_group_min(f->size, gcoll_group_placements(f, i + 1) + f->results - 2);
}

/* Whether sums to be finished here and sums to be sent on come to differ: at the first odd N. */
static inline bool gcoll_group_parts(const gcoll_group_factor *f) {
    return f->results > 1 && !gcoll_is_power_of_two(f->size);
}

/* Placements from 0 on that the scratch of several results has room for: what comes in, and what parts. */
static inline uint32_t gcoll_group_window(const gcoll_group_factor *f) {
    return gcoll_group_min(f->size, gcoll_group_sent(f, 0) + (gcoll_group_parts(f) ? 1 : 0));
}

static inline bool gcoll_group_any_parts(const gcoll_group_walk *w) {
    bool any = false;
    for (uint32_t i = 0; i < w->factors; i++)
        any = any || gcoll_group_parts(&w->factor[i]);
    return any;
}

/* NULL: none saves a step. */
static inline const gcoll_group_factor *gcoll_group_first_saving(const gcoll_group_walk *w) {
    for (uint32_t i = 0; i < w->factors; i++)
        if (w->factor[i].r > 0)
            return &w->factor[i];
    return NULL;
}

#endif
