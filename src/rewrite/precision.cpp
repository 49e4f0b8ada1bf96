#include "rewrite/precision.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <unordered_map>
#include <unordered_set>

#include "base/half.hpp"
#include "onnx/kernels.hpp"
#include "rewrite/kept.hpp"
#include "rewrite/names.hpp"
#include "rewrite/rewrites.hpp"

namespace lithify::rewrite {
namespace {

using onnx::TypedOperands;

/// From so many elements on, a constant is taken for a weight: it is worth 16 bits, and no part of a formula.
constexpr int64_t least_weight = 4096;

bool is_one_of(const Node& n, std::initializer_list<std::string_view> ops) {
  return n.domain.empty() && std::ranges::find(ops, n.op_type) != ops.end();
}

bool is_packed_product(const Node& n) { return n.domain == onnxruntime_domain && n.op_type == "MatMulNBits"; }

/// Products with weights, and norms whose statistics are float32 in any case: worth rounding the operands for.
bool is_product(const Node& n) {
  return is_packed_product(n) ||
         is_one_of(n, {"Attention", "Conv", "ConvTranspose", "DequantizeLinear", "Einsum", "GRU", "Gemm", "LSTM",
                       "LayerNormalization", "MatMul", "RMSNormalization", "RNN"});
}

/// Runtimes expand these into operators of the type of their operand, so no kernels of theirs are listed.
bool is_function(const Node& n) { return is_one_of(n, {"HardSwish", "Mish", "Swish"}); }

/// Moves elements and computes none.
bool moves(const Node& n) {
  return is_one_of(n, {"Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile",
                       "Transpose", "Unsqueeze"});
}

bool takes_rows(const Node& n) { return is_one_of(n, {"Gather", "GatherElements", "GatherND"}); }

bool is_square(const Node& n) { return n.is("Mul") && n.inputs[0] == n.inputs[1]; }

/// What may give values beyond the range of float16 from usual ones.
bool grows(const Node& n) {
  return is_square(n) || is_one_of(n, {"Cosh", "CumProd", "CumSum", "Exp", "Pow", "Reciprocal", "ReduceL1", "ReduceL2",
                                       "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Sinh"});
}

/// What is computed in float32 whatever its operands: statistics, coordinates, and functions that are steep.
bool needs_float32(const Node& n) {
  return grows(n) || (is_one_of(n, {"ScatterElements", "ScatterND"}) && n.attribute("reduction")) ||
         is_one_of(n, {"AffineGrid",
                       "BatchNormalization",
                       "Cos",
                       "DFT",
                       "DeformConv",
                       "Det",
                       "EyeLike",
                       "GlobalLpPool",
                       "GridSample",
                       "InstanceNormalization",
                       "LRN",
                       "Log",
                       "LpNormalization",
                       "LpPool",
                       "MaxRoiPool",
                       "MeanVarianceNormalization",
                       "MelWeightMatrix",
                       "Mod",
                       "Multinomial",
                       "QuantizeLinear",
                       "RandomNormal",
                       "RandomNormalLike",
                       "RandomUniform",
                       "RandomUniformLike",
                       "Range",
                       "ReduceLogSum",
                       "ReduceLogSumExp",
                       "RoiAlign",
                       "STFT",
                       "Sin",
                       "Softplus",
                       "Tan"});
}

/// What gives small values whatever it is given.
bool bounds(const Node& n) {
  return is_one_of(n, {"Cos", "Erf", "HardSigmoid", "InstanceNormalization", "LayerNormalization", "LpNormalization",
                       "RMSNormalization", "Sigmoid", "Sign", "Sin", "Softmax", "Softsign", "Tanh"});
}

/// Where a bound beyond the range has no effect on values within it.
bool clamps(const Node& n) { return is_one_of(n, {"Clip", "Max", "Min"}); }

/// The largest magnitude of the finite elements of a constant of float32, or more: rows may be scaled.
float largest(const onnx::Tensor& tensor) {
  float most = 0;
  for (const onnx::Tensor::Piece& piece : tensor.pieces) {
    float scale = 1;
    if (piece.scale)
      for (const float s : *piece.scale) scale = std::max(scale, std::abs(s));
    for_each_run(piece.view, [&](const std::byte* data, size_t size) {
      for (size_t at = 0; at + sizeof(float) <= size; at += sizeof(float)) {
        float x;
        std::memcpy(&x, data + at, sizeof x);
        x = std::abs(x) * scale;
        if (x > most && x <= std::numeric_limits<float>::max()) most = x;
      }
    });
  }
  return most;
}

class Lowering {
 public:
  Lowering(onnx::Model& model, const PrecisionOptions& options)
      : graph_(*model.graph), opset_(model.opset), options_(options), added_(graph_), nodes_(graph_.all_nodes()) {}

