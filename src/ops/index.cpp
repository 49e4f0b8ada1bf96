// Operators that read or write elements by position: indexing, gather and scatter, masks, padding.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/elementwise.hpp"
#include "ops/register.hpp"
#include "ops/slicing.hpp"
#include "sym/contradiction.hpp"

namespace lithify::ops {
namespace {

using onnx::Builder;
using OnnxValue = onnx::Value;

constexpr int64_t before_the_start = std::numeric_limits<int64_t>::min() + 1;

/// A 0-d tensor as one of one element; others as they are.
OnnxValue* at_least_1d(Builder& b, OnnxValue* x) { return b.reshape(x, at_least(b.sym, x->shape, 1)); }
OnnxValue* as_index(Builder& b, OnnxValue* x) { return b.cast(x, DType::Int64); }
bool is_mask(const OnnxValue* v) { return v->dtype == DType::Bool || v->dtype == DType::UInt8; }

/// Gather takes positions of either type.
OnnxValue* gathered(Builder& b, OnnxValue* x, OnnxValue* index, int64_t axis) {
  return b.gather(x, index->dtype == DType::Int32 ? index : as_index(b, index), axis);
}

std::vector<int64_t> in_order(size_t rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  return perm;
}

// ---- slices and single positions ----------------------------------------------------------------------------------

Select select_of(Call& c, const OnnxValue* x) {
  if (x->rank() == 0) c.mismatch("a 0-d tensor has no positions");
  int64_t axis = c.dim("dim", x->rank());
  Dim size = at(x->shape, axis), index = from_the_end(c.sym, c.size("index"), size);
  if (index.is_constant() && size.is_constant())
    if (int64_t i = *index.constant(), n = *size.constant(); i < -n || i >= n)
      c.mismatch(fmt::format("there is no position {} on a dimension of size {}", i, n));
  return {axis, index};
}

Slice slice_of(Call& c, const OnnxValue* x) {
  if (x->rank() == 0) c.mismatch("a 0-d tensor cannot be sliced");
  int64_t axis = c.dim("dim", x->rank()), step = c.integer("step");
  if (step < 1) c.mismatch("the step must be positive");
  Dim start = c.maybe_size("start").value_or(c.sym.constant(0));
  Dim end = c.maybe_size("end").value_or(c.sym.constant(to_the_end));
  return python_slice(c.sym, axis, at(x->shape, axis), start, end, step);
}

// self with src, which has the shape of the part, in place of a part of it.
template <class Part>
Value scattered(Call& c, const Part& part) {
  OnnxValue* x = c.tensor("self");
  return part.put(c.onnx, x, c.tensor_as("src", x->dtype));
}

// ---- indexing by tensors ------------------------------------------------------------------------------------------

/// x[..., index, ...]: one index tensor, or nullptr for a whole dimension, for each dimension of x.
struct Index {
  std::vector<OnnxValue*> tensors;
  std::vector<int64_t> dims;  // that have an index
  Shape shape;                // that the index tensors broadcast to
  bool adjacent = true;       // the indexed dimensions lie side by side: the result has `shape` in their place
  int64_t first() const { return dims.front(); }
  /// Where `shape` is in the result.
  int64_t place() const { return adjacent ? dims.front() : 0; }
};

/// The only mask, when nothing else is indexed; it covers dimensions from `first` on.
struct Mask {
  OnnxValue* mask = nullptr;
  int64_t first = 0;
  int64_t end() const { return first + rank_of(mask); }
};

[[noreturn]] void hard_coded(Call& c, Dim size, Dim given, std::string_view what) {
  throw sym::Contradiction({size, given}, fmt::format("{}: {} of {} for a dimension of {}", c.schema.full_name(), what,
                                                      given.str(), size.str()));
}

/// A mask has the sizes of the dimensions that it covers.
void check_mask(Call& c, const OnnxValue* x, const OnnxValue* mask, size_t first) {
  if (first + mask->rank() > x->rank()) c.mismatch("the mask has more dimensions than the tensor");
  for (size_t i = 0; i < mask->rank(); ++i) {
    const Dim size = x->shape[first + i], given = mask->shape[i];
    const std::optional<bool> same = c.sym.equal(size, given);
    if (same == false) c.mismatch(fmt::format("a mask of {} for a dimension of {}", given.str(), size.str()));
    if (!same && (size.is_constant() || given.is_constant())) hard_coded(c, size, given, "a mask");
  }
}

std::optional<Mask> only_mask(Call& c, const OnnxValue* x, const std::vector<OnnxValue*>& indices) {
  std::optional<Mask> found;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    if (found || !is_mask(indices[i]) || indices[i]->rank() == 0) return std::nullopt;
    found = {c.onnx.cast(indices[i], DType::Bool), static_cast<int64_t>(i)};
  }
  if (found) check_mask(c, x, found->mask, static_cast<size_t>(found->first));
  return found;
}

// Whether v's elements, in order, are 0, 1, 2, ...
bool counts_up(const OnnxValue* v) {
  if (v->contents) {
    for (size_t i = 0; i < v->contents->size(); ++i)
      if (!(*v->contents)[i].is(static_cast<int64_t>(i))) return false;
    return true;
  }
  while (v->producer && (v->producer->op_type == "Reshape" || v->producer->op_type == "Unsqueeze"))
    v = v->producer->inputs[0];
  if (!v->producer || v->producer->op_type != "Range") return false;
  const OnnxValue *start = v->producer->inputs[0], *step = v->producer->inputs[2];
  return start->contents && start->contents->front().is(0) && step->contents && step->contents->front().is(1);
}

// Whether all elements along a dimension are the same one: its size is a number of the program, not of some weight.
bool holds_one(const OnnxValue* x, int64_t d) {
  if (at(x->shape, d).is(1)) return true;
  if (!x->producer || x->producer->op_type != "Expand") return false;
  const Shape& from = x->producer->inputs[0]->shape;
  const int64_t added = rank_of(x) - static_cast<int64_t>(from.size());
  return d < added || at(from, d - added).is(1);
}

Index index_of(Call& c, const OnnxValue* x, const std::vector<OnnxValue*>& indices) {
  Builder& b = c.onnx;
  Index out;
  for (OnnxValue* v : indices) {
    if (!v) {
      out.tensors.push_back(nullptr);
    } else if (is_mask(v)) {
      if (v->rank() == 0) c.unsupported("an index that is a single bool");
      check_mask(c, x, v, out.tensors.size());
      OnnxValue* positions = b.op("NonZero", {b.cast(v, DType::Bool)});
      for (int64_t i = 0; i < rank_of(v); ++i) out.tensors.push_back(b.select(positions, 0, b.dim(i)));
    } else {
      out.tensors.push_back(v);
    }
  }
  if (out.tensors.size() > x->rank())
    c.mismatch(fmt::format("{} indices are given for {} dimensions", out.tensors.size(), x->rank()));
  out.tensors.resize(x->rank(), nullptr);
  for (int64_t d = 0; d < rank_of(x); ++d) {
    OnnxValue* v = out.tensors[static_cast<size_t>(d)];
    if (!v) continue;
    if (Dim n = b.numel(v->shape); !n.is_constant() && holds_one(x, d) && at(x->shape, d).is_constant() && counts_up(v))
      hard_coded(c, at(x->shape, d), n, "all positions");
    out.adjacent = out.adjacent && (out.dims.empty() || out.dims.back() == d - 1);
    out.dims.push_back(d);
    out.shape = b.broadcast(out.shape, v->shape);
  }
  return out;
}

// The index tensors side by side in a last dimension, as GatherND and ScatterND take them; from the given one on.
OnnxValue* joined(Builder& b, const Index& index, size_t begin = 0) {
  onnx::Inputs parts;
  for (size_t i = begin; i < index.dims.size(); ++i) {
    OnnxValue* v = b.expand(as_index(b, index.tensors[static_cast<size_t>(index.dims[i])]), index.shape);
    parts.push_back(b.unsqueeze(v, {rank_of(v)}));
  }
  return b.concat(parts, static_cast<int64_t>(index.shape.size()));
}

// The indexed dimensions first, then the others in their order.
std::vector<int64_t> indexed_first(const Index& index) {
  std::vector<int64_t> perm = index.dims;
  for (size_t d = 0; d < index.tensors.size(); ++d)
    if (!index.tensors[d]) perm.push_back(static_cast<int64_t>(d));
  return perm;
}

// From [index shape, other dimensions] to the order of the result.
std::vector<int64_t> result_order(const Index& index) {
  size_t n = index.shape.size(), others = index.tensors.size() - index.dims.size();
  std::vector<int64_t> perm = in_order(n + others);
  auto moved = perm.begin() + static_cast<std::ptrdiff_t>(n);
  std::rotate(perm.begin(), moved, moved + index.place());
  return perm;
}

Shape result_shape(const Index& index, const OnnxValue* x) {
  Shape out;
  for (size_t d = 0; d < x->rank(); ++d)
    if (!index.tensors[d]) out.push_back(x->shape[d]);
  out.insert(out.begin() + index.place(), index.shape.begin(), index.shape.end());
  return out;
}

// The dimension along which v has the elements 0, 1, 2, ..., size - 1, if all its others are of size 1.
std::optional<size_t> counting_axis(const OnnxValue* v, Dim size) {
  std::optional<size_t> axis;
  for (size_t d = 0; d < v->rank(); ++d) {
    if (v->shape[d].is(1)) continue;
    if (axis || !(v->shape[d] == size)) return std::nullopt;
    axis = d;
  }
  return axis && counts_up(v) ? axis : std::nullopt;
}

// Whether the indices are arange(n).view(-1, 1), arange(m).view(1, -1), ...: then they take every element, in order.
bool in_order(const OnnxValue* x, const Index& index) {
  std::optional<size_t> last;
  for (int64_t d : index.dims) {
    const OnnxValue* v = index.tensors[static_cast<size_t>(d)];
    std::optional<size_t> axis = counting_axis(v, at(x->shape, d));
    if (!axis) return false;
    *axis += index.shape.size() - v->rank();
    if (last && *axis <= *last) return false;
    last = axis;
  }
  return true;
}

std::optional<std::vector<int64_t>> known_contents(const OnnxValue* v) {
  return v->contents ? known(*v->contents) : std::nullopt;
}

// Adjacent dimensions as one, whose positions follow from those on each. All but the first must be of known size.
OnnxValue* index_merged(Builder& b, OnnxValue* x, const Index& index) {
  OnnxValue* position = as_index(b, index.tensors[static_cast<size_t>(index.first())]);
  for (size_t i = 1; i < index.dims.size(); ++i) {
    OnnxValue* size = b.symbolic(at(x->shape, index.dims[i]));
    OnnxValue* inner = as_index(b, index.tensors[static_cast<size_t>(index.dims[i])]);
    // A negative first index gives a negative position; the others count from the end of their own dimension.
    position = b.add(b.mul(position, size), b.op("Mod", {inner, size}));
  }
  Shape to = x->shape;
  auto begin = to.begin() + index.dims.front(), end = to.begin() + index.dims.back() + 1;
  Dim merged = b.sym.product(std::span(begin, end));
  to.insert(to.erase(begin, end), merged);
  return b.gather(b.reshape(x, to), position, index.first());
}

OnnxValue* masked(Builder& b, OnnxValue* x, const Mask& m) {
  OnnxValue* mask = flat(b, m.mask);
  if (m.first == 0 && m.mask->rank() == x->rank()) return b.op("Compress", {x, mask});
  Shape to = x->shape;
  to.erase(to.begin() + m.first, to.begin() + m.end());
  to.insert(to.begin() + m.first, mask->shape[0]);
  return b.op("Compress", {b.reshape(x, to), mask}, {{"axis", m.first}});
}

// By several tensors.
OnnxValue* indexed(Builder& b, OnnxValue* x, const Index& index) {
  OnnxValue* first = index.tensors[static_cast<size_t>(index.first())];
  if (index.adjacent && in_order(x, index)) {
    Shape to = x->shape;
    auto begin = to.begin() + index.first();
    to.insert(to.erase(begin, begin + static_cast<std::ptrdiff_t>(index.dims.size())), index.shape.begin(),
              index.shape.end());
    return b.reshape(x, to);
  }
  // x[arange(n), i] takes one row of each of n.
  if (index.first() == 0 && index.adjacent && first->rank() == index.shape.size() &&
      counting_axis(first, x->shape[0]) == size_t{0})
    return b.op("GatherND", {x, joined(b, index, 1)}, {{"batch_dims", int64_t{1}}});
  bool merges = index.adjacent, expands = false;
  for (int64_t d : index.dims) {
    expands = expands || index.tensors[static_cast<size_t>(d)]->shape != index.shape;
    merges = merges && (d == index.first() || at(x->shape, d).is_constant());
  }
  if (merges && (expands || index.first() > 0)) return index_merged(b, x, index);
  OnnxValue* y = b.op("GatherND", {b.transpose(x, indexed_first(index)), joined(b, index)});
  return b.transpose(y, result_order(index));
}

Value index_rule(Call& c) {
  OnnxValue* x = c.tensor("self");
  std::vector<OnnxValue*> indices = c.maybe_tensors("indices");
  if (std::optional<Mask> mask = only_mask(c, x, indices)) return masked(c.onnx, x, *mask);
  Index index = index_of(c, x, indices);
  if (index.dims.empty()) return x;
  if (index.dims.size() > 1) return indexed(c.onnx, x, index);
  return gathered(c.onnx, x, index.tensors[static_cast<size_t>(index.first())], index.first());
}

// Indices brought within the tensor; what they are for where the mask is false does not matter.
Value clamped_indices(Call& c, const OnnxValue* x) {
  Builder& b = c.onnx;
  std::vector<Value> out;
  std::vector<OnnxValue*> indices = c.maybe_tensors("indices");
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) {
      out.push_back(eval::None{});
      continue;
    }
    Dim size = x->shape.at(i);
    OnnxValue *first = b.symbolic(c.sym.neg(size)), *last = b.symbolic(c.sym.sub(size, c.sym.constant(1)));
    out.push_back(clip(b, as_index(b, indices[i]), first, last));
  }
  return Value::list(std::move(out));
}

