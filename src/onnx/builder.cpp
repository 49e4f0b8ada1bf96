#include "onnx/builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "base/diagnostic.hpp"
#include "base/half.hpp"
#include "base/options.hpp"
#include "onnx/complex.hpp"
#include "onnx/fold.hpp"
#include "onnx/kernels.hpp"
#include "onnx/older.hpp"
#include "onnx/opdef.hpp"
#include "onnx/whole.hpp"
#include "sym/contradiction.hpp"

namespace lithify::onnx {
namespace {

// Integer tensors up to this many elements have their contents tracked as expressions.
constexpr int64_t contents_limit = 1024;

template <class T>
void put(std::vector<std::byte>& out, T v) {
  size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &v, sizeof(T));
}

void put_int(std::vector<std::byte>& out, DType t, int64_t v) {
  switch (byte_size(t)) {
    case 1:
      return put(out, static_cast<int8_t>(t == DType::Bool ? v != 0 : v));
    case 2:
      return put(out, static_cast<int16_t>(v));
    case 4:
      return put(out, static_cast<int32_t>(v));
    default:
      return put(out, v);
  }
}

void put_real(std::vector<std::byte>& out, DType t, double v) {
  switch (t) {
    case DType::Float:
      return put(out, static_cast<float>(v));
    case DType::Double:
      return put(out, v);
    case DType::Half:
      return put(out, half_from_float(static_cast<float>(v)));
    case DType::BFloat16:
      return put(out, bfloat16_from_float(static_cast<float>(v)));
    case DType::Bool:
      return put_int(out, t, v != 0);
    default:
      return put_int(out, t, static_cast<int64_t>(v));
  }
}

void append_key(std::string& key, const void* bytes, size_t n) { key.append(static_cast<const char*>(bytes), n); }

void append_key(std::string& key, const Attribute& a) {
  key += a.name;
  key += '\0';
  std::visit(
      [&](const auto& v) {
        using T = std::remove_cvref_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          key += v;
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          for (const std::string& s : v) (key += s) += '\0';
        } else if constexpr (std::is_arithmetic_v<T>) {
          append_key(key, &v, sizeof(v));
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, std::vector<float>>) {
          append_key(key, v.data(), v.size() * sizeof(v[0]));
        } else {
          const void* p = v.get();
          append_key(key, &p, sizeof(p));
        }
      },
      a.data);
  key += '\1';
}

bool all_constant(std::span<const Dim> dims) {
  return std::all_of(dims.begin(), dims.end(), [](Dim d) { return d.is_constant(); });
}

std::vector<int64_t> constants(std::span<const Dim> dims) {
  std::vector<int64_t> out;
  for (Dim d : dims) out.push_back(*d.constant());
  return out;
}

const std::vector<int64_t>* ints_attribute(const Node& n, std::string_view name) {
  const Attribute* a = n.attribute(name);
  return a ? std::get_if<std::vector<int64_t>>(&a->data) : nullptr;
}

bool produced_by(const Value* v, std::string_view op_type) {
  return v->kind == Value::Kind::Output && v->producer->op_type == op_type && v->producer->domain.empty();
}

// Elementwise operators of two or more operands, whose operands are broadcast by the operator itself.
bool broadcasts(std::string_view type) {
  static constexpr std::string_view names[] = {"Add",     "Sub",  "Mul", "Div",   "Pow",         "Equal",
                                               "Greater", "Less", "And", "Or",    "Xor",         "GreaterOrEqual",
                                               "Where",   "Min",  "Max", "PRelu", "LessOrEqual", "Mod"};
  return std::find(std::begin(names), std::end(names), type) != std::end(names);
}

bool is_filled_with(const Value* v, double number) {
  if (!v->constant || v->constant->numel() != 1 || is_complex(v->dtype)) return false;
  return v->constant->reals()[0] == number;
}

bool compares(std::string_view type) {
  return type == "Less" || type == "LessOrEqual" || type == "Greater" || type == "GreaterOrEqual" || type == "Equal";
}

// n + 1 < 5 is n < 4. What is compared with 0 stays: that a size is 0 shows in it.
void compare_with_rest(Builder& b, Inputs& inputs) {
  for (size_t i : {0, 1}) {
    Value *x = inputs[i], *number = inputs[1 - i];
    if (!x->contents || x->contents->size() != 1 || x->dtype != DType::Int64 || x->is_constant()) continue;
    if (!number->contents || number->contents->size() != 1 || number->dtype != DType::Int64) continue;
    const Dim e = x->contents->front(), n = number->contents->front();
    if (!n.is_constant() || n.is(0) || sym::kind(e) != sym::Kind::Polynomial) continue;
    const std::vector<sym::Term> terms = sym::terms(e);
    const auto rest = std::ranges::find_if(terms, [](const sym::Term& t) { return t.atoms.empty(); });
    if (rest == terms.end()) continue;
    const Dim offset = b.dim(rest->coefficient);
    inputs[i] = b.symbolic(DType::Int64, x->shape, {b.sym.sub(e, offset)});
    inputs[1 - i] = b.symbolic(DType::Int64, number->shape, {b.sym.sub(n, offset)});
  }
}

// A bound of the elements of positions and the like: a Range that counts up from a number.
std::optional<int64_t> lowest_element(const Value* v) {
  while (produced_by(v, "Reshape") || produced_by(v, "Unsqueeze")) v = v->producer->inputs[0];
  if (!produced_by(v, "Range")) return std::nullopt;
  const Value *start = v->producer->inputs[0], *step = v->producer->inputs[2];
  bool known = start->contents && start->contents->front().is_constant() && step->contents &&
               step->contents->front().lower().value_or(0) > 0;
  return known ? start->contents->front().constant() : std::nullopt;
}

int64_t axis_of(const Attributes& attributes) {
  for (const Attribute& a : attributes)
    if (a.name == "axis") return std::get<int64_t>(a.data);
  return 0;
}

}  // namespace

Builder::Builder(Graph& graph, sym::Context& context, int opset) : sym(context), opset_(opset) {
  stack_.push_back(&(blocks_[&graph] = {.graph = &graph, .movable = false}));
}

// ---- nodes ------------------------------------------------------------------------------------------------------

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

