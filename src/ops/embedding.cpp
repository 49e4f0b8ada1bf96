// Rows of a table by their positions: embedding and embedding_bag.
#include <functional>

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

enum Mode : int64_t { Sum, Mean, Max };

/// Rows that are put together bag by bag: all of them, or those that are `present`, which is a bool for each.
struct Bags {
  OnnxValue* rows;
  OnnxValue* present = nullptr;
};

/// Reduces rows to one for each bag; `reduction` is "add" or "max".
using Reduce = std::function<OnnxValue*(OnnxValue* rows, std::string_view reduction)>;

// Bags of one length are rows of another dimension.
OnnxValue* reduced_by_length(Builder& b, OnnxValue* rows, Dim bags, Dim length, std::string_view reduction) {
  OnnxValue* apart = b.reshape(rows, {bags, length, rows->shape[1]});
  return b.reduce(reduction == "add" ? "ReduceSum" : "ReduceMax", apart, {1}, false);
}

// Bags of any lengths: rows are reduced by the number of their bag, which is the number of bags that begin at or before
// them, less one.
OnnxValue* reduced_by_offsets(Call& c, OnnxValue* rows, OnnxValue* offsets, std::string_view reduction) {
  Builder& b = c.onnx;
  OnnxValue* position = b.unsqueeze(arange(b, rows->shape[0]), {1});
  OnnxValue* begun = b.cast(b.op("Not", {b.op("Less", {position, as_index(b, offsets)})}), DType::Int64);
  OnnxValue* bag = b.sub(b.reduce("ReduceSum", begun, {1}, true), b.scalar_int(DType::Int64, 1));
  OnnxValue* first = like(b, rows, reduction == "add" ? 0 : -infinity);
  OnnxValue* initial = b.full({offsets->shape[0], rows->shape[1]}, first);
  return b.op("ScatterND", {initial, bag, rows}, scatter_reduction(c, reduction));
}

// The result of a bag without rows is 0, in every mode.
OnnxValue* pooled(Call& c, const Bags& bags, const Reduce& reduce, int64_t mode) {
  Builder& b = c.onnx;
  OnnxValue *rows = bags.rows, *zero = like(b, rows, 0);
  if (mode == Max) {
    OnnxValue* absent = like(b, rows, -infinity);
    OnnxValue* found = reduce(bags.present ? b.where(bags.present, rows, absent) : rows, "max");
    return b.where(b.op("Equal", {found, absent}), zero, found);
  }
  OnnxValue* total = reduce(bags.present ? b.where(bags.present, rows, zero) : rows, "add");
  if (mode == Sum) return total;
  OnnxValue* ones = b.full({rows->shape[0], b.dim(1)}, like(b, rows, 1));
  OnnxValue* number = reduce(bags.present ? b.cast(bags.present, rows->dtype) : ones, "add");
  return b.div(total, b.op("Max", {number, like(b, rows, 1)}));
}

Value embedding_bag(Call& c) {
  Builder& b = c.onnx;
  OnnxValue *weight = c.tensor("weight"), *indices = as_index(b, c.tensor("indices")), *offsets = c.tensor("offsets");
  const int64_t mode = c.integer("mode");
  if (indices->rank() != 1 || offsets->rank() != 1) c.unsupported("indices that are not of one dimension");
  if (c.flag("include_last_offset")) offsets = b.slice(offsets, 0, b.dim(0), b.dim(-1));
  OnnxValue* rows = b.gather(weight, indices, 0);
  if (!c.none("per_sample_weights"))
    rows = b.mul(rows, b.unsqueeze(c.tensor_as("per_sample_weights", rows->dtype), {1}));
  OnnxValue* present = nullptr;
  if (c.schema.argument("padding_idx") && !c.none("padding_idx") && c.integer("padding_idx") >= 0) {
    OnnxValue* padding = b.scalar_int(DType::Int64, c.integer("padding_idx"));
    present = b.unsqueeze(b.op("Not", {b.op("Equal", {indices, padding})}), {1});
  }

  const std::optional<Dim> length = common_length(c, offsets, indices->shape[0]);
  OnnxValue* out = nullptr;
  if (length && !present && length->lower().value_or(0) > 0) {
    const char* reduce[] = {"ReduceSum", "ReduceMean", "ReduceMax"};
    out = b.reduce(reduce[mode], b.reshape(rows, {offsets->shape[0], *length, rows->shape[1]}), {1}, false);
  } else {
    out = pooled(
        c, {rows, present},
        [&](OnnxValue* what, std::string_view reduction) {
          return length ? reduced_by_length(b, what, offsets->shape[0], *length, reduction)
                        : reduced_by_offsets(c, what, offsets, reduction);
        },
        mode);
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
