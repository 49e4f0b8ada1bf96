// Operators that take pieces of a dimension: unbind, split, chunk, narrow.
#include <fmt/format.h>

#include <algorithm>

#include "eval/evaluator.hpp"
#include "onnx/opdef.hpp"
#include "ops/reshape.hpp"
#include "ops/slicing.hpp"
#include "sym/contradiction.hpp"

namespace lithify::ops {
namespace {

using onnx::Builder;
using OnnxValue = onnx::Value;

Value unbind(Call& c) {
  OnnxValue* x = c.tensor("self");
  int64_t axis = c.dim("dim", x->rank());
  if (x->rank() == 0) c.mismatch("a 0-d tensor has nothing to unbind");
  std::optional<int64_t> count = at(x->shape, axis).constant();
  if (!count && !c.evaluator.unpacked()) {
    auto list = std::make_shared<eval::List>();
    Value moved =
        axis == 0 ? c.arg("self") : c.call("aten::movedim", {c.arg("self"), c.number_value(axis), c.number_value(0)});
    list->head = moved.tensor();
    return list;
  }
  if (!count)
    c.unsupported(fmt::format("the number of results would depend on the dynamic size {}", at(x->shape, axis).str()));
  make_elements(c, static_cast<size_t>(*count));
  Vector<Value> out;
  for (int64_t i = 0; i < *count; ++i) out.push_back(part_view(c, Select{axis, c.sym.constant(i)}));
  return Value::list(std::move(out));
}

/// Asks the budget for pieces, each of which is found among all.
size_t counted_pieces(Call& c, int64_t count) {
  constexpr int64_t cheap = 16;
  make_elements(c, static_cast<size_t>(checked_mul(count, std::max<int64_t>(count / cheap, 1))));
  return static_cast<size_t>(count);
}

Value pieces(Call& c, int64_t axis, const Vector<Dim>& lengths) {
  const auto all = std::make_shared<const Vector<Dim>>(lengths);
  Vector<Value> out;
  for (size_t i = 0; i < lengths.size(); ++i) out.push_back(part_view(c, Piece{axis, all, i}));
  return Value::list(std::move(out));
}

// Pieces of `each`, the last of what remains.
Value pieces_of(Call& c, int64_t axis, Dim size, Dim each, int64_t count) {
  Vector<Dim> lengths(counted_pieces(c, count), each);
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
  Vector<Dim> lengths = c.sizes(argument);
  const int64_t axis = c.dim("dim", x->rank());
  const Dim size = at(x->shape, axis);
  // Tracing makes constants of lengths that the model read from data.
  if (onnx::depends_on_data(c.sym, size) && std::ranges::all_of(lengths, &Dim::is_constant))
    c.unsupported(
        fmt::format("the size {} depends on data, and its {} lengths are numbers", size.str(), lengths.size()));
  return pieces(c, axis, lengths);
}

// There are as many pieces as in the sample; at some sizes there would be fewer, and at others up to `most`.
void assume_pieces(Call& c, Dim size, Dim each, int64_t count, int64_t most) {
  using Kind = sym::Assumption::Kind;
  const Dim before = c.sym.mul(each, c.sym.constant(count - 1));
  c.sym.assume({Kind::AtMost, c.sym.add(before, c.sym.constant(1)), size});
  if (count < most) c.sym.assume({Kind::AtMost, size, c.sym.add(before, each)});
}

Value chunk(Call& c) {
  OnnxValue* x = c.tensor("self");
  int64_t axis = c.dim("dim", x->rank()), chunks = c.integer("chunks");
  Dim size = at(x->shape, axis);
  if (chunks < 1) c.mismatch("chunks must be at least 1");
  if (size.is(0)) return pieces(c, axis, Vector<Dim>(counted_pieces(c, chunks), size));
  Dim each = c.sym.ceil_div(size, c.sym.constant(chunks));
  const Dim made = c.sym.ceil_div(size, each);
  const int64_t count = made.constant().value_or(c.sym.sample(made).value_or(chunks));
  if (!made.is_constant()) assume_pieces(c, size, each, count, chunks);
  return pieces_of(c, axis, size, each, count);
}

Value split_at(Call& c, int64_t axis, const Vector<Dim>& indices) {
  OnnxValue* x = c.tensor("self");
  Dim size = at(x->shape, axis), before = c.sym.constant(0);
  Vector<Dim> bounds{before}, lengths;
  for (Dim i : indices) bounds.push_back(clamped_bound(c.sym, i, size));
  bounds.push_back(size);
  for (size_t i = 1; i < bounds.size(); ++i) lengths.push_back(c.sym.sub(bounds[i], bounds[i - 1]));
  if (std::all_of(lengths.begin(), lengths.end(), [](Dim d) { return d.lower().value_or(-1) >= 0; }))
    return pieces(c, axis, lengths);
  // Bounds may cross: then a piece is empty, and they do not add up.
  Vector<Value> out;
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
    return pieces(c, axis, Vector<Dim>(counted_pieces(c, sections), *each));
  if (evenly && size.is_constant()) c.mismatch(fmt::format("{} does not divide into {}", size.str(), sections));
  counted_pieces(c, sections);
  Vector<Dim> lengths;
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
  Vector<Value> out;
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
  if (by->rank() > 1) c.mismatch("the positions have more than one dimension");
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
  // An end that is counted from the end as well is known only of a length that is.
  if (start.is_constant() && *start.constant() < 0 && !length.is_constant()) start = c.sym.add(start, size);
  Dim end = c.sym.add(start, length);
  const Dim most =
      start.upper().value_or(0) < 0 ? c.sym.constant(0) : size;  // of an end from the end, and from the start
  if ((most.is(0) || start.lower().value_or(-1) >= 0) && c.sym.less(most, end) == true)
    c.mismatch(fmt::format("positions up to {} of a size of {}", end.str(), size.str()));
  if (start.lower().value_or(-1) >= 0 && end.is_constant() && c.sym.sample(size).value_or(0) >= *end.constant())
    c.sym.assume({sym::Assumption::Kind::AtMost, end, size});
  if (start.upper().value_or(0) < 0 && end.is(0)) end = c.sym.constant(to_the_end);
  return part_view(c, Slice{axis, start, from_the_end(c.sym, end, size), 1, length});
}

}  // namespace

void register_split(eval::Registry& ops) {
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
  add_each(ops,
           {"aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
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
            [axis = axis](Call& c) { return split_into(c, split_axis(c, axis), c.integer("sections"), true); });
    ops.add(fmt::format("aten::{}split.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", letter),
            [axis = axis](Call& c) { return split_at(c, split_axis(c, axis), c.sizes("indices")); });
  }
  ops.add("aten::narrow(Tensor(a) self, int dim, int start, int length) -> Tensor(a)",
          [](Call& c) { return narrow(c, c.size("start")); })
      .numbers({{"start", Role::Position, "dim"}, {"length", Role::Position, "dim"}});
  ops.add("aten::narrow.Tensor(Tensor(a) self, int dim, Tensor start, int length) -> Tensor(a)",
          [](Call& c) { return narrow(c, c.onnx.symbol_of(c.tensor("start"), "start")); });
}

}  // namespace lithify::ops
