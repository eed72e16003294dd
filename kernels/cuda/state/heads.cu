// Heads of layers with a recurrent state: S <- decay S + key update^T, o = S^T query, with the convolution
// of their inputs and the gated norm of their results.
//
// With G_t the decay summed from the line to token t, and S the state at the line, token t computes
//   read_t = (e^G_t key_t)^T S + sum over j < t of ((e^(G_t - G_j) key_t) . key_j) update_j   (delta rule)
//   update_t = beta (value_t - read_t), or a multiple of value_t
//   o_t = (e^G_t query_t)^T S + sum over j <= t of ((e^(G_t - G_j) query_t) . key_j) update_j
// and the state at the next line is e^G S + sum over j of (e^(G - G_j) key_j) update_j^T, G the whole sum.
//
// One block computes some columns of one head of one sequence, line by line. Each of its 8 warps holds the
// rows of S of kKeys key elements in registers, and each lane kCols columns of them. So the state is read
// once and written only if the step ends beyond the line. One kernel has two forms: tiles of 16 tokens and 32
// columns for prompts, and of one token and a whole head for decoding, which reads more bytes at once. A
// column's sums are the same in both: over the key elements of a warp in their order, over the warps in
// their order, then over the rows of the line in their order. Sums over key elements of pairs of rows, and
// norms, are functions of a row alone. So results do not depend on the chunks of a prompt or the form, nor on
// the tokens of a tile.
//
// Inputs of the convolution are not overwritten, except those of the values if the results go there: the last
// ones of a tile are kept for the next.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/state/gate.cuh"
#include "kernels/cuda/state/heads_inputs.cuh"