std::vector<Value*> Builder::op_n(std::string_view type, Inputs inputs, Attributes attributes, size_t outputs) {
  if (has_complex(inputs)) return {on_complex(*this, type, inputs, attributes)};
  if (outputs == 1)
    if (Value* v = simplified(type, inputs, attributes)) return {v};
  return emit(type, std::move(inputs), std::move(attributes), outputs, true);
}

std::vector<Value*> Builder::emit(std::string_view type, Inputs inputs, Attributes attributes, size_t outputs,
                                  bool may_fold) {
  const OpDef* def = find_op(type);
  if (!def) throw Error(Code::Internal, fmt::format("ONNX has no operator {}", type));
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();

  if (std::optional<Widening> wide = widening(type, opset_, inputs)) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] && wide->input(i)) inputs[i] = cast(inputs[i], wide->to);
    std::vector<Value*> out = emit(type, std::move(inputs), std::move(attributes), outputs, may_fold);
    for (size_t i = 0; i < out.size(); ++i)
      if (wide->output(i)) out[i] = cast(out[i], wide->from);
    return out;
  }

  Node node;
  node.op_type = type;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  std::vector<Value> facts(outputs);
  for (Value& f : facts) node.outputs.push_back(&f);
  Inference inference(sym, opset_, node);
  def->infer(inference);
  if (may_fold) {
    std::vector<Value*> folded = fold(*this, node);
    if (!folded.empty()) return folded;
  }
  if (std::vector<Value*> older = in_older_opset(*this, node); !older.empty()) {
    for (size_t i = 0; i < outputs; ++i)
      if (older[i]->kind == Value::Kind::Output) {
        older[i]->shape = facts[i].shape;
        own_sizes(older[i]);
      }
    return older;
  }
  if (def->since > opset_) needs_opset(type, def->since);
  if (int since = opset_with_type(type, opset_, node.inputs); since > 0)
    needs_opset(fmt::format("{} of {}", type, name_of(node.inputs[0]->dtype)), since);

  for (Value*& v : node.inputs)
    if (v) v = real(v);
  std::string key;
  if (def->pure) {
    key = node.op_type;
    key += '\0';
    for (Value* v : node.inputs) append_key(key, &v, sizeof(v));
    key += '\2';
    for (const Attribute& a : node.attributes) append_key(key, a);
    for (auto block = stack_.rbegin(); block != stack_.rend(); ++block) {
      auto found = (*block)->shared_nodes.find(key);
      if (found != (*block)->shared_nodes.end() && found->second.size() >= outputs) return found->second;
    }
  }

  Block& block = place_of(def->pure && never_fails(node), node.inputs);
  Node* n = append(block, std::move(node), std::move(facts));
  if (def->pure) block.shared_nodes[key] = n->outputs;
  return n->outputs;
}

void Builder::needs_opset(std::string_view what, int since) const {
  throw Error(Code::NeedsOpset,
              fmt::format("ONNX has {} from opset {} on, and the target is opset {}", what, since, opset_),
              fmt::format("export with {} or higher", option("opset", since)));
}

std::vector<Value*> Builder::foreign(std::string domain, std::string_view type, Inputs inputs, Attributes attributes,
                                     const std::vector<Fact>& facts) {
  Node node;
  node.domain = std::move(domain);
  node.op_type = type;
  for (Value* v : inputs) node.inputs.push_back(v ? real(v) : nullptr);
  node.attributes = std::move(attributes);
  std::vector<Value> outputs(facts.size());
  for (size_t i = 0; i < facts.size(); ++i) {
    outputs[i].dtype = facts[i].dtype;
    outputs[i].shape = facts[i].shape;
    outputs[i].form = facts[i].form;
  }
  return append(*stack_.back(), std::move(node), std::move(outputs))->outputs;
}

Node* Builder::append(Block& block, Node node, std::vector<Value> facts) {
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

// What does nothing is not emitted.
Value* Builder::simplified(std::string_view type, Inputs& inputs, Attributes& attributes) {
  if (type == "Identity") return inputs[0];
  if (type == "Concat" && inputs.size() == 1) return inputs[0];
  if (type == "Not" && produced_by(inputs[0], "Not")) return inputs[0]->producer->inputs[0];
  if (type == "Where" && produced_by(inputs[0], "Not")) {
    inputs[0] = inputs[0]->producer->inputs[0];
    std::swap(inputs[1], inputs[2]);
  }
  if (type == "And" || type == "Or")
    for (size_t i : {0, 1}) {
      const Value* number = produced_by(inputs[i], "Expand") ? inputs[i]->producer->inputs[0] : inputs[i];
      if (is_filled_with(number, type == "And"))
        return expand(inputs[1 - i], broadcast(inputs[0]->shape, inputs[1]->shape));
    }
  if (type == "GreaterOrEqual" && inputs[1]->constant && inputs[1]->constant->numel() == 1 &&
      !is_float(inputs[1]->dtype))
    if (auto lowest = lowest_element(inputs[0]); lowest && *lowest >= inputs[1]->constant->integers()[0])
      return expand(scalar_int(DType::Bool, 1), broadcast(inputs[0]->shape, inputs[1]->shape));
  // Rows for an expanded index are the rows for the index, expanded.
  if (type == "Gather" && produced_by(inputs[1], "Expand") && axis_of(attributes) == 0) {
    Shape to = inputs[1]->shape;
    to.insert(to.end(), inputs[0]->shape.begin() + 1, inputs[0]->shape.end());
    return expand(op("Gather", {inputs[0], inputs[1]->producer->inputs[0]}, attributes), to);
  }
  if (compares(type)) compare_with_rest(*this, inputs);
  if (broadcasts(type)) {
    // A size among tensors need not be a scalar.
    for (Value*& v : inputs) {
      const bool beside = std::ranges::any_of(inputs, [](const Value* o) { return o && o->rank() > 0; });
      if (!v || v->rank() > 0 || !beside || !produced_by(v, "Cast")) continue;
      Value* number = v->producer->inputs[0];
      if (produced_by(number, "Squeeze") && number->producer->inputs[0]->rank() == 1)
        v = cast(number->producer->inputs[0], v->dtype);
    }
    // An operand that was expanded to what the operator broadcasts it to anyway need not be expanded.
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i] || !produced_by(inputs[i], "Expand")) continue;
      Shape others, with;
      for (size_t j = 0; j < inputs.size(); ++j)
        if (inputs[j]) {
          with = broadcast(with, inputs[j]->shape);
          others = broadcast(others, j == i ? inputs[i]->producer->inputs[0]->shape : inputs[j]->shape);
        }
      if (others == with) inputs[i] = inputs[i]->producer->inputs[0];
    }
  }
  bool add = type == "Add", sub = type == "Sub", mul = type == "Mul", div = type == "Div";
  if ((add || sub || mul || div) && inputs[0]->dtype == inputs[1]->dtype) {
    double neutral = add || sub ? 0 : 1;
    auto keeps = [&](Value* x, Value* c) {
      return is_filled_with(c, neutral) && c->rank() <= x->rank() && broadcast(x->shape, c->shape) == x->shape;
    };
    if (keeps(inputs[0], inputs[1])) return inputs[0];
    if ((add || mul) && keeps(inputs[1], inputs[0])) return inputs[1];
  }
  return nullptr;
}

