#include "eval/evaluator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/options.hpp"
#include "eval/carry.hpp"

namespace lithify::eval {

namespace {

constexpr int max_depth = 200;          // of calls
constexpr int64_t max_steps = 500'000;  // statements in all
constexpr size_t max_items = 1 << 20;   // of a list

using program::Expr;
using program::Stmt;
using program::Type;

bool has_poison(const Value& v, int depth = 0) {
  if (v.is_poison()) return true;
  if (depth > 4) return false;
  if ((!v.is_list() && !v.is<Tuple>()) || v.is_open_list()) return false;
  const std::vector<Value>& items = v.items();
  return std::any_of(items.begin(), items.end(), [&](const Value& i) { return has_poison(i, depth + 1); });
}

// A program that doubles a string or list in a loop must not use up the memory.
void check_length(const Value& v) {
  auto* text = v.get_if<std::string>();
  auto* list = v.get_if<std::shared_ptr<List>>();
  if ((text && text->size() > max_text) || (list && (*list)->items.size() > max_items))
    throw Error(Code::LimitExceeded, fmt::format("a {} grows too long at export", v.kind_name()));
}

// Codes of problems with one operator, after which evaluation can go on with the next.
bool is_local(Code code) {
  switch (code) {
    case Code::UnsupportedOperator:
    case Code::UnsupportedOverload:
    case Code::UnsupportedArgument:
    case Code::NeedsOpset:
    case Code::UnsupportedMutation:
    case Code::UnsupportedType:
    case Code::ShapeMismatch:
    case Code::HardCodedSize:
    case Code::TypeMismatch:
      return true;
    default:
      return false;
  }
}

const Value& usable(const Value& v) {
  if (auto* undecided = v.get_if<Undecided>()) throw Error(Code::UnsupportedControlFlow, undecided->why);
  return v;
}

std::string describe(const Value& v) {
  if (v.is_tensor()) return fmt::format("{}{}", name_of(v.tensor()->dtype()), onnx::print_shape(v.tensor()->shape()));
  if (auto* q = v.get_if<Quantized>())
    return fmt::format("{}{}", name_of(q->dtype()), onnx::print_shape(q->integers->shape()));
  return v.kind_name();
}

}  // namespace

// A closure lives no longer than the frame that it captures, which waits for it.
struct Closure {
  const std::vector<program::Stmt>* body;
  void* frame;
};

Evaluator::Evaluator(const program::Program& program, const Registry& rules, onnx::Builder& builder)
    : program_(program), rules_(rules), builder_(builder) {
  std::set<const void*> seen;
  program::Data root;
  root.kind = program::Data::Kind::Object;
  root.object = program.root;
  name_weights(root, "", seen);
}

// ---- the model's data ---------------------------------------------------------------------------------------------

// Gives every tensor and object its name in the state dict: the first path that leads to it from the root.
void Evaluator::name_weights(const program::Data& data, const std::string& path, std::set<const void*>& seen) {
  auto below = [&](const std::string& name) { return path.empty() ? name : path + "." + name; };
  if (data.tensor) paths_.try_emplace(data.tensor.get(), path);
  if (data.object && seen.insert(data.object.get()).second) {
    paths_.try_emplace(data.object.get(), path);
    for (auto& [name, value] : data.object->attributes) name_weights(value, below(name), seen);
    if (data.object->state) name_weights(*data.object->state, path, seen);
  }
  if (data.kind == program::Data::Kind::Quantized) {
    const char* parts[] = {"", "scale", "zero_point"};
    for (size_t i = 0; i < std::size(parts); ++i)
      name_weights(data.container->items.at(i), i == 0 ? path : below(parts[i]), seen);
    return;
  }
  if (data.container && seen.insert(data.container.get()).second)
    for (size_t i = 0; i < data.container->items.size(); ++i)
      name_weights(data.container->items[i], below(std::to_string(i)), seen);
}

Value Evaluator::from_data(const program::Data& data) {
  using K = program::Data::Kind;
  auto shared = [&](const void* identity, auto make) -> Value {
    if (auto found = converted_.find(identity); found != converted_.end()) return found->second;
    Value v = make();
    converted_[identity] = v;
    return v;
  };
  switch (data.kind) {
    case K::None:
      return None{};
    case K::Bool:
      return data.integer != 0;
    case K::Int:
      return builder_.dim(data.integer);
    case K::Float:
      return data.real;
    case K::Complex:
      return std::complex<double>(data.real, data.imag);
    case K::String:
      return data.text;
    case K::Device:
      return Device{data.text};
    case K::Tensor:
      return shared(data.tensor.get(), [&]() -> Value { return contents_at_first(*data.tensor); });
    case K::List:
      return shared(data.container.get(), [&]() -> Value {
        std::vector<Value> items;
        for (const program::Data& d : data.container->items) items.push_back(from_data(d));
        return Value::list(std::move(items));
      });
    case K::Tuple: {
      std::vector<Value> items;
      for (const program::Data& d : data.container->items) items.push_back(from_data(d));
      return Value::tuple(std::move(items));
    }
    case K::Dict:
      return shared(data.container.get(), [&]() -> Value {
        auto dict = std::make_shared<Dict>();
        const std::vector<program::Data>& items = data.container->items;
        for (size_t i = 0; i + 1 < items.size(); i += 2)
          dict->items.emplace_back(from_data(items[i]), from_data(items[i + 1]));
        return dict;
      });
    case K::Object:
      return from_object(data.object);
    case K::Enum: {
      const program::Class* type = program_.find_class(data.text);
      Value value = from_data(data.container->items.at(0));
      std::string name;
      Frame frame;
      for (size_t i = 0; type && i < type->constants.size(); ++i)
        if (equal(builder_.sym, evaluate(type->constants[i].second, frame), value) == true)
          name = type->constants[i].first;
      return Enum{type, name, std::make_shared<Value>(value)};
    }
    case K::Quantized:
      return shared(data.container.get(), [&]() -> Value {
        const std::vector<program::Data>& items = data.container->items;
        const bool channels = items.at(3).kind == K::Int;
        auto numbers = [&](const program::Data& d) { return from_data(d).tensor()->read(builder_); };
        return Quantized{
            from_data(items[0]).tensor(),
            channels ? builder_.cast(numbers(items[1]), DType::Double) : builder_.scalar(DType::Double, items[1].real),
            channels ? builder_.cast(numbers(items[2]), DType::Int64)
                     : builder_.scalar_int(DType::Int64, items[2].integer),
            channels ? std::optional(items[3].integer) : std::nullopt};
      });
  }
  return None{};
}

std::shared_ptr<Object> Evaluator::from_object(const std::shared_ptr<program::Object>& object) {
  if (auto found = converted_.find(object.get()); found != converted_.end())
    return *found->second.get_if<std::shared_ptr<Object>>();
  auto out = std::make_shared<Object>();
  converted_[object.get()] = out;
  out->class_name = object->class_name;
  out->type = program_.find_class(object->class_name);
  if (auto path = paths_.find(object.get()); path != paths_.end()) out->path = path->second;
  const std::string prefix = out->path.empty() ? "" : out->path + ".";
  for (auto& [name, data] : object->attributes)
    out->attributes.emplace_back(name, attribute_at_first(data, prefix + name));
  if (object->state) {
    const program::Function* set = out->type ? out->type->method("__setstate__") : nullptr;
    if (set) {
      call_function(*set, {out, from_data(*object->state)});
    } else {
      out->set("__state__", from_data(*object->state));
    }
  }
  return out;
}

Value Evaluator::constant(int64_t index) {
  if (index < 0 || static_cast<size_t>(index) >= program_.constants.size())
    throw Error(Code::BadProgram, fmt::format("the program has no constant {}", index));
  auto found = constants_.find(index);
  if (found == constants_.end())
    found = constants_.emplace(index, from_data(program_.constants[static_cast<size_t>(index)])).first;
  const Value& v = found->second;
  if (const auto* q = v.get_if<Quantized>()) {
    Quantized own = *q;
    own.integers = std::make_shared<Tensor>(q->integers->read(builder_));
    return own;
  }
  if (!v.is_tensor()) return v;
  // Every use is a tensor of its own: the program may write to it.
  auto tensor = std::make_shared<Tensor>(v.tensor()->read(builder_));
  // Tracing stores a Python number as a 0-d tensor.
  tensor->is_number = tensor->rank() == 0;
  return tensor;
}

// ---- where numbers come from --------------------------------------------------------------------------------------

Value Evaluator::number(const Expr& e) {
  auto repaired = repairs.find({&e, 0});
  Value v = repaired == repairs.end() ? builder_.dim(e.integer) : repaired->second;
  v.origin = origins.literal({&e, 0}, e.integer);
  return v;
}

namespace {

/// The whole number that a float is.
std::optional<int64_t> whole(double x) {
  constexpr double most = 1e9;
  return x == std::floor(x) && std::abs(x) <= most ? std::optional(static_cast<int64_t>(x)) : std::nullopt;
}

}  // namespace

Value Evaluator::real_number(const Expr& e) {
  Value v = e.real;
  if (const auto n = whole(e.real); n && *n > 0) v.origin = origins.literal({&e, Literal::fixed}, *n);
  return v;
}

namespace {

// Of constants: those that are looked at, and those of which each element may be a size.
constexpr int64_t max_elements_read = 4096;
constexpr size_t max_elements_doubted = 16;

// Lists of sizes are short; of longer lists, the rest is not looked at.
constexpr size_t max_listed = 64;

/// The elements of a list or tuple where they are known.
std::span<const Value> elements_of(const Value& v) {
  if (!(v.is_list() && !v.is_open_list()) && !v.is<Tuple>()) return {};
  const std::vector<Value>& items = v.items();
  return std::span(items).first(std::min(items.size(), max_listed));
}

void collect_origins(const Value& v, std::vector<Origin>& out, int depth = 0) {
  if (v.origin) {
    out.push_back(v.origin);
  } else if (depth < 3) {
    for (const Value& item : elements_of(v)) collect_origins(item, out, depth + 1);
  }
}

/// The numbers that stand in lists among the arguments, as they are in the program.
Origin listed_numbers(Origins& origins, const std::vector<Value>& positional, program::Pos pos) {
  std::vector<Origin> out;
  for (const Value& v : positional)
    for (const Value& item : elements_of(v))
      if (item.origin && origins.as_literal(item.origin)) out.push_back(item.origin);
  return origins.join(std::move(out), pos);
}

}  // namespace

Value Evaluator::constant(const Expr& e) {
  Value v = constant(e.integer);
  if (!v.is_tensor()) return v;
  const onnx::Value* t = v.tensor()->read(builder_);
  if (t->constant && is_float(t->dtype) && t->rank() == 0) {
    const auto n = whole(t->constant->reals()[0]);
    if (n && *n > 0) v.origin = origins.literal({&e, Literal::fixed}, *n);
    return v;
  }
  if (std::ranges::any_of(t->shape, [](onnx::Dim d) { return d.is(1); }))
    v.origin = origins.literal({&e, Literal::fixed}, 1);
  if (!t->constant || !is_integer(t->dtype) || t->constant->numel() > max_elements_read) return v;
  const bool is_number = v.tensor()->is_number;
  const std::vector<int64_t> elements = t->constant->integers();
  std::vector<Origin> from;
  if (std::optional<Progression> p = as_progression(t->constant->sizes, elements)) {
    from.push_back(origins.literal({&e, Literal::length}, p->length));
    if (auto found = repairs.find({&e, Literal::length}); found != repairs.end())
      v = Value(counted(*p, found->second, t->dtype, t->shape));
  } else if (elements.size() <= max_elements_doubted) {
    std::vector<onnx::Dim> contents;
    bool repaired = false;
    for (size_t i = 0; i < elements.size(); ++i) {
      auto found = repairs.find({&e, i});
      repaired = repaired || found != repairs.end();
      contents.push_back(found == repairs.end() ? builder_.dim(elements[i]) : found->second);
      from.push_back(origins.literal({&e, i}, elements[i]));
    }
    if (repaired) v = Value(builder_.symbolic(t->dtype, t->shape, std::move(contents)));
  }
  v.tensor()->is_number = is_number;
  v.origin = from.size() == 1 ? from[0] : origins.join(std::move(from), e.pos);
  return v;
}

onnx::Value* Evaluator::counted(const Progression& p, sym::Expr length, DType dtype, onnx::Shape shape) {
  sym::Context& sym = builder_.sym;
  const sym::Expr span = sym.mul(length, sym.constant(p.step));
  const sym::Expr start = p.ends_at_last() ? sym.sub(sym.constant(p.last() + p.step), span) : sym.constant(p.start);
  onnx::Value* all = builder_.op("Range", {builder_.symbolic(start), builder_.symbolic(sym.add(start, span)),
                                           builder_.scalar_int(DType::Int64, p.step)});
  shape[p.axis] = length;
  return builder_.reshape(builder_.cast(all, dtype), shape);
}

Origin Evaluator::origin_of(const std::vector<Value>& positional,
                            const std::vector<std::pair<std::string, Value>>& keywords) {
  std::vector<Origin> from;
  for (const Value& v : positional) collect_origins(v, from);
  for (auto& [name, v] : keywords) collect_origins(v, from);
  return origins.join(std::move(from), pos_);
}

namespace {

// Arguments that end up in values or in the sizes of new tensors.
struct FreeArguments {
  size_t first, last;
  NumberUse::As as;
};

const std::unordered_map<std::string_view, FreeArguments>& free_arguments() {
  using enum NumberUse::As;
  static const auto table = [] {
    std::unordered_map<std::string_view, FreeArguments> t{
        {"aten::select", {2, 2, Position}},     {"aten::slice", {2, 3, Position}},
        {"aten::narrow", {2, 3, Position}},     {"aten::arange", {0, 2, Size}},
        {"aten::linspace", {0, 2, Size}},       {"aten::eye", {0, 1, Size}},
        {"aten::split", {1, 1, Size}},          {"aten::split_with_sizes", {1, 1, Size}},
        {"aten::full", {0, 0, Fill}},           {"aten::clamp", {1, 2, Operand}},
        {"aten::masked_fill", {2, 2, Operand}}, {"aten::rand", {0, 0, Size}},
        {"aten::randn", {0, 0, Size}},
    };
    for (auto* arithmetic : {"aten::add", "aten::sub", "aten::rsub", "aten::mul", "aten::add_", "aten::sub_",
                             "aten::mul_", "aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge"})
      t[arithmetic] = {1, 1, Operand};
    for (auto* division : {"aten::div", "aten::div_", "aten::floor_divide", "aten::remainder"})
      t[division] = {1, 1, Divisor};
    for (auto* creation : {"aten::zeros", "aten::ones", "aten::empty"}) t[creation] = {0, 0, Fill};
    for (auto* sized : {"aten::new_zeros", "aten::new_ones", "aten::new_full", "aten::expand", "aten::repeat"})
      t[sized] = {1, 1, Fill};
    return t;
  }();
  return table;
}

// Whether elements that are all the same differ after an operator, by where they are.
bool makes_vary(std::string_view name) {
  return name == "aten::tril" || name == "aten::triu" || name == "aten::cumsum";
}

}  // namespace

sym::Expr Evaluator::indexed_size(const std::vector<Value>& positional) {
  if (positional.size() < 2 || !positional[0].is_tensor() || !positional[1].is_int()) return {};
  const onnx::Shape& shape = positional[0].tensor()->read(builder_)->shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = positional[1].integer().constant().value_or(rank);
  return axis < -rank || axis >= rank ? sym::Expr() : shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
}

void Evaluator::note_uses(const Expr& call, const std::vector<Value>& positional) {
  if (makes_vary(call.name) && !positional.empty())
    for (const Origins::Found& f : origins.numbers(origins.join({positional[0].origin}, call.pos), max_listed))
      if (std::ranges::any_of(uses, [&](const NumberUse& use) { return use.literal == f.literal && use.number == 1; }))
        varied_.insert(f.literal);
  auto found = free_arguments().find(call.name);
  if (found == free_arguments().end() || positional.empty()) return;
  // Arithmetic on sizes shows in the sizes.
  if (positional[0].is_tensor() && positional[0].tensor()->read(builder_)->contents) return;
  // Lengths that add up to a number are no sizes of the sample.
  if (call.name.starts_with("aten::split")) {
    const Value axis = positional.size() > 2 ? positional[2] : Value(builder_.dim(0));
    if (indexed_size({positional[0], axis}).is_constant()) return;
  }
  const FreeArguments& which = found->second;
  const sym::Expr size = which.as == NumberUse::As::Position ? indexed_size(positional) : sym::Expr();
  auto note = [&](const Value& v, int64_t least) {
    const Literal* literal = v.origin ? origins.as_literal(v.origin) : nullptr;
    if (!literal || origins.value(v.origin) < least) return;
    uses.push_back({*literal, origins.value(v.origin), which.as, size, call.pos});
    if (origins.value(v.origin) == 1 && (which.as == NumberUse::As::Position || which.as == NumberUse::As::Size))
      varied_.insert(*literal);
  };
  for (size_t i = which.first; i <= which.last && i < positional.size(); ++i) {
    const bool start = call.name == "aten::slice" && i == 2;  // 0 in most slices
    note(positional[i], start ? 1 : 0);
    for (const Value& item : elements_of(positional[i])) note(item, 1);
  }
}

void Evaluator::note_stretched(const std::vector<Value>& operands, const Value& result) {
  // What is expanded by itself, and not by another tensor, is meant to be.
  if (!result.is_tensor() || std::ranges::count_if(operands, &Value::is_tensor) < 2) return;
  const onnx::Shape& to = result.tensor()->read(builder_)->shape;
  for (const Value& v : operands) {
    if (!v.is_tensor() || !v.origin) continue;
    const onnx::Value* t = v.tensor()->read(builder_);
    for (size_t axis = to.size() - std::min(t->rank(), to.size()); axis < to.size(); ++axis)
      if (t->shape[axis + t->rank() - to.size()].is(1) && std::ranges::count(builder_.sym.stretched, to[axis]) > 0)
        note_stretched(v.origin, t->constant != nullptr, to[axis], axis);
  }
}

void Evaluator::note_stretched(Origin operand, bool constant, sym::Expr size, size_t axis) {
  std::vector<Origin> doubted;
  for (const Origins::Found& f : origins.numbers(origins.join({operand}, pos_), max_listed)) {
    if (f.value == 1 && (f.literal.element == Literal::length || varied_.contains(f.literal)))
      doubted.push_back(origins.literal(f.literal, 1));
    else if (constant && has_size_of_one(f.literal))
      uses.push_back({f.literal, 1, NumberUse::As::Size, size, pos_});
  }
  if (!doubted.empty())
    issues.push_back({SizeIssue::Kind::Broadcast, size, builder_.dim(1),
                      fmt::format("1 is broadcast to {} along {} at {}", size.str(), axis, applied_),
                      origins.join(std::move(doubted), pos_), applied_, axis, pos_});
}

bool Evaluator::has_size_of_one(const Literal& literal) const {
  if (literal.expr->kind != Expr::Kind::Constant) return false;
  const program::Data& data = program_.constants[static_cast<size_t>(literal.expr->integer)];
  return data.tensor && std::ranges::count(data.tensor->sizes, 1) > 0;
}

void Evaluator::note_doubts(size_t from, Origin sizes) {
  if (!sizes) return;
  for (; from < builder_.moved_boundaries.size(); ++from) {
    const auto [before, after] = builder_.moved_boundaries[from];
    issues.push_back({SizeIssue::Kind::Doubt, before, after,
                      fmt::format("{} becomes {} at {}", before.str(), after.str(), applied_), sizes, applied_, 0,
                      pos_});
  }
}

// ---- calls --------------------------------------------------------------------------------------------------------

Value Evaluator::run(std::vector<Value> inputs) {
  size_one_ = std::ranges::any_of(builder_.graph().inputs, [&](const onnx::Value* in) {
    return std::ranges::any_of(in->shape, [&](onnx::Dim d) { return !d.is_constant() && builder_.sym.sample(d) == 1; });
  });
  try {
    root_ = from_object(program_.root);
    if (!root_->type) throw Error(Code::BadProgram, fmt::format("the class {} is not in the file", root_->class_name));
    for (const std::string& hook : root_->type->forward_pre_hooks)
      if (const program::Function* f = root_->type->method(hook)) {
        Value replaced = call_function(*f, {root_, Value::tuple(inputs)});
        if (replaced.is<Tuple>())
          inputs = replaced.items();
        else if (!replaced.is_none())
          inputs = {replaced};
      }
    std::vector<Value> all{root_};
    all.insert(all.end(), inputs.begin(), inputs.end());
    Value result = call_function(program_.forward(), std::move(all));
    for (const std::string& hook : root_->type->forward_hooks)
      if (const program::Function* f = root_->type->method(hook)) {
        Value replaced = call_function(*f, {root_, Value::tuple(inputs), result});
        if (!replaced.is_none()) result = replaced;
      }
    return result;
  } catch (const Stop&) {
    return Poison{};
  } catch (const Error& e) {
    Diagnostic d = e.first();
    if (!d.place.known()) d.place = program_.locate(pos_);
    report(d);
    return Poison{};
  }
}

void Evaluator::report(Diagnostic d) {
  bool known = std::any_of(diagnostics.begin(), diagnostics.end(), [&](const Diagnostic& o) {
    return o.code == d.code && o.message == d.message && o.place == d.place;
  });
  if (!known) diagnostics.push_back(std::move(d));
}

void Evaluator::step() {
  if (++steps_ > max_steps) throw Error(Code::LimitExceeded, "the program runs too many statements at export");
}

namespace {

bool is_complex_number(const Value& v) {
  return v.is<std::complex<double>>() || (v.is_tensor() && is_complex(v.tensor()->dtype()));
}

bool is_quantized(const Value& v) { return v.is_quantized(); }

// Whether one of the tensors and numbers that an operator computes with is of a kind.
bool has_operand(const Schema& schema, const std::vector<Value>& arguments, bool (*is_such)(const Value&)) {
  using K = SchemaArgument::Kind;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Value& v = arguments[i];
    if (schema.arguments[i].kind != K::Tensor && schema.arguments[i].kind != K::Scalar) continue;
    if (is_such(v)) return true;
    if (!v.is_list() && !v.is<Tuple>()) continue;
    if (std::any_of(v.items().begin(), v.items().end(), is_such)) return true;
  }
  return false;
}

// Whether an operator, one that has a form for numbers, is applied to numbers alone: the result is one too.
bool on_numbers(const std::vector<Rule>& rules, const std::vector<Value>& operands) {
  return std::all_of(operands.begin(), operands.end(), [](const Value& v) { return v.is_number(); }) &&
         std::any_of(rules.begin(), rules.end(), [](const Rule& r) { return r.schema.overload == "number"; });
}

const Maybe* optional_among(const std::vector<Value>& positional,
                            const std::vector<std::pair<std::string, Value>>& keywords) {
  for (const Value& v : positional)
    if (auto* m = v.get_if<Maybe>()) return m;
  for (auto& [name, v] : keywords)
    if (auto* m = v.get_if<Maybe>()) return m;
  return nullptr;
}

/// What can be done with a value that may be None: ask whether it is, and take it not to be.
Value apply_to_optional(onnx::Builder& b, std::string_view name, const Maybe& maybe,
                        const std::vector<Value>& positional) {
  if (name == "aten::_unwrap_optional" || name == "prim::unchecked_unwrap_optional") return *maybe.value;
  const bool compares = name == "aten::__is__" || name == "aten::__isnot__";
  if (compares && positional.size() == 2 && positional[1].is_none()) {
    onnx::Value* there = as_condition(b, *maybe.present);
    Value answer = name == "aten::__isnot__" ? there : b.op("Not", {there});
    answer.tensor()->is_number = true;
    return answer;
  }
  throw Error(Code::UnsupportedControlFlow,
              fmt::format("{} is given a {} that is None on another path, and which one is known only at run time",
                          name, maybe.value->kind_name()),
              "compare the argument with None first, and call it in a branch");
}

/// Whether an element of a list is changed, and the run decides which one.
bool changes_element_at_run_time(std::string_view name, const std::vector<Value>& positional) {
  return (name == "aten::_set_item" || name == "aten::pop" || name == "aten::insert" || name == "aten::Delete") &&
         positional.size() > 1 && positional[0].is_list() && positional[1].is_int() &&
         !positional[1].integer().is_constant();
}

}  // namespace

