// Prefill attention on cards with warpgroup products (wgmma, compute capability 9.0), with warp
// specialization: one block per (128 rows of a sequence, kv head), two consumer warpgroups with 64 rows each,
// chunks in order, and a third warpgroup of producer warps that load the chunks.
//
// A consumer warpgroup multiplies its queries with all keys of a chunk at once, from shared memory. The
// scores become weights in its registers, which are operands of the product with the values in shared memory.
// The two warpgroups advance independently, so that the tensor cores compute products of one while the other
// computes weights. All sums have the order of attention_prefill.cu, so the results are bit-identical.
//
// Operations: 4 * rows * keys * head_dim for the visible part plus up to one chunk per row.
#include "kernels/cuda/attention/attention_rows.cuh"
#include "kernels/cuda/device/warpgroup.cuh"

namespace quire::kernels {
namespace {

constexpr int kReaders = 256;  // threads of the two consumer warpgroups
constexpr int kThreads = kReaders + 128;
constexpr int kRows = 128;
// For a card without wgmma the kernel is empty and no block is launched: see setup_attention_warpgroup.
constexpr int kBounds = QUIRE_WARPGROUP_PRODUCTS ? kThreads : 32;

// Tiles of 128 rows (keys, values, queries) in halves of 64 dimensions: rows of 128 bytes, with 16-byte
// pieces swizzled by the row, as wgmma reads them.
constexpr uint32_t kHalfBytes = 128 * 128;
template <int HD>
constexpr uint32_t kTileBytes = HD / 64 * kHalfBytes;

// Layout of shared memory, aligned to 1,024 bytes: two tiles of keys, two of values, and the queries. Each of
// the four ring slots has two mbarriers: one signals that the tile is full, the other that it is free.
constexpr uint32_t kSlots = 2;
template <int HD>
constexpr uint32_t kQueriesAt = 2 * kSlots* kTileBytes<HD>;
template <int HD>
constexpr uint32_t kBarriersAt = kQueriesAt<HD> + kTileBytes<HD>;
template <int HD>
constexpr uint32_t warpgroup_shared_bytes() {
  return kBarriersAt<HD> + 2 * kSlots * 16 + 1024;
}

#if QUIRE_WARPGROUP_PRODUCTS

// Registers per thread of a consumer and of a producer: together all registers of a multiprocessor.
constexpr int kConsumerRegisters = 184;
constexpr int kProducerRegisters = 136;

// Named barriers of the block.
constexpr int kConsumerBarrier = 1;
constexpr int kQueriesTransformed = 2;

__device__ __forceinline__ uint32_t half_offset(int row, int piece) {
  return (piece >> 3) * kHalfBytes + row * 128 + (((piece & 7) ^ (row & 7)) << 4);
}

// Builds a wgmma descriptor: the next 8 rows are 1,024 bytes further, the next half kHalfBytes.
__device__ __forceinline__ uint64_t descriptor(uint32_t address) {
  return (address >> 4) | uint64_t{kHalfBytes >> 4} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}

// d = weights of 16 keys by their values, plus d if `add`.
template <int HD>
__device__ __forceinline__ void multiply_values(float (&d)[HD / 8][4], const uint32_t (*w)[2],
                                                uint64_t values, bool add) {
  const uint32_t weights[4] = {w[0][0], w[0][1], w[1][0], w[1][1]};
  if constexpr (HD == 64) {
    multiply_64x64x16<true>(d, weights, values, add);
  } else {
    multiply_64x128x16<true>(d, weights, values, add);
  }
}

// Ring of tiles through which the chunks of keys, or of values, pass.
template <int HD>
class ChunkTiles {
 public:
  __device__ __forceinline__ ChunkTiles(uint32_t memory, bool values)
      : tiles_(memory + (values ? kSlots * kTileBytes<HD> : 0)),
        barriers_(memory + kBarriersAt<HD> + (values ? kSlots * 16 : 0)) {}
  // Initialises the barriers; called by one thread before the block synchronizes.
  __device__ __forceinline__ void create() const {
#pragma unroll
    for (uint32_t i = 0; i < kSlots; ++i) {
      barrier_init(barriers_ + 16 * i, 32);
      barrier_init(barriers_ + 16 * i + 8, kReaders / 32);
    }
  }
  // `n` counts the chunks of the block.
  __device__ __forceinline__ uint32_t tile(uint32_t n) const {
    return tiles_ + n % kSlots * kTileBytes<HD>;
  }
  __device__ __forceinline__ void wait_until_full(uint32_t n) const {
    barrier_wait(full(n), n / kSlots & 1);
  }
  __device__ __forceinline__ void wait_until_free(uint32_t n) const {
    if (n >= kSlots) barrier_wait(full(n) + 8, n / kSlots & 1 ^ 1);
  }
  // Marks the tile as full; called by all lanes of the warp that filled it.
  __device__ __forceinline__ void give(uint32_t n) const {
    commit_copies();
    wait_for_copies<0>();
    fence_async_proxy();
    barrier_arrive(full(n));
  }
  // Marks the tile as free; called by all warps that read it.
  __device__ __forceinline__ void release(uint32_t n) const {
    __syncwarp();
    if ((threadIdx.x & 31) == 0) barrier_arrive(full(n) + 8);
  }

