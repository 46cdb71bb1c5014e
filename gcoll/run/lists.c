/*
 * gcoll/run/lists.c - runs whose IN or OUT is a list of buffers instead of one.
 *
 * A plan does not know of lists: it sees the buffers, one behind the other, as one vector. When a run is
 * bound, each step whose elements lie within one buffer gets their address and runs like any other step. A
 * step that spans several buffers is split in pieces, which end where a buffer ends. Local steps and received
 * data access the buffers directly. The data of a send are gathered in memory of the run's own, because a
 * message is one piece of memory.
 */
#include <string.h>

#include "gcoll/run/engine.h"

/* A buffer with elements. One more entry follows the last buffer; it begins where the vector ends. */
typedef struct entry {
    uint64_t begin; /* byte of the vector */
    char *at;
} entry;

typedef struct vector {
    entry *entries;
    uint32_t count;
} vector;

struct gcoll_lists {
    uint64_t bytes; /* of this struct and its entries */
    vector in, out;
};

/* ---- Life ----------------------------------------------------------------------------------- */

static uint32_t most_entries(uint32_t listed) {
    return listed > 0 ? listed : 1;
}

gcoll_status gcoll_lists_create(gcoll_run *run) {
    const gcoll_call *call = &run->entry->call;
    const uint64_t in = most_entries(call->in_list), out = most_entries(call->out_list);
    if (call->in_list == 0 && call->out_list == 0)
        return GCOLL_OK;
    const uint64_t bytes = sizeof(gcoll_lists) + (in + out + 2) * sizeof(entry);
    gcoll_lists *lists = gcoll_allocate_zeroed(run->context, bytes);
    if (!lists)
        return GCOLL_ERR_NO_MEMORY;
    lists->bytes = bytes;
    lists->in.entries = (entry *)(lists + 1);
    lists->out.entries = lists->in.entries + in + 1;
    run->lists = lists;
    return GCOLL_OK;
}

void gcoll_lists_destroy(gcoll_run *run) {
    if (run->lists)
        gcoll_release(run->context, run->lists, run->lists->bytes);
}

/* ---- Pieces ----------------------------------------------------------------------------------- */

/* A place in a vector or in other memory: `left` bytes lie at `at`, and the following bytes lie in the next
 * entry. */
typedef struct cursor {
    char *at;
    uint64_t left;
    const entry *next; /* NULL: there is one piece only */
} cursor;

/* The last entry that begins at or before this byte, which lies in the vector. */
static const entry *find(const vector *v, uint64_t byte) {
    uint32_t low = 0, high = v->count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (v->entries[middle].begin <= byte)
            low = middle;
        else
            high = middle;
    }
    return &v->entries[low];
}

static const vector *vector_of(const gcoll_lists *lists, gcoll_ref ref) {
    return ref.space == GCOLL_IN ? &lists->in : &lists->out;
}

/* The place `offset` bytes behind ref. */
static cursor cursor_at(const gcoll_run *run, gcoll_ref ref, uint64_t offset) {
    const uint64_t byte = ref.offset * run->type_bytes + offset;
    if (ref.space == GCOLL_SCRATCH)
        return (cursor){run->scratch + byte, UINT64_MAX, NULL};
    const entry *e = find(vector_of(run->lists, ref), byte);
    return (cursor){e->at + (byte - e->begin), e[1].begin - byte, e + 1};
}

