// The options of an export as each interface spells them; base/options.def is the table of them.
//
// A diagnostic that names an option has option("also") in its text, and the user of the command line reads `--also`,
// the user of Python `also`, of C++ `ExportOptions::also`, of C `lithify_options_add_also`. Which one it is becomes
// known where diagnostics leave the library; until then the text has a reference in it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lithify {

enum class Interface;

/// A row of the table. A name is empty where the interface lacks the option.
struct Option {
  enum class Kind { Flag, Number, Choice, Text, List, Map, Function };

  std::string_view name;  ///< by which messages refer to it
  Kind kind;
  std::string_view cpp;            ///< the member of ExportOptions
  std::string_view c;              ///< the function
  std::string_view python_export;  ///< the argument of lithify.export
  std::string_view python_files;   ///< the argument of lithify.convert and lithify.check
  std::string_view command_line;   ///< "--opset"
  std::string_view meaning;        ///< a clause for help texts
};

std::span<const Option> all_options();
/// The row of that name, which must exist.
const Option& find_option(std::string_view name);

/// A reference to an option for the text of a diagnostic: `--state`, or with a value `--state io`, `state="io"`,
/// `options.state = ExportOptions::State::InOut`, `lithify_options_set_state(options, LITHIFY_STATE_IO)`.
/// The value is the name of a choice, a number or a text, which may be untrusted. A flag takes none: it is set.
std::string option(std::string_view name, std::string_view value = {});
std::string option(std::string_view name, int64_t number);
/// A reference to a TERM of the table.
std::string term(std::string_view name);

/// The text of a diagnostic for users of an interface: references as it spells them, the rest as `printable` makes it.
/// A text that comes from a file cannot hold a reference.
std::string spelled(std::string_view text, Interface interface);

}  // namespace lithify
