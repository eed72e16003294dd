// Tiles of 16 and 32 tokens. See GemmShape.
//
// Each of a block's 8 warps takes a strip and goes along the chains of its split; sums of chains stay in
// registers. The activations of a chain are brought to shared memory once for all warps, the next chain's
// while this one is worked on; that is all that the warps of a block have in common, so a block waits once
// per chain. Where a matrix has too few columns to fill the card its chains are split over blocks: their sums
// meet in memory, and the warp that arrives last at a strip adds them in order.
//
// Bytes: the weights once per tile of tokens, activations once per 8 strips from L2. Per 1,024 weights of 4
// bits and 32 tokens: 16 tensor instructions, 36 to make the weights, 5 loads.
#pragma once

#include "kernels/cuda/gemm_output.cuh"
#include "kernels/cuda/launch.cuh"

namespace quire::kernels {

// A block's share of the work: a group of strips and a split of the chains.
struct WideTask {
  int group;
  int split;
};

__device__ __forceinline__ WideTask wide_task(const GemmShape& s, int number) {
  return {number / s.splits, number % s.splits};
}

// Asks for a warp's segments in the order in which they will be worked on.
template <TileKind kKind>
class WideRequests {
 public:
  __device__ __forceinline__ WideRequests(const GemmArguments& a, int warp)
      : a_(a), warp_(warp), task_(blockIdx.y) {
    open();
  }
  __device__ __forceinline__ void next(WarpRing& ring, int lane) {
    if (task_ >= a_.shape.tasks) return ring.request_nothing();
    const uint32_t bytes = walk_.bytes(a_.matrix);
    ring.request(next_, bytes, lane);
    next_ += bytes;
    if (walk_.next(a_.matrix)) return;
    task_ += gridDim.y;
    open();
  }

 private:
  __device__ __forceinline__ void open() {
    for (; task_ < a_.shape.tasks; task_ += gridDim.y) {
      const WideTask task = wide_task(a_.shape, task_);
      const StripPlace place = place_strip(a_, task.group, warp_);
      const int first = chain_begin<kKind>(a_.matrix, task.split * a_.shape.chains);
      const int end = chain_begin<kKind>(a_.matrix, (task.split + 1) * a_.shape.chains);
      if (place.part < 0 || first == end) continue;
      walk_.begin(a_.matrix, place.part, first, end);
      next_ = a_.matrix.parts[place.part].strips +
              static_cast<size_t>(place.strip) * a_.matrix.parts[place.part].strip_bytes +
              walk_.offset(a_.matrix);
      return;
    }
  }

  const GemmArguments& a_;
  int warp_;
  int task_;
  const uint8_t* next_ = nullptr;
  SegmentWalk walk_;
};

// The activations of one chain for the block's tokens into shared memory, [step][tile][lane] pieces of 16
// bytes.
template <TileKind kKind, int kTiles>
class ActivationStages {
 public:
  __device__ __forceinline__ ActivationStages(const GemmArguments& a, uint32_t shared, int first_token)
      : matrix_(a.matrix), target_(shared + a.shape.activations_at), stage_bytes_(a.shape.stage_bytes) {
    const int token = static_cast<int>(threadIdx.x) / 4 % (8 * kTiles), t = threadIdx.x % 4;
    live_ = first_token + token < a.rows;
    step_ = static_cast<int>(threadIdx.x) / (32 * kTiles);
    from_ = a.input + (live_ ? static_cast<size_t>(first_token + token) * a.input_stride : 0) + t * 8;
    target_ += (step_ * kTiles * 32 + token * 4 + t) * 16;
  }
  __device__ __forceinline__ void request(int chain, int stage) const {
    constexpr int kSteps = kKind == TileKind::dense ? 1 : kBlockSteps;
    constexpr int kAtOnce = kWideThreads / (32 * kTiles);  // steps
    const int first = chain_begin<kKind>(matrix_, chain) * kSteps;
    const int end = chain_begin<kKind>(matrix_, chain + 1) * kSteps;
    const __half* from = from_ + (first + step_) * kStepRows;
    uint32_t target = target_ + stage * stage_bytes_;
#pragma unroll 2
    for (int step = first + step_; step < end; step += kAtOnce) {
      copy_async_16(target, from, live_ ? 16 : 0);
      from += kAtOnce * kStepRows;
      target += kAtOnce * kTiles * 512;
    }
    commit_copies();
  }

