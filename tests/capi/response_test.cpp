// Response parsers and typed events through the C interface.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

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
  // Returns "KIND CALL TEXT NAME ID;" for each event, without quotation marks.
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

TEST_F(CapiResponseTest, ACallProducesTypedEvents) {
  const OwnedResponseParser parser = make("mistral");
  feed(parser.get(), "Well. [TOOL_CALLS][{\"name\": \"go\", \"arguments\": {\"a\"");
  EXPECT_EQ(events(parser.get()), "1 -1 Well. ;3 0 go ;4 0 {\"a ;");
  feed(parser.get(), ": 1}, \"id\": \"x1\"}]");
  EXPECT_EQ(quire_response_parser_finish(parser.get(), nullptr), 1);
  EXPECT_EQ(events(parser.get()), "4 0 \": 1} ;5 0 go x1;");
}

TEST_F(CapiResponseTest, ToolsPromptAndReasoningAreSetBeforeTheFirstText) {
  const OwnedResponseParser parser = make("glm");
  const std::string tools = R"([{"name": "go", "parameters": {"properties": {"a": {"type": "string"}}}}])";
  EXPECT_EQ(quire_response_parser_set_tools(parser.get(), tools.data(), tools.size(), nullptr), 1);
  EXPECT_EQ(quire_response_parser_set_prompt(parser.get(), "<think>", 7, nullptr), 1);
  feed(parser.get(), "hm</think><tool_call>go<arg_key>a</arg_key><arg_value>12</arg_value></tool_call>");
  EXPECT_EQ(events(parser.get()), "2 -1 hm ;3 0 go ;4 0 {\"a\": \"12\"} ;5 0 go ;");
  EXPECT_EQ(quire_response_parser_set_reasoning(parser.get(), QUIRE_REASONING_OFF, report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
}

TEST_F(CapiResponseTest, ErrorsNameTheFault) {
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

TEST_F(CapiResponseTest, TheDialectFollowsFromTheTemplate) {
  const std::string source = "{{ messages }}<tool_call>";
  const OwnedChatTemplate chat(quire_chat_template_create(source.data(), source.size(), nullptr));
  std::string name(32, '\0');
  name.resize(
      static_cast<size_t>(quire_response_detect(chat.get(), nullptr, name.data(), name.size(), nullptr)));
  EXPECT_EQ(name, "hermes");
}

TEST_F(CapiResponseTest, ATemplateMayAccompanyTokensToDetectTheDialect) {
  const World world;
  const std::string source = "{{ messages }}<tool_call>";
  const OwnedChatTemplate chat(quire_chat_template_create(source.data(), source.size(), nullptr));
  const OwnedRequest request = make_request("Hello", 4);
  const std::vector<int32_t> prompt = {5, 6, 7};
  quire_job_request_set_prompt_tokens(request.get(), prompt.data(), prompt.size(), nullptr);
  quire_job_request_set_chat_template(request.get(), chat.get(), nullptr);
  EXPECT_FALSE(OwnedJob(quire_job_submit(world.cache.get(), request.get(), report.out())));
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(report.message().find("chat_template"), std::string::npos) << report.message();
  quire_job_request_set_response_dialect(request.get(), "auto", 4, nullptr);
  const OwnedJob job(quire_job_submit(world.cache.get(), request.get(), report.out()));
  ASSERT_TRUE(job) << report.message();
  EXPECT_EQ(collect(job.get()).tokens.size(), 4U);
}

TEST_F(CapiResponseTest, AConstraintAcceptsCallsOfItsParser) {
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

// Returns true if the constraint of these rules accepts the text, tokenized with the model's vocabulary.
bool lets_through(const World& world, const std::string& rules, const std::string& text) {
  Report report;
  const OwnedConstraint constraint(
      quire_response_constraint_create(world.model.get(), rules.data(), rules.size(), report.out()));
  EXPECT_TRUE(constraint) << report.message();
  if (!constraint) return false;
  const OwnedMatcher matcher(quire_matcher_create(constraint.get(), nullptr));
  std::vector<int32_t> tokens(text.size() + 8);
  tokens.resize(static_cast<size_t>(quire_model_encode(world.model.get(), text.data(), text.size(), 0, 0,
                                                       tokens.data(), tokens.size(), nullptr)));
  for (const int32_t token : tokens) {
    if (quire_matcher_accept(matcher.get(), token, nullptr) != 1) return false;
  }
  return quire_matcher_may_end(matcher.get(), nullptr) == 1;
}

TEST_F(CapiResponseTest, TextIsConstrainedByAPatternAChoiceOrAGrammar) {
  const World world;
  const auto check = [&](const std::string& format, const std::vector<std::string>& good,
                         const std::vector<std::string>& bad) {
    const std::string rules = R"({"dialect": "hermes", "response_format": )" + format + "}";
    for (const std::string& text : good) {
      EXPECT_TRUE(lets_through(world, rules, text)) << format << "\n" << text;
      EXPECT_TRUE(lets_through(world, rules, "<think>so</think>\n\n" + text)) << format << "\n" << text;
    }
    for (const std::string& text : bad)
      EXPECT_FALSE(lets_through(world, rules, text)) << format << "\n" << text;
  };
  check(R"({"type": "regex", "pattern": "[a-z]+/\\d{2}"})", {"a/12", "abc/00"}, {"a/1", "A/12", "a/123"});
  check(R"({"type": "choice", "choices": ["yes", "no", "\"maybe\""]})", {"yes", "\"maybe\""},
        {"maybe", "ye"});
  check(
      R"({"type": "gbnf", "grammar": "root ::= pair (\",\" pair)*\npair ::= [a-z] \"=\" inner\ninner ::= \"(\" inner \")\" | [0-9]+"})",
      {"a=1", "a=1,b=((2))"}, {"a=", "a=(1", "a=1,", "a=(1))"});
  check(R"({"type": "lark", "grammar": "start: \"[\" [item (\",\" item)*] \"]\"\nitem: start | /[0-9]+/"})",
        {"[]", "[1,[2,[]]]"}, {"[", "[1,]", "1"});
}

