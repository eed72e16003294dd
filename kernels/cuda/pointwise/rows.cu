// Small operations on rows that only few model families need: one block per row.
#include <algorithm>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/cuda/pointwise/row_sum.cuh"

namespace quire::kernels {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

__device__ __forceinline__ float softplus(float x) {
  return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

// Row of f32 or of f16.
template <bool kHalf>
struct Row {
  void* numbers;

  __device__ __forceinline__ float operator[](int c) const {
    if constexpr (kHalf) return __half2float(static_cast<const __half*>(numbers)[c]);
    return static_cast<const float*>(numbers)[c];
  }
  __device__ __forceinline__ void put(int c, float v) const {
    if constexpr (kHalf) {
      static_cast<__half*>(numbers)[c] = __float2half_rn(v);
    } else {
      static_cast<float*>(numbers)[c] = v;
    }
  }
};
template <bool kHalf>
__device__ __forceinline__ Row<kHalf> row_at(const void* rows, size_t at) {
  return {static_cast<uint8_t*>(const_cast<void*>(rows)) + at * (kHalf ? sizeof(__half) : sizeof(float))};
}

template <typename R>
__device__ __forceinline__ float root_mean_square(const R& x, int columns, float* shared) {
  float squares = 0.0f;
  for (int c = threadIdx.x; c < columns; c += kThreads) squares = __fmaf_rn(x[c], x[c], squares);
  return sqrtf(row_sum(squares, shared) / static_cast<float>(columns));
}

template <bool kTarget, bool kA>
__global__ void __launch_bounds__(kThreads) row_op_kernel(const __grid_constant__ RowOpParams p) {
  __shared__ float sums[kThreads / 32];
  release_successor();
  wait_for_predecessor();
  const size_t row = blockIdx.x;
  const Row<kTarget> target =
      row_at<kTarget>(p.target, row * (p.target_stride != 0 ? p.target_stride : p.columns));
  const Row<kA> a = row_at<kA>(p.a, row * (p.a_stride != 0 ? p.a_stride : p.columns));
  const Row<kA> of_all = row_at<kA>(p.a, 0);
  const float b = p.b != nullptr ? p.b[row * (p.b_stride != 0 ? p.b_stride : 1)] : 0.0f;
  const auto each = [&](auto function) {
    for (int c = threadIdx.x; c < p.columns; c += kThreads) target.put(c, function(c, target[c]));
  };
  switch (p.op) {
    case RowOp::scale:
      return each([&](int, float x) { return x * p.factor; });
    case RowOp::add:
      return each([&](int c, float x) { return x + a[c] * p.factor; });
    case RowOp::multiply:
      return each([&](int c, float x) { return x * a[c]; });
    case RowOp::gate:
      return each([&](int c, float x) { return x + a[c] * sigmoid(b); });
    case RowOp::add_by_row:
      return each([&](int c, float x) { return x + a[c] * b; });
    case RowOp::add_columns:
      return each([&](int c, float x) { return x + of_all[c]; });
    case RowOp::sigmoid_multiply:
      return each([&](int c, float x) { return x * sigmoid(a[c]); });
    case RowOp::softplus_by_row:
      return each([&](int, float x) { return x * softplus(b); });
    case RowOp::sigmoid_by_row:
      return each([&](int, float x) { return x * sigmoid(b); });
    case RowOp::scale_columns:
      return each([&](int c, float x) { return x * of_all[c]; });
    case RowOp::match_size: {
      const float of_target = fmaxf(root_mean_square(target, p.columns, sums), p.factor);
      const float factor = root_mean_square(a, p.columns, sums) / of_target;
      return each([&](int, float x) { return x * factor; });
    }
    case RowOp::tanh_rows:
      return each([&](int, float x) { return tanhf(x * p.factor); });
    case RowOp::differ:
      return each([&](int c, float) { return a[c] - p.factor * a[p.columns + c]; });
    case RowOp::copy:
      return each([&](int c, float) { return a[c] * p.factor; });
  }
}

// Normalises rows in place. Each thread writes only columns that no other thread reads.
__global__ void __launch_bounds__(kThreads)
    norm_activations_kernel(const __grid_constant__ NormParams p, __half* rows) {
  __shared__ float sums[kThreads / 32];
  release_successor();
  wait_for_predecessor();
  __half* row = rows + static_cast<size_t>(blockIdx.x) * p.columns;
  const float share = 1.0f / static_cast<float>(p.columns);
  const bool is_layer = p.kind == NormKind::layer;
  float mean = 0.0f, squares = 0.0f;
  if (is_layer) {
    float total = 0.0f;
    for (int c = threadIdx.x; c < p.columns; c += kThreads) total += __half2float(row[c]);
    mean = row_sum(total, sums) * share;
  }
  for (int c = threadIdx.x; c < p.columns; c += kThreads) {
    const float x = __half2float(row[c]) - mean;
    squares = __fmaf_rn(x, x, squares);
  }
  const float root = rsqrtf(__fmaf_rn(row_sum(squares, sums), share, p.epsilon));
  const float scale = p.kind == NormKind::none ? 1.0f : root;
  for (int c = threadIdx.x; c < p.columns; c += kThreads) {
    float y = (__half2float(row[c]) - mean) * scale;
    if (p.weight != nullptr) y *= p.weight[c];
    if (is_layer && p.bias != nullptr) y += p.bias[c];
    row[c] = __float2half_rn(y);
  }
}

// Builds a token's row of q, k and v (MLA): keys are [rotary | rest] in each head.
__global__ void __launch_bounds__(kThreads)
    expand_latent_kernel(const __grid_constant__ ExpandLatentParams p, int values) {
  release_successor();
  wait_for_predecessor();
  const size_t token = blockIdx.x;
  const int heads = p.heads.num_heads, dim = p.heads.head_dim;
  const int rotary = p.rotary_dim, rest = dim - rotary;
  const float* turned = p.latent + token * (p.latent_columns + rotary) + p.latent_columns;
  const float* expanded = p.expanded + token * heads * (rest + values);
  auto* row = static_cast<__half*>(p.qkv) + token * (heads * (2 * dim + values));
  for (int c = threadIdx.x; c < heads * dim; c += kThreads) {
    const int head = c / dim, d = c % dim;
    row[c] = __float2half_rn(p.query[token * heads * dim + c]);
    row[heads * dim + c] =
        __float2half_rn(d < rotary ? turned[d] : expanded[head * (rest + values) + d - rotary]);
  }
  for (int c = threadIdx.x; c < heads * values; c += kThreads)
    row[2 * heads * dim + c] = __float2half_rn(expanded[c / values * (rest + values) + rest + c % values]);
}

struct StreamPointers {
  const float* from[kMostStreams];
  float* to[kMostStreams];
};

__global__ void __launch_bounds__(kThreads)
    mix_streams_kernel(const __grid_constant__ StreamPointers streams, const float* coefficients, int num,
                       int columns) {
  release_successor();
  wait_for_predecessor();
  const size_t token = blockIdx.x;
  const float* of_token = coefficients + token * num * num;
  for (int c = threadIdx.x; c < columns; c += kThreads) {
    for (int i = 0; i < num; ++i) {
      float sum = streams.from[i][token * columns + c];
      for (int j = 0; j < num; ++j)
        sum = __fmaf_rn(of_token[i * num + j], streams.from[j][token * columns + c], sum);
      streams.to[i][token * columns + c] = sum;
    }
  }
}

}  // namespace

cudaError_t launch_row_op(const RowOpParams& p, Launch l) {
  const auto kernel = p.target_is_activation
                          ? (p.a_is_activation ? row_op_kernel<true, true> : row_op_kernel<true, false>)
                          : (p.a_is_activation ? row_op_kernel<false, true> : row_op_kernel<false, false>);
  return launch_kernel(kernel, dim3(static_cast<unsigned>(p.rows)), dim3(kThreads), 0, l.stream, l.dependent,
                       p);
}

cudaError_t launch_norm_activations(const NormParams& p, __half* rows, Launch l) {
  return launch_kernel(norm_activations_kernel, dim3(static_cast<unsigned>(p.rows)), dim3(kThreads), 0,
                       l.stream, l.dependent, p, rows);
}

cudaError_t launch_expand_latent(const ExpandLatentParams& p, Launch l) {
  return launch_kernel(expand_latent_kernel, dim3(static_cast<unsigned>(p.num_tokens)), dim3(kThreads), 0,
                       l.stream, l.dependent, p, value_dim(p.heads));
}

cudaError_t launch_mix_streams(const MixStreamsParams& p, Launch l) {
  StreamPointers streams = {};
  std::copy_n(p.streams, p.num_streams, streams.from);
  std::copy_n(p.targets, p.num_streams, streams.to);
  return launch_kernel(mix_streams_kernel, dim3(static_cast<unsigned>(p.tokens)), dim3(kThreads), 0, l.stream,
                       l.dependent, streams, p.coefficients, p.num_streams, p.columns);
}

cudaError_t setup_rows() {
  return load_kernels(row_op_kernel<true, true>, row_op_kernel<true, false>, row_op_kernel<false, true>,
                      row_op_kernel<false, false>, norm_activations_kernel, expand_latent_kernel,
                      mix_streams_kernel);
}

}  // namespace quire::kernels
