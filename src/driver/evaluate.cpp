#include "driver/evaluate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "driver/custom.hpp"
#include "driver/inputs.hpp"
#include "eval/carry.hpp"
#include "eval/elements.hpp"
#include "onnx/verify.hpp"
#include "program/verify.hpp"
#include "rewrite/finish.hpp"

namespace lithify::driver {
namespace {

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
    out.emplace_back(name, b.scalar(DType::Double, *d));
  } else if (auto* flag = v.get_if<bool>()) {
    out.emplace_back(name, b.scalar_int(DType::Bool, *flag));
  } else if (auto* t = v.get_if<eval::Tuple>(); t && t->named) {
    for (size_t i = 0; i < t->items->size() && i < t->named->attributes.size(); ++i)
      collect_outputs(b, (*t->items)[i], below(t->named->attributes[i].first), out, depth + 1);
  } else if (v.is_open_list()) {
    if (onnx::Value* elements = eval::readable_elements(b, v)) out.emplace_back(name, eval::as_sequence(b, elements));
  } else if (auto* maybe = v.get_if<eval::Maybe>()) {
    out.emplace_back(name, eval::as_optional(b, *maybe));
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

/// Takes the sizes that left the program from its results. Returns those that are not known.
std::vector<std::string> take_left(const std::vector<std::string>& left,
                                   std::vector<std::pair<std::string, onnx::Value*>>& outputs) {
  if (left.size() > outputs.size()) throw Error(Code::BadOption, "more sizes left the program than it has results");
  const size_t first = outputs.size() - left.size();
  std::vector<std::string> unknown;
  for (size_t i = 0; i < left.size(); ++i) {
    const onnx::Value& v = *outputs[first + i].second;
    const bool known = v.is_constant() || (v.contents && std::ranges::all_of(*v.contents, &onnx::Dim::is_constant));
    if (!known) unknown.push_back(left[i]);
  }
  outputs.resize(first);
  return unknown;
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
                   const std::vector<TensorInput>& inputs) {
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

/// Tensors and numbers of the model that are inputs of the graph, by name, and whether what they are at the end are
/// outputs.
struct StateInputs {
  std::set<std::string> names = {};
  bool outputs = false;
};

std::unique_ptr<Evaluated> evaluate_with(const program::Program& program, const ExportOptions& options,
                                         const Repairs& repairs, bool stop_early, const StateInputs& state) {
  if (options.opset < lowest_opset || options.opset > highest_opset)
    throw Error(Code::BadOpset, fmt::format("opset {} cannot be written", options.opset),
                fmt::format("opsets {} to {} can", lowest_opset, highest_opset));
  program::verify(program);
  auto out = std::make_unique<Evaluated>();
  out->model.opset = options.opset;
  out->model.producer_version = version();
  out->model.graph = std::make_unique<onnx::Graph>();
  onnx::Builder builder(*out->model.graph, out->sym, options.opset);
  ModelInputs inputs = make_inputs(program, options, builder);
  if (!inputs.preconditions.empty())
    out->model.metadata.emplace_back("lithify.preconditions", fmt::format("{}", fmt::join(inputs.preconditions, ", ")));
  for (const onnx::Value* in : out->model.graph->inputs)
    for (onnx::Dim d : in->shape)
      if (d.is_symbol()) out->dimensions.emplace(out->sym.info(d).name, d);
  out->preconditions = std::move(inputs.preconditions);
  Rules rules(options, program);
  eval::Evaluator evaluator(program, rules.registry(), builder);
  evaluator.symbols = std::move(inputs.symbols);
  evaluator.self_check = options.self_check && options.also.empty();
  evaluator.most_unrolled = options.unroll;
  evaluator.stop_early = stop_early;
  evaluator.state_inputs = state.names;
  for (auto& [literal, formula] : repairs.numbers) evaluator.repairs[literal] = out->rebuilt(*repairs.sym, formula);
  eval::Value result = evaluator.run(std::move(inputs.arguments));
  out->diagnostics = std::move(inputs.warnings);
  std::ranges::move(evaluator.diagnostics, std::back_inserter(out->diagnostics));
  std::ranges::move(rules.assumptions, std::back_inserter(out->diagnostics));
  out->operators = std::move(evaluator.operators);
  out->issues = std::move(evaluator.issues);
  out->moved_boundaries = builder.moved_boundaries.size();
  out->uses = std::move(evaluator.uses);
  out->origins = std::move(evaluator.origins);
  if (out->failed()) return out;
  std::vector<std::pair<std::string, onnx::Value*>> outputs;
  collect_outputs(builder, result, "", outputs);
  if (options.left) out->left = take_left(*options.left, outputs);
  if (outputs.empty()) throw Error(Code::UnsupportedType, "the model returns no tensor");
  name_outputs(options, *out->model.graph, outputs);
  out->changes = evaluator.changes();
  for (const eval::Change& change : out->changes)
    if (state.outputs && state.names.contains(change.name)) outputs.emplace_back(change.name + ".next", change.after);
  split_complex(builder, outputs, out->diagnostics);
  rewrite::finish(builder, outputs);
  rules.declare_domains(out->model);
  if (onnx::verification()) onnx::verify(out->model, "evaluation and rewrites");
  check_dynamic(options, *out->model.graph, out->diagnostics, find_inputs(program, options));
  return out;
}

bool uses(const onnx::Graph& graph, const std::set<std::string>& inputs) {
  return std::ranges::any_of(graph.all_nodes(), [&](const onnx::Node* node) {
    return std::ranges::any_of(node->inputs, [&](const onnx::Value* in) {
      return in && in->kind == onnx::Value::Kind::Input && inputs.contains(in->name);
    });
  });
}

Diagnostic keeps_state(const eval::Change& change) {
  if (!change.after && change.grows)
    return {Code::UnsupportedState,
            Severity::Error,
            fmt::format("every run makes the list '{}' longer, and the next one finds it so", change.name),
            change.place,
            "--state frozen lets every run begin with what the file holds",
            change.name};
  if (!change.after)
    return {
        Code::UnsupportedState,
        Severity::Warning,
        fmt::format("'{}' is set by every run; in the export, every run begins with what the file holds", change.name),
        change.place,
        "",
        change.name};
  return {Code::UnsupportedState,
          Severity::Error,
          fmt::format("the results depend on '{}', which every run changes", change.name),
          change.place,
          "--state io makes it an input and an output; --state frozen lets every run begin with what the file holds",
          change.name};
}

}  // namespace

std::unique_ptr<Evaluated> evaluate(const program::Program& program, const ExportOptions& options,
                                    const Repairs& repairs, bool stop_early) {
  std::unique_ptr<Evaluated> out = evaluate_with(program, options, repairs, stop_early, {});
  if (out->failed() || out->changes.empty() || options.state == ExportOptions::State::Frozen) return out;
  // What a run changes shows fully once it begins with any state: a flag that only the second run sets is state, too.
  StateInputs state;
  std::map<std::string, eval::Change> changes;
  std::unique_ptr<Evaluated> with;
  for (const Evaluated* last = out.get(); last; last = with && !with->failed() ? with.get() : nullptr) {
    const size_t known = changes.size();
    for (const eval::Change& change : last->changes) {
      changes.try_emplace(change.name, change);
      if (change.after) state.names.insert(change.name);
    }
    if (changes.size() == known) break;
    if (!state.names.empty()) with = evaluate_with(program, options, repairs, stop_early, state);
  }
  // What no result depends on is nobody's concern: statistics in training, results kept for a look.
  const bool kept = with && (with->failed() || uses(*with->model.graph, state.names));
  state.outputs = options.state == ExportOptions::State::InOut;
  if (kept && state.outputs) out = evaluate_with(program, options, repairs, stop_early, state);
  for (auto& [name, change] : changes)
    if (!change.after || (kept && !state.outputs)) out->diagnostics.push_back(keeps_state(change));
  return out;
}

}  // namespace lithify::driver
