// Team of blocks that sample from one row together: a cluster if the card has them, otherwise a single block.
#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/interface/op_params.h"

namespace quire::kernels {

constexpr int kSampleThreads = 1024;
constexpr int kBins = 2 * kSampleThreads;
constexpr int kMaxGathered = 1024;

struct SampleShared {
  uint64_t sums[32];
  uint64_t of_block[2];  // values for the other blocks of the team, alternating
  // Bins of this block's part of the row; bin 0 has the largest logits.
  unsigned long long weights[kBins];
  uint32_t counts[kBins];
  union {
    unsigned long long histogram[256];
    uint64_t gathered[kMaxGathered];  // shared by all blocks: that of the first
  };
  uint64_t chosen;
  uint64_t rest;
  int num_gathered;
  int found;
  alignas(16) uint32_t row[sizeof(SampleRow) / sizeof(uint32_t)];
};

template <typename T>
__device__ __forceinline__ T warp_inclusive(T v) {
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    const T other = __shfl_up_sync(0xffffffffU, v, d);
    if (static_cast<int>(threadIdx.x & 31) >= d) v += other;
  }
  return v;
}

// Returns the sum of v over the earlier threads of the block; `total` is the sum over all threads.
__device__ __forceinline__ uint64_t block_exclusive(uint64_t v, SampleShared& shared, uint64_t& total) {
  const uint64_t inclusive = warp_inclusive(v);
  __syncthreads();
  if ((threadIdx.x & 31) == 31) shared.sums[threadIdx.x >> 5] = inclusive;
  __syncthreads();
  uint64_t before = inclusive - v;
  total = 0;
  for (int w = 0; w < kSampleThreads / 32; ++w) {
    if (w < static_cast<int>(threadIdx.x >> 5)) before += shared.sums[w];
    total += shared.sums[w];
  }
  __syncthreads();
  return before;
}

// Every block of the team calls every function, in the same order.
class SampleTeam {
 public:
  __device__ __forceinline__ explicit SampleTeam(SampleShared& memory) : shared(memory) {
#if __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
#endif
  }

  // Synchronizes the team; earlier writes to shared and global memory become visible to it.
  __device__ __forceinline__ void sync() const {
    __syncthreads();
#if __CUDA_ARCH__ >= 900
    if (size == 1) return;
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
  }

  // Returns the corresponding address in the shared memory of another block.
  template <typename T>
  __device__ __forceinline__ T* of(T* mine, int block) const {
#if __CUDA_ARCH__ >= 900
    uint64_t theirs;
    asm("mapa.u64 %0, %1, %2;" : "=l"(theirs) : "l"(mine), "r"(block));
    return reinterpret_cast<T*>(theirs);
#else
    return mine;
#endif
  }

  // Return this block's part of a row of `count`: from `begin`, a multiple of 4, to `end`.
  __device__ __forceinline__ int begin(int count) const {
    return count / 4 * rank / size * 4;
  }
  __device__ __forceinline__ int end(int count) const {
    return rank + 1 == size ? count : count / 4 * (rank + 1) / size * 4;
  }

  // Visits this block's part of the row once, in any order; loads are issued ahead of their use.
  template <typename Visit>
  __device__ __forceinline__ void for_each_logit(const float* row, int count, Visit visit) const {
    constexpr int kAhead = 4;
    const int first = begin(count), last = end(count);
    const bool aligned = (reinterpret_cast<uintptr_t>(row) & 15) == 0;
    const int quads_end = aligned ? last / 4 : first / 4;
    const auto* row4 = reinterpret_cast<const float4*>(row);
    for (int q = first / 4 + threadIdx.x; q < quads_end; q += kAhead * kSampleThreads) {
      float4 v[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u)
        if (q + u * kSampleThreads < quads_end) v[u] = row4[q + u * kSampleThreads];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        const int id = 4 * (q + u * kSampleThreads);
        if (id >= 4 * quads_end) break;
        visit(v[u].x, id);
        visit(v[u].y, id + 1);
        visit(v[u].z, id + 2);
        visit(v[u].w, id + 3);
      }
    }
    for (int i = 4 * quads_end + threadIdx.x; i < last; i += kSampleThreads) visit(row[i], i);
  }

  // Reduces over all threads of the team. The order of the blocks is not fixed, so `combine` must be
  // commutative and associative.
  template <typename T, typename Combine>
  __device__ __forceinline__ T reduce(T v, Combine combine, T neutral) {
    v = reduce_warp(v, combine);
    __syncthreads();
    auto* slots = reinterpret_cast<T*>(shared.sums);
    if ((threadIdx.x & 31) == 0) slots[threadIdx.x >> 5] = v;
    __syncthreads();
    v = reduce_warp(slots[threadIdx.x & 31], combine);
    __syncthreads();
    if (size == 1) return v;
    auto* mine = reinterpret_cast<T*>(&shared.of_block[turn_]);
    turn_ ^= 1;  // a block that is one call ahead must not overwrite a value that another still reads
    if (threadIdx.x == 0) *mine = v;
    sync();
    const int lane = threadIdx.x & 31;
    return reduce_warp(lane < size ? *of(mine, lane) : neutral, combine);
  }
  __device__ __forceinline__ uint64_t sum(uint64_t v) {
    return reduce(
        v, [](uint64_t a, uint64_t b) { return a + b; }, uint64_t{0});
  }
  __device__ __forceinline__ float largest(float v) {
    return reduce(
        v, [](float a, float b) { return fmaxf(a, b); }, -INFINITY);
  }

  SampleShared& shared;
  int rank = 0;
  int size = 1;

 private:
  template <typename T, typename Combine>
  __device__ __forceinline__ static T reduce_warp(T v, Combine combine) {
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) v = combine(v, __shfl_xor_sync(0xffffffffU, v, d));
    return v;
  }

  int turn_ = 0;
};

}  // namespace quire::kernels
