// Number of slots that a cache has for recurrent states, computed from sizes alone.
#pragma once

#include "core/models/transformer_executor.h"

namespace quire {

// Returns the number of slots for num_sequences sequences (0: options.max_sequences) and for snapshots beside
// them; 0 if no layer has a recurrent state. Slots that no sequence uses hold snapshots too.
int32_t num_state_slots(const TransformerShape& shape, const TransformerExecutorOptions& options,
                        int32_t num_sequences);

// Returns the number of slots that have memory at first in a cache that grows from least_pages to num_pages
// pages: their share of the slots, and enough for one job of two sequences and two snapshots.
int32_t least_state_slots(const CachePages& kv);

}  // namespace quire
