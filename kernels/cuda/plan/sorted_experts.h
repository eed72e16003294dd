// Order in which a card multiplies the experts of a call: those in slots, those that get into slots, and
// those that only pass through a staging buffer.
#pragma once

#include "kernels/cuda/plan/packed_layout.h"

namespace quire::kernels {

// Which rows of a call a card multiplies.
enum class PackedRowsOf : int32_t {
  all_experts,
  experts_in_slots,
};

struct SortedExperts {
  int32_t experts[kMaxExperts];
  int32_t end_there = 0;    // of the experts in slots
  int32_t end_slotted = 0;  // of the experts that get into slots, with rows or without
  int32_t count = 0;        // of all experts
  int32_t first_row[kMaxExperts + 1];
  int32_t first_tile[kMaxExperts + 1];

  int32_t num_rows(int32_t place) const { return first_row[place + 1] - first_row[place]; }
  int32_t num_rows() const { return first_row[count]; }
};

// Sorts the rows by the places of their experts, and writes them to `rows`; the rows of an expert keep their
// order. Returns false if a row has no expert.
bool sort_experts(const PackedExpertsParams& params, PackedRowsOf which, SortedExperts& sorted,
                  int32_t* rows);

}  // namespace quire::kernels
