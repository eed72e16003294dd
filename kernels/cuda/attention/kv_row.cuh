// One head of one token as floats in shared memory, before it goes to attention or the KV cache: per-head
// norm, rotary embedding, and the format of a page. Processed by one warp; every kernel that uses it computes
// the same bits.
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/gemm/hadamard.cuh"
#include "kernels/interface/op_params.h"

namespace quire::kernels {

// Cosines and sines of a lane's pairs, loaded before the row that they rotate is available.
struct HeadAngles {
  static constexpr int kMost = 4;  // pairs per lane: heads have up to 256 dimensions
  float cosine[kMost];
  float sine[kMost];

  __device__ __forceinline__ void fetch(const AppendKvParams& p, int token, int lane) {
    const int half = p.rotary_dim / 2;
    const size_t row = static_cast<size_t>(token) * half;
#pragma unroll
    for (int k = 0; k < kMost; ++k) {
      const int i = lane + 32 * k;
      cosine[k] = i < half ? p.cos[row + i] : 1.0f;
      sine[k] = i < half ? p.sin[row + i] : 0.0f;
    }
  }
  __device__ __forceinline__ void rotate(const AppendKvParams& p, float* row, int lane) const {
    const int half = p.rotary_dim / 2;
#pragma unroll
    for (int k = 0; k < kMost; ++k) {
      const int i = lane + 32 * k;
      if (i >= half) break;
      const int a = p.rope == RopeStyle::neox_halves ? i : 2 * i;
      const int b = p.rope == RopeStyle::neox_halves ? i + half : 2 * i + 1;
      const float x = row[a], y = row[b];
      row[a] = __fmaf_rn(x, cosine[k], -__fmul_rn(y, sine[k]));
      row[b] = __fmaf_rn(y, cosine[k], __fmul_rn(x, sine[k]));
    }
    __syncwarp();
  }
};

__device__ __forceinline__ bool rotates(const AppendKvParams& p) {
  return p.rope != RopeStyle::none && p.rotary_dim > 0;
}

__device__ __forceinline__ void normalise_head(float* row, const float* weight, float epsilon, int dim,
                                               int lane) {
  float squares = 0.0f;
  for (int d = lane; d < dim; d += 32) squares = __fmaf_rn(row[d], row[d], squares);
#pragma unroll
  for (int s = 16; s > 0; s >>= 1) squares += __shfl_xor_sync(0xffffffffU, squares, s);
  const float scale = rsqrtf(__fadd_rn(__fdiv_rn(squares, static_cast<float>(dim)), epsilon));
  for (int d = lane; d < dim; d += 32)
    row[d] = __fmul_rn(__fmul_rn(row[d], scale), weight != nullptr ? weight[d] : 1.0f);
  __syncwarp();
}

// Loads a head of the step's qkv in the form that attention and the cache use.
__device__ __forceinline__ void load_head(const AppendKvParams& p, int token, int head, float* row,
                                          int lane) {
  const int dim = p.heads.head_dim, heads = p.heads.num_heads + 2 * p.heads.num_kv_heads;
  const bool turns = rotates(p) && head < p.heads.num_heads + p.heads.num_kv_heads;
  HeadAngles angles;
  if (turns) angles.fetch(p, token, lane);
  const auto* from = static_cast<const __half*>(p.qkv) + (static_cast<size_t>(token) * heads + head) * dim;
  for (int d = lane; d < dim; d += 32) row[d] = __half2float(from[d]);
  __syncwarp();
  const float* weight = head < p.heads.num_heads                          ? p.q_norm
                        : head < p.heads.num_heads + p.heads.num_kv_heads ? p.k_norm
                                                                          : nullptr;
  const bool normed = p.qk_norm == QkNorm::each_head && head < p.heads.num_heads + p.heads.num_kv_heads;
  if (normed) normalise_head(row, weight, p.qk_norm_epsilon, dim, lane);
  if (turns) angles.rotate(p, row, lane);
}

// Returns two elements of a row rounded to f16, as every page format sees them.
__device__ __forceinline__ float2 rounded_pair(const float* row, int first) {
  const float2 v = *reinterpret_cast<const float2*>(row + first);
  return make_float2(__half2float(__float2half_rn(v.x)), __half2float(__float2half_rn(v.y)));
}

// Row of a page.
struct PageRow {
  uint8_t* data;
  __half* scales;

