#include "kernels/cpu/code_layout.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/cpu/cpu_device.h"

namespace quire::testing {
namespace {

using Block = std::array<uint8_t, 32 * 16>;

std::vector<uint32_t> column_of(const std::vector<uint32_t>& words, size_t column) {
  std::vector<uint32_t> out;
  for (size_t w = 0; w < words.size() / 16; ++w) out.push_back(words[w * 16 + column]);
  return out;
}

// Codes (7 i + 3) mod 2^bits in one column, and the words that ExLlamaV2 makes of them in GPU memory.
struct Vector {
  int32_t bits;
  std::vector<uint32_t> words;
};

TEST(CodeLayout, IsThatOfTheGpuLayoutFor2To6Bits) {
  const Vector vectors[] = {
      {2, {0x22227777, 0x22227777}},
      {3, {0x2982bbcb, 0x05301779, 0xe0a6f2ef}},
      {4, {0x468adf13, 0xce02579b, 0x468adf13, 0xce02579b}},
      {5, {0x1b0afe23, 0x4054276d, 0xe99eccb7, 0x92c875e1, 0xb8129f2b}},
      {6, {0xe60a7443, 0xcd265b5f, 0x9402927b, 0xe23a7073, 0xc916574f, 0x40324e6b}},
  };
  for (const Vector& vector : vectors) {
    for (const size_t column : {size_t{0}, size_t{11}}) {
      Block codes{};
      for (size_t i = 0; i < 32; ++i) {
        codes[i * 16 + column] = static_cast<uint8_t>((7 * i + 3) % (1U << vector.bits));
      }
      std::vector<uint32_t> words(16 * static_cast<size_t>(vector.bits));
      kernels::pack_block(vector.bits, codes.data(), words.data());
      EXPECT_EQ(column_of(words, column), vector.words) << vector.bits << " bits";
    }
  }
}

TEST(CodeLayout, GivesBackWhatWasPacked) {
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
