// Runs a Program at export time. What is known is computed; what works on the contents of tensors becomes ONNX nodes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "eval/formula.hpp"
#include "eval/registry.hpp"
#include "eval/state.hpp"
#include "eval/value.hpp"
#include "program/program.hpp"

namespace lithify::eval {

/// How often an operator was met, and what is wrong with it, if anything.
struct OperatorUse {
  int count = 0;
  int since = 0;  ///< lowest opset of the rules that were used
  bool supported = true;
};

/// The longest string that a program may make at export.
constexpr size_t max_text = 1 << 16;

/// Where sizes meet that are not known to agree.
struct SizeIssue {
  enum class Kind {
    Contradiction,  ///< with a dynamic dimension
    Doubt,          ///< a number stands where a dimension was that had this size in the sample
    Broadcast,      ///< a number may be why a 1 is broadcast to a dimension of size 1 in the sample
  };
  Kind kind = Kind::Contradiction;
  sym::Expr a, b;     ///< the two sizes
  std::string text;   ///< what the two sizes do
  Origin origin = 0;  ///< of the operator's arguments
  int64_t step = 0;   ///< operators that were applied before
  size_t at = 0;      ///< sizes of this operator that agree before
  program::Pos pos;
};

/// A number of the program that goes where no size meets it: into values, or into the size of a new tensor.
struct NumberUse {
  Literal literal;
  int64_t number = 0;
  enum class As {
    Operand,   ///< of arithmetic
    Divisor,   ///< nobody means to divide by 1
    Position,  ///< an index or a bound, which may be one off a size
    Size,      ///< of a dimension along which elements differ
    Fill,      ///< the size of a dimension along which all elements are the same
  };
  As as = As::Operand;
  sym::Expr size = {};  ///< of the dimension that a position is in, or that a 1 is broadcast to
  program::Pos pos;
};

/// Something of the model that forward leaves other than it found it: the next run would find that.
struct Change {
  std::string name;              ///< in the state dict
  onnx::Value* after = nullptr;  ///< a tensor or number at the end; nullptr for all that cannot be an output
  Place place;                   ///< of a statement that changes it
  bool grows = false;            ///< a list that is longer at the end
};

/// A position in the program as a node keeps it (onnx::Node::origin), and back.
inline uint64_t as_node_origin(program::Pos pos) {
  return static_cast<uint64_t>(static_cast<uint32_t>(pos.file)) << 32 | pos.offset;
}
inline program::Pos pos_of(const onnx::Node& node) {
  return {static_cast<int32_t>(node.origin >> 32), static_cast<uint32_t>(node.origin)};
}

class Evaluator {
 public:
  Evaluator(const program::Program& program, const Registry& rules, onnx::Builder& builder);

  /// The model's forward on these inputs (without self), hooks of the root included. What cannot be exported is
  /// collected in `diagnostics`, and evaluation goes on as far as it can.
  Value run(std::vector<Value> inputs);

  /// What the last run changed of the model, in the order of the model's attributes.
  std::vector<Change> changes();

  /// An operator by name ("aten::add" or "aten::add.Tensor").
  Value apply(std::string_view name, std::vector<Value> positional,
              std::vector<std::pair<std::string, Value>> keywords = {});

  /// Decides which old meaning an operator has.
  int64_t file_version() const { return program_.file_version; }
  const program::Program& program() const { return program_; }

  /// Loops of at most this many turns, where their number is known, become as many copies of their bodies.
  int64_t most_unrolled = 128;
  /// Numbers of the program that stand for something else, since tracing hard-coded sizes in.
  std::map<Literal, sym::Expr> repairs;
  /// Evaluation ends at the first problem.
  bool stop_early = false;

  /// Into how many names the result of the operator that is being called is unpacked; 0 where that is not said.
  size_t unpacked = 0;
  /// Tensors and numbers of the model, by their names in the state dict, that are inputs of the graph.
  std::set<std::string> state_inputs;

  std::vector<Diagnostic> diagnostics;
  std::vector<SizeIssue> issues;  ///< in the order in which they were met
  std::vector<NumberUse> uses;
  Origins origins;
  std::map<std::string, OperatorUse> operators;
  SymbolTable symbols;      ///< what the symbols of recorded formulas stand for
  bool self_check = false;  ///< every value that is assigned is compared with what the file records of it

 private:
  struct Path;     // one way through an if
  struct Stop {};  // thrown when evaluation cannot go on; the reason is in `diagnostics`

