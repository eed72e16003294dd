#include "core/sampling/repetition.h"

#include <random>

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace quire {
namespace {

// Writes out each candidate loop and compares it with the newest tokens.
int32_t find_loop_slowly(const TokenIds& tokens, const RepetitionGuard& guard) {
  for (int32_t period = 1; period <= guard.max_period; ++period) {
    const size_t length = static_cast<size_t>(period) * static_cast<size_t>(guard.min_repeats);
    if (length > tokens.size()) continue;
    const TokenIds newest(tokens.end() - static_cast<ptrdiff_t>(length), tokens.end());
    const TokenIds unit(newest.end() - period, newest.end());
    TokenIds written;
    for (int32_t i = 0; i < guard.min_repeats; ++i) written.insert(written.end(), unit.begin(), unit.end());
    if (written == newest) return period;
  }
  return 0;
}

TEST(RepetitionGuard, FindsTheShortestLoop) {
  const RepetitionGuard guard{4, 3};
  EXPECT_EQ(find_loop(TokenIds{9, 1, 2, 1, 2, 1, 2}, guard), 2);
  EXPECT_EQ(find_loop(TokenIds{9, 1, 2, 1, 2, 1}, guard), 0);
  EXPECT_EQ(find_loop(TokenIds{5, 5, 5}, guard), 1);
  EXPECT_EQ(find_loop(TokenIds{}, guard), 0);
  EXPECT_EQ(find_loop(TokenIds{5, 5, 5}, {}), 0);
}

TEST(RepetitionGuard, MatchesExplicitComparison) {
  std::mt19937 random(7);
  for (int idx = 0; idx < 20000; ++idx) {
    TokenIds tokens(random() % 30);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 2);
    const RepetitionGuard guard{1 + static_cast<int32_t>(random() % 6),
                                2 + static_cast<int32_t>(random() % 4)};
    ASSERT_EQ(find_loop(tokens, guard), find_loop_slowly(tokens, guard)) << "case " << idx;
  }
}

TEST(RepetitionGuard, RefusesInvalidValues) {
  EXPECT_NO_THROW(RepetitionGuard{}.validate());
  EXPECT_NO_THROW((RepetitionGuard{64, 8}.validate()));
  for (const RepetitionGuard guard : {RepetitionGuard{64, 0}, RepetitionGuard{0, 8}, RepetitionGuard{2000, 8},
                                      RepetitionGuard{-1, 2}, RepetitionGuard{8, 1}}) {
    EXPECT_THROW(guard.validate(), Error);
  }
}

}  // namespace
}  // namespace quire
