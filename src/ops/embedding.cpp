// Rows of a table by their positions: embedding and embedding_bag.
#include "ops/elementwise.hpp"
#include "ops/positions.hpp"

namespace lithify::ops {
namespace {

using onnx::Builder;
using OnnxValue = onnx::Value;

// The length of all bags, where they are known to have one. There are `count` rows.
std::optional<Dim> common_length(Call& c, const OnnxValue* offsets, Dim count) {
  const std::optional<Dim> length = c.sym.divide_exactly(count, offsets->shape[0]);
  if (!length) return std::nullopt;
  if (auto starts = known_contents(offsets); starts && length->is_constant()) {
    for (size_t i = 0; i < starts->size(); ++i)
      if ((*starts)[i] != static_cast<int64_t>(i) * *length->constant()) return std::nullopt;
    return length;
  }
  if (!offsets->producer || offsets->producer->op_type != "Range") return std::nullopt;
  const onnx::Value *start = offsets->producer->inputs[0], *step = offsets->producer->inputs[2];
  const bool equal =
      start->contents && start->contents->front().is(0) && step->contents && step->contents->front() == *length;
  return equal ? length : std::nullopt;
}

// The sums, or means, of bags of any lengths: `count` rows are added up by the number of their bag.
OnnxValue* summed_by_bag(Call& c, OnnxValue* rows, OnnxValue* offsets, Dim count, bool mean) {
  Builder& b = c.onnx;
  const Dim bags = offsets->shape[0];
  // The bag of a position is the number of bags that begin at or before it, less one.
  OnnxValue* position = b.unsqueeze(arange(b, count), {1});
  OnnxValue* begun = b.cast(b.op("Not", {b.op("Less", {position, as_index(b, offsets)})}), DType::Int64);
  OnnxValue* bag = b.sub(b.reduce("ReduceSum", begun, {1}, true), b.scalar_int(DType::Int64, 1));
  auto sum = [&](OnnxValue* what) {
    OnnxValue* zeros = b.full({bags, what->shape[1]}, b.scalar_int(what->dtype, 0));
    return b.op("ScatterND", {zeros, bag, what}, scatter_reduction(c, "add"));
  };
  OnnxValue* total = sum(rows);
  if (!mean) return total;
  OnnxValue* ones = b.full({count, b.dim(1)}, b.scalar_int(rows->dtype, 1));
  return b.div(total, b.op("Max", {sum(ones), b.scalar_int(rows->dtype, 1)}));
}

Value embedding_bag(Call& c) {
  Builder& b = c.onnx;
  OnnxValue *weight = c.tensor("weight"), *indices = as_index(b, c.tensor("indices")), *offsets = c.tensor("offsets");
  enum Mode : int64_t { Sum, Mean, Max };
  const int64_t mode = c.integer("mode");
  bool has_padding = c.schema.argument("padding_idx") && !c.none("padding_idx") && c.integer("padding_idx") >= 0;
  if (has_padding) c.unsupported("padding_idx");
  if (indices->rank() != 1 || offsets->rank() != 1) c.unsupported("indices that are not of one dimension");
  if (c.flag("include_last_offset")) offsets = b.slice(offsets, 0, b.dim(0), b.dim(-1));
  OnnxValue* rows = b.gather(weight, indices, 0);
  if (!c.none("per_sample_weights"))
    rows = b.mul(rows, b.unsqueeze(c.tensor_as("per_sample_weights", rows->dtype), {1}));

  Value out;
  const Dim count = indices->shape[0];
  if (std::optional<Dim> length = common_length(c, offsets, count)) {
    const char* reduce[] = {"ReduceSum", "ReduceMean", "ReduceMax"};
    out = b.reduce(reduce[mode], b.reshape(rows, {offsets->shape[0], *length, rows->shape[1]}), {1}, false);
  } else {
    if (mode == Max) c.unsupported("the maximum of bags whose sizes are known only at run time");
    out = summed_by_bag(c, rows, offsets, count, mode == Mean);
  }
  return Value::tuple({out, {}, {}, {}});
}

}  // namespace

void register_embedding(eval::Registry& ops) {
  ops.add(
      "aten::embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool "
      "sparse=False) -> Tensor",
      [](Call& c) -> Value { return c.onnx.gather(c.tensor("weight"), c.tensor("indices"), 0); });
  add_each(
      ops,
      {"aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
       "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, "
       "Tensor, Tensor)",
       "aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int "
       "mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, "
       "Tensor, Tensor)",
       "aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
       "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> "
       "(Tensor, Tensor, Tensor, Tensor)"},
      embedding_bag);
}

}  // namespace lithify::ops
