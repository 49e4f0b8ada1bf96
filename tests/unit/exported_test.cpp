// Exported programs: texts of symbolic sizes, tracebacks and module stacks, and graphs as program text.
#include <doctest/doctest.h>

#include <string>

#include "base/diagnostic.hpp"
#include "eval/formula.hpp"
#include "model_bytes.hpp"
#include "program/print.hpp"
#include "program/verify.hpp"
#include "read/exported/graph.hpp"
#include "read/exported/places.hpp"
#include "read/exported/reader.hpp"
#include "read/exported/symbols.hpp"

using namespace lithify;

namespace {

/// The formula with s77 called n and s17 called m.
std::string formula(std::string_view text) {
  sym::Context sym;
  const eval::SymbolTable symbols{{"s77", sym.symbol({.name = "n"})}, {"s17", sym.symbol({.name = "m"})}};
  const auto value = eval::evaluate_formula(sym, read::parse_symbolic(text), symbols);
  return value ? value->str() : "unknown";
}

Code code_of(std::string_view text) {
  try {
    read::parse_symbolic(text);
  } catch (const Error& e) {
    return e.first().code;
  }
  return Code::Internal;
}

}  // namespace

TEST_CASE("exported: srepr and str are read alike") {
  const std::string s77 = "Symbol('s77', positive=True, integer=True)", s17 = "Symbol('s17', integer=True)";
  CHECK(formula(s77) == "n");
  CHECK(formula("s77") == "n");
  CHECK(formula("Add(" + s77 + ", Integer(-1))") == formula("s77 - 1"));
  CHECK(formula("Add(Mul(Integer(2), " + s77 + "), " + s17 + ", Integer(1))") == formula("2*s77 + s17 + 1"));
  CHECK(formula("FloorDiv(Add(" + s77 + ", Integer(1)), Integer(2))") == formula("((s77 + 1)//2)"));
  CHECK(formula("FloorDiv(s77, 2)") == formula("s77//2"));
  CHECK(formula("Mod(s77, 3)") == formula("s77 % 3"));
  CHECK(formula("Max(1, s77, s17)") == formula("Max(s17, Max(1, s77))"));
  CHECK(formula("Pow(" + s77 + ", Integer(2))") == formula("s77*s77"));
  CHECK(formula("-s77**2 + s77**2") == "0");
  CHECK(formula("CeilDiv(s77, 2)") == formula("-(-s77//2)"));
  CHECK(formula("ModularIndexing(s77, 2, 3)") == formula("(s77//2) % 3"));
  CHECK(formula("2*(s77 + 1) - 2*s77") == "2");
}

TEST_CASE("exported: precedence and associativity") {
  CHECK(formula("s77 - 1 - 1") == formula("s77 - 2"));
  CHECK(formula("s77//2//3") == formula("(s77//2)//3"));
  CHECK(formula("2*s77//2") == "n");
  CHECK(formula("2**3") == "8");
  CHECK(formula("2**3**0") == "2");
}

TEST_CASE("exported: what is no integer of symbols stays unknown") {
  CHECK(formula("TruncToInt(Mul(Float('1.5', precision=53), ToFloat(s77)))") == "unknown");
  CHECK(formula("OpaqueUnaryFn_sqrt(s77)") == "unknown");
  CHECK(formula("Piecewise((s77, True))") == "unknown");
  CHECK(formula("u0 + 1") == "unknown");
  CHECK(formula("int_oo") == "unknown");
  CHECK(program::print(read::parse_symbolic("Unheard(s77, 2)")) == "ops.sympy.Unheard(s77, 2)");
}

TEST_CASE("exported: malformed and endless texts are refused") {
  for (const char* text : {"", "s77 +", "(s77", "s77)", "Symbol(s77)", "Symbol('s77", "Symbol('s77', positive)", "1..2",
                           "s77 s17", "99999999999999999999", "Add(s77,)", "Float('x')", "'s77'", "\xff"})
    CHECK_MESSAGE(code_of(text) == Code::BadCode, text);
  CHECK(code_of(std::string(5000, '(')) == Code::LimitExceeded);
  CHECK(code_of(std::string(5000, '-') + "1") == Code::LimitExceeded);
  std::string sum = "1";
  for (int i = 0; i < 5000; ++i) sum += " + s77";
  CHECK(code_of(sum) == Code::LimitExceeded);
  std::string nested = "s77";
  for (int i = 0; i < 500; ++i) nested = "Identity(" + nested + ")";
  CHECK(code_of(nested) == Code::LimitExceeded);
}

