#include "onnxfile/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <protozero/pbf_reader.hpp>

#include "base/diagnostic.hpp"
#include "base/dtype.hpp"
#include "onnxfile/fields.hpp"

namespace lithify::onnxfile {
namespace {

constexpr int most_nested = 64;

std::pair<std::string_view, std::string_view> parse_entry(std::string_view message) {
  std::pair<std::string_view, std::string_view> out;
  for (Fields f(message); f.next();) {
    if (f.tag() == 1)
      out.first = f.bytes();
    else if (f.tag() == 2)
      out.second = f.bytes();
    else
      f.skip();
  }
  return out;
}

std::pair<std::string_view, int64_t> parse_opset(std::string_view message) {
  std::pair<std::string_view, int64_t> out;
  for (Fields f(message); f.next();) {
    if (f.tag() == 1)
      out.first = f.bytes();
    else if (f.tag() == 2)
      out.second = f.integer();
    else
      f.skip();
  }
  return out;
}

std::string dtype_name(int64_t number) {
  constexpr std::pair<int64_t, const char*> newer[] = {{21, "uint4"},          {22, "int4"},  {23, "float4_e2m1"},
                                                       {24, "float8_e8m0fnu"}, {25, "uint2"}, {26, "int2"}};
  for (const auto& [value, name] : newer)
    if (value == number) return name;
  if (number < 1 || number > static_cast<int64_t>(DType::Float8E5M2FNUZ)) return fmt::format("type {}", number);
  return std::string(name_of(static_cast<DType>(number)));
}

std::string parse_size(std::string_view message) {
  std::string out = "?";
  for (Fields f(message); f.next();) {
    if (f.tag() == 1)
      out = std::to_string(f.integer());
    else if (f.tag() == 2) {
      const std::string_view name = f.bytes();
      if (!name.empty()) out = name;
    } else
      f.skip();
  }
  return out;
}

void parse_tensor_type(std::string_view message, Value& out) {
  for (Fields f(message); f.next();) {
    if (f.tag() == 1) {
      out.dtype += dtype_name(f.integer());
    } else if (f.tag() == 2) {
      out.rank_known = true;
      for_each(f.bytes(), 1, [&](std::string_view size) { out.shape.push_back(parse_size(size)); });
    } else {
      f.skip();
    }
  }
}

void parse_type(std::string_view message, Value& out, int depth) {
  if (depth > most_nested) throw Error(Code::LimitExceeded, "a type of the ONNX model is nested too deeply");
  const auto element = [&](std::string_view inner, const char* what) {
    out.dtype += what;
    for_each(inner, 1, [&](std::string_view type) { parse_type(type, out, depth + 1); });
  };
  for (Fields f(message); f.next();) {
    switch (f.tag()) {
      case 1:
        parse_tensor_type(f.bytes(), out);
        break;
      case 4:
        element(f.bytes(), "sequence of ");
        break;
      case 9:
        element(f.bytes(), "optional ");
        break;
      case 5:
        out.dtype += "map";
        f.skip();
        break;
      default:
        f.skip();
    }
  }
}

void for_each_node(std::string_view message, uint32_t field, const std::function<void(const Node&)>& f, int depth) {
  if (depth > most_nested) throw Error(Code::LimitExceeded, "bodies of the ONNX model are nested too deeply");
  for_each(message, field, [&](std::string_view bytes) {
    const Node node = parse_node(bytes);
    f(node);
    for (const std::string_view attribute : node.attributes)
      for (const std::string_view graph : parse_attribute(attribute).graphs)
        for_each_node(graph, node_of_graph, f, depth + 1);
  });
}

/// "['', 'layers', 'layers.0', 'linear']": the last but one is the module, the last the node.
std::string module_of_scopes(std::string_view scopes) {
  std::vector<std::string_view> names;
  for (size_t at = scopes.find('\''); at != scopes.npos; at = scopes.find('\'', at)) {
    const size_t end = scopes.find('\'', at + 1);
    if (end == scopes.npos) break;
    names.push_back(scopes.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names.size() < 2 ? "" : std::string(names[names.size() - 2]);
}

/// "/layers/layers.0/linear/MatMul": what precedes the last part. A part may repeat the one before it.
std::string module_of_name(std::string_view name) {
  const size_t last = name.find_last_of('/');
  if (last == name.npos) return "";
  std::string out, previous;
  for (size_t at = 0; at < last;) {
    const size_t end = std::min(name.find('/', at), last);
    const std::string part(name.substr(at, end - at));
    at = end + 1;
    if (part.empty()) continue;
    const bool repeats = !previous.empty() && part.starts_with(previous + ".");
    const std::string tail = repeats ? part.substr(previous.size() + 1) : part;
    out += (out.empty() ? "" : ".") + tail;
    previous = part;
  }
  return out;
}

}  // namespace

void for_each(std::string_view message, uint32_t field, const std::function<void(std::string_view)>& f) {
  for (Fields fields(message); fields.next();) {
    if (fields.tag() == field)
      f(fields.bytes());
    else
      fields.skip();
  }
}

Model parse_model(std::string_view file, const std::string& name) try {
  Model out;
  bool has_graph = false;
  for (Fields f(file); f.next();) {
    switch (f.tag()) {
      case 1:
        out.ir_version = f.integer();
        break;
      case 2:
        out.producer_name = f.bytes();
        break;
      case 3:
        out.producer_version = f.bytes();
        break;
      case 7:
        if (std::exchange(has_graph, true)) throw Malformed();
        out.graph = f.bytes();
        break;
      case 8:
        out.opsets.push_back(parse_opset(f.bytes()));
        break;
      case 14:
        out.metadata.push_back(parse_entry(f.bytes()));
        break;
      case 25:
        out.functions.push_back(f.bytes());
        break;
      default:
        f.skip();
    }
  }
  if (!has_graph) throw Malformed();
  return out;
} catch (const Malformed&) {
  throw Error(Code::NotAModel, fmt::format("{} is not an ONNX model, or is damaged", name));
}

Node parse_node(std::string_view message) {
  Node out;
  for (Fields f(message); f.next();) {
    switch (f.tag()) {
      case 1:
        out.inputs.push_back(f.bytes());
        break;
      case 2:
        out.outputs.push_back(f.bytes());
        break;
      case 3:
        out.name = f.bytes();
        break;
      case 4:
        out.op_type = f.bytes();
        break;
      case 5:
        out.attributes.push_back(f.bytes());
        break;
      case 7:
        out.domain = f.bytes();
        break;
      case 9:
        if (const auto [key, value] = parse_entry(f.bytes()); key == "pkg.torch.onnx.name_scopes") out.scopes = value;
        break;
      default:
        f.skip();
    }
  }
  return out;
}

std::string Node::qualified() const {
  const bool standard = domain.empty() || domain == "ai.onnx";
  return standard ? std::string(op_type) : fmt::format("{}::{}", domain, op_type);
}

std::string Node::module() const { return scopes.empty() ? module_of_name(name) : module_of_scopes(scopes); }

Tensor parse_tensor(std::string_view message) {
  Tensor out;
  out.message = message;
  for (Fields f(message); f.next();) {
    switch (f.tag()) {
      case 1:
        f.append_integers(out.dims);
        break;
      case 2:
        out.dtype = f.integer();
        break;
      case 8:
        out.name = f.bytes();
        break;
      case 9:
        out.raw = f.bytes();
        break;
      case 13:
        out.external.push_back(parse_entry(f.bytes()));
        break;
      default:
        f.skip();
    }
  }
  return out;
}

std::string Tensor::type_name() const { return dtype_name(dtype); }

uint64_t Tensor::expected_bytes() const {
  if (dtype < 1 || dtype > static_cast<int64_t>(DType::Float8E5M2FNUZ)) return 0;
  uint64_t bytes = byte_size(static_cast<DType>(dtype));
  for (const int64_t d : dims)
    if (d < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(d), &bytes)) return 0;
  return bytes;
}

std::string unpacked(const Tensor& tensor) {
  std::string out;
  const size_t size = tensor.dtype < 1 || tensor.dtype > 20 ? 1 : byte_size(static_cast<DType>(tensor.dtype));
  const auto append = [&](const auto& values, size_t bytes) {
    for (const auto& v : values) out.append(reinterpret_cast<const char*>(&v), bytes);
  };
  for (Fields f(tensor.message); f.next();) {
    std::vector<int64_t> integers;
    switch (f.tag()) {
      case 4:
      case 10:
        out += f.fixed();
        break;
      case 5:
      case 7:
      case 11:
        f.append_integers(integers);
        append(integers, std::clamp<size_t>(size, 1, 8));
        break;
      case 6: {
        const std::string_view text = f.bytes();
        out += fmt::format("{}:", text.size());
        out += text;
        break;
      }
      default:
        f.skip();
    }
  }
  return out;
}

Value parse_value(std::string_view message) {
  Value out;
  for (Fields f(message); f.next();) {
    if (f.tag() == 1)
      out.name = f.bytes();
    else if (f.tag() == 2)
      parse_type(f.bytes(), out, 0);
    else
      f.skip();
  }
  return out;
}

std::string function_name(std::string_view message) {
  std::string_view name, domain;
  for (Fields f(message); f.next();) {
    if (f.tag() == 1)
      name = f.bytes();
    else if (f.tag() == 10)
      domain = f.bytes();
    else
      f.skip();
  }
  return fmt::format("{}::{}", domain, name);
}

Attribute parse_attribute(std::string_view message) {
  Attribute out;
  for (Fields f(message); f.next();) {
    const uint32_t tag = f.tag();
    switch (tag) {
      case 1:
        out.name = f.bytes();
        break;
      case 2:
      case 7:
        out.values.emplace_back(tag, f.fixed());
        break;
      case 3:
      case 8: {
        std::vector<int64_t> integers;
        f.append_integers(integers);
        for (const int64_t i : integers) out.values.emplace_back(tag, std::to_string(i));
        break;
      }
      case 4:
      case 9:
      case 14:
      case 15:
      case 21:
        out.values.emplace_back(tag, f.bytes());
        break;
      case 5:
      case 10:
        out.tensors.push_back(f.bytes());
        break;
      case 6:
      case 11:
        out.graphs.push_back(f.bytes());
        break;
      default:
        f.skip();
    }
  }
  return out;
}

void for_each_node(std::string_view message, uint32_t field, const std::function<void(const Node&)>& f) {
  for_each_node(message, field, f, 0);
}

}  // namespace lithify::onnxfile
