// Attention for steps in which every sequence has one token, for the most common cache formats and head
// sizes. This file chooses among three kernels and holds the one whose blocks compute one chunk of 128 keys
// at a time. attention_spans.cu is faster for short or many sequences, attention_codes.cu for many chunks of
// quantized pages. The arithmetic is that of attention.cuh.
//
// Keys and values are copied to shared memory unchanged and asynchronously (cp.async), the next chunk's
// during the current chunk. Quantized ones are unpacked from there into tensor-core registers, each by one
// warp: the four warps of a block split the chunk's keys for the scores and the head dimension for the
// values.
//
// With `append`, the block whose chunks contain the token's position also writes the token's key and value to
// the cache, including per-head norm, rotary embedding and quantization. Older tokens do not depend on the
// previous kernel; each block loads its first chunk while that kernel still runs.
//
// Bytes: keys and values once; per chunk and row HD + 2 floats of partial results, written and read in L2 (3
// % of the pages' bytes for f16 and 4 rows, 11 % for q4).
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/attention/attention_shared.cuh"
#include "kernels/cuda/attention/attention_single.cuh"
#include "kernels/cuda/device/device.h"

namespace quire::kernels {
namespace {

constexpr int kMaxBlocks = 6;   // per multiprocessor (occupancy)
constexpr int kManyChunks = 8;  // per multiprocessor: enough for one chunk per warp
constexpr int kManyBlocks = 4;  // per multiprocessor, each with whole spans: enough that single blocks need
                                // not be wide

// Layout of rows of keys or values in shared memory. f16 is swizzled; rows of codes are padded so that lanes
// that read different rows have no bank conflicts.
template <int HD, KvFormat kFormat, bool kKeys>
struct Rows {
  static constexpr int kBytes = kFormat == KvFormat::f16 ? HD * 2 : kFormat == KvFormat::q8 ? HD : HD / 2;
  static constexpr int kStride = kFormat == KvFormat::f16  ? kBytes
                                 : kFormat == KvFormat::q8 ? kBytes + (kKeys ? 32 : 16)
                                                           : kBytes + 16;
  static constexpr int kPieces = kBytes / 16;
  static constexpr int kScaleBytes = kFormat == KvFormat::f16 ? 0 : HD / 32 * 2;  // scales of a row
  static constexpr uint32_t kScalesAt = kChunkTokens * kStride;
  static constexpr uint32_t kTotal = kScalesAt + kChunkTokens * kScaleBytes;

