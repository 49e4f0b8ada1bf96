#include "write/encode.hpp"

#include <fmt/format.h>

#include <unordered_set>

#include "base/diagnostic.hpp"
#include "onnx/scope.hpp"

namespace lithify::write {
namespace {

// Field numbers of onnx.proto.
namespace model_proto {
enum : uint32_t { ir_version = 1, producer_name = 2, producer_version = 3, graph = 7, opset_import = 8, metadata = 14 };
}
namespace graph_proto {
enum : uint32_t { node = 1, name = 2, initializer = 5, input = 11, output = 12, value_info = 13 };
}
namespace node_proto {
enum : uint32_t { input = 1, output = 2, name = 3, op_type = 4, attribute = 5, domain = 7 };
}
namespace attribute_proto {
enum : uint32_t { name = 1, f = 2, i = 3, s = 4, t = 5, g = 6, floats = 7, ints = 8, strings = 9, tp = 14, type = 20 };
enum Type : int32_t {
  FLOAT = 1,
  INT = 2,
  STRING = 3,
  TENSOR = 4,
  GRAPH = 5,
  FLOATS = 6,
  INTS = 7,
  STRINGS = 8,
  TYPE_PROTO = 13
};
}  // namespace attribute_proto
namespace tensor_proto {
enum : uint32_t { dims = 1, data_type = 2, name = 8, raw_data = 9, external_data = 13, data_location = 14 };
enum Location : int32_t { EXTERNAL = 1 };
}  // namespace tensor_proto
namespace value_info_proto {
enum : uint32_t { name = 1, type = 2 };
}
namespace type_proto {
enum : uint32_t { tensor_type = 1, sequence_type = 4, optional_type = 9 };
}
namespace container_type_proto {
enum : uint32_t { elem_type = 1 };
}
namespace tensor_type_proto {
enum : uint32_t { elem_type = 1, shape = 2 };
}
namespace shape_proto {
enum : uint32_t { dim = 1 };
}
namespace dimension_proto {
enum : uint32_t { dim_value = 1, dim_param = 2 };
}
namespace opset_proto {
enum : uint32_t { domain = 1, version = 2 };
}
namespace entry_proto {
enum : uint32_t { key = 1, value = 2 };
}

using protozero::pbf_writer;

int32_t data_type(DType dtype, std::string_view name) {
  const auto number = static_cast<int32_t>(dtype);
  const auto last = static_cast<int32_t>(DType::Float8E8M0FNU);
  if (number >= 1 && number <= last) return number;
  throw Error(Code::UnsupportedType,
              fmt::format("ONNX has no element type {}, which '{}' has", name_of(dtype), printable(name)));
}

std::string entry(std::string_view key, std::string_view value) {
  std::string bytes;
  pbf_writer fields(bytes);
  fields.add_string(entry_proto::key, key.data(), key.size());
  fields.add_string(entry_proto::value, value.data(), value.size());
  return bytes;
}

std::string opset_id(const std::string& domain, int version) {
  std::string bytes;
  pbf_writer fields(bytes);
  fields.add_string(opset_proto::domain, domain);
  fields.add_int64(opset_proto::version, version);
  return bytes;
}

/// A number, a name, or neither. A name stands for one size in all of a run.
std::string dimension(const onnx::Dim& dim, const onnx::SymbolScopes& scopes) {
  std::string bytes;
  pbf_writer fields(bytes);
  if (!dim) return bytes;
  if (const auto value = dim.constant())
    fields.add_int64(dimension_proto::dim_value, *value);
  else if (!scopes.varies(dim))
    fields.add_string(dimension_proto::dim_param, dim.str());
  return bytes;
}

/// The shape is there for a scalar too: without it the rank would be unknown.
std::string tensor_type(const onnx::Value& value, const onnx::SymbolScopes& scopes) {
  std::string shape;
  pbf_writer dims(shape);
  for (const onnx::Dim& dim : value.shape) dims.add_message(shape_proto::dim, dimension(dim, scopes));
  std::string bytes;
  pbf_writer fields(bytes);
  fields.add_int32(tensor_type_proto::elem_type, data_type(value.dtype, value.name));
  fields.add_message(tensor_type_proto::shape, shape);
  return bytes;
}

/// A tensor, or a sequence or an optional of tensors.
std::string type_of(const onnx::Value& value, const onnx::SymbolScopes& scopes) {
  std::string tensor;
  pbf_writer(tensor).add_message(type_proto::tensor_type, tensor_type(value, scopes));
  if (value.form == onnx::Value::Form::Tensor) return tensor;
  std::string bytes;
  pbf_writer type(bytes);
  pbf_writer container(type, value.is_sequence() ? type_proto::sequence_type : type_proto::optional_type);
  container.add_message(container_type_proto::elem_type, tensor);
  container.commit();
  return bytes;
}

/// nullptr is an optional input or output that is left out; a value without a name would be read as that.
const std::string& name_of_value(const onnx::Value* value) {
  static const std::string left_out;
  if (!value) return left_out;
  if (value->name.empty()) throw Error(Code::Internal, "a value of the graph has no name");
  return value->name;
}

std::string value_info(const onnx::Value& value, const onnx::SymbolScopes& scopes) {
  std::string bytes;
  pbf_writer fields(bytes);
  fields.add_string(value_info_proto::name, name_of_value(&value));
  fields.add_message(value_info_proto::type, type_of(value, scopes));
  return bytes;
}

/// The lengths in the file are computed from the tensor and the bytes come from its pieces: they must agree.
void check_pieces(const onnx::Tensor& tensor, std::string_view name) {
  size_t bytes = 0;
  for (const onnx::Tensor::Piece& piece : tensor.pieces) {
    const TensorView& view = piece.view;
    const bool is_rounded = piece.dtype() != tensor.dtype;
    bytes += (piece.quantized ? byte_size(*piece.quantized, view) : view.nbytes()) / (is_rounded ? 2 : 1);
    const bool has_type = !is_rounded || (piece.dtype() == DType::Float && is_16_bit_float(tensor.dtype));
    const bool is_scalable = is_float(view.dtype) && byte_size(view.dtype) > 1 && !view.sizes.empty() &&
                             !piece.quantized && piece.scale &&
                             piece.scale->size() == static_cast<size_t>(view.sizes[0]);
    if (!has_type || (piece.scale && !is_scalable))
      throw Error(Code::Internal, fmt::format("a piece of the constant '{}' does not fit", printable(name)));
  }
  if (bytes != tensor.nbytes())
    throw Error(Code::Internal, fmt::format("the pieces of the constant '{}' have {} bytes, not {}", printable(name),
                                            bytes, tensor.nbytes()));
}

class Encoder {
 public:
  Encoder(const onnx::Graph& graph, ExternalData* external) : scopes_(graph), external_(external) {}

