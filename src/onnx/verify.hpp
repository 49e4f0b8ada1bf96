// The one verifier of an ONNX graph: what rewrites and the writer may rely on.
#pragma once

#include <string_view>

#include "onnx/graph.hpp"

namespace lithify::onnx {

/// Checks a graph and the bodies inside it:
/// - an input of a node is a constant, an input of the graph, or made by a node before it; a body also sees what the
///   graph around it has before the node with the body, and nothing else;
/// - the values of a graph belong to it, and each knows the node that makes it;
/// - the outputs of a graph are distinct values that its own nodes make;
/// - the opset has each operator of the standard domain, and the operator's rule gives each output the type, form and
///   number of dimensions that it has; no size is one that the rule's size can never be;
/// - the outputs of branches agree in the same way with the facts of the If, and so do the values that a Loop carries:
///   before the first iteration, from one to the next, and after the last;
/// - a symbol stands for one number wherever it can be seen: the symbols of a body are neither in the graph around it
///   nor in another body (see SymbolScopes), and no two formulas have the same text.
///
/// Throws an Error with the code Internal that names the node, the rule, and what was done last (`after`).
void verify(const Graph& graph, int opset, std::string_view after);

/// Checks that all values and nodes have names, which differ.
void verify_names(const Graph& graph, std::string_view after);

/// Both, and that the domains of all nodes are declared.
void verify(const Model& model, std::string_view after);

/// Whether graphs are verified as they are made: in builds with the option LITHIFY_VERIFY, and where the environment
/// has LITHIFY_VERIFY=1, as all tests do.
bool verification();

}  // namespace lithify::onnx
