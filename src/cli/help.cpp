#include "cli/help.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostic.hpp"
#include "base/layout.hpp"
#include "base/nearest.hpp"
#include "cli/definitions.hpp"
#include "cli/terminal.hpp"

namespace lithify::cli {
namespace {

/// A name in the left column and its description, wrapped, in the right one.
std::string entry(const std::string& name, const std::string& description, size_t width) {
  constexpr size_t indent = 2, names = 24;
  const size_t column = indent + names;
  const std::string left = std::string(indent, ' ') + name;
  const bool fits = left.size() + 2 <= column;
  const std::string body = wrapped(std::string(column, ' ') + description, width, column);
  return fits ? left + body.substr(left.size()) + "\n" : left + "\n" + body + "\n";
}

size_t help_width() {
  constexpr size_t widest = 100;
  const size_t width = style_of(stdout).width;
  return width == 0 ? widest : std::min(width, widest);
}

class Help : public CLI::Formatter {
 public:
  Help() {
    label("Positionals", "Arguments");
    label("Subcommands", "Commands");
    label("SUBCOMMAND", "COMMAND");
    label("OPTIONS", "OPTIONS");
  }

  std::string make_option(const CLI::Option* option, bool positional) const override {
    const std::string names = positional ? option->get_name(true) : CLI::detail::join(option_names(*option), ", ");
    const std::string form = value_form(*option);
    std::string description = option->get_description();
    if (!option->get_default_str().empty()) description += fmt::format(" (default: {})", option->get_default_str());
    return entry(names + (form.empty() || positional ? "" : " " + form), description, help_width());
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description(), help_width());
  }
  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), help_width()) + "\n";
  }
};

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> out;
  for (const CLI::App* c : commands) out.push_back(c->get_name());
  return out;
}

/// The first letter of what CLI11 writes is a capital, and it may have several lines.
std::string plain(std::string text) {
  if (const size_t end = text.find('\n'); end != text.npos) text.resize(end);
  if (text.size() > 1 && text[0] >= 'A' && text[0] <= 'Z' && !(text[1] >= 'A' && text[1] <= 'Z'))
    text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

}  // namespace

std::shared_ptr<CLI::Formatter> help_formatter() { return std::make_shared<Help>(); }

Message usage_message(std::string text, std::string hint) {
  const Diagnostic d{Code::BadOption, Severity::Error, std::move(text), {}, std::move(hint), {}};
  Message m;
  m.code = code_text(d.code);
  m.severity = "error";
  m.text = printable(d.message);
  m.hint = printable(d.hint);
  m.pretty = d.str(Interface::CommandLine);
  return m;
}

Message usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  const std::vector<std::string> left = app.remaining(true);
  const auto unknown = std::ranges::find_if(left, [](const std::string& word) { return word != "--"; });
  const bool about_words =
      dynamic_cast<const CLI::ExtrasError*>(&error) || dynamic_cast<const CLI::RequiredError*>(&error);
  if (parsed.empty()) {
    if (unknown == left.end() || !about_words)
      return usage_message(plain(error.what()), "`lithify --help` lists the commands");
    if (!unknown->starts_with('-'))
      return usage_message(fmt::format("there is no command '{}'", *unknown),
                           did_you_mean(*unknown, names_of(commands_of(app))) + "`lithify --help` lists the commands");
    return usage_message(fmt::format("there is no option '{}' before a command", *unknown),
                         "`lithify --help` lists the commands");
  }
  const std::string help = fmt::format("`lithify {} --help` lists the options", parsed[0]->get_name());
  if (unknown == left.end() || !about_words) return usage_message(plain(error.what()), help);
  if (!unknown->starts_with('-'))
    return usage_message(fmt::format("the argument '{}' is not expected", *unknown), help);
  std::vector<std::string> known;
  for (const CLI::Option* o : options_of(*parsed[0]))
    for (const std::string& name : option_names(*o)) known.push_back(name);
  const std::string name = unknown->substr(0, unknown->find('='));
  return usage_message(fmt::format("there is no option '{}' of {}", name, parsed[0]->get_name()),
                       did_you_mean(name, known) + help);
}

}  // namespace lithify::cli
