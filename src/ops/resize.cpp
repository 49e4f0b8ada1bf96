// Resizing of images and sequences.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked.hpp"
#include "ops/elementwise.hpp"
#include "ops/register.hpp"

namespace lithify::ops {
namespace {

using eval::Registry;

struct Method {
  std::string_view mode;  // of ONNX's Resize
  bool exact = false;     // nearest-exact
  bool align_corners = false;
  bool antialias = false;
};

onnx::Attributes attributes_of(const Method& m) {
  onnx::Attributes a;
  if (m.antialias) a.push_back({"antialias", int64_t{1}});
  if (m.mode == "nearest") {
    // PyTorch takes floor(i * scale), or for nearest-exact floor((i + 1/2) * scale).
    a.push_back({"coordinate_transformation_mode", std::string(m.exact ? "half_pixel" : "asymmetric")});
    a.push_back({"mode", std::string("nearest")});
    a.push_back({"nearest_mode", std::string(m.exact ? "round_prefer_ceil" : "floor")});
    return a;
  }
  a.push_back({"coordinate_transformation_mode", std::string(m.align_corners ? "align_corners" : "half_pixel")});
  if (m.mode == "cubic") a.push_back({"cubic_coeff_a", m.antialias ? -0.5f : -0.75f});
  if (m.antialias) a.push_back({"exclude_outside", int64_t{1}});
  a.push_back({"mode", std::string(m.mode)});
  return a;
}

// PyTorch raises where a size is not positive; so it is assumed to be.
Dim positive(onnx::Builder& b, Dim size) {
  if (size.is_constant() || b.sym.less_equal(b.dim(1), size) == true) return size;
  if (sym::kind(size) != sym::Kind::Symbol) {
    b.sym.assume({sym::Assumption::Kind::AtMost, b.dim(1), size});
    return size;
  }
  Dim out = b.sym.symbol({.name = "resized"});
  b.bind(out, b.real(b.symbolic(size)));
  return out;
}

// A size as a float.
Ref count(onnx::Builder& b, Dim size) { return b.cast(b.symbolic(size), DType::Float); }

// ---- antialiasing --------------------------------------------------------------------------------------------------

// [out, in]: how much of each element is in each output. A filter, a triangle or a cubic, is as wide as an output's
// share of the input, but not narrower than for an element; its weights add up to 1.
Ref antialiasing_matrix(onnx::Builder& b, Dim in, Dim out, std::optional<double> factor, const Method& m) {
  auto number = [&](double v) { return b.scalar(DType::Float, v); };
  Ref scale = b.div(count(b, in), count(b, out));
  if (m.align_corners) {
    Dim spans = b.sym.max(b.sym.sub(out, b.dim(1)), b.dim(1));
    scale = out.is(1) ? number(0) : b.div(count(b, b.sym.sub(in, b.dim(1))), count(b, spans));
  } else if (factor) {
    scale = number(1 / *factor);
  }
  bool cubic = m.mode == "cubic";
  Ref width = b.op("Max", {scale, number(1)}), reach = b.mul(width, number(cubic ? 2 : 1)), half = number(0.5);
  Ref row = b.unsqueeze(b.cast(arange(b, out), DType::Float), {1}), column = b.cast(arange(b, in), DType::Float);
  Ref center = b.mul(b.add(row, half), scale);
  Ref first = b.op("Floor", {b.op("Max", {b.add(b.sub(center, reach), half), number(0)})});
  Ref end = b.op("Floor", {b.add(b.add(center, reach), half)});
  Ref inside = b.op("And", {b.op("Not", {b.op("Less", {column, first})}), b.op("Less", {column, end})});
  Ref t = b.op("Abs", {b.div(b.add(b.sub(column, center), half), width)}), one = number(1);
  Ref weight = b.op("Relu", {b.sub(one, t)});
  if (cubic) {
    // With the coefficient -1/2.
    Ref square = b.mul(t, t), third = b.mul(square, t);
    Ref near = b.add(b.sub(b.mul(third, number(1.5)), b.mul(square, number(2.5))), one);
    Ref far = b.mul(b.add(b.mul(b.add(b.mul(b.sub(t, number(5)), t), number(8)), t), number(-4)), number(-0.5));
    weight = b.where(b.op("Less", {t, one}), near, b.where(b.op("Less", {t, number(2)}), far, number(0)));
  }
  weight = b.where(inside, weight, number(0));
  return b.div(weight, b.reduce("ReduceSum", weight, {1}, true));
}

Ref resize_antialiased(onnx::Builder& b, Ref x, const Vector<Dim>& sizes, const Vector<std::optional<double>>& scales,
                       const Method& m) {
  auto matrix = [&](size_t i, Dim in) {
    return antialiasing_matrix(b, in, sizes[i], i < scales.size() ? scales[i] : std::nullopt, m);
  };
  DType type = x->dtype;
  x = b.cast(x, DType::Float);
  x = b.matmul(x, b.swap_dims(matrix(1, x->shape[x->rank() - 1]), 0, 1));
  return b.cast(b.matmul(matrix(0, x->shape[x->rank() - 2]), x), type);
}

/// A factor as Resize takes it, in single precision, and whether it gives the sizes of PyTorch.
struct SingleFactor {
  float factor;
  bool same_sizes;
};

// PyTorch computes a size in double, ONNX Runtime and onnx from a factor in single precision: 10 * 1.3 is 12 or 13. So
// the factor is one beside it if that makes all of them agree, at the size or at those that are likely; else the result
// is longer, never shorter.
SingleFactor single_factor(const onnx::Builder& b, double factor, Dim in) {
  constexpr int64_t likely = 4096;
  constexpr float infinite = std::numeric_limits<float>::infinity();
  const int64_t first = in.constant().value_or(1), last = in.constant().value_or(likely);
  auto agrees = [&](float f) {
    for (int64_t n = first; n <= last; ++n) {
      const double size = std::floor(static_cast<double>(n) * factor);
      if (std::floor(static_cast<float>(n) * f) != size || std::floor(static_cast<double>(n) * f) != size) return false;
    }
    return true;
  };
  const auto nearest = static_cast<float>(factor);
  // The form for older opsets computes sizes of fractions itself.
  if (b.opset() < 11) return {nearest, true};
  const float above = std::nextafter(nearest, infinite), below = std::nextafter(nearest, -infinite);
  for (float f : {nearest, above, below})
    if (agrees(f)) return {f, true};
  return {above, false};
}

// ---- nearest neighbors ---------------------------------------------------------------------------------------------

// One axis: PyTorch takes the element floor(i * scale) in single precision, where scale is in / out; for nearest-exact
// floor((i + 1/2) * scale).
struct Nearest {
  Dim in, out;
  std::optional<double> factor;  // given, instead of out / in
  bool exact = false;
  bool snaps = false;  // of images: PyTorch ignores the factor where out is in or 2 * in
};

// Whether out may be times * in and not because of the factor: 3 * 1.2 is 3. ONNX Runtime copies where all sizes stay.
bool may_round_to(const onnx::Builder& b, Dim in, Dim out, std::optional<double> factor, int64_t times) {
  if (!factor || *factor <= static_cast<double>(times) || *factor >= static_cast<double>(times + 1)) return false;
  return b.sym.equal(out, b.sym.mul(in, b.sym.constant(times))).value_or(true);
}

// Whether all sizes may stay by rounding: ONNX Runtime copies then, and PyTorch applies the factors.
bool all_may_stay(const onnx::Builder& b, const onnx::Value* x, const Vector<Dim>& sizes,
                  const Vector<std::optional<double>>& factors) {
  const size_t lead = x->rank() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i)
    if (!may_round_to(b, x->shape[lead + i], sizes[i], factors[i], 1)) return false;
  return true;
}

// So many elements more along the last axis that a factor above 1 makes it longer. Interpolation takes the last element
// for what is behind it.
onnx::Value* followed_by_the_last(Call& c, onnx::Value* x, double factor) {
  constexpr double most = 4096;
  const double count = std::ceil(1 / (factor - 1));
  if (count > most) c.unsupported(fmt::format("the factor {}, which may leave all sizes as they are", factor));
  Vector<std::pair<Dim, Dim>> pads(x->rank(), {c.onnx.dim(0), c.onnx.dim(0)});
  pads.back().second = c.onnx.dim(static_cast<int64_t>(count));
  return c.onnx.pad(x, pads, "edge");
}

// 1 / times where out is times * in, else the given scale.
Ref unless_rounded(onnx::Builder& b, Dim in, Dim out, std::optional<double> factor, int64_t times, double then,
                   Ref scale) {
  if (!may_round_to(b, in, out, factor, times)) return scale;
  Ref equal = b.op("Equal", {b.symbolic(out), b.symbolic(b.sym.mul(in, b.dim(times)))});
  return b.where(equal, b.scalar(DType::Float, then), scale);
}

// Whether Resize takes the same elements, which divides by out / in: at all sizes, or at those that are likely.
bool takes_the_same(onnx::Builder& b, const Nearest& n) {
  constexpr int64_t likely = 4096;
  if (may_round_to(b, n.in, n.out, n.factor, 1) || (n.snaps && may_round_to(b, n.in, n.out, n.factor, 2))) return false;
  float torch = 0, ort = 0;  // their scales
  int64_t count = n.out.constant().value_or(likely);
  const std::optional<Dim> times = b.sym.divide_exactly(n.out, n.in);
  // The form for older opsets computes positions itself; it has no other factors in Resize than whole ones.
  if (b.opset() < 11 && !(times && times->is_constant())) return false;
  if (n.factor) {
    const SingleFactor single = single_factor(b, *n.factor, n.in);
    if (!single.same_sizes) return false;
    torch = static_cast<float>(1.0 / *n.factor), ort = single.factor;
  } else if (n.in.is_constant() && n.out.is_constant()) {
    const auto in = static_cast<float>(*n.in.constant()), out = static_cast<float>(*n.out.constant());
    torch = in / out, ort = out / in;
  } else if (times && times->is_constant()) {
    ort = static_cast<float>(*times->constant()), torch = 1 / ort;
  } else {
    return false;
  }
  b.sym.budget.spend(Limit::Bytes, static_cast<uint64_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<float>(i);
    const float theirs = n.exact ? std::round((at + 0.5f) / ort - 0.5f) : std::floor(at / ort);
    if (std::floor((n.exact ? at + 0.5f : at) * torch) != theirs) return false;
  }
  return true;
}

onnx::Value* take_nearest(onnx::Builder& b, onnx::Value* x, int64_t axis, const Nearest& n) {
  Ref scale = n.factor ? b.scalar(DType::Float, 1.0 / *n.factor) : b.div(count(b, n.in), count(b, n.out));
  for (int64_t times : {1, 2})
    if (n.snaps) scale = unless_rounded(b, n.in, n.out, n.factor, times, 1.0 / static_cast<double>(times), scale);
  Ref at = b.cast(arange(b, n.out), DType::Float);
  if (n.exact) at = b.add(at, b.scalar(DType::Float, 0.5));
  Ref index = b.cast(b.op("Floor", {b.mul(at, scale)}), DType::Int64);
  return b.gather(x, b.op("Min", {index, b.symbolic(b.sym.sub(n.in, b.dim(1)))}), axis);
}

onnx::Value* resize(Call& c, onnx::Value* x, Vector<Dim> sizes, Vector<std::optional<double>> scales, const Method& m);

// Bytes are interpolated along one dimension after the other, the last one first, and are bytes in between.
onnx::Value* resize_bytes(Call& c, onnx::Value* x, const Vector<Dim>& sizes, Vector<std::optional<double>> scales,
                          const Method& m) {
  onnx::Builder& b = c.onnx;
  const size_t dims = sizes.size(), lead = x->rank() - dims;
  scales.resize(dims);
  x = b.cast(x, DType::Float);
  for (size_t i = dims; i-- > 0;) {
    if (x->shape[lead + i] == sizes[i]) continue;
    Vector<Dim> now(x->shape.begin() + static_cast<std::ptrdiff_t>(lead), x->shape.end());
    Vector<std::optional<double>> factors(dims, scales[i] ? std::optional(1.0) : std::nullopt);
    now[i] = sizes[i];
    factors[i] = scales[i];
    x = b.op("Floor", {b.add(resize(c, x, now, factors, m), b.scalar(DType::Float, 0.5))});
    x = b.op("Clip", {x, b.scalar(DType::Float, 0), b.scalar(DType::Float, 255)});
  }
  return b.cast(x, DType::UInt8);
}

onnx::Value* resize(Call& c, onnx::Value* x, Vector<Dim> sizes, Vector<std::optional<double>> scales, const Method& m) {
  onnx::Builder& b = c.onnx;
  constexpr int64_t most = 1 << 24;  // a float32 factor makes it exactly
  for (Dim& size : sizes) {
    size = positive(b, size);
    if (size.constant().value_or(0) > most) c.unsupported(fmt::format("a size of {}", size.str()));
  }
  if (x->dtype == DType::UInt8 && m.mode != "nearest") return resize_bytes(c, x, sizes, std::move(scales), m);
  // ONNX's own antialiasing knows nothing of these.
  bool given = std::any_of(scales.begin(), scales.end(), [](const auto& s) { return s.has_value(); });
  if (m.antialias && is_float(x->dtype) && x->dtype != DType::Double && (c.opset() < 18 || m.align_corners || given))
    return resize_antialiased(b, x, sizes, scales, m);
  if (m.antialias && c.opset() < 18) c.needs_opset(18);
  size_t dims = sizes.size(), lead = x->rank() - dims;
  scales.resize(dims);
  // Coordinates come from the scale factor if there is one, else from the sizes. Where the corners are aligned they
  // come from the sizes alone.
  if (m.align_corners) scales.assign(dims, std::nullopt);
  if (m.mode == "nearest") {
    // Resize takes either factors or sizes for all axes.
    const bool all_given = std::all_of(scales.begin(), scales.end(), [](const auto& s) { return s.has_value(); });
    for (size_t i = 0; i < dims; ++i) {
      const Nearest n{x->shape[lead + i], sizes[i], scales[i], m.exact, dims == 2 && !m.exact};
      const bool stays = n.in == n.out && (n.snaps || !may_round_to(b, n.in, n.out, n.factor, 1));
      if (!stays && (!takes_the_same(b, n) || (n.factor && !all_given)))
        x = take_nearest(b, x, static_cast<int64_t>(lead + i), n);
      if (x->shape[lead + i] == n.out && all_given) scales[i] = 1.0;
    }
    const Shape now(x->shape.begin() + static_cast<std::ptrdiff_t>(lead), x->shape.end());
    if (now == sizes) return x;
  }
  const bool by_scale = std::all_of(scales.begin(), scales.end(), [](const auto& s) { return s.has_value(); });
  DType type = x->dtype;
  if (!is_float(type)) x = b.cast(x, DType::Float);
  onnx::Value* roi = c.opset() >= 13 ? nullptr : b.floats({});
  onnx::Value* out;
  if (by_scale) {
    const bool longer = m.mode == "cubic" && all_may_stay(b, x, sizes, scales);
    if (longer) x = followed_by_the_last(c, x, *scales.back());
    Vector<Ref> factors{b.floats(Vector<float>(lead, 1.0f))};
    std::vector<bool> exact;
    for (size_t i = 0; i < dims; ++i) {
      const SingleFactor single = single_factor(b, *scales[i], x->shape[lead + i]);
      Ref factor = b.floats(Vector<float>{single.factor});
      // PyTorch interpolates nothing along a dimension that keeps its size.
      if (m.mode == "linear" && b.opset() >= 11)
        factor = unless_rounded(b, x->shape[lead + i], sizes[i], scales[i], 1, 1.0, factor);
      factors.push_back(factor);
      exact.push_back(single.same_sizes);
    }
    out = b.op("Resize", {x, roi, b.concat(factors, 0)}, attributes_of(m));
    for (size_t i = 0; i < dims; ++i)
      if (!exact[i] || (longer && i == dims - 1))
        out = b.slice(out, static_cast<int64_t>(lead + i), b.dim(0), sizes[i]);
  } else {
    Shape all(x->shape.begin(), x->shape.begin() + static_cast<std::ptrdiff_t>(lead));
    all.insert(all.end(), sizes.begin(), sizes.end());
    out = b.op("Resize", {x, roi, c.opset() >= 13 ? nullptr : b.floats({}), b.symbolic(all)}, attributes_of(m));
  }
  if (out->kind == onnx::Value::Kind::Output) {
    std::copy_n(x->shape.begin(), lead, out->shape.begin());
    std::ranges::copy(sizes, out->shape.begin() + static_cast<std::ptrdiff_t>(lead));
  }
  return b.cast(out, type);
}

// floor(size * scale), for a factor that makes it exact.
Dim scaled_size(Call& c, Dim size, double scale) {
  if (auto n = size.constant()) return c.sym.constant(checked_integer(static_cast<double>(*n) * scale));
  for (int64_t denominator : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 32, 64}) {
    const std::optional<int64_t> numerator = exact_integer(scale * static_cast<double>(denominator));
    if (numerator && *numerator >= 1)
      return c.sym.floor_div(c.sym.mul(size, c.sym.constant(*numerator)), c.sym.constant(denominator));
  }
  onnx::Value* product =
      c.onnx.mul(c.onnx.cast(c.onnx.symbolic(size), DType::Double), c.onnx.scalar(DType::Double, scale));
  return c.onnx.symbol_of(c.onnx.cast(c.onnx.op("Floor", {product}), DType::Int64), "resized", 1);
}

