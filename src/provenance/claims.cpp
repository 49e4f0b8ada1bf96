#include "provenance/claims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/diagnostic.hpp"

namespace lithify::provenance {
namespace {

using Symbols = std::vector<sym::Expr>;

constexpr int64_t largest_unit = 256;
constexpr int64_t divisible = int64_t{64} * 9 * 5 * 7 * 11;  // by whatever models divide sizes by

/// Whether an assumption holds for every size when each symbol is a multiple of its number.
bool holds(sym::Context& sym, const sym::Assumption& assumed, const Symbols& symbols, const Symbols& units,
           const std::vector<int64_t>& divisors) {
  auto scaled = [&](sym::Expr e) {
    return sym.rebuild(e, [&](sym::Expr s) {
      const size_t i = static_cast<size_t>(std::find(symbols.begin(), symbols.end(), s) - symbols.begin());
      return sym.mul(units[i], sym.constant(divisors[i]));
    });
  };
  try {
    const sym::Expr a = scaled(assumed.a), b = scaled(assumed.b);
    switch (assumed.kind) {
      case sym::Assumption::Kind::Equal:
        return sym.equal(a, b) == true;
      case sym::Assumption::Kind::Multiple:
        return sym.divide_exactly(a, b).has_value();
      case sym::Assumption::Kind::AtMost:
        return sym.less_equal(a, b) == true;
    }
    return false;
  } catch (const Error&) {
    return false;
  }
}

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

/// The least multiples for which an assumption holds, one per symbol; empty when there are none.
std::vector<int64_t> least_divisors(sym::Context& sym, const sym::Assumption& assumed, const Symbols& symbols) {
  Symbols units;
  for (sym::Expr s : symbols) units.push_back(sym.symbol({.name = sym.info(s).name}));
  // Large numbers for as few as possible: products of them must fit.
  std::vector<int64_t> least;
  for (sym::Expr s : symbols) least.push_back(is_divided(assumed.a, s) || is_divided(assumed.b, s) ? divisible : 1);
  if (!holds(sym, assumed, symbols, units, least)) {
    least.assign(symbols.size(), divisible);
    if (!holds(sym, assumed, symbols, units, least)) return {};
  }
  for (size_t i = 0; i < symbols.size(); ++i) {
    std::vector<int64_t> tried = least;
    for (tried[i] = 1; tried[i] <= largest_unit && !holds(sym, assumed, symbols, units, tried);) ++tried[i];
    if (tried[i] > largest_unit) return {};
    least = tried;
  }
  return least;
}

}  // namespace

std::vector<std::string> bounds_of(const sym::Context& sym, sym::Expr symbol) {
  const sym::SymbolInfo& info = sym.info(symbol);
  std::vector<std::string> out;
  if (info.lower.value_or(1) > std::max<int64_t>(1, info.divisor))
    out.push_back(fmt::format("{} >= {}", info.name, *info.lower));
  if (info.upper) out.push_back(fmt::format("{} <= {}", info.name, *info.upper));
  return out;
}

std::vector<Claim> claims(sym::Context& sym, const std::map<std::string, sym::Expr>& dimensions,
                          const std::vector<sym::Assumption>& assumptions) {
  std::map<std::string, Claim> all;
  std::map<std::string, int64_t> divisors;
  for (auto& [name, symbol] : dimensions) all[name] = {name, bounds_of(sym, symbol)};
  auto constrain = [&](sym::Expr symbol, const std::string& formula) {
    const auto found = all.find(sym.info(symbol).name);
    if (found == all.end()) return;
    std::vector<std::string>& known = found->second.constraints;
    if (std::ranges::find(known, formula) == known.end()) known.push_back(formula);
  };
  for (const sym::Assumption& assumed : assumptions) {
    Symbols symbols = sym::symbols(assumed.a);
    for (sym::Expr s : sym::symbols(assumed.b))
      if (std::ranges::find(symbols, s) == symbols.end()) symbols.push_back(s);
    const std::vector<int64_t> least = least_divisors(sym, assumed, symbols);
    for (size_t i = 0; i < symbols.size(); ++i) {
      if (least.empty()) {
        constrain(symbols[i], assumed.str());
      } else {
        int64_t& divisor = divisors.try_emplace(sym.info(symbols[i]).name, 1).first->second;
        divisor = std::lcm(divisor, least[i]);
      }
    }
  }
  std::vector<Claim> out;
  for (auto& [name, claim] : all) {
    if (const auto found = divisors.find(name); found != divisors.end() && found->second > 1)
      claim.constraints.insert(claim.constraints.begin(), fmt::format("{} % {} == 0", name, found->second));
    out.push_back(std::move(claim));
  }
  return out;
}

}  // namespace lithify::provenance
