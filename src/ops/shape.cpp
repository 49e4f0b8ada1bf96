// Operators that give a tensor's elements another shape or order: mostly views.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "eval/evaluator.hpp"
#include "onnx/opdef.hpp"
#include "ops/elementwise.hpp"
#include "ops/register.hpp"
#include "ops/slicing.hpp"
#include "sym/contradiction.hpp"

namespace lithify::ops {
namespace {

using onnx::Builder;
using OnnxValue = onnx::Value;

Dim size_at(const OnnxValue* v, int64_t axis) { return v->rank() == 0 ? Dim() : at(v->shape, axis); }

// ---- the same elements under other sizes ------------------------------------------------------------------------

// The sizes with what -1 stands for. `total` is the number of elements.
Shape without_minus_one(Call& c, const std::vector<Dim>& sizes, Dim total) {
  Shape to = sizes;
  auto free = std::find_if(to.begin(), to.end(), [](Dim d) { return d.is(-1); });
  if (free == to.end()) return to;
  *free = c.sym.constant(1);
  Dim others = c.sym.product(to);
  if (others.is(0)) c.mismatch("a size of -1 cannot be told beside a size of 0");
  if (std::optional<Dim> quotient = c.sym.divide_exactly(total, others)) {
    *free = *quotient;
  } else if (total.is_constant() && others.is_constant()) {
    c.mismatch(fmt::format("{} elements do not divide into rows of {}", total.str(), others.str()));
  } else {
    *free = c.sym.floor_div(total, others);
  }
  return to;
}

Value reshaped(Call& c, Shape to) {
  return c.view(
      "self", [to](Builder& b, OnnxValue* x) { return b.reshape(x, to); },
      [](Builder& b, OnnxValue* base, OnnxValue* changed) { return b.reshape(changed, base->shape); }, true);
}

// PyTorch copies when the elements do not lie one after the other: then writes to the result do not reach self.
Value reshaped_or_copied(Call& c, Shape to) {
  if (c.arg("self").is_tensor() && c.arg("self").tensor()->dense()) return reshaped(c, std::move(to));
  return c.onnx.reshape(c.tensor("self"), to);
}

Shape flattened(Call& c, const Shape& from, int64_t start, int64_t end) {
  if (from.empty()) return {c.sym.constant(1)};
  if (start > end) c.mismatch("start_dim comes after end_dim");
  Shape to(from.begin(), from.begin() + start);
  to.push_back(
      c.sym.product(std::span(from).subspan(static_cast<size_t>(start), static_cast<size_t>(end - start + 1))));
  to.insert(to.end(), from.begin() + end + 1, from.end());
  return to;
}

Value unflatten(Call& c) {
  const Shape from = c.tensor("self")->shape;
  int64_t dim = c.dim("dim", from.size());
  Shape inner = without_minus_one(c, c.sizes("sizes"), at(from, dim));
  Shape to(from.begin(), from.begin() + dim);
  to.insert(to.end(), inner.begin(), inner.end());
  to.insert(to.end(), from.begin() + dim + 1, from.end());
  return reshaped(c, to);
}

// A dynamic dimension that stays when it is squeezed, since the sample has more than one element of it: that is told as
// a constraint, for at a size of 1 the result would have another rank.
bool taken_to_stay(Call& c, Dim size) {
  if (size.lower().value_or(0) >= 2) return true;
  if (c.sym.sample(size).value_or(1) < 2) return false;
  c.sym.assume({sym::Assumption::Kind::AtMost, c.sym.constant(2), size});
  return true;
}

// Drops the given dimensions where their size is 1; all others of the shape stay.
Value squeezed(Call& c, const std::vector<int64_t>& dims) {
  const Shape from = c.tensor("self")->shape;
  Shape to;
  for (int64_t i = 0; i < static_cast<int64_t>(from.size()); ++i) {
    Dim size = at(from, i);
    bool asked = std::find(dims.begin(), dims.end(), i) != dims.end();
    if (asked && !size.is_constant() && !taken_to_stay(c, size))
      c.unsupported(
          fmt::format("dimension {} has the dynamic size {}: the result would have fewer dimensions only when "
                      "it is 1",
                      i, size.str()));
    if (!asked || !size.is(1)) to.push_back(size);
  }
  return reshaped(c, to);
}

Value squeeze_all(Call& c) {
  const Shape from = c.tensor("self")->shape;
  Shape to;
  for (Dim size : from) {
    if (size.is(1)) continue;
    if (!size.is_constant() && !taken_to_stay(c, size) && c.sym.sample(size) == 1)
      c.unsupported(fmt::format("the dynamic size {} is 1 in the sample: say which dimensions to squeeze", size.str()));
    to.push_back(size);
  }
  return reshaped(c, to);
}

// ---- another order of dimensions ----------------------------------------------------------------------------------

Value permuted(Call& c, std::vector<int64_t> perm) {
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i)) c.mismatch("a dimension is given twice");
  if (std::is_sorted(perm.begin(), perm.end())) return reshaped(c, c.tensor("self")->shape);
  return c.view(
      "self", [perm](Builder& b, OnnxValue* x) { return b.transpose(x, perm); },
      [back = inverse_permutation(perm)](Builder& b, OnnxValue*, OnnxValue* changed) {
        return b.transpose(changed, back);
      });
}

std::vector<int64_t> in_order(const OnnxValue* x) {
  std::vector<int64_t> perm(x->rank());
  std::iota(perm.begin(), perm.end(), 0);
  return perm;
}

