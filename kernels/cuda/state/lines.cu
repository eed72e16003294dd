// The delta rule line by line as products of matrices, on the tensor cores.
//
// With G_t the decay summed from the line to token t, S the state at the line, and
//   x_t = value_t - (e^G_t key_t)^T S                                what the state does not predict
//   L_tj = beta_t (e^(G_t - G_j) key_t) . key_j  for j < t           triangular
//   P_tj = (e^(G_t - G_j) query_t) . key_j       for j <= t
// a line's updates are D = (I + L)^-1 beta x, its results e^G Q S + P D, and the state at the next line is
// e^G S + sum over j of (e^(G - G_j) key_j) update_j^T, G the whole sum. A bank keeps keys, x, G and beta of
// the line's tokens. So a line is computed again from its rows, whichever tokens a step brings, and each
// token has the same bits: row t of every matrix depends on rows up to t alone, and other rows change nothing
// in it. Products have operands split in two of bf16, which is as exact as 16 bits of both, and sums in f32.
//
// Lanes of many tokens take two kernels. The first solves all lines side by side: what does not depend on the
// state (line_solve.cuh). The second walks from line to line with the state in registers (line_walk.cuh).
// Other lanes, and decoding, take one kernel that does both, a head in each block.
#include <algorithm>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/state/gate.cuh"
#include "kernels/cuda/state/line_solve.cuh"
#include "kernels/cuda/state/line_walk.cuh"

// Compute capability 7.5 has no products of bf16, nor the shared memory: the kernels are empty there.
#if __CUDA_ARCH__ >= 800
#define QUIRE_LINES 1
#else
#define QUIRE_LINES 0
#endif

namespace quire::kernels {
namespace {

constexpr int kBounds = QUIRE_LINES ? kThreads : 32;
constexpr int kLongLane = 64;    // tokens from which lines are solved in advance
constexpr int kSolvedHeads = 4;  // heads of a key head that are solved together

// Solved lines in global memory: for each line all SolvedKeys, then all SolvedHead.
struct SolvedLines {
  uint8_t* memory = nullptr;
  int num_groups = 0;  // of SolvedKeys: key heads, or heads if decays are per channel
  size_t line_bytes = 0;
};

template <bool kPerChannel>
__device__ __forceinline__ uint8_t* keys_of_line(const SolvedLines& lines, int line, int group) {
  return lines.memory + static_cast<size_t>(line) * lines.line_bytes +
         static_cast<size_t>(group) * sizeof(SolvedKeys<kPerChannel>);
}

template <bool kPerChannel>
__device__ __forceinline__ uint8_t* head_of_line(const SolvedLines& lines, int line, int head) {
  return keys_of_line<kPerChannel>(lines, line, lines.num_groups) +
         static_cast<size_t>(head) * sizeof(SolvedHead<kPerChannel>);
}

// Returns the first line in memory of a lane of many tokens. A lane of n tokens has at most 3 n / 32 lines.
__device__ __forceinline__ int first_line(int rows_before) {
  return 3 * rows_before / 32;
}

// Stores the results of the tile's tokens in the halves first..last of the line.
__device__ __forceinline__ void store_results(const Slab& s, const Tile& tile, const LineElements& results,
                                              int first, int last) {
  const HeadsArguments& a = s.a;
  const bool in_place = a.result == HeadResult::value_rows;
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = 8 * h + s.pair + i % 2 - tile.begin, row = tile.row + token,
                column = s.value_column(i / 2);
      if (h < first || h > last || token < 0 || token >= tile.count || !s.inside(i / 2)) continue;
      if (in_place) {
        a.value.rows[static_cast<size_t>(row) * a.value.stride + column] = results.v[h][i];
      } else {
        a.output[static_cast<size_t>(row) * (a.num_heads * a.value_dim) + column] =
            __float2half_rn(results.v[h][i]);
      }
    }
}

// Stores the results of half `h` of a whole line; `row` is that of the line's first token.
__device__ __forceinline__ void store_half(const Slab& s, int row, int h, float4 results) {
  const HeadsArguments& a = s.a;
  const bool in_place = a.result == HeadResult::value_rows;
  const int stride = in_place ? a.value.stride : a.num_heads * a.value_dim;
  const int64_t at = static_cast<int64_t>(row + 8 * h + s.pair) * stride + s.value_column(0);
  const float all[4] = {results.x, results.y, results.z, results.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t place = at + (i % 2 == 0 ? 0 : stride) + i / 2 * 8;
    if (in_place) {
      a.value.rows[place] = all[i];
    } else {
      a.output[place] = __float2half_rn(all[i]);
    }
  }
}

// Work memory of a block that computes a head's lines one after the other.
constexpr int kBlockColumns = kWarps * kSlab;
constexpr int kBlockStride = kBlockColumns + 4;
template <bool kPerChannel>
struct LineSpace {
  SolvedKeys<kPerChannel> keys;
  SolvedHead<kPerChannel> head;
  SolveSpace<kPerChannel, 1> solve;
  alignas(16) float values[kStateLine][kBlockStride];  // of earlier tokens x
  alignas(16) float window[2][kMaxSolvedTaps - 1]
                          [kBlockColumns];  // last inputs of the values of even and odd lines
  float gated[kStateLine][kBlockStride];
};

template <typename Space>
__device__ __forceinline__ void collect_results(Space& space, const Slab& s, int own, const Tile& tile,
                                                const LineElements& results) {
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = 8 * h + s.pair + i % 2 - tile.begin;
      if (token >= 0 && token < tile.count) space.gated[token][own + i / 2 * 8] = results.v[h][i];
    }
}

