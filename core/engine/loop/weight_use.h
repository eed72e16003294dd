// A cache as the tenant of its model's weights: it holds them while it has jobs, and asks for them where they
// are away.
#pragma once

#include <memory>
#include <utility>

#include "core/engine/loop/live_jobs.h"
#include "core/engine/residency/weight_residency.h"
#include "core/step/executor.h"

namespace quire {

// One thread at a time. Without a residency the weights are always there.
class WeightUse {
 public:
  // The executor outlives this.
  WeightUse(std::shared_ptr<WeightResidency> residency, std::shared_ptr<EngineSignal> signal,
            Executor& executor);
  WeightUse(const WeightUse&) = delete;
  WeightUse& operator=(const WeightUse&) = delete;
  ~WeightUse();

  // Whether the jobs can be computed now. Where there are none the weights are let go. Where they are away
  // they come, and the engine's signal tells when; jobs wait meanwhile and know why. A load that failed ends
  // the jobs. Throws ErrorCode::device_lost alone.
  bool can_compute(LiveJobs& jobs);
  // Whether the weights have come back since this was asked last: their copies may still be under way.
  bool take_arrival() noexcept { return std::exchange(has_arrived_, false); }
  // No job is left.
  void leave() noexcept;
  // When an idle engine has to look at the clock for it; max() where never.
  TimePoint next_event() const;

 private:
  bool come_in(LiveJobs& jobs);
  void let_go();

  const std::shared_ptr<WeightResidency> residency_;
  const std::shared_ptr<EngineSignal> signal_;
  Executor& executor_;
  uint64_t asked_ = 0;
  uint64_t num_wakes_ = 0;  // of the model, when it came in last
  bool has_arrived_ = false;
  bool is_in_ = false;
};

}  // namespace quire
