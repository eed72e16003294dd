// Appends keys and values to the paged KV cache after per-head norms and rotary embedding; also copies pages.
// Bytes: reads the step's qkv once, writes its queries once, and writes the new rows of the pages once.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/kv_row.cuh"
#include "kernels/cuda/attention/lane_head.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"

namespace quire::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxHeadDim = 256;

// Handles any head size: one warp per head, with the head's row in shared memory.
__global__ void __launch_bounds__(32 * kWarps) append_kernel(const __grid_constant__ AppendKvParams p) {
  __shared__ __align__(8) float rows[kWarps][kMaxHeadDim];
  release_successor();
  wait_for_predecessor();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int dim = p.heads.head_dim, queries = p.heads.num_heads, keys = p.heads.num_kv_heads;
  const int heads = queries + 2 * keys;
  const int head = blockIdx.x * kWarps + warp;
  const int token = blockIdx.y;
  if (head >= heads) return;
  if (head < queries && p.qk_norm == QkNorm::none && !rotates(p)) return;
  float* row = rows[warp];
  load_head(p, token, head, row, lane);
  if (head < queries) {
    auto* to = static_cast<__half*>(p.qkv) + (static_cast<size_t>(token) * heads + head) * dim;
    for (int d = lane; d < dim; d += 32) to[d] = __float2half_rn(row[d]);
  } else if (head < queries + keys) {
    store_row(row, dim, p.kv_shape.key_format, lane, key_row(p, TokenRows(p, token).row(head - queries)));
  } else {
    store_row(row, dim, p.kv_shape.value_format, lane,
              value_row(p, dim, TokenRows(p, token).row(head - queries - keys)));
  }
}

// Handles heads of 32 * kElements dimensions for which lanes_fit is true. Rows stay in registers. Each warp
// loads kHeadsOfWarp heads of a token at once.
constexpr int kHeadsOfWarp = 4;
template <int kElements>
__global__ void __launch_bounds__(32 * kWarps) append_lanes_kernel(const __grid_constant__ AppendKvParams p) {
  __shared__ __align__(8) float rows[kWarps][32 * kElements];
  release_successor();
  wait_for_predecessor();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int queries = p.heads.num_heads, keys = p.heads.num_kv_heads, heads = queries + 2 * keys;
  const int first = (blockIdx.x * kWarps + warp) * kHeadsOfWarp;
  const int token = blockIdx.y;
  if (first >= heads) return;
  const int count = min(kHeadsOfWarp, heads - first);
  const bool turns = rotates(p), normed = p.qk_norm == QkNorm::each_head;
  auto* from =
      static_cast<__half*>(p.qkv) + (static_cast<size_t>(token) * heads + first) * (32 * kElements) + lane;
  __half found[kHeadsOfWarp][kElements];
#pragma unroll
  for (int h = 0; h < kHeadsOfWarp; ++h) {
#pragma unroll
    for (int k = 0; k < kElements; ++k)
      found[h][k] = h < count ? from[32 * (h * kElements + k)] : __float2half(0.0f);
  }
  LaneAngles<kElements> angles;
  if (turns) angles.load(p, token, lane);
  const TokenRows pages(p, token);
#pragma unroll
  for (int h = 0; h < kHeadsOfWarp; ++h) {
    const int head = first + h;
    if (h >= count) return;
    LaneHead<kElements> own;
#pragma unroll
    for (int k = 0; k < kElements; ++k) own.v[k] = __half2float(found[h][k]);
    if (head >= queries + keys) {
      own.store(value_row(p, 32 * kElements, pages.row(head - queries - keys)), p.kv_shape.value_format,
                rows[warp], lane);
      continue;
    }
    if (normed) own.normalise(head < queries ? p.q_norm : p.k_norm, p.qk_norm_epsilon, lane);
    if (turns) own.rotate(angles);
    if (head >= queries) {
      own.store(key_row(p, pages.row(head - queries)), p.kv_shape.key_format, rows[warp], lane);
    } else if (normed || turns) {
#pragma unroll
      for (int k = 0; k < kElements; ++k) from[32 * (h * kElements + k)] = __float2half_rn(own.v[k]);
    }
  }
}

// Copies the keys of the indexer (sparse attention).
__device__ __forceinline__ void copy_index_keys(const CopyPageParams& p) {
  auto* keys = static_cast<__half*>(p.kv.index_keys);
  const size_t page = static_cast<size_t>(p.kv_shape.page_tokens) * p.kv_shape.index_dim;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < p.num_tokens * p.kv_shape.index_dim;
       i += gridDim.x * blockDim.x)
    keys[p.target * page + i] = keys[p.source * page + i];
}

// One row of blocks per (kv head, plane). Planes are keys, values, their scales, and, for the first head
// only, the keys of the indexer.
__global__ void copy_page_kernel(CopyPageParams p) {
  release_successor();
  wait_for_predecessor();
  if (blockIdx.z == 4) {
    if (blockIdx.y == 0) copy_index_keys(p);
    return;
  }
  const KvFormat format = blockIdx.z % 2 == 0 ? p.kv_shape.key_format : p.kv_shape.value_format;
  const bool scales = blockIdx.z >= 2;
  if (scales && (format == KvFormat::f16 || format == KvFormat::fp8)) return;
  uint8_t* data = static_cast<uint8_t*>(blockIdx.z == 0   ? p.kv.keys
                                        : blockIdx.z == 1 ? p.kv.values
                                        : blockIdx.z == 2 ? p.kv.key_scales
                                                          : p.kv.value_scales);
  const bool of_values = blockIdx.z % 2 == 1 && p.kv_shape.value_dim != 0;
  const int dim = of_values ? p.kv_shape.value_dim : p.kv_shape.head_dim;
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
  const auto launch = [&](auto kernel, int heads_of_block) {
    const dim3 grid(static_cast<unsigned>((heads + heads_of_block - 1) / heads_of_block),
                    static_cast<unsigned>(p.batch.num_tokens));
    return launch_kernel(kernel, grid, dim3(32 * kWarps), 0, l.stream, l.dependent, p);
  };
  if (!lanes_fit(p)) return launch(append_kernel, kWarps);
  return launch(p.heads.head_dim == 64 ? append_lanes_kernel<2> : append_lanes_kernel<4>,
                kWarps * kHeadsOfWarp);
}

cudaError_t launch_copy_page(const CopyPageParams& p, Launch l) {
  const unsigned planes = p.kv_shape.index_dim > 0 ? 5 : 4;
  return launch_kernel(copy_page_kernel, dim3(8, static_cast<unsigned>(p.kv_shape.num_kv_heads), planes),
                       dim3(256), 0, l.stream, l.dependent, p);
}

cudaError_t setup_append() {
  return load_kernels(append_kernel, append_lanes_kernel<2>, append_lanes_kernel<4>, copy_page_kernel);
}

}  // namespace quire::kernels
