// The one arithmetic of pages: submit refuses by it, the scheduler plans by it, reserve keeps to it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/kv/content.h"
#include "core/step/window_group.h"

namespace quire {

// What it has, and would find, of the slots of one group of layers with a window.
struct SlotDemand {
  int32_t num_used = 0;      // by the sequence; with those that it would find
  int32_t end = 0;           // of its table, the page after the last of them
  int32_t found_unused = 0;  // of those that it would find, the ones that now count as unused
};

// Where one sequence stands before a step, and what it would find in the cache.
struct PageDemand {
  int32_t length = 0;              // tokens in the cache
  int32_t held_pages = 0;          // in its table
  int32_t found_tokens = 0;        // computed by others, whole pages and a copied piece of one
  int32_t found_pages = 0;         // the whole ones
  int32_t found_unreferenced = 0;  // of these, those that now count as available
  bool copies_tail = false;        // its last page is shared and has to be copied before it is written
  ContentId tail;                  // the last whole page before start(); none where it takes nothing over
  bool publishes = false;          // others may take over what it computes
  std::array<SlotDemand, kMaxWindowGroups> slots;  // by group

  constexpr int32_t start() const { return length + found_tokens; }
};

// Available pages that computing num_tokens more takes at most; reserve_tokens is a length to take pages for
// at the same time, where it is the longer one.
constexpr int32_t pages_needed(const PageDemand& demand, int32_t num_tokens, int32_t reserve_tokens,
                               int32_t page_tokens) {
  const int32_t target = std::max(demand.length + demand.found_tokens + num_tokens, reserve_tokens);
  const int32_t held = std::max(demand.held_pages, demand.length / page_tokens + demand.found_pages);
  return std::max(0, pages_for(target, page_tokens) - held) + demand.found_unreferenced +
         (demand.copies_tail ? 1 : 0);
}

// Unused slots of a group that computing num_tokens more takes. Not those of reserve_tokens: a window passes
// over them one after the other, and the policy keeps those of one window unused for it.
constexpr int32_t slots_needed(const PageDemand& demand, size_t group, int32_t num_tokens,
                               int32_t page_tokens) {
  const SlotDemand& slots = demand.slots[group];
  return std::max(0, pages_for(demand.start() + num_tokens, page_tokens) - slots.end) + slots.found_unused +
         (demand.copies_tail ? 1 : 0);
}

// The same where it is computed in the smallest pieces: the sequence can always go on with them.
constexpr int32_t slots_to_go_on(const PageDemand& demand, size_t group, int32_t num_tokens, int32_t window,
                                 int32_t page_tokens) {
  const SlotDemand& slots = demand.slots[group];
  const int32_t most =
      std::min(pages_for(demand.start() + num_tokens, page_tokens), slots_of_window(window, page_tokens));
  return std::max(0, most - slots.num_used) + slots.found_unused + (demand.copies_tail ? 1 : 0);
}

// Pages by which its table grows with that, which is what a quota counts: shared ones too.
constexpr int32_t pages_gained(const PageDemand& demand, int32_t num_tokens, int32_t reserve_tokens,
                               int32_t page_tokens) {
  const int32_t target = std::max(demand.length + demand.found_tokens + num_tokens, reserve_tokens);
  return std::max(0, pages_for(target, page_tokens) - demand.held_pages);
}

}  // namespace quire