// ---- inputs and constants ---------------------------------------------------------------------------------------

namespace {

/// From which on ONNX has the type.
int first_opset(DType t) {
  if (t == DType::BFloat16) return 13;
  return t >= DType::Float8E4M3FN && t <= DType::Float8E5M2FNUZ ? 19 : 1;
}

}  // namespace

Value* Builder::input(std::string name, DType dtype, Shape shape, Value::Form form) {
  if (is_complex(dtype)) {
    shape.push_back(dim(2));
    return from_pairs(input(std::move(name), part_type(dtype), std::move(shape)));
  }
  if (const int since = first_opset(dtype); opset_ < since) needs_opset(name_of(dtype), since);
  Value* v = graph().new_value();
  v->kind = Value::Kind::Input;
  v->name = std::move(name);
  v->dtype = dtype;
  v->shape = std::move(shape);
  v->form = form;
  for (size_t i = 0; i < v->shape.size() && form == Value::Form::Tensor; ++i)
    if (v->shape[i].is_symbol() && !source_of(v->shape[i]))
      stack_.back()->sources[v->shape[i]] = {v, static_cast<int64_t>(i)};
  graph().inputs.push_back(v);
  return v;
}

Value* Builder::new_constant(std::shared_ptr<const Tensor> tensor, std::string_view name) {
  Value* v = stack_.front()->graph->new_value();
  v->kind = Value::Kind::Constant;
  v->name = name;
  v->dtype = tensor->dtype;
  for (int64_t s : tensor->sizes) v->shape.push_back(sym.constant(s));
  if ((is_integer(v->dtype) || v->dtype == DType::Bool) && tensor->numel() <= contents_limit) {
    std::vector<Dim> contents;
    for (int64_t e : tensor->integers()) contents.push_back(sym.constant(e));
    v->contents = std::move(contents);
  }
  v->constant = std::move(tensor);
  return v;
}

Value* Builder::weight(const TensorView& view, std::string_view name) {
  if (is_complex(view.dtype)) return from_pairs(weight(pairs_of(view), name));
  std::string key = "weight";
  const void* storage = view.storage.get();
  append_key(key, &storage, sizeof(storage));
  append_key(key, &view.offset, sizeof(view.offset));
  key += static_cast<char>(view.dtype);
  append_key(key, view.sizes.data(), view.sizes.size() * sizeof(int64_t));
  append_key(key, view.strides.data(), view.strides.size() * sizeof(int64_t));
  std::vector<Value*>& shared = shared_constants_[key];
  if (shared.empty()) shared.push_back(new_constant(std::make_shared<Tensor>(view), name));
  return shared[0];
}

Value* Builder::constant(Tensor tensor, std::string_view name) {
  if (const TensorView* view = tensor.view(); view && is_complex(view->dtype))
    return from_pairs(constant(pairs_of(*view), name));
  if (const TensorView* view = tensor.view(); view && !name.empty()) return weight(*view, name);
  if (!tensor.view() || tensor.nbytes() > 4096) return new_constant(std::make_shared<Tensor>(std::move(tensor)), name);
  // Small constants are shared by their contents.
  std::vector<std::byte> bytes = tensor.view()->dense_bytes();
  std::string key = "constant";
  key += static_cast<char>(tensor.dtype);
  append_key(key, tensor.sizes.data(), tensor.sizes.size() * sizeof(int64_t));
  key += '\2';
  append_key(key, bytes.data(), bytes.size());
  std::vector<Value*>& shared = shared_constants_[key];
  if (shared.empty()) shared.push_back(new_constant(std::make_shared<Tensor>(std::move(tensor)), name));
  return shared[0];
}

Value* Builder::scalar(DType dtype, double v) {
  if (is_complex(dtype)) return complex(scalar(part_type(dtype), v), nullptr);
  std::vector<std::byte> bytes;
  put_real(bytes, dtype, v);
  return constant(TensorView::dense(dtype, {}, std::move(bytes)));
}

Value* Builder::scalar_int(DType dtype, int64_t v) {
  if (is_complex(dtype)) return complex(scalar_int(part_type(dtype), v), nullptr);
  std::vector<std::byte> bytes;
  if (is_float(dtype)) {
    put_real(bytes, dtype, static_cast<double>(v));
  } else {
    put_int(bytes, dtype, v);
  }
  return constant(TensorView::dense(dtype, {}, std::move(bytes)));
}

Value* Builder::ints(std::span<const int64_t> v) {
  std::vector<std::byte> bytes(v.size_bytes());
  if (!v.empty()) std::memcpy(bytes.data(), v.data(), v.size_bytes());
  return constant(TensorView::dense(DType::Int64, {static_cast<int64_t>(v.size())}, std::move(bytes)));
}

Value* Builder::floats(std::span<const float> v) {
  std::vector<std::byte> bytes(v.size_bytes());
  if (!v.empty()) std::memcpy(bytes.data(), v.data(), v.size_bytes());
  return constant(TensorView::dense(DType::Float, {static_cast<int64_t>(v.size())}, std::move(bytes)));
}

Value* Builder::reals(DType dtype, std::vector<int64_t> sizes, std::span<const double> v) {
  if (is_complex(dtype)) return complex(reals(part_type(dtype), std::move(sizes), v), nullptr);
  std::vector<std::byte> bytes;
  for (double each : v) put_real(bytes, dtype, each);
  return constant(TensorView::dense(dtype, std::move(sizes), std::move(bytes)));
}

Value* Builder::symbolic(Dim e) { return symbolic(DType::Int64, {}, {e}); }