TEST_F(CapiResponseTest, AGrammarWorksTogetherWithCallsAndKeepsItsNames) {
  const World world;
  const std::string rules = R"({"dialect": "hermes", "tools": [{"name": "go", "parameters": {"type": "object",
      "properties": {}, "additionalProperties": false}}],
      "response_format": {"type": "gbnf", "grammar": "root ::= r0\nr0 ::= \"x\"+"}})";
  EXPECT_TRUE(lets_through(world, rules, "xxx"));
  EXPECT_TRUE(lets_through(world, rules, "<tool_call>\n{\"name\": \"go\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(lets_through(world, rules, "y"));
}

TEST_F(CapiResponseTest, TextAfterATriggerMatchesItsStructure) {
  const World world;
  const std::string tags = R"({"type": "structural_tag", "triggers": ["<fn="], "structures": [
      {"begin": "<fn=go>", "schema": {"type": "integer"}, "end": "</fn>"},
      {"begin": "<fn=say>", "format": {"type": "text"}, "end": "</fn>"}])";
  const auto may_be = [&](const std::string& more, const std::string& text) {
    return lets_through(world, R"({"dialect": "plain", "response_format": )" + tags + more + "}}", text);
  };
  for (const char* good : {"free <text>", "a <fn=go>12</fn> b <fn=say>x < y</fn>", "<fn=go>1</fn>", "<fn"})
    EXPECT_TRUE(may_be("", good)) << good;
  for (const char* bad : {"<fn=", "<fn=other>1</fn>", "<fn=go>x</fn>", "a <fn=go>12"})
    EXPECT_FALSE(may_be("", bad)) << bad;
  EXPECT_FALSE(may_be(R"(, "at_least_one": true)", "free"));
  EXPECT_TRUE(may_be(R"(, "at_least_one": true)", "free <fn=go>1</fn> more"));
  EXPECT_TRUE(may_be(R"(, "stop_after_first": true)", "free <fn=go>1</fn>"));
  EXPECT_FALSE(may_be(R"(, "stop_after_first": true)", "free <fn=go>1</fn> more"));
}

