// Rows of activations as the stages of broad products have them, so that bulk copies bring them as they lie
// (gemm_half.cuh): tiles of 128 tokens, of each [block of 128 columns][step of 32][piece][octet of
// tokens][token][word]. A token's eight columns of a word in all pieces are 8t to 8t + 7.
#pragma once

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/plan/gemm_shape.h"

namespace quire::kernels {

// In halves.
constexpr int kArrangedStep = static_cast<int>(step_bytes(kBroadTiles)) / 2;
constexpr int kArrangedPiece = static_cast<int>(piece_stride(kBroadTiles)) / 2;

// Of rows of `blocks` times 128 columns: where a row's column lies. An even one and the next lie together;
// the column 8 further on lies kArrangedWord after it, where both are in the same 16, and the row 8 further
// on kArrangedOctet, where both are in the same tile.
constexpr int kArrangedWord = 2;
constexpr int kArrangedOctet = 64;
__device__ __forceinline__ size_t arranged_at(int blocks, int row, int column) {
  const int token = row % kMostTileTokens;
  const size_t step =
      (static_cast<size_t>(row / kMostTileTokens) * blocks + column / kBlockRows) * kBlockSteps +
      column / kStepRows % kBlockSteps;
  return step * kArrangedStep + (column / 2 % 4) * kArrangedPiece + token / 8 * kArrangedOctet +
         token % 8 * 8 + column / 8 % 4 * kArrangedWord + column % 2;
}

// Sixteen bytes of a row that lie together: of step `unit / 4` of 32 columns piece `unit % 4`, columns 8t + 2
// * piece and the next, by t.
constexpr int kUnitsOfStep = 4;
constexpr int kUnitsOfBlock = kBlockSteps * kUnitsOfStep;
__device__ __forceinline__ int unit_column(int unit) {
  return unit / kUnitsOfStep * kStepRows + unit % kUnitsOfStep * 2;
}
__device__ __forceinline__ void store_unit(__half* to, int blocks, int row, int unit, uint4 v) {
  *reinterpret_cast<uint4*>(to + arranged_at(blocks, row, unit_column(unit))) = v;
}

// Rows that wait in shared memory, from each other so many halves apart that neither those who read units of
// neighbouring rows nor those who read a row meet in a bank.
constexpr int kStagedOctet = 8;
__host__ __device__ constexpr int staged_stride(int columns) {
  return columns + 8;
}

// Eight columns of a row from `column` on, a multiple of 8.
__device__ __forceinline__ void store_arranged(__half* to, int blocks, int row, int column, uint4 v) {
  auto* word = reinterpret_cast<uint32_t*>(to + arranged_at(blocks, row, column));
  word[0] = v.x;
  word[kArrangedPiece / 2] = v.y;
  word[kArrangedPiece] = v.z;
  word[3 * kArrangedPiece / 2] = v.w;
}

}  // namespace quire::kernels
