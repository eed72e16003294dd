// Products of E4M3 by E4M3: weights as they are stored, activations rounded to 8 bits. How both lie in
// memory, and how a product is dealt out to the blocks of a card. Knows no CUDA.
//
// K goes in blocks of 128 rows. Weights come in tiles of 64 columns: for each block of K 64 rows of 128
// bytes, a column each, and after them the f32 scales of the columns. Activations come in tiles of 1 to 16
// octets of 8 tokens: for each block of K and tile a row of 128 bytes for each token, and after them the
// scales of the tokens. So one copy brings what a stage has of either. The 16 bytes at place c of row r lie
// at place c ^ (r & 7), which is how the tensor cores read without meeting in a bank (the 128-byte swizzle of
// wgmma). Where a gate and its up are multiplied together, a tile has 32 columns of each, in turns of eight,
// so that a lane has the sums of both.
//
// The product of a block is what the tensor cores make of its codes; times the scales of its column and token
// it is added to those before. So a row's result depends on no tile.
#pragma once

#include <cstdint>

#include "kernels/cuda/plan/gemm_shape.h"

// Kernels call what decides places, too.
#if defined(__CUDACC__)
#define QUIRE_HOST_AND_DEVICE __host__ __device__
#else
#define QUIRE_HOST_AND_DEVICE
#endif

namespace quire::kernels {

constexpr int32_t kFloat8Columns = 64;  // of a tile: what a warpgroup multiplies at a time
constexpr int32_t kFloat8Octet = 8;     // tokens
constexpr uint32_t kFloat8OctetBytes = kFloat8Octet * kBlockRows;  // of a block of K
constexpr uint32_t kFloat8CodeBytes = kFloat8Columns * kBlockRows;
constexpr uint32_t kFloat8BlockBytes = kFloat8CodeBytes + kFloat8Columns * 4;  // with the scales
constexpr float kLargestE4m3 = 448.0f;

// Where byte `k` of row `row` lies, from the first byte of its eight rows on.
QUIRE_HOST_AND_DEVICE constexpr uint32_t float8_place(uint32_t row, uint32_t k) {
  return (row & 7U) * kBlockRows + (((k >> 4) ^ (row & 7U)) << 4) + (k & 15U);
}

// Tiles of so many columns; paired: those of gate and up together, half of them each.
constexpr int32_t float8_tiles(int32_t num_columns, bool paired) {
  const int32_t of_tile = paired ? kFloat8Columns / 2 : kFloat8Columns;
  const int32_t columns = paired ? num_columns / 2 : num_columns;
  return (columns + of_tile - 1) / of_tile;
}
// The row of its tile, and the tile, of a column of all parts' columns.
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

constexpr int32_t kMostFloat8Groups = 3;   // warpgroups of a block that multiply, each for a tile of columns
constexpr int32_t kMostFloat8Octets = 16;  // of a tile of tokens
constexpr int32_t kMostFloat8Stages = 16;
QUIRE_HOST_AND_DEVICE constexpr int32_t float8_threads(int32_t groups) {
  return 128 * groups + 128;
}
constexpr uint32_t kFloat8StagesAt = 1024;  // before them the barriers of the stages
static_assert(16 * kMostFloat8Stages <= kFloat8StagesAt);
// Of a block of K: the activations of a tile of so many octets, with their scales.
QUIRE_HOST_AND_DEVICE constexpr uint32_t float8_token_bytes(int32_t octets) {
  return static_cast<uint32_t>(octets) * (kFloat8OctetBytes + kFloat8Octet * 4);
}
// In a stage: a tile of weights for each warpgroup, then activations. Codes begin at multiples of 1,024.
constexpr uint32_t kFloat8TileStride = (kFloat8BlockBytes + 1023) / 1024 * 1024;
QUIRE_HOST_AND_DEVICE constexpr uint32_t float8_stage_bytes(int32_t octets, int32_t groups) {
  const uint32_t bytes = static_cast<uint32_t>(groups) * kFloat8TileStride + float8_token_bytes(octets);
  return (bytes + 1023) / 1024 * 1024;
}
// Blocks side by side on a multiprocessor, so that some begin while others end: as many as registers and
// stages allow.
QUIRE_HOST_AND_DEVICE constexpr int32_t float8_blocks_at_once(int32_t octets, int32_t groups) {
  if (octets > 8) return 1;
  if (octets > 4) return groups == 1 ? 2 : 1;
  return groups == 1 ? 3 : 2;
}

// How a product is dealt out: a task is `groups` tiles of columns by one of tokens.
struct Float8Shape {
  int32_t octets = 1;       // of a tile of tokens: 1, 2, 4, 8, 16
  int32_t groups = 1;       // 1, 2, or 3 where a tile has 16 octets
  int32_t token_tiles = 1;  // next to each other among the tasks: they read the same weights
  int32_t pairs = 0;        // 1: two blocks share the activations of their tasks
  int32_t tasks = 0;        // of a block, or of a pair
  int32_t blocks = 0;       // that tasks are dealt out over; of a pair each counts
  int32_t stages = 0;
  uint32_t shared_bytes = 0;
};

// For so many rows by a matrix of so many tiles of columns and blocks of K. Results do not depend on it.
Float8Shape float8_shape(const CardLimits& card, int32_t column_tiles, int32_t num_blocks, int32_t rows);

}  // namespace quire::kernels
