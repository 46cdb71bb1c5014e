/* tools/kernels/measure.c - times kernels and what they are measured against, in turns. */
#include "tools/kernels/measure.h"

#include <stdlib.h>
#include <string.h>

#include "gcoll/base/float8.h"

/* One measurement takes at least about this long, so that the clock's own cost does not show. */
#define MEASURE_NS 1000000
/* Buffers that begin at the same place of a page slow some processors' loads behind stores down. */
#define APART_BYTES 1024
#define PAGE_BYTES  4096

bool measure_allocate(measure_buffers *buffers, uint64_t bytes) {
    char *starts[3] = {NULL};
    memset(buffers, 0, sizeof *buffers);
    buffers->bytes = bytes;
    for (size_t i = 0; i < 3; i++) {
        uint64_t whole = (bytes + 3 * APART_BYTES + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
        buffers->blocks[i] = aligned_alloc(PAGE_BYTES, whole);
        if (!buffers->blocks[i]) {
            measure_release(buffers);
            return false;
        }
        memset(buffers->blocks[i], 0, whole); /* no page faults later */
        starts[i] = (char *)buffers->blocks[i] + i * APART_BYTES;
    }
    buffers->a = starts[0];
    buffers->b = starts[1];
    buffers->dst = starts[2];
    return true;
}

void measure_release(measure_buffers *buffers) {
    for (size_t i = 0; i < 3; i++)
        free(buffers->blocks[i]);
}

/* ---- Values ------------------------------------------------------------------------------------------ */

typedef struct halves {
    gcoll_type first, second;
} halves;

/* The types of an element's halves; false where it has none. */
static bool halves_of(gcoll_type type, halves *found) {
    switch (type) {
    case GCOLL_COMPLEX64:
        *found = (halves){GCOLL_FLOAT32, GCOLL_FLOAT32};
        return true;
    case GCOLL_COMPLEX128:
        *found = (halves){GCOLL_FLOAT64, GCOLL_FLOAT64};
        return true;
    case GCOLL_FLOAT32_INT32:
        *found = (halves){GCOLL_FLOAT32, GCOLL_INT32};
        return true;
    case GCOLL_FLOAT64_INT64:
        *found = (halves){GCOLL_FLOAT64, GCOLL_INT64};
        return true;
    case GCOLL_INT32_INT32:
        *found = (halves){GCOLL_INT32, GCOLL_INT32};
        return true;
    case GCOLL_INT64_INT64:
        *found = (halves){GCOLL_INT64, GCOLL_INT64};
        return true;
    default:
        return false;
    }
}

/* 1, 2 and 3 as the type has them, in both halves: sums and products are exact in every one. */
static void put(char *at, gcoll_type type, int value) {
    float f = (float)value;
    double d = value;
    uint32_t narrow = 0;
    int64_t whole = value; /* little-endian, as all that gcoll runs on */
    const void *from = &whole;
    halves half;
    if (halves_of(type, &half)) {
        put(at, half.first, value);
        put(at + gcoll_type_size(half.first), half.second, value);
        return;
    }
    if (type == GCOLL_FLOAT16)
        narrow = gcoll_float_to_half(f);
    else if (type == GCOLL_BFLOAT16)
        narrow = gcoll_float_to_bfloat16(f);
    else if (type == GCOLL_FLOAT8_E4M3)
        narrow = gcoll_e4m3_round(f);
    else if (type == GCOLL_FLOAT8_E5M2)
        narrow = gcoll_e5m2_round(f);
    if (type == GCOLL_FLOAT32)
        from = &f;
    else if (type == GCOLL_FLOAT64)
        from = &d;
    else if (narrow != 0)
        from = &narrow;
    memcpy(at, from, gcoll_type_size(type));
}

static void fill(const measure_buffers *buffers, gcoll_type type, uint64_t bytes) {
    size_t size = gcoll_type_size(type);
    for (uint64_t i = 0; i < bytes / size; i++) {
        put(buffers->a + i * size, type, 1 + (int)(i % 3));
        put(buffers->b + i * size, type, 1 + (int)(i / 3 % 3));
    }
}

/* ---- Time -------------------------------------------------------------------------------------------- */

typedef struct contest {
    gcoll_kernel run[MEASURE_COUNT]; /* NULL: not there */
    uint64_t count[MEASURE_COUNT];   /* of elements */
    uint64_t bytes;
    uint64_t chunk; /* 0: all at once; else in chunks, each copied away */
    char *sink;
} contest;

static void run_once(const contest *c, size_t which, char *dst, const char *a, const char *b) {
    if (c->chunk == 0) {
        c->run[which](dst, a, b, c->count[which]);
        return;
    }
    for (uint64_t at = 0; at < c->bytes; at += c->chunk) {
        c->run[which](dst + at, a + at, b + at, c->chunk / sizeof(float));
        memcpy(c->sink, dst + at, c->chunk);
    }
}

/* GB/s. */
static double speed_of(const contest *c, size_t which, char *dst, const char *a, const char *b) {
    for (uint64_t times = 1;; times *= 2) {
        int64_t begun = gcoll_now_ns();
        for (uint64_t i = 0; i < times; i++)
            run_once(c, which, dst, a, b);
        int64_t taken = gcoll_now_ns() - begun;
        if (taken >= MEASURE_NS)
            return 3.0 * (double)c->bytes * (double)times / (double)taken;
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void run_contest(const contest *c, char *dst, const char *a, const char *b, uint32_t rounds,
                        measure_result *result) {
    double speed[MEASURE_COUNT][MEASURE_ROUNDS_MAX] = {{0}}, ratio[MEASURE_COUNT][MEASURE_ROUNDS_MAX] = {{0}};
    memset(result, 0, sizeof *result);
    for (uint32_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < MEASURE_COUNT; i++)
            if (c->run[i]) {
                speed[i][round] = speed_of(c, i, dst, a, b);
                ratio[i][round] = speed[0][round] / speed[i][round];
                if (c->chunk > 0)
                    ratio[i][round] = 1 / ratio[i][round];
            }
    for (size_t i = 0; i < MEASURE_COUNT; i++) {
        if (!c->run[i])
            continue;
        result->speed[i] = median(speed[i], rounds);
        result->ratio[i] = median(ratio[i], rounds);
        result->least[i] = ratio[i][0];
        result->greatest[i] = ratio[i][rounds - 1];
    }
}

/* ---- Cases ------------------------------------------------------------------------------------------- */

static const kernel_loops *loops_of(const char *set) {
#if defined(__x86_64__)
    if (strcmp(set, "avx512") == 0)
        return &kernel_loops_v4;
    if (strcmp(set, "avx2") == 0)
        return &kernel_loops_v3;
#endif
    (void)set;
    return &kernel_loops_base;
}

/* Signed sums and products are those of unsigned numbers; extremes are not, but take as long. */
static gcoll_type measured_as(gcoll_type type) {
    if (type == GCOLL_INT8)
        return GCOLL_UINT8;
    if (type == GCOLL_INT16)
        return GCOLL_UINT16;
    if (type == GCOLL_INT32)
        return GCOLL_UINT32;
    return type == GCOLL_INT64 ? GCOLL_UINT64 : type;
}

static contest contest_of(const measure_case *c) {
    const kernel_loops *own = loops_of(c->set);
    const gcoll_type type = measured_as(c->type);
    contest made = {.bytes = c->bytes};
    made.run[MEASURE_KERNEL] = gcoll_kernel_find_in(c->set, c->type, c->op);
    made.run[MEASURE_TRIAD] = own->triad;
    made.run[MEASURE_STREAM] = c->in_place ? NULL : own->triad_stream;
    made.run[MEASURE_PLAIN] = kernel_loops_base.plain[type][c->op];
#if defined(__x86_64__)
    if (gcoll_kernel_table_of("avx2"))
        made.run[MEASURE_PLAIN_V3] = kernel_loops_v3.plain[type][c->op];
#endif
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        made.count[i] = c->bytes / gcoll_type_size(c->type);
    made.count[MEASURE_TRIAD] = made.count[MEASURE_STREAM] = c->bytes / sizeof(float);
    return made;
}

bool measure_agree(measure_buffers *buffers, const measure_case *c) {
    contest all = contest_of(c);
    fill(buffers, c->type, c->bytes);
    if (!all.run[MEASURE_PLAIN])
        return true;
    uint64_t count = all.count[MEASURE_KERNEL];
    char *expected = malloc(c->bytes);
    if (!expected)
        return false;
    bool same = true;
    all.run[MEASURE_PLAIN](expected, buffers->a, buffers->b, count);
    for (size_t i = MEASURE_KERNEL; i < MEASURE_COUNT; i++) {
        if (i == MEASURE_TRIAD || i == MEASURE_STREAM || !all.run[i])
            continue;
        memset(buffers->dst, 0, c->bytes);
        all.run[i](buffers->dst, buffers->a, buffers->b, count);
        same = same && memcmp(buffers->dst, expected, c->bytes) == 0;
    }
    free(expected);
    return same;
}

void measure_kernel(measure_buffers *buffers, const measure_case *c, measure_result *result) {
    contest all = contest_of(c);
    char *dst = c->in_place ? buffers->a : buffers->dst;
    if (c->in_place) /* values stay finite, however often they are added */
        memset(buffers->b, 0, c->bytes);
    run_contest(&all, dst, buffers->a, buffers->b, c->rounds, result);
}

void measure_chunks(measure_buffers *buffers, uint64_t chunk, uint32_t rounds, measure_result *result) {
    contest both = {.bytes = buffers->bytes / chunk * chunk, .chunk = chunk};
    memset(result, 0, sizeof *result);
    both.run[0] = gcoll_kernel_find(GCOLL_FLOAT32, GCOLL_SUM);
    both.run[1] = kernel_loops_base.sum_stream;
    both.sink = malloc(chunk);
    if (!both.sink)
        return;
    memset(both.sink, 0, chunk);
    run_contest(&both, buffers->dst, buffers->a, buffers->b, rounds, result);
    free(both.sink);
}
