/*
 * gcoll/plan/verify_races.c - checks that dependencies order all conflicting steps of a rank.
 *
 * Two steps conflict if they touch the same element and one of them writes it. A send reads until it ends and
 * a receive writes from its start, so conflicting steps must not run at the same time. Edges point forward,
 * so the later step must be reachable from the earlier one. Two kinds of pairs suffice: each access and the
 * last writer before it, and each writer and the readers since the previous writer. All other conflicts
 * follow, as reachability is transitive. An interval sweep in step order collects these pairs as questions;
 * reachability answers them, for BLOCK possible sources at a time.
 *
 * Cost for N steps and E edges of one rank: O(N log N) for the sweep; O(E N / 64) word operations at worst
 * for the answers, usually less, since only the steps between a question's two steps are walked; O(N + E)
 * memory. The check is exact and independent of the builder that made the edges.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/plan/verify_internal.h"

#define NONE       UINT32_MAX
#define MOST_LINKS (1U << 26)    /* 512 MiB: a plan of N steps may ask for N * N */
#define WORDS      16u           /* two cache lines a step */
#define BLOCK      (WORDS * 64u) /* sources that one walk answers for */
#define FIRST_ROOM 16u
#define LOOK_AT    8u /* edges of a step to try before a walk must answer */

/* The elements from `begin` up to the next stretch, their last writer, and the readers since. */
typedef struct stretch {
    uint64_t begin;
    uint32_t writer, readers; /* writer: step; readers: index of the first link */
} stretch;

typedef struct line {
    stretch *at;
    uint64_t count, room;
} line_t;

/* An entry of a list of readers. Lists share their tails, so cutting a stretch in two copies nothing. */
typedef struct link {
    uint32_t reader, next;
} link_t;

typedef struct question {
    uint32_t from, to;
} question;

typedef struct races {
    const gcoll_verifier *v;
    const gcoll_plan *plan;
    uint32_t rank;
    line_t *lines; /* by memory */
    uint32_t line_count;
    link_t *links;
    question *questions; /* in order of `to` */
    uint32_t *asked;     /* by step `from`: 1 + the `to` of its latest question */
    uint64_t *reach;     /* WORDS a step */
    uint64_t link_count, link_room, question_count, question_room;
} races;

/* Whether an edge joins the two steps. It answers most questions, and is cheaper than a walk. */
static bool joined(const gcoll_plan *plan, uint32_t from, uint32_t to) {
    const gcoll_step *step = &plan->steps[from];
    for (uint32_t k = 0; k < step->successors && k < LOOK_AT; k++)
        if (plan->successors[step->first_successor + k] == to)
            return true;
    return false;
}

static gcoll_status ask(races *x, uint32_t from, uint32_t to) {
    if (from == NONE || from == to || x->asked[from] == to + 1 || joined(x->plan, from, to))
        return GCOLL_OK;
    gcoll_status status =
        gcoll_verify_reserve(&x->questions, &x->question_room, x->question_count + 1, sizeof(question));
    if (status)
        return status;
    x->asked[from] = to + 1;
    x->questions[x->question_count++] = (question){from, to};
    return GCOLL_OK;
}

