// How much work and memory a program may take at export. What is known then is computed then, so a few bytes of a file
// can ask for any amount of either. Each amount is counted before the work is done; no clock decides.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lithify {

enum class Limit : uint8_t {
  Statements,  ///< of the program that are run, those of loops each time
  Nodes,       ///< of the graph
  Elements,    ///< of lists and tuples that are made
  Text,        ///< bytes of strings that are made
  Bytes,       ///< of tensors that are computed
};
constexpr size_t limit_count = 5;

class Budget {
 public:
  Budget() { allow(0, 1); }
  /// What a program of so many statements may take: `times` the default.
  void allow(size_t statements, int64_t times);
  /// Throws LimitExceeded where this is more than is left.
  void spend(Limit limit, uint64_t amount) {
    uint64_t& left = left_[static_cast<size_t>(limit)];
    if (amount > left) exceeded(limit);
    left -= amount;
  }
  /// Nothing is spent yet: another evaluation begins.
  void restart() { left_ = most_; }

 private:
  [[noreturn]] void exceeded(Limit limit) const;
  std::array<uint64_t, limit_count> most_ = {}, left_ = {};
};

}  // namespace lithify
