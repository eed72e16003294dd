#include "kernels/cuda/plan/sorted_experts.h"

#include <algorithm>

namespace quire::kernels {
namespace {

// Position of an expert in the order.
enum class Group : int32_t { there, slotted, passing, none };

Group group_of(const PackedExpertsParams& params, PackedRowsOf which, int32_t expert, int32_t num_rows) {
  const ExpertPlace place = params.places != nullptr ? params.places[expert] : ExpertPlace();
  if (place.is_there()) return num_rows > 0 ? Group::there : Group::none;
  if (which == PackedRowsOf::experts_in_slots) return Group::none;
  if (place.slot >= 0) return Group::slotted;
  return num_rows > 0 ? Group::passing : Group::none;
}

}  // namespace

bool sort_experts(const PackedExpertsParams& params, PackedRowsOf which, SortedExperts& sorted,
                  int32_t* rows) {
  int32_t rows_of[kMaxExperts] = {};
  const int32_t num_rows = params.tokens * params.num_chosen;
  for (int32_t r = 0; r < num_rows; ++r) {
    const int32_t expert = params.expert_of_row[r];
    if (expert < 0 || expert >= params.num_experts) return false;
    ++rows_of[expert];
  }
  int32_t next[kMaxExperts];  // row of each expert, -1: none
  std::fill_n(next, params.num_experts, -1);
  sorted.count = 0;
  sorted.first_row[0] = sorted.first_tile[0] = 0;
  const auto add_group = [&](Group group) {
    for (int32_t e = 0; e < params.num_experts; ++e) {
      if (group_of(params, which, e, rows_of[e]) != group) continue;
      const int32_t place = sorted.count++;
      sorted.experts[place] = e;
      next[e] = sorted.first_row[place];
      sorted.first_row[place + 1] = sorted.first_row[place] + rows_of[e];
      sorted.first_tile[place + 1] =
          sorted.first_tile[place] + (rows_of[e] + kPackedTileRows - 1) / kPackedTileRows;
    }
    return sorted.count;
  };
  sorted.end_there = add_group(Group::there);
  sorted.end_slotted = add_group(Group::slotted);
  add_group(Group::passing);
  for (int32_t r = 0; r < num_rows; ++r) {
    int32_t& to = next[params.expert_of_row[r]];
    if (to >= 0) rows[to++] = r;
  }
  return true;
}

}  // namespace quire::kernels
