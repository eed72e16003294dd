#include <algorithm>
#include <cuda_bf16.h>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/pointwise/activation.cuh"
#include "kernels/cuda/pointwise/arranged.cuh"
#include "kernels/cuda/pointwise/norm.cuh"
#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/cuda/pointwise/row_sum.cuh"

namespace quire::kernels {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t count, int per_block) {
  return static_cast<unsigned>(std::max<int64_t>(1, (count + per_block - 1) / per_block));
}

__device__ __forceinline__ float table_value(const void* table, DType dtype, size_t at) {
  if (dtype == DType::f16) return __half2float(static_cast<const __half*>(table)[at]);
  if (dtype == DType::bf16) return __bfloat162float(static_cast<const __nv_bfloat16*>(table)[at]);
  return static_cast<const float*>(table)[at];
}

__global__ void embed_kernel(const void* table, DType dtype, const int32_t* ids, int columns, float scale,
                             float* hidden) {
  release_successor();
  wait_for_predecessor();
  const size_t row = blockIdx.y;
  const size_t from = static_cast<size_t>(ids[row]) * columns;
  for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < columns; c += gridDim.x * blockDim.x)
    hidden[row * columns + c] = table_value(table, dtype, from + c) * scale;
}

// One block per row. kStaged: f16 results go through shared memory.
template <bool kLayer, bool kStaged>
__global__ void __launch_bounds__(kNormThreads)
    norm_kernel(const __grid_constant__ NormParams p, const int32_t* place) {
  extern __shared__ __align__(16) __half staged[];
  __shared__ float sums[kNormSums];
  release_successor();
  RowNorm<kLayer> norm(p, place);
  wait_for_predecessor();
  const size_t row = blockIdx.x;
  const size_t from = p.row_index != nullptr ? p.row_index[row] : row;
  const size_t to = row * static_cast<size_t>(p.columns);
  auto* out = static_cast<__half*>(p.output) + to;
  const size_t stride = p.input_stride != 0 ? p.input_stride : p.columns;
  norm.run(p.input + from * stride, sums, [&](int column, float y) {
    if constexpr (kStaged) {
      staged[column] = __float2half_rn(y);
    } else if (p.residual != nullptr) {
      p.residual[to + column] += y;
    } else if (p.output_f32 != nullptr) {
      p.output_f32[to + column] = y;
    } else {
      out[column] = __float2half_rn(y);
    }
  });
  if constexpr (kStaged) {
    __syncthreads();
    copy_normed_row(staged, p.columns, out);
  }
}

// Writes arranged rows, one block per eight rows: with one block per row, each cache line would be written by
// eight blocks. A row is loaded while the one before it is normalised.
template <bool kLayer>
__global__ void __launch_bounds__(kNormThreads, 2)
    norm_arranged_kernel(const __grid_constant__ NormParams p, const int32_t* place) {
  extern __shared__ __align__(16) __half staged[];
  __shared__ float sums[2][kNormSums];
  release_successor();
  RowNorm<kLayer> norm(p, place);
  wait_for_predecessor();
  const int first = blockIdx.x * kStagedOctet, stride = staged_stride(p.columns);
  const int count = min(kStagedOctet, p.rows - first);
  const auto row_at = [&](int i) {
    const size_t row = p.row_index != nullptr ? p.row_index[first + i] : first + i;
    return p.input + row * (p.input_stride != 0 ? p.input_stride : p.columns);
  };
  auto held = norm.fetch(row_at(0));
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const auto coming = norm.fetch(row_at(min(i + 1, count - 1)));
    norm.run(row_at(i), held, sums[i & 1],
             [&](int column, float y) { staged[i * stride + column] = __float2half_rn(y); });
    held = coming;
  }
  __syncthreads();
  const int row = threadIdx.x % kStagedOctet, blocks = p.columns / kBlockRows;
  if (row >= count) return;
  const auto* words = reinterpret_cast<const uint32_t*>(staged + row * stride);
  for (int unit = threadIdx.x / kStagedOctet; unit < blocks * kUnitsOfBlock;
       unit += kNormThreads / kStagedOctet) {
    const uint32_t* from = words + unit_column(unit) / 2;
    store_unit(static_cast<__half*>(p.output), blocks, first + row, unit,
               make_uint4(from[0], from[4], from[8], from[12]));
  }
}

