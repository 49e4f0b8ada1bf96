#include "onnx/builder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostic.hpp"
#include "base/options.hpp"
#include "onnx/building.hpp"
#include "onnx/complex.hpp"
#include "onnx/faults.hpp"
#include "onnx/float64.hpp"
#include "onnx/fold.hpp"
#include "onnx/kernels.hpp"
#include "onnx/older.hpp"
#include "onnx/opdef.hpp"

namespace lithify::onnx {
namespace {

void append_attribute(std::string& key, const Attribute& a) {
  key += a.name;
  key += '\0';
  std::visit(
      [&](const auto& v) {
        using T = std::remove_cvref_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          key += v;
        } else if constexpr (std::is_same_v<T, Vector<std::string>>) {
          for (const std::string& s : v) (key += s) += '\0';
        } else if constexpr (std::is_arithmetic_v<T>) {
          append_key(key, &v, sizeof(v));
        } else if constexpr (std::is_same_v<T, Vector<int64_t>> || std::is_same_v<T, Vector<float>>) {
          append_key(key, v.data(), v.size() * sizeof(v[0]));
        } else {
          const void* p = v.get();
          append_key(key, &p, sizeof(p));
        }
      },
      a.data);
  key += '\1';
}

/// By which an equal node is found.
std::string key_of(const Node& node) {
  std::string key = node.op_type;
  key += '\0';
  for (const void* v : node.inputs) append_key(key, &v, sizeof(v));
  key += '\2';
  for (const Attribute& a : node.attributes) append_attribute(key, a);
  return key;
}

}  // namespace

Builder::Builder(Graph& graph, sym::Context& context, int opset) : sym(context), opset_(opset) {
  adopt(graph, false);
  stack_.push_back(&blocks_.at(&graph));
  given_.push_back(std::make_unique<sym::Given>(sym, graph.given));
}

// Whether a node can be run where its result may turn out not to be needed: no contents of its inputs make it fail.
bool Builder::never_fails(const Node& n) const {
  static constexpr std::string_view indexing[] = {
      "Gather", "GatherElements", "GatherND",       "Scatter",       "ScatterND",         "ScatterElements",
      "OneHot", "SequenceAt",     "SequenceInsert", "SequenceErase", "ConcatFromSequence"};
  if (n.op_type == "Gather") {
    const Dim size = n.inputs[0]->shape[static_cast<size_t>(n.int_attribute("axis", 0))];
    const int64_t least = size.lower().value_or(0);
    const auto& at = n.inputs[1]->contents;
    return at && std::all_of(at->begin(), at->end(), [&](Dim i) {
             return i.lower().value_or(-least - 1) >= -least && sym.less(i, size) == true;
           });
  }
  if (n.op_type == "Div" || n.op_type == "Mod") return is_float(n.inputs[0]->dtype) || n.inputs[1]->is_constant();
  return std::find(std::begin(indexing), std::end(indexing), n.op_type) == std::end(indexing);
}

Value* Builder::op(std::string_view type, Inputs inputs, Attributes attributes) {
  return op_n(type, std::move(inputs), std::move(attributes), 1)[0];
}

Vector<Value*> Builder::op_n(std::string_view type, Inputs inputs, Attributes attributes, size_t outputs) {
  if (has_complex(inputs)) return {on_complex(*this, type, inputs, attributes)};
  if (outputs == 1)
    if (Value* v = simplified(type, inputs, attributes)) return {v};
  return emit(type, std::move(inputs), std::move(attributes), outputs, true);
}

