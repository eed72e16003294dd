// What chunks of keys leave in memory where several blocks share a tile of rows, and how the last of them
// merges it: in order of position.
#pragma once

#include "kernels/cuda/attention/attention.cuh"

namespace quire::kernels {

struct MergeArguments {
  int32_t max_chunks;
  int32_t tile_rows;   // rows of a tile that any sequence of the step uses
  float* partials;     // [tile][chunk][partial_floats]
  uint32_t* counters;  // [tile], zero before and after
  // Pages of each sequence that launch_attention_shared has read, or nullptr, and the chunks of a page.
  const int32_t* shared_pages;
  int32_t page_chunks;

  __device__ __forceinline__ int shared_chunks(int sequence) const {
    return shared_pages != nullptr ? shared_pages[sequence] * page_chunks : 0;
  }
};

inline MergeArguments merge_arguments(int max_chunks, int tile_rows, const AttentionScratch& scratch,
                                      const SharedKeys* shared, int page_tokens) {
  return {max_chunks,
          tile_rows,
          scratch.partials,
          scratch.counters,
          shared != nullptr ? shared->page_counts : nullptr,
          page_tokens / kChunkTokens};
}

// Floats of one chunk of one tile: rows of values, then maximum and sum of each row.
__host__ __device__ constexpr int partial_floats(int tile_rows, int dim) {
  return tile_rows * dim + (2 * tile_rows + 3) / 4 * 4;
}

class PartialRows {
 public:
  // Rows are counted from `first_row` of the tile on.
  __device__ __forceinline__ PartialRows(const MergeArguments& a, int tile, int dim, int first_row = 0)
      : chunk_floats_(partial_floats(a.tile_rows, dim)),
        rows_(a.tile_rows),
        dim_(dim),
        first_row_(first_row),
        first_(a.partials + static_cast<size_t>(tile) * a.max_chunks * chunk_floats_) {}
  __device__ __forceinline__ float* row(int chunk, int row) const {
    return at(chunk) + (first_row_ + row) * dim_;
  }
  __device__ __forceinline__ float2* total(int chunk, int row) const {
    return reinterpret_cast<float2*>(at(chunk) + rows_ * dim_) + first_row_ + row;
  }
  __device__ __forceinline__ size_t chunk_floats() const { return static_cast<size_t>(chunk_floats_); }

 private:
  __device__ __forceinline__ float* at(int chunk) const {
    return first_ + static_cast<size_t>(chunk) * chunk_floats_;
  }

