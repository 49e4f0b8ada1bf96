// The search for formulas, on programs that are made up of contradictions.
#include <doctest/doctest.h>

#include <memory>

#include "provenance/findings.hpp"

namespace lithify::provenance {
namespace {

/// A program with numbers that all are 12; its n-th operator contradicts `seq` until n numbers are formulas.
class Endless final : public Outcome {
 public:
  Endless(sym::Context& sym, sym::Expr seq, const std::vector<program::Expr>& numbers, size_t known) : known_(known) {
    record.steps = 1;
    if (known == numbers.size()) return;
    const Origin number = record.origins.literal({&numbers[known], 0}, 12);
    record.issues.push_back({.kind = Issue::Kind::Contradiction,
                             .a = seq,
                             .b = sym.constant(12),
                             .among = {},
                             .origin = record.origins.join({number}, {}),
                             .step = static_cast<int64_t>(known),
                             .pos = {}});
  }
  bool failed() const override { return !record.issues.empty(); }
  bool failed_otherwise() const override { return false; }
  uint64_t structure() const override { return known_; }
  std::vector<sym::Expr> sizes() const override { return {}; }

 private:
  size_t known_;
};

struct Fixture {
  sym::Context sym;
  sym::Expr seq = sym.symbol({.name = "seq", .sample = 12});
  program::Program program;
  std::vector<program::Expr> numbers = std::vector<program::Expr>(20);

  Question question(int max_evaluations) {
    return {.program = program,
            .sym = sym,
            .dimensions = {{seq, {12}}},
            .first = std::make_shared<Endless>(sym, seq, numbers, 0),
            .max_evaluations = max_evaluations,
            .evaluate = [this](const Formulas& f) { return std::make_shared<Endless>(sym, seq, numbers, f.size()); }};
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "one number after the other becomes the dimension that it contradicts") {
  Search search(question(1000));
  const std::vector<Solution> solutions = search.run();
  REQUIRE(solutions.size() == 1);
  CHECK(solutions[0].formulas.size() == numbers.size());
  for (auto& [literal, formula] : solutions[0].formulas) CHECK(formula == seq);
  CHECK_FALSE(search.exhausted());
}

TEST_CASE_FIXTURE(Fixture, "the search ends at its limit of evaluations, and a diagnostic of its own reports it") {
  Search search(question(10));
  CHECK(search.run().empty());
  CHECK(search.exhausted());
  CHECK(search.evaluations() == 10);
  const Diagnostic d = search_limit(search.evaluations());
  CHECK(d.code == Code::SearchLimit);
  CHECK(d.message.find("after 10 evaluations") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "symbols of one evaluation are those of the next") {
  const sym::Expr n = sym.symbol({.name = "n", .lower = 0});
  const sym::Expr other = sym.symbol({.name = "n", .lower = 0});
  CHECK(n != other);
  sym.restart();
  CHECK(sym.symbol({.name = "seq", .sample = 12}) == seq);
  CHECK(sym.symbol({.name = "n", .lower = 0}) == n);
  CHECK(sym.symbol({.name = "n", .lower = 0}) == other);
  CHECK(sym.symbol({.name = "n", .lower = 1}) != n);
}

}  // namespace lithify::provenance
