// What the narrow kernel does for EXL3 matrices besides: the transforms of the inputs of one row, and of
// outputs.
#pragma once

#include "kernels/cuda/gemm/chain_share.cuh"
#include "kernels/cuda/gemm/trellis_rows.cuh"

namespace quire::kernels {

// Returns the place of a row that is not transformed yet from the first activations, in bytes.
__device__ __forceinline__ int trellis_row_at(const Matrix& m) {
  return trellis_input_row(m.num_parts) * m.num_blocks * kBlockRows * 2;
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

// Arrives at a counter, by a warp. Returns true if it is the last one.
__device__ __forceinline__ bool arrives_last(uint32_t* counter, int arrivals, int lane) {
  const uint32_t before = uniform(lane == 0 ? add_acquire_release(counter, arrivals * kArrival) : 0);
  __syncwarp();
  return eighths_before(before) + arrivals == kMaxSplits;
}

// Arrives with the sums of a strip for one token. Transforms those of four strips, of both parts if they are
// paired, if it is the last to arrive.
template <typename Arguments>
__device__ __forceinline__ void finish_rotated(const Arguments& a, StripPlace place, int token, int lane) {
  if (place.part < 0) return;
  const Matrix& m = a.matrix;
  const int first = first_strip(m, place.part), number = place.strip / kTransformStrips;
  const int row = output_row(a, token);
  const int counter = (m.paired ? 0 : first / kTransformStrips) + number;
  const int arrivals = m.paired ? 1 : kMaxSplits / kTransformStrips;
  uint32_t* const place_of_counter = a.counters + token * (m.num_strips / kTransformStrips) + counter;
  const auto sums_of = [&](int first_column) {
    const size_t of_token = static_cast<size_t>(token) * (m.num_strips * kStripColumns);
    return __ldcg(
        reinterpret_cast<const float4*>(a.trellis.sums + of_token + first_column + number * kHadamardOrder) +
        lane);
  };
  if (m.paired) {
    const PairFinish finish(a, number, lane);
    if (arrives_last(place_of_counter, arrivals, lane))
      finish.run(sums_of(0), sums_of(m.parts[0].num_strips * kStripColumns), row);
  } else {
    const PartFinish finish(a, place.part, number, lane);
    if (arrives_last(place_of_counter, arrivals, lane)) finish.run(sums_of(first * kStripColumns), row);
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
