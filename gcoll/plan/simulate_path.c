/*
 * gcoll/plan/simulate_path.c - the critical path and the timeline of a simulated run.
 *
 * The path is walked backwards from the end. Each step or message began at the moment when another one ended;
 * the run noted which, and the walk goes on there. Those that took no time are not part of the path.
 */
#include <stdlib.h>

#include "gcoll/plan/simulate_internal.h"

static const char *const kind_names[GCOLL_SIMULATE_KIND_COUNT] = {
    "arrival",        "send", "recv",           "reduce",          "copy", "divide", "copy to host",
    "copy to device", "fold", "copy on device", "divide on device"};
static const char *const reason_names[GCOLL_SIMULATE_REASON_COUNT] = {
    "arrival", "dependency", "window", "peer", "port", "processor", "device"};

const char *gcoll_simulate_kind_name(gcoll_simulate_kind kind) {
    return (unsigned)kind < GCOLL_SIMULATE_KIND_COUNT ? kind_names[kind] : "?";
}

const char *gcoll_simulate_reason_name(gcoll_simulate_reason reason) {
    return (unsigned)reason < GCOLL_SIMULATE_REASON_COUNT ? reason_names[reason] : "?";
}

/* The kind of local work that a step does. */
static gcoll_simulate_kind work_kind(const gcoll_sim *sim, uint32_t id) {
    if (sim->steps[id].lane != GCOLL_SIM_NONE)
        return gcoll_sim_device_kind(sim, id);
    switch ((gcoll_step_kind)gcoll_sim_plan_step(sim, id)->kind) {
    case GCOLL_STEP_RECV_REDUCE:
    case GCOLL_STEP_REDUCE:
    case GCOLL_STEP_ENCODE:
    case GCOLL_STEP_DECODE:
    case GCOLL_STEP_DECODE_REDUCE:
        return GCOLL_SIMULATE_REDUCE;
    case GCOLL_STEP_DIVIDE:
        return GCOLL_SIMULATE_DIVIDE;
    default:
        return GCOLL_SIMULATE_COPY;
    }
}

/* ---- The critical path --------------------------------------------------------------------------- */

typedef struct walk {
    const gcoll_sim *sim;
    gcoll_simulate_piece *pieces;
    uint64_t count, room;
    uint32_t step; /* the step whose end, or whose use of a port, comes next on the path */
    int64_t time;  /* the path is known from here to the end */
    bool at_end;   /* `step` ended at `time`; false: its message freed a port at `time` */
    gcoll_status status;
} walk;

static void add(walk *w, int64_t begin, gcoll_simulate_piece piece) {
    if (begin >= w->time || w->status)
        return;
    if (gcoll_verify_reserve(&w->pieces, &w->room, w->count + 1, sizeof *w->pieces)) {
        w->status = gcoll_error(GCOLL_ERR_NO_MEMORY, "the simulator found no memory for the critical path");
        return;
    }
    piece.begin = gcoll_sim_seconds(begin);
    piece.end = gcoll_sim_seconds(w->time);
    w->pieces[w->count++] = piece;
    w->time = begin;
}

static gcoll_simulate_piece piece_of(const gcoll_sim *sim, uint32_t id, gcoll_simulate_kind kind,
                                     gcoll_simulate_reason reason) {
    bool message = kind == GCOLL_SIMULATE_SEND || kind == GCOLL_SIMULATE_RECV;
    return (gcoll_simulate_piece){.rank = sim->steps[id].rank,
                                  .step = gcoll_sim_local(sim, id),
                                  .peer =
                                      message ? gcoll_sim_plan_step(sim, id)->peer : GCOLL_SIMULATE_NOBODY,
                                  .kind = kind,
                                  .reason = reason};
}

static void add_arrival(walk *w, uint32_t rank) {
    add(w, 0,
        (gcoll_simulate_piece){.rank = rank,
                               .step = GCOLL_SIMULATE_NOBODY,
                               .peer = GCOLL_SIMULATE_NOBODY,
                               .kind = GCOLL_SIMULATE_ARRIVAL,
                               .reason = GCOLL_SIMULATE_BY_ARRIVAL});
}

/* Goes on to the step whose end let the rank begin `id`. False: `id` followed the rank's arrival, and the
 * walk ends. */
static bool to_cause(walk *w, uint32_t id) {
    w->step = w->sim->steps[id].cause;
    w->at_end = true;
    if (w->step != GCOLL_SIM_NONE)
        return true;
    add_arrival(w, w->sim->steps[id].rank);
    return false;
}

/* Adds the transfer of a message to the path, and goes on to the cause of its start. */
static bool pass_message(walk *w, uint32_t id) {
    const gcoll_sim *sim = w->sim;
    const bool sends = gcoll_sim_plan_step(sim, id)->kind == GCOLL_STEP_SEND;
    const uint32_t other = gcoll_sim_partner(sim, id), send = sends ? id : other;
    const gcoll_sim_step *message = &sim->steps[send], *own = &sim->steps[id];
    gcoll_simulate_kind kind = sends ? GCOLL_SIMULATE_SEND : GCOLL_SIMULATE_RECV;
    if (message->port_cause != GCOLL_SIM_NONE) {
        add(w, message->start, piece_of(sim, id, kind, GCOLL_SIMULATE_BY_PORT));
        w->step = message->port_cause;
        w->at_end = false;
        return true;
    }
    /* The start of an eager message depends on its sender alone. */
    if (own->posted == message->start && (sends || !gcoll_sim_is_eager(sim, send))) {
        add(w, message->start, piece_of(sim, id, kind, (gcoll_simulate_reason)own->reason));
        return to_cause(w, id);
    }
    add(w, message->start, piece_of(sim, id, kind, GCOLL_SIMULATE_BY_PEER));
    return to_cause(w, other);
}

