// The text form of a Program: what is parsed prints as it was, and what is malformed ends in a diagnostic.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "program/parse.hpp"
#include "program/print.hpp"
#include "program/verify.hpp"

using namespace lithify;
using namespace lithify::program;

namespace {

Program program_of(std::string text, std::string record = "code/__torch__.py") {
  Program p;
  parse_file(p, std::move(record), std::move(text), {});
  return p;
}

std::string file_again(const std::string& text) { return print_file(program_of(text), 0); }

/// The expression in "def f(): return <text>".
Expr expr_of(const std::string& text) {
  return parse_function("def f(x: Tensor, y: Tensor) -> Tensor:\n  return " + text + "\n").body.at(0).values.at(0);
}

std::string again(const std::string& text) { return print(expr_of(text)); }

/// The message of the error that `f` throws, with its code: "LTH007 ...".
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return code_text(e.first().code) + " " + e.first().message;
  }
  return "no error";
}

std::string expr_error(const std::string& text) {
  return error_of([&] { expr_of(text); });
}

std::string file_error(const std::string& text) {
  return error_of([&] { program_of(text); });
}

std::string verify_error(const std::string& text, size_t constants = 0) {
  return error_of([&] {
    Program p = program_of(text);
    p.constants.resize(constants);
    verify(p);
  });
}

std::string repeated(std::string_view piece, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += piece;
  return out;
}

}  // namespace

TEST_CASE("expressions print as they are written") {
  for (const char* text : {
           "x",
           "self.weight",
           "self.a.b",
           "getattr(x, \"0\")",
           "getattr(self.layers, \"a.b\")",
           "(x).value",
           "(__torch__.Color.RED).name",
           "torch.add(x, y, alpha=1)",
           "torch.zeros([1, 2], dtype=6, layout=None, device=torch.device(\"cpu\"), pin_memory=False)",
           "torch.add.Tensor(x, y)",
           "torch.__and__(x, y)",
           "torch.autograd.grad([x], [y])",
           "torch.autograd.backward(x)",
           "torch.weight",
           "torch.a.b",
           "ops.prim.NumToTensor(torch.size(x, 0))",
           "ops.mylib.foo.default(x)",
           "int(x)",
           "float(x)",
           "bool(x)",
           "str(x)",
           "sorted(x)",
           "print(\"a\", x)",
           "fork(x)",
           "awaitable(x)",
           "__torch__.a.f(x, y, )",
           "__torch__.f()",
           "x(y, )",
           "(x).forward(y, )",
           "(x).forward()",
           "(torch.neg(x)).forward((y).forward(x, ), )",
           "(x).tolist()",
           "annotate(List[int], x.tolist())",
           "annotate(List[List[float]], torch.neg(x).tolist())",
           "annotate(List[int], [])",
           "annotate(Dict[str, Tensor], {})",
           "annotate(Optional[Tensor], None)",
           "annotate(number, x)",
           "unchecked_cast(Tensor, x)",
           "uninitialized(Tuple[Tensor, int])",
           "isinstance(x, Tensor)",
           "isinstance(x, Tuple[int, int])",
           "isinstance(x, (int, List[int]))",
           "__torch__.a.C.__new__(__torch__.a.C)",
           "__torch__.Color.GREEN",
           "__torch__.torch.nn.functional.___torch_mangle_3.dropout",
           "CONSTANTS.c0",
           "[CONSTANTS.c12, x]",
           "()",
           "(x,)",
           "(x, y)",
           "((x,), [y])",
           "[]",
           "[x, [y]]",
           "{}",
           "{\"a\": x, 1: y}",
           "x[0]",
           "x[\"a\"]",
           "x[torch.neg(1)]",
           "(x)[1]",
           "(torch.size(x))[0]",
           "((x)[0])[1]",
           "(x)[0:2]",
           "(x)[1:-1]",
           "self.layers[x]",
           "0",
           "-7",
           "9223372036854775807",
           "-9223372036854775808",
           "1.",
           "-0.",
           "0.10000000000000001",
           "1e-300",
           "1e+20",
           "4.9406564584124654e-324",
           "1.7976931348623157e+308",
           "inf",
           "-inf",
           "nan",
           "1.+infj",
           "0.+3.j",
           "1.-2.j",
           "-1.5-0.5j",
           "-inf-infj",
           "nan-nanj",
           "True",
           "False",
           "None",
           "\"\"",
           R"("it\'s \"q\" \\ \a\b\f\n\r\t\v\033\000\377")",
       }) {
    CAPTURE(text);
    CHECK(again(text) == text);
  }
}

