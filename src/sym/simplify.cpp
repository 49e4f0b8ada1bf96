// The canonical form of each operation that is not polynomial arithmetic, and comparisons.
#include <algorithm>

#include "sym/store.hpp"

namespace lithify::sym {

namespace {

bool by_age_constants_first(const Node* a, const Node* b) {
  if (a->is_constant() != b->is_constant()) return a->is_constant();
  return a->id < b->id;
}

bool is_floor(const Node* atom) { return atom->kind == Kind::FloorDiv && !atom->unit_of; }

size_t count_floors(const Poly& p) {
  size_t n = 0;
  for (const Summand& s : p) n += static_cast<size_t>(std::ranges::count_if(s.monomial->atoms, is_floor));
  return n;
}

const Node* find_mod(const Poly& p) {
  for (const Summand& s : p)
    for (const Node* atom : s.monomial->atoms)
      if (atom->kind == Kind::Mod) return atom;
  return nullptr;
}

/// The atom, when the term is a multiple of one.
const Node* single_atom(const Summand& s) { return s.monomial->degree() == 1 ? s.monomial->atoms[0] : nullptr; }

/// The operands of a nest of one commutative operation, or the expression itself.
void flatten(Kind kind, const Node* n, std::vector<const Node*>& into) {
  if (n->kind != kind) {
    into.push_back(n);
    return;
  }
  flatten(kind, n->left, into);
  flatten(kind, n->right, into);
}

std::vector<const Node*> flattened(Kind kind, const Node* n) {
  std::vector<const Node*> all;
  flatten(kind, n, all);
  return all;
}

[[noreturn]] void division_by_zero() { throw Error(Code::ShapeMismatch, "division by zero"); }

}  // namespace

/// p with every x % m written as x - m * floor(x / m); empty when there is none, or the result is too large.
std::optional<Poly> Store::without_mods(const Poly& p) {
  const Node* m = find_mod(p);
  if (!m) return std::nullopt;
  try {
    Poly expanded = p;
    for (; m; m = find_mod(expanded))
      expanded = replace(expanded, m, combine(m->left->poly, multiply(m->right->poly, m->quotient->poly), -1));
    return expanded;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// A multiple of m that was made by adding or taking away a remainder is written as one: n + (-n % m) is
/// m * floor((n - 1)/m) + m.
const Node* Store::sum(const Poly& a, const Poly& b, int64_t scale_of_b) {
  Poly all = combine(a, b, scale_of_b);
  if (all.size() > 1)
    if (auto multiples = without_mods(all); multiples && multiples->size() <= all.size()) all = std::move(*multiples);
  return intern(all);
}

std::optional<Poly> Store::divide_exactly(const Poly& a, const Poly& b) {
  auto [quotient, remainder] = divide(a, b);
  if (remainder.empty()) return std::move(quotient);
  if (auto expanded = without_mods(a)) return divide_exactly(*expanded, b);
  return std::nullopt;
}

// ---- floor division -----------------------------------------------------------------------------------------------

const Node* Store::floor_div(const Node* a, const Node* b) {
  if (b->poly.empty()) division_by_zero();
  const OperationKey key{Kind::FloorDiv, a, b};
  if (auto it = results_.find(key); it != results_.end()) return it->second;
  return results_[key] = floor_div_of(a->poly, b->poly);
}

const Node* Store::floor_div_of(Poly a, Poly b) {
  Poly whole;
  for (;;) {
    if (a.empty()) return intern(whole);
    if (b.front().coefficient < 0) a = scale(a, -1), b = scale(b, -1);
    cancel(a, b);
    if (is_constant(b)) return intern(combine(whole, divided_by_constant(std::move(a), constant_of(b)), 1));
    auto [q, r] = divide(a, b);
    if (q.empty() || r.size() >= a.size()) break;
    whole = combine(whole, q, 1);
    a = std::move(r);
  }
  if (std::optional<Poly> exact = divide_exactly(a, b)) return intern(combine(whole, *exact, 1));
  const Node* divisor = intern(b);
  if (divisor->is_constant()) return intern(combine(whole, floor_div(intern(a), divisor)->poly, 1));
  if (divisor->range.lo >= 1) {
    if (a.size() == 1 && a[0].coefficient == 1 && single_atom(a[0]) && is_floor(single_atom(a[0]))) {
      const Node* inner = single_atom(a[0]);
      return intern(combine(whole, floor_div_of(inner->left->poly, multiply(inner->right->poly, b))->poly, 1));
    }
    const Node* dividend = intern(a);
    const Node* minus = intern(scale(b, -1));
    if (dividend->range.lo >= 0 && less_equal(divisor, dividend) == false) return intern(whole);
    if (dividend->range.hi < 0 && less_equal(minus, dividend) == true)
      return intern(combine(whole, constant_poly(-1), 1));
  }
  const Node* dividend = intern(a);
  const Interval range = sym::floor_div(dividend->range, divisor->range);
  return intern(combine(whole, apply(Kind::FloorDiv, dividend, divisor, range)->poly, 1));
}

/// floor(a / c) for positive c. Multiples of c are taken out; the constant that stays is in (-c, 0], and the leading
/// coefficient is positive: ceil(n/2), floor((n + 1)/2) and -floor(-n/2) are all floor((n - 1)/2) + 1.
Poly Store::divided_by_constant(Poly a, int64_t c) {
  Poly whole;
  for (;;) {
    // floor((g*x + r) / (g*c)) is floor((x + floor(r/g)) / c).
    const int64_t g = gcd_of_coefficients(a, c);
    c /= g;
    Poly multiples, rest;
    for (const Summand& s : a) {
      const int64_t k = lithify::floor_div(s.coefficient, g);
      const int64_t q = s.monomial == one_ ? checked_mul(lithify::floor_div(checked_mul(k, -1), c), -1) : k / c;
      const int64_t r = checked_add(k, checked_mul(q, -c));
      if (q != 0) multiples.push_back({q, s.monomial});
      if (r != 0) rest.push_back({r, s.monomial});
    }
    whole = combine(whole, multiples, 1);
    a = std::move(rest);
    if (is_constant(a)) return combine(whole, constant_poly(lithify::floor_div(constant_of(a), c)), 1);
    if (a.front().coefficient < 0) {
      Poly upward = combine(constant_poly(c - 1), a, -1);
      return combine(whole, divided_by_constant(std::move(upward), c), -1);
    }
    if (!expand_mods(a, c) && !unnest_floor(a, c)) break;
  }
  const Node* dividend = intern(a);
  const Interval range = sym::floor_div(dividend->range, Interval::point(c));
  return combine(whole, apply(Kind::FloorDiv, dividend, constant(c), range)->poly, 1);
}

/// Takes modulos apart where that leaves fewer terms over c: n + -n % 8 divided by 8 is exact.
bool Store::expand_mods(Poly& a, int64_t c) {
  std::optional<Poly> expanded = without_mods(a);
  const auto remains = [c](const Summand& t) { return t.coefficient % c != 0; };
  if (!expanded || std::ranges::count_if(*expanded, remains) >= static_cast<ptrdiff_t>(a.size())) return false;
  a = std::move(*expanded);
  return true;
}

/// floor((floor(x/d) + y) / c) is floor((x + d*y) / (d*c)).
bool Store::unnest_floor(Poly& a, int64_t& c) {
  if (count_floors(a) != 1) return false;
  for (const Summand& s : a) {
    const Node* inner = single_atom(s);
    if (!inner || !is_floor(inner) || s.coefficient != 1 || !inner->right->is_constant()) continue;
    const int64_t d = inner->right->value();
    int64_t both;
    if (__builtin_mul_overflow(c, d, &both)) return false;
    c = both;
    a = combine(inner->left->poly, combine(a, inner->poly, -1), d);
    return true;
  }
  return false;
}

// ---- modulo -------------------------------------------------------------------------------------------------------

const Node* Store::mod(const Node* a, const Node* b) {
  if (b->poly.empty()) division_by_zero();
  const OperationKey key{Kind::Mod, a, b};
  if (auto it = results_.find(key); it != results_.end()) return it->second;
  return results_[key] = intern(mod_of(a->poly, b->poly));
}

Poly Store::mod_of(Poly a, Poly b) {
  if (a.empty()) return {};
  if (b.front().coefficient < 0) return scale(mod_of(scale(a, -1), scale(b, -1)), -1);
  if (is_constant(b)) return mod_of_constant(std::move(a), constant_of(b));
  const Summand common = cancel(a, b);
  if (common.monomial != one_ || common.coefficient != 1) return multiply(mod_of(std::move(a), std::move(b)), {common});
  auto [q, r] = divide(a, b);
  if (!q.empty() && r.size() < a.size()) return mod_of(std::move(r), std::move(b));
  return remainder_of(a, b, floor_div_of(a, b)->poly);
}

Poly Store::mod_of_constant(Poly a, int64_t c) {
  if (c <= 1) return {};
  // (g*x + r) % (g*c) is g * ((x + floor(r/g)) % c) + r % g.
  const int64_t g = gcd_of_coefficients(a, c);
  if (g > 1) {
    const int64_t r = lithify::floor_mod(constant_of(a), g);
    for (Summand& s : a) s.coefficient = lithify::floor_div(s.coefficient, g);
    std::erase_if(a, [](const Summand& s) { return s.coefficient == 0; });
    return combine(constant_poly(r), mod_of_constant(std::move(a), c / g), g);
  }
  for (Summand& s : a) s.coefficient = s.monomial == one_ ? lithify::floor_mod(s.coefficient, c) : s.coefficient % c;
  std::erase_if(a, [](const Summand& s) { return s.coefficient == 0; });
  for (const Summand& s : a) {
    const Node* inner = single_atom(s);
    int64_t period;
    if (inner && inner->kind == Kind::Mod && inner->right->is_constant() &&
        !__builtin_mul_overflow(s.coefficient, inner->right->value(), &period) && period % c == 0)
      return mod_of_constant(combine(combine(a, {s}, -1), inner->left->poly, s.coefficient), c);
  }
  return remainder_of(a, constant_poly(c), divided_by_constant(a, c));
}

Poly Store::remainder_of(const Poly& a, const Poly& b, const Poly& quotient) {
  if (count_floors(quotient) == 0) return combine(a, multiply(b, quotient), -1);
  const Node *left = intern(a), *right = intern(b);
  return apply(Kind::Mod, left, right, sym::floor_mod(left->range, right->range), intern(quotient))->poly;
}

// ---- minimum, maximum, broadcast ----------------------------------------------------------------------------------

const Node* Store::extremum(Kind kind, const Node* a, const Node* b) {
  if (a == b) return a;
  a = intern(a->poly), b = intern(b->poly);
  const OperationKey key{kind, std::min(a, b, by_age_constants_first), std::max(a, b, by_age_constants_first)};
  if (auto it = results_.find(key); it != results_.end()) return it->second;

  const auto decides = [&](const Node* x, const Node* y) {
    return (kind == Kind::Min ? less_equal(x, y) : less_equal(y, x)) == true;
  };
  // Within one operand nothing is left to decide.
  std::vector<const Node*> all = flattened(kind, a), others = flattened(kind, b);
  std::erase_if(all, [&](const Node* x) {
    return std::ranges::any_of(others, [&](const Node* y) { return x != y && decides(y, x); });
  });
  std::erase_if(others, [&](const Node* y) {
    return std::ranges::any_of(all, [&](const Node* x) { return x == y || decides(x, y); });
  });
  all.insert(all.end(), others.begin(), others.end());
  std::ranges::sort(all, by_age_constants_first);
  int64_t g = 0;
  for (const Node* n : all) g = gcd(gcd_of_coefficients(n->poly, g), constant_of(n->poly));
  if (g > 1 && all.size() > 1) {
    const Node* part = nullptr;
    for (const Node* n : all) {
      n = intern(divide(n->poly, constant_poly(g)).first);
      part = part ? extremum(kind, part, n) : n;
    }
    return results_[key] = intern(scale(part->poly, g));
  }
  const Node* result = all.front();
  for (size_t i = 1; i < all.size(); ++i) {
    const Interval x = result->range, y = all[i]->range;
    const Interval range = kind == Kind::Min ? Interval{std::min(x.lo, y.lo), std::min(x.hi, y.hi)}
                                             : Interval{std::max(x.lo, y.lo), std::max(x.hi, y.hi)};
    result = apply(kind, result, all[i], range);
  }
  return results_[key] = result;
}

const Node* Store::broadcast(const Node* a, const Node* b) {
  if (a == b) return a;
  a = intern(a->poly), b = intern(b->poly);
  if (a->is_constant() && a->value() == 1) return b;
  if (b->is_constant() && b->value() == 1) return a;
  std::vector<const Node*> all = flattened(Kind::Broadcast, a);
  for (const Node* y : flattened(Kind::Broadcast, b)) {
    bool known = false;
    for (const Node*& x : all) {
      const std::optional<bool> same = equal(x, y);
      if (same == false || (!same && (x->is_constant() || y->is_constant()))) return nullptr;
      if (same) x = std::min(x, y, by_age_constants_first), known = true;
    }
    if (!known) all.push_back(y);
  }
  std::ranges::sort(all, by_age_constants_first);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  // One that is never 1 is the result, since the others are 1 or equal to it.
  const auto never_one = [](const Node* n) { return n->range.lo > 1; };
  if (auto it = std::ranges::find_if(all, never_one); it != all.end()) return *it;

  const Node* result = all.front();
  for (size_t i = 1; i < all.size(); ++i) {
    const Interval x = result->range, y = all[i]->range;
    const bool is_maximum = x.lo >= 1 && y.lo >= 1;
    const Interval range{is_maximum ? std::max(x.lo, y.lo) : std::min(x.lo, y.lo), std::max(x.hi, y.hi)};
    result = apply(Kind::Broadcast, result, all[i], range);
  }
  return result;
}

// ---- comparisons --------------------------------------------------------------------------------------------------

namespace {

/// Arithmetic that does not fit leaves a comparison undecided.
template <class Decide>
std::optional<bool> unless_too_large(Decide decide) {
  try {
    return decide();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

/// a - b, in the shorter of its forms with and without modulos.
const Node* Store::difference(const Node* a, const Node* b) {
  Poly d = combine(a->poly, b->poly, -1);
  std::optional<Poly> expanded = without_mods(d);
  return intern(expanded && expanded->size() < d.size() ? *expanded : d);
}

std::optional<bool> Store::equal_anywhere(const Node* a, const Node* b) {
  if (a == b) return true;
  if (a->is_constant() && b->is_constant()) return false;
  if (a->range.hi < b->range.lo || b->range.hi < a->range.lo) return false;
  return unless_too_large([&]() -> std::optional<bool> {
    const Node* d = difference(a, b);
    if (d->is_constant()) return d->value() == 0;
    if (d->range.lo > 0 || d->range.hi < 0) return false;
    if (constant_of(d->poly) % gcd_of_coefficients(d->poly) != 0) return false;
    return std::nullopt;
  });
}

std::optional<bool> Store::less_equal_anywhere(const Node* a, const Node* b) {
  if (a == b) return true;
  if (a->is_constant() && b->is_constant()) return a->value() <= b->value();
  if (a->range.hi <= b->range.lo) return true;
  if (b->range.hi < a->range.lo) return false;
  // Every size fits into 64 bits, so that the ends of slices which mean "all" compare.
  if (b->is_constant() && b->value() == std::numeric_limits<int64_t>::max()) return true;
  if (a->is_constant() && a->value() == std::numeric_limits<int64_t>::min()) return true;
  return unless_too_large([&]() -> std::optional<bool> {
    const Node* d = difference(b, a);
    if (d->is_constant()) return d->value() >= 0;
    if (d->range.lo >= 0) return true;
    if (d->range.hi < 0) return false;
    return std::nullopt;
  });
}

std::optional<bool> Store::equal(const Node* a, const Node* b) {
  const std::optional<bool> known = equal_anywhere(a, b);
  if (known || facts_.empty()) return known;
  return unless_too_large([&]() -> std::optional<bool> {
    const Poly d = reduced(combine(a->poly, b->poly, -1));
    if (is_constant(d)) return d.empty();
    if (less_equal(a, b) == false || less_equal(b, a) == false) return false;
    return std::nullopt;
  });
}

std::optional<bool> Store::less_equal(const Node* a, const Node* b) {
  const std::optional<bool> known = less_equal_anywhere(a, b);
  if (known || facts_.empty()) return known;
  return unless_too_large([&]() -> std::optional<bool> {
    const Poly d = reduced(combine(b->poly, a->poly, -1)), minus = combine(constant_poly(-1), d, -1);
    const auto never_negative = [&](const Poly& p) { return intern(p)->range.lo >= 0; };
    if (never_negative(d)) return true;
    if (never_negative(minus)) return false;
    for (const Poly& fact : facts_.not_negative) {
      const Poly f = reduced(fact);
      if (never_negative(combine(d, f, -1))) return true;
      if (never_negative(combine(minus, f, -1))) return false;
    }
    return std::nullopt;
  });
}

}  // namespace lithify::sym
