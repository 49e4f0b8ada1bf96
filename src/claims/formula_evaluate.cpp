// The values of formulas, with the semantics of Python.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "claims/formula_node.hpp"

namespace lithify::claims {
namespace {

using Result = std::optional<Value>;
using Arguments = std::span<const Value>;

constexpr int64_t largest_exact = int64_t{1} << 53;  // every integer up to it is a double

bool is_real(const Value& v) { return std::holds_alternative<double>(v); }
/// Of an integer or a bool, which is one as well.
int64_t as_integer(const Value& v) {
  const bool* flag = std::get_if<bool>(&v);
  return flag ? *flag : std::get<int64_t>(v);
}
/// Empty for an integer that is not a double.
std::optional<double> as_real(const Value& v) {
  if (is_real(v)) return std::get<double>(v);
  const int64_t i = as_integer(v);
  if (i > largest_exact || i < -largest_exact) return std::nullopt;
  return static_cast<double>(i);
}

/// The integer that a whole number is; empty when it does not fit.
Result whole(double v) {
  constexpr double limit = 9223372036854775808.0;  // 2**63
  if (!(v >= -limit && v < limit)) return std::nullopt;
  return static_cast<int64_t>(v);
}

// ---- arithmetic ---------------------------------------------------------------------------------------------------

Result integer_quotient(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return std::nullopt;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

Result integer_remainder(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  if (b == -1) return int64_t{0};
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

Result on_integers(Operator op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case Operator::Add:
      return __builtin_add_overflow(a, b, &out) ? Result() : out;
    case Operator::Subtract:
      return __builtin_sub_overflow(a, b, &out) ? Result() : out;
    case Operator::Multiply:
      return __builtin_mul_overflow(a, b, &out) ? Result() : out;
    case Operator::FloorDivide:
      return integer_quotient(a, b);
    default:
      return integer_remainder(a, b);
  }
}

/// Quotient and remainder of floats as Python has them: the remainder has the sign of the divisor.
std::pair<double, double> floor_divided(double a, double b) {
  double remainder = std::fmod(a, b), quotient = (a - remainder) / b;
  if (remainder == 0) {
    remainder = std::copysign(0.0, b);
  } else if ((b < 0) != (remainder < 0)) {
    remainder += b;
    quotient -= 1;
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), remainder};
  const double floored = std::floor(quotient);
  return {quotient - floored > 0.5 ? floored + 1 : floored, remainder};
}

Result on_reals(Operator op, double a, double b) {
  switch (op) {
    case Operator::Add:
      return a + b;
    case Operator::Subtract:
      return a - b;
    case Operator::Multiply:
      return a * b;
    default:
      break;
  }
  if (b == 0) return std::nullopt;
  if (op == Operator::Divide) return a / b;
  const auto [quotient, remainder] = floor_divided(a, b);
  return op == Operator::FloorDivide ? quotient : remainder;
}

Result arithmetic(Operator op, const Value& a, const Value& b) {
  if (!is_real(a) && !is_real(b) && op != Operator::Divide) return on_integers(op, as_integer(a), as_integer(b));
  const std::optional<double> x = as_real(a), y = as_real(b);
  return x && y ? on_reals(op, *x, *y) : Result();
}

template <class T>
bool compared(Operator op, T a, T b) {
  switch (op) {
    case Operator::Less:
      return a < b;
    case Operator::LessEqual:
      return a <= b;
    case Operator::Greater:
      return a > b;
    case Operator::GreaterEqual:
      return a >= b;
    case Operator::Equal:
      return a == b;
    default:
      return a != b;
  }
}

Result comparison(Operator op, const Value& a, const Value& b) {
  if (!is_real(a) && !is_real(b)) return compared(op, as_integer(a), as_integer(b));
  const std::optional<double> x = as_real(a), y = as_real(b);
  return x && y ? Result(compared(op, *x, *y)) : Result();
}

Result integer_power(int64_t base, int64_t exponent) {
  if (base == 1 || exponent == 0) return int64_t{1};
  if (base == 0) return int64_t{0};
  if (base == -1) return exponent % 2 == 0 ? int64_t{1} : int64_t{-1};
  int64_t out = 1;
  for (int64_t i = 0; i < exponent; ++i)
    if (__builtin_mul_overflow(out, base, &out)) return std::nullopt;
  return out;
}

Result power(const Value& base, const Value& exponent) {
  if (!is_real(base) && !is_real(exponent) && as_integer(exponent) >= 0)
    return integer_power(as_integer(base), as_integer(exponent));
  const std::optional<double> x = as_real(base), y = as_real(exponent);
  if (!x || !y || (*x == 0 && *y < 0) || (*x < 0 && *y != std::floor(*y))) return std::nullopt;
  const double out = std::pow(*x, *y);
  return std::isfinite(out) ? Result(out) : Result();
}

Result negative(const Value& v) {
  if (is_real(v)) return -std::get<double>(v);
  return on_integers(Operator::Subtract, 0, as_integer(v));
}

// ---- functions ----------------------------------------------------------------------------------------------------

/// The argument that no other is less than, or greater: the first of equal ones.
template <Operator better>
Result extremum(Arguments a) {
  Value best = a[0];
  for (const Value& v : a.subspan(1)) {
    const Result wins = comparison(better, v, best);
    if (!wins) return std::nullopt;
    if (std::get<bool>(*wins)) best = v;
  }
  return best;
}

/// A float to a whole number; integers stay.
template <double (*round)(double)>
Result rounded(Arguments a) {
  return is_real(a[0]) ? whole(round(std::get<double>(a[0]))) : Result(as_integer(a[0]));
}

double half_to_even(double v) {
  const double floored = std::floor(v), rest = v - floored;
  if (rest != 0.5) return rest < 0.5 ? floored : floored + 1;
  return std::fmod(floored, 2) == 0 ? floored : floored + 1;
}

/// A function of a float that Python refuses below `least` (and there as well, where `open`), and where it overflows.
template <double (*function)(double), bool bounded = false, bool open = false>
Result real_function(Arguments a) {
  const std::optional<double> x = as_real(a[0]);
  if (!x || !std::isfinite(*x) || (bounded && (*x < 0 || (open && *x == 0)))) return std::nullopt;
  const double out = function(*x);
  return std::isfinite(out) ? Result(out) : Result();
}

Result absolute(Arguments a) {
  if (is_real(a[0])) return std::abs(std::get<double>(a[0]));
  return as_integer(a[0]) < 0 ? negative(a[0]) : Result(as_integer(a[0]));
}

Result to_real(Arguments a) {
  const std::optional<double> x = as_real(a[0]);
  return x ? Result(*x) : Result();
}

Result common_divisor(Arguments a) {
  int64_t out = 0;
  for (const Value& v : a) {
    if (is_real(v) || as_integer(v) == std::numeric_limits<int64_t>::min()) return std::nullopt;
    out = std::gcd(out, as_integer(v));
  }
  return out;
}

/// The size that sizes broadcast to: those that are not 1 are equal.
Result broadcast(Arguments a) {
  int64_t out = 1;
  for (const Value& v : a) {
    if (is_real(v)) return std::nullopt;
    const int64_t size = as_integer(v);
    if (size != 1 && out != 1 && size != out) return std::nullopt;
    if (size != 1) out = size;
  }
  return out;
}

Result opaque(Arguments) { return std::nullopt; }

constexpr size_t any_number = std::numeric_limits<size_t>::max();
constexpr Function functions[] = {
    {"min", 2, any_number, extremum<Operator::Less>},
    {"max", 2, any_number, extremum<Operator::Greater>},
    {"abs", 1, 1, absolute},
    {"floor", 1, 1, rounded<std::floor>},
    {"ceil", 1, 1, rounded<std::ceil>},
    {"round", 1, 1, rounded<half_to_even>},
    {"trunc", 1, 1, rounded<std::trunc>},
    {"int", 1, 1, rounded<std::trunc>},
    {"float", 1, 1, to_real},
    {"sqrt", 1, 1, real_function<std::sqrt, true>},
    {"log", 1, 1, real_function<std::log, true, true>},
    {"log2", 1, 1, real_function<std::log2, true, true>},
    {"log10", 1, 1, real_function<std::log10, true, true>},
    {"exp", 1, 1, real_function<std::exp>},
    {"sin", 1, 1, real_function<std::sin>},
    {"cos", 1, 1, real_function<std::cos>},
    {"gcd", 1, any_number, common_divisor},
    {"broadcast", 2, any_number, broadcast},
    {"str", 1, 1, opaque},
};

// ---- the tree -----------------------------------------------------------------------------------------------------

class Evaluation {
 public:
  explicit Evaluation(const Formula::ValueOf& value_of) : value_of_(value_of) {}

