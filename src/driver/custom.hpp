// Custom operators: declared in a file, given as plug-ins, or kept as nodes.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "eval/registry.hpp"
#include "lithify/lithify.hpp"
#include "onnx/graph.hpp"
#include "program/program.hpp"

namespace lithify::driver {

/// The rules of an export: the exporter's own, or those and what the options add to them.
class Rules {
 public:
  /// Throws BadOption for a declaration that cannot be read. `program` is searched for operators without a rule.
  Rules(const ExportOptions& options, const program::Program& program);
  const eval::Registry& registry() const;
  /// Sets the versions of the domains that the nodes of the model are from.
  void declare_domains(onnx::Model& model) const;
  /// Warnings about operators that are kept as nodes: their results are assumed to be like their first tensor.
  std::vector<Diagnostic> assumptions;

 private:
  std::unique_ptr<eval::Registry> own_;
  std::map<std::string, int> versions_;
};

}  // namespace lithify::driver
