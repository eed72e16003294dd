// What a line has that does not depend on the state: its keys and queries as operands of the tensor cores,
// and for each head the matrices that give updates and results. Computed by a block of kThreads. See
// lines.cu.
//
// With L [token, row] the products beta_t (e^(G_t - G_j) key_t) . key_j of earlier rows j, updates are
// (I + L)^-1 beta x. The inverse is found by forward substitution, one column in each lane.
#pragma once

#include "kernels/cuda/state/heads_inputs.cuh"
#include "kernels/cuda/state/line_inputs.cuh"

namespace quire::kernels {
namespace {

// Work memory of one head.
template <bool kOwnDecays>
struct TokenSpace {
  static constexpr bool kPerChannel = kOwnDecays;
  static constexpr bool kSolves = true;

  float decays[1][kStateLine];                        // summed, if not for each channel
  float factors[kStateLine];                          // beta
  alignas(16) float weights[kStateLine][kStateLine];  // L, [row, token]
};

// Work memory of a block that solves a line for up to kHeads heads of one key head at a time.
template <bool kOwnDecays, int kHeads>
struct SolveSpace {
  static constexpr bool kPerChannel = kOwnDecays;
  static constexpr bool kSolves = true;
  static constexpr int kPaddedKey = kSolvedKey;
  static constexpr int kStride = kSolvedKey + 8;  // rows begin in different banks
  static constexpr int kHeadsAtOnce = kHeads;

