// bindings/torch/elements.cc - translates torch's element types and reductions to gcoll's.
#include "elements.h"

#include <pybind11/pybind11.h>
#include <torch/version.h>

#include <cfloat>
#include <cmath>
#include <string>

// torch has 8-bit floats since 2.1.
#define HAS_FLOAT8 (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1))

namespace gcoll_torch {

// ---- Types ---------------------------------------------------------------------------------

static bool gcoll_has_type(at::ScalarType type, gcoll_type *result) {
    switch (type) {
    case at::kChar:
        *result = GCOLL_INT8;
        return true;
    case at::kByte:
        *result = GCOLL_UINT8;
        return true;
    case at::kBool:
        *result = GCOLL_BOOL;
        return true;
    case at::kShort:
        *result = GCOLL_INT16;
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
    case at::kComplexFloat:
        *result = GCOLL_COMPLEX64;
        return true;
    case at::kComplexDouble:
        *result = GCOLL_COMPLEX128;
        return true;
#if HAS_FLOAT8
    case at::kFloat8_e4m3fn:
        *result = GCOLL_FLOAT8_E4M3;
        return true;
    case at::kFloat8_e5m2:
        *result = GCOLL_FLOAT8_E5M2;
        return true;
#endif
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

// A sum of truth values is "any", a product is "all".
static gcoll_op bool_op(const char *what, c10d::ReduceOp::RedOpType op) {
    switch (op) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::MAX:
    case c10d::ReduceOp::BOR:
        return GCOLL_LOR;
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::BAND:
        return GCOLL_LAND;
    case c10d::ReduceOp::BXOR:
        return GCOLL_LXOR;
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

// Complex numbers have no order.
static gcoll_op complex_op(const char *what, at::ScalarType type, c10d::ReduceOp::RedOpType op) {
    switch (op) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::PREMUL_SUM:
        return GCOLL_SUM;
    case c10d::ReduceOp::AVG:
        return GCOLL_AVG;
    case c10d::ReduceOp::PRODUCT:
        return GCOLL_PRODUCT;
    default:
        refuse(what, type, op, "SUM, AVG, PRODUCT, PREMUL_SUM");
    }
}

Reduction reduction_of(const char *what, at::ScalarType type, const c10d::ReduceOp &reduce_op) {
    const c10d::ReduceOp::RedOpType op = reduce_op.op_;
    Reduction reduction = {GCOLL_UINT8, GCOLL_SUM};
    if (!gcoll_has_type(type, &reduction.type))
        throw pybind11::type_error(std::string("gcoll: ") + what + ": cannot reduce torch." +
                                   c10::toString(type) +
                                   "; allowed are bool, uint8, int8, int16, int32, int64, float16, bfloat16, "
                                   "float32, float64, complex64, complex128"
#if HAS_FLOAT8
                                   ", float8_e4m3fn, float8_e5m2"
#endif
        );
    reduction.op = type == at::kBool          ? bool_op(what, op)
                   : c10::isComplexType(type) ? complex_op(what, type, op)
                                              : number_op(what, type, op);
    return reduction;
}

// The factor of PREMUL_SUM as a tensor of one element; undefined: it is the number *number.
static at::Tensor factor_of(const char *what, const at::Tensor &tensor, const c10d::ReduceOp &op,
                            double *number) {
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
    *number = supplement->double_factor;
    if (!factor.defined())
        return factor;
    if (factor.numel() != 1)
        throw std::invalid_argument(std::string("gcoll: ") + what + ": the factor of PREMUL_SUM has " +
                                    std::to_string(factor.numel()) + " elements; allowed is 1");
    if (factor.is_complex() && !tensor.is_complex())
        throw std::invalid_argument(std::string("gcoll: ") + what +
                                    ": the factor of PREMUL_SUM is complex, and the tensor is not");
    return factor.reshape({});
}

// Whether options.prescale takes the number for this type: it knows no 0, and only normal numbers.
static bool is_prescale(at::ScalarType type, double number) {
    const bool is_double = type == at::kDouble || type == at::kComplexDouble;
    const double size = std::fabs(number);
    return size >= (is_double ? DBL_MIN : FLT_MIN) && size <= (is_double ? DBL_MAX : FLT_MAX);
}

Factor factor_of_premul(const char *what, const at::Tensor &tensor, const c10d::ReduceOp &op) {
    Factor result;
    if (op.op_ != c10d::ReduceOp::PREMUL_SUM)
        return result;
    double number = 1;
    const at::Tensor factor = factor_of(what, tensor, op, &number);
    if (factor.defined() && !factor.is_complex())
        number = factor.item<double>();
    if ((!factor.defined() || !factor.is_complex()) && is_prescale(tensor.scalar_type(), number))
        result.prescale = number;
    else
        result.tensor = factor.defined() ? factor : at::scalar_tensor(number, at::kDouble);
    return result;
}

at::Tensor Factor::times(const at::Tensor &input) const {
    return tensor.defined() ? (input * tensor).to(input.scalar_type()) : input;
}

} // namespace gcoll_torch