// upsample_x(self, output_size, [align_corners,] scales...)
Value by_size(Call& c, Method m) {
  if (c.schema.argument("align_corners")) m.align_corners = c.flag("align_corners");
  Vector<std::optional<double>> scales;
  for (const char* name : {"scales", "scales_d", "scales_h", "scales_w"})
    if (c.schema.argument(name)) scales.push_back(c.maybe_real(name));
  onnx::Value* x = c.tensor("self");
  const Vector<Dim> sizes = c.sizes("output_size");
  if (std::ranges::any_of(scales, [](const auto& s) { return s && !(*s > 0); })) c.mismatch("a scale is not positive");
  for (size_t i = 0; i < std::min(sizes.size(), scales.size()); ++i)
    if (const Dim in = size_from_end(x, sizes.size() - i); scales[i] && in.is_constant() && sizes[i].is_constant())
      if (const Dim out = scaled_size(c, in, *scales[i]); out != sizes[i])
        c.unsupported(fmt::format("an output of {} where the scale makes {}", sizes[i].str(), out.str()));
  return resize(c, x, sizes, scales, m);
}

// upsample_x.vec(input, output_size?, [align_corners,] scale_factors?)
Value by_size_or_scale(Call& c, Method m) {
  onnx::Value* x = c.tensor("input");
  if (c.schema.argument("align_corners")) m.align_corners = c.flag("align_corners");
  if (!c.none("output_size")) return resize(c, x, c.sizes("output_size"), {}, m);
  Vector<double> factors = c.reals("scale_factors");
  Vector<Dim> sizes;
  Vector<std::optional<double>> scales;
  for (size_t i = 0; i < factors.size(); ++i) {
    sizes.push_back(scaled_size(c, x->shape[x->rank() - factors.size() + i], factors[i]));
    scales.emplace_back(factors[i]);
  }
  return resize(c, x, sizes, scales, m);
}

}  // namespace

