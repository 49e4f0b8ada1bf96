#include "ops/slicing.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "eval/overlap.hpp"
#include "ops/elementwise.hpp"

namespace lithify::ops {
namespace {

using eval::unclamped_bound;
using onnx::Builder;
using onnx::Dim;
using onnx::Shape;
using OnnxValue = onnx::Value;

// Constants that only replace a few nodes stay below this many elements.
constexpr int64_t constant_limit = 1 << 14;

// One number that fills the tensor, or what was expanded to it; else the value itself. It broadcasts to the value.
OnnxValue* before_expansion(Builder& b, OnnxValue* v) {
  if (v->producer && v->producer->op_type == "Expand") return v->producer->inputs[0];
  if (!v->is_constant() || v->constant->numel() < 2 || v->constant->numel() > constant_limit || !v->constant->view())
    return v;
  std::vector<std::byte> bytes = v->constant->view()->dense_bytes();
  size_t each = byte_size(v->dtype);
  for (size_t i = each; i < bytes.size(); ++i)
    if (bytes[i] != bytes[i - each]) return v;
  bytes.resize(each);
  return b.constant(TensorView::dense(v->dtype, {}, std::move(bytes)));
}

// A node's output with a shape that is known better than by its operator.
OnnxValue* with_shape(OnnxValue* v, const Shape& shape) {
  if (v->kind == OnnxValue::Kind::Output) v->shape = shape;
  return v;
}

// The size of v at a dimension counted from the end, as broadcasting sees it.
bool is_one_from_end(const OnnxValue* v, size_t from_end) {
  return v->rank() < from_end || v->shape[v->rank() - from_end].is(1);
}

// True at the positions of one axis, to be broadcast over the others.
OnnxValue* axis_mask(Builder& b, int64_t size, const Vector<int64_t>& positions, size_t axes_after) {
  b.sym.budget.spend(Limit::Bytes, static_cast<uint64_t>(size));
  std::vector<bool> mask(static_cast<size_t>(size));
  for (int64_t p : positions) mask.at(static_cast<size_t>(p)) = true;
  Vector<int64_t> sizes(axes_after + 1, 1);
  sizes[0] = size;
  return bools(b, mask, sizes);
}

// The same of positions in [start, end) of an axis whose size may be dynamic.
OnnxValue* slice_mask(Builder& b, Dim size, Dim start, Dim end, size_t axes_after) {
  Shape shape(axes_after + 1, b.dim(1));
  shape[0] = size;
  OnnxValue* at = b.reshape(arange(b, size), shape);
  auto below = [&](Dim bound) { return b.op("Less", {at, b.symbolic(std::span<const Dim>(&bound, 1))}); };
  const Dim first = unclamped_bound(b.sym, start, size), last = unclamped_bound(b.sym, end, size);
  if (first.is(0)) return below(last);
  OnnxValue* from = b.op("Not", {below(first)});
  return last == size ? from : b.op("And", {from, below(last)});
}

// Whether `part` is what the slice takes of x.
bool is_taken(const OnnxValue* x, const OnnxValue* part, const Slice& s) {
  const onnx::Node* node = onnx::made_by(part, "Slice");
  if (!node || node->inputs[0] != x || node->inputs.size() != 5) return false;
  const Vector<Dim> starts{s.start}, ends{s.end};
  const auto& axes = node->inputs[3]->contents;
  return node->inputs[1]->contents == starts && node->inputs[2]->contents == ends && axes && axes->size() == 1 &&
         (*axes)[0].is(s.axis);
}

// A number in some places of a tensor.
struct Filled {
  OnnxValue* mask = nullptr;
  OnnxValue* number = nullptr;
};

// Whether `changed` is what the slice takes of x, with a number in some places that are the same along its axis.
std::optional<Filled> filled(Builder& b, const OnnxValue* x, const OnnxValue* changed, const Slice& s) {
  const onnx::Node* where = onnx::made_by(changed, "Where");
  for (size_t i = 1; where && i <= 2; ++i) {
    OnnxValue *mask = where->inputs[0], *number = where->inputs[i];
    if (number->rank() != 0 || !is_taken(x, where->inputs[3 - i], s)) continue;
    if (is_one_from_end(mask, x->rank() - static_cast<size_t>(s.axis)))
      return Filled{i == 1 ? mask : b.op("Not", {mask}), number};
  }
  return std::nullopt;
}

// Whether all elements of a tensor that is not computed yet are this number.
bool is_filled_with(Builder& b, OnnxValue* x, const OnnxValue* number) {
  if (const onnx::Node* slice = onnx::made_by(x, "Slice")) return is_filled_with(b, slice->inputs[0], number);
  const OnnxValue* fill = before_expansion(b, x);
  return fill->rank() == 0 && fill->dtype == number->dtype && fill->is_constant() && number->is_constant() &&
         fill->constant->view() && number->constant->view() &&
         fill->constant->view()->dense_bytes() == number->constant->view()->dense_bytes();
}

// Positions that are known, of an axis whose size is known.
OnnxValue* put_known(Builder& b, OnnxValue* x, OnnxValue* changed, int64_t axis, const Vector<int64_t>& positions) {
  size_t at = static_cast<size_t>(axis), from_end = x->rank() - at;
  int64_t size = *x->shape[at].constant();
  if (OnnxValue* source = before_expansion(b, changed); is_one_from_end(source, from_end))
    return b.where(axis_mask(b, size, positions, from_end - 1), source, x);
  int64_t count = static_cast<int64_t>(positions.size());
  if (axis == 0 && count <= constant_limit) return b.op("ScatterND", {x, int_array(b, positions, {count, 1}), changed});
  if (positions.back() - positions.front() == count - 1) {
    Vector<Dim> lengths{b.dim(positions.front()), b.dim(count), b.dim(size - positions.back() - 1)};
    size_t index = 1;
    if (lengths[2].is(0)) lengths.pop_back();
    if (lengths[0].is(0)) lengths.erase(lengths.begin()), index = 0;
    if (lengths.size() == 3) return Piece{axis, std::make_shared<Vector<Dim>>(lengths), index}.put(b, x, changed);
    return index == 0 ? b.concat({changed, b.slice(x, axis, b.dim(count), b.dim(to_the_end))}, axis)
                      : b.concat({b.slice(x, axis, b.dim(0), lengths[0]), changed}, axis);
  }
  Vector<int64_t> order = known_elements<int64_t>(b.sym, size);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = 0; i < count; ++i) order[static_cast<size_t>(positions[static_cast<size_t>(i)])] = size + i;
  return b.gather(b.concat({x, changed}, axis), b.ints(order), axis);
}

}  // namespace

