// Independent tasks on several threads.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/thread.h"

namespace quire {

// Runs task(0) to task(num_tasks - 1), each once, claimed in that order by the calling thread and up to
// num_helpers others; fewer where the system gives no more threads. Returns when all threads have stopped. A
// task that throws keeps tasks that are not claimed from being run; of several failures, that of the first
// task is thrown.
void run_tasks(const ThreadFactory& threads, int32_t num_helpers, int32_t num_tasks,
               const std::function<void(int32_t task_idx)>& task);

}  // namespace quire
