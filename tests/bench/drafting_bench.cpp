// Measures speculative decoding on a real model: the same jobs without drafts and with them.
// Usage: drafting_bench MODEL TEXT_FILE NEW_TOKENS [MAX_DRAFTS] [JOBS] [TEMPERATURE] [DRAFTER]
//
// DRAFTER is ngram (the default), mtp, or the path of a draft network.
//
// The text is the prompt. Prints tokens per second, tokens per step, and drafts that were accepted, in turns,
// so that a busy machine disturbs both alike. Exits with 1 if any output differs.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/engine/loop/engine_thread.h"
#include "core/engine/model/model_cache.h"
#include "kernels/cpu/cpu_backend.h"

namespace {

using namespace quire;

struct Measured {
  double seconds = 0.0;
  int64_t num_steps = 0;
  int64_t num_tokens = 0;
  int64_t num_drafts = 0;
  int64_t num_accepted = 0;
  std::vector<TokenIds> answers;
};

TokenIds answer_of(Job& job) {
  TokenIds tokens;
  while (const auto event = job.poll(Duration{0}))
    tokens.insert(tokens.end(), event->token_ids.begin(), event->token_ids.end());
  return tokens;
}

Measured run(const std::shared_ptr<const Model>& model, const JobRequest& request, int32_t num_jobs,
             const DraftingOptions& drafting) {
  ModelCacheOptions options;
  options.max_batch_size = num_jobs;
  options.engine.start_thread = false;
  options.engine.drafting = drafting;
  const auto cache = create_model_cache(Runtime::create({}), model, options);
  const auto jobs = cache->submit_many(request, num_jobs);
  const auto has_begun = [](const auto& job) { return job->result().new_tokens > 0; };
  while (!std::all_of(jobs.begin(), jobs.end(), has_begun)) cache->thread().run_once();
  const CacheStats before = cache->stats();
  const auto start = std::chrono::steady_clock::now();
  while (cache->thread().run_once() == StepOutcome::advanced) {
  }
  Measured out;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const CacheStats after = cache->stats();
  out.num_steps = static_cast<int64_t>(after.steps - before.steps);
  out.num_tokens = static_cast<int64_t>(after.new_tokens - before.new_tokens);
  out.num_drafts = static_cast<int64_t>(after.draft_tokens);
  out.num_accepted = static_cast<int64_t>(after.draft_tokens_accepted);
  for (const auto& job : jobs) out.answers.push_back(answer_of(*job));
  return out;
}

void print(const char* name, const Measured& of, int32_t num_jobs) {
  std::printf("%-7s %9.1f tokens/s, %5.2f tokens a step and job, %lld steps, %lld of %lld drafts accepted\n",
              name, static_cast<double>(of.num_tokens) / of.seconds,
              static_cast<double>(of.num_tokens) / static_cast<double>(of.num_steps * num_jobs),
              static_cast<long long>(of.num_steps), static_cast<long long>(of.num_accepted),
              static_cast<long long>(of.num_drafts));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr,
                 "usage: drafting_bench MODEL TEXT_FILE NEW_TOKENS [MAX_DRAFTS] [JOBS] [TEMPERATURE] "
                 "[DRAFTER]\n");
    return 2;
  }
  const int32_t max_drafts = argc > 4 ? std::atoi(argv[4]) : 4;
  const int32_t num_jobs = argc > 5 ? std::atoi(argv[5]) : 1;
  ModelOptions load;
  load.source = open_model_source(posix_file_system(), argv[1]);
  load.devices = {Device::open(kernels::cpu_backend(), 0, {})};
  const std::string drafter = argc > 7 ? argv[7] : "ngram";
  const bool has_network = drafter != "ngram";
  if (has_network)
    load.drafter =
        std::make_shared<const DraftSource>(open_draft_source(posix_file_system(), drafter, load.source));
  const auto model = Model::load(load);
  std::stringstream text;
  text << std::ifstream(argv[2]).rdbuf();
  JobRequest request;
  request.prompt = model->tokenizer().encode(text.str());
  request.max_new_tokens = std::atoi(argv[3]);
  request.ignore_end_tokens = true;
  request.sampling.temperature = argc > 6 ? std::strtof(argv[6], nullptr) : 0.0F;
  bool is_same = true;
  for (int32_t round = 0; round < 3; ++round) {
    const Measured plain = run(model, request, num_jobs, {DrafterKind::none, 1});
    const Measured drafted =
        run(model, request, num_jobs, {has_network ? DrafterKind::network : DrafterKind::ngram, max_drafts});
    print("none", plain, num_jobs);
    print(has_network ? "network" : "ngram", drafted, num_jobs);
    std::printf("        %.2f x\n", plain.seconds / drafted.seconds);
    is_same = is_same && plain.answers == drafted.answers;
    if (round == 0 && num_jobs == 1)
      std::printf("%s\n", model->tokenizer().decode(drafted.answers.front(), true).c_str());
  }
  if (!is_same) std::printf("the outputs differ\n");
  return is_same ? 0 : 1;
}
