// The step: plan, reserve, pack, forward, draw, verify, commit.
#pragma once

#include <string_view>

#include "core/engine/cache.h"
#include "core/engine/loop/commit.h"
#include "core/engine/loop/drawing.h"
#include "core/engine/loop/live_jobs.h"
#include "core/engine/loop/look_ahead.h"
#include "core/engine/loop/pace.h"
#include "core/engine/loop/step_planning.h"
#include "core/engine/loop/verify.h"
#include "core/engine/residency/page_home.h"
#include "core/engine/residency/tenancy.h"

namespace quire {

enum class StepOutcome : int32_t { idle, advanced };

// Owns the live jobs and their pages. One thread at a time: the engine's own, or a test's.
class StepLoop {
 public:
  // `options` and `queue` outlive the loop.
  StepLoop(Runtime& runtime, CacheParts parts, const CacheOptions& options, JobQueue& queue);
  ~StepLoop();

  // One step, or nothing where no job can run or other caches have their turn. Throws only where no job can
  // go on: ErrorCode::device_lost, or a defect of the engine itself. A fault of one job ends that job.
  StepOutcome run_once();
  // When an idle loop has to look again without being told; max() where never.
  TimePoint next_event() const {
    return std::min({jobs_.next_event(), planning_.plan_again(), pace_.ask_again(), tenancy_.next_event(),
                     pages_.next_event()});
  }
  // No job is left, and none will come for a while.
  void rest() noexcept {
    pace_.rest();
    tenancy_.leave();
  }

  // Between two steps: gives up to so many bytes of a device back that no job uses; how many.
  uint64_t give_room(std::string_view device, uint64_t bytes);
  bool is_elastic() const { return pages_.is_elastic(); }

  // Between two steps; what it publishes, at any time.
  LiveJobs& jobs() { return jobs_; }
  const LiveJobs& jobs() const { return jobs_; }
  KvCache& kv() { return pages_.kv(); }
  const KvCache& kv() const { return pages_.kv(); }
  const StepPlan& plan() const { return plan_; }  // of the step that is under way; for tests
  // Any thread: the watch and the seat.
  Pace& pace() { return pace_; }
  const Pace& pace() const { return pace_; }

 private:
  const JobGrounds& grounds() const { return jobs_.grounds(); }
  void step();
  void measure_step() noexcept;
  void blame(ErrorCode code, std::string_view message);
  void audit() const;

  const CacheParts parts_;
  PageHome pages_;
  LiveJobs jobs_;
  StepPlan plan_;
  Pace pace_;
  Tenancy tenancy_;
  StepPlanning planning_;
  LookAhead ahead_;
  Drawing drawing_;
  Verify verify_;
  Commit commit_;
  Batch batch_;
};

}  // namespace quire
