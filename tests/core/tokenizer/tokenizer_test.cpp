#include "core/tokenizer/tokenizer.h"

#include <thread>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"

namespace quire {
namespace {

template <typename Function>
std::string error_of(ErrorCode code, Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const auto tokenizer = load_json(tiny_tokenizer());
  EXPECT_EQ(error_of(ErrorCode::encoding, [&] { tokenizer->encode("ab\xff"); }),
            "text is not valid UTF-8 at byte 2");
  error_of(ErrorCode::encoding, [&] { tokenizer->encode("\xed\xa0\x80"); });  // a surrogate
  error_of(ErrorCode::encoding, [&] { tokenizer->encode("\xe4\xb8"); });
}

TEST(Tokenizer, TreatsNulAsText) {
  const auto tokenizer = load_json(tiny_tokenizer());
  const std::string text("a\0b", 3);
  EXPECT_EQ(tokenizer->encode(text), (TokenIds{'a', 0, 'b'}));
  EXPECT_EQ(tokenizer->decode(TokenIds{'a', 0, 'b'}, true), text);
}

TEST(Tokenizer, EncodesEmptyText) {
  for (const auto& kind : golden_kinds()) {
    const auto tokenizer = load_golden(kind);
    EXPECT_EQ(tokenizer->encode(""), TokenIds{});
    EXPECT_EQ(tokenizer->decode(TokenIds{}, false), "");
  }
}

TEST(Tokenizer, FindsTokens) {
  Json json = tiny_tokenizer({{"h", "e"}});
  json["added_tokens"] = Json::array({added_token(300, "<end>", true), added_token(301, "a b", false)});
  const auto tokenizer = load_json(json);
  EXPECT_EQ(tokenizer->vocab_size(), 302U);
  EXPECT_EQ(tokenizer->find_token("he"), 256);
  EXPECT_EQ(tokenizer->find_token("<end>"), 300);
  EXPECT_EQ(tokenizer->find_token("xyz"), std::nullopt);
  EXPECT_EQ(tokenizer->token_text(256), "he");
  EXPECT_EQ(tokenizer->token_text(32), utf8(U"\u0120"));
  EXPECT_EQ(tokenizer->token_bytes(32), " ");
  EXPECT_EQ(tokenizer->token_bytes(0xe4), "\xe4");
  EXPECT_EQ(tokenizer->token_bytes(301), "a b");
  EXPECT_TRUE(tokenizer->contains(301));
  EXPECT_TRUE(tokenizer->is_special(300));
  EXPECT_FALSE(tokenizer->is_special(301));
  EXPECT_EQ(tokenizer->special_ids(), TokenIds{300});
}

TEST(Tokenizer, IgnoresIdsWithoutAToken) {
  Json json = tiny_tokenizer();
  json["added_tokens"] = Json::array({added_token(300, "<end>", true)});
  const auto tokenizer = load_json(json);
  for (const TokenId id : {-1, 256, 299, 301, INT32_MAX, INT32_MIN}) {
    EXPECT_FALSE(tokenizer->contains(id));
    EXPECT_FALSE(tokenizer->is_special(id));
    EXPECT_EQ(tokenizer->token_bytes(id), "");
    EXPECT_EQ(tokenizer->token_text(id), "");
    EXPECT_EQ(tokenizer->decode(TokenIds{'a', id, 'b'}, false), "ab");
  }
}

TEST(Tokenizer, SkipsSpecialTokensOnRequest) {
  Json json = tiny_tokenizer();
  json["added_tokens"] = Json::array({added_token(256, "<end>", true), added_token(257, "<more>", false)});
  const auto tokenizer = load_json(json);
  const TokenIds ids = {'a', 256, 257, 'b'};
  EXPECT_EQ(tokenizer->decode(ids, false), "a<end><more>b");
  EXPECT_EQ(tokenizer->decode(ids, true), "a<more>b");
}

TEST(Tokenizer, ReadsNamesFromTheOtherFiles) {
  const std::string json = tiny_tokenizer({{"h", "e"}}).dump();
  const std::string config = R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "he",
      "pad_token": null, "unk_token": "not there", "model_max_length": 1e30,
      "added_tokens_decoder": {"257": {"content": "<s>", "special": true}}})";
  const std::string map = R"({"pad_token": "<more>"})";
  const std::string added = R"({"<more>": 260})";
  const auto tokenizer = Tokenizer::load({json, config, map, added});
  EXPECT_EQ(tokenizer->bos_id(), 257);
  EXPECT_EQ(tokenizer->eos_id(), 256);
  EXPECT_EQ(tokenizer->pad_id(), 260);
  EXPECT_EQ(tokenizer->unk_id(), std::nullopt);
  EXPECT_EQ(tokenizer->vocab_size(), 261U);
  EXPECT_EQ(tokenizer->special_ids(), (TokenIds{256, 257, 260}));
  EXPECT_EQ(tokenizer->encode("<s>x<more>", {true, false}), (TokenIds{257, 'x', 260}));
}

TEST(Tokenizer, AppliesThePostProcessorTemplate) {
  Json json = tiny_tokenizer();
  json["added_tokens"] = Json::array({added_token(256, "<s>", true)});
  json["post_processor"] = Json::parse(R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                 {"SpecialToken": {"id": "two", "type_id": 0}}],
      "pair": [],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]},
                         "two": {"id": "two", "ids": [65, 66], "tokens": ["A", "B"]}}})");
  const auto tokenizer = load_json(json);
  EXPECT_EQ(tokenizer->encode("x"), (TokenIds{256, 'x', 65, 66}));
  EXPECT_EQ(tokenizer->encode(""), (TokenIds{256, 65, 66}));
  EXPECT_EQ(tokenizer->encode("x", {false, false}), TokenIds{'x'});
}

TEST(Tokenizer, SeparatesTokensBySpacesWithoutADecoder) {
  Json json = tiny_tokenizer();
  json["decoder"] = nullptr;
  const auto tokenizer = load_json(json);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a b"), false), utf8(U"a \u0120 b"));
}

TEST(Tokenizer, CanBeSharedByManyThreads) {
  const auto tokenizer = load_golden("llama3");
  const Json cases = Json::parse(read_golden("llama3/golden.json"));
  std::vector<std::thread> threads;
  std::vector<size_t> num_wrong(4, 0);
  for (size_t thread_idx = 0; thread_idx < num_wrong.size(); ++thread_idx) {
    threads.emplace_back([&, thread_idx] {
      for (const Json& item : cases) {
        const TokenIds ids = tokenizer->encode(item["text"].get<std::string>(), {true, false});
        if (ids != item["ids"].get<TokenIds>()) ++num_wrong[thread_idx];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, std::vector<size_t>(4, 0));
}

}  // namespace
}  // namespace quire