Dim from_the_end(sym::Context& sym, Dim bound, Dim size) {
  std::optional<int64_t> back = sym.sub(size, bound).constant();
  bool exact = back && *back > 0 && !bound.is_constant() && *back <= 2 * size.lower().value_or(0);
  return exact ? sym.constant(-*back) : bound;
}

Dim clamped_bound(sym::Context& sym, Dim bound, Dim size) {
  Dim zero = sym.constant(0);
  if (bound == size || bound.is(to_the_end)) return size;
  if (bound.is(std::numeric_limits<int64_t>::min())) return zero;
  if (bound.lower().value_or(-1) >= 0) {
    if (bound.is_constant() || sym.less(size, bound) == true) return sym.min(bound, size);
    if (sym.less_equal(bound, size) == true) return bound;
    if (sym.has_iterations(bound) || sym.sample(bound).value_or(0) > sym.sample(size).value_or(to_the_end))
      return sym.min(bound, size);
    sym.assume({sym::Assumption::Kind::AtMost, bound, size});
    return bound;
  }
  return sym.max(unclamped_bound(sym, bound, size), zero);
}

namespace {

// A bound of unknown sign counted from the start: the builder takes only those that it knows to count from one end.
Dim with_known_sign(sym::Context& sym, Dim bound, Dim size) {
  const bool known = bound.is_constant() || bound.lower().value_or(-1) >= 0 || bound.upper().value_or(0) < 0;
  return known ? bound : sym.min(clamped_bound(sym, bound, size), size);
}

}  // namespace

Slice python_slice(sym::Context& sym, int64_t axis, Dim size, Dim start, Dim end, int64_t step) {
  Slice s{axis, with_known_sign(sym, from_the_end(sym, start, size), size),
          with_known_sign(sym, from_the_end(sym, end, size), size), step};
  if (s.start.is_constant() && s.end.is_constant()) return s;
  Dim count = sym.sub(clamped_bound(sym, s.end, size), clamped_bound(sym, s.start, size));
  const Dim none = sym.constant(0);
  s.length = sym.ceil_div(sym.less_equal(none, count) == true ? count : sym.max(count, none), sym.constant(step));
  return s;
}

