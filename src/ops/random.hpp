// Random numbers that other families need.
#pragma once

#include <string>

#include "ops/elementwise.hpp"

namespace lithify::ops {

/// kind: "RandomUniform" or "RandomNormal", with the attributes of that operator beside type and shape.
Ref random(Builder& b, const std::string& kind, const Shape& shape, DType t, onnx::Attributes attributes = {});
/// x with elements, or whole features, at 0 with the probability p, and the others scaled by 1 / (1 - p).
Ref dropped(Builder& b, Ref x, double p, bool features);

}  // namespace lithify::ops