// Computes the values of token i of the tile, by one warp; keeps the inputs of the last tokens of the line,
// because results may overwrite them before the next line is computed.
template <typename Space>
__device__ __forceinline__ void prepare_values(const HeadsArguments& a, const StateLane& lane, Space& space,
                                               int head, int part, const Tile& tile, int line, int i) {
  const int own = threadIdx.x % 32 * 4, column = part * kBlockColumns + own, token = tile.begin + i;
  const FourColumns c = four_columns(a, a.value, head * a.value_dim + column, a.value_dim - column);
  const TokenInputs inputs = load_token<kBlockColumns>(
      a, lane, tile, c, i, line > 0 ? &space.window[(line - 1) % 2][0][own] : nullptr);
  if (tile.bank != nullptr) keep_token(a, tile, c, i, inputs);
  *reinterpret_cast<float4*>(&space.values[token][own]) = convolve_token(a, c, inputs);
  const int kept = token - (kStateLine - kMaxSolvedTaps + 1);
  if (kept >= 0)
    *reinterpret_cast<float4*>(&space.window[line % 2][kept][own]) = inputs.x[kMaxSolvedTaps - 1];
}

// Gates and normalises a head's results, which are in shared memory; a warp for each token.
template <typename Space>
__device__ __forceinline__ void gate_results(const HeadsArguments& a, const Space& space, int head,
                                             const Tile& tile) {
  const size_t column = static_cast<size_t>(head) * a.value_dim;
  const float* weight = a.gate_weight;
  if (weight != nullptr && !a.gate_spec.shared_weight) weight += column;
  for (int t = threadIdx.x / 32; t < tile.count; t += kWarps) {
    const size_t row = tile.row + t;
    const float* gate = a.gate.rows != nullptr ? a.gate.rows + row * a.gate.stride + column : nullptr;
    gate_columns_by_warp<128>(a.gate_spec, space.gated[t], gate, weight,
                              a.output + row * (a.num_heads * a.value_dim) + column);
  }
}

// Collects a line in shared memory: keys, queries, decays and values.
template <bool kPerChannel, typename Block>
__device__ __forceinline__ void collect_line(const Block& b, LineSpace<kPerChannel>& space, int part,
                                             const Tile& tile, int line) {
  const HeadsArguments& a = b.a;
  gather_keys(b, tile);
  const int own = b.lane_idx * 4, column = part * kBlockColumns + own;
  if (column < b.value_stride)
    for (int j = b.warp; j < tile.begin; j += kWarps)
      copy_async_16(shared_address(&space.values[j][own]), values_before(a, b.lane, b.head, j, column));
  commit_copies();
  for (int item = b.warp; item < 3 * tile.count; item += kWarps) {
    if (item % 3 < 2) {
      prepare_row(b, tile, item % 3, item / 3);
    } else {
      prepare_values(a, b.lane, space, b.head, part, tile, line, item / 3);
    }
  }
  gather_decays(b, tile, 1);
}

