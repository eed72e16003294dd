// Per-head norms, rotary embedding and the way into the cache, one warp per (token, head); and page copies.
// Bytes: the step's qkv once, what the pages take once. Latency-bound: about one L2 round trip.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/kv_row.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"

namespace quire::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxHeadDim = 256;

// Element index of a token's row in a layer's pages.
__device__ __forceinline__ size_t page_row(const AppendKvParams& p, int token, int kv_head) {
  const int position = p.batch.positions[token];
  const int sequence = p.batch.sequence_of_token[token];
  const int tokens = p.kv_shape.page_tokens;
  const size_t page =
      p.batch.page_table[static_cast<size_t>(sequence) * p.batch.page_table_stride + position / tokens];
  return (page * p.kv_shape.num_kv_heads + kv_head) * tokens + position % tokens;
}

__global__ void __launch_bounds__(32 * kWarps) append_kernel(const __grid_constant__ AppendKvParams p) {
  __shared__ __align__(8) float rows[kWarps][kMaxHeadDim];
  release_successor();
  wait_for_predecessor();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int dim = p.heads.head_dim;
  const int heads = p.heads.num_heads + 2 * p.heads.num_kv_heads;
  const int head = blockIdx.x * kWarps + warp;
  const int token = blockIdx.y;
  if (head >= heads) return;
  const bool is_query = head < p.heads.num_heads;
  const bool is_key = !is_query && head < p.heads.num_heads + p.heads.num_kv_heads;
  const bool turns = p.rope != RopeStyle::none && p.rotary_dim > 0;
  if (is_query && p.qk_norm == QkNorm::none && !turns) return;
  float* row = rows[warp];
  load_head(p, token, head, row, lane);
  if (is_query) {
    auto* to = static_cast<__half*>(p.qkv) + (static_cast<size_t>(token) * heads + head) * dim;
    for (int d = lane; d < dim; d += 32) to[d] = __float2half_rn(row[d]);
  } else if (is_key) {
    store_row(row, dim, p.kv_shape.key_format, lane,
              PageRow(p.kv.keys, p.kv.key_scales, p.kv_shape.key_format, dim,
                      page_row(p, token, head - p.heads.num_heads)));
  } else {
    store_row(row, dim, p.kv_shape.value_format, lane,
              PageRow(p.kv.values, p.kv.value_scales, p.kv_shape.value_format, dim,
                      page_row(p, token, head - p.heads.num_heads - p.heads.num_kv_heads)));
  }
}

// Keys that others are selected by.
__device__ __forceinline__ void copy_index_keys(const CopyPageParams& p) {
  auto* keys = static_cast<__half*>(p.kv.index_keys);
  const size_t page = static_cast<size_t>(p.kv_shape.page_tokens) * p.kv_shape.index_dim;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < p.num_tokens * p.kv_shape.index_dim;
       i += gridDim.x * blockDim.x)
    keys[p.target * page + i] = keys[p.source * page + i];
}

// One row of blocks per (kv head, plane); planes are keys, values, their scales, and, of the first head, the
// keys of the selection.
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
  const dim3 grid(static_cast<unsigned>((heads + kWarps - 1) / kWarps),
                  static_cast<unsigned>(p.batch.num_tokens));
  return launch_kernel(append_kernel, grid, dim3(32 * kWarps), 0, l.stream, l.dependent, p);
}

cudaError_t launch_copy_page(const CopyPageParams& p, Launch l) {
  const unsigned planes = p.kv_shape.index_dim > 0 ? 5 : 4;
  return launch_kernel(copy_page_kernel, dim3(8, static_cast<unsigned>(p.kv_shape.num_kv_heads), planes),
                       dim3(256), 0, l.stream, l.dependent, p);
}

cudaError_t setup_append() {
  return load_kernels(append_kernel, copy_page_kernel);
}

}  // namespace quire::kernels
