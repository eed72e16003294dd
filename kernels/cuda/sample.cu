// One block per row: edits and mask, then cuts, then a draw by exact integer weights in order of id. Weights
// are those of core/sampling (exp in units of 2^-40 by IEEE operations in a fixed order), so the result is
// the CPU sampler's, and sums do not depend on the order of threads.
//
// A cut looks for the last token that stays in the order of (logit, id). Counts and weights go to bins along
// the logit first; of the bin in which the cut falls the tokens are gathered and ranked. Bins that hold too
// many, thousands of equal logits, are cut by radix selection over (logit, id).
//
// A pass reads the row from L2, 0.5 MB for 128k tokens. A draw takes two, cuts one more for the bins and one
// for each cut. Rows of which nothing is wanted but their largest logit, the usual greedy ones, are scanned
// once by many blocks.
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

__device__ __forceinline__ float logit_of(uint64_t key) {
  const auto rising = static_cast<uint32_t>(key >> 32);
  return __uint_as_float(rising & 0x80000000U ? rising & 0x7fffffffU : ~rising);
}

// Rows that scan_kernel serves.
__host__ __device__ __forceinline__ bool takes_largest(const SampleRow& s) {
  return s.temperature < kGreedyTemperature && s.num_penalised + s.num_biased + s.num_excluded == 0 &&
         s.mask == nullptr && s.wants_log_prob == 0;
}

constexpr int kBins = 2 * kThreads;
constexpr int kMostGathered = 1024;
constexpr int kChunks = 256;          // of a row, in which a draw is looked for
constexpr float kWeightless = 28.0f;  // exp(-28) is less than 2^-40

struct Shared {
  uint64_t sums[32];
  // Of the tokens from bin 0, which has the largest logits, on; those of the last bin weigh nothing.
  unsigned long long weights[kBins];
  uint32_t counts[kBins];
  union {
    unsigned long long histogram[256];
    uint64_t chunks[kChunks];
    uint64_t gathered[kMostGathered];
  };
  uint64_t chosen;
  uint64_t rest;
  int num_gathered;
  int found;
};

// All of a row once, in any order; loads go ahead of what is done with them.
template <typename Visit>
__device__ __forceinline__ void for_each_logit(const float* row, int size, Visit visit) {
  constexpr int kAhead = 4;
  const int quads = (reinterpret_cast<uintptr_t>(row) & 15) == 0 ? size / 4 : 0;
  const auto* row4 = reinterpret_cast<const float4*>(row);
  for (int q = threadIdx.x; q < quads; q += kAhead * kThreads) {
    float4 v[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (q + u * kThreads < quads) v[u] = row4[q + u * kThreads];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int id = 4 * (q + u * kThreads);
      if (id >= 4 * quads) break;
      visit(v[u].x, id);
      visit(v[u].y, id + 1);
      visit(v[u].z, id + 2);
      visit(v[u].w, id + 3);
    }
  }
  for (int i = 4 * quads + threadIdx.x; i < size; i += kThreads) visit(row[i], i);
}

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
__device__ __forceinline__ float block_min(float v, Shared& shared) {
  return -block_max(-v, shared);
}

__device__ __forceinline__ uint64_t warp_inclusive(uint64_t v) {
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    const uint64_t other = __shfl_up_sync(0xffffffffU, v, d);
    if (static_cast<int>(threadIdx.x & 31) >= d) v += other;
  }
  return v;
}

// The sum of v over the threads before this one; `total` is that over all.
__device__ __forceinline__ uint64_t block_exclusive(uint64_t v, Shared& shared, uint64_t& total) {
  const uint64_t inclusive = warp_inclusive(v);
  __syncthreads();
  if ((threadIdx.x & 31) == 31) shared.sums[threadIdx.x >> 5] = inclusive;
  __syncthreads();
  uint64_t before = inclusive - v;
  total = 0;
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < static_cast<int>(threadIdx.x >> 5)) before += shared.sums[w];
    total += shared.sums[w];
  }
  __syncthreads();
  return before;
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

// How a row lies in the bins.
struct Bins {
  float largest;
  float inverse_temperature;
  float scale;

  __device__ __forceinline__ int of(float logit) const {
    const float distance = __fmul_rn(__fsub_rn(largest, logit), inverse_temperature);
    return distance < kWeightless ? min(kBins - 2, static_cast<int>(distance * scale)) : kBins - 1;
  }
  __device__ __forceinline__ uint64_t weight(float logit) const {
    return weight_of(logit, largest, inverse_temperature);
  }
};

