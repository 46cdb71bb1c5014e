/* benchmark/clock.h - the clock that everything here is timed by. */
#ifndef GCOLL_BENCH_CLOCK_H
#define GCOLL_BENCH_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t bench_now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
