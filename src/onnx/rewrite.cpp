#include "onnx/rewrite.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>

#include "onnx/fold.hpp"

namespace lithify::onnx {
namespace {

/// How often each value is used, by nodes and as a graph output.
class Uses {
 public:
  explicit Uses(Graph& graph) {
    for (const Node* n : graph.all_nodes())
      for (const Value* v : n->inputs) ++count_[v];
    for (const Graph* g : graph.all_graphs())
      for (const Value* v : g->outputs) ++count_[v];
  }
  int of(const Value* v) const {
    auto found = count_.find(v);
    return found == count_.end() ? 0 : found->second;
  }

 private:
  std::unordered_map<const Value*, int> count_;
};

Node* made_by(const Value* v, std::string_view op_type) {
  const bool made = v && v->producer && v->producer->op_type == op_type && v->producer->domain.empty();
  return made ? v->producer : nullptr;
}

/// The node that makes `v`, if it is of a type and nothing else uses `v`.
Node* sole(const Uses& uses, const Value* v, std::string_view op_type) {
  return uses.of(v) == 1 ? made_by(v, op_type) : nullptr;
}

bool is_number(const Value* v, double number) {
  if (!v->constant || v->constant->numel() != 1 || !is_float(v->dtype)) return false;
  return std::abs(v->constant->reals()[0] - number) <= 1e-6 * std::abs(number);
}

/// The other operand of a commutative node one of whose operands is this number; nullptr when there is none.
Value* beside(const Node* n, double number) {
  if (!n) return nullptr;
  if (is_number(n->inputs[1], number)) return n->inputs[0];
  return is_number(n->inputs[0], number) ? n->inputs[1] : nullptr;
}

/// The other operand of a commutative node, beside `v`.
Value* beside(const Node* n, const Value* v) {
  if (!n) return nullptr;
  if (n->inputs[0] == v) return n->inputs[1];
  return n->inputs[1] == v ? n->inputs[0] : nullptr;
}

void become(Node& n, std::string_view op_type, Inputs inputs, Attributes attributes = {}) {
  n.op_type = op_type;
  n.inputs = std::move(inputs);
  n.attributes = std::move(attributes);
}

double epsilon_of(const Node& n) {
  const Attribute* a = n.attribute("epsilon");
  return a ? std::get<float>(a->data) : 1e-5;
}

// Batch normalization of a convolution scales the rows of its weight and shifts its bias.
void fold_batch_norm(Builder& b, const Uses& uses, Node& norm) {
  if (norm.op_type != "BatchNormalization") return;
  if (norm.outputs.size() != 1 || norm.int_attribute("training_mode", 0) != 0) return;
  Node* conv = sole(uses, norm.inputs[0], "Conv");
  if (!conv) return;
  Value* weight = conv->inputs[1];
  Value* bias = conv->inputs.size() > 2 ? conv->inputs[2] : nullptr;
  bool known = weight->constant && weight->dtype == DType::Float && uses.of(weight) == 1 && weight->constant->view() &&
               (!bias || bias->constant);
  for (size_t i = 1; i < 5; ++i) known = known && norm.inputs[i]->constant && norm.inputs[i]->dtype == DType::Float;
  if (!known) return;
  std::vector<double> gamma = norm.inputs[1]->constant->reals(), beta = norm.inputs[2]->constant->reals(),
                      mean = norm.inputs[3]->constant->reals(), variance = norm.inputs[4]->constant->reals();
  std::vector<double> shift = bias ? bias->constant->reals() : std::vector<double>(gamma.size(), 0);
  auto scale = std::make_shared<std::vector<float>>();
  std::vector<float> new_bias;
  double epsilon = epsilon_of(norm);
  for (size_t i = 0; i < gamma.size(); ++i) {
    double s = gamma[i] / std::sqrt(variance[i] + epsilon);
    scale->push_back(static_cast<float>(s));
    new_bias.push_back(static_cast<float>((shift[i] - mean[i]) * s + beta[i]));
  }
  Tensor scaled = *weight->constant;
  scaled.pieces[0].scale = std::move(scale);
  Value* w = b.constant(std::move(scaled), weight->name);
  Value* c = b.graph().new_value();
  *c = *b.floats(new_bias);
  c->name = bias ? bias->name : norm.inputs[2]->name;
  // The norm node becomes the convolution, so that its output keeps its place and name.
  norm.op_type = "Conv";
  norm.attributes = conv->attributes;
  norm.scope = conv->scope;
  norm.inputs = {conv->inputs[0], w, c};
}

// x * (1 / y) is x / y.
void divide(Builder&, const Uses& uses, Node& n) {
  if (n.op_type != "Mul") return;
  for (size_t i : {0, 1})
    if (Node* r = sole(uses, n.inputs[i], "Reciprocal")) return become(n, "Div", {n.inputs[1 - i], r->inputs[0]});
}

// 0.5 x (1 + erf(x / sqrt 2)) and its approximation by tanh, spelled out.
void fuse_gelu(Builder& b, const Uses& uses, Node& n) {
  if (b.opset() < 20 || n.op_type != "Mul") return;
  auto inner = [&](Value* one_plus, Value* x) -> std::optional<std::string> {
    Value* function = beside(sole(uses, one_plus, "Add"), 1.0);
    if (Node* erf = sole(uses, function, "Erf")) {
      Node* scaled = erf->inputs[0]->producer;
      if (scaled && scaled->op_type == "Div" && scaled->inputs[0] == x && is_number(scaled->inputs[1], std::sqrt(2.0)))
        return "none";
      if (made_by(erf->inputs[0], "Mul") && beside(scaled, std::sqrt(0.5)) == x) return "none";
    }
    if (Node* tanh = sole(uses, function, "Tanh")) {
      Value* sum = beside(sole(uses, tanh->inputs[0], "Mul"), std::sqrt(2 / M_PI));
      Value* cubic = beside(sum ? sole(uses, sum, "Add") : nullptr, x);
      Value* cube = cubic ? beside(sole(uses, cubic, "Mul"), 0.044715) : nullptr;
      if (Node* pow = made_by(cube, "Pow"); pow && pow->inputs[0] == x && pow->inputs[1]->constant &&
                                            pow->inputs[1]->constant->numel() == 1 &&
                                            pow->inputs[1]->constant->reals()[0] == 3)
        return "tanh";
    }
    return std::nullopt;
  };
  for (size_t i : {0, 1}) {
    Value *half = n.inputs[i], *rest = n.inputs[1 - i];
    Value* x = nullptr;
    std::optional<std::string> kind;
    if (Value* inside = beside(sole(uses, half, "Mul"), 0.5)) {  // (0.5 x) (1 + ...)
      x = inside;
      kind = inner(rest, x);
    } else if (is_number(half, 0.5) && sole(uses, rest, "Mul")) {  // 0.5 (x (1 + ...))
      for (size_t j : {0, 1}) {
        if (kind) break;
        x = rest->producer->inputs[j];
        kind = inner(rest->producer->inputs[1 - j], x);
      }
    }
    if (!kind) continue;
    return become(n, "Gelu", {x}, *kind == "tanh" ? Attributes{{"approximate", *kind}} : Attributes{});
  }
}

// w x / sqrt(mean(x x) + epsilon) over the last axis, spelled out.
void fuse_rms_norm(Builder& b, const Uses& uses, Node& n) {
  if (b.opset() < 23 || n.op_type != "Mul") return;
  for (size_t i : {0, 1}) {
    Value* weight = n.inputs[1 - i];
    Value *x = nullptr, *divisor = nullptr;
    if (Node* quotient = sole(uses, n.inputs[i], "Div")) {
      x = quotient->inputs[0];
      divisor = quotient->inputs[1];
    } else if (Node* product = sole(uses, n.inputs[i], "Mul")) {
      for (size_t j : {0, 1})
        if (Node* r = sole(uses, product->inputs[j], "Reciprocal")) {
          x = product->inputs[1 - j];
          divisor = r->inputs[0];
        }
    }
    Node* root = sole(uses, divisor, "Sqrt");
    Node* sum = root ? sole(uses, root->inputs[0], "Add") : nullptr;
    if (!sum) continue;
    const size_t last = sum->inputs[0]->constant ? 0 : 1;
    Value* epsilon = sum->inputs[last];
    Node* mean = sole(uses, sum->inputs[1 - last], "ReduceMean");
    Node* square = mean ? sole(uses, mean->inputs[0], "Mul") : nullptr;
    if (!square || square->inputs[0] != x || square->inputs[1] != x || x->dtype != DType::Float) continue;
    Shape row = x->shape;
    row.back() = b.dim(1);
    const bool over_last = mean->outputs[0]->shape == row && mean->inputs.size() == 2 && mean->inputs[1]->contents &&
                           mean->inputs[1]->contents->size() == 1 &&
                           mean->inputs[1]->contents->front().is(static_cast<int64_t>(x->rank()) - 1);
    if (!over_last || weight->shape != Shape{x->shape.back()}) continue;
    if (!epsilon->constant || epsilon->constant->numel() != 1) continue;
    return become(n, "RMSNormalization", {x, weight},
                  {{"axis", int64_t{-1}}, {"epsilon", static_cast<float>(epsilon->constant->reals()[0])}});
  }
}

// A product of matrices that was flattened to two dimensions and brought back: MatMul takes any number of them.
void unflatten_gemm(Builder& b, const Uses& uses, Node& n) {
  if (n.op_type != "Reshape") return;
  Node* gemm = sole(uses, n.inputs[0], "Gemm");
  if (!gemm || gemm->int_attribute("transA", 0) || gemm->attribute("alpha") || gemm->attribute("beta")) return;
  Node* flat = made_by(gemm->inputs[0], "Reshape");
  Value* bias = gemm->inputs.size() > 2 ? gemm->inputs[2] : nullptr;
  const Shape& to = n.outputs[0]->shape;
  if (!flat || to.size() < 3 || !(to.back() == gemm->outputs[0]->shape[1]) || (bias && bias->rank() > 1)) return;
  Shape from = to;
  from.back() = gemm->inputs[0]->shape[1];
  Value *x = flat->inputs[0], *weight = gemm->inputs[1];
  if (x->shape != from) {
    if (uses.of(flat->outputs[0]) != 1) return;
    x = b.reshape(x, from);
  }
  if (gemm->int_attribute("transB", 0)) weight = b.swap_dims(weight, 0, 1);
  if (!bias) return become(n, "MatMul", {x, weight});
  become(n, "Add", {b.matmul(x, weight), bias});
}

// Each element of an axis repeated a number of times: one Gather.
void repeat_by_gather(Builder& b, const Uses& uses, Node& n) {
  if (n.op_type != "Reshape") return;
  Node* wide = sole(uses, n.inputs[0], "Expand");
  if (!wide || uses.of(wide->inputs[0]) != 1) return;
  Node* narrow = made_by(wide->inputs[0], "Reshape");
  if (!narrow) narrow = made_by(wide->inputs[0], "Unsqueeze");
  if (!narrow) return;
  Value* x = narrow->inputs[0];
  const Shape &one = wide->inputs[0]->shape, &many = wide->outputs[0]->shape, &to = n.outputs[0]->shape;
  if (one.size() != many.size() || x->rank() + 1 != one.size() || to.size() != x->rank()) return;
  for (size_t axis = 0; axis < x->rank(); ++axis) {
    Shape with_one = x->shape, with_many = x->shape, result = x->shape;
    auto at = static_cast<std::ptrdiff_t>(axis) + 1;
    with_one.insert(with_one.begin() + at, b.dim(1));
    if (with_one != one || !x->shape[axis].is_constant() || !many[axis + 1].is_constant()) continue;
    int64_t count = *x->shape[axis].constant(), times = *many[axis + 1].constant();
    with_many.insert(with_many.begin() + at, many[axis + 1]);
    result[axis] = b.dim(count * times);
    if (with_many != many || result != to || count * times > 4096) continue;
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < count * times; ++i) indices.push_back(i / times);
    return become(n, "Gather", {x, b.ints(indices)}, {{"axis", static_cast<int64_t>(axis)}});
  }
}

// ---- order of axes ------------------------------------------------------------------------------------------------

using Axes = std::vector<int64_t>;

const Axes& perm_of(const Node& transpose) { return std::get<Axes>(transpose.attribute("perm")->data); }

Shape shape_at(const Shape& shape, const Axes& axes) {
  Shape out;
  for (int64_t a : axes) out.push_back(shape[static_cast<size_t>(a)]);
  return out;
}

/// The axes of `fine` that each axis of `coarse` was split into; nothing when it is not so.
std::optional<std::vector<Axes>> split_axes(Builder& b, const Shape& coarse, const Shape& fine) {
  std::vector<Axes> groups;
  size_t next = 0;
  for (Dim size : coarse) {
    Axes& group = groups.emplace_back();
    Dim product = b.dim(1);
    for (; next < fine.size() && !(product == size && !group.empty()); ++next) {
      product = b.sym.mul(product, fine[next]);
      group.push_back(static_cast<int64_t>(next));
    }
    if (group.empty() || product != size) return std::nullopt;
  }
  for (; next < fine.size() && fine[next].is(1); ++next) groups.back().push_back(static_cast<int64_t>(next));
  return next == fine.size() ? std::optional(groups) : std::nullopt;
}

// Axes that are put together, moved and taken apart again are moved apart from the start.
void move_apart(Builder& b, const Uses& uses, Node& n) {
  if (n.op_type != "Reshape" || n.outputs[0]->rank() == 0) return;
  Node* moved = sole(uses, n.inputs[0], "Transpose");
  Node* together = moved ? made_by(moved->inputs[0], "Reshape") : nullptr;
  if (!together || moved->outputs[0]->rank() == 0) return;
  const Shape& to = n.outputs[0]->shape;
  const auto groups = split_axes(b, moved->outputs[0]->shape, to);
  if (!groups) return;
  const Axes& perm = perm_of(*moved);
  Axes before;  // the axes of `to` in the order in which they are before the move
  for (size_t axis = 0; axis < perm.size(); ++axis) {
    const auto at = static_cast<size_t>(std::find(perm.begin(), perm.end(), axis) - perm.begin());
    before.insert(before.end(), (*groups)[at].begin(), (*groups)[at].end());
  }
  const Shape apart = shape_at(to, before);
  Value* split = b.reshape(together->inputs[0], apart);
  const Node* reshape = made_by(split, "Reshape");
  if (reshape && !reshape->inputs[1]->constant) return;  // sizes that must be computed
  Axes order(before.size());
  for (size_t i = 0; i < before.size(); ++i) order[static_cast<size_t>(before[i])] = static_cast<int64_t>(i);
  become(n, "Transpose", {split}, {{"perm", order}});
}

// Two moves of axes are one.
void join_moves(Builder&, const Uses& uses, Node& n) {
  if (n.op_type != "Transpose") return;
  Node* first = sole(uses, n.inputs[0], "Transpose");
  if (!first) return;
  Axes order;
  for (int64_t p : perm_of(n)) order.push_back(perm_of(*first)[static_cast<size_t>(p)]);
  become(n, "Transpose", {first->inputs[0]}, {{"perm", order}});
}

// One part of an axis that was split into parts, which then went to the front, is a slice: x.view(.., 3, n)[.., i, :].
void slice_of_split(Builder& b, const Uses&, Node& n) {
  if (n.op_type != "Gather" || n.inputs[1]->rank() != 0 || !n.inputs[1]->constant) return;
  // The axes of the split tensor, in the order that they have when one of them is picked; those of size 1 are left out.
  Node* ones = made_by(n.inputs[0], "Reshape");
  Node* moved = made_by(ones ? ones->inputs[0] : n.inputs[0], "Transpose");
  Node* split = moved ? made_by(moved->inputs[0], "Reshape") : nullptr;
  if (!split) return;
  const Shape& parts = split->outputs[0]->shape;
  Axes axes = perm_of(*moved);
  std::erase_if(axes, [&](int64_t a) { return parts[static_cast<size_t>(a)].is(1); });
  Shape picked_from = n.inputs[0]->shape;
  const auto picked = static_cast<size_t>(n.int_attribute("axis", 0));
  if (picked_from[picked].is(1)) return;
  const auto skipped = std::count_if(picked_from.begin(), picked_from.begin() + static_cast<std::ptrdiff_t>(picked),
                                     [](Dim d) { return d.is(1); });
  std::erase_if(picked_from, [](Dim d) { return d.is(1); });
  if (picked_from != shape_at(parts, axes)) return;
  const int64_t part = axes[picked - static_cast<size_t>(skipped)];
  axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(picked) - skipped);
  if (!std::is_sorted(axes.begin(), axes.end())) return;

