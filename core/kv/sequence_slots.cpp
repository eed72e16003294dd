// Slots of layers with a sliding window: how sequences use them, and how a step takes and releases them.
#include <algorithm>

#include <fmt/core.h>

#include "core/kv/kv_cache.h"

namespace quire {

bool KvCache::has_slots(PageId page) const {
  return std::all_of(windows_.begin(), windows_.end(),
                     [&](const SlotPool& window) { return window.has(page); });
}

// Returns the largest length up to num_tokens whose windows have all their slots. If a page lacks a slot, no
// length whose window covers it is valid; a shorter length moves the window back, so the search repeats.
int32_t KvCache::usable_length(int32_t num_tokens,
                               const std::function<bool(const SlotPool&, int32_t)>& has_slot) const {
  for (;;) {
    int32_t missing = -1;
    for (const SlotPool& window : windows_) {
      const int32_t first = first_kept_page(num_tokens, window.window(), pool_.page_tokens());
      int32_t page_idx = pages_for(num_tokens, pool_.page_tokens()) - 1;
      while (page_idx >= first && has_slot(window, page_idx)) --page_idx;
      if (page_idx >= first) missing = std::max(missing, page_idx);
    }
    if (missing < 0) return num_tokens;
    num_tokens = missing * pool_.page_tokens();
  }
}

// Makes the sequence use the slots of `range` of its page table and no others. All of them exist.
void KvCache::use_range(Sequence& sequence, size_t group, SlotRange range) noexcept {
  const SlotRange before = sequence.slots[group];
  const auto page = [&](int32_t page_idx) { return sequence.pages[static_cast<size_t>(page_idx)]; };
  for (int32_t i = range.begin; i < range.end; ++i) {
    if (before.holds(i)) continue;
    Expects(windows_[group].has(page(i)));
    windows_[group].use(page(i));
  }
  for (int32_t i = before.begin; i < before.end; ++i) {
    if (!range.holds(i)) windows_[group].leave(page(i));
  }
  sequence.slots[group] = range;
}

// Releases a page, and its slots if it became free.
void KvCache::release_page(PageId page) noexcept {
  pool_.release(page);
  if (!pool_.is_free(page)) return;
  for (SlotPool& window : windows_) window.forget(page);
}

void KvCache::touch(PageId page) noexcept {
  pool_.touch(page);
  for (SlotPool& window : windows_) window.touch(page);
}

// Uses the slot of a page. If it gets that of another page, the snapshots that need it there leave first.
void KvCache::use_slot(size_t group, PageId page) {
  if (!windows_[group].has(page) && windows_[group].next_lost().value >= 0)
    drop_states_of_slot(group, windows_[group].next_lost());
  windows_[group].use(page);
}

// Uses a slot for the open reservation, which releases it on a rollback.
void KvCache::take_slot(size_t group, PageId page) {
  step_.allocated_slots.push_back({group, page});
  try {
    use_slot(group, page);
  } catch (...) {
    step_.allocated_slots.pop_back();
    throw;
  }
}

// Uses the slots of all pages of the table before `end`.
void KvCache::take_slots(Sequence& sequence, int32_t end) {
  for (size_t g = 0; g < windows_.size(); ++g) {
    SlotRange& range = sequence.slots[g];
    for (; range.end < end; ++range.end) take_slot(g, sequence.pages[static_cast<size_t>(range.end)]);
  }
}

SlotCounts KvCache::slots_of(PageId page) const {
  SlotCounts slots{};
  for (size_t g = 0; g < windows_.size(); ++g) slots[g] = page.value < 0 ? -1 : windows_[g].slot(page);
  return slots;
}

// If the slot itself moved to the target, its content is in place and nothing is copied.
void KvCache::copy_slots(const SlotCounts& source, PageId target, int32_t num_tokens) {
  for (size_t g = 0; g < windows_.size(); ++g) {
    const PageId from{source[g]}, to{windows_[g].slot(target)};
    if (from != to) step_.copies.push_back({from, to, num_tokens, static_cast<int32_t>(g) + 1});
  }
}

// Uses the slots of pages that a sequence is about to adopt, as far back as its window reaches from the new
// end. Its previous slots remain its own until the commit.
void KvCache::adopt_slots(size_t change_idx, gsl::span<const PageId> found) {
  Sequence& sequence = *step_.changes[change_idx].sequence;
  const int32_t start = sequence.length / pool_.page_tokens();
  const int32_t end = start + static_cast<int32_t>(found.size());
  for (size_t g = 0; g < windows_.size(); ++g) {
    SlotRange& range = sequence.slots[g];
    const int32_t begin = std::max(range.begin, first_kept(g, end * pool_.page_tokens()));
    for (int32_t i = range.begin; i < std::min(range.end, end); ++i) {
      if (i < begin || i >= start)
        step_.released_slots.push_back({g, sequence.pages[static_cast<size_t>(i)]});
    }
    for (int32_t i = std::max(begin, start); i < end; ++i)
      take_slot(g, found[static_cast<size_t>(i - start)]);
    range = {begin, std::max(range.end, end)};
  }
}

// Releases the slots of pages before the window.
void KvCache::release_slots_before_window(Sequence& sequence) noexcept {
  for (size_t g = 0; g < windows_.size(); ++g) {
    SlotRange range = sequence.slots[g];
    range.begin = std::min(range.end, std::max(range.begin, first_kept(g, sequence.length)));
    use_range(sequence, g, range);
  }
}

std::string KvCache::audit_slots(size_t group) const {
  std::vector<int32_t> users(static_cast<size_t>(pool_.max_pages()), 0);
  for (const auto& sequence : sequences_.places()) {
    const SlotRange range = sequence->slots[group];
    if (range.begin < 0 || range.end > static_cast<int32_t>(sequence->pages.size()))
      return "a sequence uses slots beyond its pages";
    const int32_t end = pages_for(sequence->length, pool_.page_tokens());
    if (end > 0 && (range.begin > first_kept(group, sequence->length) || range.end < end))
      return fmt::format("a sequence of {} tokens lacks slots of its window", sequence->length);
    for (int32_t i = range.begin; i < range.end; ++i)
      ++users[static_cast<size_t>(sequence->pages[static_cast<size_t>(i)].value)];
  }
  for (const PageId page : pins_.slots[group]) ++users[static_cast<size_t>(page.value)];
  for (int32_t page = 0; page < pool_.num_pages(); ++page) {
    if (pool_.is_free(PageId{page}) && windows_[group].has(PageId{page}))
      return fmt::format("free page {} has a slot", page);
  }
  return windows_[group].audit(users);
}

}  // namespace quire
