// Queue, step loop and thread of one engine. Lives as long as its thread, so that a hung device can be
// abandoned.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/message_text.h"
#include "core/base/thread.h"
#include "core/base/wait.h"
#include "core/engine/jobs/job_queue.h"
#include "core/engine/loop/step_loop.h"
#include "core/engine/settings/engine_options.h"
#include "core/engine/settings/engine_parts.h"
#include "core/engine/settings/job_state.h"

namespace quire {

// Thread-safe, except run_once.
class EngineThread : public std::enable_shared_from_this<EngineThread>, public MemoryReclaimer {
 public:
  EngineThread(std::shared_ptr<Runtime> runtime, EngineParts parts, const EngineOptions& options);
  ~EngineThread() override;

  // Starts the threads. Throws if they cannot be created; then none runs.
  void start();
  // Takes over new submissions and runs one step. Called by the thread, or by tests without one.
  StepOutcome run_once();
  TimePoint next_event() const { return loop_.next_event(); }
  bool closed() const { return stop_requested_; }
  // End all jobs and stop the threads; see Engine::close and Engine::abandon.
  WaitEnd close(const Wait& wait);
  void close() noexcept;
  void abandon() noexcept;

  uint64_t reclaim(std::string_view device, uint64_t bytes) noexcept override;

  JobQueue& queue() { return queue_; }
  const EngineOptions& options() const { return options_; }
  const ModelParts& parts() const { return parts_; }
  const ExecutorLimits& limits() const { return limits_; }
  const Runtime& runtime() const { return *runtime_; }
  int32_t max_seq_len() const { return max_seq_len_; }
  CacheStats stats() const;
  CacheMetrics metrics() const;
  FastestSteps fastest_steps() const { return loop_.step_timing().watch().fastest(); }
  StepLoop& loop() { return loop_; }  // for tests without a thread

  // Runs `action` between two steps and returns its result. Throws its exceptions, ErrorCode::timeout, or
  // ErrorCode::closed.
  template <typename T>
  T call(std::function<T(LiveJobs&)> action, const Wait& wait);
  // Runs `action` between two steps. Its exceptions are discarded.
  void post(std::function<void(LiveJobs&)> action);
  // Creates a fork of `parent` between two steps. `channel` must have been registered with JobQueue::enter.
  // The fork fails if the parent has finished by then or memory is short.
  void post_fork(JobId parent, std::shared_ptr<JobChannel> channel, const ForkOptions& options);

 private:
  enum class Life : int32_t { idle, running, stopped };
  struct Threads {
    std::unique_ptr<Thread> engine;
    std::unique_ptr<Thread> watchdog;
  };
  // State of the threads, from start to close.
  struct Ending {
    Life life = Life::idle;
    bool watching = false;
    bool closing = false;
    bool closed = false;
    bool abandons_thread = false;  // no longer waits for a device that hangs
    Threads threads;
  };

  StepOutcome accept_and_step();
  void run_thread();
  void run_watchdog();
  void fault(ErrorCode code, std::string_view message) noexcept;
  void close_submissions() noexcept;
  Threads take_threads() noexcept QUIRE_REQUIRES(mutex_);
  bool wait_stopped() noexcept;

  const std::shared_ptr<Runtime> runtime_;
  const EngineOptions options_;
  const ModelParts parts_;
  const ExecutorLimits limits_;
  const int32_t max_seq_len_;
  JobQueue queue_;
  StepLoop loop_;
  QueuedWork queued_work_;
  std::atomic<bool> stop_requested_{false};

  mutable Mutex mutex_;
  std::condition_variable life_condition_;
  Ending end_ QUIRE_GUARDED_BY(mutex_);
};

// A task with a result. Caller and engine thread share it, so that either may stop using it first.
template <typename T>
class EngineCall {
 public:
  std::function<T(LiveJobs&)> action;

  void run(LiveJobs& jobs) {
    T value = action(jobs);
    const MutexLock lock(mutex_);
    value_ = std::move(value);
    condition_.notify_all();
  }
  void refuse(ErrorCode code, std::string_view message, std::string_view parameter) noexcept {
    const MutexLock lock(mutex_);
    error_ = code;
    set_message(message_, message);
    set_text(parameter_, parameter);
    condition_.notify_all();
  }
  T wait(const Clock& clock, const Wait& wait) {
    const CancelSwitch::Listener listener(wait.cancel, mutex_, condition_);
    MutexLock lock(mutex_);
    const auto ready = [this]() QUIRE_NO_THREAD_ANALYSIS { return value_ || error_ != ErrorCode::ok; };
    clock.wait_until(condition_, lock.native(), deadline_after(clock.now(), wait.timeout),
                     [&] { return ready() || wait.cancelled(); });
    if (!ready()) {
      if (wait.cancelled()) throw Error(ErrorCode::cancelled, "the wait for the engine was cancelled");
      throw Error(ErrorCode::timeout,
                  "the engine did not respond in time; a step may be running; give a longer timeout");
    }
    if (error_ != ErrorCode::ok) throw Error(error_, message_).at(parameter_);
    return std::move(*value_);
  }

 private:
  Mutex mutex_;
  std::condition_variable condition_;
  std::optional<T> value_ QUIRE_GUARDED_BY(mutex_);
  ErrorCode error_ QUIRE_GUARDED_BY(mutex_) = ErrorCode::ok;
  std::string message_ QUIRE_GUARDED_BY(mutex_);
  std::string parameter_ QUIRE_GUARDED_BY(mutex_);
};

template <typename T>
class EngineCallTask : public EngineTask {
 public:
  explicit EngineCallTask(std::shared_ptr<EngineCall<T>> call) : call_(std::move(call)) {}
  void run(LiveJobs& jobs) override { call_->run(jobs); }
  void refuse(ErrorCode code, std::string_view message, std::string_view parameter) noexcept override {
    call_->refuse(code, message, parameter);
  }

 private:
  std::shared_ptr<EngineCall<T>> call_;
};

template <typename T>
T EngineThread::call(std::function<T(LiveJobs&)> action, const Wait& wait) {
  auto call = std::make_shared<EngineCall<T>>();
  call->action = std::move(action);
  queue_.post(std::make_unique<EngineCallTask<T>>(call));
  if (!options_.start_thread) run_once();
  return call->wait(runtime_->clock(), wait);
}

}  // namespace quire
