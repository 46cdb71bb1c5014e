/*
 * tools/msccl_plan.c - makes gcoll's plans of a schedule of MSCCL.
 *
 * A step of MSCCL is up to two of gcoll's: a body, which receives or works, and a send. The steps that it
 * waits for are those that the schedule names, the one before it in its thread block and its `depid`, and no
 * others, so that the verifier finds a race where the schedule has one.
 *
 * MSCCL's send is done as soon as the data lie in a buffer between both GPUs. So the next step of its block
 * does not wait for the receiver; in a plan, only a step that overwrites what is sent does. This is the
 * hardest case that MSCCL allows: a schedule that is right without such buffers is right with them.
 *
 * Between two ranks, gcoll numbers the messages of all channels in one order, which both plans must have. The
 * steps are put in an order in which they could run, and the receives of a rank follow the sends of the
 * other.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/msccl.h"

#define NO_STEP UINT32_MAX

/* A block as it is being ordered. Messages from one GPU to another are counted by the sender's first block
 * that sends there. */
typedef struct progress {
    uint32_t next;                     /* step of the block */
    uint32_t sent, received;           /* messages of the block */
    struct progress *counts;           /* of the messages that this block sends; NULL: it sends nowhere */
    struct progress *sender;           /* the block that sends what this block receives; NULL: none */
    uint32_t pair_sent, pair_received; /* of all blocks whose `counts` this is */
    const msccl_block *block;
} progress;

/* The order of a GPU's steps, as it is found. */
typedef struct gpu_order {
    progress *blocks;
    uint32_t
        *numbers; /* of each message that a block sends, from block.first on: its number between both GPUs */
    uint32_t *steps;  /* in order */
    uint32_t *rounds; /* by place in that order */
    uint32_t placed;  /* how many there are */
} gpu_order;

typedef struct making {
    field_reader *fields;
    const msccl_schedule *schedule;
    tool_plan_file *to;
    uint64_t per_chunk; /* elements */
    gpu_order *gpus;
} making;

static bool out_of_memory(const making *m) {
    return field_wrong(m->fields, "out of memory");
}

/* Puts before the problem which step of the file it is about. */
static bool at_step(const making *m, uint32_t gpu, uint32_t step) {
    const msccl_step *s = &m->schedule->gpus[gpu].steps[step];
    return field_in(m->fields, "line %" PRIu32 ": GPU %" PRIu32 ", tb %" PRIu32 ", step %" PRIu32, s->line,
                    gpu, s->block, step - m->schedule->gpus[gpu].blocks[s->block].first);
}

/* ---- Ends of messages ---------------------------------------------------------------------------------- */

/* The block of GPU `peer` that is the other end: it receives from `gpu`, or sends there, on that channel. */
static progress *other_end(const making *m, uint32_t gpu, const msccl_block *block, bool sends) {
    const int32_t peer = sends ? block->send : block->recv;
    if (peer == MSCCL_NONE)
        return NULL;
    const msccl_gpu *there = &m->schedule->gpus[peer];
    for (uint32_t b = 0; b < there->block_count; b++) {
        const msccl_block *other = &there->blocks[b];
        if (other->channel == block->channel && (sends ? other->recv : other->send) == (int32_t)gpu)
            return &m->gpus[peer].blocks[b];
    }
    return NULL;
}

/* The first step of a block from `from` on that sends, or receives; behind the last one: there is none. */
static uint32_t next_message(const msccl_gpu *gpu, const msccl_block *block, bool sends, uint32_t from) {
    while (from < block->first + block->count &&
           !(sends ? msccl_sends(gpu->steps[from].type) : msccl_receives(gpu->steps[from].type)))
        from++;
    return from;
}

