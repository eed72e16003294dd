// Code shared by the kernels for steps of one token per sequence: their arguments, the location of keys, and
// the preparation of the token's rows.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_merge.cuh"
#include "kernels/cuda/attention/kv_row.cuh"

namespace quire::kernels {

constexpr int kSingleThreads = 128;  // per block
constexpr int kSingleWarps = kSingleThreads / 32;

struct SingleArguments {
  AttentionParams p;
  AppendKvParams append;  // used if `appends` is not 0
  int32_t appends;
  const int32_t* place;
  int32_t chunks_per_block;
  uint32_t page_reciprocal;  // 2^31 / (chunks per page): replaces the division that finds the page of a chunk
  MergeArguments merge;
};

// Kernel for one head size and format, and how its blocks split the work.
struct SingleChoice {
  void (*kernel)(const SingleArguments) = nullptr;
  int threads = kSingleThreads;
  uint32_t shared_bytes = 0;
  uint32_t spread_bytes = 0;  // shared memory to request instead if it is more and two blocks of it fit a
                              // multiprocessor
  int most_blocks = 0;        // per multiprocessor
  int most_chunks = 0;        // per block
  int chunks_at_once = 1;     // per block
};

// Calls choose with the head size and the formats of keys and values as constants. Returns no kernel for
// sizes and formats that these kernels do not support.
template <typename Choose>
SingleChoice choose_size(int head_dim, Choose choose) {
  if (head_dim == 64) return choose.template operator()<64>();
  if (head_dim == 128) return choose.template operator()<128>();
  return {};
}
template <typename Choose>
SingleChoice choose_codes(KvFormat keys, KvFormat values, Choose choose) {
  if (keys == KvFormat::q8 && values == KvFormat::q8)
    return choose.template operator()<KvFormat::q8, KvFormat::q8>();
  if (keys == KvFormat::q8 && values == KvFormat::q4)
    return choose.template operator()<KvFormat::q8, KvFormat::q4>();
  if (keys == KvFormat::q4 && values == KvFormat::q4)
    return choose.template operator()<KvFormat::q4, KvFormat::q4>();
  return {};
}

// For many chunks of quantized pages.
SingleChoice choose_attention_codes(int head_dim, KvFormat keys, KvFormat values, int group);
// For many blocks or few chunks: a block computes one span of a sequence. `many` is true if there are many
// more blocks than multiprocessors.
SingleChoice choose_attention_spans(int head_dim, KvFormat keys, KvFormat values, int group, bool many);

// Finds the page of a chunk without a division; pages hold whole chunks. Exact for all 31-bit positions.
constexpr int kMaxPageTokens = 1 << 14;
constexpr uint32_t page_reciprocal_of(int page_tokens) {
  return reciprocal_of(page_tokens / kChunkTokens);
}

// Location of the keys of one kv head of one sequence.
struct SequencePages {
  const int32_t* table;
  int num_kv_heads;
  int kv_head;
  int page_tokens;
  uint32_t page_reciprocal;

  __device__ __forceinline__ int page(int chunk) const { return quotient_of(chunk, page_reciprocal); }
  // `entry` is the page table's entry for the position.
  __device__ __forceinline__ size_t row(int position, int entry) const {
    return (static_cast<size_t>(entry) * num_kv_heads + kv_head) * page_tokens +
           (position - page(position / kChunkTokens) * page_tokens);
  }
  __device__ __forceinline__ size_t row(int position) const {
    return row(position, table[page(position / kChunkTokens)]);
  }
};

// Sequence and chunks that a block works on.
struct SingleWork {
  int sequence, kv_head, group, position;
  int first_chunk, last_chunk;  // chunks that the token attends to
  int first, end;               // chunks of this block
  SequencePages pages;

