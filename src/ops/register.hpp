// The families of operator rules. Each registers its own; register_all registers every family.
#pragma once

#include "eval/registry.hpp"

namespace lithify::ops {

using eval::Call;
using eval::NumberArguments;
using eval::Role;
using eval::Value;
using onnx::Dim;
using onnx::Shape;

/// How the schemas of operators that create tensors end.
inline constexpr std::string_view tensor_options =
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None";

/// One rule for several schemas.
inline void add_each(eval::Registry& ops, std::initializer_list<const char*> schemas, const eval::RuleFunction& rule) {
  for (const char* schema : schemas) ops.add(schema, rule);
}

void register_activation(eval::Registry& ops);
void register_attention(eval::Registry& ops);
void register_complex(eval::Registry& ops);
void register_conv(eval::Registry& ops);
void register_convert(eval::Registry& ops);
void register_creation(eval::Registry& ops);
void register_detection(eval::Registry& ops);
void register_dicts(eval::Registry& ops);
void register_embedding(eval::Registry& ops);
void register_expand(eval::Registry& ops);
void register_factor(eval::Registry& ops);
void register_fft(eval::Registry& ops);
void register_flip(eval::Registry& ops);
void register_gather(eval::Registry& ops);
void register_index(eval::Registry& ops);
void register_interpreter(eval::Registry& ops);
void register_join(eval::Registry& ops);
void register_linalg(eval::Registry& ops);
void register_linear(eval::Registry& ops);
void register_lists(eval::Registry& ops);
void register_loss(eval::Registry& ops);
void register_mask(eval::Registry& ops);
void register_norm(eval::Registry& ops);
void register_numbers(eval::Registry& ops);
void register_pad(eval::Registry& ops);
void register_permute(eval::Registry& ops);
void register_pointwise(eval::Registry& ops);
void register_pool(eval::Registry& ops);
void register_properties(eval::Registry& ops);
void register_quantize(eval::Registry& ops);
void register_quantized(eval::Registry& ops);
void register_quantized_rnn(eval::Registry& ops);
void register_random(eval::Registry& ops);
void register_reduce(eval::Registry& ops);
void register_reshape(eval::Registry& ops);
void register_resize(eval::Registry& ops);
void register_rnn(eval::Registry& ops);
void register_shuffle(eval::Registry& ops);
void register_special(eval::Registry& ops);
void register_split(eval::Registry& ops);
void register_statistics(eval::Registry& ops);
void register_strided(eval::Registry& ops);
void register_strings(eval::Registry& ops);
void register_vision(eval::Registry& ops);

void register_all(eval::Registry& ops);

/// Every rule, registered once for the process.
const eval::Registry& all_rules();

}  // namespace lithify::ops
