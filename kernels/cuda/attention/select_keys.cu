// Indexer of sparse attention: selects the positions that a token attends to, by products of queries and keys
// of its own. One block per token, one thread per position: exact, with the CPU's order of sums, and far
// below the card's peak rates. If the scores of all positions do not fit in shared memory, each of five
// passes recomputes them.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"

namespace quire::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kMaxCachedScores = 8192;  // positions whose scores fit in shared memory
constexpr unsigned kAll = 0xffffffffU;

__device__ __forceinline__ __half* index_row(const SelectKeysParams& p, int sequence, int position) {
  const int page_tokens = p.kv_shape.page_tokens;
  const int page =
      p.batch.page_table[static_cast<size_t>(sequence) * p.batch.page_table_stride + position / page_tokens];
  const size_t row = static_cast<size_t>(page) * page_tokens + position % page_tokens;
  return static_cast<__half*>(p.kv.index_keys) + row * index_columns(p);
}

// Rotates pair i of a head.
__device__ __forceinline__ void rotate(const SelectKeysParams& p, float* head, int token, int i) {
  const int half = p.rotary_dim / 2;
  const float cosine = p.cos[static_cast<size_t>(token) * half + i];
  const float sine = p.sin[static_cast<size_t>(token) * half + i];
  const bool pairs = p.rope == RopeStyle::gptj_pairs;
  float& first = head[pairs ? 2 * i : i];
  float& second = head[pairs ? 2 * i + 1 : half + i];
  const float a = first, b = second;
  first = a * cosine - b * sine;
  second = b * cosine + a * sine;
}

// Head num_heads is the key, which is written to its page, with its gates if keys are pooled.
__global__ void __launch_bounds__(kThreads)
    rotate_index_rows_kernel(const __grid_constant__ SelectKeysParams p) {
  release_successor();
  wait_for_predecessor();
  const int token = blockIdx.x, half = p.rotary_dim / 2, columns = index_columns(p);
  float* key = p.key + static_cast<size_t>(token) * columns;
  float* queries = p.query + static_cast<size_t>(token) * p.num_heads * p.head_dim;
  for (int i = threadIdx.x; i < (p.num_heads + 1) * half; i += kThreads) {
    const int head = i / half;
    rotate(p, head == p.num_heads ? key : queries + head * p.head_dim, token, i % half);
  }
  __syncthreads();
  __half* kept = index_row(p, p.batch.sequence_of_token[token], p.batch.positions[token]);
  for (int d = threadIdx.x; d < columns; d += kThreads) kept[d] = __float2half_rn(key[d]);
}

// Replaces the key of the last token of each pool by the key of the pool: one thread for each element.
__global__ void __launch_bounds__(kThreads) pool_keys_kernel(const __grid_constant__ SelectKeysParams p) {
  release_successor();
  wait_for_predecessor();
  const int token = blockIdx.x, sequence = p.batch.sequence_of_token[token];
  const int last = p.batch.positions[token];
  if ((last + 1) % p.pool != 0) return;
  for (int d = threadIdx.x; d < p.head_dim; d += kThreads) {
    const auto gate = [&](int i) {
      const __half* row = index_row(p, sequence, last + 1 - p.pool + i);
      return __fadd_rn(__half2float(row[p.head_dim + d]), p.pool_bias[i * p.head_dim + d]);
    };
    float most = gate(0);
    for (int i = 1; i < p.pool; ++i) most = fmaxf(most, gate(i));
    float sum = 0.0f, weighted = 0.0f;
    for (int i = 0; i < p.pool; ++i) {
      const float weight = expf(__fsub_rn(gate(i), most));
      const float key = __half2float(index_row(p, sequence, last + 1 - p.pool + i)[d]);
      sum = __fadd_rn(sum, weight);
      weighted = __fadd_rn(weighted, __fmul_rn(weight, key));
    }
    index_row(p, sequence, last)[d] = __float2half_rn(__fdiv_rn(weighted, sum));
  }
}

