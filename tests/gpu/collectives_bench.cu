// Benchmark of the collectives of tensor parallelism, on the cards of one process with peer access. It
// compares two ways to cut a layer: every matrix by columns, with four all-gathers per layer, or the second
// matrix of each block by rows, with two all-reduces that add partial sums in the order of ranks.
//
//   nvcc -O3 -arch=sm_90 -std=c++17 -o collectives_bench collectives_bench.cu
//   collectives_bench [--cards N] [--same-card]     N: 2, 4 or 8
//
// Long file: one program, so that one line builds it.
//
// --same-card puts all ranks on the first card. This checks the protocol on a machine with one card; the
// times mean nothing. Exit status: 0 if all results are correct, 1 for a wrong result, 2 for too few cards or
// no peer access, 3 if a wait took too long, 4 if a CUDA call failed.
//
// Protocol. Collectives are numbered; the number is their epoch. A rank writes only to memory of its peers
// and reads only its own memory. There are two copies of each buffer that peers write; an even epoch uses
// one, an odd epoch the other. A rank starts epoch e + 2 only after every peer has sent it data or a flag of
// epoch e + 1. Each peer sends these after all its work of epoch e, because kernels of a stream run one after
// another. So a fast rank never overwrites data that a slow rank still has to read. Every card counts epochs
// in its own memory, so that replays of a graph continue the count.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace {

constexpr int kMaxRanks = 8;
constexpr int kThreads = 512;  // per block; at least kMaxRanks
constexpr int kMaxBlocks = 128;
constexpr int kFlagStride = 32;                          // flags of two blocks are 128 bytes apart
constexpr uint64_t kMaxBytes = uint64_t{64} << 20;       // largest message: 2,048 rows of 8,192 floats
constexpr uint64_t kMaxInlineBytes = uint64_t{1} << 20;  // largest payload for the inline algorithm
constexpr uint64_t kMaxPairs = kMaxInlineBytes / 8;
constexpr uint64_t kTimeoutNs = 2'000'000'000;

// Memory of one card that its peers write.
struct Inbox {
  uint8_t* out;       // [parity][kMaxBytes] result of a collective
  uint8_t* slots;     // [parity][rank][kMaxBytes] partial vectors of the peers
  ulonglong2* pairs;  // [parity][rank][kMaxPairs] two words, each with its epoch in the upper half
  uint32_t* flags;    // [phase][block][kFlagStride] the last epoch that each rank has sent
};

struct Peers {
  Inbox of[kMaxRanks];
};

// Arguments of one collective on one card.
struct Task {
  const uint8_t* in;      // all-gather: this rank's columns of all rows; all-reduce: the whole partial vector
  const uint32_t* epoch;  // epoch of the graph's first collective
  uint32_t offset;        // number of epochs from there to this collective
  uint32_t rounds;        // number of collectives that this kernel runs
  uint32_t rank;
  uint32_t rows;
  uint32_t row_bytes;  // bytes of a row of the result
  uint32_t* failed;    // host memory, set when a wait takes too long
};

__device__ uint64_t now_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

// Stores a flag. All that the block wrote before its last barrier is visible on all cards before the flag.
__device__ void store_release(uint32_t* flag, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

__device__ uint32_t load_acquire(const uint32_t* flag) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

// Stores two words, each with the epoch. A 64-bit element is written and read as a whole, so a word and its
// epoch arrive together.
__device__ void store_pair(ulonglong2* pair, uint2 payload, uint32_t epoch) {
  const uint64_t mark = static_cast<uint64_t>(epoch) << 32;
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(pair), "l"(mark | payload.x),
               "l"(mark | payload.y)
               : "memory");
}

__device__ ulonglong2 load_pair(const ulonglong2* pair) {
  uint64_t x, y;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];" : "=l"(x), "=l"(y) : "l"(pair) : "memory");
  return make_ulonglong2(x, y);
}

// Time limit of a wait. Once in 1,024 tries it checks the clock and whether another wait has failed.
struct Deadline {
  uint32_t* failed;
  uint32_t tries = 0;
  uint64_t start = 0;

  __device__ bool is_over() {
    if (++tries % 1024 != 0) return false;
    if (*static_cast<volatile uint32_t*>(failed) != 0) return true;
    const uint64_t now = now_ns();
    if (start == 0) start = now;
    if (now - start < kTimeoutNs) return false;
    *static_cast<volatile uint32_t*>(failed) = 1;
    return true;
  }
};

// Waits until a peer has sent an epoch. A fast peer may have sent the next epoch too; both are then complete.
__device__ void wait_flag(const uint32_t* flag, uint32_t epoch, uint32_t* failed) {
  Deadline deadline{failed};
  while (static_cast<int32_t>(load_acquire(flag) - epoch) < 0 && !deadline.is_over()) {
  }
}

__device__ uint2 receive_pair(const ulonglong2* pair, uint32_t epoch, uint32_t* failed) {
  Deadline deadline{failed};
  for (;;) {
    const ulonglong2 got = load_pair(pair);
    if ((got.x >> 32 == epoch && got.y >> 32 == epoch) || deadline.is_over())
      return make_uint2(static_cast<uint32_t>(got.x), static_cast<uint32_t>(got.y));
  }
}

// Exchanges flags between a block of this rank and the same block of each peer.
template <int N>
__device__ void exchange_flags(const Peers& peers, const Task& task, uint32_t epoch, int phase) {
  __syncthreads();
  const uint32_t peer = threadIdx.x;
  if (peer < N && peer != task.rank) {
    const uint32_t block = (phase * kMaxBlocks + blockIdx.x) * kFlagStride;
    store_release(peers.of[peer].flags + block + task.rank, epoch);
    wait_flag(peers.of[task.rank].flags + block + peer, epoch, task.failed);
  }
  __syncthreads();
}