Value masked_index(Call& c) {
  OnnxValue* x = c.tensor("self");
  OnnxValue* taken = c.as_tensor(c.call("aten::index", {c.arg("self"), clamped_indices(c, x)}));
  return c.onnx.where(c.onnx.cast(c.tensor("mask"), DType::Bool), taken, c.number("fill", x->dtype));
}

Value masked_index_put_accumulate(Call& c) {
  Builder& b = c.onnx;
  OnnxValue* x = c.tensor("self");
  OnnxValue* values = c.tensor_as("values", x->dtype);
  values = b.where(b.cast(c.tensor("mask"), DType::Bool), values, b.scalar(x->dtype, 0));
  return c.call("aten::index_put", {x, clamped_indices(c, x), values, true});
}

onnx::Attributes reduction(Call& c, std::string_view name) {
  if (name.empty()) return {};
  int since = name == "max" || name == "min" ? 18 : 16;
  if (c.opset() < since) c.needs_opset(since);
  return {{"reduction", std::string(name)}};
}

// Rows of an axis, at positions that a 1-D tensor has.
OnnxValue* scatter_rows(Call& c, OnnxValue* x, int64_t axis, OnnxValue* positions, OnnxValue* rows,
                        std::string_view reduce) {
  Builder& b = c.onnx;
  onnx::Attributes attributes = reduction(c, reduce);
  if (axis == 0) return b.op("ScatterND", {x, b.unsqueeze(positions, {1}), rows}, attributes);
  Shape own(x->rank() - static_cast<size_t>(axis), c.sym.constant(1));
  own[0] = positions->shape[0];
  attributes.insert(attributes.begin(), {"axis", axis});
  return b.op("ScatterElements", {x, b.expand(b.reshape(positions, own), rows->shape), rows}, attributes);
}

