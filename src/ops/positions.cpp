#include "ops/positions.hpp"

#include "ops/slicing.hpp"

namespace lithify::ops {

using onnx::Builder;
using OnnxValue = onnx::Value;

OnnxValue* at_least_1d(Builder& b, OnnxValue* x) { return b.reshape(x, at_least(b.sym, x->shape, 1)); }

OnnxValue* as_index(Builder& b, OnnxValue* x) { return b.cast(x, DType::Int64); }

OnnxValue* gathered(Builder& b, OnnxValue* x, OnnxValue* index, int64_t axis) {
  return b.gather(x, index->dtype == DType::Int32 ? index : as_index(b, index), axis);
}

std::optional<Vector<int64_t>> known_contents(const OnnxValue* v) {
  return v->contents ? known(*v->contents) : std::nullopt;
}

OnnxValue* cut_to(Builder& b, OnnxValue* x, const Shape& to) {
  for (int64_t d = 0; d < rank_of(x); ++d)
    if (!(at(x->shape, d) == at(to, d))) x = Slice{d, b.dim(0), at(to, d), 1, at(to, d)}.take(b, x);
  return x;
}

onnx::Attributes scatter_reduction(Call& c, std::string_view name) {
  if (name.empty()) return {};
  int since = name == "max" || name == "min" ? 18 : 16;
  if (c.opset() < since) c.needs_opset(since);
  return {{"reduction", std::string(name)}};
}

OnnxValue* scatter_rows(Call& c, OnnxValue* x, int64_t axis, OnnxValue* positions, OnnxValue* rows,
                        std::string_view reduce) {
  Builder& b = c.onnx;
  onnx::Attributes attributes = scatter_reduction(c, reduce);
  if (axis == 0) return b.op("ScatterND", {x, b.unsqueeze(positions, {1}), rows}, attributes);
  Shape own(x->rank() - static_cast<size_t>(axis), c.sym.constant(1));
  own[0] = positions->shape[0];
  attributes.insert(attributes.begin(), {"axis", axis});
  return b.op("ScatterElements", {x, b.expand(b.reshape(positions, own), rows->shape), rows}, attributes);
}

}  // namespace lithify::ops