  Value call_function(const program::Function& f, std::vector<Value> arguments,
                      std::vector<std::pair<std::string, Value>> keywords = {});
  Value call_method(const Value& self, const program::Expr& call, Frame& frame);
  Value call_named(const program::Expr& call, Frame& frame);
  Value call_operator(const program::Expr& call, Frame& frame);
  Value call_closure(const Function& f);
  Value apply_to_open(std::string_view name, const std::vector<Value>& positional,
                      const std::vector<std::pair<std::string, Value>>& keywords);
  Value run_on_quantized(const Rule& rule, std::vector<Value> arguments);
  void execute(const std::vector<program::Stmt>& body, Frame& frame);
  void execute(const program::Stmt& s, Frame& frame);
  void assign(const program::Stmt& s, Frame& frame);
  void compare_with_records(const program::Stmt& s, const Frame& frame);
  void with_autocast(const program::Stmt& s, Frame& frame);
  void cast_operands(const program::Expr& call, std::vector<Value>& positional,
                     std::vector<std::pair<std::string, Value>>& keywords);
  void branch(const program::Stmt& s, const Value& choice, Frame& frame);
  void loop(const program::Stmt& s, Frame& frame);
  bool unroll(const program::Stmt& s, const std::optional<int64_t>& count, Frame& frame, int64_t most);
  class Repetition;  // a loop that becomes a Loop
  Path follow(const std::vector<program::Stmt>& statements, const State& before, Frame& frame);
  Value evaluate(const program::Expr& e, Frame& frame);
  Value evaluate_annotation(const program::Type& type, Value v);
  Value subscript(const Value& container, const Value& index);
  Value attribute(const Value& object, const std::string& name);
  Value number(const program::Expr& e);
  Value real_number(const program::Expr& e);
  Value constant(int64_t index);
  Value constant(const program::Expr& e);
  bool condition(const Value& v);
  onnx::Value* counted(const Progression& p, sym::Expr length, DType dtype, onnx::Shape shape);
  bool is_instance(const Value& v, const program::Type& type);
  void arguments(const program::Expr& call, size_t from, Frame& frame, std::vector<Value>& positional,
                 std::vector<std::pair<std::string, Value>>& keywords);

  Value from_data(const program::Data& data);
  std::shared_ptr<Object> from_object(const std::shared_ptr<program::Object>& object);
  void name_weights(const program::Data& data, const std::string& path, std::set<const void*>& seen);

  Origin origin_of(const std::vector<Value>& positional, const std::vector<std::pair<std::string, Value>>& keywords);
  sym::Expr indexed_size(const std::vector<Value>& positional);
  void note_uses(const program::Expr& call, const std::vector<Value>& positional);
  void note_doubts(size_t from, Origin sizes);
  void note_stretched(const std::vector<Value>& operands, const Value& result);
  void note_stretched(Origin operand, bool constant, sym::Expr size, size_t axis);
  bool has_size_of_one(const Literal& literal) const;
  onnx::Value* contents_at_first(const TensorView& weight);
  Value attribute_at_first(const program::Data& data, const std::string& path);
  void find_changes(const program::Object& object, std::set<const void*>& seen, std::vector<Change>& out);

  void report(Diagnostic d);
  void step();

  const program::Program& program_;
  const Registry& rules_;
  onnx::Builder& builder_;
  std::shared_ptr<Object> root_;
  program::Pos pos_;
  std::optional<DType> autocast_;                  // the type that matrix products compute in
  const program::Expr* unpacked_value_ = nullptr;  // what the statement that is executed unpacks
  size_t unpacked_names_ = 0;
  int depth_ = 0;
  int64_t steps_ = 0;
  int64_t applied_ = 0;                                 // operators
  bool size_one_ = false;                               // whether a dynamic dimension has the size 1 in the sample
  std::set<Literal> varied_;                            // sizes of 1 along which elements would differ
  std::unordered_map<const void*, std::string> paths_;  // of tensors and objects of the file
  std::unordered_map<const void*, Value> converted_;    // by identity in the file
  std::unordered_map<int64_t, Value> constants_;

  // What `changes` goes by: the first contents of the model's tensors, the attributes that were read before they were
  // set, where they were set, and which tensors were written to, and where.
  std::unordered_map<const TensorView*, onnx::Value*> first_contents_;
  std::set<std::pair<const Object*, std::string>> read_first_;
  std::map<std::pair<const Object*, std::string>, program::Pos> set_at_;
  std::vector<std::pair<TensorPtr, program::Pos>> written_at_;
};

}  // namespace lithify::eval
