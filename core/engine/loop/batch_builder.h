// Packs a planned and reserved step into the flat arrays of a Batch.
#pragma once

#include "core/step/batch.h"
#include "core/step/step_plan.h"

namespace quire {

// Tells each lane its places. `batch` is overwritten; its memory is used again.
void build_batch(StepPlan& plan, gsl::span<const PageCopy> copies, int32_t page_table_stride, Batch& batch);

}  // namespace quire
