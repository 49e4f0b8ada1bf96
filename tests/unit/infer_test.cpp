// The facts that the rules of ONNX operators give, as text.
#include <doctest/doctest.h>

#include <limits>

#include "base/diagnostic.hpp"
#include "onnx/builder.hpp"
#include "onnx/opdef.hpp"

namespace lithify::onnx {
namespace {

struct Fixture {
  sym::Context sym;
  Graph graph;
  Builder b{graph, sym, 23};
  Dim batch = sym.symbol({.name = "batch", .lower = 1, .upper = {}, .sample = 2, .divisor = 1});
  Dim seq = sym.symbol({.name = "seq", .lower = 1, .upper = {}, .sample = 10, .divisor = 1});
  Dim h = sym.symbol({.name = "h", .lower = 1, .upper = {}, .sample = 32, .divisor = 1});
  int inputs = 0;
  Value* sizes = b.input("sizes", DType::Float, {batch, seq, h});  // where the sizes are known at run time

  Dim n(int64_t v) { return sym.constant(v); }
  Value* in(Shape shape, DType dtype = DType::Float) {
    return b.input("x" + std::to_string(inputs++), dtype, std::move(shape));
  }
  std::string type(std::string_view op, Inputs inputs, Attributes attributes = {}) {
    return print_type(*b.op(op, std::move(inputs), std::move(attributes)));
  }
  Code code(std::string_view op, Inputs inputs, Attributes attributes = {}) {
    try {
      b.op(op, std::move(inputs), std::move(attributes));
    } catch (const Error& e) {
      return e.first().code;
    }
    return Code::Internal;
  }
};

using Ints = std::vector<int64_t>;

}  // namespace

TEST_CASE_FIXTURE(Fixture, "every operator is found by its name") {
  CHECK(find_op("Add")->since == 1);
  CHECK(find_op("Gelu")->since == 20);
  CHECK(find_op("RMSNormalization")->since == 23);
  CHECK(!find_op("RandomNormal")->pure);
  CHECK(find_op("Nonsense") == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "elementwise operators broadcast") {
  CHECK(type("Add", {in({batch, n(1), n(3)}), in({seq, n(3)})}) == "float32[batch, seq, 3]");
  CHECK(type("Less", {in({batch}), in({n(1)})}) == "bool[batch]");
  CHECK(type("Where", {in({batch, n(1)}, DType::Bool), in({n(4)}), in({})}) == "float32[batch, 4]");
  CHECK(type("Cast", {in({batch})}, {{"to", int64_t{10}}}) == "float16[batch]");
}

TEST_CASE_FIXTURE(Fixture, "sizes that disagree are told apart from hard-coded ones") {
  CHECK(code("Add", {in({n(2)}), in({n(3)})}) == Code::ShapeMismatch);
  CHECK(code("Add", {in({batch}), in({n(2)})}) == Code::HardCodedSize);
  CHECK(code("Reshape", {in({batch, n(10)}), b.ints({2, 10})}) == Code::HardCodedSize);
  CHECK(code("Reshape", {in({batch, seq}), b.symbolic(Shape{n(2), seq})}) == Code::HardCodedSize);
  CHECK(code("Concat", {in({batch, n(1)}), in({n(2), n(1)})}, {{"axis", int64_t{1}}}) == Code::HardCodedSize);
  CHECK(code("MatMul", {in({n(2), n(3)}), in({n(4), n(2)})}) == Code::ShapeMismatch);
  CHECK(code("Add", {in({batch}), in({batch}, DType::Int64)}) == Code::TypeMismatch);
}

TEST_CASE_FIXTURE(Fixture, "a model that runs for even sizes only still exports") {
  const Dim half = sym.floor_div(h, n(2));
  const Dim even = sym.mul(half, n(2));
  CHECK(type("Concat", {in({batch, n(3), h}), in({batch, n(5), even})}, {{"axis", int64_t{1}}}) ==
        "float32[batch, 8, h]");
}

TEST_CASE_FIXTURE(Fixture, "Reshape keeps and divides") {
  CHECK(type("Reshape", {in({batch, seq, n(12)}), b.ints({0, 0, 3, -1})}) == "float32[batch, seq, 3, 4]");
  CHECK(type("Reshape", {in({batch, seq, n(12)}), b.ints({-1, 12})}) == "float32[batch*seq, 12]");
  CHECK(type("Reshape", {in({batch, n(10)}), b.ints({2, -1})}) == "float32[2, 5*batch]");
  CHECK(code("Reshape", {in({n(7)}), b.ints({2, -1})}) == Code::ShapeMismatch);
}

TEST_CASE_FIXTURE(Fixture, "dimensions come and go") {
  CHECK(type("Flatten", {in({batch, n(3), seq})}) == "float32[batch, 3*seq]");
  CHECK(type("Squeeze", {in({batch, n(1), seq}), b.ints({-2})}) == "float32[batch, seq]");
  CHECK(type("Unsqueeze", {in({batch, seq}), b.ints({0, -1})}) == "float32[1, batch, seq, 1]");
  CHECK(type("Transpose", {in({batch, n(3), seq})}) == "float32[seq, 3, batch]");
  CHECK(type("Transpose", {in({batch, n(3), seq})}, {{"perm", Ints{0, 2, 1}}}) == "float32[batch, seq, 3]");
}

TEST_CASE_FIXTURE(Fixture, "Slice clamps numbers against symbolic sizes") {
  auto sliced = [&](Dim size, int64_t start, int64_t end, int64_t step = 1) {
    Value* v = b.op("Slice", {in({size}), b.ints({start}), b.ints({end}), b.ints({0}), b.ints({step})});
    return print_shape(v->shape);
  };
  const int64_t far = std::numeric_limits<int64_t>::max();
  CHECK(sliced(seq, 0, far) == "[seq]");
  CHECK(sliced(seq, 1, far) == "[seq - 1]");
  CHECK(sliced(seq, 0, -1) == "[seq - 1]");
  CHECK(sliced(seq, -1, far) == "[1]");
  CHECK(sliced(seq, 0, 1) == "[1]");
  CHECK(sliced(seq, 0, far, 2) == "[" + sym.ceil_div(seq, n(2)).str() + "]");
  CHECK(sliced(seq, -1, -far, -1) == "[seq]");
  CHECK(sliced(n(10), 2, 100, 3) == "[3]");
  CHECK(sliced(n(10), 8, 1, -3) == "[3]");
  CHECK(sliced(n(10), 5, 5) == "[0]");
  CHECK(sliced(n(10), -100, 3) == "[3]");
  const Dim maybe_empty = sym.symbol({.name = "n", .lower = 0, .upper = {}, .sample = {}, .divisor = 1});
  CHECK(sliced(maybe_empty, 1, far) == "[" + sym.max(sym.sub(maybe_empty, n(1)), n(0)).str() + "]");
  Value* v = b.op("Slice", {in({n(512)}), b.ints({0}), b.symbolic(Shape{seq}), b.ints({0})});
  CHECK(print_shape(v->shape) == "[seq]");
}

TEST_CASE_FIXTURE(Fixture, "parts are joined and split") {
  CHECK(type("Concat", {in({batch, n(3)}), in({batch, seq})}, {{"axis", int64_t{-1}}}) == "float32[batch, seq + 3]");
  auto parts = b.op_n("Split", {in({batch, n(7)}), b.ints({3, 4})}, {{"axis", int64_t{1}}}, 2);
  CHECK(print_shape(parts[1]->shape) == "[batch, 4]");
  parts = b.op_n("Split", {in({n(7)})}, {{"num_outputs", int64_t{3}}}, 3);
  CHECK(print_shape(parts[0]->shape) == "[3]");
  CHECK(print_shape(parts[2]->shape) == "[1]");
  CHECK(type("Gather", {in({batch, n(5), n(6)}), in({seq, n(2)}, DType::Int64)}, {{"axis", int64_t{1}}}) ==
        "float32[batch, seq, 2, 6]");
  CHECK(type("GatherND", {in({batch, n(5), n(6)}), in({seq, n(2)}, DType::Int64)}) == "float32[seq, 6]");
}

TEST_CASE_FIXTURE(Fixture, "tensors grow") {
  CHECK(type("Expand", {in({n(1), n(3)}), b.symbolic(Shape{batch, n(1)})}) == "float32[batch, 3]");
  CHECK(type("Tile", {in({batch, n(3)}), b.ints({2, 4})}) == "float32[2*batch, 12]");
  CHECK(type("Pad", {in({batch, seq}), b.ints({0, 1, 0, 2})}) == "float32[batch, seq + 3]");
  CHECK(type("Range", {b.scalar_int(DType::Int64, 0), b.symbolic(seq), b.scalar_int(DType::Int64, 1)}) == "int64[seq]");
  CHECK(type("OneHot", {in({batch}, DType::Int64), b.scalar_int(DType::Int64, 5),
                        b.floats(std::vector<float>{0, 1})}) == "float32[batch, 5]");
  CHECK(type("DepthToSpace", {in({batch, n(8), h, n(4)})}, {{"blocksize", int64_t{2}}}) == "float32[batch, 2, 2*h, 8]");
}

TEST_CASE_FIXTURE(Fixture, "sizes of the data get symbols of their own") {
  Value* v = b.op("NonZero", {in({batch, seq})});
  CHECK(v->dtype == DType::Int64);
  CHECK(v->shape[0].is(2));
  CHECK(v->shape[1].is_symbol());
  CHECK(v->shape[1].lower() == 0);
}

TEST_CASE_FIXTURE(Fixture, "windows slide") {
  Value* x = in({batch, n(3), h, n(32)});
  CHECK(type("Conv", {x, in({n(8), n(3), n(3), n(3)})}, {{"pads", Ints{1, 1, 1, 1}}}) == "float32[batch, 8, h, 32]");
  Value* strided =
      b.op("Conv", {x, in({n(8), n(3), n(3), n(3)})}, {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}});
  CHECK(strided->shape[3].is(16));
  CHECK(strided->shape[2] == sym.add(sym.floor_div(sym.sub(h, n(1)), n(2)), n(1)));
  CHECK(code("Conv", {x, in({n(8), n(4), n(3), n(3)})}) == Code::ShapeMismatch);
  CHECK(code("Conv", {x, in({n(8), n(3), n(3), n(40)})}) == Code::ShapeMismatch);
  CHECK(type("ConvTranspose", {x, in({n(3), n(8), n(2), n(2)})}, {{"strides", Ints{2, 2}}}) ==
        "float32[batch, 8, 2*h, 64]");
  CHECK(type("GlobalAveragePool", {x}) == "float32[batch, 3, 1, 1]");
  CHECK(type("Conv", {x, in({n(8), n(3), n(3), n(3)})}, {{"auto_pad", std::string("SAME_UPPER")}}) ==
        "float32[batch, 8, h, 32]");
}

TEST_CASE_FIXTURE(Fixture, "the last pooling window starts inside") {
  auto pooled = [&](int64_t size, int64_t kernel, int64_t stride, int64_t pad) {
    Value* v = b.op("MaxPool", {in({n(1), n(1), n(size)})},
                    {{"kernel_shape", Ints{kernel}},
                     {"strides", Ints{stride}},
                     {"pads", Ints{pad, pad}},
                     {"ceil_mode", int64_t{1}}});
    return *v->shape[2].constant();
  };
  CHECK(pooled(6, 3, 2, 0) == 3);
  CHECK(pooled(5, 2, 2, 0) == 3);
  CHECK(pooled(4, 2, 3, 1) == 2);
  CHECK(pooled(5, 1, 5, 0) == 1);
}

TEST_CASE_FIXTURE(Fixture, "products of matrices") {
  CHECK(type("MatMul", {in({batch, n(1), seq, n(4)}), in({n(8), n(4), n(5)})}) == "float32[batch, 8, seq, 5]");
  CHECK(type("MatMul", {in({n(4)}), in({n(4)})}) == "float32[]");
  CHECK(type("Gemm", {in({batch, n(4)}), in({n(5), n(4)})}, {{"transB", int64_t{1}}}) == "float32[batch, 5]");
  CHECK(type("Einsum", {in({batch, seq, n(8)}), in({n(8), n(3)})}, {{"equation", std::string("...i, ij -> ...j")}}) ==
        "float32[batch, seq, 3]");
  CHECK(type("Einsum", {in({batch, seq}), in({seq, n(3)})}, {{"equation", std::string("ij,jk")}}) ==
        "float32[batch, 3]");
}

TEST_CASE_FIXTURE(Fixture, "reductions") {
  CHECK(type("ReduceSum", {in({batch, seq, n(3)}), b.ints({-1})}) == "float32[batch, seq, 1]");
  CHECK(type("ReduceMean", {in({batch, seq, n(3)}), b.ints({1})}, {{"keepdims", int64_t{0}}}) == "float32[batch, 3]");
  CHECK(type("ReduceMax", {in({batch, seq})}, {{"keepdims", int64_t{0}}}) == "float32[]");
  CHECK(type("ArgMax", {in({batch, seq})}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}) == "int64[batch]");
}

TEST_CASE_FIXTURE(Fixture, "recurrence, attention and resampling") {
  auto out = b.op_n("LSTM", {in({seq, batch, n(8)}), in({n(2), n(64), n(8)}), in({n(2), n(64), n(16)})},
                    {{"direction", std::string("bidirectional")}, {"hidden_size", int64_t{16}}}, 3);
  CHECK(print_shape(out[0]->shape) == "[seq, 2, batch, 16]");
  CHECK(print_shape(out[2]->shape) == "[2, batch, 16]");
  CHECK(type("Attention", {in({batch, n(4), seq, n(8)}), in({batch, n(2), h, n(8)}), in({batch, n(2), h, n(6)})}) ==
        "float32[batch, 4, seq, 6]");
  CHECK(type("Resize", {in({batch, n(3), h, n(9)}), nullptr, b.floats(std::vector<float>{1, 1, 2, 0.5F})}) ==
        "float32[batch, 3, 2*h, 4]");
  CHECK(type("Resize", {in({batch, n(3), h, n(9)}), nullptr, nullptr, b.symbolic(Shape{batch, n(3), seq, n(7)})}) ==
        "float32[batch, 3, seq, 7]");
}

}  // namespace lithify::onnx
