// Texts of symbolic sizes, tracebacks and module stacks of exported programs.
#include <doctest/doctest.h>

#include <string>

#include "base/diagnostic.hpp"
#include "eval/formula.hpp"
#include "program/print.hpp"
#include "read/exported/graph.hpp"
#include "read/exported/places.hpp"
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
