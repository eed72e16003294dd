// Tiles of 16 and 32 tokens. See GemmShape.
//
// Two warps share a strip, one for each half of K. They go along their chains side by side, c and c + 8 at
// the same time, and add what both have found: each for half of the tokens, so that sums of pairs of chains
// take no more registers than a warp has to spare where 16 of them share a multiprocessor. The warps of a
// half bring activations to shared memory together, a stage of two segments ahead; weights come by each
// warp's own ring. No barrier holds all of them: a warp may be a stage ahead of the others.
//
// Where a matrix has too few columns to fill the card its chains are split over blocks: sums meet in memory,
// and the warp that arrives last at a half strip adds them in order.
//
// Bytes: the weights once per tile of tokens, activations once per group of strips from L2. Per 1,024 weights
// of 4 bits and 32 tokens: 16 tensor instructions, 36 to make the weights, 5 loads.
#pragma once

#include "kernels/cuda/gemm_output.cuh"
#include "kernels/cuda/launch.cuh"

namespace quire::kernels {

// A block's share of the work: a group of strips and a split of the chains.
struct WideTask {
  int group;
  int split;
};

__device__ __forceinline__ WideTask wide_task(const GemmShape& s, int number) {
  return {number >> s.split_bits, number & (s.splits - 1)};
}

// First chain of a half's share in a task; the share's segments follow each other.
__device__ __forceinline__ int wide_chain(const GemmShape& s, int half, int split) {
  return half * (kNumChains / 2) + split * s.chains;
}

// Where the segments of each part lie in their strip and what they look like, in shared memory.
template <TileKind kKind>
class SegmentTable {
 public:
  __device__ __forceinline__ SegmentTable(uint32_t address, const Matrix& m)
      : address_(address), segments_(m.num_blocks * kBlockSteps / kSegmentSteps<kKind>) {}
  // Called by all threads of the block, which then meet.
  __device__ __forceinline__ void fill(const Matrix& m) const {
    if constexpr (kKind != TileKind::dense) {
#pragma unroll 1
      for (int p = 0; p < m.num_parts; ++p) {
#pragma unroll 1
        for (int r = 0; r < m.parts[p].num_runs; ++r) {
          const Run& run = m.parts[p].runs[r];
          const uint32_t form = run.segment_bytes | run.bits << 16 | run.records << 24;
#pragma unroll 1
          for (int i = run.first + static_cast<int>(threadIdx.x); i < run.end;
               i += static_cast<int>(blockDim.x))
            store_shared_8(place(p, i),
                           make_uint2(run.first_byte + (i - run.first) * run.segment_bytes, form));
        }
      }
    }
  }
  // Where the entry of a segment lies; those of the next follow.
  __device__ __forceinline__ uint32_t place(int part, int segment) const {
    return address_ + kEntryBytes * (part * segments_ + segment);
  }
  __device__ __forceinline__ uint32_t offset(uint32_t place, int segment) const {
    if constexpr (kKind == TileKind::dense) {
      return segment * kDenseBytes;
    } else {
      return load_shared_4(place);
    }
  }
  // bytes | bits << 16 | records << 24.
  __device__ __forceinline__ uint32_t form(uint32_t place) const {
    if constexpr (kKind == TileKind::dense) {
      return kDenseBytes | 16 << 16;
    } else {
      return load_shared_4(place + 4);
    }
  }

  static constexpr uint32_t kEntryBytes = 8;

 private:
  static constexpr uint32_t kDenseBytes = kStepRows * kStripColumns * 2;

  uint32_t address_;
  int segments_;
};

// Asks for a warp's segments in the order in which they will be worked on.
template <TileKind kKind>
class WideRequests {
 public:
  __device__ __forceinline__ WideRequests(const GemmArguments& a, const SegmentTable<kKind>& table, int slot,
                                          int half)
      : a_(a), table_(table), slot_(slot), half_(half), task_(static_cast<int>(blockIdx.y)) {}
  __device__ __forceinline__ void next(WarpRing& ring, int lane) {
    if (left_ == 0 && !open()) return ring.request_nothing();
    const uint32_t bytes = table_.form(entry_) & 0xffff;
    ring.request(from_, bytes, lane);
    from_ += bytes;
    entry_ += SegmentTable<kKind>::kEntryBytes;
    --left_;
  }

