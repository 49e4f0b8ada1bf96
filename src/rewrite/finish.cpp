#include "rewrite/finish.hpp"

#include <algorithm>
#include <unordered_set>

#include "onnx/verify.hpp"
#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {
namespace {

void name_outputs(Builder& b, std::span<const std::pair<std::string, Value*>> outputs) {
  std::unordered_set<const Value*> taken;
  for (auto& [name, value] : outputs) {
    Value* v = b.real(value);
    // An input, a constant or a value that is an output already cannot take another name.
    const bool renamed = v->kind == Value::Kind::Output && taken.insert(v).second;
    if (!renamed && v->is_sequence() && b.opset() < 14) b.needs_opset("one sequence as two outputs", 14);
    if (!renamed) v = b.identity(v);
    v->name = name;
    b.graph().outputs.push_back(v);
  }
}

/// Before opset 11 a Loop carries at least one value.
void carry_one(Builder& b) {
  for (Graph* g : b.graph().all_graphs())
    for (Node* n : g->nodes) {
      if (!n->is("Loop") || n->inputs.size() > 2) continue;
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

}  // namespace

void finish(Builder& b, std::span<const std::pair<std::string, Value*>> outputs) {
  const auto check = [&](std::string_view after) {
    if (onnx::verification()) onnx::verify(b.graph(), b.opset(), after);
  };
  name_outputs(b, outputs);
  remove_unused(b.graph());
  check("evaluation");
  for (const Rewrite& rewrite : rewrites()) {
    apply(rewrite, b);
    check(rewrite.name);
  }
  remove_unused(b.graph());
  if (b.opset() < 11) carry_one(b);
  share_weights(b);
  check("share_weights");
  name_all(b.graph());
  if (onnx::verification()) onnx::verify_names(b.graph(), "naming");
}

}  // namespace lithify::rewrite
