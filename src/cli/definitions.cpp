#include "cli/definitions.hpp"

#include <algorithm>

namespace lithify::cli {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); });
}

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* o) { return o->nonpositional() && !o->get_group().empty(); });
}

std::vector<std::string> option_names(const CLI::Option& option) {
  std::vector<std::string> out;
  for (const std::string& name : option.get_snames()) out.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.push_back("--" + name);
  return out;
}

std::string value_form(const CLI::Option& option) {
  if (option.get_type_size() == 0) return "";
  const std::string type = option.get_type_name();
  const size_t choices = type.find('{');
  if (choices != type.npos) return type.substr(choices);
  return type.substr(0, type.find(':'));
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string form = value_form(option);
  if (!form.starts_with('{') || !form.ends_with('}')) return {};
  return CLI::detail::split(form.substr(1, form.size() - 2), ',');
}

}  // namespace lithify::cli
