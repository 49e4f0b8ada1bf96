// Finds formulas of the dynamic dimensions for the sizes that tracing hard-coded into a program.
//
// Every size is symbolic, so a hard-coded one shows where it meets a dynamic dimension. The numbers that lead there are
// suspected, the nearest first: one becomes a formula of the dimensions that has its value at the sample's sizes, and
// the program is evaluated again. What agrees for every size is kept; a choice between formulas that the rest of the
// program does not decide is not a solution but a guess.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "provenance/formulas.hpp"
#include "provenance/recorder.hpp"

namespace lithify::provenance {

/// What an evaluation of the program came to.
class Outcome {
 public:
  virtual ~Outcome() = default;
  Record record;
  virtual bool failed() const = 0;
  /// Whether it failed for another reason than sizes, which shows nothing about numbers.
  virtual bool failed_otherwise() const = 0;
  /// The same for outcomes with the same graph, whatever sizes its values have.
  virtual uint64_t structure() const = 0;
  /// The sizes of the tensors up to where evaluation ended.
  virtual std::vector<sym::Expr> sizes() const = 0;
};

/// Some formulas, and how far the program gets with them.
struct Solution {
  Formulas formulas;
  std::set<Issue::Id> accepted;  ///< issues that stay
  std::shared_ptr<Outcome> outcome;
  int cost = 0;  ///< the complexity of the formulas

  /// What is to be resolved next, nullptr when nothing is.
  const Issue* issue() const;
};

/// What a search works on. All expressions are of one context.
struct Question {
  const program::Program& program;
  sym::Context& sym;
  std::vector<Dimension> dimensions;
  std::map<Literal, std::vector<int64_t>> differing = {};  ///< numbers that differ between traces
  std::vector<sym::Expr> escaped = {};  ///< formulas of the sizes that escaped the program: numbers come from these
  bool accept_all = false;              ///< no size of the sample can be in the program: issues that may stay do so
  std::shared_ptr<Outcome> first;       ///< the program as it is
  int max_evaluations = 1500;           ///< after which the search ends
  std::function<std::shared_ptr<Outcome>(const Formulas&)> evaluate;  ///< stops at the first failure
};

class Search {
 public:
  explicit Search(Question question) : q_(std::move(question)) {}

  /// Solutions whose graphs differ, at most two. Throws TracesDiverge when a number that differs between traces has no
  /// formula.
  std::vector<Solution> run();

  /// Whether the limit of evaluations ended the search: not everything was tried.
  bool exhausted() const;
  int evaluations() const { return evaluations_; }
  /// What came of the program with the numbers solved for that differ between traces; nullptr when none do.
  const std::shared_ptr<Outcome>& solved() const { return solved_; }
  const std::vector<Dimension>& dimensions() const { return q_.dimensions; }

  /// Whether the export would be another one if a number of a solution stood for a dimension, as far as can be tried:
  /// not where the program contradicts itself then, or the number is in nothing that the graph computes.
  bool matters(const Solution& solution, const NumberUse& use, const Dimension& dimension);

 private:
  class Frontier;

  void solve(Solution& s);
  [[noreturn]] void refuse_unsolved(const Solution& s) const;
  void complete(Solution s);
  void complete_resolved(const Solution& s);
  std::vector<Solution> cheapest_past(const Solution& from, int above);
  void evaluate_with_costs(Solution& s);
  std::vector<Solution> neighbors(const Solution& s);
  void evaluate(Solution& s);
  void add_solution(Solution s);
  void try_ties();

  const std::vector<Explanation>& explained(const std::vector<int64_t>& values);
  std::vector<Explanation> explanations(const Issue& issue, const Origins::Found& number);
  void add_derived(sym::Expr formula, const std::vector<int64_t>& values, int at_most, std::vector<Explanation>& all);
  std::vector<int64_t> values_of(const Origins::Found& number) const;
  std::vector<sym::Expr> composed_sizes(const Outcome& at) const;
  bool of_dimensions(sym::Expr e) const;

  Question q_;
  std::map<std::vector<int64_t>, std::vector<Explanation>> explained_;
  std::vector<Solution> solutions_;
  std::shared_ptr<Outcome> solved_;
  int evaluations_ = 0;
  int64_t steps_ = 0;  // of all evaluations
  int cleared_ = 0;    // numbers that were shown not to matter
  bool failed_otherwise_ = false;
};

}  // namespace lithify::provenance
