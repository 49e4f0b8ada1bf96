#include "rewrite/match.hpp"

#include <algorithm>
#include <cmath>

namespace lithify::rewrite {

Uses::Uses(Graph& graph, const Vector<Node*>& nodes) : count_(nodes.size()) {
  for (const Node* n : nodes)
    for (const Value* v : n->inputs)
      if (v) ++count_[v];
  for (const Graph* g : graph.all_graphs())
    for (const Value* v : g->outputs) ++count_[v];
}

int Uses::of(const Value* v) const {
  const int* count = v ? count_.find(v) : nullptr;
  return count ? *count : 0;
}

Node* sole(const Uses& uses, const Value* v, std::string_view op_type) {
  return uses.of(v) == 1 ? made_by(v, op_type) : nullptr;
}

bool is_number(const Value* v, double number) {
  if (!v->constant || v->constant->numel() != 1 || !is_float(v->dtype)) return false;
  return std::abs(v->constant->reals()[0] - number) <= 1e-6 * std::abs(number);
}

Value* beside(const Node* n, double number) {
  if (!n) return nullptr;
  if (is_number(n->inputs[1], number)) return n->inputs[0];
  return is_number(n->inputs[0], number) ? n->inputs[1] : nullptr;
}

Value* beside(const Node* n, const Value* v) {
  if (!n) return nullptr;
  if (n->inputs[0] == v) return n->inputs[1];
  return n->inputs[1] == v ? n->inputs[0] : nullptr;
}

void become(Node& n, std::string_view op_type, Inputs inputs, Attributes attributes) {
  n.op_type = op_type;
  n.inputs = std::move(inputs);
  n.attributes = std::move(attributes);
}

namespace {

void each_node_of(Builder& b, std::string_view op_type, void (*apply)(Builder&, const Uses&, Node&), const Uses& uses) {
  Graph& graph = b.graph();
  Vector<Node*> old = std::move(graph.nodes);
  graph.nodes.clear();
  for (Node* n : old) {
    for (Graph* body : n->bodies()) {
      b.enter(*body);
      each_node_of(b, op_type, apply, uses);
      b.leave();
    }
    if (n->is(op_type)) {
      b.scope = n->scope;
      b.origin = n->origin;
      apply(b, uses, *n);
    }
    graph.nodes.push_back(n);
  }
}

}  // namespace

void each_node(Builder& b, std::string_view op_type, void (*apply)(Builder&, const Uses&, Node&)) {
  const Vector<Node*> nodes = b.graph().all_nodes();
  if (std::ranges::none_of(nodes, [&](const Node* n) { return n->is(op_type); })) return;
  b.forget_nodes();
  each_node_of(b, op_type, apply, Uses(b.graph(), nodes));
}

void replace_uses(Graph& graph, const std::unordered_map<Value*, Value*>& by) {
  if (by.empty()) return;
  for (Node* n : graph.all_nodes())
    for (Value*& v : n->inputs)
      if (auto found = by.find(v); found != by.end()) v = found->second;
}

}  // namespace lithify::rewrite
