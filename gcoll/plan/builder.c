/* gcoll/plan/builder.c - turns a sequential program of steps into a dependency graph.
 *
 * Each step is entered in the maps of the buffers that it touches (spans.c). The maps name the earlier steps
 * that it must wait for: read after write, write after read, write after write. Edges are collected by the
 * step that waits, and inverted once, in gcoll_builder_finish. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/plan/builder_internal.h"

struct gcoll_builder {
    gcoll_problem problem;
    gcoll_status status; /* the first error; nothing is done after it */
    char error[256];
    gcoll_step *steps;
    uint32_t *waiter; /* by step: the latest step that waits for it; prevents duplicate edges */
    uint32_t step_count, step_capacity;
    uint32_t *edges; /* predecessors: steps[0].dependencies of step 0, then those of step 1, ... */
    uint32_t edge_count, edge_capacity;
    gcoll_peer_counts peers;
    gcoll_spans *maps; /* OUT[k], then SCRATCH; IN is never written unless it is OUT */
    uint64_t scratch;
    uint64_t *offsets; /* the array behind problem.offsets */
    uint32_t *memory;  /* the array behind problem.in_memory and out_memory */
    uint16_t *operands;
    uint32_t operand_count, operand_capacity;
    uint32_t round, window;
    uint32_t fence;            /* the step of the latest fence, or GCOLL_NO_STEP */
    bool is_stated, has_after; /* gcoll_plan_after was called: once, and for the next step: */
    uint32_t *after;
    uint32_t after_count, after_capacity;
    bool drops_joins; /* copies of 0 elements of a plan whose waiting was stated say nothing about data */
};

static void fail(gcoll_builder *b, gcoll_status status) {
    b->status = status;
    snprintf(b->error, sizeof b->error, "%s", gcoll_last_error());
}

static void fail_memory(gcoll_builder *b) {
    fail(b, gcoll_error(GCOLL_ERR_NO_MEMORY, "plan: out of memory after %u steps", b->step_count));
}

/* ---- Creation ------------------------------------------------------------------------------------ */

/* Copies the caller's offsets; the finished plan will own the copy. */
static bool own_offsets(gcoll_builder *b) {
    gcoll_problem *p = &b->problem;
    const size_t entries = p->size + (size_t)1;
    p->node = NULL; /* only the planner needs it */
    p->arrival_ns = NULL;
    p->tour = NULL;
    if (!p->offsets)
        return true;
    b->offsets = malloc(gcoll_problem_offset_entries(p) * sizeof *b->offsets);
    if (!b->offsets)
        return false;
    memcpy(b->offsets, p->offsets, entries * sizeof *b->offsets);
    if (p->recv_offsets) {
        memcpy(b->offsets + entries, p->recv_offsets, entries * sizeof *b->offsets);
        p->recv_offsets = b->offsets + entries;
    }
    p->offsets = b->offsets;
    return true;
}

static uint32_t *own_list(const uint32_t **list, uint32_t entries, uint32_t *to) {
    if (!*list)
        return to;
    memcpy(to, *list, entries * sizeof *to);
    *list = to;
    return to + entries;
}

/* Copies the caller's lists of memories; the finished plan will own the copy. */
static bool own_memory(gcoll_builder *b) {
    gcoll_problem *p = &b->problem;
    const uint64_t entries = gcoll_problem_memory_entries(p);
    if (entries == 0)
        return true;
    b->memory = malloc(entries * sizeof *b->memory);
    if (!b->memory)
        return false;
    own_list(&p->out_memory, p->buffers, own_list(&p->in_memory, p->buffers, b->memory));
    return true;
}

gcoll_status gcoll_builder_create(const gcoll_problem *problem, gcoll_builder **builder) {
    gcoll_status status = gcoll_problem_check(problem);
    if (status != GCOLL_OK)
        return status;
    gcoll_builder *b = calloc(1, sizeof *b);
    if (b)
        b->maps = calloc(problem->buffers + 1u, sizeof *b->maps);
    if (b)
        b->problem = *problem;
    if (!b || !b->maps || !own_offsets(b) || !own_memory(b)) {
        if (b) {
            free(b->maps);
            free(b->offsets);
        }
        free(b);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "plan: out of memory for a builder");
    }
    b->window = GCOLL_WINDOW_UNBOUNDED;
    b->fence = GCOLL_NO_STEP;
    *builder = b;
    return GCOLL_OK;
}