/* Each message of a block has its other end, with as many chunks. */
static bool check_ends(const making *m, uint32_t gpu, const msccl_block *block, bool sends) {
    const msccl_gpu *here = &m->schedule->gpus[gpu];
    const progress *end = other_end(m, gpu, block, sends);
    const int32_t peer = sends ? block->send : block->recv;
    const msccl_gpu *there = peer == MSCCL_NONE ? NULL : &m->schedule->gpus[peer];
    uint32_t theirs = end ? end->block->first : 0;
    for (uint32_t mine = next_message(here, block, sends, block->first); mine < block->first + block->count;
         mine = next_message(here, block, sends, mine + 1), theirs++) {
        theirs = end ? next_message(there, end->block, !sends, theirs) : 0;
        if (!there || !end || theirs == end->block->first + end->block->count) {
            field_wrong(m->fields, "no partner: GPU %" PRId32 " %s fewer messages on channel %" PRId32, peer,
                        sends ? "receives" : "sends", block->channel);
            return at_step(m, gpu, mine);
        }
        const msccl_step *other = &there->steps[theirs];
        if (other->chunks != here->steps[mine].chunks) {
            field_wrong(m->fields, "'cnt' is %" PRIu32 ", but %" PRIu32 " of its partner in line %" PRIu32,
                        here->steps[mine].chunks, other->chunks, other->line);
            return at_step(m, gpu, mine);
        }
    }
    return true;
}

/* Joins the ends of messages, and the blocks whose messages are counted together. */
static bool join_ends(making *m, uint32_t gpu) {
    const msccl_gpu *here = &m->schedule->gpus[gpu];
    for (uint32_t b = 0; b < here->block_count; b++) {
        const msccl_block *block = &here->blocks[b];
        progress *p = &m->gpus[gpu].blocks[b];
        uint32_t first = 0;
        while (here->blocks[first].send != block->send)
            first++;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): allocate() made it */
        p->counts = block->send == MSCCL_NONE ? NULL : &m->gpus[gpu].blocks[first];
        p->sender = other_end(m, gpu, block, false);
        if (!check_ends(m, gpu, block, true) || !check_ends(m, gpu, block, false))
            return false;
    }
    return true;
}

/* ---- An order in which the steps could run ------------------------------------------------------------- */

/* Whether the message that the block receives next has been sent, and is the next between the two GPUs. */
static bool has_arrived(const making *m, const progress *p) {
    const progress *from = p->sender;
    const uint32_t *numbers = m->gpus[p->block->recv].numbers;
    return p->received < from->sent &&
           numbers[from->block->first + p->received] == from->counts->pair_received;
}

static bool waits_for_step(const making *m, uint32_t gpu, const msccl_step *s) {
    return s->on_block != MSCCL_NONE && m->gpus[gpu].blocks[s->on_block].next <= (uint32_t)s->on_step;
}

static bool is_ready(const making *m, uint32_t gpu, const progress *p) {
    const msccl_step *s = &m->schedule->gpus[gpu].steps[p->block->first + p->next];
    return !waits_for_step(m, gpu, s) && (!msccl_receives(s->type) || has_arrived(m, p));
}

static void put(making *m, uint32_t gpu, progress *p, uint32_t round) {
    const uint32_t step = p->block->first + p->next++;
    const msccl_type type = m->schedule->gpus[gpu].steps[step].type;
    gpu_order *order = &m->gpus[gpu];
    order->steps[order->placed] = step;
    order->rounds[order->placed++] = round;
    if (msccl_receives(type)) {
        p->received++;
        p->sender->counts->pair_received++;
    }
    if (msccl_sends(type))
        order->numbers[p->block->first + p->sent++] = p->counts->pair_sent++;
}

/* Says why a step that is left cannot run. */
static bool say_why(const making *m, uint32_t gpu, const progress *p) {
    const uint32_t step = p->block->first + p->next;
    const msccl_step *s = &m->schedule->gpus[gpu].steps[step];
    if (waits_for_step(m, gpu, s))
        field_wrong(m->fields,
                    "never runs: step %" PRId32 " of tb %" PRId32 ", for which it waits, does not either",
                    s->on_step, s->on_block);
    else if (p->received >= p->sender->sent)
        field_wrong(m->fields, "never runs: its message from GPU %" PRId32 " is not sent", p->block->recv);
    else
        field_wrong(m->fields,
                    "receives before a message that GPU %" PRId32
                    " sends earlier on another channel; allowed is one order between two GPUs",
                    p->block->recv);
    return at_step(m, gpu, step);
}

/* Whether the block is kept only by the order of messages between two GPUs, which is then the cause. */
static bool is_out_of_order(const making *m, uint32_t gpu, const progress *p) {
    const msccl_step *s = &m->schedule->gpus[gpu].steps[p->block->first + p->next];
    return !waits_for_step(m, gpu, s) && msccl_receives(s->type) && p->received < p->sender->sent;
}

