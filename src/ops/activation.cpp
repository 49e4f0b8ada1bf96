// Activation functions and the softmax family.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "ops/elementwise.hpp"
#include "ops/random.hpp"
#include "ops/register.hpp"

namespace lithify::ops {
namespace {

Value relu(Call& c) {
  Ref x = c.tensor("self");
  return is_float(x->dtype) ? c.onnx.op("Relu", {x}) : maximum(c.onnx, x, like(c.onnx, x, 0));
}

Ref elu(Builder& b, Ref x, double alpha) {
  onnx::Attributes attributes;
  if (alpha != 1) attributes.push_back({"alpha", static_cast<float>(alpha)});
  return b.op("Elu", {x}, attributes);
}

Value elu_scaled(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  double alpha = c.real("alpha"), scale = c.real("scale"), input_scale = c.real("input_scale");
  if (input_scale == 1) return b.mul(elu(b, x, alpha), like(b, x, scale));
  Ref below = b.sub(b.op("Exp", {b.mul(x, like(b, x, input_scale))}), like(b, x, 1));
  Ref positive = b.op("Greater", {x, like(b, x, 0)});
  return b.where(positive, b.mul(x, like(b, x, scale)), b.mul(below, like(b, x, alpha * scale)));
}

Value celu(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  double alpha = c.real("alpha");
  if (alpha == 1) return elu(b, x, 1);
  if (x->dtype == DType::Float && b.opset() >= 12) return b.op("Celu", {x}, {{"alpha", c.f32("alpha")}});
  Ref scale = like(b, x, alpha);
  return b.mul(elu(b, b.div(x, scale), 1), scale);
}

// Where there is no Gelu, the forms are those that ONNX Runtime fuses.
Value gelu(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  bool tanh = c.text("approximate") == "tanh";
  if (b.opset() >= 20) {
    onnx::Attributes attributes;
    if (tanh) attributes.push_back({"approximate", std::string("tanh")});
    return b.op("Gelu", {x}, attributes);
  }
  if (!tanh) {
    Ref erf = b.op("Erf", {b.div(x, like(b, x, std::numbers::sqrt2))});
    return b.mul(b.mul(x, b.add(erf, like(b, x, 1))), like(b, x, 0.5));
  }
  Ref cube = b.op("Pow", {x, like(b, x, 3)});
  Ref inner = b.mul(b.add(x, b.mul(cube, like(b, x, 0.044715))), like(b, x, std::sqrt(2 / std::numbers::pi)));
  return b.mul(b.mul(x, like(b, x, 0.5)), b.add(b.op("Tanh", {inner}), like(b, x, 1)));
}

Ref silu(Builder& b, Ref x) { return b.mul(x, b.op("Sigmoid", {x})); }

Ref mish(Builder& b, Ref x) {
  return b.opset() >= 18 ? b.op("Mish", {x}) : b.mul(x, b.op("Tanh", {b.op("Softplus", {x})}));
}

Ref hardsigmoid(Builder& b, Ref x) { return b.op("HardSigmoid", {x}, {{"alpha", 1.0f / 6}, {"beta", 0.5f}}); }

Ref hardswish(Builder& b, Ref x) { return b.opset() >= 14 ? b.op("HardSwish", {x}) : b.mul(x, hardsigmoid(b, x)); }

Ref log_sigmoid(Builder& b, Ref x) { return b.op("Neg", {b.op("Softplus", {b.op("Neg", {x})})}); }

Value softplus(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  double beta = c.real("beta"), threshold = c.real("threshold");
  Ref scale = like(b, x, beta);
  Ref scaled = b.mul(x, scale);
  Ref out = b.div(b.op("Softplus", {scaled}), scale);
  // From 20 on, x and softplus(x) are the same number in float32.
  if (threshold >= 20) return out;
  return b.where(b.op("Greater", {scaled, like(b, x, threshold)}), x, out);
}

Value threshold(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  double limit = c.real("threshold"), value = c.real("value");
  if (value == 0 && x->dtype == DType::Float)
    return b.op("ThresholdedRelu", {x}, {{"alpha", static_cast<float>(limit)}});
  return b.where(compare(b, "LessOrEqual", x, like(b, x, limit)), like(b, x, value), x);
}

Value prelu(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self"), slope = c.tensor("weight");
  // One slope, or one for each channel, which is dimension 1.
  Shape shape;
  if (x->rank() >= 2 && !slope->shape.empty()) {
    shape.assign(x->rank() - 1, b.dim(1));
    shape[0] = slope->shape[0];
  } else {
    shape.assign(x->rank(), b.dim(1));
  }
  return b.op("PRelu", {x, b.reshape(slope, shape)});
}

Value rrelu(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  if (c.flag("training")) {
    Ref slopes = random(b, "RandomUniform", x->shape, x->dtype, {{"low", c.f32("lower")}, {"high", c.f32("upper")}});
    return b.where(compare(b, "LessOrEqual", x, like(b, x, 0)), b.mul(x, slopes), x);
  }
  float slope = static_cast<float>((c.real("lower") + c.real("upper")) / 2);
  return b.op("LeakyRelu", {x}, {{"alpha", slope}});
}

Value glu(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  int64_t axis = c.dim("dim", x->rank());
  Dim half = b.sym.floor_div(x->shape[static_cast<size_t>(axis)], b.dim(2));
  Vector<Ref> halves = b.split(x, Vector<Dim>{half, half}, axis);
  return b.mul(halves[0], b.op("Sigmoid", {halves[1]}));
}

Ref softmax_of(Call& c, std::string_view op, std::optional<DType> dtype) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  if (dtype) x = b.cast(x, *dtype);
  if (x->rank() == 0) return b.reshape(b.softmax(op, b.reshape(x, {b.dim(1)}), 0), {});
  return b.softmax(op, x, c.dim("dim", x->rank()));
}

// Results of float32 for operands of float16.
std::optional<DType> half_to_float(Call& c) {
  return c.flag("half_to_float") ? std::optional(DType::Float) : std::nullopt;
}

Value safe_softmax(Call& c) {
  Ref out = softmax_of(c, "Softmax", c.maybe_dtype("dtype"));
  return c.onnx.where(c.onnx.op("IsNaN", {out}), like(c.onnx, out, 0), out);
}

struct Activation {
  std::string_view name;
  Ref (*compute)(Builder&, Ref);
};

}  // namespace