void gcoll_builder_destroy(gcoll_builder *b) {
    if (!b)
        return;
    for (uint32_t i = 0; i <= b->problem.buffers; i++)
        gcoll_spans_clear(&b->maps[i]);
    free(b->maps);
    gcoll_peer_counts_clear(&b->peers);
    free(b->edges);
    free(b->waiter);
    free(b->steps);
    free(b->offsets);
    free(b->memory);
    free(b->operands);
    free(b->after);
    free(b);
}

/* ---- Edges --------------------------------------------------------------------------------------- */

void gcoll_builder_wait_for(gcoll_builder *b, uint32_t from) {
    uint32_t step = b->step_count; /* the one under construction */
    if (b->fence != GCOLL_NO_STEP && from < b->fence)
        from = b->fence; /* the fence waits for `from` already */
    if (from == step || b->waiter[from] == step || b->status != GCOLL_OK)
        return;
    if (b->edge_count == b->edge_capacity) {
        uint32_t capacity = b->edge_capacity ? 2 * b->edge_capacity : 256;
        uint32_t *edges = capacity > b->edge_capacity ? realloc(b->edges, capacity * sizeof *edges) : NULL;
        if (!edges) {
            fail_memory(b);
            return;
        }
        b->edges = edges;
        b->edge_capacity = capacity;
    }
    b->edges[b->edge_count++] = from;
    b->waiter[from] = step;
    b->steps[from].successors++;
    b->steps[step].dependencies++;
}

/* The map of the buffer that `ref` points into; NULL for IN, which no step writes. */
static gcoll_spans *map_of(gcoll_builder *b, gcoll_ref ref) {
    if (ref.space == GCOLL_IN)
        return NULL;
    return &b->maps[ref.space == GCOLL_OUT ? ref.index : b->problem.buffers];
}

static bool same_place(gcoll_ref a, gcoll_ref b) {
    return a.space == b.space && a.index == b.index && a.offset == b.offset;
}

static bool note_read(gcoll_builder *b, const gcoll_step *s, gcoll_ref ref, uint64_t count,
                      bool overwritten) {
    gcoll_spans *map = map_of(b, ref);
    if (!map ||
        (overwritten && same_place(ref, s->dst))) /* the write of this step waits for the same steps */
        return true;
    return gcoll_spans_read(map, b, ref.offset, ref.offset + count, b->step_count);
}

/* The i-th operand of a FOLD. */
static gcoll_ref operand(const gcoll_builder *b, const gcoll_step *s, uint32_t i) {
    gcoll_ref ref = s->a;
    ref.index = b->operands[s->first_operand + i];
    return ref;
}

static bool note_operands(gcoll_builder *b, const gcoll_step *s) {
    for (uint32_t i = 0; i < s->operand_count; i++)
        if (!note_read(b, s, operand(b, s, i), s->count, true))
            return false;
    return true;
}

static bool note_accesses(gcoll_builder *b, const gcoll_step *s) {
    bool writes = s->kind != GCOLL_STEP_SEND,
         reads = s->kind != GCOLL_STEP_RECV && s->kind != GCOLL_STEP_DIVIDE && s->kind != GCOLL_STEP_FOLD;
    if (s->kind == GCOLL_STEP_FOLD && !note_operands(b, s))
        return false;
    const gcoll_problem *p = &b->problem;
    if (reads && !note_read(b, s, s->a, gcoll_step_a_count(p, s), writes))
        return false;
    if (gcoll_step_has_b(s) && !note_read(b, s, s->b, gcoll_step_b_count(p, s), writes))
        return false;
    if (!writes)
        return true;
    return gcoll_spans_write(map_of(b, s->dst), b, s->dst.offset, s->dst.offset + gcoll_step_dst_count(p, s),
                             b->step_count);
}

/* ---- Emission ------------------------------------------------------------------------------------ */

