// Reports where the numbers of a program go, as it is evaluated. Without a recorder it reports nothing, and evaluation
// is the same but for the formulas that numbers stand for.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "eval/registry.hpp"
#include "eval/value.hpp"
#include "provenance/recorder.hpp"

namespace lithify::eval {

class Reporter {
 public:
  /// The graph has its inputs.
  Reporter(onnx::Builder& builder, provenance::Recorder* recorder);

  // ---- numbers of the program, with their origins ----
  Value number(const program::Expr& e);
  Value real_number(const program::Expr& e);
  /// `value` is the constant that the expression names.
  Value constant(const program::Expr& e, Value value);

  // ---- an operator: begin, uses, then end or fail ----
  void begin(const program::Expr& call, const Arguments& arguments);
  /// The rule that applies, and its arguments in the order of its schema.
  void uses(const Rule& rule, std::span<const Value> arguments);
  /// Gives the result its origin.
  void end(Value& result);
  void fail(const sym::Contradiction& contradiction);
  /// A loop that was made of a trace has so many iterations.
  void iterations(const Value& count, program::Pos pos);

 private:
  std::optional<int64_t> number_behind(double x) const;
  void use(const provenance::NumberArgument& argument, const Value& value, sym::Expr size);
  void broadcasts(const Value& result);
  onnx::Value* counted(const provenance::Progression& p, sym::Expr length, DType dtype, onnx::Shape shape);

  onnx::Builder& builder_;
  provenance::Recorder* recorder_;
  bool size_one_ = false;    // whether a dynamic dimension has the size 1 in the sample
  std::set<int64_t> sizes_;  // of dynamic dimensions in the sample, if above 1

  // The operator that is being applied.
  provenance::Origin origin_ = 0;
  Vector<Value> operands_;  // where a dimension of size 1 may be broadcast
};

}  // namespace lithify::eval
