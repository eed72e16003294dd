// Knows whether this process is a child of fork() that inherited live handles. Its threads and locks are gone
// there, so nothing that a handle stands for may be touched.
#pragma once

namespace quire::capi {

// Begins to watch; called when the first handle is made. Throws ErrorCode::out_of_memory where it cannot.
void install_fork_guard();

bool fork_guard_tripped() noexcept;

}  // namespace quire::capi
