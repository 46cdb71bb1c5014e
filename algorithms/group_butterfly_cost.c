/* algorithms/group_butterfly_cost.c - what the group butterfly claims and costs, and the paper's choice of r.
 */
#include "algorithms/group_butterfly.h"

#include "algorithms/blocks.h"

uint32_t gcoll_group_butterfly_claims(const gcoll_problem *problem) {
    gcoll_group_walk w = gcoll_group_walk_make(problem);
    uint32_t claims = gcoll_trivial_claims(problem); /* each sum begins with the rank that it ends at */
    bool neighbours = true;
    for (uint32_t i = 0; i < w.factors; i++)
        neighbours = neighbours && w.factor[i].size == 2 && w.factor[i].stride == (UINT32_C(1) << i);
    return claims | (gcoll_group_any_parts(&w) ? 0 : GCOLL_CLAIM_RANK_IDENTICAL) |
           (neighbours ? GCOLL_CLAIM_P_INDEPENDENT : 0);
}

/* A run of chunks that goes round the end of the vector is two messages, which count as one here, as in the
 * paper: the second leaves right behind the first, so it costs an overhead but no latency. */
void gcoll_group_butterfly_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    gcoll_group_walk w = gcoll_group_walk_make(problem);
    *cost = (gcoll_cost){.steps = 2.0 * w.steps - w.r};
    double chunk = (double)w.n / w.size, n = (double)w.n;
    double largest = (double)gcoll_largest_chunk(w.n, w.size);
    for (uint32_t k = 0; k < w.factors; k++) {
        const gcoll_group_factor *f = &w.factor[k];
        uint64_t sent = 0, reduced = 0; /* placements */
        double part = (double)f->chunks / f->size;
        bool parted = false;
        for (uint32_t i = 0; i < f->steps; i++) {
            bool odd = gcoll_group_placements(f, i) % 2 != 0;
            sent += gcoll_group_sent(f, i);
            if (f->results == 1 || !(odd || parted))
                reduced += gcoll_group_sent(f, i);
            else
                reduced += gcoll_group_passing(f, i) + (odd ? 0 : f->results);
            parted |= odd;
        }
        for (uint32_t i = 0; i < f->steps - f->r; i++)
            sent += gcoll_group_placements(f, i) / 2;
        cost->sent += (double)sent * part * chunk;
        cost->reduced += (double)reduced * part * chunk;
    }
    const gcoll_group_factor *f = gcoll_group_first_saving(&w);
    if (f != NULL) {
        double room = (double)gcoll_group_window(f) * f->chunks / f->size * largest;
        cost->scratch = (gcoll_group_any_parts(&w) ? 2 : 1) * (room < n ? room : n);
    }
}

/* (37) is r = log2(alpha P / (m (beta + 2 gamma) (log2 P - 1) ln 2)), and (36), whose minimum it is, has
 * L = ceil(log2 P) for log2 P. */
uint32_t gcoll_group_butterfly_formula_r(uint32_t size, double bytes,
                                         const gcoll_cost_parameters *parameters) {
    if (size == 2) /* (37) divides by 0, but there are only two to compare: a swap reduces twice as much */
        return parameters->alpha >= parameters->gamma * bytes / 2 ? 1 : 0;
    const double ln_2 = 0.69314718055994531, sqrt_2 = 1.4142135623730951;
    uint32_t steps = gcoll_log2_ceil(size), r = 0;
    double overhead = bytes * (parameters->beta + 2 * parameters->gamma) * (steps - 1.0) * ln_2;
    double gain = parameters->alpha * size;
    while (r < steps && gain >= sqrt_2 * overhead) { /* log2(gain / overhead) is nearer to r + 1 than to r */
        gain /= 2;
        r++;
    }
    return r;
}
