// Attention for many query rows per sequence: one block per (64 rows of a sequence, kv head), chunks in
// order.
//
// Each warp owns 16 rows against all keys of a chunk; the scores of a chunk (16 x 128) stay in registers,
// become the weights there, and the chunk's output is merged 32 dimensions at a time, so that the order of
// all sums is that of attention_decode.cu. The next chunk's keys are requested once the scores are done, its
// values once the values are.
//
// Operations: 4 * rows * keys * head_dim for the visible part plus up to one chunk per row.
#include <algorithm>

#include "kernels/cuda/attention.cuh"

namespace quire::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 64;

struct PrefillArguments {
  AttentionParams p;
  const int32_t* place;
  int32_t all;
};

template <int HD>
constexpr size_t prefill_shared_bytes() {
  return static_cast<size_t>(2 * kChunkTokens + kRows) * HD * 2;
}

template <int HD>
__global__ void __launch_bounds__(kThreads)
    attention_prefill_kernel(const __grid_constant__ PrefillArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  wait_for_predecessor();
  const AttentionParams& p = a.p;
  const int group = p.heads.num_heads / p.heads.num_kv_heads;
  const int decode_rows = max(kTileRows, (group + kTileRows - 1) / kTileRows * kTileRows);
  // Which sequence this tile belongs to.
  int sequence = 0, tile = blockIdx.x, begin = 0, tokens = 0;
  for (;; ++sequence) {
    if (sequence == p.batch.num_sequences) return;
    begin = p.batch.sequence_starts[sequence];
    tokens = p.batch.sequence_starts[sequence + 1] - begin;
    if (!a.all && tokens * group <= decode_rows) continue;
    const int tiles = (tokens * group + kRows - 1) / kRows;
    if (tile < tiles) break;
    tile -= tiles;
  }
  const int kv_head = blockIdx.y;
  const int dim = p.heads.head_dim;
  const QueryRows q{static_cast<const __half*>(p.qkv),
                    begin,
                    tokens * group,
                    group,
                    kv_head,
                    dim,
                    (p.heads.num_heads + 2 * p.heads.num_kv_heads) * dim};
  const int first_row = tile * kRows;
  const int rows = min(kRows, q.num_rows - first_row);
  const ScoreRule rule{p.scale, p.softcap, p.sliding_window};
  const int first_chunk = rule.first_chunk(p.batch.positions[q.token(first_row)]);
  const int last_chunk = p.batch.positions[q.token(first_row + rows - 1)] / kChunkTokens;

  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int g = lane >> 2, t = lane & 3;
  constexpr uint32_t kTileBytes = kChunkTokens * HD * 2;
  uint8_t* query_tile = shared + 2 * kTileBytes;
  const uint32_t keys = shared_address(shared), values = keys + kTileBytes;
  const uint32_t queries = values + kTileBytes + warp * (kTileRows * HD * 2);
  const int32_t* pages = p.batch.page_table + static_cast<size_t>(sequence) * p.batch.page_table_stride;
  const int length = p.batch.kv_lengths[sequence];
  const PageReader key_reader{static_cast<const uint8_t*>(p.kv.keys),
                              static_cast<const __half*>(p.kv.key_scales),
                              pages,
                              p.kv_shape.key_format,
                              p.kv_shape.page_tokens,
                              p.heads.num_kv_heads,
                              kv_head,
                              dim,
                              length};
  const PageReader value_reader{static_cast<const uint8_t*>(p.kv.values),
                                static_cast<const __half*>(p.kv.value_scales),
                                pages,
                                p.kv_shape.value_format,
                                p.kv_shape.page_tokens,
                                p.heads.num_kv_heads,
                                kv_head,
                                dim,
                                length};
  load_queries<HD, kThreads, kRows>(q, first_row, p.kv_shape.key_format, query_tile,
                                    reinterpret_cast<float*>(shared));
  __syncthreads();
  load_chunk<HD, kThreads, true>(key_reader, first_chunk, keys);
  load_chunk<HD, kThreads, false>(value_reader, first_chunk, values);

  int position[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = warp * kTileRows + g + 8 * h;
    position[h] = row < rows ? p.batch.positions[q.token(first_row + row)] : -1;
  }
  float out[HD / 8][4] = {};
  float maximum[2] = {-INFINITY, -INFINITY}, total[2] = {};
  for (int chunk = first_chunk; chunk <= last_chunk; ++chunk) {
    wait_for_copies<1>();
    __syncthreads();
    float score[kChunkTokens / 8][4] = {};
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
    __syncthreads();
    if (chunk < last_chunk) {
      load_chunk<HD, kThreads, true>(key_reader, chunk + 1, keys);
    } else {
      commit_copies();
    }
    float old_factor[2], new_factor[2];
    uint32_t weight[kChunkTokens / 8][2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = -INFINITY;
#pragma unroll
      for (int n = 0; n < kChunkTokens / 8; ++n) {
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          float& s = score[n][2 * h + x];
          s = rule(s, chunk * kChunkTokens + n * 8 + 2 * t + x, position[h]);
          largest = fmaxf(largest, s);
        }
      }
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2));
#pragma unroll
      for (int n = 0; n < kChunkTokens / 8; ++n)
        weight[n][h] = bits_of(
            __floats2half2_rn(weight_of(score[n][2 * h], largest), weight_of(score[n][2 * h + 1], largest)));
      merge_factors(maximum[h], largest, old_factor[h], new_factor[h]);
    }
    wait_for_copies<1>();
    __syncthreads();
    float sum[4] = {};
