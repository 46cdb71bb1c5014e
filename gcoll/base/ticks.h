/* gcoll/base/ticks.h - a clock that costs a few nanoseconds, for what is measured in passing: the processor's
 * counter where it is steady, else the system's clock. Ticks mean nothing by themselves; gcoll_tick_ns
 * makes nanoseconds of them. */
#ifndef GCOLL_BASE_TICKS_H
#define GCOLL_BASE_TICKS_H

#include "gcoll/base/base.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* Finds out, once, whether the processor's counter may be used. Call it before gcoll_ticks. */
void gcoll_ticks_prepare(void);
extern bool gcoll_ticks_are_counted; /* by the processor */

static inline uint64_t gcoll_ticks(void) {
#if defined(__x86_64__)
    if (gcoll_ticks_are_counted)
        return __rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
    return (uint64_t)gcoll_now_ns();
}

/* A moment by both clocks. */
typedef struct gcoll_tick_mark {
    uint64_t ticks;
    int64_t ns; /* gcoll_now_ns */
} gcoll_tick_mark;

gcoll_tick_mark gcoll_tick_mark_now(void);
/* The nanoseconds of gcoll_now_ns at `ticks`, by a line through two moments. The farther these are apart, the
 * better: 50 ns of their own error count. */
int64_t gcoll_tick_ns(const gcoll_tick_mark *from, const gcoll_tick_mark *to, uint64_t ticks);

#endif
