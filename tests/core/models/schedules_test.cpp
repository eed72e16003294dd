// The embedded model on the CPU: the output of a job is bit-identical alone or with any other jobs, with a
// cold or a cached prefix, in any chunks, with any page size and any number of threads.
#include <gtest/gtest.h>

#include "core/engine/model/model_cache.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/drawing_backend.h"
#include "tests/support/random_schedule.h"

namespace quire::testing {
namespace {

constexpr int32_t kMaxSeqLen = 160;

std::shared_ptr<const Model> load_on(std::shared_ptr<Device> device) {
  ModelOptions options;
  options.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
  options.devices = {std::move(device)};
  return Model::load(options);
}

std::shared_ptr<const Model> load_with_threads(int32_t num_threads) {
  kernels::DeviceOptions device;
  device.num_threads = num_threads;
  return load_on(Device::open(kernels::cpu_backend(), 0, device));
}

std::vector<JobRequest> requests(const Tokenizer& tokenizer) {
  std::vector<JobRequest> all;
  std::string story;
  for (int32_t i = 0; i < 7; ++i) {
    story += i % 2 == 0 ? "Once upon a time there was a king who had three sons. "
                        : "They went out into the wood. ";
    JobRequest request;
    request.prompt = tokenizer.encode(story + (i % 3 == 0 ? "But" : ""));
    request.max_new_tokens = 4 + 3 * i;
    request.ignore_end_tokens = true;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    if (i % 3 == 1) request.sampling.repetition_penalty = 1.3F;
    request.want_log_probs = true;
    request.num_top_log_probs = i % 2 == 1 ? 3 : 0;
    if (i == 3) {
      request.kind = JobKind::score;
      request.want_raw_logits = true;
    }
    all.push_back(std::move(request));
  }
  return all;
}

ModelCacheOptions wide(kernels::KvFormat format) {
  ModelCacheOptions options;
  options.max_tokens = 1024;
  options.max_seq_len = kMaxSeqLen;
  options.max_batch_size = 8;
  options.key_format = options.value_format = format;
  options.engine.start_thread = false;
  options.engine.drafting.drafter = DrafterKind::none;
  return options;
}

ModelCacheOptions any_shape(kernels::KvFormat format, std::mt19937_64& random) {
  const auto below = [&](uint32_t limit) { return static_cast<int32_t>(random() % limit); };
  ModelCacheOptions options = wide(format);
  options.page_tokens = 1 << below(9);
  options.max_tokens = kMaxSeqLen + options.page_tokens + below(400);
  options.max_batch_size = 1 + below(8);
  options.max_chunk_tokens = 1 + below(below(2) == 0 ? 12 : 200);
  options.engine.drafting = {below(4) == 0 ? DrafterKind::none : DrafterKind::ngram, 1 + below(kMaxDrafts)};
  options.engine.check_invariants = true;
  return options;
}

// Returns the requests whose steps can be issued ahead if the device draws.
std::vector<JobRequest> plain_requests(const Tokenizer& tokenizer) {
  std::vector<JobRequest> all = requests(tokenizer);
  std::erase_if(all, [](const JobRequest& request) { return request.kind != JobKind::generate; });
  for (JobRequest& request : all) {
    request.max_new_tokens *= 2;
    request.sampling.repetition_penalty = 1.0F;
    request.num_top_log_probs = 0;
  }
  all.front().stop_strings = {"a"};
  return all;
}

class ModelSchedules : public ::testing::TestWithParam<kernels::KvFormat> {};

TEST_P(ModelSchedules, GiveTheSameBits) {
  std::vector<std::shared_ptr<const Model>> models;
  for (const int32_t num_threads : {1, 2, 3}) models.push_back(load_with_threads(num_threads));
  std::vector<KnownJob> known;
  for (const JobRequest& request : requests(models[0]->tokenizer())) {
    const auto cache = create_model_cache(Runtime::create({}), models[0], wide(GetParam()));
    known.push_back({request, run_alone(*cache, request)});
  }
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    std::mt19937_64 random(seed);
    const auto& model = models[random() % models.size()];
    const auto cache = create_model_cache(Runtime::create({}), model, any_shape(GetParam(), random));
    for (int32_t round = 0; round < 2; ++round) {
      ASSERT_EQ(run_random_schedule(*cache, known, random), "") << "seed " << seed << ", round " << round;
    }
  }
}

// A device that draws tokens and runs steps issued ahead, with the same arithmetic.
TEST(ModelSchedulesOfADrawingDevice, GiveTheSameBits) {
  const auto plain = load_on(Device::open(kernels::cpu_backend(), 0, {}));
  const auto drawing = load_on(Device::open(drawing_backend(), 0, {}));
  const ModelCacheOptions options = wide(kernels::KvFormat::f16);
  std::vector<KnownJob> known;
  for (const JobRequest& request : plain_requests(plain->tokenizer()))
    known.push_back({request, run_alone(*create_model_cache(Runtime::create({}), plain, options), request)});
  const int64_t before = num_steps_followed();
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    std::mt19937_64 random(seed);
    const auto cache =
        create_model_cache(Runtime::create({}), drawing, any_shape(kernels::KvFormat::f16, random));
    for (int32_t round = 0; round < 2; ++round) {
      ASSERT_EQ(run_random_schedule(*cache, known, random), "") << "seed " << seed << ", round " << round;
    }
  }
  EXPECT_GT(num_steps_followed() - before, 50);
}

INSTANTIATE_TEST_SUITE_P(KvFormats, ModelSchedules,
                         ::testing::Values(kernels::KvFormat::f16, kernels::KvFormat::q8,
                                           kernels::KvFormat::q4, kernels::KvFormat::fp8));

}  // namespace
}  // namespace quire::testing
