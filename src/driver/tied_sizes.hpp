// Dimensions whose names are formulas of other dimensions: "past+sequence".
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "driver/inputs.hpp"
#include "lithify/capture.hpp"
#include "program/program.hpp"

namespace lithify::driver {

/// The formula that a name is, with + - * //, Min, Max and integers, where all names in it are among the dimensions.
/// Nothing for any other name: "seq-len" is one, unless there are the dimensions "seq" and "len".
std::optional<program::Expr> formula_of(const std::string& name, const std::set<std::string>& dimensions);

/// The value of a formula at sizes; nothing where it has none.
std::optional<int64_t> value_of(const program::Expr& formula, const Sizes& sizes);

/// Sets the formulas of those sizes whose names are formulas of dimensions that the inputs have. Returns warnings about
/// names that would be formulas if the inputs had more dimensions.
std::vector<Diagnostic> tie_sizes(std::vector<TensorInput>& inputs);

}  // namespace lithify::driver
