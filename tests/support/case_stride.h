// Sizes of tests with very many like cases.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace quire::testing {

#ifdef QUIRE_SANITIZED
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

// Returns the stride with which a test goes through very many like cases: `stride` under a sanitizer, which
// is 5 to 20 times as slow, else 1: every case.
constexpr int stride_if_sanitized(int stride) {
  return kIsSanitized ? stride : 1;
}

// Returns every item, but under a sanitizer every stride-th one.
template <typename Item>
std::vector<Item> thin_if_sanitized(std::vector<Item> items, int stride) {
  std::vector<Item> some;
  for (size_t i = 0; i < items.size(); i += static_cast<size_t>(stride_if_sanitized(stride)))
    some.push_back(std::move(items[i]));
  return some;
}

}  // namespace quire::testing
