// The stack of a thread, which recursion over a program may use up.
#pragma once

namespace lithify {

/// Throws LimitExceeded where little is left of the thread's stack. To be called by each step of a recursion that is as
/// deep as a file makes it.
void check_stack();

}  // namespace lithify
