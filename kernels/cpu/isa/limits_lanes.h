// Loops that measure what the machine can do at best, for ratios in benchmarks.
#pragma once

namespace quire::kernels {
namespace {

// Reads `bytes` (a multiple of 256) once, with the prefetch of the products; returns something of them all.
uint32_t read_once(const void* memory, size_t bytes) {
  const auto* words = static_cast<const uint32_t*>(memory);
  I32 seen[4] = {splat_int(0), splat_int(0), splat_int(0), splat_int(0)};
  for (size_t i = 0; i < bytes / 4; i += 64) {
#pragma GCC unroll 4
    for (size_t line = 0; line < 4; ++line) {
      prefetch(reinterpret_cast<const char*>(words + i + 16 * line) + kCodePrefetchBytes);
      seen[line] = bit_or(seen[line], load_int(words + i + 16 * line));
    }
  }
  return static_cast<uint32_t>(max_lanes(bit_or(bit_or(seen[0], seen[1]), bit_or(seen[2], seen[3]))));
}

// The inner loop of a quantized product with its weights already unpacked: `rounds` times 16 pairs of codes
// against kTileRows rows. x: [kTileRows, 32] small numbers. Returns multiplications and additions done.
int64_t dot_rounds(const int16_t* x, int64_t rounds, int32_t* result) {
  I32 sum = splat_int(0);
  I32 pairs[kQuantPanels];
  for (int i = 0; i < kQuantPanels; ++i) pairs[i] = splat_int(0x10001 + i);
  for (int64_t round = 0; round < rounds; ++round) {
    I32 dots[kTileRows][kQuantPanels];
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kQuantPanels; ++i) dots[r][i] = splat_int(0);
    }
#pragma GCC unroll 16
    for (int p = 0; p < 16; ++p) {
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) {
        const I32 x_pair = splat_pair(x + r * kBlockRows + 2 * p);
#pragma GCC unroll 2
        for (int i = 0; i < kQuantPanels; ++i) dots[r][i] = dot_pairs(dots[r][i], pairs[i], x_pair);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kQuantPanels; ++i) sum = bit_or(sum, dots[r][i]);
    }
    keep_in_register(sum);
    // Without it every round would be known to give the same.
    __asm__ volatile("" ::: "memory");
  }
  *result = sum_lanes(sum);
  return rounds * 16 * kTileRows * kQuantPanels * 16 * 4;
}

}  // namespace
}  // namespace quire::kernels