// x[mask] = values. A value for all positions, or along dimensions behind the mask, needs no positions.
OnnxValue* put_masked(Call& c, OnnxValue* x, const Mask& m, OnnxValue* values, bool accumulate) {
  Builder& b = c.onnx;
  int64_t behind = rank_of(x) - m.end();
  if (rank_of(values) == behind + 1 && values->shape[0].is(1)) values = b.squeeze(values, {0});
  if (rank_of(values) <= behind) {
    Shape to = m.mask->shape;
    to.resize(to.size() + static_cast<size_t>(behind), c.sym.constant(1));
    return b.where(b.reshape(m.mask, to), accumulate ? b.add(x, values) : values, x);
  }
  if (m.first != 0) return nullptr;
  OnnxValue* positions = b.op("NonZero", {m.mask});
  Shape to{values->rank() == static_cast<size_t>(behind) + 1 ? values->shape[0] : positions->shape[1]};
  to.insert(to.end(), x->shape.begin() + m.end(), x->shape.end());
  return b.op("ScatterND", {x, b.transpose(positions, {1, 0}), b.expand(values, to)},
              reduction(c, accumulate ? "add" : ""));
}

Value index_put(Call& c) {
  Builder& b = c.onnx;
  OnnxValue* x = c.tensor("self");
  OnnxValue* values = c.tensor_as("values", x->dtype);
  bool accumulate = c.flag("accumulate");
  std::vector<OnnxValue*> indices = c.maybe_tensors("indices");
  if (std::optional<Mask> mask = only_mask(c, x, indices))
    if (OnnxValue* y = put_masked(c, x, *mask, values, accumulate)) return y;
  Index index = index_of(c, x, indices);
  if (index.dims.empty()) return accumulate ? b.add(x, values) : b.expand(values, x->shape);
  values = b.expand(values, result_shape(index, x));
  std::string_view reduce = accumulate ? "add" : "";
  if (index.dims.size() == 1) {
    int64_t axis = index.first();
    OnnxValue* positions = flat(b, as_index(b, index.tensors[static_cast<size_t>(axis)]));
    Shape rows = x->shape;
    at(rows, axis) = positions->shape[0];
    return scatter_rows(c, x, axis, positions, b.reshape(values, rows), reduce);
  }
  std::vector<int64_t> order = indexed_first(index);
  OnnxValue* updates = b.transpose(values, inverse_permutation(result_order(index)));
  OnnxValue* y = b.op("ScatterND", {b.transpose(x, order), joined(b, index), updates}, reduction(c, reduce));
  return b.transpose(y, inverse_permutation(order));
}

