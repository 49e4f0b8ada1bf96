// Appends ONNX nodes. Checks an operator against the target opset, infers the facts of its outputs, folds what is
// constant or symbolic, shares equal nodes, and leaves out what does nothing. The named helpers hide what differs
// between opsets (axes as attribute or input, ...), so that a rule is written once.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "onnx/graph.hpp"
#include "sym/given.hpp"

namespace lithify::onnx {

using Attributes = Vector<Attribute>;
using Inputs = Vector<Value*>;

class Builder {
 public:
  /// Appends to a graph, which may have nodes already: their sizes can be used, the nodes themselves are not shared.
  Builder(Graph& graph, sym::Context& sym, int opset);

  sym::Context& sym;
  /// The graph that nodes go to: of the innermost block.
  Graph& graph() { return *stack_.back()->graph; }
  int opset() const { return opset_; }
  /// Refuses what only a later opset has.
  [[noreturn]] void needs_opset(std::string_view what, int since) const;

  /// Where the nodes that follow come from; kept on each node.
  std::string scope;
  uint64_t origin = 0;

  // ---- any operator -----------------------------------------------------------------------------------------
  /// One output. Attributes: op("Celu", {x}, {{"alpha", 0.5f}}); integers must be int64_t, reals float.
  Value* op(std::string_view type, Inputs inputs, Attributes attributes = {});
  /// Several outputs.
  Vector<Value*> op_n(std::string_view type, Inputs inputs, Attributes attributes, size_t outputs);
  /// What must be known of every value.
  struct Fact {
    DType dtype;
    Shape shape;
    Value::Form form = Value::Form::Tensor;
  };
  /// A node of another domain, whose outputs have these facts. It is never folded, shared or rewritten.
  Vector<Value*> foreign(std::string domain, std::string_view type, const Inputs& inputs, Attributes attributes,
                         const Vector<Fact>& outputs);

  /// The same value under a name of its own.
  Value* identity(Value* v);

  // ---- graph inputs and constants ------------------------------------------------------------------------------
  /// Each symbol among the sizes that is not yet bound gets this input's axis as its source.
  Value* input(std::string name, DType dtype, Shape shape, Value::Form form = Value::Form::Tensor);
  /// A weight of the model file, under its name there. The same memory under the same view is the same value.
  Value* weight(const TensorView& view, std::string_view name);
  Value* constant(Tensor tensor, std::string_view name = {});
  Value* constant(TensorView view, std::string_view name = {}) { return constant(Tensor(std::move(view)), name); }
  /// A 0-d constant of any real, integer or bool type; the number is converted to the type.
  Value* scalar(DType dtype, double v);
  Value* scalar_int(DType dtype, int64_t v);
  /// A 1-D int64 constant.
  Value* ints(std::span<const int64_t> v);
  Value* ints(std::initializer_list<int64_t> v) { return ints(std::span(v.begin(), v.size())); }
  /// A 1-D float32 constant.
  Value* floats(std::span<const float> v);
  /// A constant of any real, integer or bool type; the numbers, in row-major order, are converted to it.
  Value* reals(DType dtype, Vector<int64_t> sizes, std::span<const double> v);
  /// A 0-d or 1-D int64 value of sizes.
  Value* symbolic(Dim e);
  Value* symbolic(std::span<const Dim> e);
  /// Any rank; contents in row-major order. dtype is an integer type or bool.
  Value* symbolic(DType dtype, Shape shape, Vector<Dim> contents);
  /// A tensor filled with one number (a 0-d value).
  Value* full(const Shape& shape, Value* scalar);
  /// A new symbol that stands for the number that a one-element integer value has at run time.
  Dim symbol_of(Value* v, std::string_view name, std::optional<int64_t> lower = std::nullopt);
  Dim symbol_of(Value* v, const sym::SymbolInfo& facts);

  // ---- complex numbers ----------------------------------------------------------------------------------------
  // ONNX runtimes have no kernels for them: real values stand for them in the graph. Every helper and operator takes
  // complex values and becomes what it means on real ones; an operator that has no such meaning here is refused.
  Value* complex(Value* real, Value* imag);  ///< imag may be nullptr, for 0
  Value* from_pairs(Value* pairs);           ///< parts along a last axis of 2
  Value* pairs(Value* z);
  Value* real_part(Value* z);  ///< of real numbers, themselves
  Value* imag_part(Value* z);

