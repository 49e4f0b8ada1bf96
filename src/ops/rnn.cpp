// Recurrent layers: one ONNX node per layer, both directions in it. Weights are reordered as views of the file.
//
// A packed sequence is padded again for the node, which takes the length of each sequence. Where it was packed by the
// model, the tensor from before is taken, and the packing leaves nothing behind.
#include "ops/rnn.hpp"

#include <fmt/format.h>

#include "ops/register.hpp"

namespace lithify::ops {
namespace {

using eval::Registry;

struct Cell {
  std::string_view op;
  Vector<int64_t> gates;  // ONNX's gate i is PyTorch's gate gates[i]
  std::string_view activation;
};

const Cell& cell_of(std::string_view schema_name) {
  static const Cell lstm{"LSTM", {0, 3, 1, 2}, ""}, gru{"GRU", {1, 0, 2}, ""}, tanh{"RNN", {0}, "Tanh"},
      relu{"RNN", {0}, "Relu"};
  if (schema_name.starts_with("aten::lstm")) return lstm;
  if (schema_name.starts_with("aten::gru")) return gru;
  return schema_name.starts_with("aten::rnn_relu") ? relu : tanh;
}

/// The rows of each weight, gates in ONNX's order, one weight after the other, as [directions, ...].
onnx::Value* stacked(onnx::Builder& b, const Vector<Vector<onnx::Value*>>& directions, const Cell& cell) {
  size_t n = cell.gates.size();
  bool known = true;
  for (auto& weights : directions)
    for (onnx::Value* w : weights) known = known && w->constant && w->constant->view();
  Shape shape = directions[0][0]->shape;
  shape[0] = b.sym.mul(shape[0], b.dim(static_cast<int64_t>(directions[0].size())));
  shape.insert(shape.begin(), b.dim(static_cast<int64_t>(directions.size())));
  if (known) {
    Vector<onnx::Tensor::Piece> pieces;
    Vector<int64_t> sizes;
    for (Dim d : shape) sizes.push_back(*d.constant());
    for (auto& weights : directions)
      for (onnx::Value* w : weights) {
        const TensorView& view = *w->constant->view();
        int64_t rows = view.sizes[0] / static_cast<int64_t>(n);
        for (int64_t gate : cell.gates) pieces.push_back({view.narrowed(0, gate * rows, rows), nullptr});
      }
    onnx::Value* first = directions[0][0];
    return b.constant(onnx::Tensor(first->dtype, std::move(sizes), std::move(pieces)), first->name);
  }
  onnx::Inputs rows;
  for (auto& weights : directions)
    for (onnx::Value* w : weights) {
      Dim length = b.sym.floor_div(w->shape[0], b.dim(static_cast<int64_t>(n)));
      Vector<onnx::Value*> parts = b.split(w, Vector<Dim>(n, length), 0);
      for (int64_t gate : cell.gates) rows.push_back(parts[static_cast<size_t>(gate)]);
    }
  return b.reshape(b.concat(rows, 0), shape);
}

bool is_zero(const onnx::Value* v) {
  if (v->kind == onnx::Value::Kind::Output && v->producer->op_type == "Expand") v = v->producer->inputs[0];
  if (!v->constant || v->constant->numel() > 65536) return false;
  for (double e : v->constant->reals())
    if (e != 0) return false;
  return true;
}

// ---- packed sequences ---------------------------------------------------------------------------------------------

/// The sequences of a batch, the longest first.
struct Packing {
  onnx::Value* lengths;  // int64 [batch]
  onnx::Value* inside;   // bool [steps, batch]: whether a sequence has that step

