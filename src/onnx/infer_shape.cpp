// Operators that move, select, repeat or make elements: the rules of sizes that are not arithmetic on elements.
#include <fmt/format.h>

#include <cmath>

#include "base/checked.hpp"
#include "onnx/infer.hpp"

namespace lithify::onnx {
namespace infer {

void assume_at_least(Inference& f, Dim size, Dim needed) {
  const auto is_asked = [&](Dim d) { return !f.sym.has_iterations(d) && !depends_on_data(f.sym, d); };
  if (size.is_constant() || f.sym.less_equal(needed, size) == true || !is_asked(size) || !is_asked(needed)) return;
  const auto have = f.sym.sample(size), least = f.sym.sample(needed);
  if (!have || !least || *have >= *least) f.sym.assume({sym::Assumption::Kind::AtMost, needed, size});
}

}  // namespace infer

namespace {

using namespace infer;

Dim one(Inference& f) { return f.sym.constant(1); }

bool contains(const Vector<int64_t>& v, int64_t x) { return std::find(v.begin(), v.end(), x) != v.end(); }

Shape part(const Shape& s, size_t begin, size_t end) {
  return Shape(s.begin() + static_cast<std::ptrdiff_t>(begin), s.begin() + static_cast<std::ptrdiff_t>(end));
}

// ---- other sizes, same elements ---------------------------------------------------------------------------------

/// What an entry of -1 stands for: the elements that the other sizes leave.
Dim remaining_size(Inference& f, Dim total, Dim others) {
  if (others.is(0)) return f.sym.constant(0);
  if (const auto q = f.sym.divide_exactly(total, others)) return *q;
  if (total.is_constant() && others.is_constant())
    f.fail(fmt::format("{} elements do not divide into rows of {}", total.str(), others.str()));
  f.sym.assume({sym::Assumption::Kind::Multiple, total, others});
  return f.sym.floor_div(total, others);
}

void reshape(Inference& f) {
  const Shape& from = f.in(0).shape;
  Shape to;
  if (f.has(1)) {
    to = sizes_from(f, 1, "size");
  } else {
    for (int64_t d : f.integers("shape")) to.push_back(f.sym.constant(d));
  }
  std::optional<size_t> free;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].is(0) && f.integer("allowzero", 0) == 0) {
      if (i >= from.size()) f.fail(fmt::format("there is no dimension {} whose size could be kept", i));
      to[i] = from[i];
    } else if (to[i].is(-1)) {
      if (free) f.fail("more than one size is -1");
      free = i;
      to[i] = one(f);
    }
  }
  const Dim total = f.sym.product(from), given = f.sym.product(to);
  if (free)
    to[*free] = remaining_size(f, total, given);
  else
    same_size(f, total, given, "the numbers of elements");
  f.set(0, f.in(0).dtype, std::move(to));
}

void flatten(Inference& f) {
  const Shape& s = f.in(0).shape;
  const auto rank = static_cast<int64_t>(s.size());
  int64_t axis = f.integer("axis", 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) f.fail(fmt::format("there is no axis {} in a tensor of rank {}", axis, rank));
  const auto at = static_cast<size_t>(axis);
  f.set(0, f.in(0).dtype, {f.sym.product(part(s, 0, at)), f.sym.product(part(s, at, s.size()))});
}

void squeeze(Inference& f) {
  const Value& x = f.in(0);
  const auto axes = f.axes(1, x.rank());
  Shape r;
  for (size_t i = 0; i < x.rank(); ++i) {
    const bool drop = axes ? contains(*axes, static_cast<int64_t>(i)) : x.shape[i].is(1);
    if (!drop)
      r.push_back(x.shape[i]);
    else
      same_size(f, x.shape[i], one(f), "the size of a squeezed dimension and 1");
  }
  f.set(0, x.dtype, std::move(r));
}

void unsqueeze(Inference& f) {
  const Value& x = f.in(0);
  const size_t count = f.has(1) ? f.contents(1).size() : f.integers("axes").size();
  const size_t rank = x.rank() + count;
  const auto axes = f.axes(1, rank).value();
  Shape r;
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i) {
    if (contains(axes, static_cast<int64_t>(i)))
      r.push_back(one(f));
    else if (next < x.rank())
      r.push_back(x.shape[next++]);
    else
      f.fail("an axis is given twice");
  }
  f.set(0, x.dtype, std::move(r));
}

