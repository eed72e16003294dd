// Finds where a text can be split before BPE merging, so that long texts without spaces need no long merges.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace quire {

// The pairs of adjacent characters that occur in any token that merging can produce. No merge crosses any
// other pair. Immutable once filled; then safe to use from any thread.
class AdjacentPairs {
 public:
  AdjacentPairs() : pairs_(kMinPlaces) {}

  // `text` is the text of a token, valid UTF-8.
  void add_token(std::string_view text);
  // Returns whether some token has the two characters next to each other.
  bool joins(uint32_t left, uint32_t right) const { return pairs_[find_place(key_of(left, right))] != 0; }

 private:
  static constexpr size_t kMinPlaces = 64;

  // Never 0, which marks a free slot.
  static uint64_t key_of(uint32_t left, uint32_t right) {
    return (static_cast<uint64_t>(left) << 32 | right) + 1;
  }
  size_t find_place(uint64_t key) const {
    uint64_t hash = key * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32;
    size_t place = hash & (pairs_.size() - 1);
    while (pairs_[place] != 0 && pairs_[place] != key) place = (place + 1) & (pairs_.size() - 1);
    return place;
  }
  void insert(uint64_t key);

  std::vector<uint64_t> pairs_;  // open addressing, at most half full
  size_t num_pairs_ = 0;
};

}  // namespace quire
