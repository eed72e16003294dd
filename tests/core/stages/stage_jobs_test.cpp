// Jobs on a cache of which stages lie in another process: continuous batching, forks, preemption, prefixes
// and states give the same bits as in one process.
#include <gtest/gtest.h>

#include "core/engine/model/model_cache.h"
#include "tests/core/stages/stage_fixture.h"
#include "tests/support/case_stride.h"
#include "tests/support/golden_families.h"
#include "tests/support/random_schedule.h"

namespace quire::testing {
namespace {

constexpr int32_t kMaxSeqLen = 120;

std::vector<JobRequest> requests(int32_t vocab_size) {
  std::vector<JobRequest> all;
  for (int32_t i = 0; i < 6; ++i) {
    JobRequest request;
    for (int32_t t = 0; t < 8 + 9 * i; ++t)  // the prompts share beginnings
      request.prompt.push_back(static_cast<TokenId>((7 * t + (t > 20 ? i : 0)) % vocab_size));
    request.max_new_tokens = 4 + 3 * i;
    request.ignore_end_tokens = true;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    request.want_log_probs = true;
    if (i == 3) {
      request.kind = JobKind::score;
      request.want_raw_logits = true;
    }
    all.push_back(std::move(request));
  }
  return all;
}

ModelCacheOptions wide() {
  ModelCacheOptions options;
  options.max_tokens = 1024;
  options.max_seq_len = kMaxSeqLen;
  options.max_batch_size = 8;
  options.engine.start_thread = false;
  options.engine.drafting.drafter = DrafterKind::none;
  return options;
}

ModelCacheOptions any_shape(bool stores_prefixes, std::mt19937_64& random) {
  const auto below = [&](uint32_t limit) { return static_cast<int32_t>(random() % limit); };
  ModelCacheOptions options = wide();
  options.page_tokens = 1 << below(6);
  options.max_tokens = kMaxSeqLen + options.page_tokens + below(300);
  options.max_batch_size = 1 + below(6);
  options.max_chunk_tokens = 1 + below(below(2) == 0 ? 12 : 100);
  if (below(2) == 0) options.min_tokens = kMaxSeqLen;  // grows and shrinks
  if (below(2) == 0 && stores_prefixes) options.engine.prefixes.host_bytes = uint64_t{8} << 20;
  options.engine.drafting = {below(2) == 0 ? DrafterKind::none : DrafterKind::ngram, 1 + below(4)};
  options.engine.check_invariants = true;
  return options;
}

class StageJobs : public ::testing::TestWithParam<std::string> {};

TEST_P(StageJobs, GiveTheSameBits) {
  std::unique_ptr<FamilyDirectory> family;
  if (GetParam() != "embedded") family = std::make_unique<FamilyDirectory>(GetParam());
  const std::string path = family == nullptr ? QUIRE_EMBEDDED_MODEL : family->path();
  const StageProcess process, of_shards(StageDeviceChoice{"cpu:0", {}, 2});
  const auto cpu = open_cpu();
  const auto stage = join_stage(process.name()), sharded = join_stage(of_shards.name());
  const auto alone = load_on(path, {cpu});
  const int32_t num_layers = alone->config().num_layers;
  const bool stores_prefixes = GetParam() != "gemma3";  // models with windows and without states do not
  std::vector<KnownJob> known;
  for (const JobRequest& request : requests(alone->shape().vocab_size))
    known.push_back({request, run_alone(*create_model_cache(Runtime::create({}), alone, wide()), request)});
  const std::vector<std::shared_ptr<const Model>> models = {
      load_on(path, {cpu, stage}, {num_layers / 2, num_layers - num_layers / 2}),
      load_on(path, {stage, cpu}, {num_layers / 2, num_layers - num_layers / 2}),
      load_on(path, {cpu, stage}, {0, num_layers}),
      load_on(path, {cpu, sharded}, {num_layers / 2, num_layers - num_layers / 2}, 2)};
  for (uint64_t seed = 1; seed <= (kIsSanitized ? 2 : 6); ++seed) {
    std::mt19937_64 random(seed);
    const auto cache = create_model_cache(Runtime::create({}), models[seed % models.size()],
                                          any_shape(stores_prefixes, random));
    for (int32_t round = 0; round < 2; ++round)
      ASSERT_EQ(run_random_schedule(*cache, known, random), "") << "seed " << seed << ", round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, StageJobs,
                         ::testing::ValuesIn(thin_if_sanitized(
                             std::vector<std::string>{"embedded", "gemma3", "qwen3_next", "mixtral", "lfm2"},
                             2)),
                         [](const auto& family) { return family.param; });

// A draft network in this process proposes tokens for a model of two.
TEST(StageDrafts, ChangeNoToken) {
  const StageProcess process;
  const auto cpu = open_cpu();
  ModelPlanOptions options = options_on(QUIRE_EMBEDDED_MODEL, {cpu, join_stage(process.name())}, {2, 6});
  options.drafter = QUIRE_EMBEDDED_MODEL;
  open_drafter(posix_file_system(), options);
  const auto split = load_planned(options);
  const auto alone = load_on(QUIRE_EMBEDDED_MODEL, {cpu});
  ModelCacheOptions with_network = wide();
  with_network.engine.drafting = {DrafterKind::network, 3};
  const auto cache = create_model_cache(Runtime::create({}), split, with_network);
  for (const JobRequest& request : requests(alone->shape().vocab_size)) {
    const auto expected = run_alone(*create_model_cache(Runtime::create({}), alone, wide()), request);
    EXPECT_EQ(difference(run_alone(*cache, request), expected), "");
  }
}

}  // namespace
}  // namespace quire::testing
