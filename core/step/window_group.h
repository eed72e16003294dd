// Layers with a window, and which pages of a sequence they need.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace quire {

// Layers that see the last `window` tokens alone share pages of their own, their slots: they give them back
// before the window. All other layers have the pages of the cache itself.
struct WindowGroup {
  int32_t window = 0;     // tokens that a token of these layers sees, itself included; 1 or more
  int32_t num_slots = 0;  // at most one for each page of the cache
};

inline constexpr size_t kMaxWindowGroups = 4;
using SlotCounts = std::array<int32_t, kMaxWindowGroups>;  // by group

constexpr int32_t pages_for(int32_t num_tokens, int32_t page_tokens) {
  return num_tokens / page_tokens + (num_tokens % page_tokens != 0 ? 1 : 0);
}

// The first page of a sequence that its token at `position` sees anything of.
constexpr int32_t first_seen_page(int32_t position, int32_t window, int32_t page_tokens) {
  return std::max(0, position - window + 1) / page_tokens;
}

// The first that a sequence of `length` tokens keeps: what comes after its last whole page sees it, be it its
// own next token or that of a sequence which takes its whole pages over.
constexpr int32_t first_kept_page(int32_t length, int32_t window, int32_t page_tokens) {
  return first_seen_page(length / page_tokens * page_tokens, window, page_tokens);
}

// Slots that a sequence uses at most at the same time where it goes on token by token.
constexpr int32_t slots_of_window(int32_t window, int32_t page_tokens) {
  return pages_for(window - 1, page_tokens) + 1;
}

}  // namespace quire
