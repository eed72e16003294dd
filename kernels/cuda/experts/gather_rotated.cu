// Inputs of products of tiles with the EXL3 matrices of their experts: rows gathered and transformed. Each
// row is read and written once for each part. See trellis_rows.cuh for the transforms.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/experts/experts.h"
#include "kernels/cuda/gemm/trellis_rows.cuh"

namespace quire::kernels {
namespace {

constexpr int kSlots = 8;  // of a tile, one warp each

// Returns four inputs of a row, from stored row k on, times its scale.
__device__ __forceinline__ uint2 four_inputs(const ExpertGather& g, const int32_t* order, int row, int k) {
  const __half* from = g.input + static_cast<size_t>(row / g.rows_per_input) * g.columns;
  const float factor = g.input_scale != nullptr ? g.input_scale[row] : 1.0f;
  __half v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    v[i] = __float2half_rn(0.0f);
    if (k + i >= g.columns) continue;
    v[i] = from[order != nullptr ? order[k + i] : k + i];
    if (g.input_scale != nullptr) v[i] = __float2half_rn(__half2float(v[i]) * factor);
  }
  return make_uint2(bits_of(__halves2half2(v[0], v[1])), bits_of(__halves2half2(v[2], v[3])));
}

// One thread block per 128 inputs of a tile.
__global__ void __launch_bounds__(32 * kSlots)
    gather_rotated_kernel(const __grid_constant__ ExpertGather g, const __grid_constant__ ExpertTiles tiles) {
  release_successor();
  const int warp = static_cast<int>(threadIdx.x >> 5), lane = static_cast<int>(threadIdx.x & 31);
  const int block = static_cast<int>(blockIdx.x), slot = static_cast<int>(blockIdx.y) * kSlots + warp;
  wait_for_predecessor();
  const int expert = tiles.experts[blockIdx.y];
  if (expert < 0) return;
  const int row = tiles.rows_of_slots[slot];
  const MatrixRecord& record = g.records[static_cast<size_t>(expert) * g.record_stride];
  const Matrix& m = record.matrix;
  if (row < 0 || m.num_parts == 0 || m.kind != TileKind::trellis) return;
  const int k = block * kBlockRows + 4 * lane;
  const uint2 inputs = four_inputs(g, record.row_order, row, k);
#pragma unroll 1
  for (int part = 0; part < m.num_parts; ++part) {
    const float4 scales = __ldg(reinterpret_cast<const float4*>(m.parts[part].trellis.input_scales + k));
    __half* target = g.target + part * g.part_stride + static_cast<size_t>(slot) * g.stride;
    transform_inputs(inputs, scales, lane, [&](int stored, __half2 pair) {
      *reinterpret_cast<__half2*>(target + block * kBlockRows + stored) = pair;
    });
  }
}

}  // namespace

cudaError_t launch_gather_rotated(const ExpertGather& g, const ExpertTiles& tiles, Launch l) {
  return launch_kernel(
      gather_rotated_kernel,
      dim3(static_cast<unsigned>(g.stride / kBlockRows), static_cast<unsigned>(tiles.num_tiles)),
      dim3(32 * kSlots), 0, l.stream, l.dependent, g, tiles);
}

cudaError_t setup_gather_rotated() {
  return load_kernels(gather_rotated_kernel);
}

}  // namespace quire::kernels
