// A hash table from strings to token ids that does not store strings: a function of the caller returns the
// string of an id.
#pragma once

#include <bit>
#include <functional>
#include <string_view>
#include <vector>

#include "core/base/ids.h"

namespace quire {

// A hash table with open addressing, at most half full. Immutable once filled; then safe to use from any
// thread.
class IdTable {
 public:
  static constexpr TokenId kNone = -1;

  IdTable() : IdTable(0) {}
  explicit IdTable(size_t max_entries) : slots_(std::bit_ceil(max_entries * 2 + 2), {0, kNone}) {}

  // Returns false, without a change, if a string equal to that of `id` is present. At most max_entries
  // insertions.
  template <typename StringOf>
  bool insert(TokenId id, StringOf&& string_of) {
    const std::string_view key = string_of(id);
    Slot& slot = slots_[find_slot(key, string_of)];
    if (slot.id != kNone) return false;
    slot = {hash_of(key), id};
    return true;
  }

  template <typename StringOf>
  TokenId find(std::string_view key, StringOf&& string_of) const {
    return slots_[find_slot(key, string_of)].id;
  }

 private:
  struct Slot {
    uint32_t hash;
    TokenId id;
  };

  static uint32_t hash_of(std::string_view key) {
    const uint64_t hash = std::hash<std::string_view>{}(key);
    return static_cast<uint32_t>(hash ^ (hash >> 32));
  }

  // Returns the slot of `key`, or the slot where it would be inserted.
  template <typename StringOf>
  size_t find_slot(std::string_view key, StringOf&& string_of) const {
    const uint32_t hash = hash_of(key);
    size_t slot_idx = hash & (slots_.size() - 1);
    while (slots_[slot_idx].id != kNone) {
      if (slots_[slot_idx].hash == hash && string_of(slots_[slot_idx].id) == key) break;
      slot_idx = (slot_idx + 1) & (slots_.size() - 1);
    }
    return slot_idx;
  }

  std::vector<Slot> slots_;
};

}  // namespace quire
