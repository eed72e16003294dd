// The one matrix kernel for up to 64 tokens: weights stream from memory through shared memory into registers,
// are made f16 there, and meet the activations in tensor cores.
//
// A block owns a unit (64 columns), one split of K and one tile of tokens. The split is cut into four
// contiguous pieces ("chains"). For EXL2 a warp takes one chain of one strip, 8 warps in all; the other
// formats, beyond 8 tokens, give a warp both strips of a chain, 4 warps in all. No warp waits for another
// until the end. Chains of a block are summed as a fixed tree, splits in order by the block that arrives
// last. The pieces depend on the matrix alone, so a token's sums are the same bits in any batch, for every
// number of tokens per tile.
//
// Bytes: the weights once per tile of tokens, plus per block the activations of its split from L2 (64 bytes
// per token and step against 8 * bits * 32 of codes). Per 1,024 weights of 4 bits about 36 integer, 32
// half-precision and 8 + tensor instructions per warp: at most 55 weights per clock and multiprocessor, where
// memory delivers 33 to 37.
//
// EXL2 tiles go straight to registers (up to four in flight per lane, 32 warps per multiprocessor), with the
// L2 asked 4 KB ahead: 102 instructions per 1,024 weights. The other formats go through a private ring of
// asynchronous copies per warp. Tried for EXL2: that ring, at 194 instructions per 1,024 weights and 1.4
// TB/s.
//
// With dependent launch the first weights are requested before the wait for the predecessor.
#pragma once

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/plane.cuh"
#include "kernels/cuda/ptx.cuh"

namespace quire::kernels {

constexpr int kChains = kChainsPerSplit;

__host__ __device__ constexpr int strips_per_warp(TileKind kind, int tiles) {
  return kind == TileKind::exl2 || tiles == 1 ? 1 : 2;
}
__host__ __device__ constexpr int gemm_threads(TileKind kind, int tiles) {
  return 32 * kChains * 2 / strips_per_warp(kind, tiles);
}

template <TileKind kKind>
__host__ __device__ constexpr int scale_bytes_per_strip() {
  return kKind == TileKind::exl2 ? 32 : kKind == TileKind::gptq ? 128 : 0;
}

// Where a warp is in the stream of one strip. What happens at every step is a few instructions; the run table
// is read where a run or a group ends.
template <TileKind kKind>
struct StripReader {
  const Part* part;
  int32_t run;
  int32_t bits;
  int32_t left;        // steps of the run
  int32_t group_left;  // steps of the group whose scales are at hand

  __device__ __forceinline__ void start(const Part* from, int step) {
    part = from;
    run = 0;
    while (step >= from->runs[run].end_step && run + 1 < from->num_runs) ++run;
    bits = from->runs[run].bits;
    left = from->runs[run].end_step - step;
    group_left = 0;
  }
  __device__ __forceinline__ void next_run() {
    ++run;
    bits = part->runs[run].bits;
    left = part->runs[run].end_step - part->runs[run].first_step;
    group_left = 0;
  }
  // Steps of the group that begins, or is entered, here.
  __device__ __forceinline__ int group_steps() const {
    const Run& r = part->runs[run];
    const int size = 1 << r.group_shift, gone = r.end_step - left - r.first_step;
    return size - (gone & (size - 1));
  }
  __device__ __forceinline__ int group() const {
    const Run& r = part->runs[run];
    return r.first_group + ((r.end_step - left - r.first_step) >> r.group_shift);
  }
};

template <TileKind kKind>
struct StripRequests : StripReader<kKind> {
  const uint8_t* codes;   // of this lane in the next tile
  const uint8_t* scales;  // of the strip

  __device__ __forceinline__ void start(const Part* from, int strip, int step, int lane) {
    StripReader<kKind>::start(from, step);
    constexpr int kEntry = kKind == TileKind::exl2 ? 16 : 128;
    const Run& r = from->runs[this->run];
    scales = from->scales + static_cast<size_t>(strip) * from->num_groups * kEntry;
    codes = from->codes + static_cast<size_t>(strip) * from->strip_bytes + r.first_byte +
            static_cast<size_t>(step - r.first_step) * (r.bits * 128) + lane * 16;
  }

