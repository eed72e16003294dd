// Tokenizers of GGUF files: small ones of each kind, and published vocabularies compared with llama.cpp's
// ids.
#include "core/models/gguf_tokenizer.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include <gtest/gtest.h>

#include "core/loader/gguf_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/file_text.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/json_text.h"
#include "tests/support/memory_file_system.h"

namespace quire::testing {
namespace {

std::shared_ptr<const Tokenizer> tokenizer_of(const GgufBuilder& builder) {
  MemoryFileSystem files;
  files.write("m/v.gguf", builder.build());
  return Tokenizer::load(gguf_tokenizer(GgufFile(files.open("m/v.gguf")).metadata()).files());
}

GgufBuilder vocabulary(const std::string& model, const std::vector<std::string>& tokens,
                       const std::vector<int32_t>& types) {
  GgufBuilder file;
  file.add_text("tokenizer.ggml.model", model).add_texts("tokenizer.ggml.tokens", tokens);
  file.add_numbers<int32_t>("tokenizer.ggml.token_type", 5, types);
  return file;
}

// \xc4\xa0 is a space in the alphabet of bytes.
GgufBuilder gpt2() {
  GgufBuilder file = vocabulary("gpt2",
                                {"a", "b", "\xc4\xa0", "ab",
                                 "\xc4\xa0"
                                 "ab",
                                 "<s>", "<tool>"},
                                {1, 1, 1, 1, 1, 3, 4});
  file.add_text("tokenizer.ggml.pre", "gpt-2");
  file.add_texts("tokenizer.ggml.merges", {"a b", "\xc4\xa0 ab"});
  file.add_u32("tokenizer.ggml.bos_token_id", 5).add_u32("tokenizer.ggml.eos_token_id", 5);
  return file;
}

TEST(GgufTokenizer, ByteLevelBpe) {
  GgufBuilder file = gpt2();
  EXPECT_EQ(tokenizer_of(file)->encode("ab ab<s><tool>", {.parse_special = true}), (TokenIds{3, 4, 5, 6}));
  EXPECT_EQ(tokenizer_of(file)->bos_id(), 5);
  file.add_flag("tokenizer.ggml.add_bos_token", true);
  EXPECT_EQ(tokenizer_of(file)->encode("ab"), (TokenIds{5, 3}));
  EXPECT_EQ(tokenizer_of(file)->decode(TokenIds{5, 3, 4}, true), "ab ab");
}

TEST(GgufTokenizer, SentencePiece) {
  const std::string space = "\xe2\x96\x81";
  GgufBuilder file =
      vocabulary("llama", {"<unk>", "<s>", "</s>", space, "a", "b", space + "a", space + "ab", "  "},
                 {2, 3, 3, 1, 1, 1, 1, 1, 4});
  file.add_numbers<float>("tokenizer.ggml.scores", 6, {0, 0, 0, -5, -6, -7, -2, -1, 0});
  EXPECT_EQ(tokenizer_of(file)->encode("ab"), (TokenIds{1, 7}));
  EXPECT_EQ(tokenizer_of(file)->encode("ab  b", {.add_special_tokens = false}), (TokenIds{7, 8, 5}));
  file.add_flag("tokenizer.ggml.add_space_prefix", false).add_flag("tokenizer.ggml.add_bos_token", false);
  EXPECT_EQ(tokenizer_of(file)->encode("b"), (TokenIds{5}));
}

TEST(GgufTokenizer, Unigram) {
  GgufBuilder file = vocabulary("t5",
                                {"<pad>", "</s>", "<unk>",
                                 "\xe2\x96\x81"
                                 "a",
                                 "b",
                                 "\xe2\x96\x81"
                                 "ab"},
                                {3, 3, 2, 1, 1, 1});
  file.add_numbers<float>("tokenizer.ggml.scores", 6, {0, 0, 0, -1, -1, -3});
  EXPECT_EQ(tokenizer_of(file)->encode("ab"), (TokenIds{3, 4, 1}));
}

TEST(GgufTokenizer, WordPiece) {
  GgufBuilder file = vocabulary("bert",
                                {"[UNK]", "[CLS]", "[SEP]",
                                 "\xe2\x96\x81"
                                 "un",
                                 "do",
                                 "\xe2\x96\x81"
                                 "do"},
                                {3, 3, 3, 1, 1, 1});
  file.add_u32("tokenizer.ggml.unknown_token_id", 0).add_u32("tokenizer.ggml.cls_token_id", 1);
  file.add_u32("tokenizer.ggml.seperator_token_id", 2);
  EXPECT_EQ(tokenizer_of(file)->encode("Undo do x"), (TokenIds{1, 3, 4, 5, 0, 2}));
}

TEST(GgufTokenizer, PlainTextBpe) {
  GgufBuilder file = vocabulary("gemma4",
                                {"<unk>", "a", "\xe2\x96\x81",
                                 "\xe2\x96\x81"
                                 "a"},
                                {2, 1, 1, 1});
  file.add_texts("tokenizer.ggml.merges", {"\xe2\x96\x81 a"}).add_u32("tokenizer.ggml.unknown_token_id", 0);
  EXPECT_EQ(tokenizer_of(file)->encode("a a"), (TokenIds{1, 3}));
  EXPECT_EQ(tokenizer_of(file)->decode(TokenIds{1, 3}, true), "a a");
}

TEST(GgufTokenizer, TemplatesAreThoseOfTheFile) {
  GgufBuilder file = gpt2();
  file.add_text("tokenizer.chat_template", "one").add_texts("tokenizer.chat_templates", {"tool_use"});
  file.add_text("tokenizer.chat_template.tool_use", "two");
  MemoryFileSystem files;
  files.write("m/v.gguf", file.build());
  const Json config = Json::parse(gguf_tokenizer_config(GgufFile(files.open("m/v.gguf")).metadata()));
  EXPECT_EQ(config["chat_template"][0]["template"], "one");
  EXPECT_EQ(config["chat_template"][1]["name"], "tool_use");
  EXPECT_EQ(config["chat_template"][1]["template"], "two");
  EXPECT_EQ(config["bos_token"], "<s>");
}

TEST(GgufTokenizer, AMalformedOneIsAnErrorThatNamesTheKey) {
  const auto refuse = [](ErrorCode code, const std::string& message,
                         const std::function<void(GgufBuilder&)>& change) {
    GgufBuilder file = gpt2();
    change(file);
    expect_error(code, {"m/v.gguf", message}, [&] { tokenizer_of(file); });
  };
  const auto replace = [](GgufBuilder& file, const std::string& name) {
    std::erase_if(file.keys, [&](const GgufKey& key) { return key.name == name; });
    return &file;
  };
  refuse(ErrorCode::unsupported, "\"tokenizer.ggml.pre\" is \"new\"",
         [&](GgufBuilder& f) { replace(f, "tokenizer.ggml.pre")->add_text("tokenizer.ggml.pre", "new"); });
  refuse(ErrorCode::unsupported, "\"tokenizer.ggml.model\" is \"rwkv\"", [&](GgufBuilder& f) {
    replace(f, "tokenizer.ggml.model")->add_text("tokenizer.ggml.model", "rwkv");
  });
  refuse(ErrorCode::not_found, "\"tokenizer.ggml.tokens\" is missing",
         [&](GgufBuilder& f) { replace(f, "tokenizer.ggml.tokens"); });
  refuse(ErrorCode::unsupported, "\"tokenizer.ggml.merges\" is missing",
         [&](GgufBuilder& f) { replace(f, "tokenizer.ggml.merges"); });
  refuse(ErrorCode::format, "entry 0 of \"tokenizer.ggml.merges\"", [&](GgufBuilder& f) {
    replace(f, "tokenizer.ggml.merges")->add_texts("tokenizer.ggml.merges", {"ab"});
  });
  refuse(ErrorCode::format, "\"tokenizer.ggml.token_type\" has 1 entries for 7 tokens", [&](GgufBuilder& f) {
    replace(f, "tokenizer.ggml.token_type")->add_numbers<int32_t>("tokenizer.ggml.token_type", 5, {1});
  });
  refuse(ErrorCode::format, "token 0 of \"tokenizer.ggml.tokens\" is not UTF-8", [&](GgufBuilder& f) {
    replace(f, "tokenizer.ggml.tokens")
        ->add_texts("tokenizer.ggml.tokens", {"\xff", "b", "c", "d", "e", "f", "g"});
  });
}

// Published vocabularies, which tools/real_gguf.sh of the shared folder brings to QUIRE_GGUF_DIR.
class GgufVocabularies : public ::testing::TestWithParam<std::string> {};

const std::string kGolden = std::string(QUIRE_SHARED_DIR) + "/golden/gguf/";

std::vector<std::string> vocabularies() {
  std::vector<std::string> names;
  if (!std::filesystem::exists(kGolden + "tokenizers/story.json")) return names;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden + "tokenizers"))
    names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Returns whether llama.cpp departs from the model's own tokenizer, which Quire follows: it makes "</s>" a
// control token whatever the file's type is, and takes away more marks than BERT does (in Devanagari and
// Hangul).
bool differs(const std::string& vocabulary, const std::string& text) {
  const bool has_end = text.find("</s>") != std::string::npos;
  if (vocabulary == "gemma3" || vocabulary == "qwen2" || vocabulary == "qwen35") return has_end;
  return vocabulary == "bert-bge" && (text.starts_with("\xe0\xa4") || text.starts_with("\xec\x95\x88"));
}

TEST_P(GgufVocabularies, IdsAreThoseOfLlamaCpp) {
  const Json golden = Json::parse(file_text(kGolden + "tokenizers/" + GetParam() + ".json"));
  const std::string file = golden["file"];
  const char* const more = std::getenv("QUIRE_GGUF_DIR");
  const std::string path = file.empty()      ? kGolden + "story-3m-Q4_0.gguf"
                           : more == nullptr ? std::string()
                                             : std::string(more) + "/" + file;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << file << " is not in QUIRE_GGUF_DIR";
  const TokenizerTexts texts = gguf_tokenizer(GgufFile(posix_file_system().open(path)).metadata());
  const auto tokenizer = Tokenizer::load(texts.files());
  for (const Json& one : golden["cases"]) {
    const std::string text = one["text"];
    if (differs(GetParam(), text)) continue;
    EXPECT_EQ(tokenizer->encode(text, {.add_special_tokens = false}), one["ids"].get<TokenIds>()) << text;
    EXPECT_EQ(tokenizer->encode(text, {.parse_special = true}), one["ids_special"].get<TokenIds>()) << text;
  }
}

std::string vocabulary_name(const ::testing::TestParamInfo<std::string>& vocabulary) {
  std::string name = vocabulary.param;
  for (char& c : name)
    if (c == '-' || c == '.') c = '_';
  return name;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GgufVocabularies);
INSTANTIATE_TEST_SUITE_P(Published, GgufVocabularies, ::testing::ValuesIn(vocabularies()), vocabulary_name);

}  // namespace
}  // namespace quire::testing
