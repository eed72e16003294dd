// Products of a warpgroup (wgmma): of compute capability 9.0 alone, and only in code compiled for that very
// card (sm_90a).
#pragma once

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define QUIRE_WARPGROUP_PRODUCTS 1
#else
#define QUIRE_WARPGROUP_PRODUCTS 0
#endif

namespace quire::kernels {

// By all warps of a warpgroup at the same time: before products, whose registers are theirs until they have
// been waited for; behind them, so that they can be; until no more than kPending such groups are on their
// way.
__device__ __forceinline__ void begin_products() {
#if QUIRE_WARPGROUP_PRODUCTS
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void commit_products() {
#if QUIRE_WARPGROUP_PRODUCTS
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int kPending>
__device__ __forceinline__ void wait_for_products() {
#if QUIRE_WARPGROUP_PRODUCTS
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace quire::kernels
