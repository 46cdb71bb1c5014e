/*
 * gcoll/run/engine.c - runs a plan over a transport.
 *
 * A run is a plan bound to buffers. A step starts when its dependencies are done and its round lies within
 * the plan's window. Starting a local step executes it; starting a message posts it. Ready steps are queued,
 * not called recursively, so a chain of a thousand local steps uses no stack. Nothing is allocated after
 * gcoll_run_create.
 */
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "gcoll/base/block.h"
#include "gcoll/base/hash.h"
#include "gcoll/context/hooks.h"
#include "gcoll/run/engine.h"

static bool is_receive(const gcoll_step *step) {
    return step->kind == GCOLL_STEP_RECV || step->kind == GCOLL_STEP_RECV_REDUCE;
}

/* ---- Binding ------------------------------------------------------------------------------ */

static char *resolve(const gcoll_run *run, gcoll_ref ref, const gcoll_buffers *buffers) {
    uint64_t bytes = ref.offset * run->type_bytes;
    if (ref.space == GCOLL_SCRATCH)
        return run->scratch + bytes;
    /* Dropping const is safe: the verifier proves that no plan writes IN, and in-place plans use OUT only. */
    const void *base = ref.space == GCOLL_IN ? buffers->in[ref.index] : buffers->out[ref.index];
    return base ? (char *)(uintptr_t)base + bytes : NULL;
}

/* ---- Reductions ---------------------------------------------------------------------------- */

/* Breaks the context because the caller's reduction failed. has_text: it has set a text by gcoll_store_error.
 */
static void refuse(const bound_step *bound, gcoll_status status, bool has_text) {
    gcoll_run *run = bound->run;
    gcoll_context *context = run->context;
    char name[GCOLL_NOTE_TEXT_MAX];
    run->is_refused = true;
    gcoll_run_name(run, bound->step, name, sizeof name);
    gcoll_break(context, GCOLL_ERR_ABORTED, context->rank,
                "%s: rank %u: options.user_op failed with status %d (%s)%s%s", name, context->rank,
                (int)status, gcoll_status_text(status), has_text ? ": " : "",
                has_text ? gcoll_last_error() : "");
}

/* Once the function has failed, the run calls it no more. It may take long, and peers that probe this rank
 * are answered between two calls. */
static void reduce_by_caller(const bound_step *bound, char *dst, const char *a, const char *b,
                             uint64_t count) {
    const gcoll_run *run = bound->run;
    const gcoll_context *context = run->context;
    if (run->is_refused)
        return;
    const uint32_t errors = gcoll_error_count();
    const int64_t begun_ms = gcoll_now_coarse_ms();
    const gcoll_status status =
        run->user.reduce(dst, a, b, count, (gcoll_type)run->entry->call.type, run->user.arg);
    if (context->endpoint)
        context->transport->look_soon(context->endpoint, gcoll_now_coarse_ms() - begun_ms);
    if (status != GCOLL_OK)
        refuse(bound, status, gcoll_error_count() != errors);
}

void gcoll_run_reduce(const bound_step *bound, char *dst, const char *a, const char *b, uint64_t count) {
    if (bound->run->kernel)
        bound->run->kernel(dst, a, b, count);
    else
        reduce_by_caller(bound, dst, a, b, count);
}

void gcoll_run_divide(const gcoll_run *run, void *data, uint64_t count) {
    const gcoll_call *call = &run->entry->call;
    const gcoll_type type = (gcoll_type)call->type;
    if (call->op == GCOLL_AVG)
        gcoll_divide(data, count, type, run->plan->divisor);
    if (call->postscale != 0)
        gcoll_scale(data, data, count, type, gcoll_call_postscale(call));
}

