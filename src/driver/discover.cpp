#include "driver/discover.hpp"

#include <fmt/format.h>

#include "driver/inputs.hpp"

namespace lithify::driver {
namespace {

bool exportable(const Traces& traces, const ExportOptions& options) {
  try {
    const PreparedModel model(*traces[0].program, options);
    return !recover(model, traces).outcome->failed();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::map<std::string, std::map<int64_t, std::string>> discover(const Traces& traces, ExportOptions options) {
  std::vector<std::pair<std::string, int64_t>> found;  // dimensions and their sizes in the sample
  for (const TensorInput& in : find_inputs(*traces[0].program, options)) {
    for (size_t i = 0; in.sizes && i < in.sizes->size(); ++i) {
      const InputSpec::Size& size = (*in.sizes)[i];
      if (!size.name.empty() || !size.value) continue;
      const auto axis = static_cast<int64_t>(i);
      std::map<int64_t, std::string>& axes = options.dynamic_axes[in.name];
      auto works = [&](const std::string& name) {
        axes[axis] = name;
        return exportable(traces, options);
      };
      const std::string own = fmt::format("{}_{}", in.name, i);
      if (works(own)) {
        found.emplace_back(own, *size.value);
        continue;
      }
      const bool shared =
          std::any_of(found.begin(), found.end(), [&](auto& d) { return d.second == *size.value && works(d.first); });
      if (!shared) axes.erase(axis);
      if (axes.empty()) options.dynamic_axes.erase(in.name);
    }
  }
  return options.dynamic_axes;
}

}  // namespace lithify::driver