  // ---- blocks: the bodies of If and Loop ------------------------------------------------------------------------
  /// A branch may never run, so what only it computes stays inside; what a loop's body computes from values around it
  /// alone is computed once, in front of the loop.
  enum class Body { Branch, Loop };
  std::shared_ptr<Graph> new_body(Body kind);
  /// From here to `leave`, nodes go into the body, and can use the values of the graphs around it. What is given where
  /// it runs is known.
  void enter(Graph& body);
  void leave();
  /// Facts that hold wherever the current body runs.
  void give(const sym::Facts& facts);
  /// Makes values the outputs of the current body.
  void body_outputs(std::span<Value* const> values);
  /// A node with bodies. Who joins paths knows more of the outputs than the bodies show.
  Vector<Value*> control(std::string_view type, Inputs inputs, Attributes bodies, const Vector<Fact>& facts);
  /// Makes a one-element integer value the source of a new symbol.
  void bind(Dim symbol, Value* v);
  /// A value of a body that was left, computed here as well; nullptr where that would cost more than a comparison of
  /// numbers, or might fail.
  Value* lifted(Value* v);
  /// Whether a size can be computed here: it has no symbol whose source is inside a body that was left.
  bool computable(Dim e) const;

  // ---- helpers ------------------------------------------------------------------------------------------------
  Value* cast(Value* x, DType to);
  /// The same elements under other sizes, which must have the same product.
  Value* reshape(Value* x, const Shape& to);
  Value* transpose(Value* x, std::span<const int64_t> perm);
  Value* transpose(Value* x, std::initializer_list<int64_t> perm) {
    return transpose(x, std::span(perm.begin(), perm.size()));
  }
  /// Exchanges two dimensions; negative ones count from the end.
  Value* swap_dims(Value* x, int64_t a, int64_t b);
  /// Removes axes of size 1; inserts axes of size 1 (positions in the result). Not negative.
  Value* squeeze(Value* x, Vector<int64_t> axes);
  Value* unsqueeze(Value* x, Vector<int64_t> axes);
  /// Elements start, start+step, ... below end, of one axis. Constants are clamped as in Python (negative ones count
  /// from the end); symbolic ones must already lie in [0, size]. A negative step needs constants or start = size-1.
  Value* slice(Value* x, int64_t axis, Dim start, Dim end, int64_t step = 1);
  /// x with the elements of one axis in reverse order.
  Value* flip(Value* x, int64_t axis);
  /// x without one axis, at a position on it. Negative constants count from the end.
  Value* select(Value* x, int64_t axis, Dim index);
  Value* concat(Inputs parts, int64_t axis);
  Vector<Value*> split(Value* x, std::span<const Dim> lengths, int64_t axis);
  /// x broadcast to sizes.
  Value* expand(Value* x, const Shape& to);
  Value* gather(Value* x, Value* indices, int64_t axis);
  /// ReduceSum, ReduceMean, ReduceMax, ...; no axes means all of them.
  Value* reduce(std::string_view type, Value* x, Vector<int64_t> axes, bool keepdims);
  Value* softmax(std::string_view type, Value* x, int64_t axis);  ///< "Softmax" or "LogSoftmax"
  /// pads: begin and end of each axis. mode: "constant", "reflect", "edge", "wrap" (opset 19).
  Value* pad(Value* x, std::span<const std::pair<Dim, Dim>> pads, std::string_view mode, Value* fill = nullptr);
  Value* where(Value* condition, Value* a, Value* b) { return op("Where", {condition, a, b}); }
  Value* add(Value* a, Value* b) { return op("Add", {a, b}); }
  Value* sub(Value* a, Value* b) { return op("Sub", {a, b}); }
  Value* mul(Value* a, Value* b) { return op("Mul", {a, b}); }
  Value* div(Value* a, Value* b) { return op("Div", {a, b}); }
  Value* matmul(Value* a, Value* b) { return op("MatMul", {a, b}); }
  /// A 1-D int64 value with the sizes of x. Needs no node where they are known.
  Value* shape_of(Value* x) { return symbolic(x->shape); }

