// Convolutions and transposed convolutions.
#include <fmt/format.h>

#include <algorithm>

#include "ops/register.hpp"
#include "ops/window.hpp"

namespace lithify::ops {
namespace {

using eval::Registry;

using Ints = Vector<int64_t>;

struct Convolution {
  Ints stride, pads, dilation, output_padding;  // pads: all begins, then all ends
  int64_t groups = 1;
  bool transposed = false;
};

Ints both_sides(const Ints& padding) {
  Ints pads = padding;
  pads.insert(pads.end(), padding.begin(), padding.end());
  return pads;
}

// ---- whole numbers, for which ONNX has no convolution --------------------------------------------------------------

// Zeros between the elements of the last dimensions, so that each is `stride` from the next.
onnx::Value* spaced(onnx::Builder& b, onnx::Value* x, const Ints& stride) {
  for (size_t i = 0; i < stride.size(); ++i) {
    if (stride[i] == 1) continue;
    size_t axis = x->rank() - stride.size() + i;
    Shape wide = x->shape;
    Dim n = wide[axis];
    wide[axis] = b.sym.mul(n, b.dim(stride[i]));
    onnx::Value* apart = b.unsqueeze(x, {static_cast<int64_t>(axis) + 1});
    Vector<std::pair<Dim, Dim>> pads(apart->rank(), {b.dim(0), b.dim(0)});
    pads[axis + 1].second = b.dim(stride[i] - 1);
    x = b.reshape(b.pad(apart, pads, "constant", b.scalar(x->dtype, 0)), wide);
    x = b.slice(x, static_cast<int64_t>(axis), b.dim(0), b.sym.sub(wide[axis], b.dim(stride[i] - 1)));
  }
  return x;
}

// [in, out / groups, kernel...] of a transposed convolution -> [out, in / groups, kernel...] of the plain one that it
// is.
onnx::Value* turned(onnx::Builder& b, onnx::Value* weight, int64_t groups) {
  Shape split = weight->shape, out = weight->shape;
  split[0] = b.sym.floor_div(weight->shape[0], b.dim(groups));
  split.insert(split.begin(), b.dim(groups));
  onnx::Value* w = b.swap_dims(b.reshape(weight, split), 1, 2);
  out[0] = b.sym.mul(weight->shape[1], b.dim(groups));
  out[1] = split[1];
  w = b.reshape(w, out);
  for (size_t i = 2; i < w->rank(); ++i)
    if (!w->shape[i].is(1)) w = b.flip(w, static_cast<int64_t>(i));
  return w;
}

// A product of matrices with the elements under each window.
onnx::Value* convolve_integers(onnx::Builder& b, onnx::Value* x, onnx::Value* weight, onnx::Value* bias,
                               const Convolution& conv, const Ints& kernel) {
  size_t dims = kernel.size();
  DType type = x->dtype;
  Sliding window{kernel, conv.stride, conv.dilation};
  Vector<std::pair<Dim, Dim>> pads(2, {b.dim(0), b.dim(0)});
  for (size_t i = 0; i < dims; ++i) {
    int64_t before = conv.pads[i], after = conv.pads[dims + i];
    if (conv.transposed) {
      int64_t reach = conv.dilation[i] * (kernel[i] - 1);
      before = reach - before;
      after = reach - after + conv.output_padding[i];
      window.stride[i] = 1;
    }
    pads.emplace_back(b.dim(before), b.dim(after));
  }
  x = b.cast(x, DType::Int64);
  weight = b.cast(weight, DType::Int64);
  if (conv.transposed) {
    x = spaced(b, x, conv.stride);
    weight = turned(b, weight, conv.groups);
  }
  x = windows(b, b.pad(x, pads, "constant", b.scalar(DType::Int64, 0)), window);
  Dim groups = b.dim(conv.groups), channels = weight->shape[0];
  Shape steps(x->shape.end() - static_cast<std::ptrdiff_t>(dims), x->shape.end());
  Dim inner = b.numel({weight->shape.begin() + 1, weight->shape.end()});
  Shape out{x->shape[0], channels};
  out.insert(out.end(), steps.begin(), steps.end());
  x = b.reshape(x, {x->shape[0], groups, inner, b.numel(steps)});
  x = b.reshape(b.matmul(b.reshape(weight, {groups, b.sym.floor_div(channels, groups), inner}), x), out);
  if (bias) {
    Shape wide(dims + 1, b.dim(1));
    wide[0] = channels;
    x = b.add(x, b.reshape(b.cast(bias, DType::Int64), wide));
  }
  return b.cast(x, type);
}

onnx::Value* convolve(Call& c, onnx::Value* x, const Convolution& conv) {
  onnx::Value *weight = c.tensor("weight"), *bias = c.maybe_tensor("bias");
  size_t dims = weight->rank() - 2;
  Ints kernel;
  for (size_t i = 2; i < weight->rank(); ++i) {
    std::optional<int64_t> k = weight->shape[i].constant();
    if (!k) c.unsupported("a kernel size that is known only at run time");
    kernel.push_back(*k);
  }
  if (!is_float(x->dtype) && !is_complex(x->dtype)) {
    Convolution whole = conv;
    for (Ints* v : {&whole.stride, &whole.dilation, &whole.output_padding}) *v = spread(*v, dims);
    return batched(c.onnx, x, dims,
                   [&](Ref v) { return std::vector{convolve_integers(c.onnx, v, weight, bias, whole, kernel)}; })[0];
  }
  onnx::Attributes attributes{
      {"dilations", spread(conv.dilation, dims)}, {"group", conv.groups}, {"kernel_shape", kernel}};
  Ints stride = spread(conv.stride, dims), pads = conv.pads;
  if (conv.transposed) {
    Ints extra = spread(conv.output_padding, dims);
    // ONNX Runtime takes no more than the stride at the end; more of it is less that is cut off there.
    for (size_t i = 0; i < dims; ++i)
      if (extra[i] >= stride[i]) {
        int64_t uncut = std::min(extra[i], pads[dims + i]);
        pads[dims + i] -= uncut;
        extra[i] -= uncut;
        if (extra[i] >= stride[i]) c.unsupported("an output padding of the stride or more");
      }
    if (std::any_of(extra.begin(), extra.end(), [](int64_t e) { return e != 0; }))
      attributes.push_back({"output_padding", extra});
  }
  attributes.push_back({"pads", pads});
  attributes.push_back({"strides", stride});
  return batched(c.onnx, x, dims, [&](Ref v) {
    return std::vector{c.onnx.op(conv.transposed ? "ConvTranspose" : "Conv", {v, weight, bias}, attributes)};
  })[0];
}

size_t spatial_dims(Call& c) { return c.tensor("weight")->rank() - 2; }

Value conv(Call& c) {
  size_t dims = spatial_dims(c);
  Convolution conv{c.integers("stride"),
                   both_sides(spread(c.integers("padding"), dims)),
                   c.integers("dilation"),
                   {},
                   c.integer("groups")};
  return convolve(c, c.tensor("input"), conv);
}

// padding="same" puts the odd element at the end.
Value conv_named_padding(Call& c) {
  size_t dims = spatial_dims(c);
  Ints dilation = spread(c.integers("dilation"), dims);
  Ints begins(dims, 0), ends(dims, 0);
  std::string padding = c.text("padding");
  if (padding == "same") {
    onnx::Value* weight = c.tensor("weight");
    for (size_t i = 0; i < dims; ++i) {
      int64_t total = dilation[i] * (*weight->shape[i + 2].constant() - 1);
      begins[i] = total / 2;
      ends[i] = total - begins[i];
    }
  } else if (padding != "valid") {
    c.unsupported(fmt::format("padding '{}'", padding));
  }
  begins.insert(begins.end(), ends.begin(), ends.end());
  return convolve(c, c.tensor("input"), {c.integers("stride"), begins, dilation, {}, c.integer("groups")});
}

Value conv_transpose(Call& c) {
  size_t dims = spatial_dims(c);
  Convolution conv{c.integers("stride"),   both_sides(spread(c.integers("padding"), dims)),
                   c.integers("dilation"), c.integers("output_padding"),
                   c.integer("groups"),    true};
  return convolve(c, c.tensor("input"), conv);
}

Value convolution(Call& c) {
  size_t dims = spatial_dims(c);
  bool transposed = c.flag("transposed");
  Convolution conv{c.integers("stride"),   both_sides(spread(c.integers("padding"), dims)),
                   c.integers("dilation"), c.integers("output_padding"),
                   c.integer("groups"),    transposed};
  return convolve(c, c.tensor("input"), conv);
}

}  // namespace

void register_conv(Registry& ops) {
  for (int dims : {1, 2, 3}) {
    std::string d = std::to_string(dims);
    std::string head = fmt::format("(Tensor input, Tensor weight, Tensor? bias=None, int[{}] stride=1, ", d);
    ops.add(fmt::format("aten::conv{}d{}int[{}] padding=0, int[{}] dilation=1, int groups=1) -> Tensor", d, head, d, d),
            conv);
    ops.add(fmt::format("aten::conv{}d.padding{}str padding=\"valid\", int[{}] dilation=1, int groups=1) -> Tensor", d,
                        head, d),
            conv_named_padding);
    std::string transposed = dims == 1 ? "aten::conv_transpose1d" : fmt::format("aten::conv_transpose{}d.input", d);
    ops.add(fmt::format("{}{}int[{}] padding=0, int[{}] output_padding=0, int groups=1, int[{}] dilation=1) -> Tensor",
                        transposed, head, d, d, d),
            conv_transpose);
  }
  std::string common =
      "(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool transposed, int[] "
      "output_padding, int groups";
  for (const std::string& schema :
       {"aten::_convolution" + common +
            ", bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor",
        "aten::_convolution.deprecated" + common +
            ", bool benchmark, bool deterministic, bool cudnn_enabled) -> Tensor",
        "aten::convolution" + common + ") -> Tensor"})
    ops.add(schema, convolution);
  std::string modes =
      "(Tensor input, Tensor weight, Tensor? bias, int[] stride, str padding, int[] dilation, int groups) -> Tensor";
  ops.add("aten::_convolution_mode" + modes, conv_named_padding);
  // [time, batch, channels], and weights [kernel, in, out]
  ops.add("aten::conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor", [](Call& c) -> Value {
    onnx::Value* x = c.onnx.transpose(c.tensor("self"), {1, 2, 0});
    onnx::Value* weight = c.onnx.transpose(c.tensor("weight"), {2, 1, 0});
    Value ones = Value::list(Vector<Value>{c.number_value(1)});
    Value y = c.call("aten::conv1d", {x, weight, c.arg("bias"), ones, Value::list(Vector<Value>{c.arg("pad")})});
    return c.onnx.transpose(c.as_tensor(y), {2, 0, 1});
  });
}

}  // namespace lithify::ops
