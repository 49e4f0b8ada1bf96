#include "rewrite/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {
namespace {

/// Names are unique in the model, not just in a graph: a body sees the values of the graphs around it.
class Naming {
 public:
  explicit Naming(Graph& graph) {
    for (Value* v : graph.inputs) v->name = values_.unique(v->name);
    for (Value* v : graph.outputs) v->name = values_.unique(v->name);
    for (Value* v : graph.initializers())
      if (!v->name.empty()) v->name = values_.unique(v->name);
    for (Value* v : graph.initializers())
      if (v->name.empty()) v->name = values_.unique(fmt::format("constant_{}", name_of(v->dtype)));
    name_nodes(graph, {graph.outputs.begin(), graph.outputs.end()});
  }

 private:
  void name_nodes(Graph& graph, const std::unordered_set<const Value*>& named) {
    for (Node* n : graph.nodes) {
      n->name = nodes_.unique(name_of(*n));
      for (Graph* body : n->bodies()) {
        for (Value* v : body->inputs) v->name = values_.unique(fmt::format("{}_{}", n->name, v->name));
        name_nodes(*body, {});
      }
      for (Value* v : n->outputs)
        if (!named.contains(v)) v->name = values_.unique(fmt::format("{}_output_{}", n->name, v->output_index));
    }
  }

  Names values_, nodes_;
};

}  // namespace

std::string Names::unique(const std::string& wanted) {
  const auto [found, is_new] = numbers_.try_emplace(wanted, 0);
  if (is_new) return wanted;
  std::string name;
  int& n = found->second;
  do name = fmt::format("{}_{}", wanted, ++n);
  while (!numbers_.try_emplace(name, 0).second);
  return name;
}

std::string name_of(const Node& n) {
  std::string path = n.scope;
  std::ranges::replace(path, '.', '/');
  return fmt::format("/{}{}{}", path, path.empty() ? "" : "/", n.op_type);
}

void name_all(Graph& graph) { Naming{graph}; }

Additions::Additions(Graph& graph) {
  for (const Value* v : graph.initializers()) values_.unique(v->name);
  for (const Graph* g : graph.all_graphs())
    for (const Value* v : g->inputs) values_.unique(v->name);
  for (const Node* n : graph.all_nodes()) {
    nodes_.unique(n->name);
    for (const Value* v : n->outputs)
      if (v) values_.unique(v->name);
  }
}

Node* Additions::node(Graph& in, std::string_view op_type, Inputs inputs, Attributes attributes,
                      const std::string& scope) {
  Node* n = in.new_node();
  n->op_type = op_type;
  n->inputs = std::move(inputs);
  n->attributes = std::move(attributes);
  n->scope = scope;
  n->name = nodes_.unique(name_of(*n));
  return n;
}

Value* Additions::value(Graph& in, const std::string& name, DType dtype, Shape shape) {
  Value* v = in.new_value();
  v->name = values_.unique(name);
  v->dtype = dtype;
  v->shape = std::move(shape);
  return v;
}

Node* Additions::made(Graph& in, std::string_view op_type, Inputs inputs, Attributes attributes,
                      const std::string& scope, DType dtype, Shape shape) {
  Node* n = node(in, op_type, std::move(inputs), std::move(attributes), scope);
  give_output(*n, value(in, n->name + "_output_0", dtype, std::move(shape)));
  return n;
}

void give_output(Node& n, Value* v) {
  v->producer = &n;
  v->output_index = n.outputs.size();
  n.outputs.push_back(v);
}

}  // namespace lithify::rewrite