  Lowered run() {
    for (const Node* n : nodes_) follow_integers(*n);
    for (const Node* n : nodes_)
      if (is_one_of(*n, {"Cos", "Sin", "Tan"})) keep_arguments(*n);
    for (const Node* n : nodes_) decide(*n);
    for (size_t i = nodes_.size(); i-- > 0;) decide_moved(*nodes_[i]);
    for (const Graph* g : graph_.all_graphs())
      for (const Value* v : g->outputs) needs_[v].wide = true;
    for (const Node* n : nodes_)
      for (size_t i = 0; i < n->inputs.size(); ++i)
        if (n->inputs[i]) (needs_[n->inputs[i]].*form_of_input(*n, i)) = true;
    for (Node* n : nodes_) change(*n);
    place();
    for (const auto& [v, forms] : forms_) out_.weights += v->constant && forms.stored;
    return std::move(out_);
  }

 private:
  enum class How {
    Float32,  ///< computes in float32, because values need it, or has no operands of float32
    Widened,  ///< would compute in 16 bits, but has no kernel: weights are stored in 16 bits all the same
    Narrow    ///< computes in 16 bits
  };

  struct Fact {
    bool narrow = false;  ///< of 16 bits
    bool loose = false;   ///< may be beyond the range of float16
    bool beyond = false;  ///< is, by a constant
  };

  /// The forms in which nodes and graphs take a value.
  struct Needs {
    bool wide = false, narrow = false;
    bool rounded = false;  ///< float32; of a weight, what its 16 bits stand for
  };

  struct Forms {
    Value *wide = nullptr, *narrow = nullptr;
    bool stored = false;  ///< a constant is in the file in 16 bits
  };

  enum class Range { Within, Beyond, Vanishing };

  /// A constant, or what nodes make of constants by moving their elements.
  struct Weight {
    Range range = Range::Within;
    bool small = true;
    const Value* source = nullptr;  ///< a constant
  };

  // ---- what nodes are ----

  std::optional<TypedOperands> operands(const Node& n) const {
    if (is_packed_product(n)) return TypedOperands{.inputs = 0b101, .outputs = 1};
    if (!n.domain.empty() || !n.bodies().empty()) return std::nullopt;
    const auto is_other = [](const Value* v) { return v && v->form != Value::Form::Tensor; };
    if (std::ranges::any_of(n.inputs, is_other) || std::ranges::any_of(n.outputs, is_other)) return std::nullopt;
    if (is_function(n)) return TypedOperands{.inputs = 1, .outputs = 1};
    if (!n.is("DequantizeLinear")) return onnx::typed_operands(n.op_type, opset_);
    if (!n.attribute("block_size")) return std::nullopt;
    return TypedOperands{.inputs = 2, .outputs = 1};  // of a weight in blocks, by its scales
  }

  bool computes_narrow(const Node& n) const {
    if (n.is("DequantizeLinear") || is_packed_product(n)) return options_.type == DType::Half;
    return onnx::has_kernel(is_function(n) ? std::string_view("Sigmoid") : n.op_type, opset_, options_.type);
  }

  static bool is_float32(const Value* v) { return v && v->dtype == DType::Float; }

  /// Its operands of float32 that would have 16 bits.
  Vector<const Value*> typed_inputs(const Node& n) const {
    Vector<const Value*> out;
    if (const auto typed = operands(n))
      for (size_t i = 0; i < n.inputs.size(); ++i)
        if (typed->input(i) && is_float32(n.inputs[i])) out.push_back(n.inputs[i]);
    return out;
  }

