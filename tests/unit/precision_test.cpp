// Computation in 16 bits: ONNX text in, ONNX text out.
#include <doctest/doctest.h>

#include <string>

#include "onnx/text.hpp"
#include "onnx/verify.hpp"
#include "rewrite/precision.hpp"
#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {
namespace {

struct Done {
  std::string text;
  Lowered lowered;
};

Done lowered(std::string_view text, DType type = DType::Half, Vector<std::string> keep = {}) {
  sym::Context sym;
  onnx::Model model;
  model.opset = 18;
  model.graph = onnx::parse(text.substr(text.find_first_not_of('\n')), sym);
  onnx::verify(*model.graph, model.opset, "parsing");
  name_all(*model.graph);
  Done out;
  out.lowered = lower_precision(model, {.type = type, .keep = std::move(keep)});
  onnx::verify(model, "lower_precision");
  for (const Node* n : model.graph->all_nodes()) {
    out.text += n->op_type + "(";
    for (const Value* v : n->inputs)
      if (v && is_float(v->dtype)) out.text += v->dtype == DType::Float ? "f" : "h";
    out.text += ") ";
  }
  if (!out.text.empty()) out.text.pop_back();
  return out;
}

}  // namespace

TEST_CASE("a product has 16 bits, between inputs and outputs of float32") {
  const Done done = lowered(R"(
input x : float32[n, 2]
y : float32[n, 2] = MatMul(x, float32[2, 2]{1, 2, 3, 4})
z : float32[n, 2] = Relu(y)
output z : float32[n, 2]
)");
  CHECK(done.text == "Cast(f) MatMul(hh) Relu(h) Cast(h)");
  CHECK(done.lowered.weights == 1);
  CHECK(done.lowered.nodes == 2);
}

TEST_CASE("what is beyond the range stays float32 until a node bounds it") {
  const Done done = lowered(R"(
input x : float32[n, 2]
input m : bool[n, 2]
a : float32[n, 2] = MatMul(x, float32[2, 2]{1, 2, 3, 4})
b : float32[n, 2] = Where(m, a, float32{-1e+09})
c : float32[n, 2] = Softmax<axis=1>(b)
d : float32[n, 2] = MatMul(c, float32[2, 2]{1, 2, 3, 100000})
e : float32[n, 2] = MatMul(c, float32[2, 2]{1, 2, 3, 4})
output d : float32[n, 2]
output e : float32[n, 2]
)");
  CHECK(done.text == "Cast(f) MatMul(hh) Cast(h) Where(ff) Softmax(f) Cast(f) MatMul(ff) MatMul(hh) Cast(h)");
  CHECK(done.lowered.beyond.size() == 1);
}

TEST_CASE("statistics of a norm are float32, and what meets them") {
  CHECK(lowered(R"(
input x : float32[n, 2]
y : float32[n, 2] = MatMul(x, float32[2, 2]{1, 2, 3, 4})
square : float32[n, 2] = Mul(y, y)
mean : float32[n, 1] = ReduceMean(square, int64[1]{1})
sum : float32[n, 1] = Add(mean, float32{1e-06})
root : float32[n, 1] = Sqrt(sum)
normal : float32[n, 2] = Div(y, root)
z : float32[n, 2] = MatMul(normal, float32[2, 2]{1, 2, 3, 4})
output z : float32[n, 2]
)")
            .text ==
        "Cast(f) MatMul(hh) Cast(h) Mul(ff) ReduceMean(f) Add(ff) Sqrt(f) Div(ff) Cast(f) MatMul(hh) Cast(h)");
}

TEST_CASE("positions are float32") {
  CHECK(lowered(R"(
input p : int64[n, 1]
input x : float32[n, 2]
f : float32[n, 1] = Cast<to=1>(p)
angles : float32[n, 2] = MatMul(f, float32[1, 2]{1, 0.01})
c : float32[n, 2] = Cos(angles)
y : float32[n, 2] = MatMul(x, float32[2, 2]{1, 2, 3, 4})
z : float32[n, 2] = Mul(y, c)
output z : float32[n, 2]
)")
            .text == "Cast(f) Cast() MatMul(ff) Cos(f) Cast(f) MatMul(hh) Mul(hh) Cast(h)");
}

TEST_CASE("bodies take and give float32, and modules are kept") {
  constexpr std::string_view branches = R"(
input c : bool[]
input x : float32[2, 2]
y : float32[2, 2] = If<then_branch={
  a : float32[2, 2] = MatMul(x, float32[2, 2]{1, 2, 3, 4})
  output a : float32[2, 2]
}, else_branch={
  b : float32[2, 2] = Neg(x)
  output b : float32[2, 2]
}>(c)
output y : float32[2, 2]
)";
  CHECK(lowered(branches).text == "Cast(f) MatMul(hh) Cast(h) Neg(f) If()");
  CHECK(lowered(branches, DType::Half, {"*"}).lowered.nodes == 0);
}

TEST_CASE("without kernels for the type, only large weights have it") {
  const Done small = lowered(R"(
input x : float32[n, 2]
y : float32[n, 2] = MatMul(x, float32[2, 2]{1, 2, 3, 4})
output y : float32[n, 2]
)",
                             DType::BFloat16);
  CHECK(small.text == "MatMul(ff)");
  CHECK(small.lowered.widened == 1);
}

}  // namespace lithify::rewrite
