// What the narrow kernel does for EXL3 matrices besides: the transforms of the inputs of one row, and of
// outputs.
#pragma once

#include "kernels/cuda/gemm/chain_share.cuh"
#include "kernels/cuda/gemm/trellis_rows.cuh"

namespace quire::kernels {

// Returns a bit for each part of which a thread block computes strips.
__device__ __forceinline__ uint32_t parts_of_block(const Matrix& m, const GemmShape& shape) {
  if (m.num_parts == 1) return 1;
  uint32_t parts = 0;
#pragma unroll 1
  for (int group = blockIdx.y; group < shape.groups; group += shape.blocks) {
    for (int slot = 0; slot < shape.strips; ++slot) {
      const int part = place_strip(m, shape, group, slot).part;
      if (part >= 0) parts |= 1U << part;
    }
  }
  return parts;
}

// Returns the place of a row that is not transformed yet from the first activations, in bytes.
__device__ __forceinline__ int trellis_row_at(const Matrix& m) {
  return trellis_input_row(m.num_parts) * m.num_blocks * kBlockRows * 2;
}

// Transforms a chain's part of a row in shared memory, by its warps: from the inputs, trellis_row_at, to a
// row for each part. Scales are loaded ahead, the first before the row is there.
class ChainTransform {
 public:
  __device__ __forceinline__ ChainTransform(const Matrix& m, const GemmShape& shape, const ChainShare& share,
                                            int lane)
      : m_(m), share_(share), lane_(lane), parts_(parts_of_block(m, shape)) {
    fetch(__ffs(static_cast<int>(parts_)) - 1, share.first + share.slot);
  }
  __device__ __forceinline__ void run(uint8_t* activations) {
    const int row_bytes = m_.num_blocks * kBlockRows * 2;
    const uint8_t* row = activations + trellis_row_at(m_);
#pragma unroll 1
    for (uint32_t left = parts_; left != 0; left &= left - 1) {
      const int part = __ffs(static_cast<int>(left)) - 1,
                after = __ffs(static_cast<int>(left & (left - 1))) - 1;
#pragma unroll 1
      for (int block = share_.first + share_.slot; block < share_.end;) {
        float4 scales[kAtOnce];
        uint2 inputs[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          scales[i] = ahead_[i];
          inputs[i] = reinterpret_cast<const uint2*>(row + block_at(block, i) * kBlockRows * 2)[lane_];
        }
        const int next = block + kAtOnce * share_.warps;
        if (next < share_.end) {
          fetch(part, next);
        } else if (after >= 0) {
          fetch(after, share_.first + share_.slot);
        }
        uint8_t* target = activations + part * row_bytes;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (block + i * share_.warps >= share_.end) break;
          auto* to = reinterpret_cast<__half2*>(target + block_at(block, i) * kBlockRows * 2);
          transform_inputs(inputs[i], scales[i], lane_, [&](int at, __half2 pair) { to[at / 2] = pair; });
        }
        block = next;
      }
    }
    share_.meet();
  }

 private:
  static constexpr int kAtOnce = 4;  // blocks of 128 inputs

  // Returns block i of those from `block` on, or the last one of the chain.
  __device__ __forceinline__ int block_at(int block, int i) const {
    return min(block + i * share_.warps, share_.end - 1);
  }
  __device__ __forceinline__ void fetch(int part, int block) {
    if (block >= share_.end) return;
    const auto* scales = reinterpret_cast<const float4*>(m_.parts[part].trellis.input_scales) + lane_;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) ahead_[i] = __ldg(scales + block_at(block, i) * (kBlockRows / 4));
  }

  const Matrix& m_;
  const ChainShare& share_;
  int lane_;
  uint32_t parts_;
  float4 ahead_[kAtOnce] = {};
};

// Loads the inputs of a trellis that are transformed already: a chain's part of the row of each part.
__device__ __forceinline__ void load_transformed_row(const GemmArguments& a, uint8_t* activations,
                                                     const ChainShare& share, int lane) {
  const int row_bytes = a.matrix.num_blocks * kBlockRows * 2;
  wait_for_predecessor();
#pragma unroll 1
  for (int p = 0; p < a.matrix.num_parts; ++p)
    copy_row(a.input + p * a.trellis.part_stride, activations + p * row_bytes,
             share.first * kRowSegmentBytes<TileKind::trellis>,
             share.end * kRowSegmentBytes<TileKind::trellis>, share, lane);
  commit_copies();
  wait_for_copies<0>();
  share.meet();
}

// Returns the first strip of a part among those of all parts.
__device__ __forceinline__ int first_strip(const Matrix& m, int part) {
  int first = 0;
  for (int p = 0; p < part; ++p) first += m.parts[p].num_strips;
  return first;
}

// Stores a sum of a strip of a trellis for one token.
template <typename Arguments>
__device__ __forceinline__ void store_rotated(const Arguments& a, StripPlace place, int token, int lane,
                                              float sum) {
  if (place.part < 0) return;
  const int column = (first_strip(a.matrix, place.part) + place.strip) * kStripColumns + lane;
  __stcg(a.trellis.sums + static_cast<size_t>(token) * (a.matrix.num_strips * kStripColumns) + column, sum);
}

// Arrives with the sums of a strip for one token. Transforms those of four strips, of both parts if they are
// paired, if it is the last to arrive.
template <typename Arguments>
__device__ __forceinline__ void finish_rotated(const Arguments& a, StripPlace place, int token, int lane) {
  if (place.part < 0) return;
  const Matrix& m = a.matrix;
  const int first = first_strip(m, place.part), number = place.strip / kTransformStrips;
  const int counter = (m.paired ? 0 : first / kTransformStrips) + number;
  uint32_t* const counters = a.counters + token * (m.num_strips / kTransformStrips);
  const int arrivals = m.paired ? 1 : kMaxSplits / kTransformStrips;
  const uint32_t before =
      uniform(lane == 0 ? add_acquire_release(counters + counter, arrivals * kArrival) : 0);
  if (eighths_before(before) + arrivals != kMaxSplits) return;
  __syncwarp();
  const RotatedSums from = {a.trellis.sums, m.num_strips * kStripColumns};
  if (m.paired) {
    finish_transform_pair(a, from, token, number, lane);
  } else {
    finish_transform(a, from, token, place.part, first * kStripColumns, number, lane);
  }
}

// Does this for all strips and tokens of a thread block, each by one of its warps. At the end, because a warp
// that meets the others between two groups of strips would keep its block waiting.
template <typename Arguments>
__device__ __forceinline__ void finish_all_rotated(const Arguments& a, int first_token, int tokens, int warp,
                                                   int lane) {
  const GemmShape& shape = a.shape;
  __syncthreads();
#pragma unroll 1
  for (int unit = warp;; unit += kNarrowWarps) {
    const int strip = unit / tokens, group = blockIdx.y + strip / shape.strips * shape.blocks;
    if (group >= shape.groups) return;
    finish_rotated(a, place_strip(a.matrix, shape, group, strip % shape.strips), first_token + unit % tokens,
                   lane);
  }
}

}  // namespace quire::kernels