// ---- along one dimension ------------------------------------------------------------------------------------------

/// The operands of operators that have a tensor of positions for one dimension. A 0-d tensor counts as 1-D.
struct Along {
  OnnxValue* x;
  int64_t dim;
  OnnxValue* index;
};

Along along(Call& c) {
  OnnxValue* x = at_least_1d(c.onnx, c.tensor("self"));
  return {x, c.dim("dim", x->rank()), at_least_1d(c.onnx, as_index(c.onnx, c.tensor("index")))};
}

Value like_self(Call& c, OnnxValue* y) { return c.onnx.reshape(y, c.tensor("self")->shape); }

Value index_select(Call& c) {
  OnnxValue *x = at_least_1d(c.onnx, c.tensor("self")), *index = at_least_1d(c.onnx, c.tensor("index"));
  if (index->rank() != 1) c.mismatch("the index must have one dimension");
  OnnxValue* y = gathered(c.onnx, x, index, c.dim("dim", x->rank()));
  return c.tensor("self")->rank() == 0 ? like_self(c, y) : Value(y);
}

// The rows of `source`, made to fit where rows of self are replaced.
OnnxValue* rows_of(Call& c, const Along& a, std::string_view source) {
  OnnxValue* rows = c.tensor_as(source, a.x->dtype);
  Shape to = a.x->shape;
  at(to, a.dim) = a.index->shape[0];
  return rows->rank() == 0 ? c.onnx.expand(rows, to) : rows;
}

Value index_add(Call& c) {
  Along a = along(c);
  OnnxValue* rows = rows_of(c, a, "source");
  rows = c.onnx.mul(rows, c.number("alpha", rows->dtype));
  return like_self(c, scatter_rows(c, a.x, a.dim, a.index, rows, "add"));
}

Value index_copy(Call& c) {
  Along a = along(c);
  return like_self(c, scatter_rows(c, a.x, a.dim, a.index, rows_of(c, a, "source"), ""));
}

Value index_fill(Call& c) {
  Along a = along(c);
  OnnxValue* value = c.number("value", a.x->dtype);
  std::optional<int64_t> size = at(a.x->shape, a.dim).constant();
  if (auto positions = known_contents(a.index); positions && size) {
    std::vector<bool> mask(static_cast<size_t>(*size));
    for (int64_t p : *positions) mask.at(static_cast<size_t>(p < 0 ? p + *size : p)) = true;
    std::vector<int64_t> sizes(a.x->rank() - static_cast<size_t>(a.dim), 1);
    sizes[0] = *size;
    return like_self(c, c.onnx.where(bools(c.onnx, mask, sizes), value, a.x));
  }
  Shape to = a.x->shape;
  at(to, a.dim) = a.index->shape[0];
  return like_self(c, scatter_rows(c, a.x, a.dim, a.index, c.onnx.expand(value, to), ""));
}

Value gather(Call& c) {
  Along a = along(c);
  OnnxValue* y = c.onnx.op("GatherElements", {a.x, a.index}, {{"axis", a.dim}});
  return c.onnx.reshape(y, c.tensor("index")->shape);
}

// src may be larger than the index: what lies beyond is not used.
OnnxValue* cut_to(Builder& b, OnnxValue* x, const Shape& to) {
  for (int64_t d = 0; d < rank_of(x); ++d)
    if (!(at(x->shape, d) == at(to, d))) x = Slice{d, b.dim(0), at(to, d), 1, at(to, d)}.take(b, x);
  return x;
}

OnnxValue* scatter_elements(Call& c, const Along& a, OnnxValue* x, OnnxValue* updates, std::string_view reduce) {
  if (x->dtype == DType::Bool && (reduce == "max" || reduce == "min")) {
    auto number = [&](OnnxValue* v) { return c.onnx.cast(v, DType::Int32); };
    return c.onnx.cast(scatter_elements(c, a, number(x), number(updates), reduce), DType::Bool);
  }
  onnx::Attributes attributes = reduction(c, reduce);
  attributes.insert(attributes.begin(), {"axis", a.dim});
  return c.onnx.op("ScatterElements", {x, a.index, updates}, attributes);
}

OnnxValue* updates_of(Call& c, const Along& a) {
  OnnxValue* source = at_least_1d(c.onnx, c.tensor_as("src", a.x->dtype));
  if (source->rank() != a.index->rank()) c.mismatch("index and src differ in their numbers of dimensions");
  return cut_to(c.onnx, source, a.index->shape);
}

// What leaves every number as it is when it is reduced with it.
OnnxValue* neutral(Call& c, std::string_view reduce, DType dtype) {
  if (reduce == "add" || reduce == "mean") return c.onnx.scalar_int(dtype, 0);
  if (reduce == "mul") return c.onnx.scalar_int(dtype, 1);
  bool max = reduce == "max";
  double infinity = std::numeric_limits<double>::infinity();
  if (is_float(dtype)) return c.onnx.scalar(dtype, max ? -infinity : infinity);
  int64_t bits = static_cast<int64_t>(byte_size(dtype)) * 8;
  if (is_unsigned(dtype) || dtype == DType::Bool)
    return c.onnx.scalar_int(dtype, max ? 0 : dtype == DType::Bool ? 1 : -1);
  int64_t highest = std::numeric_limits<int64_t>::max() >> (64 - bits);
  return c.onnx.scalar_int(dtype, max ? -highest - 1 : highest);
}

// `put` scatters updates into a tensor by a reduction; `fill` scatters one number.
template <class Put, class Fill>
OnnxValue* reduced(Call& c, OnnxValue* x, std::string_view reduce, bool include_self, Put put, Fill fill) {
  Builder& b = c.onnx;
  if (!include_self) x = fill(x, neutral(c, reduce, x->dtype));
  if (reduce != "mean") return put(x, reduce);
  OnnxValue* sum = put(x, "add");
  OnnxValue* one = b.scalar_int(x->dtype, 1);
  OnnxValue* ones = b.expand(one, x->shape);
  if (!include_self) ones = fill(ones, neutral(c, "add", x->dtype));
  // Counts are the sums of ones; positions that nothing was scattered to have a count of 1.
  OnnxValue* count = put(ones, "count");
  if (is_float(x->dtype)) return b.div(sum, count);
  return c.as_tensor(c.call("aten::floor_divide", {Value(sum), Value(count)}), x->dtype);
}

