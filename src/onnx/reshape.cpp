// The same elements under other sizes or in another order: Reshape, Squeeze, Unsqueeze, Transpose.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/diagnostic.hpp"
#include "base/options.hpp"
#include "onnx/builder.hpp"
#include "onnx/complex.hpp"
#include "onnx/opdef.hpp"
#include "sym/contradiction.hpp"

namespace lithify::onnx {
namespace {

/// The products of leading sizes, with their values in the sample.
Vector<std::pair<Dim, std::optional<int64_t>>> leading_products(sym::Context& sym, const Shape& shape) {
  Vector<std::pair<Dim, std::optional<int64_t>>> out;
  Dim product = sym.constant(1);
  for (Dim d : shape) {
    product = sym.mul(product, d);
    out.emplace_back(product, sym.sample(product));
  }
  return out;
}

/// Between two dimensions: the elements of those before and behind it, and how many are before it in the sample.
struct Boundary {
  Dim before, behind;
  std::optional<int64_t> sample;
};

Vector<Boundary> boundaries(sym::Context& sym, const Shape& shape) {
  Vector<Boundary> out;
  Dim behind = sym.constant(1);
  for (const auto& [before, sample] : leading_products(sym, shape)) out.push_back({before, {}, sample});
  for (size_t i = shape.size(); i-- > 0;) {
    out[i].behind = behind;
    behind = sym.mul(behind, shape[i]);
  }
  return out;
}

/// Dimensions that stay in their place in the sample are compared by themselves: the elements of the first group of
/// them whose numbers do not agree.
std::optional<sym::Conflict> first_difference(sym::Context& sym, const Shape& from, const Shape& to) {
  const auto old = leading_products(sym, from), now = leading_products(sym, to);
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    const size_t begin_i = i++, begin_j = j++;
    while (old[i - 1].second != now[j - 1].second) {
      if (!old[i - 1].second || !now[j - 1].second) return std::nullopt;
      if (*old[i - 1].second < *now[j - 1].second) {
        if (i == from.size()) return std::nullopt;
        ++i;
      } else {
        if (j == to.size()) return std::nullopt;
        ++j;
      }
    }
    if (j == to.size()) i = from.size();
    if (i == from.size()) j = to.size();
    const Dim a = sym.product(std::span(from).subspan(begin_i, i - begin_i));
    const Dim b = sym.product(std::span(to).subspan(begin_j, j - begin_j));
    if (sym.equal(a, b) != true && !equal_beyond_sample(sym, a, b)) return sym::Conflict{a, b, begin_j};
  }
  return std::nullopt;
}

/// The axes of `more` that have size 1 and are all that it has more than `fewer`; none when that is not so.
Vector<int64_t> ones_added(const Shape& fewer, const Shape& more) {
  Vector<int64_t> added;
  size_t same = 0;
  for (size_t i = 0; i < more.size(); ++i) {
    if (same < fewer.size() && fewer[same] == more[i])
      ++same;
    else if (more[i].is(1))
      added.push_back(static_cast<int64_t>(i));
    else
      return {};
  }
  return same == fewer.size() ? added : Vector<int64_t>();
}

}  // namespace

Value* Builder::reshape(Value* x, const Shape& to) {
  if (x->shape == to) return x;
  if (is_complex(x->dtype)) return on_pairs(*this, x, to, &Builder::reshape);
  if (x->kind == Value::Kind::Symbolic) return symbolic(x->dtype, to, *x->contents);
  check_elements(x->shape, to);
  if (sym.observer) report_boundaries(x->shape, to);
  x = before_reshape(x, to);
  if (x->shape == to) return x;
  if (needs_arithmetic(x->shape, to))
    if (Value* v = with_ones(x, to)) return v;
  Attributes attributes;
  Value* target = symbolic(reshape_target(x->shape, to, attributes));
  Value* out = emit("Reshape", {x, target}, attributes, 1, true)[0];
  if (out->kind == Value::Kind::Output) out->shape = to;
  return out;
}

