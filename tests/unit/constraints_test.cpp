// What a graph needs of sizes as constraints: they hold exactly where the requirements do, at every size that is tried.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "base/checked.hpp"
#include "claims/formula.hpp"
#include "provenance/claims.hpp"

namespace lithify::provenance {
namespace {

using Kind = Requirement::Kind;
constexpr int64_t most = 40;

struct Fixture {
  sym::Context sym;
  sym::Expr a = sym.symbol({.name = "a"}), b = sym.symbol({.name = "b"});
  std::map<std::string, sym::Expr> dimensions = {{"a", a}, {"b", b}};

  sym::Expr k(int64_t v) { return sym.constant(v); }
  sym::Expr half(sym::Expr e, int64_t by = 2) { return sym.floor_div(e, k(by)); }

  /// The constraints that say more than that sizes are at least 1.
  std::string text(const std::vector<Requirement>& requirements) {
    std::string out;
    for (const Constraint& c : constraints(dimensions, requirements, claims::name_text))
      if (!c.implied) out += (out.empty() ? "" : ", ") + c.formula;
    return out;
  }
  std::string text(Kind kind, sym::Expr x, sym::Expr y) { return text({{kind, x, y}}); }

  std::optional<bool> holds(const Requirement& r, int64_t at_a, int64_t at_b) {
    const auto size = [&](sym::Expr s) { return std::optional(s == a ? at_a : at_b); };
    const std::optional<int64_t> x = sym.evaluate(r.a, size), y = sym.evaluate(r.b, size);
    if (!x || !y || (r.kind == Kind::Multiple && *y == 0)) return std::nullopt;
    switch (r.kind) {
      case Kind::Equal:
        return *x == *y;
      case Kind::Multiple:
        return floor_mod(*x, *y) == 0;
      case Kind::AtMost:
        return *x <= *y;
      default:
        return *x != *y;
    }
  }

