#include "provenance/claims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/checked.hpp"

namespace lithify::provenance {
namespace {

using Symbols = std::vector<sym::Expr>;

constexpr int64_t largest_unit = 256;
constexpr int64_t divisible = int64_t{64} * 9 * 5 * 7 * 11;  // by whatever models divide sizes by

Symbols symbols_of(const Requirement& r) {
  Symbols out = sym::symbols(r.a);
  for (sym::Expr s : sym::symbols(r.b))
    if (std::ranges::find(out, s) == out.end()) out.push_back(s);
  return out;
}

std::vector<std::string> names_of(const Requirement& r) {
  std::vector<std::string> out;
  for (sym::Expr s : symbols_of(r)) out.push_back(sym::info(s).name);
  return out;
}

/// Whether a requirement holds at every size that the facts of its symbols allow.
bool always_holds(sym::Context& sym, const Requirement& r) {
  switch (r.kind) {
    case Requirement::Kind::Equal:
      return sym.equal(r.a, r.b) == true;
    case Requirement::Kind::Multiple:
      return sym.divide_exactly(r.a, r.b).has_value();
    case Requirement::Kind::AtMost:
      return sym.less_equal(r.a, r.b) == true;
    case Requirement::Kind::Unequal:
      return sym.equal(r.a, r.b) == false;
  }
  return false;
}

/// Whether it holds at some sizes; nothing where it has no value.
std::optional<bool> holds_at(const sym::Context& sym, const Requirement& r,
                             const std::function<std::optional<int64_t>(sym::Expr)>& size_of) {
  try {
    const std::optional<int64_t> a = sym.evaluate(r.a, size_of), b = sym.evaluate(r.b, size_of);
    if (!a || !b || (r.kind == Requirement::Kind::Multiple && *b == 0)) return std::nullopt;
    switch (r.kind) {
      case Requirement::Kind::Equal:
        return *a == *b;
      case Requirement::Kind::Multiple:
        return floor_mod(*a, *b) == 0;
      case Requirement::Kind::AtMost:
        return *a <= *b;
      case Requirement::Kind::Unequal:
        return *a != *b;
    }
  } catch (const Error&) {  // a number that does not fit
  }
  return std::nullopt;
}

std::string text_of(const Requirement& r) {
  if (r.kind == Requirement::Kind::Unequal) return fmt::format("{} != {}", r.a.str(), r.b.str());
  return sym::Assumption{static_cast<sym::Assumption::Kind>(r.kind), r.a, r.b}.str();
}

Requirement rebuilt(sym::Context& sym, const Requirement& r, const std::function<sym::Expr(sym::Expr)>& replace) {
  return {r.kind, sym.rebuild(r.a, replace), sym.rebuild(r.b, replace), r.pos};
}

// ---- divisors -----------------------------------------------------------------------------------------------------

/// Whether a symbol stands within a division, or anything else that is not a product or sum.
bool is_divided(sym::Expr e, sym::Expr symbol) {
  if (sym::kind(e) == sym::Kind::Polynomial) {
    const std::vector<sym::Term> terms = sym::terms(e);
    return std::ranges::any_of(terms, [&](const sym::Term& t) {
      return std::ranges::any_of(t.atoms, [&](sym::Expr atom) { return is_divided(atom, symbol); });
    });
  }
  return !e.is_constant() && !e.is_symbol() && std::ranges::count(sym::symbols(e), symbol) > 0;
}

/// Whether a requirement is met by sizes that are multiples of certain numbers, and by no others.
class Divisors {
 public:
  Divisors(sym::Context& sym, const Requirement& requirement)
      : sym_(sym), requirement_(requirement), symbols_(symbols_of(requirement)) {}

  const Symbols& symbols() const { return symbols_; }

  /// One number per symbol; empty when there are none.
  std::vector<int64_t> find() {
    const std::vector<int64_t> least = least_sufficient();
    return !least.empty() && are_necessary(least) ? least : std::vector<int64_t>();
  }

 private:
  bool suffice(const std::vector<int64_t>& divisors) {
    try {
      return always_holds(sym_, rebuilt(sym_, requirement_, [&](sym::Expr s) {
                            return sym_.mul(units_[index_of(s)], sym_.constant(divisors[index_of(s)]));
                          }));
    } catch (const Error&) {
      return false;
    }
  }

