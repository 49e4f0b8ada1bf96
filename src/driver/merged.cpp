#include "driver/merged.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lithify::driver {
namespace {

/// The formulas of one literal: of an integer, or of elements of a constant.
std::map<size_t, sym::Expr> formulas_of(const program::Expr* literal, const provenance::Formulas& all) {
  std::map<size_t, sym::Expr> out;
  for (auto at = all.lower_bound({literal, 0}); at != all.end() && at->first.expr == literal; ++at)
    out.emplace(at->first.element, at->second);
  return out;
}

/// What literals stand for, as texts. Constants of two paths are not the same where they have formulas.
std::map<const program::Expr*, std::string> texts_of(const provenance::Formulas& formulas, size_t path) {
  std::map<const program::Expr*, std::string> out;
  for (const auto& [literal, formula] : formulas) {
    const bool integer = literal.expr->kind == program::Expr::Kind::Int;
    out[literal.expr] = integer ? formula.str() : fmt::format("{} of path {}", fmt::ptr(literal.expr), path);
  }
  return out;
}

/// The formulas of the paths in the place of the numbers that the merged program has of them.
provenance::Formulas adopted(const merge::Merged& whole, std::span<const PathProgram> paths,
                             const Evaluated& evaluated) {
  const auto own = [&](sym::Expr symbol) { return evaluated.dimensions.at(sym::info(symbol).name); };
  provenance::Formulas out;
  for (const auto& [literal, sources] : whole.copied_from) {
    const auto texts = [&](const merge::Source& source) {
      std::string text;
      for (const auto& [element, formula] : formulas_of(source.literal, *paths[source.recording].formulas))
        text += fmt::format("{}: {}; ", element, formula.str());
      return text;
    };
    for (const merge::Source& source : sources)
      if (texts(source) != texts(sources[0]))
        throw Error(Code::TracesDiverge, "a number is computed from sizes on one path, and in another way on another");
    for (const auto& [element, formula] : formulas_of(sources[0].literal, *paths[sources[0].recording].formulas))
      out[{literal, element}] = evaluated.sym->rebuild(formula, own);
  }
  return out;
}

Converted merged(std::span<const PathProgram> paths, const std::vector<merge::Recording>& recordings,
                 merge::Sharing sharing, const ExportOptions& options) {
  merge::Merged whole = merge::merge(recordings, sharing);
  std::vector<std::shared_ptr<const Opened>> of;
  for (const PathProgram& path : paths) of.push_back(path.opened);
  auto opened = std::make_shared<const Opened>(std::move(whole.program), std::move(of), options.inputs);
  const PreparedModel model(opened->program(), options, Followed());
  Converted out{opened, model.evaluate()};
  if (const provenance::Formulas formulas = adopted(whole, paths, *out.evaluated); !formulas.empty())
    out.evaluated = model.evaluate({.formulas = formulas});
  if (out.evaluated->failed()) throw Error(out.evaluated->diagnostics);
  return out;
}

/// The facts of a path, in the context of another model. Nothing where one of them is not about dimensions alone.
std::optional<sym::Facts> facts_of(const PathProgram& path, const Evaluated& whole) {
  const auto is_dimension = [&](sym::Expr symbol) { return whole.dimensions.contains(sym::info(symbol).name); };
  const auto own = [&](sym::Expr symbol) { return whole.dimensions.at(sym::info(symbol).name); };
  sym::Facts out;
  for (const sym::Facts& facts : path.outcome->condition_facts)
    for (const sym::Fact& fact : facts) {
      if (!std::ranges::all_of(sym::symbols(fact.a), is_dimension) ||
          !std::ranges::all_of(sym::symbols(fact.b), is_dimension))
        return std::nullopt;
      out.push_back({fact.kind, whole.sym->rebuild(fact.a, own), whole.sym->rebuild(fact.b, own)});
    }
  return out;
}

/// What a program evaluates to where the facts of a path hold; nothing where it cannot be exported.
std::optional<uint64_t> structure_on(const PathProgram& path, PreparedModel& model, int opset) {
  const std::shared_ptr<const Evaluated> context = model.evaluate({.opset = opset});
  std::optional<sym::Facts> facts = facts_of(path, *context);
  if (!facts) return std::nullopt;
  model.give(*std::move(facts));
  const std::shared_ptr<const Evaluated> out = model.evaluate({.opset = opset});
  return out->failed() ? std::nullopt : std::optional(out->structure());
}

ExportOptions without_recovery(ExportOptions options) {
  options.recover = ExportOptions::Recover::Never;
  return options;
}

}  // namespace

bool is_each_path(const Converted& whole, std::span<const PathProgram> paths, const ExportOptions& options) {
  const ExportOptions as_they_are = without_recovery(options);
  const int opset = whole.evaluated->model.opset;
  return std::ranges::all_of(paths, [&](const PathProgram& path) {
    if (!path.formulas->empty()) return false;
    PreparedModel merged(whole.opened->program(), as_they_are, Followed());
    PreparedModel alone(path.opened->program(), as_they_are, *path.followed);
    const std::optional<uint64_t> structure = structure_on(path, merged, opset);
    return structure && structure == structure_on(path, alone, opset);
  });
}

Converted merged(std::span<const PathProgram> paths, const ExportOptions& options) {
  const ExportOptions as_they_are = without_recovery(options);
  std::vector<merge::Recording> recordings;
  for (const PathProgram& path : paths)
    recordings.push_back(
        {&path.opened->program(), path.outputs, path.asked, texts_of(*path.formulas, recordings.size())});
  try {
    return merged(paths, recordings, merge::Sharing::Everywhere, as_they_are);
  } catch (const Error&) {
    return merged(paths, recordings, merge::Sharing::UntilDivergence, as_they_are);
  }
}

}  // namespace lithify::driver
