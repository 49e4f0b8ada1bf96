// The last step of an export in memory: a graph as rules have built it becomes the graph that is written.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "onnx/builder.hpp"

namespace lithify::rewrite {

/// Makes `outputs` the graph's outputs under these names (an Identity where a value cannot be renamed), removes nodes
/// that nothing uses, applies the rewrites, and names every value and node. Where verification is on, the graph is
/// verified before the first rewrite, after each, and at the end.
void finish(onnx::Builder& b, std::span<const std::pair<std::string, onnx::Value*>> outputs);

}  // namespace lithify::rewrite
