// Linear algebra that can be expressed exactly without a decomposition of ONNX: elimination and substitution, row by
// row. A matrix that has no inverse, for which PyTorch raises an exception, gives infinite numbers or NaN.
#include <fmt/format.h>

#include <numeric>

#include "ops/factor.hpp"
#include "ops/register.hpp"
#include "ops/repeat.hpp"

namespace lithify::ops {
namespace {

// Each row costs some ten nodes.
constexpr int64_t most_rows = 32;

// The number of rows of a square matrix, which must be known for one node to follow another for each of them.
int64_t rows_of(Call& c, Ref a) {
  if (a->rank() < 2) c.mismatch("a matrix is needed");
  Dim rows = size_from_end(a, 2);
  if (rows != size_from_end(a, 1)) c.mismatch("the matrix is not square");
  if (!rows.is_constant()) c.unsupported(fmt::format("matrices of the dynamic size {}", rows.str()));
  if (*rows.constant() > most_rows) c.unsupported(fmt::format("matrices of more than {} rows", most_rows));
  return *rows.constant();
}

Ref row(Builder& b, Ref x, int64_t i) { return b.slice(x, rank_of(x) - 2, b.dim(i), b.dim(i + 1)); }
Ref column(Builder& b, Ref x, int64_t i) { return b.slice(x, rank_of(x) - 1, b.dim(i), b.dim(i + 1)); }

Ref identity(Builder& b, DType t, int64_t n) {
  Vector<double> out = known_elements<double>(b.sym, checked_mul(n, n));
  for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i * n + i)] = 1;
  return b.reals(t, {n, n}, out);
}

Ref no_errors(Builder& b, Ref a) {
  Shape batch(a->shape.begin(), a->shape.end() - 2);
  return b.full(batch, b.scalar_int(DType::Int32, 0));
}

// ---- elimination -------------------------------------------------------------------------------------------------

// What is left when the first n columns of [.., n, n + m] have become unit vectors. Rows stay where they are: that of
// the pivot of column k is marked by element k of `chosen`, [.., n, 1] of bool.
struct Eliminated {
  Ref matrix;
  Vector<Ref> chosen;
  Vector<Ref> at;      // the positions of the pivots, [.., 1, 1]
  Vector<Ref> pivots;  // [.., 1, 1]
};

// Gauss-Jordan, with the largest element that is left in a column as its pivot.
Eliminated eliminate(Builder& b, Ref m, int64_t n) {
  Eliminated out{m, {}, {}, {}};
  Vector<int64_t> counted(static_cast<size_t>(n));
  std::iota(counted.begin(), counted.end(), 0);
  Ref positions = b.reshape(b.ints(counted), {b.dim(n), b.dim(1)}), used = nullptr, zero = like(b, m, 0);
  int64_t rows = rank_of(m) - 2;
  for (int64_t k = 0; k < n; ++k) {
    Ref c = column(b, out.matrix, k), size = b.op("Abs", {c});
    if (used) size = b.where(used, like(b, m, -1), size);
    Ref at = b.op("ArgMax", {size}, {{"axis", rows}});
    Ref chosen = b.op("Equal", {positions, at});
    Ref pivot_row = b.reduce("ReduceSum", b.where(chosen, out.matrix, zero), {rows}, true);
    Ref pivot = column(b, pivot_row, k), scaled = b.div(pivot_row, pivot);
    out.matrix = b.where(chosen, scaled, b.sub(out.matrix, b.mul(c, scaled)));
    used = used ? b.op("Or", {used, chosen}) : chosen;
    out.chosen.push_back(chosen);
    out.at.push_back(at);
    out.pivots.push_back(pivot);
  }
  return out;
}

