// A half strip's way along the chains of a task: blocks of 128 rows out of stages, sums over blocks and
// chains in the order of matrix.h.
#pragma once

#include "kernels/cuda/gemm/gemm_stages.cuh"

namespace quire::kernels {

// Tiles whose sums leave registers for weights that are made ahead.
template <int kTiles>
constexpr bool kRunsAhead = kTiles == 16 && QUIRE_WARPGROUP_PRODUCTS;

// What a warp reads of a stage: its half strip's weights and the activations.
struct StageView {
  uint32_t weights;
  uint32_t activations;  // in 16 bytes
  int lane;
  int half;
};

// totals += a block of 128 rows of a half strip, where all of a warpgroup's strips have the same form, and
// one record of scales. Weights are made while the products of the step before run.
template <TileKind kKind, int kBits, int kTiles>
__device__ __forceinline__ void multiply_block(const StageView& view, HalfSums<kTiles>& totals) {
  constexpr bool kDense = kKind == TileKind::dense;
  const uint32_t tiles = view.weights + kRecordBytes<kKind>;
  HalfScales<kKind> group;
  HalfTile<kKind, kBits> tile;
  if constexpr (!kDense) group.read(view.weights, view.lane >> 2, view.half);
  HalfSums<kTiles> group_sums;
  HalfSums<kTiles>& sums = kDense ? totals : group_sums;
  __half2 w[2][8];
#pragma unroll
  for (int i = 0; i < kBlockSteps; ++i) {
    tile.fetch(tiles + i * (kBits * 128), view.lane, view.half);
    if (i >= 2) wait_for_products<1>();
    tile.decode(group, w[i & 1]);
    start_products<kTiles>(sums, w[i & 1], view.activations + i * (kStepBytes<kTiles> >> 4), kDense || i > 0,
                           view.lane);
  }
  wait_for_products<0>();
  if constexpr (!kDense) group.template add<kTiles>(sums, totals);
}

// The same with a record of scales for each step. Sums of two steps on their way at a time are more registers
// than there are.
template <TileKind kKind, int kBits, int kTiles>
__device__ __forceinline__ void multiply_finely_scaled_block(const StageView& view,
                                                             HalfSums<kTiles>& totals) {
  const uint32_t tiles = view.weights + kBlockSteps * kRecordBytes<kKind>;
  HalfTile<kKind, kBits> tile;
  tile.fetch(tiles, view.lane, view.half);
#pragma unroll 1
  for (int i = 0; i < kBlockSteps; ++i) {
    HalfScales<kKind> group;
    HalfSums<kTiles> sums;
    __half2 w[8];
    group.read(view.weights + i * kRecordBytes<kKind>, view.lane >> 2, view.half);
    tile.decode(group, w);
    if (i + 1 < kBlockSteps) tile.fetch(tiles + (i + 1) * (kBits * 128), view.lane, view.half);
    start_products<kTiles>(sums, w, view.activations + i * (kStepBytes<kTiles> >> 4), false, view.lane);
    wait_for_products<0>();
    group.template add<kTiles>(sums, totals);
  }
}

// Calls with the width of an exl2 segment as a constant. The same for all lanes of a warp.
template <typename Call>
__device__ __forceinline__ void with_width(int bits, Call call) {
  if (bits == 4) {
    call(std::integral_constant<int, 4>{});
  } else if (bits == 3) {
    call(std::integral_constant<int, 3>{});
  } else if (bits == 5) {
    call(std::integral_constant<int, 5>{});
  } else if (bits == 6) {
    call(std::integral_constant<int, 6>{});
  } else if (bits == 2) {
    call(std::integral_constant<int, 2>{});
  } else if (bits == 8) {
    call(std::integral_constant<int, 8>{});
  }
}

// The same where the strips of a warpgroup may differ: their warps go apart to make weights, and meet to
// multiply.
template <int kTiles>
__device__ __forceinline__ void multiply_mixed_block(const StageView& view, int bits, int records,
                                                     HalfSums<kTiles>& totals) {
  constexpr TileKind kKind = TileKind::exl2;
  uint32_t tiles = view.weights + records * kRecordBytes<kKind>;
  HalfScales<kKind> group;
  HalfSums<kTiles> sums;
  __half2 w[8];
#pragma unroll 1
  for (int i = 0; i < kBlockSteps; ++i, tiles += bits * 128) {
    if (i == 0 || records > 1) {
      group.read(view.weights + i * kRecordBytes<kKind>, view.lane >> 2, view.half);
      fill_half<kTiles>(sums, 0.0f);
    }
    with_width(bits, [&]<int kBits>(std::integral_constant<int, kBits>) {
      HalfTile<kKind, kBits> tile;
      tile.fetch(tiles, view.lane, view.half);
      tile.decode(group, w);
    });
    __syncwarp();
    start_products<kTiles>(sums, w, view.activations + i * (kStepBytes<kTiles> >> 4), true, view.lane);
    wait_for_products<0>();
    if (i + 1 == kBlockSteps || records > 1) group.template add<kTiles>(sums, totals);
  }
}

template <TileKind kKind, int kTiles>
__device__ __forceinline__ void multiply_any_block(const StageView& view, uint32_t form,
                                                   HalfSums<kTiles>& totals) {
  const auto multiply = [&]<int kBits>(std::integral_constant<int, kBits>) {
    if constexpr (!kRunsAhead<kTiles>) {  // else these go another way: multiply_run
      if (kKind == TileKind::dense || form_records(form) == 1)
        return multiply_block<kKind, kBits, kTiles>(view, totals);
    }
    if constexpr (kKind != TileKind::dense) multiply_finely_scaled_block<kKind, kBits, kTiles>(view, totals);
  };
  if constexpr (kKind == TileKind::dense) {
    multiply(std::integral_constant<int, 16>{});
  } else if constexpr (kKind == TileKind::gptq) {
    multiply(std::integral_constant<int, 4>{});
  } else if constexpr (kKind == TileKind::fp8) {
    multiply(std::integral_constant<int, 8>{});
  } else if (form_is_common(form)) {
    with_width(form_bits(form), multiply);
  } else {
    multiply_mixed_block<kTiles>(view, form_bits(form), form_records(form), totals);
  }
}

// A lane's sums in shared memory.
template <int kTiles>
__device__ __forceinline__ void park(uint32_t place, const HalfSums<kTiles>& sums) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
    store_shared_16(place + n * 512, make_uint4(__float_as_uint(sums[n][0]), __float_as_uint(sums[n][1]),
                                                __float_as_uint(sums[n][2]), __float_as_uint(sums[n][3])));
}

