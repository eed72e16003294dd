// Warpgroup products of a half strip along the chains of a task: blocks of 128 rows from ring slots, summed
// over blocks and chains in the order of matrix.h.
#pragma once

#include <type_traits>

#include "kernels/cuda/gemm/gemm_stages.cuh"

#if QUIRE_WARPGROUP_PRODUCTS

namespace quire::kernels {

// Location of a warp's half strip in each ring slot.
struct SlotReader {
  uint32_t weights_at;
  int lane;
  int half;
  __device__ __forceinline__ SlotView view(uint32_t stage) const {
    // Bits above 256 KB of an address select a block of the pair.
    return {stage + weights_at, (stage >> 4) & 0x3fffU, lane, half};
  }
};

// Finishes a plain block (one record of scales) whose last products are running: adds its sums to those of
// the chain, unless they are the same registers. Calls `meanwhile` before it waits for the products.
template <TileKind kKind, int kTiles, typename Meanwhile>
__device__ __forceinline__ void finish_plain_block(const SlotView& view, HalfScales<kKind>& group,
                                                   const HalfSums<kTiles>& sums, HalfSums<kTiles>& totals,
                                                   Meanwhile meanwhile) {
  // Not earlier, to save registers.
  const uint2 found = fetch_half_record<kKind>(view.weights, view.lane >> 2, view.half);
  meanwhile();
  group.make(found, view.half);
  wait_for_products<0>();
  if constexpr (kKind != TileKind::dense) group.template add<kTiles>(sums, totals);
}

// totals += a block of 128 rows of a half strip, if the form is plain. The weights of a step are decoded
// while the products of the step before run. `meanwhile` is called before the first product; otherwise the
// compiler would put its loads between two products, and the second would wait for them.
template <TileKind kKind, int kBits, int kTiles, typename Meanwhile>
__device__ __forceinline__ void multiply_plain_block(const SlotView& view, HalfSums<kTiles>& totals,
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
    start_products<kTiles>(sums, w[i & 1], view.activations + i * (kStepBytes<kTiles> >> 4), kDense || i > 0);
  }
  finish_plain_block<kKind, kTiles>(view, group, sums, totals, [] {});
}

// Multiplies a block step by step, for any kind and form of the warp's strip. The warps of a warpgroup decode
// weights separately and synchronize to multiply.
template <TileKind kKind, int kTiles>
__device__ __forceinline__ void multiply_block_by_steps(const SlotView& view, uint32_t form,
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
    start_products<kTiles>(sums, w, view.activations + i * (kStepBytes<kTiles> >> 4), true);
    settle_products<kTiles>(sums);
    if constexpr (kScalesSums<kKind>) {
      if (i + 1 == kBlockSteps || records > 1) group.template add<kTiles>(sums, totals);
    }
  }
}

// Multiplies a plain block: decodes the weights of kAtOnce steps, then multiplies them, while other warps
// fill the time. If warps use all registers, or there are many warps, products of only a few steps at a time
// would keep each other waiting.
template <TileKind kKind, int kTiles, int kAtOnce, typename Meanwhile>
__device__ __forceinline__ void multiply_block_at_once(const SlotView& view, uint32_t form,
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
                                       kDense || i > 0);
  }
  finish_plain_block<kKind, kTiles>(view, group, sums, totals, meanwhile);
}

// Ring slots of few-strip blocks (GemmShape::few_strips).
class FewStripRing : public SlotRing {
 public:
  using SlotRing::SlotRing;
};

// Other wide blocks of 64 tokens have no registers for the sum of earlier chains and park it in shared
// memory.
template <int kTiles, typename Ring>
constexpr bool kParksSums =
    kTiles == kMaxWideTiles&& std::is_same_v<Ring, SlotRing>&& QUIRE_WARPGROUP_PRODUCTS;

// Number of steps whose weights are decoded before their products, chosen by measurement; 0: one step is
// decoded during the products of the other.
template <int kTiles, typename Ring>
constexpr int kStepsAtOnce = kTiles == kBroadTiles                                      ? kBlockSteps
                             : kTiles == kMaxWideTiles&& std::is_same_v<Ring, SlotRing> ? 2
                                                                                        : 0;

