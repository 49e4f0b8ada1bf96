#include "eval/value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/stack.hpp"

namespace lithify::eval {

Tensor::Tensor(onnx::Value* value) : value_(value), cell_(std::make_shared<Cell>()) {}

Tensor::Tensor(onnx::Value* value, TensorPtr base, View view)
    : value_(value),
      seen_(base->cell_->version),
      cell_(base->cell_),
      base_(std::move(base)),
      view_(std::make_shared<View>(std::move(view))),
      among_(base_->among_) {}

// A chain of views is as long as the program makes it: none of these recurses.
Tensor::~Tensor() {
  for (TensorPtr next = std::move(base_); next && next.use_count() == 1;) next = TensorPtr(std::move(next->base_));
}

bool Tensor::dense() const {
  for (const Tensor* t = this; t->base_; t = t->base_.get())
    if (!t->view_->dense) return false;
  return true;
}

void Tensor::may_share_memory_with(const Tensor& other) {
  if (std::any_of(among_.begin(), among_.end(), [&](auto& a) { return a.first == other.cell_; })) return;
  // Each of a chain of them has all that come before.
  constexpr size_t most = 1000;
  if (among_.size() + other.among_.size() >= most)
    throw Error(Code::LimitExceeded, fmt::format("a tensor may share memory with more than {} others", most));
  among_.emplace_back(other.cell_, other.cell_->version);
  among_.insert(among_.end(), other.among_.begin(), other.among_.end());
}

Tensor::State Tensor::save() const { return {*this, *cell_}; }

void Tensor::restore(const State& state) {
  *this = state.tensor;
  *cell_ = state.cell;
}

void Tensor::check_readable() const {
  bool stale = std::any_of(among_.begin(), among_.end(), [](auto& a) { return a.first->version != a.second; });
  if (cell_->unsure || stale)
    throw Error(Code::UnsupportedMutation,
                "a tensor is read that a write to another one may have changed: an if or a loop decides whether they "
                "are the same, or squeeze_(), t_() or the like was called on one of them",
                "write to a clone(), or assign the result instead of writing in place");
}

onnx::Value* Tensor::read(onnx::Builder& b) {
  check_readable();
  Vector<Tensor*> stale;
  for (Tensor* t = this; t->base_ && t->seen_ != cell_->version; t = t->base_.get()) {
    t->base_->check_readable();
    stale.push_back(t);
  }
  for (; !stale.empty(); stale.pop_back()) {
    Tensor& t = *stale.back();
    t.value_ = t.view_->forward(b, t.base_->value_);
    t.seen_ = cell_->version;
  }
  return value_;
}

void Tensor::write(onnx::Builder& b, onnx::Value* value) {
  Tensor* whole = this;
  Vector<std::pair<Tensor*, onnx::Value*>> written{{whole, value}};
  for (; whole->base_; whole = whole->base_.get()) {
    const View& view = *whole->view_;
    if (!view.inverse)
      throw Error(Code::UnsupportedMutation, fmt::format("a write goes through the view that {} made", view.name),
                  "write to a clone(), or to the tensor itself");
    value = view.inverse(b, whole->base_->read(b), value);
    written.emplace_back(whole->base_.get(), value);
  }
  ++cell_->version;
  for (auto& [cell, version] : whole->among_) {
    cell->unsure = true;
    ++cell->version;
  }
  whole->among_.clear();
  for (auto& [tensor, contents] : written) {
    tensor->value_ = contents;
    tensor->seen_ = cell_->version;
  }
}

bool Tensor::same_place(const Tensor& other) const {
  const Tensor *a = this, *b = &other;
  for (; a != b; a = a->base_.get(), b = b->base_.get())
    if (!a->base_ || !b->base_ || a->view_->key.empty() || a->view_->key != b->view_->key) return false;
  return true;
}

void Tensor::rebind(const Tensor& other) {
  bool number = is_number;
  *this = other;
  is_number = number;
}

namespace {

constexpr int most_nested = 2500;
constexpr int most_destroyed_by_recursion = 100;

}  // namespace

Nesting::Nesting(int& depth) : depth_(depth) {
  if (depth >= most_nested)
    throw Error(Code::LimitExceeded, fmt::format("values nest more than {} deep, or contain themselves", most_nested));
  check_stack();
  ++depth;
}

void Value::release() noexcept {
  thread_local int depth = 0;
  thread_local std::vector<Data> deferred;
  if (depth == most_destroyed_by_recursion) {
    deferred.push_back(std::move(data_));
    return;
  }
  ++depth;
  data_ = None{};
  if (--depth > 0) return;
  while (!deferred.empty()) {
    Data next = std::move(deferred.back());
    deferred.pop_back();
    ++depth;
    next = None{};
    --depth;
  }
}

Value Value::tuple(Vector<Value> items, const program::Class* named) {
  return Tuple{std::make_shared<const Vector<Value>>(std::move(items)), named};
}

Value Value::list(Vector<Value> items) {
  auto list = std::make_shared<List>();
  list->items = std::move(items);
  return list;
}

Value Value::list(const Vector<onnx::Value*>& tensors) { return list(Vector<Value>(tensors.begin(), tensors.end())); }

Value run_time_number(onnx::Value* v) {
  auto t = std::make_shared<Tensor>(v);
  t->is_number = true;
  return t;
}

bool Value::is_number() const {
  return is<bool>() || is<sym::Expr>() || is<double>() || is<std::complex<double>>() ||
         (is_tensor() && tensor()->is_number);
}

namespace {

Vector<Value>& known_items(List& list) {
  if (list.is_open())
    throw Error(Code::UnsupportedControlFlow, list.unreadable.empty()
                                                  ? "the number of elements of a list is known only at run time here"
                                                  : list.unreadable);
  return list.items;
}

}  // namespace

bool Value::is_open_list() const { return is_list() && std::get<std::shared_ptr<List>>(data_)->is_open(); }

const Vector<Value>& Value::items() const {
  if (auto* l = get_if<std::shared_ptr<List>>()) return known_items(**l);
  if (auto* t = get_if<Tuple>()) return *t->items;
  throw Error(Code::TypeMismatch, fmt::format("a list or tuple is needed, and this is a {}", kind_name()));
}

Vector<Value>& Value::list_items() const {
  if (auto* l = get_if<std::shared_ptr<List>>()) return known_items(**l);
  throw Error(Code::TypeMismatch, fmt::format("a list is needed, and this is a {}", kind_name()));
}

std::string Value::kind_name() const {
  static constexpr const char* names[] = {
      "None",    "bool",  "int",  "float",  "complex", "str",      "Device",        "Tensor", "quantized tensor",
      "List",    "Tuple", "Dict", "object", "enum",    "function", "uninitialized", "poison", "undecided",
      "optional"};
  return names[data_.index()];
}

void List::become(onnx::Value* all, bool are_numbers) {
  auto memory = std::make_shared<Tensor>(all);
  if (!are_numbers) link(*memory);
  *this = {};
  head = std::move(memory);
  numbers = are_numbers;
}

void List::link(Tensor& memory) const {
  if (head && !numbers) memory.may_share_memory_with(*head);
  for (const Value& item : items)
    if (item.is_tensor() && !item.tensor()->is_number) memory.may_share_memory_with(*item.tensor());
}

void Dict::check() const {
  if (!unreadable.empty()) throw Error(Code::UnsupportedControlFlow, unreadable);
}

namespace {

std::optional<double> as_double(const Value& v) {
  if (auto* d = v.get_if<double>()) return *d;
  if (auto* b = v.get_if<bool>()) return *b ? 1.0 : 0.0;
  if (v.is_int() && v.integer().is_constant()) return static_cast<double>(*v.integer().constant());
  return std::nullopt;
}

/// The same for keys that are equal; nothing for those of which only a comparison shows that.
std::optional<size_t> hash_of(const Value& key) {
  if (auto* text = key.get_if<std::string>()) return std::hash<std::string>()(*text);
  const std::optional<double> number = as_double(key);
  return number ? std::optional(std::hash<double>()(*number)) : std::nullopt;
}

bool is_same_key(const Value& a, const Value& b) {
  if (a.data().index() != b.data().index()) return false;
  if (auto* s = a.get_if<std::string>()) return *s == *b.get_if<std::string>();
  if (a.is_int()) return a.integer() == b.integer();
  if (auto* d = a.get_if<double>()) return *d == *b.get_if<double>();
  if (auto* d = a.get_if<bool>()) return *d == *b.get_if<bool>();
  if (a.is_tensor()) return a.tensor() == b.tensor();
  auto* e = a.get_if<Enum>();
  return e && e->type == b.get_if<Enum>()->type && e->name == b.get_if<Enum>()->name;
}

}  // namespace

/// The items that may have a key, in their order.
Vector<size_t> Dict::candidates(const Value& key) const {
  const std::optional<size_t> hash = hash_of(key);
  Vector<size_t> out;
  if (hash) {
    const auto [begin, end] = hashed_.equal_range(*hash);
    for (auto i = begin; i != end; ++i) out.push_back(i->second);
    out.insert(out.end(), unhashed_.begin(), unhashed_.end());
    std::ranges::sort(out);
  } else {
    for (const auto& [number, item] : items_) out.push_back(number);
  }
  return out;
}

std::optional<size_t> Dict::number_of(const Value& key) const {
  check();
  for (const size_t number : candidates(key))
    if (is_same_key(items_.at(number).key, key)) return number;
  return std::nullopt;
}

const Value* Dict::find(const Value& key) const {
  const std::optional<size_t> number = number_of(key);
  return number ? &items_.at(*number).value : nullptr;
}

Dict::Found Dict::find(sym::Context& sym, const Value& key) const {
  Found out;
  for (const size_t number : candidates(key)) {
    const std::optional<bool> same = equal(sym, items_.at(number).key, key);
    if (same == true) return {{number}, true};
    if (!same) out.numbers.push_back(number);
  }
  return out;
}

void Dict::set(Value key, Value value) {
  if (const std::optional<size_t> number = number_of(key))
    items_.at(*number).value = std::move(value);
  else
    add(std::move(key), std::move(value));
}

void Dict::add(Value key, Value value) {
  const size_t number = next_++;
  if (const std::optional<size_t> hash = hash_of(key))
    hashed_.emplace(*hash, number);
  else
    unhashed_.insert(number);
  items_.emplace(number, Item{std::move(key), std::move(value)});
}

void Dict::erase(size_t number) {
  if (const std::optional<size_t> hash = hash_of(items_.at(number).key)) {
    const auto [begin, end] = hashed_.equal_range(*hash);
    hashed_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second == number; }));
  }
  unhashed_.erase(number);
  items_.erase(number);
}