static bool reserve_step(gcoll_builder *b) {
    if (b->step_count < b->step_capacity)
        return true;
    if (b->step_count >= GCOLL_MAX_STEPS) {
        fail(b, gcoll_error(GCOLL_ERR_UNSUPPORTED, "plan: more than %u steps; a larger segment needs fewer",
                            GCOLL_MAX_STEPS));
        return false;
    }
    uint32_t capacity = b->step_capacity ? 2 * b->step_capacity : 64;
    gcoll_step *steps = realloc(b->steps, capacity * sizeof *steps);
    if (steps)
        b->steps = steps;
    uint32_t *waiter = steps ? realloc(b->waiter, capacity * sizeof *waiter) : NULL;
    if (!waiter) {
        fail_memory(b);
        return false;
    }
    b->waiter = waiter;
    b->step_capacity = capacity;
    return true;
}

/* Appends a step that waits for nothing yet, after setting its round and its message number. It stays under
 * construction until step_count counts it. False: there is an error. */
static bool place(gcoll_builder *b, gcoll_step s) {
    if (b->status != GCOLL_OK)
        return false;
    const gcoll_status status = gcoll_step_check(&b->problem, &s, b->step_count, b->scratch, b->operands);
    if (status != GCOLL_OK)
        fail(b, status);
    if (status != GCOLL_OK || !reserve_step(b))
        return false;
    s.round = b->round;
    if (gcoll_step_is_message(&s) && !gcoll_peer_counts_number(&b->peers, &s)) {
        fail_memory(b);
        return false;
    }
    b->steps[b->step_count] = s;
    b->waiter[b->step_count] = GCOLL_NO_STEP;
    return true;
}

/* Appends a step that waits for what the planner said. */
static void emit_stated(gcoll_builder *b, gcoll_step s) {
    if (b->status == GCOLL_OK && !b->has_after)
        gcoll_plan_refuse(
            b, GCOLL_ERR_INTERNAL,
            "plan: step %u (%s) of rank %u: gcoll_plan_after was called before earlier steps, and "
            "not before this one",
            b->step_count, gcoll_step_kind_name(s.kind), b->problem.rank);
    if (!place(b, s))
        return;
    for (uint32_t i = 0; i < b->after_count; i++)
        gcoll_builder_wait_for(b, b->after[i]);
    b->has_after = false;
    if (b->status == GCOLL_OK)
        b->step_count++;
}

/* Appends a step and finds what it waits for. */
static void emit(gcoll_builder *b, gcoll_step s) {
    if (b->is_stated) {
        emit_stated(b, s);
        return;
    }
    if (!place(b, s))
        return;
    if (s.count > 0 && !note_accesses(b, &s))
        fail_memory(b);
    if (b->fence != GCOLL_NO_STEP && b->steps[b->step_count].dependencies == 0)
        gcoll_builder_wait_for(b, b->fence);
    if (b->status == GCOLL_OK)
        b->step_count++;
}

/* In place, IN and OUT are one memory, so all references to it become references to OUT. */
static gcoll_ref canonical(const gcoll_builder *b, gcoll_ref ref) {
    if (!b->problem.in_place || ref.space == GCOLL_SCRATCH)
        return ref;
    ref.offset +=
        ref.space == GCOLL_IN ? gcoll_problem_in_shift(&b->problem) : gcoll_problem_out_shift(&b->problem);
    ref.space = GCOLL_OUT;
    return ref;
}

static void message(gcoll_builder *b, gcoll_step_kind kind, uint32_t peer, gcoll_ref dst, gcoll_ref a,
                    uint64_t count, bool received_first) {
    gcoll_step s = {.kind = (uint8_t)kind, .peer = peer, .count = count, .received_first = received_first};
    s.dst = canonical(b, dst);
    s.a = canonical(b, a);
    emit(b, s);
}

static const gcoll_ref nowhere = {GCOLL_OUT, 0, 0};

static void local(gcoll_builder *b, gcoll_step_kind kind, gcoll_ref dst, gcoll_ref a, gcoll_ref x,
                  uint64_t count) {
    gcoll_step s = {.kind = (uint8_t)kind, .count = count};
    s.dst = canonical(b, dst);
    s.a = canonical(b, a);
    s.b = canonical(b, x);
    if (count == 0 || (kind == GCOLL_STEP_COPY && same_place(s.dst, s.a))) {
        if (!b->is_stated)
            return;
        s = (gcoll_step){.kind = GCOLL_STEP_COPY, .dst = nowhere, .a = nowhere};
    }
    emit(b, s);
}

