#include "kernels/cuda/plan/weight_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/cuda/plan/block_tiles.h"
#include "kernels/cuda/plan/coded_form.h"
#include "kernels/cuda/plan/float8_shape.h"
#include "kernels/interface/half.h"

namespace quire::kernels {

namespace {

// Groups of consecutive rows, and the group of each step.
struct StepGroups {
  std::vector<int32_t> bits;  // bit width of each group
  std::vector<int32_t> of_step;

  // Adds a group. Returns false if its rows are not a multiple of a step.
  bool add(int32_t rows, int32_t width) {
    if (rows % kStepRows != 0) return false;
    of_step.insert(of_step.end(), static_cast<size_t>(rows / kStepRows), static_cast<int32_t>(bits.size()));
    bits.push_back(width);
    return true;
  }
};

// Properties that all rows of a segment share.
struct SegmentForm {
  int32_t bits = 0;
  int32_t records = 0;
  bool operator==(const SegmentForm&) const = default;
};

SegmentForm form_of(TileKind kind, const StepGroups& groups, size_t first, size_t end) {
  if (kind == TileKind::dense) return {16, 0};
  SegmentForm form{0, 1};
  for (size_t step = first; step < std::min(end, groups.of_step.size()); ++step) {
    const int32_t group = groups.of_step[step];
    form.bits = std::max(form.bits, groups.bits[static_cast<size_t>(group)]);
    if (group != groups.of_step[first] && !has_one_record(kind)) form.records = kBlockSteps;
  }
  return form;
}

// Returns the forms of the segments. If there are too many runs of equal forms, records for each step make
// all segments of one width alike.
std::vector<SegmentForm> forms_of(TileKind kind, const StepGroups& groups) {
  const auto steps = static_cast<size_t>(segment_steps(kind));
  const size_t blocks = (groups.of_step.size() + kBlockSteps - 1) / kBlockSteps;
  std::vector<SegmentForm> forms;
  for (size_t step = 0; step < blocks * kBlockSteps; step += steps)
    forms.push_back(form_of(kind, groups, step, step + steps));
  size_t changes = 0;
  for (size_t i = 1; i < forms.size(); ++i) changes += forms[i] == forms[i - 1] ? 0 : 1;
  if (changes >= static_cast<size_t>(kMaxRuns))
    for (SegmentForm& form : forms) form.records = kBlockSteps;
  return forms;
}

// Assigns offsets to segments, scales and tiles of a strip. Returns false if the strip would be too long or
// have too many forms.
bool place_segments(PartPlan& plan, const StepGroups& groups) {
  const uint32_t record = scale_bytes(plan.kind);
  const auto steps = static_cast<size_t>(segment_steps(plan.kind));
  const std::vector<SegmentForm> forms = forms_of(plan.kind, groups);
  uint64_t byte = 0;
  for (size_t i = 0; i < forms.size(); ++i) {
    const SegmentForm& form = forms[i];
    const size_t first = i * steps;
    const uint32_t size = static_cast<uint32_t>(form.records) * record +
                          static_cast<uint32_t>(steps) * static_cast<uint32_t>(form.bits) * 128;
    if (i == 0 || form != forms[i - 1]) {
      Run run;
      run.first = static_cast<int32_t>(i);
      run.first_byte = static_cast<uint32_t>(byte);
      run.segment_bytes = size;
      run.bits = form.bits;
      run.records = form.records;
      plan.runs.push_back(run);
    }
    plan.runs.back().end = static_cast<int32_t>(i) + 1;
    const auto group_at = [&](size_t step) {
      return groups.of_step.empty() ? 0 : groups.of_step[std::min(step, groups.of_step.size() - 1)];
    };
    for (size_t r = 0; r < static_cast<size_t>(form.records); ++r)
      plan.records.push_back({static_cast<uint32_t>(byte + r * record), group_at(first + r)});
    for (size_t s = 0; s < steps; ++s) {
      const uint64_t tile = byte + static_cast<uint64_t>(form.records) * record +
                            static_cast<uint64_t>(s) * static_cast<uint64_t>(form.bits) * 128;
      plan.steps.push_back({form.bits, 0, 0, static_cast<uint32_t>(tile)});
    }
    byte += size;
  }
  plan.strip_bytes = static_cast<uint32_t>(byte);
  return byte <= std::numeric_limits<uint32_t>::max() && plan.runs.size() <= static_cast<size_t>(kMaxRuns);
}

bool is_sound_dense(const WeightSource& source) {
  const DenseSource& dense = source.dense;
  if (dense.dtype != DType::f8_e4m3)
    return dense.dtype == DType::f16 || dense.dtype == DType::bf16 || dense.dtype == DType::f32;
  return source.row_order == nullptr && dense.scale_out >= 1 && dense.scale_out <= source.num_out &&
         dense.scale_in >= 1 && dense.scale_in <= source.num_in;
}

// Also used for matrices whose groups do not fit.
bool make_dense(PartPlan& plan) {
  plan.kind = TileKind::dense;
  StepGroups groups;
  const int32_t rows = plan.source->num_in;
  groups.add((rows + kStepRows - 1) / kStepRows * kStepRows, 16);
  return place_segments(plan, groups);
}

// Returns the unit of a part; see kExl2CodeUnit.
float exl2_unit(const std::vector<uint16_t>& group_scales) {
  float largest = 0.0f;
  for (const uint16_t scale : group_scales) largest = std::max(largest, std::abs(half_to_float(scale)));
  if (largest == 0.0f || !std::isfinite(largest)) return 1.0f;
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest < 2^exponent
  return std::ldexp(kExl2CodeUnit / kMaxExl2Scale, exponent);
}

bool plan_exl2(PartPlan& plan) {
  const WeightSource& source = *plan.source;
  const Exl2Source& exl2 = source.exl2;
  StepGroups groups;
  bool fits = true;
  int32_t next = 0;
  for (int32_t i = 0; i < exl2.num_groups; ++i) {
    const Exl2Group& group = exl2.groups[i];
    if (group.first_row != next || group.num_rows <= 0) return false;
    if (group.bits < 2 || group.bits == 7 || group.bits > 8) return false;
    fits = fits && groups.add(group.num_rows, group.bits);
    for (int32_t r = 0; r < group.num_rows; ++r) {
      plan.row_group.push_back(i);
      plan.row_bits.push_back(group.bits | r << 8);
      plan.row_packed.push_back(group.first_packed_row);
    }
    // A source that is only planned has no scales.
    if (exl2.q_scale_max != nullptr)
      plan.group_scale.push_back(
          float_to_half(half_to_float(exl2.q_scale_max[i]) * source.prescale / 256.0f));
    next += group.num_rows;
  }
  if (next != source.num_in) return false;
  if (!fits) return make_dense(plan);
  plan.kind = TileKind::exl2;
  plan.unit = exl2_unit(plan.group_scale);
  if (!place_segments(plan, groups)) return false;
  for (size_t i = 0; i < groups.of_step.size(); ++i) {
    const size_t row = i * kStepRows;
    const int32_t width = plan.row_bits[row] & 255, row_in_group = plan.row_bits[row] >> 8;
    plan.steps[i].stored_bits = width;
    plan.steps[i].packed_row = plan.row_packed[row] + row_in_group * width / 32;
  }
  return true;
}

// Plans a coded part. Groups that do not fit, and codes without a kernel, are converted to f16.
bool plan_coded(PartPlan& plan) {
  const WeightSource& source = *plan.source;
  const CodedSource& coded = source.coded;
  const auto rows = static_cast<size_t>(source.num_in);
  std::vector<int32_t> order(rows);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return coded.group_of_row[a] < coded.group_of_row[b]; });
  std::vector<int32_t> group_rows;
  for (size_t i = 0; i < rows; ++i) {
    const int32_t group = coded.group_of_row[order[i]];
    if (group < 0 || group >= coded.num_groups) return false;
    if (i == 0 || group != plan.row_group.back()) {
      plan.group_first_row.push_back(static_cast<int32_t>(i));
      group_rows.push_back(0);
    }
    plan.row_group.push_back(group);
    ++group_rows.back();
  }
  const TileKind kind = coded_kind(source);
  if (kind == TileKind::dense) {
    plan.row_group.clear();
    plan.group_first_row.clear();
    return make_dense(plan);
  }
  if (!std::is_sorted(order.begin(), order.end())) {
    plan.row_source = order;
    for (int32_t& row : order) row = source.row_order != nullptr ? source.row_order[row] : row;
    plan.row_order = order;
  }
  StepGroups groups;
  for (const int32_t count : group_rows)
    if (!groups.add(count, coded.bits)) return make_dense(plan);
  plan.kind = kind;
  return place_segments(plan, groups);
}