TEST_CASE("spellings that torch's parser also takes print in the usual one") {
  CHECK(again("'a\"b'") == "\"a\\\"b\"");
  CHECK(again("\"\"\"a\nb\"\"\"") == "\"a\\nb\"");
  CHECK(again("\"a\" 'b' \"c\"") == "\"abc\"");
  CHECK(again("[x, y, ]") == "[x, y]");
  CHECK(again("torch.add(x, y, )") == "torch.add(x, y)");
  CHECK(again("(x)") == "x");
  CHECK(again("3.j") == "0.+3.j");
  CHECK(again("torch.add(x,\n    y)  # a comment") == "torch.add(x, y)");
  CHECK(again("isinstance(x, (int, float, ))") == "isinstance(x, (int, float))");
  CHECK(again("annotate(Tuple[()], ())") == "annotate(Tuple[()], ())");
}

TEST_CASE("calls have their kinds and names") {
  const auto name = [](const std::string& text, Expr::Kind kind) {
    const Expr e = expr_of(text);
    CHECK(e.kind == kind);
    return e.name;
  };
  using Kind = Expr::Kind;
  CHECK(name("torch.add(x, y)", Kind::Operator) == "aten::add");
  CHECK(name("torch.add.out(x, y)", Kind::Operator) == "aten::add.out");
  CHECK(name("ops.prim.min(x, y)", Kind::Operator) == "prim::min");
  CHECK(name("torch.device(\"cpu\")", Kind::Operator) == "aten::device");
  CHECK(name("torch.autograd.grad(x)", Kind::Operator) == "aten::grad");
  CHECK(name("int(x)", Kind::Operator) == "aten::Int");
  CHECK(name("print(x)", Kind::Operator) == "prim::Print");
  CHECK(name("x.tolist()", Kind::Operator) == "prim::tolist");
  CHECK(name("(x).tolist()", Kind::Method) == "tolist");
  CHECK(name("__torch__.a.f(x, )", Kind::Call) == "__torch__.a.f");
  CHECK(name("x(y, )", Kind::Call) == "x");
  CHECK(name("__torch__.C.__new__(__torch__.C)", Kind::New) == "__torch__.C");
  CHECK(name("__torch__.Color.RED", Kind::Path) == "__torch__.Color.RED");
  CHECK(name("torch.weight", Kind::Attribute) == "weight");
  CHECK(name("int", Kind::Name) == "int");

  const Expr keywords = expr_of("torch.tensor(x, dtype=6, device=y)");
  CHECK(keywords.items.size() == 3);
  CHECK(keywords.keywords == std::vector<std::string>{"dtype", "device"});
  CHECK(expr_of("(x).forward(y, )").items.size() == 2);
}

TEST_CASE("literals have their values") {
  CHECK(expr_of("-9223372036854775808").integer == INT64_MIN);
  CHECK(expr_of("0.10000000000000001").real == 0.1);
  CHECK(std::signbit(expr_of("-0.").real));
  CHECK(std::isinf(expr_of("-inf").real));
  CHECK(std::isnan(expr_of("nan").real));
  CHECK(std::isinf(expr_of("1.+infj").imag));
  CHECK(expr_of("1-2.j").real == 1);
  CHECK(expr_of("1-2.j").imag == -2);
  CHECK(expr_of(R"("\101\000\377")").name == std::string("A\0\xff", 3));
  CHECK(expr_of("\"\xc3\xa9\"").name == "\xc3\xa9");
}

