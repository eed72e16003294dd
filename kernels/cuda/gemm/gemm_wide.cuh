// GEMM for tiles of 16, 32 and 64 tokens, with split-K. See GemmShape. The kernels here run multiply_wide on
// cards with warpgroup products, and multiply_strips (gemm_strips.cuh) on others.
//
// multiply_wide has warp specialization. Two warps share a strip, one for each half of its columns; a
// warpgroup computes two strips. All go along K together, while producer warps fill ring slots ahead of them.
// If a matrix has too few columns to fill the card, its chains are split over blocks (split-K): partial sums
// go to memory, and the warps that arrive last at a half strip add them in order.
//
// Bytes: the weights once per tile of tokens, activations once per group of strips from L2. Per 1,024 weights
// of 4 bits: 4 products of a warpgroup's share (or 16 of a warp for 32 tokens), 36 instructions to decode the
// weights, 2 loads. A tile of 64 tokens decodes them once for twice the products. A lane's sums for 64 tokens
// take 32 registers for the group (except for EXL2) and 32 for the chain. The sums of earlier chains are
// parked in shared memory if more than four strips share the registers.
#pragma once

#include <type_traits>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/gemm/gemm_chains.cuh"
#include "kernels/cuda/gemm/gemm_finish.cuh"
#include "kernels/cuda/gemm/gemm_strips.cuh"

namespace quire::kernels {

#if QUIRE_WARPGROUP_PRODUCTS

// Finishes the results of warps for gate and up, whose lanes have the same columns and tokens: each finishes
// half of the tokens and parks its sums of the other half at `mine`; the sums that it needs are at `other`.
template <int kTiles, typename Arguments>
__device__ __forceinline__ void finish_paired_half(const Arguments& a, const HalfStrip& of, int slot,
                                                   uint32_t mine, uint32_t other,
                                                   const HalfSums<kTiles>& sums) {
  constexpr int kShare = kTiles / 2;
  const bool is_up = (slot & 1) != 0;
  const int first_tile = is_up ? kShare : 0;
  HalfSums<kShare> gate, up, given;
#pragma unroll
  for (int n = 0; n < kShare; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      given[n][x] = is_up ? sums[n][x] : sums[kShare + n][x];
      gate[n][x] = up[n][x] = is_up ? sums[kShare + n][x] : sums[n][x];
    }
  }
  park<kShare>(mine, given);
  named_barrier(1 + slot / 2, 128);
  if (is_up) {
    load_parked<kShare>(other, gate);
  } else {
    load_parked<kShare>(other, up);
  }
  named_barrier(1 + slot / 2, 128);  // the next sums reuse the memory
  if (of.strip.part < 0) return;
  finish_gate_up<kTiles, kShare>(a, of, first_tile, gate, up);
}

// Runs a consumer warp: half strip `warp & 1` of slot `warp / 2`. Values used in the loops are in uniform
// registers: those that the compiler loads from the arguments again would be waited for each time.
template <TileKind kKind, int kTiles, typename Ring, typename Arguments>
__device__ __forceinline__ void consume_slots(const Arguments& a, const FormTable<kKind>& table,
                                              uint32_t base, TaskRange partition, int warp, int lane) {
  // Products of experts are not split, nor are those of few-strip blocks.
  constexpr bool kMaySplit = std::is_same_v<Arguments, GemmArguments> && !std::is_same_v<Ring, FewStripRing>;
  const Matrix& m = a.matrix;
  const GemmShape& shape = a.shape;
  const int slot = warp >> 1, half = warp & 1;
  const uint32_t place_bytes =
      kTiles * (kParksSums<kTiles, Ring> || m.chain_bits != kFewChainBits ? 512 : 256);
  const auto parked_by = [&](int w) { return base + shape.sums_at + w * place_bytes + lane * 16; };
  const uint32_t parked = parked_by(warp);
  const uint32_t weights_at = uniform(kBlockSteps * kStepBytes<kTiles> + slot * shape.slot_bytes);
  const SlotReader reader = {weights_at, lane, half};
  Ring ring(shape, base);
  wait_for_predecessor();
#pragma unroll 1
  for (int number = partition.first; number < shape.tasks; number += partition.step) {
    const WideTask task = wide_task(shape, number);
    const int group = partition.group_of(task);
    const StripPlace place = place_strip(m, shape, group, slot);
    const HalfStrip of = {place, half, lane};
    const uint32_t forms = uniform(table.forms(max(place.part, 0)));
    HalfSums<kTiles> sums;
    const TaskChains chains(shape, m, task.split);
    // Computed again each time, because the loops have no registers for it.
    const auto meeting = [&](const auto& splits) {
      return sum_exchange<kTiles>(splits, of, task, group, slot, partition.step);
    };
    const auto leave = [&](int eighth, const HalfSums<kTiles>& left) {
      if constexpr (kKind == TileKind::trellis) {
        if (place.part >= 0) store_rotated_half<kTiles>(a, group * shape.strips + slot, of, eighth, left);
      } else if constexpr (kMaySplit) {
        if (place.part >= 0) store_partial_sums<kTiles>(shape, meeting(a), eighth, left);
      }
    };
    if constexpr (kParksSums<kTiles, Ring>) {
      multiply_parked_chains<kKind, kTiles>(reader, forms, ring, chains, parked, sums);
    } else {
      multiply_chains<kKind, kTiles>(reader, forms, ring, chains, parked, sums, leave);
    }
    if constexpr (kKind == TileKind::trellis) {
      if (!kSplitsByHalves<kTiles> || task.split == 0) leave((task.split + 1) * shape.eighths - 1, sums);
    } else if (shape.splits > 1) {
      if constexpr (kMaySplit) {
        if (place.part < 0) continue;
        const SumExchange at = meeting(a);
        if (!kSplitsByHalves<kTiles> || task.split == 0)
          store_partial_sums<kTiles>(shape, at, (task.split + 1) * eighths_of_split<kTiles>(shape) - 1, sums);
        combine_splits<kTiles>(a, of, at);
      }
    } else if (m.paired) {
      finish_paired_half<kTiles>(a, of, slot, parked, parked_by(warp ^ 2), sums);
    } else if (place.part >= 0) {
      finish_half<kTiles>(a, of, sums);
    }
  }
}

