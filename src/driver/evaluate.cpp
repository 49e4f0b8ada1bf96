#include "driver/evaluate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>

#include "base/options.hpp"
#include "claims/formula.hpp"
#include "driver/equal_sizes.hpp"
#include "driver/errors.hpp"
#include "driver/outputs.hpp"
#include "driver/smaller.hpp"
#include "onnx/facts.hpp"
#include "onnx/hash.hpp"
#include "onnx/opdef.hpp"
#include "onnx/verify.hpp"
#include "program/verify.hpp"
#include "provenance/claims.hpp"
#include "rewrite/finish.hpp"

namespace lithify::driver {
namespace {

/// A number, or the only element of an integer tensor; nothing where it depends on data.
std::optional<sym::Expr> size_of(const eval::Value& v, onnx::Builder& b) {
  if (v.is_int()) return v.integer();
  if (!v.is_tensor()) return std::nullopt;
  const onnx::Value& tensor = *v.tensor()->read(b);
  if (!tensor.contents || tensor.contents->size() != 1 || !tensor.contents->front()) return std::nullopt;
  return tensor.contents->front();
}

/// Takes what the code around the program asked of sizes from the program's results, and returns the rest.
eval::Value take_followed(const Followed& followed, const eval::Value& result, onnx::Builder& b, Evaluated& out) {
  const size_t conditions = followed.conditions.size(), taken = conditions + followed.sizes;
  out.decided_conditions.resize(conditions);
  out.condition_facts.resize(conditions);
  out.followed_sizes.resize(followed.sizes);
  if (taken == 0 || result.is_poison()) return result;
  const std::vector<eval::Value>& all = result.items();
  if (taken > all.size()) throw Error(Code::BadOption, "the program returns fewer values than sizes are followed");
  const std::span<const eval::Value> last = std::span(all).last(taken);
  for (size_t i = 0; i < conditions; ++i) {
    const std::optional<sym::Expr> outcome = size_of(last[i], b);
    if (outcome && outcome->is_constant()) out.decided_conditions[i] = !outcome->is(0);
    if (last[i].is_tensor())
      out.condition_facts[i] = onnx::facts_of(last[i].tensor()->read(b), followed.conditions[i].outcome);
  }
  for (size_t i = 0; i < followed.sizes; ++i) out.followed_sizes[i] = size_of(last[conditions + i], b);
  return eval::Value::tuple({all.begin(), all.end() - static_cast<ptrdiff_t>(taken)});
}

/// The sizes that a formula over s0, s1, ... is about; nothing where one depends on data.
std::optional<std::vector<sym::Expr>> sizes_in(const std::string& formula, const Evaluated& out) {
  if (formula.empty()) return std::nullopt;
  std::vector<sym::Expr> sizes;
  for (const std::string& name : claims::Formula::parse(formula).names()) {
    const size_t i = std::stoul(name.substr(1));
    if (i >= out.followed_sizes.size() || !out.followed_sizes[i]) return std::nullopt;
    sizes.push_back(*out.followed_sizes[i]);
  }
  return sizes;
}

/// Finds the sizes that escape: where, and what they are. One that is not known may be of any dimension. What is a
/// number on the path that is given shows nothing of other sizes.
void find_escaped(const Followed& followed, Evaluated& out) {
  auto is_fixed = [&](sym::Expr size) { return out.sym->known(size).is_constant(); };
  auto is_size = [&](sym::Expr size) {
    return std::ranges::all_of(sym::symbols(size), [&](sym::Expr s) {
      return std::ranges::any_of(out.dimensions, [&](const auto& d) { return d.second == s; });
    });
  };
  out.escaped_sizes.emplace();
  for (size_t i = 0; i < followed.escapes.size(); ++i) {
    const Escape& e = followed.escapes[i];
    const std::optional<std::vector<sym::Expr>> sizes = sizes_in(e.formula, out);
    if (sizes && std::ranges::all_of(*sizes, is_fixed)) continue;
    if (e.of_contents && (!sizes || !std::ranges::all_of(*sizes, is_size))) {
      out.escaped_data[i] = fmt::format("{} of a number at {}", e.what, e.where);
      continue;
    }
    out.escaped.push_back(fmt::format("{} of a size at {}", e.what, e.where));
    for (const auto& [name, symbol] : out.dimensions)
      if (!sizes || std::ranges::any_of(*sizes, [symbol = symbol](sym::Expr s) {
            return std::ranges::count(sym::symbols(s), symbol) > 0;
          }))
        out.escaped_dimensions[name].push_back(out.escaped.back());
    if (!sizes)
      out.escaped_sizes.reset();
    else if (out.escaped_sizes)
      std::ranges::copy_if(*sizes, std::back_inserter(*out.escaped_sizes),
                           [](sym::Expr s) { return !s.is_constant(); });
  }
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

/// What the next run begins with. Throws UnsupportedState where it has another type or other sizes than this run did.
onnx::Value* next(const eval::Change& change) {
  if (change.after) return change.after;
  throw Error(
      Diagnostic{Code::UnsupportedState, Severity::Error,
                 fmt::format("a run can leave '{}' with another type or other sizes than it began with", change.name),
                 change.place, fmt::format("{} resets it in every run", option("state", "frozen")), change.name});
}

}  // namespace

Diagnostic is_frozen(const std::string& name, const Place& place) {
  return {Code::UnsupportedState,
          Severity::Warning,
          fmt::format("the results depend on '{}', which every run of the model changes; the exported model starts "
                      "every run with its value now",
                      name),
          place,
          "",
          name};
}

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

/// How many statements a program has, those of branches and loops each once.
size_t statements_of(const program::Program& program) {
  size_t n = 0;
  const auto count = [&](const auto& self, const std::vector<program::Stmt>& body) -> void {
    n += body.size();
    for (const program::Stmt& s : body) {
      self(self, s.body);
      self(self, s.orelse);
    }
  };
  for (const auto& [name, f] : program.functions) count(count, f.body);
  for (const auto& [name, type] : program.classes)
    for (const program::Function& f : type.methods) count(count, f.body);
  return n;
}

// ---- evaluation ---------------------------------------------------------------------------------------------------

/// Tensors and numbers of the model that are inputs of the graph, by name, and whether what they are at the end are
/// outputs.
struct PreparedModel::StateInputs {
  std::set<std::string> names = {};
  bool outputs = false;
};

PreparedModel::PreparedModel(const program::Program& program, const ExportOptions& options,
                             std::optional<Followed> followed)
    : program_(program), options_(options), followed_(std::move(followed)), rules_(options_, program) {
  if (const int opset = options_.opset.value_or(default_opset); opset < lowest_opset || opset > highest_opset)
    throw Error(Code::BadOpset, fmt::format("opset {} cannot be written", opset),
                fmt::format("opsets {} to {} can", lowest_opset, highest_opset));
  if (options_.budget < 1 || options_.budget > 1000)
    throw Error(Code::BadOption, fmt::format("{} cannot be allowed", option("budget", options_.budget)),
                "give a number from 1 to 1000");
  check_smaller(options_);
  program::verify(program);
  sym_->budget.allow(statements_of(program), options_.budget);
  inputs_ = find_inputs(program, options_, &warnings_);
}

namespace {

bool needs_later_opset(const Evaluated& e) {
  return std::ranges::any_of(
      e.diagnostics, [](const Diagnostic& d) { return d.severity == Severity::Error && d.code == Code::NeedsOpset; });
}

/// The lowest opset from default_opset on that has the element types of the inputs.
int lowest_for(const std::vector<TensorInput>& inputs) {
  int lowest = default_opset;
  for (const TensorInput& in : inputs) lowest = std::max(lowest, onnx::first_opset(in.dtype.value_or(DType::Float)));
  return lowest;
}

Diagnostic chosen_opset(int opset) {
  return {Code::NeedsOpset,
          Severity::Note,
          fmt::format("opset {} is the lowest from {} on that can express the model", opset, default_opset),
          {},
          "",
          ""};
}

}  // namespace

std::shared_ptr<Evaluated> PreparedModel::evaluate_with(const Variant& variant, const StateInputs& state) const {
  sym_->restart();
  auto out = std::make_shared<Evaluated>(sym_);
  out->model.opset = variant.opset.value();
  out->model.producer_version = version();
  out->model.graph = std::make_unique<onnx::Graph>();
  out->model.graph->given = given_;
  for (const provenance::Assumed& equal : equal_)
    out->model.graph->given.push_back({sym::Fact::Kind::Equal, equal.assumption.a, equal.assumption.b});
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
  if (followed_) {
    result.value = take_followed(*followed_, result.value, builder, *out);
    find_escaped(*followed_, *out);
  }
  if (!out->failed()) {
    // What is left to do still reports sizes that have to be assumed.
    const sym::Observed observed(*sym_, &recorder);
    Outputs outputs = collect_outputs(builder, result.value, out->diagnostics);
    if (outputs.empty())
      throw Error(Code::UnsupportedType, "the model returns no tensor", "return at least one tensor from forward");
    name_outputs(options_, *out->model.graph, outputs);
    for (const eval::Change& change : out->changes)
      if (state.outputs && state.names.contains(change.name)) outputs.emplace_back(change.name + ".next", next(change));
    split_complex(builder, outputs, out->diagnostics);
    rewrite::finish(builder, outputs);
    rules_.declare_domains(out->model);
    if (onnx::verification()) onnx::verify(out->model, "evaluation and rewrites");
    check_dynamic(options_, *out->model.graph, inputs_, out->diagnostics);
  }
  out->record = recorder.take();
  std::ranges::copy(equal_, std::back_inserter(out->record.assumptions));
  return out;
}

std::shared_ptr<Evaluated> PreparedModel::evaluate_with_equal_sizes(const Variant& variant) const {
  std::shared_ptr<Evaluated> out = evaluate_with(variant, {});
  // With formulas, sizes that do not agree are a reason against these formulas.
  while (variant.formulas.empty()) {
    const std::optional<provenance::Assumed> equal = equal_dimensions(*out);
    if (!equal) break;
    equal_.push_back(*equal);
    out = evaluate_with(variant, {});
  }
  report_fixed_axes(program_, inputs_, *out);
  return out;
}

std::shared_ptr<Evaluated> PreparedModel::evaluate(Variant variant) const {
  if (!variant.opset) variant.opset = options_.opset;
  if (variant.opset) return evaluate_in_opset(variant);
  const int smaller = first_opset_of_smaller(options_), lowest = std::max(smaller, lowest_for(inputs_));
  std::shared_ptr<Evaluated> first;
  for (int opset = lowest; opset <= highest_opset; ++opset) {
    variant.opset = opset;
    std::shared_ptr<Evaluated> out = evaluate_in_opset(variant);
    if (!needs_later_opset(*out)) {
      if (first || opset > std::max(default_opset, smaller)) out->report(chosen_opset(opset));
      return out;
    }
    if (!first) first = out;
  }
  return first;
}

std::shared_ptr<Evaluated> PreparedModel::evaluate_in_opset(const Variant& variant) const {
  std::shared_ptr<Evaluated> out = evaluate_with_equal_sizes(variant);
  if (out->failed() || out->changes.empty()) return out;
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
    if (options_.state == ExportOptions::State::Frozen ? kept : !change.after || (kept && !state.outputs))
      out->diagnostics.push_back(options_.state == ExportOptions::State::Frozen ? is_frozen(change.name, change.place)
                                                                                : keeps_state(change));
  return out;
}

}  // namespace lithify::driver
