// The hash of a graph: what counts, and what does not.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>

#include "onnx/builder.hpp"
#include "onnx/hash.hpp"
#include "rewrite/finish.hpp"

namespace lithify::onnx {
namespace {

/// The hash of what `build` makes of an input of shape [n, 4].
uint64_t hash_of(const std::function<Value*(Builder&, Value*)>& build, std::string name = "x", std::string size = "n") {
  sym::Context sym;
  Graph graph;
  Builder b(graph, sym, 20);
  Value* x = b.input(std::move(name), DType::Float, {sym.symbol({.name = std::move(size)}), sym.constant(4)});
  rewrite::finish(b, {{{"y", build(b, x)}}});
  return structural_hash(graph);
}

TensorView numbers(size_t count, float value) {
  std::vector<std::byte> bytes(count * sizeof(float));
  for (size_t i = 0; i < count; ++i) std::memcpy(&bytes[i * sizeof(float)], &value, sizeof(float));
  return TensorView::dense(DType::Float, {static_cast<int64_t>(count)}, std::move(bytes));
}

Value* relu(Builder& b, Value* x) { return b.op("Relu", {x}); }

/// x in one branch of an If on x's sum, something of it in the other.
Value* either(Builder& b, Value* x, std::string_view type, bool negated) {
  Value* condition = b.op("Greater", {b.reduce("ReduceSum", x, {}, false), b.scalar(DType::Float, 0)});
  auto body = [&](std::string_view op) {
    auto graph = b.new_body(Builder::Body::Branch);
    b.enter(*graph);
    Value* v = op.empty() ? x : b.op(op, {x});
    b.body_outputs({&v, 1});
    b.leave();
    return graph;
  };
  return b.control("If", {condition}, {{"then_branch", body(type)}, {"else_branch", body(negated ? "Neg" : "")}},
                   {{DType::Float, x->shape}})[0];
}

}  // namespace

TEST_CASE("names and sizes do not count in the hash of a graph") {
  CHECK(hash_of(relu) == hash_of(relu, "images", "batch"));
  auto scoped = [](Builder& b, Value* x) {
    b.scope = "encoder.layer";
    return b.op("Relu", {x});
  };
  CHECK(hash_of(scoped) == hash_of(relu));
}

TEST_CASE("operators, attributes and edges count in the hash of a graph") {
  const uint64_t plain = hash_of(relu);
  CHECK(hash_of([](Builder& b, Value* x) { return b.op("Sigmoid", {x}); }) != plain);
  auto celu = [](float alpha) {
    return hash_of([&](Builder& b, Value* x) { return b.op("Celu", {x}, {{"alpha", alpha}}); });
  };
  CHECK(celu(0.5F) == celu(0.5F));
  CHECK(celu(0.5F) != celu(0.25F));
  auto difference = [](bool swapped) {
    return hash_of([&](Builder& b, Value* x) {
      Value *y = b.op("Exp", {x}), *z = b.op("Sigmoid", {x});
      return swapped ? b.sub(z, y) : b.sub(y, z);
    });
  };
  CHECK(difference(false) != difference(true));
  auto foreign = [](const std::string& domain) {
    return hash_of([&](Builder& b, Value* x) { return b.foreign(domain, "Op", {x}, {}, {{x->dtype, x->shape}})[0]; });
  };
  CHECK(foreign("a") != foreign("b"));
}

TEST_CASE("the order of nodes does not count in the hash of a graph") {
  auto difference = [](bool sigmoid_first) {
    return hash_of([&](Builder& b, Value* x) {
      Value* y = sigmoid_first ? nullptr : b.op("Exp", {x});
      Value* z = b.op("Sigmoid", {x});
      return b.sub(y ? y : b.op("Exp", {x}), z);
    });
  };
  CHECK(difference(false) == difference(true));
}

TEST_CASE("bodies count in the hash of a graph") {
  auto of = [](std::string_view type, bool negated) {
    return hash_of([&](Builder& b, Value* x) { return either(b, x, type, negated); });
  };
  CHECK(of("Relu", false) == of("Relu", false));
  CHECK(of("Relu", false) != of("Exp", false));
  CHECK(of("Relu", false) != of("Relu", true));
}

TEST_CASE("small constants count by their contents, weights by their memory") {
  auto plus = [](const TensorView& view) {
    return hash_of([&](Builder& b, Value* x) { return b.add(x, b.constant(view)); });
  };
  CHECK(plus(numbers(4, 1)) == plus(numbers(4, 1)));
  CHECK(plus(numbers(4, 1)) != plus(numbers(4, 2)));
  auto gather = [](const TensorView& view) {
    return hash_of([&](Builder& b, Value* x) { return b.gather(b.weight(view, "w"), b.cast(x, DType::Int64), 0); });
  };
  const TensorView weight = numbers(300000, 1);
  CHECK(gather(weight) == gather(weight));
  CHECK(gather(weight) != gather(weight.narrowed(0, 1, 299999)));
  CHECK(gather(weight) != gather(numbers(300000, 1)));
}

}  // namespace lithify::onnx
