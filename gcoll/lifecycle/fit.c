/*
 * gcoll/lifecycle/fit.c - measures the cost of a message, of a byte and of a reduced byte, in a few
 * milliseconds.
 *
 * Rank 0 asks a partner for a number of bytes and receives them. A small answer takes the time of two
 * messages; the additional time of a large answer is the cost of its bytes. The partners are rank 1 and the
 * rank half the job away (a power of two), which is on another host if there are several hosts. Trees and
 * butterflies need both connections anyway. The other ranks wait meanwhile.
 *
 * If several ranks share a host and others do not, one partner gives the costs within a host and the other
 * one those between hosts; if both partners are of one kind, they give the costs of both. In other jobs the
 * slower partner counts, also within a host, where only one of them may share rank 0's core.
 *
 * All exchanges together may take SHARE of the time until the deadline, so that rank 0 can still report a
 * partner that does not answer. An exchange that takes as long as several phases ends its phase.
 *
 * The lower quartile of the samples is taken, as disturbances only add time. Results are rounded to quarters
 * of a power of two, so that small differences between two runs rarely change the choice of algorithms.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gcoll/base/bytes.h"
#include "gcoll/lifecycle/lifecycle.h"
#include "gcoll/run/run.h"

#define TAG           UINT32_MAX
#define REQUEST_BYTES 4
#define WARM_UPS      3
#define MOST_SAMPLES  32
#define SMALL_BYTES   4
#define MIDDLE_BYTES  (UINT32_C(64) << 10) /* larger than one segment, yet quick on a slow link */
#define LARGE_BYTES   (UINT32_C(256) << 10)
#define SOON_OVER_NS  200000  /* a middle message that takes longer goes by a slow link */
#define LONG_NS       1000000 /* and if it takes as long as this, no larger ones are measured */
#define PHASE_NS      500000
#define FEWEST        3
#define PATIENCE_NS   5000000 /* a phase ends after this time even with few samples */
#define SHARE         0.75    /* of the time left; a wait that times out may overrun by a quarter */
#define MOST_REQUESTS (WARM_UPS + 2 + 2 * MOST_SAMPLES + 1) /* to one partner, with the final one */
#define REDUCED_BYTES (64 << 10) /* fits the second-level cache, like data that has just arrived */

struct sample {
    double ns, busy_ns; /* elapsed time, and CPU time of this thread */
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

/* A receive takes shorter messages, too. */
static gcoll_status check_size(gcoll_context *context, uint64_t wanted) {
    uint32_t source = 0;
    uint64_t bytes = 0;
    gcoll_status status = gcoll_context_last_received(context, &source, &bytes);
    if (status == GCOLL_OK && bytes != wanted)
        status = gcoll_error(GCOLL_ERR_PROTOCOL, "rank %u sent %llu bytes; allowed are %llu", source,
                             (unsigned long long)bytes, (unsigned long long)wanted);
    return status;
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
        if (status == GCOLL_OK)
            status = check_size(context, sizeof request);
        uint32_t bytes = status == GCOLL_OK ? (uint32_t)gcoll_get_le(request, REQUEST_BYTES) : 0;
        if (bytes == 0)
            break; /* rank 0 has finished measuring */
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
    int64_t end_ms; /* when the measurement must end */
};

static gcoll_status ping(const struct link *link, uint32_t bytes, struct sample *sample) {
    uint8_t request[REQUEST_BYTES];
    const int64_t left = link->end_ms - gcoll_now_ms();
    link->context->settings.timeout_ms = left > 1 ? left : 1;
    gcoll_put_le(request, bytes, REQUEST_BYTES);
    const int64_t start = gcoll_now_ns(), busy = busy_ns();
    gcoll_status status =
        gcoll_pair_sendrecv(link->pair, TAG, request, sizeof request, link->pair, TAG, link->data, bytes);
    if (status == GCOLL_OK)
        status = check_size(link->context, bytes);
    *sample = (struct sample){(double)(gcoll_now_ns() - start), (double)(busy_ns() - busy)};
    return status;
}

static int by_time(const void *a, const void *b) {
    double x = ((const struct sample *)a)->ns, y = ((const struct sample *)b)->ns;
    return (x > y) - (x < y);
}

/* Takes as many samples as the phase allows, and returns their lower quartile. */
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

/* Exchanges messages before the samples: the first ones establish the connection and grow its buffers. */
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
    /* Larger ones, if they do not take too long: after a pause, shaped links let a burst pass at once. */
    pings->large_bytes = last.ns >= LONG_NS ? MIDDLE_BYTES : LARGE_BYTES;
    if (slow) /* polling during a slow transfer would count as CPU time of the message */
        context->transport->set_spin(context->endpoint, 0);
    if (status == GCOLL_OK)
        status = sample(link, pings->large_bytes, &pings->large);
    if (slow)
        context->transport->set_spin(context->endpoint, context->settings.endpoint.spin_us);
    if (status == GCOLL_OK)
        status = gcoll_pair_send(link->pair, TAG, end, sizeof end);
    return status;
}

