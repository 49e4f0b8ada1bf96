// Quantized tensors: what they are made of, the `quantized` operators with their packed parameters, and which other
// operators take them. A product is one of the dequantized values, whose result is rounded to its own scheme:
// runtimes know DequantizeLinear, Conv, QuantizeLinear for a convolution of integers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/linear.hpp"
#include "ops/quantize.hpp"
#include "ops/quantized.hpp"
#include "ops/register.hpp"

namespace lithify::ops {
namespace {

using eval::None;
using eval::Quantized;
using eval::Registry;

// ---- quantized tensors ----------------------------------------------------------------------------------------------

const Quantized& quantized(Call& c, std::string_view name) {
  if (auto* q = c.arg(name).get_if<Quantized>()) return *q;
  c.unsupported(fmt::format("the tensor '{}' is not quantized", name));
}

// Opset 10 has QuantizeLinear, but ONNX Runtime makes integers of what is around it by operators of opset 11.
void check_opset(Builder& b) {
  if (b.opset() < 11) b.needs_opset("a quantized tensor", 11);
}

Scheme scheme(Builder& b, const Quantized& q) {
  check_opset(b);
  bool natural = q.integers->dtype() == DType::UInt8;
  return {b.cast(q.scale, DType::Float), q.zero_point, q.axis, natural ? 0 : -128, natural ? 255 : 127};
}

}  // namespace

Ref dequantized(Builder& b, const Quantized& q) {
  Ref integers = q.integers->read(b);
  if (!is_float(q.zero_point->dtype)) return dequantize(b, scheme(b, q), integers);
  // No QuantizeLinear has zero points that are not whole.
  auto of_rows = [&](Ref numbers) {
    onnx::Shape shape(integers->rank(), b.dim(1));
    shape[static_cast<size_t>(q.axis.value_or(0))] = numbers->shape[0];
    return b.reshape(b.cast(numbers, DType::Float), shape);
  };
  return b.mul(b.sub(b.cast(integers, DType::Float), of_rows(q.zero_point)), of_rows(q.scale));
}

namespace {

Ref dequantized(Call& c, const Quantized& q) { return ops::dequantized(c.onnx, q); }
Ref dequantized(Call& c, std::string_view name) { return dequantized(c, quantized(c, name)); }

// x in steps; `integers` is the type of a byte.
Value rounded(Call& c, Ref x, Ref scale, Ref zero_point, std::optional<int64_t> axis, DType integers) {
  Builder& b = c.onnx;
  Quantized q{std::make_shared<eval::Tensor>(b.full({}, b.scalar_int(integers, 0))), b.cast(scale, DType::Double),
              b.cast(zero_point, DType::Int64), axis};
  Scheme s = scheme(b, q);
  if (zero_point->constant)
    for (double z : zero_point->constant->reals())
      if (z < static_cast<double>(s.low) || z > static_cast<double>(s.high))
        c.unsupported(fmt::format("the zero point {}, which is not a {}", z, name_of(q.dtype())));
  q.integers = std::make_shared<eval::Tensor>(quantize(b, s, x, integers));
  return q;
}

// One number of the program or of a tensor.
Ref one(Call& c, std::string_view name, DType t) {
  Ref v = c.number(name, t);
  return v->rank() == 0 ? v : c.onnx.reshape(v, {});
}

// x in the steps that the call asks for, of the type that another has.
Value rounded(Call& c, Ref x, const Quantized& type_of, std::string_view scale = "output_scale",
              std::string_view zero_point = "output_zero_point") {
  return rounded(c, x, one(c, scale, DType::Double), one(c, zero_point, DType::Int64), std::nullopt,
                 type_of.integers->dtype());
}

DType byte_type(Call& c) {
  DType t = *c.maybe_dtype("dtype");
  if (t != DType::QUInt8 && t != DType::QInt8) c.unsupported(fmt::format("the type {}", name_of(t)));
  return t == DType::QUInt8 ? DType::UInt8 : DType::Int8;
}

Value quantize_by_channels(Call& c) {
  Ref zeros = c.tensor("zero_points");
  if (is_float(zeros->dtype)) c.unsupported("zero points that are not whole numbers");
  return rounded(c, c.tensor("self"), c.tensor("scales"), zeros, c.dim("axis", c.tensor("self")->rank()), byte_type(c));
}

Value quantize_each(Call& c) {
  Vector<Value> out;
  Builder& b = c.onnx;
  for (Ref x : c.tensors("tensors")) {
    Dim at = b.dim(static_cast<int64_t>(out.size()));
    out.push_back(rounded(c, x, b.select(c.tensor("scales"), 0, at), b.select(c.tensor("zero_points"), 0, at),
                          std::nullopt, byte_type(c)));
  }
  return Value::list(std::move(out));
}

Value dequantize_each(Call& c) {
  Vector<Value> out;
  for (const Value& v : c.arg("tensors").items()) {
    auto* q = v.get_if<Quantized>();
    out.push_back(q ? dequantized(c, *q) : c.onnx.cast(c.as_tensor(v), DType::Float));
  }
  return Value::list(std::move(out));
}

// What a tensor was quantized with, where it is known at export.
double known_scale(Call& c, const Quantized& q) {
  if (q.axis || !q.scale->constant) c.unsupported("a scale that is not one number known at export");
  return q.scale->constant->reals()[0];
}
int64_t known_zero_point(Call& c, const Quantized& q) {
  if (q.axis || !q.zero_point->constant) c.unsupported("a zero point that is not one number known at export");
  return q.zero_point->constant->integers()[0];
}

// Another tensor's numbers, in the steps that this one has.
Value write(Call& c) {
  Builder& b = c.onnx;
  const Quantized& to = quantized(c, "self");
  Ref numbers = c.arg("src").is_quantized() ? dequantized(c, "src") : c.tensor("src");
  Ref steps = quantize(b, scheme(b, to), b.expand(numbers, to.integers->shape()), to.integers->dtype());
  to.integers->write(b, steps);
  return c.arg("self");
}

void register_schemes(Registry& ops) {
  for (std::string_view schema :
       {"aten::quantize_per_tensor(Tensor self, float scale, int zero_point, ScalarType dtype) -> Tensor",
        "aten::quantize_per_tensor.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, ScalarType dtype) -> "
        "Tensor"})
    ops.add(schema, [](Call& c) {
      return rounded(c, c.tensor("self"), one(c, "scale", DType::Double), one(c, "zero_point", DType::Int64),
                     std::nullopt, byte_type(c));
    });
  ops.add(
      "aten::quantize_per_tensor.tensors(Tensor[] tensors, Tensor scales, Tensor zero_points, ScalarType dtype) -> "
      "Tensor[]",
      quantize_each);
  ops.add(
      "aten::quantize_per_channel(Tensor self, Tensor scales, Tensor zero_points, int axis, ScalarType dtype) -> "
      "Tensor",
      quantize_by_channels);

  constexpr std::string_view self = "aten::dequantize.self(Tensor self) -> Tensor";
  ops.add(self, [](Call& c) -> Value { return c.tensor_as("self", DType::Float); });
  ops.add_quantized(self, [](Call& c) -> Value { return dequantized(c, "self"); });
  constexpr std::string_view each = "aten::dequantize.tensors(Tensor[] tensors) -> Tensor[]";
  ops.add(each, dequantize_each);
  ops.add_quantized(each, dequantize_each);
  ops.add_quantized("aten::int_repr(Tensor self) -> Tensor",
                    [](Call& c) -> Value { return quantized(c, "self").integers->read(c.onnx); });
  ops.add_quantized("aten::q_scale(Tensor self) -> float",
                    [](Call& c) -> Value { return known_scale(c, quantized(c, "self")); });
  ops.add_quantized("aten::q_zero_point(Tensor self) -> int",
                    [](Call& c) -> Value { return c.number_value(known_zero_point(c, quantized(c, "self"))); });
  ops.add_quantized("aten::q_per_channel_scales(Tensor self) -> Tensor",
                    [](Call& c) -> Value { return quantized(c, "self").scale; });
  ops.add_quantized("aten::q_per_channel_zero_points(Tensor self) -> Tensor",
                    [](Call& c) -> Value { return quantized(c, "self").zero_point; });
  ops.add_quantized("aten::q_per_channel_axis(Tensor self) -> int",
                    [](Call& c) -> Value { return c.number_value(quantized(c, "self").axis.value_or(0)); });
  ops.add_quantized("prim::dtype(Tensor a) -> int",
                    [](Call& c) -> Value { return c.number_value(torch_number(quantized(c, "a").dtype())); });
  ops.add_quantized("prim::is_quantized(Tensor a) -> bool", [](Call&) -> Value { return true; });
  for (std::string_view schema :
       {"aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, "
        "MemoryFormat? memory_format=None) -> Tensor(a)",
        "aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? "
        "memory_format=None) -> Tensor(a)",
        "aten::to.prim_Device(Tensor(a) self, Device? device, int? dtype=None, bool non_blocking=False, bool "
        "copy=False) -> Tensor(a)",
        "aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> "
        "Tensor(a)"})
    ops.add_quantized(schema, [](Call& c) -> Value {
      DType own = quantized(c, "self").dtype();
      if (c.maybe_dtype("dtype").value_or(own) != own) c.unsupported("another type for a quantized tensor");
      return c.flag("copy") ? c.call("aten::clone", {c.arg("self")}) : c.arg("self");
    });
  ops.add_quantized("aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)", write);
  ops.add_quantized("aten::dropout(Tensor input, float p, bool train) -> Tensor", [](Call& c) -> Value {
    if (c.flag("train")) c.unsupported("dropout in training");
    return c.arg("input");
  });
}

// ---- packed parameters ----------------------------------------------------------------------------------------------

constexpr std::string_view packed_linear = "__torch__.torch.classes.quantized.LinearPackedParamsBase";

std::string packed_conv(int dims) {
  return fmt::format("__torch__.torch.classes.quantized.Conv{}dPackedParamsBase", std::max(dims, 2));
}

}  // namespace

Value native(std::string_view class_name, Vector<Value> state) {
  auto object = std::make_shared<eval::Object>();
  object->class_name = class_name;
  object->set("__state__", Value::tuple(std::move(state)));
  return object;
}

const Vector<Value>& native_state(Call& c, const Value& v) {
  auto* object = v.get_if<std::shared_ptr<eval::Object>>();
  Value* state = object ? (*object)->attribute("__state__") : nullptr;
  if (!state || !state->is<eval::Tuple>()) c.unsupported("packed parameters that are none");
  return state->items();
}

namespace {

bool is_maybe_tensor(const Value& v) { return v.is_none() || v.is_tensor(); }

struct PackedConv {
  Quantized weight;
  Ref bias;
  Vector<int64_t> stride, padding, output_padding, dilation;
  int64_t groups;
  bool transposed;
};

// A file has the numbers in one tensor: dimensions, stride, padding, dilation, output padding, groups, transposed.
PackedConv conv_parameters(Call& c, std::string_view name, size_t dims) {
  const Vector<Value>& s = native_state(c, c.arg(name));
  auto check = [&](bool fits) {
    if (!fits) c.unsupported("malformed packed parameters");
  };
  check(s.size() == 3 && s[1].is_list() && s[2].is_list());
  auto* version = s[0].get_if<std::string>();
  if (!version || *version != "2") c.unsupported("packed parameters of another version than 2");
  const Vector<Value>&tensors = s[1].items(), &optional = s[2].items();
  check(tensors.size() == 2 && tensors[0].is_tensor() && tensors[1].is_quantized() && optional.size() == 1 &&
        is_maybe_tensor(optional[0]));
  Ref config = c.as_tensor(tensors[0]);
  check(config->constant && config->rank() == 1 && is_integer(config->dtype));
  Vector<int64_t> numbers = config->constant->integers();
  check(!numbers.empty() && numbers[0] >= 1 && numbers[0] <= 3);
  size_t n = static_cast<size_t>(numbers[0]);
  check(numbers.size() == 4 * n + 3);
  auto part = [&](size_t i) {
    auto begin = numbers.begin() + 1 + static_cast<ptrdiff_t>(i * n);
    return std::vector(begin, begin + static_cast<ptrdiff_t>(n));
  };
  PackedConv p{*tensors[1].get_if<Quantized>(),
               optional[0].is_none() ? nullptr : c.as_tensor(optional[0]),
               part(0),
               part(1),
               part(3),
               part(2),
               numbers[4 * n + 1],
               numbers[4 * n + 2] != 0};
  auto least = [](const Vector<int64_t>& v) { return *std::ranges::min_element(v); };
  check(p.weight.integers->rank() == n + 2 && least(p.stride) > 0 && least(p.padding) >= 0 && least(p.dilation) > 0 &&
        least(p.output_padding) >= 0 && p.groups > 0);
  if (n == dims) return p;
  // One dimension is kept as two, of which the first has the size 1.
  Ref w = p.weight.integers->read(c.onnx);
  check(dims == 1 && n == 2 && w->shape[2].is(1));
  p.weight.integers = std::make_shared<eval::Tensor>(c.onnx.squeeze(w, {2}));
  for (Vector<int64_t>* v : {&p.stride, &p.padding, &p.output_padding, &p.dilation}) v->erase(v->begin());
  return p;
}

Value pack_conv(Call& c, int dims, bool transposed) {
  const Quantized& w = quantized(c, "weight");
  Vector<double> numbers{static_cast<double>(dims)};
  auto append = [&](const Vector<int64_t>& v) {
    for (size_t i = 0; i < static_cast<size_t>(dims); ++i)
      numbers.push_back(static_cast<double>(v.size() == 1 ? v[0] : v.at(i)));
  };
  for (std::string_view name : {"stride", "padding", "dilation"}) append(c.integers(name));
  append(transposed ? c.integers("output_padding") : Vector<int64_t>{0});
  numbers.push_back(static_cast<double>(c.integer("groups")));
  numbers.push_back(transposed);
  Ref config = c.onnx.reals(DType::Int64, {static_cast<int64_t>(numbers.size())}, numbers);
  return native(packed_conv(dims), {"2", Value::list({config, w}), Value::list(Vector<Value>{c.arg("bias")})});
}

// ---- products -------------------------------------------------------------------------------------------------------

// Whether the operator is another one and the ReLU of its result: linear_relu, linear_relu_dynamic, conv2d_relu.
bool has_relu(Call& c) { return c.schema.name.find("_relu") != std::string::npos; }
Ref activated(Call& c, Ref x) { return has_relu(c) ? c.onnx.op("Relu", {x}) : x; }

Value ints(Call& c, const Vector<int64_t>& v) {
  Vector<Value> out;
  for (int64_t n : v) out.push_back(c.number_value(n));
  return Value::list(std::move(out));
}

Ref convolved(Call& c, Ref x, const PackedConv& p) {
  return activated(c, call(c, "aten::convolution",
                           {x, dequantized(c, p.weight), p.bias ? Value(p.bias) : Value(None{}), ints(c, p.stride),
                            ints(c, p.padding), ints(c, p.dilation), p.transposed, ints(c, p.output_padding),
                            c.number_value(p.groups)}));
}

// The 256 steps, or 128, over the range of a tensor: as the engines for x86 choose them. QNNPACK takes 256 always.
Scheme scheme_of_range(Builder& b, Ref x, bool reduced) {
  check_opset(b);
  double most = reduced ? 127 : 255;
  auto [least, step] = range_of(b, x, most);
  // A range that is too small is taken for a larger one; the zero point stays that of the small one.
  Ref zero = b.op("Neg", {b.div(least, maximum(b, step, like(b, x, 1e-30)))});
  zero = clip(b, b.op("Round", {zero}), like(b, x, 0), like(b, x, most));
  return {maximum(b, step, like(b, x, 6.1e-5)), b.cast(zero, DType::UInt8), std::nullopt, 0, 255};
}

Ref there_and_back(Builder& b, const Scheme& s, Ref x) { return dequantize(b, s, quantize(b, s, x, DType::UInt8)); }

void register_conv_of(Registry& ops, int dims) {
  std::string type = packed_conv(dims), d = std::to_string(dims);
  auto conv = [dims](std::string_view weight) {
    return [dims, weight](Call& c) {
      const Quantized& x = quantized(c, "qx");
      return rounded(c, convolved(c, dequantized(c, x), conv_parameters(c, weight, static_cast<size_t>(dims))), x);
    };
  };
  // PyTorch rounds the result to the steps of the input.
  auto conv_dynamic = [dims](Call& c) -> Value {
    Ref x = c.tensor("qx");
    Scheme s = scheme_of_range(c.onnx, x, c.flag("reduce_range"));
    PackedConv p = conv_parameters(c, "packed_weight", static_cast<size_t>(dims));
    return there_and_back(c.onnx, s, convolved(c, there_and_back(c.onnx, s, x), p));
  };
  constexpr std::string_view scheme = "float output_scale, int output_zero_point) -> Tensor";
  for (std::string_view relu : {"", "_relu"}) {
    ops.add_quantized(fmt::format("quantized::conv{}d{}{}(Tensor qx, {} packed_weight, {}", d, relu,
                                  dims == 1 ? "" : ".new", type, scheme),
                      conv("packed_weight"));
    // Of releases in which the numbers were not yet packed; they are the same.
    if (dims > 1)
      ops.add_quantized(fmt::format("quantized::conv{}d{}(Tensor qx, {} weight, int[] stride, int[] padding, int[] "
                                    "dilation, int groups, {}",
                                    d, relu, type, scheme),
                        conv("weight"));
  }
  ops.add_quantized(fmt::format("quantized::conv_transpose{}d(Tensor qx, {} packed_weight, {}", d, type, scheme),
                    conv("packed_weight"));
  for (std::string_view name : {"conv", "conv_transpose"})
    ops.add(fmt::format("quantized::{}{}d_dynamic(Tensor qx, {} packed_weight, bool reduce_range=False) -> Tensor",
                        name, d, type),
            conv_dynamic);
  ops.add_quantized(fmt::format("quantized::conv{}d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, "
                                "int[] dilation, int groups) -> {}",
                                d, type),
                    [dims](Call& c) { return pack_conv(c, dims, false); });
  ops.add_quantized(fmt::format("quantized::conv_transpose{}d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] "
                                "padding, int[] output_padding, int[] dilation, int groups) -> {}",
                                d, type),
                    [dims](Call& c) { return pack_conv(c, dims, true); });
}

// x rounded to its range, times a matrix [out, in], as a product of integers. From DequantizeLinear around a MatMul
// that no QuantizeLinear follows, ONNX Runtime uses a fused product that rounds the input again.
Ref product_of_rounded(Call& c, Ref x, const Quantized& w, bool reduced) {
  Builder& b = c.onnx;
  if (w.axis.value_or(0) != 0) c.unsupported("a matrix that is quantized by columns");
  Scheme s = scheme_of_range(b, x, reduced);
  Ref matrix = b.swap_dims(w.integers->read(b), 0, 1);
  Ref sums = b.op("MatMulInteger",
                  {quantize(b, s, x, DType::UInt8), matrix, s.zero_point, b.cast(w.zero_point, matrix->dtype)});
  return b.mul(b.cast(sums, DType::Float), b.mul(s.scale, b.cast(w.scale, DType::Float)));
}

}  // namespace

Ref packed_product(Call& c, Ref x, const Value& packed, Rounding rounding) {
  const Vector<Value>& s = native_state(c, packed);
  bool half = rounding == Rounding::Half;
  bool fits = s.size() == 2 && is_maybe_tensor(s[1]) && (half ? s[0].is_tensor() : s[0].is_quantized());
  auto* q = fits ? s[0].get_if<Quantized>() : nullptr;
  if (!fits || (q ? q->integers->rank() : s[0].tensor()->rank()) != 2) c.unsupported("malformed packed parameters");
  Builder& b = c.onnx;
  Ref bias = s[1].is_none() ? nullptr : c.as_tensor(s[1]);
  if (half) return activated(c, linear(b, x, b.cast(b.cast(c.as_tensor(s[0]), DType::Half), DType::Float), bias));
  if (rounding == Rounding::None) return activated(c, linear(b, x, dequantized(c, *q), bias));
  Ref y = product_of_rounded(c, x, *q, rounding == Rounding::HalfRange);
  return activated(c, bias ? b.add(y, bias) : y);
}

namespace {

void register_linear_of(Registry& ops) {
  for (std::string_view relu : {"", "_relu"}) {
    ops.add_quantized(fmt::format("quantized::linear{}(Tensor X, {} W_prepack, float Y_scale_i, int Y_zero_point_i) -> "
                                  "Tensor Y",
                                  relu, packed_linear),
                      [](Call& c) {
                        const Quantized& x = quantized(c, "X");
                        Ref y = packed_product(c, dequantized(c, x), c.arg("W_prepack"), Rounding::None);
                        return rounded(c, y, x, "Y_scale_i", "Y_zero_point_i");
                      });
    ops.add(fmt::format("quantized::linear{}_dynamic(Tensor X, {} W_prepack, bool reduce_range=False) -> Tensor Y",
                        relu, packed_linear),
            [](Call& c) -> Value {
              return packed_product(c, c.tensor("X"), c.arg("W_prepack"),
                                    c.flag("reduce_range") ? Rounding::HalfRange : Rounding::Range);
            });
    ops.add(fmt::format("quantized::linear{}_dynamic_fp16(Tensor X, {} W_prepack) -> Tensor Y", relu, packed_linear),
            [](Call& c) -> Value { return packed_product(c, c.tensor("X"), c.arg("W_prepack"), Rounding::Half); });
  }
  ops.add_quantized(fmt::format("quantized::linear_prepack(Tensor W, Tensor? B=None) -> {} W_prepack", packed_linear),
                    [](Call& c) {
                      return native(packed_linear, {c.arg("W"), c.arg("B")});
                    });
  ops.add(fmt::format("quantized::linear_prepack_fp16(Tensor W, Tensor? B=None) -> {} W_prepack", packed_linear),
          [](Call& c) {
            return native(packed_linear, {c.arg("W"), c.arg("B")});
          });
}

// ---- elementwise ----------------------------------------------------------------------------------------------------

// The operator on plain tensors of two.
eval::RuleFunction of_two(std::string_view name) {
  return [name](Call& c) {
    const Quantized& a = quantized(c, "qa");
    Ref y = call(c, fmt::format("aten::{}", name), {dequantized(c, a), dequantized(c, "qb")});
    return rounded(c, activated(c, y), a, "scale", "zero_point");
  };
}

// The operator on plain tensors of the first argument, and of others by their names.
eval::RuleFunction of_one(Vector<std::string_view> others) {
  return [others = std::move(others)](Call& c) {
    const Quantized& x = quantized(c, c.schema.arguments[0].name);
    Vector<Value> arguments{dequantized(c, x)};
    for (std::string_view name : others)
      arguments.push_back(c.arg(name).is_quantized() ? dequantized(c, name) : c.arg(name));
    return rounded(c, call(c, "aten::" + c.schema.name.substr(c.schema.name.find("::") + 2), arguments), x);
  };
}

Value quantized_batch_norm(Call& c) {
  const Quantized& x = quantized(c, "qx");
  Ref y = call(c, "aten::batch_norm",
               {dequantized(c, x), c.arg("weight"), c.arg("bias"), c.arg("mean"), c.arg("var"), false, 0.1,
                c.arg("eps"), false});
  return rounded(c, activated(c, y), x);
}

Value quantized_instance_norm(Call& c) {
  const Quantized& x = quantized(c, "input");
  Ref y = call(c, "aten::instance_norm",
               {dequantized(c, x), c.arg("weight"), c.arg("bias"), None{}, None{}, true, 0.1, c.arg("eps"), false});
  return rounded(c, y, x);
}

Value quantized_joined(Call& c) {
  const Vector<Value>& parts = c.arg("qx").items();
  Vector<Value> numbers;
  for (const Value& v : parts) {
    auto* q = v.get_if<Quantized>();
    if (!q || q->axis) c.unsupported("a tensor that is not quantized by one scale");
    numbers.push_back(dequantized(c, *q));
  }
  const Quantized& first = *parts.at(0).get_if<Quantized>();
  Ref y = activated(c, call(c, "aten::cat", {Value::list(std::move(numbers)), c.arg("dim")}));
  return rounded(c, y, c.none("scale") ? first.scale : one(c, "scale", DType::Double),
                 c.none("zero_point") ? first.zero_point : one(c, "zero_point", DType::Int64), std::nullopt,
                 first.integers->dtype());
}

// The same integers mean other numbers under another scheme.
Value meaning(Call& c, const eval::TensorPtr& integers, double scale, int64_t zero_point) {
  Value q = Quantized{integers, c.onnx.scalar(DType::Double, scale), c.onnx.scalar_int(DType::Int64, zero_point), {}};
  return has_relu(c) ? c.call("aten::relu", {q}) : q;
}

// PyTorch shifts the zero point, by whole steps; where that leaves the range, the steps become wider.
Value add_number(Call& c) {
  Builder& b = c.onnx;
  const Quantized& x = quantized(c, "qa");
  Scheme s = scheme(b, x);
  double scale = known_scale(c, x), steps = std::nearbyint(c.real("b") / scale);
  double zero = static_cast<double>(known_zero_point(c, x)) - steps;
  double low = static_cast<double>(s.low), high = static_cast<double>(s.high);
  if (zero >= low && zero <= high) return meaning(c, x.integers, scale, static_cast<int64_t>(zero));
  Ref y = dequantized(c, x);
  y = b.add(y, like(b, y, steps * scale));
  double wider = (zero < low ? high - zero : zero - low) / (high - low) * scale;
  return rounded(c, activated(c, y), b.scalar(DType::Double, wider),
                 b.scalar_int(DType::Int64, zero < low ? s.low : s.high), std::nullopt, x.integers->dtype());
}

Value multiply_by_number(Call& c) {
  Builder& b = c.onnx;
  const Quantized& x = quantized(c, "qa");
  Scheme s = scheme(b, x);
  double factor = c.real("b"), scale = known_scale(c, x);
  int64_t zero = known_zero_point(c, x);
  if (factor > 0) return meaning(c, x.integers, factor * scale, zero);
  Ref integers = x.integers->read(b);
  DType t = integers->dtype;
  if (factor == 0) return meaning(c, std::make_shared<eval::Tensor>(b.full(integers->shape, b.scalar_int(t, 0))), 1, 0);
  // Steps are counted from the other end of the range.
  Ref turned = b.sub(b.scalar_int(DType::Int32, s.high + s.low), b.cast(integers, DType::Int32));
  return meaning(c, std::make_shared<eval::Tensor>(b.cast(turned, t)), -factor * scale, s.high + s.low - zero);
}

void register_elementwise(Registry& ops) {
  for (std::string_view relu : {"", "_relu"}) {
    for (std::string_view name : {"add", "mul"}) {
      ops.add_quantized(
          fmt::format("quantized::{}{}(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc", name, relu),
          of_two(name));
      eval::RuleFunction of_number = name == "add" ? add_number : multiply_by_number;
      for (std::string_view form : {"{}{}.Scalar(Tensor qa, Scalar b)", "{}{}.Scalar2(Scalar b, Tensor qa)",
                                    "{}_scalar{}(Tensor qa, Scalar b)", "{}_scalar{}.Tensor(Tensor qa, Tensor b)"})
        ops.add_quantized(fmt::format("quantized::{} -> Tensor qc", fmt::format(fmt::runtime(form), name, relu)),
                          of_number);
    }
    ops.add_quantized(
        fmt::format("quantized::cat{}(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor", relu),
        quantized_joined);
    for (std::string_view dims : {"", "1d", "2d", "3d"})
      ops.add_quantized(fmt::format("quantized::batch_norm{}{}(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, "
                                    "Tensor var, float eps, float output_scale, int output_zero_point) -> Tensor",
                                    dims, relu),
                        quantized_batch_norm);
  }
  ops.add_quantized("quantized::matmul(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc",
                    of_two("matmul"));
  ops.add_quantized(
      "quantized::instance_norm(Tensor input, Tensor? weight, Tensor? bias, float eps, float output_scale, int "
      "output_zero_point) -> Tensor",
      quantized_instance_norm);
  const std::pair<std::string_view, Vector<std::string_view>> of_numbers[] = {
      {"hardswish(Tensor input, float output_scale, int output_zero_point)", {}},
      {"sigmoid(Tensor qx, float output_scale, int output_zero_point)", {}},
      {"softmax(Tensor qx, int dim, float output_scale, int output_zero_point)", {"dim"}},
      {"prelu(Tensor qx, Tensor weight, float output_scale, int output_zero_point)", {"weight"}},
      {"leaky_relu(Tensor qx, Scalar negative_slope, bool inplace, float output_scale, int output_zero_point)",
       {"negative_slope"}},
      {"elu(Tensor self, float output_scale, int output_zero_point, Scalar alpha=1, Scalar scale=1, Scalar "
       "input_scale=1)",
       {"alpha", "scale", "input_scale"}},
      {"celu(Tensor self, float output_scale, int output_zero_point, Scalar alpha=1)", {"alpha"}},
      {"layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps, float output_scale, "
       "int output_zero_point)",
       {"normalized_shape", "weight", "bias", "eps"}},
      {"group_norm(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps, float output_scale, int "
       "output_zero_point)",
       {"num_groups", "weight", "bias", "eps"}}};
  for (auto& [head, others] : of_numbers)
    ops.add_quantized(fmt::format("quantized::{} -> Tensor", head), of_one(others));

  // What PyTorch itself chooses a scheme for.
  struct Fixed {
    std::string_view name;
    double scale;
    int64_t zero_point;  // of quint8; that of qint8 is 128 less
  };
  for (Fixed f : {Fixed{"sigmoid", 1.0 / 256, 0}, Fixed{"hardsigmoid", 1.0 / 256, 0}, Fixed{"tanh", 2.0 / 256, 128}})
    ops.add_quantized(fmt::format("aten::{}(Tensor self) -> Tensor", f.name), [f](Call& c) {
      const Quantized& x = quantized(c, "self");
      bool natural = x.integers->dtype() == DType::UInt8;
      return rounded(c, call(c, c.schema.name, {dequantized(c, x)}), c.onnx.scalar(DType::Double, f.scale),
                     c.onnx.scalar_int(DType::Int64, f.zero_point - (natural ? 0 : 128)), std::nullopt,
                     x.integers->dtype());
    });
}

// Operators that have another name for quantized tensors: what they do with them is declared below.
void register_aliases(Registry& ops) {
  ops.add_quantized("quantized::relu6(Tensor qx, bool inplace=False) -> Tensor",
                    [](Call& c) { return c.call("aten::relu6", {c.arg("qx")}); });
  ops.add_quantized("quantized::clamp(Tensor qx, Scalar? min=None, Scalar? max=None) -> Tensor qy", [](Call& c) {
    return c.call("aten::clamp", {c.arg("qx"), c.arg("min"), c.arg("max")});
  });
  for (std::string_view dims : {"1", "2"})
    ops.add_quantized(
        fmt::format("quantized::max_pool{}d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, "
                    "bool ceil_mode) -> Tensor",
                    dims),
        [dims](Call& c) {
          return c.call(fmt::format("aten::max_pool{}d", dims),
                        {c.arg("qx"), c.arg("kernel_size"), c.arg("stride"), c.arg("padding"), c.arg("dilation"),
                         c.arg("ceil_mode")});
        });
}

// Operators with the same rule for plain and quantized operands; see eval::Rule::Quantized.
constexpr std::string_view moved_when_quantized[] = {
    // what is known of a tensor
    "aten::size",
    "aten::sym_size",
    "aten::numel",
    "aten::dim",
    "aten::len",
    "aten::is_contiguous",
    "prim::device",
    "prim::layout",
    "prim::ndim",
    "prim::shape",
    // the same elements
    "aten::contiguous",
    "aten::detach",
    "aten::alias",
    "aten::clone",
    "aten::cpu",
    // other shapes and other places
    "aten::view",
    "aten::_unsafe_view",
    "aten::reshape",
    "aten::flatten",
    "aten::unflatten",
    "aten::squeeze",
    "aten::unsqueeze",
    "aten::transpose",
    "aten::t",
    "aten::permute",
    "aten::movedim",
    "aten::expand",
    "aten::repeat",
    "aten::unbind",
    "aten::split",
    "aten::split_with_sizes",
    "aten::chunk",
    "aten::narrow",
    "aten::select",
    "aten::slice",
    "aten::index",
    "aten::index_select",
    "aten::unfold",
    "aten::diagonal",
    "aten::flip",
    "aten::tile",
    "aten::channel_shuffle",
    "aten::pixel_shuffle",
    "aten::pixel_unshuffle",
};

constexpr std::string_view computed_when_quantized[] = {
    "aten::relu",
    "aten::relu6",
    "aten::clamp",
    "aten::hardtanh",
    "aten::leaky_relu",
    "aten::gelu",
    "aten::max_pool1d",
    "aten::max_pool2d",
    "aten::max_pool3d",
    "aten::avg_pool1d",
    "aten::avg_pool2d",
    "aten::avg_pool3d",
    "aten::adaptive_avg_pool1d",
    "aten::adaptive_avg_pool2d",
    "aten::adaptive_avg_pool3d",
    "aten::mean",
    "aten::max",
    "aten::min",
    "aten::sort",
    "aten::argsort",
    "aten::topk",
    "aten::threshold",
    "aten::upsample_nearest1d",
    "aten::upsample_nearest2d",
    "aten::upsample_nearest3d",
    "aten::upsample_bilinear2d",
    "aten::pad",
    "aten::constant_pad_nd",
    "aten::reflection_pad1d",
    "aten::reflection_pad2d",
    "aten::masked_fill",
    "aten::cat",
    "aten::stack",
    "aten::eq",
    "aten::ne",
    "aten::lt",
    "aten::le",
    "aten::gt",
    "aten::ge",
};

}  // namespace

void register_quantized(Registry& ops) {
  register_schemes(ops);
  for (int dims : {1, 2, 3}) register_conv_of(ops, dims);
  register_linear_of(ops);
  register_elementwise(ops);
  register_aliases(ops);
  register_quantized_embedding(ops);

  using How = eval::Rule::Quantized;
  for (std::string_view name : moved_when_quantized) ops.allow_quantized(How::Moved, {name});
  for (std::string_view name : computed_when_quantized) ops.allow_quantized(How::Computed, {name});
}

}  // namespace lithify::ops