  Result of(const Formula::Node& n) const {
    switch (n.kind) {
      case Kind::Or:
      case Kind::And:
        return decided(n, n.kind == Kind::Or);
      case Kind::Not: {
        const Result v = of(*n.operands[0]);
        return v ? Result(!truth(*v)) : Result();
      }
      case Kind::Compare:
        return binary(n, [&](const Value& a, const Value& b) { return comparison(n.operators[0], a, b); });
      case Kind::Sum:
      case Kind::Product:
        return chain(n);
      case Kind::Negative: {
        const Result v = of(*n.operands[0]);
        return v ? negative(*v) : Result();
      }
      case Kind::Power:
        return binary(n, power);
      case Kind::Call:
        return call(n);
      case Kind::Name: {
        const std::optional<int64_t> v = value_of_(n.text);
        return v ? Result(*v) : Result();
      }
      case Kind::Integer:
        return n.integer;
      case Kind::Real:
        return n.real;
      case Kind::Bool:
        return n.integer != 0;
      case Kind::Large:
        break;
    }
    return std::nullopt;
  }

 private:
  /// `or` is the first operand that is true, `and` the first that is false, or the last.
  Result decided(const Formula::Node& n, bool by) const {
    Result v;
    for (const NodePtr& operand : n.operands) {
      v = of(*operand);
      if (!v || truth(*v) == by) break;
    }
    return v;
  }

