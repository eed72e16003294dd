// Every kind of request from its parts to its result.
#include "core/engine/requests/request_builder.h"

#include <cmath>

#include "core/engine/events/event_queue.h"
#include "core/engine/job.h"
#include "core/engine/requests/conversation_input.h"
#include "tests/core/engine/requests/request_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/job_tokens.h"

namespace quire::testing {
namespace {

using RequestBuilder = EngineRequestTest;

TEST_F(RequestBuilder, GenerationFromTextAndFromTokensIsTheSame) {
  const RequestSpec text = greedy("Once upon a time", 12);
  RequestSpec tokens = text;
  tokens.prompt = {token_part(build(text).prompt)};
  const Answer answer = run(text);
  EXPECT_EQ(answer.result.reason, FinishReason::max_new_tokens);
  EXPECT_EQ(answer.tokens.size(), 12U);
  EXPECT_EQ(answer.text, tokenizer().decode(answer.tokens, true));
  EXPECT_EQ(run(tokens).tokens, answer.tokens);
}

TEST_F(RequestBuilder, AConversationIsAnsweredThroughItsReader) {
  RequestSpec spec = greedy("", 12);
  spec.prompt = {parse_messages(R"([{"role": "user", "content": "Tell me a story."}])")};
  spec.conversation.tools = parse_tools(R"([{"type": "function", "function": {"name": "weather"}}])");
  spec.response.dialect = "hermes";
  EXPECT_EQ(prompt_text(spec), "<|im_start|>user\nTell me a story.<|im_end|>\n<|im_start|>assistant\n");
  const Answer answer = run(spec);
  EXPECT_EQ(answer.result.new_tokens, 12);
  EXPECT_FALSE(answer.text.empty());
}

TEST_F(RequestBuilder, GuidanceLeadsAwayFromTheNegativePrompt) {
  RequestSpec spec = greedy("Once upon a time", 12);
  const TokenIds plain = run(spec).tokens;
  spec.negative_prompt = {text_part("Once upon a time")};
  spec.job.guidance_scale = 3.0F;
  EXPECT_EQ(build(spec).negative_prompt, build(spec).prompt);
  EXPECT_EQ(run(spec).tokens, plain) << "a guide with the same prompt changes nothing";
  spec.negative_prompt = {text_part("The girl had a big red ball")};
  EXPECT_NE(run(spec).tokens, plain);
}

TEST_F(RequestBuilder, AScoreHasAValueForEachTokenButTheFirst) {
  RequestSpec spec = greedy("Once upon a time there was a girl.", 1);
  spec.job.kind = JobKind::score;
  const auto job = engine->submit(build(spec));
  ASSERT_TRUE(job->wait(kPatience));
  EXPECT_EQ(job->result().reason, FinishReason::completed);
  EXPECT_EQ(job->scores().size() + 1, build(spec).prompt.size());
  for (const float score : job->scores()) EXPECT_LT(score, 0.0F);
}

TEST_F(RequestBuilder, AnEmbeddingHasTheLengthOne) {
  RequestSpec spec = greedy("Once upon a time", 1);
  spec.job.kind = JobKind::embed;
  const auto job = engine->submit(build(spec));
  ASSERT_TRUE(job->wait(kPatience));
  const std::vector<float> embedding = job->embedding();
  ASSERT_EQ(embedding.size(), static_cast<size_t>(model.model->config().hidden_size));
  double square = 0.0;
  for (const float value : embedding) square += double{value} * value;
  EXPECT_NEAR(std::sqrt(square), 1.0, 1e-5);
}

TEST_F(RequestBuilder, AWarmedPromptIsFoundInTheCache) {
  RequestSpec spec = greedy("Once upon a time there was a little girl who had a big red ball and a cat", 4);
  const JobRequest request = build(spec);
  ASSERT_GT(request.prompt.size(), 16U);
  EXPECT_EQ(engine->query_prefix(request.prompt, "", kPatience), 0);
  RequestSpec warm = spec;
  warm.job.kind = JobKind::warm;
  EXPECT_EQ(run(warm).result.reason, FinishReason::completed);
  EXPECT_GE(engine->query_prefix(request.prompt, "", kPatience), 16);
  EXPECT_GE(run(spec).result.cached_tokens, 16);
}

TEST_F(RequestBuilder, AQueueIsOfTheSameRuntime) {
  RequestSpec spec = greedy("Once", 1);
  const auto queue = std::make_shared<EventQueue>(world.runtime->clock());
  spec.queue = {queue, world.runtime};
  EXPECT_EQ(build(spec).queue, queue);
  spec.queue.runtime = Runtime::create({});
  expect_error(ErrorCode::invalid_argument, {"queue: "}, [&] { build(spec); });
}

TEST_F(RequestBuilder, ReadsThePromptBeforeItChecksTheQueue) {
  RequestSpec spec = greedy("Once", 1);
  spec.queue = {std::make_shared<EventQueue>(world.runtime->clock()), Runtime::create({})};
  spec.prompt.clear();
  expect_error(ErrorCode::invalid_argument, {"prompt: not set"}, [&] { build(spec); });
}

TEST_F(RequestBuilder, TheEngineChecksTheRest) {
  RequestSpec spec = greedy("Once", 1);
  spec.job.num_top_log_probs = 1000;
  const JobRequest built = build(spec);
  expect_error(ErrorCode::invalid_argument, {"log_probs"}, [&] { engine->submit(built); });
}

}  // namespace
}  // namespace quire::testing
