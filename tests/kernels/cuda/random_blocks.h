// Random matrices of blocks as in GGUF files, with their values as tiles hold them.
#pragma once

#include <cmath>

#include "kernels/interface/block_codes.h"
#include "tests/kernels/cuda/random_weights.h"

namespace quire::kernels {

// Rounds to f16. A double holds every product and sum of two f16 exactly, a float does not.
inline double half_of(double value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 11, -24));
  return std::nearbyint(value / step) * step;
}

// Plus or minus 2^-7 to 2^-5.
inline uint16_t moderate_half(std::mt19937& random) {
  return static_cast<uint16_t>((random() % 2) << 15 | (8 + random() % 2) << 10 | random() % 1024);
}

// Places of the f16 scales in blocks of ggml; -1: none.
inline std::pair<int, int> scale_places(BlockType type) {
  switch (type) {
    case BlockType::q4_1:
    case BlockType::q5_1:
    case BlockType::q4_k:
    case BlockType::q5_k:
      return {0, 2};
    case BlockType::q2_k:
      return {80, 82};
    case BlockType::q3_k:
      return {108, -1};
    case BlockType::q6_k:
      return {208, -1};
    case BlockType::tq1_0:
      return {52, -1};
    case BlockType::tq2_0:
      return {64, -1};
    case BlockType::iq1_m:
    case BlockType::mxfp4:
    case BlockType::nvfp4:
      return {-1, -1};
    default:
      return {0, -1};
  }
}

inline void put_half(uint8_t* at, uint16_t half) {
  at[0] = static_cast<uint8_t>(half);
  at[1] = static_cast<uint8_t>(half >> 8);
}

inline std::vector<uint8_t> random_blocks(BlockType type, size_t count, std::mt19937& random) {
  const auto bytes = static_cast<size_t>(block_shape(type).bytes);
  std::vector<uint8_t> out(count * bytes);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(random());
  const auto [first, second] = scale_places(type);
  for (size_t b = 0; b < count; ++b) {
    uint8_t* block = out.data() + b * bytes;
    if (first >= 0) put_half(block + first, moderate_half(random));
    if (second >= 0) put_half(block + second, moderate_half(random));
    if (type == BlockType::mxfp4) block[0] = static_cast<uint8_t>(118 + random() % 6);
    // E4M3 scales from 2 to 448, as quantizers make them.
    for (int g = 0; g < 4 && type == BlockType::nvfp4; ++g)
      block[g] = static_cast<uint8_t>(64 + random() % 63);
    // The upper four bits of four words are an f16: 2^-7 to 2^-5.
    if (type == BlockType::iq1_m) {
      const uint16_t half = moderate_half(random);
      for (int i = 0; i < 4; ++i)
        block[49 + 2 * i] = static_cast<uint8_t>((block[49 + 2 * i] & 15) | (half >> (4 * i) & 15) << 4);
    }
  }
  return out;
}

// Returns the smallest power of two from which on the largest scale, times 2^24, stays below 2^15, and the
// largest minimum below 2^7.
inline double unit_of_blocks(BlockType type, double largest_scale, double largest_min) {
  if (block_form(type).terms == BlockTerms::e4m3) return 65536.0;
  double unit = std::ldexp(1.0, -60);
  while (largest_scale * 16777216.0 / unit >= 32768.0 || largest_min / unit >= 128.0) unit *= 2.0;
  return unit;
}

// Returns scale and offset of a group as tiles hold them: kernels/cuda/plan/block_tiles.h.
inline std::pair<double, double> group_in_tiles(const BlockForm& form, const BlockCodes& block, int32_t group,
                                                double unit) {
  const double place = static_cast<double>(form.factor) * 16777216.0 / unit;
  const uint8_t byte = block.group_scales[group];
  const double head = half_of(static_cast<double>(half_to_float(block.scales[0])) * place);
  const double min_head = half_of(-static_cast<double>(half_to_float(block.mins[0])) * 256.0 / unit);
  switch (form.terms) {
    case BlockTerms::half_min:
      return {half_of(static_cast<double>(half_to_float(block.scales[group])) * place),
              half_of(-static_cast<double>(half_to_float(block.mins[group])) / unit)};
    case BlockTerms::bytes_min:
      return {half_of(head * byte), half_of(min_head * block.group_mins[group] / 256.0)};
    case BlockTerms::nibbles_min:
      return {half_of(head * (byte & 15)), half_of(min_head * (byte >> 4) / 256.0)};
    default:
      break;
  }
  const double scale = form.terms == BlockTerms::bytes
                           ? half_of(head * static_cast<int8_t>(byte))
                           : half_of(static_cast<double>(group_of_block(form, block, group).scale) * place);
  return {scale, half_of(-scale * form.zero / 16777216.0)};
}

// Fills `values` [K, N] for the blocks of all columns. In tiles: rounded as there; otherwise as ggml computes
// them.
inline void make_block_values(StoredWeight& w, BlockType type) {
  const WeightSource& s = w.source;
  const BlockForm& form = block_form(type);
  const int32_t weights = block_shape(type).weights;
  const size_t count = w.codes.size() / static_cast<size_t>(block_shape(type).bytes);
  std::vector<BlockCodes> blocks(count);
  double largest = 0.0, largest_min = 0.0;
  const bool has_heads = has_factors(form.terms);
  for (size_t b = 0; b < count; ++b) {
    read_block(type, w.codes.data() + b * static_cast<size_t>(block_shape(type).bytes), blocks[b]);
    for (int32_t g = 0; g < weights / form.group; ++g) {
      largest = std::max(largest, std::abs(static_cast<double>(group_of_block(form, blocks[b], g).scale)));
      if (has_min(form.terms))
        largest_min = std::max(
            largest_min, std::abs(static_cast<double>(half_to_float(blocks[b].mins[has_heads ? 0 : g]))));
    }
  }
  const double unit = unit_of_blocks(type, largest * static_cast<double>(form.factor), largest_min);
  w.stored_values.resize(static_cast<size_t>(s.num_in) * static_cast<size_t>(s.num_out));
  for (int32_t n = 0; n < s.num_out; ++n) {
    for (int32_t k = 0; k < s.num_in; ++k) {
      const BlockCodes& block = blocks[static_cast<size_t>(n * (s.num_in / weights) + k / weights)];
      const auto [scale, offset] = group_in_tiles(form, block, k % weights / form.group, unit);
      const uint8_t code = block.codes[k % weights];
      const double value = form.values != nullptr ? form.values[code] : code;
      w.stored_values[static_cast<size_t>(k) * static_cast<size_t>(s.num_out) + static_cast<size_t>(n)] =
          static_cast<float>(half_of(value * scale / 16777216.0 + offset) * unit) * s.prescale;
    }
  }
  w.finish_columns();
}

inline void make_blocks(StoredWeight& w, BlockType type, int32_t rows, int32_t columns,
                        std::mt19937& random) {
  WeightSource& s = w.source;
  s.format = WeightFormat::blocks;
  s.num_in = rows;
  s.num_out = s.padded_out = columns;
  const auto count = static_cast<size_t>(rows / block_shape(type).weights) * static_cast<size_t>(columns);
  w.codes = random_blocks(type, count, random);
  s.blocks = {type, w.codes.data()};
  make_block_values(w, type);
}

inline std::vector<BlockType> every_block_type() {
  std::vector<BlockType> types;
  for (int i = 1; i < kNumBlockTypes; ++i) types.push_back(static_cast<BlockType>(i));
  return types;
}

}  // namespace quire::kernels
