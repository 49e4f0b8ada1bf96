// Graphs of an exported program as statements of the Program.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/json.hpp"
#include "program/program.hpp"

namespace lithify::read {

/// Reads graphs one after the other. Nodes are numbered in the order of the text, those of inner graphs after the node
/// that holds them: the number is the offset of a statement's position.
class GraphReader {
 public:
  using Expr = program::Expr;
  using Stmt = program::Stmt;

  /// Inner graphs become functions of the program. Positions are in the file of that index.
  GraphReader(program::Program& program, int32_t file) : program_(program), file_(file) {}

  /// One or more statements a node. What only checks (asserts, ranges of sizes) is left out.
  std::vector<Stmt> statements(const Json& graph);
  /// What the graph records of its values.
  std::unordered_map<std::string, program::Fact> facts(const Json& graph);
  /// An argument of a node, or an output of a graph.
  Expr argument(const Json& argument);
  /// A size of a tensor, or a symbolic integer: a number, or a formula.
  Expr size(const Json& size);
  /// The name of a tensor: {"name": "x"}, or just "x" in old files.
  static std::string name(const Json& tensor);

  std::unordered_set<std::string> used;  ///< names that were read so far

 private:
  void node(const Json& node, std::vector<Stmt>& out);
  std::vector<std::string> targets(const std::vector<Json>& outputs, std::vector<Stmt>& unpacked);
  Expr call(const Json& node, std::string_view target);
  Expr read(std::string name);
  Expr tensor(const Json& tensor);
  Expr optional_tensor(const Json& argument);
  Expr symbolic(const Json& argument);
  template <class F>
  Expr list(const Json& items, F one);

  // Higher-order operators; see higher_order.cpp.
  bool higher_order(const Json& node, std::string_view name, const std::vector<std::string>& targets,
                    std::vector<Stmt>& out);
  void while_loop(const std::vector<Expr>& arguments, const std::vector<std::string>& targets, std::vector<Stmt>& out);
  void append_to(std::span<const std::string> lists, std::span<const std::string> values, std::vector<Stmt>& out);
  void stack(std::span<const std::string> lists, std::span<const std::string> targets, std::vector<Stmt>& out);
  void associative_scan(const Expr& combine, const std::vector<Expr>& scanned, const std::vector<Expr>& extra,
                        const std::vector<std::string>& targets, std::vector<Stmt>& out);
  void loop_over_slices(const Expr& body, const std::vector<Expr>& carried, const std::vector<Expr>& scanned,
                        const std::vector<Expr>& extra, const std::vector<std::string>& targets,
                        std::vector<Stmt>& out);
  Expr inner_graph(const Json& inner);
  Expr call_graph(const Expr& graph, std::vector<Expr> arguments) const;

  Expr made(Expr::Kind kind) const;
  Expr named(std::string name) const;
  Expr number(int64_t value) const;
  Expr text(std::string_view value) const;
  Expr operation(std::string name, std::vector<Expr> items) const;
  Stmt made(Stmt::Kind kind) const;
  Stmt assign(std::vector<std::string> targets, Expr value, bool unpack) const;
  std::string fresh();  ///< a name that no graph has

  program::Program& program_;
  int32_t file_;
  uint32_t nodes_ = 0;
  program::Pos pos_;                  // of the node that is read
  std::optional<std::string> scope_;  // its module
  int fresh_ = 0;
  int depth_ = 0;
  std::unordered_map<std::string_view, Expr> sizes_;  // formulas by their text
};

/// The module path of a node's "nn_module_stack" text; empty for the root, and for what is not a path.
std::string innermost_module(std::string_view stack);

}  // namespace lithify::read
