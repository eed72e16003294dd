#include <cuda_bf16.h>

#include "kernels/cuda/plan/float8_shape.h"
#include "kernels/cuda/weights/block_repack.h"
#include "kernels/cuda/weights/pack_tile.cuh"
#include "kernels/cuda/weights/weight_repack.h"
#include "kernels/interface/types.h"

namespace quire::kernels {
namespace {

constexpr int kRepackWarps = 4;

__device__ __forceinline__ int stored_column(const StoredMatrix& m, int column) {
  return m.column_order != nullptr ? m.column_order[column] : column;
}

// A stored code of fewer bits keeps its distance from the middle.
template <int kBits>
__device__ __forceinline__ void pack_exl2_tile(const StoredMatrix& m, const StepSource& s, int strip,
                                               uint8_t* tile, int lane) {
  pack_tile<kBits>(tile, lane, [&](int row, int local) -> uint32_t {
    const int column = strip * kStripColumns + local;
    if (column >= m.num_columns || s.stored_bits == 0) return 1U << (kBits - 1);
    const uint32_t* words =
        m.codes + static_cast<size_t>(s.packed_row) * m.padded_columns + stored_column(m, column);
    const int bit = row * s.stored_bits, word = bit / 32, shift = bit % 32;
    uint64_t two = __ldg(words + static_cast<size_t>(word) * m.padded_columns);
    if (shift + s.stored_bits > 32)
      two |= static_cast<uint64_t>(__ldg(words + static_cast<size_t>(word + 1) * m.padded_columns)) << 32;
    const uint32_t code = static_cast<uint32_t>(two >> shift) & ((1U << s.stored_bits) - 1);
    return code + (1U << (kBits - 1)) - (1U << (s.stored_bits - 1));
  });
}

// Finds this warp's step and the location of its tile; returns false after the last step.
__device__ __forceinline__ bool take_step(const RepackTarget& target, StepSource& step, uint8_t*& tile) {
  const int index = blockIdx.x * kRepackWarps + (threadIdx.x >> 5);
  if (index >= target.num_steps) return false;
  step = target.steps[index];
  tile = target.strips + static_cast<size_t>(blockIdx.y) * target.strip_bytes + step.byte;
  return true;
}

__global__ void repack_exl2_kernel(StoredMatrix m, RepackTarget target) {
  const int lane = threadIdx.x & 31, strip = blockIdx.y;
  StepSource s;
  uint8_t* tile;
  if (!take_step(target, s, tile)) return;
  switch (s.bits) {
    case 2:
      return pack_exl2_tile<2>(m, s, strip, tile, lane);
    case 3:
      return pack_exl2_tile<3>(m, s, strip, tile, lane);
    case 4:
      return pack_exl2_tile<4>(m, s, strip, tile, lane);
    case 5:
      return pack_exl2_tile<5>(m, s, strip, tile, lane);
    case 6:
      return pack_exl2_tile<6>(m, s, strip, tile, lane);
    default:
      return pack_exl2_tile<8>(m, s, strip, tile, lane);
  }
}

// Writes one record of scales: eight words of nibbles, the group's scale twice, and padding.
__global__ void repack_exl2_scales_kernel(StoredMatrix m, RepackTarget target) {
  const int index = blockIdx.x * blockDim.y + threadIdx.y;
  const int strip = blockIdx.y, entry = threadIdx.x;  // one of 16 u16
  if (index >= target.num_scales) return;
  const ScaleSource s = target.scales[index];
  uint32_t value = 0;
  for (int q = 0; q < 4 && entry < 8; ++q) {
    const int column = strip * kStripColumns + entry + 8 * q;
    if (column >= m.num_columns) continue;
    const int stored = stored_column(m, column);
    const uint32_t word = m.scales[static_cast<size_t>(s.group) * (m.padded_columns / 8) + stored / 8];
    value |= ((word >> (4 * (stored % 8))) & 15U) << (4 * q);
  }
  if (entry == 8 || entry == 9)
    value = __half_as_ushort(
        __float2half_rn(__half2float(__ushort_as_half(m.group_scale[s.group])) * m.record_factor));
  auto* record = target.strips + static_cast<size_t>(strip) * target.strip_bytes + s.byte;
  reinterpret_cast<uint16_t*>(record)[entry] = static_cast<uint16_t>(value);
}

// Returns code `index` of words that lie `stride` apart.
__device__ __forceinline__ uint32_t bits_at(const uint32_t* words, int index, int64_t stride, int bits) {
  const int per_word = 32 / bits;
  return (__ldg(words + index / per_word * stride) >> (index % per_word * bits)) & ((1U << bits) - 1U);
}
// Returns the code of a tile row.
__device__ __forceinline__ uint32_t coded_code(const StoredMatrix& m, int row, int stored) {
  const int source = m.row_source != nullptr ? m.row_source[row] : row;
  return bits_at(m.codes + stored * m.column_words, source, m.row_words, m.code_bits);
}
__device__ __forceinline__ int gptq_zero(const StoredMatrix& m, int group, int stored) {
  const uint32_t zero = m.zeros == nullptr ? 0
                                           : bits_at(m.zeros + group * m.zero_group_words, stored,
                                                     m.zero_column_words, m.code_bits);
  return static_cast<int>(zero) + m.zero_offset;
}
__device__ __forceinline__ __half gptq_scale(const StoredMatrix& m, int group, int stored) {
  const __half scale =
      __ushort_as_half(m.group_scale[static_cast<size_t>(group) * m.padded_columns + stored]);
  return m.prescale == 1.0f ? scale : __float2half_rn(__half2float(scale) * m.prescale);
}

// Returns the code of a tile's element, or 0 if it does not exist.
__device__ __forceinline__ uint32_t code_or_none(const StoredMatrix& m, int strip, int local, int row) {
  const int column = strip * kStripColumns + local;
  return column < m.num_columns && row < m.num_rows ? coded_code(m, row, stored_column(m, column)) : 0;
}

__global__ void repack_coded_kernel(StoredMatrix m, RepackTarget target) {
  const int lane = threadIdx.x & 31, strip = blockIdx.y;
  const int step = blockIdx.x * kRepackWarps + (threadIdx.x >> 5);
  StepSource s;
  uint8_t* tile;
  if (!take_step(target, s, tile)) return;
  const auto code_of = [&](int row, int local) {
    return code_or_none(m, strip, local, step * kStepRows + row);
  };
  if (m.kind == TileKind::mxfp4) {
    pack_tile<4, true>(tile, lane, code_of);
  } else if (m.code_bits == 4) {
    pack_tile<4>(tile, lane, code_of);
  } else {
    pack_tile<8>(tile, lane, code_of);
  }
}

// Writes a record of gptq scales, by 32 threads.
__global__ void repack_gptq_scales_kernel(StoredMatrix m, RepackTarget target,
                                          const int32_t* group_first_row) {
  const ScaleSource s = target.scales[blockIdx.x];
  const int strip = blockIdx.y, local = threadIdx.x;
  const int column = strip * kStripColumns + local;
  auto* record =
      reinterpret_cast<__half*>(target.strips + static_cast<size_t>(strip) * target.strip_bytes + s.byte);
  const int at = (local & 7) * 4 + (local >> 3);
  __half scale = __float2half(0.0f);
  int zero = 0;
  if (column < m.num_columns) {
    const int group = m.row_group[group_first_row[s.group]];
    scale = gptq_scale(m, group, stored_column(m, column));
    zero = gptq_zero(m, group, stored_column(m, column));
  }
  record[at] = scale;
  record[32 + at] = __float2half_rn(offset_of_zero(zero, m.code_bits, (local >> 3 & 1) != 0));
}

// Writes the record of a block of mxfp4, by 32 threads. The factor of each step is the ratio of its scale to
// the largest of the block.
__global__ void repack_mxfp4_scales_kernel(StoredMatrix m, RepackTarget target) {
  const int block = blockIdx.x, strip = blockIdx.y, local = threadIdx.x;
  const int column = strip * kStripColumns + local;
  uint8_t* record =
      target.strips + static_cast<size_t>(strip) * target.strip_bytes + target.scales[block].byte;
  const int at = (local & 7) * 4 + (local >> 3);
  int exponents[kBlockSteps] = {}, largest = 0;
  for (int i = 0; i < kBlockSteps; ++i) {
    const int row = block * kBlockRows + i * kStepRows;
    if (row >= m.num_rows || column >= m.num_columns) continue;
    const size_t group = static_cast<size_t>(m.row_group[row]) * m.padded_columns;
    exponents[i] = m.exponents[group + stored_column(m, column)];
    largest = max(largest, exponents[i]);
  }
  for (int i = 0; i < kBlockSteps; ++i) {
    const int factor = kMaxFactorExponent - (largest - exponents[i]);
    const __half half = __float2half_rn(exp2f(static_cast<float>(factor)));
    record[i * kStripColumns + at] = static_cast<uint8_t>(__half_as_ushort(half) >> 8);
  }
  record[kBlockSteps * kStripColumns + at] =
      column < m.num_columns ? static_cast<uint8_t>(min(max(largest + m.exponent_shift, 0), 254)) : 0;
}

__global__ void repack_fp8_kernel(StoredMatrix m, RepackTarget target) {
  const int lane = threadIdx.x & 31, strip = blockIdx.y;
  const int step = blockIdx.x * kRepackWarps + (threadIdx.x >> 5);
  StepSource s;
  uint8_t* tile;
  if (!take_step(target, s, tile)) return;
  const auto* codes = static_cast<const uint8_t*>(m.dense);
  uint32_t words[8] = {};
#pragma unroll
  for (int h = 0; h < 16; ++h) {
    const int column = strip * kStripColumns + lane_column(lane, h);
    if (column >= m.num_columns) continue;
    const uint8_t* from = codes + static_cast<size_t>(stored_column(m, column)) * m.num_rows;
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      const int row = step * kStepRows + lane_row(lane, h, x);
      if (row < m.num_rows) put(words, h / 2, 16 * x, e4m3_field(__ldg(from + row), h % 2 == 1));
    }
  }
#pragma unroll
  for (int w = 0; w < 8; ++w) reinterpret_cast<uint32_t*>(tile)[(w / 4) * 128 + lane * 4 + w % 4] = words[w];
}

__device__ __forceinline__ float fp8_scale(const StoredMatrix& m, int group, int stored) {
  const size_t scales_of_column = (m.num_rows - 1) / m.scale_in + 1;
  return m.dense_scales[static_cast<size_t>(stored / m.scale_out) * scales_of_column + group];
}

__global__ void repack_fp8_scales_kernel(StoredMatrix m, RepackTarget target) {
  const ScaleSource s = target.scales[blockIdx.x];
  const int strip = blockIdx.y, local = threadIdx.x;
  const int column = strip * kStripColumns + local;
  auto* record =
      reinterpret_cast<float*>(target.strips + static_cast<size_t>(strip) * target.strip_bytes + s.byte);
  record[(local & 7) * 4 + (local >> 3)] =
      column < m.num_columns ? fp8_scale(m, s.group, stored_column(m, column)) * m.prescale * kE4m3Unit
                             : 0.0f;
}

// One warp handles a block of a column.
__global__ void repack_float8_kernel(StoredMatrix m, Float8Target target) {
  const int block = blockIdx.y, lane = threadIdx.x & 31;
  const int column = blockIdx.x * kRepackWarps + (threadIdx.x >> 5);
  if (column >= m.num_columns) return;
  const int stored = stored_column(m, column), first = block * kBlockRows + 4 * lane;
  const Float8Place place = float8_column(target.first_column + column, target.num_columns, target.paired);
  uint8_t* to =
      target.tiles + (static_cast<size_t>(place.tile) * target.num_blocks + block) * kFloat8BlockBytes;
  const auto* from = static_cast<const uint8_t*>(m.dense) + static_cast<size_t>(stored) * m.num_rows;
  uint32_t codes = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (first + i < m.num_rows) codes |= static_cast<uint32_t>(__ldg(from + first + i)) << (8 * i);
  const uint32_t octet = static_cast<uint32_t>(place.row) / 8 * kFloat8OctetBytes;
  *reinterpret_cast<uint32_t*>(to + octet + float8_place(place.row, 4 * lane)) = codes;
  if (lane != 0) return;
  reinterpret_cast<float*>(to + kFloat8CodeBytes)[place.row] =
      fp8_scale(m, block * kBlockRows / m.scale_in, stored) * m.prescale;
}

// Converts an E4M3 code; no code is NaN.
__device__ __forceinline__ float e4m3_value(uint32_t code) {
  return __half2float(__ushort_as_half(static_cast<uint16_t>(e4m3_field(code, true)))) * kE4m3Unit;
}

// Computes one element from its definition. Used for layouts that do not fit tiles.
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
  if (m.kind == TileKind::gptq || m.kind == TileKind::gptq8) {
    const int group = m.row_group[row];
    const int code = static_cast<int>(coded_code(m, row, stored)) - gptq_zero(m, group, stored);
    return __hmul(__int2half_rn(code), gptq_scale(m, group, stored));
  }
  const size_t at = static_cast<size_t>(stored) * m.num_rows + row;
  float value;
  if (m.dense_dtype == static_cast<int32_t>(DType::f16)) {
    value = __half2float(static_cast<const __half*>(m.dense)[at]);
  } else if (m.dense_dtype == static_cast<int32_t>(DType::bf16)) {
    value = __bfloat162float(static_cast<const __nv_bfloat16*>(m.dense)[at]);
  } else if (m.dense_dtype == static_cast<int32_t>(DType::f8_e4m3)) {
    value = e4m3_value(static_cast<const uint8_t*>(m.dense)[at]) * fp8_scale(m, row / m.scale_in, stored);
  } else {
    value = static_cast<const float*>(m.dense)[at];
  }
  return __float2half_rn(m.prescale == 1.0f ? value : value * m.prescale);
}

