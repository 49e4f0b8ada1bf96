// What a number is to the operator that takes it. A rule declares it next to its schema.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lithify::provenance {

enum class Role : uint8_t {
  Operand,   ///< of arithmetic
  Divisor,   ///< a division by 1 is never intended
  Position,  ///< an index or a bound, which may be one off a size
  Size,      ///< of a dimension along which elements differ
  Fill,      ///< the size of a dimension along which all elements are the same
};

/// The role of a number argument, or of the numbers in a list argument.
struct NumberArgument {
  std::string_view name;
  Role role = Role::Operand;
  std::string_view along = {};  ///< the argument with the dimension of the first argument that it refers to
  int64_t least = 0;            ///< smaller numbers are not worth a look
};
using NumberArguments = std::vector<NumberArgument>;

}  // namespace lithify::provenance