// "KIND CALL TEXT NAME;" for each event of a job, and the raw output.
struct TypedAnswer {
  std::string events;
  std::string raw;
  std::vector<int32_t> tokens;
};

TypedAnswer typed_answer(quire_job* job) {
  TypedAnswer answer;
  for (;;) {
    const OwnedEvent event{next_event(job, QUIRE_WAIT_FOREVER, nullptr)};
    if (!event) return answer;
    if (const int32_t kind = quire_event_response_kind(event.get(), nullptr); kind != QUIRE_RESPONSE_NONE) {
      answer.events += std::to_string(kind) + " " +
                       std::to_string(quire_event_call_index(event.get(), nullptr)) + " " +
                       quire_event_response_text(event.get(), nullptr, nullptr) +
                       quire_event_call_name(event.get(), nullptr, nullptr) + ";";
    }
    answer.raw += quire_event_text(event.get(), nullptr, nullptr);
    std::vector<int32_t> tokens(static_cast<size_t>(quire_event_tokens(event.get(), nullptr, 0, nullptr)));
    quire_event_tokens(event.get(), tokens.data(), tokens.size(), nullptr);
    answer.tokens.insert(answer.tokens.end(), tokens.begin(), tokens.end());
  }
}

// Takes the tokens of the next event, after removing those that it rewinds. Returns false after the last
// event.
bool take_tokens(quire_job* job, std::vector<int32_t>& tokens, int& num_rewinds) {
  const OwnedEvent event{next_event(job, QUIRE_WAIT_FOREVER, nullptr)};
  if (!event) return false;
  if (quire_event_type(event.get(), nullptr) == QUIRE_EVENT_REWIND) {
    tokens.resize(static_cast<size_t>(quire_event_kept_tokens(event.get(), nullptr)));
    ++num_rewinds;
  }
  const size_t known = tokens.size();
  tokens.resize(known + static_cast<size_t>(quire_event_tokens(event.get(), nullptr, 0, nullptr)));
  quire_event_tokens(event.get(), tokens.data() + known, tokens.size() - known, nullptr);
  return true;
}

// Events of a job whose constraint allows one text only.
class TypedEventsTest : public CapiResponseTest {
 protected:
  OwnedRequest request_for(const std::string& answer) {
    const std::string choices = nlohmann::json::array({answer}).dump();
    constraint_ = OwnedConstraint(quire_constraint_create(world_.model.get(), QUIRE_CONSTRAINT_CHOICE,
                                                          choices.data(), choices.size(), report.out()));
    EXPECT_TRUE(constraint_) << report.message();
    OwnedRequest request = make_request("Once", 300);
    EXPECT_EQ(quire_job_request_set_constraint(request.get(), constraint_.get(), nullptr), 1);
    return request;
  }
  TypedAnswer run(quire_job_request* request) {
    const OwnedJob job(quire_job_submit(world_.cache.get(), request, report.out()));
    EXPECT_TRUE(job) << report.message();
    return typed_answer(job.get());
  }
  // Returns the arguments of the calls, without blanks.
  static std::string arguments(const TypedAnswer& answer) {
    std::string joined;
    for (size_t i = 0; i < answer.events.size(); i = answer.events.find(';', i) + 1) {
      const std::string event = answer.events.substr(i, answer.events.find(';', i) - i);
      if (event.rfind("4 0 ", 0) == 0) joined += event.substr(4);
    }
    return nlohmann::json::parse(joined, nullptr, false).dump();
  }
  World world_;
  OwnedConstraint constraint_;
};

