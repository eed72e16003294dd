// Step loop: plan, reserve pages, build the batch, forward pass, sampling, verification, commit.
#pragma once

#include <string_view>

#include "core/engine/loop/commit.h"
#include "core/engine/loop/drafting.h"
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

// Owns the live jobs and their pages. Not thread-safe: used by the engine's thread, or by a test.
class StepLoop {
 public:
  // `options` and `queue` must outlive the loop.
  StepLoop(Runtime& runtime, EngineParts parts, const EngineOptions& options, JobQueue& queue);
  ~StepLoop();

  // Runs one step. Does nothing if no job can run or other caches have their turn on the device. Throws only
  // if no job can continue: ErrorCode::device_lost, or a defect of the engine. An error of one job ends only
  // that job.
  StepOutcome run_once();
  // Returns when an idle loop must run again without a notification; max(): never.
  TimePoint next_event() const {
    return std::min({jobs_.next_event(), planning_.next_plan_time(), step_timing_.next_request_time(),
                     weight_use_.next_event(), pages_.next_event()});
  }
  // Releases the device turn and the weights when no job is left.
  void rest() noexcept {
    step_timing_.rest();
    weight_use_.leave();
  }

  // Frees up to `bytes` bytes of unused pages of a device, between two steps. Returns the number of bytes
  // freed.
  uint64_t reclaim(std::string_view device, uint64_t bytes);
  bool is_elastic() const { return pages_.is_elastic(); }

  // For use between two steps. Published statistics can be read at any time.
  LiveJobs& jobs() { return jobs_; }
  const LiveJobs& jobs() const { return jobs_; }
  KvCache& kv() { return pages_.kv(); }
  const KvCache& kv() const { return pages_.kv(); }
  const StepPlan& plan() const { return step_.plan; }  // of the running step; for tests
  // watch() and device_turn() of the result are thread-safe.
  StepTiming& step_timing() { return step_timing_; }
  const StepTiming& step_timing() const { return step_timing_; }

 private:
  const EngineContext& context() const { return jobs_.context(); }
  void step();
  void end_turn(const StepCount& count, bool is_followed) noexcept;
  void measure_step() noexcept;
  void handle_step_failure(ErrorCode code, std::string_view message);
  void audit() const;

  const EngineParts parts_;
  EnginePages pages_;
  LiveJobs jobs_;
  // The running step.
  struct Running {
    StepPlan plan;
    Batch batch;
  };
  Running step_;
  StepTiming step_timing_;
  WeightUse weight_use_;
  StepPlanning planning_;
  LookAhead ahead_;
  TokenSampling token_sampling_;
  Drafting drafting_;
  Verify verify_;
  Commit commit_;
};

}  // namespace quire
