// Tensors of positions: what indexing, gather, scatter and masks share.
#pragma once

#include "ops/register.hpp"

namespace lithify::ops {

/// A 0-d tensor as one of one element; others as they are.
onnx::Value* at_least_1d(onnx::Builder& b, onnx::Value* x);
onnx::Value* as_index(onnx::Builder& b, onnx::Value* x);
/// The elements, if all are known.
std::optional<Vector<int64_t>> known_contents(const onnx::Value* v);

/// Gather. It takes positions of int32 and of int64.
onnx::Value* gathered(onnx::Builder& b, onnx::Value* x, onnx::Value* index, int64_t axis);
/// The first elements of each dimension, as many as `to` has: a source may be larger than its index.
onnx::Value* cut_to(onnx::Builder& b, onnx::Value* x, const Shape& to);

/// The attribute of ScatterND and ScatterElements for "add", "mul", "max" or "min"; none for "", which replaces.
onnx::Attributes scatter_reduction(Call& c, std::string_view name);
/// x with rows of an axis replaced, or reduced with what is there; `positions` is 1-D.
onnx::Value* scatter_rows(Call& c, onnx::Value* x, int64_t axis, onnx::Value* positions, onnx::Value* rows,
                          std::string_view reduce);

}  // namespace lithify::ops
