// Interning and polynomial arithmetic.
#include "sym/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace lithify::sym {

namespace {

constexpr size_t kMaxTerms = 256;
constexpr uint32_t kMaxWeight = 4096;
constexpr uint32_t kMaxDepth = 128;

[[noreturn]] void too_large() {
  throw Error(Code::LimitExceeded, "a size is too large a formula of the dynamic dimensions");
}

size_t mix(size_t h, size_t v) { return (h ^ v) * 0x9E3779B97F4A7C15u + (h >> 29); }

/// The order of terms: by degree, then by the age of the atoms. It is kept by multiplication with a monomial.
bool precedes(const Monomial* a, const Monomial* b) {
  if (a->degree() != b->degree()) return a->degree() > b->degree();
  for (size_t i = 0; i < a->degree(); ++i)
    if (a->atoms[i] != b->atoms[i]) return a->atoms[i]->id < b->atoms[i]->id;
  return false;
}

bool older(const Node* a, const Node* b) { return a->id < b->id; }

}  // namespace

size_t Store::Hash::operator()(std::span<const Node* const> atoms) const {
  size_t h = atoms.size();
  for (const Node* a : atoms) h = mix(h, a->id);
  return h;
}

size_t Store::Hash::operator()(const Poly& p) const {
  size_t h = p.size();
  for (const Summand& s : p) h = mix(mix(h, static_cast<size_t>(s.coefficient)), std::hash<const void*>()(s.monomial));
  return h;
}

size_t Store::Hash::operator()(const OperationKey& k) const {
  return mix(mix(static_cast<size_t>(k.kind), k.left->id), k.right->id);
}

Store::Store() { one_ = monomial({}); }

// ---- nodes ------------------------------------------------------------------------------------------------------

Node* Store::add_node(Node n) {
  if (n.weight > kMaxWeight || n.depth > kMaxDepth) too_large();
  n.owner = this;
  n.id = static_cast<uint32_t>(nodes_.size());
  return &nodes_.emplace_back(std::move(n));
}

Node* Store::add_atom(Node n) {
  Node* atom = add_node(std::move(n));
  atom->poly = atom_poly(atom);
  node_table_.insert(atom);
  return atom;
}

Poly Store::atom_poly(const Node* atom) { return {{1, monomial({&atom, 1})}}; }

Poly Store::constant_poly(int64_t v) { return v == 0 ? Poly{} : Poly{{v, one_}}; }

const Node* Store::constant(int64_t v) { return intern(constant_poly(v)); }

const Node* Store::symbol(const SymbolInfo& info) {
  Alike& alike = alike_[{info.name, info.lower, info.upper, info.sample, info.divisor, info.below.node()}];
  if (alike.given == alike.symbols.size()) alike.symbols.push_back(new_symbol(info));
  return alike.symbols[alike.given++];
}

void Store::restart() {
  for (auto& [facts, alike] : alike_) alike.given = 0;
}

const Node* Store::new_symbol(SymbolInfo info) {
  if (info.divisor < 1)
    throw Error(Code::ShapeMismatch, fmt::format("the size '{}' cannot be a multiple of {}", info.name, info.divisor));
  const int64_t d = info.divisor;
  Interval units;
  if (info.lower && *info.lower != Interval::kNoLower)
    units.lo = -lithify::floor_div(-Interval::point(*info.lower).lo, d);
  if (info.upper) units.hi = lithify::floor_div(Interval::point(*info.upper).hi, d);
  if (units.lo > units.hi) throw Error(Code::ShapeMismatch, fmt::format("no size is possible for '{}'", info.name));

  const std::string base = info.name.empty() ? "s" : info.name;
  info.name = base;
  if (const auto [taken, is_new] = names_.try_emplace(base, 0); !is_new) {
    size_t& n = taken->second;
    do info.name = fmt::format("{}_{}", base, ++n);
    while (!names_.try_emplace(info.name, 0).second);
  }

  Node n;
  n.kind = Kind::Symbol;
  n.symbol = infos_.size();
  n.symbols = uint64_t{1} << (n.symbol % 64);
  n.range = units * Interval::point(d);
  infos_.push_back(std::move(info));
  if (units.lo == units.hi) {
    n.poly = constant_poly(checked_mul(units.lo, d));
    return add_node(std::move(n));
  }
  if (d == 1) return add_atom(std::move(n));

  Node one_part = n;
  one_part.kind = Kind::FloorDiv;
  one_part.range = units;
  Node* unit = add_atom(std::move(one_part));
  n.poly = scale(unit->poly, d);
  const Node* symbol = add_node(std::move(n));
  node_table_.insert(symbol);
  unit->unit_of = unit->left = symbol;
  unit->right = constant(d);
  return symbol;
}

