// A module with two weights and a given program, evaluated without any file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "driver/evaluate.hpp"
#include "program/parse.hpp"

namespace lithify::test {

inline program::Data zeros(Vector<int64_t> sizes) {
  size_t n = 1;
  for (int64_t s : sizes) n *= static_cast<size_t>(s);
  program::Data out;
  out.kind = program::Data::Kind::Tensor;
  out.tensor = std::make_shared<TensorView>(
      TensorView::dense(DType::Float, std::move(sizes), std::vector<std::byte>(n * sizeof(float))));
  return out;
}

/// The lines of a forward that takes the tensor x, of a module with the tensors w and b.
inline program::Program module_of(const std::string& body) {
  program::Program program;
  program::parse_file(program, "code/__torch__.py",
                      "class M(Module):\n  __parameters__ = [\"w\", ]\n  __buffers__ = [\"b\", ]\n  w : Tensor\n"
                      "  b : Tensor\n  training : bool\n  def forward(self: __torch__.M,\n    x: Tensor) -> Any:\n" +
                          body,
                      {});
  program.root = std::make_shared<program::Object>();
  program.root->class_name = "__torch__.M";
  program.root->attributes = {{"w", zeros({4, 3, 3, 3})}, {"b", zeros({3})}};
  return program;
}

/// What comes of it: a graph, or diagnostics.
inline std::vector<Diagnostic> diagnostics_of(const std::string& body, const ExportOptions& options) {
  try {
    const program::Program program = module_of(body);
    return driver::PreparedModel(program, options).evaluate()->diagnostics;
  } catch (const Error& e) {
    return e.diagnostics();
  }
}

}  // namespace lithify::test