__global__ void repack_dense_kernel(StoredMatrix m, RepackTarget target) {
  const int lane = threadIdx.x & 31, strip = blockIdx.y;
  const int step = blockIdx.x * kRepackWarps + (threadIdx.x >> 5);
  StepSource s;
  uint8_t* tile;
  if (!take_step(target, s, tile)) return;
  auto* words = reinterpret_cast<uint32_t*>(tile);
  for (int h = 0; h < 16; ++h) {
    const int row = step * kStepRows + lane_row(lane, h, 0);
    const int column = strip * kStripColumns + lane_column(lane, h);
    const __half2 pair = __halves2half2(element(m, row, column), element(m, row + 1, column));
    words[(h / 4) * 128 + lane * 4 + h % 4] = bits_of(pair);
  }
}

// One warp per segment.
template <int kBits>
__device__ __forceinline__ void expand_tile(const uint8_t* tile, int lane, const __half2 (&factors)[2],
                                            __half2 (&w)[16]) {
  uint32_t raw[kBits];
  fetch_words<kBits>(GlobalTile{tile}, lane, raw);
  decode_words<kBits>(raw, factors, w);
}

__device__ __forceinline__ void expand_exl2_tile(int bits, const uint8_t* tile, int lane,
                                                 const __half2 (&factors)[2], __half2 (&w)[16]) {
  switch (bits) {
    case 2:
      return expand_tile<2>(tile, lane, factors, w);
    case 3:
      return expand_tile<3>(tile, lane, factors, w);
    case 4:
      return expand_tile<4>(tile, lane, factors, w);
    case 5:
      return expand_tile<5>(tile, lane, factors, w);
    case 6:
      return expand_tile<6>(tile, lane, factors, w);
    default:
      return expand_tile<8>(tile, lane, factors, w);
  }
}

