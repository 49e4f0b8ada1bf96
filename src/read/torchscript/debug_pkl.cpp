#include "read/torchscript/debug_pkl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "archive/pickle.hpp"
#include "base/text.hpp"
#include "read/typed_container.hpp"

namespace lithify::read {
namespace {

using archive::Pickle;
using archive::PickleValue;
using Kind = PickleValue::Kind;

bool is_sequence(const PickleValue& v) { return v.is(Kind::Tuple) || v.is(Kind::List); }
bool is_record(const PickleValue& v, size_t size) { return v.is(Kind::Tuple) && v.items().size() == size; }

struct Frame {
  std::string_view file;
  int line = 0;
  std::string_view function;
};

/// One line of a Python call stack: "path(line): function".
std::optional<Frame> parse_frame(std::string_view line) {
  const size_t colon = line.rfind("): ");
  const size_t open = line.rfind('(', colon);
  if (colon == std::string_view::npos || open == std::string_view::npos) return std::nullopt;
  Frame frame{line.substr(0, open), 0, line.substr(colon + 3)};
  const auto [end, error] = std::from_chars(line.data() + open + 1, line.data() + colon, frame.line);
  if (error != std::errc() || end != line.data() + colon) return std::nullopt;
  return frame;
}

/// PyTorch's own files, as installed or as built from source; a user's folder that is called torch is not one.
bool in_torch_package(std::string_view path) {
  for (size_t at = path.find("torch/"); at != std::string_view::npos; at = path.find("torch/", at + 1)) {
    if (at != 0 && path[at - 1] != '/') continue;
    const std::string_view before = path.substr(0, at);
    const std::string_view after = path.substr(at + 6);
    if (before.ends_with("-packages/")) return true;
    for (std::string_view own : {"nn/modules/", "nn/functional.py", "nn/init.py", "jit/", "utils/", "_tensor.py",
                                 "functional.py", "_jit_internal.py", "autograd/"})
      if (after.starts_with(own)) return true;
  }
  return false;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Files of the Python package of Lithify: what they call is called for the user.
bool in_lithify_package(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash != std::string_view::npos && path.substr(0, slash).ends_with("/lithify") &&
         path.substr(slash + 1).starts_with('_');
}

/// The frame to show: the innermost of the user's code, else the innermost. Empty unless `text` is a call stack.
std::optional<Frame> frame_of_trace(std::string_view text) {
  std::optional<Frame> innermost;
  for (std::string_view line : lines_of(text)) {
    const std::optional<Frame> frame = parse_frame(line);
    if (!frame) return std::nullopt;
    if (frame->function == "__torch_function__") continue;     // it only passes on what the user calls
    if (frame->file.ends_with("/lithify/_capture.py")) break;  // what called the model is not of it
    if (in_lithify_package(frame->file)) continue;
    if (!in_torch_package(frame->file)) return frame;
    if (!innermost) innermost = frame;
  }
  return innermost;
}

/// The name in the last "def name(" before `position`.
std::string_view enclosing_function(std::string_view text, size_t position) {
  std::string_view name;
  for (std::string_view line : lines_of(text.substr(0, text.find('\n', position)))) {
    line = trimmed(line);
    if (line.starts_with("def ")) name = trimmed(line.substr(4, std::min(line.find('('), line.size()) - 4));
  }
  return name;
}

/// The decoded records of one code file, in either of the two forms that PyTorch has written.
class SourceMap {
 public:
  explicit SourceMap(archive::Record record) : pickle_(std::move(record)) {
    const PickleValue* records = &pickle_.root();
    if (is_record(*records, 3) && records->items()[0].is(Kind::String) &&
        records->items()[0].text() == "FORMAT_WITH_STRING_TABLE" && is_sequence(records->items()[1])) {
      texts_ = records->items()[1].items();
      records = &records->items()[2];
    }
    if (!is_sequence(*records)) return;
    for (const PickleValue& record : records->items()) {
      if (!is_sequence(record) || record.items().size() < 2 || !record.items()[0].is(Kind::Int)) continue;
      ranges_.push_back({record.items()[0].integer(), record.items()[1]});
    }
    std::ranges::stable_sort(ranges_, {}, &Range::offset);
  }

  /// The call stack of a traced operator begins with a frame, where the source of a function has its definition.
  CodeOrigin origin() const {
    CodeOrigin out = CodeOrigin::Unknown;
    for (const Range& range : ranges_) {
      if (!is_record(range.value, 3) || !is_record(range.value.items()[0], 3)) continue;
      const std::string_view first = first_line(untagged(range.value.items()[0].items()[0]));
      if (parse_frame(first)) return CodeOrigin::Trace;
      if (!first.empty()) out = CodeOrigin::Script;
    }
    return out;
  }

  Place locate(uint32_t offset) const {
    const auto after = std::ranges::upper_bound(ranges_, int64_t{offset}, {}, &Range::offset);
    if (after == ranges_.begin()) return {};
    const PickleValue& range = std::prev(after)->value;
    if (!is_record(range, 3) || !range.items()[1].is(Kind::Int)) return {};
    const PickleValue& source = range.items()[0];
    if (!is_record(source, 3) || !source.items()[2].is(Kind::Int)) return {};
    return place_of(joined(untagged(source.items()[0])), text_of(source.items()[1]), source.items()[2].integer(),
                    range.items()[1].integer());
  }

 private:
  struct Range {
    int64_t offset;
    PickleValue value;
  };

  /// A string, or an index into the table of strings.
  std::string_view text_of(const PickleValue& v) const {
    if (v.is(Kind::String)) return v.text();
    if (!v.is(Kind::Int) || v.integer() < 0 || static_cast<size_t>(v.integer()) >= texts_.size()) return {};
    const PickleValue& entry = texts_[static_cast<size_t>(v.integer())];
    return entry.is(Kind::String) ? entry.text() : std::string_view();
  }

  std::string_view first_line(const PickleValue& lines) const {
    if (is_sequence(lines)) return lines.items().empty() ? std::string_view() : without_end(text_of(lines.items()[0]));
    return without_end(text_of(lines));
  }
  static std::string_view without_end(std::string_view text) { return text.substr(0, text.find('\n')); }

  std::string joined(const PickleValue& lines) const {
    constexpr size_t max_text = size_t{1} << 24;
    if (!is_sequence(lines)) return std::string(text_of(lines).substr(0, max_text));
    std::string text;
    for (const PickleValue& line : lines.items()) {
      text += text_of(line).substr(0, max_text - text.size());
      if (text.size() == max_text) break;
    }
    return text;
  }

  static Place place_of(const std::string& text, std::string_view file, int64_t first_line, int64_t start) {
    if (text.empty() || start < 0 || static_cast<size_t>(start) >= text.size()) return {};
    if (const auto frame = frame_of_trace(text))
      return {std::string(frame->file), frame->line, std::string(frame->function), {}};
    if (file.empty()) return {};
    const auto position = static_cast<size_t>(start);
    const std::string_view view = text;
    const size_t newline = position == 0 ? std::string_view::npos : view.rfind('\n', position - 1);
    const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    const auto line = first_line + std::ranges::count(view.substr(0, position), '\n');
    return {std::string(file), static_cast<int>(line), std::string(enclosing_function(view, position)),
            std::string(trimmed(view.substr(begin, view.find('\n', position) - begin)))};
  }

  Pickle pickle_;
  std::span<const PickleValue> texts_;
  std::vector<Range> ranges_;
};

/// A source map that is read when it is first needed.
struct LazySourceMap {
  archive::Archive archive;
  std::string record;
  std::once_flag once;
  std::optional<SourceMap> map;

  LazySourceMap(archive::Archive from, std::string name) : archive(std::move(from)), record(std::move(name)) {}

  Place locate(uint32_t offset) {
    std::call_once(once, [&] {
      try {
        map.emplace(archive.read(record));
      } catch (const Error&) {
        // No place is better than an error about places.
      }
    });
    return map ? map->locate(offset) : Place{};
  }
};

}  // namespace

CodeOrigin code_origin(const archive::Archive& archive, const std::string& record) try {
  const std::string name = record + ".debug_pkl";
  return archive.has(name) ? SourceMap(archive.read(name)).origin() : CodeOrigin::Unknown;
} catch (const Error&) {
  return CodeOrigin::Unknown;
}

std::function<Place(uint32_t)> source_locator(const archive::Archive& archive, const std::string& record) {
  std::string name = record + ".debug_pkl";
  if (!archive.has(name)) return {};
  auto lazy = std::make_shared<LazySourceMap>(archive, std::move(name));
  return [lazy](uint32_t offset) { return lazy->locate(offset); };
}

}  // namespace lithify::read