Value Evaluator::apply(std::string_view name, std::vector<Value> positional,
                       std::vector<std::pair<std::string, Value>> keywords) {
  size_t dot = name.find('.', name.find("::"));
  std::string_view base = name.substr(0, dot);
  std::string_view overload = dot == std::string_view::npos ? "" : name.substr(dot + 1);
  if (overload == "default") overload = "";
  const std::vector<Rule>& rules = rules_.overloads(base);
  if (rules.empty())
    throw Error({Code::UnsupportedOperator,
                 Severity::Error,
                 fmt::format("there is no rule for the operator {}", base),
                 {},
                 base.starts_with("python::")
                     ? "save the program after run_decompositions(), which leaves operators alone"
                     : fmt::format("{} lists what is supported; {} declares other operators", term("operators"),
                                   option("custom_ops")),
                 std::string(base)});
  if (const Maybe* maybe = optional_among(positional, keywords))
    return apply_to_optional(builder_, base, *maybe, positional);
  if (std::any_of(positional.begin(), positional.end(), [](const Value& v) { return v.is_open_list(); }) ||
      changes_element_at_run_time(base, positional))
    return apply_to_open(base, positional, keywords);
  bool poisoned = std::any_of(positional.begin(), positional.end(), [](const Value& v) { return has_poison(v); }) ||
                  std::any_of(keywords.begin(), keywords.end(), [](auto& k) { return has_poison(k.second); });
  if (poisoned) return Poison{};
  int needed = 0;
  bool refused_complex = false, refused_quantized = false;
  for (bool convert : {false, true}) {
    for (const Rule& rule : rules) {
      if (dot != std::string_view::npos && rule.schema.overload != overload) continue;
      std::optional<std::vector<Value>> bound =
          bind_arguments(builder_.sym, rule.schema, positional, keywords, convert);
      if (!bound) continue;
      if (has_operand(rule.schema, *bound, is_complex_number) ? rule.complex == Rule::Complex::No
                                                              : rule.complex == Rule::Complex::Only) {
        refused_complex = refused_complex || rule.complex == Rule::Complex::No;
        continue;
      }
      const bool quantized = has_operand(rule.schema, *bound, is_quantized);
      if (quantized ? rule.quantized == Rule::Quantized::No : rule.quantized == Rule::Quantized::Only) {
        refused_quantized = refused_quantized || quantized;
        continue;
      }
      if (rule.since > builder_.opset()) {
        needed = needed ? std::min(needed, rule.since) : rule.since;
        continue;
      }
      Value result;
      if (quantized && rule.quantized != Rule::Quantized::Only) {
        result = run_on_quantized(rule, std::move(*bound));
      } else {
        Call call(*this, builder_, rule.schema, std::move(*bound));
        result = rule.run(call);
      }
      check_length(result);
      if (!positional.empty()) check_length(positional[0]);
      if (result.is_tensor() && keywords.empty() && on_numbers(rules, positional)) result.tensor()->is_number = true;
      return result;
    }
  }
  if (needed)
    throw Error({Code::NeedsOpset,
                 Severity::Error,
                 fmt::format("{} needs opset {}", base, needed),
                 {},
                 fmt::format("export with {} or higher", option("opset", needed)),
                 std::string(base)});
  if (refused_complex)
    throw Error({Code::UnsupportedArgument,
                 Severity::Error,
                 fmt::format("{} of complex numbers is not supported", base),
                 {},
                 "compute with the real and imaginary parts (torch.view_as_real)",
                 std::string(base)});
  if (refused_quantized)
    throw Error({Code::UnsupportedArgument,
                 Severity::Error,
                 fmt::format("{} of quantized tensors is not supported", base),
                 {},
                 "call dequantize() on them before",
                 std::string(base)});
  if (dot != std::string_view::npos && !rules.empty()) return apply(base, std::move(positional), std::move(keywords));
  std::string given;
  for (const Value& v : positional) given += (given.empty() ? "" : ", ") + describe(v);
  for (auto& [k, v] : keywords) given += fmt::format("{}{}={}", given.empty() ? "" : ", ", k, describe(v));
  throw Error({Code::UnsupportedOverload,
               Severity::Error,
               fmt::format("no rule for {} takes ({})", base, given),
               {},
               "",
               std::string(base)});
}

