#include "onnx/older.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/diagnostic.hpp"

namespace lithify::onnx {
namespace {

using Values = Vector<Value*>;

/// What the rules below ask of the node that they replace.
class Old {
 public:
  Old(Builder& builder, const Node& node, int since) : b(builder), node(node), since_(since) {}

  Builder& b;
  const Node& node;

  Value* in(size_t i) const { return i < node.inputs.size() ? node.inputs[i] : nullptr; }
  const Value& out() const { return *node.outputs[0]; }
  int64_t integer(std::string_view name, int64_t otherwise) const { return node.int_attribute(name, otherwise); }
  std::string text(std::string_view name, const std::string& otherwise) const {
    const Attribute* a = node.attribute(name);
    return a ? std::get<std::string>(a->data) : otherwise;
  }
  size_t axis(int64_t otherwise) const {
    const int64_t a = integer("axis", otherwise);
    return static_cast<size_t>(a < 0 ? a + static_cast<int64_t>(in(0)->rank()) : a);
  }
  /// The elements of an input, which must be known.
  const Vector<Dim>& known(size_t i) const {
    if (!in(i)->contents) refuse();
    return *in(i)->contents;
  }
  [[noreturn]] void refuse(int opset) const { b.needs_opset(node.op_type + " like this", opset); }
  [[noreturn]] void refuse() const { refuse(since_); }

 private:
  int since_;
};

Vector<int64_t> numbers(std::span<const Dim> dims) {
  Vector<int64_t> r;
  for (Dim d : dims) r.push_back(*d.constant());
  return r;
}

bool all_numbers(std::span<const Dim> dims) {
  return std::all_of(dims.begin(), dims.end(), [](Dim d) { return d.is_constant(); });
}

// ---- positions ----------------------------------------------------------------------------------------------------

/// 0, 1, ... n - 1: the positions of the ones in a tensor of ones.
Value* counted(Builder& b, Dim n) {
  if (const auto count = n.constant()) {
    const auto length = static_cast<size_t>(std::max<int64_t>(*count, 0));
    b.sym.budget.spend(Limit::Bytes, length * sizeof(int64_t));
    Vector<int64_t> all(length, 0);
    std::iota(all.begin(), all.end(), 0);
    return b.ints(all);
  }
  const Dim one[] = {n};
  Value* ones = b.op("ConstantOfShape", {b.symbolic(one)}, {{"value", b.ints({1})->constant}});
  Value* positions = b.op("NonZero", {ones});
  positions->shape = {b.dim(1), n};
  return b.squeeze(positions, {0});
}

/// start, start + step, ... : n numbers.
Value* counted(Builder& b, Dim start, int64_t step, Dim n) {
  Value* positions = b.mul(counted(b, n), b.scalar_int(DType::Int64, step));
  return b.add(positions, b.symbolic(start));
}

Value* below_zero_from_end(Builder& b, Value* index, Dim size) {
  Value* zero = b.scalar_int(index->dtype, 0);
  Value* moved = b.add(index, b.cast(b.symbolic(size), index->dtype));
  return b.where(b.op("Less", {index, zero}), moved, index);
}

/// v along one axis of a tensor of some rank.
Value* along(Builder& b, Value* v, size_t axis, size_t rank) {
  Shape to(rank, b.dim(1));
  to[axis] = v->shape[0];
  return b.reshape(v, to);
}

/// The number of elements of the dimensions from one on.
Dim stride(Builder& b, const Shape& shape, size_t from) {
  return b.numel(Shape(shape.begin() + static_cast<std::ptrdiff_t>(from), shape.end()));
}

Value* times(Builder& b, Value* v, Dim n) { return n.is(1) ? v : b.mul(v, b.symbolic(n)); }

// ---- parts --------------------------------------------------------------------------------------------------------

Values slice(const Old& o) {
  if (!o.in(1)) return {};
  Builder& b = o.b;
  sym::Context& sym = b.sym;
  Value* x = o.in(0);
  const Vector<Dim>&starts = o.known(1), &ends = o.known(2);
  Vector<int64_t> axes, steps(starts.size(), 1), plain_starts, plain_ends, plain_axes;
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (o.in(3)) axes = numbers(o.known(3));
  if (o.in(4)) steps = numbers(o.known(4));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0) axes[i] += static_cast<int64_t>(x->rank());
    if (steps[i] != 1 || !starts[i].is_constant() || !ends[i].is_constant()) continue;
    plain_axes.push_back(axes[i]);
    plain_starts.push_back(*starts[i].constant());
    plain_ends.push_back(*ends[i].constant());
  }
  const Shape from = x->shape;
  if (!plain_axes.empty()) {
    x = b.op("Slice", {x}, {{"axes", plain_axes}, {"ends", plain_ends}, {"starts", plain_starts}});
    if (x->kind == Value::Kind::Output)
      for (int64_t axis : plain_axes) x->shape[static_cast<size_t>(axis)] = o.out().shape[static_cast<size_t>(axis)];
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    if (std::find(plain_axes.begin(), plain_axes.end(), axes[i]) != plain_axes.end()) continue;
    const auto axis = static_cast<size_t>(axes[i]);
    const Dim size = from[axis], zero = b.dim(0), last = sym.sub(size, b.dim(1));
    Dim start = starts[i], count = o.out().shape[axis];
    // A bound that may turn out negative counts from the end then, and one beyond it stands for it.
    auto inside = [&](Dim d) {
      return d.is_constant() || d.upper().value_or(0) < 0 ||
             (d.lower().value_or(-1) >= 0 && sym.sub(size, d).lower().value_or(-1) >= 0);
    };
    auto position = [&](Dim d) {
      const Dim ends = sym.max(b.dim(-1), sym.min(d, zero));
      return sym.min(sym.max(sym.sub(d, sym.mul(size, ends)), zero), size);
    };
    if (!inside(start) || !inside(ends[i])) {
      if (steps[i] < 0) o.refuse();
      start = position(start);
      count = sym.ceil_div(sym.max(sym.sub(position(ends[i]), start), zero), b.dim(steps[i]));
    } else if (start.upper() && *start.upper() < 0) {
      start = start.is(std::numeric_limits<int64_t>::min()) ? zero : sym.max(sym.add(size, start), zero);
    }
    if (starts[i].is_constant()) start = sym.min(start, steps[i] > 0 ? size : last);
    x = b.gather(x, counted(b, start, steps[i], count), axes[i]);
  }
  return {x};
}

