// Small kernels around the products of experts. Latency-bound: none reads more than the rows of a step.
#include <algorithm>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/experts/experts.h"
#include "kernels/cuda/pointwise/arranged.cuh"

namespace quire::kernels {
namespace {

constexpr unsigned kAll = 0xffffffffU;
constexpr int kRouteWarps = 2;  // a row each: three tables of 1,024 numbers fit without asking for more
constexpr int kSortThreads = 1024;
constexpr int kThreads = 256;
static_assert(kMaxExperts <= kSortThreads);

__device__ __forceinline__ float hidden_score() {
  return __int_as_float(0xff800000);  // minus infinity
}

// Whole numbers in the order of the scores, of which NaN is the least.
__device__ __forceinline__ uint32_t rank_of(float score) {
  const uint32_t bits = __float_as_uint(score + 0.0f);  // there is one zero
  if (isnan(score)) return 0;
  return bits ^ ((bits >> 31) != 0 ? 0xffffffffU : 0x80000000U);
}

// Numbers that a lane has of all experts: of lane, lane + 32 and so on.
template <int kEach>
struct LaneScores {
  float score[kEach];
  uint32_t rank[kEach];

  // Those of experts that are not there are never the best.
  __device__ __forceinline__ LaneScores(const float* scores, const float* choice, int count, int lane) {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int e = lane + 32 * k;
      score[k] = e < count ? scores[e] : 0.0f;
      rank[k] = e < count ? rank_of(choice[e]) : 0;
    }
  }
  // Takes the best, of equal ones the first, and gives its number and its score.
  __device__ __forceinline__ int take_best(int lane, float& of_best) {
    uint32_t most = rank[0];
    int at = 0;
    float own = score[0];
#pragma unroll
    for (int k = 1; k < kEach; ++k) {
      if (rank[k] <= most) continue;
      most = rank[k];
      at = k;
      own = score[k];
    }
    const uint32_t all = __reduce_max_sync(kAll, most);
    const auto number = static_cast<uint32_t>(lane + 32 * at);
    const auto best = static_cast<int>(__reduce_min_sync(kAll, most == all ? number : 0xffffffffU));
    of_best = __shfl_sync(kAll, own, best & 31);
#pragma unroll
    for (int k = 0; k < kEach; ++k)
      if (lane + 32 * k == best) rank[k] = rank_of(hidden_score());
    return best;
  }
};

// A score and where it stands; of equal scores the first is better.
struct Best {
  float score;
  int at;
  __device__ __forceinline__ void take(float other, int other_at) {
    if (other > score || (other == score && other_at < at)) {
      score = other;
      at = other_at;
    }
  }
};

__device__ __forceinline__ Best best_of(const float* scores, int count, int lane) {
  Best best = {hidden_score(), kMaxExperts};
  for (int i = lane; i < count; i += 32) best.take(scores[i], i);
#pragma unroll
  for (int d = 16; d > 0; d >>= 1)
    best.take(__shfl_xor_sync(kAll, best.score, d), __shfl_xor_sync(kAll, best.at, d));
  if (best.at == kMaxExperts) best.at = 0;  // NaN everywhere
  return best;
}

__device__ __forceinline__ float sum_of_lanes(float v) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(kAll, v, d);
  return v;
}

// scores = softmax(logits).
__device__ __forceinline__ void soften(const float* logits, int count, float* scores, int lane) {
  const float largest = best_of(logits, count, lane).score;
  float sum = 0.0f;
  for (int i = lane; i < count; i += 32) sum += scores[i] = expf(logits[i] - largest);
  sum = sum_of_lanes(sum);
  for (int i = lane; i < count; i += 32) scores[i] /= sum;
  __syncwarp();
}

// What a group counts: its best expert, or its two best together.
__device__ __forceinline__ float group_score(const float* scores, int size, bool by_two) {
  Best first = {hidden_score(), 0};
  for (int i = 0; i < size; ++i)
    if (scores[i] > first.score) first = {scores[i], i};
  if (!by_two || size < 2) return first.score;
  float second = hidden_score();
  for (int i = 0; i < size; ++i)
    if (i != first.at) second = fmaxf(second, scores[i]);
  return first.score + second;
}

__device__ __forceinline__ void hide_other_groups(const RouterSpec& p, float* choice, float* groups,
                                                  int lane) {
  const int size = p.num_experts / p.num_groups;
  for (int g = lane; g < p.num_groups; g += 32)
    groups[g] = group_score(choice + g * size, size, p.group_by_two);
  __syncwarp();
  for (int i = 0; i < p.chosen_groups; ++i) {
    const int best = best_of(groups, p.num_groups, lane).at;
    __syncwarp();
    if (lane == 0) groups[best] = __int_as_float(0x7fc00000);  // kept: told by NaN
    __syncwarp();
  }
  for (int e = lane; e < p.num_experts; e += 32)
    if (!isnan(groups[e / size])) choice[e] = hidden_score();
  __syncwarp();
}

// One warp a row; tables are of this warp.
struct RouteRow {
  const RouteParams& p;
  float* logits;
  float* scores;
  float* choice;
  int32_t* experts;  // out
  float* weights;
  int lane;

