// Dimensions of inputs that a program needs to be equal: of two tensors that are concatenated, or multiplied.
#pragma once

#include <optional>
#include <vector>

#include "driver/evaluate.hpp"

namespace lithify::driver {

/// The first two declared dimensions that have to be equal, and are in the sample. Eager PyTorch fails at other sizes.
std::optional<provenance::Assumed> equal_dimensions(const Evaluated& evaluated);

/// Replaces the diagnostics of fixed sizes of inputs that have to equal a dynamic dimension by ones that name the axis
/// to declare.
void report_fixed_axes(const program::Program& program, const std::vector<TensorInput>& inputs, Evaluated& evaluated);

}  // namespace lithify::driver