// Before opset 11 the meaning of a negative index is not defined.
Values gather(const Old& o) {
  Builder& b = o.b;
  const Value* index = o.in(1);
  const int64_t axis = o.integer("axis", 0);
  if (axis < 0) return {b.gather(o.in(0), o.in(1), axis + static_cast<int64_t>(o.in(0)->rank()))};
  if (!index->contents) return {};
  const Dim size = o.in(0)->shape[static_cast<size_t>(axis)];
  Vector<Dim> positions = *index->contents;
  bool negative = false;
  for (Dim& d : positions)
    if (d.upper().value_or(0) < 0) {
      const Dim from_start = b.sym.add(size, d);
      if (from_start.upper().value_or(0) < 0)
        throw Error(Code::ShapeMismatch, fmt::format("position {} of a size of {}", d.str(), size.str()));
      d = from_start;
      negative = true;
    }
  if (!negative) return {};
  return {b.gather(o.in(0), b.symbolic(index->dtype, index->shape, positions), axis)};
}

Values gather_elements(const Old& o) {
  Builder& b = o.b;
  Value *x = o.in(0), *index = b.cast(o.in(1), DType::Int64);
  const size_t rank = x->rank(), axis = o.axis(0);
  Value* at = times(b, below_zero_from_end(b, index, x->shape[axis]), stride(b, x->shape, axis + 1));
  for (size_t d = 0; d < rank; ++d)
    if (d != axis && !index->shape[d].is(1))
      at = b.add(at, along(b, times(b, counted(b, index->shape[d]), stride(b, x->shape, d + 1)), d, rank));
  return {b.gather(b.reshape(x, {b.numel(x->shape)}), at, 0)};
}

Values scatter_elements(const Old& o) {
  if (o.node.attribute("reduction")) o.refuse(16);
  return {o.b.op("Scatter", o.node.inputs, {{"axis", static_cast<int64_t>(o.axis(0))}})};
}