/* Measures a reduction, in nanoseconds a byte. */
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
    value = value >= least ? value : least; /* also replaces NaN */
    return exp2(round(4 * log2(value < most ? value : most)) / 4);
}

/* Computes the costs from the samples. Bounds far beyond any real machine keep a clock that jumped from
 * spoiling the choices. */
static void derive(const struct pings *p, double gamma_ns, gcoll_cost_parameters *cost,
                   gcoll_sharing *sharing) {
    const double bytes = p->large_bytes;
    const double alpha = rounded(p->small.ns / 2, 50, 1e8);
    const double beta = rounded((p->large.ns - p->small.ns) / bytes, 1e-3, 1e4);
    /* In an exchange of two messages this thread pays one send and one receive: together the cost of one
     * message. */
    const double message = fmin(alpha, rounded(p->small.busy_ns, 50, 1e8));
    const double byte = fmin(2 * beta, rounded(2 * (p->large.busy_ns - p->small.busy_ns) / bytes, 1e-3, 1e4));
    *cost = (gcoll_cost_parameters){alpha * 1e-9, beta * 1e-9, rounded(gamma_ns, 1e-3, 1e2) * 1e-9};
    *sharing = (gcoll_sharing){
        .latency = (alpha - message / 2) * 1e-9, .message = message * 1e-9, .byte = byte * 1e-9};
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Merges what was measured with partners of the same level: the slower one counts. */
static void merge(gcoll_cost_parameters *all, const gcoll_cost_parameters *one) {
    *all = (gcoll_cost_parameters){larger(all->alpha, one->alpha), larger(all->beta, one->beta), one->gamma};
}

static gcoll_status measure(gcoll_context *context, const uint32_t *node, gcoll_cost_parameters *cost,
                            gcoll_sharing *sharing, gcoll_levels *within) {
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
    gcoll_cost_parameters found = {0}, all = {0}, near = {0}, far = {0};
    gcoll_sharing shared = {0}, most = {0};
    for (uint32_t i = 0; i < count && status == GCOLL_OK; i++) {
        status = gcoll_context_pair(context, partners[i], &link.pair);
        if (status == GCOLL_OK)
            status = ask(&link, &pings);
        if (status != GCOLL_OK)
            break;
        derive(&pings, gamma_ns, &found, &shared);
        merge(&all, &found);
        merge(node && node[partners[i]] == node[0] ? &near : &far, &found);
        most = (gcoll_sharing){.latency = larger(most.latency, shared.latency),
                               .message = larger(most.message, shared.message),
                               .byte = larger(most.byte, shared.byte)};
    }
    free(data);
    if (status != GCOLL_OK)
        return status;
    /* A level that neither partner shows is taken to cost as much as the other one. */
    *cost = node && far.alpha > 0 ? far : all;
    near = near.alpha > 0 ? near : all;
    *within = node ? (gcoll_levels){.alpha = near.alpha, .beta = near.beta} : (gcoll_levels){0};
    *sharing = most;
    sharing->latency = fmin(most.latency, cost->alpha);
    return GCOLL_OK;
}

/* Uses a named algorithm, because ranks have not agreed yet on the costs that auto uses. */
static gcoll_status spread(gcoll_context *context, void *data, uint64_t bytes) {
    return gcoll_collective_run(context, &(const gcoll_given){.collective = GCOLL_BROADCAST,
                                                              .output = data,
                                                              .count = bytes,
                                                              .type = GCOLL_UINT8,
                                                              .is_general = true,
                                                              .algorithm = "binomial"});
}

const gcoll_fit gcoll_fit_by_pairs = {.measure = measure, .serve = serve, .asks = asks, .spread = spread};