Value swapped(Call& c, int64_t a, int64_t b) {
  std::vector<int64_t> perm = in_order(c.tensor("self"));
  if (!perm.empty()) std::swap(perm[static_cast<size_t>(a)], perm[static_cast<size_t>(b)]);
  return permuted(c, perm);
}

Value swap_named(Call& c, std::string_view first, std::string_view second) {
  size_t rank = c.tensor("self")->rank();
  return swapped(c, c.dim(first, rank), c.dim(second, rank));
}

Value swap_last_two(Call& c) {
  int64_t rank = rank_of(c.tensor("self"));
  if (is_complex(c.tensor("self")->dtype)) c.unsupported("complex numbers");
  if (rank < 2) c.mismatch("a matrix is needed");
  return swapped(c, rank - 2, rank - 1);
}

Value moved(Call& c) {
  OnnxValue* x = c.tensor("self");
  std::vector<int64_t> from = c.dims("source", x->rank()), to = c.dims("destination", x->rank());
  if (from.size() != to.size()) c.mismatch("source and destination differ in length");
  std::vector<int64_t> perm(x->rank(), -1), rest;
  for (int64_t d : in_order(x))
    if (std::find(from.begin(), from.end(), d) == from.end()) rest.push_back(d);
  if (perm.empty()) return permuted(c, perm);
  for (size_t i = 0; i < from.size(); ++i) perm[static_cast<size_t>(to[i])] = from[i];
  auto next = rest.begin();
  for (int64_t& p : perm)
    if (p < 0 && next != rest.end()) p = *next++;
  return permuted(c, perm);
}

// ---- more elements ------------------------------------------------------------------------------------------------

Value expanded(Call& c, const std::vector<Dim>& sizes) {
  const Shape from = c.tensor("self")->shape;
  if (sizes.size() < from.size())
    c.mismatch(fmt::format("{} sizes are given for {} dimensions", sizes.size(), from.size()));
  size_t lead = sizes.size() - from.size();
  Shape to = sizes;
  for (size_t i = 0; i < to.size(); ++i) {
    if (i < lead) {
      if (to[i].is(-1)) c.mismatch("-1 stands for a dimension that is not there");
      continue;
    }
    Dim have = from[i - lead];
    if (to[i].is(-1) || to[i] == have) {
      to[i] = have;
    } else if (!have.is(1) && (to[i].is(1) || !c.sym.broadcast(have, to[i]))) {
      sym::disagree(have.is_constant() && to[i].is_constant(), {have, to[i], i},
                    fmt::format("{}: dimension {} of size {} cannot become {}", c.schema.full_name(), i, have.str(),
                                to[i].str()));
    }
  }
  auto forward = [to](Builder& b, OnnxValue* x) { return b.expand(x, to); };
  if (!(c.sym.product(to) == c.sym.product(from))) return c.view("self", forward);
  return c.view("self", forward,
                [](Builder& b, OnnxValue* base, OnnxValue* changed) { return b.reshape(changed, base->shape); });
}

OnnxValue* repeated(Call& c, OnnxValue* x, std::vector<Dim> repeats) {
  if (repeats.size() < x->rank())
    c.mismatch(fmt::format("{} repeats are given for {} dimensions", repeats.size(), x->rank()));
  Shape from(repeats.size() - x->rank(), c.sym.constant(1)), to;
  from.insert(from.end(), x->shape.begin(), x->shape.end());
  bool only_ones = true;
  for (size_t i = 0; i < repeats.size(); ++i) {
    to.push_back(c.sym.mul(from[i], repeats[i]));
    only_ones = only_ones && (repeats[i].is(1) || from[i].is(1));
  }
  if (only_ones) return c.onnx.expand(x, to);
  return c.onnx.op("Tile", {c.onnx.reshape(x, from), c.onnx.symbolic(repeats)});
}

// Each element of an axis `times` times in a row.
OnnxValue* interleaved(Builder& b, OnnxValue* x, Dim times, int64_t axis) {
  Dim size = at(x->shape, axis), total = b.sym.mul(size, times);
  Shape to = x->shape;
  at(to, axis) = total;
  if (size.is(1)) return b.expand(x, to);
  if (total.is_constant() && *total.constant() <= 1 << 14) {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < *total.constant(); ++i) indices.push_back(i / *times.constant());
    return b.gather(x, b.ints(indices), axis);
  }
  Shape wide = x->shape;
  wide.insert(wide.begin() + axis + 1, times);
  return b.reshape(b.expand(b.unsqueeze(x, {axis + 1}), wide), to);
}

// Position i as often as repeats[i] says: 0, 0, 1, 2, 2, 2, ...
OnnxValue* repeated_positions(Call& c, OnnxValue* repeats) {
  Builder& b = c.onnx;
  if (repeats->rank() != 1) c.mismatch("repeats must have one dimension");
  if (auto counts = repeats->contents ? known(*repeats->contents) : std::nullopt) {
    std::vector<int64_t> indices;
    for (size_t i = 0; i < counts->size(); ++i)
      for (int64_t k = 0; k < (*counts)[i]; ++k) indices.push_back(static_cast<int64_t>(i));
    return b.ints(indices);
  }
  // An output position belongs to as many entries as have their sum of repeats at or below it.
  repeats = b.cast(repeats, DType::Int64);
  OnnxValue* ends = b.op("CumSum", {repeats, b.scalar_int(DType::Int64, 0)});
  Dim total = c.none("output_size") ? b.symbol_of(b.reduce("ReduceSum", repeats, {0}, true), "repeated", 0)
                                    : c.size("output_size");
  OnnxValue* position = b.unsqueeze(arange(b, total), {1});
  OnnxValue* behind = b.op("Not", {b.op("Less", {position, ends})});
  return b.reduce("ReduceSum", b.cast(behind, DType::Int64), {1}, false);
}

