// Product of one segment of weights and the activations of up to 8 rows, and iteration along a chain of
// segments.
//
// A weight costs the read of its bits, one AND and one multiply-add in half precision; that of a trellis four
// to five instructions (trellis_weights.cuh). Codes of EXL2 and of
// blocks become scaled weights rounded to f16, so that products add to the sums of the chain. Codes of other
// kinds become f16 integers, which tensor cores multiply exactly, and the f32 sums of a group are scaled. Per
// 1,024 weights of 4 bits and 8 tokens: 20 integer, 16 half-precision and 4 tensor instructions, and 2 loads;
// in addition, per group, the computation of its scales.
//
// Loops are not unrolled: a kernel of a few microseconds executes most of its instructions for the first
// time, and then the instruction cache is the bottleneck.
#pragma once

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/ring.cuh"
#include "kernels/cuda/gemm/block_weights.cuh"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/gemm/plane.cuh"
#include "kernels/cuda/gemm/trellis_weights.cuh"

namespace quire::kernels {

// Sums of 32 columns by 8 tokens as mma returns them: [half strip][4].
using Sums = float[2][4];

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int x = 0; x < 4; ++x) sums[i][x] = 0.0f;
  }
}

// sums += 32 rows of weights times activations.
__device__ __forceinline__ void multiply_step(const __half2 (&w)[16], uint4 b, Sums& sums) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t a[4] = {bits_of(w[8 * i + 4 * j]), bits_of(w[8 * i + 4 * j + 1]),
                             bits_of(w[8 * i + 4 * j + 2]), bits_of(w[8 * i + 4 * j + 3])};
      mma_16x8x16(sums[i], a, j == 0 ? b.x : b.z, j == 0 ? b.y : b.w);
    }
  }
}

// A lane's scales of a group for columns g, g + 8, g + 16, g + 24: of sums or, for exl2, of weights. For gptq
// also the offsets added to raw codes, for mxfp4 the location of the next step's factors.
template <TileKind kKind>
struct GroupScales {
  float scale[4];
  __half2 offset[kIsGptq<kKind> ? 4 : 1];
  __half2 factors[2];  // exl2
  uint32_t factors_at;

  __device__ __forceinline__ void read(uint32_t record, int g) {
    if constexpr (kKind == TileKind::exl2) {
      exl2_column_scales(load_shared_2(record + 2 * g), load_shared_4(record + 16), factors);
    } else if constexpr (kIsGptq<kKind>) {
      const uint2 s = load_shared_8(record + 8 * g), o = load_shared_8(record + 64 + 8 * g);
      gptq_two_scales(s.x, scale);
      gptq_two_scales(s.y, scale + 2);
      gptq_two_offsets(o.x, offset);
      gptq_two_offsets(o.y, offset + 2);
    } else if constexpr (kKind == TileKind::fp8) {
      const uint4 s = load_shared_16(record + 16 * g);
      scale[0] = __uint_as_float(s.x);
      scale[1] = __uint_as_float(s.y);
      scale[2] = __uint_as_float(s.z);
      scale[3] = __uint_as_float(s.w);
    } else if constexpr (kKind == TileKind::mxfp4) {
      factors_at = record + 4 * g;
      const uint32_t exponents = load_shared_4(factors_at + kBlockSteps * kStripColumns);
#pragma unroll
      for (int q = 0; q < 4; ++q) scale[q] = power_of_two(exponents, q);
    }
  }

  // totals += scale * sums.
  __device__ __forceinline__ void add(const Sums& sums, Sums& totals) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int x = 0; x < 4; ++x) totals[i][x] = __fmaf_rn(sums[i][x], scale[2 * i + (x >> 1)], totals[i][x]);
    }
  }

  // Decodes the next step; called for the steps in order.
  template <int kBits>
  __device__ __forceinline__ void decode(const uint32_t (&raw)[kBits], __half2 (&w)[16]) {
    if constexpr (kIsGptq<kKind>) {
      decode_shifted_words<kBits>(raw, offset, w);
    } else if constexpr (kKind == TileKind::fp8) {
      decode_e4m3(raw, w);
    } else if constexpr (kKind == TileKind::mxfp4) {
      decode_e2m1_words(raw, load_shared_4(factors_at), w);
      factors_at += kStripColumns;
    } else {
      decode_words<kBits>(raw, factors, w);
    }
  }
};

