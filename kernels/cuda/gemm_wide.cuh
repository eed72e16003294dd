// Tiles of 16 and 32 tokens. See GemmShape.
//
// Bytes: the weights once per tile of tokens; the activations of a block's chains once per block, into shared
// memory, where they stay. Sums of chains are added in the block, then pushed to the block of the cluster
// that finishes the columns in question; `held` tokens at a time.
#pragma once

#include "kernels/cuda/gemm_output.cuh"
#include "kernels/cuda/launch.cuh"

namespace quire::kernels {

// The tokens of a group that are exchanged at a time: `held` of them from `first_token` on.
struct Round {
  int group;
  int first_token;
};

// Sums of four columns over the chains of a block; `stride` floats from one chain to the next.
__device__ __forceinline__ float4 add_block_chains(const float* first, int stride, int chains) {
  auto add = [](float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); };
  auto at = [&](int c) { return *reinterpret_cast<const float4*>(first + c * stride); };
  const float4 two = add(at(0), at(1));
  return chains == 2 ? two : add(two, add(at(2), at(3)));
}

// Sum over the blocks that share a group. of(s): split s.
template <typename Of>
__device__ __forceinline__ float add_splits(int splits, Of of) {
  if (splits == 4) return ((of(0) + of(1)) + of(2)) + of(3);
  return (((of(0) + of(1)) + (of(2) + of(3))) + (of(4) + of(5))) + (of(6) + of(7));
}

// Sums of a warp's chain for the tokens of a round into its place.
template <int kTiles>
__device__ __forceinline__ void put_round(float* place, const Sums<kTiles>& totals, int first_tile, int tiles,
                                          int lane) {
  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    if (n < first_tile || n >= first_tile + tiles) continue;
    // The swizzle of a token 8n + 2t + y is t.
    float* at = place + (8 * (n - first_tile) + 2 * t) * kStripColumns;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        const int column = (16 * i + 8 * x + g) ^ (t << 3);
        at[column] = totals[i][n][2 * x];
        at[column + kStripColumns] = totals[i][n][2 * x + 1];
      }
    }
  }
}

#if __CUDA_ARCH__ >= 900

// Blocks of a cluster push what they found into the shared memory of the block that finishes the columns in
// question: of a group of `splits` strips one strip each, of gates and ups 16 columns of both. Pushes
// announce themselves at the receiver's barrier. Four buffers: a block finishes a round after it has sent the
// next one, and a block that has finished round k - 1 has heard from all others that they have finished round
// k - 3.
class Exchange {
 public:
  // Blocks of the cluster may push once this has returned.
  __device__ __forceinline__ Exchange(const GemmArguments& a, uint32_t shared, int split)
      : a_(a), shared_(shared), split_(split) {
    if (threadIdx.x < kReceiveBuffers)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_at(threadIdx.x)) : "memory");
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  }

  __device__ __forceinline__ void send(const float* sums, Round round) {
    const GemmShape& s = a_.shape;
    const int buffer = sent_ % kReceiveBuffers, stride = s.held * kStripColumns;
    const uint32_t barrier = barrier_at(buffer);
    if (threadIdx.x == 0)
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                   "r"(s.splits * stride * 4)
                   : "memory");
    const uint32_t received = buffer_at(buffer) + split_ * stride * 4;
    const bool paired = a_.matrix.paired != 0;
    // Four columns of one token and strip at a time; held * 8 such pieces are a strip.