std::string onnx_reduction(Call& c, const std::string& name) {
  static const std::pair<const char*, const char*> names[] = {{"sum", "add"},      {"add", "add"},  {"prod", "mul"},
                                                              {"multiply", "mul"}, {"amax", "max"}, {"amin", "min"},
                                                              {"mean", "mean"}};
  for (auto [torch, onnx] : names)
    if (name == torch) return onnx;
  c.unsupported(fmt::format("the reduction '{}'", name));
}

Value scatter_reduce(Call& c, OnnxValue* updates, const std::string& reduce, bool include_self) {
  Along a = along(c);
  auto put = [&](OnnxValue* x, std::string_view how) {
    if (how != "count") return scatter_elements(c, a, x, updates, how);
    return scatter_elements(c, a, x, c.onnx.expand(c.onnx.scalar_int(x->dtype, 1), a.index->shape), "add");
  };
  auto fill = [&](OnnxValue* x, OnnxValue* number) {
    return scatter_elements(c, a, x, c.onnx.expand(number, a.index->shape), "");
  };
  return like_self(c, reduced(c, a.x, onnx_reduction(c, reduce), include_self, put, fill));
}

Value index_reduce(Call& c) {
  Along a = along(c);
  OnnxValue* rows = rows_of(c, a, "source");
  auto put = [&](OnnxValue* x, std::string_view how) {
    if (how != "count") return scatter_rows(c, x, a.dim, a.index, rows, how);
    return scatter_rows(c, x, a.dim, a.index, c.onnx.expand(c.onnx.scalar_int(x->dtype, 1), rows->shape), "add");
  };
  auto fill = [&](OnnxValue* x, OnnxValue* number) {
    return scatter_rows(c, x, a.dim, a.index, c.onnx.expand(number, rows->shape), "");
  };
  return like_self(c, reduced(c, a.x, onnx_reduction(c, c.text("reduce")), c.flag("include_self"), put, fill));
}

Value take_along_dim(Call& c) {
  Builder& b = c.onnx;
  OnnxValue *x = c.tensor("self"), *index = as_index(b, c.tensor("indices"));
  if (c.none("dim")) return b.op("GatherElements", {flat(b, x), flat(b, index)}, {{"axis", int64_t{0}}});
  if (x->rank() != index->rank()) c.mismatch("self and indices differ in their numbers of dimensions");
  int64_t dim = c.dim("dim", x->rank());
  Shape to_x = x->shape, to_index = index->shape;
  at(to_x, dim) = at(to_index, dim) = c.sym.constant(1);
  to_x = to_index = b.broadcast(to_x, to_index);
  at(to_x, dim) = at(x->shape, dim);
  at(to_index, dim) = at(index->shape, dim);
  return b.op("GatherElements", {b.expand(x, to_x), b.expand(index, to_index)}, {{"axis", dim}});
}

Value put(Call& c) {
  Builder& b = c.onnx;
  OnnxValue* x = c.tensor("self");
  OnnxValue* index = flat(b, as_index(b, c.tensor("index")));
  OnnxValue* source = flat(b, c.tensor_as("source", x->dtype));
  return like_self(c, scatter_rows(c, flat(b, x), 0, index, source, c.flag("accumulate") ? "add" : ""));
}

// ---- masks and positions ------------------------------------------------------------------------------------------

Value masked_fill(Call& c) {
  OnnxValue* x = c.tensor("self");
  OnnxValue* value = c.number("value", x->dtype);
  if (value->rank() != 0) c.mismatch("the value must be a 0-d tensor");
  return c.onnx.where(c.tensor_as("mask", DType::Bool), value, x);
}

Value masked_select(Call& c) {
  Builder& b = c.onnx;
  OnnxValue *x = c.tensor("self"), *mask = c.tensor_as("mask", DType::Bool);
  Shape to = b.broadcast(x->shape, mask->shape);
  return b.op("Compress", {at_least_1d(b, b.expand(x, to)), flat(b, b.expand(mask, to))});
}

Value masked_scatter(Call& c) {
  Builder& b = c.onnx;
  OnnxValue *x = c.tensor("self"), *mask = c.tensor_as("mask", DType::Bool);
  Shape to = b.broadcast(x->shape, mask->shape);
  x = at_least_1d(b, b.expand(x, to));
  OnnxValue* positions = b.op("NonZero", {at_least_1d(b, b.expand(mask, to))});
  OnnxValue* source = cut_to(b, flat(b, c.tensor_as("source", x->dtype)), {positions->shape[1]});
  return b.reshape(b.op("ScatterND", {x, b.transpose(positions, {1, 0}), source}), to);
}

// The positions of elements that are not 0: a row for each dimension.
OnnxValue* positions_of(Builder& b, OnnxValue* x) {
  bool has_kernel = x->dtype == DType::Float || x->dtype == DType::Int64 || x->dtype == DType::Int32;
  return b.op("NonZero", {at_least_1d(b, has_kernel ? x : b.cast(x, DType::Bool))});
}

// A row for each element that is not 0.
OnnxValue* nonzero(Call& c) {
  OnnxValue* x = c.tensor("self");
  OnnxValue* rows = c.onnx.transpose(positions_of(c.onnx, x), {1, 0});
  return x->rank() == 0 ? c.onnx.slice(rows, 1, c.sym.constant(0), c.sym.constant(0)) : rows;
}

Value nonzero_numpy(Call& c, std::string_view argument) {
  OnnxValue* positions = positions_of(c.onnx, c.tensor(argument));
  std::vector<OnnxValue*> out;
  for (int64_t i = 0; i < *positions->shape[0].constant(); ++i)
    out.push_back(c.onnx.select(positions, 0, c.sym.constant(i)));
  return Value::list(out);
}

