// Packs a planned and reserved step into the flat arrays of a Batch.
#pragma once

#include "core/kv/kv_cache.h"
#include "core/step/batch.h"
#include "core/step/executor.h"
#include "core/step/step_plan.h"

namespace quire {

// What page tables are made of.
struct PageTableShape {
  int32_t page_tokens = 0;
  gsl::span<const SlotPool> windows;
};

// Of the batches of an executor.
inline PageTableShape table_shape(const ExecutorLimits& limits, const KvCache& kv) {
  return {limits.page_tokens, kv.windows()};
}

// Tells each lane its places. `batch` is overwritten; its memory is used again.
void build_batch(StepPlan& plan, gsl::span<const PageCopy> copies, const PageTableShape& shape, Batch& batch);

}  // namespace quire