  float keys[kStateLine][kStride];  // zeros for rows without a token
  float queries[kStateLine][kStride];
  float decays[kPerChannel ? kStateLine : 1][kPerChannel ? kStride : 4];  // summed
  float products[kWarps][2]
                [kStateLine * kStateLine];  // of a warp's channels: keys with keys, queries with keys
  TokenSpace<kPerChannel> heads[kHeads];
};

template <typename Space>
__device__ __forceinline__ Block<Space> block_of(const HeadsArguments& a, Space& space, const StateLane& lane,
                                                 int head) {
  Block<Space> b = {a, space, lane};
  b.head = head;
  b.key_head = head / a.heads_per_key;
  b.first_column = 0;
  b.value_stride = padded_to_16(a.value_dim);
  b.padded_key = padded_to_16(a.key_dim);
  b.owns_keys = head % a.heads_per_key == 0;
  b.warp = threadIdx.x / 32;
  b.lane_idx = threadIdx.x % 32;
  return b;
}

// Computes columns of query (kind 0) or key (kind 1) of token i of the tile, by one warp.
template <typename Space>
__device__ __forceinline__ void prepare_row(const Block<Space>& b, const Tile& tile, int kind, int i) {
  const HeadsArguments& a = b.a;
  const int c = b.lane_idx * 4;
  const FourColumns columns =
      four_columns(a, kind == 0 ? a.query : a.key, b.key_head * a.key_dim + c, a.key_dim - c);
  const TokenInputs inputs = load_token(a, b.lane, tile, columns, i);
  const bool keeps = b.owns_keys && tile.bank != nullptr;
  if (keeps) keep_token(a, tile, columns, i, inputs);
  const float4 row = normalised(convolve_token(a, columns, inputs), kind == 0 ? a.query_scale : 1.0f);
  *reinterpret_cast<float4*>(kind == 0 ? &b.space.queries[tile.begin + i][c]
                                       : &b.space.keys[tile.begin + i][c]) = row;
  if (kind == 1 && keeps && c < b.padded_key)
    *reinterpret_cast<float4*>(const_cast<float*>(b.kept_keys(tile.bank)) + (tile.begin + i) * b.padded_key +
                               c) = row;
}

// Begins to load the keys that the source holds, and clears rows without a token.
template <typename Space>
__device__ __forceinline__ void gather_keys(const Block<Space>& b, const Tile& tile) {
  const int end = tile.begin + tile.count;
  const float* const keys = b.kept_keys(b.lane.source);
#pragma unroll
  for (int i = 0; i < kStateLine * kSolvedKey / 4; i += kThreads) {
    const int j = (i + static_cast<int>(threadIdx.x)) / (kSolvedKey / 4), c = b.lane_idx * 4;
    if (j >= tile.begin && j < end) continue;
    const bool is_kept = j < tile.begin && c < b.padded_key;
    copy_async_16(shared_address(&b.space.keys[j][c]), is_kept ? keys + j * b.padded_key + c : keys,
                  is_kept ? 16 : 0);
    *reinterpret_cast<float4*>(&b.space.queries[j][c]) = float4{};
  }
}

// Loads or sums the decays of channels. After the last token they stay as they are.
template <typename Space>
__device__ __forceinline__ void gather_channel_decays(const Block<Space>& b, const Tile& tile) {
  const int c = threadIdx.x, end = tile.begin + tile.count;
  if (c >= kSolvedKey) return;
  const float* const kept = b.kept_decays(b.lane.source);
  for (int j = 0; j < tile.begin; ++j)
    b.space.decays[j][c] = c < b.padded_key ? kept[j * b.padded_key + c] : 0.0f;
  sum_channel_decays<kStateLine>(b, tile);
  for (int j = end; j < kStateLine; ++j) b.space.decays[j][c] = b.space.decays[end - 1][c];
}

// Loads or computes summed decays and betas of a head; by one warp.
template <typename Space>
__device__ __forceinline__ void gather_tokens(const Block<Space>& b, const Tile& tile) {
  const int t = b.lane_idx, end = tile.begin + tile.count;
  if (t < tile.begin) {
    b.space.factors[t] = b.kept_factors(b.lane.source)[t];
    if (!Space::kPerChannel) b.space.decays[0][t] = b.kept_decays(b.lane.source)[t];
  }
  __syncwarp();
  prepare_tokens(b, tile);
  __syncwarp();
  if (t < end || t >= kStateLine) return;
  b.space.factors[t] = 0.0f;
  if (!Space::kPerChannel) b.space.decays[0][t] = b.space.decays[0][end - 1];
}

// The elements of rows g and g + 8 that a lane has of a [16, 16] operand, in the order of its registers.
struct OperandPairs {
  float2 v[4];
};

// Returns these elements of a warp's channels.
template <int kStride>
__device__ __forceinline__ OperandPairs load_pairs(float (&rows)[kStateLine][kStride], int warp, int lane) {
  const int g = lane / 4, c = 16 * warp + lane % 4 * 2;
  OperandPairs out;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    out.v[i] = *reinterpret_cast<const float2*>(&rows[g + i % 2 * 8][c + i / 2 * 8]);
  return out;
}

__device__ __forceinline__ SplitTile split_pairs(const OperandPairs& pairs) {
  SplitTile out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const SplitPair pair = split(pairs.v[i].x, pairs.v[i].y);
    out.high[i] = pair.high;
    out.low[i] = pair.low;
  }
  return out;
}

__device__ __forceinline__ OperandPairs times(const OperandPairs& a, const OperandPairs& b) {
  OperandPairs out;
#pragma unroll
  for (int i = 0; i < 4; ++i) out.v[i] = {__fmul_rn(a.v[i].x, b.v[i].x), __fmul_rn(a.v[i].y, b.v[i].y)};
  return out;
}

__device__ __forceinline__ void store_rows(SplitRows& to, const SplitTile& tile, int warp, int lane) {
  const int g = lane / 4, c = 16 * warp + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int place = split_place(g + i % 2 * 8, c + i / 2 * 8);
    *reinterpret_cast<uint32_t*>(&to.high[place]) = tile.high[i];
    *reinterpret_cast<uint32_t*>(&to.low[place]) = tile.low[i];
  }
}

// Sums of products of rows with rows, [16, 16]: columns 8 n + 2 (lane % 4) and the next of rows g and g + 8.
struct RowProducts {
  float v[2][4];
};

// Returns a b^T.
__device__ __forceinline__ RowProducts multiply_rows(const SplitTile& a, const SplitTile& b) {
  const SplitColumns columns[1] = {
      {{b.high[0], b.high[2], b.high[1], b.high[3]}, {b.low[0], b.low[2], b.low[1], b.low[3]}}};
  SplitSums sums[2];
  multiply_split<0, 1>(sums, a, columns);
  RowProducts out;
#pragma unroll
  for (int i = 0; i < 8; ++i) out.v[i / 4][i % 4] = sums[i / 4].of(i % 4);
  return out;
}

// Keeps the products of the rows with bit `bit` set with those before that differ in this bit first.
__device__ __forceinline__ void select_level(RowProducts& sums, const RowProducts& of_level, int bit,
                                             int lane) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2,
              differ = row ^ column;
    if ((row & bit) != 0 && (differ & bit) != 0 && differ < 2 * bit)
      sums.v[i / 4][i % 4] = of_level.v[i / 4][i % 4];
  }
}