Value nonzero_static(Call& c) {
  Builder& b = c.onnx;
  OnnxValue* found = nonzero(c);
  Dim count = c.size("size");
  OnnxValue* fill = b.full({count, found->shape[1]}, b.scalar_int(DType::Int64, c.integer("fill_value")));
  return Slice{0, b.dim(0), count, 1, count}.take(b, b.concat({found, fill}, 0));
}

// How many elements of the sorted last dimension lie before each value.
Value searched(Call& c, std::string_view sorted_name, std::string_view value_name) {
  Builder& b = c.onnx;
  OnnxValue *sorted = c.tensor(sorted_name), *values = c.tensor(value_name);
  bool has_side = c.schema.argument("side") != nullptr;
  bool right = c.flag("right") || (has_side && c.maybe_text("side") == "right");
  if (has_side && !c.none("sorter"))
    sorted = b.op("GatherElements", {sorted, as_index(b, c.tensor("sorter"))}, {{"axis", rank_of(sorted) - 1}});
  DType type = eval::promote(sorted->dtype, values->dtype);
  sorted = b.cast(sorted, type);
  values = b.unsqueeze(b.cast(values, type), {rank_of(values)});
  if (sorted->rank() > 1) sorted = b.unsqueeze(sorted, {rank_of(sorted) - 1});
  // NaN comes after every number.
  OnnxValue* not_before = right ? b.op("Greater", {sorted, values})
                          : c.opset() >= 12
                              ? b.op("GreaterOrEqual", {sorted, values})
                              : b.op("Or", {b.op("Greater", {sorted, values}), b.op("Equal", {sorted, values})});
  OnnxValue* before = b.cast(b.op("Not", {not_before}), DType::Int64);
  OnnxValue* count = b.reduce("ReduceSum", before, {rank_of(before) - 1}, false);
  return b.cast(count, c.flag("out_int32") ? DType::Int32 : DType::Int64);
}

// ---- embeddings ---------------------------------------------------------------------------------------------------

// Bags of equal length become one dimension; others are summed by the number of their bag.
Value embedding_bag(Call& c) {
  Builder& b = c.onnx;
  OnnxValue *weight = c.tensor("weight"), *indices = as_index(b, c.tensor("indices")), *offsets = c.tensor("offsets");
  int64_t mode = c.integer("mode");  // sum, mean, max
  bool has_padding = c.schema.argument("padding_idx") && !c.none("padding_idx") && c.integer("padding_idx") >= 0;
  if (has_padding) c.unsupported("padding_idx");
  if (indices->rank() != 1 || offsets->rank() != 1) c.unsupported("indices that are not of one dimension");
  if (c.flag("include_last_offset")) offsets = b.slice(offsets, 0, b.dim(0), b.dim(-1));
  OnnxValue* rows = b.gather(weight, indices, 0);
  if (!c.none("per_sample_weights"))
    rows = b.mul(rows, b.unsqueeze(c.tensor_as("per_sample_weights", rows->dtype), {1}));

  Dim count = indices->shape[0], bags = offsets->shape[0], width = rows->shape[1];
  std::optional<Dim> length = c.sym.divide_exactly(count, bags);
  bool equal = false;
  if (auto starts = known_contents(offsets); starts && length && length->is_constant()) {
    equal = true;
    for (size_t i = 0; i < starts->size(); ++i)
      equal = equal && (*starts)[i] == static_cast<int64_t>(i) * *length->constant();
  } else if (length && offsets->producer && offsets->producer->op_type == "Range") {
    const onnx::Inputs& in = offsets->producer->inputs;
    equal = in[0]->contents && in[0]->contents->front().is(0) && in[2]->contents && in[2]->contents->front() == *length;
  }
  Value out;
  if (equal) {
    const char* reduce[] = {"ReduceSum", "ReduceMean", "ReduceMax"};
    out = b.reduce(reduce[mode], b.reshape(rows, {bags, *length, width}), {1}, false);
  } else {
    if (mode == 2) c.unsupported("the maximum of bags whose sizes are known only at run time");
    // The bag of a position is the number of bags that begin at or before it, less one.
    OnnxValue* position = b.unsqueeze(arange(b, count), {1});
    OnnxValue* begun = b.cast(b.op("Not", {b.op("Less", {position, as_index(b, offsets)})}), DType::Int64);
    OnnxValue* bag = b.sub(b.reduce("ReduceSum", begun, {1}, true), b.scalar_int(DType::Int64, 1));
    auto sum = [&](OnnxValue* what) {
      OnnxValue* zeros = b.full({bags, what->shape[1]}, b.scalar_int(what->dtype, 0));
      return b.op("ScatterND", {zeros, bag, what}, reduction(c, "add"));
    };
    OnnxValue* total = sum(rows);
    if (mode == 1) {
      OnnxValue* ones = b.full({count, b.dim(1)}, b.scalar_int(rows->dtype, 1));
      total = b.div(total, b.op("Max", {sum(ones), b.scalar_int(rows->dtype, 1)}));
    }
    out = total;
  }
  return Value::tuple({out, {}, {}, {}});
}

// ---- order along dimensions ---------------------------------------------------------------------------------------

OnnxValue* flipped(Builder& b, OnnxValue* x, const std::vector<int64_t>& dims) {
  std::vector<int64_t> axes;
  for (int64_t d : dims)
    if (x->rank() > 0 && !at(x->shape, d).is(1) && !at(x->shape, d).is(0)) axes.push_back(d);
  if (axes.empty()) return x;
  std::vector<int64_t> backward(axes.size(), -1), ends(axes.size(), before_the_start);
  return b.op("Slice", {x, b.ints(backward), b.ints(ends), b.ints(axes), b.ints(backward)});
}

