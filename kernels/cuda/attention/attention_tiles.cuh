// A chunk's keys or values as a tile of shared memory, for attention_spans.cu: f16, or the unchanged codes of
// quantized pages, which the multiplying warps unpack to f16 in registers. Four warps share a tile: each has
// 32 keys, and a quarter of the dimensions of values.
//
// Functions of a tile: copy() starts the copy of a chunk's rows, place() returns the offset of a byte of a
// row, and multiply_keys() and multiply_values() compute the products of a warp.
#pragma once

#include <utility>

#include "kernels/cuda/attention/attention_codes.cuh"
#include "kernels/cuda/attention/attention_single.cuh"

namespace quire::kernels {

constexpr int kTileWarps = 4;
constexpr int kTileSteps = kChunkTokens / kStepKeys;
constexpr int kWarpSteps = kTileSteps / kTileWarps;  // steps of a warp over its keys

// Rows of a chunk to be copied: rows before `live`; later rows are filled with zeros, because unwritten
// memory may contain NaN. With kLeavesOwn, row `own` is skipped.
template <bool kLeavesOwn>
struct CopiedRows {
  int live;
  int own;

  __device__ __forceinline__ bool has(int row) const { return !kLeavesOwn || row != own; }
  // Returns the same rows, counted from `row`.
  __device__ __forceinline__ CopiedRows from(int row) const { return {live - row, own - row}; }
};

// Copies a thread's 16-byte pieces of rows kRowsAtOnce apart, to rows of the same length. Pieces of rows in
// the second half of each 8 go to `odd`, the others to `even`. Distances are immediate operands of the
// instructions: adding addresses would be half of all instructions.
template <int kRowsAtOnce, int kRowBytes, bool kLeavesOwn>
__device__ __forceinline__ void copy_rows(const uint8_t* source, CopiedRows<kLeavesOwn> rows, uint32_t even,
                                          uint32_t odd) {
  const auto copy = [&]<int kPiece>() {
    constexpr int kRow = kPiece * kRowsAtOnce;
    if (rows.has(kRow))
      copy_async_16_at<kRow * kRowBytes>(kRow % 8 == 0 ? even : odd, source, kRow < rows.live ? 16 : 0);
  };
  const auto copy_all = [&]<int... kPieces>(std::integer_sequence<int, kPieces...>) {
    (copy.template operator()<kPieces>(), ...);
  };
  copy_all(std::make_integer_sequence<int, kChunkTokens / kRowsAtOnce>());
}

template <int HD>
struct HalfTile {
  static constexpr uint32_t kBytes = kChunkTokens * HD * 2;
  static constexpr int kRowBytes = HD * 2;
  static constexpr int kColumns = HD / 16 / kTileWarps;  // tiles of 16 dimensions

  __device__ __forceinline__ static uint32_t place(int row, int byte) {
    return tile_offset<HD>(row, byte / 16) + byte % 16;
  }
  __device__ __forceinline__ static uint32_t scale_place(int, int) { return 0; }

  // Copies with kCopyThreads threads, of which this is number `thread`; `first` is the chunk's first row in
  // the pages.
  template <int kCopyThreads, bool kLeavesOwn>
  __device__ __forceinline__ static void copy(const void* data, const void*, size_t first,
                                              CopiedRows<kLeavesOwn> rows, uint32_t tile, int thread) {
    constexpr int kPieces = HD / 8, kRowsAtOnce = kCopyThreads / kPieces;
    static_assert(kRowsAtOnce % 4 == 0);
    const int row = thread / kPieces;
    const uint8_t* from = static_cast<const uint8_t*>(data) + first * kRowBytes + thread * 16;
    const uint32_t to = tile + tile_offset<HD>(row, thread % kPieces);
    copy_rows<kRowsAtOnce, kRowBytes>(from, rows.from(row), to, to ^ 64);
  }