 private:
  __device__ __forceinline__ bool open() {
#pragma unroll 1
    while (task_ < a_.shape.tasks) {
      const WideTask task = wide_task(a_.shape, task_);
      task_ += static_cast<int>(gridDim.y);
      const StripPlace place = place_strip(a_, task.group, slot_);
      const int chain = wide_chain(a_.shape, half_, task.split);
      const int first = chain_begin<kKind>(a_.matrix, chain);
      left_ = chain_begin<kKind>(a_.matrix, chain + a_.shape.chains) - first;
      if (place.part < 0) left_ = 0;
      if (left_ == 0) continue;
      entry_ = table_.place(place.part, first);
      const Part& part = a_.matrix.parts[place.part];
      from_ =
          part.strips + static_cast<size_t>(place.strip) * part.strip_bytes + table_.offset(entry_, first);
      return true;
    }
    return false;
  }

  const GemmArguments& a_;
  const SegmentTable<kKind>& table_;
  int slot_;
  int half_;
  int task_;
  int left_ = 0;  // segments of the task
  uint32_t entry_ = 0;
  const uint8_t* from_ = nullptr;
};

// Stages of activations of one half of K: [step][tile][lane] pieces of 16 bytes, those of kStageSegments
// segments that follow each other each, or of what is left of a task.
class ActivationRing {
 public:
  __device__ __forceinline__ ActivationRing(const GemmShape& s, uint32_t base, int half)
      : stages_(base + s.activations_at + half * s.stages * s.stage_bytes),
        barriers_(base + kStageBarriersAt + half * kMostStages * 16),
        stage_bytes_(s.stage_bytes),
        num_stages_(s.stages) {}
  // By one thread. All lanes of `warps` warps fill the ring, and all of them read it.
  __device__ __forceinline__ void create(int warps) const {
#pragma unroll 1
    for (int i = 0; i < num_stages_; ++i) {
      barrier_init(barriers_ + 16 * i, 32 * warps);
      barrier_init(barriers_ + 16 * i + 8, warps);
    }
  }
  // To fill: an address to copy to, then that this thread's copies are on their way.
  __device__ __forceinline__ uint32_t begin_fill() const {
    barrier_wait(barriers_ + 16 * stage_ + 8, phase_ ^ 1);
    return address();
  }
  __device__ __forceinline__ void end_fill() {
    barrier_arrive_after_copies(barriers_ + 16 * stage_);
    advance();
  }
  // To read.
  __device__ __forceinline__ uint32_t wait() const {
    barrier_wait(barriers_ + 16 * stage_, phase_);
    return address();
  }
  __device__ __forceinline__ void release(int lane) {
    if (lane == 0) barrier_arrive(barriers_ + 16 * stage_ + 8);
    advance();
  }

 private:
  __device__ __forceinline__ uint32_t address() const {
    return stages_ + stage_ * stage_bytes_;
  }
  __device__ __forceinline__ void advance() {
    if (++stage_ == num_stages_) {
      stage_ = 0;
      phase_ ^= 1;
    }
  }

