/*
 * gcoll/lifecycle/fit.c - what a message, a byte and a reduced byte cost here, measured in a few
 * milliseconds.
 *
 * Rank 0 asks a partner for so many bytes and gets them: the time of small answers is that of two messages,
 * and what larger ones take beyond it is the bytes'. Partners are rank 1 and the rank half the job away (a
 * power of two), which is on another host if there are several, however the ranks are spread; the slower one
 * counts, within a host too, where one may share rank 0's core and the other not. Both are connections that
 * trees and butterflies need anyway. The other ranks wait meanwhile.
 *
 * All exchanges together may take SHARE of what is left until the deadline, so that rank 0 still has the time
 * to say who did not answer. Where one takes as long as several phases should, it is the last of its phase.
 *
 * A quarter of the samples stands below the one that is taken: what disturbs only adds. Numbers are rounded
 * to quarters of a power of two, so that a machine which measures a little differently each time mostly comes
 * to the same choices.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gcoll/base/bytes.h"
#include "gcoll/lifecycle/lifecycle.h"

#define TAG           UINT32_MAX
#define REQUEST_BYTES 4
#define WARM_UPS      3
#define MOST_SAMPLES  32
#define SMALL_BYTES   4
#define MIDDLE_BYTES                                                                                         \
    (UINT32_C(64) << 10) /* beyond what fits into one segment, and soon over on a slow link */
#define LARGE_BYTES   (UINT32_C(256) << 10)
#define SOON_OVER_NS  200000 /* middle ones that take no longer give way to large ones */
#define PHASE_NS      500000
#define FEWEST        3
#define PATIENCE_NS   5000000 /* a phase that lasts this long is over, with fewer samples */
#define SHARE         0.75    /* of what is left; a wait that is given up may take a quarter longer */
#define MOST_REQUESTS (WARM_UPS + 2 + 2 * MOST_SAMPLES + 1) /* of one partner, the last one included */
#define REDUCED_BYTES (64 << 10) /* lies in the second-level cache, as a piece that has just come in */

struct sample {
    double ns, busy_ns; /* of the clock, and of this thread's processor */
};

struct pings {
    struct sample small, large;
    uint32_t large_bytes;
};

static uint32_t half_of(uint32_t size) {
    uint32_t half = 1;
    while (half < size - half)
        half *= 2;
    return half;
}

static bool asks(const gcoll_context *context) {
    return context->rank == 1 || (context->rank > 1 && context->rank == half_of(context->size));
}