TEST_CASE("integers are floats where the declared type says so") {
  const Expr e = expr_of("annotate(List[float], [10000000000, 1.])");
  CHECK(e.items[0].items[0].kind == Expr::Kind::Float);
  CHECK(e.items[0].items[0].real == 1e10);
  CHECK(expr_of("annotate(List[Union[float, int]], [10000000000])").items[0].items[0].kind == Expr::Kind::Int);
  CHECK(again("annotate(Dict[int, Optional[float]], {3: 10000000000})") ==
        "annotate(Dict[int, Optional[float]], {3: 10000000000.})");
  const Function f = parse_function("def f(a: float=20000000000) -> float:\n  return a\n");
  CHECK(f.parameters[0].default_value->real == 2e10);
  const Program p =
      program_of("class A(Module):\n  __parameters__ = []\n  __buffers__ = []\n  k : Final[float] = 30000000000\n");
  CHECK(p.find_class("__torch__.A")->constant("k")->real == 3e10);
}

TEST_CASE("positions are those of the names that are called") {
  const std::string text =
      "def f(a: Tensor) -> Tensor:\n  x = (a).go(torch.add(a, 1), )\n  return __torch__.f(x[0], )\n";
  const Function f = parse_function(text);
  const Stmt& s = f.body[0];
  CHECK(s.pos.offset == text.find("x ="));
  CHECK(s.values[0].pos.offset == text.find("go("));
  CHECK(s.values[0].items[1].pos.offset == text.find("torch.add"));
  CHECK(f.body[1].values[0].pos.offset == text.find("(x[0]"));
  CHECK(f.body[1].values[0].items[0].pos.offset == text.find("[0]"));
  CHECK(f.pos.offset == text.find("f("));
}

TEST_CASE("types") {
  for (const char* text : {"Tensor", "NoneType", "List[int]", "Dict[str, List[Optional[Tensor]]]", "Tuple[()]",
                           "Tuple[int, Tuple[str]]", "__torch__.a.___torch_mangle_1.C", "Future[Tensor]", "tuple"}) {
    CAPTURE(text);
    CHECK(parse_type(text).str() == text);
  }
  CHECK(parse_type("Dict[str, int]") == Type{"Dict", {{"str", {}}, {"int", {}}}});
  CHECK(error_of([] { parse_type("List[int"); }) ==
        "LTH007 type, line 1, column 9: expected ']', found the end of the text");
  CHECK(error_of([] { parse_type("int int"); }).starts_with("LTH007"));
  CHECK(error_of([] { parse_type(""); }).starts_with("LTH007"));
  CHECK(error_of([] { parse_type(repeated("List[", 1000)); }).starts_with("LTH010"));
}

TEST_CASE("statements print as they are written") {
  const std::string text = R"(def f(self: __torch__.M,
    x: Tensor,
    y: Optional[Tensor]=None,
    s: str="it\'s",
    k: List[int]=[1, 2]) -> Tuple[Tensor, int]:
  a = torch.neg(x)
  b, c = a, torch.neg(a)
  d, e = torch.max(x, 1)
  g, h, = torch.size(x)
  i, = a
  j : Optional[int] = 4
  self.count = torch.add(a, 1)
  self.sub.count = a
  torch.append(b, c)
  if torch.gt(g, h):
    pass
  else:
    if s:
      ops.prim.RaiseException("AssertionError: ")
    else:
      pass
  n = 0
  for _0 in range(torch.len(k)):
    n = torch.add(n, k[_0])
  more = True
  while more:
    more, n = torch.lt(n, 3), torch.add(n, 1)
  with a:
    z = 1
  with a as w:
    pass
  def __forked_function():
    v = torch.neg(z)
    return v
  fut = fork(__forked_function)
  return (torch.wait(fut), n)
)";
  CHECK(print(parse_function(text)) == text);
}

