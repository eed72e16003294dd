// Prefill attention for many query rows per sequence: one block per (64 rows of a sequence, kv head), chunks
// in order (online softmax).
//
// Each warp computes 16 rows against all keys of a chunk. The scores of a chunk (16 x 128) stay in registers
// and become the weights there. The chunk's output is merged 32 dimensions at a time, so that all sums have
// the order of attention_decode.cu. The copy of the next chunk's keys (cp.async) starts after the scores,
// that of its values after the product with the values.
//
// Operations: 4 * rows * keys * head_dim for the visible part plus up to one chunk per row.
#include "kernels/cuda/attention/attention_rows.cuh"

namespace quire::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = kPrefillRows;

// kHeld: see held_chunks.
template <int HD, int kHeld, bool kShares>
__global__ void __launch_bounds__(kThreads)
    attention_prefill_kernel(const __grid_constant__ RowsArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  wait_for_predecessor();
  const AttentionParams& p = a.p;
  const int kv_head = blockIdx.y;
  RowBlock block;
  if (!find_rows<kRows>(a, blockIdx.x, kv_head, false, block)) return;
  if (kShares && !select_share(a, blockIdx.z, block)) return;
  const QueryRows& q = block.queries;
  const int first_row = block.first_row, rows = block.rows;
  const int first_chunk = block.first_chunk, last_chunk = block.last_chunk;
  const ScoreRule rule{p.scale, p.softcap, p.sliding_window};

  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int g = lane >> 2, t = lane & 3;
  constexpr uint32_t kTileBytes = kChunkTokens * HD * 2;
  uint8_t* query_tile = shared + kHeld * kTileBytes;
  const uint32_t keys = shared_address(shared), values = keys + (kHeld - 1) * kTileBytes;
  const uint32_t queries = values + kTileBytes + warp * (kTileRows * HD * 2);
  const PageReader key_reader = page_reader<true>(p, block, kv_head);
  const PageReader value_reader = page_reader<false>(p, block, kv_head);
  load_queries<HD, kThreads, kRows>(q, first_row, p.kv_shape.key_format, query_tile,
                                    reinterpret_cast<float*>(shared));
  __syncthreads();
  load_chunk<HD, kThreads, true>(key_reader, first_chunk, keys);
  if constexpr (kHeld == 2) load_chunk<HD, kThreads, false>(value_reader, first_chunk, values);

  RowState state;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = warp * kTileRows + g + 8 * h;
    state.position[h] = row < rows ? p.batch.positions[q.token(first_row + row)] : -1;
  }
  const PartialRows parts = parts_of_warp(a, blockIdx.x, kv_head, warp, HD);
  const int live = rows - warp * kTileRows;
  float out[HD / 8][4] = {};
  SpansBefore<HD> spans;
  for (int chunk = first_chunk; chunk <= last_chunk; ++chunk) {
    wait_for_copies<kHeld - 1>();
    __syncthreads();
    ChunkScores score = {};
    multiply_keys<HD>(queries, keys, score);
    __syncthreads();
    if constexpr (kHeld == 1) {
      load_chunk<HD, kThreads, false>(value_reader, chunk, values);
    } else if (chunk < last_chunk) {
      load_chunk<HD, kThreads, true>(key_reader, chunk + 1, keys);
    } else {
      commit_copies();
    }
    ChunkWeights weight;
    if constexpr (kShares) state.forget();
    const MergeFactors factors =
        make_chunk_weights(rule, chunk, rule.shows_all(chunk, block.first_position), score, state, weight);
    if constexpr (kShares) store_totals(places_of_chunk(parts, chunk - block.seen_chunk, live), state);
    wait_for_copies<kHeld - 1>();
    __syncthreads();
#pragma unroll
    for (int d = 0; d < HD / 32; ++d) {
      float part[4][4] = {};
      multiply_values<HD>(weight, values, d, part);
      if constexpr (kShares) {
        store_columns<4>(places_of_chunk(parts, chunk - block.seen_chunk, live), 32 * d, part);
      } else {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            out[4 * d + n][i] =
                merged(out[4 * d + n][i], factors.before[i >> 1], part[n][i], factors.chunk[i >> 1]);
        }
      }
    }
    __syncthreads();
    if (chunk < last_chunk) {
      load_chunk<HD, kThreads, kHeld == 1>(kHeld == 1 ? key_reader : value_reader, chunk + 1, values);
    } else {
      commit_copies();
    }
    if (!kShares && (chunk + 1) % kSpanChunks == 0 && chunk < last_chunk)
      spans.keep(spans.before(chunk, first_chunk), out, state);
  }
  wait_for_copies<0>();
  if constexpr (kShares) return;
  spans.add_to(spans.before(last_chunk, first_chunk), out, state);
  __syncthreads();

  float* row_values = reinterpret_cast<float*>(shared);  // [64][HD], in the memory of keys and values
#pragma unroll
  for (int n = 0; n < HD / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = i >> 1, row = warp * kTileRows + g + 8 * h;
      row_values[row * HD + n * 8 + 2 * t + (i & 1)] = __fmul_rn(out[n][i], 1.0f / state.total[h]);
    }
  }
  __syncthreads();
  store_rows<HD, kThreads>(a, block, row_values);
}

template <int HD, int kHeld>
constexpr RowsKernel<HD, kRows, false> kKernel = {attention_prefill_kernel<HD, kHeld, false>,
                                                  attention_prefill_kernel<HD, kHeld, true>, kThreads,
                                                  chunks_bytes(kHeld, kRows, HD)};

// Calls with each kernel, its head size and the chunks that it holds.
template <typename Call>
void each_kernel(Call call) {
  call(kKernel<64, 2>, 64, 2);
  call(kKernel<128, 2>, 128, 2);
  call(kKernel<128, 1>, 128, 1);
  call(kKernel<256, 2>, 256, 2);
  call(kKernel<256, 1>, 256, 1);
}

}  // namespace

cudaError_t launch_attention_prefill(const AttentionParams& p, const int32_t* place, bool all,
                                     const SplitResources& room, Launch l) {
  const int dim = padded_head_dim(p.heads.head_dim);
  const int held = held_chunks(room.device->shared_per_block, dim);
  cudaError_t error = cudaErrorNotSupported;
  each_kernel([&](const auto& kernel, int of_dim, int of_held) {
    if (of_dim == dim && of_held == held) error = kernel.launch(p, place, all, room, l);
  });
  return error;
}

cudaError_t setup_attention_prefill(int shared_limit) {
  cudaError_t error = cudaSuccess;
  each_kernel([&](const auto& kernel, int dim, int held) {
    if (error == cudaSuccess && held_chunks(static_cast<uint32_t>(shared_limit), dim) == held)
      error = kernel.setup();
  });
  return error;
}

}  // namespace quire::kernels
