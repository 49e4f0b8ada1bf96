#include "eval/state.hpp"

#include <unordered_set>

namespace lithify::eval {
namespace {

/// Finds what can be reached from values, each thing once.
class Reach {
 public:
  explicit Reach(State& out) : out_(out) {}

  void visit(const Value& v) {
    const Nesting nesting(depth_);
    if (v.is_tensor()) {
      visit(v.tensor());
    } else if (auto* q = v.get_if<Quantized>()) {
      visit(q->integers);
    } else if (auto* l = v.get_if<std::shared_ptr<List>>()) {
      if (!seen_.insert(l->get()).second) return;
      out_.lists.push_back({*l, **l});
      visit((*l)->head);
      for (const Value& item : (*l)->items) visit(item);
    } else if (auto* t = v.get_if<Tuple>()) {
      if (!seen_.insert(t->items.get()).second) return;
      for (const Value& item : *t->items) visit(item);
    } else if (auto* m = v.get_if<Maybe>()) {
      visit(*m->present);
      visit(*m->value);
    } else if (auto* d = v.get_if<std::shared_ptr<Dict>>()) {
      if (!seen_.insert(d->get()).second) return;
      out_.dicts.push_back({*d, **d});
      for (const auto& [number, item] : (*d)->items()) visit(item.value);
    } else if (auto* o = v.get_if<std::shared_ptr<Object>>()) {
      if (!seen_.insert(o->get()).second) return;
      out_.objects.push_back({*o, (*o)->attributes});
      for (auto& [name, item] : (*o)->attributes) visit(item);
    }
  }

 private:
  void visit(const TensorPtr& t) {
    for (TensorPtr view = t; view && seen_.insert(view.get()).second; view = view->base())
      out_.tensors.push_back({view, view->save()});
  }

  State& out_;
  int depth_ = 0;
  std::unordered_set<const void*> seen_;
};

}  // namespace

State::State(const Frame& f) : frame(f) {
  Reach reach(*this);
  for (auto& [name, value] : frame.locals) reach.visit(value);
  if (frame.returned) reach.visit(*frame.returned);
}

State State::now(const Frame& f) const {
  State out;
  out.frame = f;
  for (auto& s : lists) out.lists.push_back({s.thing, *s.thing});
  for (auto& s : dicts) out.dicts.push_back({s.thing, *s.thing});
  for (auto& s : objects) out.objects.push_back({s.thing, s.thing->attributes});
  for (auto& s : tensors) out.tensors.push_back({s.thing, s.thing->save()});
  return out;
}

void State::restore(Frame& f) const {
  f = frame;
  for (auto& s : lists) *s.thing = s.contents;
  for (auto& s : dicts) *s.thing = s.contents;
  for (auto& s : objects) s.thing->attributes = s.contents;
  for (auto& s : tensors) s.thing->restore(s.contents);
}

}  // namespace lithify::eval
