/*
 * gcoll/base/codec_loops.h - the loops of the codecs. kernel_loops.h includes it, once for each instruction
 * set, and has the types of elements. docs/codecs.md has the formats.
 *
 * All sets give the same bits. A scale is a power of two, and a normal float32 like its inverse; so scaling
 * is exact, or gives what rounds to 0.
 */

/* Random bits of element i: the finaliser of MurmurHash3 on a counter. */
static inline uint32_t noise_of(uint32_t i, uint32_t key) {
    uint32_t h = i * 0x9e3779b1u + key;
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    return h ^ (h >> 16);
}

/* ---- Elements by themselves: bf16 and fp16 ------------------------------------------------------- */

/* Adds noise below the last bit that is kept, and cuts. Infinity has no bits there. */
static inline uint32_t bf16_dither(float value, uint32_t noise) {
    const uint32_t bits = gcoll_float_bits(value);
    const uint32_t rounded = (bits + (noise & 0xffff)) >> 16, nan = (bits >> 16) | 0x0040;
    return value != value ? nan : rounded;
}

static inline uint32_t fp16_dither(float value, uint32_t noise) {
    const uint32_t bits = gcoll_float_bits(value), magnitude = bits & 0x7fffffff;
    const uint32_t normal = (magnitude + (noise & 0x1fff) - GCOLL_HALF_REBIAS) >> 13;
    /* In units of 2^-24, fewer than 1024. 13 bits of noise leave the sum exact where the value is whole. */
    const float small = gcoll_float_of_bits(magnitude < 0x38800000 ? magnitude : 0) * 0x1p24f;
    const uint32_t denormal = (uint32_t)(int32_t)(small + (float)(int32_t)(noise & 0x1fff) * 0x1p-13f);
    uint32_t half = magnitude < 0x38800000 /* 2^-14 */ ? denormal : normal;
    half = magnitude >= 0x47800000 /* 65536 */ ? 0x7c00 : half;
    half = magnitude > 0x7f800000 ? 0x7e00 | ((magnitude >> 13) & 0x3ff) : half;
    return ((bits >> 16) & 0x8000) | half;
}

#define CODEC_16(NAME, ROUND, DITHER, WIDEN)                                                                 \
    static void NAME##_encode(void *code, const void *src, uint64_t count, uint32_t block,                   \
                              const uint32_t *noise) {                                                       \
        u16 *d = code;                                                                                       \
        const f32 *s = src;                                                                                  \
        (void)block;                                                                                         \
        if (noise) {                                                                                         \
            const uint32_t key = *noise;                                                                     \
            INDEPENDENT                                                                                      \
            for (uint64_t i = 0; i < count; i++)                                                             \
                d[i] = (uint16_t)DITHER(s[i], noise_of((uint32_t)i, key));                                   \
            return;                                                                                          \
        }                                                                                                    \
        INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++)                                                                 \
            d[i] = (uint16_t)ROUND(s[i]);                                                                    \
    }                                                                                                        \
    static void NAME##_decode(void *dst, const void *code, uint64_t count, uint32_t block) {                 \
        f32 *d = dst;                                                                                        \
        const u16 *s = code;                                                                                 \
        (void)block;                                                                                         \
        INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++)                                                                 \
            d[i] = WIDEN(s[i]);                                                                              \
    }                                                                                                        \
    static void NAME##_decode_sum(void *dst, const void *a, const void *code, uint64_t count,                \
                                  uint32_t block) {                                                          \
        f32 *d = dst;                                                                                        \
        const f32 *p = a;                                                                                    \
        const u16 *s = code;                                                                                 \
        (void)block;                                                                                         \
        INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++)                                                                 \
            d[i] = p[i] + WIDEN(s[i]);                                                                       \
    }
CODEC_16(bf16, gcoll_bfloat16_round, bf16_dither, gcoll_bfloat16_widen)
CODEC_16(fp16, gcoll_half_round, fp16_dither, gcoll_half_widen)

/* ---- Blocks: int8 and fp8 ------------------------------------------------------------------------ */

/* A format of bytes. LARGEST is the bits of the largest magnitude whose code, times the greatest scale, is
 * finite; larger numbers count as that one. */
#define INT8_LARGEST  0x7f7e0000u /* 127 * 2^121 */
#define INT8_TOP      0x007e0000u /* fraction of 127 = 1.984375 * 2^6 */
#define INT8_EXPONENT 6
#define INT8_SMALLEST 1           /* biased exponent of the least scale: 2^-126 */
#define FP8_LARGEST   0x7f700000u /* 240 * 2^120 */
#define FP8_TOP       0x00600000u /* fraction of 448 = 1.75 * 2^8 */
#define FP8_EXPONENT  8
#define FP8_SMALLEST  10 /* 2^-117: its least product, 2^-126, is a normal float32 */

/* To the nearest whole number, to even: the last bit of 1.5 * 2^23 is 1, and its lower byte counts from 0. */
static inline uint32_t int8_round(float value) {
    return gcoll_float_bits(value + 0x1.8p23f) & 0xff;
}

/* Down, after adding noise of 16 bits: 7 bits and these fit into a float32, so whole numbers stay. Counted
 * from -128 on, as conversion cuts towards 0. */
static inline uint32_t int8_dither(float value, uint32_t noise) {
    const float up = value + (float)(int32_t)(noise & 0xffff) * 0x1p-16f;
    return (uint32_t)((int32_t)(up + 128.0f) - 128) & 0xff;
}

static inline float int8_widen(uint32_t code) {
    return (float)(int8_t)(uint8_t)code;
}

