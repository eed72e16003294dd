#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "kernels/cuda/device/limits.h"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/warpgroup.cuh"

namespace quire::kernels {
namespace {

constexpr size_t kMinBytes = size_t{1} << 20;
constexpr size_t kMaxBytes = size_t{512} << 20;  // larger than all caches
constexpr size_t kBytesOfRun = size_t{4} << 30;  // about a millisecond
constexpr int kReadThreads = 512;
constexpr int kReadsAhead = 8;

__device__ __forceinline__ uint4 read_16(const uint4* from) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

// `count` is a multiple of kReadsAhead; every pass reads all of it.
__global__ void __launch_bounds__(kReadThreads)
    read_kernel(const uint4* data, size_t count, int passes, uint32_t* sink) {
  uint32_t all = 0;
  const size_t threads = static_cast<size_t>(gridDim.x) * blockDim.x;
  const size_t first = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int pass = 0; pass < passes; ++pass) {
    for (size_t i = first; i < count / kReadsAhead; i += threads) {
      uint4 v[kReadsAhead];
#pragma unroll
      for (int u = 0; u < kReadsAhead; ++u) v[u] = read_16(data + i + u * (count / kReadsAhead));
#pragma unroll
      for (int u = 0; u < kReadsAhead; ++u) all ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
    }
  }
  if (all == 0x12345678U) *sink = all;
}

// Returns small halves of both signs that vary with the seed: realistic operands, which determine the power
// that the card draws.
__device__ __forceinline__ uint32_t any_halves(uint32_t seed) {
  const uint32_t bits = seed * 2654435761U + 12345U;
  return (bits & 0x8fff8fffU) | 0x20002000U;
}

constexpr int kOpThreads = 512;
constexpr int kRounds = 400;
constexpr int kProductsOfRound = 16;

#if QUIRE_WARPGROUP_PRODUCTS

constexpr int64_t kMultipliedByWarp = 16 * 128 * 16;  // a quarter of the product of four warps

// Returns the wgmma descriptor of a [128, 64] tile: rows of 128 bytes, swizzled, eight rows per KiB.
__device__ __forceinline__ uint64_t tile_at(uint32_t address) {
  return (static_cast<uint64_t>(address & 0x3ffffU) >> 4) | uint64_t{1} << 16 | uint64_t{64} << 32 |
         uint64_t{1} << 62;
}

__global__ void __launch_bounds__(kOpThreads, 1) multiply_kernel(float* sink) {
  __shared__ __align__(1024) uint32_t tile[128 * 64 / 2];
  for (int i = threadIdx.x; i < 128 * 64 / 2; i += kOpThreads) tile[i] = any_halves(i);
  fence_async_proxy();
  __syncthreads();
  uint32_t a[4];
  float d[16][4] = {};
  for (int i = 0; i < 4; ++i) a[i] = any_halves(threadIdx.x * 4 + i);
  const uint64_t b = tile_at(shared_address(tile));
  for (int round = 0; round < kRounds; ++round) {
    begin_products();
#pragma unroll
    for (int i = 0; i < kProductsOfRound; ++i)
      multiply_64x128x16<false>(d, a, b + 2 * (i % 4), true);  // 32 bytes of each row
    commit_products();
    wait_for_products<0>();
  }
  float all = 0.0f;
  for (const auto& v : d) all += v[0] + v[1] + v[2] + v[3];
  if (all == 1.2345f) *sink = all;
}

#else

constexpr int64_t kMultipliedByWarp = 16 * 8 * 16;

__global__ void __launch_bounds__(kOpThreads, 1) multiply_kernel(float* sink) {
  uint32_t a[4];
  float d[kProductsOfRound][4] = {};
  for (int i = 0; i < 4; ++i) a[i] = any_halves(threadIdx.x * 4 + i);
  const uint32_t b0 = any_halves(threadIdx.x + 7), b1 = any_halves(threadIdx.x + 11);
  for (int round = 0; round < kRounds; ++round) {
#pragma unroll
    for (int i = 0; i < kProductsOfRound; ++i) mma_16x8x16(d[i], a, b0, b1);
  }
  float all = 0.0f;
  for (const auto& v : d) all += v[0] + v[1] + v[2] + v[3];
  if (all == 1.2345f) *sink = all;
}

#endif

// Returns the multiplications of the kernel that runs here; host code cannot know which one was compiled for
// the card.
__global__ void count_kernel(int64_t* multiplied) {
  *multiplied = kMultipliedByWarp * (kOpThreads / 32) * kRounds * kProductsOfRound;
}

// A stream, two events and a little memory for one measurement.
class Meter {
 public:
  explicit Meter(Device& device) : device_(device) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (cudaEvent_t& event : events_) check(cudaEventCreate(&event));
    check(cudaMalloc(&sink_, 256));
  }
  ~Meter() {
    static_cast<void>(cudaFree(sink_));
    for (cudaEvent_t event : events_)
      if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
    if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
  }
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  void check(cudaError_t error) {
    if (status_ == Status::ok) status_ = device_.check(error, "measuring the device");
  }
  Status status() const { return status_; }
  cudaStream_t stream() const { return stream_; }
  template <typename T>
  T* sink() const {
    return static_cast<T*>(sink_);
  }

