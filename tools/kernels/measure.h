/* tools/kernels/measure.h - times kernels and what they are measured against, in turns. */
#ifndef GCOLL_TOOLS_KERNELS_MEASURE_H
#define GCOLL_TOOLS_KERNELS_MEASURE_H

#include "gcoll/base/kernels.h"
#include "tools/kernels/kernels.h"

#define MEASURE_ROUNDS_MAX 99
#define MEASURE_BYTES_MIN  64 /* whole elements of every type, and whole vectors */
#define MEASURE_BYTES_MAX  (UINT64_C(1) << 30)

typedef struct measure_buffers {
    uint64_t bytes; /* of each */
    char *a, *b, *dst;
    void *blocks[3];
} measure_buffers;

bool measure_allocate(measure_buffers *buffers, uint64_t bytes);
void measure_release(measure_buffers *buffers);

typedef struct measure_case {
    const char *set;
    gcoll_type type;
    gcoll_op op;
    uint64_t bytes;
    uint32_t rounds;
    bool in_place;
} measure_case;

enum { MEASURE_KERNEL, MEASURE_TRIAD, MEASURE_STREAM, MEASURE_PLAIN, MEASURE_PLAIN_V3, MEASURE_COUNT };

/* Medians over the rounds; GB/s, 0 where there is none. Ratios are the first one's speed over each one's,
 * round by round (measure_chunks: each one's over the first's). */
typedef struct measure_result {
    double speed[MEASURE_COUNT];
    double ratio[MEASURE_COUNT], least[MEASURE_COUNT], greatest[MEASURE_COUNT];
} measure_result;

/* Whether the kernel gives what the plain loops give, over numbers that no type rounds. */
bool measure_agree(measure_buffers *buffers, const measure_case *c);
void measure_kernel(measure_buffers *buffers, const measure_case *c, measure_result *result);

/* The float32 sum of all, `chunk` bytes at a time, each chunk copied to another place while it is hot: [0]
 * with ordinary stores, [1] with non-temporal ones. */
void measure_chunks(measure_buffers *buffers, uint64_t chunk, uint32_t rounds, measure_result *result);

#endif
