#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/checked.hpp"
#include "base/half.hpp"
#include "onnx/folding.hpp"

namespace lithify::onnx::folding {
namespace {

using Ints = Vector<int64_t>;
using Result = std::optional<Array>;

constexpr double pi = 3.14159265358979323846;

// ---- elements -----------------------------------------------------------------------------------------------------

bool computable(DType t) {
  return is_integer(t) || t == DType::Bool || t == DType::Float || t == DType::Double || t == DType::Half ||
         t == DType::BFloat16;
}

/// The integer that a type holds after arithmetic modulo its range.
int64_t wrapped(DType t, int64_t v) {
  switch (t) {
    case DType::Int8:
      return static_cast<int8_t>(v);
    case DType::UInt8:
      return static_cast<uint8_t>(v);
    case DType::Int16:
      return static_cast<int16_t>(v);
    case DType::UInt16:
      return static_cast<uint16_t>(v);
    case DType::Int32:
      return static_cast<int32_t>(v);
    case DType::UInt32:
      return static_cast<uint32_t>(v);
    case DType::Bool:
      return v != 0;
    default:
      return v;
  }
}

float rounded(DType t, float v) {
  if (t == DType::Half) return float_from_half(half_from_float(v));
  if (t == DType::BFloat16) return float_from_bfloat16(bfloat16_from_float(v));
  return v;
}

/// Empty for types that are not computed with, and for uint64 numbers that int64 does not hold.
Result loaded(const Value& v) {
  if (!computable(v.dtype)) return std::nullopt;
  Array r{v.dtype, v.constant->sizes, {}};
  if (is_float(v.dtype)) {
    Vector<double> reals = v.constant->reals();
    if (v.dtype == DType::Double)
      r.data = std::move(reals);
    else
      r.data = Vector<float>(reals.begin(), reals.end());
    return r;
  }
  Ints ints = v.constant->integers();
  if (v.dtype == DType::UInt64 && std::any_of(ints.begin(), ints.end(), [](int64_t i) { return i < 0; }))
    return std::nullopt;
  r.data = std::move(ints);
  return r;
}

template <class T, class From>
void put(std::vector<std::byte>& out, From v) {
  const T t = static_cast<T>(v);
  const auto* p = reinterpret_cast<const std::byte*>(&t);
  out.insert(out.end(), p, p + sizeof(T));
}

void put_integer(std::vector<std::byte>& out, DType t, int64_t v) {
  switch (byte_size(t)) {
    case 1:
      return put<uint8_t>(out, t == DType::Bool ? v != 0 : v);
    case 2:
      return put<uint16_t>(out, v);
    case 4:
      return put<uint32_t>(out, v);
    default:
      return put<int64_t>(out, v);
  }
}

void put_float(std::vector<std::byte>& out, DType t, float v) {
  switch (t) {
    case DType::Half:
      return put<uint16_t>(out, half_from_float(v));
    case DType::BFloat16:
      return put<uint16_t>(out, bfloat16_from_float(v));
    default:
      return put<float>(out, v);
  }
}

DType result_type(const Inference& f) { return f.node.outputs[0]->dtype; }

template <class T>
Array made(const Inference& f, Vector<T> data) {
  return {result_type(f), result_sizes(f), std::move(data)};
}

// ---- one operand --------------------------------------------------------------------------------------------------

template <class T>
T round_to_even(T x) {
  return std::nearbyint(x);
}

template <class T>
T sign_of(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}

/// Functions of one real number, in its own precision.
struct RealUnary {
  std::string_view op;
  float (*f)(float);
  double (*d)(double);
};

template <class L>
constexpr RealUnary real(std::string_view op, L) {
  return {op, [](float x) -> float { return L{}(x); }, [](double x) -> double { return L{}(x); }};
}

constexpr RealUnary real_unaries[] = {
    real("Abs", [](auto x) { return std::abs(x); }),
    real("Acos", [](auto x) { return std::acos(x); }),
    real("Acosh", [](auto x) { return std::acosh(x); }),
    real("Asin", [](auto x) { return std::asin(x); }),
    real("Asinh", [](auto x) { return std::asinh(x); }),
    real("Atan", [](auto x) { return std::atan(x); }),
    real("Atanh", [](auto x) { return std::atanh(x); }),
    real("Ceil", [](auto x) { return std::ceil(x); }),
    real("Cos", [](auto x) { return std::cos(x); }),
    real("Cosh", [](auto x) { return std::cosh(x); }),
    real("Erf", [](auto x) { return std::erf(x); }),
    real("Exp", [](auto x) { return std::exp(x); }),
    real("Floor", [](auto x) { return std::floor(x); }),
    real("Log", [](auto x) { return std::log(x); }),
    real("Neg", [](auto x) { return -x; }),
    real("Reciprocal", [](auto x) { return 1 / x; }),
    real("Relu", [](auto x) { return x > 0 || x != x ? x : 0; }),
    real("Round", [](auto x) { return round_to_even(x); }),
    real("Sigmoid", [](auto x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }),
    real("Sign", [](auto x) { return sign_of(x); }),
    real("Sin", [](auto x) { return std::sin(x); }),
    real("Sinh", [](auto x) { return std::sinh(x); }),
    real("Softplus", [](auto x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }),
    real("Sqrt", [](auto x) { return std::sqrt(x); }),
    real("Tan", [](auto x) { return std::tan(x); }),
    real("Tanh", [](auto x) { return std::tanh(x); }),
};

struct IntUnary {
  std::string_view op;
  int64_t (*apply)(int64_t);
};

int64_t negated(int64_t x) { return static_cast<int64_t>(-static_cast<uint64_t>(x)); }

constexpr IntUnary int_unaries[] = {
    {"Abs", [](int64_t x) { return x < 0 ? negated(x) : x; }},
    {"BitwiseNot", [](int64_t x) { return ~x; }},
    {"Neg", negated},
    {"Not", [](int64_t x) { return static_cast<int64_t>(x == 0); }},
    {"Relu", [](int64_t x) { return std::max<int64_t>(x, 0); }},
    {"Sign", [](int64_t x) { return sign_of(x); }},
};

// ---- two operands -------------------------------------------------------------------------------------------------

struct RealBinary {
  std::string_view op;
  float (*f)(float, float);
  double (*d)(double, double);
};

template <class L>
constexpr RealBinary real2(std::string_view op, L) {
  return {op, [](float a, float b) -> float { return L{}(a, b); },
          [](double a, double b) -> double { return L{}(a, b); }};
}

constexpr RealBinary real_binaries[] = {
    real2("Add", [](auto a, auto b) { return a + b; }),
    real2("Div", [](auto a, auto b) { return a / b; }),
    real2("Max", [](auto a, auto b) { return a != a || a > b ? a : b; }),
    real2("Min", [](auto a, auto b) { return a != a || a < b ? a : b; }),
    real2("Mod", [](auto a, auto b) { return std::fmod(a, b); }),
    real2("Mul", [](auto a, auto b) { return a * b; }),
    real2("Pow", [](auto a, auto b) { return std::pow(a, b); }),
    real2("Sub", [](auto a, auto b) { return a - b; }),
    real2("Sum", [](auto a, auto b) { return a + b; }),
};

struct IntBinary {
  std::string_view op;
  int64_t (*apply)(int64_t, int64_t);
};

int64_t plus(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
int64_t minus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t times(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

/// Divisors are not 0 here.
constexpr IntBinary int_binaries[] = {
    {"Add", plus},
    {"And", [](int64_t a, int64_t b) { return a & b; }},
    {"BitwiseAnd", [](int64_t a, int64_t b) { return a & b; }},
    {"BitwiseOr", [](int64_t a, int64_t b) { return a | b; }},
    {"BitwiseXor", [](int64_t a, int64_t b) { return a ^ b; }},
    {"Div", [](int64_t a, int64_t b) { return b == -1 ? negated(a) : a / b; }},
    {"Max", [](int64_t a, int64_t b) { return std::max(a, b); }},
    {"Min", [](int64_t a, int64_t b) { return std::min(a, b); }},
    {"Mod", [](int64_t a, int64_t b) { return floor_mod(a, b); }},
    {"Mul", times},
    {"Or", [](int64_t a, int64_t b) { return a | b; }},
    {"Sub", minus},
    {"Sum", plus},
    {"Xor", [](int64_t a, int64_t b) { return a ^ b; }},
};

/// Comparisons of numbers of one type, as bits: 1 less, 2 equal, 4 greater.
struct Comparison {
  std::string_view op;
  int holds;
};

constexpr Comparison comparisons[] = {
    {"Equal", 2}, {"Greater", 4}, {"GreaterOrEqual", 6}, {"Less", 1}, {"LessOrEqual", 3},
};

template <class T>
Vector<T> broadcast(const Array& a, const Vector<T>& from, const Sizes& to) {
  Vector<T> r;
  for (int64_t e : strided(to, broadcast_strides(a.sizes, to))) r.push_back(from[static_cast<size_t>(e)]);
  return r;
}

/// Calls `apply(left, right)` for each element of the two, as if both had been broadcast to `to`.
template <class Out, class T, class F>
Vector<Out> zipped(const Array& a, const Array& b, const Sizes& to, F apply) {
  const auto x = broadcast(a, std::get<Vector<T>>(a.data), to), y = broadcast(b, std::get<Vector<T>>(b.data), to);
  Vector<Out> r(x.size());
  for (size_t e = 0; e < r.size(); ++e) r[e] = static_cast<Out>(apply(x[e], y[e]));
  return r;
}

Result compared(Inference& f, const Comparison& row, const Array& a, const Array& b) {
  if (a.data.index() != b.data.index()) return std::nullopt;
  return std::visit(
      [&]<class T>(const Vector<T>&) {
        return made(f, zipped<int64_t, T>(a, b, result_sizes(f), [&](T x, T y) {
                      return ((x < y ? 1 : x == y ? 2 : x > y ? 4 : 0) & row.holds) != 0;
                    }));
      },
      a.data);
}

/// Two or more operands of one type, combined from the left.
Result arithmetic(Inference& f, Vector<Array>& in) {
  const std::string& op = f.node.op_type;
  const Sizes to = result_sizes(f);
  const DType type = result_type(f);
  Array r = in[0];
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i].data.index() != r.data.index()) return std::nullopt;
    if (const auto* ints = std::get_if<Ints>(&in[i].data)) {
      const auto* row = find(int_binaries, op);
      const bool divides = op == "Div" || op == "Mod";
      if (!row || (divides && std::find(ints->begin(), ints->end(), 0) != ints->end())) return std::nullopt;
      if (op == "Mod" && f.integer("fmod", 0) != 0) return std::nullopt;
      r.data =
          zipped<int64_t, int64_t>(r, in[i], to, [&](int64_t a, int64_t b) { return wrapped(type, row->apply(a, b)); });
    } else {
      const auto* row = find(real_binaries, op);
      if (!row || (op == "Mod" && f.integer("fmod", 0) == 0)) return std::nullopt;
      if (type == DType::Double)
        r.data = zipped<double, double>(r, in[i], to, row->d);
      else
        r.data = zipped<float, float>(r, in[i], to, [&](float a, float b) { return rounded(type, row->f(a, b)); });
    }
    r.sizes = to;
  }
  return r;
}

/// Numbers of another type, as Cast gives them; empty where a real does not fit into the integer type.
Result converted(const Array& a, DType to) {
  if (!computable(to)) return std::nullopt;
  return std::visit(
      [&]<class T>(const Vector<T>& from) -> Result {
        if (to == DType::Double) return Array{to, a.sizes, Vector<double>(from.begin(), from.end())};
        if (is_float(to)) {
          Vector<float> r;
          for (T v : from) r.push_back(rounded(to, static_cast<float>(v)));
          return Array{to, a.sizes, std::move(r)};
        }
        Ints r;
        for (T v : from) {
          if constexpr (std::is_floating_point_v<T>) {
            if (to == DType::Bool) {
              r.push_back(v != 0);
              continue;
            }
            if (!(std::abs(v) < static_cast<T>(0x1p62)) ||
                wrapped(to, static_cast<int64_t>(v)) != static_cast<int64_t>(v))
              return std::nullopt;
          }
          r.push_back(wrapped(to, static_cast<int64_t>(v)));
        }
        return Array{to, a.sizes, std::move(r)};
      },
      a.data);
}

/// The exponent may be of another type. Integer powers go through double, as in ONNX Runtime.
Result power(Inference& f, Vector<Array>& in) {
  const DType type = result_type(f);
  if (is_float(type)) {
    Result exponent = converted(in[1], type);
    if (!exponent) return std::nullopt;
    in[1] = std::move(*exponent);
    return arithmetic(f, in);
  }
  const Result base = converted(in[0], DType::Double), exponent = converted(in[1], DType::Double);
  if (!base || !exponent) return std::nullopt;
  const auto r =
      zipped<double, double>(*base, *exponent, result_sizes(f), [](double a, double b) { return std::pow(a, b); });
  if (!std::all_of(r.begin(), r.end(), [](double v) { return std::abs(v) < 0x1p53; })) return std::nullopt;
  return converted(Array{DType::Double, result_sizes(f), r}, type);
}

Result unary(Inference& f, const Array& x) {
  const std::string& op = f.node.op_type;
  Array r = x;
  if (auto* ints = std::get_if<Ints>(&r.data)) {
    const auto* row = find(int_unaries, op);
    if (!row) return std::nullopt;
    for (int64_t& v : *ints) v = wrapped(x.dtype, row->apply(v));
    return r;
  }
  const auto* row = find(real_unaries, op);
  if (!row) return std::nullopt;
  if (auto* reals = std::get_if<Vector<double>>(&r.data))
    for (double& v : *reals) v = row->d(v);
  else
    for (float& v : std::get<Vector<float>>(r.data)) v = row->f(v);
  return r;
}

/// IsNaN and IsInf.
Result classified(Inference& f, const Array& x) {
  const bool nan = f.node.op_type == "IsNaN";
  const bool positive = f.integer("detect_positive", 1) != 0, negative = f.integer("detect_negative", 1) != 0;
  return std::visit(
      [&](const auto& from) {
        Ints r;
        for (auto v : from) {
          const auto d = static_cast<double>(v);
          r.push_back(nan ? std::isnan(d) : std::isinf(d) && (d > 0 ? positive : negative));
        }
        return made(f, std::move(r));
      },
      x.data);
}

/// Bounds are optional inputs, or attributes before opset 11.
Result clip_numbers(Inference& f) {
  Result x = loaded(f.in(0));
  if (!x) return std::nullopt;
  auto bound = [&](size_t input, std::string_view attribute) -> std::optional<double> {
    if (f.has(input)) return f.in(input).constant->reals().at(0);
    const Attribute* a = f.node.attribute(attribute);
    return a ? std::optional<double>(std::get<float>(a->data)) : std::nullopt;
  };
  const auto low = bound(1, "min"), high = bound(2, "max");
  std::visit(
      [&]<class T>(Vector<T>& data) {
        for (T& v : data) {
          if (low && v < static_cast<T>(*low)) v = static_cast<T>(*low);
          if (high && v > static_cast<T>(*high)) v = static_cast<T>(*high);
        }
      },
      x->data);
  return x;
}

// ---- along axes ---------------------------------------------------------------------------------------------------

/// Sums are accumulated in double, which is at least as near to the exact result as any order of float32 additions.
struct Reduction {
  std::string_view op;
  double start;
  double (*combine)(double, double);
  double (*finish)(double, double count);
};

double keep(double v, double) { return v; }
constexpr double infinity = std::numeric_limits<double>::infinity();

constexpr Reduction reductions[] = {
    {"ReduceL1", 0, [](double a, double b) { return a + std::abs(b); }, keep},
    {"ReduceL2", 0, [](double a, double b) { return a + b * b; }, [](double v, double) { return std::sqrt(v); }},
    {"ReduceLogSum", 0, [](double a, double b) { return a + b; }, [](double v, double) { return std::log(v); }},
    {"ReduceMax", -infinity, [](double a, double b) { return a != a || a > b ? a : b; }, keep},
    {"ReduceMean", 0, [](double a, double b) { return a + b; }, [](double v, double n) { return v / n; }},
    {"ReduceMin", infinity, [](double a, double b) { return a != a || a < b ? a : b; }, keep},
    {"ReduceProd", 1, [](double a, double b) { return a * b; }, keep},
    {"ReduceSum", 0, [](double a, double b) { return a + b; }, keep},
    {"ReduceSumSquare", 0, [](double a, double b) { return a + b * b; }, keep},
};

struct IntReduction {
  std::string_view op;
  int64_t start;
  int64_t (*combine)(int64_t, int64_t);
};

constexpr IntReduction int_reductions[] = {
    {"ReduceMax", std::numeric_limits<int64_t>::min(), [](int64_t a, int64_t b) { return std::max(a, b); }},
    {"ReduceMin", std::numeric_limits<int64_t>::max(), [](int64_t a, int64_t b) { return std::min(a, b); }},
    {"ReduceProd", 1, times},
    {"ReduceSum", 0, plus},
};

Result reduce(Inference& f, const Array& x) {
  const auto target = reduction_targets(x.sizes, reduction_axes(f));
  const auto count = static_cast<size_t>(numel(result_sizes(f)));
  if (target.empty()) return std::nullopt;
  if (const auto* ints = std::get_if<Ints>(&x.data)) {
    const auto* row = find(int_reductions, f.node.op_type);
    if (!row) return std::nullopt;
    Ints r(count, row->start);
    for (size_t e = 0; e < ints->size(); ++e) {
      int64_t& to = r[static_cast<size_t>(target[e])];
      to = wrapped(x.dtype, row->combine(to, (*ints)[e]));
    }
    return made(f, std::move(r));
  }
  const auto* row = find(reductions, f.node.op_type);
  const Result wide = converted(x, DType::Double);
  if (!row || !wide) return std::nullopt;
  const auto& from = std::get<Vector<double>>(wide->data);
  Vector<double> r(count, row->start);
  for (size_t e = 0; e < from.size(); ++e) {
    double& to = r[static_cast<size_t>(target[e])];
    to = row->combine(to, from[e]);
  }
  const size_t per_result = from.size() / count;
  for (double& v : r) v = row->finish(v, static_cast<double>(per_result));
  return converted(Array{DType::Double, result_sizes(f), std::move(r)}, x.dtype);
}

Result cumulative_sum(Inference& f, Array x) {
  const auto given = integers(f.in(1));
  if (!given || given->size() != 1 || x.sizes.empty()) return std::nullopt;
  const int64_t axis = (*given)[0] < 0 ? (*given)[0] + static_cast<int64_t>(x.sizes.size()) : (*given)[0];
  const bool exclusive = f.integer("exclusive", 0) != 0, reverse = f.integer("reverse", 0) != 0;
  const int64_t n = x.sizes.at(static_cast<size_t>(axis)),
                stride = row_major_strides(x.sizes)[static_cast<size_t>(axis)];
  Sizes starts = x.sizes;
  starts[static_cast<size_t>(axis)] = 1;
  std::visit(
      [&]<class T>(Vector<T>& data) {
        for (int64_t start : strided(starts, row_major_strides(x.sizes))) {
          T sum = 0;
          for (int64_t i = 0; i < n; ++i) {
            T& v = data[static_cast<size_t>(start + (reverse ? n - 1 - i : i) * stride)];
            T next;
            if constexpr (std::is_same_v<T, int64_t>)
              next = wrapped(x.dtype, plus(sum, v));
            else
              next = sum + v;
            v = exclusive ? sum : next;
            sum = next;
          }
        }
      },
      x.data);
  return x;
}

// ---- new tensors --------------------------------------------------------------------------------------------------

/// start + i*delta, computed in double as PyTorch does.
Result range(Inference& f, const Vector<Array>& in) {
  const int64_t n = numel(result_sizes(f));
  if (const auto* start = std::get_if<Ints>(&in[0].data)) {
    const int64_t delta = std::get<Ints>(in[2].data).at(0);
    Ints r;
    for (int64_t i = 0; i < n; ++i) r.push_back(wrapped(result_type(f), plus(start->at(0), times(i, delta))));
    return made(f, std::move(r));
  }
  const Result start = converted(in[0], DType::Double), delta = converted(in[2], DType::Double);
  if (!start || !delta) return std::nullopt;
  Vector<double> r;
  for (int64_t i = 0; i < n; ++i)
    r.push_back(std::get<Vector<double>>(start->data).at(0) +
                static_cast<double>(i) * std::get<Vector<double>>(delta->data).at(0));
  return converted(Array{DType::Double, {n}, std::move(r)}, result_type(f));
}

/// HannWindow, HammingWindow, BlackmanWindow as sums of cosines.
Result sampled_window(Inference& f) {
  struct Row {
    std::string_view op;
    double a0, a1, a2;
  };
  static constexpr Row rows[] = {
      {"BlackmanWindow", 0.42, 0.5, 0.08}, {"HammingWindow", 25.0 / 46, 21.0 / 46, 0}, {"HannWindow", 0.5, 0.5, 0}};
  const Row& w = *find(rows, f.node.op_type);
  const int64_t n = numel(result_sizes(f));
  const double period = static_cast<double>(f.integer("periodic", 1) != 0 ? n : n - 1);
  Vector<double> r;
  for (int64_t i = 0; i < n; ++i) {
    const double t = 2 * pi * static_cast<double>(i) / period;
    r.push_back(w.a0 - w.a1 * std::cos(t) + w.a2 * std::cos(2 * t));
  }
  return converted(Array{DType::Double, {n}, std::move(r)}, result_type(f));
}

bool is_window(std::string_view op) { return op.ends_with("Window"); }

}  // namespace

