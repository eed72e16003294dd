// Per-head norms, rotary embedding and the way into the cache, one warp per (token, head); and page copies.
// Bytes: the step's qkv once, what the pages take once. Latency-bound: about one L2 round trip.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/hadamard.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"

namespace quire::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxHeadDim = 256;

__device__ __forceinline__ void rotate(const AppendKvParams& p, float* row, int token, int lane) {
  const int half = p.rotary_dim / 2;
  const float* cosines = p.cos + static_cast<size_t>(token) * half;
  const float* sines = p.sin + static_cast<size_t>(token) * half;
  for (int i = lane; i < half; i += 32) {
    const int a = p.rope == RopeStyle::neox_halves ? i : 2 * i;
    const int b = p.rope == RopeStyle::neox_halves ? i + half : 2 * i + 1;
    const float x = row[a], y = row[b];
    row[a] = x * cosines[i] - y * sines[i];
    row[b] = y * cosines[i] + x * sines[i];
  }
  __syncwarp();
}

__device__ __forceinline__ void normalise(float* row, const float* weight, float epsilon, int dim, int lane) {
  float squares = 0.0f;
  for (int d = lane; d < dim; d += 32) squares += row[d] * row[d];
#pragma unroll
  for (int s = 16; s > 0; s >>= 1) squares += __shfl_xor_sync(0xffffffffU, squares, s);
  const float scale = rsqrtf(squares / static_cast<float>(dim) + epsilon);
  for (int d = lane; d < dim; d += 32) row[d] = row[d] * scale * weight[d];
  __syncwarp();
}

// Element index of a token's row in a layer's pages.
__device__ __forceinline__ size_t page_row(const AppendKvParams& p, int token, int kv_head) {
  const int position = p.batch.positions[token];
  const int sequence = p.batch.sequence_of_token[token];
  const int tokens = p.kv_shape.page_tokens;
  const size_t page =
      p.batch.page_table[static_cast<size_t>(sequence) * p.batch.page_table_stride + position / tokens];
  return (page * p.kv_shape.num_kv_heads + kv_head) * tokens + position % tokens;
}

__device__ __forceinline__ void store_row(float* row, int dim, KvFormat format, void* data, void* scales,
                                          size_t at, int lane) {
  if (format == KvFormat::f16) {
    auto* out = static_cast<__half*>(data) + at * dim;
    for (int d = lane; d < dim; d += 32) out[d] = __float2half_rn(row[d]);
    return;
  }
  if (format == KvFormat::fp8) {
    auto* out = static_cast<uint8_t*>(data) + at * dim;
    for (int d = lane; d < dim; d += 32)
      out[d] = static_cast<uint8_t>(__half_as_ushort(__float2half_rn(row[d])) >> 8);
    return;
  }
  // What quantized pages see is the f16 value, as the others do.
  for (int d = lane; d < dim; d += 32) row[d] = __half2float(__float2half_rn(row[d]));
  __syncwarp();
  hadamard_32(row, dim, lane, 32, [] { __syncwarp(); });
  const float zero = format == KvFormat::q8 ? 128.0f : 8.0f;
  for (int block = 0; block < dim / 32; ++block) {
    const float w = row[block * 32 + lane];
    float largest = fabsf(w);
#pragma unroll
    for (int s = 16; s > 0; s >>= 1) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, s));
    float code = zero;
    if (largest > 0.0f) {
      const float ratio = __half2float(__float2half_rn(w / largest));
      code = fminf(fmaxf(rintf(ratio * zero + zero), 0.0f), 2.0f * zero - 1.0f);
    }
    if (lane == 0) static_cast<__half*>(scales)[at * (dim / 32) + block] = __float2half_rn(largest / zero);
    const auto value = static_cast<uint32_t>(code);
    if (format == KvFormat::q8) {
      static_cast<uint8_t*>(data)[at * dim + block * 32 + lane] = static_cast<uint8_t>(value);
    } else {
      const uint32_t upper = __shfl_down_sync(0xffffffffU, value, 1);
      if ((lane & 1) == 0)
        static_cast<uint8_t*>(data)[at * (dim / 2) + block * 16 + lane / 2] =
            static_cast<uint8_t>(value | upper << 4);
    }
  }
}