OnnxValue* rolled(Builder& b, OnnxValue* x, Dim shift, int64_t axis) {
  Dim size = at(x->shape, axis);
  if (size.is(0) || size.is(1) || shift.is(0)) return x;
  std::optional<int64_t> by = shift.constant(), n = size.constant();
  if (by && n && *n <= 1 << 14) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < *n; ++i) order.push_back(((i - *by) % *n + *n) % *n);
    return std::is_sorted(order.begin(), order.end()) ? x : b.gather(x, b.ints(order), axis);
  }
  // The elements from `cut` on come first.
  Dim cut = by && *by > 0 && b.sym.less_equal(shift, size) == true         ? b.dim(-*by)
            : by && *by < 0 && b.sym.less_equal(b.dim(-*by), size) == true ? b.dim(-*by)
                                                                           : b.sym.mod(b.sym.neg(shift), size);
  OnnxValue* y = b.concat({b.slice(x, axis, cut, b.dim(to_the_end)), b.slice(x, axis, b.dim(0), cut)}, axis);
  if (y->kind == OnnxValue::Kind::Output) at(y->shape, axis) = size;
  return y;
}

Value roll(Call& c) {
  OnnxValue* x = c.tensor("self");
  std::vector<Dim> shifts = c.sizes("shifts");
  std::vector<int64_t> dims = c.dims("dims", x->rank());
  if (dims.empty()) {
    if (shifts.size() != 1) c.mismatch("one shift is needed");
    return c.onnx.reshape(rolled(c.onnx, flat(c.onnx, x), shifts[0], 0), x->shape);
  }
  if (shifts.size() != dims.size()) c.mismatch("shifts and dims differ in length");
  for (size_t i = 0; i < dims.size() && x->rank() > 0; ++i) x = rolled(c.onnx, x, shifts[i], dims[i]);
  return x;
}

Value rot90(Call& c) {
  OnnxValue* x = c.tensor("self");
  std::vector<int64_t> dims = c.dims("dims", x->rank());
  if (dims.size() != 2 || dims[0] == dims[1]) c.mismatch("two different dimensions are needed");
  switch (((c.integer("k") % 4) + 4) % 4) {
    case 1:
      return c.onnx.swap_dims(flipped(c.onnx, x, {dims[1]}), dims[0], dims[1]);
    case 2:
      return flipped(c.onnx, x, dims);
    case 3:
      return c.onnx.swap_dims(flipped(c.onnx, x, {dims[0]}), dims[0], dims[1]);
    default:
      return x;
  }
}

// ---- padding ------------------------------------------------------------------------------------------------------

using Pads = std::vector<std::pair<Dim, Dim>>;

// PyTorch gives pads from the last dimension on; here one pair for each dimension.
Pads pads_of(Call& c, std::string_view argument, size_t rank) {
  std::vector<Dim> given = c.sizes(argument);
  if (given.size() % 2 != 0 || given.size() / 2 > rank)
    c.mismatch(fmt::format("{} pads are given for {} dimensions", given.size(), rank));
  Dim zero = c.sym.constant(0);
  Pads pads(rank, {zero, zero});
  for (size_t i = 0; i < given.size() / 2; ++i) pads[rank - 1 - i] = {given[2 * i], given[2 * i + 1]};
  return pads;
}

OnnxValue* wrapped_around(Builder& b, OnnxValue* x, const Pads& pads) {
  if (b.opset() >= 19) return b.pad(x, pads, "wrap");
  for (size_t d = 0; d < pads.size(); ++d) {
    int64_t axis = static_cast<int64_t>(d);
    auto [before, after] = pads[d];
    onnx::Inputs parts;
    Dim first = before.is_constant() ? b.sym.neg(before) : b.sym.sub(x->shape[d], before);
    if (!before.is(0)) parts.push_back(Slice{axis, first, b.dim(to_the_end), 1, before}.take(b, x));
    parts.push_back(x);
    if (!after.is(0)) parts.push_back(Slice{axis, b.dim(0), after, 1, after}.take(b, x));
    x = b.concat(parts, axis);
  }
  return x;
}

OnnxValue* padded(Call& c, OnnxValue* x, Pads pads, std::string_view mode, OnnxValue* fill) {
  Builder& b = c.onnx;
  if (mode == "constant") return b.pad(x, pads, mode, fill);
  // A negative pad takes away what is there, after the other side was padded.
  std::vector<Slice> crops;
  for (size_t d = 0; d < pads.size(); ++d) {
    auto cut = [&](Dim& pad) {
      bool negative = pad.upper().value_or(0) < 0;
      return negative ? std::exchange(pad, b.dim(0)) : b.dim(0);
    };
    Dim before = cut(pads[d].first), after = cut(pads[d].second);
    if (!before.is(0) || !after.is(0))
      crops.push_back({static_cast<int64_t>(d), b.sym.neg(before), after.is(0) ? b.dim(to_the_end) : after});
  }
  x = mode == "wrap" ? wrapped_around(b, x, pads) : b.pad(x, pads, mode);
  for (const Slice& s : crops) x = s.take(b, x);
  return x;
}

std::string_view onnx_pad_mode(Call& c, std::string_view mode) {
  if (mode == "constant" || mode == "reflect") return mode;
  if (mode == "replicate") return "edge";
  if (mode == "circular") return "wrap";
  c.unsupported(fmt::format("the mode '{}'", mode));
}

Value pad(Call& c, std::string_view argument, std::string_view mode) {
  OnnxValue* x = c.tensor("self");
  OnnxValue* fill = nullptr;
  if (mode == "constant" && c.schema.argument("value") && !c.none("value")) fill = c.number("value", x->dtype);
  if (fill && fill->is_constant() && fill->constant->reals()[0] == 0) fill = nullptr;
  return padded(c, x, pads_of(c, argument, x->rank()), mode, fill);
}

}  // namespace

