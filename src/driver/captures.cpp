#include "driver/captures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "onnx/graph.hpp"

namespace lithify::driver {
namespace {

using program::Data;
using program::Expr;
using program::Stmt;
using Kind = Expr::Kind;

/// Without the parts that make names of classes unique within one process: "__torch__.___torch_mangle_3.Net".
std::string unmangled(const std::string& name) {
  constexpr std::string_view mark = "___torch_mangle_";
  std::string out = name;
  for (size_t at = out.find(mark); at != std::string::npos; at = out.find(mark))
    out.erase(at, out.find('.', at) == std::string::npos ? std::string::npos : out.find('.', at) + 1 - at);
  return out;
}

/// Walks two programs at once.
class Comparison {
 public:
  Comparison(const program::Program& a, const program::Program& b) : a_(a), b_(b) {}

  std::map<eval::Literal, std::pair<int64_t, int64_t>> run() {
    objects(*a_.root, *b_.root);
    return std::move(differing_);
  }

 private:
  [[noreturn]] void part(const std::string& what) const {
    throw Error(
        {Code::CapturesDiffer, Severity::Error, fmt::format("the captures part here: {}", what), a_.locate(pos_),
         "control flow in Python that depends on sizes is not in a traced file; script that part of the model", ""});
  }
  void require(bool same, const std::string& what) const {
    if (!same) part(what);
  }

  void objects(const program::Object& a, const program::Object& b) {
    if (!seen_.insert(&a).second) return;
    const program::Class *ca = a_.find_class(a.class_name), *cb = b_.find_class(b.class_name);
    require(!ca == !cb && unmangled(a.class_name) == unmangled(b.class_name), "classes differ");
    require(a.attributes.size() == b.attributes.size(), fmt::format("attributes of {} differ", a.class_name));
    for (size_t i = 0; i < a.attributes.size(); ++i) {
      require(a.attributes[i].first == b.attributes[i].first, fmt::format("attributes of {} differ", a.class_name));
      data(a.attributes[i].second, b.attributes[i].second, a.attributes[i].first);
    }
    if (!ca || !seen_.insert(ca).second) return;
    require(ca->methods.size() == cb->methods.size(), fmt::format("methods of {} differ", a.class_name));
    for (size_t i = 0; i < ca->methods.size(); ++i) functions(ca->methods[i], cb->methods[i]);
  }

  /// Attributes: the sizes of weights, everything of numbers.
  void data(const Data& a, const Data& b, const std::string& name) {
    const std::string what = fmt::format("the attribute {} differs", name);
    require(a.kind == b.kind && a.integer == b.integer && a.real == b.real && a.text == b.text, what);
    if (a.tensor) require(a.tensor->dtype == b.tensor->dtype && a.tensor->sizes == b.tensor->sizes, what);
    if (a.container) {
      require(a.container->items.size() == b.container->items.size(), what);
      for (size_t i = 0; i < a.container->items.size(); ++i) data(a.container->items[i], b.container->items[i], name);
    }
    if (a.object) objects(*a.object, *b.object);
  }

  void functions(const program::Function& a, const program::Function& b) {
    if (!seen_.insert(&a).second) return;
    auto outer = std::move(names_);
    names_.clear();
    pos_ = a.pos;
    require(a.parameters.size() == b.parameters.size(), "functions take different arguments");
    for (size_t i = 0; i < a.parameters.size(); ++i) name(a.parameters[i].name, b.parameters[i].name);
    block(a.body, b.body);
    names_ = std::move(outer);
  }

  void name(const std::string& a, const std::string& b) {
    require(names_.emplace(a, b).first->second == b, "different values are used");
  }

  void block(const std::vector<Stmt>& a, const std::vector<Stmt>& b) {
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      try {
        statement(a[i], b[i]);
      } catch (Error& e) {
        // A list or a name has no place of its own: that of the next operator is near.
        for (size_t j = i; j < a.size() && !e.first().place.known(); ++j)
          if (!a[j].values.empty()) e.locate(place_of(a[j].values[0]));
        throw;
      }
    }
    require(a.size() == b.size(), "one goes on and the other ends");
  }

  /// Of the expression, or of the first operator in it.
  Place place_of(const Expr& e) const {
    Place place = a_.locate(e.pos);
    for (size_t i = 0; i < e.items.size() && !place.known(); ++i) place = place_of(e.items[i]);
    return place;
  }

