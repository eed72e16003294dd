// Chained hash index of pages for the prefix cache. Allocates all its memory at construction; insert and
// erase cannot fail. The prefix cache finds pages by one hash per page, without a radix tree.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

// A page is in the index at most once. For one thread at a time.
class PageIndex {
 public:
  // Hashes are truncated to hash_bits, 1 to 64. Tests use few bits to force collisions.
  PageIndex(int32_t num_pages, int32_t hash_bits);

  // `first` returns the newest page of the bucket of a hash, `next` the next older one; -1 at the end. A
  // bucket may contain pages with other hashes, so the caller compares the content.
  int32_t first(uint64_t hash) const { return heads_[bucket_of(hash)]; }
  int32_t next(int32_t slot) const { return links_[static_cast<size_t>(slot)].next; }

  bool contains(PageId page) const { return link(page).bucket >= 0; }
  void insert(PageId page, uint64_t hash) noexcept;
  void erase(PageId page) noexcept;  // does nothing if it is not in the index

 private:
  struct Link {
    int32_t previous = -1;
    int32_t next = -1;
    int32_t bucket = -1;
  };

  size_t bucket_of(uint64_t hash) const { return static_cast<size_t>((hash & hash_mask_) & bucket_mask_); }
  const Link& link(PageId page) const { return links_[static_cast<size_t>(page.value)]; }
  Link& link(PageId page) { return links_[static_cast<size_t>(page.value)]; }

  uint64_t hash_mask_;
  uint64_t bucket_mask_;
  std::vector<int32_t> heads_;
  std::vector<Link> links_;
};

// Returns a 64-bit hash of tokens after a parent. Only for lookup: callers always compare the tokens as well.
uint64_t hash_tokens(uint64_t seed, gsl::span<const TokenId> tokens);

}  // namespace quire
