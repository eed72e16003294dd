#include "core/models/window_groups.h"

#include <algorithm>
#include <set>

namespace quire {

std::vector<WindowGroup> window_groups(const TransformerShape& shape,
                                       const TransformerExecutorOptions& options, int32_t num_sequences) {
  const int32_t page_tokens = options.kv.page_tokens;
  if (num_sequences == 0) num_sequences = options.max_sequences;
  std::set<int32_t> windows;
  for (const LayerCacheSize& size : shape.caches) {
    if (size.source_layer < 0 && size.window > 0) windows.insert(size.window);
  }
  std::vector<WindowGroup> groups;
  for (const int32_t window : windows) {
    const int64_t of_step = pages_for(options.max_tokens, page_tokens) - 1;
    const int64_t wanted = int64_t{num_sequences} * slots_of_window(window, page_tokens) + of_step;
    if (wanted < options.kv.num_pages) groups.push_back({window, static_cast<int32_t>(wanted)});
  }
  if (groups.size() > kMaxWindowGroups) groups.erase(groups.begin(), groups.end() - kMaxWindowGroups);
  return groups;
}

}  // namespace quire
