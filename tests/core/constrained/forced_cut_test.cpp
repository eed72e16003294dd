// Forced text, split into tokens as the tokenizer of the embedded model splits it.
#include "core/constrained/forced_cut.h"

#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "core/constrained/constraint.h"
#include "tests/support/file_text.h"

namespace quire {
namespace {

std::shared_ptr<const Tokenizer> embedded_tokenizer() {
  const auto read = [](const char* name) {
    return testing::file_text(std::string(QUIRE_EMBEDDED_MODEL) + "/" + name);
  };
  const std::string json = read("tokenizer.json");
  const std::string config = read("tokenizer_config.json");
  return Tokenizer::load({json, config, {}, {}});
}

TokenIds encode(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.encode(text, {.parse_special = false, .add_special_tokens = false});
}

// Maps the position at which each token begins to the token.
std::map<size_t, TokenId> cut_of(const Tokenizer& tokenizer, const std::string& text) {
  std::map<size_t, TokenId> cut;
  size_t at = 0;
  for (const TokenId token : encode(tokenizer, text)) {
    cut.emplace(at, token);
    at += tokenizer.token_bytes(token).size();
  }
  return cut;
}

TEST(ForcedCut, MatchesTheTokenizerForEveryNextCharacter) {
  const auto tokenizer = embedded_tokenizer();
  const char* const words[] = {"additional", "_", "properties", "Prop", " ",  "name",   "\":",
                               "id",         ".", "4567",       "été",  "日", "vessel", "\n"};
  const std::vector<std::string> characters = {"a", "e", "s", "Z", "4", " ", "\"", ":", "_", "é", "\n"};
  size_t num_cut = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    for (size_t n = 1 + random() % 8; n > 0; --n) text += words[random() % std::size(words)];
    const std::map<size_t, TokenId> cut = cut_of(*tokenizer, text);
    const size_t place = std::next(cut.begin(), static_cast<ptrdiff_t>(random() % cut.size()))->first;
    std::vector<std::string> next;
    std::sample(characters.begin(), characters.end(), std::back_inserter(next), random() % 4, random);
    const TokenIds tokens = split_as_tokenizer(*tokenizer, std::string_view(text).substr(0, place),
                                               std::string_view(text).substr(place), next);
    num_cut += tokens.size();
    next.emplace_back();
    for (const std::string& character : next) {
      const std::map<size_t, TokenId> whole = cut_of(*tokenizer, text + character);
      size_t at = place;
      for (const TokenId token : tokens) {
        ASSERT_TRUE(whole.count(at) != 0 && whole.at(at) == token)
            << "seed " << seed << ": '" << text << "' and '" << character << "' at " << at;
        at += tokenizer->token_bytes(token).size();
      }
    }
  }
  EXPECT_GT(num_cut, 6000U);
}

TEST(ForcedCut, IsEmptyIfNoTokenEndsThereOrACharacterIsIncomplete) {
  const auto tokenizer = embedded_tokenizer();
  ASSERT_EQ(encode(*tokenizer, "there").size(), 1U);
  EXPECT_EQ(split_as_tokenizer(*tokenizer, "th", "ere", {}), TokenIds());
  EXPECT_EQ(split_as_tokenizer(*tokenizer, "", "there", {}), encode(*tokenizer, "there"));
  EXPECT_EQ(split_as_tokenizer(*tokenizer, "", "there\xc3", {"\""}), encode(*tokenizer, "there"));
  EXPECT_EQ(split_as_tokenizer(*tokenizer, "", "\xa9", {}), TokenIds());
}

TEST(ForcedCut, MemberNamesAreSplitAsByTheTokenizer) {
  const auto tokenizer = embedded_tokenizer();
  const auto vocabulary = TokenVocabulary::of(tokenizer);
  const auto constraint = Constraint::compile(ConstraintKind::json_schema, R"({
    "type": "object", "required": ["additional_properties", "synonyms"], "additionalProperties": false,
    "properties": {"additional_properties": {"enum": ["environment", "user"]}, "synonyms": {"type": "null"}}})",
                                              vocabulary);
  const std::string text = R"({"additional_properties": "environment", "synonyms": null})";
  const std::map<size_t, TokenId> cut = cut_of(*tokenizer, text);
  Matcher matcher(constraint);
  size_t num_forced = 0;
  bool longest_is_other = false;
  while (matcher.text().size() < text.size()) {
    ASSERT_TRUE(matcher.accept(cut.at(matcher.text().size()))) << matcher.text();
    TokenIds forced;
    matcher.force(32, forced);
    for (const TokenId token : forced) {
      const size_t at = matcher.text().size();
      ASSERT_EQ(cut.at(at), token) << matcher.text();
      longest_is_other = longest_is_other || vocabulary->longest(text.substr(at)).token != token;
      ASSERT_TRUE(matcher.accept(token));
      ++num_forced;
    }
  }
  EXPECT_GE(num_forced, 8U);
  EXPECT_TRUE(longest_is_other);
}

}  // namespace
}  // namespace quire
