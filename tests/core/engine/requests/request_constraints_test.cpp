// Constrained answers and healed prompts.
#include "core/engine/requests/request_constraints.h"

#include <cmath>
#include <regex>

#include <nlohmann/json.hpp>

#include "core/constrained/constraint.h"
#include "core/engine/requests/answer_reader.h"
#include "core/engine/requests/conversation_input.h"
#include "tests/core/engine/requests/request_fixture.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"
#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

class RequestConstraints : public EngineRequestTest {
 protected:
  RequestSpec constrained(ConstraintKind kind, const std::string& source) const {
    RequestSpec spec = greedy("Once upon a time", 80);
    spec.job.ignore_end_tokens = false;
    spec.constraint = {model.constraints->get(*model.model, kind, source, kDrawnForm), model.model->path(),
                       nullptr};
    return spec;
  }
};

TEST_F(RequestConstraints, ASchemaHolds) {
  const std::string text = run(constrained(ConstraintKind::json_schema, R"({"type": "object",
    "required": ["age"], "additionalProperties": false,
    "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 150}}})"))
                               .text;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  ASSERT_TRUE(json.is_object()) << text;
  ASSERT_TRUE(json["age"].is_number()) << text;
  const double age = json["age"].get<double>();
  EXPECT_TRUE(age == std::floor(age) && age >= 0 && age <= 150) << text;
}

TEST_F(RequestConstraints, APatternHolds) {
  const std::string text = run(constrained(ConstraintKind::regex, "[0-9]{3}-[a-f]{2}")).text;
  EXPECT_TRUE(std::regex_match(text, std::regex("[0-9]{3}-[a-f]{2}"))) << text;
}

TEST_F(RequestConstraints, AGrammarHolds) {
  const std::string text = run(constrained(ConstraintKind::gbnf, R"(root ::= ("ab" | "cd") "." "x")")).text;
  EXPECT_TRUE(text == "ab.x" || text == "cd.x") << text;
}

TEST_F(RequestConstraints, AChoiceHolds) {
  const std::string text = run(constrained(ConstraintKind::choice, R"(["yes", "no"])")).text;
  EXPECT_TRUE(text == "yes" || text == "no") << text;
}

TEST_F(RequestConstraints, OneOfAnotherVocabularyIsRefused) {
  RequestSpec spec = greedy("Once", 1);
  const auto other = TokenVocabulary::of(load_json(tiny_tokenizer()), {});
  spec.constraint = {Constraint::compile(ConstraintKind::regex, "a", other), "other/model", nullptr};
  expect_error(ErrorCode::invalid_argument, {"constraint: ", "other/model", model.model->path()},
               [&] { build(spec); });
}

TEST_F(RequestConstraints, RulesFollowTheReasoningOfThePrompt) {
  auto rules = std::make_shared<ResponseRules>(parse_response_rules(
      R"({"dialect": "hermes", "response_format": {"type": "json_object"}})", dialect_of(model)));
  ASSERT_FALSE(rules->reasoning.has_value());
  RequestSpec spec = greedy("Why?", 8);
  spec.response.dialect = "hermes";
  spec.constraint = {compile_rules(model, *rules, kDrawnForm), model.model->path(), rules};
  const std::string closed = run(spec).text;
  EXPECT_TRUE(closed.front() == '{' || closed.rfind("<think>", 0) == 0) << closed;
  spec.prompt = {text_part("Why? <think>")};
  const Answer open = run(spec);
  EXPECT_EQ(open.tokens.size(), 8U);
  EXPECT_TRUE(open.text.front() != '{' && open.text.rfind("<think>", 0) != 0) << open.text;
}

TEST_F(RequestConstraints, ATemplateThatNeverReasonsHasConstrainedAnswersWithoutReasoning) {
  auto rules = std::make_shared<ResponseRules>(parse_response_rules(
      R"({"dialect": "hermes", "response_format": {"type": "regex", "pattern": "[a-z]{3}"}})",
      dialect_of(model)));
  RequestSpec spec = greedy("Why?", 8);
  spec.response.dialect = "hermes";
  spec.constraint = {compile_rules(model, *rules, kDrawnForm), model.model->path(), rules};
  spec.job.ignore_end_tokens = false;
  const auto reasoning_with = [&](const std::string& source) {
    spec.conversation.chat = with_own_settings(chat::TemplateSet::of_source(source));
    return build(spec).response->reasoning();
  };
  const std::string plain = "{% for m in messages %}{{ m.content }}{% endfor %}";
  EXPECT_EQ(build(spec).response->reasoning(), ReasoningStart::closed) << "a prompt without a conversation";
  // The words of a message do not count.
  spec.prompt = {parse_messages(R"({"role": "user", "content": "<think>"})")};
  EXPECT_EQ(reasoning_with(plain), ReasoningStart::off);
  EXPECT_TRUE(std::regex_match(run(spec).text, std::regex("[a-z]{3}")));
  EXPECT_EQ(reasoning_with(plain + "{% if enable_THINKING %}{% endif %}"), ReasoningStart::closed);
  EXPECT_EQ(reasoning_with(plain + "{% if messages[0].reasoning_content %}{% endif %}"),
            ReasoningStart::closed);
  EXPECT_EQ(reasoning_with(plain + "<think>"), ReasoningStart::open);
  // Neither do they if the request decides.
  spec.response.reasoning = ReasoningStart::closed;
  EXPECT_EQ(reasoning_with(plain), ReasoningStart::closed);
  spec.response.reasoning.reset();
  spec.prompt.push_back(text_part("<think>"));
  EXPECT_EQ(reasoning_with(plain), ReasoningStart::open);
  spec.prompt.pop_back();
  spec.constraint = {};
  EXPECT_EQ(reasoning_with(plain), ReasoningStart::closed) << "an answer without a constraint";
}

TEST_F(RequestConstraints, AHealedPromptEndsOneTokenEarlier) {
  RequestSpec spec = greedy("Once upon a ti", 1);
  const TokenIds whole = build(spec).prompt;
  spec.heal_prompt = true;
  const JobRequest healed = build(spec);
  EXPECT_EQ(healed.healed_token, whole.back());
  EXPECT_EQ(healed.prompt, TokenIds(whole.begin(), whole.end() - 1));
  EXPECT_EQ(run(spec).text, "ny") << "the prompt goes on with a tiny one";
}

TEST_F(RequestConstraints, APromptOfOneTokenOrASpecialTokenIsNotHealed) {
  RequestSpec spec = greedy("", 1);
  spec.heal_prompt = true;
  spec.prompt = {token_part({500})};
  EXPECT_EQ(build(spec).healed_token, -1);
  spec.prompt = {text_part("Once"), {PromptPart::Kind::special, "<|im_end|>", {}}};
  EXPECT_EQ(build(spec).healed_token, -1);
}

TEST_F(RequestConstraints, HealingRefusesAnotherConstraint) {
  RequestSpec spec = constrained(ConstraintKind::choice, R"(["yes", "no"])");
  spec.heal_prompt = true;
  expect_error(ErrorCode::invalid_argument, {"heal_prompt: "}, [&] { build(spec); });
}

}  // namespace
}  // namespace quire::testing
