#include "core/models/state_slots.h"

#include <algorithm>

namespace quire {

int32_t num_state_slots(const TransformerShape& shape, const TransformerExecutorOptions& options,
                        int32_t num_sequences) {
  const bool has_states = std::any_of(shape.caches.begin(), shape.caches.end(),
                                      [](const LayerCacheSize& size) { return size.state_bytes > 0; });
  if (!has_states) return 0;
  if (num_sequences == 0) num_sequences = options.max_sequences;
  constexpr int32_t kLeastSnapshots = 2, kMostSnapshots = 16;
  return num_sequences + std::clamp(num_sequences / 4, kLeastSnapshots, kMostSnapshots);
}

int32_t least_state_slots(const CachePages& kv) {
  constexpr int32_t kLeast = 4;
  const int64_t share =
      (int64_t{kv.num_state_slots} * kv.least_pages + kv.num_pages - 1) / std::max(1, kv.num_pages);
  return std::min(kv.num_state_slots, std::max(kLeast, static_cast<int32_t>(share)));
}

}  // namespace quire
