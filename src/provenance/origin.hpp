// Where the values of a program come from: the numbers written in it that each one was computed from.
//
// Tracing writes sizes of the sample into the program. Where such a number contradicts a dynamic dimension, the numbers
// that lead there are the ones to suspect, the nearest first.
#pragma once

#include <compare>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "program/program.hpp"

namespace lithify::provenance {

/// A whole number of the program: an integer in its text, an element of an integer constant that the text names, or the
/// length of such a constant that counts up or down in equal steps. What cannot stand for a formula, and may come from
/// a size nevertheless, is one as well: a float, and a dimension of size 1 of any other constant.
struct Literal {
  static constexpr size_t length = static_cast<size_t>(-1);
  static constexpr size_t fixed = static_cast<size_t>(-2);

  const program::Expr* expr = nullptr;
  size_t element = 0;
  auto operator<=>(const Literal&) const = default;
};

/// A constant that counts up or down in equal steps along its only dimension of a size above 1. A lone 0 is the first
/// of positions along its last dimension.
struct Progression {
  int64_t start = 0, step = 0, length = 0;
  size_t axis = 0;

  int64_t last() const { return start + (length - 1) * step; }
  /// Which end stays as it is at another length: that nearer to 0, so positions may count down to 0 as well.
  bool ends_at_last() const { return std::abs(last()) < std::abs(start); }
};
/// Nothing for what lies around 0 on both sides alike: at another length neither end stays.
std::optional<Progression> as_progression(const std::vector<int64_t>& sizes, const std::vector<int64_t>& elements);

/// A node of the history of values; 0 is that of values that no number went into.
using Origin = uint32_t;

class Origins {
 public:
  struct Found {
    Literal literal;
    int64_t value = 0;
    program::Pos pos;  ///< of the operator that the number was given to
    int distance = 0;  ///< operators between
  };

  Origin literal(Literal literal, int64_t value);
  /// The number, when the value is one as it stands in the program.
  const Literal* as_literal(Origin origin) const {
    return nodes_[origin].literal.expr ? &nodes_[origin].literal : nullptr;
  }
  int64_t value(Origin literal) const { return nodes_[literal].value; }
  /// That of the result of an operator at `pos` on values of these origins.
  Origin join(std::vector<Origin> from, program::Pos pos);
  /// The numbers that went into a value, the nearest first; no more than `most`.
  std::vector<Found> numbers(Origin origin, size_t most) const;

 private:
  struct Node {
    Literal literal;
    int64_t value = 0;
    program::Pos pos;
    std::vector<Origin> from;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace lithify::provenance
