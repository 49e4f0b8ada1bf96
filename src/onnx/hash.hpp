// A number that stands for what a graph computes.
#pragma once

#include <cstdint>

#include "onnx/graph.hpp"

namespace lithify::onnx {

/// A hash of the graph's structure: operators, domains, attributes, bodies, which value goes where, and constants.
/// Small constants count by their contents, weights by their memory: storage, offset, sizes and strides. The order of
/// nodes, names, sizes and other facts of values do not count, so graphs of the same program at other sizes have the
/// same hash unless a size is in a constant or an attribute. Valid within one process, as long as the weights stay
/// where they are.
uint64_t structural_hash(const Graph& graph);

}  // namespace lithify::onnx
