// Random matrices in their stored formats, with their values.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "kernels/interface/half.h"
#include "kernels/interface/weight_source.h"

namespace quire::kernels {

struct StoredWeight {
  WeightSource source;
  std::vector<uint32_t> q_weight, q_scale;
  std::vector<uint16_t> half_scales;
  std::vector<Exl2Group> groups;
  std::vector<int32_t> row_order, group_of_row, column_order;
  std::vector<float> bias;
  std::vector<uint16_t> halves;
  std::vector<float> floats;
  std::vector<uint8_t> codes;
  // [K, N] values: input features by output columns, in the order of the prepared matrix and in stored order.
  // For EXL2, products of code and scale are rounded to f16 where the kernels round them.
  std::vector<float> values, stored_values;
  float step = 0.0f;  // tolerance of values

  void finish_columns() {
    const auto rows = static_cast<size_t>(source.num_in), columns = static_cast<size_t>(source.num_out);
    values.resize(stored_values.size());
    for (size_t k = 0; k < rows; ++k)
      for (size_t j = 0; j < columns; ++j)
        values[k * columns + j] =
            stored_values[k * columns + (column_order.empty() ? j : static_cast<size_t>(column_order[j]))];
  }
};

inline std::vector<int32_t> random_order(int32_t count, std::mt19937& random) {
  std::vector<int32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

// Assigns a random column order to a matrix.
inline void permute_columns(StoredWeight& w, std::mt19937& random) {
  w.column_order = random_order(w.source.num_out, random);
  w.source.column_order = w.column_order.data();
  w.finish_columns();
}

// Returns `unit`, a power of two by which weights are divided before they are rounded to f16:
// kernels/cuda/plan/matrix.h.
inline float exl2_unit_of(const WeightSource& s) {
  float largest = 0.0f;
  for (int32_t g = 0; g < s.exl2.num_groups; ++g)
    largest = std::max(largest, round_to_half(half_to_float(s.exl2.q_scale_max[g]) * s.prescale / 256.0f));
  float unit = 1.0f / 128.0f;
  while (largest >= 128.0f * unit) unit *= 2.0f;
  while (largest < 64.0f * unit) unit *= 0.5f;
  return unit * 16777216.0f;
}

// Returns a code times the scale of its column, rounded as in tiles: first the multiple of the middle, then
// the weight.
inline float exl2_in_tiles(int32_t code, int32_t bits, float scale) {
  const float middle = round_to_half(static_cast<float>(1 << (bits - 1)) * scale);
  return round_to_half(static_cast<float>(code) * scale - middle);
}

// Groups as (bits, rows). `in_tiles`: values as the kernels compute them when groups fit their tiles.
inline void make_exl2(StoredWeight& w, const std::vector<std::pair<int, int>>& layout, int32_t columns,
                      bool permute, std::mt19937& random, bool in_tiles = true) {
  const int32_t padded = (columns + 31) / 32 * 32;
  int32_t rows = 0, packed = 0;
  for (const auto& [bits, count] : layout) {
    w.groups.push_back({bits, rows, count, packed});
    rows += count;
    packed += count * bits / 32;
  }
  const auto width = static_cast<size_t>(padded);
  w.q_weight.resize(static_cast<size_t>(packed) * width);
  for (uint32_t& word : w.q_weight) word = static_cast<uint32_t>(random());
  w.q_scale.resize(w.groups.size() * width / 8);
  for (uint32_t& word : w.q_scale) word = static_cast<uint32_t>(random());
  std::uniform_real_distribution<float> scale(0.01f, 0.2f);
  for (size_t g = 0; g < w.groups.size(); ++g) w.half_scales.push_back(float_to_half(scale(random)));
  if (permute) w.row_order = random_order(rows, random);
  WeightSource& s = w.source;
  s.format = WeightFormat::exl2;
  s.num_in = rows;
  s.num_out = columns;
  s.padded_out = padded;
  s.exl2 = {w.q_weight.data(),
            w.q_scale.data(),
            w.half_scales.data(),
            w.groups.data(),
            static_cast<int32_t>(w.groups.size()),
            packed};
  s.row_order = permute ? w.row_order.data() : nullptr;
  w.stored_values.resize(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  const float unit = exl2_unit_of(s);
  const bool is_mixed = std::any_of(layout.begin(), layout.end(),
                                    [&](const auto& group) { return group.first != layout[0].first; });
  // Codes in wider tiles have another middle, which is rounded.
  if (in_tiles && is_mixed) w.step = unit / 16777216.0f;
  for (size_t g = 0; g < w.groups.size(); ++g) {
    const Exl2Group& group = w.groups[g];
    const float largest = round_to_half(half_to_float(w.half_scales[g]) * s.prescale / 256.0f);
    for (int32_t r = 0; r < group.num_rows; ++r) {
      const int32_t stored = group.first_row + r;
      const auto feature = static_cast<size_t>(permute ? w.row_order[static_cast<size_t>(stored)] : stored);
      for (int32_t n = 0; n < columns; ++n) {
        const auto column = static_cast<size_t>(n);
        uint32_t code = 0;
        for (int32_t b = 0; b < group.bits; ++b) {
          const int32_t bit = r * group.bits + b;
          const uint32_t word =
              w.q_weight[static_cast<size_t>(group.first_packed_row + bit / 32) * width + column];
          code |= (word >> (bit % 32) & 1U) << b;
        }
        const uint32_t nibble = w.q_scale[g * width / 8 + column / 8] >> (4 * (column % 8)) & 15U;
        const float factor = round_to_half(static_cast<float>((nibble + 1) * (nibble + 1)) * largest);
        const int32_t centred = static_cast<int32_t>(code) - (1 << (group.bits - 1));
        w.stored_values[feature * static_cast<size_t>(columns) + column] =
            in_tiles ? exl2_in_tiles(static_cast<int32_t>(code), group.bits, factor / unit) * unit
                     : static_cast<float>(centred) * factor;
      }
    }
  }
  w.finish_columns();
}

inline void make_gptq(StoredWeight& w, int32_t rows, int32_t columns, int32_t group_size, bool act_order,
                      std::mt19937& random) {
  const int32_t num_groups = (rows + group_size - 1) / group_size;
  const int32_t padded = (columns + 7) / 8 * 8;
  const auto width = static_cast<size_t>(padded);
  w.q_weight.resize(static_cast<size_t>(rows / 8) * width);
  for (uint32_t& word : w.q_weight) word = static_cast<uint32_t>(random());
  w.q_scale.resize(static_cast<size_t>(num_groups) * width / 8);
  for (uint32_t& word : w.q_scale) word = static_cast<uint32_t>(random());
  std::uniform_real_distribution<float> scale(0.002f, 0.02f);
  for (size_t i = 0; i < static_cast<size_t>(num_groups) * width; ++i)
    w.half_scales.push_back(float_to_half(scale(random)));
  for (int32_t r = 0; r < rows; ++r) w.group_of_row.push_back(r / group_size);
  if (act_order) std::shuffle(w.group_of_row.begin(), w.group_of_row.end(), random);
  WeightSource& s = w.source;
  s.format = WeightFormat::coded;
  s.num_in = rows;
  s.num_out = columns;
  s.padded_out = padded;
  s.coded.codes = w.q_weight.data();
  s.coded.row_words = padded;
  s.coded.column_words = 1;
  s.coded.zeros = w.q_scale.data();
  s.coded.zero_group_words = padded / 8;
  s.coded.zero_column_words = 1;
  s.coded.zero_offset = 1;
  s.coded.scales = w.half_scales.data();
  s.coded.group_of_row = w.group_of_row.data();
  s.coded.num_groups = num_groups;
  w.stored_values.resize(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  for (int32_t k = 0; k < rows; ++k) {
    const auto g = static_cast<size_t>(w.group_of_row[static_cast<size_t>(k)]);
    for (int32_t n = 0; n < columns; ++n) {
      const auto column = static_cast<size_t>(n);
      const uint32_t code = w.q_weight[static_cast<size_t>(k / 8) * width + column] >> (4 * (k % 8)) & 15U;
      const uint32_t zero = (w.q_scale[g * width / 8 + column / 8] >> (4 * (column % 8)) & 15U) + 1;
      const float value = static_cast<float>(static_cast<int32_t>(code) - static_cast<int32_t>(zero)) *
                          half_to_float(w.half_scales[g * width + column]);
      w.stored_values[static_cast<size_t>(k) * static_cast<size_t>(columns) + column] = value;
    }
  }
  w.finish_columns();
}

// Makes codes of 8 bits, or E2M1 codes of 4 bits with power-of-two scales: packed along the inputs of an
// output, as compressed-tensors and gpt-oss store them.
inline void make_codes_by_output(StoredWeight& w, int32_t rows, int32_t columns, int32_t bits,
                                 int32_t group_size, std::mt19937& random) {
  const int32_t num_groups = (rows + group_size - 1) / group_size, per_word = 32 / bits;
  const int32_t words = (rows + per_word - 1) / per_word;
  for (int32_t i = 0; i < words * columns; ++i) w.q_weight.push_back(static_cast<uint32_t>(random()));
  for (int32_t r = 0; r < rows; ++r) w.group_of_row.push_back(r / group_size);
  WeightSource& s = w.source;
  s.format = WeightFormat::coded;
  s.num_in = rows;
  s.num_out = columns;
  s.padded_out = columns;
  s.coded.bits = bits;
  s.coded.codes = w.q_weight.data();
  s.coded.row_words = 1;
  s.coded.column_words = words;
  s.coded.group_of_row = w.group_of_row.data();
  s.coded.num_groups = num_groups;
}

// Computes the values; scale(g, n) returns the scale of group g and column n.
template <typename Scale>
inline void finish_codes(StoredWeight& w, Scale scale) {
  const WeightSource& s = w.source;
  for (int32_t k = 0; k < s.num_in; ++k) {
    for (int32_t n = 0; n < s.num_out; ++n) {
      const int32_t group = s.coded.group_of_row[k];
      const uint32_t code = s.coded.code(k, n);
      const auto value = static_cast<int32_t>(s.coded.values != nullptr ? s.coded.values[code] : code);
      w.stored_values.push_back(static_cast<float>(value - s.coded.zero(group, n)) *
                                scale(static_cast<size_t>(group * s.padded_out + n)) * s.prescale);
    }
  }
  w.finish_columns();
}

inline void make_eight_bits(StoredWeight& w, int32_t rows, int32_t columns, int32_t group_size,
                            std::mt19937& random) {
  make_codes_by_output(w, rows, columns, 8, group_size, random);
  CodedSource& coded = w.source.coded;
  const int32_t zero_words = (columns + 3) / 4;
  for (int32_t i = 0; i < coded.num_groups * zero_words; ++i)
    w.q_scale.push_back(static_cast<uint32_t>(random()));
  coded.zeros = w.q_scale.data();
  coded.zero_group_words = 1;
  coded.zero_column_words = coded.num_groups;
  coded.zero_offset = 1;
  std::uniform_real_distribution<float> scale(0.0002f, 0.002f);
  for (int32_t i = 0; i < coded.num_groups * columns; ++i)
    w.half_scales.push_back(float_to_half(scale(random)));
  coded.scales = w.half_scales.data();
  finish_codes(w, [&](size_t i) { return half_to_float(w.half_scales[i]); });
}

inline void make_mxfp4(StoredWeight& w, int32_t rows, int32_t columns, std::mt19937& random) {
  static constexpr uint8_t kDoubledE2m1[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  make_codes_by_output(w, rows, columns, 4, 32, random);
  CodedSource& coded = w.source.coded;
  coded.values = kDoubledE2m1;
  coded.zero_offset = 12;
  w.source.prescale = 0.5f;
  for (int32_t i = 0; i < coded.num_groups * columns; ++i)
    w.codes.push_back(static_cast<uint8_t>(118 + random() % 6));
  coded.scales = w.codes.data();
  coded.scale_dtype = DType::f8_e8m0;
  finish_codes(w, [&](size_t i) { return e8m0_to_float(w.codes[i]); });
}

inline void make_dense(StoredWeight& w, DType dtype, int32_t rows, int32_t columns, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0f, 0.03f);
  WeightSource& s = w.source;
  s.format = WeightFormat::dense;
  s.num_in = rows;
  s.num_out = columns;
  s.padded_out = columns;
  w.stored_values.resize(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  for (int32_t n = 0; n < columns; ++n) {
    for (int32_t k = 0; k < rows; ++k) {
      float value = normal(random);
      if (dtype == DType::bf16) {
        const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
        w.halves.push_back(bits);
        value = bfloat16_to_float(bits);
      } else if (dtype == DType::f16) {
        w.halves.push_back(float_to_half(value));
        value = round_to_half(value);
      } else {
        w.floats.push_back(value);
      }
      w.stored_values[static_cast<size_t>(k) * static_cast<size_t>(columns) + static_cast<size_t>(n)] = value;
    }
  }
  s.dense.dtype = dtype;
  s.dense.data = dtype == DType::f32 ? static_cast<const void*>(w.floats.data()) : w.halves.data();
  w.finish_columns();
}

// Makes E4M3 weights with a scale per block of scale_out by scale_in; 0: one for all columns or rows.
inline void make_fp8(StoredWeight& w, int32_t rows, int32_t columns, int32_t scale_out, int32_t scale_in,
                     std::mt19937& random) {
  WeightSource& s = w.source;
  s.format = WeightFormat::dense;
  s.num_in = rows;
  s.num_out = columns;
  s.padded_out = columns;
  s.dense.dtype = DType::f8_e4m3;
  s.dense.scale_out = scale_out > 0 ? scale_out : columns;
  s.dense.scale_in = scale_in > 0 ? scale_in : rows;
  const int32_t scales_of_row = (rows - 1) / s.dense.scale_in + 1;
  const int32_t num_scales = ((columns - 1) / s.dense.scale_out + 1) * scales_of_row;
  std::uniform_real_distribution<float> scale(0.0001f, 0.0004f);
  for (int32_t i = 0; i < num_scales; ++i) w.floats.push_back(scale(random));
  w.stored_values.resize(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  for (int32_t n = 0; n < columns; ++n) {
    for (int32_t k = 0; k < rows; ++k) {
      const auto bits = static_cast<uint8_t>(random());
      const uint8_t code = is_e4m3_nan(bits) ? uint8_t{0x80} : bits;
      w.codes.push_back(code);
      const int32_t block = n / s.dense.scale_out * scales_of_row + k / s.dense.scale_in;
      w.stored_values[static_cast<size_t>(k) * static_cast<size_t>(columns) + static_cast<size_t>(n)] =
          e4m3_to_float(code) * w.floats[static_cast<size_t>(block)];
    }
  }
  s.dense.data = w.codes.data();
  s.dense.scales = w.floats.data();
  w.finish_columns();
}

}  // namespace quire::kernels
