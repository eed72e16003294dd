#include "tests/support/weight_source_check.h"

#include <cmath>
#include <vector>

#include "kernels/interface/half.h"

namespace quire::testing {
namespace {

using kernels::WeightFormat;
using kernels::WeightSource;

bool is_permutation(const int32_t* order, int32_t length) {
  std::vector<bool> seen(static_cast<size_t>(length), false);
  for (int32_t i = 0; i < length; ++i) {
    if (order[i] < 0 || order[i] >= length || seen[static_cast<size_t>(order[i])]) return false;
    seen[static_cast<size_t>(order[i])] = true;
  }
  return true;
}

bool is_finite_half(uint16_t bits) {
  return std::isfinite(kernels::half_to_float(bits));
}

std::string find_dense_defect(const WeightSource& source) {
  const kernels::DenseSource& dense = source.dense;
  if (!dense.data) return "no data";
  if (dense.dtype != kernels::DType::f8_e4m3) return "";
  if (source.row_order) return "a row order";
  if (dense.scale_out < 1 || dense.scale_out > source.num_out) return "outputs of a scale";
  if (dense.scale_in < 1 || dense.scale_in > source.num_in) return "inputs of a scale";
  const int64_t num_scales =
      ((int64_t{source.num_out} - 1) / dense.scale_out + 1) * ((source.num_in - 1) / dense.scale_in + 1);
  for (int64_t i = 0; i < num_scales; ++i) {
    if (!(dense.scales[i] >= 0.0f && dense.scales[i] * 448.0f <= 65504.0f)) return "a scale";
  }
  const auto* codes = static_cast<const uint8_t*>(dense.data);
  for (int64_t i = 0; i < int64_t{source.num_in} * source.num_out; ++i) {
    if ((codes[i] & 0x7f) == 0x7f) return "a code is no number";
  }
  return "";
}

std::string find_exl2_defect(const WeightSource& source) {
  const kernels::Exl2Source& exl2 = source.exl2;
  if (source.padded_out % 32 != 0) return "columns are no multiple of 32";
  if (exl2.num_groups < 1) return "no groups";
  int32_t row = 0;
  int32_t packed_row = 0;
  int32_t last_bits = 8;
  for (int32_t g = 0; g < exl2.num_groups; ++g) {
    const kernels::Exl2Group& group = exl2.groups[g];
    if (group.bits < 2 || group.bits > last_bits || group.bits == 7) return "bits";
    if (group.first_row != row || group.first_packed_row != packed_row) return "rows are not adjacent";
    if (group.num_rows <= 0 || group.num_rows % (group.bits == 2 ? 16 : 32) != 0) return "rows of a group";
    if (!is_finite_half(exl2.q_scale_max[g])) return "a scale is not finite";
    last_bits = group.bits;
    row += group.num_rows;
    packed_row += group.num_rows * group.bits / 32;
  }
  if (row != source.num_in) return "groups do not have all rows";
  if (packed_row != exl2.packed_rows) return "groups do not have all packed rows";
  return "";
}

bool is_sound_scale(const kernels::CodedSource& coded, size_t index) {
  switch (coded.scale_dtype) {
    case kernels::DType::f16:
      return is_finite_half(static_cast<const uint16_t*>(coded.scales)[index]);
    case kernels::DType::bf16:
      return std::abs(kernels::bfloat16_to_float(static_cast<const uint16_t*>(coded.scales)[index])) <=
             65504.0f;
    case kernels::DType::f8_e8m0:
      return static_cast<const uint8_t*>(coded.scales)[index] <= 127 + 15;
    default:
      return std::abs(static_cast<const float*>(coded.scales)[index]) <= 65504.0f;
  }
}

std::string find_coded_defect(const WeightSource& source) {
  const kernels::CodedSource& coded = source.coded;
  if (coded.bits != 4 && coded.bits != 8) return "bits";
  if (coded.values && coded.bits != 4) return "values of 8 bits";
  if (coded.num_groups < 1) return "no groups";
  if (coded.zero_offset < 0 || coded.zero_offset > 128) return "zero offset";
  if (source.row_order) return "a row order";
  for (int32_t k = 0; k < source.num_in; ++k) {
    if (coded.group_of_row[k] < 0 || coded.group_of_row[k] >= coded.num_groups) return "group of a row";
  }
  const size_t num_scales = static_cast<size_t>(coded.num_groups) * static_cast<size_t>(source.padded_out);
  for (size_t i = 0; i < num_scales; ++i) {
    if (!is_sound_scale(coded, i)) return "a scale is not finite";
  }
  return "";
}

std::string find_block_defect(const WeightSource& source) {
  const kernels::BlockShape& shape = kernels::block_shape(source.blocks.type);
  if (source.blocks.type == kernels::BlockType::none) return "no block type";
  if (source.num_in % shape.weights != 0) return "rows are not whole blocks";
  if (source.row_order) return "a row order";
  const auto num_blocks =
      static_cast<size_t>(source.num_in / shape.weights) * static_cast<size_t>(source.padded_out);
  return kernels::first_unsound_block(source.blocks.type, source.blocks.data, num_blocks) == num_blocks
             ? ""
             : "a scale is not finite";
}

std::string find_trellis_defect(const WeightSource& source) {
  const kernels::TrellisSource& trellis = source.trellis;
  if (!kernels::is_trellis_width(trellis.half_bits, trellis.codebook)) return "bits";
  if (source.padded_out % 128 != 0) return "columns are no multiple of 128";
  if (source.row_order) return "a row order";
  for (int32_t k = 0; k < kernels::hadamard_padded(source.num_in); ++k) {
    if (!is_finite_half(trellis.input_scales[k])) return "a scale of an input is not finite";
  }
  for (int32_t n = 0; n < source.padded_out; ++n) {
    if (!is_finite_half(trellis.output_scales[n])) return "a scale of an output is not finite";
  }
  return "";
}

}  // namespace

std::string find_defect(const WeightSource& source) {
  if (source.num_in < 1 || source.num_out < 1 || source.padded_out < source.num_out) return "sizes";
  if (source.row_order && !is_permutation(source.row_order, source.num_in)) return "row order";
  if (source.column_order && !is_permutation(source.column_order, source.num_out)) return "column order";
  for (int32_t n = 0; source.bias && n < source.num_out; ++n) {
    if (!std::isfinite(source.bias[n])) return "a bias is not finite";
  }
  switch (source.format) {
    case WeightFormat::dense:
      return find_dense_defect(source);
    case WeightFormat::exl2:
      return find_exl2_defect(source);
    case WeightFormat::coded:
      return find_coded_defect(source);
    case WeightFormat::blocks:
      return find_block_defect(source);
    case WeightFormat::trellis:
      return find_trellis_defect(source);
  }
  return "format";
}

}  // namespace quire::testing
