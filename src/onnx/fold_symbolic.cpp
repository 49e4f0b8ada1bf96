#include <algorithm>

#include "onnx/folding.hpp"

namespace lithify::onnx::folding {
namespace {

using Dims = Vector<Dim>;
using MaybeDim = std::optional<Dim>;

bool at_least(Dim d, int64_t v) { return d.lower() && *d.lower() >= v; }

MaybeDim truth(sym::Context& sym, std::optional<bool> b) {
  return b ? MaybeDim(sym.constant(*b ? 1 : 0)) : std::nullopt;
}

std::optional<bool> decided(Dim d) {
  return d.is_constant() ? std::optional(!d.is(0)) : at_least(d, 1) ? std::optional(true) : std::nullopt;
}

/// ONNX divides integers toward zero, which is floor division where the result is not negative.
MaybeDim quotient(sym::Context& sym, Dim a, Dim b) {
  if (a.is_constant() && b.is_constant()) {
    if (b.is(0)) return std::nullopt;
    if (b.is(-1)) return sym.neg(a);
    return sym.constant(*a.constant() / *b.constant());
  }
  if (b.is(0)) return std::nullopt;
  if (const auto exact = sym.divide_exactly(a, b)) return exact;
  if (at_least(a, 0) && at_least(b, 1)) return sym.floor_div(a, b);
  return std::nullopt;
}

MaybeDim logical_and(sym::Context& sym, std::optional<bool> a, std::optional<bool> b) {
  if (a == false || b == false) return sym.constant(0);
  return a && b ? truth(sym, true) : std::nullopt;
}

MaybeDim power(sym::Context& sym, Dim base, Dim exponent) {
  const auto n = exponent.constant();
  if (!n || *n < 0 || *n > 8) return std::nullopt;
  Dim r = sym.constant(1);
  for (int64_t i = 0; i < *n; ++i) r = sym.mul(r, base);
  return r;
}

Dim sign(sym::Context& sym, Dim x) { return sym.max(sym.min(x, sym.constant(1)), sym.constant(-1)); }

MaybeDim absolute(sym::Context& sym, Dim x) {
  if (at_least(x, 0)) return x;
  if (x.upper() && *x.upper() <= 0) return sym.neg(x);
  return std::nullopt;
}

struct Binary {
  std::string_view op;
  MaybeDim (*apply)(sym::Context&, Dim, Dim);
};

constexpr Binary binaries[] = {
    {"Add", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return s.add(a, b); }},
    {"And", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return logical_and(s, decided(a), decided(b)); }},
    {"Div", quotient},
    {"Equal", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return truth(s, s.equal(a, b)); }},
    {"Greater", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return truth(s, s.less(b, a)); }},
    {"GreaterOrEqual", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return truth(s, s.less_equal(b, a)); }},
    {"Less", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return truth(s, s.less(a, b)); }},
    {"LessOrEqual", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return truth(s, s.less_equal(a, b)); }},
    {"Max", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return s.max(a, b); }},
    {"Min", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return s.min(a, b); }},
    {"Mod",
     [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return at_least(b, 1) ? MaybeDim(s.mod(a, b)) : std::nullopt; }},
    {"Mul", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return s.mul(a, b); }},
    {"Or",
     [](sym::Context& s, Dim a, Dim b) -> MaybeDim {
       const auto x = decided(a), y = decided(b);
       if (x == true || y == true) return s.constant(1);
       return x && y ? truth(s, false) : std::nullopt;
     }},
    {"Pow", power},
    {"Sub", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return s.sub(a, b); }},
    {"Sum", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return s.add(a, b); }},
    {"Xor",
     [](sym::Context& s, Dim a, Dim b) -> MaybeDim {
       const auto x = decided(a), y = decided(b);
       return x && y ? truth(s, *x != *y) : std::nullopt;
     }},
};

struct Unary {
  std::string_view op;
  MaybeDim (*apply)(sym::Context&, Dim);
};

constexpr Unary unaries[] = {
    {"Abs", absolute},
    {"Neg", [](sym::Context& s, Dim x) -> MaybeDim { return s.neg(x); }},
    {"Not",
     [](sym::Context& s, Dim x) -> MaybeDim {
       const auto b = decided(x);
       return b ? truth(s, !*b) : std::nullopt;
     }},
    {"Relu", [](sym::Context& s, Dim x) -> MaybeDim { return s.max(x, s.constant(0)); }},
    {"Sign", [](sym::Context& s, Dim x) -> MaybeDim { return sign(s, x); }},
};

struct SymbolicReduction {
  std::string_view op;
  MaybeDim (*combine)(sym::Context&, Dim, Dim);
};

