#include "onnx/complex.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/diagnostic.hpp"

namespace lithify::onnx {
namespace {

int64_t rank_of(const Value* v) { return static_cast<int64_t>(v->rank()); }

Error unknown(std::string_view what) {
  return Error(Code::UnsupportedType, fmt::format("{} of complex numbers is not supported", what));
}

Value* like(Builder& b, Value* x, double v) { return b.scalar(x->dtype, v); }

// Sums, with nullptr for 0.
Value* plus(Builder& b, Value* x, Value* y) { return !x ? y : !y ? x : b.add(x, y); }
Value* minus(Builder& b, Value* x, Value* y) { return !y ? x : !x ? b.op("Neg", {y}) : b.sub(x, y); }

// The parts of a number; `im` is nullptr where it is known to be 0.
struct Number {
  Value* re;
  Value* im;
};

Number number(Builder& b, Value* z) {
  bool real = !is_complex(z->dtype) || (z->parts.real && !z->parts.imag);
  return {b.real_part(z), real ? nullptr : b.imag_part(z)};
}

// An operator that distributes over addition in both operands.
Value* bilinear(Builder& b, std::string_view type, Value* x, Value* y) {
  Number p = number(b, x), q = number(b, y);
  auto term = [&](Value* u, Value* v) -> Value* { return u && v ? b.op(type, {u, v}) : nullptr; };
  return b.complex(minus(b, term(p.re, q.re), term(p.im, q.im)), plus(b, term(p.re, q.im), term(p.im, q.re)));
}

Value* multiply(Builder& b, Value* x, Value* y) { return bilinear(b, "Mul", x, y); }

Value* negative(Builder& b, Value* z) {
  if (z->parts.pairs) return b.from_pairs(b.op("Neg", {z->parts.pairs}));
  Number n = number(b, z);
  return b.complex(b.op("Neg", {n.re}), n.im ? b.op("Neg", {n.im}) : nullptr);
}

Value* size_squared(Builder& b, Number z) { return plus(b, b.mul(z.re, z.re), z.im ? b.mul(z.im, z.im) : nullptr); }

Value* reciprocal(Builder& b, Value* z) {
  Number n = number(b, z);
  if (!n.im) return b.complex(b.op("Reciprocal", {n.re}), nullptr);
  Value* scale = size_squared(b, n);
  return b.complex(b.div(n.re, scale), b.op("Neg", {b.div(n.im, scale)}));
}

Value* divide(Builder& b, Value* x, Value* y) {
  Number divisor = number(b, y);
  if (!divisor.im) {
    Number n = number(b, x);
    return b.complex(b.div(n.re, divisor.re), n.im ? b.div(n.im, divisor.re) : nullptr);
  }
  Number product = number(b, multiply(b, x, b.complex(divisor.re, b.op("Neg", {divisor.im}))));
  Value* scale = size_squared(b, divisor);
  return b.complex(b.div(product.re, scale), b.div(product.im, scale));
}

Value* absolute(Builder& b, Value* z) {
  Number n = number(b, z);
  if (!n.im) return b.op("Abs", {n.re});
  return b.reduce("ReduceL2", b.pairs(z), {rank_of(z)}, false);
}

Value* angle(Builder& b, Number z) {
  Value *zero = like(b, z.re, 0), *im = z.im ? z.im : zero;
  // The angle to the nearer half of the real axis; 0 / 0 is no angle at all.
  Value* slope = b.where(b.op("Equal", {im, zero}), im, b.div(im, b.op("Abs", {z.re})));
  Value* near = b.op("Atan", {slope});
  Value* half_turn =
      b.where(b.op("Less", {im, zero}), like(b, z.re, -std::numbers::pi), like(b, z.re, std::numbers::pi));
  return b.where(b.op("Less", {z.re, zero}), b.sub(half_turn, near), near);
}

Value* exponential(Builder& b, Value* z) {
  Number n = number(b, z);
  Value* size = b.op("Exp", {n.re});
  if (!n.im) return b.complex(size, nullptr);
  return b.complex(b.mul(size, b.op("Cos", {n.im})), b.mul(size, b.op("Sin", {n.im})));
}

Value* logarithm(Builder& b, Value* z) { return b.complex(b.op("Log", {absolute(b, z)}), angle(b, number(b, z))); }

// The root with a real part that is not negative. The smaller part follows from the larger, which nothing cancels in.
Value* square_root(Builder& b, Value* z) {
  Number n = number(b, z);
  Value *zero = like(b, n.re, 0), *half = like(b, n.re, 0.5), *im = n.im ? n.im : zero;
  Value* larger = b.op("Sqrt", {b.mul(half, b.add(b.op("Abs", {n.re}), absolute(b, z)))});
  Value* smaller = b.div(b.mul(half, b.op("Abs", {im})), larger);
  smaller = b.where(b.op("Equal", {larger, zero}), zero, smaller);
  Value* left = b.op("Less", {n.re, zero});
  Value* size = b.where(left, larger, smaller);
  return b.complex(b.where(left, smaller, larger), b.where(b.op("Less", {im, zero}), b.op("Neg", {size}), size));
}

// A function of the sum of a real and an imaginary number as products of functions of each.
struct Split {
  std::string_view re_of_re, re_of_im, im_of_re, im_of_im;
  bool negative = false;  // the imaginary part
};

Value* by_parts(Builder& b, Value* z, const Split& s) {
  Value *re = b.real_part(z), *im = b.imag_part(z);
  Value* imag = b.mul(b.op(s.im_of_re, {re}), b.op(s.im_of_im, {im}));
  return b.complex(b.mul(b.op(s.re_of_re, {re}), b.op(s.re_of_im, {im})), s.negative ? b.op("Neg", {imag}) : imag);
}

Value* sine(Builder& b, Value* z) { return by_parts(b, z, {"Sin", "Cosh", "Cos", "Sinh"}); }
Value* cosine(Builder& b, Value* z) { return by_parts(b, z, {"Cos", "Cosh", "Sin", "Sinh", true}); }
Value* hyperbolic_sine(Builder& b, Value* z) { return by_parts(b, z, {"Sinh", "Cos", "Cosh", "Sin"}); }
Value* hyperbolic_cosine(Builder& b, Value* z) { return by_parts(b, z, {"Cosh", "Cos", "Sinh", "Sin"}); }

// (t + iu) / (1 + itu), where t is the tangent of the real and u that of the imaginary part: nothing overflows.
Value* hyperbolic_tangent(Builder& b, Value* z) {
  Value *t = b.op("Tanh", {b.real_part(z)}), *u = b.op("Tan", {b.imag_part(z)});
  return divide(b, b.complex(t, u), b.complex(like(b, t, 1), b.mul(t, u)));
}

Value* times_i(Builder& b, Value* z) { return b.complex(b.op("Neg", {b.imag_part(z)}), b.real_part(z)); }

Value* tangent(Builder& b, Value* z) {
  Value* turned = hyperbolic_tangent(b, times_i(b, z));
  return b.complex(b.imag_part(turned), b.op("Neg", {b.real_part(turned)}));
}

Value* sigmoid(Builder& b, Value* z) {
  Value* half = like(b, z, 0.5);
  return b.add(half, b.mul(half, hyperbolic_tangent(b, b.mul(half, z))));
}

Value* is_zero(Builder& b, Value* z) { return b.op("Equal", {z, like(b, z, 0)}); }

Value* power(Builder& b, Value* x, Value* y) {
  Value* out = exponential(b, multiply(b, y, logarithm(b, x)));
  Value *re = b.real_part(y), *missing = like(b, re, std::numeric_limits<double>::quiet_NaN());
  Value* of_zero = b.where(b.op("Greater", {re, like(b, re, 0)}), like(b, re, 0), missing);
  of_zero = b.where(is_zero(b, y), like(b, re, 1), of_zero);
  return b.where(is_zero(b, x), b.complex(of_zero, nullptr), out);
}

Value* equal(Builder& b, Value* x, Value* y) {
  Value* re = b.op("Equal", {b.real_part(x), b.real_part(y)});
  return b.op("And", {re, b.op("Equal", {b.imag_part(x), b.imag_part(y)})});
}

Value* either_part(Builder& b, std::string_view type, Value* z) {
  Number n = number(b, z);
  Value* re = b.op(type, {n.re});
  return n.im ? b.op("Or", {re, b.op(type, {n.im})}) : re;
}

// ---- operators that move or add elements: on pairs ---------------------------------------------------------------

int64_t integer(const Attributes& attributes, std::string_view name, int64_t otherwise) {
  for (const Attribute& a : attributes)
    if (a.name == name) return std::get<int64_t>(a.data);
  return otherwise;
}

// The attributes with an axis that counts from the front.
Attributes from_front(Attributes attributes, int64_t rank) {
  for (Attribute& a : attributes)
    if (int64_t* axis = std::get_if<int64_t>(&a.data); axis && a.name == "axis" && *axis < 0) *axis += rank;
  return attributes;
}

// The contents of an input of integers.
Vector<Dim> contents(std::string_view type, const Value* v) {
  if (!v->contents) throw unknown(fmt::format("{} with an argument that is known only at run time,", type));
  return *v->contents;
}

Vector<int64_t> axes_of(std::string_view type, const Inputs& inputs, const Attributes& attributes) {
  Vector<int64_t> axes;
  for (const Attribute& a : attributes)
    if (a.name == "axes") axes = std::get<Vector<int64_t>>(a.data);
  if (inputs.size() > 1 && inputs[1])
    for (Dim d : contents(type, inputs[1])) axes.push_back(d.constant().value_or(0));
  if (axes.empty()) {
    axes.resize(inputs[0]->rank());
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& a : axes) a += a < 0 ? rank_of(inputs[0]) : 0;
  return axes;
}

Value* reduced(Builder& b, std::string_view type, const Inputs& inputs, const Attributes& attributes) {
  Value* z = inputs[0];
  if (z->rank() == 0) return z;
  bool keep = integer(attributes, "keepdims", 1) != 0;
  return b.from_pairs(b.reduce(type, b.pairs(z), axes_of(type, inputs, attributes), keep));
}

bool is_known_zero(const Value* z) {
  const Value* re = z->parts.real;
  return re && !z->parts.imag && re->constant && re->constant->numel() == 1 && re->constant->reals()[0] == 0;
}

Value* padded(Builder& b, const Inputs& inputs, const Attributes& attributes) {
  if (inputs.size() > 2 && inputs[2] && !is_known_zero(inputs[2])) throw unknown("Pad with a number other than 0");
  Vector<Dim> pads = contents("Pad", inputs[1]);
  pads.insert(pads.begin() + rank_of(inputs[0]), b.dim(0));
  pads.push_back(b.dim(0));
  return b.from_pairs(b.op("Pad", {b.pairs(inputs[0]), b.symbolic(pads)}, attributes));
}

Value* tiled(Builder& b, const Inputs& inputs) {
  Vector<Dim> repeats = contents("Tile", inputs[1]);
  repeats.push_back(b.dim(1));
  return b.from_pairs(b.op("Tile", {b.pairs(inputs[0]), b.symbolic(repeats)}));
}

Value* sliced(Builder& b, Inputs inputs) {
  if (inputs.size() > 3 && inputs[3]) {
    Vector<int64_t> axes;
    for (Dim d : contents("Slice", inputs[3]))
      axes.push_back(*d.constant() + (*d.constant() < 0 ? rank_of(inputs[0]) : 0));
    inputs[3] = b.ints(axes);
  }
  inputs[0] = b.pairs(inputs[0]);
  return b.from_pairs(b.op("Slice", inputs));
}

Value* chosen(Builder& b, const Inputs& inputs) {
  Value* condition = b.unsqueeze(inputs[0], {rank_of(inputs[0])});
  return b.from_pairs(b.where(condition, b.pairs(inputs[1]), b.pairs(inputs[2])));
}

Value* sum(Builder& b, std::string_view type, const Inputs& inputs) {
  Number p = number(b, inputs[0]), q = number(b, inputs[1]);
  if (p.im && q.im && inputs[0]->parts.pairs && inputs[1]->parts.pairs)
    return b.from_pairs(b.op(type, {b.pairs(inputs[0]), b.pairs(inputs[1])}));
  Value* im = type == "Add" ? plus(b, p.im, q.im) : minus(b, p.im, q.im);
  return b.complex(b.op(type, {p.re, q.re}), im);
}

// The same operator on pairs, for operators whose positions count axes from the front.
Value* on_all_pairs(Builder& b, std::string_view type, const Inputs& inputs, const Attributes& attributes) {
  Inputs reals;
  for (Value* v : inputs) reals.push_back(v && is_complex(v->dtype) ? b.pairs(v) : v);
  return b.from_pairs(b.op(type, reals, from_front(attributes, rank_of(inputs[0]))));
}

// The same operator on each part.
Value* on_each_part(Builder& b, std::string_view type, const Inputs& inputs, const Attributes& attributes) {
  for (const Attribute& a : attributes)
    if (a.name == "reduction" && std::get<std::string>(a.data) != "add" && std::get<std::string>(a.data) != "none")
      throw unknown(fmt::format("{} with reduction", type));
  Inputs re, im;
  for (Value* v : inputs) {
    bool complex = v && is_complex(v->dtype);
    re.push_back(complex ? b.real_part(v) : v);
    im.push_back(complex ? b.imag_part(v) : v);
  }
  return b.complex(b.op(type, re, attributes), b.op(type, im, attributes));
}

struct Function {
  std::string_view type;
  Value* (*compute)(Builder& b, Value* z);
};

constexpr Function functions[] = {
    {"Neg", negative},         {"Reciprocal", reciprocal},  {"Abs", absolute}, {"Exp", exponential},
    {"Log", logarithm},        {"Sqrt", square_root},       {"Sin", sine},     {"Cos", cosine},
    {"Sinh", hyperbolic_sine}, {"Cosh", hyperbolic_cosine}, {"Tan", tangent},  {"Tanh", hyperbolic_tangent},
    {"Sigmoid", sigmoid},
};

bool among(std::string_view type, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), type) != names.end();
}

}  // namespace

