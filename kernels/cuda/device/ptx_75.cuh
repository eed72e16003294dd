// Functions of ptx.cuh for compute capability 7.5, which lacks their instructions: composed of loads, stores,
// shuffles and smaller products. Included by ptx.cuh, and by that of the CUDA emulation.
#pragma once

namespace quire::kernels {

// Combines the values of all lanes of a warp.
template <typename Join>
__device__ __forceinline__ uint32_t reduce_by_shuffles(uint32_t value, Join join) {
#pragma unroll
  for (int distance = 16; distance > 0; distance >>= 1)
    value = join(value, __shfl_xor_sync(0xffffffffU, value, distance));
  return value;
}
__device__ __forceinline__ uint32_t reduce_max(uint32_t value) {
  return reduce_by_shuffles(value, [](uint32_t a, uint32_t b) { return a > b ? a : b; });
}
__device__ __forceinline__ uint32_t reduce_min(uint32_t value) {
  return reduce_by_shuffles(value, [](uint32_t a, uint32_t b) { return a < b ? a : b; });
}
__device__ __forceinline__ uint32_t uniform(uint32_t value) {
  return __shfl_sync(0xffffffffU, value, 0);
}

// Copies are complete when they return. Threads that wait for them and then synchronize can therefore read
// them, as after asynchronous copies. A copy of fewer bytes reads whole words, because `bytes` is a multiple
// of 4 there.
__device__ __forceinline__ uint32_t word_before(const void* source, int i, int bytes) {
  return 4 * i < bytes ? static_cast<const uint32_t*>(source)[i] : 0;
}
__device__ __forceinline__ void copy_async_4(uint32_t target, const void* source, int bytes = 4) {
  store_shared_4(target, word_before(source, 0, bytes));
}
__device__ __forceinline__ void copy_async_8(uint32_t target, const void* source, int bytes = 8) {
  store_shared_8(target, make_uint2(word_before(source, 0, bytes), word_before(source, 1, bytes)));
}
__device__ __forceinline__ void copy_async_16(uint32_t target, const void* source, int bytes = 16) {
  uint4 v = make_uint4(0, 0, 0, 0);
  if (bytes == 16) {
    v = load_at_once_16(static_cast<const uint8_t*>(source));
  } else if (bytes > 0) {
    v = make_uint4(word_before(source, 0, bytes), word_before(source, 1, bytes),
                   word_before(source, 2, bytes), 0);
  }
  store_shared_16(target, v);
}
template <int kDistance>
__device__ __forceinline__ void copy_async_16_at(uint32_t target, const uint8_t* source, int bytes = 16) {
  copy_async_16(target + kDistance, source + kDistance, bytes);
}
__device__ __forceinline__ void commit_copies() {}
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {}

__device__ __forceinline__ void mma_16x8x16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  mma_16x8x8(c, a[0], a[1], b0);
  mma_16x8x8(c, a[2], a[3], b1);
}
__device__ __forceinline__ void mma_16x8x16_first(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
#pragma unroll
  for (float& sum : c) sum = 0.0f;
  mma_16x8x16(c, a, b0, b1);
}

__device__ __forceinline__ void mma_16x8x32_s8(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1) {
  mma_8x8x16_s8(c[0], c[1], a[0], b0);
  mma_8x8x16_s8(c[0], c[1], a[2], b1);
  mma_8x8x16_s8(c[2], c[3], a[1], b0);
  mma_8x8x16_s8(c[2], c[3], a[3], b1);
}

}  // namespace quire::kernels