// Returns true if each block of 128 rows has one scale per column.
bool fits_float8(const WeightSource& source) {
  return source.activations == ActivationDtype::f8 && !source.is_expert &&
         source.format == WeightFormat::dense && source.dense.dtype == DType::f8_e4m3 &&
         (source.dense.scale_in % kBlockRows == 0 || source.dense.scale_in >= source.num_in);
}

bool plan_float8(PartPlan& plan) {
  plan.kind = TileKind::float8;
  const int64_t blocks = (int64_t{plan.source->num_in} + kBlockRows - 1) / kBlockRows;
  plan.strip_bytes = static_cast<uint32_t>(blocks * kFloat8BlockBytes);
  return blocks <= std::numeric_limits<uint32_t>::max() / kFloat8BlockBytes;
}

// Plans an fp8 part with groups of rows that share their scales, whatever the scales of columns are.
bool plan_fp8(PartPlan& plan) {
  const int32_t group_rows = plan.source->dense.scale_in;
  StepGroups groups;
  for (int32_t left = plan.source->num_in; left > 0; left -= group_rows) {
    const bool is_last = left <= group_rows;
    if (!groups.add(is_last ? (left + kStepRows - 1) / kStepRows * kStepRows : group_rows, 8))
      return make_dense(plan);
  }
  plan.kind = TileKind::fp8;
  return place_segments(plan, groups);
}

