// Attention with features that few model families use: sinks, slopes (ALiBi), chunks of positions, selected
// positions, values with another dimension than keys, heads that are not adjacent, rows of queries only. One
// block per (token, head); each warp processes one key at a time. Exact, with its own order of sums, and far
// below the card's peak rates.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/gemm/hadamard.cuh"

namespace quire::kernels {
namespace {

constexpr int kWarps = 8;  // warp w handles positions p with p % kWarps == w
constexpr int kThreads = 32 * kWarps;
constexpr int kPairs = 4;  // pairs per lane: elements 64 i + 2 lane + {0, 1} of up to 256
constexpr unsigned kAll = 0xffffffffU;

__device__ __forceinline__ float minus_infinity() {
  return __int_as_float(0xff800000);
}

// Rows of a page, read as pairs of elements per lane.
struct PageRows {
  const uint8_t* data;
  const __half* scales;
  KvFormat format;
  int dim;

  __device__ __forceinline__ float2 pair(size_t row, int i, int lane) const {
    const int d = 64 * i + 2 * lane;
    if (d >= dim) return make_float2(0.0f, 0.0f);
    const size_t at = row * dim + d;
    const auto single = [&](size_t e) {
      if (format == KvFormat::f16) return __half2float(reinterpret_cast<const __half*>(data)[e]);
      if (format == KvFormat::fp8)
        return __half2float(__ushort_as_half(static_cast<unsigned short>(data[e] << 8)));
      const float scale = __half2float(scales[e / 32]);
      if (format == KvFormat::q8) return (static_cast<float>(data[e]) - 128.0f) * scale;
      return (static_cast<float>(data[e / 2] >> (4 * (e & 1)) & 15) - 8.0f) * scale;
    };
    return make_float2(single(at), d + 1 < dim ? single(at + 1) : 0.0f);
  }
  __device__ __forceinline__ void read(size_t row, int lane, float2 (&pairs)[kPairs]) const {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) pairs[i] = pair(row, i, lane);
    if (format != KvFormat::q8 && format != KvFormat::q4) return;
    hadamard_pairs(pairs, lane);
#pragma unroll
    for (float2& v : pairs) v = make_float2(v.x / 32.0f, v.y / 32.0f);
  }
};

__device__ __forceinline__ bool is_selected(const AttentionParams& p, int token, int position) {
  if (!p.selects_keys) return true;
  const uint32_t* words = p.selected + static_cast<size_t>(token) * p.selected_words;
  return (words[position / 32] >> (position % 32) & 1) != 0;
}

// Partial result of one warp.
struct Part {
  float maximum;
  float sum;
};

__global__ void __launch_bounds__(kThreads)
    attention_any_kernel(const __grid_constant__ AttentionParams p, int columns, int value_dim) {
  __shared__ Part parts[kWarps];
  __shared__ float2 totals[kWarps][kPairs][32];
  release_successor();
  wait_for_predecessor();
  const int head = blockIdx.x, token = blockIdx.y, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int dim = p.heads.head_dim, kv_heads = p.heads.num_kv_heads;
  const int kv_head = p.heads_apart ? head % kv_heads : head / (p.heads.num_heads / kv_heads);
  const int last = p.batch.positions[token], page_tokens = p.kv_shape.page_tokens;
  const int of_window = p.sliding_window > 0 ? max(0, last - p.sliding_window + 1) : 0;
  const int first = p.chunk > 0 ? max(of_window, last / p.chunk * p.chunk) : of_window;
  const int32_t* pages =
      p.batch.page_table + static_cast<size_t>(p.batch.sequence_of_token[token]) * p.batch.page_table_stride;
  const PageRows keys = {static_cast<const uint8_t*>(p.kv.keys), static_cast<const __half*>(p.kv.key_scales),
                         p.kv_shape.key_format, dim};
  const PageRows values = {static_cast<const uint8_t*>(p.kv.values),
                           static_cast<const __half*>(p.kv.value_scales), p.kv_shape.value_format, value_dim};
  const auto* from = static_cast<const __half*>(p.qkv) + static_cast<size_t>(token) * columns +
                     static_cast<size_t>(head) * dim;
  float2 query[kPairs], total[kPairs];
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int d = 64 * i + 2 * lane;
    query[i].x = d < dim ? __half2float(from[d]) * p.scale : 0.0f;
    query[i].y = d + 1 < dim ? __half2float(from[d + 1]) * p.scale : 0.0f;
    total[i] = make_float2(0.0f, 0.0f);
  }
  Part part = {minus_infinity(), 0.0f};
#pragma unroll 1
  for (int position = first / kWarps * kWarps + warp; position <= last; position += kWarps) {
    if (position < first || !is_selected(p, token, position)) continue;
    const size_t row =
        (static_cast<size_t>(pages[position / page_tokens]) * kv_heads + kv_head) * page_tokens +
        position % page_tokens;
    float2 pairs[kPairs];
    keys.read(row, lane, pairs);
    float score = 0.0f;
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
      score = __fmaf_rn(query[i].x, pairs[i].x, __fmaf_rn(query[i].y, pairs[i].y, score));
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) score += __shfl_xor_sync(kAll, score, d);
    if (p.softcap != 0.0f) score = p.softcap * tanhf(score / p.softcap);
    if (p.has_slopes) score -= static_cast<float>(last - position) * p.slopes[head];
    const float maximum = fmaxf(part.maximum, score);
    const float kept = __expf(part.maximum - maximum), weight = __expf(score - maximum);
    part = {maximum, __fmaf_rn(part.sum, kept, weight)};
    values.read(row, lane, pairs);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      total[i].x = __fmaf_rn(total[i].x, kept, weight * pairs[i].x);
      total[i].y = __fmaf_rn(total[i].y, kept, weight * pairs[i].y);
    }
  }
  if (lane == 0) parts[warp] = part;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) totals[warp][i][lane] = total[i];
  __syncthreads();
  // Each warp finishes every eighth block of 64 elements, merging the parts in order.
  float maximum = p.has_sinks ? p.sinks[head] : minus_infinity();
  for (int w = 0; w < kWarps; ++w) maximum = fmaxf(maximum, parts[w].maximum);
  float sum = p.has_sinks ? __expf(p.sinks[head] - maximum) : 0.0f;
  for (int w = 0; w < kWarps; ++w) sum = __fmaf_rn(parts[w].sum, __expf(parts[w].maximum - maximum), sum);
  auto* to = static_cast<__half*>(p.output) + (static_cast<size_t>(token) * gridDim.x + head) * value_dim;
  for (int i = warp; i < kPairs; i += kWarps) {
    float2 result = make_float2(0.0f, 0.0f);
    for (int w = 0; w < kWarps; ++w) {
      const float factor = __expf(parts[w].maximum - maximum);
      result.x = __fmaf_rn(totals[w][i][lane].x, factor, result.x);
      result.y = __fmaf_rn(totals[w][i][lane].y, factor, result.y);
    }
    const int d = 64 * i + 2 * lane;
    if (d < value_dim) to[d] = __float2half_rn(result.x / sum);
    if (d + 1 < value_dim) to[d + 1] = __float2half_rn(result.y / sum);
  }
}

}  // namespace

bool uses_attention_any(const AttentionSpec& p, const CardLimits& card) {
  constexpr uint64_t kOthers = kMechanismChunks | kMechanismSinks | kMechanismSlopes | kMechanismValueDim |
                               kMechanismSharedKv | kMechanismKeySelection;
  return (mechanisms_of(p) & kOthers) != 0 || held_chunks(card.shared_per_block, p.heads.head_dim) == 0;
}

cudaError_t launch_attention_any(const AttentionParams& p, Launch l) {
  const dim3 grid(static_cast<unsigned>(p.heads.num_heads), static_cast<unsigned>(p.batch.num_tokens));
  return launch_kernel(attention_any_kernel, grid, dim3(kThreads), 0, l.stream, l.dependent, p,
                       qkv_columns(p), value_dim(p.heads));
}

cudaError_t setup_attention_any() {
  return load_kernels(attention_any_kernel);
}

}  // namespace quire::kernels
