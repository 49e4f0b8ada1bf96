// What a condition on sizes says about them.
#pragma once

#include <optional>
#include <vector>

#include "onnx/graph.hpp"
#include "sym/expr.hpp"

namespace lithify::onnx {

/// What holds of sizes where a condition has an outcome: `a == b` of x.size(1) == y.size(1), each of several that are
/// joined by `and`.
sym::Facts facts_of(const Value* condition, bool outcome);

/// The outcome of a condition at the sample's sizes, where they decide it.
std::optional<bool> at_sample(const sym::Context& sym, const Value* condition);

}  // namespace lithify::onnx
