// The command line: export, inspect, check, ops, verify, llm. Its options are in cli/options.hpp.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/diagnostic.hpp"
#include "cli/claims.hpp"
#include "cli/options.hpp"
#include "lithify/lithify.hpp"

namespace {

using namespace lithify;

struct Arguments {
  std::string model;
  std::string out;
  cli::ExportArguments exporting;
  bool verbose = false;
  bool quiet = false;
  bool json = false;
  bool code = false;
  bool markdown = false;
  bool discover = false;
  std::vector<std::string> at;
};

std::string size_text(uint64_t bytes) {
  if (bytes >= 1'000'000'000) return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9);
  if (bytes >= 1'000'000) return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
  if (bytes >= 1'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{} bytes", bytes);
}

// The system signals a read of a mapped file that has become shorter. Nothing that was written has a name yet.
[[noreturn]] void end_on_truncation(int) {
  constexpr std::string_view text = "error LTH001: the model file became shorter while it was read\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(1);
}

void print_values(const char* title, const std::vector<ValueInfo>& values) {
  for (const ValueInfo& v : values) fmt::print("  {:<8} {}\n", title, printable(v.str()));
}

void print_dimensions(const std::vector<DimensionClaim>& dimensions) {
  for (const DimensionClaim& d : dimensions) {
    fmt::print("  {:<8} {}\n", "size", printable(fmt::format("{}: {}", d.name, d.str())));
    for (const std::string& use : d.unfollowed) fmt::print("  {:<8}   not followed: {}\n", "", printable(use));
  }
}

int total(const std::vector<std::pair<std::string, int>>& counts) {
  int n = 0;
  for (auto& [name, count] : counts) n += count;
  return n;
}

std::string listed(const std::vector<std::pair<std::string, int>>& counts, size_t most) {
  std::string out;
  for (size_t i = 0; i < counts.size() && i < most; ++i)
    out += fmt::format("{}{} {}", i ? ", " : "", counts[i].second, counts[i].first);
  if (counts.size() > most) out += fmt::format(", and {} more kinds", counts.size() - most);
  return out;
}

void print_messages(const std::vector<Message>& messages) {
  for (const Message& m : messages) fmt::print(stderr, "{}\n", m.pretty);
}

int run_export(Arguments& a) {
  ExportOptions& options = a.exporting.options;
  bool bar = !a.quiet && isatty(STDERR_FILENO);
  if (bar) {
    options.progress = [last = -1](uint64_t done, uint64_t all) mutable {
      if (all < 64'000'000) return;
      int percent = static_cast<int>(done * 100 / all);
      if (percent == last) return;
      last = percent;
      fmt::print(stderr, "\r  writing [{:<40}] {:3}% of {}{}", std::string(static_cast<size_t>(percent) * 2 / 5, '#'),
                 percent, size_text(all), done == all ? "\n" : "");
      std::fflush(stderr);
    };
  }
  ExportResult r = export_file(a.model, a.out, options);
  if (a.json) {
    fmt::print("{}\n", to_json(r));
    return 0;
  }
  print_messages(r.messages);
  if (a.quiet) return 0;
  fmt::print("{} -> {} (opset {})\n", printable(a.model), printable(a.out), r.opset);
  print_values("input", r.inputs);
  print_values("output", r.outputs);
  print_dimensions(r.dimensions);
  fmt::print("  {:<8} {}: {}\n", "nodes", total(r.nodes), listed(r.nodes, a.verbose ? r.nodes.size() : 8));
  fmt::print("  {:<8} {} tensors, {}\n", "weights", r.weights, size_text(r.weight_bytes));
  std::string seconds;
  double all = 0;
  for (auto& [stage, s] : r.seconds) {
    seconds += fmt::format("{}{} {:.3f}", seconds.empty() ? "" : ", ", stage, s);
    all += s;
  }
  fmt::print("  {:<8} {:.3f} ({})\n", "seconds", all, seconds);
  if (!r.external_file.empty()) fmt::print("  {:<8} {}\n", "data", printable(r.external_file));
  if (a.verbose) fmt::print("\n{}", printable(r.graph_text));
  return 0;
}

int run_inspect(const Arguments& a) {
  InspectResult r = inspect_file(a.model);
  if (a.discover) r.dynamic = discover_file(a.model, a.exporting.options);
  if (a.json) {
    if (!a.code) r.code.clear();
    fmt::print("{}\n", to_json(r));
    return 0;
  }
  fmt::print("{}: {}{}, file version {}\n", printable(a.model), r.kind,
             r.release.empty() ? "" : fmt::format(" of PyTorch {}", r.release), r.file_version);
  print_values("input", r.inputs);
  if (r.dynamic) {
    print_values("dynamic", r.dynamic->inputs);
    print_dimensions(r.dynamic->dimensions);
  }
  fmt::print("  {:<8} {}\n", "returns", printable(r.returns));
  fmt::print("  {:<8} {} tensors, {}\n", "weights", r.weights, size_text(r.weight_bytes));
  fmt::print("  operators, as written in the code:\n");
  for (auto& [name, count] : r.operators) fmt::print("    {:5} {}\n", count, printable(name));
  if (a.code) fmt::print("\n{}", printable(r.code));
  return 0;
}

// The oldest runtime that loads an opset; the releases after it do too.
std::string loaded_by(int opset) {
  for (const Runtime& r : runtimes())
    if (r.opset >= opset) return r.name + " and later";
  return "no known runtime";
}

void print_opsets(const CheckResult& r) {
  fmt::print("\n{:<8}{:>7}  {}\n", "opset", "nodes", "loaded by");
  for (const OpsetStatus& s : r.opsets)
    fmt::print("{:<8}{:>7}  {}\n", s.opset, s.exportable ? std::to_string(s.nodes) : "-",
               s.exportable ? loaded_by(s.opset) : "cannot express the model");
  if (!r.lowest_opset) return;
  fmt::print("\nopset {} is the lowest that can express the model; it has the fewest nodes from opset {} on\n",
             r.lowest_opset, r.fewest_nodes_opset);
}

int run_check(const Arguments& a) {
  if (!a.at.empty()) return cli::answer(a.model, a.at, a.json);
  CheckResult r = check_file(a.model, a.exporting.options);
  if (a.json) {
    fmt::print("{}\n", to_json(r));
    return r.exportable ? 0 : 1;
  }
  if (!r.operators.empty()) fmt::print("{:<44} {:>6}  {}\n", "operator", "count", "status");
  for (const OperatorStatus& o : r.operators)
    fmt::print("{:<44} {:>6}  {}\n", printable(o.name), o.count,
               o.supported ? fmt::format("opset {} and later", o.since) : "cannot be exported");
  if (!r.messages.empty()) fmt::print("\n");
  for (const Message& m : r.messages) fmt::print("{}\n", m.pretty);
  if (!r.opsets.empty()) print_opsets(r);
  fmt::print("\n{} {} be exported to opset {}\n", printable(a.model), r.exportable ? "can" : "cannot", r.opset);
  return r.exportable ? 0 : 1;
}

// The page docs/operators.md. An operator whose name ends in '_' or '_copy' follows from the one without.
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

int run_ops(const Arguments& a) {
  std::vector<SupportedOperator> all = supported_operators();
  if (a.json) {
    fmt::print("{}\n", to_json(all));
    return 0;
  }
  if (a.markdown) {
    print_markdown(all);
    return 0;
  }
  for (const SupportedOperator& o : all) fmt::print("{:<44} opset {} and later\n", o.name, o.since);
  fmt::print("{} operators\n", all.size());
  return 0;
}

void add_model(CLI::App& command, Arguments& a) {
  command.add_option("MODEL", a.model, "model file of torch.jit.save or torch.export.save")->required();
}

/// Calls the package, or reports that the interpreter does not have it.
constexpr std::string_view script = R"(import sys
sys.path[:] = [folder for folder in sys.path if folder]
try:
    from lithify.__main__ import main
except ImportError as error:
    print(f'error: lithify {sys.argv[1]} needs the Python package lithify, with torch, onnx and onnxruntime; '
          f'{sys.executable} does not have it ({error}): pip install lithify[verify] torch', file=sys.stderr)
    sys.exit(2)
sys.exit(main())
)";

/// Running a model takes PyTorch, so the Python package does it: in the interpreter beside this program, or on the
/// path.
int run_in_python(const std::string& command, const std::vector<std::string>& arguments) {
  std::error_code ignored;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "python3";
  const std::string python = std::filesystem::exists(beside, ignored) ? beside.string() : "python3";
  std::vector<std::string> words = {python, "-c", std::string(script), command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  execvp(list[0], list.data());
  throw cli::BadArgument(
      fmt::format("'{}' cannot be run: {}; {} needs the Python package lithify, with torch, onnx and onnxruntime",
                  python, std::strerror(errno), command));
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGBUS, end_on_truncation);
  Arguments a;
  CLI::App app{"From a PyTorch model file to ONNX, without PyTorch", "lithify"};
  app.set_version_flag("--version", std::string("lithify ") + version());
  app.require_subcommand(1);

  CLI::App* to_onnx = app.add_subcommand("export", "write the model as ONNX");
  add_model(*to_onnx, a);
  to_onnx->add_option("-o,--output", a.out, "the ONNX file to write")->required();
  a.exporting.add_shared_options(*to_onnx);
  a.exporting.add_export_options(*to_onnx);
  to_onnx->add_flag("--json", a.json, "print the result as JSON");
  to_onnx->add_flag("-v,--verbose", a.verbose, "print the graph");
  to_onnx->add_flag("-q,--quiet", a.quiet, "print only warnings and errors");

  CLI::App* inspect = app.add_subcommand("inspect", "show the contents of a model file");
  add_model(*inspect, a);
  inspect->add_flag("--json", a.json, "print JSON");
  inspect->add_flag("--dynamic", a.discover, "also the axes that can be dynamic, detected automatically");
  inspect->add_flag("--code", a.code, "also the text of the program");

  CLI::App* check =
      app.add_subcommand("check",
                         "check whether the model can be exported, and list every reason why not; or, with "
                         "--at, whether an exported file is right at some sizes");
  add_model(*check, a);
  a.exporting.add_shared_options(*check);
  check
      ->add_option("--at", a.at,
                   "of an ONNX file, whether it is claimed to be right at these sizes, and why: batch=3,seq=40")
      ->allow_extra_args(false)
      ->type_name("SIZES");
  check->add_flag("--json", a.json, "print JSON");

  CLI::App* ops = app.add_subcommand("ops", "list the operators that can be exported");
  ops->add_flag("--json", a.json, "print JSON");
  ops->add_flag("--markdown", a.markdown, "print the page docs/operators.md");

  CLI::App* verify = app.add_subcommand(
      "verify", "compare the results of the model and its ONNX file; needs the Python package and PyTorch");
  CLI::App* llm = app.add_subcommand(
      "llm", "export a saved model of transformers as a folder that generates text; needs the Python package");
  for (CLI::App* command : {verify, llm}) command->prefix_command()->set_help_flag();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    int code = app.exit(e);
    return code == 0 ? 0 : 1;
  }
  try {
    a.exporting.complete();
    if (*to_onnx) return run_export(a);
    if (*inspect) return run_inspect(a);
    if (*check) return run_check(a);
    for (CLI::App* command : {verify, llm})
      if (*command) return run_in_python(command->get_name(), command->remaining());
    return run_ops(a);
  } catch (const ExportError& e) {
    if (*to_onnx && a.json) {
      fmt::print("{}\n", to_json(e.messages));
    } else {
      print_messages(e.messages);
    }
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", printable(e.what()));
  }
  return 1;
}
