#include "core/chat/template_set.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "tests/core/chat/chat_fixture.h"

namespace quire::chat {
namespace {

std::string rendered(const TemplateSet& set, std::string_view name, const std::string& input) {
  const JsonValue json = parse_json(input, "input");
  TemplateContext context;
  context.special_tokens = set.special_tokens();
  return set.choose(name, json).render(json, context).text;
}

constexpr const char* kPlain = R"({"messages": []})";
constexpr const char* kWithTools = R"({"messages": [], "tools": [1]})";

TEST(TemplateSet, ReadsOneOrSeveralTemplatesOfTheTokenizerConfig) {
  ChatFiles files;
  files.tokenizer_config_json = R"({"chat_template": "one{{ bos_token }}", "bos_token": {"content": "<s>"}})";
  EXPECT_EQ(rendered(*TemplateSet::load(files, "here"), "", kPlain), "one<s>");
  files.tokenizer_config_json = R"({"chat_template": [{"name": "default", "template": "d"},
    {"name": "tool_use", "template": "t"}, {"name": "rag", "template": "r"}], "eos_token": "</s>"})";
  const auto set = TemplateSet::load(files, "here");
  EXPECT_EQ(rendered(*set, "", kPlain), "d");
  EXPECT_EQ(rendered(*set, "", kWithTools), "t");
  EXPECT_EQ(rendered(*set, "rag", kWithTools), "r");
  EXPECT_THROW(rendered(*set, "other", kPlain), Error);
}

TEST(TemplateSet, FilesTakePrecedenceOverTheTokenizerConfig) {
  ChatFiles files;
  files.tokenizer_config_json = R"({"chat_template": "config", "eos_token": "</s>"})";
  files.templates = {{"default", "file{{ eos_token }}"}, {"rag", "r"}};
  const auto set = TemplateSet::load(files, "here");
  EXPECT_EQ(rendered(*set, "", kPlain), "file</s>");
  EXPECT_EQ(rendered(*set, "rag", kPlain), "r");
}

TEST(TemplateSet, ErrorOfMissingTemplatesNamesTheDirectory) {
  try {
    TemplateSet::load({}, "/a/model");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_EQ(std::string(error.what()).rfind("/a/model: ", 0), 0U);
  }
}

TEST(TemplateSet, LoadsTheTemplateOfTheEmbeddedModel) {
  const ChatFiles files = read_chat_files(posix_file_system(), QUIRE_EMBEDDED_MODEL);
  const auto set = TemplateSet::load(files, "model");
  const std::string text = rendered(
      *set, "", R"({"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": true})");
  EXPECT_NE(text.find("<|im_start|>user\nhi<|im_end|>"), std::string::npos) << text;
}

// Examples of FIPS 180-4, and lengths around the block size.
TEST(Sha256, MatchesTheExamplesOfTheStandard) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000, 'a')),
            "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
}

// --- Conversion of messages, as in transformers

std::string printed(const Json& message, const TemplateContext& context = {}) {
  const Json input = {{"messages", {message}}};
  return ChatTemplate::compile("{{ messages[0] | tojson }}")
      ->render(parse_json(input.dump(), "input"), context)
      .text;
}

TEST(Conversation, DropsNullKeysAndGivesReasoningBothNames) {
  EXPECT_EQ(printed({{"role", "user"}, {"content", nullptr}}), R"({"role": "user"})");
  EXPECT_EQ(printed({{"role", "assistant"}, {"reasoning_content", "r"}}),
            R"({"thinking": "r", "role": "assistant", "reasoning_content": "r"})");
  EXPECT_EQ(printed({{"thinking", "r"}, {"role", "assistant"}}),
            R"({"thinking": "r", "role": "assistant", "reasoning_content": "r"})");
}

TEST(Conversation, ContinuationEndsInsideTheLastMessage) {
  const std::string source = "{% for m in messages %}<{{ m.content | trim }}>{% endfor %}";
  const Json message = {{"role", "assistant"}, {"content", "so far "}};
  EXPECT_EQ(text_of(source, {{"messages", {message}}, {"continue_final_message", true}}), "<so far");
  EXPECT_THROW(text_of("nothing", {{"messages", {message}}, {"continue_final_message", true}}), Error);
  EXPECT_THROW(text_of(source, {{"messages", Json::array()}, {"continue_final_message", true}}), Error);
}

}  // namespace
}  // namespace quire::chat
