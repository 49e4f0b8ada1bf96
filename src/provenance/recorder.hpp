// Records where the numbers of a program go while it is evaluated.
//
// The evaluator reports each operator that it applies, and the numbers among its arguments. Shape rules report what
// they assume through sym::Observer. Evaluation runs as well without a recorder.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "base/journal.hpp"
#include "provenance/record.hpp"
#include "sym/contradiction.hpp"

namespace lithify::provenance {

/// What numbers of a program stand for, as formulas of its dimensions.
using Formulas = std::map<Literal, sym::Expr>;

class Recorder final : public sym::Observer {
 public:
  /// What is recorded in an attempt of the journal can be undone with it. Where `suspicious` is not set, numbers of the
  /// program are known not to be sizes of the sample, and their uses are not recorded.
  Recorder(const program::Program& program, sym::Context& sym, Journal& journal, Formulas formulas, bool suspicious);

  // ---- numbers ----
  /// The formula that stands in the place of a number.
  std::optional<sym::Expr> formula(const Literal& literal) const;
  /// A number of the program is read.
  Origin read(const Literal& literal, int64_t value) { return origins_.literal(literal, value); }
  /// A value is computed, by the operator at `pos`, from values of these origins.
  Origin computed(std::vector<Origin> from, program::Pos pos) { return origins_.join(std::move(from), pos); }
  /// Whether a value is a number as it stands in the program.
  bool is_literal(Origin origin) const { return origin && origins_.as_literal(origin); }

  // ---- operators: begin, uses, then end or contradict ----
  /// `arguments` is where all arguments come from, `listed` where the numbers in lists among them do.
  void begin(program::Pos pos, Origin arguments, Origin listed);
  /// A value goes into this operator where no size meets it. It is recorded if it is a number of the program, and at
  /// least `least`. `size` is that of the dimension it is about, if any.
  void use(Origin value, Role role, sym::Expr size, int64_t least);
  /// Elements that are all the same differ after this operator, by where they are.
  void vary(Origin argument);
  void end();
  /// The operator fails, since sizes do not agree.
  void contradict(const sym::Conflict& conflict);
  /// Whether this operator broadcasts a 1 to a size that is 1 in the sample ...
  bool broadcasts_one_to(sym::Expr size) const;
  /// ... and which of its operands, along an axis of the result, has the 1.
  void broadcast(Origin operand, bool is_constant, sym::Expr size, size_t axis);

  // ---- sym::Observer ----
  void assumed(const sym::Assumption& assumption) override;
  void took_side(const sym::Assumption& side) override;
  void broadcast_one(sym::Expr size) override;
  void moved_boundary(sym::Expr before, sym::Expr after) override;

  /// All that was recorded; the recorder is used up.
  Record take();

 private:
  struct Boundary {
    sym::Expr before, after;
  };
  using AssumptionKey = std::tuple<sym::Assumption::Kind, const sym::Node*, const sym::Node*>;

  void add_use(const NumberUse& use);
  void use_as_limit(const sym::Assumption& assumption);
  bool has_size_of_one(const Literal& literal) const;

  const program::Program& program_;
  sym::Context& sym_;
  Formulas formulas_;
  bool suspicious_;
  Origins origins_;
  JournaledList<Issue> issues_;
  JournaledList<NumberUse> uses_;
  JournaledSet<Literal> used_ones_;  // numbers 1 among the uses
  JournaledSet<Literal> varied_;     // sizes of 1 along which elements would differ
  JournaledList<Assumed> assumptions_;
  JournaledSet<AssumptionKey> known_assumptions_;
  JournaledList<Assumed> sides_;
  JournaledList<Boundary> boundaries_;

  // The operator that is being applied.
  int64_t steps_ = 0;
  program::Pos pos_;
  Origin arguments_ = 0, listed_ = 0;
  bool within_ = false;
  std::vector<sym::Expr> broadcast_ones_;
  std::vector<Boundary> moved_;
};

}  // namespace lithify::provenance
