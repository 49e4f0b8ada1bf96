// Folding of constants where all uses are known, and so what a constant costs and saves.
#include <algorithm>
#include <unordered_set>

#include "onnx/fold.hpp"
#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {
namespace {

constexpr int64_t most_elements = int64_t{1} << 20;

/// What can be computed from constants alone.
struct Foldable {
  std::unordered_set<const Node*> nodes;
  std::unordered_map<Value*, Value*> results;                      // the constant that an output of a node is
  std::unordered_map<Value*, std::unordered_set<Value*>> sources;  // the constants that each comes from
};

void add_if_foldable(Builder& b, Node* n, Foldable& foldable) {
  if (n->inputs.empty() || !n->bodies().empty() || !n->domain.empty()) return;
  Node copy = *n;
  std::unordered_set<Value*> from;
  for (Value*& v : copy.inputs) {
    if (!v) continue;
    if (v->constant) {
      from.insert(v);
      continue;
    }
    auto found = foldable.results.find(v);
    if (found == foldable.results.end()) return;
    from.insert(foldable.sources[v].begin(), foldable.sources[v].end());
    v = found->second;
  }
  const Vector<Value*> out = onnx::fold(b, copy, most_elements);
  if (out.empty() || !std::ranges::all_of(out, &Value::is_constant)) return;
  foldable.nodes.insert(n);
  for (size_t i = 0; i < out.size(); ++i) {
    foldable.results[n->outputs[i]] = out[i];
    foldable.sources[n->outputs[i]] = from;
  }
}

int64_t bytes(const Value* v) { return static_cast<int64_t>(v->constant->nbytes()); }

/// The results that other nodes use, and by how much each makes the file larger, the smallest first: its own bytes,
/// less its share of the constants that only results are made from.
Vector<std::pair<int64_t, Value*>> costs_of(const Vector<Node*>& nodes, Foldable& foldable) {
  std::unordered_set<Value*> kept, results;
  for (const Node* n : nodes)
    for (Value* v : n->inputs) {
      if (!v || foldable.nodes.contains(n)) continue;
      if (v->constant) kept.insert(v);
      if (foldable.results.contains(v)) results.insert(v);
    }
  std::unordered_map<Value*, int64_t> sharers;
  for (Value* v : results)
    for (Value* c : foldable.sources[v]) ++sharers[c];
  Vector<std::pair<int64_t, Value*>> costs;
  for (const Node* n : nodes)
    for (Value* v : n->outputs) {
      if (!results.contains(v)) continue;
      int64_t cost = bytes(foldable.results[v]);
      for (Value* c : foldable.sources[v])
        if (!kept.contains(c)) cost -= bytes(c) / sharers[c];
      // A runtime widens a weight when it loads it: the file need not hold it so.
      const bool widened = n->op_type == "Cast" && n->inputs[0]->constant && cost > 1024;
      if (!widened) costs.emplace_back(cost, v);
    }
  std::ranges::stable_sort(costs, {}, &std::pair<int64_t, Value*>::first);
  return costs;
}

}  // namespace

void fold_constants(Builder& b) {
  Graph& graph = b.graph();
  const Vector<Node*> nodes = graph.all_nodes();
  Foldable foldable;
  for (Node* n : nodes) add_if_foldable(b, n, foldable);
  if (foldable.nodes.empty()) return;
  int64_t total = 0;
  for (const Value* v : graph.initializers()) total += bytes(v);
  int64_t budget = std::max(int64_t{64} * 1024, total / 50);
  std::unordered_map<Value*, Value*> by;
  for (auto [cost, v] : costs_of(nodes, foldable)) {
    if (cost > budget) break;
    budget -= std::max<int64_t>(cost, 0);
    by[v] = foldable.results[v];
  }
  replace_uses(graph, by);
}

}  // namespace lithify::rewrite
