// Who holds what of a device's memory, and whether somebody else can have some. Pure functions on plain
// structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gsl/gsl>

#include "core/base/clock.h"

namespace quire {

// A part of a device's memory that was given away.
struct MemoryHolder {
  uint64_t id = 0;
  std::string name;  // "the weights of story-15m"
  uint64_t bytes = 0;
  bool is_promised = false;  // not taken of the device yet
  bool may_leave = false;    // some day, for others: weights of a model, pages of a cache that has grown
};

struct MemoryState {
  uint64_t budget = 0;                 // of all holders together; 0: none
  std::optional<uint64_t> free_bytes;  // that the device has now, beside what is to be left alone
  gsl::span<const MemoryHolder> holders;
};

struct MemoryAnswer {
  bool fits = false;
  bool fits_later = false;  // once all that may leave have left
  uint64_t left_bytes = 0;  // that could be had; no limit where neither budget nor free bytes are told
};

// Whether needed_bytes more can be given away. What is promised counts against the budget and against what
// the device has free: whoever was promised something gets it, in whatever order loads end.
MemoryAnswer plan_residency(const MemoryState& state, uint64_t needed_bytes) noexcept;

// A model on the device that could leave it.
struct EvictionCandidate {
  uint64_t bytes = 0;  // that would be free then
  int32_t priority = 0;
  TimePoint idle_since;  // of its last job
};

// Which models leave so that missing_bytes become free, by place: those of the lowest priority first, of
// these the one that was idle longest; none that is not needed. Empty where all together do not suffice.
std::vector<size_t> choose_evictions(gsl::span<const EvictionCandidate> candidates, uint64_t missing_bytes);

// The largest holders, as in "the weights of a (12 bytes), the cache of a (5 bytes) and 2 others"; "nobody".
std::string tell_holders(gsl::span<const MemoryHolder> holders);

}  // namespace quire