Value* Builder::symbolic(std::span<const Dim> e) {
  return symbolic(DType::Int64, {sym.constant(static_cast<int64_t>(e.size()))}, {e.begin(), e.end()});
}

Value* Builder::symbolic(DType dtype, Shape shape, std::vector<Dim> contents) {
  if (all_constant(contents) && all_constant(shape)) {
    std::vector<std::byte> bytes;
    for (Dim d : contents) put_int(bytes, dtype, *d.constant());
    return constant(TensorView::dense(dtype, constants(shape), std::move(bytes)));
  }
  Value* v = graph().new_value();
  v->kind = Value::Kind::Symbolic;
  v->dtype = dtype;
  v->shape = std::move(shape);
  v->contents = std::move(contents);
  return v;
}

Value* Builder::full(const Shape& shape, Value* scalar) { return expand(scalar, shape); }

Dim Builder::symbol_of(Value* v, std::string_view name, std::optional<int64_t> lower) {
  v = cast(v, DType::Int64);
  if (std::optional<Dim> known = whole_number(sym, v)) return *known;
  Dim s = sym.symbol({.name = std::string(name), .lower = lower, .upper = {}, .sample = {}, .divisor = 1});
  bind(s, v);
  return s;
}

// ---- sizes as values ----------------------------------------------------------------------------------------------

Value* Builder::real(Value* v) {
  if (v->kind != Value::Kind::Symbolic) return v;
  if (v->rank() == 0 && v->dtype == DType::Int64)
    if (const Source* source = source_of(v->contents->front());
        source && source->axis < 0 && source->value->rank() == 0)
      return source->value;
  Value* out =
      v->rank() == 0 ? arithmetic(v->contents->front(), of_scalars(v->contents->front())) : materialize(*v->contents);
  if (out->rank() != v->rank()) {
    Shape shape = v->shape;
    if (shape.empty()) {
      out = emit_axes("Squeeze", out, {0});
    } else {
      out = emit("Reshape", {out, symbolic(shape)}, {}, 1, false)[0];
    }
    out->shape = shape;
  }
  if (v->dtype != DType::Int64) out = emit("Cast", {out}, {{"to", static_cast<int64_t>(v->dtype)}}, 1, false)[0];
  out->contents = v->contents;
  return out;
}

Value* Builder::materialize(std::span<const Dim> dims) {
  if (all_constant(dims)) return ints(constants(dims));
  Inputs parts;
  for (size_t i = 0; i < dims.size();) {
    size_t end = i + 1;
    if (auto [value, axis, length] = longest_run(dims.subspan(i)); length > 0) {
      end = i + length;
      parts.push_back(sizes_of(value, axis, axis + static_cast<int64_t>(length)));
    } else if (dims[i].is_constant()) {
      while (end < dims.size() && dims[end].is_constant() && longest_run(dims.subspan(end)).length == 0) ++end;
      parts.push_back(ints(constants(dims.subspan(i, end - i))));
    } else {
      parts.push_back(materialize(dims[i]));
    }
    i = end;
  }
  Value* out = parts.size() == 1 ? parts[0] : emit("Concat", parts, {{"axis", int64_t{0}}}, 1, false)[0];
  out->contents = std::vector<Dim>(dims.begin(), dims.end());
  return out;
}

// The first sizes, as many as possible, that lie side by side in the shape of an input: one Shape gives them all.
Builder::Run Builder::longest_run(std::span<const Dim> dims) const {
  Run best{nullptr, 0, 0};
  auto consider = [&](Value* value, size_t axis) {
    size_t n = 0;
    bool dynamic = false;
    for (; n < dims.size() && axis + n < value->rank() && value->shape[axis + n] == dims[n]; ++n)
      dynamic = dynamic || !dims[n].is_constant();
    if (dynamic && n > best.length) best = {value, static_cast<int64_t>(axis), n};
  };
  if (const Source* own = source_of(dims[0]); own && own->axis >= 0)
    consider(own->value, static_cast<size_t>(own->axis));
  for (const Block* block : stack_)
    for (Value* input : block->graph->inputs)
      for (size_t axis = 0; axis < input->rank(); ++axis) consider(input, axis);
  return best;
}

// Sizes [begin, end) of an input as a 1-D value.
Value* Builder::sizes_of(Value* value, int64_t begin, int64_t end) {
  int64_t rank = static_cast<int64_t>(value->rank());
  Attributes range;
  bool whole = begin == 0 && end == rank;
  if (opset_ >= 15 && !whole) {
    if (begin != 0) range.push_back({"start", begin});
    if (end != rank) range.push_back({"end", end});
  }
  Value* out = emit("Shape", {value}, range, 1, false)[0];
  using Numbers = std::vector<int64_t>;
  if (opset_ < 10 && !whole) {
    Attributes part{{"axes", Numbers{0}}, {"ends", Numbers{end}}, {"starts", Numbers{begin}}};
    out = emit("Slice", {out}, part, 1, false)[0];
  } else if (opset_ < 15 && !whole) {
    out = emit("Slice", {out, ints({begin}), ints({end}), ints({0})}, {}, 1, false)[0];
  }
  out->shape = {sym.constant(end - begin)};
  out->contents = std::vector<Dim>(value->shape.begin() + begin, value->shape.begin() + end);
  return out;
}

Value* Builder::materialize(Dim e) {
  Value* out = arithmetic(e, false);
  if (out->rank() == 1) return out;
  out = emit("Reshape", {out, ints({1})}, {}, 1, false)[0];
  out->contents = std::vector<Dim>{e};
  return out;
}

bool Builder::of_scalars(Dim e) const {
  return std::ranges::all_of(sym::symbols(e), [&](Dim symbol) {
    const Source* source = source_of(symbol);
    return source && source->axis < 0 && source->value->rank() == 0;
  });
}