namespace {

bool is_in_place(std::string_view name) {
  const std::string_view base = name.substr(0, name.find('.'));
  return base.ends_with('_') && !base.ends_with("__");
}

}  // namespace

Value Evaluator::call_operator(const Expr& e, Frame& frame) {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
  arguments(e, 0, frame, positional, keywords);
  if (autocast_) cast_operands(e, positional, keywords);
  if (e.name == "prim::fork" || e.name == "prim::awaitable") {
    if (auto* f = positional.empty() ? nullptr : positional[0].get_if<Function>(); f && f->closure)
      return call_closure(*f);
  }
  unpacked = unpacked_value_ == &e ? unpacked_names_ : 0;
  pos_ = e.pos;
  builder_.origin = as_node_origin(e.pos);
  OperatorUse& use = operators[e.name];
  ++use.count;
  ++applied_;
  const Origin origin = origin_of(positional, keywords);
  const Origin sizes = listed_numbers(origins, positional, e.pos);
  const size_t moved = builder_.moved_boundaries.size();
  note_uses(e, positional);
  const std::vector<Value> given = size_one_ ? positional : std::vector<Value>();
  builder_.sym.conflict.reset();
  builder_.sym.stretched.clear();
  if (is_in_place(e.name) && !positional.empty() && positional[0].is_tensor())
    written_at_.emplace_back(positional[0].tensor(), e.pos);
  try {
    Value result = apply(e.name, std::move(positional), std::move(keywords));
    result.origin = origin;
    if (!elements_of(result).empty() && result.is_list() && result.list_items().size() <= max_listed)
      for (Value& item : result.list_items())
        if (!item.origin) item.origin = origin;
    note_doubts(moved, sizes);
    if (size_one_ && !builder_.sym.stretched.empty()) note_stretched(given, result);
    return result;
  } catch (const Error& error) {
    Diagnostic d = error.first();
    if (!is_local(d.code)) throw;
    use.supported = false;
    if (d.subject.empty()) d.subject = e.name;
    if (!d.place.known()) d.place = program_.locate(e.pos);
    if (d.code == Code::HardCodedSize && builder_.sym.conflict) {
      const auto [a, b, at] = *builder_.sym.conflict;
      issues.push_back({SizeIssue::Kind::Contradiction, a, b, d.message, origin, applied_, at, e.pos});
    }
    report(std::move(d));
    if (stop_early) throw Stop{};
    return Poison{};
  }
}

