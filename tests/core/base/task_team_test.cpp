#include "core/base/task_team.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace quire {
namespace {

// A system that can start only `count` threads.
class LimitedThreads final : public ThreadFactory {
 public:
  explicit LimitedThreads(int32_t count) : left_(count) {}
  std::unique_ptr<Thread> start(const std::string& name, std::function<void()> body) const override {
    if (left_.fetch_sub(1) <= 0) throw Error(ErrorCode::out_of_memory, "no thread");
    return system_threads().start(name, std::move(body));
  }

 private:
  mutable std::atomic<int32_t> left_;
};

TEST(TaskTeam, RunsEveryTaskOnceWithAnyNumberOfThreads) {
  for (const int32_t available : {0, 1, 7}) {
    for (const int32_t num_tasks : {0, 1, 2, 100}) {
      const LimitedThreads threads(available);
      std::vector<std::atomic<int>> runs(static_cast<size_t>(num_tasks));
      run_tasks(threads, 7, num_tasks, [&](int32_t task) { ++runs[static_cast<size_t>(task)]; });
      for (const auto& count : runs) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(TaskTeam, ThrowsTheExceptionOfTheFirstTaskAndStops) {
  std::atomic<int32_t> num_run{0};
  std::atomic<int32_t> num_failed{0};
  // The first two tasks wait for each other, then both fail. Neither thread may begin another task.
  const auto task = [&](int32_t task_idx) {
    ++num_run;
    if (task_idx > 1) return;
    ++num_failed;
    while (num_failed.load() < 2) {
    }
    throw std::runtime_error(std::to_string(task_idx));
  };
  try {
    run_tasks(system_threads(), 1, 1000, task);
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "0");
  }
  EXPECT_EQ(num_run.load(), 2);
}

TEST(TaskTeam, WithoutHelpersTasksRunInOrder) {
  std::vector<int32_t> order;
  run_tasks(system_threads(), 0, 5, [&](int32_t task) { order.push_back(task); });
  EXPECT_EQ(order, (std::vector<int32_t>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace quire