  /// nullptr for what is not known before a run.
  const Weight* weight(const Value* v) {
    if (!v->constant) {
      const auto found = weights_.find(v);
      return found == weights_.end() ? nullptr : &found->second;
    }
    const auto [at, is_new] = weights_.try_emplace(v);
    if (is_new) at->second = {range_of(*v->constant), v->constant->numel() < least_weight, v};
    if (is_new && at->second.range == Range::Beyond && v->constant->numel() > 1) out_.beyond.push_back(v->name);
    return &at->second;
  }

  Range range_of(const onnx::Tensor& tensor) const {
    const float most = largest(tensor);
    const bool is_half = options_.type == DType::Half;
    const float rounded =
        is_half ? float_from_half(half_from_float(most)) : float_from_bfloat16(bfloat16_from_float(most));
    if (std::isinf(rounded)) return Range::Beyond;
    return is_half && tensor.numel() == 1 && most > 0 && most < 0x1p-14F ? Range::Vanishing : Range::Within;
  }

  /// Whether a node only moves the elements of constants. What it makes is a weight then.
  bool moves_weights(const Node& n) {
    const Vector<const Value*> inputs = moves(n) ? typed_inputs(n) : Vector<const Value*>();
    if (inputs.empty()) return false;
    Weight moved;
    for (const Value* v : inputs) {
      const Weight* part = weight(v);
      if (!part) return false;
      if (part->range != Range::Within) moved.range = part->range;
      moved.small = moved.small && part->small;
      moved.source = part->source;
    }
    for (const Value* v : n.outputs)
      if (v) weights_[v] = moved;
    return true;
  }

  // ---- values that need float32 ----

  /// What is computed from integers and small constants alone.
  void follow_integers(const Node& n) {
    if (moves_weights(n)) moved_.insert(&n);
    if (moved_.contains(&n) || !n.bodies().empty() || !n.domain.empty()) return;
    bool has_float = false;
    for (const Value* v : n.inputs) {
      if (!v || !is_float(v->dtype)) continue;
      has_float = true;
      const Weight* w = is_float32(v) ? weight(v) : nullptr;
      if (w ? !w->small : !exact_.contains(v)) return;
    }
    if (has_float && (takes_rows(n) || (is_product(n) && !n.is("MatMul")))) return;
    for (const Value* v : n.outputs)
      if (is_float32(v)) exact_.insert(v);
  }

  /// The arguments of a periodic function, through sums and factors.
  void keep_arguments(const Node& function) {
    Vector<const Node*> work{&function};
    while (!work.empty()) {
      const Node* n = work.back();
      work.pop_back();
      for (const Value* v : n->inputs) {
        const Node* p = v ? v->producer : nullptr;
        const bool passes =
            p && (moves(*p) || takes_rows(*p) || is_one_of(*p, {"Add", "Div", "Mul", "Neg", "Sub", "Where"}) ||
                  (p->is("MatMul") && exact_.contains(v)));
        if (passes && kept_.insert(p).second) work.push_back(p);
      }
    }
  }

  bool is_kept_by_name(const Node& n) {
    if (options_.keep.empty()) return false;
    return is_kept(options_.keep, n.scope) || std::ranges::any_of(typed_inputs(n), [&](const Value* v) {
             const Weight* w = weight(v);
             return w && is_kept(options_.keep, w->source->name);
           });
  }

  /// Whether an operand is a dequantized value, which nodes compute with in integers.
  static bool is_quantized(const Value* v) {
    const Node* n = made_by(v, "DequantizeLinear");
    return n && !n->attribute("block_size");
  }

  // ---- how nodes compute ----

