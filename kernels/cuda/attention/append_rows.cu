// Appends to the paged KV cache for features that few model families use: norms over all heads or with
// weights per head, norms after rotation or of values, clipping, queries scaled by position, values that are
// also keys, rows of queries only. One block per token, with the token's row in shared memory as floats.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/kv_row.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"

namespace quire::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr unsigned kAll = 0xffffffffU;

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(kAll, v, d);
  return v;
}

// Parameters of a norm of q or k; nullptr: ones, or zeros.
struct HeadNorm {
  const float* weight;
  const float* bias;

  __device__ __forceinline__ HeadNorm from(int element) const {
    return {weight != nullptr ? weight + element : nullptr, bias != nullptr ? bias + element : nullptr};
  }
};

// x = norm(x) * weight + bias, computed by one warp. Lanes determine the order of the sums.
__device__ __forceinline__ void norm_row(float* x, int columns, NormKind kind, float epsilon,
                                         const HeadNorm& norm, int lane) {
  if (kind == NormKind::none) return;
  const auto count = static_cast<float>(columns);
  float mean = 0.0f;
  if (kind == NormKind::layer) {
    for (int c = lane; c < columns; c += 32) mean += x[c];
    mean = warp_sum(mean) / count;
  }
  float squares = 0.0f;
  for (int c = lane; c < columns; c += 32) squares = __fmaf_rn(x[c] - mean, x[c] - mean, squares);
  const float factor = rsqrtf(__fadd_rn(warp_sum(squares) / count, epsilon));
  for (int c = lane; c < columns; c += 32)
    x[c] = (x[c] - mean) * factor * (norm.weight != nullptr ? norm.weight[c] : 1.0f);
  if (norm.bias != nullptr)
    for (int c = lane; c < columns; c += 32) x[c] += norm.bias[c];
  __syncwarp();
}

// Heads of q or of k, in shared memory.
struct Heads {
  float* rows;
  int count;
  HeadNorm norm;
};

// Normalises and rotates the heads with all warps of the block.
__device__ __forceinline__ void rotate_heads(const AppendKvParams& p, int token, const Heads& heads, int warp,
                                             int lane) {
  const int dim = p.heads.head_dim;
  if (p.qk_norm == QkNorm::all_heads) {
    if (warp == 0)
      norm_row(heads.rows, heads.count * dim, p.qk_norm_kind, p.qk_norm_epsilon, heads.norm, lane);
    __syncthreads();
  }
  const bool turns = rotates(p);
  const bool normed = p.qk_norm == QkNorm::each_head;
  HeadAngles angles;
  if (turns) angles.fetch(p, token, lane);
#pragma unroll 1
  for (int h = warp; h < heads.count; h += kWarps) {
    float* head = heads.rows + h * dim;
    const HeadNorm own = p.qk_weight_per_head ? heads.norm.from(h * dim) : heads.norm;
    if (normed && !p.norm_after_rope) norm_row(head, dim, p.qk_norm_kind, p.qk_norm_epsilon, own, lane);
    if (turns) angles.rotate(p, head, lane);
    if (normed && p.norm_after_rope) norm_row(head, dim, p.qk_norm_kind, p.qk_norm_epsilon, own, lane);
  }
}

__device__ __forceinline__ float query_factor(const AttentionSpec& p, int position) {
  if (p.temperature_beta == 0.0f) return 1.0f;
  const float steps = floorf((static_cast<float>(position) + p.temperature_offset) / p.temperature_floor);
  return 1.0f + p.temperature_beta * log1pf(steps);
}

// Sizes of a token's row.
struct RowShape {
  int columns;
  int of_query;
  int values;  // dimension of a head of v
};

__global__ void __launch_bounds__(kThreads)
    append_rows_kernel(const __grid_constant__ AppendKvParams p, RowShape shape) {
  extern __shared__ __align__(8) float row[];  // the token's row, followed by one head of v per warp
  release_successor();
  wait_for_predecessor();
  const int token = blockIdx.x, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int dim = p.heads.head_dim, values = shape.values, kv_heads = p.heads.num_kv_heads;
  const int columns = shape.columns, of_query = shape.of_query;
  auto* stored = static_cast<__half*>(p.qkv) + static_cast<size_t>(token) * columns;
  const float limit = p.clip != 0.0f ? p.clip : INFINITY;
  for (int c = threadIdx.x; c < columns; c += kThreads)
    row[c] = fminf(fmaxf(__half2float(stored[c]), -limit), limit);
  __syncthreads();
  const TokenRows pages(p, token);
  float* keys = row + of_query;
  if (!p.reads_cache_only) {  // values first: if they are copies of the keys, those are not rotated yet
    float* own = row + columns + warp * values;
    const float* from = p.values_are_keys ? keys : keys + kv_heads * dim;
    for (int h = warp; h < kv_heads; h += kWarps) {
      for (int d = lane; d < values; d += 32) own[d] = from[h * values + d];
      __syncwarp();
      if (p.value_norm) norm_row(own, values, NormKind::rms, p.qk_norm_epsilon, {nullptr, nullptr}, lane);
      store_row(own, values, p.kv_shape.value_format, lane, value_row(p, values, pages.row(h)));
      __syncwarp();
    }
    __syncthreads();
  }
  rotate_heads(p, token, {row, p.heads.num_heads, {p.q_norm, p.q_norm_bias}}, warp, lane);
  __syncthreads();
  const float factor = query_factor(p, p.batch.positions[token]);
  for (int c = threadIdx.x; c < of_query; c += kThreads) stored[c] = __float2half_rn(row[c] * factor);
  if (p.reads_cache_only) return;
  rotate_heads(p, token, {keys, kv_heads, {p.k_norm, p.k_norm_bias}}, warp, lane);
  __syncthreads();
  for (int h = warp; h < kv_heads; h += kWarps)
    store_row(keys + h * dim, dim, p.kv_shape.key_format, lane, key_row(p, pages.row(h)));
}

}  // namespace

bool appends_rows(const AttentionSpec& p) {
  constexpr uint64_t kOthers =
      kMechanismOtherQkNorm | kMechanismQueryScaling | kMechanismSharedKv | kMechanismValueDim;
  return (mechanisms_of(p) & kOthers) != 0;
}

cudaError_t launch_append_rows(const AppendKvParams& p, Launch l) {
  const RowShape shape = {qkv_columns(p), query_columns(p), value_dim(p.heads)};
  const size_t bytes = static_cast<size_t>(shape.columns + kWarps * shape.values) * sizeof(float);
  return launch_kernel(append_rows_kernel, dim3(static_cast<unsigned>(p.batch.num_tokens)), dim3(kThreads),
                       bytes, l.stream, l.dependent, p, shape);
}

cudaError_t setup_append_rows(int shared_limit) {
  return cudaFuncSetAttribute(append_rows_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_limit);
}

}  // namespace quire::kernels