  // Multiplies the query rows with the warp's keys.
  __device__ __forceinline__ static void multiply_keys(uint32_t tile, int part,
                                                       const uint32_t (&queries)[HD / 16][2], int lane, int,
                                                       float (&score)[kWarpSteps][4]) {
    const uint32_t keys = tile + part * (kWarpSteps * kStepKeys * kRowBytes);
#pragma unroll
    for (int k = 0; k < HD / 16; ++k) {
#pragma unroll
      for (int n = 0; n < kWarpSteps; ++n) {
        uint32_t key[4];
        load_matrices(key, keys + tile_offset<HD>(n * 16 + (lane & 15), 2 * k + (lane >> 4)));
        if (k == 0) {
          mma_16x8x16_first(score[n], key, queries[k][0], queries[k][1]);
        } else {
          mma_16x8x16(score[n], key, queries[k][0], queries[k][1]);
        }
      }
    }
  }

  // Multiplies the weights, [step][lane] 8 bytes, with the warp's quarter of the values, and sums the
  // weights.
  __device__ __forceinline__ static void multiply_values(uint32_t tile, int part, uint32_t weights, int lane,
                                                         int, float (&out)[kColumns][4], float (&sum)[4]) {
    constexpr uint32_t ones[4] = {kOnes, kOnes, kOnes, kOnes};
    const uint32_t row = (lane & 7) + ((lane >> 4) << 3);
#pragma unroll
    for (int k = 0; k < kTileSteps; ++k) {
      const uint2 weight = load_shared_8(weights + k * 256 + lane * 8);
      mma_16x8x16(sum, ones, weight.x, weight.y);
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        uint32_t value[4];
        load_matrices_transposed(
            value, tile + tile_offset<HD>(k * 16 + row, (part * kColumns + n) * 2 + ((lane >> 3) & 1)));
        mma_16x8x16(out[n], value, weight.x, weight.y);
      }
    }
  }
  // Returns the dimension, within the warp's quarter, of a lane's out[n][2 * half..].
  __device__ __forceinline__ static int dimension(int n, int half, int lane) {
    return n * 16 + half * 8 + (lane >> 2);
  }
};

template <int HD, KvFormat kFormat>
struct CodeTile : CodeSlot<HD, kFormat, kChunkTokens> {
  using Slot = CodeSlot<HD, kFormat, kChunkTokens>;
  using Values = ValueStep<Slot, kTileWarps>;
  static constexpr int kColumns = Values::kDims / 2;

  __device__ __forceinline__ static uint32_t scale_place(int row, int block) {
    return Slot::kScalesAt + row * Slot::kScaleBytes + block * 2;
  }

  template <int kCopyThreads, bool kLeavesOwn>
  __device__ __forceinline__ static void copy(const void* data, const void* scales, size_t first,
                                              CopiedRows<kLeavesOwn> rows, uint32_t tile, int thread) {
    constexpr int kPieces = Slot::kRowBytes / 16, kRowsAtOnce = kCopyThreads / kPieces;
    static_assert(kRowsAtOnce % 8 == 0);
    const int row = thread / kPieces;
    const uint8_t* from = static_cast<const uint8_t*>(data) + first * Slot::kRowBytes + thread * 16;
    const uint32_t to = tile + Slot::place(row, thread % kPieces * 16);
    copy_rows<kRowsAtOnce, Slot::kRowBytes>(from, rows.from(row), to, to);
    const auto* first_scale = static_cast<const uint8_t*>(scales) + first * Slot::kScaleBytes;
    if constexpr (kLeavesOwn) {
#pragma unroll
      for (int i = thread; i < kChunkTokens; i += kCopyThreads) {
        if (!rows.has(i)) continue;
        const uint8_t* scale = first_scale + i * Slot::kScaleBytes;
        const int bytes = i < rows.live ? Slot::kScaleBytes : 0;
        if constexpr (Slot::kScaleBytes == 8) {
          copy_async_8(tile + scale_place(i, 0), scale, bytes);
        } else {
          static_assert(Slot::kScaleBytes == 4);
          copy_async_4(tile + scale_place(i, 0), scale, bytes);
        }
      }
    } else {
      // Scales of several rows together.
      constexpr int kBytes = kChunkTokens * Slot::kScaleBytes;
      static_assert(kBytes <= kCopyThreads * 16);
      const int at = thread * 16;
      if (at < kBytes)
        copy_async_16(tile + Slot::kScalesAt + at, first_scale + at,
                      max(0, min(16, rows.live * Slot::kScaleBytes - at)));
    }
  }

