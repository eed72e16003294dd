// How many chains, strips and tokens a thread block takes, from what the card has of shared memory.
#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/cuda/gemm.h"

namespace quire::kernels {
namespace {

uint32_t aligned(uint32_t bytes) {
  return (bytes + 127) / 128 * 128;
}

// Lays out shared memory with two slots per ring, or with one where `limit` does not allow two. False where
// not even one fits.
bool place(GemmShape& s, const Matrix& m, uint32_t activation_bytes, uint32_t limit) {
  const auto per_chain = static_cast<uint32_t>(s.held * kStripColumns) * 4;
  s.slot_bytes = aligned(m.max_segment_bytes);
  s.activations_at = kFreeAt;
  s.sums_at = aligned(s.activations_at + activation_bytes);
  s.received_at = aligned(s.sums_at + kGemmWarps * per_chain);
  s.rings_at = aligned(s.received_at +
                       (s.splits == 1 ? 0 : kReceiveBuffers * static_cast<uint32_t>(s.splits) * per_chain));
  const uint32_t slot = s.slot_bytes * kGemmWarps;
  s.ring_slots = s.rings_at + 2 * slot <= limit ? 2 : 1;
  s.shared_bytes = s.rings_at + static_cast<uint32_t>(s.ring_slots) * slot;
  return s.shared_bytes <= limit;
}

void deal(GemmShape& s, const Matrix& m, int32_t chains, int32_t strips) {
  s.chains = chains;
  s.splits = kNumChains / chains;
  s.strips = strips;
  s.groups = m.paired ? (m.parts[0].num_strips + strips / 2 - 1) / (strips / 2)
                      : (m.num_strips + strips - 1) / strips;
}

GemmShape narrow_shape(const Device& d, const Matrix& m, int32_t rows) {
  GemmShape s;
  s.held = std::min(rows, 8);
  deal(s, m, kNumChains, m.paired ? 2 : 1);
  // One row's activations, and one step more, which is fetched but not used.
  const uint32_t row = rows == 1 ? static_cast<uint32_t>(m.num_blocks * kBlockRows + kStepRows) * 2 : 0;
  // Half of a multiprocessor's memory: room for two blocks, or for one and one of the next kernel's.
  const uint32_t half = std::min(d.shared_per_block, d.shared_per_multiprocessor / 2 - 1024);
  bool fits = place(s, m, row, half) && s.ring_slots == 2;
  if (!fits && !place(s, m, row, d.shared_per_block)) s.ring_slots = 0;
  s.group_blocks = std::min(s.groups, d.num_multiprocessors * (s.shared_bytes <= half ? 2 : 1));
  return s;
}

// Of the blocks that fit on the card at once, `at_once` of them, as many as make the last round of all tiles
// of tokens the fullest.
int32_t best_blocks(int32_t groups, int32_t token_tiles, int32_t at_once) {
  int32_t best = 1;
  int64_t least = INT64_MAX;
  for (int32_t blocks = 1; blocks <= std::min(groups, at_once); ++blocks) {
    const int64_t rounds = (int64_t{token_tiles} * blocks + at_once - 1) / at_once;
    const int64_t cost = rounds * ((groups + blocks - 1) / blocks * 4 + 3);  // 3: the start of a block
    if (cost < least) {
      least = cost;
      best = blocks;
    }
  }
  return best;
}

bool wide_shape(const Device& d, const Matrix& m, int32_t rows, int32_t tiles, int32_t chains, GemmShape& s) {
  s.tiles = tiles;
  deal(s, m, chains, kGemmWarps / chains);
  const int32_t clusters = chains == 4 ? d.clusters_of_4 : d.clusters_of_8;
  if (clusters == 0 && d.is_hopper) return false;  // its kernels share sums through clusters alone
  int32_t blocks = 0;
  for (int32_t c = 0; c < kNumChains; c += chains)
    blocks = std::max(blocks, m.num_blocks * (c + chains) / kNumChains - m.num_blocks * c / kNumChains);
  const auto activations = static_cast<uint32_t>(blocks * kBlockSteps * tiles) * 512;
  // As many tokens at a time as leave room for two slots; without clusters all of them.
  for (s.held = tiles * 8;; s.held /= 2) {
    const bool fits = place(s, m, activations, d.shared_per_block);
    if (fits && (s.ring_slots == 2 || s.held == 8 || !d.is_hopper)) break;
    if (s.held == 8 || !d.is_hopper) return false;
  }
  const int32_t at_once = d.is_hopper ? clusters : std::max(1, d.num_multiprocessors / s.splits);
  s.group_blocks = best_blocks(s.groups, (rows + tiles * 8 - 1) / (tiles * 8), at_once);
  return true;
}

}  // namespace

GemmShape gemm_shape(const Device& device, const Matrix& matrix, int32_t rows) {
  if (rows > 8) {
    for (const int32_t tiles : {4, 2}) {
      if (rows <= 16 && tiles == 4) continue;
      for (const int32_t chains : {4, 2}) {
        GemmShape s;
        if (wide_shape(device, matrix, rows, tiles, chains, s)) return s;
      }
    }
  }
  return narrow_shape(device, matrix, rows);
}

}  // namespace quire::kernels
