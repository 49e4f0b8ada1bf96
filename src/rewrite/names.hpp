// Names in a graph, each once, and what is added to a graph that has its names already.
#pragma once

#include <string>
#include <unordered_map>

#include "onnx/graph.hpp"

namespace lithify::rewrite {

/// Hands out names, each once.
class Names {
 public:
  std::string unique(const std::string& wanted);

 private:
  std::unordered_map<std::string, int> numbers_;  // by name, the last that was appended to it for others
};

/// What a node is called by its module and operator, if no other has that name: "/encoder/layer/0/MatMul".
std::string name_of(const onnx::Node& n);

/// Makes nodes and values for a graph whose nodes and values have names. Where they go is up to the caller.
class Additions {
 public:
  explicit Additions(onnx::Graph& graph);
  /// A node without outputs.
  onnx::Node* node(onnx::Graph& in, std::string_view op_type, Vector<onnx::Value*> inputs,
                   Vector<onnx::Attribute> attributes, const std::string& scope);
  /// Of no node yet.
  onnx::Value* value(onnx::Graph& in, const std::string& name, DType dtype, onnx::Shape shape);
  /// A node with one output, which is called after it.
  onnx::Node* made(onnx::Graph& in, std::string_view op_type, Vector<onnx::Value*> inputs,
                   Vector<onnx::Attribute> attributes, const std::string& scope, DType dtype, onnx::Shape shape);

 private:
  Names values_, nodes_;
};

/// Makes a value the next output of a node.
void give_output(onnx::Node& n, onnx::Value* v);

}  // namespace lithify::rewrite
