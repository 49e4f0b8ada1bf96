#include "claims/formula.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/diagnostic.hpp"
#include "claims/formula_node.hpp"

namespace lithify::claims {
namespace {

constexpr size_t max_size = 20'000;

constexpr const char* operator_texts[] = {" + ", " - ",  "*",   "/",    " // ", " % ",
                                          " < ", " <= ", " > ", " >= ", " == ", " != "};

// ---- printing -----------------------------------------------------------------------------------------------------

void print(const Formula::Node& n, Kind loosest, std::string& out);

/// The operands, of which all but the first bind tighter than the node.
void print_operands(const Formula::Node& n, Kind first, Kind rest, std::string_view between, std::string& out) {
  for (size_t i = 0; i < n.operands.size(); ++i) {
    if (i > 0) out += n.operators.empty() ? between : operator_texts[static_cast<size_t>(n.operators[i - 1])];
    print(*n.operands[i], i == 0 ? first : rest, out);
  }
}

std::string real_text(double value) {
  std::string out = fmt::format("{}", value);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

void print_node(const Formula::Node& n, std::string& out) {
  switch (n.kind) {
    case Kind::Or:
      return print_operands(n, Kind::Or, Kind::And, " or ", out);
    case Kind::And:
      return print_operands(n, Kind::And, Kind::Not, " and ", out);
    case Kind::Not:
      out += "not ";
      return print(*n.operands[0], Kind::Not, out);
    case Kind::Compare:
      return print_operands(n, Kind::Sum, Kind::Sum, "", out);
    case Kind::Sum:
      return print_operands(n, Kind::Sum, Kind::Product, "", out);
    case Kind::Product:
      return print_operands(n, Kind::Product, Kind::Negative, "", out);
    case Kind::Negative:
      out += '-';
      return print(*n.operands[0], Kind::Negative, out);
    case Kind::Power:
      print(*n.operands[0], Kind::Call, out);
      out += "**";
      return print(*n.operands[1], Kind::Negative, out);
    case Kind::Call:
      out += n.text + '(';
      print_operands(n, Kind::Or, Kind::Or, ", ", out);
      out += ')';
      return;
    case Kind::Name:
      out += name_text(n.text);
      return;
    case Kind::Integer:
      out += std::to_string(n.integer);
      return;
    case Kind::Large:
      out += n.text;
      return;
    case Kind::Real:
      out += real_text(n.real);
      return;
    case Kind::Bool:
      out += n.integer ? "True" : "False";
      return;
  }
}

void print(const Formula::Node& n, Kind loosest, std::string& out) {
  const bool enclose = n.kind < loosest;
  if (enclose) out += '(';
  print_node(n, out);
  if (enclose) out += ')';
}

// ---- walks --------------------------------------------------------------------------------------------------------

void collect_names(const Formula::Node& n, std::vector<std::string>& out) {
  if (n.kind == Kind::Name && std::ranges::find(out, n.text) == out.end()) out.push_back(n.text);
  for (const NodePtr& operand : n.operands) collect_names(*operand, out);
}

NodePtr replaced(const NodePtr& n, const std::function<NodePtr(const std::string& name)>& by) {
  if (n->kind == Kind::Name) {
    NodePtr other = by(n->text);
    return other ? other : n;
  }
  if (n->operands.empty()) return n;
  Formula::Node copy = *n;
  for (NodePtr& operand : copy.operands) operand = replaced(operand, by);
  return finished(std::move(copy));
}

Operator reversed(Operator comparison) {
  switch (comparison) {
    case Operator::Less:
      return Operator::GreaterEqual;
    case Operator::LessEqual:
      return Operator::Greater;
    case Operator::Greater:
      return Operator::LessEqual;
    case Operator::GreaterEqual:
      return Operator::Less;
    case Operator::Equal:
      return Operator::NotEqual;
    default:
      return Operator::Equal;
  }
}

NodePtr negation(const NodePtr& n) {
  Formula::Node copy = *n;
  switch (n->kind) {
    case Kind::Not:
      return n->operands[0];
    case Kind::Compare:
      copy.operators[0] = reversed(copy.operators[0]);
      break;
    case Kind::And:
    case Kind::Or:
      copy.kind = n->kind == Kind::And ? Kind::Or : Kind::And;
      for (NodePtr& operand : copy.operands) operand = negation(operand);
      break;
    case Kind::Bool:
      copy.integer = 1 - copy.integer;
      break;
    default:
      copy = {.kind = Kind::Not, .operands = {n}};
  }
  return finished(std::move(copy));
}

bool is_identifier(std::string_view name) {
  if (name.empty() || is_keyword(name)) return false;
  for (size_t i = 0; i < name.size(); ++i)
    if (!is_name_byte(name[i], i == 0)) return false;
  return true;
}

}  // namespace

// ---- nodes --------------------------------------------------------------------------------------------------------

void formula_too_large() { throw Error(Code::LimitExceeded, "a formula of sizes is too long or nests too deep"); }

NodePtr finished(Formula::Node n) {
  const bool is_chain = n.kind == Kind::Sum || n.kind == Kind::Product || n.kind == Kind::And || n.kind == Kind::Or;
  if (is_chain && n.operands[0]->kind == n.kind) {
    const NodePtr first = n.operands[0];
    n.operands.erase(n.operands.begin());
    n.operands.insert(n.operands.begin(), first->operands.begin(), first->operands.end());
    n.operators.insert(n.operators.begin(), first->operators.begin(), first->operators.end());
  }
  n.size = n.depth = 1;
  for (const NodePtr& operand : n.operands) {
    n.size += operand->size;
    n.depth = std::max(n.depth, operand->depth + 1);
  }
  if (n.size > max_size || n.depth > max_depth) formula_too_large();
  return std::make_shared<const Formula::Node>(std::move(n));
}

bool is_keyword(std::string_view word) {
  return word == "and" || word == "or" || word == "not" || word == "True" || word == "False";
}

bool is_name_byte(char c, bool first) {
  const auto byte = static_cast<unsigned char>(c);
  return c == '_' || byte >= 0x80 || (first ? std::isalpha(byte) : std::isalnum(byte));
}

std::string name_text(std::string_view name) {
  if (is_identifier(name)) return std::string(name);
  std::string out = "`";
  for (const char c : name) out += c == '`' ? std::string("``") : std::string(1, c);
  return out + '`';
}

// ---- Formula ------------------------------------------------------------------------------------------------------

std::string Formula::str() const {
  std::string out;
  print(*node_, Kind::Or, out);
  return out;
}

std::vector<std::string> Formula::names() const {
  std::vector<std::string> out;
  collect_names(*node_, out);
  return out;
}

Formula Formula::substitute(const std::map<std::string, Formula>& by) const {
  return Formula(replaced(node_, [&](const std::string& name) {
    const auto found = by.find(name);
    return found == by.end() ? nullptr : found->second.node_;
  }));
}

Formula Formula::negated() const { return Formula(negation(node_)); }

namespace {

/// The values that comparisons with integers leave to an expression.
class Range {
 public:
  void compare(Operator op, int64_t with) {
    if (op == Operator::Equal || op == Operator::GreaterEqual) at_least(with, false);
    if (op == Operator::Equal || op == Operator::LessEqual) at_most(with, false);
    if (op == Operator::Greater) at_least(with, true);
    if (op == Operator::Less) at_most(with, true);
    if (op == Operator::NotEqual) not_.insert(with);
  }