// The solution X of A X = B for [.., n, n] and [.., n, m].
Ref solved(Call& c, Ref a, Ref x) {
  Builder& b = c.onnx;
  int64_t n = rows_of(c, a), axis = std::max(rank_of(a), rank_of(x)) - 1;
  if (n == 0) return x;
  auto expanded = [&](Ref v) {
    Shape batch = b.broadcast(Shape(a->shape.begin(), a->shape.end() - 2), Shape(x->shape.begin(), x->shape.end() - 2));
    batch.insert(batch.end(), v->shape.end() - 2, v->shape.end());
    return b.expand(v, batch);
  };
  Eliminated e = eliminate(b, b.concat({expanded(a), expanded(x)}, axis), n);
  Ref right = b.slice(e.matrix, axis, b.dim(n), e.matrix->shape.back());
  // Row k of the solution is where the pivot of column k was.
  Ref order = b.cast(b.concat(e.chosen, axis), a->dtype);
  return b.matmul(transposed(b, order), right);
}

Ref inverse_of_three(Builder& b, Ref a) {
  int64_t rows = rank_of(a) - 2, columns = rows + 1;
  Ref next = b.ints({1, 2, 0}), last = b.ints({2, 0, 1});
  Ref first = b.gather(a, next, rows), second = b.gather(a, last, rows);
  Ref cofactors = b.sub(b.mul(b.gather(first, next, columns), b.gather(second, last, columns)),
                        b.mul(b.gather(first, last, columns), b.gather(second, next, columns)));
  Ref det = b.reduce("ReduceSum", b.mul(row(b, a, 0), row(b, cofactors, 0)), {columns}, true);
  return b.div(transposed(b, cofactors), det);
}

Ref inverse_of_two(Builder& b, Ref a) {
  int64_t rows = rank_of(a) - 2, columns = rows + 1;
  Ref backward = b.ints({1, 0}), signs = b.reals(a->dtype, {2, 2}, Vector<double>{1, -1, -1, 1});
  // [[d, c], [b, a]], transposed and with signs.
  Ref turned = b.gather(b.gather(a, backward, rows), backward, columns);
  Ref cofactors = b.mul(turned, signs);
  Ref det = b.reduce("ReduceSum", b.mul(row(b, a, 0), row(b, cofactors, 0)), {columns}, true);
  return b.div(transposed(b, cofactors), det);
}

Ref inverse(Call& c, Ref a) {
  Builder& b = c.onnx;
  int64_t n = rows_of(c, a);
  if (n == 0) return a;
  if (n == 1) return b.op("Reciprocal", {a});
  if (n == 2) return inverse_of_two(b, a);
  if (n == 3) return inverse_of_three(b, a);
  return solved(c, a, identity(b, a->dtype, n));
}

struct Determinant {
  Ref sign;
  Ref log_size;
  Ref value;
};

// By the pivots, and by whether their order is an even permutation.
Determinant determinant(Call& c, Ref a) {
  Builder& b = c.onnx;
  int64_t n = rows_of(c, a), axis = rank_of(a) - 1;
  Shape batch(a->shape.begin(), a->shape.end() - 2);
  if (n == 0) {
    Ref one = b.full(batch, like(b, a, 1));
    return {one, b.full(batch, like(b, a, 0)), one};
  }
  Eliminated e = eliminate(b, a, n);
  Ref pivots = b.concat(e.pivots, axis), sign = b.reduce("ReduceProd", b.op("Sign", {pivots}), {axis - 1, axis}, false);
  Ref product = b.reduce("ReduceProd", pivots, {axis - 1, axis}, false);
  if (n > 1) {
    Vector<double> later;
    for (int64_t i = 0; i < n * n; ++i) later.push_back(i % n > i / n);
    Ref order = b.concat(e.at, axis);
    Ref out_of_order =
        b.op("And", {b.op("Greater", {transposed(b, order), order}), b.reals(DType::Bool, {n, n}, later)});
    Ref count = b.reduce("ReduceSum", b.cast(out_of_order, DType::Int64), {axis - 1, axis}, false);
    Ref odd = b.cast(b.op("Mod", {count, b.scalar_int(DType::Int64, 2)}), DType::Bool);
    Ref turn = b.where(odd, like(b, a, -1), like(b, a, 1));
    sign = b.mul(sign, turn);
    product = b.mul(product, turn);
  }
  Ref sizes = b.op("Log", {b.op("Abs", {pivots})});
  return {sign, b.reduce("ReduceSum", sizes, {axis - 1, axis}, false), product};
}