template <int kBits>
__device__ __forceinline__ void expand_gptq_tile(const uint8_t* tile, int lane, const __half2 (&offset)[4],
                                                 __half2 (&w)[16]) {
  uint32_t raw[kBits];
  fetch_words<kBits>(GlobalTile{tile}, lane, raw);
  decode_shifted_words<kBits>(raw, offset, w);
}

__global__ void __launch_bounds__(32 * kRepackWarps)
    expand_kernel(const __grid_constant__ Matrix matrix, int part_index, int first_strip, __half* target,
                  int row_stride) {
  const Part& part = matrix.parts[part_index];
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const int segment = blockIdx.x * kRepackWarps + (threadIdx.x >> 5);
  if (segment >= part.runs[part.num_runs - 1].end) return;
  int r = 0;
  while (segment >= part.runs[r].end) ++r;
  const Run& run = part.runs[r];
  const int steps = matrix.kind == TileKind::dense ? 1 : kBlockSteps, bits = run.bits;
  const uint8_t* record = part.strips + static_cast<size_t>(first_strip + blockIdx.y) * part.strip_bytes +
                          run.first_byte + static_cast<size_t>(segment - run.first) * run.segment_bytes;
  const uint32_t record_bytes = matrix.kind == TileKind::dense   ? 0
                                : matrix.kind == TileKind::exl2  ? kRecordBytes<TileKind::exl2>
                                : matrix.kind == TileKind::mxfp4 ? kRecordBytes<TileKind::mxfp4>
                                                                 : kRecordBytes<TileKind::gptq>;
  const uint8_t* tile = record + run.records * record_bytes;
  float scale[4] = {};
  __half2 offset[4] = {}, factors[2] = {};
  for (int i = 0; i < steps; ++i, tile += bits * 128) {
    if (i == 0 || run.records > 1) {
      if (matrix.kind == TileKind::exl2) {
        exl2_column_scales(__ldg(reinterpret_cast<const uint16_t*>(record) + g),
                           __ldg(reinterpret_cast<const uint32_t*>(record + 16)), factors);
#pragma unroll
        for (int q = 0; q < 4; ++q) scale[q] = part.unit;
      } else if (matrix.kind == TileKind::gptq || matrix.kind == TileKind::gptq8) {
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const auto* from = reinterpret_cast<const __half*>(record) + g * 4 + q;
          scale[q] = __half2float(from[0]);
          offset[q] = __half2half2(from[32]);
        }
      } else if (matrix.kind == TileKind::fp8) {
#pragma unroll
        for (int q = 0; q < 4; ++q) scale[q] = __ldg(reinterpret_cast<const float*>(record) + g * 4 + q);
      } else if (matrix.kind == TileKind::mxfp4) {
#pragma unroll
        for (int q = 0; q < 4; ++q)
          scale[q] = power_of_two(record[kBlockSteps * kStripColumns + g * 4 + q], 0);
      }
      record += record_bytes;
    }
    __half2 w[16];
    if (matrix.kind == TileKind::exl2) {
      expand_exl2_tile(bits, tile, lane, factors, w);
      apply_wide_scales(w, scale);
    } else if (matrix.kind == TileKind::gptq) {
      expand_gptq_tile<4>(tile, lane, offset, w);
      apply_scales(w, scale);
    } else if (matrix.kind == TileKind::gptq8) {
      expand_gptq_tile<8>(tile, lane, offset, w);
      apply_scales(w, scale);
    } else if (matrix.kind == TileKind::mxfp4) {
      uint32_t raw[4];
      fetch_words<4>(GlobalTile{tile}, lane, raw);
      // `record` already points to the next record; this one has a word per step.
      decode_e2m1_words(raw, load_once_4(record - record_bytes + i * kStripColumns + 4 * g), w);
      apply_wide_scales(w, scale);
    } else if (matrix.kind == TileKind::fp8) {
      uint32_t raw[8];
      fetch_words<8>(GlobalTile{tile}, lane, raw);
      decode_e4m3(raw, w);
      apply_wide_scales(w, scale);
    } else {
      uint32_t raw[16];
      fetch_words<16>(GlobalTile{tile}, lane, raw);
      decode_dense(raw, w);
    }
    const int row = (segment * steps + i) * kStepRows + 8 * t;
    if (row >= row_stride) continue;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int h = 8 * (q / 2) + (q & 1);
      const size_t column = static_cast<size_t>(blockIdx.y) * kStripColumns + g + 8 * q;
      const uint4 value = make_uint4(bits_of(w[h]), bits_of(w[h + 2]), bits_of(w[h + 4]), bits_of(w[h + 6]));
      *reinterpret_cast<uint4*>(target + column * row_stride + row) = value;
    }
  }
}

