// The verifier of ONNX graphs, on texts: each rule is broken once.
#include <doctest/doctest.h>

#include <string>

#include "base/diagnostic.hpp"
#include "onnx/text.hpp"
#include "onnx/verify.hpp"

namespace lithify::onnx {
namespace {

/// What the verifier reports of a graph; empty when it is right.
std::string fault(Graph& graph, int opset = 20) {
  try {
    verify(graph, opset, "a test");
  } catch (const Error& e) {
    CHECK(e.first().code == Code::Internal);
    return e.first().message;
  }
  return "";
}

std::string fault(std::string_view text, int opset = 20) {
  sym::Context sym;
  return fault(*parse(text, sym), opset);
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

constexpr std::string_view growing = R"(
size i >= 0, < n
input x : float32[n]
count : int64[]{n} = Size(x)
y : float32[AFTER] = Loop<body={
input iteration : int64[]{i}
input condition : bool[]
input before : float32[HEAD]
grown : float32[HEAD + n] = Concat<axis=0>(before, x)
again : bool[] = Identity(condition)
output again : bool[]
output grown : float32[HEAD + n]
}>(count, _, x)
output y : float32[AFTER]
)";

/// A loop that appends n elements in each iteration, with these sizes at the start of an iteration and after the loop.
std::string loop(const std::string& head, const std::string& after) {
  std::string text(growing);
  for (const auto& [word, by] : {std::pair{std::string("HEAD"), head}, {std::string("AFTER"), after}})
    for (size_t at; (at = text.find(word)) != std::string::npos;) text.replace(at, word.size(), by);
  return text;
}

}  // namespace

TEST_CASE("types, ranks and sizes are those of the operator's rule") {
  constexpr std::string_view input = "input x : float32[n, 3]\n";
  auto of = [&](const std::string& node, int opset = 20) { return fault(std::string(input) + node, opset); };
  CHECK(of("y : float32[n, 3] = Relu(x)\noutput y : float32[n, 3]\n").empty());
  CHECK(has(of("y : float32[n] = Relu(x)\n"), "node Relu 'y'"));
  CHECK(has(of("y : float32[n] = Relu(x)\n"), "is float32[n, 3], not float32[n]"));
  CHECK(has(of("y : float32[n, 4] = Relu(x)\n"), "is float32[n, 3], not float32[n, 4]"));
  CHECK(has(of("y : int64[n, 3] = Relu(x)\n"), "not int64[n, 3]"));
  CHECK(has(of("y : float32[n, 3] = Add(x, int64{1})\n"), "its inputs are not what it takes"));
  CHECK(has(of("y : float32[n, 3] = Gelu(x)\n", 19), "from opset 20 on"));
  CHECK(has(of("y : float32[n, 3] = Nonsense(x)\n"), "no such operator"));
  CHECK(of("y : float32[n, 3] = my::Nonsense(x)\n").empty());
}

TEST_CASE("a node comes after its inputs, and values are where they belong") {
  sym::Context sym;
  const std::unique_ptr<Graph> graph = parse(R"(
input x : float32[n]
a : float32[n] = Relu(x)
b : float32[n] = Neg(a)
output b : float32[n]
)",
                                             sym);
  CHECK(fault(*graph).empty());
  std::swap(graph->nodes[0], graph->nodes[1]);
  CHECK(has(fault(*graph), "node Neg 'b'"));
  CHECK(has(fault(*graph), "not there before it"));
  std::swap(graph->nodes[0], graph->nodes[1]);
  graph->nodes[0]->outputs[0]->producer = graph->nodes[1];
  CHECK(has(fault(*graph), "does not know it"));
  graph->nodes[0]->outputs[0]->producer = graph->nodes[0];
  graph->outputs.push_back(graph->outputs[0]);
  CHECK(has(fault(*graph), "twice"));
  graph->outputs[1] = graph->inputs[0];
  CHECK(has(fault(*graph), "not made by a node"));
}

TEST_CASE("bodies see what is around them, and nothing of another body") {
  CHECK(has(fault(R"(
input x : float32[n]
input condition : bool[]
y : float32[n] = If<then_branch={
a : float32[n] = Relu(x)
output a : float32[n]
}, else_branch={
b : float32[n] = Neg(a)
output b : float32[n]
}>(condition)
output y : float32[n]
)"),
            "node Neg 'b'"));
}

TEST_CASE("branches agree with the facts of the If") {
  auto either = [](const std::string& type, const std::string& other) {
    return fault("input x : float32[n]\ninput condition : bool[]\ny : " + type +
                 " = If<then_branch={\na : float32[n] = Relu(x)\noutput a : float32[n]\n}, else_branch={\n" + other +
                 "}>(condition)\noutput y : " + type + "\n");
  };
  const std::string same = "b : float32[n] = Neg(x)\noutput b : float32[n]\n";
  const std::string longer = "b : float32[2*n] = Concat<axis=0>(x, x)\noutput b : float32[2*n]\n";
  const std::string whole = "b : int64[n] = Cast<to=7>(x)\noutput b : int64[n]\n";
  CHECK(either("float32[n]", same).empty());
  CHECK(either("float32[either]", longer).empty());
  CHECK(has(either("float32[n]", longer), "output 0 of a branch is float32[2*n], not float32[n]"));
  CHECK(has(either("float32[n]", whole), "node If 'y'"));
  CHECK(
      has(either("float32[n]", "b : float32[] = ReduceSum<keepdims=0>(x)\noutput b : float32[]\n"), "not float32[n]"));
}

TEST_CASE("what a loop carries agrees from iteration to iteration") {
  CHECK(fault(loop("n*i + n", "n*n + n")).empty());
  CHECK(has(fault(loop("n", "n")), "carried value 0 after an iteration"));
  CHECK(has(fault(loop("n*i + 2*n", "n*n + 2*n")), "carried value 0 before the loop"));
  CHECK(has(fault(loop("n*i + n", "n*n")), "carried value 0 after the loop"));
}

TEST_CASE("a symbol of a body is not seen outside of it") {
  CHECK(has(fault(R"(
size found >= 0
input x : float32[n]
input condition : bool[]
y : int64[1, found] = If<then_branch={
a : int64[1, found] = NonZero(x)
output a : int64[1, found]
}, else_branch={
b : int64[1, 2] = Identity(int64[1, 2]{1, 2})
output b : int64[1, 2]
}>(condition)
output y : int64[1, found]
)"),
            "found is a size inside a body"));
}

TEST_CASE("no two sizes have one name") {
  sym::Context sym;
  Graph graph;
  const Dim n = sym.symbol({.name = "n"}), sum = sym.symbol({.name = "n + 1"});
  for (const Dim size : {sym.add(n, sym.constant(1)), sum}) {
    Value* v = graph.new_value();
    v->kind = Value::Kind::Input;
    v->dtype = DType::Float;
    v->shape = {size};
    graph.inputs.push_back(v);
  }
  CHECK(has(fault(graph), "two sizes are called n + 1"));
}

TEST_CASE("names of values and nodes differ") {
  sym::Context sym;
  const std::unique_ptr<Graph> graph =
      parse("input x : float32[n]\ny : float32[n] = Relu(x)\noutput y : float32[n]\n", sym);
  graph->nodes[0]->name = "relu";
  CHECK_NOTHROW(verify_names(*graph, "a test"));
  graph->outputs[0]->name = "x";
  CHECK_THROWS_AS(verify_names(*graph, "a test"), Error);
  graph->outputs[0]->name = "y";
  graph->nodes[0]->name = "";
  CHECK_THROWS_AS(verify_names(*graph, "a test"), Error);
}

}  // namespace lithify::onnx