  int chunk_floats_;
  int rows_;
  int dim_;
  int first_row_;
  float* first_;
};

// Whether this block is the last of `num_chunks` at its tile; what the others wrote can be read then. All
// threads.
__device__ __forceinline__ bool arrives_last(const MergeArguments& a, int tile, int num_blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(a.counters + tile, 1U) == static_cast<uint32_t>(num_blocks) - 1;
    if (last) a.counters[tile] = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// Blocks that merge have so many warps, each of which takes rows by itself.
constexpr int kMergeWarps = 4;

// What a merge takes of shared memory: the merged rows, and for each warp some chunks of a row on their way.
__host__ __device__ constexpr uint32_t merge_shared_bytes(int dim, int slots) {
  return static_cast<uint32_t>((kTileRows + kMergeWarps * slots) * dim) * 4;
}
constexpr int kFewestMergeSlots = 8;
// So many chunks as there is room for.
__host__ __device__ constexpr int merge_slots(uint32_t shared_bytes, int dim) {
  return merge_shared_bytes(dim, 32) <= shared_bytes   ? 32
         : merge_shared_bytes(dim, 16) <= shared_bytes ? 16
                                                       : kFewestMergeSlots;
}
// Shared memory of a kernel that has `used` of it before it merges.
__host__ __device__ constexpr uint32_t bytes_with_merge(uint32_t used, int dim) {
  const uint32_t merge = merge_shared_bytes(dim, kFewestMergeSlots);
  return used > merge ? used : merge;
}

// The order of columns in partial rows where it is that of the head.
struct ColumnsInOrder {
  __device__ __forceinline__ static int dimension(int column) { return column; }
};

// Columns of a partial row, so that lanes that write four each write a run: those of lane g from 4g + 32q on
// are its dimensions 4q..
template <int HD>
struct ColumnsOfLanes {
  __device__ __forceinline__ static int dimension(int column) {
    return column % 32 / 4 * (HD / 8) + column / 32 * 4;
  }
};

// Columns of a row that a lane takes: kPieces times kWidth that lie together.
template <int HD>
struct LaneColumns {
  static constexpr int kWidth = HD < 128 ? HD / 32 : 4;
  static constexpr int kPieces = HD / 32 / kWidth;
  __device__ __forceinline__ static int first(int piece, int lane) { return (piece * 32 + lane) * kWidth; }
};

// A row's chunks on their way from memory, for one warp. A lane reads what it has asked for itself, so none
// waits for another.
template <int HD, int kSlots>
class ChunkRing {
 public:
  using L = LaneColumns<HD>;
  static constexpr int kBatch = kSlots / 4;  // chunks asked for at a time

  __device__ __forceinline__ ChunkRing(const PartialRows& partial, int num_chunks, int row, uint32_t slots,
                                       int lane)
      : from_(partial.row(0, row)),
        chunk_floats_(partial.chunk_floats()),
        num_chunks_(num_chunks),
        slots_(slots),
        lane_(lane) {
#pragma unroll 1
    for (int first = 0; first < kSlots; first += kBatch) ask(first);
  }
  // The batch that begins with this chunk; nothing after the last.
  __device__ __forceinline__ void ask(int first) const {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first + i >= num_chunks_) break;
      const float* chunk = from_ + (first + i) * chunk_floats_;
#pragma unroll
      for (int piece = 0; piece < L::kPieces; ++piece) {
        const int column = L::first(piece, lane_);
        const uint32_t to = place(first + i, column);
        if constexpr (L::kWidth == 4) copy_async_16(to, chunk + column);
        if constexpr (L::kWidth == 2) copy_async_8(to, chunk + column);
      }
    }
    commit_copies();
  }
  // The oldest batch is there.
  __device__ __forceinline__ static void wait() {
    wait_for_copies<kSlots / kBatch - 1>();
  }
  __device__ __forceinline__ void read(int chunk, float (&to)[HD / 32]) const {
#pragma unroll
    for (int piece = 0; piece < L::kPieces; ++piece) {
      const uint32_t at = place(chunk, L::first(piece, lane_));
      if constexpr (L::kWidth == 4) {
        const uint4 v = load_shared_16(at);
        to[4 * piece] = __uint_as_float(v.x);
        to[4 * piece + 1] = __uint_as_float(v.y);
        to[4 * piece + 2] = __uint_as_float(v.z);
        to[4 * piece + 3] = __uint_as_float(v.w);
      } else {
        const uint2 v = load_shared_8(at);
        to[0] = __uint_as_float(v.x);
        to[1] = __uint_as_float(v.y);
      }
    }
  }

 private:
  __device__ __forceinline__ uint32_t place(int chunk, int column) const {
    return slots_ + static_cast<uint32_t>(chunk % kSlots * HD + column) * 4;
  }

  const float* from_;
  size_t chunk_floats_;
  int num_chunks_;
  uint32_t slots_;
  int lane_;
};

