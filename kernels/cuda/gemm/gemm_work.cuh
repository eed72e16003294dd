// The order of work of a thread block with wide or broad tiles: its tasks, their chains and blocks of 128
// rows, and where the weights of each lie.
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

// True if K may also be split into 2 or 4 parts, not only into 1 or 8.
template <int kTiles>
constexpr bool kSplitsByHalves = kTiles == kBroadTiles || !QUIRE_WARPGROUP_PRODUCTS;

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

// Returns the form of a block of 128 rows, or of the last one if `block` is beyond the end.
template <TileKind kKind>
__device__ __forceinline__ uint32_t form_of_block(uint32_t forms, const TaskChains& chains, int block) {
  return FormTable<kKind>::form(forms, min(block, chains.num_blocks - 1));
}

// Location of a strip's weights of a block of 128 rows.
struct StripSource {
  const uint8_t* from;
  uint32_t bytes;  // 0: no such strip
};

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

}  // namespace quire::kernels
