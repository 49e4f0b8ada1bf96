// Normalizations that several families need.
#pragma once

#include "ops/register.hpp"

namespace lithify::ops {

/// Over the last `dims` dimensions; weight and bias may be nullptr.
onnx::Value* layer_norm(onnx::Builder& b, onnx::Value* x, size_t dims, onnx::Value* weight, onnx::Value* bias,
                        double eps);

}  // namespace lithify::ops
