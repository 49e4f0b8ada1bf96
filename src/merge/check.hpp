// Whether a merged program runs, at the outcomes of each trace, exactly the steps of that trace.
#pragma once

#include <map>
#include <vector>

#include "merge/trace.hpp"

namespace lithify::merge {

/// Follows the body for each trace: by the outcomes of its conditions, in order. Every statement must be the next step
/// of the trace, with the same operator, operands and literals; or one that the trace lost as unused, from a trace that
/// had not parted from it. The results must be those of the trace. `present`: see Branched. Throws Internal otherwise.
void check(const std::vector<program::Stmt>& body, const std::vector<std::string>& parameters,
           const std::vector<Set>& present, const std::map<const program::Expr*, std::vector<Source>>& copied_from,
           const std::vector<Trace>& traces);

}  // namespace lithify::merge
