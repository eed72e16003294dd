// A half strip's way along the chains of a task: blocks of 128 rows out of stages, sums over blocks and
// chains in the order of matrix.h.
#pragma once

#include <type_traits>

#include "kernels/cuda/gemm/gemm_stages.cuh"

namespace quire::kernels {

// What a warp reads of a stage: its half strip's weights and the activations.
struct StageView {
  uint32_t weights;
  uint32_t activations;  // in 16 bytes
  int lane;
  int half;
};

// Calls with the width of the codes as a constant. The same for all lanes of a warp.
template <TileKind kKind, typename Call>
__device__ __forceinline__ void with_width(int bits, Call call) {
  if constexpr (kOnlyBits<kKind> != 0) {
    call(std::integral_constant<int, kOnlyBits<kKind>>{});
  } else if (bits == 4) {
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

// sums += what is parked.
template <int kTiles>
__device__ __forceinline__ void add_parked(uint32_t place, HalfSums<kTiles>& sums) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const uint4 v = load_shared_16(place + n * 512);
    sums[n][0] += __uint_as_float(v.x);
    sums[n][1] += __uint_as_float(v.y);
    sums[n][2] += __uint_as_float(v.z);
    sums[n][3] += __uint_as_float(v.w);
  }
}

// Where a warp finds its half strip in each stage.
struct StageReader {
  uint32_t weights_at;
  int lane;
  int half;
  __device__ __forceinline__ StageView view(uint32_t stage) const {
    // Above 256 KB an address says which block of a pair is meant.
    return {stage + weights_at, (stage >> 4) & 0x3fffU, lane, half};
  }
};

// The end of a plain block, whose last products run: its sums, if they are not the chain's own, join those of
// the chain. `meanwhile` is called before they are waited for.
template <TileKind kKind, int kTiles, typename Meanwhile>
__device__ __forceinline__ void finish_plain_block(const StageView& view, HalfScales<kKind>& group,
                                                   const HalfSums<kTiles>& sums, HalfSums<kTiles>& totals,
                                                   Meanwhile meanwhile) {
  // No earlier than here: each register counts.
  const uint2 found = fetch_half_record<kKind>(view.weights, view.lane >> 2, view.half);
  meanwhile();
  group.make(found, view.half);
  wait_for_products<0>();
  if constexpr (kKind != TileKind::dense) group.template add<kTiles>(sums, totals);
}

// totals += a block of 128 rows of a half strip, where the form is plain: the weights of a step are made
// while the products of the one before run. `meanwhile` is called before the first: the compiler would put
// what it looks up between two of them, and the second would wait for it.
template <TileKind kKind, int kBits, int kTiles, typename Meanwhile>
__device__ __forceinline__ void multiply_plain_block(const StageView& view, HalfSums<kTiles>& totals,
                                                     Meanwhile meanwhile) {
  constexpr bool kDense = kKind == TileKind::dense;
  const uint32_t tiles = view.weights + kRecordBytes<kKind>;
  HalfScales<kKind> group;
  HalfTile<kKind, kBits> tile;
  HalfSums<kTiles> group_sums;
  HalfSums<kTiles>& sums = kDense ? totals : group_sums;
  group.prepare(view.weights, view.lane >> 2, view.half);
  __half2 w[2][8];
#pragma unroll
  for (int i = 0; i < kBlockSteps; ++i) {
    tile.fetch(tiles, i, view.lane, view.half);
    if (i == 0) meanwhile();
    if (i >= 2) wait_for_products<1>();
    tile.decode(group, w[i & 1]);
    start_products<kTiles>(sums, w[i & 1], view.activations + i * (kStepBytes<kTiles> >> 4), kDense || i > 0,
                           view.lane);
  }
  finish_plain_block<kKind, kTiles>(view, group, sums, totals, [] {});
}

// A block step by step, whatever the kind and the form of the warp's strip is: the warps of a warpgroup go
// apart to make weights, and meet to multiply.
template <TileKind kKind, int kTiles>
__device__ __forceinline__ void multiply_block_by_steps(const StageView& view, uint32_t form,
                                                        HalfSums<kTiles>& totals) {
  const int bits = form_bits(form), records = form_records(form);
  uint32_t tiles = view.weights + records * kRecordBytes<kKind>;
  HalfScales<kKind> group;
  HalfSums<kTiles> group_sums;
  HalfSums<kTiles>& sums = kScalesSums<kKind> ? group_sums : totals;
#pragma unroll 1
  for (int i = 0; i < kBlockSteps; ++i) {
    if (i == 0 || records > 1) {
      group.read(view.weights + i * kRecordBytes<kKind>, view.lane >> 2, view.half);
      if constexpr (kScalesSums<kKind>) fill_half<kTiles>(sums, 0.0f);
    }
    __half2 w[8];
    with_width<kKind>(bits, [&]<int kBits>(std::integral_constant<int, kBits>) {
      HalfTile<kKind, kBits> tile;
      tile.fetch(tiles, 0, view.lane, view.half);
      tile.decode(group, w);
    });
    tiles += bits * 128;
    __syncwarp();
    start_products<kTiles>(sums, w, view.activations + i * (kStepBytes<kTiles> >> 4), true, view.lane);
    settle_products<kTiles>(sums);
    if constexpr (kScalesSums<kKind>) {
      if (i + 1 == kBlockSteps || records > 1) group.template add<kTiles>(sums, totals);
    }
  }
}

// The same where the form is plain: the weights of kAtOnce steps are made and then multiplied, and other
// warps fill the time. Where warps have all registers that there are, or are many, products of few steps at a
// time keep each other waiting.
template <TileKind kKind, int kTiles, int kAtOnce, typename Meanwhile>
__device__ __forceinline__ void multiply_block_at_once(const StageView& view, uint32_t form,
                                                       HalfSums<kTiles>& totals, Meanwhile meanwhile) {
  constexpr bool kDense = kKind == TileKind::dense;
  const uint32_t tiles = view.weights + kRecordBytes<kKind>;
  HalfScales<kKind> group;
  HalfSums<kTiles> group_sums;
  HalfSums<kTiles>& sums = kDense ? totals : group_sums;
  group.prepare(view.weights, view.lane >> 2, view.half);
  __half2 w[8 * kAtOnce];
#pragma unroll
  for (int i = 0; i < kBlockSteps; i += kAtOnce) {
    if (i > 0) wait_for_products<0>();
    with_width<kKind>(form_bits(form), [&]<int kBits>(std::integral_constant<int, kBits>) {
      HalfTile<kKind, kBits> tile[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) tile[j].fetch(tiles, i + j, view.lane, view.half);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) tile[j].decode(group, w + 8 * j);
    });
    __syncwarp();
    start_products_of<kTiles, kAtOnce>(sums, w, view.activations + i * (kStepBytes<kTiles> >> 4),
                                       kDense || i > 0, view.lane);
  }
  finish_plain_block<kKind, kTiles>(view, group, sums, totals, meanwhile);
}

