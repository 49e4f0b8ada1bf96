// Program text in, ONNX text out: the evaluator, the rules and the builder together, without any file.
#include <doctest/doctest.h>

#include <string>

#include "driver/custom.hpp"
#include "driver/inputs.hpp"
#include "eval/evaluator.hpp"
#include "onnx/hash.hpp"
#include "onnx/text.hpp"
#include "onnx/verify.hpp"
#include "ops/register.hpp"
#include "program/parse.hpp"
#include "rewrite/finish.hpp"

namespace lithify {
namespace {

struct Exported {
  std::string graph;
  std::vector<Diagnostic> diagnostics;
};

/// Exports a module whose forward has the given parameters and body.
Exported exported(const std::string& parameters, const std::string& body, std::vector<std::string> inputs,
                  int opset = 20, ExportOptions options = {}) {
  program::Program program;
  std::string text =
      "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  def forward(self: __torch__.M,\n    " +
      parameters + ") -> Tensor:\n" + body;
  program::parse_file(program, "code/__torch__.py", text, {});
  program.root = std::make_shared<program::Object>();
  program.root->class_name = "__torch__.M";
  options.inputs = std::move(inputs);
  sym::Context sym;
  onnx::Graph graph;
  onnx::Builder builder(graph, sym, opset);
  std::vector<eval::Value> arguments =
      driver::make_inputs(program, driver::find_inputs(program, options), builder).arguments;
  driver::Rules rules(options, program);
  Journal journal;
  eval::Result result = eval::run(program, rules.registry(), builder, std::move(arguments), {}, journal, nullptr);
  Exported out{"", result.diagnostics};
  if (!out.diagnostics.empty()) return out;
  std::vector<std::pair<std::string, onnx::Value*>> outputs{{"y", result.value.tensor()->read(builder)}};
  rewrite::finish(builder, outputs);
  out.graph = onnx::print(graph);
  sym::Context other;
  const std::unique_ptr<onnx::Graph> again = onnx::parse(out.graph, other);
  onnx::verify(*again, opset, "parsing");
  CHECK(onnx::print(*again) == out.graph);
  CHECK(onnx::structural_hash(*again) == onnx::structural_hash(graph));
  return out;
}

std::string graph_of(const std::string& parameters, const std::string& body, std::vector<std::string> inputs,
                     int opset = 20, ExportOptions options = {}) {
  Exported e = exported(parameters, body, std::move(inputs), opset, std::move(options));
  for (const Diagnostic& d : e.diagnostics) MESSAGE(d.str());
  return e.graph;
}

TEST_CASE("a plug-in defines what an operator becomes") {
  ExportOptions options;
  options.plugins.push_back(
      {"my::scale(Tensor x, float by=2.0, int[] axes=[0]) -> Tensor", [](CustomCall& c) {
         CustomCall::Tensor x = c.tensor("x");
         auto scaled = c.node("Mul", {x, c.constant(c.real("by"), x)});
         return c.node("my.domain", 3, "Flip", scaled, {{"axes", c.integers("axes")}}, {"float32[x.1, ?]"});
       }});
  CHECK(graph_of("x: Tensor", "    return ops.my.scale(x, axes=[1])\n", {"x:float32[batch,4]"}, 20, options) ==
        "size custom >= 0\n"
        "input x : float32[batch, 4]\n"
        "/Mul_output_0 : float32[batch, 4] = Mul(x, float32{2})\n"
        "y : float32[4, custom] = my.domain::Flip<axes=[1]>(/Mul_output_0)\n"
        "output y : float32[4, custom]\n");
}

TEST_CASE("an operator that nobody knows can be kept as a node") {
  ExportOptions options;
  options.allow_custom = true;
  CHECK(graph_of("x: Tensor", "    return torch.relu(ops.my.op(x, None, 3, k=[1.5, 2.]))\n", {"x:float16[4]"}, 20,
                 options) ==
        "size custom >= 0\n"
        "input x : float16[4]\n"
        "/op_output_0 : float16[custom] = my::op<arg2=3, k=[1.5, 2.0]>(x, _)\n"
        "y : float16[custom] = Relu(/op_output_0)\n"
        "output y : float16[custom]\n");
}

TEST_CASE("a reshape by the input's own sizes needs no shape arithmetic") {
  CHECK(graph_of("x: Tensor",
                 "    b = ops.prim.NumToTensor(torch.size(x, 0))\n"
                 "    n = torch.mul(ops.prim.NumToTensor(torch.size(x, 1)), ops.prim.NumToTensor(torch.size(x, 2)))\n"
                 "    return torch.view(x, [int(b), int(n)])\n",
                 {"x:float32[batch,seq,4]"}) ==
        "input x : float32[batch, seq, 4]\n"
        "y : float32[batch, 4*seq] = Reshape(x, int64[2]{0, -1})\n"
        "output y : float32[batch, 4*seq]\n");
}

TEST_CASE("lists, tuples and loops with known bounds leave nothing behind") {
  CHECK(graph_of("x: Tensor",
                 "    parts = annotate(List[Tensor], [])\n"
                 "    for i in range(2):\n"
                 "      _0 = torch.append(parts, torch.mul(x, torch.add(i, 1)))\n"
                 "    a, b, = parts\n"
                 "    return torch.add(a, b)\n",
                 {"x:float32[n,3]"}) ==
        "input x : float32[n, 3]\n"
        "/Mul_output_0 : float32[n, 3] = Mul(x, float32{2})\n"
        "y : float32[n, 3] = Add(x, /Mul_output_0)\n"
        "output y : float32[n, 3]\n");
}

TEST_CASE("a branch on what is known is taken, the other is never looked at") {
  CHECK(graph_of("x: Tensor",
                 "    if torch.eq(torch.dim(x), 2):\n"
                 "      y = torch.relu(x)\n"
                 "    else:\n"
                 "      y = ops.nobody.knows(x)\n"
                 "    return y\n",
                 {"x:float32[n,3]"}) ==
        "input x : float32[n, 3]\n"
        "y : float32[n, 3] = Relu(x)\n"
        "output y : float32[n, 3]\n");
}

TEST_CASE("equal nodes are shared and unused ones are not there") {
  CHECK(graph_of("x: Tensor",
                 "    _0 = torch.exp(x)\n"
                 "    a = torch.sigmoid(x)\n"
                 "    b = torch.sigmoid(x)\n"
                 "    return torch.mul(a, b)\n",
                 {"x:float32[n]"}) ==
        "input x : float32[n]\n"
        "/Sigmoid_output_0 : float32[n] = Sigmoid(x)\n"
        "y : float32[n] = Mul(/Sigmoid_output_0, /Sigmoid_output_0)\n"
        "output y : float32[n]\n");
}

TEST_CASE("a write through a view is seen by the tensor") {
  CHECK(graph_of("x: Tensor",
                 "    y = torch.mul(x, 2)\n"
                 "    _0 = torch.fill_(torch.select(y, 1, 0), 1.)\n"
                 "    return y\n",
                 {"x:float32[n,3]"}) ==
        "input x : float32[n, 3]\n"
        "/Mul_output_0 : float32[n, 3] = Mul(x, float32{2})\n"
        "y : float32[n, 3] = Where(bool[3]{1, 0, 0}, float32{1}, /Mul_output_0)\n"
        "output y : float32[n, 3]\n");
}

TEST_CASE("older opsets get the same model in their own form") {
  const char* body = "    return torch.sum(x, [1], True)\n";
  CHECK(graph_of("x: Tensor", body, {"x:float32[n,3]"}, 11) ==
        "input x : float32[n, 3]\n"
        "y : float32[n, 1] = ReduceSum<axes=[1]>(x)\n"
        "output y : float32[n, 1]\n");
  CHECK(graph_of("x: Tensor", body, {"x:float32[n,3]"}, 13) ==
        "input x : float32[n, 3]\n"
        "y : float32[n, 1] = ReduceSum(x, int64[1]{1})\n"
        "output y : float32[n, 1]\n");
}

TEST_CASE("every operator without a rule is reported, once") {
  Exported e = exported("x: Tensor",
                        "    a = ops.nobody.knows(x)\n"
                        "    b = torch.relu(a)\n"
                        "    return ops.nobody.cares(b)\n",
                        {"x:float32[n]"});
  REQUIRE(e.diagnostics.size() == 2);
  CHECK(e.diagnostics[0].code == Code::UnsupportedOperator);
  CHECK(e.diagnostics[0].subject == "nobody::knows");
  CHECK(e.diagnostics[1].subject == "nobody::cares");
}

TEST_CASE("a number hard-coded by tracing is refused where it meets a dynamic dimension") {
  Exported e = exported("x: Tensor", "    return torch.view(x, [2, 12])\n", {"x:float32[batch=2,3,4]"});
  REQUIRE(e.diagnostics.size() == 1);
  CHECK(e.diagnostics[0].code == Code::HardCodedSize);
}

TEST_CASE("a branch on a value of the input is an If; what does not differ is no output of it") {
  CHECK(graph_of("x: Tensor",
                 "    a = torch.exp(x)\n"
                 "    if bool(torch.gt(torch.sum(x), 0)):\n"
                 "      y = torch.mul(a, 2)\n"
                 "      z = a\n"
                 "    else:\n"
                 "      y = torch.neg(a)\n"
                 "      z = a\n"
                 "    return torch.add(y, z)\n",
                 {"x:float32[n]"}) ==
        "input x : float32[n]\n"
        "/Exp_output_0 : float32[n] = Exp(x)\n"
        "/ReduceSum_output_0 : float32[] = ReduceSum<keepdims=0>(x)\n"
        "/Greater_output_0 : bool[] = Greater(/ReduceSum_output_0, float32{0})\n"
        "/If_output_0 : float32[n] = If<then_branch={\n"
        "/Mul_output_0 : float32[n] = Mul(/Exp_output_0, float32{2})\n"
        "output /Mul_output_0 : float32[n]\n"
        "}, else_branch={\n"
        "/Neg_output_0 : float32[n] = Neg(/Exp_output_0)\n"
        "output /Neg_output_0 : float32[n]\n"
        "}>(/Greater_output_0)\n"
        "y : float32[n] = Add(/If_output_0, /Exp_output_0)\n"
        "output y : float32[n]\n");
}

TEST_CASE("what does not depend on a loop is in front of it, and sizes that grow are known behind it") {
  CHECK(graph_of("x: Tensor",
                 "    y = x\n"
                 "    for i in range(torch.size(x, 0)):\n"
                 "      y = torch.cat([y, torch.exp(x)])\n"
                 "    return y\n",
                 {"x:float32[n]"}) ==
        "size i >= 0, < n\n"
        "input x : float32[n]\n"
        "/Exp_output_0 : float32[n] = Exp(x)\n"
        "/Shape_output_0 : int64[1]{n} = Shape(x)\n"
        "/Squeeze_output_0 : int64[]{n} = Squeeze(/Shape_output_0, int64[1]{0})\n"
        "y : float32[n*n + n] = Loop<body={\n"
        "input /Loop_iteration : int64[]{i}\n"
        "input /Loop_condition : bool[]\n"
        "input /Loop_y : float32[n*i + n]\n"
        "/Concat_output_0 : float32[n*i + 2*n] = Concat<axis=0>(/Loop_y, /Exp_output_0)\n"
        "/Identity_output_0 : bool[] = Identity(/Loop_condition)\n"
        "output /Identity_output_0 : bool[]\n"
        "output /Concat_output_0 : float32[n*i + 2*n]\n"
        "}>(/Squeeze_output_0, _, x)\n"
        "output y : float32[n*n + n]\n");
}

TEST_CASE("a value of two types on two paths is refused") {
  Exported e = exported("x: Tensor",
                        "    if bool(torch.gt(torch.sum(x), 0)):\n"
                        "      y = x\n"
                        "    else:\n"
                        "      y = torch.argmax(x, 0)\n"
                        "    return y\n",
                        {"x:float32[n]"});
  REQUIRE(e.diagnostics.size() == 1);
  CHECK(e.diagnostics[0].code == Code::UnsupportedControlFlow);
}

TEST_CASE("a write to what another name may be, by a branch, is refused where it could be seen") {
  const std::string chosen =
      "    y = x\n"
      "    if bool(torch.gt(torch.sum(x), 0)):\n"
      "      y = torch.neg(x)\n"
      "    else:\n"
      "      pass\n"
      "    _0 = torch.add_(y, 1)\n";
  CHECK(exported("x: Tensor", chosen + "    return y\n", {"x:float32[n]"}).diagnostics.empty());
  Exported e = exported("x: Tensor", chosen + "    return torch.add(x, y)\n", {"x:float32[n]"});
  REQUIRE(e.diagnostics.size() == 1);
  CHECK(e.diagnostics[0].code == Code::UnsupportedMutation);
}

}  // namespace
}  // namespace lithify
