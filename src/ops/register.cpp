#include "ops/register.hpp"

namespace lithify::ops {

void register_all(eval::Registry& ops) { register_prim(ops); }

}  // namespace lithify::ops
