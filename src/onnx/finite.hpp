#pragma once

#include <limits>

#include "onnx/graph.hpp"

namespace lithify::onnx {

/// Whether a value that is added to others may hold numbers of at least this magnitude, by default infinities: given by
/// the user, or filled in. What is computed otherwise is smaller.
bool may_be_infinite(const Value* v, double from = std::numeric_limits<double>::infinity());

}  // namespace lithify::onnx
