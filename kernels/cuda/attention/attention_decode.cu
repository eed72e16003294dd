// Decode attention for few query rows per sequence, with split-KV: one block per (chunk of 128 keys, tile of
// 16 rows, kv head). The tiles of a sequence read its keys once each, all but the first from L2.
//
// Heads of one GQA group, and the tokens of a draft, are rows of one tensor-core tile, so each key is read
// once. The four warps of a block split the chunk's keys for the scores and the head dimension for the
// values. The last block to finish a tile merges its chunks in order.
//
// With `append`, blocks load the keys and values of earlier tokens while the previous kernel still runs. Then
// they make the queries of their rows, and the keys and values of the step's tokens in their chunk, from the
// results of the projection: norm, rotary embedding, f16. Each tile of rows makes those keys and values for
// itself, and the tile with a token's first row writes its key and value to the cache, so no block waits for
// another.
//
// Bytes: keys and values once; per chunk and row head_dim + 2 floats of partial results, written and read in
// L2 (3 % of the pages' bytes for f16 and 4 rows, 11 % for q4).
#include <algorithm>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_merge.cuh"
#include "kernels/cuda/attention/attention_shared.cuh"
#include "kernels/cuda/attention/lane_head.cuh"
#include "kernels/cuda/device/device.h"

namespace quire::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

struct DecodeArguments {
  AttentionParams p;
  AppendKvParams append;  // used by the kernels that append
  const int32_t* place;
  MergeArguments merge;
};

template <int HD, int kHeld>
constexpr uint32_t kSharedBytes = chunks_bytes(kHeld, kTileRows, HD);

// Heads of the step that a block makes of the projection's results: the queries of its rows, then the keys
// and the values of the tokens whose positions are in its chunk.
struct BlockHeads {
  int first_row, rows;           // queries
  int first_token, first_place;  // of the keys and values: token of the batch, and place in the chunk
  int num_tokens;

  __device__ __forceinline__ BlockHeads(const QueryRows& q, int first_row, int rows, int chunk,
                                        int first_position)
      : first_row(first_row), rows(rows) {
    const int before = max(0, chunk * kChunkTokens - first_position);  // tokens in earlier chunks
    first_token = q.first_token + before;
    first_place = first_position + before - chunk * kChunkTokens;
    num_tokens =
        max(0, min(q.first_token + q.group.quotient(q.num_rows) - first_token, kChunkTokens - first_place));
  }
  __device__ __forceinline__ int count() const { return rows + 2 * num_tokens; }
  // Returns true if a row of the sequence is one of the block's queries.
  __device__ __forceinline__ bool has_row(int row) const {
    return row >= first_row && row < first_row + rows;
  }
};

// Heads kWarps apart of a block's heads, in the registers of one warp.
template <int HD>
class LoadedHeads {
 public:
  static constexpr int kAtOnce = 4;

  // Loads heads `first`, first + kWarps and so on. Called by all lanes of a warp.
  __device__ __forceinline__ void load(const AppendKvParams& p, const QueryRows& q, const BlockHeads& heads,
                                       int first, int lane) {
    const int queries = p.heads.num_heads, keys = p.heads.num_kv_heads;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int n = first + i * kWarps;
      if (n >= heads.count()) break;
      const int of_tokens = n - heads.rows;
      const bool is_query = of_tokens < 0, is_value = of_tokens >= heads.num_tokens;
      const int row = heads.first_row + n;
      const int token =
          is_query ? q.token(row) : heads.first_token + of_tokens - (is_value ? heads.num_tokens : 0);
      const int head = is_query ? q.head(row) : queries + q.kv_head + (is_value ? keys : 0);
      const auto* from = q.qkv + static_cast<size_t>(token) * q.row_stride + head * HD + lane;
#pragma unroll
      for (int k = 0; k < kElements; ++k) found_[i][k] = from[32 * k];
      if (rotates(p) && !is_value) angles_[i].load(p, token, lane);
    }
  }

  // Stores the queries in `queries` [16][HD], and keys and values in the tiles of the chunk, [128][HD] each.
  // Also writes keys and values to the cache if the block has the first row of their token.
  __device__ __forceinline__ void store(const AppendKvParams& p, const QueryRows& q, const BlockHeads& heads,
                                        int first, uint8_t* queries, uint8_t* keys, uint8_t* values,
                                        int lane) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int n = first + i * kWarps;
      if (n >= heads.count()) break;
      const int of_tokens = n - heads.rows;
      const bool is_query = of_tokens < 0, is_value = of_tokens >= heads.num_tokens;
      LaneHead<kElements> own;
