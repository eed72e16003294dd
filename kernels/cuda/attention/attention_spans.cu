// Attention for steps in which every sequence has one token, and there are either few keys or so many
// sequences that spans of chunks give enough blocks. A block computes one span of one kv head of a sequence,
// with one chunk at a time or two in parallel. It writes partial results only if a sequence has several
// spans, once per span.
//
// Keys and values are copied (cp.async) through a few tiles of shared memory; each tile is refilled as soon
// as it is read. With two chunks in parallel, three quarters of 256 keys of 128 dimensions are in flight
// before the previous kernel has ended, and all of them if pages are quantized. Warp specialization: two
// producer warps issue these first copies, which takes as long as the copies themselves; meanwhile the other
// warps prepare the queries. Keys and queries have the roles of attention_codes.cu: 16 keys by 8 query rows,
// which suits a GQA group. The sums are those of attention.cuh.
//
// Bytes: keys and values once; with several spans of a sequence HD + 2 floats per row and span, written and
// read in L2 (0.2 % of the pages' bytes for f16 and 4 rows). Operations: 136 products of 16 x 8 x 16 for a
// chunk; a warp unpacks a quarter of a chunk's codes in 600 instructions.
#include <algorithm>

#include "kernels/cuda/attention/attention_merge.cuh"
#include "kernels/cuda/attention/attention_tiles.cuh"

namespace quire::kernels {
namespace {

constexpr int kSetWarps = kTileWarps;
constexpr int kRows = 8;  // query rows: columns of a product

// Layout of shared memory. kNumSets is the number of sets of four warps, each with a chunk. Two sets compute
// chunks of a sequence in parallel, which shortens the critical path; with many blocks, one set is better
// because fewer warps wait for each other.
template <int HD, KvFormat kKeyFormat, KvFormat kValueFormat, int kNumSets>
struct Places {
  using Keys = typename TileOf<HD, kKeyFormat>::Type;
  using Values = typename TileOf<HD, kValueFormat>::Type;
  static constexpr int kSets = kNumSets;
  static constexpr int kWarps = kSets * kSetWarps;
  static constexpr int kThreads = 32 * kWarps;
  // Producer warps: copy the first tiles while the other warps prepare the queries.
  static constexpr int kProducers = 2;
  static constexpr int kResident = 4 / kSets;  // blocks per multiprocessor (occupancy)
  // Tiles of 128 keys or values.
  static constexpr int kTiles = HD == 128 && kKeyFormat == KvFormat::f16 ? 3 : 2 * kSets;
  static constexpr uint32_t kTileBytes = std::max(Keys::kBytes, Values::kBytes);
  static constexpr uint32_t kQueries = kTiles * kTileBytes;               // [kRows][HD] f16
  static constexpr uint32_t kWeights = kQueries + kRows * HD * 2;         // [set][step][lane] 8 bytes
  static constexpr uint32_t kSums = kWeights + kSets * kTileSteps * 256;  // [set][kRows][kSumStride] floats
  static constexpr int kSumStride = HD + 4;    // avoids bank conflicts between lanes
  static constexpr uint32_t kScratch = kSums;  // [warp][HD] floats, before the sums
  static constexpr uint32_t kUsed = kSums + kSets * kRows * kSumStride * 4;
  static constexpr uint32_t kTotal = bytes_with_merge(kUsed, HD);
  static_assert(kWarps <= kSets * kRows);
};

// Ring of tiles for the keys and values of a block's chunks, in the order of use: the keys of one chunk per
// set, then their values.
template <typename P>
class TileRing {
 public:
  static constexpr int kSets = P::kSets;
  using Keys = typename P::Keys;
  using Values = typename P::Values;
  // Tiles whose copy starts before the token's own key and value are in the cache.
  static constexpr int kEarly = P::kTiles;

