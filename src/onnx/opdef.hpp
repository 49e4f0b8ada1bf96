// What is known of each ONNX operator: the opsets that have it, and the rule that gives the facts of its outputs.
#pragma once

#include <span>
#include <string_view>

#include "base/diagnostic.hpp"
#include "onnx/graph.hpp"

namespace lithify::onnx {

/// The node under inference, as an operator's rule sees it. Inputs have facts; outputs get theirs by `set`.
class Inference {
 public:
  Inference(sym::Context& sym, int opset, Node& node) : sym(sym), opset(opset), node(node) {}

  sym::Context& sym;
  const int opset;
  Node& node;

  size_t inputs() const { return node.inputs.size(); }
  bool has(size_t i) const { return i < node.inputs.size() && node.inputs[i] != nullptr; }
  const Value& in(size_t i) const {
    check_bounds(has(i));
    return *node.inputs[i];
  }
  void set(size_t output, DType dtype, Shape shape);

  int64_t integer(std::string_view attribute, int64_t otherwise) const;
  std::string text(std::string_view attribute, const std::string& otherwise) const;
  /// Empty when the attribute is not there.
  Vector<int64_t> integers(std::string_view attribute) const;
  /// Axes that are an attribute in older opsets and an input (number `input`) in newer ones, made non-negative for
  /// `rank`; empty optional when neither is given.
  std::optional<Vector<int64_t>> axes(size_t input, size_t rank, std::string_view attribute = "axes") const;
  int64_t axis(int64_t otherwise, size_t rank, std::string_view attribute = "axis") const;
  /// The contents of an integer input as expressions. Throws Internal when they are not known.
  Vector<Dim> contents(size_t input) const;
  /// A size nobody knows at export: a new symbol with a readable name.
  Dim fresh(std::string_view name, int64_t lower = 0);
  /// Sizes that the shapes broadcast to. Throws ShapeMismatch, or HardCodedSize where a dynamic dimension meets a
  /// number.
  Shape broadcast(std::initializer_list<const Shape*> shapes) const;
  [[noreturn]] void fail(const std::string& message) const;
};

struct OpDef {
  std::string_view name;
  int since;  ///< first opset that has the operator
  void (*infer)(Inference&);
  bool pure = true;  ///< equal nodes give equal values
};

/// The operator of the standard domain, or nullptr if there is none of that name.
const OpDef* find_op(std::string_view name);

/// The first opset that has an element type.
int first_opset(DType t);

/// Sizes that a and b broadcast to. Throws ShapeMismatch, or HardCodedSize where a dynamic dimension meets a number.
Shape broadcast_shapes(sym::Context& sym, const Shape& a, const Shape& b);

/// Whether two sizes are equal when every dimension is a multiple of its sample size, each by another factor. A size
/// that the program computes agrees there even where the model only runs for multiples of some number; one that
/// tracing hard-coded does not.
bool equal_beyond_sample(sym::Context& sym, Dim a, Dim b);

/// Whether a size depends on the data at run time: no sample has it, and it may be 0. What is broadcast does when each
/// of its parts does.
bool depends_on_data(sym::Context& sym, Dim size);

/// Whether two sizes that must agree may be taken to do so: they are equal, or the program computes both and they are
/// equal at sizes other than the sample's too, or one is known only at run time. What is not proven is recorded as an
/// assumption.
bool sizes_agree(sym::Context& sym, Dim a, Dim b);

}  // namespace lithify::onnx
