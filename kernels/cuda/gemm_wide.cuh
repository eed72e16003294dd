// Tiles of 16 and 32 tokens. See GemmShape.
//
// Two warps share a strip, one for each half of its columns, two strips a warpgroup; all go along K together,
// behind warps that fill stages ahead of them. Where a matrix has too few columns to fill the card its chains
// are split over blocks: sums meet in memory, and the warp that arrives last at a half strip adds them in
// order.
//
// Bytes: the weights once per tile of tokens, activations once per group of strips from L2. Per 1,024 weights
// of 4 bits and 32 tokens: 4 products of a warpgroup's share (or 16 of a warp), 36 instructions to make the
// weights, 2 loads.
#pragma once

#include "kernels/cuda/gemm_output.cuh"
#include "kernels/cuda/gemm_stages.cuh"
#include "kernels/cuda/launch.cuh"

namespace quire::kernels {

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
    if constexpr (kKind == TileKind::dense) {
      multiply_block<kKind, kBits, kTiles>(view, totals);
    } else if (form_records(form) == 1) {
      multiply_block<kKind, kBits, kTiles>(view, totals);
    } else {
      multiply_finely_scaled_block<kKind, kBits, kTiles>(view, totals);
    }
  };
  if constexpr (kKind == TileKind::dense) {
    multiply(std::integral_constant<int, 16>{});
  } else if constexpr (kKind == TileKind::gptq) {
    multiply(std::integral_constant<int, 4>{});
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

// Named barriers of the warps that read stages; 1 to 4 are those of the pairs of a gate and its up.
constexpr int kMeetBarrier = 5;

// Where the splits of a group of strips meet.
struct Meeting {
  float4* partials;   // of this lane's half strip and split 0
  uint32_t* counter;  // of the group
  uint32_t flag;      // a word of shared memory
  int threads;        // of the block that take part
};

// Leaves sums in memory. True for the block that arrives last at its group; `all` is then the sum over all
// splits. A block arrives as one: each arrival waits for what was written before.
template <int kTiles>
__device__ __forceinline__ bool meet(const Meeting& m, int split, HalfSums<kTiles>& all) {
  constexpr int kPieces = kTiles * 32, kAtOnce = 2;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
    __stcg(m.partials + split * kPieces + n * 32, make_float4(all[n][0], all[n][1], all[n][2], all[n][3]));
  named_barrier(kMeetBarrier, m.threads);
  if (threadIdx.x == 0) {
    const uint32_t before = add_acquire_release(m.counter, 1);
    if (before + 1 == kMostSplits) *m.counter = 0;
    store_shared_4(m.flag, before);
  }
  named_barrier(kMeetBarrier, m.threads);
  if (uniform(load_shared_4(m.flag)) + 1 != kMostSplits) return false;
#pragma unroll
  for (int first = 0; first < kTiles; first += kAtOnce) {
    float4 v[kAtOnce][kMostSplits];
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
#pragma unroll
      for (int s = 0; s < kMostSplits; ++s) v[n][s] = __ldcg(m.partials + s * kPieces + (first + n) * 32);
    }
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      float4 sum = v[n][0];
#pragma unroll
      for (int s = 1; s < kMostSplits; ++s)
        sum = make_float4(sum.x + v[n][s].x, sum.y + v[n][s].y, sum.z + v[n][s].z, sum.w + v[n][s].w);
      all[first + n][0] = sum.x;
      all[first + n][1] = sum.y;
      all[first + n][2] = sum.z;
      all[first + n][3] = sum.w;
    }
  }
  return true;
}

// What becomes of the sums of a lane's columns, straight from its registers: for each token eight lanes write
// eight columns side by side.
template <int kTiles>
__device__ __forceinline__ void finish_half(const GemmArguments& a, StripPlace place, int half, int lane,
                                            HalfSums<kTiles>& sums) {
  const Part& part = a.matrix.parts[place.part];
  const int local = place.strip * kStripColumns + 16 * half + (lane >> 2), column = part.first_column + local;
  const int first_token = static_cast<int>(blockIdx.x) * (kTiles * 8) + 2 * (lane & 3);
  const bool there[2] = {local < part.num_columns, local + 8 < part.num_columns};
  if (a.matrix.bias != nullptr) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const float bias = there[c] ? a.matrix.bias[column + 8 * c] : 0.0f;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        sums[n][2 * c] += bias;
        sums[n][2 * c + 1] += bias;
      }
    }
  }
  with_store(a.epilogue, [&](auto store) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        const int token = first_token + 8 * n + (x & 1);
        if (token < a.rows && there[x >> 1])
          store(static_cast<size_t>(token) * a.epilogue.stride + column + 8 * (x >> 1), sums[n][x]);
      }
    }
  });
}