  __device__ __forceinline__ static uint32_t place(int row, int piece) {
    return kFormat == KvFormat::f16 ? tile_offset<HD>(row, piece) : row * kStride + piece * 16;
  }
  // Copies rows [0, live) from row `first` of the pages on, and fills the rest with zeros.
  __device__ __forceinline__ static void copy(const void* data, const void* scales, size_t first, int live,
                                              uint32_t target) {
    const auto* from = static_cast<const uint8_t*>(data) + first * kBytes;
    constexpr int kRows = kSingleThreads / kPieces;  // copied at once
    if (live == kChunkTokens && (kFormat != KvFormat::f16 || kRows % 8 == 0)) {
      // A thread's pieces lie at equal distances, swizzled or not.
      const uint32_t to = target + place(threadIdx.x / kPieces, threadIdx.x % kPieces);
      from += threadIdx.x * 16;
#pragma unroll
      for (int i = 0; i < kPieces; ++i)
        copy_async_16(to + i * kRows * kStride, from + i * kSingleThreads * 16);
    } else {
#pragma unroll 1
      for (int i = threadIdx.x; i < kChunkTokens * kPieces; i += kSingleThreads) {
        const int row = i / kPieces;
        copy_async_16(target + place(row, i % kPieces), row < live ? from + i * 16 : from,
                      row < live ? 16 : 0);
      }
    }
    if constexpr (kScaleBytes > 0) {
      static_assert(kChunkTokens * kScaleBytes <= kSingleThreads * 16);
      const auto* scale = static_cast<const uint8_t*>(scales) + first * kScaleBytes;
      const int at = threadIdx.x * 16;
      if (at < kChunkTokens * kScaleBytes) {
        const int bytes = max(0, min(16, live * kScaleBytes - at));
        copy_async_16(target + kScalesAt + at, bytes > 0 ? scale + at : scale, bytes);
      }
    }
    commit_copies();
  }
  // Copies one more row, by the threads from `first_thread` on.
  __device__ __forceinline__ static void copy_row(const void* data, const void* scales, size_t at, int row,
                                                  uint32_t target, int first_thread) {
    const int i = static_cast<int>(threadIdx.x) - first_thread;
    if (i >= 0 && i < kPieces)
      copy_async_16(target + place(row, i), static_cast<const uint8_t*>(data) + at * kBytes + i * 16);
    if (i == kPieces) {
      const auto* from = static_cast<const uint8_t*>(scales) + at * kScaleBytes;
      const uint32_t to = target + kScalesAt + row * kScaleBytes;
      if constexpr (kScaleBytes == 16) copy_async_16(to, from);
      if constexpr (kScaleBytes == 8) copy_async_8(to, from);
      if constexpr (kScaleBytes == 4) copy_async_4(to, from);
    }
  }
};

// Unpacks keys as the B operand: the lane's quarter of dimensions 64 * (half / 2) .. + 63 of key `row`, its
// first or second half, two mma of 16.
template <int HD, KvFormat kFormat>
__device__ __forceinline__ void unpack_key(uint32_t keys, int row, int half, int t, __half2 scale,
                                           uint32_t (&b)[4]) {
  using R = Rows<HD, kFormat, true>;
  const uint32_t at = keys + row * R::kStride;
  if constexpr (kFormat == KvFormat::q8) {
    const uint2 v = load_shared_8(at + half / 2 * 64 + t * 16 + half % 2 * 8);
    b[0] = expand_q8_pair(v.x, 0, scale);
    b[1] = expand_q8_pair(v.x, 1, scale);
    b[2] = expand_q8_pair(v.y, 0, scale);
    b[3] = expand_q8_pair(v.y, 1, scale);
  } else {
    const uint32_t v = load_shared_4(at + half / 2 * 32 + t * 8 + half % 2 * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) b[i] = expand_q4_pair(v, i, scale);
  }
}

// Unpacks values as the B operand: for keys `row` and row + 1, the lane's kDims dimensions from byte or
// nibble 0 of `at` on.
template <int HD, KvFormat kFormat, int kDims>
__device__ __forceinline__ void unpack_values(uint32_t at, __half2 scales, uint32_t (&b)[kDims]) {
  using R = Rows<HD, kFormat, false>;
  if constexpr (kFormat == KvFormat::q8) {
    const uint32_t x = kDims == 4 ? load_shared_4(at) : load_shared_2(at);
    const uint32_t y = kDims == 4 ? load_shared_4(at + R::kStride) : load_shared_2(at + R::kStride);
#pragma unroll
    for (int i = 0; i < kDims; i += 2) {
      const uint32_t both = __byte_perm(x, y, i == 0 ? 0x5140 : 0x7362);
      b[i] = expand_q8_pair(both, 0, scales);
      b[i + 1] = expand_q8_pair(both, 1, scales);
    }
  } else {
    const uint32_t x = kDims == 4 ? load_shared_2(at) : load_shared_1(at);
    const uint32_t y = kDims == 4 ? load_shared_2(at + R::kStride) : load_shared_1(at + R::kStride);
    const uint32_t both = x | y << 16;
#pragma unroll
    for (int i = 0; i < kDims; ++i) b[i] = expand_q4_pair(both, i, scales);
  }
}

template <int HD, KvFormat kKeyFormat, KvFormat kValueFormat>
struct Places {
  using Keys = Rows<HD, kKeyFormat, true>;
  using Values = Rows<HD, kValueFormat, false>;
  static constexpr uint32_t kValues = Keys::kTotal;
  static constexpr uint32_t kQueries = kValues + Values::kTotal;       // [16][HD] f16
  static constexpr uint32_t kWeights = kQueries + kTileRows * HD * 2;  // [16][128] f16
  static constexpr uint32_t kRow = kWeights;                           // [4][HD] floats, before the weights
  static constexpr uint32_t kTurned =
      kWeights + kTileRows * kChunkTokens * 2;  // [4][128] f16: scales of values
  static constexpr uint32_t kUsed = kTurned + (Values::kScaleBytes > 0 ? 4 * kChunkTokens * 2 : 0);
  static constexpr uint32_t kTotal = bytes_with_merge(kUsed, HD);
};

// Multiplies the rows with the warp's 32 keys.
template <int HD, KvFormat kKeyFormat>
__device__ __forceinline__ void multiply_keys(uint32_t keys, uint32_t queries, int warp, int lane,
                                              float (&score)[4][4]) {
  const int g = lane >> 2, t = lane & 3;
  if constexpr (kKeyFormat == KvFormat::f16) {
#pragma unroll 2
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
  } else {
    using R = Rows<HD, kKeyFormat, true>;
    // Scales of the lane's four keys, two blocks of dimensions per word.
    uint32_t scales[4][HD / 64];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const uint32_t at = keys + R::kScalesAt + (warp * 32 + n * 8 + g) * R::kScaleBytes;
#pragma unroll
      for (int i = 0; i < HD / 64; i += 2) {
        if constexpr (HD == 64) {
          scales[n][0] = load_shared_4(at);
        } else {
          const uint2 v = load_shared_8(at + i * 4);
          scales[n][i] = v.x;
          scales[n][i + 1] = v.y;
        }
      }
    }
#pragma unroll
    for (int block = 0; block < HD / 32; ++block) {
      uint32_t query[2][4];
#pragma unroll
      for (int j = 0; j < 2; ++j)
        load_matrices(query[j], queries + tile_offset<HD>(lane & 15, 4 * block + 2 * j + (lane >> 4)));
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int key = warp * 32 + n * 8 + g;
        const uint32_t scale = __byte_perm(scales[n][block / 2], 0, t < 2 ? 0x1010 : 0x3232);
        uint32_t b[4];
        unpack_key<HD, kKeyFormat>(keys, key, block, t, half2_of(scale), b);
        mma_16x8x16(score[n], query[0], b[0], b[1]);
        mma_16x8x16(score[n], query[1], b[2], b[3]);
      }
    }
  }
}

