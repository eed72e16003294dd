// The lanes of a step over a recurrent state: which bank each reads and writes.
#pragma once

#include <cstdint>

#include "kernels/cpu/device.h"
#include "kernels/cpu/state/state_work.h"
#include "kernels/interface/state_params.h"

namespace quire::kernels {

// How the rows of a bank are grouped: [groups, kStateLine, elements of a row / groups].
struct BankGroups {
  int32_t keys = 1;
  int32_t updates = 1;
  int32_t decays = 1;
};

// Fills context->state_lanes from the batch. For lanes that read another slot than they write, first copies
// what the bank holds before the first row. Fails with invalid_argument if slots, banks or positions do not
// fit.
Status open_lanes(Context* context, const char* operation, const StateOpParams& params,
                  const StateShape& shape, const BankGroups& groups);

// Calls work(lane, unit) for units 0..num_units-1 of each lane; `row_work` is the work of one unit and row.
template <typename Work>
void each_unit(Context* context, int32_t num_units, int64_t row_work, const Work& work) {
  const std::vector<StateLane>& lanes = context->state_lanes;
  if (lanes.empty()) return;
  int64_t rows = 0;
  for (const StateLane& lane : lanes) rows += lane.num_rows;
  const auto num_lanes = static_cast<int64_t>(lanes.size());
  const int64_t unit_work = (rows * row_work + num_lanes - 1) / num_lanes;
  share_work(context, num_lanes * num_units, unit_work, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      work(lanes[static_cast<size_t>(i / num_units)], static_cast<int32_t>(i % num_units));
  });
}

}  // namespace quire::kernels
