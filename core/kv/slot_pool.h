// The pages of layers with a window: which page of the cache has one, who uses it, and which is taken next.
// Used by layers with a sliding window.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/step/window_group.h"

namespace quire {

// A page of the cache has one slot of the group or none. A slot is used by the sequences that see its page;
// one that nobody uses keeps what it holds, for prefixes that are found again, until it is taken. All memory
// is taken at construction. One thread at a time.
class SlotPool {
 public:
  SlotPool(const WindowGroup& group, int32_t num_pages);

  int32_t window() const { return window_; }
  int32_t num_slots() const { return static_cast<int32_t>(slots_.size()); }
  int32_t num_unused() const { return num_unused_; }
  bool has(PageId page) const { return slot(page) >= 0; }
  bool is_used(PageId page) const { return has(page) && at(page).num_users > 0; }
  int32_t slot(PageId page) const { return slot_of_page_[static_cast<size_t>(page.value)]; }  // -1: none
  // [num_pages] slot of each page, or -1.
  gsl::span<const int32_t> slots() const { return slot_of_page_; }
  int32_t page_of(int32_t slot) const { return slots_[static_cast<size_t>(slot)].page; }  // -1: none

  // One more user of the page's slot. A page without one gets an empty one, else the one that nobody has used
  // for the longest time; throws ErrorCode::capacity where all are used.
  void use(PageId page);
  void leave(PageId page) noexcept;
  // Counts as used now.
  void touch(PageId page) noexcept;
  // What the page held is gone, and nobody uses its slot: that is the next to be taken.
  void forget(PageId page) noexcept;
  // The only user of the slot of `from` goes over to `to`, which holds the same, and has a slot after that.
  void hand_over(PageId from, PageId to) noexcept;

  // Empty where all is sound, else what is not. `users` are those that the caller knows of, by page.
  std::string audit(gsl::span<const int32_t> users) const;

 private:
  struct Slot {
    int32_t page = -1;
    int32_t num_users = 0;
    int32_t previous = -1;  // among those that nobody uses
    int32_t next = -1;
  };

  Slot& at(PageId page) { return slots_[static_cast<size_t>(slot(page))]; }
  const Slot& at(PageId page) const { return slots_[static_cast<size_t>(slot(page))]; }
  void link(int32_t slot, int32_t previous, int32_t next) noexcept;
  void unlink(int32_t slot) noexcept;
  void move_to(int32_t slot, PageId page) noexcept;

  int32_t window_;
  std::vector<Slot> slots_;
  std::vector<int32_t> slot_of_page_;
  int32_t first_unused_ = -1;  // empty ones, then the one that was used longest ago
  int32_t last_unused_ = -1;
  int32_t num_unused_ = 0;
};

}  // namespace quire