dim3 tile_grid(int num_steps, int num_strips) {
  return dim3(static_cast<unsigned>((num_steps + kRepackWarps - 1) / kRepackWarps),
              static_cast<unsigned>(num_strips));
}

}  // namespace

cudaError_t repack_exl2(const StoredMatrix& source, const RepackTarget& target, cudaStream_t stream) {
  repack_exl2_kernel<<<tile_grid(target.num_steps, target.num_strips), 32 * kRepackWarps, 0, stream>>>(
      source, target);
  const dim3 grid(static_cast<unsigned>((target.num_scales + 7) / 8),
                  static_cast<unsigned>(target.num_strips));
  repack_exl2_scales_kernel<<<grid, dim3(16, 8), 0, stream>>>(source, target);
  return cudaGetLastError();
}

cudaError_t repack_coded(const StoredMatrix& source, const RepackTarget& target,
                         const int32_t* group_first_row, cudaStream_t stream) {
  repack_coded_kernel<<<tile_grid(target.num_steps, target.num_strips), 32 * kRepackWarps, 0, stream>>>(
      source, target);
  const dim3 grid(static_cast<unsigned>(target.num_scales), static_cast<unsigned>(target.num_strips));
  if (source.kind == TileKind::mxfp4) {
    repack_mxfp4_scales_kernel<<<grid, 32, 0, stream>>>(source, target);
  } else {
    repack_gptq_scales_kernel<<<grid, 32, 0, stream>>>(source, target, group_first_row);
  }
  return cudaGetLastError();
}

