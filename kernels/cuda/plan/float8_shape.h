// Products of E4M3 by E4M3: weights as stored, activations rounded to 8 bits. Memory layout of both, and how
// a product is split over the blocks of a card. Independent of CUDA.
//
// K is processed in blocks of 128 rows. Weights are stored in tiles of 64 columns: for each block of K, 64
// rows of 128 bytes, one per column, followed by the f32 scales of the columns. Activations are stored in
// tiles of 1 to 16 octets of 8 tokens: for each block of K and tile, a row of 128 bytes per token, followed
// by the scales of the tokens. So one copy fills a ring slot's part of either. The 16-byte piece c of row r
// is stored at place c ^ (r & 7), so that the tensor cores read without bank conflicts (the 128-byte swizzle
// of wgmma, which suits ldmatrix, too). If gate and up are multiplied together, a tile has 32 columns of
// each, alternating every eight, so that a lane has the sums of both.
//
// The tensor cores multiply the codes of a block; the product is multiplied by the scales of its column and
// token and added to the earlier blocks. So the result of a row does not depend on the tiling.
#pragma once

#include <cstdint>

#include "kernels/cuda/plan/gemm_shape.h"
#include "kernels/interface/host_and_device.h"

namespace quire::kernels {

constexpr int32_t kFloat8Columns = 64;  // columns of a tile: what four warps multiply at a time
constexpr int32_t kFloat8Octet = 8;     // tokens
constexpr uint32_t kFloat8OctetBytes = kFloat8Octet * kBlockRows;  // codes of an octet for a block of K
constexpr uint32_t kFloat8CodeBytes = kFloat8Columns * kBlockRows;
constexpr uint32_t kFloat8BlockBytes = kFloat8CodeBytes + kFloat8Columns * 4;  // including the scales
constexpr float kLargestE4m3 = 448.0f;

// Returns the offset of byte `k` of row `row` from the first byte of its group of eight rows.
QUIRE_HOST_AND_DEVICE constexpr uint32_t float8_place(uint32_t row, uint32_t k) {
  return (row & 7U) * kBlockRows + (((k >> 4) ^ (row & 7U)) << 4) + (k & 15U);
}

// Returns the number of tiles. Paired: each tile has half of its columns from gate and half from up.
constexpr int32_t float8_tiles(int32_t num_columns, bool paired) {
  const int32_t of_tile = paired ? kFloat8Columns / 2 : kFloat8Columns;
  const int32_t columns = paired ? num_columns / 2 : num_columns;
  return (columns + of_tile - 1) / of_tile;
}
// Tile of a column, and its row within the tile; columns are counted over all parts.
struct Float8Place {
  int32_t tile = 0;
  int32_t row = 0;
};
QUIRE_HOST_AND_DEVICE constexpr Float8Place float8_column(int32_t column, int32_t num_columns, bool paired) {
  if (!paired) return {column / kFloat8Columns, column % kFloat8Columns};
  const int32_t half = num_columns / 2, is_up = column >= half ? 1 : 0, local = column - is_up * half;
  const int32_t in_tile = local % (kFloat8Columns / 2);
  return {local / (kFloat8Columns / 2), in_tile / 8 * 16 + is_up * 8 + in_tile % 8};
}

constexpr int32_t kMaxFloat8Groups = 3;   // consumer warpgroups of a block, each for a tile of columns
constexpr int32_t kMaxFloat8Octets = 16;  // octets of a tile of tokens
constexpr int32_t kMaxFloat8Slots = 16;
QUIRE_HOST_AND_DEVICE constexpr int32_t float8_threads(int32_t groups) {
  return 128 * groups + 128;
}
constexpr uint32_t kFloat8SlotsAt = 1024;  // the barriers of the ring slots come before
static_assert(16 * kMaxFloat8Slots <= kFloat8SlotsAt);
// Returns the bytes of a block of K of the activations of a tile with `octets` octets, including their
// scales.
QUIRE_HOST_AND_DEVICE constexpr uint32_t float8_token_bytes(int32_t octets) {
  return static_cast<uint32_t>(octets) * (kFloat8OctetBytes + kFloat8Octet * 4);
}
// Layout of a ring slot: a tile of weights for each group, then activations. Codes begin at multiples of
// 1,024.
constexpr uint32_t kFloat8TileStride = (kFloat8BlockBytes + 1023) / 1024 * 1024;
QUIRE_HOST_AND_DEVICE constexpr uint32_t float8_activations_at(int32_t groups) {
  return static_cast<uint32_t>(groups) * kFloat8TileStride;
}
QUIRE_HOST_AND_DEVICE constexpr uint32_t float8_slot_bytes(int32_t octets, int32_t groups) {
  const uint32_t bytes = float8_activations_at(groups) + float8_token_bytes(octets);
  return (bytes + 1023) / 1024 * 1024;
}
// Returns the number of blocks that run on a multiprocessor at once, so that some start while others end: as
// many as registers and ring slots allow (occupancy).
QUIRE_HOST_AND_DEVICE constexpr int32_t float8_blocks_at_once(int32_t octets, int32_t groups) {
  if (octets > 8) return 1;
  if (octets > 4) return groups == 1 ? 2 : 1;
  return groups == 1 ? 3 : 2;
}

// On cards without warpgroup products (gemm_float8_strips.cu) the four warps of a group copy and multiply.
// Returns the threads of a block, and how many blocks a multiprocessor has registers for.
constexpr int32_t kMaxFloat8StripGroups = 2;
constexpr int32_t kMaxFloat8StripSlots = 4;
QUIRE_HOST_AND_DEVICE constexpr int32_t float8_strip_threads(int32_t groups) {
  return 128 * groups;
}
QUIRE_HOST_AND_DEVICE constexpr int32_t float8_strip_blocks(int32_t octets, int32_t groups) {
  return (octets > 8 ? 2 : 4) / groups;
}

// How a product is split: a task is `groups` tiles of columns by one tile of tokens.
struct Float8Shape {
  int32_t octets = 1;       // octets of a tile of tokens: 1, 2, 4, 8, 16
  int32_t groups = 1;       // 1, 2, or, with tiles of 16 octets by warpgroups, 3
  int32_t token_tiles = 1;  // adjacent tasks with different token tiles read the same weights
  int32_t pairs = 0;        // 1: two blocks share the activations of their tasks
  int32_t tasks = 0;        // tasks of a block, or of a pair
  int32_t blocks = 0;       // blocks that share the tasks; both blocks of a pair count
  int32_t pipeline_slots = 0;
  uint32_t shared_bytes = 0;
};

// Returns the shape for `rows` rows by a matrix of that many column tiles and blocks of K. Results do not
// depend on it.
Float8Shape float8_shape(const CardLimits& card, int32_t column_tiles, int32_t num_blocks, int32_t rows);

}  // namespace quire::kernels