/* Reduces data that is not aligned to elements, as bytes of a stream may start anywhere. */
static void reduce_unaligned(const bound_step *bound, char *dst, const char *a, const char *data,
                             uint64_t bytes) {
    const gcoll_run *run = bound->run;
    _Alignas(64) char aligned[4096];
    const uint64_t most = sizeof aligned - sizeof aligned % run->type_bytes;
    while (bytes > 0) {
        uint64_t part = bytes < most ? bytes : most;
        memcpy(aligned, data, part);
        const char *left = bound->step->received_first ? aligned : a;
        const char *right = bound->step->received_first ? a : aligned;
        gcoll_run_reduce(bound, dst, left, right, part / run->type_bytes);
        dst += part;
        a += part;
        data += part;
        bytes -= part;
    }
}

void gcoll_run_reduce_received(const bound_step *bound, char *dst, const char *a, const void *data,
                               uint64_t bytes) {
    const gcoll_run *run = bound->run;
    if (((uintptr_t)data & (run->alignment - 1)) != 0)
        reduce_unaligned(bound, dst, a, data, bytes);
    else if (bound->step->received_first)
        gcoll_run_reduce(bound, dst, data, a, bytes / run->type_bytes);
    else
        gcoll_run_reduce(bound, dst, a, data, bytes / run->type_bytes);
}

/* What is reduced before it is copied. Copies of that length have instructions of their own in most
 * libraries. */
#define NEAR_BYTES ((uint64_t)32 << 10)
/* Pieces so long come from memory of peers that have mapped it, and so may read this rank's. */
#define LONG_BYTES ((uint64_t)64 << 10)

/* Reduces bytes to memory that peers may have in their caches, because they read it where it lies. Single
 * stores there take a core's time one by one, until no other has the line. A copy of many lines does not. */
static void reduce_to_shared(const bound_step *bound, uint64_t offset, const char *data, uint64_t bytes) {
    _Alignas(GCOLL_GRANULE_MAX) char near[NEAR_BYTES];
    const uint64_t most = NEAR_BYTES / bound->run->type_bytes * bound->run->type_bytes;
    for (uint64_t done = 0, count; done < bytes; done += count) {
        count = bytes - done < most ? bytes - done : most;
        gcoll_run_reduce_received(bound, near, bound->a + offset + done, data + done, count);
        memcpy(bound->dst + offset + done, near, count);
    }
}

/* RECV_REDUCE: reduces received bytes as they arrive, while they are in cache. */
void gcoll_run_reduce_whole(void *arg, uint64_t offset, const void *data, uint64_t bytes) {
    const bound_step *bound = arg;
    gcoll_block_place place;
    if (bytes >= LONG_BYTES && bound->run->kernel && gcoll_block_find(bound->dst + offset, bytes, &place)) {
        reduce_to_shared(bound, offset, data, bytes);
        return;
    }
    gcoll_run_reduce_received(bound, bound->dst + offset, bound->a + offset, data, bytes);
}

/* ---- Memory of the run's own for messages --------------------------------------------------- */

#define BOUNCE_ALIGNMENT 64 /* of each message: no two share a cache line */

/* Transports hand whole elements to `consume` up to this size. Larger ones are received first. */
static bool is_bulky(const gcoll_run *run) {
    return run->type_bytes > GCOLL_GRANULE_MAX;
}

/* Whether a message goes through memory of the run's own (bounces), instead of straight from or to the plan's
 * memory. */
static bool bounces(const bound_step *bound) {
    return bound->message && ((bound->step->kind == GCOLL_STEP_RECV_REDUCE && is_bulky(bound->run)) ||
                              (bound->step->kind == GCOLL_STEP_SEND && bound->is_split));
}

