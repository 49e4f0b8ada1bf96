#include "ops/register.hpp"

#include <memory>

namespace lithify::ops {

void register_all(eval::Registry& ops) {
  register_activation(ops);
  register_attention(ops);
  register_conv(ops);
  register_convert(ops);
  register_creation(ops);
  register_detection(ops);
  register_embedding(ops);
  register_expand(ops);
  register_factor(ops);
  register_fft(ops);
  register_flip(ops);
  register_gather(ops);
  register_index(ops);
  register_join(ops);
  register_linalg(ops);
  register_linear(ops);
  register_loss(ops);
  register_mask(ops);
  register_norm(ops);
  register_pad(ops);
  register_permute(ops);
  register_pointwise(ops);
  register_pool(ops);
  // Values of the program. Rules for dicts come after those for strings and lists, since they take any value.
  register_numbers(ops);
  register_properties(ops);
  register_strings(ops);
  register_interpreter(ops);
  register_lists(ops);
  register_dicts(ops);
  register_quantize(ops);
  register_quantized_rnn(ops);
  register_random(ops);
  register_reduce(ops);
  register_reshape(ops);
  register_resize(ops);
  register_rnn(ops);
  register_shuffle(ops);
  register_special(ops);
  register_split(ops);
  register_statistics(ops);
  register_strided(ops);
  register_vision(ops);
  // These name rules of the others.
  register_complex(ops);
  register_quantized(ops);
}

const eval::Registry& all_rules() {
  // Never destroyed: a program that ends has better things to do.
  static const eval::Registry& registry = *[] {
    auto r = std::make_unique<eval::Registry>();
    register_all(*r);
    return r.release();
  }();
  return registry;
}

}  // namespace lithify::ops
