// Whole numbers that a program computes from sizes by way of floating point, as expressions again.
#pragma once

#include <optional>

#include "onnx/graph.hpp"

namespace lithify::onnx {

/// The number that a value of one integer element has, where the nodes that compute it show it to be an expression of
/// sizes: ceil(height / 2) - 1, floor(width * 0.5). Empty when they do not, or where rounding could make a difference.
std::optional<Dim> whole_number(sym::Context& sym, const Value* v);

}  // namespace lithify::onnx