void gcoll_plan_send(gcoll_builder *b, uint32_t peer, gcoll_ref a, uint64_t count) {
    if (count > 0 || b->is_stated)
        message(b, GCOLL_STEP_SEND, peer, nowhere, a, count, false);
}

void gcoll_plan_recv(gcoll_builder *b, uint32_t peer, gcoll_ref dst, uint64_t count) {
    if (count > 0 || b->is_stated)
        message(b, GCOLL_STEP_RECV, peer, dst, nowhere, count, false);
}

void gcoll_plan_recv_reduce(gcoll_builder *b, uint32_t peer, gcoll_ref dst, gcoll_ref a, uint64_t count) {
    if (count > 0)
        message(b, GCOLL_STEP_RECV_REDUCE, peer, dst, a, count, false);
    else
        gcoll_plan_recv(b, peer, dst, 0);
}

void gcoll_plan_recv_reduce_left(gcoll_builder *b, uint32_t peer, gcoll_ref dst, gcoll_ref a,
                                 uint64_t count) {
    if (count > 0)
        message(b, GCOLL_STEP_RECV_REDUCE, peer, dst, a, count, true);
    else
        gcoll_plan_recv(b, peer, dst, 0);
}

void gcoll_plan_reduce(gcoll_builder *b, gcoll_ref dst, gcoll_ref a, gcoll_ref x, uint64_t count) {
    local(b, GCOLL_STEP_REDUCE, dst, a, x, count);
}

void gcoll_plan_copy(gcoll_builder *b, gcoll_ref dst, gcoll_ref a, uint64_t count) {
    local(b, GCOLL_STEP_COPY, dst, a, nowhere, count);
}

void gcoll_plan_divide(gcoll_builder *b, gcoll_ref dst, uint64_t count) {
    local(b, GCOLL_STEP_DIVIDE, dst, nowhere, nowhere, count);
}

void gcoll_plan_signal(gcoll_builder *b, uint32_t peer) {
    message(b, GCOLL_STEP_SEND, peer, nowhere, nowhere, 0, false);
}

void gcoll_plan_await(gcoll_builder *b, uint32_t peer) {
    message(b, GCOLL_STEP_RECV, peer, nowhere, nowhere, 0, false);
}

void gcoll_plan_round(gcoll_builder *b) {
    gcoll_plan_round_at_least(b, b->round + 1);
}

void gcoll_plan_round_at_least(gcoll_builder *b, uint32_t round) {
    if (b->status != GCOLL_OK || round <= b->round)
        return;
    if (round == UINT32_MAX) /* the number of rounds, round + 1, would overflow */
        fail(b, gcoll_error(GCOLL_ERR_INTERNAL, "plan: too many rounds"));
    else
        b->round = round;
}

void gcoll_plan_refuse(gcoll_builder *b, gcoll_status status, const char *format, ...) {
    if (b->status != GCOLL_OK)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(b->error, sizeof b->error, format, arguments);
    va_end(arguments);
    b->status = status;
}

/* A fence is an empty copy. It waits for every step that has no successor yet, hence for all steps before
 * it; every later step waits for it. So a fence costs one edge a step, not one for each pair of steps. */
void gcoll_plan_after(gcoll_builder *b, const uint32_t *after, uint32_t count) {
    if (b->status != GCOLL_OK)
        return;
    if (!b->is_stated && b->step_count > 0)
        gcoll_plan_refuse(
            b, GCOLL_ERR_INTERNAL,
            "plan: rank %u: gcoll_plan_after was called before step %u, and not before earlier ones",
            b->problem.rank, b->step_count);
    for (uint32_t i = 0; i < count; i++)
        if (after[i] >= b->step_count)
            gcoll_plan_refuse(b, GCOLL_ERR_INTERNAL,
                              "plan: rank %u: step %u is to wait for step %u; allowed are earlier ones",
                              b->problem.rank, b->step_count, after[i]);
    if (b->status != GCOLL_OK)
        return;
    if (count > b->after_capacity) {
        uint32_t *more = realloc(b->after, count * sizeof *more);
        if (!more) {
            fail_memory(b);
            return;
        }
        b->after = more;
        b->after_capacity = count;
    }
    if (count > 0)
        memcpy(b->after, after, count * sizeof *after);
    b->after_count = count;
    b->is_stated = b->has_after = true;
}

