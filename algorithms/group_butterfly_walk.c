/* algorithms/group_butterfly_walk.c - the groups of the group butterfly as lists of cyclic factors: who is a
 * member with whom, which chunks they share, and how many steps each factor saves. */
#include "algorithms/group_butterfly.h"

enum { OPTION_R, OPTION_GROUP, OPTION_FACTOR };
enum { GROUP_CYCLIC, GROUP_XOR, GROUP_PRODUCT, GROUP_AUTO };

static const char *const groups[] = {"cyclic", "xor", "product", "auto", NULL};

const gcoll_option gcoll_group_butterfly_options[] = {
    {"r", "steps saved, 0 (fewest bytes) to half of them (fewest steps; more is the same); -1: the cheapest",
     GCOLL_BY_COST, GCOLL_BY_COST, GCOLL_GROUP_MAX_STEPS, NULL, false},
    {"group",
     "what placements stand for: cyclic; xor, for powers of two; product; auto is xor where it can be, else "
     "cyclic",
     GROUP_AUTO, 0, 0, groups, false},
    {"factor",
     "with group=product: ranks in a row that make the first factor, a divisor of P; 0: as many as stand in "
     "a "
     "row on one host, if that is the same everywhere, else the largest divisor up to sqrt(P)",
     0, 0, GCOLL_MAX_RANKS, NULL, false},
    {NULL, NULL, 0, 0, 0, NULL, false}};

/* ---- The factors of a product ---------------------------------------------------------------------- */

/* Ranks in a row on one host, if that is the same everywhere; else 0. */
static uint32_t ranks_in_a_row(const gcoll_problem *p) {
    uint32_t ranks = 1;
    if (p->node == NULL)
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

gcoll_status gcoll_group_butterfly_applies(const gcoll_problem *p) {
    int64_t group = p->option[OPTION_GROUP], factor = p->option[OPTION_FACTOR];
    if (group == GROUP_XOR && !gcoll_is_power_of_two(p->size))
        return gcoll_unsupported("group_butterfly: group=xor with %u ranks; allowed are powers of two",
                                 p->size);
    if (group == GROUP_PRODUCT && factor > 0 && p->size % factor != 0)
        return gcoll_unsupported("group_butterfly: factor is %lld; allowed are divisors of %u, the ranks",
                                 (long long)factor, p->size);
    return GCOLL_OK;
}

/* ---- The walk -------------------------------------------------------------------------------------- */

static void add(gcoll_group_walk *w, uint32_t rank, uint32_t size, uint32_t stride) {
    if (size <= 1)
        return;
    uint32_t member = rank / stride % size;
    gcoll_group_factor f = {
        .size = size, .stride = stride, .member = member, .before = rank - member * stride};
    f.steps = gcoll_log2_ceil(size);
    w->steps += f.steps;
    w->factor[w->factors++] = f;
}

/* The steps of the last factor, which are taken back first, are the first to be saved. */
static void save(gcoll_group_walk *w, int64_t r) {
    w->r = r <= 0 ? 0 : r >= w->steps ? w->steps : (uint32_t)r; /* not chosen by anybody: as for 0 */
    uint32_t left = w->r;
    for (uint32_t i = w->factors; i-- > 0;) {
        gcoll_group_factor *f = &w->factor[i];
        f->r = gcoll_group_min(left, f->steps);
        f->results = gcoll_group_placements(f, f->steps - f->r);
        left -= f->r;
    }
}

gcoll_group_runs gcoll_group_at(const gcoll_group_walk *w, const gcoll_group_factor *f, uint32_t first,
                                uint32_t number) {
    if (number == f->size)
        return f->whole;
    uint32_t low = (uint32_t)((2 * (uint64_t)f->size + f->member + 1 - first - number) % f->size);
    uint32_t upper = gcoll_group_min(number, f->size - low), chunk = f->first + low * f->part;
    uint64_t begin = gcoll_chunk_begin(w->n, w->size, chunk),
             from = gcoll_chunk_begin(w->n, w->size, f->first);
    return (gcoll_group_runs){
        {begin, from},
        {gcoll_chunk_begin(w->n, w->size, chunk + upper * f->part) - begin,
         gcoll_chunk_begin(w->n, w->size, f->first + (number - upper) * f->part) - from}};
}

/* What a factor ends with is what the next one begins with: one part of `size`, unless it saves steps. Then
 * all later factors save all they can: they move whole what they are given and need no parts. */
static void share(gcoll_group_walk *w) {
    uint32_t first = 0, chunks = w->size;
    gcoll_group_runs whole = {{0, 0}, {w->n, 0}};
    for (uint32_t i = 0; i < w->factors; i++) {
        gcoll_group_factor *f = &w->factor[i];
        f->first = first;
        f->part = chunks / f->size;
        f->chunks = chunks;
        f->whole = whole;
        whole = gcoll_group_at(w, f, 0, f->results);
        first += f->results == 1 ? f->member * f->part : 0;
        chunks = f->results == f->size ? chunks : f->results * f->part;
    }
}

gcoll_group_walk gcoll_group_walk_make(const gcoll_problem *problem) {
    const uint32_t size = problem->size;
    gcoll_group_walk w = {.n = problem->count, .size = size};
    uint32_t row;
    int64_t group = problem->option[OPTION_GROUP];
    if (group == GROUP_AUTO)
        group = gcoll_is_power_of_two(size) ? GROUP_XOR : GROUP_CYCLIC;
    switch (group) {
    case GROUP_XOR: /* Z_2 x Z_2 x ..., from the highest bit of the rank on */
        for (uint32_t stride = size / 2; stride > 0; stride /= 2)
            add(&w, problem->rank, 2, stride);
        break;
    case GROUP_PRODUCT:
        row = first_factor(problem);
        add(&w, problem->rank, row, 1);
        add(&w, problem->rank, size / row, row);
        break;
    default:
        add(&w, problem->rank, size, 1);
    }
    save(&w, problem->option[OPTION_R]);
    share(&w);
    return w;
}
