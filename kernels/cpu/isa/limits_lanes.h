// Loops that measure the peak rates of the machine, for ratios in benchmarks.
#pragma once

namespace quire::kernels {
namespace {

// Reads `bytes` (a multiple of 256) once, with the prefetch of the products; returns a value that depends on
// all of them.
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

// Runs the inner loop of a quantized product with its weights already unpacked: `rounds` blocks of codes i +
// 1 in panel i and the rows x of a tile, as quantize_row makes them. Returns the number of multiplications
// and additions done, counting one of each per code and activation.
int64_t dot_rounds(const int8_t* x, int64_t rounds, int32_t* result) {
  constexpr int32_t kRows = kQuantRows<2>;
  // Panels differ, so that the compiler does not merge them.
  uint32_t words[kQuantPanels][kPanelColumns];
  const uint32_t* codes[kQuantPanels];
  for (int i = 0; i < kQuantPanels; ++i) {
    for (uint32_t& word : words[i]) word = 0x01010101U * static_cast<uint32_t>(i + 1);
    codes[i] = words[i];
  }
  I32 seen = splat_int(0);
  for (int64_t round = 0; round < rounds; ++round) {
    Dots<kRows, kQuantPanels, 2> dots;
    dots.clear();
    dots.add_block<0>(
        codes, x, [](I32 same) __attribute__((always_inline)) { return same; });
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kQuantPanels; ++i) seen = bit_or(seen, dots.sum(r, i));
    }
    // Without it the compiler would compute only one round, because all are equal.
    __asm__ volatile("" ::: "memory");
  }
  *result = sum_lanes(seen);
  return rounds * 2 * kBlockRows * kRows * kQuantPanels * kPanelColumns;
}

}  // namespace
}  // namespace quire::kernels
