#include "cli/advice.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lithify::cli {
namespace {

/// The first release of the same runtime that loads an opset; empty when none is known.
std::string first_release(const Target& target, int opset) {
  const std::string runtime = target.known.name.substr(0, target.known.name.find('-') + 1);
  for (const Runtime& r : runtimes())
    if (r.name.starts_with(runtime) && r.opset >= opset) return r.name;
  return "";
}

}  // namespace

std::string advice(const CheckResult& result, const Target& target, const std::string& asked) {
  std::string out =
      target.exact
          ? fmt::format("{} loads opsets up to {}", asked, target.known.opset)
          : fmt::format("{} is not in the table of runtimes; {}, the last release before it, loads opsets up to {}",
                        asked, target.known.name, target.known.opset);
  const auto chosen = std::ranges::find(result.opsets, target.opset, &OpsetStatus::opset);
  if (chosen == result.opsets.end()) return out;
  if (!chosen->exportable) {
    const std::string release = result.lowest_opset ? first_release(target, result.lowest_opset) : "";
    out += "; it cannot express the model";
    return result.lowest_opset ? out + fmt::format(", which needs opset {}{}", result.lowest_opset,
                                                   release.empty() ? "" : fmt::format(", of {} and later", release))
                               : out;
  }
  out += fmt::format("; in opset {} the model has {} nodes", target.opset, chosen->nodes);
  if (result.lowest_opset && result.lowest_opset < target.opset) {
    const auto lowest = std::ranges::find(result.opsets, result.lowest_opset, &OpsetStatus::opset);
    out += fmt::format("; with --opset {} it has {}, and {} loads it too", lowest->opset, lowest->nodes,
                       first_release(target, lowest->opset));
  }
  if (result.fewest_nodes_opset > target.opset) {
    const auto fewest = std::ranges::find(result.opsets, result.fewest_nodes_opset, &OpsetStatus::opset);
    const std::string release = first_release(target, fewest->opset);
    out += fmt::format("; with --opset {} it has {}, and {}", fewest->opset, fewest->nodes,
                       release.empty() ? "no known release loads it" : fmt::format("needs {}", release));
  }
  return out;
}

}  // namespace lithify::cli