#pragma unroll
      for (int k = 0; k < kElements; ++k) own.v[k] = __half2float(found_[i][k]);
      if (p.qk_norm == QkNorm::each_head && !is_value)
        own.normalise(is_query ? p.q_norm : p.k_norm, p.qk_norm_epsilon, lane);
      if (rotates(p) && !is_value) own.rotate(angles_[i]);
      if (is_query) {
        put(own, queries, n, lane);
        continue;
      }
      const int number = of_tokens - (is_value ? heads.num_tokens : 0);
      put(own, is_value ? values : keys, heads.first_place + number, lane);
      const int token = heads.first_token + number;
      if (!heads.has_row((token - q.first_token) * q.group.value)) continue;
      const size_t at = TokenRows(p, token).row(q.kv_head);
      own.store(is_value ? value_row(p, HD, at) : key_row(p, at), KvFormat::f16, nullptr, lane);
    }
  }

 private:
  static constexpr int kElements = HD / 32;

  __device__ __forceinline__ static void put(const LaneHead<kElements>& head, uint8_t* tile, int row,
                                             int lane) {
#pragma unroll
    for (int k = 0; k < kElements; ++k) put_query<HD>(tile, row, KvFormat::f16, lane + 32 * k, head.v[k]);
  }

  __half found_[kAtOnce][kElements];
  LaneAngles<kElements> angles_[kAtOnce];
};

// Makes the heads of a block and stores them in shared memory: queries [16][HD] after the tiles of keys and
// values at the beginning of `shared`, whose copies have been started.
template <int HD>
__device__ __forceinline__ void make_heads(const DecodeArguments& a, const QueryRows& q,
                                           const BlockHeads& heads, uint8_t* shared) {
  constexpr uint32_t kTileBytes = kChunkTokens * HD * 2;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  LoadedHeads<HD> loaded;
  loaded.load(a.append, q, heads, warp, lane);
  // The copies fill the places of the step's tokens with zeros.
  wait_for_copies<0>();
  __syncthreads();
#pragma unroll 1
  for (int first = warp; first < heads.count(); first += kWarps * LoadedHeads<HD>::kAtOnce) {
    if (first != warp) loaded.load(a.append, q, heads, first, lane);
    loaded.store(a.append, q, heads, first, shared + 2 * kTileBytes, shared, shared + kTileBytes, lane);
  }
}

