// Completion scripts of shells, from the definitions of commands and options.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/definitions.hpp"
#include "cli/help.hpp"

namespace lithify::cli {
namespace {

std::string words(const CLI::App& command) {
  std::vector<std::string> out;
  for (const CLI::Option* o : options_of(command))
    for (const std::string& name : option_names(*o)) out.push_back(name);
  return fmt::format("{}", fmt::join(out, " "));
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* c : commands_of(app)) out.push_back(c->get_name());
  return out;
}

/// Calls `f(command, names, choices)` for every option with choices.
template <class F>
void for_each_choice(const CLI::App& app, F f) {
  for (const CLI::App* c : commands_of(app))
    for (const CLI::Option* o : options_of(*c))
      if (const std::vector<std::string> choices = choices_of(*o); !choices.empty()) f(*c, option_names(*o), choices);
}

std::string bash_script(const CLI::App& app) {
  std::string options, choices;
  for (const CLI::App* c : commands_of(app))
    options += fmt::format("    {}) words='{}' ;;\n", c->get_name(), words(*c));
  for_each_choice(app, [&](const CLI::App& c, const auto& names, const auto& values) {
    choices += fmt::format("    '{} {}') words='{}' ;;\n", c.get_name(),
                           fmt::join(names, fmt::format("' | '{} ", c.get_name())), fmt::join(values, " "));
  });
  return fmt::format(R"(# Completion of lithify for bash.
_lithify() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}" words=''
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$word"))
    return
  fi
  case "$command $before" in
{}  esac
  if [ -z "$words" ] && [ "${{word#-}}" != "$word" ]; then
    case "$command" in
{}    esac
  fi
  if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$word"))
  else COMPREPLY=($(compgen -f -- "$word")); fi
}}
complete -o filenames -F _lithify lithify
)",
                     fmt::join(command_names(app), " "), choices, options);
}

/// For strings between single quotes.
std::string quoted(std::string text) {
  for (size_t at = 0; (at = text.find('\'', at)) != text.npos; at += 4) text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

/// zsh gives brackets and colons a meaning in descriptions.
std::string zsh_text(std::string text) {
  for (const char special : {'[', ']', ':'})
    for (size_t at = 0; (at = text.find(special, at)) != text.npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string zsh_script(const CLI::App& app) {
  std::string commands, options;
  for (const CLI::App* c : commands_of(app)) {
    commands += fmt::format("    {}\n", quoted(c->get_name() + ":" + zsh_text(c->get_description())));
    options += fmt::format("    {})\n      _arguments", c->get_name());
    for (const CLI::Option* o : options_of(*c)) {
      const std::vector<std::string> choices = choices_of(*o);
      const std::string form = value_form(*o);
      for (const std::string& name : option_names(*o)) {
        std::string value = form.empty() ? "" : ":" + zsh_text(form) + ":_files";
        if (!choices.empty()) value = fmt::format(":choice:({})", fmt::join(choices, " "));
        options += " \\\n        ";
        options += quoted(fmt::format("*{}[{}]{}", name, zsh_text(o->get_description()), value));
      }
    }
    options += " \\\n        '*:file:_files' ;;\n";
  }
  return fmt::format(R"(#compdef lithify
# Completion of lithify for zsh.
local -a commands
commands=(
{})
if (( CURRENT == 2 )); then
  _describe command commands
else
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{}  esac
fi
)",
                     commands, options);
}

std::string fish_script(const CLI::App& app) {
  std::string out = "# Completion of lithify for fish.\n";
  const std::string none = fmt::format("not __fish_seen_subcommand_from {}", fmt::join(command_names(app), " "));
  const auto text = [](std::string s) {
    for (size_t at = 0; (at = s.find_first_of("'\\", at)) != s.npos; at += 2) s.insert(at, "\\");
    return "'" + s + "'";
  };
  for (const CLI::App* c : commands_of(app))
    out += fmt::format("complete -c lithify -f -n '{}' -a {} -d {}\n", none, c->get_name(), text(c->get_description()));
  for (const CLI::App* c : commands_of(app)) {
    for (const CLI::Option* o : options_of(*c)) {
      out += fmt::format("complete -c lithify -n '__fish_seen_subcommand_from {}'", c->get_name());
      for (const std::string& name : o->get_snames()) out += " -s " + name;
      for (const std::string& name : o->get_lnames()) out += " -l " + name;
      const std::vector<std::string> choices = choices_of(*o);
      if (!choices.empty())
        out += fmt::format(" -x -a '{}'", fmt::join(choices, " "));
      else if (!value_form(*o).empty())
        out += " -r";
      out += " -d " + text(o->get_description()) + "\n";
    }
  }
  return out;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  return shell == "bash" ? bash_script(app) : shell == "zsh" ? zsh_script(app) : fish_script(app);
}

}  // namespace lithify::cli