 private:
  __device__ __forceinline__ uint32_t full(uint32_t n) const {
    return barriers_ + 16 * (n % kSlots);
  }

  uint32_t tiles_;
  uint32_t barriers_;
};

// Loads a chunk of f16 pages with one warp. Each lane looks up four rows for the whole warp.
template <int HD>
__device__ __forceinline__ void load_f16_tile(const PageReader& from, int chunk, uint32_t tile, int lane) {
  constexpr int kPieces = HD / 8, kRowsAtOnce = 32 / kPieces;
  constexpr uint32_t kNone = 0xffffffffU;  // larger than any row number, since rows have at least 16 bytes
  uint32_t rows[kChunkTokens / 32];
#pragma unroll
  for (int i = 0; i < kChunkTokens / 32; ++i) {
    const int position = chunk * kChunkTokens + 32 * i + lane;
    rows[i] = from.has(position) ? static_cast<uint32_t>(from.row(position)) : kNone;
  }
  const int piece = lane % kPieces, first = lane / kPieces;
  const uint8_t* source = from.data + piece * 16;
  uint32_t places[8 / kRowsAtOnce];  // offsets within 8 rows
#pragma unroll
  for (int i = 0; i < 8 / kRowsAtOnce; ++i) places[i] = tile + half_offset(i * kRowsAtOnce + first, piece);
#pragma unroll
  for (int i = 0; i < kChunkTokens; i += kRowsAtOnce) {
    const uint32_t row = __shfl_sync(0xffffffffU, rows[i / 32], i % 32 + first);
    const bool there = row != kNone;
    copy_async_16(places[i % 8 / kRowsAtOnce] + i / 8 * 1024,
                  source + static_cast<size_t>(there ? row : 0) * (HD * 2), there ? 16 : 0);
  }
}

// Returns a reader of the pages restricted to 64 dimensions.
__device__ __forceinline__ PageReader half_of(PageReader pages, int half) {
  const int first = half * 64;
  pages.data += pages.format == KvFormat::q4 ? first / 2 : first;
  if (is_quantized(pages.format)) pages.scales += first / 32;
  return pages;
}

template <int HD, bool kKeys>
__device__ __forceinline__ void load_tile(const PageReader& from, int chunk, uint32_t tile, int lane) {
  if (from.format == KvFormat::f16) return load_f16_tile<HD>(from, chunk, tile, lane);
#pragma unroll 1
  for (int half = 0; half < HD / 64; ++half) {
    const uint32_t to = tile + half * kHalfBytes;
    if (from.format == KvFormat::fp8) {
      fill_fp8_chunk<64, 32>(half_of(from, half), chunk, to, lane);
    } else if (from.format == KvFormat::q8) {
      fill_coded_chunk<64, 32, KvFormat::q8, kKeys>(half_of(from, half), chunk, to, lane);
    } else {
      fill_coded_chunk<64, 32, KvFormat::q4, kKeys>(half_of(from, half), chunk, to, lane);
    }
  }
}

// Runs a producer warp: it loads every second tile of keys, or of values.
template <int HD, bool kKeys>
__device__ __forceinline__ void produce_tiles(const RowsArguments& a, const RowBlock& block, uint32_t memory,
                                              int first, int lane) {
  const PageReader from = page_reader<kKeys>(a.p, block, blockIdx.x);
  const ChunkTiles<HD> tiles(memory, !kKeys);
#pragma unroll 1
  for (int chunk = block.first_chunk + first; chunk <= block.last_chunk; chunk += kSlots) {
    const auto n = static_cast<uint32_t>(chunk - block.first_chunk);
    tiles.wait_until_free(n);
    load_tile<HD, kKeys>(from, chunk, tiles.tile(n), lane);
    tiles.give(n);
  }
}

// Stores a lane's two rows of results, columns 8m + 2t + {0, 1}, as f16 through shared memory, so that they
// are written in pieces of 16 bytes. A warp reads only data that it wrote itself.
template <int HD>
__device__ __forceinline__ void store_halves(const RowsArguments& a, const RowBlock& block, uint8_t* memory,
                                             int first_row, int t, const float (&out)[HD / 8][4],
                                             const float (&share)[2]) {
  constexpr int kPieces = HD / 8, kRowsAtOnce = 32 / kPieces;
#pragma unroll
  for (int m = 0; m < HD / 8; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h)
      *reinterpret_cast<__half2*>(memory + half_offset(first_row + 8 * h, m) + 4 * t) =
          __floats2half2_rn(__fmul_rn(out[m][2 * h], share[h]), __fmul_rn(out[m][2 * h + 1], share[h]));
  }
  __syncwarp();
  const int lane = threadIdx.x & 31, piece = lane % kPieces, warp_row = first_row - (lane >> 2);
  const size_t stride = static_cast<size_t>(a.p.heads.num_heads) * HD;
#pragma unroll
  for (int i = 0; i < kTileRows; i += kRowsAtOnce) {
    const int row = warp_row + i + lane / kPieces, of = block.first_row + row;
    if (row >= block.rows) continue;
    __half* to = static_cast<__half*>(a.p.output) + block.queries.token(of) * stride +
                 block.queries.head(of) * HD + piece * 8;
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(memory + half_offset(row, piece));
  }
}

// Runs the consumer warpgroups. `kept` is a copy of the block in shared memory.
template <int HD, bool kShares>
__device__ __forceinline__ void attend_rows(const RowsArguments& a, const RowBlock& block,
                                            const RowBlock& kept, uint8_t* memory) {
  const AttentionParams& p = a.p;
  const int kv_head = blockIdx.x;
  const ScoreRule rule{p.scale, p.softcap, p.sliding_window};
  uint8_t* query_tile = memory + kQueriesAt<HD>;
  const ChunkTiles<HD> keys(shared_address(memory), false), values(shared_address(memory), true);
  const int warpgroup = static_cast<int>(uniform(threadIdx.x >> 7)), warp = threadIdx.x >> 5 & 3;
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const uint64_t queries = descriptor(shared_address(query_tile) + warpgroup * (64 * 128));
  load_queries<HD, kReaders, kRows, half_offset>(block.queries, block.first_row, p.kv_shape.key_format,
                                                 query_tile, reinterpret_cast<float*>(memory));
  fence_async_proxy();
  named_barrier(kConsumerBarrier, kReaders);
  if (is_quantized(p.kv_shape.key_format)) named_barrier(kQueriesTransformed, kThreads);

  const int first_row = warpgroup * 64 + warp * kTileRows + g;
  RowState state;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = first_row + 8 * h;
    state.position[h] = row < block.rows ? p.batch.positions[block.queries.token(block.first_row + row)] : -1;
  }
  const PartialRows parts = parts_of_warp(a, blockIdx.y, kv_head, warpgroup * 4 + warp, HD);
  const int live = block.rows - (first_row - g);
  float out[HD / 8][4] = {};
  SpansBefore<HD> spans;
  const auto take_chunk = [&](int chunk) {
    const auto n = static_cast<uint32_t>(chunk - block.first_chunk);
    ChunkScores score;
    keys.wait_until_full(n);
    const uint64_t key = descriptor(keys.tile(n));
    begin_products();
#pragma unroll
    for (int k = 0; k < HD / 16; ++k) {
      const uint32_t at = (k / 4 * kHalfBytes + k % 4 * 32) >> 4;
      multiply_64x128x16(score, queries + at, key + at, k > 0);
    }
    commit_products();
    wait_for_products<0>();
    keys.release(n);

    ChunkWeights weight;
    if constexpr (kShares) state.forget();
    const MergeFactors factors =
        make_chunk_weights(rule, chunk, rule.shows_all(chunk, kept.first_position), score, state, weight);
    if constexpr (kShares) store_totals(places_of_chunk(parts, chunk - block.seen_chunk, live), state);

    float part[HD / 8][4];
    values.wait_until_full(n);
    const uint64_t value = descriptor(values.tile(n));
    begin_products();
#pragma unroll
    for (int k = 0; k < kChunkTokens / 16; ++k)
      multiply_values<HD>(part, &weight[2 * k], value + (k * 2048 >> 4), k > 0);
    commit_products();
    wait_for_products<0>();
    values.release(n);
    if constexpr (kShares) {
      store_columns<HD / 8>(places_of_chunk(parts, chunk - block.seen_chunk, live), 0, part);
    } else {
#pragma unroll
      for (int m = 0; m < HD / 8; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          out[m][i] = merged(out[m][i], factors.before[i >> 1], part[m][i], factors.chunk[i >> 1]);
      }
    }
  };
  int chunk = block.first_chunk;
#pragma unroll 1
  for (;;) {
#pragma unroll 1
    do {
      take_chunk(chunk++);
    } while (chunk <= block.last_chunk && chunk % kSpanChunks != 0);
    if (chunk > block.last_chunk) break;
    if constexpr (!kShares) spans.keep(spans.before(chunk - 1, block.first_chunk), out, state);
  }
  if constexpr (kShares) return;
  spans.add_to(spans.before(block.last_chunk, block.first_chunk), out, state);
  named_barrier(kConsumerBarrier, kReaders);

