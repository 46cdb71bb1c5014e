/*
 * gcoll/plan/simulate_run.c - events and ranks: the engine's rules (gcoll/run/engine.c) in virtual time.
 *
 * One instant is handled in three phases: first all events, then the ranks that they woke, then the messages
 * that may start. So of two messages of one instant, the one whose rank has the lower number is not favoured.
 */
#include <stdlib.h>

#include "gcoll/plan/simulate_internal.h"

gcoll_status gcoll_sim_push(gcoll_sim *sim, int64_t after, uint32_t what, uint32_t id) {
    if (after > GCOLL_SIM_LIMIT - sim->now)
        return gcoll_error(GCOLL_ERR_INVALID, "the run gets longer than 100 days");
    return gcoll_sim_heap_push(&sim->events, (gcoll_sim_entry){sim->now + after, sim->pushed++, what, id});
}

static void wake(gcoll_sim *sim, uint32_t rank) {
    if (sim->ranks[rank].awake)
        return;
    sim->ranks[rank].awake = true;
    sim->awake[sim->awake_count++] = rank;
}

/* ---- The engine's rules ------------------------------------------------------------------------- */

static void push_ready(gcoll_sim *sim, uint32_t rank, uint32_t id, uint32_t cause,
                       gcoll_simulate_reason reason) {
    gcoll_sim_step *step = &sim->steps[id];
    step->ready = sim->now;
    step->cause = cause;
    step->reason = (uint8_t)reason;
    gcoll_sim_append(sim, &sim->ranks[rank].ready, id);
}

/* Admits the steps that the window now allows. */
static void release(gcoll_sim *sim, uint32_t rank, uint32_t cause, gcoll_simulate_reason reason) {
    const gcoll_plan *plan = sim->v.plans[rank];
    gcoll_sim_rank *state = &sim->ranks[rank];
    uint32_t base = (uint32_t)sim->v.base[rank], n = plan->step_count;
    while (state->oldest < n && sim->steps[base + state->oldest].state == GCOLL_SIM_DONE)
        state->oldest++;
    if (state->oldest == n)
        return;
    uint64_t newest = (uint64_t)plan->steps[state->oldest].round + plan->window;
    for (; state->released < n && plan->steps[state->released].round <= newest; state->released++) {
        uint32_t id = base + state->released;
        if (sim->steps[id].missing == 0)
            push_ready(sim, rank, id, cause, reason);
    }
}

static void finish(gcoll_sim *sim, uint32_t id) {
    gcoll_sim_step *step = &sim->steps[id];
    const uint32_t rank = step->rank;
    gcoll_sim_rank *state = &sim->ranks[rank];
    const gcoll_plan *plan = sim->v.plans[rank];
    const gcoll_step *s = gcoll_sim_plan_step(sim, id);
    uint32_t base = (uint32_t)sim->v.base[rank];
    step->state = GCOLL_SIM_DONE;
    step->end = sim->now;
    state->finish = sim->now;
    state->last_step = id;
    state->unfinished--;
    for (uint32_t k = 0; k < s->successors; k++) {
        uint32_t next = plan->successors[s->first_successor + k];
        if (--sim->steps[base + next].missing == 0 && next < state->released)
            push_ready(sim, rank, base + next, id, GCOLL_SIMULATE_BY_DEPENDENCY);
    }
    if (gcoll_sim_local(sim, id) == state->oldest)
        release(sim, rank, id, GCOLL_SIMULATE_BY_WINDOW);
}

/* ---- Ranks --------------------------------------------------------------------------------------- */

static void match(gcoll_sim *sim, uint32_t send, uint32_t order) {
    sim->steps[send].matched = sim->now;
    sim->steps[send].order = order;
    gcoll_sim_append(sim, &sim->matched, send);
}

