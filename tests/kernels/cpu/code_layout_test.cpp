#include "kernels/cpu/code_layout.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/cpu/cpu_device.h"

namespace quire::testing {
namespace {

using Block = std::array<uint8_t, 32 * 16>;

// Each bit of a block belongs to exactly one bit of one code.
TEST(CodeLayout, EveryBitOfABlockIsUsedOnce) {
  for (const int32_t bits : {2, 3, 4, 5, 6, 8}) {
    std::vector<uint32_t> seen(16 * static_cast<size_t>(bits));
    for (size_t row = 0; row < 32; ++row) {
      for (int32_t bit = 0; bit < bits; ++bit) {
        Block codes{};
        for (size_t column = 0; column < 16; ++column)
          codes[row * 16 + column] = static_cast<uint8_t>(1 << bit);
        std::vector<uint32_t> words(seen.size());
        kernels::pack_block(bits, codes.data(), words.data());
        for (size_t i = 0; i < words.size(); ++i) {
          EXPECT_EQ(words[i] & seen[i], 0U) << bits << " bits, row " << row;
          seen[i] |= words[i];
        }
      }
    }
    EXPECT_EQ(seen, std::vector<uint32_t>(seen.size(), 0xffffffffU)) << bits << " bits";
  }
}

// The four rows of a quad lie in the four bytes of a word, at the same bits.
TEST(CodeLayout, RowsOfAQuadLieInTheBytesOfAWord) {
  for (const int32_t bits : {2, 3, 4, 5, 6, 8}) {
    for (size_t quad = 0; quad < 8; ++quad) {
      std::vector<uint32_t> first(16 * static_cast<size_t>(bits));
      for (size_t byte = 0; byte < 4; ++byte) {
        Block codes{};
        for (size_t column = 0; column < 16; ++column) {
          codes[(4 * quad + byte) * 16 + column] = static_cast<uint8_t>((1 << bits) - 1);
        }
        std::vector<uint32_t> words(first.size());
        kernels::pack_block(bits, codes.data(), words.data());
        for (uint32_t& word : words) {
          EXPECT_EQ(word & ~(0xffU << (8 * byte)), 0U) << bits << " bits, quad " << quad;
          word >>= 8 * byte;
        }
        if (byte == 0) first = words;
        EXPECT_EQ(words, first) << bits << " bits, quad " << quad << ", byte " << byte;
      }
    }
  }
}

TEST(CodeLayout, UnpackingReversesPacking) {
  Random random(fresh_seed());
  for (const int32_t bits : {2, 3, 4, 5, 6, 8}) {
    Block codes{};
    for (uint8_t& code : codes) code = static_cast<uint8_t>(random.below(1U << bits));
    std::vector<uint32_t> words(16 * static_cast<size_t>(bits));
    kernels::pack_block(bits, codes.data(), words.data());
    Block back{};
    kernels::unpack_block(bits, words.data(), back.data());
    EXPECT_EQ(back, codes) << bits << " bits";
  }
}

}  // namespace
}  // namespace quire::testing
