// Rewrites, each by itself: ONNX text in, ONNX text out. A rewrite that must not apply gives the text back.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "onnx/text.hpp"
#include "onnx/verify.hpp"
#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {
namespace {

std::string rewritten(std::string_view name, std::string_view text, int opset = 23) {
  sym::Context sym;
  const std::unique_ptr<Graph> graph = onnx::parse(text.substr(text.find_first_not_of('\n')), sym);
  onnx::verify(*graph, opset, "parsing");
  Builder b(*graph, sym, opset);
  const auto found = std::ranges::find(rewrites(), name, &Rewrite::name);
  REQUIRE(found != rewrites().end());
  apply(*found, b);
  remove_unused(*graph);
  onnx::verify(*graph, opset, name);
  return "\n" + onnx::print(*graph);
}

}  // namespace

TEST_CASE("Gelu is found by its error function, only where all of it is used once") {
  constexpr std::string_view spelled_out = R"(
input x : float32[n, 8]
a : float32[n, 8] = Div(x, float32{1.4142135})
b : float32[n, 8] = Erf(a)
c : float32[n, 8] = Add(b, float32{1})
d : float32[n, 8] = Mul(x, c)
y : float32[n, 8] = Mul(d, float32{0.5})
output y : float32[n, 8]
)";
  CHECK(rewritten("fuse_gelu", spelled_out) == R"(
input x : float32[n, 8]
y : float32[n, 8] = Gelu(x)
output y : float32[n, 8]
)");
  CHECK(rewritten("fuse_gelu", spelled_out, 19) == spelled_out);
  const std::string used_twice = std::string(spelled_out) + "output c : float32[n, 8]\n";
  CHECK(rewritten("fuse_gelu", used_twice) == used_twice);
}

TEST_CASE("Gelu is found by its approximation") {
  CHECK(rewritten("fuse_gelu", R"(
input x : float32[n]
half : float32[n] = Mul(x, float32{0.5})
cube : float32[n] = Pow(x, float32{3})
scaled : float32[n] = Mul(cube, float32{0.044715})
sum : float32[n] = Add(x, scaled)
inner : float32[n] = Mul(sum, float32{0.7978846})
tanh : float32[n] = Tanh(inner)
outer : float32[n] = Add(tanh, float32{1})
y : float32[n] = Mul(half, outer)
output y : float32[n]
)") == R"(
input x : float32[n]
y : float32[n] = Gelu<approximate="tanh">(x)
output y : float32[n]
)");
}

TEST_CASE("RMSNormalization is found over the last axis only") {
  constexpr std::string_view over_last = R"(
input x : float32[batch, seq, 4]
square : float32[batch, seq, 4] = Mul(x, x)
mean : float32[batch, seq, 1] = ReduceMean(square, int64[1]{2})
sum : float32[batch, seq, 1] = Add(mean, float32{1e-06})
root : float32[batch, seq, 1] = Sqrt(sum)
r : float32[batch, seq, 1] = Reciprocal(root)
normal : float32[batch, seq, 4] = Mul(x, r)
y : float32[batch, seq, 4] = Mul(normal, float32[4]{1, 2, 3, 4})
output y : float32[batch, seq, 4]
)";
  CHECK(rewritten("fuse_rms_norm", over_last) == R"(
input x : float32[batch, seq, 4]
y : float32[batch, seq, 4] = RMSNormalization<axis=-1, epsilon=1e-06>(x, float32[4]{1, 2, 3, 4})
output y : float32[batch, seq, 4]
)");
  CHECK(rewritten("fuse_rms_norm", over_last, 22) == over_last);
  constexpr std::string_view over_first = R"(
input x : float32[4, 4]
square : float32[4, 4] = Mul(x, x)
mean : float32[1, 4] = ReduceMean(square, int64[1]{0})
sum : float32[1, 4] = Add(mean, float32{1e-06})
root : float32[1, 4] = Sqrt(sum)
normal : float32[4, 4] = Div(x, root)
y : float32[4, 4] = Mul(normal, float32[4]{1, 2, 3, 4})
output y : float32[4, 4]
)";
  CHECK(rewritten("fuse_rms_norm", over_first) == over_first);
}

