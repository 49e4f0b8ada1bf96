#include "onnx/opdef.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "onnx/infer.hpp"
#include "sym/contradiction.hpp"

namespace lithify::onnx {
namespace {

/// Whether two sizes that are computed from the same dimension are equal in the sample, and not known to be elsewhere.
bool are_equal_in_sample(sym::Context& sym, Dim a, Dim b) {
  if (a.is_constant() || b.is_constant() || sym.equal(a, b) == true) return false;
  const Vector<Dim> of_a = sym::symbols(a), of_b = sym::symbols(b);
  if (std::find_first_of(of_a.begin(), of_a.end(), of_b.begin(), of_b.end()) == of_a.end()) return false;
  const auto at_a = sym.sample(a), at_b = sym.sample(b);
  return at_a && at_a == at_b && *at_a != 1;
}

/// The two sizes that a size is the broadcast of; none when it is something else.
Vector<Dim> broadcast_parts(Dim e) {
  if (sym::kind(e) != sym::Kind::Broadcast) return {};
  const auto [x, y] = sym::operands(e);
  return {x, y};
}

Dim broadcast_size(sym::Context& sym, Dim a, Dim b, const Shape& sa, const Shape& sb) {
  const bool in_sample = are_equal_in_sample(sym, a, b), beyond = in_sample && equal_beyond_sample(sym, a, b);
  if (const auto r = sym.broadcast(a, b); r && in_sample == beyond) {
    if (beyond) sym.assume({sym::Assumption::Kind::Equal, a, b});
    if (sym.observer && (a.is(1) || b.is(1)) && !r->is_constant() && sym.sample(*r) == 1)
      sym.observer->broadcast_one(*r);
    return *r;
  }
  const bool constants = a.is_constant() && b.is_constant();
  if (!constants) {
    // What is broadcast already agrees with a constant if each of its parts does.
    if (b.is_constant() && !broadcast_parts(a).empty()) std::swap(a, b);
    if (const auto parts = broadcast_parts(b); !parts.empty() && a.is_constant()) {
      for (const Dim part : parts) broadcast_size(sym, a, part, sa, sb);
      return a;
    }
    // The larger of the two at run time is the constant, whatever the data.
    if (a.is_constant() && depends_on_data(sym, b)) return a;
    if (b.is_constant() && depends_on_data(sym, a)) return b;
    if (equal_beyond_sample(sym, a, b)) {
      sym.assume({sym::Assumption::Kind::Equal, a, b});
      return b.is_constant() ? b : a;
    }
  }
  Shape among = sa;
  among.insert(among.end(), sb.begin(), sb.end());
  sym::disagree(constants, {a, b, 0, std::move(among)},
                fmt::format("the shapes {} and {} do not broadcast: {} against {}", print_shape(sa), print_shape(sb),
                            a.str(), b.str()));
}

Vector<int64_t> constants_of(const Inference& f, size_t input) {
  Vector<int64_t> r;
  for (Dim d : f.contents(input)) {
    if (!d.is_constant()) f.fail(fmt::format("input {} must be constant, not {}", input, d.str()));
    r.push_back(*d.constant());
  }
  return r;
}

int64_t normalized(const Inference& f, int64_t axis, size_t rank) {
  const auto n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) f.fail(fmt::format("there is no axis {} in a tensor of rank {}", axis, rank));
  return axis < 0 ? axis + n : axis;
}

}  // namespace

bool equal_beyond_sample(sym::Context& sym, Dim a, Dim b) {
  static constexpr std::array<int64_t, 8> factors{2, 3, 5, 7, 11, 13, 17, 19};
  static constexpr int64_t no_sample = 240;  // a size with many divisors, where none is known
  if (const auto at_a = sym.sample(a), at_b = sym.sample(b); at_a && at_b && *at_a != *at_b) return false;
  for (const size_t first : {0, 1}) {
    std::unordered_map<Dim, int64_t> values;
    auto value_of = [&](Dim symbol) -> std::optional<int64_t> {
      const int64_t sample = sym.info(symbol).sample.value_or(no_sample);
      return values.try_emplace(symbol, sample * factors[(first + values.size()) % factors.size()]).first->second;
    };
    const auto at_a = sym.evaluate(a, value_of);
    if (!at_a || at_a != sym.evaluate(b, value_of)) return false;
  }
  return true;
}

void Inference::set(size_t output, DType dtype, Shape shape) {
  if (output >= node.outputs.size() || !node.outputs[output]) return;
  if (std::ranges::any_of(shape, [](Dim d) { return d.is_constant() && *d.constant() < 0; }))
    throw Error(Code::ShapeMismatch, fmt::format("{}: a size is negative: {}", node.op_type, print_shape(shape)));
  node.outputs[output]->dtype = dtype;
  node.outputs[output]->shape = std::move(shape);
}

int64_t Inference::integer(std::string_view attribute, int64_t otherwise) const {
  return node.int_attribute(attribute, otherwise);
}

std::string Inference::text(std::string_view attribute, const std::string& otherwise) const {
  const auto* s = node.attribute_as<std::string>(attribute);
  return s ? *s : otherwise;
}

Vector<int64_t> Inference::integers(std::string_view attribute) const {
  const auto* v = node.attribute_as<Vector<int64_t>>(attribute);
  return v ? *v : Vector<int64_t>{};
}

std::optional<Vector<int64_t>> Inference::axes(size_t input, size_t rank, std::string_view attribute) const {
  Vector<int64_t> r;
  if (const auto* v = node.attribute_as<Vector<int64_t>>(attribute))
    r = *v;
  else if (has(input))
    r = constants_of(*this, input);
  else
    return std::nullopt;
  for (int64_t& axis : r) axis = normalized(*this, axis, rank);
  return r;
}

