// Fourier transforms.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

#include "ops/complex.hpp"
#include "ops/register.hpp"

namespace lithify::ops {
namespace {

// A matrix of more numbers is computed at run time rather than written into the file.
constexpr int64_t constant_budget = int64_t{1} << 21;

enum class Direction { Forward, Inverse };

Dim half_of(Builder& b, Dim n) { return b.sym.add(b.sym.floor_div(n, b.dim(2)), b.dim(1)); }

// A number of the program as a value of a type.
Ref sized(Builder& b, Dim n, DType t) { return b.cast(b.symbolic(n), t); }

// n to a power of 0, -1/2 or -1.
Ref scale_of(Builder& b, Dim n, double power, DType t) {
  if (n.is_constant()) return b.scalar(t, std::pow(static_cast<double>(*n.constant()), power));
  if (power == 0) return b.scalar(t, 1);
  Ref size = sized(b, n, t);
  return b.op("Reciprocal", {power == -1 ? size : b.op("Sqrt", {size})});
}

// The weights of the frequencies of a real signal of n samples: all but the first, and the last of an even n, stand for
// themselves and for their mirror image.
double mirrored(int64_t k, int64_t n) { return k == 0 || 2 * k == n ? 1 : 2; }

struct Waves {
  Ref cos;
  Ref sin;
};

// cos and sin of 2 pi j k / n for j below `rows` and k below `columns`, times a number; with `mirror`, row j times the
// weight of frequency j.
Waves waves(Builder& b, DType t, Dim rows, Dim columns, Dim n, double power, bool mirror) {
  bool known = rows.is_constant() && columns.is_constant() && n.is_constant();
  if (known && checked_mul(*rows.constant(), *columns.constant()) <= constant_budget) {
    int64_t height = *rows.constant(), width = *columns.constant(), length = *n.constant();
    Vector<double> cosines, sines;
    for (int64_t j = 0; j < height; ++j)
      for (int64_t k = 0; k < width; ++k) {
        double angle = 2 * std::numbers::pi * static_cast<double>(j * k % length) / static_cast<double>(length);
        double scale = std::pow(static_cast<double>(length), power) * (mirror ? mirrored(j, length) : 1);
        cosines.push_back(scale * std::cos(angle));
        sines.push_back(scale * std::sin(angle));
      }
    return {b.reals(t, {height, width}, cosines), b.reals(t, {height, width}, sines)};
  }
  // Whole rotations are taken off before the angle is rounded.
  Ref row = b.unsqueeze(arange(b, rows), {1}), length = b.symbolic(n);
  Ref rotations = b.div(b.cast(b.op("Mod", {b.mul(row, arange(b, columns)), length}), t), sized(b, n, t));
  Ref angle = b.mul(rotations, b.scalar(t, 2 * std::numbers::pi)), scale = scale_of(b, n, power, t);
  if (mirror) {
    Ref once = b.op("Or", {b.op("Equal", {row, b.scalar_int(DType::Int64, 0)}),
                           b.op("Equal", {b.mul(row, b.scalar_int(DType::Int64, 2)), length})});
    scale = b.mul(scale, b.where(once, b.scalar(t, 1), b.scalar(t, 2)));
  }
  return {b.mul(b.op("Cos", {angle}), scale), b.mul(b.op("Sin", {angle}), scale)};
}

// x with zeros at the end of an axis, or without its end.
Ref resized(Builder& b, Ref x, int64_t axis, Dim n) {
  Dim size = x->shape[static_cast<size_t>(axis)];
  if (size == n) return x;
  Dim kept = b.sym.min(size, n), missing = b.sym.max(b.sym.sub(n, size), b.dim(0));
  if (kept != size) x = b.slice(x, axis, b.dim(0), kept);
  Vector<std::pair<Dim, Dim>> pads(x->rank(), {b.dim(0), b.dim(0)});
  pads[static_cast<size_t>(axis)].second = missing;
  return b.pad(x, pads, "constant");
}

// ONNX Runtime's DFT is exact enough for powers of 2 alone.
bool has_dft(Builder& b, Dim n) {
  return b.opset() >= 17 && n.is_constant() && *n.constant() > 1 &&
         std::has_single_bit(static_cast<uint64_t>(*n.constant()));
}

Ref onnx_dft(Builder& b, Ref x, int64_t axis, Direction direction, bool onesided) {
  Ref in = is_complex(x->dtype) ? b.pairs(x) : b.unsqueeze(x, {rank_of(x)});
  onnx::Attributes attributes;
  if (b.opset() < 20) attributes.push_back({"axis", axis});
  if (direction == Direction::Inverse) attributes.push_back({"inverse", int64_t{1}});
  if (onesided) attributes.push_back({"onesided", int64_t{1}});
  onnx::Inputs inputs{in};
  if (b.opset() >= 20) inputs.insert(inputs.end(), {nullptr, b.scalar_int(DType::Int64, axis)});
  return b.from_pairs(b.op("DFT", inputs, attributes));
}

// The transform of x along an axis as it is, times n to a power; with `onesided`, its frequencies up to half of n.
Ref transform(Builder& b, Ref x, int64_t axis, Direction direction, double power, bool onesided = false) {
  Dim n = x->shape[static_cast<size_t>(axis)];
  DType t = part_type(x->dtype);
  if (has_dft(b, n)) {
    // The inverse DFT divides by n.
    Ref out = onnx_dft(b, x, axis, direction, onesided);
    double left = power + (direction == Direction::Inverse ? 1 : 0);
    return left == 0 ? out : b.mul(out, scale_of(b, n, left, t));
  }
  Waves w = waves(b, t, n, onesided ? half_of(b, n) : n, n, power, false);
  Ref turn = b.complex(w.cos, direction == Direction::Inverse ? w.sin : b.op("Neg", {w.sin}));
  return b.swap_dims(b.matmul(b.swap_dims(x, axis, -1), turn), axis, -1);
}

// The real signal of n samples that has these frequencies up to half of n, times n to a power.
Ref to_real(Builder& b, Ref x, int64_t axis, Dim n, double power) {
  x = b.swap_dims(resized(b, x, axis, half_of(b, n)), axis, -1);
  Waves w = waves(b, part_type(x->dtype), half_of(b, n), n, n, power, true);
  Ref out = b.sub(b.matmul(b.real_part(x), w.cos), b.matmul(b.imag_part(x), w.sin));
  return b.swap_dims(out, axis, -1);
}

// ---- the transforms of torch.fft ----------------------------------------------------------------------------------

double power_of(Call& c, Direction direction) {
  std::string norm = c.maybe_text("norm").value_or("backward");
  if (norm == "ortho") return -0.5;
  return (norm == "forward") == (direction == Direction::Forward) ? -1 : 0;
}

enum class Kind { Complex, ToHalf, FromHalf };

struct Transform {
  std::string_view name;
  Kind kind;
  Direction direction;  // of the dimensions but the last, and of the norm
  bool mirrored;        // hfft and ihfft: the half is that of the time, not of the frequencies
};

constexpr Transform transforms[] = {
    {"fft", Kind::Complex, Direction::Forward, false},  {"ifft", Kind::Complex, Direction::Inverse, false},
    {"rfft", Kind::ToHalf, Direction::Forward, false},  {"irfft", Kind::FromHalf, Direction::Inverse, false},
    {"hfft", Kind::FromHalf, Direction::Forward, true}, {"ihfft", Kind::ToHalf, Direction::Inverse, true},
};

/// A number of points that there can be.
Dim points(Call& c, Dim n) {
  if (n.is_constant() && *n.constant() < 1) c.mismatch(fmt::format("a transform of {} points", n.str()));
  return n;
}

Ref complex_of(Builder& b, Ref x) { return b.cast(x, complex_type(x->dtype)); }

// One dimension, the last of several.
Ref last_transform(Call& c, const Transform& f, Ref x, int64_t axis, std::optional<Dim> n, double power) {
  Builder& b = c.onnx;
  if (f.kind == Kind::FromHalf) {
    Dim size = x->shape[static_cast<size_t>(axis)];
    Dim length = n.value_or(b.sym.mul(b.sym.sub(size, b.dim(1)), b.dim(2)));
    x = complex_of(b, x);
    return to_real(b, f.mirrored ? conjugate(b, x) : x, axis, points(c, length), power);
  }
  if (n) x = resized(b, x, axis, points(c, *n));
  if (f.kind == Kind::Complex) return transform(b, x, axis, f.direction, power);
  if (is_complex(x->dtype)) c.mismatch("a real tensor is needed");
  Ref out = transform(b, x, axis, Direction::Forward, power, true);
  return f.mirrored ? conjugate(b, out) : out;
}

Value transformed(Call& c, const Transform& f, const Vector<int64_t>& axes, const Vector<std::optional<Dim>>& sizes) {
  Builder& b = c.onnx;
  Ref x = c.float_tensor("self");
  double power = power_of(c, f.direction);
  auto others = [&] {
    for (size_t i = 0; i + 1 < axes.size(); ++i) {
      if (sizes[i]) x = resized(b, x, axes[i], points(c, *sizes[i]));
      x = transform(b, x, axes[i], f.direction, power);
    }
  };
  if (axes.empty()) return f.kind == Kind::Complex ? complex_of(b, x) : x;
  if (f.kind == Kind::FromHalf) others();
  x = last_transform(c, f, x, axes.back(), sizes.back(), power);
  if (f.kind != Kind::FromHalf) others();
  return x;
}

Value one_dimension(Call& c, const Transform& f) {
  return transformed(c, f, {c.dim("dim", c.tensor("self")->rank())}, {c.maybe_size("n")});
}

Value dimensions(Call& c, const Transform& f) {
  size_t rank = c.tensor("self")->rank();
  Vector<std::optional<Dim>> sizes;
  if (!c.none("s"))
    for (Dim d : c.sizes("s")) sizes.push_back(d.is(-1) ? std::nullopt : std::optional(d));
  Vector<int64_t> axes;
  if (!c.none("dim")) {
    axes = c.dims("dim", rank);
  } else {
    axes.resize(c.none("s") ? rank : sizes.size());
    std::iota(axes.begin(), axes.end(), static_cast<int64_t>(rank - axes.size()));
  }
  if (c.none("s")) sizes.resize(axes.size());
  if (sizes.size() != axes.size()) c.mismatch("s and dim differ in length");
  return transformed(c, f, axes, sizes);
}

// What torch.export has in their place: dimensions in order, the last of them halved.
double plain_power(Call& c) {
  constexpr double powers[] = {0, -0.5, -1};
  int64_t mode = c.integer("normalization");
  if (mode < 0 || mode > 2) c.unsupported(fmt::format("normalization {}", mode));
  return powers[mode];
}

Value complex_to_complex(Call& c) {
  Ref x = c.tensor("self");
  for (int64_t axis : c.dims("dim", x->rank()))
    x = transform(c.onnx, x, axis, c.flag("forward") ? Direction::Forward : Direction::Inverse, plain_power(c));
  return x;
}

Value real_to_complex(Call& c) {
  Ref x = c.tensor("self");
  Vector<int64_t> axes = c.dims("dim", x->rank());
  for (size_t i = axes.size(); i-- > 0;)
    x = transform(c.onnx, x, axes[i], Direction::Forward, plain_power(c), c.flag("onesided") && i + 1 == axes.size());
  return x;
}

Value complex_to_real(Call& c) {
  Ref x = c.tensor("self");
  Vector<int64_t> axes = c.dims("dim", x->rank());
  for (size_t i = 0; i + 1 < axes.size(); ++i) x = transform(c.onnx, x, axes[i], Direction::Inverse, plain_power(c));
  return to_real(c.onnx, x, axes.back(), points(c, c.size("last_dim_size")), plain_power(c));
}

// The frequency 0 goes to the middle, or back to the front.
Value shifted(Call& c, bool back) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  Vector<int64_t> axes(x->rank());
  std::iota(axes.begin(), axes.end(), 0);
  if (!c.none("dim")) axes = c.dims("dim", x->rank());
  for (int64_t axis : axes) {
    Dim n = x->shape[static_cast<size_t>(axis)];
    if (n.is(1)) continue;
    Dim at = b.sym.floor_div(back ? n : b.sym.add(n, b.dim(1)), b.dim(2));
    x = b.concat({b.slice(x, axis, at, n), b.slice(x, axis, b.dim(0), at)}, axis);
  }
  return x;
}

Value frequencies(Call& c, bool half) {
  Builder& b = c.onnx;
  DType t = c.maybe_dtype("dtype").value_or(DType::Float);
  Dim n = c.size("n");
  Ref k = arange(b, half ? half_of(b, n) : n);
  if (!half) {
    Ref middle = b.symbolic(b.sym.floor_div(b.sym.add(n, b.dim(1)), b.dim(2)));
    k = b.where(b.op("Less", {k, middle}), k, b.sub(k, b.symbolic(n)));
  }
  return b.div(b.cast(k, t), b.mul(sized(b, n, t), b.scalar(t, c.real("d"))));
}

// ---- short-time transforms ---------------------------------------------------------------------------------------

struct Frames {
  int64_t size, step;
  Ref window;  // of `size` numbers
  bool center, onesided;
  int64_t bins() const { return onesided ? size / 2 + 1 : size; }
};

Frames frames_of(Call& c, DType t, bool center, bool onesided) {
  Builder& b = c.onnx;
  int64_t size = c.integer("n_fft"), step = c.maybe_integer("hop_length").value_or(size / 4);
  int64_t length = c.maybe_integer("win_length").value_or(size);
  if (size < 1 || step < 1 || length < 1 || length > size) c.mismatch("the window does not fit into a frame");
  Ref window = c.none("window") ? b.reals(t, {length}, known_elements(c.sym, length, 1.0)) : c.tensor("window");
  if (is_complex(window->dtype)) c.unsupported("a complex window");
  int64_t left = (size - length) / 2;
  Vector<std::pair<Dim, Dim>> pads{{b.dim(left), b.dim(size - length - left)}};
  return {size, step, b.pad(b.cast(window, t), pads, "constant"), center, onesided};
}

// Rows of cos and of -sin times the window: what a frame is multiplied by to give its transform.
Ref analysis(Builder& b, const Frames& f) {
  Waves w = waves(b, f.window->dtype, b.dim(f.bins()), b.dim(f.size), b.dim(f.size), 0, false);
  return b.mul(b.concat({w.cos, b.op("Neg", {w.sin})}, 0), f.window);
}

// [batch, bins, frames] of a signal [batch, samples].
Ref short_time(Call& c, const Frames& f, Ref signal) {
  Builder& b = c.onnx;
  bool real = !is_complex(signal->dtype);
  if (real && has_dft(b, b.dim(f.size))) {
    // Written even where it is the default, which the shape inference of onnx takes for 0.
    onnx::Attributes attributes{{"onesided", int64_t{f.onesided}}};
    Ref step = b.scalar_int(DType::Int64, f.step);
    Ref out = b.op("STFT", {b.unsqueeze(signal, {2}), step, f.window}, attributes);
    return b.from_pairs(b.transpose(out, {0, 2, 1, 3}));
  }
  if (real && signal->dtype == DType::Float) {
    Ref kernel = b.unsqueeze(analysis(b, f), {1});
    Ref out = b.op("Conv", {b.unsqueeze(signal, {1}), kernel}, {{"strides", Vector<int64_t>{f.step}}});
    Vector<Dim> halves(2, b.dim(f.bins()));
    Vector<Ref> parts = b.split(out, halves, 1);
    return b.complex(parts[0], parts[1]);
  }
  Value frames = c.call("aten::unfold", {signal, c.number_value(1), c.number_value(f.size), c.number_value(f.step)});
  Ref windowed = b.mul(c.as_tensor(frames), f.window);
  return b.swap_dims(transform(b, windowed, 2, Direction::Forward, 0, f.onesided), 1, 2);
}

Value stft(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  bool batched = x->rank() == 2, real = !is_complex(x->dtype);
  if (!batched) x = b.unsqueeze(x, {0});
  if (x->rank() != 2) c.mismatch("a signal has one dimension, or two with its batch");
  if (c.schema.argument("align_to_window") && !c.none("align_to_window") && c.flag("align_to_window"))
    c.unsupported("align_to_window");
  bool center = c.schema.argument("center") && c.flag("center");
  bool onesided = c.none("onesided") ? real : c.flag("onesided");
  Frames f = frames_of(c, part_type(x->dtype), center, onesided);
  if (c.flag("normalized")) f.window = b.mul(f.window, scale_of(b, b.dim(f.size), -0.5, f.window->dtype));
  if (center) {
    Vector<std::pair<Dim, Dim>> pads{{b.dim(0), b.dim(0)}, {b.dim(f.size / 2), b.dim(f.size / 2)}};
    std::string mode = c.text("pad_mode");
    x = b.pad(x, pads, mode == "replicate" ? "edge" : mode);
  }
  Ref out = short_time(c, f, x);
  if (!batched) out = b.squeeze(out, {0});
  bool complex = !c.none("return_complex") && c.flag("return_complex");
  return complex ? out : b.pairs(out);
}

// The sum of the windows, squared, that cover each sample.
Ref envelope(Builder& b, const Frames& f, Dim count) {
  Ref squared = b.reshape(b.mul(f.window, f.window), {b.dim(1), b.dim(1), b.dim(f.size)});
  Ref ones = b.full({b.dim(1), b.dim(1), count}, b.scalar(f.window->dtype, 1));
  return b.op("ConvTranspose", {ones, squared}, {{"strides", Vector<int64_t>{f.step}}});
}

Value istft(Call& c) {
  Builder& b = c.onnx;
  Ref x = complex_of(b, c.tensor("self"));
  bool batched = x->rank() == 3;
  if (!batched) x = b.unsqueeze(x, {0});
  if (x->rank() != 3) c.mismatch("frequencies and frames are needed");
  if (x->dtype != DType::ComplexFloat) c.unsupported("numbers other than complex64");
  if (c.flag("return_complex")) c.unsupported("a complex signal");
  Dim count = x->shape[2];
  Frames f = frames_of(c, DType::Float, c.flag("center"), true);
  bool onesided = c.none("onesided") ? !x->shape[1].is(f.size) || f.size == 1 : c.flag("onesided");
  // The second half of the frequencies of a real signal is redundant.
  if (!onesided) x = b.slice(x, 1, b.dim(0), b.dim(f.bins()));
  Waves w =
      waves(b, DType::Float, b.dim(f.bins()), b.dim(f.size), b.dim(f.size), c.flag("normalized") ? -0.5 : -1, true);
  Ref kernel = b.unsqueeze(b.mul(b.concat({w.cos, b.op("Neg", {w.sin})}, 0), f.window), {1});
  Ref parts = b.concat({b.real_part(x), b.imag_part(x)}, 1);
  Ref sum = b.op("ConvTranspose", {parts, kernel}, {{"strides", Vector<int64_t>{f.step}}});
  Ref out = b.squeeze(sum, {1}), cover = b.squeeze(envelope(b, f, count), {1});
  Dim total = out->shape[1], start = b.dim(f.center ? f.size / 2 : 0), end = b.sym.sub(total, start);
  if (std::optional<Dim> length = c.maybe_size("length")) {
    end = b.sym.min(b.sym.add(start, *length), total);
    out = b.div(b.slice(out, 1, start, end), b.slice(cover, 1, start, end));
    out = resized(b, out, 1, *length);
  } else {
    out = b.div(b.slice(out, 1, start, end), b.slice(cover, 1, start, end));
  }
  return batched ? out : b.squeeze(out, {0});
}

}  // namespace

