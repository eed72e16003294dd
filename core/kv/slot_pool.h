// Page slots of a group of sliding-window layers: which page has one, how many sequences use it, and LRU
// eviction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/step/window_group.h"

namespace quire {

// A page of the cache has one slot of the group or none. A slot is used by the sequences whose window covers
// its page. An unused slot keeps its content for prefix sharing until another page needs it. Allocates all
// its memory at construction. For one thread at a time.
class SlotPool {
 public:
  SlotPool(const WindowGroup& group, int32_t num_pages);

  int32_t window() const { return window_; }
  int32_t num_slots() const { return static_cast<int32_t>(slots_.size()); }
  int32_t num_unused() const { return num_unused_; }
  bool has(PageId page) const { return slot(page) >= 0; }
  bool is_used(PageId page) const { return has(page) && at(page).num_users > 0; }
  int32_t slot(PageId page) const { return slot_of_page_[static_cast<size_t>(page.value)]; }  // -1: none
  // Returns [num_pages] the slot of each page, or -1.
  gsl::span<const int32_t> slots() const { return slot_of_page_; }
  int32_t page_of(int32_t slot) const { return slots_[static_cast<size_t>(slot)].page; }  // -1: none
  // Returns how often the slot got or lost a page.
  uint64_t generation(int32_t slot) const { return slots_[static_cast<size_t>(slot)].generation; }

  // Returns the page whose slot `use` would give to another page next; value -1 if that slot is empty or
  // there is none.
  PageId next_lost() const { return PageId{first_unused_ < 0 ? -1 : page_of(first_unused_)}; }
  // Adds a user to the slot of a page. A page without a slot gets an empty one, otherwise the least recently
  // used unused one. Throws ErrorCode::capacity if all are used.
  void use(PageId page);
  void leave(PageId page) noexcept;
  // Marks the slot as just used.
  void touch(PageId page) noexcept;
  // Empties the unused slot of a page whose content was dropped; it is taken next.
  void forget(PageId page) noexcept;
  // Moves the only user of the slot of `from` to `to`, which has the same content and has a slot afterwards.
  void hand_over(PageId from, PageId to) noexcept;

  // Returns an empty string if the pool is consistent, otherwise the first problem. `users` are the user
  // counts the caller expects, by page.
  std::string audit(gsl::span<const int32_t> users) const;

 private:
  struct Slot {
    int32_t page = -1;
    int32_t num_users = 0;
    uint64_t generation = 0;
    int32_t previous = -1;  // in the list of unused slots
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
  int32_t first_unused_ = -1;  // empty slots first, then from least to most recently used
  int32_t last_unused_ = -1;
  int32_t num_unused_ = 0;
};

}  // namespace quire
