// The paged KV cache of one model, the scheduler that owns it, and the thread that runs it.
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

// Any thread may call anything. Jobs keep their cache alive.
class Engine : public std::enable_shared_from_this<Engine> {
 public:
  // Starts the engine's thread. Throws ErrorCode::invalid_argument naming the option, or
  // ErrorCode::out_of_memory where no thread can be had; nothing stays then.
  static std::shared_ptr<Engine> create(std::shared_ptr<Runtime> runtime, EngineParts parts,
                                        const EngineOptions& options);
  // Closes, unless it was closed or abandoned.
  ~Engine();

  // Checks everything that can be checked, and throws naming the field: invalid_argument, capacity (queue
  // full, or can never fit), quota, deadline (cannot be met), closed, or the engine's own error. A job that
  // was refused leaves nothing.
  std::shared_ptr<Job> submit(JobRequest request);
  // num_jobs jobs for one prompt, which is computed once; seeds count up from the request's. All or none.
  std::vector<std::shared_ptr<Job>> submit_many(const JobRequest& request, int32_t num_jobs);

  // How many of the tokens a job with this prompt would find in the cache now, in whole pages and copied
  // part of a page. Waits for at most one step; throws ErrorCode::timeout.
  int32_t query_prefix(const TokenIds& prompt, const std::string& name_space, const Wait& wait);
  // Keeps the cached whole pages of this prefix until time_to_live has passed or unpin; 0 is until unpin.
  // Throws ErrorCode::quota beyond the limits, ErrorCode::not_found where not even one page is cached.
  PinId pin_prefix(const TokenIds& prompt, const std::string& name_space, Duration time_to_live,
                   const Wait& wait);
  // No-op for a pin that is gone.
  void unpin(PinId pin);

  // From now on the queue gets what becomes of the pages, after what is there now.
  void follow_pages(PageFollowing following);

  // Change what namespaces may take from now on; what is beyond it already stays. `name` null: of every
  // namespace that has no quota of its own.
  void change_quota(const std::string* name, const std::function<void(NamespaceQuota&)>& change);

  // EngineOptions::device_weight of a cache in use.
  void set_device_weight(double weight) noexcept;

  CacheStats stats() const;
  // The same with histograms, and with the figures of each namespace.
  CacheMetrics metrics() const;
  // Counters and histograms of this cache in the Prometheus text format; `label` names the cache in it.
  std::string metrics_text(const std::string& label) const;

  // Ends every job with ErrorCode::closed, wakes every waiter, refuses what comes later, and stops the
  // thread. From any thread, twice is once; the second caller waits for the first. Where a device hangs,
  // gives up after close_timeout and leaves the thread to itself.
  void close() noexcept;
  // The same, waiting for the step in progress no longer than that: a later call goes on with it.
  WaitEnd close(const Wait& wait);
  bool closed() const;
  // The same without waiting, for a caller that drops the last reference and must not wait for a step: the
  // thread ends by itself after the step in progress, and the pages go with it.
  void abandon() noexcept;

  const ExecutorLimits& limits() const;
  int32_t max_seq_len() const;
  int32_t num_tokens() const;
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  EngineThread& thread() { return *thread_; }  // for jobs and tests

 private:
  Engine(std::shared_ptr<Runtime> runtime, std::shared_ptr<EngineThread> core);
  void tell_of_close() const noexcept;

  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<EngineThread> thread_;
};

}  // namespace quire