  Value* x = split->inputs[0];
  const auto groups = split_axes(b, x->shape, parts);
  if (!groups) return;
  for (size_t axis = 0; axis < groups->size(); ++axis) {
    const Axes& group = (*groups)[axis];
    const auto at = std::find(group.begin(), group.end(), part);
    if (at == group.end()) continue;
    const std::optional<int64_t> count = parts[static_cast<size_t>(part)].constant(), whole = x->shape[axis].constant();
    Shape result = x->shape;
    if (!count || !whole ||
        std::any_of(group.begin(), at, [&](int64_t a) { return !parts[static_cast<size_t>(a)].is(1); }))
      return;
    const int64_t length = *whole / *count;
    result[axis] = b.dim(length);
    if (result != n.outputs[0]->shape) return;
    int64_t i = n.inputs[1]->constant->integers()[0];
    if (i < 0) i += *count;
    const Axes at_axis{static_cast<int64_t>(axis)}, start{i * length}, end{(i + 1) * length};
    if (b.opset() < 10) return become(n, "Slice", {x}, {{"axes", at_axis}, {"ends", end}, {"starts", start}});
    return become(n, "Slice", {x, b.ints(start), b.ints(end), b.ints(at_axis), b.ints({1})});
  }
}

using Rewrite = void(Builder&, const Uses&, Node&);

