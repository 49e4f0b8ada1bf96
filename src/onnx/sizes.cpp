// Sizes as values of the graph: a formula becomes constants, Shape nodes and arithmetic, where a node needs it.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/diagnostic.hpp"
#include "onnx/builder.hpp"
#include "onnx/building.hpp"

namespace lithify::onnx {
namespace {

bool not_negative(Dim d) { return d.lower().value_or(-1) >= 0; }

}  // namespace

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
      out = emit_one("Reshape", {out, symbolic(shape)});
    }
    out->shape = shape;
  }
  if (v->dtype != DType::Int64) out = emit_one("Cast", {out}, {{"to", static_cast<int64_t>(v->dtype)}});
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
  Value* out = parts.size() == 1 ? parts[0] : emit_one("Concat", parts, {{"axis", int64_t{0}}});
  out->contents = Vector<Dim>(dims.begin(), dims.end());
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
  Value* out = emit_one("Shape", {value}, range);
  using Numbers = Vector<int64_t>;
  if (opset_ < 10 && !whole) {
    Attributes part{{"axes", Numbers{0}}, {"ends", Numbers{end}}, {"starts", Numbers{begin}}};
    out = emit_one("Slice", {out}, part);
  } else if (opset_ < 15 && !whole) {
    out = emit_one("Slice", {out, ints({begin}), ints({end}), ints({0})});
  }
  out->shape = {sym.constant(end - begin)};
  out->contents = Vector<Dim>(value->shape.begin() + begin, value->shape.begin() + end);
  return out;
}

Value* Builder::materialize(Dim e) {
  Value* out = arithmetic(e, false);
  if (out->rank() == 1) return out;
  out = emit_one("Reshape", {out, ints({1})});
  out->contents = Vector<Dim>{e};
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
  if (e.is_constant()) return number(*e.constant(), scalar);
  auto known = [scalar](Block & block) -> auto& { return scalar ? block.scalars : block.materialized; };
  for (Block* block : stack_)
    if (auto found = known(*block).find(e); found != known(*block).end()) return found->second;
  Value* out = nullptr;
  switch (sym::kind(e)) {
    case sym::Kind::Symbol:
      out = source_value(e);
      break;
    case sym::Kind::Polynomial:
      out = sum_of_terms(e, scalar);
      break;
    default:
      out = operation(e, scalar);
  }
  out->contents = Vector<Dim>{e};
  known(block_of(out))[e] = out;
  return out;
}

Value* Builder::number(int64_t n, bool scalar) { return scalar ? scalar_int(DType::Int64, n) : ints({n}); }

// The value that a symbol is read from: one element, of a scalar or a 1-D tensor.
Value* Builder::source_value(Dim symbol) {
  const Source* source = source_of(symbol);
  if (!source)
    throw Error(Code::UnsupportedArgument, fmt::format("the size {} is not known before run time here", symbol.str()));
  auto [value, axis] = *source;
  if (axis >= 0) return sizes_of(value, axis, axis + 1);
  return value->rank() <= 1 ? value : emit_one("Reshape", {value, ints({1})});
}

Value* Builder::sum_of_terms(Dim e, bool scalar) {
  // Begun with a positive term, a sum needs no factor of -1.
  Vector<sym::Term> terms = sym::terms(e);
  std::stable_partition(terms.begin(), terms.end(), [](const sym::Term& t) { return t.coefficient > 0; });
  Value* sum = nullptr;
  for (const sym::Term& term : terms) {
    const bool negated = sum && term.coefficient < 0;
    const int64_t coefficient = negated ? -term.coefficient : term.coefficient;
    Value* product = nullptr;
    for (Dim atom : term.atoms) {
      Value* factor = arithmetic(atom, scalar);
      product = product ? emit_one("Mul", {product, factor}) : factor;
    }
    if (!product) {
      product = number(coefficient, scalar);
    } else if (coefficient != 1) {
      product = emit_one("Mul", {product, number(coefficient, scalar)});
    }
    sum = sum ? emit_one(negated ? "Sub" : "Add", {sum, product}) : product;
  }
  return sum;
}

// Division, remainder, minimum, maximum or broadcast of two formulas.
Value* Builder::operation(Dim e, bool scalar) {
  const auto [a, b] = sym::operands(e);
  Value *x = arithmetic(a, scalar), *y = arithmetic(b, scalar);
  switch (sym::kind(e)) {
    case sym::Kind::FloorDiv:
      // ONNX divides toward zero: for operands of unknown sign the remainder is taken off first.
      if (!not_negative(a) || !not_negative(b)) x = emit_one("Sub", {x, modulo(a, x, b, y, scalar)});
      return emit_one("Div", {x, y});
    case sym::Kind::Mod:
      return modulo(a, x, b, y, scalar);
    case sym::Kind::Min:
    case sym::Kind::Max:
    case sym::Kind::Broadcast: {
      const bool min = sym::kind(e) == sym::Kind::Min;
      // Integer Min and Max came with opset 12.
      if (opset_ >= 12) return emit_one(min ? "Min" : "Max", {x, y});
      return emit_one("Where", {emit_one("Less", min ? Inputs{x, y} : Inputs{y, x}), x, y});
    }
    default:
      throw Error(Code::Internal, "an expression of unknown kind");
  }
}

// The remainder of x / y, whose formulas are a and b. It has the sign of the divisor.
Value* Builder::modulo(Dim a, Value* x, Dim b, Value* y, bool scalar) {
  if (opset_ >= 10) return emit_one("Mod", {x, y});
  Value* rest = emit_one("Sub", {x, emit_one("Mul", {emit_one("Div", {x, y}), y})});
  if (not_negative(a) && not_negative(b)) return rest;
  Value *zero = number(0, scalar), *some = emit_one("Not", {emit_one("Equal", {rest, zero})});
  Value* across = emit_one("Xor", {emit_one("Less", {rest, zero}), emit_one("Less", {y, zero})});
  return emit_one("Where", {emit_one("And", {some, across}), emit_one("Add", {rest, y}), rest});
}

Value* Builder::lifted(Value* v) {
  if (is_visible(v)) return v;
  if (v->contents && std::ranges::all_of(*v->contents, [&](Dim e) { return computable(e); }))
    return symbolic(v->dtype, v->shape, *v->contents);
  static const std::set<std::string_view> total{
      "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal",     "Not",   "And", "Or", "Add",
      "Sub",  "Mul",         "Cast",    "Squeeze",        "Unsqueeze", "Where", "Min", "Max"};
  if (!v->producer || !total.contains(v->producer->op_type) || !numel(v->shape).is(1)) return nullptr;
  Inputs inputs;
  for (Value* in : v->producer->inputs) {
    inputs.push_back(lifted(in));
    if (!inputs.back()) return nullptr;
  }
  return emit(v->producer->op_type, std::move(inputs), v->producer->attributes, 1, true)[0];
}

}  // namespace lithify::onnx