  __device__ __forceinline__ void request(uint32_t target, int max_bits, int lane) {
    if (this->left == 0) this->next_run();
    const uint32_t to = target + lane * 16;
    if constexpr (kKind == TileKind::dense) {
#pragma unroll
      for (int plane = 0; plane < 4; ++plane) copy_async_16(to + plane * 512, codes + plane * 512);
      codes += 2048;
    } else {
      const int chunks = this->bits * 8;
      if (lane < chunks) copy_async_16(to, codes);
      if (lane + 32 < chunks) copy_async_16(to + 512, codes + 512);
      codes += this->bits * 128;
      if (this->group_left == 0) {
        this->group_left = this->group_steps();
        const int group = this->group();
        const uint32_t entry = target + max_bits * 128;
        if constexpr (kKind == TileKind::exl2) {
          if (lane == 31) copy_async_16(entry, scales + static_cast<size_t>(group) * 16);
          if (lane == 30) copy_async_4(entry + 16, this->part->group_scale + group);
        } else {
          if (lane < 8)
            copy_async_16(entry + lane * 16, scales + static_cast<size_t>(group) * 128 + lane * 16);
        }
      }
      --this->group_left;
    }
    --this->left;
  }
};

// Codes to weights, one step at a time, in the order they were requested.
template <TileKind kKind>
struct StripWeights : StripReader<kKind> {
  __half2 scale[4];
  __half2 zero[kKind == TileKind::gptq ? 4 : 1];

  __device__ __forceinline__ void read(uint32_t tile, int max_bits, int lane, __half2 (&w)[16]) {
    if constexpr (kKind == TileKind::dense) {
      load_codes<16>(tile, lane, w, 0.0f);
      return;
    }
    if (this->left == 0) this->next_run();
    if (this->group_left == 0) {
      this->group_left = this->group_steps();
      read_scales(tile + max_bits * 128, lane >> 2);
    }
    --this->left;
    --this->group_left;
    if constexpr (kKind == TileKind::exl2) {
      load_exl2_codes(this->bits, tile, lane, w);
    } else {
      load_codes<4>(tile, lane, w, 0.0f);
#pragma unroll
      for (int h = 0; h < 16; ++h) w[h] = __hsub2(w[h], zero[2 * (h / 8) + (h & 1)]);
    }
    apply_scales(w, scale);
  }

  __device__ __forceinline__ void read_scales(uint32_t entry, int g) {
    if constexpr (kKind == TileKind::exl2) {
      const uint32_t pair = load_shared_4(entry + (g >> 1) * 4);
      exl2_scales((g & 1) ? pair >> 16 : pair & 0xffffU, load_shared_4(entry + 16), scale);
    } else {
      spread(load_shared_8(entry + g * 8), scale);
      spread(load_shared_8(entry + 64 + g * 8), zero);
    }
  }

 private:
  __device__ __forceinline__ static void spread(uint2 v, __half2* out) {
    out[0] = __low2half2(half2_of(v.x));
    out[1] = __high2half2(half2_of(v.x));
    out[2] = __low2half2(half2_of(v.y));
    out[3] = __high2half2(half2_of(v.y));
  }
};

constexpr int kAhead = 4096;  // bytes of a stream between what is read and what the L2 is asked for

// Asks the L2 for a line of a warp's stream for each lane. Past its end lies the stream of the next chain or
// of nothing; a prefetch of an address that is not mapped is dropped.
__device__ __forceinline__ void prefetch_stream(const uint8_t* codes, int lane, int ahead) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(codes + ahead + lane * 128));
}

struct UnitPlace {
  const Part* part[2];
  int strip[2];  // second is -1 where the part has an odd number of strips
};

