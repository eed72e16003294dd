// Readers of answers, the dialect they follow, and the limit of reasoning.
#include "core/engine/requests/answer_reader.h"

#include "core/engine/requests/conversation_input.h"
#include "core/response/dialect_table.h"
#include "tests/core/engine/requests/request_fixture.h"
#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

using AnswerReader = RequestTest;

RequestSpec read_as(const std::string& dialect) {
  RequestSpec spec = greedy("Once upon a time", 8);
  spec.response.dialect = dialect;
  return spec;
}

TEST_F(AnswerReader, HasTheNamedDialect) {
  const JobRequest job = build(read_as("hermes"));
  ASSERT_NE(job.response, nullptr);
  EXPECT_EQ(job.response->dialect().name, "hermes");
  EXPECT_EQ(job.response->reasoning(), ReasoningStart::closed);
  expect_error(ErrorCode::not_found, {"no_such"}, [&] { build(read_as("no_such")); });
}

TEST_F(AnswerReader, DetectsTheDialectFromTheTemplateOfTheRequest) {
  RequestSpec spec = read_as(std::string(kAutoDialect));
  const ChatTemplates chat =
      with_own_settings(chat::TemplateSet::of_source("<tool_call>{{ messages }}</tool_call>"));
  spec.conversation.chat = chat;
  EXPECT_EQ(build(spec).response->dialect().name, detect_dialect(&chat, nullptr).name);
  EXPECT_EQ(detect_dialect(&chat, nullptr).name, "hermes");
}

TEST_F(AnswerReader, DetectsTheDialectOfTheModel) {
  EXPECT_EQ(build(read_as(std::string(kAutoDialect))).response->dialect().name, dialect_of(model).name);
}

TEST_F(AnswerReader, BeginsWhereThePromptEnds) {
  RequestSpec spec = read_as("hermes");
  spec.prompt = {text_part("Why? <think>")};
  EXPECT_TRUE(build(spec).response->in_reasoning());
  spec.prompt = {parse_messages(R"({"role": "user", "content": "<think>"})")};
  EXPECT_FALSE(build(spec).response->in_reasoning()) << "content of a message opens nothing";
}

TEST_F(AnswerReader, ABudgetNeedsReasoning) {
  RequestSpec spec = read_as("hermes");
  spec.response.reasoning_budget = 4;
  EXPECT_NE(build(spec).constraint, nullptr);
  spec.response.reasoning_budget = -1;
  EXPECT_EQ(build(spec).constraint, nullptr);
}

TEST_F(AnswerReader, SettingsNeedADialect) {
  RequestSpec spec = greedy("Once", 1);
  spec.response.reasoning_budget = 4;
  expect_error(ErrorCode::invalid_argument, {"reasoning_budget: "}, [&] { build(spec); });
  spec.response.reasoning = ReasoningStart::open;
  expect_error(ErrorCode::invalid_argument, {"reasoning: "}, [&] { build(spec); });
}

TEST_F(AnswerReader, CompilesTheSameRulesOnce) {
  const ResponseRules rules = parse_response_rules(
      R"({"dialect": "hermes", "tools": [{"type": "function", "function": {"name": "weather"}}]})",
      dialect_of(model));
  EXPECT_EQ(compile_rules(model, rules, kDrawnForm), compile_rules(model, rules, kDrawnForm));
}

}  // namespace
}  // namespace quire::testing