Value repeat_interleave(Call& c, Dim times) {
  OnnxValue* x = c.tensor("self");
  bool flat = c.none("dim") || x->rank() == 0;
  if (flat) x = c.onnx.reshape(x, {c.onnx.numel(x->shape)});
  return interleaved(c.onnx, x, times, flat ? 0 : c.dim("dim", x->rank()));
}

Value repeat_interleave_by_tensor(Call& c) {
  OnnxValue* repeats = c.tensor("repeats");
  if (repeats->rank() == 0 || at(repeats->shape, 0).is(1))
    return repeat_interleave(c, c.onnx.symbol_of(repeats, "repeats", 0));
  OnnxValue* x = c.tensor("self");
  bool flat = c.none("dim") || x->rank() == 0;
  if (flat) x = c.onnx.reshape(x, {c.onnx.numel(x->shape)});
  return c.onnx.gather(x, repeated_positions(c, repeats), flat ? 0 : c.dim("dim", x->rank()));
}

Value meshgrid(Call& c, bool xy) {
  std::vector<OnnxValue*> in = c.tensors("tensors");
  Shape to;
  for (OnnxValue* v : in) {
    if (v->rank() > 1) c.mismatch("a tensor has more than one dimension");
    to.push_back(c.onnx.numel(v->shape));
  }
  xy = xy && in.size() >= 2;
  if (xy) std::swap(to[0], to[1]);
  std::vector<OnnxValue*> out;
  for (size_t i = 0; i < in.size(); ++i) {
    size_t axis = xy && i < 2 ? 1 - i : i;
    Shape own(in.size() - axis, c.sym.constant(1));
    own[0] = to[axis];
    out.push_back(c.onnx.expand(c.onnx.reshape(in[i], own), to));
  }
  return Value::list(out);
}

Value broadcast_tensors(Call& c) {
  std::vector<OnnxValue*> all = c.tensors("tensors");
  Shape to;
  for (OnnxValue* v : all) to = c.onnx.broadcast(to, v->shape);
  for (OnnxValue*& v : all) v = c.onnx.expand(v, to);
  return Value::list(all);
}

// ---- parts --------------------------------------------------------------------------------------------------------

Value unbind(Call& c) {
  OnnxValue* x = c.tensor("self");
  int64_t axis = c.dim("dim", x->rank());
  if (x->rank() == 0) c.mismatch("a 0-d tensor has nothing to unbind");
  std::optional<int64_t> count = size_at(x, axis).constant();
  if (!count && !c.evaluator.unpacked()) {
    auto list = std::make_shared<eval::List>();
    Value moved =
        axis == 0 ? c.arg("self") : c.call("aten::movedim", {c.arg("self"), c.number_value(axis), c.number_value(0)});
    list->head = moved.tensor();
    return list;
  }
  if (!count)
    c.unsupported(fmt::format("the number of results would depend on the dynamic size {}", size_at(x, axis).str()));
  std::vector<Value> out;
  for (int64_t i = 0; i < *count; ++i) out.push_back(part_view(c, Select{axis, c.sym.constant(i)}));
  return Value::list(std::move(out));
}

Value pieces(Call& c, int64_t axis, const std::vector<Dim>& lengths) {
  std::vector<Value> out;
  for (size_t i = 0; i < lengths.size(); ++i) out.push_back(part_view(c, Piece{axis, lengths, i}));
  return Value::list(std::move(out));
}

// Pieces of `each`, the last of what remains.
Value pieces_of(Call& c, int64_t axis, Dim size, Dim each, int64_t count) {
  std::vector<Dim> lengths(static_cast<size_t>(count), each);
  lengths.back() = c.sym.sub(size, c.sym.mul(each, c.sym.constant(count - 1)));
  return pieces(c, axis, lengths);
}

Value split_by_size(Call& c) {
  OnnxValue* x = c.tensor("self");
  int64_t axis = c.dim("dim", x->rank());
  Dim size = at(x->shape, axis), each = c.size("split_size");
  if (size.is(0) || each.is(0)) return pieces(c, axis, {size});
  std::optional<int64_t> count = c.sym.ceil_div(size, each).constant();
  if (!count) {
    const std::string what =
        fmt::format("the number of pieces of {} would depend on the dynamic size {}", each.str(), size.str());
    std::optional<int64_t> pieces_in_sample = c.sym.sample(c.sym.ceil_div(size, each));
    if (!pieces_in_sample || !each.is_constant()) c.unsupported(what);
    throw sym::Contradiction({size, c.sym.mul(each, c.sym.constant(*pieces_in_sample))},
                             fmt::format("{}: {}", c.schema.full_name(), what));
  }
  return pieces_of(c, axis, size, each, *count);
}

Value split_by_sizes(Call& c, std::string_view argument) {
  OnnxValue* x = c.tensor("self");
  std::vector<Dim> lengths = c.sizes(argument);
  const int64_t axis = c.dim("dim", x->rank());
  const Dim size = at(x->shape, axis);
  // Tracing writes down lengths that the model read from data.
  if (onnx::depends_on_data(c.sym, size) && std::ranges::all_of(lengths, &Dim::is_constant))
    c.unsupported(
        fmt::format("the size {} depends on data, and its {} lengths are numbers", size.str(), lengths.size()));
  return pieces(c, axis, lengths);
}