void gcoll_plan_fence(gcoll_builder *b) {
    uint32_t from = b->fence == GCOLL_NO_STEP ? 0 : b->fence;
    if (b->is_stated)
        gcoll_plan_refuse(b, GCOLL_ERR_INTERNAL,
                          "plan: rank %u: a fence in a plan that calls gcoll_plan_after", b->problem.rank);
    if (b->status != GCOLL_OK || from == b->step_count)
        return;
    emit(b, (gcoll_step){.kind = GCOLL_STEP_COPY, .dst = nowhere, .a = nowhere});
    if (b->status != GCOLL_OK)
        return;
    uint32_t fence = --b->step_count; /* under construction again */
    for (uint32_t i = from; i < fence; i++)
        if (b->steps[i].successors == 0)
            gcoll_builder_wait_for(b, i);
    b->step_count = fence + 1;
    b->fence = fence;
}

gcoll_ref gcoll_plan_scratch(gcoll_builder *b, uint64_t count) {
    gcoll_ref start = gcoll_scratch(b->scratch);
    if (__builtin_add_overflow(b->scratch, count, &b->scratch) && b->status == GCOLL_OK)
        fail(b, gcoll_error(GCOLL_ERR_INVALID, "plan: scratch of %llu more elements overflows",
                            (unsigned long long)count));
    return start;
}

void gcoll_plan_window(gcoll_builder *b, uint32_t window) {
    b->window = window;
}

/* ---- Finishing ----------------------------------------------------------------------------------- */

/* Inverts the edges: from the predecessors of each step to its successors. */
static void fill_successors(gcoll_builder *b, uint32_t *successors) {
    uint32_t total = 0;
    for (uint32_t i = 0; i < b->step_count; i++) {
        b->steps[i].first_successor = total;
        total += b->steps[i].successors;
        b->steps[i].successors = 0;
    }
    const uint32_t *edge = b->edges;
    for (uint32_t i = 0; i < b->step_count; i++)
        for (uint32_t d = 0; d < b->steps[i].dependencies; d++, edge++) {
            gcoll_step *from = &b->steps[*edge];
            successors[from->first_successor + from->successors++] = i;
        }
}

gcoll_status gcoll_builder_finish(gcoll_builder *b, gcoll_plan **plan) {
    gcoll_status status = b->status;
    gcoll_plan *p = NULL;
    if (status != GCOLL_OK) {
        gcoll_error(status, "%s", b->error);
        goto out;
    }
    p = calloc(1, sizeof *p);
    uint32_t *successors = malloc((b->edge_count + 1u) * sizeof *successors);
    if (!p || !successors) {
        free(successors);
        free(p);
        status = gcoll_error(GCOLL_ERR_NO_MEMORY, "plan: out of memory for %u edges", b->edge_count);
        goto out;
    }
    fill_successors(b, successors);
    p->problem = b->problem;
    p->step_count = b->step_count;
    p->successor_count = b->edge_count;
    p->rounds = b->step_count ? b->steps[b->step_count - 1].round + 1 : 0;
    p->window = b->window;
    p->divisor = 1;
    p->is_stated = b->is_stated;
    p->scratch = b->scratch;
    p->successors = successors;
    gcoll_step *fitted = b->step_count ? realloc(b->steps, b->step_count * sizeof *fitted) : NULL;
    p->steps = fitted ? fitted : b->steps; /* plans are cached: give back the spare room */
    b->steps = NULL;
    p->offsets = b->offsets;
    b->offsets = NULL;
    p->memory = b->memory;
    b->memory = NULL;
    p->operands = b->operands;
    p->operand_count = b->operand_count;
    b->operands = NULL;
    *plan = p;
out:
    gcoll_builder_destroy(b);
    return status;
}

/* ---- Folds ---------------------------------------------------------------------------------------- */