// Computes kWarps slabs of a head of one lane. Leaves lanes of many tokens to the other kernels if
// `skips_long`.
template <bool kPerChannel>
__global__ void __launch_bounds__(kBounds, 2)
    line_kernel(const __grid_constant__ HeadsArguments a, int first_sequence, int parts, bool skips_long) {
#if QUIRE_LINES
  extern __shared__ __align__(256) uint8_t shared[];
  auto& space = *reinterpret_cast<LineSpace<kPerChannel>*>(shared);
  release_successor();
  wait_for_predecessor();
  const StateLane lane = open_lane(a.memory, first_sequence + blockIdx.y);
  if (lane.num_rows == 0 || (skips_long && lane.num_rows >= kLongLane)) return;
  const int head = blockIdx.x / parts, part = blockIdx.x % parts;
  const Slab s = slab_of(a, lane, head, part * kWarps + threadIdx.x / 32);
  const int own = s.column - part * kBlockColumns;
  const bool has_slab = s.slab * kSlab < a.value_dim;
  auto b = block_of(a, space.solve, lane, head);
  b.first_column = part;  // the first part keeps what the parts have in common
  b.owns_keys = b.owns_keys && part == 0;
  if (has_slab) prefetch_slab(s);
  if (a.result == HeadResult::gated && a.gate.rows != nullptr &&
      static_cast<int>(threadIdx.x) * 32 < a.value_dim)
    prefetch_line(a.gate.rows + static_cast<size_t>(lane.first_row) * a.gate.stride + head * a.value_dim +
                  threadIdx.x * 32);
  const int lines = num_lines(lane);
  for (int i = 0; i < lines; ++i) {
    const Tile tile = line_tile(lane, i);
    const bool has_first =
        tile.count > 0 && tile.begin<8, has_last = tile.count> 0 && tile.begin + tile.count > 8;
    collect_line(b, space, part, tile, i);
    __syncthreads();
    multiply_line(b, 1, space.keys, &space.head);
    __syncthreads();
    // Between lines the state lies in the bank of later lines.
    StoredSlab state = {nullptr, kept_slab(s, lane.later), b.padded_key / 16};
    if (has_slab && source_line(lane) + i > 0)
      state.from = kept_slab(s, i == 0 ? const_cast<uint8_t*>(lane.source) : lane.later);
    state.begin();
    solve_heads(b, 1, &space.head);
    __syncthreads();
    if (has_slab) {
      StateReads reads = {};
      if (has_first) read_half<0>(state, space.keys.keys, space.keys.queries, reads);
      if (has_first && has_last) state.begin();
      if (has_last) read_half<1>(state, space.keys.keys, space.keys.queries, reads);
      decay_reads(reads, space.head.decays, s.pair);
      const LineElements x = subtract_reads(s, tile, space.values, own, reads.keys);
      if (tile.bank != nullptr) keep_updates(s, tile, x);
      LineElements updates = multiply_matrix<0, 1>(split_tile(x.v[0], x.v[1]), space.head.updates);
      if (tile.count > 0) add_updates<0, 1>(reads.queries, updates, space.head.results);
      if (a.result == HeadResult::gated) {
        collect_results(space, s, own, tile, reads.queries);
      } else {
        store_results(s, tile, reads.queries, 0, 1);
      }
      if (i + 1 < lines) {
        const SplitTile operand = updates_to_end(updates, space.head.decays, s.pair);
        state.begin();
#pragma unroll
        for (int group = 0; group < kGroups; ++group)
          form_group(state, group, space.head.decays, operand, space.keys.to_next_state(), s.pair);
      }
    }
    __syncthreads();
    if (a.result == HeadResult::gated) gate_results(a, space, head, tile);
  }
#endif
}

template <bool kPerChannel>
struct AdvanceSpace {
  static constexpr int kHeads = kPerChannel ? 1 : kSolvedHeads;
  SolvedKeys<kPerChannel> keys;
  SolvedHead<kPerChannel> heads[kHeads];
  SolveSpace<kPerChannel, kHeads> solve;
};

__device__ __forceinline__ void copy_out(uint8_t* to, const void* from, int bytes) {
  for (int i = threadIdx.x * 16; i < bytes; i += kThreads * 16)
    *reinterpret_cast<uint4*>(to + i) =
        *reinterpret_cast<const uint4*>(static_cast<const uint8_t*>(from) + i);
}

