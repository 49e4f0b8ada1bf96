// Time that work takes.
#pragma once

#include <ctime>

namespace lithify {

/// Seconds of processor time of the calling thread, where the system counts them: the same on a busy machine. Of the
/// process elsewhere.
inline double thread_seconds() {
#ifdef CLOCK_THREAD_CPUTIME_ID
  timespec now{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0)
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
#endif
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

}  // namespace lithify
