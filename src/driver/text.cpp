// The results of the public API as text for people.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/diagnostic.hpp"
#include "base/layout.hpp"
#include "lithify/lithify.hpp"

namespace lithify {
namespace {

using Counts = std::vector<std::pair<std::string, int>>;

Layout layout_of(const TextStyle& style) { return Layout(style.width, style.color); }

void add_values(Layout& out, std::string_view label, const std::vector<ValueInfo>& values) {
  for (const ValueInfo& v : values) out.row(label, printable(v.str()));
}

void add_dimensions(Layout& out, const std::vector<DimensionClaim>& dimensions) {
  for (const DimensionClaim& d : dimensions) {
    out.row("size", printable(fmt::format("{}: {}", d.name, d.str())));
    for (const std::string& use : d.unfollowed) out.row("", printable("  not followed: " + use));
  }
}

int total(const Counts& counts) {
  int n = 0;
  for (const auto& [name, count] : counts) n += count;
  return n;
}

std::string listed(const Counts& counts, bool whole) {
  const size_t most = whole ? counts.size() : std::min<size_t>(counts.size(), 8);
  std::string out;
  for (size_t i = 0; i < most; ++i) out += fmt::format("{}{} {}", i ? ", " : "", counts[i].second, counts[i].first);
  if (counts.size() > most)
    out += fmt::format(", and {} more kind{}", counts.size() - most, counts.size() - most == 1 ? "" : "s");
  return printable(out);
}

void add_nodes(Layout& out, const Counts& nodes, bool whole) {
  out.row("nodes", nodes.empty() ? "0" : fmt::format("{}: {}", total(nodes), listed(nodes, whole)));
}

void add_weights(Layout& out, uint64_t count, uint64_t bytes) {
  out.row("weights", fmt::format("{} tensors, {}", count, size_text(bytes)));
}

std::string sizes_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string type_text(const TensorInfo& t) { return t.dtype + sizes_text(t.shape); }

/// "layers.0.weight" as the modules around a tensor and its own name.
std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at <= name.size();) {
    const size_t dot = std::min(name.find('.', at), name.size());
    out.push_back(name.substr(at, dot - at));
    at = dot + 1;
  }
  return out;
}

/// Names with dots as a tree, types and sizes in columns beside it.
void add_tree(Layout& out, const std::vector<TensorInfo>& tensors) {
  const auto indented = [](std::string_view name, size_t depth) {
    return std::string(2 * depth + 2, ' ') + printable(name);
  };
  size_t names = 0, types = 0;
  for (const TensorInfo& t : tensors) {
    const std::vector<std::string_view> parts = parts_of(t.name);
    names = std::max(names, columns_of(indented(parts.back(), parts.size() - 1)));
    types = std::max(types, type_text(t).size());
  }
  std::vector<std::string_view> open;  // the modules around the last tensor
  for (const TensorInfo& t : tensors) {
    const std::vector<std::string_view> parts = parts_of(t.name);
    const size_t modules = parts.size() - 1;
    size_t same = 0;
    while (same < std::min(open.size(), modules) && open[same] == parts[same]) ++same;
    for (size_t i = same; i < modules; ++i) out.line(out.paint(indented(parts[i], i), Color::Bold));
    open.assign(parts.begin(), parts.end() - 1);
    const std::string name = indented(parts.back(), modules);
    out.line(fmt::format("{}{:{}}  {:<{}}  {}", name, "", names - columns_of(name), type_text(t), types,
                         out.paint(size_text(t.bytes), Color::Dim)));
  }
}

/// The runtimes whose releases have the same name before the number.
std::string_view family_of(std::string_view runtime) { return runtime.substr(0, runtime.find('-')); }

/// The oldest release of each runtime that loads an opset; the releases after it do too.
std::string loaded_by(int opset) {
  std::string out;
  std::string_view last;
  for (const Runtime& r : runtimes()) {
    if (r.opset < opset || family_of(r.name) == last) continue;
    last = family_of(r.name);
    out += (out.empty() ? "" : ", ") + r.name;
  }
  return out.empty() ? "no known runtime" : out;
}