  std::vector<int64_t> least_sufficient() {
    for (sym::Expr s : symbols_) units_.push_back(sym_.symbol({.name = sym_.info(s).name}));
    // Large numbers for as few as possible: products of them must fit.
    std::vector<int64_t> least;
    for (sym::Expr s : symbols_)
      least.push_back(is_divided(requirement_.a, s) || is_divided(requirement_.b, s) ? divisible : 1);
    if (!suffice(least)) {
      least.assign(symbols_.size(), divisible);
      if (!suffice(least)) return {};
    }
    for (size_t i = 0; i < symbols_.size(); ++i) {
      std::vector<int64_t> tried = least;
      for (tried[i] = 1; tried[i] <= largest_unit && !suffice(tried);) ++tried[i];
      if (tried[i] > largest_unit) return {};
      least = tried;
    }
    return least;
  }

  /// Whether the requirement fails at all sizes tried that are not multiples: along each symbol, and anywhere.
  bool are_necessary(const std::vector<int64_t>& divisors) const {
    const int64_t most = 2 * *std::ranges::max_element(divisors) + 64;
    for (size_t i = 0; i < symbols_.size(); ++i)
      for (int64_t size = 1; size <= most; ++size) {
        std::vector<int64_t> sizes = divisors;
        for (size_t j = 0; j < sizes.size(); ++j) sizes[j] *= static_cast<int64_t>(1 + j % 3);
        sizes[i] = size;
        if (holds_elsewhere(sizes, divisors)) return false;
      }
    std::mt19937 random(1);
    constexpr int tries = 500, range = 64;
    for (int n = 0; n < tries; ++n) {
      std::vector<int64_t> sizes;
      for (size_t i = 0; i < symbols_.size(); ++i) sizes.push_back(1 + static_cast<int64_t>(random() % range));
      if (holds_elsewhere(sizes, divisors)) return false;
    }
    return true;
  }

  bool holds_elsewhere(const std::vector<int64_t>& sizes, const std::vector<int64_t>& divisors) const {
    bool multiples = true;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const sym::SymbolInfo& info = sym_.info(symbols_[i]);
      if (info.lower.value_or(sizes[i]) > sizes[i] || info.upper.value_or(sizes[i]) < sizes[i] ||
          sizes[i] % info.divisor != 0)
        return false;
      multiples = multiples && sizes[i] % divisors[i] == 0;
    }
    return !multiples &&
           holds_at(sym_, requirement_, [&](sym::Expr s) { return std::optional(sizes[index_of(s)]); }) == true;
  }

  size_t index_of(sym::Expr symbol) const {
    return static_cast<size_t>(std::ranges::find(symbols_, symbol) - symbols_.begin());
  }

  sym::Context& sym_;
  const Requirement& requirement_;
  Symbols symbols_, units_;
};

// ---- residues -----------------------------------------------------------------------------------------------------

/// Collects what an expression is divided by; false when that is not always a number.
bool collect_divisors(sym::Expr e, int64_t& all) {
  const sym::Kind kind = sym::kind(e);
  if (e.is_constant() || e.is_symbol()) return true;
  if (kind == sym::Kind::Polynomial) {
    const std::vector<sym::Term> terms = sym::terms(e);
    return std::ranges::all_of(terms, [&](const sym::Term& t) {
      return std::ranges::all_of(t.atoms, [&](sym::Expr atom) { return collect_divisors(atom, all); });
    });
  }
  const auto [x, y] = sym::operands(e);
  if (kind == sym::Kind::FloorDiv || kind == sym::Kind::Mod) {
    const int64_t divisor = y.constant().value_or(0);
    if (divisor < 1 || divisor > largest_unit) return false;
    all = std::lcm(all, divisor);  // of a few numbers that are small
    return all <= largest_unit && collect_divisors(x, all);
  }
  return collect_divisors(x, all) && collect_divisors(y, all);
}

/// A requirement by the remainders of its symbols when they are divided by what it divides them by: within such a class
/// of sizes, its divisions are exact, and it is decided by what is known of sums and products.
class Residues {
 public:
  Residues(sym::Context& sym, const Requirement& requirement)
      : sym_(sym), requirement_(requirement), symbols_(symbols_of(requirement)) {
    known_ = collect_divisors(requirement.a, modulus_) && collect_divisors(requirement.b, modulus_) && modulus_ > 1;
  }

