// Attention for many query rows per sequence, on cards with products of a warpgroup (wgmma, compute
// capability 9.0): one block per (128 rows of a sequence, kv head), two warpgroups with 64 rows each, chunks
// in order.
//
// A warpgroup multiplies its queries with all keys of a chunk at once, from shared memory; the scores become
// the weights in its registers and are operands of the products with the values from there. The next chunk
// comes while this one is worked on. The order of all sums is that of attention_prefill.cu, and so are the
// bits.
//
// Operations: 4 * rows * keys * head_dim for the visible part plus up to one chunk per row.
#include "kernels/cuda/attention/attention_rows.cuh"
#include "kernels/cuda/device/warpgroup.cuh"

namespace quire::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = 128;
// Code for a card without these products is none, and takes no block: see setup_attention_warpgroup.
constexpr int kBounds = QUIRE_WARPGROUP_PRODUCTS ? kThreads : 32;

// Tiles of 128 rows (keys, values, queries) in halves of 64 dimensions: rows of 128 bytes, their 16-byte
// pieces swizzled by the row, as the products read them.
constexpr uint32_t kHalfBytes = 128 * 128;
template <int HD>
constexpr uint32_t kTileBytes = HD / 64 * kHalfBytes;
template <int HD>
constexpr uint32_t warpgroup_shared_bytes() {
  return 5 * kTileBytes<HD> + 1024;  // two of keys, two of values, queries; from a multiple of 1,024 on
}

#if QUIRE_WARPGROUP_PRODUCTS

__device__ __forceinline__ uint32_t half_offset(int row, int piece) {
  return (piece >> 3) * kHalfBytes + row * 128 + (((piece & 7) ^ (row & 7)) << 4);
}

// Of 8 rows and the next 8, 1,024 bytes on; of one half and the next.
__device__ __forceinline__ uint64_t descriptor(uint32_t address) {
  return (address >> 4) | uint64_t{kHalfBytes >> 4} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}

// d = weights of 16 keys by 64 dimensions of their values, plus d where `add`.
__device__ __forceinline__ void multiply_values(float (&d)[8][4], const uint32_t (*w)[2], uint64_t values,
                                                bool add) {
  multiply_64x64x16<true>(d, {w[0][0], w[0][1], w[1][0], w[1][1]}, values, add);
}

// Half a row of a chunk's f16 pages. Where pages hold whole chunks, its rows follow each other.
__device__ __forceinline__ void load_f16_half(const PageReader& from, int chunk, int half, uint32_t tile) {
  constexpr int kRowsAtOnce = kThreads / 8;
  const ChunkRows rows(from, chunk);
  const int piece = threadIdx.x % 8, first = threadIdx.x / 8;
  const int unseen = from.first - chunk * kChunkTokens, live = from.length - chunk * kChunkTokens;
#pragma unroll
  for (int i = 0; i < kChunkTokens / kRowsAtOnce; ++i) {
    const int row = first + i * kRowsAtOnce;
    const bool there = row >= unseen && row < live;
    const size_t at = there ? rows.row(from, row) * from.head_dim + half * 64 + piece * 8 : 0;
    copy_async_16(tile + half_offset(row, piece), from.data + at * 2, there ? 16 : 0);
  }
}

// Pages seen by 64 of their dimensions.
__device__ __forceinline__ PageReader half_of(PageReader pages, int half) {
  const int first = half * 64;
  pages.data += pages.format == KvFormat::q4 ? first / 2 : first;
  if (is_quantized(pages.format)) pages.scales += first / 32;
  return pages;
}

template <int HD, bool kKeys>
__device__ __forceinline__ void load_halves(const PageReader& from, int chunk, uint32_t tile) {
#pragma unroll
  for (int half = 0; half < HD / 64; ++half) {
    const uint32_t to = tile + half * kHalfBytes;
    if (from.format == KvFormat::f16) {
      load_f16_half(from, chunk, half, to);
    } else if (from.format == KvFormat::fp8) {
      load_fp8_chunk<64, kThreads>(half_of(from, half), chunk, to);
    } else if (from.format == KvFormat::q8) {
      load_coded_chunk<64, kThreads, KvFormat::q8, kKeys>(half_of(from, half), chunk, to);
    } else {
      load_coded_chunk<64, kThreads, KvFormat::q4, kKeys>(half_of(from, half), chunk, to);
    }
  }
}

template <int HD, bool kShares>
__device__ void attend_rows(const RowsArguments& a, uint8_t* memory) {
  const AttentionParams& p = a.p;
  const int kv_head = blockIdx.x;
  RowBlock block;
  // Long blocks first.
  if (!find_rows<kRows>(a, blockIdx.y, kv_head, true, block)) return;
  if (kShares && !take_share(a, blockIdx.z, block)) return;
  const ScoreRule rule{p.scale, p.softcap, p.sliding_window};
  const uint32_t keys = shared_address(memory), values = keys + 2 * kTileBytes<HD>;
  uint8_t* query_tile = memory + 4 * kTileBytes<HD>;
  const int warpgroup = static_cast<int>(uniform(threadIdx.x >> 7)), warp = threadIdx.x >> 5 & 3;
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const uint64_t queries = descriptor(shared_address(query_tile) + warpgroup * (64 * 128));

  const PageReader key_reader = page_reader<true>(p, block, kv_head);
  const PageReader value_reader = page_reader<false>(p, block, kv_head);
  load_queries<HD, kThreads, kRows, half_offset>(block.queries, block.first_row, p.kv_shape.key_format,
                                                 query_tile, reinterpret_cast<float*>(memory));
  __syncthreads();
  const auto request = [&](int chunk) {
    const uint32_t slot = (chunk & 1) * kTileBytes<HD>;
    load_halves<HD, true>(key_reader, chunk, keys + slot);
    load_halves<HD, false>(value_reader, chunk, values + slot);
    commit_copies();
  };
  request(block.first_chunk);

  const int first_row = warpgroup * 64 + warp * kTileRows + g;
  RowState state;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = first_row + 8 * h;
    state.position[h] = row < block.rows ? p.batch.positions[block.queries.token(block.first_row + row)] : -1;
  }
  const PartialRows parts = parts_of_warp(a, blockIdx.y, kv_head, warpgroup * 4 + warp, HD);
  const int live = block.rows - (first_row - g);
  float out[HD / 64][8][4] = {};
