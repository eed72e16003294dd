#include "core/sampling/token_counts.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace quire {
namespace {

std::map<TokenId, int32_t> as_map(const TokenCounts& counts) {
  std::map<TokenId, int32_t> map;
  for (const TokenCounts::Entry& entry : counts.entries()) {
    EXPECT_TRUE(map.emplace(entry.token, entry.count).second) << "token " << entry.token << " is there twice";
  }
  return map;
}

// Uses ids that are far apart but share low bits, and consecutive ids, which are neighbours in the table:
// both cause probing.
TEST(TokenCounts, IsAMultisetHoweverTokensCollide) {
  std::mt19937 random(11);
  for (int32_t round = 0; round < 300; ++round) {
    TokenCounts counts;
    if (round % 2 == 0) counts.reserve(static_cast<size_t>(random() % 40));
    const auto stride = static_cast<TokenId>(1U << random() % 20);
    std::map<TokenId, int32_t> expected;
    for (int32_t step = 0; step < 300; ++step) {
      const auto token = static_cast<TokenId>(random() % 30) * stride;
      const auto entry = expected.find(token);
      ASSERT_EQ(counts.contains(token), entry != expected.end()) << "round " << round << " step " << step;
      if (entry != expected.end() && random() % 2 == 0) {
        counts.remove(token);
        if (--entry->second == 0) expected.erase(entry);
      } else {
        counts.add(token);
        ++expected[token];
      }
    }
    ASSERT_EQ(as_map(counts), expected) << "round " << round;
  }
}

}  // namespace
}  // namespace quire
