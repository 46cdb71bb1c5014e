/* gcoll/core/waits.c - what a run waits for, for error texts and probes. */
#include "gcoll/core/run.h"

bool gcoll_run_blocked_step(const gcoll_run *run, uint32_t peer, uint32_t *step) {
    bool found = false;
    for (uint32_t i = 0; i < run->plan->step_count; i++) {
        if (!run->steps[i].posted)
            continue;
        if (run->plan->steps[i].peer == peer) {
            *step = i;
            return true;
        }
        if (!found)
            *step = i;
        found = true;
    }
    return found;
}

void gcoll_run_each_waited(const gcoll_run *run, bool (*fn)(void *arg, uint32_t peer), void *arg) {
    for (uint32_t i = 0; i < run->plan->step_count; i++)
        if (run->steps[i].posted && !fn(arg, run->plan->steps[i].peer))
            return;
}

bool gcoll_run_waits_for(const gcoll_run *run, uint32_t peer) {
    for (uint32_t i = 0; i < run->plan->step_count; i++)
        if (run->steps[i].posted && run->plan->steps[i].peer == peer)
            return true;
    return false;
}
