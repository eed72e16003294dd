#include "tests/core/engine/requests/request_fixture.h"

#include <filesystem>
#include <utility>

#include "core/engine/job.h"
#include "core/engine/model/precision.h"
#include "tests/support/job_tokens.h"

namespace quire::testing {

std::string embedded_model_path() {
  return std::filesystem::path(std::string(QUIRE_TEST_DATA) + "/../../packaging/model/story-15m-exl2-4.0bpw")
      .lexically_normal();
}

LoadedWorld::LoadedWorld() : devices(find_backends(), "cpu", {.num_threads = 1}) {
  RuntimeOptions options;
  options.backends = devices.backends();
  runtime = Runtime::create(std::move(options));
  ModelLoadOptions load;
  load.path = embedded_model_path();
  model = load_model(runtime, devices, load, kPatience);
}

LoadedWorld& loaded_world() {
  static LoadedWorld world;
  return world;
}

std::shared_ptr<Engine> make_engine(const LoadedWorld& world) {
  ModelCacheOptions options;
  options.max_tokens = 4096;
  options.page_tokens = 16;
  options.max_batch_size = 8;
  options.max_chunk_tokens = 64;
  return create_cache_that_fits(world.runtime, world.model.model, options, world.model.resident).cache;
}

Answer EngineRequestTest::run(const RequestSpec& spec) const {
  const std::shared_ptr<Job> job = engine->submit(build(spec));
  Answer answer;
  while (const auto event = job->poll(kPatience)) {
    answer.tokens.insert(answer.tokens.end(), event->token_ids.begin(), event->token_ids.end());
    answer.text += event->text;
    if (event->terminal()) break;
  }
  answer.result = job->result();
  return answer;
}

PromptPart text_part(std::string text) {
  return {PromptPart::Kind::text, std::move(text), {}};
}

PromptPart token_part(TokenIds tokens) {
  return {PromptPart::Kind::tokens, {}, std::move(tokens)};
}

RequestSpec greedy(const std::string& text, int32_t max_new_tokens) {
  RequestSpec spec;
  spec.prompt = {text_part(text)};
  spec.job.sampling.temperature = 0.0F;
  spec.job.max_new_tokens = max_new_tokens;
  spec.job.ignore_end_tokens = true;
  return spec;
}

}  // namespace quire::testing
