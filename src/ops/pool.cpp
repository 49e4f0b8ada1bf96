// Pooling: over windows, and to a given size.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "ops/elementwise.hpp"
#include "ops/register.hpp"
#include "ops/window.hpp"
#include "sym/contradiction.hpp"

namespace lithify::ops {
namespace {

using eval::Registry;

using Ints = Vector<int64_t>;

// The last letters of an operator's name are the number of dimensions it pools over: max_pool2d.
size_t dims_of(const Call& c) {
  for (char d : {'1', '2', '3'})
    if (c.schema.name.find(std::string(1, d) + "d") != std::string::npos) return static_cast<size_t>(d - '0');
  c.unsupported("an operator of unknown rank");
}

struct Window {
  Ints kernel, stride, padding, dilation;
  bool ceil = false;
  onnx::Attributes attributes() const {
    onnx::Attributes a;
    if (ceil) a.push_back({"ceil_mode", int64_t{1}});
    if (std::any_of(dilation.begin(), dilation.end(), [](int64_t d) { return d != 1; }))
      a.push_back({"dilations", dilation});
    a.push_back({"kernel_shape", kernel});
    Ints pads = padding;
    pads.insert(pads.end(), padding.begin(), padding.end());
    if (std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; })) a.push_back({"pads", pads});
    a.push_back({"strides", stride});
    return a;
  }
};

Window window_of(Call& c, size_t dims) {
  Window w;
  w.kernel = spread(c.integers("kernel_size"), dims);
  w.stride = spread(c.integers("stride"), dims);
  if (w.stride.empty()) w.stride = w.kernel;
  w.padding = spread(c.integers("padding"), dims);
  w.dilation = c.schema.argument("dilation") ? spread(c.integers("dilation"), dims) : Ints(dims, 1);
  w.ceil = c.flag("ceil_mode");
  return w;
}

// PyTorch's size of a pooled dimension; with ceil_mode the last window must start inside the input or its left padding.
Dim pooled_size(sym::Context& sym, Dim in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation, bool ceil) {
  auto k = [&](int64_t v) { return sym.constant(v); };
  Dim span = sym.add(in, k(2 * pad - dilation * (kernel - 1) - 1));
  if (!ceil) return sym.add(sym.floor_div(span, k(stride)), k(1));
  Dim out = sym.add(sym.ceil_div(span, k(stride)), k(1));
  // (out - 1) * stride >= in + pad: one window less. That is the number of starts below in + pad.
  return sym.min(out, sym.ceil_div(sym.add(in, k(pad)), k(stride)));
}

// Whether ceil_mode adds a window at some size.
bool ceil_matters(onnx::Builder& b, onnx::Value* x, const Window& w) {
  size_t lead = x->rank() - w.kernel.size();
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    auto size = [&](bool ceil) {
      return pooled_size(b.sym, x->shape[lead + i], w.kernel[i], w.stride[i], w.padding[i], w.dilation[i], ceil);
    };
    if (b.sym.equal(size(true), size(false)) != true) return true;
  }
  return false;
}

// ONNX and PyTorch agree on the size that ceil_mode gives only where the last window starts inside. Where that is not
// so, the input is padded at the end and pooled without ceil_mode.
bool ceil_agrees(onnx::Builder& b, onnx::Value* x, const Window& w) {
  size_t lead = x->rank() - w.kernel.size();
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    Dim in = x->shape[lead + i], span = b.sym.add(in, b.dim(2 * w.padding[i] - w.dilation[i] * (w.kernel[i] - 1) - 1));
    Dim plain = b.sym.add(b.sym.ceil_div(span, b.dim(w.stride[i])), b.dim(1));
    if (b.sym.equal(plain, pooled_size(b.sym, in, w.kernel[i], w.stride[i], w.padding[i], w.dilation[i], true)) != true)
      return false;
  }
  return true;
}

