// From a Program to an ONNX graph: inputs, evaluation, outputs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/custom.hpp"
#include "driver/inputs.hpp"
#include "eval/evaluator.hpp"
#include "lithify/capture.hpp"
#include "onnx/graph.hpp"
#include "program/program.hpp"
#include "provenance/findings.hpp"

namespace lithify::driver {

/// What came of a program: a graph, or the reasons why there is none.
class Evaluated final : public provenance::Outcome {
 public:
  explicit Evaluated(std::shared_ptr<sym::Context> context) : sym(std::move(context)) {}

  std::shared_ptr<sym::Context> sym;  ///< of all sizes
  onnx::Model model;                  ///< not whole when the evaluation failed
  std::vector<Diagnostic> diagnostics;
  std::map<std::string, eval::OperatorUse> operators;
  std::map<std::string, sym::Expr> dimensions;                         ///< the declared ones, by name
  std::vector<eval::Change> changes;                                   ///< that a run makes to the model
  std::vector<std::string> escaped;                                    ///< where dynamic sizes escape the program
  std::map<std::string, std::vector<std::string>> escaped_dimensions;  ///< the same, by dimension
  std::map<size_t, std::string> escaped_data;  ///< where what inputs hold escapes the program, by Followed::escapes
  /// Of lithify::Followed: the conditions whose outcome is the same at all sizes, and what the sizes stand for, where
  /// they do not depend on data.
  std::vector<std::optional<bool>> decided_conditions;
  std::vector<sym::Facts> condition_facts;  ///< of each condition: what its outcome states
  std::vector<std::optional<sym::Expr>> followed_sizes;
  /// Formulas of the sizes that escape the program; empty where one of them is not known.
  std::optional<std::vector<sym::Expr>> escaped_sizes;
  std::map<std::string, int> recovered, unverified;  ///< numbers of the program, by dimension: see Findings
  std::map<std::string, std::vector<std::string>> unverified_uses;  ///< see Findings::uses
  SizeAssumptions assumed;                                          ///< of the sizes of inputs
  std::map<std::string, onnx::Shape> input_shapes;                  ///< by TensorInput::path

  /// Adds a diagnostic, once.
  void report(Diagnostic d);

  bool failed() const override;
  bool failed_otherwise() const override;
  uint64_t structure() const override;
  std::vector<sym::Expr> sizes() const override;
};

/// The warning that state is reset in every run, though results depend on it.
Diagnostic is_frozen(const std::string& name, const Place& place);

/// Whether numbers of a program may be sizes of its sample. A script has the numbers that its author wrote, and
/// torch.export follows every size that it leaves open.
bool may_hard_code(const program::Program& program);

/// How a program is evaluated.
struct Variant {
  provenance::Formulas formulas = {};
  bool stop_early = false;        ///< at the first problem
  std::optional<int> opset = {};  ///< instead of that of the options
};

/// A program and its options, checked and ready to be evaluated any number of times: with other formulas in the place
/// of its numbers, or for another opset. All evaluations share one context, so their sizes can be compared.
class PreparedModel {
 public:
  /// Throws BadOption, UnknownInput, and what program::verify throws.
  PreparedModel(const program::Program& program, const ExportOptions& options, std::optional<Followed> followed = {});
  PreparedModel(const PreparedModel&) = delete;  // its rules refer to it
  PreparedModel& operator=(const PreparedModel&) = delete;

  /// What cannot be exported is in the diagnostics of the result. Without an opset, the lowest from default_opset on
  /// that can express the program is taken. Throws Error for options that do not fit the program.
  std::shared_ptr<Evaluated> evaluate(Variant variant = {}) const;

  const program::Program& program() const { return program_; }
  const ExportOptions& options() const { return options_; }
  const std::vector<TensorInput>& inputs() const { return inputs_; }
  /// Evaluates on one path only, where these facts hold.
  void give(sym::Facts facts) { given_ = std::move(facts); }

  bool watched() const { return followed_.has_value(); }
  sym::Context& sym() const { return *sym_; }

 private:
  struct StateInputs;
  std::shared_ptr<Evaluated> evaluate_in_opset(const Variant& variant) const;
  std::shared_ptr<Evaluated> evaluate_with_equal_sizes(const Variant& variant) const;
  std::shared_ptr<Evaluated> evaluate_with(const Variant& variant, const StateInputs& state) const;

  const program::Program& program_;
  ExportOptions options_;
  std::optional<Followed> followed_;
  std::shared_ptr<sym::Context> sym_ = std::make_shared<sym::Context>();
  Rules rules_;
  std::vector<Diagnostic> warnings_;
  std::vector<TensorInput> inputs_;
  sym::Facts given_;
  mutable std::vector<provenance::Assumed>
      equal_;  ///< dimensions that all evaluations take for equal once one needs it
};

}  // namespace lithify::driver
