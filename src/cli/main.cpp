// The command line: defines the commands, and runs the one that is given. docs/command-line.md is its guide.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/diagnostic.hpp"
#include "cli/exit_codes.hpp"
#include "cli/explain.hpp"
#include "cli/help.hpp"
#include "cli/python.hpp"
#include "cli/run.hpp"
#include "cli/terminal.hpp"
#include "cli/truncation.hpp"
#include "platform/process.hpp"

namespace {

using namespace lithify;
using cli::Arguments;

constexpr const char* about =
    "Exports PyTorch models to ONNX. Reads the model file itself: needs neither PyTorch nor Python.";
constexpr const char* exit_codes =
    "Exit codes: 0 done, 1 refused, 2 wrong usage, 3 bad input, 4 output cannot be written.";

constexpr const char* export_examples = R"(Examples:
  lithify export model.pt
  lithify export model.pt -o out.onnx --dynamic 'x:0=batch,1=seq'
  lithify export scripted.pt --input 'x:float32[batch,3,224,224]' --target ort-1.17
  cat model.pt | lithify export - -o - > model.onnx)";
constexpr const char* inspect_examples = R"(Examples:
  lithify inspect model.pt
  lithify inspect --dynamic model.pt
  lithify inspect weights.safetensors)";
constexpr const char* check_examples = R"(Examples:
  lithify check model.pt --target tensorrt-8.6
  lithify check model.onnx --at batch=3,seq=40)";
constexpr const char* ops_examples = R"(Examples:
  lithify ops conv
  lithify ops 'aten::*_backward' --json)";
constexpr const char* show_examples = R"(Examples:
  lithify show model.onnx
  lithify show model.onnx --json)";
constexpr const char* diff_examples = R"(Examples:
  lithify diff before.onnx after.onnx
  lithify diff -q before.onnx after.onnx || echo changed)";
constexpr const char* explain_examples = R"(Examples:
  lithify explain LTH064)";
constexpr const char* completion_examples = R"(Examples:
  lithify completion bash > ~/.local/share/bash-completion/completions/lithify
  lithify completion zsh > ~/.zfunc/_lithify
  lithify completion fish > ~/.config/fish/completions/lithify.fish)";

/// A command and what runs it.
struct Command {
  CLI::App* app;
  std::function<int()> run;
};

/// All commands, over one set of arguments.
class Program {
 public:
  Program() {
    app.formatter(cli::help_formatter());
    app.set_version_flag("--version", std::string("lithify ") + version());
    app.require_subcommand(1);
    app.footer(
        std::string("Examples:\n  lithify export model.pt\n  lithify check model.pt\n  lithify COMMAND --help\n\n") +
        exit_codes);
    add_export();
    add_inspect();
    add_check();
    add_show();
    add_diff();
    add_ops();
    add_explain();
    add_from_python("verify",
                    "compare the results of the model and its ONNX file; needs the Python package and PyTorch");
    add_from_python("llm",
                    "export a saved model of transformers as a folder that generates text; needs the Python package");
    add_completion();
    add_manual();
  }

  int run() {
    for (const Command& c : commands_)
      if (*c.app) return c.run();
    return cli::usage;
  }

  CLI::App app{about, "lithify"};
  Arguments a;

 private:
  CLI::App& add(const char* name, const char* description, const char* examples, std::function<int()> run) {
    CLI::App* command = app.add_subcommand(name, description)->group("Commands");
    command->footer(examples);
    commands_.push_back({command, std::move(run)});
    return *command;
  }
  void add_model(CLI::App& command, const char* kind) { command.add_option("MODEL", a.model, kind)->required(); }
  void add_json(CLI::App& command) { command.add_flag("--json", a.json, "print JSON"); }
  void add_quiet(CLI::App& command) { command.add_flag("-q,--quiet", a.quiet, "print errors only"); }

  void add_export() {
    CLI::App& c = add("export", "write a model as ONNX", export_examples, [this] {
      a.exporting.complete();
      return cli::run_export(a);
    });
    add_model(c, "file of torch.jit.save or torch.export.save; - reads standard input");
    c.add_option("-o,--output", a.out,
                 "the ONNX file to write; without it, the model's name with .onnx; - writes to standard output")
        ->type_name("FILE");
    a.exporting.add_shared_options(c);
    a.exporting.add_export_options(c);
    c.add_option("--report", a.report, "also write a page about the export, for a browser")->type_name("FILE");
    add_json(c);
    c.add_flag("-v,--verbose", a.verbose, "print all operators and the graph");
    add_quiet(c);
  }

