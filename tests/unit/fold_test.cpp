// What is evaluated at export: numbers, views of constants, expressions.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.hpp"
#include "onnx/builder.hpp"
#include "onnx/text.hpp"
#include "rewrite/finish.hpp"

namespace lithify::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;

struct Fixture {
  sym::Context sym;
  Graph graph;
  Builder b{graph, sym, 23};
  Dim batch = sym.symbol({.name = "batch", .lower = 1, .upper = {}, .sample = 2, .divisor = 1});
  Dim seq = sym.symbol({.name = "seq", .lower = 1, .upper = {}, .sample = 10, .divisor = 1});
  Value* x = b.input("x", DType::Float, {batch, seq, sym.constant(12)});

  Dim n(int64_t v) { return sym.constant(v); }
  template <class T>
  Value* tensor(DType dtype, Ints sizes, std::vector<T> data, std::string_view name = {}) {
    std::vector<std::byte> bytes(data.size() * sizeof(T));
    std::memcpy(bytes.data(), data.data(), bytes.size());
    return b.constant(TensorView::dense(dtype, std::move(sizes), std::move(bytes)), name);
  }
  Value* floats(Ints sizes, std::vector<float> data) { return tensor(DType::Float, std::move(sizes), std::move(data)); }
  Value* ints(Ints sizes, Ints data) { return tensor(DType::Int64, std::move(sizes), std::move(data)); }
  Value* bools(const std::vector<uint8_t>& data) {
    return tensor(DType::Bool, {static_cast<int64_t>(data.size())}, data);
  }
  Value* counting(Ints sizes) {
    int64_t count = 1;
    for (int64_t s : sizes) count *= s;
    std::vector<float> data;
    for (int64_t i = 0; i < count; ++i) data.push_back(static_cast<float>(i));
    return floats(std::move(sizes), std::move(data));
  }