// The same for the warps of a gate and its up, whose lanes have the same columns and tokens: all park their
// sums, `mine` and `other` are the places, and each finishes half of the tokens.
template <int kTiles>
__device__ __forceinline__ void finish_paired_half(const GemmArguments& a, StripPlace place, int slot,
                                                   int half, int lane, uint32_t mine, uint32_t other,
                                                   const HalfSums<kTiles>& sums) {
  constexpr int kShare = kTiles / 2;
  const bool up = (slot & 1) != 0;
  park<kTiles>(mine, sums);
  named_barrier(1 + slot / 2, 128);
  const int first_tile = up ? kShare : 0, column = 16 * half + (lane >> 2);
  const int first_token = static_cast<int>(blockIdx.x) * (kTiles * 8) + first_tile * 8 + 2 * (lane & 3);
  HalfSums<kShare> own, others;
  load_parked<kShare>(mine + first_tile * 512, own);
  load_parked<kShare>(other + first_tile * 512, others);
  named_barrier(1 + slot / 2, 128);  // the next sums take the place
  if (place.part < 0) return;
#pragma unroll
  for (int n = 0; n < kShare; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const int token = first_token + 8 * n + (x & 1);
      if (token < a.rows)
        finish_pair(a, place.strip, token, column + 8 * (x >> 1), up ? others[n][x] : own[n][x],
                    up ? own[n][x] : others[n][x]);
    }
  }
}

// All that a warp does that reads stages: the half strip `warp & 1` of slot `warp / 2`. What the loops use is
// in registers of the warp: what the compiler fetches from the arguments again is waited for each time.
template <TileKind kKind, int kTiles>
__device__ __forceinline__ void read_stages(const GemmArguments& a, const FormTable<kKind>& table,
                                            uint32_t base, int warp, int lane) {
  const Matrix& m = a.matrix;
  const GemmShape& shape = a.shape;
  const int slot = warp >> 1, half = warp & 1;
  const auto parked_by = [&](int w) { return base + shape.sums_at + w * (kTiles * 512) + lane * 16; };
  const uint32_t parked = parked_by(warp);
  const uint32_t weights_at = uniform(kBlockSteps * kStepBytes<kTiles> + slot * shape.slot_bytes);
  const int num_chains = uniform(2 * shape.chains), num_blocks = uniform(m.num_blocks);
  StageRing ring(shape, base);
  wait_for_predecessor();
#pragma unroll 1
  for (int number = static_cast<int>(blockIdx.y); number < shape.tasks;
       number += static_cast<int>(gridDim.y)) {
    const WideTask task = wide_task(shape, number);
    const StripPlace place = place_strip(a, task.group, slot);
    const uint32_t forms = uniform(table.forms(max(place.part, 0)));
    HalfSums<kTiles> sums;
    fill_half<kTiles>(sums, -0.0f);  // adds nothing, not even a sign
#pragma unroll 1
    for (int i = 0; i < num_chains; ++i) {
      const int chain = wide_chain(task.split * (num_chains >> 1), i);
      const int end = chain_block(num_blocks, chain + 1);
      HalfSums<kTiles> totals;
      fill_half<kTiles>(totals, 0.0f);
#pragma unroll 1
      for (int block = chain_block(num_blocks, chain); block < end; ++block) {
        const uint32_t form = uniform(FormTable<kKind>::form(forms, block));
        ring.wait_until_full();
        multiply_any_block<kKind, kTiles>({ring.address() + weights_at, ring.address() >> 4, lane, half},
                                          form, totals);
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
    if (shape.splits > 1) {
      const size_t group = static_cast<size_t>(blockIdx.x) * shape.groups + task.group;
      const size_t half_strip = (group * shape.strips + slot) * 2 + half;
      const Meeting meeting = {
          reinterpret_cast<float4*>(a.partials) + half_strip * (kMostSplits * kTiles * 32) + lane,
          a.counters + group, base + kMeetFlagAt, 64 * shape.strips};
      if (!meet<kTiles>(meeting, task.split, sums)) continue;
    }
    if (m.paired) {
      finish_paired_half<kTiles>(a, place, slot, half, lane, parked, parked_by(warp ^ 2), sums);
    } else if (place.part >= 0) {
      finish_half<kTiles>(a, place, half, lane, sums);
    }
  }
}

// kTiles: tiles of 8 tokens.
template <TileKind kKind, int kTiles>
__global__ void __launch_bounds__(kWideThreads, 1) gemm_wide_kernel(const __grid_constant__ GemmArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  const int warp = static_cast<int>(uniform(threadIdx.x >> 5)), lane = kept(threadIdx.x & 31);
  const uint32_t base = shared_address(shared);
  const FormTable<kKind> table(base + a.shape.table_at, a.matrix);
  table.fill(a.matrix);
  if (threadIdx.x == 0) StageRing(a.shape, base).create(a.shape.strips);
  __syncthreads();
  const int helper = warp - 2 * a.shape.strips;
  if (helper < 0) {
    read_stages<kKind, kTiles>(a, table, base, warp, lane);
  } else if (helper == 0) {
    fill_weights<kKind>(a, table, base, kBlockSteps * kStepBytes<kTiles>, lane);
  } else {
    fill_activations<kTiles>(a, base, helper - 1, lane);
  }
}

}  // namespace quire::kernels