  void check_everywhere(const std::vector<Requirement>& requirements) {
    std::vector<claims::Formula> formulas;
    std::string all;
    for (const Constraint& c : constraints(dimensions, requirements, claims::name_text)) {
      formulas.push_back(claims::Formula::parse(c.formula));
      all += c.formula + "; ";
    }
    for (int64_t at_a = 1; at_a <= most; ++at_a)
      for (int64_t at_b = 1; at_b <= most; ++at_b) {
        std::optional<bool> expected = true;
        for (const Requirement& r : requirements) {
          const std::optional<bool> one = holds(r, at_a, at_b);
          expected = expected && one ? std::optional(*expected && *one) : std::nullopt;
        }
        if (!expected) continue;
        bool got = true;
        for (const claims::Formula& f : formulas) {
          const auto value =
              f.evaluate([&](std::string_view name) { return std::optional(name == "a" ? at_a : at_b); });
          got = got && value && claims::truth(*value);
        }
        if (got == *expected) continue;
        CAPTURE(all);
        CAPTURE(at_a);
        CAPTURE(at_b);
        CAPTURE(*expected);
        for (const Requirement& r : requirements) {
          CAPTURE(static_cast<int>(r.kind));
          CAPTURE(r.a.str());
          CAPTURE(r.b.str());
          REQUIRE(got == *expected);
        }
      }
  }
};

}  // namespace

TEST_SUITE("constraints") {
  TEST_CASE_FIXTURE(Fixture, "bounds are the weakest that suffice") {
    CHECK(text({}) == "");
    CHECK(text(Kind::AtMost, k(2), a) == "a >= 2");
    CHECK(text(Kind::AtMost, k(7), sym.mul(k(2), a)) == "a >= 4");
    CHECK(text(Kind::AtMost, a, k(512)) == "a <= 512");
    CHECK(text(Kind::AtMost, sym.add(a, k(2)), k(512)) == "a <= 510");
    CHECK(text(Kind::AtMost, k(3), half(a)) == "a >= 6");
    CHECK(text(Kind::AtMost, half(a), k(3)) == "a <= 7");
    CHECK(text(Kind::AtMost, k(2), sym.add(half(sym.sub(a, k(1))), k(1))) == "a >= 3");
    CHECK(text(Kind::AtMost, sym.max(a, b), k(9)) == "a <= 9, b <= 9");
    CHECK(text(Kind::AtMost, k(4), sym.min(a, b)) == "a >= 4, b >= 4");
    CHECK(text(Kind::AtMost, k(4), sym.max(a, b)) == "4 <= max(a, b)");
    CHECK(text(Kind::AtMost, a, b) == "a <= b");
    CHECK(text(Kind::AtMost, sym.add(a, b), k(8)) == "a + b <= 8");
    CHECK(text({{Kind::AtMost, a, k(512)}, {Kind::AtMost, a, k(100)}, {Kind::AtMost, k(2), a}}) == "a >= 2, a <= 100");
    CHECK(text(Kind::AtMost, k(1), a) == "");
    CHECK(text(Kind::Equal, sym.min(a, k(512)), a) == "a <= 512");
    CHECK(text(Kind::Equal, sym.max(a, k(3)), a) == "a >= 3");
    // Two chunks of a size, and three.
    CHECK(text(Kind::AtMost, sym.add(sym.ceil_div(a, k(2)), k(1)), a) == "a >= 2");
    CHECK(text(Kind::AtMost, sym.add(sym.mul(k(2), sym.ceil_div(a, k(3))), k(1)), a) == "2*floor((a - 1)/3) + 3 <= a");
    CHECK(text(Kind::AtMost, half(a), a) == "");
  }

  TEST_CASE_FIXTURE(Fixture, "divisors are given where they are exact") {
    CHECK(text(Kind::Equal, sym.mul(half(a), k(2)), a) == "a % 2 == 0");
    CHECK(text(Kind::Multiple, a, k(6)) == "a % 6 == 0");
    CHECK(text(Kind::Multiple, sym.mul(k(4), a), k(6)) == "a % 3 == 0");
    CHECK(text({{Kind::Multiple, a, k(4)}, {Kind::Multiple, a, k(6)}}) == "a % 12 == 0");
    CHECK(text(Kind::Multiple, sym.mul(a, b), k(12)) == "a*b % 12 == 0");
    CHECK(text(Kind::Multiple, sym.add(a, k(1)), k(2)) == "(a + 1) % 2 == 0");
    CHECK(text(Kind::Multiple, a, b) == "a % b == 0");
    CHECK(text(Kind::Equal, sym.mul(sym.mul(half(a, 4), half(b, 4)), k(16)), sym.mul(a, b)) ==
          "a % 4 == 0, b % 4 == 0");
    CHECK(text(Kind::Equal, sym.add(half(a), half(b)), half(sym.add(a, b))) ==
          "floor(a/2) + floor(b/2) == floor((a + b)/2)");
    // Pieces of tensor_split add up to the whole.
    CHECK(text(Kind::Equal, sym.add(sym.add(half(a, 3), half(sym.add(a, k(1)), 3)), half(sym.add(a, k(2)), 3)), a) ==
          "");
    CHECK(text(Kind::Equal, sym.mul(sym.mul(half(a), half(sym.mul(k(2), a))), k(2)), sym.mul(sym.mul(a, a), k(1))) ==
          "a % 2 == 0");
    const sym::Expr rows = half(a), columns = sym.floor_div(sym.mul(k(2), a), rows);
    CHECK(text({{Kind::Equal, sym.mul(k(4), a), sym.mul(sym.mul(k(2), rows), columns)},
                {Kind::Multiple, sym.mul(k(4), a), sym.mul(k(2), columns)}}) == "2*a % floor(a/2) == 0");
    CHECK(text(Kind::Equal, sym.mul(sym.sub(a, k(1)), sym.mul(half(b), k(2))), sym.mul(sym.sub(a, k(1)), b)) !=
          "b % 2 == 0");
    // What follows from a divisor is not said again.
    CHECK(text({{Kind::Multiple, a, k(32)}, {Kind::Equal, sym.mul(half(a), k(2)), a}}) == "a % 32 == 0");
    CHECK(text({{Kind::Multiple, a, k(4)}, {Kind::AtMost, k(3), a}}) == "a % 4 == 0");
    CHECK(text({{Kind::Multiple, a, k(4)}, {Kind::Multiple, sym.mul(a, b), k(4)}}) == "a % 4 == 0");
  }

  TEST_CASE_FIXTURE(Fixture, "sizes that differ") {
    CHECK(text(Kind::Unequal, a, k(9)) == "a != 9");
    CHECK(text(Kind::Unequal, a, sym.add(a, k(1))) == "");
    CHECK(text(Kind::Unequal, a, sym.mul(k(2), b)) == "a != 2*b");
  }

  TEST_CASE_FIXTURE(Fixture, "names and facts of dimensions") {
    sym::Expr odd = sym.symbol({.name = "past + 1", .lower = 0, .upper = 9});
    sym::Expr even = sym.symbol({.name = "even", .divisor = 2});
    dimensions = {{"past + 1", odd}, {"even", even}};
    CHECK(text(Kind::AtMost, odd, even) == "even % 2 == 0, `past + 1` <= 9, `past + 1` <= even");
    const std::vector<Constraint> all = constraints(dimensions, {{Kind::AtMost, odd, a}}, claims::name_text);
    CHECK(all.back().formula == "`past + 1` <= a");
    CHECK(all.back().names == std::vector<std::string>{"past + 1", "a"});
    CHECK(std::ranges::count(all, "even >= 1", &Constraint::formula) == 1);
    CHECK(std::ranges::count(all, "`past + 1` >= 0", &Constraint::formula) == 1);
    CHECK(formula_of(sym.add(odd, k(1)), claims::name_text) == "`past + 1` + 1");
  }

  TEST_CASE_FIXTURE(Fixture, "constraints hold where the requirements do") {
    std::mt19937 random(11);
    const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    std::function<sym::Expr(int)> grow = [&](int depth) -> sym::Expr {
      const sym::Expr leaves[] = {a, a, b, k(draw(9))};
      if (depth == 0) return leaves[draw(4)];
      const sym::Expr x = grow(depth - 1), y = grow(depth - 1);
      switch (draw(8)) {
        case 0:
          return sym.sub(x, k(draw(4)));
        case 1:
          return sym.mul(x, k(1 + draw(5)));
        case 2:
          return half(x, 1 + draw(6));
        case 3:
          return sym.mod(x, k(1 + draw(6)));
        case 4:
          return sym.min(x, y);
        case 5:
          return sym.max(x, y);
        case 6:
          return sym.mul(x, y);
        default:
          return sym.add(x, y);
      }
    };
    for (int i = 0; i < 400; ++i) {
      std::vector<Requirement> requirements;
      for (int n = 0; n <= draw(3); ++n) {
        const auto kind = static_cast<Kind>(draw(4));
        const sym::Expr x = grow(draw(3)), y = kind == Kind::Multiple ? k(1 + draw(12)) : grow(draw(3));
        requirements.emplace_back(kind, x, y);
      }
      check_everywhere(requirements);
    }
    // Forms that reshapes and windows have.
    for (int64_t n = 1; n <= 16; ++n)
      for (int64_t m = 1; m <= 4; ++m) {
        check_everywhere({{Kind::Equal, sym.mul(half(a, n), k(n)), a}});
        check_everywhere({{Kind::Multiple, sym.mul(a, b), k(n * m)}});
        check_everywhere({{Kind::Equal, sym.mul(sym.mul(half(a, n), half(b, m)), k(n * m)), sym.mul(a, b)}});
        check_everywhere({{Kind::Equal, sym.ceil_div(a, k(n)), half(a, n)}, {Kind::AtMost, k(m), half(a, n)}});
        check_everywhere({{Kind::Equal, half(sym.add(a, k(m)), n), half(a, n)}});
      }
  }
}

}  // namespace lithify::provenance