  Dim steps() const { return inside->shape[0]; }
  Dim batch() const { return inside->shape[1]; }
};

Packing packing(onnx::Builder& b, onnx::Value* lengths, Dim steps) {
  return {lengths, b.op("Less", {b.reshape(arange(b, steps), {steps, b.dim(1)}), lengths})};
}

// How many sequences have each step, or how many steps each sequence has.
onnx::Value* count(onnx::Builder& b, onnx::Value* inside, int64_t axis) {
  return b.reduce("ReduceSum", b.cast(inside, DType::Int64), {axis}, false);
}

// The first input of the node that makes a value, if it is one of that operator.
onnx::Value* input_of(const onnx::Value* v, std::string_view op) {
  return v && v->producer && v->producer->op_type == op ? v->producer->inputs[0] : nullptr;
}

Packing packing_of(onnx::Builder& b, onnx::Value* batch_sizes) {
  Dim steps = batch_sizes->shape.at(0);
  if (onnx::Value* inside = input_of(input_of(batch_sizes, "ReduceSum"), "Cast"); input_of(inside, "Less")) {
    onnx::Value* lengths = inside->producer->inputs[1];
    if (lengths->rank() == 1 && lengths->dtype == DType::Int64) {
      Packing p = packing(b, lengths, steps);
      if (count(b, p.inside, 1) == batch_sizes) return p;
    }
  }
  Dim batch = b.symbol_of(b.select(batch_sizes, 0, b.dim(0)), "sequences", 1);
  onnx::Value* inside = b.op("Less", {arange(b, batch), b.unsqueeze(batch_sizes, {1})});
  return {count(b, inside, 0), inside};
}

Shape followed_by(Shape first, const Shape& of, size_t from) {
  first.insert(first.end(), of.begin() + static_cast<std::ptrdiff_t>(from), of.end());
  return first;
}

// [steps, batch, ...] to the elements of all sequences, step by step.
onnx::Value* packed(onnx::Builder& b, onnx::Value* x, const Packing& p) {
  onnx::Value* rows = b.reshape(x, followed_by({b.numel(p.inside->shape)}, x->shape, 2));
  return b.op("Compress", {rows, flat(b, p.inside)}, {{"axis", int64_t{0}}});
}

// The inverse; what comes after the end of a sequence is left open.
onnx::Value* unpacked(onnx::Builder& b, onnx::Value* data, const Packing& p) {
  Shape shape = followed_by(p.inside->shape, data->shape, 1);
  onnx::Value* rows = input_of(data, "Compress");
  if (rows && data->producer->inputs[1] == flat(b, p.inside) && data->producer->int_attribute("axis", -1) == 0)
    return b.reshape(rows, shape);
  onnx::Value* position = b.op("CumSum", {b.cast(flat(b, p.inside), DType::Int64), b.scalar_int(DType::Int64, 0)});
  return b.gather(data, b.reshape(b.sub(position, b.scalar_int(DType::Int64, 1)), p.inside->shape), 0);
}

// Whether a value is what a recurrent node gives, which is 0 after the end of each sequence.
bool ends_in_zeros(const onnx::Value* v) {
  while (v->producer) {
    std::string_view op = v->producer->op_type;
    if (op == "LSTM" || op == "GRU" || op == "RNN") return v->output_index == 0 && v->producer->inputs[4];
    if (op != "Reshape" && op != "Transpose" && op != "Squeeze") return false;
    v = v->producer->inputs[0];
  }
  return false;
}

Value pack(Call& c) {
  onnx::Builder& b = c.onnx;
  onnx::Value *x = c.tensor("input"), *lengths = b.cast(c.tensor("lengths"), DType::Int64);
  if (c.flag("batch_first")) x = b.swap_dims(x, 0, 1);
  Dim steps = b.symbol_of(b.select(lengths, 0, b.dim(0)), "steps", 1);
  Packing p = packing(b, lengths, steps);
  return Value::tuple({packed(b, b.slice(x, 0, b.dim(0), steps), p), count(b, p.inside, 1)});
}

Value pad(Call& c) {
  onnx::Builder& b = c.onnx;
  Packing p = packing_of(b, c.tensor("batch_sizes"));
  onnx::Value* x = unpacked(b, c.tensor("data"), p);
  onnx::Value* fill = c.number("padding_value", x->dtype);
  if (!ends_in_zeros(x) || known_number(c, "padding_value") != 0) {
    Shape shape = p.inside->shape;
    shape.resize(x->rank(), b.dim(1));
    x = b.where(b.reshape(p.inside, shape), x, fill);
  }
  Dim length = c.size("total_length");
  if (length != p.steps() && length.upper().value_or(1) > 0) {
    Vector<std::pair<Dim, Dim>> pads(x->rank(), {b.dim(0), b.dim(0)});
    pads[0].second = b.sym.sub(length, p.steps());
    x = b.pad(x, pads, "constant", fill);
    x->shape[0] = length;
  }
  return Value::tuple({c.flag("batch_first") ? b.swap_dims(x, 0, 1) : x, p.lengths});
}

// ---- layers -------------------------------------------------------------------------------------------------------

struct Layers {
  bool biases;
  int64_t layers;
  bool bidirectional;
  bool batch_first;
  onnx::Value* lengths = nullptr;  // of the sequences, where they differ
};

/// [layers * directions, batch, hidden] for one layer; nullptr stands for zeros, which ONNX starts from.
onnx::Value* initial(onnx::Builder& b, onnx::Value* all, int64_t layer, int64_t directions) {
  if (!all || is_zero(all)) return nullptr;
  return b.slice(all, 0, b.dim(layer * directions), b.dim((layer + 1) * directions));
}

Value recurrent(Call& c, onnx::Value* x, Vector<onnx::Value*> states, const Vector<onnx::Value*>& params,
                const Layers& how) {
  onnx::Builder& b = c.onnx;
  const Cell& cell = cell_of(c.schema.name);
  bool lstm = cell.op == "LSTM";
  int64_t directions = how.bidirectional ? 2 : 1;
  size_t per_direction = how.biases ? 4 : 2;
  if (params.size() != static_cast<size_t>(how.layers * directions) * per_direction)
    c.unsupported("an LSTM with projections (proj_size)");
  bool batched = x->rank() == 3;
  if (!batched) {
    x = b.unsqueeze(x, {1});
    for (onnx::Value*& s : states) s = b.unsqueeze(s, {1});
  } else if (how.batch_first) {
    x = b.swap_dims(x, 0, 1);
  }
  std::optional<int64_t> hidden = params[1]->shape[1].constant();
  if (!hidden) c.unsupported("a hidden size that is known only at run time");

  Vector<onnx::Inputs> last(lstm ? 2 : 1);
  for (int64_t layer = 0; layer < how.layers; ++layer) {
    Vector<Vector<onnx::Value*>> w, r, bias;
    for (int64_t d = 0; d < directions; ++d) {
      const auto* p = params.data() + static_cast<size_t>(layer * directions + d) * per_direction;
      w.push_back({p[0]});
      r.push_back({p[1]});
      if (how.biases) bias.push_back({p[2], p[3]});
    }
    onnx::Inputs inputs{x, stacked(b, w, cell), stacked(b, r, cell), how.biases ? stacked(b, bias, cell) : nullptr,
                        how.lengths ? b.cast(how.lengths, DType::Int32) : nullptr};
    for (onnx::Value* s : states) inputs.push_back(initial(b, s, layer, directions));
    onnx::Attributes attributes;
    if (!cell.activation.empty())
      attributes.push_back(
          {"activations", Vector<std::string>(static_cast<size_t>(directions), std::string(cell.activation))});
    if (how.bidirectional) attributes.push_back({"direction", std::string("bidirectional")});
    attributes.push_back({"hidden_size", *hidden});
    if (cell.op == "GRU") attributes.push_back({"linear_before_reset", int64_t{1}});
    Vector<onnx::Value*> out = b.op_n(cell.op, inputs, attributes, lstm ? 3 : 2);
    for (size_t i = 0; i < last.size(); ++i) last[i].push_back(out[i + 1]);
    // [length, directions, batch, hidden] -> [length, batch, directions * hidden]
    onnx::Value* y = out[0];
    Dim length = x->shape[0], batch = x->shape[1];
    if (directions == 1) {
      x = b.squeeze(y, {1});
    } else if (layer + 1 < how.layers || !how.batch_first || !batched) {
      x = b.reshape(b.transpose(y, {0, 2, 1, 3}), {length, batch, b.dim(directions * *hidden)});
    } else {
      x = b.reshape(b.transpose(y, {2, 0, 1, 3}), {batch, length, b.dim(directions * *hidden)});
    }
  }
  if (!batched) {
    x = b.squeeze(x, {1});
  } else if (how.batch_first && directions == 1) {
    x = b.swap_dims(x, 0, 1);
  }
  Vector<Value> results{x};
  for (onnx::Inputs& l : last) {
    onnx::Value* all = b.concat(l, 0);
    results.push_back(batched ? all : b.squeeze(all, {1}));
  }
  return Value::tuple(std::move(results));
}

// The initial states.
Vector<onnx::Value*> states_of(Call& c) {
  if (c.flag("train") && c.real("dropout") != 0 && c.integer("num_layers") > 1)
    c.unsupported("dropout in training mode");
  return c.schema.name == "aten::lstm" ? c.tensors("hx") : Vector<onnx::Value*>{c.tensor("hx")};
}

Value recurrent_input(Call& c) {
  return recurrent(c, c.tensor("input"), states_of(c), c.tensors("params"),
                   {c.flag("has_biases"), c.integer("num_layers"), c.flag("bidirectional"), c.flag("batch_first")});
}

Value recurrent_packed(Call& c) {
  onnx::Builder& b = c.onnx;
  Packing p = packing_of(b, c.tensor("batch_sizes"));
  Value padded = recurrent(c, unpacked(b, c.tensor("data"), p), states_of(c), c.tensors("params"),
                           {c.flag("has_biases"), c.integer("num_layers"), c.flag("bidirectional"), false, p.lengths});
  Vector<Value> results = padded.items();
  results[0] = packed(b, c.as_tensor(results[0]), p);
  return Value::tuple(std::move(results));
}

onnx::Value* projected(Call& c, onnx::Value* x, const char* weight, const char* bias) {
  return c.call("aten::linear", {x, c.arg(weight), c.arg(bias)}).tensor()->read(c.onnx);
}

Value lstm_cell(Call& c) {
  onnx::Builder& b = c.onnx;
  Vector<onnx::Value*> hx = c.tensors("hx");
  onnx::Value* gates = b.add(projected(c, c.tensor("input"), "w_ih", "b_ih"), projected(c, hx.at(0), "w_hh", "b_hh"));
  auto [hidden, cell] = lstm_step(b, gates, hx.at(1));
  return Value::tuple({hidden, cell});
}

Value gru_cell(Call& c) {
  Ref h = c.tensor("hx"), x = projected(c, c.tensor("input"), "w_ih", "b_ih");
  return gru_step(c.onnx, x, projected(c, h, "w_hh", "b_hh"), h);
}

}  // namespace

LstmState lstm_step(Builder& b, Ref gates, Ref cell) {
  int64_t axis = static_cast<int64_t>(gates->rank()) - 1;
  Vector<Ref> g = b.split(gates, Vector<Dim>(4, cell->shape.back()), axis);
  cell = b.add(b.mul(b.op("Sigmoid", {g[1]}), cell), b.mul(b.op("Sigmoid", {g[0]}), b.op("Tanh", {g[2]})));
  return {b.mul(b.op("Sigmoid", {g[3]}), b.op("Tanh", {cell})), cell};
}

Ref gru_step(Builder& b, Ref of_input, Ref of_hidden, Ref hidden) {
  int64_t axis = static_cast<int64_t>(of_input->rank()) - 1;
  Vector<Dim> thirds(3, hidden->shape.back());
  Vector<Ref> x = b.split(of_input, thirds, axis), h = b.split(of_hidden, thirds, axis);
  Ref reset = b.op("Sigmoid", {b.add(x[0], h[0])});
  Ref update = b.op("Sigmoid", {b.add(x[1], h[1])});
  Ref fresh = b.op("Tanh", {b.add(x[2], b.mul(reset, h[2]))});
  return b.add(fresh, b.mul(update, b.sub(hidden, fresh)));
}

void register_rnn(Registry& ops) {
  std::string common =
      "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional";
  for (auto [name, states, results] :
       std::initializer_list<std::array<std::string_view, 3>>{{"aten::lstm", "Tensor[] hx", "(Tensor, Tensor, Tensor)"},
                                                              {"aten::gru", "Tensor hx", "(Tensor, Tensor)"},
                                                              {"aten::rnn_tanh", "Tensor hx", "(Tensor, Tensor)"},
                                                              {"aten::rnn_relu", "Tensor hx", "(Tensor, Tensor)"}}) {
    ops.add(fmt::format("{}.input(Tensor input, {}, {}, bool batch_first) -> {}", name, states, common, results),
            recurrent_input);
    ops.add(fmt::format("{}.data(Tensor data, Tensor batch_sizes, {}, {}) -> {}", name, states, common, results),
            recurrent_packed);
  }
  ops.add("aten::_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)", pack);
  ops.add(
      "aten::_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, "
      "int total_length) -> (Tensor, Tensor)",
      pad);
  std::string weights = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> ";
  ops.add("aten::lstm_cell(Tensor input, Tensor[] hx, " + weights + "(Tensor, Tensor)", lstm_cell);
  ops.add("aten::gru_cell(Tensor input, Tensor hx, " + weights + "Tensor", gru_cell);
  for (auto& [name, activation] : {std::pair{"aten::rnn_tanh_cell", "Tanh"}, {"aten::rnn_relu_cell", "Relu"}})
    ops.add(fmt::format("{}(Tensor input, Tensor hx, {}Tensor", name, weights),
            [activation = std::string(activation)](Call& c) -> Value {
              return c.onnx.op(activation, {c.onnx.add(projected(c, c.tensor("input"), "w_ih", "b_ih"),
                                                       projected(c, c.tensor("hx"), "w_hh", "b_hh"))});
            });
}

}  // namespace lithify::ops