// Refuses sizes that have another number of elements, or records what has to be assumed for them to have the same.
void Builder::check_elements(const Shape& from, const Shape& to) {
  const Dim have = numel(from), want = numel(to);
  if (sym.equal(have, want) == true) return;
  const bool quotient = is_quotient(have, to);
  // Tracing drops sizes of 1 before a value that is put somewhere, also one that is 1 for the sample's data only.
  const std::optional<Dim> dropped = want.lower().value_or(0) > 0 ? sym.divide_exactly(have, want) : std::nullopt;
  const bool by_data = dropped && depends_on_data(sym, *dropped);
  if (quotient || (!by_data && sizes_agree(sym, have, want))) return;
  sym::Conflict conflict = first_difference(sym, from, to).value_or(sym::Conflict{have, want});
  conflict.among = from;
  conflict.among.insert(conflict.among.end(), to.begin(), to.end());
  sym::disagree(have.is_constant() && want.is_constant(), std::move(conflict),
                fmt::format("{} elements of {} do not fit into {}", have.str(), print_shape(from), print_shape(to)));
}

// Whether one size is the quotient that -1 stands for; then the division is exact whenever the program runs at all.
bool Builder::is_quotient(Dim have, const Shape& to) {
  for (size_t i = 0; i < to.size(); ++i) {
    Shape rest = to;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    const Dim others = numel(rest);
    if (to[i].is_constant() || others.lower().value_or(0) <= 0 || sym.floor_div(have, others) != to[i]) continue;
    if (!sym.divide_exactly(have, others)) sym.assume({sym::Assumption::Kind::Multiple, have, others});
    return true;
  }
  return false;
}

// A reshape of a reshape needs only the second.
Value* Builder::before_reshape(Value* x, const Shape& to) {
  static constexpr std::string_view reshapes[] = {"Reshape", "Squeeze", "Unsqueeze", "Flatten"};
  if (std::ranges::none_of(reshapes, [&](std::string_view type) { return made_by(x, type); })) return x;
  Value* before = x->producer->inputs[0];
  const bool simpler = before->shape == to || !needs_arithmetic(before->shape, to) || needs_arithmetic(x->shape, to);
  return simpler ? before : x;
}

// x with sizes of 1 put in or taken out, for which no size needs to be computed; nullptr when more than that changes.
Value* Builder::with_ones(Value* x, const Shape& to) {
  if (const auto added = ones_added(x->shape, to); !added.empty()) return emit_axes("Unsqueeze", x, added);
  if (const auto removed = ones_added(to, x->shape); !removed.empty()) return emit_axes("Squeeze", x, removed);
  return nullptr;
}

void Builder::report_boundaries(const Shape& from, const Shape& to) {
  const Vector<Boundary> old = boundaries(sym, from), now = boundaries(sym, to);
  auto same = [&](const Boundary& a, const Boundary& b) {
    return a.sample == b.sample &&
           (equal_beyond_sample(sym, a.before, b.before) || equal_beyond_sample(sym, a.behind, b.behind));
  };
  auto none = [&](const Vector<Boundary>& all, const Boundary& b) {
    return std::none_of(all.begin(), all.end(), [&](const Boundary& other) { return same(other, b); });
  };
  // Several boundaries are at one place where sizes are 1 in the sample: they keep their order.
  auto at = [](const Vector<Boundary>& all, std::optional<int64_t> sample) {
    Vector<Boundary> out;
    std::ranges::copy_if(all, std::back_inserter(out), [&](const Boundary& b) { return b.sample == sample; });
    return out;
  };
  for (const Boundary& o : old) {
    if (!o.sample || !none(now, o)) continue;
    const Vector<Boundary> olds = at(old, o.sample), news = at(now, o.sample);
    auto moved = std::ranges::find_if(news, [&](const Boundary& b) { return none(old, b); });
    if (moved == news.end() && news.size() >= olds.size())
      moved = news.begin() + (std::ranges::find(olds, o.before, &Boundary::before) - olds.begin());
    if (moved == news.end()) continue;
    sym.observer->moved_boundary(o.before, moved->before);
    sym.observer->moved_boundary(o.behind, moved->behind);
  }
}

