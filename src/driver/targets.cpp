// The known runtimes, and the newest opset of each.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "base/diagnostic.hpp"
#include "base/nearest.hpp"
#include "driver/guarded.hpp"
#include "lithify/lithify.hpp"

namespace lithify {
namespace {

/// "tensorrt-8.6.1" as the runtime and the two numbers by which its releases follow each other.
struct Release {
  std::string_view runtime;
  int major = 0, minor = 0;

  bool operator==(const Release&) const = default;
  /// Whether it is not newer than another release of the same runtime.
  bool up_to(const Release& other) const {
    return runtime == other.runtime && std::pair(major, minor) <= std::pair(other.major, other.minor);
  }
};

std::optional<Release> release_of(std::string_view name) {
  const size_t dash = name.find('-');
  if (dash == name.npos) return std::nullopt;
  Release out{name.substr(0, dash), 0, 0};
  const char* const end = name.data() + name.size();
  const auto [after_major, bad_major] = std::from_chars(name.data() + dash + 1, end, out.major);
  if (bad_major != std::errc() || out.major < 0) return std::nullopt;
  if (after_major == end) return std::nullopt;
  const auto [after, bad_minor] = std::from_chars(after_major + 1, end, out.minor);
  if (*after_major != '.' || bad_minor != std::errc() || out.minor < 0 || (after != end && *after != '.'))
    return std::nullopt;
  return out;
}

constexpr const char* ort_table = "https://onnxruntime.ai/docs/reference/compatibility.html";
constexpr const char* ort_onnx = "the ONNX release that cmake/deps.txt of the release names";
constexpr const char* tensorrt_table = "docs/operators.md of onnx-tensorrt at the release's tag";
constexpr const char* tensorrt_guide =
    "https://docs.nvidia.com/deeplearning/tensorrt/latest/reference/onnx-opset-guide.html";
constexpr const char* openvino_limit = "optimum-intel, the opset that it exports for this release";
constexpr const char* coreml_guide = "https://coremltools.readme.io/v4.0/docs/onnx-conversion";
constexpr const char* coreml_removed = "the converter from ONNX was removed in this release";
constexpr const char* measured = "measured: it loads and runs models of this opset";

std::string unknown_hint(const std::string& name) {
  std::map<std::string_view, std::string> by_runtime;
  std::vector<std::string> names;
  for (const Runtime& r : runtimes()) {
    const Release release = *release_of(r.name);
    std::string& list = by_runtime[release.runtime];
    list += (list.empty() ? "" : ", ") + r.name;
    names.push_back(r.name);
  }
  std::string out = did_you_mean(name, names) + "the known ones are ";
  for (const auto& [runtime, list] : by_runtime) out += (runtime == by_runtime.begin()->first ? "" : "; ") + list;
  return out;
}

}  // namespace

const std::vector<Runtime>& runtimes() {
  // A release loads every opset up to its newest. Where a source leaves a choice, the table has the lower opset.
  static const std::vector<Runtime> table = {
      {"ort-0.3", 9, ort_table},
      {"ort-0.4", 10, ort_table},
      {"ort-0.5", 10, ort_table},
      {"ort-1.0", 11, ort_table},
      {"ort-1.1", 11, ort_table},
      {"ort-1.2", 11, ort_table},
      {"ort-1.3", 12, ort_table},
      {"ort-1.4", 12, ort_table},
      {"ort-1.5", 12, ort_table},
      {"ort-1.6", 13, ort_table},
      {"ort-1.7", 13, ort_table},
      {"ort-1.8", 14, ort_table},
      {"ort-1.9", 15, ort_table},
      {"ort-1.10", 15, ort_table},
      {"ort-1.11", 16, ort_table},
      {"ort-1.12", 17, ort_table},
      {"ort-1.13", 17, ort_table},
      {"ort-1.14", 18, ort_table},
      {"ort-1.15", 19, ort_table},
      {"ort-1.16", 19, ort_table},
      {"ort-1.17", 20, ort_table},
      {"ort-1.18", 21, ort_table},
      {"ort-1.19", 21, ort_table},
      {"ort-1.20", 21, ort_table},
      {"ort-1.21", 22, ort_onnx},
      {"ort-1.22", 22, ort_onnx},
      {"ort-1.23", 23, ort_onnx},
      {"ort-1.31", 26, measured},
      {"tensorrt-5.1", 9, tensorrt_table},
      {"tensorrt-6.0", 10, tensorrt_table},
      {"tensorrt-7.2", 11, tensorrt_table},
      {"tensorrt-8.0", 13, tensorrt_table},
      {"tensorrt-8.2", 13, tensorrt_table},
      {"tensorrt-8.5", 17, tensorrt_table},
      {"tensorrt-8.6", 17, tensorrt_table},
      {"tensorrt-9.2", 19, tensorrt_table},
      {"tensorrt-10.0", 20, tensorrt_table},
      {"tensorrt-10.15", 24, tensorrt_table},
      {"tensorrt-11.0", 25, tensorrt_guide},
      {"openvino-2022.3", 16, openvino_limit},
      {"coremltools-4.0", 10, coreml_guide},
      {"coremltools-6.0", 0, coreml_removed},
  };
  return table;
}

Target target_for(const std::string& runtime) {
  return driver::guarded(Interface::Cpp, [&] {
    const std::optional<Release> asked = release_of(runtime);
    const Runtime* known = nullptr;
    for (const Runtime& r : runtimes())
      if (asked && release_of(r.name)->up_to(*asked)) known = &r;
    if (!known)
      throw Error(Code::BadOption, fmt::format("the runtime '{}' is not known", runtime), unknown_hint(runtime));
    if (known->opset < lowest_opset)
      throw Error(Code::BadOption, fmt::format("'{}' loads no ONNX file: {}", runtime, known->source));
    return Target{std::min(known->opset, highest_opset), *known, release_of(known->name) == asked};
  });
}

int opset_for(const std::string& runtime) { return target_for(runtime).opset; }

}  // namespace lithify
