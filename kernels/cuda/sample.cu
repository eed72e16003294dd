// One block per row: edits and mask, then cuts by radix selection over (logit, id), then a draw by exact
// integer weights in order of id. Weights are those of core/sampling (exp in units of 2^-40 by IEEE
// operations in a fixed order), so the result is the CPU sampler's, and sums do not depend on the order of
// threads.
//
// A pass reads the row from L2 (0.5 MB for 128k tokens, about 6 us by one multiprocessor). A draw without
// cuts takes five, each cut up to eight more. Rows of which nothing is wanted but their largest logit, the
// usual greedy ones, are scanned once by many blocks.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/sample.h"

namespace quire::kernels {
namespace {

constexpr int kThreads = 1024;
constexpr float kGreedyTemperature = 0.01f;
constexpr uint64_t kWeightOne = uint64_t{1} << 40;

// exp(x) for x <= 0: the polynomial of core/sampling/selection.cpp, operation by operation.
__device__ __forceinline__ float exp_share(float x) {
  x = x > -80.0f ? x : -80.0f;
  const float shifted = __fadd_rn(__fmul_rn(x, 1.44269504f), 12582912.0f);
  const float n = __fsub_rn(shifted, 12582912.0f);
  const float r = __fsub_rn(__fsub_rn(x, __fmul_rn(n, 0.693359375f)), __fmul_rn(n, -2.12194440e-4f));
  const float terms[7] = {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f};
  float p = 1.0f / 5040.0f;
#pragma unroll
  for (float term : terms) p = __fadd_rn(__fmul_rn(p, r), term);
  return __uint_as_float(__float_as_uint(p) + (__float_as_uint(shifted) << 23));
}

__device__ __forceinline__ uint64_t weight_of(float logit, float largest, float inverse_temperature) {
  const float share = exp_share(__fmul_rn(__fsub_rn(logit, largest), inverse_temperature));
  return static_cast<uint64_t>(static_cast<int64_t>(__fmul_rn(share, 1099511627776.0f)));
}

// Larger for what comes first: larger logit, then lower id.
__device__ __forceinline__ uint64_t order_key(float logit, int id) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);
  const uint32_t rising = bits & 0x80000000U ? ~bits : bits | 0x80000000U;
  return static_cast<uint64_t>(rising) << 32 | ~static_cast<uint32_t>(id);
}

// Rows that scan_kernel serves.
__host__ __device__ __forceinline__ bool takes_largest(const SampleRow& s) {
  return s.temperature < kGreedyTemperature && s.num_penalised + s.num_biased + s.num_excluded == 0 &&
         s.mask == nullptr && s.wants_log_prob == 0;
}

struct Shared {
  uint64_t sums[32];
  unsigned long long histogram[256];
  uint64_t chosen;
  uint64_t rest;
  int found;
};

template <typename T, typename Combine>
__device__ __forceinline__ T block_reduce(T v, Shared& shared, Combine combine, T neutral) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v = combine(v, __shfl_xor_sync(0xffffffffU, v, d));
  __syncthreads();
  auto* slots = reinterpret_cast<T*>(shared.sums);
  if ((threadIdx.x & 31) == 0) slots[threadIdx.x >> 5] = v;
  __syncthreads();
  T all = neutral;
  for (int w = 0; w < kThreads / 32; ++w) all = combine(all, slots[w]);
  __syncthreads();
  return all;
}

__device__ __forceinline__ uint64_t block_sum(uint64_t v, Shared& shared) {
  return block_reduce(
      v, shared, [](uint64_t a, uint64_t b) { return a + b; }, uint64_t{0});
}
__device__ __forceinline__ float block_max(float v, Shared& shared) {
  return block_reduce(
      v, shared, [](float a, float b) { return fmaxf(a, b); }, -INFINITY);
}