#pragma unroll 1
  for (int chunk = block.first_chunk; chunk <= block.last_chunk; ++chunk) {
    wait_for_copies<0>();
    fence_async_proxy();
    __syncthreads();  // the chunk is there, and the one before is done with
    if (chunk < block.last_chunk) request(chunk + 1);
    const uint32_t slot = (chunk & 1) * kTileBytes<HD>;

    ChunkScores score;
    const uint64_t key = descriptor(keys + slot);
    begin_products();
#pragma unroll
    for (int k = 0; k < HD / 16; ++k) {
      const uint32_t at = (k / 4 * kHalfBytes + k % 4 * 32) >> 4;
      multiply_64x128x16(score, queries + at, key + at, k > 0);
    }
    commit_products();
    wait_for_products<0>();

    ChunkWeights weight;
    if constexpr (kShares) state.forget();
    const MergeFactors factors =
        weigh_chunk(rule, chunk, rule.shows_all(chunk, block.first_position), score, state, weight);
    if constexpr (kShares) leave_totals(places_of_chunk(parts, chunk - block.seen_chunk, live), state);

    float part[HD / 64][8][4];
    begin_products();
#pragma unroll
    for (int half = 0; half < HD / 64; ++half) {
      const uint64_t value = descriptor(values + slot + half * kHalfBytes);
#pragma unroll
      for (int k = 0; k < kChunkTokens / 16; ++k)
        multiply_values(part[half], &weight[2 * k], value + (k * 2048 >> 4), k > 0);
      commit_products();
    }
    const auto merge = [&](int half) {
      if constexpr (kShares) {
        leave_columns<8>(places_of_chunk(parts, chunk - block.seen_chunk, live), half * 64, part[half]);
      } else {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            out[half][n][i] =
                merged(out[half][n][i], factors.before[i >> 1], part[half][n][i], factors.chunk[i >> 1]);
        }
      }
    };
    if constexpr (HD > 64) {
      wait_for_products<1>();
      merge(0);
    }
    wait_for_products<0>();
    merge(HD / 64 - 1);
  }
  if constexpr (kShares) return;
  __syncthreads();

  float* row_values = reinterpret_cast<float*>(memory);  // [128][HD], where keys and values were
#pragma unroll
  for (int half = 0; half < HD / 64; ++half) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int h = i >> 1;
        row_values[(first_row + 8 * h) * HD + half * 64 + n * 8 + 2 * t + (i & 1)] =
            __fmul_rn(out[half][n][i], 1.0f / state.total[h]);
      }
    }
  }
  __syncthreads();
  store_rows<HD, kThreads>(a, block, row_values);
}

#endif

template <int HD, bool kShares>
__global__ void __launch_bounds__(kBounds)
    attention_warpgroup_kernel(const __grid_constant__ RowsArguments a) {
#if QUIRE_WARPGROUP_PRODUCTS
  extern __shared__ uint8_t shared[];
  release_successor();
  wait_for_predecessor();
  attend_rows<HD, kShares>(a, shared + (-shared_address(shared) & 1023U));
#endif
}

template <int HD>
constexpr RowsKernel<HD, kRows, true> kKernel = {attention_warpgroup_kernel<HD, false>,
                                                 attention_warpgroup_kernel<HD, true>, kThreads,
                                                 warpgroup_shared_bytes<HD>()};

}  // namespace

bool warpgroup_fits(const AttentionParams& p) {
  const int group = p.heads.num_heads / p.heads.num_kv_heads;
  return (p.heads.head_dim == 64 || p.heads.head_dim == 128) && p.batch.max_query_tokens * group >= kRows / 2;
}

cudaError_t launch_attention_warpgroup(const AttentionParams& p, const int32_t* place, bool all,
                                       const AttentionRoom& room, Launch l) {
  return p.heads.head_dim == 64 ? kKernel<64>.launch(p, place, all, room, l)
                                : kKernel<128>.launch(p, place, all, room, l);
}

cudaError_t setup_attention_warpgroup(bool* available) {
  cudaFuncAttributes attributes;
  if (const cudaError_t e = cudaFuncGetAttributes(&attributes, attention_warpgroup_kernel<64, false>);
      e != cudaSuccess)
    return e;
  *available = attributes.maxThreadsPerBlock >= kThreads;
  if (!*available) return cudaSuccess;
  const cudaError_t e = kKernel<64>.setup();
  return e != cudaSuccess ? e : kKernel<128>.setup();
}

}  // namespace quire::kernels
