// Hash of a run of tokens, for the places where it occurs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/ids.h"

namespace quire {

// Adds the next token of a run to its hash, which begins with 0. The upper half is the better one.
inline uint64_t add_to_hash(uint64_t hash, TokenId token) {
  return (hash + static_cast<uint32_t>(token) + 1) * 0x9E3779B97F4A7C15U;
}

// Returns the bucket of a hash; num_buckets is a power of two.
inline size_t bucket_of(uint64_t hash, size_t num_buckets) {
  return static_cast<size_t>(hash >> 32) & (num_buckets - 1);
}

}  // namespace quire
