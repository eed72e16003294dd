// Number of slots that a cache has for layers with a window, computed from sizes alone.
#pragma once

#include <vector>

#include "core/models/transformer_executor.h"

namespace quire {

// Returns the window groups of a transformer's layers, by ascending window. `options.kv.windows` is ignored.
// A group has slots for num_sequences whole windows and for the tokens that one step writes beyond them. With
// these slots num_sequences sequences of any length can run at the same time. If num_sequences is 0, it is
// options.max_sequences, so that windows are never the limit.
// A group that would need a slot for every page is omitted, and its layers keep their pages like layers
// without a window. If there are more than kMaxWindowGroups windows, the layers of the smallest ones use the
// next larger group.
std::vector<WindowGroup> window_groups(const TransformerShape& shape,
                                       const TransformerExecutorOptions& options, int32_t num_sequences);

}  // namespace quire