static void post(gcoll_sim *sim, uint32_t id) {
    gcoll_sim_step *step = &sim->steps[id];
    gcoll_sim_rank *rank = &sim->ranks[step->rank];
    const bool sends = gcoll_sim_plan_step(sim, id)->kind == GCOLL_STEP_SEND;
    const uint32_t other = gcoll_sim_partner(sim, id);
    const gcoll_sim_step *partner = &sim->steps[other];
    if (rank->posts_time != sim->now)
        rank->posts = 0;
    rank->posts_time = sim->now;
    step->order = rank->posts++;
    if (gcoll_sim_is_eager(sim, id)) {
        if (sends)
            match(sim, id, step->order);
        else if (step->moved >= 0)
            gcoll_sim_append(sim, &rank->moved, id);
    } else if (partner->state == GCOLL_SIM_POSTED) {
        /* A partner that posted at an earlier instant does not count: it had nobody to compete with. */
        uint32_t order = step->order;
        if (partner->posted == sim->now && partner->order > order)
            order = partner->order;
        match(sim, sends ? id : other, order);
    }
}

/* The processor takes up a local step, or a message that has moved. */
static gcoll_status take_up(gcoll_sim *sim, gcoll_sim_rank *rank, uint32_t id) {
    int64_t ps = 0;
    gcoll_status status = gcoll_sim_price_work(sim, id, &ps);
    if (status)
        return status;
    sim->steps[id].work = sim->now;
    if (ps == 0) {
        finish(sim, id);
        return GCOLL_OK;
    }
    rank->current = rank->latest = id;
    return gcoll_sim_push(sim, ps, GCOLL_SIM_WORKED, id);
}

/* Starts the next waiting step of an idle lane; steps that take no time finish at once. */
static gcoll_status run_lane(gcoll_sim *sim, gcoll_sim_lane *lane) {
    while (lane->current == GCOLL_SIM_NONE && lane->waiting.head != GCOLL_SIM_NONE) {
        const uint32_t id = gcoll_sim_take(sim, &lane->waiting);
        gcoll_sim_step *step = &sim->steps[id];
        int64_t ps = 0;
        gcoll_status status = gcoll_sim_price_device(sim, id, &ps);
        if (status)
            return status;
        step->work = sim->now;
        if (step->work > step->posted) /* the lane was busy with another step, which ended now */
            step->work_cause = lane->latest;
        if (ps == 0) {
            finish(sim, id);
            continue;
        }
        lane->current = lane->latest = id;
        return gcoll_sim_push(sim, ps, GCOLL_SIM_STAGED, id);
    }
    return GCOLL_OK;
}

static gcoll_status staged(gcoll_sim *sim, uint32_t id) {
    gcoll_sim_lane *lane = &sim->lanes[sim->steps[id].lane];
    lane->current = GCOLL_SIM_NONE;
    finish(sim, id);
    wake(sim, sim->steps[id].rank);
    return run_lane(sim, lane);
}

static gcoll_status begin(gcoll_sim *sim, gcoll_sim_rank *rank, uint32_t id) {
    gcoll_sim_step *step = &sim->steps[id];
    step->state = GCOLL_SIM_POSTED;
    step->posted = sim->now;
    if (step->posted > step->ready) { /* the processor was busy until now, with rank->latest */
        step->cause = rank->latest;
        step->reason = GCOLL_SIMULATE_BY_PROCESSOR;
    }
    if (step->lane != GCOLL_SIM_NONE) {
        gcoll_sim_append(sim, &sim->lanes[step->lane].waiting, id);
        return run_lane(sim, &sim->lanes[step->lane]);
    }
    if (!gcoll_step_is_message(gcoll_sim_plan_step(sim, id)))
        return take_up(sim, rank, id);
    post(sim, id);
    return GCOLL_OK;
}

static gcoll_status take_message(gcoll_sim *sim, gcoll_sim_rank *rank, uint32_t id) {
    gcoll_sim_step *step = &sim->steps[id];
    int64_t there = gcoll_sim_is_early(step) ? step->posted : step->moved;
    if (sim->now > there)
        step->work_cause = rank->latest;
    return take_up(sim, rank, id);
}

