// SentencePiece models and tiktoken ranks: ids and texts from those libraries, and files that must be
// refused.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/tokenizer/component_json.h"
#include "core/tokenizer/gpt2_files.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"

namespace quire {
namespace {

constexpr EncodeOptions kContent{.parse_special = false, .add_special_tokens = false};

const Json& golden_models() {
  static const auto* file = new Json(Json::parse(read_golden("models.json")));
  return *file;
}

std::string sentencepiece_bytes(size_t idx) {
  return decode_base64(golden_models()["sentencepiece"][idx]["file"].get<std::string>(), "golden");
}

std::shared_ptr<const Tokenizer> load_model_file(std::string_view bytes, std::string_view config = {}) {
  TokenizerFiles files;
  files.model = bytes;
  files.model_name = "tokenizer.model";
  files.tokenizer_config_json = config;
  return Tokenizer::load(files);
}

void expect_cases(const Tokenizer& tokenizer, const Json& cases) {
  ASSERT_GE(cases.size(), 40U);
  for (const Json& item : cases) {
    const auto text = item["text"].get<std::string>();
    const auto ids = item["ids"].get<TokenIds>();
    EXPECT_EQ(tokenizer.encode(text, kContent), ids) << text;
    EXPECT_EQ(tokenizer.decode(ids, false), item["decoded"].get<std::string>()) << text;
  }
}

TEST(SentencePieceModel, EveryIdAndTextMatches) {
  ASSERT_EQ(golden_models()["sentencepiece"].size(), 12U);
  for (size_t i = 0; i < 12; ++i) {
    SCOPED_TRACE(::testing::Message() << "model " << i);
    expect_cases(*load_model_file(sentencepiece_bytes(i)), golden_models()["sentencepiece"][i]["cases"]);
  }
}

TEST(SentencePieceModel, SpecialTokensAndTheBeginningOfATextMatch) {
  const auto tokenizer = load_model_file(sentencepiece_bytes(0));
  EXPECT_EQ(tokenizer->unk_id(), 0);
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_FALSE(tokenizer->pad_id());
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_EQ(tokenizer->encode("<s>", {.parse_special = true, .add_special_tokens = false}), TokenIds{1});
  EXPECT_EQ(tokenizer->encode("a").front(), 1);
  const auto no_bos =
      load_model_file(sentencepiece_bytes(0), R"({"add_bos_token": false, "add_eos_token": true})");
  EXPECT_NE(no_bos->encode("a").front(), 1);
  EXPECT_EQ(no_bos->encode("a").back(), 2);
  const auto t5 = load_model_file(sentencepiece_bytes(0), R"({"tokenizer_class": "T5Tokenizer"})");
  EXPECT_NE(t5->encode("a").front(), 1);
  EXPECT_EQ(t5->encode("a").back(), 2);
}

TEST(SentencePieceModel, EveryTruncationIsAnErrorOrATokenizer) {
  const std::string bytes = sentencepiece_bytes(1);
  size_t num_refused = 0;
  for (size_t length = 1; length < bytes.size(); length += 37) {
    try {
      load_model_file(std::string_view(bytes).substr(0, length))->encode("the king", kContent);
    } catch (const Error& error) {
      ++num_refused;
      EXPECT_NE(std::string(error.what()).find("tokenizer.model"), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(num_refused, bytes.size() / 37 / 2);
}

TEST(Gpt2Files, EveryIdAndTextMatches) {
  const Json file = Json::parse(read_golden("gpt2/tokenizer.json"));
  std::string merges = "#version: 0.2\r\n";
  for (const Json& merge : file["model"]["merges"]) {
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\r\n";
  }
  const std::string json = tokenizer_json_of_gpt2_files(file["model"]["vocab"].dump(), merges);
  TokenizerFiles files;
  files.tokenizer_json = json;
  const auto tokenizer = Tokenizer::load(files);
  size_t num_compared = 0;
  for (const Json& item : Json::parse(read_golden("gpt2/golden.json"))) {
    const auto text = item["text"].get<std::string>();
    if (text.find('<') != std::string::npos) continue;  // added tokens, which these files do not have
    ++num_compared;
    EXPECT_EQ(tokenizer->encode(text, kContent), item["ids"].get<TokenIds>()) << text;
    EXPECT_EQ(tokenizer->decode(item["ids"].get<TokenIds>(), false), item["decoded"].get<std::string>())
        << text;
  }
  EXPECT_GE(num_compared, 150U);
  EXPECT_THROW(tokenizer_json_of_gpt2_files("[]", ""), Error);
  EXPECT_THROW(tokenizer_json_of_gpt2_files("{", ""), Error);
  EXPECT_THROW(tokenizer_json_of_gpt2_files("{}", "a b c"), Error);
}

TEST(Tiktoken, EveryIdAndTextMatches) {
  const auto ranks = golden_models()["ranks"].get<std::string>();
  ASSERT_EQ(golden_models()["tiktoken"].size(), 4U);
  for (const Json& variant : golden_models()["tiktoken"]) {
    SCOPED_TRACE(variant["tokenizer_class"]);
    const std::string config = Json{{"tokenizer_class", variant["tokenizer_class"]}}.dump();
    expect_cases(*load_model_file(ranks, config), variant["cases"]);
  }
}

void expect_refused(std::string_view bytes, std::string_view message) {
  try {
    load_model_file(bytes, R"({"tokenizer_class": "GPT2Tokenizer"})");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(Tiktoken, MalformedLinesAreNamed) {
  expect_refused("IQ== 0\nIg== x\n", "tokenizer.model line 2: \"x\" is not a rank");
  expect_refused("IQ== -1\n", "line 1: \"-1\" is not a rank");
  expect_refused("IQ== 99999999999\n", "is not a rank");
  expect_refused("IQ==\n", "line 1: no rank");
  expect_refused("I*== 0\n", "line 1 is not base64");
  expect_refused(" 0\n", "a token of 0 bytes");
  expect_refused("IQ== 0\nIQ== 1\n", "appears twice");
  expect_refused("IQ== 0\nIg== 0\n", "the id 0 belongs to both");
  expect_refused("IQ== 2000000000\n", "too large");
}

TEST(Tiktoken, UnknownFamilyIsRefusedByName) {
  try {
    load_model_file("IQ== 0\n", R"({"tokenizer_class": "OddTokenizer"})");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("1 ranks and tokenizer_class \"OddTokenizer\""),
              std::string::npos);
  }
}

}  // namespace
}  // namespace quire
