// Tensors, numbers and lists on their way into and out of the bodies of If and Loop: there they are values of the
// graph.
#pragma once

#include <optional>
#include <string>

#include "eval/join.hpp"

namespace lithify::eval {

/// Nodes go into a body as long as this lives.
class Inside {
 public:
  Inside(onnx::Builder& b, onnx::Graph& body) : builder_(b) { b.enter(body); }
  ~Inside() { builder_.leave(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  onnx::Builder& builder_;
};

/// Whether a condition is known only at run time; and such a condition in the graph.
bool decided_at_run_time(onnx::Builder& b, const Value& condition);
onnx::Value* as_condition(onnx::Builder& b, const Value& condition);

/// The value of the graph that a tensor, number or list is now. The elements of a list are the rows of one tensor where
/// they have one shape, and else a sequence. nullptr for what has no contents: an uninitialized value, an empty list.
onnx::Value* carried(onnx::Builder& b, const Value& v);

/// The same of a list that is read. Throws UnsupportedControlFlow where its elements are not known.
onnx::Value* readable_elements(onnx::Builder& b, const Value& list);

/// A value that may be None, as an optional of the graph. Throws UnsupportedControlFlow for what is not a tensor or
/// number.
onnx::Value* as_optional(onnx::Builder& b, const Maybe& maybe);

/// What `carried` gives is of this kind, for both values: as a value of the program again.
Value uncarried(onnx::Builder& b, onnx::Value* v, const Difference& kind);

/// The type that both sides of a difference have in the graph. Throws UnsupportedControlFlow where they have none.
DType common_type(const Difference& d, const onnx::Value* first, const onnx::Value* second);

/// Stands for a value that is never read, or for an empty list: zeros of a type and as much of a shape as is known
/// here; no elements, where the other is a sequence.
onnx::Value* placeholder(onnx::Builder& b, const Difference& d, const onnx::Value* like);

/// A name for a symbol, after a name of the program; names that a compiler made up are not used.
std::string symbol_name(const std::string& name);

/// Two paths that are joined.
struct Paths {
  onnx::Graph* bodies[2];         ///< the condition holds, and does not
  std::optional<size_t> sampled;  ///< which of them a run at the sample's sizes takes
};

/// A number of both paths, where there is one: on its path, the condition makes one of them equal to the other.
std::optional<onnx::Dim> same_on_both(onnx::Builder& b, onnx::Dim first, onnx::Dim second, const Paths& paths);
/// A symbol for a number that is one of two, each on its path. `chosen` is the value that it has at run time.
onnx::Dim common_number(onnx::Builder& b, const std::string& name, onnx::Dim first, onnx::Dim second,
                        onnx::Value* chosen, const Paths& paths);
/// A fact that holds for both: a size that differs, or that is known inside a body alone, is a new symbol.
onnx::Builder::Fact common_fact(onnx::Builder& b, const std::string& name, const onnx::Value* first,
                                const onnx::Value* second, const Paths& paths);

}  // namespace lithify::eval
