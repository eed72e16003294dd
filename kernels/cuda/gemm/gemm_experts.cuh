// Products of rows by the matrices of their experts: the narrow kernel for a row by itself, the wide one for
// tiles of 16, 32 and 64. The matrix of a thread block's expert comes into its
// shared memory first; what a row gives has the bits of a product with that matrix alone.
#pragma once

#include "kernels/cuda/gemm/gemm_narrow.cuh"
#include "kernels/cuda/gemm/gemm_wide.cuh"

namespace quire::kernels {

// The arguments with the matrix of the block's expert, in shared memory after what the shape says; nullptr
// where the block has nothing to do. By all threads, once the predecessor has ended.
template <TileKind kKind>
__device__ __forceinline__ const ExpertArguments* arguments_of_expert(const ExpertArguments& a,
                                                                      uint8_t* shared) {
  static_assert(sizeof(ExpertArguments) % 4 == 0);  // the matrix comes first
  constexpr int kMatrixWords = sizeof(Matrix) / 4, kWords = sizeof(ExpertArguments) / 4;
  const int expert = a.experts[blockIdx.x];
  if (expert < 0) return nullptr;
  const auto* from_matrix =
      reinterpret_cast<const uint32_t*>(&a.records[static_cast<size_t>(expert) * a.record_stride].matrix);
  const auto* from_rest = reinterpret_cast<const uint32_t*>(&a);
  auto* to = reinterpret_cast<uint32_t*>(shared + a.shape.shared_bytes);
#pragma unroll 1
  for (int i = threadIdx.x; i < kWords; i += blockDim.x)
    to[i] = i < kMatrixWords ? __ldg(from_matrix + i) : from_rest[i];
  __syncthreads();
  const auto* arguments = reinterpret_cast<const ExpertArguments*>(to);
  const bool is_of_kind = arguments->matrix.num_parts != 0 && arguments->matrix.kind == kKind;
  return is_of_kind ? arguments : nullptr;
}

// Row blockIdx.x into shared memory in the order of the expert's rows, zeros after it.
__device__ __forceinline__ void bring_expert_row(const ExpertArguments& a, uint8_t* shared) {
  const int row = blockIdx.x, columns = a.matrix.num_rows, padded = a.matrix.num_blocks * kBlockRows;
  const int32_t* order = a.records[static_cast<size_t>(a.experts[row]) * a.record_stride].row_order;
  const __half* from = a.input + static_cast<size_t>(row / a.rows_per_input) * columns;
  const float factor = a.input_scale != nullptr ? a.input_scale[row] : 1.0f;
  auto* to = reinterpret_cast<__half*>(shared + a.shape.activations_at);
#pragma unroll 2
  for (int k = threadIdx.x; k < padded; k += kNarrowThreads) {
    const __half v = k < columns ? from[order != nullptr ? order[k] : k] : __half();
    to[k] = a.input_scale != nullptr ? __float2half_rn(__half2float(v) * factor) : v;
  }
  __syncthreads();
}

// A row by itself.
template <TileKind kKind>
__global__ void __launch_bounds__(kNarrowThreads, 2)
    expert_narrow_kernel(const __grid_constant__ ExpertArguments arguments) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  wait_for_predecessor();
  const ExpertArguments* a = arguments_of_expert<kKind>(arguments, shared);
  if (a == nullptr) return;
  multiply_narrow<kKind, true>(*a, shared, static_cast<int>(blockIdx.x), 1,
                               [&](const ChainShare&, int) { bring_expert_row(*a, shared); });
}

// kTiles: tiles of 8 rows.
template <TileKind kKind, int kTiles>
__global__ void __launch_bounds__(kWideThreads<kTiles>, 1)
    expert_wide_kernel(const __grid_constant__ ExpertArguments arguments) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  wait_for_predecessor();
  const ExpertArguments* a = arguments_of_expert<kKind>(arguments, shared);
  if (a == nullptr) return;
  multiply_wide<kKind, kTiles>(*a, shared);
}

template <TileKind kKind>
cudaError_t launch_expert_gemm(const ExpertArguments& a, int32_t tiles, cudaStream_t stream, bool dependent) {
  const GemmShape& s = a.shape;
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(s.blocks));
  const auto kernel = s.tiles == 8   ? expert_wide_kernel<kKind, 8>
                      : s.tiles == 4 ? expert_wide_kernel<kKind, 4>
                      : s.tiles == 2 ? expert_wide_kernel<kKind, 2>
                                     : expert_narrow_kernel<kKind>;
  const int threads = s.tiles == 1 ? kNarrowThreads : wide_threads(s.strips);
  return launch_kernel(kernel, grid, dim3(static_cast<unsigned>(threads)), s.shared_bytes + kExpertBytes,
                       stream, dependent, a);
}

template <TileKind kKind>
cudaError_t setup_expert_gemm(int shared_limit) {
  for (const auto kernel : {expert_wide_kernel<kKind, 8>, expert_wide_kernel<kKind, 4>,
                            expert_wide_kernel<kKind, 2>, expert_narrow_kernel<kKind>}) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_limit);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace quire::kernels
