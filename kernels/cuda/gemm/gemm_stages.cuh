// Ring slots of the wide kernel in shared memory, each with the activations of one block of 128 rows and the
// weights of all strips of a thread block for it. Warp specialization: a few producer warps fill the slots,
// all other warps (consumers) read them.
#pragma once

#include "kernels/cuda/gemm/gemm_half.cuh"

namespace quire::kernels {

// Task of a thread block: a group of strips and a split of the chains (split-K).
struct WideTask {
  int group;
  int split;
};

__device__ __forceinline__ WideTask wide_task(const GemmShape& s, int number) {
  return {number >> s.split_bits, number & (s.splits - 1)};
}

// The chains of a task in the order of work: with 16 chains, c and c + 8 follow each other.
struct TaskChains {
  int first;
  int count;
  int num_blocks;  // blocks of 128 rows of the matrix
  int chain_bits;

  // In uniform registers: values that the compiler loads from the arguments again would be waited for each
  // time.
  __device__ __forceinline__ TaskChains(const GemmShape& s, const Matrix& m, int split)
      : first(static_cast<int>(uniform(split * s.eighths))),
        count(static_cast<int>(uniform(s.eighths << (m.chain_bits - kFewChainBits)))),
        num_blocks(static_cast<int>(uniform(m.num_blocks))),
        chain_bits(static_cast<int>(uniform(m.chain_bits))) {}
  __device__ __forceinline__ bool in_pairs() const { return chain_bits != kFewChainBits; }
  // Finds the blocks of 128 rows of chain `number`: [begin, end).
  __device__ __forceinline__ void find(int number, int& begin, int& end) const {
    const int pair = chain_bits - kFewChainBits;
    const int chain = first + (number >> pair) + (number & pair) * kFewChains;
    begin = chain_block(num_blocks, chain, chain_bits);
    end = chain_block(num_blocks, chain + 1, chain_bits);
  }
};

// Tasks of a thread block: every `step`-th from `first` on. Blocks of a pair share a task, and each computes
// half of the group.
struct TaskRange {
  int first;
  int step;
  int pair_bits;
  int rank;  // number of the block in the pair
  __device__ __forceinline__ int group_of(WideTask task) const { return (task.group << pair_bits) + rank; }
};
__device__ __forceinline__ TaskRange tasks_of_block() {
  return {static_cast<int>(blockIdx.y), static_cast<int>(gridDim.y), 0, 0};
}
__device__ __forceinline__ TaskRange tasks_of_pair() {
  return {static_cast<int>(blockIdx.y) >> 1, static_cast<int>(gridDim.y) >> 1, 1,
          static_cast<int>(blockIdx.y) & 1};
}

// Iterates over the blocks of 128 rows of a thread block's tasks in the order of work.
class BlockWalk {
 public:
  __device__ __forceinline__ BlockWalk(const Matrix& matrix, const GemmShape& shape, TaskRange partition)
      : matrix_(matrix), shape_(shape), partition_(partition), number_(partition.first), chain_(-1) {
    find();
  }
  __device__ __forceinline__ bool valid() const { return number_ < shape_.tasks; }
  __device__ __forceinline__ int block() const { return block_; }
  __device__ __forceinline__ int group() const { return partition_.group_of(wide_task(shape_, number_)); }
  __device__ __forceinline__ void next() {
    if (++block_ == end_) find();
  }

 private:
  // Finds the next chain that is not empty.
  __device__ __forceinline__ void find() {
#pragma unroll 1
    while (valid()) {
      const TaskChains chains(shape_, matrix_, wide_task(shape_, number_).split);
      if (++chain_ == chains.count) {
        chain_ = -1;
        number_ += partition_.step;
        continue;
      }
      chains.find(chain_, block_, end_);
      if (block_ < end_) return;
    }
  }

  const Matrix& matrix_;
  const GemmShape& shape_;
  TaskRange partition_;
  int number_;  // number of the task
  int chain_;   // chain of the task
  int block_ = 0;
  int end_ = 0;
};

// True for kinds whose blocks of 128 rows all have one record of scales, or none.
template <TileKind kKind>
constexpr bool kIsPlain = kKind == TileKind::dense || has_one_record(kKind);

// Form of the weights of a block of 128 rows in a strip: bytes | bits << 16 | records << 24, plus kPlainForm
// if every part has one record of scales there.
constexpr uint32_t kPlainForm = 1U << 31;
__device__ __forceinline__ uint32_t form_bytes(uint32_t form) {
  return form & 0xffff;
}
__device__ __forceinline__ int form_bits(uint32_t form) {
  return form >> 16 & 0xff;
}
__device__ __forceinline__ int form_records(uint32_t form) {
  return form >> 24 & 0x7f;
}
// Returns true if all warps of a warpgroup take the same path through the block, whatever the bits of their
// codes.
template <TileKind kKind>
__device__ __forceinline__ bool form_is_plain(uint32_t form) {
  return kIsPlain<kKind> || (form & kPlainForm) != 0;
}

// Table in shared memory: location and form of the weights of each block of 128 rows in a strip of each part.
template <TileKind kKind>
class FormTable {
 public:
  __device__ __forceinline__ FormTable(uint32_t address, const Matrix& m)
      : address_(address), blocks_(m.num_blocks) {}
  // Called by all threads of the block, which must synchronize afterwards.
  __device__ __forceinline__ void fill(const Matrix& m) const {
    if constexpr (kKind != TileKind::dense) {
#pragma unroll 1
      for (int block = static_cast<int>(threadIdx.x); block < blocks_;
           block += static_cast<int>(blockDim.x)) {
        uint32_t plain = kPlainForm;
#pragma unroll 1
        for (int p = 0; p < m.num_parts; ++p) {
          const Part& part = m.parts[p];
          int r = 0;
#pragma unroll 1
          while (block >= part.runs[r].end) ++r;
          const Run& run = part.runs[r];
          if (run.records != 1) plain = 0;
          store_shared_8(place(p, block), make_uint2(run.first_byte + (block - run.first) * run.segment_bytes,
                                                     run.segment_bytes | run.bits << 16 | run.records << 24));
        }
#pragma unroll 1
        for (int p = 0; p < m.num_parts; ++p)
          store_shared_4(place(p, block) + 4, form(forms(p), block) | plain);
      }
    }
  }
  // Returns the byte offset in the strip, and the form.
  __device__ __forceinline__ uint2 segment(int part, int block) const {
    if constexpr (kKind == TileKind::dense) {
      return make_uint2(block * kDenseBytes, form(0, 0));
    } else {
      return load_shared_8(place(part, block));
    }
  }
  // Returns the address of the forms of a part, for form().
  __device__ __forceinline__ uint32_t forms(int part) const {
    return place(part, 0) + 4;
  }
  __device__ static __forceinline__ uint32_t form(uint32_t forms, int block) {
    if constexpr (kKind == TileKind::dense) {
      return kDenseBytes | 16 << 16;
    } else {
      return load_shared_4(forms + kFormBytes * block);
    }
  }