void each_node(Builder& b, Rewrite* apply, const Uses& uses) {
  Graph& graph = b.graph();
  std::vector<Node*> old = std::move(graph.nodes);
  graph.nodes.clear();
  for (Node* n : old) {
    for (Graph* body : n->bodies()) {
      b.enter(*body);
      each_node(b, apply, uses);
      b.leave();
    }
    b.scope = n->scope;
    b.origin = n->origin;
    if (n->domain.empty()) apply(b, uses, *n);
    graph.nodes.push_back(n);
  }
}

/// Applies a rewrite to each node. A rewrite may change the node in place, or append nodes that come before it.
void each_node(Builder& b, Rewrite* apply) {
  b.forget_nodes();
  each_node(b, apply, Uses(b.graph()));
}

void replace_uses(Graph& graph, const std::unordered_map<Value*, Value*>& by) {
  for (Node* n : graph.all_nodes())
    for (Value*& v : n->inputs)
      if (auto found = by.find(v); found != by.end()) v = found->second;
}

/// A slice of one axis with step 1, in numbers.
struct Range {
  int64_t begin, end;
  Node* node;
};

std::optional<std::pair<int64_t, Range>> plain_slice(Node* n) {
  if (n->op_type != "Slice" || !n->domain.empty() || n->inputs.size() != 5) return std::nullopt;
  int64_t v[4];
  for (size_t i = 0; i < 4; ++i) {
    const auto& c = n->inputs[i + 1]->contents;
    if (!c || c->size() != 1 || !c->front().is_constant()) return std::nullopt;
    v[i] = *c->front().constant();
  }
  std::optional<int64_t> size = n->inputs[0]->shape[static_cast<size_t>(v[2])].constant();
  if (!size || v[3] != 1) return std::nullopt;
  auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + *size : i, 0, *size); };
  return std::pair{v[2], Range{clamp(v[0]), clamp(v[1]), n}};
}

