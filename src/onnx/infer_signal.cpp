// Operators of signal processing.
#include <fmt/format.h>

#include "onnx/infer.hpp"

namespace lithify::onnx {
namespace {

using namespace infer;

/// floor(n/2) + 1: the frequencies that a real signal of n samples has.
Dim one_sided(Inference& f, Dim n) { return f.sym.add(f.sym.floor_div(n, f.sym.constant(2)), f.sym.constant(1)); }

/// The axis is an attribute in opset 17 and an input from opset 20.
void dft(Inference& f) {
  Shape r = f.in(0).shape;
  require_rank(f, 0, 2);
  int64_t axis = f.opset < 20 ? f.integer("axis", 1) : -2;
  if (f.has(2)) {
    const auto given = f.contents(2).at(0).constant();
    if (!given) f.fail("the axis must be a number");
    axis = *given;
  }
  if (axis < 0) axis += static_cast<int64_t>(r.size());
  if (axis < 0 || axis >= static_cast<int64_t>(r.size())) f.fail(fmt::format("there is no axis {}", axis));
  Dim& n = r[static_cast<size_t>(axis)];
  const bool half = f.integer("onesided", 0) != 0, inverse = f.integer("inverse", 0) != 0;
  // The inverse of a one-sided transform is a real signal.
  if (half && inverse) n = f.sym.mul(f.sym.sub(n, f.sym.constant(1)), f.sym.constant(2));
  if (f.has(1)) n = size_from(f, 1, "frequencies");
  if (half && !inverse) n = one_sided(f, n);
  r.back() = f.sym.constant(half && inverse ? 1 : 2);
  f.set(0, f.in(0).dtype, std::move(r));
}

void stft(Inference& f) {
  require_rank(f, 0, 2);
  const Shape& signal = f.in(0).shape;
  const Dim step = size_from(f, 1, "step");
  const Dim length = f.has(3) ? size_from(f, 3, "frame") : f.has(2) ? f.in(2).shape.at(0) : signal[1];
  const Dim frames = f.sym.add(f.sym.floor_div(f.sym.sub(signal[1], length), step), f.sym.constant(1));
  const Dim bins = f.integer("onesided", 1) != 0 ? one_sided(f, length) : length;
  f.set(0, f.in(0).dtype, {signal[0], frames, bins, f.sym.constant(2)});
}

void sampled_window(Inference& f) {
  f.set(0, dtype_attribute(f, "output_datatype", DType::Float), {size_from(f, 0, "window")});
}

void mel_weights(Inference& f) {
  f.set(0, dtype_attribute(f, "output_datatype", DType::Float),
        {one_sided(f, size_from(f, 1, "dft_length")), size_from(f, 0, "mel_bins")});
}

constexpr OpDef signal_table[] = {
    {"BlackmanWindow", 17, sampled_window}, {"DFT", 17, dft},
    {"HammingWindow", 17, sampled_window},  {"HannWindow", 17, sampled_window},
    {"MelWeightMatrix", 17, mel_weights},   {"STFT", 17, stft},
};

}  // namespace

std::span<const OpDef> signal_ops() { return signal_table; }

}  // namespace lithify::onnx
