/*
 * cuda/check_bandwidth.c - compares the bandwidth of gcoll's reductions on a GPU with that of copies.
 *
 * Prints a table, and after it the rates of copies between host and device, which cuda/check.sh reads. All
 * are done by gcoll's executor and timed by the device's own events. A reduction of N buffers moves (N + 1) n
 * bytes, a copy 2 n. Exit status: 0; 1 if reductions of float32 are slower than they should be; 2 on an
 * error; 77 if no GPU is found.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>

#include "cuda/accelerator.h"

enum { ROUNDS = 21, MOST_BUFFERS = 8, NO_GPU = 77 };
static const uint64_t buffer_bytes = UINT64_C(256) << 20; /* several times a GPU's cache */
static const uint64_t staged_bytes = UINT64_C(64) << 20;
static const double least_share = 0.9;

static const gcoll_accelerator_table *const cuda = &gcoll_accelerator_cuda;

typedef struct bench {
    gcoll_accelerator *accelerator;
    void *buffers[MOST_BUFFERS + 1]; /* the last one receives the result */
    void *pinned;
} bench;

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The nanoseconds that a started step takes on the device; 0 on an error. `begun` is the status of its
 * start. */
static double time_of(const bench *b, gcoll_status begun, gcoll_ticket *ticket) {
    bool done = false;
    gcoll_ticket_time time = {.ns = 0};
    while (begun == GCOLL_OK && !done)
        begun = cuda->test(b->accelerator, ticket, &done, &time);
    if (begun != GCOLL_OK) {
        (void)fprintf(stderr, "check_bandwidth: %s\n", gcoll_last_error());
        return 0;
    }
    return (double)time.ns;
}

typedef struct job {
    uint32_t inputs; /* 0: a copy */
    gcoll_type type;
    uint32_t to, from; /* the memories of a copy */
    uint64_t bytes;
} job;

static double once(const bench *b, const job *j) {
    gcoll_ticket *ticket = NULL;
    gcoll_status status = GCOLL_OK;
    static const uint32_t devices[MOST_BUFFERS];
    if (j->inputs == 0) {
        status = cuda->copy(b->accelerator, j->to == 0 ? b->pinned : b->buffers[MOST_BUFFERS], j->to,
                            j->from == 0 ? b->pinned : b->buffers[0], j->from, j->bytes, NULL, 0, &ticket);
    } else {
        const gcoll_fold fold = {.dst = b->buffers[MOST_BUFFERS],
                                 .operands = (const void *const *)b->buffers,
                                 .devices = devices,
                                 .operand_count = j->inputs,
                                 .count = j->bytes / gcoll_type_size(j->type),
                                 .type = j->type,
                                 .op = GCOLL_SUM};
        status = cuda->fold(b->accelerator, &fold, NULL, 0, &ticket);
    }
    return time_of(b, status, ticket);
}

/* Bytes moved in a nanosecond (GB/s), the median; 0 on an error. */
static double rate(const bench *b, const job *j, double moved) {
    if (once(b, j) <= 0)
        return 0;
    double times[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        times[i] = once(b, j);
        if (times[i] <= 0)
            return 0;
    }
    qsort(times, ROUNDS, sizeof times[0], compare);
    return moved / times[ROUNDS / 2];
}

static int open_all(bench *b) {
    const gcoll_accelerator_options options = {.times = true};
    if (cuda->open(&options, &b->accelerator) != GCOLL_OK) {
        (void)fprintf(stderr, "check_bandwidth: no GPU was found: %s\n", gcoll_last_error());
        return NO_GPU;
    }
    for (int i = 0; i <= MOST_BUFFERS; i++) {
        cudaError_t error = cudaMalloc(&b->buffers[i], buffer_bytes);
        if (error == cudaSuccess)
            error = cudaMemset(b->buffers[i], 0, buffer_bytes);
        if (error != cudaSuccess) {
            (void)fprintf(stderr, "check_bandwidth: cudaMalloc or cudaMemset: %s\n",
                          cudaGetErrorString(error));
            return 2;
        }
    }
    if (cuda->pin(b->accelerator, staged_bytes, &b->pinned) != GCOLL_OK) {
        (void)fprintf(stderr, "check_bandwidth: %s\n", gcoll_last_error());
        return 2;
    }
    return 0;
}

static void close_all(bench *b) {
    if (!b->accelerator)
        return;
    (void)cuda->drain(b->accelerator, 60000);
    if (b->pinned)
        cuda->unpin(b->accelerator, b->pinned, staged_bytes);
    cuda->close(b->accelerator);
    for (int i = 0; i <= MOST_BUFFERS; i++)
        (void)cudaFree(b->buffers[i]);
}

/* Measures everything; returns 0, or the exit status of a failure. */
static int measure(const bench *b) {
    static const gcoll_type types[] = {GCOLL_FLOAT32, GCOLL_FLOAT64, GCOLL_FLOAT16, GCOLL_BFLOAT16,
                                       GCOLL_INT8};
    static const uint32_t inputs[] = {2, 4, MOST_BUFFERS};
    const job copy = {.to = 1, .from = 1, .bytes = buffer_bytes};
    const job in = {.to = 0, .from = 1, .bytes = staged_bytes},
              out = {.to = 1, .from = 0, .bytes = staged_bytes};
    const double device = rate(b, &copy, 2.0 * (double)buffer_bytes);
    int status = 0;
    if (device <= 0)
        return 2;
    printf("%-10s %6s %10s %8s\n", "type", "inputs", "GB/s", "of copy");
    printf("%-10s %6s %10.1f %8s\n", "copy", "-", device, "1.00");
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
            const job fold = {.inputs = inputs[i], .type = types[t], .bytes = buffer_bytes};
            const double r = rate(b, &fold, (inputs[i] + 1.0) * (double)buffer_bytes);
            const bool is_slow = types[t] == GCOLL_FLOAT32 && r < least_share * device;
            if (r <= 0)
                return 2;
            printf("%-10s %6u %10.1f %8.2f%s\n", gcoll_type_name(types[t]), inputs[i], r, r / device,
                   is_slow ? "  less than 0.90" : "");
            status = is_slow ? 1 : status;
        }
    }
    const double to_host = rate(b, &in, (double)staged_bytes),
                 from_host = rate(b, &out, (double)staged_bytes);
    printf("to host %.3f GB/s\nfrom host %.3f GB/s\n", to_host, from_host);
    return to_host > 0 && from_host > 0 ? status : 2;
}

int main(void) {
    bench b = {.accelerator = NULL};
    int status = open_all(&b);
    if (status == 0)
        status = measure(&b);
    close_all(&b);
    return status;
}
