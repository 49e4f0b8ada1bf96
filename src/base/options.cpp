#include "base/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <stdexcept>

#include "base/diagnostic.hpp"
#include "lithify/lithify.h"
#include "lithify/lithify.hpp"

namespace lithify {
namespace {

using OptionKind = Option::Kind;

#define LACKS(reason) ""
constexpr Option options_table[] = {
#define OPTION(name, kind, cpp, c, python_export, python_files, command_line, scope, meaning) \
  {name, OptionKind::kind, cpp, c, python_export, python_files, command_line, meaning},
#include "base/options.def"
};
#undef LACKS

struct Choice {
  std::string_view option, name, cpp, c;
  void (*set)(ExportOptions&);
};
constexpr Choice choices_table[] = {
#define CHOICE(member, name, type, value, constant)                        \
  {#member, name, "lithify::ExportOptions::" #type "::" #value, #constant, \
   [](ExportOptions& options) { options.member = ExportOptions::type::value; }},
#include "base/options.def"
};

struct Term {
  std::string_view name, cpp, c, python, command_line;
};
constexpr Term terms_table[] = {
#define TERM(name, cpp, c, python, command_line) {name, cpp, c, python, command_line},
#include "base/options.def"
};

// The C ABI passes choices as numbers, and casts them.
#define CHOICE(member, name, type, value, constant) \
  static_assert(static_cast<int>(ExportOptions::type::value) == constant);
#include "base/options.def"

/// The row of a table that has the name; nullptr when there is none.
template <class Table>
auto find_row(const Table& table, std::string_view name) {
  const auto found = std::ranges::find(table, name, [](const auto& row) { return row.name; });
  return found == std::end(table) ? nullptr : &*found;
}

const Choice* find_choice(std::string_view option, std::string_view name) {
  const auto found =
      std::ranges::find_if(choices_table, [&](const Choice& c) { return c.option == option && c.name == name; });
  return found == std::end(choices_table) ? nullptr : &*found;
}

// ---- references: begin, name, separator, value, end ----

constexpr char separator = '\x1f';
constexpr char end = '\x1e';

/// Every process draws another number, so that a file cannot hold what begins a reference.
const std::string& begin() {
  static const std::string text = [] {
    std::random_device draw;
    return fmt::format("\x1e{:08x}{:08x}:", draw(), draw());
  }();
  return text;
}

std::string in_cpp(const Option& o, std::string_view value) {
  if (o.kind == OptionKind::Flag) return fmt::format("options.{} = true", o.cpp);
  if (value.empty()) return fmt::format("ExportOptions::{}", o.cpp);
  if (const Choice* choice = find_choice(o.name, value)) return fmt::format("options.{} = {}", o.cpp, choice->cpp);
  const char* form = o.kind == OptionKind::Number ? "options.{} = {}"
                     : o.kind == OptionKind::List ? "options.{} = {{\"{}\"}}"
                                                  : "options.{} = \"{}\"";
  return fmt::format(fmt::runtime(form), o.cpp, value);
}

std::string in_c(const Option& o, std::string_view value) {
  if (o.kind == OptionKind::Flag) return fmt::format("{}(options, 1)", o.c);
  if (value.empty()) return std::string(o.c);
  if (const Choice* choice = find_choice(o.name, value)) return fmt::format("{}(options, {})", o.c, choice->c);
  return fmt::format(fmt::runtime(o.kind == OptionKind::Number ? "{}(options, {})" : "{}(options, \"{}\")"), o.c,
                     value);
}

std::string in_python(const Option& o, std::string_view value) {
  const std::string_view argument = o.python_export.empty() ? o.python_files : o.python_export;
  std::string out(argument);
  if (o.kind == OptionKind::Flag) {
    out += "=True";
  } else if (!value.empty()) {
    const char* form = o.kind == OptionKind::Number ? "={}" : o.kind == OptionKind::List ? "=[\"{}\"]" : "=\"{}\"";
    out += fmt::format(fmt::runtime(form), value);
  }
  return o.python_export.empty() ? out + " of lithify.convert" : out;
}

std::string in_command_line(const Option& o, std::string_view value) {
  if (o.kind == OptionKind::Flag || value.empty()) return std::string(o.command_line);
  const bool plain = o.kind == OptionKind::Number || o.kind == OptionKind::Choice;
  return fmt::format(fmt::runtime(plain ? "{} {}" : "{} '{}'"), o.command_line, value);
}

std::string resolved(std::string_view name, std::string_view value, Interface interface) {
  if (const Term* t = find_row(terms_table, name)) {
    const std::string_view words[] = {t->cpp, t->c, t->python, t->command_line};
    return std::string(words[static_cast<size_t>(interface)]);
  }
  const Option* o = find_row(options_table, name);
  if (!o) return printable(name);  // a reference that somebody cut into pieces
  switch (interface) {
    case Interface::C:
      return in_c(*o, value);
    case Interface::Python:
      return in_python(*o, value);
    case Interface::CommandLine:
      return in_command_line(*o, value);
    default:
      return in_cpp(*o, value);
  }
}

}  // namespace

std::span<const Option> all_options() { return options_table; }

const Option& find_option(std::string_view name) {
  if (const Option* found = find_row(options_table, name)) return *found;
  throw std::logic_error(fmt::format("there is no option '{}' in the table", name));
}

std::string option(std::string_view name, std::string_view value) {
  return fmt::format("{}{}{}{}{}", begin(), find_option(name).name, separator, printable(value), end);
}

std::string option(std::string_view name, int64_t number) { return option(name, std::to_string(number)); }

std::string term(std::string_view name) { return fmt::format("{}{}{}{}", begin(), name, separator, end); }

std::string spelled(std::string_view text, Interface interface) {
  std::string out;
  while (true) {
    const size_t at = text.find(begin());
    if (at == std::string_view::npos || text.find(end, at + 1) == std::string_view::npos) return out + printable(text);
    out += printable(text.substr(0, at));
    text.remove_prefix(at + begin().size());
    const size_t middle = text.find(separator), last = text.find(end);
    out += resolved(text.substr(0, middle), text.substr(middle + 1, last - middle - 1), interface);
    text.remove_prefix(last + 1);
  }
}

std::vector<std::string> choices(const std::string& option) {
  std::vector<std::string> out;
  for (const Choice& c : choices_table)
    if (c.option == option) out.emplace_back(c.name);
  return out;
}

void set_choice(ExportOptions& options, const std::string& option, const std::string& name) {
  if (const Choice* choice = find_choice(option, name)) return choice->set(options);
  std::string all;
  const std::vector<std::string> names = choices(option);
  for (size_t i = 0; i < names.size(); ++i)
    all += fmt::format("{}'{}'", i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  throw std::invalid_argument(fmt::format("{} is {}, not '{}'", option, all, name));
}

}  // namespace lithify