  uint32_t stages_;
  uint32_t barriers_;
  uint32_t stage_bytes_;
  int num_stages_;
  int stage_ = 0;
  uint32_t phase_ = 0;
};

// Brings the activations of a half's segments, all warps of that half together.
template <TileKind kKind, int kTiles>
class ActivationFill {
 public:
  // `thread` of those of the half. Tokens that are not there are left out: what lies in their place reaches
  // no sum but their own.
  __device__ __forceinline__ ActivationFill(const GemmArguments& a, uint32_t base, int half, int thread)
      : a_(a), ring_(a.shape, base, half), half_(half), task_(static_cast<int>(blockIdx.y)) {
    const int token = thread / kPieces, tokens = a.shape.strips * 32 / kPieces;  // at once
    const int first_token = static_cast<int>(blockIdx.x) * (kTiles * 8);
    const int live = min(kTiles * 8, a.rows - first_token) - token;
    piece_ = thread % kPieces;
    rounds_ = live > 0 ? (live + tokens - 1) / tokens : 0;
    row_ = a.input + static_cast<size_t>(first_token + (live > 0 ? token : 0)) * a.input_stride + piece_ * 8;
    place_ = ((piece_ / 4 * kTiles * 8 + token) * 4 + piece_ % 4) * 16;
    round_bytes_ = tokens * 64;
    round_stride_ = tokens * a.input_stride;
  }
  __device__ __forceinline__ void next() {
    if (left_ <= 0 && !open()) return;
    uint32_t target = ring_.begin_fill() + place_;
    const __half* from = from_;
    const bool mine = piece_ < left_ * kSegmentPieces;
#pragma unroll 1
    for (int r = mine ? rounds_ : 0; r > 0; --r) {
      copy_async_16(target, from);
      target += round_bytes_;
      from += round_stride_;
    }
    ring_.end_fill();
    from_ += kPieces * 8;
    left_ -= kStageSegments;
  }

 private:
  static constexpr int kSegmentPieces = 4 * kSegmentSteps<kKind>;  // of a token's row
  static constexpr int kPieces = kSegmentPieces * kStageSegments;

  __device__ __forceinline__ bool open() {
    left_ = 0;
#pragma unroll 1
    while (left_ == 0 && task_ < a_.shape.tasks) {
      const int chain = wide_chain(a_.shape, half_, wide_task(a_.shape, task_).split);
      task_ += static_cast<int>(gridDim.y);
      const int first = chain_begin<kKind>(a_.matrix, chain);
      left_ = chain_begin<kKind>(a_.matrix, chain + a_.shape.chains) - first;
      from_ = row_ + first * kSegmentPieces * 8;
    }
    return left_ > 0;
  }

  const GemmArguments& a_;
  ActivationRing ring_;
  int half_;
  int task_;
  int left_ = 0;  // segments of the task
  int piece_;
  int rounds_;  // copies of this thread for a stage
  uint32_t round_bytes_;
  int round_stride_;
  uint32_t place_;
  const __half* row_ = nullptr;
  const __half* from_ = nullptr;
};

// A half strip's sums: 32 columns by half of the tokens.
template <int kTiles>
using HalfSums = Sums<kTiles / 2>;

// What a warp and its partner found for a chain each, added: for the tokens from tile kKept on. `mine` and
// `other` are their places in shared memory.
template <int kTiles, int kKept>
__device__ __forceinline__ void exchange(const Sums<kTiles>& totals, int barrier, uint32_t mine,
                                         uint32_t other, HalfSums<kTiles>& sum) {
  constexpr int kHalf = kTiles / 2, kGiven = kHalf - kKept;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int n = 0; n < kHalf; ++n) {
      const float* give = totals[i][kGiven + n];
      store_shared_16(mine + (i * kHalf + n) * 512,
                      make_uint4(__float_as_uint(give[0]), __float_as_uint(give[1]), __float_as_uint(give[2]),
                                 __float_as_uint(give[3])));
    }
  }
  named_barrier(barrier, 64);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int n = 0; n < kHalf; ++n) {
      const uint4 v = load_shared_16(other + (i * kHalf + n) * 512);
      sum[i][n][0] = totals[i][kKept + n][0] + __uint_as_float(v.x);
      sum[i][n][1] = totals[i][kKept + n][1] + __uint_as_float(v.y);
      sum[i][n][2] = totals[i][kKept + n][2] + __uint_as_float(v.z);
      sum[i][n][3] = totals[i][kKept + n][3] + __uint_as_float(v.w);
    }
  }
  named_barrier(barrier, 64);  // both places are free
}

