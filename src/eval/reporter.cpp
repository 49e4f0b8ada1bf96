#include "eval/reporter.hpp"

#include <algorithm>
#include <cmath>

namespace lithify::eval {
namespace {

using program::Expr;
using provenance::Literal;
using provenance::Origin;
using provenance::Progression;

// Of constants: those that are looked at, and those of which each element may be a size.
constexpr int64_t max_elements_read = 4096;
constexpr size_t max_elements_suspected = 16;

// Lists of sizes are short; of longer lists, the rest is not looked at.
constexpr size_t max_listed = 64;

/// The whole number that a float is.
std::optional<int64_t> whole(double x) {
  constexpr double most = 1e9;
  return x == std::floor(x) && std::abs(x) <= most ? std::optional(static_cast<int64_t>(x)) : std::nullopt;
}

/// Whether a number of few digits is written rather than computed.
bool has_few_digits(double x) { return whole(x * 1000).has_value(); }

/// The elements of a list or tuple where they are known.
std::span<const Value> elements_of(const Value& v) {
  if (!(v.is_list() && !v.is_open_list()) && !v.is<Tuple>()) return {};
  const Vector<Value>& items = v.items();
  return std::span(items).first(std::min(items.size(), max_listed));
}

void collect_origins(const Value& v, Vector<Origin>& out, int depth = 0) {
  if (v.origin) {
    out.push_back(v.origin);
  } else if (depth < 3) {
    for (const Value& item : elements_of(v)) collect_origins(item, out, depth + 1);
  }
}

/// The size of the dimension of a tensor that a number names; empty where there is none.
sym::Expr size_along(onnx::Builder& b, const Value& tensor, const Value& dim) {
  if (!tensor.is_tensor() || !dim.is_int()) return {};
  const onnx::Shape& shape = tensor.tensor()->read(b)->shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = dim.integer().constant().value_or(rank);
  return axis < -rank || axis >= rank ? sym::Expr() : shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
}

const Value* argument_named(const Schema& schema, std::span<const Value> arguments, std::string_view name) {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (schema.arguments[i].name == name) return &arguments[i];
  return nullptr;
}

}  // namespace

Reporter::Reporter(onnx::Builder& builder, provenance::Recorder* recorder) : builder_(builder), recorder_(recorder) {
  size_one_ = std::ranges::any_of(builder_.graph().inputs, [&](const onnx::Value* in) {
    return std::ranges::any_of(in->shape, [&](onnx::Dim d) { return !d.is_constant() && builder_.sym.sample(d) == 1; });
  });
  for (const onnx::Value* in : builder_.graph().inputs)
    for (onnx::Dim d : in->shape)
      if (const auto size = builder_.sym.sample(d); !d.is_constant() && size && *size > 1) sizes_.insert(*size);
}

/// The whole number that a float is or, for one that does not look written, the size that it was computed from.
std::optional<int64_t> Reporter::number_behind(double x) const {
  if (const auto n = whole(x)) return *n > 0 ? n : std::nullopt;
  if (has_few_digits(x)) return std::nullopt;
  for (const int64_t size : sizes_) {
    const auto n = static_cast<double>(size);
    for (const double of_size : {1 / n, std::sqrt(n), 1 / std::sqrt(n), std::pow(n, -0.5), std::log(n)})
      if (x == of_size) return size;
  }
  return std::nullopt;
}

// ---- numbers of the program ---------------------------------------------------------------------------------------

Value Reporter::number(const Expr& e) {
  if (!recorder_) return builder_.dim(e.integer);
  const std::optional<sym::Expr> formula = recorder_->formula({&e, 0});
  Value v = formula ? *formula : builder_.dim(e.integer);
  v.origin = recorder_->read({&e, 0}, e.integer);
  return v;
}

Value Reporter::real_number(const Expr& e) {
  Value v = e.real;
  if (!recorder_) return v;
  if (const auto n = number_behind(e.real)) v.origin = recorder_->read({&e, Literal::fixed}, *n);
  return v;
}

Value Reporter::constant(const Expr& e, Value v) {
  if (!recorder_ || !v.is_tensor()) return v;
  const onnx::Value* t = v.tensor()->read(builder_);
  if (t->constant && is_float(t->dtype) && t->rank() == 0) {
    if (const auto n = number_behind(t->constant->reals()[0])) v.origin = recorder_->read({&e, Literal::fixed}, *n);
    return v;
  }
  if (std::ranges::any_of(t->shape, [](onnx::Dim d) { return d.is(1); }))
    v.origin = recorder_->read({&e, Literal::fixed}, 1);
  if (!t->constant || !is_integer(t->dtype) || t->constant->numel() > max_elements_read) return v;
  const bool is_number = v.tensor()->is_number;
  const Vector<int64_t> elements = t->constant->integers();
  Vector<Origin> from;
  if (std::optional<Progression> p = provenance::as_progression(t->constant->sizes, elements)) {
    from.push_back(recorder_->read({&e, Literal::length}, p->length));
    if (const auto length = recorder_->formula({&e, Literal::length}))
      v = Value(counted(*p, *length, t->dtype, t->shape));
  } else if (elements.size() <= max_elements_suspected) {
    Vector<onnx::Dim> contents;
    bool has_formula = false;
    for (size_t i = 0; i < elements.size(); ++i) {
      const auto formula = recorder_->formula({&e, i});
      has_formula = has_formula || formula;
      contents.push_back(formula.value_or(builder_.dim(elements[i])));
      from.push_back(recorder_->read({&e, i}, elements[i]));
    }
    if (has_formula) v = Value(builder_.symbolic(t->dtype, t->shape, std::move(contents)));
  }
  v.tensor()->is_number = is_number;
  v.origin = from.size() == 1 ? from[0] : recorder_->computed(std::move(from), e.pos);
  return v;
}

/// A constant that counts, with another length.
onnx::Value* Reporter::counted(const Progression& p, sym::Expr length, DType dtype, onnx::Shape shape) {
  sym::Context& sym = builder_.sym;
  const sym::Expr span = sym.mul(length, sym.constant(p.step));
  const sym::Expr start = p.ends_at_last() ? sym.sub(sym.constant(p.last() + p.step), span) : sym.constant(p.start);
  onnx::Value* all = builder_.op("Range", {builder_.symbolic(start), builder_.symbolic(sym.add(start, span)),
                                           builder_.scalar_int(DType::Int64, p.step)});
  shape[p.axis] = length;
  return builder_.reshape(builder_.cast(all, dtype), shape);
}

// ---- operators ----------------------------------------------------------------------------------------------------

void Reporter::begin(const Expr& call, const Arguments& arguments) {
  if (!recorder_) return;
  Vector<Origin> from, listed;
  for (const Value& v : arguments.positional) {
    collect_origins(v, from);
    for (const Value& item : elements_of(v))
      if (recorder_->is_literal(item.origin)) listed.push_back(item.origin);
  }
  for (auto& [name, v] : arguments.keywords) collect_origins(v, from);
  origin_ = recorder_->computed(std::move(from), call.pos);
  recorder_->begin(call.pos, origin_, recorder_->computed(std::move(listed), call.pos));
  if (size_one_) operands_ = arguments.positional;
}

void Reporter::uses(const Rule& rule, std::span<const Value> arguments) {
  if (!recorder_ || arguments.empty()) return;
  if (rule.varies) recorder_->vary(arguments[0].origin);
  // Arithmetic on sizes shows in the sizes.
  if (rule.numbers.empty() || (arguments[0].is_tensor() && arguments[0].tensor()->read(builder_)->contents)) return;
  for (const provenance::NumberArgument& declared : rule.numbers) {
    const Value* v = argument_named(rule.schema, arguments, declared.name);
    if (!v) continue;
    const Value* dim = declared.along.empty() ? nullptr : argument_named(rule.schema, arguments, declared.along);
    const sym::Expr size = dim ? size_along(builder_, arguments[0], *dim) : sym::Expr();
    // Lengths that add up to a number are no sizes of the sample.
    if (declared.role == Role::Size && size && size.is_constant()) continue;
    use(declared, *v, declared.role == Role::Position ? size : sym::Expr());
  }
}

void Reporter::use(const provenance::NumberArgument& declared, const Value& v, sym::Expr size) {
  recorder_->use(v.origin, declared.role, size, declared.least);
  for (const Value& item : elements_of(v)) recorder_->use(item.origin, declared.role, size, 1);
}

void Reporter::end(Value& result) {
  if (!recorder_) return;
  result.origin = origin_;
  if (result.is_list() && !elements_of(result).empty() && result.list_items().size() <= max_listed)
    for (Value& item : result.list_items())
      if (!item.origin) item.origin = origin_;
  recorder_->end();
  if (size_one_) broadcasts(result);
}

/// Reports operands with a 1 that is broadcast to a dimension of size 1 in the sample.
void Reporter::broadcasts(const Value& result) {
  // What is expanded by itself, and not by another tensor, is intended to be.
  if (!result.is_tensor() || std::ranges::count_if(operands_, &Value::is_tensor) < 2) return;
  const onnx::Shape& to = result.tensor()->read(builder_)->shape;
  for (const Value& v : operands_) {
    if (!v.is_tensor() || !v.origin) continue;
    const onnx::Value* t = v.tensor()->read(builder_);
    for (size_t axis = to.size() - std::min<size_t>(t->rank(), to.size()); axis < to.size(); ++axis)
      if (t->shape[axis + t->rank() - to.size()].is(1) && recorder_->broadcasts_one_to(to[axis]))
        recorder_->broadcast(v.origin, t->constant != nullptr, to[axis], axis);
  }
}

void Reporter::iterations(const Value& count, program::Pos pos) {
  if (!recorder_) return;
  recorder_->begin(pos, 0, 0);
  recorder_->use(count.origin, provenance::Role::Size, sym::Expr(), 2);
  recorder_->end();
}

void Reporter::fail(const sym::Contradiction& contradiction) {
  if (recorder_) recorder_->contradict(contradiction.conflict);
}

}  // namespace lithify::eval
