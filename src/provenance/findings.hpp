// What is reported of the numbers of a program, once it is known what they stand for or that it is not known.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/diagnostic.hpp"
#include "provenance/search.hpp"

namespace lithify::provenance {

struct Findings {
  std::vector<Diagnostic> diagnostics;
  std::map<std::string, int> recovered;                  ///< numbers that became formulas, by the dimensions in them
  std::map<std::string, int> unverified;                 ///< numbers that may be a size of the sample, by the dimension
  std::map<std::string, std::vector<std::string>> uses;  ///< of these numbers: "the number 7 at model.py:12"
};

/// Numbers of a solution that became formulas.
void report_recovered(const program::Program& program, const sym::Context& sym, const Solution& solution,
                      Findings& out);

/// Numbers that may be sizes where no contradiction shows it. The size of a new tensor is refused when the program is
/// known to hard-code that dimension elsewhere, unless the number can be shown not to matter; with `strict`, all are.
/// `counts` are the numbers of elements of the inputs.
void report_unverified(const program::Program& program, const sym::Context& sym, Search& search,
                       const Solution& solution, const std::vector<sym::Expr>& counts, bool strict, Findings& out);

/// Refuses a dimension whose elements one line takes one by one, as many as there are in the sample: a loop of the
/// model that tracing unrolled. Two on a single line may be intended: with `strict`, they are refused as well.
void report_unrolled(const program::Program& program, const sym::Context& sym, const Record& record, bool strict,
                     Findings& out);

/// Refuses an upper limit of a dimension that is not a size of a weight and little more than the sample, in a program
/// with unverified numbers of that dimension: 2*seq - 1 positions, say, of which every length takes its part.
void report_limited(const program::Program& program, const sym::Context& sym, const Record& record, Findings& out);

/// That two solutions differ, and nothing decides between them: by the number that makes the difference.
Diagnostic ambiguity(const program::Program& program, const Solution& best, const Solution& other);

/// That the limit of evaluations ended a search.
Diagnostic search_limit(int evaluations);

}  // namespace lithify::provenance
