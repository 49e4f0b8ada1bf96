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
  std::unordered_map<Value*, Value*> results;  // the constant that an output of a node is
};

void add_if_foldable(Builder& b, Node* n, Foldable& foldable) {
  if (n->inputs.empty() || !n->bodies().empty() || !n->domain.empty()) return;
  const auto is_known = [&](Value* v) { return !v || v->constant || foldable.results.contains(v); };
  if (!std::ranges::all_of(n->inputs, is_known)) return;
  Node copy = *n;
  for (Value*& v : copy.inputs)
    if (v && !v->constant) v = foldable.results.at(v);
  const Vector<Value*> out = onnx::fold(b, copy, most_elements);
  if (out.empty() || !std::ranges::all_of(out, &Value::is_constant)) return;
  foldable.nodes.insert(n);
  for (size_t i = 0; i < out.size(); ++i) foldable.results[n->outputs[i]] = out[i];
}

/// The constants that a result is made from; of a result of very many, some of them.
std::unordered_set<Value*> sources_of(const Value* result) {
  constexpr size_t most = 4096;
  std::unordered_set<Value*> sources;
  std::unordered_set<const Node*> seen = {result->producer};
  Vector<const Node*> work = {result->producer};
  while (!work.empty() && seen.size() < most) {
    const Node* n = work.back();
    work.pop_back();
    for (Value* v : n->inputs) {
      if (!v) continue;
      if (v->constant)
        sources.insert(v);
      else if (seen.insert(v->producer).second)
        work.push_back(v->producer);
    }
  }
  return sources;
}

int64_t bytes(const Value* v) { return static_cast<int64_t>(v->constant->nbytes()); }

/// The results that other nodes use, and by how much each makes the file larger, the smallest first: its own bytes,
/// less its share of the constants that only results are made from.
Vector<std::pair<int64_t, Value*>> costs_of(const Vector<Node*>& nodes, const Foldable& foldable) {
  std::unordered_set<Value*> kept, results;
  for (const Node* n : nodes)
    for (Value* v : n->inputs) {
      if (!v || foldable.nodes.contains(n)) continue;
      if (v->constant) kept.insert(v);
      if (foldable.results.contains(v)) results.insert(v);
    }
  std::unordered_map<Value*, int64_t> sharers;
  std::unordered_map<const Value*, std::unordered_set<Value*>> sources;
  for (Value* v : results)
    for (Value* c : sources[v] = sources_of(v)) ++sharers[c];
  Vector<std::pair<int64_t, Value*>> costs;
  for (const Node* n : nodes)
    for (Value* v : n->outputs) {
      if (!results.contains(v)) continue;
      int64_t cost = bytes(foldable.results.at(v));
      for (Value* c : sources[v])
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
