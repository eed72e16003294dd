// Both merge algorithms of BPE, compared with a plain implementation of the definition.
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "tests/core/tokenizer/tokenizer_fixture.h"

namespace quire {
namespace {

using Pair = std::pair<std::string, std::string>;

std::vector<std::string> merge_plainly(const std::string& text, const std::vector<Pair>& merges) {
  std::map<Pair, size_t> ranks;
  for (size_t i = 0; i < merges.size(); ++i) ranks[merges[i]] = i;
  std::vector<std::string> parts;
  for (const char c : text) parts.emplace_back(1, c);
  while (true) {
    size_t best = parts.size();
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto it = ranks.find({parts[i], parts[i + 1]});
      if (it == ranks.end()) continue;
      if (best == parts.size() || it->second < ranks[{parts[best], parts[best + 1]}]) best = i;
    }
    if (best == parts.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

// Random merges over a small alphabet, so that they overlap and compete.
std::vector<Pair> random_merges(std::mt19937& random, size_t num_merges) {
  std::vector<std::string> tokens = {"a", "b", "c"};
  std::vector<Pair> merges;
  for (size_t i = 0; i < num_merges; ++i) {
    const std::string& left = tokens[random() % tokens.size()];
    const std::string& right = tokens[random() % tokens.size()];
    merges.emplace_back(left, right);
    tokens.push_back(left + right);
  }
  return merges;
}

std::vector<std::string> encode(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::string> parts;
  for (const TokenId id : tokenizer.encode(text)) parts.emplace_back(tokenizer.token_text(id));
  return parts;
}

TEST(ByteLevelBpe, MergesAsDefined) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const auto merges = random_merges(random, 1 + random() % 20);
    const auto tokenizer = load_json(tiny_tokenizer(merges));
    for (const size_t max_length : {8U, 32U, 33U, 200U}) {  // around the switch between the algorithms
      std::string text;
      for (size_t i = random() % (max_length + 1); i-- > 0;) text += static_cast<char>('a' + random() % 3);
      EXPECT_EQ(encode(*tokenizer, text), merge_plainly(text, merges)) << text;
    }
  }
}

TEST(ByteLevelBpe, LaterMergeOfTheSamePairWins) {
  const auto tokenizer = load_json(tiny_tokenizer({{"a", "b"}, {"b", "c"}, {"a", "b"}}));
  EXPECT_EQ(encode(*tokenizer, "abc"), (std::vector<std::string>{"a", "bc"}));
}

TEST(ByteLevelBpe, IgnoreMergesTakesKnownPiecesWhole) {
  Json json = tiny_tokenizer({{"a", "b"}});
  json["model"]["vocab"]["abc"] = 300;  // no merge produces it
  EXPECT_EQ(encode(*load_json(json), "abc"), (std::vector<std::string>{"ab", "c"}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(encode(*load_json(json), "abc"), (std::vector<std::string>{"abc"}));
  EXPECT_EQ(encode(*load_json(json), "abcabc"), (std::vector<std::string>{"ab", "c", "ab", "c"}));
}

// Expected values from the `tokenizers` library 0.23 with the same files.
TEST(ByteLevelBpe, ByteWithoutTokenIsDroppedOrUnknown) {
  Json json = tiny_tokenizer({{"a", "b"}});
  for (const char* byte : {"x", "y"}) json["model"]["vocab"].erase(byte);
  EXPECT_EQ(encode(*load_json(json), "axbxyz"), (std::vector<std::string>{"ab", "z"}));
  EXPECT_TRUE(load_json(json)->encode("xy").empty());
  json["model"]["unk_token"] = "?";
  EXPECT_EQ(encode(*load_json(json), "axbxyz"), (std::vector<std::string>{"a", "?", "b", "?", "?", "z"}));
  json["model"]["fuse_unk"] = true;
  EXPECT_EQ(encode(*load_json(json), "axbxyz"), (std::vector<std::string>{"a", "?", "b", "?", "z"}));
  const std::string around = std::string(40, 'a') + "x" + std::string(40, 'b');  // uses the long algorithm
  EXPECT_EQ(encode(*load_json(json), around).size(), 81U);
}

}  // namespace
}  // namespace quire