  __device__ __forceinline__ void choose_mixed() const {
    for (int i = 0; i < p.num_chosen; ++i) {
      const Best best = best_of(choice, p.num_experts, lane);
      float sum = 0.0f;
      for (int e = lane; e < p.num_experts; e += 32) {
        const float size = fmaxf(fabsf(logits[e]), best.score);
        const bool is_near = !((best.score - logits[e]) / size > 2.0f * p.jitter);
        if (choice[e] != hidden_score() && is_near) sum += expf(choice[e] - best.score);
      }
      sum = sum_of_lanes(sum);
      __syncwarp();
      if (lane == 0) {
        experts[i] = best.at;
        weights[i] = 1.0f / sum;
        choice[best.at] = hidden_score();
      }
      __syncwarp();
    }
  }
  template <int kEach>
  __device__ __forceinline__ void choose() const {
    LaneScores<kEach> all(scores, choice, p.num_experts, lane);
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < p.num_chosen; ++i) {
      float score;
      const int best = all.take_best(lane, score);
      if (lane != 0) continue;
      experts[i] = best;
      logits[i] = score;  // those that stood there are in scores
    }
    __syncwarp();
  }
  // Of those that `logits` begins with now.
  __device__ __forceinline__ void weigh() const {
    const int chosen = p.num_chosen;
    if (p.score == RouterScore::softmax_of_chosen) soften(logits, chosen, logits, lane);
    float sum = 0.0f;
#pragma unroll 8
    for (int i = 0; i < chosen; ++i) sum += logits[i];
    const float divisor = p.normalised ? fmaxf(sum, p.least_sum) : 1.0f;
    for (int i = lane; i < chosen; i += 32) {
      float weight = logits[i] / divisor * p.scale;
      if (p.expert_scale != nullptr) weight *= p.expert_scale[experts[i]];
      weights[i] = weight;
    }
  }
};

// Of up to 32 * kEach experts.
template <int kEach>
__global__ void __launch_bounds__(32 * kRouteWarps) route_kernel(const __grid_constant__ RouteParams p) {
  extern __shared__ float tables[];
  release_successor();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int row = blockIdx.x * kRouteWarps + warp;
  wait_for_predecessor();
  if (row >= p.rows) return;
  float* logits = tables + warp * 3 * p.num_experts;
  float* scores = logits + p.num_experts;
  float* choice = scores + p.num_experts;
  const float* from = p.logits + static_cast<size_t>(row) * p.num_experts;
  for (int e = lane; e < p.num_experts; e += 32) logits[e] = from[e];
  __syncwarp();
  const size_t at = static_cast<size_t>(row) * p.num_chosen;
  const RouteRow work = {p, logits, scores, choice, p.experts + at, p.weights + at, lane};
  if (p.score == RouterScore::softmax) soften(logits, p.num_experts, scores, lane);
  for (int e = lane; e < p.num_experts; e += 32) {
    if (p.score == RouterScore::sigmoid) scores[e] = 1.0f / (1.0f + expf(-logits[e]));
    if (p.score == RouterScore::softmax_of_chosen || p.score == RouterScore::sparse_mixer)
      scores[e] = logits[e];
    choice[e] = scores[e] + (p.choice_bias != nullptr ? p.choice_bias[e] : 0.0f);
  }
  __syncwarp();
  if (p.score == RouterScore::sparse_mixer) return work.choose_mixed();
  if (p.num_groups > 1) hide_other_groups(p, choice, logits, lane);
  work.template choose<kEach>();
  work.weigh();
}

// By one block: counts, where each expert's tiles begin, and the rows to their places.
__global__ void __launch_bounds__(kSortThreads)
    sort_rows_kernel(const int32_t* expert_of_row, int rows, int num_experts, ExpertTiles tiles) {
  __shared__ int counts[kMaxExperts];
  __shared__ int firsts[kMaxExperts];  // slots
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
    const int other = __shfl_up_sync(kAll, before, d);
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

// A block for some slots of a tile, whose rows come into shared memory first where they fit there: single
// numbers from anywhere cost a sector each. What a thread finds in the expert's order is that of all of them.
constexpr int kMostSlotsOfBlock = 8;
constexpr int kMostStagedBytes = 47 << 10;  // what a kernel may have without asking

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
      if (row < 0) break;  // slots of a tile are taken from the first on
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
  const auto* rows = static_cast<const __half*>(p.input) + token * p.num_chosen * columns;
  const float* weights = p.weights != nullptr ? p.weights + token * p.num_chosen : nullptr;
  for (int c = blockIdx.x * kThreads + threadIdx.x; c < p.columns; c += gridDim.x * kThreads) {
    float sum = 0.0f;
    for (int i = 0; i < p.num_chosen; ++i)
      sum = __fmaf_rn(weights != nullptr ? weights[i] : 1.0f, __half2float(rows[i * columns + c]), sum);
    float& target = p.target[token * columns + c];
    target = p.adds ? target + sum : sum;
  }
}

}  // namespace

cudaError_t launch_route(const RouteParams& p, Launch l) {
  const size_t bytes = static_cast<size_t>(kRouteWarps * 3 * p.num_experts) * sizeof(float);
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
  int slots = std::min(kMostSlotsOfBlock, tiles.tile_rows);
  while (slots > 1 && slots * row_bytes > kMostStagedBytes) slots /= 2;
  const int staged = slots * row_bytes <= kMostStagedBytes ? slots * row_bytes : 0;
  return launch_kernel(gather_experts_kernel,
                       dim3(static_cast<unsigned>(tiles.num_tiles * tiles.tile_rows / slots)), dim3(kThreads),
                       static_cast<size_t>(staged), l.stream, l.dependent, g, tiles, slots, staged);
}

cudaError_t setup_experts() {
  return load_kernels(route_kernel<4>, route_kernel<8>, route_kernel<kMaxExperts / 32>, sort_rows_kernel,
                      gather_experts_kernel, combine_kernel);
}

}  // namespace quire::kernels