constexpr SymbolicReduction symbolic_reductions[] = {
    {"ReduceMax", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return s.max(a, b); }},
    {"ReduceMin", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return s.min(a, b); }},
    {"ReduceProd", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return s.mul(a, b); }},
    {"ReduceSum", [](sym::Context& s, Dim a, Dim b) -> MaybeDim { return s.add(a, b); }},
};

/// The contents of an input as if it had been broadcast to `to`.
Dims broadcast(const Inference& f, size_t input, const Sizes& to) {
  const Dims from = f.contents(input);
  Dims r;
  for (int64_t e : strided(to, broadcast_strides(*numbers(f.in(input).shape), to)))
    r.push_back(from[static_cast<size_t>(e)]);
  return r;
}

/// Two or more inputs, combined from the left.
std::optional<Dims> elementwise(Inference& f, const Binary& row, const Sizes& to) {
  Dims r = broadcast(f, 0, to);
  for (size_t i = 1; i < f.inputs(); ++i) {
    const Dims other = broadcast(f, i, to);
    for (size_t e = 0; e < r.size(); ++e) {
      const MaybeDim v = row.apply(f.sym, r[e], other[e]);
      if (!v) return std::nullopt;
      r[e] = *v;
    }
  }
  return r;
}

std::optional<Dims> cast(Inference& f) {
  Dims r = f.contents(0);
  const DType to = f.node.outputs[0]->dtype;
  if (to == DType::Int64 || to == DType::Int32) return r;
  if (to != DType::Bool) return std::nullopt;
  for (Dim& d : r) {
    const auto zero = f.sym.equal(d, f.sym.constant(0));
    if (!zero) return std::nullopt;
    d = f.sym.constant(*zero ? 0 : 1);
  }
  return r;
}

std::optional<Dims> clip_expressions(Inference& f) {
  Dims r = f.contents(0);
  for (Dim& d : r) {
    if (f.has(1)) d = f.sym.max(d, f.contents(1).at(0));
    if (f.has(2)) d = f.sym.min(d, f.contents(2).at(0));
  }
  return r;
}

std::optional<Dims> reduce(Inference& f, const SymbolicReduction& row) {
  const Dims from = f.contents(0);
  const auto target = reduction_targets(*numbers(f.in(0).shape), reduction_axes(f));
  Dims r(static_cast<size_t>(numel(*numbers(f.node.outputs[0]->shape))));
  for (size_t e = 0; e < from.size(); ++e) {
    Dim& to = r[static_cast<size_t>(target[e])];
    const MaybeDim v = to ? row.combine(f.sym, to, from[e]) : from[e];
    if (!v) return std::nullopt;
    to = *v;
  }
  for (Dim& d : r)
    if (!d) return std::nullopt;
  return r;
}

std::optional<Dims> cumulative_sum(Inference& f) {
  if (f.in(0).rank() != 1 || f.integer("exclusive", 0) != 0 || f.integer("reverse", 0) != 0) return std::nullopt;
  Dims r = f.contents(0);
  for (size_t e = 1; e < r.size(); ++e) r[e] = f.sym.add(r[e - 1], r[e]);
  return r;
}

std::optional<Dims> range(Inference& f) {
  const Dim start = f.contents(0).at(0), delta = f.contents(2).at(0);
  Dims r;
  for (int64_t i = 0; i < numel(*numbers(f.node.outputs[0]->shape)); ++i)
    r.push_back(f.sym.add(start, f.sym.mul(f.sym.constant(i), delta)));
  return r;
}

}  // namespace

std::optional<Vector<Dim>> compute_symbolic(Inference& f) {
  const std::string& op = f.node.op_type;
  if (op == "Mod" && f.integer("fmod", 0) != 0) return std::nullopt;
  // Elements may be known where their number is a formula, of which a branch has one value.
  const auto has_numbers = [](const Value* v) { return !v || !v->contents || numbers(v->shape); };
  if (!numbers(f.node.outputs[0]->shape) || !std::ranges::all_of(f.node.inputs, has_numbers)) return std::nullopt;
  if (const auto* row = find(binaries, op)) return elementwise(f, *row, *numbers(f.node.outputs[0]->shape));
  if (const auto* row = find(symbolic_reductions, op)) return reduce(f, *row);
  if (const auto* row = find(unaries, op)) {
    Dims r = f.contents(0);
    for (Dim& d : r) {
      const MaybeDim v = row->apply(f.sym, d);
      if (!v) return std::nullopt;
      d = *v;
    }
    return r;
  }
  if (op == "Cast" || op == "CastLike") return cast(f);
  if (op == "Clip") return clip_expressions(f);
  if (op == "CumSum") return cumulative_sum(f);
  if (op == "Range") return range(f);
  return std::nullopt;
}

}  // namespace lithify::onnx::folding
