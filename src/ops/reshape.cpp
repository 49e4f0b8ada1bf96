// Operators that change sizes and leave the order of the elements: view, reshape, flatten, squeeze, resize_.
#include "ops/reshape.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "eval/evaluator.hpp"
#include "onnx/opdef.hpp"
#include "ops/slicing.hpp"

namespace lithify::ops {

using onnx::Builder;
using OnnxValue = onnx::Value;

Value reshaped(Call& c, Shape to) {
  return c.view(
      "self", [to = std::move(to)](Builder& b, OnnxValue* x) { return b.reshape(x, to); },
      [](Builder& b, OnnxValue* base, OnnxValue* changed) { return b.reshape(changed, base->shape); }, true);
}

namespace {

// The sizes with what -1 stands for. `total` is the number of elements.
Shape without_minus_one(Call& c, const Vector<Dim>& sizes, Dim total) {
  Shape to = sizes;
  auto free = std::find_if(to.begin(), to.end(), [](Dim d) { return d.is(-1); });
  if (free == to.end()) return to;
  *free = c.sym.constant(1);
  Dim others = c.sym.product(to);
  if (others.is(0)) c.mismatch("a size of -1 is ambiguous beside a size of 0");
  if (std::optional<Dim> quotient = c.sym.divide_exactly(total, others)) {
    *free = *quotient;
  } else if (total.is_constant() && others.is_constant()) {
    c.mismatch(fmt::format("{} elements do not divide into rows of {}", total.str(), others.str()));
  } else {
    *free = c.sym.floor_div(total, others);
  }
  return to;
}

// PyTorch copies when the elements do not lie one after the other: then writes to the result do not reach self.
Value reshaped_or_copied(Call& c, Shape to) {
  if (c.arg("self").is_tensor() && c.arg("self").tensor()->dense()) return reshaped(c, std::move(to));
  return c.onnx.reshape(c.tensor("self"), to);
}

Shape flattened(Call& c, const Shape& from, int64_t start, int64_t end) {
  if (from.empty()) return {c.sym.constant(1)};
  if (start > end) c.mismatch("start_dim comes after end_dim");
  Shape to(from.begin(), from.begin() + start);
  to.push_back(
      c.sym.product(std::span(from).subspan(static_cast<size_t>(start), static_cast<size_t>(end - start + 1))));
  to.insert(to.end(), from.begin() + end + 1, from.end());
  return to;
}

Value unflatten(Call& c) {
  const Shape from = c.tensor("self")->shape;
  int64_t dim = c.dim("dim", from.size());
  Shape inner = without_minus_one(c, c.sizes("sizes"), at(from, dim));
  Shape to(from.begin(), from.begin() + dim);
  to.insert(to.end(), inner.begin(), inner.end());
  to.insert(to.end(), from.begin() + dim + 1, from.end());
  return reshaped(c, to);
}

// Whether a dimension stays when it is squeezed. What the sample shows is reported as a constraint: at other sizes the
// result would have another rank. Nothing where that is not known.
std::optional<bool> stays(Call& c, Dim size) {
  const Dim one = c.sym.constant(1);
  if (const std::optional<bool> is_one = c.sym.equal(size, one)) return !*is_one;
  if (c.sym.less(one, size) == true) return true;
  const std::optional<int64_t> sample = c.sym.sample(size);
  if (sample ? *sample < 1 : onnx::depends_on_data(c.sym, size) || c.sym.has_iterations(size)) return std::nullopt;
  if (sample == 1)
    c.sym.assume({sym::Assumption::Kind::Equal, size, one});
  else
    c.sym.assume({sym::Assumption::Kind::AtMost, c.sym.constant(2), size});
  return sample != 1;
}

// Without the given dimensions. One of a dynamic size is assumed to have one element.
Value without(Call& c, const Vector<int64_t>& dropped) {
  Shape to, ones = c.tensor("self")->shape;
  for (int64_t i = 0; i < static_cast<int64_t>(ones.size()); ++i)
    if (std::find(dropped.begin(), dropped.end(), i) == dropped.end()) to.push_back(at(ones, i));
  Vector<int64_t> dynamic;
  for (int64_t i : dropped) {
    if (c.sym.equal(at(ones, i), c.sym.constant(1)) != true) dynamic.push_back(i);
    ones[static_cast<size_t>(i)] = c.sym.constant(1);
  }
  if (dynamic.empty()) return reshaped(c, to);
  return c.view(
      "self",
      [to, dynamic](Builder& b, OnnxValue* x) {
        for (int64_t axis : dynamic) x = b.slice(x, axis, b.dim(0), b.dim(1));
        return b.reshape(x, to);
      },
      [ones](Builder& b, OnnxValue* base, OnnxValue* changed) {
        return b.expand(b.reshape(changed, ones), base->shape);
      });
}

// Drops the given dimensions where their size is 1; all others of the shape stay.
Value squeezed(Call& c, const Vector<int64_t>& dims) {
  const Shape from = c.tensor("self")->shape;
  Vector<int64_t> dropped;
  for (int64_t i : dims) {
    if (from.empty()) break;
    const std::optional<bool> stay = stays(c, at(from, i));
    if (!stay)
      c.unsupported(
          fmt::format("dimension {} has the dynamic size {}: the result would have fewer dimensions only when "
                      "it is 1",
                      i, at(from, i).str()));
    if (!*stay) dropped.push_back(i);
  }
  return without(c, dropped);
}

Value squeeze_all(Call& c) {
  const Shape from = c.tensor("self")->shape;
  Vector<int64_t> dropped;
  for (size_t i = 0; i < from.size(); ++i) {
    const std::optional<bool> stay = stays(c, from[i]);
    if (!stay) {
      c.sym.assume({sym::Assumption::Kind::AtMost, c.sym.constant(2), from[i]});
      c.evaluator.warn(
          "squeeze() of a size that depends on data: it is kept, and the model drops it where it is 1; specify which "
          "dimensions to squeeze");
    }
    if (stay == false) dropped.push_back(static_cast<int64_t>(i));
  }
  return without(c, dropped);
}

// At a position that is known only at run time: the sizes before it stay, those behind it move by one.
Value unsqueezed_at(Call& c, OnnxValue* position) {
  Builder& b = c.onnx;
  OnnxValue* x = c.tensor("self");
  const auto rank = static_cast<int64_t>(x->rank());
  auto number = [&](int64_t v) { return b.scalar_int(DType::Int64, v); };
  position = b.where(b.op("Less", {position, number(0)}), b.add(position, number(rank + 1)), position);
  Shape to;
  for (int64_t i = 0; i <= rank; ++i) {
    OnnxValue* before = i < rank ? b.symbolic(at(x->shape, i)) : number(1);
    OnnxValue* behind = i > 0 ? b.symbolic(at(x->shape, i - 1)) : number(1);
    OnnxValue* size = b.where(b.op("Less", {number(i), position}), before,
                              b.where(b.op("Less", {position, number(i)}), behind, number(1)));
    to.push_back(b.symbol_of(size, "unsqueezed", 0));
  }
  return b.reshape(x, to);
}

// The first elements of the tensor's memory under other sizes. Elements that are added have no defined values.
Value resized(Call& c, const Shape& to) {
  onnx::Builder& b = c.onnx;
  onnx::Value* x = c.tensor("self");
  constexpr int64_t contiguous = 0;
  if (c.maybe_integer("memory_format").value_or(contiguous) != contiguous) c.unsupported("another memory format");
  if (!c.tensor_ref("self")->dense()) c.unsupported("of a view");
  Dim from = b.numel(x->shape), count = b.numel(to);
  if (c.sym.sub(from, count).lower().value_or(-1) < 0) c.unsupported("to more elements");
  onnx::Value* flat = b.reshape(x, {from});
  c.tensor_ref("self")->rebind(eval::Tensor(b.reshape(count == from ? flat : b.slice(flat, 0, b.dim(0), count), to)));
  return c.arg("self");
}

}  // namespace

void register_reshape(eval::Registry& ops) {
  add_each(
      ops,
      {"aten::view(Tensor(a) self, int[] size) -> Tensor(a)", "aten::_unsafe_view(Tensor self, int[] size) -> Tensor",
       "aten::_reshape_alias(Tensor(a) self, int[] size, int[] stride) -> Tensor(a)"},
      [](Call& c) {
        return reshaped(c, without_minus_one(c, c.sizes("size"), c.onnx.numel(c.tensor("self")->shape)));
      });
  ops.add("aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", [](Call& c) -> Value {
    if (c.maybe_dtype("dtype") == c.tensor("self")->dtype) return reshaped(c, c.tensor("self")->shape);
    c.unsupported("ONNX cannot take the bytes of one type for another");
  });
  ops.add("aten::reshape(Tensor(a) self, int[] shape) -> Tensor(a)", [](Call& c) {
    return reshaped_or_copied(c, without_minus_one(c, c.sizes("shape"), c.onnx.numel(c.tensor("self")->shape)));
  });
  ops.add("aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
          [](Call& c) { return reshaped(c, c.tensor("other")->shape); });
  ops.add("aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)",
          [](Call& c) { return reshaped_or_copied(c, c.tensor("other")->shape); });
  ops.add("aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", [](Call& c) {
    const Shape from = c.tensor("self")->shape;
    return reshaped_or_copied(c, flattened(c, from, c.dim("start_dim", from.size()), c.dim("end_dim", from.size())));
  });
  ops.add("aten::ravel(Tensor(a) self) -> Tensor(a)",
          [](Call& c) { return reshaped_or_copied(c, {c.onnx.numel(c.tensor("self")->shape)}); });
  ops.add("aten::unflatten.int(Tensor(a) self, int dim, int[] sizes) -> Tensor(a)", unflatten);
  ops.add("aten::squeeze(Tensor(a) self) -> Tensor(a)", squeeze_all);
  add_each(ops,
           {"aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
            "aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)"},
           [](Call& c) { return squeezed(c, c.dims("dim", c.tensor("self")->rank())); });
  ops.add("aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", [](Call& c) -> Value {
    const Value& dim = c.arg("dim");
    if (!dim.is_int() || !dim.integer().is_constant()) return unsqueezed_at(c, c.as_tensor(dim, DType::Int64));
    Shape to = c.tensor("self")->shape;
    to.insert(to.begin() + c.new_dim("dim", to.size()), c.sym.constant(1));
    return reshaped(c, to);
  });
  for (size_t n : {1, 2, 3}) {
    ops.add(fmt::format("aten::atleast_{}d(Tensor self) -> Tensor", n),
            [n](Call& c) { return reshaped(c, at_least(c.sym, c.tensor("self")->shape, n)); });
    ops.add(fmt::format("aten::atleast_{}d.Sequence(Tensor[] tensors) -> Tensor[]", n), [n](Call& c) {
      Vector<OnnxValue*> out;
      for (OnnxValue* v : c.tensors("tensors")) out.push_back(c.onnx.reshape(v, at_least(c.sym, v->shape, n)));
      return Value::list(out);
    });
  }
  ops.add("aten::set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)", [](Call& c) -> Value {
    c.tensor_ref("self")->rebind(*c.tensor_ref("source"));
    return c.arg("self");
  });
  ops.add("aten::resize_(Tensor(a!) self, int[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)",
          [](Call& c) { return resized(c, c.sizes("size")); });
  ops.add("aten::resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor(a!)",
          [](Call& c) { return resized(c, c.tensor("the_template")->shape); });
}

}  // namespace lithify::ops
