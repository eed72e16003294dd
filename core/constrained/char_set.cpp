#include "core/constrained/char_set.h"

#include <algorithm>

namespace quire {
namespace {

constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;

}  // namespace

CharSet all_chars() {
  return {{0, kFirstSurrogate - 1}, {kLastSurrogate + 1, kMaxCodePoint}};
}

CharSet normalized(CharSet ranges) {
  std::sort(ranges.begin(), ranges.end());
  CharSet joined;
  for (const CharRange& range : ranges) {
    if (range.first > range.last) continue;
    if (!joined.empty() && range.first <= joined.back().last + 1) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  }
  return intersected(joined, all_chars());
}

CharSet complement(const CharSet& set) {
  CharSet gaps;
  uint32_t next = 0;
  for (const CharRange& range : set) {
    if (range.first > next) gaps.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint) gaps.push_back({next, kMaxCodePoint});
  return intersected(gaps, all_chars());
}

CharSet united(const CharSet& a, const CharSet& b) {
  CharSet all = a;
  all.insert(all.end(), b.begin(), b.end());
  return normalized(std::move(all));
}

CharSet intersected(const CharSet& a, const CharSet& b) {
  CharSet common;
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    const uint32_t first = std::max(a[i].first, b[j].first);
    const uint32_t last = std::min(a[i].last, b[j].last);
    if (first <= last) common.push_back({first, last});
    if (a[i].last < b[j].last) {
      ++i;
    } else {
      ++j;
    }
  }
  return common;
}

bool contains(const CharSet& set, uint32_t code_point) {
  return std::any_of(set.begin(), set.end(), [code_point](const CharRange& range) {
    return range.first <= code_point && code_point <= range.last;
  });
}

CharSet with_both_cases(const CharSet& set) {
  CharSet both = set;
  for (uint32_t letter = 'a'; letter <= 'z'; ++letter) {
    const uint32_t capital = letter - 'a' + 'A';
    if (contains(set, letter)) both.push_back({capital, capital});
    if (contains(set, capital)) both.push_back({letter, letter});
  }
  return normalized(std::move(both));
}

}  // namespace quire