// The stages of roomy blocks.
class RoomyRing : public StageRing {
 public:
  using StageRing::StageRing;
};

// Other wide blocks by 64 tokens have no registers for the sum of the chains before.
template <int kTiles, typename Ring>
constexpr bool kParksSums =
    kTiles == kMostWideTiles&& std::is_same_v<Ring, StageRing>&& QUIRE_WARPGROUP_PRODUCTS;

// Steps whose weights are made before their products, by what was measured; 0: one beside the products of
// the other.
template <int kTiles, typename Ring>
constexpr int kStepsAtOnce = kTiles == kBroadTiles                                        ? kBlockSteps
                             : kTiles == kMostWideTiles&& std::is_same_v<Ring, StageRing> ? 2
                                                                                          : 0;

template <TileKind kKind, int kTiles, typename Ring, typename Meanwhile>
__device__ __forceinline__ void multiply_block(const StageView& view, uint32_t form, HalfSums<kTiles>& totals,
                                               Meanwhile meanwhile) {
  constexpr int kAtOnce = kStepsAtOnce<kTiles, Ring>;
  if (form_is_plain<kKind>(form)) {
    if constexpr (kAtOnce > 0) {
      multiply_block_at_once<kKind, kTiles, kAtOnce>(view, form, totals, meanwhile);
    } else {
      with_width<kKind>(form_bits(form), [&]<int kBits>(std::integral_constant<int, kBits>) {
        multiply_plain_block<kKind, kBits, kTiles>(view, totals, meanwhile);
      });
    }
  } else {
    if constexpr (!kIsPlain<kKind>) multiply_block_by_steps<kKind, kTiles>(view, form, totals);
    meanwhile();
  }
}

// The form of a block of 128 rows, or of the last where there is no such block.
template <TileKind kKind>
__device__ __forceinline__ uint32_t form_of_block(uint32_t forms, const TaskChains& chains, int block) {
  return FormTable<kKind>::form(forms, min(block, chains.num_blocks - 1));
}

// Steps whose weights are made while the products of as many before them run, where products add to the sums
// of the chain by themselves. Eight strips by 64 tokens have no registers for more than one.
template <int kTiles, typename Ring>
constexpr int kStepsBeside = kTiles == kMostWideTiles&& std::is_same_v<Ring, StageRing> ? 1 : 2;

