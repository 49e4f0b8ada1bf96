// Traces as texts.
#pragma once

#include <memory>
#include <string>

#include "program/parse.hpp"
#include "program/print.hpp"

namespace lithify::merge {

/// A trace of a model with two submodules, a and b, which have a weight each.
inline std::unique_ptr<program::Program> trace(const std::string& forward, const std::string& methods_of_layer = "") {
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
  weight.tensor =
      std::make_shared<TensorView>(TensorView::dense(DType::Float, {1}, std::vector<std::byte>(sizeof(float))));
  out->root = object("__torch__.Net").object;
  for (const char* name : {"a", "b"}) {
    program::Data layer = object("__torch__.Layer");
    layer.object->attributes.emplace_back("weight", weight);
    out->root->attributes.emplace_back(name, layer);
  }
  return out;
}

/// The statements of forward, without the indentation of all.
inline std::string statements(const program::Program& p) {
  const std::string text = program::print(p.forward());
  std::string out;
  size_t at = text.find('\n', text.find(" -> ")) + 1;
  for (; at < text.size(); at = text.find('\n', at) + 1) out += text.substr(at + 2, text.find('\n', at) - at - 1);
  return out;
}

}  // namespace lithify::merge
