// CUDA emulation: the parts of CUDA C++ that C++ lacks, for kernels that run on the processor; included
// before every source of the backend. Threads of a block are fibers of one thread. They switch only where
// they wait for each other, to a fiber chosen by a seed (QUIRE_EMULATION_SEED). Blocks run one after the
// other, those of a cluster together. The seed also decides whether copies and warpgroup products are
// executed as early or as late as allowed. Not covered: races between synchronization points, and speed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <functional>
#include <type_traits>
#include <vector>

#undef __shared__
#define __shared__ static
#undef __grid_constant__
#define __grid_constant__
#undef __launch_bounds__
#define __launch_bounds__(...)

using std::isfinite;
using std::isinf;
using std::isnan;

extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

namespace emulation {

// Returns the block's dynamic shared memory. Addresses of shared memory are offsets from it, plus
// kSharedBytes for each block of the cluster after this one.
constexpr size_t kSharedBytes = size_t{232} << 10;
uint8_t* dynamic_shared();
// Returns this block's number in its cluster.
int block_of_cluster();

struct Place {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  int blocks_of_cluster = 1;  // adjacent along y
};

// Returns the shared memory of a multiprocessor and the largest of a block, in bytes.
size_t shared_per_multiprocessor();
size_t shared_per_block();

// Runs the threads of all blocks to their end, or adds the launch to the recording of the stream. Returns an
// error if a block has more shared memory than the card.
cudaError_t run(const Place& place, std::function<void()> kernel);

template <typename... Parameters, typename... Arguments>
cudaError_t issue(void (*kernel)(Parameters...), const Place& place, Arguments&&... arguments) {
  return run(place, [kernel, ... held = std::remove_cv_t<std::remove_reference_t<Parameters>>(arguments)] {
    kernel(held...);
  });
}

// Lets other fibers run until the data at `place` has changed; notify_change reports a change.
void wait_for_change(const void* place);
void notify_change(const void* place);
// Lets other fibers run, and the kernels of other cards: for a thread that polls for what a peer writes.
// Kernels that call it have no shared memory.
void wait_for_peers();
// Ends the process if the card of the running kernel has no access to that memory.
void check_peer(const void* place);
// Returns the time of waits for peers in nanoseconds. Only tests let it pass.
uint64_t wait_time();
// Queues work of the copy engine, which is executed at some later time while threads wait.
void run_later(std::function<void()> work);
// Waits until `threads` threads of the block have reached barrier `id`; 0: all that have not ended.
void sync_block(int id, int threads);
void sync_cluster();
void sync_warpgroup();
// Waits until all lanes of the warp have stored their words; returns the words of all lanes, valid until the
// next but one call.
struct LaneWords {
  uint64_t words[3];
};
const LaneWords* sync_warp(const LaneWords& mine);
int lane();

// Asynchronous work of a thread that it has not waited for, in groups.
template <typename Work>
struct Pending {
  std::vector<Work> asked;
  int groups = 0;  // number of committed groups
  uint32_t number = 0;

  // Executes the oldest work, so that at most the newest `left` groups stay outstanding.
  template <typename Do>
  void finish(int left, Do each) {
    size_t done = 0;
    while (done < asked.size() && asked[done].group < groups - left) each(asked[done++]);
    asked.erase(asked.begin(), asked.begin() + static_cast<ptrdiff_t>(done));
  }
};

// A warpgroup product.
struct Product {
  void (*multiply)(const Product&);
  float* sums;
  uint32_t a[4];  // operand in registers
  uint64_t of_a;  // operands in shared memory
  uint64_t of_b;
  bool add;
  int group;
};
using Products = Pending<Product>;
Products& own_products();

// An asynchronous copy to shared memory by a single thread (cp.async).
struct Copy {
  uint8_t* to;
  const void* from;
  size_t whole;  // total size; bytes after the first `bytes` become zero
  size_t bytes;
  int group;
};
using Copies = Pending<Copy>;
Copies& own_copies();

// Returns true if the product or copy with this number is executed when it is issued, and false if only when
// it is waited for.
bool executes_early(uint32_t number);

template <typename T>
T from_lane(T value, int other) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  LaneWords mine = {};
  std::memcpy(mine.words, &value, sizeof(T));
  const LaneWords* all = sync_warp(mine);
  std::memcpy(&value, all[other & 31].words, sizeof(T));
  return value;
}

}  // namespace emulation

