/* gcoll/base/ticks.c - whether the processor's counter is steady, and what its ticks are in nanoseconds. */
#include "gcoll/base/ticks.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool gcoll_ticks_are_counted;

#if defined(__x86_64__)
#define CLOCK_FILE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

/* The counter runs at one rate in all states of the processor (Intel SDM volume 3, 18.17.1, "Invariant
 * TSC"), and the system itself takes it for its clock, so it is the same on all processors. */
static bool is_steady(void) {
    unsigned a, b, c, d = 0;
    char source[16] = "";
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || (d & (1U << 8)) == 0)
        return false;
    FILE *file = fopen(CLOCK_FILE, "re");
    if (!file)
        return false;
    const bool is_read = fgets(source, sizeof source, file) != NULL;
    fclose(file);
    return is_read && strcmp(source, "tsc\n") == 0;
}
#else
static bool is_steady(void) {
#if defined(__aarch64__)
    return true; /* the architecture says so: Arm DDI 0487, D12, "The Generic Timer" */
#else
    return false;
#endif
}
#endif

static void prepare(void) {
    gcoll_ticks_are_counted = is_steady();
}

void gcoll_ticks_prepare(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
}

gcoll_tick_mark gcoll_tick_mark_now(void) {
    gcoll_tick_mark best = {0, 0};
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 3; i++) { /* of a try that nothing interrupted */
        const uint64_t before = gcoll_ticks();
        const int64_t ns = gcoll_now_ns();
        const uint64_t took = gcoll_ticks() - before;
        if (took < least)
            best = (gcoll_tick_mark){before + took / 2, ns};
        least = took < least ? took : least;
    }
    return best;
}

int64_t gcoll_tick_ns(const gcoll_tick_mark *from, const gcoll_tick_mark *to, uint64_t ticks) {
    const double between = (double)(int64_t)(to->ticks - from->ticks);
    const double rate = between > 0 ? (double)(to->ns - from->ns) / between : 1;
    /* By the later moment: what is asked for is mostly near to it. */
    return to->ns + (int64_t)((double)(int64_t)(ticks - to->ticks) * rate);
}