// The elements that must follow each dimension for its last, cut off windows to be whole.
Vector<Dim> missing_at_end(onnx::Builder& b, onnx::Value* x, const Window& w) {
  size_t lead = x->rank() - w.kernel.size();
  Vector<Dim> out;
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    Dim in = x->shape[lead + i];
    Dim windows = pooled_size(b.sym, in, w.kernel[i], w.stride[i], w.padding[i], w.dilation[i], true);
    Dim needed = b.sym.add(b.sym.mul(b.sym.sub(windows, b.dim(1)), b.dim(w.stride[i])),
                           b.dim(w.dilation[i] * (w.kernel[i] - 1) + 1));
    out.push_back(b.sym.max(b.dim(0), b.sym.sub(needed, b.sym.add(in, b.dim(2 * w.padding[i])))));
  }
  return out;
}

onnx::Value* padded(onnx::Builder& b, onnx::Value* x, const Ints& begin, const Vector<Dim>& end, double fill) {
  Vector<std::pair<Dim, Dim>> pads(x->rank() - begin.size(), {b.dim(0), b.dim(0)});
  for (size_t i = 0; i < begin.size(); ++i) pads.emplace_back(b.dim(begin[i]), end[i]);
  return b.pad(x, pads, "constant", b.scalar(x->dtype, fill));
}

double lowest(DType t) { return is_float(t) ? -infinity : t == DType::Int8 ? -128 : 0; }

// ONNX counts positions over the whole tensor, PyTorch over one plane. `x` is what was pooled: the plane with `begin`
// elements before each dimension, of `sizes`.
onnx::Value* plane_indices(onnx::Builder& b, onnx::Value* indices, onnx::Value* x, const Ints& begin,
                           const Shape& sizes) {
  size_t dims = sizes.size(), lead = x->rank() - dims;
  Shape plane(x->shape.begin() + static_cast<std::ptrdiff_t>(lead), x->shape.end());
  if (plane == sizes) return b.op("Mod", {indices, b.symbolic(b.numel(plane))});
  onnx::Value* out = nullptr;
  Dim step = b.dim(1);
  for (size_t i = dims; i-- > 0;) {
    onnx::Value* at = b.sub(b.op("Mod", {indices, b.symbolic(plane[i])}), b.scalar_int(DType::Int64, begin[i]));
    if (i > 0) indices = b.div(indices, b.symbolic(plane[i]));
    at = b.mul(at, b.symbolic(step));
    out = out ? b.add(out, at) : at;
    step = b.sym.mul(step, sizes[i]);
  }
  return out;
}

// Whether the window is dynamic: then it can only be all of the input, which is checked.
bool takes_in_everything(Call& c, size_t dims) {
  Vector<Dim> kernel = c.sizes("kernel_size");
  if (std::all_of(kernel.begin(), kernel.end(), [](Dim d) { return d.is_constant(); })) return false;
  const Shape& shape = c.tensor("self")->shape;
  kernel.resize(dims, kernel[0]);
  for (size_t i = 0; i < dims; ++i) {
    if (Dim size = shape[shape.size() - dims + i]; kernel[i] != size) {
      throw sym::Contradiction({size, kernel[i]},
                               fmt::format("{}: a window of {} in a dimension of {} is known only at run time",
                                           c.schema.full_name(), kernel[i].str(), size.str()));
    }
  }
  for (Dim d : c.sizes("padding"))
    if (!d.is(0)) c.unsupported("a window with padding whose size is known only at run time");
  return true;
}

onnx::Value* pooled_whole(Call& c, size_t dims, std::string_view reduction) {
  onnx::Value* x = c.tensor("self");
  Vector<int64_t> axes(dims);
  std::iota(axes.begin(), axes.end(), static_cast<int64_t>(x->rank() - dims));
  return c.onnx.reduce(reduction, x, axes, true);
}

