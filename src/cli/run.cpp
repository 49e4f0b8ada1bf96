#include "cli/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/diagnostic.hpp"
#include "base/layout.hpp"
#include "base/nearest.hpp"
#include "cli/advice.hpp"
#include "cli/ask.hpp"
#include "cli/exit_codes.hpp"
#include "cli/help.hpp"
#include "cli/report.hpp"
#include "cli/terminal.hpp"
#include "cli/truncation.hpp"
#include "platform/file.hpp"
#include "platform/process.hpp"

namespace lithify::cli {
namespace {

constexpr std::string_view standard_stream = "-";

std::vector<char> read_standard_input() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

/// A model file, or what standard input has.
class Input {
 public:
  explicit Input(const std::string& path) : path_(path) {
    if (path_ == standard_stream) contents_ = read_standard_input();
  }
  ModelSource source() const { return path_ == standard_stream ? ModelSource(Bytes(contents_)) : ModelSource(path_); }

 private:
  std::string path_;
  std::vector<char> contents_;
};

/// "folder/model.pt" gives "folder/model.onnx".
std::string default_output(const std::string& model) {
  if (model == standard_stream) throw BadArgument("-o is missing: a model of standard input has no name");
  return platform::text_of(platform::path_of(model).replace_extension(".onnx"));
}

[[noreturn]] void throw_cannot_write(const std::string& what) {
  Message m = usage_message(fmt::format("{} cannot be written", what));
  m.code = code_text(Code::CannotWrite);
  m.pretty = fmt::format("error {}: {}", m.code, m.text);
  throw ExportError({m});
}

void write_text(const std::string& name, const std::string& text) {
  const std::filesystem::path path = platform::path_of(name);
  std::error_code missing;
  if (std::filesystem::is_fifo(path, missing)) throw_cannot_write(fmt::format("'{}', a named pipe,", name));
  std::ofstream out(path, std::ios::binary);
  out << text << std::flush;
  if (!out) throw_cannot_write(fmt::format("'{}'", name));
}

ExportResult export_to_standard_output(const ModelSource& model, const ExportOptions& options) {
  if (platform::is_terminal(stdout)) throw BadArgument("-o - writes the model, and standard output is a terminal");
  std::vector<std::byte> bytes;
  ExportResult result = export_bytes(
      model,
      [&](uint64_t size) {
        bytes.resize(size);
        return bytes.data();
      },
      options);
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0)
    throw_cannot_write("standard output");
  return result;
}

void print_target(const ExportArguments& exporting, std::FILE* stream) {
  const std::optional<Target> target = exporting.target();
  if (!target) return;
  Layout out(style_of(stream).width, style_of(stream).color);
  if (target->exact)
    out.row("target", fmt::format("{} loads opsets up to {} ({})", target->known.name, target->known.opset,
                                  target->known.source));
  else
    out.row("target", fmt::format("{} is not in the table of runtimes; it loads opset {} as {} does, the last release "
                                  "before it that is known, and perhaps newer ones",
                                  exporting.target_name(), target->opset, target->known.name));
  fmt::print(stream, "{}", out.text());
}

/// Whether to look for axes that can be dynamic takes a moment: the model is evaluated for each axis.
bool is_quick(const ExportResult& r) {
  double convert = 0;
  for (const auto& [stage, seconds] : r.seconds)
    if (stage == "convert") convert = seconds;
  size_t axes = 0;
  for (const ValueInfo& v : r.inputs) axes += v.shape.size();
  return convert * static_cast<double>(axes) < 0.5;
}

/// "--dynamic 'x:0=x_0,1=x_1'" for each input that can have dynamic axes.
std::string dynamic_options(const ModelSource& model, const ExportOptions& options) {
  std::string out;
  try {
    for (const ValueInfo& v : discover_file(model, options).inputs) {
      std::string axes;
      for (size_t i = 0; i < v.shape.size(); ++i)
        if (v.shape[i].find_first_not_of("0123456789") != std::string::npos)
          axes += fmt::format("{}{}={}", axes.empty() ? "" : ",", i, v.shape[i]);
      if (!axes.empty()) out += fmt::format("{}--dynamic '{}:{}'", out.empty() ? "" : " ", v.name, axes);
    }
  } catch (const ExportError&) {
    return "";
  }
  return out;
}

/// What could be dynamic, where nothing is.
void print_fixed_sizes_hint(const ExportResult& r, const ModelSource& model, const Arguments& a, std::FILE* stream) {
  if (!r.dimensions.empty() || r.inputs.empty()) return;
  std::fflush(stream);
  ignore_truncated_models();
  const std::string found = is_quick(r) ? dynamic_options(model, a.exporting.options) : "";
  if (is_quick(r) && found.empty()) return;
  const std::string how = found.empty() ? "`lithify inspect --dynamic` lists the axes that can be dynamic" : found;
  Layout out(style_of(stream).width, style_of(stream).color);
  fmt::print(stream, "{}", out.row("hint", printable("all sizes are fixed; to make them dynamic: " + how)).text());
}

void print(const std::vector<Message>& messages) { fmt::print(stderr, "{}", to_text(messages, style_of(stderr))); }

std::vector<Message> errors_of(const std::vector<Message>& all) {
  std::vector<Message> out;
  std::ranges::copy_if(all, std::back_inserter(out), [](const Message& m) { return m.severity == "error"; });
  return out;
}

/// The page docs/operators.md. An operator whose name ends in '_' or '_copy' follows from the one without.
void print_markdown(const std::vector<SupportedOperator>& all) {
  fmt::print("# Operators\n\n{} operators can be exported, to opsets {} to {} unless a row has a later one. Forms\n",
             all.size(), lowest_opset, highest_opset);
  fmt::print(
      "that write in place (`op_`), to `out=`, or copy a view (`op_copy`) follow from the plain ones and\n"
      "have no row. Where an opset cannot express an argument or element type, the error names the lowest\n"
      "opset that can. Generated by `make docs`.\n");
  std::string space;
  for (const SupportedOperator& o : all) {
    if (o.schemas.empty()) continue;
    if (std::string s = o.name.substr(0, o.name.find("::")); s != space) {
      fmt::print("\n## {}\n\n| operator | arguments | from opset |\n|---|---|---|\n", s);
      space = s;
    }
    std::string overloads;
    for (const std::string& schema : o.schemas) {
      std::string text = schema.substr(o.name.size());
      for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
      overloads += fmt::format("{}`{}`", overloads.empty() ? "" : "<br>", text);
    }
    fmt::print("| `{}` | {} | {} |\n", o.name, overloads, std::max(o.since, lowest_opset));
  }
}

/// Whether a name matches: a part of it, or all of it where the pattern has '*', which stands for any letters.
bool matches(std::string_view name, std::string_view pattern) {
  if (pattern.find('*') == pattern.npos) return name.find(pattern) != name.npos;
  const size_t star = pattern.find('*');
  if (!name.starts_with(pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1);
  name.remove_prefix(star);
  while (true) {
    const size_t next = pattern.find('*');
    if (next == pattern.npos) return name.ends_with(pattern);
    const size_t at = name.find(pattern.substr(0, next));
    if (at == name.npos) return false;
    name.remove_prefix(at + next);
    pattern.remove_prefix(next + 1);
  }
}

std::vector<SupportedOperator> matching_operators(const std::string& pattern) {
  std::vector<SupportedOperator> all = supported_operators();
  if (pattern.empty()) return all;
  std::vector<SupportedOperator> found;
  std::ranges::copy_if(all, std::back_inserter(found), [&](const auto& o) { return matches(o.name, pattern); });
  if (!found.empty()) return found;
  std::vector<std::string> names;
  for (const SupportedOperator& o : all) names.push_back(o.name.substr(o.name.find("::") + 2));
  throw ExportError({usage_message(fmt::format("there is no supported operator like '{}'", pattern),
                                   did_you_mean(pattern, names) + "`lithify ops` lists all")});
}

}  // namespace

void print_failure(const std::vector<Message>& messages, bool json) {
  if (json)
    fmt::print("{}\n", to_json(messages));
  else
    print(messages);
}

int run_export(Arguments& a) {
  ExportOptions& options = a.exporting.options;
  if (a.out.empty()) a.out = default_output(a.model);
  const bool to_standard_output = a.out == standard_stream;
  if (to_standard_output && a.json) throw BadArgument("-o - and --json both write to standard output");
  std::FILE* const stream = to_standard_output ? stderr : stdout;
  const Input input(a.model);
  Waiting waiting("converting", !a.quiet);
  if (!a.quiet) options.progress = progress_bar(waiting);
  const ModelSource source = input.source();
  const ExportResult r =
      to_standard_output ? export_to_standard_output(source, options) : export_file(source, a.out, options);
  waiting.stop();
  if (!a.report.empty()) write_text(a.report, html_report(r, a.model, a.out));
  if (a.json) {
    fmt::print("{}\n", to_json(r));
    return done;
  }
  if (a.quiet) return done;
  print(r.messages);
  TextStyle style = style_of(stream);
  style.whole = a.verbose;
  const auto bold = [&](const std::string& path) { return painted(printable(path), Color::Bold, style.color); };
  fmt::print(stream, "{}\n",
             wrapped(fmt::format("{} -> {} (opset {})", bold(a.model), bold(a.out), r.opset), style.width, 2));
  print_target(a.exporting, stream);
  fmt::print(stream, "{}", to_text(r, style));
  print_fixed_sizes_hint(r, source, a, stream);
  return done;
}

int run_inspect(const Arguments& a) {
  const Input input(a.model);
  InspectResult r = inspect_file(input.source());
  if (a.discover) {
    const Waiting waiting("looking for axes that can be dynamic", !a.json);
    r.dynamic = discover_file(input.source(), a.exporting.options);
  }
  if (a.json) {
    if (!a.code) r.code.clear();
    fmt::print("{}\n", to_json(r));
    return done;
  }
  const TextStyle style = style_of(stdout);
  fmt::print("{}: {}{}{}\n", painted(printable(a.model), Color::Bold, style.color), r.kind,
             r.release.empty() ? "" : fmt::format(" of PyTorch {}", r.release),
             r.tensors.empty() ? fmt::format(", file version {}", r.file_version) : "");
  fmt::print("{}", to_text(r, style));
  if (a.code) fmt::print("\n{}", printable(r.code));
  return done;
}

int run_check(const Arguments& a) {
  if (!a.at.empty()) return answer(a.model, a.at, a.json);
  const Input input(a.model);
  Waiting waiting("checking every opset", !a.json && !a.quiet);
  const CheckResult r = check_file(input.source(), a.exporting.options);
  waiting.stop();
  const int code = r.exportable ? done : exit_code(r.messages);
  if (a.json) {
    fmt::print("{}\n", to_json(r));
    return code;
  }
  if (a.quiet) {
    print(errors_of(r.messages));
    return code;
  }
  const TextStyle style = style_of(stdout);
  fmt::print("{}\n", to_text(r, style));
  if (const std::optional<Target> target = a.exporting.target())
    fmt::print("{}\n", wrapped(advice(r, *target, a.exporting.target_name()), style.width));
  fmt::print("{} {} be exported to opset {}\n", printable(a.model),
             r.exportable ? painted("can", Color::Green, style.color) : painted("cannot", Color::Red, style.color),
             r.opset);
  return code;
}

int run_ops(const Arguments& a) {
  const std::vector<SupportedOperator> all = matching_operators(a.pattern);
  if (a.json) {
    fmt::print("{}\n", to_json(all));
    return done;
  }
  if (a.markdown) {
    print_markdown(all);
    return done;
  }
  std::vector<std::vector<std::string>> rows;
  for (const SupportedOperator& o : all) rows.push_back({o.name, fmt::format("opset {} and later", o.since)});
  const TextStyle style = style_of(stdout);
  fmt::print("{}{} operators\n", Layout(style.width, style.color).table({{"operator"}, {"status"}}, rows).text(),
             all.size());
  return done;
}

int run_show(const Arguments& a) {
  OnnxSummary s;
  if (a.model == standard_stream) {
    const std::vector<char> contents = read_standard_input();
    s = show_file(Bytes(contents));
  } else {
    s = show_file(a.model);
  }
  if (a.json) {
    fmt::print("{}\n", to_json(s));
    return done;
  }
  TextStyle style = style_of(stdout);
  style.whole = a.verbose;
  fmt::print("{}: ONNX, {}\n{}", painted(printable(a.model), Color::Bold, style.color), size_text(s.file_bytes),
             to_text(s, style));
  return done;
}

int run_diff(const Arguments& a) {
  Waiting waiting("comparing", !a.json && !a.quiet);
  const DiffResult r = diff_files(a.model, a.other);
  waiting.stop();
  TextStyle style = style_of(stdout);
  style.whole = a.verbose;
  if (a.json)
    fmt::print("{}\n", to_json(r));
  else if (!a.quiet)
    fmt::print("{}", to_text(r, style));
  return r.same() ? done : refused;
}

}  // namespace lithify::cli
