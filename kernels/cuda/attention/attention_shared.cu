// Attention over keys that several sequences of a step share (common prefix), each with one token: one block
// per (chunk of 128 keys, group of sequences, kv head). Partial results are stored with those of the
// sequences' other chunks and merged with them in order of position.
//
// A chunk is read once. Each warp multiplies 16 rows (some heads of some sequences) with all of its keys,
// with the arithmetic of attention_prefill.cu. Every sequence attends to every key of a shared chunk. Only
// F16 pages are handled: for codes, reading them from L2 once per sequence is faster than the conversion to
// f16 here.
//
// Bytes: a chunk once for up to 64 sequences; for each of their rows HD + 2 floats, which the sequence alone
// would write too. Operations: 4 * 16 * 128 * HD for 16 rows, also if not all of the 16 are used.
#include "kernels/cuda/attention/attention_rows.cuh"
#include "kernels/cuda/attention/attention_shared.cuh"

namespace quire::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;

struct SharedArguments {
  AttentionParams p;
  SharedKeys shared;
  MergeArguments merge;
};

constexpr size_t shared_bytes(int head_dim) {
  return chunks_bytes(2, kWarps * kTileRows, head_dim);
}

// Rows of a block: row r is head r % group of sequence r / group of the run.
struct RunRows {
  const int32_t* members;
  int num_rows;
  int group;
  int kv_head;

  __device__ __forceinline__ int sequence(int r) const { return members[r / group]; }
  __device__ __forceinline__ int head(int r) const { return kv_head * group + r % group; }
};

// Loads queries of rows first .. first + 15 as f16 [16][HD], by one warp.
template <int HD>
__device__ __forceinline__ void load_rows(const AttentionParams& p, const RunRows& rows, int first,
                                          uint8_t* tile) {
  constexpr int kPieces = HD / 8;
  const size_t stride = static_cast<size_t>(p.heads.num_heads + 2 * p.heads.num_kv_heads) * HD;
#pragma unroll
  for (int i = threadIdx.x & 31; i < kTileRows * kPieces; i += 32) {
    const int row = i / kPieces, piece = i % kPieces, r = first + row;
    uint4 numbers = make_uint4(0, 0, 0, 0);
    if (r < rows.num_rows) {
      const __half* query = static_cast<const __half*>(p.qkv) + rows.sequence(r) * stride + rows.head(r) * HD;
      numbers = *reinterpret_cast<const uint4*>(query + piece * 8);
    }
    *reinterpret_cast<uint4*>(tile + tile_offset<HD>(row, piece)) = numbers;
  }
}

// Returns the places for the partial results of a lane's rows, from `first` on.
__device__ __forceinline__ RowPlaces places_of_rows(const SharedArguments& a, const RunRows& rows, int first,
                                                    int chunk, int dim) {
  RowPlaces places;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = first + static_cast<int>((threadIdx.x & 31) >> 2) + 8 * h;
    if (r >= rows.num_rows) continue;
    const PartialRows partial(a.merge, rows.sequence(r) * a.p.heads.num_kv_heads + rows.kv_head, dim);
    places.row[h] = partial.row(chunk, r % rows.group);
    places.total[h] = partial.total(chunk, r % rows.group);
  }
  return places;
}

template <int HD>
__global__ void __launch_bounds__(kThreads, 2)
    attention_shared_kernel(const __grid_constant__ SharedArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();
  const AttentionParams& p = a.p;
  const SharedPage page = a.shared.pages[blockIdx.x];
  if (page.num_members == 0) return;
  const int chunk = page.index * a.merge.page_chunks + static_cast<int>(blockIdx.z);
  const int kv_head = blockIdx.y, group = a.merge.tile_rows;
  const RunRows rows{a.shared.members + page.first_member, page.num_members * group, group, kv_head};
  const ScoreRule rule{p.scale, p.softcap, 0};

  const int warp = threadIdx.x >> 5;
  constexpr uint32_t kTileBytes = kChunkTokens * HD * 2, kQueryBytes = kTileRows * HD * 2;
  uint8_t* query_tile = shared + 2 * kTileBytes + warp * kQueryBytes;
  const uint32_t keys = shared_address(shared), values = keys + kTileBytes;
  const uint32_t queries = shared_address(query_tile);
  const int sequence = rows.sequence(0), length = (chunk + 1) * kChunkTokens;
  wait_for_predecessor();
  load_chunk<HD, kThreads, true>(page_reader<true>(p, sequence, kv_head, 0, length), chunk, keys);
  load_chunk<HD, kThreads, false>(page_reader<false>(p, sequence, kv_head, 0, length), chunk, values);
  constexpr int kRowsAtOnce = kWarps * kTileRows;
  int first = warp * kTileRows;
  if (first < rows.num_rows) load_rows<HD>(p, rows, first, query_tile);
  wait_for_copies<0>();
  __syncthreads();
#pragma unroll 1
  for (; first < rows.num_rows; first += kRowsAtOnce) {
    ChunkScores score = {};
    multiply_keys<HD>(queries, keys, score);
    __syncwarp();
    if (first + kRowsAtOnce < rows.num_rows) load_rows<HD>(p, rows, first + kRowsAtOnce, query_tile);
    RowState state = {};
    ChunkWeights weight;
    make_chunk_weights(rule, chunk, true, score, state, weight);
    const RowPlaces places = places_of_rows(a, rows, first, chunk, HD);
    store_totals(places, state);
#pragma unroll
    for (int d = 0; d < HD / 32; ++d) {
      float part[4][4] = {};
      multiply_values<HD>(weight, values, d, part);
      store_columns<4>(places, 32 * d, part);
    }
    __syncwarp();
  }
}

template <int HD>
cudaError_t launch(const SharedArguments& a, Launch l) {
  const dim3 grid(static_cast<unsigned>(a.shared.num_pages), static_cast<unsigned>(a.p.heads.num_kv_heads),
                  static_cast<unsigned>(a.merge.page_chunks));
  return launch_kernel(attention_shared_kernel<HD>, grid, dim3(kThreads), shared_bytes(HD), l.stream,
                       l.dependent, a);
}

}  // namespace

bool shares_keys(const AttentionParams& p, const SharedKeys& shared, const CardLimits& card) {
  return shared.num_pages > 0 && p.kv_shape.key_format == KvFormat::f16 &&
         p.kv_shape.value_format == KvFormat::f16 && p.batch.page_table == shared.page_table &&
         p.batch.max_query_tokens == 1 && p.sliding_window <= 0 &&
         p.heads.num_heads <= kTileRows * p.heads.num_kv_heads &&
         (p.heads.head_dim == 64 || p.heads.head_dim == 128) &&
         shared_bytes(p.heads.head_dim) <= card.shared_per_block;
}

cudaError_t launch_attention_shared(const AttentionParams& p, const SharedKeys* shared,
                                    const MergeArguments& merge, Launch l) {
  if (shared == nullptr) return cudaSuccess;
  const SharedArguments a{p, *shared, merge};
  return a.p.heads.head_dim == 64 ? launch<64>(a, l) : launch<128>(a, l);
}

cudaError_t setup_attention_shared(int shared_limit) {
  const cudaError_t e = allow_shared(attention_shared_kernel<64>, shared_bytes(64));
  if (e != cudaSuccess || shared_bytes(128) > static_cast<size_t>(shared_limit)) return e;
  return allow_shared(attention_shared_kernel<128>, shared_bytes(128));
}

}  // namespace quire::kernels
