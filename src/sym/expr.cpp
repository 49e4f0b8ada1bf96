#include "sym/expr.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostic.hpp"
#include "sym/given.hpp"
#include "sym/store.hpp"

namespace lithify::sym {

// ---- Expr and its parts -------------------------------------------------------------------------------------------

bool Expr::is_constant() const { return node_ && node_->is_constant(); }

void Known::unknown() {
  throw Error(Code::UnsupportedArgument, "a size must be known at export here, and is computed from the inputs",
              "make it a constant of the model");
}

Known Expr::constant() const {
  if (!is_constant()) return std::nullopt;
  return node_->value();
}

bool Expr::is_symbol() const { return node_ && node_->kind == Kind::Symbol; }

Known Expr::lower() const {
  if (!node_ || is_constant()) return constant();
  if (!node_->range.has_lower()) return std::nullopt;
  return node_->range.lo;
}

Known Expr::upper() const {
  if (!node_ || is_constant()) return constant();
  if (!node_->range.has_upper()) return std::nullopt;
  return node_->range.hi;
}

Kind kind(Expr e) { return e.node()->kind; }

std::vector<Term> terms(Expr e) {
  const Node* n = e.node();
  if (n->is_constant()) return {{n->value(), {}}};
  if (n->kind != Kind::Polynomial) return {{1, {e}}};
  std::vector<Term> all;
  all.reserve(n->poly.size());
  for (const Summand& s : n->poly) {
    Term& t = all.emplace_back(Term{s.coefficient, {}});
    t.atoms.reserve(s.monomial->degree());
    for (const Node* atom : s.monomial->atoms) {
      if (atom->unit_of) {
        const int64_t g = gcd(t.coefficient, n->owner->info(atom).divisor);
        t.coefficient /= g;
        atom = n->owner->intern(n->owner->scale(atom->poly, g));
      }
      t.atoms.emplace_back(atom);
    }
  }
  return all;
}

std::pair<Expr, Expr> operands(Expr e) { return {Expr(e.node()->left), Expr(e.node()->right)}; }

namespace {

void collect_symbols(Expr e, std::vector<Expr>& out) {
  if (e.is_constant()) return;
  if (e.is_symbol()) {
    if (std::ranges::find(out, e) == out.end()) out.push_back(e);
  } else if (kind(e) == Kind::Polynomial) {
    for (const Term& t : terms(e))
      for (Expr atom : t.atoms) collect_symbols(atom, out);
  } else {
    collect_symbols(operands(e).first, out);
    collect_symbols(operands(e).second, out);
  }
}

}  // namespace

std::vector<Expr> symbols(Expr e) {
  std::vector<Expr> out;
  collect_symbols(e, out);
  return out;
}

const SymbolInfo& info(Expr symbol) { return symbol.node()->owner->info(symbol.node()); }

// ---- the readable formula -----------------------------------------------------------------------------------------

namespace {

enum class Within { Sum, Product, Divisor };

void print(Expr e, Within within, std::string& out);

/// The operands of a nest of the same operation, in order.
void print_operands(Kind k, Expr e, std::string& out) {
  if (kind(e) != k) return print(e, Within::Sum, out);
  auto [a, b] = operands(e);
  print_operands(k, a, out);
  out += ", ";
  print_operands(k, b, out);
}

void print_call(const char* name, Expr e, std::string& out) {
  out += name;
  out += '(';
  print_operands(kind(e), e, out);
  out += ')';
}

void print_atom(Expr e, std::string& out) {
  switch (kind(e)) {
    case Kind::FloorDiv:
      out += "floor(";
      print(operands(e).first, Within::Product, out);
      out += '/';
      print(operands(e).second, Within::Divisor, out);
      out += ')';
      return;
    case Kind::Mod:
      out += '(';
      print(operands(e).first, Within::Product, out);
      out += " % ";
      print(operands(e).second, Within::Divisor, out);
      out += ')';
      return;
    case Kind::Min:
      return print_call("min", e, out);
    case Kind::Max:
      return print_call("max", e, out);
    case Kind::Broadcast:
      return print_call("broadcast", e, out);
    default:
      out += info(e).name;
  }
}

void print_term(const Term& t, bool first, std::string& out) {
  const bool negative = t.coefficient < 0;
  out += first ? (negative ? "-" : "") : (negative ? " - " : " + ");
  const uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(t.coefficient) : static_cast<uint64_t>(t.coefficient);
  if (magnitude != 1 || t.atoms.empty()) {
    out += fmt::format("{}", magnitude);
    if (!t.atoms.empty()) out += '*';
  }
  for (size_t i = 0; i < t.atoms.size(); ++i) {
    if (i > 0) out += '*';
    print_atom(t.atoms[i], out);
  }
}

void print(Expr e, Within within, std::string& out) {
  const std::vector<Term> all = terms(e);
  const bool is_sum = all.size() > 1;
  const bool is_product = all[0].atoms.size() > 1 || (!all[0].atoms.empty() && all[0].coefficient != 1);
  const bool enclose = within != Within::Sum && (is_sum || (within == Within::Divisor && is_product));
  if (enclose) out += '(';
  for (size_t i = 0; i < all.size(); ++i) print_term(all[i], i == 0, out);
  if (enclose) out += ')';
}

}  // namespace

std::string Expr::str() const {
  std::string out;
  if (node_) print(*this, Within::Sum, out);
  return out;
}

std::string Assumption::str() const {
  constexpr const char* otherwise[] = {"!=", "==", ">", ">="};  // of the kinds of facts
  std::string out;
  for (const Fact& f : given)
    out += fmt::format("{} {} {} or ", f.a.str(), otherwise[static_cast<int>(f.kind)], f.b.str());
  if (kind != Kind::Multiple) return out + fmt::format("{} {} {}", a.str(), kind == Kind::Equal ? "==" : "<=", b.str());
  print(a, Within::Product, out);
  out += " % ";
  print(b, Within::Divisor, out);
  return out + " == 0";
}

// ---- Context ------------------------------------------------------------------------------------------------------

struct Context::Impl : Store {};

Context::Context() : impl_(std::make_unique<Impl>()) {}
Context::~Context() = default;

Expr Context::constant(int64_t v) { return Expr(impl_->constant(v)); }
Expr Context::symbol(const SymbolInfo& info) {
  any_iterations_ = any_iterations_ || info.below;
  return Expr(impl_->symbol(info));
}
void Context::restart() { impl_->restart(); }
const SymbolInfo& Context::info(Expr symbol) const { return impl_->info(symbol.node()); }

Expr Context::add(Expr a, Expr b) { return Expr(impl_->sum(a.node()->poly, b.node()->poly, 1)); }
Expr Context::sub(Expr a, Expr b) { return Expr(impl_->sum(a.node()->poly, b.node()->poly, -1)); }
Expr Context::neg(Expr a) { return Expr(impl_->intern(impl_->scale(a.node()->poly, -1))); }
Expr Context::mul(Expr a, Expr b) { return Expr(impl_->intern(impl_->multiply(a.node()->poly, b.node()->poly))); }

Expr Context::floor_div(Expr a, Expr b) { return Expr(impl_->floor_div(a.node(), b.node())); }
Expr Context::mod(Expr a, Expr b) { return Expr(impl_->mod(a.node(), b.node())); }

Expr Context::ceil_div(Expr a, Expr b) {
  if (b.node()->range.lo >= 1) return floor_div(sub(add(a, b), constant(1)), b);
  return neg(floor_div(neg(a), b));
}

Expr Context::min(Expr a, Expr b) { return Expr(impl_->extremum(Kind::Min, a.node(), b.node())); }
Expr Context::max(Expr a, Expr b) { return Expr(impl_->extremum(Kind::Max, a.node(), b.node())); }

std::optional<Expr> Context::broadcast(Expr a, Expr b) {
  if (knowledge && a != b) {
    if (equal(a, b) == true) return b.is_constant() ? b : a;
    const Expr x = knowledge->known(a), y = knowledge->known(b);
    if (x.is(1)) return b;
    if (y.is(1)) return a;
    if (const Node* n = impl_->broadcast(x.node(), y.node()); n == x.node() || n == y.node())
      return n == x.node() ? a : b;
  }
  const Node* n = impl_->broadcast(a.node(), b.node());
  if (!n) return std::nullopt;
  return Expr(n);
}

Expr Context::product(std::span<const Expr> factors) {
  Expr r = constant(1);
  for (Expr f : factors) r = mul(r, f);
  return r;
}

std::optional<Expr> Context::divide_exactly(Expr a, Expr b) {
  if (b.node()->poly.empty()) return std::nullopt;
  if (const std::optional<Poly> quotient = impl_->divide_exactly(a.node()->poly, b.node()->poly))
    return Expr(impl_->intern(*quotient));
  if (knowledge) {
    const Expr x = knowledge->known(a), y = knowledge->known(b);
    if (!y.is(0) && (x != a || y != b) && impl_->divide_exactly(x.node()->poly, y.node()->poly)) return floor_div(a, b);
  }
  return std::nullopt;
}

std::optional<bool> Context::equal(Expr a, Expr b) {
  const std::optional<bool> plain = impl_->equal(a.node(), b.node());
  if (plain || !knowledge) return plain;
  if (knowledge->states_equal(a, b)) return true;
  if (knowledge->states_unequal(a, b)) return false;
  return impl_->equal(knowledge->known(a).node(), knowledge->known(b).node());
}

std::optional<bool> Context::less_equal(Expr a, Expr b) {
  const std::optional<bool> plain = impl_->less_equal(a.node(), b.node());
  if (plain) return plain;
  if (any_iterations_ && never_negative(sub(b, a))) return true;
  if (!knowledge) return std::nullopt;
  if (knowledge->states_at_most(a, b)) return true;
  if (knowledge->states_at_most(add(b, constant(1)), a)) return false;
  return impl_->less_equal(knowledge->known(a).node(), knowledge->known(b).node());
}

std::optional<bool> Context::less(Expr a, Expr b) {
  if (const std::optional<bool> reversed = impl_->less_equal(b.node(), a.node())) return !*reversed;
  if (any_iterations_ && never_negative(sub(sub(b, a), constant(1)))) return true;
  const std::optional<bool> reversed = knowledge ? less_equal(b, a) : std::nullopt;
  return reversed ? std::optional(!*reversed) : std::nullopt;
}

Expr Context::known(Expr e) const { return knowledge ? knowledge->known(e) : e; }

void Context::assume(Assumption a) {
  if (!observer || (knowledge && holds(a))) return;
  if (knowledge) a.given = knowledge->stated();
  observer->assumed(a);
}

bool Context::holds(const Assumption& a) {
  switch (a.kind) {
    case Assumption::Kind::Equal:
      return equal(a.a, a.b) == true;
    case Assumption::Kind::AtMost:
      return less_equal(a.a, a.b) == true;
    case Assumption::Kind::Multiple:
      return divide_exactly(a.a, a.b).has_value();
  }
  return false;
}

int64_t Context::divisor(Expr e) {
  const Poly& p = known(e).node()->poly;
  return gcd_of_coefficients(p, constant_of(p));
}

bool Context::has_iterations(Expr e) const {
  const std::vector<Expr> all = symbols(e);
  return std::ranges::any_of(all, [&](Expr symbol) { return static_cast<bool>(info(symbol).below); });
}

// What falls with the number of an iteration is least in the last one.
bool Context::never_negative(Expr e, int depth) {
  if (e.lower().value_or(-1) >= 0) return true;
  if (depth == 0 || kind(e) != Kind::Polynomial) return false;
  for (Expr iteration : symbols(e)) {
    const Expr below = info(iteration).below;
    if (!below) continue;
    const std::vector<Term> parts = terms(e);
    const bool falls = std::ranges::all_of(parts, [&](const Term& t) {
      if (t.atoms.size() == 1 && t.atoms[0] == iteration) return t.coefficient < 0;
      return std::ranges::none_of(t.atoms, [&](Expr atom) { return std::ranges::count(symbols(atom), iteration) > 0; });
    });
    if (falls && never_negative(substitute(e, iteration, sub(below, constant(1))), depth - 1)) return true;
  }
  return false;
}

// ---- evaluation and substitution ----------------------------------------------------------------------------------

namespace {

using ValueOf = std::function<std::optional<int64_t>(Expr symbol)>;

std::optional<int64_t> value_at(const Node* n, const ValueOf& value_of);

std::optional<int64_t> value_of_atom(const Node* n, const ValueOf& value_of) {
  if (n->kind == Kind::Symbol) return value_of(Expr(n));
  if (n->unit_of) {
    const std::optional<int64_t> v = value_of(Expr(n->unit_of));
    const int64_t d = n->owner->info(n).divisor;
    if (!v || *v % d != 0) return std::nullopt;
    return *v / d;
  }
  const std::optional<int64_t> a = value_at(n->left, value_of), b = value_at(n->right, value_of);
  if (!a || !b) return std::nullopt;
  switch (n->kind) {
    case Kind::FloorDiv:
      return *b == 0 ? std::nullopt : std::optional(lithify::floor_div(*a, *b));
    case Kind::Mod:
      return *b == 0 ? std::nullopt : std::optional(lithify::floor_mod(*a, *b));
    case Kind::Min:
      return std::min(*a, *b);
    case Kind::Max:
      return std::max(*a, *b);
    default:
      if (*a == 1) return b;
      return *b == 1 || *a == *b ? a : std::nullopt;
  }
}

std::optional<int64_t> value_at(const Node* n, const ValueOf& value_of) {
  if (n->kind == Kind::Symbol) return value_of(Expr(n));
  int64_t sum = 0;
  for (const Summand& s : n->poly) {
    int64_t product = s.coefficient;
    for (const Node* atom : s.monomial->atoms) {
      const std::optional<int64_t> v = value_of_atom(atom, value_of);
      if (!v) return std::nullopt;
      product = checked_mul(product, *v);
    }
    sum = checked_add(sum, product);
  }
  return sum;
}

}  // namespace

std::optional<int64_t> Context::evaluate(Expr e, const ValueOf& value_of) const { return value_at(e.node(), value_of); }

std::optional<int64_t> Context::sample(Expr e) const {
  return evaluate(e, [&](Expr symbol) { return info(symbol).sample; });
}

Expr Context::substitute(Expr e, Expr atom, Expr by) {
  if (!(e.node()->symbols & atom.node()->symbols)) return e;
  return rebuild_atoms(e, [&](Expr a) { return a == atom ? std::optional(by) : std::nullopt; });
}

Expr Context::rebuild(Expr e, const std::function<Expr(Expr symbol)>& replace) {
  return rebuild_atoms(e, [&](Expr a) { return a.is_symbol() ? std::optional(replace(a)) : std::nullopt; });
}

/// With other expressions for some of its symbols, quotients and the like.
Expr Context::rebuild_atoms(Expr e, const std::function<std::optional<Expr>(Expr atom)>& replace) {
  if (e.is_constant()) return constant(*e.constant());
  if (kind(e) == Kind::Polynomial) {
    Expr sum = constant(0);
    for (const Term& t : terms(e)) {
      Expr product = constant(t.coefficient);
      for (Expr atom : t.atoms) product = mul(product, rebuild_atoms(atom, replace));
      sum = add(sum, product);
    }
    return sum;
  }
  if (const std::optional<Expr> other = replace(e)) return *other;
  if (e.is_symbol()) return e;
  const auto [left, right] = operands(e);
  const Expr a = rebuild_atoms(left, replace), b = rebuild_atoms(right, replace);
  switch (kind(e)) {
    case Kind::FloorDiv:
      return floor_div(a, b);
    case Kind::Mod:
      return mod(a, b);
    case Kind::Min:
      return min(a, b);
    case Kind::Max:
      return max(a, b);
    default:
      if (auto r = broadcast(a, b)) return *r;
      throw Error(Code::ShapeMismatch, fmt::format("sizes {} and {} do not broadcast", a.str(), b.str()));
  }
}

}  // namespace lithify::sym
