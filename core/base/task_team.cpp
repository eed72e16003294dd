#include "core/base/task_team.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <vector>

#include "core/base/mutex.h"

namespace quire {
namespace {

class TaskTeam {
 public:
  TaskTeam(int32_t num_tasks, const std::function<void(int32_t)>& task)
      : num_tasks_(num_tasks), task_(task) {}

  void work() noexcept {
    for (int32_t task_idx = claim(); task_idx < num_tasks_; task_idx = claim()) {
      try {
        task_(task_idx);
      } catch (...) {
        keep_failure(task_idx, std::current_exception());
      }
    }
  }

  void rethrow() {
    const MutexLock lock(mutex_);
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  int32_t claim() { return stopped_.load() ? num_tasks_ : next_.fetch_add(1); }

  void keep_failure(int32_t task_idx, std::exception_ptr failure) {
    stopped_ = true;
    const MutexLock lock(mutex_);
    if (failure_ != nullptr && failed_task_ < task_idx) return;
    failed_task_ = task_idx;
    failure_ = std::move(failure);
  }

  const int32_t num_tasks_;
  const std::function<void(int32_t)>& task_;
  std::atomic<int32_t> next_{0};
  std::atomic<bool> stopped_{false};
  Mutex mutex_;
  int32_t failed_task_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::exception_ptr failure_ QUIRE_GUARDED_BY(mutex_);
};

// Starts up to `count` threads, as many as the system allows. They are joined when the result is destroyed.
std::vector<std::unique_ptr<Thread>> start_helpers(const ThreadFactory& threads, int32_t count,
                                                   TaskTeam& team) {
  std::vector<std::unique_ptr<Thread>> helpers;
  helpers.reserve(static_cast<size_t>(std::max(count, 0)));
  try {
    for (int32_t i = 0; i < count; ++i)
      helpers.push_back(threads.start("quire-load", [&team] { team.work(); }));
  } catch (...) {  // no more threads: the others do the work
  }
  return helpers;
}

}  // namespace

void run_tasks(const ThreadFactory& threads, int32_t num_helpers, int32_t num_tasks,
               const std::function<void(int32_t)>& task) {
  TaskTeam team(num_tasks, task);
  {
    const auto helpers = start_helpers(threads, std::min(num_helpers, num_tasks - 1), team);
    team.work();
  }
  team.rethrow();
}

}  // namespace quire