/* Places the messages that bounce one behind the other. */
static gcoll_status place_bounces(gcoll_run *run) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < run->plan->step_count; i++)
        if (bounces(&run->steps[i]))
            bytes +=
                (run->steps[i].message->bytes + BOUNCE_ALIGNMENT - 1) & ~(uint64_t)(BOUNCE_ALIGNMENT - 1);
    if (bytes > run->bounce_bytes) {
        char *bounce = gcoll_allocate(run->context, bytes);
        if (!bounce)
            return GCOLL_ERR_NO_MEMORY;
        gcoll_release(run->context, run->bounce, run->bounce_bytes);
        run->bounce = bounce;
        run->bounce_bytes = bytes;
    }
    char *at = run->bounce;
    for (uint32_t i = 0; i < run->plan->step_count; i++) {
        bound_step *bound = &run->steps[i];
        if (!bounces(bound))
            continue;
        bound->b = at;
        bound->message->data = at;
        at += (bound->message->bytes + BOUNCE_ALIGNMENT - 1) & ~(uint64_t)(BOUNCE_ALIGNMENT - 1);
    }
    return GCOLL_OK;
}

gcoll_status gcoll_run_bind(gcoll_run *run, const gcoll_buffers *buffers, const gcoll_user_op *user_op) {
    const gcoll_call *call = &run->entry->call;
    if (user_op)
        run->user = *user_op;
    if (run->work)
        gcoll_device_work_bind(run, buffers);
    run->kernel =
        call->op == GCOLL_USER ? NULL : gcoll_kernel_find((gcoll_type)call->type, (gcoll_op)call->op);
    if (run->lists) {
        gcoll_lists_bind(run, buffers);
        return place_bounces(run);
    }
    for (uint32_t i = 0; i < run->plan->step_count; i++) {
        bound_step *bound = &run->steps[i];
        const gcoll_step *step = bound->step;
        bool receives = is_receive(step);
        bool reads = step->kind != GCOLL_STEP_RECV && step->kind != GCOLL_STEP_DIVIDE &&
                     step->kind != GCOLL_STEP_FOLD; /* device_work.c binds the operands of a fold */
        if (step->count == 0)
            continue;
        if (step->kind != GCOLL_STEP_SEND)
            bound->dst = resolve(run, step->dst, buffers);
        if (reads)
            bound->a = resolve(run, step->a, buffers);
        if (gcoll_step_has_b(step))
            bound->b = resolve(run, step->b, buffers);
        if (bound->message)
            bound->message->data = receives ? bound->dst : (char *)(uintptr_t)bound->a;
    }
    return is_bulky(run) ? place_bounces(run) : GCOLL_OK;
}

/* ---- Life --------------------------------------------------------------------------------- */

static inline void message_done(gcoll_message *message);
static void receive_done(gcoll_message *message);
static void reduced_done(gcoll_message *message);
static void bounced_done(gcoll_message *message);

static uint32_t slot_of(uint32_t *peers, uint32_t *slots, uint32_t peer) {
    for (uint32_t i = *slots; i-- > 0;) /* the latest peer is the likeliest */
        if (peers[i] == peer)
            return i;
    peers[*slots] = peer;
    return (*slots)++;
}

/* Whether messages may move within the call that starts their steps: they go straight from and to the memory
 * of the plan, and no function of the caller's runs. */
static bool moves_now(const gcoll_run *run) {
    const gcoll_call *call = &run->entry->call;
    const gcoll_context *context = run->context;
    return context->endpoint && context->transport->moves_now &&
           context->transport->moves_now(context->endpoint) && call->op != GCOLL_USER && call->in_list == 0 &&
           call->out_list == 0 && !is_bulky(run) && !gcoll_problem_is_staged(&run->plan->problem);
}

