// Operators: which rule applies to the arguments of a call, and what is reported when none does.
#include <fmt/format.h>

#include <algorithm>

#include "base/options.hpp"
#include "base/restored.hpp"
#include "base/stack.hpp"
#include "eval/carry.hpp"
#include "eval/evaluator.hpp"

namespace lithify::eval {

/// "aten::add.Tensor" is the base "aten::add" with the overload "Tensor".
struct Evaluator::OperatorName {
  std::string_view base, overload;
  bool has_overload = false;

  explicit OperatorName(std::string_view name) {
    const size_t dot = name.find('.', name.find("::"));
    base = name.substr(0, dot);
    has_overload = dot != std::string_view::npos;
    if (has_overload) overload = name.substr(dot + 1);
    if (overload == "default") overload = "";
  }
  OperatorName(std::string_view base, std::string_view overload) : base(base), overload(overload), has_overload(true) {}
};

/// A rule, and the arguments of a call in the order of its schema.
struct Evaluator::Match {
  const Rule* rule = nullptr;
  Vector<Value> arguments;
  bool quantized = false;  ///< an operand is
};

namespace {

// Among so many values; what is not found is an error of the rule that is given it.
bool has_poison(const Value& v, int& visits, int depth = 0) {
  constexpr int most_visits = 4096, deepest = 4;
  if (v.is_poison()) return true;
  if (depth > deepest || ++visits > most_visits) return false;
  if ((!v.is_list() && !v.is<Tuple>()) || v.is_open_list()) return false;
  for (const Value& item : v.items()) {
    if (has_poison(item, visits, depth + 1)) return true;
    if (visits > most_visits) return false;
  }
  return false;
}
bool has_poison(const Value& v) {
  int visits = 0;
  return has_poison(v, visits);
}

/// Counts what it takes to look at the elements of a long list, beside the statement that does so.
void count_operands(Budget& budget, const Vector<Value>& operands) {
  constexpr size_t cheap = 4096;
  for (const Value& v : operands)
    if (auto* list = v.get_if<std::shared_ptr<List>>()) budget.spend(Limit::Statements, (*list)->items.size() / cheap);
}

bool any_argument(const Arguments& arguments, const auto& is_such) {
  return std::ranges::any_of(arguments.positional, is_such) ||
         std::ranges::any_of(arguments.keywords, [&](auto& keyword) { return is_such(keyword.second); });
}

// A program that doubles a string or list in a loop must not use up the memory. What others refer to was counted when
// it was made.
void count_elements(Budget& budget, const Value& result) {
  constexpr size_t list_itself = 2;  // takes as much memory as this many elements
  auto* list = result.get_if<std::shared_ptr<List>>();
  auto* tuple = result.get_if<Tuple>();
  if (auto* text = result.get_if<std::string>()) budget.spend(Limit::Text, text->size());
  if (list && list->use_count() == 1) budget.spend(Limit::Elements, (*list)->items.size() + list_itself);
  if (tuple && tuple->items.use_count() == 1) budget.spend(Limit::Elements, tuple->items->size() + list_itself);
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

std::string describe(const Value& v) {
  if (v.is_tensor()) return fmt::format("{}{}", name_of(v.tensor()->dtype()), onnx::print_shape(v.tensor()->shape()));
  if (auto* q = v.get_if<Quantized>())
    return fmt::format("{}{}", name_of(q->dtype()), onnx::print_shape(q->integers->shape()));
  return v.kind_name();
}

bool is_complex_number(const Value& v) {
  return v.is<std::complex<double>>() || (v.is_tensor() && is_complex(v.tensor()->dtype()));
}

bool is_quantized(const Value& v) { return v.is_quantized(); }

// Whether one of the tensors and numbers that an operator computes with is of a kind.
bool has_operand(const Schema& schema, const Vector<Value>& arguments, bool (*is_such)(const Value&)) {
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

constexpr std::string_view for_numbers = "number";  // the overload

// Whether an operator, one that has a form for numbers, is applied to numbers alone: the result is one too.
bool on_numbers(const Vector<Rule>& rules, const Vector<Value>& operands) {
  return std::all_of(operands.begin(), operands.end(), [](const Value& v) { return v.is_number(); }) &&
         std::any_of(rules.begin(), rules.end(), [](const Rule& r) { return r.schema.overload == for_numbers; });
}

// Whether a value is a constant tensor of 0 dimensions, which counts as a number: a trace stores numbers and tensors
// so.
bool may_be_tensor(onnx::Builder& b, const Value& v) { return v.is_tensor() && v.tensor()->read(b)->is_constant(); }

const Maybe* optional_among(const Arguments& arguments) {
  for (const Value& v : arguments.positional)
    if (auto* m = v.get_if<Maybe>()) return m;
  for (auto& [name, v] : arguments.keywords)
    if (auto* m = v.get_if<Maybe>()) return m;
  return nullptr;
}

/// What can be done with a value that may be None: ask whether it is, and take it not to be.
Value apply_to_optional(onnx::Builder& b, std::string_view name, const Maybe& maybe, const Vector<Value>& positional) {
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

/// Whether an element of a list is read or changed, and the run decides which one.
bool chooses_element_at_run_time(std::string_view name, const Vector<Value>& positional) {
  return (name == "aten::__getitem__" || name == "aten::_set_item" || name == "aten::pop" || name == "aten::insert" ||
          name == "aten::Delete") &&
         positional.size() > 1 && positional[0].is_list() && positional[1].is_int() &&
         !positional[1].integer().is_constant();
}

/// Whether an operator only shows what it is given, such as a text with a number of the run.
bool only_shows(std::string_view name) {
  return name == "prim::Print" || name == "aten::warn" || name == "prim::RaiseException";
}

bool is_in_place(std::string_view name) {
  const std::string_view base = name.substr(0, name.find('.'));
  return base.ends_with('_') && !base.ends_with("__");
}

/// Why rules whose schemas take the arguments do not apply.
struct Refusals {
  int needed_opset = 0;
  bool complex = false, quantized = false;
};

/// Whether a rule takes operands of these kinds, in this opset; else the reason is in `refusals`.
bool takes(const Rule& rule, const Vector<Value>& arguments, bool quantized, int opset, Refusals& refusals) {
  if (has_operand(rule.schema, arguments, is_complex_number) ? rule.complex == Rule::Complex::No
                                                             : rule.complex == Rule::Complex::Only) {
    refusals.complex = refusals.complex || rule.complex == Rule::Complex::No;
    return false;
  }
  if (quantized ? rule.quantized == Rule::Quantized::No : rule.quantized == Rule::Quantized::Only) {
    refusals.quantized = refusals.quantized || quantized;
    return false;
  }
  if (rule.since > opset) {
    refusals.needed_opset = refusals.needed_opset ? std::min(refusals.needed_opset, rule.since) : rule.since;
    return false;
  }
  return true;
}

Error about(std::string_view base, Code code, std::string message, std::string hint) {
  return Error({code, Severity::Error, std::move(message), {}, std::move(hint), std::string(base)});
}

Error no_rule(std::string_view base) {
  return about(base, Code::UnsupportedOperator, fmt::format("the operator {} is not supported", base),
               base.starts_with("python::")
                   ? "save the program after run_decompositions(), which leaves only operators"
                   : fmt::format("{} lists the supported operators; {} declares custom operators", term("operators"),
                                 option("custom_ops")));
}

Error no_match(std::string_view base, const Refusals& refusals, const Arguments& arguments) {
  if (refusals.needed_opset)
    return about(base, Code::NeedsOpset, fmt::format("{} needs opset {}", base, refusals.needed_opset),
                 fmt::format("export with {} or higher", option("opset", refusals.needed_opset)));
  if (refusals.complex)
    return about(base, Code::UnsupportedArgument, fmt::format("{} of complex numbers is not supported", base),
                 "compute with the real and imaginary parts (torch.view_as_real)");
  if (refusals.quantized)
    return about(base, Code::UnsupportedArgument, fmt::format("{} of quantized tensors is not supported", base),
                 "call dequantize() on them before");
  std::string given;
  for (const Value& v : arguments.positional) given += (given.empty() ? "" : ", ") + describe(v);
  for (auto& [name, v] : arguments.keywords)
    given += fmt::format("{}{}={}", given.empty() ? "" : ", ", name, describe(v));
  return about(base, Code::UnsupportedOverload, fmt::format("{} is not supported with the arguments ({})", base, given),
               "docs/operators.md lists the supported schemas");
}

}  // namespace

Value Evaluator::call_operator(const program::Expr& e, Frame& frame) {
  Arguments given = arguments(e, 0, frame);
  if (autocast_) cast_operands(e, given);
  if (e.name == "prim::fork" || e.name == "prim::awaitable")
    if (auto* f = given.positional.empty() ? nullptr : given.positional[0].get_if<Function>(); f && f->closure)
      return call_closure(*f);
  unpacked_ = unpacking_.value == &e ? unpacking_.names : 0;
  pos_ = e.pos;
  builder_.origin = as_node_origin(e.pos);
  operators_.edit(e.name, [](OperatorUse& use) { ++use.count; });
  if (is_in_place(e.name) && !given.positional.empty() && given.positional[0].is_tensor())
    written_at_.push_back({given.positional[0].tensor(), e.pos});
  reporter_.begin(e, given);
  try {
    Value result = apply(e.name, std::move(given), /*report=*/true);
    reporter_.end(result);
    return result;
  } catch (const sym::Contradiction& contradiction) {
    reporter_.fail(contradiction);
    return failed(e, contradiction);
  } catch (const Error& error) {
    return failed(e, error);
  }
}

/// Reports a problem with one operator, so that evaluation can go on.
Value Evaluator::failed(const program::Expr& e, const Error& error) {
  Diagnostic d = error.first();
  if (!is_local(d.code)) throw;
  operators_.edit(e.name, [](OperatorUse& use) { use.supported = false; });
  if (d.subject.empty()) d.subject = e.name;
  if (!d.place.known()) d.place = program_.locate(e.pos);
  report(std::move(d));
  if (options_.stop_early) throw Stop{};
  return Poison{};
}

Value Evaluator::apply(std::string_view name, Vector<Value> positional,
                       Vector<std::pair<std::string, Value>> keywords) {
  return apply(name, {std::move(positional), std::move(keywords)}, /*report=*/false);
}

/// An operator may put its other arguments into the first.
void Evaluator::watch_cycles(const Arguments& arguments) {
  if (arguments.positional.empty()) return;
  const Value& first = arguments.positional[0];
  for (size_t i = 1; i < arguments.positional.size(); ++i) cycles_.watch(first, arguments.positional[i]);
  for (const auto& [name, value] : arguments.keywords) cycles_.watch(first, value);
}

Value Evaluator::apply(std::string_view name, Arguments arguments, bool report) {
  // A rule may apply others, and they others again.
  constexpr int deepest = 100;
  if (applied_ >= deepest) throw Error(Code::LimitExceeded, fmt::format("operators nest too deep in {}", name));
  check_stack();
  const Restored applied(applied_, applied_ + 1);
  count_operands(builder_.sym.budget, arguments.positional);
  watch_cycles(arguments);
  const OperatorName op(name);
  const Vector<Rule>& rules = rules_.overloads(op.base);
  if (rules.empty()) throw no_rule(op.base);
  if (std::optional<Value> result = apply_without_rule(op, arguments)) return *std::move(result);
  const bool is_number = arguments.keywords.empty() && on_numbers(rules, arguments.positional);
  const bool are_numbers =
      is_number && !op.has_overload &&
      std::ranges::none_of(arguments.positional, [&](const Value& v) { return may_be_tensor(builder_, v); });
  Match found = match(are_numbers ? OperatorName(op.base, for_numbers) : op, rules, arguments);
  if (report) reporter_.uses(*found.rule, found.arguments);
  Value result = invoke(std::move(found));
  count_elements(builder_.sym.budget, result);
  if (result.is_tensor() && is_number) result.tensor()->is_number = true;
  return result;
}

/// How arguments are handled that no rule sees: values that may be None, lists of unknown length, and Poison.
std::optional<Value> Evaluator::apply_without_rule(const OperatorName& op, const Arguments& arguments) {
  if (const Maybe* maybe = optional_among(arguments))
    return apply_to_optional(builder_, op.base, *maybe, arguments.positional);
  if (std::ranges::any_of(arguments.positional, &Value::is_open_list) ||
      chooses_element_at_run_time(op.base, arguments.positional))
    return apply_to_open(op.base, arguments);
  if (any_argument(arguments, [](const Value& v) { return has_poison(v); })) return Poison{};
  if (!only_shows(op.base))
    any_argument(arguments, [](const Value& v) {
      if (auto* undecided = v.get_if<Undecided>()) throw Error(Code::UnsupportedControlFlow, undecided->why);
      return false;
    });
  return std::nullopt;
}

/// The first rule that takes the arguments, as they are or else converted; of another overload when the one that is
/// named takes none.
Evaluator::Match Evaluator::match(const OperatorName& op, const Vector<Rule>& rules, const Arguments& arguments) {
  Refusals refusals;
  for (bool convert : {false, true})
    for (const Rule& rule : rules) {
      if (op.has_overload && rule.schema.overload != op.overload) continue;
      std::optional<Vector<Value>> bound =
          bind_arguments(builder_.sym, rule.schema, arguments.positional, arguments.keywords, convert);
      if (!bound) continue;
      const bool quantized = has_operand(rule.schema, *bound, is_quantized);
      if (takes(rule, *bound, quantized, builder_.opset(), refusals)) return {&rule, std::move(*bound), quantized};
    }
  const bool refused = refusals.needed_opset || refusals.complex || refusals.quantized;
  if (op.has_overload && !refused) return match(OperatorName(op.base), rules, arguments);
  throw no_match(op.base, refusals, arguments);
}

Value Evaluator::invoke(Match match) {
  if (match.quantized && match.rule->quantized != Rule::Quantized::Only)
    return run_on_quantized(*match.rule, std::move(match.arguments));
  Call call(*this, builder_, match.rule->schema, std::move(match.arguments));
  return match.rule->run(call);
}

}  // namespace lithify::eval
