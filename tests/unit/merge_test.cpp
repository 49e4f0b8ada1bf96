// Traces that took different sides of conditions, merged into one program: texts in, and the text of forward out.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "base/diagnostic.hpp"
#include "merge/align.hpp"
#include "merge/merge.hpp"
#include "model_bytes.hpp"
#include "traces.hpp"

namespace lithify::merge {
namespace {

using Asked = Recording::Asked;

/// One path through the model: its statements, indented by four, and what was asked.
struct Run {
  std::string body;
  std::vector<Asked> asked;
  std::string methods = "";
  size_t outputs = 1;
};

/// The statements of the merged forward, without the indentation of all.
std::string merged(const std::vector<Run>& runs) {
  std::vector<std::unique_ptr<program::Program>> programs;
  std::vector<Recording> recordings;
  for (const Run& run : runs) {
    programs.push_back(trace(run.body, run.methods));
    recordings.push_back({programs.back().get(), run.outputs, run.asked});
  }
  return statements(*merge(recordings).program);
}

}  // namespace

// Conditions on the sizes of x.
const std::string c = "    c = torch.gt(torch.size(x, 1), 5)\n", d = "    d = torch.gt(torch.size(x, 0), 7)\n";
const std::string c_there = "_0 = torch.size(x, 1)\nc = torch.gt(_0, 5)\n",
                  d_there = "_1 = torch.size(x, 0)\nd = torch.gt(_1, 7)\n";
/// Three operators from one name to another: too many to stand in both branches.
std::string three(const std::string& from, const std::string& to) {
  return fmt::format("    {1}1 = torch.exp({0})\n    {1}2 = torch.exp({1}1)\n    {1} = torch.exp({1}2)\n", from, to);
}

TEST_CASE("what only one side runs is in an if, without else") {
  CHECK(merged({{c + "    y = torch.relu(x)\n    return (torch.neg(y), c)\n", {{0, true, 1}}},
                {c + "    return (torch.neg(x), c)\n", {{0, false, 1}}}}) == c_there +
                                                                                 "if c:\n"
                                                                                 "  y = torch.relu(x)\n"
                                                                                 "  y0 = y\n"
                                                                                 "else:\n"
                                                                                 "  y0 = x\n"
                                                                                 "_1 = torch.neg(y0)\n"
                                                                                 "return _1\n");
}

TEST_CASE("if and else") {
  CHECK(merged({{c + "    y = torch.relu(x)\n    return (torch.neg(y), c)\n", {{0, true, 1}}},
                {c + "    y = torch.sin(x)\n    return (torch.neg(y), c)\n", {{0, false, 1}}}}) ==
        c_there +
            "if c:\n"
            "  y = torch.relu(x)\n"
            "  y1 = y\n"
            "else:\n"
            "  y0 = torch.sin(x)\n"
            "  y1 = y0\n"
            "_1 = torch.neg(y1)\n"
            "return _1\n");
}

TEST_CASE("a condition that only one side asks is nested") {
  const std::string begin = c + d + "    y = torch.relu(x)\n";
  CHECK(merged({{begin + "    y1 = torch.sin(y)\n    y2 = torch.cos(y1)\n    return (torch.neg(y2), c, d)\n",
                 {{0, true, 1}, {1, true, 2}}},
                {begin + "    y2 = torch.cos(y)\n    return (torch.neg(y2), c, d)\n", {{0, true, 1}, {1, false, 2}}},
                {c + "    return (torch.neg(x), c)\n", {{0, false, 1}}}}) == c_there +
                                                                                 "if c:\n"
                                                                                 "  _1 = torch.size(x, 0)\n"
                                                                                 "  d = torch.gt(_1, 7)\n"
                                                                                 "  y = torch.relu(x)\n"
                                                                                 "  if d:\n"
                                                                                 "    y1 = torch.sin(y)\n"
                                                                                 "    y0 = y1\n"
                                                                                 "  else:\n"
                                                                                 "    y0 = y\n"
                                                                                 "  y2 = torch.cos(y0)\n"
                                                                                 "  y3 = y2\n"
                                                                                 "else:\n"
                                                                                 "  y3 = x\n"
                                                                                 "_2 = torch.neg(y3)\n"
                                                                                 "return _2\n");
}

TEST_CASE("two conditions one after the other are two ifs, whichever of the four paths were recorded") {
  auto path = [](bool first, bool second) {
    return Run{c + (first ? "    y = torch.relu(x)\n" + three("y", "z") : three("x", "z")) + d +
                   (second ? "    w = torch.sin(z)\n" : "    w = torch.cos(z)\n") + "    return (torch.neg(w), c, d)\n",
               {{0, first, 1}, {1, second, 2}}};
  };
  const std::string expected = c_there +
                               "if c:\n"
                               "  y = torch.relu(x)\n"
                               "  y0 = y\n"
                               "else:\n"
                               "  y0 = x\n"
                               "z1 = torch.exp(y0)\n"
                               "z2 = torch.exp(z1)\n"
                               "z = torch.exp(z2)\n" +
                               d_there +
                               "if d:\n"
                               "  w = torch.sin(z)\n"
                               "  w1 = w\n"
                               "else:\n"
                               "  w0 = torch.cos(z)\n"
                               "  w1 = w0\n"
                               "_2 = torch.neg(w1)\n"
                               "return _2\n";
  CHECK(merged({path(true, true), path(false, false)}) == expected);
  CHECK(merged({path(true, true), path(false, true), path(true, false)}) == expected);
  CHECK(merged({path(true, true), path(false, false), path(true, false), path(false, true)}) == expected);
}

TEST_CASE("what depends on two conditions together is once in the program") {
  auto path = [](bool first, bool second) {
    const bool both = first && second;
    return Run{
        c + d + (both ? "    y = torch.relu(x)\n" : "") + "    return (torch.neg(" + (both ? "y" : "x") + "), c, d)\n",
        {{0, first, 1}, {1, second, 2}}};
  };
  CHECK(merged({path(true, true), path(false, true), path(true, false), path(false, false)}) ==
        c_there + d_there +
            "if c:\n"
            "  if d:\n"
            "    _2 = True\n"
            "  else:\n"
            "    _2 = False\n"
            "else:\n"
            "  _2 = False\n"
            "if _2:\n"
            "  y = torch.relu(x)\n"
            "  y0 = y\n"
            "else:\n"
            "  y0 = x\n"
            "_3 = torch.neg(y0)\n"
            "return _3\n");
}

TEST_CASE("a condition inside a submodule that is called twice") {
  const std::string forward =
      "    a = self.a\n"
      "    y, c, = (a).forward(x, )\n" +
      three("y", "z") +
      "    w = (a).forward1(z, )\n"
      "    return (w, c)\n";
  auto path = [&](bool large) {
    auto method = [&](const std::string& name, bool asks) {
      return "  def " + name + "(self: __torch__.Layer,\n    x: Tensor) -> Tensor:\n" +
             (asks ? "    c = torch.gt(torch.size(x, 1), 5)\n" : "") + "    weight = self.weight\n" +
             (large ? "    y = torch.mul(x, weight)\n" : "    y = torch.sub(x, weight)\n") +
             (asks ? "    return (y, c)\n" : "    return y\n");
    };
    return Run{forward, {{0, large, 1}}, method("forward", true) + method("forward1", false)};
  };
  CHECK(merged({path(true), path(false)}) == c_there +
                                                 "if c:\n"
                                                 "  y = torch.mul(x, self.a.weight)\n"
                                                 "  y1 = y\n"
                                                 "else:\n"
                                                 "  y0 = torch.sub(x, self.a.weight)\n"
                                                 "  y1 = y0\n"
                                                 "z1 = torch.exp(y1)\n"
                                                 "z2 = torch.exp(z1)\n"
                                                 "z = torch.exp(z2)\n"
                                                 "if c:\n"
                                                 "  y2 = torch.mul(z, self.a.weight)\n"
                                                 "  y4 = y2\n"
                                                 "else:\n"
                                                 "  y3 = torch.sub(z, self.a.weight)\n"
                                                 "  y4 = y3\n"
                                                 "return y4\n");
}

TEST_CASE("statements keep the paths of their modules, and an if has that of what is in it") {
  auto program = [](bool large) {
    return trace("    a = self.a\n    y, c, = (a).forward(x, )\n    return (torch.neg(y), c)\n",
                 "  def forward(self: __torch__.Layer,\n    x: Tensor) -> Tensor:\n" + c +
                     (large ? "    y = torch.relu(x)\n" : "    y = torch.sin(x)\n") + "    return (y, c)\n");
  };
  const auto first = program(true), second = program(false);
  const Recording both[] = {{first.get(), 1, {{0, true, 1}}}, {second.get(), 1, {{0, false, 1}}}};
  const Merged result = merge(both);
  const std::vector<program::Stmt>& body = result.program->forward().body;
  CHECK(body[1].scope == "a");
  CHECK(body[2].kind == program::Stmt::Kind::If);
  CHECK(body[2].scope == "a");
  CHECK(body[2].body[0].scope == "a");
  CHECK(body[3].scope == "");
  CHECK(body[2].orelse[0].pos.file == 1);
  CHECK(result.program->files.size() == 2);
}

TEST_CASE(
    "a number that may be known at run time is a result of an if; an operator with any other is in both branches") {
  auto path = [](bool large, const char* last) {
    return Run{c + three("x", "y") + fmt::format(fmt::runtime(last), large ? 2 : 4), {{0, large, 1}}};
  };
  const std::string begin = c_there + "y1 = torch.exp(x)\ny2 = torch.exp(y1)\ny = torch.exp(y2)\n";
  const char* slice = "    return (torch.slice(y, 1, {}, 9), c)\n";
  CHECK(merged({path(true, slice), path(false, slice)}) == begin +
                                                               "if c:\n"
                                                               "  _1 = 2\n"
                                                               "else:\n"
                                                               "  _1 = 4\n"
                                                               "_2 = torch.slice(y, 1, _1, 9)\n"
                                                               "return _2\n");
  const char* softmax = "    return (torch.softmax(y, {}), c)\n";
  CHECK(merged({path(true, softmax), path(false, softmax)}) == begin +
                                                                   "if c:\n"
                                                                   "  _1 = torch.softmax(y, 2)\n"
                                                                   "  _3 = _1\n"
                                                                   "else:\n"
                                                                   "  _2 = torch.softmax(y, 4)\n"
                                                                   "  _3 = _2\n"
                                                                   "return _3\n");
}

TEST_CASE("a number that differs before a condition is known is that of the first, and stands for all") {
  auto program = [](int number, const char* then) {
    return trace(fmt::format("    y = torch.mul(x, {})\n", number) + c + then + "    return (z, c)\n");
  };
  const auto first = program(8, "    z = torch.exp(y)\n"), second = program(4, "    z = torch.sin(y)\n");
  const Recording both[] = {{first.get(), 1, {{0, true, 1}}}, {second.get(), 1, {{0, false, 1}}}};
  const Merged result = merge(both);
  const program::Expr& literal = result.program->forward().body[0].values[0].items[1];
  CHECK(literal.integer == 8);
  CHECK(literal.integer2 == 0);
  const std::vector<Source>& sources = result.copied_from.at(&literal);
  REQUIRE(sources.size() == 2);
  CHECK(sources[0] == Source{0, &first->forward().body[0].values[0].items[1]});
  CHECK(sources[1] == Source{1, &second->forward().body[0].values[0].items[1]});
  CHECK(sources[1].literal->integer == 4);
}

TEST_CASE("an early return: one side has nothing more to do") {
  CHECK(merged({{c + "    return (torch.relu(x), c)\n", {{0, true, 1}}},
                {c + three("x", "y") + "    return (y, c)\n", {{0, false, 1}}}}) == c_there +
                                                                                        "if c:\n"
                                                                                        "  _1 = torch.relu(x)\n"
                                                                                        "  y0 = _1\n"
                                                                                        "else:\n"
                                                                                        "  y1 = torch.exp(x)\n"
                                                                                        "  y2 = torch.exp(y1)\n"
                                                                                        "  y = torch.exp(y2)\n"
                                                                                        "  y0 = y\n"
                                                                                        "return y0\n");
}

TEST_CASE("an output that one side passes through") {
  CHECK(merged({{c + "    return (x, torch.relu(x), c)\n", {{0, true, 2}}, "", 2},
                {c + "    return (torch.neg(x), torch.relu(x), c)\n", {{0, false, 2}}, "", 2}}) ==
        c_there +
            "if c:\n"
            "  x0 = x\n"
            "else:\n"
            "  _1 = torch.neg(x)\n"
            "  x0 = _1\n"
            "_2 = torch.relu(x)\n"
            "return (x0, _2)\n");
}

TEST_CASE("writes stay in their order, on the sides that have them") {
  CHECK(
      merged({{"    y = torch.clone(x)\n" + c + "    _1 = torch.add_(y, 1)\n    _2 = torch.mul_(y, 3)\n" +
                   three("y", "z") + "    return (z, c)\n",
               {{0, true, 1}}},
              {"    y = torch.clone(x)\n" + c + "    _1 = torch.sub_(y, 1)\n" + three("y", "z") + "    return (z, c)\n",
               {{0, false, 1}}}}) == "y = torch.clone(x)\n" + c_there +
                                         "if c:\n"
                                         "  _1 = torch.add_(y, 1)\n"
                                         "  _2 = torch.mul_(y, 3)\n"
                                         "else:\n"
                                         "  _3 = torch.sub_(y, 1)\n"
                                         "z1 = torch.exp(y)\n"
                                         "z2 = torch.exp(z1)\n"
                                         "z = torch.exp(z2)\n"
                                         "return z\n");
}

TEST_CASE("a write through a view that an if would choose is in the branches, with the view") {
  auto path = [](bool large) {
    return Run{"    y = torch.zeros_like(x)\n" + c +
                   fmt::format("    v = torch.select(y, {}, 0)\n    w = torch.unsqueeze(v, 0)\n", large ? 0 : 1) +
                   "    u = torch.fill_(w, 1)\n" + three("y", "z") + "    return (z, c)\n",
               {{0, large, 1}}};
  };
  CHECK(merged({path(true), path(false)}) == "y = torch.zeros_like(x)\n" + c_there +
                                                 "if c:\n"
                                                 "  v = torch.select(y, 0, 0)\n"
                                                 "  w = torch.unsqueeze(v, 0)\n"
                                                 "  u = torch.fill_(w, 1)\n"
                                                 "else:\n"
                                                 "  v0 = torch.select(y, 1, 0)\n"
                                                 "  w0 = torch.unsqueeze(v0, 0)\n"
                                                 "  u0 = torch.fill_(w0, 1)\n"
                                                 "z1 = torch.exp(y)\n"
                                                 "z2 = torch.exp(z1)\n"
                                                 "z = torch.exp(z2)\n"
                                                 "return z\n");
}

TEST_CASE("what was chosen before a write is chosen again after it") {
  auto path = [](bool large) {
    return Run{c + (large ? "    y = torch.relu(x)\n" : "    y = torch.sin(x)\n") + three("y", "z") +
                   "    _1 = torch.add_(y, 1)\n" + three("z", "w") + "    return (torch.mul(y, w), c)\n",
               {{0, large, 1}}};
  };
  const std::string text = merged({path(true), path(false)});
  CHECK(text.find("if c:\n  _1 = torch.add_(") != std::string::npos);
  // y is a result of the second if as well, of the values that were written to.
  const std::string after = text.substr(text.find("torch.add_("));
  CHECK(after.find("torch.mul(y2, w)") == std::string::npos);
}

TEST_CASE("a value of a branch is used in a later one") {
  auto path = [](bool large) {
    return Run{c + (large ? "    k = torch.cos(x)\n" : "") + three("x", "y") +
                   (large ? "    z = torch.mul(y, k)\n" : "    z = torch.neg(y)\n") + "    return (z, c)\n",
               {{0, large, 1}}};
  };
  CHECK(merged({path(true), path(false)}) == c_there +
                                                 "if c:\n"
                                                 "  k = torch.cos(x)\n"
                                                 "  k0 = k\n"
                                                 "else:\n"
                                                 "  k0 = uninitialized(Tensor)\n"
                                                 "y1 = torch.exp(x)\n"
                                                 "y2 = torch.exp(y1)\n"
                                                 "y = torch.exp(y2)\n"
                                                 "if c:\n"
                                                 "  z = torch.mul(y, k0)\n"
                                                 "  z1 = z\n"
                                                 "else:\n"
                                                 "  z0 = torch.neg(y)\n"
                                                 "  z1 = z0\n"
                                                 "return z1\n");
}

TEST_CASE("a few equal statements between different ones stand in both branches, more stand once") {
  auto path = [](bool large, bool many) {
    const std::string first = large ? "    y = torch.relu(x)\n" : "    y = torch.sin(x)\n";
    return Run{c + first + (many ? three("y", "z") : "    z = torch.exp(y)\n") +
                   (large ? "    w = torch.cos(z)\n" : "    w = torch.tan(z)\n") + "    return (w, c)\n",
               {{0, large, 1}}};
  };
  auto count = [](const std::string& text, const std::string& what) {
    size_t n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
  };
  const std::string few = merged({path(true, false), path(false, false)});
  CHECK(count(few, "if c:") == 1);
  CHECK(count(few, "torch.exp") == 2);
  const std::string many = merged({path(true, true), path(false, true)});
  CHECK(count(many, "if c:") == 2);
  CHECK(count(many, "torch.exp") == 3);
}

TEST_CASE("what a trace lost as unused before the condition runs for all") {
  CHECK(merged({{"    k = torch.cos(x)\n" + c + "    return (torch.exp(k), c)\n", {{0, true, 1}}},
                {c + "    return (torch.sin(x), c)\n", {{0, false, 1}}}}) == "k = torch.cos(x)\n" + c_there +
                                                                                 "if c:\n"
                                                                                 "  _1 = torch.exp(k)\n"
                                                                                 "  _3 = _1\n"
                                                                                 "else:\n"
                                                                                 "  _2 = torch.sin(x)\n"
                                                                                 "  _3 = _2\n"
                                                                                 "return _3\n");
}

TEST_CASE("a condition with one outcome in all recordings is assumed") {
  CHECK(merged({{c + "    return (torch.neg(x), c)\n", {{0, false, 1}}}}) ==
        c_there +
            "if c:\n"
            "  ops.prim.RaiseException(\"the recordings do not show what the model does here\")\n"
            "_1 = torch.neg(x)\n"
            "return _1\n");
}

TEST_CASE("of recordings with the same outcomes, the first counts") {
  const Run first{c + "    return (torch.neg(x), c)\n", {{0, false, 1}}},
      other{c + "    return (torch.sin(x), c)\n", {{0, false, 1}}};
  CHECK(merged({first, other}) == merged({first}));
}

TEST_CASE("functions with control flow stay calls") {
  const std::string method =
      "  def forward(self: __torch__.Layer,\n"
      "    x: Tensor) -> Tensor:\n"
      "    if bool(torch.gt(torch.sum(x), 0)):\n"
      "      y = x\n"
      "    else:\n"
      "      y = torch.neg(x)\n"
      "    return y\n";
  auto path = [&](bool large) {
    return Run{c + (large ? "    y = torch.relu(x)\n" : "    y = torch.sin(x)\n") +
                   "    b = self.b\n    return ((b).forward(y, ), c)\n",
               {{0, large, 1}},
               method};
  };
  CHECK(merged({path(true), path(false)}).ends_with("_1 = (self.b).forward(y1, )\nreturn _1\n"));
}

TEST_CASE("equal constants of the traces are one") {
  auto program = [](double number, const char* then) {
    auto out = trace(c + "    y = torch.mul(x, CONSTANTS.c0)\n" + then + "    return (z, c)\n");
    program::Data data;
    data.kind = program::Data::Kind::Float;
    data.real = number;
    out->constants.push_back(data);
    return out;
  };
  const auto first = program(0.5, "    z = torch.exp(y)\n"), second = program(0.5, "    z = torch.sin(y)\n"),
             third = program(0.25, "    z = torch.sin(y)\n");
  const Recording same[] = {{first.get(), 1, {{0, true, 1}}}, {second.get(), 1, {{0, false, 1}}}};
  CHECK(merge(same).program->constants.size() == 1);
  const Recording different[] = {{first.get(), 1, {{0, true, 1}}}, {third.get(), 1, {{0, false, 1}}}};
  CHECK(merge(different).program->constants.size() == 2);
}

TEST_CASE("traces that no condition explains are refused") {
  auto code = [](const std::vector<Run>& runs) { return test::code_of([&] { merged(runs); }); };
  // Other outputs.
  CHECK(code({{c + "    return (x, c)\n", {{0, true, 1}}}, {c + "    return (x, x, c)\n", {{0, false, 2}}, "", 2}}) ==
        Code::TracesDiverge);
  // No condition, or another one.
  CHECK(code({{c + "    return (x, c)\n", {{0, true, 1}}}, {d + "    return (x, d)\n", {{1, true, 1}}}}) ==
        Code::TracesDiverge);
  // They use different values before the condition.
  const std::string z = "    z = torch.exp(y)\n" + c;
  CHECK(code({{"    y = torch.relu(x)\n" + z + "    return (z, c)\n", {{0, true, 1}}},
              {"    y = torch.sin(x)\n" + z + "    return (torch.tan(z), c)\n", {{0, false, 1}}}}) ==
        Code::TracesDiverge);
  // The condition is a constant of the trace.
  CHECK(code({{c + "    return (x, True)\n", {{0, true, 1}}},
              {c + "    return (torch.neg(x), False)\n", {{0, false, 1}}}}) == Code::TracesDiverge);
}

TEST_CASE("long traces of many paths merge fast") {
  constexpr size_t conditions = 15, steps = 2000;
  // Each path takes the other side of one condition.
  auto path = [](size_t other) {
    Run run{"", {}};
    std::string y = "x", results;
    for (size_t i = 0; i < conditions; ++i) {
      run.body += fmt::format("    c{0} = torch.gt(torch.size(x, 1), {0})\n", i);
      if (i == other) run.body += fmt::format("    o{} = torch.relu({})\n", i, y), y = fmt::format("o{}", i);
      for (size_t k = 0; k < steps / conditions; ++k) {
        run.body += fmt::format("    y{0}_{1} = torch.{3}({2})\n", i, k, y, k % 2 ? "exp" : "sin");
        y = fmt::format("y{}_{}", i, k);
      }
      results += fmt::format(", c{}", i);
      run.asked.push_back({i, i == other, i + 1});
    }
    run.body += fmt::format("    return ({}{})\n", y, results);
    return run;
  };
  std::vector<Run> runs;
  for (size_t i = 0; i <= conditions; ++i) runs.push_back(path(i));
  const auto start = std::chrono::steady_clock::now();
  const std::string text = merged(runs);
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < 20);
  CHECK(static_cast<size_t>(std::ranges::count(text, '\n')) < steps + 10 * conditions);
}

TEST_CASE("a longest common subsequence") {
  using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;
  auto of = [](std::vector<uint32_t> a, std::vector<uint32_t> b) { return aligned(a, b); };
  CHECK(of({1, 2, 3}, {1, 2, 3}) == Pairs{{0, 0}, {1, 1}, {2, 2}});
  CHECK(of({1, 2, 3}, {1, 4, 3}) == Pairs{{0, 0}, {2, 2}});
  CHECK(of({1, 3}, {1, 2, 2, 3}) == Pairs{{0, 0}, {1, 3}});
  CHECK(of({9, 1, 2, 3, 8}, {7, 2, 1, 2, 3, 6}).size() == 3);
  CHECK(of({1, 2}, {}).empty());
  CHECK(of(std::vector<uint32_t>(5000, 1), std::vector<uint32_t>(4000, 1)).size() == 4000);
}

}  // namespace lithify::merge
