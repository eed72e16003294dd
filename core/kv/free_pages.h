// Set of the free pages of a cache. The lowest page is taken first, so that the last chunk becomes free and
// its memory can be released.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/base/ids.h"

namespace quire {

// Allocates all its memory at construction. For one thread at a time.
class FreePages {
 public:
  explicit FreePages(int32_t max_pages) : words_((static_cast<size_t>(max_pages) + 63) / 64) {}

  int32_t size() const { return size_; }
  bool contains(PageId page) const { return (word(page) & bit(page)) != 0; }
  void insert(PageId page) noexcept {
    words_[index(page)] |= bit(page);
    first_word_ = std::min(first_word_, index(page));
    ++size_;
  }
  void erase(PageId page) noexcept {
    words_[index(page)] &= ~bit(page);
    --size_;
  }
  // Returns the lowest free page, or value -1 if there is none.
  PageId lowest() const noexcept {
    if (size_ == 0) return PageId{-1};
    while (words_[first_word_] == 0) ++first_word_;
    return PageId{static_cast<int32_t>(first_word_ * 64) + std::countr_zero(words_[first_word_])};
  }

 private:
  static size_t index(PageId page) { return static_cast<size_t>(page.value) / 64; }
  static uint64_t bit(PageId page) { return uint64_t{1} << (static_cast<size_t>(page.value) % 64); }
  uint64_t word(PageId page) const { return words_[index(page)]; }

  std::vector<uint64_t> words_;
  mutable size_t first_word_ = 0;  // no word before it has a free page
  int32_t size_ = 0;
};

}  // namespace quire
