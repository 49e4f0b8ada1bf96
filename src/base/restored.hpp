// Variables that are something else for a while.
#pragma once

#include <utility>

namespace lithify {

/// Puts a variable back to what it was at the end of the scope, however that ends.
template <class T>
class Restored {
 public:
  explicit Restored(T& variable) : variable_(variable), before_(variable) {}
  /// The variable is `now` until then.
  Restored(T& variable, T now) : variable_(variable), before_(std::exchange(variable, std::move(now))) {}
  ~Restored() { variable_ = std::move(before_); }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  T& variable_;
  T before_;
};

}  // namespace lithify
