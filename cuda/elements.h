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

/* Short integers would be multiplied as int, and those of 16 bits overflow. */
template <class T> struct Product {
    using Element = T;
    using Factor = typename std::conditional<sizeof(T) < sizeof(unsigned), unsigned, T>::type;
    GCOLL_BOTH static T apply(T x, T y) {
        return static_cast<T>(static_cast<Factor>(x) * static_cast<Factor>(y));
    }
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

template <class T> struct LogicalAnd {
    using Element = T;
    GCOLL_BOTH static T apply(T x, T y) { return static_cast<T>(x != 0 && y != 0); }
};

template <class T> struct LogicalOr {
    using Element = T;
    GCOLL_BOTH static T apply(T x, T y) { return static_cast<T>(x != 0 || y != 0); }
};

template <class T> struct LogicalXor {
    using Element = T;
    GCOLL_BOTH static T apply(T x, T y) { return static_cast<T>((x != 0) != (y != 0)); }
};

template <class Format> struct NarrowSum {
    using Element = typename Format::Element;
    GCOLL_BOTH static Element apply(Element x, Element y) {
        return Format::round(Format::widen(x) + Format::widen(y));
    }
};

template <class Format> struct NarrowProduct {
    using Element = typename Format::Element;
    GCOLL_BOTH static Element apply(Element x, Element y) {
        return Format::round(Format::widen(x) * Format::widen(y));
    }
};

/* Complex numbers. A device's compiler would make one operation of a product and a sum, which gives other
 * bits; these functions keep it from that. */
GCOLL_BOTH inline float times(float x, float y) {
#if defined(__CUDA_ARCH__)
    return __fmul_rn(x, y);
#else
    return x * y;
#endif
}

GCOLL_BOTH inline double times(double x, double y) {
#if defined(__CUDA_ARCH__)
    return __dmul_rn(x, y);
#else
    return x * y;
#endif
}

template <class T> struct alignas(2 * sizeof(T)) Complex { T real, imaginary; };

template <class T> struct ComplexSum {
    using Element = Complex<T>;
    GCOLL_BOTH static Element apply(Element x, Element y) {
        return Element{x.real + y.real, x.imaginary + y.imaginary};
    }
};

template <class T> struct ComplexProduct {
    using Element = Complex<T>;
    GCOLL_BOTH static Element apply(Element x, Element y) {
        return Element{times(x.real, y.real) - times(x.imaginary, y.imaginary),
                       times(x.real, y.imaginary) + times(x.imaginary, y.real)};
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

/* A value and its index, both as bits. Orders give the keys by which values compare. All NaN have one key,
 * beside that of the infinity, as FLOAT_KEYS of gcoll/base/kernel_loops.h explains. */
template <class Bits> struct alignas(2 * sizeof(Bits)) Located { Bits value, index; };

template <class Bits> struct IntegerOrder {
    using Key = typename std::make_signed<Bits>::type;
    GCOLL_BOTH static Key low(Bits x) { return static_cast<Key>(x); }
    GCOLL_BOTH static Key high(Bits x) { return static_cast<Key>(x); }
};

template <class Bits, Bits Nans> struct NumberOrder {
    using Key = typename std::make_signed<Bits>::type;
    using Order = FloatOrder<Bits, Nans>;
    static constexpr Bits least = Bits{1} << (8 * sizeof(Bits) - 1);

    GCOLL_BOTH static Key low(Bits x) {
        const Key key = Order::nan_low(x), nan_key = static_cast<Key>(least + 2 * Nans - 1);
        return key > nan_key ? key : nan_key;
    }
    GCOLL_BOTH static Key high(Bits x) {
        const Key key = Order::nan_high(x), nan_key = static_cast<Key>(least - 1 - 2 * Nans + 1);
        return key < nan_key ? key : nan_key;
    }
};

template <class Bits> GCOLL_BOTH bool has_lower_index(Located<Bits> x, Located<Bits> y) {
    using Signed = typename std::make_signed<Bits>::type;
    return static_cast<Signed>(x.index) <= static_cast<Signed>(y.index);
}

template <class Bits, class Order> struct MinimumLocation {
    using Element = Located<Bits>;
    GCOLL_BOTH static Element apply(Element x, Element y) {
        const auto a = Order::low(x.value), b = Order::low(y.value);
        return a < b || (a == b && has_lower_index(x, y)) ? x : y;
    }
};

template <class Bits, class Order> struct MaximumLocation {
    using Element = Located<Bits>;
    GCOLL_BOTH static Element apply(Element x, Element y) {
        const auto a = Order::high(x.value), b = Order::high(y.value);
        return a > b || (a == b && has_lower_index(x, y)) ? x : y;
    }
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

template <class Format> struct NarrowQuotient {
    using Element = typename Format::Element;
    GCOLL_BOTH static Element apply(Element x, uint32_t n) {
        return Format::round(Format::widen(x) / static_cast<float>(n));
    }
};

template <class T> struct ComplexQuotient {
    using Element = Complex<T>;
    GCOLL_BOTH static Element apply(Element x, uint32_t n) {
        return Element{Quotient<T>::apply(x.real, n), Quotient<T>::apply(x.imaginary, n)};
    }
};

/* Calls visit(Operation()) for op on elements of type. False where there is no such operation. */

template <class T, class Visit> bool visit_logical_operation(gcoll_op op, const Visit &visit) {
    switch (op) {
    case GCOLL_LAND:
        return visit(LogicalAnd<T>()), true;
    case GCOLL_LOR:
        return visit(LogicalOr<T>()), true;
    case GCOLL_LXOR:
        return visit(LogicalXor<T>()), true;
    default:
        return false;
    }
}

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
        return visit_logical_operation<Unsigned>(op, visit);
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

template <class T, class Visit> bool visit_complex_operation(gcoll_op op, const Visit &visit) {
    switch (op) {
    case GCOLL_SUM:
    case GCOLL_AVG:
        return visit(ComplexSum<T>()), true;
    case GCOLL_PRODUCT:
        return visit(ComplexProduct<T>()), true;
    default:
        return false;
    }
}

template <class Bits, class Order, class Visit> bool visit_location(gcoll_op op, const Visit &visit) {
    switch (op) {
    case GCOLL_MINLOC:
        return visit(MinimumLocation<Bits, Order>()), true;
    case GCOLL_MAXLOC:
        return visit(MaximumLocation<Bits, Order>()), true;
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
    case GCOLL_INT16:
        return visit_integer_operation<int16_t, uint16_t>(op, visit);
    case GCOLL_UINT16:
        return visit_integer_operation<uint16_t, uint16_t>(op, visit);
    case GCOLL_INT32:
        return visit_integer_operation<int32_t, uint32_t>(op, visit);
    case GCOLL_UINT32:
        return visit_integer_operation<uint32_t, uint32_t>(op, visit);
    case GCOLL_INT64:
        return visit_integer_operation<int64_t, uint64_t>(op, visit);
    case GCOLL_UINT64:
        return visit_integer_operation<uint64_t, uint64_t>(op, visit);
    case GCOLL_BOOL:
        return visit_logical_operation<uint8_t>(op, visit);
    case GCOLL_FLOAT8_E4M3:
        return visit_float_operation<NarrowSum<E4m3>, NarrowProduct<E4m3>, uint8_t, 0x1>(op, visit);
    case GCOLL_FLOAT8_E5M2:
        return visit_float_operation<NarrowSum<E5m2>, NarrowProduct<E5m2>, uint8_t, 0x3>(op, visit);
    case GCOLL_FLOAT16:
        return visit_float_operation<NarrowSum<Float16>, NarrowProduct<Float16>, uint16_t, 0x3ff>(op, visit);
    case GCOLL_BFLOAT16:
        return visit_float_operation<NarrowSum<Bfloat16>, NarrowProduct<Bfloat16>, uint16_t, 0x7f>(op, visit);
    case GCOLL_FLOAT32:
        return visit_float_operation<Sum<float>, Product<float>, uint32_t, 0x7fffff>(op, visit);
    case GCOLL_FLOAT64:
        return visit_float_operation<Sum<double>, Product<double>, uint64_t, 0xfffffffffffff>(op, visit);
    case GCOLL_COMPLEX64:
        return visit_complex_operation<float>(op, visit);
    case GCOLL_COMPLEX128:
        return visit_complex_operation<double>(op, visit);
    case GCOLL_FLOAT32_INT32:
        return visit_location<uint32_t, NumberOrder<uint32_t, 0x7fffff>>(op, visit);
    case GCOLL_FLOAT64_INT64:
        return visit_location<uint64_t, NumberOrder<uint64_t, 0xfffffffffffff>>(op, visit);
    case GCOLL_INT32_INT32:
        return visit_location<uint32_t, IntegerOrder<uint32_t>>(op, visit);
    case GCOLL_INT64_INT64:
        return visit_location<uint64_t, IntegerOrder<uint64_t>>(op, visit);
    default:
        return false;
    }
}

/* Calls visit(Quotient()) for type. False where it has no average. */
template <class Visit> bool visit_quotient(gcoll_type type, const Visit &visit) {
    switch (type) {
    case GCOLL_INT8:
        return visit(Quotient<int8_t>()), true;
    case GCOLL_UINT8:
        return visit(Quotient<uint8_t>()), true;
    case GCOLL_INT16:
        return visit(Quotient<int16_t>()), true;
    case GCOLL_UINT16:
        return visit(Quotient<uint16_t>()), true;
    case GCOLL_INT32:
        return visit(Quotient<int32_t>()), true;
    case GCOLL_UINT32:
        return visit(Quotient<uint32_t>()), true;
    case GCOLL_INT64:
        return visit(Quotient<int64_t>()), true;
    case GCOLL_UINT64:
        return visit(Quotient<uint64_t>()), true;
    case GCOLL_FLOAT8_E4M3:
        return visit(NarrowQuotient<E4m3>()), true;
    case GCOLL_FLOAT8_E5M2:
        return visit(NarrowQuotient<E5m2>()), true;
    case GCOLL_FLOAT16:
        return visit(NarrowQuotient<Float16>()), true;
    case GCOLL_BFLOAT16:
        return visit(NarrowQuotient<Bfloat16>()), true;
    case GCOLL_FLOAT32:
        return visit(Quotient<float>()), true;
    case GCOLL_FLOAT64:
        return visit(Quotient<double>()), true;
    case GCOLL_COMPLEX64:
        return visit(ComplexQuotient<float>()), true;
    case GCOLL_COMPLEX128:
        return visit(ComplexQuotient<double>()), true;
    default:
        return false;
    }
}

} // namespace gcoll_cuda

#endif