// Scalars take part in arithmetic on sizes as they are, by broadcasting.
Value* Builder::arithmetic(Dim e, bool scalar) {
  auto number = [&](int64_t n) { return scalar ? scalar_int(DType::Int64, n) : ints({n}); };
  if (e.is_constant()) return number(*e.constant());
  auto known = [scalar](Block & block) -> auto& { return scalar ? block.scalars : block.materialized; };
  for (Block* block : stack_)
    if (auto found = known(*block).find(e); found != known(*block).end()) return found->second;
  auto raw = [&](std::string_view type, Inputs in) { return emit(type, std::move(in), {}, 1, false)[0]; };
  Value* out = nullptr;
  switch (sym::kind(e)) {
    case sym::Kind::Symbol: {
      const Source* source = source_of(e);
      if (!source)
        throw Error(Code::UnsupportedArgument, fmt::format("the size {} is not known before run time here", e.str()));
      auto [value, axis] = *source;
      if (axis >= 0) {
        out = sizes_of(value, axis, axis + 1);
      } else {
        out = value->rank() <= 1 ? value : emit("Reshape", {value, ints({1})}, {}, 1, false)[0];
      }
      break;
    }
    case sym::Kind::Polynomial: {
      // Begun with a positive term, a sum needs no factor of -1.
      std::vector<sym::Term> sum = sym::terms(e);
      std::stable_partition(sum.begin(), sum.end(), [](const sym::Term& t) { return t.coefficient > 0; });
      for (const sym::Term& term : sum) {
        bool negated = out && term.coefficient < 0;
        int64_t coefficient = negated ? -term.coefficient : term.coefficient;
        Value* product = nullptr;
        for (Dim atom : term.atoms) {
          Value* factor = arithmetic(atom, scalar);
          product = product ? raw("Mul", {product, factor}) : factor;
        }
        if (!product) {
          product = number(coefficient);
        } else if (coefficient != 1) {
          product = raw("Mul", {product, number(coefficient)});
        }
        out = out ? raw(negated ? "Sub" : "Add", {out, product}) : product;
      }
      break;
    }
    default: {
      auto [a, b] = sym::operands(e);
      Value *x = arithmetic(a, scalar), *y = arithmetic(b, scalar);
      auto not_negative = [](Dim d) { return d.lower().value_or(-1) >= 0; };
      // The remainder has the sign of the divisor.
      auto modulo = [&] {
        if (opset_ >= 10) return raw("Mod", {x, y});
        Value* rest = raw("Sub", {x, raw("Mul", {raw("Div", {x, y}), y})});
        if (not_negative(a) && not_negative(b)) return rest;
        Value *zero = number(0), *some = raw("Not", {raw("Equal", {rest, zero})});
        Value* across = raw("Xor", {raw("Less", {rest, zero}), raw("Less", {y, zero})});
        return raw("Where", {raw("And", {some, across}), raw("Add", {rest, y}), rest});
      };
      switch (sym::kind(e)) {
        case sym::Kind::FloorDiv:
          // ONNX divides toward zero: for operands of unknown sign the remainder is taken off first.
          if (!not_negative(a) || !not_negative(b)) x = raw("Sub", {x, modulo()});
          out = raw("Div", {x, y});
          break;
        case sym::Kind::Mod:
          out = modulo();
          break;
        case sym::Kind::Min:
        case sym::Kind::Max:
        case sym::Kind::Broadcast: {
          bool min = sym::kind(e) == sym::Kind::Min;
          // Integer Min and Max came with opset 12.
          out = opset_ >= 12 ? raw(min ? "Min" : "Max", {x, y})
                             : raw("Where", {raw("Less", min ? Inputs{x, y} : Inputs{y, x}), x, y});
          break;
        }
        default:
          throw Error(Code::Internal, "an expression of unknown kind");
      }
    }
  }
  out->contents = std::vector<Dim>{e};
  known(block_of(out))[e] = out;
  return out;
}

bool Builder::is_visible(const Value* v) const {
  return std::ranges::any_of(stack_, [&](const Block* block) { return block->graph == v->graph; });
}

Value* Builder::lifted(Value* v) {
  if (is_visible(v)) return v;
  if (v->contents && std::ranges::all_of(*v->contents, [&](Dim e) { return computable(e); }))
    return symbolic(v->dtype, v->shape, *v->contents);
  static const std::set<std::string_view> total{
      "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal",   "Not",      "And", "Or",
      "Add",  "Sub",         "Mul",     "Cast",           "Squeeze", "Unsqueeze"};
  if (!v->producer || !total.contains(v->producer->op_type) || !numel(v->shape).is(1)) return nullptr;
  Inputs inputs;
  for (Value* in : v->producer->inputs) {
    inputs.push_back(lifted(in));
    if (!inputs.back()) return nullptr;
  }
  return emit(v->producer->op_type, std::move(inputs), v->producer->attributes, 1, true)[0];
}

// ---- helpers ------------------------------------------------------------------------------------------------------

Value* Builder::cast(Value* x, DType to) {
  if (x->dtype == to) return x;
  if (is_complex(x->dtype) || is_complex(to)) return cast_complex(*this, x, to);
  if (static_cast<int>(to) >= 64 || to == DType::Undefined)
    throw Error(Code::UnsupportedType, fmt::format("ONNX has no type {}", name_of(to)));
  if (const int since = first_opset(to); opset_ < since) needs_opset(name_of(to), since);
  return op("Cast", {x}, {{"to", static_cast<int64_t>(to)}});
}

namespace {

/// The products of leading sizes, with their values in the sample.
std::vector<std::pair<Dim, std::optional<int64_t>>> leading_products(sym::Context& sym, const Shape& shape) {
  std::vector<std::pair<Dim, std::optional<int64_t>>> out;
  Dim product = sym.constant(1);
  for (Dim d : shape) {
    product = sym.mul(product, d);
    out.emplace_back(product, sym.sample(product));
  }
  return out;
}

/// Between two dimensions: the elements of those before and behind it, and how many are before it in the sample.
struct Boundary {
  Dim before, behind;
  std::optional<int64_t> sample;
};

std::vector<Boundary> boundaries(sym::Context& sym, const Shape& shape) {
  std::vector<Boundary> out;
  Dim behind = sym.constant(1);
  for (const auto& [before, sample] : leading_products(sym, shape)) out.push_back({before, {}, sample});
  for (size_t i = shape.size(); i-- > 0;) {
    out[i].behind = behind;
    behind = sym.mul(behind, shape[i]);
  }
  return out;
}

/// Dimensions that stay in their place in the sample are compared by themselves: the elements of the first group of
/// them whose numbers do not agree.
std::optional<sym::Conflict> first_difference(sym::Context& sym, const Shape& from, const Shape& to) {
  const auto old = leading_products(sym, from), now = leading_products(sym, to);
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    const size_t begin_i = i++, begin_j = j++;
    while (old[i - 1].second != now[j - 1].second) {
      if (!old[i - 1].second || !now[j - 1].second) return std::nullopt;
      if (*old[i - 1].second < *now[j - 1].second) {
        if (i == from.size()) return std::nullopt;
        ++i;
      } else {
        if (j == to.size()) return std::nullopt;
        ++j;
      }
    }
    if (j == to.size()) i = from.size();
    if (i == from.size()) j = to.size();
    const Dim a = sym.product(std::span(from).subspan(begin_i, i - begin_i));
    const Dim b = sym.product(std::span(to).subspan(begin_j, j - begin_j));
    if (sym.equal(a, b) != true && !equal_beyond_sample(sym, a, b)) return sym::Conflict{a, b, begin_j};
  }
  return std::nullopt;
}

}  // namespace

