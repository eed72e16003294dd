#include "core/kv/page_index.h"

#include <bit>

namespace quire {

PageIndex::PageIndex(int32_t num_pages, int32_t hash_bits)
    : hash_mask_(hash_bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << hash_bits) - 1),
      bucket_mask_(std::bit_ceil(static_cast<uint64_t>(num_pages) * 2) - 1),
      heads_(bucket_mask_ + 1, -1),
      links_(static_cast<size_t>(num_pages)) {
  Expects(hash_bits >= 1 && num_pages >= 1);
}

void PageIndex::insert(PageId page, uint64_t hash) noexcept {
  const size_t bucket = bucket_of(hash);
  Link& inserted = link(page);
  inserted = {-1, heads_[bucket], static_cast<int32_t>(bucket)};
  if (inserted.next >= 0) links_[static_cast<size_t>(inserted.next)].previous = page.value;
  heads_[bucket] = page.value;
}

void PageIndex::erase(PageId page) noexcept {
  Link& erased = link(page);
  if (erased.bucket < 0) return;
  if (erased.previous >= 0) {
    links_[static_cast<size_t>(erased.previous)].next = erased.next;
  } else {
    heads_[static_cast<size_t>(erased.bucket)] = erased.next;
  }
  if (erased.next >= 0) links_[static_cast<size_t>(erased.next)].previous = erased.previous;
  erased = {};
}

namespace {

// Finalizer of splitmix64 (Steele, Lea, Flood 2014).
uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t hash_tokens(uint64_t seed, gsl::span<const TokenId> tokens) {
  uint64_t hash = mix(seed + 0x9e3779b97f4a7c15U);
  for (const TokenId token : tokens) hash = mix(hash ^ static_cast<uint32_t>(token)) + 0x9e3779b97f4a7c15U;
  return hash;
}

}  // namespace quire
