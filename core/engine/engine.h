// The engine of one model: a paged KV cache with a prefix cache, a scheduler with continuous batching, and
// the thread that runs the steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/wait.h"
#include "core/engine/job.h"
#include "core/engine/jobs/job_request.h"
#include "core/engine/metrics/cache_stats.h"
#include "core/engine/residency/runtime.h"
#include "core/engine/settings/engine_options.h"
#include "core/engine/settings/engine_parts.h"
#include "core/engine/settings/pin_id.h"
#include "core/step/executor.h"

namespace quire {

class EngineThread;
struct PageFollowing;

// Thread-safe. Each job keeps its engine alive.
class Engine : public std::enable_shared_from_this<Engine> {
 public:
  // Creates an engine and starts its thread. Throws ErrorCode::invalid_argument naming the option, or
  // ErrorCode::out_of_memory if no thread can be started; then nothing stays allocated.
  static std::shared_ptr<Engine> create(std::shared_ptr<Runtime> runtime, EngineParts parts,
                                        const EngineOptions& options);
  // Closes the engine unless it is already closed or abandoned.
  ~Engine();

  // Queues a job. Checks the request completely first and throws naming the field: invalid_argument,
  // too_large (the job can never fit), deadline_too_short, capacity (the queue is full), quota, closed, or
  // the engine's own error. A rejected job leaves no state.
  std::shared_ptr<Job> submit(JobRequest request);
  // Queues num_jobs jobs with the same prompt, which is computed once. Their seeds count up from the
  // request's. Queues all or none.
  std::vector<std::shared_ptr<Job>> submit_many(const JobRequest& request, int32_t num_jobs);

  // Returns the number of prompt tokens that are in the prefix cache now, counting whole pages and the part
  // of a page that would be copied. Waits for at most one step; throws ErrorCode::timeout.
  int32_t query_prefix(const TokenIds& prompt, const std::string& name_space, const Wait& wait);
  // Protects the cached whole pages of this prefix from eviction until time_to_live has passed (0: no limit)
  // or until unpin. Throws ErrorCode::quota beyond the limits, ErrorCode::not_found if not even one page is
  // cached.
  PinId pin_prefix(const TokenIds& prompt, const std::string& name_space, Duration time_to_live,
                   const Wait& wait);
  // Does nothing if the pin no longer exists.
  void unpin(PinId pin);

  // Subscribes a queue to page events. The pages that are cached now are reported first, then every change.
  void follow_pages(PageFollowing following);

  // Changes the quota of the namespace, or with a null `name` that of all namespaces without one of their
  // own. Jobs and pages that already exceed a new limit stay.
  void change_quota(const std::string* name, const std::function<void(NamespaceQuota&)>& change);

  // Changes EngineOptions::device_weight of a running engine.
  void set_device_weight(double weight) noexcept;

  CacheStats stats() const;
  // Returns the statistics with histograms, and with the numbers of each namespace.
  CacheMetrics metrics() const;
  // Returns counters and histograms in the Prometheus text format; `label` is the value of the cache's label.
  std::string metrics_text(const std::string& label) const;

  // Ends every job with ErrorCode::closed, wakes every waiter, rejects later submissions, and stops the
  // thread. Any thread may call it, also repeatedly: a second caller waits for the first. If a device hangs,
  // gives up after close_timeout and leaves the thread running.
  void close() noexcept;
  // Closes like close(), but waits for the running step only as long as `wait` permits. A later call
  // continues the close.
  WaitEnd close(const Wait& wait);
  bool closed() const;
  // Closes without waiting, for a caller that drops the last reference and must not wait for a step: the
  // thread ends by itself after the running step and frees the pages.
  void abandon() noexcept;

  const ExecutorLimits& limits() const;
  int32_t max_seq_len() const;
  int32_t num_tokens() const;
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  EngineThread& thread() { return *thread_; }  // for jobs and tests

 private:
  Engine(std::shared_ptr<Runtime> runtime, std::shared_ptr<EngineThread> core);
  void log_close() const noexcept;

  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<EngineThread> thread_;
};

}  // namespace quire