static bool reserve_operands(gcoll_builder *b, uint32_t more) {
    if (more <= b->operand_capacity - b->operand_count)
        return true;
    uint32_t capacity = 2 * b->operand_capacity + more;
    uint16_t *operands = realloc(b->operands, capacity * sizeof *operands);
    if (!operands) {
        fail_memory(b);
        return false;
    }
    b->operands = operands;
    b->operand_capacity = capacity;
    return true;
}

/* Keeps the operands of a fold; *first is where they lie. Segments of one fold have the same operands, which
 * are kept once. */
static bool keep_operands(gcoll_builder *b, const uint16_t *operands, uint32_t operand_count,
                          uint32_t *first) {
    if (!reserve_operands(b, operand_count))
        return false;
    *first = b->operand_count - operand_count;
    if (b->operand_count < operand_count ||
        memcmp(b->operands + *first, operands, operand_count * sizeof *operands) != 0) {
        *first = b->operand_count;
        memcpy(b->operands + *first, operands, operand_count * sizeof *operands);
        b->operand_count += operand_count;
    }
    return true;
}

void gcoll_builder_fold(gcoll_builder *b, gcoll_ref dst, gcoll_ref a, const uint16_t *operands,
                        uint32_t operand_count, uint64_t count) {
    uint32_t first;
    if (count == 0 || b->status != GCOLL_OK || !keep_operands(b, operands, operand_count, &first))
        return;
    emit(b, (gcoll_step){.kind = GCOLL_STEP_FOLD,
                         .operand_count = operand_count,
                         .first_operand = first,
                         .count = count,
                         .dst = dst,
                         .a = a});
}

/* ---- For plans that are read --------------------------------------------------------------------- */

void gcoll_plan_step(gcoll_builder *b, const gcoll_step *step, const uint16_t *operands,
                     const uint32_t *after, uint32_t after_count) {
    gcoll_step s = *step;
    gcoll_plan_round_at_least(b, s.round);
    s.dependencies = s.first_successor = s.successors = 0;
    if (b->status != GCOLL_OK ||
        (s.kind == GCOLL_STEP_FOLD && !keep_operands(b, operands, s.operand_count, &s.first_operand)) ||
        !place(b, s))
        return;
    for (uint32_t i = 0; i < after_count; i++)
        gcoll_builder_wait_for(b, after[i]);
    if (b->status == GCOLL_OK)
        b->step_count++;
}

gcoll_ref gcoll_plan_canonical(const gcoll_builder *b, gcoll_ref ref) {
    return canonical(b, ref);
}

/* ---- For passes ---------------------------------------------------------------------------------- */

gcoll_status gcoll_builder_create_like(const gcoll_plan *plan, const gcoll_problem *problem,
                                       gcoll_builder **builder) {
    gcoll_status status = gcoll_builder_create(problem, builder);
    if (status != GCOLL_OK)
        return status;
    (*builder)->scratch = plan->scratch;
    (*builder)->window = plan->window;
    (*builder)->drops_joins = plan->is_stated;
    return GCOLL_OK;
}

uint32_t gcoll_builder_next_round(const gcoll_builder *b) {
    return b->step_count == 0 ? b->round : b->round + 1;
}

void gcoll_builder_emit(gcoll_builder *b, const gcoll_step *step, uint64_t from, uint64_t count) {
    gcoll_plan_round_at_least(b, step->round);
    if (count == 0 && step->kind == GCOLL_STEP_COPY) {
        if (!b->drops_joins)
            gcoll_plan_fence(b);
        return;
    }
    gcoll_step s = *step;
    if (s.kind == GCOLL_STEP_FOLD || (gcoll_step_is_codec(&s) && count != s.count)) {
        gcoll_plan_refuse(b, GCOLL_ERR_INTERNAL,
                          "plan: a plan that is staged or encoded can be changed by no pass");
        return;
    }
    s.dependencies = s.first_successor = s.successors = 0;
    s.count = count;
    s.dst.offset += from;
    s.a.offset += from;
    s.b.offset += from;
    if (s.kind == GCOLL_STEP_COPY && same_place(s.dst, s.a))
        return;
    emit(b, s);
}
