// Scaled dot-product attention, as the operators that contain it share it.
#pragma once

#include "ops/register.hpp"

namespace lithify::ops {

struct AttentionMask {
  onnx::Value* value = nullptr;  ///< bool: true takes part; floating: added to the scores; broadcast to them
  bool all_rows = false;         ///< every row has at least one element that takes part
};

struct Attention {
  onnx::Value* output;
  onnx::Value* weights;
};

/// softmax(q k^T * scale, masked) v over the last two dimensions. A row of the mask with nothing that takes part gives
/// zeros, as PyTorch's does. `dropout` is the probability at which a weight is 0.
Attention attend(onnx::Builder& b, onnx::Value* q, onnx::Value* k, onnx::Value* v, AttentionMask mask, double scale,
                 double dropout = 0);

}  // namespace lithify::ops
