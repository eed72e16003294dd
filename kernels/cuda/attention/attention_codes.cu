// Attention over quantized pages for steps with one token per sequence and many chunks: one warp per chunk of
// 128 keys. The warps of a block share only the queries until they finish, so no warp waits for another.
//
// Each warp copies codes (cp.async) through two ring slots of shared memory of its own and unpacks them to
// f16 in registers (attention_codes.cuh). Between the two products the warp transposes 8 x 8 blocks of
// weights.
//
// Operations: 2,950 instructions of a warp for a chunk of q4. 1,800 of these unpack its 32,768 codes (build a
// pair, subtract the zero, scale), and 136 are products of 16 x 8 x 16. Bytes: as in attention_single.cu.
#include <utility>

#include "kernels/cuda/attention/attention_codes.cuh"
#include "kernels/cuda/attention/attention_single.cuh"

namespace quire::kernels {
namespace {

constexpr int kMaxBlocks = 3;  // per multiprocessor (occupancy)
constexpr int kSteps = kChunkTokens / kStepKeys;
constexpr int kStepsAtOnce = 2;  // steps whose chains of products are interleaved

// One copy of a warp: some keys or values of a chunk.
template <int HD, KvFormat kFormat>
struct WarpSlot : CodeSlot<HD, kFormat, kFormat == KvFormat::q4 ? 64 : 32> {
  using Slot = CodeSlot<HD, kFormat, kFormat == KvFormat::q4 ? 64 : 32>;
  static constexpr int kTurns = kChunkTokens / Slot::kKeys;  // ring slots per chunk

  // Copies asynchronously, by one warp.
  __device__ __forceinline__ static void copy(const uint8_t* data, const uint8_t* scales, uint32_t slot,
                                              int lane) {
    constexpr int kRowBytes = Slot::kRowBytes;
    const uint32_t to = slot + Slot::place(lane * 16 / kRowBytes, lane * 16 % kRowBytes);
    copy_pieces(to, kRowBytes == 128 ? to ^ 64 : to, data + lane * 16,
                std::make_integer_sequence<int, Slot::kScalesAt / 512>());
    if (lane * 16 < Slot::kKeys * Slot::kScaleBytes)
      copy_async_16(slot + Slot::kScalesAt + lane * 16, scales + lane * 16);
  }

 private:
  template <int... kPieces>
  __device__ __forceinline__ static void copy_pieces(uint32_t even, uint32_t odd, const uint8_t* from,
                                                     std::integer_sequence<int, kPieces...>) {
    (copy_async_16_at<kPieces * 512>(kPieces % 2 == 0 ? even : odd, from), ...);
  }
};

// A warp's two ring slots. After each turn the slot just read is refilled with the data for two turns later.
template <int HD, KvFormat kKeyFormat, KvFormat kValueFormat>
class CodeRing {
 public:
  using K = WarpSlot<HD, kKeyFormat>;
  using V = WarpSlot<HD, kValueFormat>;
  static constexpr uint32_t kSlotBytes = K::kBytes > V::kBytes ? K::kBytes : V::kBytes;
  static constexpr uint32_t kBytes = 2 * kSlotBytes;
  static_assert(kSlotBytes % 128 == 0);

  __device__ __forceinline__ CodeRing(uint32_t slots, const KvLayer& kv, int lane)
      : slot_(slots), other_(slots + kSlotBytes), kv_(kv), lane_(lane) {}

  // Waits until the current slot is filled, and returns its address.
  __device__ __forceinline__ uint32_t wait() const {
    wait_for_copies<1>();
    __syncwarp();
    return slot_;
  }
  // Refill the slot just read (or fill the first): with turn `turn` of the keys or values of the chunk at
  // `row`.
  __device__ __forceinline__ void refill_with_keys(size_t row, int turn) {
    const size_t at = row + static_cast<size_t>(turn * K::kKeys);
    K::copy(static_cast<const uint8_t*>(kv_.keys) + at * K::kRowBytes,
            static_cast<const uint8_t*>(kv_.key_scales) + at * K::kScaleBytes, slot_, lane_);
    advance();
  }
  __device__ __forceinline__ void refill_with_values(size_t row, int turn) {
    const size_t at = row + static_cast<size_t>(turn * V::kKeys);
    V::copy(static_cast<const uint8_t*>(kv_.values) + at * V::kRowBytes,
            static_cast<const uint8_t*>(kv_.value_scales) + at * V::kScaleBytes, slot_, lane_);
    advance();
  }
  // Advances without a copy; commits an empty group.
  __device__ __forceinline__ void advance() {
    commit_copies();
    const uint32_t used = slot_;
    slot_ = other_;
    other_ = used;
  }