  // Returns the best time of many short runs, because concurrent work disturbs only some of them.
  template <typename Run>
  double best_seconds(const Run& run) {
    constexpr auto kMeasuringTime = std::chrono::milliseconds(100);
    constexpr int kMinRuns = 5;
    float best = INFINITY;
    const auto end = std::chrono::steady_clock::now() + kMeasuringTime;
    for (int i = 0; i < kMinRuns || std::chrono::steady_clock::now() < end; ++i) {
      check(cudaEventRecord(events_[0], stream_));
      run();
      check(cudaGetLastError());
      check(cudaEventRecord(events_[1], stream_));
      check(cudaEventSynchronize(events_[1]));
      float milliseconds = 0.0f;
      check(cudaEventElapsedTime(&milliseconds, events_[0], events_[1]));
      if (status_ != Status::ok) return 1.0;
      best = std::min(best, milliseconds);
    }
    return static_cast<double>(best) * 1e-3;
  }

 private:
  Device& device_;
  Status status_ = Status::ok;
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, 2> events_{};
  void* sink_ = nullptr;
};

}  // namespace

Status measure_read_rate(Device* device, uint64_t working_set_bytes, double* bytes_per_second) {
  if (const Status s = device->enter(); s != Status::ok) return s;
  Meter meter(*device);
  if (meter.status() != Status::ok) return meter.status();
  constexpr size_t kStep = sizeof(uint4) * kReadsAhead * kReadThreads;
  const size_t bytes = std::clamp<uint64_t>(working_set_bytes, kMinBytes, kMaxBytes) / kStep * kStep;
  void* data = nullptr;
  if (const Status s = device->allocate(bytes, &data, "measuring reads"); s != Status::ok) return s;
  meter.check(cudaMemsetAsync(data, 0x5a, bytes, meter.stream()));
  const auto passes = static_cast<int>(std::max<size_t>(1, kBytesOfRun / bytes));
  const auto blocks = static_cast<unsigned>(device->num_multiprocessors * 4);
  const double seconds = meter.best_seconds([&] {
    read_kernel<<<blocks, kReadThreads, 0, meter.stream()>>>(
        static_cast<const uint4*>(data), bytes / sizeof(uint4), passes, meter.sink<uint32_t>());
  });
  device->release(data);
  *bytes_per_second = static_cast<double>(bytes) * passes / seconds;
  return meter.status();
}

Status measure_op_rate(Device* device, double* ops_per_second) {
  if (const Status s = device->enter(); s != Status::ok) return s;
  Meter meter(*device);
  int64_t multiplied = 0;
  if (meter.status() == Status::ok) {
    count_kernel<<<1, 1, 0, meter.stream()>>>(meter.sink<int64_t>());
    meter.check(cudaMemcpyAsync(&multiplied, meter.sink<int64_t>(), sizeof(multiplied),
                                cudaMemcpyDeviceToHost, meter.stream()));
  }
  if (meter.status() != Status::ok) return meter.status();
  const auto blocks = static_cast<unsigned>(device->num_multiprocessors);
  const double seconds = meter.best_seconds(
      [&] { multiply_kernel<<<blocks, kOpThreads, 0, meter.stream()>>>(meter.sink<float>()); });
  *ops_per_second = 2.0 * static_cast<double>(multiplied) * blocks / seconds;
  return meter.status();
}

}  // namespace quire::kernels
