// Code shared by the kernels for many query rows of a sequence: the rows and chunks of a block, the weights
// of a chunk, and the output of results.
//
// If there are fewer blocks than the card can run at once, several blocks split the chunks of the same rows
// (split-KV). Each warp then writes the result of every chunk to memory, its 16 rows as a tile, and a second
// kernel merges the chunks in order. So a short prompt chunk after many cached keys takes only the time of
// one share of the chunks.
#pragma once

#include <algorithm>

#include <climits>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_merge.cuh"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/launch.cuh"

namespace quire::kernels {

struct RowsArguments {
  AttentionParams p;
  const int32_t* place;
  int32_t all;             // include the sequences that fit a tile of launch_attention_decode
  int32_t splits = 1;      // blocks that share the chunks of the same rows
  int32_t warp_tiles = 0;  // largest number of 16-row tiles that a block writes, with splits > 1
  MergeArguments merge = {};
};

// Returns the largest possible number of tiles of kRows rows in the batch, counting one partly filled tile
// per sequence. Sequences that fit a tile of launch_attention_decode count only with `all`. Without it, every
// counted sequence has at least rows_of_token / group more tokens than one, which limits their number.
template <int kRows>
unsigned most_row_tiles(const AttentionParams& p, bool all) {
  const int64_t group = p.heads.num_heads / p.heads.num_kv_heads, tokens = p.batch.num_tokens;
  const int64_t sequences = p.batch.num_sequences, spare = rows_of_token(static_cast<int>(group)) / group;
  const int64_t partial = all ? sequences : std::min(sequences, (tokens - sequences) / spare);
  return static_cast<unsigned>(std::max<int64_t>(1, (tokens * group + partial * (kRows - 1)) / kRows));
}

// Smallest number of chunks per block for which split-KV pays for the partial results in memory.
constexpr int kMinShared = 4;

// Returns the arguments for blocks of kRows rows with that much shared memory. The chunks are split if the
// card can run more blocks at once and the scratch memory holds the partial results.
template <int kRows>
RowsArguments rows_arguments(const AttentionParams& p, const int32_t* place, bool all,
                             const SplitResources& room, uint32_t shared_bytes, int dim) {
  RowsArguments a{p, place, all ? 1 : 0};
  const int most_blocks = blocks_at_once(*room.device, shared_bytes, INT_MAX);
  const int group = p.heads.num_heads / p.heads.num_kv_heads;
  const auto blocks =
      static_cast<int64_t>(most_row_tiles<kRows>(p, all)) * static_cast<int64_t>(p.heads.num_kv_heads);
  a.splits = static_cast<int32_t>(std::min<int64_t>(most_blocks / blocks, room.max_chunks / kMinShared));
  a.warp_tiles = (std::min(kRows, p.batch.max_query_tokens * group) + kTileRows - 1) / kTileRows;
  a.merge = merge_arguments(room.max_chunks, kTileRows, *room.scratch, nullptr, kChunkTokens);
  const int64_t floats = blocks * a.warp_tiles * room.max_chunks * partial_floats(kTileRows, dim);
  if (a.splits < 2 || floats > static_cast<int64_t>(room.scratch->partial_floats)) a.splits = 1;
  return a;
}

// Rows of a block: kRows of one sequence and kv head.
struct RowBlock {
  int sequence;
  QueryRows queries;
  int first_row;
  int rows;
  int seen_chunk;   // first chunk that any of the rows attends to
  int first_chunk;  // first chunk that the block computes
  int last_chunk;
  int first_position;
};

// Finds the rows of a block; returns false if it has none. Every warp searches 32 sequences at a time: one at
// a time would take longer than a chunk in steps with hundreds of sequences.
template <int kRows>
__device__ __forceinline__ bool find_rows(const RowsArguments& a, int tile, int kv_head, bool last_first,
                                          RowBlock& block) {
  const AttentionParams& p = a.p;
  const int group = p.heads.num_heads / p.heads.num_kv_heads, dim = p.heads.head_dim;
  const int decode_rows = rows_of_token(group);
  const int lane = threadIdx.x & 31, num_sequences = p.batch.num_sequences;
  int sequence = 0;
  for (int first = 0;; first += 32) {
    if (first >= num_sequences) return false;
    const int mine = first + lane;
    int tiles = 0;
    if (mine < num_sequences) {
      const int rows = (p.batch.sequence_starts[mine + 1] - p.batch.sequence_starts[mine]) * group;
      if (a.all || rows > decode_rows) tiles = (rows + kRows - 1) / kRows;
    }
    int end = tiles;  // sum over this lane's sequence and the ones before it
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      const int before = __shfl_up_sync(0xffffffffU, end, d);
      if (lane >= d) end += before;
    }
    const unsigned found = __ballot_sync(0xffffffffU, end > tile);
    if (found == 0) {
      tile -= __shfl_sync(0xffffffffU, end, 31);
      continue;
    }
    const int at = __ffs(static_cast<int>(found)) - 1;
    sequence = first + at;
    const int tiles_there = __shfl_sync(0xffffffffU, tiles, at);
    tile -= __shfl_sync(0xffffffffU, end, at) - tiles_there;
    if (last_first) tile = tiles_there - 1 - tile;
    break;
  }
  block.sequence = sequence;
  const int begin = p.batch.sequence_starts[sequence];
  const int tokens = p.batch.sequence_starts[sequence + 1] - begin;
  block.queries = {static_cast<const __half*>(p.qkv),
                   begin,
                   tokens * group,
                   Divisor::of(group),
                   kv_head,
                   dim,
                   (p.heads.num_heads + 2 * p.heads.num_kv_heads) * dim};
  block.first_row = tile * kRows;
  block.rows = min(kRows, block.queries.num_rows - block.first_row);
  const ScoreRule rule{p.scale, p.softcap, p.sliding_window};
  block.first_position = p.batch.positions[block.queries.token(block.first_row)];
  block.seen_chunk = block.first_chunk = rule.first_chunk(block.first_position);
  block.last_chunk = p.batch.positions[block.queries.token(block.first_row + block.rows - 1)] / kChunkTokens;
  return true;
}

