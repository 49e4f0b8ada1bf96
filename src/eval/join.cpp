#include "eval/join.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lithify::eval {
namespace {

/// The identity of a value that has one.
const void* identity(const Value& v) {
  if (v.is_tensor()) return v.tensor().get();
  if (auto* q = v.get_if<Quantized>()) return q->integers.get();
  if (auto* l = v.get_if<std::shared_ptr<List>>()) return l->get();
  if (auto* t = v.get_if<Tuple>()) return t->items.get();
  if (auto* d = v.get_if<std::shared_ptr<Dict>>()) return d->get();
  if (auto* o = v.get_if<std::shared_ptr<Object>>()) return o->get();
  return nullptr;
}

bool same(const Value& a, const Value& b) {
  if (a.data().index() != b.data().index()) return false;
  if (const void* x = identity(a)) return x == identity(b);
  if (a.is_int()) return a.integer() == b.integer();
  if (auto* x = a.get_if<bool>()) return *x == *b.get_if<bool>();
  if (auto* x = a.get_if<double>()) return *x == *b.get_if<double>();
  if (auto* x = a.get_if<std::complex<double>>()) return *x == *b.get_if<std::complex<double>>();
  if (auto* x = a.get_if<std::string>()) return *x == *b.get_if<std::string>();
  if (auto* x = a.get_if<Device>()) return *x == *b.get_if<Device>();
  if (auto* x = a.get_if<Enum>()) return x->type == b.get_if<Enum>()->type && x->name == b.get_if<Enum>()->name;
  if (auto* x = a.get_if<Function>())
    return x->function == b.get_if<Function>()->function && x->closure == b.get_if<Function>()->closure;
  if (auto* x = a.get_if<Maybe>()) return x->value == b.get_if<Maybe>()->value;
  return a.is_none() || a.is<Uninitialized>();
}

/// Whether a value is not None, and what it is then.
Value present(const Value& v) { return v.is<Maybe>() ? *v.get_if<Maybe>()->present : Value(!v.is_none()); }
Value unwrapped(const Value& v) {
  if (v.is<Maybe>()) return *v.get_if<Maybe>()->value;
  return v.is_none() ? Value(Uninitialized{}) : v;
}

bool is_data(const Value& v) { return v.is_tensor() || v.is_number(); }

/// Whether one of two values is None or may be, and both are not for sure. What is never read may be anything.
bool optional(const Value& a, const Value& b) {
  const bool maybe = a.is<Maybe>() || b.is<Maybe>();
  const bool uninitialized = a.is<Uninitialized>() || b.is<Uninitialized>();
  return maybe || (!uninitialized && a.is_none() != b.is_none());
}

std::string below(const std::string& name, const std::string& part) { return name.empty() ? part : name + "_" + part; }

Undecided undecided(const Value& a, const Value& b, const std::string& name) {
  return {fmt::format("'{}' is a {} on one path and a {} on the other, and which one is known only at run time", name,
                      a.kind_name(), b.kind_name())};
}

}  // namespace

Join::Join(const State& before, const State& first, const State& second)
    : before_(before), first_(first), second_(second) {
  auto index = [&](const auto& things) {
    for (size_t i = 0; i < things.size(); ++i) existed_[things[i].thing.get()] = i;
  };
  index(before.lists);
  index(before.dicts);
  index(before.objects);
  index(before.tensors);
  merged();
}

// The first pass over the states finds the differences, the second puts their results in place: in the same order.
Value Join::decide(const Value& a, const Value& b, const std::string& name) {
  differences_.push_back({a, b, name, root_ + name});
  return results_ ? (*results_)[differences_.size() - 1] : Value();
}

Value Join::merge(const Value& a, const Value& b, const std::string& name) {
  const Nesting nesting(depth_);
  if (same(a, b)) return a;
  if (a.is_poison() || b.is_poison()) return Poison{};
  if (a.is<Undecided>()) return a;
  if (b.is<Undecided>()) return b;
  if (optional(a, b)) {
    Value is_there = merge(present(a), present(b), below(name, "is_there"));
    Value value = merge(unwrapped(a), unwrapped(b), name);
    if (value.is<Undecided>()) return value;
    return Maybe{std::make_shared<Value>(std::move(is_there)), std::make_shared<Value>(std::move(value))};
  }
  bool one = a.is<Uninitialized>() || b.is<Uninitialized>();
  const Value& some = a.is<Uninitialized>() ? b : a;
  if (one && existed_.contains(identity(some))) return some;
  if (one && !is_data(some) && !identity(some) && !some.is<Tuple>()) return some;
  if (!one && !(is_data(a) && is_data(b)) && a.data().index() != b.data().index()) return undecided(a, b, name);
  // The same two things are one thing wherever they stand.
  std::pair key{identity(a), identity(b)};
  if (!key.first && !key.second) return merge_new(a, b, name);
  if (auto found = merged_.find(key); found != merged_.end()) return found->second;
  return merged_[key] = merge_new(a, b, name);
}

