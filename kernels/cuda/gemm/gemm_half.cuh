// One step, 32 rows, of a half strip times the tokens of a tile. The four warps of a warpgroup do this in
// parallel, each for its half strip.
//
// Activations of a step lie in shared memory as 8 x 8 pieces of 128 bytes: piece (p, n) holds the tokens
// 8n..8n+7 by 16 bytes, of which word t holds rows 8t + 2p and 8t + 2p + 1. So pieces 2j and 2j + 1 are the
// two halves of K of product j, in the order of the weights' pairs (matrix.h). Warpgroup products (wgmma,
// compute capability 9.0) read the pieces directly. Other cards have another kernel (gemm_strips.cuh), with
// the same half strips, sums and scales.
#pragma once

#include <type_traits>

#include "kernels/cuda/device/warpgroup.cuh"
#include "kernels/cuda/gemm/gemm_segment.cuh"

namespace quire::kernels {

// For a tile of 8 * kTiles tokens.
template <int kTiles>
constexpr uint32_t kPieceStride = piece_stride(kTiles);
template <int kTiles>
constexpr uint32_t kStepBytes = step_bytes(kTiles);

// Sums of a lane: columns g and g + 8 of a half strip by tokens 8n + 2t + {0, 1}: [n][2 * column + token].
template <int kTiles>
using HalfSums = float[kTiles][4];

template <int kTiles>
__device__ __forceinline__ void fill_half(HalfSums<kTiles>& sums, float value) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) sums[n][x] = value;
  }
}

// to += sums.
template <int kTiles>
__device__ __forceinline__ void add_half(const HalfSums<kTiles>& sums, HalfSums<kTiles>& to) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) to[n][x] += sums[n][x];
  }
}

// Loads the part of a record for a lane's two columns that is needed after their products.
template <TileKind kKind>
__device__ __forceinline__ uint2 fetch_half_record(uint32_t record, int g, int half) {
  if constexpr (kKind == TileKind::exl2) {
    return make_uint2(load_shared_2(record + 2 * g), load_shared_4(record + 16));
  } else if constexpr (kKind == TileKind::fp8) {
    return load_shared_8(record + 16 * g + 8 * half);
  } else if constexpr (kKind == TileKind::mxfp4) {
    return make_uint2(load_shared_2(record + kBlockSteps * kStripColumns + 4 * g + 2 * half), 0);
  } else {
    return make_uint2(0, 0);
  }
}

// A lane's scales of a group for its two columns: of sums or, for exl2, of weights. For gptq also the offset
// added to a code.
template <TileKind kKind>
struct HalfScales {
  float scale[2];
  __half2 offset[kIsGptq<kKind> ? 2 : 1];
  __half2 factors;  // exl2

  __device__ __forceinline__ void make(uint2 found, int half) {
    if constexpr (kKind == TileKind::exl2) {
      const uint32_t nibbles = found.x >> (8 * half);
      factors = exl2_two_scales(nibbles | nibbles << 12, found.y);
    } else if constexpr (kKind == TileKind::fp8) {
      scale[0] = __uint_as_float(found.x);
      scale[1] = __uint_as_float(found.y);
    } else if constexpr (kKind == TileKind::mxfp4) {
      scale[0] = power_of_two(found.x, 0);
      scale[1] = power_of_two(found.x, 1);
    }
  }
  // Loads the scales that are needed before the products: for gptq all of them. Loading gptq scales after the
  // offsets is slower: 8B with 256 jobs 20,630 tokens/s instead of 21,632 on an H200.
  __device__ __forceinline__ void prepare(uint32_t record, int g, int half) {
    if constexpr (kIsGptq<kKind>) {
      gptq_two_scales(load_shared_4(record + 8 * g + 4 * half), scale);
      gptq_two_offsets(load_shared_4(record + 64 + 8 * g + 4 * half), offset);
    }
  }
  __device__ __forceinline__ void read(uint32_t record, int g, int half) {
    prepare(record, g, half);
    make(fetch_half_record<kKind>(record, g, half), half);
  }

  // totals += scale * sums.
  template <int kTiles>
  __device__ __forceinline__ void add(const HalfSums<kTiles>& sums, HalfSums<kTiles>& totals) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int x = 0; x < 4; ++x) totals[n][x] = __fmaf_rn(sums[n][x], scale[x >> 1], totals[n][x]);
    }
  }
};

// Weights of a lane's half of a tile, first as stored.
template <TileKind kKind, int kBits>
struct HalfTile {
  uint32_t raw[kHalfWords<kBits>];
  uint32_t factors;  // mxfp4

  // Loads step `i` of the tiles that begin at `tiles`, after their records.
  __device__ __forceinline__ void fetch(uint32_t tiles, int i, int lane, int half) {
    fetch_half<kBits>(tiles + i * (kBits * 128), lane, half, raw);
    if constexpr (kKind == TileKind::mxfp4)
      factors = load_shared_2(tiles - kRecordBytes<kKind> + i * kStripColumns + 4 * (lane >> 2) + 2 * half);
  }
  __device__ __forceinline__ void decode(const HalfScales<kKind>& group, __half2* w) const {
    if constexpr (kIsGptq<kKind>) {
      decode_shifted_half<kBits>(raw, group.offset, w);
    } else if constexpr (kKind == TileKind::fp8) {
      decode_e4m3(raw, w);
    } else if constexpr (kKind == TileKind::mxfp4) {
      decode_e2m1_half(raw, factors, w);
    } else if constexpr (kKind == TileKind::exl2) {
      decode_half<kBits, 0>(raw, ScaledColumns<kBits>(group.factors), w);
    } else {
      decode_dense(raw, w);
    }
  }
};