// Arithmetic on 32-bit words of payload: one float or two halves. Halves are added as floats and rounded
// once.
template <typename T>
struct Word;
template <>
struct Word<float> {
  using Sum = float;
  static __device__ Sum widen(uint32_t word) { return __uint_as_float(word); }
  static __device__ Sum add(Sum a, Sum b) { return __fadd_rn(a, b); }
  static __device__ uint32_t narrow(Sum sum) { return __float_as_uint(sum); }
};
template <>
struct Word<__half> {
  using Sum = float2;
  static __device__ Sum widen(uint32_t word) {
    __half2 halves;
    memcpy(&halves, &word, sizeof(word));
    return __half22float2(halves);
  }
  static __device__ Sum add(Sum a, Sum b) { return make_float2(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y)); }
  static __device__ uint32_t narrow(Sum sum) {
    const __half2 halves = __floats2half2_rn(sum.x, sum.y);
    uint32_t word;
    memcpy(&word, &halves, sizeof(word));
    return word;
  }
};

// Adds the vectors of all ranks in the order of ranks, so that every card gets the same bits.
template <typename T, int N, typename Vector>
__device__ Vector sum_of_ranks(const Vector (&vectors)[N]) {
  constexpr int kWords = sizeof(Vector) / 4;
  uint32_t words[N][kWords], sums[kWords];
  memcpy(words, vectors, sizeof(words));
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    typename Word<T>::Sum sum = Word<T>::widen(words[0][w]);
#pragma unroll
    for (int r = 1; r < N; ++r) sum = Word<T>::add(sum, Word<T>::widen(words[r][w]));
    sums[w] = Word<T>::narrow(sum);
  }
  Vector result;
  memcpy(&result, sums, sizeof(result));
  return result;
}

__device__ uint32_t first_item() {
  return blockIdx.x * kThreads + threadIdx.x;
}
__device__ uint32_t num_threads() {
  return gridDim.x * kThreads;
}

template <typename Vector>
__device__ Vector& at(uint8_t* base, uint64_t byte) {
  return *reinterpret_cast<Vector*>(base + byte);
}
template <typename Vector>
__device__ Vector load(const uint8_t* base, uint64_t byte) {
  return *reinterpret_cast<const Vector*>(base + byte);
}
// Reads data that peers wrote. Bypasses the L1 cache, which may hold an old line.
__device__ uint4 load_slot(const uint8_t* base, uint64_t byte) {
  return __ldcg(reinterpret_cast<const uint4*>(base + byte));
}

__device__ uint64_t part(uint32_t epoch) {
  return epoch & 1;
}

// Runs an all-gather: writes this rank's columns into the result of every card, then exchanges flags.
template <int N>
__global__ void __launch_bounds__(kThreads)
    gather_fence(const __grid_constant__ Peers peers, const __grid_constant__ Task task) {
  constexpr int kUnroll = 4;
  const uint32_t begin = *task.epoch + task.offset, per_row = task.row_bytes / N / 16;
  const uint32_t num_items = task.rows * per_row, step = num_threads();
  for (uint32_t epoch = begin; epoch != begin + task.rounds; ++epoch) {
    const uint64_t base = part(epoch) * kMaxBytes + task.rank * per_row * 16;
    for (uint32_t i = first_item(); i < num_items; i += step * kUnroll) {
      uint4 v[kUnroll];
#pragma unroll
      for (uint32_t u = 0; u < kUnroll; ++u)
        if (i + u * step < num_items) v[u] = load<uint4>(task.in, uint64_t{i + u * step} * 16);
#pragma unroll
      for (uint32_t u = 0; u < kUnroll; ++u) {
        const uint32_t item = i + u * step, row = item / per_row;
        if (item >= num_items) break;
        const uint64_t to = base + uint64_t{row} * task.row_bytes + uint64_t{item - row * per_row} * 16;
#pragma unroll
        for (int r = 0; r < N; ++r) at<uint4>(peers.of[r].out, to) = v[u];
      }
    }
    exchange_flags<N>(peers, task, epoch, 0);
  }
}

// Runs an all-gather of a small message: every 4 bytes carry their epoch, and the receiver copies them to
// the result.
template <int N>
__global__ void __launch_bounds__(kThreads)
    gather_inline(const __grid_constant__ Peers peers, const __grid_constant__ Task task) {
  const uint32_t begin = *task.epoch + task.offset, per_row = task.row_bytes / N / 8;
  const uint32_t num_items = task.rows * per_row, step = num_threads();
  const Inbox& own = peers.of[task.rank];
  for (uint32_t epoch = begin; epoch != begin + task.rounds; ++epoch) {
    const uint64_t slot = part(epoch) * N;
    for (uint32_t i = first_item(); i < num_items; i += step) {
      const uint2 v = load<uint2>(task.in, uint64_t{i} * 8);
#pragma unroll
      for (int r = 0; r < N; ++r)
        if (r != task.rank) store_pair(peers.of[r].pairs + (slot + task.rank) * kMaxPairs + i, v, epoch);
    }
    for (uint32_t i = first_item(); i < num_items; i += step) {
      const uint32_t row = i / per_row;
      const uint64_t to =
          part(epoch) * kMaxBytes + uint64_t{row} * task.row_bytes + uint64_t{i - row * per_row} * 8;
#pragma unroll
      for (int r = 0; r < N; ++r)
        at<uint2>(own.out, to + uint64_t{r * per_row} * 8) =
            r == task.rank ? load<uint2>(task.in, uint64_t{i} * 8)
                           : receive_pair(own.pairs + (slot + r) * kMaxPairs + i, epoch, task.failed);
    }
  }
}

