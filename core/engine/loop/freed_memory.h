// Check of released memory: fills pages and state slots without an owner with NaN, so that a later read of
// one shows in the logits.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/kv/kv_cache.h"
#include "core/step/executor.h"
#include "core/step/step_plan.h"

namespace quire {

// Not thread-safe. Throws the errors of the executor.
class FreedMemory {
 public:
  // Both must outlive this.
  FreedMemory(Executor& executor, const KvCache& kv);

  // Sets every byte to 0xff, which is NaN in f16, fp8 and f32: of the pages and slots of windows that hold
  // nothing, and of the state slots without users that are no snapshots. Skips those that were not taken
  // since the last call. Called between two steps, or before the pages of a step are reserved.
  void poison();
  // Does the same with the state slots of lanes that begin at position 0. They have no content yet, but may
  // have been those of snapshots until now. Skips those that the step copies from before. Called before the
  // pass of these lanes.
  void poison_begun(const StepPlan& plan, gsl::span<const StateCopy> copies);

 private:
  // Generation of each page or slot when it was poisoned.
  using Poisoned = std::vector<uint64_t>;

  void poison_pages();
  void poison_slots(size_t group);
  void poison_states();
  void write_page(int32_t table, int32_t page);
  void write_state(int32_t slot);

  Executor& executor_;
  const KvCache& kv_;
  std::vector<std::byte> bytes_;  // as many as the largest page or bank has
  Poisoned pages_;
  std::array<Poisoned, kMaxWindowGroups> slots_;
  Poisoned states_;
};

}  // namespace quire
