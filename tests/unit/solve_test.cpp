// Sizes that take the other side of a condition.
#include <doctest/doctest.h>

#include "driver/solve.hpp"

namespace lithify::driver {
namespace {

/// The nearest sizes to batch=2, seq=7, height=224, width=224 at which the conditions have these outcomes.
std::optional<Sizes> nearest(std::vector<std::pair<std::string, bool>> conditions) {
  std::vector<claims::Formula> formulas;
  for (const auto& [text, outcome] : conditions) formulas.push_back(claims::Formula::parse(text));
  std::vector<Wanted> wanted;
  for (size_t i = 0; i < formulas.size(); ++i) wanted.push_back({&formulas[i], conditions[i].second});
  const Sizes from = {{"batch", 2}, {"seq", 7}, {"height", 224}, {"width", 224}};
  const std::vector<Sizes> found = sizes_where(wanted, from, from, 3);
  if (found.empty()) return std::nullopt;
  for (const Sizes& sizes : found)
    for (const Wanted& w : wanted) CHECK(outcome_at(*w.condition, sizes) == w.outcome);
  return found.front();
}

int64_t of(const std::optional<Sizes>& sizes, const std::string& name) {
  REQUIRE(sizes);
  for (const auto& [n, size] : *sizes)
    if (n == name) return size;
  return 0;
}

}  // namespace

TEST_CASE("the nearest size past a boundary is found") {
  CHECK(of(nearest({{"seq > 16", true}}), "seq") == 17);
  CHECK(of(nearest({{"batch == 1", true}}), "batch") == 1);
  CHECK(of(nearest({{"seq % 4 == 0", true}}), "seq") == 8);
}

TEST_CASE("sizes stay aligned as in the sample where they can") {
  CHECK(of(nearest({{"7*floor((floor((height + 31)/32) + 6)/7) <= 7", false}}), "height") == 256);
  CHECK(of(nearest({{"height > width", true}}), "width") != of(nearest({{"height > width", true}}), "height"));
}

TEST_CASE("conditions before the last keep their outcomes") {
  const auto both = nearest({{"seq > 5", true}, {"seq > 6", false}});
  CHECK(of(both, "seq") == 6);
  const auto two = nearest({{"seq <= batch", true}, {"batch > 3", true}});
  CHECK(of(two, "batch") > 3);
}

TEST_CASE("what no size does has no solution, nor what is too far to run a model at") {
  CHECK_FALSE(nearest({{"seq <= 700", false}}));
  CHECK_FALSE(nearest({{"seq > 0", false}}));
  CHECK_FALSE(nearest({{"seq > 5", true}, {"seq < 3", true}}));
}

}  // namespace lithify::driver