  template <class F>
  Result binary(const Formula::Node& n, F f) const {
    const Result a = of(*n.operands[0]), b = of(*n.operands[1]);
    return a && b ? f(*a, *b) : Result();
  }

  Result chain(const Formula::Node& n) const {
    Result out = of(*n.operands[0]);
    for (size_t i = 1; out && i < n.operands.size(); ++i) {
      const Result v = of(*n.operands[i]);
      out = v ? arithmetic(n.operators[i - 1], *out, *v) : Result();
    }
    return out;
  }

  Result call(const Formula::Node& n) const {
    if (const Result exact = rounded_quotient(n)) return exact;
    std::vector<Value> arguments;
    for (const NodePtr& operand : n.operands) {
      const Result v = of(*operand);
      if (!v) return std::nullopt;
      arguments.push_back(*v);
    }
    return find_function(n.text)->apply(arguments);
  }

  /// floor(a/b) and ceil(a/b) of integers, which are exact; nothing for all else.
  Result rounded_quotient(const Formula::Node& n) const {
    const bool up = n.text == "ceil";
    if ((!up && n.text != "floor") || n.operands[0]->kind != Kind::Product) return std::nullopt;
    Formula::Node numerator = *n.operands[0];
    if (numerator.operators.back() != Operator::Divide) return std::nullopt;
    const NodePtr divisor = numerator.operands.back();
    numerator.operators.pop_back();
    numerator.operands.pop_back();
    Result a = numerator.operands.size() == 1 ? of(*numerator.operands[0]) : chain(numerator);
    const Result b = of(*divisor);
    if (!a || !b || is_real(*a) || is_real(*b)) return std::nullopt;
    if (up) a = negative(*a);
    const Result quotient = a ? integer_quotient(as_integer(*a), as_integer(*b)) : Result();
    return up && quotient ? negative(*quotient) : quotient;
  }

  const Formula::ValueOf& value_of_;
};

}  // namespace

bool truth(const Value& value) {
  if (const double* real = std::get_if<double>(&value)) return *real != 0;
  return as_integer(value) != 0;
}

const Function* find_function(std::string_view name) {
  const auto* found = std::ranges::find(functions, name, &Function::name);
  return found == std::end(functions) ? nullptr : found;
}

std::optional<Value> Formula::evaluate(const ValueOf& value_of) const { return Evaluation(value_of).of(*node_); }

}  // namespace lithify::claims