static bool pass_step(walk *w) {
    const gcoll_sim *sim = w->sim;
    const uint32_t id = w->step;
    const gcoll_sim_step *step = &sim->steps[id];
    const gcoll_step *s = gcoll_sim_plan_step(sim, id);
    if (!w->at_end)
        return pass_message(w, id);
    gcoll_simulate_reason reason = GCOLL_SIMULATE_BY_DEPENDENCY;
    bool message = gcoll_step_is_message(s), early = message && gcoll_sim_is_early(step);
    if (step->work_cause != GCOLL_SIM_NONE)
        reason = step->lane != GCOLL_SIM_NONE ? GCOLL_SIMULATE_BY_DEVICE : GCOLL_SIMULATE_BY_PROCESSOR;
    else if (early || !message)
        reason = (gcoll_simulate_reason)step->reason;
    add(w, step->work, piece_of(sim, id, work_kind(sim, id), reason));
    if (step->work_cause != GCOLL_SIM_NONE) {
        w->step = step->work_cause;
        return true;
    }
    return early || !message ? to_cause(w, id) : pass_message(w, id);
}

gcoll_status gcoll_sim_path(const gcoll_sim *sim, gcoll_simulation *result) {
    walk w = {.sim = sim, .at_end = true};
    uint32_t last = 0; /* rank */
    for (uint32_t r = 1; r < sim->v.size; r++)
        if (sim->ranks[r].finish > sim->ranks[last].finish)
            last = r;
    w.time = sim->ranks[last].finish;
    w.step = sim->ranks[last].last_step;
    bool more = w.step != GCOLL_SIM_NONE;
    if (!more)
        add_arrival(&w, last);
    while (more && !w.status)
        more = pass_step(&w);
    result->path = w.pieces;
    result->path_count = w.count;
    return w.status;
}

/* ---- The timeline -------------------------------------------------------------------------------- */

static gcoll_simulate_event event_of(const gcoll_sim *sim, uint32_t id, gcoll_simulate_kind kind,
                                     int64_t ready, int64_t begin, int64_t end) {
    bool message = kind == GCOLL_SIMULATE_SEND || kind == GCOLL_SIMULATE_RECV;
    const gcoll_sim_step *step = &sim->steps[id];
    return (gcoll_simulate_event){
        .ready = gcoll_sim_seconds(ready),
        .begin = gcoll_sim_seconds(begin),
        .end = gcoll_sim_seconds(end),
        .bytes = gcoll_sim_bytes(sim, id),
        .rank = step->rank,
        .step = gcoll_sim_local(sim, id),
        .peer = message ? gcoll_sim_plan_step(sim, id)->peer : GCOLL_SIMULATE_NOBODY,
        .port = message ? step->port : GCOLL_SIMULATE_NOBODY,
        .device = step->lane != GCOLL_SIM_NONE ? gcoll_sim_device(sim, id) : GCOLL_SIMULATE_NOBODY,
        .kind = kind};
}

/* Up to two events: a message, and work. */
static uint32_t events_of(const gcoll_sim *sim, uint32_t id, gcoll_simulate_event events[2]) {
    const gcoll_sim_step *step = &sim->steps[id];
    const gcoll_step *s = gcoll_sim_plan_step(sim, id);
    uint32_t n = 0;
    if (s->kind == GCOLL_STEP_SEND) {
        events[n++] = event_of(sim, id, GCOLL_SIMULATE_SEND, step->posted, step->start, step->moved);
        return n;
    }
    if (gcoll_step_is_message(s)) {
        const gcoll_sim_step *send = &sim->steps[gcoll_sim_partner(sim, id)];
        int64_t begin = step->moved - (send->moved - send->start);
        int64_t ready = step->posted < begin ? step->posted : begin; /* an early message waits for nobody */
        events[n++] = event_of(sim, id, GCOLL_SIMULATE_RECV, ready, begin, step->moved);
        if (s->kind == GCOLL_STEP_RECV && step->end == step->work)
            return n;
    } else if (s->count == 0) {
        return n;
    }
    int64_t ready = n == 0 ? step->ready : gcoll_sim_is_early(step) ? step->posted : step->moved;
    events[n++] = event_of(sim, id, work_kind(sim, id), ready, step->work, step->end);
    return n;
}

static int compare(const void *a, const void *b) {
    const gcoll_simulate_event *x = a, *y = b;
    if (x->begin < y->begin || x->begin > y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return x->kind < y->kind ? -1 : x->kind > y->kind;
}

gcoll_status gcoll_sim_timeline(const gcoll_sim *sim, gcoll_simulation *result) {
    uint64_t steps = sim->v.base[sim->v.size], n = 0;
    gcoll_simulate_event some[2];
    for (uint32_t id = 0; id < steps; id++)
        n += events_of(sim, id, some);
    gcoll_simulate_event *all = gcoll_sim_allocate(n, sizeof *all);
    if (!all)
        return GCOLL_ERR_NO_MEMORY;
    result->events = all;
    result->event_count = n;
    for (uint32_t id = 0; id < steps; id++) {
        uint32_t k = events_of(sim, id, some);
        for (uint32_t i = 0; i < k; i++)
            *all++ = some[i];
    }
    qsort((void *)(uintptr_t)result->events, n, sizeof *all, compare);
    return GCOLL_OK;
}