TEST_F(TypedEventsTest, ClassifyTheTextOfAJob) {
  const std::string answer =
      "<think>hm</think>Well. <tool_call>{\"name\": \"go\", \"arguments\": {\"a\": 1}}</tool_call>";
  const OwnedRequest request = request_for(answer);
  ASSERT_EQ(quire_job_request_set_response_dialect(request.get(), "hermes", 6, nullptr), 1);
  ASSERT_EQ(quire_job_request_set_max_unread_events(request.get(), 2, nullptr), 1);
  const TypedAnswer read = run(request.get());
  EXPECT_EQ(read.raw, answer);
  EXPECT_GT(read.tokens.size(), 5U);
  std::string kinds;
  for (size_t i = 0; i < read.events.size(); i = read.events.find(';', i) + 1) {
    if (kinds.empty() || kinds.back() != read.events[i]) kinds += read.events[i];
  }
  EXPECT_EQ(kinds, "62613456") << read.events;
  EXPECT_NE(read.events.find("3 0 go;"), std::string::npos) << read.events;
  EXPECT_NE(read.events.find("5 0 go;"), std::string::npos) << read.events;
}

TEST_F(TypedEventsTest, ReasoningBegunByThePromptIsReasoning) {
  const OwnedRequest request = request_for("hm</think>so");
  ASSERT_EQ(quire_job_request_set_prompt_text(request.get(), "Once <think>", 12, nullptr), 1);
  ASSERT_EQ(quire_job_request_set_response_dialect(request.get(), "hermes", 6, nullptr), 1);
  EXPECT_EQ(run(request.get()).events.substr(0, 2), "2 ");
  ASSERT_EQ(quire_job_request_set_reasoning(request.get(), QUIRE_REASONING_OFF, nullptr), 1);
  EXPECT_EQ(run(request.get()).events.substr(0, 2), "1 ");
}

TEST_F(TypedEventsTest, ReasoningEndsWithItsBudget) {
  for (const int32_t budget : {0, 1, 7}) {
    const OwnedRequest request = make_request("Once <think>", 40);
    ASSERT_EQ(quire_job_request_set_ignore_eos(request.get(), 1, nullptr), 1);
    ASSERT_EQ(quire_job_request_set_response_dialect(request.get(), "hermes", 6, nullptr), 1);
    ASSERT_EQ(quire_job_request_set_reasoning_budget(request.get(), budget, nullptr), 1);
    const TypedAnswer read = run(request.get());
    EXPECT_EQ(read.tokens.size(), 40U);
    std::vector<char> thought(1 << 10);
    const int64_t size =
        quire_model_decode(world_.model.get(), read.tokens.data(), static_cast<size_t>(budget), 1,
                           thought.data(), thought.size(), nullptr);
    const size_t end = read.raw.find("</think>");
    ASSERT_NE(end, std::string::npos) << read.raw;
    EXPECT_LE(end, static_cast<size_t>(size) + 1) << read.raw;
    EXPECT_GE(end + 1, static_cast<size_t>(size)) << read.raw;
    EXPECT_NE(read.events.find("1 "), std::string::npos) << read.events;
  }
}

