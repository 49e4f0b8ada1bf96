#include "ops/norm.hpp"

#include "ops/elementwise.hpp"

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

Moments moments(onnx::Builder& b, onnx::Value* x, const Vector<int64_t>& axes) {
  onnx::Value* mean = b.reduce("ReduceMean", x, axes, true);
  onnx::Value* centered = b.sub(x, mean);
  return {mean, b.reduce("ReduceMean", b.mul(centered, centered), axes, true)};
}

Vector<int64_t> last_axes(size_t rank, size_t dims) {
  Vector<int64_t> axes(dims);
  std::iota(axes.begin(), axes.end(), static_cast<int64_t>(rank - dims));
  return axes;
}

// The type that a normalization of half-precision values computes in.
DType computed_in(DType t) { return t == DType::Half || t == DType::BFloat16 ? DType::Float : t; }

// What the statistics of a batch are taken over: all but the channels.
Vector<int64_t> batch_axes(onnx::Value* x) {
  Vector<int64_t> axes{0};
  for (size_t i = 2; i < x->rank(); ++i) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

onnx::Value* batch_norm(Call& c, onnx::Value* x, bool training, double eps) {
  onnx::Builder& b = c.onnx;
  if (x->rank() < 2) return x;  // PyTorch takes a vector only where it is empty
  Dim channels = x->shape[1];
  onnx::Value *weight = c.maybe_tensor("weight"), *bias = c.maybe_tensor("bias");
  onnx::Value *mean = c.maybe_tensor("running_mean"), *variance = c.maybe_tensor("running_var");
  if (training || !mean || !variance) {
    Moments m = moments(b, x, batch_axes(x));
    onnx::Value* out = standardized(b, x, m.mean, m.variance, eps);
    return scaled(b, out, weight ? per_channel(b, weight, x) : nullptr, bias ? per_channel(b, bias, x) : nullptr);
  }
  // Statistics of another type than the input's: older opsets have one type for all.
  DType t = mean->dtype;
  onnx::Value* out = b.op("BatchNormalization",
                          {b.opset() < 15 ? b.cast(x, t) : x, weight ? b.cast(weight, t) : filled(b, t, channels, 1),
                           bias ? b.cast(bias, t) : filled(b, t, channels, 0), mean, variance},
                          {{"epsilon", static_cast<float>(eps)}});
  return b.cast(out, x->dtype);
}

// Over all but the first two dimensions. weight and bias may be nullptr.
onnx::Value* instance_norm(onnx::Builder& b, onnx::Value* x, onnx::Value* weight, onnx::Value* bias, double eps) {
  // ONNX Runtime has no kernel for float64.
  if (x->dtype == DType::Double) {
    Moments m = moments(b, x, last_axes(x->rank(), x->rank() - 2));
    return scaled(b, standardized(b, x, m.mean, m.variance, eps), weight ? per_channel(b, weight, x) : nullptr,
                  bias ? per_channel(b, bias, x) : nullptr);
  }
  Dim channels = x->shape[1];
  return b.op("InstanceNormalization",
              {x, weight ? weight : filled(b, x->dtype, channels, 1), bias ? bias : filled(b, x->dtype, channels, 0)},
              {{"epsilon", static_cast<float>(eps)}});
}

onnx::Value* group_norm(onnx::Builder& b, onnx::Value* x, int64_t groups, onnx::Value* weight, onnx::Value* bias,
                        double eps) {
  Dim channels = x->shape[1];
  // GroupNormalization computes in float32 whatever the type.
  if (b.opset() >= 21 && x->dtype != DType::Double)
    return b.op("GroupNormalization",
                {x, weight ? weight : filled(b, x->dtype, channels, 1), bias ? bias : filled(b, x->dtype, channels, 0)},
                {{"epsilon", static_cast<float>(eps)}, {"num_groups", groups}});
  // Each group is one channel of an instance normalization.
  Dim count = b.dim(groups);
  Shape grouped{x->shape[0], count, b.sym.floor_div(b.numel({x->shape.begin() + 1, x->shape.end()}), count)};
  onnx::Value* out = b.reshape(instance_norm(b, b.reshape(x, grouped), nullptr, nullptr, eps), x->shape);
  return scaled(b, out, weight ? per_channel(b, weight, x) : nullptr, bias ? per_channel(b, bias, x) : nullptr);
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

// Lengths of the parts of v that have one position on `dim`; that dimension stays, the others have size 1. -1 is the
// length of all of v.
onnx::Value* norm_except(Call& c, onnx::Value* v, int64_t dim, double power) {
  Vector<Value> axes;
  for (int64_t i = 0; i < static_cast<int64_t>(v->rank()); ++i)
    if (i != dim) axes.push_back(c.number_value(i));
  Value norm = c.call("aten::linalg_vector_norm", {v, power, Value::list(std::move(axes)), dim != -1});
  return norm.tensor()->read(c.onnx);
}

Value weight_norm(Call& c) {
  onnx::Value *v = c.tensor("v"), *g = c.tensor("g");
  return c.onnx.mul(v, c.onnx.div(g, norm_except(c, v, c.integer("dim"), 2)));
}

// The p-norm of a difference.
Value distance(Call& c, onnx::Value* difference, Vector<Value> axes, bool keepdim) {
  return c.call("aten::linalg_vector_norm",
                {difference, c.real("p"), axes.empty() ? Value(None{}) : Value::list(std::move(axes)), keepdim});
}

Value cosine_similarity(Call& c) {
  onnx::Builder& b = c.onnx;
  DType t = c.result_type({"x1", "x2"});
  onnx::Value *x = c.tensor_as("x1", t), *y = c.tensor_as("x2", t);
  if (x->rank() == 0 && y->rank() == 0) x = b.reshape(x, {b.dim(1)});  // a vector of one element
  onnx::Value* dot = b.mul(x, y);
  int64_t dim = c.dim("dim", dot->rank());
  onnx::Value* lowest = b.scalar(t, c.real("eps"));
  // A vector that is repeated to meet the other has the length of the repeated one.
  auto length = [&](onnx::Value* v) {
    Shape shape = v->shape;
    shape.insert(shape.begin(), dot->rank() - v->rank(), b.dim(1));
    v = b.reshape(v, shape);
    shape[static_cast<size_t>(dim)] = dot->shape[static_cast<size_t>(dim)];
    return b.op("Max", {b.reduce("ReduceL2", b.expand(v, shape), {dim}, false), lowest});
  };
  return b.div(b.reduce("ReduceSum", dot, {dim}, false), b.mul(length(x), length(y)));
}

// A normalized tensor with what it was normalized by: the mean, and the reciprocal of the deviation, of these sizes.
Value and_statistics(onnx::Builder& b, onnx::Value* out, const Moments& m, double eps, const Shape& shape) {
  onnx::Value* deviation = b.op("Sqrt", {b.add(m.variance, b.scalar(m.variance->dtype, eps))});
  return Value::tuple({out, b.reshape(m.mean, shape), b.reshape(b.op("Reciprocal", {deviation}), shape)});
}

Value native_batch_norm(Call& c, bool training) {
  onnx::Builder& b = c.onnx;
  onnx::Value *x = c.tensor("input"), *out = batch_norm(c, x, training, c.real("eps"));
  if (training) return and_statistics(b, out, moments(b, x, batch_axes(x)), c.real("eps"), {x->shape[1]});
  onnx::Value* none = b.reals(x->dtype, {0}, {});
  return Value::tuple({out, none, none});
}

Value native_layer_norm(Call& c) {
  onnx::Builder& b = c.onnx;
  onnx::Value* x = c.tensor("input");
  size_t dims = c.sizes("normalized_shape").size();
  onnx::Value* out = layer_norm(b, x, dims, c.maybe_tensor("weight"), c.maybe_tensor("bias"), c.real("eps"));
  Moments m = moments(b, x, last_axes(x->rank(), dims));
  return and_statistics(b, out, m, c.real("eps"), m.mean->shape);
}

Value native_group_norm(Call& c) {
  onnx::Builder& b = c.onnx;
  onnx::Value* x = c.tensor("input");
  int64_t groups = c.integer("group");
  onnx::Value* out = group_norm(b, x, groups, c.maybe_tensor("weight"), c.maybe_tensor("bias"), c.real("eps"));
  Shape shape{x->shape[0], b.dim(groups)}, grouped = shape;
  grouped.push_back(b.sym.floor_div(b.numel({x->shape.begin() + 1, x->shape.end()}), b.dim(groups)));
  return and_statistics(b, out, moments(b, b.reshape(x, grouped), {2}), c.real("eps"), shape);
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
      [](Call& c) { return native_batch_norm(c, false); });
  for (const char* schema :
       {"aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
        "running_var, "
        "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        "aten::_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor "
        "running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"})
    ops.add(schema, [](Call& c) { return native_batch_norm(c, c.flag("training")); });
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
      native_layer_norm);
  ops.add(
      "aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool "
      "cudnn_enabled=True) -> Tensor",
      [](Call& c) -> Value {
        return group_norm(c.onnx, c.tensor("input"), c.integer("num_groups"), c.maybe_tensor("weight"),
                          c.maybe_tensor("bias"), c.real("eps"));
      });
  ops.add(
      "aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float "
      "eps) "
      "-> (Tensor, Tensor, Tensor)",
      native_group_norm);
  ops.add(
      "aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool "
      "use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor",
      [](Call& c) -> Value {
        onnx::Value* x = c.tensor("input");
        if (!c.flag("use_input_stats")) return batch_norm(c, x, false, c.real("eps"));
        // PyTorch refuses a single element in Python, so a model that has one takes another path.
        const Dim elements = c.sym.product(std::span(x->shape).subspan(std::min<size_t>(x->rank(), 2)));
        if (c.sym.observer && c.sym.sample(elements).value_or(1) > 1)
          c.sym.observer->took_side({sym::Assumption::Kind::AtMost, c.sym.constant(2), elements});
        return instance_norm(c.onnx, x, c.maybe_tensor("weight"), c.maybe_tensor("bias"), c.real("eps"));
      });
  ops.add("aten::rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
          rms_norm);
  ops.add("aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
          [](Call& c) -> Value {
            return Value::tuple({rms_norm(c), None{}});
          });
  ops.add("aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor", weight_norm);
  ops.add("aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)", [](Call& c) -> Value {
    return Value::tuple({weight_norm(c), None{}});
  });
  ops.add("aten::norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor",
          [](Call& c) -> Value { return norm_except(c, c.tensor("v"), c.integer("dim"), c.real("pow")); });
  ops.add("aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", cosine_similarity);
  ops.add("aten::cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor", [](Call& c) -> Value {
    onnx::Value *x = c.tensor("x1"), *y = c.tensor("x2");
    onnx::Value* difference = c.onnx.sub(c.onnx.unsqueeze(x, {static_cast<int64_t>(x->rank()) - 1}),
                                         c.onnx.unsqueeze(y, {static_cast<int64_t>(y->rank()) - 2}));
    return distance(c, difference, {c.number_value(-1)}, false);
  });
  // The distances of all pairs of rows, each pair once.
  ops.add("aten::pdist(Tensor self, float p=2.) -> Tensor", [](Call& c) -> Value {
    onnx::Builder& b = c.onnx;
    onnx::Value* x = c.tensor("self");
    Dim n = x->shape[0];
    onnx::Value* pairs = b.op("NonZero", {triangle(b, n, n, b.dim(1), false)});
    pairs->shape[1] = b.sym.floor_div(b.sym.mul(n, b.sym.sub(n, b.dim(1))), b.dim(2));
    auto rows = [&](int64_t i) { return b.gather(x, b.select(pairs, 0, b.dim(i)), 0); };
    return distance(c, b.sub(rows(0), rows(1)), {c.number_value(-1)}, false);
  });
}

}  // namespace lithify::ops
