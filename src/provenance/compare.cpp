#include "provenance/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/options.hpp"
#include "program/text.hpp"

namespace lithify::provenance {
namespace {

using program::Data;
using program::Expr;
using program::Stmt;
using program::unmangled;
using Kind = Expr::Kind;

/// What an operation or a statement takes: a leaf of the program's text, or a result of something before it.
struct Operand {
  const Expr* leaf = nullptr;
  size_t step = 0, result = 0;
};

/// An operation, or a statement that is more than a name for its value. How the text of a program is laid out, what has
/// a name and what stands where it is used, does not show in its steps.
struct Step {
  const Expr* expr = nullptr;
  const Stmt* stmt = nullptr;
  std::vector<Operand> operands;
};

/// The steps of a function, in the order in which they run.
class Steps {
 public:
  explicit Steps(const program::Function& function) {
    for (size_t i = 0; i < function.parameters.size(); ++i) names_[function.parameters[i].name] = {nullptr, 0, i};
    all.push_back({});  // the parameters
    block(function.body);
  }

  std::vector<Step> all;

 private:
  static bool is_leaf(const Expr& e) { return e.items.empty() && e.kind != Kind::Operator && e.kind != Kind::Call; }

  Operand value(const Expr& e) {
    if (e.kind == Kind::Name)
      if (const auto known = names_.find(e.name); known != names_.end()) return known->second;
    if (is_leaf(e) && e.kind != Kind::List && e.kind != Kind::Tuple && e.kind != Kind::Dict) return {&e, 0, 0};
    Step step{&e, nullptr, {}};
    // A loop leaves nothing of numbers that each iteration has for itself: of these, traces have different numbers.
    for (const Expr& item : e.items)
      if (e.kind != Kind::Tuple || item.kind != Kind::None) step.operands.push_back(value(item));
    return add(std::move(step));
  }

  Operand add(Step step) {
    all.push_back(std::move(step));
    return {nullptr, all.size() - 1, 0};
  }

  void block(const std::vector<Stmt>& statements) {
    for (const Stmt& s : statements) statement(s);
  }

  void statement(const Stmt& s) {
    Step step{nullptr, &s, {}};
    for (const Expr& v : s.values) step.operands.push_back(value(v));
    if (s.kind == Stmt::Kind::Evaluate || s.kind == Stmt::Kind::Pass) return;
    if (s.kind == Stmt::Kind::Assign && !s.unpack && s.targets.size() == step.operands.size()) {
      for (size_t i = 0; i < s.targets.size(); ++i) names_[s.targets[i]] = step.operands[i];
      return;
    }
    const size_t at = add(std::move(step)).step;
    for (size_t i = 0; i < s.targets.size(); ++i) names_[s.targets[i]] = {nullptr, at, i};
    if (!s.body.empty() || !s.orelse.empty()) blocks(s);
  }

  /// The blocks of a statement give a value to the names that both branches set, or that a loop found and sets again.
  void blocks(const Stmt& s) {
    const auto before = names_;
    std::vector<std::string> given;
    std::set<std::string> here;
    for (const Stmt& in : s.body)
      for (const std::string& target : in.targets)
        if (here.insert(target).second && s.kind != Stmt::Kind::If && before.contains(target)) given.push_back(target);
    for (const Stmt& in : s.orelse)
      for (const std::string& target : in.targets)
        if (here.erase(target)) given.push_back(target);
    std::vector<size_t> ends;
    for (const std::vector<Stmt>* body : {&s.body, &s.orelse}) {
      names_ = before;
      block(*body);
      Step end{nullptr, &s, {}};
      for (const std::string& name : given) end.operands.push_back(names_[name]);
      ends.push_back(add(std::move(end)).step);
    }
    names_ = before;
    for (size_t i = 0; i < given.size(); ++i) names_[given[i]] = {nullptr, ends.back(), i};
  }

