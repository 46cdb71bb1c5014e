/* algorithms/shared/circulant.c - see circulant.h. */
#include "algorithms/shared/circulant.h"

gcoll_circulant gcoll_circulant_make(const gcoll_problem *problem, uint32_t max_skip) {
    gcoll_circulant c = {.problem = problem, .max_skip = max_skip};
    uint32_t placements = problem->size;
    if (max_skip > 0 && placements / 2 > max_skip)
        c.capped = (placements - max_skip - 2) / max_skip; /* as long as floor(N/2) > max_skip */
    c.steps = c.capped + gcoll_log2_ceil(placements - c.capped * max_skip);
    return c;
}

uint32_t gcoll_circulant_placements(const gcoll_circulant *c, uint32_t i) {
    uint32_t capped = i < c->capped ? i : c->capped;
    uint32_t placements = c->problem->size - capped * c->max_skip;
    for (uint32_t halvings = i - capped; halvings > 0; halvings--)
        placements -= placements / 2;
    return placements;
}

double gcoll_circulant_sent(const gcoll_circulant *c) {
    const double n = (double)c->problem->count, block = (double)gcoll_largest_block(c->problem);
    double sent = 0;
    for (uint32_t i = 0; i < c->steps; i++) {
        uint32_t skip = gcoll_circulant_placements(c, i) - gcoll_circulant_placements(c, i + 1);
        sent += skip * block < n ? skip * block : n;
    }
    return sent;
}

/* ---- Runs of placements ---------------------------------------------------------------------------- */

typedef struct run {
    uint64_t begin[2], count[2]; /* elements; the second part goes round to block 0 */
} run;

static run at_placements(const gcoll_circulant *c, uint32_t first, uint32_t number) {
    const gcoll_problem *p = c->problem;
    uint32_t low = (uint32_t)((2 * (uint64_t)p->size + p->rank + 1 - first - number) % p->size);
    uint32_t upper = number < p->size - low ? number : p->size - low;
    uint64_t begin = gcoll_block_begin(p, low);
    return (run){{begin, 0},
                 {gcoll_block_begin(p, low + upper) - begin, gcoll_block_begin(p, number - upper)}};
}

static gcoll_ref place(const gcoll_circulant *c, gcoll_circulant_work at, uint64_t element) {
    uint64_t shift = element < at.origin ? c->problem->count - at.origin : 0 - at.origin;
    return gcoll_ref_add(at.ref, element + shift); /* modulo 2^64: no count is too large */
}

gcoll_circulant_work gcoll_circulant_work_new(const gcoll_circulant *c, gcoll_builder *b) {
    if (c->steps <= 1) /* the only step reduces from the input to where the result goes */
        return gcoll_circulant_work_in(gcoll_scratch(0));
    run all = at_placements(c, 0, gcoll_circulant_placements(c, 1));
    return (gcoll_circulant_work){gcoll_plan_scratch(b, all.count[0] + all.count[1]), all.begin[0]};
}

double gcoll_circulant_scratch(const gcoll_circulant *c) {
    const gcoll_problem *p = c->problem;
    double n = (double)p->count;
    if (c->steps <= 1)
        return 0;
    uint64_t block = p->offsets ? p->count : gcoll_largest_chunk(p->count, p->size);
    double most = gcoll_circulant_placements(c, 1) * (double)block;
    return most < n ? most : n;
}

/* ---- Reducing -------------------------------------------------------------------------------------- */

typedef struct reducing {
    const gcoll_circulant *c;
    gcoll_builder *b;
    gcoll_circulant_work in, work;
    uint32_t summed; /* placements from here on have sums in `work`, those below still have the input */
} reducing;

/* The place of the partial sums at some placements. A message cannot take some placements from the input and
 * others from `work`, so if it would, the input is copied to `work`. */
static gcoll_circulant_work partial(const reducing *r, uint32_t first, uint32_t number) {
    if (r->summed >= first + number)
        return r->in;
    if (r->summed > first) {
        run at = at_placements(r->c, first, r->summed - first);
        for (int i = 0; i < 2; i++)
            gcoll_plan_copy(r->b, place(r->c, r->work, at.begin[i]), place(r->c, r->in, at.begin[i]),
                            at.count[i]);
    }
    return r->work;
}

static void reduce_step(reducing *r, uint32_t placements, uint32_t kept, gcoll_circulant_work to) {
    const gcoll_circulant *c = r->c;
    uint32_t rank = c->problem->rank, size = c->problem->size, skip = placements - kept;
    uint32_t down = (rank + size - skip) % size, up = (rank + skip) % size;
    gcoll_circulant_work from = partial(r, kept, skip), a = partial(r, kept - skip, skip);
    run out = at_placements(c, kept, skip), in = at_placements(c, kept - skip, skip);
    for (int i = 0; i < 2; i++)
        gcoll_plan_send(r->b, down, place(c, from, out.begin[i]), out.count[i]);
    for (int i = 0; i < 2; i++)
        gcoll_plan_recv_reduce(r->b, up, place(c, to, in.begin[i]), place(c, a, in.begin[i]), in.count[i]);
    if (r->summed > kept - skip)
        r->summed = kept - skip;
}

void gcoll_circulant_reduce_scatter(const gcoll_circulant *c, gcoll_builder *b, gcoll_ref in,
                                    gcoll_circulant_work work, gcoll_ref own) {
    const gcoll_problem *p = c->problem;
    uint64_t begin = gcoll_block_begin(p, p->rank);
    if (c->steps == 0)
        gcoll_plan_copy(b, own, gcoll_ref_add(in, begin), gcoll_block_count(p, p->rank));
    reducing r = {c, b, gcoll_circulant_work_in(in), work, p->size};
    for (uint32_t i = 0; i < c->steps; i++) {
        gcoll_circulant_work to = i + 1 < c->steps ? work : (gcoll_circulant_work){own, begin};
        reduce_step(&r, gcoll_circulant_placements(c, i), gcoll_circulant_placements(c, i + 1), to);
        gcoll_plan_round(b);
    }
}

/* ---- Gathering ------------------------------------------------------------------------------------- */

void gcoll_circulant_allgather(const gcoll_circulant *c, gcoll_builder *b, gcoll_ref own, gcoll_ref out) {
    const gcoll_problem *p = c->problem;
    for (uint32_t i = c->steps; i-- > 0;) {
        uint32_t kept = gcoll_circulant_placements(c, i + 1), skip = gcoll_circulant_placements(c, i) - kept;
        run from = at_placements(c, kept - skip, skip), to = at_placements(c, kept, skip);
        bool first =
            i + 1 ==
            c->steps; /* sends this rank's own block from where it is, without waiting for its copy */
        for (int k = 0; k < 2; k++)
            gcoll_plan_send(b, (p->rank + skip) % p->size, first ? own : gcoll_ref_add(out, from.begin[k]),
                            from.count[k]);
        for (int k = 0; k < 2; k++)
            gcoll_plan_recv(b, (p->rank + p->size - skip) % p->size, gcoll_ref_add(out, to.begin[k]),
                            to.count[k]);
        if (first)
            gcoll_plan_copy(b, gcoll_ref_add(out, gcoll_block_begin(p, p->rank)), own, from.count[0]);
        if (i > 0)
            gcoll_plan_round(b);
    }
    if (c->steps == 0)
        gcoll_plan_copy(b, out, own, p->count);
}
