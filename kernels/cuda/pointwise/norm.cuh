// Norm of one row by one block; every kernel that uses it computes the same bits.
#pragma once

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/interface/op_params.h"

namespace quire::kernels {

constexpr int kNormThreads = 512;
constexpr int kNormSums = 2 * kNormThreads / 32;

// Returns the sum over the block, the same bits in every thread; the order is fixed by the block's size.
__device__ __forceinline__ float norm_block_sum(float v, float* shared) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffU, v, d);
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = v;
  __syncthreads();
  float total = 0.0f;
#pragma unroll
  for (int w = 0; w < kNormThreads / 32; ++w) total += shared[w];
  return total;
}

// Columns are processed in groups of four if their number allows it, otherwise one by one; thread t handles
// groups t, t + 512 and so on in order. Up to kRegisterGroups groups per thread stay in registers, the rest
// of a wider row is read again. Weights and places do not depend on the previous kernel, so the constructor
// loads them before the wait for it.
template <bool kLayer>
class RowNorm {
 public:
  static constexpr int kRegisterGroups = 2;

  __device__ __forceinline__ RowNorm(const NormParams& p, const int32_t* place)
      : p_(p),
        place_(place),
        quads_(p.columns % 4 == 0 ? p.columns / 4 : 0),
        share_(1.0f / static_cast<float>(p.columns)) {
#pragma unroll
    for (int i = 0; i < kRegisterGroups; ++i) {
      const int q = threadIdx.x + i * kNormThreads;
      if (q >= quads_) continue;
      weight_[i] = weights_at(q);
      target_[i] = places_at(q);
    }
  }

  // Part of a row that stays in registers.
  struct Held {
    float4 fours[kRegisterGroups];
  };
  __device__ __forceinline__ Held fetch(const float* x) const {
    Held held;
#pragma unroll
    for (int i = 0; i < kRegisterGroups; ++i) {
      const int q = threadIdx.x + i * kNormThreads;
      held.fours[i] =
          q < quads_ ? reinterpret_cast<const float4*>(x)[q] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    return held;
  }

  // Calls store(place of the column, value). `sums` holds kNormSums floats of shared memory. A later run may
  // use them again if a run with other sums comes between.
  template <typename Store>
  __device__ __forceinline__ void run(const float* x, float* sums, Store store) {
    run(x, fetch(x), sums, store);
  }
  template <typename Store>
  __device__ __forceinline__ void run(const float* x, const Held& of_row, float* sums, Store store) {
    const auto* quads = reinterpret_cast<const float4*>(x);
    const int first_single = 4 * quads_ + threadIdx.x;
    const float4(&held)[kRegisterGroups] = of_row.fours;
    float mean = 0.0f;
    if constexpr (kLayer) {
      float total = 0.0f;
      each(quads, held, [&](int, int, float4 v) {
        total = __fadd_rn(total, __fadd_rn(__fadd_rn(v.x, v.y), __fadd_rn(v.z, v.w)));
      });
#pragma unroll 1
      for (int c = first_single; c < p_.columns; c += kNormThreads) total = __fadd_rn(total, x[c]);
      mean = __fmul_rn(norm_block_sum(total, sums), share_);
      sums += kNormThreads / 32;
    }
    float squares = 0.0f;
    each(quads, held, [&](int, int, float4 v) {
      const float a = __fsub_rn(v.x, mean), b = __fsub_rn(v.y, mean), c = __fsub_rn(v.z, mean),
                  d = __fsub_rn(v.w, mean);
      squares =
          __fadd_rn(squares, __fadd_rn(__fmaf_rn(a, a, __fmul_rn(b, b)), __fmaf_rn(c, c, __fmul_rn(d, d))));
    });
#pragma unroll 1
    for (int c = first_single; c < p_.columns; c += kNormThreads) {
      const float a = __fsub_rn(x[c], mean);
      squares = __fmaf_rn(a, a, squares);
    }
    const float root = rsqrtf(__fmaf_rn(norm_block_sum(squares, sums), share_, p_.epsilon));
    const float scale = p_.kind == NormKind::none ? 1.0f : root;
    auto put = [&](int c, int to, float v, float w) {
      float y = __fmul_rn(__fmul_rn(__fsub_rn(v, mean), scale), w);
      if (kLayer && p_.bias != nullptr) y = __fadd_rn(y, p_.bias[c]);
      store(to, y);
    };
    each(quads, held, [&](int q, int i, float4 v) {
      const float4 w = i >= 0 ? weight_[i] : weights_at(q);
      const int4 to = i >= 0 ? target_[i] : places_at(q);
      put(4 * q, to.x, v.x, w.x);
      put(4 * q + 1, to.y, v.y, w.y);
      put(4 * q + 2, to.z, v.z, w.z);
      put(4 * q + 3, to.w, v.w, w.w);
    });
#pragma unroll 1
    for (int c = first_single; c < p_.columns; c += kNormThreads)
      put(c, place_ != nullptr ? place_[c] : c, x[c], p_.weight != nullptr ? p_.weight[c] : 1.0f);
  }

 private:
  // Calls visit(number, index in registers or -1, columns) for this thread's groups of four, in order.
  template <typename Visit>
  __device__ __forceinline__ void each(const float4* quads, const float4 (&held)[kRegisterGroups],
                                       Visit visit) const {
#pragma unroll
    for (int i = 0; i < kRegisterGroups; ++i)
      if (threadIdx.x + i * kNormThreads < quads_) visit(threadIdx.x + i * kNormThreads, i, held[i]);
#pragma unroll 1
    for (int q = threadIdx.x + kRegisterGroups * kNormThreads; q < quads_; q += kNormThreads)
      visit(q, -1, quads[q]);
  }
  __device__ __forceinline__ float4 weights_at(int q) const {
    if (p_.weight == nullptr) return make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    return __ldg(reinterpret_cast<const float4*>(p_.weight) + q);
  }
  __device__ __forceinline__ int4 places_at(int q) const {
    return place_ != nullptr ? __ldg(reinterpret_cast<const int4*>(place_) + q)
                             : make_int4(4 * q, 4 * q + 1, 4 * q + 2, 4 * q + 3);
  }

  const NormParams& p_;
  const int32_t* place_;
  int quads_;    // groups of four columns
  float share_;  // 1 / columns
  float4 weight_[kRegisterGroups];
  int4 target_[kRegisterGroups];
};

// If a row's places are permuted, its values are first collected in shared memory: written directly they
// would need one memory sector per column. Called by kNormThreads threads; columns are a multiple of 8.
__device__ __forceinline__ void copy_normed_row(const __half* row, int columns, __half* to) {
#pragma unroll 1
  for (int c = threadIdx.x * 8; c < columns; c += kNormThreads * 8)
    *reinterpret_cast<uint4*>(to + c) = *reinterpret_cast<const uint4*>(row + c);
}

}  // namespace quire::kernels
