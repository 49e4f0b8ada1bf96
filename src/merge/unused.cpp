#include "merge/unused.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_map>

#include "merge/expressions.hpp"
#include "merge/operators.hpp"

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

}  // namespace

void remove_unused_numbers(std::vector<Stmt>& body) {
  for (bool again = true; again;) {
    Uses uses;
    count(body, uses);
    again = remove(body, uses);
  }
}

}  // namespace lithify::merge
