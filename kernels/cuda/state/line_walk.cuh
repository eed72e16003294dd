// One line of a warp's 16 columns: updates, results, and the state at the next line. Everything is in the
// registers of the warp. Each product is laid out so that its result can be an operand of the next product
// as it is, for example [column, key] times [key, token]. lines.cu has the formulas.
#pragma once

#include "kernels/cuda/state/line_parts.cuh"

namespace quire::kernels {
namespace {

constexpr int kGroupTiles =
    4;  // key tiles whose products are summed before those of the next group are added
constexpr int kGroups = kKeyTiles / kGroupTiles;

// Elements [half][column * 2 + token] of a lane: of the columns lane / 4 and 8 more, and in each half of the
// line of the tokens 2 (lane % 4) and the next. They are the lane's elements of a product [column, token].
struct LineElements {
  float v[2][4];
};

// The columns of a head that one warp computes.
struct Slab {
  const HeadsArguments& a;
  const StateLane& lane;
  int head;
  int slab;    // number of the slab in the head
  int pair;    // lane % 4 * 2: the token in a half
  int column;  // lane / 4, in the head

  __device__ __forceinline__ bool inside(int i) const { return column + 8 * i < a.value_dim; }
  __device__ __forceinline__ int value_column(int i) const { return head * a.value_dim + column + 8 * i; }
};

__device__ __forceinline__ Slab slab_of(const HeadsArguments& a, const StateLane& lane, int head, int slab) {
  const int own = threadIdx.x % 32;
  return {a, lane, head, slab, own % 4 * 2, slab * kSlab + own / 4};
}

// Elements of the state of a warp's 16 columns and 16 keys, transposed: as results of two products [16, 8].
struct StateTile {
  float v[2][4];
};

// Returns this lane's first element of a slab in a bank. There a slab is [key tile, half, lane, 4].
__device__ __forceinline__ float* kept_slab(const Slab& s, uint8_t* bank) {
  const size_t padded_key = padded_to_16(s.a.key_dim);
  return floats_at(bank, s.a.memory.layout.state) + s.head * padded_key * padded_to_16(s.a.value_dim) +
         s.slab * padded_key * kSlab + (threadIdx.x % 32) * 4;
}

__device__ __forceinline__ StateTile load_tile(const float* slab, int k) {
  StateTile out;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float4 four = four_at(slab + (k * 2 + h) * 128);
    out.v[h][0] = four.x, out.v[h][1] = four.y, out.v[h][2] = four.z, out.v[h][3] = four.w;
  }
  return out;
}

__device__ __forceinline__ void store_tile(float* slab, int k, const StateTile& tile) {
#pragma unroll
  for (int h = 0; h < 2; ++h)
    *reinterpret_cast<float4*>(slab + (k * 2 + h) * 128) =
        make_float4(tile.v[h][0], tile.v[h][1], tile.v[h][2], tile.v[h][3]);
}

// A group of a warp's part of the state, in registers.
struct HeldGroup {
  static constexpr bool kIsHeld = true;
  StateTile tiles[kGroupTiles];

  __device__ __forceinline__ void begin() {}
  __device__ __forceinline__ StateTile take(int, int i) const { return tiles[i]; }
  __device__ __forceinline__ void put(int, int i, const StateTile& tile) { tiles[i] = tile; }
};

// A warp's whole part of the state in a bank, read some tiles ahead, and written to another one.
struct StoredSlab {
  static constexpr bool kIsHeld = false;
  static constexpr int kAhead = 4;
  const float* from;  // nullptr: zeros
  float* to;
  int num_tiles;
  StateTile ahead[kAhead];

  __device__ __forceinline__ StateTile load(int k) const {
    return from != nullptr && k < num_tiles ? load_tile(from, k) : StateTile{};
  }
  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int k = 0; k < kAhead; ++k) ahead[k] = load(k);
  }
  __device__ __forceinline__ StateTile take(int group, int i) {
    const int k = group * kGroupTiles + i;
    const StateTile tile = ahead[k % kAhead];
    if (k + kAhead < kKeyTiles) ahead[k % kAhead] = load(k + kAhead);
    return tile;
  }
  __device__ __forceinline__ void put(int group, int i, const StateTile& tile) const {
    if (group * kGroupTiles + i < num_tiles) store_tile(to, group * kGroupTiles + i, tile);
  }
};

