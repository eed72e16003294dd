#include "core/sampling/random.h"

#include <set>

#include <gtest/gtest.h>

namespace quire {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
TEST(Random, MatchesThePublishedVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, UsesEveryBitOfSeedPositionAndPurpose) {
  std::set<uint64_t> values{random_bits(0, 0)};
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_TRUE(values.insert(random_bits(uint64_t{1} << bit, 0)).second) << "seed bit " << bit;
    EXPECT_TRUE(values.insert(random_bits(0, uint64_t{1} << bit)).second) << "position bit " << bit;
  }
  EXPECT_TRUE(values.insert(random_bits(0, 0, RandomPurpose::accept)).second);
}

TEST(Random, NeverChanges) {
  EXPECT_EQ(random_bits(0, 0), 0xe169c58d6627e8d5U);
  EXPECT_EQ(random_bits(1234567890123456789U, 42), random_bits(1234567890123456789U, 42));
}

}  // namespace
}  // namespace quire
