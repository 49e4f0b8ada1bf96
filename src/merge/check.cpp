#include "merge/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "program/text.hpp"

namespace lithify::merge {
namespace {

using program::Expr;
using program::Stmt;
using program::unmangled;

/// What a name stands for on the path of a trace.
struct Meaning {
  enum class Kind { Value, Literal, Flag, Unknown };
  Kind kind = Kind::Unknown;
  ValueRef value;
  const Expr* literal = nullptr;
  bool flag = false;
};

class Path {
 public:
  Path(size_t trace, const std::vector<Trace>& traces, const std::vector<Set>& present,
       const std::map<const Expr*, std::vector<Source>>& copied_from)
      : trace_(traces[trace]), number_(trace), traces_(traces), present_(present), copied_from_(copied_from) {}

  void run(const std::vector<Stmt>& body, const std::vector<std::string>& parameters) {
    for (uint32_t i = 0; i < parameters.size(); ++i) names_[parameters[i]] = {Meaning::Kind::Value, {0, i}};
    block(body, true);
    require(next_ == trace_.code.steps.size(), "it does not run all steps");
  }

 private:
  void require(bool right, const char* what) const {
    if (!right)
      throw Error(Code::Internal, fmt::format("a merged program is wrong for recording {}, at step {}: {}",
                                              trace_.recording, next_, what));
  }

  void block(const std::vector<Stmt>& statements, bool runs) {
    for (const Stmt& s : statements) {
      const Set present = present_.at(statement_++);
      if (s.kind == Stmt::Kind::If) {
        const bool holds = runs && condition(s.values[0]);
        block(s.body, runs && holds);
        block(s.orelse, runs && !holds);
      } else if (!runs) {
        continue;
      } else if (s.kind == Stmt::Kind::Return) {
        results(s.values[0]);
      } else if (present == 0) {
        require(s.kind == Stmt::Kind::Assign && s.targets.size() == 1 && !s.unpack, "a statement is not a step");
        names_[s.targets[0]] = meaning(s.values[0]);
      } else {
        step(s, present);
      }
    }
  }

  Meaning meaning(const Expr& e) const {
    if (e.kind == Expr::Kind::Bool) return {Meaning::Kind::Flag, {}, nullptr, e.integer != 0};
    if (e.kind == Expr::Kind::Uninitialized) return {};
    if (e.kind != Expr::Kind::Name) return {Meaning::Kind::Literal, {}, &e};
    const auto found = names_.find(e.name);
    require(found != names_.end(), "a name is not known on this path");
    return found->second;
  }

  bool condition(const Expr& e) const {
    const Meaning m = meaning(e);
    if (m.kind == Meaning::Kind::Flag) return m.flag;
    const auto asked = std::ranges::find_if(trace_.asked, [&](const Trace::Asked& a) { return a.value == m.value; });
    require(m.kind == Meaning::Kind::Value && asked != trace_.asked.end(), "an if is on something that was not asked");
    return asked->outcome;
  }

  void step(const Stmt& s, Set present) {
    const bool own = contains(present, number_);
    require(own || not_parted_from(present), "it runs a step of another path");
    if (own) {
      require(next_ < trace_.code.steps.size(), "it runs more steps");
      const Step& expected = trace_.code.steps[next_];
      require(expected.results == s.targets.size() && same(s.values[0], expected.operation), "the step differs");
    }
    for (uint32_t i = 0; i < s.targets.size(); ++i)
      names_[s.targets[i]] = own ? Meaning{Meaning::Kind::Value, {next_, i}} : Meaning{};
    if (own) ++next_;
  }

  /// Whether the condition by which this trace parts from one of the others is not computed yet.
  bool not_parted_from(Set others) const {
    for (size_t t : Members(others))
      if (const auto at = parting(trace_, traces_[t]); at && trace_.asked[*at].value->step >= next_) return true;
    return false;
  }

  void results(const Expr& e) const {
    const std::vector<Node>& expected = trace_.code.results;
    if (trace_.outputs == 1) return require(same(e, expected[0]), "the result differs");
    require(e.kind == Expr::Kind::Tuple && e.items.size() == trace_.outputs, "the number of results differs");
    for (size_t i = 0; i < trace_.outputs; ++i) require(same(e.items[i], expected[i]), "a result differs");
  }

  bool same(const Expr& e, const Node& n) const {
    if (n.value) {
      if (e.kind != Expr::Kind::Name) return false;
      const Meaning m = meaning(e);
      return m.kind == Meaning::Kind::Value && m.value == *n.value;
    }
    if (n.is_literal()) {
      const Meaning m = meaning(e);
      return m.kind == Meaning::Kind::Literal && stands_for(*m.literal, *n.expr);
    }
    const Expr& x = *n.expr;
    if (e.kind != x.kind || unmangled(e.name) != unmangled(x.name) || e.keywords != x.keywords ||
        e.integer != x.integer || e.integer2 != x.integer2 || e.items.size() != n.items.size())
      return false;
    for (size_t i = 0; i < e.items.size(); ++i)
      if (!same(e.items[i], n.items[i])) return false;
    return true;
  }

  bool stands_for(const Expr& literal, const Expr& own) const {
    const auto found = copied_from_.find(&literal);
    return found != copied_from_.end() && literal.kind == own.kind &&
           std::ranges::find(found->second, Source{trace_.recording, &own}) != found->second.end();
  }

  const Trace& trace_;
  size_t number_;
  const std::vector<Trace>& traces_;
  const std::vector<Set>& present_;
  const std::map<const Expr*, std::vector<Source>>& copied_from_;
  std::unordered_map<std::string_view, Meaning> names_;
  size_t statement_ = 0;
  uint32_t next_ = 1;  // step
};

}  // namespace

void check(const std::vector<Stmt>& body, const std::vector<std::string>& parameters, const std::vector<Set>& present,
           const std::map<const Expr*, std::vector<Source>>& copied_from, const std::vector<Trace>& traces) {
  for (size_t t = 0; t < traces.size(); ++t) Path(t, traces, present, copied_from).run(body, parameters);
}

}  // namespace lithify::merge