static void advance(cursor *c, uint64_t bytes) {
    c->at += bytes;
    c->left -= bytes;
    if (c->left > 0 || !c->next || !c->next->at)
        return;
    c->at = c->next->at;
    c->left = c->next[1].begin - c->next->begin;
    c->next++;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- Steps in pieces ---------------------------------------------------------------------------- */

void gcoll_lists_run_local(bound_step *bound) {
    const gcoll_run *run = bound->run;
    const gcoll_step *step = bound->step;
    const bool divides = step->kind == GCOLL_STEP_DIVIDE, reduces = step->kind == GCOLL_STEP_REDUCE;
    cursor dst = cursor_at(run, step->dst, 0), a = dst, b = dst;
    if (!divides)
        a = cursor_at(run, step->a, 0);
    if (reduces)
        b = cursor_at(run, step->b, 0);
    for (uint64_t left = step->count * run->type_bytes; left > 0;) {
        const uint64_t bytes = least(least(left, dst.left), least(a.left, b.left));
        if (divides)
            gcoll_run_divide(run, dst.at, bytes / run->type_bytes);
        else if (reduces)
            gcoll_run_reduce(bound, dst.at, a.at, b.at, bytes / run->type_bytes);
        else
            memcpy(dst.at, a.at, bytes);
        left -= bytes;
        if (left == 0)
            return;
        advance(&dst, bytes);
        advance(&a, bytes);
        advance(&b, bytes);
    }
}

void gcoll_lists_gather(bound_step *bound) {
    const gcoll_run *run = bound->run;
    cursor a = cursor_at(run, bound->step->a, 0);
    char *to = bound->message->data;
    for (uint64_t left = bound->message->bytes; left > 0;) {
        const uint64_t bytes = least(left, a.left);
        memcpy(to, a.at, bytes);
        to += bytes;
        left -= bytes;
        if (left > 0)
            advance(&a, bytes);
    }
}

void gcoll_lists_reduce_received(void *arg, uint64_t offset, const void *data, uint64_t bytes) {
    const bound_step *bound = arg;
    cursor dst = cursor_at(bound->run, bound->step->dst, offset);
    cursor a = cursor_at(bound->run, bound->step->a, offset);
    const char *from = data;
    while (bytes > 0) {
        const uint64_t here = least(bytes, least(dst.left, a.left));
        gcoll_run_reduce_received(bound, dst.at, a.at, from, here);
        from += here;
        bytes -= here;
        if (bytes == 0)
            return;
        advance(&dst, here);
        advance(&a, here);
    }
}

/* Puts received bytes where they belong. */
static void scatter(void *arg, uint64_t offset, const void *data, uint64_t bytes) {
    const bound_step *bound = arg;
    cursor dst = cursor_at(bound->run, bound->step->dst, offset);
    const char *from = data;
    while (bytes > 0) {
        const uint64_t here = least(bytes, dst.left);
        memcpy(dst.at, from, here);
        from += here;
        bytes -= here;
        if (bytes > 0)
            advance(&dst, here);
    }
}

/* ---- Binding -------------------------------------------------------------------------------------- */

static void fill_vector(vector *v, const gcoll_list *list, const void *single, uint64_t count,
                        size_t type_bytes) {
    uint32_t used = 0;
    if (list->entries == 0 && count > 0)
        v->entries[used++] = (entry){0, (char *)(uintptr_t)single};
    for (uint32_t k = 0; k < list->entries; k++)
        if (list->offsets[k + 1] > list->offsets[k])
            v->entries[used++] = (entry){list->offsets[k] * type_bytes, (char *)(uintptr_t)list->at[k]};
    v->entries[used] = (entry){count * type_bytes, NULL};
    v->count = used;
}

/* The address of a step's elements, or NULL if they lie in several buffers. */
static char *resolve(const gcoll_run *run, gcoll_ref ref, uint64_t count, bool *is_split) {
    const cursor c = cursor_at(run, ref, 0);
    if (c.left >= count * run->type_bytes)
        return c.at;
    *is_split = true;
    return NULL;
}

static void bind_step(gcoll_run *run, bound_step *bound) {
    const gcoll_step *step = bound->step;
    const bool reads = step->kind != GCOLL_STEP_RECV && step->kind != GCOLL_STEP_DIVIDE;
    bool is_split = false;
    bound->dst = step->kind == GCOLL_STEP_SEND ? NULL : resolve(run, step->dst, step->count, &is_split);
    bound->a = reads ? resolve(run, step->a, step->count, &is_split) : NULL;
    bound->b = step->kind == GCOLL_STEP_REDUCE ? resolve(run, step->b, step->count, &is_split) : NULL;
    bound->is_split = is_split;
    gcoll_message *message = bound->message;
    if (!message)
        return;
    message->data = step->kind == GCOLL_STEP_SEND ? (char *)(uintptr_t)bound->a : bound->dst;
    if (step->kind == GCOLL_STEP_RECV) {
        message->consume = is_split ? scatter : NULL;
        message->consume_arg = bound;
        message->granule = 1;
    } else if (step->kind == GCOLL_STEP_RECV_REDUCE && message->consume) {
        message->consume = is_split ? gcoll_lists_reduce_received : gcoll_run_reduce_whole;
    }
}

void gcoll_lists_bind(gcoll_run *run, const gcoll_buffers *buffers) {
    const gcoll_problem *problem = &run->plan->problem;
    gcoll_lists *lists = run->lists;
    fill_vector(&lists->in, &buffers->in_list, buffers->in[0],
                problem->in_place ? 0 : gcoll_problem_space_count(problem, GCOLL_IN), run->type_bytes);
    fill_vector(&lists->out, &buffers->out_list, buffers->out[0],
                gcoll_problem_space_count(problem, GCOLL_OUT), run->type_bytes);
    for (uint32_t i = 0; i < run->plan->step_count; i++)
        if (run->steps[i].step->count > 0)
            bind_step(run, &run->steps[i]);
}

#if defined(__SANITIZE_ADDRESS__)
static gcoll_status check_vector(const vector *v) {
    gcoll_status status = GCOLL_OK;
    for (uint32_t k = 0; k < v->count && status == GCOLL_OK; k++)
        status = gcoll_run_check_piece(v->entries[k].at, v->entries[k + 1].begin - v->entries[k].begin);
    return status;
}

gcoll_status gcoll_lists_check(const gcoll_lists *lists) {
    gcoll_status status = check_vector(&lists->in);
    return status == GCOLL_OK ? check_vector(&lists->out) : status;
}
#endif
