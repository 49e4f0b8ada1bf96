// Finds what the numbers stand for that tracing hard-coded into a program.
//
// Every size is symbolic, so a hard-coded number shows where it meets a dynamic dimension. The numbers that lead there
// are doubted, the nearest first: one becomes a formula of the dimensions that has its value at the sample's sizes, and
// the program is evaluated again. What agrees for every size is kept; a choice between formulas that the rest of the
// program does not decide is no repair but a guess.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "driver/evaluate.hpp"

namespace lithify::driver {

/// The program to export, and the same model captured at other sizes.
using Captures = std::vector<const program::Program*>;

/// Evaluates the program, and repairs it where that is allowed and needed; each repair is told as a note. Numbers that
/// differ between captures are solved for. When there is no repair, the result has the diagnostics of the program as it
/// is. Throws TracesDiverge.
std::shared_ptr<Evaluated> evaluate_and_recover(const Captures& captures, const ExportOptions& options);

}  // namespace lithify::driver
