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

// Turns maxima and sums of `count` chunks of one row into the factors that they are merged with; `m` and `l`
// are what was seen before, and after. One warp; the bits are those of merge_factors and merged, chunk after
// chunk.
__device__ __forceinline__ void factors_of_row(float2* factors, int count, int lane, float& m, float& l) {
#pragma unroll 1
  for (int first = 0; first < count; first += 32) {
    const int c = first + lane;
    const float2 chunk = c < count ? factors[c * kTileRows] : make_float2(-INFINITY, 0.0f);
    float upto = fmaxf(m, chunk.x);  // maximum of all up to this one
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      const float other = __shfl_up_sync(0xffffffffU, upto, d);
      if (lane >= d) upto = fmaxf(upto, other);
    }
    float before = __shfl_up_sync(0xffffffffU, upto, 1);
    if (lane == 0) before = m;
    float2 f;
    merge_factors(before, chunk.x, f.x, f.y);
#pragma unroll 8
    for (int i = 0; i < 32; ++i) {
      if (first + i >= count) break;
      l = merged(l, __shfl_sync(0xffffffffU, f.x, i), __shfl_sync(0xffffffffU, chunk.y, i),
                 __shfl_sync(0xffffffffU, f.y, i));
    }
    m = __shfl_sync(0xffffffffU, upto, 31);
    if (c < count) factors[c * kTileRows] = f;
  }
}

constexpr int kHeldChunks = 128;  // whose factors are at hand

__host__ __device__ constexpr uint32_t merge_shared_bytes(int dim) {
  return kTileRows * (dim * sizeof(float) + kHeldChunks * sizeof(float2));
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

// Rows of HD floats in shared memory: the chunks of a tile merged and divided by their sums. Takes
// merge_shared_bytes(HD) of `shared`. Columns::dimension says where four columns that lie together belong.
template <int HD, int kThreads, typename Columns = ColumnsInOrder, int kLoadsAhead = 8>
__device__ __forceinline__ float* merge_chunks(const PartialRows& partial, int num_chunks, int rows,
                                               uint8_t* shared) {
  __shared__ float2 seen[kTileRows];                      // maximum and sum of a row so far
  float* merged_rows = reinterpret_cast<float*>(shared);  // [16][HD]
  auto* factors = reinterpret_cast<float2*>(shared + kTileRows * HD * sizeof(float));  // [chunk][16]
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
#pragma unroll 1
  for (int block = 0; block < num_chunks; block += kHeldChunks) {
    const int count = min(kHeldChunks, num_chunks - block);
    constexpr int kAtOnce = kThreads / kTileRows, kAhead = 8;  // chunks: of all threads, of one
    const int row_of_thread = threadIdx.x % kTileRows;
#pragma unroll 1
    for (int c = threadIdx.x / kTileRows; c < count && row_of_thread < rows; c += kAtOnce * kAhead) {
      float2 totals[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (c + k * kAtOnce < count)
          totals[k] = __ldcg(partial.total(block + c + k * kAtOnce, row_of_thread));
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (c + k * kAtOnce < count) factors[(c + k * kAtOnce) * kTileRows + row_of_thread] = totals[k];
    }
    __syncthreads();
#pragma unroll 1
    for (int row = warp; row < rows; row += kThreads / 32) {
      float largest = block == 0 ? -INFINITY : seen[row].x, sum = block == 0 ? 0.0f : seen[row].y;
      factors_of_row(factors + row, count, lane, largest, sum);
      __syncwarp();
      if (lane == 0) seen[row] = make_float2(largest, sum);
    }
    __syncthreads();
    const bool ends = block + kHeldChunks >= num_chunks;
#pragma unroll 1
    for (int i = threadIdx.x * 4; i < rows * HD; i += kThreads * 4) {
      const int row = i / HD;
      const float* from = partial.row(block, 0) + i;
      auto* to = reinterpret_cast<float4*>(merged_rows + row * HD + Columns::dimension(i % HD));
      float4 v = block == 0 ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : *to;
#pragma unroll kLoadsAhead
      for (int c = 0; c < count; ++c) {
        const float2 f = factors[c * kTileRows + row];
        const float4 x = __ldcg(reinterpret_cast<const float4*>(from + c * partial.chunk_floats()));
        v.x = merged(v.x, f.x, x.x, f.y);
        v.y = merged(v.y, f.x, x.y, f.y);
        v.z = merged(v.z, f.x, x.z, f.y);
        v.w = merged(v.w, f.x, x.w, f.y);
      }
      if (ends) {
        const float share = 1.0f / seen[row].y;
        v = make_float4(__fmul_rn(v.x, share), __fmul_rn(v.y, share), __fmul_rn(v.z, share),
                        __fmul_rn(v.w, share));
      }
      *to = v;
    }
    __syncthreads();
  }
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
