// test/kit/element_oracle.h - the results of reductions of single elements, derived from gcoll/types.h alone,
// by exact integers and double.
#ifndef GCOLL_TEST_ELEMENT_ORACLE_H
#define GCOLL_TEST_ELEMENT_ORACLE_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "gcoll/types.h"

namespace element_oracle {

using Bits = unsigned __int128; // an element, in the low bits
using Wide = __int128;          // holds any sum, product or quotient of integers, modulo 2^128

// A bool is an integer here. Complex numbers, and values with an index, have two halves.
struct Shape {
    unsigned bytes;
    bool is_float, is_signed;
    int mantissa_bits, bias;
    bool has_infinity;
};

enum class Kind { kInteger, kBool, kFloat, kComplex, kLocated };

inline Kind kind_of(gcoll_type type) {
    switch (type) {
    case GCOLL_BOOL:
        return Kind::kBool;
    case GCOLL_FLOAT8_E4M3:
    case GCOLL_FLOAT8_E5M2:
    case GCOLL_FLOAT16:
    case GCOLL_BFLOAT16:
    case GCOLL_FLOAT32:
    case GCOLL_FLOAT64:
        return Kind::kFloat;
    case GCOLL_COMPLEX64:
    case GCOLL_COMPLEX128:
        return Kind::kComplex;
    case GCOLL_FLOAT32_INT32:
    case GCOLL_FLOAT64_INT64:
    case GCOLL_INT32_INT32:
    case GCOLL_INT64_INT64:
        return Kind::kLocated;
    default:
        return Kind::kInteger;
    }
}

inline bool has_halves(gcoll_type type) {
    return kind_of(type) == Kind::kComplex || kind_of(type) == Kind::kLocated;
}

// The real part, or the value.
inline gcoll_type first_type(gcoll_type type) {
    switch (type) {
    case GCOLL_COMPLEX64:
    case GCOLL_FLOAT32_INT32:
        return GCOLL_FLOAT32;
    case GCOLL_COMPLEX128:
    case GCOLL_FLOAT64_INT64:
        return GCOLL_FLOAT64;
    case GCOLL_INT32_INT32:
        return GCOLL_INT32;
    default:
        return GCOLL_INT64;
    }
}

// The imaginary part, or the index.
inline gcoll_type second_type(gcoll_type type) {
    switch (type) {
    case GCOLL_COMPLEX64:
        return GCOLL_FLOAT32;
    case GCOLL_COMPLEX128:
        return GCOLL_FLOAT64;
    case GCOLL_FLOAT32_INT32:
    case GCOLL_INT32_INT32:
        return GCOLL_INT32;
    default:
        return GCOLL_INT64;
    }
}

inline Shape shape_of(gcoll_type type) {
    switch (type) {
    case GCOLL_INT8:
        return {1, false, true, 0, 0, false};
    case GCOLL_UINT8:
    case GCOLL_BOOL:
        return {1, false, false, 0, 0, false};
    case GCOLL_INT16:
        return {2, false, true, 0, 0, false};
    case GCOLL_UINT16:
        return {2, false, false, 0, 0, false};
    case GCOLL_INT32:
        return {4, false, true, 0, 0, false};
    case GCOLL_UINT32:
        return {4, false, false, 0, 0, false};
    case GCOLL_INT64:
        return {8, false, true, 0, 0, false};
    case GCOLL_UINT64:
        return {8, false, false, 0, 0, false};
    case GCOLL_FLOAT8_E4M3:
        return {1, true, true, 3, 7, false};
    case GCOLL_FLOAT8_E5M2:
        return {1, true, true, 2, 15, true};
    case GCOLL_FLOAT16:
        return {2, true, true, 10, 15, true};
    case GCOLL_BFLOAT16:
        return {2, true, true, 7, 127, true};
    case GCOLL_FLOAT32:
        return {4, true, true, 23, 127, true};
    case GCOLL_FLOAT64:
        return {8, true, true, 52, 1023, true};
    case GCOLL_COMPLEX64:
    case GCOLL_FLOAT32_INT32:
    case GCOLL_INT32_INT32:
        return {8, false, false, 0, 0, false};
    default:
        return {16, false, false, 0, 0, false};
    }
}

inline Bits mask(gcoll_type type) {
    return ~Bits{0} >> (128 - 8 * shape_of(type).bytes);
}

inline Bits sign_bit(gcoll_type type) {
    return Bits{1} << (8 * shape_of(type).bytes - 1);
}

// The first half lies at the lower address.
inline Bits join(gcoll_type type, Bits first, Bits second) {
    return first | second << (4 * shape_of(type).bytes);
}

inline Bits first_half(gcoll_type type, Bits x) {
    return x & mask(first_type(type));
}

inline Bits second_half(gcoll_type type, Bits x) {
    return x >> (4 * shape_of(type).bytes);
}

// For messages.
inline std::string hex(Bits x) {
    std::string text;
    do
        text.insert(text.begin(), "0123456789abcdef"[static_cast<unsigned>(x & 15)]);
    while (x >>= 4);
    return "0x" + text;
}

// Returns the largest float: infinity, where the format has one. Larger bits are NaN.
inline Bits largest(gcoll_type type) {
    Shape s = shape_of(type);
    if (s.has_infinity)
        return static_cast<Bits>(2 * s.bias + 1) << s.mantissa_bits;
    return sign_bit(type) - 2; // only the mantissa of ones, of the greatest exponent, is NaN
}

inline bool is_nan(gcoll_type type, Bits x) {
    return shape_of(type).is_float && (x & ~sign_bit(type)) > largest(type);
}

// Returns the value of a magnitude by its exponent and mantissa, also where the format has infinity or NaN.
inline double finite(gcoll_type type, Bits magnitude) {
    Shape s = shape_of(type);
    int exponent = static_cast<int>(magnitude >> s.mantissa_bits);
    Bits mantissa = magnitude & ((Bits{1} << s.mantissa_bits) - 1);
    if (exponent > 0)
        mantissa |= Bits{1} << s.mantissa_bits;
    return std::ldexp(static_cast<double>(static_cast<uint64_t>(mantissa)),
                      std::max(exponent, 1) - s.bias - s.mantissa_bits);
}

// Returns the value of a floating-point element, by the definition of its format.
inline double decode(gcoll_type type, Bits x) {
    Bits magnitude = x & ~sign_bit(type);
    double sign = x & sign_bit(type) ? -1 : 1;
    if (is_nan(type, x))
        return std::numeric_limits<double>::quiet_NaN();
    if (magnitude == largest(type) && shape_of(type).has_infinity)
        return sign * std::numeric_limits<double>::infinity();
    return sign * finite(type, magnitude);
}

// Returns the nearest float of 16 or 8 bits, found among all of them, and the even one of two that are
// equally near. This is exact, because a midpoint has few bits. What follows the largest number, infinity or
// NaN, rounds as if the numbers went on.
inline Bits encode_narrow(gcoll_type type, double value) {
    Bits sign = std::signbit(value) ? sign_bit(type) : 0;
    Bits low = 0, high = shape_of(type).has_infinity ? largest(type) : largest(type) + 1;
    double magnitude = std::fabs(value);
    if (std::isnan(value))
        return largest(type) + 1;
    while (high - low > 1) {
        Bits middle = (low + high) / 2;
        (finite(type, middle) <= magnitude ? low : high) = middle;
    }
    double midpoint = (finite(type, low) + finite(type, high)) / 2;
    bool up = magnitude > midpoint || (magnitude == midpoint && low % 2 == 1);
    return sign | (up ? high : low);
}

// Returns the element with the value of a result, by one more rounding (to float32, then to fewer bits).
inline Bits encode(gcoll_type type, double value) {
    float single = static_cast<float>(value);
    switch (type) {
    case GCOLL_FLOAT64: {
        uint64_t word;
        memcpy(&word, &value, 8);
        return word;
    }
    case GCOLL_FLOAT32: {
        uint32_t word;
        memcpy(&word, &single, 4);
        return word;
    }
    default:
        return encode_narrow(type, static_cast<double>(single));
    }
}

inline Wide integer(gcoll_type type, Bits x) {
    bool negative = shape_of(type).is_signed && (x & sign_bit(type));
    return negative ? static_cast<Wide>(x) - (static_cast<Wide>(mask(type)) + 1) : static_cast<Wide>(x);
}

inline Bits integer_answer(gcoll_type type, gcoll_op op, Bits x, Bits y) {
    Wide a = integer(type, x), b = integer(type, y);
    switch (op) {
    case GCOLL_PRODUCT:
        return static_cast<Bits>(a) * static_cast<Bits>(b) & mask(type);
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
    case GCOLL_LAND:
        return a != 0 && b != 0 ? 1 : 0;
    case GCOLL_LOR:
        return a != 0 || b != 0 ? 1 : 0;
    case GCOLL_LXOR:
        return (a != 0) != (b != 0) ? 1 : 0;
    default:
        return static_cast<Bits>(a + b) & mask(type);
    }
}

inline bool is_below(double a, double b) {
    return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

inline Bits float_answer(gcoll_type type, gcoll_op op, Bits x, Bits y) {
    double a = decode(type, x), b = decode(type, y);
    if (std::isnan(a) || std::isnan(b))
        return largest(type) + 1;
    switch (op) {
    // double is exact for a product of float32; for a sum it is so near that rounding twice does no harm
    case GCOLL_PRODUCT:
        return encode(type, a * b);
    case GCOLL_MIN:
        return is_below(a, b) ? x : y;
    case GCOLL_MAX:
        return is_below(a, b) ? y : x;
    default:
        return encode(type, a + b);
    }
}

inline Bits complex_answer(gcoll_type type, gcoll_op op, Bits x, Bits y) {
    const gcoll_type part = first_type(type);
    const Bits a = first_half(type, x), b = second_half(type, x);
    const Bits c = first_half(type, y), d = second_half(type, y);
    const auto sum = [part](Bits p, Bits q) { return float_answer(part, GCOLL_SUM, p, q); };
    const auto product = [part](Bits p, Bits q) { return float_answer(part, GCOLL_PRODUCT, p, q); };
    if (op != GCOLL_PRODUCT)
        return join(type, sum(a, c), sum(b, d));
    return join(type, sum(product(a, c), product(b, d) ^ sign_bit(part)), sum(product(a, d), product(b, c)));
}

// -1, 0, 1: the value of x is better, as good, or worse than that of y. NaN is better than all.
inline int compare(gcoll_type type, gcoll_op op, Bits x, Bits y) {
    if (!shape_of(type).is_float) {
        Wide a = integer(type, x), b = integer(type, y);
        return a == b ? 0 : (a < b) == (op == GCOLL_MINLOC) ? -1 : 1;
    }
    double a = decode(type, x), b = decode(type, y);
    if (std::isnan(a) || std::isnan(b))
        return std::isnan(b) - std::isnan(a);
    if (!is_below(a, b) && !is_below(b, a))
        return 0;
    return is_below(a, b) == (op == GCOLL_MINLOC) ? -1 : 1;
}

inline Bits located_answer(gcoll_type type, gcoll_op op, Bits x, Bits y) {
    const gcoll_type index = second_type(type);
    int better = compare(first_type(type), op, first_half(type, x), first_half(type, y));
    if (better != 0)
        return better < 0 ? x : y;
    return integer(index, second_half(type, x)) < integer(index, second_half(type, y)) ? x : y;
}

inline Bits answer(gcoll_type type, gcoll_op op, Bits x, Bits y) {
    switch (kind_of(type)) {
    case Kind::kFloat:
        return float_answer(type, op, x, y);
    case Kind::kComplex:
        return complex_answer(type, op, x, y);
    case Kind::kLocated:
        return located_answer(type, op, x, y);
    default:
        return integer_answer(type, op, x, y);
    }
}

// The product with a real factor, which all types but those of doubles take as a float.
inline Bits multiple(gcoll_type type, Bits x, double factor) {
    if (kind_of(type) == Kind::kComplex)
        return join(type, multiple(first_type(type), first_half(type, x), factor),
                    multiple(first_type(type), second_half(type, x), factor));
    const double f = type == GCOLL_FLOAT64 ? factor : static_cast<double>(static_cast<float>(factor));
    return is_nan(type, x) ? x : encode(type, decode(type, x) * f);
}

inline Bits quotient(gcoll_type type, Bits x, uint32_t divisor) {
    if (kind_of(type) == Kind::kComplex)
        return join(type, quotient(first_type(type), first_half(type, x), divisor),
                    quotient(first_type(type), second_half(type, x), divisor));
    if (!shape_of(type).is_float)
        return static_cast<Bits>(integer(type, x) / static_cast<Wide>(divisor)) & mask(type);
    double n = type == GCOLL_FLOAT64 ? divisor : static_cast<double>(static_cast<float>(divisor));
    return is_nan(type, x) ? x : encode(type, decode(type, x) / n);
}

inline bool defined(gcoll_type type, gcoll_op op) {
    const bool arithmetic = op == GCOLL_SUM || op == GCOLL_PRODUCT || op == GCOLL_AVG;
    const bool extreme = op == GCOLL_MIN || op == GCOLL_MAX;
    const bool bits = op == GCOLL_BAND || op == GCOLL_BOR || op == GCOLL_BXOR;
    const bool logical = op == GCOLL_LAND || op == GCOLL_LOR || op == GCOLL_LXOR;
    switch (kind_of(type)) {
    case Kind::kBool:
        return logical;
    case Kind::kFloat:
        return arithmetic || extreme;
    case Kind::kComplex:
        return arithmetic;
    case Kind::kLocated:
        return op == GCOLL_MINLOC || op == GCOLL_MAXLOC;
    default:
        return arithmetic || extreme || bits || logical;
    }
}

// Whether a result is as wanted. One NaN is as good as another.
inline bool same(gcoll_type type, Bits got, Bits want) {
    if (has_halves(type))
        return same(first_type(type), first_half(type, got), first_half(type, want)) &&
               same(second_type(type), second_half(type, got), second_half(type, want));
    return is_nan(type, want) ? is_nan(type, got) : got == want;
}

} // namespace element_oracle

#endif