// The maxima and, if asked for, their positions.
Vector<onnx::Value*> max_pool(Call& c, bool indices) {
  size_t dims = dims_of(c);
  if (!indices && takes_in_everything(c, dims)) return {pooled_whole(c, dims, "ReduceMax")};
  Window given = window_of(c, dims);
  onnx::Builder& b = c.onnx;
  onnx::Value* input = c.tensor("self");
  DType type = input->dtype;
  // Kernels exist for floats and bytes; other integers are exact in float64.
  if (!is_float(type) && type != DType::Int8 && type != DType::UInt8) input = b.cast(input, DType::Double);
  if (input->dtype == DType::BFloat16) input = b.cast(input, DType::Float);
  auto out = batched(b, input, dims, [&](onnx::Value* x) {
    Window w = given;
    Shape sizes(x->shape.end() - static_cast<std::ptrdiff_t>(dims), x->shape.end());
    Ints begin(dims, 0);
    if (w.ceil) w.ceil = ceil_matters(b, x, w);
    if (w.ceil && !ceil_agrees(b, x, w)) {
      Vector<Dim> end = missing_at_end(b, x, w);
      for (size_t i = 0; i < dims; ++i) end[i] = b.sym.add(end[i], b.dim(w.padding[i]));
      x = padded(b, x, w.padding, end, lowest(x->dtype));
      std::swap(begin, w.padding);
      w.ceil = false;
    }
    onnx::Attributes attributes = w.attributes();
    // ONNX Runtime merges a Pad into the pads of a MaxPool, which are no zeros; but not if it has auto_pad.
    const bool unpadded = std::ranges::all_of(w.padding, [](int64_t p) { return p == 0; });
    if (x->producer && x->producer->op_type == "Pad" && unpadded && !w.ceil)
      attributes.push_back({"auto_pad", std::string("VALID")});
    Vector<onnx::Value*> both = b.op_n("MaxPool", {x}, attributes, indices ? 2 : 1);
    if (indices) both[1] = plane_indices(b, both[1], x, begin, sizes);
    return both;
  });
  out[0] = b.cast(out[0], type);
  return out;
}

Value avg_pool(Call& c) {
  size_t dims = dims_of(c);
  if (takes_in_everything(c, dims)) {
    if (c.schema.argument("divisor_override") && !c.none("divisor_override"))
      c.unsupported("a divisor with this window");
    return pooled_whole(c, dims, "ReduceMean");
  }
  Window w = window_of(c, dims);
  onnx::Builder& b = c.onnx;
  bool include = c.flag("count_include_pad");
  std::optional<int64_t> divisor =
      c.schema.argument("divisor_override") ? c.maybe_integer("divisor_override") : std::nullopt;
  onnx::Value* input = c.tensor("self");
  auto average = [&](onnx::Value* x, const Window& window, bool count_pads) {
    onnx::Attributes a = window.attributes();
    if (count_pads) a.insert(a.begin() + (window.ceil ? 1 : 0), {"count_include_pad", int64_t{1}});
    return b.op("AveragePool", {x}, a);
  };
  return batched(b, input, dims, [&](onnx::Value* x) -> Vector<onnx::Value*> {
    double volume = 1;
    for (int64_t k : w.kernel) volume *= static_cast<double>(k);
    bool pads = std::any_of(w.padding.begin(), w.padding.end(), [](int64_t p) { return p != 0; });
    if (w.ceil) w.ceil = ceil_matters(b, x, w);
    bool whole_numbers = !is_float(x->dtype);
    if (!divisor && !w.ceil && !whole_numbers) return {average(x, w, include && pads)};
    // Sums over whole windows of zero-padded elements, divided by what PyTorch counts in each.
    Vector<Dim> end = w.ceil ? missing_at_end(b, x, w) : Vector<Dim>(dims, b.dim(0));
    auto sums = [&](onnx::Value* v, const Ints& begin, const Vector<Dim>& ends) {
      v = padded(b, v, begin, ends, 0);
      if (whole_numbers) {
        Ints axes(dims);
        std::iota(axes.begin(), axes.end(), 2);
        return b.reduce("ReduceSum", windows(b, v, {w.kernel, w.stride, w.dilation}), axes, false);
      }
      Window whole = w;
      whole.padding.assign(dims, 0);
      whole.ceil = false;
      return b.mul(average(v, whole, false), b.scalar(v->dtype, volume));
    };
    Vector<Dim> both = end;
    for (size_t i = 0; i < dims; ++i) both[i] = b.sym.add(both[i], b.dim(w.padding[i]));
    onnx::Value* total = sums(x, w.padding, both);
    if (divisor) return {b.div(total, b.scalar(x->dtype, static_cast<double>(*divisor)))};
    // Elements that are counted: of the input, and of the padding if it counts; never those past the padding.
    Shape counted{b.dim(1), b.dim(1)};
    for (size_t i = 0; i < dims; ++i)
      counted.push_back(include ? b.sym.add(x->shape[x->rank() - dims + i], b.dim(2 * w.padding[i]))
                                : x->shape[x->rank() - dims + i]);
    onnx::Value* ones = b.full(counted, b.scalar(x->dtype, 1.0));
    onnx::Value* count = include ? sums(ones, Ints(dims, 0), end) : sums(ones, w.padding, both);
    return {b.div(total, count)};
  })[0];
}