template <int kTiles>
__device__ __forceinline__ void load_parked(uint32_t place, HalfSums<kTiles>& sums) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const uint4 v = load_shared_16(place + n * 512);
    sums[n][0] = __uint_as_float(v.x);
    sums[n][1] = __uint_as_float(v.y);
    sums[n][2] = __uint_as_float(v.z);
    sums[n][3] = __uint_as_float(v.w);
  }
}

// The blocks of 128 rows of a task's chains, in the order in which they are worked on.
struct ChainWalk {
  int first_chain;  // of the task's
  int num_chains;
  int num_blocks;   // of the matrix
  int number = -1;  // of the chain, among the task's
  int block = 0;
  int end = 0;

  // False after the last.
  __device__ __forceinline__ bool next() {
    ++block;
#pragma unroll 1
    while (block >= end) {
      if (++number == num_chains) return false;
      const int chain = wide_chain(first_chain, number);
      block = chain_block(num_blocks, chain);
      end = chain_block(num_blocks, chain + 1);
    }
    return true;
  }
};

// A lane's sums of a task: over the chain that is worked on, and over those before it. The first chain of a
// pair is parked.
template <int kTiles>
struct TaskSums {
  HalfSums<kTiles> totals;
  HalfSums<kTiles>& sums;
  uint32_t parked;
  int chain = 0;

  __device__ __forceinline__ TaskSums(uint32_t place, HalfSums<kTiles>& to) : sums(to), parked(place) {
    fill_half<kTiles>(sums, -0.0f);  // adds nothing, not even a sign
    fill_half<kTiles>(totals, 0.0f);
  }
  // Ends the chains before this one.
  __device__ __forceinline__ void reach(int number) {
#pragma unroll 1
    for (; chain < number; ++chain) {
      if ((chain & 1) == 0) {
        park<kTiles>(parked, totals);
      } else {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          const uint4 first = load_shared_16(parked + n * 512);
          sums[n][0] += totals[n][0] + __uint_as_float(first.x);
          sums[n][1] += totals[n][1] + __uint_as_float(first.y);
          sums[n][2] += totals[n][2] + __uint_as_float(first.z);
          sums[n][3] += totals[n][3] + __uint_as_float(first.w);
        }
      }
      fill_half<kTiles>(totals, 0.0f);
    }
  }
};

// Where a warp finds its half strip in each stage.
struct StageReader {
  uint32_t weights_at;
  int lane;
  int half;
  __device__ __forceinline__ StageView view(uint32_t stage) const {
    return {stage + weights_at, stage >> 4, lane, half};
  }
};