static int64_t busy_ns(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- The partner's side ------------------------------------------------------------------- */

static gcoll_status serve(gcoll_context *context) {
    gcoll_pair *pair;
    gcoll_status status = gcoll_context_pair(context, 0, &pair);
    uint8_t *data = calloc(1, LARGE_BYTES), request[REQUEST_BYTES] = {0};
    if (!data)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %u bytes", LARGE_BYTES);
    for (uint32_t asked = 1; status == GCOLL_OK; asked++) {
        status = gcoll_pair_recv(pair, TAG, request, sizeof request);
        uint32_t bytes = status == GCOLL_OK ? (uint32_t)gcoll_get_le(request, REQUEST_BYTES) : 0;
        if (bytes == 0)
            break; /* it has seen enough */
        if (asked == MOST_REQUESTS)
            status = gcoll_error(GCOLL_ERR_PROTOCOL, "rank 0 asks for more than %d answers", MOST_REQUESTS);
        else if (bytes > LARGE_BYTES)
            status = gcoll_error(GCOLL_ERR_PROTOCOL, "rank 0 asks for %u bytes; allowed: up to %u", bytes,
                                 LARGE_BYTES);
        else
            status = gcoll_pair_send(pair, TAG, data, bytes);
    }
    free(data);
    return status;
}

/* ---- Rank 0's side ------------------------------------------------------------------------ */

/* Rank 0 and the partner that it measures with. */
struct link {
    gcoll_context *context;
    gcoll_pair *pair;
    uint8_t *data;
    int64_t end_ms; /* of the measurement */
};

static gcoll_status ping(const struct link *link, uint32_t bytes, struct sample *sample) {
    uint8_t request[REQUEST_BYTES];
    const int64_t left = link->end_ms - gcoll_now_ms();
    link->context->settings.timeout_ms = left > 1 ? left : 1;
    gcoll_put_le(request, bytes, REQUEST_BYTES);
    const int64_t start = gcoll_now_ns(), busy = busy_ns();
    gcoll_status status =
        gcoll_pair_sendrecv(link->pair, TAG, request, sizeof request, link->pair, TAG, link->data, bytes);
    *sample = (struct sample){(double)(gcoll_now_ns() - start), (double)(busy_ns() - busy)};
    return status;
}

static int by_time(const void *a, const void *b) {
    double x = ((const struct sample *)a)->ns, y = ((const struct sample *)b)->ns;
    return (x > y) - (x < y);
}

/* The lower quartile of as many as fit into the phase. */
static gcoll_status sample(const struct link *link, uint32_t bytes, struct sample *typical) {
    struct sample samples[MOST_SAMPLES];
    uint32_t count = 0;
    const int64_t start = gcoll_now_ns();
    int64_t spent = 0;
    gcoll_status status = GCOLL_OK;
    while (status == GCOLL_OK && count < MOST_SAMPLES && (count < FEWEST || spent < PHASE_NS) &&
           spent < PATIENCE_NS) {
        status = ping(link, bytes, &samples[count++]);
        spent = gcoll_now_ns() - start;
    }
    if (status != GCOLL_OK)
        return status;
    double busy = 0;
    for (uint32_t i = 0; i < count; i++)
        busy += samples[i].busy_ns;
    qsort(samples, count, sizeof samples[0], by_time);
    *typical = (struct sample){samples[count / 4].ns, busy / count};
    return GCOLL_OK;
}

/* Until so many exchanges have passed or took too long: connections and buffers of sockets grow with them. */
static gcoll_status warm_up(const struct link *link, uint32_t bytes, int most, struct sample *last) {
    gcoll_status status = GCOLL_OK;
    last->ns = 0;
    for (int i = 0; i < most && status == GCOLL_OK && last->ns < PATIENCE_NS; i++)
        status = ping(link, bytes, last);
    return status;
}

static gcoll_status ask(const struct link *link, struct pings *pings) {
    gcoll_context *context = link->context;
    struct sample last = {0};
    uint8_t end[REQUEST_BYTES] = {0};
    gcoll_status status = warm_up(link, SMALL_BYTES, WARM_UPS, &last);
    if (status == GCOLL_OK)
        status = sample(link, SMALL_BYTES, &pings->small);
    if (status == GCOLL_OK)
        status = warm_up(link, MIDDLE_BYTES, 2, &last);
    const bool slow = last.ns >= SOON_OVER_NS;
    pings->large_bytes = slow ? MIDDLE_BYTES : LARGE_BYTES;
    if (slow) /* polling while the link is at work would be taken for work of the processor */
        context->transport->set_spin(context->endpoint, 0);
    if (status == GCOLL_OK)
        status = sample(link, pings->large_bytes, &pings->large);
    if (slow)
        context->transport->set_spin(context->endpoint, context->settings.endpoint.spin_us);
    if (status == GCOLL_OK)
        status = gcoll_pair_send(link->pair, TAG, end, sizeof end);
    return status;
}

/* Nanoseconds a byte. */
static double time_reduction(uint8_t *data) {
    const gcoll_kernel kernel = gcoll_kernel_find(GCOLL_FLOAT32, GCOLL_SUM);
    double best = INFINITY;
    for (int i = 0; i < 4; i++) {
        const int64_t start = gcoll_now_ns();
        kernel(data, data, data + REDUCED_BYTES, REDUCED_BYTES / sizeof(float));
        best = fmin(best, (double)(gcoll_now_ns() - start));
    }
    return best / REDUCED_BYTES;
}

static double rounded(double value, double least, double most) {
    value = value >= least ? value : least; /* NaN, too */
    return exp2(round(4 * log2(value < most ? value : most)) / 4);
}

/* Bounds are far beyond any machine: a clock that jumped must not make nonsense of the choices. */
static void derive(const struct pings *p, double gamma_ns, gcoll_cost_parameters *cost,
                   gcoll_sharing *sharing) {
    const double bytes = p->large_bytes;
    const double alpha = rounded(p->small.ns / 2, 50, 1e8);
    const double beta = rounded((p->large.ns - p->small.ns) / bytes, 1e-3, 1e4);
    /* This thread sends and receives once for two messages; what it gets, somebody sent at the same cost. */
    const double message = fmin(alpha, rounded(p->small.busy_ns, 50, 1e8));
    const double byte = fmin(2 * beta, rounded(2 * (p->large.busy_ns - p->small.busy_ns) / bytes, 1e-3, 1e4));
    *cost = (gcoll_cost_parameters){alpha * 1e-9, beta * 1e-9, rounded(gamma_ns, 1e-3, 1e2) * 1e-9};
    *sharing = (gcoll_sharing){
        .latency = (alpha - message / 2) * 1e-9, .message = message * 1e-9, .byte = byte * 1e-9};
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

static gcoll_status measure(gcoll_context *context, gcoll_cost_parameters *cost, gcoll_sharing *sharing) {
    const uint32_t partners[2] = {1, half_of(context->size)};
    const uint32_t count = context->size > 2 ? 2 : 1;
    struct pings pings = {.large_bytes = LARGE_BYTES};
    uint8_t *data = calloc(1, LARGE_BYTES);
    if (!data)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %u bytes", LARGE_BYTES);
    const double gamma_ns = time_reduction(data);
    struct link link = {context, NULL, data,
                        gcoll_now_ms() + (int64_t)(SHARE * (double)context->settings.timeout_ms)};
    gcoll_status status = GCOLL_OK;
    gcoll_cost_parameters found[2] = {{0}};
    gcoll_sharing shared[2] = {{0}};
    for (uint32_t i = 0; i < count && status == GCOLL_OK; i++) {
        status = gcoll_context_pair(context, partners[i], &link.pair);
        if (status == GCOLL_OK)
            status = ask(&link, &pings);
        if (status == GCOLL_OK)
            derive(&pings, gamma_ns, &found[i], &shared[i]);
    }
    free(data);
    if (status != GCOLL_OK)
        return status;
    const uint32_t other = count - 1;
    *cost = (gcoll_cost_parameters){larger(found[0].alpha, found[other].alpha),
                                    larger(found[0].beta, found[other].beta), found[0].gamma};
    *sharing = (gcoll_sharing){.latency = larger(shared[0].latency, shared[other].latency),
                               .message = larger(shared[0].message, shared[other].message),
                               .byte = larger(shared[0].byte, shared[other].byte)};
    return GCOLL_OK;
}

const gcoll_fit gcoll_fit_by_pairs = {.measure = measure, .serve = serve, .asks = asks};
