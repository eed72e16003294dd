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

__device__ __forceinline__ __half* index_key(const SelectKeysParams& p, int sequence, int position) {
  const int page_tokens = p.kv_shape.page_tokens;
  const int page =
      p.batch.page_table[static_cast<size_t>(sequence) * p.batch.page_table_stride + position / page_tokens];
  const size_t row = static_cast<size_t>(page) * page_tokens + position % page_tokens;
  return static_cast<__half*>(p.kv.index_keys) + row * p.head_dim;
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

// Head num_heads is the key, which is written to its page.
__global__ void __launch_bounds__(kThreads)
    rotate_index_rows_kernel(const __grid_constant__ SelectKeysParams p) {
  release_successor();
  wait_for_predecessor();
  const int token = blockIdx.x, half = p.rotary_dim / 2;
  float* key = p.key + static_cast<size_t>(token) * p.head_dim;
  float* queries = p.query + static_cast<size_t>(token) * p.num_heads * p.head_dim;
  for (int i = threadIdx.x; i < (p.num_heads + 1) * half; i += kThreads) {
    const int head = i / half;
    rotate(p, head == p.num_heads ? key : queries + head * p.head_dim, token, i % half);
  }
  __syncthreads();
  __half* kept = index_key(p, p.batch.sequence_of_token[token], p.batch.positions[token]);
  for (int d = threadIdx.x; d < p.head_dim; d += kThreads) kept[d] = __float2half_rn(key[d]);
}

// Returns an integer that is larger for larger scores.
__device__ __forceinline__ uint32_t order_of(float score) {
  const uint32_t bits = __float_as_uint(score + 0.0f);  // maps -0 to +0
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

__device__ __forceinline__ uint32_t make_order(const SelectKeysParams& p, int token, int position) {
  const __half* key = index_key(p, p.batch.sequence_of_token[token], position);
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

// Sets the bits of 256 positions from `first` on. Among equal scores the first `rest` are chosen; `before` of
// them had smaller positions. Returns `before` plus the number found here.
__device__ __forceinline__ uint32_t mark(const SelectKeysParams& p, Selection& s, int token, int first,
                                         int count, uint32_t before) {
  const int position = first + threadIdx.x, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const bool all = count <= p.num_selected;
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
  const uint32_t word = __ballot_sync(kAll, chosen || (equal && rank < s.rest));
  const int at = first / 32 + warp;
  if (lane == 0 && at < p.selected_words)
    p.selected[static_cast<size_t>(token) * p.selected_words + at] = word;
  __syncthreads();
  return before;
}

__global__ void __launch_bounds__(kThreads) select_keys_kernel(const __grid_constant__ SelectKeysParams p) {
  __shared__ Selection s;
  release_successor();
  wait_for_predecessor();
  const int token = blockIdx.x, count = p.batch.positions[token] + 1;
  if (threadIdx.x == 0) {
    s.prefix = 0;
    s.rest = static_cast<uint32_t>(p.num_selected);
  }
  if (count > p.num_selected) {
    if (count <= kMaxCachedScores)
      for (int i = threadIdx.x; i < count; i += kThreads) s.held[i] = make_order(p, token, i);
    __syncthreads();
    for (int shift = 24; shift >= 0; shift -= 8) narrow(p, s, token, count, shift);
  }
  uint32_t before = 0;
  for (int first = 0; first < 32 * p.selected_words; first += kThreads)
    before = mark(p, s, token, first, count, before);
}

}  // namespace

cudaError_t launch_select_keys(const SelectKeysParams& p, Launch l) {
  const dim3 grid(static_cast<unsigned>(p.batch.num_tokens));
  if (const cudaError_t error =
          launch_kernel(rotate_index_rows_kernel, grid, dim3(kThreads), 0, l.stream, l.dependent, p);
      error != cudaSuccess)
    return error;
  return launch_kernel(select_keys_kernel, grid, dim3(kThreads), 0, l.stream, l.dependent, p);
}

cudaError_t setup_select_keys() {
  return load_kernels(rotate_index_rows_kernel, select_keys_kernel);
}

}  // namespace quire::kernels
