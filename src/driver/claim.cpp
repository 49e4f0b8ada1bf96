#include "driver/claim.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "claims/claims.hpp"
#include "driver/guards.hpp"
#include "onnx/opdef.hpp"
#include "provenance/claims.hpp"

namespace lithify::driver {
namespace {

using provenance::Requirement;

std::string spelled_name(const std::string& name) { return claims::name_text(name); }

/// All that the graph relies on, with the guards of the program that sizes can express.
std::vector<Requirement> requirements_of(const Evaluated& evaluated, const Guards& guards) {
  std::vector<Requirement> out;
  for (const provenance::Assumed& a : evaluated.record.assumptions)
    if (a.assumption.given.empty()) out.emplace_back(a.assumption, a.pos);
  for (const sym::Assumption& a : evaluated.assumed.required) out.emplace_back(a, program::Pos());
  out.insert(out.end(), guards.requirements.begin(), guards.requirements.end());
  return out;
}

/// The sizes of the sample; nothing when one is not known.
std::optional<Sizes> sample_of(const Evaluated& evaluated) {
  Sizes out;
  for (const auto& [name, symbol] : evaluated.dimensions) {
    const std::optional<int64_t> size = evaluated.sym->info(symbol).sample;
    if (!size) return std::nullopt;
    out.emplace_back(name, *size);
  }
  return out;
}

class ClaimMaker {
 public:
  ClaimMaker(const program::Program& program, const Evaluated& evaluated, const CaptureFacts& facts)
      : program_(program), evaluated_(evaluated), facts_(facts) {}

  Claims make() {
    for (const auto& [name, symbol] : evaluated_.dimensions) add_dimension(name);
    claims_.checked = facts_.checked;
    claims_.conditions = facts_.conditions;
    claims_.paths = facts_.paths;
    add_constraints();
    add_specialized();
    if (facts_.kind == ClaimKind::RecordedPath) add_sides();
    for (Constraint& side : claims::recorded_sides(claims_)) {
      show(side.formula, names_in(side.formula));
      claims_.constraints.push_back(std::move(side));
    }
    return std::move(claims_);
  }

 private:
  void add_dimension(const std::string& name) {
    DimensionClaim& d = claims_.dimensions.emplace_back();
    d.name = name;
    d.kind = facts_.kind;
    d.recovered = count(evaluated_.recovered, name);
    d.unverified = count(evaluated_.unverified, name);
    if (const auto uses = facts_.unfollowed.find(name); uses != facts_.unfollowed.end()) d.unfollowed = uses->second;
    if (!d.unfollowed.empty() && d.kind == ClaimKind::AnySize) d.kind = ClaimKind::Checked;
    std::set<int64_t> sizes;
    for (const Sizes& entry : facts_.checked)
      for (const auto& [dimension, size] : entry)
        if (dimension == name) sizes.insert(size);
    d.checked.assign(sizes.begin(), sizes.end());
  }

  static int count(const std::map<std::string, int>& counts, const std::string& name) {
    const auto found = counts.find(name);
    return found == counts.end() ? 0 : found->second;
  }

  void add_constraints() {
    const Guards guards = guards_of(program_, evaluated_);
    const std::optional<Sizes> sample = sample_of(evaluated_);
    for (const provenance::Constraint& c :
         provenance::constraints(evaluated_.dimensions, requirements_of(evaluated_, guards), spelled_name)) {
      add({c.formula, program_.locate(c.pos).brief()}, sample, c.pos);
      if (!c.implied) show(c.formula, c.names);
    }
    // What is assumed in one branch only.
    for (const provenance::Assumed& a : evaluated_.record.assumptions) {
      if (a.assumption.given.empty()) continue;
      const std::string text = a.assumption.str();
      // Sizes that are known at run time only cannot be asked for.
      const std::vector<std::string> names = names_in(text);
      const bool can_be_asked =
          std::ranges::all_of(names, [&](const std::string& name) { return evaluated_.dimensions.contains(name); });
      if (!can_be_asked) continue;
      add({text, program_.locate(a.pos).brief()}, sample, a.pos);
      show(text, names);
    }
    std::vector<std::string> texts = guards.texts;
    texts.insert(texts.end(), facts_.bounds.begin(), facts_.bounds.end());
    for (const std::string& text : texts) {
      add({text, ""}, sample, {});
      show(text, names_in(text));
    }
  }

  void add(Constraint c, const std::optional<Sizes>& sample, program::Pos pos) {
    const std::optional<claims::Value> value = sample ? claims::value_at(c.formula, *sample) : std::nullopt;
    if (value && !claims::truth(*value))
      throw Error(Diagnostic{
          Code::ShapeMismatch, Severity::Error,
          fmt::format("the model as it was captured needs {}, which its own sample does not meet", c.formula),
          program_.locate(pos), "capture the model again, at sizes that meet it", ""});
    claims_.constraints.push_back(std::move(c));
  }

  /// What was decided by sizes not being 0 or 1 was decided without a trace: a path that was recorded.
  void add_specialized() {
    std::vector<Requirement> all;
    for (const sym::Assumption& a : evaluated_.assumed.specialized) all.emplace_back(a, program::Pos());
    for (const provenance::Constraint& c : provenance::constraints({}, all, spelled_name))
      if (c.formula.find(" >= ") != std::string::npos && !c.implied) add_condition({c.formula, ""});
  }

  /// What operators do on one side only of a relation of sizes is part of the path.
  void add_sides() {
    std::vector<Requirement> all;
    for (const provenance::Assumed& side : evaluated_.record.sides)
      if (!onnx::depends_on_data(*evaluated_.sym, side.assumption.b)) all.emplace_back(side.assumption, side.pos);
    for (const provenance::Constraint& c : provenance::constraints({}, all, spelled_name))
      if (!c.implied) add_condition({c.formula, program_.locate(c.pos).brief()});
  }

  void add_condition(Constraint c) {
    const bool known =
        std::ranges::find(claims_.constraints, c.formula, &Constraint::formula) != claims_.constraints.end();
    if (known) return;
    claims_.conditions.push_back(std::move(c));
    if (claims_.paths.empty()) claims_.paths.emplace_back();
    for (std::string& path : claims_.paths) path += 'T';
  }

  /// Adds a formula to the texts of the dimensions that it is about; one that is about none, to all.
  void show(const std::string& formula, const std::vector<std::string>& names) {
    for (DimensionClaim& d : claims_.dimensions) {
      const bool about = names.empty() || std::ranges::find(names, d.name) != names.end();
      if (about && std::ranges::find(d.constraints, formula) == d.constraints.end()) d.constraints.push_back(formula);
    }
  }

  static std::vector<std::string> names_in(const std::string& formula) {
    try {
      return claims::Formula::parse(formula).names();
    } catch (const Error&) {
      return {};
    }
  }

  const program::Program& program_;
  const Evaluated& evaluated_;
  const CaptureFacts& facts_;
  Claims claims_;
};

}  // namespace

CaptureFacts facts_of(const program::Program& program, const Evaluated& evaluated) {
  CaptureFacts out;
  out.kind = program.traced ? ClaimKind::RecordedPath : ClaimKind::AnySize;
  out.unfollowed = evaluated.unverified_uses;
  if (const std::optional<Sizes> sample = sample_of(evaluated); sample && !out.unfollowed.empty())
    out.checked.push_back(*sample);
  return out;
}

Claims make_claims(const program::Program& program, const Evaluated& evaluated, const CaptureFacts& facts) {
  return ClaimMaker(program, evaluated, facts).make();
}

}  // namespace lithify::driver