Value* Object::attribute(std::string_view name) {
  // From there to both sides, for the thousands of layers of a long module.
  const size_t count = attributes.size(), middle = std::min(last_found, count);
  for (size_t i = 0; i <= count; ++i)
    for (size_t at : {middle + i, middle - i})
      if (at < count && attributes[at].first == name) {
        last_found = at;
        return &attributes[at].second;
      }
  return nullptr;
}

void Object::set(std::string_view name, Value value) {
  if (Value* v = attribute(name)) {
    *v = std::move(value);
  } else {
    attributes.emplace_back(name, std::move(value));
  }
}

namespace {

/// Compares values that share others pair by pair, each pair once.
class Comparison {
 public:
  explicit Comparison(sym::Context& sym) : sym_(sym) {}

  std::optional<bool> equal(const Value& a, const Value& b) {
    const auto *x = container(a), *y = container(b);
    if (!x || !y || a.data().index() != b.data().index()) return equal_contents(a, b);
    if (auto found = compared_.find({x, y}); found != compared_.end()) return found->second;
    const Nesting nesting(depth_);
    return compared_[{x, y}] = equal_contents(a, b);
  }

 private:
  static const void* container(const Value& v) {
    if (auto* l = v.get_if<std::shared_ptr<List>>()) return l->get();
    if (auto* t = v.get_if<Tuple>()) return t->items.get();
    if (auto* d = v.get_if<std::shared_ptr<Dict>>()) return d->get();
    return nullptr;
  }
  std::optional<bool> equal_contents(const Value& a, const Value& b);
  std::optional<bool> equal_items(const Vector<Value>& a, const Vector<Value>& b);
  std::optional<bool> equal_dicts(const Dict& a, const Dict& b);

