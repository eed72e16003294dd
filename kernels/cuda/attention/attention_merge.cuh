// Merge of partial results for split-KV attention, in which several blocks share a tile of rows. The last
// block to finish merges the parts in order of position. A part is a chunk, or a span of chunks that one
// block has merged already.
#pragma once

#include "kernels/cuda/attention/attention.cuh"

namespace quire::kernels {

struct MergeArguments {
  int32_t max_chunks;
  int32_t tile_rows;   // largest number of used rows per tile in the step
  float* partials;     // [tile][chunk][partial_floats]; a span uses the place of its first chunk
  uint32_t* counters;  // [tile], zero before and after
  // [tile][max_spans], likewise, if blocks merge each span first and then the tile; or nullptr.
  uint32_t* span_counters;
  int32_t max_spans;
  // Number of pages of each sequence that launch_attention_shared has read, or nullptr; and chunks per page.
  const int32_t* shared_pages;
  int32_t page_chunks;

  __device__ __forceinline__ int shared_chunks(int sequence) const {
    return shared_pages != nullptr ? shared_pages[sequence] * page_chunks : 0;
  }
};

inline MergeArguments merge_arguments(int max_chunks, int tile_rows, const AttentionScratch& scratch,
                                      const SharedKeys* shared, int page_tokens) {
  return {max_chunks,
          tile_rows,
          scratch.partials,
          scratch.counters,
          nullptr,
          0,
          shared != nullptr ? shared->page_counts : nullptr,
          page_tokens / kChunkTokens};
}

// Returns the floats of one part of one tile: rows of values, then maximum and sum of each row.
__host__ __device__ constexpr int partial_floats(int tile_rows, int dim) {
  return tile_rows * dim + (2 * tile_rows + 3) / 4 * 4;
}

class PartialRows {
 public:
  // Rows are counted from `first_row` of the tile.
  __device__ __forceinline__ PartialRows(const MergeArguments& a, int tile, int dim, int first_row = 0)
      : part_floats_(partial_floats(a.tile_rows, dim)),
        rows_(a.tile_rows),
        dim_(dim),
        first_row_(first_row),
        first_(a.partials + static_cast<size_t>(tile) * a.max_chunks * part_floats_) {}
  __device__ __forceinline__ float* row(int part, int row) const {
    return at(part) + (first_row_ + row) * dim_;
  }
  __device__ __forceinline__ float2* total(int part, int row) const {
    return reinterpret_cast<float2*>(at(part) + rows_ * dim_) + first_row_ + row;
  }
  __device__ __forceinline__ size_t part_floats() const { return static_cast<size_t>(part_floats_); }

 private:
  __device__ __forceinline__ float* at(int part) const {
    return first_ + static_cast<size_t>(part) * part_floats_;
  }

  int part_floats_;
  int rows_;
  int dim_;
  int first_row_;
  float* first_;
};

// Parts of a tile to be merged, numbered from the first place of their span.
struct PartsInOrder {
  int first, end;
  int stride, offset;  // part i is stored at chunk stride * i - offset of the tile

  // Returns `count` chunks from chunk `begin` on, for a tile that begins with chunk `first_chunk`.
  __device__ __forceinline__ static PartsInOrder chunks(int first_chunk, int begin, int count) {
    const int first = begin % kSpanChunks;
    return {first, first + count, 1, first - (begin - first_chunk)};
  }
  // Returns all spans, each stored at the place of its first chunk.
  __device__ __forceinline__ static PartsInOrder spans(int first_chunk, int count) {
    return {0, count, kSpanChunks, first_chunk % kSpanChunks};
  }
  __device__ __forceinline__ bool are_spans() const { return stride == kSpanChunks; }
  __device__ __forceinline__ int place(int part) const { return max(0, stride * part - offset); }
};

// Adds `count` to a counter that ends at `all`. Returns true in the block that completes it; that block can
// read everything that the other blocks wrote before. Called by all threads.
__device__ __forceinline__ bool completes_counter(uint32_t* counter, int count, int all) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const auto own = static_cast<uint32_t>(count);
    last = atomicAdd(counter, own) + own == static_cast<uint32_t>(all);
    if (last) *counter = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}
