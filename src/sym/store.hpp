// The interned form of symbolic integers, and the operations on it. Internal to sym; everyone else uses expr.hpp.
//
// A node is a polynomial: a sum of coefficient * monomial, where a monomial is a product of atoms. Monomials and nodes
// are interned, so both compare by address; every order is by creation and so the same in every run.
//
// A symbol x whose values are multiples of d > 1 is stored as d * unit, where the unit is an atom of its own. Divisions
// by what divides d are then exact like any other; terms() and operands() speak of x and floor(x / c) again. A symbol
// with one possible value is stored as that constant, and keeps its name only while it stands alone.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sym/expr.hpp"
#include "sym/interval.hpp"

namespace lithify::sym {

class Store;

/// A product of atoms, ordered by id; empty for the constant term.
struct Monomial {
  std::vector<const Node*> atoms;
  uint64_t symbols = 0;  ///< a set of the symbols within, by index modulo 64
  Interval range;
  uint32_t weight = 0;
  bool entangled = false;  ///< two of its atoms may share a symbol

  size_t degree() const { return atoms.size(); }
};

struct Summand {
  int64_t coefficient = 0;
  const Monomial* monomial = nullptr;
  bool operator==(const Summand&) const = default;
};

/// Without repeated monomials or zero coefficients; higher degrees first, the constant last. Empty for 0.
using Poly = std::vector<Summand>;

struct Node {
  Store* owner = nullptr;
  uint32_t id = 0;
  uint32_t weight = 1;  ///< the size of the formula when written out
  uint32_t depth = 0;   ///< how deep operands nest
  Kind kind = Kind::Constant;
  uint64_t symbols = 0;
  Interval range;
  Poly poly;
  const Node* left = nullptr;      ///< the operands; for c * unit also, which reads as floor(symbol / (divisor / c))
  const Node* right = nullptr;     ///<
  const Node* quotient = nullptr;  ///< of Mod: floor(left / right)
  const Node* unit_of = nullptr;   ///< of a unit: its symbol
  size_t symbol = 0;               ///< of a symbol and its unit: the index of its facts

  bool is_constant() const { return kind == Kind::Constant; }
  int64_t value() const { return poly.empty() ? 0 : poly.front().coefficient; }
  /// Nothing more is known of it than its range.
  bool is_opaque() const { return kind == Kind::Symbol || unit_of; }
};

class Store {
 public:
  Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const Node* constant(int64_t v);
  const Node* symbol(const SymbolInfo& info);
  /// See Context::restart.
  void restart();
  const SymbolInfo& info(const Node* symbol) const { return infos_[symbol->symbol]; }
  /// The node of a polynomial; the constant, when only one value is possible.
  const Node* intern(const Poly& p);

  // Polynomial arithmetic: throws when a coefficient overflows or the limits are exceeded.
  Poly combine(const Poly& a, const Poly& b, int64_t scale_of_b);  ///< a + scale_of_b * b
  Poly scale(const Poly& p, int64_t by);
  Poly multiply(const Poly& a, const Poly& b);
  Poly constant_poly(int64_t v);
  /// p with `by` in the place of an atom.
  Poly replace(const Poly& p, const Node* atom, const Poly& by);
  /// q and r with a = q * b + r, where no term of r has a quotient by the leading term of b. b is not 0.
  std::pair<Poly, Poly> divide(const Poly& a, const Poly& b);
  /// Divides both by the largest number and monomial that divides every term of both, and returns it.
  Summand cancel(Poly& a, Poly& b);

  /// What is known of a polynomial's value; see bounds.cpp.
  Interval bounds(const Poly& p);

  // The canonical form of each operation; see simplify.cpp.
  const Node* sum(const Poly& a, const Poly& b, int64_t scale_of_b);  ///< a + scale_of_b * b
  std::optional<Poly> divide_exactly(const Poly& a, const Poly& b);   ///< b is not 0
  const Node* floor_div(const Node* a, const Node* b);
  const Node* mod(const Node* a, const Node* b);
  const Node* extremum(Kind min_or_max, const Node* a, const Node* b);
  const Node* broadcast(const Node* a, const Node* b);  ///< null when they do not broadcast
  std::optional<bool> equal(const Node* a, const Node* b);
  std::optional<bool> less_equal(const Node* a, const Node* b);

