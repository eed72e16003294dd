// The PTX instructions of kernels/cuda/device/ptx.cuh in C++.
#pragma once

#include "tests/cuda_emulation/emulation.h"

namespace quire::kernels {

inline void wait_for_predecessor() {}
inline void release_successor() {}

inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(static_cast<const uint8_t*>(pointer) - emulation::dynamic_shared());
}
template <typename T>
T& shared_place(uint32_t address) {
  return *reinterpret_cast<T*>(emulation::dynamic_shared() + static_cast<int32_t>(address));
}

inline int lane_index() {
  return static_cast<int>(threadIdx.x & 31);
}
inline uint32_t add_acquire_release(uint32_t* place, uint32_t value) {
  return atomicAdd(place, value);
}
inline uint32_t load_acquire(const uint32_t* place) {
  return *place;
}

inline void named_barrier(int id, int threads) {
  emulation::sync_block(id, threads);
}

inline int32_t load_at_once(const int32_t* from) {
  return *from;
}
// An mbarrier, 8 bytes as on a card. A phase ends when no arrivals and no bytes are missing; bytes may arrive
// before they are expected.
struct EmulatedBarrier {
  int32_t bytes;
  uint16_t missing;
  uint16_t expected : 15;
  uint16_t phase : 1;
};
inline void end_phase_if_complete(EmulatedBarrier& b) {
  if (b.missing != 0 || b.bytes != 0) return;
  b.missing = b.expected;
  b.phase ^= 1;
  emulation::notify_change(&b);
}
inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
  const auto count = static_cast<uint16_t>(arrivals);
  shared_place<EmulatedBarrier>(barrier) = {0, count, count, 0};
}
inline void barrier_arrive(uint32_t barrier) {
  auto& b = shared_place<EmulatedBarrier>(barrier);
  --b.missing;
  end_phase_if_complete(b);
}
inline void fence_barrier_init() {}
inline void fence_async_proxy() {}
inline void barrier_wait(uint32_t barrier, uint32_t parity) {
  const auto& b = shared_place<EmulatedBarrier>(barrier);
  while (b.phase == parity) emulation::wait_for_change(&b);
}

inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
  auto& b = shared_place<EmulatedBarrier>(barrier);
  b.bytes += static_cast<int32_t>(bytes);
  --b.missing;
  end_phase_if_complete(b);
}
inline void copy_bulk_expected(uint32_t target, const void* source, uint32_t bytes, uint32_t barrier) {
  uint8_t* to = &shared_place<uint8_t>(target);
  auto* b = &shared_place<EmulatedBarrier>(barrier);
  emulation::run_later([=] {
    std::memcpy(to, source, bytes);
    b->bytes -= static_cast<int32_t>(bytes);
    end_phase_if_complete(*b);
  });
}
inline void copy_bulk(uint32_t target, const void* source, uint32_t bytes, uint32_t barrier) {
  barrier_expect(barrier, bytes);
  copy_bulk_expected(target, source, bytes, barrier);
}

inline uint32_t address_in_block(uint32_t address, uint32_t rank) {
  const auto blocks = static_cast<int32_t>(rank) - emulation::block_of_cluster();
  return address + static_cast<uint32_t>(blocks * static_cast<int32_t>(emulation::kSharedBytes));
}
inline void store_in_block(uint32_t address, uint32_t word, uint32_t barrier) {
  emulation::run_later(
      [to = &shared_place<uint32_t>(address), word, b = &shared_place<EmulatedBarrier>(barrier)] {
        *to = word;
        b->bytes -= 4;
        end_phase_if_complete(*b);
      });
}
inline void prefetch_line(const void*) {}
inline void copy_bulk_to_pair(uint32_t target, const void* source, uint32_t bytes, uint32_t barrier) {
  for (uint32_t rank = 0; rank < 2; ++rank)
    copy_bulk_expected(address_in_block(target, rank), source, bytes, address_in_block(barrier, rank));
}
inline void arrive_in_pair(uint32_t barrier) {
  barrier_arrive(barrier);
}
inline void sync_cluster() {
  emulation::sync_cluster();
}

