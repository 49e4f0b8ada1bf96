// ONNX files of any producer, read field by field. Everything is a view of the file's bytes; contents of weights are
// skipped. What a file claims of itself is checked before it is used: a damaged or hostile one is NotAModel.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lithify::onnxfile {

using Texts = std::vector<std::pair<std::string_view, std::string_view>>;

/// The fields of a model that are not its graph, and the bytes of the graph.
struct Model {
  int64_t ir_version = 0;
  std::string_view producer_name, producer_version;
  std::vector<std::pair<std::string_view, int64_t>> opsets;  ///< domain and version
  Texts metadata;
  std::string_view graph;
  std::vector<std::string_view> functions;  ///< messages
};

/// Throws NotAModel. `name` is for messages.
Model parse_model(std::string_view file, const std::string& name);

struct Node {
  std::string_view op_type, domain, name;
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attributes;  ///< messages
  std::string_view scopes;                   ///< modules around it, as torch.export writes them into the metadata

  /// "LayerNormalization", or with another domain "com.microsoft::Gelu".
  std::string qualified() const;
  /// The module that the node belongs to, from its name or metadata: "encoder.layers.0"; empty when there is none.
  std::string module() const;
};
Node parse_node(std::string_view message);

struct Tensor {
  std::string_view name;
  int64_t dtype = 0;  ///< of TensorProto.DataType
  std::vector<int64_t> dims;
  std::string_view raw;      ///< the contents, where they are raw bytes
  Texts external;            ///< where they are in another file: location, offset, length
  std::string_view message;  ///< the whole tensor

  std::string type_name() const;
  /// Bytes of its elements as the type and sizes give them; 0 when that is not known or too large.
  uint64_t expected_bytes() const;
};
Tensor parse_tensor(std::string_view message);
/// The elements of a tensor that has them neither raw nor in another file, as raw bytes.
std::string unpacked(const Tensor& tensor);

/// An input or output.
struct Value {
  std::string_view name;
  std::string dtype;               ///< "float32", "sequence of float32"; empty when it is not known
  bool rank_known = false;         ///< whether it has a shape
  std::vector<std::string> shape;  ///< numbers, names, and "?" where there is neither
};
Value parse_value(std::string_view message);

/// Name and domain of a function: "pkg.onnxscript.torch_lib::aten_relu".
std::string function_name(std::string_view message);

// Repeated fields of messages.
inline constexpr uint32_t node_of_graph = 1, initializer_of_graph = 5, input_of_graph = 11, output_of_graph = 12,
                          node_of_function = 7;
/// Calls `f` with each value of a field that holds messages or texts.
void for_each(std::string_view message, uint32_t field, const std::function<void(std::string_view)>& f);

/// An attribute of a node.
struct Attribute {
  std::string_view name;
  std::vector<std::pair<uint32_t, std::string>> values;  ///< numbers and texts, by field, in a canonical form
  std::vector<std::string_view> tensors, graphs;         ///< messages
};
Attribute parse_attribute(std::string_view message);

/// Calls `f` with every node of a graph or function, those of bodies after the node that has them. Throws LimitExceeded
/// where bodies are too deep inside each other.
void for_each_node(std::string_view message, uint32_t field, const std::function<void(const Node&)>& f);

}  // namespace lithify::onnxfile
