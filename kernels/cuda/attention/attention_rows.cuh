// What the kernels for many query rows of a sequence share: which rows and chunks a block has, a chunk's
// weights, and the way of the results.
//
// Where there are fewer blocks than the card takes, several of them share the chunks of the same rows. What a
// chunk gives goes to memory then, 16 rows of a warp as a tile of their own, and a kernel after this one
// merges the chunks in order: a short piece of a prompt with many keys before it takes as long as a share of
// the chunks.
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
  int32_t all;             // also the sequences that fit a tile of launch_attention_decode
  int32_t splits = 1;      // blocks that share the chunks of the same rows
  int32_t warp_tiles = 0;  // tiles of 16 rows that a block leaves at most, where it is one of several
  MergeArguments merge = {};
};

// Tiles of kRows rows that the sequences of a batch can have at most, each a last one that is not full. Those
// that fit a tile of launch_attention_decode count only where `all`: each of the others has several tokens
// more than one, and there are only so many tokens.
template <int kRows>
unsigned most_row_tiles(const AttentionParams& p, bool all) {
  const int64_t group = p.heads.num_heads / p.heads.num_kv_heads, tokens = p.batch.num_tokens;
  const int64_t decode_rows = (group + kTileRows - 1) / kTileRows * kTileRows;
  const int64_t sequences = p.batch.num_sequences, spare = decode_rows / group;
  const int64_t partial = all ? sequences : std::min(sequences, (tokens - sequences) / spare);
  return static_cast<unsigned>(std::max<int64_t>(1, (tokens * group + partial * (kRows - 1)) / kRows));
}

// Fewer chunks than these are not worth the way through memory.
constexpr int kFewestShared = 4;

// The arguments for blocks of kRows rows that ask for so much shared memory: their chunks are shared out
// where the card takes more blocks than that at a time, and there is room for what the chunks give.
template <int kRows>
RowsArguments rows_arguments(const AttentionParams& p, const int32_t* place, bool all,
                             const AttentionRoom& room, uint32_t shared_bytes, int dim) {
  RowsArguments a{p, place, all ? 1 : 0};
  const int most_blocks = blocks_at_once(*room.device, shared_bytes, INT_MAX);
  const int group = p.heads.num_heads / p.heads.num_kv_heads;
  const auto blocks =
      static_cast<int64_t>(most_row_tiles<kRows>(p, all)) * static_cast<int64_t>(p.heads.num_kv_heads);
  a.splits = static_cast<int32_t>(std::min<int64_t>(most_blocks / blocks, room.max_chunks / kFewestShared));
  a.warp_tiles = (std::min(kRows, p.batch.max_query_tokens * group) + kTileRows - 1) / kTileRows;
  a.merge = merge_arguments(room.max_chunks, kTileRows, *room.scratch, nullptr, kChunkTokens);
  const int64_t floats = blocks * a.warp_tiles * room.max_chunks * partial_floats(kTileRows, dim);
  if (a.splits < 2 || floats > static_cast<int64_t>(room.scratch->partial_floats)) a.splits = 1;
  return a;
}

// The rows of a block: kRows of one sequence and kv head.
struct RowBlock {
  int sequence;
  QueryRows queries;
  int first_row;
  int rows;
  int seen_chunk;   // the first that any of them sees
  int first_chunk;  // of those that the block takes
  int last_chunk;
  int first_position;
};

