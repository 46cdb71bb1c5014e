/*
 * cuda/elements.h - operations and division on single elements, in C++ for devices and the host.
 *
 * Bit for bit what the kernels of gcoll/base do, but for which NaN a NaN is. A test on the host compares the
 * two for every type and operation; no device is needed for that.
 *
 * The NaN that a device's arithmetic gives is 0x7fffffff: rounding must not carry out of it.
 */
#ifndef GCOLL_CUDA_ELEMENTS_H
#define GCOLL_CUDA_ELEMENTS_H

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/formats.h"
#include "gcoll/types.h"

namespace gcoll_cuda {

/* An operation: its type of elements, and x op y. Signed integers add, multiply and combine as unsigned ones.
 */

template <class T> struct Sum {
    using Element = T;
    GCOLL_BOTH static T apply(T x, T y) { return static_cast<T>(x + y); }
};

template <class T> struct Product {
    using Element = T;
    GCOLL_BOTH static T apply(T x, T y) { return static_cast<T>(x * y); }
};

template <class T> struct Minimum {
    using Element = T;
    GCOLL_BOTH static T apply(T x, T y) { return x < y ? x : y; }
};

template <class T> struct Maximum {
    using Element = T;
    GCOLL_BOTH static T apply(T x, T y) { return x > y ? x : y; }
};

template <class T> struct And {
    using Element = T;
    GCOLL_BOTH static T apply(T x, T y) { return static_cast<T>(x & y); }
};

template <class T> struct Or {
    using Element = T;
    GCOLL_BOTH static T apply(T x, T y) { return static_cast<T>(x | y); }
};

template <class T> struct Xor {
    using Element = T;
    GCOLL_BOTH static T apply(T x, T y) { return static_cast<T>(x ^ y); }
};

template <class Format> struct ShortSum {
    using Element = uint16_t;
    GCOLL_BOTH static uint16_t apply(uint16_t x, uint16_t y) {
        return Format::round(Format::widen(x) + Format::widen(y));
    }
};

template <class Format> struct ShortProduct {
    using Element = uint16_t;
    GCOLL_BOTH static uint16_t apply(uint16_t x, uint16_t y) {
        return Format::round(Format::widen(x) * Format::widen(y));
    }
};

/* Minimum and maximum of floats in integers, as FLOAT_EXTREMES of gcoll/base/kernel_loops.h explains. */
template <class Bits, Bits Nans> struct FloatOrder {
    using Signed = typename std::make_signed<Bits>::type;

    GCOLL_BOTH static Bits key(Bits x) {
        Bits negative = static_cast<Bits>(static_cast<Signed>(x) >> (8 * sizeof(Bits) - 1));
        return static_cast<Bits>(x ^ static_cast<Bits>(negative >> 1));
    }
    GCOLL_BOTH static Signed nan_low(Bits x) { return static_cast<Signed>(static_cast<Bits>(key(x) + Nans)); }
    GCOLL_BOTH static Signed nan_high(Bits x) {
        return static_cast<Signed>(static_cast<Bits>(key(x) - Nans));
    }
};

template <class Bits, Bits Nans> struct FloatMinimum {
    using Element = Bits;
    using Order = FloatOrder<Bits, Nans>;
    GCOLL_BOTH static Bits apply(Bits x, Bits y) { return Order::nan_low(x) < Order::nan_low(y) ? x : y; }
};

template <class Bits, Bits Nans> struct FloatMaximum {
    using Element = Bits;
    using Order = FloatOrder<Bits, Nans>;
    GCOLL_BOTH static Bits apply(Bits x, Bits y) { return Order::nan_high(x) > Order::nan_high(y) ? x : y; }
};

/* x / n. */

template <class T> struct Quotient { /* integers of up to 32 bits, and int64 */
    using Element = T;
    GCOLL_BOTH static T apply(T x, uint32_t n) {
        return static_cast<T>(static_cast<int64_t>(x) / static_cast<int64_t>(n));
    }
};

template <> struct Quotient<uint64_t> {
    using Element = uint64_t;
    GCOLL_BOTH static uint64_t apply(uint64_t x, uint32_t n) { return x / n; }
};

template <> struct Quotient<float> {
    using Element = float;
    GCOLL_BOTH static float apply(float x, uint32_t n) { return x / static_cast<float>(n); }
};

template <> struct Quotient<double> {
    using Element = double;
    GCOLL_BOTH static double apply(double x, uint32_t n) { return x / n; }
};

template <class Format> struct ShortQuotient {
    using Element = uint16_t;
    GCOLL_BOTH static uint16_t apply(uint16_t x, uint32_t n) {
        return Format::round(Format::widen(x) / static_cast<float>(n));
    }
};

/* Calls visit(Operation()) for op on elements of type. False where there is no such operation. */

template <class Signed, class Unsigned, class Visit>
bool visit_integer_operation(gcoll_op op, const Visit &visit) {
    switch (op) {
    case GCOLL_SUM:
    case GCOLL_AVG:
        return visit(Sum<Unsigned>()), true;
    case GCOLL_PRODUCT:
        return visit(Product<Unsigned>()), true;
    case GCOLL_MIN:
        return visit(Minimum<Signed>()), true;
    case GCOLL_MAX:
        return visit(Maximum<Signed>()), true;
    case GCOLL_BAND:
        return visit(And<Unsigned>()), true;
    case GCOLL_BOR:
        return visit(Or<Unsigned>()), true;
    case GCOLL_BXOR:
        return visit(Xor<Unsigned>()), true;
    default:
        return false;
    }
}

template <class Add, class Multiply, class Bits, Bits Nans, class Visit>
bool visit_float_operation(gcoll_op op, const Visit &visit) {
    switch (op) {
    case GCOLL_SUM:
    case GCOLL_AVG:
        return visit(Add()), true;
    case GCOLL_PRODUCT:
        return visit(Multiply()), true;
    case GCOLL_MIN:
        return visit(FloatMinimum<Bits, Nans>()), true;
    case GCOLL_MAX:
        return visit(FloatMaximum<Bits, Nans>()), true;
    default:
        return false;
    }
}

template <class Visit> bool visit_operation(gcoll_type type, gcoll_op op, const Visit &visit) {
    switch (type) {
    case GCOLL_INT8:
        return visit_integer_operation<int8_t, uint8_t>(op, visit);
    case GCOLL_UINT8:
        return visit_integer_operation<uint8_t, uint8_t>(op, visit);
    case GCOLL_INT32:
        return visit_integer_operation<int32_t, uint32_t>(op, visit);
    case GCOLL_UINT32:
        return visit_integer_operation<uint32_t, uint32_t>(op, visit);
    case GCOLL_INT64:
        return visit_integer_operation<int64_t, uint64_t>(op, visit);
    case GCOLL_UINT64:
        return visit_integer_operation<uint64_t, uint64_t>(op, visit);
    case GCOLL_FLOAT16:
        return visit_float_operation<ShortSum<Float16>, ShortProduct<Float16>, uint16_t, 0x3ff>(op, visit);
    case GCOLL_BFLOAT16:
        return visit_float_operation<ShortSum<Bfloat16>, ShortProduct<Bfloat16>, uint16_t, 0x7f>(op, visit);
    case GCOLL_FLOAT32:
        return visit_float_operation<Sum<float>, Product<float>, uint32_t, 0x7fffff>(op, visit);
    case GCOLL_FLOAT64:
        return visit_float_operation<Sum<double>, Product<double>, uint64_t, 0xfffffffffffff>(op, visit);
    default:
        return false;
    }
}

/* Calls visit(Quotient()) for type. */
template <class Visit> bool visit_quotient(gcoll_type type, const Visit &visit) {
    switch (type) {
    case GCOLL_INT8:
        return visit(Quotient<int8_t>()), true;
    case GCOLL_UINT8:
        return visit(Quotient<uint8_t>()), true;
    case GCOLL_INT32:
        return visit(Quotient<int32_t>()), true;
    case GCOLL_UINT32:
        return visit(Quotient<uint32_t>()), true;
    case GCOLL_INT64:
        return visit(Quotient<int64_t>()), true;
    case GCOLL_UINT64:
        return visit(Quotient<uint64_t>()), true;
    case GCOLL_FLOAT16:
        return visit(ShortQuotient<Float16>()), true;
    case GCOLL_BFLOAT16:
        return visit(ShortQuotient<Bfloat16>()), true;
    case GCOLL_FLOAT32:
        return visit(Quotient<float>()), true;
    case GCOLL_FLOAT64:
        return visit(Quotient<double>()), true;
    default:
        return false;
    }
}

} // namespace gcoll_cuda

#endif