  Shape broadcast(const Shape& a, const Shape& b);
  Dim numel(const Shape& shape) { return sym.product(shape); }
  Dim dim(int64_t v) { return sym.constant(v); }

  /// A value as a node can take it: symbolic values become constants or nodes here.
  Value* real(Value* v);

  /// No node that is there now is given back for an equal one: for rewrites, which append in front of it.
  void forget_nodes();

 private:
  struct Source {
    Value* value;  // an input whose axis is the size, or (axis < 0) an integer value of one element
    int64_t axis;
  };
  /// What is known of one graph: everything that can be used again.
  struct Block {
    Graph* graph = nullptr;
    bool movable = false;                                      // see Body
    std::unordered_map<std::string, Node*> shared_nodes = {};  // pure nodes by their text
    std::unordered_map<sym::Expr, Source> sources = {};        // of symbols
    std::unordered_map<sym::Expr, Value*> materialized = {}, scalars = {};
  };

  // Nodes: builder.cpp, simplify.cpp.
  Value* simplified(std::string_view type, Inputs& inputs, Attributes& attributes);
  Vector<Value*> emit(std::string_view type, Inputs inputs, Attributes attributes, size_t outputs, bool may_fold);
  Value* emit_one(std::string_view type, Inputs inputs, Attributes attributes = {});  // never folded
  // An equal node that can be seen from here; empty when there is none.
  Vector<Value*> shared_node(const std::string& key, size_t outputs) const;
  bool never_fails(const Node& n) const;
  Node* append(Block& block, Node node, Vector<Value> facts);
  // A size that only the run of a node shows is read from its output.
  void own_sizes(Value* output);

  // Blocks: block.cpp.
  void adopt(Graph& graph, bool movable);
  Block& place_of(bool movable, const Inputs& inputs);  // that a node with these inputs belongs to
  Block& block_of(const Value* v);
  const Source* source_of(Dim symbol) const;
  bool is_visible(const Value* v) const;

  // Constants: constants.cpp.
  Value* new_constant(std::shared_ptr<const Tensor> tensor, std::string_view name);
  Value* shared_constant(const std::string& key, Tensor tensor, std::string_view name);

  // Sizes as values: sizes.cpp.
  Value* sizes_of(Value* value, int64_t begin, int64_t end);
  struct Run {
    Value* value;
    int64_t axis;
    size_t length;
  };
  Run longest_run(std::span<const Dim> dims) const;
  Value* materialize(Dim e);                      // a one-element 1-D value
  Value* materialize(std::span<const Dim> dims);  // a 1-D value
  bool of_scalars(Dim e) const;
  // One element, as a scalar or a 1-D value. Without `scalar`, it is a scalar too where its source is one.
  Value* arithmetic(Dim e, bool scalar);
  Value* number(int64_t n, bool scalar);
  Value* source_value(Dim symbol);
  Value* sum_of_terms(Dim e, bool scalar);
  Value* operation(Dim e, bool scalar);
  Value* modulo(Dim a, Value* x, Dim b, Value* y, bool scalar);

  // Other sizes for the same elements: reshape.cpp.
  void check_elements(const Shape& from, const Shape& to);
  bool is_quotient(Dim have, const Shape& to);
  // Reports boundaries between dimensions that a reshape keeps in their place at the sample's sizes only.
  void report_boundaries(const Shape& from, const Shape& to);
  Value* before_reshape(Value* x, const Shape& to);
  Value* with_ones(Value* x, const Shape& to);
  Vector<Dim> reshape_target(const Shape& from, const Shape& to, Attributes& attributes);
  // Whether a Reshape from one to the other needs more than one size computed at run time.
  bool needs_arithmetic(const Shape& from, const Shape& to);
  Value* emit_axes(std::string_view type, Value* x, const Vector<int64_t>& axes);

  // Other helpers: helpers.cpp.
  Value* joined_part(Value* x, Dim start, Dim end);
  Vector<Value*> split_by_slices(Value* x, std::span<const Dim> lengths, int64_t axis);

  int opset_;
  std::unordered_map<std::string, Value*> shared_constants_;  // by contents or memory
  std::unordered_map<const Graph*, Block> blocks_;
  Vector<Block*> stack_;                       // the model's graph first
  Vector<std::unique_ptr<sym::Given>> given_;  // of each of the stack
};

}  // namespace lithify::onnx