__global__ void __launch_bounds__(32 * kWarps) append_kernel(const __grid_constant__ AppendKvParams p) {
  __shared__ float rows[kWarps][kMaxHeadDim];
  release_successor();
  wait_for_predecessor();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int dim = p.heads.head_dim;
  const int heads = p.heads.num_heads + 2 * p.heads.num_kv_heads;
  const int head = blockIdx.x * kWarps + warp;
  const int token = blockIdx.y;
  if (head >= heads) return;
  auto* source = static_cast<__half*>(p.qkv) + (static_cast<size_t>(token) * heads + head) * dim;
  const bool is_query = head < p.heads.num_heads;
  const bool is_key = !is_query && head < p.heads.num_heads + p.heads.num_kv_heads;
  const float* weight = is_query ? p.q_norm : is_key ? p.k_norm : nullptr;
  const bool turns = (is_query || is_key) && p.rope != RopeStyle::none && p.rotary_dim > 0;
  if (is_query && weight == nullptr && !turns) return;
  float* row = rows[warp];
  for (int d = lane; d < dim; d += 32) row[d] = __half2float(source[d]);
  __syncwarp();
  if (weight != nullptr) normalise(row, weight, p.norm_epsilon, dim, lane);
  if (turns) rotate(p, row, token, lane);
  if (is_query) {
    for (int d = lane; d < dim; d += 32) source[d] = __float2half_rn(row[d]);
  } else if (is_key) {
    store_row(row, dim, p.kv_shape.key_format, p.kv.keys, p.kv.key_scales,
              page_row(p, token, head - p.heads.num_heads), lane);
  } else {
    store_row(row, dim, p.kv_shape.value_format, p.kv.values, p.kv.value_scales,
              page_row(p, token, head - p.heads.num_heads - p.heads.num_kv_heads), lane);
  }
}

// One row of blocks per (kv head, plane); planes are keys, values and their scales.
__global__ void copy_page_kernel(CopyPageParams p) {
  release_successor();
  wait_for_predecessor();
  const KvFormat format = blockIdx.z % 2 == 0 ? p.kv_shape.key_format : p.kv_shape.value_format;
  const bool scales = blockIdx.z >= 2;
  if (scales && (format == KvFormat::f16 || format == KvFormat::fp8)) return;
  uint8_t* data = static_cast<uint8_t*>(blockIdx.z == 0   ? p.kv.keys
                                        : blockIdx.z == 1 ? p.kv.values
                                        : blockIdx.z == 2 ? p.kv.key_scales
                                                          : p.kv.value_scales);
  const int dim = p.kv_shape.head_dim;
  const int token_bytes = scales                    ? dim / 32 * 2
                          : format == KvFormat::f16 ? dim * 2
                          : format == KvFormat::q4  ? dim / 2
                                                    : dim;
  const size_t head_bytes = static_cast<size_t>(p.kv_shape.page_tokens) * token_bytes;
  const size_t page_bytes = head_bytes * p.kv_shape.num_kv_heads;
  const uint8_t* from = data + p.source * page_bytes + blockIdx.y * head_bytes;
  uint8_t* to = data + p.target * page_bytes + blockIdx.y * head_bytes;
  const int bytes = p.num_tokens * token_bytes;
  for (int i = (blockIdx.x * blockDim.x + threadIdx.x) * 2; i < bytes; i += gridDim.x * blockDim.x * 2) {
    if (i + 1 < bytes) {
      *reinterpret_cast<uint16_t*>(to + i) = *reinterpret_cast<const uint16_t*>(from + i);
    } else {
      to[i] = from[i];
    }
  }
}

}  // namespace

cudaError_t launch_append(const AppendKvParams& p, Launch l) {
  const int heads = p.heads.num_heads + 2 * p.heads.num_kv_heads;
  const dim3 grid(static_cast<unsigned>((heads + kWarps - 1) / kWarps),
                  static_cast<unsigned>(p.batch.num_tokens));
  return launch_kernel(append_kernel, grid, dim3(32 * kWarps), 0, l.stream, l.dependent, p);
}

cudaError_t launch_copy_page(const CopyPageParams& p, Launch l) {
  return launch_kernel(copy_page_kernel, dim3(8, static_cast<unsigned>(p.kv_shape.num_kv_heads), 4),
                       dim3(256), 0, l.stream, l.dependent, p);
}

}  // namespace quire::kernels
