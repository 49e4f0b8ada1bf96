// Operators that reorder the elements along dimensions: flip, roll, rot90.
#include <algorithm>
#include <limits>

#include "ops/register.hpp"
#include "ops/sizes.hpp"

namespace lithify::ops {
namespace {

using onnx::Builder;
using OnnxValue = onnx::Value;

constexpr int64_t before_the_start = std::numeric_limits<int64_t>::min() + 1;

OnnxValue* flipped(Builder& b, OnnxValue* x, const Vector<int64_t>& dims) {
  Vector<int64_t> axes;
  for (int64_t d : dims)
    if (x->rank() > 0 && !at(x->shape, d).is(1) && !at(x->shape, d).is(0)) axes.push_back(d);
  if (axes.empty()) return x;
  Vector<int64_t> backward(axes.size(), -1), ends(axes.size(), before_the_start);
  return b.op("Slice", {x, b.ints(backward), b.ints(ends), b.ints(axes), b.ints(backward)});
}

OnnxValue* rolled(Builder& b, OnnxValue* x, Dim shift, int64_t axis) {
  Dim size = at(x->shape, axis);
  if (size.is(0) || size.is(1) || shift.is(0)) return x;
  std::optional<int64_t> by = shift.constant(), n = size.constant();
  if (by && n && *n <= 1 << 14) {
    Vector<int64_t> order;
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
  Vector<Dim> shifts = c.sizes("shifts");
  Vector<int64_t> dims = c.dims("dims", x->rank());
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
  Vector<int64_t> dims = c.dims("dims", x->rank());
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

}  // namespace

void register_flip(eval::Registry& ops) {
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
}

}  // namespace lithify::ops
