// The warpgroup products of kernels/cuda/device/warpgroup.cuh in C++, executed when they are issued or when
// they are waited for.
#pragma once

#include <cuda_fp8.h>

#include "kernels/cuda/device/ptx.cuh"
#include "tests/cuda_emulation/emulation.h"

#define QUIRE_WARPGROUP_PRODUCTS (QUIRE_EMULATED_ARCH == 900)

namespace quire::kernels {

inline void finish_products(int left) {
  emulation::own_products().finish(left,
                                   [](const emulation::Product& product) { product.multiply(product); });
}

inline void begin_products() {
  if (QUIRE_WARPGROUP_PRODUCTS) emulation::sync_warpgroup();
}
inline void commit_products() {
  ++emulation::own_products().groups;
}
template <int kPending>
void wait_for_products() {
  finish_products(kPending);
}
inline void settle(float&) {}
template <int kRegisters>
void acquire_registers() {}
template <int kRegisters>
void release_registers() {}

inline void issue_product(emulation::Product product) {
  emulation::Products& products = emulation::own_products();
  product.group = products.groups;
  products.asked.push_back(product);
  if (!emulation::executes_early(products.number++)) return;
  ++products.groups;
  finish_products(0);
  --products.groups;
}

// An operand in shared memory, as a descriptor defines it: eight of its rows (columns of b) by 16 bytes of K
// are contiguous, or rows of 128 bytes with 16-byte pieces swizzled by the row.
struct EmulatedOperand {
  uint32_t start;
  uint32_t leading;
  uint32_t stride;
  bool is_swizzled;

  explicit EmulatedOperand(uint64_t descriptor)
      : start(static_cast<uint32_t>(descriptor & 0x3fff) << 4),
        leading(static_cast<uint32_t>(descriptor >> 16 & 0x3fff) << 4),
        stride(static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4),
        is_swizzled(descriptor >> 62 == 1) {}
  // Returns the address of byte `k` of row `row`.
  uint32_t place(uint32_t row, uint32_t k) const {
    if (!is_swizzled) return start + row / 8 * stride + row % 8 * 16 + k / 16 * leading + k % 16;
    return swizzled(start + row / 8 * stride + row % 8 * 128 + k);
  }
  // Returns the address if 64 rows by one of K are contiguous.
  uint32_t transposed_place(uint32_t row, uint32_t k) const {
    return swizzled(start + row / 64 * leading + row % 64 * 2 + k / 8 * stride + k % 8 * 128);
  }

 private:
  static uint32_t swizzled(uint32_t place) { return place ^ (place >> 7 & 7) << 4; }
};

inline float half_at(uint32_t place) {
  return __half2float(__ushort_as_half(shared_place<uint16_t>(place)));
}

// Multiplies with a in the registers of the warp.
template <int kTiles, bool kTransposed>
void multiply_registers(const emulation::Product& p) {
  const emulation::LaneWords* all =
      emulation::sync_warp({{pair_of(p.a[0], p.a[1]), pair_of(p.a[2], p.a[3]), 0}});
  const EmulatedOperand b(p.of_b);
  multiply_lanes<kTiles, 16>(
      p.sums, p.add, [&](uint32_t row, uint32_t k) { return half_of_row(all, row, k); },
      [&](uint32_t column, uint32_t k) {
        return half_at(kTransposed ? b.transposed_place(column, k) : b.place(column, 2 * k));
      });
}
inline void issue_register_product(void (*multiply)(const emulation::Product&), float* sums,
                                   const uint32_t (&a)[4], uint64_t b, bool add) {
  issue_product({multiply, sums, {a[0], a[1], a[2], a[3]}, 0, b, add, 0});
}
inline void multiply_64x16x16(float (&d)[2][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  issue_register_product(multiply_registers<2, false>, d[0], a, b, add);
}
inline void multiply_64x32x16(float (&d)[4][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  issue_register_product(multiply_registers<4, false>, d[0], a, b, add);
}
template <bool kTransposed>
void multiply_64x64x16(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  issue_register_product(multiply_registers<8, kTransposed>, d[0], a, b, add);
}
template <bool kTransposed>
void multiply_64x128x16(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  issue_register_product(multiply_registers<16, kTransposed>, d[0], a, b, add);
}

// Returns the first of the warp's 16 rows among the 64 of a, which is in shared memory.
inline uint32_t first_row_of_warp() {
  return (threadIdx.x >> 5 & 3) * 16;
}
template <int kTiles>
void multiply_shared(const emulation::Product& p) {
  const EmulatedOperand a(p.of_a), b(p.of_b);
  const uint32_t first = first_row_of_warp();
  multiply_lanes<kTiles, 16>(
      p.sums, p.add, [&](uint32_t row, uint32_t k) { return half_at(a.place(first + row, 2 * k)); },
      [&](uint32_t column, uint32_t k) { return half_at(b.place(column, 2 * k)); });
}
inline void multiply_64x128x16(float (&d)[16][4], uint64_t a, uint64_t b, bool add) {
  issue_product({multiply_shared<16>, d[0], {}, a, b, add, 0});
}

inline float float8_at(uint32_t place) {
  const __half_raw half =
      __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(shared_place<uint8_t>(place)), __NV_E4M3);
  return __half2float(__half(half));
}
template <int kOctets>
void multiply_codes(const emulation::Product& p) {
  const EmulatedOperand a(p.of_a), b(p.of_b);
  const uint32_t first = first_row_of_warp();
  multiply_lanes<kOctets, 32>(
      p.sums, p.add, [&](uint32_t row, uint32_t k) { return float8_at(a.place(first + row, k)); },
      [&](uint32_t column, uint32_t k) { return float8_at(b.place(column, k)); });
}
template <bool kAdd, int kOctets>
void multiply_float8(float (&d)[kOctets][4], uint64_t a, uint64_t b) {
  issue_product({multiply_codes<kOctets>, d[0], {}, a, b, kAdd, 0});
}

}  // namespace quire::kernels
