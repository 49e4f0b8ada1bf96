// The value of an expression of the program.
#include <fmt/format.h>

#include <algorithm>

#include "base/stack.hpp"
#include "eval/evaluator.hpp"

namespace lithify::eval {

using program::Expr;
using program::Type;

namespace {

const Value& usable(const Value& v) {
  if (auto* undecided = v.get_if<Undecided>()) throw Error(Code::UnsupportedControlFlow, undecided->why);
  return v;
}

const Value& local(const Frame& frame, const std::string& name) {
  auto found = frame.locals.find(name);
  if (found == frame.locals.end())
    throw Error(Code::BadProgram, fmt::format("the name {} is read before it is assigned", name));
  return usable(found->second);
}

/// The items from `begin` to `end`, which count from the end where they are negative.
Value tuple_part(const Value& all, int64_t begin, int64_t end) {
  if (all.is_poison()) return all;
  const Vector<Value>& items = all.items();
  const int64_t n = static_cast<int64_t>(items.size());
  begin = std::clamp<int64_t>(begin < 0 ? begin + n : begin, 0, n);
  end = std::clamp<int64_t>(end < 0 ? end + n : end, begin, n);
  return Value::tuple({items.begin() + begin, items.begin() + end});
}

/// unchecked_cast(T, x): what may be None is the value, or None, where T decides which.
Value unchecked_cast(const Type& type, const Value& v) {
  const Maybe* maybe = v.get_if<Maybe>();
  if (!maybe || type.name == "Optional") return v;
  return type.name == "NoneType" || type.name == "None" ? Value(None{}) : usable(*maybe->value);
}

}  // namespace

Value Evaluator::evaluate(const Expr& e, Frame& frame) {
  check_stack();
  using K = Expr::Kind;
  switch (e.kind) {
    case K::Name:
      return local(frame, e.name);
    case K::Int:
      return reporter_.number(e);
    case K::Float:
      return reporter_.real_number(e);
    case K::Complex:
      return std::complex<double>(e.real, e.imag);
    case K::Bool:
      return e.integer != 0;
    case K::None:
      return None{};
    case K::String:
      return e.name;
    case K::Constant:
      return reporter_.constant(e, constant(e.integer));
    case K::List:
      return Value::list(evaluate_items(e, frame));
    case K::Tuple:
      return Value::tuple(evaluate_items(e, frame));
    case K::Dict:
      return evaluate_dict(e, frame);
    case K::Attribute:
      return attribute(evaluate(e.items[0], frame), e.name);
    case K::Subscript: {
      Value container = evaluate(e.items[0], frame);
      return subscript(container, evaluate(e.items[1], frame));
    }
    case K::Slice:
      return tuple_part(evaluate(e.items[0], frame), e.integer, e.integer2);
    case K::Operator:
      return call_operator(e, frame);
    case K::Call:
      return call_named(e, frame);
    case K::Method:
      return call_method(evaluate(e.items[0], frame), e, frame);
    case K::Annotate:
      return evaluate_annotation(e.type, evaluate(e.items[0], frame));
    case K::UncheckedCast:
      return unchecked_cast(e.type, evaluate(e.items[0], frame));
    case K::Uninitialized:
      return Uninitialized{};
    case K::IsInstance:
      return is_instance(evaluate(e.items[0], frame), e.type);
    case K::New:
      return new_object(e.name);
    case K::Path:
      return evaluate_path(e.name, frame);
  }
  return None{};
}

Vector<Value> Evaluator::evaluate_items(const Expr& e, Frame& frame) {
  builder_.sym.budget.spend(Limit::Elements, e.items.size() + 1);
  Vector<Value> items;
  items.reserve(e.items.size());
  for (const Expr& i : e.items) items.push_back(evaluate(i, frame));
  return items;
}

Value Evaluator::evaluate_dict(const Expr& e, Frame& frame) {
  auto dict = std::make_shared<Dict>();
  for (size_t i = 0; i + 1 < e.items.size(); i += 2) {
    Value key = evaluate(e.items[i], frame);
    Value value = evaluate(e.items[i + 1], frame);
    if (key.is<std::string>())
      dict->set(std::move(key), std::move(value));
    else
      apply("aten::_set_item", {dict, std::move(key), std::move(value)});
  }
  return dict;
}

Value Evaluator::new_object(const std::string& class_name) {
  auto object = std::make_shared<Object>();
  object->class_name = class_name;
  object->type = program_.find_class(class_name);
  if (!object->type) throw Error(Code::BadProgram, fmt::format("the class {} is not in the file", class_name));
  return object;
}

// A function of the program, or a member of an enum.
Value Evaluator::evaluate_path(const std::string& path, Frame& frame) {
  if (const program::Function* f = program_.find_function(path)) return Function{f, nullptr};
  const size_t dot = path.rfind('.');
  if (const program::Class* c = program_.find_class(path.substr(0, dot)))
    for (auto& [name, value] : c->constants)
      if (name == path.substr(dot + 1)) return Enum{c, name, std::make_shared<Value>(evaluate(value, frame))};
  throw Error(Code::BadProgram, fmt::format("{} is not in the file", path));
}

// annotate(T, x): numbers are written in other forms than their type in a few places, which T settles.
Value Evaluator::evaluate_annotation(const Type& type, Value v) {
  if (v.is_tensor()) {
    if (type.name == "int") return apply("aten::IntImplicit", {v});
    if (type.name == "float") return apply("aten::FloatImplicit", {v});
    if (type.name == "number") return apply("aten::ScalarImplicit", {v});
  }
  if (type.name == "float" && v.is_int() && v.integer().is_constant())
    return static_cast<double>(*v.integer().constant());
  if (type.name == "Optional" && !type.args.empty() && !v.is_none())
    return evaluate_annotation(type.args[0], std::move(v));
  if (type.name == "List" && !type.args.empty() && v.is_list())
    for (Value& item : v.list_items()) item = evaluate_annotation(type.args[0], std::move(item));
  return v;
}

Value Evaluator::attribute(const Value& object, const std::string& name) {
  if (object.is_poison()) return object;
  if (auto* o = object.get_if<std::shared_ptr<Object>>()) {
    if (Value* v = (*o)->attribute(name)) {
      // Weights and modules are read all the time, and looked at by themselves.
      const bool weight = (v->is_tensor() && !v->tensor()->is_number) || v->is_quantized();
      if (!weight && !v->is<std::shared_ptr<Object>>())
        if (const AttributeKey key(o->get(), name); !set_at_.all().contains(key)) read_first_.insert(key);
      return usable(*v);
    }
    if ((*o)->type)
      for (auto& [constant, expr] : (*o)->type->constants)
        if (constant == name) {
          Frame frame;
          return evaluate(expr, frame);
        }
    throw Error(Code::BadProgram, fmt::format("{} has no attribute {}", (*o)->class_name, name));
  }
  if (auto* e = object.get_if<Enum>()) return name == "name" ? Value(e->name) : *e->value;
  if (auto* t = object.get_if<Tuple>(); t && t->named) {
    const auto& fields = t->named->attributes;
    for (size_t i = 0; i < fields.size() && i < t->items->size(); ++i)
      if (fields[i].first == name) return (*t->items)[i];
  }
  throw Error(Code::BadProgram, fmt::format("a {} has no attribute {}", object.kind_name(), name));
}

Value Evaluator::subscript(const Value& container, const Value& index) {
  if (container.is_poison() || index.is_poison()) return Poison{};
  if (container.is<std::shared_ptr<Dict>>()) return usable(apply("aten::__getitem__", {container, index}));
  if (container.is_list() || container.is<Tuple>()) {
    if (!index.is_int()) throw Error(Code::BadProgram, fmt::format("a list is indexed by a {}", index.kind_name()));
    if (container.is_open_list()) return apply("aten::__getitem__", {container, index});
    std::optional<int64_t> i = index.integer().constant();
    if (!i && container.is_list()) return apply_to_open("aten::__getitem__", {{container, index}});
    if (!i) throw Error(Code::UnsupportedControlFlow, "a list is indexed by a number known only at run time");
    const Vector<Value>& items = container.items();
    int64_t n = static_cast<int64_t>(items.size()), at = *i < 0 ? *i + n : *i;
    if (at < 0 || at >= n) throw Error(Code::ProgramRaises, fmt::format("index {} of a list of {} elements", *i, n));
    return usable(items[static_cast<size_t>(at)]);
  }
  return apply("aten::__getitem__", {container, index});
}

bool Evaluator::is_instance(const Value& v, const Type& type) {
  const std::string& t = type.name;
  if (v.is<Maybe>())
    throw Error(Code::UnsupportedControlFlow, "isinstance of a value that is None on one path of the run",
                "compare it with None instead");
  if (t == "Tuple" && !type.args.empty() && !v.is<Tuple>()) {
    // Several alternatives.
    return std::any_of(type.args.begin(), type.args.end(), [&](const Type& a) { return is_instance(v, a); });
  }
  if (t == "Union" || t == "Optional") {
    if (t == "Optional" && v.is_none()) return true;
    return std::any_of(type.args.begin(), type.args.end(), [&](const Type& a) { return is_instance(v, a); });
  }
  if (t == "Any") return true;
  if (t == "Tensor") return (v.is_tensor() && !v.tensor()->is_number) || v.is_quantized();
  if (t == "int") return v.is_int();
  if (t == "float") return v.is<double>();
  if (t == "bool") return v.is<bool>();
  if (t == "complex") return v.is<std::complex<double>>();
  if (t == "number") return v.is_number();
  if (t == "str") return v.is<std::string>();
  if (t == "None" || t == "NoneType") return v.is_none();
  if (t == "Device") return v.is<Device>();
  if (t == "Dict" || t == "dict") return v.is<std::shared_ptr<Dict>>();
  if (t == "Tuple" || t == "tuple") return v.is<Tuple>();
  if (t == "List" || t == "list") {
    if (!v.is_list()) return false;
    return type.args.empty() || v.items().empty() || is_instance(v.items()[0], type.args[0]);
  }
  if (auto* o = v.get_if<std::shared_ptr<Object>>()) return (*o)->class_name == t;
  if (auto* e = v.get_if<Enum>()) return e->type && e->type->qualified_name == t;
  if (auto* n = v.get_if<Tuple>(); n && n->named) return n->named->qualified_name == t;
  return false;
}

}  // namespace lithify::eval
