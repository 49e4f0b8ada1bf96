// The straight-line form of a trace: every call of a submodule is replaced by the steps that it runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/program.hpp"

namespace lithify::merge {

/// A result of a step. Those of step 0 are the parameters of forward.
struct ValueRef {
  uint32_t step = 0;
  uint32_t result = 0;
  bool operator==(const ValueRef&) const = default;
};

/// An operation, or an operand of one: a value, a literal, an attribute of the model, or a list or tuple of operands.
struct Node {
  const program::Expr* expr =
      nullptr;  ///< of the trace, which has its own items; nullptr for the value of another step
  std::vector<Node> items;
  std::optional<ValueRef> value;  ///< of what is a name in the trace

  bool is_literal() const;
};

/// One operation. Its operands are results of steps before it.
struct Step {
  Node operation;
  const program::Stmt* statement = nullptr;  ///< that assigns its results; nullptr where it stands inside another
  uint32_t results = 1;
  std::string scope;                     ///< the path of the module that runs it: "encoder.layer.0"
  std::optional<program::Pos> pos = {};  ///< of the step that it computes a number for, where that is its purpose
};

struct Straight {
  std::vector<Step> steps;    ///< in the order in which they run; the first is empty, and has the parameters
  std::vector<Node> results;  ///< those of forward that were asked for
};

/// What forward runs for these of its results. Functions with control flow stay calls. Throws TracesDiverge when
/// forward itself has any.
Straight straightened(const program::Program& trace, const std::vector<size_t>& results);

/// The position of a step in the texts of its program.
program::Pos pos_of(const Step& step);

}  // namespace lithify::merge
