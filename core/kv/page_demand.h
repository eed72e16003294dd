// Arithmetic of page demand. Used when submit rejects a job, when the scheduler plans, and when pages are
// reserved, so that all three agree.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/kv/content.h"
#include "core/step/window_group.h"

namespace quire {

// Slots of one group of window layers that a sequence uses or would find in the prefix cache.
struct SlotDemand {
  int32_t num_used = 0;      // used by the sequence, including those that it would find
  int32_t end = 0;           // index in its page table after the last of them
  int32_t found_unused = 0;  // those of the found slots that currently count as unused
};

// Pages that a sequence has before a step, and pages that it would find in the prefix cache.
struct PageDemand {
  int32_t length = 0;              // tokens in the cache
  int32_t held_pages = 0;          // in its page table
  int32_t found_tokens = 0;        // computed by other sequences: whole pages and a copied part of one page
  int32_t found_pages = 0;         // found whole pages
  int32_t found_unreferenced = 0;  // found pages that currently count as available
  bool copies_tail = false;        // its last page is shared and has to be copied before it is written
  bool copies_state = false;  // its state is shared or a snapshot, and has to be copied before it is written
  ContentId tail;             // content of the last whole page before start(); none if it shares no pages
  bool publishes = false;     // other sequences may share the pages that it computes
  std::array<SlotDemand, kMaxWindowGroups> slots;  // by group

  constexpr int32_t start() const { return length + found_tokens; }
};

// Returns the largest number of available pages that computing num_tokens more tokens takes. If
// reserve_tokens is larger than the new length, also counts the pages up to it.
constexpr int32_t pages_needed(const PageDemand& demand, int32_t num_tokens, int32_t reserve_tokens,
                               int32_t page_tokens) {
  const int32_t target = std::max(demand.length + demand.found_tokens + num_tokens, reserve_tokens);
  const int32_t held = std::max(demand.held_pages, demand.length / page_tokens + demand.found_pages);
  return std::max(0, pages_for(target, page_tokens) - held) + demand.found_unreferenced +
         (demand.copies_tail ? 1 : 0);
}

// Returns the number of unused slots of a group that computing num_tokens more tokens takes. Does not count
// the slots up to reserve_tokens: the window moves over them one by one, and the scheduler policy keeps one
// window of slots unused for this.
constexpr int32_t slots_needed(const PageDemand& demand, size_t group, int32_t num_tokens,
                               int32_t page_tokens) {
  const SlotDemand& slots = demand.slots[group];
  return std::max(0, pages_for(demand.start() + num_tokens, page_tokens) - slots.end) + slots.found_unused +
         (demand.copies_tail ? 1 : 0);
}

// Returns the same for a computation in the smallest possible chunks: with this many slots the sequence can
// always continue.
constexpr int32_t slots_to_go_on(const PageDemand& demand, size_t group, int32_t num_tokens, int32_t window,
                                 int32_t page_tokens) {
  const SlotDemand& slots = demand.slots[group];
  const int32_t most =
      std::min(pages_for(demand.start() + num_tokens, page_tokens), slots_of_window(window, page_tokens));
  return std::max(0, most - slots.num_used) + slots.found_unused + (demand.copies_tail ? 1 : 0);
}

// Returns by how many pages the page table grows. Quotas count these, including shared pages.
constexpr int32_t pages_gained(const PageDemand& demand, int32_t num_tokens, int32_t reserve_tokens,
                               int32_t page_tokens) {
  const int32_t target = std::max(demand.length + demand.found_tokens + num_tokens, reserve_tokens);
  return std::max(0, pages_for(target, page_tokens) - demand.held_pages);
}

}  // namespace quire