  // `entry` is the page table's entry for the lane's chunk of the span.
  __device__ __forceinline__ TileRing(const SingleArguments& a, const SingleWork& work, uint32_t base,
                                      int entry)
      : work_(work), kv_(a.p.kv), base_(base), entry_(entry), own_(work.owns_token(a) ? work.position : -1) {}

  __device__ __forceinline__ static int number(int chunk, bool values) {
    return chunk / kSets * (2 * kSets) + (values ? kSets : 0) + chunk % kSets;
  }
  __device__ __forceinline__ static uint32_t place(int number) {
    return static_cast<uint32_t>(number % P::kTiles) * P::kTileBytes;
  }
  // Returns where the token's own key or value is stored besides the page: its tile, if that is an early one.
  template <typename Tile>
  __device__ __forceinline__ TileRow<Tile> own_row(uint8_t* shared, bool values) const {
    const int tile = number(work_.last_chunk - work_.first, values);
    return {tile < kEarly ? shared + place(tile) : nullptr, work_.position % kChunkTokens};
  }
  // Starts the copies of the early tiles, issued by the last warps of the block.
  __device__ __forceinline__ void copy_early(bool is_producer) {
    if (is_producer)
      ask<32 * P::kProducers, CopyKind::first>(
          kEarly, static_cast<int>(threadIdx.x) - 32 * (P::kWarps - P::kProducers));
    next_ = kEarly;
  }
  // Start the copies of tiles before number `end`, issued by all warps, into tiles of keys or values that all
  // warps have read.
  __device__ __forceinline__ void refill_key_tiles(int end) {
    ask<P::kThreads, kFixedPlaces ? CopyKind::keys : CopyKind::any>(end, threadIdx.x);
  }
  __device__ __forceinline__ void refill_value_tiles(int end) {
    ask<P::kThreads, kFixedPlaces ? CopyKind::values : CopyKind::any>(end, threadIdx.x);
  }
  // Waits until the next tiles of one kind, keys or values, are complete.
  __device__ __forceinline__ static void wait() {
    wait_for_copies<P::kTiles - kSets>();
    __syncthreads();
  }

 private:
  enum class CopyKind { first, any, keys, values };
  static constexpr bool kFixedPlaces = P::kTiles == 2 * kSets;  // keys and values have tiles of their own

  // Starts copies with kCopyThreads threads, of which this is number `thread`. Each tile commits one group of
  // copies, possibly an empty one. kCopyKind is what the caller knows at compile time: the first tiles of
  // both kinds, keys, or values.
  template <int kCopyThreads, CopyKind kCopyKind>
  __device__ __forceinline__ void ask(int end, int thread) {
#pragma unroll 1
    for (; next_ < end; ++next_) {
      const int chunk = work_.first + next_ / (2 * kSets) * kSets + next_ % kSets;
      if (chunk < work_.end) {
        const int begin = chunk * kChunkTokens;
        const int entry = __shfl_sync(0xffffffffU, entry_, chunk - work_.first);
        const size_t first = work_.pages.row(begin, entry);
        const CopiedRows<kCopyKind == CopyKind::first> rows{work_.position + 1 - begin, own_ - begin};
        const uint32_t tile = base_ + place(next_);
        // One copy of the code for both kinds if their layouts are the same.
        const bool keys =
            kCopyKind == CopyKind::keys || (kCopyKind != CopyKind::values && next_ / kSets % 2 == 0);
        if (std::is_same_v<Keys, Values> || keys) {
          Keys::template copy<kCopyThreads>(keys ? kv_.keys : kv_.values,
                                            keys ? kv_.key_scales : kv_.value_scales, first, rows, tile,
                                            thread);
        } else {
          Values::template copy<kCopyThreads>(kv_.values, kv_.value_scales, first, rows, tile, thread);
        }
      }
      commit_copies();
    }
  }