TEST_CASE("a product with a reciprocal is a quotient, in bodies too") {
  CHECK(rewritten("divide", R"(
input x : float32[n]
input condition : bool[]
y : float32[n] = If<then_branch={
r : float32[n] = Reciprocal(x)
t : float32[n] = Mul(r, float32{3})
output t : float32[n]
}, else_branch={
e : float32[n] = Neg(x)
output e : float32[n]
}>(condition)
output y : float32[n]
)") == R"(
input x : float32[n]
input condition : bool[]
y : float32[n] = If<then_branch={
t : float32[n] = Div(float32{3}, x)
output t : float32[n]
}, else_branch={
e : float32[n] = Neg(x)
output e : float32[n]
}>(condition)
output y : float32[n]
)");
}

TEST_CASE("batch normalization becomes part of a convolution that nothing else uses") {
  constexpr std::string_view apart = R"(
input x : float32[n, 3, h, h]
weight w : float32[4, 3, 1, 1]
c : float32[n, 4, h, h] = Conv<kernel_shape=[1, 1]>(x, w, float32[4]{0, 1, 2, 3})
y : float32[n, 4, h, h] = BatchNormalization<epsilon=0.0>(c, float32[4]{1, 1, 2, 2}, float32[4]{0, 0, 0, 5}, float32[4]{0, 1, 0, 0}, float32[4]{1, 1, 4, 4})
output y : float32[n, 4, h, h]
)";
  CHECK(rewritten("fold_batch_norm", apart) == R"(
input x : float32[n, 3, h, h]
weight w : float32[4, 3, 1, 1]
y : float32[n, 4, h, h] = Conv<kernel_shape=[1, 1]>(x, w, float32[4]{0, 0, 2, 8})
output y : float32[n, 4, h, h]
)");
  const std::string used_twice = std::string(apart) + "output c : float32[n, 4, h, h]\n";
  CHECK(rewritten("fold_batch_norm", used_twice) == used_twice);
}

