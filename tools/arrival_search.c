/* tools/arrival_search.c - the best order of ranks on a ring, and start of its segments, for given arrivals.
 *
 * The candidates are all orders of the ranks, each with all choices of leads that fall by at most one from
 * position to position; the leads decide where segments start. There are P! 2^(P-1) candidates; `ring`,
 * `sorted_linear_tree` and `pre_reduced_ring` are three of them. */
#include <stdlib.h>
#include <string.h>

#include "algorithms/allreduce/allreduce_ring.h"
#include "tools/arrival.h"
#include "tools/simulate.h"

#define PATIENCE 16u /* tries a rank without gain before the search returns to the best */

typedef struct search {
    const tool_options *options;
    tool_shape shape; /* its planner is the one below, its arrivals are the candidate's seats */
    double *arrival;
    tool_ring now, best, try;
    double now_s;
    tool_lateness best_found;
    uint64_t random, left;
} search;

/* ---- A candidate's plan -------------------------------------------------------------------------------- */

/* Plans the candidate. The problem's arrivals carry each rank's position and lead: position * P + lead. */
static void plan_candidate(const gcoll_problem *problem, gcoll_builder *b) {
    gcoll_ring_seat *seats = calloc(problem->size, sizeof *seats);
    if (!seats) {
        gcoll_plan_refuse(b, GCOLL_ERR_NO_MEMORY, "out of memory for %u positions", problem->size);
        return;
    }
    for (uint32_t r = 0; r < problem->size; r++) {
        gcoll_ring_seat *seat = &seats[problem->arrival_ns[r] / problem->size];
        seat->rank = r;
        seat->lead = (uint32_t)(problem->arrival_ns[r] % problem->size);
    }
    gcoll_ring_find_starts(seats, problem->size);
    gcoll_ring_walk(problem, b, seats);
    free(seats);
}

static const gcoll_algorithm candidate = {
    .name = "candidate",
    .collective = GCOLL_ALLREDUCE,
    .summary = "a ring with any order and leads",
    .source = "tools/arrival_search.c",
    .plan = plan_candidate,
};

static bool evaluate(search *s, const tool_ring *ring, tool_lateness *found) {
    tool_job job;
    for (uint32_t i = 0; i < ring->size; i++)
        s->shape.arrival_ns[ring->order[i]] = (int64_t)i * ring->size + ring->lead[i];
    if (!tool_job_of(&s->shape, &job))
        return false;
    gcoll_simulation *simulation = tool_run_job(s->options, &job, false);
    if (simulation)
        *found = tool_lateness_of(simulation, s->arrival);
    gcoll_simulation_destroy(simulation);
    tool_job_free(&job);
    return simulation;
}

/* ---- Rings --------------------------------------------------------------------------------------------- */

static bool make_ring(uint32_t size, tool_ring *ring) {
    *ring = (tool_ring){size, calloc(size, sizeof *ring->order), calloc(size, sizeof *ring->lead)};
    if (ring->order && ring->lead)
        return true;
    cli_complain("out of memory for %u ranks", size);
    return false;
}

void tool_ring_free(tool_ring *ring) {
    free(ring->order);
    free(ring->lead);
    *ring = (tool_ring){0};
}

static void copy_ring(tool_ring *to, const tool_ring *from) {
    memcpy(to->order, from->order, from->size * sizeof *to->order);
    memcpy(to->lead, from->lead, from->size * sizeof *to->lead);
}

/* Tries s->try; it becomes `now` unless it is worse, and `best` if it is better than that. Less than a
 * picosecond is no gain: sums round. */
static bool consider(search *s) {
    const double least_s = 1e-12;
    tool_lateness found;
    if (!evaluate(s, &s->try, &found))
        return false;
    if (found.elapsed <= s->now_s) {
        copy_ring(&s->now, &s->try);
        s->now_s = found.elapsed;
    }
    if (found.elapsed < s->best_found.elapsed - least_s) {
        copy_ring(&s->best, &s->try);
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
    for (uint32_t i = 0; i < size; i++)
        s->try.order[i] = i;
    do {
        for (uint64_t falls = 0; falls < UINT64_C(1) << (size - 1); falls++) {
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

static uint32_t below(search *s, uint32_t limit) { /* splitmix64, as for arrivals */
    uint64_t x = s->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(((x ^ (x >> 31)) >> 32) * limit >> 32);
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
    copy_ring(r, &s->now);
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
        copy_ring(&s->now, &s->best);
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

bool tool_search(const tool_options *o, const tool_shape *shape, tool_ring *best, bool *all,
                 tool_lateness *found) {
    const uint32_t size = shape->problem.size;
    search s = {.options = o, .shape = *shape, .now_s = 1e300, .best_found = {.elapsed = 1e300}};
    s.left = o->tries;
    s.random = o->arrival.seed;
    s.shape.choice = (gcoll_choice){.algorithm = &candidate};
    s.shape.arrival_ns = calloc(size, sizeof *s.shape.arrival_ns);
    s.shape.problem.arrival_ns = s.shape.arrival_ns;
    bool good = tool_arrivals(o, size, &s.arrival) && make_ring(size, &s.now) && make_ring(size, &s.best) &&
                make_ring(size, &s.try);
    *all = number_of_rings(size) <= o->tries;
    if (good && !s.shape.arrival_ns) {
        cli_complain("out of memory for %u ranks", size);
        good = false;
    }
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