  const SingleWork& work_;
  const KvLayer& kv_;
  uint32_t base_;
  int entry_;
  int own_;  // position whose row this block stores into the early tiles itself
  int next_ = 0;
};

template <int HD, KvFormat kKeyFormat, KvFormat kValueFormat, int kSets>
__global__ void __launch_bounds__(Places<HD, kKeyFormat, kValueFormat, kSets>::kThreads,
                                  Places<HD, kKeyFormat, kValueFormat, kSets>::kResident)
    attention_spans_kernel(const __grid_constant__ SingleArguments a) {
  using P = Places<HD, kKeyFormat, kValueFormat, kSets>;
  constexpr int kWarps = P::kWarps, kThreads = P::kThreads;
  using Keys = typename P::Keys;
  using Values = typename P::Values;
  using Ring = TileRing<P>;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ float maxima[kWarps][kRows];
  __shared__ float2 totals[kSets][kRows];  // maximum and sum of a chunk
  __shared__ int num_spans;  // spans of the sequence; in shared memory to save a register during the chunks
  release_successor();

  const AttentionParams& p = a.p;
  const int warp = __shfl_sync(0xffffffffU, threadIdx.x >> 5, 0), lane = threadIdx.x & 31;
  const int set = warp / kSetWarps, part = warp % kSetWarps;
  const int g = lane >> 2, t = lane & 3;
  const ScoreRule rule{p.scale, p.softcap, p.sliding_window};
  // Without a window the start of the span does not depend on the token's position, so the block loads its
  // page table entries first: two loads in sequence would take a tenth of a short sequence's time.
  const auto entry_of = [&](int first) {
    const int page = quotient_of(first + static_cast<int>(threadIdx.x) % kSpanChunks, a.page_reciprocal);
    const int stride = p.batch.page_table_stride;
    return p.batch.page_table + static_cast<size_t>(blockIdx.y) * stride + min(page, stride - 1);
  };
  int entry = load_at_once(entry_of(static_cast<int>(blockIdx.x) * kSpanChunks));
  SingleWork work(a, rule);
  work.select_span();
  if (p.sliding_window > 0) entry = __ldcg(entry_of(work.first));
  const uint32_t base = shared_address(shared);
  const uint32_t weights = base + P::kWeights + set * kTileSteps * 256;
  const uint32_t upper_bytes = opaque_upper_bytes(work.group);
  Ring ring(a, work, base, entry);
  if (threadIdx.x == kThreads - 1) num_spans = work.num_spans();
  if (a.appends == 0) wait_for_predecessor();
  const bool is_producer = warp >= kWarps - P::kProducers;
  ring.copy_early(is_producer);

  // At the end each thread holds two columns of one row or of two rows.
  constexpr int kPairs = kRows * HD / 2 / kThreads;
  const auto row_of = [&](int i) { return (static_cast<int>(threadIdx.x) + i * kThreads) / (HD / 2); };
  const int column = static_cast<int>(threadIdx.x) % (HD / 2) * 2;
  const int first_head = work.kv_head * work.group;
  int2 place[kPairs];
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int at = (first_head + row_of(i)) * HD + column;
    place[i] = make_int2(at, at + 1);
    if (a.place != nullptr && row_of(i) < work.group)
      place[i] = __ldg(reinterpret_cast<const int2*>(a.place + at));
  }
  if (a.appends != 0) wait_for_predecessor();
  if (work.first >= work.end)
    return;  // checked only now, when the position has been loaded: most warps do
             // not need it earlier
  if (!is_producer)
    prepare_rows<HD, kKeyFormat, kValueFormat, kWarps - P::kProducers>(
        a, work, shared + P::kQueries, reinterpret_cast<float*>(shared + P::kScratch) + warp * HD,
        ring.template own_row<Keys>(shared, false), ring.template own_row<Values>(shared, true));
  Ring::wait();
  uint32_t queries[HD / 16][2];
  load_query_columns<HD>(base + P::kQueries, lane, queries);