void transpose(Inference& f) {
  const Shape& s = f.in(0).shape;
  const auto perm = f.integers("perm");
  Shape r(s.rbegin(), s.rend());
  if (f.node.attribute("perm")) {
    if (perm.size() != s.size()) f.fail(fmt::format("perm has {} entries for {} dimensions", perm.size(), s.size()));
    for (size_t i = 0; i < s.size(); ++i) r[i] = s.at(static_cast<size_t>(perm[i]));
  }
  f.set(0, f.in(0).dtype, std::move(r));
}

// ---- parts --------------------------------------------------------------------------------------------------------

// Beyond these, a bound of a slice means "to the end": exporters write INT32_MAX or INT64_MAX for it.
constexpr int64_t far_end = 0x7fffffff;

/// A bound counted from the start. A symbolic one that is not known to be negative counts from the start already.
Dim from_start(Inference& f, Dim bound, Dim size) {
  const bool negative = bound.upper() && *bound.upper() < 0;
  return negative ? f.sym.add(size, bound) : bound;
}

/// The number of elements start, start + step, ... before end, of a dimension.
Dim slice_size(Inference& f, Dim size, Dim start, Dim end, int64_t step) {
  sym::Context& sym = f.sym;
  const Dim zero = sym.constant(0), minus_one = sym.constant(-1);
  const int64_t s = start.constant().value_or(0), e = end.constant().value_or(0);
  if (step > 0) {
    if (s >= far_end || e <= -far_end) return zero;
    // A symbolic bound lies inside by contract; only numbers are clamped. The start needs no clamping from above: the
    // end is, and a start behind the end gives no elements.
    Dim first = zero;
    if (s > -far_end) {
      first = from_start(f, start, size);
      if (s < 0) first = sym.max(first, zero);
    }
    Dim last = size;
    if (e < far_end) {
      last = from_start(f, end, size);
      if (end.is_constant() && e >= 0) last = sym.min(last, size);
    }
    return sym.ceil_div(sym.max(sym.sub(last, first), zero), sym.constant(step));
  }
  if (s <= -far_end || e >= far_end) return zero;
  const Dim top = sym.sub(size, sym.constant(1));
  Dim first = top;
  if (s < far_end) {
    first = from_start(f, start, size);
    if (start.is_constant()) first = s >= 0 ? sym.min(first, top) : sym.max(first, zero);
  }
  const Dim last = e <= -far_end ? minus_one : sym.max(from_start(f, end, size), minus_one);
  return sym.ceil_div(sym.max(sym.sub(first, last), zero), sym.constant(-step));
}

void slice(Inference& f) {
  const Value& x = f.in(0);
  Shape r = x.shape;
  const bool inputs = f.has(1);
  auto bounds = [&](size_t input, std::string_view attribute) -> std::optional<Shape> {
    if (inputs) {
      const auto* c = known(f, input);
      return c ? std::optional(*c) : std::nullopt;
    }
    Shape c;
    for (int64_t v : f.integers(attribute)) c.push_back(f.sym.constant(v));
    return c;
  };
  const auto starts = bounds(1, "starts"), ends = bounds(2, "ends");
  std::optional<Shape> steps;
  if (f.has(4)) steps = bounds(4, "");
  auto axes = f.axes(3, x.rank());
  if (!axes) {
    axes.emplace(starts ? starts->size() : inputs ? rank_from(f, 1) : 0);
    for (size_t i = 0; i < axes->size(); ++i) (*axes)[i] = static_cast<int64_t>(i);
  }
  if (axes->size() > x.rank()) f.fail("there are more axes than dimensions");
  for (size_t i = 0; i < axes->size(); ++i) {
    Dim& d = r[static_cast<size_t>((*axes)[i])];
    const auto step = !f.has(4) ? 1 : steps ? steps->at(i).constant() : std::nullopt;
    if (step == 0) f.fail("the step is 0");
    d = starts && ends && step ? slice_size(f, d, starts->at(i), ends->at(i), *step) : f.fresh("slice");
  }
  f.set(0, x.dtype, std::move(r));
}

