/* algorithms/allreduce/allreduce_group_butterfly.c - allreduce as a butterfly for any number of ranks.
 *
 * It trades bytes for steps: option r saves r of the 2 log2 P steps, and sends more for each. r = 0 sends the
 * fewest bytes (reduce-scatter, then allgather); the largest r takes the fewest steps (whole vectors).
 *
 * Placements: the vector is cut in P chunks. A group of P permutations t_k of the ranks says which chunk rank
 * j keeps "at placement k": chunk t_k^-1(j), which is chunk (j-k) mod P for the cyclic group. Reducing: step
 * i halves the N placements in use. Those from ceil(N/2) on move h = floor(N/2) ranks down, each to the
 * placement h lower, where it is added. When `results` placements are left, they are complete. Spreading:
 * the same steps backwards copy them to all placements. r = 0 ends with one result. For the largest r, L,
 * there are P results and nothing is left to spread.
 *
 * Groups: `cyclic` serves any P. `product` is Z_a x Z_b: first the a ranks of a row (of a host, say) reduce,
 * then the b ranks at the same position of their rows; spreading goes in reverse order. Each factor is a
 * cyclic butterfly of its own. `xor` is Z_2 x Z_2 x ..., from the highest bit of the rank on: r = 0 is
 * recursive halving and doubling, the largest r is recursive doubling. r saves steps of the last factor
 * first, for there the way back begins.
 *
 * Source: D. Kolmakov and X. Zhang, A generalization of the allreduce operation, arXiv:2004.09362, sections 7
 * to 9.
 *
 * Steps: 2L - r; L = ceil(log2 P), for a product ceil(log2 a) + ceil(log2 b).
 *
 * Chunks (of n/P elements) sent: 2(P-1) for r = 0, PL for r = L, never more than 2(P-1) + (2^r - 1)(L-1).
 * Chunks reduced: P-1 for r = 0, never more than P-1 + (2^r - 1)(2L-2) for L > 1. A product with r = 0 sends
 * and reduces no more than the cyclic group.
 *
 * Restrictions: xor needs a power of two. Scratch for r > 0: up to n elements, twice that if a factor that
 * saves steps is no power of two. */
#include "algorithms/shared/hosts.h"

/* ---- Factors of the group ------------------------------------------------------------------------ */

#define MAX_STEPS 20 /* log2 of GCOLL_MAX_RANKS; hence also the most factors */

/* The elements of consecutive chunks. After the last chunk comes the first one again, hence two runs at most.
 */
typedef struct element_runs {
    uint64_t begin[2], count[2];
} element_runs;

/* Where a vector, or a part of it, is stored: element e at ref + (e - origin). Elements before the origin are
 * stored last, `cycle` further on. */
typedef struct location {
    gcoll_ref ref;
    uint64_t origin, cycle;
} location;

/* One cyclic factor Z_size of the group, and the butterfly over its members: the ranks that differ from this
 * one in one digit. */
typedef struct factor {
    uint32_t size;
    uint32_t member, base; /* this rank is base + member * stride */
    uint32_t stride;
    uint32_t steps, r;
    uint32_t results;     /* complete placements at the end of reducing */
    uint32_t first, part; /* its members work on parts of `part` chunks; part p begins at first + p * part */
    uint32_t chunks;      /* in all parts */
    element_runs whole;   /* all parts, as elements */
} factor;

/* All factors, in the order in which they are reduced. */
typedef struct group {
    uint64_t n;
    uint32_t size;
    uint32_t factors, steps, r;
    factor factor[MAX_STEPS];
} group;

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* Placements in use before step i: N_0 = P, N_{i+1} = ceil(N_i/2). */
static uint32_t placements_before(const factor *f, uint32_t i) {
    return ((f->size - 1) >> i) + 1;
}

/* Placements sent in step i, from ceil(N/2) on. */
static uint32_t placements_sent(const factor *f, uint32_t i) {
    return smaller(f->size, placements_before(f, i) / 2 + f->results - 1);
}

/* Placements 1, 2, ... whose partial sums are sent on after step i. */
static uint32_t placements_passing(const factor *f, uint32_t i) {
    return i + 1 == f->steps ? 0 : smaller(f->size, placements_before(f, i + 1) + f->results - 2);
}

/* Whether the sums that complete here differ from the sums that are sent on: from the first odd N. */
static bool sums_part(const factor *f) {
    return f->results > 1 && !gcoll_is_power_of_two(f->size);
}