// Every segment has the same form.
bool plan_blocks(PartPlan& plan) {
  const WeightSource& source = *plan.source;
  const BlockType type = source.blocks.type;
  if (type == BlockType::none || source.num_in % block_shape(type).weights != 0) return false;
  plan.kind = TileKind::blocks;
  Run run;
  run.end = static_cast<int32_t>((int64_t{source.num_in} + kBlockRows - 1) / kBlockRows);
  run.segment_bytes = block_segment_bytes(type);
  run.bits = static_cast<int32_t>(type);
  run.records = 1;
  plan.runs.push_back(run);
  const uint64_t bytes = static_cast<uint64_t>(run.end) * run.segment_bytes;
  plan.strip_bytes = static_cast<uint32_t>(bytes);
  return bytes <= std::numeric_limits<uint32_t>::max();
}

// Every segment has the same form. Strips are those of whole transforms.
bool plan_trellis(PartPlan& plan) {
  const WeightSource& source = *plan.source;
  const TrellisSource& trellis = source.trellis;
  if (!is_trellis_width(trellis.half_bits, trellis.codebook) || source.row_order != nullptr ||
      source.padded_out % kHadamardOrder != 0 ||
      (source.column_order == nullptr && source.num_out > source.padded_out))
    return false;
  plan.kind = TileKind::trellis;
  plan.trellis = trellis_columns(source);
  plan.num_strips = static_cast<int32_t>(plan.trellis.stored.size()) * kTransformStrips;
  Run run;
  run.end = hadamard_padded(source.num_in) / kBlockRows;
  run.segment_bytes = trellis_segment_bytes(trellis.half_bits);
  run.bits = trellis_form(trellis.half_bits, trellis.codebook);
  run.records = 1;
  plan.runs.push_back(run);
  const uint64_t bytes = static_cast<uint64_t>(run.end) * run.segment_bytes;
  plan.strip_bytes = static_cast<uint32_t>(bytes);
  return bytes <= std::numeric_limits<uint32_t>::max();
}