/* Lays out a run's arrays in one block; only measures the block if base is NULL. */
static uint64_t lay_out(gcoll_run *run, char *base, uint32_t messages) {
    const gcoll_plan *plan = run->plan;
    const bool own_blocks = gcoll_call_has_own_blocks(&run->entry->call);
    const bool is_bounded = (uint64_t)plan->window + 1 < plan->rounds;
    uint64_t at = 0;
    uint64_t steps = plan->step_count;
    uint64_t sizes[] = {steps * sizeof *run->steps,
                        messages * sizeof *run->messages,
                        steps * sizeof *run->waiting,
                        steps * sizeof *run->ready,
                        messages * sizeof *run->opened,
                        is_bounded ? plan->rounds * sizeof *run->round_left : 0,
                        own_blocks ? messages * sizeof *run->told : 0,
                        messages * sizeof *run->heard,
                        gcoll_record_has_steps(run->context) ? steps * sizeof *run->recorded : 0,
                        messages * sizeof *run->late};
    char *parts[sizeof sizes / sizeof sizes[0]];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        parts[i] = base ? base + at : NULL;
        at += (sizes[i] + 63) & ~UINT64_C(63);
    }
    run->steps = (void *)parts[0];
    run->messages = (void *)parts[1];
    run->waiting = (void *)parts[2];
    run->ready = (void *)parts[3];
    run->opened = (void *)parts[4];
    run->round_left = is_bounded ? (void *)parts[5] : NULL;
    run->told = own_blocks ? (void *)parts[6] : NULL;
    run->heard = (void *)parts[7];
    run->recorded = gcoll_record_has_steps(run->context) ? (void *)parts[8] : NULL;
    run->late = moves_now(run) ? (void *)parts[9] : NULL;
    return at;
}

static gcoll_status prepare_steps(gcoll_run *run, uint32_t messages) {
    const gcoll_plan *plan = run->plan;
    uint32_t *peers = gcoll_allocate(run->context, (uint64_t)(messages + 1) * sizeof *peers);
    if (!peers)
        return GCOLL_ERR_NO_MEMORY;
    uint32_t used = 0;
    const bool by_device = gcoll_memory_direct(run->context) != GCOLL_IB_DEVICE_MEMORY_NEVER &&
                           !gcoll_collective_reduces(plan->problem.collective);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        bound_step *bound = &run->steps[i];
        const gcoll_step *step = &plan->steps[i];
        bound->run = run;
        bound->step = step;
        run->waiting[i] = step->dependencies;
        if (!gcoll_step_is_message(step))
            continue;
        gcoll_message *message = &run->messages[used++];
        bound->message = message;
        bound->slot = slot_of(peers, &run->slots, step->peer);
        if (run->told)
            gcoll_fingerprint_for_peer(
                &run->entry->fingerprint,
                gcoll_block_count(&plan->problem,
                                  plan->problem.collective == GCOLL_GATHER ? plan->problem.rank : step->peer),
                &run->told[bound->slot]);
        message->index = step->message;
        message->bytes = step->count * run->type_bytes;
        message->granule = (uint32_t)run->type_bytes;
        message->settled = step->kind == GCOLL_STEP_SEND && step->a.space == GCOLL_IN;
        message->by_device = by_device;
        message->done = is_receive(step) ? receive_done : message_done;
        message->owner = bound;
        if (bounces(bound)) {
            message->done = bounced_done;
        } else if (step->kind == GCOLL_STEP_RECV_REDUCE) {
            message->consume = gcoll_run_reduce_whole;
            message->consume_arg = bound;
            if (run->entry->call.op == GCOLL_USER)
                message->done = reduced_done;
        }
    }
    gcoll_release(run->context, peers, (uint64_t)(messages + 1) * sizeof *peers);
    return GCOLL_OK;
}

/* Scratch of a run with device steps is pinned, so that devices can copy from and to it. */
static gcoll_status allocate_scratch(gcoll_run *run) {
    if (run->scratch_bytes == 0)
        return GCOLL_OK;
    if (run->work)
        return gcoll_memory_pin(run->context, run->scratch_bytes, &run->scratch);
    run->scratch = gcoll_allocate(run->context, run->scratch_bytes);
    return run->scratch ? GCOLL_OK : GCOLL_ERR_NO_MEMORY;
}

static void release_scratch(gcoll_run *run) {
    if (run->work)
        gcoll_memory_unpin(run->context, run->scratch, run->scratch_bytes);
    else
        gcoll_release(run->context, run->scratch, run->scratch_bytes);
}

