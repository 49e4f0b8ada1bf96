// Numbers and strings.
#include <charconv>
#include <limits>

#include "program/parser.hpp"

namespace lithify::program {

void convert_literal(Expr& e, const Type& type) {
  if (e.kind == Expr::Kind::Int && type.name == "float") {
    e.kind = Expr::Kind::Float;
    e.real = static_cast<double>(e.integer);
    e.integer = 0;
  } else if (type.name == "Optional" && type.args.size() == 1) {
    convert_literal(e, type.args[0]);
  } else if (e.kind == Expr::Kind::List && type.name == "List" && type.args.size() == 1) {
    for (Expr& item : e.items) convert_literal(item, type.args[0]);
  } else if (e.kind == Expr::Kind::Tuple && type.name == "Tuple" && type.args.size() == e.items.size()) {
    for (size_t i = 0; i < e.items.size(); ++i) convert_literal(e.items[i], type.args[i]);
  } else if (e.kind == Expr::Kind::Dict && type.name == "Dict" && type.args.size() == 2) {
    for (size_t i = 0; i < e.items.size(); ++i) convert_literal(e.items[i], type.args[i % 2]);
  }
}

double Parser::real(std::string_view digits) {
  if (digits == "inf") return std::numeric_limits<double>::infinity();
  if (digits == "nan") return std::numeric_limits<double>::quiet_NaN();
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) lexer_.fail(pos(), "malformed number");
  return value;
}

/// A literal after its sign: an integer, a float, or a complex number (real part, sign, imaginary part).
Expr Parser::number(bool negative) {
  const auto at_number = [&] {
    return kind() == kNumber || at_word("inf") || at_word("nan") || at_word("infj") || at_word("nanj");
  };
  if (!at_number()) unexpected("a number");
  Expr e = make(Expr::Kind::Float);
  std::string_view digits = text();
  if (digits.ends_with('j')) {
    e.kind = Expr::Kind::Complex;
    e.imag = real(digits.substr(0, digits.size() - 1));
    if (negative) e.imag = -e.imag;
    advance();
    return e;
  }
  if (kind() == kNumber && digits.find_first_of(".eE") == std::string_view::npos) {
    e.kind = Expr::Kind::Int;
    uint64_t magnitude = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), magnitude);
    if (error != std::errc() || magnitude > (uint64_t{1} << 63) - (negative ? 0 : 1)) {
      lexer_.fail(pos(), "the integer does not fit into 64 bits");
    }
    e.integer = static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
  }
  e.real = e.kind == Expr::Kind::Int ? static_cast<double>(e.integer) : real(digits);
  if (negative && e.kind == Expr::Kind::Float) e.real = -e.real;
  advance();
  if (kind() == '+' || kind() == '-') {
    const bool minus = kind() == '-';
    advance();
    if (!at_number() || !text().ends_with('j')) unexpected("an imaginary number");
    e.kind = Expr::Kind::Complex;
    e.integer = 0;
    e.imag = real(text().substr(0, text().size() - 1));
    if (minus) e.imag = -e.imag;
    advance();
  } else if (e.kind == Expr::Kind::Int) {
    e.real = 0;
  }
  return e;
}

int64_t Parser::integer() {
  const Expr e = number(accept('-'));
  if (e.kind != Expr::Kind::Int) lexer_.fail(e.pos.offset, "expected an integer");
  return e.integer;
}

namespace {

constexpr bool is_octal(char c) { return c >= '0' && c <= '7'; }

/// What an escape in a string stands for, and how many characters it has after the backslash.
struct Escape {
  char value = 0;
  size_t length = 0;  ///< 0 for an unknown escape
};

Escape escape_at(std::string_view tail) {
  static constexpr std::string_view escapes = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
  for (size_t i = 0; i < escapes.size(); i += 2)
    if (escapes[i] == tail[0]) return {escapes[i + 1], 1};
  if (tail.size() >= 3 && tail[0] <= '3' && is_octal(tail[0]) && is_octal(tail[1]) && is_octal(tail[2]))
    return {static_cast<char>((tail[0] - '0') * 64 + (tail[1] - '0') * 8 + (tail[2] - '0')), 3};
  return {};
}

}  // namespace

/// One or more adjacent string literals, without their escapes.
std::string Parser::string() {
  if (kind() != kString) unexpected("a string");
  std::string out;
  for (; kind() == kString; advance()) {
    std::string_view raw = text();
    const size_t quotes = raw.size() >= 6 && raw[1] == raw[0] && raw[2] == raw[0] ? 3 : 1;
    raw = raw.substr(quotes, raw.size() - 2 * quotes);
    out.reserve(out.size() + raw.size());
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\') {
        out += raw[i];
        continue;
      }
      const Escape escape = escape_at(raw.substr(i + 1));
      if (escape.length == 0) lexer_.fail(pos() + quotes + i, "unknown escape in a string");
      out += escape.value;
      i += escape.length;
    }
  }
  return out;
}

}  // namespace lithify::program