  Reals reals(std::string_view op, Inputs inputs, Attributes attributes = {}) {
    Value* v = b.op(op, std::move(inputs), std::move(attributes));
    REQUIRE(v->is_constant());
    CHECK(graph.nodes.empty());
    return v->constant->reals();
  }
  /// Type and elements of an integer result.
  std::string text(std::string_view op, Inputs inputs, Attributes attributes = {}) {
    return text(b.op(op, std::move(inputs), std::move(attributes)));
  }
  static std::string text(Value* v) {
    REQUIRE(v->contents);
    return print_type(*v) + " {" + join(*v->contents) + "}";
  }
  static std::string join(const std::vector<Dim>& contents) {
    std::string r;
    for (Dim d : contents) r += (r.empty() ? "" : ", ") + d.str();
    return r;
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "sizes in tensors stay expressions") {
  Value* shape = b.op("Shape", {x});
  CHECK(text(shape) == "int64[3] {batch, seq, 12}");
  Value* s = b.op("Gather", {shape, b.scalar_int(DType::Int64, 1)});
  CHECK(text(s) == "int64[] {seq}");
  CHECK(text("Add", {s, b.scalar_int(DType::Int64, 1)}) == "int64[] {seq + 1}");
  CHECK(text("Div", {s, b.scalar_int(DType::Int64, 2)}) == "int64[] {floor(seq/2)}");
  CHECK(text("Mod", {s, b.scalar_int(DType::Int64, 2)}) == "int64[] {(seq % 2)}");
  CHECK(text("Slice", {shape, b.ints({1}), b.ints({3}), b.ints({0})}) == "int64[2] {seq, 12}");
  CHECK(text("Slice", {shape, b.ints({-1}), b.ints({-4}), b.ints({0}), b.ints({-1})}) == "int64[3] {12, seq, batch}");
  CHECK(text("Concat", {b.unsqueeze(s, {0}), b.ints({-1})}, {{"axis", int64_t{0}}}) == "int64[2] {seq, -1}");
  CHECK(text("ReduceProd", {shape}, {{"keepdims", int64_t{0}}}) == "int64[] {12*batch*seq}");
  CHECK(text("CumSum", {shape, b.scalar_int(DType::Int64, 0)}) == "int64[3] {batch, batch + seq, batch + seq + 12}");
  CHECK(text("Cast", {shape}, {{"to", int64_t{6}}}) == "int32[3] {batch, seq, 12}");
  CHECK(text("Size", {x}) == "int64[] {12*batch*seq}");
  CHECK(text("Pad", {shape, b.ints({1, 0})}) == "int64[4] {0, batch, seq, 12}");
  CHECK(text("Expand", {s, b.ints({2, 1})}) == "int64[2, 1] {seq, seq}");
  CHECK(text("Where", {bools({1, 0, 1}), shape, b.ints({7, 8, 9})}) == "int64[3] {batch, 8, 12}");
  CHECK(graph.nodes.empty());
}

TEST_CASE_FIXTURE(Fixture, "comparisons of sizes are decided where they can be") {
  Value* s = b.symbolic(seq);
  CHECK(text("Greater", {s, b.scalar_int(DType::Int64, 0)}) == "bool[] {1}");
  CHECK(text("Equal", {s, s}) == "bool[] {1}");
  CHECK(text("Not", {b.op("Less", {s, b.scalar_int(DType::Int64, 1)})}) == "bool[] {1}");
  CHECK(graph.nodes.empty());
  CHECK(!b.op("Equal", {s, b.scalar_int(DType::Int64, 4)})->contents);
}

TEST_CASE_FIXTURE(Fixture, "a tensor of many unknown numbers is computed by nodes") {
  Value* positions =
      b.op("Range", {b.scalar_int(DType::Int64, 0), b.scalar_int(DType::Int64, 40), b.scalar_int(DType::Int64, 1)});
  CHECK(positions->is_constant());
  CHECK(b.op("Add", {positions, b.symbolic(seq)})->kind == Value::Kind::Output);
}

TEST_CASE_FIXTURE(Fixture, "integers wrap as their type does") {
  auto bytes = [&](std::vector<uint8_t> v) { return tensor(DType::UInt8, {static_cast<int64_t>(v.size())}, v); };
  CHECK(text("Add", {bytes({250, 1}), bytes({10, 1})}) == "uint8[2] {4, 2}");
  CHECK(text("Sub", {bytes({0}), bytes({1})}) == "uint8[1] {255}");
  CHECK(text("Div", {ints({3}, {-7, 7, 9}), ints({}, {2})}) == "int64[3] {-3, 3, 4}");
  CHECK(text("Mod", {ints({2}, {-7, 7}), ints({}, {3})}) == "int64[2] {2, 1}");
  CHECK(text("Cast", {ints({2}, {300, -1})}, {{"to", int64_t{2}}}) == "uint8[2] {44, 255}");
  CHECK(text("Pow", {ints({2}, {3, -2}), ints({}, {3})}) == "int64[2] {27, -8}");
  CHECK(text("ReduceMax", {ints({2, 2}, {1, 5, 7, 3}), b.ints({1})}, {{"keepdims", int64_t{0}}}) == "int64[2] {5, 7}");
  CHECK(graph.nodes.empty());
  CHECK(!b.op("Div", {ints({1}, {1}), ints({1}, {0})})->is_constant());
}

TEST_CASE_FIXTURE(Fixture, "float32 is computed in float32") {
  const float third = 1.0F / 3.0F;
  CHECK(reals("Mul", {floats({1}, {0.1F}), floats({}, {third})}) == Reals{0.1F * third});
  CHECK(reals("Sqrt", {floats({1}, {2})}) == Reals{std::sqrt(2.0F)});
  CHECK(reals("Pow", {floats({2}, {2, 3}), ints({}, {2})}) == Reals{4, 9});
  CHECK(reals("Round", {floats({3}, {0.5F, 1.5F, -2.5F})}) == Reals{0, 2, -2});
  CHECK(reals("Max", {floats({2}, {1, 5}), floats({}, {3})}) == Reals{3, 5});
  CHECK(reals("Clip", {floats({3}, {-1, 0.5F, 9}), floats({}, {0}), floats({}, {6})}) == Reals{0, 0.5, 6});
  CHECK(reals("Relu", {floats({2}, {-1, 2})}) == Reals{0, 2});
  CHECK(reals("ReduceMean", {counting({2, 3}), b.ints({1})}) == Reals{1, 4});
  CHECK(reals("Less", {floats({2}, {1, 5}), floats({}, {3})}) == Reals{1, 0});
  CHECK(reals("Cast", {floats({2}, {-1.7F, 3.9F})}, {{"to", int64_t{7}}}) == Reals{-1, 3});
  CHECK(reals("Range", {floats({}, {0}), floats({}, {1}), floats({}, {0.25F})}) == Reals{0, 0.25, 0.5, 0.75});
  CHECK(reals("CumSum", {counting({2, 3}), b.scalar_int(DType::Int64, 1)}, {{"exclusive", int64_t{1}}}) ==
        Reals{0, 0, 1, 0, 3, 7});
  CHECK(reals("IsInf", {floats({2}, {1, std::numeric_limits<float>::infinity()})}) == Reals{0, 1});
}

TEST_CASE_FIXTURE(Fixture, "16-bit floats round to nearest even") {
  CHECK(half_from_float(65504.0F) == 0x7bff);
  CHECK(half_from_float(65520.0F) == 0x7c00);
  CHECK(half_from_float(0x1p-24F) == 1);
  CHECK(half_from_float(0x1p-25F) == 0);
  CHECK(half_from_float(1.0F + 0x1p-11F) == 0x3c00);
  CHECK(half_from_float(1.0F + 3 * 0x1p-11F) == 0x3c02);
  CHECK(float_from_half(0x8001) == -0x1p-24F);
  CHECK(bfloat16_from_float(1.0F + 0x1p-8F) == 0x3f80);
  CHECK(bfloat16_from_float(1.0F + 3 * 0x1p-8F) == 0x3f82);
  CHECK(std::isnan(float_from_bfloat16(bfloat16_from_float(std::nanf("")))));
  CHECK(reals("Cast", {floats({2}, {0.1F, 70000})}, {{"to", int64_t{10}}})[0] == float_from_half(0x2e66));
  Value* half = b.cast(floats({}, {2049}), DType::Half);
  CHECK(reals("Add", {half, b.scalar(DType::Half, 1)}) == Reals{2048});
}

TEST_CASE_FIXTURE(Fixture, "elements are moved") {
  Value* m = counting({2, 3});
  CHECK(reals("Transpose", {m}, {{"perm", Ints{1, 0}}}) == Reals{0, 3, 1, 4, 2, 5});
  CHECK(reals("Concat", {m, m}, {{"axis", int64_t{1}}}) == Reals{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  CHECK(reals("Slice", {m, b.ints({2}), b.ints({-4}), b.ints({1}), b.ints({-2})}) == Reals{2, 0, 5, 3});
  CHECK(reals("Gather", {m, b.ints({2, -3})}, {{"axis", int64_t{1}}}) == Reals{2, 0, 5, 3});
  CHECK(reals("GatherElements", {m, ints({1, 3}, {1, 0, -1})}) == Reals{3, 1, 5});
  CHECK(reals("GatherND", {m, ints({2, 2}, {0, 1, 1, -1})}) == Reals{1, 5});
  CHECK(reals("ScatterND", {m, ints({1, 1}, {1}), floats({1, 3}, {7, 8, 9})}) == Reals{0, 1, 2, 7, 8, 9});
  CHECK(reals("ScatterElements", {m, ints({1, 2}, {1, 0}), floats({1, 2}, {7, 8})}) == Reals{0, 8, 2, 7, 4, 5});
  CHECK(reals("Tile", {m, b.ints({1, 2})}) == Reals{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  CHECK(reals("Expand", {counting({2, 1}), b.ints({2, 3})}) == Reals{0, 0, 0, 1, 1, 1});
  CHECK(reals("Pad", {m, b.ints({0, 1, 0, -1}), floats({}, {9})}) == Reals{9, 0, 1, 9, 3, 4});
  CHECK(reals("Pad", {counting({4}), b.ints({2, 1})}, {{"mode", std::string("reflect")}}) ==
        Reals{2, 1, 0, 1, 2, 3, 2});
  CHECK(reals("Trilu", {m, b.scalar_int(DType::Int64, 1)}) == Reals{0, 1, 2, 0, 0, 5});
  CHECK(reals("Trilu", {m}, {{"upper", int64_t{0}}}) == Reals{0, 0, 0, 3, 4, 0});
  CHECK(reals("Where", {bools({1, 0, 1}), m, floats({}, {9})}) == Reals{0, 9, 2, 3, 9, 5});
  CHECK(reals("OneHot", {b.ints({1, -1}), b.scalar_int(DType::Int64, 3), floats({2}, {0, 5})}) ==
        Reals{0, 5, 0, 0, 0, 5});
  CHECK(reals("EyeLike", {m}, {{"k", int64_t{1}}}) == Reals{0, 1, 0, 0, 0, 1});
  CHECK(reals("ConstantOfShape", {b.ints({2})}) == Reals{0, 0});
  CHECK(reals("NonZero", {ints({2, 2}, {0, 1, 1, 1})}) == Reals{0, 1, 1, 1, 0, 1});
}

TEST_CASE_FIXTURE(Fixture, "large constants are rearranged without a copy") {
  Value* w = tensor(DType::Float, {300, 400}, std::vector<float>(300 * 400, 1), "fc.weight");
  const Storage* memory = w->constant->view()->storage.get();
  auto same_memory = [&](Value* v) {
    return v->is_constant() && v->name == "fc.weight" && v->constant->view()->storage.get() == memory;
  };
  Value* t = b.op("Transpose", {w}, {{"perm", Ints{1, 0}}});
  CHECK(same_memory(t));
  CHECK(print_type(*t) == "float32[400, 300]");
  CHECK(same_memory(b.op("Reshape", {w, b.ints({3, -1, 400})})));
  CHECK(same_memory(b.op("Slice", {w, b.ints({100}), b.ints({200}), b.ints({0})})));
  CHECK(same_memory(b.op("Gather", {w, b.scalar_int(DType::Int64, 7)}, {{"axis", int64_t{1}}})));
  auto parts = b.op_n("Split", {w}, {{"num_outputs", int64_t{3}}}, 3);
  CHECK(same_memory(parts[2]));
  CHECK(parts[2]->constant->view()->offset == 200 * 400);
  Value* joined = b.op("Concat", {parts[1], parts[0]}, {{"axis", int64_t{0}}});
  REQUIRE(joined->is_constant());
  CHECK(joined->constant->pieces.size() == 2);
  CHECK(graph.nodes.empty());
}

TEST_CASE_FIXTURE(Fixture, "large results are left to run time") {
  Value* w = tensor(DType::Float, {300, 400}, std::vector<float>(300 * 400, 1));
  CHECK(b.op("Exp", {w})->kind == Value::Kind::Output);
  CHECK(b.op("Expand", {floats({}, {1}), b.ints({100, 100})})->kind == Value::Kind::Output);
  CHECK(b.op("ConstantOfShape", {b.ints({100, 100})})->kind == Value::Kind::Output);
  CHECK(b.op("ReduceSum", {w})->constant->reals() == Reals{120000});
}

TEST_CASE_FIXTURE(Fixture, "a weight that is used in two orders is written once") {
  Value* w = tensor(DType::Float, {300, 400}, std::vector<float>(300 * 400, 1), "wte.weight");
  Value* ids = b.input("ids", DType::Int64, {batch, seq});
  Value* hidden = b.gather(w, ids, 0);
  Value* logits = b.matmul(hidden, b.transpose(w, {1, 0}));
  Value* flat = b.gather(b.reshape(w, {n(120000)}), ids, 0);
  rewrite::finish(b, {{{"logits", logits}, {"flat", flat}}});
  CHECK(print(graph).find("Transpose<perm=[1, 0]>(wte.weight)") != std::string::npos);
  size_t large = 0;
  for (const Value* v : graph.initializers()) large += v->constant->numel() > 100;
  CHECK(large == 1);
}

TEST_CASE_FIXTURE(Fixture, "a size of the data is read from the node that made it") {
  Value* found = b.op("NonZero", {x});
  Value* count = b.real(b.symbolic(found->shape[1]));
  rewrite::finish(b, {{{"count", count}}});
  CHECK(print(graph).find("Shape") != std::string::npos);
}

}  // namespace lithify::onnx