/* The number of placements, from 0 on, that scratch holds if there are several results. */
static uint32_t placements_in_scratch(const factor *f) {
    return smaller(f->size, placements_sent(f, 0) + (sums_part(f) ? 1 : 0));
}

static bool any_sums_part(const group *g) {
    bool any = false;
    for (uint32_t i = 0; i < g->factors; i++)
        any = any || sums_part(&g->factor[i]);
    return any;
}

/* The first factor that saves steps; NULL if r = 0. */
static const factor *first_saving(const group *g) {
    for (uint32_t i = 0; i < g->factors; i++)
        if (g->factor[i].r > 0)
            return &g->factor[i];
    return NULL;
}

/* ---- Options ------------------------------------------------------------------------------------- */

enum { OPTION_R, OPTION_GROUP, OPTION_FACTOR };
enum { GROUP_CYCLIC, GROUP_XOR, GROUP_PRODUCT, GROUP_AUTO };

static const char *const groups[] = {"cyclic", "xor", "product", "auto", NULL};

static const gcoll_option options[] = {
    {"r", "steps saved, 0 (fewest bytes) to half of them (fewest steps; more is the same); -1: the cheapest",
     GCOLL_BY_COST, GCOLL_BY_COST, MAX_STEPS, NULL, false},
    {"group",
     "what placements stand for: cyclic; xor, for powers of two; product; auto is xor where it can be, else "
     "cyclic",
     GROUP_AUTO, 0, 0, groups, false},
    {"factor",
     "with group=product: ranks in a row that make the first factor, a divisor of P; 0: as many as stand in "
     "a row on one host, if that is the same everywhere, else the largest divisor up to sqrt(P)",
     0, 0, GCOLL_MAX_RANKS, NULL, false},
    {NULL, NULL, 0, 0, 0, NULL, false}};

/* Ranks in a row on one host, if that is the same everywhere; else 0. */
static uint32_t ranks_in_a_row(const gcoll_problem *p) {
    uint32_t ranks = 1;
    if (!p->node)
        return 0;
    while (ranks < p->size && p->node[ranks] == p->node[0])
        ranks++;
    if (p->size % ranks != 0)
        return 0;
    for (uint32_t rank = ranks; rank < p->size; rank++) {
        bool same = p->node[rank] == p->node[rank - 1];
        if (same != (rank % ranks != 0))
            return 0;
    }
    return ranks;
}

static uint32_t first_factor(const gcoll_problem *p) {
    if (p->option[OPTION_FACTOR] > 0)
        return (uint32_t)p->option[OPTION_FACTOR];
    uint32_t row = ranks_in_a_row(p), divisor = 1;
    if (row > 0)
        return row;
    for (uint32_t d = 2; (uint64_t)d * d <= p->size; d++)
        if (p->size % d == 0)
            divisor = d;
    return divisor;
}

static gcoll_status butterfly_applies(const gcoll_problem *p) {
    const int64_t kind = p->option[OPTION_GROUP], first = p->option[OPTION_FACTOR];
    if (kind == GROUP_XOR && !gcoll_is_power_of_two(p->size))
        return gcoll_unsupported("group_butterfly: group=xor with %u ranks; allowed are powers of two",
                                 p->size);
    if (kind == GROUP_PRODUCT && first > 0 && p->size % first != 0)
        return gcoll_unsupported("group_butterfly: factor is %lld; allowed are divisors of %u, the ranks",
                                 (long long)first, p->size);
    return GCOLL_OK;
}

/* ---- From a problem to its factors --------------------------------------------------------------- */

static void add(group *g, uint32_t rank, uint32_t size, uint32_t stride) {
    if (size <= 1)
        return;
    uint32_t member = rank / stride % size;
    factor f = {.size = size, .stride = stride, .member = member, .base = rank - member * stride};
    f.steps = gcoll_log2_ceil(size);
    g->steps += f.steps;
    g->factor[g->factors++] = f;
}

/* Distributes the r steps to save: the last factor, with which spreading begins, saves first. */
static void save(group *g, int64_t r) {
    g->r = r <= 0 ? 0 : r >= g->steps ? g->steps : (uint32_t)r; /* -1, not yet chosen by cost: 0 */
    uint32_t left = g->r;
    for (uint32_t i = g->factors; i-- > 0;) {
        factor *f = &g->factor[i];
        f->r = smaller(left, f->steps);
        f->results = placements_before(f, f->steps - f->r);
        left -= f->r;
    }
}