TEST_CASE("assignments say what they unpack") {
  const auto assign = [](const std::string& text) {
    return parse_function("def f(v: Tensor) -> Tensor:\n  " + text + "\n  return v\n").body.at(0);
  };
  CHECK_FALSE(assign("a = v").unpack);
  CHECK_FALSE(assign("a, b = v, v").unpack);
  CHECK(assign("a, b = v").unpack);
  CHECK_FALSE(assign("a, b = v").trailing_comma);
  CHECK(assign("a, = v").unpack);
  CHECK(assign("a, b, = v").trailing_comma);
  CHECK(assign("a : Optional[int] = v").target_types.at(0)->str() == "Optional[int]");
  CHECK(assign("a: int = v").target_types.size() == 1);
  CHECK(error_of([&] { assign("a, b = v, v, v"); }) == "LTH007 text, line 2, column 3: 2 names are given 3 values");
  CHECK(error_of([&] { assign("a, b, = v, v"); }).starts_with("LTH007"));
  CHECK(error_of([&] { assign("a = v, v"); }).starts_with("LTH007"));
  CHECK(error_of([&] { assign("v[0] = v"); }).starts_with("LTH007"));
}

TEST_CASE("files print as they are written") {
  const std::string text = R"(class M(Module):
  __parameters__ = ["weight", "bias", ]
  __buffers__ = []
  __forward_pre_hooks__ = ["pre", ]
  __forward_hooks__ = ["post", ]
  __annotations__ = []
  __annotations__["0"] = __torch__.a.Linear
  weight : Tensor
  __annotations__["b.c"] = NoneType
  in_features : Final[int] = 4
  sizes : Final[List[int]] = [1, 2]
  table : Final[Tensor] = CONSTANTS.c1
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    return __torch__.P(x, __torch__.Q(x,))
def f(x: Tensor) -> Tensor:
  return __torch__.f(x, )
class Plain:
  prev : bool
  def __init__(self: __torch__.Plain) -> NoneType:
    self.prev = False
    return None
class P(NamedTuple):
  a : Tensor
  b : Optional[Tensor]
class Q(NamedTuple):
  a : Tensor
class Color(Enum):
  RED = 1
  GREEN = "g"
  BLUE = 0.5
class I(Interface):
  def forward(self, x: Tensor, y: Tensor) -> Tensor:
    pass
class J(ModuleInterface):
  def forward(self) -> Tensor:
    pass
class Empty(NamedTuple):
)";
  CHECK(file_again(text) == text);
  CHECK(print(program_of(text)) == "# code/__torch__.py\n" + text);

  const Program p = program_of(text);
  const Class& m = *p.find_class("__torch__.M");
  CHECK(m.kind == Class::Kind::Module);
  CHECK(m.parameters == std::vector<std::string>{"weight", "bias"});
  CHECK(m.forward_hooks == std::vector<std::string>{"post"});
  CHECK(m.attributes.size() == 3);
  CHECK(m.attributes[0].first == "0");
  CHECK(m.constant("in_features")->integer == 4);
  CHECK(m.method("forward")->qualified_name == "__torch__.M.forward");
  CHECK(p.find_function("__torch__.f")->name == "f");
  CHECK(p.find_class("__torch__.Plain")->kind == Class::Kind::Plain);
  CHECK(p.find_class("__torch__.P")->attributes[1].second.str() == "Optional[Tensor]");
  CHECK(p.find_class("__torch__.Color")->constant("GREEN")->name == "g");
  CHECK(p.find_class("__torch__.I")->method("forward")->parameters[0].type.str() == "__torch__.I");
}

TEST_CASE("names come from the record") {
  const Program p = program_of("class C:\n  a : int\n", "code/__torch__/a/___torch_mangle_3.py");
  CHECK(p.find_class("__torch__.a.___torch_mangle_3.C") != nullptr);
  CHECK(error_of([] { program_of("", "data/a.py"); }).starts_with("LTH007"));
  CHECK(error_of([] { program_of("", "code/.py"); }).starts_with("LTH007"));
}

