// The CPU backend as one that also makes draws: what the engine does on a card that samples, without a card.
#pragma once

#include <cstdint>

#include "kernels/interface/kernel_table.h"

namespace quire::testing {

const kernels::Backend& drawing_backend();

// Rows of logits that contexts of this backend have copied to the host, and drawn from, so far.
int64_t num_rows_read();
int64_t num_rows_drawn();
// Steps that these issued on tokens which were not waited for.
int64_t num_steps_followed();

}  // namespace quire::testing