  __device__ __forceinline__ static void multiply_keys(uint32_t tile, int part,
                                                       const uint32_t (&queries)[HD / 16][2], int lane,
                                                       uint32_t upper_bytes, float (&score)[kWarpSteps][4]) {
    KeyStep<Slot> keys[kWarpSteps];
#pragma unroll
    for (int n = 0; n < kWarpSteps; ++n) keys[n].load(tile, part * kWarpSteps + n, lane);
#pragma unroll
    for (int n = 0; n < kWarpSteps; ++n)
      keys[n].multiply(queries, key_scale_pick(lane), upper_bytes, score[n]);
  }

  __device__ __forceinline__ static void multiply_values(uint32_t tile, int part, uint32_t weights, int lane,
                                                         uint32_t upper_bytes, float (&out)[kColumns][4],
                                                         float (&sum)[4]) {
    constexpr uint32_t ones[4] = {kOnes, kOnes, kOnes, kOnes};
    float of_tile[1][kColumns][4] = {};
    // Code that a multiprocessor fetches for the first time is slow, and so are loops; with 64 dimensions
    // there is half as much code, so it is unrolled.
    constexpr int kAtOnce = HD == 64 ? kTileSteps : 2;
#pragma unroll kAtOnce
    for (int k = 0; k < kTileSteps; ++k) {
      const uint2 pair = load_shared_8(weights + k * 256 + lane * 8);
      const uint32_t weight[1][2] = {{pair.x, pair.y}};
      mma_16x8x16(sum, ones, pair.x, pair.y);
      Values values;
      values.load(tile, k, lane, part);
      values.multiply(weight, upper_bytes, of_tile);
    }
#pragma unroll
    for (int i = 0; i < 4 * kColumns; ++i) out[i / 4][i % 4] = of_tile[0][i / 4][i % 4];
  }
  __device__ __forceinline__ static int dimension(int n, int half, int lane) {
    return (lane >> 2) * Values::kDims + 2 * n + half;
  }
};

template <int HD, KvFormat kFormat>
struct TileOf {
  using Type = CodeTile<HD, kFormat>;
};
template <int HD>
struct TileOf<HD, KvFormat::f16> {
  using Type = HalfTile<HD>;
};

// Row of a tile, if the tile stores it.
template <typename Tile>
struct TileRow {
  uint8_t* tile;  // or nullptr
  int row;

  __device__ __forceinline__ void put_half(int d, __half v) const {
    if (tile != nullptr) *reinterpret_cast<__half*>(tile + Tile::place(row, d * 2)) = v;
  }
  __device__ __forceinline__ void put_byte(int i, uint32_t v) const {
    if (tile != nullptr) tile[Tile::place(row, i)] = static_cast<uint8_t>(v);
  }
  __device__ __forceinline__ void put_two_bytes(int i, uint32_t v) const {
    if (tile != nullptr) *reinterpret_cast<uint16_t*>(tile + Tile::place(row, i)) = static_cast<uint16_t>(v);
  }
  __device__ __forceinline__ void put_scale(int block, __half v) const {
    if (tile != nullptr) *reinterpret_cast<__half*>(tile + Tile::scale_place(row, block)) = v;
  }
};

}  // namespace quire::kernels
