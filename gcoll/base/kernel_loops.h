/*
 * gcoll/base/kernel_loops.h - the reduction loops, written so that gcc and clang vectorise them.
 *
 * Included once by each kernel_SET.c, which defines
 *     KERNEL_TABLE    the name of the table to define
 * and, where the compiler's own code for float16 falls short of the processor's,
 *     half_lanes      a vector type of floats
 *     half_load(p), half_store(p, v)   sizeof(half_lanes) / 4 elements from and to memory of any alignment
 *
 * All sets give the same bits (but for the sign and payload of a NaN): integer arithmetic is unsigned, so it
 * wraps; float32 and float64 are one IEEE operation an element; float16 and bfloat16 round as half.h does,
 * and 8-bit floats as float8.h does. The product of complex numbers has several operations. So these files
 * are compiled without contraction of a product and a sum into one operation.
 */
#include "gcoll/base/float8.h"
#include "gcoll/base/half.h"
#include "gcoll/base/kernels.h"

/* dst may equal a or b, which may keep a compiler from vectorising. But element i depends on no other
 * element, so tell it. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Element types for the caller's memory: any alignment, and any type that the memory was written as. */
#define ELEMENT(NAME, TYPE) typedef TYPE NAME __attribute__((aligned(1), may_alias))
ELEMENT(i8, int8_t);
ELEMENT(u8, uint8_t);
ELEMENT(i16, int16_t);
ELEMENT(u16, uint16_t);
ELEMENT(i32, int32_t);
ELEMENT(u32, uint32_t);
ELEMENT(i64, int64_t);
ELEMENT(u64, uint64_t);
ELEMENT(f32, float);
ELEMENT(f64, double);

/* The macros below take types and operators, which cannot stand in parentheses.
 * NOLINTBEGIN(bugprone-macro-parentheses) */

/* Defines a kernel: dst[i] = RESULT, in terms of x = a[i] and y = b[i]. */
#define REDUCE(NAME, TYPE, RESULT)                                                                           \
    static void NAME(void *dst, const void *a, const void *b, uint64_t count) {                              \
        TYPE *d = dst;                                                                                       \
        const TYPE *p = a, *q = b;                                                                           \
        INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                               \
            TYPE x = p[i], y = q[i];                                                                         \
            d[i] = (TYPE)(RESULT);                                                                           \
        }                                                                                                    \
    }

/* Defines a divide kernel: data[i] = RESULT, in terms of x = data[i] and n = divisor. */
#define DIVIDE(NAME, TYPE, RESULT)                                                                           \
    static void NAME(void *data, uint64_t count, uint32_t n) {                                               \
        TYPE *d = data;                                                                                      \
        INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                               \
            TYPE x = d[i];                                                                                   \
            d[i] = (TYPE)(RESULT);                                                                           \
        }                                                                                                    \
    }

/* Defines a scale kernel: dst[i] = RESULT, in terms of x = src[i] and f, the factor as a FACTOR. */
#define SCALE(NAME, TYPE, FACTOR, RESULT)                                                                    \
    static void NAME(void *dst, const void *src, uint64_t count, double factor) {                            \
        TYPE *d = dst;                                                                                       \
        const TYPE *p = src;                                                                                 \
        const FACTOR f = (FACTOR)factor;                                                                     \
        INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                               \
            TYPE x = p[i];                                                                                   \
            d[i] = (TYPE)(RESULT);                                                                           \
        }                                                                                                    \
    }

/* Kernels that signed types share with the unsigned type of the same width: sums, products, bitwise and
 * logical operations. The product is unsigned by its first factor: two uint16_t would be multiplied as int,
 * and overflow. */