/* Refuses a schedule of which steps are left, for a cause that it names. */
static bool check_all_run(const making *m) {
    const progress *stuck = NULL;
    uint32_t gpu = 0;
    bool cause = false;
    for (uint32_t g = 0; g < m->schedule->gpu_count && !cause; g++)
        for (uint32_t b = 0; b < m->schedule->gpus[g].block_count && !cause; b++) {
            const progress *p = &m->gpus[g].blocks[b];
            if (p->next == p->block->count)
                continue;
            cause = is_out_of_order(m, g, p);
            if (cause || !stuck) {
                stuck = p;
                gpu = g;
            }
        }
    return !stuck || say_why(m, gpu, stuck);
}

/* Each sweep takes one step of each block that has one ready, so that blocks advance alike. */
static bool find_order(making *m) {
    const msccl_schedule *s = m->schedule;
    uint64_t tries = 0;
    bool some = true;
    for (uint32_t round = 0; some; round++) {
        some = false;
        for (uint32_t g = 0; g < s->gpu_count; g++)
            for (uint32_t b = 0; b < s->gpus[g].block_count; b++) {
                progress *p = &m->gpus[g].blocks[b];
                if (++tries > FIELD_MOST_TRIES)
                    return field_wrong(m->fields, FIELD_TOO_MANY_TRIES, FIELD_MOST_TRIES);
                /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): allocate() made it */
                if (p->next == p->block->count || !is_ready(m, g, p))
                    continue;
                put(m, g, p, round);
                some = true;
            }
    }
    return check_all_run(m);
}

/* ---- The plan of a rank -------------------------------------------------------------------------------- */

/* A rank whose plan is being made. By step of the schedule: */
typedef struct rank_plan {
    const making *m;
    const msccl_gpu *gpu;
    tool_plan_draft *draft;
    uint32_t *gate;  /* the step of the plan after which later ones may run; NO_STEP: at once */
    uint32_t *send;  /* the send of the plan; NO_STEP */
    gcoll_ref *sent; /* what it sends, as finished plans name it */
    bool *before;    /* whether the step comes before the present one */
    uint32_t *after; /* room for what one step waits for */
    uint32_t *lines; /* by step of the plan */
    uint32_t count;  /* steps of the plan */
    uint32_t round, line;
} rank_plan;

static uint32_t add_step(rank_plan *r, gcoll_step step, uint32_t after_count) {
    step.round = r->round;
    tool_draft_step(r->draft, &step, NULL, r->after, after_count);
    r->lines[r->count] = r->line;
    return r->count++;
}

static gcoll_ref place_of(const rank_plan *r, gcoll_ref chunk) {
    chunk.offset *= r->m->per_chunk;
    return tool_draft_canonical(r->draft, chunk);
}

static bool same_place(gcoll_ref a, gcoll_ref b) {
    return a.space == b.space && a.offset == b.offset;
}

static bool overlap(gcoll_ref a, uint64_t a_count, gcoll_ref b, uint64_t b_count) {
    return a.space == b.space && a.offset < b.offset + b_count && b.offset < a.offset + a_count;
}

/* Adds what step i of the schedule waits for by the schedule; joins two into one empty step. */
static uint32_t find_gate(rank_plan *r, uint32_t i) {
    const msccl_step *s = &r->gpu->steps[i];
    const uint32_t block = r->gpu->blocks[s->block].first;
    const uint32_t one = i > block ? r->gate[i - 1] : NO_STEP;
    const uint32_t other = s->on_block == MSCCL_NONE
                               ? NO_STEP
                               : r->gate[r->gpu->blocks[s->on_block].first + (uint32_t)s->on_step];
    if (one == NO_STEP || other == NO_STEP || one == other)
        return one == NO_STEP ? other : one;
    r->after[0] = one;
    r->after[1] = other;
    return add_step(r, (gcoll_step){.kind = GCOLL_STEP_COPY, .dst = gcoll_out(0, 0), .a = gcoll_out(0, 0)},
                    2);
}

/* Marks the steps of the schedule that come before step i, by its blocks and waits, among those in order up
 * to `place`. */
