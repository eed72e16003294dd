#include "core/engine/loop/engine_thread.h"

#include <algorithm>
#include <utility>

#include "core/base/contain.h"
#include "core/base/message_text.h"
#include "core/engine/jobs/namespace_quotas.h"

namespace quire {

namespace {

// Do not wait longer than this for the running step; another cache may free memory sooner.
constexpr Duration kMaxReclaimWait = std::chrono::seconds(2);
constexpr const char* kClosedMessage = "the cache was closed";

class PostedTask : public EngineTask {
 public:
  explicit PostedTask(std::function<void(LiveJobs&)> action) : action_(std::move(action)) {}
  void run(LiveJobs& jobs) override { action_(jobs); }
  void refuse(ErrorCode, std::string_view, std::string_view) noexcept override {}

 private:
  std::function<void(LiveJobs&)> action_;
};

class ForkTask : public EngineTask {
 public:
  ForkTask(JobQueue& queue, JobId parent, std::shared_ptr<JobChannel> channel, ForkOptions options,
           int32_t max_seq_len)
      : queue_(queue),
        parent_(parent),
        channel_(std::move(channel)),
        options_(std::move(options)),
        max_seq_len_(max_seq_len) {}

  void run(LiveJobs& jobs) override {
    JobRecord* const parent = jobs.find(parent_);
    if (parent == nullptr)
      throw Error(ErrorCode::closed, "job {} ended before it could be forked", parent_.value);
    jobs.fork(*parent, channel_, options_, max_seq_len_);
  }
  void refuse(ErrorCode code, std::string_view message, std::string_view parameter) noexcept override {
    queue_.leave(*channel_);
    JobResult result;
    result.reason = FinishReason::failed;
    result.error = code;
    set_message(result.message, message);
    set_text(result.parameter, parameter);
    channel_->finish(std::move(result));
  }

