// How the shards of a stage gather their columns: the memory that peers write, and the form of a gather.
// Independent of CUDA.
#pragma once

#include <cstdint>

#include "kernels/interface/host_and_device.h"
#include "kernels/interface/specs.h"

namespace quire::kernels {

constexpr int32_t kMaxGatherShards = 8;
constexpr int32_t kMaxGatherBlocks = 64;
constexpr int32_t kGatherThreads = 256;  // of a block; at least kMaxGatherShards

// Largest slice of one shard whose words carry the epoch.
constexpr uint64_t kInlineBytes = uint64_t{1} << 20;
// Largest result of one round of a gather with flags.
constexpr uint64_t kRoundBytes = uint64_t{8} << 20;
// Distance of the flags of two blocks, which must not share a line.
constexpr int32_t kFlagStride = 16;

// Layout of the memory of one shard that its peers write (its inbox). Everything exists twice, by the parity
// of the epoch, except flags.
//
// flags: [1 + kMaxGatherBlocks][kFlagStride] u64, the last epoch of each source. The first line is for slices
// without columns, whose sources send only this. words: [2][num_shards][source_words] u64, a mark of the
// epoch above 32 bits of a slice. bytes: [2][round_bytes], the slices of a round, one after the other.
struct InboxLayout {
  int32_t num_shards = 0;
  uint64_t source_words = 0;
  uint64_t round_bytes = 0;
  uint64_t words_at = 0;
  uint64_t bytes_at = 0;
  uint64_t total_bytes = 0;
};

// Returns the layout for gathers whose results have up to `gather_bytes`.
InboxLayout inbox_layout(int32_t num_shards, uint64_t gather_bytes);

// What a gather copies at a time, and how.
struct GatherPlan {
  bool is_inline = false;      // words carry the epoch; otherwise flags publish them
  int32_t unit_bytes = 0;      // 2, 4 or 8 (inline); 2, 4 or 16
  int32_t blocks = 0;          // thread blocks of each shard
  int32_t rows_per_round = 0;  // all rows if inline
  int32_t rounds = 0;          // 0: a row does not fit
};

// Returns the plan of a gather. It is the same on all shards.
GatherPlan plan_gather(const InboxLayout& layout, const ColumnSplit& columns, int32_t rows,
                       int32_t element_bytes, int32_t max_blocks);

// Returns the offset of a shard's slice in the bytes of a round, whose rows end at byte `end_of_row` before
// that slice.
QUIRE_HOST_AND_DEVICE constexpr uint64_t slice_offset(int32_t rows_per_round, int32_t end_of_row,
                                                      int32_t source) {
  constexpr uint64_t kLine = 16;
  const uint64_t before = static_cast<uint64_t>(rows_per_round) * static_cast<uint64_t>(end_of_row);
  return (before + kLine - 1) / kLine * kLine + static_cast<uint64_t>(source) * kLine;
}

// Returns the largest number of blocks of a gather on a card. Gathers of the other shards on it must leave
// room for the kernels that they wait for.
constexpr int32_t max_gather_blocks(int32_t num_multiprocessors, int32_t shards_of_card) {
  const int32_t blocks = num_multiprocessors / (2 * shards_of_card);
  return blocks < 1 ? 1 : blocks > kMaxGatherBlocks ? kMaxGatherBlocks : blocks;
}

}  // namespace quire::kernels
