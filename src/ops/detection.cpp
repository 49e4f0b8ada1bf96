// Operators of object detection, as torchvision has them.
#include "ops/elementwise.hpp"
#include "ops/register.hpp"

namespace lithify::ops {
namespace {

// The indices of the boxes that are kept, best first.
Value nms(Call& c) {
  Builder& b = c.onnx;
  if (b.opset() < 10) c.needs_opset(10);
  Ref boxes = c.tensor("dets"), scores = c.tensor("scores");
  if (boxes->rank() != 2 || scores->rank() != 1) c.mismatch("boxes [n, 4] and scores [n] are needed");
  if (boxes->dtype == DType::Double) c.unsupported("boxes in float64: ONNX has overlaps in float32 alone");
  double threshold = c.real("iou_threshold");
  if (threshold < 0 || threshold > 1) c.unsupported("a threshold outside [0, 1]");
  Ref kept = b.op("NonMaxSuppression",
                  {b.unsqueeze(b.cast(boxes, DType::Float), {0}), b.unsqueeze(b.cast(scores, DType::Float), {0, 1}),
                   b.ints({std::numeric_limits<int64_t>::max()}), b.reals(DType::Float, {1}, std::array{threshold})});
  return b.select(kept, 1, b.dim(2));
}

// Boxes [n, 5], the image in front, as ONNX has them: boxes [n, 4], and the images.
std::pair<Ref, Ref> regions(Call& c) {
  Builder& b = c.onnx;
  Ref rois = c.tensor("rois");
  if (rois->rank() != 2 || !rois->shape[1].is(5)) c.mismatch("boxes [n, 5] are needed");
  return {b.slice(rois, 1, b.dim(1), b.dim(5)), b.cast(b.select(rois, 1, b.dim(0)), DType::Int64)};
}

// The features under each box, sampled to a grid.
Ref aligned_regions(Call& c, bool half_pixel) {
  Builder& b = c.onnx;
  if (b.opset() < 10) c.needs_opset(10);
  if (half_pixel && b.opset() < 16) c.needs_opset(16);
  auto [boxes, images] = regions(c);
  // A scale that follows from the sizes at run time is applied to the boxes.
  const std::optional<double> scale = known_number(c, "spatial_scale");
  if (!scale) boxes = b.mul(boxes, c.number("spatial_scale", boxes->dtype));
  onnx::Attributes attributes{{"output_height", c.integer("pooled_height")},
                              {"output_width", c.integer("pooled_width")},
                              {"sampling_ratio", std::max<int64_t>(c.integer("sampling_ratio"), 0)},
                              {"spatial_scale", static_cast<float>(scale.value_or(1))}};
  if (b.opset() >= 16)
    attributes.push_back(
        {"coordinate_transformation_mode", std::string(half_pixel ? "half_pixel" : "output_half_pixel")});
  return b.op("RoiAlign", {c.tensor("input"), boxes, images}, std::move(attributes));
}

Value roi_align(Call& c) { return aligned_regions(c, c.flag("aligned")); }

// Each cell of the grid has separate channels.
Value ps_roi_align(Call& c) {
  Builder& b = c.onnx;
  int64_t height = c.integer("pooled_height"), width = c.integer("pooled_width"), cells = checked_mul(height, width);
  Ref all = aligned_regions(c, true);
  Dim channels = b.sym.floor_div(all->shape[1], b.dim(cells));
  Ref flat = b.reshape(all, {all->shape[0], channels, b.dim(checked_mul(cells, cells))});
  Vector<int64_t> own = known_elements<int64_t>(b.sym, cells);
  for (int64_t cell = 0; cell < cells; ++cell) own[static_cast<size_t>(cell)] = cell * (cells + 1);
  Ref out = b.reshape(b.gather(flat, b.ints(own), 2), {all->shape[0], channels, b.dim(height), b.dim(width)});
  return Value::tuple({out, eval::Undecided{"the channel mapping of ps_roi_align, which serves its gradient alone"}});
}

Value roi_pool(Call& c) {
  Builder& b = c.onnx;
  Ref out = b.op("MaxRoiPool", {c.tensor("input"), c.tensor("rois")},
                 {{"pooled_shape", std::vector{c.integer("pooled_height"), c.integer("pooled_width")}},
                  {"spatial_scale", c.f32("spatial_scale")}});
  return Value::tuple({out, eval::Undecided{"the positions of roi_pool's maxima, which serve its gradient alone"}});
}

Value deform_conv2d(Call& c) {
  Builder& b = c.onnx;
  if (b.opset() < 19) c.needs_opset(19);
  Vector<int64_t> pads{c.integer("pad_h"), c.integer("pad_w")};
  pads.insert(pads.end(), pads.begin(), pads.begin() + 2);
  Ref weight = c.tensor("weight");
  onnx::Inputs inputs{c.tensor("input"), weight, c.tensor("offset"), c.tensor("bias")};
  if (c.flag("use_mask")) inputs.push_back(c.tensor("mask"));
  return b.op("DeformConv", std::move(inputs),
              {{"strides", std::vector{c.integer("stride_h"), c.integer("stride_w")}},
               {"pads", std::move(pads)},
               {"dilations", std::vector{c.integer("dilation_h"), c.integer("dilation_w")}},
               {"group", c.integer("groups")},
               {"offset_group", c.integer("offset_groups")}});
}

}  // namespace

void register_detection(eval::Registry& ops) {
  ops.add("torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", nms);
  ops.add(
      "torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, int "
      "sampling_ratio, bool aligned) -> Tensor",
      roi_align);
  ops.add(
      "torchvision::ps_roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
      "int sampling_ratio) -> (Tensor, Tensor)",
      ps_roi_align);
  ops.add(
      "torchvision::roi_pool(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width) -> "
      "(Tensor, Tensor)",
      roi_pool);
  ops.add(
      "torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, int stride_h, "
      "int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, int offset_groups, bool "
      "use_mask) -> Tensor",
      deform_conv2d);
}

}  // namespace lithify::ops