void register_fft(eval::Registry& ops) {
  for (const Transform& f : transforms) {
    ops.add(fmt::format("aten::fft_{}(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor", f.name),
            [f](Call& c) { return one_dimension(c, f); })
        .numbers({{"n", Role::Position, "dim"}});
    ops.add(fmt::format("aten::fft_{}2(Tensor self, int[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
                        f.name),
            [f](Call& c) { return dimensions(c, f); });
    ops.add(
        fmt::format("aten::fft_{}n(Tensor self, int[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", f.name),
        [f](Call& c) { return dimensions(c, f); });
    for (std::string_view end : {"", "2", "n"}) ops.allow_complex({fmt::format("aten::fft_{}{}", f.name, end)});
  }
  ops.add("aten::_fft_c2c(Tensor self, int[] dim, int normalization, bool forward) -> Tensor", complex_to_complex);
  ops.add("aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", real_to_complex);
  ops.add("aten::_fft_c2r(Tensor self, int[] dim, int normalization, int last_dim_size) -> Tensor", complex_to_real);
  for (bool back : {false, true})
    ops.add(fmt::format("aten::fft_{}fftshift(Tensor self, int[1]? dim=None) -> Tensor", back ? "i" : ""),
            [back](Call& c) { return shifted(c, back); });
  for (bool half : {false, true})
    ops.add(fmt::format("aten::fft_{}fftfreq(int n, float d=1.0, *, ScalarType? dtype=None, Layout? layout=None, "
                        "Device? device=None, bool? pin_memory=None) -> Tensor",
                        half ? "r" : ""),
            [half](Call& c) { return frequencies(c, half); });
  ops.add(
      "aten::stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool "
      "normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
      stft);
  ops.add(
      "aten::stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool "
      "center=True, str pad_mode='reflect', bool normalized=False, bool? onesided=None, bool? return_complex=None, "
      "bool? align_to_window=None) -> Tensor",
      stft);
  ops.add(
      "aten::istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool "
      "center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor",
      istft);
  ops.allow_complex(
      {"aten::_fft_c2c", "aten::_fft_c2r", "aten::fft_fftshift", "aten::fft_ifftshift", "aten::stft", "aten::istft"});
}

}  // namespace lithify::ops
