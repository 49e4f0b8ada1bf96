#include "merge/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "merge/branches.hpp"
#include "merge/check.hpp"
#include "merge/columns.hpp"
#include "merge/partition.hpp"
#include "program/verify.hpp"

namespace lithify::merge {
namespace {

using program::Expr;
using program::Stmt;

bool same_outcomes(const Recording& a, const Recording& b) {
  return std::ranges::equal(a.asked, b.asked, [](const Recording::Asked& x, const Recording::Asked& y) {
    return x.condition == y.condition && x.outcome == y.outcome;
  });
}

/// The recordings of different paths.
std::vector<size_t> distinct(std::span<const Recording> recordings) {
  std::vector<size_t> out;
  for (size_t i = 0; i < recordings.size(); ++i)
    if (std::ranges::none_of(out, [&](size_t j) { return same_outcomes(recordings[i], recordings[j]); }))
      out.push_back(i);
  if (out.empty()) throw Error(Code::Internal, "there is no recording to merge");
  if (out.size() > max_traces)
    throw Error(Code::LimitExceeded, fmt::format("{} recordings are more than can be merged", out.size()));
  return out;
}

void require_same_signature(const Recording& a, const Recording& b) {
  const program::Function &f = a.program->forward(), &g = b.program->forward();
  if (f.parameters.size() != g.parameters.size())
    throw Error(Code::TracesDiverge, "the traces take different numbers of inputs");
  if (a.outputs != b.outputs)
    throw Error({Code::TracesDiverge, Severity::Error,
                 fmt::format("the traces return {} and {} outputs", a.outputs, b.outputs),
                 b.program->locate(g.body.empty() ? g.pos : g.body.back().pos), "", ""});
}

std::vector<Trace> read_all(std::span<const Recording> recordings, const std::vector<size_t>& chosen,
                            Definitions& definitions) {
  Numbers keys;
  std::vector<Trace> out;
  for (size_t t = 0; t < chosen.size(); ++t)
    out.push_back(read(chosen[t], recordings[chosen[t]], t, definitions, keys));
  return out;
}

/// Takes the marks off the literals.
void find_literals(Expr& e, const std::vector<std::vector<Source>>& sources,
                   std::map<const Expr*, std::vector<Source>>& out) {
  const bool literal = e.kind == Expr::Kind::Int || e.kind == Expr::Kind::Float || e.kind == Expr::Kind::Constant;
  if (literal && e.integer2 > 0) {
    out[&e] = sources.at(static_cast<size_t>(e.integer2) - 1);
    e.integer2 = 0;
  }
  for (Expr& item : e.items) find_literals(item, sources, out);
}

void find_literals(std::vector<Stmt>& body, const std::vector<std::vector<Source>>& sources,
                   std::map<const Expr*, std::vector<Source>>& out) {
  for (Stmt& s : body) {
    for (Expr& e : s.values) find_literals(e, sources, out);
    find_literals(s.body, sources, out);
    find_literals(s.orelse, sources, out);
  }
}

/// The type of what is left of a tuple.
program::Type returned(const program::Type& all, size_t outputs) {
  if (all.name != "Tuple" || all.args.size() < outputs) return all;
  if (outputs == 1) return all.args[0];
  return {all.name, {all.args.begin(), all.args.begin() + static_cast<std::ptrdiff_t>(outputs)}};
}

}  // namespace

Merged merge(std::span<const Recording> recordings, Sharing sharing) {
  const std::vector<size_t> chosen = distinct(recordings);
  const Recording& first = recordings[chosen[0]];
  std::vector<const program::Program*> programs;
  std::vector<const Definitions::Formulas*> formulas;
  for (const size_t i : chosen) {
    programs.push_back(recordings[i].program);
    formulas.push_back(&recordings[i].formulas);
    require_same_signature(first, recordings[i]);
  }
  Definitions definitions(std::move(programs), formulas);
  const std::vector<Trace> traces = read_all(recordings, chosen, definitions);
  const Layout layout = layout_of(columns_of(traces, definitions, sharing), traces, definitions);
  std::vector<std::string> parameters;
  for (const program::Parameter& p : first.program->forward().parameters) parameters.push_back(p.name);
  Branched result = branched(layout, traces, definitions, parameters);

  Merged out{definitions.take(), {}};
  program::Class& root = out.program->classes.at(out.program->root->class_name);
  program::Function& forward = *std::ranges::find(root.methods, "forward", &program::Function::name);
  forward.body = std::move(result.body);
  forward.returns = returned(forward.returns, first.outputs);
  forward.facts.clear();
  find_literals(forward.body, result.sources, out.copied_from);
  check(forward.body, parameters, result.present, out.copied_from, traces);
  program::verify(*out.program);
  return out;
}

}  // namespace lithify::merge