int64_t Inference::axis(int64_t otherwise, size_t rank, std::string_view attribute) const {
  return normalized(*this, integer(attribute, otherwise), rank);
}

Vector<Dim> Inference::contents(size_t input) const {
  if (has(input) && in(input).contents) return *in(input).contents;
  throw Error(Code::Internal, fmt::format("{}: the contents of input {} are not known", node.op_type, input));
}

Dim Inference::fresh(std::string_view name, int64_t lower) {
  return sym.symbol({.name = std::string(name), .lower = lower, .upper = {}, .sample = {}, .divisor = 1});
}

Shape Inference::broadcast(std::initializer_list<const Shape*> shapes) const {
  Shape r;
  for (const Shape* s : shapes) r = broadcast_shapes(sym, r, *s);
  return r;
}

void Inference::fail(const std::string& message) const {
  throw Error(Code::ShapeMismatch, fmt::format("{}: {}", node.op_type, message));
}

Shape broadcast_shapes(sym::Context& sym, const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape r = longer;
  const size_t lead = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) r[lead + i] = broadcast_size(sym, longer[lead + i], shorter[i], a, b);
  return r;
}

const OpDef* find_op(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const OpDef*> map;
    for (auto table :
         {control_ops(), elementwise_ops(), nn_ops(), reduce_ops(), sequence_ops(), shape_ops(), signal_ops()})
      for (const OpDef& op : table) map.emplace(op.name, &op);
    return map;
  }();
  const auto it = by_name.find(name);
  return it == by_name.end() ? nullptr : it->second;
}

int first_opset(DType t) {
  if (t == DType::BFloat16) return 13;
  if (t == DType::Float8E8M0FNU) return 24;
  return t >= DType::Float8E4M3FN && t <= DType::Float8E5M2FNUZ ? 19 : 1;
}

bool depends_on_data(sym::Context& sym, Dim e) {
  if (const auto parts = broadcast_parts(e); !parts.empty())
    return std::ranges::all_of(parts, [&](Dim part) { return depends_on_data(sym, part); });
  return std::ranges::any_of(sym::symbols(e), [&](Dim symbol) {
    const sym::SymbolInfo& info = sym.info(symbol);
    return !info.sample && info.lower.value_or(0) < 1;
  });
}

bool sizes_agree(sym::Context& sym, Dim a, Dim b) {
  if (const auto equal = sym.equal(a, b)) return *equal;
  if (a.is_constant()) std::swap(a, b);
  if (const auto parts = broadcast_parts(a); !parts.empty() && b.is_constant())
    return std::ranges::all_of(parts, [&](Dim part) { return sizes_agree(sym, part, b); });
  if (depends_on_data(sym, a) || depends_on_data(sym, b)) return true;
  if (!equal_beyond_sample(sym, a, b)) return false;
  sym.assume({sym::Assumption::Kind::Equal, a, b});
  return true;
}

namespace infer {

void same(Inference& f) {
  f.set(0, f.in(0).dtype, f.in(0).shape);
  f.node.outputs[0]->form = f.in(0).form;
}

DType dtype_attribute(const Inference& f, std::string_view attribute, DType otherwise) {
  const int64_t number = f.integer(attribute, 0);
  return number == 0 ? otherwise : static_cast<DType>(number);
}

const Vector<Dim>* known(const Inference& f, size_t input) {
  return f.has(input) && f.in(input).contents ? &*f.in(input).contents : nullptr;
}

size_t rank_from(const Inference& f, size_t input) {
  const Shape& shape = f.in(input).shape;
  if (shape.size() != 1) f.fail(fmt::format("input {} must have one dimension", input));
  if (const auto n = shape[0].constant()) return static_cast<size_t>(*n);
  throw Error(Code::UnsupportedArgument,
              fmt::format("{}: the number of dimensions of the result is known only at run time", f.node.op_type));
}

Shape sizes_from(Inference& f, size_t input, std::string_view name) {
  if (const auto* sizes = known(f, input)) return *sizes;
  Shape r(rank_from(f, input));
  for (Dim& d : r) d = f.fresh(name);
  return r;
}

Dim size_from(Inference& f, size_t input, std::string_view name) {
  const auto* sizes = known(f, input);
  return sizes && sizes->size() == 1 ? sizes->front() : f.fresh(name);
}

Dim same_size(Inference& f, Dim a, Dim b, std::string_view what) {
  if (!sizes_agree(f.sym, a, b)) {
    const auto at_a = f.sym.sample(a), at_b = f.sym.sample(b);
    const bool never = f.sym.equal(a, b) == false || (at_a && at_b && *at_a != *at_b);
    sym::disagree(
        never, {a, b},
        fmt::format("{}: {} must agree, but one is {} and the other {}", f.node.op_type, what, a.str(), b.str()));
  }
  return b.is_constant() ? b : a;
}

Vector<int64_t> each(const Inference& f, std::string_view attribute, size_t n, int64_t otherwise) {
  Vector<int64_t> r = f.integers(attribute);
  if (r.empty()) r.assign(n, otherwise);
  if (r.size() != n) f.fail(fmt::format("{} needs {} numbers, not {}", attribute, n, r.size()));
  return r;
}

void require_rank(const Inference& f, size_t input, size_t at_least) {
  if (f.in(input).rank() < at_least)
    f.fail(fmt::format("input {} has {} dimensions, but needs at least {}", input, f.in(input).rank(), at_least));
}

}  // namespace infer
}  // namespace lithify::onnx