// Returns the sequence of many tokens that line `index` in memory may belong to, or -1.
__device__ __forceinline__ int find_sequence(const HeadsArguments& a, int first_sequence, int index) {
  __shared__ int found;
  if (threadIdx.x == 0) found = -1;
  __syncthreads();
  const int* const starts = a.memory.starts;
  for (int i = first_sequence + threadIdx.x; i < a.num_sequences; i += kThreads) {
    const int begin = starts[i] - starts[first_sequence], end = starts[i + 1] - starts[first_sequence];
    if (end - begin >= kLongLane && index >= first_line(begin) && index < first_line(end)) found = i;
  }
  __syncthreads();
  return found;
}

// Solves a line for the heads of one key head, or one head if decays are per channel.
template <bool kPerChannel>
__global__ void __launch_bounds__(kBounds, 3)
    solve_kernel(const __grid_constant__ HeadsArguments a, SolvedLines lines, int first_sequence) {
#if QUIRE_LINES
  constexpr int kHeads = AdvanceSpace<kPerChannel>::kHeads;
  extern __shared__ __align__(256) uint8_t shared[];
  auto& space = *reinterpret_cast<AdvanceSpace<kPerChannel>*>(shared);
  release_successor();
  wait_for_predecessor();
  const int index = blockIdx.x, group = blockIdx.y;
  const int sequence = find_sequence(a, first_sequence, index);
  if (sequence < 0) return;
  const StateLane lane = open_lane(a.memory, sequence);
  const int own = index - first_line(lane.first_row - a.memory.starts[first_sequence]);
  if (own >= num_lines(lane)) return;
  const Tile tile = line_tile(lane, own);
  const int num_heads = kPerChannel ? 1 : a.heads_per_key, first = group * num_heads;
  for (int h = 0; h < num_heads; h += kHeads) {
    auto b = block_of(a, space.solve, lane, first + h);
    const int count = min(kHeads, num_heads - h);
    if (h > 0) __syncthreads();
    gather_line(b, tile, count);
    __syncthreads();
    multiply_line(b, count, space.keys, space.heads);
    __syncthreads();
    solve_heads(b, count, space.heads);
    __syncthreads();
    if (h == 0) copy_out(keys_of_line<kPerChannel>(lines, index, group), &space.keys, sizeof(space.keys));
    copy_out(head_of_line<kPerChannel>(lines, index, first + h), space.heads,
             count * static_cast<int>(sizeof(space.heads[0])));
  }
#endif
}

template <bool kPerChannel>
struct WalkStage {
  SolvedKeys<kPerChannel> keys;
  SolvedHead<kPerChannel> head;
};

// What the warp of a group has for that of the other one: its reads for the keys, and for the queries of the
// half that the other one completes.
struct GroupReads {
  float4 four[3][32];
};

// Work memory of a block that walks. Two warps share a slab; each has a group of the state's keys.
constexpr int kWalkSlabs = kWarps / kGroups;
constexpr int kWalkColumns = kWalkSlabs * kSlab;
template <bool kPerChannel>
struct WalkSpace {
  static constexpr int kStages = kPerChannel ? 2 : 3;
  WalkStage<kPerChannel> stages[kStages];
  GroupReads reads[2][kWalkSlabs][kGroups];                   // of even and odd lines
  alignas(16) float values[2][kStateLine][kWalkColumns + 4];  // likewise
};

template <typename T>
__device__ __forceinline__ void fetch(T& to, const uint8_t* from) {
  constexpr int kBytes = static_cast<int>(sizeof(T)), kAtOnce = kThreads * 16;
  const int own = threadIdx.x * 16;
  const uint32_t target = shared_address(&to) + own;
#pragma unroll
  for (int i = 0; i < kBytes; i += kAtOnce)
    if (i + kAtOnce <= kBytes || own < kBytes - i) copy_async_16(target + i, from + own + i);
}

