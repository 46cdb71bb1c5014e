/*
 * gcoll/run/device_work.c - the steps of a run that devices do: copies to and from device memory, and
 * reductions and divisions in it.
 *
 * The engine starts a step, and polls it later; no thread waits for it. All dependencies of a step are done
 * before it starts, so devices need not order the steps of a run. They only order steps behind the caller's
 * streams: a step that touches a buffer waits for the gate of the buffer's stream.
 */
#include <stdlib.h>
#include <string.h>

#include "gcoll/run/engine.h"

#define NO_GATE UINT32_MAX

typedef struct begun_step {
    uint32_t step;
    gcoll_ticket *ticket;
} begun_step;

struct gcoll_device_work {
    begun_step *begun; /* steps that were started and are not known to be done */
    uint32_t begun_count;
    const void **bases; /* addresses of IN[k] and OUT[k], at 2k and 2k + 1 */
    void **streams;     /* of buffer k */
    gcoll_gate **gates; /* this run's gates, one for each stream */
    uint32_t gate_count;
    uint32_t gates_done;   /* passed gates; counted only if messages wait for gates */
    bool is_gated;         /* some gates are not passed; counts as device work in flight */
    uint32_t *gate_of;     /* gate of each base; NO_GATE: host memory */
    gcoll_gate **behind;   /* gates of the current step */
    const void **operands; /* of the current fold; `devices`: where they lie */
    uint32_t *devices;
    gcoll_reach reach;
    uint64_t bytes; /* size of the struct and its arrays */

    /* Counts of work in flight, for the times. */
    bool is_counting;
    int64_t started_ns, noted_ns;
    uint32_t copies, reductions, messages;
};

/* ---- Times ---------------------------------------------------------------------------------- */

/* Adds the time since the last change to the times of the kinds of work that were in flight. */
static int64_t note_time(gcoll_run *run) {
    gcoll_device_work *work = run->work;
    gcoll_device_times *times = gcoll_memory_times(run->context->acceleration);
    const int64_t now = gcoll_now_ns(), passed = now - work->noted_ns;
    const bool on_device = work->copies > 0 || work->reductions > 0;
    times->copy_ns += work->copies > 0 ? passed : 0;
    times->reduce_ns += work->reductions > 0 ? passed : 0;
    times->network_ns += work->messages > 0 ? passed : 0;
    times->overlap_ns += work->messages > 0 && on_device ? passed : 0;
    work->noted_ns = now;
    return now;
}

void gcoll_device_work_messages(gcoll_run *run, int32_t more) {
    note_time(run);
    run->work->messages += (uint32_t)more;
}

/* Whether a step copies between host and device. */
static bool is_crossing(const gcoll_run *run, const gcoll_step *step) {
    const gcoll_problem *problem = &run->plan->problem;
    return step->kind == GCOLL_STEP_COPY && (gcoll_problem_memory(problem, step->dst) == GCOLL_HOST_MEMORY ||
                                             gcoll_problem_memory(problem, step->a) == GCOLL_HOST_MEMORY);
}

static void note_step(gcoll_run *run, const gcoll_step *step, bool begins) {
    gcoll_device_work *work = run->work;
    const uint32_t more = begins ? 1 : UINT32_MAX;
    note_time(run);
    if (is_crossing(run, step))
        work->copies += more;
    else
        work->reductions += more;
}

static void note_done(gcoll_run *run, const gcoll_step *step, gcoll_ticket_time time) {
    gcoll_device_times *times = gcoll_memory_times(run->context->acceleration);
    note_step(run, step, false);
    if (!is_crossing(run, step)) {
        times->reduce_event_ns += time.ns;
        return;
    }
    times->copy_event_ns += time.ns;
    if (gcoll_problem_memory(&run->plan->problem, step->dst) == GCOLL_HOST_MEMORY)
        times->copied_in_bytes += step->count * run->type_bytes;
    else
        times->copied_out_bytes += step->count * run->type_bytes;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static uint32_t count_device_steps(const gcoll_plan *plan) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < plan->step_count; i++)
        found += gcoll_step_is_on_device(plan, &plan->steps[i]);
    return found;
}

