// How the work of a product is split over the thread blocks of a card: occupancy (blocks per multiprocessor)
// and split-K. Independent of CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/plan/matrix.h"

namespace quire::kernels {

// Limits of a card.
struct CardLimits {
  int32_t num_multiprocessors = 0;
  uint32_t shared_per_block = 0;  // largest shared memory of a block in bytes
  uint32_t shared_per_multiprocessor = 0;
  bool warpgroup_products = false;  // the card has wgmma and the kernels are compiled for it
};

// How a product is split over blocks (tiling, split-K).
//
// narrow, up to 8 tokens: each of a block's 16 warps computes one chain of K of a strip, so that no partial
// sums leave the block. A block computes one strip with 16 chains, or two strips with 8, among them gate and
// up.
//
// wide, tiles of 16, 32 or 64 tokens. On cards with warpgroup products two warps of a block compute a strip,
// one for each half of its columns, and four more warps (producers) copy weights and activations. On other
// cards each warp computes a strip, and every warp also copies (gemm_strips.cuh).
//
// broad, tiles of 128 tokens, on cards with warpgroup products: like wide, but activations are arranged in
// memory as the ring slots store them, so that all copies are bulk copies (TMA), and two blocks with adjacent
// groups share one copy of the activations.
struct GemmShape {
  int32_t tiles = 1;        // tiles of 8 tokens: 1 is narrow, 2, 4 and 8 are wide, kBroadTiles broad
  bool few_strips = false;  // 64 tokens by at most kMaxFewStrips strips, with more registers per thread
                            // (wide, with warpgroup products)
  int32_t eighths = 0;      // eighths of K in a block's task, each one chain or two (wide)
  int32_t splits = 1;       // split-K: splits of K over blocks: 1 or kMaxSplits, and 2 or 4 except for wide
                            // tiles with warpgroup products
  int32_t split_bits = 0;   // splits == 1 << split_bits
  // Partial sums that the splits of a half strip store: one by the first split, with the sum of all its
  // eighths, and one per eighth by the others.
  int32_t num_partial_sums = 0;
  int32_t strips = 0;                // strips of a group: what a block computes at a time
  int32_t groups = 0;                // broad: pairs of groups
  int32_t tasks = 0;                 // groups * splits
  int32_t blocks = 0;                // blocks that share the tasks (broad: pairs of blocks)
  int32_t threads = 0;               // of a block
  int32_t resident = 1;              // blocks that a multiprocessor runs at a time (wide)
  int32_t ring_slots = 0;            // per warp (narrow)
  uint32_t slot_bytes = 0;           // bytes of a strip's segment (narrow), or of its 128 rows (wide)
  int32_t pipeline_slots = 0;        // ring slots for activations and weights (wide)
  uint32_t pipeline_slot_bytes = 0;  // bytes of a ring slot (wide)
  // Offsets in shared memory, in bytes.
  uint32_t table_at = 0;        // (wide)
  uint32_t activations_at = 0;  // activations of one row (narrow); the ring slots (wide)
  uint32_t sums_at = 0;
  uint32_t rings_at = 0;  // (narrow)
  uint32_t shared_bytes = 0;

