// Two ONNX files beside each other.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <unordered_map>

#include "archive/bytes.hpp"
#include "archive/mapped_file.hpp"
#include "base/diagnostic.hpp"
#include "base/dtype.hpp"
#include "base/half.hpp"
#include "driver/guarded.hpp"
#include "driver/onnx_file.hpp"
#include "onnxfile/model.hpp"
#include "platform/file.hpp"

namespace lithify {
namespace {

using onnxfile::for_each;

size_t mixed(size_t seed, size_t value) { return (seed ^ value) * 0x9e3779b97f4a7c15u + std::rotl(seed, 23); }
size_t mixed(size_t seed, std::string_view text) { return mixed(seed, std::hash<std::string_view>()(text)); }

/// An ONNX file with its weights by name.
class Side {
 public:
  explicit Side(const std::string& path)
      : folder_(platform::path_of(path).parent_path()),
        file_(archive::MappedFile::open(path)),
        model(onnxfile::parse_model(archive::as_text(file_->bytes()), fmt::format("'{}'", path))) {
    constexpr size_t most_weights = 1'000'000;
    for_each(model.graph, onnxfile::initializer_of_graph, [&](std::string_view message) {
      onnxfile::Tensor tensor = onnxfile::parse_tensor(message);
      if (weights.size() >= most_weights) throw Error(Code::LimitExceeded, "the ONNX model has too many weights");
      const std::string_view name = tensor.name;
      weights.emplace(name, std::move(tensor));
    });
  }

  /// The contents of a weight; `buffer` has them where they must be converted.
  std::string_view contents(const onnxfile::Tensor& tensor, std::string& buffer) {
    if (!tensor.external.empty()) return external(tensor);
    if (!tensor.raw.empty()) return tensor.raw;
    return buffer = onnxfile::unpacked(tensor);
  }

 private:
  std::string_view external(const onnxfile::Tensor& tensor) {
    std::string location;
    uint64_t offset = 0, length = tensor.expected_bytes();
    for (const auto& [key, value] : tensor.external) {
      if (key == "location") location = value;
      if (key == "offset") std::from_chars(value.data(), value.data() + value.size(), offset);
      if (key == "length") std::from_chars(value.data(), value.data() + value.size(), length);
    }
    const std::string_view bytes = archive::as_text(open(location)->bytes());
    if (offset > bytes.size() || length > bytes.size() - offset)
      throw Error(Code::BadTensor, fmt::format("the weight '{}' reaches outside of '{}'", tensor.name, location));
    return bytes.substr(offset, length);
  }

  /// A file of external data: one in the folder of the model.
  const std::shared_ptr<const archive::MappedFile>& open(const std::string& location) {
    const std::filesystem::path path = platform::path_of(location);
    const bool outside =
        path.has_root_path() || std::ranges::any_of(path, [](const auto& part) { return part == ".."; });
    if (location.empty() || outside)
      throw Error(Code::BadTensor, fmt::format("'{}' is not a file in the folder of the model", location));
    auto& file = files_[location];
    if (!file) file = archive::MappedFile::open(platform::text_of(folder_ / path));
    return file;
  }

  std::filesystem::path folder_;
  std::shared_ptr<const archive::MappedFile> file_;
  std::map<std::string, std::shared_ptr<const archive::MappedFile>> files_;