 private:
  friend class Prover;

  struct OperationKey {
    Kind kind;
    const Node* left;
    const Node* right;
    bool operator==(const OperationKey&) const = default;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::span<const Node* const> atoms) const;
    size_t operator()(const Poly& p) const;
    size_t operator()(const OperationKey& k) const;
    size_t operator()(const Monomial* m) const { return (*this)(std::span<const Node* const>(m->atoms)); }
    size_t operator()(const Node* n) const { return (*this)(n->poly); }
  };
  struct Equal {  // standard libraries differ in the order of the operands
    using is_transparent = void;
    bool operator()(const Monomial* a, const Monomial* b) const { return a == b; }
    bool operator()(std::span<const Node* const> a, const Monomial* b) const { return std::ranges::equal(a, b->atoms); }
    bool operator()(const Monomial* a, std::span<const Node* const> b) const { return (*this)(b, a); }
    bool operator()(const Node* a, const Node* b) const { return a == b; }
    bool operator()(const Poly& a, const Node* b) const { return a == b->poly; }
    bool operator()(const Node* a, const Poly& b) const { return (*this)(b, a); }
  };

  /// The symbols of the same facts, in the order in which they were made, and how many of them are given out.
  struct Alike {
    std::vector<const Node*> symbols;
    size_t given = 0;
  };
  using Facts = std::tuple<std::string, std::optional<int64_t>, std::optional<int64_t>, std::optional<int64_t>, int64_t,
                           const Node*>;
  const Node* new_symbol(SymbolInfo info);

  const Monomial* monomial(std::span<const Node* const> sorted_atoms);
  const Monomial* times(const Monomial* a, const Monomial* b);
  /// a / b, or null when b does not divide a.
  const Monomial* over(const Monomial* a, const Monomial* b);
  Poly normalized(Poly p);
  Poly atom_poly(const Node* atom);

  Node* add_node(Node n);
  Node* add_atom(Node n);
  /// The atom of an operation on canonical operands; the constant, when only one value is possible.
  const Node* apply(Kind kind, const Node* left, const Node* right, Interval range, const Node* quotient = nullptr);

  const Node* floor_div_of(Poly a, Poly b);
  Poly divided_by_constant(Poly a, int64_t c);
  std::optional<Poly> without_mods(const Poly& p);
  const Node* difference(const Node* a, const Node* b);
  bool expand_mods(Poly& a, int64_t c);
  bool unnest_floor(Poly& a, int64_t& c);
  Poly mod_of(Poly a, Poly b);
  Poly mod_of_constant(Poly a, int64_t c);
  Poly remainder_of(const Poly& a, const Poly& b, const Poly& quotient);

  std::deque<Node> nodes_;
  std::deque<Monomial> monomials_;
  std::deque<SymbolInfo> infos_;
  std::unordered_map<std::string, size_t> names_;  // and the last number that was appended to each for others
  std::map<Facts, Alike> alike_;
  std::unordered_set<const Monomial*, Hash, Equal> monomial_table_;
  std::unordered_set<const Node*, Hash, Equal> node_table_;
  std::unordered_map<OperationKey, const Node*, Hash> atoms_;  ///< applications, by their canonical operands
  std::unordered_map<OperationKey, const Node*, Hash>
      results_;  ///< operations already simplified, as they were asked for
  std::vector<const Node*> scratch_;
  const Monomial* one_ = nullptr;
};

inline bool is_constant(const Poly& p) { return p.empty() || (p.size() == 1 && p.front().monomial->atoms.empty()); }
inline int64_t constant_of(const Poly& p) {
  return p.empty() || !p.back().monomial->atoms.empty() ? 0 : p.back().coefficient;
}
/// The greatest common divisor; 1 where std::gcd has no answer.
int64_t gcd(int64_t a, int64_t b);
/// The greatest common divisor of `start` and the coefficients, those of the constant term aside.
int64_t gcd_of_coefficients(const Poly& p, int64_t start = 0);

}  // namespace lithify::sym
