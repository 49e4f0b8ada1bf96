// The program that runs, at the outcomes of each trace, the steps of that trace.
#pragma once

#include <string>
#include <vector>

#include "merge/merge.hpp"
#include "merge/partition.hpp"

namespace lithify::merge {

struct Branched {
  std::vector<program::Stmt> body;  ///< of forward
  /// Of the statements in order, those of the body of an if before those of its else: the traces that have the step;
  /// 0 for a statement that is none.
  std::vector<Set> present;
  /// What each literal stands for: Expr::integer2 of a literal is its number here, from 1.
  std::vector<std::vector<Source>> sources;
};

/// Statements that only one side of a condition runs are in an `if`. Where a step takes different values, or literals,
/// these are results of the nearest `if` that decides between them: names that both sides assign.
Branched branched(const Layout& layout, const std::vector<Trace>& traces, Definitions& definitions,
                  const std::vector<std::string>& parameters);

}  // namespace lithify::merge