TEST_CASE("exported: the module of a node") {
  using read::innermost_module;
  CHECK(innermost_module("L__self__,,m.Net;L__self__conv,conv.0,torch.nn.modules.conv.Conv2d") == "conv.0");
  CHECK(innermost_module("L__self__,,m.Net") == "");
  CHECK(innermost_module("L__self__,,m.Net;L__self__fc@1,fc@1,torch.nn.Linear") == "fc");
  CHECK(innermost_module("L__self__,L['self'],m.Net;k,L['self'].conv,Conv") == "conv");
  CHECK(innermost_module("x,a\033[31m,T") == "");
  CHECK(innermost_module("") == "");
}

TEST_CASE("exported: the place of a node") {
  const Place user = read::place_of(
      "  File \"/home/me/net.py\", line 12, in forward\n    return self.fc(x)\n"
      "  File \"/home/me/fc.py\", line 7, in forward\n    y = self.linear(x)\n"
      "  File \"/usr/lib/site-packages/torch/nn/modules/linear.py\", line 134, in forward\n    return F.linear(x)\n");
  CHECK(user.file == "/home/me/fc.py");
  CHECK(user.line == 7);
  CHECK(user.function == "forward");
  CHECK(user.text == "y = self.linear(x)");
  CHECK(read::place_of("File \"torch/fx/a.py\", line 3, in f").file == "torch/fx/a.py");
  CHECK_FALSE(read::place_of("no frames here").known());
  CHECK_FALSE(read::place_of("File \"a.py\", line x, in f").known());
}

// ---- graphs
// -----------------------------------------------------------------------------------------------------------

namespace {

std::string tensors(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names)
    out += (out.empty() ? "" : ", ") + ("{\"as_tensor\": {\"name\": \"" + name + "\"}}");
  return out;
}

std::string metas(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names)
    out += (out.empty() ? "\"" : ", \"") + name + "\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 2}]}";
  return out;
}

std::string graph(const std::vector<std::string>& inputs, const std::string& nodes, const std::string& outputs) {
  return "{\"inputs\": [" + tensors(inputs) + "], \"outputs\": [" + outputs + "], \"nodes\": [" + nodes +
         "], \"tensor_values\": {" + metas(inputs) + "}, \"sym_int_values\": {}, \"is_single_tensor_return\": false}";
}

std::string node(const std::string& target, const std::string& inputs, const std::string& outputs) {
  return "{\"target\": \"torch.ops." + target + "\", \"inputs\": [" + inputs + "], \"outputs\": [" + outputs +
         "], \"metadata\": {}}";
}

std::string arg(const std::string& name, const std::string& value, int kind = 1) {
  return "{\"name\": \"" + name + "\", \"arg\": " + value + ", \"kind\": " + std::to_string(kind) + "}";
}

std::string inner(const std::string& name, const std::string& graph) {
  return arg("", "{\"as_graph\": {\"name\": \"" + name + "\", \"graph\": " + graph + "}}");
}

std::string list(const std::string& names) { return arg("", "{\"as_tensors\": [" + names + "]}"); }

/// The program text of a graph with the inputs x and y.
std::string program_text(const std::string& nodes, const std::string& output) {
  const std::string json =
      "{\"schema_version\": {\"major\": 8, \"minor\": 20}, \"range_constraints\": {}, \"graph_module\": {\"graph\": " +
      graph({"x", "y"}, nodes, tensors({output})) +
      ", \"signature\": {\"input_specs\": [{\"user_input\": {\"arg\": " + tensors({"x"}) +
      "}}, {\"user_input\": {\"arg\": " + tensors({"y"}) +
      "}}], \"output_specs\": [{\"user_output\": {\"arg\": " + tensors({output}) +
      "}}]}, \"module_call_graph\": [{\"fqn\": \"\", \"signature\": {\"out_spec\": "
      "\"[1, {\\\"type\\\": null, \\\"context\\\": null, \\\"children_spec\\\": []}]\"}}]}}";
  const archive::Archive archive(test::record_of(
      test::zip_of({{.name = "m/models/model.json", .data = json}, {.name = "m/archive_format", .data = "pt2"}})));
  const auto program = read::read_exported(archive);
  program::verify(*program);
  return program::print(*program);
}