void split(Inference& f) {
  const Value& x = f.in(0);
  const auto axis = static_cast<size_t>(f.axis(0, x.rank()));
  const size_t count = f.node.outputs.size();
  Shape lengths;
  if (f.has(1)) {
    lengths = sizes_from(f, 1, "split");
  } else if (f.node.attribute("split")) {
    for (int64_t n : f.integers("split")) lengths.push_back(f.sym.constant(n));
  } else {
    const Dim n = f.sym.constant(static_cast<int64_t>(count));
    const Dim each_length = f.sym.ceil_div(x.shape[axis], n);
    lengths.assign(count, each_length);
    lengths.back() = f.sym.sub(x.shape[axis], f.sym.mul(each_length, f.sym.sub(n, one(f))));
  }
  if (lengths.size() != count) f.fail(fmt::format("{} lengths are given for {} parts", lengths.size(), count));
  Dim sum = f.sym.constant(0);
  for (Dim n : lengths) sum = f.sym.add(sum, n);
  same_size(f, x.shape[axis], sum, "the size and the sum of the parts");
  for (size_t i = 0; i < count; ++i) {
    Shape r = x.shape;
    r[axis] = lengths[i];
    f.set(i, x.dtype, std::move(r));
  }
}

void concat(Inference& f) {
  Shape r = f.in(0).shape;
  if (r.empty()) f.fail("scalars cannot be joined");
  const auto axis = static_cast<size_t>(f.axis(0, r.size()));
  for (size_t i = 1; i < f.inputs(); ++i) {
    const Shape& s = f.in(i).shape;
    if (s.size() != r.size()) f.fail(fmt::format("{} and {} cannot be joined", print_shape(r), print_shape(s)));
    if (f.in(i).dtype != f.in(0).dtype)
      throw Error(Code::TypeMismatch,
                  fmt::format("Concat is given {} and {}", name_of(f.in(0).dtype), name_of(f.in(i).dtype)));
    for (size_t d = 0; d < r.size(); ++d)
      r[d] = d == axis ? f.sym.add(r[d], s[d])
                       : same_size(f, r[d], s[d], fmt::format("the sizes {} of the first and part {}", d, i + 1));
  }
  f.set(0, f.in(0).dtype, std::move(r));
}

/// The positions exist; those that are not numbers, if there is only one.
void assume_positions(Inference& f, const Vector<Dim>& positions, Dim size) {
  int64_t needed = 0;
  for (const Dim p : positions)
    if (const auto number = p.constant()) needed = std::max(needed, *number < 0 ? -*number : *number + 1);
  if (needed > 0) assume_at_least(f, size, f.sym.constant(needed));
  if (positions.size() == 1 && !positions[0].is_constant() && positions[0].lower().value_or(-1) >= 0)
    assume_at_least(f, size, f.sym.add(positions[0], f.sym.constant(1)));
}

void gather(Inference& f) {
  require_rank(f, 0, 1);
  const Shape& data = f.in(0).shape;
  const auto axis = static_cast<size_t>(f.axis(0, data.size()));
  if (const Vector<Dim>* positions = known(f, 1)) assume_positions(f, *positions, data[axis]);
  Shape r = part(data, 0, axis);
  append(r, f.in(1).shape);
  append(r, part(data, axis + 1, data.size()));
  f.set(0, f.in(0).dtype, std::move(r));
}

void gather_elements(Inference& f) {
  const Shape &data = f.in(0).shape, &indices = f.in(1).shape;
  const auto axis = static_cast<size_t>(f.axis(0, data.size()));
  // Indices may be fewer than the data; those that are as many in the sample, and only there, are not meant to be.
  for (size_t i = 0; i < indices.size() && i < data.size(); ++i)
    if (i != axis && indices[i].is_constant() && !data[i].is_constant() &&
        f.sym.sample(data[i]) == indices[i].constant())
      same_size(f, data[i], indices[i], "the sizes of the data and of the indices");
  f.set(0, f.in(0).dtype, indices);
}

