// Parts of one tensor, and whether they have elements in common.
#pragma once

#include "onnx/builder.hpp"

namespace lithify::eval {

class Call;

/// A bound of a slice as a position, which may be outside of the axis.
onnx::Dim unclamped_bound(sym::Context& sym, onnx::Dim bound, onnx::Dim size);

/// Looks for arguments that are a part of the memory of the tensor `target` that overlaps it, where the call writes to
/// the latter: PyTorch leaves open whether such elements are read before they are written. Warns where it reads them
/// first in practice, and throws UnsupportedMutation elsewhere.
void check_overlap(Call& c, std::string_view target);

}  // namespace lithify::eval
