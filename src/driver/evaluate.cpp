#include "driver/evaluate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/options.hpp"
#include "driver/errors.hpp"
#include "driver/outputs.hpp"
#include "onnx/hash.hpp"
#include "onnx/verify.hpp"
#include "program/verify.hpp"
#include "provenance/claims.hpp"
#include "rewrite/finish.hpp"

namespace lithify::driver {
namespace {

/// Takes the sizes that escape the program from its results. Returns those that are dynamic.
std::vector<std::string> take_escaped(const std::vector<std::string>& escapes, Outputs& outputs) {
  if (escapes.size() > outputs.size()) throw Error(Code::BadOption, "more sizes escape the program than it returns");
  const size_t first = outputs.size() - escapes.size();
  std::vector<std::string> dynamic;
  for (size_t i = 0; i < escapes.size(); ++i) {
    const onnx::Value& v = *outputs[first + i].second;
    const bool known = v.is_constant() || (v.contents && std::ranges::all_of(*v.contents, &onnx::Dim::is_constant));
    if (!known) dynamic.push_back(escapes[i]);
  }
  outputs.resize(first);
  return dynamic;
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
    return {
        Code::UnsupportedState,
        Severity::Error,
        fmt::format("every run appends to the list '{}', and the next run starts with the longer list", change.name),
        change.place,
        fmt::format("{} resets it in every run", option("state", "frozen")),
        change.name};
  if (!change.after)
    return {
        Code::UnsupportedState,
        Severity::Warning,
        fmt::format("every run sets '{}'; the exported model starts every run with the value in the file", change.name),
        change.place,
        "",
        change.name};
  return {Code::UnsupportedState,
          Severity::Error,
          fmt::format("the results depend on '{}', which every run changes", change.name),
          change.place,
          fmt::format("{} makes it an input and an output; {} resets it in every run", option("state", "io"),
                      option("state", "frozen")),
          change.name};
}

}  // namespace

bool may_hard_code(const program::Program& program) { return program.traced && program.producer != "torch.export"; }

// ---- what came of a program ---------------------------------------------------------------------------------------

void Evaluated::report(Diagnostic d) {
  if (std::ranges::find(diagnostics, d) == diagnostics.end()) diagnostics.push_back(std::move(d));
}

bool Evaluated::failed() const { return !has_only_errors(diagnostics, {}); }

bool Evaluated::failed_otherwise() const {
  return !has_only_errors(diagnostics, {Code::HardCodedSize, Code::ShapeMismatch});
}

uint64_t Evaluated::structure() const { return onnx::structural_hash(*model.graph); }

std::vector<sym::Expr> Evaluated::sizes() const {
  std::vector<sym::Expr> out;
  if (!model.graph) return out;
  for (const onnx::Node* node : model.graph->all_nodes())
    for (const onnx::Value* value : node->outputs)
      std::ranges::copy_if(value->shape, std::back_inserter(out), [](onnx::Dim d) { return static_cast<bool>(d); });
  return out;
}

// ---- evaluation ---------------------------------------------------------------------------------------------------

/// Tensors and numbers of the model that are inputs of the graph, by name, and whether what they are at the end are
/// outputs.
struct PreparedModel::StateInputs {
  std::set<std::string> names = {};
  bool outputs = false;
};

PreparedModel::PreparedModel(const program::Program& program, const ExportOptions& options, Escapes escapes)
    : program_(program), options_(options), escapes_(std::move(escapes)), rules_(options_, program) {
  if (options_.opset < lowest_opset || options_.opset > highest_opset)
    throw Error(Code::BadOpset, fmt::format("opset {} cannot be written", options_.opset),
                fmt::format("opsets {} to {} can", lowest_opset, highest_opset));
  program::verify(program);
  inputs_ = find_inputs(program, options_, &warnings_);
}

std::shared_ptr<Evaluated> PreparedModel::evaluate_with(const Variant& variant, const StateInputs& state) const {
  sym_->restart();
  auto out = std::make_shared<Evaluated>(sym_);
  out->model.opset = variant.opset.value_or(options_.opset);
  out->model.producer_version = version();
  out->model.graph = std::make_unique<onnx::Graph>();
  onnx::Builder builder(*out->model.graph, *sym_, out->model.opset);
  ModelInputs inputs = make_inputs(program_, inputs_, builder);
  out->assumed = std::move(inputs.assumed);
  for (const TensorInput& in : inputs_)
    for (const onnx::Value* value : out->model.graph->inputs)
      if (value->name == in.name) out->input_shapes.emplace(in.path, value->shape);
  for (const onnx::Value* in : out->model.graph->inputs)
    for (onnx::Dim d : in->shape)
      if (d.is_symbol()) out->dimensions.emplace(sym_->info(d).name, d);
  std::vector<std::string> preconditions;
  for (auto& [name, symbol] : out->dimensions)
    std::ranges::move(provenance::bounds_of(*sym_, symbol), std::back_inserter(preconditions));
  if (!preconditions.empty())
    out->model.metadata.emplace_back("lithify.preconditions", fmt::format("{}", fmt::join(preconditions, ", ")));

  const bool suspicious = may_hard_code(program_);
  Journal journal;
  provenance::Recorder recorder(program_, *sym_, journal, variant.formulas, suspicious);
  eval::Result result = eval::run(program_, rules_.registry(), builder, std::move(inputs.arguments),
                                  {.most_unrolled = options_.unroll,
                                   .stop_early = variant.stop_early,
                                   .self_check = options_.self_check && options_.also.empty(),
                                   .symbols = std::move(inputs.symbols),
                                   .state_inputs = state.names},
                                  journal, &recorder);
  out->diagnostics = warnings_;
  std::ranges::move(result.diagnostics, std::back_inserter(out->diagnostics));
  std::ranges::copy(rules_.assumptions, std::back_inserter(out->diagnostics));
  out->operators = std::move(result.operators);
  out->changes = std::move(result.changes);
  if (!out->failed()) {
    // What is left to do still reports sizes that have to be assumed.
    const sym::Observed observed(*sym_, &recorder);
    Outputs outputs = collect_outputs(builder, result.value);
    if (escapes_) out->escaped = take_escaped(*escapes_, outputs);
    if (outputs.empty())
      throw Error(Code::UnsupportedType, "the model returns no tensor", "return at least one tensor from forward");
    name_outputs(options_, *out->model.graph, outputs);
    for (const eval::Change& change : out->changes)
      if (state.outputs && state.names.contains(change.name)) outputs.emplace_back(change.name + ".next", change.after);
    split_complex(builder, outputs, out->diagnostics);
    rewrite::finish(builder, outputs);
    rules_.declare_domains(out->model);
    if (onnx::verification()) onnx::verify(out->model, "evaluation and rewrites");
    check_dynamic(options_, *out->model.graph, inputs_, out->diagnostics);
  }
  out->record = recorder.take();
  return out;
}

std::shared_ptr<Evaluated> PreparedModel::evaluate(const Variant& variant) const {
  std::shared_ptr<Evaluated> out = evaluate_with(variant, {});
  if (out->failed() || out->changes.empty() || options_.state == ExportOptions::State::Frozen) return out;
  // What a run changes shows fully once it begins with any state: a flag that only the second run sets is state, too.
  StateInputs state;
  std::map<std::string, eval::Change> changes;
  std::shared_ptr<Evaluated> with;
  for (const Evaluated* last = out.get(); last; last = with && !with->failed() ? with.get() : nullptr) {
    const size_t known = changes.size();
    for (const eval::Change& change : last->changes) {
      changes.try_emplace(change.name, change);
      if (change.after) state.names.insert(change.name);
    }
    if (changes.size() == known) break;
    if (!state.names.empty()) with = evaluate_with(variant, state);
  }
  // What no result depends on is ignored: statistics in training, results kept for inspection.
  const bool kept = with && (with->failed() || uses(*with->model.graph, state.names));
  state.outputs = options_.state == ExportOptions::State::InOut;
  if (kept && state.outputs) out = evaluate_with(variant, state);
  for (auto& [name, change] : changes)
    if (!change.after || (kept && !state.outputs)) out->diagnostics.push_back(keeps_state(change));
  return out;
}

}  // namespace lithify::driver