// The contents of a Reshape's second input: 0 where a size stays at its place, -1 for one that follows from the rest.
Vector<Dim> Builder::reshape_target(const Shape& from, const Shape& to, Attributes& attributes) {
  Vector<Dim> target = to;
  bool has_zero = std::any_of(to.begin(), to.end(), [](Dim d) { return d.is(0); });
  if (has_zero) {
    if (opset_ >= 14) {
      attributes.push_back({"allowzero", int64_t{1}});
      return target;
    }
    for (size_t i = 0; i < to.size(); ++i)
      if (to[i].is(0) && !(i < from.size() && from[i].is(0)))
        throw Error(Code::NeedsOpset, "an empty tensor gets other sizes, which Reshape can do from opset 14 on",
                    fmt::format("export with {} or higher", option("opset", 14)));
    return target;
  }
  std::optional<size_t> inferred;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].is_constant()) continue;
    if (i < from.size() && from[i] == to[i]) {
      target[i] = sym.constant(0);
      continue;
    }
    // What is costliest to compute is left to be inferred.
    if (!inferred || (to[*inferred].is_symbol() && !to[i].is_symbol())) inferred = i;
  }
  // The sizes of an input cost one Shape.
  if (needs_arithmetic(from, to) && longest_run(to).length == to.size()) return to;
  if (inferred) target[*inferred] = sym.constant(-1);
  return target;
}

bool Builder::needs_arithmetic(const Shape& from, const Shape& to) {
  size_t computed = 0;
  for (size_t i = 0; i < to.size(); ++i)
    if (!to[i].is_constant() && !(i < from.size() && from[i] == to[i])) ++computed;
  return computed > 1;
}

Value* Builder::transpose(Value* x, std::span<const int64_t> perm) {
  Vector<int64_t> order(perm.begin(), perm.end());
  if (is_complex(x->dtype)) {
    order.push_back(static_cast<int64_t>(order.size()));
    return from_pairs(transpose(pairs(x), order));
  }
  if (made_by(x, "Transpose")) {
    const Vector<int64_t>& first = *x->producer->attribute_as<Vector<int64_t>>("perm");
    for (int64_t& p : order) p = first[static_cast<size_t>(p)];
    x = x->producer->inputs[0];
  }
  if (std::is_sorted(order.begin(), order.end())) return x;
  // Moving only dimensions of size 1 keeps the elements in order.
  Vector<int64_t> kept;
  Shape to;
  for (int64_t p : order) {
    to.push_back(x->shape[static_cast<size_t>(p)]);
    if (!to.back().is(1)) kept.push_back(p);
  }
  if (std::is_sorted(kept.begin(), kept.end()) && !needs_arithmetic(x->shape, to) && !x->is_constant())
    return reshape(x, to);
  return op("Transpose", {x}, {{"perm", order}});
}

Value* Builder::swap_dims(Value* x, int64_t a, int64_t b) {
  int64_t rank = static_cast<int64_t>(x->rank());
  Vector<int64_t> perm(x->rank());
  std::iota(perm.begin(), perm.end(), 0);
  if (rank > 0)
    std::swap(perm[static_cast<size_t>(a < 0 ? a + rank : a)], perm[static_cast<size_t>(b < 0 ? b + rank : b)]);
  return transpose(x, perm);
}

Value* Builder::emit_axes(std::string_view type, Value* x, const Vector<int64_t>& axes) {
  const bool computed = x->kind == Value::Kind::Output || x->kind == Value::Kind::Input;
  const bool may_fold = !computed || !x->contents;  // what was made to compute with contents would fold to them again
  if (opset_ >= 13) return emit(type, {x, ints(axes)}, {}, 1, may_fold)[0];
  return emit(type, {x}, {{"axes", axes}}, 1, may_fold)[0];
}

Value* Builder::squeeze(Value* x, Vector<int64_t> axes) {
  Shape to;
  for (size_t i = 0; i < x->rank(); ++i)
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) to.push_back(x->shape[i]);
  if (axes.empty()) return x;
  if (is_complex(x->dtype)) return from_pairs(squeeze(pairs(x), axes));
  if (x->kind == Value::Kind::Symbolic || x->is_constant() || !needs_arithmetic(x->shape, to)) return reshape(x, to);
  return emit_axes("Squeeze", x, axes);
}

Value* Builder::unsqueeze(Value* x, Vector<int64_t> axes) {
  if (axes.empty()) return x;
  std::sort(axes.begin(), axes.end());
  if (is_complex(x->dtype)) return from_pairs(unsqueeze(pairs(x), axes));
  Shape to = x->shape;
  for (int64_t a : axes) to.insert(to.begin() + a, sym.constant(1));
  if (x->kind == Value::Kind::Symbolic || x->is_constant() || !needs_arithmetic(x->shape, to)) return reshape(x, to);
  return emit_axes("Unsqueeze", x, axes);
}

}  // namespace lithify::onnx