// Adds the reads of the two groups, which two warps have, in the order of the groups. Completes queries of
// half `group` only.
__device__ __forceinline__ void add_groups(StateReads& reads, GroupReads (&shared)[kGroups], int group) {
  static_assert(kGroups == 2);
  const int lane = threadIdx.x % 32;
  const auto four_of = [](const float(&v)[4]) { return make_float4(v[0], v[1], v[2], v[3]); };
  const auto add = [](float(&v)[4], float4 other) {
    v[0] = __fadd_rn(v[0], other.x), v[1] = __fadd_rn(v[1], other.y);
    v[2] = __fadd_rn(v[2], other.z), v[3] = __fadd_rn(v[3], other.w);
  };
  shared[group].four[0][lane] = four_of(reads.keys.v[0]);
  shared[group].four[1][lane] = four_of(reads.keys.v[1]);
  if (group == 0) {
    shared[0].four[2][lane] = four_of(reads.queries.v[1]);
  } else {
    shared[1].four[2][lane] = four_of(reads.queries.v[0]);
  }
  __syncthreads();
  const GroupReads& other = shared[1 - group];
  add(reads.keys.v[0], other.four[0][lane]);
  add(reads.keys.v[1], other.four[1][lane]);
  if (group == 0) {
    add(reads.queries.v[0], other.four[2][lane]);
  } else {
    add(reads.queries.v[1], other.four[2][lane]);
  }
}

// Returns true if the tokens of line `index` of a lane read a state that is not zero.
__device__ __forceinline__ bool reads_state(const StateLane& lane, const Tile& tile, int index) {
  return tile.count > 0 && source_line(lane) + index > 0;
}

// One of the lines that a block walks. `kIsWhole`: its 16 tokens are the lane's own, no bank keeps them, and
// the slab has all of its columns; what is computed is the same.
template <bool kIsWhole, bool kPerChannel>
__device__ __forceinline__ void walk_line(const Slab& s, const Tile& tile, WalkSpace<kPerChannel>& space,
                                          int index, int own_slab, int group, bool is_last,
                                          HeldGroup& state) {
  const WalkStage<kPerChannel>& stage = space.stages[index % WalkSpace<kPerChannel>::kStages];
  const int own = own_slab * kSlab + threadIdx.x % 32 / 4;
  StateReads reads = {};
  if (kIsWhole || reads_state(s.lane, tile, index)) {
    read_group<0, 1>(state, group, stage.keys.keys, stage.keys.queries, reads);
    add_groups(reads, space.reads[index % 2][own_slab], group);
    decay_reads(reads, stage.head.decays, s.pair);
  }
  const LineElements x = subtract_reads(s, tile, space.values[index % 2], own, reads.keys);
  if (!kIsWhole && tile.bank != nullptr && group == 0) keep_updates(s, tile, x);
  const LineElements updates = multiply_matrix<0, 1>(split_tile(x.v[0], x.v[1]), stage.head.updates);
  if (kIsWhole || !is_last)
    form_group(state, group, stage.head.decays, updates_to_end(updates, stage.head.decays, s.pair),
               stage.keys.to_next_state(), s.pair);
  if (!kIsWhole && tile.count == 0) return;
  if (group == 0) {
    add_updates<0, 0>(reads.queries, updates, stage.head.results);
  } else {
    add_updates<1, 1>(reads.queries, updates, stage.head.results);
  }
  if constexpr (kIsWhole) {
    const auto& q = reads.queries.v;
    const float4 half = {group == 0 ? q[0][0] : q[1][0], group == 0 ? q[0][1] : q[1][1],
                         group == 0 ? q[0][2] : q[1][2], group == 0 ? q[0][3] : q[1][3]};
    store_half(s, tile.row, group, half);
  } else {
    store_results(s, tile, reads.queries, group, group);
  }
}

