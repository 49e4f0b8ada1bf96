// Facts about sizes that hold for a while: in one branch of a program, or on one path through the code around it.
//
// While facts are given, decisions rely on them: comparisons, broadcasts and exact divisions. Expressions stay as they
// are, so a size means the same inside and outside.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sym/expr.hpp"

namespace lithify::sym {

struct Residue;

/// What follows from facts about the sizes of a context.
class Knowledge {
 public:
  /// Everything of `outer`, which may be nullptr, and these facts.
  Knowledge(Context& sym, const Knowledge* outer, std::span<const Fact> facts);

  /// The expression with symbols replaced by what is known of them. It is for decisions only: its symbols may be ones
  /// that nothing else has.
  Expr known(Expr e) const;
  /// Whether two expressions are equal because one of the facts states it, or their difference.
  bool states_equal(Expr a, Expr b) const;
  bool states_unequal(Expr a, Expr b) const;
  bool states_at_most(Expr a, Expr b) const;
  /// The facts themselves.
  const Facts& stated() const { return stated_; }

 private:
  void add(const Fact& fact);
  void add_equal(Expr difference);
  void add_residue(const Residue& residue);
  void add_never_negative(Expr stated);
  void narrow(Expr symbol, const SymbolInfo& info);
  void replace(Expr symbol, Expr by);

  Context& sym_;
  Facts stated_;
  std::vector<std::pair<Expr, Expr>> replaced_;  // symbols and quotients, and what stands for them
  std::vector<Expr> zero_, not_zero_, never_negative_;
};

/// Gives facts to a context for as long as it lives.
class Given {
 public:
  /// Without facts, nothing changes.
  Given(Context& sym, std::span<const Fact> facts);
  ~Given() { sym_.knowledge = outer_; }
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;

 private:
  Context& sym_;
  const Knowledge* outer_;
  std::unique_ptr<const Knowledge> inner_;
};

}  // namespace lithify::sym
