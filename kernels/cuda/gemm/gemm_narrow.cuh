// GEMM for up to 8 tokens, bound by the memory reads of the weights. See GemmShape.
//
// Bytes: the weights once. The activations of a single token come from shared memory, normalised there or
// copied by each warp for its chain. Those of several tokens come from L2: 64 bytes per token and step,
// compared with 128 * bits bytes of codes.
//
// Blocks are persistent: each computes strips until all are done, so that its rings of copies run ahead
// across strips. With dependent launch the rings are filled before the wait for the previous kernel: the
// first weights of a warp are in shared memory when its activations are ready.
#pragma once

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/gemm/gemm_output.cuh"
#include "kernels/cuda/gemm/trellis_row.cuh"
#include "kernels/cuda/pointwise/norm.cuh"

namespace quire::kernels {

static_assert(kNormThreads == kNarrowThreads);

// Activations from L2 arrive later than a step of wide weights takes, so two steps are loaded ahead.
template <TileKind kKind, bool kShared>
constexpr int kStepsAhead = !kShared && (kKind == TileKind::fp8 || kKind == TileKind::dense) ? 2 : 1;

// Stores the sums of a warp's chain.
template <bool kOneRow>
__device__ __forceinline__ void put_sums(float* place, const Sums& totals, int tokens, int lane) {
  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int y = 0; y < (kOneRow ? 1 : 2); ++y) {
    const int token = 2 * t + y;
    if (token >= tokens) continue;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int x = 0; x < 2; ++x) place[sum_place(token, 16 * i + 8 * x + g)] = totals[i][2 * x + y];
    }
  }
}

// Loads one token's activations into shared memory after the previous kernel has ended: normalised by the
// whole block, or, without a norm, each chain's part by its warps.
template <TileKind kKind>
__device__ __forceinline__ void load_inputs(const GemmArguments& a, uint8_t* shared, uint8_t* activations,
                                            const ChainShare& share, int lane) {
  if (a.norm.input != nullptr) {
    auto* normed = reinterpret_cast<__half*>(activations);
    RowNorm<false> norm(a.norm, a.norm_place);
    wait_for_predecessor();
    const size_t source = a.norm.row_index != nullptr ? a.norm.row_index[0] : 0;
    norm.run(a.norm.input + source * a.matrix.num_rows, reinterpret_cast<float*>(shared + kNormSumsAt),
             [&](int column, float y) { normed[column] = __float2half_rn(y); });
    __syncthreads();
  } else {
    wait_for_predecessor();
    copy_row(a.input, activations, share.first * kRowSegmentBytes<kKind>, share.end * kRowSegmentBytes<kKind>,
             share, lane);
    commit_copies();
    wait_for_copies<0>();
    share.meet();
  }
}

// Loads one token's activations, transformed for each part if they are those of a trellis.
template <TileKind kKind>
__device__ __forceinline__ void load_row(const GemmArguments& a, uint8_t* shared, const ChainShare& share,
                                         int lane) {
  uint8_t* activations = shared + a.shape.activations_at;
  if constexpr (kKind == TileKind::trellis) {
    if (a.trellis.part_stride != 0) return load_transformed_row(a, activations, share, lane);
    ChainTransform transform(a.matrix, a.shape, share, lane);
    load_inputs<kKind>(a, shared, activations + trellis_row_at(a.matrix), share, lane);
    transform.run(activations);
  } else {
    load_inputs<kKind>(a, shared, activations, share, lane);
  }
}

