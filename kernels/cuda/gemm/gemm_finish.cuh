// Epilogue of half strips in wide and broad tiles: adds up the sums of splits (split-K), applies unit, bias
// and gate, and stores the results.
#pragma once

#include "kernels/cuda/gemm/gemm_output.cuh"
#include "kernels/cuda/gemm/gemm_work.cuh"

namespace quire::kernels {

// Location of a lane's sums: columns `column` and column + 8 of the output, if they exist, by tokens as in
// HalfSums.
struct HalfPlace {
  int column;
  int first_token;
  float unit;
  bool there[2];
};

// A warp's half of a strip, as one of its lanes uses it.
struct HalfStrip {
  StripPlace strip;
  int half;
  int lane;
};

template <int kTiles>
__device__ __forceinline__ HalfPlace half_place(const Part& part, const HalfStrip& of, int first_tile) {
  const int local = of.strip.strip * kStripColumns + 16 * of.half + (of.lane >> 2);
  const int token = static_cast<int>(blockIdx.x) * (kTiles * 8) + first_tile * 8 + 2 * (of.lane & 3);
  return {
      part.first_column + local, token, part.unit, {local < part.num_columns, local + 8 < part.num_columns}};
}

template <int kTiles>
__device__ __forceinline__ void finish_sums(const float* bias, const HalfPlace& place,
                                            HalfSums<kTiles>& sums) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) sums[n][x] *= place.unit;
  }
  if (bias == nullptr) return;
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const float b = place.there[c] ? bias[place.column + 8 * c] : 0.0f;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      sums[n][2 * c] += b;
      sums[n][2 * c + 1] += b;
    }
  }
}

// Returns true if each lane can write two columns at a time: both exist and are aligned to 4 bytes.
template <typename Arguments>
__device__ __forceinline__ bool stores_pairs(const Arguments& a, const HalfPlace& place) {
  const int g = static_cast<int>(threadIdx.x >> 2 & 7);
  const int there = (place.there[0] ? 1 : 0) + (place.there[1] ? 2 : 0);
  const int other = __shfl_xor_sync(0xffffffffU, there, 4);
  const bool fits = a.epilogue.output != nullptr && there == other && (a.epilogue.stride & 1) == 0 &&
                    (reinterpret_cast<uintptr_t>(a.epilogue.output + place.column - g) & 3) == 0;
  return uniform(fits ? 0 : 1) == 0;
}

// Stores f16: lanes of columns g and g + 1 exchange their results of two tokens, so that each has both
// columns of one token. kMayArrange: the output may be stored arranged.
template <int kTiles, bool kMayArrange, typename Arguments>
__device__ __forceinline__ void store_half_pairs(const Arguments& a, const HalfPlace& place,
                                                 const HalfSums<kTiles>& sums) {
  const Epilogue& e = a.epilogue;
  const int odd = static_cast<int>(threadIdx.x >> 2 & 1), column = place.column - odd;
  const int first_row = place.first_token + odd;
  const bool arranged = kMayArrange && e.arranged_blocks != 0;
  const int next = arranged ? kArrangedWord : 8;  // distance to the element 8 columns further
  const size_t first = arranged ? arranged_at(e.arranged_blocks, first_row, column) : 0;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    // Columns g and g + 8 of a token.
    const __half2 first_token = __floats2half2_rn(sums[n][0], sums[n][2]);
    const __half2 second_token = __floats2half2_rn(sums[n][1], sums[n][3]);
    const __half2 own = odd ? second_token : first_token;
    const __half2 other =
        half2_of(__shfl_xor_sync(0xffffffffU, bits_of(odd ? first_token : second_token), 4));
    const int row = output_row(a, first_row + 8 * n);
    __half* const to =
        e.output + (arranged ? first + n * kArrangedOctet : static_cast<size_t>(row) * e.stride + column);
    const __half2 left = odd ? other : own, right = odd ? own : other;
    if (row >= 0 && place.there[0]) *reinterpret_cast<__half2*>(to) = __lows2half2(left, right);
    if (row >= 0 && place.there[1]) *reinterpret_cast<__half2*>(to + next) = __highs2half2(left, right);
  }
}

// Stores directly from registers: for each token eight lanes write eight adjacent columns.
template <int kTiles, bool kMayArrange = false, typename Arguments>
__device__ __forceinline__ void store_half(const Arguments& a, const HalfPlace& place,
                                           const HalfSums<kTiles>& sums) {
  if (stores_pairs(a, place)) return store_half_pairs<kTiles, kMayArrange>(a, place, sums);
  with_store(a.epilogue, [&](auto store) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        const int row = output_row(a, place.first_token + 8 * n + (x & 1));
        if (row >= 0 && place.there[x >> 1])
          store(static_cast<size_t>(row) * a.epilogue.stride + place.column + 8 * (x >> 1), sums[n][x]);
      }
    }
  });
}

