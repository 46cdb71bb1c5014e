// test/kit/element_oracle.h - the results of reductions of single elements, derived from gcoll/types.h alone,
// by exact integers and double.
#ifndef GCOLL_TEST_ELEMENT_ORACLE_H
#define GCOLL_TEST_ELEMENT_ORACLE_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "gcoll/types.h"

namespace element_oracle {

using Bits = uint64_t; // an element, in the low bits
using Wide = __int128; // holds any sum, product or quotient of elements, modulo 2^128

struct Shape {
    unsigned bytes;
    bool is_float, is_signed;
    int mantissa_bits, bias;
};

inline Shape shape_of(gcoll_type type) {
    switch (type) {
    case GCOLL_INT8:
        return {1, false, true, 0, 0};
    case GCOLL_UINT8:
        return {1, false, false, 0, 0};
    case GCOLL_INT32:
        return {4, false, true, 0, 0};
    case GCOLL_UINT32:
        return {4, false, false, 0, 0};
    case GCOLL_INT64:
        return {8, false, true, 0, 0};
    case GCOLL_UINT64:
        return {8, false, false, 0, 0};
    case GCOLL_FLOAT16:
        return {2, true, true, 10, 15};
    case GCOLL_BFLOAT16:
        return {2, true, true, 7, 127};
    case GCOLL_FLOAT32:
        return {4, true, true, 23, 127};
    default:
        return {8, true, true, 52, 1023};
    }
}

inline Bits mask(gcoll_type type) {
    return ~Bits{0} >> (64 - 8 * shape_of(type).bytes);
}

inline Bits sign_bit(gcoll_type type) {
    return Bits{1} << (8 * shape_of(type).bytes - 1);
}

inline Bits infinity(gcoll_type type) {
    Shape s = shape_of(type);
    return static_cast<Bits>(2 * s.bias + 1) << s.mantissa_bits;
}

inline bool is_nan(gcoll_type type, Bits x) {
    return shape_of(type).is_float && (x & ~sign_bit(type)) > infinity(type);
}

// Returns the value of a floating-point element, by the definition of its format.
inline double decode(gcoll_type type, Bits x) {
    Shape s = shape_of(type);
    Bits magnitude = x & ~sign_bit(type);
    double sign = x & sign_bit(type) ? -1 : 1;
    if (is_nan(type, x))
        return std::numeric_limits<double>::quiet_NaN();
    if (magnitude == infinity(type))
        return sign * std::numeric_limits<double>::infinity();
    int exponent = static_cast<int>(magnitude >> s.mantissa_bits);
    Bits mantissa = magnitude & ((Bits{1} << s.mantissa_bits) - 1);
    if (exponent > 0)
        mantissa |= Bits{1} << s.mantissa_bits;
    return sign * std::ldexp(static_cast<double>(mantissa), std::max(exponent, 1) - s.bias - s.mantissa_bits);
}

// Returns the nearest 16-bit float, found among all of them, and the even one of two that are equally near.
// This is exact, because a midpoint has few bits.
inline Bits encode16(gcoll_type type, double value) {
    Bits sign = std::signbit(value) ? sign_bit(type) : 0, top = infinity(type);
    double magnitude = std::fabs(value);
    if (std::isnan(value))
        return top + 1;
    // Infinity rounds as if the exponents continued: its value is the next power of two.
    auto at = [&](Bits x) { return x < top ? decode(type, x) : std::ldexp(1.0, shape_of(type).bias + 1); };
    Bits low = 0, high = top;
    while (high - low > 1) {
        Bits middle = (low + high) / 2;
        (at(middle) <= magnitude ? low : high) = middle;
    }
    double midpoint = (at(low) + at(high)) / 2;
    bool up = magnitude > midpoint || (magnitude == midpoint && low % 2 == 1);
    return sign | (up ? high : low);
}

// Returns the element with the value of a result, by one more rounding (to float32, then to 16 bits).
inline Bits encode(gcoll_type type, double value) {
    Bits bits = 0;
    float single = static_cast<float>(value);
    switch (type) {
    case GCOLL_FLOAT64:
        memcpy(&bits, &value, 8);
        return bits;
    case GCOLL_FLOAT32: {
        uint32_t word;
        memcpy(&word, &single, 4);
        return word;
    }
    default:
        return encode16(type, static_cast<double>(single));
    }
}

inline Wide integer(gcoll_type type, Bits x) {
    bool negative = shape_of(type).is_signed && (x & sign_bit(type));
    return negative ? static_cast<Wide>(x) - (static_cast<Wide>(mask(type)) + 1) : static_cast<Wide>(x);
}

inline Bits integer_answer(gcoll_type type, gcoll_op op, Bits x, Bits y) {
    Wide a = integer(type, x), b = integer(type, y);
    using Modulo = unsigned __int128;
    switch (op) {
    case GCOLL_PRODUCT:
        return static_cast<Bits>(static_cast<Modulo>(a) * static_cast<Modulo>(b)) & mask(type);
    case GCOLL_MIN:
        return a < b ? x : y;
    case GCOLL_MAX:
        return a > b ? x : y;
    case GCOLL_BAND:
        return x & y;
    case GCOLL_BOR:
        return x | y;
    case GCOLL_BXOR:
        return x ^ y;
    default:
        return static_cast<Bits>(a + b) & mask(type);
    }
}

inline Bits float_answer(gcoll_type type, gcoll_op op, Bits x, Bits y) {
    double a = decode(type, x), b = decode(type, y);
    if (std::isnan(a) || std::isnan(b))
        return infinity(type) + 1;
    bool a_below = a < b || (a == b && std::signbit(a) && !std::signbit(b));
    switch (op) {
    // double is exact for a product of float32; for a sum it is so near that rounding twice does no harm
    case GCOLL_PRODUCT:
        return encode(type, a * b);
    case GCOLL_MIN:
        return a_below ? x : y;
    case GCOLL_MAX:
        return a_below ? y : x;
    default:
        return encode(type, a + b);
    }
}

inline Bits answer(gcoll_type type, gcoll_op op, Bits x, Bits y) {
    return shape_of(type).is_float ? float_answer(type, op, x, y) : integer_answer(type, op, x, y);
}

inline Bits quotient(gcoll_type type, Bits x, uint32_t divisor) {
    if (!shape_of(type).is_float)
        return static_cast<Bits>(integer(type, x) / static_cast<Wide>(divisor)) & mask(type);
    double n = type == GCOLL_FLOAT64 ? divisor : static_cast<double>(static_cast<float>(divisor));
    return is_nan(type, x) ? x : encode(type, decode(type, x) / n);
}

inline bool defined(gcoll_type type, gcoll_op op) {
    bool bits = op == GCOLL_BAND || op == GCOLL_BOR || op == GCOLL_BXOR;
    return !bits || !shape_of(type).is_float;
}

inline bool same(gcoll_type type, Bits got, Bits want) {
    return is_nan(type, want) ? is_nan(type, got) : got == want;
}

} // namespace element_oracle

#endif