Vector<Value*> Builder::emit(std::string_view type, Inputs inputs, Attributes attributes, size_t outputs,
                             bool may_fold) {
  const OpDef* def = find_op(type);
  if (!def) throw Error(Code::Internal, fmt::format("ONNX has no operator {}", type));
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();

  if (Value* exact = in_float64(*this, type, inputs, attributes)) return {exact};
  if (Value* other = around_fault(*this, type, inputs, attributes)) return {other};
  if (std::optional<Widening> wide = widening(type, opset_, inputs)) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] && wide->input(i)) inputs[i] = cast(inputs[i], wide->to);
    Vector<Value*> out = emit(type, std::move(inputs), std::move(attributes), outputs, may_fold);
    for (size_t i = 0; i < out.size(); ++i)
      if (wide->output(i)) out[i] = cast(out[i], wide->from);
    return out;
  }

  Node node;
  node.op_type = type;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  Vector<Value> facts(outputs);
  for (Value& f : facts) node.outputs.push_back(&f);
  Inference inference(sym, opset_, node);
  def->infer(inference);
  if (std::ranges::any_of(facts, [](const Value& f) { return is_complex(f.dtype); }))
    throw Error(Code::UnsupportedType, fmt::format("{} cannot make complex numbers", type));
  if (may_fold)
    if (Vector<Value*> folded = fold(*this, node); !folded.empty()) return folded;
  if (Vector<Value*> older = in_older_opset(*this, node); !older.empty()) {
    for (size_t i = 0; i < outputs; ++i)
      if (older[i]->kind == Value::Kind::Output) {
        older[i]->shape = facts[i].shape;
        own_sizes(older[i]);
      }
    return older;
  }
  if (def->since > opset_) needs_opset(type, def->since);
  for (const Value* v : node.inputs)
    if (const int since = v ? first_opset(v->dtype) : 0; since > opset_) needs_opset(name_of(v->dtype), since);
  if (int since = opset_with_type(type, opset_, node.inputs); since > 0)
    needs_opset(fmt::format("{} of {}", type, name_of(node.inputs[0]->dtype)), since);

  for (Value*& v : node.inputs)
    if (v) v = real(v);
  const std::string key = def->pure ? key_of(node) : "";
  if (def->pure)
    if (Vector<Value*> shared = shared_node(key, outputs); !shared.empty()) return shared;
  Block& block = place_of(def->pure && never_fails(node), node.inputs);
  Node* n = append(block, std::move(node), std::move(facts));
  if (def->pure) block.shared_nodes[key] = n;
  return n->outputs;
}

Value* Builder::emit_one(std::string_view type, Inputs inputs, Attributes attributes) {
  return emit(type, std::move(inputs), std::move(attributes), 1, false)[0];
}

Value* Builder::identity(Value* v) { return emit_one("Identity", {v}); }

Vector<Value*> Builder::shared_node(const std::string& key, size_t outputs) const {
  for (auto block = stack_.rbegin(); block != stack_.rend(); ++block) {
    auto found = (*block)->shared_nodes.find(key);
    if (found != (*block)->shared_nodes.end() && found->second->outputs.size() >= outputs)
      return found->second->outputs;
  }
  return {};
}

void Builder::needs_opset(std::string_view what, int since) const {
  throw Error(Code::NeedsOpset,
              fmt::format("ONNX has {} from opset {} on, and the target is opset {}", what, since, opset_),
              fmt::format("export with {} or higher", option("opset", since)));
}

Vector<Value*> Builder::foreign(std::string domain, std::string_view type, const Inputs& inputs, Attributes attributes,
                                const Vector<Fact>& facts) {
  Node node;
  node.domain = std::move(domain);
  node.op_type = type;
  for (Value* v : inputs) node.inputs.push_back(v ? real(v) : nullptr);
  node.attributes = std::move(attributes);
  Vector<Value> outputs(facts.size());
  for (size_t i = 0; i < facts.size(); ++i) {
    outputs[i].dtype = facts[i].dtype;
    outputs[i].shape = facts[i].shape;
    outputs[i].form = facts[i].form;
  }
  return append(*stack_.back(), std::move(node), std::move(outputs))->outputs;
}

Node* Builder::append(Block& block, Node node, Vector<Value> facts) {
  sym.budget.spend(Limit::Nodes, 1);
  Node* n = block.graph->new_node();
  *n = std::move(node);
  n->scope = scope;
  n->origin = origin;
  n->outputs.resize(facts.size());
  for (size_t i = 0; i < facts.size(); ++i) {
    Value* v = block.graph->new_value();
    *v = std::move(facts[i]);
    v->graph = block.graph;
    v->kind = Value::Kind::Output;
    v->producer = n;
    v->output_index = i;
    n->outputs[i] = v;
    own_sizes(v);
  }
  block.graph->nodes.push_back(n);
  return n;
}

void Builder::own_sizes(Value* v) {
  if (v->form != Value::Form::Tensor) return;
  for (size_t axis = 0; axis < v->rank(); ++axis)
    if (Dim size = v->shape[axis]; size.is_symbol() && !source_of(size))
      block_of(v).sources[size] = {v, static_cast<int64_t>(axis)};
}

void Builder::forget_nodes() {
  for (auto& [graph, block] : blocks_) {
    block.shared_nodes.clear();
    block.materialized.clear();
    block.scalars.clear();
  }
}

}  // namespace lithify::onnx