__global__ void rope_angles_kernel(RopeAnglesParams p) {
  release_successor();
  wait_for_predecessor();
  const int half = p.rotary_dim / 2;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.num_tokens * half) return;
  const float angle = static_cast<float>(p.positions[i / half]) * p.inv_freq[i % half];
  float s, c;
  sincosf(angle, &s, &c);
  p.cos[i] = c * p.magnitude;
  p.sin[i] = s * p.magnitude;
}

__global__ void activation_kernel(ActivationParams p) {
  release_successor();
  wait_for_predecessor();
  const size_t row = blockIdx.y;
  const auto* in = static_cast<const __half*>(p.input) + row * p.intermediate * (p.gated ? 2 : 1);
  auto* out = static_cast<__half*>(p.output) + row * p.intermediate;
  for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < p.intermediate; c += gridDim.x * blockDim.x) {
    const float up = p.gated ? __half2float(in[p.intermediate + c]) : 1.0f;
    out[c] = __float2half_rn(gated(p, __half2float(in[c]), up));
  }
}

// Activation with a sparse gate: the gate loses its mean and some standard deviations, and negative results
// become 0. One block per row.
__global__ void __launch_bounds__(kThreads) sparse_activation_kernel(ActivationParams p) {
  __shared__ float sums[kThreads / 32];
  release_successor();
  wait_for_predecessor();
  const size_t row = blockIdx.x;
  const auto* gate = static_cast<const __half*>(p.input) + row * p.intermediate * (p.gated ? 2 : 1);
  auto* out = static_cast<__half*>(p.output) + row * p.intermediate;
  const float share = 1.0f / static_cast<float>(p.intermediate);
  float total = 0.0f;
  for (int c = threadIdx.x; c < p.intermediate; c += kThreads) total += __half2float(gate[c]);
  const float mean = row_sum(total, sums) * share;
  float squares = 0.0f;
  for (int c = threadIdx.x; c < p.intermediate; c += kThreads) {
    const float x = __half2float(gate[c]) - mean;
    squares = __fmaf_rn(x, x, squares);
  }
  const float cutoff = mean + p.sparsity_deviations * sqrtf(row_sum(squares, sums) * share);
  for (int c = threadIdx.x; c < p.intermediate; c += kThreads) {
    const float up = p.gated ? __half2float(gate[p.intermediate + c]) : 1.0f;
    out[c] = __float2half_rn(gated(p, fmaxf(__half2float(gate[c]) - cutoff, 0.0f), up));
  }
}

__global__ void scale_logits_kernel(float* logits, int64_t count, float scale, float softcap) {
  release_successor();
  wait_for_predecessor();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float v = logits[i] * scale;
  if (softcap > 0.0f) v = softcap * tanhf(v / softcap);
  logits[i] = v;
}

// One block per row, which passes through shared memory if it fits: scattered single elements cost a memory
// sector each.
constexpr int kGatherThreads = 512;
constexpr int kMaxStaged = 24 << 10;  // columns
// From this number of rows on, a block handles eight of them; with fewer rows there would be too few blocks.
constexpr int kMinOctetRows = 1024;

// Returns the source columns of columns k to k + 7 of the target, as far as they exist.
__device__ __forceinline__ void order_of_eight(const PlacedRows& p, int k, int (&from)[8]) {
  if (p.order == nullptr) {
#pragma unroll
    for (int i = 0; i < 8; ++i) from[i] = k + i;
  } else if (k + 8 <= p.columns && reinterpret_cast<uintptr_t>(p.order) % 16 == 0) {
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
      const int4 four = __ldg(reinterpret_cast<const int4*>(p.order + k + i));
      from[i] = four.x;
      from[i + 1] = four.y;
      from[i + 2] = four.z;
      from[i + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) from[i] = k + i < p.columns ? p.order[k + i] : 0;
  }
}

