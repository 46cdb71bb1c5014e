/* transport/session/patience.c - decides whether a wait polls, yields or sleeps; see patience.h. */
#include "transport/session/patience.h"

bool gcoll_patience_has_core(const gcoll_patience *patience) {
    return patience->taken == 0 && patience->sleepy == 0 && patience->spin_ns > 0;
}

void gcoll_patience_init(gcoll_patience *patience, int64_t spin_ns, uint32_t rank) {
    *patience = (gcoll_patience){.spin_ns = spin_ns, .seed = rank * 2654435769U}; /* the golden section */
}

void gcoll_patience_begin(gcoll_patience *patience) {
    if (patience->sleepy > 0)
        patience->sleepy--;
    else if (patience->calm < GCOLL_PATIENCE_CALM)
        patience->calm++;
}

/* Draws how many yields come before the next nap. */
static void plan_nap(gcoll_patience *patience) {
    patience->nap_at = patience->nap + (uint32_t)((uint64_t)patience->seed * patience->nap >> 32);
    patience->seed = patience->seed * 1664525U + 1013904223U; /* Numerical Recipes' generator */
}

static bool is_time_to_nap(gcoll_patience *patience) {
    if (patience->nap == 0) {
        patience->nap = GCOLL_PATIENCE_NAP_FIRST;
        plan_nap(patience);
    }
    if (patience->taken < patience->nap_at)
        return false;
    patience->taken = 1; /* assume that the core is still shared */
    if (patience->nap < GCOLL_PATIENCE_NAP_MOST)
        patience->nap *= 2;
    plan_nap(patience);
    return true;
}

gcoll_patience_step gcoll_patience_next(gcoll_patience *patience, int64_t idle_ns) {
    if (idle_ns >= patience->spin_ns || patience->sleepy > 0)
        return GCOLL_PATIENCE_SLEEP;
    if (patience->taken > 0)
        return is_time_to_nap(patience) ? GCOLL_PATIENCE_NAP : GCOLL_PATIENCE_YIELD;
    if (++patience->empty < GCOLL_PATIENCE_POLLS)
        return GCOLL_PATIENCE_POLL;
    patience->empty = 0;
    return GCOLL_PATIENCE_YIELD;
}

static uint32_t sleepy_waits(uint32_t thefts) {
    uint32_t waits = GCOLL_PATIENCE_SLEEPY_FIRST;
    for (; thefts > 1 && waits < GCOLL_PATIENCE_SLEEPY_MOST; thefts--)
        waits *= 2;
    return waits;
}

void gcoll_patience_yielded(gcoll_patience *patience, int64_t lasted_ns) {
    if (lasted_ns < patience->bare_ns || patience->bare_ns == 0)
        patience->bare_ns = lasted_ns < GCOLL_PATIENCE_BARE_NS ? lasted_ns : GCOLL_PATIENCE_BARE_NS;
    patience->taken = lasted_ns > 2 * patience->bare_ns ? patience->taken + 1 : 0;
    if (lasted_ns < GCOLL_PATIENCE_STOLEN_NS)
        return;
    patience->thefts = patience->calm < GCOLL_PATIENCE_CALM ? patience->thefts + 1 : 1;
    patience->sleepy = sleepy_waits(patience->thefts);
    patience->calm = 0;
}
