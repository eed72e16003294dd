#include "tests/support/dequantize_reference.h"

#include <cmath>
#include <cstdint>

#include "kernels/interface/half.h"
#include "tests/support/trellis_fixture.h"

namespace quire::testing {
namespace {

using kernels::DType;
using kernels::WeightFormat;
using kernels::WeightSource;

// Decodes sign, four bits of exponent, three of mantissa.
float e4m3_value(uint8_t code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return static_cast<float>(code >= 0x80 ? -magnitude : magnitude);
}

float fp8_value(const WeightSource& source, size_t k, size_t n) {
  const kernels::DenseSource& dense = source.dense;
  const auto num_in = static_cast<size_t>(source.num_in);
  const auto scale_in = static_cast<size_t>(dense.scale_in);
  const size_t scales_of_row = (num_in + scale_in - 1) / scale_in;
  const size_t scale = n / static_cast<size_t>(dense.scale_out) * scales_of_row + k / scale_in;
  return e4m3_value(static_cast<const uint8_t*>(dense.data)[n * num_in + k]) * dense.scales[scale];
}

float dense_value(const WeightSource& source, size_t k, size_t n) {
  if (source.dense.dtype == DType::f8_e4m3) return fp8_value(source, k, n);
  const size_t index = n * static_cast<size_t>(source.num_in) + k;
  if (source.dense.dtype == DType::f32) return static_cast<const float*>(source.dense.data)[index];
  const uint16_t bits = static_cast<const uint16_t*>(source.dense.data)[index];
  return source.dense.dtype == DType::f16 ? kernels::half_to_float(bits) : kernels::bfloat16_to_float(bits);
}

uint32_t nibble(const uint32_t* words, size_t row, size_t column, size_t num_columns) {
  return (words[row * (num_columns / 8) + column / 8] >> (4 * (column % 8))) & 15U;
}

size_t group_of_exl2_row(const WeightSource& source, size_t k) {
  size_t g = 0;
  while (k >= static_cast<size_t>(source.exl2.groups[g].first_row + source.exl2.groups[g].num_rows)) ++g;
  return g;
}

// Reads the bits of a code one by one from the bit stream of the column.
uint32_t exl2_code(const WeightSource& source, const kernels::Exl2Group& group, size_t k, size_t n) {
  const auto bits = static_cast<size_t>(group.bits);
  uint32_t code = 0;
  for (size_t bit = 0; bit < bits; ++bit) {
    const size_t position = (k - static_cast<size_t>(group.first_row)) * bits + bit;
    const size_t row = static_cast<size_t>(group.first_packed_row) + position / 32;
    const uint32_t word = source.exl2.q_weight[row * static_cast<size_t>(source.padded_out) + n];
    code |= ((word >> (position % 32)) & 1U) << bit;
  }
  return code;
}

float exl2_value(const WeightSource& source, size_t k, size_t n) {
  const size_t g = group_of_exl2_row(source, k);
  const kernels::Exl2Group& group = source.exl2.groups[g];
  const auto index =
      static_cast<float>(1 + nibble(source.exl2.q_scale, g, n, static_cast<size_t>(source.padded_out)));
  const float ceiling =
      kernels::round_to_half(kernels::half_to_float(source.exl2.q_scale_max[g]) * (source.prescale / 256.0f));
  const float scale = kernels::round_to_half(kernels::round_to_half(index * index) * ceiling);
  const int zero = 1 << (group.bits - 1);
  return static_cast<float>(static_cast<int>(exl2_code(source, group, k, n)) - zero) * scale;
}

// Returns code number `index` of consecutive codes in words that are `stride` apart.
uint32_t packed(const uint32_t* words, size_t index, size_t bits, size_t stride) {
  uint32_t code = 0;
  for (size_t bit = 0; bit < bits; ++bit) {
    const size_t position = index * bits + bit;
    code |= ((words[position / 32 * stride] >> (position % 32)) & 1U) << bit;
  }
  return code;
}

float coded_scale(const kernels::CodedSource& coded, size_t index) {
  if (coded.scale_dtype == DType::f32) return static_cast<const float*>(coded.scales)[index];
  if (coded.scale_dtype == DType::f8_e8m0)
    return std::ldexp(1.0f, static_cast<const uint8_t*>(coded.scales)[index] - 127);
  const uint16_t bits = static_cast<const uint16_t*>(coded.scales)[index];
  return coded.scale_dtype == DType::f16 ? kernels::half_to_float(bits) : kernels::bfloat16_to_float(bits);
}

float coded_value(const WeightSource& source, size_t k, size_t n) {
  const kernels::CodedSource& coded = source.coded;
  const auto bits = static_cast<size_t>(coded.bits);
  const auto g = static_cast<size_t>(coded.group_of_row[k]);
  const uint32_t code = packed(coded.codes + n * static_cast<size_t>(coded.column_words), k, bits,
                               static_cast<size_t>(coded.row_words));
  int zero = coded.zero_offset;
  if (coded.zero_group_words != 0) {
    zero += static_cast<int>(packed(coded.zeros + g * static_cast<size_t>(coded.zero_group_words), n, bits,
                                    static_cast<size_t>(coded.zero_column_words)));
  }
  const float scale = coded_scale(coded, g * static_cast<size_t>(source.padded_out) + n) * source.prescale;
  const auto stands_for = static_cast<int>(coded.values != nullptr ? coded.values[code] : code);
  return static_cast<float>(stands_for - zero) * scale;
}

// Returns the weight in the block's decoded form, which golden files prove (block_codes_test.cpp).
float block_value(const WeightSource& source, size_t k, size_t n) {
  const kernels::BlockShape& shape = kernels::block_shape(source.blocks.type);
  const size_t weights = static_cast<size_t>(shape.weights);
  const size_t block = n * (static_cast<size_t>(source.num_in) / weights) + k / weights;
  float values[kernels::kMaxBlockWeights];
  kernels::decode_blocks(
      source.blocks.type,
      static_cast<const uint8_t*>(source.blocks.data) + block * static_cast<size_t>(shape.bytes), 1, values);
  return values[k % weights];
}

// Returns the weight of stored row k and stored column n, with prescale applied.
float value(const WeightSource& source, size_t k, size_t n) {
  switch (source.format) {
    case WeightFormat::dense:
      return dense_value(source, k, n) * source.prescale;
    case WeightFormat::exl2:
      return exl2_value(source, k, n);
    case WeightFormat::coded:
      return coded_value(source, k, n);
    case WeightFormat::blocks:
      return block_value(source, k, n) * source.prescale;
    case WeightFormat::trellis:
      break;  // dequantize_reference computes whole matrices
  }
  return 0.0f;
}

size_t column_of(const WeightSource& source, size_t j) {
  return source.column_order ? static_cast<size_t>(source.column_order[j]) : j;
}

}  // namespace

std::vector<float> dequantize_reference(const WeightSource& source) {
  const auto num_in = static_cast<size_t>(source.num_in);
  const auto num_out = static_cast<size_t>(source.num_out);
  if (source.format == WeightFormat::trellis) {
    const std::vector<double> values = trellis_matrix(source);
    return {values.begin(), values.end()};
  }
  std::vector<float> matrix(num_in * num_out);
  for (size_t k = 0; k < num_in; ++k) {
    const size_t feature = source.row_order ? static_cast<size_t>(source.row_order[k]) : k;
    for (size_t j = 0; j < num_out; ++j)
      matrix[feature * num_out + j] = value(source, k, column_of(source, j));
  }
  return matrix;
}

std::vector<float> bias_reference(const WeightSource& source) {
  std::vector<float> bias(static_cast<size_t>(source.num_out));
  if (!source.bias) return bias;
  for (size_t j = 0; j < bias.size(); ++j) bias[j] = source.bias[column_of(source, j)];
  return bias;
}

}  // namespace quire::testing
