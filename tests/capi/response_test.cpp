// Answers through the C interface.
#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

class CapiResponseTest : public ::testing::Test {
 protected:
  static OwnedResponseParser make(const std::string& dialect) {
    return OwnedResponseParser(quire_response_parser_create(dialect.data(), dialect.size(), nullptr));
  }
  using Getter = int64_t (*)(quire_response_parser*, char*, size_t, quire_error**);
  static std::string get(quire_response_parser* parser, Getter getter) {
    std::string text(256, '\0');
    text.resize(static_cast<size_t>(getter(parser, text.data(), text.size(), nullptr)));
    return text;
  }
  // "KIND CALL TEXT NAME ID;" for each event, without marks.
  static std::string events(quire_response_parser* parser) {
    std::string all;
    while (quire_response_parser_next(parser, nullptr) == 1) {
      const int32_t kind = quire_response_parser_kind(parser, nullptr);
      if (kind == QUIRE_RESPONSE_MARKUP) continue;
      all += std::to_string(kind) + " " + std::to_string(quire_response_parser_call_index(parser, nullptr)) +
             " " + get(parser, quire_response_parser_text) + get(parser, quire_response_parser_name) + " " +
             get(parser, quire_response_parser_id) + ";";
    }
    return all;
  }
  static void feed(quire_response_parser* parser, const std::string& text) {
    EXPECT_EQ(quire_response_parser_feed(parser, text.data(), text.size(), nullptr), 1);
  }
  Report report;
};

TEST_F(CapiResponseTest, ACallComesAsTypedEvents) {
  const OwnedResponseParser parser = make("mistral");
  feed(parser.get(), "Well. [TOOL_CALLS][{\"name\": \"go\", \"arguments\": {\"a\"");
  EXPECT_EQ(events(parser.get()), "1 -1 Well. ;3 0 go ;4 0 {\"a\" ;");
  feed(parser.get(), ": 1}, \"id\": \"x1\"}]");
  EXPECT_EQ(quire_response_parser_finish(parser.get(), nullptr), 1);
  EXPECT_EQ(events(parser.get()), "4 0 : 1} ;5 0 go x1;");
}

TEST_F(CapiResponseTest, ToolsPromptAndReasoningAreSettingsOfAParserThatHasNotBegun) {
  const OwnedResponseParser parser = make("glm");
  const std::string tools = R"([{"name": "go", "parameters": {"properties": {"a": {"type": "string"}}}}])";
  EXPECT_EQ(quire_response_parser_set_tools(parser.get(), tools.data(), tools.size(), nullptr), 1);
  EXPECT_EQ(quire_response_parser_set_prompt(parser.get(), "<think>", 7, nullptr), 1);
  feed(parser.get(), "hm</think><tool_call>go<arg_key>a</arg_key><arg_value>12</arg_value></tool_call>");
  EXPECT_EQ(events(parser.get()), "2 -1 hm ;3 0 go ;4 0 {\"a\": \"12\"} ;5 0 go ;");
  EXPECT_EQ(quire_response_parser_set_reasoning(parser.get(), QUIRE_REASONING_OFF, report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
}

TEST_F(CapiResponseTest, WhatIsWrongIsSaid) {
  EXPECT_EQ(quire_response_parser_create("none", 4, report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_NOT_FOUND);
  EXPECT_NE(report.message().find("hermes"), std::string::npos);
  const OwnedResponseParser parser = make("plain");
  EXPECT_EQ(quire_response_parser_kind(parser.get(), report.out()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(quire_response_parser_set_tools(parser.get(), "{}", 2, report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_FORMAT);
  EXPECT_EQ(quire_response_parser_finish(parser.get(), nullptr), 1);
  EXPECT_EQ(quire_response_parser_feed(parser.get(), "a", 1, report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
}

TEST_F(CapiResponseTest, TheTemplateTellsTheDialect) {
  const std::string source = "{{ messages }}<tool_call>";
  const OwnedChatTemplate chat(quire_chat_template_create(source.data(), source.size(), nullptr));
  std::string name(32, '\0');
  name.resize(
      static_cast<size_t>(quire_response_detect(chat.get(), nullptr, name.data(), name.size(), nullptr)));
  EXPECT_EQ(name, "hermes");
}

TEST_F(CapiResponseTest, AConstraintLetsThroughWhatItsParserReadsAsACall) {
  const World world;
  const std::string rules = R"({"dialect": "hermes", "tool_choice": "required", "tools": [{"type": "function",
      "function": {"name": "go", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}},
      "required": ["a"]}}}]})";
  const OwnedConstraint constraint(
      quire_response_constraint_create(world.model.get(), rules.data(), rules.size(), report.out()));
  ASSERT_TRUE(constraint) << report.message();
  const OwnedMatcher matcher(quire_matcher_create(constraint.get(), nullptr));
  const std::string answer = "<tool_call>\n{\"name\": \"go\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  std::vector<int32_t> tokens(answer.size());
  tokens.resize(static_cast<size_t>(quire_model_encode(world.model.get(), answer.data(), answer.size(), 0, 0,
                                                       tokens.data(), tokens.size(), nullptr)));
  for (const int32_t token : tokens) ASSERT_EQ(quire_matcher_accept(matcher.get(), token, nullptr), 1);
  EXPECT_EQ(quire_matcher_may_end(matcher.get(), nullptr), 1);
}

TEST_F(CapiResponseTest, RulesThatCannotBeKeptToAreRefusedByName) {
  const World world;
  for (const auto& [rules, word] : std::vector<std::pair<std::string, std::string>>{
           {R"({"dialect": "plain", "tools": [{"name": "a"}]})", "plain"},
           {R"({"dialect": "hermes", "tools": [{"name": "a"}], "tool_choice": {"name": "b"}})", "b"},
           {R"({"dialect": "hermes", "tool_choice": "required"})", "tool_choice"},
           {R"({"dialect": "hermes", "response_format": {"type": "poem"}})", "poem"},
           {R"({"dialect": "glm", "tools": [{"name": "a", "parameters": {"properties":
                {"word": {"type": "string", "pattern": "x"}}}}]})",
            "word"}}) {
    EXPECT_EQ(quire_response_constraint_create(world.model.get(), rules.data(), rules.size(), report.out()),
              nullptr);
    EXPECT_NE(report.message().find(word), std::string::npos) << report.message();
  }
}

}  // namespace
}  // namespace quire::testing
