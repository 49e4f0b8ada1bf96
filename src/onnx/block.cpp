// Bodies of If and Loop: which graph a node goes to, and what can be seen from it.
#include <algorithm>

#include "base/diagnostic.hpp"
#include "onnx/builder.hpp"

namespace lithify::onnx {

// Makes a graph and the bodies inside known, with the sizes that can be read from its values.
void Builder::adopt(Graph& graph, bool movable) {
  Block& block = blocks_[&graph] = {.graph = &graph, .movable = movable};
  stack_.push_back(&block);
  auto own = [&](Value* v) {
    own_sizes(v);
    if (v->contents && v->contents->size() == 1 && v->contents->front().is_symbol() && !source_of(v->contents->front()))
      block.sources[v->contents->front()] = {v, -1};
  };
  for (Value* v : graph.inputs) own(v);
  for (const Node* n : graph.nodes) {
    for (Graph* body : n->bodies()) adopt(*body, n->is("Loop"));
    for (Value* v : n->outputs) own(v);
  }
  stack_.pop_back();
}

std::shared_ptr<Graph> Builder::new_body(Body kind) {
  auto body = std::make_shared<Graph>(&graph());
  blocks_[body.get()] = {.graph = body.get(), .movable = kind == Body::Loop};
  return body;
}

void Builder::enter(Graph& body) {
  stack_.push_back(&blocks_.at(&body));
  given_.push_back(std::make_unique<sym::Given>(sym, body.given));
}

void Builder::leave() {
  stack_.pop_back();
  given_.pop_back();
}

void Builder::give(const sym::Facts& facts) {
  graph().given.insert(graph().given.end(), facts.begin(), facts.end());
  given_.back().reset();
  given_.back() = std::make_unique<sym::Given>(sym, graph().given);
}

void Builder::body_outputs(std::span<Value* const> values) {
  for (Value* v : values) {
    v = real(v);
    // The outputs of a body are its own, and each is there once.
    bool own = v->kind == Value::Kind::Output && v->graph == &graph();
    const Vector<Value*>& outputs = graph().outputs;
    if (!own || std::find(outputs.begin(), outputs.end(), v) != outputs.end()) v = identity(v);
    graph().outputs.push_back(v);
  }
}

Vector<Value*> Builder::control(std::string_view type, Inputs inputs, Attributes bodies, const Vector<Fact>& facts) {
  // The condition of an If has one element, and may have dimensions.
  if (type == "If" && inputs[0]->producer && inputs[0]->producer->op_type == "Reshape")
    inputs[0] = inputs[0]->producer->inputs[0];
  // Readers of older opsets take the sizes of one branch for those of the other.
  if (type == "If" && opset_ < 11)
    for (size_t i = 0; i < facts.size(); ++i) {
      auto shape = [&](const Attribute& body) {
        return std::get<std::shared_ptr<Graph>>(body.data)->outputs[i]->shape;
      };
      if (shape(bodies[0]) != shape(bodies[1])) needs_opset("If with branches of different sizes", 11);
    }
  return foreign("", type, inputs, std::move(bodies), facts);
}

Builder::Block& Builder::place_of(bool movable, const Inputs& inputs) {
  size_t needed = 0;
  for (const Value* v : inputs) {
    if (!v) continue;
    const Block* owner = &block_of(v);
    needed = std::max(needed, static_cast<size_t>(std::find(stack_.begin(), stack_.end(), owner) - stack_.begin()));
  }
  size_t place = stack_.size() - 1;
  while (movable && place > needed && stack_[place]->movable) --place;
  return *stack_[place];
}

Builder::Block& Builder::block_of(const Value* v) {
  for (Block* block : stack_)
    if (block->graph == v->graph) return *block;
  throw Error(Code::Internal, "a value is used outside of the body that it belongs to");
}

const Builder::Source* Builder::source_of(Dim symbol) const {
  for (const Block* block : stack_)
    if (auto found = block->sources.find(symbol); found != block->sources.end()) return &found->second;
  return nullptr;
}

bool Builder::is_visible(const Value* v) const {
  return std::ranges::any_of(stack_, [&](const Block* block) { return block->graph == v->graph; });
}

void Builder::bind(Dim symbol, Value* v) {
  block_of(v).sources[symbol] = {v, -1};
  v->contents = {symbol};
}

bool Builder::computable(Dim e) const {
  auto each = [&](const auto& self, Dim part) -> bool {
    switch (sym::kind(part)) {
      case sym::Kind::Constant:
        return true;
      case sym::Kind::Symbol:
        return source_of(part) != nullptr;
      case sym::Kind::Polynomial: {
        for (const sym::Term& term : sym::terms(part))
          if (!std::all_of(term.atoms.begin(), term.atoms.end(), [&](Dim atom) { return self(self, atom); }))
            return false;
        return true;
      }
      default: {
        auto [a, b] = sym::operands(part);
        return self(self, a) && self(self, b);
      }
    }
  };
  return each(each, e);
}

}  // namespace lithify::onnx
