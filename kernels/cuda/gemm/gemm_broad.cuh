// GEMM for tiles of 128 tokens on cards with warpgroup products (wgmma), with warp specialization. See
// GemmShape.
//
// The consumer warps do the same as those of the wide kernel, in the same order. The differences: ring slots
// are filled by producer warps with bulk copies (TMA) only, and consumers have more registers. The
// activations of 128 tokens by 128 rows are 32 KB, four times the weights. Therefore each block of a pair
// copies half of them for both blocks, and a slot is free when the warps of both have read it.
#pragma once

#include "kernels/cuda/gemm/gemm_wide.cuh"

namespace quire::kernels {

// Registers per thread of a producer and of a consumer: together all registers of a multiprocessor.
constexpr int kProducerRegisters = 24;
constexpr int kConsumerRegisters = 240;

#if QUIRE_WARPGROUP_PRODUCTS

// Ring slots of a block in a pair. The producers of its strips and activations arrive at `full`. The lanes of
// its own consumer warps, and one lane of each of the other block's, arrive at `free`.
class PairRing : public SlotRing {
 public:
  __device__ __forceinline__ PairRing(const GemmShape& s, uint32_t base)
      : SlotRing(s, base), other_(address_in_block(base, (blockIdx.y & 1) ^ 1) - base) {}
  __device__ __forceinline__ void create(int strips) const {
    create_with(1 + strips, 64 * strips + 2 * strips);
  }
  __device__ __forceinline__ void release(uint32_t barrier, int lane) const {
    barrier_arrive(barrier);
    __syncwarp();
    if (lane == 0) arrive_in_pair(barrier + other_);
  }

 private:
  uint32_t other_;  // distance from an address in this block to the same one in the other block
};

// Runs producer warp `number`. Producers take turns: filling a slot takes a warp about as long as the
// consumers need to read it, so a single warp would keep them waiting. All lanes take part, since BlockWalk
// uses the whole warp. Copies of weights do not wait for the previous kernel.
template <TileKind kKind>
__device__ __forceinline__ void fill_pair_slots(const GemmArguments& a, const FormTable<kKind>& table,
                                                uint32_t base, TaskRange partition, int number, int lane) {
  const int turns = producer_turns(a.shape.pipeline_slots);
  if (number >= turns) return;
  constexpr uint32_t kTileBytes = kBlockSteps * kStepBytes<kBroadTiles>;
  const uint8_t* tiles = reinterpret_cast<const uint8_t*>(a.input) +
                         static_cast<size_t>(blockIdx.x) * a.matrix.num_blocks * kTileBytes;
  const uint32_t half = partition.rank * (kTileBytes / 2);
  PairRing ring(a.shape, base);
  StripSources<kKind> sources(a.matrix, a.shape, table, lane);
  BlockWalk walk(a.matrix, a.shape, partition);
  bool waited = false;
  skip_slots(walk, ring, number);
#pragma unroll 1
  for (; walk.valid(); skip_slots(walk, ring, turns)) {
    if (lane < a.shape.strips) {
      const StripSource source = sources.at(walk);
      ring.wait_until_free();
      copy_strip(source, ring.address() + kTileBytes + lane * a.shape.slot_bytes, ring.full_barrier());
    }
    if (!waited) wait_for_predecessor();
    waited = true;
    if (lane == 0) {
      barrier_expect(ring.full_barrier(), kTileBytes);
      const uint8_t* of_part = tiles + input_place<kKind>(a, walk.group() & ~1) * sizeof(__half);
      copy_bulk_to_pair(ring.address() + half,
                        of_part + static_cast<size_t>(walk.block()) * kTileBytes + half, kTileBytes / 2,
                        ring.full_barrier());
    }
    __syncwarp();
  }
}

#endif

// The input is arranged: see launch_arrange.
template <TileKind kKind>
__global__ void __launch_bounds__(kBroadThreads, 1)
    gemm_broad_kernel(const __grid_constant__ GemmArguments a) {
#if QUIRE_WARPGROUP_PRODUCTS
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  const int warp = static_cast<int>(uniform(threadIdx.x >> 5)), lane = lane_index();
  const uint32_t base = uniform(shared_address(shared));
  const TaskRange partition = tasks_of_pair();
  const FormTable<kKind> table(base + a.shape.table_at, a.matrix);
  table.fill(a.matrix);
  if (threadIdx.x == 0) PairRing(a.shape, base).create(a.shape.strips);
  sync_cluster();
  const int readers = 2 * a.shape.strips;  // consumer warps
  if (warp < readers) {
    acquire_registers<kConsumerRegisters>();
    consume_slots<kKind, kBroadTiles, PairRing>(a, table, base, partition, warp, lane);
  } else {
    release_registers<kProducerRegisters>();
    fill_pair_slots<kKind>(a, table, base, partition, warp - readers, lane);
  }
  sync_cluster();  // a block must not end while the other one still copies to its memory or arrives at its
                   // barriers
#endif
}

}  // namespace quire::kernels
