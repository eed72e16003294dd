// Accounting of device memory, and eviction: which holder has how much, whether a request fits, and which
// models to evict. Pure functions on plain structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gsl/gsl>

#include "core/base/clock.h"

namespace quire {

// Part of a device's memory that is allocated or promised to one holder.
struct MemoryHolder {
  uint64_t id = 0;
  std::string name;  // "the weights of story-15m"
  uint64_t bytes = 0;
  bool is_reserved = false;   // not allocated on the device yet
  bool is_evictable = false;  // may be evicted later: weights of a model, added pages of a cache
};

struct MemoryState {
  uint64_t budget = 0;                 // of all holders together; 0: no limit
  std::optional<uint64_t> free_bytes;  // free on the device now, without the reserve that must stay free
  gsl::span<const MemoryHolder> holders;
};

struct MemoryAnswer {
  bool fits = false;
  bool fits_later = false;  // after the eviction of all holders that may leave
  uint64_t left_bytes = 0;  // available bytes; the maximum if neither budget nor free bytes are given
};

// Decides whether needed_bytes more can be allocated. Promised bytes count against the budget and against the
// free bytes of the device, so every promise is kept in whatever order loads finish.
MemoryAnswer plan_residency(const MemoryState& state, uint64_t needed_bytes) noexcept;

// Model on the device that may be evicted.
struct EvictionCandidate {
  uint64_t bytes = 0;  // freed by its eviction
  int32_t priority = 0;
  TimePoint idle_since;  // end of its last job
};

// Returns the indices of the models to evict so that missing_bytes become free: lowest priority first, then
// the one that was idle longest (LRU), and no more than needed. Returns an empty list if all of them together
// do not suffice.
std::vector<size_t> choose_evictions(gsl::span<const EvictionCandidate> candidates, uint64_t missing_bytes);

// Returns the largest holders as text, such as "the weights of a (12 bytes), the cache of a (5 bytes) and 2
// others", or "no holder".
std::string describe_holders(gsl::span<const MemoryHolder> holders);

}  // namespace quire