// Loads the vectors of all ranks for one epoch: this rank's from `in`, the others from the slots.
template <int N>
__device__ void load_partials(const Peers& peers, const Task& task, uint32_t epoch, uint64_t in_byte,
                              uint64_t slot_byte, uint4 (&vectors)[N]) {
  const uint8_t* slots = peers.of[task.rank].slots + part(epoch) * N * kMaxBytes;
#pragma unroll
  for (int r = 0; r < N; ++r)
    vectors[r] = r == task.rank ? load<uint4>(task.in, in_byte) : load_slot(slots, r * kMaxBytes + slot_byte);
}

// Sends bytes of `in` to this rank's slot at a peer.
template <int N>
__device__ void send_partials(const Peers& peers, const Task& task, uint32_t epoch, int peer,
                              uint64_t in_byte, uint32_t num_items) {
  constexpr int kUnroll = 4;
  uint8_t* slot = peers.of[peer].slots + (part(epoch) * N + task.rank) * kMaxBytes;
  const uint32_t step = num_threads();
  for (uint32_t i = first_item(); i < num_items; i += step * kUnroll) {
    uint4 v[kUnroll];
#pragma unroll
    for (uint32_t u = 0; u < kUnroll; ++u)
      if (i + u * step < num_items) v[u] = load<uint4>(task.in, in_byte + uint64_t{i + u * step} * 16);
#pragma unroll
    for (uint32_t u = 0; u < kUnroll; ++u)
      if (i + u * step < num_items) at<uint4>(slot, uint64_t{i + u * step} * 16) = v[u];
  }
}

// Runs an all-reduce in one step: sends the whole partial vector to every peer, then adds the vectors of
// all ranks.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    reduce_fence(const __grid_constant__ Peers peers, const __grid_constant__ Task task) {
  const uint32_t begin = *task.epoch + task.offset, num_items = task.rows * (task.row_bytes / 16);
  for (uint32_t epoch = begin; epoch != begin + task.rounds; ++epoch) {
    for (int r = 1; r < N; ++r) send_partials<N>(peers, task, epoch, (task.rank + r) % N, 0, num_items);
    exchange_flags<N>(peers, task, epoch, 0);
    uint8_t* out = peers.of[task.rank].out + part(epoch) * kMaxBytes;
#pragma unroll 2
    for (uint32_t i = first_item(); i < num_items; i += num_threads()) {
      uint4 v[N];
      load_partials<N>(peers, task, epoch, uint64_t{i} * 16, uint64_t{i} * 16, v);
      at<uint4>(out, uint64_t{i} * 16) = sum_of_ranks<T>(v);
    }
  }
}

// Runs an all-reduce of a small message in one step; every 4 bytes of payload carry their epoch.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    reduce_inline(const __grid_constant__ Peers peers, const __grid_constant__ Task task) {
  const uint32_t begin = *task.epoch + task.offset, num_items = task.rows * (task.row_bytes / 8);
  const uint32_t step = num_threads();
  const Inbox& own = peers.of[task.rank];
  for (uint32_t epoch = begin; epoch != begin + task.rounds; ++epoch) {
    const uint64_t slot = part(epoch) * N;
    for (uint32_t i = first_item(); i < num_items; i += step) {
      const uint2 v = load<uint2>(task.in, uint64_t{i} * 8);
#pragma unroll
      for (int r = 0; r < N; ++r)
        if (r != task.rank) store_pair(peers.of[r].pairs + (slot + task.rank) * kMaxPairs + i, v, epoch);
    }
    for (uint32_t i = first_item(); i < num_items; i += step) {
      uint2 v[N];
#pragma unroll
      for (int r = 0; r < N; ++r)
        v[r] = r == task.rank ? load<uint2>(task.in, uint64_t{i} * 8)
                              : receive_pair(own.pairs + (slot + r) * kMaxPairs + i, epoch, task.failed);
      at<uint2>(own.out, part(epoch) * kMaxBytes + uint64_t{i} * 8) = sum_of_ranks<T>(v);
    }
  }
}

// Runs an all-reduce in two steps: adds this rank's slice of the vectors of all ranks, then writes the sums
// to every card.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    reduce_two_step(const __grid_constant__ Peers peers, const __grid_constant__ Task task) {
  const uint32_t begin = *task.epoch + task.offset, num_items = task.rows * (task.row_bytes / N / 16);
  const uint64_t slice = uint64_t{num_items} * 16, own_slice = task.rank * slice;
  for (uint32_t epoch = begin; epoch != begin + task.rounds; ++epoch) {
    for (int r = 1; r < N; ++r) {
      const int peer = (task.rank + r) % N;
      send_partials<N>(peers, task, epoch, peer, peer * slice, num_items);
    }
    exchange_flags<N>(peers, task, epoch, 0);
#pragma unroll 2
    for (uint32_t i = first_item(); i < num_items; i += num_threads()) {
      uint4 v[N];
      const uint64_t byte = own_slice + uint64_t{i} * 16;
      load_partials<N>(peers, task, epoch, byte, uint64_t{i} * 16, v);
      const uint4 sum = sum_of_ranks<T>(v);
#pragma unroll
      for (int r = 0; r < N; ++r) at<uint4>(peers.of[r].out, part(epoch) * kMaxBytes + byte) = sum;
    }
    exchange_flags<N>(peers, task, epoch, 1);
  }
}