void gather_nd(Inference& f) {
  const Shape &data = f.in(0).shape, &indices = f.in(1).shape;
  require_rank(f, 1, 1);
  const auto depth = indices.back().constant();
  const auto batch = static_cast<size_t>(f.integer("batch_dims", 0));
  if (!depth) f.fail("the last size of the indices must be a number");
  if (batch + static_cast<size_t>(*depth) > data.size()) f.fail("an index has more entries than there are dimensions");
  Shape r = part(indices, 0, indices.size() - 1);
  append(r, part(data, batch + static_cast<size_t>(*depth), data.size()));
  f.set(0, f.in(0).dtype, std::move(r));
}

void compress(Inference& f) {
  Shape r = f.in(0).shape;
  const Dim count = f.fresh("compress");
  if (f.node.attribute("axis"))
    r[static_cast<size_t>(f.axis(0, r.size()))] = count;
  else
    r = {count};
  f.set(0, f.in(0).dtype, std::move(r));
}

void top_k(Inference& f) {
  require_rank(f, 0, 1);
  Shape r = f.in(0).shape;
  Dim& d = r[static_cast<size_t>(f.axis(-1, r.size()))];
  const Dim k = f.has(1) ? size_from(f, 1, "k") : f.sym.constant(f.integer("k", 0));
  assume_at_least(f, d, k);
  d = k;
  f.set(0, f.in(0).dtype, r);
  f.set(1, DType::Int64, r);
}

void unique(Inference& f) {
  const Value& x = f.in(0);
  const Dim count = f.fresh("unique");
  Shape values{count};
  Dim inverse = f.sym.product(x.shape);
  if (f.node.attribute("axis")) {
    const auto axis = static_cast<size_t>(f.axis(0, x.rank()));
    values = x.shape;
    values[axis] = count;
    inverse = x.shape[axis];
  }
  f.set(0, x.dtype, std::move(values));
  f.set(1, DType::Int64, {count});
  f.set(2, DType::Int64, {inverse});
  f.set(3, DType::Int64, {count});
}

void non_zero(Inference& f) {
  f.set(0, DType::Int64, {f.sym.constant(static_cast<int64_t>(f.in(0).rank())), f.fresh("nonzero")});
}

// ---- more elements ------------------------------------------------------------------------------------------------

void expand(Inference& f) {
  if (known(f, 1)) return f.set(0, f.in(0).dtype, broadcast_shapes(f.sym, f.in(0).shape, *known(f, 1)));
  Shape r(std::max<size_t>(rank_from(f, 1), f.in(0).rank()));
  for (Dim& d : r) d = f.fresh("size");
  f.set(0, f.in(0).dtype, std::move(r));
}

void tile(Inference& f) {
  Shape r = f.in(0).shape;
  const auto* repeats = known(f, 1);
  if (repeats && repeats->size() != r.size()) f.fail("one number of repeats is needed for each dimension");
  for (size_t i = 0; i < r.size(); ++i) r[i] = repeats ? f.sym.mul(r[i], (*repeats)[i]) : f.fresh("tile");
  f.set(0, f.in(0).dtype, std::move(r));
}

/// What the mode takes from a dimension, and what negative pads take away, is there.
void assume_padding(Inference& f, Dim size, Dim before, Dim after) {
  const auto first = before.constant(), last = after.constant();
  if (!first || !last) return;
  const std::string mode = f.text("mode", "constant");
  const int64_t most = std::max(*first, *last), away = std::max<int64_t>(-*first, 0) + std::max<int64_t>(-*last, 0);
  int64_t needed = away;
  if (mode == "reflect") needed = std::max(needed, most + 1);
  if (needed > 1) assume_at_least(f, size, f.sym.constant(needed));
}