  float2 merged_pair[kPairs] = {};
  float largest_so_far[kPairs], sum_so_far[kPairs];
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    largest_so_far[i] = -INFINITY;
    sum_so_far[i] = 0.0f;
  }
#pragma unroll 1
  for (int done = 0;; done += kSets) {
    const int chunk = work.first + done + set;
    const bool works = chunk < work.end;
    float score[kWarpSteps][4];
    if (works) {
      Keys::multiply_keys(base + Ring::place(Ring::number(done + set, false)), part, queries, lane,
                          upper_bytes, score);
      if (rule.softcap > 0.0f) {
#pragma unroll
        for (int i = 0; i < 4 * kWarpSteps; ++i) rule.cap(score[i / 4][i % 4]);
      } else {
#pragma unroll
        for (int i = 0; i < 4 * kWarpSteps; ++i) rule.take(score[i / 4][i % 4]);
      }
      if (work.cuts(rule, chunk)) {
        const int first_key = chunk * kChunkTokens + part * 32 + g;
#pragma unroll
        for (int i = 0; i < 4 * kWarpSteps; ++i)
          if (rule.hides(first_key + i / 4 * 16 + i % 4 / 2 * 8, work.position))
            score[i / 4][i % 4] = -INFINITY;
      }
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        float largest = -INFINITY;
#pragma unroll
        for (int n = 0; n < kWarpSteps; ++n) largest = fmaxf(largest, fmaxf(score[n][x], score[n][2 + x]));
#pragma unroll
        for (int d = 4; d < 32; d <<= 1) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, d));
        if (g == 0) maxima[warp][2 * t + x] = largest;
      }
    }
    __syncthreads();
    ring.refill_key_tiles(2 * done + kSets + P::kTiles);
    if (works) {
      float from[2];  // subtracted from scores; 0 for a row without visible keys, whose weights are 0
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        const int r = 2 * t + x;
        float largest = maxima[set * kSetWarps][r];
#pragma unroll
        for (int w = 1; w < kSetWarps; ++w) largest = fmaxf(largest, maxima[set * kSetWarps + w][r]);
        if (part == 0 && g == 0) totals[set][r].x = largest;
        from[x] = largest == -INFINITY ? 0.0f : largest;
      }
#pragma unroll
      for (int n = 0; n < kWarpSteps; ++n) {
        uint32_t pair[2];
#pragma unroll
        for (int h = 0; h < 2; ++h)
          pair[h] = transposed_8x8(bits_of(__floats2half2_rn(exp2_fast(score[n][2 * h] - from[0]),
                                                             exp2_fast(score[n][2 * h + 1] - from[1]))));
        store_shared_8(weights + (part * kWarpSteps + n) * 256 + lane * 8, make_uint2(pair[0], pair[1]));
      }
    }
    Ring::wait();
    if (works) {
      float out[Values::kColumns][4] = {};
      float sum[4] = {};
      Values::multiply_values(base + Ring::place(Ring::number(done + set, true)), part, weights, lane,
                              upper_bytes, out, sum);
      auto* sums = reinterpret_cast<float*>(shared + P::kSums) + set * kRows * P::kSumStride +
                   2 * t * P::kSumStride + part * (HD / kSetWarps);
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        if (2 * t + x >= work.group) continue;
        if (part == 0 && g == 0) totals[set][2 * t + x].y = sum[x];
#pragma unroll
        for (int i = 0; i < 2 * Values::kColumns; ++i)
          sums[x * P::kSumStride + Values::dimension(i / 2, i % 2, lane)] = out[i / 2][i % 2 * 2 + x];
      }
    }
    __syncthreads();
    const bool ends = work.first + done + kSets >= work.end;
    if (!ends) ring.refill_value_tiles(2 * done + 2 * kSets + P::kTiles);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int row = row_of(i);
      if (row >= work.group) continue;