// Returns true in the last of `num_blocks` blocks to finish the tile.
__device__ __forceinline__ bool is_last_block(const MergeArguments& a, int tile, int num_blocks) {
  return completes_counter(a.counters + tile, 1, num_blocks);
}

// Warps of a block that merge; each handles its own rows.
constexpr int kMergeWarps = 4;

// Returns the shared memory of a merge: the merged rows and, for each warp, ring slots for parts of a row.
__host__ __device__ constexpr uint32_t merge_shared_bytes(int dim, int slots) {
  return static_cast<uint32_t>((kTileRows + kMergeWarps * slots) * dim) * 4;
}
constexpr int kMinMergeSlots = 8;
// Returns the number of ring slots that fit.
__host__ __device__ constexpr int merge_slots(uint32_t shared_bytes, int dim) {
  return merge_shared_bytes(dim, 32) <= shared_bytes   ? 32
         : merge_shared_bytes(dim, 16) <= shared_bytes ? 16
                                                       : kMinMergeSlots;
}
// Returns the shared memory of a kernel that uses `used` bytes before it merges.
__host__ __device__ constexpr uint32_t bytes_with_merge(uint32_t used, int dim) {
  const uint32_t merge = merge_shared_bytes(dim, kMinMergeSlots);
  return used > merge ? used : merge;
}

// Order of columns in partial rows that equals the order in the head.
struct ColumnsInOrder {
  __device__ __forceinline__ static int dimension(int column) { return column; }
};

// Order of columns in partial rows for lanes that write four columns each, so that their writes are
// contiguous: columns of lane g from 4g + 32q on are its dimensions from 4q on.
template <int HD>
struct ColumnsOfLanes {
  __device__ __forceinline__ static int dimension(int column) {
    return column % 32 / 4 * (HD / 8) + column / 32 * 4;
  }
};

// Columns of a row that a lane holds: kPieces runs of kWidth adjacent columns.
template <int HD>
struct LaneColumns {
  static constexpr int kWidth = HD < 128 ? HD / 32 : 4;
  static constexpr int kPieces = HD / 32 / kWidth;
  __device__ __forceinline__ static int first(int piece, int lane) { return (piece * 32 + lane) * kWidth; }
};

// Ring of a row's parts copied from memory, for one warp. A lane reads only data that it copied itself, so no
// lane waits for another.
template <int HD, int kSlots>
class PartRing {
 public:
  using L = LaneColumns<HD>;
  static constexpr int kBatch = kSlots / 4;  // parts copied at a time
  static_assert(kSpanChunks % kBatch == 0);

  __device__ __forceinline__ PartRing(const PartialRows& partial, PartsInOrder parts, int row, uint32_t slots,
                                      int lane)
      : from_(partial.row(0, row)),
        part_floats_(partial.part_floats()),
        parts_(parts),
        slots_(slots),
        lane_(lane) {
#pragma unroll 1
    for (int batch = 0; batch < kSlots; batch += kBatch) ask(batch);
  }
  // Copies the batch that begins with this part; skips parts before the first and after the last.
  __device__ __forceinline__ void ask(int batch) const {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (batch + i >= parts_.end) break;
      if (batch + i < parts_.first) continue;
      const float* part = from_ + parts_.place(batch + i) * part_floats_;
#pragma unroll
      for (int piece = 0; piece < L::kPieces; ++piece) {
        const int column = L::first(piece, lane_);
        const uint32_t to = place(batch + i, column);
        if constexpr (L::kWidth == 4) copy_async_16(to, part + column);
        if constexpr (L::kWidth == 2) copy_async_8(to, part + column);
      }
    }
    commit_copies();
  }
  // Waits until the oldest batch is complete.
  __device__ __forceinline__ static void wait() {
    wait_for_copies<kSlots / kBatch - 1>();
  }
  __device__ __forceinline__ void read(int part, float (&to)[HD / 32]) const {
#pragma unroll
    for (int piece = 0; piece < L::kPieces; ++piece) {
      const uint32_t at = place(part, L::first(piece, lane_));
      if constexpr (L::kWidth == 4) {
        const uint4 v = load_shared_16(at);
        to[4 * piece] = __uint_as_float(v.x);
        to[4 * piece + 1] = __uint_as_float(v.y);
        to[4 * piece + 2] = __uint_as_float(v.z);
        to[4 * piece + 3] = __uint_as_float(v.w);
      } else {
        const uint2 v = load_shared_8(at);
        to[0] = __uint_as_float(v.x);
        to[1] = __uint_as_float(v.y);
      }
    }
  }

 private:
  __device__ __forceinline__ uint32_t place(int part, int column) const {
    return slots_ + static_cast<uint32_t>(part % kSlots * HD + column) * 4;
  }

  const float* from_;
  size_t part_floats_;
  PartsInOrder parts_;
  uint32_t slots_;
  int lane_;
};

