// Small kernels around the products of experts (MoE). Latency-bound: none reads more than the rows of a step.
#include <algorithm>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/experts/experts.h"
#include "kernels/cuda/experts/route.cuh"
#include "kernels/cuda/pointwise/arranged.cuh"

namespace quire::kernels {
namespace {

constexpr int kRouteWarps = 2;  // one row per warp: three tables of 1,024 floats fit the default shared
                                // memory
constexpr int kSortThreads = 1024;
constexpr int kThreads = 256;
static_assert(kMaxExperts <= kSortThreads);

// Supports up to 32 * kEach experts.
template <int kEach>
__global__ void __launch_bounds__(32 * kRouteWarps) route_kernel(const __grid_constant__ RouteParams p) {
  extern __shared__ float tables[];
  release_successor();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int row = blockIdx.x * kRouteWarps + warp;
  wait_for_predecessor();
  if (row >= p.rows) return;
  float* logits = tables + warp * route_floats(p.num_experts);
  const float* from = p.logits + static_cast<size_t>(row) * p.num_experts;
  for (int e = lane; e < p.num_experts; e += 32) logits[e] = from[e];
  __syncwarp();
  route_row<kEach>(p, row, logits, lane);
}

// Sorts rows with one block: counts the rows of each expert, finds where its tiles begin, and assigns rows to
// slots.
__global__ void __launch_bounds__(kSortThreads)
    sort_rows_kernel(const int32_t* expert_of_row, int rows, int num_experts, ExpertTiles tiles) {
  __shared__ int counts[kMaxExperts];
  __shared__ int firsts[kMaxExperts];  // first slot of each expert
  __shared__ int sums[32];
  release_successor();
  const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
  counts[thread] = 0;
  wait_for_predecessor();
  __syncthreads();
  for (int r = thread; r < rows; r += kSortThreads) {
    const int expert = expert_of_row[r];
    if (expert >= 0 && expert < num_experts) atomicAdd(&counts[expert], 1);
  }
  __syncthreads();
  const int count = counts[thread];
  const int own = (count + tiles.tile_rows - 1) / tiles.tile_rows;
  int before = own;
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    const int other = __shfl_up_sync(kAllLanes, before, d);
    if (lane >= d) before += other;
  }
  if (lane == 31) sums[warp] = before;
  __syncthreads();
  int all = 0;
  for (int w = 0; w < 32; ++w) {
    if (w < warp) before += sums[w];
    all += sums[w];
  }
  const int first_tile = before - own;
  firsts[thread] = first_tile * tiles.tile_rows;
  for (int i = 0; i < own; ++i) tiles.experts[first_tile + i] = thread;
  for (int i = count; i < own * tiles.tile_rows; ++i)
    tiles.rows_of_slots[first_tile * tiles.tile_rows + i] = -1;
  for (int i = all + thread; i < tiles.num_tiles; i += kSortThreads) tiles.experts[i] = -1;
  counts[thread] = 0;
  __syncthreads();
  for (int r = thread; r < rows; r += kSortThreads) {
    const int expert = expert_of_row[r];
    if (expert >= 0 && expert < num_experts)
      tiles.rows_of_slots[firsts[expert] + atomicAdd(&counts[expert], 1)] = r;
  }
}

// One block handles some slots of a tile. It first copies their rows to shared memory if they fit: scattered
// single elements cost a memory sector each. A thread reads an entry of the expert's row order once for all
// slots.
constexpr int kMaxSlotsOfBlock = 8;
constexpr int kMaxStagedBytes = 47 << 10;  // shared memory that a kernel has by default

__device__ __forceinline__ void stage_expert_row(const ExpertGather& g, const __half* from, int thread,
                                                 int threads, __half* staged) {
  if (g.columns % 8 == 0) {
#pragma unroll 4
    for (int c = thread * 8; c < g.columns; c += threads * 8)
      *reinterpret_cast<uint4*>(staged + c) = *reinterpret_cast<const uint4*>(from + c);
  } else {
    for (int c = thread; c < g.columns; c += threads) staged[c] = from[c];
  }
}

__global__ void __launch_bounds__(kThreads)
    gather_experts_kernel(const __grid_constant__ ExpertGather g, const __grid_constant__ ExpertTiles tiles,
                          int slots, int staged_bytes) {
  extern __shared__ __align__(16) __half staged_rows[];
  release_successor();
  wait_for_predecessor();
  const int first = static_cast<int>(blockIdx.x) * slots, expert = tiles.experts[first / tiles.tile_rows];
  if (expert < 0) return;
  const int32_t* order = g.records[static_cast<size_t>(expert) * g.record_stride].row_order;
  const int32_t* rows = tiles.rows_of_slots + first;
  const auto input_row = [&](int row) {
    return g.input + static_cast<size_t>(row / g.rows_per_input) * g.columns;
  };
  const int stride = staged_stride(g.columns);
  if (staged_bytes > 0) {
    const int threads = kThreads / slots, slot = threadIdx.x / threads, row = rows[slot];
    if (row >= 0)
      stage_expert_row(g, input_row(row), threadIdx.x % threads, threads, staged_rows + slot * stride);
    __syncthreads();
  }
  for (int k = threadIdx.x * 8; k < g.stride; k += kThreads * 8) {
    int from[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) from[i] = order != nullptr && k + i < g.columns ? order[k + i] : k + i;
#pragma unroll 2
    for (int slot = 0; slot < slots; ++slot) {
      const int row = rows[slot];
      if (row < 0) break;  // the slots of a tile are filled from the first on
      const __half* numbers = staged_bytes > 0 ? staged_rows + slot * stride : input_row(row);
      const float factor = g.input_scale != nullptr ? g.input_scale[row] : 1.0f;
      __half2 pairs[4];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        __half v = k + i < g.columns ? numbers[from[i]] : __float2half(0.0f);
        if (g.input_scale != nullptr) v = __float2half_rn(__half2float(v) * factor);
        (i % 2 == 0 ? pairs[i / 2].x : pairs[i / 2].y) = v;
      }
      *reinterpret_cast<uint4*>(g.target + static_cast<size_t>(first + slot) * g.stride + k) =
          make_uint4(bits_of(pairs[0]), bits_of(pairs[1]), bits_of(pairs[2]), bits_of(pairs[3]));
    }
  }
}

