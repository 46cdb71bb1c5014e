/* tools/arrival_search.c - the best order of ranks on a ring, and start of its segments, for given arrivals.
 *
 * The candidates are all orders of the ranks, each with all choices of leads that fall by at most one from
 * position to position; the leads decide where segments start. There are P! 2^(P-1) candidates; `ring`,
 * `sorted_linear_tree` and `pre_reduced_ring` are three of them. */
#include <stdlib.h>
#include <string.h>

#include "algorithms/allreduce/allreduce_ring.h"
#include "tools/arrival.h"
#include "tools/progress.h"
#include "tools/random.h"

#define PATIENCE 16u /* tries a rank without gain before the search returns to the best */

typedef struct search {
    const tool_options *options;
    tool_shape shape; /* for tool_ring_run */
    double *arrival;
    tool_ring now, best, try;
    double now_s;
    tool_lateness best_found;
    uint64_t random, left;
} search;

/* ---- Rings --------------------------------------------------------------------------------------------- */

static bool evaluate(search *s, const tool_ring *ring, tool_lateness *found) {
    gcoll_simulation *simulation = tool_ring_run(s->options, &s->shape, ring);
    if (simulation)
        *found = tool_lateness_of(simulation, s->arrival);
    gcoll_simulation_destroy(simulation);
    return simulation;
}

/* Tries s->try; it becomes `now` unless it is worse, and `best` if it is better than that. Less than a
 * picosecond is no gain: sums round. */
static bool consider(search *s) {
    const double least_s = 1e-12;
    tool_lateness found;
    cli_progress_add(1);
    if (!evaluate(s, &s->try, &found))
        return false;
    if (found.elapsed <= s->now_s) {
        tool_ring_copy(&s->now, &s->try);
        s->now_s = found.elapsed;
    }
    if (found.elapsed < s->best_found.elapsed - least_s) {
        tool_ring_copy(&s->best, &s->try);
        s->best_found = found;
    }
    return true;
}

/* ---- All of them --------------------------------------------------------------------------------------- */

/* P! 2^(P-1), or UINT64_MAX if that is too much to count. */
static uint64_t number_of_rings(uint32_t size) {
    uint64_t number = 1;
    for (uint32_t i = 2; i <= size; i++)
        if (__builtin_mul_overflow(number, 2 * (uint64_t)i, &number))
            return UINT64_MAX;
    return number;
}

static void swap(uint32_t *a, uint32_t *b) {
    const uint32_t kept = *a;
    *a = *b;
    *b = kept;
}

/* The next permutation in lexicographic order; false after the last. */
static bool next_order(uint32_t *order, uint32_t size) {
    uint32_t i = size - 1, k = size - 1;
    while (i > 0 && order[i - 1] >= order[i])
        i--;
    if (i == 0)
        return false;
    while (order[k] <= order[i - 1])
        k--;
    swap(&order[i - 1], &order[k]);
    for (k = size - 1; i < k; i++, k--)
        swap(&order[i], &order[k]);
    return true;
}

static bool try_all(search *s) {
    const uint32_t size = s->try.size;
    const uint64_t leads = size > 0 ? UINT64_C(1) << (size - 1) : 0;
    do {
        for (uint64_t falls = 0; falls < leads; falls++) {
            s->try.lead[size - 1] = 0;
            for (uint32_t i = size - 1; i-- > 0;)
                s->try.lead[i] = s->try.lead[i + 1] + (uint32_t)(falls >> i & 1);
            if (!consider(s))
                return false;
        }
    } while (next_order(s->try.order, size));
    return true;
}

/* ---- Some of them -------------------------------------------------------------------------------------- */

static uint32_t below(search *s, uint32_t limit) {
    return tool_random_below(&s->random, limit);
}

/* Leads from one position to another fall where they did not, and the other way round. */
static void turn(tool_ring *ring, uint32_t first, uint32_t last) {
    uint32_t next = ring->lead[ring->size - 1], above = next;
    for (uint32_t i = ring->size - 1; i-- > 0;) {
        const uint32_t was = ring->lead[i], fell = was - above;
        above = was;
        next += i >= first && i <= last ? 1 - fell : fell;
        ring->lead[i] = next;
    }
}

static void change(search *s) {
    tool_ring *r = &s->try;
    const uint32_t a = below(s, r->size), b = below(s, r->size);
    tool_ring_copy(r, &s->now);
    switch (below(s, 4)) {
    case 0: /* one rank goes elsewhere, those between move up */
        for (uint32_t i = a; i != b; i = i < b ? i + 1 : i - 1)
            swap(&r->order[i], &r->order[i < b ? i + 1 : i - 1]);
        break;
    case 1:
        swap(&r->order[a], &r->order[b]);
        break;
    case 2:
        turn(r, a, a);
        break;
    default:
        turn(r, a < b ? a : b, a < b ? b : a);
    }
}

static bool climb(search *s) {
    uint64_t since = 0;
    for (; s->left > 0; s->left--) {
        const double best_s = s->best_found.elapsed;
        change(s);
        if (!consider(s))
            return false;
        since = s->best_found.elapsed < best_s ? 0 : since + 1;
        if (since < (uint64_t)PATIENCE * s->now.size)
            continue;
        tool_ring_copy(&s->now, &s->best);
        s->now_s = s->best_found.elapsed;
        since = 0;
    }
    return true;
}

/* Begins the search with the rings that the planners would choose. */
static bool begin(search *s, const gcoll_problem *told) {
    static const struct {
        gcoll_ring_order order;
        int64_t ahead;
    } orders[] = {{GCOLL_RING_BY_RANK, 0},
                  {GCOLL_RING_CHAIN, 0},
                  {GCOLL_RING_PRE_REDUCED, 0},
                  {GCOLL_RING_PRE_REDUCED, 1}};
    gcoll_problem like = *told;
    for (size_t k = 0; k < sizeof orders / sizeof orders[0] && s->left > 0; k++, s->left--) {
        like.option[0] = orders[k].ahead;
        gcoll_ring_seat *seats = gcoll_ring_seats(&like, orders[k].order);
        if (!seats) {
            cli_complain("out of memory for %u ranks", told->size);
            return false;
        }
        for (uint32_t i = 0; i < told->size; i++) {
            s->try.order[i] = seats[i].rank;
            s->try.lead[i] = seats[i].lead;
        }
        free(seats);
        if (!consider(s))
            return false;
    }
    return true;
}

uint64_t tool_search_tries(const tool_options *o, uint32_t size) {
    const uint64_t all = number_of_rings(size);
    return all < o->tries ? all : o->tries;
}

bool tool_search(const tool_options *o, const tool_shape *shape, tool_ring *best, bool *all,
                 tool_lateness *found) {
    const uint32_t size = shape->problem.size;
    search s = {.options = o, .shape = *shape, .now_s = 1e300, .best_found = {.elapsed = 1e300}};
    s.left = o->tries;
    s.random = o->arrival.seed;
    bool good = tool_ring_prepare(&s.shape) && tool_arrivals(o, size, &s.arrival) &&
                tool_ring_create(size, &s.now) && tool_ring_create(size, &s.best) &&
                tool_ring_create(size, &s.try);
    *all = number_of_rings(size) <= o->tries;
    good = good && (*all ? try_all(&s) : begin(&s, &shape->problem) && climb(&s));
    tool_ring_free(&s.now);
    tool_ring_free(&s.try);
    free(s.shape.arrival_ns);
    free(s.arrival);
    if (!good) {
        tool_ring_free(&s.best);
        return false;
    }
    *best = s.best;
    *found = s.best_found;
    return true;
}