 private:
  JobQueue& queue_;
  JobId parent_;
  std::shared_ptr<JobChannel> channel_;
  ForkOptions options_;
  int32_t max_seq_len_;
};

int32_t resolve_max_seq_len(const EngineParts& parts, const EngineOptions& options,
                            const ExecutorLimits& limits) {
  const int64_t table = int64_t{limits.max_pages_per_sequence} * limits.page_tokens;
  int64_t longest = std::min<int64_t>(parts.max_seq_len, table);
  if (options.max_seq_len > 0) longest = std::min<int64_t>(longest, options.max_seq_len);
  return static_cast<int32_t>(longest);
}

EngineOptions with_quotas(EngineOptions options) {
  if (options.quotas == nullptr) options.quotas = std::make_shared<NamespaceQuotas>(options);
  return options;
}

}  // namespace

EngineThread::EngineThread(std::shared_ptr<Runtime> runtime, EngineParts parts, const EngineOptions& options)
    : runtime_(std::move(runtime)),
      options_(with_quotas(options)),
      parts_(static_cast<const ModelParts&>(parts)),
      limits_(parts.executor->limits()),
      max_seq_len_(resolve_max_seq_len(parts, options, limits_)),
      queue_(options_, std::make_shared<EngineSignal>()),
      loop_(*runtime_, std::move(parts), options_, queue_) {}

EngineThread::~EngineThread() = default;

void EngineThread::start() {
  const MutexLock lock(mutex_);
  // Each thread keeps the engine alive for as long as it runs.
  const auto start = [this](const char* name, void (EngineThread::*run)()) {
    return runtime_->threads().start(name, [self = shared_from_this(), run] { (self.get()->*run)(); });
  };
  try {
    end_.watching = options_.watchdog_timeout > Duration{0};
    if (end_.watching) end_.threads.watchdog = start("quire-watchdog", &EngineThread::run_watchdog);
    end_.life = Life::running;
    end_.threads.engine = start("quire-engine", &EngineThread::run_thread);
  } catch (...) {
    end_.life = Life::stopped;
    end_.watching = false;
    life_condition_.notify_all();
    throw;
  }
}

void EngineThread::run_thread() {
  while (!stop_requested_) {
    if (run_once() == StepOutcome::advanced) continue;
    queue_.signal()->wait(runtime_->clock(), loop_.next_event());
  }
  run_once();  // ends jobs submitted before the queue was closed
  const MutexLock lock(mutex_);
  end_.life = Life::stopped;
  life_condition_.notify_all();
}

StepOutcome EngineThread::run_once() {
  StepOutcome outcome = StepOutcome::idle;
  contain(
      "no memory for the engine to continue", [&] { outcome = accept_and_step(); },
      [&](ErrorCode code, std::string_view what) { fault(code, what); });
  return outcome;
}

StepOutcome EngineThread::accept_and_step() {
  queue_.take(queued_work_);
  loop_.jobs().take_in(queued_work_);
  const ErrorCode shut = queue_.shut_code();
  if (shut == ErrorCode::ok) return loop_.run_once();
  loop_.jobs().end_all(shut, queue_.shut_message());
  if (shut == ErrorCode::closed) loop_.jobs().write_prefix_files(options_.close_timeout / 2);
  loop_.rest();
  return StepOutcome::idle;
}

// Puts the engine into the failed state: from here on every call fails with this code, and all live jobs end
// with it.
void EngineThread::fault(ErrorCode code, std::string_view message) noexcept {
  runtime_->log()(LogLevel::error, "the engine has failed ({}): {}", error_code_name(code), message);
  queue_.shut(code, message);
  loop_.jobs().end_all(code, message);
  loop_.rest();
}

void EngineThread::run_watchdog() {
  const Duration period = std::max<Duration>(options_.watchdog_timeout / 4, std::chrono::milliseconds(1));
  MutexLock lock(mutex_);
  const auto stops = [this]() QUIRE_NO_THREAD_ANALYSIS { return !end_.watching; };
  while (!runtime_->clock().wait_until(life_condition_, lock.native(), runtime_->clock().now() + period,
                                       stops)) {
    const int64_t started = loop_.step_timing().watch().started_ns();
    const int64_t now = runtime_->clock().now().time_since_epoch().count();
    if (started == 0 || now - started < options_.watchdog_timeout.count()) continue;
    lock.native().unlock();
    constexpr std::string_view message = "a step took longer than the watchdog timeout";
    runtime_->log()(LogLevel::error, "{}", message);
    queue_.shut(ErrorCode::device_lost, message);
    queue_.end_all_jobs(ErrorCode::device_lost, message);
    loop_.step_timing().device_turn().withdraw();
    lock.native().lock();
    return;
  }
}

CacheStats EngineThread::stats() const {
  CacheStats stats = loop_.jobs().metrics_store().stats();
  stats.engine_error = queue_.shut_code();
  return stats;
}

CacheMetrics EngineThread::metrics() const {
  CacheMetrics metrics = loop_.jobs().metrics_store().read();
  metrics.stats.engine_error = queue_.shut_code();
  metrics.shard_bytes = parts_.shard_bytes;
  return metrics;
}

void EngineThread::post(std::function<void(LiveJobs&)> action) {
  queue_.post(std::make_unique<PostedTask>(std::move(action)));
}

uint64_t EngineThread::reclaim(std::string_view device, uint64_t bytes) noexcept {
  uint64_t given = 0;
  contain(
      "no memory",
      [&] {
        given = call<uint64_t>(
            [this, of = std::string(device), bytes](LiveJobs&) { return loop_.reclaim(of, bytes); },
            Wait{kMaxReclaimWait, nullptr});
      },
      [](ErrorCode, std::string_view) {});  // the engine is closed or busy
  return given;
}

void EngineThread::post_fork(JobId parent, std::shared_ptr<JobChannel> channel, const ForkOptions& options) {
  queue_.post(std::make_unique<ForkTask>(queue_, parent, std::move(channel), options, max_seq_len_));
}

bool EngineThread::wait_stopped() noexcept {
  MutexLock lock(mutex_);
  const auto stopped = [this]() QUIRE_NO_THREAD_ANALYSIS { return end_.life != Life::running; };
  const Duration longest =
      end_.abandons_thread ? Duration{0} : options_.close_timeout;  // already waited for in close(wait)
  return steady_clock().wait_until(life_condition_, lock.native(), steady_clock().now() + longest, stopped);
}

// Closes the queue first: the thread's last round, which it starts when it sees stop_requested_, then finds
// the queue closed and ends all jobs submitted before.
void EngineThread::close_submissions() noexcept {
  queue_.shut(ErrorCode::closed, kClosedMessage);
  stop_requested_ = true;
  queue_.signal()->notify();
}

EngineThread::Threads EngineThread::take_threads() noexcept {
  end_.watching = false;
  life_condition_.notify_all();
  return std::exchange(end_.threads, {});
}

// The thread stops by itself after close_submissions. Once it has stopped, close() no longer waits.
WaitEnd EngineThread::close(const Wait& wait) {
  close_submissions();
  {
    const CancelSwitch::Listener listener(wait.cancel, mutex_, life_condition_);
    MutexLock lock(mutex_);
    const bool by_itself = end_.threads.engine != nullptr && end_.threads.engine->is_current();
    if (end_.life == Life::running && !by_itself) {
      const auto over = [&]() QUIRE_NO_THREAD_ANALYSIS {
        return end_.life != Life::running || wait.cancelled();
      };
      const Duration longest = std::min(wait.timeout, options_.close_timeout);
      steady_clock().wait_until(life_condition_, lock.native(), deadline_after(steady_clock().now(), longest),
                                over);
      const bool may_hang =
          end_.life == Life::running && !wait.cancelled() && longest == options_.close_timeout;
      if (end_.life == Life::running && !may_hang)
        return wait.cancelled() ? WaitEnd::cancelled : WaitEnd::timeout;
      if (may_hang) end_.abandons_thread = true;
    }
  }
  close();
  return WaitEnd::ready;
}

void EngineThread::close() noexcept {
  close_submissions();
  Threads threads;
  {
    MutexLock lock(mutex_);
    // Called on the engine thread itself, by the log sink: the loop ends by itself.
    if (end_.threads.engine != nullptr && end_.threads.engine->is_current()) return;
    if (std::exchange(end_.closing, true)) {
      const auto closed = [this]() QUIRE_NO_THREAD_ANALYSIS { return end_.closed; };
      life_condition_.wait(lock.native(), closed);
      return;
    }
    threads = take_threads();
  }
  if (threads.engine == nullptr) run_once();
  const bool stopped = wait_stopped();
  if (!stopped) {
    runtime_->log()(LogLevel::error, "the device hangs: the engine thread is abandoned");
    queue_.end_all_jobs(ErrorCode::closed, kClosedMessage);
    loop_.step_timing().device_turn().withdraw();
    threads.engine->detach();  // joining would wait forever; the thread owns what it uses
    threads.engine = nullptr;
  }
  if (threads.engine != nullptr) threads.engine->join();
  if (threads.watchdog != nullptr) threads.watchdog->join();
  const MutexLock lock(mutex_);
  end_.closed = true;
  life_condition_.notify_all();
}

// The threads keep the engine alive, so that it is destroyed when the last of them ends.
void EngineThread::abandon() noexcept {
  close_submissions();
  Threads threads;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(end_.closing, true)) return;
    end_.closed = true;
    threads = take_threads();
  }
  if (threads.engine == nullptr) run_once();
  if (threads.engine != nullptr) threads.engine->detach();
  if (threads.watchdog != nullptr) threads.watchdog->detach();
}

}  // namespace quire
