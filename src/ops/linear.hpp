// Products of matrices that several families need.
#pragma once

#include "ops/register.hpp"

namespace lithify::ops {

/// x @ weight^T + bias; bias may be nullptr.
onnx::Value* linear(onnx::Builder& b, onnx::Value* x, onnx::Value* weight, onnx::Value* bias);

}  // namespace lithify::ops