// Runs a thread block. kOneRow: one token, whose activations bring(share, lane) loads into shared memory, at
// least those of the warp's chain.
template <TileKind kKind, bool kOneRow, typename Arguments, typename Fetch>
__device__ __forceinline__ void multiply_narrow(const Arguments& a, uint8_t* shared, int first_token,
                                                int tokens, Fetch bring) {
  if constexpr (kKind == TileKind::trellis && kOneRow)
    return multiply_trellis_row(a, shared, first_token, bring);
  const Matrix& m = a.matrix;
  const GemmShape& shape = a.shape;
  // A value that the compiler can prove uniform in the warp needs no register per lane.
  const int warp = __shfl_sync(0xffffffffU, threadIdx.x >> 5, 0), lane = threadIdx.x & 31;
  const uint32_t base = shared_address(shared);
  // With 8 chains, the second half of the warps computes the group's second strip.
  const int chains = 1 << m.chain_bits, slot = warp >> m.chain_bits, chain = warp & (chains - 1);
  const int first = chain_begin<kKind>(m, chain), end = chain_begin<kKind>(m, chain + 1);
  constexpr int kSegmentBytes = kRowSegmentBytes<kKind>;

  WarpRing ring(base + shape.rings_at + warp * shape.ring_slots * shape.slot_bytes,
                base + warp * kBarrierBytes, shape.ring_slots, shape.slot_bytes, lane);
  SegmentRequests<kSegmentPieces<kKind>> requests(m, shape, blockIdx.y, slot, first, end);
#pragma unroll 1
  for (int i = 0; i < ring.size(); ++i) requests.next(ring, lane);

  const uint8_t* rows = nullptr;
  uint32_t row = first * kSegmentBytes + (lane & 3) * 16;
  if constexpr (kOneRow) {
    bring(ChainShare{chain, first, end, slot, kNarrowWarps >> m.chain_bits}, lane);
    row += base + shape.activations_at;
  } else {
    wait_for_predecessor();
    rows = reinterpret_cast<const uint8_t*>(a.input + static_cast<size_t>(first_token) * a.input_stride);
    row += min(lane >> 2, tokens - 1) * a.input_stride * 2;
  }
  const uint32_t last_step = row + (end - first) * kSegmentBytes - kStepRows * 2;

  auto* sums = reinterpret_cast<float*>(shared + shape.sums_at);
  const int stride = tokens * kStripColumns;
#pragma unroll 1
  for (int group = blockIdx.y; group < shape.groups; group += shape.blocks) {
    const StripPlace place = place_strip(m, shape, group, slot);
    Sums totals;
    clear(totals);
    if (first < end && place.part >= 0) {
      const uint8_t* of_part = rows;
      if constexpr (kKind == TileKind::trellis) of_part += place.part * (a.trellis.part_stride * 2);
      RowActivations<kOneRow, kStepsAhead<kKind, kOneRow>> take(of_part, row, last_step);
      SegmentWalk walk;
      walk.begin(m, place.part, first, end);
      do {
        const uint32_t segment = ring.wait();
        if constexpr (kSegmentPieces<kKind> == 2) {
          const auto turn = [&] {
            __syncwarp();
            requests.next(ring, lane);
            return ring.wait();
          };
          multiply_pieces<kKind>(segment, walk.records(m), lane, take, turn, totals);
        } else {
          multiply_segment<kKind>(segment, walk.bits(m), walk.records(m), lane, take, totals);
        }
        __syncwarp();
        requests.next(ring, lane);
      } while (walk.next(m));
    }
    __syncthreads();  // the sums of the previous group have been added
    put_sums<kOneRow>(sums + warp * stride, totals, tokens, lane);
    __syncthreads();
    if (chain >= tokens) continue;
    const float* own = sums + slot * kFewChains * stride + sum_place(chain, lane);
    if constexpr (kKind == TileKind::trellis) {
      store_rotated(a, place, first_token + chain, lane,
                    chains != kFewChains ? add_16_chains(own, stride) : add_8_chains(own, stride));
    } else if (chains != kFewChains) {
      finish_single(a, place, first_token + chain, lane, add_16_chains(own, stride));
    } else if (!m.paired) {
      finish_single(a, place, first_token + chain, lane, add_8_chains(own, stride));
    } else if (slot == 0) {
      finish_pair(a, place.strip, first_token + chain, lane, add_8_chains(own, stride),
                  add_8_chains(own + kFewChains * stride, stride));
    }
  }
  if constexpr (kKind == TileKind::trellis) finish_all_rotated(a, first_token, tokens, warp, lane);
}

// kOneRow: one token, its activations in shared memory.
template <TileKind kKind, bool kOneRow>
__global__ void __launch_bounds__(kNarrowThreads, 2)
    gemm_narrow_kernel(const __grid_constant__ GemmArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  const int first_token = kOneRow ? 0 : blockIdx.x * 8, tokens = kOneRow ? 1 : min(8, a.rows - first_token);
  multiply_narrow<kKind, kOneRow>(a, shared, first_token, tokens, [&](const ChainShare& share, int lane) {
    load_row<kKind>(a, shared, share, lane);
  });
}

}  // namespace quire::kernels
