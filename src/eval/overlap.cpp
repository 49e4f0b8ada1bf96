#include "eval/overlap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "eval/evaluator.hpp"

namespace lithify::eval {
namespace {

using onnx::Builder;
using onnx::Dim;
using onnx::Node;

/// Positions start, start + step, ... below end.
struct Positions {
  Dim start, end;
  Dim step;
};

/// Some positions of each axis of a value; all of those that are not listed.
struct Region {
  onnx::Value* whole;
  std::map<int64_t, Positions> axes = {};
};

Dim one_of(const onnx::Value* v, size_t i = 0) { return (*v->contents)[i]; }

bool known(const onnx::Value* v) { return v && v->contents; }

/// The axes from one on are those behind an axis that the part lacks.
void insert_axis(Region& r, int64_t axis) {
  std::map<int64_t, Positions> moved;
  for (const auto& [at, positions] : r.axes) moved.emplace(at >= axis ? at + 1 : at, positions);
  r.axes = std::move(moved);
}

/// Makes the region one of what its value is a part of; false where that is not known.
bool widen(Builder& b, Region& r) {
  onnx::Value* part = r.whole;
  if (const Node* slice = onnx::made_by(part, "Slice"); slice && slice->inputs.size() == 5) {
    for (size_t i = 1; i < 5; ++i)
      if (!known(slice->inputs[i])) return false;
    r.whole = slice->inputs[0];
    for (size_t i = 0; i < slice->inputs[3]->contents->size(); ++i) {
      const int64_t axis = one_of(slice->inputs[3], i).constant().value_or(0);
      const Dim size = r.whole->shape[static_cast<size_t>(axis)];
      auto bound = [&](size_t input) { return unclamped_bound(b.sym, one_of(slice->inputs[input], i), size); };
      r.axes[axis] = {bound(1), bound(2), one_of(slice->inputs[4], i)};
    }
    return true;
  }
  if (const Node* select = onnx::made_by(part, "Gather"); select && select->inputs[1]->rank() == 0) {
    if (!known(select->inputs[1])) return false;
    r.whole = select->inputs[0];
    const int64_t axis = select->int_attribute("axis", 0);
    const Dim at = unclamped_bound(b.sym, one_of(select->inputs[1]), r.whole->shape[static_cast<size_t>(axis)]);
    insert_axis(r, axis);
    r.axes[axis] = {at, b.sym.add(at, b.dim(1)), b.dim(1)};
    return true;
  }
  if (const Node* split = onnx::made_by(part, "Split")) {
    r.whole = split->inputs[0];
    const int64_t axis = split->int_attribute("axis", 0);
    Dim start = b.dim(0);
    for (const onnx::Value* piece : split->outputs) {
      const Dim end = b.sym.add(start, piece->shape[static_cast<size_t>(axis)]);
      if (piece == part) r.axes[axis] = {start, end, b.dim(1)};
      start = end;
    }
    return true;
  }
  return false;
}

bool apart(sym::Context& sym, const Positions& x, const Positions& y) {
  if (sym.less_equal(x.end, y.start) == true || sym.less_equal(y.end, x.start) == true) return true;
  const std::optional<int64_t> step = x.step.constant(), distance = sym.sub(x.start, y.start).constant();
  return x.step == y.step && step && *step != 0 && distance && *distance % *step != 0;
}

/// Whether no element is read, along any axis, in front of the one that is written from it. Then PyTorch has read it
/// when it writes there, in whichever order the axes lie in memory.
bool lies_ahead(sym::Context& sym, const Region& read, const Region& written) {
  const Positions all{sym.constant(0), {}, sym.constant(1)};
  const auto along = [&](const Region& r, int64_t axis) {
    const auto found = r.axes.find(axis);
    return found == r.axes.end() ? all : found->second;
  };
  for (int64_t axis = 0; axis < std::ssize(read.whole->shape); ++axis) {
    const Positions from = along(read, axis), to = along(written, axis);
    if (from.step != to.step || from.step.lower().value_or(0) < 1) return false;
    if (sym.less_equal(to.start, from.start) != true) return false;
  }
  return true;
}

enum class Overlap : uint8_t { None, Ahead, Unordered };

Overlap overlap_of(Builder& b, onnx::Value* read, onnx::Value* written) {
  if (read == written) return Overlap::None;
  Vector<Region> parts;
  Region region{read};
  do parts.push_back(region);
  while (widen(b, region));
  Region to{written};
  do {
    for (const Region& from : parts) {
      if (from.whole != to.whole) continue;
      const bool disjoint = std::ranges::any_of(from.axes, [&](const auto& axis) {
        const auto other = to.axes.find(axis.first);
        return other != to.axes.end() && apart(b.sym, axis.second, other->second);
      });
      if (disjoint) return Overlap::None;
      const bool one_by_one =
          std::ranges::equal(read->shape, written->shape, [](Dim a, Dim b) { return a == b || !a.is(1); });
      return one_by_one && lies_ahead(b.sym, from, to) ? Overlap::Ahead : Overlap::Unordered;
    }
  } while (widen(b, to));
  return Overlap::None;
}

}  // namespace

Dim unclamped_bound(sym::Context& sym, Dim bound, Dim size) {
  if (bound.is(std::numeric_limits<int64_t>::max())) return size;
  if (bound.is(std::numeric_limits<int64_t>::min())) return sym.constant(0);
  if (bound.lower().value_or(-1) >= 0) return bound;
  if (bound.upper().value_or(0) < 0) return sym.add(size, bound);
  // Of unknown sign: the size is added where max(min(bound, 0), -1) is -1.
  return sym.sub(bound, sym.mul(size, sym.max(sym.min(bound, sym.constant(0)), sym.constant(-1))));
}

void check_overlap(Call& c, std::string_view target) {
  const TensorPtr written = c.tensor_ref(target);
  for (const SchemaArgument& argument : c.schema.arguments) {
    const Value& read = c.arg(argument.name);
    if (argument.name == target || !read.is_tensor()) continue;
    if (!written->shares_memory_with(*read.tensor()) || written->same_place(*read.tensor())) continue;
    const Overlap overlap = overlap_of(c.onnx, c.tensor(argument.name), written->read(c.onnx));
    if (overlap == Overlap::None) continue;
    const std::string what = fmt::format(
        "{} reads a part of a tensor and writes to one that overlaps it, for which PyTorch defines no result",
        c.schema.name);
    if (overlap == Overlap::Unordered) throw Error(Code::UnsupportedMutation, what, "read a clone()");
    c.evaluator.warn(what + "; the exported model reads what was there before: read a clone()");
    return;
  }
}

}  // namespace lithify::eval