// Restricts the block to its share of the chunks; returns false if the share is empty.
__device__ __forceinline__ bool select_share(const RowsArguments& a, int share, RowBlock& block) {
  const int own = (block.last_chunk - block.seen_chunk + a.splits) / a.splits;
  block.first_chunk = block.seen_chunk + share * own;
  block.last_chunk = min(block.last_chunk, block.first_chunk + own - 1);
  return block.first_chunk <= block.last_chunk;
}

// Returns the partial results of a warp's 16 rows, one part per chunk.
__device__ __forceinline__ PartialRows parts_of_warp(const RowsArguments& a, int tile, int kv_head, int warp,
                                                     int dim, int first_row = 0) {
  const int block = tile * a.p.heads.num_kv_heads + kv_head;
  return {a.merge, block * a.warp_tiles + warp, dim, first_row};
}

template <bool kKeys>
__device__ __forceinline__ PageReader page_reader(const AttentionParams& p, const RowBlock& block,
                                                  int kv_head) {
  const ScoreRule rule{p.scale, p.softcap, p.sliding_window};
  return page_reader<kKeys>(p, block.sequence, kv_head, rule.first_key(block.first_position),
                            p.batch.kv_lengths[block.sequence]);
}

// Products of a chunk for a lane's two rows: keys 8n + 2t + {0, 1}, as [n][2 * row + key].
using ChunkScores = float[kChunkTokens / 8][4];
// Weights of a chunk, as operands of the product with the values.
using ChunkWeights = uint32_t[kChunkTokens / 8][2];

// Multiplies the warp's 16 query rows with the keys of a chunk, both in shared memory.
template <int HD>
__device__ __forceinline__ void multiply_keys(uint32_t queries, uint32_t keys, ChunkScores& score) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int k = 0; k < HD / 16; ++k) {
    uint32_t query[4];
    load_matrices(query, queries + tile_offset<HD>(lane & 15, 2 * k + (lane >> 4)));
#pragma unroll
    for (int n = 0; n < kChunkTokens / 16; ++n) {
      uint32_t key[4];
      load_matrices(
          key, keys + tile_offset<HD>(n * 16 + (lane & 7) + ((lane >> 4) << 3), 2 * k + ((lane >> 3) & 1)));
      mma_16x8x16(score[2 * n], query, key[0], key[1]);
      mma_16x8x16(score[2 * n + 1], query, key[2], key[3]);
    }
  }
}