__device__ __forceinline__ UnitPlace place_unit(const Matrix& m, int unit) {
  UnitPlace place;
  if (m.paired) {
    place.part[0] = &m.parts[0];
    place.part[1] = &m.parts[1];
    place.strip[0] = place.strip[1] = unit;
    return place;
  }
  int p = 0;
  while (p + 1 < m.num_parts && unit >= (m.parts[p].num_strips + 1) / 2) {
    unit -= (m.parts[p].num_strips + 1) / 2;
    ++p;
  }
  place.part[0] = place.part[1] = &m.parts[p];
  place.strip[0] = 2 * unit;
  place.strip[1] = 2 * unit + 1 < m.parts[p].num_strips ? 2 * unit + 1 : -1;
  return place;
}

__device__ __forceinline__ void store_result(const GemmArguments& a, int token, int column, float value) {
  if (a.matrix.bias != nullptr) value += a.matrix.bias[column];
  const size_t at = static_cast<size_t>(token) * a.epilogue.stride + column;
  if (a.epilogue.residual != nullptr) {
    a.epilogue.residual[at] += value;
  } else if (a.epilogue.output_f32 != nullptr) {
    a.epilogue.output_f32[at] = value;
  } else {
    a.epilogue.output[at] = __float2half_rn(value);
  }
}

// Value of column `local` (0..31) of both strips of a unit for one token.
__device__ __forceinline__ void finish_pair(const GemmArguments& a, const UnitPlace& place, int token,
                                            int local, float first, float second) {
  const int column0 = place.strip[0] * 32 + local;
  const bool live0 = column0 < place.part[0]->num_columns;
  if (a.epilogue.activation >= 0) {
    if (!live0) return;
    if (a.matrix.bias != nullptr) {
      first += a.matrix.bias[place.part[0]->first_column + column0];
      second += a.matrix.bias[place.part[1]->first_column + column0];
    }
    const float value = activate(a.epilogue.activation, first) * second;
    a.epilogue.output[static_cast<size_t>(token) * a.epilogue.stride + column0] = __float2half_rn(value);
    return;
  }
  if (live0) store_result(a, token, place.part[0]->first_column + column0, first);
  const int column1 = place.strip[1] * 32 + local;
  if (place.strip[1] >= 0 && column1 < place.part[1]->num_columns)
    store_result(a, token, place.part[1]->first_column + column1, second);
}

template <int kTiles>
__host__ __device__ constexpr int gemm_stages() {
  return kTiles == 1 ? 4 : 3;
}

// Bytes of one stage of one warp.
template <TileKind kKind, int kTiles>
__host__ __device__ constexpr int gemm_stage_bytes(int max_bits) {
  return strips_per_warp(kKind, kTiles) * (max_bits * 128 + scale_bytes_per_strip<kKind>()) + kTiles * 512;
}

template <int kTiles>
__host__ __device__ constexpr int reduction_slices() {
  return kTiles <= 2 ? 4 : 2;  // of 16 columns, held in shared memory at once
}

template <TileKind kKind, int kTiles>
constexpr size_t gemm_shared_bytes(int max_bits) {
  const size_t ring = static_cast<size_t>(gemm_threads(kKind, kTiles) / 32) * gemm_stages<kTiles>() *
                      gemm_stage_bytes<kKind, kTiles>(max_bits);
  const size_t sums = static_cast<size_t>(kChains) * reduction_slices<kTiles>() * 16 * (kTiles * 8) * 4;
  if (kKind == TileKind::exl2) return sums;  // no ring
  return ring > sums ? ring : sums;
}

constexpr int gemm_blocks_per_multiprocessor(TileKind kind, int tiles) {
  if (kind == TileKind::exl2) return tiles == 1 ? 4 : tiles == 2 ? 3 : 2;
  return tiles <= 2 ? 4 : tiles == 4 ? 3 : 2;
}

