// Packs a planned and reserved step into the flat arrays of a Batch.
#pragma once

#include "core/kv/kv_cache.h"
#include "core/step/batch.h"
#include "core/step/executor.h"
#include "core/step/step_plan.h"

namespace quire {

// Inputs for building page tables.
struct PageTableShape {
  int32_t page_tokens = 0;
  gsl::span<const SlotPool> windows;
};

// Returns the shape of the page tables of an executor.
inline PageTableShape table_shape(const ExecutorLimits& limits, const KvCache& kv) {
  return {limits.page_tokens, kv.windows()};
}

// Builds the batch and sets first_token and first_row of each lane. Overwrites `batch` and reuses its memory.
void build_batch(StepPlan& plan, gsl::span<const PageCopy> copies, const PageTableShape& shape, Batch& batch);

}  // namespace quire