// Multiplies the weights with dimensions 32 * d .. + 31 of a chunk's values. A lane gets dimensions 8n + 2t +
// {0, 1} for its two rows.
template <int HD>
__device__ __forceinline__ void multiply_values(const ChunkWeights& weight, uint32_t values, int d,
                                                float (&part)[4][4]) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int k = 0; k < kChunkTokens / 16; ++k) {
    const uint32_t w[4] = {weight[2 * k][0], weight[2 * k][1], weight[2 * k + 1][0], weight[2 * k + 1][1]};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      uint32_t value[4];
      load_matrices_transposed(value,
                               values + tile_offset<HD>(k * 16 + (lane & 15), d * 4 + 2 * n + (lane >> 4)));
      mma_16x8x16(part[2 * n], w, value[0], value[1]);
      mma_16x8x16(part[2 * n + 1], w, value[2], value[3]);
    }
  }
}

// State of a lane's two rows during online softmax.
struct RowState {
  int position[2];
  float maximum[2] = {-INFINITY, -INFINITY};
  float total[2] = {};

  // Resets the state before a chunk or span that is merged separately.
  __device__ __forceinline__ void forget() {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      maximum[h] = -INFINITY;
      total[h] = 0.0f;
    }
  }
};

// Places for the partial results of a lane's two rows; nullptr for a row that does not exist.
struct RowPlaces {
  float* row[2] = {};
  float2* total[2] = {};
};
// Returns the places for a warp with `live` rows.
__device__ __forceinline__ RowPlaces places_of_chunk(const PartialRows& parts, int chunk, int live) {
  RowPlaces places;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = static_cast<int>((threadIdx.x & 31) >> 2) + 8 * h;
    if (r >= live) continue;
    places.row[h] = parts.row(chunk, r);
    places.total[h] = parts.total(chunk, r);
  }
  return places;
}

// Stores the maxima and sums.
__device__ __forceinline__ void store_totals(const RowPlaces& places, const RowState& state) {
#pragma unroll
  for (int h = 0; h < 2; ++h)
    if ((threadIdx.x & 3) == 0 && places.total[h] != nullptr)
      __stcg(places.total[h], make_float2(state.maximum[h], state.total[h]));
}

// Stores a lane's pairs of kCount * 8 columns from `column` on.
template <int kCount>
__device__ __forceinline__ void store_columns(const RowPlaces& places, int column,
                                              const float (&values)[kCount][4]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (places.row[h] == nullptr) continue;
    float* const row = places.row[h] + column + 2 * (threadIdx.x & 3);
#pragma unroll
    for (int n = 0; n < kCount; ++n)
      __stcg(reinterpret_cast<float2*>(row + n * 8), make_float2(values[n][2 * h], values[n][2 * h + 1]));
  }
}

// Factors of the earlier values and of the chunk's values in a merge.
struct MergeFactors {
  float before[2];
  float chunk[2];
};

// Converts the scores of a chunk to weights and updates the state. `all_seen`: every row of the warp attends
// to all keys of the chunk.
__device__ __forceinline__ MergeFactors make_chunk_weights(const ScoreRule& rule, int chunk, bool all_seen,
                                                           ChunkScores& score, RowState& state,
                                                           ChunkWeights& weight) {
  const int t = threadIdx.x & 3;
  if (rule.softcap > 0.0f) {
#pragma unroll
    for (int n = 0; n < kChunkTokens / 8; ++n) {
#pragma unroll
      for (int x = 0; x < 4; ++x) rule.cap(score[n][x]);
    }
  } else {
#pragma unroll
    for (int n = 0; n < kChunkTokens / 8; ++n) {
#pragma unroll
      for (int x = 0; x < 4; ++x) rule.take(score[n][x]);
    }
  }
  if (!all_seen) {
    // Bounds for keys 8n + (x & 1), counted from the lane's first key.
    const int lane_first = chunk * kChunkTokens + 2 * t;
    const int newest[2] = {state.position[0] - lane_first, state.position[1] - lane_first};
    const int oldest[2] = {rule.first_key(state.position[0]) - lane_first,
                           rule.first_key(state.position[1]) - lane_first};
#pragma unroll
    for (int n = 0; n < kChunkTokens / 8; ++n) {
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        const int key = n * 8 + (x & 1);
        if (key > newest[x >> 1] || key < oldest[x >> 1]) score[n][x] = -INFINITY;
      }
    }
  }
  MergeFactors factors;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float largest = -INFINITY;
