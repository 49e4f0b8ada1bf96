// Parts of one tensor, and whether they have elements in common.
#pragma once

#include "onnx/builder.hpp"

namespace lithify::eval {

class Call;

/// A bound of a slice as a position, which may be outside of the axis.
onnx::Dim unclamped_bound(sym::Context& sym, onnx::Dim bound, onnx::Dim size);

/// Whether two different values are parts of one that may have elements in common.
bool may_overlap(onnx::Builder& b, onnx::Value* x, onnx::Value* y);

/// Warns where an argument is a part of the memory of the tensor `target` that overlaps it, and the call writes to the
/// latter: PyTorch leaves open whether such elements are read before they are written.
void warn_of_overlap(Call& c, std::string_view target);

}  // namespace lithify::eval