bool computes(std::string_view op) {
  for (std::string_view name : {"Cast", "CastLike", "Clip", "CumSum", "IsInf", "IsNaN", "Range"})
    if (op == name) return true;
  return find(real_unaries, op) || find(int_unaries, op) || find(real_binaries, op) || find(int_binaries, op) ||
         find(comparisons, op) || find(reductions, op) || is_window(op);
}

Result compute(Inference& f) {
  const std::string& op = f.node.op_type;
  if (op == "Clip") return clip_numbers(f);
  Vector<Array> in;
  for (size_t i = 0; i < f.inputs(); ++i) {
    Result a = f.has(i) ? loaded(f.in(i)) : std::nullopt;
    if (!a) return std::nullopt;
    in.push_back(std::move(*a));
  }
  if (op == "Cast" || op == "CastLike") return converted(in[0], result_type(f));
  if (op == "CumSum") return cumulative_sum(f, std::move(in[0]));
  if (op == "IsInf" || op == "IsNaN") return classified(f, in[0]);
  if (op == "Range") return range(f, in);
  if (op == "Pow") return power(f, in);
  if (is_window(op)) return sampled_window(f);
  if (find(reductions, op)) return reduce(f, in[0]);
  if (const auto* row = find(comparisons, op)) return compared(f, *row, in[0], in[1]);
  if (in.size() > 1) return arithmetic(f, in);
  return unary(f, in[0]);
}

TensorView stored(const Array& array) {
  std::vector<std::byte> bytes;
  std::visit(
      [&]<class T>(const Vector<T>& data) {
        for (T v : data) {
          if constexpr (std::is_same_v<T, int64_t>)
            put_integer(bytes, array.dtype, v);
          else if constexpr (std::is_same_v<T, float>)
            put_float(bytes, array.dtype, v);
          else
            put<double>(bytes, v);
        }
      },
      array.data);
  return TensorView::dense(array.dtype, array.sizes, std::move(bytes));
}

}  // namespace lithify::onnx::folding
