// bindings/torch/elements.cc - translates torch's element types and reductions to gcoll's, and reduces int16
// by functions of its own.
#include "elements.h"

#include <pybind11/pybind11.h>
#include <torch/version.h>

#include <algorithm>
#include <string>

namespace gcoll_torch {

// ---- Types ---------------------------------------------------------------------------------

static bool gcoll_has_type(at::ScalarType type, gcoll_type *result) {
    switch (type) {
    case at::kChar:
        *result = GCOLL_INT8;
        return true;
    case at::kByte:
    case at::kBool: // a byte that is 0 or 1
        *result = GCOLL_UINT8;
        return true;
    case at::kInt:
        *result = GCOLL_INT32;
        return true;
    case at::kLong:
        *result = GCOLL_INT64;
        return true;
    case at::kHalf:
        *result = GCOLL_FLOAT16;
        return true;
    case at::kBFloat16:
        *result = GCOLL_BFLOAT16;
        return true;
    case at::kFloat:
        *result = GCOLL_FLOAT32;
        return true;
    case at::kDouble:
        *result = GCOLL_FLOAT64;
        return true;
    default:
        return false;
    }
}

Elements elements_to_move(at::ScalarType type) {
    Elements elements = {GCOLL_UINT8, 1};
    if (!gcoll_has_type(type, &elements.type))
        elements.each = c10::elementSize(type);
    return elements;
}

// ---- Reductions of int16 --------------------------------------------------------------------

struct Sum {
    int16_t operator()(int16_t a, int16_t b) const { return (int16_t)((uint16_t)a + (uint16_t)b); }
};
struct Product {
    int16_t operator()(int16_t a, int16_t b) const { return (int16_t)((int32_t)a * b); }
};
struct Min {
    int16_t operator()(int16_t a, int16_t b) const { return std::min(a, b); }
};
struct Max {
    int16_t operator()(int16_t a, int16_t b) const { return std::max(a, b); }
};
struct And {
    int16_t operator()(int16_t a, int16_t b) const { return (int16_t)(a & b); }
};
struct Or {
    int16_t operator()(int16_t a, int16_t b) const { return (int16_t)(a | b); }
};
struct Xor {
    int16_t operator()(int16_t a, int16_t b) const { return (int16_t)(a ^ b); }
};

template <typename Op>
static gcoll_status reduce_int16(void *dst, const void *a, const void *b, uint64_t count, gcoll_type,
                                 void *) {
    const auto *left = static_cast<const int16_t *>(a), *right = static_cast<const int16_t *>(b);
    auto *result = static_cast<int16_t *>(dst);
    for (uint64_t i = 0; i < count; i++)
        result[i] = Op()(left[i], right[i]);
    return GCOLL_OK;
}

template <typename Op> static const gcoll_user_op *int16_op() {
    static const gcoll_user_op op = {reduce_int16<Op>, nullptr, 1, sizeof(int16_t)};
    return &op;
}

static const gcoll_user_op *int16_op_of(c10d::ReduceOp::RedOpType op) {
    switch (op) {
    case c10d::ReduceOp::SUM:
        return int16_op<Sum>();
    case c10d::ReduceOp::PRODUCT:
        return int16_op<Product>();
    case c10d::ReduceOp::MIN:
        return int16_op<Min>();
    case c10d::ReduceOp::MAX:
        return int16_op<Max>();
    case c10d::ReduceOp::BAND:
        return int16_op<And>();
    case c10d::ReduceOp::BOR:
        return int16_op<Or>();
    case c10d::ReduceOp::BXOR:
        return int16_op<Xor>();
    default:
        return nullptr;
    }
}

// ---- Reductions ----------------------------------------------------------------------------

static const char *name_of(c10d::ReduceOp::RedOpType op) {
    static const char *const names[] = {"SUM",  "AVG", "PRODUCT", "MIN",       "MAX",
                                        "BAND", "BOR", "BXOR",    "PREMUL_SUM"};
    return op < sizeof names / sizeof names[0] ? names[op] : "an unknown operation";
}

[[noreturn]] static void refuse(const char *what, at::ScalarType type, c10d::ReduceOp::RedOpType op,
                                const char *allowed) {
    throw pybind11::type_error(std::string("gcoll: ") + what + ": op is " + name_of(op) + " on torch." +
                               c10::toString(type) + "; allowed are " + allowed);
}

// A sum of truth values is "any", a product is "all": their bytes must stay 0 or 1.
static gcoll_op bool_op(const char *what, c10d::ReduceOp::RedOpType op) {
    switch (op) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::MAX:
    case c10d::ReduceOp::BOR:
        return GCOLL_MAX;
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::BAND:
        return GCOLL_MIN;
    case c10d::ReduceOp::BXOR:
        return GCOLL_BXOR;
    default:
        refuse(what, at::kBool, op, "SUM, PRODUCT, MIN, MAX, BAND, BOR, BXOR");
    }
}