bool has_complex(std::span<Value* const> inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](Value* v) { return v && is_complex(v->dtype); });
}

Value* on_complex(Builder& b, std::string_view type, const Inputs& inputs, const Attributes& attributes) {
  for (const Function& f : functions)
    if (f.type == type) return f.compute(b, inputs[0]);
  if (type == "Identity") return inputs[0];
  if (type == "Mul" || type == "MatMul") return bilinear(b, type, inputs[0], inputs[1]);
  if (type == "Div") return divide(b, inputs[0], inputs[1]);
  if (type == "Pow") return power(b, inputs[0], inputs[1]);
  if (type == "Add" || type == "Sub") return sum(b, type, inputs);
  if (type == "Equal") return equal(b, inputs[0], inputs[1]);
  if (type == "IsNaN" || type == "IsInf") return either_part(b, type, inputs[0]);
  if (type == "Where") return chosen(b, inputs);
  if (type == "Pad") return padded(b, inputs, attributes);
  if (type == "Slice") return sliced(b, inputs);
  if (type == "Tile") return tiled(b, inputs);
  if (type == "ReduceSum" || type == "ReduceMean") return reduced(b, type, inputs, attributes);
  if (among(type, {"Concat", "Gather", "GatherND", "ScatterND", "CumSum"}))
    return on_all_pairs(b, type, inputs, attributes);
  if (among(type, {"Trilu", "GatherElements", "ScatterElements"})) return on_each_part(b, type, inputs, attributes);
  throw unknown(type);
}