Value chunk(Call& c) {
  OnnxValue* x = c.tensor("self");
  int64_t axis = c.dim("dim", x->rank()), chunks = c.integer("chunks");
  Dim size = at(x->shape, axis);
  if (chunks < 1) c.mismatch("chunks must be at least 1");
  if (size.is(0)) return pieces(c, axis, std::vector<Dim>(static_cast<size_t>(chunks), size));
  Dim each = c.sym.ceil_div(size, c.sym.constant(chunks));
  // A dynamic size is taken to be large enough for all the chunks.
  int64_t count = c.sym.ceil_div(size, each).constant().value_or(chunks);
  return pieces_of(c, axis, size, each, count);
}

Value split_at(Call& c, int64_t axis, const std::vector<Dim>& indices) {
  OnnxValue* x = c.tensor("self");
  Dim size = at(x->shape, axis), before = c.sym.constant(0);
  std::vector<Dim> bounds{before}, lengths;
  for (Dim i : indices) bounds.push_back(clamped_bound(c.sym, i, size));
  bounds.push_back(size);
  for (size_t i = 1; i < bounds.size(); ++i) lengths.push_back(c.sym.sub(bounds[i], bounds[i - 1]));
  if (std::all_of(lengths.begin(), lengths.end(), [](Dim d) { return d.lower().value_or(-1) >= 0; }))
    return pieces(c, axis, lengths);
  // Bounds may cross: then a piece is empty, and they do not add up.
  std::vector<Value> out;
  for (size_t i = 0; i <= indices.size(); ++i) {
    Dim end = i < indices.size() ? indices[i] : c.sym.constant(to_the_end);
    out.push_back(part_view(c, python_slice(c.sym, axis, size, before, end, 1)));
    before = end;
  }
  return Value::list(std::move(out));
}

Value split_into(Call& c, int64_t axis, int64_t sections, bool evenly) {
  OnnxValue* x = c.tensor("self");
  Dim size = at(x->shape, axis), count = c.sym.constant(sections);
  if (sections < 1) c.mismatch("there must be at least 1 section");
  if (std::optional<Dim> each = c.sym.divide_exactly(size, count))
    return pieces(c, axis, std::vector<Dim>(static_cast<size_t>(sections), *each));
  if (evenly && size.is_constant()) c.mismatch(fmt::format("{} does not divide into {}", size.str(), sections));
  std::vector<Dim> lengths;
  // The first size % sections pieces have one element more.
  for (int64_t i = 0; i < sections; ++i)
    lengths.push_back(c.sym.floor_div(c.sym.add(size, c.sym.constant(sections - 1 - i)), count));
  return pieces(c, axis, lengths);
}

// Positions that are known only at run time. Slice counts them from the end and clamps them as Python does.
Value split_at_run_time(Call& c, int64_t axis, OnnxValue* positions) {
  std::optional<int64_t> count = positions->shape[0].constant();
  if (!count) c.unsupported("the number of positions must be known at export");
  Builder& b = c.onnx;
  std::vector<Value> out;
  OnnxValue *before = b.ints({0}), *last = b.ints({to_the_end});
  for (int64_t i = 0; i <= *count; ++i) {
    OnnxValue* end = i < *count ? b.slice(positions, 0, b.dim(i), b.dim(i + 1)) : last;
    out.push_back(c.view("self", [axis, before, end](Builder& b, OnnxValue* x) {
      return b.op("Slice", {x, before, end, b.ints({axis})});
    }));
    before = end;
  }
  return Value::list(std::move(out));
}

Value tensor_split(Call& c) {
  OnnxValue* x = c.tensor("self");
  int64_t axis = c.dim("dim", x->rank());
  OnnxValue* by = c.tensor("tensor_indices_or_sections");
  if (by->rank() == 1) return by->contents ? split_at(c, axis, *by->contents) : split_at_run_time(c, axis, by);
  std::optional<int64_t> sections = by->contents ? by->contents->front().constant() : std::nullopt;
  // What is unpacked into some names has as many sections, whatever the number at run time is called.
  if (!sections && c.evaluator.unpacked()) sections = static_cast<int64_t>(c.evaluator.unpacked());
  if (!sections) c.unsupported("the number of sections must be known at export");
  return split_into(c, axis, *sections, false);
}

// hsplit, vsplit and dsplit are tensor_split of one dimension.
int64_t split_axis(Call& c, int64_t axis) {
  int64_t rank = rank_of(c.tensor("self"));
  if (axis == 1 && rank == 1) axis = 0;
  if (rank <= axis) c.mismatch(fmt::format("a tensor of {} dimensions cannot be split like this", rank));
  return axis;
}

Value narrow(Call& c, Dim start) {
  OnnxValue* x = c.tensor("self");
  int64_t axis = c.dim("dim", x->rank());
  Dim length = c.size("length"), size = at(x->shape, axis);
  start = from_the_end(c.sym, start, size);
  if (start.is(0) && length == size) return reshaped(c, x->shape);
  Dim end = c.sym.add(start, length);
  if (start.upper().value_or(0) < 0 && end.is(0)) end = c.sym.constant(to_the_end);
  return part_view(c, Slice{axis, start, from_the_end(c.sym, end, size), 1, length});
}