// kHeld: see held_chunks. kAppends: the tokens of the step are not in the cache yet; requires appends_drafts.
template <int HD, int kHeld, bool kAppends>
__global__ void __launch_bounds__(kThreads)
    attention_decode_kernel(const __grid_constant__ DecodeArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ float maxima[4][kTileRows];
  __shared__ float totals[2][kTileRows];  // maximum and sum of a chunk, or of all chunks
  release_successor();
  if (!kAppends) wait_for_predecessor();

  const AttentionParams& p = a.p;
  const int row_tiles = gridDim.y / p.batch.num_sequences;
  const int sequence = blockIdx.y / row_tiles, row_tile = blockIdx.y % row_tiles;
  const int kv_head = blockIdx.z;
  const int group = p.heads.num_heads / p.heads.num_kv_heads;
  const int begin = p.batch.sequence_starts[sequence];
  const int tokens = p.batch.sequence_starts[sequence + 1] - begin;
  const int dim = p.heads.head_dim;
  const QueryRows q{static_cast<const __half*>(p.qkv),
                    begin,
                    tokens * group,
                    Divisor::of(group),
                    kv_head,
                    dim,
                    (p.heads.num_heads + 2 * p.heads.num_kv_heads) * dim};
  const int first_row = row_tile * kTileRows;
  const int rows = min(kTileRows, q.num_rows - first_row);
  if (rows <= 0 || q.num_rows > row_tiles * kTileRows) return;
  const ScoreRule rule{p.scale, p.softcap, p.sliding_window};
  const int first_position = p.batch.positions[q.token(first_row)];
  const int first_chunk = rule.first_chunk(first_position);
  const int last_chunk = p.batch.positions[q.token(first_row + rows - 1)] / kChunkTokens;
  const int num_chunks = last_chunk - first_chunk + 1;
  const int chunk = first_chunk + blockIdx.x;
  const int shared_chunks = a.merge.shared_chunks(sequence);
  if (chunk > last_chunk || static_cast<int>(blockIdx.x) < shared_chunks) return;

  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int g = lane >> 2, t = lane & 3;
  constexpr uint32_t kTileBytes = kChunkTokens * HD * 2;
  uint8_t* query_tile = shared + kHeld * kTileBytes;
  // Weights [16][128] f16 take the place of the keys, or that of the queries if the values take the former.
  uint8_t* weight_tile = kHeld == 2 ? shared : query_tile;
  static_assert(kHeld == 2 || HD >= kChunkTokens);
  const uint32_t keys = shared_address(shared), values = keys + (kHeld - 1) * kTileBytes;
  const uint32_t queries = shared_address(query_tile), weights = shared_address(weight_tile);
  const int start = p.batch.positions[begin];
  const int first_key = rule.first_key(first_position);
  const int length = kAppends ? start : p.batch.kv_lengths[sequence];
  const PageReader key_reader = page_reader<true>(p, sequence, kv_head, first_key, length);
  const PageReader value_reader = page_reader<false>(p, sequence, kv_head, first_key, length);
  const bool turn = !kAppends && is_quantized(p.kv_shape.key_format);
  if (turn) {
    load_queries<HD, kThreads, kTileRows>(q, first_row, p.kv_shape.key_format, query_tile,
                                          reinterpret_cast<float*>(shared));
    __syncthreads();
  }
  if constexpr (kAppends) {
    static_assert(kHeld == 2);
    load_f16_chunk<HD, kThreads>(key_reader, chunk, keys);
    load_f16_chunk<HD, kThreads>(value_reader, chunk, values);
    commit_copies();
    wait_for_predecessor();
    make_heads<HD>(a, q, BlockHeads(q, first_row, rows, chunk, start), shared);
  } else {
    load_chunk<HD, kThreads, true>(key_reader, chunk, keys);
    if constexpr (kHeld == 2) load_chunk<HD, kThreads, false>(value_reader, chunk, values);
    if (!turn) load_queries<HD, kThreads, kTileRows>(q, first_row, KvFormat::f16, query_tile, nullptr);
    wait_for_copies<kHeld - 1>();
  }
  __syncthreads();

  // Scores of 16 rows and the warp's 32 keys.
  float score[4][4] = {};
#pragma unroll
  for (int k = 0; k < HD / 16; ++k) {
    uint32_t query[4];
    load_matrices(query, queries + tile_offset<HD>(lane & 15, 2 * k + (lane >> 4)));
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      uint32_t key[4];
      load_matrices(key, keys + tile_offset<HD>(warp * 32 + n * 16 + (lane & 7) + ((lane >> 4) << 3),
                                                2 * k + ((lane >> 3) & 1)));
      mma_16x8x16(score[2 * n], query, key[0], key[1]);
      mma_16x8x16(score[2 * n + 1], query, key[2], key[3]);
    }
  }
  int position[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = g + 8 * h;
    position[h] = row < rows ? p.batch.positions[q.token(first_row + row)] : -1;
    float largest = -INFINITY;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        float& s = score[n][2 * h + x];
        s = rule(s, chunk * kChunkTokens + warp * 32 + n * 8 + 2 * t + x, position[h]);
        largest = fmaxf(largest, s);
      }
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2));
    if (t == 0) maxima[warp][row] = largest;
  }
  __syncthreads();
  if constexpr (kHeld == 1) load_chunk<HD, kThreads, false>(value_reader, chunk, values);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = g + 8 * h;
    const float largest = fmaxf(fmaxf(maxima[0][row], maxima[1][row]), fmaxf(maxima[2][row], maxima[3][row]));
    if (warp == 0 && t == 0) totals[0][row] = largest;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const __half2 w =
          __floats2half2_rn(weight_of(score[n][2 * h], largest), weight_of(score[n][2 * h + 1], largest));
      *reinterpret_cast<__half2*>(weight_tile + tile_offset<kChunkTokens>(row, warp * 4 + n) + t * 4) = w;
    }
  }
  wait_for_copies<0>();
  __syncthreads();

  // The warp's quarter of the head dimension, over all keys of the chunk.
  constexpr int kTiles = HD / 4 / 8;
  float out[kTiles][4] = {};
  float sum[4] = {};