const Node* Store::intern(const Poly& p) {
  if (auto it = node_table_.find(p); it != node_table_.end()) return *it;
  if (p.size() > kMaxTerms) too_large();

  Node n;
  if (is_constant(p)) {
    n.range = Interval::point(constant_of(p));
  } else {
    n.range = bounds(p);
    n.kind = Kind::Polynomial;
    n.weight = 0;
    for (const Summand& s : p) {
      n.weight += 1 + s.monomial->weight;
      n.symbols |= s.monomial->symbols;
      for (const Node* a : s.monomial->atoms) n.depth = std::max(n.depth, a->depth);
    }
    if (p.size() == 1 && p[0].monomial->degree() == 1) {
      const Node* symbol = p[0].monomial->atoms[0]->unit_of;
      if (symbol && p[0].coefficient > 0 && info(symbol).divisor % p[0].coefficient == 0) {
        n.kind = Kind::FloorDiv;
        n.left = symbol;
        n.right = constant(info(symbol).divisor / p[0].coefficient);
      }
    }
    if (n.kind == Kind::Polynomial && n.range.lo == n.range.hi) return constant(n.range.lo);
  }
  n.poly = p;
  const Node* node = add_node(std::move(n));
  node_table_.insert(node);
  return node;
}

const Node* Store::apply(Kind kind, const Node* left, const Node* right, Interval range, const Node* quotient) {
  if (range.lo == range.hi) return constant(range.lo);
  auto [it, added] = atoms_.try_emplace({kind, left, right}, nullptr);
  if (!added && it->second) return it->second;
  Node n;
  n.kind = kind;
  n.left = left;
  n.right = right;
  n.quotient = quotient;
  n.range = range;
  n.symbols = left->symbols | right->symbols;
  n.weight = 1 + left->weight + right->weight;
  n.depth = 1 + std::max(left->depth, right->depth);
  return it->second = add_atom(std::move(n));
}

// ---- monomials --------------------------------------------------------------------------------------------------

const Monomial* Store::monomial(std::span<const Node* const> atoms) {
  if (auto it = monomial_table_.find(atoms); it != monomial_table_.end()) return *it;
  Monomial m;
  m.range = Interval::point(1);
  for (const Node* a : atoms) {
    m.weight += a->weight;
    if (m.weight > kMaxWeight) too_large();
    m.entangled |= (m.symbols & a->symbols) != 0;
    m.symbols |= a->symbols;
    m.range = m.range * a->range;
  }
  m.atoms.assign(atoms.begin(), atoms.end());
  const Monomial* kept = &monomials_.emplace_back(std::move(m));
  monomial_table_.insert(kept);
  return kept;
}

const Monomial* Store::times(const Monomial* a, const Monomial* b) {
  if (a == one_) return b;
  if (b == one_) return a;
  scratch_.resize(a->degree() + b->degree());
  std::ranges::merge(a->atoms, b->atoms, scratch_.begin(), older);
  return monomial(scratch_);
}

const Monomial* Store::over(const Monomial* a, const Monomial* b) {
  if (b == one_) return a;
  if (!std::ranges::includes(a->atoms, b->atoms, older)) return nullptr;
  scratch_.clear();
  std::ranges::set_difference(a->atoms, b->atoms, std::back_inserter(scratch_), older);
  return monomial(scratch_);
}

// ---- polynomials ------------------------------------------------------------------------------------------------

int64_t gcd(int64_t a, int64_t b) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  return a == least || b == least ? 1 : std::gcd(a, b);
}

int64_t gcd_of_coefficients(const Poly& p, int64_t start) {
  int64_t g = start;
  for (const Summand& s : p)
    if (!s.monomial->atoms.empty()) g = gcd(g, s.coefficient);
  return g;
}

