#include "eval/state.hpp"

#include <map>
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

void collect(const program::Expr& e, Names& out) {
  if (e.kind == program::Expr::Kind::Name || e.kind == program::Expr::Kind::Call) out.insert(e.name);
  for (const program::Expr& item : e.items) collect(item, out);
}

void collect(const program::Stmt& s, Names& out) {
  out.insert(s.targets.begin(), s.targets.end());
  for (const program::Expr& e : s.values) collect(e, out);
  for (const auto* body : {&s.body, &s.orelse})
    for (const program::Stmt& inner : *body) collect(inner, out);
}

}  // namespace

Names names_in(const program::Stmt& s) {
  Names out;
  collect(s, out);
  return out;
}

void State::keep(const Frame& f) {
  frame.returned = f.returned;
  if (!names_) {
    frame.locals = f.locals;
    return;
  }
  for (const std::string_view name : *names_)
    if (const auto found = f.locals.find(name); found != f.locals.end()) frame.locals.insert(*found);
}

State::State(const Frame& f, const Names& names) : State(f.captured ? nullptr : &names) {
  keep(f);
  // In the order of names, so that every run makes the same file.
  std::map<std::string_view, const Value*> ordered;
  for (auto& [name, value] : frame.locals) ordered.emplace(name, &value);
  Reach reach(*this);
  for (auto& [name, value] : ordered) reach.visit(*value);
  if (frame.returned) reach.visit(*frame.returned);
}

State State::now(const Frame& f) const {
  State out(names_);
  out.keep(f);
  for (auto& s : lists) out.lists.push_back({s.thing, *s.thing});
  for (auto& s : dicts) out.dicts.push_back({s.thing, *s.thing});
  for (auto& s : objects) out.objects.push_back({s.thing, s.thing->attributes});
  for (auto& s : tensors) out.tensors.push_back({s.thing, s.thing->save()});
  return out;
}

void State::restore(Frame& f) const {
  f.returned = frame.returned;
  static const Names none;
  if (!names_) f.locals = frame.locals;
  for (const std::string_view name : names_ ? *names_ : none)
    if (const auto found = frame.locals.find(name); found != frame.locals.end())
      f.locals.insert_or_assign(name, found->second);
    else
      f.locals.erase(name);
  for (auto& s : lists) *s.thing = s.contents;
  for (auto& s : dicts) *s.thing = s.contents;
  for (auto& s : objects) s.thing->attributes = s.contents;
  for (auto& s : tensors) s.thing->restore(s.contents);
}

}  // namespace lithify::eval