#pragma unroll
    for (int n = 0; n < kChunkTokens / 8; ++n)
      largest = fmaxf(largest, fmaxf(score[n][2 * h], score[n][2 * h + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2));
    const float base = largest == -INFINITY ? 0.0f : largest;  // all keys masked: weights of 0
#pragma unroll
    for (int n = 0; n < kChunkTokens / 8; ++n)
      weight[n][h] = bits_of(
          __floats2half2_rn(exp2_fast(score[n][2 * h] - base), exp2_fast(score[n][2 * h + 1] - base)));
    merge_factors(state.maximum[h], largest, factors.before[h], factors.chunk[h]);
  }
  float sum[4] = {};
#pragma unroll
  for (int k = 0; k < kChunkTokens / 16; ++k) {
    const uint32_t w[4] = {weight[2 * k][0], weight[2 * k][1], weight[2 * k + 1][0], weight[2 * k + 1][1]};
    mma_16x8x16(sum, w, kOnes, kOnes);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h)
    state.total[h] = merged(state.total[h], factors.before[h], sum[2 * h], factors.chunk[h]);
  return factors;
}

// Merged earlier spans of a lane's two rows. They are accessed only once in 16 chunks, so they belong in
// local memory: an index unknown at compile time keeps them out of registers.
template <int HD>
class SpansBefore {
 public:
  using Values = float[HD / 8][4];

  // Returns the number of spans before the span of `chunk`, in a block that begins with `first_chunk`.
  __device__ __forceinline__ static int before(int chunk, int first_chunk) {
    return chunk / kSpanChunks - first_chunk / kSpanChunks;
  }
  // Called after a span that is not the last, with `count` spans before it. Merges it and resets values and
  // state.
  __device__ __forceinline__ void keep(int count, Values& values, RowState& state) {
    add_to(count, values, state);
    Merged& now = merged_[(count + 1) % 2];
#pragma unroll
    for (int n = 0; n < HD / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        now.values[n][i] = values[n][i];
        values[n][i] = 0.0f;
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) now.totals[h] = make_float2(state.maximum[h], state.total[h]);
    state.forget();
  }
  // Called after a span with `count` spans before it. Merges the earlier spans into values and state.
  __device__ __forceinline__ void add_to(int count, Values& values, RowState& state) const {
    if (count == 0) return;
    const Merged& before = merged_[count % 2];
    float of_before[2], of_span[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = before.totals[h].x;
      merge_factors(largest, state.maximum[h], of_before[h], of_span[h]);
      state.maximum[h] = largest;
      state.total[h] = merged(before.totals[h].y, of_before[h], state.total[h], of_span[h]);
    }
#pragma unroll
    for (int n = 0; n < HD / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        values[n][i] = merged(before.values[n][i], of_before[i >> 1], values[n][i], of_span[i >> 1]);
    }
  }

 private:
  struct Merged {
    float values[HD / 8][4];
    float2 totals[2];  // maximum and sum
  };
  Merged merged_[2];  // after an even and after an odd number of spans
};