// Slices that together take each element of an axis once are one Split.
void split_slices(Builder& b) {
  Graph& graph = b.graph();
  std::map<std::pair<Value*, int64_t>, std::vector<Range>> groups;
  for (Node* n : graph.nodes)
    if (auto s = plain_slice(n)) groups[{n->inputs[0], s->first}].push_back(s->second);
  std::unordered_map<const Node*, std::vector<Range>*> first;
  std::unordered_set<const Value*> outputs(graph.outputs.begin(), graph.outputs.end());
  for (auto& [key, ranges] : groups) {
    Node* earliest = ranges[0].node;
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& c) { return a.begin < c.begin; });
    int64_t at = 0;
    bool whole = ranges.size() > 1;
    for (const Range& r : ranges) {
      whole = whole && r.begin == at && r.end > at && !outputs.contains(r.node->outputs[0]);
      at = r.end;
    }
    if (whole && key.first->shape[static_cast<size_t>(key.second)].is(at)) first[earliest] = &ranges;
  }
  if (first.empty()) return;
  std::unordered_map<Value*, Value*> by;
  b.forget_nodes();
  std::vector<Node*> old = std::move(graph.nodes);
  graph.nodes.clear();
  for (Node* n : old) {
    if (auto found = first.find(n); found != first.end()) {
      b.scope = n->scope;
      std::vector<Dim> lengths;
      for (const Range& r : *found->second) lengths.push_back(b.dim(r.end - r.begin));
      std::vector<Value*> parts = b.split(n->inputs[0], lengths, plain_slice(n)->first);
      for (size_t i = 0; i < parts.size(); ++i) by[(*found->second)[i].node->outputs[0]] = parts[i];
    }
    graph.nodes.push_back(n);
  }
  replace_uses(graph, by);
}

