// The results of the public API as JSON.
#include "base/json_writer.hpp"
#include "claims/claims.hpp"
#include "lithify/lithify.hpp"

namespace lithify {
namespace {

void write(JsonWriter& j, const Message& m) {
  j.open('{').field("code", m.code).field("severity", m.severity).field("subject", m.subject).field("text", m.text);
  j.field("file", m.file).field("line", m.line).field("function", m.function).field("hint", m.hint).close('}');
}

void write(JsonWriter& j, const ValueInfo& v) {
  j.open('{').field("name", v.name).field("dtype", v.dtype).field("rank_known", v.rank_known);
  j.list("shape", v.shape).close('}');
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
  if (!r.code.empty()) j.field("code", r.code);
  return j.close('}').text();
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
