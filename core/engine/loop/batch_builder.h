// Packs a planned and reserved step into the flat arrays of a Batch.
#pragma once

#include "core/kv/kv_cache.h"
#include "core/step/batch.h"
#include "core/step/step_plan.h"

namespace quire {

// `batch` is overwritten; its memory is used again.
void build_batch(const StepPlan& plan, const Reservation& reservation, int32_t page_table_stride,
                 Batch& batch);

}  // namespace quire