// Loads a group of the state that a lane begins with; at line 0 it is zero.
__device__ __forceinline__ HeldGroup hold_group(const Slab& s, int group) {
  const float* const from = kept_slab(s, const_cast<uint8_t*>(s.lane.source));
  HeldGroup out;
#pragma unroll
  for (int i = 0; i < kGroupTiles; ++i) {
    const int k = group * kGroupTiles + i;
    out.tiles[i] = source_line(s.lane) > 0 && k * 16 < s.a.key_dim ? load_tile(from, k) : StateTile{};
  }
  return out;
}

__device__ __forceinline__ void store_group(const Slab& s, uint8_t* bank, int group, const HeldGroup& state) {
  float* const to = kept_slab(s, bank);
#pragma unroll
  for (int i = 0; i < kGroupTiles; ++i)
    if ((group * kGroupTiles + i) * 16 < s.a.key_dim) store_tile(to, group * kGroupTiles + i, state.tiles[i]);
}

// Brings the state that a lane begins with into L2.
__device__ __forceinline__ void prefetch_slab(const Slab& s) {
  const float* const from = kept_slab(s, const_cast<uint8_t*>(s.lane.source));
  if (source_line(s.lane) == 0 || threadIdx.x % 8 != 0) return;
#pragma unroll
  for (int i = 0; i < 2 * kKeyTiles; ++i)
    if (i * 8 < s.a.key_dim) prefetch_line(from + i * 128);
}

// Returns the address that a lane loads channels 0..15 of a line's rows from. Those of k tiles later are at
// the same address with 32 k inverted bitwise, as split_place permutes them.
__device__ __forceinline__ uint32_t channels_address(const SplitRows& rows) {
  const int lane = threadIdx.x % 32;
  return shared_address(&rows.high[split_place(lane / 16 * 8 + lane % 8, 8 * (lane / 8 % 2))]);
}
__device__ __forceinline__ uint32_t keys_address(const SplitRows& rows) {
  const int lane = threadIdx.x % 32;
  return shared_address(&rows.high[split_place(lane / 8 % 2 * 8 + lane % 8, 8 * (lane / 16))]);
}

// Loads 16 channels as right operands of products with the state.
__device__ __forceinline__ void load_channels(uint32_t address, int k, SplitColumns& to) {
  load_matrices(to.high, address ^ (32U * k));
  load_matrices(to.low, (address ^ (32U * k)) + sizeof(SplitRows::high));
}

// The same, transposed: as right operands of products with updates.
__device__ __forceinline__ void load_keys(uint32_t address, int k, SplitColumns& to) {
  load_matrices_transposed(to.high, address ^ (32U * k));
  load_matrices_transposed(to.low, (address ^ (32U * k)) + sizeof(SplitRows::high));
}

// What the state gives for the keys and the queries of a line.
struct StateReads {
  LineElements keys;
  LineElements queries;
};

// Multiplies a group of the state with the keys and queries of the halves kFirst..kLast of a line. If the
// state is held, there are registers to load the operands of the next channels before the products of these
// are issued.
template <int kFirst, int kLast, typename State>
__device__ __forceinline__ void read_group(State& state, int group, const SplitRows& keys,
                                           const SplitRows& queries, StateReads& out) {
  constexpr int kCount = kLast - kFirst + 1, kBuffers = 1;
  SplitSums sums[2 * kCount];
  SplitColumns columns[kBuffers][2];
  const uint32_t of_keys = channels_address(keys) ^ (32U * kGroupTiles * group);
  const uint32_t of_queries = channels_address(queries) ^ (32U * kGroupTiles * group);
  const auto load = [&](int i) {
    load_channels(of_keys, i, columns[i % kBuffers][0]);
    load_channels(of_queries, i, columns[i % kBuffers][1]);
  };
  load(0);
#pragma unroll
  for (int i = 0; i < kGroupTiles; ++i) {
    if (kBuffers == 1 && i > 0) load(i);
    if (kBuffers == 2 && i + 1 < kGroupTiles) load(i + 1);
    const StateTile tile = state.take(group, i);
    const SplitTile of_state = split_tile(tile.v[0], tile.v[1]);
    multiply_split<kFirst, kLast>(sums, of_state, columns[i % kBuffers]);
  }
#pragma unroll
  for (int h = 0; h < kCount; ++h)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out.keys.v[kFirst + h][i] = sums[h].of(i);
      out.queries.v[kFirst + h][i] = sums[kCount + h].of(i);
    }
}

