// Tree specs: how the flat outputs of a graph make up what the model returns.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "program/program.hpp"

namespace lithify::read {

/// What the model returns, built from its outputs as `spec` (a JSON text) describes it: tuples, lists, and dicts.
/// Classes that name their fields (named tuples, data classes, model outputs) become dicts too: their names are those
/// of the outputs. `namedtuples` has the fields of named tuples, by their type. Outputs that do not fit the spec are a
/// tuple.
program::Expr returned_value(std::string_view spec, const std::optional<Json>& namedtuples,
                             std::vector<program::Expr> outputs);

/// The type of such a value, for readers of the program.
program::Type type_of(const program::Expr& value);

}  // namespace lithify::read