Value* cast_complex(Builder& b, Value* x, DType to) {
  DType part = part_type(to);
  if (!is_complex(x->dtype)) return b.complex(b.cast(x, part), nullptr);
  if (to == DType::Bool) return b.op("Not", {is_zero(b, x)});
  if (!is_complex(to)) return b.cast(b.real_part(x), to);
  if (x->parts.pairs) return b.from_pairs(b.cast(x->parts.pairs, part));
  Number n = number(b, x);
  return b.complex(b.cast(n.re, part), n.im ? b.cast(n.im, part) : nullptr);
}

Value* on_pairs(Builder& b, Value* z, Shape to, Value* (Builder::*helper)(Value*, const Shape&)) {
  if (!number(b, z).im) return b.complex((b.*helper)(b.real_part(z), to), nullptr);
  to.push_back(b.dim(2));
  return b.from_pairs((b.*helper)(b.pairs(z), to));
}

TensorView pairs_of(const TensorView& view) {
  TensorView out = view;
  out.dtype = part_type(view.dtype);
  out.offset *= 2;
  for (int64_t& s : out.strides) s *= 2;
  out.sizes.push_back(2);
  out.strides.push_back(1);
  return out;
}

// ---- the builder's own --------------------------------------------------------------------------------------------

Value* Builder::complex(Value* real, Value* imag) {
  if (imag) {
    Shape shape = broadcast(real->shape, imag->shape);
    real = expand(real, shape);
    imag = expand(imag, shape);
  }
  Value* v = graph().new_value();
  v->kind = Value::Kind::Complex;
  v->dtype = complex_type(real->dtype);
  v->shape = real->shape;
  v->parts = {nullptr, real, imag};
  return v;
}

