// Prompts from texts, tokens, special tokens and messages.
#include "core/engine/requests/prompt_builder.h"

#include "core/engine/requests/conversation_input.h"
#include "tests/core/engine/requests/request_fixture.h"
#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

class PromptBuilder : public RequestTest {
 protected:
  TokenIds encode(const std::string& text, bool add_special, bool parse_special = false) const {
    return tokenizer().encode(text, {.parse_special = parse_special, .add_special_tokens = add_special});
  }
  TokenIds prompt_of(std::vector<PromptPart> parts) const {
    RequestSpec spec;
    spec.prompt = std::move(parts);
    return encode_prompt(spec, model);
  }
  TokenId special(const char* spelling) const { return tokenizer().find_token(spelling).value(); }
};

TEST_F(PromptBuilder, OneTextIsEncodedAsTheTokenizerDoes) {
  EXPECT_EQ(prompt_of({text_part("Once upon a time")}), encode("Once upon a time", true));
  RequestSpec spec = greedy("Once upon a time", 1);
  spec.add_special = false;
  EXPECT_EQ(encode_prompt(spec, model), encode("Once upon a time", false));
}

TEST_F(PromptBuilder, SpecialTokensInATextAreParsedOnRequest) {
  RequestSpec spec = greedy("<|im_end|>", 1);
  spec.add_special = false;
  EXPECT_GT(encode_prompt(spec, model).size(), 1U);
  spec.parse_special = true;
  EXPECT_EQ(encode_prompt(spec, model), TokenIds{special("<|im_end|>")});
}

TEST_F(PromptBuilder, TokensAreTakenAsTheyAre) {
  EXPECT_EQ(prompt_of({token_part({5, 900, 5})}), (TokenIds{5, 900, 5}));
}

TEST_F(PromptBuilder, PartsAreJoinedInOrder) {
  TokenIds expected = encode("Once", true);
  expected.push_back(special("<|im_start|>"));
  expected.insert(expected.end(), {7, 8});
  EXPECT_EQ(
      prompt_of({text_part("Once"), {PromptPart::Kind::special, "<|im_start|>", {}}, token_part({7, 8})}),
      expected);
}

TEST_F(PromptBuilder, WordsAreTheTextOfThePrompt) {
  std::string words;
  RequestSpec spec = greedy("Once upon", 1);
  spec.prompt.push_back({PromptPart::Kind::special, "<|im_end|>", {}});
  const TokenIds prompt = encode_prompt(spec, model, &words);
  EXPECT_EQ(words, tokenizer().decode(prompt, false));
  EXPECT_NE(words.find("Once upon<|im_end|>"), std::string::npos) << words;
}

TEST_F(PromptBuilder, WordsOfMessagesHaveADotForContent) {
  RequestSpec spec;
  spec.prompt = {parse_messages(R"({"role": "user", "content": "<think>"})")};
  std::string words;
  encode_prompt(spec, model, &words);
  EXPECT_EQ(words, "<|im_start|>.\n.<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(PromptBuilder, TextAroundMessagesIsPartOfThePrompt) {
  RequestSpec spec;
  spec.prompt = {text_part("A"), parse_messages(R"([{"role": "user", "content": "Hi"}])"), text_part("Well")};
  EXPECT_EQ(tokenizer().decode(encode_prompt(spec, model), false),
            "A<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nWell");
}

TEST_F(PromptBuilder, ErrorsNameTheField) {
  expect_error(ErrorCode::invalid_argument, {"prompt: not set"}, [&] { prompt_of({}); });
  expect_error(ErrorCode::not_found, {"prompt:", "<|no|>"}, [&] {
    prompt_of({{PromptPart::Kind::special, "<|no|>", {}}});
  });
  expect_error(ErrorCode::encoding, {"prompt: "}, [&] { prompt_of({text_part("\xff")}); });
  expect_error(ErrorCode::encoding, {"prompt: part 1: "}, [&] {
    prompt_of({text_part("a"), text_part("\xff")});
  });
  RequestSpec spec = greedy("a", 1);
  spec.negative_prompt = {text_part("\xff")};
  expect_error(ErrorCode::encoding, {"negative_prompt: "},
               [&] { encode_negative_prompt(spec, *model.model); });
}

TEST_F(PromptBuilder, MessagesAreOneConversation) {
  const PromptPart message = parse_messages(R"({"role": "user", "content": "Hi"})");
  expect_error(ErrorCode::invalid_argument, {"prompt: there are other parts between its messages"}, [&] {
    prompt_of({message, text_part("a"), message});
  });
}

TEST_F(PromptBuilder, SettingsOfMessagesNeedMessages) {
  RequestSpec spec = greedy("a", 1);
  spec.conversation.tools = R"([{"name": "weather"}])";
  expect_error(ErrorCode::invalid_argument, {"tools: "}, [&] { encode_prompt(spec, model); });
  spec.response.dialect = "hermes";
  EXPECT_EQ(encode_prompt(spec, model), encode("a", true)) << "tools also count for the reader";
  set_template_arguments(spec.conversation, R"({"mood": "calm"})");
  expect_error(ErrorCode::invalid_argument, {"template_arguments: "}, [&] { encode_prompt(spec, model); });
  set_template_arguments(spec.conversation, "");
  spec.conversation.chat = with_own_settings(chat::TemplateSet::of_source("{{ messages }}"));
  expect_error(ErrorCode::invalid_argument, {"chat_template: "}, [&] { encode_prompt(spec, model); });
}

}  // namespace
}  // namespace quire::testing