  /// Whether the requirement holds in every class.
  bool always_hold() {
    constexpr int64_t most_classes = 1024;
    int64_t classes = 1;
    for (size_t i = 0; i < symbols_.size(); ++i) classes = std::min(classes * modulus_, most_classes + 1);
    if (!known_ || classes > most_classes) return false;
    for (int64_t n = 0; n < classes; ++n)
      if (!always_holds(sym_, in_class(n))) return false;
    return true;
  }

  /// Of a requirement a <= b of one symbol: the least size at which it holds, if it does so at all that are not less.
  std::optional<int64_t> lower_bound() {
    if (!known_ || symbols_.size() != 1 || requirement_.kind != Requirement::Kind::AtMost) return std::nullopt;
    std::vector<int64_t> least;  // by class
    for (int64_t n = 0; n < modulus_; ++n) {
      const Requirement r = in_class(n);
      const std::vector<sym::Term> terms = sym::terms(sym_.sub(r.b, r.a));
      const bool linear = terms.size() <= 2 && terms[0].atoms == Symbols{unit(0)} && terms[0].coefficient > 0 &&
                          (terms.size() == 1 || terms[1].atoms.empty());
      if (!linear) return std::nullopt;
      const int64_t constant = terms.size() == 2 ? terms[1].coefficient : 0;
      const int64_t first = std::max<int64_t>(-floor_div(constant, terms[0].coefficient), 0);
      least.push_back(checked_add(checked_mul(first, modulus_), n));
    }
    const int64_t bound = *std::ranges::min_element(least);
    const bool all = std::ranges::all_of(least, [&](int64_t size) { return size - bound < modulus_; });
    return all ? std::optional(bound) : std::nullopt;
  }

 private:
  sym::Expr unit(size_t i) {
    while (units_.size() <= i) units_.push_back(sym_.symbol({.name = "unit", .lower = 0}));
    return units_[i];
  }

  /// The requirement for the sizes modulus*unit + remainder; `n` has the remainders as its digits.
  Requirement in_class(int64_t n) {
    std::vector<sym::Expr> sizes;
    for (size_t i = 0; i < symbols_.size(); ++i, n /= modulus_)
      sizes.push_back(sym_.add(sym_.mul(unit(i), sym_.constant(modulus_)), sym_.constant(n % modulus_)));
    return rebuilt(sym_, requirement_, [&](sym::Expr s) {
      return sizes[static_cast<size_t>(std::ranges::find(symbols_, s) - symbols_.begin())];
    });
  }

  sym::Context& sym_;
  const Requirement& requirement_;
  Symbols symbols_, units_;
  int64_t modulus_ = 1;
  bool known_ = false;
};

// ---- requirements -------------------------------------------------------------------------------------------------

/// What is known of one symbol, and where it comes from.
struct Facts {
  std::optional<int64_t> lower, upper;
  int64_t divisor = 1;
  program::Pos lower_pos = {}, upper_pos = {}, divisor_pos = {};
};

/// Collects requirements as facts of single symbols, and keeps those that are none.
class Collector {
 public:
  explicit Collector(sym::Context& sym) : sym_(sym) {}

  Facts& facts_of(sym::Expr symbol) {
    auto found = std::ranges::find(facts, symbol, &std::pair<sym::Expr, Facts>::first);
    if (found == facts.end()) {
      const sym::SymbolInfo& info = sym_.info(symbol);
      found = facts.insert(facts.end(), {symbol, {info.lower, info.upper, info.divisor}});
    }
    return found->second;
  }

  void require(const Requirement& r) {
    if (always_holds(sym_, r)) return;
    if (r.kind == Requirement::Kind::AtMost) return at_least_zero(sym_.sub(r.b, r.a), r.pos);
    if (r.kind == Requirement::Kind::Equal && (as_order(r) || as_multiple(r))) return;
    if (Residues(sym_, r).always_hold()) return;
    Divisors divisors(sym_, r);
    const std::vector<int64_t> found = r.kind == Requirement::Kind::Unequal ? std::vector<int64_t>() : divisors.find();
    if (found.empty()) rest.push_back(r);
    for (size_t i = 0; i < found.size(); ++i) {
      Facts& known = facts_of(divisors.symbols()[i]);
      if (known.divisor % found[i] == 0) continue;
      known.divisor = std::lcm(known.divisor, found[i]);
      known.divisor_pos = r.pos;
    }
  }

