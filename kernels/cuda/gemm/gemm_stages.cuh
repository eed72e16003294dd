// What the tiles of the wide kernel travel through: stages in shared memory, each with the activations of one
// block of 128 rows and the weights of all strips of a thread block for it. A few warps fill them, all others
// read them.
#pragma once

#include "kernels/cuda/gemm/gemm_half.cuh"

namespace quire::kernels {

// A thread block's share of the work: a group of strips and a split of the chains.
struct WideTask {
  int group;
  int split;
};

__device__ __forceinline__ WideTask wide_task(const GemmShape& s, int number) {
  return {number >> s.split_bits, number & (s.splits - 1)};
}

// The chains of a task, in the order in which they are worked on: of 16, c and c + 8 follow each other.
struct TaskChains {
  int first;
  int count;
  int num_blocks;  // of the matrix
  int chain_bits;

  // In registers of the warp: what the compiler fetches from the arguments again is waited for each time.
  __device__ __forceinline__ TaskChains(const GemmShape& s, const Matrix& m, int split)
      : first(static_cast<int>(uniform(split * s.eighths))),
        count(static_cast<int>(uniform(s.eighths << (m.chain_bits - kFewChainBits)))),
        num_blocks(static_cast<int>(uniform(m.num_blocks))),
        chain_bits(static_cast<int>(uniform(m.chain_bits))) {}
  __device__ __forceinline__ bool in_pairs() const { return chain_bits != kFewChainBits; }
  // The blocks of 128 rows of the chain at `number`: [begin, end).
  __device__ __forceinline__ void find(int number, int& begin, int& end) const {
    const int pair = chain_bits - kFewChainBits;
    const int chain = first + (number >> pair) + (number & pair) * kFewChains;
    begin = chain_block(num_blocks, chain, chain_bits);
    end = chain_block(num_blocks, chain + 1, chain_bits);
  }
};

// Which tasks a thread block takes: every `step` from `first` on. Pairs of blocks take one together, and each
// of them its half of the group.
struct TaskDeal {
  int first;
  int step;
  int pair_bits;
  int rank;  // in the pair
  __device__ __forceinline__ int group_of(WideTask task) const { return (task.group << pair_bits) + rank; }
};
__device__ __forceinline__ TaskDeal deal_of_block() {
  return {static_cast<int>(blockIdx.y), static_cast<int>(gridDim.y), 0, 0};
}
__device__ __forceinline__ TaskDeal deal_of_pair() {
  return {static_cast<int>(blockIdx.y) >> 1, static_cast<int>(gridDim.y) >> 1, 1,
          static_cast<int>(blockIdx.y) & 1};
}

// The blocks of 128 rows of a thread block's tasks in the order in which they are worked on.
class BlockWalk {
 public:
  __device__ __forceinline__ BlockWalk(const Matrix& matrix, const GemmShape& shape, TaskDeal deal)
      : matrix_(matrix), shape_(shape), deal_(deal), number_(deal.first), chain_(-1) {
    find();
  }
  __device__ __forceinline__ bool valid() const { return number_ < shape_.tasks; }
  __device__ __forceinline__ int block() const { return block_; }
  __device__ __forceinline__ int group() const { return deal_.group_of(wide_task(shape_, number_)); }
  __device__ __forceinline__ void next() {
    if (++block_ == end_) find();
  }

 private:
  // The next chain that is not empty.
  __device__ __forceinline__ void find() {
#pragma unroll 1
    while (valid()) {
      const TaskChains chains(shape_, matrix_, wide_task(shape_, number_).split);
      if (++chain_ == chains.count) {
        chain_ = -1;
        number_ += deal_.step;
        continue;
      }
      chains.find(chain_, block_, end_);
      if (block_ < end_) return;
    }
  }

