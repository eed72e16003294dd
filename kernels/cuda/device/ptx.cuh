// Thin wrappers for PTX instructions that CUDA C++ does not provide, among them asynchronous copies to shared
// memory (cp.async, cp.async.bulk). What compute capability 7.5 lacks is in ptx_75.cuh.
#pragma once

#include <cstdint>
#include <cuda_fp16.h>

namespace quire::kernels {

__device__ __forceinline__ void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel of the stream start its prologue (programmatic dependent launch). That kernel still
// waits for the end of this one before it accesses any data that this one writes or reads.
__device__ __forceinline__ void release_successor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Returns the thread's lane in a form that the compiler cannot recompute. It would otherwise read the thread
// index again each time, which takes as long as a load.
__device__ __forceinline__ int lane_index() {
  const int lane = static_cast<int>(threadIdx.x & 31);
  return __shfl_sync(0xffffffffU, lane, lane);
}

// Adds to a counter and returns its old value. Threads that read the new value can also read everything that
// the warp wrote before __syncwarp.
__device__ __forceinline__ uint32_t add_acquire_release(uint32_t* place, uint32_t value) {
  uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(place), "r"(value)
               : "memory");
  return before;
}

// Reads a counter changed by add_acquire_release; everything written before that change can be read after
// this.
__device__ __forceinline__ uint32_t load_acquire(const uint32_t* place) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(place) : "memory");
  return value;
}

// Waits for `threads` threads, whole warps of the block, at barrier `id` (0 is the barrier of __syncthreads).
__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Loads without being moved by the compiler, so that the load does not wait for later loads.
__device__ __forceinline__ int32_t load_at_once(const int32_t* from) {
  int32_t v;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
  return v;
}

// mbarriers in shared memory, 8 bytes each. Waiting threads need not arrive at them.
__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}\n" ::"r"(barrier) : "memory");
}

// Arrives when all earlier asynchronous copies of this thread are done.
__device__ __forceinline__ void barrier_arrive_after_copies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// Makes initialised barriers visible to the copy engine. Called by the thread that initialised them.
__device__ __forceinline__ void fence_barrier_init() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// Makes shared memory that this thread has written, or for which it has waited, visible to the tensor cores.
__device__ __forceinline__ void fence_async_proxy() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#if __CUDA_ARCH__ >= 900
// Bulk copy (TMA): arrives at the barrier, which then waits for `bytes`, a multiple of 16, from the copy
// engine.
__device__ __forceinline__ void copy_bulk(uint32_t target, const void* source, uint32_t bytes,
                                          uint32_t barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}
#endif

#if __CUDA_ARCH__ >= 900
// Arrives at the barrier, which then waits for `bytes` from the copy engine.
__device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Bulk copy of `bytes` that the barrier already expects.
__device__ __forceinline__ void copy_bulk_expected(uint32_t target, const void* source, uint32_t bytes,
                                                   uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

// Bulk copy to a pair of blocks (a cluster of two): copies `bytes` to the same address in both, whose
// barriers must expect them.
__device__ __forceinline__ void copy_bulk_to_pair(uint32_t target, const void* source, uint32_t bytes,
                                                  uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, "
      "[%3], %4;" ::"r"(target),
      "l"(source), "r"(bytes), "r"(barrier), "h"(static_cast<uint16_t>(3))
      : "memory");
}

// Returns the address, in block `rank` of the pair, that corresponds to an address in this block's shared
// memory.
__device__ __forceinline__ uint32_t address_in_block(uint32_t address, uint32_t rank) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// Arrives at a barrier of either block of a pair. The scope is the block, which suffices after reads only:
// with cluster scope each arrival would be a fence for the whole card.
__device__ __forceinline__ void arrive_in_pair(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
#endif

// Synchronizes all threads of all blocks of the cluster.
__device__ __forceinline__ void sync_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;\n" ::
          : "memory");
#endif
}

// Stores a word in the shared memory of another block of the cluster, whose barrier expects its bytes.
// Address and barrier come from address_in_block.
__device__ __forceinline__ void store_in_block(uint32_t address, uint32_t word, uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(address),
               "r"(word), "r"(barrier)
               : "memory");
#endif
}

// Prefetches the cache line at `place` into L2.
__device__ __forceinline__ void prefetch_line(const void* place) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(place));
}

// Waits until the phase of this parity is complete.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
#define QUIRE_BARRIER_WAIT "mbarrier.try_wait.parity.shared::cta.b64"
#else
#define QUIRE_BARRIER_WAIT "mbarrier.test_wait.parity.shared.b64"
#endif
  asm volatile("{\n.reg .pred over;\nagain:\n" QUIRE_BARRIER_WAIT
               " over, [%0], %1;\n@!over bra again;\n}\n" ::"r"(barrier),
               "r"(parity)
               : "memory");
#undef QUIRE_BARRIER_WAIT
}

// c += a b with a [16, 8] f16, b [8, 8] f16, c [16, 8] f32.
__device__ __forceinline__ void mma_16x8x8(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a0), "r"(a1), "r"(b));
}

__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// Transposes 8 x 8 f16 that the lanes of a warp hold as a tensor-core operand, two per lane.
__device__ __forceinline__ uint32_t transposed_8x8(uint32_t piece) {
  uint32_t r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(piece));
  return r;
}