template <int kTiles, typename Arguments>
__device__ __forceinline__ void finish_half(const Arguments& a, const HalfStrip& of, HalfSums<kTiles>& sums) {
  const HalfPlace place = half_place<kTiles>(a.matrix.parts[of.strip.part], of, 0);
  finish_sums<kTiles>(a.matrix.bias, place, sums);
  store_half<kTiles>(a, place, sums);
}

__device__ __forceinline__ bool all_arrived_since(uint32_t before, uint32_t state) {
  return state / (kArrival * kMaxSplits) != before / (kArrival * kMaxSplits);
}

// How K is split; wide tiles of warpgroup products need not read it from the shape.
template <int kTiles>
__device__ __forceinline__ int split_bits(const GemmShape& s) {
  return kSplitsByHalves<kTiles> ? s.split_bits : kMaxSplitBits;
}
template <int kTiles>
__device__ __forceinline__ int eighths_of_split(const GemmShape& s) {
  return kSplitsByHalves<kTiles> ? s.eighths : 1;
}
template <int kTiles>
__device__ __forceinline__ int num_partial_sums(const GemmShape& s) {
  return kSplitsByHalves<kTiles> ? s.num_partial_sums : kMaxSplits;
}

// Memory through which the splits of a half strip exchange their sums, as one lane uses it.
struct SumExchange {
  float4* partials;  // the first partial sum
  uint32_t* state;
  bool shares_tokens;
};

// Returns the memory of strip `slot` of a group, in a task of a block that computes every `step`-th task.
template <int kTiles>
__device__ __forceinline__ SumExchange sum_exchange(const GemmArguments& a, const HalfStrip& of,
                                                    const WideTask& task, int group, int slot, int step) {
  const GemmShape& shape = a.shape;
  const size_t strip = static_cast<size_t>(blockIdx.x) * a.matrix.num_strips + group * shape.strips + slot;
  const size_t half_strip = strip * 2 + of.half;
  const size_t size = num_partial_sums<kTiles>(shape) * (kTiles * 32);
  return {reinterpret_cast<float4*>(a.partials) + half_strip * size + of.lane, a.counters + half_strip,
          (task.group << shape.split_bits) + step >= shape.tasks};
}

// Stores the sums of eighth number `eighth` of K. The first split stores the sums of all its eighths as those
// of its last.
template <int kTiles>
__device__ __forceinline__ void store_partial_sums(const GemmShape& s, const SumExchange& at, int eighth,
                                                   const HalfSums<kTiles>& sums) {
  float4* to = at.partials + (eighth + 1 - eighths_of_split<kTiles>(s)) * (kTiles * 32);
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
    __stcg(to + n * 32, make_float4(sums[n][0], sums[n][1], sums[n][2], sums[n][3]));
}

// Stores the sums of eighth number `eighth` of K of a half strip of a trellis, which another kernel adds up
// and transforms (rotated_rows.h).
template <int kTiles>
__device__ __forceinline__ void store_rotated_half(const GemmArguments& a, int strip, const HalfStrip& of,
                                                   int eighth, const HalfSums<kTiles>& sums) {
  const GemmShape& s = a.shape;
  const size_t half_strip = (static_cast<size_t>(blockIdx.x) * a.matrix.num_strips + strip) * 2 + of.half;
  float4* to = reinterpret_cast<float4*>(a.partials) + of.lane +
               (half_strip * s.num_partial_sums + eighth + 1 - s.eighths) * (kTiles * 32);
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
    __stcg(to + n * 32, make_float4(sums[n][0], sums[n][1], sums[n][2], sums[n][3]));
}

// Tiles of 8 tokens per share, and per pass of a warp that adds up everything alone.
template <int kTiles>
constexpr int kShareTiles = kTiles == kBroadTiles ? 4 : 1;
template <int kTiles>
constexpr int kWholeTiles = kTiles == kBroadTiles ? 4 : kTiles;

// Computes a warp's results of kCount tiles of 8 tokens from `first` on: adds up the sums of all splits in
// order.
template <int kTiles, int kCount>
__device__ __forceinline__ void finish_partial_sums(const GemmArguments& a, const HalfStrip& of,
                                                    const SumExchange& at, int first) {
  constexpr int kAtOnce = kTiles == kBroadTiles || kCount < 2 ? kCount : 2;
  const float4* from = at.partials + first * 32;
  const int left = num_partial_sums<kTiles>(a.shape);
  HalfSums<kCount> sums;
#pragma unroll
  for (int begin = 0; begin < kCount; begin += kAtOnce) {
    float4 v[kAtOnce][kMaxSplits];
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
#pragma unroll
      for (int s = 0; s < kMaxSplits; ++s)
        v[n][s] = __ldcg(from + ((s < left ? s : 0) * kTiles + begin + n) * 32);
    }
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      float4 sum = v[n][0];
#pragma unroll
      for (int s = 1; s < kMaxSplits; ++s) {
        const float4 more = s < left ? v[n][s] : make_float4(-0.0f, -0.0f, -0.0f, -0.0f);  // adding -0
                                                                                           // changes nothing
        sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
      }
      sums[begin + n][0] = sum.x;
      sums[begin + n][1] = sum.y;
      sums[begin + n][2] = sum.z;
      sums[begin + n][3] = sum.w;
    }
  }
  const HalfPlace place = half_place<kTiles>(a.matrix.parts[of.strip.part], of, first);
  finish_sums<kCount>(a.matrix.bias, place, sums);
  store_half<kCount>(a, place, sums);
}