TEST_CASE("the forms of old files and of the printer's own faults are taken") {
  CHECK(file_again("op_version_set = 1\nimport __torch__.a.b\nimport __torch__.c\ndef f() -> int:\n  return 1\n") ==
        "def f() -> int:\n  return 1\n");
  CHECK(file_again("") == "");
  CHECK(file_again("\n\n") == "");
  CHECK(file_again("# a comment\ndef f() -> int:\n\n  # another\n  return 1") == "def f() -> int:\n  return 1\n");
  // The strings of enums are not escaped.
  const Program p = program_of("class E(Enum):\n  A = \"y\"q\"\n  B = \"z\"\n");
  CHECK(p.find_class("__torch__.E")->constant("A")->name == "y\"q");
  CHECK(p.find_class("__torch__.E")->constant("B")->name == "z");
  // A method without the type of self; no __buffers__.
  const Program q = program_of("class M(Module):\n  __parameters__ = []\n  def f(self, x) -> Tensor:\n    return x\n");
  const auto& parameters = q.find_class("__torch__.M")->method("f")->parameters;
  CHECK(parameters[0].type.str() == "__torch__.M");
  CHECK(parameters[1].type.str() == "Tensor");
  // Attributes may be named like keywords.
  CHECK(program_of("class M(Module):\n  in : int\n  def : int\n  pass : int\n")
            .find_class("__torch__.M")
            ->attributes.size() == 3);
}

TEST_CASE("malformed text ends in a diagnostic with its place") {
  CHECK(file_error("def f() -> int:\n  return )\n") ==
        "LTH007 code/__torch__.py, line 2, column 10: expected an expression, found ')'");
  CHECK(file_error("def f() -> int:\n  return 1\ndef f() -> int:\n  return 1\n") ==
        "LTH007 code/__torch__.py, line 3, column 1: the function is defined twice");
  CHECK(file_error("class A:\n  a : int\nclass A:\n  a : int\n").find("the class is defined twice") !=
        std::string::npos);
  CHECK(file_error("class A:\n  def f(self) -> int:\n    return 1\n  def f(self) -> int:\n    return 1\n")
            .find("method f is defined twice") != std::string::npos);
  for (const char* text : {
           "x = 1\n",
           "  def f() -> int:\n    return 1\n",
           "def f() -> int:\nreturn 1\n",
           "def f() -> int:\n",
           "def f() -> int",
           "def f(",
           "def f() -> int: return 1\n",
           "def f() -> int:\n  a = 1\n    b = 2\n  return a\n",
           "def f() -> int:\n    a = 1\n  return a\n",
           "def f() -> int:\n  if x:\n  return a\n",
           "def f() -> int:\n  else:\n    pass\n",
           "def f() -> int:\n  for i in x:\n    pass\n",
           "def f() -> int:\n  def g(x):\n    return 1\n",
           "def f(x=) -> int:\n  return 1\n",
           "def f() -> int:\n  return 1 + 2\n",
           "def f() -> int:\n  return a == b\n",
           "def f() -> int:\n  return a if b else c\n",
           "def f() -> int:\n  a += 1\n",
           "def f() -> int:\n  a = \n",
           "def f() -> int:\n  return 1 2\n",
           "class A(Tensor):\n  a : int\n",
           "class A:\n  a = 1\n",
           "class A:\n  a\n",
           "class A:\n  a : Final[int]\n",
           "class A(Module):\n  __parameters__ = [1]\n",
           "class A(Module):\n  __annotations__ = [1]\n",
           "class\n",
           "\x01",
           "d\xc3\xa9\xef f() -> int:\n  return 1\n",
       }) {
    CAPTURE(text);
    CHECK(file_error(text).starts_with("LTH007"));
  }
  for (const char* text : {"9223372036854775808",
                           "-9223372036854775809",
                           "1.5e",
                           "1x",
                           "1.5.2",
                           "1e999",
                           "-x",
                           "-",
                           "1.+2",
                           "1.+x",
                           "\"a",
                           "\"a\\q\"",
                           "\"\\08\"",
                           "\"\\400\"",
                           "\"\\x41\"",
                           "'''a",
                           "(x",
                           "[x",
                           "{x: y",
                           "{x}",
                           "x[",
                           "x[]",
                           "x[1:]",
                           "x[y:2]",
                           "x.",
                           "x.1",
                           "torch.add(x=1, 2)",
                           "torch.a.b.c(x)",
                           "ops.f(x)",
                           "ops.a.b",
                           "ops.a.b.c.d(x)",
                           "CONSTANTS.x1",
                           "CONSTANTS.c",
                           "CONSTANTS.c1x",
                           "CONSTANTS.c99999999999999999999",
                           "__torch__.C.__new__(__torch__.D)",
                           "annotate(int)",
                           "annotate(1, x)",
                           "uninitialized(int, x)",
                           "isinstance(x)",
                           "getattr(x, y)",
                           "x y",
                           ""}) {
    CAPTURE(text);
    const std::string error = expr_error(text);
    CHECK((error.starts_with("LTH007") || std::string(text).empty()));
  }
}