// Multiplies the weights with the values over all keys of the chunk, for the warp's quarter of the head
// dimension. The first warp also computes the sums of the weights.
template <int HD, KvFormat kValueFormat>
__device__ __forceinline__ void multiply_values(uint32_t values, uint32_t weights, uint32_t turned, int warp,
                                                int lane, float (&out)[HD / 32][4], float (&sum)[4]) {
  constexpr int kTiles = HD / 32;
  const int g = lane >> 2, t = lane & 3;
  if constexpr (kValueFormat != KvFormat::f16) {
    // Scales of the warp's block of dimensions, key by key.
    using R = Rows<HD, kValueFormat, false>;
    const uint32_t at = values + R::kScalesAt + lane * 4 * R::kScaleBytes + warp * (HD / 4) / 32 * 2;
    uint32_t s[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) s[j] = load_shared_2(at + j * R::kScaleBytes);
    store_shared_8(turned + lane * 8, make_uint2(s[0] | s[1] << 16, s[2] | s[3] << 16));
    __syncwarp();
  }
#pragma unroll 2
  for (int k = 0; k < kChunkTokens / 16; ++k) {
    uint32_t weight[4];
    load_matrices(weight, weights + tile_offset<kChunkTokens>(lane & 15, 2 * k + (lane >> 4)));
    if (warp == 0) mma_16x8x16(sum, weight, kOnes, kOnes);
    if constexpr (kValueFormat == KvFormat::f16) {
#pragma unroll
      for (int n = 0; n < kTiles / 2; ++n) {
        uint32_t value[4];
        load_matrices_transposed(
            value, values + tile_offset<HD>(k * 16 + (lane & 15), warp * kTiles + 2 * n + (lane >> 4)));
        mma_16x8x16(out[2 * n], weight, value[0], value[1]);
        mma_16x8x16(out[2 * n + 1], weight, value[2], value[3]);
      }
    } else {
      using R = Rows<HD, kValueFormat, false>;
      constexpr int kPerByte = kValueFormat == KvFormat::q4 ? 2 : 1;
      const int key = k * 16 + 2 * t;
      const uint32_t at = values + key * R::kStride + (warp * (HD / 4) + g * kTiles) / kPerByte;
      uint32_t b[2][kTiles];
#pragma unroll
      for (int j = 0; j < 2; ++j)
        unpack_values<HD, kValueFormat, kTiles>(at + j * 8 * R::kStride,
                                                half2_of(load_shared_4(turned + (key + 8 * j) * 2)), b[j]);
#pragma unroll
      for (int d = 0; d < kTiles; ++d) mma_16x8x16(out[d], weight, b[0][d], b[1][d]);
    }
  }
}

