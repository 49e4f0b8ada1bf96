// The names of values and nodes in the file.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {
namespace {

/// Hands out names, each once.
class Names {
 public:
  std::string unique(const std::string& wanted) {
    const auto [found, is_new] = numbers_.try_emplace(wanted, 0);
    if (is_new) return wanted;
    std::string name;
    int& n = found->second;
    do name = fmt::format("{}_{}", wanted, ++n);
    while (!numbers_.try_emplace(name, 0).second);
    return name;
  }

 private:
  std::unordered_map<std::string, int> numbers_;  // by name, the last that was appended to it for others
};

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

std::string name_of(const Node& n) {
  std::string path = n.scope;
  std::ranges::replace(path, '.', '/');
  return fmt::format("/{}{}{}", path, path.empty() ? "" : "/", n.op_type);
}

void name_all(Graph& graph) { Naming{graph}; }

}  // namespace lithify::rewrite
