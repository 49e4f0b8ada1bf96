// Facts about sizes that hold for a while, and what decisions about sizes make of them.
#include <doctest/doctest.h>

#include "sym/given.hpp"

namespace lithify::sym {
namespace {

struct Fixture {
  Context sym;
  Expr s = sym.symbol({.name = "s"}), h = sym.symbol({.name = "h"}), t = sym.symbol({.name = "t"});
  Expr n(int64_t v) { return sym.constant(v); }
  Expr even(Expr e) { return sym.mul(n(2), sym.floor_div(e, n(2))); }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a bound decides comparisons while it is given") {
  CHECK_FALSE(sym.less_equal(s, n(20)).has_value());
  {
    const Given given(sym, Facts{{Fact::Kind::AtMost, s, n(16)}});
    CHECK(sym.less_equal(s, n(20)) == true);
    CHECK(sym.less_equal(s, n(16)) == true);
    CHECK(sym.less(n(16), s) == false);
    CHECK_FALSE(sym.less_equal(s, n(15)).has_value());
    const Given more(sym, Facts{{Fact::Kind::Less, n(15), s}});
    CHECK(sym.equal(s, n(16)) == true);
  }
  CHECK_FALSE(sym.less_equal(s, n(20)).has_value());
}

TEST_CASE_FIXTURE(Fixture, "a size that is a number broadcasts with it") {
  CHECK_FALSE(sym.broadcast(h, n(12)).has_value());
  const Given given(sym, Facts{{Fact::Kind::Equal, h, n(12)}});
  CHECK(sym.broadcast(h, n(12)) == n(12));
  CHECK(sym.equal(sym.add(h, s), sym.add(s, n(12))) == true);
  CHECK(sym.divide_exactly(h, n(4)) == sym.floor_div(h, n(4)));
}

TEST_CASE_FIXTURE(Fixture, "a quotient that is given by another stands for it inside products") {
  const Expr quarter = sym.floor_div(h, n(4)), eighth = sym.floor_div(h, n(8));
  const Expr sides = sym.mul(s, sym.add(quarter, n(1))), halves = sym.mul(s, sym.add(sym.mul(n(2), eighth), n(2)));
  CHECK_FALSE(sym.equal(sides, halves).has_value());
  const Given given(sym, Facts{{Fact::Kind::Equal, sym.add(sym.mul(n(2), eighth), n(1)), quarter}});
  CHECK(sym.equal(sides, halves) == true);
  CHECK_FALSE(sym.equal(sides, sym.mul(s, n(3))).has_value());
}

TEST_CASE_FIXTURE(Fixture, "a size that is another size is equal to it") {
  const Given given(sym, Facts{{Fact::Kind::Equal, s, t}});
  CHECK(sym.equal(sym.mul(s, n(3)), sym.mul(t, n(3))) == true);
  CHECK((sym.broadcast(s, t) == s || sym.broadcast(s, t) == t));
}

TEST_CASE_FIXTURE(Fixture, "a size that is a multiple divides") {
  const Given given(sym, Facts{{Fact::Kind::Equal, even(h), h}});
  CHECK(sym.equal(even(h), h) == true);
  CHECK(sym.equal(h, even(h)) == true);
  CHECK(sym.divide_exactly(h, n(2)) == sym.floor_div(h, n(2)));
}

TEST_CASE_FIXTURE(Fixture, "what is not the least size is at least the next") {
  const Given given(sym, Facts{{Fact::Kind::NotEqual, s, n(1)}});
  CHECK(sym.equal(s, n(1)) == false);
  CHECK(sym.less_equal(n(2), s) == true);
}

TEST_CASE_FIXTURE(Fixture, "a fact about two sizes is known as it is stated") {
  const Given given(sym, Facts{{Fact::Kind::Less, s, t}, {Fact::Kind::NotEqual, h, t}});
  CHECK(sym.less_equal(sym.add(s, n(1)), t) == true);
  CHECK(sym.less(s, t) == true);
  CHECK(sym.less_equal(t, s) == false);
  CHECK(sym.equal(t, h) == false);
}

TEST_CASE_FIXTURE(Fixture, "a minimum is the operand that a fact about two sizes states") {
  const Expr past = sym.sub(t, s), kept = sym.min(past, n(7)), more = sym.max(past, n(7));
  CHECK_FALSE(sym.equal(sym.add(kept, s), t).has_value());
  {
    const Given given(sym, Facts{{Fact::Kind::Less, past, n(8)}});
    CHECK(sym.equal(sym.add(kept, s), t) == true);
    CHECK(sym.equal(more, n(7)) == true);
  }
  const Given given(sym, Facts{{Fact::Kind::AtMost, n(8), past}});
  CHECK(sym.equal(sym.add(kept, s), sym.add(s, n(7))) == true);
  CHECK(sym.equal(more, past) == true);
  CHECK_FALSE(sym.equal(kept, sym.min(h, n(7))).has_value());
}

TEST_CASE_FIXTURE(Fixture, "facts that no size has change nothing") {
  const Given given(sym, Facts{{Fact::Kind::AtMost, s, n(0)}});
  CHECK(sym.less_equal(s, n(0)) == false);
}

TEST_CASE_FIXTURE(Fixture, "what is assumed under facts is assumed only there") {
  struct Heard : Observer {
    std::string text;
    void assumed(const Assumption& a) override { text = a.str(); }
    void took_side(const Assumption&) override {}
    void broadcast_one(Expr) override {}
    void moved_boundary(Expr, Expr) override {}
  } heard;
  const Observed observed(sym, &heard);
  const Given given(sym, Facts{{Fact::Kind::Less, n(16), s}});
  sym.assume({Assumption::Kind::Multiple, s, n(4)});
  CHECK(heard.text == "16 >= s or s % 4 == 0");
}

}  // namespace lithify::sym
