#include "kernels/cuda/plan/attention_shape.h"

#include <gtest/gtest.h>

namespace quire::kernels {
namespace {

constexpr uint32_t kT4 = 64U << 10, kRtx4090 = 99U << 10, kA100 = 163U << 10, kH100 = 227U << 10;

TEST(AttentionShapeTest, LargeCardsHoldKeysAndValues) {
  for (const uint32_t card : {kA100, kH100})
    for (const int32_t dim : {64, 80, 128, 192, 256}) EXPECT_EQ(held_chunks(card, dim), 2) << dim;
}

// Keys and values of heads of 256 take 128 KiB.
TEST(AttentionShapeTest, CardsOf99KiBHoldOneChunkOfLargeHeads) {
  EXPECT_EQ(held_chunks(kRtx4090, 128), 2);
  EXPECT_EQ(held_chunks(kRtx4090, 129), 1);
  EXPECT_EQ(held_chunks(kRtx4090, 256), 1);
}

TEST(AttentionShapeTest, ACardOf64KiBHoldsOneChunkOfHeadsOf128AndNoneOf256) {
  EXPECT_EQ(held_chunks(kT4, 64), 2);
  EXPECT_EQ(held_chunks(kT4, 65), 1);
  EXPECT_EQ(held_chunks(kT4, 128), 1);
  EXPECT_EQ(held_chunks(kT4, 256), 0);
}

TEST(AttentionShapeTest, ChosenChunksFitTheCard) {
  for (uint32_t card = 16U << 10; card <= kH100; card += 1U << 10) {
    for (const int32_t dim : {8, 64, 100, 128, 200, 256}) {
      const int32_t held = held_chunks(card, dim);
      if (held == 0) continue;
      EXPECT_LE(chunks_bytes(held, kPrefillRows, padded_head_dim(dim)), card) << dim;
      EXPECT_TRUE(held == 2 || padded_head_dim(dim) >= kChunkTokens)
          << "the weights of the decode kernel take the place of the queries";
    }
  }
}

}  // namespace
}  // namespace quire::kernels