/* Elements of `number` placements from `first` on. */
static element_runs elements_at(const group *g, const factor *f, uint32_t first, uint32_t number) {
    if (number == f->size)
        return f->whole;
    uint32_t low = (uint32_t)((2 * (uint64_t)f->size + f->member + 1 - first - number) % f->size);
    uint32_t upper = smaller(number, f->size - low), chunk = f->first + low * f->part;
    uint64_t begin = gcoll_chunk_begin(g->n, g->size, chunk),
             from = gcoll_chunk_begin(g->n, g->size, f->first);
    return (element_runs){{begin, from},
                          {gcoll_chunk_begin(g->n, g->size, chunk + upper * f->part) - begin,
                           gcoll_chunk_begin(g->n, g->size, f->first + (number - upper) * f->part) - from}};
}

/* Gives each factor the chunks that the factor before it has left: one part of that factor, unless it saves
 * steps. If it does, all later factors save all of their steps, so they move all the chunks that they get. */
static void share(group *g) {
    uint32_t first = 0, chunks = g->size;
    element_runs whole = {{0, 0}, {g->n, 0}};
    for (uint32_t i = 0; i < g->factors; i++) {
        factor *f = &g->factor[i];
        f->first = first;
        f->part = chunks / f->size;
        f->chunks = chunks;
        f->whole = whole;
        whole = elements_at(g, f, 0, f->results);
        first += f->results == 1 ? f->member * f->part : 0;
        chunks = f->results == f->size ? chunks : f->results * f->part;
    }
}

static group make_group(const gcoll_problem *problem) {
    const uint32_t size = problem->size;
    group g = {.n = problem->count, .size = size};
    uint32_t row;
    int64_t kind = problem->option[OPTION_GROUP];
    if (kind == GROUP_AUTO)
        kind = gcoll_is_power_of_two(size) ? GROUP_XOR : GROUP_CYCLIC;
    switch (kind) {
    case GROUP_XOR: /* Z_2 x Z_2 x ..., from the highest bit of the rank on */
        for (uint32_t stride = size / 2; stride > 0; stride /= 2)
            add(&g, problem->rank, 2, stride);
        break;
    case GROUP_PRODUCT:
        row = first_factor(problem);
        add(&g, problem->rank, row, 1);
        add(&g, problem->rank, size / row, row);
        break;
    default:
        add(&g, problem->rank, size, 1);
    }
    save(&g, problem->option[OPTION_R]);
    share(&g);
    return g;
}

/* ---- Steps of one factor ------------------------------------------------------------------------- */

/* Scratch of factors with several results, which use it one after the other. */
typedef struct scratch_buffers {
    location inbox, apart;
} scratch_buffers;

typedef struct exchange { /* arguments that all steps of a factor share */
    const group *g;
    const factor *f;
    gcoll_builder *b;
} exchange;

static uint32_t peer_at(const exchange *s, uint32_t up) {
    return s->f->base + (s->f->member + up) % s->f->size * s->f->stride;
}

static location buffer(gcoll_ref ref) {
    return (location){ref, 0, 0};
}

static gcoll_ref at(location p, uint64_t element) {
    return gcoll_ref_add(p.ref, (element < p.origin ? p.cycle : 0) + element - p.origin);
}

static void send(const exchange *s, uint32_t peer, location from, uint32_t first, uint32_t number) {
    element_runs runs = elements_at(s->g, s->f, first, number);
    for (int i = 0; i < 2; i++)
        gcoll_plan_send(s->b, peer, at(from, runs.begin[i]), runs.count[i]);
}

static void receive(const exchange *s, uint32_t peer, location to, uint32_t first, uint32_t number) {
    element_runs runs = elements_at(s->g, s->f, first, number);
    for (int i = 0; i < 2; i++)
        gcoll_plan_recv(s->b, peer, at(to, runs.begin[i]), runs.count[i]);
}

static void receive_reduce(const exchange *s, uint32_t peer, location to, location a, uint32_t first,
                           uint32_t number) {
    element_runs runs = elements_at(s->g, s->f, first, number);
    for (int i = 0; i < 2; i++)
        gcoll_plan_recv_reduce(s->b, peer, at(to, runs.begin[i]), at(a, runs.begin[i]), runs.count[i]);
}

static void reduce(const exchange *s, location to, location a, location x, uint32_t first, uint32_t number) {
    element_runs runs = elements_at(s->g, s->f, first, number);
    for (int i = 0; i < 2; i++)
        gcoll_plan_reduce(s->b, at(to, runs.begin[i]), at(a, runs.begin[i]), at(x, runs.begin[i]),
                          runs.count[i]);
}

