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

TEST_CASE("an attention that is spelled out is one node, with heads that several of the query share") {
  constexpr std::string_view plain = R"(
input q : float32[n, 4, s, 8]
input k : float32[n, 2, t, 8]
input v : float32[n, 2, t, 8]
input m : bool[n, 1, s, t]
kk : float32[n, 4, t, 8] = Gather<axis=1>(k, int64[4]{0, 0, 1, 1})
vv : float32[n, 4, t, 8] = Gather<axis=1>(v, int64[4]{0, 0, 1, 1})
kt : float32[n, 4, 8, t] = Transpose<perm=[0, 1, 3, 2]>(kk)
qs : float32[n, 4, s, 8] = Mul(q, float32{0.25})
scores : float32[n, 4, s, t] = MatMul(qs, kt)
masked : float32[n, 4, s, t] = Where(m, scores, float32{-3.4028235e+38})
weights : float32[n, 4, s, t] = Softmax<axis=-1>(masked)
zeroed : float32[n, 4, s, t] = Where(m, weights, float32{0})
y : float32[n, 4, s, 8] = MatMul(zeroed, vv)
output y : float32[n, 4, s, 8]
)";
  const std::string one = rewritten("fuse_attention", plain);
  CHECK(one.find("Attention<scale=0.25>(q, k, v, m)") != one.npos);
  CHECK(one.find("ReduceMax") != one.npos);
  CHECK(one.find("Softmax") == one.npos);
  CHECK(rewritten("fuse_attention", plain, 22) == plain);
  // Heads in another order, a mask that is not that of the zeros, and weights that are used again.
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text(plain);
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::string order = with("(k, int64[4]{0, 0, 1, 1})", "(k, int64[4]{0, 1, 0, 1})");
  CHECK(rewritten("fuse_attention", order).find("Attention<scale=0.25>(q, kk, vv, m)") != std::string::npos);
  const std::string infinite = with("float32{-3.4028235e+38}", "float32{-1000}");
  CHECK(rewritten("fuse_attention", infinite) == infinite);
  const std::string again = std::string(plain) + "output weights : float32[n, 4, s, t]\n";
  CHECK(rewritten("fuse_attention", again) == again);
}

TEST_CASE("a mask that is added is one of an attention, where it has all sizes and is finite") {
  constexpr std::string_view plain = R"(
input q : float32[n, 2, s, 8]
input k : float32[n, s, 2, 8]
input v : float32[n, 2, s, 8]
input b : bool[1, 1, s, s]
kt : float32[n, 2, 8, s] = Transpose<perm=[0, 2, 3, 1]>(k)
scores : float32[n, 2, s, s] = MatMul(q, kt)
scaled : float32[n, 2, s, s] = Div(scores, float32{4})
m : float32[1, 1, s, s] = Where(b, float32{0}, float32{-1e+09})
masked : float32[n, 2, s, s] = Add(scaled, m)
weights : float32[n, 2, s, s] = Softmax<axis=3>(masked)
y : float32[n, 2, s, 8] = MatMul(weights, v)
output y : float32[n, 2, s, 8]
)";
  const std::string one = rewritten("fuse_attention", plain);
  CHECK(one.find("Attention<scale=0.25>(q, ") != one.npos);
  CHECK(one.find("Softmax") == one.npos);
  std::string infinite(plain);
  infinite.replace(infinite.find("-1e+09"), 6, "-inf");
  CHECK(rewritten("fuse_attention", infinite) == infinite);
}

TEST_CASE("a rotary embedding is one node, where both halves have the same angles") {
  constexpr std::string_view plain = R"(
input x : float32[n, 2, s, 8]
input f : float32[n, s, 4]
ff : float32[n, s, 8] = Concat<axis=2>(f, f)
c : float32[n, s, 8] = Cos(ff)
d : float32[n, s, 8] = Sin(ff)
cos : float32[n, 1, s, 8] = Unsqueeze(c, int64[1]{1})
sin : float32[n, 1, s, 8] = Unsqueeze(d, int64[1]{1})
plain : float32[n, 2, s, 8] = Mul(x, cos)
a : float32[n, 2, s, 4], b : float32[n, 2, s, 4] = Split<axis=3, num_outputs=2>(x)
negated : float32[n, 2, s, 4] = Neg(b)
turned : float32[n, 2, s, 8] = Concat<axis=3>(negated, a)
other : float32[n, 2, s, 8] = Mul(turned, sin)
y : float32[n, 2, s, 8] = Add(plain, other)
output y : float32[n, 2, s, 8]
)";
  const std::string one = rewritten("fuse_rotary", plain);
  CHECK(one.find("RotaryEmbedding(x, ") != one.npos);
  CHECK(one.find("Concat") == one.npos);
  std::string swapped(plain);
  swapped.replace(swapped.find("(negated, a)"), 12, "(a, negated)");
  CHECK(rewritten("fuse_rotary", swapped) == swapped);
  std::string different(plain);
  different.replace(different.find("Concat<axis=2>(f, f)"), 20, "Concat<axis=2>(f, g)");
  different.replace(different.find("ff :"), 0, "g : float32[n, s, 4] = Neg(f)\n");
  CHECK(rewritten("fuse_rotary", different) == different);
}

}  // namespace lithify::rewrite