// Greedy: rewound tokens are generated again, and a fork generates the same rest, before, in and after the
// end that the budget forces.
TEST_F(TypedEventsTest, ABudgetIsKeptThroughRewindsAndForks) {
  int num_rewinds = 0;
  int num_forks = 0;
  for (const int32_t budget : {0, 3, 10}) {
    const OwnedRequest request = make_request("Once <think>", 160);
    quire_job_request_set_response_dialect(request.get(), "hermes", 6, nullptr);
    quire_job_request_set_reasoning_budget(request.get(), budget, nullptr);
    // The job does not run ahead of this test.
    quire_job_request_set_max_unread_events(request.get(), 2, nullptr);
    quire_job_request_set_max_drafts(request.get(), 0, nullptr);
    const std::vector<int32_t> expected = run(request.get()).tokens;
    ASSERT_EQ(expected.size(), 160U);
    for (int32_t known = 1; known < 24; ++known) {
      const OwnedJob job(quire_job_submit(world_.cache.get(), request.get(), report.out()));
      std::vector<int32_t> tokens;
      while (tokens.size() < static_cast<size_t>(known)) take_tokens(job.get(), tokens, num_rewinds);
      quire_job_pause(job.get(), nullptr);
      const OwnedRequest settings(quire_job_request_create(nullptr));
      const OwnedJob fork(quire_job_fork(job.get(), settings.get(), nullptr));
      quire_job_rewind(job.get(), known * 7 % 11, nullptr);
      quire_job_resume(job.get(), nullptr);
      while (take_tokens(job.get(), tokens, num_rewinds)) {
      }
      ASSERT_EQ(tokens, expected) << "budget " << budget << ", rewound at " << known;
      const std::vector<int32_t> rest = typed_answer(fork.get()).tokens;
      ASSERT_TRUE(std::equal(rest.rbegin(), rest.rend(), expected.rbegin())) << "forked at " << known;
      num_forks += rest.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(num_rewinds, 20);
  EXPECT_GT(num_forks, 20);
}

TEST_F(TypedEventsTest, AfterItsBudgetTheAnswerMatchesTheConstraint) {
  const std::string rules =
      R"({"dialect": "hermes", "reasoning": "open", "response_format": {"type": "regex", "pattern": "[a-z]{3}"}})";
  const OwnedConstraint constraint(
      quire_response_constraint_create(world_.model.get(), rules.data(), rules.size(), report.out()));
  ASSERT_TRUE(constraint) << report.message();
  const OwnedRequest request = make_request("Once <think>", 80);
  ASSERT_EQ(quire_job_request_set_constraint(request.get(), constraint.get(), nullptr), 1);
  ASSERT_EQ(quire_job_request_set_response_dialect(request.get(), "hermes", 6, nullptr), 1);
  ASSERT_EQ(quire_job_request_set_reasoning_budget(request.get(), 4, nullptr), 1);
  const TypedAnswer read = run(request.get());
  EXPECT_LT(read.tokens.size(), 40U) << read.raw;
  std::string text = read.raw.substr(read.raw.find("</think>") + 8);
  text.erase(0, text.find_first_not_of(" \n"));
  EXPECT_EQ(text.size(), 3U) << read.raw;
  EXPECT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz"), std::string::npos) << read.raw;
}

TEST_F(TypedEventsTest, RulesWithoutReasoningFollowTheRequest) {
  const std::string rules =
      R"({"dialect": "hermes", "response_format": {"type": "regex", "pattern": "[A-Z]{3}"}})";
  const OwnedConstraint constraint(
      quire_response_constraint_create(world_.model.get(), rules.data(), rules.size(), report.out()));
  ASSERT_TRUE(constraint) << report.message();
  const auto said_after = [&](const std::string& prompt, int32_t reasoning) {
    const OwnedRequest request = make_request(prompt, 80);
    quire_job_request_set_constraint(request.get(), constraint.get(), nullptr);
    quire_job_request_set_response_dialect(request.get(), "hermes", 6, nullptr);
    quire_job_request_set_reasoning(request.get(), reasoning, nullptr);
    quire_job_request_set_reasoning_budget(request.get(), 4, nullptr);
    return run(request.get());
  };
  const TypedAnswer thought = said_after("Once <think>", QUIRE_REASONING_CLOSED);
  EXPECT_EQ(thought.events.front(), '2') << thought.raw;
  EXPECT_NE(thought.raw.find("</think>"), std::string::npos) << thought.raw;
  EXPECT_EQ(thought.raw.find("<think>"), std::string::npos) << thought.raw;
  EXPECT_EQ(said_after("Once <think>", QUIRE_REASONING_OFF).raw.size(), 3U);
  const std::string closed = said_after("Once", QUIRE_REASONING_CLOSED).raw;
  EXPECT_TRUE(closed.size() == 3 || closed.rfind("<think>", 0) == 0) << closed;
}

TEST_F(TypedEventsTest, ToolsGiveTheTypesOfArguments) {
  const std::string answer = "<tool_call>go\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>";
  const std::string tools = R"([{"type": "function", "function": {"name": "go", "parameters":
      {"type": "object", "properties": {"a": {"type": "string"}}}}}])";
  const OwnedRequest request = request_for(answer);
  ASSERT_EQ(quire_job_request_set_response_dialect(request.get(), "glm", 3, nullptr), 1);
  EXPECT_EQ(arguments(run(request.get())), R"({"a":1})");
  ASSERT_EQ(quire_job_request_set_tools(request.get(), tools.data(), tools.size(), nullptr), 1);
  EXPECT_EQ(arguments(run(request.get())), R"({"a":"1"})");
  const int32_t token = 5;
  ASSERT_EQ(quire_job_request_set_prompt_tokens(request.get(), &token, 1, nullptr), 1);
  EXPECT_EQ(arguments(run(request.get())), R"({"a":"1"})");
}

