// What no output of the model needs.
#include <algorithm>
#include <unordered_map>

#include "base/pointer_map.hpp"
#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {
namespace {

/// What the model's outputs need: nodes, and of nodes with bodies, which outputs.
class Needed {
 public:
  explicit Needed(Graph& graph) {
    for (Node* n : graph.all_nodes())
      if (n->is("Loop"))
        for (Graph* body : n->bodies())
          for (size_t i = 0; i < body->inputs.size(); ++i) carried_[body->inputs[i]] = {n, i};
    for (Value* v : graph.outputs) need(v);
    while (!work_.empty()) {
      Value* v = work_.back();
      work_.pop_back();
      follow(v);
    }
  }
  bool operator()(const Node* n) const { return nodes_.contains(n); }
  bool operator()(const Value* v) const { return values_.contains(v); }

 private:
  void need(Value* v) {
    if (v && values_.insert(v)) work_.push_back(v);
  }

  void follow(Value* v) {
    if (auto found = carried_.find(v); found != carried_.end()) {
      auto [loop, i] = found->second;
      if (i >= 2) need_carried(*loop, i - 2);
      return;
    }
    Node* n = v->producer;
    if (!n) return;
    bool first = nodes_.insert(n);
    if (n->is("Loop")) {
      if (first) {
        need(n->inputs[0]);
        need(n->inputs[1]);
        need(n->bodies()[0]->outputs[0]);
      }
      if (v->output_index < n->inputs.size() - 2) return need_carried(*n, v->output_index);
      need(n->bodies()[0]->outputs[v->output_index + 1]);
    } else {
      if (first)
        for (Value* input : n->inputs) need(input);
      for (Graph* body : n->bodies()) need(body->outputs[v->output_index]);
    }
  }

  void need_carried(Node& loop, size_t i) {
    Graph& body = *loop.bodies()[0];
    need(loop.inputs[i + 2]);
    need(body.inputs[i + 2]);
    need(body.outputs[i + 1]);
    need(loop.outputs[i]);
  }

  std::unordered_map<const Value*, std::pair<Node*, size_t>> carried_;  // inputs of bodies of loops
  PointerSet<const Node> nodes_;
  PointerSet<const Value> values_;
  Vector<Value*> work_;
};

void remove_outputs(Node& n, const Needed& needed) {
  const bool loop = n.is("Loop");
  const size_t carried = loop ? n.inputs.size() - 2 : 0;
  for (size_t i = n.outputs.size(); i-- > 0;) {
    if (needed(n.outputs[i])) continue;
    auto at = static_cast<std::ptrdiff_t>(i);
    n.outputs.erase(n.outputs.begin() + at);
    for (Graph* body : n.bodies()) body->outputs.erase(body->outputs.begin() + at + loop);
    if (i >= carried) continue;
    n.inputs.erase(n.inputs.begin() + at + 2);
    n.bodies()[0]->inputs.erase(n.bodies()[0]->inputs.begin() + at + 2);
  }
  for (size_t i = 0; i < n.outputs.size(); ++i) n.outputs[i]->output_index = i;
}

}  // namespace

void remove_unused(Graph& graph) {
  const Needed needed(graph);
  for (Graph* g : graph.all_graphs()) {
    std::erase_if(g->nodes, [&](Node* n) { return !needed(n); });
    for (Node* n : g->nodes)
      if (!n->bodies().empty()) remove_outputs(*n, needed);
  }
}

}  // namespace lithify::rewrite