// Computes the sums of the steps of one group: 1 or kBlockSteps. take() returns the activations of the next
// step.
template <TileKind kKind, int kBits, typename Take>
__device__ __forceinline__ void multiply_group(GroupScales<kKind>& group, uint32_t tile, int steps, int lane,
                                               Take& take, Sums& sums) {
#pragma unroll 1
  for (; steps > 0; --steps, tile += kBits * 128) {
    uint32_t raw[kBits];
    fetch_words<kBits>(SharedTile{tile}, lane, raw);
    const uint4 b = take();
    __half2 w[16];
    group.decode(raw, w);
    multiply_step(w, b, sums);
  }
}

// totals += the segment of blocks at `address`.
template <typename Take>
__device__ __forceinline__ void multiply_blocks(uint32_t address, int type, int lane, Take& take,
                                                Sums& totals) {
  const BlockTile& tile = kBlockTiles.of[type];
  const int second = second_group(tile, lane);
  with_block_codes(
      tile, [&]<int kBits, bool kIndices>(std::integral_constant<int, kBits>, std::bool_constant<kIndices>) {
        uint32_t words = address + tile.record_bytes;
#pragma unroll 1
        for (int i = 0; i < kBlockSteps; ++i, words += kBits * 128) {
          uint32_t raw[kBits];
          fetch_words<kBits>(SharedTile{words}, lane, raw);
          const uint4 b = take();
          __half2 w[16];
          decode_block_words<kBits, kIndices>(tile, SharedRecord{address}, i, second, lane >> 2, raw, w);
          multiply_step(w, b, totals);
        }
      });
}

// sums += 32 rows of weights of a half strip times activations.
__device__ __forceinline__ void multiply_half_step(const __half2 (&w)[8], uint4 b, float (&sums)[4]) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const uint32_t a[4] = {bits_of(w[4 * j]), bits_of(w[4 * j + 1]), bits_of(w[4 * j + 2]),
                           bits_of(w[4 * j + 3])};
    mma_16x8x16(sums, a, j == 0 ? b.x : b.z, j == 0 ? b.y : b.w);
  }
}

// totals += the segment of a trellis at `address`.
template <typename Take>
__device__ __forceinline__ void multiply_trellis(uint32_t address, int form, int lane, Take& take,
                                                 Sums& totals) {
  const TrellisFactors factors = trellis_factors(form, lane);
  with_trellis_form(form, [&]<int kHalfBits, bool kBytes>(std::integral_constant<int, kHalfBits>,
                                                          std::bool_constant<kBytes>) {
    using Form = TrellisForm<kHalfBits>;
#pragma unroll 1
    for (int u = 0; u < Form::kUnits; ++u, address += Form::kUnitBytes) {
      TrellisUnit<kHalfBits> left, right;
      left.fetch(SharedTile{address}, lane);
      right.fetch(SharedTile{address + trellis_half_bytes(kHalfBits)}, lane);
      for_constants<Form::kUnitSteps>([&]<int kStep>(std::integral_constant<int, kStep>) {
        const uint4 b = take();
        __half2 w[8];
        left.template decode<kBytes, kStep>(factors, w);
        multiply_half_step(w, b, totals[0]);
        right.template decode<kBytes, kStep>(factors, w);
        multiply_half_step(w, b, totals[1]);
      });
    }
  });
}

// sums += the half strip of a segment of a trellis at `address`.
template <typename Take>
__device__ __forceinline__ void multiply_half_trellis(uint32_t address, int form, int lane, Take& take,
                                                      float (&sums)[4]) {
  const TrellisFactors factors = trellis_factors(form, lane);
  with_trellis_form(form, [&]<int kHalfBits, bool kBytes>(std::integral_constant<int, kHalfBits>,
                                                          std::bool_constant<kBytes>) {
    using Form = TrellisForm<kHalfBits>;
#pragma unroll
    for (int u = 0; u < Form::kUnits; ++u, address += Form::kUnitBytes) {
      TrellisUnit<kHalfBits> unit;
      unit.fetch(SharedTile{address}, lane);
      for_constants<Form::kUnitSteps>([&]<int kStep>(std::integral_constant<int, kStep>) {
        const uint4 b = take();
        __half2 w[8];
        unit.template decode<kBytes, kStep>(factors, w);
        multiply_half_step(w, b, sums);
      });
    }
  });
}