  std::unordered_map<std::string, Operand> names_;
};

/// Walks two programs at once.
class Comparison {
 public:
  Comparison(const program::Program& a, const program::Program& b) : a_(a), b_(b) {}

  std::map<Literal, std::pair<int64_t, int64_t>> run() {
    objects(*a_.root, *b_.root);
    return std::move(differing_);
  }

 private:
  [[noreturn]] void diverge(const std::string& what) const {
    throw Error({Code::TracesDiverge, Severity::Error, fmt::format("the traces diverge here: {}", what),
                 a_.locate(pos_),
                 fmt::format("control flow that depends on sizes is not in a trace; {}", term("script")), ""});
  }
  void require(bool same, const std::string& what) const {
    if (!same) diverge(what);
  }

  void objects(const program::Object& a, const program::Object& b) {
    if (!seen_.insert(&a).second) return;
    const program::Class *ca = a_.find_class(a.class_name), *cb = b_.find_class(b.class_name);
    require(!ca == !cb && unmangled(a.class_name) == unmangled(b.class_name), "classes differ");
    require(a.attributes.size() == b.attributes.size(), fmt::format("attributes of {} differ", a.class_name));
    for (size_t i = 0; i < a.attributes.size(); ++i) {
      require(a.attributes[i].first == b.attributes[i].first, fmt::format("attributes of {} differ", a.class_name));
      data(a.attributes[i].second, b.attributes[i].second, a.attributes[i].first);
    }
    if (!ca || !seen_.insert(ca).second) return;
    require(ca->methods.size() == cb->methods.size(), fmt::format("methods of {} differ", a.class_name));
    for (size_t i = 0; i < ca->methods.size(); ++i) functions(ca->methods[i], cb->methods[i]);
  }

  /// Attributes: the sizes of weights, everything of numbers.
  void data(const Data& a, const Data& b, const std::string& name) {
    const std::string what = fmt::format("the attribute {} differs", name);
    require(a.kind == b.kind && a.integer == b.integer && a.real == b.real && a.text == b.text, what);
    if (a.tensor) require(a.tensor->dtype == b.tensor->dtype && a.tensor->sizes == b.tensor->sizes, what);
    if (a.container) {
      require(a.container->items.size() == b.container->items.size(), what);
      for (size_t i = 0; i < a.container->items.size(); ++i) data(a.container->items[i], b.container->items[i], name);
    }
    if (a.object) objects(*a.object, *b.object);
  }

  void functions(const program::Function& a, const program::Function& b) {
    if (!seen_.insert(&a).second) return;
    require(a.parameters.size() == b.parameters.size(), "functions take different arguments");
    const std::vector<Step> left = Steps(a).all, right = Steps(b).all;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      try {
        steps(left[i], right[i]);
      } catch (Error& e) {
        // A list or a name has no place of its own: that of the next operator is near.
        for (size_t j = i; j < left.size() && !e.first().place.known(); ++j)
          if (left[j].expr) e.locate(a_.locate(left[j].expr->pos));
        throw;
      }
    }
    require(left.size() == right.size(), "one goes on and the other ends");
  }

  void steps(const Step& a, const Step& b) {
    const program::Pos outer = pos_;
    if (a.expr) pos_ = a.expr->pos;
    require(!a.expr == !b.expr && !a.stmt == !b.stmt && a.operands.size() == b.operands.size(),
            a.expr && b.expr ? fmt::format("{} here, {} there", described(*a.expr), described(*b.expr))
                             : "the statements differ");
    if (a.stmt)
      require(a.stmt->kind == b.stmt->kind && a.stmt->targets.size() == b.stmt->targets.size() &&
                  a.stmt->name == b.stmt->name,
              "the statements differ");
    if (a.expr) expression(*a.expr, *b.expr);
    for (size_t i = 0; i < a.operands.size(); ++i) operands(a.operands[i], b.operands[i]);
    pos_ = outer;
  }

  void operands(const Operand& a, const Operand& b) {
    require(!a.leaf == !b.leaf && a.step == b.step && a.result == b.result, "different values are used");
    if (a.leaf) expression(*a.leaf, *b.leaf);
  }

