/*
 * gcoll/plan/verify_causal.c - finds the events that must precede the end of each step.
 *
 * A step follows the steps that it depends on, and all steps of rounds that the window requires to be done. A
 * receive also follows everything that its send follows. The reverse does not hold: a transport may buffer,
 * so a send may be done before its receive has started. The longest chain of messages counts both sides: a
 * message is one deeper than everything that its send or its receive waited for.
 */
#include <stdlib.h>
#include <string.h>

#include "gcoll/plan/verify_internal.h"

static uint64_t *set_at(const gcoll_verifier *v, uint64_t *sets, uint64_t step) {
    return sets + step * v->causal.words;
}

static void unite(const gcoll_verifier *v, uint64_t *into, const uint64_t *from) {
    for (uint64_t w = 0; w < v->causal.words; w++)
        into[w] |= from[w];
}

/* The number of steps with rounds below `round`. */
static uint32_t steps_before(const gcoll_plan *plan, uint32_t round) {
    uint32_t low = 0, high = plan->step_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (plan->steps[middle].round < round)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Fills in prefix for the rank's first n steps, all of which are done. */
static void extend_prefix(gcoll_verifier *v, uint32_t rank, uint32_t n) {
    gcoll_verify_causal *c = &v->causal;
    for (uint32_t i = c->known[rank]; i < n; i++) {
        uint64_t at = v->base[rank] + i;
        c->prefix[at] = c->depth[at];
        if (i > 0 && c->prefix[at] < c->prefix[at - 1])
            c->prefix[at] = c->prefix[at - 1];
        if (c->words == 0)
            continue;
        unite(v, set_at(v, c->started_prefix, at), set_at(v, c->started, at));
        if (i > 0)
            unite(v, set_at(v, c->started_prefix, at), set_at(v, c->started_prefix, at - 1));
    }
    if (c->known[rank] < n)
        c->known[rank] = n;
}

/* Adds to a step everything that precedes it because of the window. Its dependencies have been added
 * already. */
static void gate(gcoll_verifier *v, uint32_t rank, uint32_t step) {
    gcoll_verify_causal *c = &v->causal;
    const gcoll_plan *plan = v->plans[rank];
    uint64_t at = v->base[rank] + step;
    if (c->words > 0)
        set_at(v, c->started, at)[rank / 64] |= UINT64_C(1) << (rank % 64);
    if (plan->steps[step].round <= plan->window)
        return;
    uint32_t n = steps_before(plan, plan->steps[step].round - plan->window);
    if (n == 0)
        return;
    extend_prefix(v, rank, n);
    uint64_t last = v->base[rank] + n - 1;
    if (c->depth[at] < c->prefix[last])
        c->depth[at] = c->prefix[last];
    if (c->words > 0)
        unite(v, set_at(v, c->started, at), set_at(v, c->started_prefix, last));
}

/* Passes everything that precedes a finished step on to its successors. */
static void hand_on(gcoll_verifier *v, uint32_t rank, uint32_t step) {
    gcoll_verify_causal *c = &v->causal;
    const gcoll_plan *plan = v->plans[rank];
    const gcoll_step *s = &plan->steps[step];
    uint64_t at = v->base[rank] + step;
    if (c->longest < c->depth[at])
        c->longest = c->depth[at];
    for (uint32_t k = 0; k < s->successors; k++) {
        uint64_t next = v->base[rank] + plan->successors[s->first_successor + k];
        if (c->depth[next] < c->depth[at])
            c->depth[next] = c->depth[at];
        if (c->words > 0)
            unite(v, set_at(v, c->started, next), set_at(v, c->started, at));
    }
}

void gcoll_verify_causal_local(gcoll_verifier *v, uint32_t rank, uint32_t step) {
    gate(v, rank, step);
    hand_on(v, rank, step);
}

void gcoll_verify_causal_message(gcoll_verifier *v, uint32_t sender, uint32_t send, uint32_t receiver,
                                 uint32_t receive) {
    gcoll_verify_causal *c = &v->causal;
    uint64_t from = v->base[sender] + send, to = v->base[receiver] + receive;
    gate(v, sender, send);
    gate(v, receiver, receive);
    uint32_t depth = c->depth[from] > c->depth[to] ? c->depth[from] : c->depth[to];
    c->depth[from] = c->depth[to] = depth + 1;
    if (c->words > 0)
        unite(v, set_at(v, c->started, to), set_at(v, c->started, from));
    hand_on(v, sender, send);
    hand_on(v, receiver, receive);
}

static gcoll_status check_leave(const gcoll_verifier *v, uint32_t rank, uint64_t *known) {
    memset(known, 0, v->causal.words * sizeof *known);
    known[rank / 64] |= UINT64_C(1) << (rank % 64);
    for (uint32_t i = 0; i < v->plans[rank]->step_count; i++)
        unite(v, known, set_at(v, v->causal.started, v->base[rank] + i));
    for (uint32_t other = 0; other < v->size; other++) {
        if (!(known[other / 64] >> (other % 64) & 1))
            return gcoll_error(GCOLL_ERR_INVALID,
                               "rank %u: may leave the barrier before rank %u has entered it", rank, other);
    }
    return GCOLL_OK;
}

gcoll_status gcoll_verify_causal_barrier(gcoll_verifier *v) {
    uint64_t *known = gcoll_verify_allocate(v->causal.words, sizeof *known);
    gcoll_status status = known ? GCOLL_OK : GCOLL_ERR_NO_MEMORY;
    for (uint32_t r = 0; !status && r < v->size; r++)
        status = check_leave(v, r, known);
    free(known);
    return status;
}

gcoll_status gcoll_verify_causal_create(gcoll_verifier *v) {
    gcoll_verify_causal *c = &v->causal;
    uint64_t steps = v->base[v->size], bits = 0;
    c->depth = gcoll_verify_allocate(steps, sizeof *c->depth);
    c->prefix = gcoll_verify_allocate(steps, sizeof *c->prefix);
    c->known = gcoll_verify_allocate(v->size, sizeof *c->known);
    if (!c->depth || !c->prefix || !c->known)
        return GCOLL_ERR_NO_MEMORY;
    if (v->plans[0]->problem.collective != GCOLL_BARRIER)
        return GCOLL_OK;
    c->words = ((uint64_t)v->size + 63) / 64;
    if (!gcoll_mul_u64(c->words, steps, &bits))
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "the barrier is too large to verify");
    c->started = gcoll_verify_allocate(bits, sizeof(uint64_t));
    c->started_prefix = gcoll_verify_allocate(bits, sizeof(uint64_t));
    return c->started && c->started_prefix ? GCOLL_OK : GCOLL_ERR_NO_MEMORY;
}

void gcoll_verify_causal_free(gcoll_verify_causal *causal) {
    free(causal->depth);
    free(causal->prefix);
    free(causal->known);
    free(causal->started);
    free(causal->started_prefix);
}
