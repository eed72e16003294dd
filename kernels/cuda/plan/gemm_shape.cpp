// Chooses the numbers of chains, strips and tokens of a thread block from the shared memory of the card.
#include "kernels/cuda/plan/gemm_shape.h"

#include <algorithm>

#include "kernels/cuda/plan/strip_shape.h"
#include "kernels/cuda/plan/trellis_tiles.h"

namespace quire::kernels {
namespace {

constexpr int32_t kDeepBlocks = 64;  // blocks of 128 rows from which on a matrix is deep
constexpr int32_t kMinBroadRows = 65;
constexpr int64_t kCostUnit = 10;  // cost of 0.085 us on an H100 or H200

uint32_t aligned(uint32_t bytes) {
  return (bytes + 127) / 128 * 128;
}

// Returns the bytes of the largest copy of the narrow kernel.
uint32_t largest_piece(const Matrix& m) {
  const bool in_two =
      segment_pieces(m.kind) == 2 && m.max_segment_bytes == scale_bytes(m.kind) + 2 * kLastPieceBytes;
  return in_two ? m.max_segment_bytes - kLastPieceBytes : m.max_segment_bytes;
}

// Lays out shared memory of the narrow kernel with up to kMaxSlots per ring. Returns false if `limit` does
// not allow one slot.
bool place(GemmShape& s, uint32_t piece_bytes, uint32_t activation_bytes, uint32_t sum_bytes,
           uint32_t limit) {
  s.slot_bytes = aligned(piece_bytes);
  s.activations_at = kFreeAt;
  s.sums_at = aligned(s.activations_at + activation_bytes);
  s.rings_at = aligned(s.sums_at + sum_bytes);
  const uint32_t slot = s.slot_bytes * kNarrowWarps;
  if (s.rings_at + slot > limit) return false;
  s.ring_slots = std::min(kMaxSlots, static_cast<int32_t>((limit - s.rings_at) / slot));
  s.shared_bytes = s.rings_at + static_cast<uint32_t>(s.ring_slots) * slot;
  return true;
}

// Returns the cost of a shape: the blocks of 128 rows that a multiprocessor processes, each weighted by its
// strips plus a constant, and a surcharge for split-K. Measured on an H100: a block of eight strips by 32
// tokens takes 1.03 us, eight strips by 64 tokens 1.57, four strips by 64 tokens with more registers
// (GemmShape::few_strips) 0.79 in one round and 0.9 in three.
int64_t wide_cost(const GemmShape& s, const CardLimits& d, const Matrix& m, int32_t token_tiles) {
  constexpr int32_t kMeeting = 3;
  const int64_t block = s.tiles != kMaxWideTiles ? (s.strips + 4) * kCostUnit
                        : s.few_strips           ? 16 + 21 * s.strips
                                                 : 60 + 31 * s.strips / 2;
  const int64_t row_blocks = (m.num_blocks + s.splits - 1) / s.splits + (s.splits > 1 ? kMeeting : 0);
  return rounds_of(s, d, token_tiles) * row_blocks * block;
}

// Returns the cost of broad tiles, measured on an H100: a pair of blocks takes 0.88 us for 128 rows, and 1.05
// us more for every two chains that it adds. Split-K costs 1.3 us plus 3.8 us for each quarter of the tokens
// that one split adds up. A broad kernel starts later than a wide one, and some activations must be arranged
// first.
int64_t broad_cost(const GemmShape& s, const CardLimits& d, const Matrix& m, int32_t token_tiles) {
  constexpr int64_t kStart = 80 * kCostUnit, kBlock = 104, kPair = 124, kMeeting = 150, kQuarter = 450;
  const int32_t pairs = std::max(1, d.num_multiprocessors / 2);
  const int64_t rounds = (int64_t{s.tasks} * token_tiles + pairs - 1) / pairs;
  const int64_t row_blocks = (m.num_blocks + s.splits - 1) / s.splits;
  const int64_t adding = m.chain_bits != kFewChainBits ? s.eighths * kPair : 0;
  const int64_t meeting = s.splits > 1 ? kMeeting + kQuarter * std::max(1, 4 / s.splits) : 0;
  return rounds * (row_blocks * kBlock + adding + meeting) + kStart;
}

// Returns true if K must be split: wide tiles of 64 tokens can park only one sum besides that of a chain,
// except with few strips (GemmShape::few_strips).
bool must_split(const Matrix& m, int32_t tiles) {
  return tiles == kMaxWideTiles && m.chain_bits != kFewChainBits;
}

bool can_use_few_strips(int32_t tiles, int32_t strips) {
  return tiles == kMaxWideTiles && strips <= kMaxFewStrips;
}

// Chooses the groups and splits that fill the card best.
bool partition_wide(GemmShape& s, const CardLimits& d, const Matrix& m, int32_t token_tiles) {
  int64_t least = INT64_MAX;
  GemmShape best = s;
  for (const int32_t bits : {0, kMaxSplitBits}) {
    split_chains(s, bits);
    if (!sums_fit(m, s, 1)) break;
    for (int32_t strips = kMaxWideStrips; strips >= 4; strips -= kWarpgroupStrips) {
      if (!parts_fit_groups(m, strips)) continue;
      s.few_strips = bits == 0 && can_use_few_strips(s.tiles, strips);
      if (bits == 0 && !s.few_strips && must_split(m, s.tiles)) continue;
      partition_strips(s, m, strips);
      const int64_t cost = wide_cost(s, d, m, token_tiles);
      if (cost >= least) continue;
      least = cost;
      best = s;
    }
  }
  s = best;
  return least != INT64_MAX;
}

// Does the same for broad tiles, whose pairs of blocks compute twice the strips of a block. K may also be
// split into halves and quarters.
void partition_broad(GemmShape& s, const CardLimits& d, const Matrix& m, int32_t token_tiles) {
  int64_t least = INT64_MAX;
  GemmShape best = s;
  for (int32_t bits = 0; bits <= kMaxSplitBits; ++bits) {
    split_chains(s, bits);
    if (!sums_fit(m, s, token_tiles)) continue;
    partition_strips(s, m, 2 * kBroadStrips);
    s.strips = kBroadStrips;
    const int64_t cost = broad_cost(s, d, m, token_tiles);
    if (cost >= least) continue;
    least = cost;
    best = s;
  }
  s = best;
}

// Returns true if the sums of earlier chains are parked in shared memory.
bool parks_sums(const GemmShape& s) {
  return s.tiles == kMaxWideTiles && !s.few_strips;
}

// Returns the bytes of shared memory for parked sums of a strip by 8 tokens: all sums if those of earlier
// chains are parked, half of them if gate and up only exchange them at the end.
uint32_t sums_bytes(const GemmShape& s, const Matrix& m) {
  if (parks_sums(s) || m.chain_bits != kFewChainBits) return kStripSumBytes;
  return m.paired != 0 ? kStripSumBytes / 2 : 0;
}

// Lays out shared memory with as many ring slots as fit. Returns false if they are fewer than the producer
// warps that take turns: one of these could be two rounds ahead of the consumers.
bool place_wide(GemmShape& s, const CardLimits& d, const Matrix& m) {
  place_slots(s, m, sums_bytes(s, m));
  s.threads = wide_threads(s.strips);
  const uint32_t limit = d.shared_per_block;
  const auto fewest =
      static_cast<uint32_t>(s.is_broad() || parks_sums(s) ? kMinPipelineSlots : kActivationProducers);
  if (s.activations_at + fewest * s.pipeline_slot_bytes > limit) return false;
  s.pipeline_slots =
      std::min(kMaxPipelineSlots, static_cast<int32_t>((limit - s.activations_at) / s.pipeline_slot_bytes));
  s.shared_bytes = s.activations_at + static_cast<uint32_t>(s.pipeline_slots) * s.pipeline_slot_bytes;
  return true;
}

int64_t wide_shape(const CardLimits& d, const Matrix& m, int32_t rows, int32_t tiles, GemmShape& s) {
  const int32_t token_tiles = (rows + tiles * 8 - 1) / (tiles * 8);
  if (!d.warpgroup_products) return strip_shape(d, m, tiles, token_tiles, true, s);
  s = {};
  s.tiles = tiles;
  if (!partition_wide(s, d, m, token_tiles)) return kDoesNotFit;
  while (!place_wide(s, d, m)) {
    if (s.strips == kWarpgroupStrips) return kDoesNotFit;
    partition_strips(s, m, s.strips - kWarpgroupStrips);
    s.few_strips = s.splits == 1 && can_use_few_strips(s.tiles, s.strips);
  }
  s.blocks = best_blocks(s.tasks, token_tiles, d.num_multiprocessors);
  return wide_cost(s, d, m, token_tiles);
}

int64_t broad_shape(const CardLimits& d, const Matrix& m, int32_t rows, GemmShape& s) {
  const int32_t token_tiles = (rows + kMaxTileTokens - 1) / kMaxTileTokens;
  s = {};
  s.tiles = kBroadTiles;
  partition_broad(s, d, m, token_tiles);
  if (!place_wide(s, d, m)) return kDoesNotFit;
  s.blocks = best_blocks(s.tasks, token_tiles, std::max(1, d.num_multiprocessors / 2));
  return broad_cost(s, d, m, token_tiles);
}

// Chooses tiles of 64, 32 or 128 tokens, whichever costs least, skipping tiles of which half would suffice.
// Chooses tiles of 16 for up to 16 tokens, and if larger ones do not fit the card.
bool best_wide_shape(const CardLimits& d, const Matrix& m, int32_t rows, GemmShape& s) {
  int64_t least = kDoesNotFit;
  for (const int32_t tiles : {8, 4, 2}) {
    if (tiles == 2 ? least != kDoesNotFit : rows <= tiles * 4) continue;
    GemmShape shape;
    const int64_t cost = wide_shape(d, m, rows, tiles, shape);
    if (cost >= least) continue;
    least = cost;
    s = shape;
  }
  if (GemmShape shape; d.warpgroup_products && rows >= kMinBroadRows) {
    if (const int64_t cost = broad_shape(d, m, rows, shape); cost < least) {
      least = cost;
      s = shape;
    }
  }
  return least != kDoesNotFit;
}

}  // namespace

bool parts_fit_groups(const Matrix& m, int32_t strips) {
  if (m.kind != TileKind::trellis) return true;
  for (int32_t p = 0; p + 1 < m.num_parts; ++p)
    if (m.parts[p].num_strips % strips != 0) return false;
  return true;
}

void partition_strips(GemmShape& s, const Matrix& m, int32_t strips) {
  s.strips = strips;
  s.groups = m.paired ? (m.parts[0].num_strips + strips / 2 - 1) / (strips / 2)
                      : (m.num_strips + strips - 1) / strips;
  s.tasks = s.groups * s.splits;
}

int32_t best_blocks(int32_t tasks, int32_t token_tiles, int32_t at_once) {
  int32_t best = 1;
  int64_t least = INT64_MAX;
  for (int32_t blocks = 1; blocks <= std::min(tasks, at_once); ++blocks) {
    const int64_t rounds = (int64_t{token_tiles} * blocks + at_once - 1) / at_once;
    const int64_t cost = rounds * ((tasks + blocks - 1) / blocks * 16 + 3);  // 3: start-up of a block
    if (cost < least) {
      least = cost;
      best = blocks;
    }
  }
  return best;
}

bool sums_fit(const Matrix& m, const GemmShape& s, int32_t token_tiles) {
  return s.splits == 1 ||
         (m.paired == 0 && partial_floats(m, s) * static_cast<size_t>(token_tiles) <= kPartialFloats);
}

void split_chains(GemmShape& s, int32_t bits) {
  s.splits = 1 << bits;
  s.split_bits = bits;
  s.eighths = kMaxSplits / s.splits;
  s.num_partial_sums = kMaxSplits - s.eighths + 1;
}

int64_t rounds_of(const GemmShape& s, const CardLimits& d, int32_t token_tiles) {
  return (int64_t{s.tasks} * token_tiles + d.num_multiprocessors - 1) / d.num_multiprocessors;
}

void place_slots(GemmShape& s, const Matrix& m, uint32_t parked_bytes) {
  const auto table = static_cast<uint32_t>(m.num_parts * m.num_blocks) * 8;
  const auto strips = static_cast<uint32_t>(s.strips), tiles = static_cast<uint32_t>(s.tiles);
  s.slot_bytes = aligned(m.max_segment_bytes * static_cast<uint32_t>(kBlockSteps / segment_steps(m.kind)));
  s.pipeline_slot_bytes = kBlockSteps * step_bytes(s.tiles) + strips * s.slot_bytes;
  s.table_at = kFreeAt;
  s.sums_at = kFreeAt + aligned(table);
  s.activations_at = s.sums_at + strips * tiles * parked_bytes;
}

GemmShape narrow_shape(const CardLimits& d, const Matrix& m, int32_t rows) {
  GemmShape s;
  s.threads = kNarrowThreads;
  partition_strips(s, m, kNarrowWarps >> m.chain_bits);
  uint32_t piece = largest_piece(m);
  if (m.kind == TileKind::trellis && rows == 1) {  // a strip to a group, of which a warp may have half
    s.strips = 1;
    s.groups = s.tasks = m.num_strips;
    if (m.chain_bits == kFewChainBits) piece /= 2;
  }
  const int32_t inputs = m.kind == TileKind::trellis ? trellis_input_rows(m.num_parts) : 1;
  const uint32_t row = rows == 1 ? static_cast<uint32_t>(inputs * m.num_blocks * kBlockRows) * 2 : 0;
  const auto sums = static_cast<uint32_t>(std::min(rows, 8) * kStripColumns * kNarrowWarps) * 4;
  // Half of a multiprocessor's memory: fits two blocks, or one block and one of the next kernel.
  const uint32_t half = std::min(d.shared_per_block, d.shared_per_multiprocessor / 2 - 1024);
  const bool fits_half = place(s, piece, row, sums, half) && s.ring_slots == kMaxSlots;
  if (!fits_half && !place(s, piece, row, sums, d.shared_per_block)) s.shared_bytes = 0;
  // Request enough memory for one multiprocessor per group, if there are enough of them. Otherwise a kernel
  // that starts while the previous one ends would put two blocks on each multiprocessor that becomes free
  // first, and none on others.
  if (rows <= 8 && s.groups <= d.num_multiprocessors && s.shared_bytes > 0)
    s.shared_bytes = std::max(s.shared_bytes, std::min(half + 1024, d.shared_per_block));
  s.blocks = std::min(s.groups, d.num_multiprocessors * (s.shared_bytes <= half ? 2 : 1));
  return s;
}

GemmShape expert_shape(const CardLimits& card, const Matrix& m, int32_t tiles, int32_t token_tiles,
                       uint32_t spare) {
  CardLimits d = card;
  d.shared_per_block -= spare;
  d.shared_per_multiprocessor -= 2 * spare;
  GemmShape best;
  if (tiles <= 1) {
    d.num_multiprocessors = 0;  // there are enough blocks for all of them
    best = narrow_shape(d, m, tiles == 0 ? 1 : 8);
    const int32_t at_once = 2 * card.num_multiprocessors;
    const auto rounds = static_cast<int32_t>((int64_t{best.groups} * token_tiles + at_once - 1) / at_once);
    best.blocks = (best.groups + rounds - 1) / rounds;
    return best;
  }
  if (!d.warpgroup_products) {
    static_cast<void>(strip_shape(d, m, tiles, token_tiles, false, best));
    return best;
  }
  if (must_split(m, tiles)) return best;
  int64_t least = INT64_MAX;
  for (int32_t strips = kMaxWideStrips; strips >= kWarpgroupStrips; strips -= kWarpgroupStrips) {
    GemmShape s;
    s.tiles = tiles;
    split_chains(s, 0);
    partition_strips(s, m, strips);
    const int64_t cost = wide_cost(s, d, m, token_tiles);
    if (cost >= least || !place_wide(s, d, m)) continue;
    least = cost;
    best = s;
  }
  if (best.shared_bytes > 0) best.blocks = best_blocks(best.tasks, token_tiles, d.num_multiprocessors);
  return best;
}

GemmShape gemm_shape(const CardLimits& card, const Matrix& matrix, int32_t rows) {
  // The narrow kernel loads the activations of several tokens again for each strip, which is too slow for
  // deep matrices with few strips: with K of 14,336 and 8 tokens it takes 22 µs, a half empty wide tile 17.
  const int32_t most_narrow = matrix.num_blocks >= kDeepBlocks && matrix.paired == 0 ? 1 : 8;
  GemmShape wide;
  if (rows > most_narrow && best_wide_shape(card, matrix, rows, wide)) return wide;
  const GemmShape narrow = narrow_shape(card, matrix, rows);
  // With deep matrices and small cards, a token's whole row leaves no shared memory for the rings.
  return narrow.shared_bytes == 0 && best_wide_shape(card, matrix, rows, wide) ? wide : narrow;
}

}  // namespace quire::kernels