// Called after a warp has stored its sums. The last warp to arrive at a half strip adds up the sums of all
// splits. If no split has other tasks, blocks arrive nearly together, and a single warp would read
// everything. Then the last few warps each take shares of the tokens and wait for the very last arrival. They
// wait only briefly, because the missing block may not even be on the card yet. A warp that stops waiting
// leaves its shares to the last one.
template <int kTiles>
__device__ __forceinline__ void combine_splits(const GemmArguments& a, const HalfStrip& of,
                                               const SumExchange& at) {
  constexpr int kMaxPolls = 16;
  constexpr int kShare = kShareTiles<kTiles>, kShares = kTiles / kShare;
  constexpr int kWhole = kWholeTiles<kTiles>;
  const int lane = of.lane, bits = split_bits<kTiles>(a.shape), eighths = eighths_of_split<kTiles>(a.shape);
  __syncwarp();
  const auto add = [&](uint32_t value) {
    return uniform(lane == 0 ? add_acquire_release(at.state, value) : 0);
  };
  const uint32_t before = add(kArrival * eighths);
  const int left = kMaxSplits - eighths_before(before);  // remaining eighths, including this split's
  const bool last = left == eighths;
  if (!at.shares_tokens) {
    if (!last) return;
    __syncwarp();
#pragma unroll 1
    for (int tile = 0; tile < kTiles; tile += kWhole) finish_partial_sums<kTiles, kWhole>(a, of, at, tile);
    return;
  }
  const int each = max(1, kShares >> bits);  // shares
  const int own = kShares - (left >> (kMaxSplitBits - bits)) * each;
  if (own < 0) return;
  uint32_t shares = ((1U << each) - 1) << own;
  if (last) {
    const uint32_t gone = before & (kArrival - 1);
    shares |= gone;
    if (gone != 0) add(0 - gone);
  } else {
    bool met = false;
#pragma unroll 1
    for (int looks = 0; looks < kMaxPolls && !met; ++looks)
      met = all_arrived_since(before, uniform(lane == 0 ? load_acquire(at.state) : 0));
    if (!met) {
      if (!all_arrived_since(before, add(shares))) return;
      add(0 - shares);  // too late: the last warp did not see it
    }
  }
#pragma unroll 1
  for (; shares != 0; shares &= shares - 1) {
    __syncwarp();
    finish_partial_sums<kTiles, kShare>(a, of, at, (__ffs(static_cast<int>(shares)) - 1) * kShare);
  }
}

// gate = act(gate) * up.
template <int kTiles>
__device__ __forceinline__ void apply_gate(int32_t kind, HalfSums<kTiles>& gate, const HalfSums<kTiles>& up) {
  const auto each = [&](auto function) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int x = 0; x < 4; ++x) gate[n][x] = function(gate[n][x]) * up[n][x];
    }
  };
  if (kind == 0) {
    each([](float v) { return activate(0, v); });
  } else {
    each([&](float v) { return activate_rare(kind, v); });
  }
}

// Finishes the results of a lane for gate and up: the same columns of both, kCount tiles of 8 tokens from
// `first_tile` on.
template <int kTiles, int kCount, typename Arguments>
__device__ __forceinline__ void finish_gate_up(const Arguments& a, const HalfStrip& of, int first_tile,
                                               HalfSums<kCount>& gate, HalfSums<kCount>& up) {
  HalfPlace gate_place = half_place<kTiles>(a.matrix.parts[0], of, first_tile);
  const HalfPlace up_place = half_place<kTiles>(a.matrix.parts[1], of, first_tile);
  finish_sums<kCount>(a.matrix.bias, gate_place, gate);
  finish_sums<kCount>(a.matrix.bias, up_place, up);
  if (a.epilogue.activation < 0) {
    store_half<kCount>(a, up_place, up);
  } else {
    apply_gate<kCount>(a.epilogue.activation, gate, up);
    gate_place.column -= a.matrix.parts[0].first_column;
  }
  store_half<kCount, kTiles == kBroadTiles>(a, gate_place, gate);
}

}  // namespace quire::kernels
