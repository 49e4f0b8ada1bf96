// Symbolic integers: the sizes of tensors, and everything that is computed from them.
//
// Expressions are canonical and hash-consed: two expressions that simplify to the same form are the same pointer, so
// equality is a pointer comparison. The canonical form is a polynomial with integer coefficients over atoms; an atom
// is a symbol or an application of floor division, modulo, minimum, maximum or broadcast to expressions. Not every
// identity is found by the form: Context::equal knows more, and is the question to ask when pointers differ.
//
// Every operation throws LimitExceeded when a constant does not fit into 64 bits or a formula becomes too large, and
// ShapeMismatch for a division by the constant 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/budget.hpp"

namespace lithify::sym {

struct Node;      // the interned form; owned by a Context
class Knowledge;  // of facts that are given for a while; see given.hpp

/// A number, if it is known at export. Taking one that is not throws UnsupportedArgument.
class Known : public std::optional<int64_t> {
 public:
  using std::optional<int64_t>::optional;
  int64_t operator*() const {
    if (!has_value()) [[unlikely]]
      unknown();
    return std::optional<int64_t>::operator*();
  }
  int64_t value() const { return **this; }

 private:
  [[noreturn]] static void unknown();
};

/// A symbolic integer: a cheap handle. Valid as long as the Context that made it.
class Expr {
 public:
  Expr() = default;
  explicit Expr(const Node* node) : node_(node) {}
  const Node* node() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const Expr& o) const { return node_ == o.node_; }

  bool is_constant() const;
  /// The value if it is a constant.
  Known constant() const;
  bool is(int64_t v) const { return constant() == v; }
  bool is_symbol() const;
  /// What is known for every value that the symbols may take.
  Known lower() const;
  Known upper() const;
  /// A readable formula: "batch", "2*seq + 1", "floor((height - 1)/2) + 1", "max(1, n)".
  std::string str() const;

 private:
  const Node* node_ = nullptr;
};

/// The symbol's own facts. Sizes are at least 1 unless stated otherwise.
struct SymbolInfo {
  std::string name = {};
  std::optional<int64_t> lower = 1;
  std::optional<int64_t> upper = std::nullopt;
  std::optional<int64_t> sample = std::nullopt;  ///< the size in the captured sample, if known
  int64_t divisor = 1;                           ///< every value is a multiple of this
  Expr below = {};  ///< every value is less than this, if it is known: of the iterations of a loop
};

/// What is known of two sizes for a while: see given.hpp.
struct Fact {
  enum class Kind : uint8_t { Equal, NotEqual, AtMost, Less };
  Kind kind = Kind::Equal;
  Expr a, b;  ///< a == b, a != b, a <= b, a < b
  bool operator==(const Fact&) const = default;
};
using Facts = std::vector<Fact>;

/// What an export assumes of sizes because it cannot be decided: a == b, a % b == 0, or a <= b.
struct Assumption {
  enum class Kind : uint8_t { Equal, Multiple, AtMost };
  Kind kind = Kind::Equal;
  Expr a, b;
  Facts given = {};  ///< it is assumed only where all of these hold
  bool operator==(const Assumption&) const = default;
  /// "height % 2 == 0"; where facts are given, "seq <= 16 or seq % 2 == 0".
  std::string str() const;
};

/// Hears of decisions about sizes that hold at the sample's sizes, and are not known to hold at all others.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void assumed(const Assumption& assumption) = 0;
  /// An operator does one thing where this holds, as it does in the sample, and another elsewhere: a pad adds elements,
  /// or removes some. A trace may lack the branch that the model takes there.
  virtual void took_side(const Assumption& side) = 0;
  /// A 1 is broadcast to a size that is 1 in the sample: at other sizes, the 1 may have to be that size as well.
  virtual void broadcast_one(Expr size) = 0;
  /// A reshape keeps a boundary between dimensions in its place at the sample's sizes only. Of the elements in front of
  /// the boundary, and then of those behind it: how many there are in the old and in the new shape.
  virtual void moved_boundary(Expr before, Expr after) = 0;
};

