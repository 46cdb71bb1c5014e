/* algorithms/group_butterfly_cost.c - what the group butterfly claims and costs, and its options. */
#include "algorithms/group_butterfly.h"

static const char *const groups[] = {"cyclic", NULL};

const gcoll_option gcoll_group_butterfly_options[] = {
    {"r", "steps saved, 0 (fewest bytes) to ceil(log2 P) (fewest steps; more is the same); -1: the cheapest",
     -1, -1, GCOLL_GROUP_MAX_STEPS, NULL, false},
    {"group", "the group of permutations that placements stand for", 0, 0, 0, groups, false},
    {NULL, NULL, 0, 0, 0, NULL, false}};

gcoll_group_pattern gcoll_group_pattern_make(const gcoll_problem *problem, gcoll_builder *b) {
    gcoll_group_pattern p = {.b = b, .n = problem->count, .rank = problem->rank, .size = problem->size};
    p.placements[0] = p.size;
    while (p.placements[p.steps] > 1) {
        p.placements[p.steps + 1] = (p.placements[p.steps] + 1) / 2;
        p.steps++;
    }
    int64_t r = problem->option[0]; /* not chosen by anybody: as for 0 */
    p.r = r <= 0 ? 0 : r >= p.steps ? p.steps : (uint32_t)r;
    p.results = p.placements[p.steps - p.r];
    return p;
}

uint32_t gcoll_group_butterfly_claims(const gcoll_problem *problem) {
    gcoll_group_pattern p = gcoll_group_pattern_make(problem, NULL);
    uint32_t claims = gcoll_trivial_claims(problem); /* each sum begins with the rank that it ends at */
    if (p.results == 1 || gcoll_is_power_of_two(p.size))
        claims |= GCOLL_CLAIM_RANK_IDENTICAL;
    return claims;
}

void gcoll_group_butterfly_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    gcoll_group_pattern p = gcoll_group_pattern_make(problem, NULL);
    uint64_t sent = 0, reduced = 0;
    bool parted = false;
    for (uint32_t i = 0; i < p.steps; i++) {
        bool odd = p.placements[i] % 2 != 0;
        sent += gcoll_group_sent(&p, i);
        if (p.results == 1 || !(odd || parted))
            reduced += gcoll_group_sent(&p, i);
        else
            reduced += gcoll_group_passing(&p, i) + (odd ? 0 : p.results);
        parted |= odd;
    }
    for (uint32_t i = 0; i < p.steps - p.r; i++)
        sent += p.placements[i] / 2;
    double chunk = (double)p.n / p.size;
    *cost = (gcoll_cost){2.0 * p.steps - p.r, (double)sent * chunk, (double)reduced * chunk,
                         p.r == 0 ? 0 : (parted ? 2.0 : 1.0) * (double)p.n};
}