/* Lays the arrays out behind the struct, or only measures them when base is NULL. */
static uint64_t lay_out(gcoll_device_work *work, char *base, uint32_t steps, uint32_t buffers) {
    uint64_t sizes[] = {sizeof *work,
                        steps * sizeof *work->begun,
                        2 * (uint64_t)buffers * sizeof *work->bases,
                        buffers * sizeof *work->streams,
                        2 * (uint64_t)buffers * sizeof(gcoll_gate *),
                        2 * (uint64_t)buffers * sizeof *work->gate_of,
                        2 * (uint64_t)buffers * sizeof(gcoll_gate *),
                        buffers * sizeof *work->operands,
                        buffers * sizeof *work->devices};
    char *parts[sizeof sizes / sizeof sizes[0]];
    uint64_t at = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        parts[i] = base ? base + at : NULL;
        at += (sizes[i] + 15) & ~UINT64_C(15);
    }
    if (!base)
        return at;
    work->begun = (void *)parts[1];
    work->bases = (void *)parts[2];
    work->streams = (void *)parts[3];
    work->gates = (void *)parts[4];
    work->gate_of = (void *)parts[5];
    work->behind = (void *)parts[6];
    work->operands = (void *)parts[7];
    work->devices = (void *)parts[8];
    return at;
}

gcoll_status gcoll_device_work_create(gcoll_run *run) {
    const uint32_t steps = count_device_steps(run->plan), buffers = run->plan->problem.buffers;
    if (!run->context->acceleration)
        return gcoll_error(GCOLL_ERR_INTERNAL, "a plan for device memory on a context that has no devices");
    const uint64_t bytes = lay_out(NULL, NULL, steps, buffers);
    gcoll_device_work *work = gcoll_allocate(run->context, bytes);
    if (!work)
        return GCOLL_ERR_NO_MEMORY;
    memset(work, 0, bytes);
    lay_out(work, (char *)work, steps, buffers);
    work->bytes = bytes;
    run->work = work;
    return GCOLL_OK;
}

void gcoll_device_work_destroy(gcoll_run *run) {
    if (run->work)
        gcoll_release(run->context, run->work, run->work->bytes);
    run->work = NULL;
}

void gcoll_device_work_bind(gcoll_run *run, const gcoll_buffers *buffers) {
    gcoll_device_work *work = run->work;
    const uint32_t count = run->plan->problem.buffers;
    for (uint32_t k = 0; k < count; k++) {
        work->bases[2 * k] = run->plan->problem.in_place ? buffers->out[k] : buffers->in[k];
        work->bases[2 * k + 1] = buffers->out[k];
        work->streams[k] = buffers->streams ? buffers->streams[k] : NULL;
    }
    work->reach = buffers->reach;
}

/* ---- Gates ---------------------------------------------------------------------------------- */

/* The memory of base i. */
static uint32_t memory_of(const gcoll_run *run, uint32_t i) {
    return gcoll_problem_memory(&run->plan->problem, i % 2 ? gcoll_out(i / 2, 0) : gcoll_in(i / 2, 0));
}

/* The gate of an earlier buffer with the same stream. Default streams (NULL) of two devices are different. */
static uint32_t same_stream(const gcoll_run *run, uint32_t i) {
    const gcoll_device_work *work = run->work;
    for (uint32_t j = 0; j < i; j++)
        if (work->gate_of[j] != NO_GATE && work->streams[j / 2] == work->streams[i / 2] &&
            (work->streams[i / 2] || memory_of(run, j) == memory_of(run, i)))
            return work->gate_of[j];
    return NO_GATE;
}

static void put_gates(gcoll_run *run) {
    gcoll_device_work *work = run->work;
    gcoll_acceleration *devices = run->context->acceleration;
    for (uint32_t i = 0; i < work->gate_count; i++)
        gcoll_memory_put_gate(devices, work->gates[i]);
    work->gate_count = 0;
}