  const float share[2] = {1.0f / state.total[0], 1.0f / state.total[1]};
  if (a.place == nullptr && !is_quantized(p.kv_shape.value_format)) {
    store_halves<HD>(a, kept, memory, first_row, t, out, share);
    return;
  }
  float* row_values = reinterpret_cast<float*>(memory);  // [128][HD], in the memory of keys and values
#pragma unroll
  for (int m = 0; m < HD / 8; ++m) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      row_values[(first_row + 8 * (i >> 1)) * HD + m * 8 + 2 * t + (i & 1)] =
          __fmul_rn(out[m][i], share[i >> 1]);
  }
  named_barrier(kConsumerBarrier, kReaders);
  store_rows<HD, kReaders>(a, kept, row_values);
}

template <int HD, bool kShares>
__device__ __forceinline__ void attend(const RowsArguments& a, uint8_t* memory) {
  RowBlock block;
  // Long blocks first.
  if (!find_rows<kRows>(a, blockIdx.y, blockIdx.x, true, block)) return;
  if (kShares && !select_share(a, blockIdx.z, block)) return;
  const uint32_t base = shared_address(memory);
  __shared__ RowBlock kept;  // copy in shared memory, to save registers during the products
  if (threadIdx.x == 0) {
    kept = block;
    ChunkTiles<HD>(base, false).create();
    ChunkTiles<HD>(base, true).create();
    fence_barrier_init();
  }
  __syncthreads();
  const int producer = static_cast<int>(uniform(threadIdx.x >> 5)) - kReaders / 32;
  if (producer < 0) {
    acquire_registers<kConsumerRegisters>();
    attend_rows<HD, kShares>(a, block, kept, memory);
    return;
  }
  release_registers<kProducerRegisters>();
  // Quantized keys: the queries are transformed first, in the memory of the chunks.
  if (is_quantized(a.p.kv_shape.key_format)) named_barrier(kQueriesTransformed, kThreads);
  if (producer % 2 == 0) {
    produce_tiles<HD, true>(a, block, base, producer / 2, lane_index());
  } else {
    produce_tiles<HD, false>(a, block, base, producer / 2, lane_index());
  }
}

#endif

template <int HD, bool kShares>
__global__ void __launch_bounds__(kBounds)
    attention_warpgroup_kernel(const __grid_constant__ RowsArguments a) {
#if QUIRE_WARPGROUP_PRODUCTS
  extern __shared__ uint8_t shared[];
  release_successor();
  wait_for_predecessor();
  attend<HD, kShares>(a, shared + (-shared_address(shared) & 1023U));
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
                                       const SplitResources& room, Launch l) {
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
