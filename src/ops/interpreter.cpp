// What a program asks of the interpreter: identity and optionals, messages, assertions, exceptions, and the modes of
// PyTorch. Computed at export, without nodes.
#include <fmt/format.h>

#include "ops/prim.hpp"

namespace lithify::ops {

using eval::None;

void register_interpreter(eval::Registry& ops) {
  // What a program only prints has no effect on the model.
  for (const char* name : {"aten::warn", "prim::Print"})
    ops.add(fmt::format("{}(Any? self=None{}) -> ()", name, any_arguments()), [](Call&) -> Value { return None{}; });
  ops.add("prim::RaiseException(Any msg, str? cls=None) -> ()", [](Call& c) -> Value {
    const std::string* text = c.arg("msg").get_if<std::string>();
    throw Error(Code::ProgramRaises, fmt::format("the program raises{}", text ? ": " + *text : " an exception"));
  });
  for (const char* schema :
       {"aten::set_grad_enabled(bool val) -> ()", "aten::manual_seed(int seed) -> ()",
        "profiler::_record_function_enter_new(str name, str? args=None) -> Any",
        "profiler::_record_function_exit(Any record) -> ()", "aten::_assert_scalar(Scalar self, str assert_msg) -> ()",
        "aten::_assert_async(Tensor self) -> ()", "aten::_assert_async.msg(Tensor self, str assert_msg) -> ()",
        ("aten::_assert_tensor_metadata(Tensor a, int[]? size=None, int[]? stride=None, ScalarType? "
         "dtype=None, *, Device? device=None, Layout? layout=None) -> ()"),
        "aten::sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()",
        "aten::sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()"})
    ops.add(schema, [](Call&) -> Value { return None{}; });
  for (const char* schema :
       {"aten::_functional_assert_scalar(Scalar self, str assert_msg, Tensor dep_token) -> Tensor",
        "aten::_functional_assert_async.msg(Tensor self, str assert_msg, Tensor dep_token) -> Tensor"})
    ops.add(schema, [](Call& c) { return c.arg("dep_token"); });
  ops.add("aten::is_grad_enabled() -> bool", [](Call&) -> Value { return false; });
  for (const char* name : {"prim::is_scripting", "aten::is_scripting", "aten::_is_tracing", "aten::is_autocast_enabled",
                           "aten::is_autocast_cpu_enabled"})
    ops.add(std::string(name) + "(Any? a=None) -> bool",
            [name = std::string(name)](Call&) -> Value { return name.ends_with("is_scripting"); });
  for (auto& [name, negate] : {std::pair{"aten::__is__", false}, {"aten::__isnot__", true}})
    ops.add(std::string(name) + "(Any? a, Any? b) -> bool", [negate = negate](Call& c) -> Value {
      const Value &a = c.arg("a"), &b = c.arg("b");
      bool same = a.is_none() || b.is_none() ? a.is_none() && b.is_none() : eval::equal(c.sym, a, b) == true;
      return same != negate;
    });
  ops.add("aten::_unwrap_optional(Any? optional) -> Any", [](Call& c) -> Value {
    if (c.none("optional")) throw Error(Code::ProgramRaises, "the program unwraps an optional that is None");
    return c.arg("optional");
  });
  ops.add("prim::unchecked_unwrap_optional(Any? optional) -> Any", [](Call& c) { return c.arg("optional"); });
  ops.add("aten::wait(Any self) -> Any", [](Call& c) { return c.arg("self"); });
}

}  // namespace lithify::ops