gcoll_status gcoll_run_create(gcoll_context *context, gcoll_cache_entry *entry, gcoll_run **out) {
    const gcoll_plan *plan = entry->plan;
    gcoll_run *run = gcoll_allocate(context, sizeof *run);
    if (!run)
        return GCOLL_ERR_NO_MEMORY;
    memset(run, 0, sizeof *run);
    run->context = context;
    run->entry = entry;
    run->plan = plan;
    run->type_bytes = entry->call.element_bytes;
    run->alignment = gcoll_element_alignment(&entry->call);
    uint32_t messages = 0;
    for (uint32_t i = 0; i < plan->step_count; i++)
        messages += gcoll_step_is_message(&plan->steps[i]);
    gcoll_status status = GCOLL_ERR_NO_MEMORY;
    run->memory_bytes = lay_out(run, NULL, messages);
    run->memory = gcoll_allocate(context, run->memory_bytes);
    if (!run->memory)
        goto fail_run;
    memset(run->memory, 0, run->memory_bytes);
    lay_out(run, run->memory, messages);
    if (!gcoll_mul_u64(plan->scratch, run->type_bytes, &run->scratch_bytes)) {
        status = gcoll_error(GCOLL_ERR_INVALID, "count: scratch of %llu elements exceeds the address space",
                             (unsigned long long)plan->scratch);
        goto fail_memory;
    }
    if (gcoll_problem_is_staged(&plan->problem)) {
        status = gcoll_device_work_create(run);
        if (status != GCOLL_OK)
            goto fail_memory;
    }
    status = allocate_scratch(run);
    if (status != GCOLL_OK)
        goto fail_work;
    status = gcoll_attach(context, entry, NULL, run->scratch, &run->scratch_attached);
    if (status == GCOLL_OK)
        status = prepare_steps(run, messages);
    if (status == GCOLL_OK)
        status = gcoll_lists_create(run);
    if (status != GCOLL_OK)
        goto fail_scratch;
    gcoll_cache_hold(entry);
    *out = run;
    return GCOLL_OK;

fail_scratch:
    gcoll_detach(run->scratch_attached);
    release_scratch(run);
fail_work:
    gcoll_device_work_destroy(run);
fail_memory:
    gcoll_release(context, run->memory, run->memory_bytes);
fail_run:
    gcoll_release(context, run, sizeof *run);
    return status;
}

void gcoll_run_destroy(gcoll_run *run) {
    if (!run)
        return;
    gcoll_run_drop(run);
    if (run->holds && !gcoll_run_is_finished(run))
        gcoll_keep_restore(run);
    gcoll_run_detach(run);
    gcoll_detach(run->scratch_attached);
    gcoll_cache_put(run->entry);
    gcoll_keep_destroy(run);
    gcoll_scale_destroy(run);
    release_scratch(run);
    gcoll_release(run->context, run->bounce, run->bounce_bytes);
    gcoll_lists_destroy(run);
    gcoll_device_work_destroy(run);
    gcoll_release(run->context, run->memory, run->memory_bytes);
    gcoll_release(run->context, run, sizeof *run);
}

/* ---- Running ------------------------------------------------------------------------------ */

static void push_ready(gcoll_run *run, uint32_t index) {
    run->ready[run->ready_tail++] = index;
}

/* Lets the steps of all rounds within the window start. */
static void release_rounds(gcoll_run *run) {
    const gcoll_plan *plan = run->plan;
    uint64_t limit = (uint64_t)run->oldest_round + plan->window;
    while (run->released < plan->step_count && plan->steps[run->released].round <= limit) {
        if (run->waiting[run->released] == 0)
            push_ready(run, run->released);
        run->released++;
    }
}

static void break_unopened(const gcoll_run *run, uint32_t peer) {
    gcoll_break(run->context, GCOLL_ERR_PROTOCOL, peer,
                "rank %u sent data for %s #%llu without saying what operation it belongs to", peer,
                gcoll_collective_name((gcoll_collective)run->entry->call.collective),
                (unsigned long long)run->sequence);
}

/* Checks that a peer has announced the operation that its data belongs to. False: it has not, and the
 * context broke. If the peer has run far ahead, this may be unknown now; then the end of the run checks it
 * again. */
