// Jobs on the device under test: texts of two models on it, and embeddings.
#include <numeric>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "core/engine/model/model_cache.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/exhausted_memory.h"
#include "tests/support/job_tokens.h"

namespace quire::testing {
namespace {

constexpr int32_t kJobs = 6;

std::shared_ptr<const Model> load_on(std::shared_ptr<Device> device, const std::string& path) {
  ModelOptions options;
  options.source = open_model_source(posix_file_system(), path);
  options.devices = {std::move(device)};
  return Model::load(options);
}

std::shared_ptr<Engine> make_cache(const std::shared_ptr<const Model>& model) {
  ModelCacheOptions options;
  options.max_batch_size = kJobs;
  options.max_chunk_tokens = 32;
  options.max_tokens = 2048;
  options.max_seq_len = 256;
  return create_model_cache(Runtime::create({}), model, options);
}

JobRequest request_of(const Model& model, int32_t index) {
  JobRequest request;
  for (int32_t i = 0; i < 40 + 9 * index; ++i)
    request.prompt.push_back((i * i + 31 * index) % model.shape().vocab_size);
  request.max_new_tokens = 24;
  request.ignore_end_tokens = true;
  request.sampling.temperature = index % 2 == 0 ? 0.0F : 0.8F;
  request.sampling.top_p = 0.95F;
  request.sampling.seed = static_cast<uint64_t>(index);
  return request;
}

TokenIds all_tokens_of(Job& job) {
  TokenIds tokens = tokens_of(job);
  EXPECT_EQ(job.result().reason, FinishReason::max_new_tokens) << job.result().message;
  return tokens;
}

std::vector<TokenIds> run(const Model& model, Engine& cache) {
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < kJobs; ++i) jobs.push_back(cache.submit(request_of(model, i)));
  std::vector<TokenIds> said;
  for (const auto& job : jobs) said.push_back(all_tokens_of(*job));
  return said;
}

TEST(DeviceJobs, TwoModelsOnOneDeviceGenerateTheSameTextsAsAlone) {
  const std::shared_ptr<Device> device = open_test_device();
  const std::vector<std::shared_ptr<const Model>> models = {
      load_on(device, QUIRE_EMBEDDED_MODEL),
      load_on(device, std::string(QUIRE_TEST_DATA) + "/architectures/llama3")};
  std::vector<std::vector<TokenIds>> alone;
  for (const auto& model : models) alone.push_back(run(*model, *make_cache(model)));
  for (int32_t round = 0; round < 3; ++round) {
    std::vector<std::vector<TokenIds>> together(models.size());
    std::vector<std::thread> clients;
    for (size_t i = 0; i < models.size(); ++i)
      clients.emplace_back([&, i] { together[i] = run(*models[i], *make_cache(models[i])); });
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(together, alone) << "round " << round;
  }
}

std::vector<float> embedding_of(const std::shared_ptr<const Model>& model, Pooling pooling) {
  const auto cache = make_cache(model);
  JobRequest request = request_of(*model, 3);
  request.kind = JobKind::embed;
  request.pooling = pooling;
  const auto job = cache->submit(request);
  EXPECT_TRUE(job->wait(kPatience));
  EXPECT_EQ(job->result().reason, FinishReason::completed) << job->result().message;
  return job->embedding();
}

// Compares normalized vectors, within the precision of the activation type.
TEST(DeviceJobs, EmbeddingsAreThoseOfTheCpu) {
  const auto model = load_model(QUIRE_EMBEDDED_MODEL);
  const auto on_cpu = load_on(Device::open(kernels::cpu_backend(), 0, {}), QUIRE_EMBEDDED_MODEL);
  for (const Pooling pooling : {Pooling::mean, Pooling::last}) {
    const std::vector<float> embedding = embedding_of(model, pooling);
    const std::vector<float> expected = embedding_of(on_cpu, pooling);
    const double error = relative_rms(embedding, expected);
    RecordProperty(pooling == Pooling::mean ? "relative_rms_mean" : "relative_rms_last",
                   std::to_string(error));
    EXPECT_LE(error, tolerance(1e-6, 1e-2));
  }
}

// No device memory is allocated between the construction of a cache and its end, whatever its jobs do, even
// if the device has no memory left.
TEST(DeviceJobs, NoDeviceMemoryIsAllocatedWhileJobsRun) {
  const std::shared_ptr<Device> device = open_test_device();
  const auto model = load_on(device, QUIRE_EMBEDDED_MODEL);
  const auto cache = make_cache(model);
  std::optional<kernels::ExhaustedMemory> rest;
  if (!device->is_host()) rest.emplace(device->table(), device->handle());
  const uint64_t num_taken = device->memory_use().num_taken;
  std::vector<std::vector<TokenIds>> said;
  for (int32_t round = 0; round < 3; ++round) said.push_back(run(*model, *cache));
  JobRequest request = request_of(*model, 3);
  request.kind = JobKind::embed;
  const auto job = cache->submit(request);
  EXPECT_TRUE(job->wait(kPatience));
  EXPECT_EQ(job->result().reason, FinishReason::completed) << job->result().message;
  EXPECT_EQ(device->memory_use().num_taken, num_taken);
  rest.reset();
  EXPECT_EQ(said, std::vector<std::vector<TokenIds>>(3, run(*model, *make_cache(model))));
}

}  // namespace
}  // namespace quire::testing
