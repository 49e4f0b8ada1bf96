// A recording in the form in which it is compared with others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "merge/definitions.hpp"
#include "merge/merge.hpp"
#include "merge/straight.hpp"

namespace lithify::merge {

/// A set of traces: bit t for trace t.
using Set = uint64_t;
inline constexpr size_t max_traces = 64;
constexpr Set set_of(size_t trace) { return Set{1} << trace; }
constexpr bool contains(Set set, size_t trace) { return (set & set_of(trace)) != 0; }
constexpr bool is_subset(Set part, Set of) { return (part & ~of) == 0; }

/// The traces of a set, in order: for (size_t t : Members(set)).
class Members {
 public:
  explicit Members(Set set) : set_(set) {}
  struct Iterator {
    Set left;
    size_t operator*() const { return static_cast<size_t>(__builtin_ctzll(left)); }
    Iterator& operator++() {
      left &= left - 1;
      return *this;
    }
    bool operator!=(const Iterator& o) const { return left != o.left; }
  };
  Iterator begin() const { return {set_}; }
  Iterator end() const { return {0}; }

 private:
  Set set_;
};

struct Trace {
  struct Asked {
    size_t condition = 0;
    bool outcome = false;
    std::optional<ValueRef> value;  ///< nothing where it is a constant of the trace
  };
  size_t recording = 0;  ///< its index among those of the caller
  size_t outputs = 0;
  Straight code;
  std::vector<Asked> asked;
  /// Of each step: what it does, where, apart from which values and literals it takes. Equal steps have equal keys.
  std::vector<uint32_t> keys;
  /// Of each step: the contents of its literals, in order.
  std::vector<std::vector<uint64_t>> literals;
};

/// Gives texts numbers.
class Numbers {
 public:
  uint32_t of(const std::string& text) {
    return known_.try_emplace(text, static_cast<uint32_t>(known_.size())).first->second;
  }

 private:
  std::unordered_map<std::string, uint32_t> known_;
};

/// Reads a recording; `trace` is its number among those of `definitions`.
Trace read(size_t recording, const Recording& r, size_t trace, Definitions& definitions, Numbers& keys);

/// The literals of an operation, in the order of its text.
template <class F>
void for_each_literal(const Node& n, F f) {
  if (n.is_literal()) f(n);
  for (const Node& item : n.items) for_each_literal(item, f);
}
/// The values that an operation takes, in the order of its text.
template <class F>
void for_each_value(const Node& n, F f) {
  if (n.value) f(*n.value);
  for (const Node& item : n.items) for_each_value(item, f);
}

/// What an expression is, apart from which values and literals it takes.
std::string form_of(const Node& n, size_t trace, const Definitions& definitions);
/// The contents of a literal: equal for equal literals of one kind.
uint64_t contents_of(const Node& literal, size_t trace, const Definitions& definitions);

/// The position in `asked` of the first condition that had different outcomes, where all before had the same; empty
/// when the traces part without such a condition.
std::optional<size_t> parting(const Trace& a, const Trace& b);

/// Refuses traces that differ at a step of one of them.
[[noreturn]] void diverge(const Trace& t, size_t trace, size_t step, const Definitions& definitions,
                          const std::string& what);

}  // namespace lithify::merge
