// Everything that statements can change, to run them on one path, go back, and run them on another.
#pragma once

#include <memory>
#include <optional>
#include <set>
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
  bool captured = false;  ///< by a closure, whose body may use all of the names
};

/// The names that a statement uses, and those inside of it.
using Names = std::set<std::string_view>;
Names names_in(const program::Stmt& s);

/// What a statement can change that uses some names: the values of these, and the contents of every list, dict, object
/// and tensor that can be reached from them. Of a frame that is captured, all names count. `names` must be there for as
/// long as this is.
class State {
 public:
  State(const Frame& frame, const Names& names);
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
  explicit State(const Names* names) : names_(names) {}
  void keep(const Frame& frame);

  const Names* names_;  // nullptr: all
};

}  // namespace lithify::eval
