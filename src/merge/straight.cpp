#include "merge/straight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/restored.hpp"
#include "base/stack.hpp"
#include "merge/operators.hpp"
#include "program/text.hpp"

namespace lithify::merge {
namespace {

using program::Expr;
using program::Function;
using program::Object;
using program::Stmt;
using Kind = Expr::Kind;

constexpr int max_calls = 2000;                                   // within each other
constexpr size_t most_inlined = 100'000, most_inlined_each = 64;  // for every trace, and for each statement of it

/// The first path from the root to each object, as the evaluator names modules.
class Paths {
 public:
  explicit Paths(const Object& root) { visit(root, ""); }
  const std::string& of(const Object* object) const { return paths_.at(object); }

 private:
  void visit(const Object& object, const std::string& path) {
    if (!paths_.emplace(&object, path).second) return;
    for (const auto& [name, data] : object.attributes)
      if (data.object) visit(*data.object, path.empty() ? name : fmt::format("{}.{}", path, name));
  }
  std::unordered_map<const Object*, std::string> paths_;
};

template <class F>
void for_each_function(const program::Program& program, F f) {
  for (const auto& [name, function] : program.functions) f(function);
  for (const auto& [name, cls] : program.classes)
    for (const Function& method : cls.methods) f(method);
}

/// The names of attributes that statements set.
void add_set_attributes(const std::vector<Stmt>& body, std::set<std::string_view>& out) {
  for (const Stmt& s : body) {
    if (s.kind == Stmt::Kind::SetAttribute) out.insert(s.name);
    add_set_attributes(s.body, out);
    add_set_attributes(s.orelse, out);
  }
}

bool calls_local_function(const Expr& e) {
  return (e.kind == Kind::Call && !e.name.starts_with(program::kOwnPrefix)) ||
         std::ranges::any_of(e.items, calls_local_function);
}

bool is_straight(const Stmt& s) {
  const bool simple = s.kind == Stmt::Kind::Assign || s.kind == Stmt::Kind::Evaluate || s.kind == Stmt::Kind::Pass ||
                      s.kind == Stmt::Kind::Return;
  return simple && std::ranges::none_of(s.values, calls_local_function);
}

/// Whether an expression holds something that can be changed: each evaluation makes another one.
bool makes_container(const Node& n) {
  if (n.value) return false;
  return n.expr->kind == Kind::List || n.expr->kind == Kind::Dict || std::ranges::any_of(n.items, makes_container);
}

size_t size_of(const Node& n) {
  size_t out = 1;
  for (const Node& item : n.items) out += size_of(item);
  return out;
}

class Inliner {
 public:
  explicit Inliner(const program::Program& program) : program_(program), paths_(*program.root) {
    for_each_function(program, [&](const Function& f) {
      add_set_attributes(f.body, set_attributes_);
      left_ += most_inlined_each * f.body.size();
    });
  }

  Straight run() {
    const Function& forward = program_.forward();
    if (!straight(forward))
      throw Error(Code::TracesDiverge, "a program with control flow is not a trace, and cannot be merged with others");
    out_.steps.emplace_back();
    out_.steps[0].results = static_cast<uint32_t>(forward.parameters.size());
    std::vector<Bound> parameters;
    for (uint32_t i = 0; i < forward.parameters.size(); ++i)
      parameters.push_back({value_of({0, i}), i == 0 ? program_.root.get() : nullptr});
    Node result = call(forward, std::move(parameters)).node;
    const bool tuple = !result.value && result.expr->kind == Kind::Tuple;
    if (tuple)
      out_.results = std::move(result.items);
    else
      out_.results.push_back(std::move(result));
    return std::move(out_);
  }

 private:
  /// What a name stands for.
  struct Bound {
    Node node;
    const Object* object = nullptr;  ///< where it is a module
  };
  using Names = std::unordered_map<std::string_view, Bound>;

  static Node value_of(ValueRef value) { return {nullptr, {}, value}; }

  bool straight(const Function& f) {
    const auto [it, is_new] = straight_.try_emplace(&f, false);
    if (is_new) it->second = std::ranges::all_of(f.body, is_straight);
    return it->second;
  }

  /// Counts statements that are run and nodes that are copied: functions that are called twice by functions that are
  /// called twice, and tuples of such tuples, are few statements and any number of nodes.
  void spend(size_t amount) {
    if (amount > left_) throw Error(Code::LimitExceeded, "a trace is too large to be merged with others");
    left_ -= amount;
  }