// kTiles: tiles of 8 tokens.
template <TileKind kKind, int kTiles>
__global__ void __launch_bounds__(gemm_threads(kKind, kTiles), gemm_blocks_per_multiprocessor(kKind, kTiles))
    gemm_kernel(const __grid_constant__ GemmArguments a) {
  constexpr int kStages = gemm_stages<kTiles>();
  constexpr int kTokens = kTiles * 8;
  constexpr int kStrips = strips_per_warp(kKind, kTiles);
  constexpr int kThreads = gemm_threads(kKind, kTiles);
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();

  const Matrix& m = a.matrix;
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const int g = lane >> 2, t = lane & 3;
  const int first_token = blockIdx.z * kTokens;
  const int tokens = min(kTokens, a.rows - first_token);
  const UnitPlace place = place_unit(m, blockIdx.x);
  const int first_strip = kStrips == 1 ? warp & 1 : 0;  // of the unit, of this warp
  const int chain_in_block = kStrips == 1 ? warp >> 1 : warp;
  const int own_strip = first_strip == 0 ? place.strip[0] : place.strip[1];
  const Part* own_part = first_strip == 0 ? place.part[0] : place.part[1];
  const int strips = kStrips == 1 ? (own_strip >= 0 ? 1 : 0) : (place.strip[1] >= 0 ? 2 : 1);

  const int chain = blockIdx.y * kChains + chain_in_block;
  const int chains = m.num_splits * kChains;
  const int begin = static_cast<int>(static_cast<int64_t>(m.num_steps) * chain / chains);
  const int end =
      strips == 0 ? begin : static_cast<int>(static_cast<int64_t>(m.num_steps) * (chain + 1) / chains);

  const int strip_stride = m.max_bits * 128 + scale_bytes_per_strip<kKind>();
  const int stage_bytes = kStrips * strip_stride + kTiles * 512;
  const uint32_t ring = shared_address(shared) + warp * kStages * stage_bytes;
  const uint32_t ring_end = ring + kStages * stage_bytes;
  StripRequests<kKind> requests[kStrips];
  StripWeights<kKind> weights[kStrips];
#pragma unroll
  for (int s = 0; s < kStrips; ++s) {
    if (s >= strips) break;
    requests[s].start(s == 0 ? own_part : place.part[1], s == 0 ? own_strip : place.strip[1], begin, lane);
    weights[s].start(s == 0 ? own_part : place.part[1], begin);
  }
  const __half* activations =
      a.input + static_cast<size_t>(first_token + g) * a.input_stride + begin * 32 + t * 8;
  const size_t tile_stride = static_cast<size_t>(a.input_stride) * 8;
  int rows_left = m.num_rows - begin * 32 - t * 8;  // of K, from this lane's on
  const bool first_live = g < tokens;

  auto request_weights = [&](uint32_t stage) {
#pragma unroll
    for (int s = 0; s < kStrips; ++s)
      if (s < strips) requests[s].request(stage + s * strip_stride, m.max_bits, lane);
  };
  auto request_activations = [&](uint32_t stage) {
    const uint32_t to = stage + kStrips * strip_stride + lane * 16;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      if (kTiles == 1 ? first_live : g + 8 * i < tokens)
        copy_async_16(to + i * 512, rows_left > 0 ? activations + i * tile_stride : a.input,
                      rows_left > 0 ? 16 : 0);
    }
    activations += 32;
    rows_left -= 32;
  };

  constexpr bool kDirect = kKind == TileKind::exl2;
  if constexpr (kDirect) {
    // The L2 is asked for the first weights while the predecessor still runs.
    if (begin < end) prefetch_stream(requests[0].codes - lane * 16, lane, 0);
    wait_for_predecessor();
  } else {
    // Weights do not depend on the predecessor; activations do.
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s)
      if (begin + s < end) request_weights(ring + s * stage_bytes);
    wait_for_predecessor();
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      if (begin + s < end) request_activations(ring + s * stage_bytes);
      commit_copies();
    }
  }

  float sum[2 * kStrips][kTiles][4] = {};
  uint32_t stage = ring, next_stage = ring + (kStages - 1) * stage_bytes;
  int unrequested = end - begin - (kStages - 1);
  // What precedes and follows the work on a step.
  auto enter_step = [&] {
    wait_for_copies<kStages - 2>();
    __syncwarp();
    if (unrequested > 0) {
      request_weights(next_stage);
      request_activations(next_stage);
    }
    --unrequested;
    commit_copies();
  };
  auto leave_step = [&] {
    next_stage = stage;
    stage += stage_bytes;
    if (stage == ring_end) stage = ring;
  };
  auto load_activations = [&](uint4(&b)[kTiles]) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
      b[i] = (kTiles == 1 ? first_live : g + 8 * i < tokens)
                 ? load_shared_16(stage + kStrips * strip_stride + i * 512 + lane * 16)
                 : make_uint4(0, 0, 0, 0);
  };
  auto multiply = [&](int s, const __half2(&w)[16], const uint4(&b)[kTiles]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const uint32_t fragment[4] = {bits_of(w[8 * i + 4 * j]), bits_of(w[8 * i + 4 * j + 1]),
                                      bits_of(w[8 * i + 4 * j + 2]), bits_of(w[8 * i + 4 * j + 3])};
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
          mma_16x8x16(sum[2 * s + i][n], fragment, j == 0 ? b[n].x : b[n].z, j == 0 ? b[n].y : b[n].w);
      }
    }
  };
  if constexpr (kDirect) {
    // Tiles go from memory to registers, several at a time; other warps work meanwhile.
    const uint8_t* codes = requests[0].codes - lane * 16;
    auto span = [&]<int kBits, int kCount>() {
      uint32_t raw[kCount][kBits];
      uint4 b[kCount][kTiles];
#pragma unroll
      for (int i = 0; i < kCount; ++i) fetch_words<kBits>(GlobalTile{codes + i * kBits * 128}, lane, raw[i]);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          const bool live = (kTiles == 1 ? first_live : g + 8 * n < tokens) && rows_left > i * 32;
          b[i][n] = live ? *reinterpret_cast<const uint4*>(activations + n * tile_stride + i * 32)
                         : make_uint4(0, 0, 0, 0);
        }
      }
      if (lane < kCount * kBits) prefetch_stream(codes, lane, kAhead);
      activations += kCount * 32;
      rows_left -= kCount * 32;
      codes += kCount * kBits * 128;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        __half2 w[16];
        decode_words<kBits>(raw[i], w, static_cast<float>(1 << (kBits - 1)));
        apply_scales(w, weights[0].scale);
        multiply(0, w, b[i]);
      }
    };
    auto spans = [&]<int kBits>(int steps) {
      constexpr int kMost = kTiles == 1 ? (kBits >= 6 ? 2 : 4) : kTiles == 2 ? 2 : 1;
      if constexpr (kMost > 1)
        for (; steps >= kMost; steps -= kMost) span.template operator()<kBits, kMost>();
      for (; steps > 0; --steps) span.template operator()<kBits, 1>();
    };
    for (int step = begin; step < end;) {
      if (weights[0].left == 0) weights[0].next_run();
      const int steps = min(weights[0].group_steps(), end - step), group = weights[0].group();
      const uint32_t nibbles =
          __ldg(reinterpret_cast<const uint16_t*>(requests[0].scales + static_cast<size_t>(group) * 16) + g);
      exl2_scales(nibbles, __ldg(own_part->group_scale + group), weights[0].scale);
      weights[0].left -= steps;
      step += steps;
      switch (weights[0].bits) {
        case 2:
          spans.template operator()<2>(steps);
          break;
        case 3:
          spans.template operator()<3>(steps);
          break;
        case 4:
          spans.template operator()<4>(steps);
          break;
        case 5:
          spans.template operator()<5>(steps);
          break;
        case 6:
          spans.template operator()<6>(steps);
          break;
        default:
          spans.template operator()<8>(steps);
          break;
      }
    }
  } else {
    for (int step = begin; step < end; ++step) {
      enter_step();
      uint4 b[kTiles];
      load_activations(b);
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
        if (s >= strips) break;
        __half2 w[16];
        weights[s].read(stage + s * strip_stride, m.max_bits, lane, w);
        multiply(s, w, b);
      }
      leave_step();
    }
  }
  wait_for_copies<0>();

  // Sums of the chains. Slices 0, 1 are the first strip, 2, 3 the second; a round takes a slice of each.
  constexpr int kSlices = reduction_slices<kTiles>();
  constexpr int kRounds = 4 / kSlices;
  constexpr int kPairs = kSlices / 2;              // slices per strip in a round
  constexpr int kItems = kPairs * 16 * kTokens;    // column pairs of a round
  float* sums = reinterpret_cast<float*>(shared);  // [slice][chain][token][16]
  const int splits = m.num_splits;
  const size_t tile_index = static_cast<size_t>(blockIdx.z) * m.num_units + blockIdx.x;
  float* partials = a.partials + tile_index * splits * 64 * kTokens;
  auto slot = [&](int slice, int w, int token, int column) {
    return ((slice * kChains + w) * kTokens + token) * 16 + column;
  };
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
        const int slice = 2 * s + round * kPairs + p;
        const int at = 2 * p + first_strip + s;
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          sums[slot(at, chain_in_block, 8 * n + 2 * t, g)] = sum[slice][n][0];
          sums[slot(at, chain_in_block, 8 * n + 2 * t + 1, g)] = sum[slice][n][1];
          sums[slot(at, chain_in_block, 8 * n + 2 * t, g + 8)] = sum[slice][n][2];
          sums[slot(at, chain_in_block, 8 * n + 2 * t + 1, g + 8)] = sum[slice][n][3];
        }
      }
    }
    __syncthreads();
    for (int item = threadIdx.x; item < kItems; item += kThreads) {
      const int column = item & 15;
      const int p = kPairs == 1 ? 0 : (item >> 4) & 1;
      const int token = item / (16 * kPairs);
      if (token >= tokens) continue;
      float v[2];
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        float c[kChains];
#pragma unroll
        for (int w = 0; w < kChains; ++w) c[w] = sums[slot(2 * p + s, w, token, column)];
        v[s] = (c[0] + c[2]) + (c[1] + c[3]);
      }
      const int local = 16 * (round * kPairs + p) + column;
      if (splits == 1) {
        finish_pair(a, place, first_token + token, local, v[0], v[1]);
      } else {
        float* mine = partials + static_cast<size_t>(blockIdx.y) * 64 * kTokens + token * 64 + local;
        __stcg(mine, v[0]);
        __stcg(mine + 32, v[1]);
      }
    }
  }
  if (splits == 1) return;

  // The block that arrives last adds the splits in order.
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(a.counters + tile_index, 1U) == static_cast<uint32_t>(splits) - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  for (int item = threadIdx.x; item < 32 * tokens; item += kThreads) {
    const int local = item & 31, token = item >> 5;
    const float* from = partials + token * 64 + local;
    float first = __ldcg(from), second = __ldcg(from + 32);
    for (int s = 1; s < splits; ++s) {
      first += __ldcg(from + static_cast<size_t>(s) * 64 * kTokens);
      second += __ldcg(from + static_cast<size_t>(s) * 64 * kTokens + 32);
    }
    finish_pair(a, place, first_token + token, local, first, second);
  }
  if (threadIdx.x == 0) a.counters[tile_index] = 0;
}

template <TileKind kKind, int kTiles>
cudaError_t launch_gemm(const GemmArguments& a, cudaStream_t stream, bool dependent) {
  const size_t bytes = gemm_shared_bytes<kKind, kTiles>(a.matrix.max_bits);
  const dim3 grid(static_cast<unsigned>(a.matrix.num_units), static_cast<unsigned>(a.matrix.num_splits),
                  static_cast<unsigned>((a.rows + kTiles * 8 - 1) / (kTiles * 8)));
  return launch_kernel(gemm_kernel<kKind, kTiles>, grid, dim3(gemm_threads(kKind, kTiles)), bytes, stream,
                       dependent, a);
}

// Once per device, before any launch.
template <TileKind kKind, int kTiles>
cudaError_t allow_shared_memory() {
  constexpr int kMaxBits = kKind == TileKind::dense ? 16 : kKind == TileKind::gptq ? 4 : 8;
  return cudaFuncSetAttribute(gemm_kernel<kKind, kTiles>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(gemm_shared_bytes<kKind, kTiles>(kMaxBits)));
}

}  // namespace quire::kernels