// The windows of an adaptive pooling of one dimension: output i takes the elements from start to before end.
struct Windows {
  onnx::Value *start, *end;  // [out, 1]
};

Windows adaptive_windows(onnx::Builder& b, Dim in, Dim out) {
  onnx::Value *rows = b.unsqueeze(arange(b, out), {1}), *size = b.symbolic(in), *count = b.symbolic(out);
  onnx::Value* scaled = b.mul(rows, size);
  return {b.div(scaled, count), b.div(b.add(scaled, b.symbolic(b.sym.sub(b.sym.add(in, out), b.dim(1)))), count)};
}

// [out, in]: 1/n where the element is one of the n that the output averages.
onnx::Value* averaging_matrix(onnx::Builder& b, DType t, Dim in, Dim out) {
  Windows w = adaptive_windows(b, in, out);
  onnx::Value* columns = arange(b, in);
  onnx::Value* inside = b.op("And", {b.op("Not", {b.op("Less", {columns, w.start})}), b.op("Less", {columns, w.end})});
  return b.div(b.cast(inside, t), b.cast(b.sub(w.end, w.start), t));
}

// [out, width]: the positions that each output looks at; in a window that is less wide the last one repeats.
onnx::Value* window_positions(onnx::Builder& b, Dim in, Dim out) {
  Windows w = adaptive_windows(b, in, out);
  Dim width = b.sym.add(b.sym.ceil_div(in, out), b.dim(1));
  onnx::Value* last = b.sub(w.end, b.scalar_int(DType::Int64, 1));
  return minimum(b, b.add(w.start, arange(b, width)), last);
}

// Whether every window of an adaptive pooling has the same size: then it is a plain pooling.
std::optional<Window> regular_window(const Shape& in, const Vector<Dim>& out) {
  Window w;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!in[i].is_constant() || !out[i].is_constant() || *out[i].constant() == 0 ||
        *in[i].constant() % *out[i].constant() != 0)
      return std::nullopt;
    w.kernel.push_back(*in[i].constant() / *out[i].constant());
  }
  w.stride = w.kernel;
  w.padding.assign(out.size(), 0);
  w.dilation.assign(out.size(), 1);
  return w;
}

// The output sizes asked for; None keeps a size.
Vector<Dim> adaptive_sizes(Call& c, const Shape& in) {
  const Value& v = c.arg("output_size");
  Vector<Dim> out;
  if (!v.is_list() && !v.is<eval::Tuple>()) return Vector<Dim>(in.size(), c.size("output_size"));
  for (size_t i = 0; i < v.items().size(); ++i) out.push_back(v.items()[i].is_none() ? in[i] : v.items()[i].integer());
  if (out.size() == 1) out.resize(in.size(), out[0]);
  if (out.size() != in.size()) c.mismatch(fmt::format("{} sizes for {} dimensions", out.size(), in.size()));
  return out;
}

bool all_ones(const Vector<Dim>& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](Dim d) { return d.is(1); });
}