Value* Builder::reshape(Value* x, const Shape& to) {
  if (x->shape == to) return x;
  if (is_complex(x->dtype)) return on_pairs(*this, x, to, &Builder::reshape);
  if (x->kind == Value::Kind::Symbolic) return symbolic(x->dtype, to, *x->contents);
  Dim have = numel(x->shape), want = numel(to);
  if (have != want) {
    // One size may be the quotient that -1 stands for; then the division is exact whenever the program runs at all.
    bool quotient = false;
    for (size_t i = 0; i < to.size() && !quotient; ++i) {
      Shape rest = to;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      Dim others = numel(rest);
      quotient = !to[i].is_constant() && others.lower().value_or(0) > 0 && sym.floor_div(have, others) == to[i];
      if (quotient && !sym.divide_exactly(have, others)) sym.assume({sym::Assumption::Kind::Multiple, have, others});
    }
    // Tracing drops sizes of 1 before a value that is put somewhere, also one that is 1 for the sample's data only.
    const std::optional<Dim> dropped = want.lower().value_or(0) > 0 ? sym.divide_exactly(have, want) : std::nullopt;
    const bool by_data = dropped && depends_on_data(sym, *dropped);
    if (!quotient && (by_data || !sizes_agree(sym, have, want))) {
      sym::Conflict conflict = first_difference(sym, x->shape, to).value_or(sym::Conflict{have, want});
      conflict.among = x->shape;
      conflict.among.insert(conflict.among.end(), to.begin(), to.end());
      sym::disagree(
          have.is_constant() && want.is_constant(), std::move(conflict),
          fmt::format("{} elements of {} do not fit into {}", have.str(), print_shape(x->shape), print_shape(to)));
    }
  }
  if (sym.observer) report_boundaries(x->shape, to);
  // A reshape of a reshape needs only the second.
  if (produced_by(x, "Reshape") || produced_by(x, "Squeeze") || produced_by(x, "Unsqueeze") ||
      produced_by(x, "Flatten")) {
    Value* before = x->producer->inputs[0];
    if (before->shape == to) return before;
    if (!needs_arithmetic(before->shape, to) || needs_arithmetic(x->shape, to)) x = before;
  }
  if (needs_arithmetic(x->shape, to)) {
    // Only sizes of 1 come or go: no sizes need to be computed.
    std::vector<int64_t> added, removed;
    size_t i = 0;
    for (size_t j = 0; j < to.size(); ++j) {
      if (i < x->rank() && x->shape[i] == to[j]) {
        ++i;
      } else if (to[j].is(1)) {
        added.push_back(static_cast<int64_t>(j));
      } else {
        added.clear();
        break;
      }
    }
    if (!added.empty() && i == x->rank()) return emit_axes("Unsqueeze", x, added);
    size_t j = 0;
    for (i = 0; i < x->rank(); ++i) {
      if (j < to.size() && x->shape[i] == to[j]) {
        ++j;
      } else if (x->shape[i].is(1)) {
        removed.push_back(static_cast<int64_t>(i));
      } else {
        removed.clear();
        break;
      }
    }
    if (!removed.empty() && j == to.size()) return emit_axes("Squeeze", x, removed);
  }
  Attributes attributes;
  Value* target = symbolic(reshape_target(x->shape, to, attributes));
  Value* out = emit("Reshape", {x, target}, attributes, 1, true)[0];
  if (out->kind == Value::Kind::Output) out->shape = to;
  return out;
}

void Builder::report_boundaries(const Shape& from, const Shape& to) {
  const std::vector<Boundary> old = boundaries(sym, from), now = boundaries(sym, to);
  auto same = [&](const Boundary& a, const Boundary& b) {
    return a.sample == b.sample &&
           (equal_beyond_sample(sym, a.before, b.before) || equal_beyond_sample(sym, a.behind, b.behind));
  };
  auto none = [&](const std::vector<Boundary>& all, const Boundary& b) {
    return std::none_of(all.begin(), all.end(), [&](const Boundary& other) { return same(other, b); });
  };
  // Several boundaries are at one place where sizes are 1 in the sample: they keep their order.
  auto at = [](const std::vector<Boundary>& all, std::optional<int64_t> sample) {
    std::vector<Boundary> out;
    std::ranges::copy_if(all, std::back_inserter(out), [&](const Boundary& b) { return b.sample == sample; });
    return out;
  };
  for (const Boundary& o : old) {
    if (!o.sample || !none(now, o)) continue;
    const std::vector<Boundary> olds = at(old, o.sample), news = at(now, o.sample);
    auto moved = std::ranges::find_if(news, [&](const Boundary& b) { return none(old, b); });
    if (moved == news.end() && news.size() >= olds.size())
      moved = news.begin() + (std::ranges::find(olds, o.before, &Boundary::before) - olds.begin());
    if (moved == news.end()) continue;
    sym.observer->moved_boundary(o.before, moved->before);
    sym.observer->moved_boundary(o.behind, moved->behind);
  }
}

// The contents of a Reshape's second input: 0 where a size stays at its place, -1 for one that follows from the rest.
std::vector<Dim> Builder::reshape_target(const Shape& from, const Shape& to, Attributes& attributes) {
  std::vector<Dim> target = to;
  bool has_zero = std::any_of(to.begin(), to.end(), [](Dim d) { return d.is(0); });
  if (has_zero) {
    if (opset_ >= 14) {
      attributes.push_back({"allowzero", int64_t{1}});
      return target;
    }
    for (size_t i = 0; i < to.size(); ++i)
      if (to[i].is(0) && !(i < from.size() && from[i].is(0)))
        throw Error(Code::NeedsOpset, "an empty tensor gets other sizes, which Reshape can do from opset 14 on",
                    fmt::format("export with {} or higher", option("opset", 14)));
    return target;
  }
  std::optional<size_t> inferred;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].is_constant()) continue;
    if (i < from.size() && from[i] == to[i]) {
      target[i] = sym.constant(0);
      continue;
    }
    // What is costliest to compute is left to be inferred.
    if (!inferred || (to[*inferred].is_symbol() && !to[i].is_symbol())) inferred = i;
  }
  // The sizes of an input cost one Shape.
  if (needs_arithmetic(from, to) && longest_run(to).length == to.size()) return to;
  if (inferred) target[*inferred] = sym.constant(-1);
  return target;
}

