#include "base/stack.hpp"

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "base/diagnostic.hpp"

namespace lithify {
namespace {

// For what is called between two checks.
constexpr uintptr_t reserve = uintptr_t{256} * 1024;

/// The lowest address of the thread's stack; 0 where the system does not know.
uintptr_t lowest_address() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  return known ? reinterpret_cast<uintptr_t>(lowest) : 0;
}

}  // namespace

void check_stack() {
  thread_local const uintptr_t lowest = lowest_address();
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (here - lowest < reserve)
    throw Error(Code::LimitExceeded, "the program nests deeper than the stack of this thread allows",
                "export it on a thread with a larger stack");
}

}  // namespace lithify
