// What is known of a polynomial's value.
//
// The sum of its terms' ranges is a bound, and the best one when no two terms share a symbol. When some do (as in
// n - floor(n/2), or b*s - b), better bounds are sought in two ways:
// - every atom is written as its bound plus something nonnegative: (1 + b')(1 + s') - (1 + b') = s' + b's' >= 0;
// - a compound atom is replaced by what bounds it in terms of its operands: floor(a/c) lies between (a - c + 1)/c and
//   a/c, a minimum is one of its operands and not above either, and so on.
#include <algorithm>

#include "sym/store.hpp"

namespace lithify::sym {

namespace {

/// Replacements tried for one bound. Sizes in models need a handful.
constexpr int kBudget = 24;
/// Polynomials larger than this are only summed up.
constexpr size_t kMaxBoundedTerms = 32;
constexpr size_t kMaxExpandedDegree = 5;

bool may_share_symbols(const Poly& p) {
  uint64_t seen = 0;
  for (const Summand& s : p) {
    if (s.monomial->entangled || (seen & s.monomial->symbols)) return true;
    seen |= s.monomial->symbols;
  }
  return false;
}

Interval sum_of_ranges(const Poly& p) {
  Interval r = Interval::point(0);
  for (const Summand& s : p) r = r + Interval::point(s.coefficient) * s.monomial->range;
  return r;
}

/// The compound atom that was made last: no other one in p has it as an operand.
const Node* newest_compound(const Poly& p) {
  const Node* newest = nullptr;
  for (const Summand& s : p)
    for (const Node* a : s.monomial->atoms)
      if (!a->is_opaque() && (!newest || a->id > newest->id)) newest = a;
  return newest;
}

int64_t ceil_div_bound(int64_t lo, int64_t by) { return lo == Interval::kNoLower ? lo : -lithify::floor_div(-lo, by); }

}  // namespace

/// Finds lower bounds of one polynomial.
class Prover {
 public:
  explicit Prover(Store& store) : store_(store) {}

  int64_t lower(const Poly& p) {
    int64_t best = sum_of_ranges(p).lo;
    if (p.size() > kMaxBoundedTerms || !may_share_symbols(p)) return best;
    best = std::max(best, lower_of_expansion(p));
    const Node* atom = newest_compound(p);
    if (!atom || --budget_ < 0) return best;
    try {
      best = std::max(best, lower_without(p, atom));
    } catch (const Error&) {
      // The replacement has coefficients too large, or too many terms; what is known already stands.
    }
    return best;
  }

 private:
  /// With every atom as its bound plus (or minus) something nonnegative.
  int64_t lower_of_expansion(const Poly& p) {
    const size_t degree = p.front().monomial->degree();
    if (degree < 2 || degree > kMaxExpandedDegree) return Interval::kNoLower;
    Poly expanded;
    for (const Summand& s : p) {
      const auto& atoms = s.monomial->atoms;
      for (uint32_t chosen = 0; chosen < (1u << atoms.size()); ++chosen) {
        int64_t coefficient = s.coefficient;
        rest_.clear();
        for (size_t i = 0; i < atoms.size() && coefficient != 0; ++i) {
          const Interval r = atoms[i]->range;
          const bool from_above = !r.has_lower() && r.has_upper();
          const bool keep = chosen >> i & 1;
          const int64_t factor = keep ? (from_above ? -1 : 1) : from_above ? r.hi : r.has_lower() ? r.lo : 0;
          if (__builtin_mul_overflow(coefficient, factor, &coefficient)) return Interval::kNoLower;
          if (keep) rest_.push_back(atoms[i]);
        }
        if (coefficient != 0) expanded.push_back({coefficient, store_.monomial(rest_)});
      }
    }
    try {
      expanded = store_.normalized(std::move(expanded));
    } catch (const Error&) {
      return Interval::kNoLower;
    }
    Interval sum = Interval::point(0);
    for (const Summand& s : expanded) {
      Interval range = Interval::point(s.coefficient);
      for (const Node* a : s.monomial->atoms) range = range * distance_from_bound(a->range);
      sum = sum + range;
    }
    return sum.lo;
  }

  static Interval distance_from_bound(Interval r) {
    if (!r.has_lower() && !r.has_upper()) return r;
    if (!r.has_lower() || !r.has_upper()) return {0, Interval::kNoUpper};
    return {0, (Interval{r.hi, r.hi} + -Interval{r.lo, r.lo}).hi};
  }

  /// p is factor * atom + rest, with neither containing the atom.
  struct Split {
    Poly factor, rest;
    int sign = 0;  ///< of the factor: 1 for >= 0, -1 for <= 0, 0 when it is not known
  };

