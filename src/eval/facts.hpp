// What follows for sizes where a condition of the program holds, and where it does not.
#pragma once

#include "onnx/graph.hpp"
#include "sym/given.hpp"

namespace lithify::eval {

/// The facts about sizes that a bool value of the graph states by having this outcome: of comparisons of sizes, and of
/// those that "and", "or" and "not" combine.
sym::Facts facts_of(const onnx::Value& condition, bool outcome);

}  // namespace lithify::eval