#pragma unroll
      for (int s = 0; s < kSets; ++s) {
        if (work.first + done + s >= work.end) continue;
        const float2 total = totals[s][row];
        const float2 v = *reinterpret_cast<const float2*>(reinterpret_cast<const float*>(shared + P::kSums) +
                                                          (s * kRows + row) * P::kSumStride + column);
        float old_factor, new_factor;
        merge_factors(largest_so_far[i], total.x, old_factor, new_factor);
        sum_so_far[i] = merged(sum_so_far[i], old_factor, total.y, new_factor);
        merged_pair[i].x = merged(merged_pair[i].x, old_factor, v.x, new_factor);
        merged_pair[i].y = merged(merged_pair[i].y, old_factor, v.y, new_factor);
      }
    }
    if (ends) break;
    Ring::wait();
  }
  if (num_spans > 1) {
    const PartialRows partial(a.merge, work.tile(a), HD);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int row = row_of(i), part = work.first - work.first_chunk;
      if (row >= work.group) continue;
      __stcg(reinterpret_cast<float2*>(partial.row(part, row) + column), merged_pair[i]);
      if (column == 0) __stcg(partial.total(part, row), make_float2(largest_so_far[i], sum_so_far[i]));
    }
    if (!is_last_block(a.merge, work.tile(a), num_spans)) return;
    float* rows = merge_parts<HD, kMinMergeSlots>(partial, PartsInOrder::spans(work.first_chunk, num_spans),
                                                  work.group, shared);
    store_group<HD, kThreads>(a, work, rows);
    return;
  }
  auto* output = static_cast<__half*>(p.output) + static_cast<size_t>(work.sequence) * p.heads.num_heads * HD;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    if (row_of(i) >= work.group) continue;
    const float share = 1.0f / sum_so_far[i];
    float2 pair[1] = {make_float2(__fmul_rn(merged_pair[i].x, share), __fmul_rn(merged_pair[i].y, share))};
    if constexpr (kValueFormat != KvFormat::f16) {
      // A warp holds a block of 64 columns of one row.
      hadamard_pairs(pair, lane);
      pair[0].x *= 0.03125f;
      pair[0].y *= 0.03125f;
    }
    output[place[i].x] = __float2half_rn(pair[0].x);
    output[place[i].y] = __float2half_rn(pair[0].y);
  }
}

// Shared memory to request; it determines how blocks are distributed over multiprocessors. Blocks of 128
// dimensions run best with as much as f16 needs: with less, a step with one job takes 1 % longer. Blocks of
// 64 dimensions do not need that. But with less than a third of a multiprocessor's shared memory, three of
// them would go to one multiprocessor while others get none.
template <int HD, KvFormat kKeyFormat>
constexpr uint32_t spread_bytes() {
  if (HD == 128) return Places<HD, KvFormat::f16, KvFormat::f16, 2>::kTotal;
  return kKeyFormat == KvFormat::f16 ? 77 << 10 : 0;
}

template <int HD, KvFormat kKeyFormat, KvFormat kValueFormat, int kSets>
SingleChoice choice_of() {
  using P = Places<HD, kKeyFormat, kValueFormat, kSets>;
  SingleChoice c;
  c.kernel = attention_spans_kernel<HD, kKeyFormat, kValueFormat, kSets>;
  c.threads = P::kThreads;
  c.shared_bytes = P::kTotal;
  c.spread_bytes = kSets == 2 ? spread_bytes<HD, kKeyFormat>() : 0;
  c.most_blocks = P::kResident;
  return c;
}

}  // namespace

SingleChoice choose_attention_spans(int head_dim, KvFormat keys, KvFormat values, int group, bool many) {
  if (group > kRows) return {};
  return choose_size(head_dim, [&]<int HD>() {
    if (keys == KvFormat::f16 && values == KvFormat::f16)
      return choice_of<HD, KvFormat::f16, KvFormat::f16, 2>();
    return choose_codes(keys, values, [&]<KvFormat kKeys, KvFormat kValues>() {
      return many ? choice_of<HD, kKeys, kValues, 1>() : choice_of<HD, kKeys, kValues, 2>();
    });
  });
}

}  // namespace quire::kernels
