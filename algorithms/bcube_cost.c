/* algorithms/bcube_cost.c - the shape of a bcube, what it claims and costs, and its options. */
#include "algorithms/bcube.h"

#include "algorithms/load.h"

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

gcoll_cube gcoll_cube_of(const gcoll_problem *problem) {
    const uint32_t base = (uint32_t)problem->option[0];
    gcoll_cube c = {.places = 1};
    while (c.places < problem->size) {
        uint32_t radix = largest_divisor(problem->size / c.places, base);
        if (radix == 1)
            break;
        c.radix[c.steps++] = radix;
        c.places *= radix;
    }
    if (c.places == problem->size)
        return c;
    c = (gcoll_cube){.places = 1};
    while (c.places <= problem->size / 2) {
        uint32_t fit = problem->size / c.places, radix = fit < base ? fit : base;
        c.radix[c.steps++] = radix;
        c.places *= radix;
    }
    return c;
}

uint64_t gcoll_cube_inbox(const gcoll_cube *c, uint64_t n) {
    return c->steps == 0 ? 0 : (c->radix[0] - 1) * (n / c->radix[0] + (n % c->radix[0] != 0));
}

/* Which trees are a left fold, or pair neighbours: one step has one group; with two in each it is as for any
 * folded halving. Of larger groups in several steps the sums are neither. */
uint32_t gcoll_bcube_claims(const gcoll_problem *problem) {
    const gcoll_cube c = gcoll_cube_of(problem);
    const uint32_t folded = problem->size - c.places;
    uint32_t claims = gcoll_fold_claims(problem);
    if (c.steps == 0 || c.radix[0] == 2)
        return claims;
    claims &= ~GCOLL_CLAIM_P_INDEPENDENT;
    bool pairs_neighbours = c.places == 3 && folded == 2; /* ((0+1)+(2+3))+4 */
    if (c.steps == 1 && (folded <= 1 || pairs_neighbours))
        claims |= GCOLL_CLAIM_P_INDEPENDENT;
    return claims;
}

void gcoll_bcube_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const gcoll_cube c = gcoll_cube_of(problem);
    const double n = (double)problem->count, folds = c.places == problem->size ? 0 : 1,
                 parts = n - n / c.places;
    /* One port: the messages of a step go one after the other. Neglected: that with five and more in a group,
     * or after folding, they may do so in an order that leaves ports idle. */
    double messages = folds;
    for (uint32_t i = 0; i < c.steps; i++)
        messages += c.radix[i] - 1;
    *cost = (gcoll_cost){2 * messages, 2 * (parts + folds * n), parts + folds * n,
                         (double)gcoll_cube_inbox(&c, problem->count)};
}

void gcoll_bcube_load(const gcoll_problem *problem, gcoll_load *load) {
    const gcoll_cube c = gcoll_cube_of(problem);
    const double n = (double)problem->count, parts = n - n / c.places;
    double messages = 0;
    for (uint32_t i = 0; i < c.steps; i++)
        messages += c.radix[i] - 1;
    *load = gcoll_load_folded(
        problem, c.places,
        (gcoll_load){.hops = 2.0 * c.steps, .messages = 2 * messages, .sent = 2 * parts, .reduced = parts});
}