// totals += the segment at `address`.
template <TileKind kKind, typename Take>
__device__ __forceinline__ void multiply_segment(uint32_t address, int bits, int records, int lane,
                                                 Take& take, Sums& totals) {
  if constexpr (kKind == TileKind::dense) {
    uint32_t raw[16];
    fetch_words<16>(SharedTile{address}, lane, raw);
    const uint4 b = take();
    __half2 w[16];
    decode_dense(raw, w);
    multiply_step(w, b, totals);
  } else if constexpr (kKind == TileKind::blocks) {
    multiply_blocks(address, bits, lane, take, totals);
  } else if constexpr (kKind == TileKind::trellis) {
    multiply_trellis(address, bits, lane, take, totals);
  } else {
    const int steps = records == 1 ? kBlockSteps : 1;
    uint32_t tile = address + records * kRecordBytes<kKind>;
#pragma unroll 1
    for (int r = records; r > 0; --r, address += kRecordBytes<kKind>, tile += steps * bits * 128) {
      GroupScales<kKind> group;
      group.read(address, lane >> 2);
      Sums group_sums;
      Sums& sums = kScalesSums<kKind> ? group_sums : totals;
      if constexpr (kScalesSums<kKind>) clear(sums);
      // The same for all lanes of a warp.
      if constexpr (kOnlyBits<kKind> != 0) {
        multiply_group<kKind, kOnlyBits<kKind>>(group, tile, steps, lane, take, sums);
      } else {
        if (bits == 4) {
          multiply_group<kKind, 4>(group, tile, steps, lane, take, sums);
        } else if (bits == 3) {
          multiply_group<kKind, 3>(group, tile, steps, lane, take, sums);
        } else if (bits == 5) {
          multiply_group<kKind, 5>(group, tile, steps, lane, take, sums);
        } else if (bits == 6) {
          multiply_group<kKind, 6>(group, tile, steps, lane, take, sums);
        } else if (bits == 2) {
          multiply_group<kKind, 2>(group, tile, steps, lane, take, sums);
        } else {
          multiply_group<kKind, 8>(group, tile, steps, lane, take, sums);
        }
      }
      if constexpr (kScalesSums<kKind>) group.add(sums, totals);
    }
  }
}

// Like multiply_segment for fp8, whose segments with one record arrive in two pieces. turn() returns the
// address of the second piece.
template <TileKind kKind, typename Take, typename Turn>
__device__ __forceinline__ void multiply_pieces(uint32_t address, int records, int lane, Take& take,
                                                Turn turn, Sums& totals) {
  static_assert(kKind == TileKind::fp8);
  if (records > 1) return multiply_segment<kKind>(address, 8, records, lane, take, totals);
  GroupScales<kKind> group;
  group.read(address, lane >> 2);
  uint32_t tile = address + kRecordBytes<kKind>;
  Sums sums;
  clear(sums);
#pragma unroll 1
  for (int i = 0; i < kBlockSteps; ++i, tile += kLastPieceBytes / 2) {
    if (i == kBlockSteps / 2) tile = turn();
    uint32_t raw[8];
    fetch_words<8>(SharedTile{tile}, lane, raw);
    const uint4 b = take();
    __half2 w[16];
    group.decode(raw, w);
    multiply_step(w, b, sums);
  }
  group.add(sums, totals);
}

template <TileKind kKind>
constexpr int kSegmentSteps = segment_steps(kKind);
template <TileKind kKind>
constexpr int kSegmentPieces = segment_pieces(kKind);

// Returns the first block of 128 rows of a chain; `chain` may be the number of chains.
__device__ __forceinline__ int chain_block(int num_blocks, int chain, int chain_bits) {
  return static_cast<int>(static_cast<unsigned>(num_blocks * chain) >> chain_bits);
}

// Returns the first segment of a chain.
template <TileKind kKind>
__device__ __forceinline__ int chain_begin(const Matrix& m, int chain) {
  return chain_block(m.num_blocks, chain, m.chain_bits) * (kBlockSteps / kSegmentSteps<kKind>);
}

