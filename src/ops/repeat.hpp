// Algorithms that take many steps of the same kind.
#pragma once

#include <functional>
#include <vector>

#include "ops/elementwise.hpp"

namespace lithify::ops {

/// What a step leaves: the carried values, of the types and sizes that they had, and whether there is another step (a
/// 0-d bool; nullptr for yes).
struct Step {
  Vector<Ref> carried;
  Ref again = nullptr;
};

/// A Loop of at most `most` steps (a 0-d int64; nullptr for any number) on values that it carries.
Vector<Ref> repeat(Builder& b, Ref most, const Vector<Ref>& start,
                   const std::function<Step(const Vector<Ref>& carried)>& step);

/// What an iteration leaves: the carried values, and what is kept of it.
struct Iteration {
  Vector<Ref> carried;
  Ref kept;
};

/// A Loop of `iterations` iterations on values that it carries. The last of them at the end; then what was kept of the
/// iterations, one after the other along a new first axis.
Vector<Ref> collect(Builder& b, Dim iterations, const Vector<Ref>& start,
                    const std::function<Iteration(Ref iteration, const Vector<Ref>& carried)>& run);

}  // namespace lithify::ops
