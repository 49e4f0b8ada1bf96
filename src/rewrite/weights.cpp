#include "rewrite/weights.hpp"

#include <algorithm>
#include <map>

#include "base/restored.hpp"
#include "rewrite/kept.hpp"
#include "rewrite/names.hpp"
#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {
namespace {

/// Smaller ones are hardly worth a node, and what is gathered from may hold other things than weights.
constexpr int64_t least_matrix = int64_t{1} << 12, least_table = int64_t{1} << 18;

/// A weight as a matrix, and the name that the file would have it under.
struct Weight {
  TensorView matrix;
  std::string name;
};

/// The weight that a value is, itself or transposed.
std::optional<Weight> weight_of(const Value* v) {
  Weight weight;
  if (v->constant && v->constant->view()) return Weight{*v->constant->view(), v->name};
  const Node* transpose = made_by(v, "Transpose");
  const Value* source = transpose ? transpose->inputs[0] : nullptr;
  if (!source || !source->constant || !source->constant->view()) return std::nullopt;
  const auto* perm = transpose->attribute_as<Vector<int64_t>>("perm");
  if (!perm || *perm != Vector<int64_t>{1, 0}) return std::nullopt;
  return Weight{source->constant->view()->permuted(*perm), source->name};
}

class Quantization {
 public:
  Quantization(onnx::Model& model, sym::Context& sym, const WeightOptions& options)
      : model_(model), graph_(*model.graph), sym_(sym), options_(options), added_(graph_) {}

  Smaller run() {
    Vector<Graph*> graphs = graph_.all_graphs();
    std::ranges::reverse(graphs);  // bodies before the main graph, which begins with what they need
    for (Graph* g : graphs) {
      Vector<Node*> nodes;
      nodes.swap(g->nodes);
      if (g == &graph_) g->nodes.swap(of_bodies_);
      place_ = {g, &g->nodes};
      for (Node* n : nodes) {
        quantize(*n);
        g->nodes.push_back(n);
        if (bias_) g->nodes.push_back(std::exchange(bias_, nullptr));
      }
    }
    remove_unused(graph_);
    return std::move(out_);
  }

 private:
  /// The tensors that a weight is stored as.
  struct Stored {
    Value *integers, *scales, *zero_points;
  };

  /// Where nodes are added.
  struct Place {
    Graph* graph = nullptr;
    Vector<Node*>* nodes = nullptr;
  };

  /// Changes a node; others that it needs are placed before it.
  void quantize(Node& n) {
    if (n.is("MatMul") || is_plain_gemm(n))
      quantize_product(n);
    else if (n.is("Gather"))
      quantize_table(n);
  }

  /// Whether a Gemm is a MatMul and an Add.
  static bool is_plain_gemm(const Node& n) {
    if (!n.is("Gemm") || n.int_attribute("transA", 0) != 0) return false;
    const auto is_one = [&](const char* name) {
      const float* factor = n.attribute_as<float>(name);
      return !factor || *factor == 1;
    };
    return is_one("alpha") && is_one("beta");
  }

  void quantize_product(Node& n) {
    std::optional<Weight> weight = weight_of(n.inputs[1]);
    if (!weight || weight->matrix.sizes.size() != 2) return;
    if (n.int_attribute("transB", 0) != 0) {
      const Vector<int64_t> perm{1, 0};
      weight->matrix = weight->matrix.permuted(perm);
    }
    if (!takes(n, *weight, 0, least_matrix)) return;
    const Quantized form{.integers = options_.integers, .axis = 0, .block = options_.block};
    Value* bias = n.is("Gemm") && n.inputs.size() > 2 ? n.inputs[2] : nullptr;
    const bool has_bias = bias != nullptr;
    if (options_.ort)
      become_packed(n, *weight, form);
    else
      become(n, "MatMul", {n.inputs[0], dequantized(*weight, form, n.scope)});
    if (has_bias) add_bias(n, bias);
  }

  /// Integers of 8 bits are computed with, as ONNX Runtime does with DequantizeLinear.
  void become_packed(Node& n, Weight weight, Quantized form) {
    const Vector<int64_t> perm{1, 0};
    const int64_t in = weight.matrix.sizes[0], out = weight.matrix.sizes[1];
    weight.matrix = weight.matrix.permuted(perm);
    form.axis = 1;
    form.packed = true;
    const Stored stored = this->stored(weight, form);
    const bool is_half = form.integers == DType::Int4 || form.integers == DType::UInt4;
    Vector<Value*> inputs{n.inputs[0], stored.integers, stored.scales};
    if (stored.zero_points) inputs.push_back(stored.zero_points);
    become(n, "MatMulNBits", std::move(inputs),
           {{"K", in},
            {"N", out},
            {"bits", int64_t{is_half ? 4 : 8}},
            {"block_size", form.block},
            {"accuracy_level", int64_t{4}}});
    n.domain = onnxruntime_domain;
    model_.domains.emplace(n.domain, 1);
  }

  /// The product gets a value of its own; what was made by it is the sum.
  void add_bias(Node& product, Value* bias) {
    Value* sum = product.outputs[0];
    product.outputs.clear();
    give_output(product, added_.value(*place_.graph, product.name + "_product", sum->dtype, sum->shape));
    bias_ = added_.node(*place_.graph, "Add", {product.outputs[0], bias}, {}, product.scope);
    give_output(*bias_, sum);
  }