// Returns e^(sign (G of each element's row - G of the reference row of its level)), at most 1: a row with the
// level's bit set comes after the reference, others come before.
template <typename Space>
__device__ __forceinline__ OperandPairs decays_from(const Space& space, const OperandPairs& own, int bit,
                                                    int warp, int lane) {
  const int g = lane / 4, c = 16 * warp + lane % 4 * 2;
  OperandPairs out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = g + i % 2 * 8, reference = (row & ~(2 * bit - 1)) + bit - 1;
    const float2 of_reference = *reinterpret_cast<const float2*>(&space.decays[reference][c + i / 2 * 8]);
    const float sign = (row & bit) != 0 ? 1.0f : -1.0f;
    out.v[i] = {expf(__fmul_rn(sign, __fsub_rn(own.v[i].x, of_reference.x))),
                expf(__fmul_rn(sign, __fsub_rn(own.v[i].y, of_reference.y)))};
  }
  return out;
}

// Returns e^(sign G + of_end), where of_end is G at the end of the line or 0.
template <typename Space>
__device__ __forceinline__ OperandPairs decays_to_end(const Space& space, const OperandPairs& own,
                                                      bool to_end, int warp, int lane) {
  const int c = 16 * warp + lane % 4 * 2;
  OperandPairs out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float2 v = own.v[i];
    if (to_end) {
      const float2 end = *reinterpret_cast<const float2*>(&space.decays[kStateLine - 1][c + i / 2 * 8]);
      v = {__fsub_rn(end.x, v.x), __fsub_rn(end.y, v.y)};
    }
    out.v[i] = {expf(v.x), expf(v.y)};
  }
  return out;
}

__device__ __forceinline__ void store_products(float (&to)[kStateLine * kStateLine], const RowProducts& sums,
                                               int lane) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i % 2 * 8, column = i / 2 * 8 + lane % 4 * 2;
    *reinterpret_cast<float2*>(&to[row * kStateLine + column]) =
        make_float2(sums.v[i / 2][i % 2 * 2], sums.v[i / 2][i % 2 * 2 + 1]);
  }
}

// Multiplies rows with rows over a warp's 16 channels, and stores the operands that read the state. With a
// decay for each channel e^(G_t - G_j) does not leave the product. So pairs of rows are computed in levels:
// the rows of a pair first differ in a bit of their numbers, and a row between them takes both parts of the
// exponent, so that neither exceeds 0.
template <typename Space>
__device__ __forceinline__ void multiply_keys(const Block<Space>& b, SolvedKeys<Space::kPerChannel>& out) {
  Space& space = b.space;
  const int warp = b.warp, lane = b.lane_idx;
  const OperandPairs keys = load_pairs(space.keys, warp, lane),
                     queries = load_pairs(space.queries, warp, lane);
  const SplitTile key_tile = split_pairs(keys), query_tile = split_pairs(queries);
  RowProducts of_keys = {}, of_queries = multiply_rows(query_tile, key_tile);
  if constexpr (Space::kPerChannel) {
    const OperandPairs decays = load_pairs(space.decays, warp, lane);
#pragma unroll 1
    for (int bit = 1; bit < kStateLine; bit *= 2) {
      const OperandPairs factors = decays_from(space, decays, bit, warp, lane);
      const SplitTile k = split_pairs(times(factors, keys)), q = split_pairs(times(factors, queries));
      select_level(of_keys, multiply_rows(k, k), bit, lane);
      select_level(of_queries, multiply_rows(q, k), bit, lane);
    }
    const OperandPairs read = decays_to_end(space, decays, false, warp, lane);
    store_rows(out.keys, split_pairs(times(read, keys)), warp, lane);
    store_rows(out.queries, split_pairs(times(read, queries)), warp, lane);
    const OperandPairs left = decays_to_end(space, decays, true, warp, lane);
    store_rows(out.ends, split_pairs(times(left, keys)), warp, lane);
  } else {
    of_keys = multiply_rows(key_tile, key_tile);
    store_rows(out.keys, key_tile, warp, lane);
    store_rows(out.queries, query_tile, warp, lane);
  }
  store_products(space.products[warp][0], of_keys, lane);
  store_products(space.products[warp][1], of_queries, lane);
}