  std::vector<std::pair<sym::Expr, Facts>> facts;
  std::vector<Requirement> rest;

 private:
  /// min(a, b) == a says that a <= b, and max(a, b) == a that b <= a.
  bool as_order(const Requirement& r) {
    for (const auto& [whole, part] : {std::pair(r.a, r.b), std::pair(r.b, r.a)}) {
      const sym::Kind kind = sym::kind(whole);
      if (kind != sym::Kind::Min && kind != sym::Kind::Max) continue;
      const auto [x, y] = sym::operands(whole);
      if (x != part && y != part) continue;
      const sym::Expr other = x == part ? y : x;
      at_least_zero(kind == sym::Kind::Min ? sym_.sub(other, part) : sym_.sub(part, other), r.pos);
      return true;
    }
    return false;
  }

  /// z == w*floor(z/w) says that z % w == 0; also as a part of a product.
  bool as_multiple(const Requirement& r) {
    const sym::Expr difference = sym_.sub(r.a, r.b);
    const std::vector<sym::Term> terms = sym::terms(difference);
    for (const sym::Term& term : terms)
      for (sym::Expr atom : term.atoms) {
        if (sym::kind(atom) != sym::Kind::FloorDiv) continue;
        sym::Expr factor = sym_.constant(0), rest = factor;  // difference == factor*atom + rest
        for (const sym::Term& t : terms) {
          std::vector<sym::Expr> atoms = t.atoms;
          const auto found = std::ranges::find(atoms, atom);
          const bool within = found != atoms.end();
          if (within) atoms.erase(found);
          const sym::Expr product = sym_.mul(sym_.product(atoms), sym_.constant(t.coefficient));
          (within ? factor : rest) = sym_.add(within ? factor : rest, product);
        }
        const auto [z, w] = sym::operands(atom);
        const std::optional<sym::Expr> times = sym_.divide_exactly(factor, w);  // w is not 0 where the atom has a value
        const bool is_never_zero = factor.lower().value_or(0) > 0 || factor.upper().value_or(0) < 0 ||
                                   (times && times->constant().value_or(0) != 0);
        if (!is_never_zero || sym_.equal(sym_.add(sym_.mul(rest, w), sym_.mul(factor, z)), sym_.constant(0)) != true)
          continue;
        require({Requirement::Kind::Multiple, z, w, r.pos});
        return true;
      }
    return false;
  }

  void at_least_zero(sym::Expr e, program::Pos pos) {
    if (e.lower().value_or(-1) >= 0) return;
    const std::vector<sym::Term> terms = sym::terms(e);
    const bool single =
        terms[0].atoms.size() == 1 && (terms.size() == 1 || (terms.size() == 2 && terms[1].atoms.empty()));
    if (!single) return keep_order(e, pos);
    const int64_t factor = terms[0].coefficient, constant = terms.size() == 2 ? terms[1].coefficient : 0;
    // factor * atom + constant >= 0
    const bool handled = factor > 0 ? at_least(terms[0].atoms[0], -floor_div(constant, factor), pos)
                                    : at_most(terms[0].atoms[0], floor_div(constant, -factor), pos);
    if (!handled) keep_order(e, pos);
  }

  bool at_least(sym::Expr atom, int64_t bound, program::Pos pos) {
    if (atom.is_symbol()) {
      Facts& known = facts_of(atom);
      if (!known.lower || *known.lower < bound) known.lower = bound, known.lower_pos = pos;
      return true;
    }
    const auto [x, y] = sym::operands(atom);
    const sym::Expr limit = sym_.constant(bound);
    switch (sym::kind(atom)) {
      case sym::Kind::FloorDiv:  // floor(x/y) >= bound where x >= bound*y
        if (y.constant().value_or(0) < 1) return false;
        at_least_zero(sym_.sub(x, sym_.mul(limit, y)), pos);
        return true;
      case sym::Kind::Min:
        at_least_zero(sym_.sub(x, limit), pos);
        at_least_zero(sym_.sub(y, limit), pos);
        return true;
      default:
        return false;
    }
  }

