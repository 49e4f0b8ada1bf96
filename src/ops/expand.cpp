// Operators that repeat elements: expand, repeat, repeat_interleave, meshgrid.
#include <fmt/format.h>

#include "ops/elementwise.hpp"
#include "ops/positions.hpp"
#include "ops/slicing.hpp"
#include "sym/contradiction.hpp"

namespace lithify::ops {
namespace {

using onnx::Builder;
using OnnxValue = onnx::Value;

Value expanded(Call& c, const Vector<Dim>& sizes) {
  const Shape from = c.tensor("self")->shape;
  if (sizes.size() < from.size())
    c.mismatch(fmt::format("{} sizes are given for {} dimensions", sizes.size(), from.size()));
  size_t lead = sizes.size() - from.size();
  Shape to = sizes;
  for (size_t i = 0; i < to.size(); ++i) {
    if (i < lead) {
      if (to[i].is(-1)) c.mismatch("-1 stands for a dimension that is not there");
      continue;
    }
    Dim have = from[i - lead];
    if (to[i].is(-1) || to[i] == have) {
      to[i] = have;
    } else if (!have.is(1) && (to[i].is(1) || !c.sym.broadcast(have, to[i]))) {
      sym::disagree(have.is_constant() && to[i].is_constant(), {have, to[i], i},
                    fmt::format("{}: dimension {} of size {} cannot become {}", c.schema.full_name(), i, have.str(),
                                to[i].str()));
    }
  }
  auto forward = [to](Builder& b, OnnxValue* x) { return b.expand(x, to); };
  if (!(c.sym.product(to) == c.sym.product(from))) return c.view("self", forward);
  return c.view("self", forward,
                [](Builder& b, OnnxValue* base, OnnxValue* changed) { return b.reshape(changed, base->shape); });
}

OnnxValue* repeated(Call& c, OnnxValue* x, Vector<Dim> repeats) {
  if (repeats.size() < x->rank())
    c.mismatch(fmt::format("{} repeats are given for {} dimensions", repeats.size(), x->rank()));
  Shape from(repeats.size() - x->rank(), c.sym.constant(1)), to;
  from.insert(from.end(), x->shape.begin(), x->shape.end());
  bool only_ones = true;
  for (size_t i = 0; i < repeats.size(); ++i) {
    to.push_back(c.sym.mul(from[i], repeats[i]));
    only_ones = only_ones && (repeats[i].is(1) || from[i].is(1));
  }
  if (only_ones) return c.onnx.expand(x, to);
  return c.onnx.op("Tile", {c.onnx.reshape(x, from), c.onnx.symbolic(repeats)});
}

// Each element of an axis `times` times in a row.
OnnxValue* interleaved(Builder& b, OnnxValue* x, Dim times, int64_t axis) {
  Dim size = at(x->shape, axis), total = b.sym.mul(size, times);
  Shape to = x->shape;
  at(to, axis) = total;
  if (size.is(1)) return b.expand(x, to);
  if (total.is_constant() && *total.constant() <= 1 << 14) {
    Vector<int64_t> indices;
    for (int64_t i = 0; i < *total.constant(); ++i) indices.push_back(i / *times.constant());
    return b.gather(x, b.ints(indices), axis);
  }
  Shape wide = x->shape;
  wide.insert(wide.begin() + axis + 1, times);
  return b.reshape(b.expand(b.unsqueeze(x, {axis + 1}), wide), to);
}

// Position i, repeats[i] times: 0, 0, 1, 2, 2, 2, ...
OnnxValue* repeated_positions(Call& c, OnnxValue* repeats) {
  Builder& b = c.onnx;
  if (repeats->rank() != 1) c.mismatch("repeats must have one dimension");
  if (auto counts = known_contents(repeats)) {
    Vector<int64_t> indices;
    for (size_t i = 0; i < counts->size(); ++i) {
      const auto times = known_elements(c.sym, (*counts)[i], static_cast<int64_t>(i));
      indices.insert(indices.end(), times.begin(), times.end());
    }
    return b.ints(indices);
  }
  // An output position belongs to as many entries as have their sum of repeats at or below it.
  repeats = b.cast(repeats, DType::Int64);
  OnnxValue* ends = b.op("CumSum", {repeats, b.scalar_int(DType::Int64, 0)});
  Dim total = c.none("output_size") ? b.symbol_of(b.reduce("ReduceSum", repeats, {0}, true), "repeated", 0)
                                    : c.size("output_size");
  OnnxValue* position = b.unsqueeze(arange(b, total), {1});
  OnnxValue* behind = b.op("Not", {b.op("Less", {position, ends})});
  return b.reduce("ReduceSum", b.cast(behind, DType::Int64), {1}, false);
}

Value repeat_interleave(Call& c, Dim times) {
  OnnxValue* x = c.tensor("self");
  bool flat = c.none("dim") || x->rank() == 0;
  if (flat) x = c.onnx.reshape(x, {c.onnx.numel(x->shape)});
  return interleaved(c.onnx, x, times, flat ? 0 : c.dim("dim", x->rank()));
}

Value repeat_interleave_by_tensor(Call& c) {
  OnnxValue* repeats = c.tensor("repeats");
  if (repeats->rank() == 0 || at(repeats->shape, 0).is(1))
    return repeat_interleave(c, c.onnx.symbol_of(repeats, "repeats", 0));
  OnnxValue* x = c.tensor("self");
  bool flat = c.none("dim") || x->rank() == 0;
  if (flat) x = c.onnx.reshape(x, {c.onnx.numel(x->shape)});
  return c.onnx.gather(x, repeated_positions(c, repeats), flat ? 0 : c.dim("dim", x->rank()));
}

Value meshgrid(Call& c, bool xy) {
  Vector<OnnxValue*> in = c.tensors("tensors");
  Shape to;
  for (OnnxValue* v : in) {
    if (v->rank() > 1) c.mismatch("a tensor has more than one dimension");
    to.push_back(c.onnx.numel(v->shape));
  }
  xy = xy && in.size() >= 2;
  if (xy) std::swap(to[0], to[1]);
  Vector<OnnxValue*> out;
  for (size_t i = 0; i < in.size(); ++i) {
    size_t axis = xy && i < 2 ? 1 - i : i;
    Shape own(in.size() - axis, c.sym.constant(1));
    own[0] = to[axis];
    out.push_back(c.onnx.expand(c.onnx.reshape(in[i], own), to));
  }
  return Value::list(out);
}

Value broadcast_tensors(Call& c) {
  Vector<OnnxValue*> all = c.tensors("tensors");
  Shape to;
  for (OnnxValue* v : all) to = c.onnx.broadcast(to, v->shape);
  for (OnnxValue*& v : all) v = c.onnx.expand(v, to);
  return Value::list(all);
}

}  // namespace

void register_expand(eval::Registry& ops) {
  ops.add("aten::expand(Tensor(a) self, int[] size, *, bool implicit=False) -> Tensor(a)",
          [](Call& c) { return expanded(c, c.sizes("size")); })
      .numbers({{"size", Role::Fill}});
  ops.add("aten::broadcast_to(Tensor(a) self, int[] size) -> Tensor(a)",
          [](Call& c) { return expanded(c, c.sizes("size")); });
  ops.add("aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)",
          [](Call& c) { return expanded(c, c.tensor("other")->shape); });
  ops.add("aten::repeat(Tensor self, int[] repeats) -> Tensor",
          [](Call& c) -> Value { return repeated(c, c.tensor("self"), c.sizes("repeats")); })
      .numbers({{"repeats", Role::Fill}});
  ops.add("aten::tile(Tensor self, int[] dims) -> Tensor", [](Call& c) -> Value {
    Vector<Dim> repeats = c.sizes("dims");
    size_t rank = c.tensor("self")->rank();
    if (repeats.size() < rank) repeats.insert(repeats.begin(), rank - repeats.size(), c.sym.constant(1));
    return repeated(c, c.tensor("self"), repeats);
  });
  ops.add(
      "aten::repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, int? output_size=None) -> Tensor",
      [](Call& c) { return repeat_interleave(c, c.size("repeats")); });
  ops.add(
      "aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, int? output_size=None) -> "
      "Tensor",
      repeat_interleave_by_tensor);
  ops.add("aten::repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor", [](Call& c) -> Value {
    return c.onnx.cast(repeated_positions(c, c.tensor("repeats")), c.tensor("repeats")->dtype);
  });
  ops.add("aten::meshgrid(Tensor[] tensors) -> Tensor[]", [](Call& c) { return meshgrid(c, false); });
  ops.add("aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]",
          [](Call& c) { return meshgrid(c, c.text("indexing") == "xy"); });
  ops.add("aten::broadcast_shapes(int[] a, int[] b) -> int[]", [](Call& c) -> Value {
    Vector<Value> sizes;
    for (Dim d : c.onnx.broadcast(c.sizes("a"), c.sizes("b"))) sizes.push_back(d);
    return Value::list(std::move(sizes));
  });
  ops.add("aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]", broadcast_tensors);
}

}  // namespace lithify::ops
