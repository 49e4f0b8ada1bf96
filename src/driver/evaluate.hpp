// From a Program to an ONNX graph: the inputs, the evaluation, and the names of the outputs.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "eval/evaluator.hpp"
#include "lithify/lithify.hpp"
#include "onnx/graph.hpp"
#include "program/program.hpp"

namespace lithify::driver {

/// What numbers of a program stand for, as formulas of the declared dimensions.
struct Repairs {
  const sym::Context* sym = nullptr;  ///< of the formulas; its symbols have the names of the dimensions
  std::map<eval::Literal, sym::Expr> numbers;
};

struct Evaluated {
  sym::Context sym;
  onnx::Model model;
  std::vector<Diagnostic> diagnostics;
  std::map<std::string, eval::OperatorUse> operators;
  std::map<std::string, sym::Expr> dimensions;  ///< the declared ones, by name
  std::vector<std::string> preconditions;       ///< what the file says of them: "seq >= 4"
  std::vector<eval::SizeIssue> issues;
  std::vector<eval::NumberUse> uses;
  eval::Origins origins;
  std::vector<eval::Change> changes;                ///< that a run makes to the model
  std::vector<std::string> left;                    ///< of the sizes that left the program, those that are dynamic
  size_t moved_boundaries = 0;                      ///< how many, see Builder
  std::map<std::string, int> repaired, unverified;  ///< numbers of the program, by the dimension they are about

  bool failed() const {
    return std::any_of(diagnostics.begin(), diagnostics.end(),
                       [](const Diagnostic& d) { return d.severity == Severity::Error; });
  }
  /// A formula of dimensions in another context, in this one.
  sym::Expr rebuilt(const sym::Context& of, sym::Expr formula) {
    return sym.rebuild(formula, [&](sym::Expr symbol) { return dimensions.at(of.info(symbol).name); });
  }
};

/// Runs the program. What cannot be exported is in the diagnostics of the result, and the graph is then not whole.
std::unique_ptr<Evaluated> evaluate(const program::Program& program, const ExportOptions& options,
                                    const Repairs& repairs = {}, bool stop_early = false);

}  // namespace lithify::driver
