// The public API: links the reader, the evaluator with its rules, and the writer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "driver/custom.hpp"
#include "driver/inputs.hpp"
#include "driver/source.hpp"
#include "eval/evaluator.hpp"
#include "lithify/lithify.hpp"
#include "ops/register.hpp"
#include "program/print.hpp"
#include "program/verify.hpp"
#include "write/model.hpp"

namespace lithify {
namespace {

Message to_message(const Diagnostic& d) {
  constexpr const char* names[] = {"note", "warning", "error"};
  return {code_text(d.code),
          names[static_cast<int>(d.severity)],
          d.subject,
          d.message,
          d.place.file,
          d.place.line,
          d.place.function,
          d.hint,
          d.str()};
}

std::vector<Message> to_messages(const std::vector<Diagnostic>& all) {
  std::vector<Message> out;
  for (const Diagnostic& d : all) out.push_back(to_message(d));
  return out;
}

/// Runs `f`, and turns every way in which it can fail into an ExportError.
template <class F>
auto guarded(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error& e) {
    throw ExportError(to_messages(e.diagnostics()));
  } catch (const std::bad_alloc&) {
    throw ExportError(to_messages(Error(Code::LimitExceeded, "there is not enough memory").diagnostics()));
  } catch (const ExportError&) {
    throw;
  } catch (const std::exception& e) {
    throw ExportError(to_messages(Error(Code::Internal, e.what()).diagnostics()));
  }
}

class Stopwatch {
 public:
  void lap(std::string stage) {
    auto now = std::chrono::steady_clock::now();
    laps.emplace_back(std::move(stage), std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }
  std::vector<std::pair<std::string, double>> laps;

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

ValueInfo info_of(const onnx::Value& v) {
  ValueInfo out{v.name, std::string(name_of(v.dtype)), {}, true};
  for (onnx::Dim d : v.shape) out.shape.push_back(d.str());
  return out;
}

template <class Map>
std::vector<std::pair<std::string, int>> by_count(const Map& counts) {
  std::vector<std::pair<std::string, int>> out(counts.begin(), counts.end());
  std::stable_sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.second > b.second; });
  return out;
}

/// The tensors of a result, with names by the way to them.
void collect_outputs(onnx::Builder& b, const eval::Value& v, const std::string& name,
                     std::vector<std::pair<std::string, onnx::Value*>>& out, int depth = 0) {
  constexpr int most_nested = 64;
  if (depth > most_nested) throw Error(Code::LimitExceeded, "the model's result nests too deep");
  auto below = [&](const std::string& part) { return name.empty() ? part : name + "_" + part; };
  if (v.is_none()) return;
  if (v.is_tensor()) {
    out.emplace_back(name, v.tensor()->read(b));
  } else if (v.is_int()) {
    out.emplace_back(name, b.symbolic(v.integer()));
  } else if (auto* d = v.get_if<double>()) {
    out.emplace_back(name, b.scalar(DType::Float, *d));
  } else if (auto* flag = v.get_if<bool>()) {
    out.emplace_back(name, b.scalar_int(DType::Bool, *flag));
  } else if (auto* t = v.get_if<eval::Tuple>(); t && t->named) {
    for (size_t i = 0; i < t->items->size() && i < t->named->attributes.size(); ++i)
      collect_outputs(b, (*t->items)[i], below(t->named->attributes[i].first), out, depth + 1);
  } else if (v.is_list() || v.is<eval::Tuple>()) {
    const std::vector<eval::Value>& items = v.items();
    for (size_t i = 0; i < items.size(); ++i) collect_outputs(b, items[i], below(std::to_string(i)), out, depth + 1);
  } else if (auto* dict = v.get_if<std::shared_ptr<eval::Dict>>()) {
    (*dict)->check();
    for (auto& [key, value] : (*dict)->items) {
      auto* text = key.get_if<std::string>();
      collect_outputs(b, value, below(text ? *text : key.is_int() ? key.integer().str() : "key"), out, depth + 1);
    }
  } else if (auto* undecided = v.get_if<eval::Undecided>()) {
    throw Error(Code::UnsupportedControlFlow, undecided->why);
  } else {
    throw Error(Code::UnsupportedType, fmt::format("the model returns a {}, which ONNX cannot", v.kind_name()));
  }
}

/// An output's default name is "output", "output_0", ...; a name from the model stands for itself.
std::string output_name(const std::string& path) {
  if (path.empty()) return "output";
  return std::isdigit(static_cast<unsigned char>(path[0])) ? "output_" + path : path;
}

struct Evaluated {
  sym::Context sym;
  onnx::Model model;
  std::vector<Diagnostic> diagnostics;
  std::map<std::string, eval::OperatorUse> operators;
  bool failed() const {
    return std::any_of(diagnostics.begin(), diagnostics.end(),
                       [](const Diagnostic& d) { return d.severity == Severity::Error; });
  }
};

void name_outputs(const ExportOptions& options, const onnx::Graph& graph,
                  std::vector<std::pair<std::string, onnx::Value*>>& outputs) {
  for (auto& [name, value] : outputs) name = output_name(name);
  if (options.output_names.size() > outputs.size())
    throw Error(Code::BadOption, fmt::format("{} output names are given, and the model has {} outputs",
                                             options.output_names.size(), outputs.size()));
  for (size_t i = 0; i < options.output_names.size(); ++i) outputs[i].first = options.output_names[i];
  std::set<std::string> distinct;
  for (auto& [name, value] : outputs)
    if (!distinct.insert(name).second) throw Error(Code::BadOption, fmt::format("two outputs are called '{}'", name));
  for (const onnx::Value* in : graph.inputs) {
    auto clash = std::find_if(outputs.begin(), outputs.end(), [&](auto& o) { return o.first == in->name; });
    if (clash == outputs.end()) continue;
    bool asked = static_cast<size_t>(clash - outputs.begin()) < options.output_names.size();
    if (asked) throw Error(Code::BadOption, fmt::format("an input and an output are both called '{}'", in->name));
    clash->first += "_out";
  }
}

// Complex outputs leave the model as real numbers, which the user must know.
void split_complex(onnx::Builder& b, std::vector<std::pair<std::string, onnx::Value*>>& outputs,
                   std::vector<Diagnostic>& diagnostics) {
  for (auto& [name, value] : outputs) {
    if (!is_complex(value->dtype)) continue;
    diagnostics.push_back({Code::UnsupportedType,
                           Severity::Warning,
                           fmt::format("the output '{}' is {}: the model gives its real and imaginary parts as {}, "
                                       "along a last axis of 2",
                                       name, name_of(value->dtype), name_of(part_type(value->dtype))),
                           {},
                           "",
                           name});
    value = b.pairs(value);
  }
}

// Every name in dynamic_axes is that of an input or output; an output's axis that cannot change is worth a warning.
void check_dynamic(const ExportOptions& options, const onnx::Graph& graph, std::vector<Diagnostic>& diagnostics,
                   const std::vector<driver::TensorInput>& inputs) {
  for (auto& [name, axes] : options.dynamic_axes) {
    bool input =
        std::any_of(inputs.begin(), inputs.end(), [&](auto& in) { return in.name == name || in.path == name; });
    auto out = std::find_if(graph.outputs.begin(), graph.outputs.end(), [&](auto* v) { return v->name == name; });
    if (input) continue;
    if (out == graph.outputs.end())
      throw Error(Code::UnknownInput,
                  fmt::format("--dynamic names '{}', which is neither an input nor an output", name));
    for (auto& [axis, dim] : axes) {
      int64_t rank = static_cast<int64_t>((*out)->rank()), at = axis < 0 ? axis + rank : axis;
      if (at < 0 || at >= rank)
        throw Error(Code::BadOption,
                    fmt::format("output '{}' has {} dimensions, and axis {} is declared dynamic", name, rank, axis));
      if (onnx::Dim size = (*out)->shape[static_cast<size_t>(at)]; size.is_constant())
        diagnostics.push_back(
            {Code::BadOption,
             Severity::Warning,
             fmt::format("axis {} of the output '{}' is declared dynamic, and is always {}", axis, name, size.str()),
             {},
             "",
             name});
    }
  }
}

std::unique_ptr<Evaluated> evaluate(const program::Program& program, const ExportOptions& options) {
  if (options.opset < lowest_opset || options.opset > highest_opset)
    throw Error(Code::BadOpset, fmt::format("opset {} cannot be written", options.opset),
                fmt::format("opsets {} to {} can", lowest_opset, highest_opset));
  program::verify(program);
  auto out = std::make_unique<Evaluated>();
  out->model.opset = options.opset;
  out->model.producer_version = version();
  out->model.graph = std::make_unique<onnx::Graph>();
  onnx::Builder builder(*out->model.graph, out->sym, options.opset);
  driver::ModelInputs inputs = driver::make_inputs(program, options, builder);
  if (!inputs.preconditions.empty())
    out->model.metadata.emplace_back("lithify.preconditions", fmt::format("{}", fmt::join(inputs.preconditions, ", ")));
  driver::Rules rules(options, program);
  eval::Evaluator evaluator(program, rules.registry(), builder);
  evaluator.symbols = std::move(inputs.symbols);
  evaluator.self_check = options.self_check;
  evaluator.most_unrolled = options.unroll;
  eval::Value result = evaluator.run(std::move(inputs.arguments));
  out->diagnostics = std::move(inputs.warnings);
  std::ranges::move(evaluator.diagnostics, std::back_inserter(out->diagnostics));
  std::ranges::move(rules.assumptions, std::back_inserter(out->diagnostics));
  out->operators = std::move(evaluator.operators);
  if (out->failed()) return out;
  std::vector<std::pair<std::string, onnx::Value*>> outputs;
  collect_outputs(builder, result, "", outputs);
  if (outputs.empty()) throw Error(Code::UnsupportedType, "the model returns no tensor");
  name_outputs(options, *out->model.graph, outputs);
  split_complex(builder, outputs, out->diagnostics);
  builder.finish(outputs);
  rules.declare_domains(out->model);
  check_dynamic(options, *out->model.graph, out->diagnostics, driver::find_inputs(program, options));
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

/// `out` is what write_model takes: a path, or how to get memory.
template <class Out>
ExportResult export_to(const ModelSource& model, const Out& out, const ExportOptions& options) {
  return guarded([&] {
    Stopwatch watch;
    read::Opened opened = driver::open_source(model);
    watch.lap("read");
    std::unique_ptr<Evaluated> evaluated = evaluate(*opened.program, options);
    if (evaluated->failed()) throw Error(evaluated->diagnostics);
    watch.lap("convert");
    write::WriteOptions write_options;
    write_options.external = static_cast<write::WriteOptions::External>(options.external_data);
    write_options.progress = options.progress;
    write::WriteResult written = write::write_model(evaluated->model, out, write_options);
    watch.lap("write");

    ExportResult result;
    const onnx::Graph& graph = *evaluated->model.graph;
    for (const onnx::Value* v : graph.inputs) result.inputs.push_back(info_of(*v));
    for (const onnx::Value* v : graph.outputs) result.outputs.push_back(info_of(*v));
    std::map<std::string, int> counts;
    for (const onnx::Node* n : graph.all_nodes()) ++counts[n->op_type];
    result.nodes = by_count(counts);
    result.opset = options.opset;
    result.weights = graph.initializers().size();
    result.weight_bytes = written.weight_bytes;
    result.file_bytes = written.bytes;
    result.external_file = written.external_file;
    result.seconds = watch.laps;
    result.messages = to_messages(evaluated->diagnostics);
    result.graph_text = onnx::print(graph);
    return result;
  });
}

OperatorStatus status_of(const std::string& name, int count) {
  const auto& overloads = ops::all_rules().overloads(name.substr(0, name.find('.')));
  int since = lowest_opset;
  if (!overloads.empty())
    since = (*std::min_element(overloads.begin(), overloads.end(), [](auto* a, auto* b) {
              return a->since < b->since;
            }))->since;
  return {name, count, !overloads.empty(), std::max(since, lowest_opset)};
}

}  // namespace

ExportResult export_file(const ModelSource& model, const std::string& out, const ExportOptions& options) {
  guarded([&] {
    std::error_code ignored;
    if (std::filesystem::equivalent(model.path, out, ignored))
      throw Error(Code::BadOption, fmt::format("the output '{}' is the model itself", out));
  });
  return export_to(model, std::filesystem::path(out), options);
}

ExportResult export_bytes(const ModelSource& model, const std::function<std::byte*(uint64_t size)>& allocate,
                          const ExportOptions& options) {
  return export_to(model, allocate, options);
}

namespace {

/// The model in every opset, and which of them to choose. `ready` is what the opset that was asked for gave.
void try_opsets(const program::Program& program, ExportOptions options, const Evaluated& ready, CheckResult& result) {
  const int asked = options.opset;
  for (int opset = lowest_opset; opset <= highest_opset; ++opset) {
    OpsetStatus status{opset, false, 0};
    options.opset = opset;
    try {
      std::unique_ptr<Evaluated> other;
      if (opset != asked) other = evaluate(program, options);
      const Evaluated& evaluated = other ? *other : ready;
      status.exportable = !evaluated.failed();
      if (status.exportable) status.nodes = static_cast<int>(evaluated.model.graph->all_nodes().size());
    } catch (const Error&) {
    }
    if (status.exportable) {
      const auto& all = result.opsets;
      auto fewer = [&](const OpsetStatus& s) { return s.exportable && s.nodes <= status.nodes; };
      if (!result.lowest_opset) result.lowest_opset = opset;
      if (std::none_of(all.begin(), all.end(), fewer)) result.fewest_nodes_opset = opset;
    }
    result.opsets.push_back(status);
  }
}

/// Whether another opset may do what this one cannot.
bool only_opset(const std::vector<Diagnostic>& diagnostics) {
  return std::all_of(diagnostics.begin(), diagnostics.end(),
                     [](const Diagnostic& d) { return d.severity != Severity::Error || d.code == Code::NeedsOpset; });
}

}  // namespace

CheckResult check_file(const ModelSource& model, const ExportOptions& options) {
  read::Opened opened = guarded([&] { return driver::open_source(model); });
  CheckResult result;
  result.opset = options.opset;
  try {
    guarded([&] {
      std::unique_ptr<Evaluated> evaluated = evaluate(*opened.program, options);
      for (auto& [name, use] : evaluated->operators) {
        result.operators.push_back(status_of(name, use.count));
        result.operators.back().supported = use.supported;
      }
      result.messages = to_messages(evaluated->diagnostics);
      result.exportable = !evaluated->failed();
      if (only_opset(evaluated->diagnostics)) try_opsets(*opened.program, options, *evaluated, result);
    });
  } catch (const ExportError& e) {
    for (auto& [name, count] : count_operators(*opened.program)) result.operators.push_back(status_of(name, count));
    result.messages = e.messages;
  }
  return result;
}

InspectResult inspect_file(const ModelSource& model) {
  return guarded([&] {
    read::Opened opened = driver::open_source(model);
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
  std::map<std::string, SupportedOperator> all;
  for (const eval::Rule& rule : ops::all_rules().rules()) {
    SupportedOperator& op = all[rule.schema.name];
    if (op.schemas.empty() || rule.since < op.since) op.since = rule.since;
    op.name = rule.schema.name;
    if (!rule.derived) op.schemas.push_back(rule.schema.text);
  }
  std::vector<SupportedOperator> out;
  for (auto& [name, op] : all) {
    op.since = std::max(op.since, lowest_opset);
    out.push_back(std::move(op));
  }
  return out;
}

}  // namespace lithify