// Writes a lane's results for one row: at[dimension] for each of its columns.
template <int HD, KvFormat kValueFormat>
__device__ __forceinline__ void put_row(float* at, const float (&out)[HD / 32][4], int half, float factor,
                                        int warp, int t) {
  constexpr int kTiles = HD / 32;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      const int d = kValueFormat == KvFormat::f16 ? n * 8 + 2 * t + x : (2 * t + x) * kTiles + n;
      at[warp * (HD / 4) + d] = __fmul_rn(out[n][2 * half + x], factor);
    }
  }
}

// kHalves is 1 if all rows lie in the first half of a tile of 16.
template <int HD, KvFormat kKeyFormat, KvFormat kValueFormat, int kHalves>
__global__ void __launch_bounds__(kSingleThreads, kMaxBlocks)
    attention_single_kernel(const __grid_constant__ SingleArguments a) {
  using P = Places<HD, kKeyFormat, kValueFormat>;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ float maxima[4][kTileRows];
  __shared__ float sums[kTileRows];
  release_successor();

  const AttentionParams& p = a.p;
  const int warp = __shfl_sync(0xffffffffU, threadIdx.x >> 5, 0), lane = threadIdx.x & 31;
  const int g = lane >> 2, t = lane & 3;
  const ScoreRule rule{p.scale, p.softcap, p.sliding_window};
  SingleWork work(a, rule);
  const int num_blocks = work.skip_shared_chunks(a);
  const int position = work.position, first = work.first, end = work.end, group = work.group;
  const int num_chunks = work.num_chunks();
  if (first >= end) return;
  const SequencePages& pages = work.pages;
  const uint32_t base = shared_address(shared);
  const uint32_t keys = base, values = base + P::kValues;
  const uint32_t queries = base + P::kQueries, weights = base + P::kWeights;
  // Returns the number of keys of a chunk that are in the cache. The token's own key is there once
  // prepare_rows has stored it.
  auto live = [&](int chunk, bool appended) {
    return min(kChunkTokens, position - chunk * kChunkTokens + (appended ? 1 : 0));
  };
  if (!a.appends) wait_for_predecessor();
  {
    const size_t row = pages.row(first * kChunkTokens);
    P::Keys::copy(p.kv.keys, p.kv.key_scales, row, live(first, !a.appends), keys);
    P::Values::copy(p.kv.values, p.kv.value_scales, row, live(first, !a.appends), values);
  }
  if (a.appends) wait_for_predecessor();
  prepare_rows<HD, kKeyFormat, kValueFormat>(a, work, shared + P::kQueries,
                                             reinterpret_cast<float*>(shared + P::kRow) + warp * HD);
  if (work.owns_token(a) && first == work.last_chunk) {
    // Copy the token's own key and value, which were not stored yet during the copies above.
    wait_for_copies<0>();
    __syncthreads();
    const size_t row = pages.row(position);
    P::Keys::copy_row(p.kv.keys, p.kv.key_scales, row, position % kChunkTokens, keys, 0);
    P::Values::copy_row(p.kv.values, p.kv.value_scales, row, position % kChunkTokens, values, 64);
    commit_copies();
    wait_for_copies<0>();
  }

  const PartialRows partial(a.merge, work.tile(a), HD);
  float* row_values = reinterpret_cast<float*>(shared);  // [16][HD]
#pragma unroll 1
  for (int chunk = first; chunk < end; ++chunk) {
    wait_for_copies<1>();
    __syncthreads();
    float score[4][4] = {};
    multiply_keys<HD, kKeyFormat>(keys, queries, warp, lane, score);
    if (rule.softcap > 0.0f) {
#pragma unroll
      for (int i = 0; i < 8 * kHalves; ++i) rule.cap(score[i / (2 * kHalves)][i % (2 * kHalves)]);
    } else {
#pragma unroll
      for (int i = 0; i < 8 * kHalves; ++i) rule.take(score[i / (2 * kHalves)][i % (2 * kHalves)]);
    }
    // All rows are of one token, so a key is masked for all of them or for none.
    const int begin = chunk * kChunkTokens;
    if (work.cuts(rule, chunk)) {
#pragma unroll
      for (int i = 0; i < 8 * kHalves; ++i) {
        const int n = i / (2 * kHalves), x = i % (2 * kHalves);
        if (rule.hides(begin + warp * 32 + n * 8 + 2 * t + (x & 1), position)) score[n][x] = -INFINITY;
      }
    }
    float largest[kHalves];
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      largest[h] = -INFINITY;
#pragma unroll
      for (int n = 0; n < 4; ++n) largest[h] = fmaxf(largest[h], fmaxf(score[n][2 * h], score[n][2 * h + 1]));
      largest[h] = fmaxf(largest[h], __shfl_xor_sync(0xffffffffU, largest[h], 1));
      largest[h] = fmaxf(largest[h], __shfl_xor_sync(0xffffffffU, largest[h], 2));
      if (t == 0) maxima[warp][g + 8 * h] = largest[h];
    }
    __syncthreads();  // all warps have read these keys
    const bool more = chunk + 1 < end;
    size_t next_row = 0;
    if (more) {
      next_row = pages.row(begin + kChunkTokens);
      P::Keys::copy(p.kv.keys, p.kv.key_scales, next_row, live(chunk + 1, true), keys);
    } else {
      commit_copies();
    }
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      const int r = g + 8 * h;
      largest[h] = fmaxf(fmaxf(maxima[0][r], maxima[1][r]), fmaxf(maxima[2][r], maxima[3][r]));
#pragma unroll
      for (int n = 0; n < 4; ++n)
        *reinterpret_cast<__half2*>(shared + P::kWeights + tile_offset<kChunkTokens>(r, warp * 4 + n) +
                                    t * 4) = __floats2half2_rn(weight_of(score[n][2 * h], largest[h]),
                                                               weight_of(score[n][2 * h + 1], largest[h]));
    }
    wait_for_copies<1>();
    __syncthreads();
    float out[HD / 32][4] = {};
    float sum[4] = {};
    multiply_values<HD, kValueFormat>(values, weights, base + P::kTurned + warp * (kChunkTokens * 2), warp,
                                      lane, out, sum);
    if (num_chunks == 1) {
      if (warp == 0 && t == 0) {
        sums[g] = sum[0];
        sums[g + 8] = sum[2];
      }
      wait_for_copies<0>();
      __syncthreads();
#pragma unroll
      for (int h = 0; h < kHalves; ++h)
        put_row<HD, kValueFormat>(row_values + (g + 8 * h) * HD, out, h, 1.0f / sums[g + 8 * h], warp, t);
      break;
    }
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      const int r = g + 8 * h, at = chunk - work.first_chunk;
      if (r >= group) continue;
      put_row<HD, kValueFormat>(partial.row(at, r), out, h, 1.0f, warp, t);
      if (warp == 0 && t == 0) *partial.total(at, r) = make_float2(largest[h], sum[2 * h]);
    }
    __syncthreads();  // all warps have read these values and weights
    if (more) {
      P::Values::copy(p.kv.values, p.kv.value_scales, next_row, live(chunk + 1, true), values);
    } else {
      commit_copies();
    }
  }
  if (num_chunks > 1) {
    wait_for_copies<0>();
    if (!merge_last<HD, merge_slots(P::kTotal, HD), ColumnsInOrder>(a, work, num_blocks, partial, shared))
      return;
  }
  store_group<HD>(a, work, row_values);
}