Value det(Call& c) {
  Ref a = matrix(c, c.schema.arguments[0].name);
  if (a->dtype == DType::Float && !size_from_end(a, 1).is(0)) return c.onnx.op("Det", {a});
  return determinant(c, a).value;
}

Value slogdet(Call& c) {
  Determinant d = determinant(c, matrix(c, c.schema.arguments[0].name));
  return Value::tuple({d.sign, d.log_size});
}

Value logdet(Call& c) {
  Ref a = matrix(c, "self");
  Determinant d = determinant(c, a);
  Builder& b = c.onnx;
  return b.where(b.op("Less", {d.sign, like(b, a, 0)}), like(b, a, NAN), d.log_size);
}

Value inverse_of(Call& c) {
  Ref a = matrix(c, c.schema.arguments[0].name), out = inverse(c, a);
  if (c.schema.returns.size() == 1) return out;
  return Value::tuple({out, no_errors(c.onnx, a)});
}

Ref solve(Call& c, Ref a, Ref x) {
  Builder& b = c.onnx;
  DType t = eval::promote(a->dtype, x->dtype);
  a = b.cast(a, t);
  x = b.cast(x, t);
  Shape batch(a->shape.begin(), a->shape.end() - 1);
  bool vector = x->rank() == 1 || (x->rank() + 1 == a->rank() && x->shape == batch);
  if (vector) x = b.unsqueeze(x, {rank_of(x)});
  Ref out = c.flag("left") || vector ? solved(c, a, x) : transposed(b, solved(c, transposed(b, a), transposed(b, x)));
  return vector ? b.squeeze(out, {rank_of(out) - 1}) : out;
}

Value solve_of(Call& c) {
  Ref a = matrix(c, "A"), out = solve(c, a, c.float_tensor("B"));
  if (c.schema.returns.size() == 1) return out;
  return Value::tuple({out, no_errors(c.onnx, a)});
}

Value tensor_inverse(Call& c) {
  Builder& b = c.onnx;
  Ref a = c.float_tensor("self");
  size_t at = static_cast<size_t>(c.integer("ind"));
  if (at < 1 || at > a->rank()) c.mismatch("ind must be a number of dimensions");
  Shape left(a->shape.begin(), a->shape.begin() + static_cast<std::ptrdiff_t>(at));
  Shape right(a->shape.begin() + static_cast<std::ptrdiff_t>(at), a->shape.end());
  Ref out = inverse(c, b.reshape(a, {b.numel(left), b.numel(right)}));
  right.insert(right.end(), left.begin(), left.end());
  return b.reshape(out, right);
}

Value tensor_solve(Call& c) {
  Builder& b = c.onnx;
  Ref a = c.float_tensor("self"), x = c.float_tensor("other");
  if (!c.none("dims")) {
    Vector<int64_t> moved = c.dims("dims", a->rank()), perm;
    for (int64_t i = 0; i < rank_of(a); ++i)
      if (std::find(moved.begin(), moved.end(), i) == moved.end()) perm.push_back(i);
    perm.insert(perm.end(), moved.begin(), moved.end());
    a = b.transpose(a, perm);
  }
  Shape to(a->shape.begin() + rank_of(x), a->shape.end());
  Dim n = b.numel(to);
  return b.reshape(solved(c, b.reshape(a, {n, n}), b.reshape(x, {n, b.dim(1)})), to);
}

// ---- triangles ---------------------------------------------------------------------------------------------------

// The sizes of the solution X of A X = B.
Shape solution_shape(Builder& b, Ref a, Ref x) {
  Shape shape = b.broadcast(Shape(a->shape.begin(), a->shape.end() - 2), Shape(x->shape.begin(), x->shape.end() - 2));
  shape.insert(shape.end(), {size_from_end(a, 1), size_from_end(x, 1)});
  return shape;
}

