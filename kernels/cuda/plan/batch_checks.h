// Checks of a batch before its kernels run. Independent of CUDA.
#pragma once

#include "kernels/interface/kernel_table.h"

namespace quire::kernels {

// Returns true if the batch is within the limits of its context.
bool batch_is_sound(const ContextLimits& limits, const BatchView& batch);
// Returns true if each sequence can find its state.
bool states_are_sound(const BatchView& batch);
// Returns true if a sequence continues its state in another slot.
bool any_state_moves(const BatchView& batch);

}  // namespace quire::kernels
