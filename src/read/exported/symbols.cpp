#include "read/exported/symbols.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <vector>

#include "base/diagnostic.hpp"
#include "program/text.hpp"

namespace lithify::read {
namespace {

using program::Expr;
using ExprKind = Expr::Kind;

constexpr int max_formula_depth = 100;
constexpr size_t max_operands = 200;
constexpr size_t max_text = size_t{1} << 20;

Expr integer(int64_t value) {
  Expr e;
  e.kind = ExprKind::Int;
  e.integer = value;
  return e;
}

Expr named(std::string_view name) {
  Expr e;
  e.kind = ExprKind::Name;
  e.name = name;
  return e;
}

Expr operation(std::string_view name, std::vector<Expr> items) {
  Expr e;
  e.kind = ExprKind::Operator;
  e.name = name;
  e.items = std::move(items);
  return e;
}

Expr negated(Expr e) { return e.kind == ExprKind::Int ? integer(-e.integer) : operation("aten::neg", {std::move(e)}); }

/// Functions that are an operator of two operands, or of more from left to right.
constexpr std::pair<std::string_view, std::string_view> kOperators[] = {
    {"Add", "aten::add"},
    {"Mul", "aten::mul"},
    {"Pow", "prim::pow"},
    {"PowByNatural", "prim::pow"},
    {"FloatPow", "aten::pow"},
    {"FloorDiv", "aten::floordiv"},
    {"CleanDiv", "aten::floordiv"},
    {"Mod", "aten::remainder"},
    {"PythonMod", "aten::remainder"},
    {"Max", "prim::max"},
    {"Min", "prim::min"},
    {"max", "prim::max"},
    {"min", "prim::min"},
    {"IntTrueDiv", "aten::truediv"},
    {"FloatTrueDiv", "aten::truediv"},
    {"Rational", "aten::truediv"},
    {"LShift", "aten::__lshift__"},
    {"RShift", "aten::__rshift__"},
    {"BitwiseFn_bitwise_and", "aten::__and__"},
    {"BitwiseFn_bitwise_or", "aten::__or__"},
    {"BitwiseFn_bitwise_xor", "aten::__xor__"},
    {"Equality", "aten::eq"},
    {"Eq", "aten::eq"},
    {"Unequality", "aten::ne"},
    {"Ne", "aten::ne"},
    {"StrictLessThan", "aten::lt"},
    {"LessThan", "aten::le"},
    {"StrictGreaterThan", "aten::gt"},
    {"GreaterThan", "aten::ge"},
    {"And", "aten::__and__"},
    {"Or", "aten::__or__"},
};

/// Functions of one operand.
constexpr std::pair<std::string_view, std::string_view> kFunctions[] = {
    {"Not", "aten::__not__"},    {"TruncToInt", "aten::Int"}, {"FloorToInt", "aten::floor"},
    {"CeilToInt", "aten::ceil"}, {"ToFloat", "aten::Float"},  {"floor", "aten::floor"},
    {"ceiling", "aten::ceil"},   {"Abs", "prim::abs"},        {"sqrt", "aten::sqrt"},
};

/// What a written operator means, and how tightly it binds.
struct Infix {
  std::string_view text;
  std::string_view name;
  int level;
};
constexpr Infix kInfix[] = {
    {"==", "aten::eq", 1},       {"!=", "aten::ne", 1},       {"<=", "aten::le", 1}, {">=", "aten::ge", 1},
    {"<", "aten::lt", 1},        {">", "aten::gt", 1},        {"+", "aten::add", 2}, {"-", "aten::sub", 2},
    {"//", "aten::floordiv", 3}, {"%", "aten::remainder", 3}, {"*", "aten::mul", 3}, {"/", "aten::truediv", 3},
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), rest_(text) {}

  Expr run() {
    if (text_.size() > max_text) throw Error(Code::LimitExceeded, "a symbolic size is too long");
    Expr e = expression(1);
    blank();
    if (!rest_.empty()) fail();
    return e;
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(Code::BadCode, fmt::format("the symbolic size '{}' cannot be read from byte {} on",
                                           text_.substr(0, 200), text_.size() - rest_.size()));
  }

  void blank() {
    while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
  }
  bool take(std::string_view token) {
    blank();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail();
  }
  std::string_view word() {
    size_t n = 0;
    while (n < rest_.size() && program::is_word(rest_[n])) ++n;
    const std::string_view found = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return found;
  }

  const Infix* infix() {
    blank();
    for (const Infix& op : kInfix)
      if (rest_.starts_with(op.text) && !rest_.starts_with("**")) return &op;
    return nullptr;
  }

  Expr expression(int level) {
    if (++depth_ > max_formula_depth) throw Error(Code::LimitExceeded, "a symbolic size nests too deep");
    Expr left = unary();
    for (const Infix* op = infix(); op && op->level >= level; op = infix()) {
      rest_.remove_prefix(op->text.size());
      left = operation(op->name, {std::move(left), expression(op->level + 1)});
      if (++operands_ > max_operands) throw Error(Code::LimitExceeded, "a symbolic size is too long");
    }
    --depth_;
    return left;
  }