static gcoll_op number_op(const char *what, at::ScalarType type, c10d::ReduceOp::RedOpType op) {
    const bool is_integral = c10::isIntegralType(type, false);
    const char *const allowed = is_integral ? "SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR"
                                            : "SUM, AVG, PRODUCT, MIN, MAX, PREMUL_SUM";
    switch (op) {
    case c10d::ReduceOp::SUM:
        return GCOLL_SUM;
    case c10d::ReduceOp::AVG:
        return GCOLL_AVG;
    case c10d::ReduceOp::PRODUCT:
        return GCOLL_PRODUCT;
    case c10d::ReduceOp::MIN:
        return GCOLL_MIN;
    case c10d::ReduceOp::MAX:
        return GCOLL_MAX;
    case c10d::ReduceOp::PREMUL_SUM:
        if (!is_integral)
            return GCOLL_SUM;
        break;
    case c10d::ReduceOp::BAND:
        if (is_integral)
            return GCOLL_BAND;
        break;
    case c10d::ReduceOp::BOR:
        if (is_integral)
            return GCOLL_BOR;
        break;
    case c10d::ReduceOp::BXOR:
        if (is_integral)
            return GCOLL_BXOR;
        break;
    default:
        break;
    }
    refuse(what, type, op, allowed);
}

// A complex number is a pair of reals: sums and averages go part by part, nothing else does.
static Reduction complex_reduction(const char *what, at::ScalarType type, c10d::ReduceOp::RedOpType op) {
    if (op != c10d::ReduceOp::SUM && op != c10d::ReduceOp::AVG && op != c10d::ReduceOp::PREMUL_SUM)
        refuse(what, type, op, "SUM, AVG, PREMUL_SUM");
    Reduction reduction = {GCOLL_FLOAT32, op == c10d::ReduceOp::AVG ? GCOLL_AVG : GCOLL_SUM, 2, nullptr};
    gcoll_has_type(c10::toRealValueType(type), &reduction.type);
    return reduction;
}

Reduction reduction_of(const char *what, at::ScalarType type, const c10d::ReduceOp &reduce_op) {
    const c10d::ReduceOp::RedOpType op = reduce_op.op_;
    if (c10::isComplexType(type))
        return complex_reduction(what, type, op);
    if (type == at::kBool)
        return {GCOLL_UINT8, bool_op(what, op), 1, nullptr};
    if (type == at::kShort) {
        const gcoll_user_op *const user = int16_op_of(op);
        if (!user)
            refuse(what, type, op, "SUM, PRODUCT, MIN, MAX, BAND, BOR, BXOR");
        return {GCOLL_UINT8, GCOLL_USER, 1, user};
    }
    Reduction reduction = {GCOLL_UINT8, GCOLL_SUM, 1, nullptr};
    if (!gcoll_has_type(type, &reduction.type))
        throw pybind11::type_error(std::string("gcoll: ") + what + ": cannot reduce torch." +
                                   c10::toString(type) +
                                   "; allowed are bool, uint8, int8, int16, int32, int64, float16, bfloat16, "
                                   "float32, float64, complex64, complex128");
    reduction.op = number_op(what, type, op);
    return reduction;
}

at::Tensor premultiplied(const char *what, const at::Tensor &tensor, const c10d::ReduceOp &op) {
    if (op.op_ != c10d::ReduceOp::PREMUL_SUM)
        return tensor;
    const auto *const supplement = dynamic_cast<const c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
    if (!supplement)
        throw std::invalid_argument(std::string("gcoll: ") + what + ": op is PREMUL_SUM without a factor");
    at::Tensor factor;
#if TORCH_VERSION_MAJOR >= 2
    factor = supplement->tensor_factor;
#else
    if (!supplement->tensor_factors.empty())
        factor = supplement->tensor_factors[0];
#endif
    if (!factor.defined())
        return tensor * supplement->double_factor;
    if (factor.numel() != 1)
        throw std::invalid_argument(std::string("gcoll: ") + what + ": the factor of PREMUL_SUM has " +
                                    std::to_string(factor.numel()) + " elements; allowed is 1");
    if (factor.is_complex() && !tensor.is_complex())
        throw std::invalid_argument(std::string("gcoll: ") + what +
                                    ": the factor of PREMUL_SUM is complex, and the tensor is not");
    return (tensor * factor.reshape({})).to(tensor.scalar_type());
}

} // namespace gcoll_torch
