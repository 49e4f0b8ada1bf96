#include "driver/guards.hpp"

#include <algorithm>

#include "claims/formula.hpp"
#include "eval/formula.hpp"
#include "read/exported/symbols.hpp"

namespace lithify::driver {
namespace {

using provenance::Requirement;
using Kind = Requirement::Kind;

/// What the names of a guard stand for; nothing where a size is not known.
std::optional<eval::SymbolTable> table_of(const program::Guard& guard, const Evaluated& evaluated) {
  eval::SymbolTable out;
  for (size_t i = 0; i < guard.sizes.size(); ++i) {
    const auto& [parameter, axis] = guard.sizes[i];
    const auto found = evaluated.input_shapes.find(parameter);
    if (found == evaluated.input_shapes.end() || axis >= found->second.size()) return std::nullopt;
    out.emplace("size_" + std::to_string(i), found->second[axis]);
  }
  return out;
}

/// The relation that a comparison is, if it is one of whole numbers.
std::optional<Requirement> relation_of(const program::Expr& e, sym::Context& sym, const eval::SymbolTable& table) {
  if (e.kind != program::Expr::Kind::Operator || e.items.size() != 2) return std::nullopt;
  const auto a = eval::evaluate_formula(sym, e.items[0], table), b = eval::evaluate_formula(sym, e.items[1], table);
  if (!a || !b) return std::nullopt;
  const sym::Expr one = sym.constant(1);
  if (e.name == "aten::eq" && b->is(0) && sym::kind(*a) == sym::Kind::Mod)
    return Requirement(Kind::Multiple, sym::operands(*a).first, sym::operands(*a).second);
  if (e.name == "aten::eq") return Requirement(Kind::Equal, *a, *b);
  if (e.name == "aten::ne") return Requirement(Kind::Unequal, *a, *b);
  if (e.name == "aten::le") return Requirement(Kind::AtMost, *a, *b);
  if (e.name == "aten::ge") return Requirement(Kind::AtMost, *b, *a);
  if (e.name == "aten::lt") return Requirement(Kind::AtMost, sym.add(*a, one), *b);
  if (e.name == "aten::gt") return Requirement(Kind::AtMost, sym.add(*b, one), *a);
  return std::nullopt;
}

std::optional<Requirement> as_relation(const program::Guard& guard, sym::Context& sym, const eval::SymbolTable& table) {
  try {
    return relation_of(read::parse_symbolic(guard.text), sym, table);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The guard as a formula of the dimensions; as it is, where it cannot be parsed.
std::string as_text(const program::Guard& guard, const eval::SymbolTable& table) {
  try {
    std::map<std::string, claims::Formula> sizes;
    for (const auto& [name, size] : table)
      sizes.emplace(name, claims::Formula::parse(provenance::formula_of(size, claims::name_text)));
    return claims::Formula::parse(guard.text).substitute(sizes).str();
  } catch (const Error&) {
    return guard.text;
  }
}

}  // namespace

Guards guards_of(const program::Program& program, const Evaluated& evaluated) {
  Guards out;
  if (!program.guards) return out;
  for (const program::Guard& guard : *program.guards) {
    const std::optional<eval::SymbolTable> table = table_of(guard, evaluated);
    if (!table)
      out.texts.push_back(guard.text);
    else if (std::optional<Requirement> relation = as_relation(guard, *evaluated.sym, *table))
      out.requirements.push_back(*relation);
    else
      out.texts.push_back(as_text(guard, *table));
  }
  return out;
}

}  // namespace lithify::driver