// Windows of an axis; the elements of a window become the last dimension.
OnnxValue* windows(Builder& b, OnnxValue* x, int64_t axis, int64_t size, int64_t step) {
  Dim length = at(x->shape, axis);
  Dim count = b.sym.add(b.sym.floor_div(b.sym.sub(length, b.dim(size)), b.dim(step)), b.dim(1));
  OnnxValue* y = nullptr;
  if (size == step) {
    Shape to = x->shape;
    at(to, axis) = count;
    to.insert(to.begin() + axis + 1, b.dim(size));
    Dim covered = b.sym.mul(count, b.dim(size));
    y = b.reshape(Slice{axis, b.dim(0), covered, 1, covered}.take(b, x), to);
  } else if (count.is_constant()) {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < *count.constant(); ++i)
      for (int64_t j = 0; j < size; ++j) indices.push_back(i * step + j);
    y = b.gather(x, int_array(b, indices, {*count.constant(), size}), axis);
  } else {
    Dim limit = b.sym.add(b.sym.sub(length, b.dim(size)), b.dim(1));
    OnnxValue* starts = b.unsqueeze(range(b, b.dim(0), limit, b.dim(step), count), {1});
    y = b.gather(x, b.add(starts, arange(b, b.dim(size))), axis);
  }
  std::vector<int64_t> perm = in_order(y);
  perm.erase(perm.begin() + axis + 1);
  perm.push_back(axis + 1);
  return b.transpose(y, perm);
}

Value unfold(Call& c) {
  OnnxValue* x = c.tensor("self");
  int64_t size = c.integer("size"), step = c.integer("step");
  if (step < 1) c.mismatch("step must be positive");
  if (x->rank() == 0) return reshaped(c, Shape{c.sym.constant(size)});
  int64_t axis = c.dim("dimension", x->rank());
  auto forward = [=](Builder& b, OnnxValue* v) { return windows(b, v, axis, size, step); };
  if (size != step || !c.sym.divide_exactly(at(x->shape, axis), c.sym.constant(size))) return c.view("self", forward);
  return c.view("self", forward, [axis](Builder& b, OnnxValue* base, OnnxValue* changed) {
    std::vector<int64_t> perm = in_order(changed);
    perm.pop_back();
    perm.insert(perm.begin() + axis + 1, static_cast<int64_t>(perm.size()));
    return b.reshape(b.transpose(changed, perm), base->shape);
  });
}

/// Positions in the memory of a contiguous tensor: from `offset`, as many in each dimension as its size, a stride
/// apart.
struct Strided {
  Shape sizes, strides;
  Dim offset;

  /// The positions themselves, where they are numbers.
  std::optional<std::vector<int64_t>> numbers() const {
    auto counts = known(sizes), steps = known(strides);
    if (!counts || !steps || !offset.is_constant()) return std::nullopt;
    if (std::ranges::any_of(*counts, [](int64_t n) { return n < 1; })) return std::vector<int64_t>{};
    std::vector<int64_t> out{*offset.constant()};
    for (size_t i = 0; i < counts->size(); ++i) {
      std::vector<int64_t> next;
      for (int64_t p : out)
        for (int64_t k = 0; k < (*counts)[i]; ++k) next.push_back(p + k * (*steps)[i]);
      out = std::move(next);
    }
    return out;
  }

  OnnxValue* positions(Builder& b) const {
    if (auto all = numbers()) return int_array(b, *all, *known(sizes));
    OnnxValue* sum = b.symbolic(offset);
    for (size_t i = 0; i < sizes.size(); ++i) {
      Shape along(sizes.size() - i, b.dim(1));
      along[0] = sizes[i];
      sum = b.add(sum, b.reshape(b.mul(arange(b, sizes[i]), b.symbolic(strides[i])), along));
    }
    return sum;
  }

  OnnxValue* take(Builder& b, OnnxValue* x) const { return b.gather(flat(b, x), positions(b), 0); }
};

Strided strided(Call& c) {
  OnnxValue* x = c.tensor("self");
  const Dim one = c.sym.constant(1), zero = c.sym.constant(0);
  if (!c.tensor_ref("self")->dense()) c.unsupported("strides of a tensor that is not contiguous");
  Strided s{c.sizes("size"), c.sizes("stride"), c.none("storage_offset") ? zero : c.size("storage_offset")};
  if (s.sizes.size() != s.strides.size()) c.mismatch("size and stride differ in length");
  const Dim count = c.sym.product(s.sizes), memory = c.sym.product(x->shape);
  if (count.is_constant() && *count.constant() > 1 << 20) c.unsupported("more than a million elements");
  Dim end = c.sym.add(s.offset, one);
  for (size_t i = 0; i < s.sizes.size(); ++i) end = c.sym.add(end, c.sym.mul(s.strides[i], c.sym.sub(s.sizes[i], one)));
  if (memory.is_constant() && end.is_constant()) {
    if (!count.is(0) && *end.constant() > *memory.constant())
      c.mismatch(fmt::format("{} elements are reached of {}", end.str(), memory.str()));
  } else if (c.sym.equal(end, memory) != true) {
    // Sizes and strides of the sample would take other elements at other sizes: trust those that take the last one.
    throw sym::Contradiction({end, memory}, fmt::format("{}: the last of {} elements is not known to be the last of {}",
                                                        c.schema.full_name(), end.str(), memory.str()));
  }
  return s;
}

Value as_strided(Call& c) {
  return c.view("self", [s = strided(c)](Builder& b, OnnxValue* v) { return s.take(b, v); });
}

