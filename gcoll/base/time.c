/* gcoll/base/time.c - the clock and the random numbers of the operating system. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "gcoll/base/base.h"

int64_t gcoll_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* fails only for a clock that does not exist */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t gcoll_now_coarse_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

gcoll_status gcoll_random_bytes(void *buffer, size_t bytes) {
    unsigned char *next = buffer;
    while (bytes > 0) {
        ssize_t got = getrandom(next, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return gcoll_error(GCOLL_ERR_IO, "getrandom of %zu bytes: %s", bytes, strerror(errno));
        next += got;
        bytes -= (size_t)got;
    }
    return GCOLL_OK;
}