TEST_F(TypedEventsTest, WithoutADialectHaveNoKind) {
  const OwnedRequest request = request_for("<think>hm");
  EXPECT_EQ(run(request.get()).events, "");
  ASSERT_EQ(quire_job_request_set_response_dialect(request.get(), "auto", 4, nullptr), 1);
  EXPECT_NE(run(request.get()).events, "") << "a vocabulary without marks is plain, and plain text is text";
}

TEST_F(TypedEventsTest, AnUnknownDialectIsRefusedAndReasoningNeedsOne) {
  const OwnedRequest request = make_request("Once", 3);
  EXPECT_EQ(quire_job_request_set_response_dialect(request.get(), "none", 4, report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_NOT_FOUND);
  EXPECT_EQ(quire_job_request_set_reasoning(request.get(), 3, report.out()), 0);
  ASSERT_EQ(quire_job_request_set_reasoning(request.get(), QUIRE_REASONING_OPEN, nullptr), 1);
  EXPECT_EQ(quire_job_submit(world_.cache.get(), request.get(), report.out()), nullptr);
  EXPECT_NE(report.message().find("response_dialect"), std::string::npos) << report.message();
  ASSERT_EQ(quire_job_request_set_reasoning(request.get(), QUIRE_REASONING_CLOSED, nullptr), 1);
  EXPECT_EQ(quire_job_request_set_reasoning_budget(request.get(), -2, report.out()), 0);
  ASSERT_EQ(quire_job_request_set_reasoning_budget(request.get(), 3, nullptr), 1);
  EXPECT_EQ(quire_job_submit(world_.cache.get(), request.get(), report.out()), nullptr);
  EXPECT_EQ(report.message().find("reasoning_budget"), 0U) << report.message();
}

TEST_F(CapiResponseTest, ImpossibleRulesAreRefusedByName) {
  const World world;
  for (const auto& [rules, word] : std::vector<std::pair<std::string, std::string>>{
           {R"({"dialect": "plain", "tools": [{"name": "a"}]})", "plain"},
           {R"({"dialect": "hermes", "tools": [{"name": "a"}], "tool_choice": {"name": "b"}})", "b"},
           {R"({"dialect": "hermes", "tool_choice": "required"})", "tool_choice"},
           {R"({"dialect": "hermes", "response_format": {"type": "poem"}})", "poem"},
           {R"({"dialect": "hermes", "response_format": {"type": "gbnf", "grammar": "root ::= a"}})",
            "\"a\""},
           {R"({"dialect": "hermes", "response_format": {"type": "lark", "grammar":
                "start: %grammar {\"lark\": \"start: /a/\"}"}})",
            "%grammar"},
           {R"({"dialect": "hermes", "response_format": {"type": "structural_tag", "triggers": ["<b"],
                "structures": [{"begin": "<a>", "schema": {}, "end": "</a>"}]}})",
            "<a>"},
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