// Does the same for columns k and k + 1; k is even.
__device__ __forceinline__ int2 order_of_two(const PlacedRows& p, int k) {
  if (p.order == nullptr) return make_int2(k, k + 1);
  if (k + 2 <= p.columns && reinterpret_cast<uintptr_t>(p.order) % sizeof(int2) == 0)
    return __ldg(reinterpret_cast<const int2*>(p.order + k));
  return make_int2(p.order[k], k + 1 < p.columns ? p.order[k + 1] : 0);
}

__device__ __forceinline__ void stage_row(const PlacedRows& p, int row, int thread, int threads,
                                          __half* staged) {
  const __half* from = p.source + static_cast<size_t>(row) * p.source_stride;
  if (p.columns % 8 == 0 && p.source_stride % 8 == 0) {
    for (int c = thread * 8; c < p.columns; c += threads * 8)
      *reinterpret_cast<uint4*>(staged + c) = *reinterpret_cast<const uint4*>(from + c);
  } else {
    for (int c = thread; c < p.columns; c += threads) staged[c] = from[c];
  }
}

__global__ void __launch_bounds__(kGatherThreads) gather_kernel(const __grid_constant__ PlacedRows p) {
  extern __shared__ __align__(16) __half staged_rows[];
  release_successor();
  wait_for_predecessor();
  const int number = static_cast<int>(blockIdx.x);
  const __half* row = p.source + static_cast<size_t>(number) * p.source_stride;
  if (p.columns <= kMaxStaged) {
    stage_row(p, number, threadIdx.x, kGatherThreads, staged_rows);
    __syncthreads();
    row = staged_rows;
  }
  for (int k = threadIdx.x * 8; k < p.target_stride; k += kGatherThreads * 8) {
    int from[8];
    order_of_eight(p, k, from);
    __half2 pairs[4];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const __half v = k + i < p.columns ? row[from[i]] : __float2half(0.0f);
      (i % 2 == 0 ? pairs[i / 2].x : pairs[i / 2].y) = v;
    }
    const uint4 v = make_uint4(bits_of(pairs[0]), bits_of(pairs[1]), bits_of(pairs[2]), bits_of(pairs[3]));
    if (p.arranged) {
      store_arranged(p.target, p.target_stride / kBlockRows, number, k, v);
    } else {
      *reinterpret_cast<uint4*>(p.target + static_cast<size_t>(number) * p.target_stride + k) = v;
    }
  }
}

// Gathers into arranged rows, one block per eight rows, so that it writes whole cache lines. Two warps load a
// row; then adjacent lanes write one unit of each row.
__global__ void __launch_bounds__(kGatherThreads, 2)
    gather_arranged_kernel(const __grid_constant__ PlacedRows p) {
  extern __shared__ __align__(16) __half staged_rows[];
  release_successor();
  wait_for_predecessor();
  constexpr int kThreadsPerRow = kGatherThreads / kStagedOctet;
  const int first = static_cast<int>(blockIdx.x) * kStagedOctet, stride = staged_stride(p.columns);
  if (const int row = threadIdx.x / kThreadsPerRow; first + row < p.rows)
    stage_row(p, first + row, threadIdx.x % kThreadsPerRow, kThreadsPerRow, staged_rows + row * stride);
  __syncthreads();
  const int row = threadIdx.x % kStagedOctet, blocks = p.target_stride / kBlockRows;
  if (first + row >= p.rows) return;
  const __half* staged = staged_rows + row * stride;
  for (int unit = threadIdx.x / kStagedOctet; unit < blocks * kUnitsOfBlock; unit += kThreadsPerRow) {
    __half2 pairs[4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int k = unit_column(unit) + 8 * i;
      if (k >= p.columns) continue;
      const int2 from = order_of_two(p, k);
      pairs[i].x = staged[from.x];
      if (k + 1 < p.columns) pairs[i].y = staged[from.y];
    }
    store_unit(p.target, blocks, first + row, unit,
               make_uint4(bits_of(pairs[0]), bits_of(pairs[1]), bits_of(pairs[2]), bits_of(pairs[3])));
  }
}