__device__ Bins fill_bins(const float* row, int size, float largest, float inverse, Shared& shared) {
  float smallest = largest;
  for_each_logit(row, size, [&](float v, int) {
    if (__fmul_rn(__fsub_rn(largest, v), inverse) < kWeightless) smallest = fminf(smallest, v);
  });
  smallest = block_min(smallest, shared);
  // Flat rows are spread over the bins as well as steep ones.
  const float range = fmaxf((largest - smallest) * inverse, 1e-6f);
  const Bins bins{largest, inverse, static_cast<float>(kBins - 2) / range};
  for (int i = threadIdx.x; i < kBins; i += kThreads) {
    shared.weights[i] = 0;
    shared.counts[i] = 0;
  }
  __syncthreads();
  for_each_logit(row, size, [&](float v, int) {
    const int bin = bins.of(v);
    if (bin == kBins - 1) return;
    atomicAdd(&shared.counts[bin], 1U);
    atomicAdd(&shared.weights[bin], static_cast<unsigned long long>(bins.weight(v)));
  });
  __syncthreads();
  return bins;
}

// The smallest key such that the keys at or above it measure `target` or more together, where those of the
// bins in `amounts` do. Keys below `floor_key` count for nothing.
template <typename Amount, typename Measure>
__device__ uint64_t find_cut(const float* row, int size, const Bins& bins, const Amount* amounts,
                             uint64_t floor_key, uint64_t target, Shared& shared, Measure measure) {
  const uint64_t first = amounts[2 * threadIdx.x], second = amounts[2 * threadIdx.x + 1];
  uint64_t total;
  const uint64_t before = block_exclusive(first + second, shared, total);
  if (before < target && target <= before + first + second) {
    const bool in_second = target > before + first;
    shared.found = static_cast<int>(2 * threadIdx.x) + in_second;
    shared.rest = target - before - (in_second ? first : 0);
  }
  if (threadIdx.x == 0) shared.num_gathered = 0;
  __syncthreads();
  const int bin = shared.found;
  const uint64_t rest = shared.rest;
  for_each_logit(row, size, [&](float v, int id) {
    if (bins.of(v) != bin || order_key(v, id) < floor_key) return;
    const int place = atomicAdd(&shared.num_gathered, 1);
    if (place < kMostGathered) shared.gathered[place] = order_key(v, id);
  });
  __syncthreads();
  const int count = shared.num_gathered;
  if (count > kMostGathered) {
    __syncthreads();
    return select_key(row, size, floor_key, target, shared, measure);
  }
  uint64_t cut = 0;
  if (static_cast<int>(threadIdx.x) < count) {
    const uint64_t mine = shared.gathered[threadIdx.x];
    uint64_t reached = 0;
    for (int i = 0; i < count; ++i)
      if (shared.gathered[i] >= mine) reached += measure(logit_of(shared.gathered[i]));
    if (reached >= rest) cut = mine;
  }
  return block_reduce(
      cut, shared, [](uint64_t a, uint64_t b) { return a > b ? a : b; }, uint64_t{0});
}

// The token at `point` of the weights in order of id.
template <typename Measure>
__device__ int token_at(const float* row, int size, uint64_t point, Shared& shared, Measure measure) {
  const int of_chunk = (size + kChunks - 1) / kChunks;
  const uint64_t mine = threadIdx.x < kChunks ? shared.chunks[threadIdx.x] : 0;
  uint64_t total;
  const uint64_t before = block_exclusive(mine, shared, total);
  if (point >= before && point < before + mine) {
    shared.found = static_cast<int>(threadIdx.x);
    shared.rest = point - before;
  }
  __syncthreads();
  const int begin = shared.found * of_chunk, end = min(size, begin + of_chunk);
  uint64_t rest = shared.rest;
  __syncthreads();
  for (int first = begin; first < end; first += kThreads) {
    const int id = first + static_cast<int>(threadIdx.x);
    const uint64_t weight = id < end ? measure(row[id], id) : 0;
    const uint64_t at = block_exclusive(weight, shared, total);
    if (rest >= at && rest < at + weight) shared.found = id;
    __syncthreads();
    if (rest < total) break;
    rest -= total;
  }
  return shared.found;
}

// Sums chunks of the row, for token_at, and gives the sum of all.
template <typename Measure>
__device__ uint64_t sum_chunks(const float* row, int size, Shared& shared, Measure measure) {
  const int of_chunk = (size + kChunks - 1) / kChunks;
  const int lane = threadIdx.x & 31;
  __syncthreads();
  for (int chunk = threadIdx.x >> 5; chunk < kChunks; chunk += kThreads / 32) {
    const int begin = min(size, chunk * of_chunk), end = min(size, begin + of_chunk);
    uint64_t sum = 0;
#pragma unroll 4
    for (int i = begin + lane; i < end; i += 32) sum += measure(row[i], i);
    sum = warp_inclusive(sum);
    if (lane == 31) shared.chunks[chunk] = sum;
  }
  __syncthreads();
  return block_sum(threadIdx.x < kChunks ? shared.chunks[threadIdx.x] : 0, shared);
}

// Leaves in the bins the weights of what is at or above the key.
__device__ void trim_bins(const float* row, int size, const Bins& bins, uint64_t floor_key, Shared& shared) {
  const int bin = bins.of(logit_of(floor_key));
  uint64_t left = 0;
  for_each_logit(row, size, [&](float v, int id) {
    if (bins.of(v) == bin && order_key(v, id) >= floor_key) left += bins.weight(v);
  });
  left = block_sum(left, shared);
  for (int i = bin + static_cast<int>(threadIdx.x); i < kBins; i += kThreads)
    shared.weights[i] = i == bin ? left : 0;
  __syncthreads();
}

