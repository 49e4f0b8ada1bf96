// Operators under one name for all opsets: parts of tensors and their joining, reductions, padding, casts.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/diagnostic.hpp"
#include "onnx/builder.hpp"
#include "onnx/building.hpp"
#include "onnx/complex.hpp"
#include "onnx/opdef.hpp"

namespace lithify::onnx {

namespace {

bool is_float8(DType t) {
  return (t >= DType::Float8E4M3FN && t <= DType::Float8E5M2FNUZ) || t == DType::Float8E8M0FNU;
}

/// What a Cast to a type of 8 bits takes, and how, for numbers that are too large to become what PyTorch makes of them:
/// the largest one in float8_e4m3fn, infinity in float8_e5m2, and NaN in the others. float8_e8m0fnu has no sign.
Value* for_float8(Builder& b, Value* x, DType to, Attributes& attributes) {
  if (to == DType::Float8E4M3FN) return x;
  if (x->dtype != DType::Float) x = b.cast(x, DType::Float);
  const auto number = [&](double v) { return b.scalar(DType::Float, v); };
  if (to == DType::Float8E8M0FNU) {
    attributes.push_back({"round_mode", std::string("nearest")});
    constexpr double least_too_large = 0x1.8p127;
    x = b.op("Abs", {x});
    return b.where(b.op("Less", {x, number(least_too_large)}), x, number(std::numeric_limits<double>::quiet_NaN()));
  }
  attributes.push_back({"saturate", int64_t{0}});
  if (to != DType::Float8E5M2) return x;
  // ONNX Runtime 1.31 makes NaN of numbers that are rounded to infinity.
  constexpr double least_rounded_to_infinity = 61440;
  Value* endless = b.mul(x, number(std::numeric_limits<double>::infinity()));
  return b.where(b.op("Less", {b.op("Abs", {x}), number(least_rounded_to_infinity)}), x, endless);
}

}  // namespace

Value* Builder::cast(Value* x, DType to) {
  if (x->dtype == to) return x;
  if (is_complex(x->dtype) || is_complex(to)) return cast_complex(*this, x, to);
  if (static_cast<int>(to) >= 64 || to == DType::Undefined)
    throw Error(Code::UnsupportedType, fmt::format("ONNX has no type {}", name_of(to)));
  if (const int since = first_opset(to); opset_ < since) needs_opset(name_of(to), since);
  Attributes attributes{{"to", static_cast<int64_t>(to)}};
  if (is_float8(to)) x = for_float8(*this, x, to, attributes);
  return op("Cast", {x}, std::move(attributes));
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
  if (step == 1 && made_by(x, "Concat") && x->producer->int_attribute("axis", 0) == axis)
    if (Value* part = joined_part(x, start, end)) return part;
  if (step == 1) {
    bool from_start =
        start.is(0) || (start.is_constant() && size.is_constant() && *start.constant() <= -*size.constant());
    bool to_end = end == size ||
                  (end.is_constant() && *end.constant() >= size.upper().value_or(std::numeric_limits<int64_t>::max()));
    if (from_start && to_end) return x;
  }
  Dim axis_dim = sym.constant(axis), step_dim = sym.constant(step);
  Vector<Dim> starts{start}, ends{end}, axes{axis_dim}, steps{step_dim};
  // Slices of different axes are one Slice.
  if (made_by(x, "Slice") && x->producer->inputs.size() == 5) {
    const Inputs& in = x->producer->inputs;
    bool known = std::all_of(in.begin() + 1, in.end(), [](Value* v) { return v->contents.has_value(); });
    if (known && std::find(in[3]->contents->begin(), in[3]->contents->end(), axis_dim) == in[3]->contents->end()) {
      auto prepend = [](Vector<Dim>& to, const Vector<Dim>& what) { to.insert(to.begin(), what.begin(), what.end()); };
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
  if (made_by(x, "Transpose")) {
    // Selecting first may leave nothing to transpose.
    Vector<int64_t> rest = *x->producer->attribute_as<Vector<int64_t>>("perm");
    int64_t from = rest[static_cast<size_t>(axis)];
    rest.erase(rest.begin() + axis);
    for (int64_t& p : rest) p -= p > from;
    if (std::is_sorted(rest.begin(), rest.end())) return select(x->producer->inputs[0], from, index);
  }
  return op("Gather", {x, symbolic(index)}, {{"axis", axis}});
}

Value* Builder::concat(Inputs parts, int64_t axis) { return op("Concat", std::move(parts), {{"axis", axis}}); }

Vector<Value*> Builder::split(Value* x, std::span<const Dim> lengths, int64_t axis) {
  if (lengths.size() == 1) return {x};
  if (is_complex(x->dtype)) {
    Vector<Value*> out = split(pairs(x), lengths, axis);
    for (Value*& v : out) v = from_pairs(v);
    return out;
  }
  const size_t n = lengths.size();
  // What was just joined so: parts of a tensor that were written to one by one.
  if (const Node* joined = made_by(x, "Concat");
      joined && joined->inputs.size() == n && joined->int_attribute("axis", 0) == axis &&
      std::ranges::equal(joined->inputs, lengths, {},
                         [&](const Value* v) { return v->shape[static_cast<size_t>(axis)]; }))
    return joined->inputs;
  bool equal = std::all_of(lengths.begin(), lengths.end(), [&](Dim d) { return d == lengths[0]; });
  // As chunk() has it: all pieces have the same length but the last, which may be shorter.
  const Dim size = x->shape[static_cast<size_t>(axis)], count = sym.constant(static_cast<int64_t>(n));
  const Dim sum = std::accumulate(lengths.begin(), lengths.end(), sym.constant(0),
                                  [&](Dim all, Dim length) { return sym.add(all, length); });
  if (sum.is_constant() && size.is_constant() && sum != size)
    throw Error(Code::ShapeMismatch, fmt::format("a size of {} cannot be split into {}", size.str(), sum.str()));
  bool chunks = lengths[0] == sym.ceil_div(size, count) && !size.is_constant();
  for (size_t i = 1; i + 1 < n; ++i) chunks = chunks && lengths[i] == lengths[0];
  // ONNX Runtime refuses more pieces than there are elements.
  if (chunks && opset_ >= 18 && sym.sample(size).value_or(0) >= static_cast<int64_t>(n)) {
    sym.assume({sym::Assumption::Kind::AtMost, count, size});
    equal = true;
  }

  Attributes attributes{{"axis", axis}};
  Inputs inputs{x};
  if (equal && opset_ >= 18) {
    attributes.push_back({"num_outputs", static_cast<int64_t>(n)});
  } else if (opset_ >= 13) {
    inputs.push_back(symbolic(lengths));
  } else if (!equal) {
    if (!all_constant(lengths)) return split_by_slices(x, lengths, axis);
    attributes.push_back({"split", constants(lengths)});
  }
  Vector<Value*> out = op_n("Split", inputs, attributes, n);
  for (size_t i = 0; i < n; ++i)
    if (out[i]->kind == Value::Kind::Output) out[i]->shape[static_cast<size_t>(axis)] = lengths[i];
  return out;
}

// Before opset 13, Split takes only numbers.
Vector<Value*> Builder::split_by_slices(Value* x, std::span<const Dim> lengths, int64_t axis) {
  Vector<Value*> out;
  Dim at = sym.constant(0);
  for (Dim length : lengths) {
    Dim next = sym.add(at, length);
    out.push_back(slice(x, axis, at, next));
    at = next;
  }
  return out;
}

Value* Builder::expand(Value* x, const Shape& to) {
  if (x->shape == to) return x;
  if (is_complex(x->dtype)) return on_pairs(*this, x, to, &Builder::expand);
  size_t lead = to.size() - x->rank();
  Vector<Dim> target = to;
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

Value* Builder::reduce(std::string_view type, Value* x, Vector<int64_t> axes, bool keepdims) {
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
  Vector<Dim> all;
  for (auto& [begin, end] : pads) all.push_back(begin);
  for (auto& [begin, end] : pads) all.push_back(end);
  if (std::all_of(all.begin(), all.end(), [](Dim d) { return d.is(0); })) return x;
  Attributes attributes;
  if (mode != "constant") attributes.push_back({"mode", std::string(mode)});
  return op("Pad", {x, symbolic(all), mode == "constant" ? fill : nullptr}, attributes);
}

Shape Builder::broadcast(const Shape& a, const Shape& b) { return broadcast_shapes(sym, a, b); }

}  // namespace lithify::onnx
