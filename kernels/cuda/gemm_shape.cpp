// How many chains, strips and tokens a thread block takes, from what the card has of shared memory.
#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/cuda/gemm.h"

namespace quire::kernels {
namespace {

uint32_t aligned(uint32_t bytes) {
  return (bytes + 127) / 128 * 128;
}

// Lays out shared memory with up to `most` slots per ring. False where `limit` does not allow one.
bool place(GemmShape& s, const Matrix& m, uint32_t activation_bytes, uint32_t sum_bytes, int32_t warps,
           int32_t most, uint32_t limit) {
  s.slot_bytes = aligned(m.max_segment_bytes);
  s.activations_at = kFreeAt;
  s.sums_at = aligned(s.activations_at + activation_bytes);
  s.rings_at = aligned(s.sums_at + sum_bytes);
  const uint32_t slot = s.slot_bytes * static_cast<uint32_t>(warps);
  if (s.rings_at + slot > limit) return false;
  s.ring_slots = std::min(most, static_cast<int32_t>((limit - s.rings_at) / slot));
  s.shared_bytes = s.rings_at + static_cast<uint32_t>(s.ring_slots) * slot;
  return true;
}

void deal(GemmShape& s, const Matrix& m, int32_t strips) {
  s.strips = strips;
  s.groups = m.paired ? (m.parts[0].num_strips + strips / 2 - 1) / (strips / 2)
                      : (m.num_strips + strips - 1) / strips;
  s.tasks = s.groups * s.splits;
}

GemmShape narrow_shape(const Device& d, const Matrix& m, int32_t rows) {
  GemmShape s;
  deal(s, m, m.paired ? 2 : 1);
  // One row's activations, and one step more, which is fetched but not used.
  const uint32_t row = rows == 1 ? static_cast<uint32_t>(m.num_blocks * kBlockRows + kStepRows) * 2 : 0;
  const auto sums = static_cast<uint32_t>(std::min(rows, 8) * kStripColumns * kNumChains) * 4;
  // Half of a multiprocessor's memory: room for two blocks, or for one and one of the next kernel's.
  const uint32_t half = std::min(d.shared_per_block, d.shared_per_multiprocessor / 2 - 1024);
  const bool halves = place(s, m, row, sums, kNarrowWarps, 2, half) && s.ring_slots == 2;
  if (!halves && !place(s, m, row, sums, kNarrowWarps, 2, d.shared_per_block)) s.ring_slots = 0;
  s.blocks = std::min(s.groups, d.num_multiprocessors * (s.shared_bytes <= half ? 2 : 1));
  return s;
}

// Blocks for `tasks` of each of so many tiles of tokens, `at_once` of them at a time, such that the last
// round is the fullest.
int32_t best_blocks(int32_t tasks, int32_t token_tiles, int32_t at_once) {
  int32_t best = 1;
  int64_t least = INT64_MAX;
  for (int32_t blocks = 1; blocks <= std::min(tasks, at_once); ++blocks) {
    const int64_t rounds = (int64_t{token_tiles} * blocks + at_once - 1) / at_once;
    const int64_t cost = rounds * ((tasks + blocks - 1) / blocks * 16 + 3);  // 3: the start of a block
    if (cost < least) {
      least = cost;
      best = blocks;
    }
  }
  return best;
}

// Splits of the chains that fill the card; none where gates wait for their ups, or where there is work
// enough.
int32_t best_splits(const Device& d, const Matrix& m, int32_t token_tiles) {
  int32_t best = 1;
  int64_t least = INT64_MAX;
  for (const int32_t splits : {1, 4, 8}) {
    if (m.paired && splits > 1) break;
    const int64_t groups = (m.num_strips + kWideWarps - 1) / kWideWarps;
    const int64_t rounds =
        (groups * splits * token_tiles + d.num_multiprocessors - 1) / d.num_multiprocessors;
    // In blocks of 128 rows; what meeting costs is about three of them.
    const int64_t cost = rounds * ((m.num_blocks + splits - 1) / splits + (splits > 1 ? 3 : 0));
    if (cost < least) {
      least = cost;
      best = splits;
    }
  }
  return best;
}

bool wide_shape(const Device& d, const Matrix& m, int32_t rows, int32_t tiles, GemmShape& s) {
  const int32_t token_tiles = (rows + tiles * 8 - 1) / (tiles * 8);
  s.tiles = tiles;
  s.splits = best_splits(d, m, token_tiles);
  s.chains = kNumChains / s.splits;
  deal(s, m, kWideWarps);
  int32_t blocks = 0;  // of 128 rows, of a chain
  for (int32_t c = 0; c < kNumChains; ++c)
    blocks = std::max(blocks, m.num_blocks * (c + 1) / kNumChains - m.num_blocks * c / kNumChains);
  s.stage_bytes = static_cast<uint32_t>(blocks * kBlockSteps * tiles) * 512;
  const auto sums = static_cast<uint32_t>(kWideWarps * tiles * 8 * kStripColumns) * 4;
  if (!place(s, m, 2 * s.stage_bytes, sums, kWideWarps, d.is_hopper ? kMostSlots : 2, d.shared_per_block))
    return false;
  s.blocks = best_blocks(s.tasks, token_tiles, d.num_multiprocessors);
  return true;
}

}  // namespace

GemmShape gemm_shape(const Device& device, const Matrix& matrix, int32_t rows) {
  for (const int32_t tiles : {4, 2}) {
    if (rows <= 4 * tiles) continue;
    GemmShape s;
    if (wide_shape(device, matrix, rows, tiles, s)) return s;
  }
  return narrow_shape(device, matrix, rows);
}

}  // namespace quire::kernels
