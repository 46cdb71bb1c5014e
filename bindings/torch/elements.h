// bindings/torch/elements.h - torch's element types and reductions in gcoll's terms.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <gcoll/gcoll.h>

namespace gcoll_torch {

// How elements of a tensor are counted: `each` elements of `type` for one element of the tensor.
struct Elements {
    gcoll_type type;
    uint64_t each;
};

// For operations that only move data. Every dense type can be moved, as bytes if gcoll has no such type.
Elements elements_to_move(at::ScalarType type);

// For operations that reduce.
struct Reduction {
    gcoll_type type;
    gcoll_op op;
};

// Throws TypeError, with what is allowed, if gcoll cannot do this reduction on this type. what: the
// operation, for the text.
Reduction reduction_of(const char *what, at::ScalarType type, const c10d::ReduceOp &op);

// The factor by which PREMUL_SUM multiplies each input before it sums; none for other operations. gcoll
// multiplies by numbers that options.prescale takes. Inputs are multiplied by others, such as 0 and complex
// ones, before gcoll gets them.
struct Factor {
    double prescale = 0;
    at::Tensor tensor; // undefined: nothing is left to do

    // The product in new memory, or `input` itself.
    at::Tensor times(const at::Tensor &input) const;
};

// Throws if the operation has no factor that its type can take.
Factor factor_of_premul(const char *what, const at::Tensor &tensor, const c10d::ReduceOp &op);

} // namespace gcoll_torch