// The smallest key such that the keys at or above it measure `target` or more together.
template <typename Measure>
__device__ uint64_t select_key(const float* row, int size, uint64_t floor_key, uint64_t target,
                               Shared& shared, Measure measure) {
  uint64_t prefix = 0;
  uint64_t rest = target;
  for (int shift = 56; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < 256; i += kThreads) shared.histogram[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += kThreads) {
      const uint64_t key = order_key(row[i], i);
      if (key < floor_key || (shift < 56 && (key >> (shift + 8)) != (prefix >> (shift + 8)))) continue;
      const uint64_t amount = measure(row[i]);
      if (amount != 0)
        atomicAdd(&shared.histogram[(key >> shift) & 255], static_cast<unsigned long long>(amount));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 255;
      uint64_t left = rest;
      while (digit > 0 && shared.histogram[digit] < left) left -= shared.histogram[digit--];
      shared.chosen = static_cast<uint64_t>(digit);
      shared.rest = left;
    }
    __syncthreads();
    prefix |= shared.chosen << shift;
    rest = shared.rest;
    __syncthreads();
  }
  return prefix;
}

// Within the range of f32, so that an extreme edit of an extreme logit does not become NaN later.
__device__ __forceinline__ float to_logit(double value) {
  return static_cast<float>(fmin(fmax(value, -3.4028234663852886e38), 3.4028234663852886e38));
}

// What core/sampling/history.cpp does to a token that occurred `count` times, operation by operation.
__device__ __forceinline__ float penalise(const SampleRow& s, double logit, double count) {
  const double repetition = s.repetition_penalty;
  const double repeated = logit > 0.0 ? __ddiv_rn(logit, repetition) : __dmul_rn(logit, repetition);
  return to_logit(__dsub_rn(__dsub_rn(repeated, s.presence_penalty), __dmul_rn(s.frequency_penalty, count)));
}

__device__ void edit(const SampleRow& s, const LogitEdit* edits, float* row) {
  edits += s.first_edit;
  for (int i = threadIdx.x; i < s.num_penalised; i += kThreads) {
    float& logit = row[edits[i].token];
    if (!isinf(logit)) logit = penalise(s, logit, edits[i].amount);
  }
  __syncthreads();
  edits += s.num_penalised;
  for (int i = threadIdx.x; i < s.num_biased; i += kThreads) {
    float& logit = row[edits[i].token];
    if (!isinf(logit)) logit = to_logit(__dadd_rn(logit, edits[i].amount));
  }
  __syncthreads();
  edits += s.num_biased;
  for (int i = threadIdx.x; i < s.num_excluded; i += kThreads) row[edits[i].token] = -INFINITY;
  __syncthreads();
}

// The token at `point` of the weights at or above `floor_key` and of at least `least`, in order of id.
template <typename Measure>
__device__ int token_at(const float* row, int size, uint64_t point, Shared& shared, Measure measure) {
  const int per_thread = (size + kThreads - 1) / kThreads;
  const int begin = min(size, static_cast<int>(threadIdx.x) * per_thread),
            end = min(size, begin + per_thread);
  uint64_t mine = 0;
  for (int i = begin; i < end; ++i) mine += measure(row[i], i);
  uint64_t before = mine;  // inclusive scan over the block
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    const uint64_t other = __shfl_up_sync(0xffffffffU, before, d);
    if (lane >= d) before += other;
  }
  __syncthreads();
  if (lane == 31) shared.sums[threadIdx.x >> 5] = before;
  __syncthreads();
  for (int w = 0; w < static_cast<int>(threadIdx.x >> 5); ++w) before += shared.sums[w];
  before -= mine;
  if (point >= before && point < before + mine) {
    for (int i = begin; i < end; ++i) {
      const uint64_t weight = measure(row[i], i);
      if (point < before + weight) {
        shared.found = i;
        break;
      }
      before += weight;
    }
  }
  __syncthreads();
  return shared.found;
}

