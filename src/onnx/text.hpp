// The text form of a graph, for tests and `-v`:
//
//     size n >= 0
//     input x : float32[batch, n]
//     weight fc.weight : float32[64, 10]
//     /Shape_output_0 : int64[2]{batch, n} = Shape(x)
//     h : float32[batch, n, 1] = Reshape<allowzero=1>(x, int64[3]{0, 0, 1})
//     y : float32[batch, n] = If<then_branch={
//     ...
//     }, else_branch={
//     ...
//     }>(condition)
//     output y : float32[batch, n]
//
// A line a node: its outputs with their types, the operator, attributes, inputs (`_` for one that is left out). Small
// constants stand where they are used, with all elements; of a weight, the text has the name and the type. Braces
// behind a type have the elements of an integer tensor where they are known as formulas. A line `size` has the facts of
// a symbol, unless all that is known is that it is at least 1. Values without a name are numbered: %0, %1. Not in the
// text are the names of nodes, their scopes and origins, and the sample's sizes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "onnx/graph.hpp"

namespace lithify::onnx {

/// What `note` gives for a node is at the end of its line, behind a #.
std::string print(const Graph& graph, const std::function<std::string(const Node&)>& note = {});

/// The graph of a text. Its symbols are new ones of `sym`, and the elements of weights are 0. Throws BadProgram with
/// the line where the text is not that of a graph. It does not verify the graph.
std::unique_ptr<Graph> parse(std::string_view text, sym::Context& sym);

}  // namespace lithify::onnx
