// Runs a Program at export time. What is known is computed; what works on the contents of tensors becomes ONNX nodes.
//
// `run` is all that others need. The class is for rules, which may ask it a few things and apply other operators.
//
//   evaluator.cpp    calls and statements        branch.cpp     an if that is decided at run time
//   expression.cpp   expressions                 loop.cpp       loops
//   apply.cpp        which rule applies          autocast.cpp   regions that compute in a smaller type
//   data.cpp         the model's data            changes.cpp    what a run changes of the model
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/journal.hpp"
#include "eval/cycles.hpp"
#include "eval/formula.hpp"
#include "eval/registry.hpp"
#include "eval/reporter.hpp"
#include "eval/state.hpp"
#include "eval/value.hpp"
#include "program/program.hpp"

namespace lithify::eval {

/// How often an operator was met, and whether it can be exported.
struct OperatorUse {
  int count = 0;
  bool supported = true;
};

/// The longest string that a program may make at export.
constexpr size_t max_text = 1 << 16;

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

struct Options {
  /// Loops of at most this many iterations, where their number is known, become as many copies of their bodies.
  int64_t most_unrolled = 128;
  /// Evaluation ends at the first problem.
  bool stop_early = false;
  /// Every value that is assigned is compared with what the file records of it.
  bool self_check = false;
  /// What the symbols of recorded formulas stand for.
  SymbolTable symbols = {};
  /// Tensors and numbers of the model, by their names in the state dict, that are inputs of the graph.
  std::set<std::string> state_inputs = {};
};

struct Result {
  Cycles cycles;
  Value value;  ///< of forward; Poison when evaluation could not get to its end
  Vector<Diagnostic> diagnostics;
  std::map<std::string, OperatorUse> operators;  ///< by the name that the program has for them
  Vector<Change> changes;                        ///< in the order of the model's attributes; of a run without errors
};

/// The model's forward on these inputs (without self), hooks of the root included. The graph of `builder` has its
/// inputs. What cannot be exported is in the diagnostics: evaluation goes on as far as it can. What is collected, here
/// and by the recorder (which may be nullptr), goes through `journal`, so that attempts can be undone.
Result run(const program::Program& program, const Registry& rules, onnx::Builder& builder, Vector<Value> inputs,
           Options options, Journal& journal, provenance::Recorder* recorder);

class Evaluator {
 public:
  Evaluator(const program::Program& program, const Registry& rules, onnx::Builder& builder, Options options,
            Journal& journal, provenance::Recorder* recorder);

  Result run(Vector<Value> inputs);

  /// An operator by name ("aten::add" or "aten::add.Tensor").
  Value apply(std::string_view name, Vector<Value> positional, Vector<std::pair<std::string, Value>> keywords = {});

  /// Reports what a user should know of the operator that is being called.
  void warn(std::string message);

  /// Decides which old meaning an operator has.
  int64_t file_version() const { return program_.file_version; }
  /// Into how many names the result of the operator that is being called is unpacked; 0 where that is not known.
  size_t unpacked() const { return unpacked_; }

 private:
  struct Path;       // one way through an if
  class Branch;      // an if that is decided at run time
  class Repetition;  // a loop that becomes a Loop
  struct Stop {};    // thrown when evaluation cannot go on; the reason is in the diagnostics

  // ---- calls
  Value run_forward(Vector<Value> inputs);
  Value call_function(const program::Function& f, Arguments arguments);
  Frame bound(const program::Function& f, Arguments arguments);
  Value call_method(const Value& self, const program::Expr& call, Frame& frame);
  Value call_named(const program::Expr& call, Frame& frame);
  Value call_closure(const Function& f);
  Value argument(const program::Expr& e, Frame& frame);
  Arguments arguments(const program::Expr& call, size_t from, Frame& frame);

  // ---- operators
  void watch_cycles(const Arguments& arguments);
  struct OperatorName;
  struct Match;
  Value call_operator(const program::Expr& call, Frame& frame);
  Value failed(const program::Expr& call, const Error& error);
  Value apply(std::string_view name, Arguments arguments, bool report);
  std::optional<Value> apply_without_rule(const OperatorName& name, const Arguments& arguments);
  Match match(const OperatorName& name, const Vector<Rule>& rules, const Arguments& arguments);
  Value invoke(Match match);
  Value apply_to_open(std::string_view name, const Arguments& arguments);
  Value run_on_quantized(const Rule& rule, Vector<Value> arguments);