Value as_strided_scatter(Call& c) {
  Builder& b = c.onnx;
  OnnxValue* x = c.tensor("self");
  auto positions = strided(c).numbers();
  if (!positions) c.unsupported("dynamic sizes");
  if (std::set<int64_t>(positions->begin(), positions->end()).size() != positions->size())
    c.unsupported("positions that overlap");
  auto n = static_cast<int64_t>(positions->size());
  OnnxValue* source = b.reshape(c.tensor_as("src", x->dtype), {b.dim(n)});
  return b.reshape(b.op("ScatterND", {flat(b, x), int_array(b, *positions, {n, 1}), source}), x->shape);
}

Value diag(Call& c) {
  OnnxValue* x = c.tensor("self");
  Diagonal d{c.integer("diagonal"), 0, 1};
  if (x->rank() == 1) return d.embed(c.onnx, x);
  if (x->rank() != 2) c.mismatch("a vector or matrix is needed");
  return d.take(c.onnx, x);
}

// ---- blocks of an image -------------------------------------------------------------------------------------------

Shape joined(Shape batch, std::initializer_list<Dim> sizes) {
  batch.insert(batch.end(), sizes);
  return batch;
}

// The last four dimensions in another order.
std::vector<int64_t> last_permuted(const OnnxValue* x, std::initializer_list<int64_t> order) {
  std::vector<int64_t> perm = in_order(x);
  std::transform(order.begin(), order.end(), perm.end() - 4, [&](int64_t i) { return i + rank_of(x) - 4; });
  return perm;
}

Value pixel_shuffle(Call& c) {
  OnnxValue* x = c.tensor("self");
  int64_t factor = c.integer("upscale_factor");
  if (x->rank() < 3) c.mismatch("at least 3 dimensions are needed");
  Shape batch(x->shape.begin(), x->shape.end() - 3);
  Dim r = c.sym.constant(factor), height = x->shape.end()[-2], width = x->shape.end()[-1];
  std::optional<Dim> channels = c.sym.divide_exactly(x->shape.end()[-3], c.sym.mul(r, r));
  if (!channels) c.mismatch(fmt::format("{} channels do not divide by {}", x->shape.end()[-3].str(), factor * factor));
  Shape to = joined(batch, {*channels, c.sym.mul(height, r), c.sym.mul(width, r)});
  if (is_float(x->dtype)) {
    OnnxValue* flat = c.onnx.reshape(x, {c.sym.product(batch), x->shape.end()[-3], height, width});
    return c.onnx.reshape(c.onnx.op("DepthToSpace", {flat}, {{"blocksize", factor}, {"mode", std::string("CRD")}}), to);
  }
  OnnxValue* blocks = c.onnx.reshape(x, joined(batch, {*channels, r, r, height, width}));
  return c.onnx.reshape(c.onnx.transpose(blocks, last_permuted(blocks, {2, 0, 3, 1})), to);
}

Value pixel_unshuffle(Call& c) {
  OnnxValue* x = c.tensor("self");
  int64_t factor = c.integer("downscale_factor");
  if (x->rank() < 3) c.mismatch("at least 3 dimensions are needed");
  Shape batch(x->shape.begin(), x->shape.end() - 3);
  Dim r = c.sym.constant(factor), channels = x->shape.end()[-3];
  Dim height = c.sym.floor_div(x->shape.end()[-2], r), width = c.sym.floor_div(x->shape.end()[-1], r);
  Shape to = joined(batch, {c.sym.mul(channels, c.sym.mul(r, r)), height, width});
  if (is_float(x->dtype) && channels.is_constant()) {
    Shape flat = joined({c.sym.product(batch)}, {channels, x->shape.end()[-2], x->shape.end()[-1]});
    OnnxValue* y = c.onnx.op("SpaceToDepth", {c.onnx.reshape(x, flat)}, {{"blocksize", factor}});
    // ONNX has the channels of the image innermost, PyTorch has them outermost.
    std::vector<int64_t> order;
    for (int64_t i = 0; i < *channels.constant(); ++i)
      for (int64_t k = 0; k < factor * factor; ++k) order.push_back(k * *channels.constant() + i);
    return c.onnx.reshape(channels.is(1) ? y : c.onnx.gather(y, c.onnx.ints(order), 1), to);
  }
  OnnxValue* blocks = c.onnx.reshape(x, joined(batch, {channels, height, r, width, r}));
  return c.onnx.reshape(c.onnx.transpose(blocks, last_permuted(blocks, {1, 3, 0, 2})), to);
}

Value channel_shuffle(Call& c) {
  OnnxValue* x = c.tensor("self");
  if (x->rank() < 3) c.mismatch("at least 3 dimensions are needed");
  int64_t groups = c.integer("groups");
  std::optional<int64_t> channels = x->shape[1].constant();
  if (!channels) c.unsupported("a dynamic number of channels");
  if (groups < 1 || *channels % groups != 0)
    c.mismatch(fmt::format("{} channels do not divide into {} groups", *channels, groups));
  std::vector<int64_t> order;
  for (int64_t i = 0; i < *channels / groups; ++i)
    for (int64_t g = 0; g < groups; ++g) order.push_back(g * (*channels / groups) + i);
  return c.onnx.gather(x, c.onnx.ints(order), 1);
}

}  // namespace