/// The rows of `data`, its first `depth` dimensions taken as one, that the tuples of indices stand for.
Value* row_numbers(Builder& b, const Shape& data, Value* indices, size_t depth, size_t batch) {
  const size_t rank = indices->rank() - 1;
  const Shape rows(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(depth));
  indices = b.cast(indices, DType::Int64);
  Value* at = nullptr;
  auto add = [&](Value* v) { at = at ? b.add(at, v) : v; };
  for (size_t i = batch; i < depth; ++i) {
    Value* entry = b.select(indices, static_cast<int64_t>(rank), b.dim(static_cast<int64_t>(i - batch)));
    add(times(b, below_zero_from_end(b, entry, data[i]), stride(b, rows, i + 1)));
  }
  for (size_t i = 0; i < batch; ++i) add(along(b, times(b, counted(b, data[i]), stride(b, rows, i + 1)), i, rank));
  return at;
}

Values gather_nd(const Old& o) {
  Builder& b = o.b;
  const auto batch = static_cast<size_t>(o.integer("batch_dims", 0));
  if (b.opset() == 11 && batch == 0) return {};
  Value *x = o.in(0), *indices = o.in(1);
  const size_t depth = batch + static_cast<size_t>(*indices->shape.back().constant());
  if (depth == 0) o.refuse();
  Shape rows = x->shape;
  rows.erase(rows.begin() + 1, rows.begin() + static_cast<std::ptrdiff_t>(depth));
  rows[0] = b.numel(Shape(x->shape.begin(), x->shape.begin() + static_cast<std::ptrdiff_t>(depth)));
  return {b.gather(b.reshape(x, rows), row_numbers(b, x->shape, indices, depth, batch), 0)};
}

Values scatter_nd(const Old& o) {
  if (o.node.attribute("reduction")) o.refuse(16);
  Builder& b = o.b;
  Value *x = o.in(0), *indices = o.in(1), *updates = o.in(2);
  const auto depth = static_cast<size_t>(*indices->shape.back().constant());
  if (depth == 0) o.refuse();
  Value* at = row_numbers(b, x->shape, indices, depth, 0);
  const Dim width = stride(b, x->shape, depth), count = b.numel(at->shape);
  const Dim rows = b.numel(Shape(x->shape.begin(), x->shape.begin() + static_cast<std::ptrdiff_t>(depth)));
  at = b.expand(b.reshape(at, {count, b.dim(1)}), {count, width});
  Value* out =
      b.op("Scatter", {b.reshape(x, {rows, width}), at, b.reshape(updates, {count, width})}, {{"axis", int64_t{0}}});
  return {b.reshape(out, x->shape)};
}

Values top_k(const Old& o) {
  Builder& b = o.b;
  const bool largest = o.integer("largest", 1) != 0;
  if (!o.node.attribute("largest") && !o.node.attribute("sorted") && (b.opset() == 10 || !o.in(1))) return {};
  if (!is_float(o.in(0)->dtype)) o.refuse(11);
  Value* x = largest ? o.in(0) : b.op("Neg", {o.in(0)});
  Attributes attributes{{"axis", static_cast<int64_t>(o.axis(-1))}};
  Inputs inputs{x};
  if (b.opset() >= 10) {
    inputs.push_back(o.in(1));
  } else {
    if (!all_numbers(o.known(1))) o.refuse(10);
    attributes.push_back({"k", *o.known(1)[0].constant()});
  }
  Values out = b.op_n("TopK", inputs, attributes, 2);
  if (!largest) out[0] = b.op("Neg", {out[0]});
  return out;
}

// ---- sizes --------------------------------------------------------------------------------------------------------

// x with `count` elements of `fill` before and behind it.
Value* padded_with(Builder& b, Value* x, size_t axis, Dim before, Dim behind, Value* fill) {
  Inputs parts;
  auto add = [&](Dim count) {
    Shape shape = x->shape;
    shape[axis] = count;
    if (!count.is(0)) parts.push_back(b.expand(fill, shape));
  };
  add(before);
  parts.push_back(x);
  add(behind);
  return b.concat(parts, static_cast<int64_t>(axis));
}

// The element of the axis that stands at each place of the padded one.
Value* padded_from(Builder& b, Value* x, size_t axis, Dim before, Dim behind, bool reflect) {
  sym::Context& sym = b.sym;
  const Dim size = x->shape[axis];
  Value* at = counted(b, sym.neg(before), 1, sym.add(size, sym.add(before, behind)));
  Value* last = b.symbolic(sym.sub(size, b.dim(1)));
  if (reflect) {
    at = b.sub(last, b.op("Abs", {b.sub(last, b.op("Abs", {at}))}));
  } else {
    at = b.op("Min", {b.op("Max", {at, b.scalar_int(DType::Int64, 0)}), last});
  }
  return b.gather(x, at, static_cast<int64_t>(axis));
}