  bool at_most(sym::Expr atom, int64_t bound, program::Pos pos) {
    if (atom.is_symbol()) {
      Facts& known = facts_of(atom);
      if (!known.upper || *known.upper > bound) known.upper = bound, known.upper_pos = pos;
      return true;
    }
    const auto [x, y] = sym::operands(atom);
    const sym::Expr limit = sym_.constant(bound);
    switch (sym::kind(atom)) {
      case sym::Kind::FloorDiv:  // floor(x/y) <= bound where x < (bound + 1)*y
        if (y.constant().value_or(0) < 1) return false;
        at_least_zero(sym_.sub(sym_.mul(sym_.constant(checked_add(bound, 1)), y), sym_.add(x, sym_.constant(1))), pos);
        return true;
      case sym::Kind::Max:
        at_least_zero(sym_.sub(limit, x), pos);
        at_least_zero(sym_.sub(limit, y), pos);
        return true;
      default:
        return false;
    }
  }

  /// The terms of e >= 0 on the sides where they are positive.
  void keep_order(sym::Expr e, program::Pos pos) {
    sym::Expr less = sym_.constant(0), more = less;
    for (const sym::Term& t : sym::terms(e)) {
      sym::Expr term = sym_.product(t.atoms);
      term = sym_.mul(term, sym_.constant(t.coefficient));
      if (t.coefficient < 0) less = sym_.sub(less, term);
      if (t.coefficient > 0) more = sym_.add(more, term);
    }
    const Requirement r{Requirement::Kind::AtMost, less, more, pos};
    Residues residues(sym_, r);
    const std::optional<int64_t> bound = residues.lower_bound();
    if (bound)
      at_least(sym::symbols(e)[0], *bound, pos);
    else if (!residues.always_hold())
      rest.push_back(r);
  }

  sym::Context& sym_;
};

/// Symbols of another context in this one, with the names that formulas have. What holds for them there holds here,
/// save that they are below something.
class Copies {
 public:
  Copies(sym::Context& to, Spelling spelling) : to_(to), spelling_(std::move(spelling)) {}

  sym::Expr operator()(sym::Expr symbol) {
    auto found = std::ranges::find(copies_, symbol, &std::pair<sym::Expr, sym::Expr>::first);
    if (found == copies_.end()) {
      sym::SymbolInfo info = sym::info(symbol);
      info.name = spelling_(info.name);
      info.below = {};
      found = copies_.insert(copies_.end(), {symbol, to_.symbol(info)});
    }
    return found->second;
  }

 private:
  sym::Context& to_;
  Spelling spelling_;
  std::vector<std::pair<sym::Expr, sym::Expr>> copies_;
};

/// The requirements that do not follow from the facts.
std::vector<Requirement> independent(const std::vector<std::pair<sym::Expr, Facts>>& facts,
                                     const std::vector<Requirement>& all) {
  sym::Context known;
  std::vector<std::pair<sym::Expr, sym::Expr>> copies;
  try {
    for (const auto& [symbol, f] : facts)
      copies.emplace_back(
          symbol,
          known.symbol({.name = sym::info(symbol).name, .lower = f.lower, .upper = f.upper, .divisor = f.divisor}));
  } catch (const Error&) {  // the facts leave no size
    return all;
  }
  Copies others(known, [](const std::string& name) { return name; });
  const auto replace = [&](sym::Expr symbol) {
    const auto found = std::ranges::find(copies, symbol, &std::pair<sym::Expr, sym::Expr>::first);
    return found == copies.end() ? others(symbol) : found->second;
  };
  std::vector<Requirement> out;
  for (const Requirement& r : all) try {
      if (!always_holds(known, rebuilt(known, r, replace))) out.push_back(r);
    } catch (const Error&) {
      out.push_back(r);
    }
  return out;
}

/// Whether a requirement excludes no size of those tried that facts and other requirements allow. An order of sizes may
/// well exclude only larger ones.
bool excludes_nothing(const sym::Context& sym, const Requirement& r,
                      const std::vector<std::pair<sym::Expr, Facts>>& facts, const std::vector<Requirement>& others) {
  if (r.kind == Requirement::Kind::AtMost) return false;
  constexpr int tries = 4000, enough = 200;
  std::mt19937 random(1);
  int allowed = 0;
  for (int n = 0; n < tries; ++n) {
    std::map<const sym::Node*, int64_t> sizes;
    const auto size_of = [&](sym::Expr s) -> std::optional<int64_t> {
      const auto known = std::ranges::find(facts, s, &std::pair<sym::Expr, Facts>::first);
      const Facts f =
          known == facts.end() ? Facts{sym.info(s).lower, sym.info(s).upper, sym.info(s).divisor} : known->second;
      const int64_t range = n % 4 == 0 ? 100'000 : 50;
      int64_t size = std::max<int64_t>(f.lower.value_or(1), 1) + static_cast<int64_t>(random() % range) * f.divisor;
      if (f.upper) size = std::min(size, *f.upper);
      return sizes.try_emplace(s.node(), size - size % f.divisor).first->second;
    };
    const auto holds = [&](const Requirement& other) { return holds_at(sym, other, size_of) == true; };
    if (!std::ranges::all_of(others, holds)) continue;
    if (holds_at(sym, r, size_of) == false) return false;
    ++allowed;
  }
  return allowed >= enough;
}

void append(std::vector<Constraint>& out, Constraint c) {
  if (std::ranges::find(out, c.formula, &Constraint::formula) == out.end()) out.push_back(std::move(c));
}

}  // namespace

