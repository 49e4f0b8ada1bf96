#include <algorithm>
#include <array>
#include <numeric>

#include "base/checked.hpp"
#include "onnx/folding.hpp"

namespace lithify::onnx::folding {
namespace {

using Picked = std::optional<Vector<int64_t>>;

Sizes sizes_of(const Value& v) { return numbers(v.shape).value(); }

size_t at(int64_t i) { return static_cast<size_t>(i); }

/// An index that may count from the end, made one that does not; empty when it is outside.
std::optional<int64_t> wrapped(int64_t index, int64_t size) {
  if (index < -size || index >= size) return std::nullopt;
  return index < 0 ? index + size : index;
}

/// Row-major sizes as [outer, axis, inner].
struct Around {
  int64_t outer = 1, size = 1, inner = 1;
  Around(const Sizes& s, int64_t axis) : size(s[at(axis)]) {
    for (int64_t i = 0; i < axis; ++i) outer *= s[at(i)];
    for (size_t i = at(axis) + 1; i < s.size(); ++i) inner *= s[i];
  }
};

Picked in_order(Inference& f) {
  Vector<int64_t> r(at(numel(result_sizes(f))));
  std::iota(r.begin(), r.end(), 0);
  return r;
}

Picked transpose(Inference& f) {
  const Sizes from = sizes_of(f.in(0)), strides = row_major_strides(from);
  auto perm = f.integers("perm");
  if (perm.empty())
    for (size_t i = from.size(); i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  Sizes moved;
  for (int64_t p : perm) moved.push_back(strides[at(p)]);
  return strided(result_sizes(f), moved);
}

Picked slice(Inference& f) {
  const Sizes from = sizes_of(f.in(0));
  Sizes strides = row_major_strides(from);
  auto bounds = [&](size_t input, std::string_view attribute) -> std::optional<Vector<int64_t>> {
    if (f.has(input)) return integers(f.in(input));
    return f.integers(attribute);
  };
  const auto starts = bounds(1, "starts"), ends = bounds(2, "ends"), steps = bounds(4, "steps");
  if (!starts || !ends || !steps) return std::nullopt;
  auto axes = f.axes(3, from.size());
  int64_t offset = 0;
  for (size_t i = 0; i < starts->size(); ++i) {
    const auto axis = axes ? at((*axes)[i]) : i;
    const int64_t n = from[axis], step = steps->empty() ? 1 : (*steps)[i];
    int64_t start = (*starts)[i];
    start = std::clamp<int64_t>(start < 0 ? start + n : start, 0, step > 0 ? n : std::max<int64_t>(n - 1, 0));
    offset += start * strides[axis];
    strides[axis] *= step;
  }
  return strided(result_sizes(f), strides, offset);
}

Picked expand(Inference& f) {
  const Sizes to = result_sizes(f);
  return strided(to, broadcast_strides(sizes_of(f.in(0)), to));
}

Picked tile(Inference& f) {
  const Sizes from = sizes_of(f.in(0)), to = result_sizes(f), in_strides = row_major_strides(from),
              out_strides = row_major_strides(to);
  Vector<int64_t> r(at(numel(to)), 0);
  for (size_t e = 0; e < r.size(); ++e)
    for (size_t d = 0; d < to.size(); ++d)
      r[e] += static_cast<int64_t>(e) / out_strides[d] % to[d] % from[d] * in_strides[d];
  return r;
}

Picked concat(Inference& f) {
  const Sizes to = result_sizes(f);
  const int64_t axis = f.axis(0, to.size());
  const Around all(to, axis);
  Vector<int64_t> r(at(numel(to)));
  int64_t pooled = 0, before = 0;
  for (size_t i = 0; i < f.inputs(); ++i) {
    const Sizes from = sizes_of(f.in(i));
    const int64_t row = from[at(axis)] * all.inner;
    for (int64_t o = 0; o < all.outer; ++o)
      for (int64_t e = 0; e < row; ++e) r[at((o * all.size + before) * all.inner + e)] = pooled + o * row + e;
    pooled += numel(from);
    before += from[at(axis)];
  }
  return r;
}

Picked gather(Inference& f) {
  const auto indices = integers(f.in(1));
  if (!indices) return std::nullopt;
  const Sizes from = sizes_of(f.in(0));
  const Around a(from, f.axis(0, from.size()));
  Vector<int64_t> r;
  for (int64_t o = 0; o < a.outer; ++o)
    for (int64_t index : *indices) {
      const auto i = wrapped(index, a.size);
      if (!i) return std::nullopt;
      for (int64_t e = 0; e < a.inner; ++e) r.push_back((o * a.size + *i) * a.inner + e);
    }
  return r;
}

/// For each element of `indices` (sizes of input 1), the number of the element of the data that it points to.
Picked pointed_to(Inference& f) {
  const auto indices = integers(f.in(1));
  if (!indices) return std::nullopt;
  const Sizes from = sizes_of(f.in(0));
  const auto axis = at(f.axis(0, from.size()));
  Sizes strides = row_major_strides(from);
  const int64_t along = strides[axis];
  strides[axis] = 0;
  auto r = strided(sizes_of(f.in(1)), strides);
  for (size_t e = 0; e < r.size(); ++e) {
    const auto i = wrapped((*indices)[e], from[axis]);
    if (!i) return std::nullopt;
    r[e] += *i * along;
  }
  return r;
}

/// For each index tuple of input 1, the number of the first element of the data's slice that it points to.
Picked pointed_to_nd(Inference& f, int64_t batch_dims) {
  const auto indices = integers(f.in(1));
  if (!indices || batch_dims != 0) return std::nullopt;
  const Sizes from = sizes_of(f.in(0)), strides = row_major_strides(from);
  const int64_t depth = sizes_of(f.in(1)).back();
  if (depth == 0) return std::nullopt;
  Vector<int64_t> r(indices->size() / at(depth), 0);
  for (size_t e = 0; e < indices->size(); ++e) {
    const size_t d = e % at(depth);
    const auto i = wrapped((*indices)[e], from[d]);
    if (!i) return std::nullopt;
    r[e / at(depth)] += *i * strides[d];
  }
  return r;
}

int64_t slice_length(Inference& f) {
  const Sizes from = sizes_of(f.in(0));
  return numel(Sizes(from.begin() + sizes_of(f.in(1)).back(), from.end()));
}

Picked gather_nd(Inference& f) {
  const auto first = pointed_to_nd(f, f.integer("batch_dims", 0));
  if (!first) return std::nullopt;
  Vector<int64_t> r;
  for (int64_t start : *first)
    for (int64_t e = 0; e < slice_length(f); ++e) r.push_back(start + e);
  return r;
}

Picked scatter_elements(Inference& f) {
  const auto where = pointed_to(f);
  if (!where || f.text("reduction", "none") != "none") return std::nullopt;
  auto r = *in_order(f);
  const auto updates = static_cast<int64_t>(r.size());
  for (size_t e = 0; e < where->size(); ++e) r[at((*where)[e])] = updates + static_cast<int64_t>(e);
  return r;
}

Picked scatter_nd(Inference& f) {
  const auto where = pointed_to_nd(f, 0);
  if (!where || f.text("reduction", "none") != "none") return std::nullopt;
  auto r = *in_order(f);
  int64_t update = static_cast<int64_t>(r.size());
  for (int64_t start : *where)
    for (int64_t e = 0; e < slice_length(f); ++e) r[at(start + e)] = update++;
  return r;
}

Picked where(Inference& f) {
  const auto condition = integers(f.in(0));
  if (!condition) return std::nullopt;
  const Sizes to = result_sizes(f);
  auto broadcast = [&](size_t input) { return strided(to, broadcast_strides(sizes_of(f.in(input)), to)); };
  const auto c = broadcast(0), x = broadcast(1);
  auto r = broadcast(2);
  const int64_t second = numel(sizes_of(f.in(1)));
  for (size_t e = 0; e < r.size(); ++e) r[e] = (*condition)[at(c[e])] ? x[e] : second + r[e];
  return r;
}

/// Where a position outside [0, n) of a padded dimension takes its element from; -1 is the fill.
int64_t padded_source(std::string_view mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  if (mode == "edge" && n > 0) return std::clamp<int64_t>(i, 0, n - 1);
  if (mode == "reflect" && n > 1) {
    const int64_t period = 2 * (n - 1), m = floor_mod(i, period);
    return m < n ? m : period - m;
  }
  if (mode == "wrap" && n > 0) return floor_mod(i, n);
  return -1;
}

Picked pad(Inference& f) {
  const auto pads = f.has(1) ? integers(f.in(1)) : f.integers("pads");
  const Sizes from = sizes_of(f.in(0)), to = result_sizes(f), in_strides = row_major_strides(from),
              out_strides = row_major_strides(to);
  const Attribute* value = f.node.attribute("value");
  if (!pads || (value && std::get<float>(value->data) != 0)) return std::nullopt;
  const auto axes = f.axes(3, from.size());
  Sizes begin(from.size(), 0);
  for (size_t i = 0; i < pads->size() / 2; ++i) begin[axes ? at((*axes)[i]) : i] = (*pads)[i];
  const std::string mode = f.text("mode", "constant");
  const int64_t fill = f.has(2) ? numel(from) : Selection::zero;
  Vector<int64_t> r(at(numel(to)), 0);
  for (size_t e = 0; e < r.size(); ++e)
    for (size_t d = 0; d < to.size(); ++d) {
      const int64_t i = padded_source(mode, static_cast<int64_t>(e) / out_strides[d] % to[d] - begin[d], from[d]);
      if (i < 0) {
        r[e] = fill;
        break;
      }
      r[e] += i * in_strides[d];
    }
  return r;
}

Picked trilu(Inference& f) {
  Vector<int64_t> diagonal{0};
  if (f.has(1)) {
    const auto k = integers(f.in(1));
    if (!k || k->size() != 1) return std::nullopt;
    diagonal = *k;
  }
  const Sizes to = result_sizes(f);
  const int64_t rows = to[to.size() - 2], columns = to.back();
  const bool upper = f.integer("upper", 1) != 0;
  auto r = *in_order(f);
  for (int64_t& e : r) {
    const int64_t row = e / columns % rows, column = e % columns;
    if (upper ? column - row < diagonal[0] : column - row > diagonal[0]) e = Selection::zero;
  }
  return r;
}

Picked one_hot(Inference& f) {
  if (!f.in(0).contents) return std::nullopt;
  const auto indices = integers(f.in(0));
  if (!indices) return std::nullopt;
  const Sizes to = result_sizes(f);
  const Around a(to, f.axis(-1, to.size()));
  Vector<int64_t> r(at(numel(to)), 0);
  for (size_t e = 0; e < indices->size(); ++e) {
    const auto hot = wrapped((*indices)[e], a.size);
    const int64_t outer = static_cast<int64_t>(e) / a.inner, inner = static_cast<int64_t>(e) % a.inner;
    if (hot) r[at((outer * a.size + *hot) * a.inner + inner)] = 1;
  }
  return r;
}

struct Move {
  std::string_view op;
  Picked (*pick)(Inference&);
  std::array<int, 2> data{0, -1};  // the inputs whose elements are moved
};

constexpr Move all_moves[] = {
    {"Expand", expand},
    {"Flatten", in_order},
    {"Gather", gather},
    {"GatherElements", pointed_to},
    {"GatherND", gather_nd},
    {"Identity", in_order},
    {"OneHot", one_hot, {2, -1}},
    {"Pad", pad, {0, 2}},
    {"Reshape", in_order},
    {"ScatterElements", scatter_elements, {0, 2}},
    {"ScatterND", scatter_nd, {0, 2}},
    {"Slice", slice},
    {"Squeeze", in_order},
    {"Tile", tile},
    {"Transpose", transpose},
    {"Trilu", trilu},
    {"Unsqueeze", in_order},
    {"Where", where, {1, 2}},
};

/// Split has several outputs.
Selection split(Inference& f) {
  const Sizes from = sizes_of(f.in(0)), strides = row_major_strides(from);
  const auto axis = at(f.axis(0, from.size()));
  Selection r{{0}, {}};
  int64_t offset = 0;
  for (const Value* out : f.node.outputs) {
    const Sizes to = sizes_of(*out);
    r.outputs.push_back(strided(to, strides, offset));
    offset += to[axis] * strides[axis];
  }
  return r;
}

}  // namespace

std::optional<Sizes> numbers(std::span<const Dim> shape) {
  Sizes r;
  for (Dim d : shape) {
    if (!d.is_constant()) return std::nullopt;
    r.push_back(*d.constant());
  }
  return r;
}

int64_t numel(const Sizes& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n = checked_mul(n, s);
  return n;
}

std::optional<Vector<int64_t>> integers(const Value& v) {
  if (!is_integer(v.dtype) && v.dtype != DType::Bool) return std::nullopt;
  if (v.constant) return v.constant->integers();
  return v.contents ? numbers(*v.contents) : std::nullopt;
}

Vector<int64_t> strided(const Sizes& sizes, const Sizes& strides, int64_t offset) {
  Vector<int64_t> r{offset};
  for (size_t d = 0; d < sizes.size(); ++d) {
    Vector<int64_t> next;
    next.reserve(r.size() * at(sizes[d]));
    for (int64_t base : r)
      for (int64_t i = 0; i < sizes[d]; ++i) next.push_back(base + i * strides[d]);
    r = std::move(next);
  }
  return r;
}

Sizes broadcast_strides(const Sizes& from, const Sizes& to) {
  const Sizes strides = row_major_strides(from);
  Sizes r(to.size(), 0);
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1) r[lead + i] = strides[i];
  return r;
}

Vector<int64_t> reduction_targets(const Sizes& from, const Vector<int64_t>& axes) {
  Sizes kept = from;
  for (int64_t a : axes) kept[at(a)] = 1;
  return strided(from, broadcast_strides(kept, from));
}

Vector<int64_t> reduction_axes(const Inference& f) {
  auto axes = f.axes(1, f.in(0).rank());
  if (axes && !axes->empty()) return *axes;
  Vector<int64_t> all;
  if (f.integer("noop_with_empty_axes", 0) == 0)
    for (size_t i = 0; i < f.in(0).rank(); ++i) all.push_back(static_cast<int64_t>(i));
  return all;
}

bool moves(std::string_view op) { return op == "Concat" || op == "Split" || find(all_moves, op); }

std::optional<Selection> select(Inference& f) {
  if (f.node.op_type == "Split") return split(f);
  Selection r;
  Picked picked;
  if (f.node.op_type == "Concat") {
    for (size_t i = 0; i < f.inputs(); ++i) r.data.push_back(i);
    picked = concat(f);
  } else {
    const Move& row = *find(all_moves, f.node.op_type);
    for (int input : row.data)
      if (input >= 0 && f.has(at(input))) r.data.push_back(at(input));
    picked = row.pick(f);
  }
  if (!picked) return std::nullopt;
  r.outputs.push_back(std::move(*picked));
  return r;
}

}  // namespace lithify::onnx::folding