  void add_inspect() {
    CLI::App& c = add("inspect", "show the contents of a model file or state dict", inspect_examples,
                      [this] { return cli::run_inspect(a); });
    add_model(c, "file of torch.jit.save, torch.export.save, torch.save or safetensors; - reads standard input");
    c.add_flag("--dynamic", a.discover, "also the axes that can be dynamic, detected automatically");
    c.add_flag("--code", a.code, "also the text of the program");
    add_json(c);
  }

  void add_check() {
    CLI::App& c = add("check",
                      "check whether a model can be exported, and list every reason why not; or, with --at, whether an "
                      "exported file is right at some sizes",
                      check_examples, [this] {
                        a.exporting.complete();
                        return cli::run_check(a);
                      });
    add_model(c, "file of torch.jit.save or torch.export.save; with --at, an ONNX file");
    a.exporting.add_shared_options(c);
    c.add_option("--at", a.at,
                 "of an ONNX file, whether it is claimed to be right at these sizes, and why: batch=3,seq=40")
        ->allow_extra_args(false)
        ->type_name("SIZES");
    add_json(c);
    add_quiet(c);
  }

  void add_show() {
    CLI::App& c = add("show", "show what is in any ONNX file", show_examples, [this] { return cli::run_show(a); });
    add_model(c, "ONNX file of any exporter; - reads standard input");
    c.add_flag("-v,--verbose", a.verbose, "list all operators, modules and metadata");
    add_json(c);
  }

  void add_diff() {
    CLI::App& c = add("diff", "compare two ONNX files; the exit code is 1 when they differ", diff_examples,
                      [this] { return cli::run_diff(a); });
    c.add_option("BEFORE", a.model, "ONNX file of any exporter")->required();
    c.add_option("AFTER", a.other, "the file to compare it with")->required();
    c.add_flag("-v,--verbose", a.verbose, "list every difference");
    add_json(c);
    add_quiet(c);
  }

  void add_ops() {
    CLI::App& c =
        add("ops", "list the operators that can be exported", ops_examples, [this] { return cli::run_ops(a); });
    c.add_option("PATTERN", a.pattern, "only those with this text in their names; * stands for any letters");
    add_json(c);
    c.add_flag("--markdown", a.markdown, "print the page docs/operators.md");
  }

  void add_explain() {
    CLI::App& c = add("explain", "describe a diagnostic code: cause, example and fix", explain_examples, [this] {
      fmt::print("{}", cli::explanation(code_, cli::style_of(stdout)));
      return cli::done;
    });
    c.add_option("CODE", code_, "such as LTH064")->required();
  }

  /// A command that the Python package runs, with all its words.
  void add_from_python(const char* name, const char* description) {
    CLI::App& c = add(name, description, "", [] { return 0; });
    c.prefix_command()->set_help_flag();
    commands_.back().run = [&c]() -> int { cli::run_in_python(c.get_name(), c.remaining()); };
  }

  void add_completion() {
    CLI::App& c = add("completion", "print a completion script for a shell", completion_examples, [this] {
      fmt::print("{}", cli::completion_script(app, shell_));
      return cli::done;
    });
    c.add_option("SHELL", shell_, "bash, zsh or fish")->required()->check(CLI::IsMember(cli::shells));
  }

  void add_manual() {
    CLI::App& c = add("man", "print the manual page", "", [this] {
      fmt::print("{}", cli::manual_page(app));
      return cli::done;
    });
    c.group("");
  }

  std::vector<Command> commands_;
  std::string shell_, code_;
};

int fail(const std::vector<Message>& messages, bool json) {
  cli::print_failure(messages, json);
  return cli::exit_code(messages);
}

}  // namespace

int main(int argc, char** argv) {
  platform::prepare_streams();
  cli::refuse_truncated_models();
  Program program;
  std::vector<std::string> words = platform::arguments(argc, argv);
  const bool json = std::ranges::find(words, "--json") != words.end();
  std::ranges::reverse(words);  // as the parser takes them
  try {
    program.app.parse(std::move(words));
    return program.run();
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return program.app.exit(e);
    return fail({cli::usage_message(program.app, e)}, json);
  } catch (const ExportError& e) {
    return fail(e.messages, json);
  } catch (const cli::BadArgument& e) {
    return fail({cli::usage_message(e.what())}, json);
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", printable(e.what()));
    return cli::refused;
  }
}
