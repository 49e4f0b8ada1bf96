// Where the symbols of sizes get their numbers.
#pragma once

#include <unordered_map>

#include "onnx/graph.hpp"

namespace lithify::onnx {

/// The graph that each symbol belongs to: the first that has it in a size or in contents, in the order in which a run
/// comes by. A symbol of a body gets another number each time that the body runs.
class SymbolScopes {
 public:
  explicit SymbolScopes(const Graph& graph);

  /// Whether an expression has a symbol that belongs to the body of a loop or to a body inside one, so that its value
  /// differs from iteration to iteration.
  ///
  /// The text of a size is its name in a file, and a name stands for one size in all of a run, in branches and loops
  /// too: ONNX Runtime lets values share a buffer by it. So a size that varies has no name in a file.
  bool varies(Dim e) const;

  /// nullptr for a symbol that the graph has not.
  const Graph* home(Dim symbol) const;

 private:
  void visit(const Graph& graph, bool repeated);
  void visit(const Value& v, const Graph& graph, bool repeated);

  struct Home {
    const Graph* graph;
    bool repeated;
  };
  std::unordered_map<Dim, Home> homes_;
};

/// Calls a function with each symbol in the sizes and contents of a value; a symbol may come more than once.
template <class F>
void for_each_symbol(const Value& v, F f) {
  auto each = [&](Dim e) {
    if (!e || e.is_constant()) return;
    if (e.is_symbol()) return f(e);
    for (const Dim symbol : sym::symbols(e)) f(symbol);
  };
  for (const Dim size : v.shape) each(size);
  if (v.contents && !v.constant)
    for (const Dim element : *v.contents) each(element);
}

}  // namespace lithify::onnx