void Evaluator::arguments(const Expr& call, size_t from, Frame& frame, std::vector<Value>& positional,
                          std::vector<std::pair<std::string, Value>>& keywords) {
  size_t first_keyword = call.items.size() - call.keywords.size();
  positional.reserve(first_keyword - from);
  for (size_t i = from; i < call.items.size(); ++i) {
    Value v = evaluate(call.items[i], frame);
    if (i < first_keyword) {
      positional.push_back(std::move(v));
    } else {
      keywords.emplace_back(call.keywords[i - first_keyword], std::move(v));
    }
  }
}

Value Evaluator::call_function(const program::Function& f, std::vector<Value> positional,
                               std::vector<std::pair<std::string, Value>> keywords) {
  if (depth_ >= max_depth) throw Error(Code::LimitExceeded, fmt::format("calls nest too deep in {}", f.qualified_name));
  if (positional.size() > f.parameters.size())
    throw Error(Code::BadProgram, fmt::format("{} takes {} arguments, and {} are given", f.qualified_name,
                                              f.parameters.size(), positional.size()));
  Frame frame;
  frame.function = &f;
  for (size_t i = 0; i < f.parameters.size(); ++i) {
    const program::Parameter& p = f.parameters[i];
    auto keyword = std::find_if(keywords.begin(), keywords.end(), [&](auto& k) { return k.first == p.name; });
    if (i < positional.size()) {
      frame.locals[p.name] = std::move(positional[i]);
    } else if (keyword != keywords.end()) {
      frame.locals[p.name] = keyword->second;
    } else if (p.default_value) {
      frame.locals[p.name] = evaluate(*p.default_value, frame);
    } else {
      throw Error(Code::BadProgram, fmt::format("{} is called without its argument {}", f.qualified_name, p.name));
    }
  }
  // Nodes made by a module's method belong to that module.
  std::string scope = builder_.scope;
  if (auto* self =
          f.parameters.empty() ? nullptr : frame.locals[f.parameters[0].name].get_if<std::shared_ptr<Object>>();
      self && (*self)->type && (*self)->type->kind == program::Class::Kind::Module)
    builder_.scope = (*self)->path;
  ++depth_;
  execute(f.body, frame);
  --depth_;
  builder_.scope = std::move(scope);
  return frame.returned ? *frame.returned : Value(None{});
}