void register_resize(Registry& ops) {
  struct Row {
    const char* name;
    size_t dims;
    Method method;
    bool corners;
  };
  for (const Row& row : {Row{"upsample_nearest1d", 1, {"nearest"}, false},
                         {"upsample_nearest2d", 2, {"nearest"}, false},
                         {"upsample_nearest3d", 3, {"nearest"}, false},
                         {"_upsample_nearest_exact1d", 1, {"nearest", true}, false},
                         {"_upsample_nearest_exact2d", 2, {"nearest", true}, false},
                         {"_upsample_nearest_exact3d", 3, {"nearest", true}, false},
                         {"upsample_linear1d", 1, {"linear"}, true},
                         {"upsample_bilinear2d", 2, {"linear"}, true},
                         {"upsample_trilinear3d", 3, {"linear"}, true},
                         {"upsample_bicubic2d", 2, {"cubic"}, true},
                         {"_upsample_bilinear2d_aa", 2, {"linear", false, false, true}, true},
                         {"_upsample_bicubic2d_aa", 2, {"cubic", false, false, true}, true}}) {
    const char* scales[] = {"", "float? scales=None", "float? scales_h=None, float? scales_w=None",
                            "float? scales_d=None, float? scales_h=None, float? scales_w=None"};
    std::string corners = row.corners ? "bool align_corners, " : "";
    ops.add(fmt::format("aten::{0}(Tensor self, int[{1}] output_size, {2}{3}) -> Tensor", row.name, row.dims, corners,
                        scales[row.dims]),
            [m = row.method](Call& c) { return by_size(c, m); })
        .numbers({{"output_size", Role::Size}});
    ops.add(fmt::format("aten::{}.vec(Tensor input, int[]? output_size, {}float[]? scale_factors) -> Tensor", row.name,
                        corners),
            [m = row.method](Call& c) { return by_size_or_scale(c, m); })
        .numbers({{"output_size", Role::Size}});
  }
}

}  // namespace lithify::ops