 private:
  static constexpr uint32_t kFormBytes = 8;
  static constexpr uint32_t kDenseBytes = kBlockRows * kStripColumns * 2;

  __device__ __forceinline__ uint32_t place(int part, int block) const {
    return address_ + kFormBytes * (part * blocks_ + block);
  }

  uint32_t address_;
  int blocks_;
};

// Producer warps of blocks whose slots are filled by bulk copies only: a warpgroup, whose warps give up
// registers together.
constexpr int kProducerWarps = 4;
// Returns the number of producers that take turns: at most the number of slots. With more, a warp might wait
// for a phase of a slot before the preceding phase has ended, and would take that end for its own.
__device__ __forceinline__ int producer_turns(int pipeline_slots) {
  return min(kProducerWarps, pipeline_slots);
}

// Returns the number of arrivals at a slot's barrier by the producers of weights.
__device__ __forceinline__ int weight_arrivals(int strips) {
#if __CUDA_ARCH__ >= 900
  return strips;
#else
  return 32;
#endif
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
    create_with(32 * shares + weight_arrivals(strips), 64 * strips);
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

// Location of a strip's weights of a block of 128 rows.
struct StripSource {
  const uint8_t* from;
  uint32_t bytes;  // 0: no such strip
};

#if __CUDA_ARCH__ >= 900
// Arrives at a slot's barrier with a strip's weights, if there are any.
__device__ __forceinline__ void copy_strip(StripSource source, uint32_t target, uint32_t barrier) {
  if (source.bytes == 0) {
    barrier_arrive(barrier);
  } else {
    copy_bulk(target, source.from, source.bytes, barrier);
  }
}
#endif

// Locations of the weights of slot `slot` along a thread block's tasks.
template <TileKind kKind>
class StripSources {
 public:
  __device__ __forceinline__ StripSources(const Matrix& matrix, const GemmShape& shape,
                                          const FormTable<kKind>& table, int slot)
      : matrix_(matrix), shape_(shape), table_(table), slot_(slot) {}
  __device__ __forceinline__ StripSource at(const BlockWalk& walk) {
    if (walk.group() != group_) find(walk.group());
    if (part_ < 0) return {nullptr, 0};
    const uint2 segment = table_.segment(part_, walk.block());
    return {strip_ + segment.x, form_bytes(segment.y)};
  }

 private:
  __device__ __forceinline__ void find(int group) {
    group_ = group;
    const StripPlace place = place_strip(matrix_, shape_, group, slot_);
    part_ = place.part;
    if (part_ < 0) return;
    const Part& part = matrix_.parts[part_];
    strip_ = part.strips + static_cast<size_t>(place.strip) * part.strip_bytes;
  }

  const Matrix& matrix_;
  const GemmShape& shape_;
  const FormTable<kKind>& table_;
  int slot_;
  int group_ = -1;
  int part_ = -1;
  const uint8_t* strip_ = nullptr;
};

// Runs the producer warp of weights: one bulk copy (TMA) per strip and ring slot on cards that have it,
// otherwise 16-byte cp.async copies by all lanes. Does not wait for the previous kernel. `at` is the offset
// of the weights in a slot.
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
#if __CUDA_ARCH__ >= 900
    __syncwarp();
    if (lane < shape.strips) copy_strip(source, target + lane * shape.slot_bytes, ring.full_barrier());
#else
#pragma unroll 1
    for (int slot = 0; slot < shape.strips; ++slot) {
      const auto from = __shfl_sync(0xffffffffU, reinterpret_cast<unsigned long long>(source.from), slot);
      const uint32_t bytes = __shfl_sync(0xffffffffU, source.bytes, slot);
      for (uint32_t i = lane * 16; i < bytes; i += 512)
        copy_async_16(target + slot * shape.slot_bytes + i, reinterpret_cast<const uint8_t*>(from) + i);
    }
    barrier_arrive_after_copies(ring.full_barrier());
#endif
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

// Returns the distance from the input of the first part to that of a group's part, in elements. All strips of
// a group, or of a pair of groups, are in one part of a trellis.
template <TileKind kKind, typename Arguments>
__device__ __forceinline__ int64_t input_place(const Arguments& a, int group) {
  if constexpr (kKind == TileKind::trellis) {
    return place_strip(a.matrix, a.shape, group, 0).part * a.trellis.part_stride;
  } else {
    return 0;
  }
}

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