// Tokens that do not exist become zeros. A warp handles a step of 32 rows of 8 tokens at a time.
constexpr int kArrangeWarps = 4, kArrangedAtOnce = 2;

__global__ void __launch_bounds__(32 * kArrangeWarps) arrange_kernel(const __grid_constant__ PlacedRows p) {
  release_successor();
  const int lane = threadIdx.x & 31;
  const int column = blockIdx.x * kBlockRows + (threadIdx.x >> 5) * kStepRows + (lane & 3) * 8;
  wait_for_predecessor();
  uint4 v[kArrangedAtOnce];
#pragma unroll
  for (int i = 0; i < kArrangedAtOnce; ++i) {
    const int token = (blockIdx.y * kArrangedAtOnce + i) * 8 + (lane >> 2);
    v[i] = make_uint4(0, 0, 0, 0);
    if (token < p.rows)
      v[i] =
          *reinterpret_cast<const uint4*>(p.source + static_cast<size_t>(token) * p.source_stride + column);
  }
#pragma unroll
  for (int i = 0; i < kArrangedAtOnce; ++i)
    store_arranged(p.target, gridDim.x, (blockIdx.y * kArrangedAtOnce + i) * 8 + (lane >> 2), column, v[i]);
}

__global__ void finish_rows_kernel(const __grid_constant__ FinishedRows p) {
  release_successor();
  wait_for_predecessor();
  const size_t row = blockIdx.y;
  for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < p.columns; c += gridDim.x * blockDim.x) {
    const float v = p.source[row * p.columns + c] + p.bias[c];
    const size_t at = row * p.stride + c;
    if (p.residual != nullptr) {
      p.residual[at] += v;
    } else if (p.output_f32 != nullptr) {
      p.output_f32[at] = v;
    } else {
      p.output[at] = __float2half_rn(v);
    }
  }
}

size_t octet_bytes(int32_t columns) {
  return static_cast<size_t>(kStagedOctet * staged_stride(columns)) * sizeof(__half);
}

dim3 row_grid(int columns, int rows) {
  return dim3(blocks_for(columns, kThreads * 4), static_cast<unsigned>(rows));
}

}  // namespace

cudaError_t launch_embed(const EmbedParams& p, const void* table, DType dtype, int columns, Launch l) {
  const size_t skipped = static_cast<size_t>(p.first_row) * static_cast<size_t>(columns) * dtype_bytes(dtype);
  const void* first = static_cast<const uint8_t*>(table) + skipped;
  return launch_kernel(embed_kernel, row_grid(columns, p.num_tokens), dim3(kThreads), 0, l.stream,
                       l.dependent, first, dtype, p.token_ids, columns, p.scale, p.hidden);
}

cudaError_t launch_norm(const NormParams& p, const int32_t* place, Launch l) {
  constexpr size_t kMaxStaged = size_t{47} << 10;  // bytes of shared memory that a kernel has by default
  const size_t bytes = static_cast<size_t>(p.columns) * sizeof(__half);
  const bool staged = p.output != nullptr && p.columns % 8 == 0 && bytes <= kMaxStaged;
  const bool layer = p.kind == NormKind::layer;
  const auto kernel = staged ? (layer ? norm_kernel<true, true> : norm_kernel<false, true>)
                             : (layer ? norm_kernel<true, false> : norm_kernel<false, false>);
  return launch_kernel(kernel, dim3(static_cast<unsigned>(p.rows)), dim3(kNormThreads), staged ? bytes : 0,
                       l.stream, l.dependent, p, place);
}

bool norm_arranges(const NormParams& p, uint32_t shared_per_block) {
  constexpr size_t kOfSums = 1024;  // sums, and shared memory reserved by the driver
  return p.rows >= kMinOctetRows && p.columns % kBlockRows == 0 &&
         octet_bytes(p.columns) + kOfSums <= shared_per_block;
}

