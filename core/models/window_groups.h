// How many slots a cache has for layers with a window, decided from sizes alone.
#pragma once

#include <vector>

#include "core/models/transformer_executor.h"

namespace quire {

// The groups of a transformer's layers, by rising window; `options.kv.windows` is not looked at. A group has
// slots for num_sequences whole windows at the same time and for what one step writes beyond them: enough for
// so many sequences to go on side by side, however long they are. 0 sequences: as many as take part in a
// step, so that windows never hold up what pages allow. Where that would be a slot for every page there is no
// group, and its layers keep their pages like all others; the smallest of more than kMaxWindowGroups windows
// join the next.
std::vector<WindowGroup> window_groups(const TransformerShape& shape,
                                       const TransformerExecutorOptions& options, int32_t num_sequences);

}  // namespace quire
