// Sampling on the device: on the device under test if it samples, otherwise on a CPU backend extended to do
// so. Compared with the sampler on the host.
#include <algorithm>
#include <array>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "core/engine/model/backends.h"
#include "core/engine/model/model_cache.h"
#include "core/sampling/device_draw.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/drawing_backend.h"
#include "tests/support/random_draws.h"

namespace quire::testing {
namespace {

constexpr Duration kPatience = std::chrono::minutes(5);

std::shared_ptr<Device> open_drawing_device() {
  std::shared_ptr<Device> device = open_test_device();
  if (device->has(kernels::kCapabilityDeviceSampling)) return device;
  return Device::open(drawing_backend(), 0, {});
}

class DeviceSamplingTest : public ::testing::Test {
 protected:
  static constexpr int32_t kMaxRows = 70;  // more than are processed at once
  static constexpr int32_t kMaxVocab = 40000;

  DeviceSamplingTest() : device_(open_drawing_device()), context_(device_, limits()) {}

  static kernels::ContextLimits limits() {
    kernels::ContextLimits limits;
    limits.max_tokens = limits.max_logit_rows = kMaxRows;
    limits.max_sequences = limits.max_pages_per_sequence = 1;
    limits.max_sample_edits = 1 << 16;
    limits.max_columns = limits.head_dim = 64;
    limits.num_heads = 1;
    limits.vocab_size = kMaxVocab;
    return limits;
  }

  // Draws all of them in one call, from rows wider than their vocabulary.
  std::vector<SampledToken> draw(const std::vector<RandomDraw>& all, int32_t stride) {
    std::vector<float> logits(all.size() * static_cast<size_t>(stride), 1e30F);
    DeviceDraws draws;
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t row = all.size() - 1 - i;
      std::copy(all[i].logits.begin(), all[i].logits.end(),
                logits.begin() + static_cast<ptrdiff_t>(row * static_cast<size_t>(stride)));
      EXPECT_TRUE(
          add_device_draw(all[i].request(), static_cast<int32_t>(row), limits().max_sample_edits, draws));
    }
    DeviceBuffer memory(device_, logits.size() * sizeof(float), "logits");
    memory.upload(gsl::as_bytes(gsl::span<const float>(logits)));
    std::vector<kernels::SampleOutcome> outcomes(all.size());
    kernels::SampleParams params;
    params.logits = memory.as<float>();
    params.stride = stride;
    params.vocab_size = all[0].vocab_size();
    params.rows = draws.rows.data();
    params.num_rows = static_cast<int32_t>(all.size());
    params.edits = draws.edits.data();
    params.num_edits = static_cast<int32_t>(draws.edits.size());
    params.outcomes = outcomes.data();
    context_.check(context_.table().sample(context_.handle(), &params), "sampling");
    context_.check(context_.table().synchronize(context_.handle()), "waiting");
    std::vector<SampledToken> sampled;
    for (const kernels::SampleOutcome& outcome : outcomes) sampled.push_back(sampled_by_device(outcome));
    return sampled;
  }

