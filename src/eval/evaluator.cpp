#include "eval/evaluator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/restored.hpp"
#include "base/stack.hpp"

namespace lithify::eval {

namespace {

constexpr int max_calls = 2000;  // within each other

}  // namespace

using program::Expr;
using program::Stmt;

struct Closure {
  const std::vector<program::Stmt>* body;
  std::weak_ptr<Frame> frame;  ///< that it captures; it may be kept for longer than that is there
};

Evaluator::Evaluator(const program::Program& program, const Registry& rules, onnx::Builder& builder, Options options,
                     Journal& journal, provenance::Recorder* recorder)
    : program_(program),
      rules_(rules),
      builder_(builder),
      options_(std::move(options)),
      journal_(journal),
      reporter_(builder, recorder),
      diagnostics_(journal),
      operators_(journal),
      read_first_(journal),
      set_at_(journal),
      written_at_(journal) {
  std::set<const void*> seen;
  program::Data root;
  root.kind = program::Data::Kind::Object;
  root.object = program.root;
  name_weights(root, "", seen);
}

Result run(const program::Program& program, const Registry& rules, onnx::Builder& builder, Vector<Value> inputs,
           Options options, Journal& journal, provenance::Recorder* recorder) {
  const sym::Observed observed(builder.sym, recorder);
  builder.sym.budget.restart();
  return Evaluator(program, rules, builder, std::move(options), journal, recorder).run(std::move(inputs));
}

Result Evaluator::run(Vector<Value> inputs) {
  Result out;
  try {
    out.value = run_forward(std::move(inputs));
    const auto is_error = [](const Diagnostic& d) { return d.severity == Severity::Error; };
    if (std::ranges::none_of(diagnostics_.all(), is_error)) out.changes = changes();
  } catch (const Stop&) {
    out.value = Poison{};
  } catch (const Error& e) {
    Diagnostic d = e.first();
    if (!d.place.known()) d.place = program_.locate(pos_);
    report(d);
    out.value = Poison{};
  }
  out.diagnostics = diagnostics_.take();
  out.operators = operators_.take();
  out.cycles = std::move(cycles_);
  return out;
}

void Evaluator::report(Diagnostic d) {
  if (std::ranges::find(diagnostics_.all(), d) == diagnostics_.all().end()) diagnostics_.push_back(std::move(d));
}

void Evaluator::warn(std::string message) {
  report({Code::UnsupportedArgument, Severity::Warning, std::move(message), program_.locate(pos_), "", ""});
}

void Evaluator::step() { builder_.sym.budget.spend(Limit::Statements, 1); }

// ---- calls --------------------------------------------------------------------------------------------------------

Value Evaluator::run_forward(Vector<Value> inputs) {
  root_ = from_object(program_.root);
  if (!root_->type) throw Error(Code::BadProgram, fmt::format("the class {} is not in the file", root_->class_name));
  for (const std::string& hook : root_->type->forward_pre_hooks)
    if (const program::Function* f = root_->type->method(hook)) {
      Value replaced = call_function(*f, {{root_, Value::tuple(inputs)}});
      if (replaced.is<Tuple>())
        inputs = replaced.items();
      else if (!replaced.is_none())
        inputs = {replaced};
    }
  Vector<Value> all{root_};
  all.insert(all.end(), inputs.begin(), inputs.end());
  Value result = call_function(program_.forward(), {std::move(all)});
  for (const std::string& hook : root_->type->forward_hooks)
    if (const program::Function* f = root_->type->method(hook)) {
      Value replaced = call_function(*f, {{root_, Value::tuple(inputs), result}});
      if (!replaced.is_none()) result = replaced;
    }
  return result;
}

/// What is undecided is handed on: a function may only show it.
Value Evaluator::argument(const Expr& e, Frame& frame) {
  if (e.kind == Expr::Kind::Name)
    if (auto found = frame.locals.find(e.name); found != frame.locals.end() && found->second.is<Undecided>())
      return found->second;
  return evaluate(e, frame);
}

Arguments Evaluator::arguments(const Expr& call, size_t from, Frame& frame) {
  Arguments out;
  const size_t first_keyword = call.items.size() - call.keywords.size();
  out.positional.reserve(first_keyword - from);
  for (size_t i = from; i < call.items.size(); ++i) {
    Value v = argument(call.items[i], frame);
    if (i < first_keyword)
      out.positional.push_back(std::move(v));
    else
      out.keywords.emplace_back(call.keywords[i - first_keyword], std::move(v));
  }
  return out;
}

/// A frame with the parameters of a function.
Frame Evaluator::bound(const program::Function& f, Arguments given) {
  if (given.positional.size() > f.parameters.size())
    throw Error(Code::BadProgram, fmt::format("{} takes {} arguments, and {} are given", f.qualified_name,
                                              f.parameters.size(), given.positional.size()));
  Frame frame;
  frame.function = &f;
  for (size_t i = 0; i < f.parameters.size(); ++i) {
    const program::Parameter& p = f.parameters[i];
    const auto keyword = std::ranges::find_if(given.keywords, [&](auto& k) { return k.first == p.name; });
    if (i < given.positional.size()) {
      frame.locals[p.name] = std::move(given.positional[i]);
    } else if (keyword != given.keywords.end()) {
      frame.locals[p.name] = keyword->second;
    } else if (p.default_value) {
      frame.locals[p.name] = evaluate(*p.default_value, frame);
    } else {
      throw Error(Code::BadProgram, fmt::format("{} is called without its argument {}", f.qualified_name, p.name));
    }
  }
  return frame;
}

Value Evaluator::call_function(const program::Function& f, Arguments given) {
  if (calls_ >= max_calls) throw Error(Code::LimitExceeded, fmt::format("calls nest too deep in {}", f.qualified_name));
  const auto shared = std::make_shared<Frame>(bound(f, std::move(given)));
  Frame& frame = *shared;
  const Restored calls(calls_, calls_ + 1);
  const Restored rules(applied_, 0);
  const Restored scope(builder_.scope);
  // Nodes made by a module's method belong to that module.
  if (auto* self =
          f.parameters.empty() ? nullptr : frame.locals[f.parameters[0].name].get_if<std::shared_ptr<Object>>();
      self && (*self)->type && (*self)->type->kind == program::Class::Kind::Module)
    builder_.scope = (*self)->path;
  execute(f.body, frame);
  return frame.returned ? *frame.returned : Value(None{});
}

Value Evaluator::call_closure(const Function& f) {
  const std::shared_ptr<Frame> captured = f.closure->frame.lock();
  if (!captured) throw Error(Code::BadProgram, "a closure is called after the function has returned that it is of");
  if (calls_ >= max_calls) throw Error(Code::LimitExceeded, "calls of closures nest too deep");
  const Restored calls(calls_, calls_ + 1);
  const Restored rules(applied_, 0);
  Frame& frame = *captured;
  std::optional<Value> outer = std::move(frame.returned);
  frame.returned.reset();
  execute(*f.closure->body, frame);
  Value result = frame.returned ? *frame.returned : Value(None{});
  frame.returned = std::move(outer);
  return result;
}

Value Evaluator::call_named(const Expr& e, Frame& frame) {
  Arguments given = arguments(e, 0, frame);
  if (auto local = frame.locals.find(e.name); local != frame.locals.end()) {
    auto* f = local->second.get_if<Function>();
    if (!f) throw Error(Code::BadProgram, fmt::format("{} is called, and is a {}", e.name, local->second.kind_name()));
    return f->closure ? call_closure(*f) : call_function(*f->function, std::move(given));
  }
  if (const program::Class* c = program_.find_class(e.name)) {
    if (c->kind == program::Class::Kind::NamedTuple) {
      for (auto& [name, value] : given.keywords) given.positional.push_back(value);
      return Value::tuple(std::move(given.positional), c);
    }
    if (c->kind == program::Class::Kind::Enum) {
      for (auto& [name, value] : c->constants) {
        Value v = evaluate(value, frame);
        if (given.positional.size() == 1 && equal(builder_.sym, v, given.positional[0]) == true)
          return Enum{c, name, std::make_shared<Value>(v)};
      }
    }
  }
  if (const program::Function* f = program_.find_function(e.name)) return call_function(*f, std::move(given));
  throw Error(Code::BadProgram, fmt::format("{} is called, and is not in the file", e.name));
}

Value Evaluator::call_method(const Value& self, const Expr& e, Frame& frame) {
  Arguments given = arguments(e, 1, frame);
  given.positional.insert(given.positional.begin(), self);
  if (self.is_poison()) return Poison{};
  auto* object = self.get_if<std::shared_ptr<Object>>();
  if (!object) throw Error(Code::BadProgram, fmt::format("method {} of a {}", e.name, self.kind_name()));
  const program::Class* type = (*object)->type;
  const program::Function* f = type ? type->method(e.name) : nullptr;
  if (!f) throw Error(Code::BadProgram, fmt::format("{} has no method {}", (*object)->class_name, e.name));
  return call_function(*f, std::move(given));
}

// ---- statements ---------------------------------------------------------------------------------------------------

void Evaluator::execute(const std::vector<Stmt>& body, Frame& frame) {
  for (const Stmt& s : body) {
    if (frame.returned) return;
    execute(s, frame);
  }
}

void Evaluator::execute(const Stmt& s, Frame& frame) {
  check_stack();
  step();
  if (s.scope) builder_.scope = *s.scope;
  switch (s.kind) {
    case Stmt::Kind::Assign:
      return assign(s, frame);
    case Stmt::Kind::SetAttribute: {
      Value object = evaluate(s.values[0], frame), value = evaluate(s.values[1], frame);
      if (auto* o = object.get_if<std::shared_ptr<Object>>()) {
        set_at_.edit({o->get(), s.name}, [&](std::optional<program::Pos>& at) { at = at.value_or(pos_); });
        cycles_.watch(object, value);
        (*o)->set(s.name, std::move(value));
      }
      return;
    }
    case Stmt::Kind::Evaluate:
      evaluate(s.values[0], frame);
      return;
    case Stmt::Kind::If:
      return choose(s, frame);
    case Stmt::Kind::For:
    case Stmt::Kind::While:
      return loop(s, frame);
    case Stmt::Kind::With: {
      if (s.values[0].kind == Expr::Kind::Operator && s.values[0].name == "prim::autocast")
        return with_autocast(s, frame);
      // Context managers of TorchScript switch gradients and profiling; they do not change values.
      Value manager = evaluate(s.values[0], frame);
      if (!s.targets.empty()) frame.locals[s.targets[0]] = manager;
      return execute(s.body, frame);
    }
    case Stmt::Kind::Closure: {
      Function f;
      f.closure = std::make_shared<Closure>(Closure{&s.body, frame.weak_from_this()});
      frame.locals[s.targets[0]] = f;
      frame.captured = true;
      return;
    }
    case Stmt::Kind::Return:
      frame.returned = s.values.empty() ? Value(None{}) : evaluate(s.values[0], frame);
      return;
    case Stmt::Kind::Pass:
      return;
  }
}

const Names& Evaluator::names_of(const Stmt& s) {
  const auto found = names_.find(&s);
  return found == names_.end() ? names_.emplace(&s, names_in(s)).first->second : found->second;
}

void Evaluator::assign(const Stmt& s, Frame& frame) {
  Vector<Value> values;
  if (s.unpack)
    values = unpack(s, frame);
  else
    for (const Expr& e : s.values) values.push_back(evaluate(e, frame));
  for (size_t i = 0; i < s.targets.size(); ++i) frame.locals[s.targets[i]] = std::move(values[i]);
  if (options_.self_check || autocast_) compare_with_records(s, frame);
}

Vector<Value> Evaluator::unpack(const Stmt& s, Frame& frame) {
  Value all;
  {
    const Restored outer(unpacking_, {&s.values[0], s.targets.size()});
    all = evaluate(s.values[0], frame);
  }
  Vector<Value> values;
  if (all.is_poison()) {
    values.assign(s.targets.size(), Poison{});
  } else if (all.is_tensor() || all.is_quantized()) {
    unpacked_ = s.targets.size();
    values = apply("aten::unbind", {all}).items();
  } else {
    values = all.items();
  }
  for (Value& v : values)
    if (!v.origin) v.origin = all.origin;
  if (values.size() != s.targets.size())
    throw Error(Code::BadProgram, fmt::format("{} values are unpacked into {} names", values.size(), s.targets.size()));
  return values;
}

// A difference is a fault here; within autocast it is an operator that casts in a way that is not known here.
void Evaluator::compare_with_records(const Stmt& s, const Frame& frame) {
  if (!frame.function) return;
  for (const std::string& target : s.targets) {
    const auto fact = frame.function->facts.find(target);
    if (fact == frame.function->facts.end()) continue;
    const std::optional<std::string> wrong =
        contradiction(builder_.sym, fact->second, frame.locals.at(target), options_.symbols);
    if (!wrong) continue;
    const bool cast = autocast_ && !options_.self_check;
    const std::string& subject = s.values[0].name;
    report({cast ? Code::UnsupportedArgument : Code::Internal, Severity::Error,
            fmt::format("{}: the value {} of {}{}", subject, *wrong, target, cast ? ", under autocast" : ""),
            program_.locate(s.pos), cast ? "export the model without autocast" : "", subject});
  }
}

bool Evaluator::condition(const Value& v) {
  if (auto* b = v.get_if<bool>()) return *b;
  if (v.is_int() && v.integer().is_constant()) return *v.integer().constant() != 0;
  if (auto* d = v.get_if<double>()) return *d != 0;
  if (v.is_poison()) throw Stop{};
  if (v.is_tensor()) {
    onnx::Value* t = v.tensor()->read(builder_);
    if (t->constant && t->constant->numel() == 1) return t->constant->reals()[0] != 0;
  }
  throw Error(Code::BadProgram, fmt::format("a {} decides a branch", v.kind_name()));
}

}  // namespace lithify::eval
