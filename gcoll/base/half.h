/*
 * gcoll/base/half.h - conversions between float32 and float16 or bfloat16, for inlining into loops.
 *
 * They have no branches, and no results that are float32 denormals. So compilers vectorise loops over them,
 * and a caller's flush-to-zero mode does not change a float16. Rounding is to nearest even. Values that are
 * too large become infinity. A NaN keeps the payload bits that fit. Rounding makes a NaN quiet; widening
 * leaves that to the arithmetic that follows. The 16-bit values are the low bits of a uint32_t, whose other
 * bits are zero. nvcc compiles them for the host and for devices.
 */
#ifndef GCOLL_BASE_HALF_H
#define GCOLL_BASE_HALF_H

#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define GCOLL_HALF_FUNCTION static inline __host__ __device__
#else
#define GCOLL_HALF_FUNCTION static inline
#endif

GCOLL_HALF_FUNCTION uint32_t gcoll_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

GCOLL_HALF_FUNCTION float gcoll_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The exponent begins at bit 10 in float16 (bias 15) and at bit 23 in float32 (bias 127). Hence the
 * shifts by 13, and 127 - 15 to convert the bias. */
#define GCOLL_HALF_REBIAS ((uint32_t)(127 - 15) << 23)

GCOLL_HALF_FUNCTION float gcoll_half_widen(uint32_t half) {
    uint32_t sign = (half & 0x8000) << 16;
    uint32_t shifted = (half & 0x7fff) << 13;
    uint32_t normal = shifted + GCOLL_HALF_REBIAS;
    /* Infinity and NaN: exponent 31 becomes 31 + 112 above and must become 255. */
    uint32_t special = normal + GCOLL_HALF_REBIAS;
    /* Denormals count units of 2^-24. */
    uint32_t denormal = gcoll_float_bits((float)(int32_t)(half & 0x3ff) * 0x1p-24f);
    uint32_t bits = shifted < ((uint32_t)0x0400 << 13) ? denormal : normal;
    bits = shifted >= ((uint32_t)0x7c00 << 13) ? special : bits;
    return gcoll_float_of_bits(sign | bits);
}

GCOLL_HALF_FUNCTION uint32_t gcoll_half_round(float value) {
    uint32_t bits = gcoll_float_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    /* Adding just under half a unit, and the unit's own last bit, rounds to nearest even; the carry
     * makes infinity of 65520 and above. */
    uint32_t normal = (magnitude + 0x0fff + ((magnitude >> 13) & 1) - GCOLL_HALF_REBIAS) >> 13;
    /* The last bit of a float in [0.5, 1) is 2^-24, the unit of float16 denormals: the addition rounds. */
    uint32_t denormal = gcoll_float_bits(gcoll_float_of_bits(magnitude) + 0.5f) - 0x3f000000;
    uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    uint32_t half = magnitude < 0x38800000 /* 2^-14 */ ? denormal : normal;
    half = magnitude >= 0x47800000 /* 65536 */ ? 0x7c00 : half;
    half = magnitude > 0x7f800000 ? nan : half;
    return sign | half;
}

GCOLL_HALF_FUNCTION float gcoll_bfloat16_widen(uint32_t value) {
    return gcoll_float_of_bits(value << 16);
}

GCOLL_HALF_FUNCTION uint32_t gcoll_bfloat16_round(float value) {
    uint32_t bits = gcoll_float_bits(value);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    uint32_t nan = (bits >> 16) | 0x0040;
    return value != value ? nan : rounded;
}

/* As gcoll_bfloat16_round, for results of arithmetic on widened values. A NaN among these is quiet, and
 * its lower half is zero. So rounding carries nothing into the upper half, and no test for NaN is needed. */
GCOLL_HALF_FUNCTION uint32_t gcoll_bfloat16_round_result(float value) {
    uint32_t bits = gcoll_float_bits(value);
    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

#endif
