// Faults of ONNX Runtime that a correct graph meets, and the forms that avoid them: one table, with the release in
// which each was seen.
#pragma once

#include "onnx/builder.hpp"

namespace lithify::onnx {

/// The result of a node in another form; null when the node can stand as it is.
Value* around_fault(Builder& builder, std::string_view op, std::span<Value* const> inputs,
                    const Attributes& attributes);

}  // namespace lithify::onnx