template <int HD, KvFormat kKeyFormat, KvFormat kValueFormat>
SingleChoice choose_rows(int group) {
  SingleChoice c;
  c.kernel = group <= 8 ? attention_single_kernel<HD, kKeyFormat, kValueFormat, 1>
                        : attention_single_kernel<HD, kKeyFormat, kValueFormat, 2>;
  c.shared_bytes = Places<HD, kKeyFormat, kValueFormat>::kTotal;
  c.most_blocks = kMaxBlocks;
  // Best for 16 sequences of 16k keys: 16 chunks per block. For q8 32, since then all blocks run at once (192
  // instead of 213 us).
  c.most_chunks = kKeyFormat == KvFormat::q8 ? 32 : 16;
  return c;
}

SingleChoice choose(int head_dim, KvFormat keys, KvFormat values, int group, bool many_chunks) {
  const bool coded = keys != KvFormat::f16 && values != KvFormat::f16;
  if (many_chunks && coded) return choose_attention_codes(head_dim, keys, values, group);
  return choose_size(head_dim, [&]<int HD>() {
    if (keys == KvFormat::f16 && values == KvFormat::f16)
      return choose_rows<HD, KvFormat::f16, KvFormat::f16>(group);
    return choose_codes(keys, values, [&]<KvFormat kKeys, KvFormat kValues>() {
      return choose_rows<HD, kKeys, kValues>(group);
    });
  });
}