  /// A minus binds less tightly than a power: -x**2 is -(x**2).
  Expr unary() {
    if (take("-")) return negated(power_of(nested([&] { return unary(); })));
    return power_of(atom());
  }
  Expr power_of(Expr base) {
    if (!take("**")) return base;
    return operation("prim::pow", {std::move(base), nested([&] { return unary(); })});
  }
  template <class F>
  Expr nested(F parse) {
    if (++depth_ > max_formula_depth) throw Error(Code::LimitExceeded, "a symbolic size nests too deep");
    Expr e = parse();
    --depth_;
    return e;
  }

  Expr atom() {
    blank();
    if (take("(")) {
      Expr e = expression(1);
      if (take(",")) {  // of a Piecewise
        e = operation("sympy::pair", {std::move(e), expression(1)});
      }
      expect(")");
      return e;
    }
    if (rest_.empty()) fail();
    if (program::is_digit(rest_[0])) return number();
    if (!program::is_letter(rest_[0])) fail();
    const std::string_view name = word();
    if (rest_.starts_with("(")) return call(name);
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      Expr e;
      e.kind = ExprKind::Bool;
      e.integer = name == "true" || name == "True";
      return e;
    }
    if (name == "oo" || name == "int_oo" || name == "zoo" || name == "nan")
      return operation(fmt::format("sympy::{}", name), {});
    return named(name);
  }

  Expr number() {
    size_t n = 0;
    while (n < rest_.size() && program::is_digit(rest_[n])) ++n;
    const bool whole = n == rest_.size() || (rest_[n] != '.' && rest_[n] != 'e');
    Expr e;
    e.kind = whole ? ExprKind::Int : ExprKind::Float;
    const char* end = rest_.data() + rest_.size();
    const auto [stop, error] =
        whole ? std::from_chars(rest_.data(), end, e.integer) : std::from_chars(rest_.data(), end, e.real);
    if (error != std::errc()) fail();
    rest_.remove_prefix(static_cast<size_t>(stop - rest_.data()));
    return e;
  }

  std::string_view quoted() {
    expect("'");
    const size_t end = rest_.find('\'');
    if (end == std::string_view::npos) fail();
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return found;
  }

  /// From the bracket on.
  Expr call(std::string_view name) {
    expect("(");
    if (name == "Symbol") {
      Expr e = named(quoted());
      skip_keywords();
      return e;
    }
    if (name == "Float") {
      const std::string_view digits = quoted();
      Expr e;
      e.kind = ExprKind::Float;
      const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), e.real);
      if (error != std::errc() || stop != digits.data() + digits.size()) fail();
      skip_keywords();
      return e;
    }
    std::vector<Expr> items;
    if (!take(")")) {
      do items.push_back(expression(1));
      while (take(","));
      expect(")");
    }
    return function(name, std::move(items));
  }

  /// ", positive=True, integer=True)": assumptions, which the ranges have more precisely.
  void skip_keywords() {
    while (take(",")) {
      blank();
      if (word().empty()) fail();
      expect("=");
      if (word().empty()) fail();
    }
    expect(")");
  }

  Expr function(std::string_view name, std::vector<Expr> items) {
    const size_t n = items.size();
    if (name == "Integer" && n == 1) return std::move(items[0]);
    if (name == "Identity" && n == 1) return std::move(items[0]);
    if (name == "CeilDiv" && n == 2)
      return negated(operation("aten::floordiv", {negated(std::move(items[0])), std::move(items[1])}));
    if (name == "ModularIndexing" && n == 3)
      return operation("aten::remainder",
                       {operation("aten::floordiv", {std::move(items[0]), std::move(items[1])}), std::move(items[2])});
    if (name == "RoundToInt" && n == 1) return operation("aten::Int", {operation("aten::round", std::move(items))});
    constexpr std::string_view opaque = "OpaqueUnaryFn_";
    if (name.starts_with(opaque) && n == 1)
      return operation(fmt::format("aten::{}", name.substr(opaque.size())), std::move(items));
    if (const auto* row = program::find_row(kFunctions, name); row && n == 1)
      return operation(row->second, std::move(items));
    const auto* row = program::find_row(kOperators, name);
    if (!row || n < 1) return operation(fmt::format("sympy::{}", name), std::move(items));
    Expr e = std::move(items[0]);
    for (size_t i = 1; i < n; ++i) {
      if (++operands_ > max_operands) throw Error(Code::LimitExceeded, "a symbolic size is too long");
      e = operation(row->second, {std::move(e), std::move(items[i])});
    }
    return e;
  }

  std::string_view text_;
  std::string_view rest_;
  int depth_ = 0;
  size_t operands_ = 0;
};

}  // namespace

Expr parse_symbolic(std::string_view text) { return Parser(text).run(); }

}  // namespace lithify::read