Value Evaluator::call_closure(const Function& f) {
  Frame& frame = *static_cast<Frame*>(f.closure->frame);
  std::optional<Value> outer = std::move(frame.returned);
  frame.returned.reset();
  execute(*f.closure->body, frame);
  Value result = frame.returned ? *frame.returned : Value(None{});
  frame.returned = std::move(outer);
  return result;
}

Value Evaluator::call_named(const Expr& e, Frame& frame) {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
  arguments(e, 0, frame, positional, keywords);
  if (auto local = frame.locals.find(e.name); local != frame.locals.end()) {
    auto* f = local->second.get_if<Function>();
    if (!f) throw Error(Code::BadProgram, fmt::format("{} is called, and is a {}", e.name, local->second.kind_name()));
    return f->closure ? call_closure(*f) : call_function(*f->function, std::move(positional), std::move(keywords));
  }
  if (const program::Class* c = program_.find_class(e.name)) {
    if (c->kind == program::Class::Kind::NamedTuple) {
      for (auto& [name, value] : keywords) positional.push_back(value);
      return Value::tuple(std::move(positional), c);
    }
    if (c->kind == program::Class::Kind::Enum) {
      for (auto& [name, value] : c->constants) {
        Value v = evaluate(value, frame);
        if (positional.size() == 1 && equal(builder_.sym, v, positional[0]) == true)
          return Enum{c, name, std::make_shared<Value>(v)};
      }
    }
  }
  if (const program::Function* f = program_.find_function(e.name))
    return call_function(*f, std::move(positional), std::move(keywords));
  throw Error(Code::BadProgram, fmt::format("{} is called, and is not in the file", e.name));
}