OnnxValue* Slice::take(Builder& b, OnnxValue* x) const {
  OnnxValue* out = b.slice(x, axis, start, end, step);
  if (length && out != x && out->kind == OnnxValue::Kind::Output) out->shape[static_cast<size_t>(axis)] = length;
  return out;
}

OnnxValue* Slice::put(Builder& b, OnnxValue* x, OnnxValue* changed) const {
  Dim size = x->shape[static_cast<size_t>(axis)];
  Dim first = clamped_bound(b.sym, start, size), bound = clamped_bound(b.sym, end, size);
  Dim last = b.sym.max(first, bound);
  if (first.is(0) && last == size && step == 1) return changed;
  if (is_taken(x, changed, *this)) return x;
  if (OnnxValue* number = before_expansion(b, changed); number->rank() == 0 && is_filled_with(b, x, number)) return x;
  // A number in a box of several axes: masks take fewer nodes than pieces.
  const bool is_known = size.is_constant() && first.is_constant() && last.is_constant();
  if (step == 1 && !is_known) {
    const auto mask = [&] { return slice_mask(b, size, start, end, x->rank() - static_cast<size_t>(axis) - 1); };
    if (OnnxValue* number = before_expansion(b, changed); number->rank() == 0 && onnx::made_by(x, "Slice"))
      return b.where(mask(), number, x);
    if (const std::optional<Filled> inner = filled(b, x, changed, *this))
      return b.where(b.op("And", {mask(), inner->mask}), inner->number, x);
  }
  auto padded = [&](OnnxValue* inner, Dim before, Dim after, OnnxValue* fill) {
    Vector<std::pair<Dim, Dim>> pads(x->rank(), {b.dim(0), b.dim(0)});
    pads[static_cast<size_t>(axis)] = {before, after};
    return with_shape(b.pad(inner, pads, "constant", fill), x->shape);
  };
  // A border of one number is padding.
  if (OnnxValue* fill = before_expansion(b, x); step == 1 && fill->rank() == 0)
    return padded(changed, first, b.sym.sub(size, last), fill);
  if (is_known) {
    const int64_t length = std::max<int64_t>(*last.constant() - *first.constant(), 0);
    Vector<int64_t> positions = known_elements<int64_t>(b.sym, length / step + (length % step != 0));
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = *first.constant() + static_cast<int64_t>(i) * step;
    return positions.empty() ? x : put_known(b, x, changed, axis, positions);
  }
  if (step != 1) {
    Dim count = b.sym.ceil_div(b.sym.sub(last, first), b.dim(step));
    return Steps{axis, first, last, b.dim(step), count}.put(b, x, changed);
  }
  // Constants need no arithmetic at run time, so they are used as they were given.
  auto head = [&] { return b.slice(x, axis, b.dim(0), start.is_constant() ? start : first); };
  auto tail = [&] {
    bool in_order = b.sym.less_equal(first, bound) == true;
    return b.slice(x, axis, in_order && end.is_constant() ? end : last, b.dim(to_the_end));
  };
  if (OnnxValue* fill = before_expansion(b, changed); fill->rank() == 0 && (first.is(0) || last == size)) {
    Dim length = b.sym.sub(last, first);
    if (length.is_constant())
      return first.is(0) ? padded(tail(), length, b.dim(0), fill) : padded(head(), b.dim(0), length, fill);
  }
  onnx::Inputs parts;
  if (!first.is(0)) parts.push_back(head());
  parts.push_back(changed);
  if (last != size) parts.push_back(tail());
  return with_shape(b.concat(parts, axis), x->shape);
}

OnnxValue* Steps::take(Builder& b, OnnxValue* x) const { return b.gather(x, range(b, start, end, step, length), axis); }

OnnxValue* Steps::put(Builder& b, OnnxValue* x, OnnxValue* changed) const {
  Shape index_shape(x->rank(), b.dim(1));
  index_shape[static_cast<size_t>(axis)] = length;
  OnnxValue* index = b.reshape(range(b, start, end, step, length), index_shape);
  return b.op("ScatterElements", {x, b.expand(index, changed->shape), changed}, {{"axis", axis}});
}

