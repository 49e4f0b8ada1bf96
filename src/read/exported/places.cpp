#include "read/exported/places.hpp"

#include <charconv>
#include <memory>
#include <vector>

#include "base/json.hpp"

namespace lithify::read {
namespace {

void collect(const Json& graph, std::vector<Place>& places) {
  for (const Json& node : graph["nodes"].items()) {
    const std::optional<Json> trace = node["metadata"].find("stack_trace");
    places.push_back(trace ? place_of(trace->text()) : Place{});
    for (const Json& input : node["inputs"].items())
      if (const std::optional<Json> inner = input["arg"].find("as_graph")) collect((*inner)["graph"], places);
  }
}

/// "File "model.py", line 12, in forward".
std::optional<Place> frame(std::string_view line) {
  constexpr std::string_view before = "File \"", middle = "\", line ", after = ", in ";
  const size_t file = line.find(before), number = line.find(middle), function = line.rfind(after);
  if (file == std::string_view::npos || number == std::string_view::npos) return std::nullopt;
  Place place;
  place.file = line.substr(file + before.size(), number - file - before.size());
  const std::string_view rest = line.substr(number + middle.size());
  if (std::from_chars(rest.data(), rest.data() + rest.size(), place.line).ec != std::errc()) return std::nullopt;
  if (function != std::string_view::npos && function > number) place.function = line.substr(function + after.size());
  return place;
}

/// PyTorch's own files, and the code that it generates.
bool within_torch(std::string_view file) {
  return file.starts_with("<") || file.starts_with("torch/") || file.find("/torch/") != std::string_view::npos;
}

}  // namespace

Place place_of(std::string_view trace) {
  Place outermost, innermost;
  Place* last = nullptr;  // the next line is its text
  while (!trace.empty()) {
    const size_t end = std::min(trace.find('\n'), trace.size());
    const std::string_view line = trace.substr(0, end);
    trace.remove_prefix(std::min(end + 1, trace.size()));
    if (const std::optional<Place> found = frame(line)) {
      Place& place = within_torch(found->file) ? outermost : innermost;
      const bool wanted = &place == &innermost || !outermost.known();
      if (wanted) place = *found;
      last = wanted ? &place : nullptr;
    } else if (last) {
      const size_t start = std::min(line.find_first_not_of(' '), line.size());
      last->text = line.substr(start);
      last = nullptr;
    }
  }
  return innermost.known() ? innermost : outermost;
}

std::function<Place(uint32_t node)> node_locator(archive::Record program, std::string name) {
  auto places = std::make_shared<std::optional<std::vector<Place>>>();
  return [places, program = std::move(program), name = std::move(name)](uint32_t node) -> Place {
    if (!*places) {
      const JsonDocument document(program.text(), name);
      collect(document.root()["graph_module"]["graph"], places->emplace());
    }
    return node < (*places)->size() ? (**places)[node] : Place{};
  };
}

}  // namespace lithify::read