// What is computed from constants alone becomes a constant, as long as the file hardly grows by it.
void fold_constants(Builder& b) {
  constexpr int64_t most = int64_t{1} << 20;  // elements
  Graph& graph = b.graph();
  std::unordered_map<Value*, Value*> known;
  std::unordered_map<Value*, std::unordered_set<Value*>> sources;  // the constants that each comes from
  std::unordered_set<const Node*> folded;
  const std::vector<Node*> nodes = graph.all_nodes();
  for (Node* n : nodes) {
    Node copy = *n;
    bool all = !copy.inputs.empty() && n->bodies().empty() && n->domain.empty();
    std::unordered_set<Value*> from;
    for (Value*& v : copy.inputs) {
      if (!v) continue;
      if (v->constant) {
        from.insert(v);
        continue;
      }
      auto found = known.find(v);
      all = all && found != known.end();
      if (!all) break;
      from.insert(sources[v].begin(), sources[v].end());
      v = found->second;
    }
    if (!all) continue;
    std::vector<Value*> out = fold(b, copy, most);
    if (out.empty() || !std::all_of(out.begin(), out.end(), [](Value* v) { return v->constant; })) continue;
    folded.insert(n);
    for (size_t i = 0; i < out.size(); ++i) {
      known[n->outputs[i]] = out[i];
      sources[n->outputs[i]] = from;
    }
  }
  if (folded.empty()) return;

  // Each result costs its own bytes, and saves its share of the constants that only results are made from.
  std::unordered_set<Value*> kept, results;
  std::unordered_map<Value*, int64_t> sharers;
  for (Node* n : nodes)
    for (Value* v : n->inputs) {
      if (!v || folded.contains(n)) continue;
      if (v->constant) kept.insert(v);
      if (known.contains(v)) results.insert(v);
    }
  for (Value* v : results)
    for (Value* c : sources[v]) ++sharers[c];
  auto bytes = [](const Value* v) { return static_cast<int64_t>(v->constant->nbytes()); };
  std::vector<std::pair<int64_t, Value*>> costs;
  for (Node* n : nodes)
    for (Value* v : n->outputs) {
      if (!results.contains(v)) continue;
      int64_t cost = bytes(known[v]);
      for (Value* c : sources[v])
        if (!kept.contains(c)) cost -= bytes(c) / sharers[c];
      // A runtime widens a weight when it loads it: the file need not hold it so.
      const bool widened = n->op_type == "Cast" && n->inputs[0]->constant && cost > 1024;
      if (widened) continue;
      costs.emplace_back(cost, v);
    }
  std::stable_sort(costs.begin(), costs.end(), [](auto& x, auto& y) { return x.first < y.first; });
  int64_t total = 0;
  for (const Value* v : graph.initializers()) total += bytes(v);
  int64_t budget = std::max<int64_t>(64 * 1024, total / 50);
  std::unordered_map<Value*, Value*> by;
  for (auto [cost, v] : costs) {
    if (cost > budget) break;
    budget -= std::max<int64_t>(cost, 0);
    by[v] = known[v];
  }
  replace_uses(graph, by);
}

}  // namespace

void rewrite(Builder& builder) {
  fold_constants(builder);
  for (auto* apply : {fold_batch_norm, fuse_rms_norm, divide, fuse_gelu, unflatten_gemm, repeat_by_gather,
                      slice_of_split, move_apart, join_moves})
    each_node(builder, apply);
  split_slices(builder);
}

}  // namespace lithify::onnx
