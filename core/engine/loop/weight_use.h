// Use of a model's weights by one engine: keeps them resident while it has jobs, and requests them if they
// were evicted.
#pragma once

#include <memory>
#include <utility>

#include "core/engine/loop/live_jobs.h"
#include "core/engine/residency/weight_residency.h"
#include "core/step/executor.h"

namespace quire {

// Not thread-safe. Without a residency the weights are always resident.
class WeightUse {
 public:
  // The executor must outlive this.
  WeightUse(std::shared_ptr<WeightResidency> residency, std::shared_ptr<EngineSignal> signal,
            Executor& executor);
  WeightUse(const WeightUse&) = delete;
  WeightUse& operator=(const WeightUse&) = delete;
  ~WeightUse();

  // True if the jobs can be computed now. Without jobs releases the weights. Requests evicted weights; the
  // engine's signal is notified when they are loaded, and jobs wait with that reason until then. A failed
  // load fails the jobs. Throws only ErrorCode::device_lost.
  bool can_compute(LiveJobs& jobs);
  // Returns true once after the weights were loaded again: their copies may still be in progress.
  bool take_reload() noexcept { return std::exchange(was_reloaded_, false); }
  // Releases the weights when no job is left.
  void leave() noexcept;
  // Returns when an idle engine must call can_compute again; max(): never.
  TimePoint next_event() const;

 private:
  bool try_enter(LiveJobs& jobs);
  void let_go();

  const std::shared_ptr<WeightResidency> residency_;
  const std::shared_ptr<EngineSignal> signal_;
  Executor& executor_;
  uint64_t wake_request_ = 0;
  uint64_t num_wakes_ = 0;  // wakes of the model when this last entered
  bool was_reloaded_ = false;
  bool has_entered_ = false;
};

}  // namespace quire
