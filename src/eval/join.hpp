// Makes one state of the states at the end of two paths: the branches of an if, or no iteration and one iteration of a
// loop.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "eval/state.hpp"

namespace lithify::eval {

/// Two values for one place: tensors or numbers, or lists of different length; or one is uninitialized, and never read.
struct Difference {
  Value first, second;
  std::string name;   ///< of the place, for messages and for the names of sizes
  std::string place;  ///< the same for the same place in every join of states of the same things
};

class Join {
 public:
  /// All states are of the same things.
  Join(const State& before, const State& first, const State& second);

  /// What must be decided at run time. Everything else is the same on both paths, or cannot be expressed: Undecided.
  const Vector<Difference>& differences() const { return differences_; }

  /// Makes the joined state the present one. `results` has one value for each difference.
  void apply(onnx::Builder& b, Frame& frame, const Vector<Value>& results);

 private:
  State merged();
  Value merge(const Value& a, const Value& b, const std::string& name);
  Value merge_new(const Value& a, const Value& b, const std::string& name);
  List merge_lists(const List& a, const List& b, const std::string& name);
  Dict merge_dicts(const Dict& a, const Dict& b, const std::string& name);
  Vector<Value> merge_items(const Vector<Value>& a, const Vector<Value>& b, const std::string& name);
  Value decide(const Value& a, const Value& b, const std::string& name);
  std::string root_;  // the thing of `before` under which the names are now
  void merge_contents();
  /// A list, dict or object as it is at the end of a path; as uninitialized ones, where the value is.
  template <class Thing>
  Thing at_end(const Value& v, const Value& like, const State& path) const;
  void link(const Vector<Value>& results) const;

  int depth_ = 0;  // of `merge`
  const State &before_, &first_, &second_;
  std::map<const void*, size_t> existed_;  // things of `before`, and where they are there
  Vector<Difference> differences_;
  const Vector<Value>* results_ = nullptr;                       // of the differences, once they are known
  std::map<std::pair<const void*, const void*>, Value> merged_;  // two things that are one afterwards
  std::map<size_t, Value> written_;                              // contents of tensors of `before`, by index
};

}  // namespace lithify::eval
