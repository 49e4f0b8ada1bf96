// Operators on images: sampling at a grid of points, grids of affine maps, and patches.
#include <fmt/format.h>

#include "ops/elementwise.hpp"
#include "ops/register.hpp"
#include "ops/window.hpp"

namespace lithify::ops {
namespace {

Value grid_sampler(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("input"), grid = c.tensor("grid");
  int64_t mode = c.integer("interpolation_mode"), padding = c.integer("padding_mode");
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2) c.mismatch("there is no such mode");
  if (x->rank() != 4 && x->rank() != 5) c.mismatch("an image of 2 or 3 dimensions is needed");
  int least = x->rank() == 5 ? 20 : 16;
  if (b.opset() < least) c.needs_opset(least);
  static const std::string modes[] = {"bilinear", "nearest", "bicubic"}, newer[] = {"linear", "nearest", "cubic"},
                           paddings[] = {"zeros", "border", "reflection"};
  return b.op("GridSample", {x, grid},
              {{"align_corners", int64_t{c.flag("align_corners")}},
               {"mode", (b.opset() >= 20 ? newer : modes)[mode]},
               {"padding_mode", paddings[padding]}});
}

// The middles of n pixels in [-1, 1], or with `corners` the points from -1 to 1; a single one is at 0.
Ref coordinates(Builder& b, Dim n, bool corners, DType t) {
  Dim span = b.sym.sub(n, b.dim(1));
  Ref twice = b.mul(arange(b, n), b.scalar_int(DType::Int64, 2));
  Ref centred = b.cast(b.sub(twice, b.symbolic(span)), t);
  return b.div(centred, b.cast(b.symbolic(corners ? b.sym.max(span, b.dim(1)) : n), t));
}

// theta [batch, dims, dims + 1] applied to every point of an image.
Value affine_grid(Call& c) {
  Builder& b = c.onnx;
  Ref theta = c.tensor("theta");
  Vector<Dim> size = c.sizes("size");
  size_t dims = size.size() - 2;
  if (size.size() < 4 || size.size() > 5) c.mismatch("the size must have 4 or 5 numbers");
  // Column i of theta, for all points.
  auto column = [&](size_t i) {
    Shape shape(dims + 2, b.dim(1));
    shape.front() = theta->shape[0];
    shape.back() = theta->shape[1];
    return b.reshape(b.select(theta, 2, b.dim(static_cast<int64_t>(i))), shape);
  };
  Ref out = column(dims);
  for (size_t i = 0; i < dims; ++i) {
    // The first coordinate runs along the last dimension of the image.
    Dim n = size[size.size() - 1 - i];
    Shape shape(i + 2, b.dim(1));
    shape[0] = n;
    out = b.add(out, b.mul(b.reshape(coordinates(b, n, c.flag("align_corners"), theta->dtype), shape), column(i)));
  }
  return out;
}

// Every patch under a sliding window becomes a column.
Value im2col(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  bool batched = x->rank() == 4;
  if (!batched) x = b.unsqueeze(x, {0});
  if (x->rank() != 4) c.mismatch("an image of 2 dimensions is needed");
  Vector<int64_t> kernel = c.integers("kernel_size"), dilation = c.integers("dilation"),
                  padding = c.integers("padding"), stride = c.integers("stride");
  Vector<std::pair<Dim, Dim>> pads(2, {b.dim(0), b.dim(0)});
  for (int64_t p : padding) pads.emplace_back(b.dim(p), b.dim(p));
  Shape from = x->shape;
  x = b.pad(x, pads, "constant");
  x = windows(b, x, {kernel, stride, dilation});
  Dim rows = b.sym.mul(from[1], b.dim(kernel[0] * kernel[1]));
  Shape to{from[0], rows, b.sym.mul(x->shape[4], x->shape[5])};
  if (!batched) to.erase(to.begin());
  return b.reshape(x, to);
}

// The patches in columns back in their places, summed where they overlap.
Value col2im(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  bool batched = x->rank() == 3;
  if (!batched) x = b.unsqueeze(x, {0});
  Vector<Dim> size = c.sizes("output_size");
  Vector<int64_t> kernel = c.integers("kernel_size"), dilation = c.integers("dilation"),
                  padding = c.integers("padding"), stride = c.integers("stride");
  std::optional<Dim> channels = b.sym.divide_exactly(x->shape[1], b.dim(kernel[0] * kernel[1]));
  if (!channels) c.mismatch("the number of rows is not a multiple of the size of the kernel");
  // Where each element goes in the padded image: [kernel, kernel, steps, steps].
  Ref at = nullptr;
  Shape whole, columns{x->shape[0], *channels};
  for (size_t i = 0; i < 2; ++i) {
    Dim room = b.sym.add(size[i], b.dim(2 * padding[i]));
    Dim span = b.sym.sub(room, b.dim(dilation[i] * (kernel[i] - 1) + 1));
    Dim n = b.sym.add(b.sym.floor_div(span, b.dim(stride[i])), b.dim(1));
    Shape within(4, b.dim(1)), along(4, b.dim(1));
    within[i] = b.dim(kernel[i]);
    along[2 + i] = n;
    Ref place = b.add(b.reshape(b.mul(arange(b, within[i]), b.scalar_int(DType::Int64, dilation[i])), within),
                      b.reshape(b.mul(arange(b, n), b.scalar_int(DType::Int64, stride[i])), along));
    at = at ? b.add(b.mul(at, b.symbolic(room)), place) : place;
    whole.push_back(room);
  }
  columns.push_back(b.numel(at->shape));
  Ref zeros = b.full({columns[0], columns[1], b.numel(whole)}, like(b, x, 0));
  at = b.expand(b.reshape(at, {columns[2]}), columns);
  Ref sums = c.as_tensor(c.call("aten::scatter_add", {zeros, c.number_value(2), at, b.reshape(x, columns)}));
  Ref out = b.reshape(sums, {columns[0], columns[1], whole[0], whole[1]});
  for (size_t i = 0; i < 2; ++i)
    if (padding[i] != 0)
      out = b.slice(out, static_cast<int64_t>(2 + i), b.dim(padding[i]), b.sym.add(size[i], b.dim(padding[i])));
  return batched ? out : b.squeeze(out, {0});
}

}  // namespace

void register_vision(eval::Registry& ops) {
  for (std::string_view name : {"grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "_grid_sampler_2d_cpu_fallback"})
    ops.add(fmt::format("aten::{}(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool "
                        "align_corners) -> Tensor",
                        name),
            grid_sampler);
  ops.add("aten::affine_grid_generator(Tensor theta, int[] size, bool align_corners) -> Tensor", affine_grid);
  ops.add("aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
          im2col);
  ops.add(
      "aten::col2im(Tensor self, int[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] "
      "stride) -> Tensor",
      col2im);
}

}  // namespace lithify::ops
