#include "merge/numbers.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "merge/expressions.hpp"
#include "merge/operators.hpp"
#include "program/print.hpp"

namespace lithify::merge {
namespace {

using program::Expr;
using program::Stmt;
using Kind = Expr::Kind;
using Uses = std::unordered_map<std::string, size_t>;

bool is_append(const Stmt& s) {
  return s.kind == Stmt::Kind::Evaluate && s.values[0].name == "aten::append" && s.values[0].items.size() == 2 &&
         s.values[0].items[0].kind == Kind::Name && s.values[0].items[1].kind == Kind::Name;
}

/// Whether it computes a number, or an element of a list, of values that are there.
bool computes_number(const Expr& e) {
  if (e.kind == Kind::Name || e.kind == Kind::Int || e.kind == Kind::Float || e.kind == Kind::Bool) return true;
  const bool known = e.kind == Kind::Subscript || (e.kind == Kind::Operator && is_on_numbers(e));
  return known && std::ranges::all_of(e.items, computes_number);
}

bool is_list(const Expr& e) {
  return e.kind == Kind::Annotate ? is_list(e.items[0]) : e.kind == Kind::List && e.items.empty();
}

/// How often each name is read. What is appended to a list is read where the list is.
void count(const std::vector<Stmt>& body, Uses& uses) {
  const std::function<void(const Expr&)> visit = [&](const Expr& e) {
    if (e.kind == Kind::Name) ++uses[e.name];
    for (const Expr& item : e.items) visit(item);
  };
  for (const Stmt& s : body) {
    if (is_append(s))
      ++uses[s.values[0].items[1].name];
    else
      for (const Expr& e : s.values) visit(e);
    count(s.body, uses);
    count(s.orelse, uses);
  }
}

bool remove(std::vector<Stmt>& body, const Uses& uses) {
  bool any = false;
  std::erase_if(body, [&](Stmt& s) {
    any = remove(s.body, uses) || any;
    bool unused = s.kind == Stmt::Kind::For && s.body.empty();
    if (is_append(s)) unused = !uses.contains(s.values[0].items[0].name);
    if (s.kind == Stmt::Kind::Assign && !s.unpack && s.targets.size() == 1 && !uses.contains(s.targets[0]))
      unused = computes_number(s.values[0]) || is_list(s.values[0]);
    any = any || unused;
    return unused;
  });
  return any;
}

const std::set<std::string_view> conversions = {"aten::Int", "aten::IntImplicit"};
const std::set<std::string_view> arithmetic = {"aten::add", "aten::sub",      "aten::mul",
                                               "aten::neg", "aten::floordiv", "aten::remainder"};

class KnownIntegers {
 public:
  /// Whether the statement makes what is there already.
  bool is_there(const Stmt& s) {
    if (s.kind != Stmt::Kind::Assign || s.unpack || s.targets.size() != 1) return false;
    const Expr& e = s.values[0];
    const std::string& target = s.targets[0];
    if (conversions.contains(e.name) && e.items[0].kind == Kind::Name)
      if (const auto integer = tensors_.find(e.items[0].name); integer != tensors_.end()) {
        there[target] = integer->second;
        return true;
      }
    if (e.name == "prim::NumToTensor" && is_integer(e.items[0])) tensors_[target] = e.items[0];
    if (!is_integer(e)) return false;
    integers_.insert(target);
    // Numbers that count are left to be seen.
    if (!arithmetic.contains(e.name) || !std::ranges::all_of(e.items, is_name)) return false;
    const auto [known, is_new] = known_.try_emplace(program::print(e), target);
    if (!is_new) there[target] = name_of(known->second);
    return !is_new;
  }
  std::unordered_map<std::string, Expr> there;  // what stands for a name

 private:
  static bool is_name(const Expr& e) { return e.kind == Kind::Name; }

  bool is_integer(const Expr& e) const {
    if (e.kind != Kind::Operator) return e.kind == Kind::Int || (is_name(e) && integers_.contains(e.name));
    if (arithmetic.contains(e.name))
      return e.keywords.empty() && std::ranges::all_of(e.items, [&](const Expr& item) { return is_integer(item); });
    return conversions.contains(e.name) || (e.name == "aten::size" && e.items.size() == 2);
  }

  std::unordered_set<std::string> integers_;
  std::unordered_map<std::string, Expr> tensors_;       // of one integer, by name
  std::unordered_map<std::string, std::string> known_;  // names, by what they are
};

}  // namespace

void share_numbers(std::vector<Stmt>& body) {
  KnownIntegers known;
  std::erase_if(body, [&](Stmt& s) {
    for_each_expr(s, [&](Expr& e) { replace_names(e, known.there); });
    return known.is_there(s);
  });
  remove_unused_numbers(body);
}

void remove_unused_numbers(std::vector<Stmt>& body) {
  for (bool again = true; again;) {
    Uses uses;
    count(body, uses);
    again = remove(body, uses);
  }
}

}  // namespace lithify::merge