template <TileKind kKind, int kTiles, typename Ring, typename Meanwhile>
__device__ __forceinline__ void multiply_block(const SlotView& view, uint32_t form, HalfSums<kTiles>& totals,
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

// Number of steps decoded while the products of the same number of earlier steps run, for products that add
// to the chain's sums directly. Eight strips by 64 tokens have registers for only one, and by 32 tokens those
// of a trellis.
template <TileKind kKind, int kTiles, typename Ring>
constexpr int kStepsBeside = std::is_same_v<Ring, SlotRing> &&
                                     (kTiles == kMaxWideTiles || (kKind == TileKind::trellis && kTiles == 4))
                                 ? 1
                                 : 2;

// True for kinds whose weights have their scale, so that products add to the sums of the chain.
template <TileKind kKind>
constexpr bool kIsStraight =
    kKind == TileKind::exl2 || kKind == TileKind::blocks || kKind == TileKind::trellis;

// totals = the sums of the blocks of a chain, for kinds with scaled weights. The products of a chain continue
// across the ends of blocks; the ring slot of a block is released after the first products of the next block
// have started.
template <TileKind kKind, int kTiles, typename Ring>
__device__ __forceinline__ void multiply_straight_chain(const SlotReader& reader, uint32_t forms, Ring& ring,
                                                        const TaskChains& chains, int number,
                                                        HalfSums<kTiles>& totals) {
  constexpr int kBeside = kStepsBeside<kKind, kTiles, Ring>;
  int block, end;
  chains.find(number, block, end);
  uint32_t form = uniform(form_of_block<kKind>(forms, chains, block)), held = 0;
  const auto release_previous = [&] {
    if (held != 0) ring.release(held, reader.lane);
  };
  __half2 w[2][8 * kBeside];
  fill_half<kTiles>(totals, 0.0f);
#pragma unroll 1
  for (; block < end; ++block) {
    ring.wait_until_full();
    const SlotView view = reader.view(ring.address());
    const uint32_t coming = form_of_block<kKind>(forms, chains, block + 1);
    if constexpr (kKind == TileKind::trellis) {
      for_constants<kBlockSteps / kBeside>([&]<int i>(std::integral_constant<int, i>) {
        constexpr int kFirst = i * kBeside;
        decode_trellis_steps<kBeside, kFirst>(view, form_bits(form), w[i & 1]);
        __syncwarp();
        settle_products<kTiles>(totals);
        start_products_of<kTiles, kBeside>(totals, w[i & 1],
                                           view.activations + kFirst * (kStepBytes<kTiles> >> 4), true);
        if constexpr (i == 0) release_previous();
      });
    } else if (form_is_plain<kKind>(form)) {
      const uint32_t tiles = view.weights + kRecordBytes<kKind>;
      const uint2 found = fetch_half_record<kKind>(view.weights, view.lane >> 2, view.half);
      HalfScales<kKind> group;
#pragma unroll
      for (int first = 0; first < kBlockSteps; first += kBeside) {
        __half2* made = w[first / kBeside & 1];
        if constexpr (kKind == TileKind::blocks) {
          decode_block_steps<kBeside>(view, form_bits(form), first, made);
        } else {
          with_width<kKind>(form_bits(form), [&]<int kBits>(std::integral_constant<int, kBits>) {
            HalfTile<kKind, kBits> tile[kBeside];
#pragma unroll
            for (int i = 0; i < kBeside; ++i) tile[i].fetch(tiles, first + i, view.lane, view.half);
            if (first == 0) group.make(found, view.half);
#pragma unroll
            for (int i = 0; i < kBeside; ++i) tile[i].decode(group, made + 8 * i);
          });
        }
        __syncwarp();
        settle_products<kTiles>(totals);
        start_products_of<kTiles, kBeside>(totals, made, view.activations + first * (kStepBytes<kTiles> >> 4),
                                           true);
        if (first == 0) release_previous();
      }
    } else {
      settle_products<kTiles>(totals);
      release_previous();
      if constexpr (!kIsPlain<kKind>) multiply_block_by_steps<kKind, kTiles>(view, form, totals);
    }
    form = uniform(coming);
    held = ring.free_barrier();
    ring.next();
  }
  settle_products<kTiles>(totals);
  release_previous();
}

// totals = the sums of the blocks of a chain.
template <TileKind kKind, int kTiles, typename Ring>
__device__ __forceinline__ void multiply_chain(const SlotReader& reader, uint32_t forms, Ring& ring,
                                               const TaskChains& chains, int number,
                                               HalfSums<kTiles>& totals) {
  if constexpr (kIsStraight<kKind>) {
    multiply_straight_chain<kKind, kTiles>(reader, forms, ring, chains, number, totals);
  } else {
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
}

// Computes a half strip's sums of a task. `parked` is this lane's shared memory for one set of sums. If
// another split computes the preceding part of K, `leave` receives the sums of each eighth of K with its
// number, and they are not added to `sums`.
template <TileKind kKind, int kTiles, typename Ring, typename Leave>
__device__ __forceinline__ void multiply_chains(const SlotReader& reader, uint32_t forms, Ring& ring,
                                                const TaskChains& chains, uint32_t parked,
                                                HalfSums<kTiles>& sums, Leave leave) {
  fill_half<kTiles>(sums, -0.0f);  // adding to -0 changes nothing, not even a sign
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

// The same if registers are too few for the sum of earlier chains, which is parked in shared memory. Only for
// chains that are added in order, or for one pair.
template <TileKind kKind, int kTiles, typename Ring>
__device__ __forceinline__ void multiply_parked_chains(const SlotReader& reader, uint32_t forms, Ring& ring,
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

#endif
