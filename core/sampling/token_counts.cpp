#include "core/sampling/token_counts.h"

#include <algorithm>
#include <bit>

namespace quire {

void TokenCounts::reserve(size_t num_distinct) {
  entries_.reserve(num_distinct);
  const size_t num_slots = std::bit_ceil(2 * std::max<size_t>(num_distinct, 8));
  if (num_slots <= slots_.size()) return;
  slots_ = std::vector<int32_t>(num_slots, kVacant);
  for (size_t i = 0; i < entries_.size(); ++i) slots_[slot_of(entries_[i].token)] = static_cast<int32_t>(i);
}

void TokenCounts::add(TokenId token) {
  if (2 * (entries_.size() + 1) > slots_.size()) reserve(2 * (entries_.size() + 1));
  int32_t& place = slots_[slot_of(token)];
  if (place == kVacant) {
    entries_.push_back({token, 0});
    place = static_cast<int32_t>(entries_.size() - 1);
  }
  ++entries_[static_cast<size_t>(place)].count;
}

void TokenCounts::remove(TokenId token) noexcept {
  const size_t slot = slot_of(token);
  Expects(slots_[slot] != kVacant);
  const auto place = static_cast<size_t>(slots_[slot]);
  if (--entries_[place].count > 0) return;
  slots_[slot_of(entries_.back().token)] = static_cast<int32_t>(place);
  entries_[place] = entries_.back();
  entries_.pop_back();
  vacate(slot);
}

size_t TokenCounts::preferred_slot(TokenId token) const {
  // Multiplicative hashing (Knuth, TAOCP 3, 6.4): the high bits of the product decide.
  const uint64_t product = static_cast<uint32_t>(token) * uint64_t{0x9e3779b97f4a7c15};
  return static_cast<size_t>(product >> (64 - std::countr_zero(slots_.size())));
}

size_t TokenCounts::slot_of(TokenId token) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = preferred_slot(token);
  while (slots_[slot] != kVacant && entries_[static_cast<size_t>(slots_[slot])].token != token) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

// Empties a slot and moves up the entries that were probed past it, so that every entry is still reached from
// its preferred slot.
void TokenCounts::vacate(size_t slot) noexcept {
  const size_t mask = slots_.size() - 1;
  for (size_t next = (slot + 1) & mask; slots_[next] != kVacant; next = (next + 1) & mask) {
    const size_t home = preferred_slot(entries_[static_cast<size_t>(slots_[next])].token);
    if (((next - home) & mask) < ((next - slot) & mask)) continue;  // its preferred slot comes after the gap
    slots_[slot] = slots_[next];
    slot = next;
  }
  slots_[slot] = kVacant;
}

}  // namespace quire
