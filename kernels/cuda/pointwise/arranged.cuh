// Arranged activations: rows stored in the layout of the ring slots of broad products, so that bulk copies
// (TMA) need no conversion (gemm_half.cuh). Tiles of 128 tokens, each [block of 128 columns][step of
// 32][piece][octet of tokens][token][word]. The same word of a token holds its columns 8t to 8t + 7 over all
// pieces.
#pragma once

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/plan/gemm_shape.h"

namespace quire::kernels {

// In f16 elements.
constexpr int kArrangedStep = static_cast<int>(step_bytes(kBroadTiles)) / 2;
constexpr int kArrangedPiece = static_cast<int>(piece_stride(kBroadTiles)) / 2;

// Returns the position of a row's column, for rows of `blocks` times 128 columns. An even column and the next
// are adjacent. The column 8 further is kArrangedWord elements later if both are in the same 16; the row 8
// further is kArrangedOctet elements later if both are in the same tile.
constexpr int kArrangedWord = 2;
constexpr int kArrangedOctet = 64;
__device__ __forceinline__ size_t arranged_at(int blocks, int row, int column) {
  const int token = row % kMaxTileTokens;
  const size_t step =
      (static_cast<size_t>(row / kMaxTileTokens) * blocks + column / kBlockRows) * kBlockSteps +
      column / kStepRows % kBlockSteps;
  return step * kArrangedStep + (column / 2 % 4) * kArrangedPiece + token / 8 * kArrangedOctet +
         token % 8 * 8 + column / 8 % 4 * kArrangedWord + column % 2;
}

// A unit is sixteen contiguous bytes of a row: of step `unit / 4` of 32 columns and piece `unit % 4`, the
// columns 8t + 2 * piece and the next, ordered by t.
constexpr int kUnitsOfStep = 4;
constexpr int kUnitsOfBlock = kBlockSteps * kUnitsOfStep;
__device__ __forceinline__ int unit_column(int unit) {
  return unit / kUnitsOfStep * kStepRows + unit % kUnitsOfStep * 2;
}
__device__ __forceinline__ void store_unit(__half* to, int blocks, int row, int unit, uint4 v) {
  *reinterpret_cast<uint4*>(to + arranged_at(blocks, row, unit_column(unit))) = v;
}

// Distance of rows in shared memory, in f16 elements, chosen so that there are no bank conflicts, neither
// between threads that read units of adjacent rows nor between threads that read one row.
constexpr int kStagedOctet = 8;
__host__ __device__ constexpr int staged_stride(int columns) {
  return columns + 8;
}

// Stores eight columns of a row from `column` on, a multiple of 8.
__device__ __forceinline__ void store_arranged(__half* to, int blocks, int row, int column, uint4 v) {
  auto* word = reinterpret_cast<uint32_t*>(to + arranged_at(blocks, row, column));
  word[0] = v.x;
  word[kArrangedPiece / 2] = v.y;
  word[kArrangedPiece] = v.z;
  word[3 * kArrangedPiece / 2] = v.w;
}

}  // namespace quire::kernels
