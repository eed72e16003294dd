// Decodes tiles of blocks to f16 weights in registers. See block_tiles.h for the layout.
#pragma once

#include "kernels/cuda/gemm/plane.cuh"
#include "kernels/cuda/plan/block_tiles.h"

namespace quire::kernels {

struct BlockTiles {
  BlockTile of[kNumBlockTypes];
};
constexpr BlockTiles collect_block_tiles() {
  BlockTiles tiles = {};
  const auto all = make_block_tiles();
  for (int i = 0; i < kNumBlockTypes; ++i) tiles.of[i] = all[static_cast<size_t>(i)];
  return tiles;
}
// Indexed with the bits of a run; the same for all lanes of a warp.
[[maybe_unused]] static __constant__ const BlockTiles kBlockTiles = collect_block_tiles();

// Reads numbers of records in shared memory.
struct SharedRecord {
  uint32_t at;
  __device__ __forceinline__ uint32_t two(uint32_t offset) const { return load_shared_2(at + offset); }
  __device__ __forceinline__ __half2 halves(uint32_t offset) const {
    return half2_of(load_shared_4(at + offset));
  }
};

// Does the same in global memory.
struct GlobalRecord {
  const uint8_t* at;
  __device__ __forceinline__ uint32_t two(uint32_t offset) const {
    return __ldg(reinterpret_cast<const uint16_t*>(at + offset));
  }
  __device__ __forceinline__ __half2 halves(uint32_t offset) const {
    return half2_of(__ldg(reinterpret_cast<const uint32_t*>(at + offset)));
  }
};

// Numbers of a group for the columns g and g + 8 of a half strip.
struct BlockScales {
  __half2 scale;
  __half2 offset;
};

// Returns two bytes as f16, less `bias`, an f16 twice. `magic` holds the upper bytes of two f16 whose last
// eight bits are the bytes.
__device__ __forceinline__ __half2 bytes_as_halves(uint32_t bytes, uint32_t magic, uint32_t bias) {
  return __hsub2(half2_of(permute_bytes(bytes, magic, 0x4140)), half2_of(bias));
}

constexpr uint32_t kOnes = 0x64646464U;       // 1024 + byte
constexpr uint32_t kBias1024 = 0x64006400U;   // f16 1024
constexpr uint32_t kBias1152 = 0x64806480U;   // f16 1152
constexpr uint32_t kFractions = 0x44444444U;  // 4 + byte / 256
constexpr uint32_t kBias4 = 0x44004400U;      // f16 4
static_assert(kBlockByteBias == 128 && kBlockMinUnit == 256.0f);

// Reads the numbers of a group: of step `step`, and of the second half of its rows if `second`. `place` is 4g
// + 2 for the second half strip, 4g for the first.
template <typename Record>
__device__ __forceinline__ BlockScales read_block_scales(const BlockTile& tile, Record record, int step,
                                                         int second, int place) {
  const uint32_t at = tile.head_bytes + step * tile.step_bytes;
  const uint32_t halves_at = at + 2 * place, bytes_at = at + kStripColumns * second + place;
  const __half2 zero = half2_of(tile.zero);
  switch (tile.terms) {
    case BlockTerms::half: {
      const __half2 scale = record.halves(halves_at);
      return {scale, __hmul2(scale, zero)};
    }
    case BlockTerms::half_min:
      return {record.halves(halves_at), record.halves(halves_at + kBlockHeadBytes)};
    case BlockTerms::bytes: {
      const __half2 factors = bytes_as_halves(record.two(bytes_at), kOnes, kBias1152);
      const __half2 scale = __hmul2(record.halves(2 * place), factors);
      return {scale, __hmul2(scale, zero)};
    }
    case BlockTerms::bytes_min: {
      const __half2 factors = bytes_as_halves(record.two(bytes_at), kOnes, kBias1024);
      const __half2 mins = bytes_as_halves(record.two(bytes_at + kStripColumns), kFractions, kBias4);
      return {__hmul2(record.halves(2 * place), factors),
              __hmul2(record.halves(kBlockHeadBytes + 2 * place), mins)};
    }
    case BlockTerms::nibbles_min: {
      const uint32_t both = record.two(bytes_at);
      const __half2 factors = bytes_as_halves(both & 0x0f0fU, kOnes, kBias1024);
      const __half2 mins = bytes_as_halves(both >> 4 & 0x0f0fU, kFractions, kBias4);
      return {__hmul2(record.halves(2 * place), factors),
              __hmul2(record.halves(kBlockHeadBytes + 2 * place), mins)};
    }
    case BlockTerms::e4m3: {
      const __half2 placed = half2_of(permute_bytes(record.two(bytes_at), 0, 0x4140) << 7);
      const __half2 scale = __hmul2(placed, __float2half2_rn(kBlockE4m3Factor));
      return {scale, __hmul2(scale, zero)};
    }
    default: {
      const __half2 scale = half2_of(permute_bytes(record.two(bytes_at), 0, 0x1404));
      return {scale, __hmul2(scale, zero)};
    }
  }
}

// Replaces four codes of four bits, the lowest in the lowest bits, by their values. Upper bits are ignored.
__device__ __forceinline__ uint32_t values_of_nibbles(uint32_t codes, const uint32_t (&values)[4]) {
  const uint32_t low_bits = and_or(codes, 0x7777U, 0);
  const uint32_t below = permute_bytes(values[0], values[1], low_bits);
  const uint32_t above = permute_bytes(values[2], values[3], low_bits);
  return permute_bytes(below, above, and_or(codes >> 1, 0x4444U, 0x3210U));
}

// Decodes the 8 pairs of a half whose codes are indices of `values`.
template <int kBits, int kHalf>
__device__ __forceinline__ void decode_indices_half(const uint32_t (&raw)[kHalfWords<kBits>],
                                                    const uint32_t (&values)[4],
                                                    const ScaledColumns<8>& columns, __half2* w) {
  if constexpr (kBits == 4) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t first = values_of_nibbles(raw[i], values);
      const uint32_t second = values_of_nibbles(raw[i] >> 16, values);
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const uint32_t pair = permute_bytes(first, second, q | (q + 4) << 8);
        w[4 * i + q] = columns.weights(and_or(pair, 0x00ff00ff, 0), q & 1);
      }
    }
  } else {
    static_assert(kBits == 3);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const uint32_t low = s == 1 ? raw[0] >> 8 : raw[0];
      const uint32_t top = shifted(raw[1], 2 - s - 8 * kHalf);
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const uint32_t low_bits = and_or(low, 0x00030003U << (2 * q), 0);
        const uint32_t bits = and_or(top, 0x00040004U << (2 * q), low_bits) >> (2 * q);
        const uint32_t pair = permute_bytes(values[0], values[1], and_or(bits >> 12, 0x70U, bits & 7U));
        w[4 * s + q] = columns.weights(permute_bytes(pair, 0, 0x4140), q & 1);
      }
    }
  }
}

