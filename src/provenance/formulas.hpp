// Formulas of the declared dimensions that explain a number which tracing wrote into a program.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sym/expr.hpp"

namespace lithify::provenance {

/// A dimension that was declared dynamic, with its size in each trace.
struct Dimension {
  sym::Expr symbol;
  std::vector<int64_t> sizes;
};

struct Explanation {
  sym::Expr formula;
  int cost = 0;  ///< its complexity
};

/// What a reader would call the length of a formula: 1 for "batch", 2 for "batch*seq" and "seq - 1", 3 for "2*seq" and
/// "floor(seq/2)".
int cost_of(sym::Expr formula);

/// What its dimensions of size 1 add to the cost of a formula: nothing in its value shows that they are in it.
int cost_of_unseen(std::span<const Dimension> dimensions, sym::Expr formula);

/// Whether a formula has these values in the traces.
bool explains(const sym::Context& sym, std::span<const Dimension> dimensions, sym::Expr formula,
              std::span<const int64_t> values);

/// The formulas that have these values in the traces, the simplest first: sums, products and floor divisions of
/// dimensions and numbers. Of one trace, only those with few and small numbers. `sizes` are formulas that tensors of
/// the program have as sizes: their products too.
std::vector<Explanation> explain(sym::Context& sym, std::span<const Dimension> dimensions,
                                 std::span<const int64_t> values, std::span<const sym::Expr> sizes = {});

}  // namespace lithify::provenance
