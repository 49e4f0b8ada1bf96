// Algorithms that take many steps of the same kind.
#pragma once

#include <functional>
#include <vector>

#include "ops/elementwise.hpp"

namespace lithify::ops {

/// What a step leaves: the carried values, of the types and sizes that they had, and whether there is another step (a
/// 0-d bool; nullptr for yes).
struct Step {
  std::vector<Ref> carried;
  Ref again = nullptr;
};

/// A Loop of at most `most` steps (a 0-d int64; nullptr for any number) on values that it carries.
std::vector<Ref> repeat(Builder& b, Ref most, std::vector<Ref> start,
                        const std::function<Step(const std::vector<Ref>& carried)>& step);

/// What a turn leaves: the carried values, and what is kept of it.
struct Turn {
  std::vector<Ref> carried;
  Ref kept;
};

/// A Loop of `turns` turns on values that it carries. The last of them at the end; then what was kept of the turns, one
/// after the other along a new first axis.
std::vector<Ref> collect(Builder& b, Dim turns, const std::vector<Ref>& start,
                         const std::function<Turn(Ref turn, const std::vector<Ref>& carried)>& run);

}  // namespace lithify::ops
