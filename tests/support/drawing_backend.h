// CPU backend extended to draw tokens, to test without a GPU what the engine does on one that samples.
#pragma once

#include <cstdint>

#include "kernels/interface/kernel_table.h"

namespace quire::testing {

const kernels::Backend& drawing_backend();

// Return the number of rows of logits that contexts of this backend have copied to the host, and drawn from,
// so far.
int64_t num_rows_read();
int64_t num_rows_drawn();
// Returns the number of steps issued on tokens that were not waited for.
int64_t num_steps_followed();

}  // namespace quire::testing