/// Makes and owns expressions. Not thread safe, and neither are the functions on its expressions; one per export.
class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Expr constant(int64_t v);
  /// A new symbol, distinct from every other even if the name is the same (the name is then made unique). Throws
  /// ShapeMismatch when its facts leave no value.
  Expr symbol(const SymbolInfo& info);
  const SymbolInfo& info(Expr symbol) const;

  Expr add(Expr a, Expr b);
  Expr sub(Expr a, Expr b);
  Expr neg(Expr a);
  Expr mul(Expr a, Expr b);
  /// Python's // and %: rounding toward minus infinity. Exact polynomial divisions cancel: (6*b*s)/(2*b) is 3*s.
  Expr floor_div(Expr a, Expr b);
  Expr mod(Expr a, Expr b);
  Expr ceil_div(Expr a, Expr b);
  Expr min(Expr a, Expr b);
  Expr max(Expr a, Expr b);
  /// The size that a and b broadcast to; each is 1 or they are equal. Empty when they provably never can.
  /// A symbol against a constant other than 1 is empty as well, since it would hold for two sizes only; and so are two
  /// that are never equal, such as n and n + 1. One that is never 1 is the result itself.
  std::optional<Expr> broadcast(Expr a, Expr b);
  Expr product(std::span<const Expr> factors);

  /// a / b when b divides a exactly for every value of the symbols; empty otherwise.
  std::optional<Expr> divide_exactly(Expr a, Expr b);

  // Comparisons: true or false when that holds for every value of the symbols, empty when it depends on them.
  std::optional<bool> equal(Expr a, Expr b);
  std::optional<bool> less(Expr a, Expr b);
  std::optional<bool> less_equal(Expr a, Expr b);

  /// The value when every symbol has the given value; empty when a symbol's value is not known or not a multiple of its
  /// divisor, when a divisor is 0, and when sizes do not broadcast. The values are within the symbols' facts.
  std::optional<int64_t> evaluate(Expr e, const std::function<std::optional<int64_t>(Expr symbol)>& value_of) const;
  /// Evaluation at the symbols' sample sizes.
  std::optional<int64_t> sample(Expr e) const;
  /// The expression with an atom replaced (a symbol, a quotient, a minimum), by what is within the atom's facts. Throws
  /// ShapeMismatch when sizes no longer broadcast.
  Expr substitute(Expr e, Expr atom, Expr by);
  /// An expression of any context rebuilt in this one, with `replace` of each symbol in its place.
  Expr rebuild(Expr e, const std::function<Expr(Expr symbol)>& replace);

  /// Whether an expression has a symbol that is below another expression.
  bool has_iterations(Expr e) const;

  /// Symbols that are asked for from here on are those that were given out before, in the same order and with the same
  /// facts, as far as there are any: expressions of one evaluation of a program can be compared with those of the next.
  void restart();

  /// The expression by what is known of its symbols: see Knowledge::known.
  Expr known(Expr e) const;
  /// Reports what has to be assumed, unless it holds where the facts do that are given.
  void assume(Assumption a);
  Observer* observer = nullptr;          ///< may be nullptr
  Budget budget;                         ///< of the evaluation that asks for expressions
  const Knowledge* knowledge = nullptr;  ///< what decisions may rely on; may be nullptr

  /// Whether something holds for every value of the symbols for which the given facts do.
  bool holds(const Assumption& a);
  /// The largest number that is known to divide an expression at all of them.
  int64_t divisor(Expr e);

 private:
  Expr rebuild_atoms(Expr e, const std::function<std::optional<Expr>(Expr atom)>& replace);
  bool never_negative(Expr e, int depth = 4);

  bool any_iterations_ = false;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Has the observer of a context be another one for as long as it lives.
class Observed {
 public:
  Observed(Context& sym, Observer* observer) : sym_(sym), outer_(std::exchange(sym.observer, observer)) {}
  ~Observed() { sym_.observer = outer_; }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;

 private:
  Context& sym_;
  Observer* outer_;
};

// ---- for those who turn an expression into something else (the ONNX builder) ----

enum class Kind : uint8_t { Constant, Symbol, Polynomial, FloorDiv, Mod, Min, Max, Broadcast };

/// coefficient * product of atoms; an atom repeats for powers. Atoms are never constants or polynomials.
struct Term {
  int64_t coefficient = 0;
  std::vector<Expr> atoms;
};

Kind kind(Expr e);
/// The terms of a polynomial, in canonical order; the constant term, if any, last and without atoms. Also works for
/// constants and atoms (one term).
std::vector<Term> terms(Expr e);
/// The two operands of FloorDiv, Mod, Min, Max, Broadcast.
std::pair<Expr, Expr> operands(Expr e);
/// The symbols of an expression, each once, in the order in which they stand.
std::vector<Expr> symbols(Expr e);
/// The facts of a symbol of any context.
const SymbolInfo& info(Expr symbol);

}  // namespace lithify::sym

template <>
struct std::hash<lithify::sym::Expr> {
  size_t operator()(const lithify::sym::Expr& e) const noexcept { return std::hash<const void*>()(e.node()); }
};