Value adaptive_avg_pool(Call& c) {
  size_t dims = dims_of(c);
  onnx::Builder& b = c.onnx;
  return batched(b, c.tensor("self"), dims, [&](onnx::Value* x) -> Vector<onnx::Value*> {
    Shape in(x->shape.end() - static_cast<std::ptrdiff_t>(dims), x->shape.end());
    Vector<Dim> out = adaptive_sizes(c, in);
    if (all_ones(out)) {
      // ONNX Runtime has no GlobalAveragePool of float64.
      if (x->dtype != DType::Double) return {b.op("GlobalAveragePool", {x})};
      Ints axes(dims);
      std::iota(axes.begin(), axes.end(), static_cast<int64_t>(x->rank() - dims));
      return {b.reduce("ReduceMean", x, axes, true)};
    }
    if (in == out) return {x};
    if (auto w = regular_window(in, out)) return {b.op("AveragePool", {x}, w->attributes())};
    // One dimension after the other, each by a matrix.
    for (size_t i = 0; i < dims; ++i) {
      if (in[i] == out[i]) continue;
      int64_t axis = static_cast<int64_t>(x->rank() - dims + i), last = static_cast<int64_t>(x->rank()) - 1;
      onnx::Value* matrix = averaging_matrix(b, x->dtype, in[i], out[i]);
      if (axis == last) {
        x = b.matmul(x, b.swap_dims(matrix, 0, 1));
      } else if (axis == last - 1) {
        x = b.matmul(matrix, x);
      } else {
        x = b.swap_dims(b.matmul(b.swap_dims(x, axis, last), b.swap_dims(matrix, 0, 1)), axis, last);
      }
    }
    return {x};
  })[0];
}

Value adaptive_max_pool(Call& c) {
  size_t dims = dims_of(c);
  onnx::Builder& b = c.onnx;
  auto out = batched(b, c.tensor("self"), dims, [&](onnx::Value* x) -> Vector<onnx::Value*> {
    Shape in(x->shape.end() - static_cast<std::ptrdiff_t>(dims), x->shape.end());
    Vector<Dim> sizes = adaptive_sizes(c, in);
    if (auto w = regular_window(in, sizes)) {
      Vector<onnx::Value*> both = b.op_n("MaxPool", {x}, w->attributes(), 2);
      return {both[0], plane_indices(b, both[1], x, Ints(dims, 0), in)};
    }
    if (all_ones(sizes)) {
      Shape flat(x->shape.begin(), x->shape.begin() + 2), result = flat;
      flat.push_back(b.numel(in));
      result.resize(x->rank(), b.dim(1));
      onnx::Value* rows = b.reshape(x, flat);
      return {b.op("GlobalMaxPool", {x}), b.reshape(b.op("ArgMax", {rows}, {{"axis", int64_t{2}}}), result)};
    }
    // One dimension after the other, from the last, so that the first of equal elements wins.
    Shape plane(x->rank(), b.dim(1));
    std::copy(in.begin(), in.end(), plane.end() - static_cast<std::ptrdiff_t>(dims));
    onnx::Value* at = b.expand(b.reshape(arange(b, b.numel(in)), plane), x->shape);
    for (size_t i = dims; i-- > 0;) {
      if (in[i] == sizes[i]) continue;
      int64_t axis = static_cast<int64_t>(x->rank() - dims + i);
      onnx::Value* positions = window_positions(b, in[i], sizes[i]);
      onnx::Value* windows = b.gather(x, positions, axis);
      onnx::Value* which = b.op("ArgMax", {windows}, {{"axis", axis + 1}});
      at = b.op("GatherElements", {b.gather(at, positions, axis), which}, {{"axis", axis + 1}});
      at = b.squeeze(at, {axis + 1});
      x = b.reduce("ReduceMax", windows, {axis + 1}, false);
    }
    return {x, at};
  });
  return Value::tuple({out[0], out[1]});
}

// ---- back to where the maxima came from ---------------------------------------------------------------------------

