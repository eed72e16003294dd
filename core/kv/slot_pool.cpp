#include "core/kv/slot_pool.h"

#include <fmt/core.h>

#include "core/base/error.h"

namespace quire {

SlotPool::SlotPool(const WindowGroup& group, int32_t num_pages)
    : window_(group.window),
      slots_(static_cast<size_t>(group.num_slots)),
      slot_of_page_(static_cast<size_t>(num_pages), -1) {
  Expects(group.window >= 1 && group.num_slots >= 1);
  for (int32_t slot = 0; slot < group.num_slots; ++slot) link(slot, last_unused_, -1);
}

void SlotPool::use(PageId page) {
  if (!has(page)) {
    if (first_unused_ < 0)
      throw Error(ErrorCode::capacity, "all {} page slots of layers with a window of {} tokens are in use",
                  num_slots(), window_);
    move_to(first_unused_, page);
  }
  if (at(page).num_users++ == 0) unlink(slot(page));
}

void SlotPool::leave(PageId page) noexcept {
  Expects(is_used(page));
  if (--at(page).num_users == 0) link(slot(page), last_unused_, -1);
}

void SlotPool::touch(PageId page) noexcept {
  if (!has(page) || at(page).num_users > 0) return;
  unlink(slot(page));
  link(slot(page), last_unused_, -1);
}

void SlotPool::forget(PageId page) noexcept {
  if (!has(page)) return;
  Expects(at(page).num_users == 0);
  const int32_t emptied = slot(page);
  move_to(emptied, PageId{-1});
  unlink(emptied);
  link(emptied, -1, first_unused_);
}

void SlotPool::hand_over(PageId from, PageId to) noexcept {
  Expects(is_used(from) && at(from).num_users == 1);
  if (!has(to)) return move_to(slot(from), to);
  use(to);
  leave(from);
}

// Inserts a slot into the list of unused slots, between two neighbours; -1: an end of the list.
void SlotPool::link(int32_t slot, int32_t previous, int32_t next) noexcept {
  slots_[static_cast<size_t>(slot)].previous = previous;
  slots_[static_cast<size_t>(slot)].next = next;
  (previous >= 0 ? slots_[static_cast<size_t>(previous)].next : first_unused_) = slot;
  (next >= 0 ? slots_[static_cast<size_t>(next)].previous : last_unused_) = slot;
  ++num_unused_;
}

void SlotPool::unlink(int32_t slot) noexcept {
  const Slot gone = slots_[static_cast<size_t>(slot)];
  (gone.previous >= 0 ? slots_[static_cast<size_t>(gone.previous)].next : first_unused_) = gone.next;
  (gone.next >= 0 ? slots_[static_cast<size_t>(gone.next)].previous : last_unused_) = gone.previous;
  --num_unused_;
}

void SlotPool::move_to(int32_t slot, PageId page) noexcept {
  int32_t& held = slots_[static_cast<size_t>(slot)].page;
  if (held >= 0) slot_of_page_[static_cast<size_t>(held)] = -1;
  held = page.value;
  ++slots_[static_cast<size_t>(slot)].generation;
  if (held >= 0) slot_of_page_[static_cast<size_t>(held)] = slot;
}

std::string SlotPool::audit(gsl::span<const int32_t> users) const {
  int32_t num_with_users = 0;
  for (size_t page = 0; page < slot_of_page_.size(); ++page) {
    const int32_t slot = slot_of_page_[page];
    if (slot < 0 && users[page] > 0)
      return fmt::format("page {} has no slot, and {} users", page, users[page]);
    if (slot < 0) continue;
    const Slot& held = slots_[static_cast<size_t>(slot)];
    if (held.page != static_cast<int32_t>(page)) return fmt::format("slot {} is of two pages", slot);
    if (held.num_users != users[page])
      return fmt::format("slot {} counts {} users but has {}", slot, held.num_users, users[page]);
    num_with_users += held.num_users > 0 ? 1 : 0;
  }
  int32_t count = 0;
  for (int32_t slot = first_unused_; slot >= 0; slot = slots_[static_cast<size_t>(slot)].next) {
    if (slots_[static_cast<size_t>(slot)].num_users > 0 || ++count > num_slots())
      return "the list of unused slots is broken";
  }
  const bool adds_up = count == num_unused_ && num_with_users + count == num_slots();
  return adds_up ? std::string()
                 : fmt::format("{} slots are used and {} not, of {}", num_with_users, count, num_slots());
}

}  // namespace quire