namespace quire::kernels {
namespace {

// Computes the weights of the rows up to each token. A thread computes pairs of a token and a row.
template <int kRows, typename Space>
__device__ __forceinline__ void weigh_rows(const Block<Space>& b, const Tile& tile) {
  Space& space = b.space;
  for (int pair = threadIdx.x; pair < kRows * kStateLine; pair += kThreads) {
    const int t = pair / kStateLine, j = pair % kStateLine, i = tile.begin + t;
    if (t >= tile.count || j > i) continue;
    float4 of_query = {}, of_key = {};
#pragma unroll 4
    for (int c = 0; c < Space::kPaddedKey; c += 4) {
      float4 other = four_at(&space.keys[j][c]);
      if constexpr (Space::kPerChannel) {
        const float4 g = four_at(&space.decays[i][c]), earlier = four_at(&space.decays[j][c]);
        other.x = __fmul_rn(expf(__fsub_rn(g.x, earlier.x)), other.x);
        other.y = __fmul_rn(expf(__fsub_rn(g.y, earlier.y)), other.y);
        other.z = __fmul_rn(expf(__fsub_rn(g.z, earlier.z)), other.z);
        other.w = __fmul_rn(expf(__fsub_rn(g.w, earlier.w)), other.w);
      }
      of_query = fma_4(four_at(&space.queries[t][c]), other, of_query);
      if (Space::kReads) of_key = fma_4(four_at(&space.keys[i][c]), other, of_key);
    }
    const float factor =
        Space::kPerChannel ? 1.0f : expf(__fsub_rn(decay_at(space, i, 0), decay_at(space, j, 0)));
    space.query_weights[t][j] = __fmul_rn(factor, sum_4(of_query));
    if (Space::kReads) space.key_weights[t][j] = __fmul_rn(factor, sum_4(of_key));
  }
}

// Multiplies keys and queries by the decays of their channels. Comes after weigh_rows, which reads queries
// without them.
template <typename Space>
__device__ __forceinline__ void decay_vectors(const Block<Space>& b, const Tile& tile) {
  Space& space = b.space;
  for (int i = threadIdx.x; i < tile.count * Space::kPaddedKey; i += kThreads) {
    const int t = i / Space::kPaddedKey, c = i % Space::kPaddedKey;
    const float decay = expf(space.decays[tile.begin + t][c]);
    space.queries[t][c] = __fmul_rn(decay, space.queries[t][c]);
    space.decayed_keys[t][c] = __fmul_rn(decay, space.keys[tile.begin + t][c]);
  }
}

// Multiplies a warp's elements of the vectors with its rows of the state.
template <int kKeys, int kCols, typename Space>
__device__ __forceinline__ void read_state(const Block<Space>& b, const StatePart<kKeys, kCols>& state,
                                           const float* vectors, int count, int first_product) {
#pragma unroll 2
  for (int t = 0; t < count; ++t) {
    Columns<kCols> sums = {};
#pragma unroll
    for (int k = 0; k < kKeys; k += 4) {
      const float4 four = four_at(vectors + t * Space::kStride + b.warp * kKeys + k);
      const float x[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int c = 0; c < kCols; ++c) sums.v[c] = __fmaf_rn(x[i], state.rows[k + i].v[c], sums.v[c]);
    }
    store_columns<kCols>(&b.space.products[b.warp][first_product + t][b.lane_idx * kCols], sums);
  }
}

// Returns the product of a token's key (first_product 0) or query with a column of the state.
template <typename Space>
__device__ __forceinline__ float product_of(const Block<Space>& b, const Tile& tile, int first_product, int t,
                                            int c) {
  float sum = b.space.products[0][first_product + t][c];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum = __fadd_rn(sum, b.space.products[w][first_product + t][c]);
  return Space::kPerChannel ? sum : __fmul_rn(expf(decay_at(b.space, tile.begin + t, 0)), sum);
}

// Computes what the delta rule reads of the state and of the rows before the tile.
template <typename Space>
__device__ __forceinline__ void read_rows(const Block<Space>& b, const Tile& tile) {
  for (int i = threadIdx.x; i < tile.count * Space::kTile; i += kThreads) {
    const int t = i / Space::kTile, c = i % Space::kTile;
    float read = product_of(b, tile, 0, t, c);
    for (int j = 0; j < tile.begin; ++j)
      read = __fmaf_rn(b.space.key_weights[t][j], b.space.updates[j][c], read);
    b.space.results[t][c] = read;
  }
}

// Computes the updates of the delta rule, token by token; one thread for each column.
template <int kRows, typename Space>
__device__ __forceinline__ void solve(const Block<Space>& b, const Tile& tile) {
  Space& space = b.space;
  const int c = threadIdx.x;
  if (c >= Space::kTile) return;
  float reads[kRows];
#pragma unroll
  for (int t = 0; t < kRows; ++t)
    if (t < tile.count) reads[t] = space.results[t][c];
#pragma unroll
  for (int t = 0; t < kRows; ++t) {
    if (t >= tile.count) break;
    const float update = __fmul_rn(space.factors[t], __fsub_rn(space.values[t][c], reads[t]));
    space.updates[tile.begin + t][c] = update;
#pragma unroll
    for (int later = t + 1; later < kRows; ++later)
      if (later < tile.count)
        reads[later] = __fmaf_rn(space.key_weights[later][tile.begin + t], update, reads[later]);
  }
}

template <typename Space>
__device__ __forceinline__ void scale_values(const Block<Space>& b, const Tile& tile) {
  for (int i = threadIdx.x; i < tile.count * Space::kTile; i += kThreads) {
    const int t = i / Space::kTile, c = i % Space::kTile;
    b.space.updates[tile.begin + t][c] = __fmul_rn(b.space.factors[t], b.space.values[t][c]);
  }
}

// Computes the results, and keeps the updates.
template <typename Space>
__device__ __forceinline__ void finish(const Block<Space>& b, const Tile& tile) {
  const HeadsArguments& a = b.a;
  Space& space = b.space;
  const float skip = a.rates.skip != nullptr ? a.rates.skip[b.head] : 0.0f;
  for (int i = threadIdx.x; i < tile.count * Space::kTile; i += kThreads) {
    const int t = i / Space::kTile, c = i % Space::kTile, own = b.first_column + c;
    if (own >= b.value_stride) continue;
    float y = product_of(b, tile, Space::kQueryProducts, t, c);
    for (int j = 0; j <= tile.begin + t; ++j)
      y = __fmaf_rn(space.query_weights[t][j], space.updates[j][c], y);
    if (a.rates.skip != nullptr) y = __fmaf_rn(skip, space.values[t][c], y);
    if (tile.bank != nullptr)
      const_cast<float*>(b.kept_updates(tile.bank))[(tile.begin + t) * b.value_stride + own] =
          space.updates[tile.begin + t][c];
    if (own >= a.value_dim) continue;
    const size_t row = tile.row + t, column = b.head * a.value_dim + own;
    if (a.result == HeadResult::gated) {
      space.results[t][c] = y;
    } else if (a.result == HeadResult::value_rows) {
      a.value.rows[row * a.value.stride + column] = y;
    } else {
      a.output[row * (a.num_heads * a.value_dim) + column] = __float2half_rn(y);
    }
  }
}

template <typename Space>
__device__ __forceinline__ void gate_results(const Block<Space>& b, const Tile& tile) {
  const HeadsArguments& a = b.a;
  const size_t column = static_cast<size_t>(b.head) * a.value_dim;
  const float* weight = a.gate_weight;
  if (weight != nullptr && !a.gate_spec.shared_weight) weight += column;
  for (int t = b.warp; t < tile.count; t += kWarps) {
    const size_t row = tile.row + t;
    const float* gate = a.gate.rows != nullptr ? a.gate.rows + row * a.gate.stride + column : nullptr;
    gate_columns_by_warp<128>(a.gate_spec, b.space.results[t], gate, weight,
                              a.output + row * (a.num_heads * a.value_dim) + column);
  }
}

template <int kKeys, int kCols, int kRows, typename Space>
__device__ __forceinline__ void compute_tile(const Block<Space>& b, const Tile& tile, bool is_first,
                                             const StatePart<kKeys, kCols>& state) {
  Space& space = b.space;
  prepare_keys<kKeys>(b, tile);
  load_values(b, tile, is_first);
  if (b.warp == kWarps - 1) prepare_tokens(b, tile);
  if constexpr (Space::kPerChannel) sum_channel_decays<kRows>(b, tile);
  __syncthreads();
  prepare_values(b, tile);
  weigh_rows<kRows>(b, tile);
  if constexpr (Space::kPerChannel) {
    __syncthreads();
    decay_vectors(b, tile);
    __syncthreads();
  }
  const float* const queries = space.queries[0];
  const float* const keys = Space::kPerChannel ? space.decayed_keys[0] : space.keys[tile.begin];
  if constexpr (Space::kReads) read_state(b, state, keys, tile.count, 0);
  if constexpr (Space::kIsSingle || !Space::kReads)
    read_state(b, state, queries, tile.count, Space::kQueryProducts);
  __syncthreads();
  // With a single token each thread goes on with the columns that it has computed itself.
  if constexpr (Space::kReads) {
    read_rows(b, tile);
    if (!Space::kIsSingle) __syncthreads();
    solve<kRows>(b, tile);
    if (!Space::kIsSingle) read_state(b, state, queries, tile.count, 0);
  } else {
    scale_values(b, tile);
  }
  if (!Space::kIsSingle) __syncthreads();
  finish(b, tile);
  if (b.a.result != HeadResult::gated) return;
  __syncthreads();
  gate_results(b, tile);
}

template <int kKeys, int kCols, int kRows, Form kForm>
__global__ void __launch_bounds__(kThreads)
    heads_kernel(const __grid_constant__ HeadsArguments a, int first_sequence, int tiles) {
  using OwnSpace = Space<kKeys, kCols, kRows, kForm>;
  extern __shared__ __align__(16) uint8_t shared[];
  release_successor();
  wait_for_predecessor();
  Block<OwnSpace> b = {a, *reinterpret_cast<OwnSpace*>(shared)};
  b.lane = open_lane(a.memory, first_sequence + blockIdx.y);
  if (b.lane.num_rows == 0) return;
  b.head = blockIdx.x / tiles;
  b.key_head = b.head / a.heads_per_key;
  b.first_column = blockIdx.x % tiles * OwnSpace::kTile;
  b.value_stride = padded_to_16(a.value_dim);
  b.padded_key = padded_to_16(a.key_dim);
  b.owns_keys = b.first_column == 0 && b.head % a.heads_per_key == 0;
  b.warp = threadIdx.x / 32;
  b.lane_idx = threadIdx.x % 32;
  const StateLane& lane = b.lane;
  StatePart<kKeys, kCols> state;
  load_state(b, state);
  load_rows(b, lane.forms ? kStateLine : lane.position % kStateLine);
  __syncthreads();
  if (lane.forms) {
    form_state(b, state);
    if (keeps_line(lane, line_of(lane.position))) store_state(b, lane.first, state);
  }
  for (int done = 0; done < lane.num_rows;) {
    Tile tile;
    tile.row = lane.first_row + done;
    tile.position = lane.position + done;
    tile.begin = tile.position % kStateLine;
    tile.count = min(kRows, min(lane.num_rows - done, kStateLine - tile.begin));
    const int line = line_of(tile.position);
    tile.bank = keeps_line(lane, line) ? bank_of_line(lane, line) : nullptr;
    tile.enters = tile.begin == 0 && (done > 0 || lane.forms);
    compute_tile<kKeys, kCols, kRows>(b, tile, done == 0, state);
    done += tile.count;
    if (done == lane.num_rows) break;
    keep_window(b, tile);
    __syncthreads();
    if (tile.begin + tile.count < kStateLine) continue;
    form_state(b, state);
    if (keeps_line(lane, line + 1)) store_state(b, lane.later, state);
  }
}

template <int kKeys, int kCols, int kRows, Form kForm>
cudaError_t launch_form(const HeadsArguments& a, int first_sequence, int num_sequences, Launch l) {
  using OwnSpace = Space<kKeys, kCols, kRows, kForm>;
  const int tiles = (a.value_dim + OwnSpace::kTile - 1) / OwnSpace::kTile;
  const dim3 grid(static_cast<unsigned>(a.num_heads * tiles), static_cast<unsigned>(num_sequences));
  return launch_kernel(heads_kernel<kKeys, kCols, kRows, kForm>, grid, dim3(kThreads), sizeof(OwnSpace),
                       l.stream, l.dependent, a, first_sequence, tiles);
}

// Returns true if kKeys is 16. The delta rule has few such shapes that launch_lines does not compute.
bool is_short(const HeadsArguments& a) {
  return a.key_dim <= 16 * kWarps && (a.rule == HeadRule::state_space || a.rule == HeadRule::linear);
}

constexpr uint32_t kLeastShared = 64 << 10;  // of a block, on any supported card
constexpr int kHalfLine = kStateLine / 2;
// Returns true if a block has shared memory for tiles of a whole line. Otherwise, with a decay for each
// channel, tiles have half a line.
template <Form kForm>
constexpr bool holds_lines(uint32_t shared_per_block) {
  return sizeof(Space<32, 1, kStateLine, kForm>) <= shared_per_block;
}

template <int kKeys, Form kForm>
cudaError_t launch_sequences(const HeadsArguments& a, Launch l) {
  constexpr int kMostCols = kKeys == 16 ? 4 : 2;
  cudaError_t error = cudaSuccess;
  if (a.num_single > 0) {
    HeadsArguments single = a;
    const bool is_narrow = a.value_dim <= 64 || kMostCols == 2;
    if (gates_singles(a)) single.result = HeadResult::gated;
    error = is_narrow ? launch_form<kKeys, 2, 1, kForm>(single, 0, a.num_single, l)
                      : launch_form<kKeys, kMostCols, 1, kForm>(single, 0, a.num_single, l);
  }
  const int rest = a.num_sequences - a.num_single;
  if (error != cudaSuccess || rest == 0) return error;
  if constexpr (!holds_lines<kForm>(kLeastShared))
    if (!holds_lines<kForm>(a.shared_per_block))
      return launch_form<kKeys, 1, kHalfLine, kForm>(a, a.num_single, rest, l);
  return launch_form<kKeys, 1, kStateLine, kForm>(a, a.num_single, rest, l);
}

template <Form kForm>
cudaError_t launch_rule(const HeadsArguments& a, Launch l) {
  if constexpr (kForm == Form::plain)
    if (is_short(a)) return launch_sequences<16, kForm>(a, l);
  return launch_sequences<32, kForm>(a, l);
}

template <int kKeys, int kCols, int kRows, Form kForm>
cudaError_t setup_form(int shared_limit) {
  const auto kernel = heads_kernel<kKeys, kCols, kRows, kForm>;
  constexpr int kBytes = static_cast<int>(sizeof(Space<kKeys, kCols, kRows, kForm>));
  if (kBytes > shared_limit) return cudaErrorInvalidValue;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  return error != cudaSuccess ? error : load_kernels(kernel);
}

template <Form kForm>
cudaError_t setup_rule(int limit) {
  static_assert(sizeof(Space<32, 1, kHalfLine, kForm>) <= kLeastShared, "more shared memory than cards have");
  const cudaError_t error = setup_form<32, 2, 1, kForm>(limit);
  if (error != cudaSuccess) return error;
  if constexpr (!holds_lines<kForm>(kLeastShared))
    if (!holds_lines<kForm>(static_cast<uint32_t>(limit))) return setup_form<32, 1, kHalfLine, kForm>(limit);
  return setup_form<32, 1, kStateLine, kForm>(limit);
}

cudaError_t setup_short(int limit) {
  for (const auto step : {setup_form<16, 4, 1, Form::plain>, setup_form<16, 2, 1, Form::plain>,
                          setup_form<16, 1, kStateLine, Form::plain>})
    if (const cudaError_t error = step(limit); error != cudaSuccess) return error;
  return cudaSuccess;
}

}  // namespace

bool gates_singles(const HeadsArguments& a) {
  return a.result == HeadResult::value_rows && a.gate_spec.group_columns == a.value_dim &&
         a.value_dim <= (a.solves_lines || is_short(a) ? 128 : 64);
}

cudaError_t launch_heads(const HeadsArguments& a, Launch l) {
  switch (a.rule) {
    case HeadRule::delta:
      return launch_rule<Form::delta>(a, l);
    case HeadRule::delta_per_channel:
      return launch_rule<Form::delta_per_channel>(a, l);
    case HeadRule::state_space:
    case HeadRule::linear:
      return launch_rule<Form::plain>(a, l);
  }
  return cudaErrorInvalidValue;
}

cudaError_t setup_heads(int shared_limit) {
  cudaError_t error = setup_short(shared_limit);
  if (error == cudaSuccess) error = setup_rule<Form::plain>(shared_limit);
  if (error == cudaSuccess) error = setup_rule<Form::delta>(shared_limit);
  return error == cudaSuccess ? setup_rule<Form::delta_per_channel>(shared_limit) : error;
}

}  // namespace quire::kernels