/* Does all that the rank can do at this instant, in the engine's order: begin steps, then take messages. */
static gcoll_status run_rank(gcoll_sim *sim, uint32_t r) {
    gcoll_sim_rank *rank = &sim->ranks[r];
    gcoll_status status = GCOLL_OK;
    while (!status && rank->entered && rank->current == GCOLL_SIM_NONE)
        if (rank->ready.head != GCOLL_SIM_NONE)
            status = begin(sim, rank, gcoll_sim_take(sim, &rank->ready));
        else if (rank->moved.head != GCOLL_SIM_NONE)
            status = take_message(sim, rank, gcoll_sim_take(sim, &rank->moved));
        else
            break;
    return status;
}

/* ---- Events -------------------------------------------------------------------------------------- */

static void enter(gcoll_sim *sim, uint32_t rank) {
    sim->ranks[rank].entered = true;
    sim->ranks[rank].finish = sim->now;
    release(sim, rank, GCOLL_SIM_NONE, GCOLL_SIMULATE_BY_ARRIVAL);
    wake(sim, rank);
}

static void moved(gcoll_sim *sim, uint32_t id) {
    gcoll_sim_step *step = &sim->steps[id];
    step->moved = sim->now;
    if (step->state != GCOLL_SIM_POSTED)
        return;
    gcoll_sim_append(sim, &sim->ranks[step->rank].moved, id);
    wake(sim, step->rank);
}

static gcoll_status handle(gcoll_sim *sim, gcoll_sim_entry event) {
    gcoll_status status = GCOLL_OK;
    switch (event.what) {
    case GCOLL_SIM_ENTER:
        enter(sim, event.id);
        break;
    case GCOLL_SIM_LEFT:
        moved(sim, event.id);
        status = gcoll_sim_ports_freed(sim, event.id, false);
        if (!status)
            status = gcoll_sim_ports_freed(sim, event.id, true);
        break;
    case GCOLL_SIM_CAME:
        moved(sim, gcoll_sim_partner(sim, event.id));
        break;
    case GCOLL_SIM_FREED:
        status = gcoll_sim_ports_freed(sim, event.id, true);
        break;
    case GCOLL_SIM_STAGED:
        status = staged(sim, event.id);
        break;
    default: /* GCOLL_SIM_WORKED */
        sim->ranks[sim->steps[event.id].rank].current = GCOLL_SIM_NONE;
        finish(sim, event.id);
        wake(sim, sim->steps[event.id].rank);
        break;
    }
    return status;
}

/* Reports a deadlock if a rank has not finished. Its oldest unfinished step can only wait for the other side
 * of its message. */
static gcoll_status check_finished(const gcoll_sim *sim) {
    uint32_t r = 0;
    while (r < sim->v.size && sim->ranks[r].unfinished == 0)
        r++;
    if (r == sim->v.size)
        return GCOLL_OK;
    uint32_t id = (uint32_t)(sim->v.base[r] + sim->ranks[r].oldest);
    uint32_t other = gcoll_sim_partner(sim, id);
    char name[GCOLL_VERIFY_TEXT];
    return gcoll_verify_fail(&sim->v, r, sim->ranks[r].oldest,
                             "deadlock: it waits for rank %u, which cannot begin its step %u (%s)",
                             sim->steps[other].rank, gcoll_sim_local(sim, other),
                             gcoll_verify_describe(gcoll_sim_plan_step(sim, other), name));
}

static gcoll_status run_instant(gcoll_sim *sim) {
    gcoll_status status = GCOLL_OK;
    while (!status && sim->events.count > 0 && sim->events.at[0].time == sim->now)
        status = handle(sim, gcoll_sim_heap_pop(&sim->events));
    for (uint32_t i = 0; !status && i < sim->awake_count; i++) {
        sim->ranks[sim->awake[i]].awake = false;
        status = run_rank(sim, sim->awake[i]);
    }
    sim->awake_count = 0;
    return status ? status : gcoll_sim_dispatch(sim);
}

gcoll_status gcoll_sim_run(gcoll_sim *sim) {
    gcoll_status status = GCOLL_OK;
    for (uint32_t r = 0; !status && r < sim->v.size; r++)
        status = gcoll_sim_push(sim, sim->ranks[r].arrival, GCOLL_SIM_ENTER, r);
    while (!status && sim->events.count > 0) {
        sim->now = sim->events.at[0].time;
        status = run_instant(sim);
    }
    return status ? status : check_finished(sim);
}