// A half strip's results, one token after another, 32 columns by the lanes of the warp.
template <int kTiles>
__device__ __forceinline__ void put_columns(float* place, const HalfSums<kTiles>& sums, int lane) {
  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int n = 0; n < kTiles / 2; ++n) {
    float* at = place + (8 * n + 2 * t) * kStripColumns;  // the swizzle of these tokens is t
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        const int column = (16 * i + 8 * x + g) ^ (t << 3);
        at[column] = sums[i][n][2 * x];
        at[column + kStripColumns] = sums[i][n][2 * x + 1];
      }
    }
  }
}

// Leaves a warp's sums in memory. True for the warp that arrives last at the half strip; `all` is then the
// sum over all splits.
template <int kTiles>
__device__ __forceinline__ bool meet(const GemmArguments& a, size_t half_strip, int split, int lane,
                                     HalfSums<kTiles>& all) {
  constexpr int kHalf = kTiles / 2;
  constexpr int splits = kMostSplits;
  auto* partials = reinterpret_cast<float4*>(a.partials) + half_strip * splits * (kTiles * 32) + lane;
  auto piece = [&](int s, int i, int n) { return partials + (s * kTiles + i * kHalf + n) * 32; };
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int n = 0; n < kHalf; ++n)
      __stcg(piece(split, i, n), make_float4(all[i][n][0], all[i][n][1], all[i][n][2], all[i][n][3]));
  }
  __syncwarp();
  uint32_t before = 0;
  if (lane == 0) {
    before = add_acquire_release(a.counters + half_strip, 1);
    if (before + 1 == splits) a.counters[half_strip] = 0;
  }
  before = __shfl_sync(0xffffffffU, before, 0);
  if (before + 1 != splits) return false;
  __syncwarp();
  auto plus = [](float4 x, float4 y) { return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w); };
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int n = 0; n < kHalf; ++n) {
      auto of = [&](int s) { return __ldcg(piece(s, i, n)); };
      float4 sum = of(0);
#pragma unroll
      for (int s = 1; s < kMostSplits; ++s) sum = plus(sum, of(s));
      all[i][n][0] = sum.x;
      all[i][n][1] = sum.y;
      all[i][n][2] = sum.z;
      all[i][n][3] = sum.w;
    }
  }
  return true;
}