void pad(Inference& f) {
  Shape r = f.in(0).shape;
  std::optional<Shape> pads;
  if (!f.has(1)) {
    pads.emplace();
    for (int64_t p : f.integers("pads")) pads->push_back(f.sym.constant(p));
  } else if (known(f, 1)) {
    pads = *known(f, 1);
  }
  auto axes = f.axes(3, r.size());
  if (!axes) {
    axes.emplace(r.size());
    for (size_t i = 0; i < r.size(); ++i) (*axes)[i] = static_cast<int64_t>(i);
  }
  const size_t n = axes->size();
  if (pads && pads->size() != 2 * n) f.fail(fmt::format("{} pads are given for {} dimensions", pads->size(), n));
  for (size_t i = 0; i < n; ++i) {
    Dim& d = r[static_cast<size_t>((*axes)[i])];
    if (pads) assume_padding(f, d, (*pads)[i], (*pads)[n + i]);
    d = pads ? f.sym.add(d, f.sym.add((*pads)[i], (*pads)[n + i])) : f.fresh("padded");
  }
  f.set(0, f.in(0).dtype, std::move(r));
}

void center_crop_pad(Inference& f) {
  Shape r = f.in(0).shape;
  const Shape sizes = sizes_from(f, 1, "size");
  const auto axes = f.axes(f.inputs(), r.size());
  for (size_t i = 0; i < sizes.size(); ++i) r.at(axes ? static_cast<size_t>(axes->at(i)) : i) = sizes[i];
  f.set(0, f.in(0).dtype, std::move(r));
}

void depth_to_space(Inference& f) {
  require_rank(f, 0, 4);
  const Shape& s = f.in(0).shape;
  const Dim block = f.sym.constant(f.integer("blocksize", 1));
  const Dim channels = remaining_size(f, s[1], f.sym.mul(block, block));
  f.set(0, f.in(0).dtype, {s[0], channels, f.sym.mul(s[2], block), f.sym.mul(s[3], block)});
}

void space_to_depth(Inference& f) {
  require_rank(f, 0, 4);
  const Shape& s = f.in(0).shape;
  const Dim block = f.sym.constant(f.integer("blocksize", 1));
  const Dim channels = f.sym.mul(s[1], f.sym.mul(block, block));
  f.set(0, f.in(0).dtype, {s[0], channels, remaining_size(f, s[2], block), remaining_size(f, s[3], block)});
}

// ---- new tensors --------------------------------------------------------------------------------------------------

void constant(Inference& f) {
  auto n = [&](size_t count) { return Shape{f.sym.constant(static_cast<int64_t>(count))}; };
  if (const Attribute* a = f.node.attribute("value")) {
    const Tensor& t = *std::get<std::shared_ptr<const Tensor>>(a->data);
    Shape r;
    for (int64_t d : t.sizes) r.push_back(f.sym.constant(d));
    f.set(0, t.dtype, std::move(r));
  } else if (f.node.attribute("value_int")) {
    f.set(0, DType::Int64, {});
  } else if (f.node.attribute("value_ints")) {
    f.set(0, DType::Int64, n(f.integers("value_ints").size()));
  } else if (f.node.attribute("value_float")) {
    f.set(0, DType::Float, {});
  } else if (const Attribute* v = f.node.attribute("value_floats")) {
    f.set(0, DType::Float, n(std::get<Vector<float>>(v->data).size()));
  } else {
    f.fail("there is no value");
  }
}

void constant_of_shape(Inference& f) {
  DType dtype = DType::Float;
  if (const Attribute* a = f.node.attribute("value")) dtype = std::get<std::shared_ptr<const Tensor>>(a->data)->dtype;
  f.set(0, dtype, sizes_from(f, 0, "size"));
}

/// ceil((limit - start)/delta) as ONNX Runtime computes it: the difference in the elements' own type.
int64_t range_size(DType dtype, double start, double limit, double delta) {
  const double span = dtype == DType::Float ? static_cast<double>(static_cast<float>(limit) - static_cast<float>(start))
                                            : limit - start;
  return std::max<int64_t>(checked_integer(std::ceil(span / delta)), 0);
}

