/*
 * tools/mscclpp_plan.c - makes gcoll's plans of an execution plan of MSCCL++.
 *
 * In MSCCL++ a GPU writes and reads the memory of another one, and signals tell when that is done. In a plan
 * both ends have a step: a put is a send here and a receive there, a read is a send there and a receive here.
 * A signal that follows puts on its channel is carried by their messages; any other one is an empty message.
 *
 * The operations are put in an order in which they could run. On the way the reader finds which operation
 * comes before which: by the order of a block, `deps`, barriers, and signals with their waits. Vector clocks
 * hold that: how many operations of each block come before. A step waits for the step before it in its block,
 * and for all steps on the same elements whose operation comes before its own, and for no others. So the
 * verifier finds a race where the schedule has one.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mscclpp.h"

#define NO_STEP     UINT32_MAX
#define MOST_CLOCKS ((uint64_t)1 << 26) /* operations times blocks: 256 MB */
#define MOST_LOOKS  ((uint64_t)1 << 28) /* pairs of accesses of a GPU that are compared: some seconds */

/* A step that reads or writes elements. */
typedef struct access {
    gcoll_ref place; /* as finished plans name it */
    uint64_t count;
    bool writes;
    uint32_t step, op; /* op: of all GPUs */
} access;

typedef struct numbers {
    uint32_t *at;
    uint32_t count, room;
} numbers;

/* Puts on a channel that no signal has followed. */
typedef struct put_group {
    numbers receives;
    const mscclpp_op *last; /* of these operations */
} put_group;

/* What a signal tells, from when it is given until it is waited for. */
typedef struct told {
    uint32_t op; /* that signalled */
    const mscclpp_op *from;
    numbers gates; /* steps of the receiver after which a waiting one may go on */
    struct told *next;
} told;

typedef struct queue {
    told *first, *last;
} queue;

/* A rank whose plan is being made. */
typedef struct rank_plan {
    tool_plan_draft *draft;
    access *accesses;
    uint32_t access_count, access_room, line_room;
} rank_plan;

/* A block that is being ordered. */
typedef struct progress {
    uint32_t gpu, first_op, next, count; /* first_op: of all GPUs */
    uint32_t gate;                       /* step after which the next one may run; NO_STEP: at once */
    const mscclpp_block *block;
} progress;

typedef struct making {
    field_reader *fields;
    const mscclpp_schedule *schedule;
    tool_plan_file *to;
    uint64_t per_chunk;
    rank_plan *ranks;
    progress *blocks;
    uint32_t *first_block; /* by GPU, of all blocks */
    uint32_t block_count, op_count;
    uint32_t *clocks; /* by operation and block */
    uint32_t *gates;  /* by operation: the gate of its block behind it */
    queue *signals;   /* by channel of all GPUs, those of its GPU: given to it, and not waited for */
    put_group *puts;  /* by channel of all GPUs */
    uint32_t *first_channel;
    numbers after;
    uint32_t round;
    uint64_t looks;    /* at accesses */
    bool failed;       /* no memory, or */
    bool is_too_large; /* too many looks */
} making;

static bool cannot_go_on(const making *m) {
    if (m->is_too_large)
        return field_wrong(m->fields,
                           "has GPUs with too many accesses to memory: allowed are up to %" PRIu64
                           " pairs of them",
                           MOST_LOOKS);
    return field_wrong(m->fields, "out of memory");
}

static void add_number(making *m, numbers *to, uint32_t number) {
    if (to->count == to->room) {
        uint32_t *more = realloc(to->at, (2 * (size_t)to->room + 8) * sizeof *more);
        if (!more) {
            m->failed = true;
            return;
        }
        to->at = more;
        to->room = 2 * to->room + 8;
    }
    to->at[to->count++] = number;
}

/* ---- Which operation comes before which ---------------------------------------------------------------- */

static uint32_t *clock_of(const making *m, uint32_t op) {
    return m->clocks + (size_t)op * m->block_count;
}

static void join_clock(const making *m, uint32_t op, uint32_t earlier) {
    uint32_t *to = clock_of(m, op);
    const uint32_t *from = clock_of(m, earlier);
    for (uint32_t b = 0; b < m->block_count; b++)
        if (from[b] > to[b])
            to[b] = from[b];
}

