// Time that the engine itself takes per step, outside the executor: plan, reserve, build the batch, draw,
// verify, commit and emit, for jobs that all decode, with and without waiting jobs. The time of a draw
// depends on the vocabulary: it is negligible with 64 ids, and shows with larger vocabularies. Texts are
// decoded by a real tokenizer.
#include <chrono>

#include <benchmark/benchmark.h>

#include "core/base/file_system.h"
#include "core/engine/engine.h"
#include "core/engine/loop/engine_thread.h"
#include "core/engine/model/tokenizer_codec.h"

namespace quire {
namespace {

constexpr int32_t kMaxSeqLen = 1 << 17;
constexpr int32_t kPageTokens = 256;
constexpr int32_t kMaxJobs = 64;
constexpr uint64_t kMaxTokenizerBytes = uint64_t{64} << 20;

// An executor that computes nothing: the likeliest token varies by row.
class NullExecutor final : public Executor {
 public:
  explicit NullExecutor(int32_t vocab_size) : likeliest_(kMaxJobs, 0) {
    limits_.max_tokens = 512;
    limits_.max_sequences = limits_.max_logit_rows = kMaxJobs;
    limits_.max_pages_per_sequence = kMaxSeqLen / kPageTokens;
    limits_.num_pages = kMaxJobs * limits_.max_pages_per_sequence;
    limits_.page_tokens = kPageTokens;
    limits_.vocab_size = vocab_size;
    logits_.assign(size_t{kMaxJobs} * static_cast<size_t>(vocab_size), 0.5F);
  }

  const ExecutorLimits& limits() const override { return limits_; }

  Ticket forward(const Batch& batch) override {
    num_rows_ = batch.num_logit_rows();
    for (int32_t row = 0; row < num_rows_; ++row) {
      const size_t start = static_cast<size_t>(row) * static_cast<size_t>(limits_.vocab_size);
      size_t& likeliest = likeliest_[static_cast<size_t>(row)];
      logits_[start + likeliest] = 0.5F;
      likeliest = ++num_drawn_ * 7919 % static_cast<size_t>(limits_.vocab_size);
      logits_[start + likeliest] = 1.0F;
    }
    return Ticket{++num_steps_};
  }

  void draw(Ticket, const DeviceDraws&) override {}

  Drawn wait(Ticket) override {
    const size_t size = static_cast<size_t>(num_rows_) * static_cast<size_t>(limits_.vocab_size);
    return {gsl::span<const float>(logits_).first(size), limits_.vocab_size};
  }

 private:
  ExecutorLimits limits_;
  std::vector<float> logits_;
  std::vector<size_t> likeliest_;  // of each row in the last step
  size_t num_drawn_ = 0;
  uint64_t num_steps_ = 0;
  int32_t num_rows_ = 0;
};

std::shared_ptr<const Tokenizer> load_tokenizer() {
  const std::string file =
      posix_file_system().read_text(QUIRE_EMBEDDED_MODEL "/tokenizer.json", kMaxTokenizerBytes);
  return Tokenizer::load({file, {}, {}, {}});
}

std::shared_ptr<Engine> make_cache(int32_t vocab_size) {
  EngineParts parts;
  parts.executor = std::make_unique<NullExecutor>(vocab_size);
  parts.codec = std::make_shared<TokenizerCodec>(load_tokenizer());
  parts.num_tokens = vocab_size;
  parts.max_seq_len = kMaxSeqLen;
  EngineOptions options;
  options.start_thread = false;
  return Engine::create(Runtime::create({}), std::move(parts), options);
}

std::vector<std::shared_ptr<Job>> start_jobs(Engine& cache, int32_t num_jobs) {
  std::vector<std::shared_ptr<Job>> jobs;
  for (TokenId i = 0; i < num_jobs; ++i) {
    JobRequest request;
    request.prompt = {i % kMaxJobs, 1, 2};
    request.sampling.temperature = 0.0F;
    request.max_new_tokens = kMaxSeqLen / 2;
    request.ignore_end_tokens = true;
    jobs.push_back(cache.submit(request));
  }
  for (int32_t i = 0; i < 10; ++i) cache.thread().run_once();
  return jobs;
}

// Reads events, which other threads do in a service; not included in the time of a step.
void take_events(const std::vector<std::shared_ptr<Job>>& jobs) {
  for (const auto& job : jobs) {
    while (job->poll(Duration{0}).has_value()) {
    }
  }
}

void decode_step(benchmark::State& state) {
  const std::shared_ptr<Engine> cache = make_cache(static_cast<int32_t>(state.range(2)));
  const auto jobs = start_jobs(*cache, static_cast<int32_t>(state.range(0) + state.range(1)));
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    cache->thread().run_once();
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    take_events(jobs);
  }
}
// Fixed numbers of steps: if all jobs had ended, the mean would be meaningless.
constexpr int32_t kNumSteps = 20000;
static_assert(kNumSteps < kMaxSeqLen / 2);
BENCHMARK(decode_step)
    ->ArgNames({"jobs", "waiting", "vocab"})
    ->Args({1, 0, 64})
    ->Args({16, 0, 64})
    ->Args({64, 0, 64})
    ->Args({64, 960, 64})
    ->Iterations(kNumSteps)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(decode_step)
    ->ArgNames({"jobs", "waiting", "vocab"})
    ->Args({64, 0, 6144})
    ->Args({64, 0, 128256})
    ->Iterations(kNumSteps / 100)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