__global__ void empty_kernel() {}
__global__ void advance(uint32_t* epoch, uint32_t count) {
  *epoch += count;
}

__host__ __device__ uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

// Returns the pseudo-random input of a rank, from -1 to 1. `salt` is different for each collective.
template <typename T>
__device__ T input(uint32_t rank, uint32_t salt, uint32_t i) {
  const uint32_t bits = mixed(i ^ mixed(salt * 8 + rank + 1));
  return static_cast<T>((static_cast<int32_t>(bits >> 8) - (1 << 23)) * (1.0f / (1 << 23)));
}

template <typename T>
__global__ void fill(T* in, uint32_t count, uint32_t rank, const uint32_t* salt, uint32_t offset) {
  for (uint32_t i = first_item(); i < count; i += num_threads()) in[i] = input<T>(rank, *salt + offset, i);
}

// Delays a card by a pseudo-random time of up to 40,000 cycles.
__global__ void delay(const uint32_t* epoch, uint32_t offset, uint32_t rank) {
  const int64_t cycles = mixed((*epoch + offset) * 8 + rank) % 40000, start = clock64();
  while (clock64() - start < cycles) {
  }
}

__device__ uint32_t bits(float x) {
  return __float_as_uint(x);
}
__device__ uint32_t bits(__half x) {
  return __half_as_ushort(x);
}

// Arguments of `check`. The epoch selects the buffer, the salt selects the inputs.
struct Expected {
  uint32_t rows, cols, num_ranks;
  bool is_gather;
  const uint32_t *epoch, *salt;
  uint32_t epoch_offset, salt_offset;
};

// Counts the elements of the result that differ in any bit from the result that the inputs give.
template <typename T>
__global__ void check(const uint8_t* out, Expected expected, uint32_t* num_wrong) {
  const T* result =
      reinterpret_cast<const T*>(out + part(*expected.epoch + expected.epoch_offset) * kMaxBytes);
  const uint32_t salt = *expected.salt + expected.salt_offset, width = expected.cols / expected.num_ranks;
  for (uint32_t i = first_item(); i < expected.rows * expected.cols; i += num_threads()) {
    T right;
    if (expected.is_gather) {
      const uint32_t row = i / expected.cols, col = i % expected.cols;
      right = input<T>(col / width, salt, row * width + col % width);
    } else {
      float sum = static_cast<float>(input<T>(0, salt, i));
      for (uint32_t r = 1; r < expected.num_ranks; ++r)
        sum = __fadd_rn(sum, static_cast<float>(input<T>(r, salt, i)));
      right = static_cast<T>(sum);
    }
    const T got = result[i];
    if (bits(got) != bits(right)) atomicAdd(num_wrong, 1);
  }
}

enum ExitStatus { kWrong = 1, kNoPeers = 2, kTimeout = 3, kCudaError = 4 };
enum class Op { gather, reduce };
enum class Type { f16, f32 };
enum Algorithm { kInline, kFence, kTwoStep, kNumAlgorithms };
constexpr const char* kAlgorithmNames[] = {"inline", "fence", "two_step"};

const char* name_of(Op op) {
  return op == Op::gather ? "all-gather" : "all-reduce";
}
const char* name_of(Type type) {
  return type == Type::f32 ? "f32" : "f16";
}

#define CHECK(call) check_cuda((call), #call, __LINE__)
void check_cuda(cudaError_t error, const char* call, int line) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(error));
  std::exit(kCudaError);
}

