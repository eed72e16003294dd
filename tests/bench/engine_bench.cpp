// What the engine itself takes per step, outside the executor: plan, reserve, pack, sample, commit, emit.
#include <benchmark/benchmark.h>

#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

// An executor that computes nothing: its logits are always the same.
class NullExecutor final : public Executor {
 public:
  explicit NullExecutor(const ExecutorLimits& limits)
      : limits_(limits),
        logits_(static_cast<size_t>(limits.max_logit_rows) * static_cast<size_t>(limits.vocab_size), 0.5F) {}
  const ExecutorLimits& limits() const override { return limits_; }
  void forward(const Batch& batch) override { num_rows_ = batch.num_logit_rows(); }
  Logits logits() override {
    const auto size = static_cast<size_t>(num_rows_) * static_cast<size_t>(limits_.vocab_size);
    return {gsl::span<const float>(logits_).first(size), limits_.vocab_size};
  }

 private:
  ExecutorLimits limits_;
  std::vector<float> logits_;
  int32_t num_rows_ = 0;
};

void decode_step(benchmark::State& state) {
  const auto num_jobs = static_cast<int32_t>(state.range(0));
  constexpr int32_t kSeqLen = 1 << 17;
  ExecutorLimits limits{512, 64, 512, kSeqLen / 256, 64 * 512, 256, 32};
  CacheOptions options;
  options.start_thread = false;
  CacheParts parts;
  parts.executor = std::make_unique<NullExecutor>(limits);
  parts.codec = std::make_shared<FakeCodec>();
  parts.num_tokens = limits.vocab_size;
  parts.max_seq_len = kSeqLen;
  const auto cache = Cache::create(Runtime::create({}), std::move(parts), options);
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < num_jobs; ++i) {
    JobRequest request;
    request.prompt = {static_cast<TokenId>(i % limits.vocab_size), 1, 2};
    request.sampling.temperature = 0.0F;
    request.max_new_tokens = 100000;
    jobs.push_back(cache->submit(request));
  }
  for (int32_t i = 0; i < 10; ++i) cache->core().run_once();
  for (auto _ : state) {
    cache->core().run_once();
    state.PauseTiming();
    for (const auto& job : jobs) {
      while (job->poll(Duration{0}).has_value()) {
      }
    }
    state.ResumeTiming();
  }
}
BENCHMARK(decode_step)->Arg(1)->Arg(16)->Arg(64)->Iterations(20000);

}  // namespace
}  // namespace quire::testing
