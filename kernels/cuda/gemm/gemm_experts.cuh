// Products of rows with the matrices of their experts (MoE): the narrow kernel for single rows, the wide one
// for tiles of 16, 32 and 64. Each thread block first copies the record of its expert's matrix to shared
// memory. The result of a row has the same bits as a product with that matrix alone.
#pragma once

#include "kernels/cuda/gemm/gemm_narrow.cuh"
#include "kernels/cuda/gemm/gemm_wide.cuh"

namespace quire::kernels {

// Prefetches the records of all experts into L2 before it is known which are needed: each thread of the first
// blocks prefetches one cache line.
__device__ __forceinline__ void prefetch_records(const ExpertArguments& a) {
  constexpr int kLine = 128, kLines = (sizeof(MatrixRecord) + kLine - 1) / kLine;
  const int line = static_cast<int>((blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x);
  if (line >= a.num_experts * kLines) return;
  const auto* record = a.records + static_cast<size_t>(line / kLines) * a.record_stride;
  prefetch_line(reinterpret_cast<const uint8_t*>(record) + line % kLines * kLine);
}

// Copies the record of the block's expert to shared memory, after the memory of the shape. Returns nullptr if
// the block has nothing to do. Called by all threads after the previous kernel has ended.
template <TileKind kKind>
__device__ __forceinline__ const MatrixRecord* load_record(const ExpertArguments& a, uint8_t* shared) {
  static_assert(sizeof(MatrixRecord) % 8 == 0);
  const int expert = a.experts[blockIdx.x];
  if (expert < 0) return nullptr;
  const auto* from =
      reinterpret_cast<const uint2*>(a.records + static_cast<size_t>(expert) * a.record_stride);
  auto* to = reinterpret_cast<uint2*>(shared + a.shape.shared_bytes);
#pragma unroll 1
  for (int i = threadIdx.x; i < static_cast<int>(sizeof(MatrixRecord) / 8); i += blockDim.x)
    to[i] = __ldg(from + i);
  __syncthreads();
  const auto* record = reinterpret_cast<const MatrixRecord*>(to);
  const bool is_of_kind = record->matrix.num_parts != 0 && record->matrix.kind == kKind;
  return is_of_kind ? record : nullptr;
}

// Loads the row of a block into shared memory, in the order of the expert's rows. Each load starts as soon as
// its address is known: that of the row before its expert is known, if there is memory for it, and that of
// the row order before the weights.
class ExpertRow {
 public:
  __device__ __forceinline__ ExpertRow(const ExpertArguments& a, uint8_t* shared)
      : a_(a), from_(a.input + static_cast<size_t>(blockIdx.x / a.rows_per_input) * a.matrix.num_rows) {
    if (a.staged_bytes == 0) return;
    uint8_t* staged = shared + a.shape.shared_bytes + kExpertBytes;
    const uint32_t to = shared_address(staged);
    const auto* from = reinterpret_cast<const uint8_t*>(from_);
#pragma unroll 1
    for (int i = threadIdx.x * 16; i < a.matrix.num_rows * 2; i += kNarrowThreads * 16)
      copy_async_16(to + i, from + i);
    commit_copies();
    from_ = reinterpret_cast<const __half*>(staged);
  }
  __device__ __forceinline__ void find_order(const int32_t* order) {
    order_ = order;
    first_ = places(4 * threadIdx.x);
  }
  // Completes the load; pads the row with zeros.
  __device__ __forceinline__ void bring(uint8_t* activations) const {
    const int columns = a_.matrix.num_rows, padded = a_.matrix.num_blocks * kBlockRows;
    const float factor = a_.input_scale != nullptr ? a_.input_scale[blockIdx.x] : 1.0f;
    auto* to = reinterpret_cast<__half*>(activations);
    wait_for_copies<0>();
    __syncthreads();
    int4 next = first_;
#pragma unroll 1
    for (int k = 4 * threadIdx.x; k < padded; k += 4 * kNarrowThreads) {
      const int at[4] = {next.x, next.y, next.z, next.w};
      next = places(k + 4 * kNarrowThreads);
      __half numbers[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const __half v = k + i < columns ? from_[at[i]] : __half();
        numbers[i] = a_.input_scale != nullptr ? __float2half_rn(__half2float(v) * factor) : v;
      }
      *reinterpret_cast<uint2*>(to + k) = make_uint2(bits_of(__halves2half2(numbers[0], numbers[1])),
                                                     bits_of(__halves2half2(numbers[2], numbers[3])));
    }
    __syncthreads();
  }

 private:
  // Returns the input features of stored rows k to k + 3.
  __device__ __forceinline__ int4 places(int k) const {
    if (order_ == nullptr || k >= a_.matrix.num_rows) return make_int4(k, k + 1, k + 2, k + 3);
    return __ldg(reinterpret_cast<const int4*>(order_ + k));
  }

  const ExpertArguments& a_;
  const __half* from_;  // the row: in shared memory if it was copied there unordered
  const int32_t* order_ = nullptr;
  int4 first_ = {};
};

// Handles single rows.
template <TileKind kKind>
__global__ void __launch_bounds__(kNarrowThreads, 2)
    expert_narrow_kernel(const __grid_constant__ ExpertArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  prefetch_records(a);
  wait_for_predecessor();
  ExpertRow row(a, shared);
  const MatrixRecord* record = load_record<kKind>(a, shared);
  if (record == nullptr) return;
  row.find_order(record->row_order);
  multiply_narrow<kKind, true>(ExpertWork(record->matrix, a), shared, static_cast<int>(blockIdx.x), 1,
                               [&](const ChainShare& share, int lane) {
                                 uint8_t* activations = shared + a.shape.activations_at;
                                 if constexpr (kKind == TileKind::trellis) {
                                   ChainTransform transform(record->matrix, a.shape, share, lane);
                                   row.bring(activations + trellis_row_at(record->matrix));
                                   transform.run(activations);
                                 } else {
                                   row.bring(activations);
                                 }
                               });
}

// kTiles: tiles of 8 rows.
template <TileKind kKind, int kTiles>
__global__ void __launch_bounds__(kWideThreads, kWideBlocks<kTiles>)
    expert_wide_kernel(const __grid_constant__ ExpertArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  prefetch_records(a);
  wait_for_predecessor();
  const MatrixRecord* record = load_record<kKind>(a, shared);
  if (record != nullptr) multiply_tile<kKind, kTiles>(ExpertWork(record->matrix, a), shared);
}

template <TileKind kKind>
cudaError_t launch_expert_gemm(const ExpertArguments& a, int32_t tiles, cudaStream_t stream, bool dependent) {
  const GemmShape& s = a.shape;
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(s.blocks));
  const auto kernel = s.tiles == 8   ? expert_wide_kernel<kKind, 8>
                      : s.tiles == 4 ? expert_wide_kernel<kKind, 4>
                      : s.tiles == 2 ? expert_wide_kernel<kKind, 2>
                                     : expert_narrow_kernel<kKind>;
  return launch_kernel(kernel, grid, dim3(static_cast<unsigned>(s.threads)),
                       s.shared_bytes + kExpertBytes + a.staged_bytes, stream, dependent, a);
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
