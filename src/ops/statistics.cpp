// Statistics of many numbers: which are different, how often they occur, quantiles, covariance, segments, integrals.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/elementwise.hpp"
#include "ops/register.hpp"
#include "ops/slicing.hpp"

namespace lithify::ops {
namespace {

Ref integer(Builder& b, int64_t v) { return b.scalar_int(DType::Int64, v); }
Dim size_of(Ref x, int64_t axis) { return x->shape[static_cast<size_t>(axis)]; }

// All but the first, and all but the last of an axis.
struct Neighbours {
  Ref later;
  Ref sooner;
};

Neighbours neighbors(Builder& b, Ref x, int64_t axis) {
  return {b.slice(x, axis, b.dim(1), b.dim(to_the_end)), b.slice(x, axis, b.dim(0), b.dim(-1))};
}

bool asked(Call& c, std::string_view what) { return !c.schema.argument(what) || c.flag(what); }

Ref nothing(Builder& b) { return b.ints({}); }

// ---- different elements -------------------------------------------------------------------------------------------

struct Unique {
  Ref values;
  Ref inverse;
  Ref counts;
};

// Of a 1-D float: each NaN is a value of its own, behind all others. ONNX Runtime's operator loses elements beside NaN,
// so it is given infinity in the place of each.
Unique unique_floats(Builder& b, Ref x) {
  Ref is_nan = b.op("IsNaN", {x}), each = b.cast(is_nan, DType::Int64), endless = like(b, x, infinity);
  Vector<Ref> out = b.op_n("Unique", {b.where(is_nan, endless, x)}, {}, 4);
  Ref nans = b.reduce("ReduceSum", each, {0}, true);
  Ref counts = b.sub(out[3], b.mul(b.cast(b.op("Equal", {out[0], endless}), DType::Int64), nans));
  Ref there = b.op("Greater", {counts, integer(b, 0)});
  Ref values = b.op("Compress", {out[0], there}, {{"axis", int64_t{0}}});
  counts = b.op("Compress", {counts, there}, {{"axis", int64_t{0}}});
  counts->shape = values->shape;
  Ref place = b.add(b.symbolic(size_of(values, 0)), b.sub(b.op("CumSum", {each, integer(b, 0)}), integer(b, 1)));
  const Shape behind{b.symbol_of(b.reshape(nans, {}), "nan", 0)};
  return {b.concat({values, b.full(behind, like(b, x, std::numeric_limits<double>::quiet_NaN()))}, 0),
          b.where(is_nan, place, out[2]), b.concat({counts, b.full(behind, integer(b, 1))}, 0)};
}

// Positions along an axis that are equal nowhere: an element with NaN equals none. Like above, ONNX Runtime's operator
// gets infinity in the place of each NaN, and a number of its own behind each position that has one.
Unique unique_positions(Builder& b, Ref x, int64_t axis) {
  Vector<int64_t> perm = identity_permutation(x->rank());
  std::rotate(perm.begin(), perm.begin() + axis, perm.begin() + axis + 1);
  const Dim n = size_of(x, axis);
  Ref rows = b.reshape(b.transpose(x, perm), {n, b.sym.floor_div(b.numel(x->shape), n)});
  Ref is_nan = b.op("IsNaN", {rows});
  Ref has_nan = b.reduce("ReduceMax", b.cast(is_nan, rows->dtype), {1}, true);
  Ref number = b.mul(b.op("CumSum", {has_nan, integer(b, 0)}), has_nan);
  rows = b.concat({b.where(is_nan, like(b, x, infinity), rows), number}, 1);
  Vector<Ref> out = b.op_n("Unique", {rows}, {{"axis", int64_t{0}}}, 4);
  return {b.gather(x, out[1], axis), out[2], out[3]};
}

Value unique(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  const bool by_dim = c.schema.argument("dim");
  Unique u{};
  if (is_float(x->dtype)) {
    Ref wide = x->dtype == DType::Double ? x : b.cast(x, DType::Float);
    u = by_dim ? unique_positions(b, wide, c.dim("dim", x->rank())) : unique_floats(b, flat(b, wide));
  } else {
    onnx::Attributes attributes;
    if (by_dim) attributes.push_back({"axis", c.dim("dim", x->rank())});
    Vector<Ref> out = b.op_n("Unique", {x->dtype == DType::Bool ? b.cast(x, DType::Int64) : x}, attributes, 4);
    u = {out[0], out[2], out[3]};
  }
  // unique_dim gives all of them, asked or not.
  Ref inverse = by_dim ? u.inverse : b.reshape(u.inverse, x->shape);
  Vector<Value> results{b.cast(u.values, x->dtype), by_dim || asked(c, "return_inverse") ? inverse : nothing(b)};
  if (c.schema.argument("return_counts"))
    results.push_back(by_dim || asked(c, "return_counts") ? u.counts : nothing(b));
  return Value::tuple(std::move(results));
}

// Of neighbors that are equal, the first.
Value unique_consecutive(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  bool by_dim = !c.none("dim");
  int64_t axis = by_dim ? c.dim("dim", x->rank()) : 0;
  Ref rows = by_dim ? x : flat(b, x);
  auto [later, sooner] = neighbors(b, rows, axis);
  Ref differs = compare(b, "NotEqual", later, sooner);
  Vector<int64_t> others;
  for (int64_t i = 0; i < static_cast<int64_t>(rows->rank()); ++i)
    if (i != axis) others.push_back(i);
  if (!others.empty()) differs = truth(b, b.reduce("ReduceMax", b.cast(differs, DType::Int32), others, false));
  Ref first = b.concat({b.reshape(b.scalar(DType::Bool, 1), {b.dim(1)}), differs}, 0);
  Ref values = b.op("Compress", {rows, first}, {{"axis", axis}});
  Ref inverse = b.sub(b.op("CumSum", {b.cast(first, DType::Int64), integer(b, 0)}), integer(b, 1));
  Ref starts = b.reshape(b.op("NonZero", {first}), {size_of(values, axis)});
  Ref ends =
      b.concat({b.slice(starts, 0, b.dim(1), b.dim(to_the_end)), b.symbolic(Vector<Dim>{size_of(rows, axis)})}, 0);
  return Value::tuple({values,
                       asked(c, "return_inverse") ? (by_dim ? inverse : b.reshape(inverse, x->shape)) : nothing(b),
                       asked(c, "return_counts") ? b.sub(ends, starts) : nothing(b)});
}

// ---- how often ----------------------------------------------------------------------------------------------------

// The sum of the weights at each of n positions. Both operands are 1-D; positions outside have the weight 0.
Ref counted(Builder& b, Ref positions, Ref weights, Dim n) {
  if (b.opset() >= 16)
    return b.op("ScatterElements", {b.full({n}, like(b, weights, 0)), positions, weights},
                {{"axis", int64_t{0}}, {"reduction", std::string("add")}});
  Ref here = b.op("Equal", {b.reshape(arange(b, n), {n, b.dim(1)}), positions});
  return b.reduce("ReduceSum", b.where(here, weights, like(b, weights, 0)), {1}, false);
}

Value bincount(Call& c) {
  Builder& b = c.onnx;
  Ref x = b.cast(c.tensor("self"), DType::Int64);
  Ref least = b.symbolic(Vector<Dim>{b.sym.sub(c.size("minlength"), b.dim(1))});
  Ref highest = b.reduce("ReduceMax", b.concat({x, least}, 0), {0}, false);
  Dim n = b.symbol_of(b.add(highest, integer(b, 1)), "bins", 0);
  Ref weights = c.maybe_tensor("weights");
  if (!weights) return counted(b, x, b.full(x->shape, integer(b, 1)), n);
  return counted(b, x, weights->dtype == DType::Float ? weights : b.cast(weights, DType::Double), n);
}

// The least and the greatest element, or those of the call; apart from each other.
struct Range {
  Ref low;
  Ref high;
};

Range range_of(Builder& b, Ref x, double low, double high) {
  if (low != high) return {like(b, x, low), like(b, x, high)};
  if (low != 0) return {like(b, x, low - 1), like(b, x, high + 1)};
  Ref least = b.reduce("ReduceMin", x, {}, false), most = b.reduce("ReduceMax", x, {}, false);
  Ref widen = b.cast(b.op("Equal", {least, most}), x->dtype);
  return {b.sub(least, widen), b.add(most, widen)};
}

Ref within(Builder& b, Ref x, const Range& r) {
  return b.op("And", {compare(b, "GreaterOrEqual", x, r.low), compare(b, "LessOrEqual", x, r.high)});
}

Value histc(Call& c) {
  Builder& b = c.onnx;
  Ref x = flat(b, c.tensor("self"));
  int64_t bins = c.integer("bins");
  Range r = range_of(b, x, c.real("min"), c.real("max"));
  Ref inside = within(b, x, r);
  Ref scaled = b.div(b.mul(b.sub(x, r.low), like(b, x, static_cast<double>(bins))), b.sub(r.high, r.low));
  Ref position = minimum(b, b.cast(b.where(inside, scaled, like(b, x, 0)), DType::Int64), integer(b, bins - 1));
  return counted(b, position, b.cast(inside, x->dtype), b.dim(bins));
}

// Edges as linspace has them, counted from the nearer end.
Ref even_edges(Builder& b, const Range& r, int64_t bins) {
  if (bins < 1) throw Error(Code::ShapeMismatch, fmt::format("a histogram of {} bins", bins));
  Vector<double> from_low = known_elements<double>(b.sym, bins + 1), from_high = from_low, nearer = from_low;
  for (int64_t i = 0; i <= bins; ++i) {
    const auto at = static_cast<size_t>(i);
    from_low[at] = static_cast<double>(i);
    from_high[at] = static_cast<double>(bins - i);
    nearer[at] = i < (bins + 1) / 2;
  }
  DType t = r.low->dtype;
  Vector<int64_t> sizes{bins + 1};
  Ref step = b.div(b.sub(r.high, r.low), b.scalar(t, static_cast<double>(bins)));
  Ref up = b.add(r.low, b.mul(step, b.reals(t, sizes, from_low)));
  Ref down = b.sub(r.high, b.mul(step, b.reals(t, sizes, from_high)));
  return b.where(b.reals(DType::Bool, sizes, nearer), up, down);
}

// As `range_of`, but single numbers are in the middle of a range of 1.
Range bin_range(Builder& b, Ref x, std::optional<std::pair<double, double>> given) {
  if (given && given->first != given->second) return {like(b, x, given->first), like(b, x, given->second)};
  if (given) return {like(b, x, given->first - 0.5), like(b, x, given->second + 0.5)};
  Ref least = b.reduce("ReduceMin", x, {}, false), most = b.reduce("ReduceMax", x, {}, false);
  Ref widen = b.mul(b.cast(b.op("Equal", {least, most}), x->dtype), like(b, x, 0.5));
  return {b.sub(least, widen), b.add(most, widen)};
}

// The bin that each element falls into, and whether there is one.
struct Binned {
  Ref position;
  Ref inside;
};

Binned binned(Builder& b, Ref x, Ref edges) {
  Dim bins = b.sym.sub(edges->shape[0], b.dim(1));
  auto edge = [&](int64_t i) { return b.select(edges, 0, b.dim(i)); };
  Ref inside = within(b, x, {edge(0), edge(-1)});
  Ref below = compare(b, "GreaterOrEqual", b.unsqueeze(x, {1}), edges);
  Ref position = b.sub(b.reduce("ReduceSum", b.cast(below, DType::Int64), {1}, false), integer(b, 1));
  position = maximum(b, minimum(b, position, b.symbolic(b.sym.sub(bins, b.dim(1)))), integer(b, 0));
  return {position, inside};
}

// Of points of as many dimensions as there are `edges`: [n, dimensions].
Ref histogram_of(Call& c, Ref points, const Vector<Ref>& edges) {
  Builder& b = c.onnx;
  Shape shape;
  Ref position = nullptr, inside = nullptr;
  for (size_t i = 0; i < edges.size(); ++i) {
    Dim bins = b.sym.sub(edges[i]->shape[0], b.dim(1));
    Binned here = binned(b, b.select(points, 1, b.dim(static_cast<int64_t>(i))), edges[i]);
    position = position ? b.add(b.mul(position, b.symbolic(bins)), here.position) : here.position;
    inside = inside ? b.op("And", {inside, here.inside}) : here.inside;
    shape.push_back(bins);
  }
  Ref weight = c.none("weight") ? like(b, points, 1) : flat(b, c.tensor("weight"));
  Ref hist = b.reshape(counted(b, position, b.where(inside, weight, like(b, points, 0)), b.numel(shape)), shape);
  if (!c.flag("density")) return hist;
  hist = b.div(hist, b.reduce("ReduceSum", hist, {}, false));
  for (size_t i = 0; i < edges.size(); ++i) {
    auto [later, sooner] = neighbors(b, edges[i], 0);
    Shape along(edges.size() - i, b.dim(1));
    along[0] = shape[i];
    hist = b.div(hist, b.reshape(b.sub(later, sooner), along));
  }
  return hist;
}

// Points of several dimensions; each has its own bins.
Value histogramdd(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  if (x->rank() < 2 || !x->shape.back().is_constant()) c.unsupported("points of an unknown number of dimensions");
  size_t dims = static_cast<size_t>(*x->shape.back().constant());
  Shape lead(x->shape.begin(), x->shape.end() - 1);
  Ref points = b.reshape(x, {b.numel(lead), x->shape.back()});
  Vector<double> range = c.none("range") ? Vector<double>{} : c.reals("range");
  if (!range.empty() && range.size() != 2 * dims) c.mismatch("a range for each dimension is needed");
  Vector<Ref> edges;
  const eval::SchemaArgument& bins = *c.schema.argument("bins");
  if (bins.kind == eval::SchemaArgument::Kind::Tensor) {
    edges = c.tensors("bins");
  } else {
    Vector<int64_t> counts =
        bins.list ? c.integers("bins") : known_elements(b.sym, static_cast<int64_t>(dims), c.integer("bins"));
    for (size_t i = 0; i < counts.size(); ++i) {
      std::optional<std::pair<double, double>> given;
      if (!range.empty()) given = {range[2 * i], range[2 * i + 1]};
      Ref along = b.select(points, 1, b.dim(static_cast<int64_t>(i)));
      edges.push_back(even_edges(b, bin_range(b, along, given), counts[i]));
    }
  }
  if (edges.size() != dims) c.mismatch("bins for each dimension are needed");
  return Value::tuple({histogram_of(c, points, edges), Value::list(edges)});
}

Value histogram(Call& c) {
  Builder& b = c.onnx;
  Ref x = flat(b, c.tensor("self")), edges = nullptr;
  if (c.schema.argument("bins")->kind == eval::SchemaArgument::Kind::Tensor) {
    edges = c.tensor("bins");
  } else {
    std::optional<std::pair<double, double>> given;
    if (!c.none("range")) given = {c.reals("range").at(0), c.reals("range").at(1)};
    edges = even_edges(b, bin_range(b, x, given), c.integer("bins"));
  }
  return Value::tuple({histogram_of(c, b.unsqueeze(x, {1}), {edges}), edges});
}

Ref removed(Builder& b, Ref x, int64_t axis, bool keep) { return keep ? x : b.squeeze(x, {axis}); }

// The most frequent element, the least of those, and the last place where it is.
Value mode(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self");
  if (x->rank() == 0) return Value::tuple({x, integer(b, 0)});
  int64_t axis = c.dim("dim", x->rank()), last = static_cast<int64_t>(x->rank()) - 1;
  Value sorted = c.call("aten::sort", {b.swap_dims(x, axis, last), c.number_value(last), false});
  Ref values = c.as_tensor(sorted.items()[0]), places = c.as_tensor(sorted.items()[1]);
  Ref equal = b.op("Equal", {b.unsqueeze(values, {last}), b.unsqueeze(values, {last + 1})});
  Ref times = b.reduce("ReduceSum", b.cast(equal, DType::Int64), {last + 1}, false);
  Ref first = b.op("ArgMax", {times}, {{"axis", last}});
  auto pick = [&](Ref v, Ref at) { return b.op("GatherElements", {v, at}, {{"axis", last}}); };
  Ref end = b.sub(b.add(first, pick(times, first)), integer(b, 1));
  auto result = [&](Ref v) { return removed(b, b.swap_dims(v, axis, last), axis, c.flag("keepdim")); };
  return Value::tuple({result(pick(values, first)), result(pick(places, end))});
}

// ---- quantiles ----------------------------------------------------------------------------------------------------

// q (1-D) of the last dimension, which becomes one of the size of q.
Ref quantiles(Call& c, Ref x, Ref q, bool without_nan) {
  Builder& b = c.onnx;
  int64_t last = static_cast<int64_t>(x->rank()) - 1;
  Ref missing = b.op("IsNaN", {x});
  auto sum = [&](Ref v) { return b.reduce("ReduceSum", b.cast(v, DType::Int64), {last}, true); };
  Ref present = without_nan ? sum(b.op("Not", {missing})) : nullptr;
  Ref greatest =
      b.sub(present ? b.cast(present, x->dtype) : b.cast(b.symbolic(size_of(x, last)), x->dtype), like(b, x, 1));
  Ref invalid = without_nan ? b.op("Equal", {present, integer(b, 0)}) : b.op("Greater", {sum(missing), integer(b, 0)});
  // What is not a number is last in the order.
  Value sorted = c.call("aten::sort", {b.where(missing, like(b, x, infinity), x), c.number_value(last), false});
  Ref values = c.as_tensor(sorted.items()[0]);
  Ref rank = b.mul(greatest, q);
  if (without_nan) rank = b.op("Relu", {rank});
  auto at = [&](Ref place) {
    place = b.cast(place, DType::Int64);
    return without_nan ? b.op("GatherElements", {values, place}, {{"axis", last}}) : b.gather(values, place, last);
  };
  std::string how = c.text("interpolation");
  Ref out = nullptr;
  if (how == "lower" || how == "higher" || how == "nearest") {
    out = at(b.op(how == "lower" ? "Floor" : how == "higher" ? "Ceil" : "Round", {rank}));
  } else if (how == "linear" || how == "midpoint") {
    Ref below = b.op("Floor", {rank});
    Ref weight = how == "linear" ? b.sub(rank, below) : b.mul(b.sub(b.op("Ceil", {rank}), below), like(b, x, 0.5));
    Ref low = at(below);
    out = call(c, "aten::lerp", {low, at(b.op("Ceil", {rank})), weight});
  } else {
    c.mismatch("there is no interpolation '" + how + "'");
  }
  return b.where(invalid, like(b, x, NAN), out);
}

Value quantile(Call& c, bool without_nan) {
  Builder& b = c.onnx;
  Ref x = c.tensor("self"), q = c.tensor_as("q", x->dtype);
  if (q->rank() > 1) c.mismatch("q has more than one dimension");
  bool whole = c.none("dim") || x->rank() == 0;
  int64_t axis = whole ? 0 : c.dim("dim", x->rank());
  Shape kept(x->rank(), b.dim(1));
  if (whole) {
    x = flat(b, x);
  } else {
    kept = x->shape;
    kept[static_cast<size_t>(axis)] = b.dim(1);
  }
  int64_t last = static_cast<int64_t>(x->rank()) - 1;
  Vector<int64_t> others;
  for (int64_t i = 0; i <= last; ++i)
    if (i != axis) others.push_back(i);
  Vector<int64_t> to_last = others;
  to_last.push_back(axis);
  Ref out = quantiles(c, b.transpose(x, to_last), b.reshape(q, {b.numel(q->shape)}), without_nan);
  Vector<int64_t> to_first{last};
  for (int64_t i = 0; i < last; ++i) to_first.push_back(i);
  out = b.transpose(out, to_first);
  Shape shape;
  if (q->rank() == 1) shape.push_back(q->shape[0]);
  if (c.flag("keepdim")) {
    shape.insert(shape.end(), kept.begin(), kept.end());
  } else if (!whole) {
    for (int64_t i : others) shape.push_back(size_of(x, i));
  }
  return b.reshape(out, shape);
}

// ---- covariance ---------------------------------------------------------------------------------------------------

Ref covariance(Call& c, Ref x, double correction, Ref frequencies, Ref importance) {
  Builder& b = c.onnx;
  if (x->rank() < 2) x = b.reshape(x, {b.dim(1), b.numel(x->shape)});
  if (importance) x = b.cast(x, eval::promote(x->dtype, importance->dtype));
  Ref weight = nullptr, norm = nullptr, mean = nullptr;
  if (frequencies) weight = b.cast(frequencies, x->dtype);
  if (importance) weight = weight ? b.mul(weight, b.cast(importance, x->dtype)) : b.cast(importance, x->dtype);
  Ref lost = like(b, x, correction);
  auto sum = [&](Ref v) { return b.reduce("ReduceSum", v, {}, false); };
  if (weight) {
    Ref all = sum(weight);
    mean = b.div(b.reduce("ReduceSum", b.mul(x, weight), {1}, true), all);
    if (importance) lost = b.div(b.mul(lost, sum(b.mul(weight, b.cast(importance, x->dtype)))), all);
    norm = b.sub(all, lost);
  } else {
    mean = b.reduce("ReduceMean", x, {1}, true);
    norm = b.sub(b.cast(b.symbolic(x->shape[1]), x->dtype), lost);
  }
  Ref apart = b.sub(x, mean);
  Ref product = b.matmul(apart, b.transpose(weight ? b.mul(apart, weight) : apart, {1, 0}));
  Ref out = b.div(product, maximum(b, norm, like(b, norm, 0)));
  return x->shape[0].is(1) ? b.reshape(out, {}) : out;
}

Value corrcoef(Call& c) {
  Builder& b = c.onnx;
  Ref cov = covariance(c, c.float_tensor("self"), 1, nullptr, nullptr);
  if (cov->rank() == 0) return b.div(cov, cov);
  Ref deviation = b.op("Sqrt", {call(c, "aten::diagonal", {cov})});
  Ref out = b.div(b.div(cov, b.unsqueeze(deviation, {1})), deviation);
  return clip(b, out, like(b, out, -1), like(b, out, 1));
}

// ---- segments -----------------------------------------------------------------------------------------------------

// Consecutive elements of an axis, by the lengths of the segments: lengths are [..., segments], data [..., axis, ...].
Value segment_reduce(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("data");
  int64_t axis = c.dim("axis", x->rank());
  if (!c.none("indices")) c.unsupported("segments by indices");
  Ref ends = nullptr, starts = nullptr;
  if (!c.none("lengths")) {
    Ref lengths = b.cast(c.tensor("lengths"), DType::Int64);
    ends = b.op("CumSum", {lengths, integer(b, axis)});
    starts = b.sub(ends, lengths);
  } else if (!c.none("offsets")) {
    auto [later, sooner] = neighbors(b, b.cast(c.tensor("offsets"), DType::Int64), axis);
    ends = later;
    starts = sooner;
  } else {
    c.mismatch("lengths or offsets are needed");
  }
  Ref place = arange(b, size_of(x, axis));
  auto column = [&](Ref v) { return b.unsqueeze(v, {axis + 1}); };
  Ref inside = b.op("And", {compare(b, "GreaterOrEqual", place, column(starts)), b.op("Less", {place, column(ends)})});
  Shape shape = inside->shape;
  shape.resize(x->rank() + 1, b.dim(1));
  std::string how = c.text("reduce");
  struct Kind {
    std::string_view name, op;
    double neutral;
  };
  static constexpr Kind kinds[] = {{"sum", "ReduceSum", 0},
                                   {"mean", "ReduceSum", 0},
                                   {"prod", "ReduceProd", 1},
                                   {"max", "ReduceMax", -infinity},
                                   {"min", "ReduceMin", infinity}};
  for (const Kind& kind : kinds) {
    if (kind.name != how) continue;
    Ref parts = b.where(b.reshape(inside, shape), b.unsqueeze(x, {axis}), like(b, x, kind.neutral));
    Ref out = b.reduce(kind.op, parts, {axis + 1}, false);
    Ref first = c.none("initial") ? nullptr : c.number("initial", x->dtype);
    if (first) {
      out = how == "prod"  ? b.mul(out, first)
            : how == "max" ? maximum(b, out, first)
            : how == "min" ? minimum(b, out, first)
                           : b.add(out, first);
    }
    if (how != "mean") return out;
    Shape lengths = ends->shape;
    lengths.resize(x->rank(), b.dim(1));
    Ref n = b.reshape(b.cast(b.sub(ends, starts), x->dtype), lengths);
    Ref mean = b.div(out, n);
    return first ? b.where(b.op("Equal", {n, like(b, n, 0)}), out, mean) : mean;
  }
  c.mismatch("there is no reduction '" + how + "'");
}

// ---- integrals and derivatives ------------------------------------------------------------------------------------

Ref pair_sums(Call& c, Ref y, int64_t axis) {
  auto [later, sooner] = neighbors(c.onnx, y, axis);
  return call(c, "aten::add", {later, sooner});
}

// The distances between points: a number, or the differences of x along the dimension of y.
Value distances(Call& c, Ref y, int64_t axis) {
  Builder& b = c.onnx;
  if (c.schema.argument("dx")) return c.arg("dx");
  Ref x = c.tensor("x");
  auto [later, sooner] = neighbors(b, x, x->rank() == 1 ? 0 : axis - static_cast<int64_t>(y->rank() - x->rank()));
  Ref apart = b.sub(later, sooner);
  if (x->rank() > 1) return apart;
  Shape shape(y->rank() - static_cast<size_t>(axis), b.dim(1));
  shape[0] = apart->shape[0];
  return b.reshape(apart, shape);
}

Value trapezoid(Call& c, bool cumulative) {
  Ref y = c.tensor("y");
  int64_t axis = c.dim("dim", y->rank());
  Ref areas = call(c, "aten::mul", {pair_sums(c, y, axis), distances(c, y, axis)});
  Ref sum = cumulative ? call(c, "aten::cumsum", {areas, c.number_value(axis)})
                       : call(c, "aten::sum", {areas, Value::list(Vector<Value>{c.number_value(axis)})});
  return call(c, "aten::true_divide", {sum, c.number_value(2)});
}

// The derivative along an axis: of the parabola through three points, at the middle one; at the ends of the line or the
// parabola there. `spacing` is a number, or the 1-D coordinates of the points.
Ref derivative(Call& c, Ref x, int64_t axis, const Value& spacing, bool parabola_at_ends) {
  Builder& b = c.onnx;
  bool even = !spacing.is_tensor() || spacing.tensor()->rank() == 0;
  auto [later, sooner] = neighbors(b, x, axis);
  Ref gaps = c.as_tensor(spacing, x->dtype);
  if (!even) {
    auto [right, left] = neighbors(b, gaps, 0);
    Shape column(x->rank() - static_cast<size_t>(axis), b.dim(1));
    column[0] = size_of(later, axis);
    gaps = b.reshape(b.sub(right, left), column);
  }
  Ref slopes = b.div(b.sub(later, sooner), gaps);
  struct Part {
    int64_t from, to;
  };
  auto slope = [&](Part p) { return b.slice(slopes, axis, b.dim(p.from), b.dim(p.to)); };
  auto gap = [&](Part p) { return b.slice(gaps, 0, b.dim(p.from), b.dim(p.to)); };
  // How much the slope changes from one part to the next, as far as the gap of the first goes.
  auto bend = [&](Part here, Part next) {
    Ref change = b.sub(slope(next), slope(here));
    if (even) return b.mul(change, like(b, x, 0.5));
    return b.mul(change, b.div(gap(here), b.add(gap(here), gap(next))));
  };
  Part head{0, -1}, tail{1, to_the_end}, first{0, 1}, second{1, 2}, last{-1, to_the_end}, last_but_one{-2, -1};
  Ref middle = b.add(slope(head), bend(head, tail));
  auto end = [&](Part here, Part next) {
    return parabola_at_ends ? b.sub(slope(here), bend(here, next)) : slope(here);
  };
  return b.concat({end(first, second), middle, end(last, last_but_one)}, axis);
}

Value gradient(Call& c) {
  Ref x = c.float_tensor("self");
  Vector<int64_t> axes;
  if (c.schema.argument("dim")->list) {
    axes = c.dims("dim", x->rank());
  } else if (!c.none("dim")) {
    axes = {c.dim("dim", x->rank())};
  } else {
    for (int64_t i = 0; i < static_cast<int64_t>(x->rank()); ++i) axes.push_back(i);
  }
  Vector<Value> spacing(axes.size(), c.number_value(1));
  if (c.schema.argument("spacing") && !c.none("spacing")) {
    const Value& given = c.arg("spacing");
    bool each = given.is_list() || given.is<eval::Tuple>();
    if (each && given.items().size() != axes.size()) c.mismatch("one spacing for each dimension is needed");
    for (size_t i = 0; i < axes.size(); ++i) spacing[i] = each ? given.items()[i] : given;
  }
  int64_t order = c.integer("edge_order");
  if (order != 1 && order != 2) c.mismatch("edge_order must be 1 or 2");
  Vector<Value> out;
  for (size_t i = 0; i < axes.size(); ++i) out.push_back(derivative(c, x, axes[i], spacing[i], order == 2));
  return Value::list(std::move(out));
}

}  // namespace

void register_statistics(eval::Registry& ops) {
  ops.add(
      "aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, "
      "Tensor, Tensor)",
      unique);
  ops.add("aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)", unique);
  ops.add(
      "aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) "
      "-> "
      "(Tensor, Tensor, Tensor)",
      unique);
  ops.add(
      "aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> "
      "(Tensor, Tensor, Tensor)",
      unique_consecutive);
  ops.add(
      "aten::unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) -> "
      "(Tensor, Tensor, Tensor)",
      unique_consecutive);

  ops.add("aten::bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor", bincount);
  ops.add("aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", histc);
  ops.add(
      "aten::histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor "
      "hist, Tensor bin_edges)",
      histogram);
  ops.add(
      "aten::histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool "
      "density=False) -> (Tensor hist, Tensor bin_edges)",
      histogram);
  for (std::string_view bins :
       {"(Tensor self, int[] bins", ".int_bins(Tensor self, int bins", ".TensorList_bins(Tensor self, Tensor[] bins"})
    ops.add(fmt::format("aten::histogramdd{}, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor "
                        "hist, Tensor[] bin_edges)",
                        bins),
            histogramdd);
  ops.add("aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", mode);

  for (bool without_nan : {false, true})
    for (std::string_view form :
         {"aten::{}(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
          "aten::{}.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> "
          "Tensor"})
      ops.add(fmt::format(fmt::runtime(form), without_nan ? "nanquantile" : "quantile"),
              [without_nan](Call& c) { return quantile(c, without_nan); });

  ops.add("aten::cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
          [](Call& c) -> Value {
            return covariance(c, c.float_tensor("self"), c.real("correction"), c.maybe_tensor("fweights"),
                              c.maybe_tensor("aweights"));
          });
  ops.add("aten::corrcoef(Tensor self) -> Tensor", corrcoef);
  ops.add(
      "aten::segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? "
      "offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
      segment_reduce);

  for (auto [name, cumulative] : {std::pair{"trapezoid", false}, {"trapz", false}, {"cumulative_trapezoid", true}})
    for (std::string_view form : {"aten::{}.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
                                  "aten::{}.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor"})
      ops.add(fmt::format(fmt::runtime(form), name),
              [cumulative = cumulative](Call& c) { return trapezoid(c, cumulative); });
  for (std::string_view form :
       {"scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None",
        "scalararray(Tensor self, *, Scalar spacing, int[] dim", "array(Tensor self, *, int[] dim",
        "scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None",
        "scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim",
        "tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None",
        "tensorarray(Tensor self, *, Tensor[] spacing, int[] dim"})
    ops.add(fmt::format("aten::gradient.{}, int edge_order=1) -> Tensor[]", form), gradient);
}

}  // namespace lithify::ops