/* The block of an operation, which is the last that begins at or before it. */
static uint32_t block_of(const making *m, uint32_t op) {
    uint32_t low = 0, high = m->block_count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (m->blocks[middle].first_op <= op)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Whether the operation is `later`, or comes before it. */
static bool comes_before(const making *m, uint32_t op, uint32_t later) {
    const uint32_t b = block_of(m, op);
    return clock_of(m, later)[b] > op - m->blocks[b].first_op;
}

/* ---- Steps --------------------------------------------------------------------------------------------- */

/* An operation that is being written down. */
typedef struct writing {
    making *m;
    progress *p;
    const mscclpp_op *op;
    uint32_t number; /* of all GPUs */
} writing;

static gcoll_ref place_on(const writing *w, uint32_t rank, gcoll_ref chunk) {
    chunk.offset *= w->m->per_chunk;
    return tool_draft_canonical(w->m->ranks[rank].draft, chunk);
}

static gcoll_ref remote(const writing *w, mscclpp_end end) {
    const mscclpp_channel *channel = &w->m->schedule->gpus[w->p->gpu].channels[end.channel];
    return place_on(w, channel->peer, gcoll_ref_make((gcoll_space)channel->remote, 0, end.offset));
}

static bool overlap(const access *a, gcoll_ref b, uint64_t count) {
    return a->place.space == b.space && a->place.offset < b.offset + count &&
           b.offset < a->place.offset + a->count;
}

/* Adds the earlier steps on these elements, if one of the two writes. */
static void wait_for_elements(const writing *w, const rank_plan *r, gcoll_ref place, uint64_t count,
                              bool writes) {
    w->m->looks += r->access_count;
    if (w->m->looks > MOST_LOOKS)
        w->m->failed = w->m->is_too_large = true;
    for (uint32_t i = 0; i < r->access_count && !w->m->failed; i++) {
        const access *a = &r->accesses[i];
        const uint32_t known = w->m->after.count;
        if ((writes || a->writes) && overlap(a, place, count) &&
            (known == 0 || w->m->after.at[known - 1] != a->step) && comes_before(w->m, a->op, w->number))
            add_number(w->m, &w->m->after, a->step);
    }
}

static void note(const writing *w, rank_plan *r, gcoll_ref place, uint64_t count, bool writes,
                 uint32_t step) {
    if (r->access_count == r->access_room) {
        access *more = realloc(r->accesses, (2 * (size_t)r->access_room + 64) * sizeof *more);
        if (!more) {
            w->m->failed = true;
            return;
        }
        r->accesses = more;
        r->access_room = 2 * r->access_room + 64;
    }
    r->accesses[r->access_count++] = (access){place, count, writes, step, w->number};
}

/* Appends a step to a rank's plan, which waits for `gate` and for what its elements need. */
static uint32_t add_step(const writing *w, uint32_t rank, gcoll_step step, uint32_t gate) {
    making *m = w->m;
    rank_plan *r = &m->ranks[rank];
    const bool reads = step.kind != GCOLL_STEP_RECV && step.count > 0;
    const bool writes = step.kind != GCOLL_STEP_SEND && step.count > 0;
    /* NOLINTBEGIN(clang-analyzer-core.NullDereference, clang-analyzer-unix.Malloc): begin_drafts has made the
     * draft, and the lines have room before they are written */
    const uint32_t number = r->draft->step_count;
    step.round = m->round;
    if (!writes)
        step.dst = gcoll_out(0, 0);
    if (!reads)
        step.a = gcoll_out(0, 0);
    if (step.kind != GCOLL_STEP_REDUCE)
        step.b = gcoll_out(0, 0);
    if (gate != NO_STEP)
        add_number(m, &m->after, gate);
    if (reads)
        wait_for_elements(w, r, step.a, step.count, false);
    if (step.kind == GCOLL_STEP_REDUCE)
        wait_for_elements(w, r, step.b, step.count, false);
    if (writes)
        wait_for_elements(w, r, step.dst, step.count, true);
    if (number == r->line_room) {
        uint32_t *more = realloc(m->to->lines[rank], (2 * (size_t)number + 64) * sizeof *more);
        if (!more) {
            m->failed = true;
            return number;
        }
        m->to->lines[rank] = more;
        r->line_room = 2 * number + 64;
    }
    m->to->lines[rank][number] = w->op->line;
    tool_draft_step(r->draft, &step, NULL, m->after.at, m->after.count);
    m->after.count = 0;
    if (reads)
        note(w, r, step.a, step.count, false, number);
    if (step.kind == GCOLL_STEP_REDUCE)
        note(w, r, step.b, step.count, false, number);
    if (writes)
        note(w, r, step.dst, step.count, true, number);
    m->failed = m->failed || r->draft->failed;
    return number;
    /* NOLINTEND(clang-analyzer-core.NullDereference, clang-analyzer-unix.Malloc) */
}

static uint64_t count_of(const writing *w) {
    return w->op->chunks * w->m->per_chunk;
}

/* A step of this GPU that the next one of its block waits for. */
static void add_body(const writing *w, gcoll_step step) {
    w->p->gate = add_step(w, w->p->gpu, step, w->p->gate);
}

/* Lets the block go on when `gates` are done, too: an empty step joins them. */
static void join_gates(const writing *w, const numbers *gates) {
    const uint32_t own = w->p->gate;
    uint32_t others = 0, last = own;
    for (uint32_t i = 0; i < gates->count; i++)
        if (gates->at[i] != NO_STEP && gates->at[i] != own) {
            others++;
            last = gates->at[i];
        }
    if (others + (own != NO_STEP) <= 1) {
        w->p->gate = last;
        return;
    }
    for (uint32_t i = 0; i < gates->count; i++)
        if (gates->at[i] != NO_STEP && gates->at[i] != own)
            add_number(w->m, &w->m->after, gates->at[i]);
    add_body(w, (gcoll_step){.kind = GCOLL_STEP_COPY});
}

/* ---- Messages ------------------------------------------------------------------------------------------ */

static const mscclpp_channel *channel_of(const writing *w, mscclpp_end end) {
    return &w->m->schedule->gpus[w->p->gpu].channels[end.channel];
}

/* remote = local: a send here, a receive there. */
static void put(const writing *w, mscclpp_end to, gcoll_ref from) {
    const uint32_t peer = channel_of(w, to)->peer;
    add_step(w, w->p->gpu,
             (gcoll_step){.kind = GCOLL_STEP_SEND, .peer = peer, .count = count_of(w), .a = from},
             w->p->gate);
    const uint32_t receive = add_step(
        w, peer,
        (gcoll_step){.kind = GCOLL_STEP_RECV, .peer = w->p->gpu, .count = count_of(w), .dst = remote(w, to)},
        NO_STEP);
    put_group *puts = &w->m->puts[w->m->first_channel[w->p->gpu] + to.channel];
    add_number(w->m, &puts->receives, receive);
    puts->last = w->op;
}

/* dst = remote, or dst = a op remote: a send there, a receive here. */
static void read(const writing *w, mscclpp_end from, gcoll_step_kind kind, gcoll_ref dst, gcoll_ref a) {
    const uint32_t peer = channel_of(w, from)->peer;
    add_step(
        w, peer,
        (gcoll_step){.kind = GCOLL_STEP_SEND, .peer = w->p->gpu, .count = count_of(w), .a = remote(w, from)},
        NO_STEP);
    add_body(w, (gcoll_step){.kind = (uint8_t)kind, .peer = peer, .count = count_of(w), .dst = dst, .a = a});
}

static void signal_one(const writing *w, mscclpp_end end) {
    making *m = w->m;
    const mscclpp_channel *channel = channel_of(w, end);
    queue *q = &m->signals[m->first_channel[channel->peer] + channel->other];
    numbers *puts = &m->puts[m->first_channel[w->p->gpu] + end.channel].receives;
    told *signal = calloc(1, sizeof *signal);
    if (!signal) {
        m->failed = true;
        return;
    }
    if (puts->count == 0) {
        add_step(w, w->p->gpu, (gcoll_step){.kind = GCOLL_STEP_SEND, .peer = channel->peer}, w->p->gate);
        add_number(
            m, puts,
            add_step(w, channel->peer, (gcoll_step){.kind = GCOLL_STEP_RECV, .peer = w->p->gpu}, NO_STEP));
    }
    *signal = (told){.op = w->number, .from = w->op, .gates = *puts};
    *puts = (numbers){0};
    *(q->last ? &q->last->next : &q->first) = signal;
    q->last = signal;
}

static void take_signal(const writing *w, mscclpp_end end) {
    queue *q = &w->m->signals[w->m->first_channel[w->p->gpu] + end.channel];
    told *signal = q->first;
    join_clock(w->m, w->number, signal->op);
    join_gates(w, &signal->gates);
    q->first = signal->next;
    if (!q->first)
        q->last = NULL;
    free(signal->gates.at);
    free(signal);
}

/* ---- Operations ---------------------------------------------------------------------------------------- */

/* dst = src op srcs ...; or a copy if there is nothing to reduce. */
static void reduce_here(const writing *w, gcoll_ref dst, gcoll_ref src) {
    for (uint32_t i = 0; i < w->op->src_count; i++)
        add_body(w, (gcoll_step){.kind = GCOLL_STEP_REDUCE,
                                 .count = count_of(w),
                                 .dst = dst,
                                 .a = i ? dst : src,
                                 .b = place_on(w, w->p->gpu, w->op->srcs[i])});
}

static void write_op(const writing *w) {
    const mscclpp_op *op = w->op;
    const uint32_t gpu = w->p->gpu;
    const gcoll_ref src = place_on(w, gpu, op->src), dst = place_on(w, gpu, op->dst);
    const bool puts = op->type == MSCCLPP_PUT || op->type == MSCCLPP_PWS || op->type == MSCCLPP_PWSF;
    if (op->type == MSCCLPP_COPY && !(src.space == dst.space && src.offset == dst.offset))
        add_body(w, (gcoll_step){.kind = GCOLL_STEP_COPY, .count = count_of(w), .dst = dst, .a = src});
    if (op->type == MSCCLPP_RE || op->type == MSCCLPP_RS)
        reduce_here(w, dst, src);
    for (uint32_t i = 0; i < op->ins && op->type == MSCCLPP_GET; i++)
        read(w, op->in[i], GCOLL_STEP_RECV, place_on(w, gpu, op->dsts[i]), src);
    for (uint32_t i = 0; i < op->ins && (op->type == MSCCLPP_RRC || op->type == MSCCLPP_RRCS); i++)
        read(w, op->in[i], GCOLL_STEP_RECV_REDUCE, dst, i ? dst : src);
    for (uint32_t i = 0; i < op->outs && op->type != MSCCLPP_SIGNAL; i++)
        put(w, op->out[i], puts ? place_on(w, gpu, op->srcs[i]) : dst);
    for (uint32_t i = 0; i < op->outs && (op->type == MSCCLPP_SIGNAL || (puts && op->type != MSCCLPP_PUT));
         i++)
        signal_one(w, op->out[i]);
    for (uint32_t i = 0; i < op->ins && op->type == MSCCLPP_WAIT; i++)
        take_signal(w, op->in[i]);
}

/* ---- An order in which the operations could run ----------------------------------------------------------
 */

static const mscclpp_op *next_op(const making *m, const progress *p) {
    return &m->schedule->gpus[p->gpu].ops[p->block->first + p->next];
}

/* The block of a GPU. */
static progress *block_at(const making *m, uint32_t gpu, uint32_t block) {
    return &m->blocks[m->first_block[gpu] + block];
}

static bool is_at_barrier(const making *m, const progress *p, uint32_t barrier) {
    return p->next < p->count && next_op(m, p)->type == MSCCLPP_BARRIER && next_op(m, p)->barrier == barrier;
}

/* The blocks of a GPU that stand at a barrier. */
static uint32_t count_at_barrier(const making *m, uint32_t gpu, uint32_t barrier) {
    uint32_t count = 0;
    for (uint32_t b = 0; b < m->schedule->gpus[gpu].block_count; b++)
        count += is_at_barrier(m, block_at(m, gpu, b), barrier);
    return count;
}

/* How many of the waits of an operation on one channel, its own included, need a signal. */
static bool has_signals(const making *m, const progress *p, const mscclpp_op *op) {
    for (uint32_t i = 0; i < op->ins; i++) {
        uint32_t needed = 0;
        for (uint32_t k = 0; k <= i; k++)
            needed += op->in[k].channel == op->in[i].channel;
        for (const told *t = m->signals[m->first_channel[p->gpu] + op->in[i].channel].first; t && needed > 0;
             t = t->next)
            needed--;
        if (needed > 0)
            return false;
    }
    return true;
}

static const mscclpp_dep *missing_dep(const making *m, const progress *p, const mscclpp_op *op) {
    for (uint32_t d = 0; d < op->deps; d++) {
        const mscclpp_dep *dep = &m->schedule->gpus[p->gpu].deps[op->first_dep + d];
        if (block_at(m, p->gpu, dep->block)->next <= dep->step)
            return dep;
    }
    return NULL;
}

static bool is_ready(const making *m, const progress *p) {
    const mscclpp_op *op = next_op(m, p);
    if (op->type == MSCCLPP_WAIT)
        return has_signals(m, p, op);
    return op->type == MSCCLPP_BARRIER ? count_at_barrier(m, p->gpu, op->barrier) >= op->participants
                                       : !missing_dep(m, p, op);
}

/* Begins the next operation of a block: it comes behind the one before, and what it waits for. */
static writing begin(making *m, progress *p) {
    const writing w = {m, p, next_op(m, p), p->first_op + p->next};
    uint32_t *clock = clock_of(m, w.number);
    if (p->next > 0)
        memcpy(clock, clock_of(m, w.number - 1), m->block_count * sizeof *clock);
    clock[block_of(m, w.number)] = p->next + 1;
    return w;
}

static void end(const writing *w) {
    w->m->gates[w->number] = w->p->gate;
    w->p->next++;
}

/* All blocks at a barrier go on together. */
static void pass_barrier(making *m, uint32_t gpu, uint32_t barrier) {
    const uint32_t count = m->schedule->gpus[gpu].block_count;
    numbers gates = {0};
    for (uint32_t b = 0; b < count; b++)
        if (is_at_barrier(m, block_at(m, gpu, b), barrier))
            add_number(m, &gates, block_at(m, gpu, b)->gate);
    for (uint32_t b = 0; b < count; b++)
        if (is_at_barrier(m, block_at(m, gpu, b), barrier))
            begin(m, block_at(m, gpu, b));
    for (uint32_t b = 0; b < count; b++)
        for (uint32_t other = 0; other < count; other++) {
            const progress *x = block_at(m, gpu, b), *y = block_at(m, gpu, other);
            if (b != other && is_at_barrier(m, x, barrier) && is_at_barrier(m, y, barrier))
                join_clock(m, x->first_op + x->next, y->first_op + y->next);
        }
    for (uint32_t b = 0; b < count; b++) {
        progress *p = block_at(m, gpu, b);
        if (!is_at_barrier(m, p, barrier))
            continue;
        const writing w = {m, p, next_op(m, p), p->first_op + p->next};
        join_gates(&w, &gates);
        end(&w);
    }
    free(gates.at);
}

static void run_next(making *m, progress *p) {
    const mscclpp_op *op = next_op(m, p);
    if (op->type == MSCCLPP_BARRIER) {
        pass_barrier(m, p->gpu, op->barrier);
        return;
    }
    const writing w = begin(m, p);
    numbers gates = {0};
    for (uint32_t d = 0; d < op->deps; d++) {
        const mscclpp_dep *dep = &m->schedule->gpus[p->gpu].deps[op->first_dep + d];
        const uint32_t other = block_at(m, p->gpu, dep->block)->first_op + dep->step;
        join_clock(m, w.number, other);
        add_number(m, &gates, m->gates[other]);
    }
    join_gates(&w, &gates);
    write_op(&w);
    end(&w);
    free(gates.at);
}

/* Says why a block stands still. */
static bool say_why(const making *m, const progress *p) {
    const mscclpp_op *op = next_op(m, p);
    const mscclpp_dep *dep = missing_dep(m, p, op);
    if (op->type == MSCCLPP_WAIT)
        field_wrong(m->fields, "never ends: a signal of GPU %" PRIu32 " is not given",
                    m->schedule->gpus[p->gpu].channels[op->in[0].channel].peer);
    else if (op->type == MSCCLPP_BARRIER)
        field_wrong(m->fields, "never ends: %" PRIu32 " blocks come to barrier %" PRIu32 ", of %" PRIu32,
                    count_at_barrier(m, p->gpu, op->barrier), op->barrier, op->participants);
    else if (dep)
        field_wrong(m->fields,
                    "never runs: step %" PRIu32 " of tb %" PRIu32 ", for which it waits, does not either",
                    dep->step, dep->block);
    return field_in(m->fields, "line %" PRIu32 ": GPU %" PRIu32 ", tb %" PRIu32 ", step %" PRIu32, op->line,
                    p->gpu, op->block, p->next);
}

/* What it costs to see whether a block can go on: the blocks or dependencies that are looked at. */
static uint32_t tries_of(const making *m, const progress *p) {
    const mscclpp_op *op = p->next < p->count ? next_op(m, p) : NULL;
    return !op ? 1 : op->type == MSCCLPP_BARRIER ? m->schedule->gpus[p->gpu].block_count : 1 + op->deps;
}

/* Each sweep takes one operation of each block that has one ready, so that blocks advance alike. */
static bool find_order(making *m) {
    const progress *stuck = NULL;
    uint64_t tries = 0;
    bool some = true;
    for (; some && !m->failed; m->round++) {
        some = false;
        for (uint32_t b = 0; b < m->block_count && !m->failed; b++) {
            progress *p = &m->blocks[b];
            if ((tries += tries_of(m, p)) > FIELD_MOST_TRIES)
                return field_wrong(m->fields, FIELD_TOO_MANY_TRIES, FIELD_MOST_TRIES);
            if (p->next == p->count || !is_ready(m, p))
                continue;
            run_next(m, p);
            some = true;
        }
    }
    for (uint32_t b = 0; b < m->block_count && !m->failed; b++) {
        const progress *p = &m->blocks[b];
        if (p->next < p->count && (!stuck || next_op(m, p)->type == MSCCLPP_WAIT))
            stuck = stuck && next_op(m, stuck)->type == MSCCLPP_WAIT ? stuck : p;
    }
    return m->failed ? cannot_go_on(m) : !stuck || say_why(m, stuck);
}

/* A GPU that has ended must not be written to any more, and a signal that is left would be taken by the next
 * run. */
static bool check_ends(const making *m) {
    for (uint32_t g = 0; g < m->schedule->gpu_count; g++)
        for (uint32_t c = 0; c < m->schedule->gpus[g].channel_count; c++) {
            const put_group *puts = &m->puts[m->first_channel[g] + c];
            const told *left = m->signals[m->first_channel[g] + c].first;
            const mscclpp_op *op = left ? left->from : puts->last;
            const uint32_t peer = m->schedule->gpus[g].channels[c].peer;
            if (left)
                field_wrong(m->fields, "gives a signal that GPU %" PRIu32 " never waits for", g);
            else if (puts->receives.count > 0)
                field_wrong(m->fields, "no signal follows, so that GPU %" PRIu32 " cannot wait for the data",
                            peer);
            else
                continue;
            return field_in(m->fields, "line %" PRIu32 ": GPU %" PRIu32 ", tb %" PRIu32, op->line,
                            left ? peer : g, op->block);
        }
    return true;
}

/* ---- All ranks ----------------------------------------------------------------------------------------- */

static bool begin_drafts(making *m, uint64_t elements) {
    const mscclpp_schedule *s = m->schedule;
    const gcoll_traits traits = gcoll_collective_traits(s->collective);
    for (uint32_t rank = 0; rank < s->gpu_count; rank++) {
        const gcoll_problem problem = {.collective = s->collective,
                                       .rank = rank,
                                       .size = s->gpu_count,
                                       .buffers = 1,
                                       .count = elements,
                                       .in_place = s->in_place && traits.takes_in_place};
        m->ranks[rank].draft = &m->to->drafts[rank];
        tool_draft_begin(m->ranks[rank].draft, &problem);
        tool_draft_scratch(m->ranks[rank].draft, s->gpus[rank].chunks[GCOLL_SCRATCH] * m->per_chunk);
        if (m->ranks[rank].draft->failed)
            return cannot_go_on(m);
    }
    return true;
}

static void lay_out_blocks(making *m) {
    const mscclpp_schedule *s = m->schedule;
    uint32_t at = 0, op = 0, channel = 0;
    for (uint32_t g = 0; g < s->gpu_count; g++) {
        m->first_block[g] = at;
        m->first_channel[g] = channel;
        channel += s->gpus[g].channel_count;
        for (uint32_t b = 0; b < s->gpus[g].block_count; b++) {
            const mscclpp_block *block = &s->gpus[g].blocks[b];
            m->blocks[at++] =
                (progress){.gpu = g, .first_op = op, .count = block->count, .gate = NO_STEP, .block = block};
            op += block->count;
        }
    }
}

static bool allocate(making *m, uint32_t channels) {
    const uint32_t size = m->schedule->gpu_count;
    m->ranks = calloc(size + (size_t)1, sizeof *m->ranks);
    m->first_block = calloc(size + (size_t)1, sizeof *m->first_block);
    m->first_channel = calloc(size + (size_t)1, sizeof *m->first_channel);
    m->blocks = calloc(m->block_count + (size_t)1, sizeof *m->blocks);
    m->gates = calloc(m->op_count + (size_t)1, sizeof *m->gates);
    m->clocks = calloc((size_t)m->op_count * m->block_count + 1, sizeof *m->clocks);
    m->puts = calloc(channels + (size_t)1, sizeof *m->puts);
    m->signals = calloc(channels + (size_t)1, sizeof *m->signals);
    m->to->drafts = calloc(size + (size_t)1, sizeof *m->to->drafts);
    m->to->lines = calloc(size + (size_t)1, sizeof(uint32_t *));
    m->to->size = size;
    return (m->ranks && m->first_block && m->first_channel && m->blocks && m->gates && m->clocks && m->puts &&
            m->signals && m->signals && m->to->drafts && m->to->lines) ||
           cannot_go_on(m);
}

static void free_making(making *m, uint32_t channels) {
    for (uint32_t g = 0; m->ranks && g < m->schedule->gpu_count; g++)
        free(m->ranks[g].accesses);
    for (uint32_t c = 0; m->puts && c < channels; c++)
        free(m->puts[c].receives.at);
    for (uint32_t c = 0; m->signals && c < channels; c++)
        while (m->signals[c].first) {
            told *signal = m->signals[c].first;
            m->signals[c].first = signal->next;
            free(signal->gates.at);
            free(signal);
        }
    free(m->ranks);
    free(m->first_block);
    free(m->first_channel);
    free(m->blocks);
    free(m->gates);
    free(m->clocks);
    free(m->puts);
    free(m->signals);
    free(m->after.at);
}

bool mscclpp_plan(field_reader *fields, const mscclpp_schedule *schedule, uint64_t elements,
                  tool_plan_file *to) {
    making m = {.fields = fields, .schedule = schedule, .to = to};
    uint64_t channels = 0, ops = 0, blocks = 0;
    if (elements == 0 || elements > TOOL_PLAN_MOST_COUNT || elements % schedule->chunks != 0)
        return field_wrong(fields,
                           "is for %" PRIu32 " chunks, and %" PRIu64
                           " elements are given; allowed are multiples of the chunks, up to %" PRIu64,
                           schedule->chunks, elements, TOOL_PLAN_MOST_COUNT);
    for (uint32_t g = 0; g < schedule->gpu_count; g++) {
        channels += schedule->gpus[g].channel_count;
        ops += schedule->gpus[g].op_count;
        blocks += schedule->gpus[g].block_count;
    }
    if (ops * blocks > MOST_CLOCKS || channels > MOST_CLOCKS)
        return field_wrong(fields,
                           "has %" PRIu64 " operations in %" PRIu64
                           " thread blocks; allowed are up to %" PRIu64 " for their product",
                           ops, blocks, MOST_CLOCKS);
    m.per_chunk = elements / schedule->chunks;
    m.op_count = (uint32_t)ops;
    m.block_count = (uint32_t)blocks;
    bool good = allocate(&m, (uint32_t)channels) && begin_drafts(&m, elements);
    if (good) {
        lay_out_blocks(&m);
        good = find_order(&m) && check_ends(&m);
    }
    free_making(&m, (uint32_t)channels);
    return good;
}
