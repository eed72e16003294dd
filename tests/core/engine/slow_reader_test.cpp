// One reader takes a token per second while 31 keep up. Counts the tokens of those 31 over a period of
// simulated time on the fake device, and compares it with the same period in which all 32 keep up.
#include <gtest/gtest.h>

#include "tests/support/case_stride.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

constexpr int32_t kNumFast = 31;
constexpr int32_t kPromptTokens = 8;
constexpr int32_t kNewTokens = 100;
constexpr auto kStepTime = std::chrono::milliseconds(20);
constexpr int32_t kStepsPerSecond = 50;
constexpr int32_t kNumSteps = 12 * kStepsPerSecond / stride_if_sanitized(4);

enum class Reading { keeps_up, one_a_second, never, dropped };

struct Scene {
  SlowReaderPolicy policy = SlowReaderPolicy::coalesce;
  Reading reading = Reading::keeps_up;
  int32_t num_pages = 0;
};

// A client that submits its next job as soon as the previous one has finished.
class Client {
 public:
  Client(Engine& cache, int32_t number, SlowReaderPolicy policy) : cache_(cache) {
    request_.max_new_tokens = kNewTokens;
    request_.sampling.temperature = 0.0F;
    request_.slow_reader = policy;
    request_.max_unread_events = 8;
    for (int32_t i = 0; i < kPromptTokens; ++i) request_.prompt.push_back((number * 5 + i) % kVocab);
  }

  void submit_where_idle() {
    if (job_ == nullptr || job_->state() == JobState::finished) job_ = cache_.submit(request_);
  }
  // Returns the number of tokens in up to max_events events.
  size_t read(size_t max_events) {
    size_t num_tokens = 0;
    for (size_t i = 0; i < max_events && job_ != nullptr; ++i) {
      const auto event = job_->poll(Duration{0});
      if (!event.has_value()) break;
      num_tokens += event->token_ids.size();
    }
    return num_tokens;
  }
  void drop() { job_.reset(); }
  bool has_job() const { return job_ != nullptr; }

 private:
  Engine& cache_;
  JobRequest request_;
  std::shared_ptr<Job> job_;
};

// Returns the number of tokens that the 31 readers received.
size_t tokens_of_fast_readers(const Scene& scene) {
  SimulatedClock clock;
  FakeEngineOptions options;
  options.limits = {512, kNumFast + 1, kNumFast + 1, 64, scene.num_pages, 4, kVocab};
  options.clock = &clock;
  options.cache.start_thread = false;
  FakeEngine engine(options);
  std::vector<Client> fast;
  for (int32_t i = 0; i < kNumFast; ++i) fast.emplace_back(*engine.cache, i, SlowReaderPolicy::coalesce);
  Client slow(*engine.cache, kNumFast, scene.policy);
  slow.submit_where_idle();
  size_t num_tokens = 0;
  for (int32_t step = 0; step < kNumSteps; ++step) {
    for (Client& client : fast) client.submit_where_idle();
    engine.cache->thread().run_once();
    clock.advance(kStepTime);
    for (Client& client : fast) num_tokens += client.read(1000);
    if (scene.reading == Reading::keeps_up) slow.read(1000);
    if (scene.reading == Reading::one_a_second && step % kStepsPerSecond == 0) slow.read(1);
    if (scene.reading == Reading::dropped && step == kStepsPerSecond) slow.drop();
    if (scene.reading != Reading::never && slow.has_job()) slow.submit_where_idle();
  }
  return num_tokens;
}

// Pages of 4 tokens: as many as all jobs can ever need, and as many as 31 jobs need at their longest.
constexpr int32_t kPagesOfJob = (kPromptTokens + kNewTokens + 3) / 4;
constexpr int32_t kPlenty = kPagesOfJob * (kNumFast + 9);
constexpr int32_t kScarce = kPagesOfJob * kNumFast;

class SlowReaderTest : public ::testing::TestWithParam<SlowReaderPolicy> {};

std::string policy_name(const ::testing::TestParamInfo<SlowReaderPolicy>& of) {
  constexpr const char* kNames[] = {"Coalesce", "Pause", "End"};
  return kNames[static_cast<int32_t>(of.param)];
}

INSTANTIATE_TEST_SUITE_P(Policies, SlowReaderTest,
                         ::testing::Values(SlowReaderPolicy::coalesce, SlowReaderPolicy::pause,
                                           SlowReaderPolicy::end),
                         policy_name);

TEST_P(SlowReaderTest, TheOthersKeepTheirSpeed) {
  for (const int32_t num_pages : {kPlenty, kScarce}) {
    const size_t all_keep_up = tokens_of_fast_readers({GetParam(), Reading::keeps_up, num_pages});
    EXPECT_GE(all_keep_up, static_cast<size_t>(kNumFast) * kNumSteps * 9 / 10)
        << "the workload itself is slow";
    for (const Reading reading : {Reading::one_a_second, Reading::never, Reading::dropped}) {
      const size_t beside_slow = tokens_of_fast_readers({GetParam(), reading, num_pages});
      const double share = static_cast<double>(beside_slow) / static_cast<double>(all_keep_up);
      EXPECT_GE(share, 0.98) << "reading " << static_cast<int32_t>(reading) << ", " << num_pages << " pages";
      RecordProperty(
          "share_" + std::to_string(static_cast<int32_t>(reading)) + "_" + std::to_string(num_pages),
          std::to_string(share));
    }
  }
}

}  // namespace
}  // namespace quire::testing