  Message model(const onnx::Model& model) {
    Message message;
    message.fields().add_int64(model_proto::ir_version, model.ir_version());
    message.fields().add_string(model_proto::producer_name, model.producer_name);
    if (!model.producer_version.empty())
      message.fields().add_string(model_proto::producer_version, model.producer_version);
    message.add_message(model_proto::graph, graph(*model.graph, model.graph_name));
    message.fields().add_message(model_proto::opset_import, opset_id("", model.opset));
    for (const auto& [domain, version] : model.domains)
      message.fields().add_message(model_proto::opset_import, opset_id(domain, version));
    for (const auto& [key, value] : model.metadata)
      message.fields().add_message(model_proto::metadata, entry(key, value));
    return message;
  }

 private:
  Message graph(const onnx::Graph& graph, const std::string& name) {
    const std::vector<const onnx::Value*> initializers = declare(graph);
    Message message;
    for (const onnx::Node* n : graph.nodes) message.add_message(graph_proto::node, node(*n));
    message.fields().add_string(graph_proto::name, name);
    for (const onnx::Value* value : initializers)
      message.add_message(graph_proto::initializer, initializer(*value->constant, value->name));
    for (const onnx::Value* value : graph.inputs)
      message.fields().add_message(graph_proto::input, value_info(*value, scopes_));
    for (const onnx::Value* value : graph.outputs)
      message.fields().add_message(graph_proto::output, value_info(*value, scopes_));
    add_inner_values(graph, message);
    for (const onnx::Value* value : initializers) visible_.erase(value);
    return message;
  }

  /// The graph's initializers without those that a graph around it has: names are visible inwards, and unique.
  std::vector<const onnx::Value*> declare(const onnx::Graph& graph) {
    std::vector<const onnx::Value*> result;
    for (const onnx::Value* value : graph.initializers())
      if (visible_.insert(value).second) result.push_back(value);
    return result;
  }

  void add_inner_values(const onnx::Graph& graph, Message& message) const {
    const std::unordered_set<const onnx::Value*> described(graph.outputs.begin(), graph.outputs.end());
    for (const onnx::Node* n : graph.nodes)
      for (const onnx::Value* value : n->outputs)
        if (value && value->dtype != DType::Undefined && !described.contains(value))
          message.fields().add_message(graph_proto::value_info, value_info(*value, scopes_));
  }

