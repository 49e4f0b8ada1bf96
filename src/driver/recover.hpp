// A model evaluated with the sizes recovered that tracing hard-coded into it.
#pragma once

#include <memory>
#include <vector>

#include "driver/evaluate.hpp"

namespace lithify::driver {

/// A program, and what it does not have of its inputs (as ExportOptions::inputs).
struct Trace {
  const program::Program* program = nullptr;
  std::vector<std::string> inputs;
};
/// The program to export, and the same model traced at other sizes.
using Traces = std::vector<Trace>;

struct Recovered {
  std::shared_ptr<Evaluated> outcome;
  provenance::Formulas formulas;  ///< that stand in the place of numbers
};

/// The sizes that the declared dimensions have in each of the traces. Throws TracesDiverge where one does not have
/// them.
std::vector<Sizes> sizes_of(const PreparedModel& model, const Traces& traces);

/// Evaluates the first of the traces, and replaces its hard-coded sizes by formulas where that is allowed and needed;
/// each is reported as a note. Numbers that differ between traces are solved for. When no formulas are found, the
/// result has the diagnostics of the program as it is. `opset` is instead of that of the options. Throws TracesDiverge.
Recovered recover(const PreparedModel& model, const Traces& traces, std::optional<int> opset = {});

}  // namespace lithify::driver
