// How many slots for recurrent states have memory in a cache that grows and shrinks.
#pragma once

#include <cstdint>

namespace quire {

// The number of slots follows the number of pages, so that one number describes the memory of a cache: from
// least_slots with least_pages to num_slots with num_pages.
struct StateSlotRange {
  int32_t num_slots = 0;    // maximum
  int32_t least_slots = 0;  // 0: all slots always have memory
  int32_t num_pages = 0;    // maximum
  int32_t least_pages = 0;  // 0: all pages always have memory, and all slots

  // Returns the slots that have memory when this many pages have, from least_pages to num_pages.
  constexpr int32_t slots_at(int32_t pages) const {
    if (least_slots == 0 || least_pages == 0 || least_pages >= num_pages) return num_slots;
    const int64_t more = int64_t{num_slots - least_slots} * (pages - least_pages) / (num_pages - least_pages);
    return least_slots + static_cast<int32_t>(more);
  }
};

}  // namespace quire
