// Lists and tuples of a program: computed at export, without nodes.
#include <fmt/format.h>

#include <algorithm>

#include "ops/prim.hpp"
#include "ops/sizes.hpp"

namespace lithify::ops {

Vector<Value> sliced(Call& c, const Vector<Value>& items) {
  const int64_t n = static_cast<int64_t>(items.size()), step = c.integer("step");
  if (step == 0) throw Error(Code::ProgramRaises, "the program cuts a list by steps of 0");
  // Backwards, the places are those in front of the elements: from n - 1 down to -1.
  const int64_t least = step > 0 ? 0 : -1, most = step > 0 ? n : n - 1;
  auto bound = [&](const char* name, int64_t otherwise) {
    const std::optional<int64_t> v = c.maybe_integer(name);
    return v ? std::clamp<int64_t>(*v < 0 ? *v + n : *v, least, most) : otherwise;
  };
  const int64_t end = bound("end", step > 0 ? most : least);
  Vector<Value> out;
  for (int64_t i = bound("start", step > 0 ? least : most); step > 0 ? i < end : i > end; i += step)
    out.push_back(items[static_cast<size_t>(i)]);
  return out;
}

size_t list_index(Call& c, size_t size, int64_t i) {
  int64_t n = static_cast<int64_t>(size), at = i < 0 ? i + n : i;
  if (at < 0 || at >= n) c.mismatch(fmt::format("index {} of a list of {} elements", i, n));
  return static_cast<size_t>(at);
}

namespace {

using eval::None;
using eval::Tuple;

/// Whether two values are equal: a bool, of the run where it is decided there.
Value same(Call& c, const Value& a, const Value& b) {
  if (const std::optional<bool> known = eval::equal(c.sym, a, b)) return *known;
  if (!a.is_number() || !b.is_number()) c.unsupported("the elements are known only at run time");
  return c.call("aten::eq", {a, b});
}

bool is_true(const Value& v) { return v.is<bool>() && *v.get_if<bool>(); }

Value contains(Call& c, const Vector<Value>& items, const Value& wanted) {
  Value some = false;
  for (const Value& v : items) {
    some = c.call("aten::__or__", {some, same(c, v, wanted)});
    if (is_true(some)) return true;
  }
  return some;
}

/// The place of the first element that is equal to another. The run decides among those that may be; it is the last of
/// them where none of the others is.
Value place_of(Call& c, const Vector<Value>& items, const Value& wanted) {
  Vector<std::pair<size_t, Value>> found;
  for (size_t i = 0; i < items.size() && (found.empty() || !is_true(found.back().second)); ++i)
    if (Value here = same(c, items[i], wanted); !here.is<bool>() || is_true(here)) found.emplace_back(i, here);
  if (found.empty()) throw Error(Code::ProgramRaises, "the program looks for an element that its list does not have");
  Value place = c.number_value(static_cast<int64_t>(found.back().first));
  for (size_t i = found.size() - 1; i-- > 0;)
    place = c.call("prim::ite", {found[i].second, c.number_value(static_cast<int64_t>(found[i].first)), place});
  return place;
}

/// Numbers of the run in ascending order: each pair of neighbors is put in order, as often as there are elements.
Vector<Value> ordered_at_run_time(Call& c, Vector<Value> items) {
  constexpr size_t most = 16;
  if (items.size() > most || !std::ranges::all_of(items, &Value::is_number))
    c.unsupported("the order is known only at run time");
  for (size_t pass = 0; pass < items.size(); ++pass)
    for (size_t i = pass % 2; i + 1 < items.size(); i += 2) {
      Value lower = c.call("prim::min", {items[i], items[i + 1]});
      items[i + 1] = c.call("prim::max", {items[i], items[i + 1]});
      items[i] = std::move(lower);
    }
  return items;
}

// The elements in ascending order, or descending by the argument `reverse`.
Vector<Value> ordered(Call& c) {
  Vector<Value> out = c.arg("self").items();
  const auto is_text = [](const Value& v) { return v.is<std::string>(); };
  const auto is_known = [](const Value& v) { return known_real(v).has_value(); };
  if (std::ranges::all_of(out, is_text) || std::ranges::all_of(out, is_known)) {
    std::ranges::stable_sort(out, [](const Value& a, const Value& b) {
      if (auto* s = a.get_if<std::string>()) return *s < *b.get_if<std::string>();
      return *known_real(a) < *known_real(b);
    });
  } else {
    out = ordered_at_run_time(c, std::move(out));
  }
  if (c.flag("reverse")) std::reverse(out.begin(), out.end());
  return out;
}

// Whether all elements are true, or any of them.
Value combined(Call& c, bool any) {
  Value out = !any;
  for (const Value& v : c.arg("self").items()) {
    Value truth = c.call("aten::Bool", {v});
    out = c.call(any ? "aten::__or__" : "aten::__and__", {out, truth});
  }
  return out;
}

Value compared(Call& c, bool negate) {
  const Value &a = c.arg("a"), &b = c.arg("b");
  if (std::optional<bool> same = eval::equal(c.sym, a, b)) return *same != negate;
  if (!a.is_list()) c.unsupported("the comparison is decided only at run time");
  const Vector<Value>&x = a.items(), &y = b.items();
  Value all = true;
  for (size_t i = 0; i < x.size(); ++i) all = c.call("aten::__and__", {all, same(c, x[i], y[i])});
  return negate ? c.call("aten::__not__", {all}) : all;
}

void register_list_changes(eval::Registry& ops) {
  ops.add("aten::append(t[] self, Any el) -> t[]", [](Call& c) -> Value {
    c.arg("self").list_items().push_back(c.arg("el"));
    return c.arg("self");
  });
  ops.add("aten::extend(t[] self, t[] other) -> ()", [](Call& c) -> Value {
    Vector<Value> more = c.arg("other").items();
    Vector<Value>& items = c.arg("self").list_items();
    make_elements(c, more.size());
    items.insert(items.end(), more.begin(), more.end());
    return None{};
  });
  ops.add("aten::add_.t(t[] a, t[] b) -> t[]", [](Call& c) -> Value {
    c.call("aten::extend", {c.arg("a"), c.arg("b")});
    return c.arg("a");
  });
  ops.add("aten::insert(t[] self, int idx, Any el) -> ()", [](Call& c) -> Value {
    Vector<Value>& items = c.arg("self").list_items();
    int64_t n = static_cast<int64_t>(items.size()), i = c.integer("idx");
    items.insert(items.begin() + std::clamp<int64_t>(i < 0 ? i + n : i, 0, n), c.arg("el"));
    return None{};
  });
  ops.add("aten::pop.t(t[] self, int idx=-1) -> t", [](Call& c) -> Value {
    Vector<Value>& items = c.arg("self").list_items();
    size_t i = list_index(c, items.size(), c.integer("idx"));
    Value out = items[i];
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
    return out;
  });
  ops.add("aten::clear.t(t[] self) -> ()", [](Call& c) -> Value {
    c.arg("self").list_items().clear();
    return None{};
  });
  ops.add("aten::reverse.t(t[] self) -> ()", [](Call& c) -> Value {
    std::reverse(c.arg("self").list_items().begin(), c.arg("self").list_items().end());
    return None{};
  });
  ops.add("aten::_set_item.t(t[] l, int idx, Any el) -> t[]", [](Call& c) -> Value {
    Vector<Value>& items = c.arg("l").list_items();
    items[list_index(c, items.size(), c.integer("idx"))] = c.arg("el");
    return c.arg("l");
  });
  ops.add("aten::Delete.t(t[] self, int idx) -> ()", [](Call& c) -> Value {
    c.call("aten::pop", {c.arg("self"), c.arg("idx")});
    return None{};
  });
  ops.add("aten::remove(t[] self, Any el) -> ()", [](Call& c) -> Value {
    Value at = c.call("aten::index", {c.arg("self"), c.arg("el")});
    c.call("aten::pop", {c.arg("self"), at});
    return None{};
  });
  ops.add("aten::sort.any(t[] self, bool reverse=False) -> ()", [](Call& c) -> Value {
    Vector<Value> out = ordered(c);
    c.arg("self").list_items() = std::move(out);
    return None{};
  });
}

void register_new_lists(eval::Registry& ops) {
  for (const char* schema : {"aten::copy.t(t[] self) -> t[]", "aten::list.t(t[] self) -> t[]"})
    ops.add(schema, [](Call& c) -> Value { return Value::list(c.arg("self").items()); });
  ops.add("aten::add.t(t[] a, t[] b) -> t[]",
          [](Call& c) -> Value {
            Vector<Value> out = c.arg("a").items();
            const Vector<Value>& more = c.arg("b").items();
            out.insert(out.end(), more.begin(), more.end());
            return c.arg("a").is<Tuple>() ? Value::tuple(std::move(out)) : Value::list(std::move(out));
          })
      .numbers({{"b", Role::Operand}});
  ops.add("aten::mul.left_t(t[] l, int n) -> t[]", [](Call& c) -> Value {
    const Vector<Value>& items = c.arg("l").items();
    const int64_t n = items.empty() ? 0 : std::max<int64_t>(c.integer("n"), 0);
    make_elements(c, static_cast<size_t>(checked_mul(n, static_cast<int64_t>(items.size()))));
    Vector<Value> out;
    for (int64_t i = 0; i < n; ++i) out.insert(out.end(), items.begin(), items.end());
    return Value::list(std::move(out));
  });
  ops.add("aten::mul.right_(int n, t[] l) -> t[]", [](Call& c) {
    return c.call("aten::mul", {c.arg("l"), c.arg("n")});
  });
  ops.add("aten::slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[]", [](Call& c) -> Value {
    Vector<Value> out = sliced(c, c.arg("l").items());
    return c.arg("l").is<Tuple>() ? Value::tuple(std::move(out)) : Value::list(std::move(out));
  });
  ops.add("aten::sorted(t[] self, bool reverse=False) -> t[]", [](Call& c) { return Value::list(ordered(c)); });
  ops.add("aten::list_with_default(int[] list, int[] defaults) -> int[]", [](Call& c) -> Value {
    Vector<Value> out = c.arg("list").items();
    const Vector<Value>& defaults = c.arg("defaults").items();
    for (size_t i = 0; i < out.size() && i < defaults.size(); ++i)
      if (out[i].is_none()) out[i] = defaults[i];
    return Value::list(std::move(out));
  });
}

void register_list_queries(eval::Registry& ops) {
  ops.add("aten::len.t(t[] a) -> int",
          [](Call& c) -> Value { return c.sym.constant(static_cast<int64_t>(c.arg("a").items().size())); });
  ops.add("aten::len.Tensor(Tensor a) -> int", [](Call& c) -> Value {
    onnx::Value* t = c.tensor("a");
    if (t->rank() == 0) c.mismatch("len() of a 0-d tensor");
    return t->shape[0];
  });
  ops.add("aten::index.list(t[] self, Any el) -> int",
          [](Call& c) -> Value { return place_of(c, c.arg("self").items(), c.arg("el")); });
  ops.add("aten::count(t[] self, Any el) -> int", [](Call& c) -> Value {
    Value n = c.number_value(0);
    for (const Value& v : c.arg("self").items()) n = c.call("aten::add", {n, same(c, v, c.arg("el"))});
    return n;
  });
  for (const char* type : {"bool", "int", "float"})
    for (auto& [name, any] : {std::pair{"aten::all", false}, {"aten::any", true}})
      ops.add(fmt::format("{}.{}({}[] self) -> bool", name, type, type),
              [any = any](Call& c) { return combined(c, any); });
  ops.add("aten::__contains__.t(t[] l, Any item) -> bool",
          [](Call& c) -> Value { return contains(c, c.arg("l").items(), c.arg("item")); });
  for (auto& [name, negate] : {std::pair{"aten::eq", false}, {"aten::ne", true}})
    for (const char* types :
         {".t_list(t[] a, t[] b) -> bool", ".device(Device a, Device b) -> bool", ".bool(bool a, bool b) -> bool"})
      ops.add(std::string(name) + types, [negate = negate](Call& c) { return compared(c, negate); });
}

// The iterations of a loop over range(lo, hi, step).
void register_ranges(eval::Registry& ops) {
  ops.add("aten::__range_length(int lo, int hi, int step) -> int", [](Call& c) -> Value {
    Dim lo = c.size("lo"), hi = c.size("hi"), zero = c.sym.constant(0);
    int64_t step = c.integer("step");
    Dim span = step > 0 ? c.sym.sub(hi, lo) : c.sym.sub(lo, hi);
    return c.sym.max(zero, c.sym.ceil_div(span, c.sym.constant(step > 0 ? step : -step)));
  });
  ops.add("aten::__derive_index(int index, int start, int step) -> int",
          [](Call& c) -> Value { return c.sym.add(c.size("start"), c.sym.mul(c.size("index"), c.size("step"))); });
}

}  // namespace

void register_lists(eval::Registry& ops) {
  register_list_changes(ops);
  register_new_lists(ops);
  register_list_queries(ops);
  register_ranges(ops);
}

}  // namespace lithify::ops