Values pad(const Old& o) {
  if (!o.in(1)) return {};
  Builder& b = o.b;
  Value* x = o.in(0);
  const Vector<Dim>& pads = o.known(1);
  const std::string mode = o.text("mode", "constant");
  const size_t rank = x->rank();
  if (mode == "wrap") o.refuse(19);
  Value* fill = o.in(2);
  const bool zero = !fill || (fill->constant && is_float(fill->dtype));
  if (all_numbers(pads) && is_float(x->dtype) && (mode != "constant" || zero)) {
    Attributes attributes{{"mode", mode}, {"pads", numbers(pads)}};
    if (fill) attributes.push_back({"value", static_cast<float>(fill->constant->reals()[0])});
    return {b.op("Pad", {x}, attributes)};
  }
  fill = fill ? b.cast(fill, x->dtype) : b.scalar_int(x->dtype, 0);
  for (size_t axis = 0; axis < rank; ++axis) {
    const Dim zero_size = b.dim(0);
    Dim before = pads[axis], behind = pads[rank + axis];
    if (before.is(0) && behind.is(0)) continue;
    auto negative = [](Dim d) { return d.upper().value_or(0) < 0; };
    if (negative(before) || negative(behind)) {
      const Dim size = x->shape[axis];
      x = b.slice(x, static_cast<int64_t>(axis), negative(before) ? b.sym.neg(before) : zero_size,
                  negative(behind) ? b.sym.add(size, behind) : size);
      if (negative(before)) before = zero_size;
      if (negative(behind)) behind = zero_size;
    }
    x = mode == "constant" ? padded_with(b, x, axis, before, behind, fill)
                           : padded_from(b, x, axis, before, behind, mode == "reflect");
  }
  return {x};
}

Values range(const Old& o) {
  Builder& b = o.b;
  const Value *start = o.in(0), *limit = o.in(1), *delta = o.in(2);
  const DType t = start->dtype;
  Dim n = o.out().shape[0];
  const auto step = delta->contents ? std::optional(delta->contents->front()) : std::nullopt;
  const bool upward = step && step->lower().value_or(0) > 0 && !is_float(t);
  if (start->contents && limit->contents && upward) {
    const Dim span = b.sym.sub(limit->contents->front(), start->contents->front());
    n = b.sym.max(b.sym.ceil_div(span, *step), b.dim(0));
  } else if (!n.is_constant()) {
    // The number of elements shows only at run time.
    if (!upward) o.refuse();
    Value* span = b.cast(b.sub(o.in(1), o.in(0)), DType::Int64);
    Value* count = b.div(b.add(span, b.symbolic(b.sym.sub(*step, b.dim(1)))), b.symbolic(*step));
    n = b.symbol_of(b.op("Max", {count, b.scalar_int(DType::Int64, 0)}), "range", 0);
  }
  return {b.add(b.mul(b.cast(counted(b, n), t), o.in(2)), o.in(0))};
}

// ---- numbers ------------------------------------------------------------------------------------------------------

Values clip(const Old& o) {
  if (!o.in(1) && !o.in(2)) return {};
  Builder& b = o.b;
  Value* x = o.in(0);
  Attributes attributes;
  bool plain = is_float(x->dtype);
  const char* names[] = {"min", "max"};
  for (size_t i : {1, 2}) {
    if (!o.in(i)) continue;
    plain = plain && o.in(i)->constant;
    if (!plain) break;
    const double bound = o.in(i)->constant->reals()[0];
    plain = static_cast<double>(static_cast<float>(bound)) == bound;
    attributes.push_back({names[i - 1], static_cast<float>(bound)});
  }
  // Bounds in the wrong order are no mistake to PyTorch, but to runtimes.
  if (plain && attributes.size() == 2)
    plain = std::get<float>(attributes[0].data) <= std::get<float>(attributes[1].data);
  std::reverse(attributes.begin(), attributes.end());
  if (plain) return {b.op("Clip", {x}, attributes)};
  if (o.in(1)) x = b.op("Max", {x, b.cast(o.in(1), x->dtype)});
  if (o.in(2)) x = b.op("Min", {x, b.cast(o.in(2), x->dtype)});
  return {x};
}