static bool hear(gcoll_run *run, const bound_step *bound) {
    const uint32_t peer = bound->step->peer;
    const gcoll_opening opening = gcoll_opening_of(run->context, peer, run->sequence);
    if (opening == GCOLL_OPENING_MISSING) {
        break_unopened(run, peer);
        return false;
    }
    if (opening == GCOLL_OPENING_CAME)
        run->heard[bound->slot] = run->sequence;
    else
        run->is_doubtful = true;
    return true;
}

/* Checks once more, when all messages have arrived, that every peer announced its operation. False: one did
 * not, and the context broke. */
static bool settle_doubt(const gcoll_run *run) {
    for (uint32_t i = 0; i < run->plan->step_count; i++) {
        const bound_step *bound = &run->steps[i];
        if (!is_receive(bound->step) || run->heard[bound->slot] == run->sequence)
            continue;
        break_unopened(run, bound->step->peer);
        return false;
    }
    return true;
}

static void note_end(const gcoll_run *run) {
    gcoll_record_end(run->context, run->sequence, run->begun, &run->entry->record);
    if (gcoll_taught_is_timed(run->taught))
        run->context->learner->took(run->context, run->taught, gcoll_now_ns() - run->timed_ns);
}

void gcoll_run_finish_step(gcoll_run *run, uint32_t index) {
    const gcoll_plan *plan = run->plan;
    const gcoll_step *step = &plan->steps[index];
    if (run->work && run->steps[index].posted)
        gcoll_device_work_messages(run, -1);
    run->steps[index].posted = false;
    if (run->recorded)
        gcoll_record_step_end(run->context->record, run->recorded[index]);
    run->waiting[index] = step->dependencies; /* reset for the next run */
    if (--run->unfinished == 0) {
        if (run->is_doubtful && !settle_doubt(run))
            run->unfinished = 1; /* it must not count as finished */
        else
            note_end(run);
    }
    const uint32_t *successor = plan->successors + step->first_successor;
    for (uint32_t i = 0; i < step->successors; i++)
        if (--run->waiting[successor[i]] == 0 && successor[i] < run->released)
            push_ready(run, successor[i]);
    if (run->work && run->unfinished == 0)
        gcoll_device_work_end(run);
    if (!run->round_left || --run->round_left[step->round] > 0)
        return;
    while (run->oldest_round < plan->rounds && run->round_left[run->oldest_round] == 0)
        run->oldest_round++;
    release_rounds(run);
}

static inline void message_done(gcoll_message *message) {
    bound_step *bound = message->owner;
    if (bound->run->work && !gcoll_device_work_arrived(bound->run, bound->step))
        return;
    gcoll_run_finish_step(bound->run, (uint32_t)(bound - bound->run->steps));
}

/* False if the peer never announced the operation: the context broke. */
static inline bool is_heard(const gcoll_message *message) {
    const bound_step *bound = message->owner;
    gcoll_run *run = bound->run;
    if (!message->opened)
        return run->heard[bound->slot] == run->sequence || hear(run, bound);
    run->heard[bound->slot] = run->sequence;
    return true;
}

static void receive_done(gcoll_message *message) {
    if (is_heard(message))
        message_done(message);
}

/* A received message has been reduced by the caller's function, unless that failed. */
static void reduced_done(gcoll_message *message) {
    const bound_step *bound = message->owner;
    if (!bound->run->is_refused)
        receive_done(message);
}

/* Reduces a received message whose elements were too large to be reduced as they came. */
static void bounced_done(gcoll_message *message) {
    if (!is_heard(message))
        return;
    bound_step *bound = message->owner;
    if (bound->is_split)
        gcoll_lists_reduce_received(bound, 0, message->data, message->bytes);
    else
        gcoll_run_reduce_whole(bound, 0, message->data, message->bytes);
    if (!bound->run->is_refused)
        message_done(message);
}