double seconds_since_start() {
  static const auto start = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Message {
  Op op;
  Type type;
  uint32_t rows, cols;

  uint32_t row_bytes() const { return cols * (type == Type::f32 ? 4 : 2); }
  uint64_t bytes() const { return uint64_t{rows} * row_bytes(); }
  // Bytes that a card sends to one peer in one step.
  uint64_t payload(int num_ranks) const { return op == Op::gather ? bytes() / num_ranks : bytes(); }
  bool operator<(const Message& other) const {
    return std::tie(op, type, rows, cols) < std::tie(other.op, other.type, other.rows, other.cols);
  }
};

// Algorithm and number of blocks for a message, and its microseconds: as a kernel of a graph, and as part of
// a longer kernel.
struct Choice {
  Algorithm algorithm = kFence;
  int blocks = 0;
  double us = 1e30;
  double inside_us = 0.0;
};

struct Step {
  Message message;
  Choice choice;
};

using Kernel = void (*)(Peers, Task);

template <int N>
Kernel kernel_of(const Message& message, Algorithm algorithm) {
  if (message.op == Op::gather) return algorithm == kInline ? gather_inline<N> : gather_fence<N>;
  const bool is_f32 = message.type == Type::f32;
  if (algorithm == kInline) return is_f32 ? reduce_inline<float, N> : reduce_inline<__half, N>;
  if (algorithm == kFence) return is_f32 ? reduce_fence<float, N> : reduce_fence<__half, N>;
  return is_f32 ? reduce_two_step<float, N> : reduce_two_step<__half, N>;
}

struct Card {
  int rank = 0, device = 0;
  cudaStream_t stream = nullptr;
  uint8_t* in = nullptr;
  uint32_t *epoch = nullptr, *zero = nullptr, *num_wrong = nullptr;
  std::vector<cudaEvent_t> events;
};

class Bench {
 public:
  Bench(int num_ranks, bool is_same_card) : num_ranks_(num_ranks), cards_(num_ranks) {
    CHECK(cudaHostAlloc(&failed_, sizeof(*failed_), cudaHostAllocPortable | cudaHostAllocMapped));
    *failed_ = 0;
    max_blocks_ = kMaxBlocks;
    for (int r = 0; r < num_ranks; ++r) {
      cards_[r].rank = r;
      cards_[r].device = is_same_card ? 0 : r;
      add_card(&cards_[r], is_same_card);
    }
    synchronize();
  }

  int num_ranks() const { return num_ranks_; }
  int max_blocks() const { return max_blocks_; }

  // Copies from the first card to the second and returns the bytes per second. This also raises the clock
  // rates.
  double copy_bandwidth() {
    constexpr int kCopies = 200;
    const Card& card = cards_[0];
    CHECK(cudaSetDevice(card.device));
    for (int i = 0; i < kCopies + 1; ++i) {
      if (i == 1) CHECK(cudaEventRecord(card.events[0], card.stream));
      CHECK(cudaMemcpyAsync(peers_.of[1].out, card.in, kMaxBytes, cudaMemcpyDefault, card.stream));
    }
    CHECK(cudaEventRecord(card.events[1], card.stream));
    synchronize();
    float ms = 0.0f;
    CHECK(cudaEventElapsedTime(&ms, card.events[0], card.events[1]));
    return double{kCopies} * kMaxBytes / (ms * 1e-3);
  }

  // Returns the microseconds of an empty kernel in a graph of many.
  double empty_us(int blocks) {
    constexpr int kCount = 64;
    return median_us(0, 9,
                     [&](const Card& card) {
                       for (int i = 0; i < kCount; ++i) empty_kernel<<<blocks, kThreads, 0, card.stream>>>();
                     }) /
           kCount;
  }

  // Returns the microseconds of one pass over the steps. The graph contains `passes` passes, and each kernel
  // runs `rounds` collectives.
  double timed_us(const std::vector<Step>& steps, int passes, int rounds, int repeats) {
    const uint32_t epochs = static_cast<uint32_t>(steps.size() * passes * rounds);
    // In a chain the steps share one input, so its results are checked only by `verify`.
    if (steps.size() == 1)
      each_card([&](const Card& card) { fill_input(card, steps[0].message, card.zero, 0); });
    const double us = median_us(epochs, repeats, [&](const Card& card) {
      uint32_t offset = 0;
      for (int pass = 0; pass < passes; ++pass) {
        for (const Step& step : steps) {
          launch(card, step, offset, rounds);
          offset += rounds;
        }
      }
    });
    if (steps.size() == 1) {
      each_card([&](const Card& card) {
        check_result(card, steps[0].message, {card.epoch, ~0U}, {card.zero, 0});
      });
      expect_right(steps);
    }
    return us / passes;
  }

  // Runs the steps, each with new inputs and random delays, and checks every result.
  void verify(const std::vector<Step>& steps, int passes) {
    const uint32_t epochs = static_cast<uint32_t>(steps.size() * passes);
    median_us(epochs, 3, [&](const Card& card) {
      for (uint32_t offset = 0; offset < epochs; ++offset) {
        const Step& step = steps[offset % steps.size()];
        fill_input(card, step.message, card.epoch, offset);
        delay<<<1, 1, 0, card.stream>>>(card.epoch, offset, card.rank);
        launch(card, step, offset, 1);
        check_result(card, step.message, {card.epoch, offset}, {card.epoch, offset});
      }
    });
    expect_right(steps);
  }

 private:
  struct Counter {
    const uint32_t* base;
    uint32_t offset;
  };
  using Record = std::function<void(const Card&)>;

  template <typename T>
  void allocate(T** memory, uint64_t bytes) {
    void* found = nullptr;
    CHECK(cudaMalloc(&found, bytes));
    CHECK(cudaMemset(found, 0, bytes));
    *memory = static_cast<T*>(found);
  }

  void add_card(Card* card, bool is_same_card) {
    int num_sms = 0;
    CHECK(cudaSetDevice(card->device));
    CHECK(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, card->device));
    // All blocks of a kernel must run at the same time, because they wait for their peers.
    max_blocks_ = std::min(max_blocks_, is_same_card ? num_sms / num_ranks_ : num_sms);
    for (int peer = 0; peer < num_ranks_ && !is_same_card; ++peer) {
      if (peer != card->device) CHECK(cudaDeviceEnablePeerAccess(peer, 0));
    }
    CHECK(cudaStreamCreateWithFlags(&card->stream, cudaStreamNonBlocking));
    card->events.resize(16);
    for (cudaEvent_t& event : card->events) CHECK(cudaEventCreate(&event));
    allocate(&card->in, kMaxBytes);
    allocate(&card->epoch, 4);
    allocate(&card->zero, 4);
    allocate(&card->num_wrong, 4);
    const uint32_t first_epoch = 1;  // flags start at 0
    CHECK(cudaMemcpy(card->epoch, &first_epoch, 4, cudaMemcpyHostToDevice));
    Inbox& inbox = peers_.of[card->rank];
    allocate(&inbox.out, 2 * kMaxBytes);
    allocate(&inbox.slots, 2 * kMaxBytes * num_ranks_);
    allocate(&inbox.pairs, 2 * kMaxPairs * sizeof(ulonglong2) * num_ranks_);
    allocate(&inbox.flags, 2 * kMaxBlocks * kFlagStride * sizeof(uint32_t));
  }

  void each_card(const Record& record) {
    for (const Card& card : cards_) {
      CHECK(cudaSetDevice(card.device));
      record(card);
      CHECK(cudaGetLastError());
    }
  }

  void synchronize() {
    each_card([](const Card&) { CHECK(cudaDeviceSynchronize()); });
    if (*static_cast<volatile uint32_t*>(failed_) == 0) return;
    std::fprintf(stderr, "a card waited for more than %.0f s for a peer\n", kTimeoutNs * 1e-9);
    std::exit(kTimeout);
  }

  // Replays a graph on all cards and returns the median microseconds of a replay.
  double median_us(uint32_t epochs, int repeats, const Record& record) {
    std::vector<cudaGraphExec_t> graphs;
    each_card([&](const Card& card) {
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t executable = nullptr;
      CHECK(cudaStreamBeginCapture(card.stream, cudaStreamCaptureModeThreadLocal));
      record(card);
      if (epochs != 0) advance<<<1, 1, 0, card.stream>>>(card.epoch, epochs);
      CHECK(cudaStreamEndCapture(card.stream, &graph));
      CHECK(cudaGraphInstantiate(&executable, graph, 0));
      CHECK(cudaGraphUpload(executable, card.stream));
      CHECK(cudaGraphDestroy(graph));
      graphs.push_back(executable);
    });
    synchronize();
    // The first replay is not measured, because the cards do not start it at the same time.
    for (int i = 0; i <= repeats; ++i) {
      each_card([&](const Card& card) {
        CHECK(cudaGraphLaunch(graphs[card.rank], card.stream));
        CHECK(cudaEventRecord(card.events[i], card.stream));
      });
    }
    synchronize();
    std::vector<double> times;
    for (int i = 0; i < repeats; ++i) {
      float slowest = 0.0f;
      for (const Card& card : cards_) {
        float ms = 0.0f;
        CHECK(cudaEventElapsedTime(&ms, card.events[i], card.events[i + 1]));
        slowest = std::max(slowest, ms);
      }
      times.push_back(slowest * 1e3);
    }
    for (cudaGraphExec_t graph : graphs) CHECK(cudaGraphExecDestroy(graph));
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  void launch(const Card& card, const Step& step, uint32_t offset, uint32_t rounds) {
    const Message& message = step.message;
    const Algorithm algorithm = step.choice.algorithm;
    const Kernel kernel = num_ranks_ == 2   ? kernel_of<2>(message, algorithm)
                          : num_ranks_ == 4 ? kernel_of<4>(message, algorithm)
                                            : kernel_of<8>(message, algorithm);
    const Task task = {card.in,      card.epoch,          offset, rounds, static_cast<uint32_t>(card.rank),
                       message.rows, message.row_bytes(), failed_};
    kernel<<<step.choice.blocks, kThreads, 0, card.stream>>>(peers_, task);
  }

  void fill_input(const Card& card, const Message& message, const uint32_t* salt, uint32_t offset) {
    const uint32_t count = message.rows * message.cols / (message.op == Op::gather ? num_ranks_ : 1);
    if (message.type == Type::f32) {
      fill<<<kMaxBlocks, kThreads, 0, card.stream>>>(reinterpret_cast<float*>(card.in), count, card.rank,
                                                     salt, offset);
    } else {
      fill<<<kMaxBlocks, kThreads, 0, card.stream>>>(reinterpret_cast<__half*>(card.in), count, card.rank,
                                                     salt, offset);
    }
  }

  void check_result(const Card& card, const Message& message, Counter epoch, Counter salt) {
    const Expected expected = {message.rows,
                               message.cols,
                               static_cast<uint32_t>(num_ranks_),
                               message.op == Op::gather,
                               epoch.base,
                               salt.base,
                               epoch.offset,
                               salt.offset};
    const uint8_t* out = peers_.of[card.rank].out;
    if (message.type == Type::f32) {
      check<float><<<kMaxBlocks, kThreads, 0, card.stream>>>(out, expected, card.num_wrong);
    } else {
      check<__half><<<kMaxBlocks, kThreads, 0, card.stream>>>(out, expected, card.num_wrong);
    }
  }

  void expect_right(const std::vector<Step>& steps) {
    synchronize();
    each_card([&](const Card& card) {
      uint32_t num_wrong = 0;
      CHECK(cudaMemcpy(&num_wrong, card.num_wrong, 4, cudaMemcpyDeviceToHost));
      if (num_wrong == 0) return;
      std::fprintf(
          stderr,
          "rank %d: %u wrong elements in a chain of %zu; the first: %s %s of %u rows of %u, %s, %d blocks\n",
          card.rank, num_wrong, steps.size(), name_of(steps[0].message.op), name_of(steps[0].message.type),
          steps[0].message.rows, steps[0].message.cols, kAlgorithmNames[steps[0].choice.algorithm],
          steps[0].choice.blocks);
      std::exit(kWrong);
    });
  }

  int num_ranks_, max_blocks_;
  std::vector<Card> cards_;
  Peers peers_ = {};
  uint32_t* failed_ = nullptr;
};

// Measures and caches the best number of blocks of each algorithm for each message.
class Tuner {
 public:
  explicit Tuner(Bench* bench) : bench_(bench) {}

  const std::vector<Choice>& choices(const Message& message) {
    const auto found = measured_.find(message);
    if (found != measured_.end()) return found->second;
    std::vector<Choice> all;
    for (int algorithm = 0; algorithm < kNumAlgorithms; ++algorithm) {
      if (algorithm == kInline && message.payload(bench_->num_ranks()) > kMaxInlineBytes) continue;
      if (algorithm == kTwoStep && message.op == Op::gather) continue;
      all.push_back(measure(message, static_cast<Algorithm>(algorithm)));
    }
    return measured_[message] = all;
  }

  Choice best(const Message& message) {
    const std::vector<Choice>& all = choices(message);
    return *std::min_element(all.begin(), all.end(),
                             [](const Choice& a, const Choice& b) { return a.us < b.us; });
  }

 private:
  Choice measure(const Message& message, Algorithm algorithm) {
    const int count = message.bytes() > (uint64_t{4} << 20) ? 16 : 64;
    const int most = bench_->max_blocks();
    const uint64_t num_items = message.payload(bench_->num_ranks()) / (algorithm == kInline ? 8 : 16);
    Choice best;
    for (int wanted = 1; wanted <= kMaxBlocks; wanted *= 2) {
      const Choice choice = {algorithm, std::min(wanted, most)};
      const uint64_t each = num_items / (uint64_t{kThreads} * choice.blocks);
      const bool is_last = wanted >= most || wanted == kMaxBlocks;
      if (each > 64 && !is_last) continue;
      if (best.blocks != 0 && (seconds_since_start() > kTuningSeconds || each == 0)) break;
      const double us = bench_->timed_us({{message, choice}}, count, 1, 3);
      if (us < best.us) best = {algorithm, choice.blocks, us};
      if (is_last) break;
    }
    const std::vector<Step> steps = {{message, best}};
    bench_->verify(steps, 6);
    best.us = bench_->timed_us(steps, count, 1, 9);
    best.inside_us = bench_->timed_us(steps, 1, count, 9) / count;
    return best;
  }

  static constexpr double kTuningSeconds = 35.0;

  Bench* bench_;
  std::map<Message, std::vector<Choice>> measured_;
};

struct Model {
  const char* name;
  uint32_t hidden, attention, intermediate, layers;  // attention: columns of all heads
};
constexpr Model kModels[] = {{"70B", 8192, 64 * 128, 28672, 80}, {"8B", 4096, 32 * 128, 14336, 32}};
constexpr uint32_t kRows[] = {1, 8, 32, 64, 256, 2048};
constexpr uint32_t kLayerRows[] = {1, 8, 32, 64, 256};

// Tab-separated lines for programs, printed after the tables.
std::string tsv_lines;

template <typename... Values>
std::string text(const char* format, Values... values) {
  char line[512];
  std::snprintf(line, sizeof(line), format, values...);
  return line;
}

void print_collectives(Tuner* tuner, int num_ranks) {
  std::printf(
      "\nMicroseconds of one collective as a kernel of a graph (number of blocks). inside: the best one as\n"
      "part of a longer kernel, without launches. GB/s: bytes that a card sends to all peers.\n\n");
  std::printf("%-10s %5s %5s %4s %9s | %14s %14s %14s | %-8s %8s %8s %6s\n", "operation", "cols", "rows",
              "type", "bytes", "inline", "fence", "two_step", "best", "us", "inside", "GB/s");
  for (const Op op : {Op::gather, Op::reduce}) {
    for (const Model& model : kModels) {
      for (const Type type : {Type::f16, Type::f32}) {
        for (const uint32_t rows : kRows) {
          const Message message = {op, type, rows, model.hidden};
          const Choice best = tuner->best(message);
          const std::string head = text("%s\t%u\t%u\t%s\t%llu", name_of(op), message.cols, rows,
                                        name_of(type), static_cast<unsigned long long>(message.bytes()));
          std::string cells[kNumAlgorithms] = {"-", "-", "-"};
          for (const Choice& choice : tuner->choices(message)) {
            cells[choice.algorithm] = text("%.2f (%d)", choice.us, choice.blocks);
            tsv_lines += text("tsv\tcollective\t%s\t%s\t%d\t%.3f\t%.3f\n", head.c_str(),
                              kAlgorithmNames[choice.algorithm], choice.blocks, choice.us, choice.inside_us);
          }
          // Two steps send a slice of the vector and a slice of the sums to each peer.
          const double share = best.algorithm == kTwoStep ? 2.0 / num_ranks : 1.0;
          const double sent = share * static_cast<double>(message.payload(num_ranks)) * (num_ranks - 1);
          std::printf("%-10s %5u %5u %4s %9llu | %14s %14s %14s | %-8s %8.2f %8.2f %6.1f\n", name_of(op),
                      message.cols, rows, name_of(type), static_cast<unsigned long long>(message.bytes()),
                      cells[kInline].c_str(), cells[kFence].c_str(), cells[kTwoStep].c_str(),
                      kAlgorithmNames[best.algorithm], best.us, best.inside_us, sent / best.us * 1e-3);
        }
      }
    }
  }
}

// Collectives of a layer for one way to cut it, in order.
struct Cut {
  const char* name;
  std::vector<Message> messages;
};

std::vector<Cut> cuts_of(const Model& model, uint32_t rows) {
  const Message o_sums = {Op::reduce, Type::f32, rows, model.hidden},
                o_halves = {Op::reduce, Type::f16, rows, model.hidden};
  const Message residual = {Op::gather, Type::f32, rows, model.hidden};
  return {{"4 gathers",
           {{Op::gather, Type::f16, rows, model.attention},
            residual,
            {Op::gather, Type::f16, rows, model.intermediate},
            residual}},
          {"2 sums f32", {o_sums, o_sums}},
          {"2 sums f16", {o_halves, o_halves}}};
}

void print_layers(Bench* bench, Tuner* tuner, double empty_us) {
  std::printf(
      "\nCollectives of a layer, one after another in a graph, without the work between them. Gathers: "
      "attention\n"
      "f16, residual f32, activated columns f16, residual f32. launches: as many empty kernels. inside: as "
      "parts\n"
      "of longer kernels, without launches. more: than 2 sums f32, in ms of a step.\n\n");
  std::printf("%-5s %5s %-11s | %9s %9s %9s | %9s %9s | %10s %12s | %s\n", "model", "rows", "cut", "us/layer",
              "launches", "inside", "ms/step", "inside", "more", "inside more", "algorithms");
  for (const Model& model : kModels) {
    for (const uint32_t rows : kLayerRows) {
      struct Line {
        std::string name, algorithms;
        size_t num_steps;
        double us, inside_us;
      };
      std::vector<Line> lines;
      for (const Cut& cut : cuts_of(model, rows)) {
        std::vector<Step> steps;
        Line line = {cut.name, "", cut.messages.size(), 0.0, 0.0};
        for (const Message& message : cut.messages) {
          const Choice best = tuner->best(message);
          steps.push_back({message, best});
          line.inside_us += best.inside_us;
          line.algorithms += text("%s%s(%d)", line.algorithms.empty() ? "" : " ",
                                  kAlgorithmNames[best.algorithm], best.blocks);
        }
        bench->verify(steps, 6);
        line.us = bench->timed_us(steps, static_cast<int>(64 / steps.size()), 1, 9);
        lines.push_back(line);
      }
      const double to_ms = model.layers * 1e-3;
      for (const Line& line : lines) {
        const double more = (line.us - lines[1].us) * to_ms,
                     inside_more = (line.inside_us - lines[1].inside_us) * to_ms;
        std::printf("%-5s %5u %-11s | %9.2f %9.2f %9.2f | %9.3f %9.3f | %10.3f %12.3f | %s\n", model.name,
                    rows, line.name.c_str(), line.us, line.num_steps * empty_us, line.inside_us,
                    line.us * to_ms, line.inside_us * to_ms, more, inside_more, line.algorithms.c_str());
        tsv_lines += text("tsv\tlayer\t%s\t%u\t%s\t%.3f\t%.3f\t%.3f\t%.4f\t%.4f\t%s\n", model.name, rows,
                          line.name.c_str(), line.us, line.num_steps * empty_us, line.inside_us,
                          line.us * to_ms, line.inside_us * to_ms, line.algorithms.c_str());
      }
    }
  }
}

[[noreturn]] void end_without_peers(const std::string& reason) {
  std::fprintf(stderr, "no measurement: %s\n", reason.c_str());
  std::exit(kNoPeers);
}

struct Arguments {
  int num_cards = 0;
  bool is_same_card = false;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--same-card") == 0) {
      arguments.is_same_card = true;
    } else if (std::strcmp(argv[i], "--cards") == 0 && i + 1 < argc) {
      arguments.num_cards = std::atoi(argv[++i]);
    } else {
      end_without_peers(text("usage: %s [--cards N] [--same-card]", argv[0]));
    }
  }
  return arguments;
}

