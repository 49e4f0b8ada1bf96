// From the text of a formula to its tree. The text may come from a file: its length and nesting are limited.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/diagnostic.hpp"
#include "claims/formula_node.hpp"

namespace lithify::claims {
namespace {

constexpr size_t max_text = size_t{1} << 17;

struct Token {
  std::string_view text;
  Operator meaning;
};
// The longer of two that begin alike comes first.
constexpr Token comparisons[] = {{"<=", Operator::LessEqual}, {">=", Operator::GreaterEqual}, {"==", Operator::Equal},
                                 {"!=", Operator::NotEqual},  {"<", Operator::Less},          {">", Operator::Greater}};
constexpr Token additions[] = {{"+", Operator::Add}, {"-", Operator::Subtract}};
constexpr Token multiplications[] = {
    {"//", Operator::FloorDivide}, {"/", Operator::Divide}, {"*", Operator::Multiply}, {"%", Operator::Modulo}};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), rest_(text) {}

  NodePtr run() {
    if (text_.size() > max_text) formula_too_large();
    NodePtr out = disjunction();
    blank();
    if (!rest_.empty()) fail("this is not part of it");
    return out;
  }

 private:
  [[noreturn]] void fail(std::string_view why) const {
    constexpr size_t most_shown = 200;
    throw Error(Code::BadCode, fmt::format("'{}' is not a formula of sizes: at byte {}, {}",
                                           text_.substr(0, most_shown), text_.size() - rest_.size(), why));
  }

  // ---- tokens ----

  void blank() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }
  bool take(std::string_view token) {
    blank();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  bool take_word(std::string_view word) {
    blank();
    if (!rest_.starts_with(word) || (rest_.size() > word.size() && is_name_byte(rest_[word.size()], false)))
      return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  template <size_t N>
  std::optional<Operator> take_operator(const Token (&table)[N]) {
    blank();
    if (rest_.starts_with("**")) return std::nullopt;
    for (const Token& token : table)
      if (take(token.text)) return token.meaning;
    return std::nullopt;
  }
  std::string_view word() {
    size_t n = 0;
    while (n < rest_.size() && is_name_byte(rest_[n], n == 0)) ++n;
    const std::string_view found = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return found;
  }

  // ---- the grammar, from the loosest binding to the tightest ----

  /// Operands with the word between them; one alone stands for itself.
  template <class Operand>
  NodePtr joined(Kind kind, std::string_view word, Operand operand) {
    std::vector<NodePtr> operands = {operand()};
    while (take_word(word)) operands.push_back(operand());
    if (operands.size() == 1) return operands[0];
    return finished({.kind = kind, .operands = std::move(operands)});
  }

  NodePtr disjunction() {
    return joined(Kind::Or, "or", [&] { return joined(Kind::And, "and", [&] { return inversion(); }); });
  }

  NodePtr inversion() {
    if (!take_word("not")) return comparison();
    return finished({.kind = Kind::Not, .operands = {nested([&] { return inversion(); })}});
  }

  NodePtr comparison() {
    NodePtr left = sum();
    const std::optional<Operator> op = take_operator(comparisons);
    if (!op) return left;
    NodePtr right = sum();
    if (take_operator(comparisons)) fail("a comparison has two operands");
    return finished({.kind = Kind::Compare, .operators = {*op}, .operands = {std::move(left), std::move(right)}});
  }

  template <size_t N, class Operand>
  NodePtr chain(Kind kind, const Token (&table)[N], Operand operand) {
    Formula::Node out{.kind = kind, .operands = {operand()}};
    while (const std::optional<Operator> op = take_operator(table)) {
      out.operators.push_back(*op);
      out.operands.push_back(operand());
    }
    return out.operators.empty() ? out.operands[0] : finished(std::move(out));
  }

  NodePtr sum() {
    return chain(Kind::Sum, additions, [&] { return chain(Kind::Product, multiplications, [&] { return unary(); }); });
  }

  /// A minus binds less tightly than a power: -x**2 is -(x**2).
  NodePtr unary() {
    if (take("-")) return finished({.kind = Kind::Negative, .operands = {nested([&] { return unary(); })}});
    NodePtr base = atom();
    if (!take("**")) return base;
    return finished({.kind = Kind::Power, .operands = {std::move(base), nested([&] { return unary(); })}});
  }

  template <class F>
  NodePtr nested(F parse) {
    if (++depth_ > max_depth) formula_too_large();
    NodePtr out = parse();
    --depth_;
    return out;
  }

  NodePtr atom() {
    blank();
    if (rest_.empty()) fail("an operand is missing");
    if (take("(")) {
      NodePtr inner = nested([&] { return disjunction(); });
      if (!take(")")) fail("a ')' is missing");
      return inner;
    }
    if (rest_[0] == '`') return quoted_name();
    if (std::isdigit(static_cast<unsigned char>(rest_[0])) || rest_[0] == '.') return number();
    const std::string_view name = word();
    if (name.empty()) fail("an operand is missing");
    if (name == "True" || name == "False") return finished({.kind = Kind::Bool, .integer = name == "True"});
    if (is_keyword(name)) fail("an operand is missing");
    if (rest_.starts_with("(")) return call(name);
    return finished({.kind = Kind::Name, .text = std::string(name)});
  }

  NodePtr quoted_name() {
    std::string name;
    for (rest_.remove_prefix(1); !rest_.empty(); rest_.remove_prefix(1)) {
      if (rest_.starts_with("``")) {
        rest_.remove_prefix(1);
      } else if (rest_[0] == '`') {
        rest_.remove_prefix(1);
        return finished({.kind = Kind::Name, .text = std::move(name)});
      }
      name += rest_[0];
    }
    fail("a '`' is missing");
  }

  NodePtr number() {
    size_t digits = 0;
    while (digits < rest_.size() && std::isdigit(static_cast<unsigned char>(rest_[digits]))) ++digits;
    const bool whole = digits == rest_.size() || std::string_view(".eE").find(rest_[digits]) == std::string_view::npos;
    return whole ? integer(digits) : real();
  }

  NodePtr integer(size_t digits) {
    Formula::Node out{.kind = Kind::Integer};
    const std::string_view text = rest_.substr(0, digits);
    rest_.remove_prefix(digits);
    if (std::from_chars(text.data(), text.data() + text.size(), out.integer).ec != std::errc())
      out = {.kind = Kind::Large, .text = std::string(text)};
    return finished(std::move(out));
  }

  NodePtr real() {
    Formula::Node out{.kind = Kind::Real};
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out.real);
    if (error != std::errc() || !std::isfinite(out.real)) fail("this number cannot be read");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return finished(std::move(out));
  }

  /// From the bracket on.
  NodePtr call(std::string_view name) {
    const Function* function = find_function(name);
    if (!function) fail(fmt::format("there is no function '{}'", name));
    take("(");
    Formula::Node out{.kind = Kind::Call, .text = std::string(name)};
    do out.operands.push_back(nested([&] { return disjunction(); }));
    while (take(","));
    if (!take(")")) fail("a ')' is missing");
    if (out.operands.size() < function->least || out.operands.size() > function->most)
      fail(fmt::format("'{}' does not take {} arguments", name, out.operands.size()));
    return finished(std::move(out));
  }

  std::string_view text_;
  std::string_view rest_;
  size_t depth_ = 0;
};

}  // namespace

Formula Formula::parse(std::string_view text) { return Formula(Parser(text).run()); }

}  // namespace lithify::claims