#pragma unroll
    for (int k = 0; k < kChunkTokens / 16; ++k) {
      const uint32_t w[4] = {weight[2 * k][0], weight[2 * k][1], weight[2 * k + 1][0], weight[2 * k + 1][1]};
      mma_16x8x16(sum, w, kOnes, kOnes);
    }
    total[0] = merged(total[0], old_factor[0], sum[0], new_factor[0]);
    total[1] = merged(total[1], old_factor[1], sum[2], new_factor[1]);
#pragma unroll
    for (int d = 0; d < HD / 32; ++d) {
      float part[4][4] = {};
#pragma unroll
      for (int k = 0; k < kChunkTokens / 16; ++k) {
        const uint32_t w[4] = {weight[2 * k][0], weight[2 * k][1], weight[2 * k + 1][0],
                               weight[2 * k + 1][1]};
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          uint32_t value[4];
          load_matrices_transposed(
              value, values + tile_offset<HD>(k * 16 + (lane & 15), d * 4 + 2 * n + (lane >> 4)));
          mma_16x8x16(part[2 * n], w, value[0], value[1]);
          mma_16x8x16(part[2 * n + 1], w, value[2], value[3]);
        }
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          out[4 * d + n][i] = merged(out[4 * d + n][i], old_factor[i >> 1], part[n][i], new_factor[i >> 1]);
      }
    }
    __syncthreads();
    if (chunk < last_chunk) {
      load_chunk<HD, kThreads, false>(value_reader, chunk + 1, values);
    } else {
      commit_copies();
    }
  }
  wait_for_copies<0>();
  __syncthreads();

  float* row_values = reinterpret_cast<float*>(shared);  // [64][HD], where keys and values were
#pragma unroll
  for (int n = 0; n < HD / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = i >> 1, row = warp * kTileRows + g + 8 * h;
      row_values[row * HD + n * 8 + 2 * t + (i & 1)] = __fmul_rn(out[n][i], 1.0f / total[h]);
    }
  }
  const bool turn = is_quantized(p.kv_shape.value_format);
  __syncthreads();
  if (turn) {
    for (int row = warp; row < rows; row += kThreads / 32) hadamard_warp(row_values + row * HD, HD, lane);
    __syncthreads();
  }
  const float back = turn ? 0.03125f : 1.0f;
  const size_t stride = static_cast<size_t>(p.heads.num_heads) * dim;
  auto* output = static_cast<__half*>(p.output);
  for (int i = threadIdx.x; i < rows * dim; i += kThreads) {
    const int row = i / dim, d = i % dim;
    const int column = q.head(first_row + row) * dim + d;
    output[q.token(first_row + row) * stride + (a.place != nullptr ? a.place[column] : column)] =
        __float2half_rn(row_values[row * HD + d] * back);
  }
}

template <int HD>
cudaError_t launch_prefill(const PrefillArguments& a, dim3 grid, Launch l) {
  return launch_kernel(attention_prefill_kernel<HD>, grid, dim3(kThreads), prefill_shared_bytes<HD>(),
                       l.stream, l.dependent, a);
}

}  // namespace

cudaError_t launch_attention_prefill(const AttentionParams& p, const int32_t* place, bool all, Launch l) {
  const int group = p.heads.num_heads / p.heads.num_kv_heads;
  const int64_t rows = int64_t{p.batch.num_tokens} * group;
  const dim3 grid(static_cast<unsigned>(rows / kRows + p.batch.num_sequences),
                  static_cast<unsigned>(p.heads.num_kv_heads));
  const PrefillArguments a{p, place, all ? 1 : 0};
  if (p.heads.head_dim <= 64) return launch_prefill<64>(a, grid, l);
  if (p.heads.head_dim <= 128) return launch_prefill<128>(a, grid, l);
  return launch_prefill<256>(a, grid, l);
}

cudaError_t setup_attention_prefill() {
  auto allow = [](auto kernel, size_t bytes) {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  };
  if (const cudaError_t e = allow(attention_prefill_kernel<64>, prefill_shared_bytes<64>()); e != cudaSuccess)
    return e;
  if (const cudaError_t e = allow(attention_prefill_kernel<128>, prefill_shared_bytes<128>());
      e != cudaSuccess)
    return e;
  return allow(attention_prefill_kernel<256>, prefill_shared_bytes<256>());
}

}  // namespace quire::kernels