gcoll_status gcoll_device_work_start(gcoll_run *run) {
    gcoll_device_work *work = run->work;
    gcoll_acceleration *devices = run->context->acceleration;
    gcoll_status status = GCOLL_OK;
    for (uint32_t i = 0; i < 2 * run->plan->problem.buffers && status == GCOLL_OK; i++) {
        const uint32_t memory = memory_of(run, i);
        work->gate_of[i] = NO_GATE;
        if (memory == GCOLL_HOST_MEMORY || !work->bases[i])
            continue;
        work->gate_of[i] = same_stream(run, i);
        if (work->gate_of[i] != NO_GATE)
            continue;
        status =
            gcoll_memory_make_gate(devices, memory, work->streams[i / 2], &work->gates[work->gate_count]);
        if (status == GCOLL_OK)
            work->gate_of[i] = work->gate_count++;
    }
    if (status != GCOLL_OK) {
        put_gates(run);
        return status;
    }
    work->gates_done = 0;
    work->is_counting = true;
    work->copies = work->reductions = work->messages = 0;
    work->started_ns = work->noted_ns = gcoll_now_ns();
    return GCOLL_OK;
}

bool gcoll_device_work_is_open(gcoll_run *run) {
    gcoll_device_work *work = run->work;
    gcoll_acceleration *devices = run->context->acceleration;
    bool done = true;
    while (work->gates_done < work->gate_count && done) {
        gcoll_status status = gcoll_memory_test_gate(devices, work->gates[work->gates_done], &done);
        if (status != GCOLL_OK) {
            gcoll_break_operation(run->context, status, run->context->rank,
                                  "rank %u, earlier work on a stream of the caller: %s", run->context->rank,
                                  gcoll_last_error());
            return false;
        }
        work->gates_done += done;
    }
    if (!done && !work->is_gated)
        gcoll_memory_begun(devices);
    if (done && work->is_gated)
        gcoll_memory_done(devices);
    work->is_gated = !done;
    return done;
}

bool gcoll_device_work_arrived(gcoll_run *run, const gcoll_step *step) {
    gcoll_acceleration *devices = run->context->acceleration;
    const uint32_t memory = gcoll_problem_memory(&run->plan->problem, step->dst);
    if (step->kind != GCOLL_STEP_RECV || step->count == 0 || memory == GCOLL_HOST_MEMORY)
        return true;
    gcoll_status status = gcoll_memory_arrived(devices, memory);
    if (status != GCOLL_OK)
        gcoll_break_operation(run->context, status, run->context->rank, "rank %u, receiving to a device: %s",
                              run->context->rank, gcoll_last_error());
    return status == GCOLL_OK;
}

