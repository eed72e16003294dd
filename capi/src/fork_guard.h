// Detects a child process of fork() that inherited live handles. Their threads and locks do not exist there,
// so the objects must not be used.
#pragma once

namespace quire::capi {

// Installs the fork handlers; called when the first handle is created. Throws ErrorCode::out_of_memory if
// that fails.
void install_fork_guard();

bool fork_guard_tripped() noexcept;

}  // namespace quire::capi