inline float half_of(uint64_t word, int which) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(word >> (16 * which))));
}
inline uint64_t pair_of(uint32_t low, uint32_t high) {
  return uint64_t{high} << 32 | low;
}
// Returns an element of operand a [16, 16], held in two words of each lane of a warp.
inline float half_of_row(const emulation::LaneWords* all, uint32_t row, uint32_t k) {
  return half_of(all[row % 8 * 4 + k % 8 / 2].words[k / 8], static_cast<int>(row / 8 * 2 + k % 2));
}
// Computes the sums of a lane, [n][2 * row + column]: rows g and g + 8 of 16 by columns 8 n + 2 t and the
// next.
template <int kTiles, int kDepth, typename OfRow, typename OfColumn>
void multiply_lanes(float* sums, bool add, OfRow of_row, OfColumn of_column) {
  const auto lane = static_cast<uint32_t>(emulation::lane());
  double rows[2][kDepth];
  for (uint32_t h = 0; h < 2; ++h)
    for (uint32_t k = 0; k < kDepth; ++k) rows[h][k] = static_cast<double>(of_row(lane / 4 + 8 * h, k));
  for (uint32_t n = 0; n < kTiles; ++n)
    for (uint32_t c = 0; c < 2; ++c) {
      float* const at = sums + 4 * n + c;
      double sum[2] = {add ? static_cast<double>(at[0]) : 0.0, add ? static_cast<double>(at[2]) : 0.0};
      for (uint32_t k = 0; k < kDepth; ++k) {
        const auto b = static_cast<double>(of_column(8 * n + lane % 4 * 2 + c, k));
        for (uint32_t h = 0; h < 2; ++h) sum[h] += rows[h][k] * b;
      }
      for (uint32_t h = 0; h < 2; ++h) at[2 * h] = static_cast<float>(sum[h]);
    }
}

// c += a b with a [16, 8] f16, b [8, 8] f16, c [16, 8] f32, distributed over the lanes of a warp.
inline void mma_16x8x8(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  const emulation::LaneWords* all = emulation::sync_warp({{pair_of(a0, a1), b, 0}});
  multiply_lanes<1, 8>(
      c, true, [&](uint32_t row, uint32_t k) { return half_of_row(all, row, k); },
      [&](uint32_t column, uint32_t k) {
        return half_of(all[column * 4 + k / 2].words[1], static_cast<int>(k % 2));
      });
}

void mma_16x8x16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

// d = a b with a [16, 16] f16, b [16, 8] f16, d [16, 8] f16.
inline void mma_16x8x16_half(uint32_t (&d)[2], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  float sums[4] = {};
  mma_16x8x16(sums, a, b0, b1);
  const auto bits = [](float v) { return uint32_t{__half_as_ushort(__float2half_rn(v))}; };
  for (int i = 0; i < 2; ++i) d[i] = bits(sums[2 * i]) | bits(sums[2 * i + 1]) << 16;
}

// (c0, c1) += a b with a [8, 16] and b [16, 8] in signed bytes.
inline void mma_8x8x16_s8(int32_t& c0, int32_t& c1, uint32_t a, uint32_t b) {
  const emulation::LaneWords* all = emulation::sync_warp({{a, b, 0}});
  const auto lane = static_cast<uint32_t>(emulation::lane());
  const auto byte_of = [](uint64_t word, uint32_t which) {
    return static_cast<int32_t>(static_cast<int8_t>(word >> (8 * which) & 255U));
  };
  int32_t* const sums[2] = {&c0, &c1};
  for (uint32_t i = 0; i < 2; ++i)
    for (uint32_t k = 0; k < 16; ++k)
      *sums[i] += byte_of(all[lane / 4 * 4 + k / 4].words[0], k % 4) *
                  byte_of(all[(lane % 4 * 2 + i) * 4 + k / 4].words[1], k % 4);
}

// Each lane passes the address of a row of 8 f16; matrix m consists of the rows of lanes 8 m to 8 m + 7.
inline void load_matrices(uint32_t (&r)[4], uint32_t address) {
  const emulation::LaneWords* all = emulation::sync_warp({{address, 0, 0}});
  const int lane = emulation::lane();
  for (int m = 0; m < 4; ++m) {
    const auto row = static_cast<uint32_t>(all[8 * m + lane / 4].words[0]);
    r[m] = shared_place<uint32_t>(row + static_cast<uint32_t>(lane % 4) * 4);
  }
}
inline void load_matrices_transposed(uint32_t (&r)[4], uint32_t address) {
  const emulation::LaneWords* all = emulation::sync_warp({{address, 0, 0}});
  const int lane = emulation::lane();
  for (int m = 0; m < 4; ++m) {
    const auto number = [&](int row) {
      const auto place =
          static_cast<uint32_t>(all[8 * m + row].words[0]) + static_cast<uint32_t>(lane / 4) * 2;
      return uint32_t{shared_place<uint16_t>(place)};
    };
    r[m] = number(lane % 4 * 2) | number(lane % 4 * 2 + 1) << 16;
  }
}
inline uint32_t transposed_8x8(uint32_t piece) {
  const emulation::LaneWords* all = emulation::sync_warp({{piece, 0, 0}});
  const int lane = emulation::lane();
  const auto number = [&](int row) {
    return static_cast<uint32_t>(all[row * 4 + lane / 8].words[0]) >> (16 * (lane / 4 & 1)) & 0xffffU;
  };
  return number(lane % 4 * 2) | number(lane % 4 * 2 + 1) << 16;
}