__device__ int draw(const SampleRow& s, const float* row, int size, float largest, Shared& shared) {
  const float inverse = __fdiv_rn(1.0f, s.temperature);
  auto weight = [&](float logit) { return weight_of(logit, largest, inverse); };
  uint64_t floor_key = 0;
  if (s.top_k > 0 && s.top_k < size)
    floor_key =
        select_key(row, size, 0, static_cast<uint64_t>(s.top_k), shared, [](float) { return uint64_t{1}; });
  auto kept = [&](float logit, int id) { return order_key(logit, id) >= floor_key ? weight(logit) : 0; };
  uint64_t total = 0;
  for (int i = threadIdx.x; i < size; i += kThreads) total += kept(row[i], i);
  total = block_sum(total, shared);
  if (s.top_p < 1.0f) {
    const auto wanted =
        static_cast<uint64_t>(ceil(static_cast<double>(total) * static_cast<double>(s.top_p)));
    floor_key = select_key(row, size, floor_key, max(uint64_t{1}, min(wanted, total)), shared, weight);
  }
  const auto least =
      static_cast<uint64_t>(ceil(static_cast<double>(s.min_p) * static_cast<double>(kWeightOne)));
  auto final_weight = [&](float logit, int id) {
    const uint64_t w = kept(logit, id);
    return w >= least ? w : 0;
  };
  if (s.top_p < 1.0f || least > 0) {
    total = 0;
    for (int i = threadIdx.x; i < size; i += kThreads) total += final_weight(row[i], i);
    total = block_sum(total, shared);
  }
  return token_at(row, size, __umul64hi(s.random_bits, total), shared, final_weight);
}

__device__ int first_of(const float* row, int size, float largest, Shared& shared) {
  if (threadIdx.x == 0) shared.found = size;
  __syncthreads();
  for (int i = threadIdx.x; i < size; i += kThreads) {
    if (row[i] == largest) {
      atomicMin(&shared.found, i);
      break;
    }
  }
  __syncthreads();
  return shared.found;
}

constexpr int kScanThreads = 256;
constexpr int kScanBlock = 4096;  // logits of one block

// The first of the largest logits of a row, by as many blocks as it has pieces. Keys of pieces meet in one
// place per row; the block that arrives last turns them into a result and leaves zeros.
__global__ void __launch_bounds__(kScanThreads) scan_kernel(SampleArguments a) {
  release_successor();
  const int size = a.vocab_size, r = blockIdx.y;
  const float* row = a.logits + static_cast<size_t>(a.rows[r].logit_row) * a.stride;
  wait_for_predecessor();
  const int begin = blockIdx.x * kScanBlock, end = min(size, begin + kScanBlock);
  uint64_t best = 0;
  uint32_t suspect = 0;
  auto see = [&](float v, int id) {
    suspect |= v < INFINITY ? 0 : 1;
    best = max(best, order_key(v, id));
  };
  const int quads_end = a.stride % 4 == 0 ? end & ~3 : begin;
#pragma unroll 4
  for (int i = begin + 4 * threadIdx.x; i < quads_end; i += 4 * kScanThreads) {
    const float4 v = __ldcg(reinterpret_cast<const float4*>(row + i));
    see(v.x, i);
    see(v.y, i + 1);
    see(v.z, i + 2);
    see(v.w, i + 3);
  }
  for (int i = quads_end + threadIdx.x; i < end; i += kScanThreads) see(row[i], i);
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) {
    best = max(best, __shfl_xor_sync(0xffffffffU, best, d));
    suspect |= __shfl_xor_sync(0xffffffffU, suspect, d);
  }
  RowScan& scan = a.scans[r];
  if ((threadIdx.x & 31) == 0) {
    atomicMax(&scan.best, static_cast<unsigned long long>(best));
    if (suspect != 0) atomicOr(&scan.suspect, 1U);
    __threadfence();
  }
  __syncthreads();
  if (threadIdx.x != 0 || atomicAdd(&scan.arrived, 1U) != gridDim.x - 1) return;
  __threadfence();
  const uint64_t key = atomicExch(&scan.best, 0ULL);
  SampleResult result;
  if (atomicExch(&scan.suspect, 0U) != 0) {
    result.status = SampleStatus::not_finite;
  } else if (key >> 32 == order_key(-INFINITY, 0) >> 32) {
    result.status = SampleStatus::nothing_allowed;
  } else {
    result.token = static_cast<int32_t>(~static_cast<uint32_t>(key));
  }
  scan.arrived = 0;
  a.results[r] = result;
}

