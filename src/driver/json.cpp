// The results of the public API as JSON.
#include <charconv>
#include <cmath>

#include "base/json_writer.hpp"
#include "claims/claims.hpp"
#include "lithify/lithify.hpp"

namespace lithify {
namespace {

void write(JsonWriter& j, const Message& m) {
  j.open('{').field("code", m.code).field("severity", m.severity).field("subject", m.subject).field("text", m.text);
  j.field("file", m.file).field("line", m.line).field("function", m.function).field("hint", m.hint).close('}');
}

/// A size is a number, a name or formula, or null where it is not known.
void write_size(JsonWriter& j, const std::string& size) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), number);
  if (error == std::errc() && end == size.data() + size.size())
    j.value(number);
  else if (size == "?")
    j.json("null");
  else
    j.value(size);
}

void write(JsonWriter& j, const ValueInfo& v) {
  j.open('{').field("name", v.name).field("dtype", v.dtype);
  if (v.rank_known)
    j.list("shape", v.shape, [&](const std::string& size) { write_size(j, size); });
  else
    j.key("shape").json("null");
  j.close('}');
}

void write(JsonWriter& j, const TensorInfo& t) {
  j.open('{').field("name", t.name).field("dtype", t.dtype).list("shape", t.shape).field("bytes", t.bytes).close('}');
}

void write(JsonWriter& j, const QuantizedWeight& w) {
  j.open('{').field("name", w.name).field("dtype", w.dtype).key("error").json(fmt::format("{}", w.error)).close('}');
}

void write(JsonWriter& j, const WeightChange& c) {
  j.open('{').field("name", c.name).field("other", c.other).field("what", c.what).key("before");
  write(j, c.before);
  j.key("after");
  write(j, c.after);
  j.field("changed", c.changed).key("largest");
  j.json(std::isfinite(c.largest) ? fmt::format("{}", c.largest) : "null").close('}');
}

using claims::write;

void write(JsonWriter& j, const OperatorStatus& o) {
  j.open('{').field("name", o.name).field("count", o.count).field("supported", o.supported);
  j.field("since", o.since).close('}');
}

void write(JsonWriter& j, const OpsetStatus& s) {
  j.open('{').field("opset", s.opset).field("exportable", s.exportable).field("nodes", s.nodes);
  j.key("runtimes").open('[');
  for (const Runtime& runtime : runtimes())
    if (s.exportable && runtime.opset >= s.opset) j.value(runtime.name);
  j.close(']').close('}');
}

template <class T>
void write_list(JsonWriter& j, std::string_view name, const std::vector<T>& items) {
  j.list(name, items, [&](const T& item) { write(j, item); });
}

template <class T>
void write_map(JsonWriter& j, std::string_view name, const std::vector<std::pair<std::string, T>>& items) {
  j.key(name).open('{');
  for (auto& [key, value] : items) j.field(key, value);
  j.close('}');
}

}  // namespace

std::string to_json(const ExportResult& r) {
  JsonWriter j;
  j.open('{').field("opset", r.opset);
  write_list(j, "inputs", r.inputs);
  write_list(j, "outputs", r.outputs);
  write_list(j, "dimensions", r.dimensions);
  j.key("claims");
  write(j, r.claims);
  write_map(j, "nodes", r.nodes);
  j.field("weights", r.weights).field("weight_bytes", r.weight_bytes).field("file_bytes", r.file_bytes);
  write_list(j, "quantized", r.quantized);
  j.field("external_file", r.external_file);
  write_map(j, "seconds", r.seconds);
  write_list(j, "messages", r.messages);
  return j.close('}').text();
}

std::string to_json(const Claims& c) {
  JsonWriter j;
  write(j, c);
  return j.text();
}

std::string to_json(const ClaimAnswer& a) {
  JsonWriter j;
  j.open('{').key("holds").json(!a.holds ? "null" : *a.holds ? "true" : "false").field("why", a.why);
  return j.close('}').text();
}

std::string to_json(const CheckResult& r) {
  JsonWriter j;
  j.open('{').field("exportable", r.exportable).field("opset", r.opset);
  write_list(j, "operators", r.operators);
  write_list(j, "messages", r.messages);
  j.field("lowest_opset", r.lowest_opset).field("fewest_nodes_opset", r.fewest_nodes_opset);
  write_list(j, "opsets", r.opsets);
  return j.close('}').text();
}

std::string to_json(const InspectResult& r) {
  JsonWriter j;
  j.open('{')
      .field("kind", r.kind)
      .field("release", r.release)
      .field("file_version", r.file_version)
      .field("returns", r.returns);
  write_list(j, "inputs", r.inputs);
  write_map(j, "operators", r.operators);
  j.field("weights", r.weights).field("weight_bytes", r.weight_bytes);
  if (r.dynamic) {
    write_list(j, "dynamic_inputs", r.dynamic->inputs);
    write_list(j, "dimensions", r.dynamic->dimensions);
  }
  if (!r.tensors.empty()) write_list(j, "tensors", r.tensors);
  if (!r.code.empty()) j.field("code", r.code);
  return j.close('}').text();
}

std::string to_json(const OnnxSummary& s) {
  JsonWriter j;
  j.open('{').field("ir_version", s.ir_version).field("producer", s.producer);
  write_map(j, "opsets", s.opsets);
  write_list(j, "inputs", s.inputs);
  write_list(j, "outputs", s.outputs);
  write_map(j, "nodes", s.nodes);
  write_map(j, "modules", s.modules);
  j.list("functions", s.functions).field("weights", s.weights).field("weight_bytes", s.weight_bytes);
  write_list(j, "largest", s.largest);
  j.list("external_files", s.external_files);
  write_map(j, "metadata", s.metadata);
  return j.field("file_bytes", s.file_bytes).close('}').text();
}

std::string to_json(const DiffResult& r) {
  JsonWriter j;
  j.open('{').field("same", r.same()).field("same_graph", r.same_graph);
  j.list("interface", r.interface).list("operators", r.operators).list("modules", r.modules);
  write_list(j, "weights", r.weights);
  write_list(j, "removed", r.removed);
  write_list(j, "added", r.added);
  return j.field("equal_weights", r.equal_weights).close('}').text();
}

std::string to_json(const std::vector<SupportedOperator>& operators) {
  JsonWriter j;
  j.open('[');
  for (const SupportedOperator& o : operators)
    j.open('{').field("name", o.name).field("since", o.since).list("schemas", o.schemas).close('}');
  return j.close(']').text();
}

std::string to_json(const std::vector<Message>& messages) {
  JsonWriter j;
  j.open('{');
  write_list(j, "messages", messages);
  return j.close('}').text();
}

}  // namespace lithify