void add_opsets(Layout& out, const CheckResult& r) {
  std::vector<std::vector<std::string>> rows;
  for (const OpsetStatus& s : r.opsets)
    rows.push_back({std::to_string(s.opset), s.exportable ? std::to_string(s.nodes) : "-",
                    s.exportable ? loaded_by(s.opset) : "cannot express the model"});
  out.line().table({{"opset"}, {"nodes", true}, {"loaded by these and later"}}, rows);
  if (r.lowest_opset)
    out.line().line(
        fmt::format("opset {} is the lowest that can express the model; it has the fewest nodes from opset {} on",
                    r.lowest_opset, r.fewest_nodes_opset));
}

std::string hint_text(std::string_view line, const TextStyle& style) {
  constexpr std::string_view mark = "  hint:";
  if (!line.starts_with(mark)) return std::string(line);
  return painted(mark, Color::Green, style.color) + std::string(line.substr(mark.size()));
}

}  // namespace

std::string to_text(const std::vector<Message>& messages, const TextStyle& style) {
  std::string out;
  for (const Message& m : messages) {
    const Color color = m.severity == "error" ? Color::Red : m.severity == "warning" ? Color::Yellow : Color::Cyan;
    std::string_view rest = m.pretty;
    const std::string head = m.severity + (m.code.empty() ? "" : " " + m.code) + ":";
    std::string begin;
    if (rest.starts_with(head)) {
      begin = painted(head, color, style.color);
      rest.remove_prefix(head.size());
    }
    for (size_t at = 0; at <= rest.size();) {
      const size_t end = std::min(rest.find('\n', at), rest.size());
      out += wrapped(begin + hint_text(rest.substr(at, end - at), style), style.width, 4) + "\n";
      begin.clear();
      at = end + 1;
    }
  }
  return out;
}

std::string to_text(const ExportResult& r, const TextStyle& style) {
  Layout out = layout_of(style);
  add_values(out, "input", r.inputs);
  add_values(out, "output", r.outputs);
  add_dimensions(out, r.dimensions);
  add_nodes(out, r.nodes, style.whole);
  add_weights(out, r.weights, r.weight_bytes);
  if (!r.external_file.empty()) out.row("data", printable(r.external_file));
  if (!r.capture.empty()) out.row("capture", printable(fmt::format("{}: {}", r.capture, r.capture_reason)));
  std::string stages;
  double all = 0;
  for (const auto& [stage, seconds] : r.seconds) {
    stages += fmt::format("{}{} {:.3f}", stages.empty() ? "" : ", ", stage, seconds);
    all += seconds;
  }
  out.row("seconds", fmt::format("{:.3f} ({})", all, stages));
  return out.text() + (style.whole ? "\n" + printable(r.graph_text) : "");
}

std::string to_text(const CheckResult& r, const TextStyle& style) {
  Layout out = layout_of(style);
  std::vector<std::vector<std::string>> rows;
  for (const OperatorStatus& o : r.operators)
    rows.push_back(
        {printable(o.name), std::to_string(o.count),
         o.supported ? fmt::format("opset {} and later", o.since) : out.paint("cannot be exported", Color::Red)});
  if (!rows.empty()) out.table({{"operator"}, {"count", true}, {"status"}}, rows);
  std::string text = out.text();
  if (!r.messages.empty()) text += "\n" + to_text(r.messages, style);
  Layout more = layout_of(style);
  if (!r.opsets.empty()) add_opsets(more, r);
  return text + more.text();
}