  /// Without what it is made of.
  void expression(const Expr& a, const Expr& b) {
    require(a.kind == b.kind && a.keywords == b.keywords, fmt::format("{} here, {} there", described(a), described(b)));
    switch (a.kind) {
      case Kind::Int:
        if (a.integer != b.integer) differing_[{&a, 0}] = {a.integer, b.integer};
        break;
      case Kind::Constant:
        constants(a, b);
        break;
      case Kind::Call:
        require(unmangled(a.name) == unmangled(b.name), fmt::format("{} here, {} there", a.name, b.name));
        if (const program::Function* fa = a_.find_function(a.name), *fb = b_.find_function(b.name); fa && fb) {
          const program::Pos pos = pos_;
          functions(*fa, *fb);
          pos_ = pos;
        }
        break;
      case Kind::Float:
      case Kind::Complex:
        require(a.real == b.real && a.imag == b.imag,
                fmt::format("the number {} here, {} there, which is not a whole one", a.real, b.real));
        break;
      default:
        require(unmangled(a.name) == unmangled(b.name) && a.integer == b.integer && a.integer2 == b.integer2,
                fmt::format("{} here, {} there", described(a), described(b)));
    }
  }

  void constants(const Expr& a, const Expr& b) {
    const Data &x = a_.constants.at(static_cast<size_t>(a.integer)),
               &y = b_.constants.at(static_cast<size_t>(b.integer));
    if (!x.tensor || !y.tensor) return data(x, y, "constant");
    const TensorView &t = *x.tensor, &u = *y.tensor;
    require(t.dtype == u.dtype && t.sizes.size() == u.sizes.size(), "a constant tensor has another type");
    if (t.sizes == u.sizes && t.dense_bytes() == u.dense_bytes()) return;
    require(is_integer(t.dtype), "a constant tensor has other values");
    const std::vector<int64_t> left = integers_of(t), right = integers_of(u);
    const auto p = as_progression(t.sizes, left), q = as_progression(u.sizes, right);
    const auto fixed = [](const Progression& c) { return c.ends_at_last() ? c.last() : c.start; };
    if (p && q && fixed(*p) == fixed(*q) && p->step == q->step && p->axis == q->axis) {
      differing_[{&a, Literal::length}] = {p->length, q->length};
      return;
    }
    require(t.sizes == u.sizes, "a constant tensor has other sizes");
    for (size_t i = 0; i < left.size(); ++i)
      if (left[i] != right[i]) differing_[{&a, i}] = {left[i], right[i]};
  }

  static std::string described(const Expr& e) {
    if (e.kind == Kind::Operator || e.kind == Kind::Name || e.kind == Kind::Attribute || e.kind == Kind::Call)
      return e.name;
    if (e.kind == Kind::Method) return e.name + "()";
    if (e.kind == Kind::List) return fmt::format("a list of {}", e.items.size());
    if (e.kind == Kind::Int) return std::to_string(e.integer);
    return "something else";
  }

  const program::Program &a_, &b_;
  std::set<const void*> seen_;
  program::Pos pos_;
  std::map<Literal, std::pair<int64_t, int64_t>> differing_;
};

}  // namespace

std::map<Literal, std::vector<int64_t>> differing_numbers(std::span<const program::Program* const> traces) {
  std::map<Literal, std::vector<int64_t>> out;
  for (size_t k = 1; k < traces.size(); ++k)
    for (auto& [literal, values] : Comparison(*traces[0], *traces[k]).run())
      out.try_emplace(literal, traces.size(), values.first).first->second[k] = values.second;
  return out;
}

bool differ_in_numbers(const program::Program& a, const program::Program& b) {
  try {
    Comparison(a, b).run();
    return true;
  } catch (const Error& e) {
    if (e.first().code != Code::TracesDiverge) throw;
    return false;
  }
}

}  // namespace lithify::provenance