  // ---- calls ----

  Bound call(const Function& f, std::vector<Bound> arguments) {
    if (calls_ >= max_calls) throw Error(Code::LimitExceeded, fmt::format("calls nest too deep in {}", f.name));
    spend(1);
    const Restored calls(calls_, calls_ + 1);
    const Object* self = arguments.empty() ? nullptr : arguments[0].object;
    const program::Class* type = self ? program_.find_class(self->class_name) : nullptr;
    const bool module = type && type->kind == program::Class::Kind::Module;
    const Restored scope(scope_, module ? paths_.of(self) : scope_);
    Names names;
    for (size_t i = 0; i < arguments.size(); ++i) names[f.parameters[i].name] = std::move(arguments[i]);
    for (const Stmt& s : f.body) {
      if (s.kind == Stmt::Kind::Return) return held(value(s.values[0], names));
      statement(s, names);
    }
    throw Error(Code::BadProgram, fmt::format("{} does not return", f.qualified_name));
  }

  /// The arguments of a call in the order of the parameters.
  std::vector<Bound> arguments(const Function& f, const Expr& e, Names& names) {
    std::vector<std::optional<Bound>> given(f.parameters.size());
    const size_t positional = e.items.size() - e.keywords.size();
    for (size_t i = 0; i < e.items.size(); ++i) {
      size_t to = i;
      if (i >= positional) {
        const auto found = std::ranges::find(f.parameters, e.keywords[i - positional], &program::Parameter::name);
        to = static_cast<size_t>(found - f.parameters.begin());
      }
      if (to >= given.size())
        throw Error(Code::BadProgram, fmt::format("{} is called with too many arguments", f.qualified_name));
      given[to] = held(value(e.items[i], names));
    }
    std::vector<Bound> out;
    for (size_t i = 0; i < given.size(); ++i) {
      const program::Parameter& p = f.parameters[i];
      if (!given[i] && !p.default_value)
        throw Error(Code::BadProgram, fmt::format("{} is called without its argument {}", f.qualified_name, p.name));
      out.push_back(given[i] ? *std::move(given[i]) : held(value(*p.default_value, names)));
    }
    return out;
  }

  /// The straight function that an expression calls, if it does.
  const Function* callee(const Expr& e, Names& names) {
    const Function* f = nullptr;
    if (e.kind == Kind::Call) {
      f = program_.find_function(e.name);
    } else if (e.kind == Kind::Method) {
      const Object* object = object_of(e.items[0], names);
      const program::Class* type = object ? program_.find_class(object->class_name) : nullptr;
      f = type ? type->method(e.name) : nullptr;
    }
    return f && straight(*f) ? f : nullptr;
  }

  /// The module that an expression is.
  const Object* object_of(const Expr& e, const Names& names) const {
    if (e.kind == Kind::Name) {
      const auto found = names.find(e.name);
      return found == names.end() ? nullptr : found->second.object;
    }
    const Object* outer = e.kind == Kind::Attribute ? object_of(e.items[0], names) : nullptr;
    const program::Data* data = outer ? outer->attribute(e.name) : nullptr;
    return data ? data->object.get() : nullptr;
  }

  // ---- statements ----

  void statement(const Stmt& s, Names& names) {
    spend(1);
    if (s.kind == Stmt::Kind::Pass) return;
    if (s.kind == Stmt::Kind::Evaluate) {
      const Result r = result(s.values[0], names);
      if (r.operation) emit(r.bound.node, &s, 0);
      return;
    }
    if (!s.unpack) {
      std::vector<Bound> values;
      for (const Expr& e : s.values) values.push_back(assigned(e, s, names));
      for (size_t i = 0; i < s.targets.size(); ++i) names[s.targets[i]] = std::move(values.at(i));
      return;
    }
    Result r = result(s.values[0], names);
    const auto count = static_cast<uint32_t>(s.targets.size());
    const bool tuple = !r.operation && !r.bound.node.value && r.bound.node.expr->kind == Kind::Tuple;
    if (tuple && r.bound.node.items.size() == count) {
      for (uint32_t i = 0; i < count; ++i) names[s.targets[i]] = held({std::move(r.bound.node.items[i]), nullptr});
      return;
    }
    const uint32_t step = emit(std::move(r.bound.node), &s, count);
    for (uint32_t i = 0; i < count; ++i) names[s.targets[i]] = {value_of({step, i}), nullptr};
  }