/* One result: no placement is both kept and sent, so all sums can be in OUT. */
static void reduce_to_one(const exchange *s, uint32_t i, gcoll_ref data) {
    uint32_t placements = placements_before(s->f, i), half = placements / 2, odd = placements % 2;
    const location out = buffer(gcoll_out(0, 0)), partial = i == 0 ? buffer(data) : out;
    if (i == 0 && odd) { /* placement 0 has no partner in this step; the next one expects its chunk in OUT */
        element_runs own = elements_at(s->g, s->f, 0, 1);
        gcoll_plan_copy(s->b, at(out, own.begin[0]), at(partial, own.begin[0]), own.count[0]);
    }
    send(s, peer_at(s, s->f->size - half), partial, half + odd, half);
    receive_reduce(s, peer_at(s, half), out, partial, odd, half);
}

/* Several results: each of the first `results` placements has two sums, one that completes there (`kept`) and
 * one that is sent on (`passing`). They are equal until the first odd N, where `kept` has no partner; from
 * then on the other one is stored in `apart`. Received chunks wait in `inbox`, as they overlap with those
 * being sent: reduced at once into their destination, both sides would wait for the other's send to end. */
typedef struct sums {
    location passing, kept, apart, inbox;
    bool parted;
} sums;

static void reduce_to_several(const exchange *s, uint32_t i, sums *q) {
    uint32_t placements = placements_before(s->f, i), half = placements / 2, odd = placements % 2;
    uint32_t down = peer_at(s, s->f->size - half), up = peer_at(s, half), number = placements_sent(s->f, i);
    const location out = buffer(gcoll_out(0, 0));
    send(s, down, q->passing, half + odd, number);
    if (odd && !q->parted) {
        receive_reduce(s, up, q->apart, q->passing, 1, number);
        q->passing = q->apart;
        q->parted = true;
        return;
    }
    receive(s, up, q->inbox, odd, number);
    if (!odd) {
        reduce(s, out, q->kept, q->inbox, 0, q->parted ? s->f->results : number);
        q->kept = out;
    }
    if (q->parted)
        reduce(s, q->apart, q->apart, q->inbox, 1, placements_passing(s->f, i));
    else
        q->passing = q->kept;
}

/* The first factor that saves steps moves the most, so its scratch is enough for all. */
static scratch_buffers reserve_scratch(const group *g, gcoll_builder *b) {
    scratch_buffers scratch = {.inbox = buffer(gcoll_scratch(0)), .apart = buffer(gcoll_scratch(0))};
    const factor *f = first_saving(g);
    if (!f)
        return scratch;
    element_runs runs = elements_at(g, f, 0, placements_in_scratch(f));
    uint64_t count = runs.count[0] + runs.count[1], cycle = runs.begin[0] + runs.count[0] - runs.begin[1];
    scratch.inbox = (location){gcoll_plan_scratch(b, count), runs.begin[0], cycle};
    if (any_sums_part(g))
        scratch.apart = (location){gcoll_plan_scratch(b, count), runs.begin[0], cycle};
    return scratch;
}

static void reduce_factor(const group *g, const factor *f, const scratch_buffers *scratch, gcoll_builder *b,
                          gcoll_ref data) {
    const exchange s = {g, f, b};
    sums q = {buffer(data), buffer(data), scratch->apart, scratch->inbox, false};
    for (uint32_t i = 0; i < f->steps; i++) {
        if (f->results == 1)
            reduce_to_one(&s, i, data);
        else
            reduce_to_several(&s, i, &q);
        gcoll_plan_round(b);
    }
}

/* Takes the steps backwards: the complete lower placements are sent to the upper ones. */
static void spread_factor(const group *g, const factor *f, gcoll_builder *b) {
    const exchange s = {g, f, b};
    const location out = buffer(gcoll_out(0, 0));
    for (uint32_t i = f->steps - f->r; i-- > 0;) {
        uint32_t placements = placements_before(f, i), half = placements / 2, odd = placements % 2;
        send(&s, peer_at(&s, half), out, odd, half);
        receive(&s, peer_at(&s, f->size - half), out, half + odd, half);
        gcoll_plan_round(b);
    }
}

/* ---- Claims and cost ----------------------------------------------------------------------------- */