Value Evaluator::call_method(const Value& self, const Expr& e, Frame& frame) {
  std::vector<Value> positional{self};
  std::vector<std::pair<std::string, Value>> keywords;
  arguments(e, 1, frame, positional, keywords);
  if (self.is_poison()) return Poison{};
  auto* object = self.get_if<std::shared_ptr<Object>>();
  if (!object) throw Error(Code::BadProgram, fmt::format("method {} of a {}", e.name, self.kind_name()));
  const program::Class* type = (*object)->type;
  const program::Function* f = type ? type->method(e.name) : nullptr;
  if (!f) throw Error(Code::BadProgram, fmt::format("{} has no method {}", (*object)->class_name, e.name));
  return call_function(*f, std::move(positional), std::move(keywords));
}

// ---- statements ---------------------------------------------------------------------------------------------------

namespace {

// Whether a block always ends in an exception.
bool raises(const std::vector<Stmt>& body) {
  return std::any_of(body.begin(), body.end(), [](const Stmt& s) {
    if (s.kind == Stmt::Kind::If) return raises(s.body) && raises(s.orelse);
    return s.kind == Stmt::Kind::Evaluate && s.values[0].kind == Expr::Kind::Operator &&
           s.values[0].name == "prim::RaiseException";
  });
}

}  // namespace

