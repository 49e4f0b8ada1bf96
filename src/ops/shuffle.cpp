// Operators that move elements between channels and pixels: pixel_shuffle, pixel_unshuffle, channel_shuffle.
#include <fmt/format.h>

#include <algorithm>

#include "ops/register.hpp"
#include "ops/slicing.hpp"

namespace lithify::ops {
namespace {

using onnx::Builder;
using OnnxValue = onnx::Value;

Shape with_sizes(Shape batch, std::initializer_list<Dim> sizes) {
  batch.insert(batch.end(), sizes);
  return batch;
}

// The last four dimensions in another order.
Vector<int64_t> last_permuted(const OnnxValue* x, std::initializer_list<int64_t> order) {
  Vector<int64_t> perm = identity_permutation(x->rank());
  std::transform(order.begin(), order.end(), perm.end() - 4, [&](int64_t i) { return i + rank_of(x) - 4; });
  return perm;
}

Value pixel_shuffle(Call& c) {
  OnnxValue* x = c.tensor("self");
  int64_t factor = c.integer("upscale_factor");
  if (x->rank() < 3) c.mismatch("at least 3 dimensions are needed");
  Shape batch(x->shape.begin(), x->shape.end() - 3);
  Dim r = c.sym.constant(factor), height = x->shape.end()[-2], width = x->shape.end()[-1];
  std::optional<Dim> channels = c.sym.divide_exactly(x->shape.end()[-3], c.sym.mul(r, r));
  if (!channels) c.mismatch(fmt::format("{} channels do not divide by {}", x->shape.end()[-3].str(), factor * factor));
  Shape to = with_sizes(batch, {*channels, c.sym.mul(height, r), c.sym.mul(width, r)});
  if (is_float(x->dtype)) {
    OnnxValue* flat = c.onnx.reshape(x, {c.sym.product(batch), x->shape.end()[-3], height, width});
    return c.onnx.reshape(c.onnx.op("DepthToSpace", {flat}, {{"blocksize", factor}, {"mode", std::string("CRD")}}), to);
  }
  OnnxValue* blocks = c.onnx.reshape(x, with_sizes(batch, {*channels, r, r, height, width}));
  return c.onnx.reshape(c.onnx.transpose(blocks, last_permuted(blocks, {2, 0, 3, 1})), to);
}

Value pixel_unshuffle(Call& c) {
  OnnxValue* x = c.tensor("self");
  int64_t factor = c.integer("downscale_factor");
  if (x->rank() < 3) c.mismatch("at least 3 dimensions are needed");
  Shape batch(x->shape.begin(), x->shape.end() - 3);
  Dim r = c.sym.constant(factor), channels = x->shape.end()[-3];
  Dim height = c.sym.floor_div(x->shape.end()[-2], r), width = c.sym.floor_div(x->shape.end()[-1], r);
  Shape to = with_sizes(batch, {c.sym.mul(channels, c.sym.mul(r, r)), height, width});
  if (is_float(x->dtype) && channels.is_constant()) {
    Shape flat = with_sizes({c.sym.product(batch)}, {channels, x->shape.end()[-2], x->shape.end()[-1]});
    OnnxValue* y = c.onnx.op("SpaceToDepth", {c.onnx.reshape(x, flat)}, {{"blocksize", factor}});
    // ONNX has the channels of the image innermost, PyTorch has them outermost.
    const int64_t count = *channels.constant(), squared = checked_mul(factor, factor);
    Vector<int64_t> order = known_elements<int64_t>(c.sym, checked_mul(count, squared));
    for (int64_t i = 0; i < count; ++i)
      for (int64_t k = 0; k < squared; ++k) order[static_cast<size_t>(i * squared + k)] = k * count + i;
    return c.onnx.reshape(channels.is(1) ? y : c.onnx.gather(y, c.onnx.ints(order), 1), to);
  }
  OnnxValue* blocks = c.onnx.reshape(x, with_sizes(batch, {channels, height, r, width, r}));
  return c.onnx.reshape(c.onnx.transpose(blocks, last_permuted(blocks, {1, 3, 0, 2})), to);
}

Value channel_shuffle(Call& c) {
  OnnxValue* x = c.tensor("self");
  if (x->rank() < 3) c.mismatch("at least 3 dimensions are needed");
  int64_t groups = c.integer("groups");
  std::optional<int64_t> channels = x->shape[1].constant();
  if (!channels) c.unsupported("a dynamic number of channels");
  if (groups < 1 || *channels % groups != 0)
    c.mismatch(fmt::format("{} channels do not divide into {} groups", *channels, groups));
  Vector<int64_t> order = known_elements<int64_t>(c.sym, *channels);
  for (int64_t i = 0; i < *channels; ++i)
    order[static_cast<size_t>(i)] = i % groups * (*channels / groups) + i / groups;
  return c.onnx.gather(x, c.onnx.ints(order), 1);
}

}  // namespace

void register_shuffle(eval::Registry& ops) {
  ops.add("aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", pixel_shuffle);
  ops.add("aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", pixel_unshuffle);
  add_each(ops,
           {"aten::channel_shuffle(Tensor self, int groups) -> Tensor",
            "aten::native_channel_shuffle(Tensor self, int groups) -> Tensor"},
           channel_shuffle);
}

}  // namespace lithify::ops
