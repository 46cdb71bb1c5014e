/*
 * gcoll/plan/verify_run.c - runs all ranks' plans by the rules of plan.h; each step starts as soon as it may.
 *
 * One schedule stands for all, for two reasons.
 *
 * The effect of a step on memory does not depend on the schedule: conflicting steps are ordered
 * (verify_races.c), and messages are matched by number, not by time.
 *
 * Nor does the set of steps that can ever be done. Every condition of the rules, once true, stays true: a
 * dependency that is done stays done, the oldest unfinished round only grows, and a message ends when both of
 * its sides have started. So starting a step early never prevents another, and the greedy schedule finishes
 * every step that any schedule finishes. If it stops short, every schedule does: that is a deadlock. If it
 * ends, no schedule deadlocks, on any transport: here a send ends only with its receive, and real transports
 * end it no later.
 *
 * O(S + E) for S steps with E edges.
 */
#include <stdio.h>
#include <stdlib.h>

#include "gcoll/plan/verify_internal.h"

enum { WAITING = 0, STARTED, DONE };

#define HOPS 4u /* how many steps a deadlock's text follows */

typedef struct ready_step {
    uint32_t rank, step;
} ready_step;

typedef struct run {
    gcoll_verifier *v;
    uint8_t *state;    /* by step */
    uint32_t *missing; /* by step: dependencies not yet done */
    uint32_t *oldest;  /* by rank: the first unfinished step */
    uint32_t *horizon; /* by rank: the first step that the window forbids */
    ready_step *ready; /* may start; each step comes in once */
    uint64_t ready_count, done_count;
} run;

static void push(run *x, uint32_t rank, uint32_t step) {
    x->ready[x->ready_count++] = (ready_step){rank, step};
}

/* Admits the steps that the window now allows. */
static void advance(run *x, uint32_t rank) {
    const gcoll_plan *plan = x->v->plans[rank];
    uint64_t base = x->v->base[rank];
    uint32_t oldest = x->oldest[rank], n = plan->step_count;
    while (oldest < n && x->state[base + oldest] == DONE)
        oldest++;
    x->oldest[rank] = oldest;
    if (oldest == n)
        return;
    uint64_t newest = (uint64_t)plan->steps[oldest].round + plan->window;
    for (uint32_t i = x->horizon[rank]; i < n && plan->steps[i].round <= newest; i++) {
        if (x->missing[base + i] == 0)
            push(x, rank, i);
        x->horizon[rank] = i + 1;
    }
}

static void finish(run *x, uint32_t rank, uint32_t step) {
    const gcoll_plan *plan = x->v->plans[rank];
    const gcoll_step *s = &plan->steps[step];
    x->state[x->v->base[rank] + step] = DONE;
    x->done_count++;
    for (uint32_t k = 0; k < s->successors; k++) {
        uint32_t next = plan->successors[s->first_successor + k];
        if (--x->missing[x->v->base[rank] + next] == 0 && next < x->horizon[rank])
            push(x, rank, next);
    }
    if (step == x->oldest[rank])
        advance(x, rank);
}

static gcoll_status start(run *x, uint32_t rank, uint32_t step) {
    gcoll_verifier *v = x->v;
    const gcoll_step *s = &v->plans[rank]->steps[step];
    gcoll_status status;
    x->state[v->base[rank] + step] = STARTED;
    if (!gcoll_step_is_message(s)) {
        status = gcoll_verify_apply(v, rank, step);
        if (status)
            return status;
        gcoll_verify_causal_local(v, rank, step);
        finish(x, rank, step);
        return GCOLL_OK;
    }
    uint32_t partner = v->partner[v->base[rank] + step];
    if (x->state[v->base[s->peer] + partner] != STARTED)
        return GCOLL_OK;
    bool sends = s->kind == GCOLL_STEP_SEND;
    uint32_t sender = sends ? rank : s->peer, send = sends ? step : partner;
    uint32_t receiver = sends ? s->peer : rank, receive = sends ? partner : step;
    status = gcoll_verify_transfer(v, sender, send, receiver, receive);
    if (status)
        return status;
    gcoll_verify_causal_message(v, sender, send, receiver, receive);
    finish(x, sender, send);
    finish(x, receiver, receive);
    return GCOLL_OK;
}