void range(Inference& f) {
  const auto *start = known(f, 0), *limit = known(f, 1), *delta = known(f, 2);
  const DType dtype = f.in(0).dtype;
  const auto step = delta ? delta->at(0).constant() : std::nullopt;
  Dim size;
  if (start && limit && step && *step != 0) {
    Dim span = f.sym.sub(limit->at(0), start->at(0));
    if (*step < 0) span = f.sym.neg(span);
    size = f.sym.max(f.sym.ceil_div(span, f.sym.constant(std::abs(*step))), f.sym.constant(0));
  } else if (start && limit && delta && delta->at(0).lower().value_or(0) >= 1) {
    size = f.sym.max(f.sym.ceil_div(f.sym.sub(limit->at(0), start->at(0)), delta->at(0)), f.sym.constant(0));
  } else if (f.in(0).is_constant() && f.in(1).is_constant() && f.in(2).is_constant()) {
    const double by = f.in(2).constant->reals().at(0);
    if (by == 0) f.fail("the step is 0");
    size = f.sym.constant(range_size(dtype, f.in(0).constant->reals().at(0), f.in(1).constant->reals().at(0), by));
  } else {
    size = f.fresh("range");
  }
  f.set(0, dtype, {size});
}

void one_hot(Inference& f) {
  const Value& indices = f.in(0);
  Dim depth;
  if (!known(f, 1) && f.in(1).is_constant())
    depth = f.sym.constant(checked_integer(f.in(1).constant->reals().at(0)));
  else
    depth = size_from(f, 1, "depth");
  Shape r = indices.shape;
  r.insert(r.begin() + f.axis(-1, r.size() + 1), depth);
  f.set(0, f.in(2).dtype, std::move(r));
}

void eye_like(Inference& f) { f.set(0, dtype_attribute(f, "dtype", f.in(0).dtype), f.in(0).shape); }

void random(Inference& f) {
  Shape r;
  for (int64_t d : f.integers("shape")) r.push_back(f.sym.constant(d));
  f.set(0, dtype_attribute(f, "dtype", DType::Float), std::move(r));
}

void multinomial(Inference& f) {
  f.set(0, dtype_attribute(f, "dtype", DType::Int32),
        {f.in(0).shape.at(0), f.sym.constant(f.integer("sample_size", 1))});
}

void shape_op(Inference& f) {
  const auto rank = static_cast<int64_t>(f.in(0).rank());
  auto clamped = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  const int64_t count = clamped(f.integer("end", rank)) - clamped(f.integer("start", 0));
  f.set(0, DType::Int64, {f.sym.constant(std::max<int64_t>(count, 0))});
}

void size(Inference& f) { f.set(0, DType::Int64, {}); }

constexpr OpDef shape_table[] = {
    {"CenterCropPad", 18, center_crop_pad},
    {"Compress", 9, compress},
    {"Concat", 1, concat},
    {"Constant", 1, constant},
    {"ConstantOfShape", 9, constant_of_shape},
    {"DepthToSpace", 1, depth_to_space},
    {"Expand", 8, expand},
    {"EyeLike", 9, eye_like},
    {"Flatten", 1, flatten},
    {"Gather", 1, gather},
    {"GatherElements", 11, gather_elements},
    {"GatherND", 11, gather_nd},
    {"Multinomial", 7, multinomial, false},
    {"NonZero", 9, non_zero},
    {"OneHot", 9, one_hot},
    {"Pad", 1, pad},
    {"RandomNormal", 1, random, false},
    {"RandomUniform", 1, random, false},
    {"Range", 11, range},
    {"Reshape", 1, reshape},
    {"ReverseSequence", 10, same},
    {"Scatter", 9, same},
    {"ScatterElements", 11, same},
    {"ScatterND", 11, same},
    {"Shape", 1, shape_op},
    {"Size", 1, size},
    {"Slice", 1, slice},
    {"SpaceToDepth", 1, space_to_depth},
    {"Split", 1, split},
    {"Squeeze", 1, squeeze},
    {"TensorScatter", 24, same},
    {"Tile", 1, tile},
    {"TopK", 1, top_k},
    {"Transpose", 1, transpose},
    {"Trilu", 14, same},
    {"Unique", 11, unique},
    {"Unsqueeze", 1, unsqueeze},
};

}  // namespace

std::span<const OpDef> shape_ops() { return shape_table; }

}  // namespace lithify::onnx