// Warps that copy activations of the same slot. With eight strips by 64 tokens, computing a block of rows
// takes longer than its copy, and few registers are left for the producers.
template <int kTiles, typename Ring>
constexpr int kSharesPerSlot =
    kTiles == kMaxWideTiles && !std::is_same_v<Ring, FewStripRing> ? kActivationProducers : 1;
// For tiles of 64 tokens: registers per thread of a consumer and of a producer.
template <typename Ring>
constexpr int kLargeConsumerRegisters = std::is_same_v<Ring, FewStripRing> ? 176 : 104;
template <typename Ring>
constexpr int kLargeProducerRegisters = std::is_same_v<Ring, FewStripRing> ? 152 : 64;

// Runs a thread block.
template <TileKind kKind, int kTiles, typename Ring = SlotRing, typename Arguments>
__device__ __forceinline__ void multiply_wide(const Arguments& a, uint8_t* shared) {
  const int warp = static_cast<int>(uniform(threadIdx.x >> 5)), lane = lane_index();
  const uint32_t base = uniform(shared_address(shared));
  const FormTable<kKind> table(base + a.shape.table_at, a.matrix);
  table.fill(a.matrix);
  if (threadIdx.x == 0) SlotRing(a.shape, base).create(a.shape.strips, kSharesPerSlot<kTiles, Ring>);
  __syncthreads();
  const int helper = warp - 2 * a.shape.strips;
  if (helper < 0) {
    if constexpr (kTiles == kMaxWideTiles) acquire_registers<kLargeConsumerRegisters<Ring>>();
    consume_slots<kKind, kTiles, Ring>(a, table, base, tasks_of_block(), warp, lane);
    return;
  }
  if constexpr (kTiles == kMaxWideTiles) release_registers<kLargeProducerRegisters<Ring>>();
  if (helper == 0) {
    fill_weights<kKind>(a.matrix, a.shape, table, base, kBlockSteps * kStepBytes<kTiles>, lane);
  } else {
    fill_activations<kKind, kTiles, kSharesPerSlot<kTiles, Ring>>(a, base, helper - 1, lane);
  }
}

#endif

// Threads of a block, and blocks of a multiprocessor for which there are registers.
constexpr int kWideThreads = QUIRE_WARPGROUP_PRODUCTS ? wide_threads(kMaxWideStrips) : 32 * kMaxWideStrips;
template <int kTiles>
constexpr int kWideBlocks = QUIRE_WARPGROUP_PRODUCTS ? 1 : strip_blocks(kTiles);

template <TileKind kKind, int kTiles, typename Arguments>
__device__ __forceinline__ void multiply_tile(const Arguments& a, uint8_t* shared) {
#if QUIRE_WARPGROUP_PRODUCTS
  multiply_wide<kKind, kTiles>(a, shared);
#else
  multiply_strips<kKind, kTiles>(a, shared);
#endif
}

// kTiles: tiles of 8 tokens.
template <TileKind kKind, int kTiles>
__global__ void __launch_bounds__(kWideThreads, kWideBlocks<kTiles>)
    gemm_wide_kernel(const __grid_constant__ GemmArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  multiply_tile<kKind, kTiles>(a, shared);
}

// Tiles of 64 tokens by few strips: GemmShape::few_strips.
template <TileKind kKind>
__global__ void __launch_bounds__(wide_threads(kMaxFewStrips), 1)
    gemm_few_strips_kernel(const __grid_constant__ GemmArguments a) {
#if QUIRE_WARPGROUP_PRODUCTS
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  multiply_wide<kKind, kMaxWideTiles, FewStripRing>(a, shared);
#endif
}

}  // namespace quire::kernels
