#include "provenance/formulas.hpp"

#include <algorithm>

#include "base/checked.hpp"

namespace lithify::provenance {
namespace {

constexpr int max_cost = 6;
constexpr size_t max_explanations = 12;
constexpr int64_t largest_patch = 32;                // sides of windows and strides that images are divided by
constexpr int64_t largest_offset = 8;                // of one trace
constexpr int64_t largest_divisor = 64;              // of several traces
constexpr int64_t largest_value = int64_t{1} << 40;  // that formulas of sizes are looked for: hashes are no sizes

std::optional<int64_t> value_in(const sym::Context& sym, std::span<const Dimension> dimensions, sym::Expr e,
                                size_t trace) {
  return sym.evaluate(e, [&](sym::Expr symbol) -> std::optional<int64_t> {
    for (const Dimension& d : dimensions)
      if (d.symbol == symbol) return d.sizes[trace];
    return std::nullopt;
  });
}

class Explainer {
 public:
  Explainer(sym::Context& sym, std::span<const Dimension> dimensions, std::span<const int64_t> values)
      : sym_(sym), dimensions_(dimensions), values_(values) {}

  std::vector<Explanation> all(std::span<const sym::Expr> sizes) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      moved(sizes[i]);
      for (size_t j = i; j < sizes.size(); ++j) {
        moved(sym_.mul(sizes[i], sizes[j]));
        for (const Dimension& d : dimensions_) moved(sym_.mul(sym_.mul(sizes[i], sizes[j]), d.symbol));
      }
    }
    for (size_t i = 0; i < dimensions_.size(); ++i) {
      const sym::Expr d = dimensions_[i].symbol;
      related(d);
      for (size_t j = 0; j < dimensions_.size(); ++j) pair(d, dimensions_[j].symbol, i, j);
    }
    std::stable_sort(found_.begin(), found_.end(), [](auto& a, auto& b) { return a.cost < b.cost; });
    if (found_.size() > max_explanations) found_.resize(max_explanations);
    return std::move(found_);
  }

 private:
  void pair(sym::Expr d, sym::Expr e, size_t i, size_t j) {
    const sym::Expr one = sym_.constant(1);
    if (i <= j) {
      related(sym_.mul(d, e));
      related(sym_.add(d, e));
      for (size_t k = j + 1; k < dimensions_.size(); ++k) related(sym_.mul(sym_.mul(d, e), dimensions_[k].symbol));
    }
    if (i == j) return;
    add(sym_.sub(d, e));
    add(sym_.mul(sym_.add(d, one), e));
    add(sym_.mul(sym_.sub(d, one), e));
    if (i > j) return;
    // Patches of an image, of all images, and with something beside them.
    for (int64_t side = 2; side <= largest_patch; ++side) {
      const sym::Expr s = sym_.constant(side), patches = sym_.mul(sym_.floor_div(d, s), sym_.floor_div(e, s));
      add(patches);
      if (values_.size() == 1) continue;
      moved(patches);
      for (size_t k = 0; k < dimensions_.size(); ++k)
        if (k != i && k != j) moved(sym_.mul(patches, dimensions_[k].symbol));
    }
  }

  /// What differs from the formula by an offset or a factor.
  void moved(sym::Expr e) {
    const std::optional<int64_t> size = at(e, 0);
    if (!size) return;
    const int64_t value = values_[0], offset = checked_sub(value, *size);
    if (values_.size() > 1 || std::abs(offset) <= largest_offset) add(sym_.add(e, sym_.constant(offset)));
    if (*size > 1 && value % *size == 0) add(sym_.mul(e, sym_.constant(value / *size)));
  }

