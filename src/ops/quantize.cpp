// Quantization: rounding to the steps of a small integer type, as QuantizeLinear and DequantizeLinear.
#include "ops/quantize.hpp"
#include "base/checked.hpp"

#include <fmt/format.h>

#include <limits>

#include "ops/register.hpp"

namespace lithify::ops {

std::optional<DType> Scheme::byte() const {
  if (low >= 0 && high <= 255) return DType::UInt8;
  if (low >= -128 && high <= 127) return DType::Int8;
  return std::nullopt;
}

namespace {

// A 1-D value of one number for each position of the scheme's axis, shaped to be broadcast.
Ref along(Builder& b, const Scheme& s, Ref v, size_t rank) {
  if (!s.axis || v->rank() == 0) return v;
  Shape shape(rank - static_cast<size_t>(*s.axis), b.dim(1));
  shape[0] = v->shape[0];
  return b.reshape(v, shape);
}

bool has_operators(Builder& b, const Scheme& s) { return !s.axis || b.opset() >= 13; }

onnx::Attributes axis_of(const Scheme& s) { return s.axis ? onnx::Attributes{{"axis", *s.axis}} : onnx::Attributes{}; }

// The integers as numbers of float32, before they are cut to the range.
Ref steps(Builder& b, const Scheme& s, Ref x) {
  Ref scale = along(b, s, s.scale, x->rank()), zero = along(b, s, b.cast(s.zero_point, DType::Float), x->rank());
  return b.add(b.op("Round", {b.div(x, scale)}), zero);
}

Ref cut(Builder& b, const Scheme& s, Ref q) {
  return clip(b, q, like(b, q, static_cast<double>(s.low)), like(b, q, static_cast<double>(s.high)));
}

}  // namespace

Ref quantize(Builder& b, const Scheme& s, Ref x, DType t) {
  x = b.cast(x, DType::Float);
  std::optional<DType> byte = s.byte();
  bool whole_range = byte == DType::UInt8 ? s.low == 0 && s.high == 255 : s.low == -128 && s.high == 127;
  if (byte != t || !has_operators(b, s) || (!whole_range && b.opset() < 12))
    return b.cast(cut(b, s, steps(b, s, x)), t);
  Ref q = b.op("QuantizeLinear", {x, s.scale, b.cast(s.zero_point, t)}, axis_of(s));
  return whole_range ? q : cut(b, s, q);
}

Ref dequantize(Builder& b, const Scheme& s, Ref q) {
  if ((q->dtype == DType::UInt8 || q->dtype == DType::Int8) && has_operators(b, s))
    return b.op("DequantizeLinear", {q, s.scale, b.cast(s.zero_point, q->dtype)}, axis_of(s));
  Ref zero = along(b, s, b.cast(s.zero_point, DType::Float), q->rank());
  return b.mul(b.sub(b.cast(q, DType::Float), zero), along(b, s, s.scale, q->rank()));
}

Range range_of(Builder& b, Ref x, double steps) {
  Ref zero = like(b, x, 0);
  Ref least = minimum(b, b.reduce("ReduceMin", x, {}, false), zero);
  Ref most = maximum(b, b.reduce("ReduceMax", x, {}, false), zero);
  return {least, b.div(b.sub(most, least), like(b, x, steps))};
}

namespace {

Ref one_number(Call& c, std::string_view name, DType t) {
  Ref v = c.tensor_as(name, t);
  return v->rank() == 0 ? v : c.onnx.reshape(v, {});
}

Scheme scheme(Call& c, std::string_view x) {
  bool channels = c.schema.argument("axis");
  std::string_view scale = c.schema.argument("scales") ? "scales" : "scale";
  std::string_view zero = c.schema.argument("zero_points") ? "zero_points" : "zero_point";
  int64_t low = checked_integer(c.real("quant_min")), high = checked_integer(c.real("quant_max"));
  if (!channels)
    return {one_number(c, scale, DType::Float), one_number(c, zero, DType::Int32), std::nullopt, low, high};
  Ref scales = c.tensor_as(scale, DType::Float);
  Ref zeros = c.none(zero) ? c.onnx.full(scales->shape, c.onnx.scalar_int(DType::Int32, 0)) : c.tensor(zero);
  // Zero points that are not whole are not quantized to: PyTorch has them for weights of few bits.
  if (is_float(zeros->dtype)) {
    if (!zeros->constant) c.unsupported("zero points that are not whole numbers");
    for (double z : zeros->constant->reals())
      if (!exact_integer(z)) c.unsupported("zero points that are not whole numbers");
  }
  return {scales, c.onnx.cast(zeros, DType::Int32), c.dim("axis", c.tensor(x)->rank()), low, high};
}

// There and back.
Ref fake_quantized(Call& c, const Scheme& s, Ref x) {
  Builder& b = c.onnx;
  DType t = x->dtype;
  x = b.cast(x, DType::Float);
  std::optional<DType> byte = s.byte();
  bool narrow = byte && has_operators(b, s);
  if (narrow) return b.cast(dequantize(b, s, quantize(b, s, x, *byte)), t);
  return b.cast(dequantize(b, s, cut(b, s, steps(b, s, x))), t);
}

Value fake_quantize(Call& c) {
  Builder& b = c.onnx;
  Scheme s = scheme(c, "self");
  Ref x = c.tensor("self"), out = fake_quantized(c, s, x);
  if (c.schema.argument("fake_quant_enabled")) {
    Ref enabled = c.onnx.cast(one_number(c, "fake_quant_enabled", DType::Int64), DType::Bool);
    if (enabled->contents && enabled->contents->front().is(0))
      return Value::tuple({x, b.full(x->shape, b.scalar(DType::Bool, 1))});
    out = b.where(enabled, out, x);
  }
  if (c.schema.returns.size() == 1) return out;
  Ref q = steps(b, s, b.cast(x, DType::Float));
  Ref above = compare(b, "GreaterOrEqual", q, like(b, q, static_cast<double>(s.low)));
  Ref below = compare(b, "LessOrEqual", q, like(b, q, static_cast<double>(s.high)));
  return Value::tuple({out, b.op("And", {above, below})});
}

DType integer_type(Call& c) {
  DType t = *c.maybe_dtype("dtype");
  if (!is_integer(t)) c.unsupported(fmt::format("the type {}", name_of(t)));
  return t;
}

Value to_integers(Call& c) { return quantize(c.onnx, scheme(c, "input"), c.tensor("input"), integer_type(c)); }

Value from_integers(Call& c) {
  Ref q = c.tensor("input");
  if (q->dtype != integer_type(c)) c.mismatch("the tensor is not of the type that is given");
  return c.onnx.cast(dequantize(c.onnx, scheme(c, "input"), q), c.maybe_dtype("out_dtype").value_or(DType::Float));
}

// The scale and zero point that the range of a tensor asks for.
Value choose_parameters(Call& c) {
  Builder& b = c.onnx;
  Ref x = b.cast(c.tensor("input"), DType::Float);
  double low = static_cast<double>(c.integer("quant_min")), high = static_cast<double>(c.integer("quant_max"));
  auto [least, scale] = range_of(b, x, high - low);
  scale = maximum(b, scale, like(b, x, c.real("eps")));
  Ref point = b.sub(like(b, x, low), b.op("Round", {b.div(least, scale)}));
  point = clip(b, point, like(b, x, low), like(b, x, high));
  Shape one{b.dim(1)};
  return Value::tuple({b.reshape(b.cast(scale, DType::Double), one), b.reshape(b.cast(point, DType::Int64), one)});
}

}  // namespace

void register_quantize(eval::Registry& ops) {
  for (std::string_view schema :
       {"aten::fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) "
        "-> Tensor",
        "aten::fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, int "
        "quant_min, int quant_max) -> Tensor",
        "aten::fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, "
        "int quant_max) -> Tensor",
        "aten::fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, int "
        "quant_max) -> (Tensor output, Tensor mask)",
        "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, "
        "Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
        "aten::fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int "
        "quant_min, int quant_max) -> (Tensor output, Tensor mask)"})
    ops.add(schema, fake_quantize);

  // What torch.export has of a quantized model: integers are ordinary tensors.
  for (auto [overload, parameters] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"", "float scale, int zero_point, int quant_min, int quant_max"},
           {".tensor", "Tensor scale, Tensor zero_point, int quant_min, int quant_max"},
           {".tensor2", "Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max"}}) {
    ops.add(fmt::format("quantized_decomposed::quantize_per_tensor{}(Tensor input, {}, ScalarType dtype) -> Tensor",
                        overload, parameters),
            to_integers);
    ops.add(fmt::format("quantized_decomposed::dequantize_per_tensor{}(Tensor input, {}, ScalarType dtype, *, "
                        "ScalarType? out_dtype=None) -> Tensor",
                        overload, parameters),
            from_integers);
  }
  ops.add(
      "quantized_decomposed::quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int "
      "quant_min, int quant_max, ScalarType dtype) -> Tensor",
      to_integers);
  ops.add(
      "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int "
      "quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
      from_integers);
  ops.add(
      "quantized_decomposed::choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType "
      "dtype) -> (Tensor, Tensor)",
      choose_parameters);
}

}  // namespace lithify::ops