  const Matrix& matrix_;
  const GemmShape& shape_;
  TaskDeal deal_;
  int number_;  // of the task
  int chain_;   // of the task's
  int block_ = 0;
  int end_ = 0;
};

// Kinds whose blocks of 128 rows all have one record of scales, or none.
template <TileKind kKind>
constexpr bool kIsPlain = kKind == TileKind::dense || has_one_record(kKind);

// What the weights of a block of 128 rows look like in a strip: bytes | bits << 16 | records << 24, and
// whether they have one record of scales there in every part.
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
// Whether all warps of a warpgroup go the same way along the block, whatever the bits of their codes.
template <TileKind kKind>
__device__ __forceinline__ bool form_is_plain(uint32_t form) {
  return kIsPlain<kKind> || (form & kPlainForm) != 0;
}

// Where the weights of each block of 128 rows lie in a strip of each part, and their form, in shared memory.
template <TileKind kKind>
class FormTable {
 public:
  __device__ __forceinline__ FormTable(uint32_t address, const Matrix& m)
      : address_(address), blocks_(m.num_blocks) {}
  // Called by all threads of the block, which then meet.
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
  // Byte of the strip, and form.
  __device__ __forceinline__ uint2 segment(int part, int block) const {
    if constexpr (kKind == TileKind::dense) {
      return make_uint2(block * kDenseBytes, form(0, 0));
    } else {
      return load_shared_8(place(part, block));
    }
  }
  // Where the forms of a part lie, for form().
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

// Of blocks whose stages bulk copies alone fill: a warpgroup, whose warps give registers together.
constexpr int kBringWarps = 4;
// How many of them take turns. With more than there are stages, one might wait for a stage's phase before the
// one before that is over, and take its end for that of its own.
__device__ __forceinline__ int bring_turns(int stages) {
  return min(kBringWarps, stages);
}

// Arrivals at a stage of those that bring weights.
__device__ __forceinline__ int weight_arrivals(int strips) {
#if __CUDA_ARCH__ >= 900
  return strips;
#else
  return 32;
#endif
}

// The stage whose turn it is, for those that fill and for those that read.
class StageRing {
 public:
  __device__ __forceinline__ StageRing(uint32_t stages, uint32_t barriers, uint32_t stage_bytes,
                                       int num_stages)
      : stages_(stages), barriers_(barriers), stage_bytes_(stage_bytes), num_stages_(num_stages) {}
  __device__ __forceinline__ StageRing(const GemmShape& s, uint32_t base)
      : StageRing(base + s.activations_at, base + kStageBarriersAt, s.stage_bytes, s.stages) {}
  // By one thread, before all meet. `shares`: warps that bring activations of one stage.
  __device__ __forceinline__ void create(int strips, int shares) const {
    create_with(32 * shares + weight_arrivals(strips), 64 * strips);
  }
  __device__ __forceinline__ uint32_t address() const { return stages_ + stage_ * stage_bytes_; }
  __device__ __forceinline__ uint32_t full_barrier() const { return barriers_ + 16 * stage_; }
  __device__ __forceinline__ uint32_t free_barrier() const { return full_barrier() + 8; }
  // By those alone without whom the stage does not get full, or by all before any of them brings something:
  // others might see the phase after the next.
  __device__ __forceinline__ void wait_until_free() const {
    if (round_ > 0) barrier_wait(free_barrier(), (round_ & 1) ^ 1);
  }
  __device__ __forceinline__ void wait_until_full() const { barrier_wait(full_barrier(), round_ & 1); }
  // By each lane of the warps that read.
  __device__ __forceinline__ void release(uint32_t barrier, int) const { barrier_arrive(barrier); }
  __device__ __forceinline__ void next() {
    if (++stage_ == num_stages_) {
      stage_ = 0;
      ++round_;
    }
  }

 protected:
  // With so many arrivals at a stage that is filled, and at one that has been read.
  __device__ __forceinline__ void create_with(int fills, int reads) const {
#pragma unroll 1
    for (int i = 0; i < num_stages_; ++i) {
      barrier_init(barriers_ + 16 * i, fills);
      barrier_init(barriers_ + 16 * i + 8, reads);
    }
    fence_barrier_init();
  }

