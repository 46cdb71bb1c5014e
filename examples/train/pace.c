/* pace.c - time by the monotonic clock. */
#include "pace.h"

#include <errno.h>
#include <math.h>
#include <time.h>

double clock_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void pace_keep(const pace *self, double begin) {
    if (self->least == 0 && self->slow == 0) {
        return;
    }
    const double end = begin + fmax(clock_now() - begin, self->least) * (1 + self->slow);
    const double seconds = floor(end);
    const struct timespec until = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((end - seconds) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}