TEST_CASE("a flattened product of matrices is a MatMul") {
  CHECK(rewritten("unflatten_gemm", R"(
input x : float32[batch, seq, 2]
flat : float32[batch*seq, 2] = Reshape(x, int64[2]{-1, 2})
product : float32[batch*seq, 3] = Gemm(flat, float32[2, 3]{1, 2, 3, 4, 5, 6}, float32[3]{1, 1, 1})
sizes : int64[2]{batch, seq} = Shape<end=2>(x)
target : int64[3]{batch, seq, 3} = Concat<axis=0>(sizes, int64[1]{3})
y : float32[batch, seq, 3] = Reshape(product, target)
output y : float32[batch, seq, 3]
)") == R"(
input x : float32[batch, seq, 2]
%0 : float32[batch, seq, 3] = MatMul(x, float32[2, 3]{1, 2, 3, 4, 5, 6})
y : float32[batch, seq, 3] = Add(%0, float32[3]{1, 1, 1})
output y : float32[batch, seq, 3]
)");
}

TEST_CASE("elements that are repeated one by one are gathered") {
  CHECK(rewritten("repeat_by_gather", R"(
input x : float32[n, 2]
narrow : float32[n, 2, 1] = Reshape(x, int64[3]{0, 2, 1})
wide : float32[n, 2, 3] = Expand(narrow, int64[3]{1, 1, 3})
y : float32[n, 6] = Reshape(wide, int64[2]{0, 6})
output y : float32[n, 6]
)") == R"(
input x : float32[n, 2]
y : float32[n, 6] = Gather<axis=1>(x, int64[6]{0, 0, 0, 1, 1, 1})
output y : float32[n, 6]
)");
}

TEST_CASE("one of several projections is a slice") {
  constexpr std::string_view picked = R"(
input x : float32[n, 12]
split : float32[n, 3, 4] = Reshape(x, int64[3]{0, 3, 4})
moved : float32[3, n, 4] = Transpose<perm=[1, 0, 2]>(split)
y : float32[n, 4] = Gather<axis=0>(moved, int64{-1})
output y : float32[n, 4]
)";
  CHECK(rewritten("slice_of_split", picked) == R"(
input x : float32[n, 12]
y : float32[n, 4] = Slice(x, int64[1]{8}, int64[1]{12}, int64[1]{1}, int64[1]{1})
output y : float32[n, 4]
)");
  CHECK(rewritten("slice_of_split", picked, 9) == R"(
input x : float32[n, 12]
y : float32[n, 4] = Slice<axes=[1], ends=[12], starts=[8]>(x)
output y : float32[n, 4]
)");
}

TEST_CASE("moves of axes are joined, and moved apart from the start") {
  CHECK(rewritten("join_moves", R"(
input x : float32[a, b, 4]
first : float32[b, a, 4] = Transpose<perm=[1, 0, 2]>(x)
y : float32[4, a, b] = Transpose<perm=[2, 1, 0]>(first)
output y : float32[4, a, b]
)") == R"(
input x : float32[a, b, 4]
y : float32[4, a, b] = Transpose<perm=[2, 0, 1]>(x)
output y : float32[4, a, b]
)");
  CHECK(rewritten("move_apart", R"(
input x : float32[n, 2, 3, 4]
together : float32[n, 6, 4] = Reshape(x, int64[3]{0, 6, 4})
moved : float32[n, 4, 6] = Transpose<perm=[0, 2, 1]>(together)
y : float32[n, 4, 2, 3] = Reshape(moved, int64[4]{0, 4, 2, 3})
output y : float32[n, 4, 2, 3]
)") == R"(
input x : float32[n, 2, 3, 4]
y : float32[n, 4, 2, 3] = Transpose<perm=[0, 3, 1, 2]>(x)
output y : float32[n, 4, 2, 3]
)");
}

TEST_CASE("slices that make up an axis are one Split, others stay") {
  CHECK(rewritten("split_slices", R"(
input x : float32[n, 6]
a : float32[n, 2] = Slice(x, int64[1]{0}, int64[1]{2}, int64[1]{1}, int64[1]{1})
b : float32[n, 4] = Slice(x, int64[1]{2}, int64[1]{9223372036854775807}, int64[1]{1}, int64[1]{1})
y : float32[n, 6] = Concat<axis=1>(b, a)
output y : float32[n, 6]
)") == R"(
input x : float32[n, 6]
%0 : float32[n, 2], %1 : float32[n, 4] = Split<axis=1>(x, int64[2]{2, 4})
y : float32[n, 6] = Concat<axis=1>(%1, %0)
output y : float32[n, 6]
)");
  constexpr std::string_view overlapping = R"(
input x : float32[n, 6]
a : float32[n, 3] = Slice(x, int64[1]{0}, int64[1]{3}, int64[1]{1}, int64[1]{1})
b : float32[n, 4] = Slice(x, int64[1]{2}, int64[1]{6}, int64[1]{1}, int64[1]{1})
y : float32[n, 7] = Concat<axis=1>(b, a)
output y : float32[n, 7]
)";
  CHECK(rewritten("split_slices", overlapping) == overlapping);
}

TEST_CASE("what is computed from constants alone becomes a constant") {
  CHECK(rewritten("fold_constants", R"(
input x : float32[n, 2]
a : float32[2] = Sqrt(float32[2]{4, 9})
b : float32[2] = Add(a, float32{1})
y : float32[n, 2] = Mul(x, b)
output y : float32[n, 2]
)") == R"(
input x : float32[n, 2]
y : float32[n, 2] = Mul(x, float32[2]{3, 4})
output y : float32[n, 2]
)");
}

}  // namespace lithify::rewrite