  void statement(const Stmt& a, const Stmt& b) {
    pos_ = a.values.empty() ? a.pos : a.values[0].pos;
    require(a.kind == b.kind && a.values.size() == b.values.size() && a.targets.size() == b.targets.size() &&
                a.name == b.name,
            "the statements differ");
    for (size_t i = 0; i < a.values.size(); ++i) expression(a.values[i], b.values[i]);
    for (size_t i = 0; i < a.targets.size(); ++i) names_[a.targets[i]] = b.targets[i];
    block(a.body, b.body);
    block(a.orelse, b.orelse);
  }

  void expression(const Expr& a, const Expr& b) {
    if (a.kind == Kind::Operator || a.kind == Kind::Method || a.kind == Kind::Call) pos_ = a.pos;
    require(a.kind == b.kind && a.items.size() == b.items.size() && a.keywords == b.keywords,
            fmt::format("{} here, {} there", described(a), described(b)));
    switch (a.kind) {
      case Kind::Int:
        if (a.integer != b.integer) differing_[{&a, 0}] = {a.integer, b.integer};
        break;
      case Kind::Constant:
        constants(a, b);
        break;
      case Kind::Name:
        name(a.name, b.name);
        break;
      case Kind::Call:
        require(unmangled(a.name) == unmangled(b.name), fmt::format("{} here, {} there", a.name, b.name));
        if (const program::Function* fa = a_.find_function(a.name), *fb = b_.find_function(b.name); fa && fb) {
          const program::Pos pos = pos_;
          functions(*fa, *fb);
          pos_ = pos;
        }
        break;
      case Kind::Float:
      case Kind::Complex:
        require(a.real == b.real && a.imag == b.imag,
                fmt::format("the number {} here, {} there, which is not a whole one", a.real, b.real));
        break;
      default:
        require(unmangled(a.name) == unmangled(b.name) && a.integer == b.integer && a.integer2 == b.integer2,
                fmt::format("{} here, {} there", described(a), described(b)));
    }
    for (size_t i = 0; i < a.items.size(); ++i) expression(a.items[i], b.items[i]);
  }

  void constants(const Expr& a, const Expr& b) {
    const Data &x = a_.constants.at(static_cast<size_t>(a.integer)),
               &y = b_.constants.at(static_cast<size_t>(b.integer));
    if (!x.tensor || !y.tensor) return data(x, y, "constant");
    const TensorView &t = *x.tensor, &u = *y.tensor;
    require(t.dtype == u.dtype && t.sizes.size() == u.sizes.size(), "a constant tensor has another type");
    if (t.sizes == u.sizes && t.dense_bytes() == u.dense_bytes()) return;
    require(is_integer(t.dtype), "a constant tensor has other values");
    const std::vector<int64_t> left = onnx::Tensor(t).integers(), right = onnx::Tensor(u).integers();
    const auto p = eval::as_progression(t.sizes, left), q = eval::as_progression(u.sizes, right);
    if (p && q && p->start == q->start && p->step == q->step && p->axis == q->axis) {
      differing_[{&a, eval::Literal::length}] = {p->length, q->length};
      return;
    }
    require(t.sizes == u.sizes, "a constant tensor has other sizes");
    for (size_t i = 0; i < left.size(); ++i)
      if (left[i] != right[i]) differing_[{&a, i}] = {left[i], right[i]};
  }

  static std::string described(const Expr& e) {
    if (e.kind == Kind::Operator || e.kind == Kind::Name || e.kind == Kind::Attribute || e.kind == Kind::Call)
      return e.name;
    if (e.kind == Kind::Method) return e.name + "()";
    if (e.kind == Kind::List) return fmt::format("a list of {}", e.items.size());
    if (e.kind == Kind::Int) return std::to_string(e.integer);
    return "something else";
  }

  const program::Program &a_, &b_;
  std::set<const void*> seen_;
  std::unordered_map<std::string, std::string> names_;  // of the first program's function, in the second
  program::Pos pos_;
  std::map<eval::Literal, std::pair<int64_t, int64_t>> differing_;
};

}  // namespace

std::map<eval::Literal, std::vector<int64_t>> differing_numbers(std::span<const program::Program* const> captures) {
  std::map<eval::Literal, std::vector<int64_t>> out;
  for (size_t k = 1; k < captures.size(); ++k)
    for (auto& [literal, values] : Comparison(*captures[0], *captures[k]).run())
      out.try_emplace(literal, captures.size(), values.first).first->second[k] = values.second;
  return out;
}

}  // namespace lithify::driver
