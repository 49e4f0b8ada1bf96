#include "onnx/scope.hpp"

#include <algorithm>

namespace lithify::onnx {

SymbolScopes::SymbolScopes(const Graph& graph) { visit(graph, false); }

void SymbolScopes::visit(const Graph& graph, bool repeated) {
  for (const Value* v : graph.inputs) visit(*v, graph, repeated);
  for (const Node* n : graph.nodes) {
    for (const Graph* body : n->bodies()) visit(*body, repeated || !n->is("If"));
    for (const Value* v : n->outputs) visit(*v, graph, repeated);
  }
}

void SymbolScopes::visit(const Value& v, const Graph& graph, bool repeated) {
  for_each_symbol(v, [&](Dim symbol) { homes_.try_emplace(symbol, Home{&graph, repeated}); });
}

bool SymbolScopes::varies(Dim e) const {
  return std::ranges::any_of(sym::symbols(e), [&](Dim symbol) {
    const auto found = homes_.find(symbol);
    return found != homes_.end() && found->second.repeated;
  });
}

const Graph* SymbolScopes::home(Dim symbol) const {
  const auto found = homes_.find(symbol);
  return found == homes_.end() ? nullptr : found->second.graph;
}

}  // namespace lithify::onnx