Values extremum(const Old& o) {
  if (is_float(o.out().dtype)) return {};
  Value* out = o.in(0);
  for (size_t i = 1; i < o.node.inputs.size(); ++i)
    out = o.b.where(o.b.op(o.node.op_type == "Max" ? "Greater" : "Less", {out, o.in(i)}), out, o.in(i));
  return {out};
}

// Equal compares floating-point numbers from opset 11 on. NaN is not equal to anything.
Values equal(const Old& o) {
  Builder& b = o.b;
  Value *x = o.in(0), *y = o.in(1);
  if (!is_float(x->dtype)) return {};
  Value* differs = b.op("Or", {b.op("Less", {x, y}), b.op("Greater", {x, y})});
  for (Value* v : {x, y})
    if (!(v->constant && v->constant->numel() == 1 && !std::isnan(v->constant->reals()[0])))
      differs = b.op("Or", {differs, b.op("IsNaN", {v})});
  return {b.op("Not", {differs})};
}

double largest_number(DType t) {
  return t == DType::Half       ? 65504.0
         : t == DType::Double   ? std::numeric_limits<double>::max()
         : t == DType::BFloat16 ? 0x1.fep127
                                : static_cast<double>(std::numeric_limits<float>::max());
}

Values is_inf(const Old& o) {
  Builder& b = o.b;
  const double most = largest_number(o.in(0)->dtype);
  if (!o.integer("detect_positive", 1)) return {b.op("Less", {o.in(0), b.scalar(o.in(0)->dtype, -most)})};
  Value* x = o.integer("detect_negative", 1) ? b.op("Abs", {o.in(0)}) : o.in(0);
  return {b.op("Greater", {x, b.scalar(x->dtype, most)})};
}

// To the nearest whole number, of two the even one.
Values round(const Old& o) {
  Builder& b = o.b;
  Value* x = o.in(0);
  auto number = [&](double v) { return b.scalar(x->dtype, v); };
  Value* down = b.op("Floor", {x});
  Value* rest = b.sub(x, down);
  Value* odd = b.op("Greater", {b.sub(down, b.mul(b.op("Floor", {b.mul(down, number(0.5))}), number(2))), number(0.5)});
  Value* half = b.op("Not", {b.op("Less", {rest, number(0.5)})});
  Value* up = b.op("Or", {b.op("Greater", {rest, number(0.5)}), b.op("And", {half, odd})});
  return {b.where(up, b.add(down, number(1)), down)};
}

// The remainder has the sign of the divisor, or with fmod that of the dividend.
Values mod(const Old& o) {
  Builder& b = o.b;
  Value *x = o.in(0), *y = o.in(1);
  if (is_float(x->dtype)) o.refuse();
  Value* rest = b.sub(x, b.mul(b.div(x, y), y));
  if (o.integer("fmod", 0)) return {rest};
  Value* zero = b.scalar_int(x->dtype, 0);
  Value* across = b.op("Xor", {b.op("Less", {rest, zero}), b.op("Less", {y, zero})});
  Value* some = b.op("Not", {b.op("Equal", {rest, zero})});
  return {b.where(b.op("And", {some, across}), b.add(rest, y), rest)};
}

// Sums over 2, 4, 8, ... neighbors: each step adds what is that far before.
Values cumulated(const Old& o) {
  Builder& b = o.b;
  Value* x = o.in(0);
  int64_t axis = *o.known(1)[0].constant();
  if (axis < 0) axis += static_cast<int64_t>(x->rank());
  const auto size = x->shape[static_cast<size_t>(axis)].constant();
  if (!size) o.refuse();
  const bool reverse = o.integer("reverse", 0) != 0;
  auto moved = [&](Value* v, int64_t by) {
    Shape zeros = v->shape;
    zeros[static_cast<size_t>(axis)] = b.dim(std::min(by, *size));
    Value* none = b.full(zeros, b.scalar_int(v->dtype, 0));
    const Dim kept = b.dim(std::max<int64_t>(*size - by, 0));
    if (by >= *size) return none;
    return reverse ? b.concat({b.slice(v, axis, b.dim(by), b.dim(*size)), none}, axis)
                   : b.concat({none, b.slice(v, axis, b.dim(0), kept)}, axis);
  };
  if (o.integer("exclusive", 0)) x = moved(x, 1);
  for (int64_t by = 1; by < *size; by *= 2) x = b.add(x, moved(x, by));
  return {x};
}