  Bound assigned(const Expr& e, const Stmt& s, Names& names) {
    Result r = result(e, names);
    if (r.operation || makes_container(r.bound.node))
      return {value_of({emit(std::move(r.bound.node), s.targets.size() == 1 ? &s : nullptr, 1), 0}), nullptr};
    return std::move(r.bound);
  }

  uint32_t emit(Node operation, const Stmt* statement, uint32_t results) {
    out_.steps.push_back({std::move(operation), statement, results, scope_});
    return static_cast<uint32_t>(out_.steps.size() - 1);
  }

  // ---- expressions ----

  /// An operand, or an operation that is not a step yet.
  struct Result {
    Bound bound;
    bool operation = false;
  };

  Bound value(const Expr& e, Names& names) {
    Result r = result(e, names);
    if (!r.operation) return std::move(r.bound);
    return {value_of({emit(std::move(r.bound.node), nullptr, 1), 0}), nullptr};
  }

  /// Something that is used more than once: lists and dicts in it are made once.
  Bound held(Bound b) {
    if (b.node.value || !makes_container(b.node)) return b;
    if (b.node.expr->kind == Kind::Tuple) {
      for (Node& item : b.node.items) item = held({std::move(item), nullptr}).node;
      return b;
    }
    return {value_of({emit(std::move(b.node), nullptr, 1), 0}), nullptr};
  }

  Node with_items(const Expr& e, Names& names) {
    Node out{&e, {}, {}};
    for (const Expr& item : e.items) out.items.push_back(value(item, names).node);
    return out;
  }

  Result result(const Expr& e, Names& names) {
    check_stack();
    switch (e.kind) {
      case Kind::Name: {
        const auto found = names.find(e.name);
        if (found == names.end())
          throw Error(Code::BadProgram, fmt::format("the name {} is read before it is assigned", e.name));
        spend(size_of(found->second.node));
        return {found->second};
      }
      case Kind::Int:
      case Kind::Float:
      case Kind::Complex:
      case Kind::Bool:
      case Kind::None:
      case Kind::String:
      case Kind::Constant:
      case Kind::Uninitialized:
      case Kind::Path:
        return {{{&e, {}, {}}, nullptr}};
      case Kind::List:
      case Kind::Tuple:
      case Kind::Dict:
      case Kind::Annotate:
      case Kind::UncheckedCast:
        return {{with_items(e, names), nullptr}};
      case Kind::Attribute:
        return attribute(e, names);
      case Kind::Subscript:
        return subscript(e, names);
      case Kind::Call:
      case Kind::Method:
        if (const Function* f = callee(e, names)) return {call(*f, arguments(*f, e, names))};
        return {{with_items(e, names), nullptr}, true};
      case Kind::Slice:
      case Kind::Operator:
      case Kind::IsInstance:
      case Kind::New:
        return {{with_items(e, names), nullptr}, true};
    }
    return {};
  }

  /// An attribute of the model is an operand, unless something may set it meanwhile.
  Result attribute(const Expr& e, Names& names) {
    const Bound of = value(e.items[0], names);
    Node node{&e, {of.node}, {}};
    if (!of.object || set_attributes_.contains(e.name)) return {{std::move(node), nullptr}, true};
    const program::Data* data = of.object->attribute(e.name);
    return {{std::move(node), data ? data->object.get() : nullptr}};
  }

  Result subscript(const Expr& e, Names& names) {
    Node node = with_items(e, names);
    const Node &all = node.items[0], &index = node.items[1];
    const bool known = !all.value && all.expr->kind == Kind::Tuple && !index.value && index.expr->kind == Kind::Int;
    if (!known) return {{std::move(node), nullptr}, true};
    const auto n = static_cast<int64_t>(all.items.size());
    const int64_t at = index.expr->integer < 0 ? index.expr->integer + n : index.expr->integer;
    if (at < 0 || at >= n) throw Error(Code::ProgramRaises, fmt::format("index {} of a tuple of {}", at, n));
    return {{all.items[static_cast<size_t>(at)], nullptr}};
  }

  const program::Program& program_;
  Paths paths_;
  std::set<std::string_view> set_attributes_;
  std::unordered_map<const Function*, bool> straight_;
  Straight out_;
  std::string scope_;
  int calls_ = 0;
  size_t left_ = most_inlined;
};

/// Computes the numbers that a step takes from sizes right before it, and for it alone. Where the code around the
/// program asked for a size says nothing; and what is computed next to its use is never a number that one branch has
/// computed for another.
class Sinking {
 public:
  explicit Sinking(Straight& code)
      : code_(code), at_(code.steps.size()), left_(most_copies * code.steps.size()), is_number_(code.steps.size()) {}

