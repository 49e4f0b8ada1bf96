// Embeddings with tables of quantized rows, of 8 bits or 4.
#include <fmt/format.h>

#include "ops/positions.hpp"
#include "ops/quantized.hpp"

namespace lithify::ops {
namespace {

constexpr std::string_view packed_table = "__torch__.torch.classes.quantized.EmbeddingPackedParamsBase";

// A file has a version, the table in a list, and numbers that describe its packing.
const eval::Quantized& table(Call& c, std::string_view name) {
  const Vector<Value>& s = native_state(c, c.arg(name));
  const bool fits = s.size() == 4 && s[1].is_list() && s[1].items().size() == 1 && s[1].items()[0].is_quantized();
  const eval::Quantized* q = fits ? s[1].items()[0].get_if<eval::Quantized>() : nullptr;
  if (!q || q->axis != 0 || q->integers->rank() != 2) c.unsupported("malformed packed parameters");
  return *q;
}

// The dequantized rows of the table: all of them, or those at the indices. Scales and offsets of rows of 4 bits are
// packed in half precision.
Ref dequantized_rows(Call& c, Ref indices) {
  Builder& b = c.onnx;
  const eval::Quantized& q = table(c, "weight");
  Ref scale = b.cast(q.scale, DType::Float), offset = b.op("Neg", {b.mul(b.cast(q.zero_point, DType::Float), scale)});
  const bool half = c.schema.name.ends_with("4bit");
  auto chosen = [&](Ref v) { return indices ? b.gather(v, indices, 0) : v; };
  auto of_rows = [&](Ref numbers) {
    Ref packed = half ? b.cast(b.cast(numbers, DType::Half), DType::Float) : numbers;
    return b.unsqueeze(chosen(packed), {indices ? static_cast<int64_t>(indices->rank()) : 1});
  };
  return b.add(b.mul(b.cast(chosen(q.integers->read(b)), DType::Float), of_rows(scale)), of_rows(offset));
}

// Sums of rows. Without offsets, each row of the indices is a bag.
Value bags(Call& c) {
  Builder& b = c.onnx;
  if (!c.none("compressed_indices_mapping") && c.flag("pruned_weights")) c.unsupported("a pruned table");
  if (c.integer("mode") != 0) c.unsupported("another mode than the sum");
  Ref indices = as_index(b, c.tensor("indices"));
  Value offsets = c.arg("offsets");
  if (c.none("offsets")) {
    if (indices->rank() != 2) c.unsupported("indices of one dimension without offsets");
    offsets = b.mul(arange(b, indices->shape[0]), b.symbolic(indices->shape[1]));
    indices = b.reshape(indices, {b.numel(indices->shape)});
  }
  const Value found =
      c.call("aten::embedding_bag", {dequantized_rows(c, nullptr), indices, offsets, false, b.dim(0), false,
                                     c.arg("per_sample_weights"), c.flag("include_last_offset")});
  return found.items().at(0);
}

}  // namespace

void register_quantized_embedding(eval::Registry& ops) {
  for (std::string_view bits : {"byte", "4bit"}) {
    ops.add(fmt::format("quantized::embedding_{}({} weight, Tensor indices, bool pruned_weights=False) -> Tensor", bits,
                        packed_table),
            [](Call& c) -> Value { return dequantized_rows(c, as_index(c.onnx, c.tensor("indices"))); });
    ops.add(fmt::format("quantized::embedding_bag_{}({} weight, Tensor indices, Tensor? offsets=None, bool "
                        "scale_grad_by_freq=False, int mode=0, bool pruned_weights=False, Tensor? "
                        "per_sample_weights=None, Tensor? compressed_indices_mapping=None, bool "
                        "include_last_offset=False) -> Tensor",
                        bits, packed_table),
            bags);
  }
  ops.add_quantized(fmt::format("quantized::embedding_bag_prepack(Tensor weight) -> {} W_prepack", packed_table),
                    [](Call& c) -> Value {
                      const Value none = Value::list(Vector<Value>{});
                      const Value weight = Value::list(Vector<Value>{c.arg("weight")});
                      return native(packed_table, {c.onnx.dim(1), weight, none, none});
                    });
  ops.add(fmt::format("quantized::embedding_bag_unpack({} W_prepack) -> Tensor W_origin", packed_table),
          [](Call& c) -> Value { return table(c, "W_prepack"); });
}

}  // namespace lithify::ops