  sym::Context& sym_;
  int depth_ = 0;
  std::map<std::pair<const void*, const void*>, std::optional<bool>> compared_;
};

std::optional<bool> Comparison::equal_items(const Vector<Value>& a, const Vector<Value>& b) {
  if (a.size() != b.size()) return false;
  bool unsure = false;
  for (size_t i = 0; i < a.size(); ++i) {
    std::optional<bool> e = equal(a[i], b[i]);
    if (e == false) return false;
    unsure = unsure || !e;
  }
  return unsure ? std::nullopt : std::optional(true);
}

std::optional<bool> Comparison::equal_dicts(const Dict& a, const Dict& b) {
  const auto is_known = [](const auto& entry) {
    const Value& key = entry.second.key;
    return !key.is_int() || key.integer().is_constant();
  };
  if (!std::ranges::all_of(a.items(), is_known) || !std::ranges::all_of(b.items(), is_known)) return std::nullopt;
  if (a.size() != b.size()) return false;
  for (const auto& [number, item] : a.items()) {
    const Value* other = b.find(item.key);
    if (!other) return false;
    std::optional<bool> e = equal(item.value, *other);
    if (!e || !*e) return e;
  }
  return true;
}

std::optional<bool> Comparison::equal_contents(const Value& a, const Value& b) {
  if (a.is_int() && b.is_int()) return sym_.equal(a.integer(), b.integer());
  if (a.is_number() && b.is_number() && !a.is_tensor() && !b.is_tensor()) {
    auto x = as_double(a), y = as_double(b);
    if (x && y) return *x == *y;
    return std::nullopt;
  }
  if (a.is_number() && b.is_number()) return std::nullopt;  // of the run
  if (a.data().index() != b.data().index()) return false;
  if (a.is_none()) return true;
  if (auto* s = a.get_if<std::string>()) return *s == *b.get_if<std::string>();
  if (auto* d = a.get_if<Device>()) return *d == *b.get_if<Device>();
  if (auto* e = a.get_if<Enum>()) return e->type == b.get_if<Enum>()->type && e->name == b.get_if<Enum>()->name;
  if (a.is_list() || a.is<Tuple>()) return equal_items(a.items(), b.items());
  if (a.is_tensor()) return a.tensor() == b.tensor();
  if (auto* q = a.get_if<Quantized>()) return q->integers == b.get_if<Quantized>()->integers;
  if (auto* o = a.get_if<std::shared_ptr<Object>>()) return *o == *b.get_if<std::shared_ptr<Object>>();
  if (auto* d = a.get_if<std::shared_ptr<Dict>>()) return equal_dicts(**d, **b.get_if<std::shared_ptr<Dict>>());
  return std::nullopt;
}

}  // namespace

std::optional<bool> equal(sym::Context& sym, const Value& a, const Value& b) { return Comparison(sym).equal(a, b); }

}  // namespace lithify::eval
