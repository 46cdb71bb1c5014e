/*
 * gcoll/base/float8.h - conversions between float32 and 8-bit floats, for inlining into loops.
 *
 * The formats are those of the OCP 8-bit Floating Point Specification (OFP8), revision 1.0, section 5. E5M2
 * is float16 without its lower 8 bits. E4M3 has a bias of 7 and no infinity. Its exponent 15 has numbers,
 * too, and only the mantissa 7 there is NaN.
 *
 * As in half.h, there are no branches, and no results that are float32 denormals. Rounding is to nearest even
 * and does not saturate. What rounds to more than the largest number becomes infinity in E5M2, and NaN in
 * E4M3. The 8-bit values are the low bits of a uint32_t, whose other bits are zero.
 */
#ifndef GCOLL_BASE_FLOAT8_H
#define GCOLL_BASE_FLOAT8_H

#include "gcoll/base/half.h"

#define GCOLL_E4M3_MANTISSA 3u /* bits */
#define GCOLL_E4M3_BIAS     7u
#define GCOLL_E4M3_NAN      0x7fu
#define GCOLL_E5M2_MANTISSA 2u
#define GCOLL_E5M2_BIAS     15u
#define GCOLL_E5M2_INFINITY 0x7cu

GCOLL_HALF_FUNCTION float gcoll_e4m3_widen(uint32_t value) {
    uint32_t sign = (value & 0x80) << 24;
    uint32_t magnitude = value & 0x7f;
    uint32_t normal = (magnitude << (23 - GCOLL_E4M3_MANTISSA)) + ((127 - GCOLL_E4M3_BIAS) << 23);
    /* Denormals count units of 2^-9. */
    uint32_t denormal = gcoll_float_bits((float)(int32_t)magnitude * 0x1p-9f);
    uint32_t bits = magnitude < 0x08 ? denormal : normal;
    bits = magnitude == GCOLL_E4M3_NAN ? 0x7fc00000 : bits;
    return gcoll_float_of_bits(sign | bits);
}

GCOLL_HALF_FUNCTION float gcoll_e5m2_widen(uint32_t value) {
    return gcoll_half_widen(value << 8);
}

/* Rounds a magnitude, the bits of a float, to a format as if its exponents went on for ever. */
GCOLL_HALF_FUNCTION uint32_t gcoll_float8_round(uint32_t magnitude, uint32_t mantissa, uint32_t bias) {
    uint32_t shift = 23 - mantissa, rebias = (127 - bias) << 23;
    /* Adding just under half a unit, and the unit's own last bit, rounds to nearest even. */
    uint32_t half_unit = ((uint32_t)1 << (shift - 1)) - 1 + ((magnitude >> shift) & 1);
    uint32_t normal = (magnitude + half_unit - rebias) >> shift;
    /* The last bit of a float from this power of two on is the unit of denormals: the addition rounds. */
    uint32_t power = (127 + 24 - mantissa - bias) << 23;
    float sum = gcoll_float_of_bits(magnitude) + gcoll_float_of_bits(power);
    uint32_t smallest_normal = (128 - bias) << 23;
    return magnitude < smallest_normal ? gcoll_float_bits(sum) - power : normal;
}

GCOLL_HALF_FUNCTION uint32_t gcoll_e4m3_round(float value) {
    uint32_t bits = gcoll_float_bits(value), magnitude = bits & 0x7fffffff;
    /* Up to 464 rounds to 448, the largest number. From there to 480 the carry makes the NaN. */
    uint32_t rounded = gcoll_float8_round(magnitude, GCOLL_E4M3_MANTISSA, GCOLL_E4M3_BIAS);
    rounded = magnitude >= 0x43f00000 /* 480 */ ? GCOLL_E4M3_NAN : rounded;
    return ((bits >> 24) & 0x80) | rounded;
}

GCOLL_HALF_FUNCTION uint32_t gcoll_e5m2_round(float value) {
    uint32_t bits = gcoll_float_bits(value), magnitude = bits & 0x7fffffff;
    /* From 61440 on the carry makes infinity. */
    uint32_t rounded = gcoll_float8_round(magnitude, GCOLL_E5M2_MANTISSA, GCOLL_E5M2_BIAS);
    uint32_t nan = 0x7e | ((magnitude >> 21) & 1);
    rounded = magnitude >= 0x47800000 /* 65536 */ ? GCOLL_E5M2_INFINITY : rounded;
    rounded = magnitude > 0x7f800000 ? nan : rounded;
    return ((bits >> 24) & 0x80) | rounded;
}

#endif