Poly Store::combine(const Poly& a, const Poly& b, int64_t scale_of_b) {
  if (scale_of_b == 0) return a;
  Poly r;
  r.reserve(a.size() + b.size());
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (a[i].monomial == b[j].monomial) {
      int64_t c = checked_add(a[i].coefficient, checked_mul(b[j].coefficient, scale_of_b));
      if (c != 0) r.push_back({c, a[i].monomial});
      ++i, ++j;
    } else if (precedes(a[i].monomial, b[j].monomial)) {
      r.push_back(a[i++]);
    } else {
      r.push_back({checked_mul(b[j].coefficient, scale_of_b), b[j].monomial});
      ++j;
    }
  }
  r.insert(r.end(), a.begin() + static_cast<ptrdiff_t>(i), a.end());
  for (; j < b.size(); ++j) r.push_back({checked_mul(b[j].coefficient, scale_of_b), b[j].monomial});
  return r;
}

Poly Store::scale(const Poly& p, int64_t by) { return combine({}, p, by); }

Poly Store::normalized(Poly p) {
  std::ranges::sort(p, precedes, &Summand::monomial);
  size_t kept = 0;
  for (size_t i = 0; i < p.size();) {
    Summand s = p[i++];
    for (; i < p.size() && p[i].monomial == s.monomial; ++i)
      s.coefficient = checked_add(s.coefficient, p[i].coefficient);
    if (s.coefficient != 0) p[kept++] = s;
  }
  p.resize(kept);
  return p;
}

Poly Store::multiply(const Poly& a, const Poly& b) {
  if (a.size() * b.size() > kMaxTerms * kMaxTerms / 16) too_large();
  Poly r;
  r.reserve(a.size() * b.size());
  for (const Summand& x : a)
    for (const Summand& y : b) r.push_back({checked_mul(x.coefficient, y.coefficient), times(x.monomial, y.monomial)});
  return a.size() <= 1 || b.size() <= 1 ? r : normalized(std::move(r));
}

Poly Store::replace(const Poly& p, const Node* atom, const Poly& by) {
  const Monomial* m = monomial({&atom, 1});
  Poly kept, replaced;
  for (const Summand& s : p) {
    Poly term{s};
    int power = 0;
    while (const Monomial* rest = over(term[0].monomial, m)) term[0].monomial = rest, ++power;
    if (power == 0) {
      kept.push_back(s);
      continue;
    }
    for (; power > 0; --power) term = multiply(term, by);
    replaced = combine(replaced, term, 1);
  }
  return combine(kept, replaced, 1);
}

std::pair<Poly, Poly> Store::divide(const Poly& a, const Poly& b) {
  Poly quotient, remainder, rest = a;
  while (!rest.empty()) {
    const Summand lead = rest.front();
    const Monomial* m = over(lead.monomial, b.front().monomial);
    const int64_t q = m && b.front().coefficient != -1 ? lead.coefficient / b.front().coefficient
                      : m                              ? checked_mul(lead.coefficient, -1)
                                                       : 0;
    if (q == 0) {
      remainder.push_back(lead);
      rest.erase(rest.begin());
      continue;
    }
    if (quotient.size() + remainder.size() > kMaxTerms) too_large();
    const Poly term{{q, m}};
    quotient = combine(quotient, term, 1);
    rest = combine(rest, multiply(term, b), -1);
  }
  return {std::move(quotient), std::move(remainder)};
}

Summand Store::cancel(Poly& a, Poly& b) {
  int64_t g = 0;
  const Monomial* common = nullptr;
  for (const Poly* p : {&a, &b})
    for (const Summand& s : *p) {
      g = gcd(g, s.coefficient);
      if (!common) {
        common = s.monomial;
      } else if (common != one_ && common != s.monomial) {
        scratch_.clear();
        std::ranges::set_intersection(common->atoms, s.monomial->atoms, std::back_inserter(scratch_), older);
        common = monomial(scratch_);
      }
    }
  g = std::max<int64_t>(g, 1);
  if (g == 1 && common == one_) return {g, common};
  for (Poly* p : {&a, &b})
    for (Summand& s : *p) s = {s.coefficient / g, over(s.monomial, common)};
  return {g, common};
}

}  // namespace lithify::sym
