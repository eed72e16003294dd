#include "capi/src/fork_guard.h"

#include <atomic>
#include <pthread.h>

#include "capi/src/handle_table.h"
#include "core/base/error.h"

namespace quire::capi {
namespace {

constinit std::atomic<bool> tripped{false};
constinit std::atomic<bool> installed{false};

// Locks the table during the fork, so that the child can still create error objects.
void before_fork() {
  HandleTable::instance().lock();
}
void in_parent() {
  HandleTable::instance().unlock();
}
void in_child() {
  HandleTable::instance().unlock();
  if (HandleTable::instance().num_live_objects() > 0) tripped.store(true, std::memory_order_relaxed);
}

}  // namespace

void install_fork_guard() {
  if (installed.load(std::memory_order_acquire)) return;
  HandleTable& table = HandleTable::instance();
  table.lock();
  const bool mine = !installed.load(std::memory_order_relaxed);
  const bool done = !mine || pthread_atfork(before_fork, in_parent, in_child) == 0;
  if (done) installed.store(true, std::memory_order_release);
  table.unlock();
  if (!done) throw Error(ErrorCode::out_of_memory, "no memory to install the handlers for fork()");
}

bool fork_guard_tripped() noexcept {
  return tripped.load(std::memory_order_relaxed);
}

}  // namespace quire::capi