void Evaluator::execute(const std::vector<Stmt>& body, Frame& frame) {
  for (const Stmt& s : body) {
    if (frame.returned) return;
    execute(s, frame);
  }
}

void Evaluator::execute(const Stmt& s, Frame& frame) {
  step();
  if (s.scope) builder_.scope = *s.scope;
  switch (s.kind) {
    case Stmt::Kind::Assign:
      return assign(s, frame);
    case Stmt::Kind::SetAttribute: {
      Value object = evaluate(s.values[0], frame), value = evaluate(s.values[1], frame);
      if (auto* o = object.get_if<std::shared_ptr<Object>>()) {
        set_at_.try_emplace({o->get(), s.name}, pos_);
        (*o)->set(s.name, std::move(value));
      }
      return;
    }
    case Stmt::Kind::Evaluate:
      evaluate(s.values[0], frame);
      return;
    case Stmt::Kind::If: {
      Value choice = evaluate(s.values[0], frame);
      // A branch that only raises is a check; one that is decided at run time is taken to hold.
      if (decided_at_run_time(builder_, choice)) {
        if (raises(s.body) != raises(s.orelse)) return execute(raises(s.body) ? s.orelse : s.body, frame);
        return branch(s, choice, frame);
      }
      return execute(condition(choice) ? s.body : s.orelse, frame);
    }
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
      f.closure = std::make_shared<Closure>(Closure{&s.body, &frame});
      frame.locals[s.targets[0]] = f;
      return;
    }
    case Stmt::Kind::Return:
      frame.returned = s.values.empty() ? Value(None{}) : evaluate(s.values[0], frame);
      return;
    case Stmt::Kind::Pass:
      return;
  }
}

void Evaluator::assign(const Stmt& s, Frame& frame) {
  std::vector<Value> values;
  if (s.unpack) {
    auto outer = std::pair{unpacked_value_, unpacked_names_};
    unpacked_value_ = &s.values[0];
    unpacked_names_ = s.targets.size();
    Value all = evaluate(s.values[0], frame);
    std::tie(unpacked_value_, unpacked_names_) = outer;
    if (all.is_poison()) {
      values.assign(s.targets.size(), Poison{});
    } else if (all.is_tensor() || all.is_quantized()) {
      unpacked = s.targets.size();
      values = apply("aten::unbind", {all}).items();
    } else {
      values = all.items();
    }
    for (Value& v : values)
      if (!v.origin) v.origin = all.origin;
    if (values.size() != s.targets.size())
      throw Error(Code::BadProgram,
                  fmt::format("{} values are unpacked into {} names", values.size(), s.targets.size()));
  } else {
    for (const Expr& e : s.values) values.push_back(evaluate(e, frame));
  }
  for (size_t i = 0; i < s.targets.size(); ++i) frame.locals[s.targets[i]] = std::move(values[i]);
  if (self_check || autocast_) compare_with_records(s, frame);
}

// A difference is a fault here; within autocast it is an operator that casts in a way that is not known here.
void Evaluator::compare_with_records(const Stmt& s, const Frame& frame) {
  if (!frame.function) return;
  for (const std::string& target : s.targets) {
    const auto fact = frame.function->facts.find(target);
    if (fact == frame.function->facts.end()) continue;
    const std::optional<std::string> wrong =
        contradiction(builder_.sym, fact->second, frame.locals.at(target), symbols);
    if (!wrong) continue;
    const bool cast = autocast_ && !self_check;
    const std::string& subject = s.values[0].name;
    report({cast ? Code::UnsupportedArgument : Code::Internal, Severity::Error,
            fmt::format("{}: the value {} of {}{}", subject, *wrong, target, cast ? ", under autocast" : ""),
            program_.locate(s.pos), cast ? "export the model without autocast" : "", subject});
  }
}

// ---- autocast -----------------------------------------------------------------------------------------------------

void Evaluator::with_autocast(const Stmt& s, Frame& frame) {
  const std::vector<Expr>& settings = s.values[0].items;
  const bool enabled = settings.size() == 3 && settings[2].integer != 0;
  const std::optional<DType> outer =
      std::exchange(autocast_, enabled ? dtype_of_torch(settings[1].integer) : std::nullopt);
  execute(s.body, frame);
  autocast_ = outer;
}

