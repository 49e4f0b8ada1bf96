// The end of building a graph: rewrites that need to know all uses of a value, removal of what nothing uses, names.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "onnx/builder.hpp"
#include "onnx/rewrite.hpp"

namespace lithify::onnx {
namespace {

bool is_loop(const Node& n) { return n.op_type == "Loop" && n.domain.empty(); }

/// What the model's outputs need: nodes, and of nodes with bodies, which outputs.
class Needed {
 public:
  explicit Needed(Graph& graph) {
    for (Node* n : graph.all_nodes())
      if (is_loop(*n))
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
    if (v && values_.insert(v).second) work_.push_back(v);
  }

  void follow(Value* v) {
    if (auto found = carried_.find(v); found != carried_.end()) {
      auto [loop, i] = found->second;
      if (i >= 2) need_carried(*loop, i - 2);
      return;
    }
    Node* n = v->producer;
    if (!n) return;
    bool first = nodes_.insert(n).second;
    if (is_loop(*n)) {
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
  std::unordered_set<const Node*> nodes_;
  std::unordered_set<const Value*> values_;
  std::vector<Value*> work_;
};

void remove_outputs(Node& n, const Needed& needed) {
  const bool loop = is_loop(n);
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

void remove_unused(Graph& graph) {
  const Needed needed(graph);
  for (Graph* g : graph.all_graphs()) {
    std::erase_if(g->nodes, [&](Node* n) { return !needed(n); });
    for (Node* n : g->nodes)
      if (!n->bodies().empty()) remove_outputs(*n, needed);
  }
}

/// Before opset 11 a Loop carries at least one value.
void carry_one(Builder& b) {
  for (Graph* g : b.graph().all_graphs())
    for (Node* n : g->nodes) {
      if (!is_loop(*n) || n->inputs.size() > 2) continue;
      Graph& body = *n->bodies()[0];
      b.enter(body);
      Value* idle = b.input("idle", DType::Int64, {b.dim(1)});
      b.body_outputs({&idle, 1});
      b.leave();
      std::rotate(body.outputs.begin() + 1, body.outputs.end() - 1, body.outputs.end());
      n->inputs.push_back(b.ints({0}));
      Value* out = g->new_value();
      *out = *idle;
      out->graph = g;
      out->kind = Value::Kind::Output;
      out->producer = n;
      n->outputs.insert(n->outputs.begin(), out);
      for (size_t i = 0; i < n->outputs.size(); ++i) n->outputs[i]->output_index = i;
    }
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
      n->name = nodes_.unique(slashed(n->scope) + n->op_type);
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

void Builder::finish(std::span<const std::pair<std::string, Value*>> outputs) {
  std::unordered_set<const Value*> taken;
  for (auto& [name, value] : outputs) {
    Value* v = real(value);
    // An input, a constant or a value that is an output already cannot take another name.
    const bool renamed = v->kind == Value::Kind::Output && taken.insert(v).second;
    if (!renamed && v->is_sequence() && opset_ < 14) needs_opset("one sequence as two outputs", 14);
    if (!renamed) v = emit("Identity", {v}, {}, 1, false)[0];
    v->name = name;
    graph().outputs.push_back(v);
  }
  remove_unused(graph());
  rewrite(*this);
  remove_unused(graph());
  if (opset_ < 11) carry_one(*this);
  share_weights(*this);
  Naming{graph()};
}

}  // namespace lithify::onnx
