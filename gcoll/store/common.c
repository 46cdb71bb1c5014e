/* gcoll/store/common.c - deadlines, back-off and counters, shared by all kinds of stores. */
#include <inttypes.h>
#include <time.h>

#include "gcoll/base/base.h"
#include "gcoll/store/store_internal.h"

#define NS_PER_MS  1000000
#define NS_PER_SEC 1000000000

int64_t gcoll_store_deadline(int64_t timeout_ms) {
    int64_t span, deadline;
    if (__builtin_mul_overflow(timeout_ms, (int64_t)NS_PER_MS, &span) ||
        __builtin_add_overflow(gcoll_now_ns(), span, &deadline))
        return INT64_MAX;
    return deadline;
}

int64_t gcoll_store_left_ns(int64_t deadline_ns) {
    int64_t now = gcoll_now_ns();
    return deadline_ns > now ? deadline_ns - now : 0;
}

int64_t gcoll_store_left_ms(int64_t deadline_ns) {
    int64_t left = gcoll_store_left_ns(deadline_ns);
    return left / NS_PER_MS + (left % NS_PER_MS != 0);
}

bool gcoll_store_pause(int64_t deadline_ns, int64_t *delay_ns, int64_t max_ns) {
    int64_t left = gcoll_store_left_ns(deadline_ns);
    if (left == 0)
        return false;
    int64_t delay = *delay_ns < left ? *delay_ns : left;
    struct timespec span = {.tv_sec = delay / NS_PER_SEC, .tv_nsec = delay % NS_PER_SEC};
    /* A signal may cut the sleep short. The callers check the time again anyway. */
    (void)nanosleep(&span, NULL);
    *delay_ns = *delay_ns < max_ns / 2 ? *delay_ns * 2 : max_ns;
    return true;
}

static bool parse_counter(const char *text, size_t bytes, int64_t *number) {
    size_t i = bytes > 0 && text[0] == '-';
    bool negative = i == 1;
    if (bytes == 1 && text[0] == '0') {
        *number = 0;
        return true;
    }
    if (i == bytes || text[i] == '0')
        return false;
    int64_t sum = 0;
    for (; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        int digit = negative ? '0' - text[i] : text[i] - '0';
        if (__builtin_mul_overflow(sum, (int64_t)10, &sum) ||
            __builtin_add_overflow(sum, (int64_t)digit, &sum))
            return false;
    }
    *number = sum;
    return true;
}

gcoll_status gcoll_store_counter_add(const char *where, const void *value, size_t bytes, int64_t delta,
                                     int64_t *sum) {
    int64_t number;
    if (!parse_counter(value, bytes, &number))
        return gcoll_error(GCOLL_ERR_INVALID, "%s: the value is not a decimal number of 64 bits", where);
    int64_t result;
    if (__builtin_add_overflow(number, delta, &result))
        return gcoll_error(GCOLL_ERR_INVALID, "%s: %" PRId64 " plus %" PRId64 " does not fit 64 bits", where,
                           number, delta);
    *sum = result;
    return GCOLL_OK;
}
