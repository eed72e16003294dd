// Mistral's tekken.json: ids from tiktoken and from a slow encoder, and files that must be refused.
#include <functional>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"

namespace quire {
namespace {

const Json& golden_tekken() {
  static const auto* file = new Json(Json::parse(read_golden("tekken.json")));
  return *file;
}

std::shared_ptr<const Tokenizer> load_tekken(const Json& file, const std::string& config = {}) {
  const std::string text = file.dump();
  TokenizerFiles files;
  files.model = text;
  files.model_name = "tekken.json";
  files.tokenizer_config_json = config;
  return Tokenizer::load(files);
}

TEST(Tekken, EveryIdAndTextMatches) {
  const auto tokenizer = load_tekken(golden_tekken()["file"]);
  ASSERT_GE(golden_tekken()["cases"].size(), 20U);
  for (const Json& item : golden_tekken()["cases"]) {
    const auto text = item["text"].get<std::string>();
    const auto ids = item["ids"].get<TokenIds>();
    EXPECT_EQ(tokenizer->encode(text, {.parse_special = false, .add_special_tokens = false}), ids) << text;
    EXPECT_EQ(tokenizer->decode(ids, false), text);
    TokenIds with_bos = {1};
    with_bos.insert(with_bos.end(), ids.begin(), ids.end());
    EXPECT_EQ(tokenizer->encode(text), with_bos);
  }
}

TEST(Tekken, SpecialTokensComeFirst) {
  const auto tokenizer = load_tekken(golden_tekken()["file"]);
  EXPECT_EQ(tokenizer->vocab_size(), 446U);
  EXPECT_EQ(tokenizer->unk_id(), 0);
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_EQ(tokenizer->pad_id(), 11);
  EXPECT_EQ(tokenizer->find_token("[THINK]"), 20);
  EXPECT_EQ(tokenizer->find_token("<SPECIAL_29>"), 29);
  EXPECT_FALSE(tokenizer->find_token("<SPECIAL_30>"));
  for (TokenId id = 0; id < 30; ++id) EXPECT_TRUE(tokenizer->is_special(id)) << id;
  EXPECT_FALSE(tokenizer->is_special(30));
  EXPECT_EQ(tokenizer->encode("[INST]a</s>", kBare), (TokenIds{3, 30 + 'a', 2}));
  EXPECT_EQ(tokenizer->decode(TokenIds{1, 30 + 'a', 2}, true), "a");
}

TEST(Tekken, OldFilesHaveTheUsualSpecialTokens) {
  Json file = golden_tekken()["file"];
  file.erase("special_tokens");
  file["config"]["version"] = "v3";
  const auto tokenizer = load_tekken(file);
  EXPECT_EQ(tokenizer->find_token("[TOOL_CONTENT]"), 19);
  EXPECT_EQ(tokenizer->find_token("<SPECIAL_20>"), 20);
  EXPECT_FALSE(tokenizer->find_token("[THINK]"));
}

TEST(Tekken, TheConfigurationDecidesWhetherATextBegins) {
  const auto tokenizer =
      load_tekken(golden_tekken()["file"], R"({"add_bos_token": false, "add_eos_token": true})");
  EXPECT_EQ(tokenizer->encode("a"), (TokenIds{30 + 'a', 2}));
}

struct Damage {
  const char* named;  // part of the message
  std::function<void(Json&)> apply;
};

TEST(Tekken, DamagedFilesAreRefusedByName) {
  const std::vector<Damage> damages = {
      {"config is missing", [](Json& file) { file.erase("config"); }},
      {"vocab is missing", [](Json& file) { file.erase("vocab"); }},
      {"vocab", [](Json& file) { file["vocab"] = 3; }},
      {"config.pattern is missing", [](Json& file) { file["config"].erase("pattern"); }},
      {"config.pattern", [](Json& file) { file["config"]["pattern"] = "(a"; }},
      {"config.version",
       [](Json& file) {
         file.erase("special_tokens");
         file["config"]["version"] = "7";
       }},
      {"special_tokens is missing", [](Json& file) { file.erase("special_tokens"); }},
      {"default_vocab_size", [](Json& file) { file["config"]["default_vocab_size"] = 455; }},
      {"default_vocab_size", [](Json& file) { file["config"]["default_vocab_size"] = 285; }},
      {"default_vocab_size", [](Json& file) { file["config"]["default_vocab_size"] = -1; }},
      {"default_vocab_size", [](Json& file) { file["config"]["default_vocab_size"] = 1e30; }},
      {"default_num_special_tokens",
       [](Json& file) {
         file["config"]["default_num_special_tokens"] = 21;
         file["config"]["default_vocab_size"] = 437;
       }},
      {"default_num_special_tokens",
       [](Json& file) { file["config"]["default_num_special_tokens"] = 1 << 30; }},
      {"vocab[300].token_bytes is not base64",
       [](Json& file) { file["vocab"][300]["token_bytes"] = "a*b="; }},
      {"vocab[300].token_bytes is not base64",
       [](Json& file) { file["vocab"][300]["token_bytes"] = "QUJDR"; }},
      {"vocab[300].token_bytes", [](Json& file) { file["vocab"][300]["token_bytes"] = ""; }},
      {"vocab[300].token_bytes",
       [](Json& file) { file["vocab"][300]["token_bytes"] = std::string(2000, 'A'); }},
      {"vocab[301].token_bytes",
       [](Json& file) { file["vocab"][301]["token_bytes"] = file["vocab"][300]["token_bytes"]; }},
      {"vocab[7].token_bytes", [](Json& file) { file["vocab"][7]["token_bytes"] = "CA=="; }},
      {"vocab[300].rank must be 300", [](Json& file) { file["vocab"][300]["rank"] = 299; }},
      {"vocab[300].rank is missing", [](Json& file) { file["vocab"][300].erase("rank"); }},
      {"special_tokens[4].rank must be 4", [](Json& file) { file["special_tokens"][4]["rank"] = 5; }},
      {"special_tokens[4].token_str", [](Json& file) { file["special_tokens"][4]["token_str"] = ""; }},
      {"[INST]", [](Json& file) { file["special_tokens"][4]["token_str"] = "[INST]"; }},
      {"special_tokens", [](Json& file) { file["special_tokens"] = "none"; }},
  };
  for (const Damage& damage : damages) {
    Json file = golden_tekken()["file"];
    damage.apply(file);
    try {
      load_tekken(file);
      ADD_FAILURE() << damage.named;
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.find("tekken.json"), 0U) << message;
      EXPECT_NE(message.find(damage.named), std::string::npos) << message;
    }
  }
}

TEST(Tekken, EveryTruncationIsAnError) {
  const std::string text = golden_tekken()["file"].dump();
  for (size_t length = 1; length < text.size(); length += 997) {
    TokenizerFiles files;
    files.model = std::string_view(text).substr(0, length);
    files.model_name = "tekken.json";
    EXPECT_THROW(Tokenizer::load(files), Error) << length;
  }
}

}  // namespace
}  // namespace quire
