// What went wrong, where in the user's source, and what to do about it.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lithify {

enum class Interface;

enum class Code {
#define CODE(number, name, meaning) name = number,
#include "base/codes.def"
#undef CODE
};

enum class Severity { Note, Warning, Error };

/// "LTH040".
std::string code_text(Code code);
/// The one-line meaning of a code, for documentation and --json.
std::string_view code_meaning(Code code);

/// A place in the user's own Python source. `file` is empty when nothing is known.
struct Place {
  std::string file;
  int line = 0;
  std::string function;  ///< the function or method, may be empty
  std::string text;      ///< the source line, may be empty

  bool known() const { return !file.empty(); }
  /// "model.py:12, in forward", or "" when unknown.
  std::string str() const;
  /// "model.py:12": the file without its folder; "" when unknown.
  std::string brief() const;
  bool operator==(const Place&) const = default;
};

struct Diagnostic {
  Code code = Code::Internal;
  Severity severity = Severity::Error;
  std::string message;  ///< one sentence, without a final period; options as `option` of base/options.hpp writes them
  Place place;          ///< where in the user's source
  std::string hint;     ///< what to do next, written like `message`; may be empty
  std::string subject;  ///< the name of an operator or record, for tables; may be empty

  bool operator==(const Diagnostic&) const = default;

  /// "error LTH040: message\n  at file:line\n  hint: ...", control characters escaped, in the terms of an interface.
  std::string str(Interface interface) const;
  /// The same for C++.
  std::string str() const;
};

/// The exception that carries diagnostics out of any layer. Never crosses the C ABI.
class Error : public std::exception {
 public:
  Error(Code code, std::string message, std::string hint = {});
  explicit Error(Diagnostic d) : Error(std::vector<Diagnostic>{std::move(d)}) {}
  explicit Error(std::vector<Diagnostic> all);

  const std::vector<Diagnostic>& diagnostics() const { return all_; }
  const Diagnostic& first() const { return all_.front(); }
  /// Gives the first diagnostic a place, unless it has one.
  void locate(const Place& place);
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::vector<Diagnostic> all_;
  std::string text_;
};

/// Control characters and invalid bytes of untrusted text made visible, so that a file cannot drive the terminal.
std::string printable(std::string_view text);

}  // namespace lithify