  std::shared_ptr<Device> device_;
  DeviceContext context_;
};

TEST_F(DeviceSamplingTest, AreWhatTheSamplerDraws) {
  constexpr std::array<int32_t, 12> kVocabs{1, 2, 31, 64, 100, 255, 1000, 1024, 4096, 4099, 9000, 32001};
  for (uint64_t seed = 1; seed <= 48; ++seed) {
    std::mt19937_64 random(seed);
    const int32_t vocab_size = kVocabs[seed % kVocabs.size()];
    const size_t num_rows = vocab_size > 5000 ? 4 : 1 + random() % kMaxRows;
    std::vector<RandomDraw> all;
    while (all.size() < num_rows) all.push_back(random_draw(random, vocab_size));
    const std::vector<SampledToken> device = draw(all, vocab_size + static_cast<int32_t>(random() % 6));
    Sampler sampler(vocab_size);
    for (size_t i = 0; i < all.size(); ++i) {
      const SampledToken host = sampler.sample(all[i].request());
      ASSERT_EQ(device[i].fault, host.fault)
          << "seed " << seed << ", draw " << i << ", vocabulary " << vocab_size;
      ASSERT_EQ(device[i].token, host.token)
          << "seed " << seed << ", draw " << i << ", vocabulary " << vocab_size;
      ASSERT_EQ(device[i].log_prob, host.log_prob) << "seed " << seed << ", draw " << i;
    }
  }
}

TEST_F(DeviceSamplingTest, AreTheLargestOfEachRowIfGreedy) {
  std::mt19937_64 random(3);
  std::vector<RandomDraw> all;
  for (int32_t i = 0; i < 9; ++i) {
    RandomDraw greedy{std::vector<float>(20003), SamplerState({.temperature = 0.0F}, 20003), {}, false};
    for (float& logit : greedy.logits) logit = static_cast<float>(random() % 5000);  // many are equal
    all.push_back(std::move(greedy));
  }
  all[2].logits[20002] = std::numeric_limits<float>::infinity();
  std::fill(all[3].logits.begin(), all[3].logits.end(), -std::numeric_limits<float>::infinity());
  all[4].logits[7] = std::numeric_limits<float>::quiet_NaN();
  Sampler sampler(20003);
  for (int32_t repeat = 0; repeat < 3; ++repeat) {  // the state left by a draw is used by the next one
    const std::vector<SampledToken> device = draw(all, 20003 + repeat);
    for (size_t i = 0; i < all.size(); ++i) {
      const SampledToken host = sampler.sample(all[i].request());
      EXPECT_EQ(device[i].fault, host.fault) << "draw " << i;
      EXPECT_EQ(device[i].token, host.token) << "draw " << i;
    }
  }
}

std::shared_ptr<const Model> load_on(std::shared_ptr<Device> device) {
  ModelOptions options;
  options.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
  options.devices = {std::move(device)};
  return Model::load(options);
}

std::shared_ptr<Engine> make_cache(const std::shared_ptr<const Model>& model) {
  ModelCacheOptions options;
  options.engine.drafting.drafter = DrafterKind::none;  // drafts take the place of steps issued ahead
  options.max_batch_size = 16;
  options.max_chunk_tokens = 32;
  options.max_tokens = 4096;
  options.max_seq_len = 256;
  options.engine.check_invariants = true;
  return create_model_cache(Runtime::create({}), model, options);
}

// Returns requests of which some need features a device lacks, and one needs whole rows.
std::vector<JobRequest> requests(const Tokenizer& tokenizer) {
  std::vector<JobRequest> all;
  for (int32_t i = 0; i < 9; ++i) {
    JobRequest request;
    request.prompt = tokenizer.encode("Once upon a time there was a king who had " + std::to_string(i) +
                                      " sons and a great deal of trouble with every one of them, and so he");
    request.max_new_tokens = 6 + 2 * i;
    request.min_new_tokens = i % 4;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.sampling.temperature = i % 3 == 0 ? 0.0F : 0.9F;
    request.sampling.top_k = i % 3 == 1 ? 50 : 0;
    request.sampling.top_p = i % 3 == 2 ? 0.9F : 1.0F;
    request.sampling.repetition_penalty = i % 2 == 0 ? 1.2F : 1.0F;
    request.want_log_probs = i % 2 == 1;
    all.push_back(std::move(request));
  }
  all[4].sampling.logit_bias = {{400, 4.0F}, {401, -2.0F}};
  all[5].num_top_log_probs = 3;
  all[6].sampling.penalty_range = 4;
  all[6].sampling.penalty_decay = 8;
  all[7].kind = JobKind::score;
  return all;
}

struct Said {
  TokenIds tokens;
  std::vector<float> log_probs;
  std::vector<float> scores;
};

std::vector<Said> run_together(Engine& cache, const std::vector<JobRequest>& all) {
  std::vector<std::shared_ptr<Job>> jobs;
  for (const JobRequest& request : all) jobs.push_back(cache.submit(request));
  std::vector<Said> said(all.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    while (const auto event = jobs[i]->poll(kPatience)) {
      said[i].tokens.insert(said[i].tokens.end(), event->token_ids.begin(), event->token_ids.end());
      said[i].log_probs.insert(said[i].log_probs.end(), event->log_probs.begin(), event->log_probs.end());
      if (event->terminal()) break;
    }
    EXPECT_NE(jobs[i]->result().reason, FinishReason::failed) << jobs[i]->result().message;
    if (all[i].kind == JobKind::score) said[i].scores = jobs[i]->scores();
  }
  return said;
}

// Only on the CPU: logits of another device are not bit-identical.
TEST(JobsOnADrawingDevice, GenerateTheSameTextAsWithoutIt) {
  const auto plain = load_on(Device::open(*find_backends()[0].backend, 0, {}));
  const auto drawing = load_on(Device::open(drawing_backend(), 0, {}));
  const std::vector<JobRequest> all = requests(plain->tokenizer());
  const int64_t drawn_before = num_rows_drawn();
  const auto expected = run_together(*make_cache(plain), all);
  EXPECT_EQ(num_rows_drawn(), drawn_before);
  const auto said = run_together(*make_cache(drawing), all);
  EXPECT_GT(num_rows_drawn(), drawn_before + 30);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(said[i].tokens, expected[i].tokens) << "job " << i;
    EXPECT_EQ(said[i].log_probs, expected[i].log_probs) << "job " << i;
    EXPECT_EQ(said[i].scores, expected[i].scores) << "job " << i;
  }
}

