// Traces that took different sides of conditions, merged into one program: texts in, and the text of forward out.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/diagnostic.hpp"
#include "merge/align.hpp"
#include "merge/merge.hpp"
#include "model_bytes.hpp"
#include "program/parse.hpp"
#include "program/print.hpp"

namespace lithify::merge {
namespace {

using Asked = Recording::Asked;

/// A trace of a model with two submodules, a and b, which have a weight each.
std::unique_ptr<program::Program> trace(const std::string& forward, const std::string& methods_of_layer = "") {
  auto out = std::make_unique<program::Program>();
  const std::string text =
      "class Net(Module):\n"
      "  __parameters__ = []\n"
      "  __buffers__ = []\n"
      "  a : __torch__.Layer\n"
      "  b : __torch__.Layer\n"
      "  def forward(self: __torch__.Net,\n"
      "    x: Tensor) -> Tuple[Tensor, Tensor]:\n" +
      forward +
      "class Layer(Module):\n"
      "  __parameters__ = [\"weight\", ]\n"
      "  __buffers__ = []\n"
      "  weight : Tensor\n" +
      methods_of_layer;
  program::parse_file(*out, "code/__torch__.py", text, {});
  auto object = [](std::string class_name) {
    program::Data d;
    d.kind = program::Data::Kind::Object;
    d.object = std::make_shared<program::Object>();
    d.object->class_name = std::move(class_name);
    return d;
  };
  program::Data weight;
  weight.kind = program::Data::Kind::Tensor;
  weight.tensor = std::make_shared<TensorView>(
      TensorView::dense(DType::Float, {1}, std::vector<std::byte>(sizeof(float))));
  out->root = object("__torch__.Net").object;
  for (const char* name : {"a", "b"}) {
    program::Data layer = object("__torch__.Layer");
    layer.object->attributes.emplace_back("weight", weight);
    out->root->attributes.emplace_back(name, layer);
  }
  return out;
}

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
  const Merged result = merge(recordings);
  const std::string text = program::print(result.program->forward());
  std::string out;
  size_t at = text.find('\n', text.find(" -> ")) + 1;
  for (; at < text.size(); at = text.find('\n', at) + 1) out += text.substr(at + 2, text.find('\n', at) - at - 1);
  return out;
}

}  // namespace

TEST_CASE("explore") {
  auto show = [](const char* name, const std::vector<Run>& runs) {
    try {
      MESSAGE(name << "\n" << merged(runs));
    } catch (const Error& e) {
      MESSAGE(name << " ERROR " << e.what());
    }
  };
  const std::string c = "    c = torch.gt(torch.size(x, 1), 5)\n", d = "    d = torch.gt(torch.size(x, 0), 7)\n";
  show("if without else", {{c + "    y = torch.relu(x)\n    return (torch.neg(y), c)\n", {{0, true, 1}}},
                           {c + "    return (torch.neg(x), c)\n", {{0, false, 1}}}});
  show("if else", {{c + "    y = torch.relu(x)\n    return (torch.neg(y), c)\n", {{0, true, 1}}},
                           {c + "    y = torch.sin(x)\n    return (torch.neg(y), c)\n", {{0, false, 1}}}});
  const std::string mid = "    z = torch.exp(y)\n    z1 = torch.exp(z)\n    z2 = torch.exp(z1)\n", mid0="    z = torch.exp(x)\n    z1 = torch.exp(z)\n    z2 = torch.exp(z1)\n";
  auto two = [&](bool a, bool b) {
    return Run{c + (a ? "    y = torch.relu(x)\n" + mid : mid0) + d + (b ? "    w = torch.sin(z2)\n" : "    w = torch.cos(z2)\n") + "    return (torch.neg(w), c, d)\n", {{0, a, 1}, {1, b, 2}}};
  };
  show("two conditions, 2", {two(true, true), two(false, false)});
  show("two conditions, 3", {two(true, true), two(false, true), two(true, false)});
  show("two conditions, 4", {two(true, true), two(false, false), two(true, false), two(false, true)});
  show("nested", {{c + d + "    y = torch.relu(x)\n    y1 = torch.sin(y)\n    y2 = torch.cos(y1)\n    return (torch.neg(y2), c, d)\n", {{0, true, 1}, {1, true, 2}}},
   {c + d + "    y = torch.relu(x)\n    y2 = torch.cos(y)\n    return (torch.neg(y2), c, d)\n", {{0, true, 1}, {1, false, 2}}},
   {c + "    return (torch.neg(x), c)\n", {{0, false, 1}}}});
  auto either = [&](bool a, bool b) {
     return Run{c + d + (a && b ? "    y = torch.relu(x)\n" : "") + "    return (torch.neg(" + (a && b ? "y" : "x") + "), c, d)\n", {{0, a, 1}, {1, b, 2}}}; };
  show("and", {either(true,true), either(false,true),either(true,false), either(false,false)});
  auto lit = [&](bool a) { return Run{c + fmt::format("    y = torch.exp(x)\n    z = torch.exp(y)\n    w = torch.exp(z)\n    return (torch.slice(w, 1, {}, 3), c)\n", a ? 2 : 4), {{0, a, 1}}}; };
  show("literal", {lit(true), lit(false)});
  auto lit2 = [&](bool a) { return Run{c + fmt::format("    y = torch.exp(x)\n    z = torch.exp(y)\n    w = torch.softmax(z, {})\n    return (torch.exp(w), c)\n", a ? 2 : 1), {{0, a, 1}}}; };
  show("literal", {lit2(true), lit2(false)});
  auto pre = [&](bool a) { return Run{fmt::format("    y = torch.mul(x, {})\n", a ? 8 : 4) + c + (a ? "    z = torch.exp(y)\n" : "    z = torch.sin(y)\n" ) + "    return (z, c)\n", {{0, a, 1}}}; };
  show("pre", {pre(true), pre(false)});
  auto dead = [&](bool a) { return Run{(a ? "    k = torch.cos(x)\n" : "") + c + (a ? "    z = torch.exp(k)\n" : "    z = torch.sin(x)\n" ) + "    return (z, c)\n", {{0, a, 1}}}; };
  show("dead", {dead(true), dead(false)});
  auto write = [&](bool a) { return Run{"    y = torch.zeros_like(x)\n" + c + fmt::format("    v = torch.slice(y, 1, {})\n    w = torch.select(v, {}, 0)\n    u = torch.fill_(w, 1)\n    p = torch.exp(y)\n    q = torch.exp(p)\n    return (torch.exp(q), c)\n", a?1:2, a?0:1), {{0, a, 1}}}; };
  show("write", {write(true), write(false)});
}

}  // namespace lithify::merge