// Walks the lines of one lane for kWalkSlabs slabs of a head.
template <bool kPerChannel>
__global__ void __launch_bounds__(kBounds, 2)
    walk_kernel(const __grid_constant__ HeadsArguments a, SolvedLines solved, int first_sequence, int parts) {
#if QUIRE_LINES
  using Space = WalkSpace<kPerChannel>;
  constexpr int kStages = Space::kStages;
  extern __shared__ __align__(256) uint8_t shared[];
  auto& space = *reinterpret_cast<Space*>(shared);
  release_successor();
  wait_for_predecessor();
  const StateLane lane = open_lane(a.memory, first_sequence + blockIdx.y);
  if (lane.num_rows < kLongLane) return;
  const int head = blockIdx.x / parts, part = blockIdx.x % parts;
  const int warp = threadIdx.x / 32, own_slab = warp / kGroups, group = warp % kGroups;
  const Slab s = slab_of(a, lane, head, part * kWalkSlabs + own_slab);
  const bool has_slab = s.slab * kSlab < a.value_dim;
  const int lines = num_lines(lane), first = first_line(lane.first_row - a.memory.starts[first_sequence]);
  const uint8_t* keys = keys_of_line<kPerChannel>(solved, first, kPerChannel ? head : head / a.heads_per_key);
  const uint8_t* heads = head_of_line<kPerChannel>(solved, first, head);
  const auto fetch_line = [&](int i) {
    if (i < lines) {
      fetch(space.stages[i % kStages].keys, keys);
      fetch(space.stages[i % kStages].head, heads);
      keys += solved.line_bytes;
      heads += solved.line_bytes;
    }
    commit_copies();
  };
  const int place = threadIdx.x % (kWalkColumns / 4) * 4, column = part * kWalkColumns + place;
  const WalkValues values = {
      a,      lane,
      head,   static_cast<int>(threadIdx.x) / (kWalkColumns / 4),
      column, four_columns(a, a.value, head * a.value_dim + column, a.value_dim - column)};
  const auto put_values = [&](int i, float4 v) {
    *reinterpret_cast<float4*>(&space.values[i % 2][values.token][place]) = v;
  };
  for (int i = 0; i + 1 < kStages; ++i) fetch_line(i);
  HeldGroup state = {};
  if (has_slab) state = hold_group(s, group);
  put_values(0, values.convolve(line_tile(lane, 0), values.load(line_tile(lane, 0))));
  TokenInputs inputs = values.load(line_tile(lane, 1));
  // The lines of this loop are like any other's, but need less work: two lines ahead of it all tokens are
  // there.
  const bool has_whole = (part + 1) * kWalkColumns <= a.value_dim && values.columns.is_vector &&
                         a.conv_taps == kMaxSolvedTaps && a.silu && a.value.taps.bias == nullptr;
  const int row_of_source = lane.first_row + source_line(lane) * kStateLine - lane.position;
  int i = 0;
  const auto begin_line = [&] {
    wait_for_copies<kStages - 2>();
    __syncthreads();
    fetch_line(i + kStages - 1);
  };
  while (i < lines) {
    for (; has_whole && i >= 2 && i + 3 < lines; ++i) {
      begin_line();
      const int row = row_of_source + i * kStateLine;
      put_values(i + 1, values.convolve_whole(inputs));
      inputs = values.load_whole(row + 2 * kStateLine);
      walk_line<true>(s, {row, 0, 0, kStateLine, nullptr, false}, space, i, own_slab, group, false, state);
    }
    begin_line();
    const Tile next = line_tile(lane, i + 1);
    if (i + 1 < lines) put_values(i + 1, values.convolve(next, inputs));
    if (i + 2 < lines) inputs = values.load(line_tile(lane, i + 2));
    if (!has_slab) {
      if (reads_state(lane, line_tile(lane, i), i)) __syncthreads();  // that of add_groups
    } else {
      walk_line<false>(s, line_tile(lane, i), space, i, own_slab, group, i + 1 == lines, state);
      // Only the last one of the lines after that of the source is kept.
      if (i + 2 == lines) store_group(s, lane.later, group, state);
    }
    ++i;
  }
  wait_for_copies<0>();
#endif
}

int blocks_of(int count, int size) {
  return (count + size - 1) / size;
}

template <bool kPerChannel>
cudaError_t launch_one_by_one(const HeadsArguments& a, int first_sequence, int num_sequences, bool skips_long,
                              Launch l) {
  const int parts = blocks_of(a.value_dim, kBlockColumns);
  const dim3 grid(static_cast<unsigned>(a.num_heads * parts), static_cast<unsigned>(num_sequences));
  return launch_kernel(line_kernel<kPerChannel>, grid, dim3(kThreads), sizeof(LineSpace<kPerChannel>),
                       l.stream, l.dependent, a, first_sequence, parts, skips_long);
}