TEST_CASE("every prefix of a file ends in a program or a diagnostic") {
  const std::string text =
      "class M(Module):\n  __parameters__ = [\"a\", ]\n  a : Dict[str, int]\n  k : Final[int] = 4\n"
      "  def f(self: __torch__.M,\n    x: Tensor=\"\\n\\033\") -> Tuple[()]:\n    a, b, = (x)[0:1]\n    if x:\n"
      "      c = 1.+2.j\n    else:\n      pass\n    return {1: (x,), -2: annotate(int, x.tolist())}\n";
  CHECK(file_again(text).size() > 0);
  for (size_t n = 0; n < text.size(); ++n) {
    const std::string error = file_error(text.substr(0, n));
    CHECK((error == "no error" || error.starts_with("LTH007")));
    for (const char c : {'\0', '(', ']', '"', '\n', ' ', ',', '\xff'}) {
      std::string changed = text;
      changed[n] = c;
      const std::string other = file_error(changed);
      CHECK((other == "no error" || other.starts_with("LTH007")));
    }
  }
}

TEST_CASE("nesting and lengths are bounded") {
  const auto too_deep = [](const std::string& text) { return expr_error(text).starts_with("LTH010"); };
  CHECK(too_deep(repeated("(", 100000)));
  CHECK(too_deep(repeated("[", 100000)));
  CHECK(too_deep(repeated("torch.neg(", 100000)));
  CHECK(too_deep("x" + repeated(".a", 100000)));
  CHECK(too_deep("torch" + repeated(".a", 1000)));
  CHECK(too_deep("x" + repeated("[0]", 100000)));
  // Chains of attributes at every level: each is short, the tree is not.
  CHECK(too_deep(repeated("f(", 50) + "x" + repeated(")" + repeated(".a", 50), 50)));
  CHECK(too_deep(repeated("a", 100000)));
  CHECK_FALSE(too_deep(repeated("torch.neg(", 150) + "x" + repeated(")", 150)));

  std::string ifs = "def f(x: Tensor) -> Tensor:\n";
  for (int i = 1; i < 400; ++i) ifs += std::string(static_cast<size_t>(2 * i), ' ') + "if x:\n";
  CHECK(file_error(ifs).starts_with("LTH010"));
}