// The same for all groups of a half of a line. The caller has begun the state.
template <int kHalf, typename State>
__device__ __forceinline__ void read_half(State& state, const SplitRows& keys, const SplitRows& queries,
                                          StateReads& out) {
  read_group<kHalf, kHalf>(state, 0, keys, queries, out);
#pragma unroll
  for (int group = 1; group < kGroups; ++group) {
    StateReads more;
    read_group<kHalf, kHalf>(state, group, keys, queries, more);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out.keys.v[kHalf][i] = __fadd_rn(out.keys.v[kHalf][i], more.keys.v[kHalf][i]);
      out.queries.v[kHalf][i] = __fadd_rn(out.queries.v[kHalf][i], more.queries.v[kHalf][i]);
    }
  }
}

// Returns a m^T of the halves kFirst..kLast.
template <int kFirst, int kLast>
__device__ __forceinline__ LineElements multiply_matrix(const SplitTile& a, const SplitMatrix& m) {
  const uint4 high = m.high[threadIdx.x % 32], low = m.low[threadIdx.x % 32];
  const SplitColumns columns[1] = {{{high.x, high.y, high.z, high.w}, {low.x, low.y, low.z, low.w}}};
  SplitSums sums[kLast - kFirst + 1];
  multiply_split<kFirst, kLast>(sums, a, columns);
  LineElements out = {};
#pragma unroll
  for (int h = kFirst; h <= kLast; ++h)
#pragma unroll
    for (int i = 0; i < 4; ++i) out.v[h][i] = sums[h - kFirst].of(i);
  return out;
}

__device__ __forceinline__ void decay_tile(StateTile& tile, const LineDecays<false>& decays, int, int) {
#pragma unroll
  for (int i = 0; i < 8; ++i) tile.v[i / 4][i % 4] = __fmul_rn(decays.whole[0], tile.v[i / 4][i % 4]);
}

__device__ __forceinline__ void decay_tile(StateTile& tile, const LineDecays<true>& decays, int k, int pair) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float2 decay = *reinterpret_cast<const float2*>(&decays.whole[16 * k + 8 * h + pair]);
    tile.v[h][0] = __fmul_rn(decay.x, tile.v[h][0]), tile.v[h][1] = __fmul_rn(decay.y, tile.v[h][1]);
    tile.v[h][2] = __fmul_rn(decay.x, tile.v[h][2]), tile.v[h][3] = __fmul_rn(decay.y, tile.v[h][3]);
  }
}

// Adds the updates times the keys to the state of 32 keys.
__device__ __forceinline__ void add_products(StateTile (&tiles)[2], const SplitTile& updates,
                                             const SplitColumns (&keys)[2]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    mma_16x8x16_bf16(tiles[i / 2].v[i % 2], updates.high, keys[i / 2].high[i % 2 * 2],
                     keys[i / 2].high[i % 2 * 2 + 1]);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    mma_16x8x16_bf16(tiles[i / 2].v[i % 2], updates.low, keys[i / 2].high[i % 2 * 2],
                     keys[i / 2].high[i % 2 * 2 + 1]);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    mma_16x8x16_bf16(tiles[i / 2].v[i % 2], updates.high, keys[i / 2].low[i % 2 * 2],
                     keys[i / 2].low[i % 2 * 2 + 1]);
}

