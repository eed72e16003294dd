// Threads with small stacks, and how much of a stack a call uses.
#pragma once

#include <cstddef>
#include <functional>

namespace quire::testing {

// Smallest stack on which the library may be called (docs/threading.md).
inline constexpr size_t kMinStackBytes = size_t{256} << 10;

// Runs `body` on a new thread with a stack of this size and returns the bytes of the stack that were used,
// those of the system's own data included. Rethrows an exception of `body`.
size_t run_on_stack(size_t stack_bytes, const std::function<void()>& body);

// Returns the largest n up to `most` for which `run` succeeds; it throws an Error for all larger ones. Runs
// on a large stack.
size_t deepest_accepted(size_t most, const std::function<void(size_t)>& run);

}  // namespace quire::testing