// Each plane of the last dimensions in one.
onnx::Value* flat_planes(onnx::Builder& b, onnx::Value* x, size_t dims) {
  Shape to(x->shape.begin(), x->shape.end() - static_cast<std::ptrdiff_t>(dims));
  to.push_back(b.numel(Shape(x->shape.end() - static_cast<std::ptrdiff_t>(dims), x->shape.end())));
  return b.reshape(x, to);
}

// `values` at the positions `at` in planes of zeros of these sizes: the last of several that go to one, or their sum.
Value put_in_planes(Call& c, onnx::Value* values, onnx::Value* at, const Vector<Dim>& sizes, bool sum) {
  onnx::Builder& b = c.onnx;
  Shape out(values->shape.begin(), values->shape.end() - static_cast<std::ptrdiff_t>(sizes.size())), planes = out;
  planes.push_back(b.numel(sizes));
  out.insert(out.end(), sizes.begin(), sizes.end());
  onnx::Value* zeros = b.full(planes, b.scalar(values->dtype, 0));
  Value filled = c.call(sum ? "aten::scatter_add" : "aten::scatter",
                        {zeros, c.number_value(static_cast<int64_t>(planes.size()) - 1),
                         flat_planes(b, at, sizes.size()), flat_planes(b, values, sizes.size())});
  return b.reshape(c.as_tensor(filled), out);
}

Value max_unpool(Call& c) {
  return put_in_planes(c, c.tensor("self"), c.tensor("indices"), c.sizes("output_size"), false);
}

Value max_pool_backward(Call& c) {
  const Shape& shape = c.tensor("self")->shape;
  Vector<Dim> sizes(shape.end() - static_cast<std::ptrdiff_t>(dims_of(c)), shape.end());
  return put_in_planes(c, c.tensor("grad_output"), c.tensor("indices"), sizes, true);
}

// ---- windows at random places ------------------------------------------------------------------------------------

// [.., out, kernel]: the positions in each window of one dimension, from a random number for each plane.
onnx::Value* fractional_positions(onnx::Builder& b, onnx::Value* sample, Dim in, int64_t out, int64_t kernel) {
  int64_t axis = static_cast<int64_t>(sample->rank());
  Dim room = b.sym.sub(in, b.dim(kernel));
  onnx::Value *starts = nullptr, *last = b.symbolic(room);
  auto whole = [&](onnx::Value* v) { return b.cast(v, DType::Int64); };
  if (out > 1) {
    onnx::Value* step = b.div(b.cast(last, sample->dtype), b.scalar(sample->dtype, static_cast<double>(out - 1)));
    onnx::Value *each = b.unsqueeze(sample, {axis}), *windows = arange(b, b.dim(out));
    starts = b.sub(whole(b.mul(b.add(b.cast(windows, sample->dtype), each), step)), whole(b.mul(each, step)));
    starts = b.where(b.op("Equal", {windows, b.scalar_int(DType::Int64, out - 1)}), last, starts);
  } else {
    Shape one = sample->shape;
    one.push_back(b.dim(out));
    starts = b.full(one, last);
  }
  return b.add(b.unsqueeze(starts, {axis + 1}), arange(b, b.dim(kernel)));
}

