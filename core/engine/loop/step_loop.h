// The step: plan, reserve, pack, forward, draw, verify, commit.
#pragma once

#include <string_view>

#include "core/engine/loop/commit.h"
#include "core/engine/loop/engine_pages.h"
#include "core/engine/loop/live_jobs.h"
#include "core/engine/loop/look_ahead.h"
#include "core/engine/loop/step_planning.h"
#include "core/engine/loop/step_timing.h"
#include "core/engine/loop/token_sampling.h"
#include "core/engine/loop/verify.h"
#include "core/engine/loop/weight_use.h"
#include "core/engine/settings/engine_options.h"
#include "core/engine/settings/engine_parts.h"

namespace quire {

enum class StepOutcome : int32_t { idle, advanced };

// Owns the live jobs and their pages. One thread at a time: the engine's own, or a test's.
class StepLoop {
 public:
  // `options` and `queue` outlive the loop.
  StepLoop(Runtime& runtime, EngineParts parts, const EngineOptions& options, JobQueue& queue);
  ~StepLoop();

  // One step, or nothing where no job can run or other caches have their turn. Throws only where no job can
  // go on: ErrorCode::device_lost, or a defect of the engine itself. A fault of one job ends that job.
  StepOutcome run_once();
  // When an idle loop has to look again without being told; max() where never.
  TimePoint next_event() const {
    return std::min({jobs_.next_event(), planning_.plan_again(), step_timing_.ask_again(),
                     weight_use_.next_event(), pages_.next_event()});
  }
  // No job is left, and none will come for a while.
  void rest() noexcept {
    step_timing_.rest();
    weight_use_.leave();
  }

  // Between two steps: gives up to so many bytes of a device back that no job uses; how many.
  uint64_t reclaim(std::string_view device, uint64_t bytes);
  bool is_elastic() const { return pages_.is_elastic(); }

  // Between two steps; what it publishes, at any time.
  LiveJobs& jobs() { return jobs_; }
  const LiveJobs& jobs() const { return jobs_; }
  KvCache& kv() { return pages_.kv(); }
  const KvCache& kv() const { return pages_.kv(); }
  const StepPlan& plan() const { return plan_; }  // of the step that is under way; for tests
  // Any thread: the watch and the device_turn.
  StepTiming& pace() { return step_timing_; }
  const StepTiming& pace() const { return step_timing_; }

 private:
  const EngineContext& context() const { return jobs_.context(); }
  void step();
  void measure_step() noexcept;
  void blame(ErrorCode code, std::string_view message);
  void audit() const;

  const EngineParts parts_;
  EnginePages pages_;
  LiveJobs jobs_;
  StepPlan plan_;
  StepTiming step_timing_;
  WeightUse weight_use_;
  StepPlanning planning_;
  LookAhead ahead_;
  TokenSampling token_sampling_;
  Verify verify_;
  Commit commit_;
  Batch batch_;
};

}  // namespace quire