bool Builder::needs_arithmetic(const Shape& from, const Shape& to) {
  size_t computed = 0;
  for (size_t i = 0; i < to.size(); ++i)
    if (!to[i].is_constant() && !(i < from.size() && from[i] == to[i])) ++computed;
  return computed > 1;
}

Value* Builder::transpose(Value* x, std::span<const int64_t> perm) {
  std::vector<int64_t> order(perm.begin(), perm.end());
  if (is_complex(x->dtype)) {
    order.push_back(static_cast<int64_t>(order.size()));
    return from_pairs(transpose(pairs(x), order));
  }
  if (produced_by(x, "Transpose")) {
    const std::vector<int64_t>& first = *ints_attribute(*x->producer, "perm");
    for (int64_t& p : order) p = first[static_cast<size_t>(p)];
    x = x->producer->inputs[0];
  }
  if (std::is_sorted(order.begin(), order.end())) return x;
  // Moving only dimensions of size 1 keeps the elements in order.
  std::vector<int64_t> kept;
  Shape to;
  for (int64_t p : order) {
    to.push_back(x->shape[static_cast<size_t>(p)]);
    if (!to.back().is(1)) kept.push_back(p);
  }
  if (std::is_sorted(kept.begin(), kept.end()) && !needs_arithmetic(x->shape, to) && !x->is_constant())
    return reshape(x, to);
  return op("Transpose", {x}, {{"perm", order}});
}

Value* Builder::swap_dims(Value* x, int64_t a, int64_t b) {
  int64_t rank = static_cast<int64_t>(x->rank());
  std::vector<int64_t> perm(x->rank());
  std::iota(perm.begin(), perm.end(), 0);
  if (rank > 0)
    std::swap(perm[static_cast<size_t>(a < 0 ? a + rank : a)], perm[static_cast<size_t>(b < 0 ? b + rank : b)]);
  return transpose(x, perm);
}

Value* Builder::emit_axes(std::string_view type, Value* x, const std::vector<int64_t>& axes) {
  const bool computed = x->kind == Value::Kind::Output || x->kind == Value::Kind::Input;
  const bool may_fold = !computed || !x->contents;  // what was made to compute with contents would fold to them again
  if (opset_ >= 13) return emit(type, {x, ints(axes)}, {}, 1, may_fold)[0];
  return emit(type, {x}, {{"axes", axes}}, 1, may_fold)[0];
}

Value* Builder::squeeze(Value* x, std::vector<int64_t> axes) {
  Shape to;
  for (size_t i = 0; i < x->rank(); ++i)
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) to.push_back(x->shape[i]);
  if (axes.empty()) return x;
  if (is_complex(x->dtype)) return from_pairs(squeeze(pairs(x), axes));
  if (x->kind == Value::Kind::Symbolic || x->is_constant() || !needs_arithmetic(x->shape, to)) return reshape(x, to);
  return emit_axes("Squeeze", x, axes);
}

Value* Builder::unsqueeze(Value* x, std::vector<int64_t> axes) {
  if (axes.empty()) return x;
  std::sort(axes.begin(), axes.end());
  if (is_complex(x->dtype)) return from_pairs(unsqueeze(pairs(x), axes));
  Shape to = x->shape;
  for (int64_t a : axes) to.insert(to.begin() + a, sym.constant(1));
  if (x->kind == Value::Kind::Symbolic || x->is_constant() || !needs_arithmetic(x->shape, to)) return reshape(x, to);
  return emit_axes("Unsqueeze", x, axes);
}

// Positions [start, end) of a concatenation, when they are one of its parts.
Value* Builder::joined_part(Value* x, Dim start, Dim end) {
  const Node& concat = *x->producer;
  auto axis = static_cast<size_t>(concat.int_attribute("axis", 0));
  Dim size = x->shape[axis], zero = sym.constant(0), at = zero;
  auto position = [&](Dim bound) {
    if (!bound.is_constant()) return bound;
    if (bound.is(std::numeric_limits<int64_t>::max())) return size;
    return *bound.constant() < 0 ? sym.max(sym.add(size, bound), zero) : sym.min(bound, size);
  };
  Dim first = position(start), last = position(end);
  for (Value* part : concat.inputs) {
    Dim next = sym.add(at, part->shape[axis]);
    if (first == at && last == next) return part;
    at = next;
  }
  return nullptr;
}

Value* Builder::slice(Value* x, int64_t axis, Dim start, Dim end, int64_t step) {
  Dim size = x->shape[static_cast<size_t>(axis)];
  if (end == size) end = sym.constant(std::numeric_limits<int64_t>::max());
  if (step == 1 && produced_by(x, "Concat") && x->producer->int_attribute("axis", 0) == axis)
    if (Value* part = joined_part(x, start, end)) return part;
  if (step == 1) {
    bool from_start =
        start.is(0) || (start.is_constant() && size.is_constant() && *start.constant() <= -*size.constant());
    bool to_end = end == size ||
                  (end.is_constant() && *end.constant() >= size.upper().value_or(std::numeric_limits<int64_t>::max()));
    if (from_start && to_end) return x;
  }
  Dim axis_dim = sym.constant(axis), step_dim = sym.constant(step);
  std::vector<Dim> starts{start}, ends{end}, axes{axis_dim}, steps{step_dim};
  // Slices of different axes are one Slice.
  if (produced_by(x, "Slice") && x->producer->inputs.size() == 5) {
    const Inputs& in = x->producer->inputs;
    bool known = std::all_of(in.begin() + 1, in.end(), [](Value* v) { return v->contents.has_value(); });
    if (known && std::find(in[3]->contents->begin(), in[3]->contents->end(), axis_dim) == in[3]->contents->end()) {
      auto prepend = [](std::vector<Dim>& to, const std::vector<Dim>& what) {
        to.insert(to.begin(), what.begin(), what.end());
      };
      prepend(starts, *in[1]->contents);
      prepend(ends, *in[2]->contents);
      prepend(axes, *in[3]->contents);
      prepend(steps, *in[4]->contents);
      x = in[0];
    }
  }
  return op("Slice", {x, symbolic(starts), symbolic(ends), symbolic(axes), symbolic(steps)});
}