Value fractional_max_pool(Call& c) {
  onnx::Builder& b = c.onnx;
  size_t dims = dims_of(c);
  Ints kernel = spread(c.integers("kernel_size"), dims), out = spread(c.integers("output_size"), dims);
  onnx::Value* samples = c.tensor("random_samples");
  Vector<onnx::Value*> both = batched(b, c.tensor("self"), dims, [&](onnx::Value* x) -> Vector<onnx::Value*> {
    // [batch, channels, out..., kernel...]: where each element of each window is in its plane.
    onnx::Value* at = nullptr;
    for (size_t i = 0; i < dims; ++i) {
      // In two dimensions the first number is for the columns.
      int64_t which = static_cast<int64_t>(dims == 2 ? 1 - i : i);
      Dim in = x->shape[2 + i];
      onnx::Value* positions = fractional_positions(b, b.select(samples, 2, b.dim(which)), in, out[i], kernel[i]);
      Shape wide(positions->shape.begin(), positions->shape.begin() + 2);
      wide.resize(2 + 2 * dims, b.dim(1));
      wide[2 + i] = b.dim(out[i]);
      wide[2 + dims + i] = b.dim(kernel[i]);
      positions = b.reshape(positions, wide);
      at = at ? b.add(b.mul(at, b.symbolic(in)), positions) : positions;
    }
    Shape pooled(x->shape.begin(), x->shape.begin() + 2), windows = pooled;
    for (int64_t n : out) pooled.push_back(b.dim(n));
    int64_t count = std::accumulate(out.begin(), out.end(), int64_t{1}, std::multiplies<>());
    windows.push_back(b.dim(count));
    windows.push_back(b.dim(std::accumulate(kernel.begin(), kernel.end(), int64_t{1}, std::multiplies<>())));
    onnx::Value* elements =
        b.op("GatherElements", {flat_planes(b, x, dims), flat_planes(b, at, 2 * dims)}, {{"axis", int64_t{2}}});
    elements = b.reshape(elements, windows);
    onnx::Value* best = b.op("ArgMax", {elements}, {{"axis", int64_t{3}}});
    onnx::Value* from = b.op("GatherElements", {b.reshape(at, windows), best}, {{"axis", int64_t{3}}});
    return {b.reshape(b.reduce("ReduceMax", elements, {3}, false), pooled), b.reshape(from, pooled)};
  });
  return Value::tuple({both[0], both[1]});
}

}  // namespace

void register_pool(Registry& ops) {
  for (int dims : {1, 2, 3}) {
    std::string window =
        fmt::format("(Tensor self, int[{0}] kernel_size, int[{0}] stride=[], int[{0}] padding=0", dims);
    std::string max = fmt::format("{}, int[{}] dilation=1, bool ceil_mode=False)", window, dims);
    ops.add(fmt::format("aten::max_pool{}d{} -> Tensor", dims, max),
            [](Call& c) -> Value { return max_pool(c, false)[0]; });
    ops.add(fmt::format("aten::max_pool{}d_with_indices{} -> (Tensor, Tensor)", dims, max), [](Call& c) -> Value {
      Vector<onnx::Value*> out = max_pool(c, true);
      return Value::tuple({out[0], out[1]});
    });
    if (dims > 1) {
      std::string stride = dims == 3 ? ", int[3] stride, int[3] padding" : "";
      ops.add(fmt::format("aten::max_unpool{0}d(Tensor self, Tensor indices, int[{0}] output_size{1}) -> Tensor", dims,
                          stride),
              max_unpool);
      ops.add(fmt::format("aten::max_pool{0}d_with_indices_backward(Tensor grad_output, Tensor self, int[{0}] "
                          "kernel_size, int[{0}] stride, int[{0}] padding, int[{0}] dilation, bool ceil_mode, Tensor "
                          "indices) -> Tensor",
                          dims),
              max_pool_backward);
      ops.add(fmt::format("aten::fractional_max_pool{0}d(Tensor self, int[{0}] kernel_size, int[{0}] output_size, "
                          "Tensor random_samples) -> (Tensor, Tensor)",
                          dims),
              fractional_max_pool);
    }
    std::string divisor = dims == 1 ? "" : ", int? divisor_override=None";
    ops.add(fmt::format("aten::avg_pool{}d{}, bool ceil_mode=False, bool count_include_pad=True{}) -> Tensor", dims,
                        window, divisor),
            avg_pool);
    ops.add(fmt::format("aten::adaptive_avg_pool{0}d(Tensor self, int?[{0}] output_size) -> Tensor", dims),
            adaptive_avg_pool);
    ops.add(fmt::format("aten::adaptive_max_pool{0}d(Tensor self, int?[{0}] output_size) -> (Tensor, Tensor)", dims),
            adaptive_max_pool);
    if (dims > 1)
      ops.add(fmt::format("aten::_adaptive_avg_pool{0}d(Tensor self, int[{0}] output_size) -> Tensor", dims),
              adaptive_avg_pool);
  }
}

}  // namespace lithify::ops
