// A weight that is used in two orders (the embedding that is also the output layer) is written once: the other order is
// a node. Which constants are used is known only when the graph is complete, so this undoes what folding did early.
#include <algorithm>

#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {
namespace {

// Smaller constants are written as they are used.
constexpr size_t worth_sharing = size_t{64} * 1024;

/// The permutation of the first view that gives the second; empty when there is none.
std::optional<Vector<int64_t>> permutation(const TensorView& from, const TensorView& to) {
  if (from.sizes.size() != to.sizes.size()) return std::nullopt;
  Vector<int64_t> perm;
  for (size_t i = 0; i < to.sizes.size(); ++i) {
    size_t j = 0;
    while (j < from.sizes.size() && (from.sizes[j] != to.sizes[i] || from.strides[j] != to.strides[i] ||
                                     std::find(perm.begin(), perm.end(), static_cast<int64_t>(j)) != perm.end()))
      ++j;
    if (j == from.sizes.size()) return std::nullopt;
    perm.push_back(static_cast<int64_t>(j));
  }
  return perm;
}

bool same_elements(const TensorView& a, const TensorView& b) {
  return a.storage == b.storage && a.offset == b.offset && a.dtype == b.dtype && a.numel() == b.numel();
}

/// A node that makes `to` of `from`; false when that would take more than one.
bool derive(Builder& b, Value* from, const Value* to, Node& node) {
  const TensorView &source = *from->constant->view(), &target = *to->constant->view();
  if (const auto perm = permutation(source, target)) {
    node.op_type = "Transpose";
    node.inputs = {from};
    node.attributes = {{"perm", *perm}};
    return true;
  }
  if (!source.contiguous() || !target.contiguous()) return false;
  node.op_type = "Reshape";
  node.inputs = {from, b.ints(target.sizes)};
  return true;
}

}  // namespace

void share_weights(Builder& builder) {
  Graph& graph = builder.graph();
  Vector<Value*> large;
  for (Value* v : graph.initializers())
    if (v->constant->view() && v->constant->nbytes() > worth_sharing) large.push_back(v);
  // The order in which the file has a weight is the one that is kept.
  std::stable_partition(large.begin(), large.end(), [](Value* v) { return v->constant->view()->contiguous(); });

  Vector<Value*> kept;
  Vector<Node*> added;
  std::unordered_map<Value*, Value*> by;
  for (Value* v : large) {
    Node node;
    const auto source = std::find_if(kept.begin(), kept.end(), [&](Value* k) {
      return same_elements(*k->constant->view(), *v->constant->view()) && derive(builder, k, v, node);
    });
    if (source == kept.end()) {
      kept.push_back(v);
      continue;
    }
    Node* n = graph.new_node();
    *n = std::move(node);
    Value* out = graph.new_value();
    out->dtype = v->dtype;
    out->shape = v->shape;
    out->producer = n;
    n->outputs = {out};
    by[v] = out;
    added.push_back(n);
  }
  replace_uses(graph, by);
  graph.nodes.insert(graph.nodes.begin(), added.begin(), added.end());
}

}  // namespace lithify::rewrite