__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ uint2 load_shared_8(uint32_t address) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ uint32_t load_shared_4(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ uint32_t load_shared_1(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ void store_shared_4(uint32_t address, uint32_t v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}

__device__ __forceinline__ void store_shared_8(uint32_t address, uint2 v) {
  asm volatile("st.shared.v2.u32 [%0], {%1,%2};" ::"r"(address), "r"(v.x), "r"(v.y) : "memory");
}

__device__ __forceinline__ void store_shared_16(uint32_t address, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ __forceinline__ uint32_t load_shared_2(uint32_t address) {
  uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
  return v;
}

// Loads without being moved by the compiler, so that the load is on its way before the data is needed.
__device__ __forceinline__ uint4 load_at_once_16(const uint8_t* from) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

// Loads data that is read once, so without caching in L1, and that no kernel writes.
__device__ __forceinline__ uint4 load_once_16(const uint8_t* from) {
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from));
  return v;
}
__device__ __forceinline__ uint2 load_once_8(const uint8_t* from) {
  uint2 v;
  asm("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from));
  return v;
}
__device__ __forceinline__ uint32_t load_once_4(const uint8_t* from) {
  uint32_t v;
  asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(from));
  return v;
}

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ uint32_t bits_of(__half2 v) {
  return *reinterpret_cast<uint32_t*>(&v);
}
__device__ __forceinline__ __half2 half2_of(uint32_t v) {
  return *reinterpret_cast<__half2*>(&v);
}

// (a & mask) | c in one instruction.
__device__ __forceinline__ uint32_t and_or(uint32_t a, uint32_t mask, uint32_t c) {
  uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(a), "r"(mask), "r"(c));
  return r;
}

// (a & mask) ^ c in one instruction.
__device__ __forceinline__ uint32_t and_xor(uint32_t a, uint32_t mask, uint32_t c) {
  uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(a), "r"(mask), "r"(c));
  return r;
}

// Returns `start` plus the sum of the four bytes.
__device__ __forceinline__ uint32_t sum_bytes(uint32_t bytes, uint32_t start) {
  return __dp4a(bytes, 0x01010101U, start);
}

// Returns the lower 32 bits of high:low shifted right by up to 31 bits.
__device__ __forceinline__ uint32_t funnel_right(uint32_t low, uint32_t high, int shift) {
  return __funnelshift_r(low, high, shift);
}

// Returns four of the eight bytes of `low` and `high`, numbered from 0 to 7 by the four low nibbles of
// `selector`, whose bits 3 are 0.
__device__ __forceinline__ uint32_t permute_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(low), "r"(high), "r"(selector));
  return r;
}

// (c0, c1) += a b with a [8, 16] and b [16, 8] in signed bytes.
__device__ __forceinline__ void mma_8x8x16_s8(int32_t& c0, int32_t& c1, uint32_t a, uint32_t b) {
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+r"(c0), "+r"(c1)
      : "r"(a), "r"(b));
}

// c += a b with a [16, 16] bf16, b [16, 8] bf16, c [16, 8] f32. Not before compute capability 8.0, like
// all up to bf16_pair.
__device__ __forceinline__ void mma_16x8x16_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                 uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// d = a b with a [16, 16] f16, b [16, 8] f16, d [16, 8] f16.
__device__ __forceinline__ void mma_16x8x16_half(uint32_t (&d)[2], const uint32_t (&a)[4], uint32_t b0,
                                                 uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%8};"
      : "=r"(d[0]), "=r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(0));
}

// Rounds two numbers to bf16; `low` comes first in memory.
__device__ __forceinline__ uint32_t bf16_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

}  // namespace quire::kernels

// Instructions of compute capability 8.0 and later. ptx_75.cuh has the same functions for 7.5.
#if __CUDA_ARCH__ >= 800

namespace quire::kernels {

// Return the largest and the least value of the lanes of a warp.
__device__ __forceinline__ uint32_t reduce_max(uint32_t value) {
  return __reduce_max_sync(0xffffffffU, value);
}
__device__ __forceinline__ uint32_t reduce_min(uint32_t value) {
  return __reduce_min_sync(0xffffffffU, value);
}

// Returns a value that is the same in all lanes, in a uniform register: branches on it keep the warp
// together, and addresses computed from it cost no per-lane instructions.
__device__ __forceinline__ uint32_t uniform(uint32_t value) {
  return __reduce_or_sync(0xffffffffU, value);
}

// Copies 16 bytes from global to shared memory (cp.async), bypassing L1. If `bytes` is below 16, the rest is
// filled with zeros.
__device__ __forceinline__ void copy_async_16(uint32_t target, const void* source, int bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes)
               : "memory");
}

// Like copy_async_16, with one distance added to both addresses as an immediate operand.
template <int kDistance>
__device__ __forceinline__ void copy_async_16_at(uint32_t target, const uint8_t* source, int bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %2], 16, %3;" ::"r"(target), "l"(source),
               "n"(kDistance), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void copy_async_4(uint32_t target, const void* source, int bytes = 4) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(source), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void copy_async_8(uint32_t target, const void* source, int bytes = 8) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(target), "l"(source), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// c += a b with a [16, 16] f16, b [16, 8] f16, c [16, 8] f32.
__device__ __forceinline__ void mma_16x8x16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// c = a b.
__device__ __forceinline__ void mma_16x8x16_first(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}

// c += a b with a [16, 32] and b [32, 8] in signed bytes, c [16, 8] in 32-bit integers.
__device__ __forceinline__ void mma_16x8x32_s8(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#if __CUDA_ARCH__ >= 890
// c += a b with a [16, 32] and b [32, 8] in E4M3, c [16, 8] f32.
__device__ __forceinline__ void mma_16x8x32_e4m3(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                 uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

}  // namespace quire::kernels

#else
#include "kernels/cuda/device/ptx_75.cuh"
#endif