OnnxValue* Select::put(Builder& b, OnnxValue* x, OnnxValue* changed) const {
  size_t at = static_cast<size_t>(axis);
  Dim size = x->shape[at];
  if (size.is(1)) return b.unsqueeze(changed, {axis});
  Dim position = index;
  if (index.is_constant() && *index.constant() < 0 && size.is_constant()) position = b.sym.add(size, index);
  OnnxValue* source = before_expansion(b, changed);
  size_t after = x->rank() - at - 1;
  if (size.is_constant() && position.is_constant() && (axis != 0 || source != changed)) {
    if (source->rank() > after) source = b.unsqueeze(source, {static_cast<int64_t>(source->rank() - after)});
    return b.where(axis_mask(b, *size.constant(), {*position.constant()}, after), source, x);
  }
  if (axis == 0) return b.op("ScatterND", {x, b.symbolic(std::span<const Dim>(&position, 1)), changed});
  Dim next = position.is(-1) ? b.dim(to_the_end) : b.sym.add(position, b.dim(1));
  // One number stays one: it needs no dimension.
  Shape to = changed->shape;
  to.insert(to.begin() + axis, b.dim(1));
  return Slice{axis, position, next}.put(b, x,
                                         source->rank() == 0 ? b.expand(source, to) : b.unsqueeze(changed, {axis}));
}

// Cuts that are a number away from the start or the end need no arithmetic as slices.
Vector<OnnxValue*> Piece::all(Builder& b, OnnxValue* x) const {
  Dim size = x->shape[static_cast<size_t>(axis)], at = b.dim(0);
  Vector<Slice> slices;
  bool simple = lengths->size() > 1 && !known(*lengths);
  for (Dim length : *lengths) {
    Dim end = b.sym.add(at, length);
    slices.push_back({axis, from_the_end(b.sym, at, size), from_the_end(b.sym, end, size), 1, length});
    simple = simple && slices.back().start.is_constant() && (end == size || slices.back().end.is_constant());
    at = end;
  }
  if (!simple) return b.split(x, *lengths, axis);
  Vector<OnnxValue*> out;
  for (const Slice& s : slices) out.push_back(s.take(b, x));
  return out;
}

OnnxValue* Piece::put(Builder& b, OnnxValue* x, OnnxValue* changed) const {
  Vector<OnnxValue*> parts = all(b, x);
  parts[index] = changed;
  return b.concat(parts, axis);
}

OnnxValue* Diagonal::take(Builder& b, OnnxValue* x) const {
  Vector<int64_t> perm;
  Shape flat;
  for (size_t i = 0; i < x->rank(); ++i) {
    int64_t d = static_cast<int64_t>(i);
    if (d == dim1 || d == dim2) continue;
    perm.push_back(d);
    flat.push_back(x->shape[i]);
  }
  perm.insert(perm.end(), {dim1, dim2});
  Dim rows = x->shape[static_cast<size_t>(dim1)], columns = x->shape[static_cast<size_t>(dim2)];
  flat.push_back(b.sym.mul(rows, columns));
  OnnxValue* y = b.reshape(b.transpose(x, perm), flat);

  sym::Context& sym = b.sym;
  Dim shifted_rows = offset < 0 ? sym.add(rows, b.dim(offset)) : rows;
  Dim shifted_columns = offset > 0 ? sym.sub(columns, b.dim(offset)) : columns;
  Dim length = sym.max(sym.min(shifted_rows, shifted_columns), b.dim(0));
  Dim start = offset >= 0 ? b.dim(offset) : sym.mul(b.dim(-offset), columns);
  Dim stride = sym.add(columns, b.dim(1));
  int64_t last = static_cast<int64_t>(flat.size()) - 1;
  if (length.is(0)) return b.slice(y, last, b.dim(0), b.dim(0));
  if (!length.is_constant() || !stride.is_constant() || !start.is_constant())
    return b.gather(y, range(b, start, sym.add(start, sym.mul(stride, length)), stride, length), last);
  Dim end = sym.add(start, sym.add(sym.mul(sym.sub(length, b.dim(1)), stride), b.dim(1)));
  return Slice{last, start, end, *stride.constant(), length}.take(b, y);
}

