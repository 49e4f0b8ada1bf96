// The public API: links the reader, the evaluator with its rules, and the writer.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "base/options.hpp"
#include "claims/claims.hpp"
#include "driver/claim.hpp"
#include "driver/errors.hpp"
#include "driver/guarded.hpp"
#include "driver/inputs.hpp"
#include "driver/live.hpp"
#include "driver/other_sizes.hpp"
#include "driver/smaller.hpp"
#include "driver/source.hpp"
#include "driver/tied_sizes.hpp"
#include "lithify/lithify.hpp"
#include "onnx/text.hpp"
#include "ops/register.hpp"
#include "platform/file.hpp"
#include "program/print.hpp"
#include "read/weights.hpp"
#include "write/model.hpp"

namespace lithify {
namespace {

using driver::guarded;
using driver::to_messages;

class Stopwatch {
 public:
  void lap(std::string stage) {
    auto now = std::chrono::steady_clock::now();
    laps.emplace_back(std::move(stage), std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }
  /// Two stages in one, of which the first took some seconds in all.
  void lap(std::string first, std::string second, double of_first) {
    lap(std::move(second));
    laps.back().second -= of_first;
    laps.insert(laps.end() - 1, {std::move(first), of_first});
  }
  std::vector<std::pair<std::string, double>> laps;

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

ValueInfo info_of(const onnx::Value& v) {
  const std::string type = onnx::print_type(v);
  ValueInfo out{v.name, type.substr(0, type.find('[')), {}, true};
  for (onnx::Dim d : v.shape) out.shape.push_back(d ? d.str() : "?");
  return out;
}

template <class Map>
std::vector<std::pair<std::string, int>> by_count(const Map& counts) {
  std::vector<std::pair<std::string, int>> out(counts.begin(), counts.end());
  std::stable_sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.second > b.second; });
  return out;
}

void count_operators(const std::vector<program::Stmt>& body, std::map<std::string, int>& counts);

void count_operators(const program::Expr& e, std::map<std::string, int>& counts) {
  if (e.kind == program::Expr::Kind::Operator) ++counts[e.name];
  for (const program::Expr& i : e.items) count_operators(i, counts);
}

void count_operators(const std::vector<program::Stmt>& body, std::map<std::string, int>& counts) {
  for (const program::Stmt& s : body) {
    for (const program::Expr& e : s.values) count_operators(e, counts);
    count_operators(s.body, counts);
    count_operators(s.orelse, counts);
  }
}

/// The operators as they stand in the code.
std::map<std::string, int> count_operators(const program::Program& program) {
  std::map<std::string, int> counts;
  for (auto& [name, f] : program.functions) count_operators(f.body, counts);
  for (auto& [name, c] : program.classes)
    for (const program::Function& f : c.methods) count_operators(f.body, counts);
  return counts;
}

void count_weights(const program::Object& object, std::set<const void*>& seen, InspectResult& result) {
  if (!seen.insert(&object).second) return;
  for (auto& [name, data] : object.attributes) {
    if (data.tensor && seen.insert(data.tensor.get()).second) {
      ++result.weights;
      result.weight_bytes += data.tensor->nbytes();
    }
    if (data.object) count_weights(*data.object, seen, result);
  }
}

}  // namespace

const char* version() { return "0.1.0"; }

std::string ValueInfo::str() const {
  std::string sizes;
  for (const std::string& s : shape) sizes += (sizes.empty() ? "" : ", ") + s;
  return fmt::format("{}: {}{}", name, dtype.empty() ? "?" : dtype, rank_known ? "[" + sizes + "]" : "[?]");
}

namespace {

/// Writes what was converted, and describes it. `out` is what write_model takes: a path, or how to get memory.
template <class Out>
ExportResult write_to(const Out& out, const driver::Converted& converted, const driver::CaptureFacts& facts,
                      const ExportOptions& options, Stopwatch& watch) {
  driver::Evaluated& evaluated = *converted.evaluated;
  ExportResult result;
  result.claims = driver::make_claims(converted.opened->program(), evaluated, facts);
  result.dimensions = result.claims.dimensions;
  for (const DimensionClaim& d : result.dimensions)
    evaluated.model.metadata.emplace_back("lithify.dimension." + d.name, d.str());
  evaluated.model.metadata.emplace_back(claims::metadata_key, to_json(result.claims));
  driver::make_smaller(evaluated, options);
  // All that is read from the model's file is read before the output gets its name.
  const onnx::Graph& graph = *evaluated.model.graph;
  for (const onnx::Value* v : graph.inputs) result.inputs.push_back(info_of(*v));
  for (const onnx::Value* v : graph.outputs) result.outputs.push_back(info_of(*v));
  std::map<std::string, int> counts;
  for (const onnx::Node* n : graph.all_nodes()) ++counts[n->op_type];
  result.nodes = by_count(counts);
  result.opset = evaluated.model.opset;
  result.weights = graph.initializers().size();
  result.messages = to_messages(evaluated.diagnostics, options.interface);
  result.graph_text = onnx::print(graph, [&](const onnx::Node& n) {
    const Place place = converted.opened->program().locate(eval::pos_of(n));
    return place.known() ? fmt::format("{}:{}", place.file, place.line) : "";
  });
  watch.lap("claims");

  write::WriteOptions write_options;
  write_options.external = static_cast<write::WriteOptions::External>(options.external_data);
  write_options.sync = !options.skip_sync;
  write_options.progress = options.progress;
  write_options.before_commit = [&] { converted.opened->check_unchanged(); };
  const write::WriteResult written = write::write_model(evaluated.model, out, write_options);
  watch.lap("write");
  for (const onnx::Value* v : graph.initializers())
    for (const onnx::Tensor::Piece& piece : v->constant->pieces)
      if (piece.quantized && piece.quantized->error)
        result.quantized.push_back({piece.quantized->error->weight, std::string(name_of(piece.quantized->integers)),
                                    piece.quantized->error->relative()});
  result.weight_bytes = written.weight_bytes;
  result.file_bytes = written.bytes;
  result.external_file = written.external_file;
  result.seconds = watch.laps;
  return result;
}

template <class Out>
ExportResult export_to(const ModelSource& model, const Out& out, const ExportOptions& options) {
  return guarded(options.interface, [&] {
    Stopwatch watch;
    const driver::Converted converted = driver::convert(driver::sources_of(model, options), options);
    watch.lap("convert");
    return write_to(out, converted, driver::facts_of(converted), options, watch);
  });
}

template <class Out>
ExportResult export_live_to(FrontEnd& model, CaptureStrategy strategy, const Out& out, const ExportOptions& options) {
  constexpr const char* names[] = {"trace", "script", "export"};
  return guarded(options.interface, [&] {
    Stopwatch watch;
    const driver::LiveConverted live = driver::convert_live(model, strategy, options);
    watch.lap("capture", "convert", live.seconds);
    driver::CaptureFacts facts = live.facts ? *live.facts : driver::facts_of(live.converted);
    facts.bounds = model.bounds();
    ExportResult result = write_to(out, live.converted, facts, options, watch);
    result.capture = names[static_cast<int>(live.kind)];
    result.capture_reason = live.reason;
    return result;
  });
}

}  // namespace

ExportResult export_file(const ModelSource& model, const std::string& out, const ExportOptions& options) {
  guarded(options.interface, [&] {
    std::error_code ignored;
    if (std::filesystem::equivalent(platform::path_of(model.path), platform::path_of(out), ignored))
      throw Error(Code::BadOption, fmt::format("the output '{}' is the model itself", out), "write to another path");
  });
  return export_to(model, platform::path_of(out), options);
}

ExportResult export_bytes(const ModelSource& model, const std::function<std::byte*(uint64_t size)>& allocate,
                          const ExportOptions& options) {
  return export_to(model, allocate, options);
}

ExportResult export_live(FrontEnd& model, CaptureStrategy strategy, const std::string& out,
                         const ExportOptions& options) {
  return export_live_to(model, strategy, platform::path_of(out), options);
}

ExportResult export_live(FrontEnd& model, CaptureStrategy strategy,
                         const std::function<std::byte*(uint64_t size)>& allocate, const ExportOptions& options) {
  return export_live_to(model, strategy, allocate, options);
}

std::vector<Sizes> other_sizes(const Sizes& sample) { return driver::aligned_sizes(sample); }

std::optional<int64_t> tied_size(const std::string& name, const Sizes& sizes) {
  std::set<std::string> names;
  for (const auto& [dimension, size] : sizes) names.insert(dimension);
  const std::optional<program::Expr> formula = driver::formula_of(name, names);
  return formula ? driver::value_of(*formula, sizes) : std::nullopt;
}

DiscoverResult discover_file(const ModelSource& model, const ExportOptions& options) {
  return guarded(options.interface, [&] {
    ExportOptions all = options;
    all.discover = true;
    const driver::Converted converted = driver::convert(driver::sources_of(model, all), all);
    const program::Program& program = converted.opened->program();
    const driver::Evaluated& evaluated = *converted.evaluated;
    DiscoverResult result;
    for (const onnx::Value* v : evaluated.model.graph->inputs) result.inputs.push_back(info_of(*v));
    result.dimensions = driver::make_claims(program, evaluated, driver::facts_of(converted)).dimensions;
    return result;
  });
}

namespace {

OperatorStatus status_of(const std::string& name, int count) {
  const auto& overloads = ops::all_rules().overloads(name.substr(0, name.find('.')));
  int since = lowest_opset;
  if (!overloads.empty()) since = std::ranges::min(overloads, {}, &eval::Rule::since).since;
  return {name, count, !overloads.empty(), std::max(since, lowest_opset)};
}

/// The model in every opset, and which of them to choose. Hard-coded sizes are recovered once: what numbers stand for
/// does not depend on the opset. `asked` is the result for the opset that was asked for.
void try_opsets(const driver::PreparedModel& model, const driver::Traces& traces, const driver::Recovered& asked,
                CheckResult& result) {
  std::optional<driver::Recovered> known;
  if (!asked.outcome->failed()) known = asked;
  auto nodes_in = [&](int opset) -> std::optional<int> {
    try {
      if (known && known->outcome->model.opset != opset)
        known->outcome = model.evaluate({known->formulas, false, opset});
      if (!known) {
        driver::Recovered found = driver::recover(model, traces, opset);
        if (found.outcome->failed()) return std::nullopt;
        known = std::move(found);
      }
      if (known->outcome->failed()) return std::nullopt;
      return static_cast<int>(known->outcome->model.graph->all_nodes().size());
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  int fewest = std::numeric_limits<int>::max();
  for (int opset = lowest_opset; opset <= highest_opset; ++opset) {
    const std::optional<int> nodes = nodes_in(opset);
    result.opsets.push_back({opset, nodes.has_value(), nodes.value_or(0)});
    if (!nodes) continue;
    if (!result.lowest_opset) result.lowest_opset = opset;
    if (*nodes < fewest) result.fewest_nodes_opset = opset;
    fewest = std::min(fewest, *nodes);
  }
}

}  // namespace

CheckResult check_file(const ModelSource& model, const ExportOptions& options) {
  const driver::Opened opened =
      guarded(options.interface, [&] { return driver::Opened(driver::sources_of(model, options)); });
  CheckResult result;
  result.opset = options.opset.value_or(default_opset);
  try {
    guarded(options.interface, [&] {
      const driver::PreparedModel prepared(opened.program(), driver::settled(opened, options));
      const driver::Recovered asked = driver::recover(prepared, opened.traces());
      const std::shared_ptr<driver::Evaluated>& evaluated = asked.outcome;
      for (auto& [name, use] : evaluated->operators) {
        result.operators.push_back(status_of(name, use.count));
        result.operators.back().supported = use.supported;
      }
      result.messages = to_messages(evaluated->diagnostics, options.interface);
      result.exportable = !evaluated->failed();
      result.opset = evaluated->model.opset;
      // Another opset may do what this one cannot.
      if (driver::has_only_errors(evaluated->diagnostics, {Code::NeedsOpset}))
        try_opsets(prepared, opened.traces(), asked, result);
    });
  } catch (const ExportError& e) {
    for (auto& [name, count] : count_operators(opened.program())) result.operators.push_back(status_of(name, count));
    result.messages = e.messages;
  }
  return result;
}

namespace {

/// The tensors of a file that has only weights; nothing when it is of another kind.
std::optional<InspectResult> inspect_weights(const ModelSource& model) {
  const auto file = model.path.empty() ? nullptr : archive::MappedFile::open(model.path);
  const std::span bytes = file ? file->bytes() : std::span(model.bytes.data, model.bytes.size);
  const std::optional<read::WeightFile> found = read::read_weights({bytes, file});
  if (!found) return std::nullopt;
  InspectResult result;
  result.kind = found->kind;
  for (const auto& t : found->tensors) {
    result.tensors.push_back({t.name, t.dtype, t.sizes, t.bytes});
    result.weight_bytes += t.bytes;
  }
  result.weights = result.tensors.size();
  return result;
}

}  // namespace

InspectResult inspect_file(const ModelSource& model) {
  return guarded(Interface::Cpp, [&] {  // reading a file takes no options that a message may name
    read::Opened opened;
    try {
      opened = driver::open_source(model);
    } catch (const Error& e) {
      if (e.first().code != Code::NotAModel) throw;
      std::optional<InspectResult> weights = inspect_weights(model);
      if (!weights) throw;
      return *std::move(weights);
    }
    const program::Program& program = *opened.program;
    InspectResult result;
    result.kind = program.producer;
    result.release = printable(program.release);
    result.file_version = program.file_version;
    for (const driver::TensorInput& in : driver::find_inputs(program, {})) {
      ValueInfo info{in.name, in.dtype ? std::string(name_of(*in.dtype)) : "", {}, in.sizes.has_value()};
      if (in.sizes)
        for (auto& s : *in.sizes) info.shape.push_back(s.name.empty() ? std::to_string(*s.value) : s.name);
      result.inputs.push_back(std::move(info));
    }
    result.returns = program.forward().returns.str();
    result.operators = by_count(count_operators(program));
    std::set<const void*> seen;
    if (program.root) count_weights(*program.root, seen, result);
    result.code = program::print(program);
    return result;
  });
}

std::vector<SupportedOperator> supported_operators() {
  std::vector<SupportedOperator> out;
  for (const std::string& name : ops::all_rules().names()) {
    const std::vector<eval::Rule>& overloads = ops::all_rules().overloads(name);
    SupportedOperator& op = out.emplace_back();
    op.name = name;
    op.since = std::max(std::ranges::min(overloads, {}, &eval::Rule::since).since, lowest_opset);
    // Rules of one schema may be for different operands.
    for (const eval::Rule& rule : overloads)
      if (!rule.derived && std::ranges::find(op.schemas, rule.schema.text) == op.schemas.end())
        op.schemas.push_back(rule.schema.text);
  }
  return out;
}

}  // namespace lithify
