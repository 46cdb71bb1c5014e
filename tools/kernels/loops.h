/*
 * tools/kernels/loops.h - what the kernels are measured against, for one instruction set.
 *
 * Included once by each loops_SET.c, which defines LOOPS, the name of the table. Compiled with -O3 and the
 * flags of the set, as a user would compile a loop of his own: nothing here but what a compiler makes of it,
 * and the non-temporal stores, which none makes by itself.
 */
#include "gcoll/base/float8.h"
#include "gcoll/base/half.h"
#include "tools/kernels/kernels.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

/* What a set takes for one store. */
#if defined(__AVX512F__)
typedef __m512 lanes;
#define LANES_LOAD(p)      _mm512_loadu_ps(p)
#define LANES_STREAM(p, v) _mm512_stream_ps(p, v)
#elif defined(__AVX__)
typedef __m256 lanes;
#define LANES_LOAD(p)      _mm256_loadu_ps(p)
#define LANES_STREAM(p, v) _mm256_stream_ps(p, v)
#elif defined(__SSE2__)
typedef __m128 lanes;
#define LANES_LOAD(p)      _mm_loadu_ps(p)
#define LANES_STREAM(p, v) _mm_stream_ps(p, v)
#endif

static const float triad_scalar = 3;

static void triad(void *dst, const void *a, const void *b, uint64_t count) {
    float *d = dst;
    const float *p = a, *q = b;
    for (uint64_t i = 0; i < count; i++)
        d[i] = p[i] + triad_scalar * q[i];
}

#if defined(__SSE2__)
/* dst is aligned, and count a multiple of the lanes: the measuring program sees to both. */
static void triad_stream(void *dst, const void *a, const void *b, uint64_t count) {
    float *d = dst;
    const float *p = a, *q = b;
    for (uint64_t i = 0; i < count; i += sizeof(lanes) / sizeof *d)
        LANES_STREAM(d + i, LANES_LOAD(p + i) + triad_scalar * LANES_LOAD(q + i));
    _mm_sfence();
}

static void sum_stream(void *dst, const void *a, const void *b, uint64_t count) {
    float *d = dst;
    const float *p = a, *q = b;
    for (uint64_t i = 0; i < count; i += sizeof(lanes) / sizeof *d)
        LANES_STREAM(d + i, LANES_LOAD(p + i) + LANES_LOAD(q + i));
    _mm_sfence();
}
#endif

/* Types and operators cannot stand in parentheses.
 * NOLINTBEGIN(bugprone-macro-parentheses) */

/* dst[i] = RESULT, in terms of x = a[i] and y = b[i]. */
#define STRUCT_LOOP(NAME, TYPE, RESULT)                                                                      \
    static void NAME(void *dst, const void *a, const void *b, uint64_t count) {                              \
        TYPE *d = dst;                                                                                       \
        const TYPE *p = a, *q = b;                                                                           \
        for (uint64_t i = 0; i < count; i++) {                                                               \
            TYPE x = p[i], y = q[i];                                                                         \
            d[i] = RESULT;                                                                                   \
        }                                                                                                    \
    }
#define LOOP(NAME, TYPE, RESULT) STRUCT_LOOP(NAME, TYPE, (TYPE)(RESULT))

