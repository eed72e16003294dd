// Ids and texts of the Hugging Face `tokenizers` library.
#include <cstdlib>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file_system.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"
#include "tests/support/case_stride.h"

namespace quire {
namespace {

constexpr EncodeOptions kWithTemplate{.parse_special = true, .add_special_tokens = true};

class GoldenKind : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenKind, EveryIdAndTextMatches) {
  const auto tokenizer = load_golden(GetParam());
  const Json cases = Json::parse(read_golden(GetParam() + "/golden.json"));
  ASSERT_GE(cases.size(), 200U);
  for (const Json& item : cases) {
    const auto text = item["text"].get<std::string>();
    const TokenIds ids = tokenizer->encode(text, kBare);
    EXPECT_EQ(ids, item["ids"].get<TokenIds>()) << text;
    const auto decoded = item["decoded"].get<std::string>();
    EXPECT_EQ(tokenizer->decode(item["ids"].get<TokenIds>(), false), decoded) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenKind, ::testing::ValuesIn(golden_kinds()),
                         [](const auto& param) { return param.param; });

void expect_case(const Tokenizer& tokenizer, const Json& item, const std::string& name) {
  const auto text = item["text"].get<std::string>();
  SCOPED_TRACE(::testing::Message() << name << ": " << text);
  if (item.contains("refused")) {
    EXPECT_THROW(tokenizer.encode(text, kBare), Error);
    return;
  }
  const auto ids = item["ids"].get<TokenIds>();
  EXPECT_EQ(tokenizer.encode(text, kBare), ids);
  const Json& with_template = item.contains("with_template") ? item["with_template"] : item["ids"];
  EXPECT_EQ(tokenizer.encode(text, kWithTemplate), with_template.get<TokenIds>());
  const auto decoded = item["decoded"].get<std::string>();
  EXPECT_EQ(tokenizer.decode(ids, false), decoded);
  EXPECT_EQ(tokenizer.decode(ids, true), item.contains("shown") ? item["shown"].get<std::string>() : decoded);
}

// Returns the golden tokenizer of a variant with its changes applied.
Json variant_json(const Json& variant) {
  Json json = Json::parse(read_golden(variant["base"].get<std::string>() + "/tokenizer.json"));
  for (const auto& field : variant["fields"].items()) json[field.key()] = field.value();
  for (const Json& token : variant["added_tokens"]) json["added_tokens"].push_back(token);
  json["model"]["ignore_merges"] = variant["ignore_merges"];
  if (variant["merges_as_text"].get<bool>()) {
    for (Json& merge : json["model"]["merges"]) {
      merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
    }
  }
  return json;
}

// Normalizers, split behaviors, patterns, added tokens with every flag, and templates, mixed at random.
TEST(GoldenVariants, EveryIdAndTextMatches) {
  const Json file = Json::parse(read_golden("variants.json"));
  ASSERT_GE(file["variants"].size(), 40U);
  for (size_t i = 0; i < file["variants"].size(); i += testing::stride_if_sanitized(4)) {
    const Json& variant = file["variants"][i];
    const auto tokenizer = load_json(variant_json(variant));
    for (const Json& item : variant["cases"]) expect_case(*tokenizer, item, "variant " + std::to_string(i));
  }
}

// Every kind of model, normalizer, pre-tokenizer, decoder, post-processor and added token, mixed at random by
// make_parts.py.
TEST(GoldenParts, EveryIdAndTextMatches) {
  const Json file = Json::parse(read_golden("parts.json"));
  ASSERT_GE(file["variants"].size(), 120U);
  const std::string charsmap = file["charsmap"];
  for (size_t i = 0; i < file["variants"].size(); ++i) {
    Json json = file["variants"][i]["file"];
    json["model"] = file["models"][json["model"].get<std::string>()];
    std::string text = json.dump();
    for (size_t at = text.find("\"CHARSMAP\""); at != std::string::npos; at = text.find("\"CHARSMAP\"")) {
      text.replace(at + 1, 8, charsmap);
    }
    const auto tokenizer = Tokenizer::load({text, {}, {}, {}});
    for (const Json& item : file["variants"][i]["cases"]) {
      expect_case(*tokenizer, item,
                  "variant " + std::to_string(i) + ": " + file["variants"][i]["file"].dump());
    }
  }
}

TEST(GoldenModel, StoryPromptsMatch) {
  const std::string folder = std::string(QUIRE_EMBEDDED_MODEL) + "/";
  const std::string golden_folder = std::string(QUIRE_TEST_DATA) + "/models/story-15m-exl2-4.0bpw/";
  const FileSystem& files = posix_file_system();
  const std::string tokenizer_json = files.read_text(folder + "tokenizer.json", 64U << 20);
  const std::string config = files.read_text(folder + "tokenizer_config.json", 1U << 20);
  const auto tokenizer = Tokenizer::load({tokenizer_json, config, {}, {}});
  EXPECT_EQ(tokenizer->vocab_size(), 6144U);
  EXPECT_EQ(tokenizer->bos_id(), 0);
  EXPECT_EQ(tokenizer->eos_id(), 1);
  EXPECT_EQ(tokenizer->pad_id(), 2);
  const Json golden = Json::parse(files.read_text(golden_folder + "golden.json", 16U << 20));
  size_t num_prompts = 0;
  for (const auto& item : golden.items()) {
    if (!item.value().is_object()) continue;  // the model's perplexity
    ++num_prompts;
    const auto ids = item.value()["ids"].get<TokenIds>();
    EXPECT_EQ(tokenizer->encode(item.key()), ids);  // begins with the template's BOS token
    TokenIds all = ids;
    for (const Json& id : item.value()["greedy"]) all.push_back(id.get<TokenId>());
    EXPECT_EQ(tokenizer->decode(all, true), item.value()["text"].get<std::string>());
  }
  EXPECT_EQ(num_prompts, 3U);
}

// A real vocabulary without tokens for 21 bytes; tools/real_model.sh of the shared files makes the folder.
TEST(GoldenModel, SmolLm2PromptsMatch) {
  const FileSystem& files = posix_file_system();
  const char* const named = std::getenv("QUIRE_SMOLLM2_DIR");
  const std::string folder = named != nullptr ? named : std::string(QUIRE_SHARED_DIR) + "/models/smollm2";
  const std::string golden_path = std::string(QUIRE_TEST_DATA) + "/models/smollm2-135m.json";
  if (!files.is_file(folder + "/tokenizer.json"))
    GTEST_SKIP() << "QUIRE_SMOLLM2_DIR names no SmolLM2-135M-Instruct";
  const std::string tokenizer_json = files.read_text(folder + "/tokenizer.json", 64U << 20);
  const std::string config = files.read_text(folder + "/tokenizer_config.json", 1U << 20);
  const auto tokenizer = Tokenizer::load({tokenizer_json, config, {}, {}});
  const Json golden = Json::parse(files.read_text(golden_path, 16U << 20));
  ASSERT_GE(golden["prompts"].size(), 3U);
  for (const auto& item : golden["prompts"].items()) {
    const Json& prompt = item.value();
    EXPECT_EQ(tokenizer->encode(prompt["text"].get<std::string>(), kBare), prompt["ids"].get<TokenIds>());
    EXPECT_EQ(tokenizer->decode(prompt["greedy"].get<TokenIds>(), true), prompt["answer"].get<std::string>());
  }
}

}  // namespace
}  // namespace quire
