// Formulas of sizes: parsing, printing, and values with the semantics of Python.
#include <doctest/doctest.h>

#include <map>
#include <random>

#include "base/diagnostic.hpp"
#include "claims/formula.hpp"
#include "sym/expr.hpp"

namespace lithify::claims {
namespace {

using Sizes = std::map<std::string, int64_t>;

std::optional<Value> value(const Formula& formula, const Sizes& sizes) {
  return formula.evaluate([&](std::string_view name) -> std::optional<int64_t> {
    const auto found = sizes.find(std::string(name));
    return found == sizes.end() ? std::nullopt : std::optional(found->second);
  });
}
std::optional<Value> value(const std::string& text, const Sizes& sizes = {}) {
  return value(Formula::parse(text), sizes);
}

/// The value as Python prints it; "none" where there is none.
std::string shown(const std::string& text, const Sizes& sizes = {}) {
  const std::optional<Value> v = value(text, sizes);
  if (!v) return "none";
  if (const bool* flag = std::get_if<bool>(&*v)) return *flag ? "True" : "False";
  if (const double* real = std::get_if<double>(&*v)) return std::to_string(*real);
  return std::to_string(std::get<int64_t>(*v));
}

std::string canonical(const std::string& text) { return Formula::parse(text).str(); }

Code code_of(const std::string& text) {
  try {
    Formula::parse(text);
  } catch (const Error& e) {
    return e.first().code;
  }
  return Code::Internal;
}

}  // namespace

TEST_SUITE("formula") {
  TEST_CASE("the canonical text has the parentheses that it needs") {
    for (const char* text : {"height % 32 == 0",
                             "2*seq - 1",
                             "floor((height - 1)/2) + 1",
                             "max(1, n)",
                             "a <= b",
                             "2*floor(h/2)",
                             "a - (b - c)",
                             "(a + b)*c",
                             "a*(b // c)",
                             "-a**2",
                             "(-a)**2",
                             "a**-b",
                             "-(a + b)",
                             "not a == b",
                             "(a or b) and c",
                             "a or b and not c",
                             "(a < b) == (c < d)",
                             "int(s*0.75) > 5",
                             "1.0/s",
                             "1e+20*a",
                             "min(a, b, c)",
                             "a % (b*c)",
                             "a/(b/c)",
                             "`past + 1` <= 512",
                             "`a``b` > 1",
                             "`not` == 2",
                             "min == 1",
                             "99999999999999999999 > a",
                             "True",
                             "str(s0)",
                             "broadcast(a, b)"})
      CHECK(canonical(text) == text);
    CHECK(canonical(" ( a+b ) +c") == "a + b + c");
    CHECK(canonical("((a*b))%c==0") == "a*b % c == 0");
    CHECK(canonical("a and (b and c)") == "a and (b and c)");
    CHECK(canonical("1.50") == "1.5");
  }

  TEST_CASE("what is not a formula is refused, with the reason") {
    for (const char* text :
         {"",   "a +", "a b",   "a < b < c", "f(a)",  "min(a)", "floor(a, b)", "(a",   "a)",        "1e999", "a = b",
          "`a", "not", "a and", "+a",        "a ** ", "1.2.3",  "\"text\"",    "a[0]", "lambda: 1", "a;b"}) {
      CAPTURE(text);
      CHECK(code_of(text) == Code::BadCode);
    }
    try {
      Formula::parse("seq < 1 < 2");
    } catch (const Error& e) {
      CHECK(e.first().message == "'seq < 1 < 2' is not a formula of sizes: at byte 9, a comparison has two operands");
    }
  }

  TEST_CASE("length and nesting are limited") {
    CHECK(code_of(std::string(100'000, '(')) == Code::LimitExceeded);
    CHECK(code_of(std::string(100'000, '-') + "a") == Code::LimitExceeded);
    CHECK(code_of(std::string(200'000, '1')) == Code::LimitExceeded);
    std::string sum = "a", nots = "a";
    for (int i = 0; i < 4000; ++i) sum += " + a";
    for (int i = 0; i < 1000; ++i) nots = "not " + nots;
    CHECK(shown(sum, {{"a", 2}}) == "8002");
    CHECK(code_of(nots) == Code::LimitExceeded);
    Formula grown = Formula::parse("a + a");
    CHECK_THROWS_AS(for (int i = 0; i < 64; ++i) grown = grown.substitute({{"a", grown}}), Error);
  }

  TEST_CASE("integers stay integers, and are exact") {
    CHECK(shown("7 // 2") == "3");
    CHECK(shown("-7 // 2") == "-4");
    CHECK(shown("-7 % 3") == "2");
    CHECK(shown("7 % -3") == "-2");
    CHECK(shown("2**10") == "1024");
    CHECK(shown("2**-1") == "0.500000");
    CHECK(shown("7/2") == "3.500000");
    CHECK(shown("floor(a/b)", {{"a", 9007199254740993}, {"b", 1}}) == "9007199254740993");
    CHECK(shown("ceil(a/b)", {{"a", 9007199254740993}, {"b", 2}}) == "4503599627370497");
    CHECK(shown("floor(2*a/b)", {{"a", 7}, {"b", 4}}) == "3");
    CHECK(shown("floor(-a/4)", {{"a", 7}}) == "-2");
    CHECK(shown("ceil(-a/4)", {{"a", 7}}) == "-1");
    CHECK(shown("True + True") == "2");
    CHECK(shown("-True") == "-1");
    CHECK(shown("gcd(12, 18, 4)") == "2");
    CHECK(shown("broadcast(1, 5, 1)") == "5");
    CHECK(shown("broadcast(4, 5)") == "none");
  }

  TEST_CASE("floats round as Python rounds") {
    CHECK(shown("round(2.5)") == "2");
    CHECK(shown("round(3.5)") == "4");
    CHECK(shown("round(-2.5)") == "-2");
    CHECK(shown("round(2.4)") == "2");
    CHECK(shown("int(-2.7)") == "-2");
    CHECK(shown("trunc(2.7)") == "2");
    CHECK(shown("int(s*0.75)", {{"s", 7}}) == "5");
    CHECK(shown("7.5 // 2") == "3.000000");
    CHECK(shown("-7.5 // 2") == "-4.000000");
    CHECK(shown("-7.5 % 2") == "0.500000");
    CHECK(shown("ceil(log2(s))", {{"s", 9}}) == "4");
    CHECK(shown("sqrt(s) == 3", {{"s", 9}}) == "True");
    CHECK(shown("max(2, 2.0)") == "2");
    CHECK(shown("max(1, 2.5)") == "2.500000");
  }

  TEST_CASE("conditions") {
    CHECK(shown("a % 4 == 0 and b > 2", {{"a", 8}, {"b", 3}}) == "True");
    CHECK(shown("a % 4 == 0 and b > 2", {{"a", 8}, {"b", 2}}) == "False");
    CHECK(shown("not a", {{"a", 0}}) == "True");
    CHECK(shown("a or b", {{"a", 0}, {"b", 7}}) == "7");
    CHECK(shown("a and b", {{"a", 0}, {"b", 7}}) == "0");
    CHECK(shown("a == 0 or 1 // a == 1", {{"a", 0}}) == "True");
  }

  TEST_CASE("there is no value where Python raises, or where it is not known") {
    for (const char* text : {"1 // 0",
                             "1 % 0",
                             "1/0",
                             "1.0 // 0",
                             "log(0)",
                             "log2(-1)",
                             "sqrt(-1)",
                             "exp(1000)",
                             "0**-1",
                             "(-8)**0.5",
                             "a",
                             "a > 1 or True",
                             "str(3)",
                             "str(3) == 4",
                             "9223372036854775807 + 1",
                             "99999999999999999999 > 1",
                             "2**63",
                             "3**1000000000",
                             "int(1e300)",
                             "gcd(1.5, 2)"}) {
      CAPTURE(text);
      CHECK(shown(text) == "none");
    }
  }

  TEST_CASE("names are listed once, and replaced by formulas") {
    const Formula f = Formula::parse("s0 + min(s1, s0)*2 > `x y`");
    CHECK(f.names() == std::vector<std::string>{"s0", "s1", "x y"});
    CHECK(f.substitute({{"s0", Formula::parse("2*floor(h/2)")}, {"s1", Formula::parse("a - b")}}).str() ==
          "2*floor(h/2) + min(a - b, 2*floor(h/2))*2 > `x y`");
    CHECK(Formula::parse("s0*s1").substitute({{"s0", Formula::parse("a + b")}, {"s1", Formula::parse("-c")}}).str() ==
          "(a + b)*-c");
    CHECK(Formula::parse("-s0").substitute({{"s0", Formula::parse("a - b")}}).str() == "-(a - b)");
  }

  TEST_CASE("a negation is true where the formula is false") {
    CHECK(Formula::parse("a < b").negated().str() == "a >= b");
    CHECK(Formula::parse("a % 2 == 0 and (b > 1 or c)").negated().str() == "a % 2 != 0 or b <= 1 and not c");
    CHECK(Formula::parse("not a").negated().str() == "a");
    CHECK(Formula::parse("True").negated().str() == "False");
  }

  TEST_CASE("every formula of sizes that is printed can be read, and has the same value") {
    sym::Context sym;
    const sym::Expr a = sym.symbol({.name = "a"}), b = sym.symbol({.name = "b"}), c = sym.symbol({.name = "c"});
    std::mt19937 random(7);
    const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    std::function<sym::Expr(int)> grow = [&](int depth) -> sym::Expr {
      const sym::Expr leaves[] = {a, b, c, sym.constant(draw(9)), sym.constant(-draw(5))};
      if (depth == 0) return leaves[draw(5)];
      const sym::Expr x = grow(depth - 1), y = grow(depth - 1);
      const sym::Expr divisor = draw(2) ? sym.constant(1 + draw(7)) : sym.add(a, sym.constant(draw(4)));
      switch (draw(8)) {
        case 0:
          return sym.sub(x, y);
        case 1:
          return sym.mul(x, y);
        case 2:
          return sym.floor_div(x, divisor);
        case 3:
          return sym.mod(x, divisor);
        case 4:
          return sym.min(x, y);
        case 5:
          return sym.max(x, y);
        case 6:
          return sym.broadcast(x, y).value_or(x);
        default:
          return sym.add(x, y);
      }
    };
    for (int i = 0; i < 3000; ++i) {
      const sym::Expr e = grow(1 + draw(4)), other = grow(1);
      const Formula read = Formula::parse(e.str());
      CHECK(Formula::parse(read.str()).str() == read.str());
      for (int n = 0; n < 5; ++n) {
        const Sizes sizes = {{"a", 1 + draw(30)}, {"b", 1 + draw(30)}, {"c", 1 + draw(30)}};
        const auto size_of = [&](sym::Expr s) { return std::optional(sizes.at(sym.info(s).name)); };
        const std::optional<int64_t> expected = sym.evaluate(e, size_of), right = sym.evaluate(other, size_of);
        const std::optional<Value> got = value(read, sizes);
        CAPTURE(e.str());
        REQUIRE(got.has_value() == expected.has_value());
        if (expected) CHECK(std::get<int64_t>(*got) == *expected);
        using Assumed = sym::Assumption::Kind;
        for (const Assumed kind : {Assumed::Equal, Assumed::Multiple, Assumed::AtMost}) {
          if (!expected || !right || *right == 0) continue;
          const bool holds = kind == Assumed::Equal    ? *expected == *right
                             : kind == Assumed::AtMost ? *expected <= *right
                                                       : *expected % *right == 0;
          CHECK(std::get<bool>(*value(sym::Assumption{kind, e, other}.str(), sizes)) == holds);
        }
      }
    }
  }
}

}  // namespace lithify::claims