  std::optional<Split> split(const Poly& p, const Node* atom) {
    Split s;
    const Monomial* m = store_.monomial({&atom, 1});
    for (const Summand& t : p) {
      const Monomial* without = store_.over(t.monomial, m);
      if (!without) {
        s.rest.push_back(t);
      } else {
        if (store_.over(without, m)) return std::nullopt;
        s.factor.push_back({t.coefficient, without});
      }
    }
    const Interval range = sum_of_ranges(s.factor);
    s.sign = range.lo >= 0 ? 1 : range.hi <= 0 ? -1 : 0;
    return s;
  }

  int64_t lower_without(const Poly& p, const Node* atom) {
    std::optional<Split> linear = split(p, atom);
    int64_t best = lower_by_operands(p, atom, linear);
    if (linear && linear->sign != 0) {
      const int64_t bound = linear->sign > 0 ? atom->range.lo : atom->range.hi;
      if (linear->sign > 0 ? atom->range.has_lower() : atom->range.has_upper())
        best = std::max(best, lower(store_.combine(linear->rest, linear->factor, bound)));
    }
    return best;
  }

  int64_t lower_by_operands(const Poly& p, const Node* atom, const std::optional<Split>& linear) {
    const Poly &a = atom->left->poly, &b = atom->right->poly;
    const int sign = linear ? linear->sign : 0;
    switch (atom->kind) {
      case Kind::Mod:
        return lower(store_.replace(p, atom, store_.combine(a, store_.multiply(b, atom->quotient->poly), -1)));
      case Kind::FloorDiv:
        return sign == 0 ? Interval::kNoLower : lower_by_numerator(*linear, atom);
      case Kind::Min:
      case Kind::Max:
      case Kind::Broadcast: {
        const int64_t with_a = lower(store_.replace(p, atom, a));
        const int64_t with_b = lower(store_.replace(p, atom, b));
        const bool above_both = atom->kind == Kind::Max || (atom->kind == Kind::Broadcast &&
                                                            atom->left->range.lo >= 1 && atom->right->range.lo >= 1);
        const bool below_both = atom->kind == Kind::Min;
        const bool either_holds = (above_both && sign > 0) || (below_both && sign < 0);
        return either_holds ? std::max(with_a, with_b) : std::min(with_a, with_b);
      }
      default:
        return Interval::kNoLower;
    }
  }

  /// b * floor(a / b) lies in [a - b + 1, a] for positive b; so b * p is bounded without the atom.
  int64_t lower_by_numerator(const Split& s, const Node* atom) {
    const Poly &a = atom->left->poly, &b = atom->right->poly;
    const int64_t least = atom->right->range.lo;
    if (least < 1) return Interval::kNoLower;
    Poly bound = a;
    if (s.sign > 0) bound = store_.combine(store_.combine(a, b, -1), store_.constant_poly(1), 1);
    const int64_t scaled = lower(store_.combine(store_.multiply(s.rest, b), store_.multiply(s.factor, bound), 1));
    if (is_constant(b) || scaled <= 0) return ceil_div_bound(scaled, least);
    return 1;
  }

  Store& store_;
  int budget_ = kBudget;
  std::vector<const Node*> rest_;
};

Interval Store::bounds(const Poly& p) {
  Interval r = sum_of_ranges(p);
  const bool has_negative = std::ranges::find(p, Interval::kNoLower, &Summand::coefficient) == p.end();
  if (has_negative && may_share_symbols(p)) {
    const Interval above{Prover(*this).lower(p), Interval::kNoUpper};
    const Interval below = -Interval{Prover(*this).lower(scale(p, -1)), Interval::kNoUpper};
    r = intersect(above, below);
  }
  // Every value is the constant term plus a multiple of the other coefficients' common divisor.
  const int64_t g = gcd_of_coefficients(p), c = constant_of(p);
  if (g > 1) {
    const int64_t residue = lithify::floor_mod(c, g);
    if (r.has_lower()) {
      const int64_t gap = lithify::floor_mod(residue - lithify::floor_mod(r.lo, g), g);
      r.lo = interval_detail::lower_of(static_cast<__int128>(r.lo) + gap);
    }
    if (r.has_upper()) {
      const int64_t gap = lithify::floor_mod(lithify::floor_mod(r.hi, g) - residue, g);
      r.hi = interval_detail::upper_of(static_cast<__int128>(r.hi) - gap);
    }
  }
  return r;
}

}  // namespace lithify::sym
