// Formulas of sizes as text: "height % 32 == 0", "floor((seq - 1)/2) + 1", "int(seq*0.75) > 5".
//
// The language is a part of Python's: integers, floats, True and False, names, unary -, + - * / // % **, comparisons of
// two operands, not, and, or, parentheses, and calls of min, max, abs, floor, ceil, round, trunc, int, float, sqrt,
// log, log2, log10, exp, sin, cos, gcd and str. It has every formula that sym::Expr and sym::Assumption print, so also
// broadcast(a, b): the size that a and b broadcast to. A name that is not an identifier stands in backquotes, as
// `past + 1`, where a backquote of the name is doubled.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lithify::claims {

/// A number or truth value of Python. An integer has 64 bits.
using Value = std::variant<int64_t, double, bool>;

/// The truth of a value: a number is true unless it is 0.
bool truth(const Value& value);

/// A formula; never empty, and cheap to copy.
class Formula {
 public:
  /// Throws BadCode for what is not a formula, and LimitExceeded for one that is too long or nests too deep.
  static Formula parse(std::string_view text);

  /// The canonical text, which parses to the same formula.
  std::string str() const;
  /// The names in it, each once, in the order in which they stand.
  std::vector<std::string> names() const;
  /// The formula with others in the place of names; names that the map does not have stay. Throws LimitExceeded.
  Formula substitute(const std::map<std::string, Formula>& by) const;
  /// A formula that is true where this one is false. Comparisons are reversed: "a < b" gives "a >= b".
  Formula negated() const;

  using ValueOf = std::function<std::optional<int64_t>(std::string_view name)>;
  /// The value, with the semantics of Python. Integers stay integers, and floor and ceil of a quotient of two integers
  /// are exact. Nothing where a name has no value, where Python raises (a division by 0, the logarithm of 0), where an
  /// integer does not fit into 64 bits, and for `str`.
  std::optional<Value> evaluate(const ValueOf& value_of) const;

  struct Node;
  const Node& node() const { return *node_; }

 private:
  explicit Formula(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
};

/// Whether no sizes meet all of the conditions, as far as comparisons of the same expression with integers show it.
bool contradict(std::span<const Formula> conditions);

/// The formula that is true where one of some is; "n == 1 or n > 1" is n >= 1. Throws LimitExceeded.
Formula any_of(std::vector<Formula> formulas);

/// A name as it is written in a formula: in backquotes unless it is an identifier.
std::string name_text(std::string_view name);

}  // namespace lithify::claims
