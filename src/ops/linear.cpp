// Products of matrices.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ops/elementwise.hpp"
#include "ops/linear.hpp"
#include "ops/repeat.hpp"
#include "ops/slicing.hpp"

namespace lithify::ops {
namespace {

using eval::Registry;

// A number times a value, for alpha and beta.
onnx::Value* scaled(Call& c, onnx::Value* v, std::string_view factor) {
  return c.onnx.mul(v, c.number(factor, v->dtype));
}

// beta * self + alpha * product.
Value added(Call& c, onnx::Value* self, onnx::Value* product) {
  if (!is_one(c, "alpha")) product = scaled(c, product, "alpha");
  if (c.real("beta") == 0) return c.onnx.expand(product, c.onnx.broadcast(product->shape, self->shape));
  if (!is_one(c, "beta")) self = scaled(c, self, "beta");
  return c.onnx.add(product, self);
}

// The terms of one side of an einsum equation.
Vector<std::string> split_terms(const std::string& text) {
  Vector<std::string> out(1);
  for (char ch : text) {
    if (ch == ',') {
      out.emplace_back();
    } else if (ch != ' ') {
      out.back() += ch;
    }
  }
  return out;
}

// A product of two operands over named dimensions, by Transpose, Reshape and MatMul: for opsets without Einsum.
onnx::Value* contract(onnx::Builder& b, onnx::Value* x, std::string xs, onnx::Value* y, std::string ys,
                      const std::string& out) {
  std::string batch, left, right, summed;
  std::map<char, Dim> sizes;
  for (size_t i = 0; i < xs.size(); ++i) sizes[xs[i]] = x->shape[i];
  for (size_t i = 0; i < ys.size(); ++i)
    if (!sizes.contains(ys[i]) || sizes[ys[i]].is(1)) sizes[ys[i]] = y->shape[i];
  auto reduce_lonely = [&](onnx::Value*& v, std::string& letters, const std::string& other) {
    Vector<int64_t> axes;
    std::string kept;
    for (size_t i = 0; i < letters.size(); ++i) {
      bool lonely = other.find(letters[i]) == std::string::npos && out.find(letters[i]) == std::string::npos;
      if (lonely)
        axes.push_back(static_cast<int64_t>(i));
      else
        kept += letters[i];
    }
    if (!axes.empty()) v = b.reduce("ReduceSum", v, axes, false);
    letters = kept;
  };
  reduce_lonely(x, xs, ys);
  reduce_lonely(y, ys, xs);
  for (char ch : xs) {
    bool shared = ys.find(ch) != std::string::npos, kept = out.find(ch) != std::string::npos;
    (shared ? (kept ? batch : summed) : left) += ch;
  }
  for (char ch : ys)
    if (xs.find(ch) == std::string::npos) right += ch;
  auto arrange = [&](onnx::Value* v, const std::string& from, const std::string& first, const std::string& second) {
    Vector<int64_t> perm;
    Shape shape, full;
    const std::string order = batch + first + second;
    for (char ch : order) perm.push_back(static_cast<int64_t>(from.find(ch)));
    for (char ch : batch) shape.push_back(v->shape[from.find(ch)]);
    v = b.transpose(v, perm);
    full = shape;
    for (char ch : first + second) full.push_back(sizes[ch]);
    v = b.expand(v, full);
    Dim one = b.dim(1), rows = one, columns = one;
    for (char ch : first) rows = b.sym.mul(rows, sizes[ch]);
    for (char ch : second) columns = b.sym.mul(columns, sizes[ch]);
    shape.push_back(rows);
    shape.push_back(columns);
    return b.reshape(v, shape);
  };
  onnx::Value* product = b.matmul(arrange(x, xs, left, summed), arrange(y, ys, summed, right));
  std::string now = batch + left + right;
  Shape shape;
  for (char ch : now) shape.push_back(sizes[ch]);
  product = b.reshape(product, shape);
  Vector<int64_t> perm;
  for (char ch : out) perm.push_back(static_cast<int64_t>(now.find(ch)));
  return b.transpose(product, perm);
}

// The equation with "..." spelled out and the output made explicit.
struct Equation {
  Vector<std::string> inputs;
  std::string output;
  std::string str() const {
    std::string s;
    for (const std::string& i : inputs) s += (s.empty() ? "" : ",") + i;
    return s + "->" + output;
  }
};

Equation parse_equation(Call& c, const std::string& text, const Vector<onnx::Value*>& operands) {
  size_t arrow = text.find("->");
  Equation e;
  e.inputs = split_terms(text.substr(0, arrow));
  if (e.inputs.size() != operands.size())
    c.mismatch(fmt::format("'{}' has {} operands, and {} are given", text, e.inputs.size(), operands.size()));
  std::string free;
  for (char ch = 'A'; ch <= 'Z'; ++ch)
    if (text.find(ch) == std::string::npos) free += ch;
  size_t most = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string& term = e.inputs[i];
    if (size_t dots = term.find("..."); dots != std::string::npos) {
      size_t n = operands[i]->rank() - (term.size() - 3);
      if (n > free.size()) c.unsupported("an equation with too many dimensions");
      most = std::max(most, n);
      term.replace(dots, 3, free.substr(free.size() - n));
    }
    if (term.size() != operands[i]->rank())
      c.mismatch(fmt::format("operand {} of '{}' has rank {}", i, text, operands[i]->rank()));
  }
  std::string spelled = free.substr(free.size() - most);
  if (arrow != std::string::npos) {
    e.output = split_terms(text.substr(arrow + 2))[0];
    if (size_t dots = e.output.find("..."); dots != std::string::npos) e.output.replace(dots, 3, spelled);
  } else {
    std::map<char, int> count;
    for (const std::string& term : e.inputs)
      for (char ch : term) ++count[ch];
    e.output = spelled;
    for (auto& [ch, n] : count)
      if (n == 1 && spelled.find(ch) == std::string::npos) e.output += ch;
  }
  return e;
}

// A letter that stands twice in a term means the diagonal.
void take_diagonals(onnx::Builder& b, onnx::Value*& x, std::string& term) {
  for (size_t i = 0; i < term.size();) {
    size_t again = term.find(term[i], i + 1);
    if (again == std::string::npos) {
      ++i;
      continue;
    }
    x = Diagonal{0, static_cast<int64_t>(i), static_cast<int64_t>(again)}.take(b, x);
    char letter = term[i];
    term.erase(again, 1);
    term.erase(i, 1);
    term += letter;
  }
}

// One operand after the other, keeping the letters that are still needed.
onnx::Value* contract_all(onnx::Builder& b, const Vector<onnx::Value*>& operands, const Equation& e) {
  onnx::Value* x = operands[0];
  std::string now = e.inputs[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string needed = e.output, kept;
    for (size_t j = i + 1; j < operands.size(); ++j) needed += e.inputs[j];
    for (char ch : now + e.inputs[i])
      if (needed.find(ch) != std::string::npos && kept.find(ch) == std::string::npos) kept += ch;
    if (i + 1 == operands.size()) kept = e.output;
    x = contract(b, x, now, operands[i], e.inputs[i], kept);
    now = kept;
  }
  return x;
}

Value einsum(Call& c) {
  Vector<onnx::Value*> operands = c.tensors("tensors");
  Equation e = parse_equation(c, c.text("equation"), operands);
  for (size_t i = 0; i < operands.size(); ++i) take_diagonals(c.onnx, operands[i], e.inputs[i]);
  // A single operand is a sum and a transposition.
  if (operands.size() == 1) {
    Vector<int64_t> axes, perm;
    std::string kept;
    for (size_t i = 0; i < e.inputs[0].size(); ++i) {
      if (e.output.find(e.inputs[0][i]) == std::string::npos)
        axes.push_back(static_cast<int64_t>(i));
      else
        kept += e.inputs[0][i];
    }
    onnx::Value* v = operands[0];
    if (!axes.empty()) {
      const bool whole = is_integer(v->dtype) || v->dtype == DType::Bool;
      v = c.onnx.reduce("ReduceSum", whole ? c.onnx.cast(v, DType::Int64) : v, axes, false);
    }
    for (char ch : e.output) perm.push_back(static_cast<int64_t>(kept.find(ch)));
    return c.onnx.transpose(v, perm);
  }
  DType type = operands[0]->dtype;
  for (onnx::Value* v : operands) type = eval::promote(type, v->dtype);
  for (onnx::Value*& v : operands) v = c.onnx.cast(v, type);
  if (c.opset() >= 12 && !is_complex(type)) return c.onnx.op("Einsum", operands, {{"equation", e.str()}});
  return contract_all(c.onnx, operands, e);
}

// The sum over pairs of dimensions of x and y.
onnx::Value* dot(onnx::Builder& b, onnx::Value* x, const Vector<int64_t>& dx, onnx::Value* y,
                 const Vector<int64_t>& dy) {
  std::string xs, ys, out;
  for (size_t i = 0; i < x->rank(); ++i) xs += static_cast<char>('a' + i);
  for (size_t i = 0; i < y->rank(); ++i) ys += static_cast<char>('n' + i);
  for (size_t i = 0; i < dx.size(); ++i) ys[static_cast<size_t>(dy[i])] = xs[static_cast<size_t>(dx[i])];
  for (char ch : xs + ys)
    if (xs.find(ch) == std::string::npos || ys.find(ch) == std::string::npos) out += ch;
  return contract(b, x, xs, y, ys, out);
}

// The elements of a dimension of three, as a x b has them: a1 b2 - a2 b1, a2 b0 - a0 b2, a0 b1 - a1 b0.
Value cross(Call& c, std::optional<int64_t> dim) {
  onnx::Builder& b = c.onnx;
  DType t = c.result_type({"self", "other"});
  onnx::Value *x = c.tensor_as("self", t), *y = c.tensor_as("other", t);
  Shape shape = b.broadcast(x->shape, y->shape);
  if (!dim) {
    auto found = std::find_if(shape.begin(), shape.end(), [](Dim d) { return d.is(3); });
    if (found == shape.end()) c.mismatch("no dimension is of size 3");
    dim = found - shape.begin();
  }
  auto turned = [&](onnx::Value* v, std::initializer_list<int64_t> order) {
    return b.gather(v, b.ints(order), *dim - static_cast<int64_t>(shape.size() - v->rank()));
  };
  return b.sub(b.mul(turned(x, {1, 2, 0}), turned(y, {2, 0, 1})), b.mul(turned(x, {2, 0, 1}), turned(y, {1, 2, 0})));
}

// Every product of an element of one and an element of the other, block by block.
Value kron(Call& c) {
  onnx::Builder& b = c.onnx;
  DType t = c.result_type({"self", "other"});
  onnx::Value *x = c.tensor_as("self", t), *y = c.tensor_as("other", t);
  size_t rank = std::max(x->rank(), y->rank());
  auto spread = [&](onnx::Value* v, bool blocks) {
    Shape shape;
    for (size_t i = 0; i < rank; ++i) {
      Dim d = i + v->rank() < rank ? b.dim(1) : v->shape[i + v->rank() - rank];
      shape.push_back(blocks ? d : b.dim(1));
      shape.push_back(blocks ? b.dim(1) : d);
    }
    return b.reshape(v, shape);
  };
  onnx::Value *blocks = spread(x, true), *within = spread(y, false);
  Shape shape;
  for (size_t i = 0; i < rank; ++i) shape.push_back(b.sym.mul(blocks->shape[2 * i], within->shape[2 * i + 1]));
  return b.reshape(t == DType::Bool ? b.op("And", {blocks, within}) : b.mul(blocks, within), shape);
}

// Each group of rows, up to one of the offsets, times a separate matrix; rows after the last are 0.
Value grouped(Call& c, std::string_view x_name, std::string_view weights_name) {
  Builder& b = c.onnx;
  Ref x = c.tensor(x_name), weights = c.tensor(weights_name), offsets = c.maybe_tensor("offs");
  if (c.schema.argument("bias") && !c.none("bias")) c.unsupported("a bias");
  if (c.schema.argument("out_dtype") && c.maybe_dtype("out_dtype").value_or(x->dtype) != x->dtype)
    c.unsupported("a result of another type");
  if (x->rank() == 3 && weights->rank() == 3 && !offsets) return b.matmul(x, weights);
  if (x->rank() != 2 || weights->rank() != 3 || !offsets) c.unsupported("groups of columns");
  Ref ends = b.cast(offsets, DType::Int64), axis = b.ints({0}), none = b.ints({0});
  Ref result = b.full({x->shape[0], weights->shape[2]}, b.scalar(x->dtype, 0));
  auto one_group = [&](const Vector<Ref>& carried) -> Step {
    Ref group = carried[0], start = carried[1], done = carried[2], end = b.gather(ends, group, 0);
    Ref rows = b.op("Slice", {x, start, end, axis});
    Ref product = b.matmul(rows, b.squeeze(b.gather(weights, group, 0), {0}));
    Ref before = b.op("Slice", {done, none, start, axis}),
        after = b.op("Slice", {done, end, b.ints({to_the_end}), axis});
    Ref next = b.op("Concat", {before, product, after}, {{"axis", int64_t{0}}});
    next->shape = done->shape;
    return {{b.add(group, b.ints({1})), end, next}, nullptr};
  };
  return repeat(b, b.symbolic(weights->shape[0]), {none, none, result}, one_group)[2];
}

Value bilinear(Call& c) {
  onnx::Value *x = c.tensor("input1"), *y = c.tensor("input2"), *w = c.tensor("weight"), *bias = c.maybe_tensor("bias");
  // x[..., i] w[o, i, j] y[..., j]: one product over i, one over j.
  onnx::Value* left = c.onnx.matmul(c.onnx.unsqueeze(c.onnx.unsqueeze(x, {static_cast<int64_t>(x->rank()) - 1}),
                                                     {static_cast<int64_t>(x->rank()) - 1}),
                                    w);
  onnx::Value* out = c.onnx.matmul(left, c.onnx.unsqueeze(c.onnx.unsqueeze(y, {static_cast<int64_t>(y->rank()) - 1}),
                                                          {static_cast<int64_t>(y->rank()) + 1}));
  int64_t rank = static_cast<int64_t>(out->rank());
  out = c.onnx.squeeze(out, {rank - 2, rank - 1});
  return bias ? c.onnx.add(out, bias) : out;
}

void register_products(Registry& ops) {
  ops.add("aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", [](Call& c) -> Value {
    return linear(c.onnx, c.tensor("input"), c.tensor("weight"), c.maybe_tensor("bias"));
  });
  for (const char* schema : {"aten::matmul(Tensor self, Tensor other) -> Tensor",
                             "aten::linalg_matmul(Tensor self, Tensor other) -> Tensor"})
    ops.add(schema, [](Call& c) -> Value { return c.onnx.matmul(c.tensor("self"), c.tensor("other")); });
  for (const char* schema :
       {"aten::mm(Tensor self, Tensor mat2) -> Tensor", "aten::bmm(Tensor self, Tensor mat2) -> Tensor"})
    ops.add(schema, [](Call& c) -> Value { return c.onnx.matmul(c.tensor("self"), c.tensor("mat2")); });
  ops.add(
      "aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) "
      "-> Tensor",
      [](Call& c) { return grouped(c, "self", "mat2"); }, 11);
  // What the transformers library has in its place.
  ops.add(
      "transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor",
      [](Call& c) { return grouped(c, "input", "weight"); }, 11);
  ops.add("aten::mv(Tensor self, Tensor vec) -> Tensor",
          [](Call& c) -> Value { return c.onnx.matmul(c.tensor("self"), c.tensor("vec")); });
  for (const char* schema :
       {"aten::dot(Tensor self, Tensor tensor) -> Tensor", "aten::vdot(Tensor self, Tensor other) -> Tensor",
        "aten::inner(Tensor self, Tensor other) -> Tensor"})
    ops.add(schema, [](Call& c) -> Value {
      onnx::Value *x = c.tensor("self"), *y = c.tensor(c.schema.arguments[1].name);
      if (x->rank() == 0 || y->rank() == 0) return c.onnx.mul(x, y);
      if (y->rank() <= 2) return c.onnx.matmul(x, y->rank() == 2 ? c.onnx.swap_dims(y, 0, 1) : y);
      return dot(c.onnx, x, {static_cast<int64_t>(x->rank()) - 1}, y, {static_cast<int64_t>(y->rank()) - 1});
    });
  for (const char* schema :
       {"aten::outer(Tensor self, Tensor vec2) -> Tensor", "aten::ger(Tensor self, Tensor vec2) -> Tensor"})
    ops.add(schema, [](Call& c) -> Value {
      DType t = c.result_type({"self", "vec2"});
      return c.onnx.mul(c.onnx.unsqueeze(c.tensor_as("self", t), {1}), c.tensor_as("vec2", t));
    });
}

void register_added_products(Registry& ops) {
  ops.add("aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
          [](Call& c) -> Value {
            onnx::Value *self = c.tensor("self"), *a = c.tensor("mat1"), *b = c.tensor("mat2");
            if (!is_float(a->dtype)) return added(c, self, c.onnx.matmul(a, b));
            onnx::Attributes attributes;
            if (!is_one(c, "alpha")) attributes.push_back({"alpha", c.f32("alpha")});
            if (!is_one(c, "beta")) attributes.push_back({"beta", c.f32("beta")});
            return c.onnx.op("Gemm", {a, b, c.real("beta") == 0 ? nullptr : self}, attributes);
          });
  ops.add("aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
          [](Call& c) -> Value { return added(c, c.tensor("self"), c.onnx.matmul(c.tensor("mat"), c.tensor("vec"))); });
  ops.add("aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
          [](Call& c) -> Value {
            DType t = c.result_type({"self", "vec1", "vec2"});
            return added(c, c.tensor_as("self", t),
                         c.onnx.mul(c.onnx.unsqueeze(c.tensor_as("vec1", t), {1}), c.tensor_as("vec2", t)));
          });
  ops.add("aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
          [](Call& c) -> Value {
            return added(c, c.tensor("self"), c.onnx.matmul(c.tensor("batch1"), c.tensor("batch2")));
          });
  ops.add("aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
          [](Call& c) -> Value {
            return added(c, c.tensor("self"),
                         c.onnx.reduce("ReduceSum", c.onnx.matmul(c.tensor("batch1"), c.tensor("batch2")), {0}, false));
          });
}

}  // namespace