void register_activation(eval::Registry& ops) {
  for (const Activation& f : std::initializer_list<Activation>{
           {"selu", [](Builder&b, Ref x) { return b.op("Selu", {x}); }},
           {"relu6", [](Builder&b, Ref x) { return clip(b, x, like(b, x, 0), like(b, x, 6)); }},
           {"silu", silu},
           {"mish", mish},
           {"hardsigmoid", hardsigmoid},
           {"hardswish", hardswish},
           {"log_sigmoid", log_sigmoid},
       })
    ops.add(fmt::format("aten::{}(Tensor self) -> Tensor", f.name),
            [f](Call& c) -> Value { return f.compute(c.onnx, c.tensor("self")); });
  ops.add("aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)", [](Call& c) {
    Ref x = c.tensor("self");
    return Value::tuple({log_sigmoid(c.onnx, x), x});
  });
  ops.add("aten::relu(Tensor self) -> Tensor", relu);
  ops.add("aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", [](Call& c) -> Value {
    return c.onnx.op("LeakyRelu", {c.tensor("self")}, {{"alpha", c.f32("negative_slope")}});
  });
  ops.add("aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", elu_scaled);
  ops.add("aten::celu(Tensor self, Scalar alpha=1.0) -> Tensor", celu);
  ops.add("aten::gelu(Tensor self, *, str approximate='none') -> Tensor", gelu);
  ops.add("aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", [](Call& c) -> Value {
    Ref x = c.tensor("self");
    return clip(c.onnx, x, c.tensor_as("min_val", x->dtype), c.tensor_as("max_val", x->dtype));
  });
  ops.add("aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", softplus);
  ops.add("aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", [](Call& c) -> Value {
    Ref x = c.tensor("self");
    return with_nan_of(c.onnx, x, c.onnx.op("Shrink", {x}, {{"bias", c.f32("lambd")}, {"lambd", c.f32("lambd")}}));
  });
  ops.add("aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", [](Call& c) -> Value {
    Ref x = c.tensor("self");
    return with_nan_of(c.onnx, x, c.onnx.op("Shrink", {x}, {{"lambd", c.f32("lambd")}}));
  });
  ops.add("aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", threshold);
  ops.add("aten::prelu(Tensor self, Tensor weight) -> Tensor", prelu);
  ops.add("aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor", [](Call& c) -> Value {
    return c.onnx.op("PRelu", {c.tensor("self"), c.tensor("weight")});
  });
  ops.add(
      "aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, "
      "Generator? generator=None) -> Tensor",
      rrelu);
  ops.add("aten::glu(Tensor self, int dim=-1) -> Tensor", glu);

  for (auto [name, op] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"softmax", "Softmax"}, {"log_softmax", "LogSoftmax"}}) {
    auto with_dtype = [op = op](Call& c) -> Value { return softmax_of(c, op, c.maybe_dtype("dtype")); };
    ops.add(fmt::format("aten::{}.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", name), with_dtype);
    ops.add(fmt::format("aten::special_{}(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", name), with_dtype);
    ops.add(fmt::format("aten::_{}(Tensor self, int dim, bool half_to_float) -> Tensor", name),
            [op = op](Call& c) -> Value { return softmax_of(c, op, half_to_float(c)); });
  }
  ops.add("aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", safe_softmax);
}

}  // namespace lithify::ops