/* Appends the reason why `*step` of `rank` cannot start, and sets *step to the step that it waits for. */
static int explain(const run *x, uint32_t rank, uint32_t *step, char *text, size_t room) {
    const gcoll_plan *plan = x->v->plans[rank];
    uint64_t base = x->v->base[rank];
    char name[GCOLL_VERIFY_TEXT], other[GCOLL_VERIFY_TEXT];
    const gcoll_step *s = &plan->steps[*step];
    gcoll_verify_describe(s, name);
    if (x->missing[base + *step] == 0) {
        uint32_t oldest = x->oldest[rank];
        gcoll_verify_describe(&plan->steps[oldest], other);
        int n = snprintf(text, room,
                         "; there step %u (%s) of round %u waits, as the window is %u, for step %u (%s) of "
                         "round %u",
                         *step, name, s->round, plan->window, oldest, other, plan->steps[oldest].round);
        *step = oldest;
        return n;
    }
    for (uint32_t i = x->oldest[rank]; i < *step; i++) {
        const gcoll_step *before = &plan->steps[i];
        for (uint32_t k = 0; x->state[base + i] != DONE && k < before->successors; k++) {
            if (plan->successors[before->first_successor + k] != *step)
                continue;
            gcoll_verify_describe(before, other);
            int n =
                snprintf(text, room, "; there step %u (%s) waits for step %u (%s)", *step, name, i, other);
            *step = i;
            return n;
        }
    }
    return 0; /* not reached: a missing dependency is a step that is not done */
}

/* Describes a deadlock. The oldest unfinished step of a rank has started, as it waits for no step of its
 * rank; so it is a message whose other side has not started. */
static gcoll_status report_deadlock(const run *x) {
    const gcoll_verifier *v = x->v;
    char text[768];
    size_t used = 0;
    uint32_t rank = 0;
    while (x->oldest[rank] == v->plans[rank]->step_count)
        rank++;
    const uint32_t first_rank = rank, first = x->oldest[rank];
    uint32_t step = first;
    text[0] = '\0';
    for (uint32_t hop = 0; hop < HOPS && used < sizeof text; hop++) {
        /* Follow a started message to its other side, or a step to the step that it waits for. */
        if (x->state[v->base[rank] + step] == STARTED) {
            const gcoll_step *s = &v->plans[rank]->steps[step];
            step = v->partner[v->base[rank] + step];
            rank = s->peer;
            used += (size_t)snprintf(text + used, sizeof text - used, "%swaits for rank %u",
                                     hop ? ", which " : "", rank);
            if (used >= sizeof text)
                break;
        }
        used += (size_t)explain(x, rank, &step, text + used, sizeof text - used);
    }
    return gcoll_verify_fail(v, first_rank, first, "deadlock: it %s", text);
}

static gcoll_status run_all(run *x) {
    gcoll_verifier *v = x->v;
    for (uint32_t r = 0; r < v->size; r++) {
        for (uint32_t i = 0; i < v->plans[r]->step_count; i++)
            x->missing[v->base[r] + i] = v->plans[r]->steps[i].dependencies;
        advance(x, r);
    }
    while (x->ready_count > 0) {
        ready_step next = x->ready[--x->ready_count];
        gcoll_status status = start(x, next.rank, next.step);
        if (status)
            return status;
    }
    return x->done_count == v->base[v->size] ? GCOLL_OK : report_deadlock(x);
}

gcoll_status gcoll_verify_run(gcoll_verifier *v) {
    run x = {.v = v};
    uint64_t steps = v->base[v->size];
    gcoll_status status = GCOLL_ERR_NO_MEMORY;
    x.state = gcoll_verify_allocate(steps, sizeof *x.state);
    x.missing = gcoll_verify_allocate(steps, sizeof *x.missing);
    x.oldest = gcoll_verify_allocate(v->size, sizeof *x.oldest);
    x.horizon = gcoll_verify_allocate(v->size, sizeof *x.horizon);
    x.ready = gcoll_verify_allocate(steps, sizeof *x.ready);
    if (x.state && x.missing && x.oldest && x.horizon && x.ready)
        status = run_all(&x);
    free(x.ready);
    free(x.horizon);
    free(x.oldest);
    free(x.missing);
    free(x.state);
    return status;
}
