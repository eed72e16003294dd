#include "kernels/cuda/weight_plan.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "kernels/interface/half.h"

namespace quire::kernels {
namespace {

int32_t num_steps_of(int32_t rows) {
  return (rows + kStepRows - 1) / kStepRows;
}

// Runs of steps with one width and one power-of-two group size. Empty where the groups do not fit.
std::vector<Run> runs_of(const std::vector<int32_t>& group_rows, const std::vector<int32_t>& group_bits) {
  std::vector<Run> runs;
  int32_t step = 0;
  for (size_t i = 0; i < group_rows.size(); ++i) {
    if (group_rows[i] % kStepRows != 0) return {};
    const int32_t steps = group_rows[i] / kStepRows;
    // The last group of a run may be shorter than the others.
    const bool continues =
        !runs.empty() && runs.back().bits == group_bits[i] &&
        (runs.back().end_step - runs.back().first_step) % (1 << runs.back().group_shift) == 0 &&
        steps <= (1 << runs.back().group_shift);
    if (continues) {
      runs.back().end_step += steps;
    } else {
      Run run;
      run.first_step = step;
      run.end_step = step + steps;
      run.bits = group_bits[i];
      run.first_group = static_cast<int32_t>(i);
      run.group_shift = static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(steps - 1)));
      runs.push_back(run);
    }
    step += steps;
  }
  if (runs.size() > static_cast<size_t>(kMaxRuns)) return {};
  return runs;
}

void place_runs(PartPlan& plan) {
  uint32_t bytes = 0;
  for (Run& run : plan.runs) {
    run.first_byte = bytes;
    bytes += static_cast<uint32_t>(run.end_step - run.first_step) * static_cast<uint32_t>(run.bits) * 128;
  }
  plan.strip_bytes = bytes;
}

void make_dense(PartPlan& plan) {
  plan.kind = TileKind::dense;
  plan.num_groups = 1;
  Run run;
  run.end_step = num_steps_of(plan.source->num_in);
  run.bits = 16;
  run.group_shift = 30;
  plan.runs = {run};
  place_runs(plan);
}

bool plan_exl2(PartPlan& plan) {
  const WeightSource& source = *plan.source;
  const Exl2Source& exl2 = source.exl2;
  std::vector<int32_t> rows, bits;
  int32_t next = 0;
  for (int32_t i = 0; i < exl2.num_groups; ++i) {
    const Exl2Group& group = exl2.groups[i];
    if (group.first_row != next || group.num_rows <= 0) return false;
    if (group.bits < 2 || group.bits == 7 || group.bits > 8) return false;
    rows.push_back(group.num_rows);
    bits.push_back(group.bits);
    for (int32_t r = 0; r < group.num_rows; ++r) {
      plan.row_group.push_back(i);
      plan.row_bits.push_back(group.bits | r << 8);
      plan.row_packed.push_back(group.first_packed_row);
    }
    const uint16_t scale = float_to_half(half_to_float(exl2.q_scale_max[i]) * source.prescale / 256.0f);
    plan.group_scale.push_back(scale * 0x00010001U);
    next += group.num_rows;
  }
  if (next != source.num_in) return false;
  plan.runs = runs_of(rows, bits);
  if (plan.runs.empty()) {
    make_dense(plan);
    return true;
  }
  plan.kind = TileKind::exl2;
  plan.num_groups = exl2.num_groups;
  place_runs(plan);
  uint32_t tile_byte = 0;
  for (int32_t row = 0; row < source.num_in; row += kStepRows) {
    const auto at = static_cast<size_t>(row);
    const int32_t width = plan.row_bits[at] & 255, row_in_group = plan.row_bits[at] >> 8;
    plan.steps.push_back({width, plan.row_packed[at] + row_in_group * width / 32, tile_byte});
    tile_byte += static_cast<uint32_t>(width) * 128;
  }
  return true;
}

bool plan_gptq(PartPlan& plan) {
  const WeightSource& source = *plan.source;
  const GptqSource& gptq = source.gptq;
  const auto rows = static_cast<size_t>(source.num_in);
  std::vector<int32_t> order(rows);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return gptq.group_of_row[a] < gptq.group_of_row[b]; });
  std::vector<int32_t> group_rows, group_bits;
  for (size_t i = 0; i < rows; ++i) {
    const int32_t group = gptq.group_of_row[order[i]];
    if (group < 0 || group >= gptq.num_groups) return false;
    if (i == 0 || group != plan.row_group.back()) {
      plan.group_first_row.push_back(static_cast<int32_t>(i));
      group_rows.push_back(0);
      group_bits.push_back(4);
    }
    plan.row_group.push_back(group);
    ++group_rows.back();
  }
  if (!std::is_sorted(order.begin(), order.end())) {
    plan.row_source = order;
    for (int32_t& row : order) row = source.row_order != nullptr ? source.row_order[row] : row;
    plan.row_order = order;
  }
  plan.runs = runs_of(group_rows, group_bits);
  if (plan.runs.size() != 1) {
    make_dense(plan);
    return true;
  }
  plan.kind = TileKind::gptq;
  plan.num_groups = static_cast<int32_t>(group_rows.size());
  place_runs(plan);
  return true;
}

}  // namespace

bool plan_part(const WeightSource& source, PartPlan& plan) {
  plan.source = &source;
  if (source.num_in <= 0 || source.num_out <= 0) return false;
  plan.num_strips = (source.num_out + kStripColumns - 1) / kStripColumns;
  const bool sound = source.format == WeightFormat::exl2   ? plan_exl2(plan)
                     : source.format == WeightFormat::gptq ? plan_gptq(plan)
                                                           : (make_dense(plan), true);
  if (!sound) return false;
  if (plan.row_order.empty() && source.row_order != nullptr) {
    plan.row_order.assign(source.row_order, source.row_order + source.num_in);
    if (std::is_sorted(plan.row_order.begin(), plan.row_order.end())) plan.row_order.clear();
  }
  const uint64_t widest = uint64_t{static_cast<uint32_t>(num_steps_of(source.num_in))} * 2048;
  return widest <= std::numeric_limits<uint32_t>::max();
}

bool shares_rows(const PartPlan& a, const PartPlan& b) {
  return a.kind == b.kind && a.source->num_in == b.source->num_in && a.row_order == b.row_order;
}

}  // namespace quire::kernels
