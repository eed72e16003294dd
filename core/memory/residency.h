// Who holds what of a device's memory, and whether somebody else can have some. Pure functions on plain
// structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <gsl/gsl>

namespace quire {

// A part of a device's memory that was given away.
struct MemoryHolder {
  uint64_t id = 0;
  std::string name;  // "the weights of story-15m"
  uint64_t bytes = 0;
  bool is_promised = false;  // not taken of the device yet
};

struct MemoryState {
  uint64_t budget = 0;                 // of all holders together; 0: none
  std::optional<uint64_t> free_bytes;  // that the device has now, beside what is to be left alone
  gsl::span<const MemoryHolder> holders;
};

struct MemoryAnswer {
  bool fits = false;
  uint64_t left_bytes = 0;  // that could be had; no limit where neither budget nor free bytes are told
};

// Whether needed_bytes more can be given away. What is promised counts against the budget and against what
// the device has free: whoever was promised something gets it, in whatever order loads end.
MemoryAnswer plan_residency(const MemoryState& state, uint64_t needed_bytes) noexcept;

// The largest holders, as in "the weights of a (12 bytes), the cache of a (5 bytes) and 2 others"; "nobody".
std::string tell_holders(gsl::span<const MemoryHolder> holders);

}  // namespace quire
