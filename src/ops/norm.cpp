#include "ops/norm.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

namespace lithify::ops {
namespace {

using eval::None;
using eval::Registry;

// A 1-D constant of `n` equal numbers, for a weight or bias that is not there.
onnx::Value* filled(onnx::Builder& b, DType t, Dim n, double v) { return b.full({n}, b.scalar(t, v)); }

// [C] as [C, 1, 1, ...], which broadcasts along the channels of x.
onnx::Value* per_channel(onnx::Builder& b, onnx::Value* v, onnx::Value* x) {
  Shape shape{v->shape[0]};
  shape.resize(x->rank() - 1, b.dim(1));
  return b.reshape(v, shape);
}

// (x - mean) / sqrt(variance + eps).
onnx::Value* standardized(onnx::Builder& b, onnx::Value* x, onnx::Value* mean, onnx::Value* variance, double eps) {
  onnx::Value* deviation = b.op("Sqrt", {b.add(variance, b.scalar(x->dtype, eps))});
  return b.div(b.sub(x, mean), deviation);
}

onnx::Value* scaled(onnx::Builder& b, onnx::Value* x, onnx::Value* weight, onnx::Value* bias) {
  if (weight) x = b.mul(x, weight);
  return bias ? b.add(x, bias) : x;
}

struct Moments {
  onnx::Value* mean;
  onnx::Value* variance;
};

Moments moments(onnx::Builder& b, onnx::Value* x, const std::vector<int64_t>& axes) {
  onnx::Value* mean = b.reduce("ReduceMean", x, axes, true);
  onnx::Value* centered = b.sub(x, mean);
  return {mean, b.reduce("ReduceMean", b.mul(centered, centered), axes, true)};
}

std::vector<int64_t> last_axes(size_t rank, size_t dims) {
  std::vector<int64_t> axes(dims);
  std::iota(axes.begin(), axes.end(), static_cast<int64_t>(rank - dims));
  return axes;
}

// The type that a normalization of half-precision values computes in.
DType computed_in(DType t) { return t == DType::Half || t == DType::BFloat16 ? DType::Float : t; }

onnx::Value* batch_norm(Call& c, onnx::Value* x, bool training, double eps) {
  onnx::Builder& b = c.onnx;
  Dim channels = x->shape[1];
  onnx::Value *weight = c.maybe_tensor("weight"), *bias = c.maybe_tensor("bias");
  onnx::Value *mean = c.maybe_tensor("running_mean"), *variance = c.maybe_tensor("running_var");
  if (training || !mean || !variance) {
    std::vector<int64_t> axes{0};
    for (size_t i = 2; i < x->rank(); ++i) axes.push_back(static_cast<int64_t>(i));
    Moments m = moments(b, x, axes);
    onnx::Value* out = standardized(b, x, m.mean, m.variance, eps);
    return scaled(b, out, weight ? per_channel(b, weight, x) : nullptr, bias ? per_channel(b, bias, x) : nullptr);
  }
  DType t = mean->dtype;
  return b.op("BatchNormalization",
              {x, weight ? b.cast(weight, t) : filled(b, t, channels, 1),
               bias ? b.cast(bias, t) : filled(b, t, channels, 0), mean, variance},
              {{"epsilon", static_cast<float>(eps)}});
}

onnx::Value* group_norm(onnx::Builder& b, onnx::Value* x, int64_t groups, onnx::Value* weight, onnx::Value* bias,
                        double eps) {
  Dim channels = x->shape[1];
  if (b.opset() >= 21)
    return b.op("GroupNormalization",
                {x, weight ? weight : filled(b, x->dtype, channels, 1), bias ? bias : filled(b, x->dtype, channels, 0)},
                {{"epsilon", static_cast<float>(eps)}, {"num_groups", groups}});
  // Each group is one channel of an instance normalization.
  Dim count = b.dim(groups);
  Shape grouped{x->shape[0], count, b.sym.floor_div(b.numel({x->shape.begin() + 1, x->shape.end()}), count)};
  onnx::Value* out = b.op("InstanceNormalization",
                          {b.reshape(x, grouped), filled(b, x->dtype, count, 1), filled(b, x->dtype, count, 0)},
                          {{"epsilon", static_cast<float>(eps)}});
  out = b.reshape(out, x->shape);
  return scaled(b, out, weight ? per_channel(b, weight, x) : nullptr, bias ? per_channel(b, bias, x) : nullptr);
}

Value instance_norm(Call& c) {
  onnx::Value* x = c.tensor("input");
  double eps = c.real("eps");
  if (!c.flag("use_input_stats")) return batch_norm(c, x, false, eps);
  Dim channels = x->shape[1];
  onnx::Value *weight = c.maybe_tensor("weight"), *bias = c.maybe_tensor("bias");
  return c.onnx.op(
      "InstanceNormalization",
      {x, weight ? weight : filled(c.onnx, x->dtype, channels, 1), bias ? bias : filled(c.onnx, x->dtype, channels, 0)},
      {{"epsilon", static_cast<float>(eps)}});
}

Value rms_norm(Call& c) {
  onnx::Value* x = c.tensor("input");
  onnx::Value* weight = c.maybe_tensor("weight");
  size_t dims = c.sizes("normalized_shape").size();
  double eps = c.none("eps") ? (x->dtype == DType::Double ? std::numeric_limits<double>::epsilon()
                                                          : std::numeric_limits<float>::epsilon())
                             : c.real("eps");
  if (c.opset() >= 23) {
    Shape shape(x->shape.end() - static_cast<std::ptrdiff_t>(dims), x->shape.end());
    onnx::Value* scale = weight ? weight : c.onnx.full(shape, c.onnx.scalar(x->dtype, 1.0));
    return c.onnx.op("RMSNormalization", {x, scale},
                     {{"axis", -static_cast<int64_t>(dims)}, {"epsilon", static_cast<float>(eps)}});
  }
  onnx::Builder& b = c.onnx;
  onnx::Value* wide = b.cast(x, computed_in(x->dtype));
  onnx::Value* square = b.reduce("ReduceMean", b.mul(wide, wide), last_axes(x->rank(), dims), true);
  onnx::Value* out = b.div(wide, b.op("Sqrt", {b.add(square, b.scalar(wide->dtype, eps))}));
  if (weight) out = b.mul(out, b.cast(weight, wide->dtype));
  return b.cast(out, x->dtype);
}

Value local_response_norm(Call& c) {
  onnx::Value* x = c.tensor("input");
  return c.onnx.op(
      "LRN", {x},
      {{"alpha", c.f32("alpha")}, {"beta", c.f32("beta")}, {"bias", c.f32("k")}, {"size", c.integer("size")}});
}

}  // namespace

onnx::Value* layer_norm(onnx::Builder& b, onnx::Value* x, size_t dims, onnx::Value* weight, onnx::Value* bias,
                        double eps) {
  if (b.opset() >= 17) {
    Shape shape(x->shape.end() - static_cast<std::ptrdiff_t>(dims), x->shape.end());
    onnx::Value* scale = weight ? weight : b.full(shape, b.scalar(x->dtype, 1.0));
    onnx::Attributes attributes{{"epsilon", static_cast<float>(eps)}};
    if (dims != 1) attributes.insert(attributes.begin(), {"axis", -static_cast<int64_t>(dims)});
    return b.op("LayerNormalization", {x, scale, bias}, attributes);
  }
  DType t = computed_in(x->dtype);
  onnx::Value* wide = b.cast(x, t);
  Moments m = moments(b, wide, last_axes(x->rank(), dims));
  return scaled(b, b.cast(standardized(b, wide, m.mean, m.variance, eps), x->dtype), weight, bias);
}

void register_norm(Registry& ops) {
  ops.add(
      "aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool "
      "training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
      [](Call& c) -> Value { return batch_norm(c, c.tensor("input"), c.flag("training"), c.real("eps")); });
  ops.add(
      "aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
      "Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
      [](Call& c) -> Value {
        return Value::tuple({batch_norm(c, c.tensor("input"), false, c.real("eps")), None{}, None{}});
      });
  ops.add(
      "aten::layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
      "bool cudnn_enable=True) -> Tensor",
      [](Call& c) -> Value {
        return layer_norm(c.onnx, c.tensor("input"), c.sizes("normalized_shape").size(), c.maybe_tensor("weight"),
                          c.maybe_tensor("bias"), c.real("eps"));
      });
  ops.add(
      "aten::native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
      "(Tensor, Tensor, Tensor)",
      [](Call& c) -> Value {
        onnx::Value* out = layer_norm(c.onnx, c.tensor("input"), c.sizes("normalized_shape").size(),
                                      c.maybe_tensor("weight"), c.maybe_tensor("bias"), c.real("eps"));
        return Value::tuple({out, None{}, None{}});
      });
  ops.add(
      "aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool "
      "cudnn_enabled=True) -> Tensor",
      [](Call& c) -> Value {
        return group_norm(c.onnx, c.tensor("input"), c.integer("num_groups"), c.maybe_tensor("weight"),
                          c.maybe_tensor("bias"), c.real("eps"));
      });
  ops.add(
      "aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool "
      "use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor",
      instance_norm);
  ops.add("aten::rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
          rms_norm);
  ops.add(
      "aten::local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> Tensor",
      local_response_norm);
}

}  // namespace lithify::ops