// Iterates over the segments [first, end) of a part, and returns the form of each.
class SegmentWalk {
 public:
  __device__ __forceinline__ void begin(const Matrix& m, int part, int first, int end) {
    part_ = part;
    segment_ = first;
    end_ = end;
    run_ = 0;
    while (first >= m.parts[part].runs[run_].end) ++run_;
    enter_run(m);
  }
  // Returns the offset of the first segment in its strip.
  __device__ __forceinline__ uint32_t offset(const Matrix& m) const {
    return m.parts[part_].runs[run_].first_byte + (segment_ - m.parts[part_].runs[run_].first) * bytes(m);
  }
  __device__ __forceinline__ uint32_t bytes(const Matrix& m) const {
    return m.parts[part_].runs[run_].segment_bytes;
  }
  __device__ __forceinline__ int bits(const Matrix& m) const { return m.parts[part_].runs[run_].bits; }
  __device__ __forceinline__ int records(const Matrix& m) const { return m.parts[part_].runs[run_].records; }
  // Returns false after the last segment.
  __device__ __forceinline__ bool next(const Matrix& m) {
    if (++segment_ < stop_) return true;
    if (segment_ >= end_) return false;
    ++run_;
    enter_run(m);
    return true;
  }

 private:
  __device__ __forceinline__ void enter_run(const Matrix& m) {
    stop_ = min(end_, m.parts[part_].runs[run_].end);
  }

  int part_ = 0;
  int run_ = 0;
  int segment_ = 0;
  int stop_ = 0;  // end of the run or of all segments, whichever is first
  int end_ = 0;
};

// Location of a strip of a group. `part` is negative if the group extends beyond the last strip.
struct StripPlace {
  int part;
  int strip;
};

__device__ __forceinline__ StripPlace place_strip(const Matrix& m, const GemmShape& shape, int group,
                                                  int slot) {
  if (m.paired) {
    const int strip = group * (shape.strips >> 1) + (slot >> 1);
    return {strip < m.parts[0].num_strips ? slot & 1 : -1, strip};
  }
  int strip = group * shape.strips + slot, p = 0;
#pragma unroll 1
  for (; p < m.num_parts && strip >= m.parts[p].num_strips; ++p) strip -= m.parts[p].num_strips;
  return {p < m.num_parts ? p : -1, strip};
}

// Starts the copies of a warp's segments in the order of use: for slot `slot` of each group the segments
// [first, end). Segments with one record are copied in kPieces pieces.
template <int kPieces>
class SegmentRequests {
 public:
  __device__ __forceinline__ SegmentRequests(const Matrix& matrix, const GemmShape& shape, int group,
                                             int slot, int first, int end)
      : matrix_(matrix),
        shape_(shape),
        group_(first < end ? group : shape.groups),
        slot_(slot),
        first_(first),
        end_(end) {
    open();
  }
  __device__ __forceinline__ void next(WarpRing& ring, int lane) {
    if (group_ >= shape_.groups) return ring.request_nothing();
    uint32_t bytes = walk_.bytes(matrix_);
    if constexpr (kPieces == 2) {
      if (walk_.records(matrix_) == 1) {
        bytes = is_last_ ? kLastPieceBytes : bytes - kLastPieceBytes;
        is_last_ = !is_last_;
      }
    }
    ring.request(next_, bytes, lane);
    next_ += bytes;
    if constexpr (kPieces == 2) {
      if (is_last_) return;
    }
    if (walk_.next(matrix_)) return;
    group_ += shape_.blocks;
    open();
  }

 private:
  __device__ __forceinline__ void open() {
    if (group_ >= shape_.groups) return;
    const StripPlace place = place_strip(matrix_, shape_, group_, slot_);
    if (place.part < 0) {
      group_ = shape_.groups;
      return;
    }
    walk_.begin(matrix_, place.part, first_, end_);
    next_ = matrix_.parts[place.part].strips +
            static_cast<size_t>(place.strip) * matrix_.parts[place.part].strip_bytes + walk_.offset(matrix_);
  }

  const Matrix& matrix_;
  const GemmShape& shape_;
  int group_;
  int slot_;
  int first_;
  int end_;
  const uint8_t* next_ = nullptr;
  bool is_last_ = false;  // the next piece is the last of its segment
  SegmentWalk walk_;
};

}  // namespace quire::kernels