static uint32_t butterfly_claims(const gcoll_problem *problem) {
    group g = make_group(problem);
    uint32_t claims = gcoll_trivial_claims(problem); /* each sum begins with the rank that it ends at */
    bool neighbours = true;
    for (uint32_t i = 0; i < g.factors; i++)
        neighbours = neighbours && g.factor[i].size == 2 && g.factor[i].stride == (UINT32_C(1) << i);
    return claims | (any_sums_part(&g) ? 0 : GCOLL_CLAIM_RANK_IDENTICAL) |
           (neighbours ? gcoll_claimed_trees(problem, GCOLL_CLAIM_PAIRS) : 0);
}

/* Placements that a rank sends for one factor, both ways. */
static uint64_t factor_sent(const factor *f) {
    uint64_t sent = 0;
    for (uint32_t i = 0; i < f->steps; i++)
        sent += placements_sent(f, i);
    for (uint32_t i = 0; i < f->steps - f->r; i++)
        sent += placements_before(f, i) / 2;
    return sent;
}

/* Chunks that wrap round the end of the vector are sent as two messages. They count as one here, as in the
 * paper: the second leaves directly after the first, so it costs an overhead but no latency. */
static void butterfly_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    group g = make_group(problem);
    *cost = (gcoll_cost){.steps = 2.0 * g.steps - g.r};
    double chunk = (double)g.n / g.size, n = (double)g.n;
    double largest = (double)gcoll_largest_chunk(g.n, g.size);
    for (uint32_t k = 0; k < g.factors; k++) {
        const factor *f = &g.factor[k];
        uint64_t reduced = 0; /* placements */
        double part = (double)f->chunks / f->size;
        bool parted = false;
        for (uint32_t i = 0; i < f->steps; i++) {
            bool odd = placements_before(f, i) % 2 != 0;
            if (f->results == 1 || !(odd || parted))
                reduced += placements_sent(f, i);
            else
                reduced += placements_passing(f, i) + (odd ? 0 : f->results);
            parted |= odd;
        }
        cost->sent += (double)factor_sent(f) * part * chunk;
        cost->reduced += (double)reduced * part * chunk;
    }
    const factor *f = first_saving(&g);
    if (f) {
        double scratch = (double)placements_in_scratch(f) * f->chunks / f->size * largest;
        cost->scratch = (any_sums_part(&g) ? 2 : 1) * (scratch < n ? scratch : n);
    }
}

/* Factors of two ranks each (xor) may lie within hosts. */
static void butterfly_load(const gcoll_problem *problem, gcoll_load *load) {
    group g = make_group(problem);
    const double chunk = (double)g.n / g.size;
    *load = (gcoll_load){.crossing = problem->node ? 1 : 0}; /* all ranks send in every step */
    for (uint32_t k = 0; k < g.factors; k++) {
        const factor *f = &g.factor[k];
        if (f->size != 2 || !gcoll_is_power_of_two(g.size) || !gcoll_bit_is_within(problem, f->stride))
            continue;
        load->within_steps += 2.0 * f->steps - f->r;
        load->within_sent += (double)factor_sent(f) * f->chunks / f->size * chunk;
    }
    load->within_hops = load->within_steps;
}

/* ---- Plan ---------------------------------------------------------------------------------------- */

static void butterfly_plan(const gcoll_problem *problem, gcoll_builder *b) {
    group g = make_group(problem);
    /* Strict rounds, as in the paper. With any other window a message of a later step may overtake one that
     * other ranks wait for: in the simulator, P = 127 then takes up to half longer. Over TCP it made no
     * difference. */
    gcoll_plan_window(b, 0);
    if (g.factors == 0)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), g.n);
    scratch_buffers scratch = reserve_scratch(&g, b);
    gcoll_ref data = gcoll_in(0, 0);
    for (uint32_t i = 0; i < g.factors; i++) {
        reduce_factor(&g, &g.factor[i], &scratch, b, data);
        data = gcoll_out(0, 0);
    }
    for (uint32_t i = g.factors; i-- > 0;)
        spread_factor(&g, &g.factor[i], b);
}

const gcoll_algorithm gcoll_allreduce_group_butterfly_algorithm = {
    .name = "group_butterfly",
    .collective = GCOLL_ALLREDUCE,
    .summary = "butterfly for any P; 2L-r steps, L = ceil(log2 P), from fewest bytes to fewest steps",
    .source = "Kolmakov and Zhang 2020, arXiv:2004.09362, sections 7 to 9",
    .options = options,
    .plan = butterfly_plan,
    .claims = butterfly_claims,
    .cost = butterfly_cost,
    .load = butterfly_load,
    .applies = butterfly_applies,
};
