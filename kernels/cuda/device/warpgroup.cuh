// Products of a warpgroup (wgmma): compute capability 9.0 only, and only in code compiled for exactly that
// architecture (sm_90a).
#pragma once

#include <cstdint>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define QUIRE_WARPGROUP_PRODUCTS 1
#else
#define QUIRE_WARPGROUP_PRODUCTS 0
#endif

namespace quire::kernels {

// Called by all warps of a warpgroup at the same time. begin_products comes before products, whose registers
// must not be touched until they have been waited for. commit_products closes a group of products.
// wait_for_products waits until at most kPending groups are in flight.
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

// Keeps the compiler from moving uses of a sum to before this point, after the wait for its product.
__device__ __forceinline__ void settle(float& sum) {
#if QUIRE_WARPGROUP_PRODUCTS
  asm volatile("" : "+f"(sum)::"memory");
#endif
}

// Set the registers of each thread of a warpgroup (setmaxnreg); called by all of its warps.
template <int kRegisters>
__device__ __forceinline__ void acquire_registers() {
#if QUIRE_WARPGROUP_PRODUCTS
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ __forceinline__ void release_registers() {
#if QUIRE_WARPGROUP_PRODUCTS
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

#if QUIRE_WARPGROUP_PRODUCTS

// Operands of a thread's sums of 8, 16, 32, 64 and 128 columns, numbered from 0: their names in an
// instruction, and their constraints: "+f", or "=f" if nothing is added to them.
#define QUIRE_NAMES_8 "%0,%1,%2,%3"
#define QUIRE_NAMES_16 QUIRE_NAMES_8 ",%4,%5,%6,%7"
#define QUIRE_NAMES_32 QUIRE_NAMES_16 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define QUIRE_NAMES_64 QUIRE_NAMES_32 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define QUIRE_NAMES_128                                              \
  QUIRE_NAMES_64                                                     \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47" \
  ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define QUIRE_SUMS_AT(how, n) how(d[n][0]), how(d[n][1]), how(d[n][2]), how(d[n][3])
#define QUIRE_TWO_SUMS_AT(how, n) QUIRE_SUMS_AT(how, n), QUIRE_SUMS_AT(how, n + 1)
#define QUIRE_FOUR_SUMS_AT(how, n) QUIRE_TWO_SUMS_AT(how, n), QUIRE_TWO_SUMS_AT(how, n + 2)
#define QUIRE_SUMS_8(how) QUIRE_SUMS_AT(how, 0)
#define QUIRE_SUMS_16(how) QUIRE_TWO_SUMS_AT(how, 0)
#define QUIRE_SUMS_32(how) QUIRE_FOUR_SUMS_AT(how, 0)
#define QUIRE_SUMS_64(how) QUIRE_SUMS_32(how), QUIRE_FOUR_SUMS_AT(how, 4)
#define QUIRE_SUMS_128(how) QUIRE_SUMS_64(how), QUIRE_FOUR_SUMS_AT(how, 8), QUIRE_FOUR_SUMS_AT(how, 12)

// Instruction for `columns` columns. `rest` lists the operands after the sums, `last` follows the scale
// factors of a and b. The operand `add` selects whether d is added to.
#define QUIRE_PRODUCT(columns, kind, rest, add, last)                                                 \
  "{\n.reg .pred add;\nsetp.ne.s32 add, " add ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns kind \
  " {" QUIRE_NAMES_##columns "}, " rest ", add, 1, 1" last ";\n}\n"
#define QUIRE_HALVES "k16.f32.f16.f16"

// d = a b, plus d if `add`: a [64, 16] f16 in registers; b [16, 16] f16 in shared memory, given by its
// descriptor, with the 16 elements of a column contiguous; d [64, 16]. The functions for 32, 64 and 128
// columns are alike.
__device__ __forceinline__ void multiply_64x16x16(float (&d)[2][4], const uint32_t (&a)[4], uint64_t b,
                                                  bool add) {
  asm volatile(QUIRE_PRODUCT(16, QUIRE_HALVES, "{%8,%9,%10,%11}, %12", "%13", ", 0")
               : QUIRE_SUMS_16("+f")
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}

__device__ __forceinline__ void multiply_64x32x16(float (&d)[4][4], const uint32_t (&a)[4], uint64_t b,
                                                  bool add) {
  asm volatile(QUIRE_PRODUCT(32, QUIRE_HALVES, "{%16,%17,%18,%19}, %20", "%21", ", 0")
               : QUIRE_SUMS_32("+f")
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}

// kTransposed: the 16 elements of a row of b are contiguous.
template <bool kTransposed>
__device__ __forceinline__ void multiply_64x64x16(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b,
                                                  bool add) {
  asm volatile(QUIRE_PRODUCT(64, QUIRE_HALVES, "{%32,%33,%34,%35}, %36", "%37", ", %38")
               : QUIRE_SUMS_64("+f")
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)),
                 "n"(kTransposed ? 1 : 0));
}

template <bool kTransposed>
__device__ __forceinline__ void multiply_64x128x16(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b,
                                                   bool add) {
  asm volatile(QUIRE_PRODUCT(128, QUIRE_HALVES, "{%64,%65,%66,%67}, %68", "%69", ", %70")
               : QUIRE_SUMS_128("+f")
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)),
                 "n"(kTransposed ? 1 : 0));
}

// The same with a in shared memory, too, given by its descriptor.
__device__ __forceinline__ void multiply_64x128x16(float (&d)[16][4], uint64_t a, uint64_t b, bool add) {
  asm volatile(QUIRE_PRODUCT(128, QUIRE_HALVES, "%64, %65", "%66", ", 0, 0")
               : QUIRE_SUMS_128("+f")
               : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

// d = a b, plus d if kAdd: a [64, 32] and b [32, 8 kOctets] of E4M3 in shared memory, given by their
// descriptors.
#define QUIRE_FLOAT8_PRODUCT(columns, rest)                                 \
  if constexpr (kAdd) {                                                     \
    asm volatile(QUIRE_PRODUCT(columns, "k32.f32.e4m3.e4m3", rest, "1", "") \
                 : QUIRE_SUMS_##columns("+f")                               \
                 : "l"(a), "l"(b));                                         \
  } else {                                                                  \
    asm volatile(QUIRE_PRODUCT(columns, "k32.f32.e4m3.e4m3", rest, "0", "") \
                 : QUIRE_SUMS_##columns("=f")                               \
                 : "l"(a), "l"(b));                                         \
  }
template <bool kAdd, int kOctets>
__device__ __forceinline__ void multiply_float8(float (&d)[kOctets][4], uint64_t a, uint64_t b) {
  static_assert(kOctets == 1 || kOctets == 2 || kOctets == 4 || kOctets == 8 || kOctets == 16);
  if constexpr (kOctets == 1) {
    QUIRE_FLOAT8_PRODUCT(8, "%4, %5")
  } else if constexpr (kOctets == 2) {
    QUIRE_FLOAT8_PRODUCT(16, "%8, %9")
  } else if constexpr (kOctets == 4) {
    QUIRE_FLOAT8_PRODUCT(32, "%16, %17")
  } else if constexpr (kOctets == 8) {
    QUIRE_FLOAT8_PRODUCT(64, "%32, %33")
  } else {
    QUIRE_FLOAT8_PRODUCT(128, "%64, %65")
  }
}

#endif

}  // namespace quire::kernels