  /// The formula, and what differs from it by a factor, a divisor or an offset.
  void related(sym::Expr e) {
    add(e);
    std::vector<int64_t> sizes;
    for (size_t k = 0; k < values_.size(); ++k) {
      std::optional<int64_t> size = at(e, k);
      if (!size) return;
      sizes.push_back(*size);
    }
    const int64_t size = sizes[0], value = values_[0];
    moved(e);
    if (values_.size() == 1) {
      const int64_t by = value > 0 ? size / value : 0;
      // A divisor may just as well be a dimension; and any size divided by itself is 1, which shows little.
      if (size > value && (value == 1 ? by <= largest_patch : value > 1 && !is_size(by)))
        add(sym_.floor_div(e, sym_.constant(by)));
      return;
    }
    for (int64_t by = 2; by <= largest_divisor; ++by) {
      const sym::Expr divisor = sym_.constant(by), quotient = sym_.floor_div(e, divisor);
      add(quotient);
      add(sym_.ceil_div(e, divisor));
      if (std::optional<int64_t> q = at(quotient, 0)) add(sym_.add(quotient, sym_.constant(value - *q)));
    }
    // A straight line through the first traces in which the sizes differ.
    for (size_t k = 1; k < sizes.size(); ++k) {
      if (sizes[k] == size) continue;
      const int64_t rise = checked_sub(values_[k], value), run = checked_sub(sizes[k], size);
      if (rise != 0 && rise % run == 0) {
        const int64_t slope = rise / run, offset = checked_sub(value, checked_mul(slope, size));
        add(sym_.add(sym_.mul(e, sym_.constant(slope)), sym_.constant(offset)));
      }
      break;
    }
  }

  bool is_size(int64_t divisor) const {
    return std::ranges::any_of(dimensions_, [&](const Dimension& d) { return d.sizes[0] == divisor; });
  }

  std::optional<int64_t> at(sym::Expr e, size_t trace) const { return value_in(sym_, dimensions_, e, trace); }

  void add(sym::Expr e) {
    if (e.is_constant()) return;
    if (!explains(sym_, dimensions_, e, values_)) return;
    const int cost = cost_of(e) + cost_of_unseen(dimensions_, e);
    const bool known = std::any_of(found_.begin(), found_.end(), [&](auto& f) { return f.formula == e; });
    if (!known && (cost <= max_cost || values_.size() > 1)) found_.push_back({e, cost});
  }

  sym::Context& sym_;
  std::span<const Dimension> dimensions_;
  std::span<const int64_t> values_;
  std::vector<Explanation> found_;
};

}  // namespace

int cost_of(sym::Expr e) {
  if (e.is_constant() || e.is_symbol()) return 1;
  if (sym::kind(e) != sym::Kind::Polynomial) {
    const auto [a, b] = sym::operands(e);
    // Small divisors are strides and windows; the others rather are sizes themselves.
    const int64_t divisor = sym::kind(e) == sym::Kind::FloorDiv ? b.constant().value_or(1) : 1;
    return cost_of(a) + cost_of(b) + 1 + (divisor > 4) + (divisor > 8);
  }
  int cost = 0;
  for (const sym::Term& t : sym::terms(e)) {
    for (sym::Expr atom : t.atoms) cost += cost_of(atom);
    if (t.atoms.empty()) {
      const int64_t offset = std::abs(t.coefficient);
      cost += offset == 1 ? 1 : offset <= largest_offset ? 3 : 6;
    } else if (t.coefficient != 1) {
      cost += t.coefficient < 0 ? 4 : 2;
    }
  }
  return cost;
}

int cost_of_unseen(std::span<const Dimension> dimensions, sym::Expr formula) {
  if (formula.is_symbol()) return 0;
  int cost = 0;
  for (sym::Expr symbol : sym::symbols(formula))
    for (const Dimension& d : dimensions)
      if (d.symbol == symbol && std::ranges::all_of(d.sizes, [](int64_t size) { return size == 1; })) cost += 2;
  return cost;
}

bool explains(const sym::Context& sym, std::span<const Dimension> dimensions, sym::Expr formula,
              std::span<const int64_t> values) {
  for (size_t k = 0; k < values.size(); ++k)
    if (value_in(sym, dimensions, formula, k) != values[k]) return false;
  return true;
}

std::vector<Explanation> explain(sym::Context& sym, std::span<const Dimension> dimensions,
                                 std::span<const int64_t> values, std::span<const sym::Expr> sizes) {
  const bool has_large = std::ranges::any_of(values, [](int64_t v) { return v > largest_value || v < -largest_value; });
  return has_large ? std::vector<Explanation>{} : Explainer(sym, dimensions, values).all(sizes);
}

}  // namespace lithify::provenance
