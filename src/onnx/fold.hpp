// Evaluates ONNX operators at export on inputs that are known: small constants, and integer tensors whose elements are
// symbolic expressions.
#pragma once

#include "onnx/builder.hpp"

namespace lithify::onnx {

/// The outputs of a node if all it needs is known and the result is small; empty otherwise. `node` has its inputs,
/// attributes and inferred outputs' facts (dtype, shape); the result has one value per output.
///
/// `most` allows constant results of that many elements, where the caller weighs what they cost.
Vector<Value*> fold(Builder& builder, const Node& node, int64_t most = 0);

}  // namespace lithify::onnx
