/* gcoll/base/half.c - the functions of half.h, for callers that do not inline them. */
#include "gcoll/base/half.h"

#include <math.h>

#include "gcoll/base/base.h"

static float quiet(float value) {
    return isnan(value) ? gcoll_float_of_bits(gcoll_float_bits(value) | 0x00400000) : value;
}

float gcoll_half_to_float(uint16_t half) {
    return quiet(gcoll_half_widen(half));
}

uint16_t gcoll_float_to_half(float value) {
    return (uint16_t)gcoll_half_round(value);
}

float gcoll_bfloat16_to_float(uint16_t value) {
    return quiet(gcoll_bfloat16_widen(value));
}

uint16_t gcoll_float_to_bfloat16(float value) {
    return (uint16_t)gcoll_bfloat16_round(value);
}
