#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/diagnostic.hpp"
#include "sym/expr.hpp"

using lithify::Code;
using lithify::Error;
using namespace lithify::sym;

namespace {

struct Fixture {
  Context ctx;
  Expr batch = ctx.symbol({.name = "batch", .sample = 2});
  Expr seq = ctx.symbol({.name = "seq", .sample = 7});
  Expr h = ctx.symbol({.name = "height", .sample = 224});
  Expr a = ctx.symbol({.name = "a"});
  Expr b = ctx.symbol({.name = "b"});
  Expr wide = ctx.symbol({.name = "wide", .sample = 64, .divisor = 32});
  Expr any = ctx.symbol({.name = "any", .lower = std::nullopt});

  Expr k(int64_t v) { return ctx.constant(v); }
  Expr add(Expr x, Expr y) { return ctx.add(x, y); }
  Expr add(Expr x, int64_t y) { return ctx.add(x, k(y)); }
  Expr mul(Expr x, Expr y) { return ctx.mul(x, y); }
  Expr mul(int64_t x, Expr y) { return ctx.mul(k(x), y); }
  Expr div(Expr x, Expr y) { return ctx.floor_div(x, y); }
  Expr div(Expr x, int64_t y) { return ctx.floor_div(x, k(y)); }
  Expr mod(Expr x, Expr y) { return ctx.mod(x, y); }
  Expr mod(Expr x, int64_t y) { return ctx.mod(x, k(y)); }
};

Code code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.first().code;
  }
  return Code::Internal;
}

}  // namespace