 public:
  onnxfile::Model model;
  std::map<std::string_view, onnxfile::Tensor> weights;
};

// ---- weights ------------------------------------------------------------------------------------------------------

template <class T>
T loaded(std::string_view bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

using Element = double (*)(std::string_view, size_t);

template <class T>
double plain(std::string_view bytes, size_t index) {
  return static_cast<double>(loaded<T>(bytes, index));
}

/// How to read an element as a number; types without one are compared byte by byte.
Element element_of(int64_t dtype) {
  switch (static_cast<DType>(dtype)) {
    case DType::Float:
      return plain<float>;
    case DType::Double:
      return plain<double>;
    case DType::Half:
      return [](std::string_view b, size_t i) -> double { return float_from_half(loaded<uint16_t>(b, i)); };
    case DType::BFloat16:
      return [](std::string_view b, size_t i) -> double { return float_from_bfloat16(loaded<uint16_t>(b, i)); };
    case DType::Int64:
      return plain<int64_t>;
    case DType::Int32:
      return plain<int32_t>;
    case DType::Int16:
      return plain<int16_t>;
    case DType::Int8:
      return plain<int8_t>;
    default:
      return plain<uint8_t>;
  }
}

size_t element_size(int64_t dtype) {
  switch (static_cast<DType>(dtype)) {
    case DType::Float:
    case DType::Double:
    case DType::Half:
    case DType::BFloat16:
    case DType::Int64:
    case DType::Int32:
    case DType::Int16:
      return byte_size(static_cast<DType>(dtype));
    default:
      return 1;
  }
}

void compare_elements(std::string_view a, std::string_view b, int64_t dtype, WeightChange& out) {
  const Element element = element_of(dtype);
  const size_t size = element_size(dtype), count = std::min(a.size(), b.size()) / size;
  out.changed = std::max(a.size(), b.size()) / size - count;
  for (size_t i = 0; i < count; ++i) {
    if (std::memcmp(a.data() + i * size, b.data() + i * size, size) == 0) continue;
    ++out.changed;
    const double difference = std::abs(element(a, i) - element(b, i));
    if (!(difference <= out.largest)) out.largest = difference;
  }
}

size_t content_hash(Side& side, const onnxfile::Tensor& tensor) {
  std::string buffer;
  size_t hash = mixed(static_cast<size_t>(tensor.dtype), side.contents(tensor, buffer));
  for (const int64_t d : tensor.dims) hash = mixed(hash, static_cast<size_t>(d));
  return hash;
}

void compare_weight(Side& a, Side& b, const onnxfile::Tensor& before, const onnxfile::Tensor& after, DiffResult& out) {
  WeightChange change{printable(before.name), printable(after.name), "type", driver::info_of(before),
                      driver::info_of(after)};
  if (before.dtype == after.dtype && before.dims == after.dims) {
    std::string first, second;
    const std::string_view old = a.contents(before, first), now = b.contents(after, second);
    if (old == now) {
      ++out.equal_weights;
      return;
    }
    change.what = "contents";
    compare_elements(old, now, before.dtype, change);
  }
  out.weights.push_back(std::move(change));
}

/// Weights by name; those that only one file has by their contents.
void compare_weights(Side& a, Side& b, DiffResult& out) {
  std::unordered_multimap<size_t, const onnxfile::Tensor*> added;
  for (const auto& [name, tensor] : b.weights)
    if (!a.weights.contains(name)) added.emplace(content_hash(b, tensor), &tensor);
  for (const auto& [name, before] : a.weights) {
    if (const auto same = b.weights.find(name); same != b.weights.end()) {
      compare_weight(a, b, before, same->second, out);
      continue;
    }
    const auto renamed = added.empty() ? added.end() : added.find(content_hash(a, before));
    if (renamed == added.end()) {
      out.removed.push_back(driver::info_of(before));
      continue;
    }
    out.weights.push_back({printable(name), printable(renamed->second->name), "renamed", driver::info_of(before),
                           driver::info_of(*renamed->second)});
    added.erase(renamed);
  }
  for (const auto& [hash, tensor] : added) out.added.push_back(driver::info_of(*tensor));
  std::ranges::sort(out.added, {}, &TensorInfo::name);
}

// ---- structure ----------------------------------------------------------------------------------------------------

/// What each value of a graph is computed from, as a hash that does not depend on names of values and nodes. A weight
/// is known by its name where both files have it, else by its contents.
class Structure {
 public:
  Structure(Side& side, const Side& other) : side_(side), other_(other) {}

  std::vector<size_t> outputs() { return graph(side_.model.graph, nullptr, {}); }

 private:
  struct Scope {
    const Scope* outer;
    std::unordered_map<std::string_view, size_t> values;

    size_t find(std::string_view name) const {
      for (const Scope* s = this; s; s = s->outer)
        if (const auto at = s->values.find(name); at != s->values.end()) return at->second;
      return std::hash<std::string_view>()(name);
    }
  };

  std::vector<size_t> graph(std::string_view message, const Scope* outer, std::string_view seed) {
    constexpr int most_nested = 64;
    if (depth_ > most_nested) throw Error(Code::LimitExceeded, "bodies of the ONNX model are nested too deeply");
    ++depth_;
    Scope scope{outer, {}};
    size_t inputs = 0;
    for_each(message, onnxfile::input_of_graph, [&](std::string_view bytes) {
      scope.values.emplace(onnxfile::parse_value(bytes).name, mixed(mixed(1, seed), ++inputs));
    });
    for_each(message, onnxfile::initializer_of_graph, [&](std::string_view bytes) {
      const onnxfile::Tensor tensor = onnxfile::parse_tensor(bytes);
      const bool named = !outer && other_.weights.contains(tensor.name);
      scope.values[tensor.name] = named ? mixed(2, tensor.name) : content_hash(side_, tensor);
    });
    for_each(message, onnxfile::node_of_graph, [&](std::string_view bytes) {
      const onnxfile::Node n = onnxfile::parse_node(bytes);
      const size_t hash = node(n, scope);
      for (size_t i = 0; i < n.outputs.size(); ++i) scope.values[n.outputs[i]] = mixed(hash, i);
    });
    std::vector<size_t> out;
    for_each(message, onnxfile::output_of_graph,
             [&](std::string_view bytes) { out.push_back(scope.find(onnxfile::parse_value(bytes).name)); });
    --depth_;
    return out;
  }

  size_t node(const onnxfile::Node& n, const Scope& scope) {
    size_t hash = mixed(3, n.qualified());
    for (const std::string_view input : n.inputs) hash = mixed(hash, input.empty() ? 0 : scope.find(input));
    std::map<std::string_view, size_t> attributes;
    for (const std::string_view bytes : n.attributes) {
      const onnxfile::Attribute a = onnxfile::parse_attribute(bytes);
      attributes[a.name] = attribute(a, scope);
    }
    for (const auto& [name, value] : attributes) hash = mixed(mixed(hash, name), value);
    return hash;
  }

  size_t attribute(const onnxfile::Attribute& a, const Scope& scope) {
    size_t hash = 4;
    for (const auto& [field, value] : a.values) hash = mixed(mixed(hash, field), value);
    for (const std::string_view tensor : a.tensors)
      hash = mixed(hash, content_hash(side_, onnxfile::parse_tensor(tensor)));
    for (const std::string_view body : a.graphs)
      for (const size_t output : graph(body, &scope, a.name)) hash = mixed(hash, output);
    return hash;
  }

  Side& side_;
  const Side& other_;
  int depth_ = 0;
};

// ---- counts and texts -----------------------------------------------------------------------------------------------

/// Lines of counts that differ.
void add_differences(const std::map<std::string, int>& before, const std::map<std::string, int>& after,
                     const std::string& prefix, std::vector<std::string>& out) {
  std::map<std::string, std::pair<int, int>> both;
  for (const auto& [name, count] : before) both[name].first = count;
  for (const auto& [name, count] : after) both[name].second = count;
  for (const auto& [name, counts] : both) {
    if (counts.first == counts.second) continue;
    if (counts.first) out.push_back(fmt::format("- {}{} {}", prefix, counts.first, name));
    if (counts.second) out.push_back(fmt::format("+ {}{} {}", prefix, counts.second, name));
  }
}

using Modules = std::map<std::string, std::map<std::string, int>>;

struct Counted {
  std::map<std::string, int> operators;
  Modules modules;
};

Counted counted(const onnxfile::Model& model) {
  Counted out;
  const auto count = [&](const onnxfile::Node& node) {
    const std::string name = printable(node.qualified());
    ++out.operators[name];
    ++out.modules[printable(node.module())][name];
  };
  onnxfile::for_each_node(model.graph, onnxfile::node_of_graph, count);
  for (const std::string_view function : model.functions)
    onnxfile::for_each_node(function, onnxfile::node_of_function, count);
  return out;
}

void compare_nodes(const onnxfile::Model& a, const onnxfile::Model& b, DiffResult& out) {
  Counted before = counted(a), after = counted(b);
  add_differences(before.operators, after.operators, "", out.operators);
  if (before.modules.size() == 1 && after.modules.size() == 1) return;  // the same lines again
  for (const auto& [module, counts] : after.modules) before.modules.try_emplace(module);
  for (const auto& [module, counts] : before.modules)
    add_differences(counts, after.modules[module], module.empty() ? "(no module): " : module + ": ", out.modules);
}

/// Inputs, outputs, opsets: a line each.
std::vector<std::string> interface_of(const Side& side) {
  std::vector<std::string> out;
  for (const auto& [domain, version] : side.model.opsets)
    out.push_back(fmt::format("opset {} {}", driver::domain_name(domain), version));
  for_each(side.model.graph, onnxfile::input_of_graph, [&](std::string_view bytes) {
    const onnxfile::Value value = onnxfile::parse_value(bytes);
    if (!side.weights.contains(value.name)) out.push_back("input " + driver::info_of(value).str());
  });
  for_each(side.model.graph, onnxfile::output_of_graph, [&](std::string_view bytes) {
    out.push_back("output " + driver::info_of(onnxfile::parse_value(bytes)).str());
  });
  return out;
}

void compare_interfaces(const Side& a, const Side& b, DiffResult& out) {
  const std::vector<std::string> before = interface_of(a), after = interface_of(b);
  const auto add_missing = [&](const auto& lines, const auto& in, const char* sign) {
    const std::set<std::string_view> known(in.begin(), in.end());
    for (const std::string& line : lines)
      if (!known.contains(line)) out.interface.push_back(sign + line);
  };
  add_missing(before, after, "- ");
  add_missing(after, before, "+ ");
  if (out.interface.empty() && before != after) out.interface.push_back("~ the order of inputs or outputs");
}

}  // namespace

DiffResult diff_files(const std::string& before, const std::string& after) {
  return driver::guarded(Interface::Cpp, [&] {
    Side a(before), b(after);
    DiffResult out;
    compare_interfaces(a, b, out);
    compare_nodes(a.model, b.model, out);
    compare_weights(a, b, out);
    out.same_graph = Structure(a, b).outputs() == Structure(b, a).outputs();
    return out;
  });
}

}  // namespace lithify