SingleChoice choose(const AttentionParams& p, bool many_chunks) {
  const int group = p.heads.num_heads / p.heads.num_kv_heads;
  const bool fits = p.batch.max_query_tokens == 1 && group <= kTileRows &&
                    p.kv_shape.page_tokens % kChunkTokens == 0 && p.kv_shape.page_tokens <= kMaxPageTokens;
  if (!fits) return {};
  return choose(p.heads.head_dim, p.kv_shape.key_format, p.kv_shape.value_format, group, many_chunks);
}

// Returns the largest number of spans per sequence in the step; a sequence that ends within its first span
// has one.
int most_spans(const AttentionParams& p, int max_chunks) {
  const int of_all = (p.batch.max_kv_tokens + kSpanChunks * kChunkTokens - 1) / (kSpanChunks * kChunkTokens);
  const int of_seen = (max_chunks + 2 * (kSpanChunks - 1)) / kSpanChunks;  // wherever their first chunk lies
                                                                           // within a span
  return std::min(of_all, of_seen);
}

// Returns true if blocks with one span each keep the card busy; otherwise the step would wait for the blocks
// of one long sequence. For f16 the last round of blocks must be nearly full; for codes there must be enough
// rounds.
bool fill_card(int64_t blocks, const SingleChoice& choice, bool coded, const Device& device) {
  constexpr int kBlocksOfCodes = 7;  // per multiprocessor
  if (coded) return blocks >= int64_t{kBlocksOfCodes} * device.num_multiprocessors;
  const int64_t at_once = int64_t{choice.most_blocks} * device.num_multiprocessors;
  const int64_t rounds = (blocks + at_once - 1) / at_once;
  return 8 * blocks >= 7 * rounds * at_once;
}

// Returns the kernel whose blocks compute one span each, if spans are short or many and the blocks fit the
// card.
SingleChoice choose_spans(const AttentionParams& p, int max_chunks, int64_t blocks, const Device& device) {
  const bool coded = p.kv_shape.key_format != KvFormat::f16;
  SingleChoice choice = choose_attention_spans(
      p.heads.head_dim, p.kv_shape.key_format, p.kv_shape.value_format,
      p.heads.num_heads / p.heads.num_kv_heads, blocks >= kManyBlocks * device.num_multiprocessors);
  if (choice.kernel == nullptr) return {};
  const int most_chunks = blocks < device.num_multiprocessors        ? 4
                          : fill_card(blocks, choice, coded, device) ? kSpanChunks
                                                                     : 8;
  if (std::min(max_chunks, kSpanChunks) > most_chunks) return {};
  if (2 * (choice.spread_bytes + kBlockReserve) <= device.shared_per_multiprocessor)
    choice.shared_bytes = std::max(choice.shared_bytes, choice.spread_bytes);
  return choice.shared_bytes <= device.shared_per_block ? choice : SingleChoice{};
}

// Returns the number of chunks per block that fills the card's last round of blocks best.
int best_chunks_per_block(const SingleChoice& choice, int max_chunks, int tiles, int blocks_at_once) {
  int best = 1;
  int64_t least = INT64_MAX;
  for (int chunks = 1; chunks <= std::min(max_chunks, choice.most_chunks); ++chunks) {
    const int64_t blocks = int64_t{(max_chunks + chunks - 1) / chunks} * tiles;
    const int64_t rounds = (blocks + blocks_at_once - 1) / blocks_at_once;
    const int turns = (chunks + choice.chunks_at_once - 1) / choice.chunks_at_once;
    const int64_t cost = rounds * (2 * turns + 3);  // 3: start-up of a block, in half turns
    if (cost < least) {
      least = cost;
      best = chunks;
    }
  }
  return best;
}

// For long sequences: merges each span first, and then the spans, so that many blocks take part in the merge.
void merge_spans_first(MergeArguments& merge, int tiles, int max_spans, const AttentionScratch& scratch) {
  constexpr int kFewest = 4;  // below this the second merge costs more than it saves
  if (max_spans < kFewest || int64_t{tiles} * (1 + max_spans) > scratch.num_counters) return;
  merge.span_counters = scratch.counters + tiles;
  merge.max_spans = max_spans;
}

}  // namespace

