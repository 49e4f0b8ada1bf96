#include "merge/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "base/options.hpp"
#include "program/text.hpp"

namespace lithify::merge {
namespace {

using program::Expr;
using program::unmangled;
using Kind = Expr::Kind;

void append_form(std::string& out, const Node& n, size_t trace, const Definitions& definitions) {
  if (n.value) {
    out += n.value == ValueRef{} ? "self" : "v";
    return;
  }
  const Expr& e = *n.expr;
  switch (e.kind) {
    case Kind::Int:
      out += 'i';
      return;
    case Kind::Float:
      out += 'f';
      return;
    case Kind::Constant:
      out += 'c' + definitions.kind_of_constant(trace, e.integer);
      return;
    default:
      break;
  }
  fmt::format_to(std::back_inserter(out), "{}{}", static_cast<int>(e.kind), unmangled(e.name));
  if (e.integer != 0 || e.integer2 != 0) fmt::format_to(std::back_inserter(out), ":{}:{}", e.integer, e.integer2);
  if (e.kind == Kind::Complex) fmt::format_to(std::back_inserter(out), "{},{}", e.real, e.imag);
  if (!e.type.name.empty()) out += unmangled(e.type.str());
  out += '(';
  for (const Node& item : n.items) {
    append_form(out, item, trace, definitions);
    out += ',';
  }
  for (const std::string& keyword : e.keywords) out += keyword + "=";
  out += ')';
}

void require_definitions(const Node& n, size_t trace, Definitions& definitions) {
  if (n.value) return;
  if (n.expr->kind == Kind::Attribute) definitions.require_attribute(trace, n);
  if (n.expr->kind == Kind::Method) definitions.require_method(trace, n.items[0], *n.expr);
  for (const Node& item : n.items) require_definitions(item, trace, definitions);
}

/// Whether an operator on numbers gives a bool, a float or (most of them) an integer.
char kind_of_number(const Step& step) {
  static const std::set<std::string> bools = {"aten::eq",     "aten::ne",  "aten::lt",      "aten::le",
                                              "aten::gt",     "aten::ge",  "aten::__not__", "aten::__and__",
                                              "aten::__or__", "aten::Bool"};
  static const std::set<std::string> floats = {"aten::div",  "aten::truediv", "aten::Float", "aten::sqrt", "aten::log",
                                               "aten::log2", "aten::log10",   "aten::exp",   "aten::sin",  "aten::cos"};
  const Expr* e = step.operation.expr;
  const std::string name = e ? e->name.substr(0, e->name.find('.')) : "";
  return bools.contains(name) ? 'b' : floats.contains(name) ? 'f' : 'i';
}

/// A number that becomes a tensor is the same only as one of its kind.
std::string kind_of_operand(const Straight& code, const Step& step) {
  if (!step.operation.expr || step.operation.expr->name != "prim::NumToTensor") return "";
  const std::optional<ValueRef> value = step.operation.items.empty() ? std::nullopt : step.operation.items[0].value;
  return value ? std::string(1, kind_of_number(code.steps[value->step])) : "";
}

std::string key_of(const Step& step, size_t trace, const Definitions& definitions) {
  const Place place = definitions.place(trace, pos_of(step));
  const program::Stmt* s = step.statement;
  std::string out = form_of(step.operation, trace, definitions);
  fmt::format_to(std::back_inserter(out), "|{}{}{}|{}|{}:{}", step.results, s && s->unpack ? "u" : "",
                 s && s->trailing_comma ? "," : "", place.known() ? step.scope : "", place.file, place.line);
  return out;
}

}  // namespace

std::string form_of(const Node& n, size_t trace, const Definitions& definitions) {
  std::string out;
  append_form(out, n, trace, definitions);
  return out;
}

uint64_t contents_of(const Node& literal, size_t trace, const Definitions& definitions) {
  constexpr uint64_t formulas = uint64_t{0xF0A1} << 48;  // apart from the integers that programs have
  const Expr& e = *literal.expr;
  if (const std::optional<uint64_t> formula = definitions.formula(trace, e)) return formulas + *formula;
  if (e.kind == Kind::Float) return std::bit_cast<uint64_t>(e.real);
  return static_cast<uint64_t>(e.kind == Kind::Constant ? definitions.constant(trace, e.integer) : e.integer);
}

Trace read(size_t recording, const Recording& r, size_t trace, Definitions& definitions, Numbers& keys) {
  std::vector<size_t> results(r.outputs);
  std::iota(results.begin(), results.end(), size_t{0});
  for (const Recording::Asked& a : r.asked) results.push_back(a.result);
  Trace out{recording, r.outputs, straightened(*r.program, results), {}, {}, {}};
  for (size_t i = 0; i < r.asked.size(); ++i)
    out.asked.push_back({r.asked[i].condition, r.asked[i].outcome, out.code.results[r.outputs + i].value});
  for (const Step& step : out.code.steps) {
    const bool parameters = out.keys.empty();
    out.keys.push_back(parameters ? keys.of(fmt::format("{} parameters", step.results))
                                  : keys.of(key_of(step, trace, definitions) + kind_of_operand(out.code, step)));
    std::vector<uint64_t>& literals = out.literals.emplace_back();
    if (parameters) continue;
    require_definitions(step.operation, trace, definitions);
    for_each_literal(step.operation, [&](const Node& n) { literals.push_back(contents_of(n, trace, definitions)); });
  }
  for (const Trace::Asked& asked : out.asked)
    if (asked.value) out.keys[asked.value->step] = keys.of(fmt::format("condition {}", asked.condition));
  return out;
}

std::optional<size_t> parting(const Trace& a, const Trace& b) {
  for (size_t i = 0; i < std::min(a.asked.size(), b.asked.size()); ++i) {
    if (a.asked[i].condition != b.asked[i].condition) break;
    if (a.asked[i].outcome != b.asked[i].outcome) return i;
  }
  return std::nullopt;
}

void diverge(const Trace& t, size_t trace, size_t step, const Definitions& definitions, const std::string& what) {
  // A list has no place of its own: that of the next operator is near.
  Place place;
  for (; step < t.code.steps.size() && !place.known(); ++step)
    place = definitions.place(trace, pos_of(t.code.steps[step]));
  throw Error({Code::TracesDiverge, Severity::Error, fmt::format("the traces diverge here: {}", what), place,
               fmt::format("control flow that depends on sizes is not in a trace; {}", term("script")), ""});
}

}  // namespace lithify::merge
