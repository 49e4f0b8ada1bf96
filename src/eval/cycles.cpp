#include "eval/cycles.hpp"

#include <utility>

namespace lithify::eval {
namespace {

void take_apart(List& list) { const Vector<Value> items = std::exchange(list.items, {}); }
void take_apart(Dict& dict) { const Dict items = std::exchange(dict, {}); }
void take_apart(Object& object) { const auto attributes = std::exchange(object.attributes, {}); }

}  // namespace

Cycles::~Cycles() {
  for (const Watched& watched : watched_)
    std::visit(
        [](const auto& weak) {
          if (const auto container = weak.lock()) take_apart(*container);
        },
        watched);
}

void Cycles::watch(const Value& container, const Value& value) {
  if (!value.may_nest()) return;
  if (auto* list = container.get_if<std::shared_ptr<List>>()) watched_.emplace_back(*list);
  if (auto* dict = container.get_if<std::shared_ptr<Dict>>()) watched_.emplace_back(*dict);
  if (auto* object = container.get_if<std::shared_ptr<Object>>()) watched_.emplace_back(*object);
}

}  // namespace lithify::eval
