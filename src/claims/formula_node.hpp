// The tree behind a Formula. Internal to claims.
#pragma once

#include <span>

#include "claims/formula.hpp"

namespace lithify::claims {

using NodePtr = std::shared_ptr<const Formula::Node>;

/// What a node is, from the loosest to the tightest binding.
enum class Kind : uint8_t {
  Or,        ///< operands
  And,       ///< operands
  Not,       ///< one operand
  Compare,   ///< two operands and the operator between them
  Sum,       ///< operands and the operators between them, + and -
  Product,   ///< operands and the operators between them, * / // and %
  Negative,  ///< one operand
  Power,     ///< base and exponent
  Call,      ///< text is the function
  Name,      ///< text
  Integer,   ///< integer; never negative
  Large,     ///< text: the digits of an integer that does not fit into 64 bits
  Real,      ///< real; never negative
  Bool,      ///< integer is 0 or 1
};

enum class Operator : uint8_t {
  Add,
  Subtract,
  Multiply,
  Divide,
  FloorDivide,
  Modulo,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  Equal,
  NotEqual,
};

struct Formula::Node {
  Kind kind = Kind::Integer;
  int64_t integer = 0;
  double real = 0;
  std::string text = {};
  std::vector<Operator> operators = {};
  std::vector<NodePtr> operands = {};
  size_t size = 1;   ///< nodes, when it is written out
  size_t depth = 1;  ///< how deep operands nest
};

/// The node with its size and depth computed. A sum that begins with a sum is one sum, and likewise a product. Throws
/// LimitExceeded.
NodePtr finished(Formula::Node node);

constexpr size_t max_depth = 400;
[[noreturn]] void formula_too_large();

/// A function of the language: how many arguments it takes, and its value.
struct Function {
  std::string_view name;
  size_t least, most;
  std::optional<Value> (*apply)(std::span<const Value> arguments);
};
/// nullptr when there is no such function.
const Function* find_function(std::string_view name);

bool is_keyword(std::string_view word);
/// Whether a byte may stand in a name without backquotes. Bytes of UTF-8 may.
bool is_name_byte(char c, bool first);

}  // namespace lithify::claims