#pragma unroll 1
    for (int i = threadIdx.x; i < s.strips * s.held * 8; i += kGemmThreads) {
      const int column = i % 8 * 4, token = i / 8 % s.held, slot = i / 8 / s.held;
      const float4 v =
          add_block_chains(sums + slot * s.chains * stride + sum_place(token, column), stride, s.chains);
      const int owner = paired ? (slot & ~1) + column / 16 : slot;
      const int at =
          paired ? ((slot & 1) * s.held + token) * 16 + column % 16 : token * kStripColumns + column;
      push(received + at * 4, barrier, owner, v);
    }
    ++sent_;
  }
  // Rounds in the order in which they were sent.
  __device__ __forceinline__ void finish(Round round) {
    const GemmShape& s = a_.shape;
    const int buffer = finished_ % kReceiveBuffers;
    asm volatile(
        "{\n"
        ".reg .pred arrived;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 arrived, [%0], %1;\n"
        "@!arrived bra again;\n"
        "}\n" ::"r"(barrier_at(buffer)),
        "r"(finished_ / kReceiveBuffers & 1)
        : "memory");
    ++finished_;
    const uint32_t received = buffer_at(buffer);
    const int stride = s.held * kStripColumns, live = a_.rows - round.first_token;
    if (a_.matrix.paired) {
      const StripPlace place = place_strip(a_, round.group, split_ & ~1);
#pragma unroll 1
      for (int i = threadIdx.x; i < s.held * 16; i += kGemmThreads) {
        const int token = i / 16, local = i % 16;
        float v[2];
#pragma unroll
        for (int half = 0; half < 2; ++half)
          v[half] = add_splits(s.splits, [&](int from) {
            return __uint_as_float(
                load_shared_4(received + (from * stride + (half * s.held + token) * 16 + local) * 4));
          });
        if (token < live && place.part >= 0)
          finish_pair(a_, place.strip, round.first_token + token, (split_ & 1) * 16 + local, v[0], v[1]);
      }
    } else {
      const StripPlace place = place_strip(a_, round.group, split_);
#pragma unroll 1
      for (int i = threadIdx.x; i < s.held * kStripColumns; i += kGemmThreads) {
        const int token = i / kStripColumns, column = i % kStripColumns;
        const float v = add_splits(s.splits, [&](int from) {
          return __uint_as_float(load_shared_4(received + (from * stride + i) * 4));
        });
        if (token < live) finish_single(a_, place, round.first_token + token, column, v);
      }
    }
  }

 private:
  __device__ __forceinline__ uint32_t barrier_at(int buffer) const {
    return shared_ + kReceiveBarriersAt + 8 * buffer;
  }
  __device__ __forceinline__ uint32_t buffer_at(int buffer) const {
    return shared_ + a_.shape.received_at + buffer * a_.shape.splits * a_.shape.held * kStripColumns * 4;
  }
  __device__ __forceinline__ static void push(uint32_t address, uint32_t barrier, int rank, float4 v) {
    uint32_t there, barrier_there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier_there) : "r"(barrier), "r"(rank));
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::
            "r"(there),
        "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier_there)
        : "memory");
  }
  const GemmArguments& a_;
  uint32_t shared_;
  int split_;
  int sent_ = 0;
  int finished_ = 0;
};

#else

// Without clusters the block that arrives last at a group adds what the others left in memory.
class Exchange {
 public:
  __device__ __forceinline__ Exchange(const GemmArguments& a, uint32_t, int split) : a_(a), split_(split) {}