// The key that top_k and top_p leave as the smallest.
__device__ uint64_t cut_row(const SampleRow& s, const float* row, int size, float largest, float inverse,
                            Shared& shared) {
  const Bins bins = fill_bins(row, size, largest, inverse, shared);
  uint64_t floor_key = 0;
  uint64_t kept =
      block_sum(shared.counts[2 * threadIdx.x] + uint64_t{shared.counts[2 * threadIdx.x + 1]}, shared);
  // What lies beyond the bins weighs nothing, and need not be cut.
  if (s.top_k > 0 && static_cast<uint64_t>(s.top_k) < kept) {
    floor_key = find_cut(row, size, bins, shared.counts, 0, static_cast<uint64_t>(s.top_k), shared,
                         [](float) { return uint64_t{1}; });
    if (s.top_p >= 1.0f) return floor_key;
    trim_bins(row, size, bins, floor_key, shared);
  }
  if (s.top_p >= 1.0f) return floor_key;
  const uint64_t total =
      block_sum(shared.weights[2 * threadIdx.x] + shared.weights[2 * threadIdx.x + 1], shared);
  const auto wanted = static_cast<uint64_t>(ceil(static_cast<double>(total) * static_cast<double>(s.top_p)));
  return find_cut(row, size, bins, shared.weights, floor_key, max(uint64_t{1}, min(wanted, total)), shared,
                  [&](float logit) { return bins.weight(logit); });
}

__device__ int draw(const SampleRow& s, const float* row, int size, float largest, Shared& shared) {
  const float inverse = __fdiv_rn(1.0f, s.temperature);
  const bool cuts = (s.top_k > 0 && s.top_k < size) || s.top_p < 1.0f;
  const uint64_t floor_key = cuts ? cut_row(s, row, size, largest, inverse, shared) : 0;
  const auto least =
      static_cast<uint64_t>(ceil(static_cast<double>(s.min_p) * static_cast<double>(kWeightOne)));
  auto weight = [&](float logit, int id) {
    const uint64_t w = weight_of(logit, largest, inverse);
    return w >= least && (floor_key == 0 || order_key(logit, id) >= floor_key) ? w : 0;
  };
  const uint64_t total = sum_chunks(row, size, shared, weight);
  return token_at(row, size, __umul64hi(s.random_bits, total), shared, weight);
}

__device__ int first_of(const float* row, int size, float largest, Shared& shared) {
  if (threadIdx.x == 0) shared.found = size;
  __syncthreads();
  for_each_logit(row, size, [&](float v, int id) {
    if (v == largest) atomicMin(&shared.found, id);
  });
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

__device__ bool changes_row(const SampleRow& s) {
  return s.num_penalised + s.num_biased + s.num_excluded > 0 || s.mask != nullptr;
}

__device__ float largest_of(const float* row, int size, Shared& shared) {
  float largest = -INFINITY;
  for_each_logit(row, size, [&](float v, int) { largest = fmaxf(largest, v); });
  return block_max(largest, shared);
}

// A copy with the edits and the mask applied.
__device__ void change_row(const SampleArguments& a, const SampleRow& s, const float* raw, float* row) {
  for_each_logit(raw, a.vocab_size, [&](float v, int i) {
    row[i] = s.mask == nullptr || (s.mask[i / 32] >> (i % 32) & 1U) != 0 ? v : -INFINITY;
  });
  __syncthreads();
  edit(s, a.edits, row);
}

__device__ SampleResult sample_row(const SampleArguments& a, const SampleRow& s, float* scratch,
                                   Shared& shared) {
  const int size = a.vocab_size;
  const float* raw = a.logits + static_cast<size_t>(s.logit_row) * a.stride;
  float raw_largest = -INFINITY;
  uint64_t suspect = 0;
  for_each_logit(raw, size, [&](float v, int) {
    suspect += v < INFINITY ? 0 : 1;
    raw_largest = fmaxf(raw_largest, v);
  });
  raw_largest = block_max(raw_largest, shared);
  SampleResult result;
  if (block_sum(suspect, shared) != 0) {
    result.status = SampleStatus::not_finite;
    return result;
  }
  const float* row = raw;
  float largest = raw_largest;
  if (changes_row(s)) {
    change_row(a, s, raw, scratch);
    row = scratch;
    largest = largest_of(row, size, shared);
  }
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
  for_each_logit(raw, size, [&](float v, int) { total += weight_of(v, raw_largest, 1.0f); });
  result.total = block_sum(total, shared);
  return result;
}

__global__ void __launch_bounds__(kThreads) sample_kernel(SampleArguments a) {
  __shared__ Shared shared;
  release_successor();
  wait_for_predecessor();
  float* row = a.adjusted + static_cast<size_t>(blockIdx.x) * ((a.vocab_size + 3) & ~3);
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
