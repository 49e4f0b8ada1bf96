// x[...]: slices, single positions, and indexing by tensors.
#include <fmt/format.h>

#include <algorithm>

#include "ops/elementwise.hpp"
#include "ops/positions.hpp"
#include "ops/slicing.hpp"
#include "sym/contradiction.hpp"

namespace lithify::ops {
namespace {

using onnx::Builder;
using OnnxValue = onnx::Value;

bool is_mask(const OnnxValue* v) { return v->dtype == DType::Bool || v->dtype == DType::UInt8; }

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

// Calls `then` with the part x[start:end:step], a Slice or Steps.
template <class F>
Value with_slice(Call& c, const OnnxValue* x, F then) {
  if (x->rank() == 0) c.mismatch("a 0-d tensor cannot be sliced");
  int64_t axis = c.dim("dim", x->rank());
  Dim step = c.size("step");
  if (step.upper().value_or(1) < 1) c.mismatch("the step must be positive");
  Dim start = c.maybe_size("start").value_or(c.sym.constant(0));
  Dim end = c.maybe_size("end").value_or(c.sym.constant(to_the_end));
  Dim size = at(x->shape, axis);
  if (step.is_constant()) return then(python_slice(c.sym, axis, size, start, end, *step.constant()));
  Dim first = clamped_bound(c.sym, start, size), last = c.sym.max(first, clamped_bound(c.sym, end, size));
  return then(Steps{axis, first, last, step, c.sym.ceil_div(c.sym.sub(last, first), step)});
}

// self with src, which has the shape of the part, in place of a part of it.
template <class Part>
Value scattered(Call& c, const Part& part) {
  OnnxValue *x = c.tensor("self"), *src = c.tensor_as("src", x->dtype);
  const Shape wanted = part.take(c.onnx, x)->shape;
  const auto fits = [&](Dim a, Dim b) { return c.sym.equal(a, b) != false; };
  if (!std::ranges::equal(src->shape, wanted, fits)) c.mismatch("the source has other sizes than the part");
  return part.put(c.onnx, x, src);
}

// ---- indexing by tensors ------------------------------------------------------------------------------------------

/// x[..., index, ...]: one index tensor, or nullptr for a whole dimension, for each dimension of x.
struct Index {
  Vector<OnnxValue*> tensors;
  Vector<int64_t> dims;  // that have an index
  Shape shape;           // that the index tensors broadcast to
  bool adjacent = true;  // the indexed dimensions lie side by side: the result has `shape` in their place
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

std::optional<Mask> only_mask(Call& c, const OnnxValue* x, const Vector<OnnxValue*>& indices) {
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

Index index_of(Call& c, const OnnxValue* x, const Vector<OnnxValue*>& indices) {
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
    if (const Dim n = b.numel(v->shape), size = at(x->shape, d);
        !n.is_constant() && holds_one(x, d) && size.is_constant() && counts_up(v) && c.sym.equal(size, n) != true)
      hard_coded(c, size, n, "all positions");
    out.adjacent = out.adjacent && (out.dims.empty() || out.dims.back() == d - 1);
    out.dims.push_back(d);
    out.shape = b.broadcast(out.shape, v->shape);
  }
  return out;
}

// The index tensors side by side in a last dimension, as GatherND and ScatterND take them; from the given one on.
OnnxValue* joined_indices(Builder& b, const Index& index, size_t begin = 0) {
  onnx::Inputs parts;
  for (size_t i = begin; i < index.dims.size(); ++i) {
    OnnxValue* v = b.expand(as_index(b, index.tensors[static_cast<size_t>(index.dims[i])]), index.shape);
    parts.push_back(b.unsqueeze(v, {rank_of(v)}));
  }
  return b.concat(parts, static_cast<int64_t>(index.shape.size()));
}

// The indexed dimensions first, then the others in their order.
Vector<int64_t> indexed_first(const Index& index) {
  Vector<int64_t> perm = index.dims;
  for (size_t d = 0; d < index.tensors.size(); ++d)
    if (!index.tensors[d]) perm.push_back(static_cast<int64_t>(d));
  return perm;
}

// From [index shape, other dimensions] to the order of the result.
Vector<int64_t> result_order(const Index& index) {
  size_t n = index.shape.size(), others = index.tensors.size() - index.dims.size();
  Vector<int64_t> perm = identity_permutation(n + others);
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
bool takes_all_in_order(const OnnxValue* x, const Index& index) {
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
  const auto begin = to.begin() + index.dims.front(), end = to.begin() + index.dims.back() + 1;
  Dim merged = b.sym.product(Vector<Dim>(begin, end));
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
  if (index.adjacent && takes_all_in_order(x, index)) {
    Shape to = x->shape;
    auto begin = to.begin() + index.first();
    to.insert(to.erase(begin, begin + static_cast<std::ptrdiff_t>(index.dims.size())), index.shape.begin(),
              index.shape.end());
    return b.reshape(x, to);
  }
  // x[arange(n), i] takes one row of each of n.
  if (index.first() == 0 && index.adjacent && first->rank() == index.shape.size() &&
      counting_axis(first, x->shape[0]) == size_t{0})
    return b.op("GatherND", {x, joined_indices(b, index, 1)}, {{"batch_dims", int64_t{1}}});
  bool merges = index.adjacent, expands = false;
  for (int64_t d : index.dims) {
    expands = expands || index.tensors[static_cast<size_t>(d)]->shape != index.shape;
    merges = merges && (d == index.first() || at(x->shape, d).is_constant());
  }
  if (merges && (expands || index.first() > 0)) return index_merged(b, x, index);
  OnnxValue* y = b.op("GatherND", {b.transpose(x, indexed_first(index)), joined_indices(b, index)});
  return b.transpose(y, result_order(index));
}

Value index_rule(Call& c) {
  OnnxValue* x = c.tensor("self");
  Vector<OnnxValue*> indices = c.maybe_tensors("indices");
  if (std::optional<Mask> mask = only_mask(c, x, indices)) return masked(c.onnx, x, *mask);
  Index index = index_of(c, x, indices);
  if (index.dims.empty()) return x;
  if (index.dims.size() > 1) return indexed(c.onnx, x, index);
  return gathered(c.onnx, x, index.tensors[static_cast<size_t>(index.first())], index.first());
}

// Indices brought within the tensor; what they are for where the mask is false does not matter.
Value clamped_indices(Call& c, const OnnxValue* x) {
  Builder& b = c.onnx;
  Vector<Value> out;
  Vector<OnnxValue*> indices = c.maybe_tensors("indices");
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
              scatter_reduction(c, accumulate ? "add" : ""));
}

Value index_put(Call& c) {
  Builder& b = c.onnx;
  OnnxValue* x = c.tensor("self");
  OnnxValue* values = c.tensor_as("values", x->dtype);
  bool accumulate = c.flag("accumulate");
  Vector<OnnxValue*> indices = c.maybe_tensors("indices");
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
  Vector<int64_t> order = indexed_first(index);
  OnnxValue* updates = b.transpose(values, inverse_permutation(result_order(index)));
  OnnxValue* y =
      b.op("ScatterND", {b.transpose(x, order), joined_indices(b, index), updates}, scatter_reduction(c, reduce));
  return b.transpose(y, inverse_permutation(order));
}

}  // namespace

void register_index(eval::Registry& ops) {
  // ---- slices and single positions
  ops.add("aten::select.int(Tensor(a) self, int dim, int index) -> Tensor(a)",
          [](Call& c) { return part_view(c, select_of(c, c.tensor("self"))); })
      .numbers({{"index", Role::Position, "dim"}});
  ops.add("aten::slice.Tensor(Tensor(a) self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)",
          [](Call& c) { return with_slice(c, c.tensor("self"), [&](auto part) { return part_view(c, part); }); })
      .numbers({{"start", Role::Position, "dim", 1}, {"end", Role::Position, "dim"}});
  ops.add("aten::select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor",
          [](Call& c) { return scattered(c, select_of(c, c.tensor("self"))); });
  ops.add(
      "aten::slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
      [](Call& c) { return with_slice(c, c.tensor("self"), [&](auto part) { return scattered(c, part); }); });
  ops.add("aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
          [](Call& c) { return scattered(c, diagonal_of(c, c.tensor("self")->rank())); });

  // ---- indexing by tensors
  add_each(ops,
           {"aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
            "aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"},
           index_rule);
  add_each(ops,
           {"aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
            "aten::_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
            "aten::_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool "
            "unsafe=False) -> Tensor"},
           index_put);
  ops.add("aten::_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor",
          masked_index);
  ops.add(
      "aten::_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor",
      masked_index_put_accumulate);
}

}  // namespace lithify::ops