std::string to_text(const InspectResult& r, const TextStyle& style) {
  Layout out = layout_of(style);
  add_values(out, "input", r.inputs);
  if (r.dynamic) {
    add_values(out, "dynamic", r.dynamic->inputs);
    add_dimensions(out, r.dynamic->dimensions);
  }
  if (!r.returns.empty()) out.row("returns", printable(r.returns));
  add_weights(out, r.weights, r.weight_bytes);
  if (!r.tensors.empty()) add_tree(out.line(), r.tensors);
  if (!r.operators.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& [name, count] : r.operators) rows.push_back({std::to_string(count), printable(name)});
    out.line().table({{"count", true}, {"operator, as written in the code"}}, rows);
  }
  return out.text();
}

std::string to_text(const OnnxSummary& s, const TextStyle& style) {
  Layout out = layout_of(style);
  if (!s.producer.empty()) out.row("made by", printable(s.producer));
  std::string opsets;
  for (const auto& [domain, version] : s.opsets)
    opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", domain, version);
  out.row("opset", printable(opsets));
  add_values(out, "input", s.inputs);
  add_values(out, "output", s.outputs);
  add_nodes(out, s.nodes, style.whole);
  for (const std::string& f : s.functions) out.row("function", printable(f));
  add_weights(out, s.weights, s.weight_bytes);
  for (const std::string& f : s.external_files) out.row("data", printable(f));
  for (const auto& [key, value] : s.metadata)
    if (style.whole) out.row("metadata", printable(fmt::format("{}: {}", key, value)));
  if (!s.modules.empty()) {
    const size_t most = style.whole ? s.modules.size() : std::min<size_t>(s.modules.size(), 20);
    std::vector<std::vector<std::string>> rows;
    for (size_t i = 0; i < most; ++i)
      rows.push_back({std::to_string(s.modules[i].second), printable(s.modules[i].first)});
    if (most < s.modules.size()) rows.push_back({"", fmt::format("and {} more modules", s.modules.size() - most)});
    out.line().table({{"nodes", true}, {"module"}}, rows);
  }
  if (!s.largest.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (const TensorInfo& t : s.largest) rows.push_back({size_text(t.bytes), type_text(t), printable(t.name)});
    out.line().table({{"size", true}, {"type"}, {"largest weights"}}, rows);
  }
  return out.text();
}

std::string to_text(const DiffResult& r, const TextStyle& style) {
  Layout out = layout_of(style);
  const auto add_lines = [&](std::string_view title, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    out.line(out.paint(title, Color::Bold));
    const size_t most = style.whole ? lines.size() : std::min<size_t>(lines.size(), 40);
    for (size_t i = 0; i < most; ++i)
      out.line("  " + out.paint(printable(lines[i]), lines[i].starts_with('-') ? Color::Red : Color::Green));
    if (most < lines.size()) out.line(fmt::format("  and {} more", lines.size() - most));
  };
  add_lines("interface", r.interface);
  add_lines("operators", r.operators);
  add_lines("modules", r.modules);
  std::vector<std::string> weights;
  for (const TensorInfo& t : r.removed) weights.push_back(fmt::format("- {}: {}", t.name, type_text(t)));
  for (const TensorInfo& t : r.added) weights.push_back(fmt::format("+ {}: {}", t.name, type_text(t)));
  for (const WeightChange& c : r.weights) {
    if (c.what == "renamed")
      weights.push_back(fmt::format("~ {} is now {}", c.name, c.other));
    else if (c.what == "type")
      weights.push_back(fmt::format("~ {}: {} is now {}", c.name, type_text(c.before), type_text(c.after)));
    else
      weights.push_back(fmt::format("~ {}: {} elements differ, by {:.3g} at most", c.name, c.changed, c.largest));
  }
  add_lines("weights", weights);
  out.line(fmt::format("graph: {}; {} weights are equal",
                       r.same_graph ? "the nodes compute the same" : "the nodes compute something else",
                       r.equal_weights));
  return out.text();
}

bool DiffResult::same() const {
  return interface.empty() && operators.empty() && modules.empty() && same_graph && weights.empty() &&
         removed.empty() && added.empty();
}

}  // namespace lithify