Values thresholded(const Old& o) {
  const Attribute* a = o.node.attribute("alpha");
  Value* x = o.in(0);
  Value* alpha = o.b.scalar(x->dtype, a ? std::get<float>(a->data) : 1.0f);
  return {o.b.where(o.b.op("Greater", {x, alpha}), x, o.b.scalar(x->dtype, 0))};
}

// ---- layers -------------------------------------------------------------------------------------------------------

// The addend of Gemm may be left out from opset 11 on.
Values gemm(const Old& o) {
  if (o.in(2)) return {};
  return {o.b.op("Gemm", {o.in(0), o.in(1), o.b.scalar(o.in(0)->dtype, 0)}, o.node.attributes)};
}

Values pool(const Old& o) {
  if (o.integer("ceil_mode", 0) || o.node.attribute("dilations")) o.refuse();
  if (!o.node.attribute("ceil_mode")) return {};
  Attributes rest;
  for (const Attribute& a : o.node.attributes)
    if (a.name != "ceil_mode") rest.push_back(a);
  return o.b.op_n(o.node.op_type, o.node.inputs, rest, o.node.outputs.size());
}

/// Resizing of one axis: each result is a sum of neighbors with weights, all found by their positions.
class Axis {
 public:
  Axis(const Old& o, size_t axis, Value* factor)
      : o_(o), b_(o.b), axis_(axis), in_(o.in(0)->shape[axis]), out_(o.out().shape[axis]) {
    type_ = o.in(0)->dtype == DType::Double ? DType::Double : DType::Float;
    transform_ = o.text("coordinate_transformation_mode", "half_pixel");
    factor_ = factor;
  }

  Value* resized(Value* x) {
    const std::string mode = o_.text("mode", "nearest");
    Value* place = b_.cast(counted(b_, out_), type_);
    if (mode == "nearest") {
      if (transform_ == "half_pixel") place = b_.add(place, number(0.5));
      return at(x, b_.op("Floor", {b_.mul(place, factor())}));
    }
    if (transform_ == "half_pixel") {
      place = b_.sub(b_.mul(b_.add(place, number(0.5)), factor()), number(0.5));
      if (mode == "linear") place = b_.op("Max", {place, number(0)});
    } else {
      place = b_.mul(place, factor());
    }
    Value* first = b_.op("Floor", {place});
    Value* t = b_.sub(place, first);
    Value* rest = b_.sub(number(1), t);
    if (mode == "linear") return b_.add(tap(x, first, 0, rest), tap(x, first, 1, t));
    const Attribute* coefficient = o_.node.attribute("cubic_coeff_a");
    const double a = coefficient ? static_cast<double>(std::get<float>(coefficient->data)) : -0.75;
    Value* sum = b_.add(tap(x, first, -1, outer(t, a)), tap(x, first, 0, inner(t, a)));
    return b_.add(b_.add(sum, tap(x, first, 1, inner(rest, a))), tap(x, first, 2, outer(rest, a)));
  }

 private:
  Value* number(double v) { return b_.scalar(type_, v); }
  Value* size(Dim d) { return b_.cast(b_.symbolic(d), type_); }

  // How far apart the places of two neighbors are.
  Value* factor() {
    if (factor_) return b_.cast(factor_, type_);
    if (transform_ != "align_corners") return b_.div(size(in_), size(out_));
    const Dim one = b_.dim(1);
    return b_.div(size(b_.sym.sub(in_, one)), size(b_.sym.max(b_.sym.sub(out_, one), one)));
  }

  Value* at(Value* x, Value* place) {
    place = b_.op("Min", {b_.op("Max", {place, number(0)}), size(b_.sym.sub(in_, b_.dim(1)))});
    return b_.gather(x, b_.cast(place, DType::Int64), static_cast<int64_t>(axis_));
  }

  Value* tap(Value* x, Value* first, double offset, Value* weight) {
    return b_.mul(at(x, b_.add(first, number(offset))), along(b_, weight, axis_, x->rank()));
  }

  // The cubic's weights: of the two nearest, at distance t, and of the two beyond, at distance t + 1.
  Value* inner(Value* t, double a) {
    Value* v = b_.sub(b_.mul(t, number(a + 2)), number(a + 3));
    return b_.add(b_.mul(b_.mul(v, t), t), number(1));
  }
  Value* outer(Value* t, double a) {
    Value* u = b_.add(t, number(1));
    Value* v = b_.add(b_.mul(b_.sub(b_.mul(u, number(a)), number(5 * a)), u), number(8 * a));
    return b_.sub(b_.mul(v, u), number(4 * a));
  }

