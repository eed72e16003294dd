#include <cuda_bf16.h>

#include "kernels/cuda/plane.cuh"
#include "kernels/cuda/weight_repack.h"
#include "kernels/interface/types.h"

namespace quire::kernels {
namespace {

constexpr int kRepackWarps = 4;

__device__ __forceinline__ int stored_column(const StoredMatrix& m, int column) {
  return m.column_order != nullptr ? m.column_order[column] : column;
}

// Element `e` (0..31) of a lane: pair h = e / 2, first or second code of it.
__device__ __forceinline__ int lane_row(int lane, int h, int x) {
  return 8 * (lane & 3) + 4 * ((h / 4) & 1) + 2 * ((h & 3) >> 1) + x;
}
__device__ __forceinline__ int lane_column(int lane, int h) {
  return 16 * (h / 8) + (lane >> 2) + 8 * (h & 1);
}

__device__ __forceinline__ void put(uint32_t* words, int word, int bit, uint32_t value) {
  words[word] |= value << bit;
}

template <int kBits, typename Code>
__device__ __forceinline__ void pack_tile(uint8_t* tile, int lane, Code code_of) {
  constexpr int kLow = kBits == 3 ? 2 : kBits == 5 || kBits == 6 ? 4 : kBits;  // bits of the low plane
  constexpr int kLowWords = kLow;
  uint32_t low[kLowWords] = {};
  uint32_t high[2] = {};
#pragma unroll
  for (int h = 0; h < 16; ++h) {
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      const uint32_t code = code_of(lane_row(lane, h, x), lane_column(lane, h));
      const uint32_t low_code = code & ((1U << kLow) - 1);
      if constexpr (kLow == 2) put(low, h / 8, 2 * (h % 8) + 16 * x, low_code);
      if constexpr (kLow == 4) put(low, h / 4, 4 * (h % 4) + 16 * x, low_code);
      if constexpr (kLow == 8) put(low, h / 2, 8 * (h % 2) + 16 * x, low_code);
      if constexpr (kBits == 3) put(high, 0, high_bit_of_3(h) + 16 * x, code >> 2);
      if constexpr (kBits == 5) put(high, 0, high_bit_of_5(h) + 16 * x, code >> 4);
      if constexpr (kBits == 6) put(high, h / 8, high_bit_of_6(h) + 16 * x, code >> 4);
    }
  }
  auto* words = reinterpret_cast<uint32_t*>(tile);
  if constexpr (kLow == 8) {
#pragma unroll
    for (int w = 0; w < 8; ++w) words[(w / 4) * 128 + lane * 4 + w % 4] = low[w];
  } else {
#pragma unroll
    for (int w = 0; w < kLowWords; ++w) words[lane * kLowWords + w] = low[w];
  }
  if constexpr (kBits == 3) words[64 + lane] = high[0];
  if constexpr (kBits == 5) words[128 + lane] = high[0];
  if constexpr (kBits == 6) {
    words[128 + lane * 2] = high[0];
    words[128 + lane * 2 + 1] = high[1];
  }
}

template <int kBits>
__device__ __forceinline__ void pack_exl2_tile(const StoredMatrix& m, int packed_row, int strip,
                                               uint8_t* tile, int lane) {
  pack_tile<kBits>(tile, lane, [&](int row, int local) -> uint32_t {
    const int column = strip * kStripColumns + local;
    if (column >= m.num_columns) return 1U << (kBits - 1);
    const uint32_t* words =
        m.codes + static_cast<size_t>(packed_row) * m.padded_columns + stored_column(m, column);
    const int bit = row * kBits, word = bit / 32, shift = bit % 32;
    uint64_t two = __ldg(words + static_cast<size_t>(word) * m.padded_columns);
    if (shift + kBits > 32)
      two |= static_cast<uint64_t>(__ldg(words + static_cast<size_t>(word + 1) * m.padded_columns)) << 32;
    return static_cast<uint32_t>(two >> shift) & ((1U << kBits) - 1);
  });
}

__global__ void repack_exl2_kernel(StoredMatrix m, const StepSource* steps, uint32_t strip_bytes,
                                   int num_steps, uint8_t* codes) {
  const int lane = threadIdx.x & 31;
  const int step = blockIdx.x * kRepackWarps + (threadIdx.x >> 5);
  const int strip = blockIdx.y;
  if (step >= num_steps) return;
  const StepSource s = steps[step];
  uint8_t* tile = codes + static_cast<size_t>(strip) * strip_bytes + s.tile_byte;
  switch (s.bits) {
    case 2:
      return pack_exl2_tile<2>(m, s.packed_row, strip, tile, lane);
    case 3:
      return pack_exl2_tile<3>(m, s.packed_row, strip, tile, lane);
    case 4:
      return pack_exl2_tile<4>(m, s.packed_row, strip, tile, lane);
    case 5:
      return pack_exl2_tile<5>(m, s.packed_row, strip, tile, lane);
    case 6:
      return pack_exl2_tile<6>(m, s.packed_row, strip, tile, lane);
    default:
      return pack_exl2_tile<8>(m, s.packed_row, strip, tile, lane);
  }
}

__global__ void repack_exl2_scales_kernel(StoredMatrix m, int num_groups, uint16_t* scales) {
  const int group = blockIdx.x * blockDim.x + threadIdx.x;
  const int strip = blockIdx.y, g = blockIdx.z;
  if (group >= num_groups) return;
  uint32_t nibbles = 0;
  for (int q = 0; q < 4; ++q) {
    const int column = strip * kStripColumns + g + 8 * q;
    if (column >= m.num_columns) continue;
    const int stored = stored_column(m, column);
    const uint32_t word = m.scales[static_cast<size_t>(group) * (m.padded_columns / 8) + stored / 8];
    nibbles |= ((word >> (4 * (stored % 8))) & 15U) << (4 * q);
  }
  scales[(static_cast<size_t>(strip) * num_groups + group) * 8 + g] = static_cast<uint16_t>(nibbles);
}

__device__ __forceinline__ uint32_t gptq_code(const StoredMatrix& m, int row, int stored) {
  const int source = m.row_source != nullptr ? m.row_source[row] : row;
  return (__ldg(m.codes + static_cast<size_t>(source / 8) * m.padded_columns + stored) >>
          (4 * (source % 8))) &
         15U;
}
__device__ __forceinline__ int gptq_zero(const StoredMatrix& m, int group, int stored) {
  const uint32_t word = m.scales[static_cast<size_t>(group) * (m.padded_columns / 8) + stored / 8];
  return static_cast<int>((word >> (4 * (stored % 8))) & 15U) + m.zero_offset;
}
__device__ __forceinline__ __half gptq_scale(const StoredMatrix& m, int group, int stored) {
  const __half scale =
      __ushort_as_half(m.group_scale[static_cast<size_t>(group) * m.padded_columns + stored]);
  return m.prescale == 1.0f ? scale : __float2half_rn(__half2float(scale) * m.prescale);
}

__global__ void repack_gptq_kernel(StoredMatrix m, uint32_t strip_bytes, int num_steps, uint8_t* codes) {
  const int lane = threadIdx.x & 31;
  const int step = blockIdx.x * kRepackWarps + (threadIdx.x >> 5);
  const int strip = blockIdx.y;
  if (step >= num_steps) return;
  uint8_t* tile = codes + static_cast<size_t>(strip) * strip_bytes + static_cast<size_t>(step) * 512;
  pack_tile<4>(tile, lane, [&](int row, int local) -> uint32_t {
    const int column = strip * kStripColumns + local;
    return column < m.num_columns ? gptq_code(m, step * kStepRows + row, stored_column(m, column)) : 0;
  });
}

// Group i of the tiles is the group of row group_first_row[i].
__global__ void repack_gptq_scales_kernel(StoredMatrix m, int num_groups, const int32_t* group_first_row,
                                          __half* scales) {
  const int index = blockIdx.x, strip = blockIdx.y;
  const int local = threadIdx.x;
  const int column = strip * kStripColumns + local;
  __half* entry = scales + (static_cast<size_t>(strip) * num_groups + index) * 64;
  const int at = (local & 7) * 4 + (local >> 3);
  __half scale = __float2half(0.0f), zero = scale;
  if (column < m.num_columns) {
    const int group = m.row_group[group_first_row[index]];
    scale = gptq_scale(m, group, stored_column(m, column));
    zero = __int2half_rn(gptq_zero(m, group, stored_column(m, column)));
  }
  entry[at] = scale;
  entry[32 + at] = zero;
}

// One element by its definition; the way of last resort for layouts that tiles do not fit.
__device__ __half element(const StoredMatrix& m, int row, int column) {
  if (row >= m.num_rows || column >= m.num_columns) return __float2half(0.0f);
  const int stored = stored_column(m, column);
  if (m.kind == TileKind::exl2) {
    const int group = m.row_group[row];
    const int bits = m.row_bits[row] & 255, bit = (m.row_bits[row] >> 8) * bits;
    const uint32_t* words =
        m.codes + static_cast<size_t>(m.row_packed[row] + bit / 32) * m.padded_columns + stored;
    uint64_t two = words[0];
    if (bit % 32 + bits > 32) two |= static_cast<uint64_t>(words[m.padded_columns]) << 32;
    const int code = static_cast<int>(two >> (bit % 32)) & ((1 << bits) - 1);
    const uint32_t word = m.scales[static_cast<size_t>(group) * (m.padded_columns / 8) + stored / 8];
    const int index = static_cast<int>((word >> (4 * (stored % 8))) & 15U) + 1;
    const __half scale = __hmul(__int2half_rn(index * index), __ushort_as_half(m.group_scale[group]));
    return __hmul(__int2half_rn(code - (1 << (bits - 1))), scale);
  }
  if (m.kind == TileKind::gptq) {
    const int group = m.row_group[row];
    const int code = static_cast<int>(gptq_code(m, row, stored)) - gptq_zero(m, group, stored);
    return __hmul(__int2half_rn(code), gptq_scale(m, group, stored));
  }
  const size_t at = static_cast<size_t>(stored) * m.num_rows + row;
  float value;
  if (m.dense_dtype == static_cast<int32_t>(DType::f16)) {
    value = __half2float(static_cast<const __half*>(m.dense)[at]);
  } else if (m.dense_dtype == static_cast<int32_t>(DType::bf16)) {
    value = __bfloat162float(static_cast<const __nv_bfloat16*>(m.dense)[at]);
  } else {
    value = static_cast<const float*>(m.dense)[at];
  }
  return __float2half_rn(m.prescale == 1.0f ? value : value * m.prescale);
}

__global__ void repack_dense_kernel(StoredMatrix m, uint32_t strip_bytes, int num_steps, uint8_t* codes) {
  const int lane = threadIdx.x & 31;
  const int step = blockIdx.x * kRepackWarps + (threadIdx.x >> 5);
  const int strip = blockIdx.y;
  if (step >= num_steps) return;
  auto* words = reinterpret_cast<uint32_t*>(codes + static_cast<size_t>(strip) * strip_bytes +
                                            static_cast<size_t>(step) * 2048);
  for (int h = 0; h < 16; ++h) {
    const int row = step * kStepRows + lane_row(lane, h, 0);
    const int column = strip * kStripColumns + lane_column(lane, h);
    const __half2 pair = __halves2half2(element(m, row, column), element(m, row + 1, column));
    words[(h / 4) * 128 + lane * 4 + h % 4] = bits_of(pair);
  }
}

__global__ void expand_kernel(const __grid_constant__ Matrix matrix, int part_index, int first_strip,
                              __half* target, int row_stride) {
  __shared__ __align__(16) uint8_t tiles[kRepackWarps][2048 + 128];
  const Part& part = matrix.parts[part_index];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int step = blockIdx.x * kRepackWarps + warp;
  const int strip = first_strip + blockIdx.y;
  if (step >= matrix.num_steps) return;
  int r = 0;
  while (step >= part.runs[r].end_step && r + 1 < part.num_runs) ++r;
  const Run& run = part.runs[r];
  const uint8_t* tile = part.codes + static_cast<size_t>(strip) * part.strip_bytes + run.first_byte +
                        static_cast<size_t>(step - run.first_step) * (run.bits * 128);
  for (int c = lane; c < run.bits * 8; c += 32)
    reinterpret_cast<uint4*>(tiles[warp])[c] = __ldcs(reinterpret_cast<const uint4*>(tile) + c);
  __syncwarp();
  const int group = run.first_group + ((step - run.first_step) >> run.group_shift);
  const size_t entry = static_cast<size_t>(strip) * part.num_groups + group;
  const uint32_t shared = shared_address(tiles[warp]);
  const int g = lane >> 2, t = lane & 3;
  __half2 w[16];
  if (matrix.kind == TileKind::exl2) {
    load_exl2_codes(run.bits, shared, lane, w);
    __half2 s[4];
    exl2_scales(reinterpret_cast<const uint16_t*>(part.scales)[entry * 8 + g], part.group_scale[group], s);
    apply_scales(w, s);
  } else if (matrix.kind == TileKind::gptq) {
    load_codes<4>(shared, lane, w, 0.0f);
    const auto* from = reinterpret_cast<const __half*>(part.scales) + entry * 64 + g * 4;
#pragma unroll
    for (int h = 0; h < 16; ++h) {
      const int q = 2 * (h / 8) + (h & 1);
      w[h] = __hmul2(__hsub2(w[h], __half2half2(from[32 + q])), __half2half2(from[q]));
    }
  } else {
    load_codes<16>(shared, lane, w, 0.0f);
  }
  const int row = step * kStepRows + 8 * t;
  if (row >= row_stride) return;
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    const int h = 8 * (q / 2) + (q & 1);
    const size_t column = static_cast<size_t>(blockIdx.y) * kStripColumns + g + 8 * q;
    const uint4 value = make_uint4(bits_of(w[h]), bits_of(w[h + 2]), bits_of(w[h + 4]), bits_of(w[h + 6]));
    *reinterpret_cast<uint4*>(target + column * row_stride + row) = value;
  }
}

