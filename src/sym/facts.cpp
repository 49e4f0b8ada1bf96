// What holds on one side of a condition on sizes, in a form that comparisons can use.
#include <algorithm>

#include "sym/store.hpp"

namespace lithify::sym {
namespace {

/// The atom that an equation p == 0 can be solved for, with its coefficient of 1 or -1: it is in no other term. Of
/// several, the newest, which may be made of the others.
std::pair<const Node*, int64_t> solvable(const Poly& p) {
  std::pair<const Node*, int64_t> out{nullptr, 0};
  for (const Summand& s : p) {
    if (s.monomial->degree() != 1 || (s.coefficient != 1 && s.coefficient != -1)) continue;
    const Node* atom = s.monomial->atoms[0];
    const auto uses = std::ranges::count_if(
        p, [&](const Summand& t) { return std::ranges::find(t.monomial->atoms, atom) != t.monomial->atoms.end(); });
    if (uses == 1 && (!out.first || atom->id > out.first->id)) out = {atom, s.coefficient};
  }
  return out;
}

}  // namespace

void Store::set_facts(Facts facts) {
  facts_ = std::move(facts);
  results_.clear();
}

void Store::add_equal(Facts& facts, const Node* a, const Node* b) {
  auto add = [&](const Poly& p) {
    const auto [atom, coefficient] = solvable(p);
    if (!atom) return;
    // coefficient * atom + rest == 0, so the atom is -coefficient * rest.
    Poly by = combine(p, atom->poly, -coefficient);
    facts.equal.emplace_back(atom, scale(by, -coefficient));
  };
  const Poly d = combine(a->poly, b->poly, -1);
  add(d);
  if (const std::optional<Poly> expanded = without_mods(d)) add(*expanded);
}

void Store::add_less_equal(Facts& facts, const Node* a, const Node* b) {
  facts.not_negative.push_back(combine(b->poly, a->poly, -1));
}

Poly Store::reduced(const Poly& p) try {
  Poly out = p;
  for (const auto& [atom, by] : facts_.equal) out = replace(out, atom, by);
  return out;
} catch (const Error&) {
  return p;  // too large
}

}  // namespace lithify::sym