__device__ SampleResult sample_row(const SampleArguments& a, const SampleRow& s, float* row, Shared& shared) {
  const int size = a.vocab_size;
  const float* raw = a.logits + static_cast<size_t>(s.logit_row) * a.stride;
  float raw_largest = -INFINITY;
  uint64_t suspect = 0;
  for (int i = threadIdx.x; i < size; i += kThreads) {
    const float v = raw[i];
    suspect += v < INFINITY ? 0 : 1;
    raw_largest = fmaxf(raw_largest, v);
    row[i] = v;
  }
  raw_largest = block_max(raw_largest, shared);
  SampleResult result;
  if (block_sum(suspect, shared) != 0) {
    result.status = SampleStatus::not_finite;
    return result;
  }
  edit(s, a.edits, row);
  float largest = -INFINITY;
  for (int i = threadIdx.x; i < size; i += kThreads) {
    if (s.mask != nullptr && (s.mask[i / 32] >> (i % 32) & 1U) == 0) row[i] = -INFINITY;
    largest = fmaxf(largest, row[i]);
  }
  largest = block_max(largest, shared);
  if (isinf(largest)) {
    result.status = SampleStatus::nothing_allowed;
    return result;
  }
  result.token = s.temperature < kGreedyTemperature ? first_of(row, size, largest, shared)
                                                    : draw(s, row, size, largest, shared);
  result.logit = raw[result.token];
  result.largest = raw_largest;
  if (s.wants_log_prob == 0) return result;
  uint64_t total = 0;
  for (int i = threadIdx.x; i < size; i += kThreads) total += weight_of(raw[i], raw_largest, 1.0f);
  result.total = block_sum(total, shared);
  return result;
}

__global__ void __launch_bounds__(kThreads) sample_kernel(SampleArguments a) {
  __shared__ Shared shared;
  release_successor();
  wait_for_predecessor();
  float* row = a.adjusted + static_cast<size_t>(blockIdx.x) * a.vocab_size;
  for (int r = blockIdx.x; r < a.num_rows; r += gridDim.x) {
    const SampleRow s = a.rows[r];
    if (takes_largest(s)) continue;
    const SampleResult result = sample_row(a, s, row, shared);
    if (threadIdx.x == 0) a.results[r] = result;
    __syncthreads();  // the next row takes the same scratch
  }
}

}  // namespace

float log_prob_of(const SampleResult& r) {
  if (r.total == 0) return 0.0f;
  const double total = static_cast<double>(r.total) / static_cast<double>(kWeightOne);
  return static_cast<float>(static_cast<double>(r.logit) -
                            (static_cast<double>(r.largest) + std::log(total)));
}

bool takes_largest_only(const SampleRow* rows, int32_t num_rows) {
  return std::all_of(rows, rows + num_rows, takes_largest);
}

cudaError_t launch_sample(const SampleArguments& a, bool largest_only, Launch l) {
  const dim3 grid(static_cast<unsigned>((a.vocab_size + kScanBlock - 1) / kScanBlock),
                  static_cast<unsigned>(a.num_rows));
  const cudaError_t error = launch_kernel(scan_kernel, grid, dim3(kScanThreads), 0, l.stream, l.dependent, a);
  if (error != cudaSuccess || largest_only) return error;
  return launch_kernel(sample_kernel, dim3(static_cast<unsigned>(std::min(a.num_rows, kSampleBlocks))),
                       dim3(kThreads), 0, l.stream, l.dependent, a);
}

}  // namespace quire::kernels
