// Operators that take elements a stride apart: unfold, as_strided, diagonals.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ops/elementwise.hpp"
#include "ops/reshape.hpp"
#include "ops/slicing.hpp"
#include "sym/contradiction.hpp"

namespace lithify::ops {
namespace {

using onnx::Builder;
using OnnxValue = onnx::Value;

/// Windows of an axis, a step apart; the elements of a window become the last dimension.
struct Windows {
  int64_t axis = 0, size = 0, step = 0;

  OnnxValue* take(Builder& b, OnnxValue* x) const {
    const Dim count = count_in(b, x);
    OnnxValue* y = nullptr;
    if (size == step) {
      Shape to = x->shape;
      at(to, axis) = count;
      to.insert(to.begin() + axis + 1, b.dim(size));
      y = b.reshape(covered(b, count).take(b, x), to);
    } else {
      y = b.gather(x, positions(b, at(x->shape, axis), count), axis);
    }
    return b.transpose(y, inverse_permutation(elements_at(y->rank(), axis + 1)));
  }

  /// Where no element is in two windows.
  OnnxValue* put(Builder& b, OnnxValue* x, OnnxValue* changed) const {
    const Dim count = count_in(b, x);
    if (size == step) {
      Shape to = x->shape;
      at(to, axis) = b.sym.mul(count, b.dim(size));
      return covered(b, count).put(b, x, b.reshape(b.transpose(changed, elements_at(changed->rank(), axis + 1)), to));
    }
    // Rows of the axis, by position.
    Vector<int64_t> first = identity_permutation(x->rank());
    std::rotate(first.begin(), first.begin() + axis, first.begin() + axis + 1);
    Vector<int64_t> rows = first;
    rows.insert(rows.begin() + 1, static_cast<int64_t>(x->rank()));
    OnnxValue* at_rows = b.unsqueeze(positions(b, at(x->shape, axis), count), {2});
    OnnxValue* out = b.op("ScatterND", {b.transpose(x, first), at_rows, b.transpose(changed, rows)});
    return b.transpose(out, inverse_permutation(first));
  }

 private:
  Dim count_in(Builder& b, const OnnxValue* x) const {
    return b.sym.add(b.sym.floor_div(b.sym.sub(at(x->shape, axis), b.dim(size)), b.dim(step)), b.dim(1));
  }

  Slice covered(Builder& b, Dim count) const {
    const Dim length = b.sym.mul(count, b.dim(size));
    return {axis, b.dim(0), length, 1, length};
  }

  /// Of each element of each window.
  OnnxValue* positions(Builder& b, Dim length, Dim count) const {
    if (!count.is_constant()) {
      const Dim limit = b.sym.add(b.sym.sub(length, b.dim(size)), b.dim(1));
      return b.add(b.unsqueeze(range(b, b.dim(0), limit, b.dim(step), count), {1}), arange(b, b.dim(size)));
    }
    const int64_t rows = *count.constant();
    Vector<int64_t> out = known_elements<int64_t>(b.sym, checked_mul(rows, size));
    for (int64_t i = 0; i < rows * size; ++i) out[static_cast<size_t>(i)] = i / size * step + i % size;
    return int_array(b, out, {rows, size});
  }

  /// The permutation that moves the last dimension to a place.
  static Vector<int64_t> elements_at(size_t rank, int64_t place) {
    Vector<int64_t> perm = identity_permutation(rank);
    std::rotate(perm.begin() + place, perm.end() - 1, perm.end());
    return perm;
  }
};

Value unfold(Call& c) {
  OnnxValue* x = c.tensor("self");
  const int64_t size = c.integer("size"), step = c.integer("step");
  if (step < 1) c.mismatch("step must be positive");
  if (x->rank() == 0) return reshaped(c, Shape{c.sym.constant(size)});
  const Windows windows{c.dim("dimension", x->rank()), size, step};
  const Dim length = at(x->shape, windows.axis), least = c.sym.constant(size);
  if (!length.is_constant() && c.sym.less_equal(least, length) != true)
    c.sym.assume({sym::Assumption::Kind::AtMost, least, length});
  if (size <= step) return part_view(c, windows);
  return c.view("self", [windows](Builder& b, OnnxValue* v) { return windows.take(b, v); });
}

/// Positions in the memory of a contiguous tensor: from `offset`, as many in each dimension as its size, a stride
/// apart.
struct Strided {
  Shape sizes, strides;
  Dim offset;

  /// The positions themselves, where they are numbers.
  std::optional<Vector<int64_t>> numbers() const {
    auto counts = known(sizes), steps = known(strides);
    if (!counts || !steps || !offset.is_constant()) return std::nullopt;
    if (std::ranges::any_of(*counts, [](int64_t n) { return n < 1; })) return Vector<int64_t>{};
    Vector<int64_t> out{*offset.constant()};
    for (size_t i = 0; i < counts->size(); ++i) {
      Vector<int64_t> next;
      for (int64_t p : out)
        for (int64_t k = 0; k < (*counts)[i]; ++k) next.push_back(p + k * (*steps)[i]);
      out = std::move(next);
    }
    return out;
  }

