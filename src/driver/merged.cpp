#include "driver/merged.hpp"

#include <fmt/format.h>

namespace lithify::driver {
namespace {

using provenance::Formulas;

/// The formulas of one literal: of an integer, or of elements of a constant.
std::map<size_t, sym::Expr> formulas_of(const program::Expr* literal, const Formulas& all) {
  std::map<size_t, sym::Expr> out;
  for (auto at = all.lower_bound({literal, 0}); at != all.end() && at->first.expr == literal; ++at)
    out.emplace(at->first.element, at->second);
  return out;
}

/// What literals stand for, as texts. Constants of two paths are not the same where they have formulas.
std::map<const program::Expr*, std::string> texts_of(const Formulas& formulas, size_t path) {
  std::map<const program::Expr*, std::string> out;
  for (const auto& [literal, formula] : formulas) {
    const bool integer = literal.expr->kind == program::Expr::Kind::Int;
    out[literal.expr] = integer ? formula.str() : fmt::format("{} of path {}", fmt::ptr(literal.expr), path);
  }
  return out;
}

/// The formulas of the paths in the place of the numbers that the merged program has of them.
Formulas adopted(const merge::Merged& whole, std::span<const PathProgram> paths, const Evaluated& evaluated) {
  const auto own = [&](sym::Expr symbol) { return evaluated.dimensions.at(sym::info(symbol).name); };
  Formulas out;
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
  if (const Formulas formulas = adopted(whole, paths, *out.evaluated); !formulas.empty())
    out.evaluated = model.evaluate({.formulas = formulas});
  if (out.evaluated->failed()) throw Error(out.evaluated->diagnostics);
  return out;
}

}  // namespace

Converted merged(std::span<const PathProgram> paths, const ExportOptions& options) {
  ExportOptions as_they_are = options;
  as_they_are.recover = ExportOptions::Recover::Never;
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
