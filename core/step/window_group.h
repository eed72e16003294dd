// Layers with sliding-window attention, and the pages of a sequence that they need.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace quire {

// Layers that attend only to the last `window` tokens have pages of their own, called slots, and release
// those before the window. All other layers use the pages of the cache itself.
struct WindowGroup {
  int32_t window = 0;     // tokens that a token attends to, including itself; 1 or more
  int32_t num_slots = 0;  // at most one for each page of the cache
};

inline constexpr size_t kMaxWindowGroups = 4;
using SlotCounts = std::array<int32_t, kMaxWindowGroups>;  // by group

constexpr int32_t pages_for(int32_t num_tokens, int32_t page_tokens) {
  return num_tokens / page_tokens + (num_tokens % page_tokens != 0 ? 1 : 0);
}

// Returns the first page of a sequence that its token at `position` attends to.
constexpr int32_t first_seen_page(int32_t position, int32_t window, int32_t page_tokens) {
  return std::max(0, position - window + 1) / page_tokens;
}

// Returns the first page that a sequence of `length` tokens keeps. The token after its last whole page needs
// it, whether that token belongs to this sequence or to one that shares its whole pages.
constexpr int32_t first_kept_page(int32_t length, int32_t window, int32_t page_tokens) {
  return first_seen_page(length / page_tokens * page_tokens, window, page_tokens);
}

// Returns the largest number of slots a sequence uses at the same time if it proceeds token by token.
constexpr int32_t slots_of_window(int32_t window, int32_t page_tokens) {
  return pages_for(window - 1, page_tokens) + 1;
}

}  // namespace quire