namespace {

void forget(List& l) { std::fill(l.items.begin(), l.items.end(), Uninitialized{}); }
void forget(Dict& d) {
  for (const auto& [number, item] : d.items()) d.value(number) = Uninitialized{};
}
void forget(Object& o) {
  for (auto& [name, item] : o.attributes) item = Uninitialized{};
}
const List& saved(const State& s, size_t i, const List*) { return s.lists[i].contents; }
const Dict& saved(const State& s, size_t i, const Dict*) { return s.dicts[i].contents; }
Object saved(const State& s, size_t i, const Object*) {
  Object out = *s.objects[i].thing;
  out.attributes = s.objects[i].contents;
  return out;
}

}  // namespace

template <class Thing>
Thing Join::at_end(const Value& v, const Value& like, const State& path) const {
  if (v.is<Uninitialized>()) {
    Thing none = at_end<Thing>(like, like, &path == &first_ ? second_ : first_);
    forget(none);
    return none;
  }
  const Thing* thing = v.get_if<std::shared_ptr<Thing>>()->get();
  auto found = existed_.find(thing);
  return found == existed_.end() ? *thing : saved(path, found->second, thing);
}

Value Join::merge_new(const Value& a, const Value& b, const std::string& name) {
  const Value& some = a.is<Uninitialized>() ? b : a;
  if (is_data(some)) return decide(a, b, name);
  if (auto* t = some.get_if<Tuple>()) {
    auto items = [&](const Value& v) {
      return v.is<Uninitialized>() ? Vector<Value>(t->items->size(), Uninitialized{}) : v.items();
    };
    if (items(a).size() != items(b).size()) return undecided(a, b, name);
    return Value::tuple(merge_items(items(a), items(b), name), t->named);
  }
  if (some.is_list())
    return std::make_shared<List>(merge_lists(at_end<List>(a, some, first_), at_end<List>(b, some, second_), name));
  if (some.is<std::shared_ptr<Dict>>())
    return std::make_shared<Dict>(merge_dicts(at_end<Dict>(a, some, first_), at_end<Dict>(b, some, second_), name));
  if (some.is<std::shared_ptr<Object>>()) {
    auto out = std::make_shared<Object>(at_end<Object>(a, some, first_));
    Object other = at_end<Object>(b, some, second_);
    if (out->type != other.type) return undecided(a, b, name);
    for (auto& [attribute, v] : out->attributes) {
      Value* w = other.attribute(attribute);
      v = merge(v, w ? *w : Value(Uninitialized{}), below(name, attribute));
    }
    return out;
  }
  return undecided(a, b, name);
}

Vector<Value> Join::merge_items(const Vector<Value>& a, const Vector<Value>& b, const std::string& name) {
  Vector<Value> out;
  for (size_t i = 0; i < a.size(); ++i) out.push_back(merge(a[i], b[i], below(name, std::to_string(i))));
  return out;
}

List Join::merge_lists(const List& a, const List& b, const std::string& name) {
  if (!a.unreadable.empty() || !b.unreadable.empty()) return a.unreadable.empty() ? b : a;
  List out = a;
  if (a.head == b.head && a.growing == b.growing && a.items.size() == b.items.size()) {
    out.items = merge_items(a.items, b.items, name);
    return out;
  }
  auto numbers_or_tensors = [](const List& l) { return std::all_of(l.items.begin(), l.items.end(), is_data); };
  if (numbers_or_tensors(a) && numbers_or_tensors(b)) {
    Value joined = decide(std::make_shared<List>(a), std::make_shared<List>(b), name);
    if (auto* l = joined.get_if<std::shared_ptr<List>>()) return **l;
  }
  out.unreadable = fmt::format("the list '{}' has {} elements on one path and {} on the other", name, a.items.size(),
                               b.items.size());
  return out;
}