Value* Builder::flip(Value* x, int64_t axis) {
  Dim lowest = sym.constant(std::numeric_limits<int64_t>::min() + 1);
  return slice(x, axis, sym.constant(-1), lowest, -1);
}

Value* Builder::select(Value* x, int64_t axis, Dim index) {
  if (x->shape[static_cast<size_t>(axis)].is(1) && !x->contents && index.is_constant()) return squeeze(x, {axis});
  if (produced_by(x, "Transpose")) {
    // Selecting first may leave nothing to transpose.
    std::vector<int64_t> rest = *ints_attribute(*x->producer, "perm");
    int64_t from = rest[static_cast<size_t>(axis)];
    rest.erase(rest.begin() + axis);
    for (int64_t& p : rest) p -= p > from;
    if (std::is_sorted(rest.begin(), rest.end())) return select(x->producer->inputs[0], from, index);
  }
  return op("Gather", {x, symbolic(index)}, {{"axis", axis}});
}

Value* Builder::concat(Inputs parts, int64_t axis) { return op("Concat", std::move(parts), {{"axis", axis}}); }

std::vector<Value*> Builder::split(Value* x, std::span<const Dim> lengths, int64_t axis) {
  if (lengths.size() == 1) return {x};
  if (is_complex(x->dtype)) {
    std::vector<Value*> out = split(pairs(x), lengths, axis);
    for (Value*& v : out) v = from_pairs(v);
    return out;
  }
  size_t n = lengths.size();
  Attributes attributes{{"axis", axis}};
  Inputs inputs{x};
  bool equal = std::all_of(lengths.begin(), lengths.end(), [&](Dim d) { return d == lengths[0]; });
  // As chunk() has it: all pieces have the same length but the last, which may be shorter.
  Dim size = x->shape[static_cast<size_t>(axis)], count = sym.constant(static_cast<int64_t>(n));
  bool chunks = lengths[0] == sym.ceil_div(size, count) && !size.is_constant();
  for (size_t i = 1; i + 1 < n; ++i) chunks = chunks && lengths[i] == lengths[0];
  if (chunks && opset_ >= 18) equal = true;
  if (equal && opset_ >= 18) {
    attributes.push_back({"num_outputs", static_cast<int64_t>(n)});
  } else if (!equal || opset_ >= 13) {
    if (opset_ >= 13) {
      inputs.push_back(symbolic(lengths));
    } else if (all_constant(lengths)) {
      attributes.push_back({"split", constants(lengths)});
    } else {
      std::vector<Value*> out;
      Dim at = sym.constant(0);
      for (Dim length : lengths) {
        Dim next = sym.add(at, length);
        out.push_back(slice(x, axis, at, next));
        at = next;
      }
      return out;
    }
  }
  std::vector<Value*> out = op_n("Split", inputs, attributes, n);
  for (size_t i = 0; i < n; ++i)
    if (out[i]->kind == Value::Kind::Output) out[i]->shape[static_cast<size_t>(axis)] = lengths[i];
  return out;
}

Value* Builder::expand(Value* x, const Shape& to) {
  if (x->shape == to) return x;
  if (is_complex(x->dtype)) return on_pairs(*this, x, to, &Builder::expand);
  size_t lead = to.size() - x->rank();
  std::vector<Dim> target = to;
  bool grows = false;
  for (size_t i = 0; i < to.size(); ++i) {
    bool same = i >= lead && x->shape[i - lead] == to[i];
    if (same) target[i] = sym.constant(1);  // Expand broadcasts both ways
    grows = grows || !target[i].is(1);
  }
  if (!grows) {
    Shape shape(lead, sym.constant(1));
    shape.insert(shape.end(), x->shape.begin(), x->shape.end());
    return reshape(x, shape);
  }
  Value* out = op("Expand", {x, symbolic(target)});
  if (out->kind == Value::Kind::Output) out->shape = to;
  return out;
}

Value* Builder::gather(Value* x, Value* indices, int64_t axis) { return op("Gather", {x, indices}, {{"axis", axis}}); }

Value* Builder::reduce(std::string_view type, Value* x, std::vector<int64_t> axes, bool keepdims) {
  std::sort(axes.begin(), axes.end());
  Attributes attributes;
  if (!keepdims) attributes.push_back({"keepdims", int64_t{0}});
  Inputs inputs{x};
  if (!axes.empty() && axes.size() < x->rank()) {
    if (opset_ >= 18 || (opset_ >= 13 && type == "ReduceSum")) {
      inputs.push_back(ints(axes));
    } else {
      attributes.insert(attributes.begin(), {"axes", axes});
    }
  }
  return op(type, inputs, attributes);
}

Value* Builder::softmax(std::string_view type, Value* x, int64_t axis) {
  int64_t last = static_cast<int64_t>(x->rank()) - 1;
  if (axis < 0) axis += last + 1;
  // Before opset 13, all dimensions from the axis on were taken together.
  if (opset_ >= 13 || axis == last) return op(type, {x}, {{"axis", opset_ >= 13 && axis == last ? int64_t{-1} : axis}});
  return swap_dims(op(type, {swap_dims(x, axis, last)}, {{"axis", last}}), axis, last);
}

Value* Builder::pad(Value* x, std::span<const std::pair<Dim, Dim>> pads, std::string_view mode, Value* fill) {
  std::vector<Dim> all;
  for (auto& [begin, end] : pads) all.push_back(begin);
  for (auto& [begin, end] : pads) all.push_back(end);
  if (std::all_of(all.begin(), all.end(), [](Dim d) { return d.is(0); })) return x;
  Attributes attributes;
  if (mode != "constant") attributes.push_back({"mode", std::string(mode)});
  return op("Pad", {x, symbolic(all), mode == "constant" ? fill : nullptr}, attributes);
}

Shape Builder::broadcast(const Shape& a, const Shape& b) { return broadcast_shapes(sym, a, b); }

}  // namespace lithify::onnx