  void decide(const Node& n) {
    const Vector<const Value*> inputs = typed_inputs(n);
    if (moved_.contains(&n) || inputs.empty()) return;  // values that a node makes of others are float32
    Fact out;
    size_t known = 0, narrow = 0, exact = 0;
    bool numerator_grows = false, in_range = true;
    for (const Value* v : inputs) {
      if (const Weight* w = weight(v)) {
        in_range = in_range && w->range == Range::Within;
        out.beyond = out.beyond || (w->range == Range::Beyond && !clamps(n));
        continue;
      }
      const Fact& fact = facts_[v];
      ++known;
      narrow += fact.narrow;
      exact += exact_.contains(v);
      out.loose = out.loose || fact.loose;
      out.beyond = out.beyond || fact.beyond;
      numerator_grows = numerator_grows || (v == inputs[0] && fact.loose);
    }
    const bool mixed = narrow > 0 && narrow < known;
    const bool is_exact = known > 0 && exact == known && exact_.contains(n.outputs[0]);
    const bool follows = !is_product(n) && known > 0 && (narrow == 0 || (mixed && out.loose));
    How how = How::Narrow;
    if (!in_range || out.beyond || is_exact || needs_float32(n) || kept_.contains(&n) || is_kept_by_name(n) ||
        std::ranges::any_of(inputs, is_quantized))
      how = How::Float32;
    else if (follows)
      how = computes_narrow(n) ? How::Float32 : How::Widened;
    else if (!computes_narrow(n))
      how = How::Widened;
    if (mixed) out.loose = false;  // a norm: what is large is divided by what is as large
    if (n.is("Div")) out.loose = weight(n.inputs[0]) || (numerator_grows && !mixed);
    out.loose = (out.loose || grows(n)) && how != How::Narrow && !bounds(n);
    out.beyond = out.beyond && !bounds(n);
    out.narrow = how == How::Narrow;
    how_[&n] = how;
    count(n, how);
    const TypedOperands typed = *operands(n);
    for (size_t i = 0; i < n.outputs.size(); ++i)
      if (typed.output(i) && is_float32(n.outputs[i])) facts_[n.outputs[i]] = out;
  }

  void count(const Node& n, How how) {
    if (how == How::Narrow)
      ++out_.nodes;
    else if (how == How::Widened)
      ++out_.widened;
    else if (is_float32(n.outputs[0]) && !moves(n) && !takes_rows(n))
      ++out_.left[n.op_type];
  }

  /// What moves a constant has the type that its users want: float32 if one does.
  void decide_moved(const Node& n) {
    if (moved_.contains(&n)) {
      const bool is_narrow = computes_narrow(n) && std::ranges::none_of(n.outputs, [&](const Value* v) {
                               return !v || needs_of_moved_[v].wide;
                             });
      how_[&n] = is_narrow ? How::Narrow : How::Float32;
      for (const Value* v : n.outputs)
        if (v) facts_[v].narrow = is_narrow;
    }
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (const Value* v = n.inputs[i]; v && !v->constant && weights_.contains(v))
        (needs_of_moved_[v].*form_of_input(n, i)) = true;
    for (const Graph* body : n.bodies())
      for (const Value* v : body->outputs) needs_of_moved_[v].wide = true;
  }

  using Need = bool Needs::*;

  Need form_of_input(const Node& n, size_t i) {
    const auto found = how_.find(&n);
    const std::optional<TypedOperands> typed = operands(n);
    const Value* v = n.inputs[i];
    if (found == how_.end() || !typed || !typed->input(i) || !is_float32(v)) return &Needs::wide;
    if (found->second == How::Narrow) return &Needs::narrow;
    const Weight* w = weight(v);
    return found->second == How::Widened && w && !w->small ? &Needs::rounded : &Needs::wide;
  }

  // ---- the change ----

  void change(Node& n) {
    const auto found = how_.find(&n);
    const bool is_narrow = found != how_.end() && found->second == How::Narrow;
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (Value* v = n.inputs[i]; is_float32(v) && v->form == Value::Form::Tensor) {
        const Need need = form_of_input(n, i);
        const Forms& forms = this->forms(v);
        n.inputs[i] = need == &Needs::narrow ? forms.narrow : forms.wide;
      }
    if (!is_narrow) return;
    const TypedOperands typed = *operands(n);
    for (size_t i = 0; i < n.outputs.size(); ++i)
      if (typed.output(i) && is_float32(n.outputs[i])) narrow_output(n, i);
  }

