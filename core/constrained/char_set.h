// Sets of Unicode scalar values, as ascending ranges that neither overlap nor touch.
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

// Every scalar value: all code points but surrogates.
CharSet all_chars();
// Any ranges, made ascending and joined; surrogates fall out.
CharSet normalized(CharSet ranges);
CharSet complement(const CharSet& set);
CharSet united(const CharSet& a, const CharSet& b);
CharSet intersected(const CharSet& a, const CharSet& b);
bool contains(const CharSet& set, uint32_t code_point);
// With both cases of ASCII letters where the set has one of them.
CharSet with_both_cases(const CharSet& set);

}  // namespace quire