// The solution by a loop over the rows: what is not yet found is 0.
Ref substituted_in_turn(Builder& b, Ref a, Ref x, bool upper, bool unit) {
  Dim n = size_from_end(a, 1);
  Shape shape = solution_shape(b, a, x);
  x = b.expand(x, shape);
  Ref positions = b.reshape(arange(b, n), {n, b.dim(1)});
  Ref first = b.reshape(b.symbolic(upper ? b.sym.sub(n, b.dim(1)) : b.dim(0)), {b.dim(1)});
  auto one_row = [&](const Vector<Ref>& carried) -> Step {
    Ref at = carried[0], found = carried[1], coefficients = b.gather(a, at, rank_of(a) - 2);
    Ref rest = b.sub(b.gather(x, at, rank_of(x) - 2), b.matmul(coefficients, found));
    if (!unit) rest = b.div(rest, b.gather(coefficients, at, rank_of(a) - 1));
    return {{b.add(at, b.ints({upper ? -1 : 1})), b.where(b.op("Equal", {positions, at}), rest, found)}, nullptr};
  };
  return repeat(b, b.symbolic(n), {first, b.full(shape, like(b, x, 0))}, one_row)[1];
}

// The solution X of A X = B, one row after the other.
Ref substituted(Call& c, Ref a, Ref x, bool upper, bool unit) {
  Builder& b = c.onnx;
  if (const Dim of_a = size_from_end(a, 1), of_x = size_from_end(x, 2);
      of_a.is_constant() && of_x.is_constant() && of_a != of_x)
    c.mismatch(fmt::format("a matrix of {} rows for one of {}", of_x.str(), of_a.str()));
  if (Dim rows = size_from_end(a, 2);
      rows == size_from_end(a, 1) && rows.constant().value_or(most_rows + 1) > most_rows)
    return substituted_in_turn(b, a, x, upper, unit);
  int64_t n = rows_of(c, a);
  Shape one_row = solution_shape(b, a, x);
  one_row.end()[-2] = b.dim(1);
  Vector<Ref> found;  // from the first row, or from the last
  for (int64_t i = 0; i < n; ++i) {
    int64_t k = upper ? n - 1 - i : i;
    Ref coefficients = row(b, a, k), rest = row(b, x, k);
    if (!found.empty()) {
      Ref known = found.size() == 1 ? found[0] : b.concat(found, rank_of(found[0]) - 2);
      Ref factors = b.slice(coefficients, rank_of(a) - 1, b.dim(upper ? k + 1 : 0), b.dim(upper ? n : k));
      rest = b.sub(rest, b.matmul(factors, known));
    }
    if (!unit) rest = b.div(rest, column(b, coefficients, k));
    found.insert(upper ? found.begin() : found.end(), b.expand(rest, one_row));
  }
  return n == 0 ? x : b.concat(found, rank_of(found[0]) - 2);
}

Value solve_triangular(Call& c) {
  Builder& b = c.onnx;
  Ref a = matrix(c, "self"), x = matrix(c, "B");
  bool upper = c.flag("upper"), unit = c.flag("unitriangular");
  if (c.flag("left")) return substituted(c, a, x, upper, unit);
  return transposed(b, substituted(c, transposed(b, a), transposed(b, x), !upper, unit));
}

Value old_solve_triangular(Call& c) {
  Ref a = matrix(c, "A"), x = matrix(c, "self");
  bool turn = c.flag("transpose");
  Ref out = substituted(c, turn ? transposed(c.onnx, a) : a, x, c.flag("upper") != turn, c.flag("unitriangular"));
  return Value::tuple({out, a});
}

// The lower triangle L with L L^T = A, one column after the other.
Ref cholesky(Call& c, Ref a) {
  Builder& b = c.onnx;
  int64_t n = rows_of(c, a);
  Vector<Ref> columns;
  Ref left = a;
  for (int64_t k = 0; k < n; ++k) {
    Ref whole = column(b, left, k), found = b.div(whole, b.op("Sqrt", {row(b, whole, k)}));
    if (k > 0) {
      Vector<double> below;
      for (int64_t i = 0; i < n; ++i) below.push_back(i >= k);
      found = b.where(b.reals(DType::Bool, {n, 1}, below), found, like(b, a, 0));
    }
    columns.push_back(found);
    if (k + 1 < n) left = b.sub(left, b.matmul(found, transposed(b, found)));
  }
  return n == 0 ? a : b.concat(columns, rank_of(a) - 1);
}

