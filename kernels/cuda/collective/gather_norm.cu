// All-gather of rows of f32 together with the norm that reads them. One block per row: it sends its columns,
// receives those of the peers, writes the row, and normalizes it as norm_kernel does, to the same bits.
//
// Words lie in the inboxes as those of gather_inline with units of 8 bytes, so a peer may gather with either.
// A thread receives the columns that it normalizes, so they stay in registers.
#include <algorithm>

#include "kernels/cuda/collective/gather.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/pointwise/norm.cuh"

namespace quire::kernels {
namespace {

constexpr int32_t kQuadBytes = sizeof(float4);
constexpr size_t kMostStaged = size_t{46} << 10;  // bytes of shared memory besides the sums

// Rows in groups of four columns.
struct QuadRows {
  const GatherArguments& a;

  __device__ __forceinline__ int first_of(int source) const { return a.starts[source] / kQuadBytes; }
  __device__ __forceinline__ int per_row() const { return first_of(a.num_shards); }
  __device__ __forceinline__ bool is_own(int q) const {
    return q >= first_of(a.rank) && q < first_of(a.rank + 1);
  }
  __device__ __forceinline__ const float4* input(int row, int q) const {
    const uint8_t* from = a.input + static_cast<uint64_t>(row) * static_cast<uint64_t>(a.input_stride);
    return reinterpret_cast<const float4*>(from) + (q - first_of(a.rank));
  }
  __device__ __forceinline__ float4* output(int row) const {
    return reinterpret_cast<float4*>(a.output) +
           static_cast<uint64_t>(row) * static_cast<uint64_t>(per_row());
  }
  // Returns the words of a group of a source's columns in the inbox of `owner`.
  __device__ __forceinline__ uint64_t* words(int owner, int source, uint64_t epoch, int row, int q) const {
    const int width = first_of(source + 1) - first_of(source);
    const uint64_t at = static_cast<uint64_t>(row) * static_cast<uint64_t>(width) +
                        static_cast<uint64_t>(q - first_of(source));
    return a.inboxes[owner].words + source_at(a, epoch, source) + 4 * at;
  }
  __device__ __forceinline__ int source_of(int q) const {
    int source = 0;
    while (q >= first_of(source + 1)) ++source;
    return source;
  }
};

// Loads two groups of columns that this shard computed of a row: number `q`, and the one kNormThreads later.
__device__ __forceinline__ void load_own(const QuadRows& rows, int row, int q, float4 (&v)[2]) {
#pragma unroll
  for (int j = 0; j < 2; ++j)
    if (const int at = q + j * kNormThreads; at < rows.first_of(rows.a.rank + 1)) v[j] = *rows.input(row, at);
}

// Sends them to all peers.
__device__ __forceinline__ void send_own(const QuadRows& rows, uint64_t epoch, int row, int q,
                                         const float4 (&v)[2]) {
  const GatherArguments& a = rows.a;
  const uint32_t mark = mark_of(epoch);
  for (int peer = 0; peer < a.num_shards; ++peer) {
    if (peer == a.rank) continue;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int at = q + j * kNormThreads;
      if (at >= rows.first_of(a.rank + 1)) continue;
      uint64_t* const to = rows.words(peer, a.rank, epoch, row, at);
      const float4 f = v[j];
      store_words(to,
                  make_ulonglong2(marked(__float_as_uint(f.x), mark), marked(__float_as_uint(f.y), mark)));
      store_words(to + 2,
                  make_ulonglong2(marked(__float_as_uint(f.z), mark), marked(__float_as_uint(f.w), mark)));
    }
  }
}

// Writes the groups q and q + kNormThreads of a row to the result once they have come, and to `v`.
__device__ __forceinline__ void receive_two(const QuadRows& rows, uint64_t epoch, int row, int q,
                                            float4 (&v)[2]) {
  const GatherArguments& a = rows.a;
  const uint32_t mark = mark_of(epoch);
  const uint64_t* from[2] = {};
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int at = q + j * kNormThreads;
    if (at >= rows.per_row()) continue;
    if (rows.is_own(at)) {
      v[j] = *rows.input(row, at);
    } else {
      from[j] = rows.words(a.rank, rows.source_of(at), epoch, row, at);
    }
  }
  Patience patience(a);
  for (bool all = false; !all; all = all || patience.is_over()) {
    all = true;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      if (from[j] == nullptr) continue;
      const ulonglong2 low = load_words(from[j]), high = load_words(from[j] + 2);
      all = all && low.x >> 32 == mark && low.y >> 32 == mark && high.x >> 32 == mark && high.y >> 32 == mark;
      v[j] = make_float4(
          __uint_as_float(static_cast<uint32_t>(low.x)), __uint_as_float(static_cast<uint32_t>(low.y)),
          __uint_as_float(static_cast<uint32_t>(high.x)), __uint_as_float(static_cast<uint32_t>(high.y)));
    }
  }