static void mark_before(rank_plan *r, const uint32_t *order, uint32_t place) {
    for (uint32_t k = 0; k <= place; k++)
        r->before[order[k]] = k == place;
    for (uint32_t k = place + 1; k-- > 0;) {
        const uint32_t i = order[k];
        const msccl_step *s = &r->gpu->steps[i];
        if (!r->before[i])
            continue;
        if (i > r->gpu->blocks[s->block].first)
            r->before[i - 1] = true;
        if (s->on_block != MSCCL_NONE)
            r->before[r->gpu->blocks[s->on_block].first + (uint32_t)s->on_step] = true;
    }
}

/* Fills r->after with the steps that a writing step waits for: its gate, and each earlier send whose data it
 * overwrites. Returns their number. */
static uint32_t find_after(rank_plan *r, const uint32_t *order, uint32_t place, uint32_t gate, gcoll_ref dst,
                           uint64_t count) {
    uint32_t found = 0;
    bool marked = false;
    if (gate != NO_STEP)
        r->after[found++] = gate;
    for (uint32_t k = 0; k < place; k++) {
        const uint32_t i = order[k];
        if (r->send[i] == NO_STEP ||
            !overlap(r->sent[i], r->gpu->steps[i].chunks * r->m->per_chunk, dst, count))
            continue;
        if (!marked)
            mark_before(r, order, place);
        marked = true;
        if (r->before[i])
            r->after[found++] = r->send[i];
    }
    return found;
}

/* The body of a step: *dst is what it writes. Returns the step of the plan, or `gate` if there is none. */
static uint32_t add_body(rank_plan *r, const uint32_t *order, uint32_t place, uint32_t gate, gcoll_ref *dst) {
    const msccl_step *s = &r->gpu->steps[order[place]];
    const msccl_block *block = &r->gpu->blocks[s->block];
    gcoll_step step = {.count = s->chunks * r->m->per_chunk,
                       .dst = place_of(r, s->dst),
                       .a = place_of(r, s->src),
                       .b = gcoll_out(0, 0)};
    if (msccl_receives(s->type)) {
        const bool reduces = s->type != MSCCL_R && s->type != MSCCL_RCS;
        step.kind = reduces ? GCOLL_STEP_RECV_REDUCE : GCOLL_STEP_RECV;
        step.peer = (uint32_t)block->recv;
        step.a = reduces ? step.a : gcoll_out(0, 0);
        if (s->type == MSCCL_RRS)
            step.dst = tool_draft_scratch(r->draft, step.count);
    } else if (s->type == MSCCL_RE) {
        step.kind = GCOLL_STEP_REDUCE;
        step.b = step.a;
        step.a = step.dst;
    } else if (s->type == MSCCL_CPY && !same_place(step.dst, step.a)) {
        step.kind = GCOLL_STEP_COPY;
    } else {
        return gate; /* a send, a step that only waits, a copy onto itself */
    }
    *dst = step.dst;
    return add_step(r, step, find_after(r, order, place, gate, step.dst, step.count));
}

static void add_send(rank_plan *r, uint32_t i, gcoll_ref from) {
    const msccl_step *s = &r->gpu->steps[i];
    const uint32_t gate = r->gate[i];
    r->after[0] = gate;
    r->sent[i] = from;
    r->send[i] = add_step(r,
                          (gcoll_step){.kind = GCOLL_STEP_SEND,
                                       .peer = (uint32_t)r->gpu->blocks[s->block].send,
                                       .count = s->chunks * r->m->per_chunk,
                                       .dst = gcoll_out(0, 0),
                                       .a = from},
                          gate != NO_STEP);
}

static void add_steps(rank_plan *r, const uint32_t *order, const uint32_t *sweep) {
    for (uint32_t k = 0; k < r->gpu->step_count; k++)
        r->send[k] = NO_STEP;
    for (uint32_t place = 0; place < r->gpu->step_count; place++) {
        const uint32_t i = order[place];
        const msccl_step *s = &r->gpu->steps[i];
        gcoll_ref dst = place_of(r, s->src);
        r->round = sweep[place];
        r->line = s->line;
        r->gate[i] = add_body(r, order, place, find_gate(r, i), &dst);
        if (msccl_sends(s->type))
            add_send(r, i, dst);
    }
}

