// How the work of a product is dealt out to the thread blocks of a card. Knows no CUDA.
// Chooses the occupancy (blocks per multiprocessor) and the splits of K (split-K).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/plan/matrix.h"

namespace quire::kernels {

// What a card has.
struct CardLimits {
  int32_t num_multiprocessors = 0;
  uint32_t shared_per_block = 0;  // bytes of shared memory, at most
  uint32_t shared_per_multiprocessor = 0;
  bool warpgroup_products = false;  // and kernels compiled for them
};

// How a matrix is dealt out to blocks.
//
// narrow, up to 8 tokens: each of a block's 16 warps takes one chain of K of a strip, so that nothing leaves
// the block: it takes a strip of 16 chains, or two of 8, among them a gate and its up. wide, tiles of 16, 32
// or 64 tokens: two warps of a block take a strip, one for each half of its columns; four more warps bring
// weights and activations. broad, tiles of 128 tokens, where the card has products of a warpgroup:
// likewise, but activations lie arranged in memory as stages have them, so that all comes by bulk copies, and
// two blocks that take neighbouring groups share one copy of them.
struct GemmShape {
  int32_t tiles = 1;       // of 8 tokens: 1 is narrow, 2, 4 and 8 are wide, kBroadTiles broad
  bool roomy = false;      // of 64 tokens by up to kRoomyStrips strips (wide, with products of a warpgroup)
  int32_t eighths = 0;     // of K, of a block's task: each one chain or two (wide)
  int32_t splits = 1;      // of K over blocks: 1 or kMostSplits (wide), or 2 or 4 (broad)
  int32_t split_bits = 0;  // splits is 2 to the power of that
  // That the splits of a half strip leave for each other: the first what it has of its eighths, which is how
  // the sum begins, each other one what it has of each eighth.
  int32_t sums_left = 0;
  int32_t strips = 0;        // of a group: what a block works on at a time
  int32_t groups = 0;        // broad: pairs of groups
  int32_t tasks = 0;         // groups * splits
  int32_t blocks = 0;        // over which tasks are dealt out (broad: pairs of blocks)
  int32_t ring_slots = 0;    // per warp (narrow)
  uint32_t slot_bytes = 0;   // of what a strip has of a segment (narrow), of 128 rows (wide)
  int32_t stages = 0;        // of activations and weights (wide)
  uint32_t stage_bytes = 0;  // (wide)
  // In shared memory, in bytes.
  uint32_t table_at = 0;        // (wide)
  uint32_t activations_at = 0;  // of one row (narrow); the stages (wide)
  uint32_t sums_at = 0;
  uint32_t rings_at = 0;  // (narrow)
  uint32_t shared_bytes = 0;

  bool is_broad() const;
};

constexpr int kNarrowWarps = 1 << kMostChainBits;
constexpr int kNarrowThreads = 32 * kNarrowWarps;
constexpr int kMostWideTiles = 8;
constexpr int kBroadTiles = 16;
constexpr int kBroadStrips = 4;
inline bool GemmShape::is_broad() const {
  return tiles == kBroadTiles;
}
// Strips of a block, at most: what their sums leave of the registers of a multiprocessor is for making
// weights. Without products of a warpgroup, sums of 64 tokens take the registers of twice as many threads.
constexpr int wide_strips(int tiles, bool warpgroup_products) {
  return tiles == kMostWideTiles && !warpgroup_products ? 4 : 8;
}
// Of so many strips by 64 tokens each warp has registers for the sum of the chains before, which eight strips
// must park.
constexpr int kRoomyStrips = 4;
constexpr int kFewestStages = 2;
constexpr int kMostTileTokens = 8 * kBroadTiles;
constexpr int kWarpgroupStrips = 2;  // which the warps of a warpgroup take
constexpr int kFillWarps = 3;        // that bring activations; one more brings weights
// Threads of a block.
constexpr int wide_threads(int strips) {
  return 32 * (2 * strips + 1 + kFillWarps);
}
constexpr int kBroadThreads = 64 * kBroadStrips + 128;
constexpr int kMostSlots = 2;
constexpr int kMostStages = 8;
constexpr int kMostSplitBits = 3;
constexpr int kMostSplits = 1 << kMostSplitBits;
static_assert(kMostSplits == kFewChains);

// Where splits meet: the floats that there are, and what a tile of tokens takes.
constexpr size_t kPartialFloats = size_t{8} << 20;
constexpr size_t partial_floats(const Matrix& m, const GemmShape& s) {
  return static_cast<size_t>(m.num_strips) * static_cast<size_t>(s.tiles * 8 * s.sums_left * kStripColumns);
}

// Bytes of activations in a stage, for 8 tokens times `tiles`: from one piece of 2 * 8 rows to the next, and
// of a step (gemm_half.cuh).
constexpr uint32_t piece_stride(int32_t tiles) {
  return static_cast<uint32_t>(tiles) * 128;
}
constexpr uint32_t step_bytes(int32_t tiles) {
  return 4 * piece_stride(tiles);
}

// Fixed places in shared memory: barriers of the rings, then a few floats for a norm (narrow); barriers of
// the stages (wide).
constexpr uint32_t kBarrierBytes = 8 * kMostSlots;  // of a warp
constexpr uint32_t kNormSumsAt = kNarrowWarps * kBarrierBytes;
constexpr uint32_t kStageBarriersAt = 0;
constexpr uint32_t kFreeAt = kNormSumsAt + 128;
static_assert(16 * kMostStages <= kFreeAt);

// The shape for so many rows. Results do not depend on it.
GemmShape gemm_shape(const CardLimits& card, const Matrix& matrix, int32_t rows);
// Of products of rows by the matrices of their experts, in `token_tiles` tiles of `tiles` times 8 rows, or of
// one row where `tiles` is 1. Nothing is split, and after shared_bytes there is room for `spare` more.
GemmShape expert_shape(const CardLimits& card, const Matrix& matrix, int32_t tiles, int32_t token_tiles,
                       uint32_t spare);
// Of the narrow kernel; shared_bytes is 0 where the card has no room for it.
GemmShape narrow_shape(const CardLimits& card, const Matrix& matrix, int32_t rows);

}  // namespace quire::kernels