TEST_CASE("a good program passes the verifier") {
  CHECK(verify_error(R"(class M(Module):
  __parameters__ = []
  __buffers__ = []
  sub : __torch__.M
  iface : __torch__.I
  native : __torch__.torch.classes.quantized.LinearPackedParamsBase
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    _0 = __torch__.g
    if x:
      a, b = CONSTANTS.c0, x
    else:
      a = x
    for i in range(3):
      c = torch.add(i, a)
    sub = self.sub
    d = (sub).forward(_0(c, ), )
    iface = self.iface
    e = (iface).anything(d, )
    n = (self.native).unpack()
    o = __torch__.K.__new__(__torch__.K)
    _1 = (o).__init__()
    with o as w:
      q = torch.eq(__torch__.Color.RED, w)
    def __forked_function():
      r = torch.neg(q)
      return r
    return (fork(__forked_function), e, n, __torch__.P(b))
def g(x: Tensor) -> Tensor:
  return __torch__.g(x, )
class I(ModuleInterface):
  def anything(self, x: Tensor) -> Tensor:
    pass
class K:
  def __init__(self: __torch__.K) -> NoneType:
    return None
class P(NamedTuple):
  a : Tensor
class Color(Enum):
  RED = 1
)",
                     1) == "no error");
}

TEST_CASE("the verifier finds what a program does not define") {
  const auto error = [](const std::string& body) {
    return verify_error(
        "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  sub : __torch__.M\n"
        "  def f(self: __torch__.M,\n    x: Tensor) -> Tensor:\n" +
            body + "class E(Enum):\n  A = 1\n",
        2);
  };
  CHECK(error("    a = y\n    return a\n") ==
        "LTH008 code/__torch__.py, line 7, column 9: in __torch__.M.f: y is read before it is set");
  CHECK(error("    return CONSTANTS.c2\n").find("CONSTANTS.c2 is read, but the file has 2 constants") !=
        std::string::npos);
  CHECK(error("    return __torch__.g(x, )\n").find("__torch__.g is called, but not defined") != std::string::npos);
  CHECK(error("    return g(x, )\n").find("g is read before it is set") != std::string::npos);
  CHECK(error("    return __torch__.C.__new__(__torch__.C)\n").find("class is not defined") != std::string::npos);
  CHECK(error("    return (self.sub).g(x, )\n").find("__torch__.M has no method g") != std::string::npos);
  CHECK(error("    s = self.sub\n    return (s).g(x, )\n").find("has no method g") != std::string::npos);
  CHECK(error("    return __torch__.E.B\n").find("__torch__.E.B is not defined") != std::string::npos);
  CHECK(error("    a = x\n").find("does not end with a return") != std::string::npos);
  CHECK(error("    if x:\n      return x\n    else:\n      pass\n    return x\n").find("not the last") !=
        std::string::npos);
  CHECK(error("    def g():\n      a = x\n      return a\n    return a\n").find("a is read before") !=
        std::string::npos);
  CHECK(error("    def g():\n      a = x\n    return x\n").find("does not end with a return") != std::string::npos);
  CHECK(verify_error("def f(x: Tensor,\n    x: Tensor) -> Tensor:\n  return x\n").find("two parameters") !=
        std::string::npos);
}

TEST_CASE("the verifier refuses malformed programs that no text has") {
  const auto error = [](Expr e) {
    Program p;
    Function f = parse_function("def f(x: Tensor) -> Tensor:\n  return x\n");
    f.body[0].values[0] = std::move(e);
    p.functions.emplace("f", std::move(f));
    return error_of([&] { verify(p); });
  };
  Expr attribute;
  attribute.kind = Expr::Kind::Attribute;
  CHECK(error(attribute) == "LTH008 in f: a statement or expression is malformed");
  Expr keywords;
  keywords.kind = Expr::Kind::Operator;
  keywords.name = "aten::add";
  keywords.keywords = {"alpha"};
  CHECK(error(keywords).find("malformed") != std::string::npos);
  Expr deep;
  for (int i = 0; i < 300; ++i) {
    Expr list;
    list.kind = Expr::Kind::List;
    list.items.push_back(std::move(deep));
    deep = std::move(list);
  }
  CHECK(error(std::move(deep)).find("nested too deeply") != std::string::npos);
}