inline uint4 load_shared_16(uint32_t address) {
  return shared_place<uint4>(address);
}
inline uint2 load_shared_8(uint32_t address) {
  return shared_place<uint2>(address);
}
inline uint32_t load_shared_4(uint32_t address) {
  return shared_place<uint32_t>(address);
}
inline uint32_t load_shared_2(uint32_t address) {
  return shared_place<uint16_t>(address);
}
inline uint32_t load_shared_1(uint32_t address) {
  return shared_place<uint8_t>(address);
}
inline void store_shared_4(uint32_t address, uint32_t v) {
  shared_place<uint32_t>(address) = v;
}
inline void store_shared_8(uint32_t address, uint2 v) {
  shared_place<uint2>(address) = v;
}
inline void store_shared_16(uint32_t address, uint4 v) {
  shared_place<uint4>(address) = v;
}
inline uint4 load_at_once_16(const uint8_t* from) {
  return *reinterpret_cast<const uint4*>(from);
}
inline uint4 load_once_16(const uint8_t* from) {
  return *reinterpret_cast<const uint4*>(from);
}
inline uint2 load_once_8(const uint8_t* from) {
  return *reinterpret_cast<const uint2*>(from);
}
inline uint32_t load_once_4(const uint8_t* from) {
  return *reinterpret_cast<const uint32_t*>(from);
}

inline float exp2_fast(float x) {
  return std::exp2(x);
}

inline uint32_t bits_of(__half2 v) {
  return emulated_cast<uint32_t>(v);
}
inline __half2 half2_of(uint32_t v) {
  return emulated_cast<__half2>(v);
}
inline uint32_t and_or(uint32_t a, uint32_t mask, uint32_t c) {
  return (a & mask) | c;
}
inline uint32_t and_xor(uint32_t a, uint32_t mask, uint32_t c) {
  return (a & mask) ^ c;
}
inline uint32_t sum_bytes(uint32_t bytes, uint32_t start) {
  for (int i = 0; i < 4; ++i) start += bytes >> (8 * i) & 255U;
  return start;
}
inline uint32_t funnel_right(uint32_t low, uint32_t high, int shift) {
  return static_cast<uint32_t>((static_cast<uint64_t>(high) << 32 | low) >> shift);
}
inline uint32_t permute_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = static_cast<uint64_t>(high) << 32 | low;
  uint32_t r = 0;
  for (int i = 0; i < 4; ++i)
    r |= static_cast<uint32_t>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  return r;
}

// c += a b with a [16, 16] bf16, b [16, 8] bf16.
inline float bf16_of(uint64_t word, int which) {
  return __uint_as_float(static_cast<uint32_t>(word >> (16 * which) & 0xffffU) << 16);
}
inline void mma_16x8x16_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const emulation::LaneWords* all =
      emulation::sync_warp({{pair_of(a[0], a[1]), pair_of(a[2], a[3]), pair_of(b0, b1)}});
  multiply_lanes<1, 16>(
      c, true,
      [&](uint32_t row, uint32_t k) {
        return bf16_of(all[row % 8 * 4 + k % 8 / 2].words[k / 8], static_cast<int>(row / 8 * 2 + k % 2));
      },
      [&](uint32_t column, uint32_t k) {
        return bf16_of(all[column * 4 + k % 8 / 2].words[2], static_cast<int>(k / 8 * 2 + k % 2));
      });
}
inline uint32_t bf16_pair(float low, float high) {
  const auto rounded = [](float v) {
    const uint32_t bits = __float_as_uint(v);
    return (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  };
  return rounded(low) | rounded(high) << 16;
}

}  // namespace quire::kernels

#if QUIRE_EMULATED_ARCH >= 800
#include <cuda_fp8.h>

