#include "claims/claims.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/diagnostic.hpp"
#include "base/nearest.hpp"
#include "base/text.hpp"

namespace lithify {

// ---- texts --------------------------------------------------------------------------------------------------------

namespace {

constexpr size_t longest_shown = 80, most_shown = 4;  // constraints, in the line of a dimension

/// Constraints in one line: those that can be read at a glance, and how many others there are.
std::string in_one_line(const std::vector<std::string>& constraints) {
  std::vector<std::string> out;
  for (const std::string& c : constraints) {
    const bool has_sides = constraints.size() > 1 && c.find(" or ") != std::string::npos;
    if (c.size() <= longest_shown && out.size() < most_shown) out.push_back(has_sides ? fmt::format("({})", c) : c);
  }
  if (const size_t others = constraints.size() - out.size(); others > 0)
    out.push_back(fmt::format("{}{} condition{}", others, out.empty() ? "" : " more", others == 1 ? "" : "s"));
  return fmt::format("{}", fmt::join(out, " and "));
}

}  // namespace

std::string Constraint::str() const { return where.empty() ? formula : fmt::format("{} ({})", formula, where); }

std::string DimensionClaim::str() const {
  std::string out = "any size";
  if (kind == ClaimKind::Checked) {
    out = checked.empty() ? "not checked at any size" : fmt::format("checked at {}", fmt::join(checked, ", "));
  } else if (!constraints.empty()) {
    out += fmt::format(" where {}", in_one_line(constraints));
  }
  if (kind == ClaimKind::RecordedPath) out += ", on the recorded path";
  auto counted = [&](int n, const char* what, const char* how) {
    if (n > 0) out += fmt::format(", {} {}{} {}", n, what, n == 1 ? "" : "s", how);
  };
  counted(recovered, "size", "recovered");
  counted(unverified, "constant", "unverified");
  return out;
}

namespace claims {
namespace {

std::optional<int64_t> find_size(const Sizes& sizes, std::string_view name) {
  const auto found = std::ranges::find(sizes, name, &Sizes::value_type::first);
  return found == sizes.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Formula> parsed(const std::string& text) {
  try {
    return Formula::parse(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<bool> truth_at(const Constraint& c, const Sizes& sizes) {
  const std::optional<Value> v = value_at(c.formula, sizes);
  return v ? std::optional(truth(*v)) : std::nullopt;
}

/// The sizes that a formula speaks of; all of them when it cannot be parsed.
Sizes sizes_in(const std::string& formula, const Sizes& sizes) {
  const std::optional<Formula> f = parsed(formula);
  if (!f) return sizes;
  const std::vector<std::string> names = f->names();
  Sizes out;
  std::ranges::copy_if(sizes, std::back_inserter(out),
                       [&](const auto& s) { return std::ranges::find(names, s.first) != names.end(); });
  return out;
}

std::string in_place(const Constraint& c) { return c.where.empty() ? "" : fmt::format(" ({})", c.where); }

// ---- questions ----------------------------------------------------------------------------------------------------

/// Refuses names that are not those of the dimensions, and sizes that are missing or given twice.
void check_names(const Claims& claims, const Sizes& sizes) {
  std::vector<std::string> names;
  for (const DimensionClaim& d : claims.dimensions) names.push_back(d.name);
  const std::string listed = names.empty() ? "the model has no dynamic dimension"
                                           : fmt::format("the dynamic dimensions are {}", fmt::join(names, ", "));
  const auto bad = [&](std::string what, std::string hint) {
    throw Error(Code::BadOption, fmt::format("{}; {}", what, listed), std::move(hint));
  };
  for (const auto& [name, size] : sizes) {
    if (std::ranges::find(names, name) == names.end())
      bad(fmt::format("there is no dimension '{}'", name), std::string(trimmed(did_you_mean(name, names))));
    if (std::ranges::count(sizes, name, &Sizes::value_type::first) > 1)
      bad(fmt::format("the size of '{}' is given twice", name), "");
  }
  for (const std::string& name : names)
    if (!find_size(sizes, name)) bad(fmt::format("the size of '{}' is missing", name), "give a size of each");
}

class Question {
 public:
  Question(const Claims& claims, const Sizes& sizes) : claims_(claims), sizes_(sizes) {}

  ClaimAnswer answer() const {
    if (const Constraint* c = first_with(false)) {
      const Sizes among = sizes_in(c->formula, sizes_);
      return {false, fmt::format("{} does not hold at {}{}", c->formula, text_of(among), in_place(*c))};
    }
    if (was_checked(all_dimensions())) return {true, "the file was run at these sizes, and agreed with the model"};
    if (const Constraint* c = first_with(std::nullopt))
      return {std::nullopt, fmt::format("the sizes do not decide whether {}{}", c->formula, in_place(*c))};
    if (std::optional<std::string> why = not_recorded()) return {std::nullopt, *std::move(why)};
    if (std::optional<std::string> why = not_checked()) return {std::nullopt, *std::move(why)};
    return {true, "every constraint holds"};
  }

 private:
  const Constraint* first_with(std::optional<bool> outcome) const {
    const auto found =
        std::ranges::find_if(claims_.constraints, [&](const Constraint& c) { return truth_at(c, sizes_) == outcome; });
    return found == claims_.constraints.end() ? nullptr : &*found;
  }

  std::vector<const DimensionClaim*> all_dimensions() const {
    std::vector<const DimensionClaim*> out;
    for (const DimensionClaim& d : claims_.dimensions) out.push_back(&d);
    return out;
  }

  /// Whether one entry of the sizes that were checked has the sizes of these dimensions.
  bool was_checked(const std::vector<const DimensionClaim*>& dimensions) const {
    return std::ranges::any_of(claims_.checked, [&](const Sizes& checked) {
      return std::ranges::all_of(dimensions, [&](const DimensionClaim* d) {
        return find_size(checked, d->name) == find_size(sizes_, d->name);
      });
    });
  }

  std::optional<std::string> not_recorded() const {
    if (claims_.conditions.empty()) return std::nullopt;
    std::vector<std::optional<bool>> outcomes;
    for (const Constraint& c : claims_.conditions) outcomes.push_back(truth_at(c, sizes_));
    const auto matches = [&](const std::string& path) {
      for (size_t i = 0; i < path.size(); ++i)
        if (path[i] != '-' && outcomes[i] != (path[i] == 'T')) return false;
      return true;
    };
    if (std::ranges::any_of(claims_.paths, matches)) return std::nullopt;
    for (const Constraint& side : recorded_sides(claims_))
      if (truth_at(side, sizes_) == false)
        return fmt::format("the model was recorded only where {}{}", side.formula, in_place(side));
    for (size_t i = 0; i < outcomes.size(); ++i)
      if (!outcomes[i])
        return fmt::format("the sizes do not decide whether {}{}", claims_.conditions[i].formula,
                           in_place(claims_.conditions[i]));
    return "the path that the model's code takes at these sizes was not recorded";
  }

  std::optional<std::string> not_checked() const {
    std::vector<const DimensionClaim*> unsure = all_dimensions();
    std::erase_if(unsure,
                  [](const DimensionClaim* d) { return d->kind != ClaimKind::Checked && d->unfollowed.empty(); });
    if (unsure.empty() || was_checked(unsure)) return std::nullopt;
    Sizes sizes;
    std::string uses;
    for (const DimensionClaim* d : unsure) {
      sizes.emplace_back(d->name, *find_size(sizes_, d->name));
      if (uses.empty() && !d->unfollowed.empty()) uses = fmt::format(", and {} is not followed", d->unfollowed[0]);
    }
    return fmt::format("the file was not checked at {}{}", text_of(sizes), uses);
  }

  const Claims& claims_;
  const Sizes& sizes_;
};

// ---- paths --------------------------------------------------------------------------------------------------------

using Paths = std::vector<const std::string*>;

/// Finds the conditions of which only one side was recorded.
class Sides {
 public:
  explicit Sides(const Claims& claims) : claims_(claims) {
    Paths all;
    for (const std::string& path : claims.paths) all.push_back(&path);
    if (!all.empty()) visit(all, std::vector<bool>(claims.conditions.size()));
    for (const Side& side : sides_)
      if (is_possible(side)) found.push_back(constraint(side));
  }
  std::vector<Constraint> found;

 private:
  /// Paths that agree on the conditions that are `settled`.
  void visit(const Paths& paths, std::vector<bool> settled) {
    std::optional<size_t> parting;
    for (size_t i = 0; i < settled.size(); ++i) {
      const auto outcome = [&](const std::string* path) { return (*path)[i]; };
      if (settled[i] || std::ranges::count(paths, '-', outcome) > 0) continue;
      if (std::ranges::count(paths, outcome(paths[0]), outcome) == std::ssize(paths)) {
        sides_.push_back({chosen_, {i, outcome(paths[0]) == 'T'}});
        settled[i] = true;
      } else if (!parting) {
        parting = i;
      }
    }
    if (!parting) return;
    settled[*parting] = true;
    std::vector<Side> of_side[2];
    for (const bool outcome : {true, false}) {
      Paths part;
      std::ranges::copy_if(paths, std::back_inserter(part),
                           [&](auto* path) { return (*path)[*parting] == (outcome ? 'T' : 'F'); });
      const std::vector<Side> before = std::exchange(sides_, {});
      chosen_.push_back({*parting, outcome});
      visit(part, settled);
      chosen_.pop_back();
      of_side[outcome] = std::exchange(sides_, before);
    }
    join(of_side[true], of_side[false]);
  }

  struct Choice {
    size_t condition = 0;
    bool outcome = false;
    bool operator==(const Choice&) const = default;
  };
  /// One outcome of a condition was recorded, where others have theirs.
  struct Side {
    std::vector<Choice> where;
    Choice recorded;
    bool operator==(const Side&) const = default;
  };

  /// What is so on both sides of the condition that is chosen next does not depend on it.
  void join(const std::vector<Side>& some, const std::vector<Side>& others) {
    const auto whole = [&](Side side) {
      side.where.erase(side.where.begin() + std::ssize(chosen_));
      return side;
    };
    const auto is_among = [&](const std::vector<Side>& sides) {
      return [&](const Side& side) { return std::ranges::find(sides, whole(side), whole) != sides.end(); };
    };
    for (const Side& side : some) sides_.push_back(is_among(others)(side) ? whole(side) : side);
    std::ranges::copy_if(others, std::back_inserter(sides_), std::not_fn(is_among(some)));
  }

  /// The condition with this outcome, in brackets.
  std::string literal(Choice choice) const {
    const std::string& text = claims_.conditions[choice.condition].formula;
    const std::optional<Formula> f = formula(choice);
    return f ? fmt::format("({})", f->str()) : fmt::format("{}({})", choice.outcome ? "" : "not ", text);
  }

  std::optional<Formula> formula(Choice choice) const {
    const std::optional<Formula> f = parsed(claims_.conditions[choice.condition].formula);
    return f && !choice.outcome ? f->negated() : f;
  }

  Constraint constraint(const Side& side) const {
    std::vector<Formula> formulas;
    std::vector<std::string> texts;
    const auto take = [&](Choice choice) {
      texts.push_back(literal(choice));
      if (const std::optional<Formula> f = formula(choice)) formulas.push_back(*f);
    };
    for (const Choice& choice : side.where) take({choice.condition, !choice.outcome});
    take(side.recorded);
    const std::string& where = claims_.conditions[side.recorded.condition].where;
    if (formulas.size() == texts.size()) return {any_of(std::move(formulas)).str(), where};
    return {fmt::format("{}", fmt::join(texts, " or ")), where};
  }

  bool is_possible(const Side& side) const {
    std::vector<Formula> other;
    for (const Choice& choice : side.where)
      if (const std::optional<Formula> f = formula(choice)) other.push_back(*f);
    if (const std::optional<Formula> f = formula({side.recorded.condition, !side.recorded.outcome}))
      other.push_back(*f);
    return !contradict(other);
  }

  const Claims& claims_;
  std::vector<Choice> chosen_;  // on the way
  std::vector<Side> sides_;
};

}  // namespace

std::string text_of(const Sizes& sizes) {
  std::string out;
  for (auto& [name, size] : sizes) out += fmt::format("{}{}={}", out.empty() ? "" : ", ", name, size);
  return out;
}

std::optional<Value> value_at(const std::string& formula, const Sizes& sizes) {
  const std::optional<Formula> f = parsed(formula);
  if (!f) return std::nullopt;
  return f->evaluate([&](std::string_view name) { return find_size(sizes, name); });
}

ClaimAnswer answer(const Claims& claims, const Sizes& sizes) {
  check_names(claims, sizes);
  return Question(claims, sizes).answer();
}

std::vector<Constraint> recorded_sides(const Claims& claims) { return Sides(claims).found; }

}  // namespace claims

std::string Claims::str() const {
  std::string out;
  for (const DimensionClaim& d : dimensions) {
    out += fmt::format("{}: {}\n", d.name, d.str());
    for (const std::string& use : d.unfollowed) out += fmt::format("  not followed: {}\n", use);
  }
  for (const Constraint& c : constraints)
    if (!c.where.empty() || c.formula.size() > longest_shown) out += fmt::format("needs {}\n", c.str());
  for (const Constraint& side : claims::recorded_sides(*this)) out += fmt::format("recorded where {}\n", side.str());
  if (out.empty()) return "no dynamic dimension";
  out.pop_back();
  return out;
}

}  // namespace lithify
