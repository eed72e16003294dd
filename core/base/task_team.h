// Runs independent tasks on several threads.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/thread.h"

namespace quire {

// Runs task(0) to task(num_tasks - 1), each once. The calling thread and up to num_helpers more threads claim
// them in order; fewer if the system gives no more threads. Returns when all threads have stopped. If a task
// throws, tasks not yet claimed do not run. If several tasks throw, the exception of the lowest index is
// thrown.
void run_tasks(const ThreadFactory& threads, int32_t num_helpers, int32_t num_tasks,
               const std::function<void(int32_t task_idx)>& task);

}  // namespace quire