static bool make_plan(making *m, uint32_t rank) {
    const msccl_schedule *s = m->schedule;
    const msccl_gpu *gpu = &s->gpus[rank];
    const gcoll_traits traits = gcoll_collective_traits(s->collective);
    const gcoll_problem problem = {.collective = s->collective,
                                   .rank = rank,
                                   .size = s->gpu_count,
                                   .buffers = 1,
                                   .count = s->chunks * m->per_chunk,
                                   .in_place = s->in_place && (!traits.in_place_at_root || rank == 0)};
    const size_t room = gpu->step_count + (size_t)1;
    rank_plan r = {.m = m, .gpu = gpu, .draft = &m->to->drafts[rank]};
    tool_draft_begin(r.draft, &problem);
    r.gate = calloc(room, sizeof *r.gate);
    r.send = calloc(room, sizeof *r.send);
    r.sent = calloc(room, sizeof *r.sent);
    r.before = calloc(room, sizeof *r.before);
    r.after = calloc(room + 1, sizeof *r.after);
    r.lines = m->to->lines[rank] = calloc(3 * room, sizeof *r.lines); /* a join, a body, a send */
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there is a draft for each rank */
    bool good = r.gate && r.send && r.sent && r.before && r.after && r.lines && !r.draft->failed;
    if (good) {
        tool_draft_scratch(r.draft, gpu->scratch * m->per_chunk);
        add_steps(&r, m->gpus[rank].steps, m->gpus[rank].rounds);
        good = !r.draft->failed;
    }
    free(r.after);
    free(r.before);
    free(r.sent);
    free(r.send);
    free(r.gate);
    return good || out_of_memory(m);
}

/* ---- All ranks ----------------------------------------------------------------------------------------- */

static bool allocate_order(const msccl_gpu *gpu, gpu_order *order) {
    const size_t room = gpu->step_count + (size_t)1;
    order->blocks = calloc(gpu->block_count + (size_t)1, sizeof *order->blocks);
    order->numbers = calloc(room, sizeof *order->numbers);
    order->steps = calloc(room, sizeof *order->steps);
    order->rounds = calloc(room, sizeof *order->rounds);
    if (!order->blocks || !order->numbers || !order->steps || !order->rounds)
        return false;
    for (uint32_t b = 0; b < gpu->block_count; b++)
        order->blocks[b].block = &gpu->blocks[b];
    return true;
}

static bool allocate(making *m) {
    const uint32_t size = m->schedule->gpu_count;
    m->gpus = calloc(size, sizeof *m->gpus);
    m->to->drafts = calloc(size, sizeof *m->to->drafts);
    m->to->lines = calloc(size, sizeof(uint32_t *));
    bool good = m->gpus && m->to->drafts && m->to->lines;
    m->to->size = size;
    for (uint32_t g = 0; g < size && good; g++)
        good = allocate_order(&m->schedule->gpus[g], &m->gpus[g]);
    return good || out_of_memory(m);
}

static void free_making(making *m) {
    for (uint32_t g = 0; m->gpus && g < m->schedule->gpu_count; g++) {
        free(m->gpus[g].blocks);
        free(m->gpus[g].numbers);
        free(m->gpus[g].steps);
        free(m->gpus[g].rounds);
    }
    free(m->gpus);
}

bool msccl_plan(field_reader *fields, const msccl_schedule *schedule, uint64_t elements, tool_plan_file *to) {
    making m = {.fields = fields, .schedule = schedule, .to = to};
    if (elements == 0 || elements > TOOL_PLAN_MOST_COUNT || elements % schedule->chunks != 0)
        return field_wrong(fields,
                           "is for %" PRIu32 " chunks, and %" PRIu64
                           " elements are given; allowed are multiples of the chunks, up to %" PRIu64,
                           schedule->chunks, elements, TOOL_PLAN_MOST_COUNT);
    m.per_chunk = elements / schedule->chunks;
    bool good = allocate(&m);
    for (uint32_t g = 0; good && g < schedule->gpu_count; g++)
        good = join_ends(&m, g);
    good = good && find_order(&m);
    for (uint32_t g = 0; good && g < schedule->gpu_count; g++)
        good = make_plan(&m, g);
    free_making(&m);
    return good;
}