// Data of a ring slot for one warp: the weights of its half strip, and the activations.
struct SlotView {
  uint32_t weights;
  uint32_t activations;  // address in units of 16 bytes
  int lane;
  int half;
};

// Calls with the bit width of the codes as a constant. The width is the same for all lanes of a warp.
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

// Stores a lane's sums in shared memory.
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

// sums += the sums stored by park.
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

// Decodes kSteps steps of a block of 128 rows from `first` on, for tiles of blocks.
template <int kSteps>
__device__ __forceinline__ void decode_block_steps(const SlotView& view, int type, int first, __half2* made) {
  const BlockTile& tile = kBlockTiles.of[type];
  const uint32_t tiles = view.weights + tile.record_bytes;
  const int second = second_group(tile, view.lane), place = 4 * (view.lane >> 2) + 2 * view.half;
  with_block_codes(
      tile, [&]<int kBits, bool kIndices>(std::integral_constant<int, kBits>, std::bool_constant<kIndices>) {
        uint32_t raw[kSteps][kHalfWords<kBits>];
#pragma unroll
        for (int i = 0; i < kSteps; ++i)
          fetch_half<kBits>(tiles + (first + i) * (kBits * 128), view.lane, view.half, raw[i]);
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
          const BlockScales scales =
              read_block_scales(tile, SharedRecord{view.weights}, first + i, second, place);
          decode_block_half<kBits, kIndices, 0>(tile, raw[i], scales, made + 8 * i);
        }
      });
}

// Does the same for tiles of a trellis; kFirst is a multiple of kSteps.
template <int kSteps, int kFirst>
__device__ __forceinline__ void decode_trellis_steps(const SlotView& view, int form, __half2* made) {
  const TrellisFactors factors = trellis_factors(form, view.lane);
  with_trellis_form(form, [&]<int kHalfBits, bool kBytes>(std::integral_constant<int, kHalfBits>,
                                                          std::bool_constant<kBytes>) {
    using Form = TrellisForm<kHalfBits>;
    static_assert(Form::kUnitSteps % kSteps == 0);
    TrellisUnit<kHalfBits> unit;
    unit.fetch(SharedTile{view.weights + view.half * trellis_half_bytes(kHalfBits) +
                          kFirst / Form::kUnitSteps * Form::kUnitBytes},
               view.lane);
    for_constants<kSteps>([&]<int i>(std::integral_constant<int, i>) {
      unit.template decode<kBytes, (kFirst + i) % Form::kUnitSteps>(factors, made + 8 * i);
    });
  });
}

#if QUIRE_WARPGROUP_PRODUCTS

// sums = weights by the activations at `pieces` (in units of 16 bytes), plus sums if `add`. Runs
// asynchronously: see wait_for_products.
template <int kTiles>
__device__ __forceinline__ void warpgroup_product(HalfSums<kTiles>& d, const __half2* w, uint32_t pieces,
                                                  bool add) {
  static_assert(kTiles == 2 || kTiles == 4 || kTiles == 8 || kTiles == 16);
  // Distances between the pieces of 8 rows and the next 8, and of 8 tokens and the next 8, in units of 16
  // bytes.
  const uint64_t descriptor = (pieces + ((kPieceStride<kTiles> >> 4) << 16)) | uint64_t{128 >> 4} << 32;
  const uint32_t weights[4] = {bits_of(w[0]), bits_of(w[1]), bits_of(w[2]), bits_of(w[3])};
  if constexpr (kTiles == 2) {
    multiply_64x16x16(d, weights, descriptor, add);
  } else if constexpr (kTiles == 4) {
    multiply_64x32x16(d, weights, descriptor, add);
  } else if constexpr (kTiles == 16) {
    multiply_64x128x16<false>(d, weights, descriptor, add);
  } else {
    multiply_64x64x16<false>(d, weights, descriptor, add);
  }
}

// Waits for the products of a half strip's sums, and keeps the compiler from moving uses of the sums to
// before the wait. The compiler regards the sums as ready; if it moved a use, it would add a wait after each
// product.
template <int kTiles>
__device__ __forceinline__ void settle_products(HalfSums<kTiles>& sums) {
  wait_for_products<0>();
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) settle(sums[n][x]);
  }
}

// sums = weights of kSteps steps of a half strip, 8 per lane each, by the activations at `step` (in units of
// 16 bytes), plus sums if `add`. All warps of a warpgroup call this at the same time. Weights and sums must
// not be touched until the products have been waited for.
template <int kTiles, int kSteps>
__device__ __forceinline__ void start_products_of(HalfSums<kTiles>& sums, const __half2* w, uint32_t step,
                                                  bool add) {
  begin_products();
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    warpgroup_product<kTiles>(sums, w + 8 * i, step + i * (kStepBytes<kTiles> >> 4), i > 0 || add);
    warpgroup_product<kTiles>(sums, w + 8 * i + 4,
                              step + i * (kStepBytes<kTiles> >> 4) + (2 * kPieceStride<kTiles> >> 4), true);
  }
  commit_products();
}
template <int kTiles>
__device__ __forceinline__ void start_products(HalfSums<kTiles>& sums, const __half2 (&w)[8], uint32_t step,
                                               bool add) {
  start_products_of<kTiles, 1>(sums, w, step, add);
}

#endif

}  // namespace quire::kernels
