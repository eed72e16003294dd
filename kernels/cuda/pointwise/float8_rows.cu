#include <cuda_fp8.h>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/pointwise/float8_rows.h"
#include "kernels/cuda/pointwise/norm.cuh"

namespace quire::kernels {
namespace {

// Rounds a warp's block of a row, four elements per lane. A NaN in a block makes its codes and its scale NaN.
__device__ __forceinline__ void round_block(const Float8Rows& to, int row, int block, const float (&v)[4],
                                            int lane) {
  float largest = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) largest = fmaxf(largest, fabsf(v[i]));
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, d));
  const float factor = largest > 0.0f ? __fdiv_rn(kLargestE4m3, largest) : 0.0f;
  uint32_t codes = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    codes |= static_cast<uint32_t>(__nv_cvt_float_to_fp8(__fmul_rn(v[i], factor), __NV_SATFINITE, __NV_E4M3))
             << (8 * i);
  const int octet = row / kFloat8Octet, tile = octet / to.octets, in_tile = octet - tile * to.octets;
  uint8_t* at =
      to.tiles + (static_cast<size_t>(block) * to.token_tiles + tile) * float8_token_bytes(to.octets);
  *reinterpret_cast<uint32_t*>(at + in_tile * kFloat8OctetBytes + float8_place(row, 4 * lane)) = codes;
  if (lane != 0) return;
  auto* scales = reinterpret_cast<float*>(at + to.octets * kFloat8OctetBytes);
  scales[in_tile * kFloat8Octet + row % kFloat8Octet] = __fmul_rn(largest, 1.0f / kLargestE4m3);
}

// Loads four elements of a row from `first` on, zeros beyond the end.
__device__ __forceinline__ void load_four(const __half* row, int first, int columns, bool aligned,
                                          float (&v)[4]) {
  if (aligned && first + 4 <= columns) {
    const uint2 pairs = *reinterpret_cast<const uint2*>(row + first);
    const float2 low = __half22float2(half2_of(pairs.x)), high = __half22float2(half2_of(pairs.y));
    v[0] = low.x;
    v[1] = low.y;
    v[2] = high.x;
    v[3] = high.y;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = first + i < columns ? __half2float(row[first + i]) : 0.0f;
}

constexpr int kWarps = 8;

__global__ void __launch_bounds__(32 * kWarps)
    round_float8_kernel(const __half* source, int stride, const __grid_constant__ Float8Rows to) {
  release_successor();
  wait_for_predecessor();
  const int block = blockIdx.x * kWarps + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  const int row = blockIdx.y, first = block * kBlockRows + 4 * lane;
  if (block * kBlockRows >= to.columns) return;
  float v[4] = {};
  if (row < to.rows)
    load_four(source + static_cast<size_t>(row) * stride, first, to.columns, stride % 4 == 0, v);
  round_block(to, row, block, v, lane);
}

template <bool kLayer>
__global__ void __launch_bounds__(kNormThreads)
    norm_float8_kernel(const __grid_constant__ NormParams p, const __grid_constant__ Float8Rows to) {
  extern __shared__ __align__(16) __half staged_row[];
  __shared__ float sums[2 * kNormThreads / 32];
  release_successor();
  RowNorm<kLayer> norm(p, nullptr);
  wait_for_predecessor();
  const int row = blockIdx.x, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const bool there = row < to.rows;
  if (there) {
    const size_t from = p.row_index != nullptr ? p.row_index[row] : row;
    const size_t stride = p.input_stride != 0 ? p.input_stride : p.columns;
    norm.run(p.input + from * stride, sums,
             [&](int column, float y) { staged_row[column] = __float2half_rn(y); });
    __syncthreads();
  }
  for (int block = warp; block * kBlockRows < p.columns; block += kNormThreads / 32) {
    float v[4] = {};
    if (there) load_four(staged_row, block * kBlockRows + 4 * lane, p.columns, true, v);
    round_block(to, row, block, v, lane);
  }
}

// Shared memory that a kernel has by default, minus the sums.
constexpr size_t kMaxStaged = size_t{47} << 10;

}  // namespace

cudaError_t launch_round_float8(const __half* source, int32_t stride, const Float8Rows& to, Launch l) {
  const int blocks = (to.columns + kBlockRows - 1) / kBlockRows;
  const dim3 grid(static_cast<unsigned>((blocks + kWarps - 1) / kWarps),
                  static_cast<unsigned>(to.padded_rows()));
  return launch_kernel(round_float8_kernel, grid, dim3(32 * kWarps), 0, l.stream, l.dependent, source, stride,
                       to);
}

bool norm_float8_fits(const NormParams& p) {
  return static_cast<size_t>(p.columns) * sizeof(__half) <= kMaxStaged;
}

cudaError_t launch_norm_float8(const NormParams& p, const Float8Rows& to, Launch l) {
  const auto kernel = p.kind == NormKind::layer ? norm_float8_kernel<true> : norm_float8_kernel<false>;
  return launch_kernel(kernel, dim3(static_cast<unsigned>(to.padded_rows())), dim3(kNormThreads),
                       static_cast<size_t>(p.columns) * sizeof(__half), l.stream, l.dependent, p, to);
}

cudaError_t setup_float8_rows() {
  return load_kernels(round_float8_kernel, norm_float8_kernel<true>, norm_float8_kernel<false>);
}

}  // namespace quire::kernels