// Calls with the bit width of codes and whether they are indices as constants.
template <typename Call>
__device__ __forceinline__ void with_block_codes(const BlockTile& tile, Call call) {
  using std::bool_constant;
  using std::integral_constant;
  if (tile.has_table != 0) {
    if (tile.bits == 4) {
      call(integral_constant<int, 4>{}, bool_constant<true>{});
    } else {
      call(integral_constant<int, 3>{}, bool_constant<true>{});
    }
  } else if (tile.bits == 4) {
    call(integral_constant<int, 4>{}, bool_constant<false>{});
  } else if (tile.bits == 6) {
    call(integral_constant<int, 6>{}, bool_constant<false>{});
  } else if (tile.bits == 5) {
    call(integral_constant<int, 5>{}, bool_constant<false>{});
  } else if (tile.bits == 8) {
    call(integral_constant<int, 8>{}, bool_constant<false>{});
  } else if (tile.bits == 3) {
    call(integral_constant<int, 3>{}, bool_constant<false>{});
  } else {
    call(integral_constant<int, 2>{}, bool_constant<false>{});
  }
}

// Decodes the 8 pairs of a half. If both halves share a word, kHalf selects the bits.
template <int kBits, bool kIndices, int kHalf>
__device__ __forceinline__ void decode_block_half(const BlockTile& tile,
                                                  const uint32_t (&raw)[kHalfWords<kBits>],
                                                  const BlockScales& scales, __half2* w) {
  if constexpr (kIndices) {
    decode_indices_half<kBits, kHalf>(raw, tile.values, ScaledColumns<8>(scales.scale, scales.offset), w);
  } else {
    decode_half<kBits, kHalf>(raw, ScaledColumns<kBits>(scales.scale, scales.offset), w);
  }
}

// Decodes both halves of a lane's part of a tile; second: the lane's rows are in the second group of their
// step.
template <int kBits, bool kIndices, typename Record>
__device__ __forceinline__ void decode_block_words(const BlockTile& tile, Record record, int step, int second,
                                                   int g, const uint32_t (&raw)[kBits], __half2 (&w)[16]) {
  with_halves<kBits>(
      raw, w, [&]<int kHalf>(const auto& words, std::integral_constant<int, kHalf>, __half2* pairs) {
        const BlockScales scales = read_block_scales(tile, record, step, second, 4 * g + 2 * kHalf);
        decode_block_half<kBits, kIndices, kHalf>(tile, words, scales, pairs);
      });
}

// Returns 1 if the rows of a lane are in the second group of a step with two.
__device__ __forceinline__ int second_group(const BlockTile& tile, int lane) {
  return tile.groups == 2 ? lane >> 1 & 1 : 0;
}

}  // namespace quire::kernels