onnx::Value* linear(onnx::Builder& b, onnx::Value* x, onnx::Value* weight, onnx::Value* bias) {
  if (x->rank() == 2 && weight->rank() == 2 && is_float(x->dtype) && (!bias || bias->rank() == 1))
    return b.op("Gemm", {x, weight, bias}, {{"transB", int64_t{1}}});
  onnx::Value* product = b.matmul(x, weight->rank() == 2 ? b.swap_dims(weight, 0, 1) : weight);
  return bias ? b.add(product, bias) : product;
}

void register_linear(Registry& ops) {
  register_products(ops);
  register_added_products(ops);
  for (const char* schema :
       {"aten::chain_matmul(Tensor[] matrices) -> Tensor", "aten::linalg_multi_dot(Tensor[] tensors) -> Tensor"})
    ops.add(schema, [](Call& c) -> Value {
      Vector<onnx::Value*> all = c.tensors(c.schema.arguments[0].name);
      onnx::Value* out = all.at(0);
      for (size_t i = 1; i < all.size(); ++i) out = c.onnx.matmul(out, all[i]);
      return out;
    });
  for (const char* schema : {"aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
                             "aten::einsum.old(str equation, Tensor[] tensors) -> Tensor"})
    ops.add(schema, einsum);
  ops.add("aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
          [](Call& c) -> Value {
            onnx::Value *x = c.tensor("self"), *y = c.tensor("other");
            return dot(c.onnx, x, c.dims("dims_self", x->rank()), y, c.dims("dims_other", y->rank()));
          });
  ops.add("aten::linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", [](Call& c) -> Value {
    onnx::Value* product = c.onnx.mul(c.tensor("x"), c.tensor("y"));
    return c.onnx.reduce("ReduceSum", product, {c.dim("dim", product->rank())}, false);
  });
  ops.add("aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", bilinear);
  ops.add("aten::cross(Tensor self, Tensor other, int? dim=None) -> Tensor", [](Call& c) {
    size_t rank = std::max(c.tensor("self")->rank(), c.tensor("other")->rank());
    return cross(c, c.none("dim") ? std::nullopt : std::optional(c.dim("dim", rank)));
  });
  ops.add("aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor", [](Call& c) {
    return cross(c, c.dim("dim", std::max(c.tensor("self")->rank(), c.tensor("other")->rank())));
  });
  ops.add("aten::kron(Tensor self, Tensor other) -> Tensor", kron);
  ops.add("aten::trace(Tensor self) -> Tensor",
          [](Call& c) { return c.call("aten::sum", {c.call("aten::diagonal", {c.arg("self")})}); });
}

}  // namespace lithify::ops