Value cholesky_of(Call& c) {
  Ref a = matrix(c, "self"), out = cholesky(c, c.flag("upper") ? transposed(c.onnx, a) : a);
  if (c.flag("upper")) out = transposed(c.onnx, out);
  if (c.schema.returns.size() == 1) return out;
  return Value::tuple({out, no_errors(c.onnx, a)});
}

// The solution of L L^T X = B.
Ref solved_by_triangle(Call& c, Ref x, Ref triangle, bool upper) {
  Ref lower = upper ? transposed(c.onnx, triangle) : triangle;
  return substituted(c, transposed(c.onnx, lower), substituted(c, lower, x, false, false), true, false);
}

// ---- powers ------------------------------------------------------------------------------------------------------

Value matrix_power(Call& c) {
  Builder& b = c.onnx;
  Ref a = c.tensor("self");
  int64_t n = c.integer("n");
  if (n == 0) {
    Ref one = identity(b, a->dtype, rows_of(c, a));
    return b.expand(one, a->shape);
  }
  if (n < 0) a = inverse(c, matrix(c, "self"));
  Ref out = nullptr;
  for (n = std::abs(n);; a = b.matmul(a, a)) {
    if (n & 1) out = out ? b.matmul(out, a) : a;
    n >>= 1;
    if (n == 0) return out;
  }
}

Value vandermonde(Call& c) {
  Builder& b = c.onnx;
  Ref x = c.tensor("x");
  if (x->rank() == 0) x = b.unsqueeze(x, {0});
  Dim n = c.none("N") ? x->shape.back() : c.size("N");
  DType t = is_float(x->dtype) ? x->dtype : DType::Int64;
  Ref base = b.unsqueeze(b.cast(x, t), {rank_of(x)});
  if (t == DType::Int64 && b.opset() < 12) c.needs_opset(12);
  return b.op("Pow", {base, b.cast(arange(b, n), t)});
}

}  // namespace

void register_linalg(eval::Registry& ops) {
  for (std::string_view schema : {"aten::det(Tensor self) -> Tensor", "aten::linalg_det(Tensor A) -> Tensor"})
    ops.add(schema, det);
  for (std::string_view schema : {"aten::slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)",
                                  "aten::linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)"})
    ops.add(schema, slogdet);
  ops.add("aten::logdet(Tensor self) -> Tensor", logdet);
  for (std::string_view schema :
       {"aten::inverse(Tensor self) -> Tensor", "aten::linalg_inv(Tensor A) -> Tensor",
        "aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)"})
    ops.add(schema, inverse_of);
  for (std::string_view schema :
       {"aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
        "aten::linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, "
        "Tensor info)"})
    ops.add(schema, solve_of);
  ops.add("aten::linalg_tensorinv(Tensor self, int ind=2) -> Tensor", tensor_inverse);
  ops.add("aten::linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor", tensor_solve);

  ops.add(
      "aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) "
      "-> Tensor",
      solve_triangular);
  ops.add(
      "aten::triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool "
      "unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
      old_solve_triangular);
  for (std::string_view schema :
       {"aten::cholesky(Tensor self, bool upper=False) -> Tensor",
        "aten::linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
        "aten::linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor "
        "info)"})
    ops.add(schema, cholesky_of);
  ops.add("aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor", [](Call& c) -> Value {
    return solved_by_triangle(c, matrix(c, "self"), matrix(c, "input2"), c.flag("upper"));
  });
  ops.add("aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor", [](Call& c) -> Value {
    Ref a = matrix(c, "self");
    return solved_by_triangle(c, identity(c.onnx, a->dtype, rows_of(c, a)), a, c.flag("upper"));
  });

  for (std::string_view name : {"matrix_power", "linalg_matrix_power"})
    ops.add(fmt::format("aten::{}(Tensor self, int n) -> Tensor", name), matrix_power);
  ops.add("aten::linalg_vander(Tensor x, *, int? N=None) -> Tensor", vandermonde);
}

}  // namespace lithify::ops
