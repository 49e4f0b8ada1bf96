// Operators that need no node, or a simpler one, by what is known of their inputs.
#include <algorithm>

#include "onnx/builder.hpp"

namespace lithify::onnx {
namespace {

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
    const Vector<sym::Term> terms = sym::terms(e);
    const auto rest = std::ranges::find_if(terms, [](const sym::Term& t) { return t.atoms.empty(); });
    if (rest == terms.end()) continue;
    const Dim offset = b.dim(rest->coefficient);
    inputs[i] = b.symbolic(DType::Int64, x->shape, {b.sym.sub(e, offset)});
    inputs[1 - i] = b.symbolic(DType::Int64, number->shape, {b.sym.sub(n, offset)});
  }
}

// A bound of the elements of positions and the like: a Range that counts up from a number.
std::optional<int64_t> lowest_element(const Value* v) {
  while (made_by(v, "Reshape") || made_by(v, "Unsqueeze")) v = v->producer->inputs[0];
  if (!made_by(v, "Range")) return std::nullopt;
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

// And with true, Or with false: the other operand.
Value* other_flag(Builder& b, std::string_view type, const Inputs& inputs) {
  for (size_t i : {0, 1}) {
    const Value* number = made_by(inputs[i], "Expand") ? inputs[i]->producer->inputs[0] : inputs[i];
    if (is_filled_with(number, type == "And"))
      return b.expand(inputs[1 - i], b.broadcast(inputs[0]->shape, inputs[1]->shape));
  }
  return nullptr;
}

// Positions are never below the first of them.
Value* always_at_least(Builder& b, const Inputs& inputs) {
  const Value* bound = inputs[1];
  if (!bound->constant || bound->constant->numel() != 1 || is_float(bound->dtype)) return nullptr;
  const auto lowest = lowest_element(inputs[0]);
  if (!lowest || *lowest < bound->constant->integers()[0]) return nullptr;
  return b.expand(b.scalar_int(DType::Bool, 1), b.broadcast(inputs[0]->shape, inputs[1]->shape));
}

// Rows for an expanded index are the rows for the index, expanded.
Value* expanded_rows(Builder& b, const Inputs& inputs, const Attributes& attributes) {
  if (!made_by(inputs[1], "Expand") || axis_of(attributes) != 0) return nullptr;
  Shape to = inputs[1]->shape;
  to.insert(to.end(), inputs[0]->shape.begin() + 1, inputs[0]->shape.end());
  return b.expand(b.op("Gather", {inputs[0], inputs[1]->producer->inputs[0]}, attributes), to);
}

// A size among tensors need not be a scalar.
void use_one_element(Builder& b, Inputs& inputs) {
  for (Value*& v : inputs) {
    const bool beside = std::ranges::any_of(inputs, [](const Value* o) { return o && o->rank() > 0; });
    if (!v || v->rank() > 0 || !beside || !made_by(v, "Cast")) continue;
    Value* number = v->producer->inputs[0];
    if (made_by(number, "Squeeze") && number->producer->inputs[0]->rank() == 1)
      v = b.cast(number->producer->inputs[0], v->dtype);
  }
}

// An operand that was expanded to what the operator broadcasts it to anyway need not be expanded.
void use_unexpanded(Builder& b, Inputs& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!made_by(inputs[i], "Expand")) continue;
    Shape others, with;
    for (size_t j = 0; j < inputs.size(); ++j)
      if (inputs[j]) {
        with = b.broadcast(with, inputs[j]->shape);
        others = b.broadcast(others, j == i ? inputs[i]->producer->inputs[0]->shape : inputs[j]->shape);
      }
    if (others == with) inputs[i] = inputs[i]->producer->inputs[0];
  }
}

// x + 0, x - 0, x * 1 and x / 1 are x.
Value* unchanged(Builder& b, std::string_view type, const Inputs& inputs) {
  const bool sum = type == "Add" || type == "Sub", commutes = type == "Add" || type == "Mul";
  if (!sum && !commutes && type != "Div") return nullptr;
  if (inputs[0]->dtype != inputs[1]->dtype) return nullptr;
  auto keeps = [&](Value* x, Value* c) {
    return is_filled_with(c, sum ? 0 : 1) && c->rank() <= x->rank() && b.broadcast(x->shape, c->shape) == x->shape;
  };
  if (keeps(inputs[0], inputs[1])) return inputs[0];
  return commutes && keeps(inputs[1], inputs[0]) ? inputs[1] : nullptr;
}

// A choice by the same condition inside a choice is made already.
void choose_once(Builder& b, Inputs& inputs) {
  const Shape all = b.broadcast(b.broadcast(inputs[0]->shape, inputs[1]->shape), inputs[2]->shape);
  for (size_t side : {1, 2}) {
    const Node* inner = made_by(inputs[side], "Where");
    if (!inner || inner->inputs[0] != inputs[0]) continue;
    Value* chosen = inner->inputs[side];
    if (b.broadcast(b.broadcast(inputs[0]->shape, inputs[3 - side]->shape), chosen->shape) == all)
      inputs[side] = chosen;
  }
}

}  // namespace

// The value that an operator gives without a node, or nullptr; its inputs may become simpler ones.
Value* Builder::simplified(std::string_view type, Inputs& inputs, Attributes& attributes) {
  if (type == "Identity") return inputs[0];
  if (type == "Concat" && inputs.size() == 1) return inputs[0];
  if (type == "Not" && made_by(inputs[0], "Not")) return inputs[0]->producer->inputs[0];
  if (type == "Where" && made_by(inputs[0], "Not")) {
    inputs[0] = inputs[0]->producer->inputs[0];
    std::swap(inputs[1], inputs[2]);
  }
  if (type == "Where") choose_once(*this, inputs);
  if (type == "And" || type == "Or")
    if (Value* v = other_flag(*this, type, inputs)) return v;
  if (type == "GreaterOrEqual")
    if (Value* v = always_at_least(*this, inputs)) return v;
  if (type == "Gather")
    if (Value* v = expanded_rows(*this, inputs, attributes)) return v;
  if (compares(type)) compare_with_rest(*this, inputs);
  if (broadcasts(type)) {
    use_one_element(*this, inputs);
    use_unexpanded(*this, inputs);
  }
  return unchanged(*this, type, inputs);
}

}  // namespace lithify::onnx
