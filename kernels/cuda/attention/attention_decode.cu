// Decode attention for few query rows per sequence, with split-KV: one block per (chunk of 128 keys, tile of
// 16 rows, kv head). The tiles of a sequence read its keys once each, all but the first from L2.
//
// Heads of one GQA group, and the tokens of a draft, are rows of one tensor-core tile, so each key is read
// once. The four warps of a block split the chunk's keys for the scores and the head dimension for the
// values. The last block to finish a tile merges its chunks in order.
//
// Bytes: keys and values once; per chunk and row head_dim + 2 floats of partial results, written and read in
// L2 (3 % of the pages' bytes for f16 and 4 rows, 11 % for q4).
#include <algorithm>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_merge.cuh"
#include "kernels/cuda/attention/attention_shared.cuh"
#include "kernels/cuda/device/device.h"

namespace quire::kernels {
namespace {

constexpr int kThreads = 128;

struct DecodeArguments {
  AttentionParams p;
  const int32_t* place;
  MergeArguments merge;
};

template <int HD, int kHeld>
constexpr uint32_t kSharedBytes = chunks_bytes(kHeld, kTileRows, HD);

// kHeld: see held_chunks.
template <int HD, int kHeld>
__global__ void __launch_bounds__(kThreads)
    attention_decode_kernel(const __grid_constant__ DecodeArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ float maxima[4][kTileRows];
  __shared__ float totals[2][kTileRows];  // maximum and sum of a chunk, or of all chunks
  release_successor();
  wait_for_predecessor();

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
  const int first_key = rule.first_key(first_position), length = p.batch.kv_lengths[sequence];
  const PageReader key_reader = page_reader<true>(p, sequence, kv_head, first_key, length);
  const PageReader value_reader = page_reader<false>(p, sequence, kv_head, first_key, length);
  const bool turn = is_quantized(p.kv_shape.key_format);
  if (turn) {
    load_queries<HD, kThreads, kTileRows>(q, first_row, p.kv_shape.key_format, query_tile,
                                          reinterpret_cast<float*>(shared));
    __syncthreads();
  }
  load_chunk<HD, kThreads, true>(key_reader, chunk, keys);
  if constexpr (kHeld == 2) load_chunk<HD, kThreads, false>(value_reader, chunk, values);
  if (!turn) load_queries<HD, kThreads, kTileRows>(q, first_row, KvFormat::f16, query_tile, nullptr);
  wait_for_copies<kHeld - 1>();
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

// Calls with each kernel, its head size, the chunks that it holds, and its shared memory.
template <typename Call>
void each_kernel(Call call) {
  call(attention_decode_kernel<64, 2>, 64, 2, kSharedBytes<64, 2>);
  call(attention_decode_kernel<128, 2>, 128, 2, kSharedBytes<128, 2>);
  call(attention_decode_kernel<128, 1>, 128, 1, kSharedBytes<128, 1>);
  call(attention_decode_kernel<256, 2>, 256, 2, kSharedBytes<256, 2>);
  call(attention_decode_kernel<256, 1>, 256, 1, kSharedBytes<256, 1>);
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

cudaError_t launch_attention_decode(const AttentionParams& p, const int32_t* place,
                                    const SplitResources& room, const SharedKeys* shared, Launch l) {
  const DecodeArguments a{
      p, place,
      merge_arguments(room.max_chunks, tile_rows_of(p), *room.scratch, shared, p.kv_shape.page_tokens)};
  if (const cudaError_t e = launch_attention_shared(p, shared, a.merge, l); e != cudaSuccess) return e;
  const dim3 grid(static_cast<unsigned>(room.max_chunks),
                  static_cast<unsigned>(p.batch.num_sequences * row_tiles_of(p)),
                  static_cast<unsigned>(p.heads.num_kv_heads));
  const int dim = padded_head_dim(p.heads.head_dim);
  const int held = held_chunks(room.device->shared_per_block, dim);
  cudaError_t error = cudaErrorNotSupported;
  each_kernel([&](auto kernel, int of_dim, int of_held, uint32_t bytes) {
    if (of_dim == dim && of_held == held)
      error = launch_kernel(kernel, grid, dim3(kThreads), bytes, l.stream, l.dependent, a);
  });
  return error;
}

cudaError_t setup_attention_decode(int shared_limit) {
  cudaError_t error = cudaSuccess;
  each_kernel([&](auto kernel, int dim, int held, uint32_t bytes) {
    if (error == cudaSuccess && held_chunks(static_cast<uint32_t>(shared_limit), dim) == held)
      error = allow_shared(kernel, bytes);
  });
  return error;
}

}  // namespace quire::kernels