// Computes the weights of rows in the updates and results of tokens; one thread for each pair.
template <typename Space>
__device__ __forceinline__ void weigh_pairs(const Block<Space>& b, int num_heads,
                                            SolvedHead<Space::kPerChannel>* out) {
  static_assert(kThreads == kStateLine * kStateLine);
  Space& space = b.space;
  const int pair = threadIdx.x, t = pair / kStateLine, j = pair % kStateLine;
  float of_key = space.products[0][0][pair], of_query = space.products[0][1][pair];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) {
    of_key = __fadd_rn(of_key, space.products[w][0][pair]);
    of_query = __fadd_rn(of_query, space.products[w][1][pair]);
  }
  for (int h = 0; h < num_heads; ++h) {
    TokenSpace<Space::kPerChannel>& head = space.heads[h];
    float factor = 0.0f;
    if (j <= t) factor = Space::kPerChannel ? 1.0f : expf(__fsub_rn(head.decays[0][t], head.decays[0][j]));
    store_element(out[h].results, t, j, __fmul_rn(factor, of_query));
    head.weights[j][t] = j < t ? __fmul_rn(head.factors[t], __fmul_rn(factor, of_key)) : 0.0f;
  }
}

// Solves a head's line, and stores its decays; by one warp.
template <typename Space>
__device__ __forceinline__ void solve_head(const Space& head, int lane, SolvedHead<Space::kPerChannel>& out) {
  if constexpr (!Space::kPerChannel) {
    if (lane < kStateLine) {
      const float g = head.decays[0][lane], end = head.decays[0][kStateLine - 1];
      out.decays.read[lane] = expf(g);
      out.decays.remaining[lane] = expf(__fsub_rn(end, g));
      out.decays.whole[lane] = expf(end);
    }
  }
  if (lane >= kStateLine) return;
  float column[kStateLine];
#pragma unroll
  for (int t = 0; t < kStateLine; ++t) column[t] = t == lane ? head.factors[t] : 0.0f;
#pragma unroll
  for (int j = 0; j < kStateLine; ++j) {
#pragma unroll
    for (int four = j / 4; four < kStateLine / 4; ++four) {
      const float4 w = four_at(&head.weights[j][4 * four]);
      const float weights[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int t = max(4 * four, j + 1); t < 4 * four + 4; ++t)
        column[t] = __fmaf_rn(-weights[t % 4], column[j], column[t]);
    }
    store_element(out.updates, j, lane, column[j]);
  }
}

// Collects decays and betas, and waits for this thread's copies.
template <typename Space>
__device__ __forceinline__ void gather_decays(const Block<Space>& b, const Tile& tile, int num_heads) {
  if constexpr (Space::kPerChannel) gather_channel_decays(b, tile);
  // The last warps have the fewest rows of keys.
  const int of_warp = kWarps - 1 - b.warp;
  if (of_warp < num_heads)
    gather_tokens(block_of(b.a, b.space.heads[of_warp], b.lane, b.head + of_warp), tile);
  wait_for_copies<0>();
}

// Collects a line's rows in shared memory, for `num_heads` heads from b.head on, which share a key head:
// those before the tile from the source, the tile's own from its inputs. Keeps keys, decays and betas in the
// tile's bank.
template <typename Space>
__device__ __forceinline__ void gather_line(const Block<Space>& b, const Tile& tile, int num_heads) {
  gather_keys(b, tile);
  commit_copies();
  for (int item = b.warp; item < 2 * tile.count; item += kWarps) prepare_row(b, tile, item % 2, item / 2);
  gather_decays(b, tile, num_heads);
}

// Multiplies the rows that gather_line has collected; solve_heads comes after. The caller synchronises before
// each of them, and before it reads `keys` and `heads`.
template <typename Space>
__device__ __forceinline__ void multiply_line(const Block<Space>& b, int num_heads,
                                              SolvedKeys<Space::kPerChannel>& keys,
                                              SolvedHead<Space::kPerChannel>* heads) {
  multiply_keys(b, keys);
  if constexpr (Space::kPerChannel) {
    if (threadIdx.x < kSolvedKey)
      heads->decays.whole[threadIdx.x] = expf(b.space.decays[kStateLine - 1][threadIdx.x]);
  }
  __syncthreads();
  weigh_pairs(b, num_heads, heads);
}

template <typename Space>
__device__ __forceinline__ void solve_heads(const Block<Space>& b, int num_heads,
                                            SolvedHead<Space::kPerChannel>* heads) {
  if (b.warp < num_heads) solve_head(b.space.heads[b.warp], b.lane_idx, heads[b.warp]);
}

}  // namespace
}  // namespace quire::kernels
