// The BPE merges: which two adjacent tokens become which token, and in which order.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/base/ids.h"

namespace quire {

struct Merge {
  uint32_t rank = std::numeric_limits<uint32_t>::max();  // the lowest rank is applied first
  TokenId result = -1;
  bool exists() const { return result >= 0; }
};

// A hash table with open addressing, at most half full. Immutable once filled; then safe to use from any
// thread.
class MergeTable {
 public:
  MergeTable() : MergeTable(0) {}
  explicit MergeTable(size_t max_entries) : slots_(std::bit_ceil(max_entries * 2 + 2)) {}

  // A pair that is already present takes the new rank, as in the `tokenizers` library.
  void insert(TokenId left, TokenId right, Merge merge) {
    Slot& slot = slots_[find_slot(key_of(left, right))];
    slot = {key_of(left, right), merge};
  }
  Merge find(TokenId left, TokenId right) const { return slots_[find_slot(key_of(left, right))].merge; }

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = std::numeric_limits<uint64_t>::max();

  static uint64_t key_of(TokenId left, TokenId right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  }
  size_t find_slot(uint64_t key) const {
    uint64_t hash = key * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32;
    size_t slot_idx = hash & (slots_.size() - 1);
    while (slots_[slot_idx].key != key && slots_[slot_idx].key != kEmpty) {
      slot_idx = (slot_idx + 1) & (slots_.size() - 1);
    }
    return slot_idx;
  }

  std::vector<Slot> slots_;
};

}  // namespace quire