  /// Rows are taken of what is stored, and dequantized then.
  void quantize_table(Node& n) {
    const std::optional<Weight> weight = weight_of(n.inputs[0]);
    if (!weight || weight->matrix.sizes.size() != 2 || n.int_attribute("axis", 0) != 0) return;
    if (!takes(n, *weight, 1, least_table)) return;
    const bool is_signed = options_.integers == DType::Int4 || options_.integers == DType::Int8;
    const Quantized form{.integers = is_signed ? DType::Int8 : DType::UInt8, .axis = 1, .block = options_.block};
    const Stored stored = this->stored(*weight, form);
    Value* out = n.outputs[0];
    const Shape& sizes = out->shape;
    const auto rows = [&](Value* of) -> Value* {
      if (!of) return nullptr;
      Shape shape = sizes;
      shape.back() = of->shape.back();
      return appended("Gather", {of, n.inputs[1]}, n.attributes, n.scope, of->dtype, std::move(shape));
    };
    Vector<Value*> inputs{rows(stored.integers), rows(stored.scales), rows(stored.zero_points)};
    if (!inputs.back()) inputs.pop_back();
    n.op_type = "DequantizeLinear";
    n.inputs = std::move(inputs);
    n.attributes = blocks_along(static_cast<int64_t>(sizes.size()) - 1);
  }

  /// Whether the weight of a node is to be quantized, in blocks along an axis of it.
  bool takes(const Node& n, const Weight& weight, size_t axis, int64_t least) {
    if (!is_float(weight.matrix.dtype) || weight.matrix.numel() < least) return false;
    if (is_kept(options_.keep, weight.name) || is_kept(options_.keep, n.scope)) return false;
    if (can_quantize(weight.matrix, axis, options_.block) && is_finite(weight.matrix)) return true;
    if (std::ranges::find(out_.whole, weight.name) == out_.whole.end()) out_.whole.push_back(weight.name);
    return false;
  }

  /// In the main graph: ONNX Runtime 1.31 does not load a product with a weight in blocks that is inside of a body.
  Value* dequantized(const Weight& weight, const Quantized& form, const std::string& scope) {
    const Stored stored = this->stored(weight, form);
    Vector<Value*> inputs{stored.integers, stored.scales};
    if (stored.zero_points) inputs.push_back(stored.zero_points);
    const Restored<Place> in_main(place_, place_.graph == &graph_ ? place_ : Place{&graph_, &of_bodies_});
    return appended("DequantizeLinear", std::move(inputs), blocks_along(0), scope, weight.matrix.dtype,
                    stored.integers->shape);
  }

  Vector<onnx::Attribute> blocks_along(int64_t axis) const { return {{"axis", axis}, {"block_size", options_.block}}; }

  /// A weight that several nodes take is stored once.
  const Stored& stored(const Weight& weight, const Quantized& form) {
    const TensorView& m = weight.matrix;
    const auto key = std::make_tuple(m.storage.get(), m.offset, m.strides[0], m.strides[1], m.sizes[0], m.sizes[1],
                                     form.integers, form.axis, form.packed);
    const auto [at, is_new] = stored_.try_emplace(key);
    if (is_new) {
      ++out_.quantized;
      const bool has_zero_points = form.integers == DType::UInt4 || form.integers == DType::UInt8;
      at->second = {part(weight, form, Quantized::Part::Integers, "quantized"),
                    part(weight, form, Quantized::Part::Scales, "scale"),
                    has_zero_points ? part(weight, form, Quantized::Part::ZeroPoints, "zero_point") : nullptr};
    }
    return at->second;
  }

  Value* part(const Weight& weight, Quantized form, Quantized::Part part, std::string_view name) {
    form.part = part;
    if (part == Quantized::Part::Integers) form.error = std::make_shared<QuantizationError>(weight.name);
    const Vector<int64_t> sizes = sizes_of(form, weight.matrix);
    Shape shape;
    for (const int64_t size : sizes) shape.push_back(sym_.constant(size));
    Value* v =
        added_.value(graph_, weight.name + "_" + std::string(name), dtype_of(form, weight.matrix), std::move(shape));
    v->kind = Value::Kind::Constant;
    v->constant = std::make_shared<onnx::Tensor>(
        v->dtype, sizes, Vector<onnx::Tensor::Piece>{{.view = weight.matrix, .scale = nullptr, .quantized = form}});
    return v;
  }

  Value* appended(std::string_view op_type, Vector<Value*> inputs, Vector<onnx::Attribute> attributes,
                  const std::string& scope, DType dtype, Shape shape) {
    place_.nodes->push_back(
        added_.made(*place_.graph, op_type, std::move(inputs), std::move(attributes), scope, dtype, std::move(shape)));
    return place_.nodes->back()->outputs[0];
  }

  onnx::Model& model_;
  Graph& graph_;
  sym::Context& sym_;
  const WeightOptions& options_;
  Place place_ = {};
  Vector<Node*> of_bodies_;
  Node* bias_ = nullptr;  ///< to be placed behind the node that is being changed
  Additions added_;
  std::map<std::tuple<const Storage*, int64_t, int64_t, int64_t, int64_t, int64_t, DType, size_t, bool>, Stored>
      stored_;
  Smaller out_;
};

}  // namespace

Smaller quantize_weights(onnx::Model& model, sym::Context& sym, const WeightOptions& options) {
  return Quantization(model, sym, options).run();
}

}  // namespace lithify::rewrite
