// What the kernels of gemm_float8.cu and gemm_float8_strips.cu share: how a warp scales the products of a
// block of K, and finishes its results. A warp has 16 columns of its tile; a lane's sums are those of
// HalfSums.
#pragma once

#include "kernels/cuda/gemm/gemm_float8.h"
#include "kernels/cuda/gemm/gemm_output.cuh"
#include "kernels/cuda/gemm/gemm_work.cuh"

namespace quire::kernels {
namespace {

// Location of a lane's sums: up to two columns of the output, by tokens as in HalfSums.
struct Float8Columns {
  int column[2];
  bool there[2];
};

__device__ __forceinline__ Float8Columns columns_of(const Float8Arguments& a, int column_tile, int warp,
                                                    int lane) {
  const bool has_tile = column_tile < a.column_tiles;
  const int of_warp = warp & 3, g = lane >> 2;
  if (a.paired == 0) {
    const int column = column_tile * kFloat8Columns + 16 * of_warp + g;
    return {{column, column + 8},
            {has_tile && column < a.num_columns, has_tile && column + 8 < a.num_columns}};
  }
  const int half = a.num_columns / 2, column = column_tile * (kFloat8Columns / 2) + 8 * of_warp + g;
  const bool there = has_tile && column < half;
  return {{column, half + column}, {there, there}};
}

// Applies bias and activation to a lane's sums and stores them.
template <int kOctets>
__device__ __forceinline__ void finish_float8(const Float8Arguments& a, const Float8Columns& at,
                                              int first_token, HalfSums<kOctets>& sums) {
  if (a.bias != nullptr) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const float b = at.there[c] ? a.bias[at.column[c]] : 0.0f;
#pragma unroll
      for (int n = 0; n < kOctets; ++n) {
        sums[n][2 * c] += b;
        sums[n][2 * c + 1] += b;
      }
    }
  }
  const bool gated = a.paired != 0 && a.epilogue.activation >= 0;
  if (gated) {
    const auto each = [&](auto function) {
#pragma unroll
      for (int n = 0; n < kOctets; ++n) {
#pragma unroll
        for (int x = 0; x < 2; ++x) sums[n][x] = function(sums[n][x]) * sums[n][2 + x];
      }
    };
    if (a.epilogue.activation == 0) {
      each([](float v) { return activate(0, v); });
    } else {
      each([&](float v) { return activate_rare(a.epilogue.activation, v); });
    }
  }
  with_store(a.epilogue, [&](auto store) {
#pragma unroll
    for (int n = 0; n < kOctets; ++n) {
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        const int row = first_token + 8 * n + (x & 1);
        if (row < a.rows && at.there[x >> 1] && (x < 2 || !gated))
          store(static_cast<size_t>(row) * a.epilogue.stride + at.column[x >> 1], sums[n][x]);
      }
    }
  });
}

// Offsets of a warp's data in a ring slot.
struct Float8Places {
  uint32_t weights;
  uint32_t columns;  // scales of a lane's columns; the second is 8 columns further
  uint32_t tokens;   // scales of a lane's tokens
};

__device__ __forceinline__ Float8Places float8_places(int octets, int groups, int warp, int lane) {
  const uint32_t weights = (warp >> 2) * kFloat8TileStride;
  return {weights, weights + kFloat8CodeBytes + 4 * (16 * (warp & 3) + (lane >> 2)),
          float8_activations_at(groups) + octets * kFloat8OctetBytes + 8 * (lane & 3)};
}

// Scales of a lane's two columns, for a block of K.
struct Float8ColumnScales {
  float of[2];
};
__device__ __forceinline__ Float8ColumnScales column_scales(uint32_t stage, const Float8Places& at) {
  return {{__uint_as_float(load_shared_4(stage + at.columns)),
           __uint_as_float(load_shared_4(stage + at.columns + 32))}};
}

// sums += products of a block by octet `n` of its tokens, scaled.
__device__ __forceinline__ void add_scaled(uint32_t stage, const Float8Places& at,
                                           const Float8ColumnScales& columns, int n,
                                           const float (&products)[4], float (&sums)[4]) {
  const uint2 tokens = load_shared_8(stage + at.tokens + 32 * n);
#pragma unroll
  for (int x = 0; x < 4; ++x) {
    const float token = __uint_as_float((x & 1) == 0 ? tokens.x : tokens.y);
    sums[x] = __fmaf_rn(products[x], __fmul_rn(columns.of[x >> 1], token), sums[x]);
  }
}

}  // namespace
// Allows all kinds of a kernel to use `shared_limit` bytes of dynamic shared memory. Sets `available` to
// whether the library contains them for this card. each_kind calls with each kernel, its octets and its
// groups; threads_of returns the threads of a block by its groups.
template <typename EachKind>
cudaError_t setup_kinds(EachKind each_kind, int32_t (*threads_of)(int32_t groups), int shared_limit,
                        bool* available) {
  cudaError_t error = cudaSuccess;
  *available = true;
  each_kind([&](auto kernel, int, int groups) {
    if (error == cudaSuccess)
      error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_limit);
    cudaFuncAttributes attributes = {};
    if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kernel);
    if (attributes.maxThreadsPerBlock < threads_of(groups)) *available = false;
  });
  return error;
}

}  // namespace quire::kernels
