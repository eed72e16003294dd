// How often each of a few tokens occurs, with all memory taken beforehand.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

// Tokens that were added more often than removed. Taking no memory within what reserve was told, so that a
// step can neither fail here nor leave half a change. One thread at a time.
class TokenCounts {
 public:
  struct Entry {
    TokenId token = 0;
    int32_t count = 0;  // 1 or more
  };

  // Room for so many distinct tokens; more than that is taken as it comes.
  void reserve(size_t num_distinct);
  void add(TokenId token);
  // Takes one occurrence back; there must be one.
  void remove(TokenId token) noexcept;

  bool contains(TokenId token) const { return !entries_.empty() && slots_[slot_of(token)] >= 0; }
  gsl::span<const Entry> entries() const { return entries_; }  // in no order

 private:
  static constexpr int32_t kVacant = -1;

  size_t home_of(TokenId token) const;
  size_t slot_of(TokenId token) const;  // where it is, or the vacant slot where it would be
  void vacate(size_t slot) noexcept;

  std::vector<Entry> entries_;
  std::vector<int32_t> slots_;  // places in entries_, probed linearly; at most half of them are taken
};

}  // namespace quire
