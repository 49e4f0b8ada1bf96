// The ONNX graph in memory: values with facts, nodes, and constants that are views of the model file.
#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/quantized.hpp"
#include "base/tensor.hpp"
#include "base/vector.hpp"
#include "sym/expr.hpp"

namespace lithify::onnx {

using Dim = sym::Expr;
using Shape = Vector<Dim>;

/// A number of dimensions. Less than none is an error of the program: nothing is counted from there.
class Rank {
 public:
  Rank(size_t n) : n_(n) {}
  operator size_t() const { return n_; }
  template <std::integral N>
  friend size_t operator-(Rank a, N b) {
    return less(a.n_, static_cast<size_t>(b));
  }
  friend size_t operator-(size_t a, Rank b) { return less(a, b.n_); }
  friend size_t operator-(Rank a, Rank b) { return less(a.n_, b.n_); }
  friend size_t format_as(Rank rank) { return rank.n_; }  // of fmt

 private:
  static size_t less(size_t a, size_t b) {
    check_bounds(b <= a);
    return a - b;
  }
  size_t n_;
};

struct Node;
class Graph;

/// Constant contents: pieces whose elements, each in row-major order, follow one another. Weights are never copied;
/// reordering gates or joining two directions of an LSTM makes other pieces of the same mapped bytes. Pieces have the
/// type of the tensor; or they have float32, and are rounded to the tensor's float16 or bfloat16 as they are written.
struct Tensor {
  struct Piece {
    TensorView view;
    /// If set, row i (index of the view's first dimension) is multiplied by (*scale)[i] as it is written.
    std::shared_ptr<const Vector<float>> scale;
    /// If set, a part of the quantized view is written in place of it. The tensor has no other piece.
    std::optional<Quantized> quantized = {};

    /// Of what is written, before it is rounded.
    DType dtype() const;
  };
  DType dtype = DType::Undefined;
  Vector<int64_t> sizes;
  Vector<Piece> pieces;

  explicit Tensor(TensorView view);
  Tensor(DType dtype, Vector<int64_t> sizes, Vector<Piece> pieces);

  int64_t numel() const;
  size_t nbytes() const;
  /// The view, when there is one piece and it is written as it is; nullptr otherwise.
  const TensorView* view() const;
  /// All elements in row-major order: of integer and bool tensors, of integer, bool and floating ones. For small
  /// tensors only.
  Vector<int64_t> integers() const;
  Vector<double> reals() const;
};

/// One value of the graph and everything that is known about it.
struct Value {
  enum class Kind {
    Input,
    Constant,  ///< an initializer; `constant` is set
    Output,    ///< of a node
    Symbolic,  ///< an integer tensor whose elements are known expressions; becomes nodes only when a node needs it
    Complex,   ///< complex numbers, for which other values stand in the graph: `parts`
  };
  Kind kind = Kind::Output;
  std::string name;
  DType dtype = DType::Undefined;
  Shape shape;
  /// A sequence has tensors of this type and number of dimensions; a size in which they may differ is empty. An
  /// optional has one tensor of this type, or none.
  enum class Form { Tensor, Sequence, Optional };
  Form form = Form::Tensor;
  const Graph* graph = nullptr;  ///< that it belongs to
  Node* producer = nullptr;
  size_t output_index = 0;
  std::shared_ptr<const Tensor> constant;
  /// The elements of a small integer or bool tensor as expressions, where they are known (of constants too).
  std::optional<Vector<Dim>> contents;
  /// Of complex numbers: both parts along a last axis of 2, or else each by itself (no imaginary part means 0).
  struct Parts {
    Value* pairs = nullptr;
    Value* real = nullptr;
    Value* imag = nullptr;
  } parts = {};

  Rank rank() const { return shape.size(); }
  bool is_constant() const { return constant != nullptr; }
  bool is_sequence() const { return form == Form::Sequence; }
};

struct Attribute {
  /// A Value stands for its type alone.
  using Data = std::variant<int64_t, float, std::string, Vector<int64_t>, Vector<float>, Vector<std::string>,
                            std::shared_ptr<const Tensor>, std::shared_ptr<Graph>, std::shared_ptr<const Value>>;
  std::string name;
  Data data;
};

struct Node {
  std::string op_type;
  std::string domain;  ///< empty is the standard domain
  std::string name;
  Vector<Value*> inputs;  ///< nullptr: an optional input left out
  Vector<Value*> outputs;
  Vector<Attribute> attributes;
  std::string scope;    ///< module path, "encoder.layer.0"
  uint64_t origin = 0;  ///< the statement it comes from, in the evaluator's numbering

  const Attribute* attribute(std::string_view name) const;
  /// The data of an attribute, nullptr when it is not there or of another type.
  template <class T>
  const T* attribute_as(std::string_view name) const {
    const Attribute* a = attribute(name);
    return a ? std::get_if<T>(&a->data) : nullptr;
  }
  int64_t int_attribute(std::string_view name, int64_t otherwise) const;
  /// The graphs inside: branches of an If, the body of a Loop.
  Vector<Graph*> bodies() const;
  bool is(std::string_view standard_op) const { return op_type == standard_op && domain.empty(); }
};

/// The node that makes a value (which may be nullptr), if it is this operator of the standard domain; else nullptr.
Node* made_by(const Value* v, std::string_view op_type);

/// Owns values and nodes; nodes are in an order in which each comes after its inputs. The body of a node may use every
/// value that comes before the node.
class Graph {
 public:
  explicit Graph(Graph* parent = nullptr) : parent_(parent) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Value* new_value();
  /// A node that is not yet in `nodes`.
  Node* new_node();

  Graph* parent() const { return parent_; }
  Vector<Value*> inputs;
  Vector<Value*> outputs;
  Vector<Node*> nodes;
  /// What is known of sizes wherever this runs: the outcome of a condition on sizes.
  sym::Facts given;

  /// The nodes of this graph and of the bodies inside, each after its inputs: a body before the node that has it.
  Vector<Node*> all_nodes() const;
  /// This graph and the bodies inside.
  Vector<Graph*> all_graphs();
  /// The constants that the nodes and outputs use, those of bodies too, in order of first use.
  Vector<Value*> initializers() const;

 private:
  Graph* parent_;
  std::deque<Value> value_pool_;
  std::deque<Node> node_pool_;
};

/// A whole model, ready to be written.
struct Model {
  std::unique_ptr<Graph> graph;
  int opset = 0;
  std::map<std::string, int> domains;  ///< further operator domains and their versions
  std::string graph_name = "main_graph";
  std::string producer_name = "lithify";
  std::string producer_version;
  Vector<std::pair<std::string, std::string>> metadata;

  /// The oldest IR version that has the opset.
  int ir_version() const;
};

/// "float32[batch, 10]", "sequence of float32[?, 10]".
std::string print_type(const Value& value);
std::string print_shape(const Shape& shape);

}  // namespace lithify::onnx
