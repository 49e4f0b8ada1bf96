#include "onnx/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "base/checked.hpp"
#include "base/diagnostic.hpp"

namespace lithify::onnx {
namespace {

template <class Out>
Vector<Out> elements(const Tensor& t) {
  constexpr int64_t most = int64_t{1} << 26;
  const int64_t n = t.numel();
  if (n > most) throw Error(Code::LimitExceeded, fmt::format("{} elements of a constant would be read at export", n));
  Vector<Out> out;
  out.reserve(static_cast<size_t>(n));
  for (const Tensor::Piece& p : t.pieces) {
    size_t begin = out.size();
    append_elements(p.view, out);
    if (!p.scale) continue;
    size_t rows = p.scale->size(), row = rows ? (out.size() - begin) / rows : 0;
    for (size_t i = 0; i < rows * row; ++i) out[begin + i] = static_cast<Out>(out[begin + i] * (*p.scale)[i / row]);
  }
  return out;
}

}  // namespace

Tensor::Tensor(TensorView view) : dtype(view.dtype), sizes(view.sizes) { pieces.push_back({std::move(view), nullptr}); }

Tensor::Tensor(DType dtype, Vector<int64_t> sizes, Vector<Piece> pieces)
    : dtype(dtype), sizes(std::move(sizes)), pieces(std::move(pieces)) {
  // A single piece has the tensor's own sizes, so that it can stand for the tensor.
  if (this->pieces.size() == 1 && !this->pieces[0].quantized && this->pieces[0].view.sizes != this->sizes)
    if (auto same = this->pieces[0].view.reshaped(this->sizes)) this->pieces[0].view = std::move(*same);
}

int64_t Tensor::numel() const {
  if (std::ranges::find(sizes, 0) != sizes.end()) return 0;
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, checked_mul);
}
size_t Tensor::nbytes() const { return byte_size(dtype, static_cast<size_t>(numel())); }
const TensorView* Tensor::view() const {
  if (pieces.size() != 1 || pieces[0].scale || pieces[0].quantized) return nullptr;
  const TensorView& only = pieces[0].view;
  return only.dtype == dtype && only.sizes == sizes ? &only : nullptr;
}
DType Tensor::Piece::dtype() const { return quantized ? dtype_of(*quantized, view) : view.dtype; }
Vector<int64_t> Tensor::integers() const { return elements<int64_t>(*this); }
Vector<double> Tensor::reals() const { return elements<double>(*this); }

const Attribute* Node::attribute(std::string_view wanted) const {
  for (const Attribute& a : attributes)
    if (a.name == wanted) return &a;
  return nullptr;
}

int64_t Node::int_attribute(std::string_view wanted, int64_t otherwise) const {
  const Attribute* a = attribute(wanted);
  return a ? std::get<int64_t>(a->data) : otherwise;
}

Node* made_by(const Value* v, std::string_view op_type) {
  return v && v->producer && v->producer->is(op_type) ? v->producer : nullptr;
}

Vector<Graph*> Node::bodies() const {
  Vector<Graph*> out;
  for (const Attribute& a : attributes)
    if (auto* g = std::get_if<std::shared_ptr<Graph>>(&a.data)) out.push_back(g->get());
  return out;
}

Value* Graph::new_value() {
  Value* v = &value_pool_.emplace_back();
  v->graph = this;
  return v;
}
Node* Graph::new_node() { return &node_pool_.emplace_back(); }

Vector<Node*> Graph::all_nodes() const {
  Vector<Node*> out;
  for (Node* n : nodes) {
    for (const Graph* body : n->bodies()) {
      Vector<Node*> inner = body->all_nodes();
      out.insert(out.end(), inner.begin(), inner.end());
    }
    out.push_back(n);
  }
  return out;
}

Vector<Graph*> Graph::all_graphs() {
  Vector<Graph*> out{this};
  for (Node* n : nodes)
    for (Graph* body : n->bodies()) {
      Vector<Graph*> inner = body->all_graphs();
      out.insert(out.end(), inner.begin(), inner.end());
    }
  return out;
}

Vector<Value*> Graph::initializers() const {
  Vector<Value*> out;
  std::unordered_set<Value*> seen;
  auto visit = [&](Value* v) {
    if (v && v->kind == Value::Kind::Constant && seen.insert(v).second) out.push_back(v);
  };
  for (Node* n : all_nodes())
    for (Value* v : n->inputs) visit(v);
  for (Value* v : outputs) visit(v);
  return out;
}

int Model::ir_version() const {
  // {opset, first IR version whose release has it}, from the ONNX release table.
  constexpr std::pair<int, int> table[] = {{8, 3},  {9, 4},   {10, 5},  {11, 6},  {14, 7}, {18, 8},
                                           {20, 9}, {22, 10}, {23, 11}, {24, 12}, {25, 13}};
  int ir = 13;
  for (auto [last_opset, version] : table)
    if (opset <= last_opset) return version;
  return ir;
}

std::string print_shape(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + (shape[i] ? shape[i].str() : "?");
  return out + "]";
}

std::string print_type(const Value& value) {
  static constexpr std::string_view forms[] = {"", "sequence of ", "optional "};
  return fmt::format("{}{}{}", forms[static_cast<size_t>(value.form)], name_of(value.dtype), print_shape(value.shape));
}

}  // namespace lithify::onnx
