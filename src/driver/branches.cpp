#include "driver/branches.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "driver/merged.hpp"
#include "driver/separate.hpp"
#include "provenance/compare.hpp"

namespace lithify::driver {
namespace {

using program::Expr;
using program::Program;
using program::Stmt;

/// Traces that differ in numbers alone, by index.
using Group = std::vector<size_t>;

std::vector<Group> groups_of(const Traces& traces) {
  std::vector<Group> out;
  for (size_t i = 0; i < traces.size(); ++i) {
    const auto same = std::ranges::find_if(
        out, [&](const Group& g) { return provenance::differ_in_numbers(*traces[g[0]].program, *traces[i].program); });
    (same == out.end() ? out.emplace_back() : *same).push_back(i);
  }
  return out;
}

Expr integer(int64_t value) {
  Expr out;
  out.kind = Expr::Kind::Int;
  out.integer = value;
  return out;
}

Expr operation(const char* name, std::vector<Expr> items) {
  Expr out;
  out.kind = Expr::Kind::Operator;
  out.name = name;
  out.items = std::move(items);
  return out;
}

Expr name(std::string text) {
  Expr out;
  out.kind = Expr::Kind::Name;
  out.name = std::move(text);
  return out;
}

/// The size of a dimension, read from an input that is a parameter of forward.
Expr size_of(const std::string& dimension, const PreparedModel& model) {
  for (const TensorInput& input : model.inputs()) {
    const auto& parameters = model.program().forward().parameters;
    if (!input.sizes || std::ranges::find(parameters, input.path, &program::Parameter::name) == parameters.end())
      continue;
    for (size_t axis = 0; axis < input.sizes->size(); ++axis)
      if ((*input.sizes)[axis].name == dimension)
        return operation("aten::size", {name(input.path), integer(static_cast<int64_t>(axis))});
  }
  throw Error(Code::TracesDiverge, fmt::format("no tensor that forward takes has the dimension '{}'", dimension));
}

/// The condition as a 0-d tensor.
Expr condition(const Separator& s, const Sizes& names, const PreparedModel& model) {
  const auto size = [&](size_t dimension) { return size_of(names[dimension].first, model); };
  const auto tensor = [](const char* op, Expr a, Expr b) {
    return operation("prim::NumToTensor", {operation(op, {std::move(a), std::move(b)})});
  };
  switch (s.kind) {
    case Separator::Kind::Above:
      return tensor("aten::gt", size(s.first), integer(s.number));
    case Separator::Kind::Equal:
      return tensor("aten::eq", size(s.first), integer(s.number));
    case Separator::Kind::Multiple:
      return tensor("aten::eq", operation("aten::remainder", {size(s.first), integer(s.number)}), integer(0));
    case Separator::Kind::AboveOther:
      return tensor("aten::gt", size(s.first), size(s.second));
    case Separator::Kind::EqualOther:
      return tensor("aten::eq", size(s.first), size(s.second));
  }
  throw Error(Code::Internal, "there is no such separator");
}

/// Has forward compute the conditions first, and return them after its results. Returns how many results it has.
size_t add_results(Program& program, const std::vector<Expr>& conditions) {
  program::Class& root = program.classes.at(program.root->class_name);
  program::Function& forward = *std::ranges::find(root.methods, "forward", &program::Function::name);
  if (forward.body.empty() || forward.body.back().kind != Stmt::Kind::Return)
    throw Error(Code::TracesDiverge, "a program with control flow is not a trace, and cannot be merged with others");
  Expr& result = forward.body.back().values[0];
  if (result.kind != Expr::Kind::Tuple) {
    Expr tuple;
    tuple.kind = Expr::Kind::Tuple;
    tuple.items.push_back(std::move(result));
    result = std::move(tuple);
    forward.returns = {"Tuple", {forward.returns}};
  }
  const size_t outputs = result.items.size();
  std::vector<Stmt> first;
  for (const Expr& c : conditions) {
    Stmt& s = first.emplace_back();
    s.kind = Stmt::Kind::Assign;
    s.targets = {fmt::format("condition_{}", first.size())};
    s.values = {c};
    result.items.push_back(name(s.targets[0]));
    forward.returns.args.push_back({"Tensor", {}});
  }
  forward.body.insert(forward.body.begin(), std::make_move_iterator(first.begin()),
                      std::make_move_iterator(first.end()));
  return outputs;
}

/// The program of one path, with the formulas in the place of its numbers.
struct PathTrace {
  std::unique_ptr<Program> program;
  std::vector<std::string> inputs;
  Recovered recovered;
};

PathTrace path_of(const Group& group, const Traces& all, const ExportOptions& options) {
  PathTrace out{std::make_unique<Program>(*all[group[0]].program), all[group[0]].inputs, {}};
  ExportOptions own = options;
  if (group[0] != 0) own.inputs = out.inputs;
  Traces traces = {{out.program.get(), own.inputs}};
  for (size_t i = 1; i < group.size(); ++i) traces.push_back(all[group[i]]);
  const PreparedModel model(*out.program, own);
  out.recovered = recover(model, traces);
  if (out.recovered.outcome->failed()) throw Error(out.recovered.outcome->diagnostics);
  return out;
}

}  // namespace

Converted with_branches(const std::shared_ptr<const Opened>& opened, const ExportOptions& options) {
  const Traces& traces = opened->traces();
  const std::vector<Group> groups = groups_of(traces);
  if (groups.size() < 2) throw Error(Code::TracesDiverge, "the traces do not diverge by branches");
  const PreparedModel model(opened->program(), options);
  const std::vector<Sizes> sizes = sizes_of(model, traces);
  std::vector<std::vector<Sizes>> taken;
  for (const Group& g : groups)
    std::ranges::transform(g, std::back_inserter(taken.emplace_back()), [&](size_t i) { return sizes[i]; });
  const Separation separation = separated(taken);
  std::vector<Expr> conditions;
  for (const Separator& s : separation.separators) conditions.push_back(condition(s, sizes[0], model));
  std::vector<PathProgram> programs;
  std::vector<PathTrace> paths;
  for (const Group& g : groups) paths.push_back(path_of(g, traces, options));
  for (size_t p = 0; p < paths.size(); ++p) {
    PathProgram& to = programs.emplace_back();
    to.outputs = add_results(*paths[p].program, conditions);
    for (const Side& side : separation.paths[p])
      to.asked.push_back({side.separator, side.holds, to.outputs + side.separator});
    to.opened = std::make_shared<const Opened>(std::move(paths[p].program), std::vector{opened}, paths[p].inputs);
    to.formulas = &paths[p].recovered.formulas;
  }
  Converted out = merged(programs, options);
  out.known_at = sizes;
  out.why_known = "which branches are taken is known at the sizes of the traces only";
  for (const Separator& s : separation.separators)
    out.evaluated->report(
        {Code::TracesDiverge, Severity::Note,
         fmt::format("the traces diverge by a branch that is taken where {}, as far as their sizes show",
                     s.str(sizes[0])),
         Place(), "", ""});
  return out;
}

}  // namespace lithify::driver