// Forms a group of the state at the next line: decays it, and adds the updates times the keys.
template <bool kPerChannel, typename State>
__device__ __forceinline__ void form_group(State& state, int group, const LineDecays<kPerChannel>& decays,
                                           const SplitTile& updates, const SplitRows& keys, int pair) {
  const uint32_t address = keys_address(keys) ^ (32U * kGroupTiles * group);
#pragma unroll
  for (int i = 0; i < kGroupTiles; i += 2) {
    SplitColumns columns[2];
    load_keys(address, i, columns[0]);
    load_keys(address, i + 1, columns[1]);
    StateTile tiles[2] = {state.take(group, i), state.take(group, i + 1)};
    decay_tile(tiles[0], decays, group * kGroupTiles + i, pair);
    decay_tile(tiles[1], decays, group * kGroupTiles + i + 1, pair);
    add_products(tiles, updates, columns);
    state.put(group, i, tiles[0]);
    state.put(group, i + 1, tiles[1]);
  }
}

// Multiplies each token's elements by its number.
__device__ __forceinline__ void scale_tokens(LineElements& e, const float (&numbers)[kStateLine], int pair) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float2 two = *reinterpret_cast<const float2*>(&numbers[8 * h + pair]);
    e.v[h][0] = __fmul_rn(two.x, e.v[h][0]), e.v[h][1] = __fmul_rn(two.y, e.v[h][1]);
    e.v[h][2] = __fmul_rn(two.x, e.v[h][2]), e.v[h][3] = __fmul_rn(two.y, e.v[h][3]);
  }
}

// Returns the updates as an operand of form_group.
template <bool kPerChannel>
__device__ __forceinline__ SplitTile updates_to_end(LineElements updates,
                                                    const LineDecays<kPerChannel>& decays, int pair) {
  if constexpr (!kPerChannel) scale_tokens(updates, decays.remaining, pair);
  return split_tile(updates.v[0], updates.v[1]);
}

template <bool kPerChannel>
__device__ __forceinline__ void decay_reads(StateReads& reads, const LineDecays<kPerChannel>& decays,
                                            int pair) {
  if constexpr (!kPerChannel) {
    scale_tokens(reads.keys, decays.read, pair);
    scale_tokens(reads.queries, decays.read, pair);
  }
}

// Returns x: of the tile's tokens the difference between their values and what the state predicts, of earlier
// ones what `values` has, of later ones zeros. `values` is [token, column of the slab's block], `own` the
// lane's column there.
template <int kStride>
__device__ __forceinline__ LineElements subtract_reads(const Slab& s, const Tile& tile,
                                                       const float (&values)[kStateLine][kStride], int own,
                                                       const LineElements& reads) {
  LineElements out;
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = 8 * h + s.pair + i % 2;
      const float value = values[token][own + i / 2 * 8];
      out.v[h][i] = token < tile.begin                ? value
                    : token < tile.begin + tile.count ? __fsub_rn(value, reads.v[h][i])
                                                      : 0.0f;
    }
  return out;
}

// Keeps x of the tile's tokens in its bank.
__device__ __forceinline__ void keep_updates(const Slab& s, const Tile& tile, const LineElements& x) {
  const int stride = padded_to_16(s.a.value_dim);
  float* const to = floats_at(tile.bank, s.a.memory.layout.updates) + s.head * kStateLine * stride + s.column;
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = 8 * h + s.pair + i % 2;
      if (token >= tile.begin && token < tile.begin + tile.count) to[token * stride + i / 2 * 8] = x.v[h][i];
    }
}

// Adds what the updates of a line give to the results of the halves kFirst..kLast.
template <int kFirst, int kLast>
__device__ __forceinline__ void add_updates(LineElements& results, const LineElements& updates,
                                            const SplitMatrix& matrix) {
  const LineElements more = multiply_matrix<kFirst, kLast>(split_tile(updates.v[0], updates.v[1]), matrix);
#pragma unroll
  for (int h = kFirst; h <= kLast; ++h)
#pragma unroll
    for (int i = 0; i < 4; ++i) results.v[h][i] = __fadd_rn(results.v[h][i], more.v[h][i]);
}

}  // namespace
}  // namespace quire::kernels
