// Operators with masks, and those that find positions: nonzero, searchsorted, bucketize.
#include <fmt/format.h>

#include "ops/positions.hpp"
#include "ops/slicing.hpp"

namespace lithify::ops {
namespace {

using onnx::Builder;
using OnnxValue = onnx::Value;

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
  Vector<OnnxValue*> out;
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

}  // namespace

void register_mask(eval::Registry& ops) {
  for (std::string_view kind : {"Scalar", "Tensor"})
    ops.add(fmt::format("aten::masked_fill.{}(Tensor self, Tensor mask, {} value) -> Tensor", kind, kind), masked_fill)
        .numbers({{"value", Role::Operand}});
  ops.add("aten::masked_select(Tensor self, Tensor mask) -> Tensor", masked_select);
  ops.add("aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", masked_scatter);
  add_each(ops, {"aten::nonzero(Tensor self) -> Tensor", "aten::argwhere(Tensor self) -> Tensor"},
           [](Call& c) -> Value { return nonzero(c); });
  ops.add("aten::nonzero_numpy(Tensor self) -> Tensor[]", [](Call& c) { return nonzero_numpy(c, "self"); });
  ops.add("aten::where(Tensor condition) -> Tensor[]", [](Call& c) { return nonzero_numpy(c, "condition"); });
  ops.add("aten::nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor", nonzero_static);
  add_each(ops,
           {"aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, "
            "str? side=None, Tensor? sorter=None) -> Tensor",
            "aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, "
            "str? side=None, Tensor? sorter=None) -> Tensor"},
           [](Call& c) { return searched(c, "sorted_sequence", "self"); });
  add_each(
      ops,
      {"aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
       "aten::bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"},
      [](Call& c) { return searched(c, "boundaries", "self"); });
}

}  // namespace lithify::ops