// Merged result of a row so far: a lane's columns (LaneColumns).
template <int HD>
struct MergedRow {
  using L = LaneColumns<HD>;
  float largest = -INFINITY, sum = 0.0f, values[HD / 32] = {};

  // Merges the result of earlier keys before this one.
  __device__ __forceinline__ void follow(const MergedRow& before) {
    float both = before.largest, of_before, of_this;
    merge_factors(both, largest, of_before, of_this);
    largest = both;
    sum = merged(before.sum, of_before, sum, of_this);
#pragma unroll
    for (int i = 0; i < HD / 32; ++i) values[i] = merged(before.values[i], of_before, values[i], of_this);
  }
  // Stores the values divided by the sum.
  template <typename Columns>
  __device__ __forceinline__ void put(float* row) const {
    const float share = 1.0f / sum;
#pragma unroll
    for (int piece = 0; piece < L::kPieces; ++piece) {
      const int column = L::first(piece, threadIdx.x & 31);
      float* to = row + Columns::dimension(column / 4 * 4) + column % 4;
#pragma unroll
      for (int j = 0; j < L::kWidth; ++j) to[j] = __fmul_rn(values[piece * L::kWidth + j], share);
    }
  }
  // Stores the result as a part, to be merged with others.
  __device__ __forceinline__ void leave(const PartialRows& partial, int part, int row) const {
#pragma unroll
    for (int piece = 0; piece < L::kPieces; ++piece) {
      float* to = partial.row(part, row) + L::first(piece, threadIdx.x & 31);
#pragma unroll
      for (int j = 0; j < L::kWidth; j += 2)
        __stcg(reinterpret_cast<float2*>(to + j),
               make_float2(values[piece * L::kWidth + j], values[piece * L::kWidth + j + 1]));
    }
    if ((threadIdx.x & 31) == 0) __stcg(partial.total(part, row), make_float2(largest, sum));
  }
};

// Merges one row with one warp: its parts in order of position. The factors of as many parts as a span has
// chunks are computed at once from their maxima and sums; the bits equal those of merge_factors and merged,
// part by part.
template <int HD, int kSlots>
__device__ __forceinline__ MergedRow<HD> merge_row(const PartialRows& partial, PartsInOrder parts, int row,
                                                   uint32_t slots) {
  using Ring = PartRing<HD, kSlots>;
  constexpr int kAtOnce = kSpanChunks;
  const int lane = threadIdx.x & 31, end = parts.end;
  const auto total = [&](int part) {
    return lane < kAtOnce && part >= parts.first && part < end ? __ldcg(partial.total(parts.place(part), row))
                                                               : make_float2(-INFINITY, 0.0f);
  };
  float2 next = total(lane);
  const Ring ring(partial, parts, row, slots, lane);
  MergedRow<HD> before, span;  // earlier spans, and the current span so far
#pragma unroll 1
  for (int begin = 0; begin < end; begin += kAtOnce) {
    const float2 part = next;
    next = total(begin + kAtOnce + lane);
    if (begin > 0 && !parts.are_spans()) {
      if (begin > kAtOnce) span.follow(before);
      before = span;
      span = {};
    }
    float upto = fmaxf(span.largest, part.x);  // maximum of all parts up to the lane's
#pragma unroll
    for (int d = 1; d < kAtOnce; d <<= 1) {
      const float other = __shfl_up_sync(0xffffffffU, upto, d);
      if (lane >= d) upto = fmaxf(upto, other);
    }
    float largest = __shfl_up_sync(0xffffffffU, upto, 1);
    if (lane == 0) largest = span.largest;
    float old_factor, new_factor;
    merge_factors(largest, part.x, old_factor, new_factor);
    span.largest = __shfl_sync(0xffffffffU, upto, kAtOnce - 1);
#pragma unroll 1
    for (int batch = 0; batch < kAtOnce && begin + batch < end; batch += Ring::kBatch) {
      Ring::wait();
#pragma unroll
      for (int i = 0; i < Ring::kBatch; ++i) {
        const int at = batch + i;
        if (begin + at >= end) break;
        if (begin + at < parts.first) continue;
        const float old_share = __shfl_sync(0xffffffffU, old_factor, at);
        const float new_share = __shfl_sync(0xffffffffU, new_factor, at);
        span.sum = merged(span.sum, old_share, __shfl_sync(0xffffffffU, part.y, at), new_share);
        float x[HD / 32];
        ring.read(begin + at, x);
#pragma unroll
        for (int j = 0; j < HD / 32; ++j) span.values[j] = merged(span.values[j], old_share, x[j], new_share);
      }
      ring.ask(begin + batch + kSlots);
    }
  }
  if (end > kAtOnce && !parts.are_spans()) span.follow(before);
  return span;
}