static void mark_posted(bound_step *bound) {
    bound->posted = true;
    if (bound->run->work)
        gcoll_device_work_messages(bound->run, 1);
}

static void post_receive(gcoll_run *run, bound_step *bound) {
    mark_posted(bound);
    run->context->transport->post_recv(run->context->endpoint, bound->step->peer, bound->message);
}

static void send(gcoll_run *run, bound_step *bound) {
    const gcoll_context *context = run->context;
    const uint32_t peer = bound->step->peer;
    gcoll_message *message = bound->message;
    if (bound->is_split)
        gcoll_lists_gather(bound);
    const gcoll_fingerprint *told = run->told ? &run->told[bound->slot] : &run->entry->fingerprint;
    message->open = run->opened[bound->slot] == run->sequence ? NULL : told->bytes;
    run->opened[bound->slot] = run->sequence;
    if (run->late && message->bytes <= GCOLL_NOW_BYTES &&
        context->transport->send_now(context->endpoint, peer, message)) {
        gcoll_run_finish_step(run, (uint32_t)(bound - run->steps));
        return;
    }
    mark_posted(bound);
    context->transport->post_send(context->endpoint, peer, message);
}

/* False if the context broke. */
static bool start_message(gcoll_run *run, uint32_t index) {
    bound_step *bound = &run->steps[index];
    const gcoll_step *step = bound->step;
    if (!gcoll_peer_need(run->context, step->peer, step->kind == GCOLL_STEP_SEND))
        return false;
    bound->message->stream = run->sequence;
    if (step->kind == GCOLL_STEP_SEND)
        send(run, bound);
    else if (run->late && bound->message->bytes <= GCOLL_NOW_BYTES)
        run->late[run->late_count++] = index;
    else
        post_receive(run, bound);
    return true;
}

/* How often a message is looked for that a caller waits for: some hundred nanoseconds, in which a message
 * comes from a peer of this host that began at the same time. */
#define LOOKS 200

/* Receives what has come, or comes in a moment, and posts the other late receives. Each that is posted costs
 * as much as a message that is received at once. */
static void receive_late(gcoll_run *run) {
    const gcoll_context *context = run->context;
    uint32_t looks = run->waits ? LOOKS : 1;
    for (uint32_t i = 0; i < run->late_count; i++) {
        bound_step *bound = &run->steps[run->late[i]];
        gcoll_message *message = bound->message;
        if (context->transport->recv_now(context->endpoint, bound->step->peer, message, looks)) {
            message->done(message);
            continue;
        }
        looks = 1;
        post_receive(run, bound);
    }
    run->late_count = 0;
}

/* The key of the random bits by which a step rounds: another one for each call, rank and step. */
static uint64_t noise_of(const bound_step *bound) {
    const gcoll_run *run = bound->run;
    const uint64_t words[] = {run->plan->problem.codec.seed, run->sequence, run->context->rank,
                              (uint64_t)(bound->step - run->plan->steps)};
    return gcoll_hash_words(GCOLL_HASH_START, words, sizeof words / sizeof words[0]);
}

static void run_local(gcoll_run *run, bound_step *bound) {
    const gcoll_step *step = bound->step;
    const gcoll_codec *codec = &run->plan->problem.codec;
    if (step->count == 0) /* a fence */
        return;
    if (bound->is_split) {
        gcoll_lists_run_local(bound);
        return;
    }
    switch ((gcoll_step_kind)step->kind) {
    case GCOLL_STEP_REDUCE:
        gcoll_run_reduce(bound, bound->dst, bound->a, bound->b, step->count);
        break;
    case GCOLL_STEP_COPY:
        memmove(bound->dst, bound->a, step->count * run->type_bytes);
        break;
    case GCOLL_STEP_DIVIDE:
        gcoll_run_divide(run, bound->dst, step->count);
        break;
    case GCOLL_STEP_ENCODE:
        gcoll_codec_encode(codec, bound->dst, bound->a, step->count, noise_of(bound));
        break;
    case GCOLL_STEP_DECODE:
        gcoll_codec_decode(codec, bound->dst, bound->a, step->count);
        break;
    case GCOLL_STEP_DECODE_REDUCE: /* a sum: both orders give the same bits */
        gcoll_codec_decode_sum(codec, bound->dst, bound->a, bound->b, step->count);
        break;
    default:
        break;
    }
}

