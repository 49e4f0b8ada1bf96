#include "merge/expressions.hpp"

#include <algorithm>
#include <limits>

namespace lithify::merge {

using program::Expr;
using program::Stmt;
using Kind = Expr::Kind;

Expr name_of(const std::string& name) {
  Expr out;
  out.kind = Kind::Name;
  out.name = name;
  return out;
}

Expr integer(int64_t value, program::Pos pos) {
  Expr out;
  out.kind = Kind::Int;
  out.integer = value;
  out.pos = pos;
  return out;
}

Expr operation(const char* name, std::vector<Expr> items, program::Pos pos) {
  Expr out;
  out.kind = Kind::Operator;
  out.name = name;
  out.items = std::move(items);
  out.pos = pos;
  return out;
}

Expr element(Expr list, Expr index, program::Pos pos) {
  Expr out;
  out.kind = Kind::Subscript;
  out.items = {std::move(list), std::move(index)};
  out.pos = pos;
  return out;
}

bool is_element(const Expr& e) {
  return e.kind == Kind::Subscript && e.items[0].kind == Kind::Name && e.items[1].kind == Kind::Int;
}

bool is_slice_of_all(const Expr& e) {
  const auto is = [&](size_t i, int64_t n) { return e.items[i].kind == Kind::Int && e.items[i].integer == n; };
  return e.kind == Kind::Operator && e.name == "aten::slice" && e.items.size() >= 4 && is(2, 0) &&
         is(3, std::numeric_limits<int64_t>::max()) && (e.items.size() == 4 || is(4, 1));
}

Stmt assignment(const std::string& name, Expr value, const Stmt& like) {
  Stmt out;
  out.kind = Stmt::Kind::Assign;
  out.pos = like.pos;
  out.scope = like.scope;
  out.targets = {name};
  out.values.push_back(std::move(value));
  return out;
}

std::optional<int64_t> number_of(const program::Program& program, const Expr& constant) {
  const program::Data& data = program.constants.at(static_cast<size_t>(constant.integer));
  if (!data.tensor || data.tensor->dtype != DType::Int64 || !data.tensor->sizes.empty()) return std::nullopt;
  return integers_of(*data.tensor)[0];
}

void replace_names(Expr& e, const std::unordered_map<std::string, Expr>& by) {
  if (e.kind == Kind::Name)
    if (const auto found = by.find(e.name); found != by.end()) {
      const program::Pos pos = e.pos;
      e = found->second;
      if (e.kind == Kind::Name) e.pos = pos;
      return;
    }
  for (Expr& item : e.items) replace_names(item, by);
}

void add_targets(const Stmt& s, std::vector<std::string>& out) {
  for (const std::string& t : s.targets)
    if (std::ranges::find(out, t) == out.end()) out.push_back(t);
  for (const Stmt& inner : s.body) add_targets(inner, out);
}

bool same_apart_from_items(const Expr& a, const Expr& b) {
  return a.kind == b.kind && a.name == b.name && a.integer == b.integer && a.integer2 == b.integer2 &&
         a.real == b.real && a.imag == b.imag && a.items.size() == b.items.size() && a.keywords == b.keywords &&
         a.type == b.type;
}

bool same(const Expr& a, const Expr& b) {
  return same_apart_from_items(a, b) && std::ranges::equal(a.items, b.items, same);
}

}  // namespace lithify::merge
