#include "base/stack.hpp"

#include <cstdint>

#include "base/diagnostic.hpp"
#include "platform/process.hpp"

namespace lithify {
namespace {

// For what is called between two checks.
constexpr uintptr_t reserve = uintptr_t{256} * 1024;

}  // namespace

void check_stack() {
  thread_local const uintptr_t lowest = platform::lowest_stack_address();
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (here - lowest < reserve)
    throw Error(Code::LimitExceeded, "the program nests deeper than the stack of this thread allows",
                "export it on a thread with a larger stack");
}

}  // namespace lithify