static inline uint32_t fp8_dither(float value, uint32_t noise) {
    const uint32_t bits = gcoll_float_bits(value), magnitude = bits & 0x7fffffff;
    const uint32_t normal = (magnitude + (noise & 0xfffff) - ((127 - GCOLL_E4M3_BIAS) << 23)) >> 20;
    /* In units of 2^-9, fewer than 8. */
    const float small = gcoll_float_of_bits(magnitude < 0x3c800000 ? magnitude : 0) * 0x1p9f;
    const uint32_t denormal = (uint32_t)(int32_t)(small + (float)(int32_t)(noise & 0xffff) * 0x1p-16f);
    return ((bits >> 24) & 0x80) | (magnitude < 0x3c800000 /* 2^-6 */ ? denormal : normal);
}

/* NAME##_block writes one block of n elements; first is the number of its first element, for the noise. The
 * scale is the least power of two by which the largest magnitude of the block fits into the format. */
#define CODEC_BLOCKS(NAME, LIMITS, ROUND, DITHER, WIDEN)                                                     \
    static inline void NAME##_block(u8 *d, const f32 *s, uint32_t n, uint32_t first,                         \
                                    const uint32_t *noise) {                                                 \
        const u32 *bits = (const u32 *)s;                                                                    \
        uint32_t top = 0;                                                                                    \
        for (uint32_t i = 0; i < n; i++) {                                                                   \
            const uint32_t magnitude = bits[i] & 0x7fffffff;                                                 \
            top = magnitude > top ? magnitude : top;                                                         \
        }                                                                                                    \
        if (top >= 0x7f800000) {                                                                             \
            memset(d, 0, n + (size_t)1);                                                                     \
            d[0] = GCOLL_CODEC_NAN_BLOCK;                                                                    \
            return;                                                                                          \
        }                                                                                                    \
        top = top > LIMITS##_LARGEST ? LIMITS##_LARGEST : top;                                               \
        int32_t scale = (int32_t)((top + 0x7fffff - LIMITS##_TOP) >> 23) - LIMITS##_EXPONENT;                \
        scale = scale < LIMITS##_SMALLEST ? LIMITS##_SMALLEST : scale;                                       \
        const float inverse = gcoll_float_of_bits((uint32_t)(254 - scale) << 23);                            \
        *d++ = (uint8_t)scale;                                                                               \
        if (noise) {                                                                                         \
            const uint32_t key = *noise;                                                                     \
            INDEPENDENT                                                                                      \
            for (uint32_t i = 0; i < n; i++) {                                                               \
                uint32_t x = bits[i] & 0x7fffffff;                                                           \
                x = (x > top ? top : x) | (bits[i] & 0x80000000);                                            \
                d[i] = (uint8_t)DITHER(gcoll_float_of_bits(x) * inverse, noise_of(first + i, key));          \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        INDEPENDENT                                                                                          \
        for (uint32_t i = 0; i < n; i++) {                                                                   \
            uint32_t x = bits[i] & 0x7fffffff;                                                               \
            x = (x > top ? top : x) | (bits[i] & 0x80000000);                                                \
            d[i] = (uint8_t)ROUND(gcoll_float_of_bits(x) * inverse);                                         \
        }                                                                                                    \
    }                                                                                                        \
    static void NAME##_encode(void *code, const void *src, uint64_t count, uint32_t block,                   \
                              const uint32_t *noise) {                                                       \
        u8 *d = code;                                                                                        \
        const f32 *s = src;                                                                                  \
        for (uint64_t at = 0; at < count; at += block, d += block + (uint64_t)1) {                           \
            const uint32_t n = count - at < block ? (uint32_t)(count - at) : block;                          \
            NAME##_block(d, s + at, n, (uint32_t)at, noise);                                                 \
        }                                                                                                    \
    }                                                                                                        \
    static void NAME##_decode(void *dst, const void *code, uint64_t count, uint32_t block) {                 \
        f32 *d = dst;                                                                                        \
        const u8 *s = code;                                                                                  \
        for (uint64_t at = 0; at < count; at += block, s += block, d += block) {                             \
            const uint32_t n = count - at < block ? (uint32_t)(count - at) : block;                          \
            const float scale = scale_of(*s++);                                                              \
            INDEPENDENT                                                                                      \
            for (uint32_t i = 0; i < n; i++)                                                                 \
                d[i] = WIDEN(s[i]) * scale;                                                                  \
        }                                                                                                    \
    }                                                                                                        \
    static void NAME##_decode_sum(void *dst, const void *a, const void *code, uint64_t count,                \
                                  uint32_t block) {                                                          \
        f32 *d = dst;                                                                                        \
        const f32 *p = a;                                                                                    \
        const u8 *s = code;                                                                                  \
        for (uint64_t at = 0; at < count; at += block, s += block, d += block, p += block) {                 \
            const uint32_t n = count - at < block ? (uint32_t)(count - at) : block;                          \
            const float scale = scale_of(*s++);                                                              \
            INDEPENDENT                                                                                      \
            for (uint32_t i = 0; i < n; i++)                                                                 \
                d[i] = p[i] + WIDEN(s[i]) * scale;                                                           \
        }                                                                                                    \
    }

static inline float scale_of(uint32_t code) {
    return gcoll_float_of_bits(code == GCOLL_CODEC_NAN_BLOCK ? 0x7fc00000 : code << 23);
}

CODEC_BLOCKS(int8, INT8, int8_round, int8_dither, int8_widen)
CODEC_BLOCKS(fp8, FP8, gcoll_e4m3_round, fp8_dither, gcoll_e4m3_widen)

#define CODEC_ROW(NAME)                                                                                      \
    { NAME##_encode, NAME##_decode, NAME##_decode_sum }