 private:
  uint32_t stages_;
  uint32_t barriers_;
  uint32_t stage_bytes_;
  int num_stages_;
  int stage_ = 0;
  int round_ = 0;
};

// Leaves the next `count` stages, as far as there are so many, to others that fill them.
__device__ __forceinline__ void skip_stages(BlockWalk& walk, StageRing& ring, int count) {
#pragma unroll 1
  for (int i = 0; i < count && walk.valid(); ++i) {
    walk.next();
    ring.next();
  }
}

// A strip's weights of a block of 128 rows.
struct StripSource {
  const uint8_t* from;
  uint32_t bytes;  // 0: no such strip
};

#if __CUDA_ARCH__ >= 900
// Arrives at a stage's barrier with what there is of a strip.
__device__ __forceinline__ void bring_strip(StripSource source, uint32_t target, uint32_t barrier) {
  if (source.bytes == 0) {
    barrier_arrive(barrier);
  } else {
    copy_bulk(target, source.from, source.bytes, barrier);
  }
}
#endif

// Where the weights of slot `slot` lie as a thread block goes along its tasks.
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

// All that the warp does that brings weights: one bulk copy for each strip and stage where the card has them,
// 16-byte copies by all lanes before. It need not wait for the predecessor. `at`: of the weights in a stage.
template <TileKind kKind>
__device__ __forceinline__ void fill_weights(const Matrix& matrix, const GemmShape& shape,
                                             const FormTable<kKind>& table, uint32_t base, uint32_t at,
                                             int lane) {
  StageRing ring(shape, base);
  StripSources<kKind> sources(matrix, shape, table, lane);
#pragma unroll 1
  for (BlockWalk walk(matrix, shape, deal_of_block()); walk.valid(); walk.next(), ring.next()) {
    StripSource source = {nullptr, 0};
    if (lane < shape.strips) source = sources.at(walk);
    ring.wait_until_free();
    const uint32_t target = ring.address() + at;
#if __CUDA_ARCH__ >= 900
    __syncwarp();
    if (lane < shape.strips) bring_strip(source, target + lane * shape.slot_bytes, ring.full_barrier());
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

// Activations of one block of 128 rows, on their way through a warp's registers into a stage: there a lane's
// 16 bytes, eight rows of one token, go to the four pieces that they belong to. Tokens that are not there are
// left out: what lies in their place reaches no sum but their own. kOwn of the kTiles tiles of 8 tokens, from
// `first_tile` on.
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
  __device__ __forceinline__ void load(int block) {
#pragma unroll
    for (int n = 0; n < kOwn; ++n) {
      if (n >= tiles_) break;
      const __half* from = row_ + block * kBlockRows + n * tile_stride_;
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
  int tiles_;  // of this lane's token and every eighth from it
  uint4 pieces_[kOwn][kBlockSteps];
};

// All that a warp does that brings activations, the one of this number. kShares of them bring a share of one
// stage each, and the others take turns with these, so that as many blocks of rows are on their way.
template <int kTiles, int kShares, typename Arguments>
__device__ __forceinline__ void fill_activations(const Arguments& a, uint32_t base, int number, int lane) {
  constexpr int kTurns = kFillWarps / kShares;
  constexpr int kOwn = (kTiles + kShares - 1) / kShares;
  StageRing ring(a.shape, base);
  BlockWalk walk(a.matrix, a.shape, deal_of_block());
  const auto skip = [&](int stages) { skip_stages(walk, ring, stages); };
  skip(number % kTurns);
  ActivationFill<kTiles, kOwn> activations(a, number / kTurns * kOwn, lane);
  wait_for_predecessor();
  if (walk.valid()) activations.load(walk.block());
#pragma unroll 1
  while (walk.valid()) {
    ring.wait_until_free();
    activations.store(ring.address());
    barrier_arrive(ring.full_barrier());
    skip(kTurns);
    if (walk.valid()) activations.load(walk.block());
  }
}

}  // namespace quire::kernels
