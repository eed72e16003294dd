// Counts of a few tokens, in a hash table with memory reserved in advance.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

// Counts of the tokens that were added more often than removed. Allocates nothing within the reserved
// capacity, so that a step cannot fail here or leave a partial change. For one thread at a time.
class TokenCounts {
 public:
  struct Entry {
    TokenId token = 0;
    int32_t count = 0;  // 1 or more
  };

  // Reserves memory for so many distinct tokens; more are allocated as needed.
  void reserve(size_t num_distinct);
  void add(TokenId token);
  // Removes one occurrence; there must be one.
  void remove(TokenId token) noexcept;

  bool contains(TokenId token) const { return !entries_.empty() && slots_[slot_of(token)] >= 0; }
  gsl::span<const Entry> entries() const { return entries_; }  // unordered

 private:
  static constexpr int32_t kVacant = -1;

  size_t preferred_slot(TokenId token) const;
  size_t slot_of(TokenId token) const;  // slot of the token, or the vacant slot for it
  void vacate(size_t slot) noexcept;

  std::vector<Entry> entries_;
  std::vector<int32_t> slots_;  // indices into entries_, with linear probing; at most half of them are used
};

}  // namespace quire