  __device__ __forceinline__ SingleWork(const SingleArguments& a, const ScoreRule& rule)
      : sequence(blockIdx.y),
        kv_head(blockIdx.z),
        group(a.merge.tile_rows),
        // The batch was copied before the step began; all kernels of the step run after that copy.
        position(a.p.batch.positions[sequence]),
        first_chunk(rule.first_chunk(position)),
        last_chunk(position / kChunkTokens),
        first(first_chunk + static_cast<int>(blockIdx.x) * a.chunks_per_block),
        end(min(first + a.chunks_per_block, last_chunk + 1)),
        pages{a.p.batch.page_table + static_cast<size_t>(sequence) * a.p.batch.page_table_stride,
              a.p.heads.num_kv_heads, kv_head, a.p.kv_shape.page_tokens, a.page_reciprocal} {}
  // Makes this block compute one span of the sequence instead of a number of chunks.
  __device__ __forceinline__ void select_span() {
    const int span = first_chunk / kSpanChunks + static_cast<int>(blockIdx.x);
    first = max(first_chunk, span * kSpanChunks);
    end = min((span + 1) * kSpanChunks, last_chunk + 1);
  }
  __device__ __forceinline__ int num_spans() const {
    return last_chunk / kSpanChunks - first_chunk / kSpanChunks + 1;
  }
  // Skips the chunks that launch_attention_shared has read. Returns the number of blocks that still share the
  // tile.
  __device__ __forceinline__ int skip_shared_chunks(const SingleArguments& a) {
    const int shared = a.merge.shared_chunks(sequence);
    first += shared;
    end = min(first + a.chunks_per_block, last_chunk + 1);
    return num_blocks(a, shared);
  }
  // Returns the number of blocks that share the tile if `left_out` chunks are skipped.
  __device__ __forceinline__ int num_blocks(const SingleArguments& a, int left_out = 0) const {
    return (num_chunks() - left_out + a.chunks_per_block - 1) / a.chunks_per_block;
  }
  __device__ __forceinline__ int num_chunks() const { return last_chunk - first_chunk + 1; }
  // Returns true if this block writes the token's key and value.
  __device__ __forceinline__ bool owns_token(const SingleArguments& a) const {
    return a.appends != 0 && end == last_chunk + 1;
  }
  __device__ __forceinline__ int tile(const SingleArguments& a) const {
    return sequence * a.p.heads.num_kv_heads + kv_head;
  }
  // Returns true if some keys of a chunk are masked for the token.
  __device__ __forceinline__ bool cuts(const ScoreRule& rule, int chunk) const {
    const int begin = chunk * kChunkTokens;
    return rule.hides(begin, position) || rule.hides(begin + kChunkTokens - 1, position);
  }
};

// Used when the token's row is written to the pages only.
struct NoRow {
  __device__ __forceinline__ void put_half(int, __half) const {}
  __device__ __forceinline__ void put_byte(int, uint32_t) const {}
  __device__ __forceinline__ void put_two_bytes(int, uint32_t) const {}
  __device__ __forceinline__ void put_scale(int, __half) const {}
};

// Prepares the queries of the group as rows of f16 in the form that the keys require. If the block has the
// token's position, it also writes the token's key and value to the pages and to key_copy and value_copy.
// Rows are distributed over the warps; `row` is this warp's scratch.
template <int HD, KvFormat kKeyFormat, KvFormat kValueFormat, int kWarps = kSingleWarps,
          typename KeyCopy = NoRow, typename ValueCopy = NoRow>
__device__ __forceinline__ void prepare_rows(const SingleArguments& a, const SingleWork& work,
                                             uint8_t* queries, float* row, const KeyCopy& key_copy = {},
                                             const ValueCopy& value_copy = {}) {
  const AttentionParams& p = a.p;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int heads = p.heads.num_heads + 2 * p.heads.num_kv_heads, group = work.group;
  const bool owns_token = work.owns_token(a);
  const size_t token_row = owns_token ? work.pages.row(work.position) : 0;
#pragma unroll 1
  for (int r = warp; r < group + (owns_token ? 2 : 0); r += kWarps) {
    const int head = r < group    ? work.kv_head * group + r
                     : r == group ? p.heads.num_heads + work.kv_head
                                  : p.heads.num_heads + p.heads.num_kv_heads + work.kv_head;
    if (a.appends) {
      load_head(a.append, work.sequence, head, row, lane);
    } else {
      const auto* from =
          static_cast<const __half*>(p.qkv) + (static_cast<size_t>(work.sequence) * heads + head) * HD;
      for (int d = lane; d < HD; d += 32) row[d] = __half2float(from[d]);
      __syncwarp();
    }
    if (r < group) {
      if constexpr (kKeyFormat == KvFormat::f16) {
#pragma unroll
        for (int i = 0; i < HD / 32; ++i)
          put_query<HD>(queries, r, kKeyFormat, lane + 32 * i, row[lane + 32 * i]);
      } else {
        float2 pairs[HD / 64];
#pragma unroll
        for (int i = 0; i < HD / 64; ++i) pairs[i] = rounded_pair(row, 64 * i + 2 * lane);
        put_transformed<HD>(queries, r, kKeyFormat, pairs);
      }
    } else {
      const bool value = r > group;
      const auto store = [&](KvFormat format, const auto& kept) {
        store_row(row, HD, format, lane,
                  PageRow(value ? p.kv.values : p.kv.keys, value ? p.kv.value_scales : p.kv.key_scales,
                          format, HD, token_row),
                  kept);
      };
      // One copy of the code for both if the formats are the same.
      if constexpr (kKeyFormat == kValueFormat) {
        store(kKeyFormat, value ? value_copy : key_copy);
      } else if (value) {
        store(kValueFormat, value_copy);
      } else {
        store(kKeyFormat, key_copy);
      }
    }
    __syncwarp();
  }
}

// Loads eight query rows as the operand with 8 columns.
template <int HD>
__device__ __forceinline__ void load_query_columns(uint32_t queries, int lane, uint32_t (&out)[HD / 16][2]) {
#pragma unroll
  for (int k = 0; k < HD / 16; k += 2) {
    uint32_t pieces[4];
    load_matrices(pieces, queries + tile_offset<HD>(lane & 7, 2 * k + (lane >> 3)));
    out[k][0] = pieces[0];
    out[k][1] = pieces[1];
    out[k + 1][0] = pieces[2];
    out[k + 1][1] = pieces[3];
  }
}

// Called after a block has stored its chunks, if spans are merged first: merges the spans that are complete
// now, each to the place of its first chunk. Returns their number.
template <int HD, int kSlots>
__device__ __forceinline__ int merge_own_spans(const SingleArguments& a, const SingleWork& work,
                                               const PartialRows& partial, uint8_t* shared) {
  const int begin_all = work.first_chunk, end_all = work.last_chunk + 1;
  // Chunks read by launch_attention_shared are complete. The first block also merges spans that consist only
  // of those.
  const int left_out = a.merge.shared_chunks(work.sequence);
  int spans = 0;
  __syncthreads();  // all warps have finished with the shared memory
#pragma unroll 1
  for (int span = (blockIdx.x == 0 ? begin_all : work.first) / kSpanChunks;
       span <= (work.end - 1) / kSpanChunks; ++span) {
    const int begin = max(begin_all, span * kSpanChunks), end = min(end_all, (span + 1) * kSpanChunks);
    const int missing = end - max(begin, begin_all + left_out);
    const int own = min(end, work.end) - max(begin, work.first);
    uint32_t* counter =
        a.merge.span_counters + work.tile(a) * a.merge.max_spans + span - begin_all / kSpanChunks;
    if (missing > 0 && !completes_counter(counter, own, missing)) continue;
    merge_rows<HD, kSlots>(
        partial, PartsInOrder::chunks(begin_all, begin, end - begin), work.group, shared,
        [&](int row, const MergedRow<HD>& merged_row) { merged_row.leave(partial, begin - begin_all, row); });
    ++spans;
  }
  return spans;
}

// Called after a block has stored its chunks. Returns true in the last block of the tile, after it has merged
// all parts into rows at the beginning of `shared`. For long sequences several blocks merge one span each,
// and the last of them merges the spans.
template <int HD, int kSlots, typename Columns>
__device__ __forceinline__ bool merge_last(const SingleArguments& a, const SingleWork& work, int num_blocks,
                                           const PartialRows& partial, uint8_t* shared) {
  const bool by_spans = a.merge.span_counters != nullptr;
  int arrived = 1, all = num_blocks;
  auto parts = PartsInOrder::chunks(work.first_chunk, work.first_chunk, work.num_chunks());
  if (by_spans) {
    arrived = merge_own_spans<HD, kSlots>(a, work, partial, shared);
    all = work.num_spans();
    if (arrived == 0) return false;
    parts = PartsInOrder::spans(work.first_chunk, all);
  }
  if (!completes_counter(a.merge.counters + work.tile(a), arrived, all)) return false;
  merge_parts<HD, kSlots, Columns>(partial, parts, work.group, shared);
  return true;
}

// Writes the rows of the group, complete in shared memory, to the output.
template <int HD, int kThreads = kSingleThreads>
__device__ __forceinline__ void store_group(const SingleArguments& a, const SingleWork& work, float* values) {
  const QueryRows q{static_cast<const __half*>(a.p.qkv),
                    work.sequence,
                    work.group,
                    Divisor::of(work.group),
                    work.kv_head,
                    HD,
                    0};
  store_rows<HD, kThreads>(a.p, a.place, q, 0, work.group, values);
}

}  // namespace quire::kernels
