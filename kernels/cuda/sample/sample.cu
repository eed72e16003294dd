// Samples from rows of logits: applies edits and the mask, then the filters (top-k, top-p), then draws the
// token that arrives first by its weight and its noise (token_noise.h). The weights are those of
// core/sampling (exp in units of 2^-40 by IEEE operations in a fixed order), so the result equals that of the
// CPU sampler, and neither sums nor the first arrival depend on the order of threads.
//
// A pass reads the row from L2, 0.5 MB for 128k tokens. A pass that computes weights takes 25 instructions
// per logit: 14 us on one multiprocessor. A draw takes two passes, top_k and top_p two more plus one each, so
// up to eight blocks share a row. Rows that need only the largest logit (plain greedy sampling) are scanned
// once by many blocks.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/sample/sample.h"
#include "kernels/cuda/sample/sample_cuts.cuh"

namespace quire::kernels {
namespace {

constexpr float kGreedyTemperature = 0.01f;
constexpr int kMaxBlocksOfRow = 8;  // larger clusters do not fit every card

// Returns true for rows that scan_kernel handles.
__host__ __device__ __forceinline__ bool needs_largest_only(const SampleRow& s) {
  return s.temperature < kGreedyTemperature && s.num_penalised + s.num_biased + s.num_excluded == 0 &&
         s.mask == nullptr && s.wants_log_prob == 0;
}

// Clamps to the range of f32, so that an extreme edit of an extreme logit does not become NaN later.
__device__ __forceinline__ float to_logit(double value) {
  return static_cast<float>(fmin(fmax(value, -3.4028234663852886e38), 3.4028234663852886e38));
}

// Penalises a token that occurred `count` times, with the same operations as core/sampling/history.cpp.
__device__ __forceinline__ float penalise(const SampleRow& s, double logit, double count) {
  const double repetition = s.repetition_penalty;
  const double repeated = logit > 0.0 ? __ddiv_rn(logit, repetition) : __dmul_rn(logit, repetition);
  return to_logit(__dsub_rn(__dsub_rn(repeated, s.presence_penalty), __dmul_rn(s.frequency_penalty, count)));
}

// Applies the edits; each block edits its own part of the row.
__device__ void edit(const SampleTeam& team, const SampleRow& s, const LogitEdit* edits, float* row,
                     int size) {
  const int begin = team.begin(size), end = team.end(size);
  const auto for_each = [&](int count, auto change) {
    for (int i = threadIdx.x; i < count; i += kSampleThreads) {
      const LogitEdit e = edits[i];
      if (e.token >= begin && e.token < end) change(row[e.token], e.amount);
    }
    edits += count;
    __syncthreads();
  };
  edits += s.first_edit;
  for_each(s.num_penalised, [&](float& logit, float count) {
    if (!isinf(logit)) logit = penalise(s, logit, count);
  });
  for_each(s.num_biased, [&](float& logit, float bias) {
    if (!isinf(logit)) logit = to_logit(__dadd_rn(logit, bias));
  });
  for_each(s.num_excluded, [&](float& logit, float) { logit = -INFINITY; });
}

__device__ int first_of(SampleTeam& team, LogitRow row, float largest) {
  int first = row.size;
  team.for_each_logit(row.logits, row.size, [&](float v, int id) {
    if (v == largest) first = min(first, id);
  });
  return team.reduce(
      first, [](int a, int b) { return min(a, b); }, row.size);
}

__device__ __forceinline__ void leave(const SampleArguments& a, int row, const SampleResult& result) {
  a.results[row] = result;
  a.tokens[row] = max(result.token, 0);
}

constexpr int kScanThreads = 256;
constexpr int kScanBlock = 4096;  // logits per block

// Finds the first of the largest logits of a row with one block per piece of the row. The pieces' keys are
// combined in one counter per row; the last block to finish converts them to a result and resets them to
// zero.
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
  leave(a, r, result);
}

__device__ bool changes_row(const SampleRow& s) {
  return s.num_penalised + s.num_biased + s.num_excluded > 0 || s.mask != nullptr;
}

__device__ float largest_of(SampleTeam& team, LogitRow row) {
  float largest = -INFINITY;
  team.for_each_logit(row.logits, row.size, [&](float v, int) { largest = fmaxf(largest, v); });
  return team.largest(largest);
}

// Writes a copy of the row with the edits and the mask applied.
__device__ void change_row(const SampleTeam& team, const SampleArguments& a, const SampleRow& s,
                           const float* raw, float* row) {
  team.for_each_logit(raw, a.vocab_size, [&](float v, int i) {
    row[i] = s.mask == nullptr || (s.mask[i / 32] >> (i % 32) & 1U) != 0 ? v : -INFINITY;
  });
  __syncthreads();
  edit(team, s, a.edits, row, a.vocab_size);
  team.sync();
}

__device__ SampleResult sample_row(SampleTeam& team, const SampleArguments& a, const SampleRow& s,
                                   float* scratch) {
  const int size = a.vocab_size;
  const float* raw = a.logits + static_cast<size_t>(s.logit_row) * a.stride;
  float raw_largest = -INFINITY;
  uint64_t suspect = 0;
  team.for_each_logit(raw, size, [&](float v, int) {
    suspect += v < INFINITY ? 0 : 1;
    raw_largest = fmaxf(raw_largest, v);
  });
  raw_largest = team.largest(raw_largest);
  SampleResult result;
  if (team.sum(suspect) != 0) {
    result.status = SampleStatus::not_finite;
    return result;
  }
  LogitRow row = {raw, size};
  float largest = raw_largest;
  if (changes_row(s)) {
    change_row(team, a, s, raw, scratch);
    row.logits = scratch;
    largest = largest_of(team, row);
  }
  if (isinf(largest)) {
    result.status = SampleStatus::nothing_allowed;
    return result;
  }
  result.token =
      s.temperature < kGreedyTemperature ? first_of(team, row, largest) : draw(team, s, row, largest);
  result.logit = raw[result.token];
  result.largest = raw_largest;
  if (s.wants_log_prob == 0) return result;
  uint64_t total = 0;
  team.for_each_logit(raw, size, [&](float v, int) { total += weight_of(v, raw_largest, 1.0f); });
  result.total = team.sum(total);
  return result;
}

// Reads the settings, which lie in host memory, once, with few threads; those of the first row while the
// previous kernel runs.
__device__ const SampleRow& fetch_row(SampleShared& shared, const SampleRow* rows, int r) {
  constexpr int kWords = sizeof(SampleRow) / sizeof(uint32_t);
  if (threadIdx.x < kWords)
    shared.row[threadIdx.x] = reinterpret_cast<const uint32_t*>(rows + r)[threadIdx.x];
  __syncthreads();
  return *reinterpret_cast<const SampleRow*>(shared.row);
}

__global__ void __launch_bounds__(kSampleThreads) sample_kernel(SampleArguments a) {
  __shared__ SampleShared shared;
  release_successor();
  SampleTeam team(shared);
  const int number = static_cast<int>(blockIdx.x) / team.size,
            teams = static_cast<int>(gridDim.x) / team.size;
  float* scratch = a.adjusted + static_cast<size_t>(number) * ((a.vocab_size + 3) & ~3);
  const SampleRow* s = &fetch_row(shared, a.rows, number);
  wait_for_predecessor();
  for (int r = number; r < a.num_rows; r += teams) {
    if (r != number) s = &fetch_row(shared, a.rows, r);
    if (!needs_largest_only(*s)) {
      const SampleResult result = sample_row(team, a, *s, scratch);
      if (team.rank == 0 && threadIdx.x == 0) leave(a, r, result);
    }
    team.sync();  // the next row reuses the memory, and no block may end while others read its memory
  }
}

// Returns the number of blocks per row that fills the card; one block fills a multiprocessor.
int blocks_of_row(int rows, bool has_clusters) {
  int blocks = has_clusters ? kMaxBlocksOfRow : 1;
  while (blocks > 1 && blocks * rows > 2 * kSampleBlocks) blocks /= 2;
  return blocks;
}

cudaError_t launch_teams(const SampleArguments& a, Launch l) {
  const int blocks = blocks_of_row(a.num_rows, l.dependent);
  const dim3 grid(static_cast<unsigned>(std::min(a.num_rows, kSampleBlocks) * blocks));
  return launch_clusters(dim3(static_cast<unsigned>(blocks)), sample_kernel, grid, dim3(kSampleThreads), 0,
                         l.stream, l.dependent, a);
}

}  // namespace

float log_prob_of(const SampleResult& r) {
  if (r.total == 0) return 0.0f;
  const double total = static_cast<double>(r.total) / static_cast<double>(kWeightOne);
  return static_cast<float>(static_cast<double>(r.logit) -
                            (static_cast<double>(r.largest) + std::log(total)));
}

bool all_need_largest_only(const SampleRow* rows, int32_t num_rows) {
  return std::all_of(rows, rows + num_rows, needs_largest_only);
}

cudaError_t launch_sample(const SampleArguments& a, bool largest_only, Launch l) {
  const dim3 grid(static_cast<unsigned>((a.vocab_size + kScanBlock - 1) / kScanBlock),
                  static_cast<unsigned>(a.num_rows));
  const cudaError_t error = launch_kernel(scan_kernel, grid, dim3(kScanThreads), 0, l.stream, l.dependent, a);
  return error != cudaSuccess || largest_only ? error : launch_teams(a, l);
}

cudaError_t setup_sample() {
  return load_kernels(scan_kernel, sample_kernel);
}

}  // namespace quire::kernels
