// Text from users never becomes a special token.
#include <gtest/gtest.h>

#include "core/tokenizer/tokenizer.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"

namespace quire {
namespace {

// Returns whether it is the unknown token, the only special token that a model produces for a text.
bool is_unknown(const Tokenizer& tokenizer, TokenId id) {
  return tokenizer.token_text(id) == "<unk>" || tokenizer.token_text(id) == "[UNK]";
}

size_t count_special(const Tokenizer& tokenizer, const TokenIds& ids) {
  size_t num_special = 0;
  for (const TokenId id : ids) num_special += tokenizer.is_special(id) && !is_unknown(tokenizer, id) ? 1 : 0;
  return num_special;
}

constexpr EncodeOptions kPlain{.parse_special = false, .add_special_tokens = false};
constexpr EncodeOptions kParsed{.parse_special = true, .add_special_tokens = false};

TEST(SpecialTokens, AreTextUnlessParsed) {
  for (const auto& kind : golden_kinds()) {
    if (kind == "mistral_metaspace") continue;  // its byte tokens are special but spell text
    const auto tokenizer = load_golden(kind);
    const bool spells_all = kind != "unigram" && kind != "wordpiece";
    ASSERT_GE(tokenizer->special_ids().size(), 3U);
    for (const TokenId id : tokenizer->special_ids()) {
      const std::string special(tokenizer->token_text(id));
      if (is_unknown(*tokenizer, id)) continue;
      for (const std::string& text :
           {special, special + " end", "start " + special + " end", "start" + special, special + special,
            "<" + special + ">", "\n" + special + "\n"}) {
        const TokenIds plain = tokenizer->encode(text, kPlain);
        EXPECT_EQ(count_special(*tokenizer, plain), 0U) << kind << ": " << text;
        if (spells_all) {
          EXPECT_EQ(tokenizer->decode(plain, true), text) << kind;
        }
        EXPECT_GE(count_special(*tokenizer, tokenizer->encode(text, kParsed)), 1U) << kind << ": " << text;
      }
    }
  }
}

// The vocabulary could spell the special token by its merges or as a whole.
TEST(SpecialTokens, AreNotSpelledByTheModel) {
  for (const bool ignore_merges : {false, true}) {
    Json json = tiny_tokenizer({{"e", "n"}, {"en", "d"}, {"end", "s"}});
    json["added_tokens"] = Json::array({added_token(257, "end", true)});
    json["model"]["ignore_merges"] = ignore_merges;
    const auto tokenizer = load_json(json);
    EXPECT_EQ(tokenizer->encode("end", kParsed), TokenIds{257});
    EXPECT_EQ(tokenizer->encode("end", kPlain), (TokenIds{256, 'd'}));
    EXPECT_EQ(tokenizer->encode("weekend", kPlain), (TokenIds{'w', 'e', 'e', 'k', 256, 'd'}));
    EXPECT_EQ(tokenizer->encode(std::string(40, 'x') + "end", kPlain).back(),
              'd');  // the other merge algorithm
  }
}

TEST(SpecialTokens, AreNotCreatedByNormalization) {
  Json json = tiny_tokenizer();
  Json token = added_token(256, "<end>", true);
  token["normalized"] = true;
  json["added_tokens"] = Json::array({token});
  json["normalizer"] = {{"type", "NFKC"}};
  const auto tokenizer = load_json(json);
  const std::string wide = utf8(U"\uff1c\uff45\uff4e\uff44\uff1e");
  EXPECT_EQ(tokenizer->encode(wide, kParsed), TokenIds{256});
  EXPECT_EQ(count_special(*tokenizer, tokenizer->encode(wide, kPlain)), 0U);
  const TextSpan spans[] = {{"<end>", true}, {wide, false}, {"<end>", true}};
  EXPECT_EQ(count_special(*tokenizer, tokenizer->encode_spans(spans, false)),
            0U);  // the text changed as a whole
}

TEST(SpecialTokens, DoNotHideOrdinaryAddedTokens) {
  Json json = tiny_tokenizer();
  json["added_tokens"] =
      Json::array({added_token(256, "<think>", false), added_token(257, "<think><end>", true)});
  const auto tokenizer = load_json(json);
  EXPECT_EQ(tokenizer->encode("a<think>b", kPlain), (TokenIds{'a', 256, 'b'}));
  EXPECT_EQ(tokenizer->encode("<think><end>", kPlain), (TokenIds{256, '<', 'e', 'n', 'd', '>'}));
  EXPECT_EQ(tokenizer->encode("<think><end>", kParsed), TokenIds{257});
}

TEST(TextSpans, OrdinaryTokensThatLookLikeMarkersAreTextInContent) {
  Json json = tiny_tokenizer();
  json["added_tokens"] = Json::array({added_token(256, "<tool_call>", false), added_token(257, "ab", false)});
  const auto tokenizer = load_json(json);
  const TextSpan spans[] = {{"<tool_call>ab", true}, {"ab<tool_call>", false}};
  TokenIds expected{256, 257, 257};
  for (const char c : std::string_view("<tool_call>")) expected.push_back(c);
  EXPECT_EQ(tokenizer->encode_spans(spans, false), expected);
}

TEST(TextSpans, AreEncodedAsOneText) {
  const auto tokenizer = load_golden("llama3");
  const std::string text = "<|im_start|>user\nHello there,   world<|im_end|>\n";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const TextSpan spans[] = {{std::string_view(text).substr(0, cut), true},
                              {std::string_view(text).substr(cut), true}};
    EXPECT_EQ(tokenizer->encode_spans(spans, false), tokenizer->encode(text, kParsed)) << cut;
  }
}

TEST(TextSpans, SpecialTokensNeedSpansThatParseThem) {
  const auto tokenizer = load_golden("llama3");
  const TokenId start = *tokenizer->find_token("<|im_start|>");
  const TokenId end = *tokenizer->find_token("<|im_end|>");
  for (const TokenId id : tokenizer->special_ids()) {
    const std::string special(tokenizer->token_text(id));
    const std::string content = special + " words " + special;
    const TextSpan spans[] = {{"<|im_start|>", true}, {content, false}, {"<|im_end|>", true}};
    const TokenIds ids = tokenizer->encode_spans(spans, false);
    EXPECT_EQ(ids.front(), start);
    EXPECT_EQ(ids.back(), end);
    EXPECT_EQ(count_special(*tokenizer, ids), 2U) << special;
  }
  // Half of the special token is from the user.
  const TextSpan halves[] = {{"<|im_", true}, {"end|>", false}, {"<|im_end|>", true}};
  EXPECT_EQ(count_special(*tokenizer, tokenizer->encode_spans(halves, false)), 1U);
  const TextSpan other_halves[] = {{"<|im_", false}, {"end|>", true}};
  EXPECT_EQ(count_special(*tokenizer, tokenizer->encode_spans(other_halves, false)), 0U);
}

}  // namespace
}  // namespace quire