  Message node(const onnx::Node& node) {
    Message message;
    for (const onnx::Value* value : node.inputs) message.fields().add_string(node_proto::input, name_of_value(value));
    for (const onnx::Value* value : node.outputs) message.fields().add_string(node_proto::output, name_of_value(value));
    if (!node.name.empty()) message.fields().add_string(node_proto::name, node.name);
    message.fields().add_string(node_proto::op_type, node.op_type);
    for (const onnx::Attribute& a : node.attributes) message.add_message(node_proto::attribute, attribute(a));
    if (!node.domain.empty()) message.fields().add_string(node_proto::domain, node.domain);
    return message;
  }

  Message attribute(const onnx::Attribute& attribute) {
    Message message;
    message.fields().add_string(attribute_proto::name, attribute.name);
    const auto add = [&](const auto& data) { return add_data(message, attribute.name, data); };
    const attribute_proto::Type type = std::visit(add, attribute.data);
    message.fields().add_enum(attribute_proto::type, type);
    return message;
  }

  // Each adds the field that holds the data and returns the attribute's type.
  using Type = attribute_proto::Type;
  static Type add_data(Message& message, const std::string&, int64_t value) {
    message.fields().add_int64(attribute_proto::i, value);
    return Type::INT;
  }
  static Type add_data(Message& message, const std::string&, float value) {
    message.fields().add_float(attribute_proto::f, value);
    return Type::FLOAT;
  }
  static Type add_data(Message& message, const std::string&, const std::string& value) {
    message.fields().add_bytes(attribute_proto::s, value);
    return Type::STRING;
  }
  // Lists are not packed in onnx.proto, except in tensors.
  static Type add_data(Message& message, const std::string&, const std::vector<int64_t>& values) {
    for (const int64_t value : values) message.fields().add_int64(attribute_proto::ints, value);
    return Type::INTS;
  }
  static Type add_data(Message& message, const std::string&, const std::vector<float>& values) {
    for (const float value : values) message.fields().add_float(attribute_proto::floats, value);
    return Type::FLOATS;
  }
  static Type add_data(Message& message, const std::string&, const std::vector<std::string>& values) {
    for (const std::string& value : values) message.fields().add_bytes(attribute_proto::strings, value);
    return Type::STRINGS;
  }
  Type add_data(Message& message, const std::string& name, const std::shared_ptr<const onnx::Tensor>& value) {
    Message tensor = tensor_header(*value, name);
    tensor.add_weights(tensor_proto::raw_data, *value);
    message.add_message(attribute_proto::t, tensor);
    return Type::TENSOR;
  }
  Type add_data(Message& message, const std::string& name, const std::shared_ptr<onnx::Graph>& value) {
    message.add_message(attribute_proto::g, graph(*value, name));
    return Type::GRAPH;
  }
  Type add_data(Message& message, const std::string&, const std::shared_ptr<const onnx::Value>& value) {
    message.fields().add_message(attribute_proto::tp, type_of(*value, scopes_));
    return Type::TYPE_PROTO;
  }

  static Message tensor_header(const onnx::Tensor& tensor, std::string_view name) {
    check_pieces(tensor, name);
    if (tensor.dtype == DType::String) throw Error(Code::UnsupportedType, "a constant of strings cannot be written");
    Message message;
    for (const int64_t size : tensor.sizes) message.fields().add_int64(tensor_proto::dims, size);
    message.fields().add_int32(tensor_proto::data_type, data_type(tensor.dtype, name));
    return message;
  }

  Message initializer(const onnx::Tensor& tensor, const std::string& name) {
    Message message = tensor_header(tensor, name);
    message.fields().add_string(tensor_proto::name, name);
    if (!external_ || tensor.nbytes() < ExternalData::smallest) {
      message.add_weights(tensor_proto::raw_data, tensor);
      return message;
    }
    const std::pair<const char*, std::string> entries[] = {
        {"location", external_->location()},
        {"offset", std::to_string(external_->place(tensor))},
        {"length", std::to_string(tensor.nbytes())},
    };
    for (const auto& [key, value] : entries)
      message.fields().add_message(tensor_proto::external_data, entry(key, value));
    message.fields().add_enum(tensor_proto::data_location, tensor_proto::EXTERNAL);
    return message;
  }

  const onnx::SymbolScopes scopes_;
  ExternalData* external_;
  std::unordered_set<const onnx::Value*> visible_;  ///< initializers of the graph being encoded and of those around it
};

}  // namespace

Message encode(const onnx::Model& model, ExternalData* external) {
  return Encoder(*model.graph, external).model(model);
}

}  // namespace lithify::write
