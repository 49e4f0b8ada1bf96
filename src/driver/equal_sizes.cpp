#include "driver/equal_sizes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/options.hpp"

namespace lithify::driver {
namespace {

using provenance::Issue;

bool is_declared(const Evaluated& evaluated, sym::Expr size) {
  return std::ranges::any_of(evaluated.dimensions, [&](const auto& d) { return d.second == size; });
}

/// Whether a number of the program that leads to the issue may be the size.
bool is_number_of_program(const Evaluated& evaluated, const Issue& issue, int64_t size) {
  constexpr size_t most = 64;
  const std::vector<provenance::Origins::Found> numbers = evaluated.record.origins.numbers(issue.origin, most);
  return std::ranges::find(numbers, size, &provenance::Origins::Found::value) != numbers.end();
}

/// "axis 1 of 'mask'", of all axes that are not dynamic and have the size.
std::vector<std::string> fixed_axes(const std::vector<TensorInput>& inputs, int64_t size) {
  std::vector<std::string> out;
  for (const TensorInput& in : inputs)
    for (size_t i = 0; in.sizes && i < in.sizes->size(); ++i)
      if (const InputSpec::Size& s = (*in.sizes)[i]; s.name.empty() && s.value == size)
        out.push_back(fmt::format("axis {} of '{}'", i, in.name));
  return out;
}

}  // namespace

std::optional<provenance::Assumed> equal_dimensions(const Evaluated& evaluated) {
  const auto is_tie = [&](const Issue& issue) {
    const auto at_a = evaluated.sym->sample(issue.a), at_b = evaluated.sym->sample(issue.b);
    return issue.kind == Issue::Kind::Contradiction && is_declared(evaluated, issue.a) &&
           is_declared(evaluated, issue.b) && (!at_a || !at_b || *at_a == *at_b);
  };
  const auto found = std::ranges::find_if(evaluated.record.issues, is_tie);
  if (found == evaluated.record.issues.end()) return std::nullopt;
  return provenance::Assumed{{sym::Assumption::Kind::Equal, found->a, found->b}, found->pos};
}

void report_fixed_axes(const program::Program& program, const std::vector<TensorInput>& inputs, Evaluated& evaluated) {
  for (const Issue& issue : evaluated.record.issues) {
    const bool first = issue.a.is_constant();
    const sym::Expr fixed = first ? issue.a : issue.b, dimension = first ? issue.b : issue.a;
    if (issue.kind != Issue::Kind::Contradiction || !fixed.is_constant() || !is_declared(evaluated, dimension))
      continue;
    const int64_t size = *fixed.constant();
    const std::vector<std::string> axes = fixed_axes(inputs, size);
    const auto about = std::ranges::find_if(evaluated.diagnostics, [&](const Diagnostic& d) {
      return d.code == Code::HardCodedSize && d.place == program.locate(issue.pos);
    });
    if (axes.empty() || about == evaluated.diagnostics.end()) continue;
    const std::string fixed_size = fmt::format("{} is {} in the sample", fmt::join(axes, " or "), size);
    if (is_number_of_program(evaluated, issue, size)) {
      about->hint = fmt::format("{}: if it has to equal {}, declare it by {}", fixed_size, dimension.str(),
                                option("dynamic_axes"));
    } else {
      about->message = fmt::format("{} and has to equal {}", fixed_size, dimension.str());
      about->hint = fmt::format("declare it by {}", option("dynamic_axes"));
    }
  }
}

}  // namespace lithify::driver
