// Everything that statements can change, to run them on one path, go back, and run them on another.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "eval/value.hpp"

namespace lithify::eval {

/// The names of one call.
struct Frame : std::enable_shared_from_this<Frame> {
  std::unordered_map<std::string_view, Value> locals;
  std::optional<Value> returned;
  const program::Function* function = nullptr;
};

/// A frame, and the contents of every list, dict, object and tensor that can be reached from it.
class State {
 public:
  explicit State(const Frame& frame);
  /// The same things as they are now. What was made since then is reached only from them, and need not be kept.
  State now(const Frame& frame) const;
  void restore(Frame& frame) const;

  template <class Thing, class Contents>
  struct Saved {
    std::shared_ptr<Thing> thing;
    Contents contents;
  };
  Frame frame;
  Vector<Saved<List, List>> lists;
  Vector<Saved<Dict, Dict>> dicts;
  Vector<Saved<Object, Vector<std::pair<std::string, Value>>>> objects;
  Vector<Saved<Tensor, Tensor::State>> tensors;

 private:
  State() = default;
};

}  // namespace lithify::eval
