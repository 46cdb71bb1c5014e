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

// For operations that reduce. `user` is set if the operation is one of this file.
struct Reduction {
    gcoll_type type;
    gcoll_op op;
    uint64_t each;
    const gcoll_user_op *user;
};

// Throws TypeError, with what is allowed, if gcoll cannot do this reduction on this type. what: the
// operation, for the text.
Reduction reduction_of(const char *what, at::ScalarType type, const c10d::ReduceOp &op);

// PREMUL_SUM multiplies by a factor before it sums. Returns the product in new memory, or `tensor` itself if
// the operation is another.
at::Tensor premultiplied(const char *what, const at::Tensor &tensor, const c10d::ReduceOp &op);

} // namespace gcoll_torch
