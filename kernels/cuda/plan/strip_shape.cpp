#include "kernels/cuda/plan/strip_shape.h"

#include <algorithm>

namespace quire::kernels {
namespace {

// Slots with which copies of one block of 128 rows hide behind the products of others, also if other blocks
// share the multiprocessor.
constexpr int32_t kSharedSlots = 3;

// Returns the blocks of a multiprocessor for which there are registers and tasks.
int32_t most_resident(const GemmShape& s, int64_t rounds) {
  const int32_t blocks = std::max(1, strip_blocks(s.tiles) * kMaxWideStrips / s.strips);
  return static_cast<int32_t>(std::min<int64_t>(blocks, rounds));
}

// Lays out shared memory for as many blocks of a multiprocessor as there may be, if each has enough ring
// slots. Returns false if not even one block has two.
bool place_strips(GemmShape& s, const CardLimits& d, const Matrix& m, int64_t rounds) {
  place_slots(s, m, m.chain_bits != kFewChainBits ? kStripSumBytes : 0);
  s.threads = strip_threads(s.strips);
  for (s.resident = most_resident(s, rounds); s.resident > 0; --s.resident) {
    const uint32_t limit =
        s.resident == 1
            ? d.shared_per_block
            : std::min(d.shared_per_block,
                       d.shared_per_multiprocessor / static_cast<uint32_t>(s.resident) - kReservedBytes);
    if (s.activations_at > limit) continue;
    s.pipeline_slots =
        std::min(kMaxStripSlots, static_cast<int32_t>((limit - s.activations_at) / s.pipeline_slot_bytes));
    if (s.pipeline_slots < (s.resident == 1 ? kMinPipelineSlots : kSharedSlots)) continue;
    s.shared_bytes = s.activations_at + static_cast<uint32_t>(s.pipeline_slots) * s.pipeline_slot_bytes;
    return true;
  }
  return false;
}

// Returns the time of the busiest multiprocessor: its strips and activations, and the meetings of the warps
// at each block of 128 rows, which other blocks of the multiprocessor hide; and for each task its start and
// end, longer with split-K. With split-K, each task of a block after its first costs more: a single warp then
// adds up the sums of all splits (combine_splits). Measured on an H200 for 16, 32 and 64 tokens: a block of
// 128 rows by eight strips takes 0.93, 1.21 and 1.62 us, and such a task 2 to 3, 3 and 9 us more.
int64_t strip_cost(const GemmShape& s, const CardLimits& d, const Matrix& m, int32_t token_tiles) {
  constexpr int64_t kMeeting = 350, kTask = 1500, kSplit = 2000, kAlone = 1000;
  const int64_t strip = s.tiles == 2 ? 70 : s.tiles == 4 ? 105 : 150, activations = int64_t{10} * s.tiles;
  const int64_t rounds = rounds_of(s, d, token_tiles);
  const int64_t together = std::min<int64_t>(s.resident, rounds);
  const int64_t in_turn = (rounds + together - 1) / together;
  const int64_t row_blocks = (m.num_blocks + s.splits - 1) / s.splits;
  // A multiprocessor has four schedulers, and those with fewer warps wait for the others.
  const int64_t warps = (s.strips * together + 3) / 4 * 4;
  return rounds * row_blocks * (strip * warps / together + activations) +
         in_turn * (row_blocks * kMeeting / together + kTask) +
         (s.splits > 1 ? kSplit * in_turn + (in_turn - 1) * s.tiles * kAlone : 0);
}

}  // namespace

int64_t strip_shape(const CardLimits& d, const Matrix& m, int32_t tiles, int32_t token_tiles, bool may_split,
                    GemmShape& shape) {
  int64_t least = kDoesNotFit;
  for (int32_t strips = kMaxWideStrips; strips >= 2; strips -= 2) {
    if (!parts_fit_groups(m, strips)) continue;
    for (int32_t bits = 0; bits <= (may_split ? kMaxSplitBits : 0); ++bits) {
      GemmShape s;
      s.tiles = tiles;
      split_chains(s, bits);
      if (!sums_fit(m, s, token_tiles)) continue;
      partition_strips(s, m, strips);
      if (!place_strips(s, d, m, rounds_of(s, d, token_tiles))) continue;
      const int64_t cost = strip_cost(s, d, m, token_tiles);
      if (cost >= least) continue;
      least = cost;
      shape = s;
    }
    if (strips == 4 && least != kDoesNotFit) break;  // two strips only if no others fit
  }
  if (least != kDoesNotFit)
    shape.blocks = best_blocks(shape.tasks, token_tiles, d.num_multiprocessors * shape.resident);
  return least;
}

}  // namespace quire::kernels
