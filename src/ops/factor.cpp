#include "ops/factor.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "ops/register.hpp"
#include "ops/repeat.hpp"

namespace lithify::ops {
namespace {

Ref part(Builder& b, Ref x, int64_t from_end, int64_t start, int64_t end) {
  return b.slice(x, rank_of(x) - from_end, b.dim(start), b.dim(end));
}
Shape batch_of(Ref x) { return Shape(x->shape.begin(), x->shape.end() - 2); }

int64_t known_size(Call& c, Dim size) {
  if (!size.is_constant()) c.unsupported(fmt::format("matrices of the dynamic size {}", size.str()));
  return *size.constant();
}

Ref identity(Builder& b, Dim n) {
  Ref rows = b.reshape(arange(b, n), {n, b.dim(1)});
  return b.cast(b.op("Equal", {rows, arange(b, n)}), DType::Double);
}

// Whether each of n positions is at least `first`: [n, 1].
Ref from_row(Builder& b, int64_t n, int64_t first) {
  Vector<double> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(i >= first);
  return b.reals(DType::Bool, {n, 1}, out);
}

// ---- orthogonal and triangular -------------------------------------------------------------------------------------

struct Factors {
  Ref q;  // [.., m, m]
  Ref r;  // [.., m, n]
};

// Each step costs some fifteen nodes.
constexpr int64_t most_steps = 32;

// Reflections that make one column after the other zero below the diagonal, with the signs that LAPACK gives.
Factors reflected(Call& c, Ref a) {
  Builder& b = c.onnx;
  int64_t m = known_size(c, size_from_end(a, 2)), n = known_size(c, size_from_end(a, 1)), steps = std::min(m - 1, n);
  if (steps > most_steps) c.unsupported(fmt::format("matrices of more than {} rows and columns", most_steps));
  Ref zero = like(b, a, 0), one = like(b, a, 1);
  Shape square = batch_of(a);
  square.insert(square.end(), 2, size_from_end(a, 2));
  Factors f{b.expand(b.cast(identity(b, b.dim(m)), a->dtype), square), a};
  for (int64_t k = 0; k < steps; ++k) {
    Ref column = part(b, f.r, 1, k, k + 1), at = part(b, column, 2, k, k + 1);
    Ref below = b.where(from_row(b, m, k + 1), column, zero);
    Ref rest = b.reduce("ReduceSumSquare", below, {rank_of(a) - 2}, true);
    Ref length = b.op("Sqrt", {b.add(rest, b.mul(at, at))});
    Ref goal = b.where(b.op("Less", {at, zero}), length, b.op("Neg", {length}));
    Ref done = b.op("Equal", {rest, zero});
    // The reflection is 1 - factor v v^T, where v has a 1 in row k.
    Ref v = b.div(below, b.where(done, one, b.sub(at, goal)));
    v = b.where(from_row(b, m, k + 1), v, b.where(from_row(b, m, k), one, zero));
    Ref factor = b.where(done, zero, b.div(b.sub(goal, at), b.where(done, one, goal)));
    Ref row = transposed(b, v), scaled = b.mul(v, factor);
    f.r = b.sub(f.r, b.matmul(scaled, b.matmul(row, f.r)));
    f.q = b.sub(f.q, b.matmul(b.matmul(f.q, scaled), row));
  }
  f.r = b.where(triangle(b, b.dim(m), b.dim(n), b.dim(0), false), f.r, zero);
  return f;
}

Value qr(Call& c, const std::string& mode) {
  Builder& b = c.onnx;
  Ref a = matrix(c, c.schema.arguments[0].name);
  Factors f = reflected(c, a);
  if (mode == "complete") return Value::tuple({f.q, f.r});
  int64_t k = std::min(*size_from_end(a, 2).constant(), *size_from_end(a, 1).constant());
  Ref r = part(b, f.r, 2, 0, k);
  if (mode == "r") return Value::tuple({b.reals(a->dtype, {0}, {}), r});
  if (mode != "reduced") c.mismatch("there is no mode '" + mode + "'");
  return Value::tuple({part(b, f.q, 1, 0, k), r});
}

// ---- singular values -----------------------------------------------------------------------------------------------

// Every pair of n players meets once in n - 1 rounds, when neighbors play and then all move on in this order; then they
// are where they began.
Vector<int64_t> next_round(int64_t n) {
  // A circle of the upper places 0, 2, 4, ... and the lower ones back; the first stays.
  Vector<int64_t> circle;
  for (int64_t i = 2; i < n; i += 2) circle.push_back(i);
  for (int64_t i = n - 1; i > 0; i -= 2) circle.push_back(i);
  Vector<int64_t> from(static_cast<size_t>(n), 0);
  for (size_t i = 0; i < circle.size(); ++i) from[static_cast<size_t>(circle[(i + 1) % circle.size()])] = circle[i];
  return from;
}

constexpr int64_t sweeps = 12;

}  // namespace

// Jacobi's rotations of one side: pairs of columns are turned until all are at right angles.
Ref matrix(Call& c, std::string_view name) {
  Ref a = c.float_tensor(name);
  if (a->rank() < 2) c.mismatch("a matrix is needed");
  return a;
}

Singular singular(Call& c, Ref a) {
  Builder& b = c.onnx;
  a = b.cast(a, DType::Double);
  bool turn = known_size(c, size_from_end(a, 2)) < known_size(c, size_from_end(a, 1));
  Ref x = turn ? a : transposed(b, a);
  int64_t n = known_size(c, size_from_end(x, 2)), padded = n + n % 2, axis = rank_of(x) - 2;
  Dim length = size_from_end(x, 1);
  // Columns become rows, each with the row of V^T that belongs to it.
  Shape square = batch_of(x);
  square.insert(square.end(), 2, b.dim(n));
  x = b.concat({x, b.expand(identity(b, b.dim(n)), square)}, axis + 1);
  if (padded != n) {
    Vector<std::pair<Dim, Dim>> pads(x->rank(), {b.dim(0), b.dim(0)});
    pads[x->rank() - 2].second = b.dim(1);
    x = b.pad(x, pads, "constant", b.scalar(DType::Double, 0));
  }
  auto sum = [&](Ref p, Ref q) {
    return b.reduce("ReduceSum", b.slice(b.mul(p, q), axis + 1, b.dim(0), length), {axis + 1}, true);
  };
  Ref zero = b.scalar(DType::Double, 0), one = b.scalar(DType::Double, 1), two = b.scalar(DType::Double, 2);
  auto round = [&](const Vector<Ref>& carried) -> Step {
    Shape apart = batch_of(x);
    apart.insert(apart.end(), {b.dim(padded / 2), b.dim(2), size_from_end(x, 1)});
    Ref pairs = b.reshape(carried[0], apart);
    Ref p = b.select(pairs, axis + 1, b.dim(0)), q = b.select(pairs, axis + 1, b.dim(1)), along = sum(p, q);
    Ref square_angle = b.op("Equal", {along, zero});
    Ref zeta = b.div(b.sub(sum(q, q), sum(p, p)), b.mul(b.where(square_angle, one, along), two));
    Ref root = b.op("Sqrt", {b.add(b.mul(zeta, zeta), one)});
    Ref tangent = b.div(b.where(b.op("Less", {zeta, zero}), b.op("Neg", {one}), one), b.add(b.op("Abs", {zeta}), root));
    tangent = b.where(square_angle, zero, tangent);
    Ref cosine = b.op("Reciprocal", {b.op("Sqrt", {b.add(b.mul(tangent, tangent), one)})});
    Ref sine = b.mul(cosine, tangent);
    Ref first = b.sub(b.mul(cosine, p), b.mul(sine, q)), second = b.add(b.mul(sine, p), b.mul(cosine, q));
    Ref joined = b.concat({b.unsqueeze(first, {axis + 1}), b.unsqueeze(second, {axis + 1})}, axis + 1);
    return {{b.gather(b.reshape(joined, x->shape), b.ints(next_round(padded)), axis)}};
  };
  if (n > 1) x = repeat(b, b.scalar_int(DType::Int64, sweeps * (padded - 1)), {x}, round)[0];
  if (padded != n) x = part(b, x, 2, 0, n);
  Ref values = b.op("Sqrt", {b.squeeze(sum(x, x), {axis + 1})});
  Vector<Ref> sorted = b.op_n("TopK", {values, b.ints({n})}, {{"axis", axis}}, 2);
  Ref order = b.expand(b.unsqueeze(sorted[1], {axis + 1}), x->shape);
  return {b.op("GatherElements", {x, order}, {{"axis", axis}}), sorted[0], turn};
}

namespace {

struct Vectors {
  Ref left, values, right;  // [.., m, k], [.., k], [.., n, k]
};

// The left vectors are those of A V made orthogonal: also where a singular value is 0.
Vectors vectors(Call& c, Ref a, bool full) {
  Builder& b = c.onnx;
  Singular s = singular(c, a);
  int64_t n = known_size(c, s.values->shape.back());
  int64_t m = known_size(c, size_from_end(a, s.transposed ? 1 : 2)), last = rank_of(s.rows) - 1;
  Ref scaled = transposed(b, b.slice(s.rows, last, b.dim(0), b.dim(m)));
  Ref right = transposed(b, b.slice(s.rows, last, b.dim(m), b.dim(to_the_end)));
  Factors f = reflected(c, scaled);
  // Of the triangle only the diagonal is not 0: the singular values with signs.
  Ref diagonal = b.reduce("ReduceSum", b.mul(part(b, f.r, 2, 0, n), identity(b, b.dim(n))), {last - 1}, true);
  Ref sign = b.where(b.op("Less", {diagonal, b.scalar(DType::Double, 0)}), b.scalar(DType::Double, -1),
                     b.scalar(DType::Double, 1));
  Ref left = b.mul(part(b, f.q, 1, 0, n), sign);
  if (full && m > n) left = b.concat({left, part(b, f.q, 1, n, m)}, last);
  auto back = [&](Ref v) { return b.cast(v, a->dtype); };
  return {back(s.transposed ? right : left), back(s.values), back(s.transposed ? left : right)};
}

Ref singular_values(Call& c, Ref a) { return c.onnx.cast(singular(c, a).values, a->dtype); }

// What counts as 0: at most atol, or rtol times the greatest singular value.
struct Tolerance {
  Ref absolute = nullptr, relative = nullptr;
};

Tolerance tolerance_of(Call& c, Ref a) {
  Builder& b = c.onnx;
  auto given = [&](std::string_view name) -> Ref {
    if (!c.schema.argument(name) || c.none(name)) return nullptr;
    Ref v = c.tensor_as(name, DType::Double);
    return v->rank() == 0 ? v : b.unsqueeze(v, {static_cast<int64_t>(v->rank())});
  };
  Tolerance t{given("atol"), given("rtol")};
  if (Ref rcond = given("rcond")) return {nullptr, rcond};
  if (Ref tol = given("tol")) return {tol, b.scalar(DType::Double, 0)};
  if (!t.relative) {
    double eps = a->dtype == DType::Double ? 0x1p-52 : 0x1p-23;
    Ref size = b.cast(b.symbolic(b.sym.max(size_from_end(a, 2), size_from_end(a, 1))), DType::Double);
    Ref usual = b.mul(size, b.scalar(DType::Double, eps));
    // Nothing but an absolute tolerance was asked for, where it is positive.
    t.relative = t.absolute ? b.where(b.op("Greater", {t.absolute, b.scalar(DType::Double, 0)}),
                                      b.scalar(DType::Double, 0), usual)
                            : usual;
  }
  return t;
}

// Whether each singular value counts: [.., k].
Ref counts(Call& c, Ref a, Ref values) {
  Builder& b = c.onnx;
  Tolerance t = tolerance_of(c, a);
  int64_t last = rank_of(values) - 1;
  Ref limit = b.mul(b.reduce("ReduceMax", values, {last}, true), t.relative);
  if (t.absolute) limit = b.op("Max", {limit, t.absolute});
  return b.op("Greater", {values, limit});
}

Value pseudo_inverse(Call& c) {
  Builder& b = c.onnx;
  Ref a = matrix(c, "self");
  if (size_from_end(a, 1).is(0) || size_from_end(a, 2).is(0)) {
    Shape empty = batch_of(a);
    empty.insert(empty.end(), {size_from_end(a, 1), size_from_end(a, 2)});
    return b.full(empty, like(b, a, 0));
  }
  Singular s = singular(c, a);
  int64_t last = rank_of(s.rows) - 1;
  Dim m = size_from_end(a, s.transposed ? 1 : 2);
  Ref scaled = b.slice(s.rows, last, b.dim(0), m), right = b.slice(s.rows, last, m, b.dim(to_the_end));
  // The rows hold S u, so each is divided by its value twice.
  Ref used = counts(c, a, s.values), one = b.scalar(DType::Double, 1);
  Ref square = b.mul(s.values, s.values);
  Ref inverse = b.where(used, b.op("Reciprocal", {b.where(used, square, one)}), b.scalar(DType::Double, 0));
  Ref out = b.matmul(transposed(b, right), b.mul(scaled, b.unsqueeze(inverse, {last})));
  return b.cast(s.transposed ? transposed(b, out) : out, a->dtype);
}

Value matrix_rank(Call& c) {
  Ref a = matrix(c, c.schema.arguments[0].name);
  Ref values = singular(c, a).values;
  return c.onnx.reduce("ReduceSum", c.onnx.cast(counts(c, a, values), DType::Int64), {rank_of(values) - 1}, false);
}

// ---- eigenvalues of symmetric matrices -----------------------------------------------------------------------------

// Shifted so far that all eigenvalues are positive, they are the singular values.
Value eigen(Call& c, bool with_vectors) {
  Builder& b = c.onnx;
  Ref a = matrix(c, c.schema.arguments[0].name), x = b.cast(a, DType::Double);
  Dim n = size_from_end(a, 1);
  bool lower = c.text("UPLO") == "L" || c.text("UPLO") == "l";
  // Only one triangle is looked at.
  Ref half = b.where(triangle(b, n, n, b.dim(0), lower), x, b.scalar(DType::Double, 0));
  Ref off = b.where(triangle(b, n, n, b.dim(lower ? -1 : 1), lower), x, b.scalar(DType::Double, 0));
  x = b.add(half, transposed(b, off));
  int64_t last = rank_of(a) - 1;
  Ref shift = b.op("Sqrt", {b.reduce("ReduceSumSquare", x, {last - 1, last}, true)});
  Singular s = singular(c, b.add(x, b.mul(identity(b, n), shift)));
  Ref values = b.flip(b.sub(s.values, b.squeeze(shift, {last})), last - 1);
  if (!with_vectors) return b.cast(values, a->dtype);
  Ref rows = b.flip(b.slice(s.rows, last, n, b.dim(to_the_end)), last - 1);
  return Value::tuple({b.cast(values, a->dtype), b.cast(transposed(b, rows), a->dtype)});
}

// ---- the exponential -----------------------------------------------------------------------------------------------

// By a series, of the matrix halved until it is small; the result is squared as often.
Value matrix_exp(Call& c) {
  constexpr int terms = 14;
  Builder& b = c.onnx;
  Ref a = matrix(c, "self"), x = b.cast(a, DType::Double), two = b.scalar(DType::Double, 2);
  int64_t last = rank_of(a) - 1;
  if (size_from_end(a, 1).is(0)) return a;
  Ref norm = b.reduce("ReduceMax", b.reduce("ReduceL1", x, {last - 1}, false), {}, false);
  Ref bits = b.op("Ceil", {b.div(b.op("Log", {norm}), b.scalar(DType::Double, std::log(2.0)))});
  Ref halvings = b.op("Max", {b.add(bits, b.scalar(DType::Double, 1)), b.scalar(DType::Double, 0)});
  x = b.div(x, b.op("Pow", {two, halvings}));
  Ref one = identity(b, size_from_end(a, 1)), sum = b.expand(one, x->shape);
  for (int i = terms; i > 0; --i) sum = b.add(b.div(b.matmul(x, sum), b.scalar(DType::Double, i)), one);
  Ref squared = repeat(b, b.cast(halvings, DType::Int64), {sum},
                       [&](const Vector<Ref>& power) -> Step { return {{b.matmul(power[0], power[0])}}; })[0];
  return b.cast(squared, a->dtype);
}

}  // namespace

void register_factor(eval::Registry& ops) {
  ops.add("aten::linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
          [](Call& c) { return qr(c, c.text("mode")); });
  ops.add("aten::qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
          [](Call& c) { return qr(c, c.flag("some") ? "reduced" : "complete"); });

  ops.add("aten::linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
          [](Call& c) -> Value { return singular_values(c, matrix(c, "A")); });
  ops.add("aten::linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
          [](Call& c) {
            Vectors v = vectors(c, matrix(c, "A"), c.flag("full_matrices"));
            return Value::tuple({v.left, v.values, transposed(c.onnx, v.right)});
          });
  ops.add("aten::svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
          [](Call& c) {
            if (!c.flag("compute_uv")) c.unsupported("without the vectors");
            Vectors v = vectors(c, matrix(c, "self"), !c.flag("some"));
            return Value::tuple({v.left, v.values, v.right});
          });
  for (std::string_view form :
       {"linalg_pinv(Tensor self, float rcond, bool hermitian=False)",
        "linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False)",
        "linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False)",
        "linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False)",
        "pinverse(Tensor self, float rcond=1e-15)"})
    ops.add(fmt::format("aten::{} -> Tensor", form), pseudo_inverse);
  for (std::string_view form :
       {"(Tensor self, float tol, bool hermitian=False)", ".tol_tensor(Tensor input, Tensor tol, bool hermitian=False)",
        ".atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False)",
        ".atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False)"})
    ops.add(fmt::format("aten::linalg_matrix_rank{} -> Tensor", form), matrix_rank);

  ops.add("aten::linalg_eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
          [](Call& c) { return eigen(c, true); });
  ops.add("aten::linalg_eigvalsh(Tensor self, str UPLO='L') -> Tensor", [](Call& c) { return eigen(c, false); });
  for (std::string_view name : {"linalg_matrix_exp", "matrix_exp"})
    ops.add(fmt::format("aten::{}(Tensor self) -> Tensor", name), matrix_exp);
}

}  // namespace lithify::ops