/* Index of the last stretch that begins at or before `offset`. */
static uint64_t locate(const line_t *line, uint64_t offset) {
    uint64_t low = 0, high = line->count;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (line->at[middle].begin <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Makes a stretch begin at offset, and returns its index. At the end of the memory, nothing is cut. */
static gcoll_status cut(line_t *line, uint64_t offset, uint64_t size, uint64_t *index) {
    uint64_t i = locate(line, offset);
    *index = i;
    if (line->at[i].begin == offset)
        return GCOLL_OK;
    *index = i + 1;
    if (offset == size)
        return GCOLL_OK;
    gcoll_status status = gcoll_verify_reserve(&line->at, &line->room, line->count + 1, sizeof(stretch));
    if (status)
        return status;
    stretch *at = &line->at[i + 1];
    memmove(at + 1, at, (line->count - i - 1) * sizeof *at);
    at[0] = at[-1];
    at[0].begin = offset;
    line->count++;
    return GCOLL_OK;
}

static gcoll_status sweep_read(races *x, stretch *at, uint32_t step) {
    gcoll_status status = ask(x, at->writer, step);
    if (x->link_count == MOST_LINKS)
        return gcoll_error(
            GCOLL_ERR_NO_MEMORY,
            "rank %u: the plan is too large to verify: its steps read more than %u pieces that "
            "others wrote",
            x->rank, MOST_LINKS);
    if (!status)
        status = gcoll_verify_reserve(&x->links, &x->link_room, x->link_count + 1, sizeof(link_t));
    if (status)
        return status;
    x->links[x->link_count] = (link_t){step, at->readers};
    at->readers = (uint32_t)x->link_count++;
    return GCOLL_OK;
}

static gcoll_status sweep_write(races *x, const stretch *at, uint32_t step) {
    gcoll_status status = ask(x, at->writer, step);
    for (uint32_t k = at->readers; !status && k != NONE; k = x->links[k].next)
        status = ask(x, x->links[k].reader, step);
    return status;
}

static gcoll_status sweep(races *x, uint32_t step, gcoll_verify_access access) {
    const gcoll_problem *problem = &x->plan->problem;
    uint32_t memory = gcoll_verify_memory_index(problem, access.ref);
    uint64_t size = gcoll_verify_memory_size(x->plan, memory), from, to;
    line_t *line = &x->lines[memory];
    gcoll_status status = cut(line, access.ref.offset, size, &from);
    if (!status)
        status = cut(line, access.ref.offset + access.count, size, &to);
    if (status)
        return status;
    for (uint64_t i = from; !status && i < to; i++)
        status = access.write ? sweep_write(x, &line->at[i], step) : sweep_read(x, &line->at[i], step);
    if (status || !access.write)
        return status;
    line->at[from].writer = step;
    line->at[from].readers = NONE;
    memmove(&line->at[from + 1], &line->at[to], (line->count - to) * sizeof(stretch));
    line->count -= to - from - 1;
    return GCOLL_OK;
}

static gcoll_status collect(races *x) {
    const gcoll_plan *plan = x->plan;
    for (uint32_t m = 0; m < x->line_count; m++) {
        line_t *line = &x->lines[m];
        gcoll_status status = gcoll_verify_reserve(&line->at, &line->room, FIRST_ROOM, sizeof(stretch));
        if (status)
            return status;
        line->at[0] = (stretch){0, NONE, NONE};
        line->count = 1;
    }
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_step *step = &plan->steps[i];
        uint32_t n = gcoll_verify_access_count(step);
        for (uint32_t k = 0; k < n; k++) {
            gcoll_status status = sweep(x, i, gcoll_verify_access_at(plan, step, k));
            if (status)
                return status;
        }
    }
    return GCOLL_OK;
}

/* Whether and where two steps conflict. */
static bool conflict(const races *x, uint32_t from, uint32_t to, uint32_t *memory, uint64_t *element) {
    const gcoll_problem *problem = &x->plan->problem;
    const gcoll_step *first = &x->plan->steps[from], *second = &x->plan->steps[to];
    const uint32_t n = gcoll_verify_access_count(first), m = gcoll_verify_access_count(second);
    for (uint32_t k = 0; k < n * m; k++) {
        gcoll_verify_access p = gcoll_verify_access_at(x->plan, first, k / m);
        gcoll_verify_access q = gcoll_verify_access_at(x->plan, second, k % m);
        *memory = gcoll_verify_memory_index(problem, p.ref);
        *element = p.ref.offset > q.ref.offset ? p.ref.offset : q.ref.offset;
        if ((p.write || q.write) && gcoll_verify_memory_index(problem, q.ref) == *memory &&
            *element < p.ref.offset + p.count && *element < q.ref.offset + q.count)
            return true;
    }
    return false;
}

static gcoll_status report_race(const races *x, question q) {
    uint32_t memory = 0;
    uint64_t element = 0;
    char name[GCOLL_VERIFY_TEXT], other[GCOLL_VERIFY_TEXT];
    conflict(x, q.from, q.to, &memory, &element);
    return gcoll_verify_fail(x->v, x->rank, q.to,
                             "races with step %u (%s): both touch %s element %" PRIu64
                             " and this one does not wait for that",
                             q.from, gcoll_verify_describe(&x->plan->steps[q.from], other),
                             gcoll_verify_memory_name(&x->plan->problem, memory, name), element);
}

static uint64_t *row(const races *x, uint32_t step) {
    return &x->reach[(uint64_t)step * WORDS];
}

/* Computes for each step up to `last` from which sources it can be reached. The sources are the steps begin
 * to begin + BLOCK - 1, one bit each. */
static void walk(const races *x, uint32_t begin, uint32_t last) {
    const gcoll_plan *plan = x->plan;
    memset(row(x, begin), 0, (uint64_t)(last - begin + 1) * WORDS * sizeof(uint64_t));
    for (uint32_t i = begin; i <= last; i++) {
        const gcoll_step *step = &plan->steps[i];
        uint64_t *from = row(x, i);
        if (i - begin < BLOCK)
            from[(i - begin) / 64] |= UINT64_C(1) << ((i - begin) % 64);
        for (uint32_t k = 0; k < step->successors; k++) {
            uint32_t next = plan->successors[step->first_successor + k];
            uint64_t *to = row(x, next);
            for (uint32_t w = 0; next <= last && w < WORDS; w++)
                to[w] |= from[w];
        }
    }
}

static gcoll_status answer(const races *x, uint32_t begin) {
    uint32_t last = begin;
    for (uint64_t k = 0; k < x->question_count; k++) {
        question q = x->questions[k];
        if (q.from >= begin && q.from - begin < BLOCK && q.to > last)
            last = q.to;
    }
    if (last == begin)
        return GCOLL_OK;
    walk(x, begin, last);
    for (uint64_t k = 0; k < x->question_count; k++) {
        question q = x->questions[k];
        uint32_t bit = q.from - begin;
        if (q.from >= begin && bit < BLOCK && !(row(x, q.to)[bit / 64] >> (bit % 64) & 1))
            return report_race(x, q);
    }
    return GCOLL_OK;
}

static gcoll_status check_rank(const gcoll_verifier *v, uint32_t rank) {
    const gcoll_plan *plan = v->plans[rank];
    races x = {.v = v, .plan = plan, .rank = rank};
    x.line_count = gcoll_verify_memory_count(&plan->problem);
    x.lines = gcoll_verify_allocate(x.line_count, sizeof *x.lines);
    x.asked = gcoll_verify_allocate(plan->step_count, sizeof *x.asked);
    x.reach = gcoll_verify_allocate((uint64_t)plan->step_count * WORDS, sizeof *x.reach);
    gcoll_status status = x.lines && x.asked && x.reach ? collect(&x) : GCOLL_ERR_NO_MEMORY;
    for (uint32_t begin = 0; !status && begin < plan->step_count; begin += BLOCK) {
        status = answer(&x, begin);
        if (plan->step_count - begin <= BLOCK)
            break; /* before begin + BLOCK can overflow */
    }
    for (uint32_t m = 0; x.lines && m < x.line_count; m++)
        free(x.lines[m].at);
    free(x.reach);
    free(x.questions);
    free(x.links);
    free(x.asked);
    free(x.lines);
    return status;
}

gcoll_status gcoll_verify_races(const gcoll_verifier *v) {
    for (uint32_t r = 0; r < v->size; r++) {
        gcoll_status status = check_rank(v, r);
        if (status)
            return status;
    }
    return GCOLL_OK;
}