bool plan_unquantized(PartPlan& plan, bool float8) {
  if (!is_sound_dense(*plan.source)) return false;
  if (float8) return plan_float8(plan);
  return plan.source->dense.dtype == DType::f8_e4m3 ? plan_fp8(plan) : make_dense(plan);
}

bool whole_is_pair(const MatrixSource& matrix) {
  return matrix.num_whole_parts == 2 && matrix.whole_columns[0] == matrix.whole_columns[1];
}

}  // namespace

bool uses_float8(const MatrixSource& matrix) {
  return std::all_of(matrix.parts, matrix.parts + matrix.num_parts, fits_float8);
}

bool plan_part(const WeightSource& source, PartPlan& plan, bool float8) {
  plan.source = &source;
  if (source.num_in <= 0 || source.num_out <= 0) return false;
  plan.num_strips = static_cast<int32_t>((int64_t{source.num_out} + kStripColumns - 1) / kStripColumns);
  const bool sound = source.format == WeightFormat::exl2      ? plan_exl2(plan)
                     : source.format == WeightFormat::coded   ? plan_coded(plan)
                     : source.format == WeightFormat::blocks  ? plan_blocks(plan)
                     : source.format == WeightFormat::trellis ? plan_trellis(plan)
                                                              : plan_unquantized(plan, float8);
  if (!sound) return false;
  if (plan.row_order.empty() && source.row_order != nullptr) {
    plan.row_order.assign(source.row_order, source.row_order + source.num_in);
    if (std::is_sorted(plan.row_order.begin(), plan.row_order.end())) plan.row_order.clear();
  }
  return true;
}

bool shares_launch(const PartPlan& a, const PartPlan& b) {
  if (a.kind != b.kind || a.source->num_in != b.source->num_in || a.row_order != b.row_order) return false;
  return a.kind == TileKind::exl2 || a.kind == TileKind::blocks || a.kind == TileKind::trellis ||
         a.runs == b.runs;
}

bool is_pair(const MatrixSource& matrix, const std::vector<PartPlan>& parts) {
  return parts.size() == 2 && parts[0].source->num_out == parts[1].source->num_out &&
         parts[0].trellis.outputs == parts[1].trellis.outputs &&
         (matrix.whole_columns == nullptr || whole_is_pair(matrix));
}

int32_t chain_bits_of(const MatrixSource& matrix, const Matrix& of_launch) {
  const bool is_expert = matrix.parts[0].is_expert;
  if (matrix.whole_columns == nullptr)
    return chain_bits_of(of_launch.paired != 0, is_expert, of_launch.num_strips);
  const int32_t unit = of_launch.kind == TileKind::trellis ? kHadamardOrder : kStripColumns;
  int32_t strips = 0;
  for (int32_t p = 0; p < matrix.num_whole_parts; ++p)
    strips += (matrix.whole_columns[p] + unit - 1) / unit * (unit / kStripColumns);
  return chain_bits_of(whole_is_pair(matrix), is_expert, strips);
}

void join_float8(std::vector<PartPlan>& parts, bool is_pair) {
  int32_t columns = 0;
  for (PartPlan& part : parts) {
    columns += part.source->num_out;
    part.num_strips = 0;
  }
  parts.front().num_strips = float8_tiles(columns, is_pair);
}

}  // namespace quire::kernels
