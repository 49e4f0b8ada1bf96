// The end of building a graph: rewrites that need to know all uses of a value, removal of what nothing uses, names.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "onnx/builder.hpp"
#include "onnx/rewrite.hpp"

namespace lithify::onnx {
namespace {

void remove_unused(Graph& graph) {
  std::unordered_set<const Node*> used;
  std::vector<Node*> work;
  auto need = [&](Value* v) {
    if (v && v->producer && used.insert(v->producer).second) work.push_back(v->producer);
  };
  for (Value* v : graph.outputs) need(v);
  while (!work.empty()) {
    Node* n = work.back();
    work.pop_back();
    for (Value* v : n->inputs) need(v);
  }
  std::erase_if(graph.nodes, [&](Node* n) { return !used.contains(n); });
}

/// Hands out names, each once.
class Names {
 public:
  std::string unique(const std::string& wanted) {
    std::string name = wanted;
    for (int& n = last_[wanted]; !taken_.insert(name).second;) name = fmt::format("{}_{}", wanted, ++n);
    return name;
  }

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> last_;
};

std::string slashed(const std::string& scope) {
  std::string out = "/";
  if (scope.empty()) return out;
  out += scope;
  std::replace(out.begin() + 1, out.end(), '.', '/');
  return out + "/";
}

void assign_names(Graph& graph) {
  Names values, nodes;
  for (Value* v : graph.inputs) v->name = values.unique(v->name);
  for (Value* v : graph.outputs) v->name = values.unique(v->name);
  std::unordered_set<const Value*> outputs(graph.outputs.begin(), graph.outputs.end());
  for (Value* v : graph.initializers())
    if (!v->name.empty()) v->name = values.unique(v->name);
  for (Value* v : graph.initializers())
    if (v->name.empty()) v->name = values.unique(fmt::format("constant_{}", name_of(v->dtype)));
  for (Node* n : graph.nodes) {
    n->name = nodes.unique(slashed(n->scope) + n->op_type);
    for (Value* v : n->outputs)
      if (!outputs.contains(v)) v->name = values.unique(fmt::format("{}_output_{}", n->name, v->output_index));
  }
}

}  // namespace

void Builder::finish(std::span<const std::pair<std::string, Value*>> outputs) {
  std::unordered_set<const Value*> taken;
  for (auto& [name, value] : outputs) {
    Value* v = real(value);
    // An input, a constant or a value that is an output already cannot take another name.
    if (v->kind != Value::Kind::Output || !taken.insert(v).second) v = emit("Identity", {v}, {}, 1, false)[0];
    v->name = name;
    graph_.outputs.push_back(v);
  }
  remove_unused(graph_);
  rewrite(*this);
  remove_unused(graph_);
  assign_names(graph_);
}

}  // namespace lithify::onnx
