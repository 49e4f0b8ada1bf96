// Regions of the program that compute in a smaller type.
#include <functional>
#include <set>
#include <string_view>

#include "base/restored.hpp"
#include "eval/evaluator.hpp"

namespace lithify::eval {

using program::Expr;
using program::Stmt;

void Evaluator::with_autocast(const Stmt& s, Frame& frame) {
  const std::vector<Expr>& settings = s.values[0].items;
  const bool enabled = settings.size() == 3 && settings[2].integer != 0;
  const Restored outer(autocast_, enabled ? dtype_of_torch(settings[1].integer) : std::nullopt);
  execute(s.body, frame);
}

// Products of matrices and convolutions take their operands in the type of autocast. Whatever else an operator does
// under autocast shows in the types that the file records.
void Evaluator::cast_operands(const Expr& call, Arguments& arguments) {
  static const std::set<std::string_view> cast = {"addbmm",
                                                  "addmm",
                                                  "baddbmm",
                                                  "bmm",
                                                  "conv1d",
                                                  "conv2d",
                                                  "conv3d",
                                                  "conv_tbc",
                                                  "conv_transpose1d",
                                                  "conv_transpose2d",
                                                  "conv_transpose3d",
                                                  "einsum",
                                                  "linear",
                                                  "matmul",
                                                  "mm",
                                                  "prelu",
                                                  "scaled_dot_product_attention"};
  std::string_view name = call.name;
  if (!name.starts_with("aten::")) return;
  name = name.substr(6, name.find('.', 6) - 6);
  if (!cast.contains(name)) return;
  const std::function<void(Value&)> convert = [&](Value& v) {
    if (v.is_list()) {
      Vector<Value> items = v.items();
      for (Value& item : items) convert(item);
      v = Value::list(std::move(items));
    } else if (v.is_tensor() && is_float(v.tensor()->dtype()) && v.tensor()->dtype() != DType::Double) {
      v = Value(builder_.cast(v.tensor()->read(builder_), *autocast_));
    }
  };
  for (Value& v : arguments.positional) convert(v);
  for (auto& [key, v] : arguments.keywords) convert(v);
}

}  // namespace lithify::eval