template <bool kPerChannel>
cudaError_t launch_in_advance(const HeadsArguments& a, uint8_t* memory, int num_tokens, Launch l) {
  SolvedLines lines;
  lines.memory = memory;
  lines.num_groups = kPerChannel ? a.num_heads : a.num_heads / a.heads_per_key;
  lines.line_bytes = static_cast<size_t>(lines.num_groups) * sizeof(SolvedKeys<kPerChannel>) +
                     static_cast<size_t>(a.num_heads) * sizeof(SolvedHead<kPerChannel>);
  const dim3 all_lines(static_cast<unsigned>(3 * num_tokens / 32), static_cast<unsigned>(lines.num_groups));
  const cudaError_t error =
      launch_kernel(solve_kernel<kPerChannel>, all_lines, dim3(kThreads), sizeof(AdvanceSpace<kPerChannel>),
                    l.stream, l.dependent, a, lines, a.num_single);
  if (error != cudaSuccess) return error;
  const int parts = blocks_of(a.value_dim, kWalkColumns);
  const dim3 grid(static_cast<unsigned>(a.num_heads * parts),
                  static_cast<unsigned>(a.num_sequences - a.num_single));
  // If they began before the lines are solved, the few blocks of one lane would share processors, where there
  // is room first, while others stay idle.
  return launch_kernel(walk_kernel<kPerChannel>, grid, dim3(kThreads), sizeof(WalkSpace<kPerChannel>),
                       l.stream, false, a, lines, a.num_single, parts);
}

template <bool kPerChannel>
cudaError_t launch_rule(const HeadsArguments& a, const LineTokens& tokens, Launch l) {
  if (a.num_single > 0) {
    HeadsArguments single = a;
    if (gates_singles(a)) single.result = HeadResult::gated;
    if (const cudaError_t error = launch_one_by_one<kPerChannel>(single, 0, a.num_single, false, l);
        error != cudaSuccess)
      return error;
  }
  const int rest = a.num_sequences - a.num_single;
  if (rest == 0) return cudaSuccess;
  const bool has_long = tokens.solved_lines != nullptr && tokens.longest >= kLongLane;
  if (!has_long || rest > 1)
    if (const cudaError_t error = launch_one_by_one<kPerChannel>(a, a.num_single, rest, has_long, l);
        error != cudaSuccess)
      return error;
  return has_long
             ? launch_in_advance<kPerChannel>(a, tokens.solved_lines, tokens.num_tokens - a.num_single, l)
             : cudaSuccess;
}

template <typename Kernel>
cudaError_t setup_kernel(Kernel kernel, size_t bytes) {
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  return error != cudaSuccess ? error : load_kernels(kernel);
}

// Bytes of the block that takes most shared memory.
template <bool kPerChannel>
constexpr size_t kMostBytes = std::max({sizeof(LineSpace<kPerChannel>), sizeof(AdvanceSpace<kPerChannel>),
                                        sizeof(WalkSpace<kPerChannel>)});
static_assert(std::max(kMostBytes<false>, kMostBytes<true>) <= (99 << 10),
              "more shared memory than cards of compute capability 8.6 and 8.9 have");

template <bool kPerChannel>
cudaError_t setup_rule() {
  cudaError_t error = setup_kernel(line_kernel<kPerChannel>, sizeof(LineSpace<kPerChannel>));
  if (error == cudaSuccess)
    error = setup_kernel(solve_kernel<kPerChannel>, sizeof(AdvanceSpace<kPerChannel>));
  if (error == cudaSuccess) error = setup_kernel(walk_kernel<kPerChannel>, sizeof(WalkSpace<kPerChannel>));
  return error;
}

}  // namespace

cudaError_t launch_lines(const HeadsArguments& a, const LineTokens& tokens, Launch l) {
  return a.rule == HeadRule::delta_per_channel ? launch_rule<true>(a, tokens, l)
                                               : launch_rule<false>(a, tokens, l);
}

cudaError_t setup_lines(int shared_limit, bool* available) {
  cudaFuncAttributes attributes = {};
  cudaError_t error = cudaFuncGetAttributes(&attributes, line_kernel<false>);
  *available = error == cudaSuccess && attributes.maxThreadsPerBlock >= kThreads &&
               std::max(kMostBytes<false>, kMostBytes<true>) <= static_cast<size_t>(shared_limit);
  if (*available) error = setup_rule<false>();
  return *available && error == cudaSuccess ? setup_rule<true>() : error;
}

}  // namespace quire::kernels