#pragma unroll
  for (int k = 0; k < kChunkTokens / 16; ++k) {
    uint32_t weight[4];
    load_matrices(weight, weights + tile_offset<kChunkTokens>(lane & 15, 2 * k + (lane >> 4)));
    mma_16x8x16(sum, weight, kOnes, kOnes);
#pragma unroll
    for (int n = 0; n < kTiles / 2; ++n) {
      uint32_t value[4];
      load_matrices_transposed(
          value, values + tile_offset<HD>(k * 16 + (lane & 15), warp * kTiles + 2 * n + (lane >> 4)));
      mma_16x8x16(out[2 * n], weight, value[0], value[1]);
      mma_16x8x16(out[2 * n + 1], weight, value[2], value[3]);
    }
  }
  if (warp == 0 && t == 0) {
    totals[1][g] = sum[0];
    totals[1][g + 8] = sum[2];
  }
  __syncthreads();

  const int tile = blockIdx.y * gridDim.z + kv_head;
  if (num_chunks == 1) {
    float* row_values = reinterpret_cast<float*>(shared);  // [16][HD]
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = g + 8 * (i >> 1);
        row_values[row * HD + warp * (HD / 4) + n * 8 + 2 * t + (i & 1)] =
            __fmul_rn(out[n][i], 1.0f / totals[1][row]);
      }
    }
    store_rows<HD, kThreads>(p, a.place, q, first_row, rows, row_values);
    return;
  }
  const PartialRows partial(a.merge, tile, HD);
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = g + 8 * h;
      if (row < rows)
        __stcg(reinterpret_cast<float2*>(partial.row(blockIdx.x, row) + warp * (HD / 4) + n * 8 + 2 * t),
               make_float2(out[n][2 * h], out[n][2 * h + 1]));
    }
  }
  if (threadIdx.x < rows)
    __stcg(partial.total(blockIdx.x, threadIdx.x),
           make_float2(totals[0][threadIdx.x], totals[1][threadIdx.x]));
  if (!is_last_block(a.merge, tile, num_chunks - shared_chunks)) return;
  float* merged_rows = merge_parts<HD, merge_slots(kSharedBytes<HD, kHeld>, HD)>(
      partial, PartsInOrder::chunks(first_chunk, first_chunk, num_chunks), rows, shared);
  store_rows<HD, kThreads>(p, a.place, q, first_row, rows, merged_rows);
}

int row_tiles_of(const AttentionParams& p) {
  const int group = p.heads.num_heads / p.heads.num_kv_heads;
  return std::max(1, (std::min(p.batch.max_query_tokens * group, few_rows(p)) + kTileRows - 1) / kTileRows);
}