  __device__ __forceinline__ void send(const float* sums, Round round) {
    extern __shared__ __align__(128) uint8_t shared[];
    bool& last = *reinterpret_cast<bool*>(shared + kNormSumsAt);
    const GemmShape& s = a_.shape;
    const int stride = s.held * kStripColumns;
    const size_t place = static_cast<size_t>(blockIdx.x) * s.groups + round.group;
    float* partials = a_.partials + place * s.splits * s.strips * stride;
    for (int i = threadIdx.x; i < s.strips * s.held * 8; i += kGemmThreads) {
      const int column = i % 8 * 4, token = i / 8 % s.held, slot = i / 8 / s.held;
      const float4 v =
          add_block_chains(sums + slot * s.chains * stride + sum_place(token, column), stride, s.chains);
      __stcg(reinterpret_cast<float4*>(partials + (split_ * s.strips + slot) * stride +
                                       token * kStripColumns + column),
             v);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      const uint32_t before = atomicAdd(a_.counters + place, 1U);
      last = before == static_cast<uint32_t>(s.splits) - 1;
      if (last) a_.counters[place] = 0;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    const int live = a_.rows - round.first_token, units = a_.matrix.paired ? s.strips / 2 : s.strips;
    for (int i = threadIdx.x; i < units * stride; i += kGemmThreads) {
      const int column = i % kStripColumns, token = i / kStripColumns % s.held, unit = i / stride;
      if (token >= live) continue;
      auto sum = [&](int slot) {
        return add_splits(s.splits, [&](int from) {
          return __ldcg(partials + (from * s.strips + slot) * stride + token * kStripColumns + column);
        });
      };
      if (a_.matrix.paired) {
        const StripPlace at = place_strip(a_, round.group, 2 * unit);
        if (at.part >= 0)
          finish_pair(a_, at.strip, round.first_token + token, column, sum(2 * unit), sum(2 * unit + 1));
      } else {
        finish_single(a_, place_strip(a_, round.group, unit), round.first_token + token, column, sum(unit));
      }
    }
  }
  __device__ __forceinline__ void finish(Round) const {}

 private:
  const GemmArguments& a_;
  int split_;
};

#endif

// The activations of the segments [first, end) for the block's tokens, [step][tile][lane] pieces of 16 bytes.
template <int kTiles>
__device__ __forceinline__ void copy_activations(const GemmArguments& a, int first_step, int end_step,
                                                 int first_token, uint32_t target) {
  const int tokens = a.rows - first_token;
#pragma unroll 1
  for (int i = threadIdx.x; i < (end_step - first_step) * kTiles * 32; i += kGemmThreads) {
    const int token = (i / 32 % kTiles) * 8 + (i % 32) / 4;
    const int row = (first_step + i / (32 * kTiles)) * kStepRows + (i % 4) * 8;
    const bool live = token < tokens;
    const __half* from =
        live ? a.input + static_cast<size_t>(first_token + token) * a.input_stride + row : a.input;
    copy_async_16(target + i * 16, from, live ? 16 : 0);
  }
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();
}

// kTiles: tiles of 8 tokens.
template <TileKind kKind, int kTiles>
__global__ void __launch_bounds__(kGemmThreads, 1) gemm_wide_kernel(const __grid_constant__ GemmArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();

  const Matrix& m = a.matrix;
  const GemmShape& shape = a.shape;
  const int warp = __shfl_sync(0xffffffffU, threadIdx.x >> 5, 0), lane = threadIdx.x & 31;
  const int split = blockIdx.y % shape.splits, first_group = blockIdx.y / shape.splits;
  const int first_token = blockIdx.x * (kTiles * 8);
  const uint32_t base = shared_address(shared);
  const int slot = warp / shape.chains, chain = split * shape.chains + warp % shape.chains;
  const int first = chain_begin<kKind>(m, chain), end = chain_begin<kKind>(m, chain + 1);
  constexpr int kSteps = kKind == TileKind::dense ? 1 : kBlockSteps;  // of a segment

  WarpRing ring(base + shape.rings_at + warp * shape.ring_slots * shape.slot_bytes, base + warp * 16,
                shape.ring_slots, shape.slot_bytes, lane);
  SegmentRequests requests(a, first_group, slot, slot + 1, first, end);
#pragma unroll 1
  for (int i = 0; i < ring.size(); ++i) requests.next(ring, lane);
  Exchange exchange(a, base, split);
  const int first_step = chain_begin<kKind>(m, split * shape.chains) * kSteps;
  wait_for_predecessor();
  copy_activations<kTiles>(a, first_step, chain_begin<kKind>(m, (split + 1) * shape.chains) * kSteps,
                           first_token, base + shape.activations_at);

  auto* sums = reinterpret_cast<float*>(shared + shape.sums_at);
  Sums<kTiles> totals;
  Round sent{-1, 0};
#pragma unroll 1
  for (int group = first_group, tile = 0;;) {
    const Round round{group, first_token + tile * 8};
    const bool more = group < shape.groups;
    if (more) {
      if (tile == 0) {
        clear<kTiles>(totals);
        const int part = place_strip(a, group, slot).part;
        if (first < end && part >= 0) {
          uint32_t pieces =
              base + shape.activations_at + lane * 16 + (first * kSteps - first_step) * (kTiles * 512);
          auto take = [&](uint4(&b)[kTiles]) {
#pragma unroll
            for (int n = 0; n < kTiles; ++n) b[n] = load_shared_16(pieces + n * 512);
            pieces += kTiles * 512;
          };
          SegmentWalk walk;
          walk.begin(m, part, first, end);
          do {
            const uint32_t segment = ring.wait();
            multiply_segment<kKind, kTiles>(segment, walk.bits(m), walk.records(m), lane, take, totals);
            __syncwarp();
            requests.next(ring, lane);
          } while (walk.next(m));
        }
      }
      __syncthreads();  // those who added are done with the round before
      put_round<kTiles>(sums + warp * shape.held * kStripColumns, totals, tile, shape.held / 8, lane);
      __syncthreads();
      exchange.send(sums, round);
    }
    if (sent.group >= 0) exchange.finish(sent);
    if (!more) return;
    sent = round;
    tile += shape.held / 8;
    if (tile >= kTiles || first_token + tile * 8 >= a.rows) {
      tile = 0;
      group += shape.group_blocks;
    }
  }
}

}  // namespace quire::kernels