// Returns the number of ranks: the value of --cards, otherwise the largest power of two of visible cards up
// to 8.
int choose_ranks(const Arguments& arguments) {
  int num_visible = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_visible);
  if (error != cudaSuccess || num_visible == 0)
    end_without_peers(text("no card: %s", cudaGetErrorString(error)));
  int num_ranks = arguments.num_cards;
  if (num_ranks == 0) {
    num_ranks = 2;
    while (!arguments.is_same_card && num_ranks * 2 <= std::min(num_visible, kMaxRanks)) num_ranks *= 2;
  }
  if (num_ranks != 2 && num_ranks != 4 && num_ranks != 8) end_without_peers("--cards must be 2, 4 or 8");
  const int num_devices = arguments.is_same_card ? 1 : num_ranks;
  if (num_devices > num_visible)
    end_without_peers(text("%d cards are needed, %d are visible", num_devices, num_visible));
  for (int i = 0; i < num_devices; ++i) {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, i));
    std::printf("card %d: %s, compute capability %d.%d, %d multiprocessors\n", i, properties.name,
                properties.major, properties.minor, properties.multiProcessorCount);
  }
  for (int i = 0; i < num_devices; ++i) {
    for (int j = 0; j < num_devices; ++j) {
      int can_access = 1;
      if (i != j) CHECK(cudaDeviceCanAccessPeer(&can_access, i, j));
      if (can_access == 0) end_without_peers(text("card %d has no peer access to card %d", i, j));
    }
  }
  return num_ranks;
}

}  // namespace

