// Operators that add elements at the ends of dimensions, or drop some.
#include <fmt/format.h>

#include "ops/register.hpp"
#include "ops/slicing.hpp"

namespace lithify::ops {
namespace {

using onnx::Builder;
using OnnxValue = onnx::Value;

using Pads = Vector<std::pair<Dim, Dim>>;

// PyTorch gives pads from the last dimension on; here one pair for each dimension.
Pads pads_of(Call& c, std::string_view argument, size_t rank) {
  Vector<Dim> given = c.sizes(argument);
  if (given.size() % 2 != 0 || given.size() / 2 > rank)
    c.mismatch(fmt::format("{} pads are given for {} dimensions", given.size(), rank));
  Dim zero = c.sym.constant(0);
  Pads pads(rank, {zero, zero});
  for (size_t i = 0; i < given.size() / 2; ++i) pads[rank - 1 - i] = {given[2 * i], given[2 * i + 1]};
  for (Dim pad : given)
    if (c.sym.observer && !pad.is_constant() && pad.lower().value_or(-1) < 0 && c.sym.sample(pad).value_or(-1) >= 0)
      c.sym.observer->took_side({sym::Assumption::Kind::AtMost, zero, pad});
  return pads;
}

OnnxValue* wrapped_around(Builder& b, OnnxValue* x, const Pads& pads) {
  for (size_t d = 0; d < pads.size(); ++d)
    for (const Dim pad : {pads[d].first, pads[d].second})
      if (pad.is_constant() && b.sym.sample(x->shape[d]).value_or(0) >= *pad.constant())
        b.sym.assume({sym::Assumption::Kind::AtMost, pad, x->shape[d]});
  if (b.opset() >= 19) return b.pad(x, pads, "wrap");
  for (size_t d = 0; d < pads.size(); ++d) {
    int64_t axis = static_cast<int64_t>(d);
    auto [before, after] = pads[d];
    onnx::Inputs parts;
    Dim first = before.is_constant() ? b.sym.neg(before) : b.sym.sub(x->shape[d], before);
    if (!before.is(0)) parts.push_back(Slice{axis, first, b.dim(to_the_end), 1, before}.take(b, x));
    parts.push_back(x);
    if (!after.is(0)) parts.push_back(Slice{axis, b.dim(0), after, 1, after}.take(b, x));
    x = b.concat(parts, axis);
  }
  return x;
}

OnnxValue* padded_by_mode(Call& c, OnnxValue* x, Pads pads, std::string_view mode, OnnxValue* fill) {
  Builder& b = c.onnx;
  if (mode == "constant") return b.pad(x, pads, mode, fill);
  // A negative pad takes away what is there, after the other side was padded; from what is wrapped around, before that.
  Vector<Slice> crops;
  for (size_t d = 0; d < pads.size(); ++d) {
    auto cut = [&](Dim& pad) {
      bool negative = pad.upper().value_or(0) < 0;
      return negative ? std::exchange(pad, b.dim(0)) : b.dim(0);
    };
    Dim before = cut(pads[d].first), after = cut(pads[d].second);
    if (!before.is(0) || !after.is(0))
      crops.push_back({static_cast<int64_t>(d), b.sym.neg(before), after.is(0) ? b.dim(to_the_end) : after});
  }
  const auto crop = [&] {
    for (const Slice& s : crops) x = s.take(b, x);
  };
  if (mode == "wrap") {
    crop();
    return wrapped_around(b, x, pads);
  }
  x = b.pad(x, pads, mode);
  crop();
  return x;
}

std::string_view onnx_pad_mode(Call& c, std::string_view mode) {
  if (mode == "constant" || mode == "reflect") return mode;
  if (mode == "replicate") return "edge";
  if (mode == "circular") return "wrap";
  c.unsupported(fmt::format("the mode '{}'", mode));
}

Value pad_rule(Call& c, std::string_view argument, std::string_view mode) {
  OnnxValue* x = c.tensor("self");
  OnnxValue* fill = nullptr;
  if (mode == "constant" && c.schema.argument("value") && !c.none("value")) fill = c.number("value", x->dtype);
  if (fill && fill->is_constant() && fill->constant->reals()[0] == 0) fill = nullptr;
  return padded_by_mode(c, x, pads_of(c, argument, x->rank()), mode, fill);
}

}  // namespace

void register_pad(eval::Registry& ops) {
  ops.add("aten::pad(Tensor self, int[] pad, str mode=\"constant\", float? value=None) -> Tensor",
          [](Call& c) { return pad_rule(c, "pad", onnx_pad_mode(c, c.text("mode"))); });
  ops.add("aten::_pad_enum(Tensor self, int[] pad, int mode, float? value=None) -> Tensor", [](Call& c) {
    static constexpr std::string_view modes[] = {"reflect", "edge", "wrap", "constant"};
    return pad_rule(c, "pad", modes[c.integer("mode") & 3]);
  });
  ops.add("aten::constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor",
          [](Call& c) { return pad_rule(c, "pad", "constant"); });
  ops.add("aten::_pad_circular(Tensor self, int[] pad) -> Tensor", [](Call& c) { return pad_rule(c, "pad", "wrap"); });
  for (int n : {1, 2, 3}) {
    ops.add(fmt::format("aten::reflection_pad{}d(Tensor self, int[{}] padding) -> Tensor", n, 2 * n),
            [](Call& c) { return pad_rule(c, "padding", "reflect"); });
    ops.add(fmt::format("aten::replication_pad{}d(Tensor self, int[{}] padding) -> Tensor", n, 2 * n),
            [](Call& c) { return pad_rule(c, "padding", "edge"); });
  }
}

}  // namespace lithify::ops
