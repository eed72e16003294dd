// Ring slots of the wide kernel in shared memory, each with the activations of one block of 128 rows and the
// weights of all strips of a thread block for it. Warp specialization: a few producer warps fill the slots,
// all other warps (consumers) read them.
#pragma once

#include "kernels/cuda/gemm/gemm_work.cuh"

#if QUIRE_WARPGROUP_PRODUCTS

namespace quire::kernels {

// Producer warps of blocks whose slots are filled by bulk copies only: a warpgroup, whose warps give up
// registers together.
constexpr int kProducerWarps = 4;
// Returns the number of producers that take turns: at most the number of slots. With more, a warp might wait
// for a phase of a slot before the preceding phase has ended, and would take that end for its own.
__device__ __forceinline__ int producer_turns(int pipeline_slots) {
  return min(kProducerWarps, pipeline_slots);
}

// Ring of slots, used by producers and consumers; points to the current slot.
class SlotRing {
 public:
  __device__ __forceinline__ SlotRing(uint32_t pipeline_slots, uint32_t barriers,
                                      uint32_t pipeline_slot_bytes, int num_pipeline_slots)
      : slots_base_(pipeline_slots),
        barriers_(barriers),
        pipeline_slot_bytes_(pipeline_slot_bytes),
        num_pipeline_slots_(num_pipeline_slots) {}
  __device__ __forceinline__ SlotRing(const GemmShape& s, uint32_t base)
      : SlotRing(base + s.activations_at, base + kSlotBarriersAt, s.pipeline_slot_bytes, s.pipeline_slots) {}
  // Initialises the barriers; called by one thread before the block synchronizes. `shares` is the number of
  // warps that copy activations of one slot.
  __device__ __forceinline__ void create(int strips, int shares) const {
    create_with(32 * shares + strips, 64 * strips);
  }
  __device__ __forceinline__ uint32_t address() const { return slots_base_ + stage_ * pipeline_slot_bytes_; }
  __device__ __forceinline__ uint32_t full_barrier() const { return barriers_ + 16 * stage_; }
  __device__ __forceinline__ uint32_t free_barrier() const { return full_barrier() + 8; }
  // Called only by warps without which the slot cannot become full, or by all producers before any of them
  // copies. Other warps might miss a whole phase.
  __device__ __forceinline__ void wait_until_free() const {
    if (round_ > 0) barrier_wait(free_barrier(), (round_ & 1) ^ 1);
  }
  __device__ __forceinline__ void wait_until_full() const { barrier_wait(full_barrier(), round_ & 1); }
  // Called by each lane of the consumer warps.
  __device__ __forceinline__ void release(uint32_t barrier, int) const { barrier_arrive(barrier); }
  __device__ __forceinline__ void next() {
    if (++stage_ == num_pipeline_slots_) {
      stage_ = 0;
      ++round_;
    }
  }

 protected:
  // Initialises the barriers with the numbers of arrivals that mark a slot as full and as read.
  __device__ __forceinline__ void create_with(int fills, int reads) const {
#pragma unroll 1
    for (int i = 0; i < num_pipeline_slots_; ++i) {
      barrier_init(barriers_ + 16 * i, fills);
      barrier_init(barriers_ + 16 * i + 8, reads);
    }
    fence_barrier_init();
  }

