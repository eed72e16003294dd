// Chained hash index over page slots. All memory is taken at construction; insert and erase cannot fail.
// The prefix cache finds pages here, by a hash for each page instead of a radix tree.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

// A page is in the index at most once. One thread at a time.
class PageIndex {
 public:
  // Hashes are cut to hash_bits, 1 to 64; few bits are for tests, which force collisions.
  PageIndex(int32_t num_pages, int32_t hash_bits);

  // The newest page of a hash, and from there the older ones: slots, -1 at the end. Others of the same bucket
  // come too; the caller compares.
  int32_t first(uint64_t hash) const { return heads_[bucket_of(hash)]; }
  int32_t next(int32_t slot) const { return links_[static_cast<size_t>(slot)].next; }

  bool contains(PageId page) const { return link(page).bucket >= 0; }
  void insert(PageId page, uint64_t hash) noexcept;
  void erase(PageId page) noexcept;  // no-op where it is not in the index

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

// A 64-bit hash of tokens after a parent. An index only: equality is always compared.
uint64_t hash_tokens(uint64_t seed, gsl::span<const TokenId> tokens);

}  // namespace quire
