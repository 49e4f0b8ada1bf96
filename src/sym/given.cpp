#include "sym/given.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/checked.hpp"

namespace lithify::sym {

/// A symbol whose remainder by a number is known.
struct Residue {
  Expr symbol;
  int64_t by = 0, remainder = 0;
};

namespace {

/// coefficient * atom + rest, where the rest does not have the atom.
struct Linear {
  int64_t coefficient = 0;
  Expr rest;
};

bool has_atom(Expr e, Expr atom) {
  if (e == atom) return true;
  if (e.is_constant() || e.is_symbol()) return false;
  const auto has = [&](Expr part) { return has_atom(part, atom); };
  if (kind(e) == Kind::Polynomial)
    return std::ranges::any_of(terms(e), [&](const Term& t) { return std::ranges::any_of(t.atoms, has); });
  const auto [a, b] = operands(e);
  return has(a) || has(b);
}

std::optional<Linear> linear_in(Context& sym, Expr e, Expr unknown) {
  Linear out{0, sym.constant(0)};
  for (const Term& t : terms(e)) {
    if (t.atoms.size() == 1 && t.atoms[0] == unknown) {
      out.coefficient = t.coefficient;
      continue;
    }
    Expr term = sym.constant(t.coefficient);
    for (Expr atom : t.atoms) {
      if (has_atom(atom, unknown)) return std::nullopt;
      term = sym.mul(term, atom);
    }
    out.rest = sym.add(out.rest, term);
  }
  return out.coefficient == 0 ? std::nullopt : std::optional(out);
}

/// What it states that an expression is 0: of s % 4 - 1, and of s - 4*floor(s/4) - 1 and its negative.
std::optional<Residue> as_residue(Context& sym, Expr zero) {
  for (const Term& t : terms(zero)) {
    if (t.atoms.size() != 1 || (kind(t.atoms[0]) != Kind::Mod && kind(t.atoms[0]) != Kind::FloorDiv)) continue;
    const auto [symbol, by] = operands(t.atoms[0]);
    const int64_t divisor = by.constant().value_or(0);
    if (!symbol.is_symbol() || divisor < 2) continue;
    const Expr rest = sym.sub(symbol, sym.mul(by, sym.floor_div(symbol, by)));
    for (Expr remainder : {sym.mod(symbol, by), rest})
      for (const std::optional<int64_t> is : {sym.sub(remainder, zero).constant(), sym.add(remainder, zero).constant()})
        if (is && *is >= 0 && *is < divisor) return Residue{symbol, divisor, *is};
  }
  return std::nullopt;
}

/// The minima and maxima in an expression, inner ones first.
void add_extrema(Expr e, std::vector<Expr>& found) {
  if (e.is_constant() || e.is_symbol()) return;
  if (kind(e) == Kind::Polynomial) {
    for (const Term& t : terms(e))
      for (Expr atom : t.atoms) add_extrema(atom, found);
    return;
  }
  const auto [a, b] = operands(e);
  add_extrema(a, found);
  add_extrema(b, found);
  if (kind(e) == Kind::Min || kind(e) == Kind::Max) found.push_back(e);
}

}  // namespace

Knowledge::Knowledge(Context& sym, const Knowledge* outer, std::span<const Fact> facts) : sym_(sym) {
  if (outer) {
    stated_ = outer->stated_;
    replaced_ = outer->replaced_;
    zero_ = outer->zero_;
    not_zero_ = outer->not_zero_;
    never_negative_ = outer->never_negative_;
  }
  for (const Fact& fact : facts) add(fact);
}

Expr Knowledge::known(Expr e) const {
  if (!never_negative_.empty()) {
    std::vector<Expr> found;
    add_extrema(e, found);
    for (Expr extremum : found) {
      const auto [a, b] = operands(extremum);
      const bool is_min = kind(extremum) == Kind::Min;
      if (states_at_most(a, b)) e = sym_.substitute(e, extremum, is_min ? a : b);
      if (states_at_most(b, a)) e = sym_.substitute(e, extremum, is_min ? b : a);
    }
  }
  for (const auto& [symbol, by] : replaced_) e = sym_.substitute(e, symbol, by);
  return e;
}

bool Knowledge::states_equal(Expr a, Expr b) const {
  const Expr difference = sym_.sub(a, b), reversed = sym_.sub(b, a);
  return std::ranges::any_of(zero_, [&](Expr z) { return z == difference || z == reversed; });
}

bool Knowledge::states_unequal(Expr a, Expr b) const {
  const Expr difference = sym_.sub(a, b), reversed = sym_.sub(b, a);
  return std::ranges::any_of(not_zero_, [&](Expr z) { return z == difference || z == reversed; });
}

bool Knowledge::states_at_most(Expr a, Expr b) const {
  const Expr difference = sym_.sub(b, a);
  return std::ranges::any_of(never_negative_,
                             [&](Expr d) { return sym_.sub(difference, d).constant().value_or(-1) >= 0; });
}

// ---- what follows from a fact -------------------------------------------------------------------------------------

void Knowledge::add(const Fact& fact) {
  if (std::ranges::find(stated_, fact) != stated_.end()) return;
  stated_.push_back(fact);
  const Expr difference = sym_.sub(fact.a, fact.b);
  switch (fact.kind) {
    case Fact::Kind::Equal:
      zero_.push_back(difference);
      return add_equal(known(difference));
    case Fact::Kind::AtMost:
      return add_never_negative(sym_.neg(difference));
    case Fact::Kind::Less:
      return add_never_negative(sym_.sub(sym_.neg(difference), sym_.constant(1)));
    case Fact::Kind::NotEqual:
      not_zero_.push_back(difference);
      // At an end of its range, it moves the end.
      if (known(difference).lower() == 0) return add_never_negative(sym_.sub(difference, sym_.constant(1)));
      if (known(difference).upper() == 0) return add_never_negative(sym_.sub(sym_.neg(difference), sym_.constant(1)));
  }
}

/// A difference is 0: a symbol is what the rest of it says, or a multiple.
void Knowledge::add_equal(Expr difference) {
  if (const std::optional<Residue> found = as_residue(sym_, difference)) return add_residue(*found);
  std::vector<Expr> all = symbols(difference);
  // What is a number afterwards says the most.
  std::ranges::stable_sort(all, {}, [&](Expr s) {
    const std::optional<Linear> line = linear_in(sym_, difference, s);
    return !line || !line->rest.is_constant();
  });
  for (Expr symbol : all) {
    const std::optional<Linear> line = linear_in(sym_, difference, symbol);
    if (!line) continue;
    if (std::abs(line->coefficient) == 1)
      return replace(symbol, line->coefficient == 1 ? sym_.neg(line->rest) : line->rest);
    if (const auto rest = line->rest.constant(); rest && *rest % line->coefficient == 0)
      return replace(symbol, sym_.constant(-*rest / line->coefficient));
  }
  // Where no symbol is, a quotient may be: floor(h/2) == 2*floor(h/4) + 1.
  for (const Term& t : terms(difference)) {
    const bool one = t.atoms.size() == 1 && !t.atoms[0].is_symbol() && std::abs(t.coefficient) == 1;
    const std::optional<Linear> line = one ? linear_in(sym_, difference, t.atoms[0]) : std::nullopt;
    if (line) return replace(t.atoms[0], line->coefficient == 1 ? sym_.neg(line->rest) : line->rest);
  }
}

/// A multiple is a symbol that has the divisor, and any other remainder is added to one.
void Knowledge::add_residue(const Residue& residue) {
  SymbolInfo info = sym_.info(residue.symbol);
  if (residue.remainder == 0) {
    info.divisor = std::lcm(info.divisor, residue.by);
    return narrow(residue.symbol, info);
  }
  SymbolInfo quotient{.name = info.name};
  if (info.lower) quotient.lower = -lithify::floor_div(residue.remainder - *info.lower, residue.by);
  if (info.upper) quotient.upper = lithify::floor_div(*info.upper - residue.remainder, residue.by);
  const Expr multiple = sym_.mul(sym_.symbol(quotient), sym_.constant(residue.by));
  replace(residue.symbol, sym_.add(multiple, sym_.constant(residue.remainder)));
}

/// A line through one symbol that is not negative is a bound of the symbol.
void Knowledge::add_never_negative(Expr stated) {
  never_negative_.push_back(stated);
  const Expr difference = known(stated);
  if (difference.lower().value_or(-1) >= 0) return;
  if (difference.upper() == 0) {
    zero_.push_back(stated);
    return add_equal(difference);
  }
  const std::vector<Expr> all = symbols(difference);
  if (all.size() != 1) return;
  const std::optional<Linear> line = linear_in(sym_, difference, all[0]);
  if (!line || !line->rest.constant()) return;
  SymbolInfo info = sym_.info(all[0]);
  const int64_t c = line->coefficient, k = *line->rest.constant();
  if (c > 0)
    info.lower = std::max(info.lower.value_or(std::numeric_limits<int64_t>::min()), -lithify::floor_div(k, c));
  else
    info.upper = std::min(info.upper.value_or(std::numeric_limits<int64_t>::max()), lithify::floor_div(k, -c));
  narrow(all[0], info);
}

/// The symbol is one with these facts, if there is such a size at all.
void Knowledge::narrow(Expr symbol, const SymbolInfo& info) {
  if (info.lower && info.upper && *info.lower > *info.upper) return;
  replace(symbol, info.lower && info.lower == info.upper ? sym_.constant(*info.lower) : sym_.symbol(info));
}

void Knowledge::replace(Expr symbol, Expr by) { replaced_.emplace_back(symbol, by); }

Given::Given(Context& sym, std::span<const Fact> facts) : sym_(sym), outer_(sym.knowledge) {
  if (facts.empty()) return;
  inner_ = std::make_unique<const Knowledge>(sym, outer_, facts);
  sym.knowledge = inner_.get();
}

}  // namespace lithify::sym