#define UNSIGNED_KERNELS(TYPE)                                                                               \
    REDUCE(TYPE##_sum, TYPE, x + y)                                                                          \
    REDUCE(TYPE##_product, TYPE, 1u * x * y)                                                                 \
    REDUCE(TYPE##_band, TYPE, (x & y))                                                                       \
    REDUCE(TYPE##_bor, TYPE, x | y)                                                                          \
    REDUCE(TYPE##_bxor, TYPE, x ^ y)                                                                         \
    REDUCE(TYPE##_land, TYPE, (x != 0) & (y != 0))                                                           \
    REDUCE(TYPE##_lor, TYPE, (x | y) != 0)                                                                   \
    REDUCE(TYPE##_lxor, TYPE, (x != 0) ^ (y != 0))
UNSIGNED_KERNELS(u8)
UNSIGNED_KERNELS(u16)
UNSIGNED_KERNELS(u32)
UNSIGNED_KERNELS(u64)

#define INTEGER_EXTREMES(TYPE)                                                                               \
    REDUCE(TYPE##_min, TYPE, x < y ? x : y)                                                                  \
    REDUCE(TYPE##_max, TYPE, x > y ? x : y)
INTEGER_EXTREMES(i8)
INTEGER_EXTREMES(u8)
INTEGER_EXTREMES(i16)
INTEGER_EXTREMES(u16)
INTEGER_EXTREMES(i32)
INTEGER_EXTREMES(u32)
INTEGER_EXTREMES(i64)
INTEGER_EXTREMES(u64)

/*
 * Minimum and maximum of floats of any width, in integers: no float instruction has these semantics in all
 * sets, flush-to-zero modes do not matter, and floats of 16 and 8 bits need no conversion.
 *
 * key() maps the bits of floats to signed integers in the same order, -0 just below +0. A NaN is beyond the
 * infinity of its sign, at one of NANS keys at either end. Adding NANS carries those at the high end round to
 * the low one, where min finds them; subtracting it carries the others to the high end, for max.
 */
#define FLOAT_EXTREMES(NAME, BITS, NANS)                                                                     \
    static inline uint##BITS##_t NAME##_key(uint##BITS##_t x) {                                              \
        uint##BITS##_t negative = (uint##BITS##_t)((int##BITS##_t)x >> (BITS - 1));                          \
        return (uint##BITS##_t)(x ^ (negative >> 1));                                                        \
    }                                                                                                        \
    static inline int##BITS##_t NAME##_nan_low(uint##BITS##_t x) {                                           \
        return (int##BITS##_t)(NAME##_key(x) + (NANS));                                                      \
    }                                                                                                        \
    static inline int##BITS##_t NAME##_nan_high(uint##BITS##_t x) {                                          \
        return (int##BITS##_t)(NAME##_key(x) - (NANS));                                                      \
    }                                                                                                        \
    REDUCE(NAME##_min, u##BITS, NAME##_nan_low(x) < NAME##_nan_low(y) ? x : y)                               \
    REDUCE(NAME##_max, u##BITS, NAME##_nan_high(x) > NAME##_nan_high(y) ? x : y)
FLOAT_EXTREMES(e4m3, 8, 0x1)
FLOAT_EXTREMES(e5m2, 8, 0x3)
FLOAT_EXTREMES(half, 16, 0x3ff)
FLOAT_EXTREMES(bfloat16, 16, 0x7f)
FLOAT_EXTREMES(f32, 32, 0x7fffff)
FLOAT_EXTREMES(f64, 64, 0xfffffffffffff)

REDUCE(f32_sum, f32, x + y)
REDUCE(f32_product, f32, (x * y))
REDUCE(f64_sum, f64, x + y)
REDUCE(f64_product, f64, (x * y))

/* Divides as doubles, which is faster. A quotient of 32-bit integers that is not an integer differs from
 * the next integer by at least 2^-32, so rounding to double cannot reach it. */
DIVIDE(i8_divide, i8, (double)x / n)
DIVIDE(u8_divide, u8, (double)x / n)
DIVIDE(i16_divide, i16, (double)x / n)
DIVIDE(u16_divide, u16, (double)x / n)
DIVIDE(i32_divide, i32, (double)x / n)
DIVIDE(u32_divide, u32, (double)x / n)
DIVIDE(i64_divide, i64, x / (int64_t)n)
DIVIDE(u64_divide, u64, x / n)
DIVIDE(f32_divide, f32, x / (float)n)
DIVIDE(f64_divide, f64, x / n)
SCALE(f32_scale, f32, float, (x * f))
SCALE(f64_scale, f64, double, (x * f))

/* 8-bit floats through float32, four at a time in a 32-bit word, for the reason that 16-bit floats go in
 * pairs. */
#define QUARTER(NAME, SHIFT, OPERATOR)                                                                       \
    (gcoll_##NAME##_round(gcoll_##NAME##_widen((x >> (SHIFT)) & 0xff)                                        \
                              OPERATOR gcoll_##NAME##_widen((y >> (SHIFT)) & 0xff))                          \
     << (SHIFT))
#define FLOAT8_REDUCE(NAME, KERNEL, OPERATOR)                                                                \
    static void KERNEL(void *dst, const void *a, const void *b, uint64_t count) {                            \
        u32 *d = dst;                                                                                        \
        const u32 *p = a, *q = b;                                                                            \
        const uint64_t words = count / 4;                                                                    \
        INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < words; i++) {                                                               \
            uint32_t x = p[i], y = q[i];                                                                     \
            d[i] = QUARTER(NAME, 0, OPERATOR) | QUARTER(NAME, 8, OPERATOR) | QUARTER(NAME, 16, OPERATOR) |   \
                   QUARTER(NAME, 24, OPERATOR);                                                              \
        }                                                                                                    \
        u8 *rest = (u8 *)(d + words);                                                                        \
        const u8 *left = (const u8 *)(p + words), *right = (const u8 *)(q + words);                          \
        for (uint64_t i = 0; i < count % 4; i++) {                                                           \
            uint32_t x = left[i], y = right[i];                                                              \
            rest[i] = (uint8_t)QUARTER(NAME, 0, OPERATOR);                                                   \
        }                                                                                                    \
    }
#define FLOAT8_KERNELS(NAME)                                                                                 \
    FLOAT8_REDUCE(NAME, NAME##_product, *)                                                                   \
    DIVIDE(NAME##_divide, u8, gcoll_##NAME##_round(gcoll_##NAME##_widen(x) / (float)n))                      \
    SCALE(NAME##_scale, u8, float, gcoll_##NAME##_round(gcoll_##NAME##_widen(x) * f))
FLOAT8_KERNELS(e4m3)
FLOAT8_KERNELS(e5m2)

/* -x by the bits, which a compiler does not make a subtraction of. */
static inline float f32_negate(float x) {
    return gcoll_float_of_bits(gcoll_float_bits(x) ^ 0x80000000u);
}

static inline double f64_negate(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits ^= (uint64_t)1 << 63;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Complex numbers: sums, quotients, and products with a real factor are those of their parts. In the product
 * the difference is a sum. Where sums and differences alternate, gcc 12 takes an instruction of AVX-512 that
 * does not round the product, even if told not to (-ffp-contract=off). */
#define COMPLEX_KERNELS(NAME, PART)                                                                          \
    static void NAME##_sum(void *dst, const void *a, const void *b, uint64_t count) {                        \
        PART##_sum(dst, a, b, 2 * count);                                                                    \
    }                                                                                                        \
    static void NAME##_divide(void *data, uint64_t count, uint32_t n) {                                      \
        PART##_divide(data, 2 * count, n);                                                                   \
    }                                                                                                        \
    static void NAME##_scale(void *dst, const void *src, uint64_t count, double factor) {                    \
        PART##_scale(dst, src, 2 * count, factor);                                                           \
    }                                                                                                        \
    static void NAME##_product(void *dst, const void *a, const void *b, uint64_t count) {                    \
        PART *d = dst;                                                                                       \
        const PART *p = a, *q = b;                                                                           \
        INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                               \
            PART x = p[2 * i], x_imaginary = p[2 * i + 1];                                                   \
            PART y = q[2 * i], y_imaginary = q[2 * i + 1];                                                   \
            d[2 * i] = x * y + PART##_negate(x_imaginary * y_imaginary);                                     \
            d[2 * i + 1] = x * y_imaginary + x_imaginary * y;                                                \
        }                                                                                                    \
    }
COMPLEX_KERNELS(c64, f32)
COMPLEX_KERNELS(c128, f64)

/*
 * A value and its index: the least or greatest value, of equal ones the lowest index. Values compare by keys,
 * as above. But all NaN have one key here, beside that of the infinity, so that among them the index decides.
 */
#define FLOAT_KEYS(NAME, BITS, NANS)                                                                         \
    static inline int##BITS##_t NAME##_low_key(uint##BITS##_t x) {                                           \
        const int##BITS##_t key = NAME##_nan_low(x), nan_key = INT##BITS##_MIN + 2 * (NANS)-1;               \
        return key > nan_key ? key : nan_key;                                                                \
    }                                                                                                        \
    static inline int##BITS##_t NAME##_high_key(uint##BITS##_t x) {                                          \
        const int##BITS##_t key = NAME##_nan_high(x), nan_key = INT##BITS##_MAX - 2 * (NANS) + 1;            \
        return key < nan_key ? key : nan_key;                                                                \
    }
FLOAT_KEYS(f32, 32, 0x7fffff)
FLOAT_KEYS(f64, 64, 0xfffffffffffff)

#define LOCATE(NAME, BITS, KEY, IS_BETTER)                                                                   \
    static void NAME(void *dst, const void *a, const void *b, uint64_t count) {                              \
        u##BITS *d = dst;                                                                                    \
        const u##BITS *p = a, *q = b;                                                                        \
        INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                               \
            u##BITS x = p[2 * i], x_index = p[2 * i + 1];                                                    \
            u##BITS y = q[2 * i], y_index = q[2 * i + 1];                                                    \
            int##BITS##_t x_key = KEY(x), y_key = KEY(y);                                                    \
            int is_lower = (int##BITS##_t)x_index <= (int##BITS##_t)y_index;                                 \
            int is_first = (x_key IS_BETTER y_key) | ((x_key == y_key) & is_lower);                          \
            d[2 * i] = is_first ? x : y;                                                                     \
            d[2 * i + 1] = is_first ? x_index : y_index;                                                     \
        }                                                                                                    \
    }
LOCATE(f32_minloc, 32, f32_low_key, <)
LOCATE(f32_maxloc, 32, f32_high_key, >)
LOCATE(f64_minloc, 64, f64_low_key, <)
LOCATE(f64_maxloc, 64, f64_high_key, >)
LOCATE(i32_minloc, 32, (int32_t), <)
LOCATE(i32_maxloc, 32, (int32_t), >)
LOCATE(i64_minloc, 64, (int64_t), <)
LOCATE(i64_maxloc, 64, (int64_t), >)

/*
 * 16-bit floats through float32, two at a time as the halves of a 32-bit word. That vectorises into shifts
 * and masks, whereas a loop over 16-bit elements widens lanes and packs them again. It does not matter which
 * half of the word comes first.
 */
#define PAIR_REDUCE(NAME, WIDEN, ROUND, OPERATOR)                                                            \
    static void NAME(void *dst, const void *a, const void *b, uint64_t count) {                              \
        u32 *d = dst;                                                                                        \
        const u32 *p = a, *q = b;                                                                            \
        uint64_t pairs = count / 2;                                                                          \
        INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < pairs; i++) {                                                               \
            uint32_t low = ROUND(WIDEN(p[i] & 0xffff) OPERATOR WIDEN(q[i] & 0xffff));                        \
            uint32_t high = ROUND(WIDEN(p[i] >> 16) OPERATOR WIDEN(q[i] >> 16));                             \
            d[i] = high << 16 | low;                                                                         \
        }                                                                                                    \
        if (count % 2 == 1) {                                                                                \
            const u16 *x = (const u16 *)(p + pairs), *y = (const u16 *)(q + pairs);                          \
            *(u16 *)(d + pairs) = (uint16_t)ROUND(WIDEN(*x) OPERATOR WIDEN(*y));                             \
        }                                                                                                    \
    }
#define PAIR_DIVIDE(NAME, WIDEN, ROUND)                                                                      \
    static void NAME(void *data, uint64_t count, uint32_t divisor) {                                         \
        u32 *d = data;                                                                                       \
        uint64_t pairs = count / 2;                                                                          \
        float n = (float)divisor;                                                                            \
        INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < pairs; i++)                                                                 \
            d[i] = ROUND(WIDEN(d[i] >> 16) / n) << 16 | ROUND(WIDEN(d[i] & 0xffff) / n);                     \
        if (count % 2 == 1) {                                                                                \
            u16 *x = (u16 *)(d + pairs);                                                                     \
            *x = (uint16_t)ROUND(WIDEN(*x) / n);                                                             \
        }                                                                                                    \
    }
#define PAIR_SCALE(NAME, WIDEN, ROUND)                                                                       \
    static void NAME(void *dst, const void *src, uint64_t count, double factor) {                            \
        u32 *d = dst;                                                                                        \
        const u32 *p = src;                                                                                  \
        uint64_t pairs = count / 2;                                                                          \
        float f = (float)factor;                                                                             \
        INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < pairs; i++)                                                                 \
            d[i] = ROUND(WIDEN(p[i] >> 16) * f) << 16 | ROUND(WIDEN(p[i] & 0xffff) * f);                     \
        if (count % 2 == 1)                                                                                  \
            *(u16 *)(d + pairs) = (uint16_t)ROUND(WIDEN(*(const u16 *)(p + pairs)) * f);                     \
    }
PAIR_REDUCE(bfloat16_sum, gcoll_bfloat16_widen, gcoll_bfloat16_round_result, +)
PAIR_REDUCE(bfloat16_product, gcoll_bfloat16_widen, gcoll_bfloat16_round_result, *)
PAIR_DIVIDE(bfloat16_divide, gcoll_bfloat16_widen, gcoll_bfloat16_round_result)
PAIR_SCALE(bfloat16_scale, gcoll_bfloat16_widen, gcoll_bfloat16_round_result)

#ifdef half_lanes
enum { LANES = sizeof(half_lanes) / sizeof(float) };

/* Defines a float16 kernel: RESULT in terms of the vectors x and y. A remainder that fills no vector is
 * computed in one on the stack. */
#define HALF_REDUCE(NAME, RESULT)                                                                            \
    static void NAME(void *dst, const void *a, const void *b, uint64_t count) {                              \
        u16 *d = dst;                                                                                        \
        const u16 *p = a, *q = b;                                                                            \
        uint64_t i = 0;                                                                                      \
        for (; i + LANES <= count; i += LANES) {                                                             \
            half_lanes x = half_load(p + i), y = half_load(q + i);                                           \
            half_store(d + i, RESULT);                                                                       \
        }                                                                                                    \
        if (i < count) {                                                                                     \
            uint16_t left[LANES] = {0}, right[LANES] = {0};                                                  \
            memcpy(left, p + i, (size_t)(count - i) * sizeof *left);                                         \
            memcpy(right, q + i, (size_t)(count - i) * sizeof *right);                                       \
            half_lanes x = half_load(left), y = half_load(right);                                            \
            half_store(left, RESULT);                                                                        \
            memcpy(d + i, left, (size_t)(count - i) * sizeof *left);                                         \
        }                                                                                                    \
    }
HALF_REDUCE(half_sum, x + y)
HALF_REDUCE(half_product, (x * y))

/*
 * Sums of 8-bit floats by the instructions that convert float16. An E5M2 is the upper half of a float16. An
 * E4M3 whose exponent takes the place of a float16's is 2^-8 times its value, also if it is denormal.
 *
 * The sum is rounded to a float16 and then to 8 bits. As a float16 has 11 bits, and so at least twice the 4
 * or 3 bits and two more, that gives what rounding once gives (Figueroa, "When is double rounding
 * innocuous?", SIGNUM Newsletter 30, 1995). Sums that are denormal as a float16 are exact. Products may be
 * denormal and not exact, so they do not go this way. Two elements at a time are the halves of a 16-bit word,
 * so that no lane is widened.
 */
static inline uint16_t half_of_e5m2(uint16_t value) {
    return (uint16_t)(value << 8);
}

static inline uint16_t half_of_e4m3(uint16_t value) {
    const uint16_t magnitude = value & 0x7f;
    uint16_t half = (uint16_t)(magnitude << 7);
    if (magnitude == GCOLL_E4M3_NAN)
        half = 0x7e00;
    return (uint16_t)((value & 0x80) << 8 | half);
}

/* The lower half of a NaN is zero, so nothing is carried into the sign. */
static inline uint16_t e5m2_of_half(uint16_t half) {
    return (uint16_t)(half + 0x7f + ((half >> 8) & 1)) >> 8;
}

static inline uint16_t e4m3_of_half(uint16_t half) {
    const uint16_t magnitude = half & 0x7fff;
    const uint16_t rounded = (uint16_t)(magnitude + 0x3f + ((magnitude >> 7) & 1)) >> 7;
    return (half >> 8 & 0x80) | (rounded > GCOLL_E4M3_NAN ? (uint16_t)GCOLL_E4M3_NAN : rounded);
}

enum { FLOAT8_BLOCK = 256 }; /* words: the blocks of float16 are far less than a first-level cache */
#define FLOAT8_SUM(NAME)                                                                                     \
    static void NAME##_sum(void *dst, const void *a, const void *b, uint64_t count) {                        \
        uint16_t left[2 * FLOAT8_BLOCK], right[2 * FLOAT8_BLOCK];                                            \
        u16 *d = dst;                                                                                        \
        const u16 *p = a, *q = b;                                                                            \
        const uint64_t words = count / 2;                                                                    \
        for (uint64_t done = 0, n; done < words; done += n) {                                                \
            n = words - done < FLOAT8_BLOCK ? words - done : FLOAT8_BLOCK;                                   \
            INDEPENDENT                                                                                      \
            for (uint64_t i = 0; i < n; i++) {                                                               \
                const uint16_t x = p[done + i], y = q[done + i];                                             \
                left[i] = half_of_##NAME(x & 0xff);                                                          \
                left[n + i] = half_of_##NAME(x >> 8);                                                        \
                right[i] = half_of_##NAME(y & 0xff);                                                         \
                right[n + i] = half_of_##NAME(y >> 8);                                                       \
            }                                                                                                \
            half_sum(left, left, right, 2 * n);                                                              \
            INDEPENDENT                                                                                      \
            for (uint64_t i = 0; i < n; i++)                                                                 \
                d[done + i] = (uint16_t)(NAME##_of_half(left[n + i]) << 8 | NAME##_of_half(left[i]));        \
        }                                                                                                    \
        if (count % 2 == 1) {                                                                                \
            const uint32_t x = *(const u8 *)(p + words), y = *(const u8 *)(q + words);                       \
            *(u8 *)(d + words) =                                                                             \
                (uint8_t)gcoll_##NAME##_round(gcoll_##NAME##_widen(x) + gcoll_##NAME##_widen(y));            \
        }                                                                                                    \
    }
FLOAT8_SUM(e4m3)
FLOAT8_SUM(e5m2)

static void half_divide(void *data, uint64_t count, uint32_t divisor) {
    u16 *d = data;
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        half_store(d + i, half_load(d + i) / (float)divisor);
    if (i < count) {
        uint16_t rest[LANES] = {0};
        memcpy(rest, d + i, (size_t)(count - i) * sizeof *rest);
        half_store(rest, half_load(rest) / (float)divisor);
        memcpy(d + i, rest, (size_t)(count - i) * sizeof *rest);
    }
}

static void half_scale(void *dst, const void *src, uint64_t count, double factor) {
    u16 *d = dst;
    const u16 *p = src;
    const float f = (float)factor;
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        half_store(d + i, half_load(p + i) * f);
    if (i < count) {
        uint16_t rest[LANES] = {0};
        memcpy(rest, p + i, (size_t)(count - i) * sizeof *rest);
        half_store(rest, half_load(rest) * f);
        memcpy(d + i, rest, (size_t)(count - i) * sizeof *rest);
    }
}
#else
FLOAT8_REDUCE(e4m3, e4m3_sum, +)
FLOAT8_REDUCE(e5m2, e5m2_sum, +)
PAIR_REDUCE(half_sum, gcoll_half_widen, gcoll_half_round, +)
PAIR_REDUCE(half_product, gcoll_half_widen, gcoll_half_round, *)
PAIR_DIVIDE(half_divide, gcoll_half_widen, gcoll_half_round)
PAIR_SCALE(half_scale, gcoll_half_widen, gcoll_half_round)
#endif

#include "gcoll/base/codec_loops.h"

/* NOLINTEND(bugprone-macro-parentheses) */

#define INTEGER_ROW(SIGNED, UNSIGNED)                                                                        \
    {                                                                                                        \
        [GCOLL_SUM] = UNSIGNED##_sum, [GCOLL_PRODUCT] = UNSIGNED##_product, [GCOLL_MIN] = SIGNED##_min,      \
        [GCOLL_MAX] = SIGNED##_max, [GCOLL_AVG] = UNSIGNED##_sum, [GCOLL_BAND] = UNSIGNED##_band,            \
        [GCOLL_BOR] = UNSIGNED##_bor, [GCOLL_BXOR] = UNSIGNED##_bxor, [GCOLL_LAND] = UNSIGNED##_land,        \
        [GCOLL_LOR] = UNSIGNED##_lor, [GCOLL_LXOR] = UNSIGNED##_lxor                                         \
    }
#define FLOAT_ROW(NAME)                                                                                      \
    {                                                                                                        \
        [GCOLL_SUM] = NAME##_sum, [GCOLL_PRODUCT] = NAME##_product, [GCOLL_MIN] = NAME##_min,                \
        [GCOLL_MAX] = NAME##_max, [GCOLL_AVG] = NAME##_sum                                                   \
    }
#define COMPLEX_ROW(NAME)                                                                                    \
    { [GCOLL_SUM] = NAME##_sum, [GCOLL_PRODUCT] = NAME##_product, [GCOLL_AVG] = NAME##_sum }
#define LOCATED_ROW(NAME)                                                                                    \
    { [GCOLL_MINLOC] = NAME##_minloc, [GCOLL_MAXLOC] = NAME##_maxloc }

const gcoll_kernel_table KERNEL_TABLE = {
    .reduce =
        {
            [GCOLL_INT8] = INTEGER_ROW(i8, u8),
            [GCOLL_UINT8] = INTEGER_ROW(u8, u8),
            [GCOLL_INT16] = INTEGER_ROW(i16, u16),
            [GCOLL_UINT16] = INTEGER_ROW(u16, u16),
            [GCOLL_INT32] = INTEGER_ROW(i32, u32),
            [GCOLL_UINT32] = INTEGER_ROW(u32, u32),
            [GCOLL_INT64] = INTEGER_ROW(i64, u64),
            [GCOLL_UINT64] = INTEGER_ROW(u64, u64),
            [GCOLL_BOOL] = {[GCOLL_LAND] = u8_land, [GCOLL_LOR] = u8_lor, [GCOLL_LXOR] = u8_lxor},
            [GCOLL_FLOAT8_E4M3] = FLOAT_ROW(e4m3),
            [GCOLL_FLOAT8_E5M2] = FLOAT_ROW(e5m2),
            [GCOLL_FLOAT16] = FLOAT_ROW(half),
            [GCOLL_BFLOAT16] = FLOAT_ROW(bfloat16),
            [GCOLL_FLOAT32] = FLOAT_ROW(f32),
            [GCOLL_FLOAT64] = FLOAT_ROW(f64),
            [GCOLL_COMPLEX64] = COMPLEX_ROW(c64),
            [GCOLL_COMPLEX128] = COMPLEX_ROW(c128),
            [GCOLL_FLOAT32_INT32] = LOCATED_ROW(f32),
            [GCOLL_FLOAT64_INT64] = LOCATED_ROW(f64),
            [GCOLL_INT32_INT32] = LOCATED_ROW(i32),
            [GCOLL_INT64_INT64] = LOCATED_ROW(i64),
        },
    .divide =
        {
            [GCOLL_INT8] = i8_divide,
            [GCOLL_UINT8] = u8_divide,
            [GCOLL_INT16] = i16_divide,
            [GCOLL_UINT16] = u16_divide,
            [GCOLL_INT32] = i32_divide,
            [GCOLL_UINT32] = u32_divide,
            [GCOLL_INT64] = i64_divide,
            [GCOLL_UINT64] = u64_divide,
            [GCOLL_FLOAT8_E4M3] = e4m3_divide,
            [GCOLL_FLOAT8_E5M2] = e5m2_divide,
            [GCOLL_FLOAT16] = half_divide,
            [GCOLL_BFLOAT16] = bfloat16_divide,
            [GCOLL_FLOAT32] = f32_divide,
            [GCOLL_FLOAT64] = f64_divide,
            [GCOLL_COMPLEX64] = c64_divide,
            [GCOLL_COMPLEX128] = c128_divide,
        },
    .scale =
        {
            [GCOLL_FLOAT8_E4M3] = e4m3_scale,
            [GCOLL_FLOAT8_E5M2] = e5m2_scale,
            [GCOLL_FLOAT16] = half_scale,
            [GCOLL_BFLOAT16] = bfloat16_scale,
            [GCOLL_FLOAT32] = f32_scale,
            [GCOLL_FLOAT64] = f64_scale,
            [GCOLL_COMPLEX64] = c64_scale,
            [GCOLL_COMPLEX128] = c128_scale,
        },
    .codec =
        {
            [GCOLL_CODEC_BF16] = CODEC_ROW(bf16),
            [GCOLL_CODEC_FP16] = CODEC_ROW(fp16),
            [GCOLL_CODEC_INT8] = CODEC_ROW(int8),
            [GCOLL_CODEC_FP8] = CODEC_ROW(fp8),
        },
};
