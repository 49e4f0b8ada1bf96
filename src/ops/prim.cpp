// Numbers, strings, lists, dicts and what a program asks of a tensor: computed at export, no nodes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/checked.hpp"
#include "eval/evaluator.hpp"
#include "ops/register.hpp"

namespace lithify::ops {
namespace {

using eval::Device;
using eval::Dict;
using eval::List;
using eval::None;
using eval::Object;
using eval::Promote;
using eval::Registry;
using eval::run_time_number;
using eval::Tensor;
using eval::TensorPtr;
using eval::Tuple;

// ---- numbers --------------------------------------------------------------------------------------------------------

std::optional<double> known_real(const Value& v) {
  if (auto* d = v.get_if<double>()) return *d;
  if (auto* b = v.get_if<bool>()) return *b ? 1.0 : 0.0;
  if (v.is_int() && v.integer().is_constant()) return static_cast<double>(*v.integer().constant());
  return std::nullopt;
}

std::optional<Dim> as_int(Call& c, const Value& v) {
  if (v.is_int()) return v.integer();
  if (auto* b = v.get_if<bool>()) return c.sym.constant(*b);
  return std::nullopt;
}

Value as_run_time(Call& c, const Value& v) {
  if (v.is_tensor()) return v;
  if (v.is<double>()) return run_time_number(c.as_tensor(v, DType::Double));
  return run_time_number(c.as_tensor(v));
}

/// An operator on two numbers: on integers by expressions, on reals at export, else by the tensor rule at run time.
struct Arithmetic {
  std::string_view name;
  std::function<std::optional<Value>(Call&, Dim, Dim)> integers;
  std::function<Value(double, double)> reals;
  NumberArguments roles = {};
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

std::optional<Value> int_true_div(Call&, Dim a, Dim b) {
  if (a.is_constant() && b.is_constant())
    return Value(static_cast<double>(*a.constant()) / static_cast<double>(*b.constant()));
  return std::nullopt;
}

std::optional<Value> int_bits(Dim a, Dim b, int64_t (*f)(int64_t, int64_t), Call& c) {
  if (a.is_constant() && b.is_constant()) return Value(c.sym.constant(f(*a.constant(), *b.constant())));
  return std::nullopt;
}

void register_arithmetic(Registry& ops) {
  const NumberArguments operand = {{"b", Role::Operand}}, divisor = {{"b", Role::Divisor}};
  const Arithmetic table[] = {
      {"aten::add", [](Call& c, Dim a, Dim b) { return Value(c.sym.add(a, b)); },
       [](double a, double b) -> Value { return a + b; }, operand},
      {"aten::sub", [](Call& c, Dim a, Dim b) { return Value(c.sym.sub(a, b)); },
       [](double a, double b) -> Value { return a - b; }, operand},
      {"aten::mul", [](Call& c, Dim a, Dim b) { return Value(c.sym.mul(a, b)); },
       [](double a, double b) -> Value { return a * b; }, operand},
      {"aten::div", int_true_div, [](double a, double b) -> Value { return a / b; }, divisor},
      {"aten::truediv", int_true_div, [](double a, double b) -> Value { return a / b; }},
      {"aten::floordiv", [](Call& c, Dim a, Dim b) { return Value(c.sym.floor_div(a, b)); }, python_floor_div},
      {"aten::remainder", [](Call& c, Dim a, Dim b) { return Value(c.sym.mod(a, b)); }, python_mod, divisor},
      {"aten::fmod", [](Call&, Dim, Dim) { return std::optional<Value>(); },
       [](double a, double b) -> Value { return std::fmod(a, b); }},
      {"aten::pow", int_power, [](double a, double b) -> Value { return std::pow(a, b); }},
      {"prim::min", [](Call& c, Dim a, Dim b) { return Value(c.sym.min(a, b)); },
       [](double a, double b) -> Value { return std::min(a, b); }},
      {"prim::max", [](Call& c, Dim a, Dim b) { return Value(c.sym.max(a, b)); },
       [](double a, double b) -> Value { return std::max(a, b); }},
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
  for (const Arithmetic& row : table) {
    std::string name(row.name);
    auto rule = [row, name](Call& c) -> Value {
      const Value &a = c.arg("a"), &b = c.arg("b");
      auto x = as_int(c, a), y = as_int(c, b);
      if (x && y) {
        if (auto v = row.integers(c, *x, *y)) return *v;
      } else {
        auto p = known_real(a), q = known_real(b);
        if (p && q) return row.reals(*p, *q);
      }
      std::string tensor_op = name == "prim::min" ? "aten::minimum" : name == "prim::max" ? "aten::maximum" : name;
      if (name == "aten::floordiv") tensor_op = "aten::floor_divide";
      if (name == "aten::truediv") tensor_op = "aten::div";
      Value result = c.call(tensor_op, {as_run_time(c, a), as_run_time(c, b)});
      if (result.is_tensor()) result.tensor()->is_number = true;
      return result;
    };
    ops.add(name + ".number(Scalar a, Scalar b) -> Scalar", rule).numbers(row.roles);
  }
  struct Bits {
    std::string_view name;
    int64_t (*f)(int64_t, int64_t);
  };
  for (const Bits& row : {Bits{"aten::__and__", [](int64_t a, int64_t b) { return a & b; }},
                          Bits{"aten::__or__", [](int64_t a, int64_t b) { return a | b; }},
                          Bits{"aten::__xor__", [](int64_t a, int64_t b) { return a ^ b; }},
                          Bits{"aten::__lshift__", [](int64_t a, int64_t b) { return a << (b & 63); }},
                          Bits{"aten::__rshift__", [](int64_t a, int64_t b) { return a >> (b & 63); }}}) {
    ops.add(std::string(row.name) + ".number(Scalar a, Scalar b) -> Scalar", [row](Call& c) -> Value {
      const Value &a = c.arg("a"), &b = c.arg("b");
      auto x = as_int(c, a), y = as_int(c, b);
      if (x && y)
        if (auto v = int_bits(*x, *y, row.f, c)) {
          if (a.is<bool>() && b.is<bool>()) return !v->integer().is(0);
          return *v;
        }
      Value result = c.call(row.name, {as_run_time(c, a), as_run_time(c, b)});
      if (result.is_tensor()) result.tensor()->is_number = true;
      return result;
    });
  }
}

// A real number that is a size over a constant, as code has it that rounds sizes: float(n) / 32. Floating point holds
// it as far as its rounding goes.
struct Quotient {
  Dim over;
  int64_t under;
};

std::optional<Quotient> quotient(Call& c, const onnx::Value* v) {
  if (v->contents && v->contents->size() == 1) return Quotient{v->contents->front(), 1};
  const onnx::Node* node = v->producer;
  if (!node) return std::nullopt;
  if (node->op_type == "Cast" && is_float(v->dtype)) return quotient(c, node->inputs[0]);
  if (node->op_type != "Mul" && node->op_type != "Div") return std::nullopt;
  const onnx::Value *x = node->inputs[0], *factor = node->inputs[1];
  if (x->is_constant() && node->op_type == "Mul") std::swap(x, factor);
  if (!factor->is_constant() || factor->constant->numel() != 1) return std::nullopt;
  const double number = factor->constant->reals()[0];
  const std::optional<Quotient> q = quotient(c, x);
  if (!q || number < 1 || number > 1 << 20 || number != std::floor(number) || q->under > 1 << 20) return std::nullopt;
  const auto whole = static_cast<int64_t>(number);
  if (node->op_type == "Div") return Quotient{q->over, q->under * whole};
  return Quotient{c.sym.mul(q->over, c.sym.constant(whole)), q->under};
}

// Real functions of one number: name, and the function.
struct RealFunction {
  std::string_view name;
  double (*f)(double);
  bool to_int;  // Python's math.floor and math.ceil give ints
};

void register_functions(Registry& ops) {
  for (const RealFunction& row :
       {RealFunction{"aten::ceil", std::ceil, true}, RealFunction{"aten::floor", std::floor, true},
        RealFunction{"aten::round", std::nearbyint, false}, RealFunction{"aten::sqrt", std::sqrt, false},
        RealFunction{"aten::exp", std::exp, false}, RealFunction{"aten::log", std::log, false},
        RealFunction{"aten::log2", std::log2, false}, RealFunction{"aten::log10", std::log10, false},
        RealFunction{"aten::log1p", std::log1p, false}, RealFunction{"aten::sin", std::sin, false},
        RealFunction{"aten::cos", std::cos, false}, RealFunction{"aten::tan", std::tan, false},
        RealFunction{"aten::tanh", std::tanh, false}, RealFunction{"aten::erf", std::erf, false},
        RealFunction{"aten::fabs", std::fabs, false}}) {
    std::string name(row.name);
    ops.add(name + ".number(Scalar a) -> Scalar", [row, name](Call& c) -> Value {
      const Value& a = c.arg("a");
      if (row.to_int && a.is_int()) return a;
      if (auto v = known_real(a)) {
        double r = row.f(*v);
        if (row.to_int) return c.sym.constant(static_cast<int64_t>(r));
        return r;
      }
      if (row.to_int)
        if (auto q = quotient(c, c.as_tensor(a))) {
          const Dim under = c.sym.constant(q->under);
          return name == "aten::ceil" ? c.sym.ceil_div(q->over, under) : c.sym.floor_div(q->over, under);
        }
      Value result = c.call(name, {as_run_time(c, a)});
      result.tensor()->is_number = true;
      if (row.to_int) return c.onnx.symbol_of(c.onnx.cast(result.tensor()->read(c.onnx), DType::Int64), "n");
      return result;
    });
  }
  ops.add("aten::neg.number(Scalar a) -> Scalar", [](Call& c) -> Value {
    if (auto i = as_int(c, c.arg("a"))) return c.sym.neg(*i);
    if (auto v = known_real(c.arg("a"))) return -*v;
    return c.call("aten::neg", {as_run_time(c, c.arg("a"))});
  });
  for (const char* name : {"prim::abs", "aten::abs"})
    ops.add(std::string(name) + ".number(Scalar a) -> Scalar", [](Call& c) -> Value {
      if (auto i = as_int(c, c.arg("a"))) return c.sym.max(*i, c.sym.neg(*i));
      if (auto v = known_real(c.arg("a"))) return std::fabs(*v);
      return c.call("aten::abs", {as_run_time(c, c.arg("a"))});
    });
  ops.add("aten::__not__(bool a) -> bool", [](Call& c) -> Value {
    if (auto* b = c.arg("a").get_if<bool>()) return !*b;
    Value r = c.call("aten::logical_not", {c.arg("a")});
    r.tensor()->is_number = true;
    return r;
  });
  ops.add("prim::ite(Any b, Any t, Any f) -> Any", [](Call& c) -> Value {
    if (auto* b = c.arg("b").get_if<bool>()) return c.arg(*b ? "t" : "f");
    Value r =
        c.call("aten::where", {as_run_time(c, c.arg("b")), as_run_time(c, c.arg("t")), as_run_time(c, c.arg("f"))});
    r.tensor()->is_number = true;
    return r;
  });
  // min, max and sum of a list of numbers, min and max of two lists.
  for (const char* name : {"prim::min", "prim::max"})
    ops.add(std::string(name) + ".self(t[] self) -> t", [op = std::string(name)](Call& c) -> Value {
      const std::vector<Value>& items = c.arg("self").items();
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

// ---- numbers and tensors
// ------------------------------------------------------------------------------------------------

Value to_int(Call& c, const Value& v) {
  if (v.is_int()) return v;
  if (auto* b = v.get_if<bool>()) return c.sym.constant(*b);
  if (auto* d = v.get_if<double>()) return c.sym.constant(static_cast<int64_t>(*d));
  if (auto* s = v.get_if<std::string>()) return c.sym.constant(std::stoll(*s));
  onnx::Value* t = c.as_tensor(v);
  if (t->contents && t->contents->size() == 1) return t->contents->front();
  if (t->constant && t->constant->numel() == 1) return c.sym.constant(static_cast<int64_t>(t->constant->reals()[0]));
  if (auto q = quotient(c, t); q && q->over.lower().value_or(-1) >= 0)
    return c.sym.floor_div(q->over, c.sym.constant(q->under));
  return c.onnx.symbol_of(c.onnx.cast(t, DType::Int64), "n");
}

// A tensor of one element as a number that is known only at run time.
Value only_element(Call& c, onnx::Value* t) { return run_time_number(c.onnx.reshape(t, {})); }

Value to_float(Call& c, const Value& v) {
  if (auto d = known_real(v)) return *d;
  if (auto* s = v.get_if<std::string>()) return std::stod(*s);
  onnx::Value* t = c.as_tensor(v);
  if (t->constant && t->constant->numel() == 1) return t->constant->reals()[0];
  return only_element(c, is_float(t->dtype) ? t : c.onnx.cast(t, DType::Double));
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

Value nested_list(Call& c, onnx::Value* t, size_t dim, std::vector<int64_t>& at) {
  if (dim == t->rank()) {
    size_t flat = 0;
    for (size_t i = 0; i < at.size(); ++i)
      flat = flat * static_cast<size_t>(*t->shape[i].constant()) + static_cast<size_t>(at[i]);
    if (t->contents) return t->dtype == DType::Bool ? Value(!(*t->contents)[flat].is(0)) : Value((*t->contents)[flat]);
    if (t->constant) return t->constant->reals()[flat];
    onnx::Value* item = c.onnx.reshape(t, {c.onnx.numel(t->shape)});
    return to_scalar(c, Value(c.onnx.select(item, 0, c.sym.constant(static_cast<int64_t>(flat)))));
  }
  std::optional<int64_t> n = t->shape[dim].constant();
  if (!n) c.unsupported("tolist() of a tensor whose size is known only at run time");
  std::vector<Value> items;
  for (int64_t i = 0; i < *n; ++i) {
    at.push_back(i);
    items.push_back(nested_list(c, t, dim + 1, at));
    at.pop_back();
  }
  return Value::list(std::move(items));
}

void register_conversions(Registry& ops) {
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
  ops.add("aten::ScalarImplicit(Tensor a) -> Scalar", [](Call& c) { return to_scalar(c, c.arg("a")); });
  ops.add("aten::item(Tensor self) -> Scalar", [](Call& c) { return to_scalar(c, c.arg("self")); });
  ops.add("prim::tolist(Tensor a) -> Any", [](Call& c) -> Value {
    std::vector<int64_t> at;
    return nested_list(c, c.tensor("a"), 0, at);
  });
  ops.add("aten::tolist(Tensor a) -> Any", [](Call& c) { return c.call("prim::tolist", {c.arg("a")}); });
}

// ---- what a program asks of a tensor
// -------------------------------------------------------------------------------------

Value dtype_value(Call& c, DType t) { return c.sym.constant(torch_number(t)); }

void register_queries(Registry& ops) {
  ops.add("aten::size(Tensor self) -> int[]", [](Call& c) -> Value {
    std::vector<Value> sizes;
    for (Dim d : c.tensor("self")->shape) sizes.push_back(d);
    return Value::list(std::move(sizes));
  });
  ops.add("aten::size.int(Tensor self, int dim) -> int", [](Call& c) -> Value {
    onnx::Value* t = c.tensor("self");
    if (t->rank() == 0) c.mismatch("of a dimension of a 0-d tensor");
    return t->shape[static_cast<size_t>(c.dim("dim", t->rank()))];
  });
  ops.add("prim::shape(Tensor self) -> int[]", [](Call& c) { return c.call("aten::size", {c.arg("self")}); });
  for (std::string_view what : {"size", "stride"}) {
    ops.add(fmt::format("aten::sym_{}(Tensor self) -> int[]", what),
            [name = fmt::format("aten::{}", what)](Call& c) { return c.call(name, {c.arg("self")}); });
    ops.add(fmt::format("aten::sym_{}.int(Tensor self, int dim) -> int", what),
            [name = fmt::format("aten::{}", what)](Call& c) {
              return c.call(name, {c.arg("self"), c.arg("dim")});
            });
  }
  ops.add("aten::_shape_as_tensor(Tensor self) -> Tensor",
          [](Call& c) -> Value { return c.onnx.shape_of(c.tensor("self")); });
  for (const char* schema : {"aten::numel(Tensor self) -> int", "aten::sym_numel(Tensor self) -> int"})
    ops.add(schema, [](Call& c) -> Value { return c.onnx.numel(c.tensor("self")->shape); });
  for (const char* schema : {"aten::dim(Tensor self) -> int", "prim::ndim(Tensor self) -> int"})
    ops.add(schema, [](Call& c) -> Value { return c.sym.constant(static_cast<int64_t>(c.tensor("self")->rank())); });
  ops.add("prim::dtype(Tensor a) -> int", [](Call& c) { return dtype_value(c, c.tensor("a")->dtype); });
  ops.add("prim::device(Tensor a) -> Device", [](Call&) -> Value { return Device{"cpu"}; });
  ops.add("prim::layout(Tensor a) -> int", [](Call& c) -> Value { return c.sym.constant(0); });
  ops.add("prim::itemsize(Tensor a) -> int",
          [](Call& c) -> Value { return c.sym.constant(static_cast<int64_t>(byte_size(c.tensor("a")->dtype))); });
  for (const char* name : {"prim::is_cuda", "prim::is_quantized", "prim::is_sparse", "prim::is_mkldnn", "prim::is_mps",
                           "prim::is_meta", "prim::requires_grad", "prim::is_nested", "aten::is_inference",
                           "prim::is_vulkan", "prim::is_xpu", "prim::is_sparse_csr", "aten::is_conj", "aten::is_neg"})
    ops.add(std::string(name) + "(Tensor a) -> bool", [](Call&) -> Value { return false; });
  ops.add("aten::is_floating_point(Tensor self) -> bool",
          [](Call& c) -> Value { return is_float(c.tensor("self")->dtype); });
  ops.add("aten::is_complex(Tensor self) -> bool",
          [](Call& c) -> Value { return is_complex(c.tensor("self")->dtype); });
  ops.add("aten::is_signed(Tensor self) -> bool", [](Call& c) -> Value {
    DType t = c.tensor("self")->dtype;
    return !is_unsigned(t) && t != DType::Bool;
  });
  ops.add("aten::is_contiguous(Tensor self) -> bool", [](Call&) -> Value { return true; });
  ops.add("aten::is_nonzero(Tensor self) -> bool", [](Call& c) { return to_bool(c, c.arg("self")); });
  ops.add("aten::storage_offset(Tensor self) -> int", [](Call& c) -> Value {
    if (!c.tensor_ref("self")->dense()) c.unsupported("of a tensor that is not contiguous");
    return c.sym.constant(0);
  });
  // torch.export asserts that it is not negative, of data-dependent parts, and computes nothing from it.
  ops.add("aten::sym_storage_offset(Tensor self) -> int", [](Call& c) -> Value { return c.sym.constant(0); });
  ops.add("aten::stride(Tensor self) -> int[]", [](Call& c) -> Value {
    if (!c.tensor_ref("self")->dense()) c.unsupported("of a tensor that is not contiguous");
    const Shape& shape = c.tensor("self")->shape;
    std::vector<Value> out(shape.size());
    Dim stride = c.sym.constant(1);
    for (size_t i = shape.size(); i-- > 0;) {
      out[i] = stride;
      stride = c.sym.mul(stride, shape[i]);
    }
    return Value::list(std::move(out));
  });
  ops.add("aten::stride.int(Tensor self, int dim) -> int", [](Call& c) -> Value {
    Value all = c.call("aten::stride", {c.arg("self")});
    return all.items()[static_cast<size_t>(c.dim("dim", c.tensor("self")->rank()))];
  });
  ops.add("aten::get_device(Tensor self) -> int", [](Call& c) -> Value { return c.sym.constant(-1); });
  for (const char* schema : {"prim::data(Tensor(a) a) -> Tensor(a)",
                             "aten::requires_grad_(Tensor(a) a, bool requires_grad=True) -> Tensor(a)"})
    ops.add(schema, [](Call& c) { return c.arg("a"); });
  ops.add("aten::device(str a) -> Device", [](Call& c) -> Value { return Device{c.text("a")}; });
  ops.add("prim::type(Device self) -> str", [](Call& c) -> Value {
    const std::string& name = c.arg("self").get_if<Device>()->name;
    return name.substr(0, name.find(':'));
  });
  ops.add("prim::index(Device self) -> int?", [](Call&) -> Value { return None{}; });
}

// ---- strings
// ---------------------------------------------------------------------------------------------------------------

std::string shown(const Value& v, int depth = 0) {
  constexpr int most_nested = 64;
  if (depth > most_nested) throw Error(Code::LimitExceeded, "lists nest too deep to be shown");
  if (auto* s = v.get_if<std::string>()) return *s;
  if (v.is_int()) return v.integer().str();
  if (auto* b = v.get_if<bool>()) return *b ? "True" : "False";
  if (auto* d = v.get_if<double>()) return fmt::format("{}", *d);
  if (v.is_none()) return "None";
  if (auto* d = v.get_if<Device>()) return d->name;
  if (v.is_list() || v.is<Tuple>()) {
    std::string out;
    for (const Value& i : v.items()) {
      out += (out.empty() ? "" : ", ") + shown(i, depth + 1);
      if (out.size() > eval::max_text) throw Error(Code::LimitExceeded, "a list is too long to be shown");
    }
    return v.is_list() ? "[" + out + "]" : "(" + out + ")";
  }
  return "<" + v.kind_name() + ">";
}

std::string formatted(const std::string& pattern, const std::vector<Value>& arguments) {
  std::string out;
  size_t next = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    size_t close = pattern[i] == '{' ? pattern.find('}', i) : std::string::npos;
    if (close != std::string::npos && next < arguments.size()) {
      out += shown(arguments[next++]);
      i = close;
    } else {
      out += pattern[i];
    }
  }
  return out;
}

// The first elements of the tensor's memory under other sizes. Elements that are added have no defined values.
Value resize(Call& c, const Shape& to) {
  onnx::Builder& b = c.onnx;
  onnx::Value* x = c.tensor("self");
  constexpr int64_t contiguous = 0;
  if (c.maybe_integer("memory_format").value_or(contiguous) != contiguous) c.unsupported("another memory format");
  if (!c.tensor_ref("self")->dense()) c.unsupported("of a view");
  Dim from = b.numel(x->shape), count = b.numel(to);
  if (c.sym.sub(from, count).lower().value_or(-1) < 0) c.unsupported("to more elements");
  onnx::Value* flat = b.reshape(x, {from});
  c.tensor_ref("self")->rebind(Tensor(b.reshape(count == from ? flat : b.slice(flat, 0, b.dim(0), count), to)));
  return c.arg("self");
}

void register_strings(Registry& ops) {
  ops.add("aten::str(Any a) -> str", [](Call& c) -> Value { return shown(c.arg("a")); });
  ops.add("aten::add.str(str a, str b) -> str", [](Call& c) -> Value { return c.text("a") + c.text("b"); });
  ops.add("aten::eq.str(str a, str b) -> bool", [](Call& c) -> Value { return c.text("a") == c.text("b"); });
  ops.add("aten::ne.str(str a, str b) -> bool", [](Call& c) -> Value { return c.text("a") != c.text("b"); });
  ops.add("aten::len.str(str a) -> int",
          [](Call& c) -> Value { return c.sym.constant(static_cast<int64_t>(c.text("a").size())); });
  ops.add("aten::__contains__.str(str a, str b) -> bool",
          [](Call& c) -> Value { return c.text("a").find(c.text("b")) != std::string::npos; });
  ops.add("aten::startswith(str self, str substr, int start=0, int end=-1) -> bool",
          [](Call& c) -> Value { return c.text("self").starts_with(c.text("substr")); });
  ops.add("aten::endswith(str self, str substr, int start=0, int end=-1) -> bool",
          [](Call& c) -> Value { return c.text("self").ends_with(c.text("substr")); });
  for (auto& [name, map] :
       {std::pair<const char*, int (*)(int)>{"aten::lower", std::tolower}, {"aten::upper", std::toupper}})
    ops.add(std::string(name) + "(str self) -> str", [map = map](Call& c) -> Value {
      std::string s = c.text("self");
      for (char& ch : s) ch = static_cast<char>(map(static_cast<unsigned char>(ch)));
      return s;
    });
  ops.add("aten::join(str self, str[] values) -> str", [](Call& c) -> Value {
    std::string out;
    for (const Value& v : c.arg("values").items()) out += (out.empty() ? "" : c.text("self")) + shown(v);
    return out;
  });
  ops.add("aten::replace(str self, str old, str new, int max=-1) -> str", [](Call& c) -> Value {
    std::string s = c.text("self"), from = c.text("old"), to = c.text("new");
    for (size_t at = 0; !from.empty() && (at = s.find(from, at)) != std::string::npos; at += to.size())
      s.replace(at, from.size(), to);
    return s;
  });
  // format(self, ...) and percentFormat take any number of arguments: the schema lists as many as programs use.
  std::string many;
  for (char x = 'a'; x <= 'p'; ++x) many += std::string(", Any? ") + x + "=None";
  for (const char* name : {"aten::format", "aten::percentFormat"})
    ops.add(std::string(name) + "(str self" + many + ") -> str", [](Call& c) -> Value {
      std::vector<Value> arguments;
      for (char x = 'a'; x <= 'p'; ++x) arguments.push_back(c.arg(std::string(1, x)));
      return formatted(c.text("self"), arguments);
    });
  // What a program only says has no effect on the model.
  for (const char* name : {"aten::warn", "prim::Print"})
    ops.add(std::string(name) + "(Any? self=None" + many + ") -> ()", [](Call&) -> Value { return None{}; });
  ops.add("prim::RaiseException(str msg, str? cls=None) -> ()", [](Call& c) -> Value {
    throw Error(Code::ProgramRaises, fmt::format("the program raises: {}", c.text("msg")));
  });
  for (const char* schema :
       {"aten::set_grad_enabled(bool val) -> ()", "aten::manual_seed(int seed) -> ()",
        "profiler::_record_function_enter_new(str name, str? args=None) -> Any",
        "profiler::_record_function_exit(Any record) -> ()", "aten::_assert_scalar(Scalar self, str assert_msg) -> ()",
        "aten::_assert_async(Tensor self) -> ()", "aten::_assert_async.msg(Tensor self, str assert_msg) -> ()",
        "aten::_assert_tensor_metadata(Tensor a, int[]? size=None, int[]? stride=None, ScalarType? "
        "dtype=None, *, Device? device=None, Layout? layout=None) -> ()",
        "aten::sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()",
        "aten::sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()"})
    ops.add(schema, [](Call&) -> Value { return None{}; });
  for (const char* schema :
       {"aten::_functional_assert_scalar(Scalar self, str assert_msg, Tensor dep_token) -> Tensor",
        "aten::_functional_assert_async.msg(Tensor self, str assert_msg, Tensor dep_token) -> Tensor"})
    ops.add(schema, [](Call& c) { return c.arg("dep_token"); });
  ops.add("aten::set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)", [](Call& c) -> Value {
    c.tensor_ref("self")->rebind(*c.tensor_ref("source"));
    return c.arg("self");
  });
  ops.add("aten::resize_(Tensor(a!) self, int[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)",
          [](Call& c) { return resize(c, c.sizes("size")); });
  ops.add("aten::resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor(a!)",
          [](Call& c) { return resize(c, c.tensor("the_template")->shape); });
  ops.add("aten::is_grad_enabled() -> bool", [](Call&) -> Value { return false; });
  for (const char* name : {"prim::is_scripting", "aten::is_scripting", "aten::_is_tracing", "aten::is_autocast_enabled",
                           "aten::is_autocast_cpu_enabled"})
    ops.add(std::string(name) + "(Any? a=None) -> bool",
            [name = std::string(name)](Call&) -> Value { return name.ends_with("is_scripting"); });
}

// ---- lists, tuples and dicts
// ------------------------------------------------------------------------------------------------

std::vector<Value> sliced(Call& c, const std::vector<Value>& items) {
  int64_t n = static_cast<int64_t>(items.size()), step = c.integer("step");
  auto bound = [&](const char* name, int64_t otherwise) {
    std::optional<int64_t> v = c.maybe_integer(name);
    if (!v) return otherwise;
    return std::clamp<int64_t>(*v < 0 ? *v + n : *v, 0, n);
  };
  std::vector<Value> out;
  if (step < 1) c.unsupported("a slice with a step below 1");
  for (int64_t i = bound("start", 0), end = bound("end", n); i < end; i += step)
    out.push_back(items[static_cast<size_t>(i)]);
  return out;
}

size_t list_index(Call& c, size_t size, int64_t i) {
  int64_t n = static_cast<int64_t>(size), at = i < 0 ? i + n : i;
  if (at < 0 || at >= n) c.mismatch(fmt::format("index {} of a list of {} elements", i, n));
  return static_cast<size_t>(at);
}

Dict& dict_of(Call& c, std::string_view name) {
  auto* d = c.arg(name).get_if<std::shared_ptr<Dict>>();
  if (!d) throw Error(Code::UnsupportedOverload, fmt::format("{} of a {}", c.schema.name, c.arg(name).kind_name()));
  (*d)->check();
  return **d;
}

bool is_element(Call& c, const Value& v, const Value& wanted) {
  const std::optional<bool> e = eval::equal(c.sym, v, wanted);
  if (!e) c.unsupported("the elements are known only at run time");
  return *e;
}

/// Numbers of the run are compared at run time.
Value contains(Call& c, const std::vector<Value>& items, const Value& wanted) {
  Value some = false;
  for (const Value& v : items) {
    if (v.is_number() && wanted.is_number() && !eval::equal(c.sym, v, wanted))
      some = c.call("aten::__or__", {some, c.call("aten::eq", {v, wanted})});
    else if (is_element(c, v, wanted))
      return true;
  }
  return some;
}

Value known(Call& c, std::optional<bool> v) {
  if (!v) c.unsupported("the comparison is decided only at run time");
  return *v;
}

void register_lists(Registry& ops) {
  ops.add("aten::len.t(t[] a) -> int",
          [](Call& c) -> Value { return c.sym.constant(static_cast<int64_t>(c.arg("a").items().size())); });
  ops.add("aten::len.Tensor(Tensor a) -> int", [](Call& c) -> Value {
    onnx::Value* t = c.tensor("a");
    if (t->rank() == 0) c.mismatch("len() of a 0-d tensor");
    return t->shape[0];
  });
  ops.add("aten::len.Dict(Any a) -> int",
          [](Call& c) -> Value { return c.sym.constant(static_cast<int64_t>(dict_of(c, "a").items.size())); });
  ops.add("aten::append(t[] self, Any el) -> t[]", [](Call& c) -> Value {
    c.arg("self").list_items().push_back(c.arg("el"));
    return c.arg("self");
  });
  ops.add("aten::extend(t[] self, t[] other) -> ()", [](Call& c) -> Value {
    std::vector<Value> more = c.arg("other").items();
    std::vector<Value>& items = c.arg("self").list_items();
    items.insert(items.end(), more.begin(), more.end());
    return None{};
  });
  ops.add("aten::insert(t[] self, int idx, Any el) -> ()", [](Call& c) -> Value {
    std::vector<Value>& items = c.arg("self").list_items();
    int64_t n = static_cast<int64_t>(items.size()), i = c.integer("idx");
    items.insert(items.begin() + std::clamp<int64_t>(i < 0 ? i + n : i, 0, n), c.arg("el"));
    return None{};
  });
  ops.add("aten::pop.t(t[] self, int idx=-1) -> t", [](Call& c) -> Value {
    std::vector<Value>& items = c.arg("self").list_items();
    size_t i = list_index(c, items.size(), c.integer("idx"));
    Value out = items[i];
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
    return out;
  });
  ops.add("aten::clear.t(t[] self) -> ()", [](Call& c) -> Value {
    c.arg("self").list_items().clear();
    return None{};
  });
  ops.add("aten::reverse.t(t[] self) -> ()", [](Call& c) -> Value {
    std::reverse(c.arg("self").list_items().begin(), c.arg("self").list_items().end());
    return None{};
  });
  for (const char* schema : {"aten::copy.t(t[] self) -> t[]", "aten::list.t(t[] self) -> t[]"})
    ops.add(schema, [](Call& c) -> Value { return Value::list(c.arg("self").items()); });
  ops.add("aten::list.str(str self) -> str[]", [](Call& c) -> Value {
    std::vector<Value> out;
    for (char ch : c.text("self")) out.push_back(std::string(1, ch));
    return Value::list(std::move(out));
  });
  ops.add("aten::index.list(t[] self, Any el) -> int", [](Call& c) -> Value {
    const std::vector<Value>& items = c.arg("self").items();
    for (size_t i = 0; i < items.size(); ++i)
      if (is_element(c, items[i], c.arg("el"))) return c.sym.constant(static_cast<int64_t>(i));
    throw Error(Code::ProgramRaises, "the program looks for an element that its list does not have");
  });
  ops.add("aten::count(t[] self, Any el) -> int", [](Call& c) -> Value {
    int64_t n = 0;
    for (const Value& v : c.arg("self").items()) n += is_element(c, v, c.arg("el"));
    return c.sym.constant(n);
  });
  ops.add("aten::add.t(t[] a, t[] b) -> t[]",
          [](Call& c) -> Value {
            std::vector<Value> out = c.arg("a").items();
            const std::vector<Value>& more = c.arg("b").items();
            out.insert(out.end(), more.begin(), more.end());
            return c.arg("a").is<Tuple>() ? Value::tuple(std::move(out)) : Value::list(std::move(out));
          })
      .numbers({{"b", Role::Operand}});
  ops.add("aten::add_.t(t[] a, t[] b) -> t[]", [](Call& c) -> Value {
    c.call("aten::extend", {c.arg("a"), c.arg("b")});
    return c.arg("a");
  });
  ops.add("aten::mul.left_t(t[] l, int n) -> t[]", [](Call& c) -> Value {
    const std::vector<Value>& items = c.arg("l").items();
    std::vector<Value> out;
    for (int64_t i = 0; i < c.integer("n"); ++i) out.insert(out.end(), items.begin(), items.end());
    return Value::list(std::move(out));
  });
  ops.add("aten::mul.right_(int n, t[] l) -> t[]", [](Call& c) {
    return c.call("aten::mul", {c.arg("l"), c.arg("n")});
  });
  ops.add("aten::slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[]", [](Call& c) -> Value {
    std::vector<Value> out = sliced(c, c.arg("l").items());
    return c.arg("l").is<Tuple>() ? Value::tuple(std::move(out)) : Value::list(std::move(out));
  });
  ops.add("aten::slice.str(str string, int? start=None, int? end=None, int step=1) -> str", [](Call& c) -> Value {
    std::vector<Value> letters;
    for (char ch : c.text("string")) letters.push_back(std::string(1, ch));
    std::string out;
    for (const Value& v : sliced(c, letters)) out += shown(v);
    return out;
  });
  ops.add("aten::__getitem__.str(str s, int index) -> str", [](Call& c) -> Value {
    std::string s = c.text("s");
    return std::string(1, s[list_index(c, s.size(), c.integer("index"))]);
  });
  ops.add("aten::_set_item.t(t[] l, int idx, Any el) -> t[]", [](Call& c) -> Value {
    std::vector<Value>& items = c.arg("l").list_items();
    items[list_index(c, items.size(), c.integer("idx"))] = c.arg("el");
    return c.arg("l");
  });
  ops.add("aten::Delete.t(t[] self, int idx) -> ()", [](Call& c) -> Value {
    c.call("aten::pop", {c.arg("self"), c.arg("idx")});
    return None{};
  });
  ops.add("aten::remove(t[] self, Any el) -> ()", [](Call& c) -> Value {
    Value at = c.call("aten::index", {c.arg("self"), c.arg("el")});
    c.call("aten::pop", {c.arg("self"), at});
    return None{};
  });
  for (const char* schema :
       {"aten::sorted(t[] self, bool reverse=False) -> t[]", "aten::sort.any(t[] self, bool reverse=False) -> ()"})
    ops.add(schema, [](Call& c) -> Value {
      std::vector<Value> out = c.arg("self").items();
      auto before = [&](const Value& a, const Value& b) {
        if (auto* s = a.get_if<std::string>()) return *s < *b.get_if<std::string>();
        auto x = known_real(a), y = known_real(b);
        if (!x || !y) c.unsupported("the order is known only at run time");
        return *x < *y;
      };
      std::stable_sort(out.begin(), out.end(), before);
      if (c.flag("reverse")) std::reverse(out.begin(), out.end());
      if (c.schema.name == "aten::sorted") return Value::list(std::move(out));
      c.arg("self").list_items() = std::move(out);
      return None{};
    });
  for (const char* type : {"bool", "int", "float"}) {
    for (auto& [name, any] : {std::pair{"aten::all", false}, {"aten::any", true}})
      ops.add(fmt::format("{}.{}({}[] self) -> bool", name, type, type), [any = any](Call& c) -> Value {
        Value out = !any;
        for (const Value& v : c.arg("self").items()) {
          Value truth = c.call("aten::Bool", {v});
          out = c.call(any ? "aten::__or__" : "aten::__and__", {out, truth});
        }
        return out;
      });
  }
  ops.add("aten::__contains__.t(t[] l, Any item) -> bool",
          [](Call& c) -> Value { return contains(c, c.arg("l").items(), c.arg("item")); });
  for (const char* name : {"aten::eq", "aten::ne"}) {
    bool negate = std::string_view(name) == "aten::ne";
    for (const char* types :
         {".t_list(t[] a, t[] b) -> bool", ".device(Device a, Device b) -> bool", ".bool(bool a, bool b) -> bool"})
      ops.add(std::string(name) + types, [negate](Call& c) -> Value {
        std::optional<bool> same = eval::equal(c.sym, c.arg("a"), c.arg("b"));
        if (same || !c.arg("a").is_list()) return *known(c, same).get_if<bool>() != negate;
        const std::vector<Value>&x = c.arg("a").items(), &y = c.arg("b").items();
        Value all = true;
        for (size_t i = 0; i < x.size(); ++i) all = c.call("aten::__and__", {all, c.call("aten::eq", {x[i], y[i]})});
        return negate ? c.call("aten::__not__", {all}) : all;
      });
  }
  for (auto& [name, negate] : {std::pair{"aten::__is__", false}, {"aten::__isnot__", true}})
    ops.add(std::string(name) + "(Any? a, Any? b) -> bool", [negate = negate](Call& c) -> Value {
      const Value &a = c.arg("a"), &b = c.arg("b");
      bool same = a.is_none() || b.is_none() ? a.is_none() && b.is_none() : eval::equal(c.sym, a, b) == true;
      return same != negate;
    });
  ops.add("aten::_unwrap_optional(Any? optional) -> Any", [](Call& c) -> Value {
    if (c.none("optional")) throw Error(Code::ProgramRaises, "the program unwraps an optional that is None");
    return c.arg("optional");
  });
  ops.add("prim::unchecked_unwrap_optional(Any? optional) -> Any", [](Call& c) { return c.arg("optional"); });
  ops.add("aten::list_with_default(int[] list, int[] defaults) -> int[]", [](Call& c) -> Value {
    std::vector<Value> out = c.arg("list").items();
    const std::vector<Value>& defaults = c.arg("defaults").items();
    for (size_t i = 0; i < out.size() && i < defaults.size(); ++i)
      if (out[i].is_none()) out[i] = defaults[i];
    return Value::list(std::move(out));
  });
  ops.add("aten::__range_length(int lo, int hi, int step) -> int", [](Call& c) -> Value {
    Dim lo = c.size("lo"), hi = c.size("hi"), zero = c.sym.constant(0);
    int64_t step = c.integer("step");
    Dim span = step > 0 ? c.sym.sub(hi, lo) : c.sym.sub(lo, hi);
    return c.sym.max(zero, c.sym.ceil_div(span, c.sym.constant(step > 0 ? step : -step)));
  });
  ops.add("aten::__derive_index(int index, int start, int step) -> int",
          [](Call& c) -> Value { return c.sym.add(c.size("start"), c.sym.mul(c.size("index"), c.size("step"))); });
  ops.add("aten::wait(Any self) -> Any", [](Call& c) { return c.arg("self"); });
}

void register_dicts(Registry& ops) {
  ops.add("aten::keys(Any self) -> t[]", [](Call& c) -> Value {
    std::vector<Value> out;
    for (auto& [k, v] : dict_of(c, "self").items) out.push_back(k);
    return Value::list(std::move(out));
  });
  ops.add("aten::values(Any self) -> t[]", [](Call& c) -> Value {
    std::vector<Value> out;
    for (auto& [k, v] : dict_of(c, "self").items) out.push_back(v);
    return Value::list(std::move(out));
  });
  ops.add("aten::items(Any self) -> t[]", [](Call& c) -> Value {
    std::vector<Value> out;
    for (auto& [k, v] : dict_of(c, "self").items) out.push_back(Value::tuple({k, v}));
    return Value::list(std::move(out));
  });
  for (const char* schema : {"aten::get(Any self, Any key, Any? default_value=None) -> Any",
                             "aten::setdefault(Any self, Any key, Any? default_value=None) -> Any"})
    ops.add(schema, [](Call& c) -> Value {
      Dict& d = dict_of(c, "self");
      if (const Value* v = d.find(c.arg("key"))) return *v;
      if (c.schema.name == "aten::setdefault") d.set(c.arg("key"), c.arg("default_value"));
      return c.arg("default_value");
    });
  ops.add("aten::_set_item.Dict(Any l, Any idx, Any v) -> ()", [](Call& c) -> Value {
    dict_of(c, "l").set(c.arg("idx"), c.arg("v"));
    return None{};
  });
  ops.add("aten::__contains__.Dict(Any dict, Any key) -> bool",
          [](Call& c) -> Value { return dict_of(c, "dict").find(c.arg("key")) != nullptr; });
  ops.add("aten::Delete.Dict(Any self, Any key) -> ()", [](Call& c) -> Value {
    dict_of(c, "self").erase(c.arg("key"));
    return None{};
  });
  ops.add("aten::pop.Dict(Any self, Any key, Any? default_value=None) -> Any", [](Call& c) -> Value {
    Dict& d = dict_of(c, "self");
    const Value* found = d.find(c.arg("key"));
    Value out = found ? *found : c.arg("default_value");
    d.erase(c.arg("key"));
    return out;
  });
  ops.add("aten::update(Any self, Any other) -> ()", [](Call& c) -> Value {
    for (auto& [k, v] : dict_of(c, "other").items) dict_of(c, "self").set(k, v);
    return None{};
  });
  ops.add("aten::clear.Dict(Any self) -> ()", [](Call& c) -> Value {
    dict_of(c, "self").items.clear();
    return None{};
  });
  ops.add("aten::copy.Dict(Any self) -> Any",
          [](Call& c) -> Value { return std::make_shared<Dict>(dict_of(c, "self")); });
  ops.add("aten::dict(Any? inputs=None) -> Any", [](Call& c) -> Value {
    auto d = std::make_shared<Dict>();
    const Value& in = c.arg("inputs");
    if (in.is<std::shared_ptr<Dict>>()) return std::make_shared<Dict>(dict_of(c, "inputs"));
    if (!in.is_none())
      for (const Value& pair : in.items()) d->set(pair.items().at(0), pair.items().at(1));
    return d;
  });
}

}  // namespace

void register_prim(Registry& ops) {
  register_arithmetic(ops);
  register_functions(ops);
  register_conversions(ops);
  register_queries(ops);
  register_strings(ops);
  register_lists(ops);
  register_dicts(ops);
}

}  // namespace lithify::ops