// Below, a position is that of a key, or the number of a pool.
// Returns an integer that is larger for larger scores.
__device__ __forceinline__ uint32_t order_of(float score) {
  const uint32_t bits = __float_as_uint(score + 0.0f);  // maps -0 to +0
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

__device__ __forceinline__ uint32_t make_order(const SelectKeysParams& p, int token, int position) {
  const __half* key = index_row(p, p.batch.sequence_of_token[token], (position + 1) * p.pool - 1);
  const float* queries = p.query + static_cast<size_t>(token) * p.num_heads * p.head_dim;
  float score = 0.0f;
  for (int h = 0; h < p.num_heads; ++h) {
    float product = 0.0f;
    for (int d = 0; d < p.head_dim; ++d)
      product = __fadd_rn(product, __fmul_rn(queries[h * p.head_dim + d], __half2float(key[d])));
    const float positive = fmaxf(__fmul_rn(product, p.scale), 0.0f);
    score = __fadd_rn(score, __fmul_rn(p.weights[static_cast<size_t>(token) * p.num_heads + h], positive));
  }
  return order_of(score);
}

struct Selection {
  uint32_t held[kMaxCachedScores];
  uint32_t histogram[256];
  uint32_t of_warps[kWarps];
  uint32_t prefix;  // the leading bytes of the lowest chosen score
  uint32_t rest;    // number of scores with these bytes that are chosen
};

// Calls visit(position, order) for all positions, each on one thread.
template <typename Visit>
__device__ __forceinline__ void each_order(const SelectKeysParams& p, const Selection& s, int token,
                                           int count, Visit visit) {
  for (int position = threadIdx.x; position < count; position += kThreads)
    visit(count <= kMaxCachedScores ? s.held[position] : make_order(p, token, position));
}

// Finds the next byte of the lowest chosen order (radix select).
__device__ __forceinline__ void narrow(const SelectKeysParams& p, Selection& s, int token, int count,
                                       int shift) {
  s.histogram[threadIdx.x] = 0;
  __syncthreads();
  const uint32_t prefix = s.prefix;
  each_order(p, s, token, count, [&](uint32_t order) {
    if (shift == 24 || order >> (shift + 8) == prefix) atomicAdd(&s.histogram[(order >> shift) & 255], 1U);
  });
  __syncthreads();
  if (threadIdx.x == 0) {
    int byte = 255;
    while (byte > 0 && s.histogram[byte] < s.rest) s.rest -= s.histogram[byte--];
    s.prefix = prefix << 8 | static_cast<uint32_t>(byte);
  }
  __syncthreads();
}

// Sets the bits of all tokens of a pool.
__device__ __forceinline__ void mark_pool(const SelectKeysParams& p, int token, int pool) {
  uint32_t* const selected = p.selected + static_cast<size_t>(token) * p.selected_words;
  for (int i = 0; i < p.pool; ++i) {
    const int position = pool * p.pool + i;
    atomicOr(selected + position / 32, 1U << (position % 32));
  }
}

// Sets the bits of 256 positions from `first` on. Among equal scores the first `rest` are chosen; `before` of
// them had smaller positions. Returns `before` plus the number found here.
__device__ __forceinline__ uint32_t mark(const SelectKeysParams& p, Selection& s, int token, int first,
                                         int count, uint32_t before) {
  const int position = first + threadIdx.x, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const bool all = count <= p.num_selected / p.pool;
  bool chosen = position < count && all, equal = false;
  if (position < count && !all) {
    const uint32_t order = count <= kMaxCachedScores ? s.held[position] : make_order(p, token, position);
    chosen = order > s.prefix;
    equal = order == s.prefix;
  }
  const uint32_t equals = __ballot_sync(kAll, equal);
  if (lane == 0) s.of_warps[warp] = static_cast<uint32_t>(__popc(equals));
  __syncthreads();
  uint32_t rank = before + static_cast<uint32_t>(__popc(equals & ((1U << lane) - 1)));
  for (int w = 0; w < kWarps; ++w) {
    before += s.of_warps[w];
    if (w < warp) rank += s.of_warps[w];
  }
  const bool is_marked = chosen || (equal && rank < s.rest);
  const uint32_t word = __ballot_sync(kAll, is_marked);
  const int at = first / 32 + warp;
  if (p.pool > 1 && is_marked) mark_pool(p, token, position);
  if (p.pool == 1 && lane == 0 && at < p.selected_words)
    p.selected[static_cast<size_t>(token) * p.selected_words + at] = word;
  __syncthreads();
  return before;
}

// Clears the bits of a token, then sets those of the tokens after its last complete pool. Ends with a
// barrier.
__device__ __forceinline__ void mark_tail(const SelectKeysParams& p, int token, int num_tokens) {
  uint32_t* const selected = p.selected + static_cast<size_t>(token) * p.selected_words;
  for (int i = threadIdx.x; i < p.selected_words; i += kThreads) selected[i] = 0;
  __syncthreads();
  const int position = num_tokens / p.pool * p.pool + static_cast<int>(threadIdx.x);
  for (int i = position; i < num_tokens; i += kThreads) atomicOr(selected + i / 32, 1U << (i % 32));
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads) select_keys_kernel(const __grid_constant__ SelectKeysParams p) {
  __shared__ Selection s;
  release_successor();
  wait_for_predecessor();
  const int token = blockIdx.x, num_tokens = p.batch.positions[token] + 1, count = num_tokens / p.pool;
  if (threadIdx.x == 0) {
    s.prefix = 0;
    s.rest = static_cast<uint32_t>(p.num_selected / p.pool);
  }
  if (p.pool > 1) mark_tail(p, token, num_tokens);
  if (count > p.num_selected / p.pool) {
    if (count <= kMaxCachedScores)
      for (int i = threadIdx.x; i < count; i += kThreads) s.held[i] = make_order(p, token, i);
    __syncthreads();
    for (int shift = 24; shift >= 0; shift -= 8) narrow(p, s, token, count, shift);
  }
  uint32_t before = 0;
  const int end = p.pool > 1 ? count : 32 * p.selected_words;
  for (int first = 0; first < end; first += kThreads) before = mark(p, s, token, first, count, before);
}

}  // namespace

cudaError_t launch_select_keys(const SelectKeysParams& p, Launch l) {
  const dim3 grid(static_cast<unsigned>(p.batch.num_tokens));
  if (const cudaError_t error =
          launch_kernel(rotate_index_rows_kernel, grid, dim3(kThreads), 0, l.stream, l.dependent, p);
      error != cudaSuccess)
    return error;
  if (p.pool > 1) {
    const cudaError_t error =
        launch_kernel(pool_keys_kernel, grid, dim3(kThreads), 0, l.stream, l.dependent, p);
    if (error != cudaSuccess) return error;
  }
  return launch_kernel(select_keys_kernel, grid, dim3(kThreads), 0, l.stream, l.dependent, p);
}

cudaError_t setup_select_keys() {
  return load_kernels(rotate_index_rows_kernel, pool_keys_kernel, select_keys_kernel);
}

}  // namespace quire::kernels