Value* Builder::from_pairs(Value* pairs) {
  Value* v = graph().new_value();
  v->kind = Value::Kind::Complex;
  v->dtype = complex_type(pairs->dtype);
  v->shape.assign(pairs->shape.begin(), pairs->shape.end() - 1);
  v->parts.pairs = pairs;
  return v;
}

Value* Builder::pairs(Value* z) {
  if (z->parts.pairs) return z->parts.pairs;
  int64_t last = static_cast<int64_t>(z->rank());
  return concat({unsqueeze(real_part(z), {last}), unsqueeze(imag_part(z), {last})}, last);
}

Value* Builder::real_part(Value* z) {
  if (!is_complex(z->dtype)) return z;
  return z->parts.real ? z->parts.real : select(z->parts.pairs, static_cast<int64_t>(z->rank()), dim(0));
}

Value* Builder::imag_part(Value* z) {
  if (!is_complex(z->dtype)) return full(z->shape, scalar(part_type(complex_type(z->dtype)), 0));
  if (z->parts.imag) return z->parts.imag;
  if (!z->parts.pairs) return full(z->shape, scalar(part_type(z->dtype), 0));
  return select(z->parts.pairs, static_cast<int64_t>(z->rank()), dim(1));
}

}  // namespace lithify::onnx
