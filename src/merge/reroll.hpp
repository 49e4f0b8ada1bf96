// Loops that tracing unrolled become loops again.
//
// In a trace, a loop of the model's code is a run of groups of statements: the same operators from the same lines. The
// values that a group takes are the same as in the group before, or what the group before made, or the next element of
// a sequence. Such a run becomes `for i in range(n)` with n as a number: other traces, or the pieces that it takes,
// show which size it is.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "program/program.hpp"

namespace lithify::merge {

/// What says how many iterations a loop has.
enum class Lengths : uint8_t {
  Numbers,  ///< the number of groups in the trace: other traces have other numbers
  Pieces,   ///< the size along which three iterations or more take elements or slices, one after the other
  Pairs,    ///< the same, of two iterations as well: these may be all that the model wants
};

/// The last results of a trace, which are no outputs of the model: see lithify::Followed.
struct OtherResults {
  /// For each condition: whether how the model goes on depends on it. What makes one of these stays as it is.
  std::vector<bool> decides = {};
  size_t numbers = 0;  ///< after the conditions; these, and conditions that only guard, become None in iterations
  std::set<size_t> unneeded = {};  ///< conditions that become None in any case
};

/// A trace, and which of its results are no outputs.
struct Unrolled {
  const program::Program* program = nullptr;
  OtherResults other = {};
};

/// The programs with the runs of their forwards rerolled, each of two groups at least. Of several traces, only what is
/// not equally often in all is rerolled. Nothing for a trace that has no loops, and for programs with control flow.
/// Unrolled again, each loop gives the statements that it was made of: that is checked.
std::vector<std::unique_ptr<program::Program>> rerolled(const std::vector<Unrolled>& traces, Lengths lengths);

}  // namespace lithify::merge
