// Operators of float64 that ONNX Runtime has no kernel for, expressed in operators that it has in float64. What has no
// such form is computed in float32 (kernels.hpp).
#pragma once

#include "onnx/builder.hpp"

namespace lithify::onnx {

/// The result of an elementwise operator on float64; null when the node can stand as it is, or there is no exact form.
Value* in_float64(Builder& builder, std::string_view op, std::span<Value* const> inputs, const Attributes& attributes);

}  // namespace lithify::onnx
