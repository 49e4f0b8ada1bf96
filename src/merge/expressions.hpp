// Making, comparing and walking expressions of a program.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/program.hpp"

namespace lithify::merge {

program::Expr name_of(const std::string& name);
program::Expr integer(int64_t value, program::Pos pos);
program::Expr operation(const char* name, std::vector<program::Expr> items, program::Pos pos);
/// list[index]
program::Expr element(program::Expr list, program::Expr index, program::Pos pos);
/// Whether an expression is an element of a list at a known position.
bool is_element(const program::Expr& e);
/// Whether an expression is a slice that has all elements of something.
bool is_slice_of_all(const program::Expr& e);
/// What an expression is all of: a slice of all elements has those of what it is of, and so on. `value_of` gives the
/// expression that a name stands for, or nullptr.
template <class F>
const program::Expr& whole_of(const program::Expr& e, F value_of) {
  const program::Expr* value = e.kind == program::Expr::Kind::Name ? value_of(e) : nullptr;
  return value && is_slice_of_all(*value) ? whole_of(value->items[0], value_of) : e;
}
/// name = value, with the place and the module of another statement.
program::Stmt assignment(const std::string& name, program::Expr value, const program::Stmt& like);
/// The number that a constant of the program is as a 0-d tensor of int64; nothing for other constants.
std::optional<int64_t> number_of(const program::Program& program, const program::Expr& constant);
/// Puts expressions in the place of names.
void replace_names(program::Expr& e, const std::unordered_map<std::string, program::Expr>& by);
/// The names that a statement sets, in order, each once.
void add_targets(const program::Stmt& s, std::vector<std::string>& out);
/// Whether two expressions differ in nothing but their items.
bool same_apart_from_items(const program::Expr& a, const program::Expr& b);
bool same(const program::Expr& a, const program::Expr& b);

/// Calls f with the expressions of a statement, and of those inside of it.
template <class Stmt, class F>
void for_each_expr(Stmt& s, F f) {
  for (auto& e : s.values) f(e);
  for (auto& inner : s.body) for_each_expr(inner, f);
}

}  // namespace lithify::merge