TEST(JobsOnADrawingDevice, CopyOnlyTheRowsOfLogitsThatTheyNeed) {
  const auto model = load_on(Device::open(drawing_backend(), 0, {}));
  const auto cache = make_cache(model);
  std::vector<JobRequest> all = requests(model->tokenizer());
  const JobRequest score = all[7];
  all.erase(all.begin() + 5, all.begin() + 8);
  int64_t before = num_rows_read();
  run_together(*cache, all);
  EXPECT_EQ(num_rows_read(), before);
  before = num_rows_read();
  run_together(*cache, {score});
  EXPECT_GE(num_rows_read() - before, static_cast<int64_t>(score.prompt.size()) - 1);
}

// Returns jobs whose steps can be issued ahead, of several lengths, some of which stop unexpectedly.
std::vector<JobRequest> plain_requests(const Tokenizer& tokenizer) {
  std::vector<JobRequest> all;
  for (int32_t i = 0; i < 6; ++i) {
    JobRequest request;
    request.prompt = tokenizer.encode("There was a king who had " + std::to_string(i) + " sons, and so he");
    request.max_new_tokens = 16 + 3 * i;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    request.want_log_probs = true;
    if (i % 3 == 1) request.stop_strings = {"the", "."};
    all.push_back(std::move(request));
  }
  return all;
}

TEST(JobsOnADrawingDevice, GenerateTheSameTextInStepsThatAreIssuedAhead) {
  const auto plain = load_on(Device::open(*find_backends()[0].backend, 0, {}));
  const auto drawing = load_on(Device::open(drawing_backend(), 0, {}));
  const std::vector<JobRequest> all = plain_requests(plain->tokenizer());
  const auto expected = run_together(*make_cache(plain), all);
  const int64_t before = num_steps_followed();
  const auto said = run_together(*make_cache(drawing), all);
  EXPECT_GT(num_steps_followed(), before + 10);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(said[i].tokens, expected[i].tokens) << "job " << i;
    EXPECT_EQ(said[i].log_probs, expected[i].log_probs) << "job " << i;
  }
}

// The pass after a pass that was issued ahead and dropped has other outcomes in flight than usual.
class DroppedPassesTest : public ::testing::Test {
 protected:
  DroppedPassesTest() {
    ModelCacheOptions options;
    options.engine.drafting.drafter = DrafterKind::none;
    options.page_tokens = 16;
    options.max_tokens = options.max_seq_len = 64;
    cache_ = create_model_cache(Runtime::create({}), load_on(open_drawing_device()), options);
  }

  static JobRequest greedy(int32_t num_prompt_tokens, int32_t max_new_tokens) {
    JobRequest request;
    for (int32_t i = 0; i < num_prompt_tokens; ++i) request.prompt.push_back(300 + i);
    request.max_new_tokens = max_new_tokens;
    request.ignore_end_tokens = true;
    request.sampling.temperature = 0.0F;
    return request;
  }
  TokenIds run(const JobRequest& request) { return run_together(*cache_, {request}).front().tokens; }

  std::shared_ptr<Engine> cache_;
};

// A job that generates what another one has generated gets that job's page when its own is full, so the pass
// that was issued ahead on its own page is dropped. Jobs of an odd number of draws begin in different slots
// of a context.
TEST_F(DroppedPassesTest, ChangeNoTextIfAPageIsReplacedByAnEqualOne) {
  const JobRequest request = greedy(13, 7);
  const TokenIds expected = run(request);
  for (int32_t i = 0; i < 2; ++i) EXPECT_EQ(run(request), expected) << i;
}

TEST_F(DroppedPassesTest, ChangeNoTextOfAJobAfterOneThatStopsUnexpectedly) {
  const JobRequest request = greedy(4, 4);
  const TokenIds expected = run(request);
  for (size_t i = 0; i < 2; ++i) {
    JobRequest stops = request;
    stops.stop_tokens = {expected[i]};
    run(stops);
    EXPECT_EQ(run(request), expected) << i;
  }
}

}  // namespace
}  // namespace quire::testing