Dict Join::merge_dicts(const Dict& a, const Dict& b, const std::string& name) {
  Dict out = a;
  if (!out.unreadable.empty()) return out;
  for (const auto& [number, item] : a.items()) {
    const Value* other = b.unreadable.empty() ? b.find(item.key) : nullptr;
    if (!other || a.size() != b.size()) {
      out.unreadable = fmt::format("the dict '{}' has different keys on two paths", name);
      return out;
    }
    auto* text = item.key.get_if<std::string>();
    out.value(number) = merge(item.value, *other, below(name, text ? *text : "item"));
  }
  if (a.items().empty() && !b.items().empty()) out.unreadable = fmt::format("the dict '{}' is empty on one path", name);
  return out;
}

State Join::merged() {
  State out = before_;
  merged_.clear();
  differences_.clear();
  // In the order of names, so that every run makes the same file.
  const auto &x = first_.frame.locals, &y = second_.frame.locals;
  Vector<std::string_view> names;
  for (auto& [name, value] : x)
    if (y.contains(name)) names.push_back(name);
  std::sort(names.begin(), names.end());
  out.frame.locals.clear();
  root_ = "local ";
  for (std::string_view name : names) out.frame.locals[name] = merge(x.at(name), y.at(name), std::string(name));
  const auto &result = first_.frame.returned, &other_result = second_.frame.returned;
  if (result.has_value() != other_result.has_value())
    throw Error(Code::UnsupportedControlFlow, "a function returns on one path only, which is chosen at run time");
  if (result) out.frame.returned = merge(*result, *other_result, "result");
  for (size_t i = 0; i < before_.lists.size(); ++i) {
    root_ = fmt::format("list {} ", i);
    out.lists[i].contents = merge_lists(first_.lists[i].contents, second_.lists[i].contents, "item");
  }
  for (size_t i = 0; i < before_.dicts.size(); ++i) {
    root_ = fmt::format("dict {} ", i);
    out.dicts[i].contents = merge_dicts(first_.dicts[i].contents, second_.dicts[i].contents, "");
  }
  for (size_t i = 0; i < before_.objects.size(); ++i) {
    root_ = fmt::format("object {} ", i);
    auto& attributes = out.objects[i].contents;
    attributes.clear();
    for (auto& [name, v] : first_.objects[i].contents)
      for (auto& [other, w] : second_.objects[i].contents)
        if (name == other) attributes.emplace_back(name, merge(v, w, name));
  }
  merge_contents();
  return out;
}

void Join::merge_contents() {
  written_.clear();
  for (size_t i = 0; i < before_.tensors.size(); ++i) {
    const Tensor::State &a = first_.tensors[i].contents, &b = second_.tensors[i].contents,
                        &was = before_.tensors[i].contents;
    if (!a.same_memory(was) || !b.same_memory(was))
      throw Error(Code::UnsupportedMutation, "a tensor gets other memory on a path that is chosen at run time");
    // A view is derived from its base again.
    if (was.tensor.base() || (a.value() == was.value() && b.value() == was.value())) continue;
    root_ = fmt::format("tensor {} ", i);
    written_[i] = a.value() == b.value() ? Value(a.value()) : decide(a.value(), b.value(), "contents");
  }
}

void Join::apply(onnx::Builder& b, Frame& frame, const Vector<Value>& results) {
  results_ = &results;
  merged().restore(frame);
  for (auto& [i, value] : written_) before_.tensors[i].thing->write(b, value.tensor()->read(b));
  for (size_t i = 0; i < before_.tensors.size(); ++i)
    if (first_.tensors[i].contents.unsure() || second_.tensors[i].contents.unsure())
      before_.tensors[i].thing->distrust();
  link(results);
}

// A result may be a tensor that was there before, or two results may be views of each other, on either path.
void Join::link(const Vector<Value>& results) const {
  auto shares = [](const Value& a, const Value& b) {
    return a.is_tensor() && b.is_tensor() && a.tensor()->shares_memory_with(*b.tensor());
  };
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].is_tensor() || results[i].tensor()->is_number) continue;
    const Difference& d = differences_[i];
    for (auto& s : before_.tensors)
      if (shares(d.first, s.thing) || shares(d.second, s.thing)) results[i].tensor()->may_share_memory_with(*s.thing);
    for (size_t j = 0; j < i; ++j)
      if (results[j].is_tensor() &&
          (shares(d.first, differences_[j].first) || shares(d.second, differences_[j].second)))
        results[i].tensor()->may_share_memory_with(*results[j].tensor());
  }
}

}  // namespace lithify::eval
