// Moves of axes, and what only picks or repeats elements along one.
#include <algorithm>
#include <map>
#include <optional>

#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {
namespace {

using Axes = Vector<int64_t>;

const Axes& perm_of(const Node& transpose) { return *transpose.attribute_as<Axes>("perm"); }

Shape shape_at(const Shape& shape, const Axes& axes) {
  Shape out;
  for (int64_t a : axes) out.push_back(shape[static_cast<size_t>(a)]);
  return out;
}

/// The axes of `fine` that each axis of `coarse` was split into; nothing when it is not so.
std::optional<Vector<Axes>> split_axes(Builder& b, const Shape& coarse, const Shape& fine) {
  Vector<Axes> groups;
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

/// A slice of one axis with step 1, in numbers.
struct Range {
  int64_t begin, end;
  Node* node;
};

std::optional<std::pair<int64_t, Range>> plain_slice(Node* n) {
  if (!n->is("Slice") || n->inputs.size() != 5) return std::nullopt;
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

/// The Reshape that splits axes, of which, moved about, a Gather picks a position on one; and which of the parts that
/// one is. Nothing when the other axes do not stay in their order.
std::optional<std::pair<Node*, int64_t>> picked_part(const Node& gather) {
  Node* ones = made_by(gather.inputs[0], "Reshape");
  Node* moved = made_by(ones ? ones->inputs[0] : gather.inputs[0], "Transpose");
  Node* split = moved ? made_by(moved->inputs[0], "Reshape") : nullptr;
  if (!split) return std::nullopt;
  // The axes of the split tensor, in the order that they have when one of them is picked; those of size 1 are left out.
  const Shape& parts = split->outputs[0]->shape;
  Axes axes = perm_of(*moved);
  std::erase_if(axes, [&](int64_t a) { return parts[static_cast<size_t>(a)].is(1); });
  Shape picked_from = gather.inputs[0]->shape;
  const auto picked = static_cast<size_t>(gather.int_attribute("axis", 0));
  if (picked_from[picked].is(1)) return std::nullopt;
  const auto skipped = std::count_if(picked_from.begin(), picked_from.begin() + static_cast<std::ptrdiff_t>(picked),
                                     [](Dim d) { return d.is(1); });
  std::erase_if(picked_from, [](Dim d) { return d.is(1); });
  if (picked_from != shape_at(parts, axes)) return std::nullopt;
  const auto place = static_cast<std::ptrdiff_t>(picked) - skipped;
  const int64_t part = axes[static_cast<size_t>(place)];
  axes.erase(axes.begin() + place);
  if (!std::is_sorted(axes.begin(), axes.end())) return std::nullopt;
  return std::pair{split, part};
}

/// The plain slices of the graph, by what they are of and along which axis, in the order of their nodes.
std::map<std::pair<Value*, int64_t>, Vector<Range>> all_slices(const Graph& graph) {
  std::map<std::pair<Value*, int64_t>, Vector<Range>> out;
  for (Node* n : graph.nodes)
    if (auto s = plain_slice(n)) out[{n->inputs[0], s->first}].push_back(s->second);
  return out;
}

/// Whether two or more ranges follow one another and make up a whole size, and none is an output of the graph.
bool covers(const Vector<Range>& ranges, Dim size, const Graph& graph) {
  int64_t at = 0;
  for (const Range& r : ranges) {
    const bool is_output = std::ranges::count(graph.outputs, r.node->outputs[0]) > 0;
    if (r.begin != at || r.end <= at || is_output) return false;
    at = r.end;
  }
  return ranges.size() > 1 && size.is(at);
}

}  // namespace

void repeat_by_gather(Builder& b, const Uses& uses, Node& n) {
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
    Vector<int64_t> indices;
    for (int64_t i = 0; i < count * times; ++i) indices.push_back(i / times);
    return become(n, "Gather", {x, b.ints(indices)}, {{"axis", static_cast<int64_t>(axis)}});
  }
}

void slice_of_split(Builder& b, const Uses&, Node& n) {
  if (n.inputs[1]->rank() != 0 || !n.inputs[1]->constant) return;
  const auto picked = picked_part(n);
  if (!picked) return;
  const auto& [split, part] = *picked;
  const Shape& parts = split->outputs[0]->shape;
  Value* x = split->inputs[0];
  const auto groups = split_axes(b, x->shape, parts);
  if (!groups) return;
  for (size_t axis = 0; axis < groups->size(); ++axis) {
    const Axes& group = (*groups)[axis];
    const auto at = std::find(group.begin(), group.end(), part);
    if (at == group.end()) continue;
    const std::optional<int64_t> count = parts[static_cast<size_t>(part)].constant(), whole = x->shape[axis].constant();
    const bool first = std::all_of(group.begin(), at, [&](int64_t a) { return parts[static_cast<size_t>(a)].is(1); });
    if (!count || !whole || !first) return;
    const int64_t length = *whole / *count;
    Shape result = x->shape;
    result[axis] = b.dim(length);
    if (result != n.outputs[0]->shape) return;
    int64_t i = n.inputs[1]->constant->integers()[0];
    if (i < 0) i += *count;
    const Axes at_axis{static_cast<int64_t>(axis)}, start{i * length}, end{(i + 1) * length};
    if (b.opset() < 10) return become(n, "Slice", {x}, {{"axes", at_axis}, {"ends", end}, {"starts", start}});
    return become(n, "Slice", {x, b.ints(start), b.ints(end), b.ints(at_axis), b.ints({1})});
  }
}

void move_apart(Builder& b, const Uses& uses, Node& n) {
  if (n.outputs[0]->rank() == 0) return;
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

void join_moves(Builder&, const Uses& uses, Node& n) {
  Node* first = sole(uses, n.inputs[0], "Transpose");
  if (!first) return;
  Axes order;
  for (int64_t p : perm_of(n)) order.push_back(perm_of(*first)[static_cast<size_t>(p)]);
  become(n, "Transpose", {first->inputs[0]}, {{"perm", order}});
}

void split_slices(Builder& b) {
  Graph& graph = b.graph();
  auto slices = all_slices(graph);
  std::unordered_map<const Node*, const Vector<Range>*> first;  // of slices that are one Split
  for (auto& [key, ranges] : slices) {
    const Node* earliest = ranges[0].node;
    std::ranges::sort(ranges, {}, &Range::begin);
    if (covers(ranges, key.first->shape[static_cast<size_t>(key.second)], graph)) first[earliest] = &ranges;
  }
  if (first.empty()) return;
  std::unordered_map<Value*, Value*> by;
  b.forget_nodes();
  Vector<Node*> old = std::move(graph.nodes);
  graph.nodes.clear();
  for (Node* n : old) {
    if (auto found = first.find(n); found != first.end()) {
      b.scope = n->scope;
      Vector<Dim> lengths;
      for (const Range& r : *found->second) lengths.push_back(b.dim(r.end - r.begin));
      Vector<Value*> parts = b.split(n->inputs[0], lengths, plain_slice(n)->first);
      for (size_t i = 0; i < parts.size(); ++i) by[(*found->second)[i].node->outputs[0]] = parts[i];
    }
    graph.nodes.push_back(n);
  }
  replace_uses(graph, by);
}

}  // namespace lithify::rewrite