  OnnxValue* positions(Builder& b) const {
    if (auto all = numbers()) return int_array(b, *all, *known(sizes));
    OnnxValue* sum = b.symbolic(offset);
    for (size_t i = 0; i < sizes.size(); ++i) {
      Shape along(sizes.size() - i, b.dim(1));
      along[0] = sizes[i];
      sum = b.add(sum, b.reshape(b.mul(arange(b, sizes[i]), b.symbolic(strides[i])), along));
    }
    return sum;
  }

  OnnxValue* take(Builder& b, OnnxValue* x) const { return b.gather(flat(b, x), positions(b), 0); }

  /// Whether each position is known, and no other is the same.
  bool can_be_put() const {
    const auto all = numbers();
    return all && std::set<int64_t>(all->begin(), all->end()).size() == all->size();
  }

  OnnxValue* put(Builder& b, OnnxValue* x, OnnxValue* changed) const {
    const Vector<int64_t> all = *numbers();
    if (all.empty()) return x;
    const auto n = static_cast<int64_t>(all.size());
    return b.reshape(b.op("ScatterND", {flat(b, x), int_array(b, all, {n, 1}), flat(b, changed)}), x->shape);
  }
};

Strided strided(Call& c) {
  OnnxValue* x = c.tensor("self");
  const Dim one = c.sym.constant(1), zero = c.sym.constant(0);
  if (!c.tensor_ref("self")->dense()) c.unsupported("strides of a tensor that is not contiguous");
  Strided s{c.sizes("size"), c.sizes("stride"), c.none("storage_offset") ? zero : c.size("storage_offset")};
  if (s.sizes.size() != s.strides.size()) c.mismatch("size and stride differ in length");
  const Dim count = c.sym.product(s.sizes), memory = c.sym.product(x->shape);
  if (count.is_constant() && *count.constant() > 1 << 20) c.unsupported("more than a million elements");
  Dim end = c.sym.add(s.offset, one);
  for (size_t i = 0; i < s.sizes.size(); ++i) end = c.sym.add(end, c.sym.mul(s.strides[i], c.sym.sub(s.sizes[i], one)));
  if (memory.is_constant() && end.is_constant()) {
    if (!count.is(0) && *end.constant() > *memory.constant())
      c.mismatch(fmt::format("{} elements are reached of {}", end.str(), memory.str()));
  } else if (c.sym.equal(end, memory) != true) {
    // Sizes and strides of the sample would take other elements at other sizes: trust those that take the last one.
    throw sym::Contradiction({end, memory}, fmt::format("{}: the last of {} elements is not known to be the last of {}",
                                                        c.schema.full_name(), end.str(), memory.str()));
  }
  return s;
}

Value as_strided(Call& c) {
  const Strided s = strided(c);
  if (s.can_be_put()) return part_view(c, s);
  return c.view("self", [s](Builder& b, OnnxValue* v) { return s.take(b, v); });
}

Value as_strided_scatter(Call& c) {
  OnnxValue* x = c.tensor("self");
  const Strided s = strided(c);
  if (!s.can_be_put()) c.unsupported(s.numbers() ? "positions that overlap" : "dynamic sizes");
  return s.put(c.onnx, x, c.tensor_as("src", x->dtype));
}

Value fill_diagonal(Call& c) {
  if (c.tensor("self")->rank() != 2) c.unsupported("of other tensors than matrices");
  if (c.flag("wrap")) c.unsupported("wrap");
  c.call("aten::fill_", {c.call("aten::diagonal", {c.arg("self")}), c.arg("fill_value")});
  return c.arg("self");
}

Value diag(Call& c) {
  OnnxValue* x = c.tensor("self");
  Diagonal d{c.integer("diagonal"), 0, 1};
  if (x->rank() == 1) return d.embed(c.onnx, x);
  if (x->rank() != 2) c.mismatch("a vector or matrix is needed");
  return d.take(c.onnx, x);
}

}  // namespace

void register_strided(eval::Registry& ops) {
  ops.add("aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", unfold);
  ops.add("aten::as_strided(Tensor(a) self, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)",
          as_strided);
  ops.add(
      "aten::as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
      as_strided_scatter);
  ops.add("aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
          [](Call& c) { return part_view(c, diagonal_of(c, c.tensor("self")->rank())); });
  ops.add("aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)",
          [](Call& c) { return part_view(c, diagonal_of(c, c.tensor("A")->rank()), "A"); });
  ops.add("aten::fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)", fill_diagonal);
  ops.add("aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", [](Call& c) -> Value {
    return diagonal_of(c, c.tensor("self")->rank() + 1).embed(c.onnx, c.tensor("self"));
  });
  ops.add("aten::diag(Tensor self, int diagonal=0) -> Tensor", diag);
  ops.add("aten::diagflat(Tensor self, int offset=0) -> Tensor", [](Call& c) -> Value {
    OnnxValue* x = c.tensor("self");
    return Diagonal{c.integer("offset"), 0, 1}.embed(c.onnx, c.onnx.reshape(x, {c.onnx.numel(x->shape)}));
  });
}

}  // namespace lithify::ops