  const Old& o_;
  Builder& b_;
  size_t axis_;
  Dim in_, out_;
  DType type_;
  std::string transform_;
  Value* factor_;
};

Values resize(const Old& o) {
  if (o.node.inputs.size() == 2) return {};
  Builder& b = o.b;
  Value* x = o.in(0);
  Value* scales = o.in(2);
  if (scales && scales->shape[0].is(0)) scales = nullptr;
  if (scales && !scales->constant) o.refuse();
  const std::string transform = o.text("coordinate_transformation_mode", "half_pixel");
  if (transform != "half_pixel" && transform != "asymmetric" && transform != "align_corners") o.refuse();
  // Whole numbers of copies are what the operator of that time gives; runtimes do not have it for float64.
  Vector<float> copies;
  for (size_t i = 0; i < x->rank(); ++i) {
    const auto n = b.sym.divide_exactly(o.out().shape[i], x->shape[i]);
    const double scale = scales                  ? scales->constant->reals()[i]
                         : n && n->is_constant() ? static_cast<double>(*n->constant())
                                                 : 0;
    if (n && n->is_constant() && scale == static_cast<double>(*n->constant()))
      copies.push_back(static_cast<float>(scale));
  }
  if (copies.size() == x->rank() && x->dtype != DType::Double && transform == "asymmetric" &&
      o.text("mode", "") == "nearest")
    return {b.op(b.opset() >= 10 ? "Resize" : "Upsample", {x, b.floats(copies)}, {{"mode", std::string("nearest")}})};
  const DType type = x->dtype;
  if (type != DType::Double) x = b.cast(x, DType::Float);
  for (size_t i = 0; i < x->rank(); ++i) {
    const double scale = scales ? scales->constant->reals()[i] : 0;
    if (scales ? scale == 1 : x->shape[i] == o.out().shape[i]) continue;
    x = Axis(o, i, scales ? b.scalar(DType::Float, 1 / scale) : nullptr).resized(x);
  }
  return {b.cast(x, type)};
}

// A mode other than the first came with opset 11.
Values depth_to_space(const Old& o) {
  if (o.text("mode", "DCR") == "DCR") return {};
  Builder& b = o.b;
  const Shape &s = o.in(0)->shape, &to = o.out().shape;
  const Dim block = b.dim(o.integer("blocksize", 1));
  Value* x = b.reshape(o.in(0), {s[0], to[1], block, block, s[2], s[3]});
  return {b.reshape(b.transpose(x, {0, 1, 4, 2, 5, 3}), to)};
}

struct OlderForm {
  std::string_view op;
  int since;  // the first opset that has the operator in its present form
  Values (*express)(const Old&);
};

constexpr OlderForm older_forms[] = {
    {"AveragePool", 10, pool},
    {"Clip", 11, clip},
    {"CumSum", 11, cumulated},
    {"DepthToSpace", 11, depth_to_space},
    {"Equal", 11, equal},
    {"Gather", 11, gather},
    {"GatherElements", 11, gather_elements},
    {"GatherND", 12, gather_nd},
    {"Gemm", 11, gemm},
    {"IsInf", 10, is_inf},
    {"Max", 12, extremum},
    {"MaxPool", 10, pool},
    {"Min", 12, extremum},
    {"Mod", 10, mod},
    {"Pad", 11, pad},
    {"Range", 11, range},
    {"Resize", 11, resize},
    {"Round", 11, round},
    {"ScatterElements", 11, scatter_elements},
    {"ScatterND", 11, scatter_nd},
    {"Slice", 10, slice},
    {"ThresholdedRelu", 10, thresholded},
    {"TopK", 11, top_k},
};

}  // namespace

Vector<Value*> in_older_opset(Builder& builder, const Node& node) {
  const auto row = std::lower_bound(std::begin(older_forms), std::end(older_forms), node.op_type,
                                    [](const OlderForm& r, const std::string& op) { return r.op < op; });
  if (row == std::end(older_forms) || row->op != node.op_type || builder.opset() >= row->since) return {};
  return row->express(Old(builder, node, row->since));
}

}  // namespace lithify::onnx