 private:
  const Matrix& matrix_;
  const __half* from_;
  uint32_t target_;
  uint32_t stage_bytes_;
  int step_;
  bool live_;
};

// Sums over the chains of a split, in the order of matrix.h.
template <int kTiles>
struct ChainSums {
  Sums<kTiles> first_pair;
  Sums<kTiles> second_pair;
  Sums<kTiles> all;

  // `chain` counts from the start of the split, which has `chains`.
  __device__ __forceinline__ void take(const Sums<kTiles>& totals, int chain, int chains) {
    const int place = chain % 4;
    if (place == 0) {
      copy<kTiles>(totals, first_pair);
    } else if (place == 1) {
      add<kTiles>(totals, first_pair);
    } else if (place == 2) {
      copy<kTiles>(totals, second_pair);
    } else {
      add<kTiles>(totals, second_pair);
      add<kTiles>(second_pair, first_pair);
    }
    if (chain + 1 == chains && chains <= 4) {
      copy<kTiles>(first_pair, all);
    } else if (place == 3) {
      if (chain == 3) {
        copy<kTiles>(first_pair, all);
      } else {
        add<kTiles>(first_pair, all);
      }
    }
  }
};

// A strip's results for the block's tokens, one token after another, 32 columns by the lanes of the warp.
template <int kTiles>
__device__ __forceinline__ void put_columns(float* place, const Sums<kTiles>& sums, int lane) {
  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    float* at = place + (8 * n + 2 * t) * kStripColumns;  // the swizzle of these tokens is t
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        const int column = (16 * i + 8 * x + g) ^ (t << 3);
        at[column] = sums[i][n][2 * x];
        at[column + kStripColumns] = sums[i][n][2 * x + 1];
      }
    }
  }
}

// Leaves a warp's sums in memory. True for the warp that arrives last at the strip; `all` is then the sum
// over all splits.
template <int kTiles>
__device__ __forceinline__ bool meet(const GemmArguments& a, size_t strip, int split, int lane,
                                     Sums<kTiles>& all) {
  const int splits = a.shape.splits;
  auto* partials = reinterpret_cast<float4*>(a.partials) + strip * splits * (2 * kTiles * 32) + lane;
  auto piece = [&](int s, int i, int n) { return partials + (s * (2 * kTiles) + i * kTiles + n) * 32; };
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
      __stcg(piece(split, i, n), make_float4(all[i][n][0], all[i][n][1], all[i][n][2], all[i][n][3]));
  }
  __threadfence();
  __syncwarp();
  uint32_t before = 0;
  if (lane == 0) {
    before = atomicAdd(a.counters + strip, 1U);
    if (before + 1 == static_cast<uint32_t>(splits)) a.counters[strip] = 0;
  }
  before = __shfl_sync(0xffffffffU, before, 0);
  if (before + 1 != static_cast<uint32_t>(splits)) return false;
  __threadfence();
  auto plus = [](float4 x, float4 y) { return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w); };
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      auto of = [&](int s) { return __ldcg(piece(s, i, n)); };
      auto four = [&](int q) { return splits == 4 ? of(q) : plus(of(2 * q), of(2 * q + 1)); };
      const float4 sum = plus(plus(plus(four(0), four(1)), four(2)), four(3));
      all[i][n][0] = sum.x;
      all[i][n][1] = sum.y;
      all[i][n][2] = sum.z;
      all[i][n][3] = sum.w;
    }
  }
  return true;
}