 private:
  uint32_t slot_, other_;
  const KvLayer& kv_;
  int lane_;
};

// Scores of a chunk, and the weights computed from them, in shared memory. Each lane has its own words there,
// so that loops over steps need not be unrolled. Unrolled, a chunk would be more code than the instruction
// cache holds.
struct LaneScores {
  static constexpr uint32_t kBytes = kSteps * 32 * 16;  // bytes of a warp for a tile of 8 rows
  uint32_t base;                                        // address of this lane's words

  __device__ __forceinline__ void put(int step, const float (&score)[4]) const {
    store_shared_16(base + step * 512, make_uint4(__float_as_uint(score[0]), __float_as_uint(score[1]),
                                                  __float_as_uint(score[2]), __float_as_uint(score[3])));
  }
  __device__ __forceinline__ void take(int step, uint32_t (&pair)[2]) const {
    const uint2 v = load_shared_8(base + step * 512);
    pair[0] = v.x;
    pair[1] = v.y;
  }
  // Converts scores to weights, two rows per word, and returns the maximum of each of the lane's rows.
  __device__ __forceinline__ void weigh(const ScoreRule& rule, bool cut, int first_key, int position,
                                        float (&largest)[2]) const {
    const float factor = rule.softcap > 0.0f ? kLog2E : __fmul_rn(rule.scale, kLog2E);
    float score[kSteps][4];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const uint4 v = load_shared_16(base + s * 512);
      score[s][0] = __fmul_rn(__uint_as_float(v.x), factor);
      score[s][1] = __fmul_rn(__uint_as_float(v.y), factor);
      score[s][2] = __fmul_rn(__uint_as_float(v.z), factor);
      score[s][3] = __fmul_rn(__uint_as_float(v.w), factor);
    }
    if (cut) {
#pragma unroll
      for (int i = 0; i < 4 * kSteps; ++i)
        if (rule.hides(first_key + i / 4 * kStepKeys + i % 4 / 2 * 8, position))
          score[i / 4][i % 4] = -INFINITY;
    }
    float from[2];  // subtracted from scores; 0 for a row without visible keys, whose weights are 0
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      largest[x] = fmaxf(score[0][x], score[0][2 + x]);
#pragma unroll
      for (int s = 1; s < kSteps; ++s) largest[x] = fmaxf(largest[x], fmaxf(score[s][x], score[s][2 + x]));
#pragma unroll
      for (int d = 4; d < 32; d <<= 1)
        largest[x] = fmaxf(largest[x], __shfl_xor_sync(0xffffffffU, largest[x], d));
      from[x] = largest[x] == -INFINITY ? 0.0f : largest[x];
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      uint2 pair;
      pair.x = transposed_8x8(
          bits_of(__floats2half2_rn(exp2_fast(score[s][0] - from[0]), exp2_fast(score[s][1] - from[1]))));
      pair.y = transposed_8x8(
          bits_of(__floats2half2_rn(exp2_fast(score[s][2] - from[0]), exp2_fast(score[s][3] - from[1]))));
      store_shared_8(base + s * 512, pair);
    }
  }
};

// Layout of shared memory. kTiles is the number of tiles of 8 rows.
template <int HD, KvFormat kKeyFormat, KvFormat kValueFormat, int kTiles>
struct Places {
  static constexpr uint32_t kSlots = 0;
  static constexpr uint32_t kScores = kSingleWarps * CodeRing<HD, kKeyFormat, kValueFormat>::kBytes;
  static constexpr uint32_t kRow = kScores;  // [4][HD] floats, before the scores
  static constexpr uint32_t kQueries =
      kScores + kSingleWarps * kTiles * LaneScores::kBytes;  // [8 * kTiles][HD] f16
  static constexpr uint32_t kUsed = kQueries + kTiles * HD * 16;
  static constexpr uint32_t kTotal = bytes_with_merge(kUsed, HD);
};