void register_shape(eval::Registry& ops) {
  auto each = [&](std::initializer_list<const char*> schemas, eval::RuleFunction rule) {
    for (const char* s : schemas) ops.add(s, rule);
  };

  // ---- the same elements under other sizes
  each({"aten::view(Tensor(a) self, int[] size) -> Tensor(a)", "aten::_unsafe_view(Tensor self, int[] size) -> Tensor",
        "aten::_reshape_alias(Tensor(a) self, int[] size, int[] stride) -> Tensor(a)"},
       [](Call& c) {
         return reshaped(c, without_minus_one(c, c.sizes("size"), c.onnx.numel(c.tensor("self")->shape)));
       });
  ops.add("aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", [](Call& c) -> Value {
    if (c.maybe_dtype("dtype") == c.tensor("self")->dtype) return reshaped(c, c.tensor("self")->shape);
    c.unsupported("ONNX cannot take the bytes of one type for another");
  });
  ops.add("aten::reshape(Tensor(a) self, int[] shape) -> Tensor(a)", [](Call& c) {
    return reshaped_or_copied(c, without_minus_one(c, c.sizes("shape"), c.onnx.numel(c.tensor("self")->shape)));
  });
  ops.add("aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
          [](Call& c) { return reshaped(c, c.tensor("other")->shape); });
  ops.add("aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)",
          [](Call& c) { return reshaped_or_copied(c, c.tensor("other")->shape); });
  ops.add("aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", [](Call& c) {
    const Shape from = c.tensor("self")->shape;
    return reshaped_or_copied(c, flattened(c, from, c.dim("start_dim", from.size()), c.dim("end_dim", from.size())));
  });
  ops.add("aten::ravel(Tensor(a) self) -> Tensor(a)",
          [](Call& c) { return reshaped_or_copied(c, {c.onnx.numel(c.tensor("self")->shape)}); });
  ops.add("aten::unflatten.int(Tensor(a) self, int dim, int[] sizes) -> Tensor(a)", unflatten);
  ops.add("aten::squeeze(Tensor(a) self) -> Tensor(a)", squeeze_all);
  each({"aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
        "aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)"},
       [](Call& c) { return squeezed(c, c.dims("dim", c.tensor("self")->rank())); });
  ops.add("aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", [](Call& c) {
    Shape to = c.tensor("self")->shape;
    to.insert(to.begin() + c.new_dim("dim", to.size()), c.sym.constant(1));
    return reshaped(c, to);
  });
  for (size_t n : {1, 2, 3}) {
    ops.add(fmt::format("aten::atleast_{}d(Tensor self) -> Tensor", n),
            [n](Call& c) { return reshaped(c, at_least(c.sym, c.tensor("self")->shape, n)); });
    ops.add(fmt::format("aten::atleast_{}d.Sequence(Tensor[] tensors) -> Tensor[]", n), [n](Call& c) {
      std::vector<OnnxValue*> out;
      for (OnnxValue* v : c.tensors("tensors")) out.push_back(c.onnx.reshape(v, at_least(c.sym, v->shape, n)));
      return Value::list(out);
    });
  }

  // ---- another order of dimensions
  ops.add("aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
          [](Call& c) { return swap_named(c, "dim0", "dim1"); });
  ops.add("aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
          [](Call& c) { return swap_named(c, "dim0", "dim1"); });
  ops.add("aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)",
          [](Call& c) { return swap_named(c, "axis0", "axis1"); });
  ops.add("aten::t(Tensor(a) self) -> Tensor(a)", [](Call& c) {
    size_t rank = c.tensor("self")->rank();
    if (rank > 2) c.mismatch(fmt::format("a tensor of {} dimensions is not a matrix", rank));
    return swapped(c, 0, rank == 2 ? 1 : 0);
  });
  ops.add("aten::numpy_T(Tensor(a) self) -> Tensor(a)", [](Call& c) {
    std::vector<int64_t> perm = in_order(c.tensor("self"));
    std::reverse(perm.begin(), perm.end());
    return permuted(c, perm);
  });
  each({"aten::mT(Tensor(a) self) -> Tensor(a)", "aten::mH(Tensor(a) self) -> Tensor(a)",
        "aten::matrix_H(Tensor(a) self) -> Tensor(a)", "aten::adjoint(Tensor(a) self) -> Tensor(a)"},
       swap_last_two);
  ops.add("aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)", [](Call& c) {
    size_t rank = c.tensor("self")->rank();
    std::vector<int64_t> perm = c.dims("dims", rank);
    if (perm.size() != rank) c.mismatch(fmt::format("{} dimensions are given for a tensor of {}", perm.size(), rank));
    return permuted(c, perm);
  });
  each({"aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
        "aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
        "aten::moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
        "aten::moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"},
       moved);

  // ---- more elements
  ops.add("aten::expand(Tensor(a) self, int[] size, *, bool implicit=False) -> Tensor(a)",
          [](Call& c) { return expanded(c, c.sizes("size")); })
      .numbers({{"size", Role::Fill}});
  ops.add("aten::broadcast_to(Tensor(a) self, int[] size) -> Tensor(a)",
          [](Call& c) { return expanded(c, c.sizes("size")); });
  ops.add("aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)",
          [](Call& c) { return expanded(c, c.tensor("other")->shape); });
  ops.add("aten::repeat(Tensor self, int[] repeats) -> Tensor",
          [](Call& c) -> Value { return repeated(c, c.tensor("self"), c.sizes("repeats")); })
      .numbers({{"repeats", Role::Fill}});
  ops.add("aten::tile(Tensor self, int[] dims) -> Tensor", [](Call& c) -> Value {
    std::vector<Dim> repeats = c.sizes("dims");
    size_t rank = c.tensor("self")->rank();
    if (repeats.size() < rank) repeats.insert(repeats.begin(), rank - repeats.size(), c.sym.constant(1));
    return repeated(c, c.tensor("self"), repeats);
  });
  ops.add(
      "aten::repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, int? output_size=None) -> Tensor",
      [](Call& c) { return repeat_interleave(c, c.size("repeats")); });
  ops.add(
      "aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, int? output_size=None) -> "
      "Tensor",
      repeat_interleave_by_tensor);
  ops.add("aten::repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor", [](Call& c) -> Value {
    return c.onnx.cast(repeated_positions(c, c.tensor("repeats")), c.tensor("repeats")->dtype);
  });
  ops.add("aten::meshgrid(Tensor[] tensors) -> Tensor[]", [](Call& c) { return meshgrid(c, false); });
  ops.add("aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]",
          [](Call& c) { return meshgrid(c, c.text("indexing") == "xy"); });
  ops.add("aten::broadcast_shapes(int[] a, int[] b) -> int[]", [](Call& c) -> Value {
    std::vector<Value> sizes;
    for (Dim d : c.onnx.broadcast(c.sizes("a"), c.sizes("b"))) sizes.push_back(d);
    return Value::list(std::move(sizes));
  });
  ops.add("aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]", broadcast_tensors);

  // ---- parts
  ops.add("aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", unbind);
  for (const char* schema : {"aten::split.Tensor(Tensor(a -> *) self, int split_size, int dim=0) -> Tensor(a)[]",
                             "aten::unsafe_split.Tensor(Tensor self, int split_size, int dim=0) -> Tensor[]"})
    ops.add(schema, split_by_size).numbers({{"split_size", Role::Size, "dim"}});
  ops.add("aten::split.sizes(Tensor(a -> *) self, int[] split_size, int dim=0) -> Tensor(a)[]",
          [](Call& c) { return split_by_sizes(c, "split_size"); })
      .numbers({{"split_size", Role::Size, "dim"}});
  for (const char* schema : {"aten::split(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]",
                             "aten::split_with_sizes(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]",
                             "aten::unsafe_split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]"})
    ops.add(schema, [](Call& c) { return split_by_sizes(c, "split_sizes"); })
        .numbers({{"split_sizes", Role::Size, "dim"}});
  each({"aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
        "aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]"},
       chunk);
  ops.add("aten::tensor_split.sections(Tensor(a -> *) self, int sections, int dim=0) -> Tensor(a)[]",
          [](Call& c) { return split_into(c, c.dim("dim", c.tensor("self")->rank()), c.integer("sections"), false); });
  ops.add("aten::tensor_split.indices(Tensor(a -> *) self, int[] indices, int dim=0) -> Tensor(a)[]",
          [](Call& c) { return split_at(c, c.dim("dim", c.tensor("self")->rank()), c.sizes("indices")); });
  ops.add(
      "aten::tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, int "
      "dim=0) "
      "-> Tensor(a)[]",
      tensor_split);
  for (auto [letter, axis] : {std::pair{'v', 0}, {'h', 1}, {'d', 2}}) {
    ops.add(fmt::format("aten::{}split.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", letter),
            [axis](Call& c) { return split_into(c, split_axis(c, axis), c.integer("sections"), true); });
    ops.add(fmt::format("aten::{}split.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", letter),
            [axis](Call& c) { return split_at(c, split_axis(c, axis), c.sizes("indices")); });
  }
  ops.add("aten::narrow(Tensor(a) self, int dim, int start, int length) -> Tensor(a)",
          [](Call& c) { return narrow(c, c.size("start")); })
      .numbers({{"start", Role::Position, "dim"}, {"length", Role::Position, "dim"}});
  ops.add("aten::narrow.Tensor(Tensor(a) self, int dim, Tensor start, int length) -> Tensor(a)",
          [](Call& c) { return narrow(c, c.onnx.symbol_of(c.tensor("start"), "start")); });
  ops.add("aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", unfold);
  ops.add("aten::as_strided(Tensor(a) self, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)",
          as_strided);
  ops.add(
      "aten::as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
      as_strided_scatter);
  ops.add("aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
          [](Call& c) { return part_view(c, diagonal_of(c, c.tensor("self")->rank())); });
  ops.add("aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)",
          [](Call& c) { return part_view(c, diagonal_of(c, c.tensor("A")->rank()), "A"); });
  ops.add("aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", [](Call& c) -> Value {
    return diagonal_of(c, c.tensor("self")->rank() + 1).embed(c.onnx, c.tensor("self"));
  });
  ops.add("aten::diag(Tensor self, int diagonal=0) -> Tensor", diag);
  ops.add("aten::diagflat(Tensor self, int offset=0) -> Tensor", [](Call& c) -> Value {
    OnnxValue* x = c.tensor("self");
    return Diagonal{c.integer("offset"), 0, 1}.embed(c.onnx, c.onnx.reshape(x, {c.onnx.numel(x->shape)}));
  });

  // ---- blocks of an image
  ops.add("aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", pixel_shuffle);
  ops.add("aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", pixel_unshuffle);
  each({"aten::channel_shuffle(Tensor self, int groups) -> Tensor",
        "aten::native_channel_shuffle(Tensor self, int groups) -> Tensor"},
       channel_shuffle);
}

}  // namespace lithify::ops