TEST_SUITE("sym") {
  TEST_CASE_FIXTURE(Fixture, "equal expressions are the same pointer") {
    CHECK(add(a, b) == add(b, a));
    CHECK(mul(add(a, b), add(a, b)) == add(add(mul(a, a), mul(2, mul(a, b))), mul(b, b)));
    CHECK(ctx.sub(a, a).is(0));
    CHECK(ctx.sub(add(a, 5), a).is(5));
    CHECK(mul(0, a).is(0));
    CHECK(add(a, 0) == a);
    CHECK(ctx.neg(ctx.neg(a)) == a);
    CHECK(k(3) == k(3));
    CHECK(ctx.product(std::vector{k(2), a, b}) == mul(2, mul(b, a)));
    CHECK(ctx.product({}).is(1));
  }

  TEST_CASE_FIXTURE(Fixture, "formulas are readable") {
    CHECK(batch.str() == "batch");
    CHECK(k(-4).str() == "-4");
    CHECK(k(0).str() == "0");
    CHECK(k(std::numeric_limits<int64_t>::min()).str() == "-9223372036854775808");
    CHECK(add(mul(2, seq), 1).str() == "2*seq + 1");
    CHECK(mul(seq, batch).str() == "batch*seq");
    CHECK(add(mul(batch, seq), add(batch, -3)).str() == "batch*seq + batch - 3");
    CHECK(add(ctx.neg(a), 1).str() == "-a + 1");
    CHECK(mul(a, mul(a, a)).str() == "a*a*a");
    CHECK(add(div(add(h, -1), 2), 1).str() == "floor((height - 1)/2) + 1");
    CHECK(div(mul(3, a), 4).str() == "floor(3*a/4)");
    CHECK(div(seq, mul(batch, a)).str() == "floor(seq/(batch*a))");
    CHECK(div(seq, add(a, 1)).str() == "floor(seq/(a + 1))");
    CHECK(mod(a, b).str() == "(a % b)");
    CHECK(mod(add(a, b), 8).str() == "((a + b) % 8)");
    CHECK(mod(a, mul(b, seq)).str() == "(a % (seq*b))");
    CHECK(mod(ctx.neg(a), 8).str() == "(-a % 8)");
    CHECK(ctx.min(a, b).str() == "min(a, b)");
    CHECK(ctx.min(seq, ctx.min(a, b)).str() == "min(seq, a, b)");
    CHECK(ctx.max(k(1), any).str() == "max(1, any)");
    CHECK(ctx.max(any, k(1)).str() == "max(1, any)");
    CHECK(ctx.broadcast(b, a)->str() == "broadcast(a, b)");
    CHECK(mul(3, div(a, 2)).str() == "3*floor(a/2)");
    CHECK(div(wide, 2).str() == "floor(wide/2)");
    CHECK(mul(3, div(wide, 2)).str() == "3*floor(wide/2)");
    CHECK(mul(a, mul(wide, wide)).str() == "a*wide*wide");
    CHECK(add(mul(div(wide, 4), div(wide, 8)), 1).str() == "wide*floor(wide/32) + 1");
  }

  TEST_CASE_FIXTURE(Fixture, "divisions that are exact cancel") {
    CHECK(div(mul(6, mul(batch, seq)), mul(2, batch)) == mul(3, seq));
    CHECK(div(mul(12, mul(batch, seq)), mul(seq, batch)).is(12));
    CHECK(div(mul(add(a, 1), add(b, 2)), add(b, 2)) == add(a, 1));
    CHECK(div(mul(add(a, b), add(a, ctx.neg(b))), add(a, b)) == ctx.sub(a, b));
    CHECK(div(a, 1) == a);
    CHECK(div(a, -1) == ctx.neg(a));
    CHECK(div(k(0), a).is(0));
    CHECK(div(a, a).is(1));
    CHECK(ctx.divide_exactly(mul(6, a), k(4)) == std::nullopt);
    CHECK(ctx.divide_exactly(mul(8, a), k(4)) == mul(2, a));
    CHECK(ctx.divide_exactly(a, b) == std::nullopt);
    CHECK(ctx.divide_exactly(a, k(0)) == std::nullopt);
    CHECK(ctx.divide_exactly(k(0), a) == k(0));
    CHECK(ctx.divide_exactly(mul(add(a, -1), add(a, 1)), add(a, 1)) == add(a, -1));
  }

  TEST_CASE_FIXTURE(Fixture, "multiples of the divisor leave a floor division") {
    CHECK(div(add(mul(4, a), 3), 4) == a);
    CHECK(div(add(mul(4, a), 5), 4) == add(a, 1));
    CHECK(div(add(mul(4, a), -1), 4) == add(a, -1));
    CHECK(div(add(mul(4, a), b), 4) == add(a, div(b, 4)));
    CHECK(div(mul(3, a), 2) == add(a, div(a, 2)));
    CHECK(div(add(mul(2, a), 1), 4) == div(a, 2));
    CHECK(div(add(h, 1), 2) == add(div(add(h, -1), 2), 1));
    CHECK(div(add(h, -16), 16) == add(div(h, 16), -1));
    CHECK(div(add(mul(a, b), 1), add(b, 1)).str() == "floor((a*b + 1)/(b + 1))");
    CHECK(div(add(mul(seq, add(a, 1)), a), add(a, 1)) == seq);
    CHECK(div(add(a, 3), add(a, 1)) == add(div(k(2), add(a, 1)), 1));
    CHECK(div(a, add(a, 1)).is(0));
    CHECK(div(ctx.neg(a), add(a, 1)).is(-1));
    CHECK(div(ctx.neg(a), ctx.neg(b)) == div(a, b));
  }

  TEST_CASE_FIXTURE(Fixture, "floor divisions nest into one") {
    CHECK(div(div(h, 2), 3) == div(h, 6));
    CHECK(div(div(a, b), seq) == div(a, mul(b, seq)));
    Expr conv = h;
    for (int i = 0; i < 5; ++i) conv = add(div(add(conv, -1), 2), 1);
    CHECK(conv.str() == "floor((height - 1)/32) + 1");
    CHECK(mul(2, div(a, 2)) != a);
    CHECK(ctx.equal(mul(2, div(a, 2)), a) == std::nullopt);
  }

  TEST_CASE_FIXTURE(Fixture, "rounding up") {
    CHECK(ctx.ceil_div(a, k(8)) == div(add(a, 7), 8));
    CHECK(ctx.ceil_div(a, k(8)) == ctx.neg(div(ctx.neg(a), 8)));
    CHECK(ctx.ceil_div(mul(8, a), k(8)) == a);
    CHECK(ctx.ceil_div(mul(a, b), b) == a);
    CHECK(ctx.ceil_div(k(7), k(2)).is(4));
    CHECK(ctx.ceil_div(k(-7), k(2)).is(-3));
    CHECK(ctx.ceil_div(k(7), k(-2)).is(-3));
    CHECK(ctx.equal(ctx.sub(a, div(a, 2)), ctx.ceil_div(a, k(2))) == true);
  }

  TEST_CASE_FIXTURE(Fixture, "modulo") {
    CHECK(mod(mul(6, a), 3).is(0));
    CHECK(mod(mul(a, b), b).is(0));
    CHECK(mod(add(mul(4, a), 3), 4).is(3));
    CHECK(mod(a, 1).is(0));
    CHECK(mod(k(-7), 3).is(2));
    CHECK(mod(k(7), -3).is(-2));
    CHECK(mod(mul(2, a), 4) == mul(2, mod(a, 2)));
    CHECK(mod(mod(a, 4), 2) == mod(a, 2));
    CHECK(mod(mod(a, 4), 8) == mod(a, 4));
    CHECK(mod(a, add(a, 1)) == a);
    // Only in 2 * (a % 6) is the inner modulo of no effect.
    CHECK(mod(add(mul(b, mod(a, 6)), mul(2, mod(a, 6))), 12) == mod(add(mul(b, mod(a, 6)), mul(2, a)), 12));
    Expr small = ctx.symbol({.name = "small", .upper = 7});
    CHECK(mod(small, 8) == small);
    CHECK(mod(add(small, -8), 8) == small);
    // The usual ways to pad to a multiple of 8.
    Expr pad = mod(add(ctx.neg(mod(h, 8)), 8), 8);
    CHECK(pad == mod(ctx.neg(h), 8));
    CHECK(mod(add(h, pad), 8).is(0));
    CHECK(div(add(h, pad), 8) == ctx.ceil_div(h, k(8)));
    CHECK(ctx.equal(add(h, pad), mul(8, ctx.ceil_div(h, k(8)))) == true);
    CHECK(ctx.equal(mod(a, b), ctx.sub(a, mul(b, div(a, b)))) == true);
  }

  TEST_CASE_FIXTURE(Fixture, "what divides a symbol is used") {
    CHECK(wide.is_symbol());
    CHECK(kind(wide) == Kind::Symbol);
    CHECK(wide.lower() == 32);
    CHECK(mul(2, div(wide, 2)) == wide);
    CHECK(mod(wide, 32).is(0));
    CHECK(mod(wide, 8).is(0));
    CHECK(mod(wide, 64).str() == "32*(floor(wide/32) % 2)");
    CHECK(add(div(wide, 2), div(wide, 4)) == mul(3, div(wide, 4)));
    CHECK(div(add(wide, 31), 32) == div(wide, 32));
    CHECK(div(div(wide, 32), 2) == div(wide, 64));
    CHECK(kind(div(wide, 2)) == Kind::FloorDiv);
    CHECK(operands(div(wide, 2)).first == wide);
    CHECK(operands(div(wide, 2)).second.is(2));
    CHECK(ctx.equal(wide, k(48)) == false);
    CHECK(ctx.substitute(div(wide, 2), wide, a) == div(a, 2));
    CHECK(ctx.substitute(mul(wide, b), wide, a) == mul(a, b));
    CHECK(ctx.sample(mul(3, div(wide, 2))) == 96);
    for (const Term& t : terms(add(mul(wide, b), add(div(wide, 2), 1))))
      for (Expr atom : t.atoms) CHECK((kind(atom) == Kind::Symbol || kind(atom) == Kind::FloorDiv));
  }

  TEST_CASE_FIXTURE(Fixture, "minimum and maximum") {
    constexpr int64_t all = std::numeric_limits<int64_t>::max();
    CHECK(ctx.max(k(1), a) == a);
    CHECK(ctx.min(k(1), a).is(1));
    CHECK(ctx.max(k(3), k(5)).is(5));
    CHECK(ctx.min(a, add(a, 1)) == a);
    CHECK(ctx.max(a, add(a, b)) == add(a, b));
    CHECK(ctx.min(a, k(all)) == a);
    CHECK(ctx.min(any, k(all)) == any);
    CHECK(ctx.min(a, a) == a);
    CHECK(ctx.min(ctx.min(a, b), a) == ctx.min(a, b));
    CHECK(ctx.max(a, ctx.min(a, b)) == a);
    CHECK(ctx.min(a, ctx.max(a, b)) == a);
    CHECK(ctx.min(mul(4, a), mul(4, b)) == mul(4, ctx.min(a, b)));
    CHECK(ctx.min(mul(4, ctx.min(b, seq)), mul(4, a)) == mul(4, ctx.min(ctx.min(seq, a), b)));
    CHECK(ctx.max(k(0), ctx.sub(a, div(a, 2))) == ctx.sub(a, div(a, 2)));
    CHECK(ctx.min(mul(a, b), a) == a);
    CHECK(ctx.min(div(a, 2), a) == div(a, 2));
  }

  TEST_CASE_FIXTURE(Fixture, "broadcast") {
    CHECK(ctx.broadcast(k(1), a) == a);
    CHECK(ctx.broadcast(a, k(1)) == a);
    CHECK(ctx.broadcast(a, a) == a);
    CHECK(ctx.broadcast(k(3), k(3)) == k(3));
    CHECK(ctx.broadcast(k(3), k(4)) == std::nullopt);
    CHECK(ctx.broadcast(k(0), k(1)) == k(0));
    CHECK(ctx.broadcast(a, k(4)) == std::nullopt);
    CHECK(ctx.broadcast(k(4), mul(2, a)) == std::nullopt);
    CHECK(ctx.broadcast(add(a, 1), a) == std::nullopt);
    Expr ab = *ctx.broadcast(a, b);
    CHECK(kind(ab) == Kind::Broadcast);
    CHECK(ab == ctx.broadcast(b, a));
    CHECK(ctx.broadcast(ab, a) == ab);
    CHECK(ctx.broadcast(seq, ab) == ctx.broadcast(b, *ctx.broadcast(a, seq)));
    CHECK(ab.lower() == 1);
    CHECK(ctx.less_equal(a, ab) == true);
    CHECK(ctx.broadcast(wide, a) == wide);
    CHECK(ctx.substitute(ab, a, k(1)) == b);
    CHECK(ctx.substitute(ab, a, b) == b);
    CHECK(code_of([&] { ctx.substitute(ab, a, k(3)); }) == Code::ShapeMismatch);
  }

  TEST_CASE_FIXTURE(Fixture, "bounds") {
    CHECK(a.lower() == 1);
    CHECK(a.upper() == std::nullopt);
    CHECK(k(5).lower() == 5);
    CHECK(k(std::numeric_limits<int64_t>::max()).upper() == std::numeric_limits<int64_t>::max());
    CHECK(add(mul(a, b), 2).lower() == 3);
    CHECK(any.lower() == std::nullopt);
    CHECK(mod(any, 8).lower() == 0);
    CHECK(mod(any, 8).upper() == 7);
    CHECK(ctx.sub(mul(a, b), a).lower() == 0);
    CHECK(add(ctx.sub(ctx.sub(mul(a, b), a), b), 1).lower() == 0);
    CHECK(ctx.sub(a, div(a, 2)).lower() == 1);
    CHECK(ctx.sub(a, mul(b, div(a, b))).lower() == 0);
    CHECK(ctx.sub(a, ctx.min(a, b)).lower() == 0);
    CHECK(add(div(add(h, -1), 2), 1).lower() == 1);
    Expr small = ctx.symbol({.name = "small", .lower = 3, .upper = 30, .divisor = 4});
    CHECK(small.lower() == 4);
    CHECK(small.upper() == 28);
    CHECK(ctx.sub(k(100), mul(2, small)).lower() == 44);
    CHECK(div(k(100), small).upper() == 25);
  }

  TEST_CASE_FIXTURE(Fixture, "comparisons") {
    CHECK(ctx.equal(a, a) == true);
    CHECK(ctx.equal(a, b) == std::nullopt);
    CHECK(ctx.equal(a, add(a, 1)) == false);
    CHECK(ctx.equal(a, k(0)) == false);
    CHECK(ctx.equal(mul(2, a), add(mul(2, b), 1)) == false);
    CHECK(ctx.equal(any, k(0)) == std::nullopt);
    CHECK(ctx.less(k(0), a) == true);
    CHECK(ctx.less(a, k(1)) == false);
    CHECK(ctx.less(a, b) == std::nullopt);
    CHECK(ctx.less(a, add(a, b)) == true);
    CHECK(ctx.less_equal(a, mul(a, b)) == true);
    CHECK(ctx.less(div(a, 2), a) == true);
    CHECK(ctx.less(mod(any, a), a) == true);
    CHECK(ctx.less_equal(ctx.min(a, b), ctx.max(a, b)) == true);
    CHECK(ctx.less_equal(add(ctx.min(a, b), 1), add(a, 1)) == true);
    Expr one = ctx.symbol({.name = "one", .upper = 1});
    CHECK(one.is_symbol());
    CHECK(ctx.equal(one, k(1)) == true);
    CHECK(mul(one, a) == a);
    CHECK(ctx.broadcast(one, a) == a);
    CHECK(ctx.min(one, k(1)).is(1));
  }

  TEST_CASE_FIXTURE(Fixture, "iterations of loops") {
    const Expr turn = ctx.symbol({.name = "i", .lower = 0, .below = a});
    const Expr inner = ctx.symbol({.name = "j", .lower = 0, .below = turn});
    CHECK(ctx.less(turn, a) == true);
    CHECK(ctx.less_equal(add(turn, 1), a) == true);
    CHECK(ctx.less_equal(add(turn, 2), a) == std::nullopt);
    CHECK(ctx.less(mul(2, turn), a) == std::nullopt);
    CHECK(ctx.less_equal(mul(2, turn), mul(2, a)) == true);
    CHECK(ctx.less_equal(k(0), ctx.sub(a, turn)) == true);
    CHECK(ctx.less_equal(add(inner, 2), a) == true);
    CHECK(ctx.less_equal(a, turn) == std::nullopt);
  }

  TEST_CASE_FIXTURE(Fixture, "sizes as models compute them") {
    constexpr int64_t all = std::numeric_limits<int64_t>::max();
    auto slice = [&](Expr n, Expr start, Expr end, int64_t step = 1) {
      auto clamp = [&](Expr at) { return ctx.less(at, k(0)) == true ? ctx.max(add(at, n), k(0)) : ctx.min(at, n); };
      return ctx.ceil_div(ctx.max(ctx.sub(clamp(end), clamp(start)), k(0)), k(step));
    };
    CHECK(slice(seq, k(0), k(all)) == seq);
    CHECK(slice(seq, k(1), k(all)) == add(seq, -1));
    CHECK(slice(seq, k(0), k(-1)) == add(seq, -1));
    CHECK(slice(seq, k(-1), k(all)).is(1));
    CHECK(slice(seq, k(0), k(all), 2) == ctx.ceil_div(seq, k(2)));
    CHECK(slice(add(a, seq), a, add(a, seq)) == seq);
    CHECK(slice(seq, div(seq, 2), seq) == ctx.sub(seq, div(seq, 2)));

    // The second of two chunks.
    Expr half = ctx.ceil_div(seq, k(2));
    CHECK(ctx.min(ctx.sub(seq, half), half) == ctx.sub(seq, half));
    CHECK(ctx.less_equal(k(0), ctx.sub(seq, half)) == true);

    // Windows of 7 by 7 in an image that is padded to a multiple of 7, and back.
    Expr w = ctx.symbol({.name = "width"});
    Expr height = add(h, mod(ctx.neg(h), 7)), width = add(w, mod(add(ctx.neg(mod(w, 7)), 7), 7));
    Expr windows = ctx.product(std::vector{batch, div(height, 7), div(width, 7)});
    Expr pixels = ctx.product(std::vector{batch, height, width});
    CHECK(ctx.equal(pixels, mul(49, windows)) == true);
    CHECK(ctx.divide_exactly(pixels, k(49)) == windows);
    CHECK(div(pixels, mul(49, batch)) == mul(div(height, 7), div(width, 7)));
    CHECK(div(windows, mul(div(height, 7), div(width, 7))) == batch);

    // Up and down again.
    CHECK(div(mul(2, div(h, 2)), 2) == div(h, 2));
    CHECK(ctx.less_equal(mul(2, div(h, 2)), h) == true);
    CHECK(ctx.less_equal(k(0), ctx.sub(h, mul(16, div(h, 16)))) == true);
  }

  TEST_CASE_FIXTURE(Fixture, "parts") {
    CHECK(kind(k(3)) == Kind::Constant);
    CHECK(kind(add(a, b)) == Kind::Polynomial);
    auto parts = terms(add(mul(2, mul(a, a)), 7));
    REQUIRE(parts.size() == 2);
    CHECK(parts[0].coefficient == 2);
    CHECK(parts[0].atoms == std::vector{a, a});
    CHECK(parts[1].coefficient == 7);
    CHECK(parts[1].atoms.empty());
    CHECK(terms(k(0)).size() == 1);
    CHECK(terms(a)[0].atoms == std::vector{a});
    CHECK(operands(div(add(a, -1), 2)) == std::pair(add(a, -1), k(2)));
  }

  TEST_CASE_FIXTURE(Fixture, "symbols with the same name are told apart") {
    Expr again = ctx.symbol({.name = "batch"});
    CHECK(again != batch);
    CHECK(again.str() == "batch_1");
    CHECK(ctx.info(again).name == "batch_1");
    CHECK(ctx.symbol({.name = "batch_1"}).str() == "batch_1_1");
    CHECK(ctx.symbol({.name = "batch"}).str() == "batch_2");
    CHECK(ctx.symbol({}).str() == "s");
    CHECK(code_of([&] { ctx.symbol({.name = "none", .lower = 5, .upper = 7, .divisor = 4}); }) == Code::ShapeMismatch);
    CHECK(code_of([&] { ctx.symbol({.name = "zero", .divisor = 0}); }) == Code::ShapeMismatch);
  }

  TEST_CASE_FIXTURE(Fixture, "evaluation and substitution") {
    CHECK(ctx.sample(add(mul(batch, seq), 1)) == 15);
    CHECK(ctx.sample(a) == std::nullopt);
    CHECK(ctx.sample(add(div(add(h, -1), 2), 1)) == 112);
    CHECK(ctx.evaluate(mod(a, any), [&](Expr s) { return std::optional<int64_t>(s == a ? 5 : 0); }) == std::nullopt);
    CHECK(ctx.evaluate(*ctx.broadcast(a, b), [&](Expr s) { return std::optional<int64_t>(s == a ? 5 : 3); }) ==
          std::nullopt);
    CHECK(ctx.evaluate(div(wide, 2), [](Expr) { return std::optional<int64_t>(48); }) == std::nullopt);
    CHECK(ctx.substitute(add(mul(a, a), b), a, add(b, 1)) == add(mul(b, b), add(mul(3, b), 1)));
    CHECK(ctx.substitute(div(a, 2), a, mul(2, b)) == b);
    CHECK(ctx.substitute(ctx.min(a, b), a, k(1)).is(1));
    CHECK(ctx.substitute(b, a, k(1)) == b);
  }

  TEST_CASE_FIXTURE(Fixture, "what cannot be computed is an error") {
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    constexpr int64_t least = std::numeric_limits<int64_t>::min();
    CHECK(code_of([&] { div(a, 0); }) == Code::ShapeMismatch);
    CHECK(code_of([&] { mod(k(3), 0); }) == Code::ShapeMismatch);
    CHECK(code_of([&] { add(k(most), 1); }) == Code::LimitExceeded);
    CHECK(code_of([&] { mul(2, k(most)); }) == Code::LimitExceeded);
    CHECK(code_of([&] { ctx.neg(k(least)); }) == Code::LimitExceeded);
    CHECK(code_of([&] { div(k(least), -1); }) == Code::LimitExceeded);
    CHECK(code_of([&] {
            Expr sum = k(1);
            for (int i = 0; i < 12; ++i) sum = mul(sum, add(ctx.symbol({.name = "s"}), 1));
          }) == Code::LimitExceeded);
    CHECK(code_of([&] {
            Expr power = a;
            for (int i = 0; i < 20; ++i) power = mul(power, power);
          }) == Code::LimitExceeded);
    CHECK(code_of([&] {
            Expr nest = a;
            for (int i = 0; i < 1000; ++i) nest = mod(add(b, nest), add(seq, nest));
          }) == Code::LimitExceeded);
    // Comparisons that do not fit are undecided, or decided by the ranges.
    CHECK(ctx.less(k(least), a) == true);
    CHECK(ctx.less(any, k(most)) == std::nullopt);
    CHECK(ctx.equal(add(any, least), k(1)) == std::nullopt);
    CHECK(ctx.min(add(any, -2), k(least)).is(least));
  }

  // Whatever is built, simplified as it may be, has the value that integers give.
  TEST_CASE("random expressions agree with integers") {
    struct Built {
      Expr e;
      std::vector<std::optional<int64_t>> values;  // by assignment; empty where not defined
    };
    constexpr size_t kAssignments = 12;
    constexpr int64_t kLarge = int64_t{1} << 40;
    size_t decided = 0, defined = 0;

    for (uint32_t round = 0; round < 400; ++round) {
      std::mt19937 random(round);
      auto pick = [&](int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random); };
      Context ctx;
      std::vector<SymbolInfo> infos{{.name = "n"},
                                    {.name = "m", .lower = 0},
                                    {.name = "x", .divisor = 4},
                                    {.name = "y", .lower = 2, .upper = 9},
                                    {.name = "z", .lower = std::nullopt},
                                    {.name = "w", .lower = 0, .upper = 60, .divisor = 6},
                                    {.name = "v", .lower = std::nullopt, .upper = -1},
                                    {.name = "u"}};
      std::vector<Expr> symbols;
      std::vector<Built> pool;
      for (const SymbolInfo& i : infos) {
        Built s{ctx.symbol(i), {}};
        for (size_t n = 0; n < kAssignments; ++n) {
          int64_t lo = i.lower.value_or(-20), hi = i.upper.value_or(n % 3 == 0 ? 3 : 20);
          s.values.push_back(pick((lo + i.divisor - 1) / i.divisor, std::max(hi / i.divisor, int64_t{1})) * i.divisor);
          if (i.upper) s.values.back() = std::min(*s.values.back(), *i.upper);
        }
        symbols.push_back(s.e);
        pool.push_back(s);
      }
      auto check = [&](const Built& b) {
        for (size_t n = 0; n < kAssignments; ++n) {
          if (!b.values[n]) continue;
          auto value_of = [&](Expr s) {
            return pool[static_cast<size_t>(std::ranges::find(symbols, s) - symbols.begin())].values[n];
          };
          ++defined;
          auto got = ctx.evaluate(b.e, value_of);
          INFO("round ", round, ": ", b.e.str());
          REQUIRE(got == b.values[n]);
          REQUIRE(b.e.lower().value_or(*got) <= *got);
          REQUIRE(b.e.upper().value_or(*got) >= *got);
        }
      };
      for (int step = 0; step < 60; ++step) {
        const size_t recent = pick(0, 2) == 0 ? 0 : pool.size() / 2;
        auto any_of_pool = [&]() -> Built {
          if (pick(0, 4) == 0) {
            int64_t v = pick(-6, 12);
            return {ctx.constant(v), std::vector<std::optional<int64_t>>(kAssignments, v)};
          }
          return pool[static_cast<size_t>(pick(static_cast<int64_t>(recent), static_cast<int64_t>(pool.size()) - 1))];
        };
        const Built a = any_of_pool(), b = any_of_pool();
        const int64_t op = pick(0, 9);
        Built r;
        bool refused = false;
        try {
          switch (op) {
            case 0:
            case 1:
              r.e = ctx.add(a.e, b.e);
              break;
            case 2:
              r.e = ctx.sub(a.e, b.e);
              break;
            case 3:
              r.e = ctx.mul(a.e, b.e);
              break;
            case 4:
            case 5:
              r.e = ctx.floor_div(a.e, b.e);
              break;
            case 6:
              r.e = ctx.mod(a.e, b.e);
              break;
            case 7:
              r.e = ctx.min(a.e, b.e);
              break;
            case 8:
              r.e = ctx.max(a.e, b.e);
              break;
            default:
              if (auto e = ctx.broadcast(a.e, b.e)) {
                r.e = *e;
              } else {
                refused = true;
              }
          }
        } catch (const Error&) {
          continue;
        }
        bool small = true;
        for (size_t n = 0; n < kAssignments; ++n) {
          std::optional<int64_t>& v = r.values.emplace_back();
          if (!a.values[n] || !b.values[n]) continue;
          const int64_t x = *a.values[n], y = *b.values[n];
          // clang-format off
          switch (op) {
            case 0: case 1: v = x + y; break;
            case 2: v = x - y; break;
            case 3: v = x * y; break;
            case 4: case 5: if (y != 0) v = (x - ((x % y + y) % y)) / y; break;
            case 6: if (y != 0) v = (x % y + y) % y; break;
            case 7: v = std::min(x, y); break;
            case 8: v = std::max(x, y); break;
            default: if (x == 1 || y == 1 || x == y) v = x == 1 ? y : x;
          }
          // clang-format on
          small &= !v || (*v<kLarge&& * v> - kLarge);
          const auto equal = ctx.equal(a.e, b.e), less = ctx.less(a.e, b.e), less_equal = ctx.less_equal(a.e, b.e);
          INFO("round ", round, ": ", a.e.str(), " and ", b.e.str());
          REQUIRE(equal.value_or(x == y) == (x == y));
          REQUIRE(less.value_or(x < y) == (x < y));
          REQUIRE(less_equal.value_or(x <= y) == (x <= y));
          decided += less.has_value();
          if (auto q = ctx.divide_exactly(a.e, b.e); q && y != 0) REQUIRE(x % y == 0);
        }
        if (refused || !small) continue;
        check(r);
        if (r.e.str().size() < 200) pool.push_back(r);
      }
    }
    CHECK(defined > 10000);
    CHECK(decided > 1000);
  }
}