  /// `integers`: only integers are among the values.
  bool empty(bool integers) const {
    if (!least_ || !most_ || *least_ < *most_) {
      if (!integers || !least_ || !most_ || !is_small(*least_) || !is_small(*most_)) return false;
      return *least_ + more_ > *most_ - less_;
    }
    return *least_ > *most_ || more_ || less_ || not_.contains(*least_);
  }

 private:
  static bool is_small(int64_t n) { return n > -(int64_t{1} << 62) && n < int64_t{1} << 62; }

  void at_least(int64_t n, bool not_equal) {
    if (!least_ || n > *least_) least_ = n, more_ = false;
    if (n == *least_) more_ = more_ || not_equal;
  }
  void at_most(int64_t n, bool not_equal) {
    if (!most_ || n < *most_) most_ = n, less_ = false;
    if (n == *most_) less_ = less_ || not_equal;
  }

  std::optional<int64_t> least_, most_;
  bool more_ = false, less_ = false;  // whether the bound itself is excluded
  std::set<int64_t> not_;
};

}  // namespace

bool contradict(std::span<const Formula> conditions) {
  std::map<std::string, Range> ranges;
  for (const Formula& condition : conditions) {
    const Formula::Node& compared = condition.node();
    if (compared.kind != Kind::Compare || compared.operands[1]->kind != Kind::Integer) continue;
    const NodePtr& of = compared.operands[0];
    std::string text;
    print(*of, Kind::Or, text);
    Range& range = ranges[text];
    range.compare(compared.operators[0], compared.operands[1]->integer);
    if (range.empty(of->kind == Kind::Name)) return true;
  }
  return false;
}

namespace {

/// "n >= k" for "n == k" and "n > k", and likewise "n <= k". Nothing for others.
std::optional<Formula> with_bound(const Formula& equal, const Formula& order) {
  const Formula::Node &a = equal.node(), &b = order.node();
  if (a.kind != Kind::Compare || b.kind != Kind::Compare || a.operators[0] != Operator::Equal) return std::nullopt;
  const char* op = b.operators[0] == Operator::Greater ? ">=" : b.operators[0] == Operator::Less ? "<=" : nullptr;
  std::string sides[4];
  for (size_t i = 0; i < 2; ++i) {
    print(*a.operands[i], Kind::Sum, sides[i]);
    print(*b.operands[i], Kind::Sum, sides[2 + i]);
  }
  if (!op || sides[0] != sides[2] || sides[1] != sides[3]) return std::nullopt;
  return Formula::parse(fmt::format("{} {} {}", sides[0], op, sides[1]));
}

}  // namespace

Formula any_of(std::vector<Formula> formulas) {
  for (size_t i = 0; i < formulas.size(); ++i)
    for (size_t j = 0; j < formulas.size(); ++j)
      if (const std::optional<Formula> both = with_bound(formulas[i], formulas[j])) {
        formulas[std::min(i, j)] = *both;
        formulas.erase(formulas.begin() + static_cast<ptrdiff_t>(std::max(i, j)));
        i = 0, j = 0;
      }
  std::string text;
  for (const Formula& f : formulas) text += fmt::format("{}({})", text.empty() ? "" : " or ", f.str());
  return Formula::parse(text);
}

}  // namespace lithify::claims
