// Values that contain themselves.
#pragma once

#include <memory>
#include <variant>

#include "eval/value.hpp"

namespace lithify::eval {

/// The lists, dicts and objects that others were put into after they were made: only they can come to contain
/// themselves. They are emptied in the end, so that all of them are freed.
class Cycles {
 public:
  Cycles() = default;
  Cycles(Cycles&&) = default;
  Cycles& operator=(Cycles&&) = default;
  ~Cycles();

  /// To be called where `value` may be put into `container`.
  void watch(const Value& container, const Value& value);

 private:
  using Watched = std::variant<std::weak_ptr<List>, std::weak_ptr<Dict>, std::weak_ptr<Object>>;
  Vector<Watched> watched_;
};

}  // namespace lithify::eval
