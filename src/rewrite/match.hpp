// What rewrites find patterns of nodes with, and how they change a graph.
#pragma once

#include <string_view>
#include <unordered_map>

#include "base/pointer_map.hpp"
#include "onnx/builder.hpp"

namespace lithify::rewrite {

using onnx::Attributes;
using onnx::Builder;
using onnx::Dim;
using onnx::Graph;
using onnx::Inputs;
using onnx::made_by;
using onnx::Node;
using onnx::Shape;
using onnx::Value;

/// The domain of operators that only ONNX Runtime has.
constexpr const char* onnxruntime_domain = "com.microsoft";

/// How often each value is used, by nodes and as an output of a graph.
class Uses {
 public:
  /// `nodes` are those of the graph and its bodies.
  Uses(Graph& graph, const Vector<Node*>& nodes);
  int of(const Value* v) const;

 private:
  PointerMap<const Value, int> count_;
};

/// The node that makes `v` (which may be nullptr), if it is of a type and nothing else uses `v`.
Node* sole(const Uses& uses, const Value* v, std::string_view op_type);

/// Whether a value is a constant of one element, close to a number.
bool is_number(const Value* v, double number);

/// The other operand of a commutative node one of whose operands is this number; nullptr when there is none.
Value* beside(const Node* n, double number);
/// The other operand of a commutative node, beside `v`.
Value* beside(const Node* n, const Value* v);

/// Makes a node another one, whose output has the same facts.
void become(Node& n, std::string_view op_type, Inputs inputs, Attributes attributes = {});

/// Calls a function for each node of an operator of the standard domain, those of bodies too. It may change the node in
/// place, and append nodes, which come before it.
void each_node(Builder& b, std::string_view op_type, void (*apply)(Builder&, const Uses&, Node&));

/// Lets nodes take other values; the outputs of graphs stay.
void replace_uses(Graph& graph, const std::unordered_map<Value*, Value*>& by);

}  // namespace lithify::rewrite
