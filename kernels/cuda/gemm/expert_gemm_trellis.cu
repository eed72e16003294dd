#include "kernels/cuda/gemm/gemm_experts.cuh"

namespace quire::kernels {
namespace {

// Handles a tile of 8 rows, whose inputs launch_gather_rotated has transformed. It costs hardly more than a
// single row, because decoding the weights takes most of the time.
__global__ void __launch_bounds__(kNarrowThreads, 2)
    expert_octet_kernel(const __grid_constant__ ExpertArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  prefetch_records(a);
  wait_for_predecessor();
  const MatrixRecord* record = load_record<TileKind::trellis>(a, shared);
  if (record == nullptr) return;
  const int first = static_cast<int>(blockIdx.x) * 8, lane = threadIdx.x & 31;
  // The slots of a tile are filled from the first on.
  const int tokens = __popc(__ballot_sync(0xffffffffU, lane < 8 && a.rows_of_slots[first + lane % 8] >= 0));
  multiply_narrow<TileKind::trellis, false>(ExpertWork(record->matrix, a), shared, first, tokens,
                                            [](const ChainShare&, int) {});
}

}  // namespace

cudaError_t launch_expert_gemm_trellis(const ExpertArguments& a, int32_t tiles, cudaStream_t stream,
                                       bool dependent) {
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(a.shape.blocks));
  return launch_kernel(
      a.rows_of_slots != nullptr ? expert_octet_kernel : expert_narrow_kernel<TileKind::trellis>, grid,
      dim3(kNarrowThreads), a.shape.shared_bytes + kExpertBytes + a.staged_bytes, stream, dependent, a);
}

cudaError_t setup_expert_gemm_trellis(int shared_limit) {
  const cudaError_t error =
      cudaFuncSetAttribute(expert_octet_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_limit);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(expert_narrow_kernel<TileKind::trellis>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize, shared_limit);
}

}  // namespace quire::kernels