 private:
  uint32_t slots_base_;
  uint32_t barriers_;
  uint32_t pipeline_slot_bytes_;
  int num_pipeline_slots_;
  int stage_ = 0;
  int round_ = 0;
};

// Skips the next `count` slots, or as many as are left; other producers fill them.
__device__ __forceinline__ void skip_slots(BlockWalk& walk, SlotRing& ring, int count) {
#pragma unroll 1
  for (int i = 0; i < count && walk.valid(); ++i) {
    walk.next();
    ring.next();
  }
}

// Arrives at a slot's barrier with a strip's weights, if there are any.
__device__ __forceinline__ void copy_strip(StripSource source, uint32_t target, uint32_t barrier) {
  if (source.bytes == 0) {
    barrier_arrive(barrier);
  } else {
    copy_bulk(target, source.from, source.bytes, barrier);
  }
}

// Runs the producer warp of weights: one bulk copy (TMA) per strip and ring slot. Does not wait for the
// previous kernel. `at` is the offset of the weights in a slot.
template <TileKind kKind>
__device__ __forceinline__ void fill_weights(const Matrix& matrix, const GemmShape& shape,
                                             const FormTable<kKind>& table, uint32_t base, uint32_t at,
                                             int lane) {
  SlotRing ring(shape, base);
  StripSources<kKind> sources(matrix, shape, table, lane);
#pragma unroll 1
  for (BlockWalk walk(matrix, shape, tasks_of_block()); walk.valid(); walk.next(), ring.next()) {
    StripSource source = {nullptr, 0};
    if (lane < shape.strips) source = sources.at(walk);
    ring.wait_until_free();
    const uint32_t target = ring.address() + at;
    __syncwarp();
    if (lane < shape.strips) copy_strip(source, target + lane * shape.slot_bytes, ring.full_barrier());
  }
}

// Copies activations of one block of 128 rows through a warp's registers to a ring slot: a lane's 16 bytes,
// eight rows of one token, are distributed to four pieces. Tokens that do not exist are skipped: whatever is
// in their place affects only their own sums. Handles kOwn of the kTiles tiles of 8 tokens, from `first_tile`
// on.
template <int kTiles, int kOwn>
class ActivationFill {
 public:
  template <typename Arguments>
  __device__ __forceinline__ ActivationFill(const Arguments& a, int first_tile, int lane) {
    const int first_token = static_cast<int>(blockIdx.x) * (kTiles * 8) + first_tile * 8, token = lane >> 2;
    row_ = a.input + static_cast<size_t>(first_token + token) * a.input_stride + (lane & 3) * 8;
    tile_stride_ = 8 * a.input_stride;
    place_ = first_tile * 128 + token * 16 + (lane & 3) * 4;
    tiles_ = min((a.rows - first_token - token + 7) >> 3, kTiles - first_tile);
  }
  // `place` is the distance of the input in elements, see input_place.
  __device__ __forceinline__ void load(int block, int64_t place) {
#pragma unroll
    for (int n = 0; n < kOwn; ++n) {
      if (n >= tiles_) break;
      const __half* from = row_ + place + block * kBlockRows + n * tile_stride_;
#pragma unroll
      for (int step = 0; step < kBlockSteps; ++step)
        pieces_[n][step] = *reinterpret_cast<const uint4*>(from + step * kStepRows);
    }
  }
  __device__ __forceinline__ void store(uint32_t stage) const {
#pragma unroll
    for (int n = 0; n < kOwn; ++n) {
      if (n >= tiles_) break;
#pragma unroll
      for (int step = 0; step < kBlockSteps; ++step) {
        const uint4 v = pieces_[n][step];
        const uint32_t at = stage + place_ + n * 128 + step * kStepBytes<kTiles>;
        store_shared_4(at, v.x);
        store_shared_4(at + kPieceStride<kTiles>, v.y);
        store_shared_4(at + 2 * kPieceStride<kTiles>, v.z);
        store_shared_4(at + 3 * kPieceStride<kTiles>, v.w);
      }
    }
    fence_async_proxy();
  }

 private:
  const __half* row_;
  int tile_stride_;
  uint32_t place_;
  int tiles_;  // tiles with this lane's token and every eighth token from it
  uint4 pieces_[kOwn][kBlockSteps];
};

// Runs producer warp `number` of activations. kShares warps each copy a share of the same slot; the other
// warps take turns with them, so that several blocks of rows are in flight.
template <TileKind kKind, int kTiles, int kShares, typename Arguments>
__device__ __forceinline__ void fill_activations(const Arguments& a, uint32_t base, int number, int lane) {
  constexpr int kTurns = kActivationProducers / kShares;
  constexpr int kOwn = (kTiles + kShares - 1) / kShares;
  SlotRing ring(a.shape, base);
  BlockWalk walk(a.matrix, a.shape, tasks_of_block());
  const auto skip = [&](int pipeline_slots) { skip_slots(walk, ring, pipeline_slots); };
  skip(number % kTurns);
  ActivationFill<kTiles, kOwn> activations(a, number / kTurns * kOwn, lane);
  wait_for_predecessor();
  if (walk.valid()) activations.load(walk.block(), input_place<kKind>(a, walk.group()));
#pragma unroll 1
  while (walk.valid()) {
    ring.wait_until_free();
    activations.store(ring.address());
    barrier_arrive(ring.full_barrier());
    skip(kTurns);
    if (walk.valid()) activations.load(walk.block(), input_place<kKind>(a, walk.group()));
  }
}

}  // namespace quire::kernels

#endif
