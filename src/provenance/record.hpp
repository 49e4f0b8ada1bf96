// What an evaluation of a program shows of the numbers in it: typed records, each with its identity.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "provenance/origin.hpp"
#include "provenance/role.hpp"
#include "sym/expr.hpp"

namespace lithify::provenance {

/// Sizes meet that are not known to agree at every size.
struct Issue {
  enum class Kind : uint8_t {
    Contradiction,  ///< with a dynamic dimension: it cannot stay
    MovedBoundary,  ///< a number stands where a dimension was that had this size in the sample
    Broadcast,      ///< a number may be why a 1 is broadcast to a dimension of size 1 in the sample
  };
  Kind kind = Kind::Contradiction;
  sym::Expr a, b;                ///< the two sizes
  std::vector<sym::Expr> among;  ///< all sizes that were compared
  Origin origin = 0;             ///< of the operator's arguments
  int64_t step = 0;              ///< operators that were applied before
  size_t at = 0;                 ///< sizes of this operator that agree before
  program::Pos pos;

  /// The same issue in another evaluation of the program is the same kind at the same step, between the same sizes.
  struct Id {
    Kind kind;
    int64_t step;
    size_t at;
    std::vector<const sym::Node*> sizes;
    std::strong_ordering operator<=>(const Id&) const = default;
  };
  Id id() const;
};

/// A number of the program that goes where no size meets it: into values, or into the size of a new tensor.
struct NumberUse {
  Literal literal;
  int64_t number = 0;
  Role role = Role::Operand;
  sym::Expr size = {};  ///< of the dimension that a position is in, or that a 1 is broadcast to
  program::Pos pos;
};

/// A relation of sizes that the graph relies on, and the operator that does.
struct Assumed {
  sym::Assumption assumption;
  program::Pos pos;
};

/// All of one evaluation.
struct Record {
  Origins origins;
  std::vector<Issue> issues;  ///< in the order in which they were met
  std::vector<NumberUse> uses;
  std::vector<Assumed> assumptions;  ///< each once
  size_t moved_boundaries = 0;
  int64_t steps = 0;           ///< operators that were applied
  std::vector<Assumed> sides;  ///< what holds in the sample, and decides what an operator does
};

}  // namespace lithify::provenance