  /// A value that nothing takes in float32 changes its type. Any other is cast from one of 16 bits.
  void narrow_output(Node& n, size_t i) {
    Value* v = n.outputs[i];
    Graph& graph = graph_of(v);
    Forms& forms = forms_[v];
    if (!needs_[v].wide && !needs_[v].rounded) {
      v->dtype = options_.type;
      forms.narrow = v;
      return;
    }
    Value* narrow = like(graph, v, options_.type);
    narrow->producer = &n;
    narrow->output_index = i;
    n.outputs[i] = narrow;
    Node* cast = added_.node(graph, "Cast", {narrow}, {{"to", static_cast<int64_t>(DType::Float)}}, n.scope);
    give_output(*cast, v);
    v->output_index = 0;
    behind_[&n].push_back(cast);
    forms = {v, narrow};
  }

  /// Of a value that is there before the node that takes it. Its producer is changed already.
  Forms& forms(Value* v) {
    const auto [at, is_new] = forms_.try_emplace(v);
    Forms& forms = at->second;
    if (!is_new) return forms;
    forms.wide = v;
    const Needs& needs = needs_[v];
    if (v->constant) {
      if (needs.wide && needs.narrow && v->constant->numel() < least_weight) {
        forms.narrow = rounded(v);
        forms.stored = true;
      } else if (!needs.wide && (needs.narrow || needs.rounded)) {
        forms.narrow = rounded(v);
        forms.stored = true;
        if (needs.rounded) forms.wide = cast(forms.narrow, DType::Float, v);
      }
    }
    if (needs.narrow && !forms.narrow) forms.narrow = cast(v, options_.type, v);
    return forms;
  }

  Value* rounded(Value* v) {
    Value* out = like(graph_, v, options_.type);
    out->kind = Value::Kind::Constant;
    out->constant = std::make_shared<onnx::Tensor>(options_.type, v->constant->sizes, v->constant->pieces);
    return out;
  }

  /// A value cast to a type, where it is made. `original` is what it is called after.
  Value* cast(Value* v, DType to, const Value* original) {
    Graph& graph = graph_of(v);
    Node* cast = added_.node(graph, "Cast", {v}, {{"to", static_cast<int64_t>(to)}},
                             original->producer ? original->producer->scope : "");
    give_output(*cast, like(graph, original, to));
    if (v->producer)
      behind_[v->producer].push_back(cast);
    else
      first_[&graph].push_back(cast);
    return cast->outputs[0];
  }

  Value* like(Graph& graph, const Value* v, DType type) {
    return added_.value(graph, fmt::format("{}_{}", v->name, name_of(type)), type, v->shape);
  }

  Graph& graph_of(const Value* v) {
    if (v->constant) return graph_;
    return *const_cast<Graph*>(v->graph);
  }

  void place() {
    for (Graph* g : graph_.all_graphs()) {
      Vector<Node*> old;
      old.swap(g->nodes);
      for (Node* n : first_[g]) g->nodes.push_back(n);
      for (Node* n : old) {
        g->nodes.push_back(n);
        for (Node* cast : behind_[n]) g->nodes.push_back(cast);
      }
    }
  }

  Graph& graph_;
  const int opset_;
  const PrecisionOptions& options_;
  Additions added_;
  const Vector<Node*> nodes_;
  std::unordered_set<const Node*> moved_;  // of constants
  std::unordered_set<const Value*> exact_;
  std::unordered_set<const Node*> kept_;  // arguments of periodic functions
  std::unordered_map<const Value*, Weight> weights_;
  std::unordered_map<const Value*, Fact> facts_;
  std::unordered_map<const Node*, How> how_;
  std::unordered_map<const Value*, Needs> needs_, needs_of_moved_;
  std::unordered_map<const Value*, Forms> forms_;
  std::unordered_map<const Graph*, Vector<Node*>> first_;  // to be placed at the begin of a graph
  std::unordered_map<const Node*, Vector<Node*>> behind_;
  Lowered out_;
};

}  // namespace

Lowered lower_precision(onnx::Model& model, const PrecisionOptions& options) { return Lowering(model, options).run(); }

}  // namespace lithify::rewrite