const std::string x = arg("", tensors({"x"}));
const std::string add_one =
    node("aten.add.Tensor", arg("self", tensors({"a"})) + ", " + arg("other", "{\"as_int\": 1}"), tensors({"b"}));
const std::string increment = graph({"a"}, add_one, tensors({"b"}));

std::string body_of(const std::string& text) { return text.substr(text.find("-> Tensor:\n") + 11); }

}  // namespace

TEST_CASE("exported: arguments keep their places and names") {
  const std::string nodes = node("aten.sum.dim_IntList",
                                 arg("self", tensors({"x"})) + ", " + arg("dim", "{\"as_ints\": [0]}") + ", " +
                                     arg("dtype", "{\"as_scalar_type\": 8}", 2),
                                 tensors({"z"})) +
                            ", " +
                            node("aten.split.Tensor", x + ", " + arg("", "{\"as_int\": 1}"),
                                 "{\"as_tensors\": [{\"name\": \"p\"}, {\"name\": \"q\"}]}");
  CHECK(body_of(program_text(nodes, "q")) ==
        "    z = torch.sum.dim_IntList(x, [0], dtype=7)\n"
        "    p, q, = torch.split.Tensor(x, 1)\n"
        "    return q\n");
}

TEST_CASE("exported: asserts are left out, and wrappers are calls") {
  const std::string nodes =
      node("aten._assert_tensor_metadata.default", x, "") + ", " +
      node("higher_order.wrap_with_set_grad_enabled",
           arg("", "{\"as_bool\": false}") + ", " + inner("submod_1", increment) + ", " + x, tensors({"z"}));
  const std::string text = program_text(nodes, "z");
  CHECK(body_of(text).starts_with("    z, = __torch__.submod_1(x, )\n    return z\n"));
  CHECK(text.find("def submod_1(a: Tensor) -> Tuple[Tensor]:\n  b = torch.add.Tensor(a, 1)\n  return (b,)\n") !=
        std::string::npos);
}

TEST_CASE("exported: conditions and loops are statements") {
  const std::string cond = node("higher_order.cond",
                                arg("", tensors({"y"})) + ", " + inner("yes", increment) + ", " +
                                    inner("no", increment) + ", " + list("{\"name\": \"x\"}"),
                                tensors({"z"}));
  CHECK(body_of(program_text(cond, "z"))
            .starts_with("    if y:\n      z, = __torch__.yes(x, )\n    else:\n      z, = __torch__.no(x, )\n"
                         "    return z\n"));
  const std::string loop = node(
      "higher_order.while_loop",
      inner("go", increment) + ", " + inner("body", increment) + ", " + list("{\"name\": \"x\"}") + ", " + list(""),
      tensors({"z"}));
  CHECK(body_of(program_text(loop, "z"))
            .starts_with("    z = x\n    _0, = __torch__.go(z, )\n    while _0:\n      z, = __torch__.body(z, )\n"
                         "      _0, = __torch__.go(z, )\n    return z\n"));
  const std::string map =
      node("higher_order.map_impl", inner("each", increment) + ", " + list("{\"name\": \"x\"}") + ", " + list(""),
           tensors({"z"}));
  CHECK(body_of(program_text(map, "z"))
            .starts_with("    _0 = annotate(List[Tensor], [])\n"
                         "    for _2 in range(torch.size.int(x, 0)):\n"
                         "      _1, = __torch__.each(torch.select.int(x, 0, _2), )\n"
                         "      torch.append(_0, _1)\n"
                         "    z = torch.stack(_0, 0)\n    return z\n"));
}
