// The text form of ONNX graphs: what is parsed is printed again as it was, and what is not a graph is refused.
#include <doctest/doctest.h>

#include <string>

#include "base/diagnostic.hpp"
#include "onnx/builder.hpp"
#include "onnx/text.hpp"
#include "onnx/verify.hpp"

namespace lithify::onnx {
namespace {

std::string again(std::string_view text) {
  sym::Context sym;
  return print(*parse(text, sym));
}

std::string refusal(std::string_view text) {
  try {
    again(text);
  } catch (const Error& e) {
    CHECK(e.first().code == Code::BadProgram);
    return e.first().message;
  }
  return "";
}

}  // namespace

TEST_CASE("attributes of every type have a text") {
  constexpr std::string_view text =
      "input x : float32[n]\n"
      "y : float32[n] = my.domain::Op<i=-3, f=2.0, g=1e-05, s=\"a \\\"b\\\" \\\\ \\n\", ints=[1, -2], none=[], "
      "floats=[1.5, inf], no_floats=floats[], strings=[\"a\", \"b, c\"], no_strings=strings[], t=float32[2]{1, 0.5}, "
      "u=int64{7}, large=float16[20]{...}, type=optional float32[n, ?]>(x, _, bool[2]{0, 1}, int64[0]{}, "
      "float64{0.1})\n"
      "output y : float32[n]\n";
  CHECK(again(text) == text);
}

TEST_CASE("types, contents, weights and facts of sizes have a text") {
  constexpr std::string_view text =
      "size found >= 0\n"
      "size any\n"
      "size h >= 8, <= 64, % 8\n"
      "size i >= 0, < h\n"
      "input \"a b\" : float32[found, any, h]\n"
      "input s : sequence of float32[?, i]\n"
      "weight w.0 : float32[30, 40]\n"
      "/Shape_output_0 : int64[3]{found, any, h} = Shape(\"a b\")\n"
      "%0 : float32[30], output : float32[2*any + 1, floor(found/3), (found % 4), min(any, i)] = my::Op(w.0, s)\n"
      "y : float32[] = my::Op(%0, output)\n"
      "output y : float32[]\n";
  CHECK(again(text) == text);
}

TEST_CASE("formulas of sizes are parsed as they are printed") {
  sym::Context sym;
  const Dim a = sym.symbol({.name = "a"}), b = sym.symbol({.name = "b"}), n = sym.symbol({.name = "n", .lower = 0});
  auto c = [&](int64_t v) { return sym.constant(v); };
  const Dim sum = sym.add(sym.mul(a, b), sym.mul(c(3), a));
  const std::vector<Dim> all = {sum,
                                sym.sub(n, c(4)),
                                sym.sub(c(0), n),
                                sym.floor_div(sym.sub(a, c(1)), c(2)),
                                sym.floor_div(sum, sym.add(b, n)),
                                sym.mul(sym.mod(sum, c(7)), b),
                                sym.max(sym.sub(n, c(1)), c(0)),
                                sym.min(sym.max(a, n), b),
                                *sym.broadcast(a, b),
                                sym.ceil_div(a, c(3))};
  Graph graph;
  Builder builder(graph, sym, 20);
  builder.input("x", DType::Float, {a, b, n});
  for (const Dim e : all) builder.input("of " + e.str(), DType::Float, {e});
  CHECK(again(print(graph)) == print(graph));
}

TEST_CASE("a line that declares a size ends with its line") {
  constexpr std::string_view text =
      "size any\n"
      "%0 : float32[any] = my::Op()\n"
      "output %0 : float32[any]\n";
  CHECK(again(text) == text);
}

TEST_CASE("values without names are numbered") {
  sym::Context sym;
  Graph graph;
  Builder b(graph, sym, 20);
  Value* x = b.input("x", DType::Float, {sym.symbol({.name = "n"})});
  graph.outputs = {b.op("Neg", {b.op("Relu", {x})})};
  CHECK(print(graph) ==
        "input x : float32[n]\n"
        "%0 : float32[n] = Relu(x)\n"
        "%1 : float32[n] = Neg(%0)\n"
        "output %1 : float32[n]\n");
}

TEST_CASE("what is not a graph is refused with its line") {
  CHECK(refusal("input x : float32[n]\ny : float32[n] = Relu(z)\n") == "line 2 of the graph: there is no value 'z'");
  CHECK(refusal("input x : float33[n]\n").find("no type 'float33'") != std::string::npos);
  CHECK(refusal("input x : float32[n]\ninput x : float32[n]\n").find("two values 'x'") != std::string::npos);
  CHECK(refusal("y : float32[n] = Relu<a=1(x)\n") != "");
  CHECK(refusal("y : float32[2] = Relu(float32[2]{1})\n").find("elements") != std::string::npos);
  CHECK(refusal("nonsense\n").find("begins no line") != std::string::npos);
  CHECK(refusal("input x : float32[n]\n}\n").find("more follows") != std::string::npos);
}

}  // namespace lithify::onnx