__global__ void __launch_bounds__(kThreads) combine_kernel(const __grid_constant__ CombineParams p) {
  release_successor();
  wait_for_predecessor();
  const size_t token = blockIdx.y, columns = p.columns;
  const size_t stride = p.target_stride != 0 ? p.target_stride : p.columns;
  const auto* rows = static_cast<const __half*>(p.input) + token * p.num_chosen * columns;
  const float* weights = p.weights != nullptr ? p.weights + token * p.num_chosen : nullptr;
  for (int c = blockIdx.x * kThreads + threadIdx.x; c < p.columns; c += gridDim.x * kThreads) {
    float sum = 0.0f;
    for (int i = 0; i < p.num_chosen; ++i)
      sum = __fmaf_rn(weights != nullptr ? weights[i] : 1.0f, __half2float(rows[i * columns + c]), sum);
    float& target = p.target[token * stride + c];
    target = p.adds ? target + sum : sum;
  }
}

}  // namespace

cudaError_t launch_route(const RouteParams& p, Launch l) {
  const size_t bytes = static_cast<size_t>(kRouteWarps * route_floats(p.num_experts)) * sizeof(float);
  const auto kernel = p.num_experts <= 128   ? route_kernel<4>
                      : p.num_experts <= 256 ? route_kernel<8>
                                             : route_kernel<kMaxExperts / 32>;
  return launch_kernel(kernel, dim3(static_cast<unsigned>((p.rows + kRouteWarps - 1) / kRouteWarps)),
                       dim3(32 * kRouteWarps), bytes, l.stream, l.dependent, p);
}

cudaError_t launch_combine(const CombineParams& p, Launch l) {
  const dim3 grid(static_cast<unsigned>((p.columns + kThreads - 1) / kThreads),
                  static_cast<unsigned>(p.tokens));
  return launch_kernel(combine_kernel, grid, dim3(kThreads), 0, l.stream, l.dependent, p);
}

cudaError_t launch_sort_rows(const int32_t* expert_of_row, int rows, int num_experts,
                             const ExpertTiles& tiles, Launch l) {
  return launch_kernel(sort_rows_kernel, dim3(1), dim3(kSortThreads), 0, l.stream, l.dependent, expert_of_row,
                       rows, num_experts, tiles);
}

cudaError_t launch_gather_experts(const ExpertGather& g, const ExpertTiles& tiles, Launch l) {
  const int row_bytes = staged_stride(g.columns) * static_cast<int>(sizeof(__half));
  int slots = std::min(kMaxSlotsOfBlock, tiles.tile_rows);
  while (slots > 1 && slots * row_bytes > kMaxStagedBytes) slots /= 2;
  const int staged = slots * row_bytes <= kMaxStagedBytes ? slots * row_bytes : 0;
  return launch_kernel(gather_experts_kernel,
                       dim3(static_cast<unsigned>(tiles.num_tiles * tiles.tile_rows / slots)), dim3(kThreads),
                       static_cast<size_t>(staged), l.stream, l.dependent, g, tiles, slots, staged);
}

cudaError_t setup_experts() {
  return load_kernels(route_kernel<4>, route_kernel<8>, route_kernel<kMaxExperts / 32>, sort_rows_kernel,
                      gather_experts_kernel, combine_kernel);
}

}  // namespace quire::kernels