// One row by one warp: its chunks in order of position, divided by the sum of all. Maxima and sums of 32
// chunks are turned into their factors at a time; the bits are those of merge_factors and merged, chunk after
// chunk.
template <int HD, int kSlots, typename Columns>
__device__ __forceinline__ void merge_row(const PartialRows& partial, int num_chunks, int row, uint32_t slots,
                                          float* merged_row) {
  using L = LaneColumns<HD>;
  using Ring = ChunkRing<HD, kSlots>;
  const int lane = threadIdx.x & 31;
  const auto total = [&](int chunk) {
    return chunk < num_chunks ? __ldcg(partial.total(chunk, row)) : make_float2(-INFINITY, 0.0f);
  };
  float2 next = total(lane);
  const Ring ring(partial, num_chunks, row, slots, lane);
  float largest = -INFINITY, sum = 0.0f, values[HD / 32] = {};
#pragma unroll 1
  for (int first = 0; first < num_chunks; first += 32) {
    const float2 chunk = next;
    next = total(first + 32 + lane);
    float upto = fmaxf(largest, chunk.x);  // maximum of all up to the lane's chunk
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      const float other = __shfl_up_sync(0xffffffffU, upto, d);
      if (lane >= d) upto = fmaxf(upto, other);
    }
    float before = __shfl_up_sync(0xffffffffU, upto, 1);
    if (lane == 0) before = largest;
    float old_factor, new_factor;
    merge_factors(before, chunk.x, old_factor, new_factor);
    largest = __shfl_sync(0xffffffffU, upto, 31);
#pragma unroll 1
    for (int batch = 0; batch < 32 && first + batch < num_chunks; batch += Ring::kBatch) {
      Ring::wait();
#pragma unroll
      for (int i = 0; i < Ring::kBatch; ++i) {
        const int at = batch + i;
        if (first + at >= num_chunks) break;
        const float old_share = __shfl_sync(0xffffffffU, old_factor, at);
        const float new_share = __shfl_sync(0xffffffffU, new_factor, at);
        sum = merged(sum, old_share, __shfl_sync(0xffffffffU, chunk.y, at), new_share);
        float x[HD / 32];
        ring.read(first + at, x);
#pragma unroll
        for (int j = 0; j < HD / 32; ++j) values[j] = merged(values[j], old_share, x[j], new_share);
      }
      ring.ask(first + batch + kSlots);
    }
  }
  const float share = 1.0f / sum;
#pragma unroll
  for (int piece = 0; piece < L::kPieces; ++piece) {
    const int column = L::first(piece, lane);
    float* to = merged_row + Columns::dimension(column / 4 * 4) + column % 4;
#pragma unroll
    for (int j = 0; j < L::kWidth; ++j) to[j] = __fmul_rn(values[piece * L::kWidth + j], share);
  }
}

// Rows of HD floats in shared memory, which may have anything in it: the chunks of a tile merged. Takes
// merge_shared_bytes(HD, kSlots). Columns::dimension says where four columns that lie together belong. One
// block alone reads all that a tile has left, beside others that read pages: its loads are many at a time,
// and its code is little.
template <int HD, int kSlots, typename Columns = ColumnsInOrder>
__device__ __forceinline__ float* merge_chunks(const PartialRows& partial, int num_chunks, int rows,
                                               uint8_t* shared) {
  float* merged_rows = reinterpret_cast<float*>(shared);  // [16][HD]
  const int warp = threadIdx.x >> 5;
  const uint32_t slots = shared_address(shared) + static_cast<uint32_t>((kTileRows + warp * kSlots) * HD) * 4;
#pragma unroll 1
  for (int row = warp; row < rows; row += kMergeWarps)
    merge_row<HD, kSlots, Columns>(partial, num_chunks, row, slots, merged_rows + row * HD);
  return merged_rows;
}

// Rows `rows` of HD floats in shared memory -> output, divided by nothing more; transforms back where needed.
template <int HD, int kThreads>
__device__ __forceinline__ void store_rows(const AttentionParams& p, const int32_t* place, const QueryRows& q,
                                           int first_row, int rows, float* values) {
  if (is_quantized(p.kv_shape.value_format)) {
    __syncthreads();
    for (int row = threadIdx.x / 32; row < rows; row += kThreads / 32)
      hadamard_warp(values + row * HD, HD, threadIdx.x & 31);
  }
  __syncthreads();
  const float back = is_quantized(p.kv_shape.value_format) ? 0.03125f : 1.0f;
  const size_t stride = static_cast<size_t>(p.heads.num_heads) * q.head_dim;
  auto* output = static_cast<__half*>(p.output);
  for (int row = threadIdx.x / 32; row < rows; row += kThreads / 32) {
    const size_t to = q.token(first_row + row) * stride;
    const int first_column = q.head(first_row + row) * q.head_dim;
    for (int d = threadIdx.x & 31; d < q.head_dim; d += 32) {
      const int column = first_column + d;
      output[to + (place != nullptr ? place[column] : column)] = __float2half_rn(values[row * HD + d] * back);
    }
  }
}

}  // namespace quire::kernels