static void stand_behind(gcoll_device_work *work, gcoll_ref ref, uint32_t *count) {
    const uint32_t gate =
        ref.space == GCOLL_SCRATCH ? NO_GATE : work->gate_of[2 * ref.index + (ref.space == GCOLL_OUT)];
    if (gate == NO_GATE)
        return;
    for (uint32_t i = 0; i < *count; i++)
        if (work->behind[i] == work->gates[gate])
            return;
    work->behind[(*count)++] = work->gates[gate];
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static gcoll_status begin_fold(gcoll_run *run, const bound_step *bound, uint32_t gates,
                               gcoll_ticket **ticket) {
    gcoll_device_work *work = run->work;
    gcoll_acceleration *devices = run->context->acceleration;
    const gcoll_step *step = bound->step;
    for (uint32_t i = 0; i < step->operand_count; i++) {
        gcoll_ref ref = step->a;
        ref.index = run->plan->operands[step->first_operand + i];
        work->operands[i] = (const char *)work->bases[2 * ref.index + (ref.space == GCOLL_OUT)] +
                            ref.offset * run->type_bytes;
        work->devices[i] = gcoll_problem_memory(&run->plan->problem, ref) - 1;
        stand_behind(work, ref, &gates);
    }
    const gcoll_fold fold = {.device = gcoll_problem_memory(&run->plan->problem, step->dst) - 1,
                             .dst = bound->dst,
                             .operands = work->operands,
                             .devices = work->devices,
                             .operand_count = step->operand_count,
                             .count = step->count,
                             .type = (gcoll_type)run->entry->call.type,
                             .op = (gcoll_op)run->entry->call.op,
                             .reach = work->reach};
    return gcoll_memory_fold(devices, &fold, (gcoll_gates){work->behind, gates}, ticket);
}

static gcoll_status begin(gcoll_run *run, const bound_step *bound, gcoll_ticket **ticket) {
    gcoll_device_work *work = run->work;
    gcoll_acceleration *devices = run->context->acceleration;
    const gcoll_step *step = bound->step;
    const uint32_t memory = gcoll_problem_memory(&run->plan->problem, step->dst);
    uint32_t gates = 0;
    stand_behind(work, step->dst, &gates);
    if (step->kind == GCOLL_STEP_FOLD)
        return begin_fold(run, bound, gates, ticket);
    if (step->kind == GCOLL_STEP_DIVIDE)
        return gcoll_memory_divide(devices, memory, bound->dst, step->count,
                                   (gcoll_type)run->entry->call.type, run->plan->divisor,
                                   (gcoll_gates){work->behind, gates}, ticket);
    stand_behind(work, step->a, &gates);
    return gcoll_memory_copy(devices, bound->dst, memory, bound->a,
                             gcoll_problem_memory(&run->plan->problem, step->a),
                             step->count * run->type_bytes, (gcoll_gates){work->behind, gates}, ticket);
}

static void fail(gcoll_run *run, uint32_t index, gcoll_status status) {
    static const char *const names[GCOLL_STEP_KIND_COUNT] = {
        [GCOLL_STEP_COPY] = "copy", [GCOLL_STEP_DIVIDE] = "division", [GCOLL_STEP_FOLD] = "reduction"};
    gcoll_break_operation(run->context, status, run->context->rank, "rank %u, %s by a device: %s",
                          run->context->rank, names[run->plan->steps[index].kind], gcoll_last_error());
}

bool gcoll_device_work_begin(gcoll_run *run, uint32_t index) {
    gcoll_device_work *work = run->work;
    begun_step *begun = &work->begun[work->begun_count];
    gcoll_status status = begin(run, &run->steps[index], &begun->ticket);
    if (status != GCOLL_OK) {
        fail(run, index, status);
        return false;
    }
    begun->step = index;
    work->begun_count++;
    note_step(run, run->steps[index].step, true);
    return true;
}

/* Tests all started steps: devices finish them in any order. */
void gcoll_device_work_poll(gcoll_run *run) {
    gcoll_device_work *work = run->work;
    gcoll_acceleration *devices = run->context->acceleration;
    for (uint32_t i = 0; i < work->begun_count && !run->context->health.broken;) {
        const uint32_t index = work->begun[i].step;
        gcoll_ticket_time time = {0};
        bool done = false;
        gcoll_status status = gcoll_memory_test(devices, work->begun[i].ticket, &done, &time);
        if (status == GCOLL_OK && !done) {
            i++;
            continue;
        }
        work->begun[i] = work->begun[--work->begun_count];
        if (status != GCOLL_OK) {
            fail(run, index, status);
            return;
        }
        note_done(run, run->steps[index].step, time);
        gcoll_run_finish_step(run, index);
    }
}

/* ---- The end -------------------------------------------------------------------------------- */

/* Ends all device work of a broken context, also that of other runs. */
static void drain(gcoll_context *context) {
    gcoll_memory_drain(context);
    for (gcoll_run *run = context->runs->first; run; run = run->next)
        if (run->work) {
            run->work->begun_count = 0;
            run->work->is_gated = false;
        }
    if (context->health.broken) /* the caller is told the cause of the break, not a later error */
        gcoll_error((gcoll_status)context->health.cause.status, "%s", context->health.cause.text);
}

void gcoll_device_work_end(gcoll_run *run) {
    gcoll_device_work *work = run->work;
    gcoll_device_times *times = gcoll_memory_times(run->context->acceleration);
    /* Work may be in flight even without a ticket: starting a step may have failed half-way, or its ticket
     * was lost. */
    if (work->begun_count > 0 || (work->is_counting && run->unfinished > 0))
        drain(run->context);
    if (work->is_gated)
        gcoll_memory_given_up(run->context->acceleration);
    work->is_gated = false;
    put_gates(run);
    if (!work->is_counting)
        return;
    work->is_counting = false;
    if (run->unfinished > 0)
        return;
    times->elapsed_ns += note_time(run) - work->started_ns;
    times->operations++;
    if (run->scratch_bytes > times->pinned_bytes)
        times->pinned_bytes = run->scratch_bytes;
}

void gcoll_device_work_forget(gcoll_run *run) {
    gcoll_device_work *work = run->work;
    if (!work)
        return;
    work->begun_count = work->gate_count = 0;
    work->is_gated = work->is_counting = false;
}