  void run() {
    if (std::ranges::any_of(code_.steps, [](const Step& s) { return changes_sizes(s.operation); })) return;
    find_numbers();
    // Results stay where they are: conditions are among them, and decide what follows.
    std::vector<bool> stays(code_.steps.size());
    for (Node& result : code_.results) for_each_ref(result, [&](ValueRef& v) { stays[v.step] = true; });
    for (uint32_t i = 0; i < code_.steps.size(); ++i)
      if (!is_number_[i] || stays[i]) place(i);
    for (Node& result : code_.results) for_each_ref(result, [&](ValueRef& v) { v.step = at_[v.step].value(); });
    code_.steps = std::move(sunk_);
  }

 private:
  static constexpr size_t most_copies = 8;  // in all, for each step

  /// Calls f with the values in a result, which may be a tuple of tuples.
  template <class F>
  static void for_each_ref(Node& n, F f) {
    if (n.value) f(*n.value);
    for (Node& item : n.items) for_each_ref(item, f);
  }

  void find_numbers() {
    std::vector<bool> written(code_.steps.size());
    for (size_t i = 1; i < code_.steps.size(); ++i) {
      const Node& operation = code_.steps[i].operation;
      const std::optional<size_t> to = written_operand(operation);
      if (to && operation.items[*to].value) written[operation.items[*to].value->step] = true;
    }
    for (size_t i = 1; i < code_.steps.size(); ++i)
      is_number_[i] = !written[i] && computes_number(code_.steps[i].operation);
  }

  bool computes_number(const Node& operation) const {
    if (reads_size(operation)) return true;
    return is_on_numbers(operation) && std::ranges::all_of(operation.items, [&](const Node& n) {
             return n.value ? is_number_[n.value->step] : n.is_literal() && n.expr->kind != Kind::Constant;
           });
  }

  /// Adds a step, after what it takes. A number that is a result has no place of its own: it stands where the next
  /// operator does, which another trace may lack.
  void place(uint32_t i) {
    Step step = code_.steps[i];
    if (is_number_[i]) step.pos = program::Pos();
    Copies copies;
    rewire(step.operation, step, copies);
    at_[i] = static_cast<uint32_t>(sunk_.size());
    sunk_.push_back(std::move(step));
  }

  using Copies = std::unordered_map<uint32_t, uint32_t>;  // of the steps for one user: where they are now

  void rewire(Node& n, const Step& user, Copies& copies) {
    if (n.value) n.value->step = is_number_[n.value->step] ? copied(n.value->step, user, copies) : *at_[n.value->step];
    for (Node& item : n.items) rewire(item, user, copies);
  }

  /// The number that a step computes, for a user.
  uint32_t copied(uint32_t i, const Step& user, Copies& copies) {
    if (at_[i] && left_ == 0) return *at_[i];
    if (const auto known = copies.find(i); known != copies.end()) return known->second;
    Step step = code_.steps[i];
    step.scope = user.scope;
    step.pos = pos_of(user);
    rewire(step.operation, user, copies);
    const auto at = static_cast<uint32_t>(sunk_.size());
    sunk_.push_back(std::move(step));
    if (left_ > 0) --left_;
    if (left_ == 0) at_[i] = at;
    return copies[i] = at;
  }

  Straight& code_;
  std::vector<std::optional<uint32_t>> at_;  // of each step that is there once: where it is now
  size_t left_;                              // of the copies
  std::vector<bool> is_number_;              // of each step
  std::vector<Step> sunk_;
};

}  // namespace

bool Node::is_literal() const {
  return !value && (expr->kind == Kind::Int || expr->kind == Kind::Float || expr->kind == Kind::Constant);
}

Straight straightened(const program::Program& trace, const std::vector<size_t>& results) {
  Straight out = Inliner(trace).run();
  std::vector<Node> kept;
  for (const size_t i : results) {
    if (i >= out.results.size()) throw Error(Code::BadProgram, "a recording has fewer results than outputs");
    kept.push_back(out.results[i]);
  }
  out.results = std::move(kept);
  Sinking(out).run();
  return out;
}

program::Pos pos_of(const Step& step) {
  if (step.pos) return *step.pos;
  if (step.operation.expr) return step.operation.expr->pos;
  return step.statement ? step.statement->pos : program::Pos();
}

}  // namespace lithify::merge
