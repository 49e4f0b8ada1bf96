#include "base/budget.hpp"

#include <fmt/format.h>

#include <string_view>

#include "base/diagnostic.hpp"
#include "base/options.hpp"

namespace lithify {
namespace {

struct LimitRow {
  std::string_view what;
  uint64_t base, each_statement;  // for every program, and for each statement that it has
};

// By Limit. A program of a million statements may be one of a million operators.
constexpr std::array<LimitRow, limit_count> limit_rows = {{
    {"runs more than {} statements", 100'000, 64},
    {"makes more than {} nodes", 100'000, 64},
    {"makes lists of more than {} elements", 1 << 18, 64},
    {"makes strings of more than {} bytes", 1 << 20, 64},
    {"computes tensors of more than {} bytes", 1 << 26, 1024},
}};

}  // namespace

void Budget::allow(size_t statements, int64_t times) {
  for (size_t i = 0; i < limit_count; ++i)
    most_[i] = (limit_rows[i].base + limit_rows[i].each_statement * statements) * static_cast<uint64_t>(times);
  restart();
}

void Budget::exceeded(Limit limit) const {
  const auto i = static_cast<size_t>(limit);
  throw Error(Code::LimitExceeded,
              fmt::format("the program {} at export", fmt::format(fmt::runtime(limit_rows[i].what), most_[i])),
              fmt::format("if this is intended, {} allows several times as much", option("budget", 4)));
}

}  // namespace lithify