namespace quire::kernels {

inline uint32_t reduce_max(uint32_t value) {
  return __reduce_max_sync(0xffffffffU, value);
}
inline uint32_t reduce_min(uint32_t value) {
  return __reduce_min_sync(0xffffffffU, value);
}
inline uint32_t uniform(uint32_t value) {
  return __reduce_or_sync(0xffffffffU, value);
}

inline void do_copy(const emulation::Copy& copy) {
  std::memset(copy.to, 0, copy.whole);
  if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
}
inline void finish_copies(int left) {
  emulation::own_copies().finish(left, do_copy);
}
inline void copy_async(uint32_t target, const void* source, int whole, int bytes) {
  emulation::Copies& copies = emulation::own_copies();
  const emulation::Copy copy = {&shared_place<uint8_t>(target), source, static_cast<size_t>(whole),
                                static_cast<size_t>(bytes), copies.groups};
  if (emulation::executes_early(copies.number++)) {
    do_copy(copy);
  } else {
    copies.asked.push_back(copy);
  }
}
inline void copy_async_16(uint32_t target, const void* source, int bytes = 16) {
  copy_async(target, source, 16, bytes);
}
inline void copy_async_8(uint32_t target, const void* source, int bytes = 8) {
  copy_async(target, source, 8, bytes);
}
inline void copy_async_4(uint32_t target, const void* source, int bytes = 4) {
  copy_async(target, source, 4, bytes);
}
template <int kDistance>
void copy_async_16_at(uint32_t target, const uint8_t* source, int bytes = 16) {
  copy_async_16(target + kDistance, source + kDistance, bytes);
}
inline void commit_copies() {
  ++emulation::own_copies().groups;
}
template <int kPending>
void wait_for_copies() {
  finish_copies(kPending);
}
inline void barrier_arrive_after_copies(uint32_t barrier) {
  finish_copies(-1);
  barrier_arrive(barrier);
}

// c += a b with a [16, 16] f16, b [16, 8] f16, c [16, 8] f32, distributed over the lanes of a warp.
inline void mma_16x8x16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const emulation::LaneWords* all =
      emulation::sync_warp({{pair_of(a[0], a[1]), pair_of(a[2], a[3]), pair_of(b0, b1)}});
  multiply_lanes<1, 16>(
      c, true, [&](uint32_t row, uint32_t k) { return half_of_row(all, row, k); },
      [&](uint32_t column, uint32_t k) {
        return half_of(all[column * 4 + k % 8 / 2].words[2], static_cast<int>(k / 8 * 2 + k % 2));
      });
}
inline void mma_16x8x16_first(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  for (float& v : c) v = 0.0f;
  mma_16x8x16(c, a, b0, b1);
}

// c += a b with a [16, 32] and b [32, 8] in signed bytes, c [16, 8] in 32-bit integers.
inline void mma_16x8x32_s8(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const emulation::LaneWords* all =
      emulation::sync_warp({{pair_of(a[0], a[1]), pair_of(a[2], a[3]), pair_of(b0, b1)}});
  const auto byte_of = [&](uint32_t owner, uint32_t word, uint32_t half, uint32_t byte) {
    return static_cast<int32_t>(static_cast<int8_t>(all[owner].words[word] >> (32 * half + 8 * byte) & 255U));
  };
  const auto lane = static_cast<uint32_t>(emulation::lane());
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (uint32_t k = 0; k < 32; ++k) {
      const uint32_t quad = k % 16 / 4;
      c[i] +=
          byte_of(row % 8 * 4 + quad, k / 16, row / 8, k % 4) * byte_of(column * 4 + quad, 2, k / 16, k % 4);
    }
  }
}

inline float e4m3_of(uint64_t word, uint32_t which) {
  return __half2float(__half(
      __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(word >> (8 * which) & 0xff), __NV_E4M3)));
}
// c += a b with a [16, 32] and b [32, 8] in E4M3.
inline void mma_16x8x32_e4m3(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const emulation::LaneWords* all =
      emulation::sync_warp({{pair_of(a[0], a[1]), pair_of(a[2], a[3]), pair_of(b0, b1)}});
  multiply_lanes<1, 32>(
      c, true,
      [&](uint32_t row, uint32_t k) {
        return e4m3_of(all[row % 8 * 4 + k % 16 / 4].words[k / 16], row / 8 * 4 + k % 4);
      },
      [&](uint32_t column, uint32_t k) {
        return e4m3_of(all[column * 4 + k % 16 / 4].words[2], k / 16 * 4 + k % 4);
      });
}

}  // namespace quire::kernels

#else
#include "kernels/cuda/device/ptx_75.cuh"
#endif
