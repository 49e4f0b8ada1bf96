// What is in an ONNX file.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <unordered_map>

#include "archive/bytes.hpp"
#include "archive/mapped_file.hpp"
#include "base/diagnostic.hpp"
#include "driver/guarded.hpp"
#include "driver/onnx_file.hpp"
#include "onnxfile/model.hpp"

namespace lithify {
namespace {

using onnxfile::for_each;

/// Counts by name, in the order of their first appearance.
class Counter {
 public:
  void add(std::string name) {
    const auto [at, is_new] = index_.try_emplace(name, counts.size());
    if (is_new) counts.emplace_back(std::move(name), 0);
    ++counts[at->second].second;
  }
  std::vector<std::pair<std::string, int>> counts;

 private:
  std::unordered_map<std::string, size_t> index_;
};

void add_weight(const onnxfile::Tensor& tensor, OnnxSummary& out, std::set<std::string>& files) {
  constexpr size_t shown = 5;
  TensorInfo info = driver::info_of(tensor);
  ++out.weights;
  out.weight_bytes += info.bytes;
  for (const auto& [key, value] : tensor.external)
    if (key == "location" && files.size() < 100) files.insert(printable(value));
  const auto place = std::ranges::upper_bound(out.largest, info.bytes, std::greater(), &TensorInfo::bytes);
  if (place == out.largest.end() && out.largest.size() == shown) return;
  out.largest.insert(place, std::move(info));
  if (out.largest.size() > shown) out.largest.pop_back();
}

OnnxSummary summary_of(std::string_view file, const std::string& name) {
  const onnxfile::Model model = onnxfile::parse_model(file, name);
  OnnxSummary out;
  out.file_bytes = file.size();
  out.ir_version = model.ir_version;
  out.producer = printable(
      fmt::format("{}{}{}", model.producer_name, model.producer_version.empty() ? "" : " ", model.producer_version));
  for (const auto& [domain, version] : model.opsets) out.opsets.emplace_back(driver::domain_name(domain), version);
  for (const auto& [key, value] : model.metadata) out.metadata.emplace_back(printable(key), printable(value));
  std::set<std::string> weights, files;
  for_each(model.graph, onnxfile::initializer_of_graph, [&](std::string_view message) {
    const onnxfile::Tensor tensor = onnxfile::parse_tensor(message);
    weights.insert(std::string(tensor.name));
    add_weight(tensor, out, files);
  });
  out.external_files.assign(files.begin(), files.end());
  for_each(model.graph, onnxfile::input_of_graph, [&](std::string_view message) {
    const onnxfile::Value value = onnxfile::parse_value(message);
    if (!weights.contains(std::string(value.name))) out.inputs.push_back(driver::info_of(value));
  });
  for_each(model.graph, onnxfile::output_of_graph,
           [&](std::string_view message) { out.outputs.push_back(driver::info_of(onnxfile::parse_value(message))); });
  Counter operators, modules;
  const auto count = [&](const onnxfile::Node& node) {
    operators.add(printable(node.qualified()));
    if (const std::string module = node.module(); !module.empty()) modules.add(printable(module));
  };
  onnxfile::for_each_node(model.graph, onnxfile::node_of_graph, count);
  for (const std::string_view function : model.functions) {
    out.functions.push_back(printable(onnxfile::function_name(function)));
    onnxfile::for_each_node(function, onnxfile::node_of_function, count);
  }
  out.nodes = std::move(operators.counts);
  std::ranges::stable_sort(out.nodes, std::greater(), &std::pair<std::string, int>::second);
  out.modules = std::move(modules.counts);
  return out;
}

}  // namespace

namespace driver {

ValueInfo info_of(const onnxfile::Value& v) {
  ValueInfo out{printable(v.name), v.dtype, {}, v.rank_known};
  for (const std::string& size : v.shape) out.shape.push_back(printable(size));
  return out;
}

TensorInfo info_of(const onnxfile::Tensor& t) {
  return {printable(t.name), t.type_name(), t.dims, t.raw.empty() ? t.expected_bytes() : t.raw.size()};
}

std::string domain_name(std::string_view domain) { return domain.empty() ? "ai.onnx" : printable(domain); }

}  // namespace driver

OnnxSummary show_file(const std::string& model) {
  return driver::guarded(Interface::Cpp, [&] {
    const auto file = archive::MappedFile::open(model);
    return summary_of(archive::as_text(file->bytes()), fmt::format("'{}'", model));
  });
}

OnnxSummary show_file(Bytes model) {
  return driver::guarded(Interface::Cpp,
                         [&] { return summary_of(archive::as_text(std::span(model.data, model.size)), "the file"); });
}

}  // namespace lithify
