// Peak bandwidth, to which measurements are compared: reads memory larger than all caches, in one long
// launch.
#include <algorithm>
#include <cstdint>
#include <cuda_runtime.h>
#include <vector>

namespace {

__global__ void read_kernel(const uint4* data, size_t count, uint32_t* sink) {
  uint32_t all = 0;
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i + 7 * stride < count;
       i += 8 * stride) {
    uint4 v[8];
#pragma unroll
    for (int u = 0; u < 8; ++u) v[u] = __ldcs(data + i + u * stride);
#pragma unroll
    for (int u = 0; u < 8; ++u) all ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
  }
  if (all == 0x12345678U) *sink = all;
}

__global__ void fill_kernel(uint32_t* data, size_t count) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    data[i] = static_cast<uint32_t>(i * 2654435761U) ^ static_cast<uint32_t>(i >> 7);
}

}  // namespace

// Returns bytes per second, the median of several reads of 4 GB; 0 if there is no GPU or too little memory.
double measure_read_bandwidth() {
  constexpr size_t kBytes = size_t{4} << 30;
  void* data = nullptr;
  if (cudaMalloc(&data, kBytes + 256) != cudaSuccess) return 0.0;
  fill_kernel<<<1024, 256>>>(static_cast<uint32_t*>(data), kBytes / 4);
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  std::vector<float> times;
  for (int i = 0; i < 12; ++i) {
    cudaEventRecord(start);
    read_kernel<<<132 * 4, 512>>>(static_cast<const uint4*>(data), kBytes / 16,
                                  static_cast<uint32_t*>(data) + kBytes / 4);
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    float ms = 0.0f;
    cudaEventElapsedTime(&ms, start, stop);
    if (i >= 2) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  const bool sound = cudaGetLastError() == cudaSuccess;
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  cudaFree(data);
  return sound ? static_cast<double>(kBytes) / (static_cast<double>(times[times.size() / 2]) * 1e-3) : 0.0;
}