// `values` has the diagonal as its last dimension. Where the diagonal is not, `elsewhere` is taken.
OnnxValue* Diagonal::merge(Builder& b, OnnxValue* values, Dim rows, Dim columns, size_t rank,
                           OnnxValue* elsewhere) const {
  int64_t before = offset < 0 ? -offset : 0;
  Dim after = b.sym.sub(b.sym.sub(rows, values->shape.back()), b.dim(before));
  Vector<std::pair<Dim, Dim>> pads(values->rank(), {b.dim(0), b.dim(0)});
  pads.back() = {b.dim(before), after};
  OnnxValue* column = b.pad(values, pads, "constant");
  column = b.unsqueeze(column, {static_cast<int64_t>(column->rank())});
  Vector<int64_t> perm;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (d != dim1 && d != dim2) perm.push_back(d);
  perm.insert(perm.end(), {dim1, dim2});
  column = b.transpose(column, inverse_permutation(perm));

  bool in_order = dim1 < dim2;
  Dim upper = in_order ? rows : columns, lower = in_order ? columns : rows;
  int64_t shift = in_order ? offset : -offset;
  size_t high = static_cast<size_t>(std::min(dim1, dim2)), low = static_cast<size_t>(std::max(dim1, dim2));
  Shape upper_shape(rank - high, b.dim(1)), lower_shape(rank - low, b.dim(1));
  upper_shape[0] = upper;
  lower_shape[0] = lower;
  OnnxValue* mask = nullptr;
  if (upper.is_constant() && lower.is_constant() &&
      checked_mul(*upper.constant(), *lower.constant()) <= constant_limit) {
    Vector<int64_t> sizes(rank - high, 1);
    sizes[0] = *upper.constant();
    sizes[low - high] = *lower.constant();
    std::vector<bool> on;
    for (int64_t i = 0; i < *upper.constant(); ++i)
      for (int64_t j = 0; j < *lower.constant(); ++j) on.push_back(j - i == shift);
    mask = bools(b, on, sizes);
  } else {
    OnnxValue* i = b.reshape(range(b, b.dim(shift), b.sym.add(upper, b.dim(shift)), b.dim(1), upper), upper_shape);
    mask = b.op("Equal", {i, b.reshape(arange(b, lower), lower_shape)});
  }
  return b.where(mask, column, elsewhere);
}

OnnxValue* Diagonal::put(Builder& b, OnnxValue* x, OnnxValue* changed) const {
  return merge(b, changed, x->shape[static_cast<size_t>(dim1)], x->shape[static_cast<size_t>(dim2)], x->rank(), x);
}

OnnxValue* Diagonal::embed(Builder& b, OnnxValue* values) const {
  Dim size = b.sym.add(values->shape.back(), b.dim(offset < 0 ? -offset : offset));
  return merge(b, values, size, size, values->rank() + 1, b.scalar_int(values->dtype, 0));
}

Diagonal diagonal_of(eval::Call& c, size_t rank) {
  Diagonal d{c.integer("offset"), c.dim("dim1", rank), c.dim("dim2", rank)};
  if (rank < 2 || d.dim1 == d.dim2) c.mismatch("two different dimensions are needed");
  return d;
}

OnnxValue* range(Builder& b, Dim start, Dim end, Dim step, Dim length) {
  OnnxValue* out = b.op("Range", {b.symbolic(start), b.symbolic(end), b.symbolic(step)});
  if (out->kind == OnnxValue::Kind::Output) out->shape = {length};
  return out;
}

OnnxValue* bools(Builder& b, const std::vector<bool>& values, Vector<int64_t> sizes) {
  std::vector<std::byte> bytes;
  for (bool v : values) bytes.push_back(std::byte{v});
  return b.constant(TensorView::dense(DType::Bool, std::move(sizes), std::move(bytes)));
}

OnnxValue* int_array(Builder& b, const Vector<int64_t>& values, Vector<int64_t> sizes) {
  std::vector<std::byte> bytes(values.size() * sizeof(int64_t));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return b.constant(TensorView::dense(DType::Int64, std::move(sizes), std::move(bytes)));
}

Shape at_least(sym::Context& sym, Shape shape, size_t rank) {
  Dim one = sym.constant(1);
  if (shape.empty()) shape.push_back(one);
  if (shape.size() == 1 && rank >= 2) shape.insert(shape.begin(), one);
  if (shape.size() == 2 && rank >= 3) shape.push_back(one);
  return shape;
}

Vector<int64_t> identity_permutation(size_t rank) {
  Vector<int64_t> out(rank);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

Vector<int64_t> inverse_permutation(const Vector<int64_t>& perm) {
  Vector<int64_t> out(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) out[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return out;
}

std::optional<Vector<int64_t>> known(std::span<const Dim> dims) {
  Vector<int64_t> out;
  for (Dim d : dims) {
    if (!d.is_constant()) return std::nullopt;
    out.push_back(*d.constant());
  }
  return out;
}

}  // namespace lithify::ops