// kTiles: tiles of 8 tokens.
template <TileKind kKind, int kTiles>
__global__ void __launch_bounds__(kWideThreads, 1) gemm_wide_kernel(const __grid_constant__ GemmArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  release_successor();

  const Matrix& m = a.matrix;
  const GemmShape& shape = a.shape;
  const int warp = __shfl_sync(0xffffffffU, threadIdx.x >> 5, 0), lane = kept(threadIdx.x & 31);
  const int first_token = static_cast<int>(blockIdx.x) * (kTiles * 8);
  const uint32_t base = shared_address(shared);
  const SegmentTable<kKind> table(base + shape.table_at, m);
  table.fill(m);
  if (threadIdx.x < 2) ActivationRing(shape, base, static_cast<int>(threadIdx.x)).create(shape.strips);
  __syncthreads();

  const int slot = warp >> 1, half = warp & 1;
  WarpRing ring(base + shape.rings_at + warp * shape.ring_slots * shape.slot_bytes,
                base + warp * kBarrierBytes, shape.ring_slots, shape.slot_bytes, lane);
  WideRequests<kKind> requests(a, table, slot, half);
#pragma unroll 1
  for (int i = 0; i < ring.size(); ++i) requests.next(ring, lane);
  ActivationRing activations(shape, base, half);
  ActivationFill<kKind, kTiles> fill(a, base, half, slot * 32 + lane);
  constexpr uint32_t kExchangeBytes = kTiles * 512;  // of a warp
  constexpr int kHalfFloats = kTiles / 2 * 8 * kStripColumns;
  static_assert(kExchangeBytes == kHalfFloats * 4);
  const uint32_t mine = base + shape.sums_at + warp * kExchangeBytes + lane * 16;
  const uint32_t other = base + shape.sums_at + (warp ^ 1) * kExchangeBytes + lane * 16;
  float* columns = reinterpret_cast<float*>(shared + shape.sums_at) + warp * kHalfFloats;
  const int tokens = min(kTiles * 4, a.rows - first_token - half * kTiles * 4);
  wait_for_predecessor();
  // A warp fills as far ahead as leaves the others a stage to be behind.
#pragma unroll 1
  for (int i = 2; i < shape.stages; ++i) fill.next();

#pragma unroll 1
  for (int number = static_cast<int>(blockIdx.y); number < shape.tasks;
       number += static_cast<int>(gridDim.y)) {
    const WideTask task = wide_task(shape, number);
    const StripPlace place = place_strip(a, task.group, slot);
    HalfSums<kTiles> sums;
    const int first_chain = wide_chain(shape, half, task.split);
    int segment = chain_begin<kKind>(m, first_chain);
    uint32_t entry = table.place(max(place.part, 0), segment);
    uint32_t next_form = table.form(entry), pieces = 0;
    const int task_end = chain_begin<kKind>(m, first_chain + shape.chains);
    int in_stage = 0;  // segments done of the stage
#pragma unroll 1
    for (int i = 0; i < shape.chains; ++i) {
      const int end = chain_begin<kKind>(m, first_chain + i + 1);
      Sums<kTiles> totals;
      clear<kTiles>(totals);
#pragma unroll 1
      for (; segment < end; ++segment) {
        if (in_stage == 0) {
          fill.next();
          pieces = activations.wait() + lane * 16;
        }
        if (place.part >= 0) {
          const uint32_t form = __shfl_sync(0xffffffffU, next_form, 0);
          entry += SegmentTable<kKind>::kEntryBytes;
          next_form = table.form(entry);  // behind the last there is something to read, too
          const auto take = [&](uint4(&b)[kTiles]) {
#pragma unroll
            for (int n = 0; n < kTiles; ++n) b[n] = load_shared_16(pieces + n * 512);
            pieces += kTiles * 512;
          };
          const uint32_t address = ring.wait();
          multiply_segment<kKind, kTiles, true>(address, form >> 16 & 0xff, form >> 24, lane, take, totals);
          __syncwarp();
          requests.next(ring, lane);
        }
        if (++in_stage == kStageSegments || segment + 1 == task_end) {
          activations.release(lane);
          in_stage = 0;
        }
      }
      HalfSums<kTiles> sum;
      if (half == 0) {
        exchange<kTiles, 0>(totals, 1 + slot, mine, other, sum);
      } else {
        exchange<kTiles, kTiles / 2>(totals, 1 + slot, mine, other, sum);
      }
      if (i == 0) {
        copy<kTiles / 2>(sum, sums);
      } else {
        add<kTiles / 2>(sum, sums);
      }
    }
    if (shape.splits > 1) {
      if (place.part < 0) continue;
      const size_t strip = static_cast<size_t>(blockIdx.x) * m.num_strips + task.group * shape.strips + slot;
      if (!meet<kTiles>(a, strip * 2 + half, task.split, lane, sums)) continue;
    }
    put_columns<kTiles>(columns, sums, lane);
    if (m.paired) {
      named_barrier(1 + kWideStrips + slot / 2, 128);  // a gate with its up
    } else {
      __syncwarp();
    }
    // Of a pair each warp finishes half of its tokens.
#pragma unroll 1
    for (int token = m.paired ? slot & 1 : 0; token < tokens; token += m.paired ? 2 : 1) {
      const int at = sum_place(token, lane), to = first_token + half * kTiles * 4 + token;
      if (!m.paired) {
        finish_single(a, place, to, lane, columns[at]);
      } else if (place.part >= 0) {
        const float* gate = columns - (slot & 1) * 2 * kHalfFloats;
        finish_pair(a, place.strip, to, lane, gate[at], gate[2 * kHalfFloats + at]);
      }
    }
    if (m.paired) {
      named_barrier(1 + kWideStrips + slot / 2, 128);  // the next sums take the place
    } else {
      __syncwarp();
    }
  }
}

}  // namespace quire::kernels
