#include "cli/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "base/diagnostic.hpp"
#include "base/layout.hpp"

namespace lithify::cli {
namespace {

constexpr std::string_view style = R"(
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--soft); }
td.number { text-align: right; font-variant-numeric: tabular-nums; width: 6rem; }
code, pre, td.code { font: 13px/1.45 ui-monospace, monospace; }
pre { white-space: pre-wrap; border-left: 4px solid var(--line); padding-left: .8rem; }
pre.error { border-color: #c33; } pre.warning { border-color: #c90; } pre.note { border-color: #38c; }
.bar { background: #38c; height: .7rem; border-radius: 2px; }
summary { cursor: pointer; } input { font: inherit; width: 100%; padding: .3rem; }
.gone { display: none; }
)";

/// Hides the rows, and the modules, without the words of the search.
constexpr std::string_view search = R"(
document.getElementById('search').addEventListener('input', function (event) {
  var words = event.target.value.toLowerCase().split(' ').filter(Boolean);
  document.querySelectorAll('#graph details').forEach(function (module) {
    var shown = 0;
    module.querySelectorAll('tr').forEach(function (row) {
      var text = row.textContent.toLowerCase();
      var hit = words.every(function (word) { return text.indexOf(word) >= 0; });
      row.classList.toggle('gone', !hit);
      shown += hit ? 1 : 0;
    });
    module.classList.toggle('gone', shown === 0);
    module.open = words.length > 0 && shown > 0;
  });
});
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string row(std::string_view label, std::string_view text) {
  return fmt::format("<tr><th>{}</th><td class=\"code\">{}</td></tr>\n", escaped(label), escaped(text));
}

std::string section(std::string_view title, std::string_view body) {
  return body.empty() ? "" : fmt::format("<h2>{}</h2>\n{}\n", title, body);
}

std::string table(std::string_view rows) { return rows.empty() ? "" : fmt::format("<table>\n{}</table>", rows); }

std::string summary_of(const ExportResult& r) {
  double seconds = 0;
  std::string stages;
  for (const auto& [stage, s] : r.seconds) {
    seconds += s;
    stages += fmt::format("{}{} {:.3f}", stages.empty() ? "" : ", ", stage, s);
  }
  int nodes = 0;
  for (const auto& [name, count] : r.nodes) nodes += count;
  std::string rows = row("opset", std::to_string(r.opset));
  for (const ValueInfo& v : r.inputs) rows += row("input", v.str());
  for (const ValueInfo& v : r.outputs) rows += row("output", v.str());
  rows += row("nodes", std::to_string(nodes));
  rows += row("weights", fmt::format("{} tensors, {}", r.weights, size_text(r.weight_bytes)));
  rows += row("file", size_text(r.file_bytes));
  if (!r.external_file.empty()) rows += row("data", r.external_file);
  return table(rows + row("seconds", fmt::format("{:.3f} ({})", seconds, stages)));
}

std::string claims_of(const ExportResult& r) {
  std::string rows;
  for (const DimensionClaim& d : r.dimensions) {
    rows += row(d.name, d.str());
    for (const std::string& use : d.unfollowed) rows += row("", "not followed: " + use);
  }
  for (const Constraint& c : r.claims.constraints) rows += row("must hold", c.str());
  for (const Constraint& c : r.claims.conditions) rows += row("condition", c.str());
  if (!r.claims.paths.empty()) rows += row("recorded paths", fmt::format("{}", fmt::join(r.claims.paths, ", ")));
  return table(rows);
}

std::string messages_of(const ExportResult& r) {
  std::string out;
  for (const Message& m : r.messages) out += fmt::format("<pre class=\"{}\">{}</pre>\n", m.severity, escaped(m.pretty));
  return out;
}

std::string operators_of(const ExportResult& r) {
  std::string rows;
  const int most = r.nodes.empty() ? 1 : r.nodes.front().second;
  for (const auto& [name, count] : r.nodes)
    rows += fmt::format(
        "<tr><td class=\"number\">{}</td><td class=\"code\">{}</td><td><div class=\"bar\" "
        "style=\"width:{}%\"></div></td></tr>\n",
        count, escaped(name), count * 100 / most);
  return table(rows);
}

/// The weights that changed most come first.
std::string quantized_of(const ExportResult& r) {
  std::vector<QuantizedWeight> weights = r.quantized;
  std::ranges::stable_sort(weights, std::greater(), &QuantizedWeight::error);
  std::string rows;
  for (const QuantizedWeight& w : weights)
    rows += fmt::format(
        "<tr><td class=\"number\">{:.3f}%</td><td class=\"code\">{}</td><td>{}</td><td><div class=\"bar\" "
        "style=\"width:{:.0f}%\"></div></td></tr>\n",
        100 * w.error, escaped(w.name), escaped(w.dtype),
        weights.front().error == 0 ? 0 : 100 * w.error / weights.front().error);
  return table(rows);
}

/// "/layers/0/Add_output_0 : float32[2]" belongs to "layers.0".
std::string module_of(std::string_view line) {
  const std::string_view name = line.substr(0, line.find(' '));
  const size_t last = name.rfind('/');
  if (last == name.npos || last == 0) return "";
  std::string out(name.substr(name.starts_with('/'), last - name.starts_with('/')));
  std::ranges::replace(out, '/', '.');
  return out;
}

/// Lines of the graph's text by module, in the order of the graph. A line of a body belongs to the node that has it.
std::vector<std::pair<std::string, std::vector<std::string_view>>> modules_of(std::string_view graph) {
  std::vector<std::pair<std::string, std::vector<std::string_view>>> out;
  for (size_t at = 0; at < graph.size();) {
    const size_t end = std::min(graph.find('\n', at), graph.size());
    const std::string_view line = graph.substr(at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    const size_t word = std::min(line.find(' '), line.size());
    const bool declares = line.starts_with("input ") || line.starts_with("weight ") || line.starts_with("output ");
    const bool inside = line[0] == ' ' || line[0] == '}';
    const std::string module = declares ? std::string(line.substr(0, word)) + "s" : "module " + module_of(line);
    if (out.empty() || (!inside && out.back().first != module)) out.push_back({module, {}});
    out.back().second.push_back(line);
  }
  return out;
}

std::string graph_of(const ExportResult& r) {
  std::string out =
      "<input id=\"search\" placeholder=\"search nodes, types, weights and source lines\">\n<div id=\"graph\">\n";
  for (const auto& [module, lines] : modules_of(r.graph_text)) {
    out += fmt::format("<details><summary>{} ({})</summary>\n<table>\n", escaped(module), lines.size());
    for (const std::string_view line : lines)
      out += fmt::format("<tr><td class=\"code\">{}</td></tr>\n", escaped(line));
    out += "</table></details>\n";
  }
  return out + "</div>\n";
}

}  // namespace

std::string html_report(const ExportResult& r, const std::string& model, const std::string& out) {
  const std::string title = fmt::format("{} to {}", model, out);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{0}</title>\n<style>{1}</style>\n"
      "</head>\n<body>\n<h1>{0}</h1>\n{2}{3}{4}{5}{6}{7}<script>{8}</script>\n<p>lithify {9}</p>\n</body>\n</html>\n",
      escaped(title), style, section("Summary", summary_of(r)),
      section("At which sizes the file is right", claims_of(r)), section("Messages", messages_of(r)),
      section("Errors of quantized weights", quantized_of(r)), section("Operators", operators_of(r)),
      section("Graph", graph_of(r)), search, version());
}

}  // namespace lithify::cli