cudaError_t launch_norm_arranged(const NormParams& p, const int32_t* place, Launch l) {
  const auto kernel = p.kind == NormKind::layer ? norm_arranged_kernel<true> : norm_arranged_kernel<false>;
  return launch_kernel(kernel, dim3(blocks_for(p.rows, kStagedOctet)), dim3(kNormThreads),
                       octet_bytes(p.columns), l.stream, l.dependent, p, place);
}

cudaError_t launch_rope_angles(const RopeAnglesParams& p, Launch l) {
  return launch_kernel(rope_angles_kernel,
                       dim3(blocks_for(int64_t{p.num_tokens} * (p.rotary_dim / 2), kThreads)), dim3(kThreads),
                       0, l.stream, l.dependent, p);
}

cudaError_t launch_activation(const ActivationParams& p, Launch l) {
  if (p.is_sparse)
    return launch_kernel(sparse_activation_kernel, dim3(static_cast<unsigned>(p.rows)), dim3(kThreads), 0,
                         l.stream, l.dependent, p);
  return launch_kernel(activation_kernel, row_grid(p.intermediate, p.rows), dim3(kThreads), 0, l.stream,
                       l.dependent, p);
}

cudaError_t launch_scale_logits(float* logits, int64_t count, float scale, float softcap, Launch l) {
  return launch_kernel(scale_logits_kernel, dim3(blocks_for(count, kThreads)), dim3(kThreads), 0, l.stream,
                       l.dependent, logits, count, scale, softcap);
}

cudaError_t launch_gather(const PlacedRows& p, uint32_t shared_per_block, Launch l) {
  const size_t octet = octet_bytes(p.columns);
  if (p.arranged && p.rows >= kMinOctetRows && octet <= shared_per_block)
    return launch_kernel(gather_arranged_kernel, dim3(blocks_for(p.rows, kStagedOctet)), dim3(kGatherThreads),
                         octet, l.stream, l.dependent, p);
  const size_t staged = p.columns <= kMaxStaged ? static_cast<size_t>(p.columns) * sizeof(__half) : 0;
  return launch_kernel(gather_kernel, dim3(static_cast<unsigned>(p.rows)), dim3(kGatherThreads), staged,
                       l.stream, l.dependent, p);
}

cudaError_t launch_arrange(const PlacedRows& p, Launch l) {
  const int octets = (p.rows + kMaxTileTokens - 1) / kMaxTileTokens * kBroadTiles;
  const dim3 grid(static_cast<unsigned>(p.target_stride / kBlockRows),
                  static_cast<unsigned>(octets / kArrangedAtOnce));
  return launch_kernel(arrange_kernel, grid, dim3(32 * kArrangeWarps), 0, l.stream, l.dependent, p);
}

cudaError_t launch_finish_rows(const FinishedRows& p, Launch l) {
  return launch_kernel(finish_rows_kernel, row_grid(p.columns, p.rows), dim3(kThreads), 0, l.stream,
                       l.dependent, p);
}

cudaError_t setup_pointwise(int shared_limit) {
  const auto allow = [&](auto kernel) {
    cudaFuncAttributes attributes;
    if (const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel); error != cudaSuccess)
      return error;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                shared_limit - static_cast<int>(attributes.sharedSizeBytes));
  };
  for (const auto kernel : {norm_arranged_kernel<true>, norm_arranged_kernel<false>})
    if (const cudaError_t error = allow(kernel); error != cudaSuccess) return error;
  if (const cudaError_t error = allow(gather_arranged_kernel); error != cudaSuccess) return error;
  return load_kernels(embed_kernel, norm_kernel<true, true>, norm_kernel<true, false>,
                      norm_kernel<false, true>, norm_kernel<false, false>, rope_angles_kernel,
                      activation_kernel, sparse_activation_kernel, scale_logits_kernel, gather_kernel,
                      arrange_kernel, finish_rows_kernel);
}

}  // namespace quire::kernels