void register_index(eval::Registry& ops) {
  auto each = [&](std::initializer_list<const char*> schemas, eval::RuleFunction rule) {
    for (const char* s : schemas) ops.add(s, rule);
  };

  // ---- slices and single positions
  ops.add("aten::select.int(Tensor(a) self, int dim, int index) -> Tensor(a)",
          [](Call& c) { return part_view(c, select_of(c, c.tensor("self"))); })
      .numbers({{"index", Role::Position, "dim"}});
  ops.add("aten::slice.Tensor(Tensor(a) self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)",
          [](Call& c) { return part_view(c, slice_of(c, c.tensor("self"))); })
      .numbers({{"start", Role::Position, "dim", 1}, {"end", Role::Position, "dim"}});
  ops.add("aten::select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor",
          [](Call& c) { return scattered(c, select_of(c, c.tensor("self"))); });
  ops.add(
      "aten::slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
      [](Call& c) { return scattered(c, slice_of(c, c.tensor("self"))); });
  ops.add("aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
          [](Call& c) { return scattered(c, diagonal_of(c, c.tensor("self")->rank())); });

  // ---- indexing by tensors
  each({"aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
        "aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"},
       index_rule);
  each({"aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
        "aten::_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
        "aten::_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool "
        "unsafe=False) -> "
        "Tensor"},
       index_put);
  ops.add("aten::_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor",
          masked_index);
  ops.add(
      "aten::_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor",
      masked_index_put_accumulate);
  ops.add("aten::take(Tensor self, Tensor index) -> Tensor", [](Call& c) -> Value {
    return c.onnx.gather(flat(c.onnx, c.tensor("self")), as_index(c.onnx, c.tensor("index")), 0);
  });
  ops.add("aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", put);

  // ---- along one dimension
  ops.add("aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", index_select);
  ops.add("aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", index_add);
  ops.add("aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", index_copy);
  each({"aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
        "aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor"},
       index_fill);
  ops.add(
      "aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> "
      "Tensor",
      index_reduce);
  ops.add("aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", gather);
  ops.add("aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", [](Call& c) {
    Along a = along(c);
    return like_self(c, scatter_elements(c, a, a.x, updates_of(c, a), ""));
  });
  ops.add("aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", [](Call& c) {
    Along a = along(c);
    return like_self(c, scatter_elements(c, a, a.x, c.onnx.expand(c.number("value", a.x->dtype), a.index->shape), ""));
  });
  ops.add("aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
          [](Call& c) { return scatter_reduce(c, updates_of(c, along(c)), c.text("reduce"), true); });
  ops.add("aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
          [](Call& c) {
            Along a = along(c);
            OnnxValue* updates = c.onnx.expand(c.number("value", a.x->dtype), a.index->shape);
            return scatter_reduce(c, updates, c.text("reduce"), true);
          });
  ops.add("aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
          [](Call& c) { return scatter_reduce(c, updates_of(c, along(c)), "sum", true); });
  ops.add(
      "aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) "
      "-> Tensor",
      [](Call& c) { return scatter_reduce(c, updates_of(c, along(c)), c.text("reduce"), c.flag("include_self")); });
  ops.add("aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", take_along_dim);

  // ---- masks and positions
  for (std::string_view kind : {"Scalar", "Tensor"})
    ops.add(fmt::format("aten::masked_fill.{}(Tensor self, Tensor mask, {} value) -> Tensor", kind, kind), masked_fill)
        .numbers({{"value", Role::Operand}});
  ops.add("aten::masked_select(Tensor self, Tensor mask) -> Tensor", masked_select);
  ops.add("aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", masked_scatter);
  each({"aten::nonzero(Tensor self) -> Tensor", "aten::argwhere(Tensor self) -> Tensor"},
       [](Call& c) -> Value { return nonzero(c); });
  ops.add("aten::nonzero_numpy(Tensor self) -> Tensor[]", [](Call& c) { return nonzero_numpy(c, "self"); });
  ops.add("aten::where(Tensor condition) -> Tensor[]", [](Call& c) { return nonzero_numpy(c, "condition"); });
  ops.add("aten::nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor", nonzero_static);
  each({"aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, "
        "str? side=None, Tensor? sorter=None) -> Tensor",
        "aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, "
        "str? side=None, Tensor? sorter=None) -> Tensor"},
       [](Call& c) { return searched(c, "sorted_sequence", "self"); });
  each({"aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
        "aten::bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"},
       [](Call& c) { return searched(c, "boundaries", "self"); });

  // ---- embeddings
  ops.add(
      "aten::embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool "
      "sparse=False) -> Tensor",
      [](Call& c) -> Value { return c.onnx.gather(c.tensor("weight"), c.tensor("indices"), 0); });
  each(
      {"aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
       "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, "
       "Tensor, "
       "Tensor)",
       "aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int "
       "mode, "
       "bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, "
       "Tensor, "
       "Tensor)",
       "aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
       "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> "
       "(Tensor, Tensor, Tensor, Tensor)"},
      embedding_bag);

  // ---- order along dimensions
  ops.add("aten::flip(Tensor self, int[] dims) -> Tensor", [](Call& c) -> Value {
    OnnxValue* x = c.tensor("self");
    return flipped(c.onnx, x, c.dims("dims", x->rank()));
  });
  ops.add("aten::flipud(Tensor self) -> Tensor",
          [](Call& c) -> Value { return flipped(c.onnx, c.tensor("self"), {0}); });
  ops.add("aten::fliplr(Tensor self) -> Tensor",
          [](Call& c) -> Value { return flipped(c.onnx, c.tensor("self"), {1}); });
  ops.add("aten::roll(Tensor self, int[1] shifts, int[1] dims=[]) -> Tensor", roll);
  ops.add("aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor", rot90);

  // ---- padding
  ops.add("aten::pad(Tensor self, int[] pad, str mode=\"constant\", float? value=None) -> Tensor",
          [](Call& c) { return pad(c, "pad", onnx_pad_mode(c, c.text("mode"))); });
  ops.add("aten::_pad_enum(Tensor self, int[] pad, int mode, float? value=None) -> Tensor", [](Call& c) {
    static constexpr std::string_view modes[] = {"reflect", "edge", "wrap", "constant"};
    return pad(c, "pad", modes[c.integer("mode") & 3]);
  });
  ops.add("aten::constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor",
          [](Call& c) { return pad(c, "pad", "constant"); });
  ops.add("aten::_pad_circular(Tensor self, int[] pad) -> Tensor", [](Call& c) { return pad(c, "pad", "wrap"); });
  for (int n : {1, 2, 3}) {
    ops.add(fmt::format("aten::reflection_pad{}d(Tensor self, int[{}] padding) -> Tensor", n, 2 * n),
            [](Call& c) { return pad(c, "padding", "reflect"); });
    ops.add(fmt::format("aten::replication_pad{}d(Tensor self, int[{}] padding) -> Tensor", n, 2 * n),
            [](Call& c) { return pad(c, "padding", "edge"); });
  }
}

}  // namespace lithify::ops