Requirement::Requirement(const sym::Assumption& assumed, program::Pos pos_)
    : Requirement(static_cast<Kind>(assumed.kind), assumed.a, assumed.b, pos_) {}

std::vector<Constraint> constraints(const std::map<std::string, sym::Expr>& dimensions,
                                    const std::vector<Requirement>& requirements, const Spelling& spelling) {
  sym::Context sym;
  Copies copies(sym, spelling);
  std::map<std::string, std::string> names;  // by how they are written
  std::vector<Constraint> out;
  std::vector<Requirement> copied;  // all of them first: a symbol that is made on the way could have the name of one
  for (const Requirement& r : requirements) try {
      for (sym::Expr s : symbols_of(r)) names.emplace(sym.info(copies(s)).name, sym::info(s).name);
      copied.push_back(rebuilt(sym, r, std::ref(copies)));
    } catch (const Error&) {
      append(out, {text_of(r), names_of(r), r.pos});
    }
  for (const auto& [name, symbol] : dimensions) names.emplace(sym.info(copies(symbol)).name, name);

  Collector collected(sym);
  for (const auto& [name, symbol] : dimensions) collected.facts_of(copies(symbol));
  for (const Requirement& r : copied) try {
      collected.require(r);
    } catch (const Error&) {  // a formula that grows too large
      collected.rest.push_back(r);
    }

  for (const auto& [symbol, f] : collected.facts) {
    const std::string& text = sym.info(symbol).name;
    const std::vector<std::string> whose = {names.at(text)};
    if (f.divisor > 1) append(out, {fmt::format("{} % {} == 0", text, f.divisor), whose, f.divisor_pos});
    if (f.lower)
      append(out, {fmt::format("{} >= {}", text, *f.lower), whose, f.lower_pos,
                   *f.lower <= std::max<int64_t>(f.divisor, 1)});
    if (f.upper) append(out, {fmt::format("{} <= {}", text, *f.upper), whose, f.upper_pos});
  }
  std::vector<Requirement> shown;
  for (const Requirement& r : independent(collected.facts, collected.rest)) {
    const bool implied = excludes_nothing(sym, r, collected.facts, shown);
    if (!implied) shown.push_back(r);
    std::vector<std::string> whose = names_of(r);
    for (std::string& name : whose) name = names.at(name);
    append(out, {text_of(r), std::move(whose), r.pos, implied});
  }
  return out;
}

std::string formula_of(sym::Expr size, const Spelling& spelling) {
  sym::Context sym;
  return sym.rebuild(size, Copies(sym, spelling)).str();
}

std::vector<std::string> bounds_of(const sym::Context& sym, sym::Expr symbol) {
  const sym::SymbolInfo& info = sym.info(symbol);
  std::vector<std::string> out;
  if (info.lower.value_or(1) > std::max<int64_t>(1, info.divisor))
    out.push_back(fmt::format("{} >= {}", info.name, *info.lower));
  if (info.upper) out.push_back(fmt::format("{} <= {}", info.name, *info.upper));
  return out;
}

}  // namespace lithify::provenance
