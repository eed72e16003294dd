// Sets of Unicode scalar values, as sorted ranges that neither overlap nor touch.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace quire {

struct CharRange {
  uint32_t first = 0;
  uint32_t last = 0;
  auto operator<=>(const CharRange&) const = default;
};
using CharSet = std::vector<CharRange>;

constexpr uint32_t kMaxCodePoint = 0x10FFFF;

// Returns all scalar values: all code points except surrogates.
CharSet all_chars();
// Sorts and merges arbitrary ranges; removes surrogates.
CharSet normalized(CharSet ranges);
CharSet complement(const CharSet& set);
CharSet united(const CharSet& a, const CharSet& b);
CharSet intersected(const CharSet& a, const CharSet& b);
bool contains(const CharSet& set, uint32_t code_point);
// Adds the other case of each ASCII letter in the set.
CharSet with_both_cases(const CharSet& set);

}  // namespace quire
