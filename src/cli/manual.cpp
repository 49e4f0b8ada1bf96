// The manual page, from the definitions of commands and options.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/definitions.hpp"
#include "cli/help.hpp"

namespace lithify::cli {
namespace {

/// Text of a line of roff: backslashes and hyphens are escaped, and a dot at its beginning.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '\'')
      out += "\\(aq";
    else if (c == '`')
      out += "\\(ga";
    else
      out += c;
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string option_entry(const CLI::Option& o) {
  const std::string form = value_form(o);
  std::vector<std::string> names;
  for (const std::string& name : option_names(o)) names.push_back(fmt::format("\\fB{}\\fR", roff(name)));
  std::string out = fmt::format(".TP\n{}", fmt::join(names, ", "));
  if (!form.empty()) out += fmt::format(" \\fI{}\\fR", roff(form));
  out += "\n" + roff(o.get_description());
  if (!o.get_default_str().empty()) out += roff(fmt::format(" (default: {})", o.get_default_str()));
  return out + "\n";
}

/// Examples are lines that are indented; other lines are text.
std::string footer_of(const CLI::App& command) {
  std::string out;
  bool code = false;
  for (const std::string& line : CLI::detail::split(command.get_footer(), '\n')) {
    const bool indented = line.starts_with("  ");
    if (indented != code) out += indented ? ".nf\n.RS\n" : ".RE\n.fi\n";
    code = indented;
    out += line.empty() ? ".PP\n" : roff(indented ? line.substr(2) : line) + "\n";
  }
  return out + (code ? ".RE\n.fi\n" : "");
}

std::string arguments_of(const CLI::App& command) {
  std::string out;
  for (const CLI::Option* o : command.get_options([](const CLI::Option* p) { return p->get_positional(); }))
    out += " \\fI" + roff(o->get_name(true)) + "\\fR";
  return out;
}

constexpr std::string_view exit_status = R"(.SH EXIT STATUS
.TP
0
Done. Of commands that answer a question: yes.
.TP
1
The model is refused; files differ; a size is not claimed.
.TP
2
The command line is wrong.
.TP
3
The input is missing, damaged, or not a model.
.TP
4
The output cannot be written.
.SH ENVIRONMENT
.TP
NO_COLOR
When set, nothing is colored.
.TP
CLICOLOR_FORCE
When set, output is colored also where it is not a terminal.
)";

}  // namespace

std::string manual_page(const CLI::App& app) {
  std::string out = fmt::format(
      ".TH LITHIFY 1 \"\" \"lithify {}\"\n.SH NAME\nlithify \\- {}\n.SH SYNOPSIS\n.B lithify\n"
      ".I command\n[\\fIoptions\\fR] \\fIarguments\\fR\n.SH DESCRIPTION\n{}\n.SH COMMANDS\n",
      version(), "export PyTorch models to ONNX", roff(app.get_description()));
  for (const CLI::App* c : commands_of(app)) {
    out += fmt::format(".SS lithify {}{}\n{}\n", roff(c->get_name()), arguments_of(*c), roff(c->get_description()));
    for (const CLI::Option* o : options_of(*c)) out += option_entry(*o);
    if (!c->get_footer().empty()) out += ".PP\n" + footer_of(*c);
  }
  return out + std::string(exit_status);
}

}  // namespace lithify::cli
