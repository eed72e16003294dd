// Number of slots that a cache has for recurrent states, computed from sizes alone.
#pragma once

#include "core/models/transformer_executor.h"

namespace quire {

// Returns the number of slots for num_sequences sequences (0: options.max_sequences) and for snapshots beside
// them; 0 if no layer has a recurrent state. Slots that no sequence uses hold snapshots too.
int32_t num_state_slots(const TransformerShape& shape, const TransformerExecutorOptions& options,
                        int32_t num_sequences);

}  // namespace quire