  bool is_broad() const;
};

constexpr int kNarrowWarps = 1 << kMaxChainBits;
constexpr int kNarrowThreads = 32 * kNarrowWarps;
constexpr int kMaxWideTiles = 8;
constexpr int kBroadTiles = 16;
constexpr int kBroadStrips = 4;
inline bool GemmShape::is_broad() const {
  return tiles == kBroadTiles;
}
constexpr int kMaxWideStrips = 8;
// Largest number of strips by 64 tokens for which each warp has registers for the sum of earlier chains; with
// eight strips the sums are parked.
constexpr int kMaxFewStrips = 4;
constexpr int kMinPipelineSlots = 2;
constexpr int kMaxTileTokens = 8 * kBroadTiles;
constexpr int kWarpgroupStrips = 2;      // strips that the warps of a warpgroup compute
constexpr int kActivationProducers = 3;  // producer warps of activations; one more copies weights
// Returns the threads of a block on cards with warpgroup products.
constexpr int wide_threads(int strips) {
  return 32 * (2 * strips + 1 + kActivationProducers);
}
// Return those on other cards, and the blocks of kMaxWideStrips for which a multiprocessor has registers.
constexpr int strip_threads(int strips) {
  return 32 * strips;
}
constexpr int strip_blocks(int tiles) {
  return tiles == 2 ? 2 : 1;
}
constexpr int kBroadThreads = 64 * kBroadStrips + 128;
constexpr int kMaxSlots = 2;
constexpr int kMaxPipelineSlots = 8;
constexpr int kMaxStripSlots = 6;  // pipeline slots on cards without warpgroup products
constexpr int kMaxSplitBits = 3;
constexpr int kMaxSplits = 1 << kMaxSplitBits;
static_assert(kMaxSplits == kFewChains);

// split-K: the available floats for partial sums, and the floats of a tile of tokens.
constexpr size_t kPartialFloats = size_t{8} << 20;
constexpr size_t partial_floats(const Matrix& m, const GemmShape& s) {
  return static_cast<size_t>(m.num_strips) *
         static_cast<size_t>(s.tiles * 8 * s.num_partial_sums * kStripColumns);
}

// Return the bytes of activations in a ring slot, for 8 tokens times `tiles`: from one piece of 2 * 8 rows to
// the next, and of a step (gemm_half.cuh).
constexpr uint32_t piece_stride(int32_t tiles) {
  return static_cast<uint32_t>(tiles) * 128;
}
constexpr uint32_t step_bytes(int32_t tiles) {
  return 4 * piece_stride(tiles);
}

// Fixed offsets in shared memory: barriers of the rings, then a few floats for a norm (narrow); barriers of
// the ring slots (wide).
constexpr uint32_t kBarrierBytes = 8 * kMaxSlots;  // barriers of a warp
constexpr uint32_t kNormSumsAt = kNarrowWarps * kBarrierBytes;
constexpr uint32_t kSlotBarriersAt = 0;
constexpr uint32_t kFreeAt = kNormSumsAt + 128;
static_assert(16 * kMaxPipelineSlots <= kFreeAt);

// Returns the shape for that many rows. Results do not depend on it.
GemmShape gemm_shape(const CardLimits& card, const Matrix& matrix, int32_t rows);
// Returns the shape for products of rows with the matrices of their experts (MoE), in `token_tiles` tiles of
// `tiles` times 8 rows (1: narrow, 2, 4 or 8: wide), or of one row if `tiles` is 0. K is not split, and
// `spare` bytes of shared memory stay free after shared_bytes.
GemmShape expert_shape(const CardLimits& card, const Matrix& matrix, int32_t tiles, int32_t token_tiles,
                       uint32_t spare);
// Shared memory that a multiprocessor takes for each block besides that of the shape.
constexpr uint32_t kReservedBytes = 1024;
// Bytes of the sums of a strip by 8 tokens (f32).
constexpr uint32_t kStripSumBytes = 8 * kStripColumns * 4;
// Cost of a shape that does not fit the card.
constexpr int64_t kDoesNotFit = INT64_MAX;

// Parts of the choice of a wide shape. Sets the splits of K.
void split_chains(GemmShape& shape, int32_t split_bits);
// Returns true unless groups of so many strips would have strips of two parts of a trellis, which have inputs
// of their own.
bool parts_fit_groups(const Matrix& matrix, int32_t strips);
// Sets the groups and tasks.
void partition_strips(GemmShape& shape, const Matrix& matrix, int32_t strips);
// Returns true if K is not split, or may be: gate and up are not paired, and there is memory for the partial
// sums of that many tiles of tokens.
bool sums_fit(const Matrix& matrix, const GemmShape& shape, int32_t token_tiles);
// Returns the tasks of the multiprocessor that has most.
int64_t rounds_of(const GemmShape& shape, const CardLimits& card, int32_t token_tiles);
// Sets the size of a ring slot and the offsets in shared memory, with `parked_bytes` of parked sums for each
// strip by 8 tokens.
void place_slots(GemmShape& shape, const Matrix& matrix, uint32_t parked_bytes);
// Returns the number of blocks per tile of tokens that fills the last round best. Each tile has `tasks`
// tasks, and the card runs `at_once` blocks at a time.
int32_t best_blocks(int32_t tasks, int32_t token_tiles, int32_t at_once);

// Returns the shape of the narrow kernel; shared_bytes is 0 if it does not fit the card.
GemmShape narrow_shape(const CardLimits& card, const Matrix& matrix, int32_t rows);

}  // namespace quire::kernels