// Stores rows [rows][HD] of f32 from shared memory to the output, by the first kThreads threads of a block.
template <int HD, int kThreads>
__device__ __forceinline__ void store_rows(const RowsArguments& a, const RowBlock& block, float* values) {
  const AttentionParams& p = a.p;
  const int dim = p.heads.head_dim;
  const bool turn = is_quantized(p.kv_shape.value_format);
  if (turn) {
    for (int row = threadIdx.x / 32; row < block.rows; row += kThreads / 32)
      hadamard_warp(values + row * HD, HD, threadIdx.x & 31);
    named_barrier(1, kThreads);
  }
  const float back = turn ? 0.03125f : 1.0f;
  const int lane = threadIdx.x & 31;
  const size_t stride = static_cast<size_t>(p.heads.num_heads) * dim;
#pragma unroll 2
  for (int row = threadIdx.x / 32; row < block.rows; row += kThreads / 32) {
    const int first_column = block.queries.head(block.first_row + row) * dim;
    __half* to = static_cast<__half*>(p.output) + block.queries.token(block.first_row + row) * stride;
#pragma unroll
    for (int i = 0; i < HD / 32; ++i) {
      const int d = lane + 32 * i;
      if (d >= dim) break;
      const int column = first_column + d;
      to[a.place != nullptr ? a.place[column] : column] = __float2half_rn(values[row * HD + d] * back);
    }
  }
}

constexpr int kMergeThreads = 32 * kMergeWarps;
template <int HD>
constexpr int kMergeRows = kMergeThreads * 4 / HD;  // rows per block: a thread has four columns
template <int HD>
constexpr int kMergeSlots = merge_slots(48 << 10, HD);  // fits the shared memory that a kernel has by default

// Second kernel of split-KV: merges all chunks of a few of the rows.
template <int HD, int kRows, bool kLongFirst>
__global__ void __launch_bounds__(kMergeThreads) merge_rows_kernel(const __grid_constant__ RowsArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  wait_for_predecessor();
  const int tile = blockIdx.z, kv_head = blockIdx.y;
  RowBlock block;
  if (!find_rows<kRows>(a, tile, kv_head, kLongFirst, block)) return;
  const int first = blockIdx.x * kMergeRows<HD>, rows = min(kMergeRows<HD>, block.rows - first);
  if (rows <= 0) return;
  const PartialRows parts = parts_of_warp(a, tile, kv_head, first / kTileRows, HD, first % kTileRows);
  const auto chunks =
      PartsInOrder::chunks(block.seen_chunk, block.seen_chunk, block.last_chunk - block.seen_chunk + 1);
  float* merged_rows = merge_parts<HD, kMergeSlots<HD>>(parts, chunks, rows, shared);
  store_rows<HD, kMergeThreads>(a.p, a.place, block.queries, block.first_row + first, rows, merged_rows);
}

// Kernels of one head size with blocks of kRows rows: `alone` computes all chunks of its rows, `sharing`
// splits them over blocks, followed by the merge. kLongFirst: blocks are ordered by head, starting with the
// last rows of a sequence; otherwise by rows.
template <int HD, int kRows, bool kLongFirst>
struct RowsKernel {
  void (*alone)(RowsArguments);
  void (*sharing)(RowsArguments);
  int threads;
  uint32_t shared_bytes;

  cudaError_t launch(const AttentionParams& p, const int32_t* place, bool all, const SplitResources& room,
                     Launch l) const {
    const RowsArguments a = rows_arguments<kRows>(p, place, all, room, shared_bytes, HD);
    const auto heads = static_cast<unsigned>(p.heads.num_kv_heads), tiles = most_row_tiles<kRows>(p, all);
    const auto shares = static_cast<unsigned>(a.splits);
    const dim3 grid = kLongFirst ? dim3(heads, tiles, shares) : dim3(tiles, heads, shares);
    const cudaError_t e =
        launch_kernel(shares > 1 ? sharing : alone, grid, dim3(static_cast<unsigned>(threads)), shared_bytes,
                      l.stream, l.dependent, a);
    if (e != cudaSuccess || shares == 1) return e;
    const auto blocks = static_cast<unsigned>(a.warp_tiles * kTileRows / kMergeRows<HD>);
    return launch_kernel(merge_rows_kernel<HD, kRows, kLongFirst>, dim3(blocks, heads, tiles),
                         dim3(kMergeThreads), merge_shared_bytes(HD, kMergeSlots<HD>), l.stream, l.dependent,
                         a);
  }
  cudaError_t setup() const {
    for (const auto kernel : {alone, sharing})
      if (const cudaError_t e = allow_shared(kernel, shared_bytes); e != cudaSuccess) return e;
    return load_kernels(merge_rows_kernel<HD, kRows, kLongFirst>);
  }
};

}  // namespace quire::kernels