int main(int argc, char** argv) {
  // Load all kernels now: loading one at its first launch could wait for a card that waits for that kernel.
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  seconds_since_start();
  const Arguments arguments = parse(argc, argv);
  const int num_ranks = choose_ranks(arguments);
  Bench bench(num_ranks, arguments.is_same_card);
  const double copied = bench.copy_bandwidth();
  const double empty_us = bench.empty_us(8);
  std::printf("%d ranks%s; a copy between two cards: %.0f GB/s; an empty kernel in a graph: %.2f us\n",
              num_ranks, arguments.is_same_card ? " ON ONE CARD: times mean nothing" : "", copied * 1e-9,
              empty_us);
  tsv_lines += text("tsv\tmachine\t%d\t%d\t%.1f\t%.3f\n", num_ranks, arguments.is_same_card ? 1 : 0,
                    copied * 1e-9, empty_us);
  Tuner tuner(&bench);
  print_collectives(&tuner, num_ranks);
  print_layers(&bench, &tuner, empty_us);
  std::printf(
      "\nColumns of the lines below, which begin with tsv and the first word:\n"
      "  machine ranks same_card copy_GB/s empty_us\n"
      "  collective operation cols rows type bytes algorithm blocks us inside_us\n"
      "  layer model rows cut us launches_us inside_us ms_per_step inside_ms_per_step algorithms\n%s",
      tsv_lines.c_str());
  std::printf("all results right, %.1f s\n", seconds_since_start());
  return 0;
}