// Merges the parts of each row of a tile and calls keep(row, MergedRow) in the row's warp. Uses
// merge_shared_bytes(HD, kSlots) of shared memory, whose old content is lost. A single block reads all parts
// of a tile while other blocks read pages; therefore it issues many loads at once and has little code.
template <int HD, int kSlots, typename Keep>
__device__ __forceinline__ void merge_rows(const PartialRows& partial, PartsInOrder parts, int rows,
                                           uint8_t* shared, Keep keep) {
  const int warp = threadIdx.x >> 5;
  if (warp >= kMergeWarps) return;
  const uint32_t slots = shared_address(shared) + static_cast<uint32_t>((kTileRows + warp * kSlots) * HD) * 4;
#pragma unroll 1
  for (int row = warp; row < rows; row += kMergeWarps)
    keep(row, merge_row<HD, kSlots>(partial, parts, row, slots));
}

// Merges into rows of HD floats at the beginning of `shared`, divided by the total sum. Columns::dimension
// returns the dimension of the first of four adjacent columns.
template <int HD, int kSlots, typename Columns = ColumnsInOrder>
__device__ __forceinline__ float* merge_parts(const PartialRows& partial, PartsInOrder parts, int rows,
                                              uint8_t* shared) {
  float* merged_rows = reinterpret_cast<float*>(shared);  // [16][HD]
  merge_rows<HD, kSlots>(partial, parts, rows, shared, [&](int row, const MergedRow<HD>& merged_row) {
    merged_row.template put<Columns>(merged_rows + row * HD);
  });
  return merged_rows;
}

// Writes `rows` rows of HD floats from shared memory to the output, transformed back if values are quantized.
// The rows are already divided by their sums.
template <int HD, int kThreads>
__device__ __forceinline__ void store_rows(const AttentionParams& p, const int32_t* place, const QueryRows& q,
                                           int first_row, int rows, float* values) {
  if (is_quantized(p.kv_shape.value_format)) {
    __syncthreads();
    for (int row = threadIdx.x / 32; row < rows; row += kThreads / 32)
      hadamard_warp(values + row * HD, HD, threadIdx.x & 31);
  }
  __syncthreads();
  const float back = is_quantized(p.kv_shape.value_format) ? 0.03125f : 1.0f;
  const size_t stride = static_cast<size_t>(p.heads.num_heads) * q.head_dim;
  auto* output = static_cast<__half*>(p.output);
  for (int row = threadIdx.x / 32; row < rows; row += kThreads / 32) {
    const size_t to = q.token(first_row + row) * stride;
    const int first_column = q.head(first_row + row) * q.head_dim;
    for (int d = threadIdx.x & 31; d < q.head_dim; d += 32) {
      const int column = first_column + d;
      output[to + (place != nullptr ? place[column] : column)] = __float2half_rn(values[row * HD + d] * back);
    }
  }
}

}  // namespace quire::kernels