dim3 tile_grid(int num_steps, int num_strips) {
  return dim3(static_cast<unsigned>((num_steps + kRepackWarps - 1) / kRepackWarps),
              static_cast<unsigned>(num_strips));
}

}  // namespace

cudaError_t repack_exl2(const StoredMatrix& source, const StepSource* steps, const Part& part, int num_steps,
                        uint8_t* codes, cudaStream_t stream) {
  repack_exl2_kernel<<<tile_grid(num_steps, part.num_strips), 32 * kRepackWarps, 0, stream>>>(
      source, steps, part.strip_bytes, num_steps, codes);
  return cudaGetLastError();
}

cudaError_t repack_exl2_scales(const StoredMatrix& source, const Part& part, uint8_t* scales,
                               cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((part.num_groups + 63) / 64), static_cast<unsigned>(part.num_strips),
                  8);
  repack_exl2_scales_kernel<<<grid, 64, 0, stream>>>(source, part.num_groups,
                                                     reinterpret_cast<uint16_t*>(scales));
  return cudaGetLastError();
}

cudaError_t repack_gptq(const StoredMatrix& source, const Part& part, int num_steps, uint8_t* codes,
                        uint8_t* scales, const int32_t* group_first_row, cudaStream_t stream) {
  repack_gptq_kernel<<<tile_grid(num_steps, part.num_strips), 32 * kRepackWarps, 0, stream>>>(
      source, part.strip_bytes, num_steps, codes);
  const dim3 grid(static_cast<unsigned>(part.num_groups), static_cast<unsigned>(part.num_strips));
  repack_gptq_scales_kernel<<<grid, 32, 0, stream>>>(source, part.num_groups, group_first_row,
                                                     reinterpret_cast<__half*>(scales));
  return cudaGetLastError();
}

cudaError_t repack_dense(const StoredMatrix& source, const Part& part, int num_steps, uint8_t* codes,
                         cudaStream_t stream) {
  repack_dense_kernel<<<tile_grid(num_steps, part.num_strips), 32 * kRepackWarps, 0, stream>>>(
      source, part.strip_bytes, num_steps, codes);
  return cudaGetLastError();
}

cudaError_t expand_columns(const Matrix& matrix, int part, int first_strip, int num_strips, __half* target,
                           int row_stride, cudaStream_t stream) {
  expand_kernel<<<tile_grid(matrix.num_steps, num_strips), 32 * kRepackWarps, 0, stream>>>(
      matrix, part, first_strip, target, row_stride);
  return cudaGetLastError();
}

}  // namespace quire::kernels