// With code for 7.5, ptxas 13.0 compiles the kernels for quantized pages wrong at all levels of optimization
// but none: their results are wrong on a card of 9.0 (2026-11-30). Other kernels read these pages there.
bool single_fits(const AttentionParams& p, const SplitResources& room) {
  constexpr int32_t kOldestForCodes = 80;
  const bool coded = p.kv_shape.key_format != KvFormat::f16 || p.kv_shape.value_format != KvFormat::f16;
  if (coded && room.device->code_version < kOldestForCodes) return false;
  for (const bool many_chunks : {false, true}) {
    const SingleChoice choice = choose(p, many_chunks);
    if (choice.kernel == nullptr || choice.shared_bytes > room.device->shared_per_block) return false;
  }
  return decode_fits(p, room.max_chunks, *room.scratch);
}

cudaError_t launch_attention_single(const AttentionParams& p, const AppendKvParams* append,
                                    const int32_t* place, int max_chunks, const AttentionScratch& scratch,
                                    const SharedKeys* shared, const Device& device, Launch l) {
  const int group = p.heads.num_heads / p.heads.num_kv_heads;
  const int tiles = p.batch.num_sequences * p.heads.num_kv_heads;
  const bool many_chunks = int64_t{tiles} * max_chunks >= int64_t{kManyChunks} * device.num_multiprocessors;
  const int max_spans = most_spans(p, max_chunks);
  const SingleChoice spans =
      shared == nullptr ? choose_spans(p, max_chunks, int64_t{tiles} * max_spans, device) : SingleChoice{};
  const bool by_spans = spans.kernel != nullptr;
  const SingleChoice choice = by_spans ? spans : choose(p, many_chunks);
  const int per_block =
      by_spans ? kSpanChunks
               : best_chunks_per_block(choice, max_chunks, tiles,
                                       blocks_at_once(device, choice.shared_bytes, choice.most_blocks));
  const int blocks_of_tile = by_spans ? max_spans : (max_chunks + per_block - 1) / per_block;
  SingleArguments a{p,
                    {},
                    append != nullptr ? 1 : 0,
                    place,
                    per_block,
                    page_reciprocal_of(p.kv_shape.page_tokens),
                    merge_arguments(max_chunks, group, scratch, shared, p.kv_shape.page_tokens)};
  if (!by_spans) merge_spans_first(a.merge, tiles, max_spans, scratch);
  if (append != nullptr) a.append = *append;
  if (const cudaError_t e = launch_attention_shared(p, shared, a.merge, l); e != cudaSuccess) return e;
  const dim3 grid(static_cast<unsigned>(blocks_of_tile), static_cast<unsigned>(p.batch.num_sequences),
                  static_cast<unsigned>(p.heads.num_kv_heads));
  return launch_kernel(choice.kernel, grid, dim3(static_cast<unsigned>(choice.threads)), choice.shared_bytes,
                       l.stream, l.dependent, a);
}

cudaError_t setup_attention_single(int shared_limit) {
  const auto allow = [&](const SingleChoice& choice) {
    const int most = static_cast<int>(std::max(choice.shared_bytes, choice.spread_bytes));
    return cudaFuncSetAttribute(reinterpret_cast<const void*>(choice.kernel),
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                most <= shared_limit ? most : static_cast<int>(choice.shared_bytes));
  };
  for (const int dim : {64, 128}) {
    for (const auto& [keys, values] :
         {std::pair{KvFormat::f16, KvFormat::f16}, std::pair{KvFormat::q8, KvFormat::q8},
          std::pair{KvFormat::q8, KvFormat::q4}, std::pair{KvFormat::q4, KvFormat::q4}}) {
      for (const int i : {0, 1, 2, 3}) {
        const SingleChoice choice = choose(dim, keys, values, i < 2 ? 8 : 16, i % 2 == 1);
        if (choice.shared_bytes > static_cast<uint32_t>(shared_limit)) continue;
        if (const cudaError_t e = allow(choice); e != cudaSuccess) return e;
      }
      for (const bool many : {false, true}) {
        const SingleChoice spans = choose_attention_spans(dim, keys, values, 1, many);
        if (spans.shared_bytes > static_cast<uint32_t>(shared_limit)) continue;
        if (const cudaError_t e = allow(spans); e != cudaSuccess) return e;
      }
    }
  }
  return cudaSuccess;
}

}  // namespace quire::kernels