  // ---- statements
  void execute(const std::vector<program::Stmt>& body, Frame& frame);
  void execute(const program::Stmt& s, Frame& frame);
  void assign(const program::Stmt& s, Frame& frame);
  Vector<Value> unpack(const program::Stmt& s, Frame& frame);
  void compare_with_records(const program::Stmt& s, const Frame& frame);
  void with_autocast(const program::Stmt& s, Frame& frame);
  void cast_operands(const program::Expr& call, Arguments& arguments);
  void choose(const program::Stmt& s, Frame& frame);
  void execute_checked(const program::Stmt& s, const onnx::Value* condition, bool holds, Frame& frame);
  Path follow(const program::Stmt& s, const onnx::Value* condition, bool holds, const State& before, Frame& frame);
  void loop(const program::Stmt& s, Frame& frame);
  const Names& names_of(const program::Stmt& s);
  bool unroll(const program::Stmt& s, const std::optional<int64_t>& count, Frame& frame, int64_t most);

  // ---- expressions
  Value evaluate(const program::Expr& e, Frame& frame);
  Vector<Value> evaluate_items(const program::Expr& e, Frame& frame);
  Value evaluate_dict(const program::Expr& e, Frame& frame);
  Value evaluate_path(const std::string& path, Frame& frame);
  Value new_object(const std::string& class_name);
  Value evaluate_annotation(const program::Type& type, Value v);
  Value subscript(const Value& container, const Value& index);
  Value attribute(const Value& object, const std::string& name);
  Value constant(int64_t index);
  bool condition(const Value& v);
  bool is_instance(const Value& v, const program::Type& type);

  // ---- the model's data, and what a run changes of it
  Value from_data(const program::Data& data);
  std::shared_ptr<Object> from_object(const std::shared_ptr<program::Object>& object);
  void name_weights(const program::Data& data, const std::string& path, std::set<const void*>& seen);
  onnx::Value* contents_at_first(const TensorView& weight);
  Value attribute_at_first(const program::Data& data, const std::string& path);
  Vector<Change> changes();
  void find_changes(const program::Object& object, std::set<const void*>& seen, Vector<Change>& out);

  void report(Diagnostic d);
  void step();

  const program::Program& program_;
  const Registry& rules_;
  onnx::Builder& builder_;
  Options options_;
  Journal& journal_;
  Reporter reporter_;

  // What is collected.
  JournaledList<Diagnostic> diagnostics_;
  JournaledMap<std::string, OperatorUse> operators_;
  Cycles cycles_;

  // Where evaluation is.
  program::Pos pos_;
  int calls_ = 0;                  // within each other
  int applied_ = 0;                // operators within each other, of the innermost call
  std::optional<DType> autocast_;  // the type that matrix products compute in
  size_t unpacked_ = 0;
  struct Unpacked {
    const program::Expr* value = nullptr;
    size_t names = 0;
  } unpacking_;  // what the statement that is executed unpacks

  std::unordered_map<const program::Stmt*, Names> names_;  // that ifs and loops use

  // The model's data as values.
  std::shared_ptr<Object> root_;
  std::unordered_map<const void*, std::string> paths_;  // of tensors and objects of the file
  std::unordered_map<const void*, Value> converted_;    // by identity in the file
  std::unordered_map<int64_t, Value> constants_;

  // What `changes` goes by: the first contents of the model's tensors, the attributes that were read before they were
  // set, where they were set, and which tensors were written to, and where.
  using AttributeKey = std::pair<const Object*, std::string>;
  std::unordered_map<const TensorView*, onnx::Value*> first_contents_;
  JournaledSet<AttributeKey> read_first_;
  JournaledMap<AttributeKey, std::optional<program::Pos>> set_at_;
  JournaledList<std::pair<TensorPtr, program::Pos>> written_at_;
};

}  // namespace lithify::eval