  // Points to row number `at` of the pages.
  __device__ __forceinline__ PageRow(void* pages, void* page_scales, KvFormat format, int dim, size_t at)
      : data(static_cast<uint8_t*>(pages) + at * (format == KvFormat::f16  ? dim * 2
                                                  : format == KvFormat::q4 ? dim / 2
                                                                           : dim)),
        scales(static_cast<__half*>(page_scales) + at * (dim / 32)) {}
  __device__ __forceinline__ void put_half(int d, __half v) const { reinterpret_cast<__half*>(data)[d] = v; }
  __device__ __forceinline__ void put_byte(int i, uint32_t v) const { data[i] = static_cast<uint8_t>(v); }
  __device__ __forceinline__ void put_two_bytes(int i, uint32_t v) const {
    *reinterpret_cast<uint16_t*>(data + i) = static_cast<uint16_t>(v);
  }
  __device__ __forceinline__ void put_scale(int block, __half v) const { scales[block] = v; }
};

// Numbers of a token's rows in a layer's pages.
class TokenRows {
 public:
  __device__ __forceinline__ TokenRows(const AppendKvParams& p, int token)
      : page_tokens_(p.kv_shape.page_tokens) {
    const int position = p.batch.positions[token];
    const int32_t* pages = p.batch.page_table +
                           static_cast<size_t>(p.batch.sequence_of_token[token]) * p.batch.page_table_stride;
    first_ = static_cast<size_t>(pages[position / page_tokens_]) * p.kv_shape.num_kv_heads * page_tokens_ +
             position % page_tokens_;
  }
  __device__ __forceinline__ size_t row(int kv_head) const {
    return first_ + static_cast<size_t>(kv_head) * page_tokens_;
  }

 private:
  int page_tokens_;
  size_t first_;
};
__device__ __forceinline__ PageRow key_row(const AppendKvParams& p, size_t at) {
  return {p.kv.keys, p.kv.key_scales, p.kv_shape.key_format, p.heads.head_dim, at};
}
// `dim` is the dimension of a value.
__device__ __forceinline__ PageRow value_row(const AppendKvParams& p, int dim, size_t at) {
  return {p.kv.values, p.kv.value_scales, p.kv_shape.value_format, dim, at};
}

__device__ __forceinline__ uint32_t code_of(float v, float largest, float zero) {
  if (!(largest > 0.0f)) return static_cast<uint32_t>(zero);
  const float ratio = __half2float(__float2half_rn(v / largest));
  return static_cast<uint32_t>(fminf(fmaxf(rintf(ratio * zero + zero), 0.0f), 2.0f * zero - 1.0f));
}

// Writes a row to each of `to`: a PageRow, or a type with its functions.
template <typename... To>
__device__ __forceinline__ void store_row(const float* row, int dim, KvFormat format, int lane,
                                          const To&... to) {
  if (format == KvFormat::f16) {
    for (int d = lane; d < dim; d += 32) {
      const __half v = __float2half_rn(row[d]);
      (to.put_half(d, v), ...);
    }
    return;
  }
  if (format == KvFormat::fp8) {
    for (int d = lane; d < dim; d += 32) {
      const auto v = static_cast<uint32_t>(__half_as_ushort(__float2half_rn(row[d])) >> 8);
      (to.put_byte(d, v), ...);
    }
    return;
  }
  // Each lane has a pair of each block of 64; lanes 0 to 15 share a scale, and lanes 16 to 31.
  const float zero = format == KvFormat::q8 ? 128.0f : 8.0f;
#pragma unroll 1
  for (int first = 0; first < dim; first += 128) {
    float2 v[2];
    float largest[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      v[i] = first + 64 * i < dim ? rounded_pair(row, first + 64 * i + 2 * lane) : make_float2(0.0f, 0.0f);
    hadamard_pairs(v, lane);
#pragma unroll
    for (int i = 0; i < 2; ++i) largest[i] = fmaxf(fabsf(v[i].x), fabsf(v[i].y));
#pragma unroll
    for (int s = 1; s < 16; s <<= 1) {
#pragma unroll
      for (float& of_block : largest) of_block = fmaxf(of_block, __shfl_xor_sync(0xffffffffU, of_block, s));
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = first + 64 * i;
      if (at >= dim) break;
      const uint32_t x = code_of(v[i].x, largest[i], zero), y = code_of(v[i].y, largest[i], zero);
      if (format == KvFormat::q8) {
        (to.put_two_bytes(at + 2 * lane, x | y << 8), ...);
      } else {
        (to.put_byte(at / 2 + lane, x | y << 4), ...);
      }
      if (lane % 16 == 0) (to.put_scale(at / 32 + lane / 16, __float2half_rn(largest[i] / zero)), ...);
    }
  }
}

}  // namespace quire::kernels