#define LOOPS_OF(NAME, TYPE)                                                                                 \
    LOOP(NAME##_sum, TYPE, x + y)                                                                            \
    LOOP(NAME##_product, TYPE, (x * y))                                                                      \
    LOOP(NAME##_min, TYPE, x < y ? x : y)                                                                    \
    LOOP(NAME##_max, TYPE, x > y ? x : y)
LOOPS_OF(i8, uint8_t)
LOOPS_OF(i16, uint16_t)
LOOPS_OF(i32, uint32_t)
LOOPS_OF(i64, uint64_t)
LOOPS_OF(f32, float)
LOOPS_OF(f64, double)

/* Through float32, an element at a time. */
#define NARROW_LOOPS_OF(NAME, TYPE, WIDEN, ROUND)                                                            \
    LOOP(NAME##_sum, TYPE, ROUND(WIDEN(x) + WIDEN(y)))                                                       \
    LOOP(NAME##_product, TYPE, ROUND(WIDEN(x) * WIDEN(y)))                                                   \
    LOOP(NAME##_min, TYPE, WIDEN(x) < WIDEN(y) ? x : y)                                                      \
    LOOP(NAME##_max, TYPE, WIDEN(x) > WIDEN(y) ? x : y)
NARROW_LOOPS_OF(bfloat16, uint16_t, gcoll_bfloat16_widen, gcoll_bfloat16_round)
NARROW_LOOPS_OF(e4m3, uint8_t, gcoll_e4m3_widen, gcoll_e4m3_round)
NARROW_LOOPS_OF(e5m2, uint8_t, gcoll_e5m2_widen, gcoll_e5m2_round)
/* The compiler's own type where it has one. */
#if defined(__FLT16_MAX__)
LOOPS_OF(half, _Float16)
#else
NARROW_LOOPS_OF(half, uint16_t, gcoll_half_widen, gcoll_half_round)
#endif

/* Complex numbers, as structs. */
#define COMPLEX_LOOPS_OF(NAME, PART)                                                                         \
    typedef struct NAME {                                                                                    \
        PART real, imaginary;                                                                                \
    } NAME;                                                                                                  \
    STRUCT_LOOP(NAME##_sum, NAME, ((NAME){x.real + y.real, x.imaginary + y.imaginary}))                      \
    STRUCT_LOOP(                                                                                             \
        NAME##_product, NAME,                                                                                \
        ((NAME){x.real * y.real - x.imaginary * y.imaginary, x.real * y.imaginary + x.imaginary * y.real}))
COMPLEX_LOOPS_OF(c64, float)
COMPLEX_LOOPS_OF(c128, double)

/* A value and its index, as the structs of gcoll/types.h. */
#define LOCATED_LOOPS_OF(NAME, TYPE)                                                                         \
    STRUCT_LOOP(NAME##_minloc, TYPE, x.value < y.value || (x.value == y.value && x.index < y.index) ? x : y) \
    STRUCT_LOOP(NAME##_maxloc, TYPE, x.value > y.value || (x.value == y.value && x.index < y.index) ? x : y)
LOCATED_LOOPS_OF(f32, gcoll_float32_int32)
LOCATED_LOOPS_OF(f64, gcoll_float64_int64)
LOCATED_LOOPS_OF(i32, gcoll_int32_int32)
LOCATED_LOOPS_OF(i64, gcoll_int64_int64)

/* NOLINTEND(bugprone-macro-parentheses) */

#define LOOP_ROW(NAME)                                                                                       \
    {                                                                                                        \
        [GCOLL_SUM] = NAME##_sum, [GCOLL_PRODUCT] = NAME##_product, [GCOLL_MIN] = NAME##_min,                \
        [GCOLL_MAX] = NAME##_max                                                                             \
    }
#define COMPLEX_ROW(NAME)                                                                                    \
    { [GCOLL_SUM] = NAME##_sum, [GCOLL_PRODUCT] = NAME##_product }
#define LOCATED_ROW(NAME)                                                                                    \
    { [GCOLL_MINLOC] = NAME##_minloc, [GCOLL_MAXLOC] = NAME##_maxloc }

const kernel_loops LOOPS = {
    .triad = triad,
#if defined(__SSE2__)
    .triad_stream = triad_stream,
    .sum_stream = sum_stream,
#endif
    .plain =
        {
            [GCOLL_UINT8] = LOOP_ROW(i8),
            [GCOLL_UINT16] = LOOP_ROW(i16),
            [GCOLL_UINT32] = LOOP_ROW(i32),
            [GCOLL_UINT64] = LOOP_ROW(i64),
            [GCOLL_FLOAT16] = LOOP_ROW(half),
            [GCOLL_BFLOAT16] = LOOP_ROW(bfloat16),
            [GCOLL_FLOAT32] = LOOP_ROW(f32),
            [GCOLL_FLOAT64] = LOOP_ROW(f64),
            [GCOLL_FLOAT8_E4M3] = LOOP_ROW(e4m3),
            [GCOLL_FLOAT8_E5M2] = LOOP_ROW(e5m2),
            [GCOLL_COMPLEX64] = COMPLEX_ROW(c64),
            [GCOLL_COMPLEX128] = COMPLEX_ROW(c128),
            [GCOLL_FLOAT32_INT32] = LOCATED_ROW(f32),
            [GCOLL_FLOAT64_INT64] = LOCATED_ROW(f64),
            [GCOLL_INT32_INT32] = LOCATED_ROW(i32),
            [GCOLL_INT64_INT64] = LOCATED_ROW(i64),
        },
};