int tile_rows_of(const AttentionParams& p) {
  return std::min(kTileRows, p.batch.max_query_tokens * (p.heads.num_heads / p.heads.num_kv_heads));
}

// Calls with each kernel, its head size, the chunks that it holds, whether it appends, and its shared memory.
template <typename Call>
void each_kernel(Call call) {
  call(attention_decode_kernel<64, 2, false>, 64, 2, false, kSharedBytes<64, 2>);
  call(attention_decode_kernel<64, 2, true>, 64, 2, true, kSharedBytes<64, 2>);
  call(attention_decode_kernel<128, 2, false>, 128, 2, false, kSharedBytes<128, 2>);
  call(attention_decode_kernel<128, 2, true>, 128, 2, true, kSharedBytes<128, 2>);
  call(attention_decode_kernel<128, 1, false>, 128, 1, false, kSharedBytes<128, 1>);
  call(attention_decode_kernel<256, 2, false>, 256, 2, false, kSharedBytes<256, 2>);
  call(attention_decode_kernel<256, 1, false>, 256, 1, false, kSharedBytes<256, 1>);
}

}  // namespace

int few_rows(const AttentionParams& p) {
  const int group = p.heads.num_heads / p.heads.num_kv_heads;
  if (p.batch.max_query_tokens * group <= kMaxDraftRows) return kMaxDraftRows;
  return rows_of_token(group);
}

bool decode_fits(const AttentionParams& p, int max_chunks, const AttentionScratch& scratch) {
  const size_t tiles = static_cast<size_t>(p.batch.num_sequences) * row_tiles_of(p) * p.heads.num_kv_heads;
  return tiles <= static_cast<size_t>(scratch.num_counters) &&
         tiles * static_cast<size_t>(max_chunks *
                                     partial_floats(tile_rows_of(p), padded_head_dim(p.heads.head_dim))) <=
             scratch.partial_floats;
}

bool appends_drafts(const AttentionParams& p, const Device& device) {
  return lanes_fit(p) && p.kv_shape.key_format == KvFormat::f16 && p.kv_shape.value_format == KvFormat::f16 &&
         p.batch.max_query_tokens * (p.heads.num_heads / p.heads.num_kv_heads) <= kMaxDraftRows &&
         held_chunks(device.shared_per_block, p.heads.head_dim) == 2;
}

cudaError_t launch_attention_decode(const AttentionParams& p, const AppendKvParams* append,
                                    const int32_t* place, const SplitResources& room,
                                    const SharedKeys* shared, Launch l) {
  const DecodeArguments a{
      p, append != nullptr ? *append : AppendKvParams{}, place,
      merge_arguments(room.max_chunks, tile_rows_of(p), *room.scratch, shared, p.kv_shape.page_tokens)};
  if (const cudaError_t e = launch_attention_shared(p, shared, a.merge, l); e != cudaSuccess) return e;
  const dim3 grid(static_cast<unsigned>(room.max_chunks),
                  static_cast<unsigned>(p.batch.num_sequences * row_tiles_of(p)),
                  static_cast<unsigned>(p.heads.num_kv_heads));
  const int dim = padded_head_dim(p.heads.head_dim);
  const int held = held_chunks(room.device->shared_per_block, dim);
  cudaError_t error = cudaErrorNotSupported;
  each_kernel([&](auto kernel, int of_dim, int of_held, bool appends, uint32_t bytes) {
    if (of_dim == dim && of_held == held && appends == (append != nullptr))
      error = launch_kernel(kernel, grid, dim3(kThreads), bytes, l.stream, l.dependent, a);
  });
  return error;
}

cudaError_t setup_attention_decode(int shared_limit) {
  cudaError_t error = cudaSuccess;
  each_kernel([&](auto kernel, int dim, int held, bool, uint32_t bytes) {
    if (error == cudaSuccess && held_chunks(static_cast<uint32_t>(shared_limit), dim) == held)
      error = allow_shared(kernel, bytes);
  });
  return error;
}

}  // namespace quire::kernels