template <int HD, KvFormat kKeyFormat, KvFormat kValueFormat, int kTiles>
__global__ void __launch_bounds__(kSingleThreads, kTiles == 1 ? kMaxBlocks : 2)
    attention_codes_kernel(const __grid_constant__ SingleArguments a) {
  using P = Places<HD, kKeyFormat, kValueFormat, kTiles>;
  using Ring = CodeRing<HD, kKeyFormat, kValueFormat>;
  using K = typename Ring::K;
  using V = typename Ring::V;
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();

  const AttentionParams& p = a.p;
  const int warp = __shfl_sync(0xffffffffU, threadIdx.x >> 5, 0), lane = threadIdx.x & 31;
  const int g = lane >> 2, t = lane & 3;
  const ScoreRule rule{p.scale, p.softcap, p.sliding_window};
  const SingleWork work(a, rule);
  if (work.first >= work.end) return;
  const int num_chunks = work.num_chunks();
  int chunk = work.first + warp;
  const bool works = chunk < work.end;
  size_t row = works ? work.pages.row(chunk * kChunkTokens) : 0;
  const uint32_t base = shared_address(shared);
  Ring ring(base + P::kSlots + warp * Ring::kBytes, p.kv, lane);
  auto begin = [&] {
    ring.refill_with_keys(row, 0);
    ring.refill_with_keys(row, 1);
  };
  // Keys older than the token's own do not depend on the previous kernel.
  const bool waits = !works || chunk == work.last_chunk;
  if (!waits) begin();
  wait_for_predecessor();
  prepare_rows<HD, kKeyFormat, kValueFormat>(a, work, shared + P::kQueries,
                                             reinterpret_cast<float*>(shared + P::kRow) + warp * HD);
  __syncthreads();

  const PartialRows partial(a.merge, work.tile(a), HD);
  float* row_values = reinterpret_cast<float*>(shared);  // [16][HD]
  if (works) {
    if (waits) begin();
    uint32_t queries[kTiles][HD / 16][2];
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
      load_query_columns<HD>(base + P::kQueries + n * (8 * HD * 2), lane, queries[n]);
    const uint32_t pick = key_scale_pick(lane), upper_bytes = opaque_upper_bytes(work.group);
    auto scores_of = [&](int tile) {
      return LaneScores{base + P::kScores + (warp * kTiles + tile) * LaneScores::kBytes + lane * 16};
    };
#pragma unroll 1
    for (;;) {
      const int first_key = chunk * kChunkTokens;
      const bool more = chunk + kSingleWarps < work.end;
      const size_t next_row = more ? work.pages.row(first_key + kSingleWarps * kChunkTokens) : 0;
#pragma unroll 1
      for (int turn = 0; turn < K::kTurns; ++turn) {
        const uint32_t slot = ring.wait();
#pragma unroll 1
        for (int s = 0; s < K::kKeys / kStepKeys; s += kStepsAtOnce) {
          KeyStep<typename K::Slot> keys[kStepsAtOnce];
#pragma unroll
          for (int i = 0; i < kStepsAtOnce; ++i) keys[i].load(slot, s + i, lane);
#pragma unroll
          for (int n = 0; n < kTiles; ++n) {
            float score[kStepsAtOnce][4];
#pragma unroll
            for (int i = 0; i < kStepsAtOnce; ++i) keys[i].multiply(queries[n], pick, upper_bytes, score[i]);
            if (rule.softcap > 0.0f) {
#pragma unroll
              for (int x = 0; x < 4 * kStepsAtOnce; ++x)
                score[x / 4][x % 4] = capped(__fmul_rn(score[x / 4][x % 4], rule.scale), rule.softcap);
            }
#pragma unroll
            for (int i = 0; i < kStepsAtOnce; ++i)
              scores_of(n).put(turn * (K::kKeys / kStepKeys) + s + i, score[i]);
          }
        }
        __syncwarp();
        if (turn + 2 < K::kTurns) {
          ring.refill_with_keys(row, turn + 2);
        } else {
          ring.refill_with_values(row, turn + 2 - K::kTurns);
        }
      }
      float largest[kTiles][2];
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
        scores_of(n).weigh(rule, work.cuts(rule, chunk), first_key + g, work.position, largest[n]);
      float out[kTiles][HD / 16][4] = {};
      float sum[kTiles][4] = {};
      constexpr uint32_t ones[4] = {kOnes, kOnes, kOnes, kOnes};
      const int live = work.position + 1 - first_key;
#pragma unroll 1
      for (int turn = 0; turn < V::kTurns; ++turn) {
        const uint32_t slot = ring.wait();
#pragma unroll 1
        for (int s = 0; s < V::kKeys / kStepKeys; s += kStepsAtOnce) {
          const int first_step = turn * (V::kKeys / kStepKeys);
          ValueStep<typename V::Slot> values[kStepsAtOnce];
          uint32_t weights[kStepsAtOnce][kTiles][2];
#pragma unroll
          for (int i = 0; i < kStepsAtOnce; ++i) {
            values[i].load(slot, s + i, lane);
#pragma unroll
            for (int n = 0; n < kTiles; ++n) scores_of(n).take(first_step + s + i, weights[i][n]);
          }
          if (live < kChunkTokens) {
#pragma unroll
            for (int i = 0; i < kStepsAtOnce; ++i)
              values[i].clear_from(live - (first_step + s + i) * kStepKeys, lane);
          }
#pragma unroll
          for (int i = 0; i < kStepsAtOnce; ++i) {
            values[i].multiply(weights[i], upper_bytes, out);
#pragma unroll
            for (int n = 0; n < kTiles; ++n) mma_16x8x16(sum[n], ones, weights[i][n][0], weights[i][n][1]);
          }
        }
        __syncwarp();
        if (turn + 2 < V::kTurns) {
          ring.refill_with_values(row, turn + 2);
        } else if (more) {
          ring.refill_with_keys(next_row, turn + 2 - V::kTurns);
        } else {
          ring.advance();
        }
      }
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          const int r = 8 * n + 2 * t + x, at = chunk - work.first_chunk;
          if (r >= work.group) continue;
          if (num_chunks == 1) {
            const float share = 1.0f / sum[n][x];
#pragma unroll
            for (int j = 0; j < HD / 8; ++j)
              row_values[r * HD + g * (HD / 8) + j] = __fmul_rn(out[n][j / 2][2 * (j % 2) + x], share);
            continue;
          }
#pragma unroll
          for (int q = 0; q < HD / 32; ++q)
            __stcg(reinterpret_cast<float4*>(partial.row(at, r) + 32 * q + 4 * g),
                   make_float4(out[n][2 * q][x], out[n][2 * q][2 + x], out[n][2 * q + 1][x],
                               out[n][2 * q + 1][2 + x]));
          if (g == 0) __stcg(partial.total(at, r), make_float2(largest[n][x], sum[n][x]));
        }
      }
      if (!more) break;
      chunk += kSingleWarps;
      row = next_row;
    }
  }
  if (num_chunks > 1) {
    if (!merge_last<HD, merge_slots(P::kTotal, HD), ColumnsOfLanes<HD>>(a, work, work.num_blocks(a), partial,
                                                                        shared))
      return;
  }
  store_group<HD>(a, work, row_values);
}

template <int HD, KvFormat kKeyFormat, KvFormat kValueFormat>
SingleChoice choose_rows(int group) {
  SingleChoice c;
  c.kernel = group <= 8 ? attention_codes_kernel<HD, kKeyFormat, kValueFormat, 1>
                        : attention_codes_kernel<HD, kKeyFormat, kValueFormat, 2>;
  c.shared_bytes = group <= 8 ? Places<HD, kKeyFormat, kValueFormat, 1>::kTotal
                              : Places<HD, kKeyFormat, kValueFormat, 2>::kTotal;
  c.most_blocks = group <= 8 ? kMaxBlocks : 2;
  c.most_chunks = 64;
  c.chunks_at_once = kSingleWarps;
  return c;
}

}  // namespace

SingleChoice choose_attention_codes(int head_dim, KvFormat keys, KvFormat values, int group) {
  return choose_size(head_dim, [&]<int HD>() {
    return choose_codes(keys, values, [&]<KvFormat kKeys, KvFormat kValues>() {
      return choose_rows<HD, kKeys, kValues>(group);
    });
  });
}

}  // namespace quire::kernels
