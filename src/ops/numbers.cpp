// Numbers of a program: arithmetic, functions, conversion from and to tensors. What is known is computed at export.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/checked.hpp"
#include "ops/prim.hpp"
#include "ops/slicing.hpp"

namespace lithify::ops {

std::optional<double> known_real(const Value& v) {
  if (auto* d = v.get_if<double>()) return *d;
  if (auto* b = v.get_if<bool>()) return *b ? 1.0 : 0.0;
  if (v.is_int() && v.integer().is_constant()) return static_cast<double>(*v.integer().constant());
  return std::nullopt;
}

namespace {

using eval::run_time_number;

std::optional<Dim> as_int(Call& c, const Value& v) {
  if (v.is_int()) return v.integer();
  if (auto* b = v.get_if<bool>()) return c.sym.constant(*b);
  return std::nullopt;
}

/// The type of a number in Python: bool, int, or float, which is a double whatever it was read from.
DType python_type(const Value& v) {
  if (v.is<bool>()) return DType::Bool;
  if (v.is_int()) return DType::Int64;
  if (v.is<std::complex<double>>()) return DType::ComplexDouble;
  if (!v.is_tensor() || is_float(v.tensor()->dtype())) return DType::Double;
  if (is_complex(v.tensor()->dtype())) return DType::ComplexDouble;
  return v.tensor()->dtype() == DType::Bool ? DType::Bool : DType::Int64;
}

/// The type in which Python computes with numbers: bools count as ints.
DType arithmetic_type(const Vector<Value>& operands) {
  DType type = DType::Int64;
  for (const Value& v : operands) type = eval::promote(type, python_type(v));
  return type;
}

/// A number that was computed at run time. Integers are symbols: sizes, positions and keys can be made of them.
Value number_of(Call& c, onnx::Value* v) {
  if (is_integer(v->dtype)) return c.onnx.symbol_of(v, "n");
  if (is_float(v->dtype)) v = c.onnx.cast(v, DType::Double);
  if (!v->constant || is_complex(v->dtype)) return run_time_number(v);
  const double known = v->constant->reals()[0];
  return v->dtype == DType::Bool ? Value(known != 0) : Value(known);
}

/// What a tensor rule gives for numbers of which some are known only at run time. The operands are 0-d tensors of a
/// type, and not numbers: those would be computed with in the default type of tensors.
Value computed_at_run_time(Call& c, std::string_view tensor_op, const Vector<Value>& operands, DType type) {
  Vector<Value> tensors;
  for (const Value& v : operands) tensors.push_back(c.as_tensor(v, type));
  return number_of(c, c.as_tensor(c.call(tensor_op, std::move(tensors))));
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

/// An operator on two numbers: on integers by expressions, on reals at export, else by the tensor rule at run time.
struct Arithmetic {
  std::string_view name;
  std::function<std::optional<Value>(Call&, Dim, Dim)> integers;
  std::function<Value(double, double)> reals;
  NumberArguments roles = {};
  std::string_view tensor_op = name;
  bool always_real = false;    ///< of two integers, too
  DType real = DType::Double;  ///< Float where ONNX Runtime has no kernel for float64
};

Value python_floor_div(double a, double b) { return std::floor(a / b); }
Value python_mod(double a, double b) {
  double m = std::fmod(a, b);
  return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

std::optional<Value> decided(std::optional<bool> known) { return known ? std::optional<Value>(*known) : std::nullopt; }

std::optional<Value> int_power(Call& c, Dim a, Dim b) {
  std::optional<int64_t> n = b.constant();
  if (!n) return std::nullopt;
  if (*n < 0) {
    if (auto base = a.constant()) return Value(std::pow(static_cast<double>(*base), static_cast<double>(*n)));
    return std::nullopt;
  }
  if (*n > 64) return std::nullopt;
  Dim out = c.sym.constant(1);
  for (int64_t i = 0; i < *n; ++i) out = c.sym.mul(out, a);
  return Value(out);
}

// In TorchScript, a power of integers is a float, as that of math.pow.
std::optional<Value> real_power(Call& c, Dim a, Dim b) {
  std::optional<Value> power = int_power(c, a, b);
  if (power && power->is_int()) power = c.call("aten::Float", {*power});
  return power;
}

/// A function whose result is a float, of two integers, too: it is known where both are.
std::function<std::optional<Value>(Call&, Dim, Dim)> of_integers(double (*f)(double, double)) {
  return [f](Call&, Dim a, Dim b) -> std::optional<Value> {
    if (!a.is_constant() || !b.is_constant()) return std::nullopt;
    return Value(f(static_cast<double>(*a.constant()), static_cast<double>(*b.constant())));
  };
}

double true_div(double a, double b) { return a / b; }

Value computed(Call& c, const Arithmetic& row) {
  const Value &a = c.arg("a"), &b = c.arg("b");
  auto x = as_int(c, a), y = as_int(c, b);
  if (x && y) {
    if (auto v = row.integers(c, *x, *y)) return *v;
  } else {
    auto p = known_real(a), q = known_real(b);
    if (p && q) return row.reals(*p, *q);
  }
  DType type = arithmetic_type({a, b});
  if (type == DType::Int64 && (row.always_real || (row.name == "prim::pow" && y && y->lower().value_or(-1) < 0)))
    type = DType::Double;
  return computed_at_run_time(c, row.tensor_op, {a, b}, type == DType::Double ? row.real : type);
}

void register_arithmetic(eval::Registry& ops) {
  const NumberArguments operand = {{"b", Role::Operand}}, divisor = {{"b", Role::Divisor}};
  const Arithmetic table[] = {
      {"aten::add", [](Call& c, Dim a, Dim b) { return Value(c.sym.add(a, b)); },
       [](double a, double b) -> Value { return a + b; }, operand},
      {"aten::sub", [](Call& c, Dim a, Dim b) { return Value(c.sym.sub(a, b)); },
       [](double a, double b) -> Value { return a - b; }, operand},
      {"aten::mul", [](Call& c, Dim a, Dim b) { return Value(c.sym.mul(a, b)); },
       [](double a, double b) -> Value { return a * b; }, operand},
      {"aten::div", of_integers(true_div), true_div, divisor, "aten::div", true},
      {"aten::truediv", of_integers(true_div), true_div, {}, "aten::div", true},
      {"aten::floordiv",
       [](Call& c, Dim a, Dim b) { return Value(c.sym.floor_div(a, b)); },
       python_floor_div,
       {},
       "aten::floor_divide"},
      {"aten::remainder", [](Call& c, Dim a, Dim b) { return Value(c.sym.mod(a, b)); }, python_mod, divisor},
      {"aten::fmod",
       of_integers(std::fmod),
       [](double a, double b) { return std::fmod(a, b); },
       {},
       "aten::fmod",
       true},
      {"aten::atan2",
       of_integers(std::atan2),
       [](double a, double b) { return std::atan2(a, b); },
       {},
       "aten::atan2",
       true,
       DType::Float},
      {"aten::copysign",
       of_integers(std::copysign),
       [](double a, double b) { return std::copysign(a, b); },
       {},
       "aten::copysign",
       true},
      {"aten::pow", real_power, [](double a, double b) -> Value { return std::pow(a, b); }, {}, "aten::pow", true},
      {"prim::pow", int_power, [](double a, double b) -> Value { return std::pow(a, b); }, {}, "aten::pow"},
      {"prim::min",
       [](Call& c, Dim a, Dim b) { return Value(c.sym.min(a, b)); },
       [](double a, double b) -> Value { return std::min(a, b); },
       {},
       "aten::minimum"},
      {"prim::max",
       [](Call& c, Dim a, Dim b) { return Value(c.sym.max(a, b)); },
       [](double a, double b) -> Value { return std::max(a, b); },
       {},
       "aten::maximum"},
      {"aten::eq", [](Call& c, Dim a, Dim b) { return decided(c.sym.equal(a, b)); },
       [](double a, double b) -> Value { return a == b; }, operand},
      {"aten::ne",
       [](Call& c, Dim a, Dim b) {
         auto e = c.sym.equal(a, b);
         return decided(e ? std::optional(!*e) : e);
       },
       [](double a, double b) -> Value { return a != b; }, operand},
      {"aten::lt", [](Call& c, Dim a, Dim b) { return decided(c.sym.less(a, b)); },
       [](double a, double b) -> Value { return a < b; }, operand},
      {"aten::le", [](Call& c, Dim a, Dim b) { return decided(c.sym.less_equal(a, b)); },
       [](double a, double b) -> Value { return a <= b; }, operand},
      {"aten::gt", [](Call& c, Dim a, Dim b) { return decided(c.sym.less(b, a)); },
       [](double a, double b) -> Value { return a > b; }, operand},
      {"aten::ge", [](Call& c, Dim a, Dim b) { return decided(c.sym.less_equal(b, a)); },
       [](double a, double b) -> Value { return a >= b; }, operand},
  };
  for (const Arithmetic& row : table)
    ops.add(fmt::format("{}.number(Scalar a, Scalar b) -> Scalar", row.name),
            [row](Call& c) { return computed(c, row); })
        .numbers(row.roles);
}

/// An operator on the bits of two integers.
struct Bitwise {
  std::string_view name;
  int64_t (*f)(int64_t, int64_t);
};

Value computed(Call& c, const Bitwise& row) {
  const Value &a = c.arg("a"), &b = c.arg("b");
  auto x = as_int(c, a), y = as_int(c, b);
  if (!x || !y || !x->is_constant() || !y->is_constant()) {
    const bool flags = python_type(a) == DType::Bool && python_type(b) == DType::Bool;
    return computed_at_run_time(c, row.name, {a, b}, flags ? DType::Bool : DType::Int64);
  }
  const int64_t bits = row.f(*x->constant(), *y->constant());
  if (a.is<bool>() && b.is<bool>()) return bits != 0;
  return c.sym.constant(bits);
}

void register_bitwise(eval::Registry& ops) {
  for (const Bitwise& row : {Bitwise{"aten::__and__", [](int64_t a, int64_t b) { return a & b; }},
                             Bitwise{"aten::__or__", [](int64_t a, int64_t b) { return a | b; }},
                             Bitwise{"aten::__xor__", [](int64_t a, int64_t b) { return a ^ b; }},
                             Bitwise{"aten::__lshift__", [](int64_t a, int64_t b) { return a << (b & 63); }},
                             Bitwise{"aten::__rshift__", [](int64_t a, int64_t b) { return a >> (b & 63); }}})
    ops.add(fmt::format("{}.number(Scalar a, Scalar b) -> Scalar", row.name),
            [row](Call& c) { return computed(c, row); });
}

// ---- functions ---------------------------------------------------------------------------------------------------

// A real number that is a size over a constant, as code has it that rounds sizes: float(n) / 32. Floating point holds
// it as far as its rounding goes.
struct Quotient {
  Dim over;
  int64_t under;
};

std::optional<Quotient> quotient(Call& c, const onnx::Value* v, int depth = 0) {
  constexpr int deepest = 32;
  if (depth == deepest) return std::nullopt;
  if (v->contents && v->contents->size() == 1) return Quotient{v->contents->front(), 1};
  const onnx::Node* node = v->producer;
  if (!node) return std::nullopt;
  if (node->op_type == "Cast" && is_float(v->dtype)) return quotient(c, node->inputs[0], depth + 1);
  if (node->op_type != "Mul" && node->op_type != "Div") return std::nullopt;
  const onnx::Value *x = node->inputs[0], *factor = node->inputs[1];
  if (x->is_constant() && node->op_type == "Mul") std::swap(x, factor);
  if (!factor->is_constant() || factor->constant->numel() != 1) return std::nullopt;
  const double number = factor->constant->reals()[0];
  const std::optional<Quotient> q = quotient(c, x, depth + 1);
  if (!q || number < 1 || number > 1 << 20 || number != std::floor(number) || q->under > 1 << 20) return std::nullopt;
  const int64_t whole = checked_integer(number);
  if (node->op_type == "Div") return Quotient{q->over, q->under * whole};
  return Quotient{c.sym.mul(q->over, c.sym.constant(whole)), q->under};
}

Value integer_part(Call& c, double v) {
  if (const std::optional<int64_t> whole = truncated(v)) return c.sym.constant(*whole);
  throw Error(Code::ProgramRaises, fmt::format("{}: {} is not an integer of 64 bits", c.schema.full_name(), v));
}

Value parsed_integer(Call& c, const std::string& text) {
  int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(Code::ProgramRaises, fmt::format("{}: a string is not an integer", c.schema.full_name()));
  return c.sym.constant(out);
}

Value to_int(Call& c, const Value& v) {
  if (v.is_int()) return v;
  if (auto* b = v.get_if<bool>()) return c.sym.constant(*b);
  if (auto* d = v.get_if<double>()) return integer_part(c, *d);
  if (auto* s = v.get_if<std::string>()) return parsed_integer(c, *s);
  onnx::Value* t = c.as_tensor(v);
  if (t->contents && t->contents->size() == 1) return t->contents->front();
  if (t->constant && t->constant->numel() == 1) return integer_part(c, t->constant->reals()[0]);
  if (auto q = quotient(c, t); q && q->over.lower().value_or(-1) >= 0)
    return c.sym.floor_div(q->over, c.sym.constant(q->under));
  return c.onnx.symbol_of(c.onnx.cast(t, DType::Int64), "n");
}

/// A function of one real number.
struct RealFunction {
  std::string_view name;
  double (*f)(double);
  bool to_int = false;         ///< Python's math.floor and math.ceil give ints
  DType real = DType::Double;  ///< Float where ONNX Runtime has no kernel for float64
};

Value computed(Call& c, const RealFunction& row) {
  const Value& a = c.arg("a");
  if (row.to_int && a.is_int()) return a;
  if (auto v = known_real(a)) {
    double r = row.f(*v);
    if (row.to_int) return integer_part(c, r);
    return r;
  }
  if (row.to_int)
    if (auto q = quotient(c, c.as_tensor(a))) {
      const Dim under = c.sym.constant(q->under);
      return row.name == "aten::ceil" ? c.sym.ceil_div(q->over, under) : c.sym.floor_div(q->over, under);
    }
  const Value result = computed_at_run_time(c, row.name, {a}, row.real);
  return row.to_int ? to_int(c, result) : result;
}

void register_real_functions(eval::Registry& ops) {
  constexpr DType single = DType::Float;
  static constexpr RealFunction table[] = {
      {"aten::ceil", std::ceil, true},
      {"aten::floor", std::floor, true},
      {"aten::round", std::nearbyint},
      {"aten::sqrt", std::sqrt},
      {"aten::exp", std::exp},
      {"aten::expm1", std::expm1},
      {"aten::log", std::log},
      {"aten::log2", std::log2},
      {"aten::log10", std::log10},
      {"aten::log1p", std::log1p},
      {"aten::sin", std::sin},
      {"aten::cos", std::cos},
      {"aten::tanh", std::tanh},
      {"aten::tan", std::tan, false, single},
      {"aten::asin", std::asin, false, single},
      {"aten::acos", std::acos, false, single},
      {"aten::atan", std::atan, false, single},
      {"aten::sinh", std::sinh, false, single},
      {"aten::cosh", std::cosh, false, single},
      {"aten::asinh", std::asinh, false, single},
      {"aten::acosh", std::acosh, false, single},
      {"aten::atanh", std::atanh, false, single},
      {"aten::erf", std::erf, false, single},
  };
  for (const RealFunction& row : table)
    ops.add(fmt::format("{}.number(Scalar a) -> Scalar", row.name), [row](Call& c) { return computed(c, row); });
}

/// A question about one real number.
struct RealQuestion {
  std::string_view name;
  bool (*f)(double);
};

void register_real_questions(eval::Registry& ops) {
  for (const RealQuestion& row : {RealQuestion{"aten::isnan", [](double v) { return std::isnan(v); }},
                                  RealQuestion{"aten::isinf", [](double v) { return std::isinf(v); }},
                                  RealQuestion{"aten::isfinite", [](double v) { return std::isfinite(v); }}})
    ops.add(fmt::format("{}.number(Scalar a) -> bool", row.name), [row](Call& c) -> Value {
      if (auto v = known_real(c.arg("a"))) return row.f(*v);
      return computed_at_run_time(c, row.name, {c.arg("a")}, DType::Double);
    });
}

void register_functions(eval::Registry& ops) {
  ops.add("aten::log.base(Scalar a, Scalar b) -> float", [](Call& c) -> Value {
    return c.call("aten::div", {c.call("aten::log", {c.arg("a")}), c.call("aten::log", {c.arg("b")})});
  });
  for (const auto& [name, factor] :
       {std::pair{"aten::degrees", 180 / std::numbers::pi}, std::pair{"aten::radians", std::numbers::pi / 180}})
    ops.add(fmt::format("{}.number(Scalar a) -> float", name), [factor = factor](Call& c) {
      return c.call("aten::mul", {c.arg("a"), factor});
    });
  ops.add("aten::gcd.number(int a, int b) -> int", [](Call& c) -> Value {
    const Dim a = c.size("a"), b = c.size("b");
    if (a.is_constant() && b.is_constant()) {
      constexpr int64_t least = std::numeric_limits<int64_t>::min();
      if (a.is(least) || b.is(least)) c.unsupported("a number without a positive one of its size");
      return c.sym.constant(std::gcd(*a.constant(), *b.constant()));
    }
    return computed_at_run_time(c, "aten::gcd", {a, b}, DType::Int64);
  });
  ops.add("aten::neg.number(Scalar a) -> Scalar", [](Call& c) -> Value {
    if (auto i = as_int(c, c.arg("a"))) return c.sym.neg(*i);
    if (auto v = known_real(c.arg("a"))) return -*v;
    return computed_at_run_time(c, "aten::neg", {c.arg("a")}, arithmetic_type({c.arg("a")}));
  });
  for (const char* name : {"prim::abs", "aten::abs"})
    ops.add(std::string(name) + ".number(Scalar a) -> Scalar", [](Call& c) -> Value {
      if (auto i = as_int(c, c.arg("a"))) return c.sym.max(*i, c.sym.neg(*i));
      if (auto v = known_real(c.arg("a"))) return std::fabs(*v);
      return computed_at_run_time(c, "aten::abs", {c.arg("a")}, arithmetic_type({c.arg("a")}));
    });
  ops.add("aten::fabs.number(Scalar a) -> float",
          [](Call& c) { return c.call("aten::Float", {c.call("prim::abs", {c.arg("a")})}); });
  ops.add("aten::__not__(bool a) -> bool", [](Call& c) -> Value {
    if (auto* b = c.arg("a").get_if<bool>()) return !*b;
    return computed_at_run_time(c, "aten::logical_not", {c.arg("a")}, DType::Bool);
  });
  ops.add("prim::ite(Any b, Any t, Any f) -> Any", [](Call& c) -> Value {
    if (auto* b = c.arg("b").get_if<bool>()) return c.arg(*b ? "t" : "f");
    const Value &t = c.arg("t"), &f = c.arg("f");
    const DType type = eval::promote(python_type(t), python_type(f));
    return number_of(c, c.as_tensor(c.call("aten::where", {c.as_tensor(c.arg("b"), DType::Bool), c.as_tensor(t, type),
                                                           c.as_tensor(f, type)})));
  });
  // min, max and sum of a list of numbers, min and max of two lists.
  for (const char* name : {"prim::min", "prim::max"})
    ops.add(std::string(name) + ".self(t[] self) -> t", [op = std::string(name)](Call& c) -> Value {
      const Vector<Value>& items = c.arg("self").items();
      if (items.empty()) c.unsupported("of an empty list");
      Value out = items[0];
      for (size_t i = 1; i < items.size(); ++i) out = c.call(op, {out, items[i]});
      return out;
    });
  ops.add("aten::sum.list(Scalar[] self) -> Scalar", [](Call& c) -> Value {
    Value out(c.sym.constant(0));
    for (const Value& v : c.arg("self").items()) out = c.call("aten::add", {out, v});
    return out;
  });
  ops.add("aten::divmod(Scalar a, Scalar b) -> (Scalar, Scalar)", [](Call& c) -> Value {
    return Value::tuple(
        {c.call("aten::floordiv", {c.arg("a"), c.arg("b")}), c.call("aten::remainder", {c.arg("a"), c.arg("b")})});
  });
}

// ---- numbers and tensors --------------------------------------------------------------------------------------------

// A tensor of one element as a number that is known only at run time.
Value only_element(Call& c, onnx::Value* t) { return run_time_number(c.onnx.reshape(t, {})); }

Value parsed_real(Call& c, const std::string& text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(Code::ProgramRaises, fmt::format("{}: a string is not a number", c.schema.full_name()));
  return out;
}

Value to_float(Call& c, const Value& v) {
  if (auto d = known_real(v)) return *d;
  if (auto* s = v.get_if<std::string>()) return parsed_real(c, *s);
  onnx::Value* t = c.as_tensor(v);
  if (t->constant && t->constant->numel() == 1) return t->constant->reals()[0];
  return only_element(c, c.onnx.cast(t, DType::Double));
}

Value to_bool(Call& c, const Value& v) {
  if (auto d = known_real(v)) return *d != 0;
  if (v.is_int()) {
    std::optional<bool> zero = c.sym.equal(v.integer(), c.sym.constant(0));
    if (zero) return !*zero;
  }
  onnx::Value* t = c.as_tensor(v);
  if (t->constant && t->constant->numel() == 1) return t->constant->reals()[0] != 0;
  return only_element(c, c.onnx.cast(t, DType::Bool));
}

// A number of the tensor's own kind.
Value to_scalar(Call& c, const Value& v) {
  if (!v.is_tensor()) return v;
  DType t = v.tensor()->dtype();
  if (t == DType::Bool) return to_bool(c, v);
  return is_float(t) ? to_float(c, v) : to_int(c, v);
}

/// The elements of a tensor as nested lists of its sizes.
class NestedList {
 public:
  NestedList(Call& c, onnx::Value* t) : c_(c), t_(t), sizes_(known(t->shape)) {
    if (!sizes_) c.unsupported("tolist() of a tensor whose size is known only at run time");
    make_elements(c, static_cast<size_t>(c.onnx.numel(t->shape).constant().value()));
    if (t->contents) return;
    if (t->constant)
      reals_ = t->constant->reals();
    else
      flat_ = flat(c.onnx, t);
  }

  Value from(size_t dim) {
    if (dim == sizes_->size()) return element(next_++);
    make_elements(c_, static_cast<size_t>((*sizes_)[dim]));
    Vector<Value> items;
    for (int64_t i = 0; i < (*sizes_)[dim]; ++i) items.push_back(from(dim + 1));
    return Value::list(std::move(items));
  }

 private:
  Value element(size_t i) {
    if (t_->contents) return t_->dtype == DType::Bool ? Value(!(*t_->contents)[i].is(0)) : Value((*t_->contents)[i]);
    if (t_->constant) return number(reals_[i]);
    return to_scalar(c_, Value(c_.onnx.select(flat_, 0, c_.sym.constant(static_cast<int64_t>(i)))));
  }
  Value number(double v) {
    if (is_float(t_->dtype)) return v;
    return t_->dtype == DType::Bool ? Value(v != 0) : integer_part(c_, v);
  }

  Call& c_;
  onnx::Value* t_;
  std::optional<Vector<int64_t>> sizes_;
  onnx::Value* flat_ = nullptr;
  Vector<double> reals_;
  size_t next_ = 0;
};

void register_conversions(eval::Registry& ops) {
  for (const char* schema :
       {"prim::NumToTensor.Scalar(Scalar a) -> Tensor", "aten::scalar_to_tensor(Scalar a) -> Tensor"})
    ops.add(schema, [](Call& c) -> Value {
      const Value& a = c.arg("a");
      if (a.is_tensor()) return a;
      return a.is<double>() ? c.as_tensor(a, DType::Double) : c.as_tensor(a);
    });
  for (const char* schema : {"aten::Int(Any a) -> int", "aten::IntImplicit(Tensor a) -> int"})
    ops.add(schema, [](Call& c) { return to_int(c, c.arg("a")); });
  for (const char* schema : {"aten::Float(Any a) -> float", "aten::FloatImplicit(Tensor a) -> float"})
    ops.add(schema, [](Call& c) { return to_float(c, c.arg("a")); });
  ops.add("aten::Bool(Any a) -> bool", [](Call& c) { return to_bool(c, c.arg("a")); });
  ops.add("aten::is_nonzero(Tensor self) -> bool", [](Call& c) { return to_bool(c, c.arg("self")); });
  ops.add("aten::ScalarImplicit(Tensor a) -> Scalar", [](Call& c) { return to_scalar(c, c.arg("a")); });
  ops.add("aten::item(Tensor self) -> Scalar", [](Call& c) { return to_scalar(c, c.arg("self")); });
  ops.add("prim::tolist(Tensor a) -> Any", [](Call& c) -> Value { return NestedList(c, c.tensor("a")).from(0); });
  ops.add("aten::tolist(Tensor a) -> Any", [](Call& c) { return c.call("prim::tolist", {c.arg("a")}); });
}

}  // namespace

void register_numbers(eval::Registry& ops) {
  register_arithmetic(ops);
  register_bitwise(ops);
  register_real_functions(ops);
  register_real_questions(ops);
  register_functions(ops);
  register_conversions(ops);
}

}  // namespace lithify::ops