// Products of matrices and convolutions take their operands in the type of autocast. Whatever else an operator does
// under autocast shows in the types that the file records.
void Evaluator::cast_operands(const Expr& call, std::vector<Value>& positional,
                              std::vector<std::pair<std::string, Value>>& keywords) {
  static const std::set<std::string_view> cast = {"addbmm",
                                                  "addmm",
                                                  "baddbmm",
                                                  "bmm",
                                                  "conv1d",
                                                  "conv2d",
                                                  "conv3d",
                                                  "conv_tbc",
                                                  "conv_transpose1d",
                                                  "conv_transpose2d",
                                                  "conv_transpose3d",
                                                  "einsum",
                                                  "linear",
                                                  "matmul",
                                                  "mm",
                                                  "prelu",
                                                  "scaled_dot_product_attention"};
  std::string_view name = call.name;
  if (!name.starts_with("aten::")) return;
  name = name.substr(6, name.find('.', 6) - 6);
  if (!cast.contains(name)) return;
  const std::function<void(Value&)> convert = [&](Value& v) {
    if (v.is_list()) {
      std::vector<Value> items = v.items();
      for (Value& item : items) convert(item);
      v = Value::list(std::move(items));
    } else if (v.is_tensor() && is_float(v.tensor()->dtype()) && v.tensor()->dtype() != DType::Double) {
      v = Value(builder_.cast(v.tensor()->read(builder_), *autocast_));
    }
  };
  for (Value& v : positional) convert(v);
  for (auto& [key, v] : keywords) convert(v);
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

// ---- expressions --------------------------------------------------------------------------------------------------

Value Evaluator::evaluate(const Expr& e, Frame& frame) {
  using K = Expr::Kind;
  switch (e.kind) {
    case K::Name: {
      auto found = frame.locals.find(e.name);
      if (found == frame.locals.end())
        throw Error(Code::BadProgram, fmt::format("the name {} is read before it is assigned", e.name));
      return usable(found->second);
    }
    case K::Int:
      return number(e);
    case K::Float:
      return real_number(e);
    case K::Complex:
      return std::complex<double>(e.real, e.imag);
    case K::Bool:
      return e.integer != 0;
    case K::None:
      return None{};
    case K::String:
      return e.name;
    case K::Constant:
      return constant(e);
    case K::List:
    case K::Tuple: {
      std::vector<Value> items;
      items.reserve(e.items.size());
      for (const Expr& i : e.items) items.push_back(evaluate(i, frame));
      return e.kind == K::List ? Value::list(std::move(items)) : Value::tuple(std::move(items));
    }
    case K::Dict: {
      auto dict = std::make_shared<Dict>();
      for (size_t i = 0; i + 1 < e.items.size(); i += 2) {
        Value key = evaluate(e.items[i], frame);
        dict->set(std::move(key), evaluate(e.items[i + 1], frame));
      }
      return dict;
    }
    case K::Attribute:
      return attribute(evaluate(e.items[0], frame), e.name);
    case K::Subscript: {
      Value container = evaluate(e.items[0], frame);
      return subscript(container, evaluate(e.items[1], frame));
    }
    case K::Slice: {
      Value all = evaluate(e.items[0], frame);
      if (all.is_poison()) return all;
      const std::vector<Value>& items = all.items();
      int64_t n = static_cast<int64_t>(items.size());
      int64_t begin = std::clamp<int64_t>(e.integer < 0 ? e.integer + n : e.integer, 0, n);
      int64_t end = std::clamp<int64_t>(e.integer2 < 0 ? e.integer2 + n : e.integer2, begin, n);
      return Value::tuple({items.begin() + begin, items.begin() + end});
    }
    case K::Operator:
      return call_operator(e, frame);
    case K::Call:
      return call_named(e, frame);
    case K::Method:
      return call_method(evaluate(e.items[0], frame), e, frame);
    case K::Annotate:
      return evaluate_annotation(e.type, evaluate(e.items[0], frame));
    case K::UncheckedCast: {
      Value v = evaluate(e.items[0], frame);
      const Maybe* maybe = v.get_if<Maybe>();
      if (!maybe || e.type.name == "Optional") return v;
      return e.type.name == "NoneType" || e.type.name == "None" ? Value(None{}) : usable(*maybe->value);
    }
    case K::Uninitialized:
      return Uninitialized{};
    case K::IsInstance:
      return is_instance(evaluate(e.items[0], frame), e.type);
    case K::New: {
      auto object = std::make_shared<Object>();
      object->class_name = e.name;
      object->type = program_.find_class(e.name);
      if (!object->type) throw Error(Code::BadProgram, fmt::format("the class {} is not in the file", e.name));
      return object;
    }
    case K::Path: {
      if (const program::Function* f = program_.find_function(e.name)) return Function{f, nullptr};
      size_t dot = e.name.rfind('.');
      const program::Class* c = program_.find_class(e.name.substr(0, dot));
      for (size_t i = 0; c && i < c->constants.size(); ++i)
        if (c->constants[i].first == e.name.substr(dot + 1))
          return Enum{c, c->constants[i].first, std::make_shared<Value>(evaluate(c->constants[i].second, frame))};
      throw Error(Code::BadProgram, fmt::format("{} is not in the file", e.name));
    }
  }
  return None{};
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
        if (std::pair key(o->get(), name); !set_at_.contains(key)) read_first_.insert(std::move(key));
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
  if (auto* d = container.get_if<std::shared_ptr<Dict>>()) {
    if (const Value* v = (*d)->find(index)) return usable(*v);
    throw Error(Code::ProgramRaises, "the program reads a key that its dict does not have");
  }
  if (container.is_list() || container.is<Tuple>()) {
    if (!index.is_int()) throw Error(Code::BadProgram, fmt::format("a list is indexed by a {}", index.kind_name()));
    if (container.is_open_list()) return apply("aten::__getitem__", {container, index});
    std::optional<int64_t> i = index.integer().constant();
    if (!i && container.is_list()) return apply_to_open("aten::__getitem__", {container, index}, {});
    if (!i) throw Error(Code::UnsupportedControlFlow, "a list is indexed by a number known only at run time");
    const std::vector<Value>& items = container.items();
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