#pragma unroll
  for (int j = 0; j < 2; ++j)
    if (q + j * kNormThreads < rows.per_row()) rows.output(row)[q + j * kNormThreads] = v[j];
}

// kStaged: f16 results go through shared memory.
template <bool kLayer, bool kStaged>
__global__ void __launch_bounds__(kNormThreads + kCountingThreads, 1)
    gather_norm_kernel(const __grid_constant__ GatherArguments a, const __grid_constant__ NormParams p,
                       const int32_t* place) {
  extern __shared__ __align__(16) __half staged[];
  __shared__ float sums[kNormSums];
  RowNorm<kLayer> norm(p, place);
  begin_gather(a);
  const QuadRows rows{a};
  const int first_own = rows.first_of(a.rank) + threadIdx.x;
  float4 ahead[2];  // the first groups, loaded while the epoch comes
  load_own(rows, blockIdx.x, first_own, ahead);
  const uint64_t epoch = read_epoch(a);
  if (threadIdx.x >= kNormThreads) return advance_epoch(a, epoch + 1);
  for (int row = static_cast<int>(blockIdx.x); row < a.rows; row += gridDim.x) {
    for (int q = first_own; q < rows.first_of(a.rank + 1); q += 2 * kNormThreads) {
      if (row != static_cast<int>(blockIdx.x) || q != first_own) load_own(rows, row, q, ahead);
      send_own(rows, epoch, row, q, ahead);
    }
  }
  for (int row = blockIdx.x; row < a.rows; row += gridDim.x) {
    typename RowNorm<kLayer>::Held held = {};
    static_assert(RowNorm<kLayer>::kRegisterGroups == 2);
    receive_two(rows, epoch, row, threadIdx.x, held.fours);
    for (int q = threadIdx.x + 2 * kNormThreads; q < rows.per_row(); q += 2 * kNormThreads) {
      float4 more[2];
      receive_two(rows, epoch, row, q, more);
    }
    // While the CUDA emulation waits for a peer, kernels of other cards use the same shared memory.
    __syncthreads();
    const size_t to = static_cast<size_t>(row) * p.columns;
    norm.run(reinterpret_cast<const float*>(rows.output(row)), held, sums, [&](int column, float y) {
      if constexpr (kStaged) {
        staged[column] = __float2half_rn(y);
      } else if (p.residual != nullptr) {
        p.residual[to + column] += y;
      } else if (p.output_f32 != nullptr) {
        p.output_f32[to + column] = y;
      } else {
        static_cast<__half*>(p.output)[to + column] = __float2half_rn(y);
      }
    });
    __syncthreads();
    if constexpr (kStaged) copy_normed_row(staged, p.columns, static_cast<__half*>(p.output) + to);
    __syncthreads();
  }
}

bool is_staged(const NormParams& norm) {
  return norm.output != nullptr && norm.columns % 8 == 0 &&
         static_cast<size_t>(norm.columns) * sizeof(__half) <= kMostStaged;
}

}  // namespace

// A shard without columns would send nothing by which its peers know that it has come.
bool gathers_within(const GatherArguments& a, const GatherPlan& plan, const NormParams& norm) {
  bool cut_by_fours = true;
  for (int r = 0; r < a.num_shards; ++r)
    cut_by_fours = cut_by_fours && a.starts[r] < a.starts[r + 1] && a.starts[r + 1] % kQuadBytes == 0;
  return plan.is_inline && plan.unit_bytes == 8 && cut_by_fours && a.output != nullptr &&
         a.place == nullptr && norm.input == reinterpret_cast<const float*>(a.output) &&
         norm.row_index == nullptr && norm.rows == a.rows &&
         static_cast<int64_t>(norm.columns) * static_cast<int64_t>(sizeof(float)) == a.starts[a.num_shards] &&
         (norm.input_stride == 0 || norm.input_stride == norm.columns);
}

cudaError_t launch_gather_norm(const GatherArguments& arguments, const NormParams& norm, const int32_t* place,
                               Launch l) {
  const bool staged = is_staged(norm), layer = norm.kind == NormKind::layer;
  const auto kernel = staged ? (layer ? gather_norm_kernel<true, true> : gather_norm_kernel<false, true>)
                             : (layer ? gather_norm_kernel<true, false> : gather_norm_kernel<false, false>);
  const size_t bytes = staged ? static_cast<size_t>(norm.columns) * sizeof(__half) : 0;
  return launch_kernel(kernel, dim3(static_cast<unsigned>(std::min(arguments.rows, arguments.max_blocks))),
                       dim3(kNormThreads + kCountingThreads), bytes, l.stream, l.dependent, arguments, norm,
                       place);
}

cudaError_t setup_gather_norm() {
  return load_kernels(gather_norm_kernel<false, false>, gather_norm_kernel<false, true>,
                      gather_norm_kernel<true, false>, gather_norm_kernel<true, true>);
}

}  // namespace quire::kernels
