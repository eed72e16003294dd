// What chunks of keys leave in memory where several blocks share a tile of rows, and how the last of them
// merges it: in order of position.
#pragma once

#include "kernels/cuda/attention.cuh"

namespace quire::kernels {

struct MergeArguments {
  int32_t max_chunks;
  int32_t tile_rows;   // rows of a tile that any sequence of the step uses
  float* partials;     // [tile][chunk][partial_floats]
  uint32_t* counters;  // [tile], zero before and after
};

// Floats of one chunk of one tile: rows of values, then maximum and sum of each row.
__host__ __device__ constexpr int partial_floats(int tile_rows, int dim) {
  return tile_rows * dim + (2 * tile_rows + 3) / 4 * 4;
}

class PartialRows {
 public:
  __device__ __forceinline__ PartialRows(const MergeArguments& a, int tile, int dim)
      : chunk_floats_(partial_floats(a.tile_rows, dim)),
        rows_(a.tile_rows),
        dim_(dim),
        first_(a.partials + static_cast<size_t>(tile) * a.max_chunks * chunk_floats_) {}
  __device__ __forceinline__ float* row(int chunk, int row) const {
    return first_ + static_cast<size_t>(chunk) * chunk_floats_ + row * dim_;
  }
  __device__ __forceinline__ float2* total(int chunk, int row) const {
    return reinterpret_cast<float2*>(this->row(chunk, rows_)) + row;
  }
  __device__ __forceinline__ size_t chunk_floats() const { return static_cast<size_t>(chunk_floats_); }

 private:
  int chunk_floats_;
  int rows_;
  int dim_;
  float* first_;
};

// Whether this block is the last of `num_chunks` at its tile; what the others wrote can be read then. All
// threads.
__device__ __forceinline__ bool arrives_last(const MergeArguments& a, int tile, int num_chunks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(a.counters + tile, 1U) == static_cast<uint32_t>(num_chunks) - 1;
    if (last) a.counters[tile] = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// Rows of HD floats in shared memory: the chunks of a tile merged and divided by their sums. Takes 16 * HD
// floats and 8 KB of `shared`.
template <int HD, int kThreads>
__device__ __forceinline__ float* merge_chunks(const PartialRows& partial, int num_chunks, int rows,
                                               uint8_t* shared) {
  constexpr int kHeldChunks = 64;  // whose factors are at hand
  __shared__ float sums[kTileRows];
  float* merged_rows = reinterpret_cast<float*>(shared);                               // [16][HD]
  auto* factors = reinterpret_cast<float2*>(shared + kTileRows * HD * sizeof(float));  // [chunk][16]
  float m = -INFINITY, l = 0.0f;                                                       // of row threadIdx.x
#pragma unroll 1
  for (int block = 0; block < num_chunks; block += kHeldChunks) {
    const int count = min(kHeldChunks, num_chunks - block);
#pragma unroll 1
    for (int i = threadIdx.x; i < count * kTileRows; i += kThreads)
      if (i % kTileRows < rows) factors[i] = __ldcg(partial.total(block + i / kTileRows, i % kTileRows));
    __syncthreads();
    if (threadIdx.x < rows) {
#pragma unroll 1
      for (int c = 0; c < count; ++c) {
        const float2 chunk_total = factors[c * kTileRows + threadIdx.x];
        float2 f;
        merge_factors(m, chunk_total.x, f.x, f.y);
        l = merged(l, f.x, chunk_total.y, f.y);
        factors[c * kTileRows + threadIdx.x] = f;
      }
      sums[threadIdx.x] = l;
    }
    __syncthreads();
    const bool ends = block + kHeldChunks >= num_chunks;
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * HD; i += kThreads) {
      const int row = i / HD;
      const float* from = partial.row(block, 0) + i;
      float v = block == 0 ? 0.0f : merged_rows[i];
#pragma unroll 8
      for (int c = 0; c < count; ++c) {
        const float2 f = factors[c * kTileRows + row];
        v = merged(v, f.x, __ldcg(from + c * partial.chunk_floats()), f.y);
      }
      merged_rows[i] = ends ? __fmul_rn(v, 1.0f / sums[row]) : v;
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
      hadamard_32(values + row * HD, HD, threadIdx.x & 31, 32, [] { __syncwarp(); });
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