template <typename... Parameters>
cudaError_t cudaFuncSetAttribute(void (*)(Parameters...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(static_cast<const void*>(nullptr), attribute, value);
}
template <typename... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*)(Parameters...)) {
  *attributes = {};
  attributes->binaryVersion = QUIRE_EMULATED_ARCH / 10;
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}

inline void __syncthreads() {
  emulation::sync_block(0, 0);
}
inline void __syncwarp(unsigned = ~0U) {
  emulation::sync_warp({});
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulation::from_lane(value, emulation::lane() ^ mask);
}
template <typename T>
T __shfl_sync(unsigned, T value, int lane) {
  return emulation::from_lane(value, lane);
}
template <typename T>
T __shfl_up_sync(unsigned, T value, int delta) {
  const int lane = emulation::lane();
  return emulation::from_lane(value, lane >= delta ? lane - delta : lane);
}
template <typename Join>
uint32_t reduce_lanes(uint32_t value, Join join) {
  const emulation::LaneWords* all = emulation::sync_warp({{value, 0, 0}});
  for (int l = 0; l < 32; ++l) value = join(value, static_cast<uint32_t>(all[l].words[0]));
  return value;
}
inline uint32_t __reduce_or_sync(unsigned, uint32_t value) {
  return reduce_lanes(value, [](uint32_t a, uint32_t b) { return a | b; });
}
inline uint32_t __reduce_max_sync(unsigned, uint32_t value) {
  return reduce_lanes(value, [](uint32_t a, uint32_t b) { return std::max(a, b); });
}
inline uint32_t __reduce_min_sync(unsigned, uint32_t value) {
  return reduce_lanes(value, [](uint32_t a, uint32_t b) { return std::min(a, b); });
}

inline unsigned __ballot_sync(unsigned, bool value) {
  const emulation::LaneWords* all = emulation::sync_warp({{value ? 1U : 0U, 0, 0}});
  unsigned out = 0;
  for (int l = 0; l < 32; ++l) out |= static_cast<unsigned>(all[l].words[0]) << l;
  return out;
}
inline int __popc(unsigned v) {
  return __builtin_popcount(v);
}

// Only one thread runs at a time, so plain arithmetic is atomic.
template <typename T, typename U>
T atomicAdd(T* place, U value) {
  const T before = *place;
  *place = static_cast<T>(before + value);
  return before;
}
template <typename T>
T atomicMax(T* place, T value) {
  const T before = *place;
  if (value > before) *place = value;
  return before;
}
template <typename T>
T atomicOr(T* place, T value) {
  const T before = *place;
  *place = before | value;
  return before;
}
template <typename T>
T atomicExch(T* place, T value) {
  const T before = *place;
  *place = value;
  return before;
}
inline void __threadfence() {}
template <typename T>
T __ldg(const T* place) {
  return *place;
}
template <typename T>
T __ldcg(const T* place) {
  return *place;
}
template <typename T>
void __stcg(T* place, T value) {
  *place = value;
}

template <typename To, typename From>
To emulated_cast(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To out;
  std::memcpy(&out, &value, sizeof(To));
  return out;
}
inline float __uint_as_float(unsigned v) {
  return emulated_cast<float>(v);
}
inline unsigned __float_as_uint(float v) {
  return emulated_cast<unsigned>(v);
}
inline float __int_as_float(int v) {
  return emulated_cast<float>(v);
}
inline int __float_as_int(float v) {
  return emulated_cast<int>(v);
}
inline int __float2int_rn(float v) {
  return static_cast<int>(std::lrint(v));
}
inline float __int2float_rn(int v) {
  return static_cast<float>(v);
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dsub_rn(double a, double b) {
  return a - b;
}
inline double __ddiv_rn(double a, double b) {
  return a / b;
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  const float2 x = __half22float2(a), y = __half22float2(b), z = __half22float2(c);
  return __floats2half2_rn(std::fma(x.x, y.x, z.x), std::fma(x.y, y.y, z.y));
}
inline float __expf(float x) {
  return std::exp(x);
}
inline int __ffs(int v) {
  return __builtin_ffs(v);
}
inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  const uint64_t bytes = (uint64_t{y} << 32) | x;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned selector = s >> (4 * i);
    const unsigned byte = static_cast<unsigned>(bytes >> (8 * (selector & 7))) & 255;
    out |= ((selector & 8) != 0 ? ((byte & 128) != 0 ? 255U : 0U) : byte) << (8 * i);
  }
  return out;
}

template <typename A, typename B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <typename A, typename B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
inline float rsqrtf(float x) {
  return 1.0f / std::sqrt(x);
}