// totals = the sums of the blocks of a chain, of kinds whose weights are scaled: the products of a chain
// follow each other over the ends of blocks, and a block's stage is let go once the next one's first products
// are asked for.
template <TileKind kKind, int kTiles, typename Ring>
__device__ __forceinline__ void multiply_straight_chain(const StageReader& reader, uint32_t forms, Ring& ring,
                                                        const TaskChains& chains, int number,
                                                        HalfSums<kTiles>& totals) {
  constexpr int kBeside = kStepsBeside<kTiles, Ring>;
  int block, end;
  chains.find(number, block, end);
  uint32_t form = uniform(form_of_block<kKind>(forms, chains, block)), held = 0;
  const auto let_go = [&] {
    if (held != 0) ring.release(held, reader.lane);
  };
  __half2 w[2][8 * kBeside];
  fill_half<kTiles>(totals, 0.0f);
#pragma unroll 1
  for (; block < end; ++block) {
    ring.wait_until_full();
    const StageView view = reader.view(ring.address());
    const uint32_t coming = form_of_block<kKind>(forms, chains, block + 1);
    if (form_is_plain<kKind>(form)) {
      const uint32_t tiles = view.weights + kRecordBytes<kKind>;
      const uint2 found = fetch_half_record<kKind>(view.weights, view.lane >> 2, view.half);
      HalfScales<kKind> group;
#pragma unroll
      for (int first = 0; first < kBlockSteps; first += kBeside) {
        __half2* made = w[first / kBeside & 1];
        with_width<kKind>(form_bits(form), [&]<int kBits>(std::integral_constant<int, kBits>) {
          HalfTile<kKind, kBits> tile[kBeside];
#pragma unroll
          for (int i = 0; i < kBeside; ++i) tile[i].fetch(tiles, first + i, view.lane, view.half);
          if (first == 0) group.make(found, view.half);
#pragma unroll
          for (int i = 0; i < kBeside; ++i) tile[i].decode(group, made + 8 * i);
        });
        __syncwarp();
        settle_products<kTiles>(totals);
        start_products_of<kTiles, kBeside>(totals, made, view.activations + first * (kStepBytes<kTiles> >> 4),
                                           true, view.lane);
        if (first == 0) let_go();
      }
    } else {
      settle_products<kTiles>(totals);
      let_go();
      multiply_block_by_steps<kKind, kTiles>(view, form, totals);
    }
    form = uniform(coming);
    held = ring.free_barrier();
    ring.next();
  }
  settle_products<kTiles>(totals);
  let_go();
}

// totals = the sums of the blocks of a chain.
template <TileKind kKind, int kTiles, typename Ring>
__device__ __forceinline__ void multiply_chain(const StageReader& reader, uint32_t forms, Ring& ring,
                                               const TaskChains& chains, int number,
                                               HalfSums<kTiles>& totals) {
  if constexpr (kKind == TileKind::exl2)
    return multiply_straight_chain<kKind, kTiles>(reader, forms, ring, chains, number, totals);
  int block, end;
  chains.find(number, block, end);
  const auto form_of = [&](int of) { return uniform(form_of_block<kKind>(forms, chains, of)); };
  fill_half<kTiles>(totals, 0.0f);
  uint32_t form = form_of(block);
#pragma unroll 1
  for (; block < end; ++block) {
    uint32_t coming = 0;
    ring.wait_until_full();
    multiply_block<kKind, kTiles, Ring>(reader.view(ring.address()), form, totals,
                                        [&] { coming = form_of(block + 1); });
    form = coming;
    ring.release(ring.free_barrier(), reader.lane);
    ring.next();
  }
}

// Whether K may be split into halves and quarters; else a split has an eighth, or all.
template <int kTiles>
constexpr bool kSplitsByHalves = kTiles == kBroadTiles;

// A half strip's sums of a task. `parked`: a place in shared memory for as many, of the lane. `leave` takes
// the sums of the eighth of this number of K where what comes before it is another split's, and these are
// none of `sums`.
template <TileKind kKind, int kTiles, typename Ring, typename Leave>
__device__ __forceinline__ void multiply_chains(const StageReader& reader, uint32_t forms, Ring& ring,
                                                const TaskChains& chains, uint32_t parked,
                                                HalfSums<kTiles>& sums, Leave leave) {
  fill_half<kTiles>(sums, -0.0f);  // adds nothing, not even a sign
#pragma unroll 1
  for (int i = 0; i < chains.count; ++i) {
    HalfSums<kTiles> totals;
    multiply_chain<kKind, kTiles>(reader, forms, ring, chains, i, totals);
    if (chains.in_pairs()) {
      if ((i & 1) == 0) {
        park<kTiles>(parked, totals);
        continue;
      }
      add_parked<kTiles>(parked, totals);
    }
    if (kSplitsByHalves<kTiles> && chains.first > 0) {
      leave(chains.first + (chains.in_pairs() ? i >> 1 : i), totals);
    } else {
      add_half<kTiles>(totals, sums);
    }
  }
}

// The same where there are no registers for the sum of the chains before: it is parked. Of chains that are
// added up in order, or of one pair.
template <TileKind kKind, int kTiles, typename Ring>
__device__ __forceinline__ void multiply_parked_chains(const StageReader& reader, uint32_t forms, Ring& ring,
                                                       const TaskChains& chains, uint32_t parked,
                                                       HalfSums<kTiles>& totals) {
#pragma unroll 1
  for (int i = 0;; ++i) {
    multiply_chain<kKind, kTiles>(reader, forms, ring, chains, i, totals);
    if (i > 0) add_parked<kTiles>(parked, totals);
    if (i + 1 == chains.count) return;
    park<kTiles>(parked, totals);
  }
}

}  // namespace quire::kernels