/* False if the context broke. */
static bool start_step(gcoll_run *run, uint32_t index) {
    bound_step *bound = &run->steps[index];
    if (run->recorded)
        run->recorded[index] = gcoll_record_step_begin(run->context->record, run->sequence, bound->step,
                                                       bound->step->count * run->type_bytes);
    if (bound->message)
        return start_message(run, index);
    if (run->work && gcoll_step_is_on_device(run->plan, bound->step))
        return gcoll_device_work_begin(run, index);
    run_local(run, bound);
    if (run->is_refused)
        return false;
    gcoll_run_finish_step(run, index);
    return true;
}

void gcoll_run_advance(gcoll_run *run) {
    if (run->is_gated) {
        if (!gcoll_device_work_is_open(run))
            return;
        run->is_gated = false;
        release_rounds(run);
    }
    if (run->work)
        gcoll_device_work_poll(run);
    while (run->ready_head < run->ready_tail) {
        while (run->ready_head < run->ready_tail)
            if (!start_step(run, run->ready[run->ready_head++]))
                return;
        if (run->late_count > 0)
            receive_late(run);
    }
}

#if defined(__SANITIZE_ADDRESS__)
gcoll_status gcoll_run_check_piece(const void *at, uint64_t bytes) {
    if (!at || bytes == 0 || !__asan_region_is_poisoned((void *)(uintptr_t)at, bytes))
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_STATE, "buffers: the %llu bytes at %p are not, or no longer, the caller's",
                       (unsigned long long)bytes, at);
}

gcoll_status gcoll_run_check_buffers(const gcoll_run *run) {
    gcoll_status status = run->lists ? gcoll_lists_check(run->lists) : GCOLL_OK;
    if (status == GCOLL_OK && run->scales)
        status = gcoll_scale_check(run);
    for (uint32_t i = 0; i < run->plan->step_count && status == GCOLL_OK; i++) {
        const bound_step *bound = &run->steps[i];
        const gcoll_step *step = bound->step;
        const gcoll_problem *problem = &run->plan->problem;
        if (gcoll_step_is_on_device(run->plan, step))
            continue;
        status = gcoll_run_check_piece(bound->dst, gcoll_step_dst_count(problem, step) * run->type_bytes);
        if (status == GCOLL_OK)
            status = gcoll_run_check_piece(bound->a, gcoll_step_a_count(problem, step) * run->type_bytes);
        if (status == GCOLL_OK)
            status = gcoll_run_check_piece(bound->b, gcoll_step_b_count(problem, step) * run->type_bytes);
    }
    return status;
}
#endif

/* Does not reset `waiting` and `posted`, which would touch all of the run's memory: a run that finishes
 * leaves them as they were, and after a run that does not, the context is broken and nothing starts again. */
void gcoll_run_start(gcoll_run *run) {
    const gcoll_plan *plan = run->plan;
    run->unfinished = plan->step_count;
    run->ready_head = run->ready_tail = run->late_count = 0;
    run->oldest_round = 0;
    run->released = 0;
    run->is_doubtful = false;
    if (run->round_left) {
        memset(run->round_left, 0, plan->rounds * sizeof *run->round_left);
        for (uint32_t i = 0; i < plan->step_count; i++)
            run->round_left[plan->steps[i].round]++;
        while (run->oldest_round < plan->rounds && run->round_left[run->oldest_round] == 0)
            run->oldest_round++;
    }
    run->is_gated = run->work && plan->step_count > 0 && gcoll_problem_is_direct(&plan->problem);
    if (!run->is_gated)
        release_rounds(run);
    gcoll_run_advance(run);
}
