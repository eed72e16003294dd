#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/gemm/trellis_rows.cuh"
#include "kernels/cuda/pointwise/norm.cuh"
#include "kernels/cuda/pointwise/rotated_rows.h"

namespace quire::kernels {
namespace {

constexpr int kWarps = 8;  // of a thread block, one row each

// Returns four inputs of a row from `column` on.
__device__ __forceinline__ uint2 four_inputs(const RotatedInputs& p, int row, int column) {
  const __half* from = p.source + static_cast<size_t>(row) * p.source_stride + column;
  if (column + 4 <= p.columns && reinterpret_cast<uintptr_t>(from) % 8 == 0)
    return *reinterpret_cast<const uint2*>(from);
  __half v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = column + i < p.columns ? from[i] : __float2half_rn(0.0f);
  return make_uint2(bits_of(__halves2half2(v[0], v[1])), bits_of(__halves2half2(v[2], v[3])));
}

// A lane's scales of a block of 128 inputs, for each part.
struct BlockScales {
  float4 of_part[kMaxParts];
};

__device__ __forceinline__ BlockScales block_scales(const RotatedInputs& p, int block, int lane) {
  BlockScales scales;
#pragma unroll
  for (int part = 0; part < kMaxParts; ++part)
    scales.of_part[part] = __ldg(reinterpret_cast<const float4*>(p.scales[min(part, p.num_parts - 1)]) +
                                 block * (kBlockRows / 4) + lane);
  return scales;
}

// Transforms a block of 128 inputs of a row for each part, by one warp.
__device__ __forceinline__ void rotate_block(const RotatedInputs& p, int row, int block, uint2 inputs,
                                             const BlockScales& scales, int lane) {
#pragma unroll
  for (int part = 0; part < kMaxParts; ++part) {
    if (part >= p.num_parts) return;
    __half* target = p.target + part * p.part_stride;
    transform_inputs(inputs, scales.of_part[part], lane, [&](int stored, __half2 pair) {
      const int column = block * kBlockRows + stored;
      const size_t at = p.arranged ? arranged_at(p.num_blocks, row, column)
                                   : static_cast<size_t>(row) * p.num_blocks * kBlockRows + column;
      *reinterpret_cast<__half2*>(target + at) = pair;
    });
  }
}

// One thread block per 128 inputs of eight rows. Scales do not depend on the previous kernel, so they are
// loaded before the wait for it.
__global__ void __launch_bounds__(32 * kWarps) rotate_inputs_kernel(const __grid_constant__ RotatedInputs p) {
  release_successor();
  const int lane = static_cast<int>(threadIdx.x & 31), block = static_cast<int>(blockIdx.x);
  const int row = static_cast<int>(blockIdx.y) * kWarps + static_cast<int>(threadIdx.x >> 5);
  const BlockScales scales = block_scales(p, block, lane);
  wait_for_predecessor();
  if (row < p.rows)
    rotate_block(p, row, block, four_inputs(p, row, block * kBlockRows + 4 * lane), scales, lane);
}

// One thread block per row, which it normalises first.
template <bool kLayer>
__global__ void __launch_bounds__(kNormThreads)
    norm_rotated_kernel(const __grid_constant__ NormParams norm_params,
                        const __grid_constant__ RotatedInputs p) {
  extern __shared__ __align__(16) __half staged_row[];
  __shared__ float sums[kNormSums];
  constexpr int kNormWarps = kNormThreads / 32;
  release_successor();
  const int row = static_cast<int>(blockIdx.x), warp = static_cast<int>(threadIdx.x >> 5),
            lane = static_cast<int>(threadIdx.x & 31);
  RowNorm<kLayer> norm(norm_params, nullptr);
  BlockScales scales = block_scales(p, min(warp, p.num_blocks - 1), lane);
  for (int c = p.columns + static_cast<int>(threadIdx.x); c < p.num_blocks * kBlockRows; c += kNormThreads)
    staged_row[c] = __float2half_rn(0.0f);
  wait_for_predecessor();
  const size_t from = norm_params.row_index != nullptr ? norm_params.row_index[row] : row;
  const size_t stride = norm_params.input_stride != 0 ? norm_params.input_stride : norm_params.columns;
  norm.run(norm_params.input + from * stride, sums,
           [&](int column, float y) { staged_row[column] = __float2half_rn(y); });
  __syncthreads();
#pragma unroll 1
  for (int block = warp; block < p.num_blocks; block += kNormWarps) {
    const BlockScales coming = block_scales(p, min(block + kNormWarps, p.num_blocks - 1), lane);
    rotate_block(p, row, block, reinterpret_cast<const uint2*>(staged_row + block * kBlockRows)[lane], scales,
                 lane);
    scales = coming;
  }
}

// Bytes of a row in the shared memory that a kernel has by default, besides the sums.
constexpr size_t kMaxStaged = size_t{47} << 10;

// Sums of 128 columns of 8 rows; rows begin at different banks.
constexpr int kSumStride = kHadamardOrder + 4;
using TransformSums = float[kWarps][kSumStride];

// Adds up the partial sums of 128 columns for 8 rows. Each warp reads a half strip.
__device__ __forceinline__ void add_partial_sums(const PartSums& from, int number, TransformSums& to) {
  static_assert(kWarps == 2 * kTransformStrips && kWarps == 8);
  const int warp = static_cast<int>(threadIdx.x >> 5), lane = static_cast<int>(threadIdx.x & 31);
  const int octet = static_cast<int>(blockIdx.y), step = from.tiles * 32;
  const size_t strip = static_cast<size_t>(octet / from.tiles) * from.num_strips + from.first_strip +
                       number * kTransformStrips + warp / 2;
  const float4* at = reinterpret_cast<const float4*>(from.sums) +
                     (strip * 2 + warp % 2) * (from.num_partial_sums * step) + octet % from.tiles * 32 + lane;
  float4 v[kMaxSplits];
#pragma unroll
  for (int s = 0; s < kMaxSplits; ++s)
    if (s < from.num_partial_sums) v[s] = __ldcg(at + s * step);
  float4 sum = v[0];
#pragma unroll
  for (int s = 1; s < kMaxSplits; ++s)
    if (s < from.num_partial_sums)
      sum = make_float4(__fadd_rn(sum.x, v[s].x), __fadd_rn(sum.y, v[s].y), __fadd_rn(sum.z, v[s].z),
                        __fadd_rn(sum.w, v[s].w));
  const int row = 2 * (lane & 3), column = 16 * warp + (lane >> 2);
  to[row][column] = sum.x;
  to[row + 1][column] = sum.y;
  to[row][column + 8] = sum.z;
  to[row + 1][column + 8] = sum.w;
}

// One thread block per transform of 8 rows, one warp per row at the end.
__global__ void __launch_bounds__(32 * kWarps)
    rotate_outputs_kernel(const __grid_constant__ RotatedOutputs p) {
  __shared__ __align__(16) TransformSums sums[2];
  release_successor();
  const int warp = static_cast<int>(threadIdx.x >> 5), lane = static_cast<int>(threadIdx.x & 31);
  const int row = static_cast<int>(blockIdx.y) * kWarps + warp;
  const auto own = [&](int i) { return reinterpret_cast<const float4*>(sums[i][warp])[lane]; };
  int number = static_cast<int>(blockIdx.x);
  if (p.matrix.paired) {
    const PairFinish finish(p, number, lane);
    wait_for_predecessor();
    add_partial_sums(p.parts[0], number, sums[0]);
    add_partial_sums(p.parts[1], number, sums[1]);
    __syncthreads();
    if (row < p.rows) finish.run(own(0), own(1), row);
    return;
  }
  int part = 0;
  for (; number >= p.matrix.parts[part].num_strips / kTransformStrips; ++part)
    number -= p.matrix.parts[part].num_strips / kTransformStrips;
  const PartFinish finish(p, part, number, lane);
  wait_for_predecessor();
  add_partial_sums(p.parts[part], number, sums[0]);
  __syncthreads();
  if (row < p.rows) finish.run(own(0), row);
}

unsigned row_blocks(int32_t rows) {
  return static_cast<unsigned>((rows + kWarps - 1) / kWarps);
}

}  // namespace

cudaError_t launch_rotate_inputs(const RotatedInputs& p, Launch l) {
  return launch_kernel(rotate_inputs_kernel, dim3(static_cast<unsigned>(p.num_blocks), row_blocks(p.rows)),
                       dim3(32 * kWarps), 0, l.stream, l.dependent, p);
}

bool norm_rotated_fits(int32_t num_blocks) {
  return static_cast<size_t>(num_blocks) * kBlockRows * sizeof(__half) <= kMaxStaged;
}

cudaError_t launch_norm_rotated(const NormParams& norm, const RotatedInputs& p, Launch l) {
  const auto kernel = norm.kind == NormKind::layer ? norm_rotated_kernel<true> : norm_rotated_kernel<false>;
  return launch_kernel(kernel, dim3(static_cast<unsigned>(p.rows)), dim3(kNormThreads),
                       static_cast<size_t>(p.num_blocks) * kBlockRows * sizeof(__half), l.stream, l.dependent,
                       norm, p);
}

cudaError_t launch_rotate_outputs(const RotatedOutputs& p, Launch l) {
  const int32_t strips = p.matrix.paired != 0 ? p.matrix.parts[0].num_strips : p.matrix.num_strips;
  return launch_kernel(rotate_outputs_kernel,
                       dim3(static_cast<unsigned>(strips / kTransformStrips), row_blocks(p.rows)),
                       dim3(32 * kWarps), 0, l.stream, l.dependent, p);
}

cudaError_t setup_rotated_rows() {
  return load_kernels(rotate_inputs_kernel, norm_rotated_kernel<true>, norm_rotated_kernel<false>,
                      rotate_outputs_kernel);
}

}  // namespace quire::kernels