// kTiles: tiles of 8 tokens.
template <TileKind kKind, int kTiles>
__global__ void __launch_bounds__(kWideThreads, 1) gemm_wide_kernel(const __grid_constant__ GemmArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();

  const Matrix& m = a.matrix;
  const GemmShape& shape = a.shape;
  const int warp = __shfl_sync(0xffffffffU, threadIdx.x >> 5, 0), lane = threadIdx.x & 31;
  const int first_token = blockIdx.x * (kTiles * 8);
  const uint32_t base = shared_address(shared);
  WarpRing ring(base + shape.rings_at + warp * shape.ring_slots * shape.slot_bytes,
                base + warp * kBarrierBytes, shape.ring_slots, shape.slot_bytes, lane);
  WideRequests<kKind> requests(a, warp);
#pragma unroll 1
  for (int i = 0; i < ring.size(); ++i) requests.next(ring, lane);
  const ActivationStages<kKind, kTiles> activations(a, base, first_token);
  constexpr int kStripFloats = kTiles * 8 * kStripColumns;
  float* columns = reinterpret_cast<float*>(shared + shape.sums_at) + warp * kStripFloats;
  wait_for_predecessor();

  int stage = 0;
  activations.request(wide_task(shape, blockIdx.y).split * shape.chains, stage);
#pragma unroll 1
  for (int number = blockIdx.y; number < shape.tasks; number += gridDim.y) {
    const WideTask task = wide_task(shape, number);
    const StripPlace place = place_strip(a, task.group, warp);
    const int first_chain = task.split * shape.chains;
    const int first = chain_begin<kKind>(m, first_chain),
              end = chain_begin<kKind>(m, first_chain + shape.chains);
    SegmentWalk walk;
    if (place.part >= 0 && first < end) walk.begin(m, place.part, first, end);
    ChainSums<kTiles> sums;
#pragma unroll 1
    for (int c = 0; c < shape.chains; ++c) {
      wait_for_copies<0>();
      __syncthreads();  // this chain's activations are there, and nobody reads those of the one before
      const int next = c + 1 < shape.chains ? number : number + gridDim.y;
      if (next < shape.tasks)
        activations.request(
            next == number ? first_chain + c + 1 : wide_task(shape, next).split * shape.chains, stage ^ 1);
      uint32_t pieces = base + shape.activations_at + stage * shape.stage_bytes + lane * 16;
      stage ^= 1;
      auto take = [&](uint4(&b)[kTiles]) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) b[n] = load_shared_16(pieces + n * 512);
        pieces += kTiles * 512;
      };
      Sums<kTiles> totals;
      clear<kTiles>(totals);
      int segments = place.part < 0 ? 0
                                    : chain_begin<kKind>(m, first_chain + c + 1) -
                                          chain_begin<kKind>(m, first_chain + c);
#pragma unroll 1
      for (; segments > 0; --segments) {
        const uint32_t segment = ring.wait();
        multiply_segment<kKind, kTiles>(segment, walk.bits(m), walk.records(m), lane, take, totals);
        __syncwarp();
        requests.next(ring, lane);
        walk.next(m);
      }
      sums.take(totals, c, shape.chains);
    }
    if (shape.splits > 1) {
      if (place.part < 0) continue;
      const size_t strip = static_cast<size_t>(blockIdx.x) * m.num_strips + task.group * kWideWarps + warp;
      if (!meet<kTiles>(a, strip, task.split, lane, sums.all)) continue;
    }
    put_columns<kTiles>(columns, sums.all, lane);
    if (m.paired) {
      named_barrier(1 + warp / 2, 64);  // a gate with its up
    } else {
      __syncwarp();
    }
    const int tokens = min(kTiles * 8, a.rows - first_token);
    // Of a pair each warp finishes half of the tokens.
#pragma unroll 1
    for (int token = m.paired ? warp & 1 : 0; token < tokens; token += m.paired ? 2 : 1) {
      const int at = sum_place(token, lane);
      if (!m.paired) {
        finish_single(a, place, first_token + token, lane, columns[at]);
      } else if (place.part >= 0) {
        const float* gate = columns - (warp & 1) * kStripFloats;
        finish_pair(a, place.strip, first_token + token, lane, gate[at], gate[kStripFloats + at]);
      }
    }
  }
}

}  // namespace quire::kernels