// False where there are no rows for the block. Every warp looks through 32 sequences at a time: one after the
// other they would take longer than a chunk, and steps have hundreds of them.
template <int kRows>
__device__ __forceinline__ bool find_rows(const RowsArguments& a, int tile, int kv_head, bool last_first,
                                          RowBlock& block) {
  const AttentionParams& p = a.p;
  const int group = p.heads.num_heads / p.heads.num_kv_heads, dim = p.heads.head_dim;
  const int decode_rows = max(kTileRows, (group + kTileRows - 1) / kTileRows * kTileRows);
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
    int end = tiles;  // of this lane's sequence and those before it
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

// Leaves the block its share of the chunks; false where there is none.
__device__ __forceinline__ bool take_share(const RowsArguments& a, int share, RowBlock& block) {
  const int own = (block.last_chunk - block.seen_chunk + a.splits) / a.splits;
  block.first_chunk = block.seen_chunk + share * own;
  block.last_chunk = min(block.last_chunk, block.first_chunk + own - 1);
  return block.first_chunk <= block.last_chunk;
}

// What the 16 rows of a warp have of each chunk.
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
// Their weights as operands of the next products.
using ChunkWeights = uint32_t[kChunkTokens / 8][2];

// The warp's 16 rows of queries by the keys of a chunk, both in shared memory.
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

// Weights by dimensions 32 * d .. + 31 of a chunk's values: of a lane's two rows 8n + 2t + {0, 1} of them.
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

// `position` of a lane's two rows.
struct RowState {
  int position[2];
  float maximum[2] = {-INFINITY, -INFINITY};
  float total[2] = {};

  // Of a chunk by itself.
  __device__ __forceinline__ void forget() {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      maximum[h] = -INFINITY;
      total[h] = 0.0f;
    }
  }
};

// Where a lane leaves what it has of a chunk by itself, of its two rows; nullptr: a row that is not there.
struct RowPlaces {
  float* row[2] = {};
  float2* total[2] = {};
};
// Of the rows of a warp, which has `live` of them.
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

// The maxima and sums.
__device__ __forceinline__ void leave_totals(const RowPlaces& places, const RowState& state) {
#pragma unroll
  for (int h = 0; h < 2; ++h)
    if ((threadIdx.x & 3) == 0 && places.total[h] != nullptr)
      __stcg(places.total[h], make_float2(state.maximum[h], state.total[h]));
}

// A lane's pairs of kCount * 8 columns from `column` on.
template <int kCount>
__device__ __forceinline__ void leave_columns(const RowPlaces& places, int column,
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

// What the chunk's values and those before it are to be multiplied by.
struct MergeFactors {
  float before[2];
  float chunk[2];
};

// `all_seen`: no row of the warp has a key of this chunk hidden from it.
__device__ __forceinline__ MergeFactors weigh_chunk(const ScoreRule& rule, int chunk, bool all_seen,
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
    // Of keys 8n + (x & 1), counted from the lane's first.
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
    const float base = largest == -INFINITY ? 0.0f : largest;  // all hidden: weights of 0
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

// The spans of chunks before the one that a warp is in, of a lane's two rows. They are asked for once in 16
// chunks, so they lie in the thread's memory: an index that only the run knows keeps them out of registers.
template <int HD>
class SpansBefore {
 public:
  using Values = float[HD / 8][4];

  // How many there are before the span of `chunk`, of a block that begins with `first_chunk`.
  __device__ __forceinline__ static int before(int chunk, int first_chunk) {
    return chunk / kSpanChunks - first_chunk / kSpanChunks;
  }
  // After a span that is not the last, which has `count` before it: what comes next begins anew.
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
  // After a span that has `count` before it: all up to now.
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
  Merged merged_[2];  // of an even and of an odd number of spans
};

// Rows [rows][HD] of f32 in shared memory to where they belong, by the first kThreads threads of a block.
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
constexpr int kMergeRows = kMergeThreads * 4 / HD;  // of a block: a thread has four columns of them
template <int HD>
constexpr int kMergeSlots = merge_slots(48 << 10, HD);  // what a kernel has without asking

// After a kernel whose blocks of kRows rows shared their chunks: a few of those rows, all chunks.
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

// What attends to rows of one head size: two forms of a kernel in blocks of kRows rows, whose chunks are its
// own or shared with others, and the merge after the latter. kLongFirst: blocks go by head and from a
// sequence's last rows on, else by rows.
template <int HD, int kRows, bool kLongFirst>
struct RowsKernel {
  void (*alone)(RowsArguments);
  void (*sharing)(RowsArguments);
  int threads;
  uint32_t shared_bytes;

  cudaError_t launch(const AttentionParams& p, const int32_t* place, bool all, const AttentionRoom& room,
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