cudaError_t repack_fp8(const StoredMatrix& source, const RepackTarget& target, cudaStream_t stream) {
  repack_fp8_kernel<<<tile_grid(target.num_steps, target.num_strips), 32 * kRepackWarps, 0, stream>>>(source,
                                                                                                      target);
  const dim3 grid(static_cast<unsigned>(target.num_scales), static_cast<unsigned>(target.num_strips));
  repack_fp8_scales_kernel<<<grid, 32, 0, stream>>>(source, target);
  return cudaGetLastError();
}

cudaError_t repack_dense(const StoredMatrix& source, const RepackTarget& target, cudaStream_t stream) {
  repack_dense_kernel<<<tile_grid(target.num_steps, target.num_strips), 32 * kRepackWarps, 0, stream>>>(
      source, target);
  return cudaGetLastError();
}

cudaError_t repack_float8(const StoredMatrix& source, const Float8Target& target, cudaStream_t stream) {
  repack_float8_kernel<<<tile_grid(source.num_columns, target.num_blocks), 32 * kRepackWarps, 0, stream>>>(
      source, target);
  return cudaGetLastError();
}

cudaError_t expand_columns(const Matrix& matrix, const Slab& slab, __half* target, int row_stride,
                           cudaStream_t stream) {
  if (matrix.kind == TileKind::blocks) return expand_block_columns(matrix, slab, target, row_stride, stream);
  const Part& part = matrix.parts[slab.part];
  expand_kernel<<<tile_grid(part.runs[part.num_runs - 1].end, slab.num_strips), 32 * kRepackWarps, 0,
                  stream>>>(matrix, slab.part, slab.first_strip, target, row_stride);
  return cudaGetLastError();
}

}  // namespace quire::kernels