// A block and those after it that have its form. While the last products of one run, the weights of the next
// one's first step are made, so that the tensor cores need not wait for the way from a stage to a weight.
// False after the last block of the task.
template <TileKind kKind, int kBits, int kTiles, typename Ring>
__device__ __forceinline__ bool multiply_run(const StageReader& reader, uint32_t form, uint32_t forms,
                                             Ring& ring, ChainWalk& walk, TaskSums<kTiles>& task) {
  static_assert(kBlockSteps == 4);
  constexpr bool kDense = kKind == TileKind::dense;
  constexpr uint32_t kStep = kStepBytes<kTiles> / 16;
  const int lane = reader.lane, half = reader.half;
  HalfScales<kKind> group, coming;
  HalfTile<kKind, kBits> tile;
  HalfSums<kTiles> group_sums;
  HalfSums<kTiles>& sums = kDense ? task.totals : group_sums;
  __half2 w[2][8];
  ring.wait_until_full();
  if constexpr (!kDense) group.read(ring.address() + reader.weights_at, lane >> 2, half);
  tile.fetch(ring.address() + reader.weights_at + kRecordBytes<kKind>, lane, half);
  tile.decode(group, w[0]);
#pragma unroll 1
  for (;;) {
    const uint32_t tiles = ring.address() + reader.weights_at + kRecordBytes<kKind>;
    const uint32_t activations = ring.address() >> 4;
    start_products<kTiles>(sums, w[0], activations, kDense, lane);
    ChainWalk ahead = walk;
    const bool there = ahead.next();
    const bool goes_on = there && uniform(FormTable<kKind>::form(forms, ahead.block)) == form;
#pragma unroll
    for (int i = 1; i < kBlockSteps; ++i) {
      tile.fetch(tiles + i * (kBits * 128), lane, half);
      if (i >= 2) wait_for_products<1>();
      tile.decode(group, w[i & 1]);
      start_products<kTiles>(sums, w[i & 1], activations + i * kStep, true, lane);
    }
    if (goes_on) {
      Ring next = ring;
      next.next();
      next.wait_until_full();
      const uint32_t weights = next.address() + reader.weights_at;
      if constexpr (!kDense) coming.read(weights, lane >> 2, half);
      tile.fetch(weights + kRecordBytes<kKind>, lane, half);
      wait_for_products<1>();
      tile.decode(coming, w[0]);
    }
    wait_for_products<0>();
    if constexpr (!kDense) group.template add<kTiles>(sums, task.totals);
    ring.release();
    ring.next();
    walk = ahead;
    if (!goes_on) return there;
    group = coming;
    task.reach(walk.number);
  }
}

template <TileKind kKind, int kTiles, typename Ring>
__device__ __forceinline__ bool multiply_any_run(const StageReader& reader, uint32_t form, uint32_t forms,
                                                 Ring& ring, ChainWalk& walk, TaskSums<kTiles>& task) {
  bool there = false;
  const auto multiply = [&]<int kBits>(std::integral_constant<int, kBits>) {
    there = multiply_run<kKind, kBits, kTiles>(reader, form, forms, ring, walk, task);
  };
  if constexpr (kKind == TileKind::dense) {
    multiply(std::integral_constant<int, 16>{});
  } else if constexpr (kKind == TileKind::gptq) {
    multiply(std::integral_constant<int, 4>{});
  } else if constexpr (kKind == TileKind::fp8) {
    multiply(std::integral_constant<int, 8>{});
  } else {
    with_width(form_bits(form), multiply);
  }
  return there;
}

// A task's sums, each block's weights made ahead where it may be.
template <TileKind kKind, int kTiles, typename Ring>
__device__ __forceinline__ void multiply_ahead(const StageReader& reader, uint32_t forms, Ring& ring,
                                               ChainWalk walk, uint32_t parked, HalfSums<kTiles>& sums) {
  TaskSums<kTiles> task(parked, sums);
#pragma unroll 1
  for (bool there = walk.next(); there;) {
    task.reach(walk.number);
    const uint32_t form = uniform(FormTable<kKind>::form(forms, walk.block));
    if (kKind == TileKind::dense || (form_is_common(form) && form_records(form) == 1)) {
      there = multiply_any_run<kKind, kTiles>(reader, form, forms, ring, walk, task);
      continue;
    }
    ring.wait_until_full();
    multiply_any_block<kKind, kTiles>(reader.view(ring.address()), form, task.totals);
    ring.release();
    ring.next();
    there = walk.next();
  }
  task.reach(walk.num_chains);
}

// The same block by block: for tiles of fewer tokens, which lose by the other way (64 tokens: a step of 64
// jobs of 8B 5,751 us instead of 5,373).
template <TileKind kKind, int kTiles, typename Ring>
__device__ __forceinline__ void multiply_chains(const StageReader& reader, uint32_t forms, Ring& ring,
                                                const ChainWalk& walk, uint32_t parked,
                                                HalfSums<kTiles>& sums) {
  fill_half<kTiles>(sums, -0.0f);  // adds nothing, not even a sign
#pragma unroll 1
  for (int i = 0; i < walk.num_chains; ++i) {
    const int chain = wide_chain(walk.first_chain, i);
    const int end = chain_block(walk.num_blocks, chain + 1);
    HalfSums<kTiles> totals;
    fill_half<kTiles>(totals, 0.0f);
#pragma unroll 1
    for (int block = chain_block(walk.num_blocks, chain); block < end; ++block) {
      const uint32_t form = uniform(FormTable<kKind>::form(forms, block));
      ring.wait_until_full();
      multiply_any_block<kKind, kTiles>(reader.view(ring.address()), form, totals);
      ring.release();
      ring.next();
    }
    if ((i & 1) == 0) {
      park<kTiles>(parked, totals);
      continue;
    }
    HalfSums<kTiles> first;
    load_parked<kTiles>(parked, first);
    add_half<kTiles>(first, totals);
    add_half<kTiles>(totals, sums);
  }
}

}  // namespace quire::kernels
