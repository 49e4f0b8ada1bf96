// Recurrent layers with quantized weights. What they round depends on the hidden state at every step, which LSTM and
// GRU cannot express: a layer is a Loop.
#include <fmt/format.h>

#include "ops/quantized.hpp"
#include "ops/register.hpp"
#include "ops/repeat.hpp"
#include "ops/rnn.hpp"

namespace lithify::ops {
namespace {

// What a file holds of a cell: its kind, plain biases, doubles, integers, and the packed products.
struct PackedCell {
  Value of_input, of_hidden;
  Rounding rounding;
};

PackedCell cell(Call& c, const Value& v) {
  const Vector<Value>& s = native_state(c, v);
  auto* kind = s.empty() ? nullptr : s[0].get_if<std::string>();
  if (!kind || s.size() != 5 || !s[3].is_list() || !s[4].is_list() || s[4].items().size() != 2)
    c.unsupported("malformed packed parameters");
  const Vector<Value>& packed = s[4].items();
  if (*kind == "quantized_fp16") return {packed[0], packed[1], Rounding::Half};
  if (*kind != "quantized_dynamic") c.unsupported(fmt::format("cells of the kind '{}'", *kind));
  const Vector<Value>& numbers = s[3].items();
  bool reduced = numbers.size() == 1 && numbers[0].is_int() && numbers[0].integer().is(1);
  return {packed[0], packed[1], reduced ? Rounding::HalfRange : Rounding::Range};
}

// The states after a step, the hidden one first.
Vector<Ref> step(Call& c, Ref of_input, const PackedCell& p, const Vector<Ref>& states) {
  Builder& b = c.onnx;
  Ref of_hidden = packed_product(c, states[0], p.of_hidden, p.rounding);
  if (states.size() == 1) return {gru_step(b, of_input, of_hidden, states[0])};
  auto [hidden, cell] = lstm_step(b, b.add(of_input, of_hidden), states[1]);
  return {hidden, cell};
}

// One direction of a layer over [length, batch, features]. The input is rounded as a whole.
struct DirectionResult {
  Ref all;           // hidden states of all steps
  Vector<Ref> last;  // states at the end
};

DirectionResult direction(Call& c, Ref x, const PackedCell& p, const Vector<Ref>& states, bool backward) {
  Builder& b = c.onnx;
  Ref of_input = packed_product(c, x, p.of_input, p.rounding);
  if (backward) of_input = b.flip(of_input, 0);
  Vector<Ref> out = collect(b, x->shape[0], states, [&](Ref iteration, const Vector<Ref>& carried) -> Iteration {
    Vector<Ref> after = step(c, b.gather(of_input, iteration, 0), p, carried);
    return {after, after[0]};
  });
  Ref all = out.back();
  out.pop_back();
  return {backward ? b.flip(all, 0) : all, out};
}

// One step of a cell; its biases are in its packed parameters.
Vector<Ref> cell_step(Call& c, const Vector<Ref>& states) {
  const PackedCell p{c.arg("w_ih"), c.arg("w_hh"), Rounding::HalfRange};
  return step(c, packed_product(c, c.tensor("input"), p.of_input, p.rounding), p, states);
}

// A step of a plain cell, with its activation.
eval::RuleFunction plain_cell(const char* activation) {
  return [activation](Call& c) -> Value {
    Builder& b = c.onnx;
    Ref of_input = packed_product(c, c.tensor("input"), c.arg("w_ih"), Rounding::HalfRange);
    Ref of_hidden = packed_product(c, c.tensor("hx"), c.arg("w_hh"), Rounding::HalfRange);
    return b.op(activation, {b.add(of_input, of_hidden)});
  };
}

Value layers(Call& c) {
  Builder& b = c.onnx;
  if (c.flag("train") && c.real("dropout") != 0) c.unsupported("dropout in training mode");
  bool two = c.flag("bidirectional");
  const Vector<Value>& params = c.arg("params").items();
  if (params.size() != static_cast<size_t>(c.integer("num_layers")) * (two ? 2 : 1))
    c.unsupported("another number of packed parameters than of layers");
  Ref x = c.tensor("input");
  if (x->rank() != 3) c.unsupported("an input without a batch");
  if (c.flag("batch_first")) x = b.swap_dims(x, 0, 1);
  Vector<Ref> start = c.arg("hx").is_tensor() ? std::vector{c.tensor("hx")} : c.tensors("hx");
  Vector<onnx::Inputs> last(start.size());
  for (size_t i = 0; i < params.size();) {
    onnx::Inputs outputs;
    for (bool backward : two ? std::vector{false, true} : std::vector{false}) {
      Vector<Ref> states;
      for (Ref s : start) states.push_back(b.select(s, 0, b.dim(static_cast<int64_t>(i))));
      DirectionResult d = direction(c, x, cell(c, params[i++]), states, backward);
      outputs.push_back(d.all);
      for (size_t k = 0; k < last.size(); ++k) last[k].push_back(b.unsqueeze(d.last[k], {0}));
    }
    x = b.concat(outputs, 2);
  }
  Vector<Value> results{c.flag("batch_first") ? b.swap_dims(x, 0, 1) : x};
  for (const onnx::Inputs& parts : last) results.push_back(b.concat(parts, 0));
  return Value::tuple(std::move(results));
}

}  // namespace

void register_quantized_rnn(eval::Registry& ops) {
  constexpr std::string_view common =
      "__torch__.torch.classes.rnn.CellParamsBase[] params, bool has_biases, int num_layers, float dropout, bool "
      "train, "
      "bool bidirectional, bool batch_first";
  ops.add(fmt::format("aten::quantized_lstm.input(Tensor input, Tensor[] hx, {}, *, ScalarType? dtype=None, bool "
                      "use_dynamic=False) -> (Tensor, Tensor, Tensor)",
                      common),
          layers, 11);
  ops.add(fmt::format("aten::quantized_gru.input(Tensor input, Tensor hx, {}) -> (Tensor, Tensor)", common), layers,
          11);

  const std::string packed =
      fmt::format("{0} w_ih, {0} w_hh", "__torch__.torch.classes.quantized.LinearPackedParamsBase");
  ops.add(fmt::format("quantized::quantized_lstm_cell_dynamic(Tensor input, Tensor[] hx, {}, Tensor bias_ih, Tensor "
                      "bias_hh) -> (Tensor, Tensor)",
                      packed),
          [](Call& c) -> Value {
            const Vector<Ref> after = cell_step(c, c.tensors("hx"));
            return Value::tuple({after.at(0), after.at(1)});
          });
  ops.add(fmt::format("quantized::quantized_gru_cell_dynamic(Tensor input, Tensor hx, {}, Tensor b_ih, Tensor b_hh) -> "
                      "Tensor",
                      packed),
          [](Call& c) -> Value { return cell_step(c, {c.tensor("hx")}).at(0); });
  for (const auto& [name, activation] : {std::pair{"tanh", "Tanh"}, std::pair{"relu", "Relu"}})
    ops.add(fmt::format("quantized::quantized_rnn_{}_cell_dynamic(Tensor input, Tensor hx, {}, Tensor b_ih, Tensor "
                        "b_hh) -> Tensor",
                        name, packed),
            plain_cell(activation));
}

}  // namespace lithify::ops
